//! The binary `lazaret`: what was typed becomes a resolved request, one file per command does it, the exit
//! status says how it went.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod exit;
mod output;

use std::process::ExitCode;

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

fn run() -> Exit {
    lazaret_runtime::ignore_file_size_signal();
    let stem = commands::begin_early(std::env::args_os());
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return output::usage(&error),
    };
    match commands::dispatch(args, stem) {
        Ok(exit) => exit,
        Err(error) => {
            output::error(&output::chain(&error));
            Exit::Refused
        }
    }
}
