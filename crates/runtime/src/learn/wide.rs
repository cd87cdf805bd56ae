//! The policy of a run that is learnt from: everything that the caller may read can be read, secrets excepted,
//! and only what was said to be writable is.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use lazaret_sandbox::spec::Kind;

use crate::{
    paths::{canonical, canonical_as_far_as_it_exists, is_at_or_below, look},
    request::Request,
};

/// Never shown as a whole: what the kernel makes, what is private in a sandbox, what programs talk to each
/// other in, and the homes of others.
const HIDDEN: [&str; 10] =
    ["/proc", "/sys", "/dev", "/tmp", "/run", "/home", "/root", "/boot", "/lost+found", "/var/tmp"];
/// Shown although it lies in a hidden place: programs, on some systems.
const SHOWN: [&str; 1] = ["/run/current-system"];
/// So many things of one directory are shown one by one.
const MOST: usize = 1000;

/// Makes everything visible that may be; what the policy denies is not even there. Says what a person should
/// know.
pub fn widen(request: &mut Request) -> Vec<String> {
    let home = request.home.as_ref().map(|home| canonical(home).unwrap_or_else(|_| home.clone()));
    let home = home.filter(|home| home != Path::new("/"));
    let mut wide = Wide { apart: apart(request, home.as_deref()), ..Wide::default() };
    wide.show(Path::new("/"));
    for path in SHOWN {
        wide.show(Path::new(path));
    }
    // Of a hidden place, what lies beside the directory that the command is started in.
    let directory = canonical(&request.directory).unwrap_or_else(|_| request.directory.clone());
    let is_hidden = |path: &Path| HIDDEN.iter().any(|hidden| is_at_or_below(path, Path::new(hidden)));
    if let Some(parent) = directory.parent().filter(|parent| is_hidden(parent) && !wide.holds_hidden(parent))
    {
        wide.show(parent);
    }
    if let Some(home) = &home {
        // One by one, so that home itself stays private: what is new in it is not the host's.
        for entry in wide.entries(home) {
            wide.show(&entry);
        }
    }
    // What is in a writable path is writable with it, unless it is listed as something else.
    let files = &mut request.policy.filesystem;
    let listed = files.read_write_paths.iter().filter(|path| *path != Path::new(".")).cloned();
    let writable: Vec<PathBuf> =
        std::iter::once(directory).chain(listed.filter_map(|path| canonical(&path).ok())).collect();
    wide.visible.retain(|path| {
        let path = canonical(path).unwrap_or_else(|_| path.clone());
        // The root directory is never writable, whoever asks.
        !writable.iter().filter(|above| *above != Path::new("/")).any(|above| is_at_or_below(&path, above))
    });
    files.read_only_paths.extend(wide.visible);
    files.toolchains = false;
    wide.notes
}

/// Has something vanished that was to be visible? What lies in a home comes and goes.
pub fn has_vanished(visible: &[PathBuf]) -> bool {
    visible.iter().any(|path| path.is_absolute() && look(path).is_err())
}

/// What must not lie in anything that is shown as a whole: home, which is private, what is hidden, and what is
/// denied. (Denied names in a visible directory would be held by guards, which make every open slow.)
fn apart(request: &Request, home: Option<&Path>) -> Vec<PathBuf> {
    let denied =
        request.policy.filesystem.denied_paths.iter().filter_map(|path| match path.strip_prefix("~") {
            Ok(rest) => home.map(|home| home.join(rest)),
            Err(_) => Some(path.clone()),
        });
    let own = request.own_directories.iter().cloned();
    let named: Vec<PathBuf> = denied.chain(own).collect();
    let resolved = named.iter().map(|path| canonical_as_far_as_it_exists(path, &mut Vec::new()).0);
    let mut apart: Vec<PathBuf> = resolved.collect();
    apart.extend(named);
    apart.extend(home.map(Path::to_owned));
    apart.extend(HIDDEN.iter().map(PathBuf::from));
    apart.sort();
    apart.dedup();
    apart
}

#[derive(Debug, Default)]
struct Wide {
    apart: Vec<PathBuf>,
    visible: BTreeSet<PathBuf>,
    notes: Vec<String>,
}

impl Wide {
    /// Is the directory, or something in it, a hidden place itself?
    fn holds_hidden(&self, directory: &Path) -> bool {
        HIDDEN.iter().any(|hidden| is_at_or_below(Path::new(hidden), directory))
    }

    /// Shows something; a directory that has to be shown without something in it is, name by name.
    fn show(&mut self, top: &Path) {
        let Ok(found) = look(top) else { return };
        if self.apart.iter().any(|apart| apart == top) {
            return;
        }
        let holds = |directory: &Path| self.apart.iter().any(|apart| is_at_or_below(apart, directory));
        if holds(top) && found.path == top {
            for entry in self.entries(top) {
                self.show(&entry);
            }
            return;
        }
        // A link must not show what is hidden, or make a socket reachable.
        let leads_astray = found.path != top
            && (holds(&found.path) || self.apart.iter().any(|apart| is_at_or_below(&found.path, apart)));
        let plain = found.kind == Kind::Directory || fs::metadata(&found.path).is_ok_and(|it| it.is_file());
        if plain && !leads_astray {
            self.visible.insert(top.to_owned());
        }
    }

    fn entries(&mut self, directory: &Path) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
        let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        entries.sort();
        if entries.len() > MOST {
            self.notes.push(format!("only the first {MOST} names of {} are visible", directory.display()));
            entries.truncate(MOST);
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use lazaret_policy::Policy;

    use super::*;

    #[test]
    fn system_directories_are_visible_and_what_the_kernel_makes_is_not() {
        let mut request = Request::new(Policy::default(), "/no-such-place", "/var/log/lazaret-audit");
        widen(&mut request);
        let visible = &request.policy.filesystem.read_only_paths;
        assert!(visible.contains(&PathBuf::from("/usr")) && visible.contains(&PathBuf::from("/etc")));
        for hidden in HIDDEN {
            assert!(!visible.iter().any(|path| path.starts_with(hidden)), "{hidden}");
        }
    }

    #[test]
    fn home_is_shown_name_by_name_and_never_itself() {
        let base =
            std::env::temp_dir().canonicalize().unwrap().join(format!("lazaret-wide-{}", std::process::id()));
        let (home, work) = (base.join("users/me"), base.join("work"));
        for name in ["notes", ".ssh", ".config/secret", ".config/tool"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        for directory in [work.clone(), base.join("users/other"), base.join("state/other")] {
            fs::create_dir_all(directory).unwrap();
        }
        std::os::unix::fs::symlink("/", home.join("everything")).unwrap();
        std::os::unix::fs::symlink("/proc/self", home.join("kernel")).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(home.join("socket")).unwrap();
        let mut policy = Policy::default();
        policy.filesystem.denied_paths = vec!["~/.ssh".into(), "~/.config/secret".into()];
        let mut request = Request::new(policy, &work, base.join("state/log"));
        request.home = Some(home.clone());
        widen(&mut request);
        let visible = request.policy.filesystem.read_only_paths;
        for (path, expected) in [
            (home.join("notes"), true),
            (base.join("users/other"), true),
            (home.join(".ssh"), false),
            (home.join(".config"), false),
            (home.join(".config/secret"), false),
            (home.join(".config/tool"), true),
            (base.join("state"), false),
            (base.join("state/other"), true),
            // It is writable.
            (work, false),
            (home.join("everything"), false),
            (home.join("kernel"), false),
            (home.join("socket"), false),
            (home.clone(), false),
            (base.join("users"), false),
            (base.clone(), false),
        ] {
            assert_eq!(visible.contains(&path), expected, "{path:?}");
        }
        drop(socket);
        fs::remove_dir_all(base).unwrap();
    }
}
