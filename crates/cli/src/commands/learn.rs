//! `lazaret learn`: from what was typed to a wide policy, from the run to the policy that would have sufficed.

use std::{
    fs::File,
    io::Write as _,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, bail};
use lazaret_audit::redact;
use lazaret_policy::{Policy, load, profile, schema::EnvironmentPolicy};
use lazaret_runtime::{
    Request, RunError, Stem,
    learn::{
        self, Heading, Lesson,
        findings::{Deed, Refused},
    },
    leftovers, prepare,
    report::{Ending, printable},
};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use serde_json::json;

use super::run;
use crate::{
    args::{Learn, Run},
    exit::Exit,
    output,
};

const DEFAULT_OUTPUT: &str = "lazaret-learned.toml";

pub fn learn(args: Learn, stem: Option<Stem>) -> anyhow::Result<Exit> {
    let directory = run::current_directory()?;
    let target = Target::find(&args, &directory)?;
    let merged = args.merge.iter().map(|file| load_merged(file)).collect::<anyhow::Result<Vec<_>>>()?;
    let as_run = as_run(&args);
    let policy = wide_policy(&args, &as_run, &directory)?;
    let environment = learnt_environment(&policy);
    let report_file = args.report.as_deref().map(run::open_report).transpose()?;
    let network = policy.network.clone();
    let request = run::request(&as_run, directory, policy)?;
    if args.audit.is_some() {
        // Made before the view is: a log inside it is covered from the start.
        lazaret_audit::Log::open(&request.audit_log)?;
    }
    if let Some(state) = &request.state {
        leftovers::clear(state, &request.audit_log)?.iter().for_each(|sentence| output::warning(sentence));
    }
    let kept = args.json.then(output::keep).transpose().context("standard output cannot be kept")?;
    let lesson = watch(&request, stem)?;
    if let Some(why) = &lesson.outcome.not_executed {
        output::error(why);
    }
    let mut draft = lesson.draft(environment);
    if draft.policy.network.allow_network {
        draft.policy.network.allowed_addresses = network.allowed_addresses;
        draft.policy.network.resolve = network.resolve;
    }
    for (file, policy) in args.merge.iter().zip(&merged) {
        learn::merge(&mut draft, policy, &printable(&file.to_string_lossy()))
            .with_context(|| format!("{} cannot be merged", file.display()))?;
    }
    let text = learn::write(&draft, &heading(&args, &lesson));
    // What is written loads, or it is not written.
    load::parse(&text, load::Format::Toml, Path::new(DEFAULT_OUTPUT))
        .context("what was learnt makes no valid policy; this is a bug of lazaret")?;
    if let Some(file) = report_file {
        run::write_report(file, &lesson.outcome.report)?;
    }
    target.write(&text)?;
    output::block(&summary(&lesson, &target));
    if let Some(kept) = &kept {
        kept.data(&format!("{}\n", as_json(&lesson, &draft.policy, &target)));
    }
    Ok(Exit::Command(u8::try_from(lesson.outcome.report.exit_code).unwrap_or(125)))
}

/// Runs with a wide view. What has vanished before the view was complete is left out the next time.
fn watch(request: &Request, mut stem: Option<Stem>) -> anyhow::Result<Lesson> {
    const TIMES: usize = 5;
    for time in 1.. {
        let mut wide = request.clone();
        let notes = learn::widen(&mut wide);
        let visible = wide.policy.filesystem.read_only_paths.clone();
        match prepare(wide).and_then(|prepared| prepared.learn(stem.take(), output::warning)) {
            Err(RunError::Lower(_) | RunError::Launch(_))
                if time < TIMES && learn::has_vanished(&visible) => {}
            other => {
                notes.iter().for_each(|note| output::warning(note));
                return Ok(other?);
            }
        }
    }
    bail!("the view could not be made complete")
}

/// The same flags mean the same as for `run`.
fn as_run(args: &Learn) -> Run {
    Run {
        profile: "default".to_owned(),
        ro: args.ro.clone(),
        rw: args.rw.clone(),
        deny: args.deny.clone(),
        env: args.env.clone(),
        allow: args.allow.clone(),
        allow_address: args.allow_address.clone(),
        resolve: args.resolve.clone(),
        timeout: args.timeout,
        audit: args.audit.clone(),
        report: args.report.clone(),
        command: args.command.clone(),
        ..Run::default()
    }
}

/// Before it is widened: what the profile `default` protects and passes on, with the flags on top.
fn wide_policy(args: &Learn, as_run: &Run, directory: &Path) -> anyhow::Result<Policy> {
    let Some(profile) = profile::find("default") else { bail!("there is no profile `default`") };
    let mut policy = profile.load()?.policy;
    policy.filesystem.read_only_paths.clear();
    policy.network.allow_network = !args.no_network;
    run::apply_flags(as_run, directory, &mut policy)?;
    Ok(policy)
}

/// The variables of the learnt policy: secrets are passed on by name and never written down.
fn learnt_environment(policy: &Policy) -> EnvironmentPolicy {
    let mut environment = policy.environment.clone();
    let secrets: Vec<String> =
        environment.set.keys().filter(|name| redact::is_secret_name(name)).cloned().collect();
    for name in secrets {
        environment.set.remove(&name);
        output::warning(&format!(
            "the value of {name} is not written into the policy: set it in the environment of `lazaret run`"
        ));
        environment.allow.push(name);
    }
    environment
}

fn load_merged(file: &Path) -> anyhow::Result<Policy> {
    let policy = load::load_file(file)?.policy;
    learn::check(&policy).with_context(|| format!("{} cannot be merged", file.display()))?;
    Ok(policy)
}

fn heading(args: &Learn, lesson: &Lesson) -> Heading {
    let report = &lesson.outcome.report;
    let words: Vec<String> = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let command: Vec<String> = redact::argv(&words).iter().map(|word| shown(word)).collect();
    let name = args.name.as_deref().map(printable).unwrap_or_else(|| "Policy".to_owned());
    let mut lines = vec![
        format!("{name}, learned by lazaret {} on {}.", env!("CARGO_PKG_VERSION"), today()),
        format!("Command: {}", command.join(" ")),
        format!("It {} after {} ms in sandbox {}.", ending(lesson), report.duration_ms, report.sandbox_id),
    ];
    if report.outcome != Ending::Exited || report.exit_code != 0 {
        lines.push(
            "It did not succeed: this allows what it did until then, which may not be all that it needs."
                .to_owned(),
        );
    }
    lines.push(
        "A path that begins with ./ belongs to the directory that `lazaret run` is started in.".to_owned(),
    );
    lines.push(
        "Read it before you use it: it allows what the command did, not what it should have done.".to_owned(),
    );
    Heading { lines }
}

fn shown(word: &str) -> String {
    const LONGEST: usize = 400;
    let word: String = printable(word).chars().take(LONGEST).collect();
    if word.is_empty() || word.contains([' ', '"', '\'']) { format!("{word:?}") } else { word }
}

fn ending(lesson: &Lesson) -> String {
    let report = &lesson.outcome.report;
    match (report.outcome, report.signal) {
        (Ending::Exited, _) => format!("ended with exit code {}", report.exit_code),
        (_, Some(signal)) => format!("was ended by signal {signal}"),
        (Ending::NotExecuted, _) => "could not be executed and ended".to_owned(),
        (Ending::Timeout, _) => "was ended by the timeout".to_owned(),
        _ => "was ended by lazaret".to_owned(),
    }
}

/// The date of today in UTC.
fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Days since 1970 as a date of the Gregorian calendar, by counting years from March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

fn numbers(lesson: &Lesson) -> [usize; 5] {
    let findings = &lesson.findings;
    [
        findings.count(&[Deed::Read, Deed::List, Deed::Execute, Deed::Follow, Deed::Touch]),
        findings.count(&[Deed::Write, Deed::Rename]),
        findings.count(&[Deed::Execute]),
        findings.hosts.len(),
        findings.refused.len(),
    ]
}

fn summary(lesson: &Lesson, target: &Target) -> String {
    const LINES: usize = 6;
    let [read, written, executed, hosts, refused] = numbers(lesson);
    let mut text = format!(
        "lazaret: learned from a command that {}: {read} paths read, {written} written, {executed} programs, {hosts} hosts\n",
        ending(lesson)
    );
    if let Some(reason) = &lesson.outcome.report.reason {
        text.push_str(&format!("lazaret: {reason}\n"));
    }
    if refused > 0 {
        text.push_str(&format!("lazaret: refused, and not in the policy ({refused}):\n"));
        for (what, called) in lesson.findings.refused.iter().take(LINES) {
            let line = match what {
                Refused::Secret(path) => format!("{} is protected", path.display()),
                Refused::Write(path) => format!("write to {} (--rw makes it writable)", path.display()),
                Refused::Other(text) => text.clone(),
            };
            text.push_str(&format!("  - {}, by {}\n", printable(&line), called.program));
        }
        if refused > LINES {
            text.push_str(&format!("  … and {} more, see the comments of the policy\n", refused - LINES));
        }
    }
    if lesson.outcome.report.exit_code != 0 {
        text.push_str("lazaret: the command did not succeed, so the policy may not be all that it needs\n");
    }
    if let Target::File { path, .. } = target {
        let path = printable(&path.to_string_lossy());
        text.push_str(&format!(
            "lazaret: wrote {path}; after a look at it: lazaret run --policy {path} -- COMMAND\n"
        ));
    }
    text
}

fn as_json(lesson: &Lesson, policy: &Policy, target: &Target) -> serde_json::Value {
    let [read, written, executed, hosts, _] = numbers(lesson);
    let refused: Vec<serde_json::Value> = lesson
        .findings
        .refused
        .iter()
        .map(|(what, called)| {
            let (kind, what) = match what {
                Refused::Secret(path) => ("protected", path.to_string_lossy().into_owned()),
                Refused::Write(path) => ("write", path.to_string_lossy().into_owned()),
                Refused::Other(text) => ("other", text.clone()),
            };
            json!({ "kind": kind, "what": what, "process": called.program, "count": called.times })
        })
        .collect();
    let report = &lesson.outcome.report;
    json!({
        "file": match target { Target::File { path, .. } => Some(path), Target::Output(_) => None },
        "sandboxId": report.sandbox_id,
        "exitCode": report.exit_code,
        "outcome": report.outcome,
        "durationMs": report.duration_ms,
        "pathsRead": read,
        "pathsWritten": written,
        "programs": executed,
        "hosts": hosts,
        "refused": refused,
        "policy": policy,
    })
}

/// Where the policy goes. The directory is opened before anything runs, so that nothing can lead it astray.
enum Target {
    Output(output::Kept),
    File { path: PathBuf, directory: OwnedFd, name: std::ffi::OsString, replace: bool },
}

impl Target {
    fn find(args: &Learn, directory: &Path) -> anyhow::Result<Target> {
        let path = args.output.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_OUTPUT));
        if path == Path::new("-") {
            if args.json {
                bail!("--json and -o - both want standard output: name a file with -o");
            }
            return Ok(Target::Output(output::keep().context("standard output cannot be kept")?));
        }
        let full = run::normal(&directory.join(&path));
        let (Some(parent), Some(name)) = (full.parent(), full.file_name()) else {
            bail!("{} is no name for a file", path.display());
        };
        let there = full.symlink_metadata();
        if there.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
            bail!("{} is a directory: name a file with -o", path.display());
        }
        if there.is_ok() && !args.force {
            bail!("{} is there already: --force replaces it, -o names another", path.display());
        }
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let handle = rustix::fs::open(parent, flags, Mode::empty())
            .with_context(|| format!("the policy cannot be written to {}", parent.display()))?;
        Ok(Target::File { path, directory: handle, name: name.to_owned(), replace: args.force })
    }

    fn write(&self, text: &str) -> anyhow::Result<()> {
        let (path, directory, name, replace) = match self {
            Target::Output(kept) => {
                kept.data(text);
                return Ok(());
            }
            Target::File { path, directory, name, replace } => (path, directory, name, replace),
        };
        let failed = || format!("the policy cannot be written to {}", path.display());
        let temporary = format!(".lazaret-learned-{}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, &temporary, flags, Mode::from_raw_mode(0o644))
            .with_context(failed)?;
        // Whole or not at all, and over nothing that came meanwhile unless it may be replaced.
        let flags = if *replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        let written = File::from(file)
            .write_all(text.as_bytes())
            .and_then(|()| Ok(rustix::fs::renameat_with(directory, &temporary, directory, name, flags)?));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(directory, &temporary, AtFlags::empty());
        }
        written.with_context(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(19_782), (2024, 2, 29));
        assert_eq!(civil(20_454), (2026, 1, 1));
    }

    #[test]
    fn words_with_spaces_are_quoted_and_tricks_on_the_reader_are_not_shown() {
        assert_eq!(shown("plain"), "plain");
        assert_eq!(shown("two words"), "\"two words\"");
        assert!(!shown("a\nb\u{202e}").contains(['\n', '\u{202e}']));
    }
}
