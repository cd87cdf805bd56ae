//! `lazaret metrics serve`: what it answers, what it refuses, and what it survives.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::{Served, sum, value};
use crate::case::{as_everybody, eventually, ordinary};

#[test]
fn metrics_are_served_and_everything_else_is_refused() {
    as_everybody(|case| {
        case.sh("exit 0").exits(0);
        let served = Served::start(case, &[]);
        assert_eq!(sum(&served.metrics(), "lazaret_sandboxes_created_total"), 1.0);
        case.sh("exit 0").exits(0);
        assert_eq!(sum(&served.metrics(), "lazaret_sandboxes_created_total"), 2.0);

        let answer = served.get("/metrics", "");
        assert!(answer.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{answer}");
        let open = served.get("/metrics", "Accept: application/openmetrics-text;version=1.0.0\r\n");
        assert!(open.contains("Content-Type: application/openmetrics-text; version=1.0.0"), "{open}");
        assert!(open.ends_with("# EOF\n"), "{open}");
        assert!(served.get("/healthz", "").ends_with("\r\n\r\nok\n"));
        for (path, status) in
            [("/", "404"), ("/metrics/", "404"), ("/../etc/passwd", "404"), ("/favicon.ico", "404")]
        {
            assert!(served.get(path, "").starts_with(&format!("HTTP/1.1 {status}")), "{path}");
        }
        let host = format!("Host: {}\r\nConnection: close\r\n", served.address);
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let answer = served.ask(&format!("{method} /metrics HTTP/1.1\r\n{host}\r\n"));
            assert!(answer.starts_with("HTTP/1.1 405") && answer.contains("Allow: GET, HEAD"), "{answer}");
        }
        let head = served.ask(&format!("HEAD /metrics HTTP/1.1\r\n{host}\r\n"));
        assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
        // A page in a browser, whose name has been led to this machine, learns nothing.
        let rebound = served.ask("GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
        assert!(rebound.starts_with("HTTP/1.1 421") && !rebound.contains("lazaret_"), "{rebound}");

        assert_eq!(served.end(Signal::TERM), "");
    });
}

#[test]
fn a_connection_serves_many_requests() {
    let case = ordinary();
    let served = Served::start(&case, &[]);
    let mut stream = served.connect();
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", served.address);
    for _ in 0..3 {
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = [0; 1024];
        let length = stream.read(&mut bytes).unwrap();
        assert!(bytes[..length].ends_with(b"\r\n\r\nok\n"), "{}", String::from_utf8_lossy(&bytes[..length]));
    }
    // Two at once are answered one after the other.
    stream.write_all(request.repeat(2).as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest.matches("200 OK").count(), 2, "{rest}");
    served.end(Signal::INT);
}

#[test]
fn an_address_that_cannot_or_must_not_be_used_is_named_with_what_to_do() {
    as_everybody(|case| {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        case.lazaret(["metrics", "serve", "--listen", &address])
            .go()
            .exits(125)
            .tells(&format!("cannot listen on {address}: the port is in use"))
            .tells("choose another port with --listen 127.0.0.1:PORT");
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9469"] {
            let refused = case.lazaret(["metrics", "serve", "--listen", address]).go();
            refused.exits(125).tells("can be reached by others").tells("--dangerously-listen-anywhere");
        }
        let bad = case.lazaret(["metrics", "serve", "--listen", "somewhere.example:1"]).go();
        bad.exits(125).tells("not ADDRESS:PORT");
    });
}

#[test]
fn slow_and_greedy_clients_do_not_keep_others_out() {
    let case = ordinary();
    let served = Served::start(&case, &[]);
    let began = Instant::now();
    let slow: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = served.connect();
            stream.write_all(b"GET /metrics HT").unwrap();
            stream
        })
        .collect();
    let greedy =
        served.ask(&format!("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: {}\r\n\r\n", "x".repeat(20_000)));
    assert!(greedy.starts_with("HTTP/1.1 431"), "{greedy}");
    let many = served.ask(&format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100)));
    assert!(many.starts_with("HTTP/1.1 431"), "{many}");
    assert!(served.ask("nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    assert!(
        served
            .ask("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\nhello")
            .starts_with("HTTP/1.1 400")
    );
    served.metrics();
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    // One byte a second is not enough.
    let mut dripping = served.connect();
    let mut writing = dripping.try_clone().unwrap();
    thread::spawn(move || {
        for byte in b"GET /metrics HTTP/1.1" {
            if writing.write_all(&[*byte]).is_err() {
                break;
            }
            thread::sleep(Duration::from_millis(500));
        }
    });
    let mut answer = Vec::new();
    // It is told, or what it sends afterwards is not taken any more.
    let _ = dripping.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(began.elapsed() < Duration::from_secs(14), "{:?}", began.elapsed());
    for mut stream in slow {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
    served.end(Signal::TERM);
}

#[test]
fn more_clients_than_places_wait_and_are_served() {
    let case = ordinary();
    let served = Served::start(&case, &[]);
    let idle: Vec<_> = (0..63).map(|_| served.connect()).collect();
    let answers: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = served.connect();
            let request =
                format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", served.address);
            thread::spawn(move || {
                stream.write_all(request.as_bytes()).unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                answer
            })
        })
        .collect();
    for answer in answers {
        assert!(answer.join().unwrap().starts_with("HTTP/1.1 200"));
    }
    drop(idle);
    served.end(Signal::TERM);
}

#[test]
fn the_log_may_come_later_be_broken_set_aside_and_cut_off() {
    as_everybody(|case| {
        let served = Served::start(case, &[]);
        let created = || sum(&served.metrics(), "lazaret_sandboxes_created_total");
        assert_eq!(created(), 0.0);
        case.sh("exit 0").exits(0);
        assert_eq!(created(), 1.0);
        // Broken lines are counted, and what follows them is read.
        let log = case.log();
        let good = fs::read_to_string(&log).unwrap();
        let mut broken = good.clone();
        broken.push_str("{\"seq\":\nnonsense\n");
        broken.push_str(&"x".repeat(100_000));
        broken.push('\n');
        fs::write(&log, broken).unwrap();
        assert_eq!(value(&served.metrics(), "lazaret_audit_bad_lines_total"), 3.0);
        // Cut back to what it was: nothing is counted twice, and what comes next is.
        fs::write(&log, &good).unwrap();
        assert_eq!(created(), 1.0);
        case.sh("exit 0").exits(0);
        assert_eq!(created(), 2.0);
        // Emptied, with its head.
        fs::write(&log, "").unwrap();
        assert_eq!(created(), 2.0);
        thread::sleep(Duration::from_millis(5));
        case.sh("exit 0").exits(0);
        assert_eq!(created(), 3.0);
        // Gone, and made anew.
        fs::remove_file(&log).unwrap();
        assert_eq!(created(), 3.0);
        case.sh("exit 0").exits(0);
        eventually("the new one is read", || created() == 4.0);
        // Set aside with more in it than was read, and gone on with in a new file.
        case.sh("exit 0").exits(0);
        fs::rename(&log, log.with_extension("jsonl.000000000001")).unwrap();
        case.sh("exit 0").exits(0);
        eventually("both are read", || created() == 6.0);
        // Something that is no log.
        fs::remove_file(&log).unwrap();
        fs::create_dir(&log).unwrap();
        assert_eq!(value(&served.metrics(), "lazaret_audit_readable"), 0.0);
        assert!(served.get("/healthz", "").starts_with("HTTP/1.1 503"));
        fs::remove_dir(&log).unwrap();
        assert_eq!(value(&served.metrics(), "lazaret_audit_readable"), 1.0);
        let told = served.end(Signal::TERM);
        assert!(told.contains("cannot open the audit log"), "{told}");
    });
}
