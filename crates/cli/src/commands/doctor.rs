//! `lazaret doctor`: what this host can enforce.

use lazaret_runtime::doctor;

use crate::{args, exit::Exit, output};

pub fn doctor(args: &args::Doctor) -> anyhow::Result<Exit> {
    let findings = doctor::examine();
    if args.json {
        output::data(&format!("{}\n", serde_json::to_string_pretty(&findings)?));
    } else {
        output::data(&findings.to_string());
    }
    Ok(if findings.level2 { Exit::Ok } else { Exit::Failed })
}
