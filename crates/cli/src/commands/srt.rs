//! `lazaret srt`: the settings become a policy, the command becomes one for a shell, and from there it is a run
//! like any other. Failures of our own are exit 1 here, as programs that call srt expect.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use anyhow::Context as _;
use lazaret_runtime::{
    Report, Request, Requirement, Stem, copy_of_inherited,
    network::{LiveRules, RulesUpdate},
    record::Violation,
    report::printable,
};
use lazaret_srt::{
    Settings, SettingsError, Surroundings, Translated, settings,
    translate::{Passing, translate},
};

use super::run;
use crate::{args::Srt, exit::Exit, output};

const DEFAULT_SETTINGS: &str = ".srt-settings.json";
/// A longer line is no settings.
const LONGEST_LINE: u64 = 1 << 20;

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
    translated.warnings.iter().for_each(|warning| output::warning(warning));
    let policy = serde_json::to_string_pretty(&translated.policy)?;
    if args.print_policy {
        output::data(&format!("{policy}\n"));
        return Ok(Exit::Ok);
    }
    let command = command(args)?;
    say(&format!("command: {}", command.join(OsStr::new(" ")).display()));
    say(&format!("policy: {policy}"));
    let line = command.join(OsStr::new(" ")).to_string_lossy().into_owned();
    let Translated { mut policy, weaker, ignored, .. } = translated;
    // The rules of the next run are not the command's to write.
    policy.filesystem.protected_paths.extend(settings_files(args, &directory));
    let request = run::frame(policy, directory, args.audit.as_deref(), args.report.as_deref())?;
    let requirement = if weaker { Requirement::Warn } else { Requirement::Enforce };
    let live_rules = args.control_fd.map(|number| control(number, surroundings, args.debug)).transpose()?;
    let request = Request { command, requirement, live_rules, ..request };
    run::carry_out(request, stem, args.report.as_deref(), |report: &mut Report| {
        report.violations.retain(|violation| {
            let about = violation.path.as_deref().unwrap_or(&violation.description);
            !ignored.covers(&line, about)
        });
        report.violations.iter_mut().for_each(|violation| {
            violation.remedy = in_settings(violation).unwrap_or_else(|| violation.remedy.clone());
        });
    })
}

/// The line of the settings that would allow it.
fn in_settings(violation: &Violation) -> Option<String> {
    if let Some(peer) = &violation.peer {
        let listable = matches!(peer.reason, "host-not-allowed" | "port-not-allowed");
        return listable.then(|| {
            format!("to allow: add \"{}:{}\" to network.allowedDomains", printable(&peer.host), peer.port)
        });
    }
    let path = printable(violation.path.as_deref()?);
    if violation.remedy.starts_with("to allow: --rw") {
        return Some(match violation.remedy.contains("the socket itself") {
            true => format!("to allow: add \"{path}\" to network.allowUnixSockets"),
            false => {
                let directory = Path::new(&path).parent().unwrap_or(Path::new("/"));
                format!("to allow: add \"{}\" to filesystem.allowWrite", directory.display())
            }
        });
    }
    if violation.remedy.starts_with("the path is hidden") {
        return Some(
            "it is in filesystem.denyRead: take it out, or add what is needed to filesystem.allowRead"
                .to_owned(),
        );
    }
    let protected = violation.remedy.starts_with("the name is protected");
    protected.then(|| {
        "the name is protected against writing: by filesystem.denyWrite, or as one that is always protected".to_owned()
    })
}

/// New settings come in over a descriptor, a line each. Only their network's lists can take effect in a sandbox
/// that is built already.
fn control(number: i32, surroundings: Surroundings, debug: bool) -> anyhow::Result<LiveRules> {
    let unusable = || {
        format!(
            "--control-fd {number} is not usable. Refusing to run the command without the channel it asks for"
        )
    };
    let descriptor = copy_of_inherited(number).with_context(unusable)?;
    let mode = rustix::fs::fcntl_getfl(&descriptor).with_context(unusable)? & rustix::fs::OFlags::ACCMODE;
    if mode == rustix::fs::OFlags::WRONLY {
        return Err(anyhow::anyhow!("it cannot be read").context(unusable()));
    }
    let channel = Mutex::new(Some(File::from(descriptor)));
    Ok(LiveRules::new(move |update| {
        let Some(channel) = channel.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let surroundings = surroundings.clone();
        // Whoever reads ends with the program: nothing waits for it.
        let reader = move || {
            let mut channel = BufReader::new(channel);
            loop {
                let mut line = Vec::new();
                match (&mut channel).take(LONGEST_LINE).read_until(b'\n', &mut line) {
                    Ok(0) => return,
                    Ok(_) if line.last() != Some(&b'\n') && line.len() as u64 >= LONGEST_LINE => {
                        // The rest of it is no line of its own.
                        let _ = channel.skip_until(b'\n');
                    }
                    Ok(_) => {}
                    Err(error) => {
                        output::message(&format!(
                            "Error reading control fd {number}: {error}. The control channel is closed; no further updates will be applied."
                        ));
                        return;
                    }
                }
                match replace(&line, &surroundings, &update) {
                    Ok(()) if debug => output::message("srt: new settings are in force"),
                    Ok(()) => {}
                    Err(error) => output::message(&format!(
                        "Invalid config on control fd {number}: ignored, previous config still in force ({})",
                        output::chain(&error)
                    )),
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("lazaret-control".to_owned()).spawn(reader) {
            output::warning(&format!("the control channel cannot be read: {error}"));
        }
    }))
}

fn replace(line: &[u8], surroundings: &Surroundings, update: &RulesUpdate) -> anyhow::Result<()> {
    let line = std::str::from_utf8(line)?;
    if line.trim().is_empty() {
        return Ok(());
    }
    let settings = settings::parse(line, Path::new("control"))?;
    Ok(update.replace(&translate(&settings, surroundings)?.policy.network)?)
}

/// The file that was named, the one in the home, or what holds without any.
fn load(args: &Srt) -> anyhow::Result<Settings> {
    const LOST: &str = "refusing to run with the built-in defaults, which would drop its rules";
    if let Some(file) = &args.settings {
        return settings::load(file).context(LOST);
    }
    let Some(home) = home() else { return Ok(Settings::default()) };
    match settings::load(&home.join(DEFAULT_SETTINGS)) {
        Err(SettingsError::Missing(_)) => Ok(Settings::default()),
        other => other.context(LOST),
    }
}

/// Where settings are, or would be.
fn settings_files(args: &Srt, directory: &Path) -> Vec<PathBuf> {
    let named = args.settings.iter().map(|file| run::normal(&directory.join(file)));
    named.chain(home().map(|home| home.join(DEFAULT_SETTINGS))).collect()
}

/// The variable, or else what the system knows of this user: rules about `~` must not vanish with a variable.
fn home() -> Option<PathBuf> {
    let variable = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    variable.or_else(|| {
        let users = std::fs::read_to_string("/etc/passwd").ok()?;
        let uid = rustix::process::getuid().as_raw().to_string();
        let mut fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let home =
            fields.find_map(|user| (user.get(2) == Some(&uid.as_str())).then(|| user.get(5).copied()))??;
        Some(PathBuf::from(home)).filter(|home| home.is_absolute())
    })
}

fn surroundings(args: &Srt, directory: &Path) -> Surroundings {
    let text =
        |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    Surroundings {
        directory: directory.to_owned(),
        home: home(),
        uid: rustix::process::geteuid().as_raw(),
        environment: env::vars_os().filter_map(text).collect(),
        passing: if args.clean_env { Passing::Cleaned } else { Passing::All },
    }
}

/// What is executed: `bash -c`, as srt does. A plain program needs no shell in between.
fn command(args: &Srt) -> anyhow::Result<Vec<OsString>> {
    let shell =
        || if Path::new("/bin/bash").exists() || Path::new("/usr/bin/bash").exists() { "bash" } else { "sh" };
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
