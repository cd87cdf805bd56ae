//! Ways around the walls that somebody once found: each stays closed.

use std::{fs, os::unix::net::UnixDatagram, time::Duration};

use serde_json::Value;

use crate::{
    case::{as_everybody, has_tool},
    outcome::eventually,
};

#[test]
fn a_datagram_socket_by_another_name_reaches_no_socket_of_the_host() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let socket = UnixDatagram::bind(case.work.join("host.sock")).unwrap();
        socket.set_nonblocking(true).unwrap();
        let script = "import socket\n\
            for make in (lambda: socket.socket(socket.AF_UNIX, socket.SOCK_RAW), lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)[0]):\n\
            \x20   try: make().sendto(b'out', 'host.sock'); print('sent')\n\
            \x20   except OSError as e: print('refused')";
        case.python(&[], script).exits(0).prints("refused\nrefused");
        assert!(socket.recv(&mut [0; 8]).is_err(), "nothing arrived");
    });
}

#[test]
fn a_setgid_bit_is_refused_also_without_group_execution() {
    as_everybody(|case| {
        case.file("f", "x");
        case.sh("chmod 2745 f; chmod 2644 f; mkdir d; ls -l f | cut -c1-10").exits(0).prints("-rw-r--r--");
    });
}

#[test]
fn the_directory_of_a_read_only_path_cannot_be_moved_away() {
    as_everybody(|case| {
        case.directory(&case.work.join("a"));
        case.directory(&case.work.join("a/b"));
        case.file("a/b/f", "good");
        case.sh_with(
            &["--ro", "a/b"],
            "mv a a2; mkdir -p a/b; echo EVIL > a/b/f; cat a/b/f; echo ok > a/beside",
        );
        assert_eq!(fs::read_to_string(case.work.join("a/b/f")).unwrap(), "good");
        assert_eq!(fs::read_to_string(case.work.join("a/beside")).unwrap(), "ok\n");
    });
}

#[test]
fn what_is_denied_below_a_read_only_path_holds_when_the_host_exchanges_it() {
    as_everybody(|case| {
        let shared = case.work.with_file_name("shared");
        case.directory(&shared);
        fs::write(shared.join(".env"), "SECRET1").unwrap();
        fs::write(shared.join("new"), "SECRET2").unwrap();
        case.own(&shared.join(".env"));
        case.own(&shared.join("new"));
        let (dir, env, later) = (shared.to_str().unwrap(), shared.join(".env"), shared.join("later"));
        let flags = ["--ro", dir, "--deny", env.to_str().unwrap(), "--deny", later.to_str().unwrap()];
        let script = format!("echo started > started; sleep 1; cat {dir}/.env {dir}/later");
        let command: Vec<&str> = flags.iter().copied().chain(["--", "sh", "-c", script.as_str()]).collect();
        let running = case.running(command).start();
        eventually("it started", || case.work.join("started").exists());
        fs::rename(shared.join("new"), &env).unwrap();
        fs::write(&later, "SECRET3").unwrap();
        case.own(&later);
        let outcome = running.finish();
        assert_eq!(outcome.out(), "", "{outcome:?}");
        outcome.tells(".env").tells("later");
    });
}

#[test]
fn init_opens_nothing_of_itself_for_the_command() {
    as_everybody(|case| {
        let script = "for f in environ maps smaps mem auxv cmdline fd/0; do cat /proc/1/$f 2>/dev/null | tr '\\0' ' '; done; ls /proc/1/fd 2>/dev/null";
        let outcome =
            case.running(["--deny", ".env", "--", "sh", "-c", script]).env("SECRET_TOKEN", "topsecret").go();
        assert!(!outcome.out().contains("topsecret") && !outcome.out().contains("--deny"), "{outcome:?}");
        assert!(!outcome.out().contains("[heap]") && !outcome.out().contains("[stack]"), "{outcome:?}");
        case.running(["--", "sh", "-c", "tr '\\0' ' ' < /proc/1/cmdline"])
            .env("SECRET_TOKEN", "topsecret")
            .go()
            .prints("");
    });
}

#[test]
fn many_harmless_violations_do_not_hide_a_grave_one() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let report = case.work.join("report.json");
        let script = "import os, ctypes\n\
            for n in range(1200):\n\
            \x20   try: os.open(f'/usr/zz{n}', os.O_WRONLY)\n\
            \x20   except OSError: pass\n\
            ctypes.CDLL(None).ptrace(0, 0, 0, 0)";
        case.python(&["--report", report.to_str().unwrap()], script).exits(0).tells("ptrace");
        let report: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
        let told = report["violations"].as_array().unwrap();
        assert!(told.iter().any(|violation| violation["syscall"]["name"] == "ptrace"));
        assert!(told.len() < 1000, "{}", told.len());
    });
}

#[test]
fn a_link_does_not_hide_what_is_written_to() {
    as_everybody(|case| {
        case.sh("ln -s /proc/sys/kernel/core_pattern x; echo y > x; echo survived")
            .exits(137)
            .tells("core_pattern")
            .prints("");
        case.sh("ln -s /etc/passwd y; echo z > y").exits(2).tells("/etc/passwd");
        case.sh("mkdir /etc/d; rm /etc/passwd; mv /etc/passwd .; ln -s a /etc/l")
            .tells("/etc/d")
            .tells("/etc/passwd")
            .tells("/etc/l");
    });
}

#[test]
fn a_name_is_denied_through_a_link_that_is_replaced() {
    as_everybody(|case| {
        case.directory(&case.work.join("real"));
        std::os::unix::fs::symlink("real", case.work.join("conf")).unwrap();
        std::os::unix::fs::symlink("nowhere-yet", case.work.join("dangling")).unwrap();
        case.sh_with(
            &["--deny", "conf/.env", "--deny", "dangling"],
            "rm conf; mkdir conf; echo EVIL > conf/.env; echo EVIL > real/.env; echo EVIL > nowhere-yet",
        );
        for name in ["conf/.env", "real/.env", "nowhere-yet"] {
            assert!(!case.work.join(name).exists(), "{name}");
        }
    });
}

#[test]
fn nothing_that_makes_init_wait_stops_the_clock() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        // A FIFO opened again by its descriptor, whose other end never comes; many at once.
        let script = "import os, threading, time\n\
            os.mkfifo('p'); fd = os.open('p', os.O_RDWR); os.mkfifo('q'); q = os.open('q', os.O_RDONLY | os.O_NONBLOCK)\n\
            def wait():\n\
            \x20   try: os.open('q2', os.O_RDONLY)\n\
            \x20   except OSError: pass\n\
            os.mkfifo('q2')\n\
            for n in range(200): threading.Thread(target=wait, daemon=True).start()\n\
            print('waiting', flush=True); time.sleep(30)";
        let outcome = case.python(&["--deny", ".env", "--timeout", "2s"], script);
        assert!(outcome.took < Duration::from_secs(8), "{outcome:?}");
        outcome.exits(124).prints("waiting");
    });
}

#[test]
fn a_toolchain_variable_opens_nothing_of_the_kernels() {
    as_everybody(|case| {
        case.running(["--", "sh", "-c", "ls /sys 2>/dev/null; cat /proc/sys/user/max_user_namespaces"])
            .env("NVM_DIR", "/sys/kernel")
            .env("VIRTUAL_ENV", "/proc/sys")
            .go()
            .exits(0)
            .prints("0");
    });
}

#[test]
fn connections_to_outside_are_refused_and_told() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let script = "import socket\n\
            for address in ('203.0.113.7', '2001:db8::7'):\n\
            \x20   try: socket.create_connection((address, 443), 3); print('connected')\n\
            \x20   except OSError: print('refused')";
        case.python(&[], script)
            .exits(0)
            .prints("refused\nrefused")
            .tells("203.0.113.7:443")
            .tells("[2001:db8::7]:443");
    });
}

/// Fills sockets, sets SO_LINGER, and closes them while a connect on them is being carried out: whoever closes
/// last would wait for a day.
const LINGERING: &str = r"
import ctypes, socket, struct, threading, time
libc = ctypes.CDLL(None)
server = socket.socket(); server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
server.bind(('127.0.0.1', 0)); server.listen(500)
address = struct.pack('=H', 2) + struct.pack('>H', server.getsockname()[1]) + bytes([127, 0, 0, 1]) + bytes(8)
for n in range(60):
    s = socket.socket()
    # A thread of the round before may have connected it: it has the same number.
    try: s.connect(server.getsockname())
    except OSError: pass
    s.setblocking(False)
    try:
        while s.send(b'x' * 65536): pass
    except OSError: pass
    s.setblocking(n % 2 == 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 100000))
    fd = s.detach()
    threading.Thread(target=lambda: libc.connect(fd, address, 16), daemon=True).start()
    time.sleep(n % 12 * 0.00005)
    threading.Thread(target=lambda: libc.close(fd), daemon=True).start()
    time.sleep(0.005)
time.sleep(60)";

#[test]
fn a_socket_that_lingers_holds_up_neither_init_nor_the_supervisor() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let outcome = case.python(&["--timeout", "3s"], LINGERING);
        assert!(outcome.took < Duration::from_secs(9), "{outcome:?}");
        outcome.exits(124);
    });
}
