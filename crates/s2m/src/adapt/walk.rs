//! Walks from a single latent of a part to the rest of it.
//!
//! A step goes from `z` to `√(1 − b²)·z + b·n` with normal numbers `n`, which leaves the prior as it is, and is
//! accepted with probability `min(1, w'/w)`: in any number of dimensions a walk stays in the target and soon
//! forgets all of its start but the part that it lies in. Several walkers start at one latent; where they
//! have been shows the shape of that part. It says nothing about the part's mass.
//!
//! Reference: Cotter et al., "MCMC Methods for Functions: Modifying Old Algorithms to Make Them Faster", 2013.

use std::sync::Arc;

use s2m_core::mixture::Mixture;
use s2m_core::proposals::{Proposals, Purpose};
use s2m_core::streams;
use s2m_core::weight::LogitError;

use super::search::Search;
use crate::error::Error;
use crate::pool::{Origin, Pool};

/// Walkers of one part, and how many steps they take.
const WALKERS: usize = 16;
const STEPS: usize = 192;

/// Steps after which walkers are noted: by then they have left their start. Every third step is noted.
const FIRST_NOTED: usize = 96;
const NOTED: usize = 3;

/// Sizes of steps, in turn: which one fits depends on how narrow a part is.
const SIZES: [f64; 3] = [0.2, 0.35, 0.5];

/// Latents of one part, and their log weights under the prior.
pub(super) struct Walked {
    pub(super) points: Vec<f32>,
    pub(super) log_scores: Vec<f64>,
}

/// Generator calls of one walk.
pub(super) const CALLS: usize = WALKERS * STEPS;

/// The stage of one step of a walk; after some two hundred walks their numbers come again.
fn stage(number: u16, step: usize) -> u16 {
    let (first, last) = (*streams::WALKS.start(), *streams::WALKS.end());
    let walks = usize::from(last - first + 1) / STEPS;
    first + (usize::from(number) % walks * STEPS + step) as u16
}

/// Walks from a latent with a weight; `number` tells walks of one search apart.
pub(super) fn walk(
    search: &mut Search<'_>,
    pool: &mut Pool,
    from: (&[f32], f64),
    number: u16,
) -> Result<Walked, Error> {
    let size = search.size;
    let mut at: Vec<f32> = from.0.repeat(WALKERS);
    let mut log_scores = vec![from.1; WALKERS];
    let mut walked = Walked {
        points: Vec::new(),
        log_scores: Vec::new(),
    };
    for step in 0..STEPS {
        let stage = stage(number, step);
        let proposals = Proposals::new(search.session.seed).at_stage(stage);
        let around = Mixture::around(&at, size, SIZES[step % SIZES.len()]);
        let around = Arc::new(around.map_err(super::AdaptError::Fit)?);
        let origin = Origin {
            proposals,
            mixture: Some(around.clone()),
        };
        let logits = pool.elsewhere(&origin, WALKERS)?;
        let mut next = vec![0.0; WALKERS * size];
        around.fill(proposals, 0, &mut next);
        for row in 0..WALKERS {
            // Which walker a proposal belongs to is drawn too: one may get two of them, and another none.
            let Some(walker) = around.component_of(proposals, row as u64) else {
                continue;
            };
            let fault = |source: LogitError| Error::Logit {
                proposal: row as u64,
                source,
            };
            let weight = search.target.weighting.log_weight(logits.evidence(row));
            let weight = weight.map_err(fault)?;
            let log_uniform = proposals.uniform(Purpose::Accept, row as u64).ln();
            if log_uniform < weight - log_scores[walker] {
                log_scores[walker] = weight;
                at[walker * size..(walker + 1) * size]
                    .copy_from_slice(&next[row * size..(row + 1) * size]);
            }
        }
        if step >= FIRST_NOTED && step.is_multiple_of(NOTED) {
            walked.points.extend_from_slice(&at);
            walked.log_scores.extend_from_slice(&log_scores);
        }
    }
    search.calls += CALLS;
    Ok(walked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_walk_leaves_the_stages_of_walks() {
        assert_eq!(stage(0, 0), *streams::WALKS.start());
        assert_eq!(stage(3, 5), *streams::WALKS.start() + 3 * STEPS as u16 + 5);
        for number in 0..=u16::MAX {
            assert!(
                streams::WALKS.contains(&stage(number, STEPS - 1)),
                "{number}"
            );
        }
    }
}
