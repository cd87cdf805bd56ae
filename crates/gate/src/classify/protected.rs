//! Places that no call may touch, whatever the policy says: by name, by the object itself under another name (a bind
//! mount, a hard link), and by a directory that holds them.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::resolve::{Identity, Object, PathFault, Resolved, resolve};
use crate::facts::Access;

/// How many files below protected places are compared with one that has several names. With more of them it counts
/// as protected.
const MOST_COMPARED: usize = 20_000;

#[derive(Debug, Clone)]
pub(super) struct Protected {
    given: PathBuf,
    what: String,
    /// As found when it was made, and the object that was there then.
    path: PathBuf,
    identity: Option<Identity>,
}

/// How a path touches a protected place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touch {
    /// At or below it.
    Inside,
    /// The place is below the path.
    Holds,
}

/// A protected place as it is during one call.
struct Now<'a> {
    place: &'a Protected,
    path: PathBuf,
    identity: Option<Identity>,
}

impl Protected {
    pub fn new(path: &Path, what: String) -> Result<Self, PathFault> {
        let resolved = resolve(Path::new("/"), path)?;
        let identity = resolved.exists().then(|| resolved.trail.last().copied()).flatten();
        Ok(Protected { given: path.to_owned(), what, path: resolved.path, identity })
    }

    /// Files are replaced and links redirected while a session lasts: what the name leads to is asked anew, the
    /// way there only when that has changed.
    fn now(&self) -> Now<'_> {
        let identity = Identity::at(&self.given);
        let path = match identity == self.identity {
            true => self.path.clone(),
            false => resolve(Path::new("/"), &self.given).map_or_else(|_| self.path.clone(), |it| it.path),
        };
        Now { place: self, path, identity }
    }
}

/// All protected places as they are now; looked up once for a call, and only when it has paths.
pub(super) struct Watch<'a> {
    places: Vec<Now<'a>>,
    session: &'a Path,
    session_depth: usize,
}

impl<'a> Watch<'a> {
    pub fn new(places: &'a [Protected], session: &'a Path) -> Self {
        let session_depth = depth(session);
        Watch { places: places.iter().map(Protected::now).collect(), session, session_depth }
    }

    /// What is protected where this path leads, and how the path touches it.
    pub fn judge(&self, resolved: &Resolved, access: Access) -> Option<(&'a str, Touch)> {
        self.inside(resolved).map(|what| (what, Touch::Inside)).or_else(|| self.holds(&resolved.path, access))
    }

    /// By name only, for a link that itself is deleted or replaced.
    pub fn judge_name(&self, path: &Path, access: Access) -> Option<(&'a str, Touch)> {
        let named = self.places.iter().find(|now| now.covers(path, self.session));
        named.map(|now| (now.place.what.as_str(), Touch::Inside)).or_else(|| self.holds(path, access))
    }

    fn inside(&self, resolved: &Resolved) -> Option<&'a str> {
        let in_session = resolved.path.starts_with(self.session);
        for now in &self.places {
            if now.covers(&resolved.path, self.session) {
                return Some(&now.place.what);
            }
            // Another name of the same object: at the end it is a hard link, before that a bind mount.
            let Some(identity) = now.identity else { continue };
            let above_session = |index: usize| in_session && index + 1 < self.session_depth;
            let mut seen = resolved.trail.iter().enumerate();
            if seen.any(|(index, seen)| *seen == identity && !above_session(index)) {
                return Some(&now.place.what);
            }
        }
        match resolved.object {
            Object::File { names: 2.. } if resolved.exists() => self.linked(resolved),
            _ => None,
        }
    }

    /// A file with several names: is one of them in a protected directory?
    fn linked(&self, resolved: &Resolved) -> Option<&'a str> {
        let identity = resolved.trail.last()?;
        let mut left = MOST_COMPARED;
        for now in &self.places {
            let same_system = now.identity.is_some_and(|place| place.device == identity.device);
            if same_system && self.has_file(&now.path, *identity, &mut left) {
                return Some(&now.place.what);
            }
        }
        None
    }

    fn has_file(&self, directory: &Path, identity: Identity, left: &mut usize) -> bool {
        let mut ahead = vec![directory.to_owned()];
        while let Some(directory) = ahead.pop() {
            if directory == self.session {
                continue;
            }
            let Ok(entries) = fs::read_dir(&directory) else { continue };
            for entry in entries.flatten() {
                if *left == 0 {
                    return true;
                }
                *left -= 1;
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    ahead.push(entry.path());
                } else if kind.is_file() {
                    let seen = entry.metadata().map(|it| Identity { device: it.dev(), inode: it.ino() });
                    if seen.is_ok_and(|seen| seen == identity) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Moving or deleting a directory takes along what is in it, and what writes to a directory may write to
    /// anything in it. The session directory itself is written to all the time.
    fn holds(&self, path: &Path, access: Access) -> Option<(&'a str, Touch)> {
        let harmless = match access {
            Access::Read => true,
            Access::Write => path == self.session,
            Access::Delete => false,
        };
        if harmless {
            return None;
        }
        let held = self.places.iter().find(|now| {
            now.path != path && now.path.starts_with(path)
                || now.place.given != path && now.place.given.starts_with(path)
        })?;
        Some((&held.place.what, Touch::Holds))
    }
}

impl Now<'_> {
    /// At or below the place, unless the session directory is below the place and nearer.
    fn covers(&self, path: &Path, session: &Path) -> bool {
        [self.path.as_path(), self.place.path.as_path(), self.place.given.as_path()].iter().any(|place| {
            path.starts_with(place)
                && !(path.starts_with(session) && session.starts_with(place) && session != *place)
        })
    }
}

fn depth(path: &Path) -> usize {
    path.components().count().saturating_sub(1)
}
