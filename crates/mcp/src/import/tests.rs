use proptest::prelude::*;

use super::*;

fn surroundings() -> Surroundings {
    Surroundings { home: Some("/home/u".into()), ..Surroundings::default() }
}

fn imported(file: &str, text: &str) -> Imported {
    import(text, Path::new(file), &surroundings()).unwrap_or_else(|error| panic!("{error}"))
}

fn names(imported: &Imported) -> Vec<&str> {
    imported.taken.iter().map(|taken| taken.name.as_str()).collect()
}

/// What was written is read by `serve`, without errors.
fn read_back(imported: &Imported) -> config::Config {
    let config = config::parse(&imported.text, Path::new("/c/mcp-servers.json"), &surroundings());
    config.unwrap_or_else(|error| panic!("{error}\n{}", imported.text))
}

#[test]
fn a_file_of_claude_desktop_becomes_ours() {
    let imported = imported(
        "/home/u/.config/Claude/claude_desktop_config.json",
        r#"{ "globalShortcut": "x", "mcpServers": {
            "memory": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"] },
            "github": { "command": "/opt/github-mcp", "env": { "GITHUB_TOKEN": "t" }, "timeout": 5 },
            "far": { "url": "https://mcp.example.com" },
            "off": { "command": "x", "disabled": true },
            "lazaret": { "command": "/usr/bin/lazaret", "args": ["mcp", "serve"] } } }"#,
    );
    assert_eq!(imported.client, Client::Other);
    assert_eq!(
        imported.text,
        r#"{
  "mcpServers": {
    "memory": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-memory"]
    },
    "github": {
      "command": "/opt/github-mcp",
      "env": { "GITHUB_TOKEN": "t" }
    }
  }
}
"#
    );
    let left: Vec<&str> = imported.left.iter().map(|left| left.name.as_str()).collect();
    assert_eq!(left, ["far", "off", "lazaret"]);
    let [memory, github] = imported.taken.as_slice() else { panic!() };
    assert!(memory.remarks.join("").contains("npm's registry"), "{memory:?}");
    let remarks = github.remarks.join("\n");
    assert!(
        remarks.contains("`timeout` is not taken over") && remarks.contains("given GITHUB_TOKEN"),
        "{remarks}"
    );
    assert!(!remarks.contains("\"t\""), "values are nobody's business");
    assert_eq!(read_back(&imported).servers.len(), 2);
}

#[test]
fn relative_paths_are_those_of_the_file_they_come_from() {
    let imported = imported(
        "/proj/.mcp.json",
        r#"{"mcpServers": {"a": {"command": "./bin/server", "args": ["./x", "../y", "-v", "."], "cwd": "sub"},
            "b": {"command": "node", "args": ["${ROOT:-./r}/x"]}}}"#,
    );
    assert_eq!(imported.client, Client::ClaudeCode);
    let config = read_back(&imported);
    let Definition::Local(a) = &config.servers[0].definition else { panic!() };
    assert_eq!((a.command.as_str(), a.directory.as_deref()), ("/proj/bin/server", Some("/proj/sub")));
    assert_eq!(a.args, ["/proj/x", "/y", "-v", "/proj"]);
    assert!(imported.text.contains("${ROOT:-./r}/x"), "variables stay");
}

#[test]
fn servers_of_projects_are_taken_over_and_the_same_name_is_told_apart() {
    let imported = imported(
        "/home/u/.claude.json",
        r#"{"numStartups": 3, "mcpServers": {"git": {"type": "stdio", "command": "g"}},
            "projects": {"/w/one": {"mcpServers": {"git": {"command": "g", "args": ["./r"]}}, "history": []},
                         "/w/two": {"mcpServers": {"git": {"command": "g"}, "db/x": {"command": "d"}}},
                         "/w/three": {}}}"#,
    );
    assert_eq!(imported.client, Client::ClaudeCode);
    assert_eq!(names(&imported), ["git", "git-one", "db-x"]);
    assert_eq!(
        imported.left,
        [Left { name: "git".to_owned(), reason: "the same server is there already".to_owned() }]
    );
    assert!(imported.text.contains("/w/one/r"));
    assert!(imported.taken[1].remarks.join("").contains("was called `git`"));
    read_back(&imported);
}

#[test]
fn a_configuration_of_codex_becomes_ours() {
    let imported = imported(
        "/home/u/.codex/config.toml",
        "model = \"x\"\n[mcp_servers.docs]\ncommand = \"npx\"\nargs = [\"-y\", \"docs\"]\nenv_vars = [\"A\"]\n\
         startup_timeout_sec = 20.5\ntool_timeout_sec = 90\n[mcp_servers.docs.env]\nB = \"c\"\n\
         [mcp_servers.far]\nurl = \"https://x\"\n[mcp_servers.off]\ncommand = \"y\"\nenabled = false\n",
    );
    assert_eq!(imported.client, Client::Codex);
    assert_eq!(names(&imported), ["docs"]);
    let config = read_back(&imported);
    let limits = config.servers[0].limits;
    assert_eq!((limits.startup_timeout.as_secs(), limits.call_timeout.as_secs()), (21, 90));
    let Definition::Local(docs) = &config.servers[0].definition else { panic!() };
    assert_eq!(docs.inherit_env, config::InheritEnv::Listed(vec!["A".to_owned()]));
}

#[test]
fn settings_of_vs_code_are_read_in_both_of_their_shapes() {
    let servers = r#"{"a": {"type": "stdio", "command": "x", "args": ["${input:token}"]}, "b": {"command": "y"}, // ok
        "c": {"type": "http", "url": "https://z"},}"#;
    for text in [
        format!(r#"{{"servers": {servers}, "inputs": []}}"#),
        format!(r#"{{"mcp": {{"servers": {servers}}}}}"#),
    ] {
        let imported = imported("/p/.vscode/mcp.json", &text);
        assert_eq!(imported.client, Client::VsCode);
        assert_eq!(names(&imported), ["b"]);
        assert!(imported.left[0].reason.contains("VS Code"), "{:?}", imported.left);
    }
}

#[test]
fn ours_is_taken_over_with_its_sandbox_and_a_mistake_in_it_is_told() {
    let imported = imported(
        "/p/mcp-servers.json",
        r#"{"a": {"command": "x", "sandbox": {"network": {"allowedDomains": ["x.example"]}}},
            "b": {"command": "x", "sandbox": false}, "c": {"command": "x", "sandbox": {"netwrk": false}}}"#,
    );
    assert_eq!(names(&imported), ["a", "b"]);
    assert_eq!(imported.taken[1].sandbox, Sandbox::OptOut);
    assert!(imported.left[0].reason.contains("did you mean `network`"), "{:?}", imported.left);
}

#[test]
fn a_variable_that_is_missing_here_is_told_and_kept() {
    let imported =
        imported("/p/x.json", r#"{"mcpServers": {"a": {"command": "x", "env": {"T": "${NOT_SET}"}}}}"#);
    assert_eq!(names(&imported), ["a"]);
    assert!(imported.taken[0].remarks.join("").contains("NOT_SET"));
}

#[test]
fn a_file_without_servers_says_where_they_were_looked_for() {
    for text in ["{}", "[]", r#"{"a": 1}"#, r#"{"mcpServers": 1}"#, "{"] {
        let error = import(text, Path::new("/p/x.json"), &surroundings()).unwrap_err().to_string();
        assert!(error.starts_with("/p/x.json"), "{error}");
    }
    let empty = imported("/p/x.json", r#"{"mcpServers": {}}"#);
    assert_eq!((empty.text.as_str(), empty.taken.len()), ("{\n  \"mcpServers\": {}\n}\n", 0));
}

#[test]
fn the_line_for_the_client_is_in_its_own_language() {
    let line =
        |client| snippet(client, "lazaret", Path::new("/usr/bin/lazaret"), Path::new("/h/my file.json"));
    assert_eq!(
        line(Client::ClaudeCode),
        "claude mcp add --scope user lazaret -- /usr/bin/lazaret mcp serve --config '/h/my file.json'\n"
    );
    let other: Value = serde_json::from_str(&line(Client::Other)).unwrap();
    assert_eq!(other["mcpServers"]["lazaret"]["args"][3], "/h/my file.json");
    let code: Value = serde_json::from_str(&line(Client::VsCode)).unwrap();
    assert_eq!(code["servers"]["lazaret"]["type"], "stdio");
    let codex = document::from_toml(&line(Client::Codex)).unwrap();
    assert!(codex.child("mcp_servers").and_then(|node| node.child("lazaret")).is_some());
}

fn anything() -> impl Strategy<Value = String> {
    let words = [
        "null",
        "true",
        "false",
        "0",
        "-1",
        "1.5",
        "\"\"",
        "\"x\"",
        "\"./x\"",
        "\"${A}\"",
        "\"${A:-b}\"",
        "\"a/b\"",
        "\"stdio\"",
        "[]",
        "[\"x\", 1]",
        "{}",
        "{\"A\": \"b\"}",
        "{\"network\": false}",
    ];
    proptest::sample::select(words.to_vec()).prop_map(str::to_owned)
}

fn server() -> impl Strategy<Value = String> {
    let keys = [
        "command",
        "args",
        "env",
        "cwd",
        "type",
        "url",
        "disabled",
        "sandbox",
        "inheritEnv",
        "limits",
        "sandbx",
        "timeout",
    ];
    let entry = |key: &'static str| {
        proptest::option::weighted(0.4, anything())
            .prop_map(move |value| value.map(|value| format!("\"{key}\": {value}")))
    };
    keys.into_iter()
        .map(entry)
        .collect::<Vec<_>>()
        .prop_map(|entries| format!("{{{}}}", entries.into_iter().flatten().collect::<Vec<_>>().join(", ")))
}

proptest! {
    #[test]
    fn whatever_is_taken_over_is_read_again_and_nothing_is_lost(
        servers in proptest::collection::btree_map("[a-zA-Z/ .]{0,4}|mcpServers|servers|command", server(), 0..5)
    ) {
        let count = servers.len();
        let servers = servers.iter().map(|(name, server)| format!("\"{name}\": {server}")).collect::<Vec<_>>().join(", ");
        let text = format!("{{\"mcpServers\": {{{servers}}}}}");
        if let Ok(imported) = import(&text, Path::new("/p/x.json"), &surroundings()) {
            prop_assert_eq!(imported.taken.len() + imported.left.len(), count, "{}", text);
            prop_assert_eq!(read_back(&imported).servers.len(), imported.taken.len());
        }
    }
}
