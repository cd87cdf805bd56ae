//! A draft as the text of a policy file: TOML with comments, always in the same order.

use std::fmt::{Display, Write as _};

use lazaret_policy::Policy;

use super::draft::{Draft, List};

/// What is said at the top of the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Heading {
    pub lines: Vec<String>,
}

/// The whole file.
pub fn write(draft: &Draft, heading: &Heading) -> String {
    let mut text = String::new();
    for line in heading.lines.iter().chain(&draft.remarks) {
        comment(&mut text, line);
    }
    text.push_str("\nisolationLevel = \"LEVEL_2\"\n");
    let policy = &draft.policy;
    figure(&mut text, draft, "timeout", policy.timeout);
    filesystem(&mut text, draft);
    process(&mut text, draft);
    network(&mut text, draft);
    text.push_str("\n[resources]\n# The most that was used, with room.\n");
    figure(&mut text, draft, "maxCPU", policy.resources.max_cpu);
    figure(&mut text, draft, "maxMemory", policy.resources.max_memory);
    figure(&mut text, draft, "maxThreads", policy.resources.max_threads);
    text.push_str("\n[syscalls]\n# What was seen, the other ways to do the same, and what goes with it.\nmode = \"WHITELIST\"\n");
    list(&mut text, draft, "syscalls", List::Syscalls, policy.syscalls.syscalls.iter().map(String::as_str));
    environment(&mut text, policy);
    text
}

fn filesystem(text: &mut String, draft: &Draft) {
    let files = &draft.policy.filesystem;
    text.push_str("\n[filesystem]\n");
    let texts = |paths: &[std::path::PathBuf]| -> Vec<String> {
        paths.iter().filter_map(|path| path.to_str()).map(str::to_owned).collect()
    };
    for (key, list_of, paths) in [
        ("readOnlyPaths", List::ReadOnly, texts(&files.read_only_paths)),
        ("readWritePaths", List::ReadWrite, texts(&files.read_write_paths)),
    ] {
        list(text, draft, key, list_of, paths.iter().map(String::as_str));
    }
    let denied = texts(&files.denied_paths);
    if !denied.is_empty() {
        text.push_str("# Secrets in what is visible.\n");
        plain_list(text, "deniedPaths", &denied);
    }
    if files.toolchains {
        text.push_str("toolchains = true\n");
    }
    figure(text, draft, "maxFileSize", files.max_file_size);
    figure(text, draft, "maxTotalSize", files.max_total_size);
}

fn process(text: &mut String, draft: &Draft) {
    let process = &draft.policy.process;
    text.push_str("\n[process]\n");
    let _ = writeln!(text, "allowFork = {}", process.allow_fork);
    let _ = writeln!(text, "allowExec = {}", process.allow_exec);
    let programs: Vec<&str> = process.allowed_executables.iter().filter_map(|path| path.to_str()).collect();
    let suggested = draft.suggestions.keys().any(|(of, _)| *of == List::Executables);
    if !programs.is_empty() {
        list(text, draft, "allowedExecutables", List::Executables, programs.into_iter());
    } else if suggested {
        text.push_str("# What was executed; a list here would be the only programs that can be.\n");
        suggestions(text, draft, List::Executables, "# ");
    }
}

fn network(text: &mut String, draft: &Draft) {
    let network = &draft.policy.network;
    text.push_str("\n[network]\n");
    let _ = writeln!(text, "allowNetwork = {}", network.allow_network);
    if network.allow_network {
        list(text, draft, "allowedHosts", List::Hosts, network.allowed_hosts.iter().map(String::as_str));
    }
    if !network.allowed_addresses.is_empty() {
        plain_list(text, "allowedAddresses", &network.allowed_addresses);
    }
    if !network.resolve.is_empty() {
        text.push_str("\n[network.resolve]\n");
        for (name, pins) in &network.resolve {
            let addresses: Vec<String> = pins.0.iter().map(|address| quoted(&address.to_string())).collect();
            let _ = writeln!(text, "{} = [{}]", quoted(name), addresses.join(", "));
        }
    }
}

fn environment(text: &mut String, policy: &Policy) {
    text.push_str("\n[environment]\n");
    text.push_str("# Which variables the command reads cannot be seen: these are the usual ones. Only names and places.\n");
    plain_list(text, "allow", &policy.environment.allow);
    if !policy.environment.set.is_empty() {
        text.push_str("\n[environment.set]\n");
        for (name, value) in &policy.environment.set {
            let _ = writeln!(text, "{} = {}", quoted(name), quoted(value));
        }
    }
}

/// A limit, with what it was measured as.
fn figure(text: &mut String, draft: &Draft, key: &'static str, value: Option<impl Display>) {
    let Some(value) = value else { return };
    let value = value.to_string();
    let value = if value.bytes().all(|byte| byte.is_ascii_digit()) { value } else { quoted(&value) };
    let measured =
        draft.measured.get(key).map(|measured| format!("  # measured: {measured}")).unwrap_or_default();
    let _ = writeln!(text, "{key} = {value}{measured}");
}

fn list<'a>(text: &mut String, draft: &Draft, key: &str, of: List, entries: impl Iterator<Item = &'a str>) {
    let entries: Vec<&str> = entries.collect();
    let suggested = draft.suggestions.keys().any(|(list, _)| *list == of);
    if entries.is_empty() && !suggested {
        let _ = writeln!(text, "{key} = []");
        return;
    }
    let _ = writeln!(text, "{key} = [");
    for entry in &entries {
        let why = draft.reasons.get(&(of, (*entry).to_owned())).map(|why| format!("  # {}", one_line(why)));
        let _ = writeln!(text, "    {},{}", quoted(entry), why.unwrap_or_default());
    }
    suggestions(text, draft, of, "    # ");
    text.push_str("]\n");
}

fn suggestions(text: &mut String, draft: &Draft, of: List, indent: &str) {
    for ((_, entry), why) in draft.suggestions.iter().filter(|((list, _), _)| *list == of) {
        let _ = writeln!(text, "{indent}{},  # {}", quoted(entry), one_line(why));
    }
}

fn plain_list(text: &mut String, key: &str, entries: &[String]) {
    const WIDTH: usize = 100;
    let _ = writeln!(text, "{key} = [");
    let mut line = String::new();
    for entry in entries.iter().map(|entry| quoted(entry)) {
        if line.len() + entry.len() > WIDTH {
            let _ = writeln!(text, "   {line}");
            line.clear();
        }
        let _ = write!(line, " {entry},");
    }
    if !line.is_empty() {
        let _ = writeln!(text, "   {line}");
    }
    text.push_str("]\n");
}

fn comment(text: &mut String, line: &str) {
    let line = one_line(line);
    let _ = if line.is_empty() { writeln!(text, "#") } else { writeln!(text, "# {line}") };
}

/// A comment ends where its line does, whatever a program calls itself.
fn one_line(text: &str) -> String {
    crate::report::printable(text)
}

/// A basic string of TOML.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", control as u32);
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
