//! Policies, tools and calls together.

mod deciding;
mod explaining;
mod fitting;
mod hostile;
mod reloading;
mod retrieving;
mod seeing;
mod shipped;

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::{
    call::Tool,
    facts::{Access, HostFact, HostKind, PathFact, Place as Where},
    judge::{
        clause::Text,
        source::{Against, check},
    },
    verdict::Decision,
};

const SESSION: &str = "/proj/session";

fn tool(server: &str, name: &str, schema: Value) -> Tool {
    Tool {
        server: server.into(),
        name: name.into(),
        description: String::new(),
        input_schema: schema,
        hints: Hints::default(),
    }
}

fn tools() -> Vec<Tool> {
    let path =
        json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] });
    let push = json!({ "type": "object", "properties": {
        "remote": { "type": "string" }, "force": { "type": "boolean" }, "depth": { "type": "integer" },
        "timeout": { "type": "number" }, "refs": { "type": "array", "items": { "type": "string" } },
        "options": { "type": "object", "properties": { "quiet": { "type": "boolean" } } },
    } });
    vec![
        tool("fs", "read", path.clone()),
        tool("fs", "write", path),
        tool("git", "push", push),
        tool("git", "status", json!({ "type": "object" })),
    ]
}

fn texts(files: &[&str]) -> Vec<Text> {
    let text = |(at, content): (usize, &&str)| {
        let name = format!("{}.cedar", char::from(b'a' + u8::try_from(at).expect("few")));
        Text { file: PathBuf::from(&name), name, content: (*content).to_owned() }
    };
    files.iter().enumerate().map(text).collect()
}

fn clauses(files: &[&str]) -> Vec<Clause> {
    let (clauses, diagnostics) = clause::parse(&texts(files));
    assert_eq!(diagnostics, []);
    clauses
}

fn judge(policies: &str) -> Judge {
    Judge::build(clauses(&[policies]), &Catalog::of(&tools()), Fitness::Strict)
        .unwrap_or_else(|error| panic!("{error}"))
        .0
}

fn faults(policies: &str) -> Vec<String> {
    faults_with(policies, &Catalog::of(&tools()))
}

fn faults_with(policies: &str, catalog: &Catalog) -> Vec<String> {
    let (_, found) = Judge::build(clauses(&[policies]), catalog, Fitness::Lenient).expect("a judge");
    found.iter().map(|found| format!("{:?} {found}", found.severity)).collect()
}

fn circumstances() -> Circumstances {
    Circumstances {
        containment: Containment::Sandboxed,
        network: Network::Closed,
        session: SESSION.into(),
        pin: Pin::Same,
    }
}

fn path(resolved: &str, access: Access) -> PathFact {
    let place = if Path::new(resolved).starts_with(SESSION) { Where::Session } else { Where::Outside };
    PathFact {
        argument: "/path".into(),
        given: resolved.into(),
        resolved: resolved.into(),
        place,
        protected: None,
        access,
    }
}

fn host(name: &str, kind: HostKind) -> HostFact {
    HostFact {
        argument: "/url".into(),
        given: name.into(),
        host: name.into(),
        port: Some(443),
        scheme: Some("https".into()),
        kind,
    }
}

fn paths(all: &[(&str, Access)]) -> Facts {
    Facts { paths: all.iter().map(|(resolved, access)| path(resolved, *access)).collect(), hosts: vec![] }
}

fn hosts(all: &[&str]) -> Facts {
    Facts { paths: vec![], hosts: all.iter().map(|name| host(name, HostKind::Url)).collect() }
}

fn ask(judge: &Judge, server: &str, name: &str, arguments: Value, facts: &Facts) -> Verdict {
    ask_in(judge, server, name, arguments, facts, &circumstances())
}

fn ask_in(
    judge: &Judge,
    server: &str,
    name: &str,
    arguments: Value,
    facts: &Facts,
    circumstances: &Circumstances,
) -> Verdict {
    let tool = tool(server, name, Value::Null);
    let arguments: Map<String, Value> = arguments.as_object().cloned().unwrap_or_default();
    let call = Call { tool: &tool, arguments: &arguments };
    let verdict = judge.decide(&call, facts, circumstances);
    let explained = judge.explain(&call, facts, circumstances);
    assert_eq!(
        (explained.decision, &explained.rule, &explained.reason),
        (verdict.decision, &verdict.rule, &verdict.reason)
    );
    verdict
}

fn decision(policies: &str, name: &str, arguments: Value) -> (Decision, String) {
    let verdict = ask(&judge(policies), "git", name, arguments, &Facts::default());
    (verdict.decision, verdict.rule.0)
}

const ALL: &str = "@id(\"all\") permit(principal, action, resource);\n";

/// Policies of every kind, true or not for the call that is asked about.
fn policy() -> impl Strategy<Value = (bool, bool, bool, u8)> {
    (any::<bool>(), any::<bool>(), any::<bool>(), 0..3_u8)
}

fn written(at: usize, (permit, asks, holds, head): (bool, bool, bool, u8)) -> String {
    let asks = if asks { "@escalate(\"sure?\") " } else { "" };
    let effect = if permit { "permit" } else { "forbid" };
    let action = ["action", "action in Action::\"git\"", "action == Action::\"fs/read\""][usize::from(head)];
    let holds = if holds { "context.insideSession" } else { "context.pushes" };
    format!("@id(\"p{at}\") {asks}{effect}(principal, {action}, resource) when {{ {holds} }};\n")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn deny_wins_and_neither_files_nor_their_order_matter(
        policies in prop::collection::vec(policy(), 0..7), seed in any::<u64>(), split in 0..7_usize,
    ) {
        let all: Vec<String> = policies.iter().enumerate().map(|(at, policy)| written(at, *policy)).collect();
        let catalog = Catalog::of(&tools());
        let decide = |files: &[&str]| {
            let judge = Judge::build(clauses(files), &catalog, Fitness::Strict).expect("fits").0;
            let verdict = ask(&judge, "git", "status", json!({}), &Facts::default());
            (verdict.decision, verdict.rule.0, verdict.reason.replace("(a.cedar:", "("))
        };
        let first = decide(&[&all.concat()]);

        // By the words of the documentation.
        let satisfied = || policies.iter().filter(|(_, _, holds, head)| *holds && *head < 2);
        let forbidden = satisfied().any(|(permit, asks, ..)| !permit && !asks);
        let permitted = satisfied().any(|(permit, ..)| *permit);
        let asked = satisfied().any(|(_, asks, ..)| *asks);
        let expected = match (forbidden, permitted, asked) {
            (true, ..) | (_, false, _) => Decision::Deny,
            (_, _, true) => Decision::Escalate,
            _ => Decision::Allow,
        };
        prop_assert_eq!(first.0, expected);

        let mut shuffled = all.clone();
        if !shuffled.is_empty() {
            let by = usize::try_from(seed % shuffled.len() as u64).expect("small");
            shuffled.rotate_left(by);
        }
        if seed % 2 == 0 { shuffled.reverse(); }
        let (one, two) = shuffled.split_at(split.min(shuffled.len()));
        let (one, two) = (one.concat(), two.concat());
        let second = decide(&[&one, &two]);
        prop_assert_eq!((first.0, first.1), (second.0, second.1));
    }
}
