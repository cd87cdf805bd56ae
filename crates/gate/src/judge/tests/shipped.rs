//! The default policy and the examples.

use super::*;

fn default() -> std::sync::Arc<Judge> {
    let (source, diagnostics) = Source::open(Origin::BuiltIn, &Catalog::of(&tools())).expect("fits");
    assert_eq!(diagnostics, []);
    source.judge()
}

fn rule(facts: &Facts, circumstances: &Circumstances) -> (Decision, String) {
    let verdict = ask_in(&default(), "git", "push", json!({}), facts, circumstances);
    (verdict.decision, verdict.rule.0)
}

#[test]
fn the_default_policy_fits_without_tools() {
    let (_, diagnostics) = Source::open(Origin::BuiltIn, &Catalog::new()).expect("fits");
    assert_eq!(diagnostics, []);
}

#[test]
fn by_default_sandboxed_servers_work_inside_and_ask_beyond() {
    let here = circumstances();
    let inside = |access| paths(&[("/proj/session/x", access)]);
    let outside = |access| paths(&[("/proj/session/x", Access::Write), ("/srv/x", access)]);
    assert_eq!(rule(&Facts::default(), &here), (Decision::Allow, "sandboxed-inside".into()));
    assert_eq!(rule(&inside(Access::Delete), &here), (Decision::Allow, "sandboxed-inside".into()));
    assert_eq!(rule(&outside(Access::Read), &here), (Decision::Escalate, "read-outside".into()));
    assert_eq!(rule(&outside(Access::Write), &here), (Decision::Escalate, "write-outside".into()));
    assert_eq!(rule(&outside(Access::Delete), &here), (Decision::Escalate, "delete-outside".into()));
    assert_eq!(rule(&hosts(&["example.com"]), &here), (Decision::Escalate, "names-a-host".into()));
    let both = Facts { hosts: hosts(&["example.com"]).hosts, ..outside(Access::Write) };
    let verdict = ask(&default(), "git", "push", json!({}), &both);
    assert_eq!(verdict.reason, "connects to a host; writes files outside of the session directory");
    let changed = Circumstances { pin: Pin::Changed, ..here };
    assert_eq!(rule(&Facts::default(), &changed), (Decision::Escalate, "tool-changed".into()));
}

#[test]
fn by_default_servers_without_a_sandbox_ask_for_all_but_reading_inside() {
    let bare = Circumstances { containment: Containment::Bare, network: Network::Open, ..circumstances() };
    let reading = paths(&[("/proj/session/x", Access::Read)]);
    assert_eq!(rule(&Facts::default(), &bare), (Decision::Escalate, "bare-anything-else".into()));
    assert_eq!(rule(&reading, &bare), (Decision::Escalate, "bare-anything-else".into()));

    let mut tools = tools();
    for tool in &mut tools {
        tool.hints.read_only_hint = Some(true);
    }
    let (source, _) = Source::open(Origin::BuiltIn, &Catalog::of(&tools)).expect("fits");
    let decide = |facts: &Facts| ask_in(&source.judge(), "git", "push", json!({}), facts, &bare).decision;
    assert_eq!(decide(&reading), Decision::Allow);
    assert_eq!(decide(&Facts::default()), Decision::Escalate);
    assert_eq!(decide(&paths(&[("/proj/session/x", Access::Write)])), Decision::Escalate);
    assert_eq!(decide(&paths(&[("/etc/x", Access::Read)])), Decision::Escalate);
    assert_eq!(decide(&hosts(&["example.com"])), Decision::Escalate);
}

#[test]
fn by_default_resources_and_prompts_come_from_sandboxed_servers() {
    let judge = default();
    let bare = Circumstances { containment: Containment::Bare, ..circumstances() };
    let resource = Retrieval::Resource { server: "git", uri: "memo://1" };
    let file = Retrieval::Resource { server: "git", uri: "file:///etc/passwd" };
    let prompt = Retrieval::Prompt { server: "git", name: "x" };
    let none = Facts::default();
    assert_eq!(judge.decide_retrieval(&resource, &none, &circumstances()).decision, Decision::Allow);
    assert_eq!(judge.decide_retrieval(&prompt, &none, &circumstances()).decision, Decision::Allow);
    assert_eq!(judge.decide_retrieval(&resource, &none, &bare).decision, Decision::Escalate);
    assert_eq!(judge.decide_retrieval(&prompt, &none, &bare).decision, Decision::Escalate);
    let passwd = paths(&[("/etc/passwd", Access::Read)]);
    assert_eq!(judge.decide_retrieval(&file, &passwd, &circumstances()).decision, Decision::Escalate);
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mcp-policy").join(name)
}

fn example_tools() -> Vec<Tool> {
    serde_json::from_str(&std::fs::read_to_string(example("tools.json")).expect("tools")).expect("tools")
}

#[test]
fn the_examples_fit_their_tools() {
    let catalog = Catalog::of(&example_tools());
    for name in ["project.cedar", "read-only.cedar", "ask-always.cedar"] {
        assert_eq!(check(&example(name), Against::Nothing), [], "{name}");
        assert_eq!(check(&example(name), Against::Tools(&catalog)), [], "{name}");
        Source::open(Origin::Files(example(name)), &catalog).expect(name);
    }
}

#[test]
fn the_example_of_a_project_does_what_its_comments_say() {
    let (source, _) =
        Source::open(Origin::Files(example("project.cedar")), &Catalog::of(&example_tools())).expect("fits");
    let judge = source.judge();
    let decide = |server: &str, tool: &str, arguments: Value, facts: &Facts| {
        ask(&judge, server, tool, arguments, facts).decision
    };
    let read = |path: &str| {
        decide("filesystem", "read_text_file", json!({ "path": path }), &paths(&[(path, Access::Read)]))
    };
    assert_eq!(read("/proj/session/x"), Decision::Allow);
    assert_eq!(read("/usr/include/stdio.h"), Decision::Allow);
    assert_eq!(read("/etc/passwd"), Decision::Deny);
    let write = paths(&[("/usr/x", Access::Write)]);
    assert_eq!(
        decide("filesystem", "write_file", json!({ "path": "/usr/x", "content": "" }), &write),
        Decision::Deny
    );
    let fetch = |name: &str| decide("fetch", "fetch", json!({ "url": "x" }), &hosts(&[name]));
    assert_eq!(fetch("docs.python.org"), Decision::Allow);
    assert_eq!(fetch("static.docs.rs"), Decision::Allow);
    assert_eq!(fetch("evildocs.rs"), Decision::Deny);
    let repository = paths(&[("/proj/session", Access::Write)]);
    let checkout = |branch: &str| {
        decide("git", "git_checkout", json!({ "repo_path": ".", "branch_name": branch }), &repository)
    };
    assert_eq!(checkout("main"), Decision::Deny);
    assert_eq!(checkout("work"), Decision::Allow);
    assert_eq!(decide("git", "git_reset", json!({ "repo_path": "." }), &repository), Decision::Escalate);
}
