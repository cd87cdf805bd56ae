//! A directory for one test, removed at its end.

use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
};

pub struct Place(PathBuf);

impl Place {
    pub fn new() -> Place {
        let path = std::env::temp_dir().join(format!("lazaret-gate-{}", uuid::Uuid::now_v7()));
        fs::create_dir(&path).unwrap();
        Place(path)
    }
}

impl Deref for Place {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
