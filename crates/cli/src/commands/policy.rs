//! `lazaret policy` and `lazaret profile`.

use anyhow::bail;
use lazaret_policy::{
    load::{self, Loaded},
    profile::{self, Profile},
};
use serde_json::json;

use crate::{args, exit::Exit, output};

pub fn policy(command: args::Policy) -> anyhow::Result<Exit> {
    match command {
        args::Policy::Check { file, json } => Ok(check(&file, json)),
        args::Policy::Schema => {
            output::data(&format!("{}\n", serde_json::to_string_pretty(&load::json_schema())?));
            Ok(Exit::Ok)
        }
        args::Policy::Show { name, json } => show(&name, json),
    }
}

pub fn profile(command: args::Profile) -> anyhow::Result<Exit> {
    match command {
        args::Profile::List { json: true } => {
            let profiles: Vec<_> = profile::builtin()
                .iter()
                .map(|profile| json!({ "name": profile.name, "summary": profile.summary }))
                .collect();
            output::data(&format!("{}\n", json!(profiles)));
        }
        args::Profile::List { json: false } => {
            for profile in profile::builtin() {
                output::data(&format!("{:<12} {}\n", profile.name, profile.summary));
            }
        }
        args::Profile::Show { name, json } => return show(&name, json),
    }
    Ok(Exit::Ok)
}

/// A built-in profile, or an error that names them all.
pub fn find_profile(name: &str) -> anyhow::Result<&'static Profile> {
    let Some(profile) = profile::find(name) else {
        let names: Vec<_> = profile::builtin().iter().map(|profile| profile.name).collect();
        bail!("there is no profile `{name}`; there are {}", names.join(", "));
    };
    Ok(profile)
}

fn check(file: &std::path::Path, as_json: bool) -> Exit {
    match load::load_file(file) {
        Ok(Loaded { warnings, .. }) => {
            if as_json {
                output::data(&format!("{}\n", json!({ "ok": true, "warnings": warnings })));
            } else {
                warnings.iter().for_each(|warning| output::warning(warning));
                output::data(&format!("{}: ok\n", file.display()));
            }
            Exit::Ok
        }
        Err(error) => {
            if as_json {
                let error = json!({
                    "file": error.file, "line": error.line, "column": error.column,
                    "message": error.message, "hint": error.hint,
                });
                output::data(&format!("{}\n", json!({ "ok": false, "error": error })));
            } else {
                output::message(&error.to_string());
            }
            Exit::Refused
        }
    }
}

fn show(name: &str, as_json: bool) -> anyhow::Result<Exit> {
    let profile = find_profile(name)?;
    if as_json {
        output::data(&format!("{}\n", serde_json::to_string_pretty(&profile.load()?.policy)?));
    } else {
        output::data(profile.source);
    }
    Ok(Exit::Ok)
}
