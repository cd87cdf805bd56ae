//! What is told of the network: the audit log, the report, the summary.

use std::fs;

use serde_json::{Value, json};

use super::{connections, free_port, listed, python, servers::Server};
use crate::case::as_everybody;

#[test]
fn a_connection_is_recorded_with_everything_about_it() {
    as_everybody(|case| {
        let server = Server::echo();
        let port = server.port;
        let script = format!(
            "import socket, time\ns = socket.create_connection(('web.test', {port}), 5)\ns.sendall(b'hello\\n')\n\
             assert s.recv(9) == b'hello\\n'\ntime.sleep(0.2)"
        );
        python(case, &listed("web.test", port), &script).exits(0).tells_nothing();
        let found = connections(case, "web.test");
        assert_eq!(found.len(), 1, "{found:#?}");
        let one = &found[0];
        for (key, value) in [
            ("decision", json!("allowed")),
            ("direction", json!("outbound")),
            ("protocol", json!("tcp")),
            ("port", json!(port)),
            ("address", json!("127.0.0.1")),
            ("way", json!("transparent")),
            ("rule", json!(format!("allowedHosts: web.test:{port}"))),
            ("sentBytes", json!(6)),
            ("receivedBytes", json!(6)),
            ("process", json!("python3")),
            ("failure", Value::Null),
        ] {
            assert_eq!(one[key], value, "{key} in {one}");
        }
        let took = one["durationMs"].as_f64().unwrap();
        assert!((200.0..5000.0).contains(&took), "{one}");
        assert!(one["pid"].as_i64().unwrap() > 0, "{one}");
        let queries = case.events_of("DNS_QUERY");
        assert!(queries.iter().all(|query| query["details"]["name"] == "web.test"), "{queries:#?}");
        assert!(!queries.is_empty());
    });
}

#[test]
fn the_report_counts_by_host() {
    as_everybody(|case| {
        let server = Server::echo();
        let (port, dead) = (server.port, free_port());
        let mut flags = listed("web.test", port);
        flags.extend(listed("other.test", dead));
        let report = case.root.join("report.json");
        flags.extend(["--report".to_owned(), report.to_str().unwrap().to_owned()]);
        let script = format!(
            "
import socket
for _ in range(3):
    s = socket.create_connection(('web.test', {port}), 5)
    s.sendall(b'hello\\n')
    assert s.recv(9) == b'hello\\n'
    s.close()
for host, port in (('other.test', {dead}), ('web.test', 1), ('web.test', 1), ('10.0.0.1', 80)):
    try: socket.create_connection((host, port), 5)
    except OSError: pass
try: socket.getaddrinfo('nowhere.test', 80)
except OSError: pass"
        );
        python(case, &flags, &script).exits(0);
        let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
        let network = &report["network"];
        assert_eq!(network["connections"], json!(4 + u64::from(network["connections"] == 5)), "{network}");
        assert_eq!(network["sentBytes"], json!(18), "{network}");
        assert_eq!(network["receivedBytes"], json!(18), "{network}");
        assert!(network["failed"].as_u64().unwrap() >= 1, "{network}");
        assert!(network["denied"].as_u64().unwrap() >= 4, "{network}");
        assert!(network["queries"].as_u64().unwrap() >= 3, "{network}");
        let host = |name: &str, port: u16| {
            let all = network["hosts"].as_array().unwrap().iter();
            all.clone()
                .find(|host| host["host"] == name && host["port"] == port)
                .unwrap_or(&Value::Null)
                .clone()
        };
        let web = host("web.test", port);
        assert_eq!((&web["connections"], &web["sentBytes"]), (&json!(3), &json!(18)), "{network}");
        assert!(host("web.test", 1)["denied"].as_u64().unwrap() >= 2, "{network}");
        assert_eq!(host("10.0.0.1", 80)["denied"], json!(1), "{network}");
        assert!(host("other.test", dead)["connections"].as_u64().unwrap() >= 1, "{network}");
        let violations = report["violations"].as_array().unwrap();
        assert!(violations.iter().any(|one| one["host"] == "nowhere.test"), "{violations:#?}");
        let exited = &case.events_of("SANDBOX_EXITED")[0]["details"]["network"];
        assert_eq!(exited, network);
    });
}

#[test]
fn the_record_of_the_network_is_part_of_the_chain() {
    as_everybody(|case| {
        let server = Server::echo();
        let script = format!(
            "
import socket, threading
def one():
    s = socket.create_connection(('web.test', {}), 5)
    s.sendall(b'hello\\n')
    s.recv(9)
threads = [threading.Thread(target=one) for _ in range(50)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for port in range(1, 60): socket.socket().connect_ex(('10.0.0.1', port))",
            server.port
        );
        python(case, &listed("web.test", server.port), &script).exits(0);
        assert_eq!(connections(case, "web.test").len(), 50);
        case.lazaret(["audit", "verify"]).go().exits(0);
        let text = fs::read_to_string(case.log()).unwrap();
        fs::write(case.log(), text.replacen("\"sentBytes\":6", "\"sentBytes\":7", 1)).unwrap();
        case.lazaret(["audit", "verify"]).go().exits(1);
    });
}

#[test]
fn a_run_without_any_network_says_nothing_of_it() {
    as_everybody(|case| {
        let report = case.root.join("report.json");
        case.run(["--report", report.to_str().unwrap(), "--allow", "web.test", "--", "true"])
            .exits(0)
            .tells_nothing();
        let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
        assert_eq!(report["network"], Value::Null, "{report}");
        assert!(case.events_of("NETWORK_CONNECTION").is_empty());
    });
}
