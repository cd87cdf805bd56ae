//! `lazaret audit export`: events into a database of SQLite, or as comma-separated values.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use lazaret_audit::{
    View,
    export::{self, EventDatabase, ExportError},
    follow::RawFollow,
    query::{self, Answer, Matcher, Then},
};

use super::{Unreadable, resolve};
use crate::{args, exit::Exit, output};

pub fn export(args: args::Export) -> anyhow::Result<Exit> {
    let replace = if args.force { Replace::Yes } else { Replace::No };
    let (log, filter) = resolve(args.filters)?;
    let mut follow = RawFollow::open(&log)?;
    let mut matcher = Matcher::new(filter, &log)?;
    match (args.sqlite, args.csv) {
        (Some(path), _) => {
            let target = Target::create(&path, replace)?;
            let mut database = EventDatabase::new(target.file.try_clone()?)?;
            let exit = write(&mut follow, &mut matcher, |view| database.add(view))?;
            let rows = database.rows();
            database.finish()?;
            target.put_in_place(replace)?;
            output::message(&format!("lazaret: {rows} events in {}", path.display()));
            Ok(exit)
        }
        (None, Some(path)) if path.as_os_str() == "-" => {
            let mut out = BufWriter::new(io::stdout().lock());
            export::csv_header(&mut out)?;
            let exit = write(&mut follow, &mut matcher, |view| export::csv_row(&mut out, view));
            match exit.and_then(|exit| Ok(out.flush().map(|()| exit)?)) {
                // The reader has seen enough.
                Err(error) if is_broken_pipe(&error) => Ok(Exit::Ok),
                other => other,
            }
        }
        (None, Some(path)) => {
            let target = Target::create(&path, replace)?;
            let mut out = BufWriter::with_capacity(1 << 20, target.file.try_clone()?);
            export::csv_header(&mut out)?;
            let exit = write(&mut follow, &mut matcher, |view| export::csv_row(&mut out, view))?;
            out.flush()?;
            target.put_in_place(replace)?;
            Ok(exit)
        }
        (None, None) => bail!("say where to: --sqlite FILE or --csv FILE"),
    }
}

fn write(
    follow: &mut RawFollow,
    matcher: &mut Matcher,
    mut row: impl FnMut(&View<'_>) -> Result<(), ExportError>,
) -> anyhow::Result<Exit> {
    let mut unreadable = Unreadable::default();
    let mut failed = None;
    let mut left_out = 0u64;
    query::forwards(follow, matcher, |answer| {
        match answer {
            Answer::Unreadable(error) => unreadable.tell(&error),
            Answer::Hit(hit) => match row(&hit.view) {
                Ok(()) => {}
                Err(error) if error.is_about_one_event() => {
                    left_out += 1;
                    if left_out <= 5 {
                        output::warning(&format!("event {} is left out: {error}", hit.view.seq));
                    }
                }
                Err(error) => {
                    failed = Some(error);
                    return Then::Stop;
                }
            },
        }
        Then::GoOn
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    if left_out > 0 {
        output::warning(&format!(
            "{left_out} events are left out; `lazaret audit verify` tells where the log is broken"
        ));
        return Ok(Exit::Failed);
    }
    Ok(unreadable.exit())
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let of = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    match error.downcast_ref::<ExportError>() {
        Some(ExportError::Write(error)) => of(error),
        _ => error.downcast_ref::<io::Error>().is_some_and(of),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replace {
    Yes,
    No,
}

/// A file under another name until it is complete; removed when that is never.
struct Target {
    file: File,
    path: PathBuf,
    temporary: Option<PathBuf>,
}

impl Target {
    fn create(path: &Path, replace: Replace) -> anyhow::Result<Self> {
        if replace == Replace::No && path.symlink_metadata().is_ok() {
            bail!("{} exists already; --force replaces it", path.display());
        }
        let mut name =
            path.file_name().with_context(|| format!("{} names no file", path.display()))?.to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(name);
        // What is in the log is for its owner alone, and so is this.
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
            .with_context(|| format!("cannot make {}", temporary.display()))?;
        Ok(Target { file, path: path.to_owned(), temporary: Some(temporary) })
    }

    fn put_in_place(mut self, replace: Replace) -> anyhow::Result<()> {
        let Some(temporary) = self.temporary.clone() else { return Ok(()) };
        let failed = || format!("cannot put {} in place", self.path.display());
        self.file.sync_all().with_context(failed)?;
        match replace {
            Replace::Yes => fs::rename(&temporary, &self.path).with_context(failed)?,
            // Somebody may have made it meanwhile.
            Replace::No => {
                use rustix::fs::{CWD, RenameFlags, renameat_with};
                renameat_with(CWD, &temporary, CWD, &self.path, RenameFlags::NOREPLACE)
                    .with_context(failed)?;
            }
        }
        self.temporary = None;
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}
