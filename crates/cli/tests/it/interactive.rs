//! At a terminal: a shell, job control, window sizes, and the caller's terminal as it was afterwards.

use std::{io::Read, thread, time::Duration};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    case::{Case, Lazaret, as_everybody, eventually, has_tool, marker, processes_with},
    terminal::{On, Terminal},
};

fn tools() -> bool {
    has_tool("setsid") && has_tool("bash") && has_tool("stty")
}

fn bash(case: &Case) -> Lazaret<'_> {
    case.running(["--env", "PS1=ready> ", "--", "bash", "--norc", "--noprofile", "--noediting", "-i"])
}

#[test]
fn a_shell_has_a_terminal_of_its_own() {
    if !tools() {
        return;
    }
    as_everybody(|case| {
        let mut terminal = Terminal::start(bash(case), On::All);
        terminal.shows("ready> ").types("tty\n").shows("/dev/pts/").shows("ready> ");
        terminal.types("echo $((6*7)) > /dev/tty\n").shows("42").shows("ready> ");
        terminal.types("exit 5\n");
        assert_eq!(terminal.ends(), 5, "{}", terminal.shown());
        assert!(!terminal.shown().contains("no job control"), "{}", terminal.shown());
    });
}

#[test]
fn a_shell_beside_a_denied_name_has_its_terminal_too() {
    if !tools() {
        return;
    }
    as_everybody(|case| {
        let shell = [
            "--deny",
            ".env",
            "--env",
            "PS1=ready> ",
            "--",
            "bash",
            "--norc",
            "--noprofile",
            "--noediting",
            "-i",
        ];
        let mut terminal = Terminal::start(case.running(shell), On::All);
        terminal.shows("ready> ").types("echo $((6*7)) > /dev/tty\n").shows("42").shows("ready> ");
        terminal.types("stty size < /dev/tty\n").shows("31 117").shows("ready> ");
        terminal.types("cat .env; echo $((1+1))-code\n").shows("denied").shows("2-code").shows("ready> ");
        terminal.types("exit 3\n");
        assert_eq!(terminal.ends(), 3, "{}", terminal.shown());
    });
}

#[test]
fn the_window_size_is_passed_on_and_followed() {
    if !tools() {
        return;
    }
    as_everybody(|case| {
        let mut terminal = Terminal::start(bash(case), On::All);
        terminal.shows("ready> ").types("stty size\n").shows("31 117").shows("ready> ");
        terminal.types("trap 'echo resized' WINCH\n").shows("ready> ");
        terminal.resize(44, 99);
        // The size follows as soon as the signal has been handled.
        thread::sleep(Duration::from_millis(200));
        terminal.types("stty size\n").shows("44 99").types("exit\n");
        assert_eq!(terminal.ends(), 0);
    });
}

#[test]
fn jobs_can_be_stopped_listed_continued_and_interrupted() {
    if !tools() {
        return;
    }
    as_everybody(|case| {
        let marker = marker();
        let mut terminal = Terminal::start(bash(case), On::All);
        terminal.shows("ready> ").types(&format!("sh -c 'sleep 100; :' {marker}\n"));
        eventually("the job runs", || processes_with(&marker).len() == 1);
        thread::sleep(Duration::from_millis(100));
        terminal.types("\x1a").shows("Stopped").shows("ready> ");
        terminal.types("jobs\n").shows("Stopped").shows("ready> ");
        terminal.types("fg\n").shows("sleep 100");
        thread::sleep(Duration::from_millis(200));
        terminal.types("\x03").shows("ready> ");
        eventually("the job is gone", || processes_with(&marker).is_empty());
        terminal.types("echo $?-after\n").shows("130-after").types("exit 6\n");
        assert_eq!(terminal.ends(), 6);
    });
}

#[test]
fn the_end_of_input_ends_the_shell() {
    if !tools() {
        return;
    }
    as_everybody(|case| {
        let mut terminal = Terminal::start(bash(case), On::All);
        terminal.shows("ready> ").types("\x04");
        assert_eq!(terminal.ends(), 0);
    });
}

#[test]
fn the_callers_terminal_is_as_before_afterwards() {
    if !tools() {
        return;
    }
    as_everybody(|case| {
        for (script, code) in [
            ("echo shown; sleep 0.3", 0),
            ("stty raw -echo; echo shown; sleep 0.3; exit 3", 3),
            ("echo shown; sleep 0.3; kill -9 $$", 137),
        ] {
            let mut terminal = Terminal::start(case.running(["--", "sh", "-c", script]), On::All);
            let before = terminal.modes();
            terminal.shows("shown");
            assert_ne!(terminal.modes(), before, "the terminal is raw in between");
            assert_eq!(terminal.ends(), code);
            assert_eq!(terminal.modes(), before, "{script}");
        }
        for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT] {
            let mut terminal =
                Terminal::start(case.running(["--", "sh", "-c", "echo shown; exec sleep 30"]), On::All);
            let before = terminal.modes();
            terminal.shows("shown");
            kill_process(Pid::from_raw(terminal.child().id().cast_signed()).unwrap(), signal).unwrap();
            assert_eq!(terminal.ends(), 128 + signal.as_raw());
            assert_eq!(terminal.modes(), before, "{signal:?}");
        }
    });
}

#[test]
fn a_refusal_leaves_the_terminal_alone() {
    if !tools() {
        return;
    }
    as_everybody(|case| {
        for (args, code) in [
            (&["--", "nonesuch"][..], 127),
            (&["--ro", "/nonesuch", "--", "true"], 125),
            (&["--timeout", "200ms", "--", "sleep", "9"], 124),
        ] {
            let mut terminal = Terminal::start(case.running(args), On::All);
            let before = terminal.modes();
            assert_eq!(terminal.ends(), code, "{args:?} {}", terminal.shown());
            assert_eq!(terminal.modes(), before, "{args:?}");
        }
    });
}

#[test]
fn all_output_is_shown_however_fast_the_end_comes() {
    if !tools() {
        return;
    }
    as_everybody(|case| {
        let mut terminal = Terminal::start(case.running(["--", "seq", "5000"]), On::All);
        terminal.shows("\n5000\r");
        assert_eq!(terminal.ends(), 0);
        let lines = (1..=5000).map(|n| format!("{n}\r\n")).collect::<String>();
        assert!(terminal.shown().starts_with(&lines));
    });
}

#[test]
fn colours_and_bytes_pass_in_both_directions() {
    if !tools() {
        return;
    }
    as_everybody(|case| {
        let script =
            "printf '\\033[31mred\\033[0m ünïcödé\\n'; stty -echo; read line; printf 'got %s\\n' \"$line\"";
        let mut terminal = Terminal::start(case.running(["--", "sh", "-c", script]), On::All);
        terminal.shows("\x1b[31mred\x1b[0m ünïcödé").types("tÿped\n").shows("got tÿped");
        assert_eq!(terminal.ends(), 0);
    });
}

#[test]
fn with_the_terminal_as_input_only_the_output_is_still_a_pipe() {
    if !tools() {
        return;
    }
    as_everybody(|case| {
        let script = "test -t 0; echo $?; test -t 1; echo $?; read line; echo got $line";
        let mut terminal = Terminal::start(case.running(["--", "sh", "-c", script]), On::OnlyInput);
        terminal.types("hello\n");
        let mut text = String::new();
        terminal.child().stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "0\n1\ngot hello\n");
        assert_eq!(terminal.ends(), 0);
    });
}

#[test]
fn with_the_terminal_as_input_only_the_keyboard_still_interrupts() {
    if !tools() {
        return;
    }
    as_everybody(|case| {
        let mut terminal =
            Terminal::start(case.running(["--", "sh", "-c", "echo ready; exec sleep 30"]), On::OnlyInput);
        let mut output = terminal.child().stdout.take().unwrap();
        output.read_exact(&mut [0; 6]).unwrap();
        terminal.types("\x03");
        assert_eq!(terminal.ends(), 130);
    });
}

#[test]
fn with_the_terminal_as_output_only_a_pipe_is_still_the_input() {
    if !tools() {
        return;
    }
    as_everybody(|case| {
        let mut terminal = Terminal::start(
            case.running(["--", "sh", "-c", "cat; test -t 1; echo $?; test -t 0; echo $?"]),
            On::OnlyOutput,
        );
        std::io::Write::write_all(&mut terminal.child().stdin.take().unwrap(), b"piped\n").unwrap();
        terminal.shows("piped").shows("0").shows("1");
        assert_eq!(terminal.ends(), 0);
    });
}

#[test]
fn nothing_inside_types_on_the_callers_terminal() {
    if !tools() || !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let script = "
import fcntl, termios
for fd in (0, 1, 2):
    try: fcntl.ioctl(fd, termios.TIOCSTI, b'x'); print('typed')
    except OSError: pass
try: fcntl.ioctl(0, termios.TIOCSCTTY, 1); print('taken')
except OSError: pass
print('done', flush=True)";
        for on in [On::All, On::OnlyInput] {
            let mut terminal = Terminal::start(case.running(["--", "/usr/bin/python3", "-c", script]), on);
            let text = match terminal.child().stdout.take() {
                Some(mut output) => {
                    let mut text = String::new();
                    output.read_to_string(&mut text).unwrap();
                    text
                }
                None => {
                    terminal.shows("done");
                    terminal.shown().to_owned()
                }
            };
            assert!(!text.contains("typed"), "{on:?}: {text}");
            assert!(on == On::All || !text.contains("taken"), "{on:?}: {text}");
            assert_eq!(terminal.ends(), 0);
        }
    });
}
