//! Options and addresses among the free arguments of a git tool (`args`, `refspec`, `branch`, …): what git would take
//! for more than the name of a branch.

use serde_json::Value;

use super::{GitFault, remotes};
use crate::classify::words::{Roles, words};

/// Options that lead elsewhere or run a program. Git takes any beginning of a long one.
const LONG: [&str; 8] = [
    "--config",
    "--config-env",
    "--repo",
    "--upload-pack",
    "--receive-pack",
    "--exec",
    "--exec-path",
    "--git-dir",
];
/// Options without a value. Behind every other one stands a word that may be its value.
const FLAGS: [&str; 22] = [
    "--all",
    "--atomic",
    "--delete",
    "--dry-run",
    "--ff-only",
    "--follow-tags",
    "--force",
    "--force-with-lease",
    "--mirror",
    "--no-verify",
    "--porcelain",
    "--prune",
    "--quiet",
    "--set-upstream",
    "--tags",
    "--verbose",
    "-d",
    "-f",
    "-p",
    "-q",
    "-u",
    "-v",
];
const COMMANDS: [&str; 8] = ["git", "push", "fetch", "pull", "clone", "ls-remote", "remote", "submodule"];
const MOST_NESTED: usize = 16;
const MOST_ADDRESSES: usize = 64;
const MOST_WORDS: usize = 256;

/// What the free arguments of one call say.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Addresses, with their arguments.
    pub remotes: Vec<(String, String)>,
    /// Single words, any of which may be the name of a remote.
    pub words: Vec<String>,
    /// `--all`.
    pub every_remote: bool,
    /// `-u` is `--upload-pack` then, while that of a push is harmless.
    pub clones: bool,
}

impl Said {
    /// Looks through one argument of a tool that fetches, pushes or clones.
    pub fn look(&mut self, pointer: &str, argument: &str, value: &Value) -> Result<(), GitFault> {
        let name = words(argument);
        let is = |list: &[&str]| name.iter().any(|word| list.contains(&word.as_str()));
        let commands = is(&["command", "subcommand", "cmd", "script"]);
        if !commands && Roles::of_name(&name).is_some_and(|roles| roles.text) {
            return Ok(());
        }
        // `a:b` is a refspec, a file or a time of day there.
        let local = Roles::of_name(&name).is_some_and(|roles| roles.path.is_some());
        let refspec = is(&["refspec", "refspecs", "ref", "refs", "branch", "branches", "tag", "tags"])
            || is(&["since", "until", "date", "time", "after", "before"]);
        let mut place = if local || refspec { Place::Refspec } else { Place::Anything };
        self.value(pointer, value, &mut place, 0)
    }

    fn value(
        &mut self,
        pointer: &str,
        value: &Value,
        place: &mut Place,
        depth: usize,
    ) -> Result<(), GitFault> {
        match value {
            _ if depth > MOST_NESTED => Ok(()),
            Value::String(text) => {
                // Whoever splits a text as a shell does takes these away.
                let bare = |token: &str| token.replace(['\'', '"', '\\'], "");
                text.split_whitespace().try_for_each(|token| self.token(pointer, &bare(token), place))
            }
            Value::Array(values) => {
                values.iter().try_for_each(|value| self.value(pointer, value, place, depth + 1))
            }
            Value::Object(members) => {
                members.values().try_for_each(|value| self.value(pointer, value, place, depth + 1))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    fn token(&mut self, pointer: &str, token: &str, place: &mut Place) -> Result<(), GitFault> {
        if token.starts_with('-') {
            if is_refused(token) || self.clones && token.starts_with("-u") {
                return Err(GitFault::FreeOption { option: token.chars().take(100).collect() });
            }
            self.every_remote |= token == "--all";
            if *place == Place::Anything && !token.contains('=') && !FLAGS.contains(&token) {
                *place = Place::Value;
            }
            return Ok(());
        }
        // A remote comes before the refspecs, so that a later `a:b` is one.
        let sure = token.contains("://") || token.contains("::");
        let counts = match place {
            Place::Anything | Place::Value => remotes::is_scp(token),
            Place::Refspec => remotes::is_scp(token) && names_host(token),
        };
        if sure || counts {
            let remote = (pointer.to_owned(), token.to_owned());
            if !self.remotes.contains(&remote) {
                if self.remotes.len() == MOST_ADDRESSES {
                    return Err(GitFault::TooManyAddresses);
                }
                self.remotes.push(remote);
            }
            *place = Place::Refspec;
            return Ok(());
        }
        *place = match *place {
            Place::Anything if !COMMANDS.contains(&token) => Place::Refspec,
            Place::Value => Place::Anything,
            same => same,
        };
        if self.words.len() < MOST_WORDS {
            self.words.push(token.to_owned());
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The remote may come next.
    Anything,
    /// The value of an option may come next.
    Value,
    /// A remote came before, or refspecs are all there is.
    Refspec,
}

fn is_refused(token: &str) -> bool {
    let option = token.split('=').next().unwrap_or_default();
    // Its value may stand right behind it.
    let short = !option.starts_with("--") && option.starts_with("-c");
    let long =
        option.len() > 2 && option.starts_with("--") && LONG.iter().any(|long| long.starts_with(option));
    short || long
}

/// Does something before the colon say that it is a host: a user, brackets, an address or the end of a domain? The dot
/// of `v1.0:v1.0` does not.
fn names_host(token: &str) -> bool {
    let Some((host, _)) = token.split_once(':') else { return false };
    let end = host.trim_end_matches('.').rsplit_once('.').map(|(_, end)| end);
    host.contains(['@', '['])
        || end.is_some_and(|end| end.chars().all(char::is_alphabetic))
        || host.parse::<std::net::Ipv4Addr>().is_ok()
}
