//! Rejection with a cap.
//!
//! Proposal `k` with weight `w_k` and its own uniform number `u_k` is accepted iff
//!
//! ```text
//! u_k · c < min(w_k, c)
//! ```
//!
//! so accepted proposals are independent draws from the density proportional to `min(w, c)·q`, which
//! lies within `TV ≤ E_q(w − c)^+ / E_q w` of the target. The cap `c` comes from a growing pilot
//! whose proposals are candidates too; the distance is estimated on proposals scored afterwards.
//! Where that estimate exceeds the wanted distance, the cap grows and every stored proposal is
//! decided again with the same `u_k`.
//!
//! Reference: von Neumann, "Various Techniques Used in Connection with Random Digits", 1951, for
//! rejection; the cap and its error are derived in three lines from the densities above.

use super::{
    BOUND_ERRORS, Draw, ErrorStatement, Goal, History, MAX_TAIL_INDEX, Next, Sampler, Warning,
    score, search,
};
use crate::diagnostics::summarise;
use crate::tail::Tail;

/// The pilot grows up to this size; larger ones would cost more than a better cap saves.
const MAX_PILOT: usize = 1 << 16;

/// The pilot is large enough at this share of the calls that the whole draw is expected to take.
const PILOT_SHARE: f64 = 1.0 / 4.0;

/// Standard errors of slack when the cap is chosen on the pilot. A cap without slack is too low every
/// other time and has to grow, and caps that grow until an estimate likes them flatter that estimate.
const PILOT_ERRORS: f64 = 2.0;

/// Fewest fresh proposals for an estimate.
const MIN_FRESH: usize = 512;

/// Fewest fresh proposals above the cap for a bound: below, its standard error is not to be trusted.
const MIN_ABOVE_CAP: usize = 25;

/// Times the expected weight beyond the largest one seen that the bound has on top.
const UNSEEN: f64 = 2.0;

/// Least growth of a log cap, so that a cap that must grow does.
const LEAST_GROWTH: f64 = 0.02;

/// What the sampler carries from one look to the next, once the pilot is done.
#[derive(Debug, Clone, Copy, PartialEq)]
struct State {
    log_cap: f64,
    /// Proposals scored when the cap was fixed.
    fixed_at: usize,
    /// Fresh proposals without which the draw does not end; a cap that had to grow owes some.
    least_fresh: usize,
}

/// What a draw reports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Info {
    /// Log of the cap `c`.
    pub log_cap: f64,
    /// Proposals scored before the cap was fixed.
    pub pilot: usize,
    /// Proposals scored after it, on which the error statement rests.
    pub fresh: usize,
}

/// Rejection with a cap for a wanted distance.
#[derive(Debug, Clone)]
pub struct Reject {
    goal: Goal,
    distance: f64,
    state: Option<State>,
}

/// Whether a proposal is accepted under the cap `exp(log_cap)`.
pub fn accepts(log_weight: f64, log_uniform: f64, log_cap: f64) -> bool {
    log_uniform < (log_weight - log_cap).min(0.0)
}

/// Proposals per sample that a cap for this distance would cost, judged by these weights.
///
/// None where nothing is supported.
pub fn calls_per_sample(log_weights: &[f64], distance: f64) -> Option<f64> {
    let weights = SortedWeights::new(log_weights);
    let any = !weights.weights.is_empty();
    any.then(|| 1.0 / weights.acceptance(weights.cap_for(distance)))
}

/// The log cap that these weights ask for at this distance; none where nothing is supported.
pub fn log_cap_for(log_weights: &[f64], distance: f64) -> Option<f64> {
    let weights = SortedWeights::new(log_weights);
    let any = !weights.weights.is_empty();
    any.then(|| weights.cap_for(distance))
}

impl Reject {
    /// Draws `goal.samples` within total variation `distance` of the target.
    pub fn new(goal: Goal, distance: f64) -> Self {
        Self {
            goal,
            distance,
            state: None,
        }
    }

    /// Fixes the cap once the pilot is large enough.
    fn pilot(&mut self, history: History<'_>) -> Option<Next> {
        let weights = SortedWeights::new(history.log_weights);
        let log_cap = weights.cap_for(self.distance);
        let expected = self.goal.samples.get() as f64 / weights.acceptance(log_cap);
        let n = history.len();
        let enough =
            n as f64 >= expected * PILOT_SHARE || n >= MAX_PILOT || n >= self.goal.max_calls;
        if enough {
            self.state = Some(State {
                log_cap,
                fixed_at: n,
                least_fresh: 0,
            });
            None
        } else {
            Some(score(n, n, self.goal, 0))
        }
    }

    /// Grows the cap where the fresh proposals say that it is too low.
    fn grow(&self, history: History<'_>, state: State) -> State {
        let fresh = &history.log_weights[state.fixed_at..];
        if fresh.len() < MIN_FRESH || excess(fresh, state.log_cap).estimate <= self.distance {
            return state;
        }
        let n = history.len();
        let log_cap = SortedWeights::new(history.log_weights).cap_for(self.distance);
        State {
            log_cap: log_cap.max(state.log_cap + LEAST_GROWTH),
            fixed_at: n,
            least_fresh: ((n as f64 * PILOT_SHARE) as usize).max(MIN_FRESH),
        }
    }

    fn draw(&self, history: History<'_>, state: State, accepted: &[usize]) -> Draw {
        let fresh = &history.log_weights[state.fixed_at..];
        Draw {
            kept: accepted[..self.goal.samples.get()].to_vec(),
            acceptance: accepted.len() as f64 / history.len() as f64,
            error: statement(history.log_weights, state.fixed_at, state.log_cap),
            info: super::Info::Reject(Info {
                log_cap: state.log_cap,
                pilot: state.fixed_at,
                fresh: fresh.len(),
            }),
        }
    }
}

impl Sampler for Reject {
    fn next(&mut self, history: History<'_>) -> Next {
        if let Some(next) = search(history, self.goal) {
            return next;
        }
        if self.state.is_none()
            && let Some(next) = self.pilot(history)
        {
            return next;
        }
        let state = self.grow(history, self.state.expect("the pilot above fixed it"));
        self.state = Some(state);
        let n = history.len();
        let accepted: Vec<usize> = (0..n)
            .filter(|&k| {
                accepts(
                    history.log_weights[k],
                    history.log_uniforms[k],
                    state.log_cap,
                )
            })
            .collect();
        let missing = self.goal.samples.get().saturating_sub(accepted.len());
        let owed = (state.fixed_at + state.least_fresh)
            .min(self.goal.max_calls)
            .saturating_sub(n);
        if missing == 0 && owed == 0 {
            return Next::Done(self.draw(history, state, &accepted));
        }
        // A little more than expected, so that the last request is rarely followed by a tiny one.
        let rate = accepted.len().max(1) as f64 / n as f64;
        let expected = (missing as f64 + 2.0 * (missing as f64).sqrt()) / rate;
        let request = (expected as usize).max(owed).min(n).max(MIN_FRESH / 2);
        score(request, n, self.goal, accepted.len())
    }
}

/// Estimate of `E(w − c)^+ / E w` with its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Excess {
    estimate: f64,
    standard_error: f64,
    above_cap: usize,
}

impl Excess {
    /// [`BOUND_ERRORS`] standard errors above the estimate, on the log scale.
    ///
    /// The estimate is a sum over the few proposals above the cap, so its law is skewed like a
    /// Poisson count's; on the plain scale the bound was missed several times too often.
    fn bound(&self) -> f64 {
        if self.estimate <= 0.0 {
            return 0.0;
        }
        (self.estimate * (BOUND_ERRORS * self.standard_error / self.estimate).exp()).min(1.0)
    }
}

/// Sums from which an [`Excess`] follows, over weights and over those above the cap.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    weights: f64,
    squares: f64,
    above: f64,
    above_weights: f64,
    above_squares: f64,
}

impl Sums {
    /// The estimate for cap `c`, in the same units as the weights.
    fn excess(&self, c: f64) -> Excess {
        if self.weights <= 0.0 {
            return Excess {
                estimate: 0.0,
                standard_error: 0.0,
                above_cap: 0,
            };
        }
        let excess = (self.above_weights - c * self.above).max(0.0);
        let ratio = excess / self.weights;
        // Delta method for a ratio of means: the variance of (w − c)^+ − ratio·w.
        let squares = self.above_squares - 2.0 * c * self.above_weights + c * c * self.above;
        let products = self.above_squares - c * self.above_weights;
        let variance = (squares - 2.0 * ratio * products + ratio * ratio * self.squares).max(0.0);
        Excess {
            estimate: ratio,
            standard_error: variance.sqrt() / self.weights,
            above_cap: self.above as usize,
        }
    }
}

fn excess(log_weights: &[f64], log_cap: f64) -> Excess {
    let mut sums = Sums::default();
    for w in log_weights.iter().map(|w| (w - log_cap).exp()) {
        sums.weights += w;
        sums.squares += w * w;
        if w > 1.0 {
            sums.above += 1.0;
            sums.above_weights += w;
            sums.above_squares += w * w;
        }
    }
    sums.excess(1.0)
}

/// Positive weights in descending order with running sums, for trying many caps.
struct SortedWeights {
    proposals: usize,
    log_largest: f64,
    weights: Vec<f64>,
    running: Vec<(f64, f64)>,
}

impl SortedWeights {
    fn new(log_weights: &[f64]) -> Self {
        let log_largest = log_weights
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        let positive = log_weights.iter().filter(|w| w.is_finite());
        let mut weights: Vec<f64> = positive.map(|w| (w - log_largest).exp()).collect();
        weights.sort_unstable_by(|a, b| b.total_cmp(a));
        let running = weights
            .iter()
            .scan((0.0, 0.0), |sums, w| {
                *sums = (sums.0 + w, sums.1 + w * w);
                Some(*sums)
            })
            .collect();
        Self {
            proposals: log_weights.len(),
            log_largest,
            weights,
            running,
        }
    }

    fn sums(&self, c: f64) -> Sums {
        let above = self.weights.partition_point(|&w| w > c);
        let upto = |count: usize| {
            if count == 0 {
                (0.0, 0.0)
            } else {
                self.running[count - 1]
            }
        };
        let ((weights, squares), (above_weights, above_squares)) =
            (upto(self.weights.len()), upto(above));
        Sums {
            weights,
            squares,
            above: above as f64,
            above_weights,
            above_squares,
        }
    }

    /// The smallest log cap whose estimate plus [`PILOT_ERRORS`] standard errors is within `distance`.
    fn cap_for(&self, distance: f64) -> f64 {
        let fits = |c: f64| {
            let excess = self.sums(c).excess(c);
            excess.estimate + PILOT_ERRORS * excess.standard_error <= distance
        };
        let smallest = self.weights.last().copied().unwrap_or(1.0);
        // A weight that underflows beside the largest one must not push the search out to nowhere.
        let (mut low, mut high) = (smallest.max(f64::MIN_POSITIVE).ln(), 0.0);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if fits(middle.exp()) {
                high = middle;
            } else {
                low = middle;
            }
        }
        high + self.log_largest
    }

    /// Share of proposals that a cap accepts.
    fn acceptance(&self, log_cap: f64) -> f64 {
        let c = (log_cap - self.log_largest).exp();
        let sums = self.sums(c);
        ((sums.weights - sums.above_weights) / c + sums.above) / self.proposals as f64
    }
}

/// What the fresh proposals allow to be said about a cap.
///
/// Whether the tail is too heavy is decided on the pilot: fresh proposals that happen to miss the tail would
/// look light and have a low estimate too, so that a decision by them picks the runs in which it is too low.
fn statement(all: &[f64], fixed_at: usize, log_cap: f64) -> ErrorStatement {
    let (pilot, fresh) = all.split_at(fixed_at);
    let too_few = |reason| Warning::TooFewFresh {
        fresh: fresh.len(),
        reason,
    };
    if fresh.len() < MIN_FRESH {
        let warnings = vec![too_few("ask for more samples to get one")];
        return ErrorStatement {
            warnings,
            ..ErrorStatement::default()
        };
    }
    let excess = excess(fresh, log_cap);
    let tail = Tail::of(all);
    let decided = Tail::of(pilot).or(tail);
    let warning = match decided {
        Some(tail) if tail.is_over(MAX_TAIL_INDEX) => {
            Some(Warning::HeavyTail { index: tail.index })
        }
        None => Some(too_few("and too few of all lie in the support")),
        _ if excess.above_cap < MIN_ABOVE_CAP => {
            Some(too_few("and too few of those lie above the cap"))
        }
        _ => None,
    };
    // Where many weights lie near the largest there is hardly anything above the cap but them.
    let unseen = tail
        .filter(|tail| !tail.bounded)
        .map_or(0.0, |tail| tail.unseen(summarise(fresh).largest_share));
    let bound = (excess.bound() + UNSEEN * unseen).min(1.0);
    ErrorStatement {
        tv_estimate: Some(excess.estimate),
        tv_bound: warning.is_none().then_some(bound),
        warnings: warning.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::super::tests::drive;
    use super::*;
    use crate::proposals::{Proposals, Purpose};

    fn goal(samples: usize) -> Goal {
        Goal {
            samples: NonZeroUsize::new(samples).unwrap(),
            max_calls: 100_000_000,
        }
    }

    /// On a finite space the accepted law is `min(w, c)·q` normalised: its distance to the target
    /// is exactly what the formula bounds.
    #[test]
    fn the_bound_holds_exactly_on_small_spaces() {
        let q: [f64; 4] = [0.4, 0.3, 0.2, 0.1];
        let w: [f64; 4] = [0.1, 1.0, 2.0, 5.0];
        let mean: f64 = q.iter().zip(&w).map(|(q, w)| q * w).sum();
        for c in [0.5, 1.0, 1.5, 3.0, 5.0] {
            let capped: f64 = q.iter().zip(&w).map(|(q, w)| q * w.min(c)).sum();
            let distance: f64 = 0.5
                * q.iter()
                    .zip(&w)
                    .map(|(q, w)| (q * w / mean - q * w.min(c) / capped).abs())
                    .sum::<f64>();
            let bound: f64 = q
                .iter()
                .zip(&w)
                .map(|(q, w)| q * (w - c).max(0.0))
                .sum::<f64>()
                / mean;
            assert!(distance <= bound + 1e-12, "c {c}: {distance} above {bound}");
            // The same number from a sample that has exactly these shares.
            let logs: Vec<f64> = (0..10)
                .map(|k| w[[0, 0, 0, 0, 1, 1, 1, 2, 2, 3][k]].ln())
                .collect();
            assert!((excess(&logs, f64::ln(c)).estimate - bound).abs() < 1e-12);
        }
    }

    #[test]
    fn acceptance_follows_the_rule_at_its_edges() {
        let cap = 2.0_f64.ln();
        assert!(accepts(3.0_f64.ln(), 0.999_f64.ln(), cap));
        assert!(accepts(1.0_f64.ln(), 0.499_f64.ln(), cap));
        assert!(!accepts(1.0_f64.ln(), 0.501_f64.ln(), cap));
        assert!(!accepts(f64::NEG_INFINITY, -700.0, cap));
    }

    #[test]
    fn a_weight_that_underflows_does_not_move_the_cap() {
        let logs: Vec<f64> = (1..=1000).map(|i| f64::from(i).ln()).collect();
        let with_tiny: Vec<f64> = logs.iter().copied().chain([-800.0]).collect();
        let cap = |logs: &[f64]| SortedWeights::new(logs).cap_for(0.05);
        assert!((cap(&logs) - cap(&with_tiny)).abs() < 1e-6);
    }

    #[test]
    fn the_cap_is_the_smallest_that_fits() {
        let logs: Vec<f64> = (1..=1000).map(|i| f64::from(i).ln()).collect();
        let weights = SortedWeights::new(&logs);
        let log_cap = weights.cap_for(0.05);
        let slack = |cap: f64| {
            let e = excess(&logs, cap);
            e.estimate + PILOT_ERRORS * e.standard_error
        };
        assert!(slack(log_cap) <= 0.05 + 1e-9 && slack(log_cap - 1e-3) > 0.05);
        let direct: f64 = logs
            .iter()
            .map(|w| (w - log_cap).min(0.0).exp())
            .sum::<f64>()
            / 1000.0;
        assert!((weights.acceptance(log_cap) - direct).abs() < 1e-9);
    }

    #[test]
    fn a_small_request_is_cheap_and_says_that_it_has_no_bound() {
        let mut sampler = Reject::new(goal(16), 0.01);
        let mut weigh = |k: u64| Proposals::new(1).uniform(Purpose::Class, k).ln();
        let (draw, weights) = drive(&mut sampler, 1, &mut weigh);
        let draw = draw.unwrap();
        assert_eq!((weights.len(), draw.kept.len()), (512, 16));
        assert_eq!((draw.error.tv_estimate, draw.error.tv_bound), (None, None));
        assert_eq!(
            draw.error.warnings[0].to_string(),
            "no error bound: only 0 proposals were scored after the sampler's settings were fixed \
             (ask for more samples to get one)"
        );
    }

    /// A heavy weight that first shows after the pilot makes the cap grow, and every stored
    /// proposal is decided again under it.
    #[test]
    fn a_cap_that_was_too_low_grows_and_all_proposals_are_decided_again() {
        let weigh = |k: u64| {
            if k < 1024 {
                0.0
            } else {
                f64::from(k.is_multiple_of(50)) * 3.0
            }
        };
        let mut sampler = Reject::new(goal(4000), 0.01);
        let (draw, weights) = drive(&mut sampler, 2, &mut { weigh });
        let draw = draw.unwrap();
        let super::super::Info::Reject(info) = draw.info else {
            panic!("reject reports itself")
        };
        assert!(info.log_cap > 2.5, "the cap grew: {info:?}");
        let uniform = |k: usize| Proposals::new(2).uniform(Purpose::Accept, k as u64).ln();
        let again: Vec<usize> = (0..weights.len())
            .filter(|&k| accepts(weights[k], uniform(k), info.log_cap))
            .take(4000)
            .collect();
        assert_eq!(draw.kept, again);
        assert!(draw.kept.iter().any(|&k| k < 512) && info.pilot > 512);
    }
}
