//! Files and tools that change while policies are in force.

use std::{
    fs,
    os::unix::fs::symlink,
    sync::atomic::{AtomicU32, Ordering},
};

use super::*;

/// A directory of its own, gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("lazaret-judge-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let place = std::env::temp_dir().join(name);
        fs::create_dir(&place).expect("a directory");
        Scratch(place)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).expect("written");
    }

    fn open(&self, catalog: &Catalog) -> Result<(Source, Vec<Diagnostic>), Refused> {
        Source::open(Origin::Files(self.0.clone()), catalog)
    }

    fn fault(&self) -> String {
        let error = self.open(&Catalog::of(&tools())).expect_err("a fault").to_string();
        error.replace(&self.0.display().to_string(), "DIR")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn rule(source: &Source) -> String {
    ask(&source.judge(), "git", "status", json!({}), &Facts::default()).rule.0
}

const ONE: &str = "@id(\"one\") permit(principal, action, resource);";
const TWO: &str = "@id(\"two\") permit(principal, action, resource);";

#[test]
fn an_empty_directory_denies_everything_and_a_missing_one_is_an_error() {
    let scratch = Scratch::new();
    let (source, _) = scratch.open(&Catalog::of(&tools())).expect("empty is fine");
    assert_eq!(rule(&source), Rule::DEFAULT_DENY);
    let missing = Source::open(Origin::Files(scratch.0.join("missing")), &Catalog::new());
    assert!(missing.expect_err("missing").to_string().contains("cannot be read: No such file"));
}

#[test]
fn only_policy_files_of_the_directory_itself_are_read() {
    let scratch = Scratch::new();
    scratch.write("a.cedar", ONE);
    scratch.write("README.md", "not a policy");
    scratch.write(".#a.cedar", "an editor's");
    fs::create_dir(scratch.0.join("more")).expect("a directory");
    scratch.write("more/b.cedar", "nonsense");
    let (source, diagnostics) = scratch.open(&Catalog::of(&tools())).expect("fits");
    assert_eq!((rule(&source), diagnostics), ("one".into(), vec![]));
}

#[test]
fn what_is_not_a_plain_readable_file_is_an_error() {
    let scratch = Scratch::new();
    scratch.write("target", ONE);
    symlink("target", scratch.0.join("link.cedar")).expect("a link");
    assert!(scratch.fault().starts_with("DIR/link.cedar: is a symbolic link"), "{}", scratch.fault());
    fs::remove_file(scratch.0.join("link.cedar")).expect("removed");

    fs::create_dir(scratch.0.join("dir.cedar")).expect("a directory");
    assert!(scratch.fault().starts_with("DIR/dir.cedar: is not a regular file"));
    fs::remove_dir(scratch.0.join("dir.cedar")).expect("removed");

    rustix::fs::mkfifoat(rustix::fs::CWD, scratch.0.join("pipe.cedar"), 0o600.into()).expect("a pipe");
    assert!(scratch.fault().starts_with("DIR/pipe.cedar: is not a regular file"));
    fs::remove_file(scratch.0.join("pipe.cedar")).expect("removed");

    fs::write(scratch.0.join("bytes.cedar"), b"\xff").expect("written");
    assert!(scratch.fault().starts_with("DIR/bytes.cedar: cannot be read"));
    fs::remove_file(scratch.0.join("bytes.cedar")).expect("removed");

    scratch.write("large.cedar", &" ".repeat((1 << 20) + 1));
    assert!(scratch.fault().starts_with("DIR/large.cedar: is larger than 1 MiB"));
}

#[test]
fn ids_are_one_set_over_all_files() {
    let scratch = Scratch::new();
    scratch.write("a.cedar", ONE);
    scratch.write("b.cedar", &format!("// again\n{ONE}"));
    assert!(scratch.fault().starts_with("DIR/b.cedar:2:1: the id `one` is in use already, at a.cedar:1"));
}

#[test]
fn changed_files_replace_the_policies_and_unchanged_ones_do_not() {
    let (scratch, catalog) = (Scratch::new(), Catalog::of(&tools()));
    scratch.write("a.cedar", ONE);
    let (mut source, _) = scratch.open(&catalog).expect("fits");
    assert_eq!(source.refresh(&catalog), Refresh::Unchanged);
    let held = source.judge();
    // The same size within the same tick of the clock.
    scratch.write("a.cedar", TWO);
    assert_eq!(source.refresh(&catalog), Refresh::Replaced(vec![]));
    assert_eq!(rule(&source), "two");
    assert_eq!(ask(&held, "git", "status", json!({}), &Facts::default()).rule.0, "one");
    scratch.write("b.cedar", "@id(\"no\") forbid(principal, action, resource);");
    assert_eq!(source.refresh(&catalog), Refresh::Replaced(vec![]));
    assert_eq!(rule(&source), "no");
    fs::remove_file(scratch.0.join("b.cedar")).expect("removed");
    assert_eq!(source.refresh(&catalog), Refresh::Replaced(vec![]));
    assert_eq!(rule(&source), "two");
}

#[test]
fn broken_files_leave_the_old_policies_in_force_and_are_told_once() {
    let (scratch, catalog) = (Scratch::new(), Catalog::of(&tools()));
    scratch.write("a.cedar", ONE);
    let (mut source, _) = scratch.open(&catalog).expect("fits");
    for broken in ["permit(", "permit(principal, action == Action::\"git/psuh\", resource);"] {
        scratch.write("a.cedar", broken);
        let Refresh::Broken(found) = source.refresh(&catalog) else { panic!("broken") };
        assert!(found[0].to_string().contains("a.cedar:1:"));
        assert_eq!(source.refresh(&catalog), Refresh::Unchanged);
        assert_eq!(rule(&source), "one");
    }
    fs::remove_dir_all(&scratch.0).expect("removed");
    assert!(matches!(source.refresh(&catalog), Refresh::Broken(_)));
    assert_eq!(source.refresh(&catalog), Refresh::Unchanged);
    assert_eq!(rule(&source), "one");
    fs::create_dir(&scratch.0).expect("made");
    scratch.write("a.cedar", TWO);
    assert_eq!(source.refresh(&catalog), Refresh::Replaced(vec![]));
    assert_eq!(rule(&source), "two");
}

#[test]
fn files_that_are_put_back_as_they_were_are_in_force_without_a_word() {
    let (scratch, catalog) = (Scratch::new(), Catalog::of(&tools()));
    scratch.write("a.cedar", ONE);
    let (mut source, _) = scratch.open(&catalog).expect("fits");
    scratch.write("a.cedar", "permit(");
    assert!(matches!(source.refresh(&catalog), Refresh::Broken(_)));
    scratch.write("a.cedar", ONE);
    assert_eq!(source.refresh(&catalog), Refresh::Unchanged);
    scratch.write("a.cedar", "permit(");
    assert!(matches!(source.refresh(&catalog), Refresh::Broken(_)));
}

#[test]
fn tools_that_come_later_are_judged_by_the_same_policies() {
    let scratch = Scratch::new();
    scratch.write("a.cedar", "@id(\"push\") permit(principal, action == Action::\"git/push\", resource);");
    let mut catalog = Catalog::new();
    catalog.set_absent("git");
    let (mut source, diagnostics) = scratch.open(&catalog).expect("a warning only");
    assert_eq!(diagnostics.len(), 1);
    let push = |source: &Source| ask(&source.judge(), "git", "push", json!({}), &Facts::default()).rule.0;
    assert_eq!(push(&source), Rule::UNKNOWN_TOOL);
    let git: Vec<Tool> = tools().into_iter().filter(|tool| tool.server == "git").collect();
    catalog.set_running("git", &git);
    assert_eq!(source.refresh(&catalog), Refresh::Replaced(vec![]));
    assert_eq!(push(&source), "push");
    assert_eq!(source.refresh(&catalog), Refresh::Unchanged);
}

#[test]
fn a_tool_that_vanishes_does_not_take_its_forbid_along() {
    let scratch = Scratch::new();
    scratch.write(
        "a.cedar",
        &format!("{ONE} @id(\"no\") forbid(principal, action == Action::\"git/push\", resource);"),
    );
    let mut catalog = Catalog::of(&tools());
    let (mut source, _) = scratch.open(&catalog).expect("fits");
    assert_eq!(rule(&source), "one");
    // The server renames it.
    catalog.set_running("git", &[tool("git", "push_it", json!({})), tool("git", "status", json!({}))]);
    let Refresh::Replaced(found) = source.refresh(&catalog) else { panic!("replaced") };
    assert_eq!(found[0].severity, Severity::Error);
    let renamed = ask(&source.judge(), "git", "push_it", json!({}), &Facts::default());
    assert_eq!((renamed.decision, renamed.rule.0.as_str()), (Decision::Deny, Rule::UNDECIDABLE));
    assert!(renamed.reason.contains("`no`"), "{}", renamed.reason);
    let elsewhere = ask(&source.judge(), "fs", "read", json!({ "path": "x" }), &Facts::default());
    assert_eq!(elsewhere.rule.0, "one");
}

#[test]
fn broken_files_do_not_keep_new_tools_from_being_known() {
    let scratch = Scratch::new();
    scratch.write("a.cedar", ONE);
    let mut catalog = Catalog::new();
    let (mut source, _) = scratch.open(&catalog).expect("fits");
    scratch.write("a.cedar", "permit(");
    catalog.set_running("git", &[tool("git", "status", json!({}))]);
    assert!(matches!(source.refresh(&catalog), Refresh::Broken(_)));
    assert_eq!(rule(&source), "one");
}

#[test]
fn a_file_that_was_refused_for_a_tool_is_adopted_when_the_tool_comes() {
    let (scratch, mut catalog) = (Scratch::new(), Catalog::of(&tools()));
    scratch.write("a.cedar", ONE);
    let (mut source, _) = scratch.open(&catalog).expect("fits");
    scratch.write("a.cedar", "@id(\"new\") permit(principal, action == Action::\"new/tool\", resource);");
    assert!(matches!(source.refresh(&catalog), Refresh::Broken(_)));
    catalog.set_running("new", &[tool("new", "tool", json!({}))]);
    assert_eq!(source.refresh(&catalog), Refresh::Replaced(vec![]));
    assert_eq!(ask(&source.judge(), "new", "tool", json!({}), &Facts::default()).rule.0, "new");
}

#[test]
fn a_check_reports_in_the_order_of_files_and_lines() {
    let scratch = Scratch::new();
    scratch.write("b.cedar", "permit(principal, action == Action::\"git/psuh\", resource);\npermit(principal, action in Action::\"gitt\", resource);");
    scratch.write("a.cedar", "permit(principal, action, resource) when { context.args has pth };");
    assert_eq!(check(&scratch.0, Against::Nothing), []);
    let found = check(&scratch.0, Against::Tools(&Catalog::of(&tools())));
    let places: Vec<_> =
        found.iter().map(|found| (found.file.file_name().expect("a name").to_owned(), found.line)).collect();
    assert_eq!(
        places,
        [("a.cedar".into(), Some(1)), ("b.cedar".into(), Some(1)), ("b.cedar".into(), Some(2))]
    );
    assert!(source::holds_policies(&scratch.0) && source::holds_policies(&scratch.0.join("a.cedar")));
    assert!(!source::holds_policies(Path::new("/")) && !source::holds_policies(Path::new("a.toml")));
}
