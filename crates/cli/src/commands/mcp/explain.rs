//! `lazaret mcp explain SERVER TOOL JSON`: what would be decided, and by what.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use bytes::Bytes;
use lazaret_gate::{Tool, Verdict, judge::Explanation};
use lazaret_mcp::{
    blocked::Evidence,
    config::{Definition, Sandbox},
    decide::Gatekeeper,
    house::House,
    pins::Change,
    proxy::{self, Stop, process},
};
use serde_json::{Map, Value, json};

use crate::{args::McpExplain, exit::Exit, output};

pub fn explain(args: &McpExplain) -> anyhow::Result<Exit> {
    let config = super::load(args.config.as_ref())?;
    let arguments: Map<String, Value> = serde_json::from_str(&args.arguments)
        .context("the arguments are not a JSON object: write them as '{\"path\": \"notes.txt\"}'")?;
    let house = super::open(config, &args.common, Vec::new())?;
    let Some(entry) = house.servers.iter().find(|server| server.name == args.server) else {
        let names: Vec<&str> = house.servers.iter().map(|server| server.name.as_str()).collect();
        anyhow::bail!("there is no server {:?}; there are: {}", args.server, names.join(", "));
    };
    let catalog = known_tools(&house, &args.server)?;
    let session = house.session(args.common.session.as_deref())?;
    let outcome = super::on_own_thread(|| {
        let mut gatekeeper = Gatekeeper::new(&house, &session)?;
        gatekeeper.set_tools([(args.server.as_str(), Some(catalog.iter().collect()))].into_iter());
        let _ = gatekeeper.refresh();
        let sandboxed =
            !matches!(&entry.definition, Definition::Local(local) if local.sandbox == Sandbox::OptOut);
        let network = match &entry.definition {
            Definition::Local(local) => match &local.sandbox {
                Sandbox::Custom(custom) => custom.network != lazaret_mcp::config::Network::Off,
                Sandbox::Restrictive => false,
                Sandbox::OptOut => true,
            },
            Definition::Unusable(_) => false,
        };
        let facts = process::Facts {
            sandbox_id: String::new(),
            evidence: if sandboxed { Evidence::Recorded } else { Evidence::None },
            network,
            closed: Vec::new(),
            reason: None,
        };
        let unknown = || unknown_tool(&args.server, &args.tool, &catalog);
        let Some(tool) = catalog.iter().find(|tool| tool.name == args.tool) else {
            return Ok(Err(unknown()));
        };
        anyhow::Ok(
            gatekeeper
                .explain(tool, &arguments, Some(&facts), &Change::default())
                .map_err(|verdict| *verdict),
        )
    });
    match outcome? {
        Ok(explanation) => tell(&explanation, args),
        Err(verdict) => tell_verdict(&verdict, args),
    }
    Ok(Exit::Ok)
}

fn unknown_tool(server: &str, tool: &str, catalog: &[Tool]) -> Verdict {
    let names: Vec<&str> = catalog.iter().map(|tool| tool.name.as_str()).collect();
    Verdict {
        decision: lazaret_gate::Decision::Deny,
        rule: lazaret_gate::Rule(lazaret_gate::Rule::UNKNOWN_TOOL.to_owned()),
        reason: format!("{server} has no tool {tool:?}; it has: {}", names.join(", ")),
        facts: lazaret_gate::Facts::default(),
    }
}

/// As they were pinned; a server that was never used is started once.
fn known_tools(house: &Arc<House>, server: &str) -> anyhow::Result<Vec<Tool>> {
    if let Some(pins) = house.cabinet.load(&house.config_path, server)? {
        return Ok(pins.catalog());
    }
    output::message(&format!("{server} was never used: it is started once, to see what it has"));
    let session = house.session(None)?;
    super::on_own_thread(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
        let (stop, stopped) = tokio::sync::watch::channel(Stop::No);
        let (mut front, done) = proxy::connect(house, session, stopped)?;
        let hello = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "lazaret", "version": env!("CARGO_PKG_VERSION") } },
        });
        front.to_proxy.send(Bytes::from(hello.to_string())).await?;
        let _ = tokio::time::timeout(Duration::from_secs(120), front.from_proxy.recv()).await;
        let _ = stop.send(Stop::Yes);
        done.await?;
        anyhow::Ok(())
        })
    })?;
    let pins = house.cabinet.load(&house.config_path, server)?;
    Ok(pins.context("the server could not be asked for its tools; `lazaret audit tail` says why")?.catalog())
}

fn tell(explanation: &Explanation, args: &McpExplain) {
    let value = serde_json::to_value(explanation).unwrap_or_default();
    if args.json {
        output::data(&format!("{}\n", serde_json::to_string_pretty(&value).unwrap_or_default()));
        return;
    }
    output::data(&lines(&told(explanation)));
}

fn told(explanation: &Explanation) -> String {
    let word = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut text = format!(
        "{}\n  rule: {}\n  {}\n",
        word(json!(explanation.decision)),
        explanation.rule.0,
        explanation.reason
    );
    if let Some(action) = &explanation.action {
        text.push_str(&format!("asked as: Action::{action:?}\n"));
    }
    for path in &explanation.facts.paths {
        text.push_str(&format!(
            "file: {} = {} ({}, {})\n",
            path.argument,
            path.resolved.display(),
            word(json!(path.place)),
            word(json!(path.access))
        ));
    }
    for host in &explanation.facts.hosts {
        text.push_str(&format!("host: {} = {} ({})\n", host.argument, host.host, word(json!(host.kind))));
    }
    let parts = [
        ("holds", &explanation.satisfied),
        ("does not hold", &explanation.near),
        ("does not fit the tools", &explanation.unfit),
    ];
    for (what, parts) in parts {
        for part in parts {
            text.push_str(&format!(
                "policy {} ({}:{}), {}: {what}\n",
                part.id,
                part.file,
                part.line,
                word(json!(part.effect))
            ));
        }
    }
    for failure in &explanation.erred {
        text.push_str(&format!("policy {} failed: {}\n", failure.policy.id, failure.error));
    }
    text
}

fn tell_verdict(verdict: &Verdict, args: &McpExplain) {
    let value = serde_json::to_value(verdict).unwrap_or_default();
    if args.json {
        output::data(&format!("{}\n", serde_json::to_string_pretty(&value).unwrap_or_default()));
        return;
    }
    let decision = value.get("decision").and_then(Value::as_str).unwrap_or_default().to_owned();
    output::data(&lines(&format!("{decision}\n  rule: {}\n  {}\n", verdict.rule.0, verdict.reason)));
}

/// Nothing in it can act on the terminal.
fn lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", lazaret_runtime::report::printable(line))).collect()
}
