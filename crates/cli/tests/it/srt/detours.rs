//! Ways around what is protected or hidden that were found by people who tried: each of them led somewhere once.

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
    process::Command,
};

use serde_json::{Value, json};

use super::{srt, with};
use crate::case::{Case, Outcome, as_everybody, has_tool, marker};

const CALLS: &str = "
import os, ctypes, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def empty_link(fd, to):
    if libc.linkat(fd, b'', -100, to.encode(), 0x1000): raise OSError(ctypes.get_errno(), 'linkat')
def tried(act):
    try: act()
    except OSError: pass
";

fn python(case: &Case, settings: &Value, script: &str) -> Outcome {
    srt(case, settings, ["/usr/bin/python3", "-c", &format!("{CALLS}{script}")]).go().exits(0)
}

fn writable(more: &Value) -> Value {
    let mut filesystem = json!({ "allowWrite": ["."] });
    for (key, value) in more.as_object().unwrap() {
        filesystem[key] = value.clone();
    }
    with(&json!({}), &filesystem)
}

fn content(case: &Case, name: &str) -> String {
    fs::read_to_string(case.work.join(name)).unwrap_or_default()
}

#[test]
fn a_second_name_by_descriptor_is_no_way_in() {
    as_everybody(|case| {
        case.file(".bashrc", "mine");
        case.file("k.pem", "topsecret");
        let script = "
for name, flags in (('.bashrc', os.O_RDONLY), ('.bashrc', os.O_PATH), ('k.pem', os.O_PATH)):
    def act():
        fd = os.open(name, flags)
        empty_link(fd, 'alias')
        open('alias', 'a').write('evil')
    tried(act)
    tried(lambda: print(open('alias').read()))
    tried(lambda: os.unlink('alias'))
fd = os.open('.', os.O_WRONLY | os.O_TMPFILE)
os.write(fd, b'own')
empty_link(fd, 'fresh')
print(open('fresh').read())";
        let outcome = python(case, &writable(&json!({ "denyRead": ["*.pem"] })), script);
        assert_eq!(outcome.out(), "own", "{outcome:?}");
        assert_eq!((content(case, ".bashrc"), content(case, "k.pem")), ("mine".into(), "topsecret".into()));
    });
}

#[test]
fn a_number_that_changes_its_meaning_is_no_way_in() {
    as_everybody(|case| {
        case.file(".bashrc", "mine");
        case.file("k.pem", "topsecret");
        case.file("plain", "plain");
        let script = "
a, b, c = os.open('plain', os.O_RDONLY), os.open('.bashrc', os.O_RDONLY), os.open('k.pem', os.O_PATH)
os.dup2(a, 100)
end = time.time() + 2
def swap():
    while time.time() < end:
        for fd in (a, b, a, c): os.dup2(fd, 100)
threading.Thread(target=swap).start()
while time.time() < end:
    tried(lambda: os.write(os.open('/proc/self/fd/100', os.O_WRONLY | os.O_APPEND), b'evil'))
    def look():
        text = os.read(os.open('/proc/self/fd/100', os.O_RDONLY), 100)
        if b'topsecret' in text: print('seen')
    tried(look)
    os.closerange(101, 200)";
        let outcome = python(case, &writable(&json!({ "denyRead": ["*.pem"] })), script);
        assert_eq!(outcome.out(), "", "{outcome:?}");
        assert_eq!((content(case, ".bashrc"), content(case, "k.pem")), ("mine".into(), "topsecret".into()));
    });
}

#[test]
fn an_opening_that_waits_does_not_race_with_the_next_act() {
    as_everybody(|case| {
        let script = "
end = time.time() + 2
number = 0
while time.time() < end and not os.path.exists('zone/key.pem'):
    number += 1
    d = f'd{number}'
    os.mkdir(d)
    os.mkfifo(f'{d}/key.pem')
    def wait(name=f'{d}/key.pem'):
        tried(lambda: os.close(os.open(name, os.O_WRONLY | os.O_CREAT)))
    threading.Thread(target=wait, daemon=True).start()
    tried(lambda: os.unlink(f'{d}/key.pem'))
    tried(lambda: os.rename(d, 'zone'))
    time.sleep(0.002)
    tried(lambda: os.rmdir('zone'))
os._exit(0)";
        let outcome = python(case, &writable(&json!({ "denyWrite": ["zone/key.pem"] })), script);
        assert_eq!(outcome.out(), "", "{outcome:?}");
        assert!(!case.work.join("zone/key.pem").is_file());
    });
}

#[test]
fn moving_a_directory_takes_nothing_out_of_its_pattern() {
    as_everybody(|case| {
        case.file("secrets/a", "topsecret");
        case.file("sec/x.pem", "key");
        case.file(".claude/commands/c.md", "mine");
        let settings = writable(&json!({ "denyRead": ["secrets/*"], "denyWrite": ["sec/*.pem"] }));
        let script = "mv secrets foo; cat foo/a secrets/a; mv sec bar; echo evil > bar/x.pem; echo evil > sec/x.pem; \
                      mv .claude baz; echo evil > baz/commands/c.md; mkdir up; mv secrets up/; cat up/secrets/a; true";
        let outcome = srt(case, &settings, ["-c", script]).go().exits(0);
        assert!(!outcome.out().contains("topsecret"), "{outcome:?}");
        assert_eq!(content(case, "sec/x.pem"), "key");
        assert_eq!(content(case, ".claude/commands/c.md"), "mine");
    });
}

#[test]
fn many_directories_can_still_be_moved() {
    as_everybody(|case| {
        let script = "mkdir -p m/{1..600}/x && ulimit -n 64 && mv m n && ls n | wc -l";
        srt(case, &writable(&json!({})), ["-c", script]).go().exits(0).prints("600");
    });
}

#[test]
fn another_name_for_a_link_is_as_good_as_a_link() {
    as_everybody(|case| {
        let script = "
os.makedirs('evil/commands'); open('evil/commands/x.md', 'w').write('evil')
os.symlink('evil', 's')
tried(lambda: os.link('s', '.claude', follow_symlinks=False))
tried(lambda: os.rename('s', '.claude'))
os.makedirs('t'); os.symlink('../evil', 't/.claude2')
tried(lambda: os.rename('t/.claude2', 't/.claude'))
tried(lambda: os.symlink('evil', 'deep'))
tried(lambda: os.link('s', 'deep', follow_symlinks=False))";
        python(case, &writable(&json!({ "denyWrite": ["deep/er/key"] })), script);
        for name in [".claude", "t/.claude", "deep"] {
            assert!(fs::symlink_metadata(case.work.join(name)).is_err(), "{name}");
        }
    });
}

#[test]
fn a_protected_name_that_is_a_link_protects_what_it_leads_to() {
    as_everybody(|case| {
        case.file("dot/bashrc", "mine");
        case.file("other", "topsecret");
        symlink("dot/bashrc", case.work.join(".bashrc")).unwrap();
        symlink("other", case.work.join("q.pem")).unwrap();
        let script = "echo evil >> .bashrc; echo evil >> dot/bashrc; cat q.pem; mv dot dat; echo evil >> dat/bashrc; true";
        let outcome = srt(case, &writable(&json!({ "denyRead": ["*.pem"] })), ["-c", script]).go().exits(0);
        assert!(!outcome.out().contains("topsecret"), "{outcome:?}");
        assert_eq!(content(case, "dot/bashrc"), "mine");
    });
}

#[test]
fn git_is_not_led_to_another_config() {
    if !has_tool("git") {
        return;
    }
    as_everybody(|case| {
        let mark = case.root.join(marker());
        let git = |directory: &Path, args: &[&str]| {
            let mut command = Command::new("git");
            command.args(["-c", "safe.directory=*", "-c", "user.name=a", "-c", "user.email=a@example.com"]);
            command.args(args).current_dir(directory).env("HOME", &case.home).output().unwrap()
        };
        git(&case.work, &["init", "-q", "."]);
        case.file("f", "f");
        git(&case.work, &["add", "f"]);
        git(&case.work, &["commit", "-qm", "first"]);
        git(&case.work, &["worktree", "add", "-q", "tree"]);
        let owner = format!("{0}:{0}", case.who.uid());
        Command::new("chown").args(["-R", &owner]).arg(&case.work).status().unwrap();
        let script = format!(
            "cp -r .git evil; printf '[core]\\n fsmonitor = \"touch {0}; false\"\\n' >> evil/config; \
             echo ../evil > .git/commondir; cp evil/config .git/config.worktree; \
             echo ../../../evil > .git/worktrees/tree/commondir; \
             cd tree; rm .git; mv .git old; echo 'gitdir: ../evil' > .git; mkdir .git; true",
            mark.display()
        );
        srt(case, &writable(&json!({})), ["-c", &script]).go().exits(0);
        assert!(case.work.join("tree/.git").is_file());
        git(&case.work, &["status"]);
        git(&case.work.join("tree"), &["status"]);
        assert!(!mark.exists());
        assert!(!case.work.join(".git/commondir").exists());
    });
}

#[test]
fn a_path_below_a_protected_name_stays_protected() {
    as_everybody(|case| {
        case.file(".claude/commands/c.md", "mine");
        case.file(".env", "topsecret");
        let settings = with(
            &json!({}),
            &json!({ "allowWrite": [".", ".claude/commands", ".env"], "denyRead": [".env"] }),
        );
        let script = "echo evil > .claude/commands/c.md; echo evil > .claude/commands/d.md; cat .env; true";
        srt(case, &settings, ["-c", script]).go().exits(0).prints("");
        assert_eq!(content(case, ".claude/commands/c.md"), "mine");
        assert!(!case.work.join(".claude/commands/d.md").exists());
    });
}

#[test]
fn a_link_that_an_earlier_run_left_opens_nothing() {
    as_everybody(|case| {
        let victim = case.root.join("victim");
        case.directory(&victim);
        symlink(&victim, case.work.join("build")).unwrap();
        case.directory(&case.home.join(".claude"));
        symlink(&victim, case.home.join(".claude/debug")).unwrap();
        let settings = with(&json!({}), &json!({ "allowWrite": [".", "./build"] }));
        let script = "echo evil > build/x; echo evil > ~/.claude/debug/y; true";
        srt(case, &settings, ["-c", script]).go().exits(0).tells("leads out of a writable directory");
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    });
}

#[test]
fn rules_about_the_home_do_not_vanish_with_the_variable() {
    as_everybody(|case| {
        let settings = with(&json!({}), &json!({ "denyRead": ["~/.no-such-thing"] }));
        let audit = case.root.join("audit.jsonl");
        let args = ["--audit", audit.to_str().unwrap(), "--print-policy"];
        let outcome = srt(case, &settings, args).under(["env", "-u", "HOME"]).go();
        let known = fs::read_to_string("/etc/passwd").unwrap();
        let uid = case.who.uid().to_string();
        let entry = known.lines().find(|line| line.split(':').nth(2) == Some(&uid));
        match entry.and_then(|line| line.split(':').nth(5)) {
            Some(home) => assert!(outcome.out().contains(&format!("{home}/.no-such-thing")), "{outcome:?}"),
            None => drop(outcome.exits(1).tells("set HOME")),
        }
    });
}

#[test]
fn a_socket_does_not_come_to_bear_a_listed_name() {
    as_everybody(|case| {
        let other = case.work.join("docker.sock");
        let listener = UnixListener::bind(&other).unwrap();
        case.own(&other);
        let network = json!({ "allowUnixSockets": ["a.sock"] });
        let script = "
import socket
for act in (lambda: os.link('docker.sock', 'a.sock'), lambda: os.rename('docker.sock', 'a.sock')):
    tried(act)
    def connect():
        socket.socket(socket.AF_UNIX).connect('a.sock')
        print('in')
    tried(connect)";
        let settings = with(&network, &json!({ "allowWrite": ["."] }));
        let outcome = python(case, &settings, script);
        assert_eq!(outcome.out(), "", "{outcome:?}");
        drop(listener);
    });
}

#[test]
fn what_the_host_makes_under_an_old_number_is_the_hosts() {
    as_everybody(|case| {
        let settings = writable(&json!({ "denyRead": ["*.pem"] }));
        let script = "for i in $(seq 300); do echo x > t$i; done; rm -f t*; touch go; \
                      while [ ! -e on ]; do sleep 0.05; done; cat late*.pem; true";
        let running = srt(case, &settings, ["-c", script]).start();
        crate::case::eventually("it is ready", || case.work.join("go").exists());
        for number in 0..20 {
            case.file(format!("late{number}.pem"), "topsecret");
        }
        case.file("on", "");
        let outcome = running.finish().exits(0);
        assert!(!outcome.out().contains("topsecret"), "{outcome:?}");
    });
}

#[test]
fn only_what_listens_is_offered_and_no_port_of_the_hosts_services() {
    as_everybody(|case| {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let script = format!(
            "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', {free}))
tried(lambda: s.listen(1))
t = socket.socket()
tried(lambda: (t.bind(('127.0.0.1', 79)), t.listen(1)))
time.sleep(1.5)"
        );
        let settings = with(&json!({ "allowLocalBinding": true }), &json!({}));
        let running = srt(case, &settings, ["/usr/bin/python3", "-c", &format!("{CALLS}{script}")]).start();
        std::thread::sleep(std::time::Duration::from_millis(900));
        for port in [free, 79] {
            assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "{port}");
        }
        running.finish().exits(0);
    });
}

#[test]
fn the_settings_of_the_next_run_are_not_written() {
    as_everybody(|case| {
        let text = writable(&json!({})).to_string();
        let file = case.file("settings.json", &text);
        let script = "echo '{}' > settings.json; mv settings.json old; rm settings.json; true";
        case.lazaret(["srt", "-s", file.to_str().unwrap(), "-c", script]).go().exits(0);
        assert_eq!(content(case, "settings.json"), text);
    });
}

#[test]
fn links_in_front_of_a_protected_name_are_protected_too() {
    as_everybody(|case| {
        case.file("conf/commands/c.md", "mine");
        symlink("conf", case.work.join(".claude")).unwrap();
        case.file("dot/bashrc", "mine");
        symlink("l1", case.work.join(".bashrc")).unwrap();
        symlink("dot/bashrc", case.work.join("l1")).unwrap();
        case.file("dot/prof", "mine");
        symlink("dot", case.work.join("dotl")).unwrap();
        symlink("dotl/prof", case.work.join(".profile")).unwrap();
        let script = "echo evil > conf/commands/c.md; echo evil > .claude/commands/d.md; \
                      rm l1; echo evil > l1; rm dotl; mkdir dotl; echo evil > dotl/prof; mv conf c2; true";
        srt(case, &writable(&json!({})), ["-c", script]).go().exits(0);
        for name in [".claude/commands/c.md", ".bashrc", ".profile"] {
            assert_eq!(content(case, name), "mine", "{name}");
        }
        assert!(!case.work.join(".claude/commands/d.md").exists());
    });
}

#[test]
fn a_link_that_is_hidden_still_leads_there_the_next_time() {
    as_everybody(|case| {
        case.file("store/creds", "topsecret");
        symlink("store/creds", case.work.join("creds")).unwrap();
        let settings = writable(&json!({ "denyRead": ["creds"] }));
        let script = "rm creds; echo x > creds; cat creds store/creds; true";
        for _ in 0..2 {
            let outcome = srt(case, &settings, ["-c", script]).go().exits(0);
            assert!(!outcome.out().contains("topsecret"), "{outcome:?}");
        }
    });
}

#[test]
fn settings_behind_a_link_are_not_exchanged() {
    as_everybody(|case| {
        let text = writable(&json!({})).to_string();
        case.file("c/real.json", &text);
        let link = case.work.join("s.json");
        symlink("c/real.json", &link).unwrap();
        let script = "rm s.json; echo '{}' > s.json; mv c d; echo '{}' > c/real.json; true";
        case.lazaret(["srt", "-s", link.to_str().unwrap(), "-c", script]).go().exits(0);
        assert_eq!(content(case, "s.json"), text);
    });
}

#[test]
fn a_hidden_file_that_the_host_replaces_stays_hidden() {
    as_everybody(|case| {
        case.file("k.pem", "topsecret");
        let script = "
fd = os.open('k.pem', os.O_PATH)
open('go', 'w')
while not os.path.exists('on'): time.sleep(0.05)
def look(): print(os.read(os.open(f'/proc/self/fd/{fd}', os.O_RDONLY), 100))
tried(look)";
        let settings = writable(&json!({ "denyRead": ["*.pem"] }));
        let running = srt(case, &settings, ["/usr/bin/python3", "-c", &format!("{CALLS}{script}")]).start();
        crate::case::eventually("it is ready", || case.work.join("go").exists());
        fs::rename(case.file("k2", "other"), case.work.join("k.pem")).unwrap();
        case.file("on", "");
        running.finish().exits(0).prints("");
    });
}

#[test]
fn no_other_way_gives_a_socket_a_listed_name() {
    as_everybody(|case| {
        case.directory(&case.work.join("dd"));
        let [first, second] = ["docker.sock", "dd/a.sock"].map(|name| case.work.join(name));
        let listeners = [&first, &second].map(|path| UnixListener::bind(path).unwrap());
        [&first, &second].into_iter().for_each(|path| case.own(path));
        let network = json!({ "allowUnixSockets": ["a.sock", "socks", "run/a.sock"] });
        let script = "
import socket
fd = os.open('docker.sock', os.O_PATH)
tried(lambda: empty_link(fd, 'a.sock'))
tried(lambda: os.link(f'/proc/self/fd/{fd}', 'a.sock', follow_symlinks=True))
tried(lambda: os.mkdir('socks'))
tried(lambda: os.rename('dd', 'socks/dd'))
tried(lambda: os.rename('dd', 'run'))
for path in ('a.sock', 'socks/dd/a.sock', 'run/a.sock'):
    def connect():
        socket.socket(socket.AF_UNIX).connect(path)
        print('in', path)
    tried(connect)";
        let settings = with(&network, &json!({ "allowWrite": ["."] }));
        let outcome = python(case, &settings, script);
        assert_eq!(outcome.out(), "", "{outcome:?}");
        drop(listeners);
    });
}

#[test]
fn init_is_not_looked_into_and_the_standard_streams_can_be_opened_again() {
    as_everybody(|case| {
        let script = "
d = os.open('/proc/1', os.O_PATH)
for name in ('maps', 'fd/0', 'root/etc/passwd', 'exe', 'environ'):
    def look():
        os.read(os.open(name, os.O_RDONLY, dir_fd=d), 10)
        print('seen', name)
    tried(look)
    def through():
        os.read(os.open(f'/proc/self/fd/{d}/{name}', os.O_RDONLY), 10)
        print('seen through', name)
    tried(through)
tried(lambda: os.chdir('/proc/1'))
def here():
    os.read(os.open('maps', os.O_RDONLY), 10)
    print('seen from there')
tried(here)";
        let outcome = python(case, &writable(&json!({ "denyRead": ["*.pem"] })), script);
        assert_eq!(outcome.out(), "", "{outcome:?}");
        let script = "{ echo one > /dev/stdout; echo two >> /proc/self/fd/1; echo three > /dev/fd/1; } | cat; \
                      echo four | cat /dev/stdin";
        srt(case, &writable(&json!({})), ["-c", script]).go().exits(0).prints("one\ntwo\nthree\nfour");
    });
}
