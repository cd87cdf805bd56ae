//! The log of a session, for people: what servers write to standard error, and what we have to say that is no
//! audit event. Secrets of the configuration are masked; so is what looks like one.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// More than this is not written: a server must not fill the disk.
const MOST: u64 = 20 << 20;
const LONGEST_LINE: usize = 4096;
/// Shorter values occur by chance.
const SHORTEST_SECRET: usize = 6;

#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    inner: Mutex<Inner>,
    /// Longest first, so that no part of one stays.
    secrets: Vec<String>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    size: u64,
}

impl Journal {
    /// `secrets` never appear in it.
    pub fn open(path: &Path, secrets: impl IntoIterator<Item = String>) -> io::Result<Journal> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
            .open(path)?;
        let size = file.metadata()?.len();
        let mut secrets: Vec<String> =
            secrets.into_iter().filter(|secret| secret.len() >= SHORTEST_SECRET).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Ok(Journal { path: path.to_owned(), inner: Mutex::new(Inner { file, size }), secrets })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A line of ours.
    pub fn note(&self, text: &str) {
        for line in text.lines() {
            self.write("lazaret", line);
        }
    }

    /// A line of a server's standard error.
    pub fn line(&self, server: &str, line: &str) {
        self.write(server, line);
    }

    fn write(&self, who: &str, line: &str) {
        let line = self.masked(line);
        let time = now();
        let text = format!("{time} [{who}] {line}\n");
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.size > MOST {
            return;
        }
        let text = if inner.size + text.len() as u64 > MOST {
            format!("{time} [lazaret] this log has become too large; nothing more is written to it\n")
        } else {
            text
        };
        inner.size += text.len() as u64;
        if inner.size > MOST - LONGEST_LINE as u64 && text.contains("too large") {
            inner.size = MOST + 1;
        }
        let _ = inner.file.write_all(text.as_bytes());
    }

    /// Without the secrets that are known.
    pub fn unsecret(&self, value: &serde_json::Value) -> serde_json::Value {
        use serde_json::Value;
        match value {
            Value::String(text) => {
                let mut text = text.clone();
                for secret in &self.secrets {
                    if text.contains(secret.as_str()) {
                        text = text.replace(secret.as_str(), "***");
                    }
                }
                Value::String(text)
            }
            Value::Array(items) => items.iter().map(|item| self.unsecret(item)).collect(),
            Value::Object(members) => Value::Object(
                members.iter().map(|(key, value)| (key.clone(), self.unsecret(value))).collect(),
            ),
            plain => plain.clone(),
        }
    }

    /// Without secrets and control characters, cut at a bearable length.
    pub fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), "***");
            }
        }
        let mut text: String = lazaret_audit::redact::text(&text)
            .chars()
            .map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c })
            .collect();
        if text.len() > LONGEST_LINE {
            let mut end = LONGEST_LINE;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push('…');
        }
        text
    }
}

/// RFC 3339, UTC, with milliseconds.
pub fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_control_characters_do_not_get_into_the_log() {
        let path = std::env::temp_dir().join(format!("lazaret-journal-{}", uuid::Uuid::now_v7()));
        let secrets = ["hunter2hunter2".to_owned(), "hunter2hunter2extra".to_owned(), "x".to_owned()];
        let journal = Journal::open(&path, secrets).unwrap();
        journal.line("git", "token=hunter2hunter2extra \u{1b}[31mred and x");
        journal.note("one\ntwo");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("hunter2") && !text.contains("extra") && !text.contains('\u{1b}'), "{text}");
        assert!(text.contains("and x") && text.lines().count() == 3, "{text}");
        std::fs::remove_file(path).unwrap();
    }
}
