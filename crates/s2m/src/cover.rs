//! Which classes a conditional generator is asked for, so that every item of a query can come up.
//!
//! The classes used are a smallest set that meets every label set on which the query holds. Where
//! several such sets exist, a short trial of each picks the one with the largest effective sample
//! size, which is what decides how many proposals a sample costs.

use s2m_core::diagnostics::summarise;
use s2m_core::labels::LabelSet;
use s2m_core::query::Query;

use crate::error::Error;
use crate::settings::ClassChoice;

/// Proposals of one trial.
pub const TRIAL: usize = 512;

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

/// The classes for a query; `trial` gives the log weights of a few proposals from a set.
pub fn choose(
    query: &Query,
    choice: ClassChoice,
    mut trial: impl FnMut(LabelSet) -> Result<Vec<f64>, Error>,
) -> Result<LabelSet, Error> {
    let covers = query.covers();
    let first = covers[0];
    if covers.len() == 1 || choice == ClassChoice::First {
        return Ok(first);
    }
    let mut best = (first, 0.0);
    for &set in covers.iter().take(MAX_TRIALS) {
        let effective = summarise(&trial(set)?).weight_ess;
        if effective > best.1 {
            best = (set, effective);
        }
    }
    Ok(best.0)
}
