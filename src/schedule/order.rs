//! The order of a batch: `after` and `priority`.

use std::collections::BTreeMap;

use super::definition::Fork;

/// A fork's place in a batch. Numbers are places in the batch as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The fork.
    pub index: usize,
    /// Those that are over before it begins.
    pub waits_for: Vec<usize>,
    /// Those of them whose reports it gets: what it comes `after`.
    pub reports_of: Vec<usize>,
}

/// Orders a batch so that each comes behind what it waits for, the lowest priority first. A cycle is cut where its first member by the
/// batch's order would begin; who comes after it, and is in none, keeps what it waits for.
pub fn order(batch: &[&Fork]) -> Vec<Place> {
    let index: BTreeMap<&str, usize> = batch.iter().enumerate().map(|(at, fork)| (fork.name.as_str(), at)).collect();
    let mut after: Vec<Vec<usize>> = batch
        .iter()
        .enumerate()
        .map(|(at, fork)| {
            let mut known: Vec<usize> = fork
                .after
                .iter()
                .filter_map(|name| index.get(name.as_str()).copied())
                .filter(|dep| *dep != at)
                .collect();
            known.dedup();
            known
        })
        .collect();
    let sorted = sort(&mut after, batch);
    // Whatever comes after a fork is at least as late as that.
    let mut priority: Vec<i64> = batch.iter().map(|fork| fork.priority).collect();
    for &at in &sorted {
        priority[at] = after[at].iter().map(|dep| priority[*dep]).chain([priority[at]]).max().unwrap_or(0);
    }
    let mut places: Vec<usize> = sorted;
    // Stable: what an earlier one waits for stays before it, for its priority is not higher.
    places.sort_by_key(|at| priority[*at]);
    places
        .into_iter()
        .map(|at| {
            let mut waits_for = after[at].clone();
            for other in 0..batch.len() {
                if priority[other] < priority[at] && !waits_for.contains(&other) {
                    waits_for.push(other);
                }
            }
            Place { index: at, waits_for, reports_of: after[at].clone() }
        })
        .collect()
}

/// Sorts topologically, the lowest priority and then the batch's order first; cuts cycles.
fn sort(after: &mut [Vec<usize>], batch: &[&Fork]) -> Vec<usize> {
    let mut sorted: Vec<usize> = Vec::with_capacity(after.len());
    let mut left: Vec<usize> = (0..after.len()).collect();
    left.sort_by_key(|at| (batch[*at].priority, *at));
    while !left.is_empty() {
        let free = left.iter().position(|at| after[*at].iter().all(|dep| sorted.contains(dep)));
        let next = free.unwrap_or_else(|| {
            // None is free: the first that is in a circle no longer waits for what is in it. Who only comes after one keeps its place.
            let place = left.iter().position(|at| circles(after, &sorted, *at)).unwrap_or(0);
            after[left[place]].retain(|dep| sorted.contains(dep));
            place
        });
        sorted.push(left.remove(next));
    }
    sorted
}

/// Whether a fork comes, over others that are not sorted yet, after itself.
fn circles(after: &[Vec<usize>], sorted: &[usize], which: usize) -> bool {
    let mut reached = vec![which];
    let mut next = 0;
    while let Some(&at) = reached.get(next) {
        for dep in after[at].iter().filter(|dep| !sorted.contains(dep)) {
            if *dep == which {
                return true;
            }
            if !reached.contains(dep) {
                reached.push(*dep);
            }
        }
        next += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fork(name: &str, after: &[&str], priority: i64) -> Fork {
        let after = after.iter().map(|name| (*name).to_owned()).collect();
        Fork { after, priority, ..Fork::named(name) }
    }

    fn told(forks: &[Fork]) -> Vec<String> {
        let batch: Vec<&Fork> = forks.iter().collect();
        let names = |list: &[usize]| list.iter().map(|at| batch[*at].name.as_str()).collect::<Vec<_>>().join(",");
        order(&batch)
            .iter()
            .map(|place| {
                format!("{}<{}|{}", batch[place.index].name, names(&place.waits_for), names(&place.reports_of))
            })
            .collect()
    }

    #[test]
    fn what_comes_after_waits_and_gets_the_reports() {
        assert_eq!(
            told(&[fork("c", &["a", "b"], 0), fork("a", &[], 0), fork("b", &["gone"], 0)]),
            ["a<|", "b<|", "c<a,b|a,b"]
        );
    }

    #[test]
    fn priority_is_order_alone_and_after_wins_over_it() {
        // `late` is lifted to what it comes after.
        assert_eq!(
            told(&[fork("late", &["high"], -5), fork("high", &[], 10), fork("low", &[], 0)]),
            ["low<|", "high<low|", "late<high,low|high"]
        );
        assert_eq!(told(&[fork("a", &[], 7), fork("b", &[], 7)]), ["a<|", "b<|"]);
    }

    #[test]
    fn a_circle_is_cut_at_its_first_member() {
        assert_eq!(
            told(&[fork("a", &["b"], 0), fork("b", &["c"], 0), fork("c", &["a"], 0)]),
            ["a<|", "c<a|a", "b<c|c"]
        );
        assert_eq!(told(&[fork("a", &["a"], 0)]), ["a<|"]);
    }
}
