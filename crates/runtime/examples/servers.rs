//! What a program pays for servers that run and wait: `cargo run -p lazaret-runtime --example servers LAZARET [N]`.
//! LAZARET is the path of the executable. Prints this process's memory (PSS) and threads with N idle servers of each
//! kind, how long it took to start one, and to settle.
#![allow(clippy::print_stdout, reason = "an example")]

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use lazaret_policy::{Policy, schema::Level};
use lazaret_runtime::{
    Launcher, Request,
    serve::{self, Running, Unconfined},
};

type Failure = Box<dyn std::error::Error>;
type Start<'a> = &'a dyn Fn() -> Result<Running, Failure>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args_os().skip(1);
    let program = PathBuf::from(arguments.next().ok_or("say where lazaret is")?);
    let count = arguments.next().and_then(|text| text.to_str()?.parse().ok()).unwrap_or(5);
    let directory = std::env::temp_dir().join(format!("lazaret-servers-{}", std::process::id()));
    let work = directory.join("work");
    std::fs::create_dir_all(&work)?;
    let log = directory.join("audit/audit.jsonl");
    let launcher = Launcher::start(&program)?;
    tell("nothing yet", Duration::ZERO, 1);

    let request = |network: bool| {
        let mut policy = Policy { isolation_level: Level::Full, ..Policy::default() };
        let system = ["/usr", "/bin", "/lib", "/lib64", "/etc"];
        policy.filesystem.read_only_paths = system.map(PathBuf::from).to_vec();
        policy.filesystem.read_write_paths = vec![work.clone()];
        policy.network.allow_network = network;
        policy.network.allowed_hosts = vec!["example.com".to_owned()];
        let mut request = Request::new(policy, &work, &log);
        request.command = vec!["cat".into()];
        request
    };
    let plain = || Unconfined {
        server: "cat".to_owned(),
        reason: "to see what it takes".to_owned(),
        command: vec!["cat".into()],
        directory: work.clone(),
        environment: Vec::new(),
        audit_log: log.clone(),
        rotation: lazaret_audit::Rotation::NEVER,
    };
    let kinds: [(&str, Start<'_>); 3] = [
        ("sandboxed", &|| Ok(serve::start(&launcher, request(false), drop)?)),
        ("sandboxed, with network", &|| Ok(serve::start(&launcher, request(true), drop)?)),
        ("without a sandbox", &|| Ok(serve::start_unconfined(&launcher, plain(), drop)?)),
    ];
    for (name, start) in kinds {
        let started = Instant::now();
        let running: Vec<Running> = (0..count).map(|_| start()).collect::<Result<_, _>>()?;
        let took = started.elapsed();
        std::thread::sleep(Duration::from_secs(1));
        tell(&format!("{count} {name}"), took, count);
        if let Some(first) = running.first() {
            println!("{:<28} {:?} to settle", "", settling(first));
        }
        drop(running);
    }
    drop(launcher);
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

/// The median of many.
fn settling(running: &Running) -> Duration {
    let mut took: Vec<Duration> = (0..501)
        .map(|_| {
            let started = Instant::now();
            running.handle().settle(Duration::from_secs(1));
            started.elapsed()
        })
        .collect();
    took.sort_unstable();
    took.get(took.len() / 2).copied().unwrap_or_default()
}

fn tell(what: &str, took: Duration, count: u32) {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.unwrap_or_default().split_whitespace().next().unwrap_or_default().to_owned()
    };
    println!(
        "{what:<28} PSS {:>6} KiB (anonymous {:>6}), {:>3} threads, {:?} to start each",
        field(&rollup, "Pss"),
        field(&rollup, "Pss_Anon"),
        field(&status, "Threads"),
        took / count
    );
}
