//! Questions to a log: which events are meant, decided from as few bytes of a line as possible.
//!
//! Most lines are turned away by their first two hundred bytes, without reading any JSON. Nothing is assumed
//! about the order of times: clocks are set back, and a search by halves would then miss events.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use memchr::memmem;

use crate::event::EventKind;
use crate::file::{self, Backwards, Found};
use crate::follow::RawFollow;
use crate::reader::ReadError;
use crate::segment;
use crate::view::{Facts, Header, Severity, View, has_severity_by_kind};

/// Which events are meant. What is not set is not asked; several that are set hold together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// From this moment on, in milliseconds since the epoch.
    pub since: Option<u64>,
    /// Before this moment.
    pub until: Option<u64>,
    /// The beginning of a sandbox id.
    pub sandbox: Option<String>,
    /// One of these.
    pub kinds: Vec<EventKind>,
    /// At least so grave; what has no severity is not meant.
    pub severity: Option<Severity>,
    pub host: Option<HostPattern>,
    /// This path, or anything below it.
    pub path: Option<String>,
    /// Events that name this tool (by its own name, or as `SERVER/TOOL`), and all events of the sandboxes made
    /// for it.
    pub tool: Option<String>,
}

/// A name, or `*.domain` for everything below a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    Exactly(String),
    Below(String),
}

impl From<&str> for HostPattern {
    fn from(text: &str) -> Self {
        let name = text.trim_end_matches('.').to_ascii_lowercase();
        match name.strip_prefix('*') {
            Some(domain) if domain.starts_with('.') => HostPattern::Below(domain.to_owned()),
            _ => HostPattern::Exactly(name),
        }
    }
}

impl HostPattern {
    fn matches(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        match self {
            HostPattern::Exactly(name) => host == *name,
            HostPattern::Below(domain) => host.len() > domain.len() && host.ends_with(domain.as_str()),
        }
    }
}

/// Whether a path is another or lies below it.
fn is_at_or_below(path: &str, above: &str) -> bool {
    let above = above.trim_end_matches('/');
    path.trim_end_matches('/') == above || path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

/// A filter at work.
#[derive(Debug)]
pub struct Matcher {
    filter: Filter,
    sandboxes_of_tool: HashSet<String>,
    /// One of each must be there.
    needles: Vec<Vec<memmem::Finder<'static>>>,
    names_severity: Option<memmem::Finder<'static>>,
    names_tool: [memmem::Finder<'static>; 2],
}

impl Matcher {
    /// Made for one log: if the filter asks for a tool, it is read for the sandboxes that were made for it. What
    /// is made later is learnt when it is looked at.
    pub fn new(filter: Filter, log: &Path) -> Result<Self, ReadError> {
        let tool = filter.tool.clone();
        let mut matcher = Self::unlearned(filter);
        if tool.is_some() {
            let kinds = vec![EventKind::SandboxCreated];
            let mut created = Self::unlearned(Filter { tool, kinds, ..Filter::default() });
            forwards(&mut RawFollow::open(log)?, &mut created, |_| Then::GoOn);
            matcher.sandboxes_of_tool = created.sandboxes_of_tool;
        }
        Ok(matcher)
    }

    fn unlearned(filter: Filter) -> Self {
        // A line without these keys cannot be meant. Keys are written without escapes.
        let mut needles = Vec::new();
        let key = |text: &'static [u8]| memmem::Finder::new(text);
        let names_severity = filter.severity.map(|_| key(b"\"severity\":\""));
        needles.extend(filter.path.as_ref().map(|_| vec![key(b"\"path\":\"")]));
        needles.extend(filter.host.as_ref().map(|_| vec![key(b"\"host\":\""), key(b"\"name\":\"")]));
        let names_tool = [key(b"\"tool\":\""), key(b"\"toolName\":\"")];
        Self { filter, sandboxes_of_tool: HashSet::new(), needles, names_severity, names_tool }
    }

    /// The event of a line, if it is meant. An error means that the line is no event.
    ///
    /// A line that its beginning turns away is not looked at any further.
    pub fn look<'a>(&mut self, line: &'a [u8]) -> Result<Option<View<'a>>, serde_json::Error> {
        if let Some(header) = Header::of(line)
            && !self.may_be_meant(line, &header)
        {
            return Ok(None);
        }
        let view = View::of(line)?;
        let asks_details = self.filter.severity.is_some()
            || self.filter.host.is_some()
            || self.filter.path.is_some()
            || self.filter.tool.is_some();
        let facts = if asks_details { view.facts()? } else { Facts::default() };
        let of_tool = self.is_of_tool(&view.sandbox_id, view.event, &facts);
        let meant = of_tool
            && self.by_header(view.sandbox_id.as_bytes(), view.timestamp, view.event)
            && self.by_facts(&facts);
        Ok(meant.then_some(view))
    }

    fn may_be_meant(&self, line: &[u8], header: &Header<'_>) -> bool {
        if self.filter.tool.is_some() {
            let named = self.names_tool.iter().any(|key| key.find(line).is_some());
            let known =
                || std::str::from_utf8(header.sandbox_id).is_ok_and(|id| self.sandboxes_of_tool.contains(id));
            if !named && !known() {
                return false;
            }
            // Which sandboxes belong to the tool is to be learnt, whatever else is asked.
            if named && header.kind == EventKind::SandboxCreated {
                return true;
            }
        }
        let holds = |any: &Vec<memmem::Finder<'_>>| any.iter().any(|needle| needle.find(line).is_some());
        let may_be_grave =
            |key: &memmem::Finder<'_>| has_severity_by_kind(header.kind) || key.find(line).is_some();
        self.by_header(header.sandbox_id, header.timestamp, header.kind)
            && self.needles.iter().all(holds)
            && self.names_severity.as_ref().is_none_or(may_be_grave)
    }

    fn by_header(&self, sandbox: &[u8], timestamp: u64, kind: EventKind) -> bool {
        let filter = &self.filter;
        filter.since.is_none_or(|since| timestamp >= since)
            && filter.until.is_none_or(|until| timestamp < until)
            && filter.sandbox.as_ref().is_none_or(|prefix| sandbox.starts_with(prefix.as_bytes()))
            && (filter.kinds.is_empty() || filter.kinds.contains(&kind))
    }

    fn by_facts(&self, facts: &Facts<'_>) -> bool {
        let filter = &self.filter;
        filter.severity.is_none_or(|least| facts.severity.is_some_and(|severity| severity >= least))
            && filter.host.as_ref().is_none_or(|host| facts.host.as_ref().is_some_and(|it| host.matches(it)))
            && filter
                .path
                .as_ref()
                .is_none_or(|path| facts.path.as_ref().is_some_and(|it| is_at_or_below(it, path)))
    }

    fn is_of_tool(&mut self, sandbox: &str, kind: EventKind, facts: &Facts<'_>) -> bool {
        let Some(tool) = &self.filter.tool else { return true };
        let named = facts.tool.as_ref().is_some_and(|name| {
            let of_server = facts.server.as_ref().and_then(|server| tool.strip_prefix(server.as_ref()));
            name == tool || of_server.and_then(|rest| rest.strip_prefix('/')) == Some(name)
        });
        if named && kind == EventKind::SandboxCreated && !sandbox.is_empty() {
            self.sandboxes_of_tool.insert(sandbox.to_owned());
        }
        named || self.sandboxes_of_tool.contains(sandbox)
    }
}

/// An answer: an event, and its line as it stands in the log.
#[derive(Debug)]
pub struct Hit<'a> {
    pub text: &'a [u8],
    pub view: View<'a>,
}

/// Whether to go on after a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    GoOn,
    Stop,
}

/// What a query is about to hand out.
pub enum Answer<'a> {
    Hit(Hit<'a>),
    /// A line could not be read; the others follow unless [`ReadError::is_final`].
    Unreadable(ReadError),
}

/// Hands out what is meant, from the oldest to the newest, and goes on where `follow` stands.
pub fn forwards(follow: &mut RawFollow, matcher: &mut Matcher, mut each: impl FnMut(Answer<'_>) -> Then) {
    while let Some(line) = follow.next_line() {
        let then = match line {
            Err(error) => each(Answer::Unreadable(error)),
            Ok(raw) => match matcher.look(raw.text) {
                Ok(None) => continue,
                Ok(Some(view)) => each(Answer::Hit(Hit { text: raw.text, view })),
                Err(source) => each(Answer::Unreadable(ReadError::NotAnEvent {
                    line: raw.line,
                    path: raw.file.to_owned(),
                    source,
                })),
            },
        };
        if then == Then::Stop {
            return;
        }
    }
}

/// Hands out what is meant, from the newest to the oldest.
pub fn backwards(
    log: &Path,
    matcher: &mut Matcher,
    mut each: impl FnMut(Answer<'_>) -> Then,
) -> Result<(), ReadError> {
    let failed = |source| ReadError::open(log, source);
    for (path, live) in files(log).map_err(failed)? {
        let file = match live.map_or_else(|| file::open_to_read(&path), Ok) {
            // Retention was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file.map_err(|source| ReadError::open(&path, source))?,
        };
        let broken = |source| ReadError::Io { line: 0, path: path.clone(), source };
        let size = file.metadata().map_err(broken)?.len();
        let mut lines = Backwards::new(file, size).map_err(broken)?;
        loop {
            let answer = match lines.next().map_err(broken)? {
                Found::End | Found::Partial => break,
                Found::TooLong => {
                    let line = line_at(&path, lines.offset()).map_err(broken)?;
                    Answer::Unreadable(ReadError::TooLong { line, path: path.clone() })
                }
                Found::Line => match matcher.look(lines.text()) {
                    Ok(None) => continue,
                    Ok(Some(view)) => Answer::Hit(Hit { text: lines.text(), view }),
                    Err(source) => {
                        let line = line_at(&path, lines.offset()).map_err(broken)?;
                        Answer::Unreadable(ReadError::NotAnEvent { line, path: path.clone(), source })
                    }
                },
            };
            if each(answer) == Then::Stop {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// All files of a log, the newest first. The one being written is opened: its name may come to mean another.
fn files(log: &Path) -> io::Result<Vec<(PathBuf, Option<File>)>> {
    loop {
        let live = match file::open_to_read(log) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            file => Some(file?),
        };
        let segments = segment::list(log)?;
        // Otherwise it was set aside between the two looks, and may be in both or in neither.
        if file::is_named(live.as_ref(), log)? {
            if live.is_none() && segments.is_empty() {
                return Err(io::ErrorKind::NotFound.into());
            }
            let live = live.map(|file| (log.to_owned(), Some(file)));
            let others = segments.into_iter().rev().map(|segment| (segment.path, None));
            return Ok(live.into_iter().chain(others).collect());
        }
    }
}

/// Which line of a file begins at an offset.
fn line_at(path: &Path, offset: u64) -> io::Result<u64> {
    let mut lines = file::Lines::new(file::open_to_read(path)?, offset);
    let mut line = 1;
    while !matches!(lines.next()?, Found::End | Found::Partial) {
        line += 1;
    }
    Ok(line)
}
