//! Which classes a conditional generator is asked for, so that every item of a query can come up.
//!
//! Any set of classes that meets every label set on which the query holds can produce all its items.
//! Where several smallest ones exist, all of them together are used, with equal shares: an item that the
//! generator makes from one class much more often than from another weighs a lot where it comes up under
//! the other alone, and rejection pays for the largest weights. One set alone is used where a short trial
//! finds it clearly ahead.

use s2m_core::labels::LabelSet;
use s2m_core::query::Query;

use crate::error::Error;
use crate::settings::ClassChoice;

/// Proposals of one trial.
pub const TRIAL: usize = 512;

/// How many times the effective sample size of all sets together one alone must have, which does not pay for
/// large weights as rejection does. With 1.25, trials of a cGAN-PD on CIFAR-7to3 choose classes that take 1.01
/// times the calls of the best ones, on the mean of four queries with and without a floor; with 1 1.24 times.
const AHEAD: f64 = 1.25;

/// Sets that are tried at most.
const MAX_TRIALS: usize = 16;

/// Probabilities of the classes: equal on a set, zero elsewhere.
pub fn equal_shares(set: LabelSet, classes: usize) -> Vec<f64> {
    (0..classes)
        .map(|c| {
            if set.contains(c) {
                1.0 / set.len() as f64
            } else {
                0.0
            }
        })
        .collect()
}

/// The classes for a query; `trial` gives the log weights of a few proposals from all classes that would do, each
/// weighed as if it came from a set of them.
pub fn choose(
    query: &Query,
    choice: ClassChoice,
    mut trial: impl FnMut(LabelSet) -> Result<Vec<f64>, Error>,
) -> Result<LabelSet, Error> {
    let covers = query.covers();
    if covers.len() == 1 || choice == ClassChoice::First {
        return Ok(covers[0]);
    }
    let all = query.covering();
    let drawn = trial(all)?;
    let largest = drawn.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return Ok(all);
    }
    // The mean square of the weights under a set is ∫ t²/q_set, and by proposals from q_all it is the mean of
    // w_all · w_set: those see what comes up rarely under the set.
    let mut square = |set| {
        let weights = trial(set)?;
        let product = |(own, other): (&f64, &f64)| (own + other - 2.0 * largest).exp();
        Ok::<f64, Error>(drawn.iter().zip(&weights).map(product).sum())
    };
    let mut best = (all, square(all)? / AHEAD);
    for &set in covers.iter().take(MAX_TRIALS) {
        let found = square(set)?;
        if found < best.1 {
            best = (set, found);
        }
    }
    Ok(best.0)
}

#[cfg(test)]
mod tests {
    use s2m_core::labels::Labels;

    use super::*;

    /// The classes for a query, where there are a few kinds of items and the generator makes kind `i` from class `c`
    /// with probability `made[c][i]`; the query wants `target[i]` of it.
    fn chosen(
        query: &str,
        choice: ClassChoice,
        made: &[&[f64]],
        target: &[f64],
    ) -> (Vec<usize>, usize) {
        let labels = Labels::new(["A", "B", "C"]).unwrap();
        let query = Query::parse(query, &labels).unwrap();
        let all = query.covering();
        let mut trials = 0;
        let density = |set: LabelSet, part: usize| {
            set.iter().map(|class| made[class][part]).sum::<f64>() / set.len() as f64
        };
        // Every part comes up exactly as often as it should, 1,000 proposals in all.
        let trial = |set: LabelSet| {
            trials += 1;
            let part = |part: usize| {
                let count = (1000.0 * density(all, part)).round() as usize;
                vec![(target[part] / density(set, part)).ln(); count]
            };
            Ok((0..target.len()).flat_map(part).collect())
        };
        let set = choose(&query, choice, trial).unwrap();
        (set.iter().collect(), trials)
    }

    #[test]
    fn all_classes_that_would_do_are_used_together() {
        // Half of the target comes from either class, and hardly ever from the other.
        let made: &[&[f64]] = &[&[0.18, 0.02, 0.8], &[0.02, 0.18, 0.8]];
        let found = chosen("A + B - C", ClassChoice::Best, made, &[0.5, 0.5, 0.0]);
        assert_eq!(found.0, [0, 1]);
    }

    #[test]
    fn one_alone_is_used_where_it_is_clearly_ahead() {
        // Nearly every item of B is one of the target, and half of A's; both together have three quarters.
        let made: &[&[f64]] = &[&[0.5, 0.5], &[0.999, 0.001]];
        let found = chosen("A + B - C", ClassChoice::Best, made, &[1.0, 0.0]);
        assert_eq!(found.0, [1]);
        // Seven tenths of A's: both together have 0.85, and are near enough.
        let made: &[&[f64]] = &[&[0.7, 0.3], &[0.999, 0.001]];
        let found = chosen("A + B - C", ClassChoice::Best, made, &[1.0, 0.0]);
        assert_eq!(found.0, [0, 1]);
    }

    #[test]
    fn nothing_is_tried_where_there_is_no_choice() {
        let none = |query, choice| chosen(query, choice, &[], &[]);
        assert_eq!(none("A - B - C", ClassChoice::Best), (vec![0], 0));
        assert_eq!(none("A + B - C", ClassChoice::First), (vec![0], 0));
    }

    #[test]
    fn a_query_that_no_proposal_meets_is_asked_of_all() {
        let made: &[&[f64]] = &[&[1.0, 0.0], &[1.0, 0.0]];
        let found = chosen("A + B - C", ClassChoice::Best, made, &[0.0, 1.0]);
        assert_eq!(found.0, [0, 1]);
    }
}
