//! Metrics in a file that others read: it is replaced as a whole.

use std::{
    fs::{self, File, Permissions},
    io::Write as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use lazaret_audit::metrics::{Format, text};

use super::{interval, source::Source, ticks};
use crate::{args, exit::Exit, output};

pub fn write(args: &args::Write) -> anyhow::Result<Exit> {
    let every = interval(args.every)?;
    if args.textfile.extension().is_none_or(|extension| extension != "prom") {
        output::warning(&format!(
            "node_exporter reads files that end in .prom; {} does not",
            args.textfile.display()
        ));
    }
    let mut source = Source::of(&args.count)?;
    let act = || replace(&args.textfile, &text(&source.families()?, Format::Prometheus));
    ticks::repeat(every, act, |error| output::warning(&output::chain(error)))?;
    Ok(Exit::Ok)
}

/// A file beside it takes its name when it is complete.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let beside = beside(path)?;
    let written = write_new(&beside, text).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written.with_context(|| {
        format!(
            "the metrics cannot be written to {} (its directory must exist and be writable)",
            path.display()
        )
    })
}

/// In the same directory, so that the name can be given in one step; not one that node_exporter would read.
fn beside(path: &Path) -> anyhow::Result<PathBuf> {
    let Some(name) = path.file_name() else { bail!("{} is not the name of a file", path.display()) };
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", std::process::id()));
    Ok(path.with_file_name(hidden))
}

fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    // Of an earlier process with the same number, which was killed in between.
    let _ = fs::remove_file(path);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    // Whoever collects it is somebody else, whatever the umask says.
    file.set_permissions(Permissions::from_mode(0o644))
}
