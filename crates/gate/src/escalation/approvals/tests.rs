use proptest::prelude::*;
use serde_json::json;

use super::*;

fn path(resolved: &str, place: Place, access: Access) -> PathFact {
    PathFact {
        argument: "/path".into(),
        given: resolved.into(),
        resolved: resolved.into(),
        place,
        protected: None,
        access,
    }
}

fn host(name: &str) -> HostFact {
    HostFact {
        argument: "/url".into(),
        given: format!("https://{name}/"),
        host: name.into(),
        port: Some(443),
        scheme: Some("https".into()),
        kind: HostKind::Url,
    }
}

fn facts(paths: Vec<PathFact>, hosts: Vec<HostFact>) -> Facts {
    Facts { paths, hosts }
}

fn outside(resolved: &str, access: Access) -> Facts {
    facts(vec![path(resolved, Place::Outside, access)], vec![])
}

fn digest(text: &str) -> CallDigest {
    CallDigest::of("s", "t", json!({ "x": text }).as_object().unwrap())
}

/// What was approved by approving this call for the session.
fn approved(facts: &Facts) -> Approvals {
    let mut approvals = Approvals::default();
    let scopes = suggest(facts, digest("first"), &["/home/ann".into()]);
    approvals.grant("s", "t", scopes).unwrap();
    approvals
}

fn covers(approvals: &Approvals, facts: &Facts) -> bool {
    approvals.covers("s", "t", facts, digest("second")).is_some()
}

#[test]
fn files_of_the_same_directory_are_covered_and_no_others() {
    let approvals = approved(&outside("/srv/data/a", Access::Read));
    assert!(covers(&approvals, &outside("/srv/data/b", Access::Read)));
    assert!(covers(&approvals, &outside("/srv/data/deep/c", Access::Read)));
    assert!(covers(&approvals, &outside("/srv/data", Access::Read)));
    for other in ["/srv/data2/a", "/srv/datab", "/srv", "/srv/data/../x", "srv/data/a", "/etc/passwd"] {
        assert!(!covers(&approvals, &outside(other, Access::Read)), "{other}");
    }
}

#[test]
fn another_server_or_tool_is_not_covered() {
    let approvals = approved(&outside("/srv/data/a", Access::Read));
    let same = outside("/srv/data/a", Access::Read);
    assert!(approvals.covers("s", "t", &same, digest("x")).is_some());
    assert!(approvals.covers("s", "u", &same, digest("x")).is_none());
    assert!(approvals.covers("r", "t", &same, digest("x")).is_none());
}

#[test]
fn one_kind_of_access_does_not_cover_another() {
    let all = [Access::Read, Access::Write, Access::Delete];
    for given in all {
        let mut approvals = Approvals::default();
        let scope = Scope::Directory { path: "/srv/data".into(), access: given };
        approvals.grant("s", "t", vec![scope]).unwrap();
        for wanted in all {
            assert_eq!(covers(&approvals, &outside("/srv/data/a", wanted)), given == wanted);
        }
    }
}

#[test]
fn deleting_is_approved_for_the_very_call_only_also_in_the_session_directory() {
    let deleting = outside("/srv/data/a", Access::Delete);
    assert_eq!(suggest(&deleting, digest("x"), &[]), [Scope::Exact(digest("x"))]);
    let approvals = approved(&outside("/srv/data/a", Access::Write));
    let both = facts(
        vec![
            path("/srv/data/a", Place::Outside, Access::Write),
            path("/session/b", Place::Session, Access::Delete),
        ],
        vec![],
    );
    assert!(!covers(&approvals, &both));
}

#[test]
fn a_protected_path_is_never_covered_not_even_by_the_very_same_call() {
    let mut call = outside("/srv/data/a", Access::Read);
    call.paths[0].protected = Some("the audit log".into());
    assert_eq!(suggest(&call, digest("x"), &[]), []);
    let mut approvals = approved(&outside("/srv/data/a", Access::Read));
    approvals.grant("s", "t", vec![Scope::Exact(digest("x"))]).unwrap();
    assert_eq!(approvals.covers("s", "t", &call, digest("x")), None);
}

#[test]
fn a_host_is_covered_with_its_port_and_purpose_and_without_its_relatives() {
    let approvals = approved(&facts(vec![], vec![host("example.com")]));
    assert!(covers(&approvals, &facts(vec![], vec![host("example.com")])));
    for other in ["sub.example.com", "example.com.evil.net", "example.org"] {
        assert!(!covers(&approvals, &facts(vec![], vec![host(other)])), "{other}");
    }
    assert!(!covers(&approvals, &facts(vec![], vec![HostFact { port: Some(22), ..host("example.com") }])));
    let push = HostFact { kind: HostKind::GitPush, ..host("example.com") };
    assert!(!covers(&approvals, &facts(vec![], vec![push])));
    assert!(!covers(&approvals, &facts(vec![], vec![host("example.com"), host("evil.net")])));
}

#[test]
fn two_approvals_do_not_add_up() {
    let mut approvals = approved(&outside("/srv/data/a", Access::Read));
    let scopes = suggest(&facts(vec![], vec![host("example.com")]), digest("x"), &[]);
    approvals.grant("s", "t", scopes).unwrap();
    let both = facts(vec![path("/srv/data/a", Place::Outside, Access::Read)], vec![host("example.com")]);
    assert!(!covers(&approvals, &both), "reading there and sending there were approved apart");
}

#[test]
fn all_that_was_approved_together_has_to_be_there() {
    let both = facts(vec![path("/srv/data/a", Place::Outside, Access::Read)], vec![host("example.com")]);
    let approvals = approved(&both);
    assert!(covers(&approvals, &both));
    assert!(!covers(&approvals, &facts(vec![], vec![host("example.com")])), "something else is sent there");
}

#[test]
fn a_call_about_nothing_outside_is_covered_by_itself_alone() {
    let inside = facts(vec![path("/session/a", Place::Session, Access::Write)], vec![]);
    for call in [Facts::default(), inside] {
        let approvals = approved(&call);
        assert!(approvals.covers("s", "t", &call, digest("first")).is_some());
        assert!(!covers(&approvals, &call));
        assert!(!covers(&approved(&outside("/srv/data/a", Access::Write)), &call));
    }
}

#[test]
fn what_is_too_wide_is_neither_suggested_nor_granted() {
    for wide in ["/x", "/etc/passwd", "/home/ann/.bashrc", "/home/ann"] {
        let scopes = suggest(&outside(wide, Access::Read), digest("x"), &["/home/ann".into()]);
        assert_eq!(scopes, [Scope::Exact(digest("x"))], "{wide}");
    }
    let mut approvals = Approvals::default();
    for wide in ["/", "/etc", "etc/x", "/a/../b"] {
        let scope = Scope::Directory { path: wide.into(), access: Access::Read };
        assert!(matches!(approvals.grant("s", "t", vec![scope]), Err(GrantError::TooWide(_))), "{wide}");
    }
    assert_eq!(approvals.grant("s", "t", vec![]), Err(GrantError::Nothing));
    let star = Scope::Domain { host: "*".into(), port: None, kind: HostKind::Host };
    assert_eq!(approvals.grant("s", "t", vec![star.clone()]), Err(GrantError::Nothing));
    assert_eq!(approvals.grant("s", "t", vec![Scope::Exact(digest("x")), star]), Err(GrantError::Mixed));
    assert!(approvals.is_empty());
}

#[test]
fn what_was_approved_for_a_tool_that_changed_is_forgotten() {
    let call = outside("/srv/data/a", Access::Read);
    let mut approvals = approved(&call);
    approvals.forget("s", "other");
    assert!(covers(&approvals, &call));
    approvals.forget("s", "t");
    assert!(!covers(&approvals, &call));
}

#[test]
fn a_scope_is_told_in_words() {
    let call = facts(vec![path("/srv/data/a", Place::Outside, Access::Write)], vec![host("example.com")]);
    assert_eq!(
        describe("s", "t", &suggest(&call, digest("x"), &[])),
        "s/t: writing in /srv/data and below, reaching example.com:443"
    );
    assert_eq!(describe("s", "t", &[Scope::Exact(digest("x"))]), "s/t: the very same arguments");
}

fn any_path() -> impl Strategy<Value = PathFact> {
    let access = prop_oneof![Just(Access::Read), Just(Access::Write), Just(Access::Delete)];
    let place = prop_oneof![Just(Place::Session), Just(Place::Outside)];
    ("(/[ab]{1,2}){1,4}", place, access, proptest::bool::weighted(0.1)).prop_map(
        |(resolved, place, access, protected)| PathFact {
            protected: protected.then(|| "it".to_owned()),
            ..path(&resolved, place, access)
        },
    )
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let hosts = proptest::collection::vec("[ab]\\.(com|net)".prop_map(|name| host(&name)), 0..2);
    (proptest::collection::vec(any_path(), 0..3), hosts).prop_map(|(paths, hosts)| Facts { paths, hosts })
}

proptest! {
    #[test]
    fn an_approved_call_is_covered_itself_unless_it_is_protected(call in any_facts()) {
        let scopes = suggest(&call, digest("x"), &[]);
        let protected = call.paths.iter().any(|path| path.protected.is_some());
        prop_assert_eq!(scopes.is_empty(), protected);
        if !protected {
            let mut approvals = Approvals::default();
            approvals.grant("s", "t", scopes).unwrap();
            prop_assert!(approvals.covers("s", "t", &call, digest("x")).is_some());
        }
    }

    #[test]
    fn nothing_new_is_reached_by_a_covered_call(first in any_facts(), second in any_facts()) {
        let scopes = suggest(&first, digest("x"), &[]);
        let mut approvals = Approvals::default();
        if approvals.grant("s", "t", scopes).is_ok() && covers(&approvals, &second) {
            for path in second.paths.iter().filter(|path| path.place == Place::Outside) {
                prop_assert!(path.access != Access::Delete && path.protected.is_none());
                let within = |approved: &PathFact| {
                    approved.access == path.access
                        && path.resolved.starts_with(approved.resolved.parent().unwrap())
                };
                prop_assert!(first.paths.iter().any(within));
            }
            for host in &second.hosts {
                prop_assert!(first.hosts.contains(host));
            }
        }
    }
}
