//! Names that look as if they carried data: what a DNS tunnel asks for differs from what a program asks for.
//!
//! A guess for the log, not a verdict. Generated names of clouds (32 hexadecimal digits, a UUID, the
//! identifier of a distribution) stay below the limits; those who hide data stay below them only by
//! sending little of it with each question, or by dressing it as Punycode, which is judged by length alone.

use std::fmt;

/// Longer labels hold more than any identifier in use.
const MAX_LABEL: usize = 40;
const MAX_NAME: usize = 120;
const MAX_LABELS: usize = 10;
/// Shorter labels say nothing about where they come from.
const MIN_RANDOM_LABEL: usize = 12;
/// How many random characters a name may have: those of one hash or UUID in hexadecimal, ...
const MAX_HEX: usize = 32;
/// ... or fewer of a richer alphabet. Base32 puts 17 bytes into one more than this.
const MAX_RANDOM: usize = 27;
/// The entropy of random text, as a part of the most that text of its length can have. Measured: of random
/// base32 with 28 characters one in a hundred is below 0.77.
const RANDOM_ENTROPY: f64 = 0.75;
/// In random text every few characters a letter meets a digit; in words and numbers joined by hyphens rarely.
const CHARACTERS_PER_CHANGE: usize = 8;
/// Bits per letter that words do not reach in a label.
const LETTERS_ENTROPY: f64 = 4.2;

/// What is unusual about a name, with the number that shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspicion {
    /// The bytes of its longest label.
    LongLabel(usize),
    /// Its bytes.
    LongName(usize),
    /// How many labels it has.
    ManyLabels(usize),
    /// The bits that its random-looking labels may carry.
    Random(usize),
}

impl fmt::Display for Suspicion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Suspicion::LongLabel(bytes) => write!(f, "a label of {bytes} bytes"),
            Suspicion::LongName(bytes) => write!(f, "a name of {bytes} bytes"),
            Suspicion::ManyLabels(count) => write!(f, "{count} labels"),
            Suspicion::Random(bits) => write!(f, "labels that may carry {bits} bits of data"),
        }
    }
}

/// What is unusual about `name`, a name as text with dots between its labels.
pub fn suspicion(name: &str) -> Option<Suspicion> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if is_reverse(name) {
        return None;
    }
    let longest = name.split('.').map(str::len).max().unwrap_or_default();
    if longest > MAX_LABEL {
        return Some(Suspicion::LongLabel(longest));
    }
    if name.len() > MAX_NAME {
        return Some(Suspicion::LongName(name.len()));
    }
    let labels = name.split('.').count();
    if labels > MAX_LABELS {
        return Some(Suspicion::ManyLabels(labels));
    }
    let (mut hex, mut other, mut bits) = (0, 0, 0.0);
    for label in name.split('.') {
        match nature(label) {
            Nature::Plain => continue,
            Nature::Hex(size) => hex += size,
            Nature::Random(size) => other += size,
        }
        let text = letters_and_digits(label);
        bits += entropy(&text) * size(&text);
    }
    let random = if other == 0 { hex > MAX_HEX } else { hex + other > MAX_RANDOM };
    random.then_some(Suspicion::Random(bits.round() as usize))
}

/// What a label is made of; the number is that of its letters and digits.
enum Nature {
    Plain,
    Hex(usize),
    Random(usize),
}

fn nature(label: &str) -> Nature {
    // Punycode mixes letters and digits by itself.
    if label.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("xn--")) {
        return Nature::Plain;
    }
    let text = letters_and_digits(label);
    if text.len() < MIN_RANDOM_LABEL {
        return Nature::Plain;
    }
    let changes =
        text.iter().zip(text.iter().skip(1)).filter(|(a, b)| a.is_ascii_digit() != b.is_ascii_digit());
    let mixed = changes.count() * CHARACTERS_PER_CHANGE >= text.len();
    let spread = entropy(&text) >= RANDOM_ENTROPY * size(&text).min(32.0).log2();
    let letters: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_digit()).collect();
    if mixed && text.iter().all(u8::is_ascii_hexdigit) {
        // Of 16 digits, so below what a richer alphabet has; zeros in a row are no data.
        return if entropy(&text) >= RANDOM_ENTROPY * 4.0 { Nature::Hex(text.len()) } else { Nature::Plain };
    }
    if mixed && spread || letters.len() > MAX_RANDOM && entropy(&letters) >= LETTERS_ENTROPY {
        return Nature::Random(text.len());
    }
    Nature::Plain
}

/// A label without its hyphens and in lower case: resolvers mix the case of what they ask for.
fn letters_and_digits(label: &str) -> Vec<u8> {
    let joins = |byte: &u8| matches!(byte, b'-' | b'_');
    label.bytes().filter(|byte| !joins(byte)).map(|byte| byte.to_ascii_lowercase()).collect()
}

/// Bits per byte, after Shannon.
fn entropy(text: &[u8]) -> f64 {
    let mut sorted = text.to_vec();
    sorted.sort_unstable();
    let share = |group: &[u8]| size(group) / size(text);
    sorted.chunk_by(|a, b| a == b).map(|group| -share(group) * share(group).log2()).sum()
}

fn size(text: &[u8]) -> f64 {
    text.len() as f64
}

/// The name of an IPv6 address: 32 labels, each a hexadecimal digit.
fn is_reverse(name: &str) -> bool {
    let is_digit = |label: &str| label.len() == 1 && label.bytes().all(|byte| byte.is_ascii_hexdigit());
    let Some((digits, zone)) =
        name.len().checked_sub(".ip6.arpa".len()).and_then(|at| name.split_at_checked(at))
    else {
        return false;
    };
    zone.eq_ignore_ascii_case(".ip6.arpa")
        && digits.split('.').count() <= 32
        && digits.split('.').all(is_digit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_programs_ask_for_are_not_suspicious() {
        for name in [
            "",
            ".",
            "localhost",
            "github.com.",
            "d111111abcdef8.cloudfront.net",
            "ec2-203-0-113-25.compute-1.amazonaws.com",
            "r3---sn-4g5e6nez.googlevideo.com",
            "rr4---sn-h5qzened.gvt1.com",
            "xn--vermgensberatung-pwb.example",
            "xn--fiqs8s.xn--p1ai",
            "xn--80aswgdebafk2ag6a2acdh0a6b4c.xn--p1ai",
            "3f2504e0-4f89-41d3-9a0c-0305e82c3301.example.com",
            "3f2504e04f8941d39a0c0305e82c3301.safeframe.googlesyndication.com",
            "prod-registry-k8s-io-us-west-2.s3.dualstack.us-west-2.amazonaws.com",
            "internal-my-load-balancer-1234567890.eu-west-1.elb.amazonaws.com",
            "my-super-long-application-name-prod.azurewebsites.net",
            "my-project-staging-frontend-service-v2.herokuapp.com",
            "objects-origin.githubusercontent.com",
            "productionresultssa0.blob.core.windows.net",
            "ep-cool-darkness-123456-pooler.us-east-2.aws.neon.tech",
            "mycluster.abcdefghijkl.us-east-1.rds.amazonaws.com",
            "search-logs-uzxv7qk3p2j4m6n8.eu-west-1.es.amazonaws.com",
            "pkg-containers.githubusercontent.com",
            "_ldap._tcp.default-first-site-name._sites.dc._msdcs.corp.example.com",
            "7.2.0.192.in-addr.arpa",
            "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
        ] {
            assert_eq!(suspicion(name), None, "{name}");
        }
    }

    #[test]
    fn labels_that_carry_data_are_suspicious() {
        for name in [
            // Base32, one label and two.
            "mzxw6ytboi3tqojqgeztmnbqhe2tmnzy.t.example.com",
            "gezdgnbvgy3tqojq2k7x.mfrggzdfmztwq2lk5q3a.t.example.com",
            // Base64.
            "QWxhZGRpbjpvcGVuIHNlc2FtZTEyMzQ1Njc4.t.example.com",
            // Hexadecimal, more than a hash has.
            "3bdb0134c1ad3d0a8f2e.77aa01c9e45b6d20f1e3.t.example.com",
            // No digits at all.
            "qzjxkvwpfhgybtmdrcnlsaeuioqxzvjk.t.example.com",
        ] {
            assert!(
                matches!(suspicion(name), Some(Suspicion::Random(90..))),
                "{name}: {:?}",
                suspicion(name)
            );
        }
    }

    #[test]
    fn length_alone_is_suspicious() {
        let label = "a".repeat(41);
        assert_eq!(suspicion(&format!("{label}.example.com")), Some(Suspicion::LongLabel(41)));
        assert_eq!(suspicion(&format!("{}.example.com", "a".repeat(40))), None);
        let name = ["a".repeat(39), "b".repeat(39), "c".repeat(40)].join(".");
        assert_eq!(suspicion(&name), None);
        assert_eq!(suspicion(&format!("{name}.")), None);
        assert_eq!(suspicion(&format!("{name}.d")), Some(Suspicion::LongName(122)));
    }

    #[test]
    fn many_labels_are_suspicious_unless_they_are_an_address() {
        assert_eq!(suspicion("a.b.c.d.e.f.g.h.i.example"), None);
        assert_eq!(suspicion("a.b.c.d.e.f.g.h.i.example.com"), Some(Suspicion::ManyLabels(11)));
        assert_eq!(suspicion("a.b.c.d.e.f.g.h.i.1.2.ip6.arpa"), Some(Suspicion::ManyLabels(13)));
    }

    #[test]
    fn a_name_is_judged_alike_in_any_case() {
        let name = "mzxw6ytboi3tqojqgeztmnbqhe2tmnzy.t.example.com";
        assert_eq!(suspicion(&name.to_uppercase()), suspicion(name));
    }

    proptest! {
        #[test]
        fn any_text_gets_an_answer(name in ".{0,300}") {
            let _ = suspicion(&name);
        }

        #[test]
        fn a_uuid_is_never_suspicious(uuid in "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}") {
            prop_assert_eq!(suspicion(&format!("{uuid}.example.com")), None);
        }
    }

    #[test]
    fn nearly_every_label_of_random_base32_is_suspicious() {
        // A linear congruential generator (Knuth): the same labels on every run.
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b"abcdefghijklmnopqrstuvwxyz234567"[(state >> 59) as usize])
        };
        let found = (0..1000).filter(|_| {
            let label: String = (0..36).map(|_| next()).collect();
            suspicion(&format!("{label}.t.example.com")).is_some()
        });
        let found = found.count();
        assert!(found > 950, "{found} of 1000");
    }
}
