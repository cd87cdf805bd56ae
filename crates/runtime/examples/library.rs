//! Two commands in one sandbox.
//!
//! `library LAZARET DIRECTORY`: the `lazaret` executable, and a directory that the commands may write to.

use std::{env, error::Error, path::PathBuf};

use lazaret_policy::{Policy, schema::Level};
use lazaret_runtime::{Launcher, Request, Sandbox};

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut words = env::args_os().skip(1).map(PathBuf::from);
    let (Some(program), Some(directory)) = (words.next(), words.next()) else {
        return Err("usage: library LAZARET DIRECTORY".into());
    };

    // A small process that splits off sandboxes. A program needs one, however many sandboxes it makes.
    let launcher = Launcher::start(&program)?;

    // What is not allowed here is closed: no network, nothing of the host's files but these.
    let mut policy = Policy { isolation_level: Level::Full, ..Policy::default() };
    policy.filesystem.read_only_paths =
        ["/usr", "/bin", "/lib", "/lib64", "/etc"].map(PathBuf::from).to_vec();
    policy.filesystem.read_write_paths = vec![directory.clone()];

    // The audit log lies outside of what the commands can reach. Policies can also come from a file:
    // `lazaret_policy::load::load_file`.
    let log = env::temp_dir().join(format!("library-example-{}.jsonl", std::process::id()));
    let mut sandbox = Sandbox::create(&launcher, Request::new(policy, &directory, &log))?;
    println!("sandbox {}", sandbox.id());

    // The first command leaves a file that the second one finds. Whatever else it started is gone by then.
    let report = sandbox.command("sh").args(["-c", "seq 10 > numbers"]).status()?;
    println!("seq ended with {}", report.exit_code);
    let output = sandbox.command("wc").args(["-l", "numbers"]).output()?;
    print!("wc says {}", String::from_utf8_lossy(&output.stdout));

    // What was denied is in the report of each command, and in the log.
    for violation in &output.report.violations {
        println!("denied: {}", violation.description);
    }

    // Ends everything inside. Dropping the sandbox would do the same, without a word about what went wrong.
    sandbox.destroy()?;
    println!("the log is {}", log.display());
    Ok(())
}
