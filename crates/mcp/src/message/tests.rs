use proptest::prelude::*;
use serde_json::json;

use super::*;

fn parse(text: &str) -> Result<Message, Fault> {
    Message::parse(Bytes::copy_from_slice(text.as_bytes()))
}

fn joined(parts: &[Bytes]) -> String {
    String::from_utf8(parts.concat()).unwrap()
}

#[test]
fn a_request_a_notification_and_both_responses_are_told_apart() {
    let request = parse(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#).unwrap();
    assert_eq!((request.kind(), request.method(), request.params()), (Kind::Request, "ping", "{}"));
    assert_eq!(request.id().unwrap(), "\"a\"");
    let told = parse(r#"{"jsonrpc":"2.0","method":"n","params":{"a":1}}"#).unwrap();
    assert_eq!((told.kind(), told.params()), (Kind::Notification, r#"{"a":1}"#));
    let result = parse(r#"{"jsonrpc":"2.0","id":7,"result":{"x": [1, 2]}}"#).unwrap();
    assert_eq!(result.kind(), Kind::Response(Outcome::Result));
    assert_eq!(result.outcome(), r#"{"x": [1, 2]}"#);
    let error = parse(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}"#).unwrap();
    assert_eq!(error.kind(), Kind::Response(Outcome::Error));
}

#[test]
fn only_the_id_changes_and_everything_unknown_stays_byte_for_byte() {
    let text = r#"{ "x-odd" : 1.0e0, "jsonrpc":"2.0","id" : 12345678901234567890 ,"method":"m", "params":{"é":"\u00e9"} }"#;
    let message = parse(text).unwrap();
    assert_eq!(joined(&message.with_id(Bytes::from_static(b"3"))), text.replace("12345678901234567890", "3"));
}

#[test]
fn what_could_be_read_in_two_ways_is_no_message() {
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","param\u0073":{},"params":{}}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"param\u{17f}\":{}}",
    ] {
        assert!(matches!(parse(text), Err(Fault::Twice(_))), "{text}");
    }
    assert!(require_unambiguous(r#"{"a":[{"b":1,"b":2}]}"#).is_err());
    assert!(require_unambiguous(r#"{"a":[{"b":1,"c":2}],"b":null}"#).is_ok());
    assert!(members(r#"{"name":1,"Name":2}"#).is_err());
    assert!(require_unambiguous(r#"{"a":{"path":1,"Path":2}}"#).is_err());
    assert!(require_plain(r#"{"name":1,"Arguments":{}}"#, &["name", "arguments"]).is_err());
    assert!(require_plain(r#"{"name":1,"arguments":{"Arguments":1}}"#, &["name", "arguments"]).is_ok());
}

#[test]
fn other_json_is_no_message() {
    for text in [
        "",
        "1",
        "null",
        "{}",
        "[]x",
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":1,"error":2}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#,
        r#"{"jsonrpc":"2.0","result":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":3}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m"} {}"#,
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
    assert_eq!(Message::parse(Bytes::from_static(b"\xff{}")).unwrap_err(), Fault::NotText);
}

#[test]
fn deep_nesting_neither_overflows_nor_stops_a_message_from_being_passed_on() {
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    let message = parse(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{deep}}}"#)).unwrap();
    assert_eq!(message.outcome().len(), 400_000);
    // Where it is looked into, it is bounded.
    assert!(require_unambiguous(&deep).is_err());
}

#[test]
fn a_body_over_several_lines_becomes_one_line_with_the_same_meaning() {
    let message = parse("{\r\n \"jsonrpc\": \"2.0\",\n \"id\": 1,\n \"method\": \"m\"\n}").unwrap();
    assert!(!message.bytes().contains(&b'\n') && !message.bytes().contains(&b'\r'));
}

#[test]
fn a_batch_is_its_messages() {
    let batch = br#" [{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"},7]"#;
    let messages = parse_all(Bytes::from_static(batch));
    assert_eq!(messages.len(), 3);
    assert_eq!(messages[1].as_ref().unwrap().method(), "b");
    assert!(messages[2].is_err());
    assert!(parse_all(Bytes::from_static(b"[]"))[0].is_err());
}

#[test]
fn pieces_of_params_are_found_in_the_whole_and_replaced() {
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b","arguments":{"name":"a__b"}}}"#;
    let message = parse(text).unwrap();
    let name = member(message.params(), "name").unwrap();
    let edits = vec![
        (message.place(name), Bytes::from_static(b"\"b\"")),
        (message.id_place().unwrap(), Bytes::from_static(b"9")),
    ];
    assert_eq!(
        joined(&message.edited(edits)),
        r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"b","arguments":{"name":"a__b"}}}"#
    );
}

proptest! {
    #[test]
    fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for message in parse_all(Bytes::from(bytes)).into_iter().flatten() {
            let _ = (message.kind(), message.id(), message.params().len(), message.outcome().len());
        }
    }

    #[test]
    fn the_parts_are_those_that_a_json_parser_finds(id in any::<i64>(), method in "[a-z/\"\\\\é]{0,12}", params in "[a-z\"\\\\\n]{0,12}") {
        let value = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": { "p": params } });
        let message = parse(&value.to_string()).unwrap();
        prop_assert_eq!(message.method(), method.as_str());
        prop_assert_eq!(&string(message.params(), "p").unwrap(), &params);
        let id_text = id.to_string();
        prop_assert_eq!(message.id().unwrap(), Bytes::from(id_text));
        let again: serde_json::Value = serde_json::from_slice(&message.with_id(Bytes::from_static(b"5")).concat()).unwrap();
        prop_assert_eq!(&again["id"], &json!(5));
        prop_assert_eq!(&again["params"], &value["params"]);
    }
}
