//! What a call does with a path, as far as names tell: words of the tool's name, of the argument's, and of arguments
//! that choose a deed (`action: "delete"`). Writing is assumed when they say nothing. What the server claims in its
//! hints only makes it stricter: a `readOnlyHint` that is true changes nothing, since any server can say so.

use serde_json::Value;

use super::words::words;
use crate::{call::Call, facts::Access};

/// What the tool does, before the argument is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Read,
    Write,
    Delete,
    /// Deletes here, writes there.
    Move,
    /// Reads here, writes there.
    Copy,
    Unknown,
}

/// From the mildest on: what copies and edits writes to both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verb {
    Read,
    Copy,
    Write,
    Move,
    Delete,
}

impl Deed {
    pub fn of(call: &Call<'_>) -> Deed {
        let mut verb = strictest(words(&call.tool.name).iter().map(String::as_str));
        for (name, value) in call.arguments {
            if !chooses_deed(name) {
                continue;
            }
            for text in texts(value) {
                let chosen = text.split(|c: char| !c.is_alphabetic()).take(8).map(str::to_lowercase);
                let chosen: Vec<String> = chosen.collect();
                let chosen =
                    strictest(chosen.iter().map(String::as_str)).filter(|chosen| *chosen != Verb::Read);
                verb = verb.max(chosen);
            }
        }
        let hints = call.tool.hints;
        let destructive = hints.destructive_hint == Some(true);
        match verb {
            Some(Verb::Read) if destructive || hints.read_only_hint == Some(false) => Deed::Write,
            Some(Verb::Read) => Deed::Read,
            Some(Verb::Write) => Deed::Write,
            Some(Verb::Delete) => Deed::Delete,
            Some(Verb::Move) => Deed::Move,
            Some(Verb::Copy) => Deed::Copy,
            None if destructive => Deed::Delete,
            None => Deed::Unknown,
        }
    }

    /// What happens to the argument of this name.
    pub fn access(self, name: &[String]) -> Access {
        let is = |list: &[&str]| name.iter().any(|word| list.contains(&word.as_str()));
        let receives = is(&["destination", "dest", "dst", "to", "new", "target", "output", "out", "save"]);
        let gives = is(&["source", "sources", "src", "from", "old", "input"]);
        let access = match self {
            Deed::Read if is(&["destination", "dest", "dst", "output", "out", "save", "outfile"]) => {
                Access::Write
            }
            Deed::Read => Access::Read,
            Deed::Write | Deed::Unknown => Access::Write,
            Deed::Delete => Access::Delete,
            Deed::Move if receives && !gives => Access::Write,
            Deed::Move => Access::Delete,
            Deed::Copy if gives && !receives => Access::Read,
            Deed::Copy => Access::Write,
        };
        if strictest(name.iter().map(String::as_str)) == Some(Verb::Delete) { Access::Delete } else { access }
    }
}

fn chooses_deed(name: &str) -> bool {
    matches!(
        name,
        "action"
            | "operation"
            | "op"
            | "command"
            | "subcommand"
            | "cmd"
            | "args"
            | "argv"
            | "mode"
            | "method"
    )
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let one = value.as_str();
    let many = value.as_array().map(Vec::as_slice).unwrap_or_default();
    one.into_iter().chain(many.iter().filter_map(Value::as_str))
}

fn strictest<'a>(words: impl Iterator<Item = &'a str>) -> Option<Verb> {
    words.filter_map(verb_of).max()
}

fn verb_of(word: &str) -> Option<Verb> {
    if ["delete", "remove", "unlink", "rmdir"].iter().any(|verb| word.starts_with(verb)) {
        return Some(Verb::Delete);
    }
    let verb = match word {
        "rm" | "erase" | "purge" | "clean" | "drop" | "trash" | "destroy" | "wipe" | "prune" | "discard"
        | "shred" | "del" => Verb::Delete,
        "move" | "mv" | "rename" | "relocate" => Verb::Move,
        "copy" | "cp" | "duplicate" => Verb::Copy,
        "write" | "edit" | "create" | "make" | "mkdir" | "touch" | "append" | "update" | "modify" | "set"
        | "save" | "put" | "insert" | "replace" | "patch" | "download" | "add" | "commit" | "init"
        | "clone" | "checkout" | "reset" | "merge" | "rebase" | "apply" | "extract" | "unzip" | "zip"
        | "compress" | "chmod" | "chown" | "install" | "run" | "exec" | "execute" | "build" | "sync"
        | "import" | "export" | "generate" | "convert" | "push" | "pull" | "fetch" | "stash" | "restore"
        | "revert" | "cherry" | "store" | "link" | "symlink" | "truncate" | "overwrite" | "change"
        | "fix" | "upsert" | "swap" | "clear" | "upload" | "post" | "submit" | "eval" | "start"
        | "launch" | "test" => Verb::Write,
        "read" | "get" | "list" | "search" | "find" | "info" | "stat" | "stats" | "show" | "view" | "cat"
        | "head" | "tail" | "grep" | "ls" | "tree" | "exists" | "status" | "diff" | "log" | "describe"
        | "inspect" | "count" | "glob" | "lookup" | "peek" | "blame" => Verb::Read,
        _ => return None,
    };
    Some(verb)
}
