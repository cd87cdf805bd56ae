//! What conditions can see of a request.

use super::*;

fn holds(condition: &str, facts: &Facts, circumstances: &Circumstances) -> bool {
    let judge =
        judge(&format!("permit(principal, action in Action::\"call\", resource) when {{ {condition} }};"));
    ask_in(&judge, "git", "status", json!({}), facts, circumstances).decision == Decision::Allow
}

#[test]
fn paths_are_sorted_by_place_and_access() {
    let facts = paths(&[
        ("/proj/session/a", Access::Write),
        ("/usr/share/b", Access::Read),
        ("/usr/lib/c", Access::Delete),
    ]);
    for condition in [
        "context.paths.contains(\"/proj/session/a\")",
        "context.outsidePaths == [\"/usr/share/b\", \"/usr/lib/c\"]",
        "context.readPaths == [\"/usr/share/b\"]",
        "context.writePaths == [\"/proj/session/a\"]",
        "context.deletePaths.containsAny(context.outsidePaths)",
        "!context.insideSession",
        "context.outsideWithin.contains(\"/usr\") && !context.outsideWithin.contains(\"/usr/share\")",
        "context.pathsWithin == [\"/\"]",
        "context.session == \"/proj/session\"",
    ] {
        assert!(holds(condition, &facts, &circumstances()), "{condition}");
    }
    let nothing =
        "context.insideSession && context.paths.isEmpty() && context.domains.isEmpty() && !context.pushes";
    assert!(holds(nothing, &Facts::default(), &circumstances()));
}

#[test]
fn hosts_have_names_zones_addresses_ports_and_schemes() {
    let mut facts = hosts(&["api.github.com", "github.com"]);
    assert!(holds("context.domainsWithin.contains(\"github.com\")", &facts, &circumstances()));
    assert!(holds("context.ports == [443] && context.schemes == [\"https\"]", &facts, &circumstances()));
    facts.hosts.push(host("10.1.2.3", HostKind::GitPush));
    assert!(!holds("context.domainsWithin.contains(\"github.com\")", &facts, &circumstances()));
    assert!(holds("context.addresses == [ip(\"10.1.2.3\")] && context.pushes", &facts, &circumstances()));
}

#[test]
fn circumstances_are_attributes_of_the_server_and_of_the_context() {
    let none = Facts::default();
    let mut now = circumstances();
    assert!(holds(
        "resource.sandboxed && !resource.network && context.pinned && !context.toolChanged",
        &none,
        &now
    ));
    now.containment = Containment::Bare;
    now.pin = Pin::Changed;
    assert!(holds(
        "!resource.sandboxed && resource.network && !context.pinned && context.toolChanged",
        &none,
        &now
    ));
    now.pin = Pin::First;
    assert!(holds("!context.pinned && !context.toolChanged", &none, &now));
}

#[test]
fn what_a_server_does_not_claim_is_what_mcp_says() {
    let condition = "!context.hints.readOnly && context.hints.destructive && !context.hints.idempotent && context.hints.openWorld";
    assert!(holds(condition, &Facts::default(), &circumstances()));
}

#[test]
fn arguments_are_typed() {
    let policies = "permit(principal, action == Action::\"git/push\", resource) when {
        context.tool == \"push\" && context.args has force && context.args.force &&
        context.args has refs && context.args.refs.contains(\"main\") &&
        context.args has options.quiet && context.args.options.quiet };";
    let arguments = json!({ "force": true, "refs": ["main", "x"], "options": { "quiet": true, "more": 1 } });
    assert_eq!(decision(policies, "push", arguments).0, Decision::Allow);
    assert_eq!(decision(policies, "push", json!({ "force": true })).0, Decision::Deny);
}

#[test]
fn only_what_a_policy_looks_at_is_made_and_all_if_one_takes_the_whole() {
    let wanted = |condition: &str| {
        fit::wanted(&clauses(&[&format!("forbid(principal, action, resource) when {{ {condition} }};")]))
    };
    let only = |names: &[&str]| Wanted::Only(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(
        wanted("context has tool && [context.domains].contains([]) || context.args has a.b"),
        only(&["tool", "domains", "args"])
    );
    assert_eq!(
        wanted("context.hints.readOnly && !context[\"insideSession\"]"),
        only(&["hints", "insideSession"])
    );
    assert_eq!(wanted("resource.sandboxed"), only(&[]));
    assert_eq!(wanted("context == {}"), Wanted::All);
    assert_eq!(wanted("(if resource.sandboxed then context else context).pushes"), Wanted::All);
}
