//! Every way in which a tree can change, and what a commit makes of it.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    },
    path::Path,
};

use super::{changes, committed, cow, expected, list};
use crate::{
    case::{Case, as_everybody, has_tool},
    host::{let_time_pass, names, outside, prepared, tree},
};

fn mode(case: &Case, name: &str) -> u32 {
    fs::symlink_metadata(case.work.join(name)).unwrap().permissions().mode() & 0o7777
}

/// The same script on a directory of the host and in a sandbox with a commit gives the same tree.
fn same_as_on_the_host(setup: &str, script: &str) {
    as_everybody(|case| {
        let twin = case.root.join("twin");
        case.directory(&twin);
        prepared(case, setup);
        prepared(case, &format!("cp -a . {}", twin.display()));
        outside(case, &format!("cd {}\n{script}", twin.display()));
        let before = tree(&case.work);
        cow(case, &[], script).exits(0);
        assert_eq!(tree(&case.work), before, "not yet");
        case.lazaret(["commit"]).go().exits(0);
        assert_eq!(tree(&case.work), tree(&twin), "{script}");
        assert_eq!(list(case).len(), 0);
    });
}

#[test]
fn new_changed_and_deleted_files_modes_and_links_are_committed() {
    same_as_on_the_host(
        "echo a > a; echo b > b; echo c > c; ln -s a l; ln -s b m; mkdir -p d/e; echo f > d/e/f",
        "echo more >> a; rm b; chmod 755 c; ln -sfn c l; rm m; echo n > n; ln -s d k; mkdir -p x/y/z; \
         echo w > x/y/z/w; chmod 700 d; : > empty; echo g > d/e/g; ln -s nowhere broken",
    );
}

#[test]
fn a_directory_that_is_made_anew_holds_only_what_is_new() {
    same_as_on_the_host(
        "mkdir -p d/sub; echo 1 > d/one; echo 2 > d/two; echo 3 > d/sub/three; mkdir -p e/sub; echo 4 > e/sub/4",
        "rm -r d; mkdir d; echo new > d/new; echo two again > d/two; rm -r e; mkdir -p e/sub; echo 5 > e/sub/5",
    );
}

#[test]
fn a_file_becomes_a_directory_and_a_directory_a_file() {
    same_as_on_the_host(
        "echo f > f; mkdir -p d/deep; echo x > d/deep/x; ln -s f l; mkdir g; echo y > g/y; ln -s d ld",
        "rm f; mkdir f; echo in > f/in; rm -r d; echo file > d; rm l; mkdir l; echo in > l/in; \
         rm -r g; ln -s d g; rm ld; echo no link > ld",
    );
}

#[test]
fn files_and_directories_are_renamed() {
    same_as_on_the_host(
        "echo 1 > one; echo 2 > two; mkdir -p d/e; echo x > d/e/x; echo y > d/y; mkdir empty; ln -s one l",
        "mv one uno; mv two d/; mv d dir; mv dir/e .; mv empty full; echo z > full/z; mv l dir/l; \
         mv uno tmp; mv e/x uno; mv tmp e/x",
    );
}

#[test]
fn names_may_be_anything() {
    as_everybody(|case| {
        let wild: [&[u8]; 12] = [
            "\u{fc}bel-\u{65e5}\u{672c}-\u{1f980}".as_bytes(),
            b"new\nline",
            b"tab\there",
            b"latin-\xe9\xff\xfe",
            b"-rf",
            b"--",
            b" leading and trailing ",
            b"quote\"and'back\\slash",
            b"$(touch x) `id` ;&|*?",
            b"\x01\x02\x1b[31m",
            b"...",
            &[b'n'; 255],
        ];
        for directory in ["", "sub"] {
            for name in wild {
                let path = case.work.join(directory).join(OsStr::from_bytes(name));
                case.file(&path, name);
            }
        }
        let_time_pass();
        // In `sub` all are changed, in the working directory all are deleted, and all are new in `third`.
        let script = "cp -a sub third; find . -maxdepth 1 -type f -delete; \
                      find sub -type f -exec sh -c 'for f; do echo more >> \"$f\"; done' sh {} +";
        cow(case, &[], script).exits(0);
        let shown = case.lazaret(["diff", "--stat"]).go().exits(0).out();
        assert!(shown.contains("37 changes"), "{shown}");
        case.lazaret(["diff", "--json"]).go().exits(0).json();
        case.lazaret(["diff"]).go().exits(0);
        case.lazaret(["commit"]).go().exits(0).tells("37 changes are committed");
        let after = tree(&case.work);
        for name in wild {
            let at = |directory: &str| Path::new(directory).join(OsStr::from_bytes(name));
            assert!(!after.contains_key(&at("")), "{name:?} was deleted");
            assert_eq!(after[&at("third")].content, name);
            assert_eq!(after[&at("sub")].content, [name, b"more\n"].concat(), "{name:?}");
        }
        assert_eq!(after.len(), 2 + 2 * wild.len());
    });
}

#[test]
fn hard_links_made_inside_are_hard_links_outside() {
    as_everybody(|case| {
        prepared(case, "echo base > base; echo pair > p1; ln p1 p2");
        committed(case, "ln base second; echo more >> base; echo n > n1; ln n1 n2; mkdir d; ln n1 d/n3");
        let of = |name: &str| fs::metadata(case.work.join(name)).unwrap();
        assert_eq!(outside(case, "cat second d/n3"), "base\nmore\nn");
        assert_eq!(of("base").ino(), of("second").ino());
        assert_eq!((of("n1").ino(), of("n1").ino(), of("n1").nlink()), (of("n2").ino(), of("d/n3").ino(), 3));
        // One of two names on the host is changed: a copy, as the sandbox saw it.
        let_time_pass();
        committed(case, "echo w >> p1; cat p2").prints("pair");
        assert_eq!(outside(case, "cat p1 p2"), "pair\nw\npair");
    });
}

#[test]
fn fifos_empty_and_sparse_files_are_kept_as_they_are() {
    as_everybody(|case| {
        let script =
            "mkfifo -m 640 pipe; : > empty; truncate -s 1T sparse; printf end >> sparse; mkdir empty.d";
        let outcome = cow(case, &[], script).exits(0);
        assert!(outcome.took.as_secs() < 10, "{outcome:?}");
        case.lazaret(["diff"]).go().exits(0);
        case.lazaret(["commit"]).go().exits(0);
        let of = |name: &str| fs::metadata(case.work.join(name)).unwrap();
        assert!(of("pipe").file_type().is_fifo() && mode(case, "pipe") == 0o640);
        assert_eq!((of("empty").len(), of("empty.d").is_dir()), (0, true));
        assert_eq!(of("sparse").len(), (1 << 40) + 3);
        assert!(of("sparse").blocks() < 2048, "{} blocks of a file that is a hole", of("sparse").blocks());
        assert_eq!(outside(case, "tail -c 3 sparse"), "end");
        // A pipe of the host can be given another mode, a large file be removed.
        let_time_pass();
        committed(case, "chmod 600 pipe; rm sparse");
        assert_eq!((mode(case, "pipe"), case.work.join("sparse").exists()), (0o600, false));
    });
}

#[test]
fn deep_paths_are_no_obstacle() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        // Longer than any path that the kernel takes at once.
        let script = "
import os
open('other', 'w').write('x')
for i in range(300): os.mkdir('d' * 20); os.chdir('d' * 20)
open('leaf', 'w').write('leaf')";
        case.python(&["--cow"], script).exits(0);
        case.lazaret(["diff", "--stat"]).go().exits(0);
        case.lazaret(["commit"]).go().exits(0).tells("302 changes are committed");
        let found = outside(case, "find . -name leaf -printf '%d %f\\n'; cat other; rm -rf ddd*");
        assert_eq!(found, "301 leaf\nx");
        // So deep that nobody follows: told, and the rest is applied.
        let script = "
import os
open('rest', 'w').write('x')
for i in range(1500): os.mkdir('d'); os.chdir('d')";
        case.python(&["--cow"], script).exits(0);
        let shown = case.lazaret(["diff", "--stat"]).go().exits(0).out();
        assert!(shown.contains("nested too deep"), "{}", &shown[shown.len().saturating_sub(300)..]);
        case.lazaret(["commit"]).go().exits(0).tells("refused");
        assert_eq!(outside(case, "cat rest; rm -r d"), "x");
    });
}

#[test]
fn what_shuts_everybody_out_is_applied_as_such() {
    as_everybody(|case| {
        prepared(case, "mkdir -p d/in; echo 1 > d/in/f; echo s > shut; chmod 0 shut; mkdir no; chmod 0 no");
        committed(
            case,
            "echo 2 > d/in/f; chmod 0 d/in; mkdir n; echo k > n/k; chmod 0 n; echo q > r; chmod 0 r; \
             chmod 600 shut; echo more >> shut; chmod 500 no",
        );
        for (name, bits) in [("d/in", 0), ("n", 0), ("r", 0), ("shut", 0o600), ("no", 0o500)] {
            assert_eq!(mode(case, name), bits, "{name}");
        }
        outside(case, "chmod 700 d/in n no; chmod 600 r");
        assert_eq!(outside(case, "cat d/in/f n/k r shut"), "2\nk\nq\ns\nmore");
        // A file that stays shut can be replaced and removed.
        prepared(case, "chmod 0 r shut");
        committed(case, "rm -f r; mv -f d/in/f shut");
        assert_eq!(outside(case, "cat shut; ls"), "2\nd\nn\nno\nshut");
    });
}

#[test]
fn bits_that_lend_an_identity_are_never_applied() {
    as_everybody(|case| {
        let setup =
            "cp /bin/true lent; chmod 4755 lent; cp /bin/true keeps; chmod 4755 keeps; echo x > plain";
        prepared(case, setup);
        let script = "chmod 4755 plain 2>/dev/null || :; chmod 2755 plain 2>/dev/null || :; cp /bin/true made; \
                      chmod u+s made 2>/dev/null || :; install -m 6755 /bin/true installed 2>/dev/null || :; \
                      printf more >> lent; cp -p keeps copied 2>/dev/null || :; mkdir -m 2777 d 2>/dev/null || :";
        cow(case, &[], script).exits(0);
        case.lazaret(["commit"]).go().exits(0);
        for (name, entry) in tree(&case.work) {
            let may = name == Path::new("keeps");
            assert_eq!(entry.mode & 0o6000 != 0, may, "{} {:o}", name.display(), entry.mode);
        }
        assert!(names(&case.work).contains(&"made".to_owned()) && mode(case, "lent") == 0o755);
    });
}

#[test]
fn links_that_leave_the_tree_are_never_applied() {
    as_everybody(|case| {
        prepared(case, "mkdir -p d/e; ln -s d/e was; echo f > f");
        let out = [
            ("absolute", "/etc/passwd"),
            ("climbing", "../outside"),
            ("root", "/"),
            ("d/up", "../../outside"),
            ("d/through", "e/../../.."),
            ("dots", "./../x"),
            ("proc", "/proc/self/root"),
            ("was", "/etc"),
            ("f", "/etc/shadow"),
        ];
        let inside = [("fine", "f"), ("d/fine", "../f"), ("d/e/fine", "../../d"), ("dangling", "later/name")];
        let mut script = String::new();
        for (name, target) in out.iter().chain(&inside) {
            script += &format!("rm -f {name}; ln -sn {target} {name}\n");
        }
        cow(case, &[], &script).exits(0);
        let found = changes(case);
        for (name, _) in out {
            assert_eq!(found[name], "refused", "{name}");
        }
        let all = ["commit", "--include-persistence", "--leave-conflicts"];
        case.lazaret(all).go().exits(0).tells("9 refused");
        for (name, target) in inside {
            assert_eq!(fs::read_link(case.work.join(name)).unwrap(), Path::new(target));
        }
        assert_eq!(fs::read_link(case.work.join("was")).unwrap(), Path::new("d/e"));
        assert_eq!(outside(case, "cat f; find . -type l | wc -l"), "f\n5");
    });
}

#[test]
fn device_nodes_and_sockets_are_never_applied() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        prepared(case, "echo x > hidden");
        // A node 0:0 is how an overlay notes a deletion; the other names are how other layers do.
        let script = "
import os, socket, stat
for name, device in [('null', (1, 3)), ('disk', (8, 0)), ('hidden2', (0, 0))]:
    for kind in [stat.S_IFCHR, stat.S_IFBLK]:
        try: os.mknod(name, kind | 0o666, os.makedev(*device)); print('made', name)
        except OSError: pass
socket.socket(socket.AF_UNIX).bind('socket')
os.mkdir('.wh.hidden'); open('.wh..wh..opq', 'w'); open('rest', 'w')";
        let outcome = case.python(&["--cow"], script).exits(0);
        assert!(!outcome.out().contains("made"), "{outcome:?}");
        let found = changes(case);
        assert_eq!(found.get("socket").map(String::as_str), Some("refused"));
        assert!(!found.contains_key("hidden") && !found.contains_key("null"), "{found:?}");
        case.lazaret(["commit"]).go().exits(0).tells("1 refused");
        assert_eq!(names(&case.work), [".wh..wh..opq", ".wh.hidden", "hidden", "rest"]);
        assert_eq!(outside(case, "cat hidden"), "x");
    });
}

#[test]
fn a_directory_cannot_be_made_to_look_replaced() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        prepared(case, "mkdir d; echo 1 > d/one; echo 2 > d/two");
        let script = "
import os
marks = ['user.overlay.opaque', 'user.overlay.whiteout', 'user.overlay.redirect', 'user.overlay.metacopy']
for name in marks + [mark.replace('user.', 'trusted.') for mark in marks]:
    for on in ['d', 'd/one', '.']:
        try: os.setxattr(on, name, b'y')
        except OSError: pass
open('d/three', 'w').write('3')
print(sorted(os.listdir('d')))";
        let flags = ["--cow", "--on-success", "commit"];
        case.python(&flags, script).exits(0).prints("['one', 'three', 'two']");
        assert_eq!(names(&case.work), ["d", "d/one", "d/three", "d/two"]);
        assert_eq!(outside(case, "cat d/one"), "1");
    });
}

#[test]
fn what_is_written_again_as_it_was_is_no_change() {
    as_everybody(|case| {
        prepared(case, "echo same > same; echo m > m; mkdir d; echo x > d/x; ln -s same l");
        let script = "echo same > same; chmod 755 m; chmod 644 m; touch d/x; mkdir t; rmdir t; echo n > n; rm n; \
                      ln -sfn m l; ln -sfn same l; rm -r d; mkdir d; echo x > d/x";
        cow(case, &["--on-success", "commit"], script).exits(0);
        assert_eq!((list(case).len(), case.events_of("TRANSACTION_COMMITTED").len()), (0, 0));
        cow(case, &[], "echo same > same; echo other > m").exits(0);
        assert_eq!(changes(case), expected(&[("m", "modified")]));
    });
}

#[test]
fn what_is_written_has_a_budget_and_reaching_it_is_told() {
    as_everybody(|case| {
        let script = "head -c 600000 /dev/zero > one; head -c 900000 /dev/zero > two || echo full";
        let outcome = case.run(["--cow", "--max-write", "1M", "--", "sh", "-c", script]).exits(0);
        assert_eq!(outcome.out(), "full", "{outcome:?}");
        assert!(outcome.stderr.contains("No space left on device"), "{outcome:?}");
        outcome.tells("private storage is full: 1M");
        case.lazaret(["commit"]).go().exits(0);
        assert_eq!(fs::metadata(case.work.join("one")).unwrap().len(), 600_000);
        let cut = fs::metadata(case.work.join("two")).unwrap().len();
        assert!(cut <= (1 << 20) + (1 << 18) - 600_000, "{cut}");
        // Storage of its own shares it.
        let script = "head -c 900000 /dev/zero > /tmp/one; head -c 900000 /dev/zero > three || echo full";
        case.run(["--cow", "--max-write", "1M", "--", "sh", "-c", script]).exits(0).prints("full");
    });
}

#[test]
fn the_number_of_files_has_a_budget_and_reaching_it_is_told() {
    as_everybody(|case| {
        let text = "[filesystem]\nreadOnlyPaths = [\"/usr\", \"/bin\", \"/lib\", \"/lib64\", \"/etc\"]\n\
                    readWritePaths = [\".\"]\nmaxInodes = 100\n[environment]\nallow = [\"PATH\"]\n";
        let policy = case.root.join("policy.toml");
        case.file(&policy, text);
        let script = "i=0; while [ $i -lt 2000 ]; do : > f$i || break; i=$((i+1)); done; ls | wc -l";
        let run = ["--cow", "--policy", policy.to_str().unwrap(), "--", "bash", "-c", script];
        let outcome = case.run(run).exits(0);
        assert!(outcome.stderr.contains("No space left on device"), "{outcome:?}");
        let count: u64 = outcome.out().parse().unwrap();
        assert!((90..=360).contains(&count), "{count} files");
        outcome.tells("as many files as it may: 100");
        assert_eq!(changes(case).len() as u64, count);
    });
}
