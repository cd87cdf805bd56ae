//! `lazaret learn`: what is learnt from a run lets the same run succeed, and little else.

mod files;
mod programs;
mod tightness;

use std::{fs, path::PathBuf};

use lazaret_policy::{Policy, load};

use crate::case::{Case, Outcome};

/// Where these tests put the policy: beside the project, so that no command sees it.
fn policy_file(case: &Case) -> PathBuf {
    case.root.join("learned.toml")
}

/// Learns with flags, and replaces what was learnt before.
fn learn_with(case: &Case, flags: &[&str], command: &[&str]) -> Outcome {
    let file = policy_file(case);
    let mut all = vec!["learn", "--force", "-o", file.to_str().unwrap()];
    all.extend_from_slice(flags);
    all.push("--");
    all.extend_from_slice(command);
    case.lazaret(all).go()
}

fn learn(case: &Case, command: &[&str]) -> Outcome {
    learn_with(case, &[], command)
}

/// Runs under what was learnt.
fn again(case: &Case, command: &[&str]) -> Outcome {
    let file = policy_file(case);
    let mut all = vec!["--policy", file.to_str().unwrap(), "--"];
    all.extend_from_slice(command);
    case.run(all)
}

fn text(case: &Case) -> String {
    fs::read_to_string(policy_file(case)).unwrap()
}

/// The policy as the program itself reads it.
fn learned(case: &Case) -> Policy {
    case.lazaret(["policy", "check", policy_file(case).to_str().unwrap()]).go().exits(0).tells_nothing();
    load::load_file(&policy_file(case)).unwrap().policy
}

fn texts(paths: &[PathBuf]) -> Vec<&str> {
    paths.iter().map(|path| path.to_str().unwrap()).collect()
}

/// Learns, and then the same succeeds under what was learnt, with the same output and nothing denied.
#[track_caller]
fn learns_and_repeats(case: &Case, command: &[&str]) -> Outcome {
    let first = learn(case, command).exits(0);
    let second = again(case, command).exits(0);
    assert_eq!(first.out(), second.out(), "{first:?}\n{second:?}\n{}", text(case));
    assert!(!second.stderr.contains("denied"), "{second:?}\n{}", text(case));
    first
}
