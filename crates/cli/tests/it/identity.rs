//! Who the command is, inside and seen from outside.

use std::{fs, path::Path};

use crate::case::{Case, as_everybody, eventually, has_root, has_tool, marker, processes_with};

fn status(text: &str, key: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {key} in {text}")).trim().to_owned()
}

#[test]
fn the_command_has_no_capabilities_no_new_privileges_and_a_filter() {
    as_everybody(|case| {
        for flags in [&[][..], &["--level", "1"], &["--on-escape", "deny"]] {
            let text = case.sh_with(flags, "cat /proc/self/status").exits(0).out();
            for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
                assert_eq!(status(&text, set).trim_start_matches('0'), "", "{set} {flags:?}");
            }
            assert_eq!(status(&text, "NoNewPrivs"), "1");
            assert_eq!(status(&text, "Seccomp"), "2");
        }
    });
}

#[test]
fn the_command_is_the_caller_by_number() {
    as_everybody(|case| {
        case.sh("id -u; id -g; id -G").exits(0).prints(&format!("{0}\n{0}\n{0}", case.who.uid()));
    });
}

/// The host's status files of everything inside one sandbox, while it runs.
fn seen_from_outside(case: &Case, flags: &[&str]) -> Vec<String> {
    let marker = marker();
    let script = "sh -c 'sleep 30; :' $0 & (setsid sh -c 'sleep 30; :' $0 &); touch ready; sleep 30";
    let args = flags.iter().copied().chain(["--", "sh", "-c", script, &marker]);
    let running = case.running(args).start();
    eventually("the command is ready", || {
        case.work.join("ready").exists() && processes_with(&marker).len() >= 4
    });
    let lazaret = running.pid();
    let mut pids: Vec<u32> = processes_with(&marker).into_iter().filter(|pid| *pid != lazaret).collect();
    // Init is the one child of the supervisor.
    let children = fs::read_to_string(format!("/proc/{lazaret}/task/{lazaret}/children")).unwrap_or_default();
    pids.extend(children.split_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
    let found =
        pids.iter().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok()).collect();
    running.signal(rustix::process::Signal::KILL);
    running.finish();
    found
}

#[test]
fn launched_by_root_nothing_inside_is_root_on_the_host() {
    if !has_root() {
        return;
    }
    let case = Case::new(crate::case::Who::Caller);
    for flags in [&[][..], &["--level", "1"]] {
        let _ = fs::remove_file(case.work.join("ready"));
        let found = seen_from_outside(&case, flags);
        assert!(found.len() >= 4, "{found:?}");
        for text in found {
            for key in ["Uid", "Gid"] {
                assert!(status(&text, key).split_whitespace().all(|id| id != "0"), "{text}");
            }
            let groups = status(&text, "Groups");
            assert!(groups.split_whitespace().all(|id| id != "0"), "{text}");
            assert_eq!(status(&text, "CapEff").trim_start_matches('0'), "", "{text}");
            assert_eq!(status(&text, "CapPrm").trim_start_matches('0'), "", "{text}");
        }
    }
}

#[test]
fn seen_from_outside_everything_inside_is_confined() {
    as_everybody(|case| {
        for text in seen_from_outside(case, &[]) {
            assert_eq!(status(&text, "NoNewPrivs"), "1", "{text}");
            assert_eq!(status(&text, "CapEff").trim_start_matches('0'), "", "{text}");
        }
    });
}

#[test]
fn only_processes_of_the_sandbox_are_visible() {
    as_everybody(|case| {
        let script = "echo /proc/[0-9]*; cat /proc/1/comm; echo $$; readlink /proc/self";
        let text = case.sh(script).exits(0).out();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "/proc/1 /proc/2", "{text}");
        assert_eq!(lines[1..3], ["lazaret-init", "2"], "{text}");
    });
}

#[test]
fn init_cannot_be_looked_into_or_killed() {
    as_everybody(|case| {
        let script = "cat /proc/1/environ /proc/1/maps; ls /proc/1/fd /proc/1/root /proc/1/cwd; readlink /proc/1/exe; \
                      kill -9 1; kill -TERM 1; kill -STOP 1; echo x > /proc/1/mem; echo still";
        case.sh_with(&["--on-escape", "deny"], script).exits(0).prints("still");
    });
}

#[test]
fn every_namespace_is_its_own() {
    as_everybody(|case| {
        for name in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
            let inside = case.run(["--", "readlink", &format!("/proc/self/ns/{name}")]).exits(0).out();
            let outside = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
            assert!(inside.starts_with(name) && inside != outside.to_str().unwrap(), "{name}: {inside}");
        }
        case.sh("hostname; cat /proc/sys/kernel/hostname").prints("lazaret\nlazaret");
    });
}

#[test]
fn there_is_no_way_to_the_network_but_loopback_works() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let script = "
import socket
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()
c = socket.create_connection(s.getsockname(), 2); a, _ = s.accept(); c.sendall(b'x'); print(a.recv(1).decode())
for address in [('1.1.1.1', 443), ('169.254.169.254', 80), ('10.0.0.1', 80)]:
    try: socket.create_connection(address, 2); print('reached', address)
    except OSError as e: pass
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try: u.sendto(b'x', ('1.1.1.1', 53)); print('sent')
except OSError: pass
for kind in [(socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_PACKET, socket.SOCK_RAW, 0), (socket.AF_NETLINK, socket.SOCK_RAW, 0), (40, socket.SOCK_STREAM, 0)]:
    try: socket.socket(*kind); print('made', kind)
    except OSError: pass
print(open('/proc/net/dev').read().count(':'))";
        case.python(&[], script).exits(0).prints("x\n1");
    });
}

#[test]
fn a_socket_of_the_host_cannot_be_reached_unless_it_is_named() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let path = case.work.join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        case.own(&path);
        let script = "import socket\nsocket.socket(socket.AF_UNIX).connect('socket'); print('connected')";
        case.python(&[], script).exits(1).prints("").tells("the host's socket");
        case.python(&["--rw", path.to_str().unwrap()], script).exits(0).prints("connected");
        // One made inside is the command's own.
        let own = "import socket\ns=socket.socket(socket.AF_UNIX); s.bind('/tmp/own'); s.listen()\n\
                   socket.socket(socket.AF_UNIX).connect('/tmp/own'); print('connected')";
        case.python(&[], own).exits(0).prints("connected").tells_nothing();
    });
}

#[test]
fn an_abstract_socket_of_the_host_cannot_be_reached() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let name = marker();
        let address =
            <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&name)
                .unwrap();
        let _listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
        let script =
            format!("import socket\nsocket.socket(socket.AF_UNIX).connect('\\0{name}'); print('connected')");
        for flags in [&[][..], &["--level", "1"]] {
            let outcome = case.python(flags, &script);
            assert!(outcome.code() != 0 && outcome.out().is_empty(), "{flags:?} {outcome:?}");
        }
    });
}

#[test]
fn nothing_on_the_host_can_be_signalled() {
    as_everybody(|case| {
        let pid = std::process::id();
        case.sh(&format!("kill -0 {pid} 2>/dev/null && echo reached; kill -0 -1; true")).prints("");
        assert!(Path::new("/proc/self").exists());
    });
}

#[test]
fn nested_sandboxes_are_refused_with_a_reason() {
    as_everybody(|case| {
        let program = crate::case::program();
        let program = program.to_str().unwrap();
        let outcome = case.run([
            "--ro",
            program,
            "--env",
            &format!("XDG_STATE_HOME={}", case.work.display()),
            "--",
            program,
            "run",
            "--",
            "true",
        ]);
        outcome.exits(125).tells("user namespaces are refused").tells("doctor");
    });
}
