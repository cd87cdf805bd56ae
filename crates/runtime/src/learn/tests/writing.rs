//! The text: it loads, says the same as the draft, and cannot be talked into saying something else.

use std::path::{Path, PathBuf};

use lazaret_policy::{
    Policy, load,
    schema::{EnvironmentPolicy, SyscallMode},
};
use proptest::prelude::*;

use super::{files, ground, seen};
use crate::learn::{
    draft::draft,
    findings::{Deed, Findings, Kind, Refused},
    text::{Heading, quoted, write},
};

fn written(findings: &Findings) -> String {
    let environment = EnvironmentPolicy { allow: vec!["PATH".to_owned()], ..EnvironmentPolicy::default() };
    write(&draft(findings, &ground(), environment), &Heading { lines: vec!["Policy".to_owned()] })
}

fn loaded(text: &str) -> Policy {
    load::parse(text, load::Format::Toml, Path::new("learned.toml"))
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
        .policy
}

#[test]
fn the_smallest_policy_loads_and_closes_everything() {
    let policy = loaded(&written(&Findings::default()));
    assert!(!policy.process.allow_fork && !policy.process.allow_exec && !policy.network.allow_network);
    assert!(policy.filesystem.read_only_paths.is_empty() && policy.filesystem.read_write_paths.is_empty());
    assert_eq!(policy.syscalls.mode, SyscallMode::Whitelist);
    assert!(policy.timeout.is_some() && policy.resources.max_memory.is_some());
}

#[test]
fn the_text_says_what_the_draft_says() {
    let mut findings = seen(&[
        ("/usr/bin/tool", Kind::File, Deed::Execute),
        ("/usr/bin/other", Kind::File, Deed::Execute),
        ("/home/me/notes", Kind::File, Deed::Read),
        ("/home/me/code/project", Kind::Directory, Deed::Rename),
    ]);
    findings.executions = 3;
    findings.forks = 1;
    findings.hosts.insert(("example.com".to_owned(), Some(443)), 2);
    findings.hosts.insert(("::1".to_owned(), Some(80)), 1);
    findings.hosts.insert(("looked-up.example.com".to_owned(), None), 1);
    let draft = draft(&findings, &ground(), EnvironmentPolicy::default());
    let text = write(&draft, &Heading::default());
    assert_eq!(loaded(&text), draft.policy, "{text}");
    assert_eq!(draft.policy.filesystem.read_write_paths, [PathBuf::from(".")]);
    let read_only = &draft.policy.filesystem.read_only_paths;
    assert!(
        read_only.contains(&PathBuf::from("~/notes")) && read_only.contains(&PathBuf::from("/usr/bin/tool"))
    );
    assert_eq!(
        draft.policy.network.allowed_hosts,
        ["[::1]:80", "example.com:443", "looked-up.example.com:443"]
    );
    assert_eq!(draft.policy.process.allowed_executables.len(), 2);
    assert_eq!(text, write(&draft, &Heading::default()));
}

#[test]
fn what_was_refused_is_a_comment_and_nothing_else() {
    let mut findings = Findings::default();
    for refused in [
        Refused::Secret(PathBuf::from("/home/me/.ssh/id")),
        Refused::Write(PathBuf::from("/home/me/.cache/tool")),
        Refused::Other("connection to evil.example.com:25".to_owned()),
    ] {
        findings.refuse(refused, || "tool".to_owned());
    }
    let text = written(&findings);
    assert!(text.contains("# asked for and not granted: ~/.ssh/id (tool, once)"), "{text}");
    assert!(text.contains("    # \"~/.cache/tool\",  # a write was refused (tool, once)"), "{text}");
    assert!(text.contains("# refused: connection to evil.example.com:25 (tool, once)"), "{text}");
    let policy = loaded(&text);
    assert!(policy.filesystem.read_write_paths.is_empty() && policy.network.allowed_hosts.is_empty());
}

#[test]
fn code_that_no_list_could_name_leaves_programs_unrestricted_and_says_so() {
    let mut findings = files(Deed::Execute, &["/usr/bin/sh", "/usr/bin/cc"]);
    findings.executions = 3;
    findings.unlistable_code.insert(PathBuf::from("/home/me/code/project/a.out"));
    let text = written(&findings);
    assert!(loaded(&text).process.allowed_executables.is_empty());
    assert!(text.contains("a.out") && text.contains("# \"/usr/bin/sh\""), "{text}");
}

#[test]
fn limits_that_would_close_what_is_used_are_left_out() {
    let mut findings = Findings::default();
    for call in ["memfd_create", "fallocate"] {
        findings.call(call, || "tool".to_owned());
    }
    let policy = loaded(&written(&findings));
    assert!(policy.resources.max_memory.is_none() && policy.filesystem.max_total_size.is_none());
    assert!(policy.filesystem.max_file_size.is_some());
}

proptest! {
    #[test]
    fn any_text_survives_being_quoted(text in ".*") {
        let document = format!("x = {}", quoted(&text));
        let value: toml::Table = document.parse().unwrap();
        prop_assert_eq!(value["x"].as_str(), Some(text.as_str()));
    }

    #[test]
    fn no_name_of_a_path_or_program_breaks_out_of_its_line(
        name in "[a-z\"\\\\#\n\r\t\u{85}\u{2028}\\]\\[=]{1,12}", program in "[a-z\"\n#\\]\u{2029}]{0,8}"
    ) {
        let mut findings = Findings::default();
        let path = PathBuf::from("/srv/data").join(&name);
        findings.see(&path, Kind::File, Deed::Read, || program.clone());
        findings.refuse(Refused::Write(path.clone()), || program.clone());
        findings.refuse(Refused::Secret(path.clone()), || program.clone());
        findings.refuse(Refused::Other(name.clone()), || program.clone());
        let draft = draft(&findings, &ground(), EnvironmentPolicy::default());
        let text = write(&draft, &Heading { lines: vec![name, program] });
        let loaded = load::parse(&text, load::Format::Toml, Path::new("learned.toml"));
        match loaded {
            Ok(loaded) => prop_assert_eq!(loaded.policy, draft.policy),
            // The loader may refuse a name, but never reads another one.
            Err(error) => prop_assert!(error.to_string().contains("readOnlyPaths"), "{error}"),
        }
    }
}
