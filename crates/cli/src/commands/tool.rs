//! `lazaret tool`: run a registered tool, see which there are and which are barred, bar and release them.

use std::{
    env, fs,
    io::{IsTerminal as _, Read as _, Write as _},
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use lazaret_audit::{EventKind, Log, NewEvent};
use lazaret_policy::Policy;
use lazaret_runtime::{
    Request, Requirement, RunError, Sandbox, Stdio,
    configuration::{self, Configuration},
    quarantine::{Entry, Quarantine},
    report::printable,
    request::{TerminalUse, Writing},
    state::Directories,
    tools::{
        CheckedInput, Completeness, ErrorCode, PolicyChoice, Registry, Source, Tool, ToolFailure, ToolResult,
        pad_to_quantum,
    },
};
use serde_json::json;

use crate::{args, exit::Exit, output};

/// Where things are, for every subcommand.
struct Surroundings {
    directories: Directories,
    state: PathBuf,
    audit_log: PathBuf,
}

fn surroundings(audit: Option<PathBuf>) -> anyhow::Result<Surroundings> {
    let directories = Directories::from_environment(|name| env::var_os(name));
    let audit_log = audit.or_else(|| directories.audit_log());
    let (Some(state), Some(audit_log)) = (directories.state.clone(), audit_log) else {
        bail!("there is no place for the quarantine and the audit log: set HOME or XDG_STATE_HOME");
    };
    Ok(Surroundings { directories, state, audit_log })
}

pub fn tool(command: args::Tool) -> anyhow::Result<Exit> {
    match command {
        args::Tool::List { json } => list(json),
        args::Tool::Run(args) => run(&args),
        args::Tool::Quarantine { name, reason } => quarantine(&name, reason),
        args::Tool::Release { name, reason } => release(&name, reason),
    }
}

fn list(as_json: bool) -> anyhow::Result<Exit> {
    let place = surroundings(None)?;
    let registry = Registry::load(&Source::standard(&place.directories))?;
    let barred = Quarantine::open(&place.state).list()?;
    let entry = |name: &str| barred.iter().find(|entry| entry.key == name);
    let mut rows = Vec::new();
    for tool in registry.tools() {
        rows.push((tool.name().to_owned(), tool.description().to_owned(), entry(tool.name())));
    }
    // What is barred under a name that no file has is still barred.
    for entry in &barred {
        if !rows.iter().any(|(name, ..)| *name == entry.key) {
            rows.push((entry.key.clone(), String::new(), Some(entry)));
        }
    }
    if as_json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, description, entry)| {
                json!({
                    "name": name,
                    "description": description,
                    "state": if entry.is_some() { "quarantined" } else { "ready" },
                    "quarantined": entry.is_some(),
                    "quarantine": entry,
                    "registered": registry.find(name).is_ok(),
                })
            })
            .collect();
        output::data(&format!("{}\n", json!(rows)));
        return Ok(Exit::Ok);
    }
    for (name, description, entry) in rows {
        let state = if entry.is_some() { "QUARANTINED" } else { "ready" };
        output::data(&format!("{:<24} {state:<12} {}\n", printable(&name), printable(&description)));
        if let Some(entry) = entry {
            output::data(&format!(
                "{:<24} {:<12} {} ({})\n",
                "",
                "",
                printable(&entry.reason),
                entry.sandbox_id
            ));
        }
    }
    Ok(Exit::Ok)
}

fn quarantine(name: &str, reason: Option<String>) -> anyhow::Result<Exit> {
    let place = surroundings(None)?;
    let reason = reason.unwrap_or_else(|| "barred by hand".to_owned());
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Quarantine::open(&place.state).add(Entry {
        key: name.to_owned(),
        since: since.map_or(0, |since| since.as_millis() as u64),
        sandbox_id: String::new(),
        reason: reason.clone(),
        bundle: None,
        count: 1,
    })?;
    let event = NewEvent::new(EventKind::ToolQuarantined, "")
        .with("tool", name)
        .with("reason", reason)
        .with("by", rustix::process::getuid().as_raw());
    Log::open(&place.audit_log)?.append(&event)?;
    output::message(&format!("lazaret: {} is quarantined", printable(name)));
    Ok(Exit::Ok)
}

fn release(name: &str, reason: Option<String>) -> anyhow::Result<Exit> {
    let place = surroundings(None)?;
    let store = Quarantine::open(&place.state);
    let Some(entry) = store.check(name)? else { bail!("{} is not quarantined", printable(name)) };
    let reason = match reason {
        Some(reason) => reason,
        None => ask_for_reason(name, &entry)?,
    };
    // First the record, then the deed: a release that nobody can account for must not be.
    let event = NewEvent::new(EventKind::ToolReleased, &entry.sandbox_id)
        .with("tool", name)
        .with("reason", reason)
        .with("by", rustix::process::getuid().as_raw());
    Log::open(&place.audit_log)?.append(&event)?;
    store.release(name)?;
    output::message(&format!("lazaret: {} may run again", printable(name)));
    Ok(Exit::Ok)
}

fn ask_for_reason(name: &str, entry: &Entry) -> anyhow::Result<String> {
    if !std::io::stdin().is_terminal() {
        output::warning("no reason was given (--reason); the log says so");
        return Ok("none given".to_owned());
    }
    output::message(&format!("{} was quarantined: {}", printable(name), printable(&entry.reason)));
    let _ = write!(std::io::stderr(), "Why may it run again? ");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("the reason cannot be read")?;
    let reason = line.trim();
    if reason.is_empty() {
        bail!("without a reason {} stays quarantined", printable(name));
    }
    Ok(reason.to_owned())
}

/// Runs a tool; the result is JSON on standard output whatever happens.
fn run(args: &args::ToolRun) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let place = surroundings(args.audit.clone())?;
    let registry = Registry::load(&Source::standard(&place.directories))?;
    let (result, exit) = match registry.find(&args.name) {
        Err(unknown) => refused(&args.name, ToolFailure::new(ErrorCode::UnknownTool, unknown.to_string())),
        Ok(tool) => {
            let (mut result, exit) = call(args, &place, tool)?;
            // The answer comes at a multiple of the quantum, so that its time tells little, and says nothing else.
            let quantum = tool.time_quantum();
            if !quantum.is_zero() {
                let took = Duration::from_millis(result.duration_ms);
                result.duration_ms = (took + pad_to_quantum(took, quantum)).as_millis() as u64;
            }
            std::thread::sleep(pad_to_quantum(started.elapsed(), quantum));
            (result, exit)
        }
    };
    output::data(&format!("{}\n", serde_json::to_string(&result)?));
    Ok(exit)
}

fn refused(name: &str, failure: ToolFailure) -> (ToolResult, Exit) {
    (ToolResult::refused(name, failure), Exit::Refused)
}

fn call(args: &args::ToolRun, place: &Surroundings, tool: &Tool) -> anyhow::Result<(ToolResult, Exit)> {
    let directory = env::current_dir().context("the current directory cannot be used")?;
    let loaded = tool.policy()?;
    loaded.warnings.iter().for_each(|warning| output::warning(warning));
    let mut policy = loaded.policy;
    let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let input = read_input(args.input.as_deref())?;
    let checked = match tool.check(&input, &expanded(&policy, home.as_deref(), &directory), &directory) {
        Ok(checked) => checked,
        Err(errors) => return Ok(refused(tool.name(), ToolFailure::invalid_input(&errors))),
    };
    for (name, value) in checked.environment() {
        if let (Some(name), Some(value)) = (name.to_str(), value.to_str()) {
            policy.environment.set.insert(name.to_owned(), value.to_owned());
        }
    }
    let own_directories = [&place.directories.state, &place.directories.config];
    let mut own_directories: Vec<PathBuf> = own_directories.into_iter().flatten().cloned().collect();
    own_directories.extend(lazaret_audit::files_of(&place.audit_log));
    let files = configuration::files(place.directories.config.as_deref());
    let configuration = Configuration::load(&files)?;
    let request = Request {
        policy,
        profile: match tool.policy_choice() {
            PolicyChoice::Profile(profile) => Some(profile.name.to_owned()),
            PolicyChoice::File(_) => None,
        },
        command: checked.argv().to_vec(),
        directory,
        home,
        environment: env::vars_os().collect(),
        requirement: Requirement::Enforce,
        audit_log: place.audit_log.clone(),
        terminal: TerminalUse::Never,
        writing: Writing::Through,
        state: Some(place.state.clone()),
        tool: Some(tool.name().to_owned()),
        rotation: configuration.rotation(),
        alerts: configuration.alert,
        own_directories,
        live_rules: None,
        violations: None,
    };
    // No threads have been started yet.
    Ok(match execute(request, tool, &checked) {
        Ok(result) => {
            let exit = exit_of(&result);
            (result, exit)
        }
        Err(error @ RunError::Quarantined { .. }) => {
            refused(tool.name(), ToolFailure::new(ErrorCode::Quarantined, error.to_string()))
        }
        Err(error) => refused(tool.name(), ToolFailure::new(ErrorCode::NotStarted, error.to_string())),
    })
}

fn execute(request: Request, tool: &Tool, checked: &CheckedInput) -> Result<ToolResult, RunError> {
    let mut sandbox = Sandbox::create_here(request)?;
    sandbox.notes().iter().for_each(|note| output::warning(note));
    let argv = checked.argv();
    let program = argv.first().cloned().unwrap_or_default();
    let mut child = sandbox
        .command(program)
        .args(argv.iter().skip(1))
        .stdin(Stdio::Piped)
        .stdout(Stdio::Piped)
        .stderr(Stdio::Inherit)
        .spawn()?;
    let input = checked.stdin().to_owned();
    let writer = child.stdin.take().map(|mut pipe| {
        // A tool that does not read its input is no error.
        std::thread::spawn(move || drop(pipe.write_all(input.as_bytes())))
    });
    let most = tool.max_output().0;
    let reader = child.stdout.take().map(|mut pipe| {
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            let _ = (&mut pipe).take(most + 1).read_to_end(&mut kept);
            // The rest is read and forgotten, so that the tool can end.
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
            kept
        })
    });
    let report = child.wait()?;
    drop(writer);
    let mut written = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
    let completeness =
        if written.len() as u64 > most { Completeness::CutOff } else { Completeness::Complete };
    written.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    output::block(&report.summary());
    sandbox.destroy()?;
    Ok(ToolResult::finished(tool, &written, completeness, &report))
}

fn exit_of(result: &ToolResult) -> Exit {
    match result.error.as_ref().map(|error| error.code) {
        None => Exit::Ok,
        Some(ErrorCode::BadOutput) => Exit::Failed,
        Some(_) => Exit::Command(result.exit_code.and_then(|code| u8::try_from(code).ok()).unwrap_or(125)),
    }
}

fn read_input(input: Option<&str>) -> anyhow::Result<String> {
    match input {
        None => Ok("{}".to_owned()),
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().take(2 << 20).read_to_string(&mut text).context("the input cannot be read")?;
            Ok(text)
        }
        Some(file) if file.starts_with('@') => {
            let file = file.trim_start_matches('@');
            fs::read_to_string(file).with_context(|| format!("the input {file} cannot be read"))
        }
        Some(text) => Ok(text.to_owned()),
    }
}

/// The policy with `~` and `.` replaced, for checking path arguments.
fn expanded(policy: &Policy, home: Option<&std::path::Path>, directory: &std::path::Path) -> Policy {
    let mut policy = policy.clone();
    let files = &mut policy.filesystem;
    for path in
        files.denied_paths.iter_mut().chain(&mut files.read_only_paths).chain(&mut files.read_write_paths)
    {
        if let Ok(rest) = path.strip_prefix("~") {
            *path = home.map_or_else(|| PathBuf::from("/nonexistent").join(rest), |home| home.join(rest));
        } else if let Ok(rest) = path.strip_prefix(".") {
            *path = directory.join(rest);
        }
    }
    policy
}
