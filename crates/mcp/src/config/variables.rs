//! `${NAME}` and `${NAME:-default}`, filled in from the proxy's own environment as Claude Code does, and
//! `${env:NAME}`, as VS Code and Cursor write it.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

use super::Unusable;

/// Fills in every variable of a text; `key` is where it stands. What is filled in is not looked at again.
pub fn expand(text: &str, key: &str, environment: &BTreeMap<OsString, OsString>) -> Result<String, Unusable> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inner, after)) = after.split_once('}') else { break };
        filled.push_str(before);
        filled.push_str(&value(inner, key, environment)?);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

fn value(inner: &str, key: &str, environment: &BTreeMap<OsString, OsString>) -> Result<String, Unusable> {
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let name = name.strip_prefix("env:").unwrap_or(name);
    let key = || key.to_owned();
    match environment.get(OsStr::new(name)) {
        Some(value) => value
            .to_str()
            .map(str::to_owned)
            .ok_or_else(|| Unusable::NotText { key: key(), variable: name.to_owned() }),
        None => match (default, of_another_client(name)) {
            (Some(default), _) => Ok(default.to_owned()),
            (None, Some(client)) => {
                Err(Unusable::Placeholder { key: key(), placeholder: name.to_owned(), client })
            }
            (None, None) => Err(Unusable::Variable { key: key(), variable: name.to_owned() }),
        },
    }
}

fn of_another_client(name: &str) -> Option<&'static str> {
    let theirs = ["workspaceFolder", "userHome", "workspaceFolderBasename", "pathSeparator"];
    let is = name.starts_with("input:") || name.starts_with("config:") || theirs.contains(&name);
    is.then_some("VS Code or Cursor")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, Unusable> {
        let environment = [("A", "one"), ("B", "${A}"), ("EMPTY", "")];
        let environment = environment.iter().map(|(k, v)| (OsString::from(k), OsString::from(v))).collect();
        expand(text, "env.X", &environment)
    }

    #[test]
    fn variables_and_defaults_are_filled_in() {
        for (text, meant) in [
            ("plain $A", "plain $A"),
            ("x${A}y${A}", "xoneyone"),
            ("${NONE:-d:-e}", "d:-e"),
            ("${NONE:-}", ""),
            ("${EMPTY:-d}", ""),
            ("${env:A}", "one"),
            ("${B}", "${A}"),
            ("${unclosed", "${unclosed"),
            ("${A}${", "one${"),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(meant), "{text}");
        }
    }

    #[test]
    fn a_variable_that_is_not_set_is_named_with_its_place() {
        let error = expanded("a ${NONE}").unwrap_err().to_string();
        assert!(
            error.contains("env.X") && error.contains("NONE") && error.contains("${NONE:-DEFAULT}"),
            "{error}"
        );
        assert!(matches!(expanded("${}"), Err(Unusable::Variable { .. })));
        assert!(matches!(expanded("${input:token}"), Err(Unusable::Placeholder { .. })));
        assert!(matches!(expanded("${workspaceFolder}/x"), Err(Unusable::Placeholder { .. })));
    }
}
