use proptest::prelude::*;

use super::*;
use crate::classify::words::words;

fn roles(name: &str) -> Roles {
    Roles::of_name(&words(name)).unwrap_or_default()
}

fn hosts(name: &str, text: &str) -> Vec<String> {
    let found = read(text, roles(name)).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    found.hosts.into_iter().map(|it| it.host).collect()
}

#[track_caller]
fn refused(name: &str, text: &str) {
    assert!(read(text, roles(name)).is_err(), "{text}: {:?}", read(text, roles(name)));
}

#[test]
fn a_url_of_any_scheme_has_a_host() {
    for (text, host) in [
        ("https://example.com/x", "example.com"),
        ("HTTPS://Example.COM./x", "example.com"),
        ("ws://example.com", "example.com"),
        ("ftp://example.com/x", "example.com"),
        ("ssh://git@example.com:2222/x", "example.com"),
        ("git://EXAMPLE.com/x", "example.com"),
        ("git+ssh://example.com/x", "example.com"),
        ("s3://bucket/key", "bucket"),
        ("http:\\\\example.com", "example.com"),
        ("http:/example.com", "example.com"),
        ("  https://example.com", "example.com"),
        ("https://ex%61mple.com", "example.com"),
        ("https://bücher.example", "xn--bcher-kva.example"),
        ("https://user:secret@example.com/", "example.com"),
        ("view-source:https://example.com/", "example.com"),
        ("git@github.com:owner/name.git", "github.com"),
    ] {
        assert_eq!(hosts("anything", text), [host], "{text}");
        assert_eq!(hosts("url", text), [host], "{text}");
    }
}

#[test]
fn tabs_and_line_breaks_hide_nothing() {
    assert_eq!(hosts("anything", "ht\ntps://exam\tple.com/"), ["example.com"]);
    assert!(hosts("url", "ht\ntps://exam\tple.com/").contains(&"example.com".to_owned()));
    assert!(hosts("url", "https://evil.c\nom://z").contains(&"evil.com".to_owned()));
}

#[test]
fn addresses_are_one_host_in_every_notation() {
    for text in
        ["http://127.0.0.1/", "http://2130706433", "http://0x7f.1", "http://0177.0.0.1", "http://127.1:80/"]
    {
        assert_eq!(hosts("url", text), ["127.0.0.1"], "{text}");
    }
    assert_eq!(hosts("url", "http://[::ffff:127.0.0.1]/"), ["127.0.0.1"]);
    assert_eq!(hosts("url", "http://[0:0::1]:8080/"), ["::1"]);
    assert_eq!(hosts("host", "0x7f000001"), ["127.0.0.1"]);
    assert_eq!(hosts("host", "[::1]:80"), ["::1"]);
    assert_eq!(hosts("host", "::1"), ["::1"]);
}

#[test]
fn what_could_be_two_hosts_is_refused() {
    for text in [
        "https://good.example\\@evil.example/",
        "https://a@b@evil.example/",
        "http://1.1.1.1 &@2.2.2.2# @3.3.3.3/",
        "https://exa mple.com/",
        "http://[fe80::1%25eth0]/",
        "http://[::1/",
        "https://exam%00ple.com",
        "git://ex%61mple.com/",
        "http://1.2.3.4.5/",
        "http://example.com:99999/",
    ] {
        refused("anything", text);
        refused("url", text);
    }
    for text in ["exa mple", "fe80::1%eth0", "a@b@c", "*.example.com", "example.com:port"] {
        refused("host", text);
    }
}

#[test]
fn schemes_without_hosts_have_none() {
    for text in
        ["data:text/plain,https://x", "mailto:a@example.com", "urn:isbn:1", "memo:///insights", "C:\\Users"]
    {
        assert!(hosts("anything", text).is_empty(), "{text}");
    }
    assert!(hosts("url", "data:text/html,hello").is_empty());
}

#[test]
fn bare_hosts_count_where_the_name_says_so() {
    assert_eq!(hosts("hostname", "Example.com"), ["example.com"]);
    assert_eq!(hosts("host", "db:5432"), ["db"]);
    assert_eq!(hosts("url", "example.com/path"), ["example.com"]);
    assert_eq!(hosts("endpoint", "localhost:8080"), ["localhost"]);
    assert_eq!(hosts("url", "//example.com/x"), ["example.com"]);
    assert_eq!(hosts("url", "\\\\example.com/x"), ["example.com"]);
    assert_eq!(hosts("registry", "ghcr.io"), ["ghcr.io"]);
    assert_eq!(hosts("domains", "a.example, b.example"), ["a.example", "b.example"]);
    assert_eq!(hosts("host", "root@example.com"), ["example.com"]);
    for (name, text) in [
        ("anything", "example.com"),
        ("server", "production"),
        ("repo", "owner/name"),
        ("uri", "notes.txt"),
        ("address", "12 Main Street"),
        ("anything", "std::vec"),
        ("anything", "12:30"),
        ("anything", "text/plain"),
        ("anything", "@scope/pkg@1.0"),
        ("anything", "someone@example.com"),
    ] {
        assert!(hosts(name, text).is_empty(), "{name} {text}");
    }
}

#[test]
fn urls_within_free_text_are_not_hosts_of_the_call() {
    assert!(hosts("message", "see https://example.com for more").is_empty());
    assert!(hosts("content", "http://[broken").is_empty());
    assert_eq!(hosts("query", "https://example.com/"), ["example.com"]);
    assert_eq!(hosts("url", "https://a.example https://b.example"), ["a.example", "b.example"]);
}

#[test]
fn credentials_do_not_show() {
    for text in
        ["https://user:secret@example.com/x", "https://secret@example.com", "ssh://secret@example.com/x"]
    {
        let found = read(text, roles("url")).expect("is a URL");
        assert!(!found.hosts[0].given.contains("secret"), "{:?}", found.hosts);
    }
}

#[test]
fn file_urls_are_paths_in_every_reading() {
    let files = |text: &str| read(text, Roles::default()).expect("is a file URL").files;
    assert_eq!(files("file:///etc/passwd"), [PathBuf::from("/etc/passwd")]);
    assert_eq!(files("FILE://localhost/etc/pass%77d")[0], Path::new("/etc/passwd"));
    assert!(files("file:///a/link/../x").contains(&PathBuf::from("/a/x")));
    assert!(files("file:///a/link/../x").contains(&PathBuf::from("/a/link/../x")));
    assert!(files("file:etc/passwd").contains(&PathBuf::from("/etc/passwd")));
    refused("anything", "file://host/share");
}

proptest! {
    #[test]
    fn reading_never_fails_in_another_way(text in ".{0,60}", name in "url|host|path|content|uri|x") {
        let _ = read(&text, roles(&name));
    }

    #[test]
    fn what_is_found_is_its_own_normal_form(text in "[a-z]{2,6}:[/\\\\]{0,3}[a-zA-Z0-9.@%:-]{1,20}[/?#]?.{0,5}") {
        if let Ok(found) = read(&text, roles("url")) {
            for found in found.hosts {
                prop_assert_eq!(Host::parse(&found.host).expect("is a host").to_string(), found.host);
            }
        }
    }
}

#[test]
fn a_value_of_nothing_but_urls_names_hosts_without_a_telling_name() {
    let hosts = |text: &str, roles: Roles| -> Vec<String> {
        read(text, roles).expect("can be told").hosts.into_iter().map(|found| found.host).collect()
    };
    let plain = Roles::default();
    for text in [
        "\u{a0}https://evil.example",
        "\u{200b}\u{feff} https://evil.example/x",
        "https:evil.example",
        "HTTPS:/evil.example",
        "--url=https://evil.example",
        "--url https://evil.example",
        "<https://evil.example>",
        "(\"https://evil.example/x\")",
    ] {
        assert_eq!(hosts(text, plain), ["evil.example"], "{text:?}");
    }
    assert_eq!(hosts("https://a.example https://b.example", plain), ["a.example", "b.example"]);
    assert_eq!(hosts("https://a.example/\nhttps:b.example", plain), ["a.example", "b.example"]);
    let text = Roles { text: true, ..plain };
    assert_eq!(hosts("<https://evil.example>", text), ["evil.example"]);
    for free in ["see https:evil.example", "http:80", "note: https://a.example", "std::vec", "10:30", "http:"]
    {
        assert_eq!(hosts(free, plain), [""; 0], "{free}");
        assert_eq!(hosts(free, text), [""; 0], "{free}");
    }
}
