//! The names of actions, by which policies speak of tools.
//!
//! | name | what |
//! |---|---|
//! | `git/git_push` | calls of one tool; member of `git` and `call` |
//! | `git#read`, `git#prompt` | reading a resource, getting a prompt; members of `read`, `prompt` |
//! | `git` | all calls of tools of one server |
//! | `call`, `read`, `prompt` | everything of its kind |
//!
//! No two things have one name: of a server's name `%`, `/` and `#` are written `%25`, `%2F` and `%23`, so that
//! the first `/` ends it, and a server that is called `call`, `read` or `prompt` is `%call`, `%read`, `%prompt`.
//! A tool's name is written as it is.

use cedar_policy::{EntityId, EntityTypeName, EntityUid};

pub const CALL: &str = "call";
pub const READ: &str = "read";
pub const PROMPT: &str = "prompt";

pub fn server(name: &str) -> String {
    if [CALL, READ, PROMPT].contains(&name) {
        return format!("%{name}");
    }
    let mut written = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '%' => written.push_str("%25"),
            '/' => written.push_str("%2F"),
            '#' => written.push_str("%23"),
            other => written.push(other),
        }
    }
    written
}

pub fn tool(server_name: &str, tool_name: &str) -> String {
    format!("{}/{tool_name}", server(server_name))
}

pub fn read(server_name: &str) -> String {
    format!("{}#{READ}", server(server_name))
}

pub fn prompt(server_name: &str) -> String {
    format!("{}#{PROMPT}", server(server_name))
}

/// The server's part of a name, as it is written there; the kinds have none.
pub fn server_part(action: &str) -> Option<&str> {
    match action {
        CALL | READ | PROMPT => None,
        _ => action.split(['/', '#']).next(),
    }
}

/// The three types of entities.
#[derive(Debug)]
pub struct Types {
    pub action: EntityTypeName,
    pub agent: EntityTypeName,
    pub server: EntityTypeName,
}

impl Types {
    pub fn new() -> Option<Self> {
        let name = |text: &str| text.parse::<EntityTypeName>().ok();
        Some(Types { action: name("Action")?, agent: name("Agent")?, server: name("Server")? })
    }

    pub fn action(&self, id: &str) -> EntityUid {
        EntityUid::from_type_name_and_id(self.action.clone(), EntityId::new(id))
    }

    pub fn server(&self, name: &str) -> EntityUid {
        EntityUid::from_type_name_and_id(self.server.clone(), EntityId::new(name))
    }

    /// The one who calls. There is one client, so there is one agent.
    pub fn client(&self) -> EntityUid {
        EntityUid::from_type_name_and_id(self.agent.clone(), EntityId::new(CLIENT))
    }
}

pub const CLIENT: &str = "client";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn servers_with_names_of_kinds_have_names_of_their_own() {
        assert_eq!(server("git"), "git");
        assert_eq!(server("call"), "%call");
        assert_eq!(server("%call"), "%25call");
        assert_eq!(tool("a/b", "c"), "a%2Fb/c");
        assert_eq!(tool("a", "b/c"), "a/b/c");
        assert_eq!(server_part("a%2Fb/c"), Some("a%2Fb"));
        assert_eq!(server_part("git#read"), Some("git"));
        assert_eq!(server_part("read"), None);
    }

    fn name() -> impl Strategy<Value = String> {
        prop_oneof!["[ab/#%]{0,4}", "call|read|prompt|%call|%25call|git#read"]
    }

    proptest! {
        #[test]
        fn no_two_things_have_one_name(a in name(), b in name(), x in name(), y in name()) {
            let names = |s: &str, t: &str| [server(s), tool(s, t), read(s), prompt(s)];
            prop_assert_eq!(names(&a, &x) == names(&b, &y), a == b && x == y);
            let all = names(&a, &x);
            for (at, one) in all.iter().enumerate() {
                prop_assert!(![CALL, READ, PROMPT].contains(&one.as_str()));
                for (other_at, other) in names(&b, &y).iter().enumerate() {
                    prop_assert!(one != other || at == other_at);
                }
            }
        }
    }
}
