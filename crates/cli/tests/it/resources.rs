//! Limits on everything inside together: memory, CPU time and share, processes, descriptors, what is written,
//! disk bandwidth. Each is attacked from inside and judged from outside: the end, the report, the log, what is
//! on the host, and that no control group is left.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    case::{Case, Outcome, as_everybody, eventually, has_root, has_tool, marker, not_run, processes_with},
    limits::policy,
};

/// The control groups that a run of this process made. Others run at the same time.
fn groups_of(pid: u32) -> Vec<PathBuf> {
    fn search(directory: &Path, beginning: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name().to_string_lossy().starts_with(beginning) {
                found.push(entry.path());
            }
            search(&entry.path(), beginning, found);
        }
    }
    let mut found = Vec::new();
    search(Path::new("/sys/fs/cgroup"), &format!("lazaret-{pid}-"), &mut found);
    found
}

/// Can whoever runs the case make control groups?
fn has_groups(case: &Case) -> bool {
    let writable = fs::read_to_string("/proc/self/mounts").unwrap().lines().any(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        fields[2].starts_with("cgroup") && fields[3].split(',').any(|option| option == "rw")
    });
    case.who.uid() == 0 && writable
}

/// What a run with limits came to.
struct Limited {
    outcome: Outcome,
    report: Value,
    events: Vec<Value>,
}

impl Limited {
    /// Is a control group in force? (An ordinary user may have been given one, too.)
    fn in_group(&self) -> bool {
        self.report["enforcement"]["resources"] != json!("polling")
    }

    fn event(&self, limit: &str) -> &Value {
        let found = self.events.iter().find(|event| event["details"]["limit"] == limit);
        &found.unwrap_or_else(|| panic!("no event of {limit}: {:?}, {:?}", self.events, self.outcome))["details"]
    }

    /// The limit ended it, and every place says so.
    #[track_caller]
    fn is_ended_by(&self, limit: &str, value: u64) -> u64 {
        assert_eq!(self.outcome.status.code(), Some(137), "{:?}", self.outcome);
        assert_eq!(self.report["outcome"], json!("limit"), "{}", self.report);
        assert_eq!(self.report["exitCode"], json!(137));
        let told = self.report["limits"].as_array().unwrap().iter().find(|told| told["limit"] == limit);
        let told = told.unwrap_or_else(|| panic!("{limit} is not in the report: {}", self.report));
        let usage = told["usage"].as_u64().unwrap();
        assert_eq!((&told["value"], &told["consequence"]), (&json!(value), &json!("ended")));
        assert!(usage >= value, "{told}");
        let event = self.event(limit);
        assert_eq!((&event["value"], &event["usage"]), (&json!(value), &json!(usage)));
        assert!(self.outcome.stderr.contains(limit), "{limit} is not told: {:?}", self.outcome);
        usage
    }

    /// The kernel refused what went beyond it, the command went on, and it is told.
    #[track_caller]
    fn only_refused(&self, limit: &str, value: u64) {
        assert_eq!(self.report["outcome"], json!("exited"), "{}", self.report);
        let event = self.event(limit);
        assert_eq!((&event["value"], &event["consequence"]), (&json!(value), &json!("refused")), "{event}");
        assert!(event["usage"].as_u64().unwrap() >= value, "{event}");
        assert!(self.outcome.stderr.contains("limit reached"), "{:?}", self.outcome);
    }
}

/// Runs with limits; nothing of the run may be left, and the report says what holds them.
#[track_caller]
fn limited(case: &Case, flags: &[&str], command: &[&str]) -> Limited {
    let file = case.root.join("report.json");
    let before = case.events().len();
    let args = ["--report", file.to_str().unwrap()].into_iter().chain(flags.iter().copied());
    let running = case.running(args.chain(["--"]).chain(command.iter().copied())).start();
    let pid = running.pid();
    let outcome = running.finish();
    assert_eq!(groups_of(pid), Vec::<PathBuf>::new(), "{outcome:?}");
    let text = fs::read_to_string(&file).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    let events = case.events().split_off(before);
    let events = events.into_iter().filter(|event| event["event"] == "RESOURCE_LIMIT_EXCEEDED").collect();
    Limited { outcome, report, events }
}

#[track_caller]
fn limited_python(case: &Case, flags: &[&str], script: &str) -> Limited {
    limited(case, flags, &["/usr/bin/python3", "-c", script])
}

/// Fills memory ten megabytes at a time, at most six hundred, and says how far it came.
fn bomb(fill: &str) -> String {
    format!("import os, mmap, ctypes\nchunk = b'x' * (10 << 20)\n{fill}\nprint('filled')")
}

/// No memory bomb gets far: what it printed last, in megabytes.
#[track_caller]
fn stayed_small(bombed: &Limited) {
    let reached: u64 = bombed.outcome.out().lines().last().map_or(0, |line| line.parse().unwrap());
    eprintln!("reached {reached} MB, {:?}", bombed.outcome.took);
    assert!(reached <= 300, "{:?}", bombed.outcome);
}

const LIMIT: u64 = 100 << 20;
const IN_MEMORY: [(&str, &str); 3] = [
    ("malloc", "keep = []\nfor n in range(10, 610, 10): keep.append(chunk + b'y'); print(n, flush=True)"),
    (
        "tmpfs",
        "f = os.open('/tmp/bomb', os.O_CREAT | os.O_WRONLY)\nfor n in range(10, 610, 10): os.write(f, chunk); print(n, flush=True)",
    ),
    (
        "shared anonymous memory",
        "m = mmap.mmap(-1, 600 << 20)\nfor n in range(10, 610, 10): m.write(chunk); print(n, flush=True)",
    ),
];

#[test]
fn a_memory_bomb_of_any_kind_ends_at_the_limit() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        for (name, fill) in IN_MEMORY {
            eprintln!("{name}");
            let bombed = limited_python(case, &["--memory", "100M"], &bomb(fill));
            let usage = bombed.is_ended_by("maxMemory", LIMIT);
            assert!(usage < 4 * LIMIT, "{usage} bytes");
            stayed_small(&bombed);
            bombed.outcome.tells("--memory");
        }
    });
}

const MEMFD: &str = "
try: f = os.memfd_create('bomb')
except OSError as e: print('errno', e.errno); raise SystemExit(3)
for n in range(10, 610, 10): os.write(f, chunk); print(n, flush=True)";
const SYSV: &str = "
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
key = libc.shmget(0, ctypes.c_size_t(600 << 20), 0o1600)
if key < 0: print('errno', ctypes.get_errno()); raise SystemExit(3)
at = libc.shmat(key, None, 0)
for n in range(0, 600, 10): ctypes.memset(at + (n << 20), 1, 10 << 20); print(n + 10, flush=True)";

#[test]
fn memory_that_belongs_to_no_process_is_counted_or_refused() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        for (call, fill) in [("memfd_create", MEMFD), ("shmget", SYSV)] {
            let bombed = limited_python(case, &["--memory", "100M"], &bomb(fill));
            if bombed.in_group() {
                bombed.is_ended_by("maxMemory", LIMIT);
                stayed_small(&bombed);
            } else {
                // Without a limit on memory it is not refused.
                case.python(&[], &bomb(&fill.replace("610", "20").replace("600, 10", "10, 10"))).exits(0);
                assert!(!has_groups(case));
                bombed.outcome.exits(3).prints("errno 1").tells(call).tells("doctor");
                let blocked = case.events_of("SYSCALL_BLOCKED");
                assert!(
                    blocked.iter().any(|event| event["details"]["syscall"]["name"] == call),
                    "{blocked:?}"
                );
            }
        }
    });
}

#[test]
fn memory_that_is_left_behind_in_shared_storage_counts_although_its_writer_is_gone() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let fill = "
for n in range(10, 610, 10):
    if os.fork() == 0:
        f = os.open('/dev/shm/%d' % n, os.O_CREAT | os.O_WRONLY); os.write(f, chunk); os._exit(0)
    os.wait(); print(n, flush=True)";
        let bombed = limited_python(case, &["--memory", "100M"], &bomb(fill));
        bombed.is_ended_by("maxMemory", LIMIT);
        stayed_small(&bombed);
    });
}

#[test]
fn memory_in_the_buffers_of_sockets_is_counted_or_refused() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        // Eight processes with at most fifty megabytes each, which no process's own numbers show.
        let fill = "
import socket, time
chunk = b'x' * 65536
for n in range(8):
    if os.fork() == 0:
        keep, total = [], 0
        try:
            while total < 50 << 20 and len(keep) < 480:
                pair = socket.socketpair(); keep.append(pair); pair[0].setblocking(False)
                try:
                    while total < 50 << 20: total += pair[0].send(chunk)
                except BlockingIOError: pass
        except OSError: pass
        os.write(1, b'%d\\n' % (total >> 20)); time.sleep(3); os._exit(0)
time.sleep(2)
for n in range(8): os.wait()";
        let bombed = limited_python(case, &["--memory", "100M"], &bomb(fill));
        let held: u64 = bombed.outcome.out().lines().filter_map(|line| line.parse::<u64>().ok()).sum();
        eprintln!("{held} MB were held in buffers");
        assert!(held < 300, "{held} MB in buffers with a limit of 100 MB: {:?}", bombed.outcome);
    });
}

#[test]
fn memory_in_message_queues_is_counted_or_refused() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        // At most twelve thousand queues of sixteen kilobytes.
        let fill = "
class Message(ctypes.Structure): _fields_ = [('kind', ctypes.c_long), ('text', ctypes.c_char * 8000)]
libc, message, total = ctypes.CDLL(None), Message(1, b'x' * 7999), 0
for n in range(12000):
    queue = libc.msgget(0, 0o600)
    if queue < 0: break
    while libc.msgsnd(queue, ctypes.byref(message), 8000, 0o4000) == 0: total += 8000
    if n % 1000 == 999: print(total >> 20, flush=True)
import time; time.sleep(0.5)";
        let bombed = limited_python(case, &["--memory", "100M"], &bomb(fill));
        let held =
            bombed.outcome.out().lines().filter_map(|line| line.parse::<u64>().ok()).max().unwrap_or(0);
        eprintln!("{held} MB were held in queues");
        assert!(held < 150, "{held} MB in queues with a limit of 100 MB: {:?}", bombed.outcome);
    });
}

#[test]
fn many_processes_share_one_memory_limit() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let fill = "
import time
for n in range(10, 610, 10):
    if os.fork() == 0: x = chunk + b'y'; time.sleep(30); os._exit(0)
    print(n, flush=True); time.sleep(0.01)
time.sleep(5)";
        let bombed = limited_python(case, &["--memory", "100M"], &bomb(fill));
        bombed.is_ended_by("maxMemory", LIMIT);
    });
}

#[test]
fn memory_below_the_limit_is_not_refused() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let fine = limited_python(case, &["--memory", "200M"], "x = b'x' * (100 << 20); print(len(x))");
        fine.outcome.exits(0).prints("104857600").tells_nothing();
        assert_eq!((&fine.report["limits"], fine.events.len()), (&json!([]), 0));
        assert!(fine.report["usage"]["memoryPeakBytes"].as_u64().unwrap() < 200 << 20);
    });
}

#[test]
fn the_report_says_what_holds_the_limits() {
    as_everybody(|case| {
        let run = limited(case, &["--memory", "100M"], &["true"]);
        let layers = run.report["enforcement"]["layers"].as_array().unwrap();
        let mechanism = run.report["enforcement"]["resources"].as_str().unwrap();
        assert_eq!(layers.contains(&json!("cgroup")), mechanism != "polling", "{}", run.report);
        if has_groups(case) {
            assert!(["cgroup1", "cgroup2"].contains(&mechanism), "{mechanism}");
        } else if case.who.uid() == 0 {
            not_run("the control groups of this host cannot be written by root");
        } else {
            assert!(["polling", "cgroup2"].contains(&mechanism), "{mechanism}");
        }
        let free = limited(case, &[], &["true"]);
        assert_eq!(free.report["enforcement"]["resources"], json!("none"));
        assert!(!free.report["enforcement"]["layers"].as_array().unwrap().contains(&json!("cgroup")));
    });
}

#[test]
fn cpu_time_is_that_of_the_whole_tree() {
    as_everybody(|case| {
        let script = "for i in 1 2 3 4; do (while :; do :; done) & done; wait";
        let burned = limited(case, &["--cpu-time", "1s"], &["sh", "-c", script]);
        let usage = burned.is_ended_by("maxCPU", 1000);
        eprintln!("{usage} ms used, {:?}", burned.outcome.took);
        assert!(usage < 2000, "{usage} ms");
        assert!(burned.report["usage"]["cpuMs"].as_u64().unwrap() < 2000, "{}", burned.report);
    });
}

/// Each process burns a tenth of a second and leaves a byte behind.
const BURN: &str = "
import os, signal, time
def burn():
    end = time.process_time() + 0.1
    while time.process_time() < end: pass
    f = os.open('ticks', os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600); os.write(f, b'x'); os._exit(0)
";

#[test]
fn cpu_time_of_orphans_counts() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let script = "
for n in range(60):
    child = os.fork()
    if child == 0:
        if os.fork() == 0: os.setsid(); burn()
        os._exit(0)
    os.waitpid(child, 0); time.sleep(0.11)";
        let burned = limited_python(case, &["--cpu-time", "1s"], &format!("{BURN}{script}"));
        let ticks = fs::read(case.work.join("ticks")).unwrap_or_default().len();
        eprintln!("{} ms were burned and ended", ticks * 100);
        burned.is_ended_by("maxCPU", 1000);
        assert!(ticks <= 20, "{ticks} tenths of a second");
    });
}

#[test]
fn cpu_time_of_children_that_nobody_waits_for_counts() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        // The kernel does not add what such children used to what their parent used.
        let script = "
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for n in range(60):
    child = os.fork()
    if child == 0: burn()
    try:
        while True: os.kill(child, 0); time.sleep(0.005)
    except ProcessLookupError: pass";
        let burned = limited_python(case, &["--cpu-time", "1s"], &format!("{BURN}{script}"));
        let ticks = fs::read(case.work.join("ticks")).unwrap_or_default().len();
        eprintln!("{} ms were burned and ended", ticks * 100);
        burned.is_ended_by("maxCPU", 1000);
        assert!(ticks <= 20, "{ticks} tenths of a second");
    });
}

const SPIN: &str = "
import time
end = time.monotonic() + 2
while time.monotonic() < end: pass
print(int(time.process_time() * 1000))";

#[test]
fn the_share_of_the_processors_is_held_or_refused() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let policy = policy(case, "[resources]\nmaxCPUPercent = 10\n");
        if has_groups(case) {
            let throttled = limited_python(case, &["--policy", &policy], SPIN);
            let used: u64 = throttled.outcome.exits(0).out().parse().unwrap();
            let free: u64 = case.python(&[], SPIN).exits(0).out().parse().unwrap();
            eprintln!("{used} ms of CPU time in 2 s at 10 %, {free} ms without");
            assert!(used < 600, "{used} ms of CPU time in 2 s");
            assert!(free > used * 2, "{free} ms without, {used} ms with");
        } else {
            case.run(["--policy", &policy, "--", "touch", "ran"])
                .exits(125)
                .tells("maxCPUPercent")
                .tells("lazaret doctor");
            assert!(!case.work.join("ran").exists());
            case.run(["--policy", &policy, "--warn", "--", "touch", "ran"])
                .exits(0)
                .tells("weaker")
                .tells("maxCPUPercent");
            assert!(case.work.join("ran").exists());
        }
    });
}

#[test]
fn only_the_allowed_processors_are_used() {
    if !has_tool("python3") {
        return;
    }
    if thread::available_parallelism().unwrap().get() < 2 {
        not_run("needs two processors");
        return;
    }
    as_everybody(|case| {
        let policy = policy(case, "[resources]\nallowedCPUs = [0]\n");
        let script = "
import os
all = range(os.cpu_count())
try: os.sched_setaffinity(0, all); print('widened', flush=True)
except PermissionError: print('refused', flush=True)
if os.fork() == 0:
    try: os.sched_setaffinity(0, [1]); print('moved')
    except PermissionError: print('refused')
    print(os.sched_getaffinity(0), flush=True); os._exit(0)
os.wait()";
        case.run(["--policy", &policy, "--", "nproc"]).exits(0).prints("1");
        let outcome = case.python(&["--policy", &policy], script).exits(0).out();
        let mut lines: Vec<&str> = outcome.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["refused", "refused", "{0}"]);
        // Without the limit the same works.
        let outcome = case.python(&[], script).exits(0).out();
        assert!(outcome.contains("widened") && outcome.contains("moved"), "{outcome}");
    });
}

/// Starts threads, then processes, as many as it is told, and says how many there were of each.
fn crowd(threads: u32, processes: u32) -> String {
    format!(
        "
import os, signal, threading, time
t = 0
try:
    for n in range({threads}):
        threading.Thread(target=lambda: time.sleep(3), daemon=True).start(); t += 1
except RuntimeError: pass
p = 1
try:
    for n in range({processes}):
        if os.fork() == 0: signal.pause(); os._exit(0)
        p += 1
except OSError: pass
time.sleep(0.3)
print(t, p, flush=True)
os._exit(0)"
    )
}

fn two_numbers(outcome: &Outcome) -> (u64, u64) {
    let text = outcome.out();
    let (a, b) = text.split_once(' ').unwrap_or_else(|| panic!("{outcome:?}"));
    (a.parse().unwrap(), b.parse().unwrap())
}

#[test]
fn processes_and_threads_are_limited_apart() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let few = policy(case, "[process]\nmaxProcesses = 5\n[resources]\nmaxThreads = 50\n");
        let run = limited_python(case, &["--policy", &few], &crowd(30, 20));
        let (threads, processes) = two_numbers(&run.outcome);
        assert_eq!(threads, 30, "{:?}", run.outcome);
        assert!((4..=5).contains(&processes), "{processes} processes");
        run.only_refused("maxProcesses", 5);

        let thin = policy(case, "[process]\nmaxProcesses = 50\n[resources]\nmaxThreads = 5\n");
        let run = limited_python(case, &["--policy", &thin], &crowd(20, 0));
        let (threads, _) = two_numbers(&run.outcome);
        assert!((3..=4).contains(&threads), "{threads} threads beside the first");
        run.only_refused("maxThreads", 5);
        let run = limited_python(case, &["--policy", &thin], &crowd(0, 20));
        let (_, processes) = two_numbers(&run.outcome);
        assert!((4..=5).contains(&processes), "{processes} processes");
        run.only_refused("maxThreads", 5);
    });
}

#[test]
fn no_more_descriptors_than_allowed_and_it_is_told() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let policy = policy(case, "[resources]\nmaxFileDescriptors = 20\n");
        let script = "
import os, time
n = 3
try:
    while n < 500: os.dup(0); n += 1
except OSError as e: print(e.errno)
time.sleep(0.5)";
        let run = limited_python(case, &["--policy", &policy], script);
        run.only_refused("maxFileDescriptors", 20);
        run.outcome.exits(0).prints("24").tells("maxFileDescriptors");
    });
}

#[test]
fn a_file_that_grows_too_large_is_told_whoever_wrote_it() {
    as_everybody(|case| {
        let policy = policy(case, "[filesystem]\nmaxFileSize = \"1M\"\n");
        let dd = ["dd", "if=/dev/zero", "of=large", "bs=64k", "count=64"];
        let run = limited(case, &["--policy", &policy], &dd);
        run.is_ended_by("maxFileSize", 1 << 20);
        assert_eq!(fs::metadata(case.work.join("large")).unwrap().len(), 1 << 20);
        fs::remove_file(case.work.join("large")).unwrap();
        for target in ["large", "/tmp/large"] {
            let script = format!("dd if=/dev/zero of={target} bs=64k count=64 2>/dev/null; echo went on");
            let run = limited(case, &["--policy", &policy], &["sh", "-c", &script]);
            run.only_refused("maxFileSize", 1 << 20);
            run.outcome.exits(0).prints("went on");
        }
        // A smaller one is nothing to tell.
        let run = limited(case, &["--policy", &policy], &["sh", "-c", "rm large; echo x > small"]);
        assert_eq!((run.outcome.exits(0).stderr.as_str(), run.events.len()), ("", 0));
    });
}

fn bytes_below(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Ways to fill a directory of the host, each for at most two hundred megabytes.
const FILLERS: [(&str, &str); 2] = [
    ("writing", "for n in range(200): open('f%d' % n, 'wb').write(chunk)"),
    (
        "short-lived processes",
        "
for n in range(200):
    if os.fork() == 0: open('f%d' % n, 'wb').write(chunk); os._exit(0)
    os.wait()",
    ),
];

#[test]
fn what_is_written_to_the_host_has_a_limit_together() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        for (name, filler) in FILLERS {
            let script = format!("import os, time\nchunk = b'x' * (1 << 20)\n{filler}\ntime.sleep(1)");
            let run = limited_python(case, &["--max-write", "20M"], &script);
            let written = bytes_below(&case.work);
            eprintln!("{name}: {} MB were written", written >> 20);
            run.is_ended_by("maxTotalSize", 20 << 20);
            assert!(written < 100 << 20, "{written} bytes by {name}");
            for entry in fs::read_dir(&case.work).unwrap().flatten() {
                fs::remove_file(entry.path()).unwrap();
            }
        }
    });
}

#[test]
fn space_that_is_taken_without_writing_counts() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        // At most four hundred megabytes, which no process has written.
        let script = "
import os, time
for n in range(40):
    f = os.open('f%d' % n, os.O_CREAT | os.O_WRONLY); os.posix_fallocate(f, 0, 10 << 20); os.close(f)
time.sleep(1)";
        let run = limited_python(case, &["--max-write", "20M"], script);
        let taken = bytes_below(&case.work);
        eprintln!("{} MB were taken", taken >> 20);
        run.is_ended_by("maxTotalSize", 20 << 20);
        assert!(taken < 100 << 20, "{taken} bytes");
    });
}

#[test]
fn full_private_storage_is_told_and_the_command_goes_on() {
    as_everybody(|case| {
        let script = "for i in 1 2 3 4; do dd if=/dev/zero of=/tmp/$i bs=64k count=32 2>/dev/null; done; sleep 0.3; echo went on";
        let run = limited(case, &["--max-write", "4M"], &["sh", "-c", script]);
        run.only_refused("maxTotalSize", 4 << 20);
        run.outcome.exits(0).prints("went on");
    });
}

#[test]
fn full_private_storage_is_told_also_when_the_command_ends_at_once() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let policy = policy(case, "[filesystem]\nmaxTotalSize = \"4M\"\nmaxInodes = 100\n");
        let bytes = "import os\nf = os.open('/tmp/f', os.O_CREAT | os.O_WRONLY)\ntry:\n while True: os.write(f, b'x' * 65536)\nexcept OSError: os._exit(0)";
        limited_python(case, &["--policy", &policy], bytes).only_refused("maxTotalSize", 4 << 20);
        let files =
            "import os\ntry:\n for n in range(2000): os.mknod('/tmp/%d' % n)\nexcept OSError: os._exit(0)";
        limited_python(case, &["--policy", &policy], files).only_refused("maxInodes", 100);
    });
}

/// What the private directories themselves take comes on top of the limit.
const SKELETON: u64 = 256;

#[test]
fn an_inode_bomb_in_private_storage_is_refused() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let policy = policy(case, "[filesystem]\nmaxInodes = 500\n");
        let script = "
import os, time
n = 0
try:
    while n < 20000: os.close(os.open('/tmp/%d' % n, os.O_CREAT | os.O_WRONLY)); n += 1
except OSError as e: print(e.errno)
print(n)
time.sleep(0.3)";
        let run = limited_python(case, &["--policy", &policy], script);
        run.only_refused("maxInodes", 500);
        let out = run.outcome.exits(0).out();
        let (errno, made) = out.split_once('\n').unwrap();
        assert_eq!(errno, "28");
        assert!(made.parse::<u64>().unwrap() <= 500 + SKELETON, "{made} files");
    });
}

#[test]
fn an_inode_bomb_in_the_working_directory_is_ended() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let policy = policy(case, "[filesystem]\nmaxInodes = 500\n");
        let script = "
import os, time
for n in range(50000): os.close(os.open('f%d' % n, os.O_CREAT | os.O_WRONLY))
time.sleep(1)";
        let run = limited_python(case, &["--policy", &policy], script);
        let made = fs::read_dir(&case.work).unwrap().count();
        eprintln!("{made} files were made");
        run.is_ended_by("maxInodes", 500);
        assert!((500..20_000).contains(&made), "{made} files");
    });
}

#[test]
fn a_fork_bomb_stays_small_and_is_told() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let marker = marker();
        // Bounded, should the limit not hold: at most 299 processes.
        let script = "
import os, time
depth = 0
for n in range(12):
    try:
        if os.fork() == 0:
            depth += 1
            if depth == 3: break
            continue
    except OSError: pass
time.sleep(30)";
        let flags = ["--max-procs", "50", "--timeout", "1s", "--", "/usr/bin/python3", "-c", script, &marker];
        let running = case.running(flags).start();
        let pid = running.pid();
        let (mut most, end) = (0, Instant::now() + Duration::from_millis(900));
        while Instant::now() < end {
            most = most.max(processes_with(&marker).len());
            thread::sleep(Duration::from_millis(10));
        }
        let outcome = running.finish().exits(124);
        eprintln!("at most {most} processes were seen");
        // Besides the fifty: lazaret itself, and init.
        assert!((20..=54).contains(&most), "{most} processes");
        assert!(outcome.took < Duration::from_secs(8), "{outcome:?}");
        assert_eq!(processes_with(&marker), Vec::<u32>::new());
        assert_eq!(groups_of(pid), Vec::<PathBuf>::new());
        let events = case.events_of("RESOURCE_LIMIT_EXCEEDED");
        assert!(events.iter().any(|event| event["details"]["limit"] == "maxProcesses"), "{events:?}");
    });
}

#[test]
fn a_descriptor_bomb_stays_small() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let open_files = || -> i64 {
            let text = fs::read_to_string("/proc/sys/fs/file-nr").unwrap();
            text.split_whitespace().next().unwrap().parse().unwrap()
        };
        let policy = policy(case, "[process]\nmaxProcesses = 20\n[resources]\nmaxFileDescriptors = 100\n");
        let script = "
import os, time
for n in range(100):
    try:
        if os.fork() == 0: break
    except OSError: break
try:
    for n in range(100000): os.open('/dev/null', os.O_RDONLY)
except OSError: pass
time.sleep(1)";
        let before = open_files();
        let running = case.running(["--policy", &policy, "--", "/usr/bin/python3", "-c", script]).start();
        let (mut most, end) = (0, Instant::now() + Duration::from_millis(900));
        while Instant::now() < end {
            most = most.max(open_files() - before);
            thread::sleep(Duration::from_millis(10));
        }
        let outcome = running.finish().exits(0);
        eprintln!("{most} more open files on the host");
        assert!(most < 15_000, "{most} more open files on the host");
        outcome.tells("maxFileDescriptors");
    });
}

const DIRECT: &str = "
import mmap, os, time
f = os.open('direct', os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
block = mmap.mmap(-1, 1 << 20)
begin = time.monotonic()
for n in range(3): os.write(f, block)
print(int((time.monotonic() - begin) * 1000))";

#[test]
fn disk_bandwidth_and_operations_are_held_or_refused() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        for limit in ["maxIOBandwidth = \"1M\"", "maxIOPS = 1"] {
            let policy = policy(case, &format!("[resources]\n{limit}\n"));
            if has_groups(case) {
                let free = case.python(&[], DIRECT);
                if free.status.code() != Some(0) {
                    not_run("this filesystem does not know O_DIRECT");
                    return;
                }
                let free: u64 = free.out().parse().unwrap();
                let held = limited_python(case, &["--policy", &policy], DIRECT);
                let held: u64 = held.outcome.exits(0).out().parse().unwrap();
                eprintln!("{limit}: 3 MB in {held} ms, {free} ms without");
                assert!(held >= 1500, "{held} ms");
                assert!(free < held, "{free} ms without, {held} ms with");
            } else {
                let name = limit.split_once(' ').unwrap().0;
                case.run(["--policy", &policy, "--", "touch", "ran"])
                    .exits(125)
                    .tells(name)
                    .tells("lazaret doctor");
                assert!(!case.work.join("ran").exists());
                case.run(["--policy", &policy, "--warn", "--", "true"]).exits(0).tells("weaker").tells(name);
            }
        }
    });
}

#[test]
fn swap_is_closed_in_the_group() {
    if !has_root() {
        return;
    }
    let case = Case::new(crate::case::Who::Caller);
    if !has_groups(&case) {
        not_run("the control groups of this host cannot be written by root");
        return;
    }
    let running = case.running(["--memory", "100M", "--", "sh", "-c", "touch ready; sleep 10"]).start();
    eventually("the command is ready", || case.work.join("ready").exists());
    let groups = groups_of(running.pid());
    let mut set = Vec::new();
    // Which of them there are depends on the version and on the kernel.
    for (file, closed) in
        [("memory.swap.max", "0"), ("memory.memsw.limit_in_bytes", "104857600"), ("memory.swappiness", "0")]
    {
        for group in &groups {
            if let Ok(text) = fs::read_to_string(group.join(file)) {
                set.push((file, text.trim().to_owned(), closed));
            }
        }
    }
    running.signal(Signal::TERM);
    running.finish();
    assert!(!set.is_empty(), "nothing about swap in {groups:?}");
    assert!(set.iter().all(|(_, is, should)| is == should), "{set:?}");
}

#[test]
fn what_a_killed_run_left_of_its_group_is_removed_by_the_next() {
    if !has_root() {
        return;
    }
    let case = Case::new(crate::case::Who::Caller);
    if !has_groups(&case) {
        not_run("the control groups of this host cannot be written by root");
        return;
    }
    let marker = marker();
    let running = case
        .running(["--memory", "100M", "--max-procs", "20", "--", "sh", "-c", "sleep 60; :", &marker])
        .start();
    let pid = running.pid();
    eventually("the command runs in its group", || {
        let groups = groups_of(pid);
        !groups.is_empty()
            && groups.iter().all(|group| {
                fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|list| list.lines().count() >= 2)
            })
    });
    running.signal(Signal::KILL);
    running.finish();
    eventually("all gone", || processes_with(&marker).is_empty());
    eventually("its group is empty", || {
        groups_of(pid).iter().all(|group| {
            fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|list| list.trim().is_empty())
        })
    });
    limited(&case, &["--memory", "100M", "--max-procs", "20"], &["true"]).outcome.exits(0);
    assert_eq!(groups_of(pid), Vec::<PathBuf>::new());
}
