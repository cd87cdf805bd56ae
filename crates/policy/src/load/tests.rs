//! What is refused, where the error stands and what it says.

mod network;

use std::{fs, path::PathBuf};

use super::*;
use crate::{
    schema::{Level, SyscallMode},
    units::{Bytes, Millis},
};

/// The example of RFC-0002 appendix A.
const APPENDIX_A_JSON: &str = r#"{
  "isolationLevel": "LEVEL_2",
  "filesystem": {
    "rootPath": "/var/sandbox/tool-12345",
    "readOnlyPaths": ["/usr", "/lib", "/lib64"],
    "readWritePaths": ["/tmp", "/var/tmp"],
    "deniedPaths": ["/proc", "/sys", "/dev"],
    "maxFileSize": 10485760,
    "maxTotalSize": 104857600
  },
  "process": { "maxProcesses": 10, "allowFork": true, "allowExec": false, "allowedExecutables": [] },
  "network": { "allowNetwork": false, "allowedHosts": [], "allowedPorts": [], "maxConnections": 0 },
  "resources": { "maxCPU": 5000, "maxMemory": 52428800, "maxFileDescriptors": 100, "maxThreads": 10 },
  "syscalls": {
    "mode": "WHITELIST",
    "syscalls": [
      "read", "write", "open", "close", "stat", "fstat", "lstat",
      "mmap", "munmap", "brk", "exit", "exit_group"
    ]
  }
}"#;

const APPENDIX_A_TOML: &str = r#"
isolationLevel = "LEVEL_2"

[filesystem]
rootPath = "/var/sandbox/tool-12345"
readOnlyPaths = ["/usr", "/lib", "/lib64"]
readWritePaths = ["/tmp", "/var/tmp"]
deniedPaths = ["/proc", "/sys", "/dev"]
maxFileSize = "10M"
maxTotalSize = 104_857_600

[process]
maxProcesses = 10
allowFork = true
allowExec = false
allowedExecutables = []

[network]
allowNetwork = false
allowedHosts = []
allowedPorts = []
maxConnections = 0

[resources]
maxCPU = "5s"
maxMemory = "50M"
maxFileDescriptors = 100
maxThreads = 10

[syscalls]
mode = "WHITELIST"
syscalls = [
    "read", "write", "open", "close", "stat", "fstat", "lstat",
    "mmap", "munmap", "brk", "exit", "exit_group",
]
"#;

fn json(text: &str) -> Result<Loaded, LoadError> {
    parse(text, Format::Json, Path::new("p.json"))
}

fn toml(text: &str) -> Result<Loaded, LoadError> {
    parse(text, Format::Toml, Path::new("p.toml"))
}

/// The error, which must stand at the `§` in the text; the mark is removed before parsing.
fn fault(format: Format, marked: &str) -> String {
    let offset = marked.find('§').expect("no mark");
    let text = marked.replace('§', "");
    let error = parse(&text, format, Path::new("p")).expect_err(&text);
    assert_eq!(error.line.zip(error.column), Some(position(&text, offset)), "{error}\n{text}");
    error.to_string()
}

fn assert_says(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "{part:?} is missing in {error}");
    }
}

/// A directory of its own for a test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lazaret-load-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_example_of_the_rfc_loads_unmodified_and_equal_in_both_formats() {
    let (from_json, from_toml) = (json(APPENDIX_A_JSON).unwrap(), toml(APPENDIX_A_TOML).unwrap());
    assert_eq!(from_json, from_toml);
    assert_eq!(from_json.warnings, Vec::<String>::new());
    let policy = from_json.policy;
    assert_eq!(policy.isolation_level, Level::Full);
    assert_eq!(policy.filesystem.max_file_size, Some(Bytes(10 << 20)));
    assert_eq!(policy.resources.max_cpu, Some(Millis(5000)));
    assert_eq!(policy.network.max_connections, Some(0));
    assert_eq!(policy.syscalls.mode, SyscallMode::Whitelist);
    assert_eq!(policy.syscalls.syscalls.len(), 12);
}

#[test]
fn a_loaded_policy_serialises_and_loads_again_as_the_same() {
    let policy = json(APPENDIX_A_JSON).unwrap().policy;
    assert_eq!(json(&serde_json::to_string(&policy).unwrap()).unwrap().policy, policy);
    assert_eq!(toml(&::toml::to_string(&policy).unwrap()).unwrap().policy, policy);
}

#[test]
fn an_error_prints_as_file_line_column_message_and_hint() {
    let error = json("{\n  \"filesystem\": {\n    \"rootpath\": \"/x\"\n  }\n}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "p.json:3:5: filesystem: unknown key `rootpath`\n  hint: did you mean `rootPath`?"
    );
}

#[test]
fn an_unknown_key_stands_at_the_key_in_both_formats() {
    let error = fault(Format::Toml, "[filesystem]\n§readonlyPath = [\"/usr\"]\n");
    assert_says(&error, &["unknown key `readonlyPath`", "did you mean `readOnlyPaths`?"]);
    let error = fault(Format::Json, "{\"resources\": {\"maxCPU\": 1, §\"maxMemroy\": 1}}");
    assert_says(&error, &["did you mean `maxMemory`?"]);
    assert_says(&fault(Format::Toml, "§colour = 1\n"), &["unknown key `colour`", "known here: $schema"]);
}

#[test]
fn a_key_in_the_wrong_section_says_where_it_belongs() {
    let error = fault(Format::Toml, "[process]\n§maxMemory = 1\n");
    assert_says(&error, &["`maxMemory` belongs in the section `resources`"]);
    let error = fault(Format::Toml, "§maxFileSize = 1\n");
    assert_says(&error, &["belongs in the section `filesystem`"]);
    let error = fault(Format::Json, "{\"network\": {§\"timeout\": 5}}");
    assert_says(&error, &["belongs at the top level"]);
}

#[test]
fn wrong_types_and_units_stand_at_the_value() {
    for (text, says) in [
        ("timeout = §\"5 parsecs\"", "timeout: unknown unit `parsecs`"),
        ("[filesystem]\nmaxFileSize = §\"5s\"", "filesystem.maxFileSize: unknown unit `s`"),
        ("[filesystem]\nmaxFileSize = §-1", "is negative"),
        ("[filesystem]\nmaxFileSize = §1.5", "not a whole number"),
        ("[process]\nallowFork = §\"yes\"", "process.allowFork: invalid type: string \"yes\""),
        ("[network]\nallowedPorts = [80, §70000]", "from 1 to 65535"),
        ("process = §[]", "a section with keys"),
        ("process = §2020-01-01", "invalid type: date"),
        ("isolationLevel = §2", "\"LEVEL_2\""),
        ("isolationLevel = §\"LEVEL_3\"", "write one of \"LEVEL_0\""),
        ("[syscalls]\nmode = §\"ALLOW\"", "write one of \"WHITELIST\", \"BLACKLIST\""),
        ("timeout = §99999999999999999999", "too large"),
    ] {
        assert_says(&fault(Format::Toml, text), &[says]);
    }
    assert_says(&fault(Format::Json, "{\"process\": {\"allowExec\": §1}}"), &["process.allowExec"]);
    assert_says(&fault(Format::Json, "{\"timeout\": §1e999}"), &["too large"]);
    assert_says(&fault(Format::Json, "§[1]"), &["a section with keys"]);
}

#[test]
fn broken_syntax_stands_where_it_breaks() {
    assert_says(&fault(Format::Json, "{\"timeout\": 5} §x"), &["trailing characters"]);
    assert_says(&fault(Format::Json, "{\"timeout\": 5, §\"timeout\": 6}"), &["`timeout` occurs twice"]);
    assert_says(&fault(Format::Json, "{\"$schema\": §\"\\ud800\"}"), &["invalid escape"]);
    let error = toml("timeout = 5\ntimeout = 6\n").unwrap_err();
    assert_eq!(error.line, Some(2));
    assert_says(&error.message, &["duplicate key"]);
    assert_says(&toml("timeout = ").unwrap_err().message, &["not valid TOML"]);
    assert!(json("{\"timeout\": 5").is_err() && json("nonsense").is_err());
}

#[test]
fn columns_count_characters_and_a_byte_order_mark_is_skipped() {
    assert_says(&fault(Format::Json, "{\"$schema\": \"äöü\", \"timeout\": §true}"), &["timeout"]);
    assert!(json(&format!("\u{feff}{APPENDIX_A_JSON}")).is_ok());
    assert!(toml(&format!("\u{feff}{APPENDIX_A_TOML}")).is_ok());
}

#[test]
fn paths_must_mean_the_same_everywhere() {
    for (text, says) in [
        ("rootPath = §\"var/x\"", "not absolute"),
        ("rootPath = §\"~/x\"", "not absolute"),
        ("rootPath = §\"\"", "empty"),
        ("rootPath = §\"/a/../b\"", "`..`"),
        ("readOnlyPaths = [\"/usr\", §\"lib\"]", "hangs in the air"),
        ("readOnlyPaths = [§\"~root/x\"]", "hangs in the air"),
        ("readWritePaths = [§\"./../x\"]", "`..`"),
        ("deniedPaths = [§\"\"]", "empty"),
        ("deniedPaths = [§\"/a\\u0000b\"]", "NUL"),
        ("maxFileSize = §\"2M\"\nmaxTotalSize = \"1M\"", "more than maxTotalSize"),
    ] {
        assert_says(&fault(Format::Toml, &format!("[filesystem]\n{text}\n")), &[says]);
    }
    let fine =
        "[filesystem]\nreadWritePaths = [\".\", \"./a\", \"~\", \"~/b\", \"/c\"]\ndeniedPaths = [\"./a\"]\n";
    assert!(toml(fine).is_ok());
}

#[test]
fn a_limit_of_zero_is_refused_except_for_connections() {
    for text in [
        "timeout = §0",
        "maxViolations = §0",
        "[process]\nmaxProcesses = §0",
        "[resources]\nmaxCPU = §\"0s\"",
        "[resources]\nmaxMemory = §0",
        "[resources]\nmaxFileDescriptors = §0",
        "[resources]\nmaxThreads = §0",
        "[resources]\nmaxIOPS = §0",
        "[filesystem]\nmaxTotalSize = §0",
        "[filesystem]\nmaxInodes = §0",
    ] {
        assert_says(&fault(Format::Toml, text), &["leave the key out for no limit"]);
    }
    assert!(toml("[network]\nmaxConnections = 0").is_ok());
}

#[test]
fn fields_that_contradict_each_other_are_refused() {
    for (text, says) in [
        ("[network]\nallowNetwork = false\nallowedHosts = §[\"a.example\"]", "allowNetwork is false"),
        ("[network]\nallowedPorts = §[443]", "allowNetwork is false"),
        ("[network]\nallowNetwork = true\nallowedPorts = [443, §0]", "0 is not a port"),
        ("[network]\nallowNetwork = true\nallowedHosts = [§\"https://a.example\"]", "not a host name"),
        ("[network]\nallowNetwork = true\nallowedHosts = [§\"\"]", "empty"),
        ("[process]\nallowExec = false\nallowedExecutables = §[\"/bin/sh\"]", "allowExec is false"),
        ("[process]\nallowedExecutables = [§\"sh\"]", "not absolute"),
        ("[process]\nallowedExecutables = [§\"~/sh\"]", "not absolute"),
    ] {
        assert_says(&fault(Format::Toml, text), &[says]);
    }
}

#[test]
fn an_unknown_system_call_is_refused_with_the_nearest_name() {
    let error = fault(Format::Json, "{\"syscalls\": {\"syscalls\": [\"read\", §\"opeen\"]}}");
    assert_says(&error, &["no system call \"opeen\"", "did you mean `open`?"]);
}

#[test]
fn allowing_a_call_that_stays_blocked_is_a_warning() {
    let text = "[syscalls]\nmode = \"WHITELIST\"\nsyscalls = [\"read\", \"umount\"]\n";
    let warnings = toml(text).unwrap().warnings;
    assert_eq!(
        warnings,
        ["p.toml:3:21: syscalls.syscalls: `umount` stays blocked at level 2 although it is listed (umount2)"]
    );
    assert_eq!(toml(&text.replace("WHITELIST", "BLACKLIST")).unwrap().warnings, Vec::<String>::new());
}

#[test]
fn environment_names_are_checked() {
    for (text, says) in [
        ("allow = [§\"\"]", "is empty"),
        ("allow = [\"LC_*\", §\"A=b\"]", "contains `=`"),
        ("allow = [§\"A*B\"]", "before its end"),
        ("allow = [§\"A**\"]", "before its end"),
        ("allow = [§\"A\\u0000\"]", "NUL"),
        ("set = { §\"A=b\" = \"c\" }", "contains `=`"),
        ("set = { A = §\"b\\u0000\" }", "NUL"),
        ("set = { A = §1 }", "environment.set.A"),
    ] {
        assert_says(&fault(Format::Toml, &format!("[environment]\n{text}\n")), &[says]);
    }
    assert_eq!(toml("[environment]\nallow = [\"*\"]\n").unwrap().warnings.len(), 1);
}

#[test]
fn the_first_problem_in_the_document_is_reported() {
    fault(Format::Toml, "[syscalls]\nsyscalls = [§\"opeen\"]\n[filesystem]\nrootPath = \"x\"\n");
    fault(Format::Toml, "[filesystem]\nrootPath = §\"x\"\n[syscalls]\nsyscalls = [\"opeen\"]\n");
}

#[test]
fn the_format_follows_the_extension_and_then_the_content() {
    let scratch = Scratch::new("format");
    for (name, text) in [
        ("a.json", APPENDIX_A_JSON),
        ("a.toml", APPENDIX_A_TOML),
        ("noext", APPENDIX_A_TOML),
        ("a.policy", APPENDIX_A_JSON),
        ("b", &format!("\n  {APPENDIX_A_JSON}")),
    ] {
        load_file(&scratch.file(name, text.as_bytes())).unwrap();
    }
    assert_says(&load_file(&scratch.file("b.toml", b"{}")).unwrap_err().message, &["not valid TOML"]);
}

#[test]
fn what_is_no_readable_text_file_is_refused() {
    let scratch = Scratch::new("refuse");
    let refused = |path: &Path| {
        let error = load_file(path).unwrap_err();
        assert_eq!((error.line, error.hint.is_some()), (None, true));
        error.message
    };
    assert_says(&refused(&scratch.0.join("missing.toml")), &["no such file"]);
    assert_says(&refused(&scratch.0), &["directory"]);
    assert_says(&refused(Path::new("/dev/null")), &["not a regular file"]);
    assert_says(&refused(&scratch.file("empty.toml", b"")), &["empty"]);
    assert_says(&refused(&scratch.file("blank.json", b" \n\t")), &["empty"]);
    assert_says(&refused(&scratch.file("latin.toml", b"# caf\xe9\n")), &["not UTF-8 at byte 5"]);
    let large = vec![b'#'; 1024 * 1024 + 1];
    assert_says(&refused(&scratch.file("large.toml", &large)), &["larger than 1 MiB"]);
}

#[test]
fn a_fifo_is_refused_without_waiting_for_a_writer() {
    let scratch = Scratch::new("fifo");
    let fifo = scratch.0.join("p.toml");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert_says(&load_file(&fifo).unwrap_err().message, &["not a regular file"]);
}

#[test]
fn the_schema_names_its_dialect_and_every_section() {
    let schema = json_schema();
    assert_eq!(schema["title"], "Lazaret sandbox policy");
    assert!(schema["$schema"].as_str().unwrap().starts_with("https://json-schema.org/"));
    for section in ["filesystem", "process", "network", "resources", "syscalls", "environment"] {
        assert!(schema["properties"][section].is_object(), "{section}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_loader_panic(text in "\\PC{0,80}") {
        let _ = json(&text);
        let _ = toml(&text);
    }

    #[test]
    fn no_damage_to_a_valid_policy_makes_the_loader_panic(at in 0usize..1100, with in "[\\PC\\n]{0,3}") {
        for (format, text) in [(Format::Json, APPENDIX_A_JSON), (Format::Toml, APPENDIX_A_TOML)] {
            let head: String = text.chars().take(at).collect();
            let tail: String = text.chars().skip(at + 1).collect();
            let _ = parse(&format!("{head}{with}{tail}"), format, Path::new("p"));
        }
    }
}

#[test]
fn a_call_listed_often_is_one_warning() {
    let text = "[syscalls]\nmode = \"WHITELIST\"\nsyscalls = [\"bpf\", \"bpf\", \"mount\"]\n";
    assert_eq!(toml(text).unwrap().warnings.len(), 2);
}

#[test]
fn a_hostile_megabyte_is_judged_in_bounded_time() {
    let many = |item: &str| vec![item; 1_000_000 / (item.len() + 1)].join(",");
    let keys = (0..80_000).map(|number| format!("\"={number}\":\"\"")).collect::<Vec<_>>().join(",");
    let started = std::time::Instant::now();
    for text in [
        format!("{{\"syscalls\":{{\"mode\":\"WHITELIST\",\"syscalls\":[{}]}}}}", many("\"bpf\"")),
        format!("{{\"syscalls\":{{\"syscalls\":[{}]}}}}", many("\"opne\"")),
        format!("{{\"environment\":{{\"allow\":[{}]}}}}", many("\"*\"")),
        format!("{{\"environment\":{{\"set\":{{{keys}}}}}}}"),
        format!("{{\"filesystem\":{{\"deniedPaths\":[{}]}}}}", many("\"/a\"")),
        format!("{{\"network\":{{\"deniedDomains\":[{}]}}}}", many("\"ü.a:1\"")),
    ] {
        let _ = json(&text);
        let _ = toml(&text.replace("\":", "\"=")[1..text.len() - 1]);
    }
    // Seconds at most, also without optimisation; what this guards against takes minutes.
    assert!(started.elapsed().as_secs() < 60);
}
