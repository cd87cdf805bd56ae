//! Prometheus itself reads what is served, and is asked what it has understood.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::Signal;
use serde_json::Value;

use super::{FLOOD, Served, flood, printed};
use crate::{
    case::{Case, Who, as_everybody, eventually, has_tool, ordinary},
    network::servers::Program,
};

/// What promtool says of a file.
fn promtool(args: &[&str], input: &str) {
    let mut child = Command::new("promtool")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    if args == ["check", "metrics"] {
        assert_eq!(said, "");
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A Prometheus that scrapes one target.
struct Prometheus {
    port: u16,
    _program: Program,
}

impl Prometheus {
    fn start(case: &Case, target: &Served) -> Prometheus {
        let directory = case.root.join("prometheus");
        case.directory(&directory);
        let configuration = format!(
            "global:\n  scrape_interval: 200ms\n  scrape_timeout: 200ms\nscrape_configs:\n  - job_name: lazaret\n    \
             static_configs:\n      - targets: ['{}']\n",
            target.address
        );
        fs::write(directory.join("prometheus.yml"), configuration).unwrap();
        let port = free_port();
        let flags = [
            format!("--config.file={}", directory.join("prometheus.yml").display()),
            format!("--storage.tsdb.path={}", directory.join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--log.level=warn".to_owned(),
        ];
        let mut command = vec!["prometheus"];
        command.extend(flags.iter().map(String::as_str));
        let as_uid = (case.who == Who::Other).then_some((case.who.uid(), case.who.uid()));
        Prometheus { port, _program: Program::start(&command, as_uid, &directory) }
    }

    fn get(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    /// The value of an expression; `None` as long as it has none.
    fn value(&self, expression: &str) -> Option<f64> {
        let encoded: String = expression
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
                _ => format!("%{byte:02X}"),
            })
            .collect();
        let answer = self.get(&format!("/api/v1/query?query={encoded}"))?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }
}

#[test]
fn prometheus_has_the_numbers_of_what_ran() {
    if !has_tool("prometheus") || !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let served = Served::start(case, &[]);
        let prometheus = Prometheus::start(case, &served);
        let is = |expression: &str, expected: f64| {
            eventually(&format!("{expression} is {expected}"), || {
                prometheus.value(expression) == Some(expected)
            });
        };
        is("up", 1.0);
        is("sum(lazaret_sandboxes_created_total) or vector(0)", 0.0);
        case.sh("exit 0").exits(0);
        case.sh("exit 3").exits(3);
        flood(case, 123);
        case.python(&[], "import ctypes; ctypes.CDLL(None).mount(b'a', b'/mnt', b'tmpfs', 0, None)")
            .exits(137);
        let script = format!("{FLOOD}\nopen('ready', 'w')\nimport time; time.sleep(60)");
        let running = case.running(["--", "/usr/bin/python3", "-c", &script, "12"]).start();
        eventually("it is ready", || case.work.join("ready").exists());
        is("lazaret_sandboxes_active", 1.0);
        running.signal(Signal::KILL);
        running.finish();
        is("lazaret_sandboxes_active", 0.0);
        for (expression, expected) in [
            ("sum(lazaret_sandboxes_created_total)", 5.0),
            ("lazaret_sandboxes_ended_total{outcome='exited'}", 3.0),
            ("lazaret_sandboxes_ended_total{outcome='lost'}", 1.0),
            ("lazaret_sandboxes_ended_total{outcome='escape'}", 1.0),
            ("lazaret_sandbox_lifetime_seconds_count", 4.0),
            ("lazaret_syscalls_blocked_total{syscall='chroot'}", 133.0),
            ("lazaret_policy_violations_total{type='syscall',severity='high'}", 133.0),
            ("lazaret_policy_violations_total{type='syscall',severity='critical'}", 1.0),
            ("lazaret_escape_attempts_total", 1.0),
            ("lazaret_sandbox_io_bytes_count{direction='write'}", 4.0),
            ("count(lazaret_recent_sandbox_info)", 5.0),
            ("lazaret_audit_readable", 1.0),
        ] {
            is(expression, expected);
        }
        let positive = |expression: &str| {
            eventually(&format!("{expression} is positive"), || {
                prometheus.value(expression).is_some_and(|value| value > 0.0)
            });
        };
        positive("lazaret_sandbox_creation_rate");
        positive("sum(rate(lazaret_sandbox_cpu_seconds_sum[1m]))");
        positive("histogram_quantile(0.9, sum by (le) (lazaret_sandbox_memory_bytes_bucket))");
        // It asks for OpenMetrics, and knows what each of them is.
        let metadata = prometheus.get("/api/v1/metadata").unwrap();
        let of = |name: &str| metadata["data"][name][0]["type"].clone();
        assert_eq!(of("lazaret_escape_attempts"), "counter", "{metadata}");
        assert_eq!(of("lazaret_sandbox_lifetime_seconds"), "histogram");
        served.end(Signal::TERM);
    });
}

#[test]
fn promtool_finds_nothing_to_mend() {
    if !has_tool("promtool") {
        return;
    }
    let case = ordinary();
    promtool(&["check", "metrics"], &printed(&case));
    case.sh("echo x > /etc/x; exit 0").exits(0);
    promtool(&["check", "metrics"], &printed(&case));
}

#[test]
fn the_examples_for_prometheus_are_valid() {
    if !has_tool("promtool") {
        return;
    }
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/telemetry");
    promtool(&["check", "rules", examples.join("alerts.yml").to_str().unwrap()], "");
    promtool(&["test", "rules", examples.join("alerts.test.yml").to_str().unwrap()], "");
    let configuration = examples.join("prometheus.yml");
    promtool(&["check", "config", configuration.to_str().unwrap()], "");
}

/// Every metric that the examples name is one that there is.
#[test]
fn the_dashboard_and_the_alerts_ask_for_metrics_that_are_told() {
    let case = ordinary();
    case.sh_with(&["--tool", "t"], "exit 0").exits(0);
    let told = printed(&case);
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/telemetry");
    let dashboard = fs::read_to_string(examples.join("grafana-dashboard.json")).unwrap();
    let parsed: Value = serde_json::from_str(&dashboard).unwrap();
    assert!(parsed["panels"].as_array().unwrap().len() >= 8);
    let alerts = fs::read_to_string(examples.join("alerts.yml")).unwrap();
    let mut asked = 0;
    for word in (dashboard + &alerts).split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        if !word.starts_with("lazaret_") {
            continue;
        }
        asked += 1;
        let name =
            ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
        assert!(told.contains(&format!("# TYPE {name} ")), "{word} is not told");
    }
    assert!(asked > 15, "{asked}");
}
