//! `lazaret srt`, judged from outside: the cases of srt itself, names that are protected however they are come
//! at, and what of its settings reaches the network.

mod detours;
mod ends;
mod protection;
mod reading;
mod settings;

use std::{ffi::OsStr, process::Command};

use serde_json::{Value, json};

use crate::case::{Case, Lazaret, OTHER, PATH, Who, as_everybody, has_tool, program};

/// Settings with nothing in them but what is given.
fn with(network: &Value, filesystem: &Value) -> Value {
    let mut settings = json!({
        "network": { "allowedDomains": [], "deniedDomains": [] },
        "filesystem": { "denyRead": [], "allowRead": [], "allowWrite": [], "denyWrite": [] },
    });
    for (section, more) in [("network", network), ("filesystem", filesystem)] {
        for (key, value) in more.as_object().unwrap() {
            settings[section][key] = value.clone();
        }
    }
    settings
}

/// `lazaret srt` with these settings, not yet run.
fn srt<'a, S: AsRef<OsStr>>(
    case: &'a Case,
    settings: &Value,
    args: impl IntoIterator<Item = S>,
) -> Lazaret<'a> {
    let file = case.file(case.root.join("settings.json"), settings.to_string());
    let mut all = vec!["srt".into(), "-s".into(), file.into_os_string()];
    all.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
    case.lazaret(all)
}

#[test]
fn the_cases_of_srt_come_out_as_they_should() {
    if !["python3", "curl", "git", "unshare", "mount", "getent"].into_iter().all(has_tool) {
        return;
    }
    as_everybody(|case| {
        let text = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/srt-cases")).unwrap();
        let script = case.file(case.root.join("srt-cases"), text);
        let mut command = if case.who == Who::Other {
            let mut command = Command::new("setpriv");
            let id = OTHER.to_string();
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "python3"]);
            command
        } else {
            Command::new("python3")
        };
        command
            .arg(script)
            .arg("--lazaret")
            .arg(program())
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", &case.home);
        let output = command.output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{out}\n{err}");
        assert!(out.contains(" cases, 0 not as they should be"), "{out}");
    });
}
