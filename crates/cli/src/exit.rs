//! Exit codes of the command line contract.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Ok,
    /// A check found something wrong: a broken log, a host that cannot enforce level 2.
    Failed,
    /// Our failure or refusal: 125.
    Refused,
    /// What the sandboxed command (or its end) came to.
    Command(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Ok => 0,
            Exit::Failed => 1,
            Exit::Refused => 125,
            Exit::Command(code) => code,
        })
    }
}
