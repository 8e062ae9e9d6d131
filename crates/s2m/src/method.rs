//! The ways to adapt the latent distribution by name, and their options.

use s2m_core::setting::Setting;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::pilot::{MAX_COMPONENTS, Pilot, STEPS_ONCE, STEPS_REPEAT};

/// Share of the prior that an adapted proposal keeps: weights stay below ten times what they would be
/// without adaptation.
pub const PRIOR_SHARE: f64 = 0.1;

/// Least gain of a stage in calls per sample for which `adaptive` goes on.
pub const GAIN: f64 = 0.1;

/// How the latent distribution is adapted to a query before samples are drawn.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "kebab-case", deny_unknown_fields)]
pub enum AdaptChoice {
    /// Not at all.
    #[default]
    None,
    /// The paper's Algorithm 2: one pilot of the whole query.
    Once {
        /// How the pilot is drawn and fitted.
        pilot: Pilot,
        /// Share of the prior.
        prior_share: f64,
    },
    /// The paper's Algorithm 3: one pilot per label.
    Repeat {
        /// How each pilot is drawn and fitted.
        pilot: Pilot,
        /// Labels in the order in which they join, those to be absent with a `-` in front; none to take
        /// the one with the largest expected acceptance next.
        order: Option<Vec<String>>,
        /// Share of the prior.
        prior_share: f64,
    },
    /// Every proposal of every stage counts, weighted.
    Adaptive {
        /// Least gain of a stage in calls per sample.
        gain: f64,
        /// Share of the prior.
        prior_share: f64,
    },
}

/// Most proposals of one pilot.
const MAX_PILOT_CALLS: usize = 1 << 30;

impl Pilot {
    fn check(&self) -> Result<(), Error> {
        let components = self.components.get();
        if components > MAX_COMPONENTS {
            return Err(Error::Setting(format!(
                "{} is {components}; at most {MAX_COMPONENTS} are possible",
                Setting("components")
            )));
        }
        let (pilots, steps) = (self.pilots.get(), self.steps.get());
        match pilots.checked_mul(steps) {
            Some(calls) if calls <= MAX_PILOT_CALLS => Ok(()),
            _ => Err(Error::Setting(format!(
                "{} of {} are too many; at most {MAX_PILOT_CALLS} proposals are scored for a pilot",
                Setting("pilots").to(pilots),
                Setting("pilot_steps").to(steps)
            ))),
        }
    }
}

impl AdaptChoice {
    /// `once` as in the paper.
    pub fn once() -> Self {
        Self::Once {
            pilot: Pilot::paper(STEPS_ONCE),
            prior_share: PRIOR_SHARE,
        }
    }

    /// `repeat` as in the paper.
    pub fn repeat() -> Self {
        Self::Repeat {
            pilot: Pilot::paper(STEPS_REPEAT),
            order: None,
            prior_share: PRIOR_SHARE,
        }
    }

    /// `adaptive` as it comes.
    pub fn adaptive() -> Self {
        Self::Adaptive {
            gain: GAIN,
            prior_share: PRIOR_SHARE,
        }
    }

    /// Whether nothing is adapted.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Its name as typed.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Once { .. } => "once",
            Self::Repeat { .. } => "repeat",
            Self::Adaptive { .. } => "adaptive",
        }
    }

    /// Refuses numbers outside their range.
    pub fn check(&self) -> Result<(), Error> {
        let share = match self {
            Self::None => return Ok(()),
            Self::Once { prior_share, .. }
            | Self::Repeat { prior_share, .. }
            | Self::Adaptive { prior_share, .. } => *prior_share,
        };
        if !(share > 0.0 && share < 1.0) {
            return Err(Error::Setting(format!(
                "{} is {share}; it must lie strictly between 0 and 1, since without a share of the prior some items could never come up",
                Setting("prior_share")
            )));
        }
        if let Self::Once { pilot, .. } | Self::Repeat { pilot, .. } = self {
            pilot.check()?;
        }
        if let Self::Adaptive { gain, .. } = self
            && !(*gain > 0.0 && *gain < 1.0)
        {
            return Err(Error::Setting(format!(
                "{} is {gain}; it must lie strictly between 0 and 1",
                Setting("gain")
            )));
        }
        Ok(())
    }
}
