//! Decides on the first thread of a process, where Cedar has to be given room on the stack. Without a harness,
//! because that runs tests on other threads.

use lazaret_gate::{
    Call, Facts, Hints, Tool,
    judge::{Catalog, Circumstances, Containment, Network, Origin, Pin, Source},
    verdict::Decision,
};
use serde_json::{Map, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tool = Tool {
        server: "git".into(),
        name: "status".into(),
        description: String::new(),
        input_schema: json!({ "type": "object" }),
        hints: Hints::default(),
    };
    let (source, diagnostics) = Source::open(Origin::BuiltIn, &Catalog::of(std::slice::from_ref(&tool)))?;
    assert_eq!(diagnostics, []);
    let circumstances = Circumstances {
        containment: Containment::Sandboxed,
        network: Network::Closed,
        session: "/session".into(),
        pin: Pin::Same,
    };
    let call = Call { tool: &tool, arguments: &Map::new() };
    let verdict = source.judge().decide(&call, &Facts::default(), &circumstances);
    assert_eq!(verdict.decision, Decision::Allow, "{}", verdict.reason);
    Ok(())
}
