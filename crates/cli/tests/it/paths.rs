//! `--ro`, `--rw` and `--deny`, in any order, on paths of any shape.

use std::{
    fs::{self, Permissions},
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
    path::Path,
};

use crate::case::{Case, as_everybody};

/// Can it be read and written inside, under these flags?
fn access(case: &Case, flags: &[&str], path: &Path) -> (bool, bool) {
    let script = r#"if [ -d "$1" ]; then ls "$1" >/dev/null 2>&1 && printf r; touch "$1/probe" 2>/dev/null && printf w
                    else cat "$1" >/dev/null 2>&1 && printf r; (printf x >> "$1") 2>/dev/null && printf w; fi; true"#;
    let path = path.to_str().unwrap();
    let outcome = case.run(flags.iter().copied().chain(["--", "sh", "-c", script, "sh", path])).exits(0);
    (outcome.out().contains('r'), outcome.out().contains('w'))
}

const NONE: (bool, bool) = (false, false);
const READ: (bool, bool) = (true, false);
const BOTH: (bool, bool) = (true, true);

#[test]
fn paths_become_visible_read_only_or_writable() {
    as_everybody(|case| {
        let file = case.file(case.root.join("beside/file"), "content");
        let directory = file.parent().unwrap();
        let (f, d) = (file.to_str().unwrap(), directory.to_str().unwrap());
        assert_eq!(access(case, &[], &file), NONE);
        assert_eq!(access(case, &["--ro", d], &file), READ);
        assert_eq!(access(case, &["--ro", d], directory), READ);
        assert_eq!(access(case, &["--rw", d], &file), BOTH);
        assert_eq!(access(case, &["--rw", d], directory), BOTH);
        assert_eq!(access(case, &["--ro", f], &file), READ);
        assert_eq!(access(case, &["--rw", f], &file), BOTH);
        // Relative to the current directory, as everywhere.
        assert_eq!(access(case, &["--ro", "../beside"], &file), READ);
        assert_eq!(access(case, &["--rw", "./../beside/."], &file), BOTH);
        assert_eq!(fs::read_to_string(&file).unwrap(), "contentxxx");
    });
}

#[test]
fn read_only_wins_over_read_write_for_the_same_path() {
    as_everybody(|case| {
        let file = case.file(case.root.join("beside/file"), "");
        let d = file.parent().unwrap().to_str().unwrap();
        assert_eq!(access(case, &["--ro", d, "--rw", d], &file), READ);
        assert_eq!(access(case, &["--rw", d, "--ro", d], &file), READ);
        assert_eq!(access(case, &["--rw", d, "--ro", "../beside"], &file), READ);
    });
}

#[test]
fn the_inner_path_decides_below_an_outer_one() {
    as_everybody(|case| {
        let inner = case.file(case.root.join("outer/inner/file"), "");
        let outer = case.file(case.root.join("outer/file"), "");
        let flags = ["--ro", "../outer", "--rw", "../outer/inner"];
        assert_eq!((access(case, &flags, &outer), access(case, &flags, &inner)), (READ, BOTH));
        let flags = ["--rw", "../outer", "--ro", "../outer/inner"];
        assert_eq!((access(case, &flags, &outer), access(case, &flags, &inner)), (BOTH, READ));
    });
}

#[test]
fn the_current_directory_can_be_made_read_only() {
    as_everybody(|case| {
        let file = case.file("file", "x");
        assert_eq!(access(case, &["--ro", "."], &file), READ);
        assert_eq!(access(case, &["--ro", "."], &case.work), READ);
        case.sh_with(&["--ro", "."], "echo x > new")
            .exits(2)
            .tells("write to")
            .tells("denied in this sandbox");
        assert_eq!(fs::read_dir(&case.work).unwrap().count(), 1);
    });
}

#[test]
fn denied_wins_in_any_order_for_files_and_directories() {
    as_everybody(|case| {
        let file = case.file("secret/file", "s");
        case.file("plain", "p");
        for flags in [
            ["--deny", "secret", "--rw", "secret"],
            ["--rw", "secret", "--deny", "secret"],
            ["--ro", "secret", "--deny", "secret"],
            ["--rw", "secret/file", "--deny", "secret"],
            ["--deny", "secret/file", "--rw", "secret/file"],
            ["--deny", "secret/file", "--rw", "."],
            ["--deny", "secret/", "--ro", "secret/file"],
        ] {
            assert_eq!(access(case, &flags, &file), NONE, "{flags:?}");
            assert_eq!(access(case, &flags, &case.work.join("plain")), BOTH, "{flags:?}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "s");
    });
}

#[test]
fn a_denied_directory_denies_everything_below_it() {
    as_everybody(|case| {
        case.file("secret/a/b", "s");
        let script = "cat secret/a/b; ls secret; ls secret/a; cd secret; find . | grep b; mkdir secret/c; rm -rf secret; \
                      mv secret gone; mv secret/a a; cp -r secret copy; ls copy";
        let outcome = case.sh_with(&["--deny", "secret"], script);
        assert!(outcome.code() != 0 && outcome.out().is_empty(), "{outcome:?}");
        assert_eq!(fs::read_to_string(case.work.join("secret/a/b")).unwrap(), "s");
        assert!(!case.work.join("gone").exists() && !case.work.join("secret/c").exists());
    });
}

#[test]
fn a_denied_name_that_does_not_exist_cannot_be_made_by_any_means() {
    as_everybody(|case| {
        case.file("other", "x");
        let script = "echo x > .env; touch .env; mkdir .env; ln -s other .env; ln other .env; mv other .env; cp other .env; \
                      mkfifo .env; mknod .env p; cd /; echo x > $OLDPWD/.env; touch $OLDPWD/../project/.env; true";
        let outcome = case.sh_with(&["--deny", ".env"], script).exits(0);
        assert!(fs::symlink_metadata(case.work.join(".env")).is_err(), "{outcome:?}");
        assert_eq!(fs::read_to_string(case.work.join("other")).unwrap(), "x");
        // And nothing is left behind by the denial itself.
        assert_eq!(fs::read_dir(&case.work).unwrap().count(), 1);
    });
}

#[test]
fn a_denied_name_below_a_directory_that_does_not_exist_is_held_too() {
    as_everybody(|case| {
        let script = "mkdir -p conf/x; echo s > conf/x/token; echo t > conf/fine; mkdir conf2; mkdir conf2/x; \
                      echo s > conf2/x/token; mv conf2 conf; true";
        case.sh_with(&["--deny", "conf/x/token"], script).exits(0);
        assert!(!case.work.join("conf/x/token").exists());
        assert_eq!(fs::read_to_string(case.work.join("conf/fine")).unwrap(), "t\n");
    });
}

#[test]
fn a_denied_path_is_denied_under_every_name() {
    as_everybody(|case| {
        let secret = case.file("secret", "s");
        symlink("secret", case.work.join("link")).unwrap();
        symlink(&case.work, case.work.join("here")).unwrap();
        for name in ["secret", "link", "here/secret", "./here/../project/secret", "here/here/link"] {
            assert_eq!(access(case, &["--deny", "secret"], &case.work.join(name)), NONE, "{name}");
        }
        // Denied by the name of a link: the link and what it leads to.
        assert_eq!(access(case, &["--deny", "link"], &case.work.join("link")), NONE);
        assert_eq!(access(case, &["--deny", "link"], &secret), NONE);
        assert_eq!(access(case, &["--deny", "here/secret"], &secret), NONE);
    });
}

#[test]
fn a_path_typed_through_a_link_works_under_both_names() {
    as_everybody(|case| {
        let file = case.file(case.root.join("real/file"), "");
        symlink(case.root.join("real"), case.root.join("alias")).unwrap();
        let (link, alias) = (case.root.join("alias"), case.root.join("alias/file"));
        let link = link.to_str().unwrap();
        assert_eq!(access(case, &["--ro", link], &alias), READ);
        assert_eq!(access(case, &["--ro", link], &file), READ);
        assert_eq!(access(case, &["--rw", link], &alias), BOTH);
        assert_eq!(access(case, &["--rw", alias.to_str().unwrap()], &file), BOTH);
        assert_eq!(access(case, &["--rw", alias.to_str().unwrap()], &alias), BOTH);
    });
}

#[test]
fn a_relative_path_typed_through_a_link_works_under_both_names() {
    as_everybody(|case| {
        let file = case.file(case.root.join("real/file"), "");
        symlink(case.root.join("real"), case.root.join("alias")).unwrap();
        assert_eq!(access(case, &["--ro", "../alias"], &file), READ);
        assert_eq!(access(case, &["--ro", "../alias"], &case.root.join("alias/file")), READ);
    });
}

#[test]
fn a_link_inside_that_leads_outside_leads_nowhere() {
    as_everybody(|case| {
        let outside = case.file(case.root.join("outside/file"), "s");
        symlink(&outside, case.work.join("link")).unwrap();
        symlink("../outside", case.work.join("directory")).unwrap();
        assert_eq!(access(case, &[], &case.work.join("link")), NONE);
        assert_eq!(access(case, &[], &case.work.join("directory/file")), NONE);
    });
}

#[test]
fn a_current_directory_reached_through_a_link_works() {
    as_everybody(|case| {
        symlink(&case.work, case.root.join("alias")).unwrap();
        let alias = case.root.join("alias");
        // As a shell does it, which keeps the name that was typed in PWD.
        case.running(["--", "sh", "-c", "echo x > file && cat file"])
            .directory(&alias)
            .env("PWD", &alias)
            .go()
            .exits(0)
            .prints("x");
        case.running([
            "--rw",
            ".",
            "--deny",
            "secret",
            "--",
            "sh",
            "-c",
            "echo x > file; echo x > secret; true",
        ])
        .directory(&alias)
        .env("PWD", &alias)
        .go()
        .exits(0);
        assert!(case.work.join("file").exists() && !case.work.join("secret").exists());
    });
}

#[test]
fn names_with_blanks_newlines_and_any_letters_work() {
    as_everybody(|case| {
        for name in [
            "with blank",
            "with\nnewline",
            "mit Umlaut äöü",
            "日本語 🦀",
            "-dash",
            "quote'\"`$(x)",
            "back\\slash",
            "a:b,c=d",
        ] {
            let directory = case.root.join(name);
            let file = case.file(directory.join("file"), "");
            assert_eq!(access(case, &["--rw", &format!("../{name}")], &file), BOTH, "{name:?}");
            assert_eq!(access(case, &["--ro", directory.to_str().unwrap()], &file), READ, "{name:?}");
            let denied = format!("../{name}/file");
            assert_eq!(
                access(case, &["--rw", &format!("../{name}"), "--deny", &denied], &file),
                NONE,
                "{name:?}"
            );
            let here =
                case.running(["--", "sh", "-c", "pwd; echo x > made"]).directory(&directory).go().exits(0);
            assert_eq!(here.stdout, [directory.as_os_str().as_bytes(), b"\n"].concat());
            assert!(directory.join("made").exists());
        }
    });
}

#[test]
fn a_name_that_is_not_text_works_as_current_directory() {
    as_everybody(|case| {
        let directory = case.root.join(std::ffi::OsStr::from_bytes(b"bytes-\xff\xfe"));
        case.directory(&directory);
        case.running(["--", "sh", "-c", "echo x > made"]).directory(&directory).go().exits(0).tells_nothing();
        assert!(directory.join("made").exists());
        case.lazaret(["audit", "verify"]).go().exits(0);
    });
}

#[test]
fn a_deleted_current_directory_is_a_refusal_with_a_sentence() {
    as_everybody(|case| {
        let gone = case.work.join("gone");
        case.directory(&gone);
        case.running(["--", "true"])
            .directory(&gone)
            .under(["sh", "-c", r#"rmdir "$PWD"; exec "$@""#, "sh"])
            .go()
            .exits(125)
            .tells("the current directory cannot be used");
        case.assert_nothing_started();
    });
}

#[test]
fn a_directory_that_cannot_be_entered_is_a_refusal_or_empty() {
    as_everybody(|case| {
        let closed = case.work.join("closed");
        case.file("closed/file", "s");
        fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
        let outcome = case.sh("ls closed; cat closed/file");
        fs::set_permissions(&closed, Permissions::from_mode(0o755)).unwrap();
        assert!(outcome.code() != 0 && outcome.out().is_empty(), "{outcome:?}");
    });
}
