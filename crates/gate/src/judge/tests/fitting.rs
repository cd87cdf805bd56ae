//! Policies against the tools that there are.

use super::*;

#[test]
fn a_misspelt_tool_server_or_group_has_a_place_and_a_hint() {
    assert_eq!(
        faults("\npermit(principal, action == Action::\"git/psuh\", resource);"),
        [
            "Error a.cedar:2:37: the server `git` has nothing that is called Action::\"git/psuh\"\n  hint: did you mean Action::\"git/push\"?"
        ]
    );
    assert_eq!(
        faults("permit(principal, action in Action::\"gitt\", resource);"),
        [
            "Error a.cedar:1:37: Action::\"gitt\" does not exist: there is no such server or group\n  hint: did you mean Action::\"git\"?"
        ]
    );
    assert_eq!(
        faults("permit(principal, action, resource == Server::\"gitt\");"),
        ["Error a.cedar:1:47: there is no server `gitt`\n  hint: did you mean Server::\"git\"?"]
    );
    assert_eq!(
        faults("permit(principal == Agent::\"me\", action, resource);"),
        [
            "Error a.cedar:1:28: there is no Agent::\"me\"\n  hint: the one who calls is always Agent::\"client\""
        ]
    );
    assert!(
        faults("permit(principal, action, resource) when { action == Action::\"gti/push\" };")[0]
            .contains("git/push")
    );
}

#[test]
fn a_misspelt_argument_is_found_also_where_cedar_holds_it_for_false() {
    assert_eq!(
        faults(
            "forbid(principal, action == Action::\"git/push\", resource)\n  when { context.args has forse };"
        ),
        [
            "Error a.cedar:2:27: no tool that this policy is about has an argument `forse`\n  hint: did you mean context.args.force?"
        ]
    );
    assert!(faults("forbid(principal, action == Action::\"git/push\", resource) when { context.args has options.quite };")[0].contains("options.quite"));
    assert_eq!(faults("forbid(principal, action, resource) when { context.args has path };"), [""; 0]);
    let unguarded = faults(
        "forbid(principal, action in Action::\"call\", resource) when { context.args.path == \"x\" };",
    );
    assert!(unguarded[0].contains("a.cedar:1:") && unguarded[0].starts_with("Error"), "{unguarded:?}");
}

#[test]
fn an_argument_that_policies_do_not_see_is_an_error_that_says_why() {
    let found = faults(
        "permit(principal, action == Action::\"git/push\", resource) when { context.args has timeout };",
    );
    assert!(found[0].contains("policies do not see the argument `timeout`: it is a number"), "{found:?}");
}

#[test]
fn misspelt_attributes_are_found() {
    for (condition, hint) in [
        ("context.insideSesion", "insideSession"),
        ("context has domain", "domains"),
        ("context.hints.readonly", "readOnly"),
        ("resource has sandboxd", "sandboxed"),
    ] {
        let found = faults(&format!("permit(principal, action, resource) when {{ {condition} }};"));
        assert!(found.len() == 1 && found[0].contains(&format!("did you mean `{hint}`")), "{found:?}");
    }
    let types = faults("permit(principal, action, resource) when { context.domains == \"x\" };");
    assert!(types[0].starts_with("Error a.cedar:1:"), "{types:?}");
    let entity = faults("permit(principal is Person, action, resource);");
    assert!(entity[0].starts_with("Error a.cedar:1:"), "{entity:?}");
}

#[test]
fn what_belongs_to_a_server_that_is_down_is_a_warning() {
    let mut catalog = Catalog::of(&tools());
    catalog.set_absent("github");
    let found = faults_with(
        "permit(principal, action == Action::\"github/create_issue\", resource) when { context.args.title like \"x*\" };
         permit(principal, action in Action::\"github\", resource) when { context.args has title };
         permit(principal, action in Action::\"github\", resource) when { context.insideSession };",
        &catalog,
    );
    assert!(found.iter().all(|found| found.starts_with("Warning")), "{found:?}");
    assert!(found[0].contains("`github` is not running"), "{found:?}");
    assert!(
        !faults_with("permit(principal, action in Action::\"gihtub\", resource);", &catalog)[0]
            .starts_with("Warning")
    );
}

#[test]
fn a_generic_policy_fits_no_tools_and_all() {
    for catalog in [Catalog::new(), Catalog::of(&tools())] {
        assert_eq!(faults_with(ALL, &catalog), [""; 0]);
        assert_eq!(
            faults_with(
                "permit(principal, action in Action::\"call\", resource) when { context.insideSession };",
                &catalog
            ),
            [""; 0]
        );
    }
}

#[test]
fn a_permit_that_no_longer_fits_is_out_of_force_and_a_forbid_denies_what_it_may_have_meant() {
    let build = |policies: &str| {
        Judge::build(clauses(&[policies]), &Catalog::of(&tools()), Fitness::Lenient).expect("a judge").0
    };
    let rule = |judge: &Judge, server: &str| {
        let tool = if server == "git" { "status" } else { "read" };
        ask(judge, server, tool, json!({ "path": "x" }), &Facts::default()).rule.0
    };
    let unfit =
        build(&format!("{ALL}@id(\"gone\") forbid(principal, action == Action::\"git/gone\", resource);"));
    assert_eq!(rule(&unfit, "git"), Rule::UNDECIDABLE);
    assert_eq!(rule(&unfit, "fs"), "all");
    let unfit = build(&format!(
        "{ALL}@escalate(\"x\") forbid(principal, action == Action::\"gone/gone\", resource);"
    ));
    assert_eq!(
        (rule(&unfit, "git"), rule(&unfit, "fs")),
        (Rule::UNDECIDABLE.into(), Rule::UNDECIDABLE.into())
    );
    let unfit = build("permit(principal, action in [Action::\"git\", Action::\"git/gone\"], resource);");
    assert_eq!(rule(&unfit, "git"), Rule::DEFAULT_DENY);
    assert_eq!(unfit.policies(), 0);
}
