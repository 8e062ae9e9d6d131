//! The samplers by name: their options, how one is made, and what only it can tell.
//!
//! The samplers themselves are in `s2m_core::samplers`; a new one gets an arm in each `match` here.

use std::num::NonZeroUsize;

use s2m_core::samplers::{Failure, Goal, History, Info, Sampler, mh, reject, resample, smc};
use s2m_core::setting::Setting;
use s2m_core::weight::Weighting;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::refusal::Refusal;

/// Total variation distance wanted when nothing else is said.
pub const DEFAULT_TV: f64 = 0.01;

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
    /// Sequential Monte Carlo, with the moves of the settings on every rung.
    Smc,
}

/// Names of the samplers as they are typed, with what each does.
pub const NAMES: [(&str, &str); 4] = [
    (
        "reject",
        "Independent items within a stated distance of the target",
    ),
    ("mh", "The paper's Metropolis-Hastings"),
    ("resample", "Systematic resampling out of one pool"),
    (
        "smc",
        "Sequential Monte Carlo: items move from the prior to the target, for rare combinations",
    ),
];

/// These names in a sentence.
pub(crate) const NAMED: &str = "`reject`, `mh`, `resample` or `smc`";

/// Options of all samplers, as they are typed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SamplerOptions {
    /// Total variation distance.
    pub tv: Option<f64>,
    /// Proposals per chain.
    pub steps: Option<NonZeroUsize>,
    /// Whether every sample must be another proposal.
    pub unique: bool,
}

impl SamplerChoice {
    /// The sampler of a name; refuses options that it does not have.
    pub fn named(name: &str, options: SamplerOptions) -> Result<Self, Error> {
        let SamplerOptions { tv, steps, unique } = options;
        let of = |sampler: &'static str| Setting("sampler").to(sampler);
        let refuse = |text: String| Err(Error::Setting(text));
        let distance = tv.unwrap_or(DEFAULT_TV);
        let choice = match (name, steps) {
            ("reject", _) => Self::Reject { tv: distance },
            ("mh", Some(steps)) => Self::Mh { steps },
            ("mh", None) => Self::MhAuto { tv: distance },
            ("resample", _) => Self::Resample { unique },
            ("smc", _) => Self::Smc,
            _ => return refuse(format!("there is no sampler `{name}`")),
        };
        let by_distance = matches!(choice, Self::Reject { .. } | Self::MhAuto { .. });
        if steps.is_some() && choice.name() != "mh" {
            return refuse(format!("{} is for {}", Setting("steps"), of("mh")));
        }
        if unique && choice.name() != "resample" {
            return refuse(format!("{} is for {}", Setting("unique"), of("resample")));
        }
        if tv.is_some() && !by_distance {
            return refuse(format!(
                "{} is for {}, and for {} without {}",
                Setting("tv"),
                of("reject"),
                of("mh"),
                Setting("steps")
            ));
        }
        Ok(choice)
    }

    /// The sampler's name as typed.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reject { .. } => "reject",
            Self::Mh { .. } | Self::MhAuto { .. } => "mh",
            Self::Resample { .. } => "resample",
            Self::Smc => "smc",
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
                    "{} is {tv}; it must lie strictly between 0 and 1",
                    Setting("tv")
                )))
            }
            _ => Ok(()),
        }
    }

    /// The sampler, ready to run; `offset` is the one random number that `resample` and `smc` need.
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
            Self::Smc => Box::new(smc::Smc::new(goal, offset)),
        }
    }

    /// Refuses a sampler that cannot go on without an end.
    pub(crate) fn check_endless(self) -> Result<(), Error> {
        let why = match self {
            Self::Resample { .. } => "`resample` draws out of one pool of proposals",
            Self::Smc => "`smc` takes all its samples to the target together",
            _ => return Ok(()),
        };
        Err(Error::Setting(format!(
            "{why}, and a stream has no end\nhint: take `reject` or `mh`"
        )))
    }

    /// The distance from the target that is asked for; none where it is not the sampler that keeps to one.
    pub(crate) fn distance(self) -> Option<f64> {
        match self {
            Self::Reject { tv } | Self::MhAuto { tv } => Some(tv),
            Self::Mh { .. } | Self::Resample { .. } | Self::Smc => None,
        }
    }

    /// What to try where this sampler found no samples, with this floor on the posterior and this margin.
    pub(crate) fn advice(self, failure: &Failure, floor: f64, margin: f64) -> String {
        const MADE: &str = "check `s2m classes` for what the generator makes";
        let (purity, max_calls) = (Setting("purity"), Setting("max_calls"));
        let fewer = format!("allow more with {max_calls}, ask for fewer samples");
        match (failure, self) {
            (Failure::Unreachable { .. } | Failure::Stalled { .. }, _) if floor > 0.0 => {
                let floor = Setting("floor");
                format!("lower {floor} or {purity}, {MADE}, or loosen the query")
            }
            (Failure::Unreachable { .. } | Failure::Stalled { .. }, _) if margin >= 1.0 => {
                format!("{MADE}, or loosen the query")
            }
            (Failure::Unreachable { .. } | Failure::Stalled { .. }, _) => {
                let margin = Setting("margin");
                format!("{MADE}, raise {margin} towards 1, or loosen the query")
            }
            (Failure::OutOfCalls { .. }, _) if floor > 0.0 => {
                format!("{fewer}, or lower {} or {purity}", Setting("floor"))
            }
            (Failure::OutOfCalls { .. }, Self::Mh { .. }) => {
                format!("{fewer}, or take fewer {}", Setting("steps"))
            }
            (Failure::OutOfCalls { .. }, Self::Smc) => fewer,
            (Failure::NotArrived { .. }, _) => {
                format!("{fewer}, or take fewer {}", Setting("moves"))
            }
            (Failure::OutOfCalls { .. }, _) => {
                format!("{fewer}, or accept a larger {}", Setting("tv"))
            }
            (Failure::NotUnique { .. }, _) => format!(
                "leave {} out, ask for fewer samples, or use {}",
                Setting("unique"),
                Setting("sampler").to("reject")
            ),
        }
    }
}

impl Refusal {
    /// What a sampler that found no samples comes to.
    pub fn of(failure: Failure, weighting: &Weighting, sampler: SamplerChoice) -> Self {
        let advice = sampler.advice(&failure, weighting.floor(), weighting.margin());
        Self {
            query: weighting.query().text().to_owned(),
            failure: failure.into(),
            advice,
        }
    }
}

/// What only one sampler can tell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Of `smc`.
    Smc {
        /// Proposals from which the first particles were drawn.
        pool: usize,
        /// Different ones among them from which the samples come.
        ancestors: usize,
        /// Powers of the weight on the way from the prior to the target.
        rungs: Vec<Rung>,
    },
}

/// One power of the weight on the way from the prior to the target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// The power.
    pub power: f64,
    /// Effective sample size of the weights with which particles came here.
    pub effective: f64,
    /// The size of the moves.
    pub step_size: f64,
    /// The share of moves that were taken.
    pub acceptance: f64,
    /// First proposals that have descendants.
    pub ancestors: usize,
}

impl From<&smc::Rung> for Rung {
    fn from(rung: &smc::Rung) -> Self {
        Self {
            power: rung.power,
            effective: rung.effective,
            step_size: rung.step_size,
            acceptance: rung.acceptance,
            ancestors: rung.ancestors,
        }
    }
}

impl Details {
    /// Log of the cap on weights; none for a sampler without one.
    pub(crate) fn log_cap(&self) -> Option<f64> {
        match self {
            Self::Reject { log_cap, .. } => Some(*log_cap),
            Self::Mh { .. } | Self::Resample { .. } | Self::Smc { .. } => None,
        }
    }

    /// How often each sample has made the moves that the settings ask for.
    pub(crate) fn times_moved(&self) -> usize {
        match self {
            Self::Smc { rungs, .. } => rungs.len(),
            _ => 1,
        }
    }
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
            Info::Smc(info) => Self::Smc {
                pool: info.pool,
                ancestors: info.rungs.last().map_or(0, |rung| rung.ancestors),
                rungs: info.rungs.iter().map(Rung::from).collect(),
            },
        }
    }
}

/// What decides about a proposal, once it is fixed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rule {
    Cap(f64),
    Steps(NonZeroUsize),
}

impl Rule {
    /// As a draw has fixed it; none for a sampler that decides about a pool as a whole.
    pub(crate) fn of(info: &Info) -> Option<Self> {
        match info {
            Info::Mh(info) => NonZeroUsize::new(info.steps).map(Self::Steps),
            Info::Reject(info) => Some(Self::Cap(info.log_cap)),
            Info::Resample(_) | Info::Smc(_) => None,
        }
    }

    /// Positions among those given, counted from the first of them, whose proposals are samples.
    pub(crate) fn kept(self, log_weights: &[f64], log_uniforms: &[f64]) -> Vec<usize> {
        match self {
            Self::Cap(log_cap) => {
                let both = log_weights.iter().zip(log_uniforms).enumerate();
                let accepted = both.filter(|(_, (w, u))| reject::accepts(**w, **u, log_cap));
                accepted.map(|(position, _)| position).collect()
            }
            Self::Steps(steps) => {
                let history = History {
                    log_weights: &log_weights,
                    log_uniforms: &log_uniforms,
                };
                mh::chain_ends(history, steps)
                    .into_iter()
                    .flatten()
                    .collect()
            }
        }
    }

    /// As many positions, or more, as are decided together.
    pub(crate) fn whole(self, positions: usize) -> usize {
        match self {
            Self::Cap(_) => positions,
            Self::Steps(steps) => positions.next_multiple_of(steps.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A margin of 1 cannot be raised.
    #[test]
    fn every_name_is_that_of_a_sampler_and_options_of_others_are_refused() {
        for (name, _) in NAMES {
            let plain = SamplerChoice::named(name, SamplerOptions::default()).unwrap();
            assert_eq!(plain.name(), name);
        }
        let refused = |name: &str, options: SamplerOptions| {
            let refused = SamplerChoice::named(name, options);
            refused.unwrap_err().to_string()
        };
        let none = SamplerOptions::default();
        let steps = SamplerOptions {
            steps: NonZeroUsize::new(5),
            ..none
        };
        let unique = SamplerOptions {
            unique: true,
            ..none
        };
        let both = SamplerOptions {
            tv: Some(0.1),
            ..steps
        };
        let wanted = "`steps` is for `sampler = mh`";
        assert_eq!(refused("reject", steps), wanted);
        assert_eq!(refused("resample", steps), wanted);
        assert_eq!(refused("smc", steps), wanted);
        assert_eq!(
            refused("mh", unique),
            "`unique` is for `sampler = resample`"
        );
        let wanted = "`tv` is for `sampler = reject`, and for `sampler = mh` without `steps`";
        assert_eq!(refused("mh", both), wanted);
        let tv = SamplerOptions {
            tv: Some(0.1),
            ..none
        };
        assert_eq!(refused("smc", tv), wanted);
        assert_eq!(
            refused("smc", unique),
            "`unique` is for `sampler = resample`"
        );
        assert_eq!(refused("gibbs", none), "there is no sampler `gibbs`");
    }

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
                |floor, margin| sampler.advice(failure, floor, margin).contains("`margin`");
            assert!(raises(0.0, 0.5) && !raises(0.0, 1.0) && !raises(0.3, 1.0));
        }
    }
}
