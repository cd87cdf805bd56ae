//! `lazaret metrics`: what sandboxes do, in numbers, read from the audit log.

mod http;
#[cfg(feature = "otlp")]
mod push;
mod serve;
mod source;
mod textfile;
mod ticks;

use anyhow::ensure;
use lazaret_audit::metrics::{Format, json, text};

use crate::{
    args::{self, Metrics},
    exit::Exit,
    output,
};

use self::source::Source;

pub fn metrics(command: Metrics) -> anyhow::Result<Exit> {
    match command {
        Metrics::Serve(args) => serve::serve(&args),
        Metrics::Print(args) => print(&args),
        Metrics::Write(args) => textfile::write(&args),
        #[cfg(feature = "otlp")]
        Metrics::Push(args) => push::push(&args),
    }
}

fn print(args: &args::Print) -> anyhow::Result<Exit> {
    let mut source = Source::of(&args.count)?;
    let families = source.families()?;
    if args.json {
        output::data(&format!("{}\n", serde_json::to_string_pretty(&json(&families))?));
    } else {
        output::data(&text(&families, Format::Prometheus));
    }
    Ok(Exit::Ok)
}

/// A time of nothing would leave no time for anything else.
fn interval(every: Option<lazaret_policy::units::Millis>) -> anyhow::Result<Option<std::time::Duration>> {
    if let Some(every) = every {
        ensure!(every.0 >= 100, "--every {every} is too often: 100 milliseconds are the least");
    }
    Ok(every.map(Into::into))
}
