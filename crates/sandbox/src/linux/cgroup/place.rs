//! Where a control group can be made: beside or below the caller's own, in the nearest directory that offers
//! the controllers and may be written to. That is root's own place, and for an ordinary user the subtree that
//! systemd delegates.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    One,
    Two,
}

/// A directory in which a group with these controllers can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub version: Version,
    pub parent: PathBuf,
    pub controllers: Vec<&'static str>,
}

/// A mounted hierarchy, and where the caller is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    version: Version,
    /// Empty for version 2.
    controllers: Vec<String>,
    top: PathBuf,
    own: PathBuf,
}

/// Places for all of the wanted controllers, or nothing.
pub fn find(wanted: &[&'static str]) -> Option<Vec<Place>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
    let hierarchies = hierarchies(&mounts, &membership);
    let mut left: Vec<&'static str> = wanted.to_vec();
    let mut places = Vec::new();
    if let Some(two) = hierarchies.iter().find(|hierarchy| hierarchy.version == Version::Two)
        && let Some(place) = place_in_two(two, &left)
    {
        left.retain(|name| !place.controllers.contains(name));
        places.push(place);
    }
    for hierarchy in hierarchies.iter().filter(|hierarchy| hierarchy.version == Version::One) {
        let controllers: Vec<&'static str> = left
            .iter()
            .copied()
            .filter(|name| hierarchy.controllers.iter().any(|has| has == in_version_one(name)))
            .collect();
        if controllers.is_empty() || !is_writable(&hierarchy.own) {
            continue;
        }
        left.retain(|name| !controllers.contains(name));
        places.push(Place { version: Version::One, parent: hierarchy.own.clone(), controllers });
    }
    left.is_empty().then_some(places)
}

/// Whole disks, by number.
pub fn disks() -> Vec<String> {
    let blocks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    blocks
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            !["loop", "ram", "zram", "sr", "fd"].iter().any(|virtual_one| name.starts_with(virtual_one))
        })
        .filter_map(|entry| fs::read_to_string(entry.path().join("dev")).ok())
        .map(|number| number.trim().to_owned())
        .collect()
}

fn in_version_one(name: &str) -> &str {
    if name == "io" { "blkio" } else { name }
}

fn hierarchies(mounts: &str, membership: &str) -> Vec<Hierarchy> {
    mounts.lines().filter_map(|line| hierarchy(line, membership)).collect()
}

/// One line of mountinfo, if it is a hierarchy that the caller is in.
fn hierarchy(line: &str, membership: &str) -> Option<Hierarchy> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    let (root, top) = (fields.next()?, PathBuf::from(fields.next()?));
    let mut filesystem = filesystem.split(' ');
    let kind = filesystem.next()?;
    let options: Vec<String> = filesystem.nth(1)?.split(',').map(str::to_owned).collect();
    let (version, path) = match kind {
        "cgroup2" => (Version::Two, membership.lines().find_map(|line| line.strip_prefix("0::"))?),
        "cgroup" => {
            let own = membership.lines().find_map(|line| {
                let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
                let mut names = controllers.split(',');
                let named = !controllers.is_empty() && names.any(|name| options.iter().any(|o| o == name));
                named.then_some(path)
            })?;
            (Version::One, own)
        }
        _ => return None,
    };
    // What is mounted may be only a part of the hierarchy, as containers have it.
    let below = Path::new(path).strip_prefix(root).ok()?;
    let own = if below.as_os_str().is_empty() { top.clone() } else { top.join(below) };
    Some(Hierarchy {
        version,
        controllers: if version == Version::One { options } else { Vec::new() },
        top,
        own,
    })
}

/// From the caller's own group upwards: first where the controllers are on already, then where they can be
/// switched on, which the kernel refuses where processes are.
fn place_in_two(hierarchy: &Hierarchy, wanted: &[&'static str]) -> Option<Place> {
    let words = |path: &Path, file: &str| -> BTreeSet<String> {
        let text = fs::read_to_string(path.join(file)).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    };
    let candidates: Vec<&Path> = hierarchy
        .own
        .ancestors()
        .take_while(|path| path.starts_with(&hierarchy.top))
        .filter(|path| is_writable(path))
        .collect();
    let offered = candidates.iter().map(|path| words(path, "cgroup.controllers"));
    let offered: BTreeSet<String> = offered.flatten().collect();
    // CPU time is counted in every group, without a controller.
    let real: Vec<&'static str> = wanted.iter().copied().filter(|name| *name != "cpuacct").collect();
    let here: Vec<&'static str> = real.iter().copied().filter(|name| offered.contains(*name)).collect();
    if offered.is_empty() || (here.is_empty() && !real.is_empty()) {
        return None;
    }
    let place = |parent: &Path| {
        let mut controllers = here.clone();
        controllers.extend(wanted.iter().copied().filter(|name| *name == "cpuacct"));
        Place { version: Version::Two, parent: parent.to_owned(), controllers }
    };
    let missing = |path: &Path| -> Vec<&'static str> {
        let on = words(path, "cgroup.subtree_control");
        here.iter().copied().filter(|name| !on.contains(*name)).collect()
    };
    if let Some(path) = candidates.iter().find(|path| missing(path).is_empty()) {
        return Some(place(path));
    }
    candidates.iter().find(|path| switch_on(path, &missing(path)).is_ok()).map(|path| place(path))
}

fn switch_on(path: &Path, controllers: &[&str]) -> io::Result<()> {
    let words: Vec<String> = controllers.iter().map(|name| format!("+{name}")).collect();
    fs::write(path.join("cgroup.subtree_control"), words.join(" "))
}

fn is_writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
        && rustix::fs::access(path.join("cgroup.procs"), rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
30 25 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
32 25 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
33 25 0:29 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
34 25 0:30 / /proc rw - proc proc rw";

    #[test]
    fn hybrid_hosts_are_understood() {
        let found = hierarchies(HYBRID, "4:memory:/a/b\n2:cpu,cpuacct:/c\n1:name=systemd:/\n0::/\n");
        let owns: Vec<_> = found.iter().map(|h| (h.version, h.own.to_str().unwrap())).collect();
        assert_eq!(
            owns,
            [
                (Version::One, "/sys/fs/cgroup/memory/a/b"),
                (Version::One, "/sys/fs/cgroup/cpu,cpuacct/c"),
                (Version::Two, "/sys/fs/cgroup/unified"),
                (Version::One, "/sys/fs/cgroup/systemd"),
            ]
        );
    }

    #[test]
    fn a_mounted_part_of_a_hierarchy_is_seen_from_its_own_root() {
        let mounts = "30 25 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw";
        let found = hierarchies(mounts, "0::/docker/x/y\n");
        assert_eq!(found.first().map(|h| h.own.clone()), Some(PathBuf::from("/sys/fs/cgroup/y")));
        assert!(hierarchies(mounts, "0::/elsewhere\n").is_empty());
    }
}
