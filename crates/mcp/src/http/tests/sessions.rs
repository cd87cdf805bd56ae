//! Clients that begin with `initialize`.

use std::time::Duration;

use serde_json::{Value, json};

use super::{BRISK, Place, client::Client, proxy::notify, run, until};
use crate::{
    http::{Generation, PACE},
    link::About,
};

fn initialize(version: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } }).to_string()
}

fn call(id: u32, tool: &str, arguments: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": arguments, "_meta": { "progressToken": 7 } } }).to_string()
}

async fn begin(client: &mut Client, version: &str) -> String {
    let (head, body) = client.post(&[], &initialize(version)).await;
    assert_eq!(head.status, 200, "{body}");
    assert_eq!(head.get("content-type"), Some("application/json"));
    let session = head.get("mcp-session-id").unwrap().to_owned();
    assert_eq!(uuid::Uuid::parse_str(&session).unwrap().get_version_num(), 4);
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let (head, body) =
        client.post(&[("mcp-session-id", &session), ("mcp-protocol-version", version)], initialized).await;
    assert_eq!((head.status, body.as_str()), (202, ""));
    session
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_response_that_comes_alone_is_json_and_nothing_is_changed() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        let session = begin(&mut client, "2025-11-25").await;
        let body = "{\n \"jsonrpc\":\"2.0\", \"id\": \"x\\u0031\",\r\n\"method\":\"tools/call\",\"unknown\":1e2,\"params\":{\"name\":\"echo\",\"arguments\":{\"a\":1.0}}}";
        let (head, answer) = client.post(&[("mcp-session-id", &session)], body).await;
        assert_eq!((head.status, head.get("content-type")), (200, Some("application/json")));
        assert_eq!(answer, r#"{"jsonrpc":"2.0","id":"x\u0031","result":{"a":1.0}}"#);
        assert!(
            place.proxy.heard(&body.replace(['\r', '\n'], " ")),
            "line breaks apart, the proxy gets what was posted"
        );
        assert_eq!(*place.proxy.connected.lock().unwrap(), [Generation::Handshake]);
    });
}

#[test]
fn progress_and_a_response_are_a_stream_of_events_with_ids() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        let session = begin(&mut client, "2025-11-25").await;
        client.send("POST", &[("mcp-session-id", &session)], &call(5, "steps", json!({}))).await;
        let head = client.head().await;
        assert_eq!((head.status, head.get("content-type")), (200, Some("text/event-stream")));
        let priming = client.event().await.unwrap();
        assert_eq!(priming.data.as_deref(), Some(""));
        assert!(priming.id.is_some(), "the first event lets the client come back");
        let mut ids = vec![priming.id];
        for step in 1..=3 {
            let event = client.event().await.unwrap();
            assert_eq!(event.json()["params"], json!({ "progressToken": 7, "progress": step }));
            ids.push(event.id);
        }
        let last = client.event().await.unwrap();
        assert_eq!(
            (last.json()["id"].clone(), last.json()["result"].clone()),
            (json!(5), json!({ "steps": 3 }))
        );
        assert_eq!(client.event().await, None, "the stream ends with the response");
        ids.push(last.id);
        ids.dedup();
        assert_eq!(ids.len(), 5);
        // The connection goes on.
        let (head, _) = client.post(&[("mcp-session-id", &session)], &call(6, "echo", json!(1))).await;
        assert_eq!(head.status, 200);
    });
}

#[test]
fn older_clients_get_no_event_without_data() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        let session = begin(&mut client, "2025-06-18").await;
        client.send("POST", &[("mcp-session-id", &session)], &call(5, "steps", json!({}))).await;
        client.head().await;
        while let Some(event) = client.event().await {
            assert!(event.comment.is_some() || event.data.is_some_and(|data| !data.is_empty()));
        }
    });
}

#[test]
fn a_question_during_a_call_comes_on_its_stream_and_is_answered_by_another_post() {
    run(async {
        let place = Place::new();
        let (mut client, mut other) = (place.client().await, place.client().await);
        let session = begin(&mut client, "2025-06-18").await;
        client.send("POST", &[("mcp-session-id", &session)], &call(5, "ask", json!({}))).await;
        client.head().await;
        assert_eq!(client.message().await.unwrap().json()["method"], "sampling/createMessage");
        let (head, _) =
            other.post(&[("mcp-session-id", &session)], r#"{"jsonrpc":"2.0","id":"q","result":{}}"#).await;
        assert_eq!(head.status, 202);
        assert_eq!(client.message().await.unwrap().json()["result"], json!({ "answered": true }));
        assert_eq!(client.message().await, None);
    });
}

#[test]
fn what_belongs_to_no_request_comes_on_the_stream_of_the_session_even_if_it_was_early() {
    run(async {
        let place = Place::new();
        let (mut client, mut listener) = (place.client().await, place.client().await);
        let session = begin(&mut client, "2025-06-18").await;
        let poke = |n: u32| format!(r#"{{"jsonrpc":"2.0","method":"poke","params":{{"n":{n}}}}}"#);
        client.post(&[("mcp-session-id", &session)], &poke(1)).await;
        listener.send("GET", &[("mcp-session-id", &session), ("accept", "text/event-stream")], "").await;
        assert_eq!(listener.head().await.status, 200);
        assert_eq!(listener.message().await.unwrap().json()["params"]["n"], 1);
        client.post(&[("mcp-session-id", &session)], &poke(2)).await;
        let second = listener.message().await.unwrap();
        assert_eq!(second.json()["params"]["n"], 2);

        // A session has one such stream.
        let mut third = place.client().await;
        third.send("GET", &[("mcp-session-id", &session)], "").await;
        assert_eq!(third.whole().await.0.status, 409);

        // It is free when the connection is gone, and goes on after the last event that was seen.
        drop(listener);
        client.post(&[("mcp-session-id", &session)], &poke(3)).await;
        let id = second.id.unwrap();
        let mut back = place.client().await;
        back.send("GET", &[("mcp-session-id", &session), ("last-event-id", &id)], "").await;
        assert_eq!(back.head().await.status, 200);
        assert_eq!(back.message().await.unwrap().json()["params"]["n"], 3);
    });
}

#[test]
fn a_client_that_loses_the_connection_comes_back_for_the_rest() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        let session = begin(&mut client, "2025-11-25").await;
        client.send("POST", &[("mcp-session-id", &session)], &call(9, "begin", json!({ "ms": 150 }))).await;
        client.head().await;
        let first = client.message().await.unwrap();
        assert_eq!(first.json()["params"]["progress"], 1);
        drop(client);
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!place.proxy.heard("notifications/cancelled"), "leaving is not cancelling");
        for _ in 0..2 {
            let mut back = place.client().await;
            let id = first.id.clone().unwrap();
            back.send("GET", &[("mcp-session-id", &session), ("last-event-id", &id)], "").await;
            assert_eq!(back.head().await.status, 200);
            assert_eq!(back.message().await.unwrap().json()["params"]["progress"], 2);
            assert_eq!(back.message().await.unwrap().json()["result"], json!({ "late": true }));
            assert_eq!(back.message().await, None);
        }
    });
}

#[test]
fn coming_back_while_the_call_runs_takes_the_stream_over() {
    run(async {
        let place = Place::new();
        let (mut client, mut back) = (place.client().await, place.client().await);
        let session = begin(&mut client, "2025-11-25").await;
        client.send("POST", &[("mcp-session-id", &session)], &call(9, "begin", json!({ "ms": 300 }))).await;
        client.head().await;
        let first = client.message().await.unwrap();
        let id = first.id.unwrap();
        back.send("GET", &[("mcp-session-id", &session), ("last-event-id", &id)], "").await;
        assert_eq!(back.head().await.status, 200);
        assert_eq!(client.message().await, None, "the old connection's stream ends");
        assert_eq!(back.message().await.unwrap().json()["params"]["progress"], 2);
        assert_eq!(back.message().await.unwrap().json()["result"], json!({ "late": true }));
    });
}

#[test]
fn places_that_were_never_given_out_are_not_known() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        let session = begin(&mut client, "2025-11-25").await;
        for id in ["", "x", "1", "99-1", "0-99999", "0-18446744073709551615", "-1-1", "0-+1", "00-0", "0-1-1"]
        {
            client.send("GET", &[("mcp-session-id", &session), ("last-event-id", id)], "").await;
            assert_eq!(client.whole().await.0.status, 400, "{id}");
        }
    });
}

#[test]
fn a_silent_call_becomes_a_stream_that_is_kept_alive() {
    run(async {
        let place = Place::with(BRISK, |_| {});
        let mut client = place.client().await;
        let session = begin(&mut client, "2025-06-18").await;
        client.send("POST", &[("mcp-session-id", &session)], &call(5, "slow", json!({ "ms": 900 }))).await;
        let head = client.head().await;
        assert_eq!(head.get("content-type"), Some("text/event-stream"));
        let mut alive = 0;
        loop {
            let event = client.event().await.unwrap();
            match event.data {
                None => alive += 1,
                Some(_) => break assert_eq!(event.json()["result"], json!({ "slow": 900 })),
            }
        }
        assert!(alive >= 3, "{alive}");
    });
}

#[test]
fn batches_are_for_the_version_that_had_them() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        let old = begin(&mut client, "2025-03-26").await;
        let new = begin(&mut client, "2025-06-18").await;
        let batch = format!(
            r#"[{},{},{{"jsonrpc":"2.0","method":"noted"}}]"#,
            call(1, "echo", json!("a")),
            call(2, "slow", json!({ "ms": 50 }))
        );
        let (head, body) = client.post(&[("mcp-session-id", &new)], &batch).await;
        assert_eq!((head.status, json_of(&body)["error"]["code"].clone()), (400, json!(-32600)));
        client.send("POST", &[("mcp-session-id", &old)], &batch).await;
        assert_eq!(client.head().await.get("content-type"), Some("text/event-stream"));
        let mut ids = [
            client.message().await.unwrap().json()["id"].clone(),
            client.message().await.unwrap().json()["id"].clone(),
        ];
        ids.sort_by_key(Value::to_string);
        assert_eq!(ids, [json!(1), json!(2)]);
        assert_eq!(client.message().await, None);
        assert!(place.proxy.heard("noted"));
        let (head, _) =
            client.post(&[("mcp-session-id", &old)], r#"[{"jsonrpc":"2.0","method":"noted"}]"#).await;
        assert_eq!(head.status, 202);
        for bad in [
            format!("[{},{}]", call(1, "echo", json!(1)), call(1, "echo", json!(2))),
            format!("[{}]", initialize("2025-03-26")),
            "[]".to_owned(),
            "[1]".to_owned(),
        ] {
            assert_eq!(client.post(&[("mcp-session-id", &old)], &bad).await.0.status, 400, "{bad}");
        }
    });
}

#[test]
fn an_id_that_is_under_way_cannot_be_used_again() {
    run(async {
        let place = Place::new();
        let (mut client, mut other) = (place.client().await, place.client().await);
        let session = begin(&mut client, "2025-11-25").await;
        client.send("POST", &[("mcp-session-id", &session)], &call(5, "slow", json!({ "ms": 200 }))).await;
        until(|| place.proxy.heard("slow")).await;
        let (head, body) = other.post(&[("mcp-session-id", &session)], &call(5, "echo", json!(1))).await;
        assert_eq!((head.status, json_of(&body)["id"].clone()), (400, json!(5)));
        assert_eq!(json_of(&client.whole().await.1)["result"], json!({ "slow": 200 }));
        assert_eq!(
            other.post(&[("mcp-session-id", &session)], &call(5, "echo", json!(1))).await.0.status,
            200
        );
    });
}

#[test]
fn sessions_are_apart_and_end_with_delete() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        let (one, two) = (begin(&mut client, "2025-11-25").await, begin(&mut client, "2025-11-25").await);
        assert_ne!(one, two);
        let mut listener = place.client().await;
        listener.send("GET", &[("mcp-session-id", &one)], "").await;
        listener.head().await;
        client.send("DELETE", &[("mcp-session-id", &one)], "").await;
        assert_eq!(client.whole().await.0.status, 200);
        assert_eq!(listener.message().await, None, "its stream ends");
        until(|| place.proxy.ended() == 1).await;
        for method in ["POST", "GET", "DELETE"] {
            client.send(method, &[("mcp-session-id", &one)], &call(1, "echo", json!(1))).await;
            assert_eq!(client.whole().await.0.status, 404, "{method}");
        }
        assert_eq!(client.post(&[("mcp-session-id", &two)], &call(1, "echo", json!(1))).await.0.status, 200);
    });
}

#[test]
fn a_session_must_be_named_once_and_exist() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        let session = begin(&mut client, "2025-11-25").await;
        let unknown = uuid::Builder::from_random_bytes([7; 16]).into_uuid().to_string();
        for (headers, status) in [
            (&[][..], 400),
            (&[("mcp-session-id", unknown.as_str())], 404),
            (&[("mcp-session-id", "")], 404),
            (&[("mcp-session-id", &session), ("mcp-session-id", &unknown)], 400),
            (&[("mcp-session-id", &session), ("mcp-protocol-version", "1999-01-01")], 400),
            (&[("mcp-session-id", &session), ("mcp-protocol-version", "2025-03-26")], 200),
        ] {
            assert_eq!(
                client.post(headers, &call(1, "echo", json!(1))).await.0.status,
                status,
                "{headers:?}"
            );
        }
        let (head, _) = client.post(&[("mcp-session-id", &session)], &initialize("2025-11-25")).await;
        assert_eq!(head.status, 400, "a session begins once");
    });
}

#[test]
fn a_failed_initialize_leaves_no_session() {
    run(async {
        let place = Place::with(PACE, |config| config.max_sessions = 1);
        let mut client = place.client().await;
        let failing = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"fail":true}}"#;
        for round in 1..=3 {
            let (head, body) = client.post(&[], failing).await;
            assert_eq!((head.status, head.get("mcp-session-id")), (200, None));
            assert_eq!(json_of(&body)["error"]["code"], -32602);
            until(|| place.proxy.ended() == round).await;
        }
        begin(&mut client, "2025-11-25").await;
        let (head, body) = client.post(&[], &initialize("2025-11-25")).await;
        assert_eq!((head.status, head.get("retry-after")), (429, Some("30")));
        assert_eq!(json_of(&body)["id"], 0);
    });
}

#[test]
fn a_session_that_nobody_uses_ends_but_not_one_that_listens() {
    run(async {
        let place = Place::with(PACE, |config| config.idle = Duration::from_millis(200));
        let (mut client, mut listener) = (place.client().await, place.client().await);
        let (idle, busy) = (begin(&mut client, "2025-11-25").await, begin(&mut client, "2025-11-25").await);
        listener.send("GET", &[("mcp-session-id", &busy)], "").await;
        listener.head().await;
        until(|| place.proxy.ended() == 1).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(client.post(&[("mcp-session-id", &idle)], &call(1, "echo", json!(1))).await.0.status, 404);
        assert_eq!(client.post(&[("mcp-session-id", &busy)], &call(1, "echo", json!(1))).await.0.status, 200);
        drop(listener);
        until(|| place.proxy.ended() == 2).await;
    });
}

#[test]
fn a_proxy_that_ends_ends_the_session() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        let session = begin(&mut client, "2025-11-25").await;
        place.proxy.mouths.lock().unwrap().clear();
        let (head, body) =
            client.post(&[("mcp-session-id", &session)], r#"{"jsonrpc":"2.0","id":1,"method":"quit"}"#).await;
        assert_eq!((head.status, json_of(&body)["id"].clone()), (502, json!(1)));
        let (head, _) = client.post(&[("mcp-session-id", &session)], &call(2, "echo", json!(1))).await;
        assert_eq!(head.status, 404);
    });
}

#[test]
fn a_large_response_arrives_whole() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        let session = begin(&mut client, "2025-11-25").await;
        let (head, body) =
            client.post(&[("mcp-session-id", &session)], &call(1, "large", json!({ "pieces": 320 }))).await;
        assert_eq!(head.status, 200);
        assert_eq!(json_of(&body)["result"].as_str().unwrap().len(), 320 * (64 << 10));
        assert_eq!(json_of(&body)["id"], 1);
    });
}

#[test]
fn a_client_that_reads_slowly_gets_everything_and_holds_the_proxy_back() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        let session = begin(&mut client, "2025-06-18").await;
        client
            .send("POST", &[("mcp-session-id", &session)], &call(1, "flood", json!({ "count": 2000 })))
            .await;
        client.head().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        for step in 0..2000 {
            assert_eq!(client.message().await.unwrap().json()["params"]["step"], step);
        }
        assert_eq!(client.message().await.unwrap().json()["result"], json!({ "flooded": true }));
    });
}

#[test]
fn a_message_with_line_breaks_is_one_event() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        let session = begin(&mut client, "2025-06-18").await;
        client.send("POST", &[("mcp-session-id", &session)], &call(1, "forge", json!({}))).await;
        client.head().await;
        client.message().await.unwrap();
        let last = client.message().await.unwrap();
        assert_eq!(last.json(), json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
        assert_eq!(client.message().await, None);
    });
}

#[test]
fn what_nobody_reads_is_kept_within_bounds_and_the_newest_stays() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        let session = begin(&mut client, "2025-06-18").await;
        let mouth = place.proxy.mouths.lock().unwrap()[0].clone();
        for n in 0..3000 {
            notify(&mouth, About::Nothing, "notifications/n", json!({ "n": n })).await;
        }
        notify(
            &mouth,
            About::Request(bytes::Bytes::from_static(b"404")),
            "notifications/n",
            json!({ "n": "of a request that is over" }),
        )
        .await;
        let mut listener = place.client().await;
        listener.send("GET", &[("mcp-session-id", &session)], "").await;
        listener.head().await;
        let first = listener.message().await.unwrap().json()["params"]["n"].as_u64().unwrap();
        assert!((1900..2000).contains(&first), "{first}");
        for n in first + 1..3000 {
            assert_eq!(listener.message().await.unwrap().json()["params"]["n"], n);
        }
        assert_eq!(listener.message().await.unwrap().json()["params"]["n"], "of a request that is over");
    });
}

#[test]
fn shutting_down_ends_streams_and_proxies() {
    run(async {
        let mut place = Place::new();
        let (mut client, mut waiting) = (place.client().await, place.client().await);
        let session = begin(&mut client, "2025-11-25").await;
        let mut listener = place.client().await;
        listener.send("GET", &[("mcp-session-id", &session)], "").await;
        listener.head().await;
        waiting.send("POST", &[("mcp-session-id", &session)], &call(1, "never", json!(1))).await;
        until(|| place.proxy.heard("never")).await;
        drop(place.stop.take());
        assert_eq!(listener.message().await, None);
        assert_eq!(waiting.whole().await.0.status, 502);
        place.served.await.unwrap().unwrap();
        until(|| *place.proxy.ended.lock().unwrap() == 1).await;
    });
}
