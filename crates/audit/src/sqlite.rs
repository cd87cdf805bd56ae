//! A database of SQLite, written from scratch in one pass: one table whose rows come in ascending order, and
//! views on it. It reads nothing and changes nothing that is there.
//!
//! The format is that of <https://www.sqlite.org/fileformat2.html>; why it is written here is in ADR 0020.

mod pages;
mod record;
mod tree;

use std::fs::File;
use std::io;

use self::pages::Pages;
use self::tree::Leaves;

pub use self::record::Value;

/// Why a database could not be written.
#[derive(Debug, thiserror::Error)]
pub enum SqliteError {
    #[error("cannot write the database: {0}")]
    Write(#[from] io::Error),
    #[error("row {row} does not come after row {last}")]
    NotAscending { row: i64, last: i64 },
    #[error("the database would have more pages than SQLite can count")]
    TooLarge,
    #[error("the definitions of table and views do not fit on the first page")]
    SchemaTooLarge,
}

/// A table or a view, with the statement that makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    pub name: &'static str,
    pub sql: &'static str,
}

/// A database with one table, being written.
#[derive(Debug)]
pub struct Database {
    pages: Pages,
    leaves: Leaves,
    rows: u64,
}

impl Database {
    /// In an empty file.
    pub fn new(file: File) -> Result<Self, SqliteError> {
        Ok(Self { pages: Pages::new(file)?, leaves: Leaves::default(), rows: 0 })
    }

    /// Adds a row. The column that is the `INTEGER PRIMARY KEY` is `Null` in `values`.
    pub fn row(&mut self, id: i64, values: &[Value<'_>]) -> Result<(), SqliteError> {
        self.leaves.add(&mut self.pages, id, &record::encode(values))?;
        self.rows += 1;
        Ok(())
    }

    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes what remains: the rest of the tree, and the first page with what the database consists of.
    pub fn finish(self, table: Definition, views: &[Definition]) -> Result<File, SqliteError> {
        let Self { mut pages, leaves, .. } = self;
        let root = leaves.finish(&mut pages)?;
        let mut schema = tree::Page::first();
        let definitions = std::iter::once(("table", table, i64::from(root)))
            .chain(views.iter().map(|view| ("view", *view, 0)));
        for (id, (kind, definition, root)) in (1..).zip(definitions) {
            let row = record::encode(&[
                Value::Text(kind),
                Value::Text(definition.name),
                Value::Text(definition.name),
                Value::Integer(root),
                Value::Text(definition.sql),
            ]);
            let cell = tree::leaf_cell(&mut pages, id, &row)?;
            if !schema.add(&cell) {
                return Err(SqliteError::SchemaTooLarge);
            }
        }
        pages.finish(schema.leaf())
    }
}
