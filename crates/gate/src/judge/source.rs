//! Where policies come from, and how they are replaced while they are in force: wholly or not at all.
//!
//! Nothing runs by itself here: whoever owns a [`Source`] calls [`Source::refresh`] now and then.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::judge::{
    Fitness, Judge,
    catalog::Catalog,
    clause::{self, Clause, Text},
    diagnostic::{Diagnostic, Refused, any_error},
    directory::{self, Contents, Fingerprint, Settled},
    stack,
};

/// The policy that holds when none is given.
pub const DEFAULT: &str = include_str!("default.cedar");

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    BuiltIn,
    /// A directory of `*.cedar` files, or one such file.
    Files(PathBuf),
}

/// Policies in force, and what they were read from.
#[derive(Debug)]
pub struct Source {
    origin: Origin,
    texts: Vec<Text>,
    clauses: Vec<Clause>,
    judge: Arc<Judge>,
    /// Of what was looked at last, also if it was refused: a fault is told once.
    seen: Fingerprint,
    settled: Settled,
    /// Whether what was looked at last is what is in force.
    standing: Standing,
    catalog: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    InForce,
    Refused,
}

/// What came of looking again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refresh {
    Unchanged,
    /// Other policies, or the same for other tools, are in force from now on. Errors among the diagnostics are
    /// policies that no longer fit the tools.
    Replaced(Vec<Diagnostic>),
    /// The files are faulty: the policies that were in force before still are.
    Broken(Vec<Diagnostic>),
}

impl Source {
    /// Reads, checks and puts in force. Warnings come along; an error refuses all.
    pub fn open(origin: Origin, catalog: &Catalog) -> Result<(Self, Vec<Diagnostic>), Refused> {
        stack::make_room();
        let contents = read(&origin);
        let (clauses, mut diagnostics) = parse(&contents)?;
        let (judge, found) = Judge::build(clauses.clone(), catalog, Fitness::Strict)?;
        diagnostics.extend(found);
        let source = Source {
            origin,
            texts: contents.texts,
            clauses,
            judge: Arc::new(judge),
            seen: contents.fingerprint,
            settled: contents.settled,
            standing: Standing::InForce,
            catalog: catalog.revision(),
        };
        Ok((source, diagnostics))
    }

    /// Who judges now. Ask again for every request, or hold on to it for one.
    pub fn judge(&self) -> Arc<Judge> {
        Arc::clone(&self.judge)
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Looks whether files or tools have changed, and puts in force what they are now. Cheap if nothing did.
    pub fn refresh(&mut self, catalog: &Catalog) -> Refresh {
        stack::make_room();
        let other_tools = catalog.revision() != self.catalog;
        let broken = match self.reread(catalog, other_tools) {
            Reread::Same => None,
            Reread::Adopted(found) => return Refresh::Replaced(found),
            Reread::Broken(found) => Some(found),
        };
        // The policies stay, but are to know the tools that there are now.
        let replaced = other_tools.then(|| self.refit(catalog));
        match (broken, replaced) {
            (None, None) => Refresh::Unchanged,
            (None, Some(Ok(found))) => Refresh::Replaced(found),
            (None, Some(Err(found))) => Refresh::Broken(found),
            (Some(mut broken), fitted) => {
                broken.extend(fitted.map_or_else(Vec::new, |fitted| fitted.unwrap_or_else(|found| found)));
                Refresh::Broken(broken)
            }
        }
    }

    fn reread(&mut self, catalog: &Catalog, other_tools: bool) -> Reread {
        let Origin::Files(place) = &self.origin else { return Reread::Same };
        let same = self.settled == Settled::Yes && directory::look(place) == self.seen;
        // What was refused for a name that did not exist may fit tools that have come since.
        if same && !(other_tools && self.standing == Standing::Refused) {
            return Reread::Same;
        }
        let contents = directory::read(place);
        let looked_at_before = contents.fingerprint == self.seen && self.standing == Standing::Refused;
        self.seen.clone_from(&contents.fingerprint);
        self.settled = contents.settled;
        if contents.faults.is_empty() && contents.texts == self.texts {
            self.standing = Standing::InForce;
            return Reread::Same;
        }
        let built = parse(&contents).and_then(|(clauses, mut diagnostics)| {
            let (judge, found) = Judge::build(clauses.clone(), catalog, Fitness::Strict)?;
            diagnostics.extend(found);
            Ok((clauses, judge, diagnostics))
        });
        match built {
            Ok((clauses, judge, diagnostics)) => {
                self.texts = contents.texts;
                self.clauses = clauses;
                self.judge = Arc::new(judge);
                self.standing = Standing::InForce;
                self.catalog = catalog.revision();
                Reread::Adopted(diagnostics)
            }
            Err(_) if looked_at_before => Reread::Same,
            Err(refused) => {
                self.standing = Standing::Refused;
                Reread::Broken(refused.diagnostics)
            }
        }
    }

    fn refit(&mut self, catalog: &Catalog) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
        self.catalog = catalog.revision();
        let (judge, diagnostics) = Judge::build(self.clauses.clone(), catalog, Fitness::Lenient)
            .map_err(|refused| refused.diagnostics)?;
        self.judge = Arc::new(judge);
        Ok(diagnostics)
    }
}

enum Reread {
    Same,
    Adopted(Vec<Diagnostic>),
    Broken(Vec<Diagnostic>),
}

/// What is wrong with policies, without putting them in force.
#[derive(Debug, Clone, Copy)]
pub enum Against<'a> {
    /// Only what shows without tools: syntax, annotations, ids.
    Nothing,
    Tools(&'a Catalog),
}

/// Checks a directory of `*.cedar` files, or one file.
pub fn check(place: &Path, against: Against<'_>) -> Vec<Diagnostic> {
    stack::make_room();
    let parsed = parse(&read(&Origin::Files(place.to_owned())));
    let (clauses, mut diagnostics) = match parsed {
        Ok(parsed) => parsed,
        Err(refused) => return refused.diagnostics,
    };
    if let Against::Tools(catalog) = against {
        match Judge::build(clauses, catalog, Fitness::Lenient) {
            Ok((_, found)) => diagnostics.extend(found),
            Err(refused) => diagnostics.extend(refused.diagnostics),
        }
    }
    diagnostics.sort_by(|one, other| {
        (&one.file, one.line, one.column).cmp(&(&other.file, other.line, other.column))
    });
    diagnostics
}

/// Whether [`check`] is for this path: a `*.cedar` file, or a directory with one.
pub fn holds_policies(place: &Path) -> bool {
    directory::holds_policies(place)
}

fn read(origin: &Origin) -> Contents {
    match origin {
        Origin::Files(place) => directory::read(place),
        Origin::BuiltIn => Contents {
            texts: vec![Text {
                name: "default.cedar".into(),
                file: "default.cedar".into(),
                content: DEFAULT.into(),
            }],
            fingerprint: Fingerprint::default(),
            settled: Settled::Yes,
            faults: Vec::new(),
        },
    }
}

fn parse(contents: &Contents) -> Result<(Vec<Clause>, Vec<Diagnostic>), Refused> {
    let (clauses, mut diagnostics) = clause::parse(&contents.texts);
    diagnostics.extend(contents.faults.iter().cloned());
    if any_error(&diagnostics) { Err(Refused { diagnostics }) } else { Ok((clauses, diagnostics)) }
}
