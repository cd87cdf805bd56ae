//! Sandboxes by the library: how many can be created in a second, and how many can be alive at once.
//!
//! `pool LAZARET DIRECTORY rate SECONDS THREADS LEVEL` creates, uses and destroys as fast as it can;
//! `pool LAZARET DIRECTORY alive COUNT LEVEL` keeps that many at once and executes a command in each.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "an example may fail loudly"
)]

use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use lazaret_policy::{Policy, schema::Level};
use lazaret_runtime::{Launcher, Request, Sandbox};

fn request(directory: &Path, level: &str) -> Request {
    let mut policy = Policy {
        isolation_level: if level == "1" { Level::Process } else { Level::Full },
        ..Policy::default()
    };
    policy.filesystem.read_only_paths = ["/usr", "/bin", "/lib", "/lib64", "/etc"].map(Into::into).to_vec();
    policy.filesystem.read_write_paths = vec![directory.to_owned()];
    Request::new(policy, directory, directory.join("audit.jsonl"))
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let (program, directory) = (Path::new(&words[1]), Path::new(&words[2]));
    let launcher = Launcher::start(program).unwrap();
    match words[3].as_str() {
        "rate" => {
            let (seconds, threads, level) = (words[4].parse().unwrap(), words[5].parse().unwrap(), &words[6]);
            let (created, end) = (AtomicU64::new(0), Instant::now() + Duration::from_secs(seconds));
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        while Instant::now() < end {
                            let sandbox = Sandbox::create(&launcher, request(directory, level)).unwrap();
                            sandbox.destroy().unwrap();
                            created.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
            });
            println!(
                "{:.0} sandboxes created and destroyed in a second",
                created.into_inner() as f64 / seconds as f64
            );
        }
        _ => {
            let (count, level) = (words[4].parse().unwrap(), &words[5]);
            let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
            let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
            rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
            let started = Instant::now();
            let mut all: Vec<Sandbox> =
                (0..count).map(|_| Sandbox::create(&launcher, request(directory, level)).unwrap()).collect();
            let created = started.elapsed();
            let good = all
                .iter_mut()
                .filter_map(|sandbox| {
                    sandbox.command("/bin/true").status().inspect_err(|error| println!("{error}")).ok()
                })
                .filter(|report| report.exit_code == 0)
                .count();
            println!("{count} alive after {created:.2?}, {good} executed a command");
            let started = Instant::now();
            all.into_iter().for_each(|sandbox| drop(sandbox.destroy().unwrap()));
            println!("destroyed in {:.2?}", started.elapsed());
        }
    }
}
