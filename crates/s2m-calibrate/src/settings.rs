//! How a calibration is chosen: what a person may ask for.

use s2m_model::manifest::Manifest;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// How to choose a calibration; `calibration` in a run file of `classifier`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct CalibrationSettings {
    /// Share of generated items that rejection accepts by the discriminator alone, down to which likeness to real
    /// ones is paid for; the knee where left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub likeness: Option<f64>,
    /// In the place of likeness: D_v's odds are capped until the weights of every reachable joint class keep this
    /// share of the effective sample size that they have without D_v.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_effective_share: Option<f64>,
    /// δ: largest share of held-out items with an excluded label that may get weight; no margins where
    /// left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusion_error: Option<f64>,
    /// Predicted purity that its posterior floor brings every reachable joint class to, at least.
    pub purity: f64,
    /// Largest floor.
    pub highest_floor: f64,
    /// Share of a joint class's effective items that its floor leaves, unless it is one half already.
    pub least_kept: f64,
    /// Fresh generated items; by the size of an item where left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generated: Option<u64>,
    /// Whether label weights are those stated or those estimated.
    #[serde(skip_serializing_if = "LabelWeightsChoice::is_stated")]
    pub label_weights: LabelWeightsChoice,
}

/// Whose label weights (`one-of`) or class priors (`per-class`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelWeightsChoice {
    /// What the bundle states.
    #[default]
    Stated,
    /// What items with two labels show, where there are such.
    Estimated,
}

impl LabelWeightsChoice {
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_stated(&self) -> bool {
        *self == Self::Stated
    }
}

impl Default for CalibrationSettings {
    fn default() -> Self {
        Self {
            likeness: None,
            least_effective_share: None,
            exclusion_error: None,
            purity: 0.985,
            highest_floor: 0.95,
            least_kept: 0.25,
            generated: None,
            label_weights: LabelWeightsChoice::Stated,
        }
    }
}

/// Most generated items that are measured.
const MOST_GENERATED: u64 = 10_000_000;

impl CalibrationSettings {
    /// Refuses numbers that no calibration can be chosen by.
    pub fn check(&self) -> Result<(), Error> {
        let shares = [
            (
                "least-effective-share",
                self.least_effective_share.unwrap_or(0.0),
            ),
            ("purity", self.purity),
            ("highest-floor", self.highest_floor),
            ("least-kept", self.least_kept),
        ];
        for (name, share) in shares {
            if !(0.0..1.0).contains(&share) {
                return Err(Error::Setting(format!(
                    "`calibration.{name}` is {share}; it must be from 0 to below 1"
                )));
            }
        }
        if let Some(share) = self.likeness
            && !(share > 0.0 && share <= 1.0)
        {
            return Err(Error::Setting(format!(
                "`calibration.likeness` is {share}; it must be above 0 and at most 1"
            )));
        }
        if let Some(error) = self.exclusion_error
            && !(error > 0.0 && error < 1.0)
        {
            return Err(Error::Setting(format!(
                "`calibration.exclusion-error` is {error}; it must be above 0 and below 1"
            )));
        }
        match self.generated {
            Some(count) if !(1000..=MOST_GENERATED).contains(&count) => {
                Err(Error::Setting(format!(
                    "`calibration.generated` is {count}; it must be from 1000 to {MOST_GENERATED}"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Generated items to measure: fewer where each costs more.
    pub(crate) fn generated_for(&self, manifest: &Manifest) -> u64 {
        const CHEAP: usize = 1024;
        let size: usize = manifest.generator.output.shape.iter().product();
        let usual = if size <= CHEAP { 100_000 } else { 20_000 };
        self.generated.unwrap_or(usual)
    }
}

#[cfg(test)]
mod tests {
    use s2m_core::calibration::cap::{KNEE, LEAST_SHARE, SHARES};
    use s2m_core::calibration::presence as pres;
    use s2m_core::calibration::witness::TELLS;

    use super::*;

    #[test]
    fn the_guides_have_the_defaults() {
        let CalibrationSettings {
            purity,
            highest_floor: highest,
            least_kept: kept,
            ..
        } = CalibrationSettings::default();
        let guide = include_str!("../../../docs/calibration.md");
        assert!(guide.contains(&format!("`--purity` ({purity} unless said otherwise)")));
        let (knee, least, first) = (KNEE, LEAST_SHARE, SHARES[0]);
        assert!(guide.contains(&format!("by at least {knee} of what it is without weights")));
        assert!(guide.contains(&format!("from {first} down to {least}")));
        assert!(guide.contains(&format!("{TELLS} standard errors")));
        let (enough, floor) = (pres::ENOUGH, pres::REFERENCE_FLOOR);
        assert!(guide.contains(&format!(
            "at least {enough} items beyond what errors explain"
        )));
        assert!(guide.contains(&format!("({enough} at most, and only where")));
        assert!(guide.contains(&format!("reaches its floor ({floor} where it has none")));
        let guide = include_str!("../../../docs/training.md");
        assert!(guide.contains(&format!(
            "| the knee, none, {purity}, {highest}, {kept}, no margins,"
        )));
    }

    #[test]
    fn run_files_with_and_without_a_least_share_are_read() {
        let read = |text: &str| toml::from_str::<CalibrationSettings>(text).unwrap();
        assert_eq!(read(""), CalibrationSettings::default());
        let old = read("least-effective-share = 0.65\npurity = 0.985\n");
        assert_eq!(
            (old.least_effective_share, old.likeness),
            (Some(0.65), None)
        );
        assert_eq!(read("likeness = 0.3").likeness, Some(0.3));
        let written = toml::to_string(&CalibrationSettings::default()).unwrap();
        assert_eq!(read(&written), CalibrationSettings::default());
    }

    #[test]
    fn settings_that_no_calibration_can_follow_are_refused() {
        let settings = CalibrationSettings {
            highest_floor: 1.0,
            ..CalibrationSettings::default()
        };
        assert_eq!(
            settings.check().expect_err("refused").to_string(),
            "`calibration.highest-floor` is 1; it must be from 0 to below 1"
        );
        let settings = CalibrationSettings {
            generated: Some(10),
            ..CalibrationSettings::default()
        };
        assert!(settings.check().is_err());
        for share in [0.0, 1.1, f64::NAN] {
            let settings = CalibrationSettings {
                likeness: Some(share),
                ..CalibrationSettings::default()
            };
            assert!(settings.check().is_err(), "{share}");
        }
        for error in [0.0, 1.0, f64::NAN] {
            let settings = CalibrationSettings {
                exclusion_error: Some(error),
                ..CalibrationSettings::default()
            };
            assert!(settings.check().is_err(), "{error}");
        }
    }
}
