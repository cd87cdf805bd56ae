//! From a file or a text to a checked [`Policy`], with errors that name file, line and column. The steps
//! are read, parse (`document`), decode (`decode`) and check (`check`); the first fault ends them.

mod check;
mod decode;
pub mod document;

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use rustix::fs::{FileType, Mode, OFlags};

use crate::{Policy, profile};

/// A policy is a few kilobytes; whatever is larger is a mistake or an attack.
const LARGEST: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Toml,
}

impl Format {
    /// By the extension, and without a telling one by the first character.
    fn of(file: &Path, text: &str) -> Self {
        match file.extension().map(|extension| extension.to_ascii_lowercase()) {
            Some(extension) if extension == "json" => Format::Json,
            Some(extension) if extension == "toml" => Format::Toml,
            _ if text.trim_start_matches('\u{feff}').trim_start().starts_with('{') => Format::Json,
            _ => Format::Toml,
        }
    }
}

/// Why a policy was refused, and where. Line and column count from one, the column in characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.render())]
pub struct LoadError {
    pub file: PathBuf,
    pub line: Option<usize>,
    pub column: Option<usize>,
    pub message: String,
    pub hint: Option<String>,
}

impl LoadError {
    fn render(&self) -> String {
        let mut text = self.file.display().to_string();
        for number in [self.line, self.column].into_iter().flatten() {
            text += &format!(":{number}");
        }
        text += &format!(": {}", self.message);
        if let Some(hint) = &self.hint {
            text += &format!("\n  hint: {hint}");
        }
        text
    }

    pub fn unplaced(file: &Path, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let (message, hint) = (message.into(), Some(hint.into()));
        LoadError { file: file.to_owned(), line: None, column: None, message, hint }
    }
}

/// A policy that may be used, and what its author should know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    pub policy: Policy,
    /// Each begins with `file:line:column: `.
    pub warnings: Vec<String>,
}

/// An error at a byte of the text, not yet translated to line and column.
#[derive(Debug)]
pub struct Fault {
    pub offset: Option<usize>,
    pub message: String,
    pub hint: Option<String>,
}

impl Fault {
    pub fn at(offset: usize, message: impl Into<String>) -> Self {
        Fault { offset: Some(offset), message: message.into(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With the line and the column in the text it was found in.
    pub fn placed(self, text: &str, file: &Path) -> LoadError {
        let (line, column) = self.offset.map(|offset| position(text, offset)).unzip();
        LoadError { file: file.to_owned(), line, column, message: self.message, hint: self.hint }
    }
}

/// Reads and checks a policy file. Only regular files are read, and no more than 1 MiB.
pub fn load_file(file: &Path) -> Result<Loaded, LoadError> {
    let names: Vec<&str> = profile::builtin().iter().map(|profile| profile.name).collect();
    let missing = format!("check the path, or use a built-in profile: {}", names.join(", "));
    let text = read(file, Sort { noun: "a policy", largest: LARGEST, if_missing: &missing })?;
    parse(&text, Format::of(file, &text), file)
}

/// Checks a policy text; `file` is only the name that errors carry.
pub fn parse(text: &str, format: Format, file: &Path) -> Result<Loaded, LoadError> {
    // Some editors begin a file with a byte order mark, which JSON does not know.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(LoadError::unplaced(
            file,
            "the policy is empty",
            "an empty policy is more likely an accident than a decision: write at least \
             `isolationLevel`",
        ));
    }
    let outcome = (|| {
        let tree = match format {
            Format::Json => document::from_json(text)?,
            Format::Toml => document::from_toml(text)?,
        };
        let policy = decode::policy(&tree)?;
        let warnings = check::check(&policy, &tree)?;
        Ok::<_, Fault>((policy, warnings))
    })();
    match outcome {
        Ok((policy, warnings)) => {
            let place = |(offset, warning)| {
                let (line, column) = position(text, offset);
                format!("{}:{line}:{column}: {warning}", file.display())
            };
            Ok(Loaded { policy, warnings: warnings.into_iter().map(place).collect() })
        }
        Err(fault) => Err(fault.placed(text, file)),
    }
}

/// Line and column of a byte, from one, the column in characters.
pub fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.char_indices().take_while(|(at, _)| *at < offset);
    before.fold((1, 1), |(line, column), (_, c)| if c == '\n' { (line + 1, 1) } else { (line, column + 1) })
}

/// What sort of file is read, for what is said when it cannot be.
#[derive(Debug, Clone, Copy)]
pub struct Sort<'a> {
    /// With its article.
    pub noun: &'a str,
    pub largest: u64,
    /// What to do when it is not there.
    pub if_missing: &'a str,
}

/// The text of a file. Only regular files are read, and no more than is sensible.
pub fn read(file: &Path, sort: Sort<'_>) -> Result<String, LoadError> {
    // Without O_NONBLOCK the open of a FIFO would wait for somebody to write to it.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let handle = rustix::fs::open(file, flags, Mode::empty()).map_err(|error| match error {
        rustix::io::Errno::NOENT => LoadError::unplaced(file, "there is no such file", sort.if_missing),
        error => unreadable(file, error.into()),
    })?;
    let stat = rustix::fs::fstat(&handle).map_err(|error| unreadable(file, error.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        let message = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => "this is a directory",
            _ => "this is not a regular file",
        };
        let hint = format!("{} is a regular .toml or .json file", sort.noun);
        return Err(LoadError::unplaced(file, message, hint));
    }
    let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    if size <= sort.largest {
        // The file may grow, and files in /proc say they are empty: the limit counts what is read.
        File::from(handle)
            .take(sort.largest + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| unreadable(file, error))?;
    }
    if size > sort.largest || u64::try_from(bytes.len()).unwrap_or(u64::MAX) > sort.largest {
        let hint = format!("{} is a few kilobytes of text", sort.noun);
        return Err(LoadError::unplaced(file, format!("larger than {} MiB", sort.largest >> 20), hint));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        LoadError::unplaced(file, format!("not UTF-8 at byte {at}"), "save the file as UTF-8 text")
    })
}

fn unreadable(file: &Path, error: io::Error) -> LoadError {
    LoadError::unplaced(file, format!("cannot be read: {error}"), "check who may read the file")
}

/// The JSON Schema of a policy, for editors and for generated documentation.
pub fn json_schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Policy);
    schema.insert("title".to_owned(), "Lazaret sandbox policy".into());
    schema.to_value()
}

#[cfg(test)]
mod tests;
