//! The tools that there are, by server: what policies are checked against, and what may be called at all.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{
    call::{Hints, Tool},
    judge::shape::Members,
};

/// MCP asks for at most 128 characters. A name that is far longer is nobody's tool.
const LONGEST_NAME: usize = 512;
/// Tools of one server; the policies are checked against each of them.
const MOST_TOOLS: usize = 2000;

/// Every change of a catalogue has a number of its own, so that "is it the same?" needs no comparison.
static REVISIONS: AtomicU64 = AtomicU64::new(1);

#[derive(Debug, Clone, Default)]
pub struct Catalog {
    servers: BTreeMap<String, Server>,
    revision: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    Running(Listing),
    /// Configured, but its tools are not known: it failed, or is not up yet. Nothing of it can be called.
    Absent,
}

/// What a running server offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    pub tools: BTreeMap<String, Offer>,
    /// What was left out of it or is known only in part, in words.
    pub remarks: Vec<String>,
}

/// What policies need to know of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub arguments: Members,
    pub hints: Hints,
}

impl Catalog {
    pub fn new() -> Self {
        Catalog::default()
    }

    /// Of tools of any servers; all of these are taken to be running.
    pub fn of(tools: &[Tool]) -> Self {
        let mut by_server: BTreeMap<&str, Vec<&Tool>> = BTreeMap::new();
        for tool in tools {
            by_server.entry(&tool.server).or_default().push(tool);
        }
        let mut catalog = Catalog::new();
        for (server, tools) in by_server {
            catalog.set_running(server, tools);
        }
        catalog
    }

    /// A server is up and has these tools, and no others. Whose they say they are is not looked at.
    pub fn set_running<'a>(&mut self, server: &str, tools: impl IntoIterator<Item = &'a Tool>) {
        self.set(server, Server::Running(listing(tools)));
    }

    /// A server is configured, but not up.
    pub fn set_absent(&mut self, server: &str) {
        self.set(server, Server::Absent);
    }

    pub fn servers(&self) -> impl Iterator<Item = (&str, &Server)> {
        self.servers.iter().map(|(name, server)| (name.as_str(), server))
    }

    /// Running servers and what they offer.
    pub fn running(&self) -> impl Iterator<Item = (&str, &Listing)> {
        self.servers().filter_map(|(name, server)| match server {
            Server::Running(listing) => Some((name, listing)),
            Server::Absent => None,
        })
    }

    pub fn server(&self, name: &str) -> Option<&Server> {
        self.servers.get(name)
    }

    /// Changes when the catalogue does.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    fn set(&mut self, name: &str, server: Server) {
        if self.servers.get(name) != Some(&server) {
            self.servers.insert(name.to_owned(), server);
            self.revision = REVISIONS.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn listing<'a>(tools: impl IntoIterator<Item = &'a Tool>) -> Listing {
    let mut listing = Listing::default();
    for tool in tools {
        let shown = || tool.name.chars().take(64).collect::<String>();
        if tool.name.is_empty() || tool.name.len() > LONGEST_NAME {
            listing
                .remarks
                .push(format!("the tool {:?}… cannot be called: its name is empty or too long", shown()));
            continue;
        }
        if listing.tools.len() >= MOST_TOOLS && !listing.tools.contains_key(&tool.name) {
            listing.remarks.push(format!("tools beyond the first {MOST_TOOLS} cannot be called"));
            break;
        }
        let offer = Offer { arguments: Members::of(&tool.input_schema), hints: tool.hints };
        // Which of the two would be called is the server's choice: policies see nothing of their arguments, and
        // the worse of what is said of them.
        if let Some(before) = listing.tools.get_mut(&tool.name) {
            listing.remarks.push(format!("the tool {:?} is listed twice", shown()));
            *before = Offer { arguments: Members::default(), hints: Hints::default() };
        } else {
            listing.tools.insert(tool.name.clone(), offer);
        }
    }
    listing
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str) -> Tool {
        Tool {
            server: "git".into(),
            name: name.into(),
            description: String::new(),
            input_schema: json!({ "properties": { "path": { "type": "string" } } }),
            hints: Hints { read_only_hint: Some(true), ..Hints::default() },
        }
    }

    #[test]
    fn a_revision_changes_with_the_content_only() {
        let mut catalog = Catalog::of(&[tool("log")]);
        let first = catalog.revision();
        catalog.set_running("git", &[tool("log")]);
        assert_eq!(catalog.revision(), first);
        catalog.set_running("git", &[tool("log"), tool("push")]);
        let second = catalog.revision();
        assert_ne!(second, first);
        catalog.set_absent("git");
        assert_ne!(catalog.revision(), second);
    }

    #[test]
    fn a_name_that_is_listed_twice_loses_its_arguments_and_claims() {
        let catalog = Catalog::of(&[tool("log"), tool("log")]);
        let (_, listing) = catalog.running().next().expect("one");
        assert_eq!(listing.tools["log"], Offer { arguments: Members::default(), hints: Hints::default() });
        assert_eq!(listing.remarks.len(), 1);
    }

    #[test]
    fn names_that_nobody_could_mean_are_left_out() {
        let catalog = Catalog::of(&[tool(""), tool(&"x".repeat(1 << 20)), tool("log")]);
        let (_, listing) = catalog.running().next().expect("one");
        assert_eq!(listing.tools.keys().collect::<Vec<_>>(), ["log"]);
        assert_eq!(listing.remarks.len(), 2);
        assert!(listing.remarks[1].len() < 200);
    }
}
