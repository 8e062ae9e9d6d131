//! Samplers: which proposals to keep, given their log weights.
//!
//! All have one shape. A sampler looks at every proposal scored so far and answers what to do next:
//! score more, or stop with a [`Draw`] and an honest statement of its error. It never scores,
//! renders or waits; the caller does that, in batches of whatever size it likes, and the answer
//! does not depend on them.
//!
//! | sampler | what it does |
//! |---|---|
//! | [`reject`] | accepts in proportion to the weight, up to a cap; independent samples |
//! | [`mh`] | the paper's independence Metropolis–Hastings, K steps per sample |
//! | [`resample`] | systematic resampling out of one pool |
//! | [`smc`] | the first particles of sequential Monte Carlo, and where they go from there |

pub mod mh;
pub mod reject;
pub mod resample;
pub mod smc;

use std::num::NonZeroUsize;
use std::ops::Range;

use thiserror::Error;

use crate::series::{self, Series};

/// Proposals of the first request: small, so that a few pictures come in seconds.
pub const FIRST_PILOT: usize = 512;

/// Proposals spent in search of the query's support before it is called unreachable.
pub const PILOT_BUDGET: usize = 1 << 17;

/// Supported proposals that the search must find.
pub const MIN_SUPPORTED: usize = 10;

/// Standard errors between an estimate and its bound: a normal estimate exceeds it once in two hundred. `reject`, where
/// estimates take part in choosing the cap, has [its own](reject::BOUND_ERRORS).
pub const BOUND_ERRORS: f64 = 2.58;

/// With a tail index above this, standard errors of weights mean little and no bound is given.
pub const MAX_TAIL_INDEX: f64 = 0.4;

/// Proposals of which weights and uniform numbers are held side by side.
const BLOCK: usize = 1 << 14;

/// All proposals scored so far, in order.
#[derive(Clone, Copy)]
pub struct History<'a> {
    /// Log weight of each; `-∞` outside the support, never NaN.
    pub log_weights: &'a dyn Series,
    /// Log of each proposal's own uniform number.
    pub log_uniforms: &'a dyn Series,
}

impl History<'_> {
    /// Number of proposals.
    pub fn len(&self) -> usize {
        self.log_weights.len()
    }

    /// Whether nothing was scored yet.
    pub fn is_empty(&self) -> bool {
        self.log_weights.is_empty()
    }

    fn supported(&self) -> usize {
        series::finite(self.log_weights)
    }

    /// Shows position, log weight and log uniform number of a range of proposals.
    fn each(&self, range: Range<usize>, mut see: impl FnMut(usize, f64, f64)) {
        let mut uniforms = Vec::with_capacity(range.len().min(BLOCK));
        let mut first = range.start;
        while first < range.end {
            let last = range.end.min(first + BLOCK);
            uniforms.clear();
            self.log_uniforms.scan(first..last, &mut |block| {
                uniforms.extend_from_slice(block);
            });
            let mut at = first;
            self.log_weights.scan(first..last, &mut |block| {
                for &log_weight in block {
                    see(at, log_weight, uniforms[at - first]);
                    at += 1;
                }
            });
            first = last;
        }
    }
}

/// What a sampler wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Score this many further proposals, then ask again.
    Score(NonZeroUsize),
    /// Finished.
    Done(Draw),
    /// Cannot be finished.
    Failed(Failure),
}

/// One request to a sampler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// Samples wanted.
    pub samples: NonZeroUsize,
    /// Most proposals that may be scored.
    pub max_calls: usize,
}

/// The one loop's view of every sampler.
pub trait Sampler {
    /// Looks at all proposals so far and says what to do next.
    fn next(&mut self, history: History<'_>) -> Next;

    /// Shows the positions of the proposals that are kept, ascending; one may repeat for `resample` and `smc`.
    ///
    /// Only after [`Next::Done`], and of the same history: there may be more of them than memory holds. [`reject`] can be
    /// asked before, and shows what the cap so far keeps.
    fn kept(&self, history: History<'_>, see: &mut dyn FnMut(usize));
}

/// What can be said about the proposals that are kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Draw {
    /// How many there are.
    pub samples: usize,
    /// Of these, how many repeat another one.
    pub duplicates: usize,
    /// Accepted proposals (or steps) as a share of all.
    pub acceptance: f64,
    /// How far the kept proposals may be from the target.
    pub error: ErrorStatement,
    /// What only this sampler can tell.
    pub info: Info,
}

/// What only one sampler can tell.
#[derive(Debug, Clone, PartialEq)]
pub enum Info {
    /// See [`reject::Info`].
    Reject(reject::Info),
    /// See [`mh::Info`].
    Mh(mh::Info),
    /// See [`resample::Info`].
    Resample(resample::Info),
    /// See [`smc::Info`].
    Smc(smc::Info),
}

/// Distance from the target in total variation, as far as it is known.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ErrorStatement {
    /// Estimate from proposals that played no part in the settings; none where too few were scored.
    pub tv_estimate: Option<f64>,
    /// [`BOUND_ERRORS`] standard errors above the estimate; none where that would not be honest.
    pub tv_bound: Option<f64>,
    /// Why something above is missing, and other things to know.
    pub warnings: Vec<Warning>,
}

/// A part of the target of this share that may be missing is said, even where there is a bound.
const MOST_MISSING: f64 = 0.05;

/// Where more than this share may be missing there is no bound.
const MISSING_LIMIT: f64 = 0.5;

impl ErrorStatement {
    /// The same where a part of this share of the target may never be proposed.
    #[must_use]
    pub fn with_missing(mut self, share: f64) -> Self {
        if share > MISSING_LIMIT {
            self.tv_bound = None;
            self.warnings.push(Warning::NotCovered { share });
            return self;
        }
        self.tv_bound = self.tv_bound.map(|bound| (bound + share).min(1.0));
        if share > MOST_MISSING {
            self.warnings.push(Warning::MayMiss { share });
        }
        self
    }
}

/// Something a person should know about a draw.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Warning {
    /// Not enough proposals were scored after the settings were fixed.
    #[error(
        "no error bound: only {fresh} proposals were scored after the sampler's settings were fixed ({reason})"
    )]
    TooFewFresh {
        /// How many.
        fresh: usize,
        /// What is missing.
        reason: &'static str,
    },
    /// The weights have a heavy tail.
    #[error(
        "no error bound: the weights' tail index is {index:.2} (over {MAX_TAIL_INDEX}), so a few items hold much of the weight; temper the discriminator or raise the posterior floor"
    )]
    HeavyTail {
        /// The tail index.
        index: f64,
    },
    /// An adapted proposal of which hardly anything is known to be covered.
    #[error(
        "no error bound: a part of the target of up to {:.0} % may be missing from the adapted proposal, for all that proposals of the prior can tell", 100.0 * share
    )]
    NotCovered {
        /// How much.
        share: f64,
    },
    /// An adapted proposal that may miss a part.
    #[error(
        "a part of the target of up to {:.1} % may be missing from the adapted proposal, for all that proposals of the prior can tell; the bound includes it", 100.0 * share
    )]
    MayMiss {
        /// How much.
        share: f64,
    },
    /// Chains that never met the support.
    #[error("{chains} chains of {steps} steps found no supported proposal and were left out")]
    DeadChains {
        /// How many.
        chains: usize,
        /// Their length.
        steps: usize,
    },
    /// The wanted distance was not reached.
    #[error(
        "the distance estimated on fresh proposals, {estimate:.4}, is above the wanted {wanted}"
    )]
    AboveWanted {
        /// The estimate.
        estimate: f64,
        /// The wish.
        wanted: f64,
    },
    /// Samples of `smc` come from few of its first particles.
    #[error(
        "the samples come from {ancestors} of the first proposals alone: shares of modes are as uncertain as in {ancestors} samples\nhint: with more moves or more items more are left"
    )]
    FewAncestors {
        /// How many.
        ancestors: usize,
    },
    /// Samples of `resample` share proposals.
    #[error("{count} of the samples repeat another one")]
    Duplicates {
        /// How many.
        count: usize,
    },
}

/// Why no draw is possible; an answer, not a fault.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Failure {
    /// The generator does not reach the query.
    #[error(
        "the generator does not reach this query: {supported} of {proposals} proposals lie in its support, at least {MIN_SUPPORTED} are needed"
    )]
    Unreachable {
        /// Proposals searched.
        proposals: usize,
        /// Those inside the support.
        supported: usize,
    },
    /// A search for the query gets nowhere.
    #[error(
        "the generator does not seem to reach this query: none of {proposals} proposals lies in its support, and the last {stages} stages of the search came no nearer"
    )]
    Stalled {
        /// Proposals searched.
        proposals: usize,
        /// Stages that found nothing nearer.
        stages: usize,
    },
    /// The allowed generator calls are spent.
    #[error(
        "{proposals} generator calls gave {found} of {wanted} samples; {}",
        in_words(*expected)
    )]
    OutOfCalls {
        /// Proposals scored.
        proposals: usize,
        /// Samples among them.
        found: usize,
        /// Samples wanted.
        wanted: usize,
        /// Calls that all would need, where that can be told.
        expected: Option<CallsNeeded>,
    },
    /// The allowed generator calls are spent before particles have come to the target.
    #[error(
        "{calls} generator calls took {particles} particles to the power {power:.3} of the weight, and {allowed} are not enough for the next rung"
    )]
    NotArrived {
        /// Calls spent, gradients included.
        calls: usize,
        /// Particles.
        particles: usize,
        /// The power that they have come to.
        power: f64,
        /// Calls allowed.
        allowed: usize,
    },
    /// Distinct samples were asked for, and one proposal would have to be taken twice.
    #[error(
        "{wanted} distinct samples cannot be resampled from {proposals} proposals: the largest weight alone stands for {copies:.1} of them"
    )]
    NotUnique {
        /// Samples wanted.
        wanted: usize,
        /// Pool size.
        proposals: usize,
        /// Expected copies of the heaviest proposal.
        copies: f64,
    },
}

/// How many proposals would have to be scored in all, with a 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallsNeeded {
    /// The estimate.
    pub about: u64,
    /// The lower end of the interval.
    pub least: u64,
    /// The upper end; none where weights that were not seen may decide it.
    pub most: Option<u64>,
}

impl CallsNeeded {
    /// By how many of some proposals became samples; none where no one did.
    fn estimate(wanted: usize, found: usize, scored: usize) -> Option<Self> {
        // Wilson's interval, which is honest for few samples too.
        const Z: f64 = 1.96;
        if found == 0 {
            return None;
        }
        let (n, share) = (scored as f64, found as f64 / scored as f64);
        let centre = share + Z * Z / (2.0 * n);
        let half = Z
            * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n))
                .max(0.0)
                .sqrt();
        let scale = 1.0 + Z * Z / n;
        let calls =
            |share: f64| (wanted as f64 / share.clamp(f64::MIN_POSITIVE, 1.0)).ceil() as u64;
        Some(Self {
            about: calls(share),
            least: calls((centre + half) / scale),
            most: Some(calls((centre - half) / scale)),
        })
    }

    /// As many as this.
    fn exactly(calls: usize) -> Self {
        Self {
            about: calls as u64,
            least: calls as u64,
            most: Some(calls as u64),
        }
    }

    /// The same and some calls that come on top.
    #[must_use]
    pub fn plus(self, calls: usize) -> Self {
        let add = |value: u64| value.saturating_add(calls as u64);
        Self {
            about: add(self.about),
            least: add(self.least),
            most: self.most.map(add),
        }
    }
}

fn in_words(expected: Option<CallsNeeded>) -> String {
    match expected {
        None => "how many would be needed cannot be told from these".to_owned(),
        Some(CallsNeeded { about, least, most }) => match most {
            Some(most) if most == least => format!("{about} would be needed"),
            Some(most) => format!("about {about} would be needed ({least} to {most} at 95 %)"),
            None => format!(
                "at least {least} would be needed (at 95 %); how many at most cannot be told, since it hangs on large weights that are too rare to have been seen"
            ),
        },
    }
}

impl Failure {
    /// The same where calls were spent before the sampler was asked.
    #[must_use]
    pub fn after(self, calls: usize) -> Self {
        match self {
            Self::OutOfCalls {
                proposals,
                found,
                wanted,
                expected,
            } => Self::OutOfCalls {
                proposals: proposals + calls,
                found,
                wanted,
                expected: expected.map(|expected| expected.plus(calls)),
            },
            other => other,
        }
    }
}

/// The next request while the support is searched, or why the search is over.
fn search(history: History<'_>, goal: Goal) -> Option<Next> {
    let (n, supported) = (history.len(), history.supported());
    if n == 0 {
        return Some(score(FIRST_PILOT, n, goal, 0));
    }
    if supported >= MIN_SUPPORTED {
        return None;
    }
    if n >= PILOT_BUDGET {
        return Some(Next::Failed(Failure::Unreachable {
            proposals: n,
            supported,
        }));
    }
    // What is supported is not a sample yet.
    Some(score(n.min(PILOT_BUDGET - n), n, goal, 0))
}

/// Asks for more proposals within the budget; `found` samples are there already.
fn score(wanted: usize, scored: usize, goal: Goal, found: usize) -> Next {
    let allowed = goal.max_calls.saturating_sub(scored);
    match NonZeroUsize::new(wanted.min(allowed)) {
        Some(count) => Next::Score(count),
        None => Next::Failed(Failure::OutOfCalls {
            proposals: scored,
            found,
            wanted: goal.samples.get(),
            expected: CallsNeeded::estimate(goal.samples.get(), found, scored),
        }),
    }
}

/// Every sampler, for tests that all of them must pass. A new sampler adds one line.
#[cfg(test)]
fn every_sampler(goal: Goal) -> Vec<(&'static str, Box<dyn Sampler>)> {
    let steps = mh::Steps::Fixed(NonZeroUsize::new(100).expect("100 is not zero"));
    vec![
        ("reject", Box::new(reject::Reject::new(goal, 0.01))),
        ("mh", Box::new(mh::MetropolisHastings::new(goal, steps))),
        (
            "mh, automatic K",
            Box::new(mh::MetropolisHastings::new(
                goal,
                mh::Steps::ForDistance(0.01),
            )),
        ),
        (
            "resample",
            Box::new(resample::Resample::new(
                goal,
                0.37,
                resample::Copies::Allowed,
            )),
        ),
        ("smc", Box::new(smc::Smc::new(goal, 0.37))),
    ]
}

#[cfg(test)]
mod tests;
