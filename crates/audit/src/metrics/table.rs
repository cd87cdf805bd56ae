//! Counts by label values, of which there are at most so many: a metric must not grow with what programs call
//! themselves.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::family::{Family, Kind};

/// What stands for the values beyond the most.
pub const OTHER: &str = "other";
/// A label value is no longer than this.
const LONGEST: usize = 64;

#[derive(Debug, Clone)]
pub struct Table {
    labels: &'static [&'static str],
    most: usize,
    cells: BTreeMap<Vec<String>, u64>,
}

impl Table {
    /// The last label is the one whose values are not known beforehand.
    pub fn new(labels: &'static [&'static str], most: usize) -> Table {
        Table { labels, most, cells: BTreeMap::new() }
    }

    /// Values that are there from the beginning, so that the first of them shows as growth.
    pub fn expecting<'a>(mut self, values: impl IntoIterator<Item = Vec<&'a str>>) -> Table {
        for value in values {
            self.cells.insert(value.into_iter().map(str::to_owned).collect(), 0);
        }
        self
    }

    pub fn add(&mut self, values: &[&str], count: u64) {
        if count == 0 {
            return;
        }
        let mut key: Vec<String> = values.iter().map(|value| short(value)).collect();
        if self.cells.len() >= self.most && !self.cells.contains_key(&key) {
            if let Some(last) = key.last_mut() {
                OTHER.clone_into(last);
            }
            // The others are from short lists, unless the log was written by somebody else.
            if self.cells.len() >= 2 * self.most && !self.cells.contains_key(&key) {
                key.iter_mut().for_each(|value| OTHER.clone_into(value));
            }
        }
        let cell = self.cells.entry(key).or_default();
        *cell = cell.saturating_add(count);
    }

    pub fn family(&self, name: &'static str, help: &'static str) -> Family {
        let mut family = Family::new(Kind::Counter, name, help);
        for (values, count) in &self.cells {
            let labels = self.labels.iter().copied().zip(values.iter().cloned().map(Cow::Owned)).collect();
            family = family.with(labels, *count);
        }
        family
    }
}

/// A name as a label value.
pub fn short(name: &str) -> String {
    name.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_most_are_counted_together_and_none_is_lost() {
        let mut table = Table::new(&["kind", "name"], 10);
        for number in 0..1000 {
            table.add(&["a", &format!("n{number}")], 1);
        }
        for number in 0..1000 {
            table.add(&[&format!("k{number}"), "x"], 1);
        }
        let family = table.family("n", "h");
        assert!(family.samples.len() <= 21, "{}", family.samples.len());
        assert_eq!(table.cells.values().sum::<u64>(), 2000);
        assert!(table.cells[&vec!["a".to_owned(), OTHER.to_owned()]] >= 990);
        assert!(table.cells[&vec![OTHER.to_owned(), OTHER.to_owned()]] > 0);
    }

    #[test]
    fn what_is_expected_is_there_before_it_happens() {
        let table = Table::new(&["way"], 10).expecting([vec!["in"], vec!["out"]]);
        assert_eq!(table.family("n", "h").samples.len(), 2);
    }
}
