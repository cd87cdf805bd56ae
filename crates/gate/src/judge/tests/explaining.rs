//! What is told about a decision.

use super::*;

#[test]
fn an_explanation_names_all_policies_that_took_part_or_nearly() {
    let judge = judge(&format!(
        "{ALL}@id(\"near\") forbid(principal, action in Action::\"git\", resource) when {{ context.pushes }};
         @id(\"far\") forbid(principal, action in Action::\"fs\", resource);
         @id(\"asks\") @escalate(\"sure?\") forbid(principal, action == Action::\"git/push\", resource);"
    ));
    let tool = tool("git", "push", json!({}));
    let call = Call { tool: &tool, arguments: &Map::new() };
    let explained = judge.explain(&call, &Facts::default(), &circumstances());
    let ids = |parts: &[explain::Part]| parts.iter().map(|part| part.id.clone()).collect::<Vec<_>>();
    assert_eq!(explained.action.as_deref(), Some("git/push"));
    assert_eq!(ids(&explained.satisfied), ["all", "asks"]);
    assert_eq!(ids(&explained.near), ["near"]);
    let written = serde_json::to_value(&explained).expect("JSON");
    assert_eq!(written["decision"], "escalate");
    assert_eq!(written["satisfied"][1]["escalates"], "sure?");
    assert_eq!(written["circumstances"]["containment"], "sandboxed");
}
