//! Systematic resampling out of one pool.
//!
//! With one uniform number `u`, sample `j` is the proposal in whose interval of the cumulated
//! weights the point `(j + u)/n · Σw` falls. Given the pool, proposal `i` is expected exactly
//! `n·w_i/Σw` times and comes out that number of times, rounded up or down. The samples depend on
//! each other; the law of one of them is off by about `1/ESS` of the pool, and by what the target has beyond the
//! largest weight in it.
//!
//! Reference: Kitagawa, "Monte Carlo Filter and Smoother for Non-Gaussian Nonlinear State Space
//! Models", 1996.

use super::{
    CallsNeeded, Draw, ErrorStatement, Failure, Goal, History, MAX_TAIL_INDEX, Next, Sampler,
    Warning, score, search,
};
use crate::diagnostics::summarise;
use crate::series::{self, Series};
use crate::tail::Tail;

/// The pool stops growing at this many proposals per sample even if its effective size is smaller.
pub(super) const MAX_POOL_PER_SAMPLE: usize = 100;

/// Whether a proposal may be taken more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// Taken as often as its weight says; copies are counted.
    Allowed,
    /// Refused unless `n · max w ≤ Σw`.
    Refused,
}

/// What a draw reports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Info {
    /// Proposals in the pool.
    pub pool: usize,
    /// Effective number of independent proposals among them.
    pub effective: f64,
    /// About how far the law of one sample is off, in total variation: `1/effective`, and what may lie beyond the
    /// largest weight in the pool. A pool grows until its effective size is large enough, so it tends to end
    /// before the tail shows: what is beyond the largest weight is missing from the samples. No bound.
    pub bias: f64,
}

/// Systematic resampling; the pool grows until its effective size reaches the samples wanted.
#[derive(Debug, Clone)]
pub struct Resample {
    goal: Goal,
    offset: f64,
    copies: Copies,
}

impl Resample {
    /// Draws `goal.samples` with the one uniform number `offset`.
    pub fn new(goal: Goal, offset: f64, copies: Copies) -> Self {
        Self {
            goal,
            offset,
            copies,
        }
    }
}

impl Sampler for Resample {
    fn next(&mut self, history: History<'_>) -> Next {
        if let Some(next) = search(history, self.goal) {
            return next;
        }
        let (pool, wanted) = (history.len(), self.goal.samples.get());
        let summary = summarise(history.log_weights);
        let effective = summary.weight_ess * pool as f64;
        let copies = wanted as f64 * summary.largest_share;
        let distinct = copies <= 1.0;
        let enough = match self.copies {
            Copies::Allowed => effective >= wanted as f64,
            Copies::Refused => effective >= wanted as f64 && distinct,
        };
        let most = self.goal.max_calls.min(
            wanted
                .saturating_mul(MAX_POOL_PER_SAMPLE)
                .max(super::PILOT_BUDGET),
        );
        if !enough && pool < most {
            return score(pool.min(most - pool), pool, self.goal, effective as usize);
        }
        if wanted > pool {
            return Next::Failed(Failure::OutOfCalls {
                proposals: pool,
                found: effective as usize,
                wanted,
                expected: CallsNeeded::estimate(wanted, effective as usize, pool),
            });
        }
        if self.copies == Copies::Refused && !distinct {
            return Next::Failed(Failure::NotUnique {
                wanted,
                proposals: pool,
                copies,
            });
        }
        let (mut repeated, mut before) = (0, None);
        systematic(history.log_weights, wanted, self.offset, &mut |position| {
            repeated += usize::from(before.replace(position) == Some(position));
        });
        let tail = Tail::of(history.log_weights);
        let unseen = tail.map_or(0.0, |tail| tail.unseen(summary.largest_share));
        let heavy = summary.tail_index.filter(|&index| index > MAX_TAIL_INDEX);
        let warnings = heavy.map(|index| Warning::HeavyTail { index }).into_iter();
        let copied = (repeated > 0).then_some(Warning::Duplicates { count: repeated });
        Next::Done(Draw {
            samples: wanted,
            duplicates: repeated,
            acceptance: (wanted - repeated) as f64 / pool as f64,
            error: ErrorStatement {
                tv_estimate: None,
                tv_bound: None,
                warnings: warnings.chain(copied).collect(),
            },
            info: super::Info::Resample(Info {
                pool,
                effective,
                bias: (1.0 / effective + unseen).min(1.0),
            }),
        })
    }

    fn kept(&self, history: History<'_>, see: &mut dyn FnMut(usize)) {
        let wanted = self.goal.samples.get();
        systematic(history.log_weights, wanted, self.offset, see);
    }
}

/// Shows the positions drawn by systematic resampling, ascending.
pub(super) fn systematic(
    log_weights: &dyn Series,
    wanted: usize,
    offset: f64,
    see: &mut dyn FnMut(usize),
) {
    let largest = series::largest(log_weights);
    let weight = |log_weight: f64| (log_weight - largest).exp();
    let mut total = 0.0;
    series::each(log_weights, |log_weight| total += weight(log_weight));
    let (mut shown, mut cumulated) = (0, 0.0);
    let (mut position, mut last) = (0, 0);
    series::each(log_weights, |log_weight| {
        let w = weight(log_weight);
        if w != 0.0 {
            (cumulated, last) = (cumulated + w, position);
            while shown < wanted && (shown as f64 + offset) / wanted as f64 * total < cumulated {
                see(position);
                shown += 1;
            }
        }
        position += 1;
    });
    // Rounding may leave the very last point just above the cumulated total.
    (shown..wanted).for_each(|_| see(last));
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::super::tests::drive;
    use super::*;

    fn systematic(log_weights: &[f64], wanted: usize, offset: f64) -> Vec<usize> {
        let mut kept = Vec::new();
        super::systematic(&log_weights, wanted, offset, &mut |position| {
            kept.push(position);
        });
        kept
    }

    #[test]
    fn copies_are_the_expected_number_rounded_up_or_down() {
        let weights: [f64; 5] = [0.5, 0.0, 3.0, 1.5, 5.0];
        let logs: Vec<f64> = weights.iter().map(|w| w.ln()).collect();
        for offset in [0.001, 0.25, 0.5, 0.999] {
            let kept = systematic(&logs, 7, offset);
            assert_eq!(kept.len(), 7);
            for (i, w) in weights.iter().enumerate() {
                let count = kept.iter().filter(|&&k| k == i).count() as f64;
                let expected = 7.0 * w / 10.0;
                assert!(
                    (count - expected).abs() < 1.0,
                    "{offset}: {count} against {expected}"
                );
            }
        }
    }

    /// Averaged over the offset, the expected number of copies is exact.
    #[test]
    fn expected_copies_are_exact_given_the_pool() {
        let weights: [f64; 3] = [0.3, 1.1, 0.6];
        let logs: Vec<f64> = weights.iter().map(|w| w.ln()).collect();
        let grid = 20_000;
        let mut counts = [0usize; 3];
        for j in 0..grid {
            for k in systematic(&logs, 5, (f64::from(j) + 0.5) / f64::from(grid)) {
                counts[k] += 1;
            }
        }
        for (count, w) in counts.iter().zip(weights) {
            let found = *count as f64 / f64::from(grid);
            assert!((found - 5.0 * w / 2.0).abs() < 1e-3, "{found}");
        }
    }

    #[test]
    fn distinct_samples_are_refused_where_one_weight_is_too_large() {
        let goal = Goal {
            samples: NonZeroUsize::new(100).unwrap(),
            max_calls: 4096,
        };
        let mut sampler = Resample::new(goal, 0.5, Copies::Refused);
        let mut weigh = |k: u64| if k == 3 { 20.0 } else { 0.0 };
        let (draw, _) = drive(&mut sampler, 1, &mut weigh);
        let message = draw.unwrap_err().to_string();
        assert!(
            message.starts_with("100 distinct samples cannot be resampled from 4096 proposals"),
            "{message}"
        );
        let mut sampler = Resample::new(goal, 0.5, Copies::Refused);
        let (draw, _) = drive(&mut sampler, 1, &mut |_| 0.0);
        assert_eq!(draw.unwrap().duplicates, 0);
    }

    #[test]
    fn duplicates_are_counted_and_said() {
        let goal = Goal {
            samples: NonZeroUsize::new(600).unwrap(),
            max_calls: 1024,
        };
        let mut sampler = Resample::new(goal, 0.5, Copies::Allowed);
        let (draw, _) = drive(&mut sampler, 1, &mut |k| {
            if k % 4 == 0 { 0.0 } else { f64::NEG_INFINITY }
        });
        let draw = draw.unwrap();
        assert_eq!(
            draw.error.warnings[0].to_string(),
            "344 of the samples repeat another one"
        );
        assert_eq!(draw.error.tv_bound, None);
    }
}
