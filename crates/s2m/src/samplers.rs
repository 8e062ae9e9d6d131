//! The samplers by name: their options, how one is made, and what only it can tell.
//!
//! The samplers themselves are in `s2m_core::samplers`; a new one gets an arm in each `match` here.

use std::num::NonZeroUsize;

use s2m_core::samplers::{Failure, Goal, Info, Sampler, mh, reject, resample};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A sampler with its own options.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SamplerChoice {
    /// Rejection with a cap, within this distance of the target.
    Reject {
        /// Total variation distance.
        tv: f64,
    },
    /// The paper's Metropolis–Hastings with this many steps per sample.
    Mh {
        /// Proposals per chain.
        steps: NonZeroUsize,
    },
    /// The same, with as many steps as this distance needs.
    MhAuto {
        /// Total variation distance.
        tv: f64,
    },
    /// Systematic resampling.
    Resample {
        /// Whether every sample must be another proposal.
        unique: bool,
    },
}

impl SamplerChoice {
    /// The sampler's name as typed.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reject { .. } => "reject",
            Self::Mh { .. } | Self::MhAuto { .. } => "mh",
            Self::Resample { .. } => "resample",
        }
    }

    /// Whether it can tell what it keeps before it is done.
    pub(crate) fn tells_early(self) -> bool {
        matches!(self, Self::Reject { .. })
    }

    /// Refuses numbers outside their range.
    pub fn check(&self) -> Result<(), Error> {
        match *self {
            Self::Reject { tv } | Self::MhAuto { tv } if !(tv > 0.0 && tv < 1.0) => {
                Err(Error::Setting(format!(
                    "--tv is {tv}; it must lie strictly between 0 and 1"
                )))
            }
            _ => Ok(()),
        }
    }

    /// The sampler, ready to run; `offset` is the one random number that `resample` needs.
    pub fn sampler(self, goal: Goal, offset: f64) -> Box<dyn Sampler> {
        match self {
            Self::Reject { tv } => Box::new(reject::Reject::new(goal, tv)),
            Self::Mh { steps } => {
                Box::new(mh::MetropolisHastings::new(goal, mh::Steps::Fixed(steps)))
            }
            Self::MhAuto { tv } => Box::new(mh::MetropolisHastings::new(
                goal,
                mh::Steps::ForDistance(tv),
            )),
            Self::Resample { unique } => {
                let copies = if unique {
                    resample::Copies::Refused
                } else {
                    resample::Copies::Allowed
                };
                Box::new(resample::Resample::new(goal, offset, copies))
            }
        }
    }

    /// What to try where this sampler found no samples, with this floor on the posterior and this margin.
    pub(crate) fn advice(self, failure: &Failure, floor: f64, margin: f64) -> &'static str {
        match (failure, self) {
            (Failure::Unreachable { .. } | Failure::Stalled { .. }, _) if floor > 0.0 => {
                "lower --floor or --purity, check `s2m classes` for what the generator makes, or loosen the query"
            }
            (Failure::Unreachable { .. } | Failure::Stalled { .. }, _) if margin >= 1.0 => {
                "check `s2m classes` for what the generator makes, or loosen the query"
            }
            (Failure::Unreachable { .. } | Failure::Stalled { .. }, _) => {
                "check `s2m classes` for what the generator makes, raise --margin towards 1, or loosen the query"
            }
            (Failure::OutOfCalls { .. }, _) if floor > 0.0 => {
                "allow more with --max-calls, ask for fewer samples, or lower --floor or --purity"
            }
            (Failure::OutOfCalls { .. }, Self::Mh { .. }) => {
                "allow more with --max-calls, ask for fewer samples, or take fewer --steps"
            }
            (Failure::OutOfCalls { .. }, _) => {
                "allow more with --max-calls, ask for fewer samples, or accept a larger --tv"
            }
            (Failure::NotUnique { .. }, _) => {
                "leave --unique out, ask for fewer samples, or use --sampler reject"
            }
        }
    }
}

/// What only one sampler can tell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "sampler", rename_all = "kebab-case")]
pub enum Details {
    /// Of `reject`.
    Reject {
        /// Log of the cap.
        log_cap: f64,
        /// Proposals before the cap was fixed.
        pilot: usize,
        /// Proposals after it.
        fresh: usize,
    },
    /// Of `mh`.
    Mh {
        /// Proposals per chain.
        steps: usize,
        /// Chains run.
        chains: usize,
        /// Chains that met no supported proposal.
        dead_chains: usize,
        /// Split R-hat of the log weight.
        r_hat: Option<f64>,
        /// Effective sample size of the log weight.
        chain_ess: Option<f64>,
    },
    /// Of `resample`.
    Resample {
        /// Proposals in the pool.
        pool: usize,
        /// Effective number among them.
        effective: f64,
        /// About how far the law of one sample is off, in total variation.
        bias: f64,
    },
}

impl From<&Info> for Details {
    fn from(info: &Info) -> Self {
        match info {
            Info::Reject(info) => Self::Reject {
                log_cap: info.log_cap,
                pilot: info.pilot,
                fresh: info.fresh,
            },
            Info::Mh(info) => Self::Mh {
                steps: info.steps,
                chains: info.chains,
                dead_chains: info.dead_chains,
                r_hat: info.mixing.map(|m| m.r_hat),
                chain_ess: info.mixing.map(|m| m.effective),
            },
            Info::Resample(info) => Self::Resample {
                pool: info.pool,
                effective: info.effective,
                bias: info.bias,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A margin of 1 cannot be raised.
    #[test]
    fn advice_names_only_what_can_be_done() {
        let nothing = [
            Failure::Unreachable {
                proposals: 1000,
                supported: 0,
            },
            Failure::Stalled {
                proposals: 1000,
                stages: 3,
            },
        ];
        let sampler = SamplerChoice::Reject { tv: 0.01 };
        for failure in &nothing {
            let raises =
                |floor, margin| sampler.advice(failure, floor, margin).contains("--margin");
            assert!(raises(0.0, 0.5) && !raises(0.0, 1.0) && !raises(0.3, 1.0));
        }
    }
}
