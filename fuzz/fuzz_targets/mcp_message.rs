//! Arbitrary bytes as what a client or a server sends: reading, looking into and editing messages never panics, a
//! message that was edited is one message still, and only what was named has changed.
#![no_main]

use bytes::Bytes;
use lazaret_mcp::{
    blocked,
    line::{self, Incoming, Lines},
    message::{self, Kind, Message},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = line::id_of(data);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let lines: Vec<Incoming> = runtime.block_on(async {
        let mut lines = Lines::new(data, 300);
        let mut all = Vec::new();
        while let Ok(Some(incoming)) = lines.next().await {
            all.push(incoming);
        }
        all
    });
    for incoming in lines {
        let Incoming::Line(line) = incoming else { continue };
        assert!(line.len() <= 300 && !line.contains(&b'\n'));
        for message in message::parse_all(line).into_iter().flatten() {
            check(&message);
        }
    }
});

fn check(message: &Message) {
    let before: serde_json::Value = serde_json::from_slice(message.bytes()).expect("it was read");
    if message.id().is_some() {
        let after: serde_json::Value =
            serde_json::from_slice(&message.with_id(Bytes::from_static(b"77")).concat()).expect("still JSON");
        assert_eq!(after["id"], 77);
        assert_eq!(after.get("params"), before.get("params"));
        assert_eq!(after.get("method"), before.get("method"));
        assert_eq!(after.get("result"), before.get("result"));
    }
    let _ = (message::require_unambiguous(message.params()), message::members(message.params()));
    if matches!(message.kind(), Kind::Response(_)) && blocked::has_failed(message) {
        let _ = blocked::text_of(message);
        let edited = message.edited(blocked::marked(message, "Why.")).concat();
        let again: serde_json::Value = serde_json::from_slice(&edited).expect("still JSON");
        assert_eq!(again["id"], before["id"]);
    }
}
