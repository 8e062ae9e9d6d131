//! Independence Metropolis–Hastings, the paper's sampler.
//!
//! Each proposal `y` is a fresh draw from the generator and ignores the current sample `x`. The
//! generator's own density then cancels, and only the ratio of weights is left:
//!
//! ```text
//! α(x → y) = min(1, w(y) / w(x))
//! ```
//!
//! Chain `i` uses the proposals `iK … iK+K−1`. It starts on the first supported one, and K counts
//! those before it too. Coupling the chain with a stationary one gives
//!
//! ```text
//! TV ≤ E_{x~q, y~π} (1 − p(max(w_x, w_y)))^K,     p(m) = E_q min(1, w/m)
//! ```
//!
//! since two chains fed the same proposals meet as soon as the one with the larger weight accepts.
//!
//! References: Turner et al., "Metropolis-Hastings Generative Adversarial Networks", 2019, for the
//! sampler; Lindvall, "Lectures on the Coupling Method", 1992, for the argument.

use std::num::NonZeroUsize;
use std::ops::Range;

use super::{
    BOUND_ERRORS, CallsNeeded, Draw, ErrorStatement, Failure, Goal, History, MAX_TAIL_INDEX, Next,
    Sampler, Warning, score, search,
};
use crate::chains::{ChainSummary, summarise_chains};
use crate::diagnostics::summarise;
use crate::series::{self, Part, Series};
use crate::tail::{Tail, UNSEEN};

/// Proposals asked for at a time, so that a caller can show progress.
const REQUEST: usize = 1 << 16;

/// Proposals on which distances are estimated at most; more would only cost time.
const MAX_ESTIMATED: usize = 1 << 17;

/// Fewest supported proposals on which a length is chosen.
const MIN_SUPPORTED_PILOT: usize = 2000;

/// Fewest fresh supported proposals for a bound.
const MIN_SUPPORTED_FRESH: usize = 500;

/// Fresh supported proposals that an automatic length is owed, so that what it rests on can be checked. Few short
/// chains fit into the pilot, and would leave none.
const OWED_FRESH: usize = 1000;

/// Groups of the delete-one-group jackknife that gives standard errors.
const JACKKNIFE_GROUPS: usize = 20;

/// Chains whose log weights are traced for R-hat, and states of each at most.
const TRACED_CHAINS: usize = 256;
const TRACED_STATES: usize = 2048;

/// Longest automatic chain.
const MAX_STEPS: usize = 1 << 24;

/// How long a chain is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Steps {
    /// This many proposals per chain; the paper uses 100 to 1000.
    Fixed(NonZeroUsize),
    /// As many as this total variation distance needs, by the bound above on a pilot.
    ForDistance(f64),
}

/// What a chain carries from one step to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct State {
    /// Position of the current proposal.
    pub position: usize,
    /// Its log weight, so that a step scores one new proposal and not two.
    pub log_weight: f64,
}

/// What a draw reports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Info {
    /// Proposals per chain.
    pub steps: usize,
    /// Chains run.
    pub chains: usize,
    /// Chains that met no supported proposal.
    pub dead_chains: usize,
    /// Split R-hat and effective sample size of the log weight over the chains' second halves.
    pub mixing: Option<ChainSummary>,
}

/// Moves a chain by one step; `log_uniform` is the proposal's own uniform number, in log space.
pub fn step(current: State, proposed: State, log_uniform: f64) -> (State, bool) {
    let accepted = log_uniform < log_acceptance(current.log_weight, proposed.log_weight);
    (if accepted { proposed } else { current }, accepted)
}

/// `log α(x → y)`. A proposal outside the support is never accepted.
///
/// A chain starts on its first supported proposal, so `current` is finite.
fn log_acceptance(current: f64, proposed: f64) -> f64 {
    (proposed - current).min(0.0)
}

/// Independence Metropolis–Hastings with one sample per chain.
#[derive(Debug, Clone)]
pub struct MetropolisHastings {
    goal: Goal,
    steps: Steps,
    /// Length of the chains and proposals that were scored when it was fixed.
    fixed: Option<(usize, usize)>,
    /// Chains run so far, how many of them found something, and the steps that they accepted.
    chains: usize,
    found: usize,
    accepted: usize,
}

impl MetropolisHastings {
    /// One sample from the end of each of `goal.samples` chains.
    pub fn new(goal: Goal, steps: Steps) -> Self {
        let fixed = match steps {
            Steps::Fixed(steps) => Some((steps.get(), 0)),
            Steps::ForDistance(_) => None,
        };
        Self {
            goal,
            steps,
            fixed,
            chains: 0,
            found: 0,
            accepted: 0,
        }
    }

    /// Fixes the length of the chains once the pilot is large enough.
    fn pilot(&mut self, history: History<'_>, distance: f64) -> Option<Next> {
        let n = history.len();
        let mut log_weights = Vec::with_capacity(n);
        history.log_weights.scan(0..n, &mut |block| {
            log_weights.extend_from_slice(block);
        });
        let steps = steps_for(&log_weights, distance);
        let expected = steps.saturating_mul(self.goal.samples.get());
        let enough = n >= expected / 8 && history.supported() >= MIN_SUPPORTED_PILOT;
        if enough || n >= REQUEST.min(self.goal.max_calls) {
            self.fixed = Some((steps, n));
            return None;
        }
        Some(score(n, n, self.goal, 0))
    }

    /// Asks for proposals that the pilot did not see, where a bound needs more of them and calls are left.
    fn owed(&self, history: History<'_>, fixed_at: usize) -> Option<Next> {
        let n = history.len();
        let fresh = series::finite(&Part {
            of: history.log_weights,
            range: fixed_at..n,
        });
        let missing = OWED_FRESH.saturating_sub(fresh) as f64;
        let share = history.supported() as f64 / n as f64;
        let count = (missing / share).ceil() as usize;
        let allowed = self.goal.max_calls.saturating_sub(n);
        NonZeroUsize::new(count)
            .filter(|count| count.get() <= allowed)
            .map(Next::Score)
    }

    fn draw(&self, history: History<'_>, steps: usize, mut error: ErrorStatement) -> Draw {
        let dead_chains = self.chains - self.found;
        if dead_chains > 0 {
            error.warnings.push(Warning::DeadChains {
                chains: dead_chains,
                steps,
            });
        }
        Draw {
            samples: self.goal.samples.get(),
            duplicates: 0,
            acceptance: self.accepted as f64 / (self.chains * steps) as f64,
            error,
            info: super::Info::Mh(Info {
                steps,
                chains: self.chains,
                dead_chains,
                mixing: mixing(history, self.chains, steps),
            }),
        }
    }
}

impl Sampler for MetropolisHastings {
    fn next(&mut self, history: History<'_>) -> Next {
        // Once a chain has found something the support is known to be there.
        if self.found < super::MIN_SUPPORTED
            && let Some(next) = search(history, self.goal)
        {
            return next;
        }
        if let (None, Steps::ForDistance(distance)) = (self.fixed, self.steps)
            && let Some(next) = self.pilot(history, distance)
        {
            return next;
        }
        let (steps, fixed_at) = self.fixed.expect("fixed by the user or by the pilot above");
        let (n, wanted) = (history.len(), self.goal.samples.get());
        let (mut found, mut accepted) = (self.found, self.accepted);
        each_end(history, steps, self.chains..n / steps, |end| {
            found += usize::from(end.state.is_some());
            accepted += end.accepted;
        });
        (self.chains, self.found, self.accepted) = (n / steps, found, accepted);
        if self.found < wanted {
            // Every missing sample costs one chain; a chain that is begun is scored to its end.
            let missing = (wanted - self.found)
                .saturating_mul(steps)
                .saturating_sub(n % steps);
            let expected = n.saturating_add(missing);
            if expected > self.goal.max_calls || expected == usize::MAX {
                return Next::Failed(Failure::OutOfCalls {
                    proposals: n,
                    found: self.found,
                    wanted,
                    expected: Some(CallsNeeded::exactly(expected)),
                });
            }
            return score(missing.min(REQUEST), n, self.goal, self.found);
        }
        let wish = match self.steps {
            Steps::Fixed(_) => None,
            Steps::ForDistance(distance) => Some(distance),
        };
        if wish.is_some()
            && let Some(next) = self.owed(history, fixed_at)
        {
            return next;
        }
        let error = statement(history.log_weights, fixed_at, steps, wish);
        Next::Done(self.draw(history, steps, error))
    }

    fn kept(&self, history: History<'_>, see: &mut dyn FnMut(usize)) {
        let Some((steps, _)) = self.fixed else { return };
        let mut left = self.goal.samples.get();
        each_end(history, steps, 0..self.chains, |end| {
            if let Some(state) = end.state.filter(|_| left > 0) {
                see(state.position);
                left -= 1;
            }
        });
    }
}

/// Where one chain ended.
#[derive(Debug, Clone, Copy)]
struct ChainEnd {
    /// None where the chain met no supported proposal.
    state: Option<State>,
    accepted: usize,
}

/// Where chains of so many steps end, one after the other over all proposals; none for a chain that met
/// no supported one.
pub fn chain_ends(history: History<'_>, steps: NonZeroUsize) -> Vec<Option<usize>> {
    let chains = history.len() / steps.get();
    let mut ends = Vec::with_capacity(chains);
    each_end(history, steps.get(), 0..chains, |end| {
        ends.push(end.state.map(|state| state.position));
    });
    ends
}

/// Chains of so many steps over all proposals, one after the other, and what they were on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// For each number of steps that was asked for, the state of every chain; none before its first
    /// supported proposal.
    pub states: Vec<Vec<Option<usize>>>,
    /// Share of chains that accepted at each step.
    pub acceptance: Vec<f64>,
}

/// Follows chains and notes their states after some numbers of steps, in ascending order.
pub fn follow(history: History<'_>, steps: NonZeroUsize, after: &[usize]) -> Progress {
    let steps = steps.get();
    let chains = history.len() / steps;
    let mut states = vec![Vec::with_capacity(chains); after.len()];
    let mut accepted = vec![0_usize; steps];
    for i in 0..chains {
        let mut step = 0;
        trace(history, i * steps, steps, |state, moved| {
            accepted[step] += usize::from(moved);
            step += 1;
            if let Some(at) = after.iter().position(|&wanted| wanted == step) {
                states[at].push(state.map(|s: State| s.position));
            }
        });
    }
    let share = |count: &usize| *count as f64 / chains.max(1) as f64;
    let acceptance = accepted.iter().map(share).collect();
    Progress { states, acceptance }
}

/// Runs chains of so many steps, one after the other, and shows where each ended.
fn each_end(
    history: History<'_>,
    steps: usize,
    chains: Range<usize>,
    mut see: impl FnMut(ChainEnd),
) {
    let none = ChainEnd {
        state: None,
        accepted: 0,
    };
    let (mut end, mut step) = (none, 0);
    let positions = chains.start.saturating_mul(steps)..chains.end.saturating_mul(steps);
    history.each(positions, |position, log_weight, log_uniform| {
        let proposed = State {
            position,
            log_weight,
        };
        end.accepted += usize::from(advance(&mut end.state, proposed, log_uniform));
        step += 1;
        if step == steps {
            see(std::mem::replace(&mut end, none));
            step = 0;
        }
    });
}

/// Runs a chain and shows every state on the way.
fn trace(
    history: History<'_>,
    first: usize,
    steps: usize,
    mut show: impl FnMut(Option<State>, bool),
) {
    let mut current: Option<State> = None;
    history.each(first..first + steps, |position, log_weight, log_uniform| {
        let proposed = State {
            position,
            log_weight,
        };
        let accepted = advance(&mut current, proposed, log_uniform);
        show(current, accepted);
    });
}

/// Offers a proposal to a chain, which may not have begun yet; whether it is taken.
fn advance(current: &mut Option<State>, proposed: State, log_uniform: f64) -> bool {
    match *current {
        Some(state) => {
            let (next, accepted) = step(state, proposed, log_uniform);
            *current = Some(next);
            accepted
        }
        None if proposed.log_weight.is_finite() => {
            *current = Some(proposed);
            true
        }
        None => false,
    }
}

/// R-hat and effective size of the log weight over the last half of the first chains.
fn mixing(history: History<'_>, chains: usize, steps: usize) -> Option<ChainSummary> {
    let first_traced = (steps / 2).max(steps.saturating_sub(TRACED_STATES));
    let traces: Vec<Vec<f64>> = (0..chains.min(TRACED_CHAINS))
        .filter_map(|i| {
            let (mut at, mut states) = (0, Vec::new());
            trace(history, i * steps, steps, |state, _| {
                if at >= first_traced {
                    states.push(state.map(|s| s.log_weight));
                }
                at += 1;
            });
            states.into_iter().collect()
        })
        .collect();
    summarise_chains(&traces)
}

/// What fresh proposals allow to be said about chains of this length.
///
/// Whether the tail is too heavy is decided on proposals that the estimate does not look at: those of the
/// pilot, or the first half of all where there was none. What the target has beyond the largest weight
/// seen comes on top of the bound: chains of this length may not leave it, or never meet it.
fn statement(all: &dyn Series, fixed_at: usize, steps: usize, wish: Option<f64>) -> ErrorStatement {
    let first = if fixed_at == 0 {
        all.len() / 2
    } else {
        fixed_at
    };
    let last = all.len().min(first.saturating_add(MAX_ESTIMATED));
    let mut fresh = Vec::with_capacity(last - first);
    all.scan(first..last, &mut |block| fresh.extend_from_slice(block));
    let decisive = &Part {
        of: all,
        range: 0..first,
    };
    let supported = fresh.iter().filter(|w| w.is_finite()).count();
    let too_few = |reason| Warning::TooFewFresh {
        fresh: fresh.len(),
        reason,
    };
    if supported < super::MIN_SUPPORTED {
        let warnings = vec![too_few("ask for more samples to get one")];
        return ErrorStatement {
            warnings,
            ..ErrorStatement::default()
        };
    }
    let (estimate, standard_error) = Profiles::new(&fresh).distance_with_error(steps);
    let above = wish.filter(|&wanted| estimate > wanted);
    let above = above.map(|wanted| Warning::AboveWanted { estimate, wanted });
    let tail = Tail::of(all);
    let warning = match Tail::of(decisive).or(tail) {
        Some(tail) if tail.is_over(MAX_TAIL_INDEX) => {
            Some(Warning::HeavyTail { index: tail.index })
        }
        None => Some(too_few("and too few of all lie in the support")),
        _ if supported < MIN_SUPPORTED_FRESH => {
            Some(too_few("and too few of those lie in the support"))
        }
        _ => None,
    };
    let unseen = tail.map_or(0.0, |tail| tail.unseen(summarise(&fresh).largest_share));
    let bound = estimate + BOUND_ERRORS * standard_error + UNSEEN * unseen;
    ErrorStatement {
        tv_estimate: Some(estimate),
        tv_bound: warning.is_none().then(|| bound.min(1.0)),
        warnings: warning.into_iter().chain(above).collect(),
    }
}

/// The fewest steps whose estimate plus [`BOUND_ERRORS`] standard errors is within `distance`.
fn steps_for(log_weights: &[f64], distance: f64) -> usize {
    let profiles = Profiles::new(log_weights);
    let fits = |steps: usize| {
        let (estimate, error) = profiles.distance_with_error(steps);
        estimate + BOUND_ERRORS * error <= distance
    };
    let mut high = 1;
    while high < MAX_STEPS && !fits(high) {
        high *= 2;
    }
    let mut low = high / 2;
    while high - low > 1 {
        let middle = low.midpoint(high);
        if fits(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// The law of `p(max(w_x, w_y))` under the empirical weights, whole and with one group left out.
struct Profiles {
    whole: Profile,
    without: Vec<Profile>,
}

impl Profiles {
    fn new(log_weights: &[f64]) -> Self {
        let sorted = Sorted::new(log_weights);
        Self {
            whole: sorted.profile(None),
            without: (0..JACKKNIFE_GROUPS)
                .map(|g| sorted.profile(Some(g)))
                .collect(),
        }
    }

    /// The bound on the distance after `steps` steps, with a jackknife standard error.
    fn distance_with_error(&self, steps: usize) -> (f64, f64) {
        let groups = JACKKNIFE_GROUPS as f64;
        let without: Vec<f64> = self.without.iter().map(|p| p.distance(steps)).collect();
        let mean = without.iter().sum::<f64>() / groups;
        let spread: f64 = without.iter().map(|d| (d - mean).powi(2)).sum();
        (
            self.whole.distance(steps),
            ((groups - 1.0) / groups * spread).sqrt(),
        )
    }
}

/// Pairs of probability and `log(1 − p)`, one per weight.
struct Profile(Vec<(f64, f64)>);

impl Profile {
    /// `E (1 − p(max(w_x, w_y)))^steps`; 1 where nothing is supported.
    fn distance(&self, steps: usize) -> f64 {
        if self.0.is_empty() {
            return 1.0;
        }
        let terms = self
            .0
            .iter()
            .map(|(share, log_stay)| share * (steps as f64 * log_stay).exp());
        terms.sum::<f64>().min(1.0)
    }
}

/// Positive weights in ascending order with their jackknife groups, and the rest counted.
struct Sorted {
    weights: Vec<(f64, usize)>,
    /// Proposals per group, unsupported ones included.
    group_sizes: [usize; JACKKNIFE_GROUPS],
    unsupported: [usize; JACKKNIFE_GROUPS],
}

impl Sorted {
    fn new(log_weights: &[f64]) -> Self {
        let largest = log_weights
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        let (mut group_sizes, mut unsupported) = ([0; JACKKNIFE_GROUPS], [0; JACKKNIFE_GROUPS]);
        let mut weights = Vec::new();
        for (k, log_weight) in log_weights.iter().enumerate() {
            let group = k % JACKKNIFE_GROUPS;
            let weight = (log_weight - largest).exp();
            group_sizes[group] += 1;
            // A weight that underflows beside the largest is as good as none.
            if weight > 0.0 {
                weights.push((weight, group));
            } else {
                unsupported[group] += 1;
            }
        }
        weights.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        Self {
            weights,
            group_sizes,
            unsupported,
        }
    }

    /// The law with one group left out.
    ///
    /// The maximum of the two weights is at most the j-th one with probability `F_q(j)·F_π(j)`.
    fn profile(&self, left_out: Option<usize>) -> Profile {
        let counted = |group: usize| Some(group) != left_out;
        let sum = |sizes: &[usize]| {
            (0..JACKKNIFE_GROUPS)
                .filter(|&g| counted(g))
                .map(|g| sizes[g])
                .sum::<usize>() as f64
        };
        let (n, unsupported) = (sum(&self.group_sizes), sum(&self.unsupported));
        let used = || {
            let used = self.weights.iter().filter(|(_, group)| counted(*group));
            used.map(|(w, _)| *w)
        };
        let total: f64 = used().sum();
        let (mut below, mut weight_below, mut reached) = (unsupported, 0.0, 0.0);
        let pairs = used().map(|w| {
            below += 1.0;
            weight_below += w;
            let acceptance = ((weight_below / w + (n - below)) / n).min(1.0);
            let next = (below / n) * (weight_below / total);
            let share = next - reached;
            reached = next;
            (share, (-acceptance).ln_1p())
        });
        Profile(pairs.collect())
    }
}

#[cfg(test)]
mod tests;
