//! Which decision satisfied policies come to.

use super::*;

#[test]
fn nothing_is_allowed_without_a_permit_and_the_reason_shows_the_line_that_would() {
    let verdict = ask(&judge(""), "git", "status", json!({}), &Facts::default());
    assert_eq!((verdict.decision, verdict.rule.0.as_str()), (Decision::Deny, Rule::DEFAULT_DENY));
    let line = verdict.reason.split_once("This line would: ").expect("a line").1;
    let verdict = ask(&judge(line), "git", "status", json!({}), &Facts::default());
    assert_eq!(verdict.decision, Decision::Allow);
    let verdict = ask(&judge(line), "git", "push", json!({}), &Facts::default());
    assert_eq!(verdict.decision, Decision::Deny);
}

#[test]
fn a_permit_allows_by_tool_server_and_kind() {
    for head in [
        "principal, action, resource",
        "principal == Agent::\"client\", action, resource",
        "principal, action == Action::\"git/push\", resource",
        "principal, action in Action::\"git\", resource",
        "principal, action in Action::\"call\", resource == Server::\"git\"",
    ] {
        let judge = judge(&format!("@id(\"it\") permit({head});"));
        let verdict = ask(&judge, "git", "push", json!({}), &Facts::default());
        assert_eq!((verdict.decision, verdict.rule.0.as_str()), (Decision::Allow, "it"), "{head}");
    }
    let judge = judge("permit(principal, action in [Action::\"read\", Action::\"fs\"], resource);");
    assert_eq!(ask(&judge, "git", "push", json!({}), &Facts::default()).decision, Decision::Deny);
}

#[test]
fn a_forbid_wins_over_permits_and_escalations() {
    let policies = format!(
        "{ALL}@id(\"no\") @reason(\"never\") forbid(principal, action == Action::\"git/push\", resource);
         @escalate(\"?\") permit(principal, action, resource);"
    );
    let verdict = ask(&judge(&policies), "git", "push", json!({}), &Facts::default());
    assert_eq!(
        (verdict.decision, verdict.rule.0.as_str(), verdict.reason.as_str()),
        (Decision::Deny, "no", "never")
    );
}

#[test]
fn a_permit_or_a_forbid_that_escalates_asks_a_person() {
    let ask_permit = "@id(\"p\") @escalate(\"sure?\") permit(principal, action, resource);";
    assert_eq!(decision(ask_permit, "push", json!({})), (Decision::Escalate, "p".into()));
    assert_eq!(decision(&format!("{ALL}{ask_permit}"), "push", json!({})), (Decision::Escalate, "p".into()));
    let ask_forbid =
        "@id(\"f\") @decision(\"escalate\") @reason(\"sure?\") forbid(principal, action, resource);";
    let verdict = ask(&judge(&format!("{ALL}{ask_forbid}")), "git", "push", json!({}), &Facts::default());
    assert_eq!(
        (verdict.decision, verdict.rule.0.as_str(), verdict.reason.as_str()),
        (Decision::Escalate, "f", "sure?")
    );
}

#[test]
fn a_forbid_that_escalates_denies_where_nothing_permits() {
    let policies = "@id(\"f\") @escalate(\"sure?\") forbid(principal, action, resource);";
    let verdict = ask(&judge(policies), "git", "push", json!({}), &Facts::default());
    assert_eq!((verdict.decision, verdict.rule.0.as_str()), (Decision::Deny, Rule::DEFAULT_DENY));
    assert!(verdict.reason.contains("`f`"), "{}", verdict.reason);
}

#[test]
fn all_questions_are_put_to_the_person() {
    let policies = format!(
        "{ALL}@id(\"b\") @escalate(\"two\") forbid(principal, action, resource);
         @id(\"a\") @escalate(\"one\") permit(principal, action, resource);"
    );
    let verdict = ask(&judge(&policies), "git", "push", json!({}), &Facts::default());
    assert_eq!((verdict.rule.0.as_str(), verdict.reason.as_str()), ("a", "one; two"));
}

#[test]
fn a_policy_that_fails_denies_and_is_named() {
    // Overflow is the one failure that a type check does not find.
    let policies = format!(
        "{ALL}@id(\"sum\") forbid(principal, action == Action::\"git/push\", resource)
         when {{ context.args has depth && context.args.depth + 1 > 5 }};"
    );
    let judge = judge(&policies);
    let depth = |depth: i64| ask(&judge, "git", "push", json!({ "depth": depth }), &Facts::default());
    assert_eq!(depth(1).decision, Decision::Allow);
    assert_eq!(depth(9).decision, Decision::Deny);
    let verdict = depth(i64::MAX);
    assert_eq!((verdict.decision, verdict.rule.0.as_str()), (Decision::Deny, Rule::UNDECIDABLE));
    assert!(verdict.reason.contains("`sum`"), "{}", verdict.reason);
}

#[test]
fn a_permit_that_fails_denies_although_another_permits() {
    let policies = format!(
        "{ALL}@id(\"sum\") permit(principal, action == Action::\"git/push\", resource)
         when {{ context.args has depth && context.args.depth + 1 > 5 }};"
    );
    assert_eq!(
        decision(&policies, "push", json!({ "depth": i64::MAX })),
        (Decision::Deny, Rule::UNDECIDABLE.into())
    );
}

#[test]
fn unknown_tools_and_servers_and_wrong_arguments_are_refused() {
    let judge = judge(ALL);
    let rule = |server, tool, arguments| ask(&judge, server, tool, arguments, &Facts::default()).rule.0;
    assert_eq!(rule("git", "psuh", json!({})), Rule::UNKNOWN_TOOL);
    assert_eq!(rule("gti", "push", json!({})), Rule::UNKNOWN_TOOL);
    assert_eq!(rule("git", "push", json!({ "force": "yes" })), Rule::INVALID_ARGUMENT);
    assert_eq!(rule("fs", "read", json!({})), Rule::INVALID_ARGUMENT);
    assert_eq!(rule("git", "push", json!({ "timeout": "anything", "options": {} })), "all");
}

#[test]
fn protected_paths_are_denied_whatever_the_policy_says() {
    let mut facts = paths(&[("/proj/session/x", Access::Read)]);
    facts.paths[0].protected = Some("the policies".into());
    let verdict = ask(&judge(ALL), "fs", "read", json!({ "path": "x" }), &facts);
    assert_eq!((verdict.decision, verdict.rule.0.as_str()), (Decision::Deny, Rule::PROTECTED_PATH));
}

#[test]
fn a_path_that_is_not_unicode_is_denied() {
    use std::os::unix::ffi::OsStrExt;
    let mut facts = paths(&[("/proj/session/x", Access::Read)]);
    facts.paths[0].resolved = PathBuf::from(std::ffi::OsStr::from_bytes(b"/proj/session/\xff"));
    let verdict = ask(&judge(ALL), "fs", "read", json!({ "path": "x" }), &facts);
    assert_eq!((verdict.decision, verdict.rule.0.as_str()), (Decision::Deny, Rule::UNDECIDABLE));
}
