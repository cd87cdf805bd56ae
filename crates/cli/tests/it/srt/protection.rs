//! Names that are protected are not written, made, moved or removed by any way there is.

use std::{fs, process::Command};

use serde_json::json;

use super::{srt, with};
use crate::case::{Case, as_everybody, eventually, has_tool, marker, processes_with};

fn repository(case: &Case, directory: &str) {
    let path = case.work.join(directory);
    case.directory(&path);
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "safe.directory=*", "-c", "user.name=a", "-c", "user.email=a@example.com"]);
        assert!(command.args(args).current_dir(&path).env("HOME", &case.home).status().unwrap().success());
    };
    git(&["init", "-q", "."]);
    fs::write(path.join("f"), "f").unwrap();
    git(&["add", "f"]);
    git(&["commit", "-qm", "first"]);
    let owner = case.who.uid().to_string();
    assert!(
        Command::new("chown")
            .args(["-R", &format!("{owner}:{owner}")])
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
}

/// Every way is tried; none may change what is there or make what is not.
const WAYS: &str = r#"
import os, ctypes, threading
libc = ctypes.CDLL(None, use_errno=True)
def tried(what, act):
    try:
        act()
        print('DONE', what)
    except OSError as error:
        print('refused', what, error.errno)
for name in ('.bashrc', 'sub/.bashrc', '.env', 'keys/a.pem', 'keys/new.pem'):
    tried(f'write {name}', lambda: os.close(os.open(name, os.O_WRONLY)))
    tried(f'create {name}', lambda: os.close(os.open(name, os.O_WRONLY | os.O_CREAT)))
    tried(f'trunc {name}', lambda: os.close(os.open(name, os.O_RDONLY | os.O_TRUNC)))
    if not os.path.exists(name):
        tried(f'create to read {name}', lambda: os.close(os.open(name, os.O_RDONLY | os.O_CREAT)))
    tried(f'truncate {name}', lambda: os.truncate(name, 0))
    tried(f'unlink {name}', lambda: os.unlink(name))
    tried(f'link from {name}', lambda: os.link(name, 'other-name'))
    tried(f'link to {name}', lambda: os.link('plain', name))
    tried(f'symlink {name}', lambda: os.symlink('plain', name))
    tried(f'mkdir {name}', lambda: os.mkdir(name))
    tried(f'mknod {name}', lambda: os.mknod(name))
    tried(f'mkfifo {name}', lambda: os.mkfifo(name))
    tried(f'rename from {name}', lambda: os.rename(name, 'moved'))
    tried(f'rename to {name}', lambda: os.rename('plain', name))
    tried(f'exchange {name}', lambda: libc.renameat2(-100, b'plain', -100, name.encode(), 2) and (_ for _ in ()).throw(OSError(ctypes.get_errno(), '')))
    def tmpfile():
        fd = os.open('.', os.O_WRONLY | os.O_TMPFILE)
        os.write(fd, b'evil')
        os.link(f'/proc/self/fd/{fd}', name, follow_symlinks=True)
    tried(f'tmpfile {name}', tmpfile)
    def reopen():
        fd = os.open(name, os.O_RDONLY)
        os.close(os.open(f'/proc/self/fd/{fd}', os.O_RDWR))
    tried(f'reopen {name}', reopen)
    def by_handle():
        fd = os.open(name, os.O_PATH)
        os.close(os.open(f'/proc/self/fd/{fd}', os.O_WRONLY))
    tried(f'by handle {name}', by_handle)
"#;

#[test]
fn no_way_leads_to_a_protected_name() {
    as_everybody(|case| {
        for (name, text) in
            [("sub/.bashrc", "mine"), (".env", "secret"), ("keys/a.pem", "key"), ("plain", "plain")]
        {
            case.file(name, text);
        }
        let settings = with(&json!({}), &json!({ "allowWrite": ["."], "denyWrite": [".env", "**/*.pem"] }));
        let outcome = srt(case, &settings, ["/usr/bin/python3", "-c", WAYS]).go().exits(0);
        assert!(!outcome.out().contains("DONE"), "{outcome:?}");
        for (name, text) in
            [("sub/.bashrc", "mine"), (".env", "secret"), ("keys/a.pem", "key"), ("plain", "plain")]
        {
            assert_eq!(fs::read_to_string(case.work.join(name)).unwrap(), text, "{name}");
        }
        for name in [".bashrc", "keys/new.pem", "other-name", "moved"] {
            assert!(fs::symlink_metadata(case.work.join(name)).is_err(), "{name}");
        }
    });
}

#[test]
fn the_same_ways_work_without_the_walls() {
    as_everybody(|case| {
        case.file("sub/.bashrc", "mine");
        case.file("plain", "plain");
        let outcome = case.python(&[], WAYS).exits(0);
        assert!(outcome.out().matches("DONE").count() > 20, "{outcome:?}");
    });
}

#[test]
fn a_prepared_directory_cannot_be_moved_to_where_it_would_be_protected() {
    as_everybody(|case| {
        let settings = with(&json!({}), &json!({ "allowWrite": ["."] }));
        let script = "mkdir -p x/commands y/.claude z && echo evil > x/commands/c.md; \
                      mv x .claude; mv x y/.claude/agents; mv z .vscode; ln -s x .claude; ln -s ../x y/.idea; true";
        srt(case, &settings, ["-c", script]).go().exits(0);
        for name in [".claude", "y/.claude/agents", ".vscode", "y/.idea"] {
            assert!(fs::symlink_metadata(case.work.join(name)).is_err(), "{name}");
        }
    });
}

#[test]
fn a_repository_that_was_there_keeps_its_hooks_and_its_config() {
    if !has_tool("git") {
        return;
    }
    as_everybody(|case| {
        repository(case, ".");
        repository(case, "deep/er/still/further/repo");
        let config = fs::read_to_string(case.work.join(".git/config")).unwrap();
        let settings = with(&json!({}), &json!({ "allowWrite": ["."] }));
        let script = "for r in . deep/er/still/further/repo; do \
                        echo evil > $r/.git/hooks/pre-commit; echo evil >> $r/.git/config; \
                        mv $r/.git $r/old; rm -rf $r/.git/hooks; ln $r/.git/config $r/alias; done; \
                      mv deep away; mv deep/er away; mkdir evil && mv evil deep/er/still/further/repo/.git/hooks/x; true";
        srt(case, &settings, ["-c", script]).go().exits(0);
        for directory in [".", "deep/er/still/further/repo"] {
            let repository = case.work.join(directory);
            assert!(repository.join(".git/hooks").is_dir());
            assert!(!repository.join(".git/hooks/pre-commit").exists(), "{directory}");
            assert_eq!(fs::read_to_string(repository.join(".git/config")).unwrap(), config, "{directory}");
            assert!(!repository.join("alias").exists() && !repository.join("old").exists());
        }
    });
}

#[test]
fn a_repository_of_its_own_can_be_made_cloned_and_configured() {
    if !has_tool("git") {
        return;
    }
    as_everybody(|case| {
        repository(case, "old");
        let settings = with(&json!({}), &json!({ "allowWrite": ["."] }));
        let script = "git init -q new && git -C new config a.b c && git clone -q old copy 2>&1 && \
                      git -C copy log --oneline | wc -l";
        srt(case, &settings, ["-c", script]).go().exits(0).prints("1");
        assert!(fs::read_to_string(case.work.join("new/.git/config")).unwrap().contains("b = c"));
    });
}

#[test]
fn nothing_is_left_on_the_host_even_when_it_is_killed() {
    as_everybody(|case| {
        let settings = with(&json!({}), &json!({ "allowWrite": ["."], "denyWrite": ["later/file"] }));
        let marker = marker();
        let running = srt(case, &settings, ["/bin/sh", "-c", "sleep 60; true", &marker]).start();
        eventually("it runs", || !processes_with(&marker).is_empty());
        std::thread::sleep(std::time::Duration::from_millis(300));
        let names = || fs::read_dir(&case.work).unwrap().count();
        assert_eq!(names(), 0, "while it runs");
        running.signal(rustix::process::Signal::KILL);
        running.finish();
        eventually("nothing of it runs", || processes_with(&marker).is_empty());
        assert_eq!(names(), 0, "after it was killed");
    });
}
