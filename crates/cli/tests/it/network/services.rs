//! A database and a remote shell: protocols in which the server may speak first, and that are no HTTP.

use std::{fs, net::TcpStream, path::Path};

use serde_json::json;

use super::{
    assert_refused, clients::try_client, connections, free_port, run, servers::Program, without_variables,
};
use crate::{
    case::{Case, PATH, Who, as_everybody, eventually, has_tool, is_root},
    host::outside,
};

/// The user and group of a name in /etc/passwd.
fn ids(name: &str) -> Option<(u32, u32)> {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let line = text.lines().find(|line| line.split(':').next() == Some(name))?.to_owned();
    let mut fields = line.split(':').skip(2).map(|field| field.parse().ok());
    Some((fields.next()??, fields.next()??))
}

fn name_of(uid: u32) -> Option<String> {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = lines.find(|fields| fields.get(2) == Some(&uid.to_string().as_str()))?;
    Some(found[0].to_owned())
}

fn answers(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// Debian keeps the server's programs off the path.
fn postgres_programs() -> Option<String> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let directories = versions.map(|version| version.path().join("bin"));
    let found = directories.chain(PATH.split(':').map(Into::into)).find(|path| path.join("initdb").is_file());
    found.map(|path| path.to_str().unwrap().to_owned())
}

/// A database that trusts everybody. It does not run as root.
fn database() -> Option<(Case, Program, u16)> {
    let programs = postgres_programs();
    let user = if is_root() { ids("postgres") } else { Some((Who::Caller.uid(), 0)) };
    let (Some(programs), Some(user)) = (programs, user) else {
        crate::case::not_run("needs postgresql");
        return None;
    };
    let case = Case::new(Who::Caller);
    let as_uid = is_root().then_some(user);
    if let Some((uid, gid)) = as_uid {
        std::os::unix::fs::chown(&case.work, Some(uid), Some(gid)).unwrap();
    }
    let data = case.work.join("data");
    let become_it = as_uid
        .map_or_else(String::new, |(uid, gid)| format!("setpriv --reuid={uid} --regid={gid} --clear-groups"));
    outside(
        &case,
        &format!(
            "{become_it} {programs}/initdb -D {} -A trust -U postgres -E UTF8 --locale=C --no-sync >&2",
            data.display()
        ),
    );
    let port = free_port();
    let number = port.to_string();
    let postgres = format!("{programs}/postgres");
    let command = [
        &postgres,
        "-D",
        data.to_str().unwrap(),
        "-p",
        &number,
        "-c",
        "listen_addresses=127.0.0.1",
        "-c",
        "unix_socket_directories=",
        "-c",
        "fsync=off",
    ];
    let program = Program::start(&command, as_uid, &case.work);
    eventually("the database answers", || answers(port));
    Some((case, program, port))
}

#[test]
fn psql_reaches_a_database_by_its_name_and_on_localhost() {
    if !has_tool("psql") {
        return;
    }
    let Some((_case, _program, port)) = database() else { return };
    let number = port.to_string();
    let psql = |host: &'static str| {
        let words = ["psql", "-X", "-w", "-h", host, "-p", &number, "-U", "postgres", "-Atc", "select 6 * 7"];
        words.map(str::to_owned)
    };
    as_everybody(|case| {
        let by_name = psql("web.test");
        try_client(case, port, &by_name.each_ref().map(String::as_str), "42");
        for host in ["localhost", "127.0.0.1"] {
            let command = psql(host);
            let command = command.each_ref().map(String::as_str);
            for entry in [format!("{host}:{port}"), format!("localhost:{port}")] {
                let flags = without_variables(case, &[&entry]);
                run(case, &flags, &command).exits(0).prints("42").tells_nothing();
            }
            let other = without_variables(case, &["localhost:1", "127.0.0.1:1"]);
            let outcome = run(case, &other, &command);
            assert_ne!(outcome.code(), 0, "{outcome:?}");
            assert!(outcome.stderr.contains("refused"), "{outcome:?}");
        }
        assert!(!connections(case, "127.0.0.1").is_empty());
    });
}

/// Everything that `sshd` needs, in a directory; whoever logs in gets one sentence.
fn remote_shell() -> (Case, Program, u16) {
    let case = Case::new(Who::Caller);
    outside(&case, "ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f key");
    let port = free_port();
    let directory = case.work.display();
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\nAuthorizedKeysFile {directory}/key.pub\n\
         PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\n\
         ForceCommand echo reached\nMaxStartups 100\n"
    );
    let config = case.file("config", config);
    if is_root() {
        fs::create_dir_all("/run/sshd").unwrap();
    }
    let command = ["/usr/sbin/sshd", "-D", "-e", "-f", config.to_str().unwrap()];
    let program = Program::start(&command, None, &case.work);
    eventually("sshd answers", || answers(port));
    (case, program, port)
}

#[test]
fn ssh_reaches_a_listed_host() {
    if !has_tool("ssh") || !has_tool("sshd") || !has_tool("ssh-keyscan") {
        return;
    }
    let (server, _program, port) = remote_shell();
    let number = port.to_string();
    let login = name_of(Who::Caller.uid()).expect("whoever runs the tests has a name");
    let host_key = fs::read_to_string(server.work.join("host.pub")).unwrap();
    let mut fields = host_key.split_whitespace();
    let key = format!("{} {}", fields.next().unwrap(), fields.next().unwrap());
    as_everybody(|case| {
        case.file("known", format!("[web.test]:{port} {key}\n"));
        let private = case.file("key", fs::read(server.work.join("key")).unwrap());
        fs::set_permissions(&private, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let inside = run(case, &[], &["id", "-u"]).out().parse().unwrap();
        if name_of(inside).is_some() {
            let command = [
                "ssh",
                "-F",
                "none",
                "-T",
                "-p",
                &number,
                "-i",
                "key",
                "-l",
                &login,
                "-o",
                "BatchMode=yes",
                "-o",
                "ConnectTimeout=8",
                "-o",
                "UserKnownHostsFile=known",
                "-o",
                "StrictHostKeyChecking=yes",
                "web.test",
            ];
            try_client(case, port, &command, "reached");
        } else {
            // Without a name of its own ssh goes nowhere, but its companion does.
            eprintln!("uid {inside} has no name: ssh-keyscan instead of ssh");
            let command =
                format!("ssh-keyscan -t ed25519 -p {number} web.test 2>&1 | grep -o 'ssh-ed25519 .*'");
            try_client(case, port, &["sh", "-c", &command], &key);
        }
    });
    assert!(Path::new("/usr/sbin/sshd").exists());
}

#[test]
fn a_service_of_the_host_is_not_reached_by_its_raw_address_unless_that_is_listed() {
    as_everybody(|case| {
        let server = super::servers::Server::echo();
        let script = format!(
            "import socket\ns = socket.create_connection(('127.0.0.2', {}), 3)\ns.sendall(b'x')\nprint(s.recv(1).decode())",
            server.port
        );
        // Inside, every loopback address is the sandbox's own, until one is listed.
        let outcome = super::python(case, &without_variables(case, &["web.test:80"]), &script);
        assert_ne!(outcome.code(), 0, "{outcome:?}");
        assert_eq!(server.accepted(), 0);
        let script = script.replace("127.0.0.2", "10.9.8.7");
        let outcome = super::python(case, &without_variables(case, &["web.test:80"]), &script);
        assert_ne!(outcome.code(), 0, "{outcome:?}");
        assert_refused(case, &[("address", json!("10.9.8.7")), ("port", json!(server.port))]);
    });
}
