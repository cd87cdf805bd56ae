//! The section `network`: what is refused, where, and what only deserves a warning.

use super::*;
use crate::network::Publish;

const ON: &str = "[network]\nallowNetwork = true\n";

#[test]
fn every_bad_entry_stands_at_its_place() {
    for (text, says) in [
        ("allowedHosts = [\"a.example\", §\"*\"]", "allows every host"),
        ("allowedHosts = [§\"*.co.uk\"]", "public suffix co.uk"),
        ("allowedHosts = [§\"https://a.example/x\"]", "hint: write `a.example`"),
        ("allowedDomains = [\"*.a.example\", §\"a b\"]", "white space"),
        ("allowedDomains = [§\"10.1.0.0/8\"]", "write `10.0.0.0/8`"),
        ("allowedDomains = []\ndeniedDomains = [\"*\", §\"a.example:0\"]", "from 1 to 65535"),
        ("allowedPorts = [§0]", "0 is not a port"),
        ("allowedAddresses = [\"::1\", §\"a.example\"]", "neither an address nor a network"),
        ("allowedAddresses = [§\"0.0.0.0/0\"]", "every address"),
        ("resolve = { §\"a..b\" = \"::1\" }", "network.resolve: \"a..b\" has an empty label"),
        ("resolve = { \"a.example\" = \"::1\", §\"A.example\" = \"::1\" }", "a.example occurs twice"),
        ("resolve = { §\"a.example\" = [] }", "has no address"),
        (
            "resolve = { \"a.example\" = §\"localhost\" }",
            "network.resolve.a.example: \"localhost\" is not an IP",
        ),
        ("resolve = { \"a.example\" = [\"::1\", §\"::g\"] }", "is not an IP address"),
        ("resolve = { \"a.example\" = §1 }", "an IP address in quotes"),
        ("publish = [\"8080\", §\"0\"]", "port 0"),
        ("publish = [§\"80:80:80\"]", "HOSTPORT:PORT"),
        ("publish = [\"80:1\", \"0:2\", \"0:2\", §\"80:3\"]", "published twice"),
        ("maxDNSQueries = §0", "leave the key out for no limit"),
        ("verifyServerName = §1", "network.verifyServerName"),
    ] {
        assert_says(&fault(Format::Toml, &format!("{ON}{text}\n")), &[says]);
    }
    let error =
        fault(Format::Json, "{\"network\": {\"allowNetwork\": true, \"allowedHosts\": [§\"*.com\"]}}");
    assert_says(&error, &["network.allowedHosts: \"*.com\"", "hint: write the names that are meant"]);
}

#[test]
fn lists_without_the_network_contradict_it() {
    for text in [
        "allowedDomains = §[\"a.example\"]",
        "allowedAddresses = §[\"10.0.0.0/8\"]",
        "resolve = §{ \"a.example\" = \"::1\" }",
    ] {
        assert_says(&fault(Format::Toml, &format!("[network]\n{text}\n")), &["allowNetwork is false"]);
    }
    for text in
        ["publish = [8080]", "allowedDomains = []", "deniedDomains = [\"*\"]", "proxyVariables = false"]
    {
        assert_eq!(toml(&format!("[network]\n{text}\n")).unwrap().warnings, Vec::<String>::new());
    }
}

#[test]
fn a_network_without_a_list_is_a_warning() {
    let warnings = toml(ON).unwrap().warnings;
    assert_eq!(warnings.len(), 1);
    assert_says(&warnings[0], &["p.toml:2:16: network.allowNetwork: any host can be reached"]);
    for list in ["allowedHosts = [\"a.example\"]", "allowedDomains = []"] {
        assert_eq!(toml(&format!("{ON}{list}\n")).unwrap().warnings, Vec::<String>::new());
    }
}

#[test]
fn a_full_network_section_serialises_and_loads_again_as_the_same() {
    let text = "allowedHosts = [\"a.example:443\"]\nallowedDomains = []\ndeniedDomains = [\"*:25\"]\n\
                allowedPorts = [443]\nallowedAddresses = [\"10.0.0.0/8\"]\nverifyServerName = false\n\
                proxyVariables = false\npublish = [\"8080\", \"0:80\", 81]\nmaxConnections = 0\nmaxDNSQueries = 5\n\
                resolve = { \"a.example\" = \"10.0.0.1\", \"b.example\" = [\"::1\", \"127.0.0.1\"] }\n";
    let policy = toml(&format!("{ON}{text}")).unwrap().policy;
    assert_eq!(policy.network.publish[1], Publish { outside: 0, inside: 80 });
    assert_eq!(policy.network.resolve["b.example"].0.len(), 2);
    assert_eq!(json(&serde_json::to_string(&policy).unwrap()).unwrap().policy, policy);
    assert_eq!(toml(&::toml::to_string(&policy).unwrap()).unwrap().policy, policy);
}

#[test]
fn what_is_left_out_is_not_written_out() {
    let written = serde_json::to_value(Policy::default()).unwrap();
    let keys: Vec<&String> = written["network"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["allowNetwork", "allowedHosts", "allowedPorts"]);
}
