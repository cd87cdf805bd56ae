//! `lazaret mcp import`: a client's file in, our list and the line for the client out.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::Value;

use crate::case::{ordinary, program};

const CLIENT: &str = r#"{
  // as people write it
  "mcpServers": {
    "memory": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"] },
    "hub": { "command": "hub-mcp", "env": { "HUB_TOKEN": "hunter2" }, "alwaysAllow": ["x"],
             "sandbox": { "network": { "allowedDomains": ["api.hub.example"] } } },
    "files": { "command": "files-mcp", "sandbox": false },
    "far": { "type": "http", "url": "https://far.example/mcp" },
  }
}"#;

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_clients_servers_become_a_list_and_what_each_can_do_is_said() {
    let case = ordinary();
    case.file("client.json", CLIENT);
    let told = case.lazaret(["mcp", "import", "client.json"]).go().exits(0).tells_nothing().out();
    let list = case.home.join(".config/lazaret/mcp-servers.json");
    let told = told
        .replace(list.to_str().unwrap(), "LIST")
        .replace(program().canonicalize().unwrap().to_str().unwrap(), "LAZARET");
    assert_eq!(
        told.trim_end(),
        r#"3 servers of client.json taken over into LIST

memory: npx -y @modelcontextprotocol/server-memory
  - can read your files but keys, tokens and what its entry closes, and write in the session directory
  - can reach no host
  - npx starts what it has fetched before; to let it fetch, list npm's registry in network.allowedDomains

hub: hub-mcp
  - can read your files but keys, tokens and what its entry closes, and write in the session directory
  - can reach api.hub.example
  - `alwaysAllow` is not taken over

files: files-mcp
  - runs WITHOUT a sandbox, as its entry says

far is left out: it is reached over the network (http), and only servers that are started as a command are put into a sandbox: use the server's own command, or a bridge such as mcp-remote as `command`

To let a server do more, add to its entry in LIST:
  "sandbox": { "network": { "allowedDomains": ["api.example.com"] }, "filesystem": { "allowWrite": ["/path"] } }

Put this in place of these servers into the client's configuration:

{
  "mcpServers": {
    "lazaret": { "command": "LAZARET", "args": ["mcp", "serve", "--config", "LIST"] }
  }
}"#
    );
    assert_eq!(
        fs::read_to_string(&list).unwrap(),
        r#"{
  "mcpServers": {
    "memory": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-memory"]
    },
    "hub": {
      "command": "hub-mcp",
      "env": { "HUB_TOKEN": "hunter2" },
      "sandbox": { "network": { "allowedDomains": ["api.hub.example"] } }
    },
    "files": {
      "command": "files-mcp",
      "sandbox": false
    }
  }
}
"#
    );
    assert_eq!((mode(&list), mode(list.parent().unwrap())), (0o600, 0o700));
    case.assert_nothing_started();
}

#[test]
fn a_list_that_is_there_is_replaced_only_by_force_and_nothing_is_left_beside_it() {
    let case = ordinary();
    case.file("client.json", CLIENT);
    let list = case.file("lists/mine.json", "{}");
    let import = ["mcp", "import", "client.json", "--output", "lists/mine.json"];
    case.lazaret(import).go().exits(125).tells("--force");
    assert_eq!(fs::read_to_string(&list).unwrap(), "{}");
    // Nor through a link that leads nowhere yet.
    std::os::unix::fs::symlink("nowhere", case.work.join("lists/link.json")).unwrap();
    case.lazaret(["mcp", "import", "client.json", "--output", "lists/link.json"])
        .go()
        .exits(125)
        .tells("--force");
    case.lazaret(import.iter().chain(&["--force"])).go().exits(0);
    assert_eq!(mode(&list), 0o600);
    assert_eq!(fs::read_dir(case.work.join("lists")).unwrap().count(), 2);
}

#[test]
fn the_list_can_go_to_standard_output_and_the_telling_is_then_a_message() {
    let case = ordinary();
    case.file("client.json", CLIENT);
    let outcome = case.lazaret(["mcp", "import", "client.json", "-o", "-"]).go().exits(0).tells("3 servers");
    let list: Value = serde_json::from_str(&outcome.out()).unwrap();
    assert_eq!(list["mcpServers"].as_object().unwrap().len(), 3);
    assert!(!case.home.join(".config").exists());
}

#[test]
fn what_was_done_can_be_had_as_json_without_values_of_variables() {
    let case = ordinary();
    case.file(
        "config.toml",
        "[mcp_servers.docs]\ncommand = \"docs-mcp\"\nenv = { DOCS_KEY = \"hunter2\" }\n",
    );
    let args = ["mcp", "import", "config.toml", "--json", "--name", "walls", "--output", "x.json"];
    let text = case.lazaret(args).go().exits(0).tells_nothing().out();
    assert!(!text.contains("hunter2"), "{text}");
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["servers"][0]["name"], "docs");
    assert_eq!(told["servers"][0]["sandboxed"], true);
    assert!(told["servers"][0]["remarks"][0].as_str().unwrap().contains("DOCS_KEY"), "{told}");
    assert!(told["client"]["snippet"].as_str().unwrap().starts_with("[mcp_servers.\"walls\"]"), "{told}");
}

#[test]
fn a_file_that_is_wrong_or_has_no_servers_writes_nothing() {
    let case = ordinary();
    for (content, code, said) in [
        ("{", 125, "client.json:1:"),
        ("{}", 125, "no servers"),
        (r#"{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#, 125, "occurs twice"),
        (r#"{"mcpServers": {"far": {"url": "https://x"}}}"#, 1, "far is left out"),
    ] {
        case.file("client.json", content);
        case.lazaret(["mcp", "import", "client.json"]).go().exits(code).tells(said);
    }
    case.lazaret(["mcp", "import", "no-such.json"]).go().exits(125).tells("no such file");
    assert!(!case.home.join(".config").exists());
}

#[test]
fn signs_that_would_act_on_a_terminal_are_not_printed() {
    let case = ordinary();
    case.file("client.json", r#"{"mcpServers": {"a": {"command": "x", "args": ["\u001b[2J\u202e"]}}}"#);
    let told = case.lazaret(["mcp", "import", "client.json"]).go().exits(0).out();
    assert!(!told.contains('\u{1b}') && !told.contains('\u{202e}'), "{told:?}");
}
