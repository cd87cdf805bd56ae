//! Which requests the head of a policy is about, before its conditions are looked at.

use cedar_policy::{ActionConstraint, EntityUid, Policy, ResourceConstraint};

use crate::judge::action;

#[derive(Debug, Clone)]
pub struct Scope {
    /// Names of actions or groups; none is any.
    actions: Option<Vec<String>>,
    /// The server; none is any.
    server: Option<String>,
}

/// A request as scopes see it.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub action: &'a str,
    /// `call`, `read` or `prompt`.
    pub kind: &'a str,
    /// The server's name, and as it is written in actions.
    pub server: &'a str,
    pub group: &'a str,
}

impl Scope {
    pub fn of(policy: &Policy) -> Self {
        let id = |uid: &EntityUid| uid.id().unescaped().to_owned();
        let actions = match policy.action_constraint() {
            ActionConstraint::Any => None,
            ActionConstraint::Eq(uid) => Some(vec![id(&uid)]),
            ActionConstraint::In(uids) => Some(uids.iter().map(id).collect()),
        };
        let server = match policy.resource_constraint() {
            ResourceConstraint::Any | ResourceConstraint::Is(_) => None,
            ResourceConstraint::In(uid) | ResourceConstraint::Eq(uid) | ResourceConstraint::IsIn(_, uid) => {
                Some(id(&uid))
            }
        };
        Scope { actions, server }
    }

    /// The actions that are named; none is any.
    pub fn actions(&self) -> Option<&[String]> {
        self.actions.as_deref()
    }

    pub fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    pub fn matches(&self, place: Place<'_>) -> bool {
        let named = |name: &String| names(name, place);
        self.server.as_deref().is_none_or(|server| server == place.server)
            && self.actions.as_ref().is_none_or(|actions| actions.iter().any(named))
    }

    /// Whether a policy that does not fit the tools could have been meant for this: a name that does not exist
    /// may be any of its server, and if there is no such server, any at all.
    pub fn may_mean(
        &self,
        place: Place<'_>,
        exists: impl Fn(&str) -> bool,
        is_server: impl Fn(&str) -> bool,
    ) -> bool {
        let server_fits = |name: &str| name == place.server || !is_server(name);
        let action_fits = |name: &String| {
            if exists(name) {
                return names(name, place);
            }
            match action::server_part(name) {
                Some(part) => part == place.group || !exists(part),
                None => true,
            }
        };
        self.server.as_deref().is_none_or(server_fits)
            && self.actions.as_ref().is_none_or(|actions| actions.iter().any(action_fits))
    }
}

fn names(name: &str, place: Place<'_>) -> bool {
    // The group of a server holds its tools, not what is read from it.
    name == place.action || name == place.kind || (name == place.group && place.kind == action::CALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(head: &str) -> Scope {
        Scope::of(&Policy::parse(None, format!("permit({head});")).expect("a policy"))
    }

    const PUSH: Place<'static> = Place { action: "git/push", kind: "call", server: "git", group: "git" };
    const READ: Place<'static> = Place { action: "git#read", kind: "read", server: "git", group: "git" };

    #[test]
    fn a_scope_matches_what_cedar_would() {
        for (head, push, read) in [
            ("principal, action, resource", true, true),
            ("principal, action == Action::\"git/push\", resource", true, false),
            ("principal, action in [Action::\"fs\", Action::\"git\"], resource", true, false),
            ("principal, action in Action::\"call\", resource", true, false),
            ("principal, action in Action::\"read\", resource", false, true),
            ("principal, action, resource == Server::\"fs\"", false, false),
            ("principal, action, resource is Server", true, true),
        ] {
            let scope = scope(head);
            assert_eq!((scope.matches(PUSH), scope.matches(READ)), (push, read), "{head}");
        }
    }

    #[test]
    fn a_name_that_does_not_exist_may_mean_anything_of_its_server() {
        let exists =
            |name: &str| ["git", "git/push", "git#read", "fs", "fs/read", "call", "read"].contains(&name);
        let server = |name: &str| ["git", "fs"].contains(&name);
        let may = |head: &str| scope(head).may_mean(PUSH, exists, server);
        assert!(may("principal, action == Action::\"git/psuh\", resource"));
        assert!(!may("principal, action == Action::\"fs/psuh\", resource"));
        assert!(may("principal, action == Action::\"gti/push\", resource"));
        assert!(!may("principal, action == Action::\"fs/read\", resource"));
        assert!(may("principal, action, resource == Server::\"gti\""));
        assert!(!may("principal, action, resource == Server::\"fs\""));
    }
}
