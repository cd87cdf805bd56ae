//! Registered tools: what is declared is what runs, with an input that was checked, and the answer is a result
//! that says what happened.

use std::{fs, os::unix::fs::symlink, time::Duration};

use serde_json::{Value, json};

use crate::case::{Case, Lazaret, Outcome, as_everybody, has_tool};

const TOOLS: &str = r#"
[tools.say]
description = "Says what it is told"
command = ["printf", "%s|", "{text}", "{more}"]
input = "arguments"
[tools.say.inputSchema]
type = "object"
required = ["text"]
additionalProperties = false
[tools.say.inputSchema.properties]
text = { type = "string", maxLength = 1000 }
more = { type = "string" }

[tools.say-anything]
command = ["printf", "%s|", "--", "{text}"]
input = "arguments"
inputSchema = { type = "object", properties = { text = { type = "string" } } }

[tools.shell]
description = "Gets its input as an argument of a shell"
command = ["sh", "-c", "printf %s \"$1\"", "sh", "{text}"]
input = "arguments"
inputSchema = { type = "object", properties = { text = { type = "string" } } }

[tools.count]
description = "Reads its input from standard input"
command = ["wc", "-c"]

[tools.variable]
command = ["sh", "-c", "printf %s \"$LAZARET_INPUT\""]
input = "environment"

[tools.wait]
command = ["sleep", "{seconds}"]
input = "arguments"
timeQuantum = "1500ms"
inputSchema = { type = "object", required = ["seconds"], properties = { seconds = { type = "number", minimum = 0, maximum = 5 } } }

[tools.chatty]
command = ["sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x; echo end >&2"]
maxOutput = "1K"

[tools.object]
command = ["printf", "{{\"a\": [1, null]}}"]
output = "json"

[tools.broken]
command = ["printf", "{{\"a\": "]
output = "json"

[tools.fail]
command = ["sh", "-c", "printf partly; exit 3"]

[tools.nothing]
command = ["/nonexistent/program"]

[tools.escape]
command = ["sh", "-c", "printf before; if [ \"$1\" = out ]; then mount -t tmpfs none /tmp; fi; printf after", "sh", "{way}"]
input = "arguments"
inputSchema = { type = "object", properties = { way = { enum = ["in", "out"] } } }

[tools.read]
command = ["cat", "--", "{file}"]
input = "arguments"
policy = "read.toml"
inputSchema = { type = "object", required = ["file"], properties = { file = { type = "string", format = "path" } } }
"#;

const POLICY: &str = r#"
[filesystem]
readOnlyPaths = ["/usr", "/bin", "/lib", "/lib64", "/etc", "."]
deniedPaths = ["./secret"]
[environment]
allow = ["PATH", "HOME"]
"#;

fn register(case: &Case, text: &str) {
    case.file(case.root.join("config/lazaret/tools.toml"), text);
    case.file(case.root.join("config/lazaret/read.toml"), POLICY);
}

fn tool<'a>(case: &'a Case, args: &[&str]) -> Lazaret<'a> {
    case.lazaret(["tool"].iter().chain(args)).env("XDG_CONFIG_HOME", case.root.join("config"))
}

/// Runs a tool and reads its result.
fn call(case: &Case, name: &str, input: &Value) -> (Value, Outcome) {
    let outcome = tool(case, &["run", name, "--input", &input.to_string()]).go();
    (outcome.json(), outcome)
}

#[track_caller]
fn refused(case: &Case, name: &str, input: &Value, code: &str) -> Value {
    let before = case.events().len();
    let (result, outcome) = call(case, name, input);
    outcome.exits(125);
    assert_eq!((&result["success"], &result["error"]["code"]), (&json!(false), &json!(code)), "{result}");
    assert!(result["sandboxId"].is_null() && result["exitCode"].is_null(), "{result}");
    assert!(!result["error"]["message"].as_str().unwrap().is_empty(), "{result}");
    assert_eq!(case.events().len(), before, "something was started: {result}");
    result
}

#[track_caller]
fn answers(case: &Case, name: &str, input: &Value, output: &Value) {
    let (result, outcome) = call(case, name, input);
    outcome.exits(0);
    assert_eq!((&result["success"], &result["output"]), (&json!(true), output), "{result}");
}

#[test]
fn registered_tools_are_listed() {
    as_everybody(|case| {
        register(case, TOOLS);
        let list = tool(case, &["list", "--json"]).go().exits(0).json();
        let names: Vec<&str> =
            list.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert!(names.is_sorted() && names.len() == 13, "{names:?}");
        let say = list.as_array().unwrap().iter().find(|row| row["name"] == "say").unwrap();
        assert_eq!((&say["state"], &say["description"]), (&json!("ready"), &json!("Says what it is told")));
        let text = tool(case, &["list"]).go().exits(0).out();
        assert!(text.lines().any(|line| line.starts_with("say ") && line.contains("ready")), "{text}");
        // Without a registry there is nothing to list.
        assert_eq!(case.lazaret(["tool", "list", "--json"]).go().exits(0).json(), json!([]));
    });
}

#[test]
fn a_tool_with_a_good_input_answers_with_a_result() {
    as_everybody(|case| {
        register(case, TOOLS);
        let (result, outcome) = call(case, "say", &json!({ "text": "one two", "more": "three" }));
        outcome.exits(0).tells_nothing();
        assert_eq!(result["tool"], json!("say"));
        assert_eq!(result["output"], json!("one two|three|"));
        assert_eq!((&result["success"], &result["exitCode"]), (&json!(true), &json!(0)));
        assert_eq!((&result["truncated"], &result["violations"]), (&json!(false), &json!([])));
        assert!(result["error"].is_null(), "{result}");
        assert_eq!(result["sandboxId"], case.events_of("SANDBOX_CREATED")[0]["sandboxId"]);
        // What is left out is left out as an argument.
        answers(case, "say", &json!({ "text": "one" }), &json!("one|"));
    });
}

#[test]
fn an_input_reaches_the_tool_the_way_that_is_declared() {
    as_everybody(|case| {
        register(case, TOOLS);
        answers(case, "count", &json!({ "a": 1 }), &json!("7\n"));
        answers(case, "variable", &json!({ "a": 1 }), &json!("{\"a\":1}"));
        let file = case.file("input.json", "{\"a\":1}");
        let from_file = format!("@{}", file.display());
        let result = tool(case, &["run", "variable", "--input", &from_file]).go().exits(0).json();
        assert_eq!(result["output"], json!("{\"a\":1}"));
        let result = tool(case, &["run", "variable", "--input", "-"]).input("{\"b\":2}").go().exits(0).json();
        assert_eq!(result["output"], json!("{\"b\":2}"));
        let result = tool(case, &["run", "variable"]).go().exits(0).json();
        assert_eq!(result["output"], json!("{}"));
    });
}

#[test]
fn an_input_that_violates_the_schema_starts_nothing() {
    as_everybody(|case| {
        register(case, TOOLS);
        for (input, place) in [
            (json!({}), ""),
            (json!({ "text": 1 }), "/text"),
            (json!({ "text": "x", "other": "y" }), ""),
            (json!({ "text": "x".repeat(1001) }), "/text"),
            (json!([]), ""),
            (json!("text"), ""),
        ] {
            let result = refused(case, "say", &input, "INVALID_INPUT");
            let details = result["error"]["details"].as_array().unwrap();
            assert!(details.iter().any(|error| error["path"] == place), "{place} in {result}");
        }
        for text in ["", "{", "{\"text\":\"a\",\"text\":\"b\"}", "{\"text\":\"a\"} x"] {
            let outcome = tool(case, &["run", "say", "--input", text]).go().exits(125);
            assert_eq!(outcome.json()["error"]["code"], json!("INVALID_INPUT"), "{outcome:?}");
        }
        case.assert_nothing_started();
    });
}

#[test]
fn an_unknown_tool_is_refused_with_a_suggestion() {
    as_everybody(|case| {
        register(case, TOOLS);
        let result = refused(case, "chaty", &json!({}), "UNKNOWN_TOOL");
        assert!(result["error"]["message"].as_str().unwrap().contains("did you mean `chatty`"), "{result}");
        refused(case, "../say", &json!({}), "UNKNOWN_TOOL");
        refused(case, "\u{1b}[31m", &json!({}), "UNKNOWN_TOOL");
    });
}

#[test]
fn a_placeholder_is_one_argument_whatever_is_in_it() {
    as_everybody(|case| {
        register(case, TOOLS);
        let victim = case.file("victim", "x");
        for text in [
            "; rm -rf victim",
            "$(rm victim)",
            "`rm victim`",
            "' ; rm victim ; '",
            "\" ; rm victim ; \"",
            "a\nrm victim\nb",
            "{more}",
            "%s%n",
            "a  b\t*",
            "| rm victim &",
            "\u{202e}ü",
        ] {
            answers(case, "say", &json!({ "text": text }), &json!(format!("{text}|")));
            answers(case, "shell", &json!({ "text": text }), &json!(text));
        }
        assert!(victim.exists());
        let result = refused(case, "say", &json!({ "text": "a\u{0}b" }), "INVALID_INPUT");
        assert_eq!(result["error"]["details"][0]["path"], json!("/text"), "{result}");
    });
}

#[test]
fn a_value_does_not_become_an_option() {
    as_everybody(|case| {
        register(case, TOOLS);
        for text in ["-n", "--version", "-"] {
            if text != "-" {
                let result = refused(case, "say", &json!({ "text": text }), "INVALID_INPUT");
                assert_eq!(result["error"]["details"][0]["path"], json!("/text"), "{result}");
            }
            let (result, _) = call(case, "say-anything", &json!({ "text": text }));
            let output = result["output"].as_str().unwrap();
            assert!(result["success"] == json!(true) && output.contains(text), "{result}");
        }
    });
}

#[test]
fn the_answer_comes_at_a_multiple_of_the_quantum() {
    as_everybody(|case| {
        register(case, TOOLS);
        let took = |seconds: f64| call(case, "wait", &json!({ "seconds": seconds })).1.exits(0).took;
        let (short, long) = (took(0.0), took(0.9));
        eprintln!("{short:?} and {long:?}");
        for took in [short, long] {
            // Measured from outside, where it began a little later.
            assert!(took >= Duration::from_millis(1400) && took < Duration::from_millis(2500), "{took:?}");
        }
        assert!(short.abs_diff(long) < Duration::from_millis(400), "{short:?}, {long:?}");
        // An input that is refused answers no sooner.
        let outcome = tool(case, &["run", "wait", "--input", "{\"seconds\":9}"]).go().exits(125);
        assert!(outcome.took >= Duration::from_millis(1400), "{outcome:?}");
    });
}

#[test]
fn the_answer_does_not_tell_the_time_that_was_padded_away() {
    as_everybody(|case| {
        register(case, TOOLS);
        let told = |seconds: f64| {
            call(case, "wait", &json!({ "seconds": seconds })).0["durationMs"].as_u64().unwrap()
        };
        let (short, long) = (told(0.0), told(0.9));
        assert!(short.abs_diff(long) < 400, "durationMs {short} and {long}");
    });
}

#[test]
fn output_beyond_the_limit_is_cut_off_and_it_is_said() {
    as_everybody(|case| {
        register(case, TOOLS);
        let (result, outcome) = call(case, "chatty", &json!({}));
        outcome.exits(0).tells("end");
        assert_eq!((&result["truncated"], &result["success"]), (&json!(true), &json!(true)), "{result}");
        assert_eq!(result["output"], json!("x".repeat(1024)));
    });
}

#[test]
fn output_that_is_declared_as_json_is_a_value_or_an_error() {
    as_everybody(|case| {
        register(case, TOOLS);
        answers(case, "object", &json!({}), &json!({ "a": [1, null] }));
        let (result, outcome) = call(case, "broken", &json!({}));
        outcome.exits(1);
        assert_eq!((&result["success"], &result["error"]["code"]), (&json!(false), &json!("BAD_OUTPUT")));
        assert_eq!(result["exitCode"], json!(0));
    });
}

#[test]
fn a_tool_that_fails_says_how() {
    as_everybody(|case| {
        register(case, TOOLS);
        let (result, outcome) = call(case, "fail", &json!({}));
        outcome.exits(3);
        assert_eq!((&result["success"], &result["exitCode"]), (&json!(false), &json!(3)), "{result}");
        assert_eq!((&result["error"]["code"], &result["output"]), (&json!("FAILED"), &json!("partly")));
        let (result, outcome) = call(case, "nothing", &json!({}));
        assert_eq!(result["error"]["code"], json!("NOT_STARTED"), "{result}");
        assert!(outcome.code() != 0 && result["exitCode"].is_null(), "{result}");
    });
}

#[test]
fn a_tool_that_tries_to_escape_is_ended_and_barred() {
    if !has_tool("mount") {
        return;
    }
    as_everybody(|case| {
        register(case, TOOLS);
        answers(case, "escape", &json!({ "way": "in" }), &json!("beforeafter"));
        let (result, outcome) = call(case, "escape", &json!({ "way": "out" }));
        outcome.exits(137);
        assert_eq!(result["error"]["code"], json!("ESCAPE_ATTEMPT"), "{result}");
        assert_eq!((&result["success"], &result["output"]), (&json!(false), &json!("before")));
        let mount = result["violations"].as_array().unwrap().iter().find(|v| v["syscall"]["name"] == "mount");
        assert_eq!(mount.unwrap()["severity"], json!("CRITICAL"));
        refused(case, "escape", &json!({ "way": "in" }), "QUARANTINED");
        let list = tool(case, &["list", "--json"]).go().exits(0).json();
        let row = list.as_array().unwrap().iter().find(|row| row["name"] == "escape").unwrap();
        assert_eq!(row["state"], json!("quarantined"), "{row}");
        answers(case, "say", &json!({ "text": "others run" }), &json!("others run|"));
        tool(case, &["release", "escape", "--reason", "a test"]).go().exits(0);
        answers(case, "escape", &json!({ "way": "in" }), &json!("beforeafter"));
    });
}

#[test]
fn a_tool_can_be_barred_by_hand() {
    as_everybody(|case| {
        register(case, TOOLS);
        tool(case, &["quarantine", "say", "--reason", "not sure"]).go().exits(0);
        let result = refused(case, "say", &json!({ "text": "x" }), "QUARANTINED");
        assert!(result["error"]["message"].as_str().unwrap().contains("not sure"), "{result}");
        tool(case, &["release", "say", "--reason", "sure"]).go().exits(0);
        answers(case, "say", &json!({ "text": "x" }), &json!("x|"));
    });
}

#[test]
fn a_path_in_the_input_is_checked_before_anything_starts() {
    as_everybody(|case| {
        register(case, TOOLS);
        case.file("good/file", "content");
        case.file("secret", "s");
        case.file(case.root.join("outside"), "o");
        symlink(case.root.join("outside"), case.work.join("link")).unwrap();
        symlink("secret", case.work.join("other-name")).unwrap();
        answers(case, "read", &json!({ "file": "good/file" }), &json!("content"));
        answers(case, "read", &json!({ "file": "./good/./file" }), &json!("content"));
        let full = case.work.join("good/file");
        answers(case, "read", &json!({ "file": full.to_str().unwrap() }), &json!("content"));
        let outside = case.root.join("outside");
        for path in [
            "../outside",
            "good/../good/file",
            "good/../../outside",
            outside.to_str().unwrap(),
            "/etc/../etc/shadow",
            "secret",
            "./good/../secret",
            "link",
            "other-name",
        ] {
            let result = refused(case, "read", &json!({ "file": path }), "INVALID_INPUT");
            assert_eq!(result["error"]["details"][0]["path"], json!("/file"), "{path}: {result}");
        }
    });
}

#[test]
fn a_registry_with_a_fault_is_refused_as_a_whole() {
    as_everybody(|case| {
        for (text, tells) in [
            ("[tools.a]\n", "no command"),
            ("[tools.a]\ncommand = [\"true\"]\ntimeQuantun = \"1s\"\n", "timeQuantum"),
            ("[tools.a]\ncommand = \"true\"\n", "not a list"),
            ("[tools.a]\ncommand = [\"{program}\"]\n", "program"),
            ("[tools.\"a b\"]\ncommand = [\"true\"]\n", "name of a tool"),
            ("[tools.a]\ncommand = [\"true\"]\npolicy = \"x\"\nprofile = \"strict\"\n", "both"),
        ] {
            register(case, text);
            tool(case, &["run", "a"]).go().exits(125).tells("tools.toml").tells(tells);
        }
        case.assert_nothing_started();
        assert!(fs::read_dir(&case.work).unwrap().next().is_none());
    });
}
