use std::fs;

use serde_json::{Value, json};

use super::*;
use crate::{
    classify::{classify, tests::World, tests::tool_named},
    facts::{Access, HostFact, Place},
};

/// A repository in the session, with this configuration.
fn repository(name: &str, config: &str) -> World {
    let world = World::new(name);
    let git = world.session().join("repo/.git");
    fs::create_dir_all(&git).expect("a directory can be made");
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").expect("a file can be written");
    fs::write(git.join("config"), config).expect("a file can be written");
    world
}

fn hosts(world: &World, tool: &str, arguments: Value) -> Vec<(HostKind, String)> {
    let facts = world.call(tool, arguments).unwrap_or_else(|refusal| panic!("{refusal}"));
    facts.hosts.into_iter().map(|HostFact { kind, host, .. }| (kind, host)).collect()
}

fn pushes(world: &World, remote: &str) -> Vec<(HostKind, String)> {
    hosts(world, "git_push", json!({"repo_path": "repo", "remote": remote}))
}

fn fetches(world: &World, remote: &str) -> Vec<(HostKind, String)> {
    hosts(world, "git_fetch", json!({"repo_path": "repo", "remote": remote}))
}

fn push(host: &str) -> (HostKind, String) {
    (HostKind::GitPush, host.to_owned())
}

fn fetch(host: &str) -> (HostKind, String) {
    (HostKind::GitFetch, host.to_owned())
}

#[track_caller]
fn refused(world: &World, tool: &str, arguments: Value) -> String {
    let refusal = world.call(tool, arguments).expect_err("is refused");
    assert_eq!(refusal.fault.rule(), crate::verdict::Rule::UNDECIDABLE);
    refusal.to_string()
}

#[test]
fn a_push_goes_to_every_pushurl_and_a_fetch_to_the_first_url() {
    let world = repository(
        "pushurl",
        "[remote \"origin\"]\n url = https://good.example/x\n url = https://second.example/x\n\
         [remote \"other\"]\n url = git@good.example:x\n pushurl = https://u:p@evil.example/x\n pushurl = ssh://b.example/x\n",
    );
    assert_eq!(fetches(&world, "origin"), [fetch("good.example")]);
    assert_eq!(pushes(&world, "origin"), [push("good.example"), push("second.example")]);
    assert_eq!(fetches(&world, "other"), [fetch("good.example")]);
    assert_eq!(pushes(&world, "other"), [push("evil.example"), push("b.example")]);
    let facts =
        world.call("git_push", json!({"repo_path": "repo", "remote": "other"})).expect("is no refusal");
    assert_eq!(facts.hosts[0].argument, "/remote");
    assert_eq!(facts.hosts[0].given, "https://evil.example/x");
}

#[test]
fn rewriting_follows_the_longest_prefix() {
    let world = repository(
        "instead",
        "[remote \"origin\"]\n url = gh:x\n[remote \"two\"]\n url = gh:special/x\n[remote \"three\"]\n url = gh:x\n pushurl = gh:y\n\
         [url \"https://a.example/\"]\n insteadOf = gh:\n\
         [url \"https://b.example/\"]\n insteadOf = gh:special/\n\
         [url \"https://c.example/\"]\n pushInsteadOf = gh:\n",
    );
    assert_eq!(fetches(&world, "origin"), [fetch("a.example")]);
    assert_eq!(fetches(&world, "two"), [fetch("b.example")]);
    assert_eq!(pushes(&world, "origin"), [push("c.example")]);
    assert_eq!(pushes(&world, "three"), [push("a.example")], "a pushurl is not rewritten by pushInsteadOf");
    assert_eq!(fetches(&world, "https://other.example/x"), [fetch("other.example")]);
    assert_eq!(
        fetches(&world, "gh:direct"),
        [fetch("a.example")],
        "a URL on the command line is rewritten too"
    );
}

#[test]
fn without_a_remote_git_chooses_one() {
    let world = repository(
        "default",
        "[remote \"origin\"]\n url = https://origin.example/\n[remote \"up\"]\n url = https://up.example/\n\
         [remote \"mine\"]\n url = https://mine.example/\n[branch \"main\"]\n remote = up\n pushRemote = mine\n",
    );
    let call = |tool| hosts(&world, tool, json!({"repo_path": "repo"}));
    assert_eq!(call("git_pull"), [fetch("up.example"), fetch("origin.example")]);
    assert_eq!(call("git_push"), [push("mine.example"), push("origin.example")]);
    assert_eq!(call("git_status"), []);
    let all = hosts(&world, "git_fetch", json!({"repo_path": "repo", "all": true}));
    assert_eq!(all.len(), 3);
    let single = repository("single", "[remote \"only\"]\n url = https://only.example/\n");
    assert_eq!(hosts(&single, "git_push", json!({"repo_path": "repo"})), [push("only.example")]);
    let everywhere = repository(
        "pushdefault",
        "[remote]\n pushDefault = b\n[remote \"a\"]\n url = https://a.example/\n[remote \"b\"]\n url = https://b.example/\n",
    );
    assert_eq!(hosts(&everywhere, "git_push", json!({"repo_path": "repo"})), [push("b.example")]);
}

#[test]
fn a_tool_for_all_commands_is_seen_through() {
    let world =
        repository("args", "[remote \"origin\"]\n url = https://a.example/\n pushurl = https://b.example/\n");
    let call = |arguments| hosts(&world, "git", arguments);
    assert_eq!(call(json!({"cwd": "repo", "args": ["push", "origin"]})), [push("b.example")]);
    assert_eq!(call(json!({"cwd": "repo", "command": "fetch origin"})), [fetch("a.example")]);
    assert_eq!(call(json!({"cwd": "repo", "args": ["status"]})), []);
}

#[test]
fn a_local_remote_is_a_path() {
    let world = repository(
        "local",
        "[remote \"origin\"]\n url = ../../../../../other\n[remote \"f\"]\n url = file:///etc\n",
    );
    let facts =
        world.call("git_push", json!({"repo_path": "repo", "remote": "origin"})).expect("is no refusal");
    let fact = facts.paths.iter().find(|fact| fact.argument == "/remote").expect("is a path");
    assert_eq!((fact.place, fact.access), (Place::Outside, Access::Write));
    assert_eq!(fact.resolved, world.root.join("other"));
    let facts = world.call("git_fetch", json!({"repo_path": "repo", "remote": "f"})).expect("is no refusal");
    assert!(facts.paths.iter().any(|fact| fact.resolved == Path::new("/etc") && fact.access == Access::Read));
    let refusal = world.call("git_push", json!({"repo_path": "repo", "remote": "~/.config/lazaret"}));
    assert_eq!(refusal.expect_err("is refused").fault.rule(), crate::verdict::Rule::PROTECTED_PATH);
}

#[test]
fn helpers_and_options_are_refused() {
    let world = repository(
        "helper",
        "[remote \"e\"]\n url = \"ext::sh -c 'touch x'\"\n[remote \"v\"]\n url = https://a.example\n vcs = hg\n\
         [remote \"h\"]\n url = http::https://a.example/\n[remote \"s\"]\n url = foo://a.example/\n",
    );
    for remote in
        ["e", "v", "s", "ext::sh -c id", "fd::3", "-oProxyCommand=id", "--upload-pack=id", "git@-oX:x"]
    {
        refused(&world, "git_fetch", json!({"repo_path": "repo", "remote": remote}));
    }
    assert_eq!(fetches(&world, "h"), [fetch("a.example")]);
}

#[test]
fn programs_of_the_repository_are_not_trusted_with_the_way() {
    let world = repository(
        "program",
        "[core]\n sshCommand = evil\n[remote \"s\"]\n url = git@a.example:x\n[remote \"h\"]\n url = https://a.example/\n",
    );
    assert!(
        refused(&world, "git_push", json!({"repo_path": "repo", "remote": "s"})).contains("core.sshCommand")
    );
    assert_eq!(pushes(&world, "h"), [push("a.example")]);
    let proxy = repository(
        "proxy",
        "[http]\n proxy = http://evil.example:3128\n[remote \"h\"]\n url = https://a.example/\n",
    );
    assert_eq!(pushes(&proxy, "h"), [push("a.example"), push("evil.example")]);
}

#[test]
fn includes_are_followed_and_conditions_refused_where_they_matter() {
    let world = repository("include", "[include]\n path = more\n[include]\n path = missing\n");
    let git = world.session().join("repo/.git");
    fs::write(git.join("more"), "[remote \"origin\"]\n url = https://more.example/\n")
        .expect("can be written");
    assert_eq!(pushes(&world, "origin"), [push("more.example")]);
    fs::write(git.join("config"), "[include]\n path = config\n").expect("can be written");
    refused(&world, "git_push", json!({"repo_path": "repo"}));
    fs::write(git.join("config"), "[includeIf \"gitdir:/x\"]\n path = more\n").expect("can be written");
    refused(&world, "git_push", json!({"repo_path": "repo"}));
    fs::write(git.join("more"), "[user]\n name = x\n").expect("can be written");
    assert_eq!(hosts(&world, "git_push", json!({"repo_path": "repo"})), []);
    for config in ["[remote \"x\n", "[include]\n path = ~x/y\n", &"#".repeat(1 << 21)] {
        fs::write(git.join("config"), config).expect("can be written");
        refused(&world, "git_push", json!({"repo_path": "repo"}));
    }
}

#[test]
fn worktrees_and_their_own_configuration_are_found() {
    let world = repository(
        "worktree",
        "[extensions]\n worktreeConfig = true\n[remote \"origin\"]\n url = https://a.example/\n",
    );
    let session = world.session();
    let inner = session.join("repo/.git/worktrees/w");
    fs::create_dir_all(&inner).expect("can be made");
    fs::create_dir_all(session.join("w/deep")).expect("can be made");
    fs::write(session.join("w/.git"), "gitdir: ../repo/.git/worktrees/w\n").expect("can be written");
    fs::write(inner.join("commondir"), "../..\n").expect("can be written");
    fs::write(inner.join("HEAD"), "ref: refs/heads/w\n").expect("can be written");
    let call = || hosts(&world, "git_push", json!({"repo_path": "w/deep"}));
    assert_eq!(call(), [push("a.example")]);
    fs::write(inner.join("config.worktree"), "[remote \"origin\"]\n pushurl = https://b.example/\n")
        .expect("can be written");
    assert_eq!(call(), [push("b.example")]);
}

#[test]
fn the_users_own_rewriting_holds_too() {
    let mut world = repository("user", "[remote \"origin\"]\n url = https://a.example/x\n");
    let config = world.root.join("home/.gitconfig");
    fs::write(&config, "[url \"https://mirror.example/\"]\n insteadOf = https://a.example/\n")
        .expect("can be written");
    world.surroundings = world.surroundings.clone().with_git_configs([config]);
    assert_eq!(pushes(&world, "origin"), [push("mirror.example")]);
    let clone = hosts(&world, "git_clone", json!({"url": "https://a.example/x", "path": "new"}));
    assert!(clone.contains(&fetch("mirror.example")), "{clone:?}");
}

#[test]
fn old_forms_and_forbidden_lookups_are_refused() {
    let mut world = repository("old", "");
    let old = world.session().join("repo/.git/remotes");
    fs::create_dir_all(&old).expect("can be made");
    fs::write(old.join("sly"), "URL: https://evil.example/\n").expect("can be written");
    refused(&world, "git_fetch", json!({"repo_path": "repo", "remote": "sly"}));
    world.surroundings = world.surroundings.clone().with_lookups(Lookups::Nothing);
    refused(&world, "git_fetch", json!({"repo_path": "repo", "remote": "origin"}));
    assert_eq!(fetches(&world, "https://a.example/"), [fetch("a.example")]);
}

#[test]
fn tools_that_only_sound_like_git_are_left_alone() {
    let world = World::new("sound");
    assert_eq!(
        hosts(&world, "fetch", json!({"url": "https://a.example/"})),
        [(HostKind::Url, "a.example".to_owned())]
    );
    assert_eq!(hosts(&world, "create_pull_request", json!({"owner": "o", "repo": "r"})), []);
    assert_eq!(hosts(&world, "push_files", json!({"owner": "o", "repo": "r", "branch": "b"})), []);
    let clone =
        hosts(&world, "git_clone", json!({"repositoryUrl": "git@a.example:x/y", "targetPath": "new"}));
    assert_eq!(clone, [fetch("a.example")]);
}

#[test]
fn any_configuration_is_read_or_refused() {
    let world = repository("any", "");
    let config = world.session().join("repo/.git/config");
    let tool = tool_named("git_push");
    let arguments = json!({"repo_path": "repo"});
    let call = Call { tool: &tool, arguments: arguments.as_object().expect("is an object") };
    for bytes in [
        &b"\xff\xfe"[..],
        b"[remote \"origin\"]\nurl = \xff",
        b"[remote \"origin\"]\nurl",
        b"[remote]\nurl=x",
    ] {
        fs::write(&config, bytes).expect("can be written");
        let _ = classify(&call, &world.surroundings);
    }
    fs::write(&config, b"[remote \"origin\"]\nurl = https://\xff.example/").expect("can be written");
    assert!(classify(&call, &world.surroundings).is_err());
}

#[test]
fn options_that_lead_elsewhere_are_refused_in_any_argument() {
    let world = repository("options", "[remote \"origin\"]\n url = https://good.example/x\n");
    for arguments in [
        json!({"args": ["-c", "remote.origin.url=https://evil.example/x"]}),
        json!({"args": "-cremote.origin.url=https://evil.example/x origin"}),
        json!({"branch": "--repo=https://evil.example/x"}),
        json!({"branch": "--rep=https://evil.example/x"}),
        json!({"refspec": "main --receive-pack=/tmp/x"}),
        json!({"options": {"more": ["'--exec=/tmp/x'"]}}),
        json!({"command": "push --upload-pack=x"}),
        json!({"flags": "--config-env=http.proxy=X"}),
        json!({"branch": "ext::sh -c x"}),
        json!({"remote": "origin --repo=https://evil.example/x"}),
        json!({"args": (0..65).map(|index| format!("h{index}.example:x")).collect::<Vec<_>>()}),
    ] {
        let mut arguments = arguments;
        arguments["repo_path"] = json!("repo");
        refused(&world, "git_push", arguments.clone());
    }
    refused(&world, "git", json!({"repo_path": "repo", "args": "-c a=b -c c=d -c e=f 'push'"}));
    refused(&world, "git_clone", json!({"url": "https://good.example/x", "args": ["-u", "x"]}));
    for arguments in [
        json!({"repo_path": "repo", "args": ["-u", "--force", "--tags"]}),
        json!({"repo_path": "repo", "message": "-c is an option"}),
    ] {
        assert_eq!(hosts(&world, "git_push", arguments), [push("good.example")]);
    }
}

#[test]
fn addresses_in_any_argument_come_on_top_of_the_remote() {
    let world = repository(
        "addresses",
        "[remote \"origin\"]\n url = https://good.example/x\n[remote \"two\"]\n url = https://two.example/x\n\
         [branch \"main\"]\n remote = origin\n",
    );
    let pushed = |arguments: Value| {
        let mut arguments = arguments;
        arguments["repo_path"] = json!("repo");
        let found = hosts(&world, "git_push", arguments);
        assert!(found.contains(&push("good.example")), "{found:?}");
        found
    };
    for arguments in [
        json!({"args": ["evil.example:x", "main:main"]}),
        json!({"args": "git@evil.example:x main"}),
        json!({"branch": "https://evil.example/x"}),
        json!({"refspec": "evil.example:x"}),
        json!({"options": ["--force", "ssh://evil.example/x"]}),
    ] {
        let found = pushed(arguments.clone());
        assert!(found.contains(&push("evil.example")), "{arguments}: {found:?}");
        assert!(!found.contains(&push("main")), "{arguments}: {found:?}");
    }
    assert!(pushed(json!({"args": "push -o x evilhost:x"})).contains(&push("evilhost")));
    assert!(pushed(json!({"args": "evilhost:x"})).contains(&push("evilhost")));
    assert!(pushed(json!({"args": ["push", "two"]})).contains(&push("two.example")));
    for arguments in [
        json!({"args": ["push", "--force", "origin", "main:main"]}),
        json!({"refspec": "HEAD:main"}),
        json!({"refspec": "v1.0:v1.0"}),
        json!({"branch": "main"}),
    ] {
        assert_eq!(pushed(arguments), [push("good.example")]);
    }
}
