//! Measures collect, keep and commit of many small new files against `cp -a` of the same tree, by turns.
//!
//! `cargo run --release -p lazaret-transaction --example against_cp -- MEMORY DISK [FILES [ROUNDS]]`, where
//! MEMORY is a directory on a tmpfs, as a sandbox's upper directory is, and DISK one on the host's disk.

#![expect(clippy::print_stdout, reason = "it is for people to read")]
#![expect(clippy::disallowed_methods, reason = "cp is what is measured against")]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use lazaret_transaction::{CommitOptions, Origin, Store, TransactionId, Tree, TreeKind, collect};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [memory, disk, rest @ ..] = arguments.as_slice() else {
        return Err("usage: against_cp MEMORY DISK [FILES [ROUNDS]]".into());
    };
    let files: usize = rest.first().map_or(Ok(10_000), |text| text.parse())?;
    let rounds: usize = rest.get(1).map_or(Ok(7), |text| text.parse())?;
    let name = format!("lazaret-against-cp-{}", std::process::id());
    let (memory, disk) = (Path::new(memory).join(&name), fs::canonicalize(disk)?.join(&name));
    let upper = memory.join("upper");
    for file in 0..files {
        let directory = upper.join(format!("d{}", file % 100));
        fs::create_dir_all(&directory)?;
        fs::write(directory.join(format!("f{file}")), vec![b'x'; 200 + file % 4000])?;
    }
    fs::create_dir_all(&disk)?;
    let (mut ours, mut theirs, mut parts) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for round in 0..rounds {
        let target = disk.join(format!("cp{round}"));
        let start = Instant::now();
        let status = Command::new("cp").arg("-a").arg(&upper).arg(&target).status()?;
        theirs.push(start.elapsed());
        if !status.success() {
            return Err("cp failed".into());
        }
        let (total, [one, two, three]) = round_of_ours(&upper, &disk, round)?;
        ours.push(total);
        for (part, time) in parts.iter_mut().zip([one, two, three]) {
            part.push(time);
        }
    }
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    let [one, two, three] = parts.map(|mut part| median(&mut part));
    println!("{files} files, median of {rounds} rounds");
    println!("cp -a    {theirs:?}");
    println!("ours     {ours:?} (collect {one:?}, keep {two:?}, commit {three:?})");
    println!("keep and commit / cp -a = {:.2}", (two + three).as_secs_f64() / theirs.as_secs_f64());
    println!("all / cp -a = {:.2}", ours.as_secs_f64() / theirs.as_secs_f64());
    fs::remove_dir_all(&memory)?;
    fs::remove_dir_all(&disk)?;
    Ok(())
}

type Times = (Duration, [Duration; 3]);

fn round_of_ours(upper: &Path, disk: &Path, round: usize) -> Result<Times, Box<dyn Error>> {
    let root: PathBuf = disk.join(format!("ours{round}"));
    fs::create_dir(&root)?;
    let store = Store::open(&disk.join("store"))?;
    let started = SystemTime::now();
    let trees = [Tree {
        root: root.clone(),
        upper: fs::File::open(upper)?.into(),
        kind: TreeKind::Directory,
        owner: None,
    }];
    let origin = Origin {
        id: TransactionId::new(),
        sandbox_id: "measured".to_owned(),
        directory: root,
        command: vec!["measured".to_owned()],
        started,
    };
    let start = Instant::now();
    let changes = collect(&trees, started)?;
    let collected = start.elapsed();
    let transaction = store.keep(origin, &trees, changes)?;
    let kept = start.elapsed();
    let committed = transaction.commit(CommitOptions::default())?;
    let total = start.elapsed();
    if !committed.skipped.is_empty() || committed.left_out > 0 {
        return Err(format!("not everything was applied: {committed:?}").into());
    }
    Ok((total, [collected, kept - collected, total - kept]))
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
