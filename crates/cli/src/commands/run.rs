//! `lazaret run`: from what was typed to a request, from the outcome to the exit code.

use std::{
    env,
    fs::File,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use lazaret_policy::{
    Policy, load,
    network::Pins,
    schema::{self, Level},
};
use lazaret_runtime::{
    Report, Request, Requirement, Stem,
    configuration::{self, Configuration},
    leftovers, prepare,
    request::{OnSuccess, TerminalUse, Writing},
    state::Directories,
};
use rustix::fs::OFlags;

use crate::{
    args::{self, OnEscape, Run},
    exit::Exit,
    output,
};

pub fn run(args: Run, stem: Option<Stem>) -> anyhow::Result<Exit> {
    let request = resolve(&args)?;
    if args.plan {
        print_plan(&prepare(request)?, args.json);
        return Ok(Exit::Ok);
    }
    carry_out(request, stem, args.report.as_deref(), |_| {})
}

/// From a request to the exit code. `edit` may take out of the report what is not to be shown.
pub fn carry_out(
    request: Request,
    stem: Option<Stem>,
    report: Option<&Path>,
    edit: impl FnOnce(&mut Report),
) -> anyhow::Result<Exit> {
    let report_file = report.map(open_report).transpose()?;
    // Made before the view is: a log inside it is covered from the start.
    lazaret_audit::Log::open(&request.audit_log)?;
    if let Some(state) = &request.state {
        leftovers::clear(state, &request.audit_log)?.iter().for_each(|sentence| output::warning(sentence));
    }
    let mut outcome = prepare(request)?.run(stem, output::warning)?;
    if let Some(why) = &outcome.not_executed {
        output::error(why);
    }
    if let Some(file) = report_file {
        write_report(file, &outcome.report)?;
    }
    edit(&mut outcome.report);
    output::block(&outcome.report.summary());
    Ok(Exit::Command(u8::try_from(outcome.report.exit_code).unwrap_or(125)))
}

/// Files, directories and environment are read here, and nowhere later.
fn resolve(args: &Run) -> anyhow::Result<Request> {
    let directory = current_directory()?;
    let mut policy = load_policy(args)?;
    apply_flags(args, &directory, &mut policy)?;
    request(args, directory, policy)
}

pub fn current_directory() -> anyhow::Result<PathBuf> {
    env::current_dir().context("the current directory cannot be used (was it deleted?)")
}

/// The request for a policy that is complete.
pub fn request(args: &Run, directory: PathBuf, policy: Policy) -> anyhow::Result<Request> {
    let request = frame(policy, directory, args.audit.as_deref(), args.report.as_deref())?;
    Ok(Request {
        profile: args.policy.is_none().then(|| args.profile.clone()),
        command: args.command.clone(),
        requirement: if args.warn { Requirement::Warn } else { Requirement::Enforce },
        writing: writing(args),
        tool: args.tool.clone(),
        ..request
    })
}

/// A policy in the surroundings of this process, without a command yet.
pub fn frame(
    policy: Policy,
    directory: PathBuf,
    audit: Option<&Path>,
    report: Option<&Path>,
) -> anyhow::Result<Request> {
    let directories = Directories::from_environment(|name| env::var_os(name));
    let Some(audit_log) = audit.map(Path::to_owned).or_else(|| directories.audit_log()) else {
        bail!("there is no place for the audit log: set HOME or XDG_STATE_HOME, or name a file with --audit");
    };
    let audit_log = directory.join(audit_log);
    let mut own_directories: Vec<PathBuf> =
        [&directories.state, &directories.config].into_iter().flatten().cloned().collect();
    own_directories.extend(lazaret_audit::files_of(&audit_log));
    own_directories.extend(report.map(|report| directory.join(report)));
    let configuration = Configuration::load(&configuration::files(directories.config.as_deref()))?;
    Ok(Request {
        policy,
        profile: None,
        command: Vec::new(),
        directory,
        home: home(),
        environment: env::vars_os().collect(),
        requirement: Requirement::Enforce,
        audit_log,
        terminal: TerminalUse::WhenInteractive,
        writing: Writing::Through,
        tool: None,
        rotation: configuration.rotation(),
        alerts: configuration.alert,
        state: directories.state.clone(),
        own_directories,
        live_rules: None,
        violations: None,
    })
}

pub fn home() -> Option<PathBuf> {
    env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

fn writing(args: &Run) -> Writing {
    if !args.cow {
        return Writing::Through;
    }
    let on_success = match args.on_success {
        Some(args::OnSuccess::Commit) => OnSuccess::Commit,
        Some(args::OnSuccess::Discard) => OnSuccess::Discard,
        Some(args::OnSuccess::Keep) | None => OnSuccess::Keep,
    };
    Writing::CopyOnWrite { on_success }
}

fn load_policy(args: &Run) -> anyhow::Result<Policy> {
    let loaded = match &args.policy {
        Some(file) => load::load_file(file)?,
        None => super::policy::find_profile(&args.profile)?.load()?,
    };
    loaded.warnings.iter().for_each(|warning| output::warning(warning));
    Ok(loaded.policy)
}

fn apply_network_flags(args: &Run, policy: &mut Policy) -> anyhow::Result<()> {
    let network = &mut policy.network;
    if !args.allow.is_empty() {
        network.allow_network = true;
        network.allowed_hosts.extend(args.allow.iter().cloned());
    }
    let only_helpers = !args.allow_address.is_empty() || !args.resolve.is_empty();
    if only_helpers && !network.allow_network {
        output::warning("--allow-address and --resolve open nothing by themselves: name a host with --allow");
    }
    network.allowed_addresses.extend(args.allow_address.iter().cloned());
    for pin in &args.resolve {
        let Some((name, addresses)) = pin.split_once('=') else {
            bail!("--resolve `{pin}` has no `=`: write NAME=ADDRESS");
        };
        for address in addresses.split(',') {
            let address = address.trim_start_matches('[').trim_end_matches(']');
            let Ok(address) = address.parse() else {
                bail!("--resolve `{pin}`: `{address}` is no address, such as 10.0.0.5 or fd00::5");
            };
            let Pins(pins) = network.resolve.entry(name.to_owned()).or_insert_with(|| Pins(Vec::new()));
            pins.push(address);
        }
    }
    network.publish.extend(args.publish.iter().copied());
    Ok(())
}

pub fn apply_flags(args: &Run, directory: &Path, policy: &mut Policy) -> anyhow::Result<()> {
    if let Some(level) = args.level.and_then(Level::from_number) {
        policy.isolation_level = level;
    }
    // On the command line a relative path is relative to the current directory, as everywhere.
    let absolute = |paths: &[PathBuf]| -> Vec<PathBuf> {
        paths.iter().map(|path| normal(&directory.join(path))).collect()
    };
    policy.filesystem.read_only_paths.extend(absolute(&args.ro));
    policy.filesystem.read_write_paths.extend(absolute(&args.rw));
    policy.filesystem.denied_paths.extend(absolute(&args.deny));
    for variable in &args.env {
        let Some(variable) = variable.to_str() else { bail!("--env {variable:?} is not valid UTF-8") };
        match variable.split_once('=') {
            Some(("", _)) => bail!("--env `{variable}` has no name before the `=`"),
            Some((name, value)) => drop(policy.environment.set.insert(name.to_owned(), value.to_owned())),
            None => policy.environment.allow.push(variable.to_owned()),
        }
    }
    apply_network_flags(args, policy)?;
    let resources = &mut policy.resources;
    resources.max_memory = args.memory.or(resources.max_memory);
    resources.max_cpu = args.cpu_time.or(resources.max_cpu);
    policy.timeout = args.timeout.or(policy.timeout);
    policy.process.max_processes = args.max_procs.or(policy.process.max_processes);
    if let Some(limit) = args.max_write {
        policy.filesystem.max_total_size = Some(limit);
        let file = policy.filesystem.max_file_size.unwrap_or(limit);
        policy.filesystem.max_file_size = Some(file.min(limit));
    }
    policy.on_escape = match args.on_escape {
        Some(OnEscape::Kill) => Some(schema::OnEscape::Kill),
        Some(OnEscape::Deny) => Some(schema::OnEscape::Deny),
        None => policy.on_escape,
    };
    for (name, zero) in [
        ("--memory", args.memory.is_some_and(|value| value.0 == 0)),
        ("--cpu-time", args.cpu_time.is_some_and(|value| value.0 == 0)),
        ("--timeout", args.timeout.is_some_and(|value| value.0 == 0)),
        ("--max-procs", args.max_procs == Some(0)),
        ("--max-write", args.max_write.is_some_and(|value| value.0 == 0)),
    ] {
        if zero {
            bail!("{name} 0 would leave nothing to run with");
        }
    }
    Ok(())
}

/// Takes `.` and `..` out. What `..` means depends on links before it, so those are resolved; a link at the
/// end stays one.
pub fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        if component == std::path::Component::ParentDir {
            normal = normal.canonicalize().unwrap_or(normal);
            normal.pop();
        } else {
            normal.push(component);
        }
    }
    normal
}

fn print_plan(prepared: &lazaret_runtime::Prepared, json: bool) {
    let plan = prepared.plan();
    if json {
        let steps: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
        output::data(&format!("{}\n", serde_json::json!({ "steps": steps, "notes": prepared.notes() })));
    } else {
        prepared.notes().iter().for_each(|note| output::warning(note));
        output::data(&plan.to_string());
    }
}

/// Opened before anything runs: what the command does to the name later cannot lead the report astray.
pub fn open_report(path: &Path) -> anyhow::Result<File> {
    File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
        .open(path)
        .with_context(|| format!("the report cannot be written to {}", path.display()))
}

pub fn write_report(mut file: File, report: &Report) -> anyhow::Result<()> {
    let mut text = serde_json::to_vec_pretty(report).context("the report cannot be put into JSON")?;
    text.push(b'\n');
    file.write_all(&text).context("the report cannot be written")
}
