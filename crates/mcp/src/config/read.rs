//! Values out of a [`Node`], each with an error at its own place.

use lazaret_policy::{
    load::{
        Fault,
        document::{Entry, Node, Value},
    },
    spelling,
    units::Bytes,
};

/// What a value is, for errors.
fn kind(node: &Node) -> &'static str {
    match &node.value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Unsigned(_) | Value::Signed(_) | Value::Float(_) => "a number",
        Value::Text(_) => "a text",
        Value::Date => "a date",
        Value::List(_) => "a list",
        Value::Table(_) => "an object",
    }
}

fn expected(node: &Node, key: &str, what: &str) -> Fault {
    Fault::at(node.offset, format!("{key}: expected {what}, found {}", kind(node)))
}

pub fn table<'a>(node: &'a Node, key: &str, what: &str) -> Result<&'a [Entry], Fault> {
    match &node.value {
        Value::Table(entries) => Ok(entries),
        _ => Err(expected(node, key, what)),
    }
}

/// A table in which every key must be known.
pub fn section<'a>(node: &'a Node, key: &str, known: &[&str]) -> Result<&'a [Entry], Fault> {
    let entries = table(node, key, "an object")?;
    for entry in entries {
        if !known.contains(&entry.key.as_str()) {
            let message = format!("{key}: unknown key `{}`", entry.key);
            return Err(Fault::at(entry.offset, message).hint(unknown(&entry.key, known)));
        }
    }
    Ok(entries)
}

/// What to do about a key that nobody knows.
pub fn unknown(key: &str, known: &[&str]) -> String {
    match spelling::nearest(key, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known here: {}", known.join(", ")),
    }
}

pub fn text<'a>(node: &'a Node, key: &str) -> Result<&'a str, Fault> {
    match &node.value {
        Value::Text(text) if text.contains('\0') => {
            Err(Fault::at(node.offset, format!("{key}: there is a NUL byte in it")))
        }
        Value::Text(text) => Ok(text),
        _ => Err(expected(node, key, "a text")),
    }
}

/// A text that says something.
pub fn filled<'a>(node: &'a Node, key: &str) -> Result<&'a str, Fault> {
    match text(node, key)? {
        blank if blank.trim().is_empty() => Err(Fault::at(node.offset, format!("{key} is empty"))),
        text => Ok(text),
    }
}

pub fn list<'a>(node: &'a Node, key: &str) -> Result<&'a [Node], Fault> {
    match &node.value {
        Value::List(items) => Ok(items),
        _ => Err(expected(node, key, "a list")),
    }
}

/// A list of texts, none of them empty.
pub fn texts(node: &Node, key: &str) -> Result<Vec<String>, Fault> {
    list(node, key)?.iter().map(|item| filled(item, key).map(str::to_owned)).collect()
}

pub fn flag(node: &Node, key: &str) -> Result<bool, Fault> {
    match node.value {
        Value::Bool(flag) => Ok(flag),
        _ => Err(expected(node, key, "true or false")),
    }
}

pub fn number(node: &Node, key: &str, from: u64, to: u64) -> Result<u64, Fault> {
    let number = match node.value {
        Value::Unsigned(number) => number,
        // JSON has one kind of number: 10.0 is ten.
        Value::Float(number) if number.fract() == 0.0 && (0.0..9e15).contains(&number) => number as u64,
        _ => return Err(expected(node, key, "a whole number")),
    };
    if (from..=to).contains(&number) {
        return Ok(number);
    }
    let message = format!("{key}: {number} is not between {from} and {to}");
    Err(Fault::at(node.offset, message).hint(format!("write a whole number from {from} to {to}")))
}

/// A size: a number of bytes, or a text with a unit.
pub fn bytes(node: &Node, key: &str, from: u64, to: u64) -> Result<u64, Fault> {
    let Value::Text(text) = &node.value else { return number(node, key, from, to) };
    let Bytes(size) = text.parse().map_err(|error| Fault::at(node.offset, format!("{key}: {error}")))?;
    if (from..=to).contains(&size) {
        return Ok(size);
    }
    Err(Fault::at(
        node.offset,
        format!("{key}: {} is not between {} and {}", Bytes(size), Bytes(from), Bytes(to)),
    ))
}

/// One of a few words.
pub fn choice<T: Copy>(node: &Node, key: &str, choices: &[(&str, T)]) -> Result<T, Fault> {
    let words = || choices.iter().map(|(word, _)| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
    let written = match &node.value {
        Value::Text(text) => text.as_str(),
        _ => return Err(expected(node, key, "a text").hint(format!("write one of {}", words()))),
    };
    choices.iter().find(|(word, _)| *word == written).map(|(_, choice)| *choice).ok_or_else(|| {
        Fault::at(node.offset, format!("{key}: unknown value `{written}`"))
            .hint(format!("write one of {}", words()))
    })
}
