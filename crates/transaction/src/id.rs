//! The name of a transaction: a UUID of version 7, so that names sort by age.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TransactionId(Uuid);

impl TransactionId {
    /// A name that was never used before.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "every call gives another one, which Default hides")]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl From<TransactionId> for String {
    fn from(id: TransactionId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for TransactionId {
    type Error = BadId;

    fn try_from(text: String) -> Result<Self, BadId> {
        text.parse()
    }
}

/// A text that names no transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a transaction")]
pub struct BadId;

impl FromStr for TransactionId {
    type Err = BadId;

    /// Only the one spelling that [`fmt::Display`] writes: it is also the name of a directory.
    fn from_str(text: &str) -> Result<Self, BadId> {
        let id = Self(Uuid::try_parse(text).map_err(|_| BadId)?);
        if id.to_string() == text { Ok(id) } else { Err(BadId) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_spelling_that_is_written_is_read() {
        let id = TransactionId::new();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(id.to_string().to_uppercase().parse::<TransactionId>().is_err());
        assert!(id.to_string().replace('-', "").parse::<TransactionId>().is_err());
        assert!("..".parse::<TransactionId>().is_err());
    }
}
