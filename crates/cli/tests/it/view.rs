//! What is visible by default: the system, the current directory, toolchains; nothing else of the host.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
};

use crate::case::{Case, Who, as_everybody, has_root};

fn owner(path: impl AsRef<Path>) -> (u32, u32) {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.uid(), metadata.gid())
}

#[test]
fn the_current_directory_is_writable_and_its_files_belong_to_the_caller() {
    as_everybody(|case| {
        case.file("before", "old");
        case.sh(
            "pwd; cat before; echo new > file && mkdir directory && ln -s file link && echo more >> before",
        )
        .exits(0)
        .tells_nothing()
        .prints(&format!("{}\nold", case.work.display()));
        assert_eq!(fs::read_to_string(case.work.join("file")).unwrap(), "new\n");
        assert_eq!(fs::read_to_string(case.work.join("before")).unwrap(), "oldmore\n");
        for name in ["file", "directory", "link", "before"] {
            assert_eq!(owner(case.work.join(name)).0, case.who.uid(), "{name}");
        }
    });
}

#[test]
fn files_are_shown_inside_as_belonging_to_the_command() {
    as_everybody(|case| {
        case.file("file", "");
        case.sh("test -O . && test -O file && chmod 600 file && stat -c %a file").exits(0).prints("600");
    });
}

#[test]
fn in_a_directory_of_somebody_else_root_writes_files_of_that_owner() {
    if !has_root() {
        return;
    }
    let case = Case::new(Who::Caller);
    chown(&case.work, Some(61234), Some(61235)).unwrap();
    case.file("theirs", "old");
    chown(case.work.join("theirs"), Some(61234), Some(61235)).unwrap();
    case.sh("echo new > mine && mkdir directory && echo more > directory/below && echo y >> theirs").exits(0);
    for name in ["mine", "directory", "directory/below", "theirs"] {
        assert_eq!(owner(case.work.join(name)), (61234, 61235), "{name}");
    }
}

#[test]
fn a_private_file_of_a_third_user_in_the_current_directory_stays_closed() {
    if !has_root() {
        return;
    }
    let case = Case::new(Who::Caller);
    let theirs = case.file("theirs", "private");
    chown(&theirs, Some(61234), Some(61234)).unwrap();
    fs::set_permissions(&theirs, Permissions::from_mode(0o600)).unwrap();
    let outcome = case.sh("cat theirs");
    assert!(outcome.code() != 0 && outcome.out().is_empty(), "{outcome:?}");
}

#[test]
fn the_home_is_hidden_and_a_private_one_stands_in() {
    as_everybody(|case| {
        case.file(case.home.join("diary"), "dear diary");
        case.file(case.home.join(".ssh/id_ed25519"), "key");
        case.sh("cat ~/diary ~/.ssh/id_ed25519 2>/dev/null; ls -A ~; echo x > ~/scratch && cat ~/scratch")
            .exits(0)
            .prints("x");
        assert!(!case.home.join("scratch").exists());
    });
}

#[test]
fn temporary_directories_are_private() {
    as_everybody(|case| {
        for directory in ["/tmp", "/var/tmp", "/dev/shm"] {
            let name = format!("{directory}/lazaret-it-host-{}-{:?}", std::process::id(), case.who);
            fs::write(&name, "of the host").unwrap();
            fs::set_permissions(&name, Permissions::from_mode(0o644)).unwrap();
            let outcome = case.sh(&format!(
                "test -e {name} && echo visible; test -k {directory} || echo not sticky; echo x > {name}-inside"
            ));
            fs::remove_file(&name).unwrap();
            outcome.exits(0).prints("");
            assert!(!Path::new(&format!("{name}-inside")).exists(), "{directory}");
        }
    });
}

#[test]
fn what_lies_beside_the_current_directory_is_not_visible() {
    as_everybody(|case| {
        let beside = case.file(case.root.join("beside/file"), "x");
        case.sh(&format!("cat {}; ls ..", beside.display()))
            .exits(0)
            .tells("No such file")
            .prints("home\nproject");
    });
}

#[test]
fn the_systems_configuration_is_readable_but_not_its_secrets() {
    as_everybody(|case| {
        case.sh("cat /etc/passwd > /dev/null && ls /etc > /dev/null").exits(0);
        for secret in ["/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/sudoers"] {
            if !Path::new(secret).exists() {
                continue;
            }
            let outcome = case.sh(&format!("cat {secret}; head -c1 < {secret}; cp {secret} copy"));
            assert!(outcome.code() != 0 && outcome.out().is_empty(), "{outcome:?}");
            assert!(!case.work.join("copy").exists());
        }
    });
}

#[test]
fn the_system_cannot_be_written() {
    as_everybody(|case| {
        let script = "for d in / /usr /usr/bin /etc /proc /proc/sys/kernel /opt /lib; do
             (echo x > $d/lazaret-it-probe) 2>/dev/null && echo $d; done; true";
        case.sh(script).exits(0).prints("");
        case.sh("touch /usr/bin/env || chmod 777 /usr/bin/env || rm -f /usr/bin/env").exits(1);
    });
}

#[test]
fn nothing_of_the_hosts_state_is_visible() {
    as_everybody(|case| {
        let script =
            "for d in /run /var/run /var/log /var/lib /var/cache /home /root /sys /boot /mnt /media /srv; do
             ls -A $d 2>/dev/null; done; true";
        case.sh(script).exits(0).prints("");
        // The root itself holds nothing but what the plan names.
        let names = case.sh("ls -A /").exits(0).out();
        for name in names.lines() {
            let known = "bin dev etc lib lib32 lib64 libx32 nix opt proc sbin tmp usr var";
            let above_the_case = case.root.components().nth(1).unwrap().as_os_str() == name;
            assert!(known.split(' ').any(|known| known == name) || above_the_case, "/{name} is visible");
        }
    });
}

#[test]
fn devices_are_the_harmless_few() {
    as_everybody(|case| {
        let script = "ls -A /dev; echo x > /dev/null; head -c2 /dev/zero | wc -c; head -c2 /dev/urandom | wc -c; \
                      cat /dev/mem /dev/kmsg /dev/sda /dev/fuse /dev/kvm 2>/dev/null; true";
        let text = case.sh(script).exits(0).out();
        for name in text.lines() {
            let known = "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero 2";
            assert!(known.split(' ').any(|known| known == name), "/dev/{name} is visible");
        }
    });
}

#[test]
fn nothing_inside_can_make_a_setuid_program() {
    as_everybody(|case| {
        case.file("program", "");
        case.sh(
            "chmod u+s program; install -m 4755 program other; cp /usr/bin/env new && chmod 4755 new; true",
        )
        .exits(0);
        for name in ["program", "other", "new"] {
            if let Ok(metadata) = fs::metadata(case.work.join(name)) {
                assert_eq!(metadata.mode() & 0o6000, 0, "{name}");
            }
        }
    });
}

#[test]
fn device_files_and_mounts_cannot_be_made() {
    as_everybody(|case| {
        let outcome = case
            .sh_with(&["--on-escape", "deny"], "mknod disk b 8 0; mknod zero c 1 5; mount --bind /etc .; ls");
        assert_eq!(outcome.out(), "", "{outcome:?}");
    });
}

#[test]
fn toolchains_in_the_home_are_visible_read_only_and_without_credentials() {
    as_everybody(|case| {
        let tool = case.file(case.home.join(".cargo/bin/tool"), "#!/bin/sh\necho from the toolchain\n");
        fs::set_permissions(&tool, Permissions::from_mode(0o755)).unwrap();
        case.file(case.home.join(".cargo/credentials.toml"), "token");
        case.file(case.home.join(".cargo/credentials"), "token");
        case.file(case.home.join(".rustup/settings.toml"), "version = 12");
        case.file(case.home.join(".local/bin/other"), "");
        case.file(case.home.join(".local/share/keyrings/login.keyring"), "secret");
        let path = format!("{}/.cargo/bin:{}", case.home.display(), crate::case::PATH);
        case.running(["--", "tool"])
            .env("PATH", path)
            .go()
            .exits(0)
            .prints("from the toolchain")
            .tells_nothing();
        case.sh("cat ~/.rustup/settings.toml; ls ~/.local/bin").exits(0).prints("version = 12other");
        let credentials =
            "cat ~/.cargo/credentials.toml ~/.cargo/credentials ~/.local/share/keyrings/login.keyring";
        case.sh(credentials).exits(1).prints("");
        let outcome =
            case.sh("echo x > ~/.cargo/bin/tool; rm -f ~/.cargo/bin/tool; echo x > ~/.cargo/bin/new");
        assert_ne!(outcome.code(), 0, "{outcome:?}");
        assert_eq!(fs::read_dir(case.home.join(".cargo/bin")).unwrap().count(), 1);
        assert!(fs::read_to_string(&tool).unwrap().contains("from the toolchain"));
    });
}

#[test]
fn a_toolchain_variable_does_not_open_the_whole_home() {
    as_everybody(|case| {
        case.file(case.home.join("diary"), "dear diary");
        for (name, value) in
            [("RUSTUP_HOME", case.home.clone()), ("PYENV_ROOT", case.root.clone()), ("NVM_DIR", "/".into())]
        {
            let diary = case.home.join("diary");
            let outcome = case.running(["--", "cat", diary.to_str().unwrap()]).env(name, value).go();
            assert!(outcome.code() != 0 && outcome.out().is_empty(), "{name}: {outcome:?}");
        }
    });
}

#[test]
fn in_the_home_itself_credentials_are_denied() {
    as_everybody(|case| {
        case.file(case.home.join("project/notes"), "notes");
        case.file(case.home.join(".ssh/id_ed25519"), "key");
        case.file(case.home.join(".aws/credentials"), "key");
        case.file(case.home.join(".netrc"), "key");
        case.file(case.home.join(".cargo/credentials.toml"), "key");
        case.file(case.home.join(".cargo/config.toml"), "[net]");
        let here = |script: &str| case.running(["--", "sh", "-c", script]).directory(&case.home).go();
        here("cat project/notes && cat .cargo/config.toml && echo x > new").exits(0).prints("notes[net]");
        assert!(case.home.join("new").exists());
        here("cat .ssh/id_ed25519; ls .ssh; cat .aws/credentials .netrc .cargo/credentials.toml ~/.netrc")
            .exits(1)
            .prints("")
            .tells(".netrc")
            .tells("denied in this sandbox");
        // Nor can they be replaced, made anew, moved away or reached through another name.
        let script = "rm -rf .ssh .netrc; mv .aws other; ln .netrc link; mkdir .gnupg; echo x > .git-credentials; \
                      ln -s .ssh/id_ed25519 s; cat s link other/credentials";
        here(script).prints("");
        for (name, there) in [
            (".ssh/id_ed25519", true),
            (".netrc", true),
            (".aws/credentials", true),
            (".gnupg", false),
            (".git-credentials", false),
            ("link", false),
        ] {
            assert_eq!(case.home.join(name).exists(), there, "{name}");
        }
    });
}

#[test]
fn in_the_root_directory_nothing_is_made_visible_and_a_sentence_says_so() {
    as_everybody(|case| {
        case.running(["--", "sh", "-c", "pwd; ls -A /root /home 2>/dev/null; true"])
            .directory(Path::new("/"))
            .go()
            .exits(0)
            .prints("/")
            .tells("the current directory is /, which is not made visible");
    });
}

#[test]
fn our_own_state_is_never_visible() {
    as_everybody(|case| {
        case.sh("true").exits(0);
        let log = case.log();
        for flags in [["--rw", case.root.to_str().unwrap()], ["--rw", case.state.to_str().unwrap()]] {
            let script = format!(
                "cat {0}; echo x >> {0}; rm -f {0}; mv {1} {1}-away; ls {1}/lazaret",
                log.display(),
                case.state.display()
            );
            let outcome = case.sh_with(&flags, &script);
            assert_eq!(outcome.out(), "", "{outcome:?}");
        }
        case.lazaret(["audit", "verify"]).go().exits(0);
        assert_eq!(case.events_of("SANDBOX_DESTROYED").len(), 3);
    });
}

#[test]
fn a_command_starts_in_its_directory_when_only_something_in_it_is_visible() {
    as_everybody(|case| {
        case.file("data/visible", "content");
        case.file("hidden", "secret");
        let policy = "[filesystem]\nreadOnlyPaths = [\"/usr/bin\", \"/usr/lib\", \"/usr/lib64\", \"/etc\", \"./data/visible\"]\n";
        let policy = case.file(case.root.join("policy.toml"), policy);
        let policy = policy.to_str().unwrap();
        let outcome =
            case.run(["--policy", policy, "--", "sh", "-c", "pwd; cat data/visible; echo; ls; cat hidden"]);
        let text = outcome.out();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, [case.work.to_str().unwrap(), "content", "data"], "{outcome:?}");
        // Nothing of it is visible: there is no such directory.
        let elsewhere = case.root.join("elsewhere");
        case.directory(&elsewhere);
        case.file(elsewhere.join("data/visible"), "");
        std::fs::write(
            policy,
            "[filesystem]\nreadOnlyPaths = [\"/usr/bin\", \"/usr/lib\", \"/usr/lib64\", \"/etc\"]\n",
        )
        .unwrap();
        case.running(["--policy", policy, "--", "pwd"]).directory(&elsewhere).go().exits(0).prints("/");
    });
}

#[test]
fn layered_paths_can_be_written_and_the_host_keeps_what_it_has() {
    as_everybody(|case| {
        let cache = case.home.join("cache");
        case.file(cache.join("old"), "warm");
        case.file(case.home.join("plain"), "");
        let policy = "[filesystem]\nreadOnlyPaths = [\"/\"]\nlayeredPaths = [\"~/cache\", \"~/missing\", \"~/plain\"]\n\
                      deniedPaths = [\"~/cache/secret\"]\n";
        let policy = case.file(case.root.join("policy.toml"), policy);
        case.file(cache.join("secret"), "secret");
        let script = "cd ~/cache; cat old; echo; echo new > old; mkdir d && echo x > d/x && mv d e; rm -f secret; cat secret; \
                      cat old e/x; touch ~/plain";
        let outcome =
            case.run(["--policy", policy.to_str().unwrap(), "--env", "HOME", "--", "sh", "-c", script]);
        assert_eq!(outcome.out(), "warm\nnew\nx", "{outcome:?}");
        let names: Vec<_> =
            std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert_eq!(std::fs::read_to_string(cache.join("old")).unwrap(), "warm");
    });
}
