//! A JSON or TOML text as one tree in which every key and value knows where it stands. Syntax only:
//! what the keys mean is decided elsewhere, for a policy in `decode` and `check`.

use std::collections::HashSet;

use toml::de::{DeTable, DeValue};

use super::Fault;

/// A policy is three levels deep. The bound keeps hostile input from exhausting the stack.
const DEEPEST: usize = 32;

/// A value and its place.
#[derive(Debug)]
pub struct Node {
    /// Where the value begins, in bytes.
    pub offset: usize,
    pub value: Value,
}

#[derive(Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    Date,
    List(Vec<Node>),
    Table(Vec<Entry>),
}

#[derive(Debug)]
pub struct Entry {
    pub key: String,
    /// Where the key begins, in bytes.
    pub offset: usize,
    pub node: Node,
}

impl Node {
    /// The value under a key, or the element of a list by its number.
    pub fn child(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Table(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node),
            Value::List(items) => items.get(key.parse::<usize>().ok()?),
            _ => None,
        }
    }

    /// Where the value at `path` begins; list elements are named by their number. What was left out
    /// stands where its nearest ancestor does.
    pub fn offset_of(&self, path: &[&str]) -> usize {
        let mut node = self;
        for key in path {
            match node.child(key) {
                Some(child) => node = child,
                None => break,
            }
        }
        node.offset
    }

    /// The entries of the table at `path`; none where there is no table.
    pub fn entries(&self, path: &[&str]) -> &[Entry] {
        match path.iter().try_fold(self, |node, key| node.child(key)).map(|node| &node.value) {
            Some(Value::Table(entries)) => entries,
            _ => &[],
        }
    }
}

fn too_deep(offset: usize) -> Fault {
    Fault::at(offset, "nested too deeply")
}

pub fn from_toml(text: &str) -> Result<Node, Fault> {
    let root = DeTable::parse(text).map_err(|error| Fault {
        offset: error.span().map(|span| span.start),
        message: format!("not valid TOML: {}", error.message()),
        hint: None,
    })?;
    table_node(0, root.get_ref(), 0)
}

fn table_node(offset: usize, table: &DeTable<'_>, depth: usize) -> Result<Node, Fault> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        entries.push(Entry {
            key: key.get_ref().to_string(),
            offset: key.span().start,
            node: toml_node(value.span().start, value.get_ref(), depth + 1)?,
        });
    }
    // The toml crate sorts keys by name; errors are reported in the order of the document.
    entries.sort_by_key(|entry| entry.offset);
    Ok(Node { offset, value: Value::Table(entries) })
}

fn toml_node(offset: usize, value: &DeValue<'_>, depth: usize) -> Result<Node, Fault> {
    if depth > DEEPEST {
        return Err(too_deep(offset));
    }
    let value = match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            if let Ok(unsigned) = u64::from_str_radix(number.as_str(), number.radix()) {
                Value::Unsigned(unsigned)
            } else if let Ok(signed) = i64::from_str_radix(number.as_str(), number.radix()) {
                Value::Signed(signed)
            } else {
                return Err(Fault::at(offset, format!("the number {number} is too large")));
            }
        }
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(items) => Value::List(
            items
                .iter()
                .map(|item| toml_node(item.span().start, item.get_ref(), depth + 1))
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => return table_node(offset, table, depth),
    };
    Ok(Node { offset, value })
}

pub fn from_json(text: &str) -> Result<Node, Fault> {
    // serde_json judges the syntax, iteratively and with good messages; the scanner only finds places.
    serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| {
        let full = error.to_string();
        let message = full.split(" at line ").next().unwrap_or(&full);
        Fault {
            offset: Some(offset_of_line(text, error.line(), error.column())),
            message: format!("not valid JSON: {message}"),
            hint: None,
        }
    })?;
    Scanner { text, at: 0 }.value(0)
}

/// JSON as people write it in editors: comments, and a comma after the last element, are passed over.
pub fn from_jsonc(text: &str) -> Result<Node, Fault> {
    from_json(&without_comments(text)?)
}

/// The same text with blanks for comments and for commas before a closing bracket, so that every place stays
/// where it was.
fn without_comments(text: &str) -> Result<String, Fault> {
    let bytes = text.as_bytes();
    let mut clean = bytes.to_vec();
    let mut blank = |from: usize, to: usize| {
        for byte in clean.iter_mut().take(to).skip(from).filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
    };
    let find = |from: usize, end: &str| text.get(from..).and_then(|rest| rest.find(end)).map(|at| from + at);
    let mut comma = None;
    // Only what comes after an element is a last comma.
    let mut after_element = false;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (byte, bytes.get(at + 1)) {
            (b'"', _) => {
                (comma, after_element) = (None, true);
                at = end_of_string(bytes, at);
                continue;
            }
            (b'/', Some(b'/')) => {
                let end = find(at, "\n").unwrap_or(bytes.len());
                blank(at, end);
                at = end;
                continue;
            }
            (b'/', Some(b'*')) => {
                let Some(end) = find(at + 2, "*/") else {
                    return Err(Fault::at(at, "this comment has no end").hint("end it with `*/`"));
                };
                blank(at, end + 2);
                at = end + 2;
                continue;
            }
            (b',', _) => (comma, after_element) = (after_element.then_some(at), false),
            (b'}' | b']', _) => {
                if let Some(comma) = comma.take() {
                    blank(comma, comma + 1);
                }
                after_element = true;
            }
            (b' ' | b'\t' | b'\r' | b'\n', _) => {}
            (b'{' | b'[' | b':', _) => (comma, after_element) = (None, false),
            _ => (comma, after_element) = (None, true),
        }
        at += 1;
    }
    String::from_utf8(clean).map_err(|_| Fault::at(0, "not UTF-8"))
}

/// Behind the closing quotation mark, or the end of the text.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The byte offset of a line and a column counted in bytes, both from one.
fn offset_of_line(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (start + column.saturating_sub(1)).min(text.len())
}

/// Walks over JSON that is known to be valid.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl Scanner<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.rest();
        let skipped = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        self.at += skipped;
        self.rest().bytes().next()
    }

    fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(Fault::at(self.at, format!("not valid JSON: expected `{}`", char::from(byte))))
    }

    /// Reads a list of things up to `end`.
    fn until(&mut self, end: u8, mut each: impl FnMut(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        self.at += 1;
        if self.peek() == Some(end) {
            self.at += 1;
            return Ok(());
        }
        loop {
            each(self)?;
            if self.peek() == Some(b',') {
                self.at += 1;
            } else {
                return self.expect(end);
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Fault> {
        let first = self.peek();
        let offset = self.at;
        if depth > DEEPEST {
            return Err(too_deep(offset));
        }
        let value = match first {
            Some(b'{') => {
                let mut entries = Vec::new();
                let mut seen = HashSet::new();
                self.until(b'}', |scanner| {
                    scanner.peek();
                    let offset = scanner.at;
                    let key = scanner.string()?;
                    if !seen.insert(key.clone()) {
                        return Err(Fault::at(offset, format!("the key `{key}` occurs twice"))
                            .hint("remove one of the two: it would be unclear which of them counts"));
                    }
                    scanner.expect(b':')?;
                    let node = scanner.value(depth + 1)?;
                    entries.push(Entry { key, offset, node });
                    Ok(())
                })?;
                Value::Table(entries)
            }
            Some(b'[') => {
                let mut items = Vec::new();
                self.until(b']', |scanner| {
                    items.push(scanner.value(depth + 1)?);
                    Ok(())
                })?;
                Value::List(items)
            }
            Some(b'"') => Value::Text(self.string()?),
            _ => self.word()?,
        };
        Ok(Node { offset, value })
    }

    fn string(&mut self) -> Result<String, Fault> {
        let offset = self.at;
        let mut escaped = false;
        let length = self.rest().bytes().skip(1).position(|byte| {
            let closes = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            closes
        });
        // The two quotation marks are not part of the counted length.
        let end = length.map_or(self.text.len(), |length| offset + length + 2);
        self.at = end;
        serde_json::from_str(self.text.get(offset..end).unwrap_or_default())
            .map_err(|_| Fault::at(offset, "not valid JSON: this string has an invalid escape"))
    }

    fn word(&mut self) -> Result<Value, Fault> {
        let offset = self.at;
        let rest = self.rest();
        let length = rest.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(rest.len());
        self.at += length;
        let word = self.text.get(offset..self.at).unwrap_or_default();
        match word {
            "null" => return Ok(Value::Null),
            "true" => return Ok(Value::Bool(true)),
            "false" => return Ok(Value::Bool(false)),
            _ => {}
        }
        if let Ok(unsigned) = word.parse() {
            return Ok(Value::Unsigned(unsigned));
        }
        if let Ok(signed) = word.parse() {
            return Ok(Value::Signed(signed));
        }
        match word.parse::<f64>() {
            Ok(float) if float.is_finite() => Ok(Value::Float(float)),
            _ => Err(Fault::at(offset, "this number is too large")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_know_where_a_value_stands() {
        let json = "{\"a\": {\"b\": [1, \"x\\\"y\", {\"c\": 2}]}, \"d\": true}";
        let tree = from_json(json).unwrap();
        assert_eq!(tree.offset_of(&["a", "b", "1"]), json.find("\"x").unwrap());
        assert_eq!(tree.offset_of(&["a", "b", "2", "c"]), json.find('2').unwrap());
        assert_eq!(tree.entries(&[])[1].offset, json.find("\"d\"").unwrap());

        let toml = "d = true\n[a]\nb = [1, \"x\", { c = 2 }]\n";
        let tree = from_toml(toml).unwrap();
        assert_eq!(tree.offset_of(&["a", "b", "1"]), toml.find("\"x").unwrap());
        assert_eq!(tree.offset_of(&["a", "b", "2", "c"]), toml.find('2').unwrap());
        assert_eq!(tree.entries(&["a"])[0].offset, toml.find("b =").unwrap());
    }

    #[test]
    fn comments_and_last_commas_are_blanks() {
        let text =
            "{ // ü \"x\": {\n \"a\": [1, /* , ] */ 2 , ], \"b\": \"// no, /* comment */ ,]\\\"\", // end\n}";
        let tree = from_jsonc(text).unwrap();
        assert_eq!(tree.offset_of(&["a", "1"]), text.find("2 ,").unwrap());
        assert!(
            matches!(&tree.child("b").unwrap().value, Value::Text(b) if b == "// no, /* comment */ ,]\"")
        );
        for wrong in
            ["{ /* ", "[1,,]", "[,]", "{,}", "{} /", "[1 /*/ 2]", "{\"a\": 1 \"b\": 2,}", "[\"a", ","]
        {
            assert!(from_jsonc(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error_in_both_formats() {
        for depth in [40, 100, 100_000] {
            let json = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            assert!(from_json(&json).is_err());
            assert!(from_json(&"{\"a\":".repeat(depth)).is_err());
            assert!(from_toml(&format!("a = {json}")).is_err());
            assert!(from_toml(&format!("[{}a]", "a.".repeat(depth))).is_err());
        }
    }
}
