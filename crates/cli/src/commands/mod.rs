//! One file per command.

mod audit;
mod bench;
mod doctor;
mod policy;
mod run;

use clap::CommandFactory as _;

use crate::{
    args::{Args, Command},
    exit::Exit,
    output,
};

pub fn dispatch(args: Args) -> anyhow::Result<Exit> {
    match args.command {
        Command::Run(args) => run::run(*args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Policy(command) => policy::policy(command),
        Command::Profile(command) => policy::profile(command),
        Command::Audit(command) => audit::audit(command),
        Command::Bench(args) => bench::bench(&args),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "lazaret", &mut text);
            output::data(&String::from_utf8_lossy(&text));
            Ok(Exit::Ok)
        }
        Command::Man { directory } => {
            clap_mangen::generate_to(Args::command(), directory)?;
            Ok(Exit::Ok)
        }
    }
}
