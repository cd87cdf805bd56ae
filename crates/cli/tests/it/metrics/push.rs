//! OTLP, judged by a receiver that reads every field as the protocol has it.

use std::{fs, path::Path};

use rustix::process::Signal;
use serde_json::Value;

use super::flood;
use crate::{
    case::{Case, as_everybody, eventually, has_tool, ordinary},
    network::servers::Program,
};

/// Takes what is sent, checks it field by field, and keeps it.
const RECEIVER: &str = include_str!("receiver.py");

struct Receiver {
    _program: Program,
    url: String,
    kept: std::path::PathBuf,
}

impl Receiver {
    fn start(case: &Case, mode: &str) -> Receiver {
        let directory = case.root.join("receiver");
        case.directory(&directory);
        let kept = directory.join("kept.json");
        let command = ["/usr/bin/python3", "-c", RECEIVER, kept.to_str().unwrap(), mode];
        let mut program = Program::start(&command, None, Path::new(&directory));
        let url = format!("http://127.0.0.1:{}", program.line());
        Receiver { _program: program, url, kept }
    }

    fn kept(&self) -> Value {
        serde_json::from_slice(&fs::read(&self.kept).unwrap_or_default()).unwrap_or_default()
    }
}

#[test]
fn a_collector_gets_the_same_numbers() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        flood(case, 57);
        let receiver = Receiver::start(case, "take");
        case.lazaret(["metrics", "push", "--otlp", &receiver.url]).go().exits(0).tells_nothing();
        let kept = receiver.kept();
        assert_eq!(kept["problems"], serde_json::json!([]), "{kept}");
        assert_eq!(kept["resource"]["service.name"], "lazaret");
        let values = &kept["values"];
        assert_eq!(values["lazaret_syscalls_blocked{syscall=chroot}"], 57);
        assert_eq!(values["lazaret_sandboxes_created{level=2,profile=default}"], 1);
        assert_eq!(values["lazaret_sandbox_lifetime_seconds{}"]["count"], 1);
        assert!(values["lazaret_sandbox_creation_rate{}"].as_f64().unwrap() > 0.0, "{kept}");
    });
}

#[test]
fn again_and_again_also_when_the_collector_is_away_for_a_while() {
    if !has_tool("python3") {
        return;
    }
    let case = ordinary();
    let receiver = Receiver::start(&case, "take");
    let running = case.lazaret(["metrics", "push", "--otlp", &receiver.url, "--every", "100ms"]).start();
    eventually("it comes", || receiver.kept()["values"].is_object());
    case.sh("exit 0").exits(0);
    let created = "lazaret_sandboxes_created{level=2,profile=default}";
    eventually("it comes again", || receiver.kept()["values"][created] == 1);
    drop(receiver);
    std::thread::sleep(std::time::Duration::from_millis(300));
    running.signal(Signal::TERM);
    running.finish().exits(0).tells("the metrics cannot be sent");
}

#[test]
fn what_is_refused_or_taken_in_part_is_told() {
    if !has_tool("python3") {
        return;
    }
    let case = ordinary();
    let refusing = Receiver::start(&case, "refuse");
    let refused = case.lazaret(["metrics", "push", "--otlp", &refusing.url]).go();
    refused.exits(125).tells("refused the metrics at /v1/metrics").tells("503");
    let other = ordinary();
    let partial = Receiver::start(&other, "partial");
    let told = other.lazaret(["metrics", "push", "--otlp", &partial.url]).go();
    told.exits(0).tells("says: two points too many");
    let nobody = case.lazaret(["metrics", "push", "--otlp", "http://127.0.0.1:1"]).go();
    nobody.exits(125).tells("does a collector");
    let away = case.lazaret(["metrics", "push", "--otlp", "http://192.0.2.1:4318"]).go();
    away.exits(125).tells("--dangerously-send-anywhere");
}
