//! `lazaret mcp import`: another client's servers become our list, and the client is told to talk to us.

use std::{
    env,
    fs::{DirBuilder, File, OpenOptions},
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use lazaret_mcp::{
    config::{Defaults, Network, Sandbox},
    import::{self, Client, Imported, Taken},
};
use lazaret_runtime::report::printable;
use serde_json::json;

use super::{directories, surroundings};
use crate::{args::McpImport, exit::Exit, output};

pub fn import(args: &McpImport) -> anyhow::Result<Exit> {
    let to = destination(args)?;
    let imported = import::load(&args.file, &surroundings())?;
    let program = env::current_exe().unwrap_or_else(|_| "lazaret".into());
    if imported.taken.is_empty() {
        let told = told(&imported, &args.file, None);
        match args.json {
            true => output::data(&format!("{}\n", as_json(&imported, args, None, &program))),
            false => output::block(&told),
        }
        return Ok(Exit::Failed);
    }
    let Destination::File(file) = to else {
        output::data(&imported.text);
        output::block(&told(&imported, &args.file, None));
        return Ok(Exit::Ok);
    };
    write(&file, &imported.text, args.force)?;
    if args.json {
        output::data(&format!("{}\n", as_json(&imported, args, Some(&file), &program)));
        return Ok(Exit::Ok);
    }
    let mut text = told(&imported, &args.file, Some(&file));
    text += &how_to_widen(&file);
    text += &how_to_connect(imported.client, &args.name, &program, &file);
    output::data(&text);
    Ok(Exit::Ok)
}

enum Destination {
    Output,
    File(PathBuf),
}

fn destination(args: &McpImport) -> anyhow::Result<Destination> {
    let file = match &args.output {
        Some(dash) if dash == Path::new("-") => return Ok(Destination::Output),
        Some(file) => file.clone(),
        None => {
            let directory = directories().config.context(
                "neither HOME nor XDG_CONFIG_HOME is set, so there is no place for the list: use --output",
            )?;
            import::default_output(&directory)
        }
    };
    let file = std::path::absolute(&file).with_context(|| format!("{} is no path", file.display()))?;
    // Looked at before anything is read; what counts is that writing does not replace it.
    if !args.force && file.symlink_metadata().is_ok() {
        anyhow::bail!(
            "{} is there already: use --force to replace it, or --output for another place",
            file.display()
        );
    }
    Ok(Destination::File(file))
}

/// As a whole or not at all, and for the owner alone: there may be tokens in it.
fn write(file: &Path, text: &str, force: bool) -> anyhow::Result<()> {
    let failed = || format!("{} cannot be written", file.display());
    let directory = file.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(directory).with_context(failed)?;
    let mut name = file.file_name().with_context(failed)?.to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside = directory.join(name);
    let outcome = (|| {
        let mut new: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        match force {
            true => std::fs::rename(&beside, file),
            // A link is made only where nothing is.
            false => std::fs::hard_link(&beside, file).and_then(|()| std::fs::remove_file(&beside)),
        }
    })();
    if outcome.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    outcome.with_context(failed)
}

/// What each server will be able to do.
fn told(imported: &Imported, from: &Path, to: Option<&Path>) -> String {
    let count = match imported.taken.len() {
        1 => "1 server".to_owned(),
        count => format!("{count} servers"),
    };
    let place = to.map(|file| format!(" into {}", file.display())).unwrap_or_default();
    let mut text = format!("{count} of {} taken over{place}\n", from.display());
    for server in &imported.taken {
        text += &format!("\n{}: {}\n", server.name, printable(&server.command));
        for line in abilities(server).iter().chain(&server.remarks) {
            text += &format!("  - {}\n", printable(line));
        }
    }
    for left in &imported.left {
        text += &format!("\n{} is left out: {}\n", printable(&left.name), printable(&left.reason));
    }
    text
}

fn abilities(server: &Taken) -> Vec<String> {
    let custom = match &server.sandbox {
        Sandbox::OptOut => return vec!["runs WITHOUT a sandbox, as its entry says".to_owned()],
        Sandbox::Restrictive => None,
        Sandbox::Custom(custom) => Some(custom),
    };
    let writes = custom.map(|custom| custom.filesystem.allow_write.as_slice()).unwrap_or_default();
    let writes: String = writes.iter().map(|path| format!(", {path}")).collect();
    let closed = match custom.map(|custom| custom.filesystem.defaults) {
        Some(Defaults::Replaced) => "what its entry closes",
        _ => "keys, tokens and what its entry closes",
    };
    let network = match custom.map(|custom| &custom.network) {
        Some(Network::Domains(domains)) if !domains.allowed.is_empty() => domains.allowed.join(", "),
        _ => "no host".to_owned(),
    };
    vec![
        format!("can read your files but {closed}, and write in the session directory{writes}"),
        format!("can reach {network}"),
    ]
}

fn how_to_widen(file: &Path) -> String {
    format!(
        "\nTo let a server do more, add to its entry in {}:\n  \
         \"sandbox\": {{ \"network\": {{ \"allowedDomains\": [\"api.example.com\"] }}, \"filesystem\": {{ \"allowWrite\": \
         [\"/path\"] }} }}\n",
        file.display()
    )
}

fn how_to_connect(client: Client, name: &str, program: &Path, file: &Path) -> String {
    let what = match client {
        Client::ClaudeCode => "Then take these servers out of the client (`claude mcp remove NAME`) and run",
        Client::Codex => "Put this in place of these servers into the client's config.toml",
        Client::VsCode | Client::Other => {
            "Put this in place of these servers into the client's configuration"
        }
    };
    format!("\n{what}:\n\n{}", import::snippet(client, name, program, file))
}

fn as_json(imported: &Imported, args: &McpImport, file: Option<&Path>, program: &Path) -> serde_json::Value {
    let taken = imported.taken.iter().map(|server| {
        json!({
            "name": server.name.as_str(),
            "command": server.command,
            "sandboxed": server.sandbox != Sandbox::OptOut,
            "abilities": abilities(server),
            "remarks": server.remarks,
        })
    });
    let left = imported.left.iter().map(|left| json!({ "name": left.name, "reason": left.reason }));
    json!({
        "file": file,
        "servers": taken.collect::<Vec<_>>(),
        "leftOut": left.collect::<Vec<_>>(),
        "client": file.map(|file| json!({
            "name": args.name,
            "command": program,
            "args": ["mcp", "serve", "--config", file],
            "snippet": import::snippet(imported.client, &args.name, program, file),
        })),
    })
}
