//! Programs as people use them, in a project directory, with the toolchains of the caller's real home.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use crate::case::{Case, Outcome, Who, not_run};

fn has(tool: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).any(|directory| directory.join(tool).is_file());
    if !found {
        not_run(&format!("needs {tool}"));
    }
    found
}

/// As the caller, with the caller's own home and PATH.
fn project() -> (Case, PathBuf) {
    let case = Case::new(Who::Caller);
    let project = case.work.join("project");
    case.directory(&project);
    (case, project)
}

fn run(case: &Case, project: &Path, args: &[&str]) -> Outcome {
    let home = env::var_os("HOME").unwrap_or_else(|| OsString::from("/"));
    case.running(["--"].iter().chain(args))
        .directory(project)
        .env("HOME", home)
        .env("PATH", env::var_os("PATH").unwrap_or_default())
        .go()
}

#[test]
fn git_makes_commits() {
    if !has("git") {
        return;
    }
    let (case, project) = project();
    let git = |args: &[&str]| {
        let all: Vec<&str> = ["git", "-c", "user.name=Test", "-c", "user.email=test@example.com"]
            .into_iter()
            .chain(args.iter().copied())
            .collect();
        run(&case, &project, &all)
    };
    git(&["init", "-q", "."]).exits(0);
    fs::write(project.join("file"), "content\n").unwrap();
    git(&["status", "--short"]).exits(0).prints("?? file");
    git(&["add", "file"]).exits(0);
    git(&["commit", "-q", "-m", "a message"]).exits(0);
    git(&["log", "--format=%s %an"]).exits(0).prints("a message Test");
    git(&["status", "--short"]).exits(0).prints("").tells_nothing();
}

#[test]
fn python_computes_and_uses_its_library() {
    if !has("python3") {
        return;
    }
    let (case, project) = project();
    let script = "import json, sqlite3, subprocess, tempfile, multiprocessing as m, asyncio\n\
                  with tempfile.NamedTemporaryFile() as f: f.write(b'x')\n\
                  async def a(): return 1\n\
                  assert asyncio.run(a()) == 1\n\
                  q = m.Queue(); q.put(1); assert q.get() == 1\n\
                  print(json.dumps({'sum': sum(range(10)), 'sh': subprocess.check_output(['echo', 'hi']).decode()}))";
    run(&case, &project, &["python3", "-c", script])
        .exits(0)
        .prints("{\"sum\": 45, \"sh\": \"hi\\n\"}")
        .tells_nothing();
}

#[test]
fn python_makes_a_virtual_environment() {
    if !has("python3") {
        return;
    }
    let (case, project) = project();
    run(&case, &project, &["python3", "-m", "venv", "--without-pip", "env"]).exits(0);
    run(&case, &project, &["env/bin/python", "-c", "import sys; print(sys.prefix != sys.base_prefix)"])
        .exits(0)
        .prints("True");
}

#[test]
fn node_computes_and_starts_processes() {
    if !has("node") {
        return;
    }
    let (case, project) = project();
    let script = "const c = require('child_process'); require('fs').writeFileSync('made', 'x'); \
                  console.log(6 * 7, c.execSync('echo hi').toString().trim())";
    run(&case, &project, &["node", "-e", script]).exits(0).prints("42 hi").tells_nothing();
    assert!(project.join("made").exists());
    let server = "const s = require('http').createServer((q, r) => r.end('ok')).listen(0, '127.0.0.1', () => \
                  require('http').get({port: s.address().port}, r => { r.on('data', d => console.log(d.toString())); \
                  r.on('end', () => s.close()) }))";
    run(&case, &project, &["node", "-e", server]).exits(0).prints("ok");
}

#[test]
fn make_and_the_compiler_build_a_program_that_runs() {
    if !has("make") || !has("gcc") {
        return;
    }
    let (case, project) = project();
    fs::write(project.join("hello.c"), "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n")
        .unwrap();
    fs::write(project.join("Makefile"), "hello: hello.c\n\tgcc -O1 -o $@ $<\n").unwrap();
    run(&case, &project, &["make", "-j2"]).exits(0).tells_nothing();
    run(&case, &project, &["./hello"]).exits(0).prints("hello");
}

#[test]
fn cargo_builds_and_tests_a_crate() {
    if !has("cargo") {
        return;
    }
    let (case, project) = project();
    fs::create_dir(project.join("src")).unwrap();
    fs::write(
        project.join("Cargo.toml"),
        "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    )
    .unwrap();
    fs::write(project.join("src/main.rs"), "fn main() { println!(\"tiny\"); }\n#[test] fn works() {}\n")
        .unwrap();
    run(&case, &project, &["cargo", "build", "--offline", "--quiet"]).exits(0);
    run(&case, &project, &["target/debug/tiny"]).exits(0).prints("tiny");
    run(&case, &project, &["cargo", "test", "--offline", "--quiet"]).exits(0);
}

#[test]
fn bash_does_what_scripts_do() {
    if !has("bash") {
        return;
    }
    let (case, project) = project();
    let script = "set -euo pipefail; f=$(mktemp); cat <(echo a) <(echo b) | sort -r > \"$f\"; mapfile -t l < \"$f\"; \
                  coproc cat; echo c >&\"${COPROC[1]}\"; read -r x <&\"${COPROC[0]}\"; echo \"${l[*]} $x\"; [[ -t 0 ]] || echo no terminal";
    run(&case, &project, &["bash", "-c", script]).exits(0).prints("b a c\nno terminal").tells_nothing();
}

#[test]
fn archives_and_permissions_work() {
    if !has("tar") {
        return;
    }
    let (case, project) = project();
    let script = "mkdir -p a/b && echo x > a/b/c && chmod 640 a/b/c && ln -s c a/b/d && tar czf a.tgz a && rm -rf a && tar xzf a.tgz && \
                  stat -c %a a/b/c && readlink a/b/d && mv a z && find z -type f | wc -l && rm -rf z && ls";
    run(&case, &project, &["sh", "-c", script]).exits(0).prints("640\nc\n1\na.tgz").tells_nothing();
}
