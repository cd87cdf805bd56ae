//! Honest work in a copy-on-write sandbox comes out as it would have without one.

use super::{changes, committed, cow};
use crate::{
    case::{as_everybody, has_tool},
    host::{outside, prepared},
};

const GIT: &str =
    "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b";

#[test]
fn a_git_commit_made_inside_is_sound_outside() {
    if !has_tool("git") {
        return;
    }
    as_everybody(|case| {
        let setup =
            "git init -q -b main .; echo 1 > f; mkdir d; echo g > d/g; git add .; git commit -q -m first";
        prepared(case, &format!("{GIT}; {setup}"));
        let before = outside(case, "git rev-parse HEAD");
        let inside = "echo 2 >> f; git rm -q d/g; echo n > new; git add -A; git commit -q -m second; \
                      git checkout -q -b topic; echo 3 >> f; git commit -q -a -m third; git checkout -q main; \
                      git merge -q topic; git gc -q; git status --porcelain; git log --format=%s";
        cow(case, &[], &format!("{GIT}; {inside}")).exits(0).prints("third\nsecond\nfirst");
        assert_eq!(outside(case, "git rev-parse HEAD; git fsck 2>&1; cat f"), format!("{before}\n1"));
        case.lazaret(["commit", "--include-persistence"]).go().exits(0);
        assert_eq!(
            outside(case, "git fsck --full --strict 2>&1; git status --porcelain; git log --format=%s"),
            "third\nsecond\nfirst"
        );
        assert_eq!(outside(case, "cat f; ls"), "1\n2\n3\nf\nnew");
    });
}

#[test]
fn a_repository_cloned_inside_is_sound_outside() {
    if !has_tool("git") {
        return;
    }
    as_everybody(|case| {
        prepared(
            case,
            &format!("{GIT}; git init -q -b main src; cd src; echo 1 > f; git add .; git commit -q -m one"),
        );
        // With links it would not work: a layered file gets another number when it is linked to.
        committed(case, "git clone -q --no-hardlinks src copy");
        // Its settings act on the next run and were left out.
        assert!(!case.work.join("copy/.git/config").exists());
        assert!(changes(case).contains_key("copy/.git/config"));
        case.lazaret(["commit", "--include-persistence"]).go().exits(0);
        assert_eq!(outside(case, "cd copy; git fsck 2>&1; git status --porcelain; cat f"), "1");
    });
}

#[test]
fn a_build_inside_gives_a_program_that_runs_outside() {
    if !has_tool("gcc") || !has_tool("make") {
        return;
    }
    as_everybody(|case| {
        let makefile = "OBJ = a.o b.o\nprog: $(OBJ)\n\tgcc -o $@ $(OBJ)\n%.o: %.c\n\tgcc -c -o $@ $<\nclean:\n\trm -f prog *.o\n";
        case.file("Makefile", makefile);
        case.file(
            "a.c",
            "#include <stdio.h>\nint b(void);\nint main(void) { printf(\"%d\\n\", b()); return 0; }\n",
        );
        case.file("b.c", "int b(void) { return 1; }\n");
        crate::host::let_time_pass();
        committed(case, "make -j2 -s").tells("3 changes are committed");
        assert_eq!(outside(case, "./prog; make -q && echo up to date"), "1\nup to date", "times are kept");
        // Only what depends on a change is built again.
        case.file("b.c", "int b(void) { return 2; }\n");
        crate::host::let_time_pass();
        let outcome = committed(case, "make");
        assert!(outcome.out().contains("b.o") && !outcome.out().contains("-c -o a.o"), "{outcome:?}");
        assert_eq!(outside(case, "./prog; make -q && echo up to date"), "2\nup to date");
        committed(case, "make -s clean");
        assert_eq!(outside(case, "ls"), "Makefile\na.c\nb.c");
    });
}

#[test]
fn editors_databases_and_archives_work_inside() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        prepared(case, "echo one > text; mkdir d; echo x > d/x; echo y > d/y");
        let script = "
import os, sqlite3, tarfile, shutil, tempfile
with open('text.tmp', 'w') as f: f.write('two\\n'); f.flush(); os.fsync(f.fileno())
os.rename('text', 'text~'); os.rename('text.tmp', 'text')
db = sqlite3.connect('data.db'); db.execute('pragma journal_mode=wal')
db.execute('create table t (n integer)'); db.executemany('insert into t values (?)', [(n,) for n in range(500)]); db.commit(); db.close()
with tarfile.open('d.tar', 'w') as t: t.add('d')
shutil.rmtree('d')
with tarfile.open('d.tar') as t: t.extractall('.')
os.remove('d.tar')";
        case.python(&["--cow", "--on-success", "commit"], script).exits(0);
        let count = "/usr/bin/python3 -c \"import sqlite3; print(sqlite3.connect('data.db').execute('select sum(n) from t').fetchone()[0])\"";
        assert_eq!(outside(case, &format!("cat text text~ d/x d/y; {count}")), "two\none\nx\ny\n124750");
    });
}
