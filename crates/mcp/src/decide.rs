//! Decides on calls: what a call is about is found out, then the policies are asked. What cannot be found out is
//! denied.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use lazaret_gate::{
    Call, Decision, Facts, Rule, Tool, Verdict,
    classify::{self, Surroundings},
    judge::{
        Catalog, Circumstances, Containment, Explanation, Network, Origin, Pin, Refresh, Retrieval, Source,
        diagnostic::Diagnostic,
    },
};
use serde_json::{Map, Value, json};

use crate::{
    blocked::Evidence,
    config::OnToolChange,
    house::{House, OpenError},
    pins::Change,
    proxy::process,
    session::Session,
};

/// The policies and what they judge by.
#[derive(Debug)]
pub struct Gatekeeper {
    source: Source,
    catalog: Catalog,
    /// By server: relative paths begin at its own directory.
    surroundings: BTreeMap<String, Surroundings>,
    session: std::path::PathBuf,
    on_tool_change: OnToolChange,
    warnings: Vec<String>,
    looked: Instant,
}

/// So old may the last look at the policies be when a call comes.
const FRESH: Duration = Duration::from_millis(250);

impl Gatekeeper {
    pub fn new(house: &House, session: &Session) -> Result<Gatekeeper, OpenError> {
        let mut catalog = Catalog::new();
        for server in &house.servers {
            catalog.set_absent(&server.name);
        }
        let (source, diagnostics) = Source::open(house.policies.clone(), &catalog)?;
        let mut surroundings = BTreeMap::new();
        for server in &house.servers {
            surroundings.insert(server.name.clone(), house.surroundings(server, session)?);
        }
        Ok(Gatekeeper {
            source,
            catalog,
            surroundings,
            session: session.directory().to_owned(),
            on_tool_change: house.on_tool_change,
            warnings: diagnostics.iter().map(told).collect(),
            looked: Instant::now(),
        })
    }

    /// What a person should know of the policies.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// Where they come from, for the log.
    pub fn source(&self) -> String {
        match self.source.origin() {
            Origin::BuiltIn => "built-in".to_owned(),
            Origin::Files(path) => path.display().to_string(),
        }
    }

    /// Which tools there are now.
    pub fn set_tools<'a>(&mut self, servers: impl Iterator<Item = (&'a str, Option<Vec<&'a Tool>>)>) {
        for (server, tools) in servers {
            match tools {
                Some(tools) => self.catalog.set_running(server, tools),
                None => self.catalog.set_absent(server),
            }
        }
    }

    pub fn is_due(&self) -> bool {
        self.looked.elapsed() > FRESH
    }

    /// Looks at files and tools again.
    pub fn refresh(&mut self) -> Refresh {
        self.looked = Instant::now();
        self.source.refresh(&self.catalog)
    }

    pub fn judge(
        &self,
        tool: &Tool,
        arguments: &Map<String, Value>,
        process: Option<&process::Facts>,
        change: &Change,
    ) -> Verdict {
        let call = Call { tool, arguments };
        let facts = match self.facts(&call) {
            Ok(facts) => facts,
            Err(verdict) => return *verdict,
        };
        let verdict = self.source.judge().decide(&call, &facts, &self.circumstances(process, tool, change));
        self.with_change(verdict, tool, change)
    }

    /// The same, with everything that led to it.
    pub fn explain(
        &self,
        tool: &Tool,
        arguments: &Map<String, Value>,
        process: Option<&process::Facts>,
        change: &Change,
    ) -> Result<Explanation, Box<Verdict>> {
        let call = Call { tool, arguments };
        let facts = self.facts(&call)?;
        Ok(self.source.judge().explain(&call, &facts, &self.circumstances(process, tool, change)))
    }

    pub fn judge_resource(&self, server: &str, uri: &str, process: Option<&process::Facts>) -> Verdict {
        let tool = Tool {
            server: server.to_owned(),
            name: "read_resource".to_owned(),
            description: String::new(),
            input_schema: json!({ "type": "object", "properties": { "uri": { "type": "string", "format": "uri" } } }),
            hints: lazaret_gate::Hints::default(),
        };
        let mut arguments = Map::new();
        arguments.insert("uri".to_owned(), json!(uri));
        let facts = match self.facts(&Call { tool: &tool, arguments: &arguments }) {
            Ok(facts) => facts,
            Err(verdict) => return *verdict,
        };
        let circumstances = self.circumstances(process, &tool, &Change::default());
        self.source.judge().decide_retrieval(&Retrieval::Resource { server, uri }, &facts, &circumstances)
    }

    pub fn judge_prompt(
        &self,
        server: &str,
        name: &str,
        arguments: &Map<String, Value>,
        process: Option<&process::Facts>,
    ) -> Verdict {
        // Prompts have no schema for their arguments; files and hosts in them are found all the same.
        let tool = Tool {
            server: server.to_owned(),
            name: "get_prompt".to_owned(),
            description: String::new(),
            input_schema: Value::Null,
            hints: lazaret_gate::Hints::default(),
        };
        let facts = match self.facts(&Call { tool: &tool, arguments }) {
            Ok(facts) => facts,
            Err(verdict) => return *verdict,
        };
        let circumstances = self.around(process, Pin::Same);
        self.source.judge().decide_retrieval(&Retrieval::Prompt { server, name }, &facts, &circumstances)
    }

    fn facts(&self, call: &Call<'_>) -> Result<Facts, Box<Verdict>> {
        match self.surroundings.get(&call.tool.server) {
            Some(surroundings) => {
                classify::classify(call, surroundings).map_err(|refusal| Box::new(refusal.into()))
            }
            None => Err(Box::new(Verdict {
                decision: Decision::Deny,
                rule: Rule(Rule::UNKNOWN_TOOL.to_owned()),
                reason: format!("there is no server {:?}", call.tool.server),
                facts: Facts::default(),
            })),
        }
    }

    fn circumstances(&self, process: Option<&process::Facts>, tool: &Tool, change: &Change) -> Circumstances {
        // What is to be allowed although it changed does not count as changed.
        let changed = change.is_about(&tool.name) && self.on_tool_change != OnToolChange::Allow;
        self.around(process, if changed { Pin::Changed } else { Pin::Same })
    }

    fn around(&self, process: Option<&process::Facts>, pin: Pin) -> Circumstances {
        let sandboxed = process.is_some_and(|process| process.evidence != Evidence::None);
        let open = !sandboxed || process.is_some_and(|process| process.network);
        Circumstances {
            containment: if sandboxed { Containment::Sandboxed } else { Containment::Bare },
            network: if open { Network::Open } else { Network::Closed },
            session: self.session.clone(),
            pin,
        }
    }

    /// A tool that is not what it was is at least asked about, whatever the policies say of it.
    fn with_change(&self, mut verdict: Verdict, tool: &Tool, change: &Change) -> Verdict {
        if !change.is_about(&tool.name) {
            return verdict;
        }
        let least = match self.on_tool_change {
            OnToolChange::Allow => return verdict,
            OnToolChange::Escalate => Decision::Escalate,
            OnToolChange::Deny => Decision::Deny,
        };
        if verdict.decision < least {
            verdict.decision = least;
            verdict.rule = Rule("structural-tool-changed".to_owned());
            verdict.reason = format!(
                "the tool {} is not what it was when it was first used; `lazaret mcp trust {}` accepts it as it is now",
                tool.name, tool.server
            );
        }
        verdict
    }
}

/// A finding in one line.
pub fn told(diagnostic: &Diagnostic) -> String {
    diagnostic.to_string()
}

/// Where policies come from: what was said, the caller's own directory, or what comes with the program.
pub fn origin(said: Option<&Path>, config: Option<&Path>) -> Origin {
    let own = || {
        let own = config?.join("mcp-policy");
        lazaret_gate::judge::source::holds_policies(&own).then_some(own)
    };
    match said.map(Path::to_owned).or_else(own) {
        Some(path) => Origin::Files(path),
        None => Origin::BuiltIn,
    }
}
