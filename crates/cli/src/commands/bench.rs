//! `lazaret bench`: start-up and idle memory side by side with bubblewrap, interleaved in one run, because
//! only ratios mean something on a busy machine.
#![expect(clippy::disallowed_methods, reason = "a benchmark starts the peers as a user would")]

use std::{
    env,
    ffi::OsString,
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use serde_json::json;

use crate::{args, exit::Exit, output};

const WARM_UP: u32 = 10;
const BUBBLEWRAP: [&str; 9] =
    ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"];

/// One contestant.
struct Entry {
    name: String,
    argv: Vec<OsString>,
    times: Vec<Duration>,
}

impl Entry {
    fn new(name: impl Into<String>, argv: impl IntoIterator<Item = OsString>) -> Self {
        Entry { name: name.into(), argv: argv.into_iter().collect(), times: Vec::new() }
    }

    fn command(&self, last: &[&str]) -> anyhow::Result<Command> {
        let program = self.argv.first().context("an empty command")?;
        let mut command = Command::new(program);
        command.args(self.argv.iter().skip(1)).args(last);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }

    fn run_once(&self) -> anyhow::Result<Duration> {
        let mut command = self.command(&["true"])?;
        let start = Instant::now();
        let status = command.status().with_context(|| format!("{} cannot be started", self.name))?;
        let took = start.elapsed();
        if !status.success() {
            bail!("{} failed ({status}): a number from it would mean nothing", self.name);
        }
        Ok(took)
    }

    /// Milliseconds at a fraction of the sorted times.
    fn quantile(&self, fraction: f64) -> f64 {
        let mut times = self.times.clone();
        times.sort();
        let index = ((times.len().saturating_sub(1)) as f64 * fraction).round() as usize;
        times.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
    }
}

pub fn bench(args: &args::Bench) -> anyhow::Result<Exit> {
    let own = env::current_exe().context("our own executable cannot be found")?;
    let mut entries = contestants(own, &args.against);
    let bubblewrap = entries.iter().position(|entry| entry.name == "bubblewrap");
    if bubblewrap.is_none() {
        output::warning("bubblewrap is not installed: not measured");
    }
    for round in 0..args.runs + WARM_UP {
        for entry in &mut entries {
            let took = entry.run_once()?;
            if round >= WARM_UP {
                entry.times.push(took);
            }
        }
    }
    let memory: Vec<Option<u64>> = entries.iter().map(|entry| idle_memory(entry).ok()).collect();
    let base = bubblewrap.and_then(|index| entries.get(index)).map(|entry| entry.quantile(0.5));
    if args.json {
        print_json(&entries, &memory, base);
    } else {
        print_table(args.runs, &entries, &memory, base);
    }
    Ok(Exit::Ok)
}

fn contestants(own: PathBuf, others: &[PathBuf]) -> Vec<Entry> {
    let run = |path: PathBuf| [path.into_os_string(), "run".into(), "--".into()];
    let mut entries = vec![Entry::new("lazaret", run(own))];
    for other in others {
        entries.push(Entry::new(other.display().to_string(), run(other.clone())));
    }
    let installed = env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|directory| directory.join("bwrap").is_file()));
    if installed {
        entries.push(Entry::new("bubblewrap", BUBBLEWRAP.map(OsString::from)));
    }
    entries.push(Entry::new("bare", [OsString::from("env")]));
    entries
}

/// The proportional memory of everything but the command itself, while the command sleeps.
fn idle_memory(entry: &Entry) -> anyhow::Result<u64> {
    let mut child = entry.command(&["sleep", "30"])?.spawn()?;
    std::thread::sleep(Duration::from_millis(300));
    let sum = tree(child.id())
        .into_iter()
        .filter(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() != "sleep")
        })
        .filter_map(proportional_bytes)
        .sum();
    end(&mut child);
    Ok(sum)
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// A process and all its descendants.
fn tree(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        next += 1;
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        found.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    found
}

fn proportional_bytes(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

fn print_table(runs: u32, entries: &[Entry], memory: &[Option<u64>], base: Option<f64>) {
    let mut text = format!(
        "{runs} interleaved launches of `true` each; memory is the PSS of everything but the command\n\
         {:<24} {:>9} {:>9} {:>9} {:>9} {:>10}\n",
        "", "median ms", "p10 ms", "p90 ms", "ratio", "memory"
    );
    for (entry, memory) in entries.iter().zip(memory) {
        let median = entry.quantile(0.5);
        let ratio = base.map_or_else(|| "-".to_owned(), |base| format!("{:.2}", median / base));
        let memory = memory.map_or_else(|| "-".to_owned(), |bytes| format!("{:.2} MB", bytes as f64 / 1e6));
        text.push_str(&format!(
            "{:<24} {median:>9.2} {:>9.2} {:>9.2} {ratio:>9} {memory:>10}\n",
            entry.name,
            entry.quantile(0.1),
            entry.quantile(0.9),
        ));
    }
    output::data(&text);
}

fn print_json(entries: &[Entry], memory: &[Option<u64>], base: Option<f64>) {
    let rows: Vec<_> = entries
        .iter()
        .zip(memory)
        .map(|(entry, memory)| {
            let median = entry.quantile(0.5);
            json!({
                "name": entry.name, "medianMs": median, "p10Ms": entry.quantile(0.1),
                "p90Ms": entry.quantile(0.9), "ratioToBubblewrap": base.map(|base| median / base),
                "idlePssBytes": memory,
            })
        })
        .collect();
    output::data(&format!("{}\n", json!({ "startup": rows })));
}
