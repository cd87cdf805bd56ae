use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use serde_json::{Value, json};

use super::*;

/// A directory that vanishes with the test.
pub(super) struct Dir(PathBuf);

impl Dir {
    pub(super) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("lazaret-tools-{}", uuid::Uuid::now_v7()));
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Dir(path.canonicalize().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        file
    }

    fn source(&self, name: &str, text: &str, keeper: Keeper) -> Source {
        Source { file: self.write(name, text), keeper }
    }

    fn load(&self, text: &str) -> Result<Registry, ToolsError> {
        Registry::load(&[self.source("tools.toml", text, Keeper::Caller)])
    }

    pub(super) fn tool(&self, text: &str) -> Tool {
        let mut registry = self.load(text).unwrap_or_else(|error| panic!("{error}"));
        registry.tools.pop_first().unwrap().1
    }

    /// The error of a registry, without the directory.
    fn error(&self, text: &str) -> String {
        self.load(text).unwrap_err().to_string().replace(&format!("{}/", self.0.display()), "")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const WORD_COUNT: &str = r#"
[tools.word-count]
description = "Counts words"
command = ["wc", "-w"]
profile = "strict"
input = "stdin"
output = "text"
timeQuantum = "250ms"
maxOutput = "2M"
[tools.word-count.inputSchema]
type = "object"
required = ["text"]
"#;

fn check(tool: &Tool, input: &str) -> Result<CheckedInput, Vec<InputError>> {
    tool.check(input, &Policy::default(), Path::new("/"))
}

#[test]
fn an_entry_says_everything_about_its_tool() {
    let dir = Dir::new();
    let tool = dir.tool(WORD_COUNT);
    assert_eq!((tool.name(), tool.description()), ("word-count", "Counts words"));
    assert_eq!(tool.time_quantum(), Duration::from_millis(250));
    assert_eq!(tool.max_output(), Bytes(2 << 20));
    assert_eq!(tool.input_schema(), &json!({ "type": "object", "required": ["text"] }));
    assert_eq!((tool.input_way(), tool.output_form()), (InputWay::Stdin, OutputForm::Text));
    let checked = check(&tool, r#"{"text": "a b"}"#).unwrap();
    assert_eq!(checked.argv(), ["wc", "-w"]);
    assert_eq!(checked.stdin(), r#"{"text": "a b"}"#);
    assert!(checked.environment().is_empty());
    assert!(tool.policy().is_ok());
}

#[test]
fn what_is_left_out_has_the_safe_default() {
    let dir = Dir::new();
    let tool = dir.tool("[tools.a]\ncommand = [\"true\"]\n");
    assert!(matches!(tool.policy_choice(), PolicyChoice::Profile(profile) if profile.name == "strict"));
    assert_eq!((tool.input_way(), tool.output_form()), (InputWay::Stdin, OutputForm::Text));
    assert_eq!((tool.time_quantum(), tool.max_output()), (Duration::ZERO, Bytes(1 << 20)));
    assert!(check(&tool, "{}").is_ok() && check(&tool, "[]").is_err());
}

#[test]
fn the_input_reaches_the_tool_the_way_the_entry_says() {
    let dir = Dir::new();
    let text = |way: &str| {
        format!("[tools.a]\ncommand = [\"p\", \"{{x}}\"]\ninput = \"{way}\"\ninputSchema = {{}}\n")
    };
    let input = r#"{"x": 1}"#;
    let arguments = check(&dir.tool(&text("arguments")), input).unwrap();
    assert_eq!(arguments.argv(), ["p", "1"]);
    assert!(arguments.stdin().is_empty() && arguments.environment().is_empty());
    let environment = dir.tool(&text("environment"));
    let checked = check(&environment, input).unwrap();
    assert_eq!(checked.environment(), [("LAZARET_INPUT".into(), input.into())]);
    assert!(checked.stdin().is_empty());
    let long = format!(r#"{{"y": "{}"}}"#, "x".repeat(128 << 10));
    assert!(check(&environment, &long).unwrap_err()[0].message.contains("too long for a variable"));
    assert!(check(&dir.tool(&text("stdin")), &long).is_ok());
}

#[test]
fn faults_name_line_and_column_and_a_remedy() {
    let dir = Dir::new();
    let cases = [
        ("[tool.a]\n", "tools.toml:1:2: unknown key `tool`\n  hint: did you mean `tools`?"),
        (
            "[tools.a]\ncommand = [\"p\"]\ntimequantum = 5\n",
            "tools.toml:3:1: unknown key `timequantum`\n  hint: did you mean `timeQuantum`?",
        ),
        (
            "[tools.a]\ncommand = [\"p\"]\nshell = true\n",
            "tools.toml:3:1: unknown key `shell`\n  hint: known",
        ),
        ("[tools.a.b]\ncommand = [\"p\"]\n", "written in quotes"),
        ("[tools.a]\n", "tools.toml:1:8: a has no command"),
        ("[tools.a]\ncommand = []\n", "tools.toml:2:11: command: the command is empty"),
        ("[tools.a]\ncommand = \"wc -w\"\n", "tools.toml:2:11: command: not a list"),
        ("[tools.a]\ncommand = [\"p\", 1]\n", "tools.toml:2:17: command: not a text"),
        ("[tools.a]\ncommand = [\"p\", \"{\"]\n", "tools.toml:2:17: command: a `{` without"),
        ("[tools.a]\ncommand = [\"p\", \"\\u0000\"]\n", "tools.toml:2:17: command: an argument cannot"),
        (
            "[tools.a]\ncommand = [\"p\"]\npolicy = \"p.toml\"\nprofile = \"strict\"\n",
            "4:11: both policy and",
        ),
        ("[tools.a]\ncommand = [\"p\"]\nprofile = \"srtict\"\n", "3:11: profile: there is no profile"),
        ("[tools.a]\ncommand = [\"p\"]\npolicy = \"~/p.toml\"\n", "3:10: policy: not the path of a file"),
        ("[tools.a]\ncommand = [\"p\"]\ninput = \"std\"\n", "3:9: input: unknown value `std`"),
        ("[tools.a]\ncommand = [\"p\"]\noutput = true\n", "3:10: output: not a text"),
        ("[tools.a]\ncommand = [\"p\"]\ntimeQuantum = 0\n", "3:15: timeQuantum: no time"),
        ("[tools.a]\ncommand = [\"p\"]\ntimeQuantum = \"5y\"\n", "3:15: timeQuantum: unknown unit"),
        ("[tools.a]\ncommand = [\"p\"]\nmaxOutput = -1\n", "3:13: maxOutput: not a whole number"),
        ("[tools.a]\ncommand = [\"p\"]\ninputSchema = 3\n", "3:15: inputSchema: neither"),
        (
            "[tools.a]\ncommand = [\"p\"]\ninputSchema = { a = 1979-05-27 }\n",
            "3:21: inputSchema: JSON has no dates",
        ),
        (
            "[tools.a]\ncommand = [\"p\"]\ninputSchema = { minimum = nan }\n",
            "3:27: inputSchema: JSON has no such",
        ),
        ("[tools.a]\ncommand = [\"p\"]\n[tools.a.inputSchema]\ntype = \"objekt\"\n", "4:8: inputSchema: "),
        (
            "[tools.a]\ncommand = [\"p\"]\ninputSchema = \"none.json\"\n",
            "3:15: inputSchema: there is no file",
        ),
        ("[tools.a]\ncommand = [\"p\"]\n[tools.a]\n", "tools.toml:3:"),
        ("tools = 1\n", "tools.toml:1:9: tools: not a section"),
        ("[tools]\na = 1\n", "tools.toml:2:5: a: not a section"),
    ];
    for (text, expected) in cases {
        let error = dir.error(text);
        assert!(error.contains(expected), "{text}\n{error}");
    }
}

#[test]
fn a_name_is_short_and_plain() {
    let dir = Dir::new();
    for good in ["a", "0", "A.b_c-d", &"x".repeat(64)] {
        dir.tool(&format!("[tools.\"{good}\"]\ncommand = [\"p\"]\n"));
    }
    for bad in ["", ".a", "-a", "_a", "a b", "a\\nb", "a/b", "ä", "a\\u0000", "a\\u001b[2J", &"x".repeat(65)]
    {
        let error = dir.error(&format!("[tools.\"{bad}\"]\ncommand = [\"p\"]\n"));
        assert!(error.contains("tools.toml:1:8: `") && error.contains("cannot be the name"), "{error}");
        assert!(!error.contains('\u{1b}') && !error.contains('\0'), "{error:?}");
    }
}

#[test]
fn placeholders_that_no_input_can_fill_are_refused() {
    let dir = Dir::new();
    let text = |more: &str| {
        format!(
            "[tools.a]\ncommand = [\"p\", \"-f\", \"--x={{texd}}\"]\n[tools.a.inputSchema]\n{more}\n\
             [tools.a.inputSchema.properties]\ntext = {{}}\n"
        )
    };
    let error = dir.error(&text("additionalProperties = false"));
    assert!(error.contains("tools.toml:2:23: command: no input can have the member `texd`"), "{error}");
    assert!(error.contains("did you mean `{text}`?"), "{error}");
    dir.tool(&text(""));
    dir.tool(&text("additionalProperties = false\npatternProperties = { \"^tex\" = {} }"));
}

#[test]
fn a_schema_may_stand_in_a_file_of_its_own() {
    let dir = Dir::new();
    let text = "[tools.a]\ncommand = [\"p\"]\ninputSchema = \"s.json\"\n";
    dir.write("s.json", r#"{ "required": ["x"] }"#);
    assert!(check(&dir.tool(text), "{}").is_err());
    for (schema, expected) in [
        (r#"{ "type": "x" }"#, "s.json: /type: "),
        (r#"{ "a": 1, "a": 2 }"#, "occurs twice"),
        ("{", "not accepted as JSON"),
        ("3", "a schema is an object"),
    ] {
        dir.write("s.json", schema);
        let error = dir.error(text);
        assert!(error.contains("s.json") && error.contains(expected), "{error}");
    }
}

#[test]
fn hostile_registries_are_errors() {
    let dir = Dir::new();
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    dir.error(&format!("[tools.a]\ncommand = [\"p\"]\ninputSchema = {{ enum = {deep} }}\n"));
    let deep = format!("{}1{}", "[".repeat(70), "]".repeat(70));
    let error = dir.error(&format!("[tools.a]\ncommand = [\"p\"]\ninputSchema = {{ enum = {deep} }}\n"));
    assert!(error.contains("deep") || error.contains("recursion"), "{error}");
    assert!(dir.error(&"#".repeat((1 << 20) + 1)).contains("larger than 1 MiB"));
    fs::write(dir.0.join("tools.toml"), b"\xff").unwrap();
    let source = Source { file: dir.0.join("tools.toml"), keeper: Keeper::Caller };
    assert!(Registry::load(&[source]).unwrap_err().to_string().contains("not UTF-8"));
    let directory = Source { file: dir.0.clone(), keeper: Keeper::Caller };
    assert!(matches!(Registry::load(&[directory]), Err(ToolsError::Untrusted { .. })));
}

#[test]
fn a_file_that_does_not_exist_has_no_tools() {
    let source = Source { file: "/nonexistent/tools.toml".into(), keeper: Keeper::Administrator };
    let registry = Registry::load(&[source]).unwrap();
    assert_eq!(registry.tools().count(), 0);
}

#[test]
fn tools_are_sorted_and_an_unknown_name_finds_its_neighbour() {
    let dir = Dir::new();
    let registry =
        dir.load("[tools.zed]\ncommand = [\"z\"]\n[tools.word-count]\ncommand = [\"w\"]\n").unwrap();
    assert_eq!(registry.tools().map(Tool::name).collect::<Vec<_>>(), ["word-count", "zed"]);
    assert_eq!(registry.find("zed").unwrap().name(), "zed");
    let unknown = registry.find("wordcount").unwrap_err();
    assert_eq!(unknown.to_string(), "there is no tool `wordcount`: did you mean `word-count`?");
    let hostile = registry.find(&"\n\u{1b}".repeat(100_000)).unwrap_err().to_string();
    assert!(hostile.len() < 200 && !hostile.contains('\n') && !hostile.contains('\u{1b}'));
    assert!(registry.find("ZED").is_err());
}

#[test]
fn the_administrators_entry_wins_whatever_the_order() {
    let entry = |program: &str| format!("[tools.a]\ncommand = [\"{program}\"]\n");
    let dir = Dir::new();
    let caller = dir.source("caller.toml", &(entry("c") + "[tools.b]\ncommand = [\"b\"]\n"), Keeper::Caller);
    let second = dir.source("second.toml", &entry("d"), Keeper::Caller);
    let program = |sources: &[Source]| {
        let registry = Registry::load(sources).unwrap();
        check(registry.find("a").unwrap(), "{}").unwrap().argv()[0].clone()
    };
    assert_eq!(program(&[caller.clone(), second.clone()]), "c");
    let administrator = dir.source("administrator.toml", &entry("r"), Keeper::Administrator);
    if rustix::process::geteuid().is_root() {
        assert_eq!(program(&[caller.clone(), administrator.clone()]), "r");
        assert_eq!(program(&[administrator.clone(), caller.clone()]), "r");
        assert!(Registry::load(&[caller.clone(), administrator.clone()]).unwrap().find("b").is_ok());
        fs::set_permissions(&administrator.file, fs::Permissions::from_mode(0o664)).unwrap();
    }
    // Untrusted is an error of the whole: the caller's entry must not step in.
    let refused = Registry::load(&[caller, administrator]);
    assert!(matches!(refused, Err(ToolsError::Untrusted { .. })));
}

#[test]
fn nothing_that_an_administrators_entry_names_may_be_written_by_others() {
    let dir = Dir::new();
    let administrator = |text: &str| dir.source("tools.toml", text, Keeper::Administrator);
    let link = Source { file: dir.0.join("link.toml"), keeper: Keeper::Administrator };
    symlink(administrator("").file, &link.file).unwrap();
    assert!(
        matches!(Registry::load(&[link]), Err(ToolsError::Untrusted { why, .. }) if why.contains("link"))
    );
    let text = "[tools.a]\ncommand = [\"p\"]\npolicy = \"p.toml\"\n";
    let policy = dir.write("p.toml", "isolationLevel = \"LEVEL_2\"\n");
    assert!(dir.tool(text).policy().is_ok());
    if !rustix::process::geteuid().is_root() {
        assert!(matches!(Registry::load(&[administrator(text)]), Err(ToolsError::Untrusted { .. })));
        return;
    }
    let registry = Registry::load(&[administrator(text)]).unwrap();
    assert!(registry.find("a").unwrap().policy().is_ok());
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(matches!(registry.find("a").unwrap().policy(), Err(ToolsError::Untrusted { .. })));
    fs::remove_file(&policy).unwrap();
    assert!(matches!(registry.find("a").unwrap().policy(), Err(ToolsError::Open { .. })));
    let schema = dir.write("s.json", "{}");
    fs::set_permissions(&schema, fs::Permissions::from_mode(0o666)).unwrap();
    let text = "[tools.a]\ncommand = [\"p\"]\ninputSchema = \"s.json\"\n";
    assert!(matches!(Registry::load(&[administrator(text)]), Err(ToolsError::Untrusted { .. })));
    fs::set_permissions(&dir.0, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(Registry::load(&[administrator("")]), Err(ToolsError::Untrusted { .. })));
}

const READER: &str = r##"
[tools.reader]
command = ["cat", "--", "{file}"]
[tools.reader.inputSchema]
type = "object"
properties.file = { type = "string", format = "path" }
properties.more = { type = "array", items = { "$ref" = "#/properties/file" } }
"##;

#[test]
fn declared_paths_are_validated_against_the_policy() {
    let dir = Dir::new();
    let tool = dir.tool(READER);
    fs::create_dir(dir.0.join("secret")).unwrap();
    symlink("/etc", dir.0.join("out")).unwrap();
    let mut policy = Policy::default();
    policy.filesystem.denied_paths = vec![dir.0.join("secret")];
    let check = |policy: &Policy, input: Value| tool.check(&input.to_string(), policy, &dir.0);
    // Without a rootPath the directory is the root.
    assert_eq!(check(&policy, json!({ "file": "notes" })).unwrap().argv(), ["cat", "--", "notes"]);
    assert!(check(&policy, json!({ "file": dir.0.join("notes") })).is_ok());
    assert!(check(&policy, json!({ "other": "/etc/passwd" })).is_ok());
    for (file, expected) in [
        ("secret/key", "is denied by"),
        ("/etc/passwd", "is outside"),
        ("../x", "contains `..`"),
        ("out/passwd", "by a symbolic link"),
        ("", "the path is empty"),
        ("a\0b", "NUL"),
    ] {
        let errors = check(&policy, json!({ "file": "notes", "more": ["notes", file] })).unwrap_err();
        assert_eq!((errors.len(), errors[0].path.as_str()), (1, "/more/1"), "{file:?}");
        assert!(errors[0].message.contains(expected), "{}", errors[0]);
    }
    let denied = check(&policy, json!({ "file": "secret" })).unwrap_err();
    assert!(denied[0].message.contains(&format!("`{}`", dir.0.join("secret").display())), "{}", denied[0]);
    policy.filesystem.root_path = Some(dir.0.join("secret"));
    policy.filesystem.denied_paths = Vec::new();
    assert!(check(&policy, json!({ "file": "key" })).is_ok());
    assert!(check(&policy, json!({ "file": dir.0.join("notes") })).is_err());
    // What was not expanded cannot be decided, and that is a refusal.
    policy.filesystem.denied_paths = vec!["~/.ssh".into()];
    assert!(check(&policy, json!({ "file": "key" })).unwrap_err()[0].message.contains("~/.ssh"));
}

#[test]
fn hostile_input_is_refused_before_it_is_looked_at() {
    let dir = Dir::new();
    let tool = dir.tool(READER);
    for (input, expected) in [
        (r#"{"file": "a", "file": "/etc/shadow"}"#.to_owned(), "occurs twice"),
        (format!("{{\"x\":{}{}}}", "[".repeat(64), "]".repeat(64)), "64 deep"),
        ("[".repeat(1 << 20), "64 deep"),
        (format!("{{\"file\": \"{}\"}}", "x".repeat(1 << 20)), "larger than"),
        ("{\"file\": 3}".to_owned(), "/file: "),
        ("nonsense".to_owned(), "not accepted as JSON"),
    ] {
        let errors = check(&tool, &input).unwrap_err();
        assert!(errors[0].to_string().contains(expected), "{}", errors[0]);
        assert!(serde_json::to_string(&errors).unwrap().len() < 5000);
    }
}

#[test]
fn a_refused_call_lists_what_is_wrong() {
    let dir = Dir::new();
    let errors = check(&dir.tool(WORD_COUNT), "{}").unwrap_err();
    let result = ToolResult::refused("word-count", ToolFailure::invalid_input(&errors));
    let value = serde_json::to_value(&result).unwrap();
    assert_eq!(value.pointer("/error/code").unwrap(), "INVALID_INPUT");
    assert_eq!(value.pointer("/error/details/0/path").unwrap(), "");
    assert!(value.pointer("/error/details/0/message").unwrap().as_str().unwrap().contains("text"));
    assert_eq!(value.get("exitCode"), None);
}
