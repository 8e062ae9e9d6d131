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
    CallsNeeded, Draw, ErrorStatement, Failure, Goal, History, MAX_TAIL_INDEX, Next, Sampler,
    Warning, score, search,
};
use crate::diagnostics::summarise;
use crate::series::{self, Part, Series};
use crate::tail::{Tail, UNSEEN};

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

/// Standard errors between an estimate and its bound: a normal estimate exceeds it once in a thousand. A cap stays where
/// its estimate is low, so that it comes out more often: at 2.58, 24 of 2,332 bounds were missed (`reproduce statements`).
pub const BOUND_ERRORS: f64 = 3.09;

/// Standard errors between the cap that proposals ask for and those that more of them might.
const FORECAST_ERRORS: f64 = 1.96;

/// Standard errors by which the tail index must be below zero for an upper end of the calls. Only weights that are seen
/// to be bounded have one: unbounded ones whose largest are not among the few that were scored look light, and of the
/// ends told for Pareto weights of index 0.2 by their upper limit alone more than half were too low.
const FORECAST_INDEX_ERRORS: f64 = 3.0;

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
pub fn calls_per_sample<S: Series + ?Sized>(log_weights: &S, distance: f64) -> Option<f64> {
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
        let n = history.len();
        let fresh = n - state.fixed_at;
        if fresh < MIN_FRESH || excess(history.log_weights, state).estimate <= self.distance {
            return state;
        }
        let log_cap = SortedWeights::new(history.log_weights).cap_for(self.distance);
        State {
            log_cap: log_cap.max(state.log_cap + LEAST_GROWTH),
            fixed_at: n,
            least_fresh: ((n as f64 * PILOT_SHARE) as usize).max(MIN_FRESH),
        }
    }

    /// Calls that the whole draw would take.
    ///
    /// With more proposals the cap would be another one. So the ends of the interval are those of caps that are still
    /// possible, each with the error of its own acceptance. There is no upper end where weights are not seen to be bounded,
    /// or where those that were not seen may take more than the wanted distance even from a cap at the largest one.
    fn forecast(&self, history: History<'_>) -> Option<CallsNeeded> {
        let weights = SortedWeights::new(history.log_weights);
        let (wanted, n) = (self.goal.samples.get(), history.len());
        let at = |log_cap: f64, wanted: usize| {
            let accepted = (weights.acceptance(log_cap) * n as f64).round() as usize;
            CallsNeeded::estimate(wanted, accepted, n)
        };
        let low = weights.cap_at(|excess, _| excess.above(-FORECAST_ERRORS) <= self.distance)?;
        // The last request is for a little more than what is missing.
        let more = wanted.saturating_add((2.0 * (wanted as f64).sqrt()) as usize);
        let bounded =
            |tail: &Tail| tail.bounded && tail.index + FORECAST_INDEX_ERRORS * tail.error < 0.0;
        let tail = Tail::of(history.log_weights).filter(bounded);
        let high = tail.and_then(|tail| {
            let largest = 1.0 / weights.all.weights;
            weights.cap_at(|excess, c| {
                let unseen = UNSEEN * (tail.unseen(largest) - c * largest).max(0.0);
                excess.above(PILOT_ERRORS + FORECAST_ERRORS) + unseen <= self.distance
            })
        });
        Some(CallsNeeded {
            about: at(weights.cap_for(self.distance), wanted)?.about,
            least: at(low, wanted)?.least,
            most: high.and_then(|cap| at(cap, more)?.most),
        })
    }

    fn draw(&self, history: History<'_>, state: State, accepted: usize) -> Draw {
        Draw {
            samples: self.goal.samples.get(),
            duplicates: 0,
            acceptance: accepted as f64 / history.len() as f64,
            error: statement(history.log_weights, state),
            info: super::Info::Reject(Info {
                log_cap: state.log_cap,
                pilot: state.fixed_at,
                fresh: history.len() - state.fixed_at,
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
        let mut accepted = 0;
        history.each(0..n, |_, log_weight, log_uniform| {
            accepted += usize::from(accepts(log_weight, log_uniform, state.log_cap));
        });
        let missing = self.goal.samples.get().saturating_sub(accepted);
        let owed = (state.fixed_at + state.least_fresh)
            .min(self.goal.max_calls)
            .saturating_sub(n);
        if missing == 0 && owed == 0 {
            return Next::Done(self.draw(history, state, accepted));
        }
        // A little more than expected, so that the last request is rarely followed by a tiny one.
        let rate = accepted.max(1) as f64 / n as f64;
        let expected = (missing as f64 + 2.0 * (missing as f64).sqrt()) / rate;
        let request = (expected as usize).max(owed).min(n).max(MIN_FRESH / 2);
        match score(request, n, self.goal, accepted) {
            Next::Failed(Failure::OutOfCalls { .. }) => Next::Failed(Failure::OutOfCalls {
                proposals: n,
                found: accepted,
                wanted: self.goal.samples.get(),
                expected: self.forecast(history),
            }),
            next => next,
        }
    }

    fn kept(&self, history: History<'_>, see: &mut dyn FnMut(usize)) {
        let Some(state) = self.state else { return };
        let mut left = self.goal.samples.get();
        history.each(0..history.len(), |position, log_weight, log_uniform| {
            if left > 0 && accepts(log_weight, log_uniform, state.log_cap) {
                see(position);
                left -= 1;
            }
        });
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
    /// So many standard errors above the estimate.
    fn above(&self, errors: f64) -> f64 {
        self.estimate + errors * self.standard_error
    }

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

/// The estimate for a cap on the proposals that came after it was fixed.
fn excess(log_weights: &dyn Series, state: State) -> Excess {
    let mut sums = Sums::default();
    log_weights.scan(state.fixed_at..log_weights.len(), &mut |block| {
        for w in block.iter().map(|w| (w - state.log_cap).exp()) {
            sums.weights += w;
            sums.squares += w * w;
            if w > 1.0 {
                sums.above += 1.0;
                sums.above_weights += w;
                sums.above_squares += w * w;
            }
        }
    });
    sums.excess(1.0)
}

/// Weights between two marks of [`SortedWeights`].
const MARKED: usize = 1 << 10;

/// Positive weights in descending order, for trying many caps.
struct SortedWeights {
    proposals: usize,
    log_largest: f64,
    weights: Box<dyn Series>,
    /// At every so many weights: the weight there, and the sums of those before it.
    marks: Vec<(f64, Running)>,
    /// Sums of all.
    all: Running,
    smallest: Option<f64>,
}

/// Sums of weights and of their squares, from the largest on.
#[derive(Debug, Clone, Copy, Default)]
struct Running {
    weights: f64,
    squares: f64,
}

impl Running {
    fn add(&mut self, w: f64) {
        self.weights += w;
        self.squares += w * w;
    }
}

impl SortedWeights {
    fn new<S: Series + ?Sized>(log_weights: &S) -> Self {
        let log_largest = series::largest(log_weights);
        let weights = log_weights.descending(&|w| w.is_finite().then(|| (w - log_largest).exp()));
        let (mut marks, mut all, mut smallest) = (Vec::new(), Running::default(), None);
        let mut at = 0;
        series::each(&*weights, |w| {
            if at % MARKED == 0 {
                marks.push((w, all));
            }
            all.add(w);
            smallest = Some(w);
            at += 1;
        });
        Self {
            proposals: log_weights.len(),
            log_largest,
            weights,
            marks,
            all,
            smallest,
        }
    }

    fn sums(&self, c: f64) -> Sums {
        // The last mark above the cap, and from there on weight by weight.
        let mark = self.marks.partition_point(|(w, _)| *w > c);
        let (mut above, mut sums) = (0, Running::default());
        if let Some(mark) = mark.checked_sub(1) {
            let first = mark * MARKED;
            (above, sums) = (first, self.marks[mark].1);
            let last = self.weights.len().min(first + MARKED);
            self.weights.scan(first..last, &mut |block| {
                for &w in block.iter().filter(|w| **w > c) {
                    above += 1;
                    sums.add(w);
                }
            });
        }
        Sums {
            weights: self.all.weights,
            squares: self.all.squares,
            above: above as f64,
            above_weights: sums.weights,
            above_squares: sums.squares,
        }
    }

    /// The smallest log cap whose estimate plus [`PILOT_ERRORS`] standard errors is within `distance`.
    fn cap_for(&self, distance: f64) -> f64 {
        let cap = self.cap_at(|excess, _| excess.above(PILOT_ERRORS) <= distance);
        cap.unwrap_or(self.log_largest)
    }

    /// The smallest log cap that fits, by its excess and itself relative to the largest weight; none where not even
    /// the largest weight does.
    fn cap_at(&self, fits: impl Fn(Excess, f64) -> bool) -> Option<f64> {
        let fits = |log_cap: f64| {
            let c = log_cap.exp();
            fits(self.sums(c).excess(c), c)
        };
        let smallest = self.smallest.unwrap_or(1.0);
        // A weight that underflows beside the largest one must not push the search out to nowhere.
        let (mut low, mut high) = (smallest.max(f64::MIN_POSITIVE).ln(), 0.0);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if fits(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        fits(high).then_some(high + self.log_largest)
    }

    /// Share of proposals that a cap accepts.
    fn acceptance(&self, log_cap: f64) -> f64 {
        let c = (log_cap - self.log_largest).exp();
        let sums = self.sums(c);
        ((sums.weights - sums.above_weights) / c + sums.above) / self.proposals as f64
    }
}

/// Share of the target that may lie beyond the largest of some weights.
///
/// Where many weights lie near the largest there is hardly anything above a cap but them.
fn unseen<S: Series + ?Sized>(tail: Option<Tail>, weights: &S) -> f64 {
    let unbounded = tail.filter(|tail| !tail.bounded);
    unbounded.map_or(0.0, |tail| tail.unseen(summarise(weights).largest_share))
}

/// What the fresh proposals allow to be said about a cap.
///
/// Whether the tail is too heavy is decided on the pilot: fresh proposals that happen to miss the tail would
/// look light and have a low estimate too, so that a decision by them picks the runs in which it is too low.
fn statement(all: &dyn Series, state: State) -> ErrorStatement {
    let part = |range| Part { of: all, range };
    let pilot = part(0..state.fixed_at);
    let fresh = part(state.fixed_at..all.len());
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
    let excess = excess(all, state);
    let tail = Tail::of(all);
    let decided = Tail::of(&pilot).or(tail);
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
    let bound = (excess.bound() + UNSEEN * unseen(tail, &fresh)).min(1.0);
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
    use crate::series::tests::InBlocks;

    fn goal(samples: usize) -> Goal {
        Goal {
            samples: NonZeroUsize::new(samples).unwrap(),
            max_calls: 100_000_000,
        }
    }

    fn excess(log_weights: &[f64], log_cap: f64) -> Excess {
        let state = State {
            log_cap,
            fixed_at: 0,
            least_fresh: 0,
        };
        super::excess(&log_weights, state)
    }

    /// Sums above a cap, from the next mark on, have the bits of sums from the largest weight on.
    #[test]
    fn marks_change_no_bit() {
        let logs: Vec<f64> = (0..5000)
            .map(|k| (f64::from(k * k % 4999) * 0.37).sin() * 4.0)
            .collect();
        let sorted = SortedWeights::new(&InBlocks(logs.clone()));
        let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut weights: Vec<f64> = logs.iter().map(|w| (w - largest).exp()).collect();
        weights.sort_by(|a, b| b.total_cmp(a));
        let edges = [
            weights[0],
            weights[MARKED],
            weights[MARKED - 1],
            weights[4999],
            2.0,
            0.0,
        ];
        for c in edges
            .into_iter()
            .chain((0..60).map(|k| f64::exp(-f64::from(k) / 7.0)))
        {
            let (mut sum, mut squares, mut above) = (0.0, 0.0, 0.0);
            for w in weights.iter().filter(|w| **w > c) {
                (sum, squares, above) = (sum + w, squares + w * w, above + 1.0);
            }
            let found = sorted.sums(c);
            let found = [found.above_weights, found.above_squares, found.above];
            assert_eq!(
                found.map(f64::to_bits),
                [sum, squares, above].map(f64::to_bits)
            );
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

    /// Draws are stopped at a tenth of the calls that they take. Bounded weights get both ends, of which few are wrong;
    /// others get a lower end alone, however light they look.
    #[test]
    fn few_upper_ends_are_too_low() {
        let heavy: fn(f64) -> f64 = |u| -0.31 * u.ln();
        let light: fn(f64) -> f64 = |u| -0.1 * u.ln();
        let uniform: fn(f64) -> f64 = f64::ln;
        for (law, told, wrong) in [
            (uniform, 36..=40, 0..=3),
            (light, 0..=0, 0..=0),
            (heavy, 0..=0, 0..=0),
        ] {
            let (mut ends, mut misses) = (0, 0);
            for seed in 0..40 {
                let mut weigh = |k: u64| law(Proposals::new(seed).uniform(Purpose::Class, k));
                let (_, weights) = drive(&mut Reject::new(goal(2000), 0.01), seed, &mut weigh);
                let few = Goal {
                    max_calls: weights.len() / 10,
                    ..goal(2000)
                };
                let (draw, _) = drive(&mut Reject::new(few, 0.01), seed, &mut weigh);
                let Failure::OutOfCalls {
                    expected: Some(expected),
                    ..
                } = draw.unwrap_err()
                else {
                    panic!("there is a forecast")
                };
                let truth = weights.len() as u64;
                assert!(expected.least <= truth, "{expected:?} {truth}");
                ends += usize::from(expected.most.is_some());
                misses += usize::from(expected.most.is_some_and(|most| most < truth));
            }
            assert!(
                told.contains(&ends) && wrong.contains(&misses),
                "{ends} {misses}"
            );
        }
    }
}
