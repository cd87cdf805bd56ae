//! From findings to the text of a policy, without running anything.

mod folding;
mod merging;
mod writing;

use std::path::{Path, PathBuf};

use super::{
    findings::{Deed, Findings, Kind},
    fold::Ground,
};

fn ground() -> Ground {
    Ground {
        directory: PathBuf::from("/home/me/code/project"),
        home: Some(PathBuf::from("/home/me")),
        denied: vec![PathBuf::from("/home/me/.ssh"), PathBuf::from("/home/me/.config/gh")],
    }
}

fn seen(entries: &[(&str, Kind, Deed)]) -> Findings {
    let mut findings = Findings::default();
    for (path, kind, deed) in entries {
        findings.see(Path::new(path), *kind, *deed, || "tool".to_owned());
    }
    findings
}

fn files(deed: Deed, paths: &[&str]) -> Findings {
    let entries: Vec<_> = paths.iter().map(|path| (*path, Kind::File, deed)).collect();
    seen(&entries)
}
