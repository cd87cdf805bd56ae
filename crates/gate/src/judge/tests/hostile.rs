//! Names and values that were made to harm.

use super::*;

#[test]
fn a_tool_with_any_name_can_be_permitted_by_the_line_that_is_shown() {
    for name in [
        "a b",
        "\"; permit(principal, action, resource); //",
        "\\",
        "\u{202e}x",
        "a\nb",
        "x/y#z%",
        "🦀",
        "if",
    ] {
        let catalog = Catalog::of(&[tool("evil", name, json!({})), tool("evil", "other", json!({}))]);
        let build =
            |policies: &str| Judge::build(clauses(&[policies]), &catalog, Fitness::Strict).expect(name).0;
        let verdict = ask(&build(""), "evil", name, json!({}), &Facts::default());
        let line = verdict.reason.split_once("This line would: ").expect("a line").1.to_owned();
        assert!(!verdict.reason.contains(['\n', '\u{202e}']), "{}", verdict.reason);
        let judge = build(&line);
        assert_eq!(
            ask(&judge, "evil", name, json!({}), &Facts::default()).decision,
            Decision::Allow,
            "{line}"
        );
        assert_eq!(ask(&judge, "evil", "other", json!({}), &Facts::default()).decision, Decision::Deny);
    }
}

#[test]
fn arguments_with_reserved_names_are_values_and_nothing_else() {
    let schema = json!({ "properties": { "__entity": { "type": "object", "properties": {
        "type": { "type": "string" }, "id": { "type": "string" } } }, "__extn": { "type": "string" } } });
    let catalog = Catalog::of(&[tool("evil", "x", schema)]);
    let policies = "permit(principal, action, resource) when { context.args has __entity && context.args.__entity has id && context.args.__entity.id == \"git\" };";
    let judge = Judge::build(clauses(&[policies]), &catalog, Fitness::Lenient).expect("a judge").0;
    let given = json!({ "__entity": { "type": "Server", "id": "git" }, "__extn": "ip" });
    assert_eq!(ask(&judge, "evil", "x", given, &Facts::default()).decision, Decision::Allow);
}

#[test]
fn a_thousand_paths_are_judged() {
    let many: Vec<String> = (0..1000).map(|at| format!("{SESSION}/{at}")).collect();
    let many: Vec<(&str, Access)> = many.iter().map(|path| (path.as_str(), Access::Read)).collect();
    let judge = judge("permit(principal, action, resource) when { context.insideSession };");
    assert_eq!(ask(&judge, "git", "status", json!({}), &paths(&many)).decision, Decision::Allow);
}
