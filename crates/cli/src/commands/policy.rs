//! `lazaret policy` and `lazaret profile`.

use std::path::Path;

use anyhow::{Context as _, bail};
use lazaret_gate::{
    Tool,
    judge::{
        Catalog,
        diagnostic::Severity,
        source::{self, Against},
    },
};
use lazaret_policy::{
    load::{self, Loaded},
    profile::{self, Profile},
};
use serde_json::json;

use crate::{args, exit::Exit, output};

pub fn policy(command: args::Policy) -> anyhow::Result<Exit> {
    match command {
        args::Policy::Check { file, tools, json } if tools.is_some() || source::holds_policies(&file) => {
            check_calls(&file, tools.as_deref(), json)
        }
        args::Policy::Check { file, tools: _, json } => Ok(check(&file, json)),
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

fn check(file: &Path, as_json: bool) -> Exit {
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

/// Policies for tool calls.
fn check_calls(place: &Path, tools: Option<&Path>, as_json: bool) -> anyhow::Result<Exit> {
    let catalog = tools.map(read_tools).transpose()?;
    let found = source::check(place, catalog.as_ref().map_or(Against::Nothing, Against::Tools));
    let (errors, warnings): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|found| found.severity == Severity::Error);
    if as_json {
        let report = json!({ "ok": errors.is_empty(), "errors": errors, "warnings": warnings });
        output::data(&format!("{report}\n"));
    } else {
        warnings.iter().for_each(|found| output::warning(&found.to_string()));
        errors.iter().for_each(|found| output::message(&found.to_string()));
        if errors.is_empty() {
            let note = if catalog.is_some() { "" } else { " (names of tools are checked with --tools)" };
            output::data(&format!("{}: ok{note}\n", place.display()));
        }
    }
    Ok(if errors.is_empty() { Exit::Ok } else { Exit::Refused })
}

fn read_tools(file: &Path) -> anyhow::Result<Catalog> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
    let tools: Vec<Tool> = serde_json::from_str(&text).with_context(|| {
        format!(
            "{} is not a list of tools: [{{\"server\": …, \"name\": …, \"inputSchema\": …}}]",
            file.display()
        )
    })?;
    Ok(Catalog::of(&tools))
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
