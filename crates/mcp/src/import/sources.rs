//! Where a client keeps its servers.

use std::path::{Path, PathBuf};

use lazaret_policy::load::{
    Fault,
    document::{Entry, Node, Value},
};

use super::Client;

/// Servers that stand together.
pub struct Source<'a> {
    pub entries: &'a [Entry],
    /// Where their relative paths begin.
    pub base: PathBuf,
    /// The project they are for, if they are for one.
    pub project: Option<PathBuf>,
}

/// All servers of a file, the client's own before those of its projects.
pub fn sources<'a>(tree: &'a Node, file: &Path) -> Result<(Client, Vec<Source<'a>>), Fault> {
    let base = file.parent().unwrap_or(Path::new("/")).to_owned();
    let Value::Table(top) = &tree.value else {
        return Err(Fault::at(tree.offset, "this is no client's configuration: it is not an object"));
    };
    let mut found = Vec::new();
    let mut client = Client::Other;
    for (path, whose) in [
        (["mcpServers"].as_slice(), Client::Other),
        (&["mcp_servers"], Client::Codex),
        (&["servers"], Client::VsCode),
        (&["mcp", "servers"], Client::VsCode),
    ] {
        let node = path.iter().try_fold(tree, |node, key| node.child(key));
        if let Some(Node { value: Value::Table(_), .. }) = node
            && !node.is_some_and(is_server)
        {
            client = whose;
            found.push(Source { entries: tree.entries(path), base: base.clone(), project: None });
        }
    }
    for Entry { key, .. } in tree.entries(&["projects"]) {
        let entries = tree.entries(&["projects", key, "mcpServers"]);
        if !entries.is_empty() {
            let project = PathBuf::from(key);
            let base = if project.is_absolute() { project.clone() } else { base.clone() };
            found.push(Source { entries, base, project: Some(project) });
        }
    }
    if tree.child("projects").is_some() || file.file_name().is_some_and(|name| name == ".mcp.json") {
        client = Client::ClaudeCode;
    }
    if found.is_empty() && !top.is_empty() && top.iter().all(|entry| is_server(&entry.node)) {
        found.push(Source { entries: top, base, project: None });
    }
    match found.is_empty() {
        true => Err(Fault::at(tree.offset, "there are no servers in this file").hint(
            "they are looked for in `mcpServers`, `servers`, `mcp.servers`, `mcp_servers` and \
             `projects.*.mcpServers`",
        )),
        false => Ok((client, found)),
    }
}

fn is_server(node: &Node) -> bool {
    ["command", "url"]
        .iter()
        .any(|key| matches!(node.child(key).map(|node| &node.value), Some(Value::Text(_))))
}
