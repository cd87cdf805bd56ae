use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::{
    call::{Hints, Tool},
    verdict::{Decision, Rule, Verdict},
};

/// A session with its surroundings in a directory of its own.
pub(super) struct World {
    pub root: PathBuf,
    pub surroundings: Surroundings,
}

impl World {
    pub fn new(name: &str) -> World {
        let root = std::env::temp_dir().join(format!("lazaret-gate-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for directory in
            ["home/.config/lazaret", "state/sessions/1/sandbox/sub", "other", "state/sessions/1/escalations"]
        {
            fs::create_dir_all(root.join(directory)).expect("a directory can be made");
        }
        let root = root.canonicalize().expect("it exists");
        fs::write(root.join("home/.config/lazaret/policy.cedar"), "permit").expect("a file can be written");
        fs::write(root.join("other/file"), "x").expect("a file can be written");
        fs::write(root.join("state/audit.jsonl"), "x").expect("a file can be written");
        let session = root.join("state/sessions/1/sandbox");
        fs::write(session.join("a.txt"), "x").expect("a file can be written");
        let surroundings = Surroundings::new(&session, &session)
            .and_then(|it| it.with_home(&root.join("home")))
            .and_then(|it| it.protect(&root.join("home/.config/lazaret"), "the configuration"))
            .and_then(|it| it.protect(&root.join("state"), "the state of sessions"))
            .and_then(|it| it.protect(&session.join(".env"), "a secret"))
            .expect("the places can be resolved");
        World { root, surroundings }
    }

    pub fn session(&self) -> PathBuf {
        self.root.join("state/sessions/1/sandbox")
    }

    pub fn call(&self, tool: &str, arguments: Value) -> Result<Facts, Refusal> {
        let tool = tool_named(tool);
        let arguments = arguments.as_object().expect("arguments are an object").clone();
        classify(&Call { tool: &tool, arguments: &arguments }, &self.surroundings)
    }

    #[track_caller]
    fn facts(&self, tool: &str, arguments: Value) -> Facts {
        self.call(tool, arguments).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    /// The paths, relative to this world where they are in it.
    #[track_caller]
    fn paths(&self, tool: &str, arguments: Value) -> Vec<(String, Place, Access)> {
        let facts = self.facts(tool, arguments);
        let short = |path: &Path| path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        facts.paths.iter().map(|fact| (short(&fact.resolved), fact.place, fact.access)).collect()
    }

    #[track_caller]
    fn rule(&self, tool: &str, arguments: Value) -> String {
        let verdict = Verdict::from(self.call(tool, arguments).expect_err("is refused"));
        assert_eq!(verdict.decision, Decision::Deny);
        verdict.rule.0
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

pub(super) fn tool_named(name: &str) -> Tool {
    Tool {
        server: "test".to_owned(),
        name: name.to_owned(),
        description: String::new(),
        input_schema: Value::Null,
        hints: Hints::default(),
    }
}

fn at(path: &str, place: Place, access: Access) -> (String, Place, Access) {
    (path.to_owned(), place, access)
}

const SANDBOX: &str = "state/sessions/1/sandbox";
use Access::{Delete, Read, Write};
use Place::{Outside, Session};

#[test]
fn a_path_in_the_session_and_one_outside() {
    let world = World::new("plain");
    let inside = format!("{SANDBOX}/a.txt");
    assert_eq!(world.paths("read_file", json!({"path": "a.txt"})), [at(&inside, Session, Read)]);
    assert_eq!(world.paths("read_file", json!({"path": "sub/../a.txt"})), [at(&inside, Session, Read)]);
    assert_eq!(
        world.paths("write_file", json!({"path": world.root.join("other/file")})),
        [at("other/file", Outside, Write)]
    );
    assert_eq!(world.paths("read_file", json!({"path": "~/notes"})), [at("home/notes", Outside, Read)]);
    assert_eq!(world.paths("read_file", json!({"path": "/"})), [at("/", Outside, Read)]);
    let new = format!("{SANDBOX}/new/deep/file");
    assert_eq!(world.paths("write_file", json!({"path": "./new//deep/./file/"})), [at(&new, Session, Write)]);
}

#[test]
fn a_neighbour_with_the_same_beginning_is_outside() {
    let world = World::new("neighbour");
    let evil = format!("{}-evil/x", world.session().display());
    assert_eq!(world.rule("read_file", json!({"path": evil})), Rule::PROTECTED_PATH);
    let surroundings =
        Surroundings::new(&world.root.join("other"), &world.root.join("other")).expect("exists");
    let tool = tool_named("read_file");
    let arguments = json!({"path": world.root.join("other-evil")});
    let call = Call { tool: &tool, arguments: arguments.as_object().expect("is an object") };
    assert_eq!(classify(&call, &surroundings).expect("is no refusal").paths[0].place, Outside);
}

#[test]
fn links_are_followed_also_to_what_does_not_exist_yet() {
    let world = World::new("links");
    let session = world.session();
    symlink(world.root.join("other"), session.join("out")).expect("a link can be made");
    symlink(world.root.join("other/new"), session.join("dangling")).expect("a link can be made");
    symlink("sub", session.join("in")).expect("a link can be made");
    assert_eq!(world.paths("read_file", json!({"path": "out/file"})), [at("other/file", Outside, Read)]);
    assert_eq!(world.paths("write_file", json!({"path": "dangling"})), [at("other/new", Outside, Write)]);
    assert_eq!(world.paths("write_file", json!({"path": "out/x/y"})), [at("other/x/y", Outside, Write)]);
    // After a link `..` leads elsewhere for the kernel, and back for programs that tidy up first: both count.
    assert_eq!(
        world.paths("read_file", json!({"path": "out/../home/x"})),
        [at("home/x", Outside, Read), at(&format!("{SANDBOX}/home/x"), Session, Read)]
    );
    // Also where the name says nothing.
    assert_eq!(world.paths("read_file", json!({"thing": "out/file"})), [at("other/file", Outside, Read)]);
    assert_eq!(
        world.paths("read_file", json!({"thing": "out/nothing"})),
        [at("other/nothing", Outside, Read)]
    );
    assert_eq!(world.paths("read_file", json!({"thing": "dangling"})), [at("other/new", Outside, Read)]);
}

#[test]
fn what_cannot_be_resolved_is_refused() {
    let world = World::new("undecidable");
    let session = world.session();
    symlink("loop", session.join("loop")).expect("a link can be made");
    symlink("/proc/self/root", session.join("magic")).expect("a link can be made");
    for path in [
        "loop",
        "loop/x",
        "magic/etc/passwd",
        "/proc/self/root/etc",
        "/proc/1/root/etc",
        "/proc/999999999/fd/3",
        "/proc/thread-self/cwd",
        "/dev/fd/3",
        "/dev/stdin",
        "a\0b",
        "/a\0b",
        "~root/x",
        "~nobody",
        "$HOME/x",
        "${HOME}",
        "file://host/etc/passwd",
        "file:///a%00b",
    ] {
        assert_eq!(world.rule("read_file", json!({"path": path})), Rule::UNDECIDABLE, "{path:?}");
    }
    for path in ["x".repeat(5000), format!("a/{}/b", "x".repeat(300)), "../".repeat(2000)] {
        assert_eq!(world.rule("read_file", json!({"path": path})), Rule::UNDECIDABLE);
    }
}

#[test]
fn protected_places_are_denied_wherever_they_lie() {
    let world = World::new("protected");
    let session = world.session();
    let config = world.root.join("home/.config/lazaret");
    symlink(&config, session.join("link")).expect("a link can be made");
    symlink(config.join("new.cedar"), session.join("dangling")).expect("a link can be made");
    symlink(session.join("a.txt"), config.join("back")).expect("a link can be made");
    fs::hard_link(config.join("policy.cedar"), session.join("hard")).expect("a link can be made");
    fs::hard_link(world.root.join("state/audit.jsonl"), session.join("hard2")).expect("a link can be made");
    for (tool, path) in [
        ("read_file", "~/.config/lazaret/policy.cedar"),
        ("read_file", "~/.config/../.config/lazaret"),
        ("write_file", "~/.config/lazaret/x/y"),
        ("read_file", "link/policy.cedar"),
        ("write_file", "dangling"),
        ("read_file", "hard"),
        ("read_file", "hard2"),
        ("read_file", ".env"),
        ("read_file", "sub/../.env"),
        ("read_file", "../escalations/x"),
        ("read_file", "../../../audit.jsonl"),
        ("delete_file", "~/.config/lazaret/back"),
        ("delete_file", "~/.config"),
        ("write_file", "~/.config"),
        ("delete_file", "~"),
        ("delete_file", "."),
        ("something", "/"),
    ] {
        assert_eq!(world.rule(tool, json!({"path": path})), Rule::PROTECTED_PATH, "{tool} {path}");
    }
    assert_eq!(
        world.rule("move_file", json!({"source": "~/.config", "destination": "x"})),
        Rule::PROTECTED_PATH
    );
    // The session directory is inside a protected place, and nearer.
    assert_eq!(world.paths("write_file", json!({"path": "."})), [at(SANDBOX, Session, Write)]);
    assert_eq!(
        world.paths("list_directory", json!({"path": "~/.config"})),
        [at("home/.config", Outside, Read)]
    );
    let refusal = world.call("read_file", json!({"path": "hard"})).expect_err("is refused");
    assert_eq!(refusal.facts.paths[0].protected.as_deref(), Some("the configuration"));
    assert!(refusal.to_string().contains("`path`") && refusal.to_string().contains("the configuration"));
}

#[test]
fn a_protected_file_that_was_replaced_is_still_known_by_its_other_names() {
    let world = World::new("replaced");
    let (session, file) = (world.session(), world.root.join("other/file"));
    let surroundings = world.surroundings.clone().protect(&file, "a file").expect("exists");
    fs::write(world.root.join("other/next"), "y").expect("a file can be written");
    fs::rename(world.root.join("other/next"), &file).expect("a file can be moved");
    fs::hard_link(&file, session.join("hard")).expect("a link can be made");
    let tool = tool_named("read_file");
    let arguments = json!({"path": "hard"});
    let call = Call { tool: &tool, arguments: arguments.as_object().expect("is an object") };
    assert_eq!(classify(&call, &surroundings).expect_err("is refused").fault.rule(), Rule::PROTECTED_PATH);
}

#[test]
fn paths_are_found_wherever_they_stand() {
    let world = World::new("anywhere");
    let outside = world.root.join("other/file");
    let outside = outside.to_str().expect("is text");
    let found = [at("other/file", Outside, Read)];
    for arguments in [
        json!({"paths": [outside]}),
        json!({"files": [{"name": outside}]}),
        json!({"options": {"deep": {"x": outside}}}),
        json!({"files": {outside: "content"}}),
        json!({"anything": outside}),
        json!({"content": outside}),
        json!({"uri": format!("file://{outside}")}),
        json!({"x": format!("file://localhost{outside}")}),
        json!({"x": format!("--file={outside}")}),
        json!({"path": format!("  {outside}")}),
    ] {
        let paths = world.paths("read_file", arguments.clone());
        assert!(paths.contains(&found[0]), "{arguments}: {paths:?}");
    }
    let list = json!({"paths": format!("a.txt,{outside}")});
    assert!(world.paths("read_file", list).contains(&found[0]));
    // Relative to another argument.
    let under = json!({"cwd": world.root.join("other"), "file": "file"});
    assert!(world.paths("read_file", under).contains(&found[0]));
    let under = json!({"path": world.root.join("home/.config"), "pattern": "../.config/lazaret/**"});
    assert_eq!(world.rule("search_files", under), Rule::PROTECTED_PATH);
    let under = json!({"path": world.root.join("home/.config"), "name": "lazaret"});
    assert_eq!(world.rule("search_files", under), Rule::PROTECTED_PATH);
    let key = json!({"files": {"~/.config/lazaret/x": 1}});
    assert_eq!(world.rule("read_file", key), Rule::PROTECTED_PATH);
}

#[test]
fn text_that_only_looks_like_a_path_is_left_alone() {
    let world = World::new("text");
    for arguments in [
        json!({"content": "/* comment */ body {}"}),
        json!({"content": "/help"}),
        json!({"text": "and/or"}),
        json!({"message": "see /etc/passwd for more"}),
        json!({"branch": "feature/x"}),
        json!({"mime": "text/plain"}),
        json!({"package": "@scope/pkg"}),
        json!({"timezone": "Europe/Berlin"}),
        json!({"regex": "^/api/.*$"}),
        json!({"query": "~100 users"}),
        json!({"note": "a\u{0}b"}),
        json!({"content": "x".repeat(100_000)}),
        json!({"x": "x ".repeat(100_000)}),
        json!({"x": "std::vec"}),
        json!({"command": "cat /etc/passwd"}),
        json!({"pattern": "**/*.rs"}),
        json!({"name": "someone"}),
        json!({"uri": "memo:///insights"}),
    ] {
        let facts = world.facts("read_file", arguments.clone());
        assert!(facts.paths.is_empty() && facts.hosts.is_empty(), "{arguments}: {facts:?}");
    }
}

#[test]
fn patterns_are_about_the_directory_they_begin_in() {
    let world = World::new("patterns");
    let pattern = |text: &str| world.paths("search_files", json!({"pattern": text}));
    assert_eq!(pattern("/etc/**/*.conf"), [at("/etc", Outside, Read)]);
    assert_eq!(pattern("~/.con*/x"), [at("home", Outside, Read)]);
    assert_eq!(pattern("*/../x/*"), [at(SANDBOX, Session, Read)]);
    assert_eq!(pattern("**/*.rs"), []);
    for up in ["*/../../*", "**/../x", "../*"] {
        assert_eq!(world.rule("search_files", json!({"pattern": up})), Rule::PROTECTED_PATH, "{up}");
    }
}

#[test]
fn access_follows_the_words() {
    let world = World::new("access");
    let session = |name: &str, access| at(&format!("{SANDBOX}/{name}"), Session, access);
    for (tool, access) in [
        ("read_file", Read),
        ("get_file_info", Read),
        ("listDirectory", Read),
        ("directory_tree", Read),
        ("git_status", Read),
        ("write_file", Write),
        ("edit_file", Write),
        ("frobnicate", Write),
        ("git_commit", Write),
        ("delete_file", Delete),
        ("get_and_remove", Delete),
        ("deletefile", Delete),
    ] {
        assert_eq!(world.paths(tool, json!({"path": "x"})), [session("x", access)], "{tool}");
    }
    let two = json!({"source": "x", "destination": "y"});
    assert_eq!(world.paths("move_file", two.clone()), [session("x", Delete), session("y", Write)]);
    assert_eq!(world.paths("copy_file", two), [session("x", Read), session("y", Write)]);
    let chosen = json!({"action": "delete", "path": "x"});
    assert!(world.paths("file", chosen).contains(&session("x", Delete)));
    assert_eq!(world.paths("get_page", json!({"output_path": "x"})), [session("x", Write)]);
}

#[test]
fn hints_only_make_it_stricter() {
    let world = World::new("hints");
    let access = |name: &str, hints: Hints| {
        let tool = Tool { hints, ..tool_named(name) };
        let arguments = json!({"path": "x"});
        let call = Call { tool: &tool, arguments: arguments.as_object().expect("is an object") };
        classify(&call, &world.surroundings).expect("is no refusal").paths[0].access
    };
    let read_only = Hints { read_only_hint: Some(true), ..Hints::default() };
    assert_eq!(access("frobnicate", read_only), Write);
    assert_eq!(access("delete", read_only), Delete);
    let destructive = Hints { destructive_hint: Some(true), ..Hints::default() };
    assert_eq!(access("read_file", destructive), Write);
    assert_eq!(access("write_file", destructive), Write);
    assert_eq!(access("frobnicate", destructive), Delete);
    let not_read_only = Hints { read_only_hint: Some(false), ..Hints::default() };
    assert_eq!(access("read_file", not_read_only), Write);
}

#[test]
fn a_url_is_a_host_and_not_a_path() {
    let world = World::new("url");
    let facts = world.facts("fetch", json!({"url": "https://user:pw@Example.com:8443/a/b"}));
    assert!(facts.paths.is_empty());
    let host = &facts.hosts[0];
    assert_eq!((host.argument.as_str(), host.host.as_str(), host.port), ("/url", "example.com", Some(8443)));
    assert_eq!(host.given, "https://Example.com:8443/a/b");
    assert_eq!(world.rule("fetch", json!({"url": "https://a\\@b/"})), Rule::UNDECIDABLE);
    // Who tidies it up as a path climbs out.
    let facts =
        world.facts("read_file", json!({"path": "https://x/../../../../../../../../../../etc/passwd"}));
    assert!(facts.paths.iter().any(|fact| fact.resolved == Path::new("/etc/passwd")));
}

#[test]
fn formats_of_the_schema_add_to_what_names_say() {
    let world = World::new("format");
    let tool = Tool {
        input_schema: json!({"type": "object", "properties": {
            "content": {"type": "string", "format": "path"},
            "x": {"anyOf": [{"type": "string", "format": "hostname"}, {"type": "null"}]},
        }}),
        ..tool_named("read_file")
    };
    let arguments = json!({"content": "new", "x": "Example.com"});
    let call = Call { tool: &tool, arguments: arguments.as_object().expect("is an object") };
    let facts = classify(&call, &world.surroundings).expect("is no refusal");
    assert_eq!((facts.paths.len(), facts.hosts[0].host.as_str()), (1, "example.com"));
}

#[test]
fn a_schema_is_checked_before_anything_is_looked_at() {
    let world = World::new("schema");
    let tool = Tool {
        input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        ..tool_named("read_file")
    };
    let arguments = json!({"path": "~/.config/lazaret", "extra": 1});
    let call = Call { tool: &tool, arguments: arguments.as_object().expect("is an object") };
    let verdict = Verdict::from(classify(&call, &world.surroundings).expect_err("is refused"));
    assert_eq!(verdict.rule.0, Rule::UNKNOWN_ARGUMENT);
    assert_eq!(verdict.reason, "Unknown argument(s): extra. The tool knows: path.");
}

#[test]
fn too_many_files_in_one_call_are_refused() {
    let world = World::new("many");
    let many: Vec<String> = (0..MOST_FACTS + 1).map(|index| format!("f{index}")).collect();
    assert_eq!(world.rule("read_files", json!({"paths": many})), Rule::UNDECIDABLE);
}

fn with_schema(world: &World, schema: Value, arguments: Value) -> Result<Facts, Refusal> {
    let tool = Tool { input_schema: schema, ..tool_named("read_file") };
    let call = Call { tool: &tool, arguments: arguments.as_object().expect("is an object") };
    classify(&call, &world.surroundings)
}

#[test]
fn many_elements_with_many_alternatives_are_refused_before_they_take_long() {
    let world = World::new("steps");
    let alternatives: Vec<Value> =
        (0..450).map(|index| json!({"type": "string", "title": index.to_string()})).collect();
    let schema = json!({"type": "object", "properties": {"x": {"items": {"anyOf": alternatives}}}});
    let begun = std::time::Instant::now();
    let refusal = with_schema(&world, schema.clone(), json!({"x": vec!["word"; 20_000]}));
    let refusal = refusal.expect_err("is refused");
    assert_eq!((refusal.fault.rule(), *refusal.fault), (Rule::UNDECIDABLE, Fault::TooLarge));
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    assert!(with_schema(&world, schema, json!({"x": vec!["word"; 100]})).is_ok());
    // Large, but plain.
    let schema = json!({"type": "object", "properties": {"x": {"items": {"type": "number"}}}});
    assert!(with_schema(&world, schema, json!({"x": vec![1; 50_000]})).is_ok());
    assert_eq!(world.rule("read_file", json!({"x": vec!["word"; 20_001]})), Rule::UNDECIDABLE);
}

#[test]
fn long_lists_of_names_are_refused_before_they_take_long() {
    let world = World::new("looks");
    let list: String = (0..700).map(|index| format!("{index:x} ")).collect();
    let begun = std::time::Instant::now();
    let refusal = world.call("read_file", json!({"target": vec![list; 2000]})).expect_err("is refused");
    assert_eq!(refusal.fault.rule(), Rule::UNDECIDABLE);
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

#[test]
fn patterns_lead_through_links_and_braces() {
    let world = World::new("globs");
    symlink("/etc", world.session().join("link")).expect("a link can be made");
    let outside = |name: &str, text: &str, path: &str| {
        let paths = world.paths("search_files", json!({name: text}));
        assert!(paths.contains(&at(path, Outside, Read)), "{text}: {paths:?}");
    };
    outside("pattern", "link/*", "/etc");
    outside("glob", "./link/**/*.conf", "/etc");
    outside("include", "!link/*", "/etc");
    outside("pattern", "lin?/*", "/etc");
    outside("pattern", "./*/passwd", "/etc");
    outside("pattern", "l[i]nk/{a,b}*", "/etc");
    assert_eq!(world.paths("search_files", json!({"pattern": "s*/passwd"})), []);
    outside("pattern", "{/etc,/root}/*", "/etc");
    outside("pattern", "{link,sub}/*", "/etc");
    outside("path", "{/etc,x}/*", "/etc");
    let up = format!("{}etc/passwd", "{..,x}/".repeat(2));
    assert_eq!(world.rule("search_files", json!({"pattern": up})), Rule::PROTECTED_PATH);
    for text in ["@(/etc)/*", "+(../)etc/*", &"{a,b}/".repeat(12)] {
        assert_eq!(world.rule("search_files", json!({"pattern": text})), Rule::UNDECIDABLE, "{text}");
    }
    assert_eq!(world.paths("search_files", json!({"pattern": "{src,lib}/**/*.{rs,toml}"})), []);
    assert_eq!(world.paths("search_files", json!({"pattern": "\\d{2}/\\w+(a|b)"})), []);
}

#[test]
fn a_url_in_an_argument_for_paths_is_tried_as_a_path() {
    let world = World::new("url-path");
    let argument = json!({"path": "https://good.example/passwd"});
    assert_eq!(world.paths("read_file", argument.clone()), []);
    fs::create_dir(world.session().join("https:")).expect("a directory can be made");
    let new = at(&format!("{SANDBOX}/https:/good.example/passwd"), Session, Write);
    assert_eq!(world.paths("write_file", argument.clone()), [new]);
    symlink("/etc", world.session().join("https:/good.example")).expect("a link can be made");
    for name in ["path", "x"] {
        let facts = world.facts("read_file", json!({name: "https://good.example/passwd"}));
        assert_eq!(facts.paths[0].resolved, Path::new("/etc/passwd"));
        assert_eq!(facts.hosts[0].host, "good.example");
    }
    let both = world.facts("read_file", json!({"path": "git@good.example:x"}));
    assert_eq!((both.paths.len(), both.hosts.len()), (1, 1));
}

#[test]
fn relative_paths_of_a_list_in_one_text_count_when_they_are_there() {
    let world = World::new("lists");
    symlink("/etc", world.session().join("link")).expect("a link can be made");
    for text in [
        "a.txt,link/passwd",
        "a.txt link/passwd",
        "a.txt\nlink/passwd",
        "a.txt;link/passwd",
        "a.txt:link/passwd",
        "link/passwd a.txt",
        "[\"link/passwd\"]",
        "[\"li\\u006ek/passwd\"]",
        "['a.txt', 'link/passwd']",
        "[link/passwd]",
        "a.txt,/etc/passwd",
        "https://good.example/x link/passwd",
    ] {
        let paths = world.paths("read_files", json!({"paths": text}));
        assert!(paths.contains(&at("/etc/passwd", Outside, Read)), "{text}: {paths:?}");
    }
    assert!(world.paths("read_files", json!({"paths": "a ~/x"})).contains(&at("home/x", Outside, Read)));
    assert_eq!(world.rule("read_files", json!({"paths": "a.txt ~root/x"})), Rule::UNDECIDABLE);
    for text in ["app/[id]/page.tsx", "app/(..)photo/page.tsx", "my file.txt"] {
        let paths = world.paths("read_files", json!({"paths": text}));
        assert!(paths.iter().all(|(_, place, _)| *place == Session), "{text}: {paths:?}");
    }
}

#[test]
fn names_that_a_pattern_of_the_schema_admits_are_data() {
    let world = World::new("keys");
    let outside = world.root.join("other/file");
    let outside = outside.to_str().expect("is text");
    for members in [
        json!({"patternProperties": {"^.*$": {"type": "string"}}}),
        json!({"additionalProperties": {"type": "string"}}),
    ] {
        let schema = json!({"type": "object", "properties": {"files": members}});
        let facts = with_schema(&world, schema, json!({"files": {outside: "x"}})).expect("is no refusal");
        assert_eq!(facts.paths.first().map(|fact| fact.resolved.as_path()), Some(Path::new(outside)));
    }
    let schema = json!({"type": "object", "patternProperties": {".*": {"type": "string"}}});
    let facts = with_schema(&world, schema, json!({outside: "x"})).expect("is no refusal");
    assert!(facts.paths.iter().any(|fact| fact.resolved == Path::new(outside)), "{facts:?}");
    let schema = json!({"type": "object", "properties": {"a.txt": {"type": "string"}}});
    let facts = with_schema(&world, schema, json!({"a.txt": "x"})).expect("is no refusal");
    assert!(facts.paths.is_empty(), "a name that the schema lays down is none: {facts:?}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![".{0,20}", "[/~.a-z:@]{0,20}", "(https?|file|ssh)://[a-z@:/.%\\\\]{0,15}"];
    let leaf = prop_oneof![text.prop_map(Value::from), any::<i32>().prop_map(Value::from), Just(Value::Null)];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-z/~]{1,8}|path|url|content", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn any_arguments_are_classified_or_refused(value in any_json()) {
        let world = World::new("any");
        if let Ok(facts) = world.call("read_file", json!({"path": value.clone(), "x": value})) {
            for fact in facts.paths {
                prop_assert!(fact.resolved.is_absolute());
                prop_assert_eq!(fact.place == Session, fact.resolved.starts_with(world.session()));
                prop_assert!(fact.protected.is_none());
            }
        }
    }
}
