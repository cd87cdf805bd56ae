//! Clients of 2026-07-28, whose requests stand for themselves.

use std::time::Duration;

use serde_json::{Value, json};

use super::{BRISK, Place, client::Client, run, until};
use crate::http::Generation;

const VERSION: &str = "2026-07-28";

fn request(id: Value, method: &str, mut params: Value) -> String {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(VERSION);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn call(id: Value, tool: &str, arguments: Value) -> String {
    request(
        id,
        "tools/call",
        json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": 7 } }),
    )
}

fn headers<'a>(method: &'a str, name: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![("mcp-protocol-version", VERSION), ("mcp-method", method), ("mcp-name", name)]
}

async fn send_call(client: &mut Client, id: Value, tool: &str, arguments: Value) {
    client.send("POST", &headers("tools/call", tool), &call(id, tool, arguments)).await;
}

#[test]
fn clients_share_a_proxy_and_their_ids_do_not_collide() {
    run(async {
        let place = Place::new();
        let mut clients = Vec::new();
        for n in 0..4 {
            let mut client = place.client().await;
            send_call(&mut client, json!(1), "slow", json!({ "ms": 400 - 100 * n })).await;
            clients.push((n, client));
        }
        for (n, mut client) in clients {
            let (head, body) = client.whole().await;
            assert_eq!((head.status, head.get("mcp-session-id")), (200, None));
            assert_eq!(
                serde_json::from_str::<Value>(&body).unwrap(),
                json!({ "jsonrpc": "2.0", "id": 1, "result": { "slow": 400 - 100 * n } })
            );
        }
        assert_eq!(*place.proxy.connected.lock().unwrap(), [Generation::Stateless]);
    });
}

#[test]
fn progress_comes_with_the_clients_own_token_and_events_have_no_ids() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        send_call(&mut client, json!("a"), "steps", json!({})).await;
        assert_eq!(client.head().await.get("content-type"), Some("text/event-stream"));
        for step in 1..=3 {
            let event = client.message().await.unwrap();
            assert_eq!(
                (event.json()["params"].clone(), event.id),
                (json!({ "progressToken": 7, "progress": step }), None)
            );
        }
        let last = client.message().await.unwrap();
        assert_eq!((last.json()["id"].clone(), last.id), (json!("a"), None));
        assert_eq!(client.message().await, None);
    });
}

#[test]
fn leaving_is_cancelling_before_the_first_message_and_after() {
    run(async {
        let place = Place::with(BRISK, |_| {});
        for wait in [Duration::ZERO, Duration::from_millis(600)] {
            place.proxy.heard.lock().unwrap().clear();
            let mut client = place.client().await;
            send_call(&mut client, json!("mine"), "never", json!({})).await;
            until(|| place.proxy.heard("never")).await;
            tokio::time::sleep(wait).await;
            assert!(!place.proxy.heard("cancelled"));
            drop(client);
            until(|| place.proxy.heard("notifications/cancelled")).await;
            let heard = place.proxy.heard.lock().unwrap().clone();
            let sent: Value = serde_json::from_str(&heard[0]).unwrap();
            let cancelled: Value = serde_json::from_str(&heard[1]).unwrap();
            assert_eq!(sent["id"], cancelled["params"]["requestId"]);
        }
        // What was answered is not cancelled.
        place.proxy.heard.lock().unwrap().clear();
        let mut client = place.client().await;
        send_call(&mut client, json!(1), "echo", json!({})).await;
        client.whole().await;
        drop(client);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!place.proxy.heard("cancelled"));
    });
}

#[test]
fn headers_and_body_must_agree() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        let good = call(json!(3), "echo", json!({}));
        for (headers, code) in [
            (vec![("mcp-protocol-version", VERSION), ("mcp-method", "tools/call")], -32020),
            (vec![("mcp-protocol-version", VERSION), ("mcp-name", "echo")], -32020),
            (vec![("mcp-method", "tools/call"), ("mcp-name", "echo")], -32020),
            (headers("tools/call", "other"), -32020),
            (headers("tools/list", "echo"), -32020),
            (
                vec![
                    ("mcp-protocol-version", "2025-11-25"),
                    ("mcp-method", "tools/call"),
                    ("mcp-name", "echo"),
                ],
                -32020,
            ),
        ] {
            let (head, body) = client.post(&headers, &good).await;
            let body: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(
                (head.status, &body["error"]["code"], &body["id"]),
                (400, &json!(code), &json!(3)),
                "{headers:?}"
            );
        }
        let other = good.replace(VERSION, "2031-01-01");
        let (head, body) = client
            .post(
                &[("mcp-protocol-version", "2031-01-01"), ("mcp-method", "tools/call"), ("mcp-name", "echo")],
                &other,
            )
            .await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (head.status, &body["error"]["code"], &body["error"]["data"]["requested"]),
            (400, &json!(-32022), &json!("2031-01-01"))
        );
        let bare = r#"{"jsonrpc":"2.0","id":3,"method":"server/discover"}"#;
        let (head, body) = client.post(&[], bare).await;
        assert!(head.status == 400 && body.contains("-32602"), "{body}");
        assert!(place.proxy.connected.lock().unwrap().is_empty(), "no proxy is made for what is refused");
        assert_eq!(client.post(&headers("tools/call", "=?base64?ZWNobw==?="), &good).await.0.status, 200);
        let discover = request(json!(1), "server/discover", json!({}));
        assert_eq!(
            client
                .post(&[("mcp-protocol-version", VERSION), ("mcp-method", "server/discover")], &discover)
                .await
                .0
                .status,
            200
        );
    });
}

#[test]
fn an_unknown_method_is_not_found() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        let (head, body) =
            client.post(&headers("unknown", "-"), &request(json!(1), "unknown", json!({}))).await;
        assert!(head.status == 404 && body.contains("-32601"), "{body}");
    });
}

#[test]
fn there_are_no_sessions_batches_or_responses() {
    run(async {
        let place = Place::new();
        let mut client = place.client().await;
        let version = [("mcp-protocol-version", VERSION)];
        for method in ["GET", "DELETE"] {
            client.send(method, &version, "").await;
            let (head, _) = client.whole().await;
            assert_eq!((head.status, head.get("allow")), (405, Some("POST")));
        }
        for body in [
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            "[]",
            &*format!("[{}]", call(json!(1), "echo", json!(1))),
        ] {
            assert_eq!(client.post(&version, body).await.0.status, 400, "{body}");
        }
        let (head, _) = client
            .post(
                &version,
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
            )
            .await;
        assert_eq!(head.status, 202);
        let (head, _) = client.post(&version, r#"{"jsonrpc":"2.0","method":"noted"}"#).await;
        assert_eq!(head.status, 202);
        until(|| place.proxy.heard("noted")).await;
        assert!(!place.proxy.heard("cancelled"), "an id does not say whose request is meant");
    });
}

#[test]
fn a_client_that_does_not_read_does_not_keep_others_waiting_for_ever() {
    run(async {
        let place = Place::new();
        let mut stuck = place.client().await;
        send_call(&mut stuck, json!(1), "flood", json!({ "count": 2000 })).await;
        until(|| place.proxy.heard("flood")).await;
        drop(stuck);
        let mut client = place.client().await;
        send_call(&mut client, json!(1), "echo", json!({ "still": "here" })).await;
        assert!(client.whole().await.1.contains("still"));
    });
}
