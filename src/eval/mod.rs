//! Measuring how well leaf sorts, and what became of it: counts over values, with no I/O. `leaf eval` reads the values and prints
//! the counts.

pub mod coherence;
pub mod decision;
pub mod outcome;
pub mod set;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::session::journal::Sort;

/// The three sorts in the order in which they are shown.
pub const SORTS: [Sort; 3] = [Sort::Small, Sort::Significant, Sort::Now];

/// Returns a sort as the line fork writes it (R21).
pub fn word(sort: Sort) -> &'static str {
    match sort {
        Sort::Small => "small",
        Sort::Significant => "significant",
        Sort::Now => "now",
    }
}

/// Returns a share in percent, with one decimal; `None` of nothing.
pub fn percent(part: usize, whole: usize) -> Option<f64> {
    #[allow(clippy::cast_precision_loss, reason = "counts of messages are far below 2^52")]
    let share = (whole > 0).then(|| part as f64 / whole as f64);
    share.map(|share| (share * 1000.0).round() / 10.0)
}

/// How long something took, over several cases: milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    /// How many cases.
    pub count: usize,
    /// Half of them took no longer.
    pub median: Option<i64>,
    /// Nine of ten took no longer.
    pub p90: Option<i64>,
}

impl Times {
    /// Returns what stands for all of these: the smallest value that is no less than the share of them.
    pub fn of(mut times: Vec<i64>) -> Times {
        times.sort_unstable();
        let at = |tenths: usize| times.get((times.len() * tenths).div_ceil(10).saturating_sub(1)).copied();
        Times { count: times.len(), median: at(5), p90: at(9) }
    }
}

/// Counts by a name.
pub type Counts = BTreeMap<String, usize>;

/// Counts one more of a name.
pub fn count(counts: &mut Counts, name: impl Into<String>) {
    *counts.entry(name.into()).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_cases_that_were() {
        let times = Times::of(vec![30, 10, 20, 40, 50, 60, 70, 80, 90, 100]);
        assert_eq!(times, Times { count: 10, median: Some(50), p90: Some(90) });
        assert_eq!(Times::of(vec![7]), Times { count: 1, median: Some(7), p90: Some(7) });
        assert_eq!(Times::of(Vec::new()), Times::default());
    }

    #[test]
    fn a_share_of_nothing_is_none() {
        assert_eq!(percent(1, 3), Some(33.3));
        assert_eq!(percent(0, 0), None);
    }
}
