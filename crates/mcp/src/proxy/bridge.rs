//! Between a client and a server of different generations: a request says in its `_meta` what the other side
//! expects there, and a result what kind of result it is.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::{
    generation::{CAPABILITIES_KEY, Generation, INFO_KEY, VERSION_KEY},
    message::{self, Message},
};

/// A request as a server of this generation expects it. `meta` says who the client is.
pub fn request(message: &Message, to: Generation, meta: &Map<String, Value>) -> Bytes {
    let members = message::members(message.params()).unwrap_or_default();
    let old = members.iter().find(|(key, _)| key == "_meta").map_or("{}", |(_, raw)| *raw);
    let mut fields: Vec<(String, String)> = message::members(old)
        .unwrap_or_default()
        .into_iter()
        .filter(|(key, _)| ![VERSION_KEY, INFO_KEY, CAPABILITIES_KEY].contains(&key.as_str()))
        .map(|(key, raw)| (key, raw.to_owned()))
        .collect();
    if to == Generation::Stateless {
        fields.extend(meta.iter().map(|(key, value)| (key.clone(), value.to_string())));
    }
    let mut params: Vec<(String, String)> = members
        .iter()
        .filter(|(key, _)| key != "_meta")
        .map(|(key, raw)| (key.clone(), (*raw).to_owned()))
        .collect();
    if !fields.is_empty() {
        params.push(("_meta".to_owned(), object(&fields)));
    }
    let params = object(&params);
    match message.params_place() {
        Some(place) => message.edited(vec![(place, Bytes::from(params))]).concat().into(),
        None => {
            let bytes = message.bytes();
            let end = bytes.iter().rposition(|byte| *byte == b'}').unwrap_or(bytes.len());
            message.edited(vec![(end..end, Bytes::from(format!(",\"params\":{params}")))]).concat().into()
        }
    }
}

/// What has to be put at the beginning of a result object for a client without handshakes.
pub fn completion(result: &str, method: &str) -> String {
    let mut missing = String::new();
    let mut add = |key: &str, value: &str| {
        if message::member(result, key).is_none() {
            missing.push_str(&format!("\"{key}\":{value},"));
        }
    };
    add("resultType", "\"complete\"");
    if method == "resources/read" || method.ends_with("/list") {
        add("ttlMs", "0");
        add("cacheScope", "\"private\"");
    }
    let empty = message::members(result).is_ok_and(|members| members.is_empty());
    if empty { missing.trim_end_matches(',').to_owned() } else { missing }
}

fn object(fields: &[(String, String)]) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(key, raw)| format!("{}:{raw}", Value::String(key.clone()))).collect();
    format!("{{{}}}", fields.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn translated(request_text: &str, to: Generation) -> Value {
        let message = Message::parse(Bytes::copy_from_slice(request_text.as_bytes())).unwrap();
        let mut meta = Map::new();
        meta.insert(VERSION_KEY.to_owned(), json!("2026-07-28"));
        serde_json::from_slice(&request(&message, to, &meta)).unwrap()
    }

    #[test]
    fn what_belongs_to_one_generation_is_taken_out_and_the_rest_stays() {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":3}}}"#;
        assert_eq!(
            translated(text, Generation::Handshake)["params"],
            json!({"name": "t", "_meta": {"progressToken": 3}})
        );
    }

    #[test]
    fn what_a_server_without_handshake_expects_is_put_in() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1.0}}"#,
        ] {
            let meta = &translated(text, Generation::Stateless)["params"]["_meta"];
            assert_eq!(meta, &json!({ VERSION_KEY: "2026-07-28" }), "{text}");
        }
    }

    #[test]
    fn a_result_says_what_it_is_only_if_it_does_not_yet() {
        assert_eq!(completion("{}", "tools/call"), "\"resultType\":\"complete\"");
        assert_eq!(completion("{\"a\":1}", "tools/call"), "\"resultType\":\"complete\",");
        assert_eq!(completion("{\"resultType\":\"input_required\"}", "tools/call"), "");
        assert!(completion("{\"contents\":[]}", "resources/read").contains("\"ttlMs\":0,"));
    }
}
