//! What is wrong with a policy file, where, and what to do about it.

use std::{fmt, path::PathBuf};

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Warning,
    /// The policies are not put in force as they stand.
    Error,
}

/// Line and column count from one, the column in characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    pub file: PathBuf,
    pub line: Option<usize>,
    pub column: Option<usize>,
    pub severity: Severity,
    pub message: String,
    pub hint: Option<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.file.display())?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(out, ":{number}")?;
        }
        write!(out, ": {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(out, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Policies that are not put in force, with everything that is wrong with them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.render())]
pub struct Refused {
    pub diagnostics: Vec<Diagnostic>,
}

impl Refused {
    fn render(&self) -> String {
        let errors = self.diagnostics.iter().filter(|found| found.severity == Severity::Error);
        errors.map(Diagnostic::to_string).collect::<Vec<_>>().join("\n")
    }
}

pub(super) fn any_error(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|found| found.severity == Severity::Error)
}

/// A foreign text for messages: short, in one line, and without what moves a terminal's cursor.
pub(super) fn printable(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut shown = String::new();
    for letter in text.chars().take(LONGEST) {
        match letter {
            '"' | '\'' | '\\' => shown.push(letter),
            other => shown.extend(other.escape_debug()),
        }
    }
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// Line and column of a byte of a text.
pub(super) fn position(text: &str, offset: usize) -> (usize, usize) {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = text.get(..offset).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        assert_eq!(position("ab\ncd", 0), (1, 1));
        assert_eq!(position("ab\ncd", 4), (2, 2));
        assert_eq!(position("ä\nß;", 4), (2, 1));
        assert_eq!(position("ab", 99), (1, 3));
    }

    #[test]
    fn foreign_text_is_short_and_harmless() {
        assert_eq!(printable("it's \"ä\""), "it's \"ä\"");
        assert_eq!(printable("a\n\u{1b}[2J\u{202e}"), "a\\n\\u{1b}[2J\\u{202e}");
        assert_eq!(printable(&"x".repeat(1 << 20)).chars().count(), 201);
    }

    #[test]
    fn a_diagnostic_reads_like_a_compilers() {
        let found = Diagnostic {
            file: "git.cedar".into(),
            line: Some(3),
            column: Some(5),
            severity: Severity::Error,
            message: "no".into(),
            hint: Some("yes".into()),
        };
        assert_eq!(found.to_string(), "git.cedar:3:5: no\n  hint: yes");
    }
}
