//! Text of a stranger, written so that a person sees all of it and the terminal obeys none of it. Whoever wrote the
//! arguments of a call may want it to look like another one.

use std::fmt::Write as _;

use lazaret_gate::escalation::is_hidden;
use serde_json::Value;

/// So many spaces in a row are shown as such: more of them could push the rest out of sight.
const SPACES: usize = 16;
/// So many marks can stand on one letter: more of them could cover the lines above.
const MARKS: usize = 2;

/// On one line: what is hidden is written as `\u{202e}`.
pub fn text(text: &str) -> String {
    written(text, |hidden, out| {
        let _ = write!(out, "\\u{{{:x}}}", u32::from(hidden));
    })
}

/// JSON with its strings escaped further, by JSON's own rules: the same value, and nothing hidden in it.
pub fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // Between strings there is but white space.
        if is_hidden(c) && c != '\n' { escape(c, &mut out) } else { out.push(c) }
    }
    out
}

/// JSON for a person: indented, its strings as [`escaped`], long gaps in them told.
pub fn pretty(value: &Value) -> Vec<String> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.lines()
        .map(|line| {
            let body = line.trim_start_matches(' ');
            let indent = line.len() - body.len();
            format!("{}{}", " ".repeat(indent), written(body, escape))
        })
        .collect()
}

fn escape(c: char, out: &mut String) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        let _ = write!(out, "\\u{unit:04x}");
    }
}

fn written(text: &str, escape: impl Fn(char, &mut String)) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut spaces, mut marks) = (0, 0);
    for c in text.chars() {
        if c == ' ' {
            spaces += 1;
            continue;
        }
        gap(spaces, &mut out);
        spaces = 0;
        marks = if is_mark(c) { marks + 1 } else { 0 };
        if is_hidden(c) || marks > MARKS { escape(c, &mut out) } else { out.push(c) }
    }
    gap(spaces, &mut out);
    out
}

fn gap(spaces: usize, out: &mut String) {
    if spaces > SPACES {
        let _ = write!(out, "⟨{spaces} spaces⟩");
    } else {
        out.extend(std::iter::repeat_n(' ', spaces));
    }
}

/// Marks that stand on the letter before them.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}' | '\u{610}'..='\u{61a}'
        | '\u{64b}'..='\u{65f}' | '\u{e31}' | '\u{e34}'..='\u{e3a}' | '\u{e47}'..='\u{e4e}' | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{302a}'..='\u{302f}' | '\u{fe20}'..='\u{fe2f}')
}

/// Is there anything in it that is not shown as it is?
pub fn has_hidden(value: &Value) -> bool {
    match value {
        // A new line or a tabulator in a text is no trick, and escaped in any case.
        Value::String(text) => text.chars().any(|c| is_hidden(c) && !matches!(c, '\n' | '\t' | '\r')),
        Value::Array(items) => items.iter().any(has_hidden),
        Value::Object(map) => map.iter().any(|(key, value)| key.chars().any(is_hidden) || has_hidden(value)),
        _ => false,
    }
}

/// How many columns a text takes at most. Nobody knows what a terminal does with every character; too many are
/// counted rather than too few.
pub fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

fn columns(c: char) -> usize {
    match u32::from(c) {
        0x1100..=0x115f | 0x231a..=0x23ff | 0x25a0..=0x27bf | 0x2b00..=0x2bff | 0x2e80.. => 2,
        _ => 1,
    }
}

/// The beginning of a text, marked if it goes on.
pub fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += columns(c);
        if used > most {
            break;
        }
        out.push(c);
    }
    if most > 0 {
        out.push('…');
    }
    out
}

/// A line as several that are no wider; those that go on are indented as the first, and a little more.
pub fn wrap(line: &str, most: usize) -> Vec<String> {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let indent = (indent + 2).min(most / 2);
    let mut lines = Vec::new();
    let (mut current, mut used) = (String::new(), 0);
    for c in line.chars() {
        if used + columns(c) > most && !current.is_empty() {
            lines.push(std::mem::replace(&mut current, " ".repeat(indent)));
            used = indent;
        }
        current.push(c);
        used += columns(c);
    }
    lines.push(current);
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_or_hide_is_written_out() {
        assert_eq!(
            text("a\u{1b}[2Jb\u{9b}c\u{202e}d\u{200b}\n"),
            r"a\u{1b}[2Jb\u{9b}c\u{202e}d\u{200b}\u{a}"
        );
        assert_eq!(text("ünïcödé 漢字"), "ünïcödé 漢字");
        let value = json!({ "p\u{200b}ath": "/srv/\u{202e}txt.exe\u{1b}[31m\u{7f}\u{e0041}", "n": [1] });
        let lines = pretty(&value);
        let joined = lines.join("\n");
        assert!(joined.chars().all(|c| c == '\n' || !is_hidden(c)), "{joined:?}");
        assert_eq!(serde_json::from_str::<Value>(&joined).unwrap(), value, "it still is the same");
        assert!(lines.iter().any(|line| line.contains(r#""p\u200bath": "/srv/\u202etxt.exe\u001b[31m"#)));
        assert_eq!(serde_json::from_str::<Value>(&escaped(&value.to_string())).unwrap(), value);
    }

    #[test]
    fn nothing_is_pushed_out_of_sight_or_covered() {
        assert_eq!(text(&format!("a{}b", " ".repeat(500))), "a⟨500 spaces⟩b");
        assert_eq!(text(&format!("a{}b", " ".repeat(16))), format!("a{}b", " ".repeat(16)));
        assert_eq!(text("e\u{301}\u{301}\u{301}"), "e\u{301}\u{301}\\u{301}");
        let gap = pretty(&json!({ "a": format!("x{}y", " ".repeat(99)) }));
        assert_eq!(gap, ["{", r#"  "a": "x⟨99 spaces⟩y""#, "}"]);
    }

    #[test]
    fn hidden_characters_are_noticed_and_new_lines_are_none() {
        assert!(has_hidden(&json!({ "a": ["x\u{202e}"] })));
        assert!(has_hidden(&json!({ "a\n": 1 })));
        assert!(!has_hidden(&json!({ "a": "two\nlines\tand é", "b": [1, null] })));
    }

    #[test]
    fn lines_are_never_wider_than_the_screen() {
        for line in ["  \"key\": \"a rather long value that goes on\"", "漢字漢字漢字漢字漢字漢字", ""]
        {
            for most in [4, 7, 20] {
                assert!(wrap(line, most).iter().all(|part| width(part) <= most), "{line} {most}");
                assert!(width(&cut(line, most)) <= most, "{line} {most}");
            }
        }
        assert_eq!(wrap("  abcdef", 6), ["  abcd", "   ef"]);
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
