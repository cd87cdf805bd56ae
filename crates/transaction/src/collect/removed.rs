//! What a sandbox deleted: a name, and with a directory everything the host has below it.

use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;

use super::{Found, Walk, os};
use crate::change::{Base, Kind, Object, Refusal, What, kind_of};
use crate::error::CollectError;
use crate::place;

impl Walk<'_> {
    /// A name of the host that is gone, and everything below it: one change each, so that what appears there
    /// later is nobody's to delete.
    pub(super) fn deleted(&mut self, path: PathBuf, stat: &Stat) -> Result<(), CollectError> {
        let mut todo = vec![];
        self.push_deleted(path.clone(), stat)?;
        if kind_of(stat) == Kind::Directory {
            todo.push(path);
        }
        self.deleted_below(todo)
    }

    pub(super) fn deleted_below(&mut self, mut todo: Vec<PathBuf>) -> Result<(), CollectError> {
        while let Some(path) = todo.pop() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let directory = match place::open_beneath(self.lower.as_fd(), &path, flags) {
                Ok(directory) => directory,
                Err(Errno::XDEV) => {
                    let absolute = self.directory.join(&path);
                    if let Some(change) = self.changes.iter_mut().rev().find(|change| change.path == absolute)
                    {
                        change.refused = Some(Refusal::OtherMount);
                    }
                    continue;
                }
                // Shut to us or gone: whatever is in there stays, and then so does the directory.
                Err(_) => continue,
            };
            let host =
                |errno: Errno| CollectError::Host { path: self.directory.join(&path), source: errno.into() };
            let mut found = Vec::new();
            for name in place::names(directory.as_fd()).map_err(host)? {
                if let Some(stat) = place::look(directory.as_fd(), name.as_c_str()).map_err(host)? {
                    found.push((path.join(os(&name)), stat));
                }
            }
            for (path, stat) in found {
                self.push_deleted(path.clone(), &stat)?;
                if kind_of(&stat) == Kind::Directory {
                    todo.push(path);
                }
            }
        }
        Ok(())
    }

    fn push_deleted(&mut self, path: PathBuf, stat: &Stat) -> Result<(), CollectError> {
        let found = Found {
            parent: self.tree.upper.as_fd(),
            name: c"",
            lower: None,
            path,
            depth: 0,
            base: Base::Present(Object::of(stat)),
            opaque: false,
        };
        self.push(found, What::Deleted, None, 0, None)
    }
}
