//! What a person can choose about a draw. Each choice carries only the options that it uses.

use std::num::NonZeroUsize;

use s2m_model::manifest::PosteriorName;
use serde::{Deserialize, Serialize};

use crate::method::AdaptChoice;
pub use crate::samplers::DEFAULT_TV;
use crate::samplers::SamplerChoice;

/// How to draw; the resolved settings are written beside every result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SampleSettings {
    /// Seed of the proposals; none takes the bank's, or 0.
    pub seed: Option<u64>,
    /// Which sampler.
    pub sampler: SamplerChoice,
    /// Most proposals that may be scored; none for [`CALLS_PER_SAMPLE`] each.
    pub max_calls: Option<usize>,
    /// Which density formula.
    pub density: DensityChoice,
    /// Which posterior weighs items; the bundle's own where left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub posterior: Option<PosteriorName>,
    /// Whose calibration.
    pub calibration: CalibrationChoice,
    /// Changes to that calibration.
    pub overrides: Overrides,
    /// Which class a conditional generator is asked for.
    pub classes: ClassChoice,
    /// Steps along the gradient that each sample takes after it was drawn; none for none. Of `smc` those on every rung, none for
    /// [`MOVES_PER_RUNG`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moves: Option<NonZeroUsize>,
    /// Whether latents are written too.
    pub latents: bool,
    /// How the latent distribution is adapted to the query first.
    #[serde(skip_serializing_if = "AdaptChoice::is_none")]
    pub adapt: AdaptChoice,
}

/// Moves of each sample on every rung of `smc` when nothing else is said.
pub const MOVES_PER_RUNG: NonZeroUsize = NonZeroUsize::new(10).expect("10 is not zero");

/// Proposals allowed per sample when nothing else is said; the paper's dearest setting spends 1000.
pub const CALLS_PER_SAMPLE: usize = 2000;

impl SampleSettings {
    /// Steps that samples take together along the gradient; none where they stay.
    pub(crate) fn steps(&self) -> Option<NonZeroUsize> {
        match self.sampler {
            SamplerChoice::Smc => Some(self.moves.unwrap_or(MOVES_PER_RUNG)),
            _ => self.moves,
        }
    }
}

impl Default for SampleSettings {
    fn default() -> Self {
        Self {
            seed: None,
            sampler: SamplerChoice::Reject { tv: DEFAULT_TV },
            max_calls: None,
            density: DensityChoice::Corrected,
            posterior: None,
            calibration: CalibrationChoice::Bundle,
            overrides: Overrides::default(),
            classes: ClassChoice::Best,
            moves: None,
            latents: false,
            adapt: AdaptChoice::None,
        }
    }
}

/// Which density formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DensityChoice {
    /// With the factor that partial queries need under `one-of` labels.
    Corrected,
    /// The paper's formula as printed.
    Paper,
}

/// Whose calibration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CalibrationChoice {
    /// The bundle's.
    Bundle,
    /// The paper's settings for this data, without a floor; no calibration where the bundle has none.
    Paper,
    /// Every output as the network gives it; odds are still clipped.
    None,
}

/// Which classes a conditional generator is asked for, where several would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassChoice {
    /// All of them, or one that a short trial finds clearly ahead.
    Best,
    /// The first, as the released research code does.
    First,
}

/// Changes to a calibration.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overrides {
    /// Temperature of the class and fake-class heads.
    pub class_temperature: Option<f64>,
    /// Temperature of the discriminator.
    pub real_temperature: Option<f64>,
    /// Odds of the discriminator above this count as this.
    pub odds_cap: Option<f64>,
    /// Exclusion margin.
    pub margin: Option<f64>,
    /// Least posterior of the query.
    pub floor: Option<f64>,
    /// Purity to be predicted; picks the floor.
    pub purity: Option<f64>,
}
