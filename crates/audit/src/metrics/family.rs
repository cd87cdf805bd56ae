//! A metric as plain data: what it is called, what it means, and its values now.

use std::borrow::Cow;

/// What kind of number it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only ever grows. Its name ends in `_total`.
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric with all its label values.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
    pub samples: Vec<Sample>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub labels: Vec<(&'static str, Cow<'static, str>)>,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Count(u64),
    Number(f64),
    Histogram(Histogram),
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Value::Count(count)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Number(number)
    }
}

impl Family {
    pub(super) fn new(kind: Kind, name: &'static str, help: &'static str) -> Family {
        Family { name, help, kind, samples: Vec::new() }
    }

    /// A metric without labels.
    pub(super) fn single(
        kind: Kind,
        name: &'static str,
        help: &'static str,
        value: impl Into<Value>,
    ) -> Family {
        Family::new(kind, name, help).with(Vec::new(), value)
    }

    pub(super) fn with(
        mut self,
        labels: Vec<(&'static str, Cow<'static, str>)>,
        value: impl Into<Value>,
    ) -> Family {
        self.samples.push(Sample { labels, value: value.into() });
        self
    }
}

/// How values are spread: how many were no greater than each bound.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One more than there are bounds: the last counts what is beyond them all.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// `bounds` ascend.
    pub(super) fn new(bounds: &'static [f64]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    pub(super) fn observe(&mut self, value: f64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
            self.sum += value;
        }
    }

    #[must_use]
    pub fn bounds(&self) -> &'static [f64] {
        self.bounds
    }

    /// How many fell between each bound and the one before.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Each bound with how many were no greater; what is beyond all of them is only in [`Histogram::count`].
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut below = 0;
        self.bounds.iter().zip(&self.counts).map(move |(bound, count)| {
            below += count;
            (*bound, below)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_a_bound_counts_below_it_and_none_is_lost() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        [0.5, 1.0, 1.5, 2.0, 3.0].into_iter().for_each(|value| histogram.observe(value));
        assert_eq!(histogram.counts(), [2, 2, 1]);
        assert_eq!(histogram.cumulative().collect::<Vec<_>>(), [(1.0, 2), (2.0, 4)]);
        assert_eq!((histogram.count(), histogram.sum()), (5, 8.0));
    }
}
