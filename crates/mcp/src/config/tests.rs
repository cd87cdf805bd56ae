use proptest::prelude::*;

use super::*;

fn surroundings(variables: &[(&str, &str)]) -> Surroundings {
    Surroundings {
        home: Some("/home/u".into()),
        environment: variables.iter().map(|(name, value)| (name.into(), value.into())).collect(),
    }
}

fn read(text: &str) -> Config {
    parse(text, Path::new("/etc/x/servers.json"), &surroundings(&[]))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn fault(text: &str) -> String {
    parse(text, Path::new("s.json"), &surroundings(&[])).map(drop).unwrap_err().to_string()
}

fn local(config: &Config, name: &str) -> Local {
    let server = config.servers.iter().find(|server| server.name.as_str() == name);
    match &server.unwrap_or_else(|| panic!("no {name}")).definition {
        Definition::Local(local) => (**local).clone(),
        Definition::Unusable(why) => panic!("{why}"),
    }
}

/// TB0's four servers, comments and all.
const TB0: &str = r#"{
  "filesystem": {
    "command": "npx",
    "args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp/sandbox"],
    // Opt out
    "sandbox": false
  },
  "exec": { "command": "node", "args": ["./servers/exec-server.js"], "sandbox": { "network": false } },
  /* a repository */
  "git": {
    "command": "node",
    "args": ["./servers/git-server.js"],
    "sandbox": {
      "filesystem": { "allowWrite": [".git"], },
      "network": { "allowedDomains": ["github.com", "*.github.com"] }
    }
  },
  "test-runner": { "command": "node", "args": ["./servers/test-runner.js"] }
}"#;

#[test]
fn the_four_servers_of_tb0_are_read_in_their_order() {
    let config = read(TB0);
    let names: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["filesystem", "exec", "git", "test-runner"]);
    assert_eq!(local(&config, "filesystem").sandbox, Sandbox::OptOut);
    assert_eq!(local(&config, "test-runner").sandbox, Sandbox::Restrictive);
    let Sandbox::Custom(exec) = local(&config, "exec").sandbox else { panic!() };
    assert_eq!(exec.network, Network::Off);
    let Sandbox::Custom(git) = local(&config, "git").sandbox else { panic!() };
    assert_eq!(git.filesystem.allow_write, [".git"]);
    let Network::Domains(domains) = git.network else { panic!() };
    assert_eq!(domains.allowed, ["github.com", "*.github.com"]);
    assert!(domains.denied.is_empty());
    assert_eq!(config.notes, Vec::<String>::new());
    assert_eq!(config.options.sandbox_policy, SandboxPolicy::Warn);
}

#[test]
fn the_same_servers_are_read_from_every_clients_shape() {
    let bare = read(TB0).servers;
    for key in ["mcpServers", "servers"] {
        assert_eq!(read(&format!(r#"{{ "{key}": {TB0} }}"#)).servers, bare, "{key}");
    }
    // A server may be called like that.
    let odd = read(r#"{"servers": {"command": "x"}, "mcpServers": {"command": "y"}}"#);
    assert_eq!(odd.servers.len(), 2);
}

#[test]
fn options_stand_beside_the_servers() {
    let config = read(
        r#"{ "mcpServers": { "a": { "command": "x", "limits": { "callsPerMinute": 5 } }, "b": { "command": "y" } },
        "sandboxPolicy": "enforce", "escalationTimeoutSeconds": 30, "protectedPaths": ["~/x", "y"],
        "auditLogPath": "/var/log/a.jsonl", "toolNames": "prefixed", "onToolChange": "deny",
        "limits": { "maxOutputBytes": "1M", "maxMessageBytes": 1048576, "callTimeoutSeconds": 5,
        "startupTimeoutSeconds": 6, "identicalCalls": 3, "identicalCallsSeconds": 7 } }"#,
    );
    let options = &config.options;
    assert_eq!(options.sandbox_policy, SandboxPolicy::Enforce);
    assert_eq!(options.escalation_timeout, Duration::from_secs(30));
    assert_eq!(options.protected_paths, [PathBuf::from("/home/u/x"), "/etc/x/y".into()]);
    assert_eq!(options.audit_log.as_deref(), Some(Path::new("/var/log/a.jsonl")));
    assert_eq!((options.tool_names, options.on_tool_change), (ToolNames::Prefixed, OnToolChange::Deny));
    let common = Limits {
        calls_per_minute: None,
        max_output_bytes: 1 << 20,
        max_message_bytes: 1 << 20,
        call_timeout: Duration::from_secs(5),
        startup_timeout: Duration::from_secs(6),
        identical_calls: 3,
        identical_calls_within: Duration::from_secs(7),
    };
    assert_eq!(options.limits, common);
    let [a, b] = config.servers.as_slice() else { panic!() };
    assert_eq!(a.limits, Limits { calls_per_minute: Some(5), ..common });
    assert_eq!(b.limits, common);
}

#[test]
fn of_the_file_and_the_variable_the_stricter_counts() {
    let policy = |file: &str, variable: Option<&str>| {
        let text = format!(r#"{{ "mcpServers": {{}} {file} }}"#);
        let variables: Vec<(&str, &str)> =
            variable.map(|value| (SANDBOX_POLICY, value)).into_iter().collect();
        parse(&text, Path::new("s.json"), &surroundings(&variables))
            .map(|config| config.options.sandbox_policy)
    };
    let (enforce, warn) = (r#", "sandboxPolicy": "enforce""#, r#", "sandboxPolicy": "warn""#);
    assert_eq!(policy("", None), Ok(SandboxPolicy::Warn));
    assert_eq!(policy("", Some("enforce")), Ok(SandboxPolicy::Enforce));
    assert_eq!(policy(warn, Some("enforce")), Ok(SandboxPolicy::Enforce));
    assert_eq!(policy(enforce, Some("warn")), Ok(SandboxPolicy::Enforce));
    assert!(policy("", Some("enforced")).unwrap_err().to_string().contains("SANDBOX_POLICY"));
    assert!(policy("", Some("")).is_err(), "an empty value is no answer");
}

#[test]
fn a_mistyped_key_of_ours_is_an_error_with_its_place_and_a_hint() {
    for (text, place, hint) in [
        (r#"{"a":{"command":"x","sandBox":false}}"#, "s.json:1:21", "`sandbox`"),
        ("{\"a\":{\"command\":\"x\",\n \"sandbx\": {}}}", "s.json:2:2", "`sandbox`"),
        (r#"{"a":{"command":"x","inheritenv":true}}"#, "s.json:1:21", "`inheritEnv`"),
        (r#"{"a":{"command":"x","arg":[]}}"#, "s.json:1:21", "`args`"),
        (r#"{"a":{"command":"x","sandbox":{"netwrk":false}}}"#, "s.json:1:32", "`network`"),
        (r#"{"a":{"command":"x","sandbox":{"filesystem":{"denyreads":[]}}}}"#, "s.json:1:46", "`denyRead`"),
        (
            r#"{"a":{"command":"x","sandbox":{"network":{"allowDomains":[]}}}}"#,
            "s.json:1:43",
            "`allowedDomains`",
        ),
        (r#"{"a":{"command":"x","denyRead":["~/x"]}}"#, "s.json:1:21", "belongs in `sandbox.filesystem`"),
        (r#"{"a":{"command":"x","network":false}}"#, "s.json:1:21", "belongs in `sandbox`"),
        (r#"{"a":{"command":"x","sandboxPolicy":"enforce"}}"#, "s.json:1:21", "top level"),
        (r#"{"mcpServers":{},"sandboxpolicy":"enforce"}"#, "s.json:1:18", "`sandboxPolicy`"),
        (r#"{"mcpServers":{},"policy":"enforce"}"#, "s.json:1:18", "known here"),
        (r#"{"mcpservers":{"a":{"command":"x"}}}"#, "s.json:1:2", "`mcpServers`"),
        (r#"{"mcpServers":{},"limits":{"callPerMinute":1}}"#, "s.json:1:28", "`callsPerMinute`"),
        (r#"{"sandboxPolicy":"enforce","a":{"command":"x"}}"#, "s.json:1:2", "`mcpServers`"),
    ] {
        let fault = fault(text);
        assert!(fault.starts_with(place) && fault.contains(hint), "{text}\n{fault}");
    }
}

#[test]
fn keys_of_other_clients_are_passed_over_with_a_note() {
    let config = read(
        r#"{ "$schema": "x", "inputs": [], "mcpServers": {
        "a": { "type": "stdio", "command": "x", "timeout": 60, "autoApprove": ["t"], "alwaysAllow": [],
               "envFile": ".env", "cwd": "/srv" },
        "off": { "command": "y", "disabled": true }, "off too": { "command": "z", "enabled": false } } }"#,
    );
    assert_eq!(config.servers.len(), 1);
    assert_eq!(local(&config, "a").directory.as_deref(), Some("/srv"));
    let notes = config.notes.join("\n");
    for said in [
        "`timeout`",
        "`autoApprove`",
        "`alwaysAllow`",
        "`envFile`",
        "`inputs`",
        "`off` is disabled",
        "`off too`",
    ] {
        assert!(notes.contains(said), "{said}: {notes}");
    }
    assert!(!notes.contains("`type`") && !notes.contains("schema"), "{notes}");
    assert!(config.notes.iter().all(|note| note.starts_with("/etc/x/servers.json:")), "{notes}");
}

#[test]
fn a_key_that_occurs_twice_is_an_error() {
    let fault = fault(r#"{"a":{"command":"x","sandbox":{},"sandbox":false}}"#);
    assert!(fault.contains("s.json:1:34") && fault.contains("occurs twice"), "{fault}");
}

#[test]
fn servers_that_are_reached_over_the_network_are_listed_as_unusable() {
    let config = read(
        r#"{"mcpServers":{"a":{"type":"http","url":"https://x"},"b":{"url":"https://y"},"c":{"type":"sse","command":"x"},
        "d":{"command":"x"}}}"#,
    );
    let unusable: Vec<bool> = config
        .servers
        .iter()
        .map(|server| matches!(server.definition, Definition::Unusable(Unusable::Remote { .. })))
        .collect();
    assert_eq!(unusable, [true, true, true, false]);
}

#[test]
fn variables_are_filled_in_and_one_that_is_missing_fails_only_its_server() {
    let text = r#"{"a":{"command":"${BIN:-node}","args":["${ROOT}/x"],"env":{"TOKEN":"${SECRET}","N":3}},
        "b":{"command":"x","env":{"T":"${NONE}"}}, "c":{"command":"x"}}"#;
    let config =
        parse(text, Path::new("s.json"), &surroundings(&[("ROOT", "/r"), ("SECRET", "hunter2")])).unwrap();
    let a = local(&config, "a");
    assert_eq!((a.command.as_str(), a.args.as_slice()), ("node", ["/r/x".to_owned()].as_slice()));
    assert_eq!(a.env.0.get("TOKEN").map(String::as_str), Some("hunter2"));
    assert_eq!(a.env.0.get("N").map(String::as_str), Some("3"));
    let Definition::Unusable(why) = &config.servers[1].definition else { panic!() };
    assert!(why.to_string().contains("env.T") && why.to_string().contains("NONE"), "{why}");
    assert!(matches!(config.servers[2].definition, Definition::Local(_)));
}

#[test]
fn values_of_variables_are_not_shown() {
    let text = r#"{"a":{"command":"x","env":{"TOKEN":"hunter2"}}}"#;
    let shown = format!("{:?}", read(text));
    assert!(shown.contains("TOKEN") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn names_are_visible_and_short() {
    for name in ["", " ", "a/b", "a\\nb", "\\u202eevil", "a\\u200bb", "\\u0000", &"x".repeat(65)] {
        assert!(fault(&format!(r#"{{"{name}":{{"command":"x"}}}}"#)).contains("name"), "{name}");
    }
    for name in ["a", "my server", "größe", "a.b-c_d", &"x".repeat(64)] {
        assert_eq!(read(&format!(r#"{{"{name}":{{"command":"x"}}}}"#)).servers.len(), 1, "{name}");
    }
    let config = read(r#"{"Git":{"command":"x"},"git":{"command":"y"}}"#);
    assert!(config.notes.join("").contains("differ only in capitals"));
}

#[test]
fn what_is_no_list_of_servers_says_so() {
    for (text, said) in [
        ("", "empty"),
        ("[]", "expected an object"),
        ("{\"a\": }", "not valid JSON"),
        (r#"{"a":"x"}"#, "a: expected an object"),
        (r#"{"a":{}}"#, "no `command`"),
        (r#"{"a":{"command":""}}"#, "command is empty"),
        (r#"{"a":{"command":["x"]}}"#, "expected a text, found a list"),
        (r#"{"a":{"command":"x","args":"y"}}"#, "expected a list"),
        (r#"{"a":{"command":"x","args":["a\u0000"]}}"#, "NUL"),
        (r#"{"a":{"command":"x","env":{"A=B":"x"}}}"#, "no name of a variable"),
        (r#"{"a":{"command":"x","env":{"A":[]}}}"#, "a.env.A"),
        (r#"{"a":{"command":"x","sandbox":"no"}}"#, "expected false"),
        (r#"{"a":{"command":"x","sandbox":null}}"#, "expected false"),
        (r#"{"a":{"command":"x","sandbox":{"network":true}}}"#, "expected false or an object"),
        (r#"{"a":{"command":"x","sandbox":{"network":{}}}}"#, "`allowedDomains` is missing"),
        (
            r#"{"a":{"command":"x","sandbox":{"network":{"allowedDomains":["*","x.example"]}}}}"#,
            "stands alone",
        ),
        (
            r#"{"a":{"command":"x","sandbox":{"network":{"allowedDomains":["a.example","*.com"]}}}}"#,
            "s.json:1:73",
        ),
        (
            r#"{"a":{"command":"x","sandbox":{"network":{"allowedDomains":["https://x.example"]}}}}"#,
            "is a URL",
        ),
        (
            r#"{"a":{"command":"x","sandbox":{"network":{"allowedDomains":[],"deniedDomains":["a b"]}}}}"#,
            "deniedDomains",
        ),
        (r#"{"a":{"command":"x","sandbox":{"filesystem":{"allowWrite":[""]}}}}"#, "is empty"),
        (r#"{"a":{"command":"x","sandbox":{"resources":{"memory":"1X"}}}}"#, "unit"),
        (r#"{"a":{"command":"x","inheritEnv":"PATH"}}"#, "true, false or a list"),
        (r#"{"mcpServers":{},"escalationTimeoutSeconds":29}"#, "between 30 and 600"),
        (r#"{"mcpServers":{},"escalationTimeoutSeconds":601}"#, "between 30 and 600"),
        (r#"{"mcpServers":{},"sandboxPolicy":"Enforce"}"#, "\"enforce\", \"warn\""),
        (r#"{"mcpServers":{},"servers":{}}"#, "both"),
        (r#"{"mcpServers":[]}"#, "expected an object with servers"),
        (r#"{"mcpServers":{},"limits":{"callsPerMinute":0}}"#, "between 1"),
        (r#"{"mcpServers":{},"limits":{"maxOutputBytes":-1}}"#, "whole number"),
    ] {
        let fault = fault(text);
        assert!(fault.contains(said), "{text}\n{fault}");
    }
}

#[test]
fn resources_and_the_rest_of_the_network_are_taken_over() {
    let config = read(
        r#"{"a":{"command":"x","inheritEnv":["A"],"sandbox":{"resources":{"memory":"1G","processes":9,"openFiles":64,
        "cpuPercent":50},"network":{"allowedDomains":["x.example:8080"],"deniedDomains":["*"],
        "allowedAddresses":["127.0.0.0/8"],"resolve":{"x.example":"127.0.0.1"}},
        "filesystem":{"replaceDefaults":true,"denyRead":["a"],"denyWrite":["b"],"allowRead":["c"]}}}}"#,
    );
    let a = local(&config, "a");
    assert_eq!(a.inherit_env, InheritEnv::Listed(vec!["A".to_owned()]));
    let Sandbox::Custom(custom) = a.sandbox else { panic!() };
    assert_eq!(custom.max_processes, Some(9));
    assert_eq!(custom.resources.max_memory.map(|bytes| bytes.0), Some(1 << 30));
    assert_eq!(custom.filesystem.defaults, Defaults::Replaced);
    let Network::Domains(domains) = custom.network else { panic!() };
    let policy = domains.to_policy();
    assert!(policy.allow_network && policy.resolve.contains_key("x.example"));
    assert_eq!(policy.allowed_addresses, ["127.0.0.0/8"]);
}

#[test]
fn every_public_host_is_said_loudly() {
    let config = read(r#"{"a":{"command":"x","sandbox":{"network":{"allowedDomains":["*"]}}}}"#);
    assert!(config.notes.join("").contains("every public host"), "{:?}", config.notes);
    let Sandbox::Custom(custom) = local(&config, "a").sandbox else { panic!() };
    let Network::Domains(domains) = custom.network else { panic!() };
    assert_eq!(domains.to_policy().allowed_domains, None);
}

#[test]
fn a_file_that_everybody_can_write_is_not_trusted() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = std::env::temp_dir().join(format!("lazaret-mcp-config-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("servers.json");
    std::fs::write(&file, r#"{"a":{"command":"x"}}"#).unwrap();
    let with = |mode: u32| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        load(&file, &surroundings(&[]))
    };
    assert_eq!(with(0o600).unwrap().notes, Vec::<String>::new());
    assert!(with(0o660).unwrap().notes.join("").contains("group"));
    assert!(with(0o606).unwrap_err().to_string().contains("everybody"));
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(load(&file, &surroundings(&[])).unwrap_err().to_string().contains("mcp import"));
}

#[test]
fn the_example_is_read_without_notes() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mcp-servers.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let config = parse(&text, &file, &surroundings(&[])).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.servers.len(), 4);
    assert_eq!(config.notes, Vec::<String>::new());
}

proptest! {
    /// Whatever is in it, a text is read or refused, and nothing is added to what it says.
    #[test]
    fn arbitrary_texts_do_not_panic(text in "[{}\\[\\]\",:/*a-z \n]{0,80}") {
        let _ = parse(&text, Path::new("s.json"), &surroundings(&[]));
    }

    #[test]
    fn only_false_opts_out(value in prop_oneof![
        Just("true".to_owned()), Just("null".to_owned()), Just("0".to_owned()), Just("\"false\"".to_owned()),
        Just("[]".to_owned()), Just("{}".to_owned()), Just("{\"network\":false}".to_owned()), "[a-z0-9]{1,6}",
    ]) {
        prop_assume!(value != "false");
        let text = format!(r#"{{"a":{{"command":"x","sandbox":{value}}}}}"#);
        if let Ok(config) = parse(&text, Path::new("s.json"), &surroundings(&[])) {
            prop_assert_ne!(local(&config, "a").sandbox, Sandbox::OptOut);
        }
    }
}
