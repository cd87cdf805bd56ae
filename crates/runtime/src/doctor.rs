//! What this host can enforce: each layer is tried for real, in a throw-away sandbox, and what is missing
//! comes with its likely cause and the command that mends it.

use std::{fmt, fs, path::PathBuf};

use lazaret_policy::{Policy, schema::Level};
use lazaret_sandbox::{
    Enforcement, Layer, Spec,
    linux::{
        cgroup::Cgroup,
        launch::{Birth, LaunchError, Stem, launch},
        sys,
    },
    spec::Group,
};
use serde::Serialize;

use crate::{
    alert::Destinations,
    lower,
    request::{OnSuccess, Request, Requirement, TerminalUse, Writing},
};

/// The result for people and programs.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Findings {
    /// Everything that level 2 needs is there.
    pub level2: bool,
    pub level1: bool,
    pub kernel: String,
    pub landlock_abi: u32,
    pub uid: u32,
    pub layers: Vec<Finding>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub layer: &'static str,
    pub available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// What is weaker without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weaker: Option<&'static str>,
}

/// Builds a sandbox that is never let go, and asks it.
pub fn examine() -> Findings {
    let (enforcement, failure) = try_out();
    let layers: Vec<Finding> =
        Layer::ALL.into_iter().map(|layer| finding(layer, &enforcement, failure.as_ref())).collect();
    let has = |layers: &[Layer]| enforcement.missing(layers).is_empty();
    Findings {
        level2: has(&lower::needed_layers(Level::Full)),
        level1: has(&lower::needed_layers(Level::Process)),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        landlock_abi: sys::landlock_abi(),
        uid: rustix::process::getuid().as_raw(),
        layers,
    }
}

/// What was in force, and what stood in the way of more.
fn try_out() -> (Enforcement, Option<LaunchError>) {
    let (mut enforcement, failure) = try_sandbox(Birth::Here);
    if Cgroup::make(&some_limits()).is_ok() {
        enforcement.add(Layer::Cgroup);
    }
    if try_layer() {
        enforcement.add(Layer::Overlay);
    }
    (enforcement, failure)
}

/// To see whether there can be any.
pub(crate) fn some_limits() -> Group {
    Group { memory: Some(64 << 20), tasks: Some(64), cpu_time_ms: Some(1), ..Group::default() }
}

/// Can a directory be made copy-on-write?
fn try_layer() -> bool {
    let mut request = plain_request();
    request.policy.filesystem.read_write_paths = vec![PathBuf::from("/usr/share")];
    request.writing = Writing::CopyOnWrite { on_success: OnSuccess::Discard };
    let Ok(lowered) = lower::lower(&request) else { return false };
    launch(&lowered.spec, || Ok::<_, LaunchError>(()))
        .is_ok_and(|sandbox| sandbox.enforcement().has(Layer::Overlay))
}

fn plain_request() -> Request {
    Request {
        policy: Policy::default(),
        profile: None,
        command: vec!["true".into()],
        directory: PathBuf::from("/"),
        home: None,
        environment: Vec::new(),
        requirement: Requirement::Warn,
        audit_log: PathBuf::from("/dev/null"),
        rotation: lazaret_audit::Rotation::NEVER,
        terminal: TerminalUse::Never,
        writing: Writing::Through,
        state: None,
        tool: None,
        alerts: Destinations::default(),
        own_directories: Vec::new(),
        live_rules: None,
        violations: None,
    }
}

/// What is in force in a sandbox that is never let go; where none can be built, in what is left, and why.
pub(crate) fn try_sandbox(birth: Birth<'_>) -> (Enforcement, Option<LaunchError>) {
    let build = |spec: &Spec| -> Result<Enforcement, LaunchError> {
        let stem = Stem::start_in(birth, spec.namespaces, spec.identity, None)?;
        Ok(stem.grow(birth, spec, || Ok::<_, LaunchError>(()))?.enforcement())
    };
    let request = plain_request();
    let Ok(lowered) = lower::lower(&request) else { return (Enforcement::default(), None) };
    match build(&lowered.spec) {
        Ok(enforcement) => (enforcement, None),
        Err(failure) => {
            let weaker = lower::without_namespaces(&lowered, &request.policy);
            (build(&weaker.spec).unwrap_or_default(), Some(failure))
        }
    }
}

fn finding(layer: Layer, enforcement: &Enforcement, failure: Option<&LaunchError>) -> Finding {
    if enforcement.has(layer) {
        return Finding { layer: layer.name(), available: true, reason: None, fix: None, weaker: None };
    }
    let (reason, fix) = why_not(layer, failure);
    Finding {
        layer: layer.name(),
        available: false,
        reason: Some(reason),
        fix: Some(fix),
        weaker: Some(layer.weaker_without()),
    }
}

/// The likely cause, and what mends it.
pub(crate) fn why_not(layer: Layer, failure: Option<&LaunchError>) -> (String, String) {
    match layer {
        Layer::Landlock => (
            "the kernel has no Landlock, or it is not among the active security modules".to_owned(),
            "use Linux 5.13 or newer and add landlock to the lsm= kernel parameter".to_owned(),
        ),
        Layer::Seccomp | Layer::Notify => (
            "the kernel refused the system call filter".to_owned(),
            "use a kernel with CONFIG_SECCOMP_FILTER, and a container runtime that allows seccomp(2)"
                .to_owned(),
        ),
        Layer::Cgroup => (
            "no control group with the controllers memory and pids can be made here".to_owned(),
            "as an ordinary user start lazaret in a delegated scope: systemd-run --user --scope -p Delegate=yes lazaret …; \
             in a container mount the cgroup filesystem writable"
                .to_owned(),
        ),
        Layer::Overlay if failure.is_none() => (
            "an overlay over private storage cannot be mounted here".to_owned(),
            "use Linux 6.6 or newer (user attributes on tmpfs), with the overlay module loaded".to_owned(),
        ),
        _ => why_no_namespaces(failure),
    }
}

fn why_no_namespaces(failure: Option<&LaunchError>) -> (String, String) {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let is = |path: &str, value: &str| read(path).as_deref() == Some(value);
    if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        return (
            "AppArmor restricts user namespaces for unprivileged programs".to_owned(),
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or install an AppArmor profile that \
             gives lazaret the userns permission"
                .to_owned(),
        );
    }
    if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        return (
            "kernel.unprivileged_userns_clone is 0".to_owned(),
            "sudo sysctl -w kernel.unprivileged_userns_clone=1".to_owned(),
        );
    }
    if is("/proc/sys/user/max_user_namespaces", "0") {
        let inside = std::env::var_os("LAZARET").is_some();
        return if inside {
            (
                "this is inside a sandbox already, which forbids nested ones".to_owned(),
                "run lazaret outside of the sandbox".to_owned(),
            )
        } else {
            (
                "user.max_user_namespaces is 0".to_owned(),
                "sudo sysctl -w user.max_user_namespaces=15000".to_owned(),
            )
        };
    }
    let detail = failure.map_or_else(|| "unknown".to_owned(), ToString::to_string);
    (
        format!("the sandbox could not be built: {detail}"),
        "in a container: start it with a seccomp profile that allows clone3, mount and pivot_root, and an \
         unmasked /proc (docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined)"
            .to_owned(),
    )
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel {}, uid {}, Landlock ABI {}", self.kernel, self.uid, self.landlock_abi)?;
        let mut told: Option<&String> = None;
        for finding in &self.layers {
            write!(f, "  {:<14} {}", finding.layer, if finding.available { "yes" } else { "NO" })?;
            match finding.weaker {
                Some(weaker) => writeln!(f, "   without it {weaker}")?,
                None => writeln!(f)?,
            }
            if let (Some(reason), Some(fix)) = (&finding.reason, &finding.fix)
                && told != Some(reason)
            {
                writeln!(f, "      why: {reason}\n      fix: {fix}")?;
                told = Some(reason);
            }
        }
        let verdict = match (self.level2, self.level1) {
            (true, _) => "level 2 can be enforced here",
            (false, true) => "level 1 can be enforced here, level 2 cannot",
            _ => "neither level 1 nor level 2 can be enforced here; `run --warn` uses what there is",
        };
        writeln!(f, "{verdict}")
    }
}
