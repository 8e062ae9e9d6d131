//! Sequential Monte Carlo: particles that follow the target from the prior to its whole weight.
//!
//! Between the prior and the target `N(z; 0, I)·w(z)` stand the laws
//!
//! ```text
//! π_β(z) ∝ N(z; 0, I)·w(z)^β,   0 < β ≤ 1
//! ```
//!
//! Particles of `π_β` with weights `w^δ` are particles of `π_(β + δ)`. The next power is the largest, up to 1, at which the
//! effective sample size
//!
//! ```text
//! ESS(δ) = (Σ w^δ)² / Σ w^(2δ)
//! ```
//!
//! is half their number. Systematic resampling makes their weights equal again, and [moves](crate::moves) that leave
//! `π_(β + δ)` as it is part the copies. A rung of this ladder is one power with its resampling and its moves; the last one
//! has power 1. A weight of zero is zero at every power above 0: no particle is ever where the target has nothing.
//!
//! The first rung takes its particles from a pool of proposals, which is what a sampler can do alone; [`climb`] does the rest.
//! Step sizes are found by copies of some particles, anew on every rung, before the particles themselves move. Powers and step sizes depend on the particles, and particles on each other: what is off is of order one over their
//! number, and no bound is known.
//!
//! References: Del Moral, Doucet and Jasra, "Sequential Monte Carlo samplers", 2006; Jasra, Stephens, Doucet and Tsagaris,
//! "Inference for Lévy-driven stochastic volatility models via adaptive sequential Monte Carlo", 2011 (the choice of powers).

use std::collections::HashSet;
use std::ops::Range;

use super::resample::{MAX_POOL_PER_SAMPLE, systematic};
use super::{
    CallsNeeded, Draw, ErrorStatement, Failure, Goal, History, Next, Sampler, Warning, score,
    search,
};
use crate::logspace::raised;
use crate::moves::{Chain, Look, StepSize, Walk};
use crate::proposals::{Proposals, Purpose};
use crate::series::{self, Series};
use crate::streams::PARTICLES;

/// Effective sample size after a rise of the power, as a share of the particles: one half, as is usual. With more there are more
/// rungs and more of the first particles are left.
pub const LEAST_ESS: f64 = 0.5;

/// A power rises by this at least, so that there are at most ten thousand rungs whatever the weights.
const LEAST_RISE: f64 = 1e-4;

/// Halvings of the interval in which the next power lies: to 1e-12.
const HALVINGS: usize = 40;

/// Where samples come from less than one first particle in so many, it is said.
const FEW_ANCESTORS: usize = 10;

/// One power on the way to the target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rung {
    /// The power `β` of the weight.
    pub power: f64,
    /// Effective sample size of the weights with which particles came here.
    pub effective: f64,
    /// The size of the moves; zero before any.
    pub step_size: f64,
    /// The share of moves that were taken.
    pub acceptance: f64,
    /// First particles that have descendants: different proposals of the pool.
    pub ancestors: usize,
}

/// What a draw reports.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    /// Proposals from which the first particles were drawn.
    pub pool: usize,
    /// All rungs, the first one first.
    pub rungs: Vec<Rung>,
}

impl Info {
    /// What to know: where samples come from few first particles.
    pub fn warning(&self, samples: usize) -> Option<Warning> {
        let ancestors = self.rungs.last()?.ancestors;
        (ancestors * FEW_ANCESTORS < samples).then_some(Warning::FewAncestors { ancestors })
    }
}

/// `ESS(δ)` of some weights; 0 where none is positive.
pub fn effective(log_weights: &[f64], rise: f64) -> f64 {
    let finite = || log_weights.iter().filter(|w| w.is_finite());
    let largest = finite().copied().fold(f64::NEG_INFINITY, f64::max);
    let (mut sum, mut squares) = (0.0, 0.0);
    for log_weight in finite() {
        let weight = (rise * (log_weight - largest)).exp();
        sum += weight;
        squares += weight * weight;
    }
    if squares > 0.0 {
        sum * sum / squares
    } else {
        0.0
    }
}

/// The largest power at which the effective sample size is at least so large, coming from another power.
pub fn next_power(log_weights: &[f64], from: f64, least: f64) -> f64 {
    let enough = |to: f64| effective(log_weights, to - from) >= least;
    if enough(1.0) {
        return 1.0;
    }
    let (mut low, mut high) = (from, 1.0);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if enough(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.max(from + LEAST_RISE).min(1.0)
}

/// Log weights raised to a power; `-∞` stays.
struct Raised<'a> {
    of: &'a dyn Series,
    power: f64,
}

impl Series for Raised<'_> {
    fn len(&self) -> usize {
        self.of.len()
    }

    fn scan(&self, range: Range<usize>, see: &mut dyn FnMut(&[f64])) {
        self.of.scan(range, &mut |block| {
            let block: Vec<f64> = block.iter().map(|&w| raised(w, self.power)).collect();
            see(&block);
        });
    }

    fn descending(&self, value: &dyn Fn(f64) -> Option<f64>) -> Box<dyn Series> {
        self.of.descending(&|w| value(raised(w, self.power)))
    }
}

/// The first rung: a pool of proposals that grows until half as many of them have weight as particles are wanted.
#[derive(Debug, Clone)]
pub struct Smc {
    goal: Goal,
    offset: f64,
    power: f64,
}

impl Smc {
    /// As many particles as `goal.samples`, with the one uniform number `offset`.
    pub fn new(goal: Goal, offset: f64) -> Self {
        Self {
            goal,
            offset,
            power: 0.0,
        }
    }
}

impl Sampler for Smc {
    fn next(&mut self, history: History<'_>) -> Next {
        if let Some(next) = search(history, self.goal) {
            return next;
        }
        let (pool, wanted) = (history.len(), self.goal.samples.get());
        let supported = history.supported();
        let enough = (LEAST_ESS * wanted as f64).ceil();
        let most = self.goal.max_calls.min(
            wanted
                .saturating_mul(MAX_POOL_PER_SAMPLE)
                .max(super::PILOT_BUDGET),
        );
        let lacking = enough - supported as f64;
        if pool < most && (pool < wanted || lacking > 0.0) {
            // As many as should do; where they do not, more follow.
            let expected = (lacking * pool as f64 / supported as f64).max(0.0).ceil();
            let more = (expected as usize).max(wanted.saturating_sub(pool)).max(1);
            return score(more.min(most - pool), pool, self.goal, 0);
        }
        if wanted > pool {
            return Next::Failed(Failure::OutOfCalls {
                proposals: pool,
                found: supported,
                wanted,
                expected: CallsNeeded::estimate(wanted, supported, pool),
            });
        }
        let mut log_weights = Vec::with_capacity(supported);
        series::each(history.log_weights, |w| {
            log_weights.extend(w.is_finite().then_some(w));
        });
        let least = LEAST_ESS * supported.min(wanted) as f64;
        self.power = next_power(&log_weights, 0.0, least);
        let (mut repeated, mut before) = (0, None);
        self.kept(history, &mut |position| {
            repeated += usize::from(before.replace(position) == Some(position));
        });
        let ancestors = wanted - repeated;
        Next::Done(Draw {
            samples: wanted,
            duplicates: repeated,
            acceptance: ancestors as f64 / pool as f64,
            error: ErrorStatement::default(),
            info: super::Info::Smc(Info {
                pool,
                rungs: vec![Rung {
                    power: self.power,
                    effective: effective(&log_weights, self.power),
                    step_size: 0.0,
                    acceptance: 0.0,
                    ancestors,
                }],
            }),
        })
    }

    fn kept(&self, history: History<'_>, see: &mut dyn FnMut(usize)) {
        let raised = Raised {
            of: history.log_weights,
            power: self.power,
        };
        systematic(&raised, self.goal.samples.get(), self.offset, see);
    }
}

/// Whose random numbers a particle moves by.
pub fn chain(seed: u64, particle: usize) -> Chain {
    Chain {
        seed,
        stage: PARTICLES,
        proposal: particle as u64,
        copy: 0,
    }
}

/// What is settled before particles climb.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ladder<'l> {
    /// Seed of the proposals.
    pub seed: u64,
    /// Moves of each particle on every rung.
    pub moves: u64,
    /// The rung on which the particles stand, before any moves.
    pub first: Rung,
    /// Copies of particles that find the size of the moves on every rung, and end there.
    pub pilots: usize,
    /// The proposal that each particle is; copies have the same.
    pub proposals: &'l [u64],
}

impl Ladder<'_> {
    /// The size of moves on the rung where particles stand. Only what copies of some do decides it, and they are no samples.
    fn size<E>(&self, walk: &mut Walk, rung: usize, look: &mut Look<'_, E>) -> Result<StepSize, E> {
        let count = walk.places.len();
        let which: Vec<usize> = (0..self.pilots)
            .map(|pilot| pilot * count / self.pilots)
            .collect();
        let own = |pilot| Chain {
            copy: 1 + rung as u32,
            ..chain(self.seed, pilot)
        };
        let mut pilots = walk.part(&which, (0..self.pilots).map(own).collect());
        let size = pilots.tune(look)?;
        walk.tally.looked_at += pilots.tally.looked_at;
        Ok(size)
    }

    /// Different proposals that particles descend from.
    fn ancestors(&self, walk: &Walk) -> usize {
        let proposals = walk.starts.iter().map(|&at| self.proposals[at]);
        proposals.collect::<HashSet<u64>>().len()
    }
}

/// Takes particles from the first rung to the target; `ready` is asked before each rung, and may end it. It sees the power so
/// far, 0 before any.
pub fn climb<E>(
    walk: &mut Walk,
    ladder: &Ladder<'_>,
    look: &mut Look<'_, E>,
    ready: &mut dyn FnMut(&Walk) -> Result<(), E>,
) -> Result<Vec<Rung>, E> {
    let offsets = Proposals::new(ladder.seed);
    let (mut rungs, mut rung) = (Vec::new(), ladder.first);
    let mut number = 0;
    walk.power = 0.0;
    loop {
        ready(walk)?;
        walk.power = rung.power;
        let size = ladder.size(walk, rungs.len(), look)?;
        let before = walk.tally;
        for _ in 0..ladder.moves {
            walk.step(number, size, look)?;
            number += 1;
        }
        rung.step_size = size.get();
        rung.acceptance = walk.tally.since(before).acceptance();
        rung.ancestors = ladder.ancestors(walk);
        rungs.push(rung);
        if rung.power >= 1.0 {
            return Ok(rungs);
        }
        let log_weights: Vec<f64> = walk.places.iter().map(|p| p.view.log_weight).collect();
        let count = log_weights.len();
        let power = next_power(&log_weights, rung.power, LEAST_ESS * count as f64);
        let rise = power - rung.power;
        rung = Rung {
            power,
            effective: effective(&log_weights, rise),
            ..rung
        };
        let raised = Raised {
            of: &log_weights,
            power: rise,
        };
        let mut chosen = Vec::with_capacity(count);
        let offset = offsets.uniform(Purpose::Resample, rungs.len() as u64);
        systematic(&raised, count, offset, &mut |at| chosen.push(at));
        walk.choose(&chosen);
    }
}

#[cfg(test)]
mod tests;
