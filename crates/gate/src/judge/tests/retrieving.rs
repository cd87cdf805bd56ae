//! Resources and prompts.

use super::*;

#[test]
fn resources_and_prompts_are_actions_of_their_own() {
    let judge = judge(
        "permit(principal, action in Action::\"read\", resource) when { context.scheme == \"memo\" && context.uri like \"memo://*\" };
         permit(principal, action == Action::\"git#prompt\", resource) when { context.prompt == \"commit\" };",
    );
    let ask = |retrieval: Retrieval<'_>| {
        let none = Facts::default();
        let verdict = judge.decide_retrieval(&retrieval, &none, &circumstances());
        assert_eq!(judge.explain_retrieval(&retrieval, &none, &circumstances()).decision, verdict.decision);
        verdict
    };
    assert_eq!(ask(Retrieval::Resource { server: "git", uri: "memo://1" }).decision, Decision::Allow);
    assert_eq!(ask(Retrieval::Resource { server: "git", uri: "other:1" }).decision, Decision::Deny);
    assert_eq!(ask(Retrieval::Prompt { server: "git", name: "commit" }).decision, Decision::Allow);
    assert_eq!(ask(Retrieval::Prompt { server: "fs", name: "commit" }).decision, Decision::Deny);
    assert_eq!(ask(Retrieval::Prompt { server: "gone", name: "commit" }).rule.0, Rule::UNKNOWN_TOOL);
}

#[test]
fn an_address_of_a_file_or_host_without_its_facts_is_denied() {
    let judge = judge(ALL);
    let uri = "FILE:///etc/passwd";
    let read = |facts: &Facts| {
        judge.decide_retrieval(&Retrieval::Resource { server: "git", uri }, facts, &circumstances())
    };
    assert_eq!(read(&Facts::default()).rule.0, Rule::UNDECIDABLE);
    assert_eq!(read(&paths(&[("/etc/passwd", Access::Read)])).decision, Decision::Allow);
}
