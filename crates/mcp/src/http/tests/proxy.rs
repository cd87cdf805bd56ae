//! Stands in for the proxy: answers by the name of the tool, and remembers what it was told.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};
use tokio::sync::mpsc;

use crate::{
    http::Generation,
    link::{About, Front, Outgoing},
};

#[derive(Default)]
pub struct Proxy {
    pub heard: Arc<Mutex<Vec<String>>>,
    pub connected: Mutex<Vec<Generation>>,
    pub ended: Arc<Mutex<usize>>,
    /// To say something out of turn, per connection.
    pub mouths: Mutex<Vec<mpsc::Sender<Outgoing>>>,
}

#[derive(serde::Deserialize)]
struct Incoming<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
}

impl Proxy {
    pub fn connect(&self, generation: Generation) -> Front {
        let (to_proxy, mut received) = mpsc::channel::<Bytes>(4);
        let (mouth, from_proxy) = mpsc::channel(4);
        self.connected.lock().unwrap().push(generation);
        self.mouths.lock().unwrap().push(mouth.clone());
        let (heard, ended) = (Arc::clone(&self.heard), Arc::clone(&self.ended));
        tokio::spawn(async move {
            let mut asked = None;
            while let Some(message) = received.recv().await {
                let text = String::from_utf8(message.to_vec()).unwrap();
                assert!(!text.contains(['\r', '\n']), "a line break reached the proxy: {text}");
                heard.lock().unwrap().push(text.clone());
                let incoming: Incoming<'_> = serde_json::from_str(&text).unwrap();
                match (incoming.id, incoming.method.as_deref()) {
                    (Some(id), Some("initialize")) if incoming.params["fail"] == true => {
                        say(&mouth, id.get(), &json!({ "code": -32602, "message": "no" }), "error").await;
                    }
                    (Some(id), Some("initialize")) => {
                        let result = json!({ "protocolVersion": incoming.params["protocolVersion"], "capabilities": {}, "serverInfo": { "name": "stand-in", "version": "1" } });
                        say(&mouth, id.get(), &result, "result").await;
                    }
                    (Some(_), Some("quit")) => break,
                    (Some(id), Some("tools/call")) => {
                        call(&mouth, id.get(), &incoming.params, &mut asked).await;
                    }
                    (Some(id), Some("unknown")) => {
                        say(&mouth, id.get(), &json!({ "code": -32601, "message": "what?" }), "error").await;
                    }
                    (Some(id), Some(method)) => {
                        say(&mouth, id.get(), &json!({ "method": method }), "result").await
                    }
                    // The response to what was asked.
                    (Some(_), None) => {
                        if let Some(id) = asked.take() {
                            let id: String = id;
                            say(&mouth, &id, &json!({ "answered": true }), "result").await;
                        }
                    }
                    (None, Some("poke")) => {
                        notify(&mouth, About::Nothing, "notifications/poked", incoming.params).await
                    }
                    _ => {}
                }
            }
            *ended.lock().unwrap() += 1;
        });
        Front { to_proxy, from_proxy }
    }

    pub fn heard(&self, text: &str) -> bool {
        self.heard.lock().unwrap().iter().any(|heard| heard.contains(text))
    }

    pub fn ended(&self) -> usize {
        *self.ended.lock().unwrap()
    }
}

async fn call(mouth: &mpsc::Sender<Outgoing>, id: &str, params: &Value, asked: &mut Option<String>) {
    let about = About::Request(Bytes::copy_from_slice(id.as_bytes()));
    let token = params["_meta"]["progressToken"].clone();
    match params["name"].as_str().unwrap() {
        "echo" => say(mouth, id, &params["arguments"], "result").await,
        "steps" => {
            for step in 1..=3 {
                notify(
                    mouth,
                    about.clone(),
                    "notifications/progress",
                    json!({ "progressToken": token, "progress": step }),
                )
                .await;
            }
            say(mouth, id, &json!({ "steps": 3 }), "result").await;
        }
        // One step now, the rest when it is let go by a later call in another task.
        "begin" => {
            notify(
                mouth,
                about.clone(),
                "notifications/progress",
                json!({ "progressToken": token, "progress": 1 }),
            )
            .await;
            let (mouth, id) = (mouth.clone(), id.to_owned());
            let wait = params["arguments"]["ms"].as_u64().unwrap();
            tokio::spawn(async move {
                tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
                notify(
                    &mouth,
                    about,
                    "notifications/progress",
                    json!({ "progressToken": token, "progress": 2 }),
                )
                .await;
                say(&mouth, &id, &json!({ "late": true }), "result").await;
            });
        }
        "slow" => {
            let (mouth, id) = (mouth.clone(), id.to_owned());
            let wait = params["arguments"]["ms"].as_u64().unwrap();
            tokio::spawn(async move {
                tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
                say(&mouth, &id, &json!({ "slow": wait }), "result").await;
            });
        }
        "ask" => {
            let question =
                json!({ "jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": {} });
            send(mouth, vec![Bytes::from(question.to_string())], about).await;
            *asked = Some(id.to_owned());
        }
        "large" => {
            let piece = Bytes::from(vec![b'x'; 64 << 10]);
            let mut parts = vec![Bytes::from("{\"jsonrpc\":\"2.0\",\"result\":\"".to_owned())];
            parts
                .extend(std::iter::repeat_n(piece, params["arguments"]["pieces"].as_u64().unwrap() as usize));
            parts.push(Bytes::from(format!("\",\"id\":{id}}}")));
            send(mouth, parts, About::Response(Bytes::copy_from_slice(id.as_bytes()))).await;
        }
        "flood" => {
            for step in 0..params["arguments"]["count"].as_u64().unwrap() {
                let text = "y".repeat(8 << 10);
                notify(mouth, about.clone(), "notifications/message", json!({ "step": step, "text": text }))
                    .await;
            }
            say(mouth, id, &json!({ "flooded": true }), "result").await;
        }
        "forge" => {
            let text = format!("{{\"jsonrpc\":\"2.0\",\r\"id\":{id},\r\r\"result\":{{}}}}");
            notify(mouth, about, "notifications/progress", json!({})).await;
            send(mouth, vec![Bytes::from(text)], About::Response(Bytes::copy_from_slice(id.as_bytes())))
                .await;
        }
        "never" => {}
        other => panic!("a tool {other}"),
    }
}

async fn say(mouth: &mpsc::Sender<Outgoing>, id: &str, value: &Value, key: &str) {
    let parts = vec![
        Bytes::from(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},")),
        Bytes::from(format!("\"{key}\":{value}}}")),
    ];
    send(mouth, parts, About::Response(Bytes::copy_from_slice(id.as_bytes()))).await;
}

pub async fn notify(mouth: &mpsc::Sender<Outgoing>, about: About, method: &str, params: Value) {
    let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
    send(mouth, vec![Bytes::from(message.to_string())], about).await;
}

async fn send(mouth: &mpsc::Sender<Outgoing>, parts: Vec<Bytes>, about: About) {
    // The front may have gone.
    let _ = mouth.send(Outgoing { parts, about }).await;
}
