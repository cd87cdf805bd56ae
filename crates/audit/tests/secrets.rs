//! What must not reach a log: secrets, hidden characters, lines without bound.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

mod common;

use common::{Dir, events, lines};
use lazaret_audit::{EventKind, Log, MAX_LINE, NewEvent, redact, verify};
use proptest::prelude::*;
use serde_json::{Value, json};

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn the_value_of_a_secret_option_is_removed_from_a_command_line() {
    for flag in redact_flags() {
        let spaced = redact::argv(&words(&format!("tool {flag} hunter2 rest")));
        assert_eq!(spaced, words(&format!("tool {flag} [redacted] rest")));
        let joined = redact::argv(&words(&format!("tool {flag}=hunter2 rest")));
        assert_eq!(joined, words(&format!("tool {flag}=[redacted] rest")));
        assert_eq!(
            redact::text(&format!("tool {flag} hunter2 rest")),
            format!("tool {flag} [redacted] rest")
        );
        assert_eq!(
            redact::text(&format!("tool {flag} 'a b' rest")),
            format!("tool {flag} '[redacted]' rest")
        );
    }
    assert_eq!(redact::argv(&["DB_PASSWORD=a b c".to_owned()]), ["DB_PASSWORD=[redacted]"]);
    assert_eq!(
        redact::argv(&words("x --password --token y z")),
        words("x --password [redacted] [redacted] z")
    );
}

fn redact_flags() -> [&'static str; 10] {
    [
        "--password",
        "--passwd",
        "--token",
        "--api-key",
        "--apikey",
        "--secret",
        "--access-key",
        "--auth",
        "--PASSWORD",
        "--db-password",
    ]
}

#[test]
fn secrets_in_text_are_removed_and_the_rest_is_kept() {
    for (before, after) in [
        ("GITHUB_TOKEN=abc make", "GITHUB_TOKEN=[redacted] make"),
        ("my_api_key=abc", "my_api_key=[redacted]"),
        ("AWS_SECRET_ACCESS_KEY='a b' x", "AWS_SECRET_ACCESS_KEY='[redacted]' x"),
        ("env 'PASSWD=a b' x", "env 'PASSWD=[redacted]' x"),
        ("https://x.org/?token=abc&page=2", "https://x.org/?token=[redacted]&page=2"),
        ("{\"api_key\": \"abc\", \"n\": 1}", "{\"api_key\": \"[redacted]\", \"n\": 1}"),
        ("https://me:pw@host/x", "https://[redacted]@host/x"),
        ("postgres://u:p/w@db:5432/x", "postgres://[redacted]@db:5432/x"),
        ("https://me:p@w@host/x", "https://[redacted]@host/x"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
        ("curl -H 'authorization: Basic dXNlcg==' url", "curl -H 'authorization: Basic [redacted]' url"),
        ("-H \"Authorization: abcdef\" x", "-H \"Authorization: [redacted]\" x"),
        ("{\"Authorization\":\"Bearer abc\"}", "{\"Authorization\":\"Bearer [redacted]\"}"),
        ("a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb", "a\n[redacted]\nb"),
        ("-----BEGIN PRIVATE KEY-----\nMII", "[redacted]"),
    ] {
        assert_eq!(redact::text(before), after, "{before}");
    }
}

#[test]
fn ordinary_text_is_left_alone() {
    for text in [
        "",
        "git status --short",
        "https://host:8080/a@b",
        "ssh://git@host/repo",
        "task-force sk-learn risk-0",
        "npm_config_registry=x",
        "eyJ short",
        "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
        "AKIA short",
        "PATH=/usr/bin",
        "the token is valid",
        "--verbose x",
        "[redacted]",
        "größe=3 ü",
    ] {
        assert_eq!(redact::text(text), text);
    }
}

fn tokens() -> Vec<String> {
    let body = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    let mut all: Vec<String> =
        ["ghp_", "gho_", "ghs_", "github_pat_", "sk-", "xoxb-", "xoxp-", "glpat-", "npm_"]
            .iter()
            .map(|prefix| format!("{prefix}{body}"))
            .collect();
    all.extend(["AKIAIOSFODNN7EXAMPLE".to_owned(), "ASIAIOSFODNN7EXAMPLE".to_owned()]);
    all.push(format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{body}"));
    all
}

#[test]
fn tokens_are_known_by_their_shape_wherever_they_stand() {
    for token in tokens() {
        assert_eq!(redact::text(&token), "[redacted]");
        for around in ["x {} y", "({})", "key:{}", "https://h/{}/x", "a={},b", "\"{}\"", "é{}é"] {
            let text = redact::text(&around.replace("{}", &token));
            assert_eq!(text, around.replace("{}", "[redacted]"));
        }
    }
}

#[test]
fn no_secret_reaches_the_file_however_it_is_nested() {
    let dir = Dir::new();
    let log = Log::open(&dir.log()).unwrap();
    for secret in tokens().into_iter().chain(["hunter2".to_owned()]) {
        let event = NewEvent::new(EventKind::SandboxEntered, "s")
            .with("argv", vec!["x".to_owned(), "--password".to_owned(), secret.clone()])
            .with("text", format!("API_KEY={secret}"))
            .with(
                "env",
                json!({ "MY_TOKEN": secret, "deep": [[{ "url": format!("https://u:{secret}@h/") }]] }),
            )
            .with("credentials", json!([{ "user": secret }]))
            .with(&format!("TOKEN={secret}"), 1);
        log.append(&event).unwrap();
        let file = String::from_utf8(std::fs::read(dir.log()).unwrap()).unwrap();
        assert!(!file.contains(&secret), "{file}");
    }
    verify(&dir.log()).unwrap();
}

#[test]
fn characters_that_hide_are_escaped_in_the_line_and_come_back_whole() {
    let dir = Dir::new();
    let log = Log::open(&dir.log()).unwrap();
    let hidden =
        "\u{0}\n\r\u{1b}\u{7f}\u{85}\u{9b}\u{200b}\u{200e}\u{202e}\u{2028}\u{2029}\u{2066}\u{feff}\u{e0041}";
    let event = NewEvent::new(EventKind::DnsQuery, hidden)
        .with("v", hidden)
        .with(hidden, 1)
        .with("ok", "größe 🎈 漢");
    let written = log.append(&event).unwrap();
    let line = String::from_utf8(lines(&dir.log()).remove(0)).unwrap();
    let line = line.strip_suffix('\n').unwrap();
    assert!(
        line.chars().all(|c| !c.is_control() && (c.is_alphanumeric() || c.is_ascii() || c == '🎈')),
        "{line}"
    );
    assert!(line.contains("\\u202e") && line.contains("\\udb40\\udc41") && line.contains("größe 🎈 漢"));
    assert_eq!(events(&dir.log()), std::slice::from_ref(&written));
    assert_eq!(written.details["v"], hidden);
    assert_eq!(written.sandbox_id, hidden);
    verify(&dir.log()).unwrap();
}

#[test]
fn long_strings_are_cut_and_no_line_is_longer_than_the_limit() {
    let dir = Dir::new();
    let log = Log::open(&dir.log()).unwrap();
    let cut = log.append(&NewEvent::new(EventKind::DnsQuery, "s").with("v", "ä".repeat(5000))).unwrap();
    let text = cut.details["v"].as_str().unwrap();
    assert!(text.len() <= 4096 && text.ends_with("more bytes]"), "{}", text.len());
    let exact = log.append(&NewEvent::new(EventKind::DnsQuery, "s").with("v", "a".repeat(4096))).unwrap();
    assert_eq!(exact.details["v"], "a".repeat(4096));
    let mut big = NewEvent::new(EventKind::DnsQuery, &"\u{7f}".repeat(9999)).with("small", "kept");
    for n in 0..50 {
        big = big.with(&format!("{n}{}", "k".repeat(999)), "\u{7f}".repeat(4000));
    }
    big = big.with("list", vec!["x".repeat(4000); 100]);
    let kept = log.append(&big).unwrap();
    assert_eq!(kept.details["small"], "kept");
    assert!(kept.details["detailsLeftOut"].as_u64().unwrap() > 40);
    assert!(lines(&dir.log()).iter().all(|line| line.len() <= MAX_LINE));
    assert_eq!(verify(&dir.log()).unwrap().lines, 3);
}

#[test]
fn values_too_deep_to_be_read_back_are_left_out() {
    let dir = Dir::new();
    let mut deep = Value::from("bottom");
    for _ in 0..500 {
        deep = json!([{ "x": deep }]);
    }
    let log = Log::open(&dir.log()).unwrap();
    log.append(&NewEvent::new(EventKind::DnsQuery, "s").with("v", deep)).unwrap();
    verify(&dir.log()).unwrap();
    assert_eq!(events(&dir.log()).len(), 1);
}

#[test]
fn hostile_text_is_recorded_in_reasonable_time() {
    let dir = Dir::new();
    let log = Log::open(&dir.log()).unwrap();
    let start = std::time::Instant::now();
    for piece in [
        "a://",
        "eyJ-",
        "\\\"TOKEN=x ",
        "-----BEGIN ",
        "--token ",
        "'",
        "=",
        "Authorization:",
        "ghp_",
        "x://u:p",
    ] {
        log.append(&NewEvent::new(EventKind::DnsQuery, "s").with("v", piece.repeat(1 << 18))).unwrap();
    }
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    let event = NewEvent::new(EventKind::DnsQuery, "s")
        .with("v", format!("{} ghp_{}", "a".repeat(65_525), "Z".repeat(40)));
    let text = log.append(&event).unwrap().details["v"].to_string();
    assert!(!text.contains("ghp_"));
    verify(&dir.log()).unwrap();
}

/// Text made of what the scanners look for.
fn spiky() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "--password",
        "--token=",
        "-",
        "API_KEY=",
        "TOKEN",
        "=",
        " ",
        "\n",
        "\"",
        "'",
        "`",
        "\\",
        ":",
        "://",
        "@",
        "/",
        "?",
        "&",
        "#",
        "http",
        "u:p",
        "Authorization",
        "Bearer",
        "ghp_0123456789",
        "sk-",
        "AKIA",
        "0123456789ABCDEF",
        "eyJ0123456789",
        ".",
        "-----BEGIN ",
        "PRIVATE KEY",
        "-----",
        "-----END ",
        "[redacted]",
        "[",
        "]",
        "é",
        "\u{202e}",
        "no-",
        "xoxb-",
        "npm_",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        spiky().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..6)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn redacting_twice_changes_nothing_more(text in prop_oneof![any::<String>(), spiky()]) {
        let once = redact::text(&text);
        prop_assert_eq!(redact::text(&once), once);
    }

    #[test]
    fn redacting_a_command_line_twice_changes_nothing_more(line in prop::collection::vec(spiky(), 0..6)) {
        let once = redact::argv(&line);
        prop_assert_eq!(once.len(), line.len());
        prop_assert_eq!(redact::argv(&once), once);
    }

    #[test]
    fn a_token_never_survives_its_surroundings(before in spiky(), after in spiky()) {
        let token = "ghp_SECRETSECRETSECRETSECRETSECRETSECRET";
        let text = redact::text(&format!("{before}{token}{after}"));
        prop_assert!(!text.contains(token), "{}", text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_event_is_read_back_as_it_was_returned(id in any::<String>(), values in prop::collection::vec((any::<String>(), tree()), 0..5)) {
        let dir = Dir::new();
        let log = Log::open(&dir.log()).unwrap();
        let event = values.iter().fold(NewEvent::new(EventKind::DnsQuery, &id), |e, (k, v)| e.with(k, v.clone()));
        let written = log.append_all(&[event.clone(), event]).unwrap();
        prop_assert_eq!(events(&dir.log()), written);
        prop_assert_eq!(verify(&dir.log()).unwrap().lines, 2);
    }

    #[test]
    fn a_file_of_anything_never_makes_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let dir = Dir::new();
        std::fs::write(dir.log(), &bytes).unwrap();
        prop_assert_eq!(verify(&dir.log()).is_ok(), bytes.is_empty());
        let _ = Log::open(&dir.log()).unwrap().append(&common::event(1));
    }
}
