//! Under which names the client sees the tools and prompts of all servers: their own where only one server has
//! it, else `server__tool`. A name once given keeps its meaning for the session: a server that adds a tool later
//! cannot take the name of another's.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sha2::{Digest as _, Sha256};

/// Which server, by its position in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerIndex(pub usize);

/// When a name gets its server's name in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Naming {
    /// When two servers have the same.
    #[default]
    Auto,
    Always,
}

/// What a server has.
#[derive(Debug, Clone)]
pub struct Claim<'a> {
    pub server: ServerIndex,
    pub server_name: &'a str,
    pub own_names: Vec<&'a str>,
}

#[derive(Debug, Default)]
pub struct Names {
    naming: Naming,
    given: BTreeMap<String, (ServerIndex, String)>,
    reverse: HashMap<(ServerIndex, String), String>,
    servers: Vec<(ServerIndex, String)>,
}

/// The longest name that common clients accept.
const LONGEST: usize = 64;

impl Names {
    pub fn new(naming: Naming) -> Names {
        Names { naming, ..Names::default() }
    }

    /// Gives names to what has none yet.
    pub fn give(&mut self, claims: &[Claim<'_>]) {
        let mut wanted: BTreeMap<&str, BTreeSet<ServerIndex>> = BTreeMap::new();
        for claim in claims {
            if !self.servers.iter().any(|(server, _)| *server == claim.server) {
                self.servers.push((claim.server, claim.server_name.to_owned()));
            }
            for name in &claim.own_names {
                wanted.entry(name).or_default().insert(claim.server);
            }
        }
        for claim in claims {
            for name in &claim.own_names {
                let key = (claim.server, (*name).to_owned());
                if self.reverse.contains_key(&key) {
                    continue;
                }
                let contested = wanted.get(name).is_some_and(|servers| servers.len() > 1);
                // The long form of another server's tools is that server's.
                let imitates = self.servers.iter().any(|(server, other)| {
                    *server != claim.server
                        && name.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with("__"))
                });
                let plain =
                    self.naming == Naming::Auto && !contested && !imitates && !self.given.contains_key(*name);
                let given = if plain { (*name).to_owned() } else { self.prefixed(claim.server_name, name) };
                self.given.insert(given.clone(), key.clone());
                self.reverse.insert(key, given);
            }
        }
    }

    fn prefixed(&self, server: &str, name: &str) -> String {
        let plain = |text: &str| -> String {
            let keep = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
            text.chars().map(keep).collect()
        };
        let whole = format!("{}__{}", plain(server), plain(name));
        if whole.len() <= LONGEST && !self.given.contains_key(&whole) {
            return whole;
        }
        let mut round = 0_u32;
        loop {
            let digest = Sha256::digest(format!("{server}\0{name}\0{round}"));
            let suffix: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            let head: String = whole.chars().take(LONGEST - 9).collect();
            let short = format!("{head}_{suffix}");
            if !self.given.contains_key(&short) {
                return short;
            }
            round += 1;
        }
    }

    /// The name that the client sees.
    pub fn shown(&self, server: ServerIndex, own: &str) -> Option<&str> {
        self.reverse.get(&(server, own.to_owned())).map(String::as_str)
    }

    /// What a client means: a name that it was shown, or `server__tool`.
    pub fn meaning(&self, shown: &str) -> Option<(ServerIndex, &str)> {
        if let Some((server, own)) = self.given.get(shown) {
            return Some((*server, own));
        }
        self.servers.iter().find_map(|(server, name)| {
            let own = shown.strip_prefix(name.as_str())?.strip_prefix("__")?;
            let ((server, own), _) = self.reverse.get_key_value(&(*server, own.to_owned()))?;
            Some((*server, own.as_str()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIT: ServerIndex = ServerIndex(0);
    const FILES: ServerIndex = ServerIndex(1);

    fn claim<'a>(server: ServerIndex, name: &'a str, own: &[&'a str]) -> Claim<'a> {
        Claim { server, server_name: name, own_names: own.to_vec() }
    }

    #[test]
    fn a_name_that_two_servers_have_gets_the_server_in_front_for_both() {
        let mut names = Names::new(Naming::Auto);
        names.give(&[claim(GIT, "git", &["log", "status"]), claim(FILES, "files", &["read", "status"])]);
        assert_eq!(names.shown(GIT, "log"), Some("log"));
        assert_eq!(names.shown(GIT, "status"), Some("git__status"));
        assert_eq!(names.shown(FILES, "status"), Some("files__status"));
        assert_eq!(names.meaning("status"), None);
        assert_eq!(names.meaning("files__status"), Some((FILES, "status")));
        // The long form always works.
        assert_eq!(names.meaning("git__log"), Some((GIT, "log")));
    }

    #[test]
    fn a_later_tool_cannot_take_a_name_that_was_given() {
        let mut names = Names::new(Naming::Auto);
        names.give(&[claim(GIT, "git", &["log"]), claim(FILES, "files", &["read"])]);
        names.give(&[claim(GIT, "git", &["log"]), claim(FILES, "files", &["read", "log", "git__log"])]);
        assert_eq!(names.meaning("log"), Some((GIT, "log")));
        assert_eq!(names.shown(FILES, "log"), Some("files__log"));
        assert_eq!(names.meaning("files__log"), Some((FILES, "log")));
    }

    #[test]
    fn nobody_takes_the_long_name_of_anothers_tool() {
        let mut names = Names::new(Naming::Auto);
        names.give(&[claim(GIT, "evil", &["good__read"]), claim(FILES, "good", &["read"])]);
        assert_eq!(names.shown(GIT, "good__read"), Some("evil__good__read"));
        assert_eq!(names.meaning("good__read"), Some((FILES, "read")));
    }

    #[test]
    fn long_odd_and_contrived_names_stay_apart_and_acceptable() {
        let long = "x".repeat(200);
        let mut names = Names::new(Naming::Always);
        names.give(&[claim(GIT, "a", &["b__c", "sp ace", &long]), claim(FILES, "a__b", &["c", "sp_ace"])]);
        let shown: Vec<&str> =
            [(GIT, "b__c"), (GIT, "sp ace"), (GIT, long.as_str()), (FILES, "c"), (FILES, "sp_ace")]
                .iter()
                .map(|(server, own)| names.shown(*server, own).unwrap())
                .collect();
        let different: BTreeSet<&&str> = shown.iter().collect();
        assert_eq!(different.len(), shown.len(), "{shown:?}");
        assert!(shown.iter().all(|name| name.len() <= LONGEST));
        for (name, (server, own)) in shown.iter().zip([(GIT, "b__c"), (GIT, "sp ace")]) {
            assert_eq!(names.meaning(name), Some((server, own)));
        }
    }
}
