//! Arbitrary arguments under an arbitrary schema, against a small tree full of links: classifying never panics and
//! ends, every fact is in its normal form, and nothing protected comes through.
#![no_main]

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use lazaret_gate::{
    Call, Hints, Place, Surroundings, Tool, classify,
    escalation::{CallDigest, Scope, suggest},
};
use lazaret_policy::host::Host;
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

struct World {
    root: PathBuf,
    surroundings: Surroundings,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let root = std::env::temp_dir().join(format!("lazaret-fuzz-gate-{}", std::process::id()));
    for directory in ["s/a/b", "p/q", "h", "s/r/.git"] {
        fs::create_dir_all(root.join(directory)).expect("the tree can be made");
    }
    let root = root.canonicalize().expect("the tree exists");
    fs::write(root.join("s/f"), "").expect("the tree can be made");
    fs::write(root.join("p/q/secret"), "").expect("the tree can be made");
    fs::write(root.join("s/r/.git/HEAD"), "ref: refs/heads/m").expect("the tree can be made");
    let config = "[remote \"origin\"]\nurl = https://a.example/\npushurl = git@b.example:x\n";
    fs::write(root.join("s/r/.git/config"), config).expect("the tree can be made");
    for (target, link) in [("../p", "s/l"), ("a/b", "s/i"), ("/", "s/o"), ("x", "s/x"), ("../p/new", "s/d")] {
        symlink(target, root.join(link)).expect("the tree can be made");
    }
    let surroundings = Surroundings::new(&root.join("s"), &root.join("s"))
        .and_then(|it| it.with_home(&root.join("h")))
        .and_then(|it| it.protect(&root.join("p"), "the secret"))
        .expect("the places resolve");
    World { root, surroundings }
});

fuzz_target!(|data: &[u8]| {
    // The name of a tool, its schema and the arguments, a line each.
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.splitn(3, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let name = line().to_owned();
    let input_schema: Value = serde_json::from_str(line()).unwrap_or_default();
    let Ok(arguments) = serde_json::from_str::<Map<String, Value>>(line()) else { return };
    let tool = Tool {
        server: "git".into(),
        name,
        description: String::new(),
        input_schema,
        hints: Hints::default(),
    };
    let call = Call { tool: &tool, arguments: &arguments };
    let facts = match classify(&call, &WORLD.surroundings) {
        Ok(facts) => facts,
        Err(refusal) => {
            assert!(!refusal.to_string().is_empty());
            return;
        }
    };
    for fact in &facts.paths {
        assert!(fact.resolved.is_absolute() && !fact.resolved.starts_with(WORLD.root.join("p")));
        assert!(!fact.resolved.components().any(|it| it.as_os_str() == ".."));
        assert_eq!(fact.place == Place::Session, fact.resolved.starts_with(WORLD.root.join("s")));
    }
    for fact in &facts.hosts {
        assert_eq!(Host::parse(&fact.host).map(|host| host.to_string()), Ok(fact.host.clone()));
    }
    for scope in suggest(&facts, CallDigest::of("s", "t", call.arguments), &[]) {
        if let Scope::Directory { path, .. } = scope {
            assert!(path.is_absolute() && path.components().count() > 2, "{path:?}");
        }
    }
});
