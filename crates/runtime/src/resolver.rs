//! What programs inside read about names: a resolver configuration that leads to the sandbox's own name server,
//! and a table of hosts without the host's own entries (a name that is listed there resolves outside, where it
//! can be judged).

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use lazaret_sandbox::{linux::network::RESOLVER, spec::Entry};

use crate::{paths::canonical, view::View};

const CONFIGURATION: &str = "/etc/resolv.conf";
const HOSTS: &str = "/etc/hosts";

/// The domains that the host appends to short names.
pub fn search_list() -> Vec<String> {
    search_in(&fs::read_to_string(CONFIGURATION).unwrap_or_default())
}

fn search_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if let Some("search" | "domain") = words.next() {
            // The last one counts.
            found = words.filter(|word| is_domain(word)).take(6).map(str::to_owned).collect();
        }
    }
    found
}

fn is_domain(word: &str) -> bool {
    word.len() <= 253 && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// The files, for a view in which names can be looked up.
pub fn texts(view: &View<'_>) -> Vec<Entry> {
    let mut configuration = format!("nameserver {RESOLVER}\noptions timeout:5 attempts:2\n");
    let search = search_list();
    if !search.is_empty() {
        configuration.push_str(&format!("search {}\n", search.join(" ")));
    }
    let hosts = hosts_from(&fs::read_to_string(HOSTS).unwrap_or_default());
    [(CONFIGURATION, configuration), (HOSTS, hosts)]
        .into_iter()
        .filter_map(|(path, content)| Some(Entry::Text { path: place_of(view, Path::new(path))?, content }))
        .collect()
}

/// Where a program that opens the path ends up; `None` when nothing can be put there.
fn place_of(view: &View<'_>, path: &Path) -> Option<PathBuf> {
    if let Ok(place) = canonical(path) {
        return Some(place);
    }
    match fs::read_link(path) {
        // A link to what the host does not have at the moment, or does not show.
        Ok(target) => {
            let place = path.parent().unwrap_or(path).join(target);
            let normal: PathBuf = place.components().fold(PathBuf::new(), |mut place, component| {
                match component {
                    std::path::Component::ParentDir => drop(place.pop()),
                    other => place.push(other),
                }
                place
            });
            (!view.visible(&normal)).then_some(normal)
        }
        // Nothing there: it can be made, unless its directory is the host's.
        Err(_) => (!view.visible(path)).then(|| path.to_owned()),
    }
}

/// Loopback names stay; what the host knows of other machines is its own business.
fn hosts_from(text: &str) -> String {
    let mut hosts = "127.0.0.1 localhost lazaret\n::1 localhost ip6-localhost ip6-loopback\n".to_owned();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else { continue };
        if !address.is_loopback() {
            continue;
        }
        for name in words.filter(|name| is_domain(name) && !name.starts_with("ip6-") && *name != "localhost")
        {
            hosts.push_str(&format!("{address} {name}\n"));
        }
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_search_line_counts_and_nonsense_does_not() {
        let text = "nameserver 10.0.0.1\nsearch a.test b.test\n# search c.test\nsearch corp.example x/y\n";
        assert_eq!(search_in(text), ["corp.example"]);
        assert_eq!(search_in("nameserver 1.1.1.1"), Vec::<String>::new());
    }

    #[test]
    fn only_loopback_names_of_the_host_are_passed_on() {
        let hosts =
            hosts_from("127.0.0.1 localhost\n127.0.1.1 box myapp.local # mine\n10.1.2.3 secret.corp\n");
        assert!(hosts.contains("127.0.1.1 myapp.local\n"), "{hosts}");
        assert!(!hosts.contains("secret") && !hosts.contains("10.1.2.3"), "{hosts}");
    }
}
