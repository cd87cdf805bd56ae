//! The binary `lazaret`: what was typed becomes a resolved request, one file per command does it, the exit
//! status says how it went.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod exit;
mod output;

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    process::ExitCode,
};

use clap::Parser as _;

use crate::{args::Args, exit::Exit};

/// A launch allocates some thousand small things and ends: the C library's allocator, which gives memory
/// back to the kernel all the time, takes a quarter of a millisecond for it.
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    // A panic is our failure, never the command's success.
    std::panic::set_hook(Box::new(|info| {
        output::error(&format!("internal error: {info}. This is a bug of lazaret"));
    }));
    std::panic::catch_unwind(run).unwrap_or(Exit::Refused).into()
}

/// As what this program was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Called {
    Lazaret,
    Srt,
}

/// What was typed. Called `srt`, this program is `lazaret srt`.
fn arguments() -> (Vec<OsString>, Called) {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let named_srt =
        arguments.first().is_some_and(|name| Path::new(name).file_name() == Some(OsStr::new("srt")));
    if named_srt {
        arguments.insert(1, "srt".into());
    }
    let srt = arguments.get(1).is_some_and(|command| command == "srt");
    (arguments, if srt { Called::Srt } else { Called::Lazaret })
}

fn run() -> Exit {
    lazaret_runtime::ignore_file_size_signal();
    let (arguments, called) = arguments();
    let stem = commands::begin_early(arguments.iter().cloned());
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(error) => {
            return match (output::usage(&error), called) {
                // Who calls srt expects 1.
                (Exit::Refused, Called::Srt) => Exit::Failed,
                (exit, _) => exit,
            };
        }
    };
    match commands::dispatch(args, stem) {
        Ok(exit) => exit,
        Err(error) => {
            output::error(&output::chain(&error));
            Exit::Refused
        }
    }
}
