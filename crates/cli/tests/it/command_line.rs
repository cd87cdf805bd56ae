//! The command line itself: help, version, completions.

use std::fs;

use crate::case::ordinary;

#[test]
fn everything_has_help() {
    let case = ordinary();
    for command in [
        "",
        "run",
        "doctor",
        "policy",
        "policy check",
        "policy schema",
        "policy show",
        "profile",
        "profile list",
        "profile show",
        "audit",
        "audit verify",
        "audit query",
        "audit tail",
        "audit stats",
        "audit show",
        "audit export",
        "audit rotate",
        "bench",
        "completions",
        "man",
    ] {
        for flag in ["--help", "-h"] {
            let args: Vec<&str> = command.split_whitespace().chain([flag]).collect();
            let help = case.lazaret(&args).go().exits(0).tells_nothing().out();
            assert!(help.contains("Usage: lazaret"), "{args:?}: {help}");
        }
    }
    let help = case.lazaret(["run", "--help"]).go().exits(0).out();
    for flag in [
        "--ro",
        "--rw",
        "--deny",
        "--env",
        "--timeout",
        "--on-escape",
        "--report",
        "--plan",
        "--audit",
        "Examples",
    ] {
        assert!(help.contains(flag), "{flag}");
    }
    case.assert_nothing_started();
}

#[test]
fn help_of_the_whole_explains_the_exit_codes() {
    let help = ordinary().lazaret(["--help"]).go().exits(0).out();
    for code in ["124", "125", "126", "127", "137", "128+N"] {
        assert!(help.contains(code), "{code}");
    }
}

#[test]
fn the_version_is_the_packages() {
    let case = ordinary();
    for flag in ["--version", "-V"] {
        case.lazaret([flag])
            .go()
            .exits(0)
            .tells_nothing()
            .prints(concat!("lazaret ", env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn a_subcommand_that_does_not_exist_gives_125_and_a_suggestion() {
    let case = ordinary();
    case.lazaret(["dcotor"]).go().exits(125).tells("dcotor").tells("doctor");
    for args in [
        &["policy"][..],
        &["policy", "nonesuch"],
        &["audit", "nonesuch"],
        &["completions", "tcl"],
        &["doctor", "extra"],
    ] {
        case.lazaret(args).go().exits(125);
    }
}

#[test]
fn completions_are_there_for_every_shell_and_name_the_commands() {
    let case = ordinary();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = case.lazaret(["completions", shell]).go().exits(0).tells_nothing().out();
        assert!(text.contains("doctor") && text.contains("on-escape"), "{shell}");
    }
}

#[test]
fn completions_for_bash_are_valid_bash() {
    if !crate::case::has_tool("bash") {
        return;
    }
    let case = ordinary();
    let text = case.lazaret(["completions", "bash"]).go().exits(0);
    let file = case.file("completions.bash", &text.stdout);
    case.run(["--", "bash", "-n", file.to_str().unwrap()]).exits(0).tells_nothing();
}

#[test]
fn man_pages_are_written() {
    let case = ordinary();
    case.lazaret(["man", case.work.to_str().unwrap()]).go().exits(0);
    let pages: Vec<_> = fs::read_dir(&case.work).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(
        pages.iter().any(|page| page == "lazaret.1") && pages.iter().any(|page| page == "lazaret-run.1"),
        "{pages:?}"
    );
}

#[test]
fn arguments_of_the_command_are_not_ours() {
    let case = ordinary();
    case.run(["--", "echo", "--help", "--version", "--", "-x"]).exits(0).prints("--help --version -- -x");
    case.run(["echo", "--plan", "--level", "0"]).exits(0).prints("--plan --level 0");
    case.run(["--", "printf", "%s|", "a b", "", "c\nd", "$HOME"]).exits(0).prints("a b||c\nd|$HOME|");
}

#[test]
fn output_to_a_pipe_has_no_colours() {
    let case = ordinary();
    for args in
        [&["--help"][..], &["nonesuch"], &["doctor"], &["profile", "list"], &["run", "--plan", "--", "true"]]
    {
        let outcome = case.lazaret(args).go();
        assert!(!outcome.out().contains('\x1b') && !outcome.stderr.contains('\x1b'), "{outcome:?}");
    }
}
