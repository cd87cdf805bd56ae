//! Who is not let in, and what they learn.

use std::{net::SocketAddr, time::Duration};

use super::{BRISK, Place, client::Client, run};
use crate::http::{CONNECTIONS, Config, HttpError, PACE, bind, token};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;

#[test]
fn only_loopback_can_be_bound() {
    for address in ["0.0.0.0:0", "192.168.1.1:0", "[::]:0", "127.0.0.2:0", "[::ffff:127.0.0.1]:0"] {
        let mut config = Config::new(token::generate().unwrap());
        config.address = address.parse::<SocketAddr>().unwrap();
        let error = bind(&config).unwrap_err();
        assert!(
            matches!(error, HttpError::NotLoopback { .. }) && error.to_string().contains("127.0.0.1"),
            "{error}"
        );
        assert!(!format!("{config:?}").contains(config.token.reveal()));
    }
}

#[test]
fn nobody_gets_in_without_the_token() {
    run(async {
        let place = Place::new();
        let good = format!("Bearer {}", place.token);
        for value in [
            "-",
            "",
            "Bearer",
            "Bearer ",
            "Bearer wrong",
            &good[..good.len() - 1],
            &format!("{good}0"),
            &format!("Basic {}", place.token),
            &good.replace(' ', ""),
        ] {
            let mut client = place.client().await;
            let (head, body) = client.post(&[("authorization", value)], INITIALIZE).await;
            assert_eq!(head.status, 401, "{value}");
            assert!(head.get("www-authenticate").unwrap().starts_with("Bearer "));
            assert_eq!(head.get("connection"), Some("close"));
            assert!(!body.contains(&place.token));
            assert!(client.is_closed().await);
        }
        let mut client = place.client().await;
        client.send("POST", &[("authorization", &good), ("Authorization", "Bearer other")], INITIALIZE).await;
        assert_eq!(client.whole().await.0.status, 401);
        for method in ["GET", "DELETE", "PUT", "OPTIONS", "HEAD"] {
            let mut client = place.client().await;
            client.send(method, &[("authorization", "-")], "").await;
            assert_eq!(client.head().await.status, 401, "{method}");
        }
        assert!(place.proxy.connected.lock().unwrap().is_empty());
        let mut client = place.client().await;
        assert_eq!(
            client.post(&[("authorization", &good.replace("Bearer", "bearer"))], INITIALIZE).await.0.status,
            200
        );
    });
}

#[test]
fn a_name_that_was_made_to_lead_here_is_refused() {
    run(async {
        let place = Place::new();
        let port = place.address.port();
        for (host, status) in [
            (format!("localhost:{port}"), 200),
            (format!("[::1]:{port}"), 200),
            (format!("evil.example:{port}"), 403),
            ("127.0.0.1".to_owned(), 403),
            (format!("127.0.0.1:{}", port ^ 1), 403),
            (String::new(), 403),
            ("-".to_owned(), 400),
        ] {
            let mut client = place.client().await;
            assert_eq!(client.post(&[("host", &host)], INITIALIZE).await.0.status, status, "{host}");
        }
        let mut client = place.client().await;
        let own = place.address.to_string();
        client.send("POST", &[("host", &own), ("Host", "evil.example")], INITIALIZE).await;
        assert_eq!(client.whole().await.0.status, 400);
        let mut client = place.client().await;
        client.send_to(&format!("http://evil.example:{port}/mcp"), "POST", &[], INITIALIZE).await;
        assert_eq!(client.whole().await.0.status, 403);
    });
}

#[test]
fn pages_of_the_web_are_refused_unless_they_are_allowed() {
    run(async {
        let place =
            Place::with(PACE, |config| config.allowed_origins = vec!["https://app.example".parse().unwrap()]);
        for (origin, allowed) in [
            ("https://app.example", true),
            ("http://localhost:3000", true),
            ("http://[::1]:3000", true),
            ("https://app.example:8443", false),
            ("http://app.example", false),
            ("https://evil.example", false),
            ("http://localhost.evil.example", false),
            ("null", false),
            ("", false),
        ] {
            let mut client = place.client().await;
            let (head, _) = client.post(&[("origin", origin)], INITIALIZE).await;
            assert_eq!(head.status, if allowed { 200 } else { 403 }, "{origin}");
            assert_eq!(head.get("access-control-allow-origin"), allowed.then_some(origin));
            assert_eq!(head.get("vary"), Some("Origin"));

            let mut client = place.client().await;
            client
                .send(
                    "OPTIONS",
                    &[("origin", origin), ("authorization", "-"), ("access-control-request-method", "POST")],
                    "",
                )
                .await;
            let (head, _) = client.whole().await;
            assert_eq!(head.status, if allowed { 204 } else { 403 }, "{origin}");
            assert_eq!(head.get("access-control-allow-methods").is_some(), allowed);
        }
        let mut client = place.client().await;
        let (head, _) =
            client.post(&[("origin", "https://app.example"), ("authorization", "-")], INITIALIZE).await;
        assert_eq!(head.status, 401, "an allowed page needs the token, too");
        let mut client = place.client().await;
        let (head, _) = client.post(&[], INITIALIZE).await;
        assert_eq!((head.get("access-control-allow-origin"), head.get("vary")), (None, None));
    });
}

#[test]
fn kinds_and_places_are_checked() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        assert_eq!(client.post(&[("accept", "application/json")], PING).await.0.status, 406);
        let mut client = place.client().await;
        assert_eq!(client.post(&[("content-type", "text/plain")], PING).await.0.status, 415);
        let mut client = place.client().await;
        client.send("GET", &[("accept", "application/json")], "").await;
        assert_eq!(client.whole().await.0.status, 406);
        for (target, method, status) in
            [("/", "POST", 404), ("/mcp/", "POST", 404), ("/mcp", "PUT", 405), ("/mcp", "OPTIONS", 405)]
        {
            let mut client = place.client().await;
            client.send_to(target, method, &[], PING).await;
            assert_eq!(client.whole().await.0.status, status, "{method} {target}");
        }
    });
}

#[test]
fn bodies_are_limited_whether_or_not_they_say_how_long_they_are() {
    run(async {
        let place = Place::with(PACE, |config| config.max_body = 1000);
        let mut client = place.client().await;
        client.send("POST", &[("content-length", "100000000000000")], "").await;
        assert_eq!(client.whole().await.0.status, 413);
        let mut client = place.client().await;
        client.send("POST", &[("content-length", "-"), ("transfer-encoding", "chunked")], "").await;
        client.write(format!("258\r\n{}\r\n258\r\n{}\r\n0\r\n\r\n", " ".repeat(600), " ".repeat(600))).await;
        assert_eq!(client.whole().await.0.status, 413);
        let mut client = place.client().await;
        let fitting = format!("{INITIALIZE}{}", " ".repeat(1000 - INITIALIZE.len()));
        assert_eq!(client.post(&[], &fitting).await.0.status, 200);
        assert_eq!(client.post(&[], &format!("{fitting} ")).await.0.status, 413);
    });
}

#[test]
fn what_is_no_message_is_a_parse_error_or_an_invalid_request() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        for (body, code) in [
            ("", "-32700"),
            ("{", "-32700"),
            ("nonsense", "-32700"),
            ("{}", "-32600"),
            ("7", "-32600"),
            ("[7]", "-32600"),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, "-32600"),
        ] {
            let (head, answer) = client.post(&[], body).await;
            assert!(head.status == 400 && answer.contains(code), "{body}: {answer}");
        }
    });
}

#[test]
fn heads_are_limited_in_size_number_and_time() {
    run(async {
        let place = Place::with(BRISK, |_| {});
        let mut client = place.client().await;
        client.send("POST", &[("x-large", &"x".repeat(200 << 10))], PING).await;
        assert_eq!(client.head().await.status, 431);
        let mut client = place.client().await;
        let names: Vec<String> = (0..80).map(|n| format!("x-{n}")).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
        client.send("POST", &many, PING).await;
        assert_eq!(client.head().await.status, 431);

        // Somebody who sends a byte now and then.
        let mut slow = place.client().await;
        slow.write("POST /mcp HTTP/1.1\r\n").await;
        assert!(tokio::time::timeout(Duration::from_secs(5), slow.is_closed()).await.unwrap());
        let mut silent = place.client().await;
        assert!(tokio::time::timeout(Duration::from_secs(5), silent.is_closed()).await.unwrap());
        let mut body = place.client().await;
        body.send("POST", &[("content-length", "10")], "{").await;
        assert_eq!(body.whole().await.0.status, 408);
    });
}

#[test]
fn garbage_instead_of_http_harms_nobody() {
    run(async {
        let place = Place::new();
        for garbage in [
            &b"\x16\x03\x01\x02\x00\x01\x00"[..],
            b"\0\0\0\0\r\n\r\n",
            b"POST /mcp HTTP/9.9\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"POST mcp HTTP/1.1\r\nhost: \xff\r\n\r\n",
            b"POST * HTTP/1.1\r\nhost: a b\r\n\r\n",
            b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n",
        ] {
            let mut client = place.client().await;
            client.write(garbage).await;
            let _ = tokio::time::timeout(Duration::from_millis(50), client.is_closed()).await;
        }
        let mut client = place.client().await;
        assert_eq!(client.post(&[], INITIALIZE).await.0.status, 200);
    });
}

#[test]
fn there_are_no_more_connections_than_allowed() {
    run(async {
        let place = Place::new();
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS {
            held.push(place.client().await);
        }
        let mut one_more = Client::connect(place.address, &place.token).await;
        assert_eq!(one_more.head().await.status, 503);
        drop(held);
        for round in 0.. {
            let mut client = place.client().await;
            client.send("POST", &[], INITIALIZE).await;
            match client.head().await.status {
                200 => break,
                status => assert!(status == 503 && round < 100),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}
