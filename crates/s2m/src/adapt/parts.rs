//! What a search may have missed: judged on fresh proposals of the prior, and mended.
//!
//! A search can only cover what it saw. So proposals of the prior that it never used are scored, and those that
//! `reject` would accept are draws of the target. One that lies where the mixture has no component, or so few that
//! drawing it would cost a good part of what it costs without adaptation, is lost: its part gets components of
//! its own ([`super::mend`]), and the new mixture is judged by new proposals. A round ends with the block of
//! proposals in which one is lost, so only the last one is long. With `N` proposals and a share `Z` of them accepted,
//! a part of `3/(N·Z)` of the target may still be missing at 95 %; more where several rounds could err.

use std::num::NonZeroUsize;
use std::sync::Arc;

use s2m_core::adaptation::{beyond_components, calls_at, cap_and_share};
use s2m_core::mixture::Mixture;
use s2m_core::proposals::Purpose;

use super::mend::{Found, Parts};
use super::record::{Coverage, MISS, miss_of_round};
use super::search::Search;
use crate::error::Error;
use crate::pool::Pool;

/// Accepted proposals of the prior that are looked for, as a share of the samples: what they cost is this
/// share of what all samples would cost without adaptation.
const SHARE_OF_SAMPLES: f64 = 1.0 / 32.0;

/// Expected proposals in a missing part at 95 %; the wanted distance needs no more than so many over it.
const EXPECTED: f64 = 3.0;

/// How often a mixture is judged, if it is mended in between.
const MAX_ROUNDS: u32 = 6;

/// Blocks of proposals in a round. A round that finds something lost ends with its block: fewer blocks waste
/// proposals, more of them find parts one by one.
const BLOCKS: f64 = 8.0;

/// Fewest accepted proposals with which a judgement is worth its calls.
const LEAST_ACCEPTED: f64 = 1.0;

/// Fewest accepted proposals that say which share is accepted; before, the search does.
const ACCEPTED_FOR_SHARE: f64 = 8.0;

/// A point is lost where drawing it costs more than this share of what it costs without adaptation, which is two
/// judgements, and more than so many calls.
const LOST_SHARE: f64 = 2.0 * SHARE_OF_SAMPLES;
const LEAST_LOST_CALLS: f64 = 32.0;

/// What there is to judge.
pub(super) struct Judged<'j> {
    /// Log weights under the prior of what the search saw, and the log of what each stands for.
    pub(super) log_scores: &'j [f64],
    pub(super) log_ratios: &'j [f64],
    /// Samples that are to be drawn, within which distance, and the most calls for judging.
    pub(super) samples: NonZeroUsize,
    pub(super) distance: f64,
    pub(super) most_calls: usize,
    /// What is done where something is lost.
    pub(super) beyond: Beyond<'j>,
}

/// What is done where something is lost.
#[derive(Debug, Clone, Copy)]
pub(super) enum Beyond<'j> {
    /// Its part gets components of its own.
    Mended {
        /// Latents that the search saw, in the order of their weights.
        points: &'j [f32],
        /// Share of the prior in a mended mixture.
        prior_share: f64,
    },
    /// It is counted.
    Counted,
}

/// What judging ended with.
pub(super) struct Settled {
    pub(super) mixture: Option<Arc<Mixture>>,
    pub(super) coverage: Option<Coverage>,
    /// Share of each part of a mixture that was mended.
    pub(super) parts: Vec<f64>,
}

impl Settled {
    /// A mixture about which nothing is said.
    pub(super) fn unjudged(mixture: Option<Arc<Mixture>>) -> Self {
        Self {
            mixture,
            coverage: None,
            parts: Vec::new(),
        }
    }
}

/// Judges a mixture, and mends it as long as something is lost. Without a mixture everything is.
pub(super) fn settle(
    search: &mut Search<'_>,
    mixture: Option<Arc<Mixture>>,
    judged: &Judged<'_>,
) -> Result<Settled, Error> {
    let mut settled = Settled::unjudged(mixture);
    let found = cap_and_share(judged.log_scores, judged.log_ratios, judged.distance);
    let Some((log_cap, share)) = found else {
        return Ok(settled);
    };
    let wanted = (SHARE_OF_SAMPLES * judged.samples.get() as f64).min(EXPECTED / judged.distance);
    let mut accepted = Accepted::new(log_cap, share);
    let mut parts = match (judged.beyond, &settled.mixture) {
        (Beyond::Mended { points, .. }, Some(mixture)) => {
            Parts::of_search(search, mixture, judged, points)?
        }
        _ => Parts::default(),
    };
    let rounds = match judged.beyond {
        Beyond::Mended { .. } => MAX_ROUNDS,
        Beyond::Counted => 1,
    };
    let before = search.calls;
    for round in 1..=rounds {
        let left = judged.most_calls.saturating_sub(search.calls - before);
        // A longer search than expected is due where the share is lower than it seemed.
        let calls = wanted / accepted.share();
        let most = (2.0 * calls).min(left as f64);
        if most * accepted.share() < LEAST_ACCEPTED {
            break;
        }
        // What is mended must be judged again.
        let mends = round < rounds && left as f64 > 2.0 * calls;
        let plan = Plan {
            wanted,
            block: 1 + (calls / BLOCKS) as usize,
            most: most as usize,
            mends,
        };
        let mixture = settled.mixture.as_deref();
        let (mut coverage, lost, mut pool) = accepted.look(search, mixture, plan)?;
        coverage.rounds = round;
        coverage.miss = match judged.beyond {
            Beyond::Mended { .. } => miss_of_round(round),
            Beyond::Counted => MISS,
        };
        settled.coverage = Some(coverage);
        let Beyond::Mended { prior_share, .. } = judged.beyond else {
            break;
        };
        if lost == 0 || !mends {
            break;
        }
        let found = Found {
            accepted: &accepted,
            prior_share,
            most_calls: calls as usize,
        };
        let Some((mended, shares)) = parts.mend(search, &mut pool, &found)? else {
            break;
        };
        // Nothing is known of what has not been judged.
        settled = Settled {
            mixture: Some(mended),
            coverage: None,
            parts: shares,
        };
    }
    Ok(settled)
}

/// How one round looks.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// Accepted proposals with which it ends, and the proposals of a block and of all.
    wanted: f64,
    block: usize,
    most: usize,
    /// Whether it ends where something is lost.
    mends: bool,
}

/// Proposals of the prior that `reject` accepts: draws of the target.
pub(super) struct Accepted {
    pub(super) points: Vec<f32>,
    pub(super) log_weights: Vec<f64>,
    log_cap: f64,
    /// Share of all proposals that is accepted, by the search.
    share: f64,
    /// Proposals of all rounds, and how many of them are accepted, expected.
    proposals: usize,
    expected: f64,
}

impl Accepted {
    fn new(log_cap: f64, share: f64) -> Self {
        Self {
            points: Vec::new(),
            log_weights: Vec::new(),
            log_cap,
            share,
            proposals: 0,
            expected: 0.0,
        }
    }

    /// Share of the prior's proposals that is accepted.
    pub(super) fn share(&self) -> f64 {
        if self.expected < ACCEPTED_FOR_SHARE {
            return self.share;
        }
        self.expected / self.proposals as f64
    }

    /// Which of the accepted ones a mixture loses, from this one on.
    pub(super) fn lost(&self, mixture: Option<&Mixture>, from: usize) -> Vec<bool> {
        let Some(mixture) = mixture else {
            return vec![true; self.log_weights.len() - from];
        };
        let share = self.share();
        let log_accepted: Vec<f64> = self.log_weights[from..]
            .iter()
            .map(|weight| (weight - self.log_cap).min(0.0))
            .collect();
        let points = &self.points[from * mixture.size()..];
        let calls = calls_at(Some(mixture), points, &log_accepted, share);
        let most = (LOST_SHARE / share).max(LEAST_LOST_CALLS);
        let beyond = beyond_components(mixture, points);
        let both = calls.iter().zip(beyond);
        both.map(|(calls, beyond)| beyond || *calls > most)
            .collect()
    }

    /// Scores fresh proposals of the prior until enough of them are accepted, or one of them is lost. Gives what they
    /// say, how many are lost, and their pool.
    fn look(
        &mut self,
        search: &mut Search<'_>,
        mixture: Option<&Mixture>,
        plan: Plan,
    ) -> Result<(Coverage, usize, Pool), Error> {
        let first = self.log_weights.len();
        let (mut expected, mut lost) = (0.0, 0);
        let drawn_from = "prior, to judge what is covered";
        let stage =
            search.score_blocks(plan.block, plan.most, drawn_from, |pool, rows, weights| {
                let new = self.log_weights.len();
                expected += self.take(pool, rows.start, &weights[rows]);
                lost += self
                    .lost(mixture, new)
                    .into_iter()
                    .filter(|lost| *lost)
                    .count();
                if expected >= plan.wanted || (plan.mends && lost > 0) {
                    return 0;
                }
                // Not much more than what is still wanted.
                let missing = ((plan.wanted - expected) / self.share()).ceil() as usize;
                missing.clamp(1 + plan.block / 8, plan.block)
            })?;
        let uncovered = mixture.map_or(self.log_weights.len() - first, |mixture| {
            let beyond = beyond_components(mixture, &self.points[first * search.size..]);
            beyond.into_iter().filter(|beyond| *beyond).count()
        });
        let coverage = Coverage {
            proposals: stage.log_weights.len(),
            accepted: expected,
            uncovered,
            rounds: 1,
            log_cap: self.log_cap,
            share: self.share(),
            miss: MISS,
        };
        Ok((coverage, lost, stage.pool))
    }

    /// Takes in the accepted ones of the rows from this one on; gives how many were expected.
    fn take(&mut self, pool: &Pool, from: usize, log_weights: &[f64]) -> f64 {
        let mut uniforms = vec![0.0; log_weights.len()];
        pool.proposals()
            .fill_uniform(Purpose::Accept, from as u64, &mut uniforms);
        let (mut rows, mut expected) = (Vec::new(), 0.0);
        for (at, (weight, uniform)) in log_weights.iter().zip(&uniforms).enumerate() {
            let log_accepted = (weight - self.log_cap).min(0.0);
            expected += log_accepted.exp();
            if uniform.ln() < log_accepted {
                rows.push((from + at) as u64);
                self.log_weights.push(*weight);
            }
        }
        self.points.extend(pool.normal_latents(&rows));
        self.proposals += log_weights.len();
        self.expected += expected;
        expected
    }
}

#[cfg(test)]
mod tests {
    use s2m_core::mixture::Covariance;

    use super::*;

    /// Of a target of one proposal in a thousand: a point in the middle of a component, one that the same component
    /// only brushes, and one beyond all components.
    #[test]
    fn what_a_component_only_brushes_is_lost_too() {
        let accepted = |points: &[f32]| Accepted {
            points: points.to_vec(),
            log_weights: vec![0.0; points.len()],
            ..Accepted::new(0.0, 1e-3)
        };
        let mixture = Mixture::from_covariances(Covariance::Full, &[1.0], &[3.0], &[0.25]);
        let mixture = mixture.unwrap().with_prior_share(0.1).unwrap();
        let points = [3.0_f32, 1.8, -3.0];
        assert_eq!(
            beyond_components(&mixture, &points),
            [false, false, true],
            "the second has a component"
        );
        let three = accepted(&points);
        assert_eq!(three.lost(Some(&mixture), 0), [false, true, true]);
        assert_eq!(three.lost(Some(&mixture), 2), [true]);
        assert_eq!(three.lost(None, 1), [true, true]);
        // Where one in ten is accepted anyway, it is no loss.
        let mut common = accepted(&points[..2]);
        common.share = 0.1;
        assert_eq!(common.lost(Some(&mixture), 0), [false, false]);
    }
}
