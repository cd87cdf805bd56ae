//! `lazaret srt`: the settings become a policy, the command becomes one for a shell, and from there it is a run
//! like any other. Failures of our own are exit 1 here, as programs that call srt expect.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use lazaret_runtime::{Report, Request, Requirement, Stem};
use lazaret_srt::{
    Settings, SettingsError, Surroundings, Translated, settings,
    translate::{Passing, translate},
};

use super::run;
use crate::{args::Srt, exit::Exit, output};

pub fn srt(args: &Srt, stem: Option<Stem>) -> anyhow::Result<Exit> {
    if args.version {
        output::data(&format!("{} (lazaret, a drop-in for srt)\n", env!("CARGO_PKG_VERSION")));
        return Ok(Exit::Ok);
    }
    match carry_out(args, stem) {
        Ok(Exit::Refused) => Ok(Exit::Failed),
        Ok(exit) => Ok(exit),
        Err(error) => {
            output::message(&format!("Error: {}", output::chain(&error)));
            Ok(Exit::Failed)
        }
    }
}

fn carry_out(args: &Srt, stem: Option<Stem>) -> anyhow::Result<Exit> {
    let directory = env::current_dir().context("the current directory cannot be used (was it deleted?)")?;
    let settings = load(args)?;
    let surroundings = surroundings(args, &directory);
    let translated = translate(&settings, &surroundings)?;
    let say = |text: &str| {
        if args.debug {
            output::message(&format!("srt: {text}"));
        }
    };
    translated.notes.iter().for_each(|note| say(note));
    let policy = serde_json::to_string_pretty(&translated.policy)?;
    if args.print_policy {
        output::data(&format!("{policy}\n"));
        return Ok(Exit::Ok);
    }
    let command = command(args)?;
    say(&format!("command: {}", command.join(OsStr::new(" ")).display()));
    say(&format!("policy: {policy}"));
    let line = command.join(OsStr::new(" ")).to_string_lossy().into_owned();
    let Translated { policy, weaker, ignored, .. } = translated;
    let request = run::frame(policy, directory, args.audit.as_deref(), args.report.as_deref())?;
    let requirement = if weaker { Requirement::Warn } else { Requirement::Enforce };
    let request = Request { command, requirement, tool: None, ..request };
    run::carry_out(request, stem, args.report.as_deref(), |report: &mut Report| {
        report.violations.retain(|violation| {
            let about = violation.path.as_deref().unwrap_or(&violation.description);
            !ignored.covers(&line, about)
        });
    })
}

/// The file that was named, the one in the home, or what holds without any.
fn load(args: &Srt) -> anyhow::Result<Settings> {
    const LOST: &str = "refusing to run with the built-in defaults, which would drop its rules";
    if let Some(file) = &args.settings {
        return settings::load(file).context(LOST);
    }
    let Some(home) = home() else { return Ok(Settings::default()) };
    match settings::load(&home.join(".srt-settings.json")) {
        Err(SettingsError::Missing(_)) => Ok(Settings::default()),
        other => other.context(LOST),
    }
}

fn home() -> Option<PathBuf> {
    env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

fn surroundings(args: &Srt, directory: &Path) -> Surroundings {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    Surroundings {
        directory: directory.to_owned(),
        home: home(),
        environment: env::vars_os().filter_map(text).collect(),
        passing: if args.clean_env { Passing::Cleaned } else { Passing::All },
    }
}

/// What is executed: `bash -c`, as srt does. A plain program needs no shell in between.
fn command(args: &Srt) -> anyhow::Result<Vec<OsString>> {
    let shell = || if Path::new("/bin/bash").exists() || Path::new("/usr/bin/bash").exists() { "bash" } else { "sh" };
    match (&args.line, args.command.as_slice()) {
        (Some(line), _) => Ok(vec![shell().into(), "-c".into(), line.clone()]),
        (None, []) => anyhow::bail!("No command specified. Use -c <command> or provide command arguments."),
        (None, [program, ..]) if is_program(program) => Ok(args.command.clone()),
        (None, words) => {
            let quoted: Vec<OsString> = words.iter().map(|word| quoted(word)).collect();
            Ok(vec![shell().into(), "-c".into(), quoted.join(OsStr::new(" "))])
        }
    }
}

/// Would a shell do nothing but execute this? Names without a slash may be its own.
fn is_program(word: &OsStr) -> bool {
    word.as_bytes().contains(&b'/') && Path::new(word).is_file()
}

/// In single quotes, where nothing means anything but a single quote.
fn quoted(word: &OsStr) -> OsString {
    let mut bytes = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' => bytes.extend(b"'\\''"),
            byte => bytes.push(*byte),
        }
    }
    bytes.push(b'\'');
    OsString::from_vec(bytes)
}
