//! Arbitrary bytes as a line of the audit log: reading never panics, and what the first bytes of a line say is
//! what the whole line says, so that no question is answered differently for having looked at less.
#![no_main]

use lazaret_audit::{
    Event, View,
    view::{Header, Severity},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let header = Header::of(data);
    let event = serde_json::from_slice::<Event>(data);
    let Ok(view) = View::of(data) else {
        assert!(event.is_err(), "an event is always a view");
        return;
    };
    if let Some(header) = header {
        assert_eq!(header.sandbox_id, view.sandbox_id.as_bytes());
        assert_eq!((header.timestamp, header.kind), (view.timestamp, view.event));
    }
    let Ok(facts) = view.facts() else { return };
    if let Ok(event) = event {
        assert_eq!((event.seq, event.event), (view.seq, view.event));
        let severity = event.details.get("severity").and_then(|it| it.as_str());
        if let Some(severity) = severity.and_then(|name| name.parse::<Severity>().ok()) {
            assert_eq!(facts.severity, Some(severity));
        }
    }
});
