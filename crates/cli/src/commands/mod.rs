//! One file per command.

mod audit;
mod bench;
mod doctor;
mod escalation;
mod learn;
mod mcp;
mod metrics;
mod policy;
mod run;
mod srt;
mod tool;
mod transaction;

pub use audit::Moment;

use std::ffi::OsString;

use clap::CommandFactory as _;
use lazaret_runtime::Stem;

use crate::{
    args::{Args, Command},
    exit::Exit,
    output,
};

/// `lazaret run …` begins to make its namespaces before anything is parsed: while this process is still
/// small, and so that parsing costs no time. Whatever turns out not to need it drops it again.
pub fn begin_early(arguments: impl Iterator<Item = OsString>) -> Option<Stem> {
    let mut arguments = arguments.skip(1);
    let command = arguments.next()?;
    if command != "run" && command != "srt" && command != "learn" {
        return None;
    }
    let nothing = ["--plan", "--help", "-h", "--print-policy", "--version"];
    let starts_nothing = arguments
        .take_while(|argument| argument != "--")
        .any(|flag| nothing.iter().any(|nothing| flag == *nothing));
    if starts_nothing { None } else { lazaret_runtime::begin() }
}

pub fn dispatch(args: Args, stem: Option<Stem>) -> anyhow::Result<Exit> {
    match args.command {
        Command::Run(args) => run::run(*args, stem),
        Command::Srt(args) => srt::srt(&args, stem),
        Command::Learn(args) => learn::learn(*args, stem),
        Command::Diff(args) => transaction::diff(&args),
        Command::Commit(args) => transaction::commit(&args),
        Command::Discard(args) => transaction::discard(&args),
        Command::Tool(command) => tool::tool(command),
        Command::Escalation(command) => escalation::escalation(&command),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Mcp(command) => mcp::mcp(command),
        Command::Policy(command) => policy::policy(command),
        Command::Profile(command) => policy::profile(command),
        Command::Audit(command) => audit::audit(command),
        Command::Metrics(command) => metrics::metrics(command),
        Command::Bench(args) => bench::bench(&args),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "lazaret", &mut text);
            output::data(&String::from_utf8_lossy(&text));
            Ok(Exit::Ok)
        }
        Command::Launcher => lazaret_runtime::launcher::serve(),
        Command::Man { directory } => {
            clap_mangen::generate_to(Args::command(), directory)?;
            Ok(Exit::Ok)
        }
    }
}
