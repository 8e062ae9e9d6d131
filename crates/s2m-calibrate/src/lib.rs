//! Calibration of a bundle from held-out items, each with the one label that it shows.
//!
//! - `held_out`: logits of real and of fresh generated items, from the bundle's own files;
//! - `choose`: the order in which temperatures, corrections, caps, floors and margins are chosen;
//! - `margins`, `real`, `floors`: the parts of that choice;
//! - `ensemble`: what networks that had no part in selecting say;
//! - `likeness`: what witnesses say about the weights, and where odds are capped;
//! - `presence`: which joint classes the data holds;
//! - `audit`: what fully labelled items say, where there are any;
//! - [`found`], `page`: the report, as JSON and as a page, both kept in the bundle.
//!
//! Needs neither libtorch nor the training run: a bundle and its data do.
#![warn(missing_docs)]

mod audit;
mod choose;
mod ensemble;
mod error;
mod floors;
pub mod found;
pub mod held_out;
pub mod likeness;
mod margins;
mod page;
mod presence;
mod real;

use std::path::Path;

use s2m_data::Dataset;
use s2m_data::recipe::Loaded;
use s2m_data::view::Positive;
use s2m_model::bundle::{Bundle, MANIFEST};
use s2m_model::manifest::{CalibrationEntry, Manifest};
use s2m_model::networks::RunSettings;
use s2m_model::runtime::Runtime;
use serde::{Deserialize, Serialize};

use self::choose::HeldOut;
pub use self::choose::{Calibrated, MOST_LABELS};
pub use self::error::Error;
use self::found::{Bin, Reliability};
pub use self::held_out::class_at;
use self::held_out::{generated_rows, real_rows};
use s2m_model::disk::write_whole;
use s2m_show::progress::Progress;

/// The report inside a bundle, for programs and for people.
pub const REPORT: &str = "calibration.json";
/// See [`REPORT`].
pub const PAGE: &str = "calibration.html";

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
    fn generated_for(&self, manifest: &Manifest) -> u64 {
        const CHEAP: usize = 1024;
        let size: usize = manifest.generator.output.shape.iter().product();
        let usual = if size <= CHEAP { 100_000 } else { 20_000 };
        self.generated.unwrap_or(usual)
    }
}

/// What runs the networks.
#[derive(Debug)]
pub struct Engine<'a> {
    /// ONNX Runtime.
    pub runtime: &'a Runtime,
    /// Device, threads and batch.
    pub run: RunSettings,
}

/// What is calibrated, and by what.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The bundle.
    pub bundle: &'a Bundle,
    /// Its data, with labels in the bundle's order.
    pub data: &'a Loaded,
    /// Items with all their labels.
    pub audit: Option<&'a Dataset>,
}

/// Calibrates a bundle; nothing is written.
pub fn calibrate(
    subject: Subject<'_>,
    settings: &CalibrationSettings,
    engine: &Engine<'_>,
    progress: &dyn Progress,
) -> Result<Calibrated, Error> {
    settings.check()?;
    let Subject {
        bundle,
        data,
        audit,
    } = subject;
    progress.begin("held-out items", None);
    let real = real_rows(
        bundle,
        &data.train.items,
        &data.validation_positives,
        engine,
    )?;
    let audited = match audit {
        None => None,
        Some(audit) => {
            let each = (0..audit.len() as u32).map(|item| Positive { item, label: 0 });
            let shown: Vec<Positive> = each.collect();
            let rows = real_rows(bundle, &audit.items, &shown, engine)?;
            Some((rows, audit.truth.as_slice()))
        }
    };
    progress.end();
    let count = settings.generated_for(bundle.manifest());
    let held_out = HeldOut {
        bundle,
        real,
        generated: generated_rows(bundle, count, engine, progress)?,
        audited,
        others: Vec::new(),
    };
    progress.begin("choosing the calibration", None);
    let calibrated = held_out.calibrate(settings)?;
    progress.end();
    Ok(calibrated)
}

/// Calibrates a bundle by what its networks said, under the eyes of other ways too.
pub fn calibrate_among(
    bundle: &Bundle,
    own: likeness::Scored,
    others: Vec<likeness::Told>,
    settings: &CalibrationSettings,
) -> Result<Calibrated, Error> {
    let held_out = HeldOut {
        bundle,
        real: own.real,
        generated: own.generated,
        audited: None,
        others,
    };
    held_out.calibrate(settings)
}

impl Calibrated {
    /// The manifest with this calibration.
    pub fn manifest(&self, before: &Manifest) -> Manifest {
        Manifest {
            calibration: CalibrationEntry {
                auc: Some(self.found.real.auc),
                ..self.entry.clone()
            },
            levels: self.levels.clone(),
            labelling: self.labelling.clone(),
            ..before.clone()
        }
    }

    /// The files of a bundle that a calibration changes: reports first, the manifest last.
    pub fn files(&self, manifest: &Manifest) -> Result<[(&'static str, String); 3], Error> {
        let model = toml::to_string(manifest).map_err(|e| Error::Setting(e.to_string()))?;
        let [report, page] = self.found.files()?;
        Ok([report, page, (MANIFEST, model)])
    }

    /// Writes them into a bundle's folder.
    pub fn write(&self, folder: &Path, manifest: &Manifest) -> Result<(), Error> {
        for (name, text) in self.files(manifest)? {
            let path = folder.join(name);
            write_whole(&path, text.as_bytes()).map_err(Error::write(&path))?;
        }
        Ok(())
    }
}

/// Bins of a reliability curve.
const BINS: usize = 10;

/// Of items with about the same predicted probability: the mean prediction and the share for which it
/// was so, by weight.
fn reliability(items: impl Iterator<Item = (f64, bool, f64)>) -> Reliability {
    let mut bins = [[0.0_f64; 3]; BINS];
    for (probability, seen, weight) in items {
        let bin = ((probability * BINS as f64) as usize).min(BINS - 1);
        let values = [1.0, probability, f64::from(u8::from(seen))];
        for (sum, value) in bins[bin].iter_mut().zip(values) {
            *sum += weight * value;
        }
    }
    let total: f64 = bins.iter().map(|bin| bin[0]).sum();
    let filled = bins.iter().filter(|bin| bin[0] > 0.0);
    let curve: Vec<Bin> = filled
        .map(|[weight, predicted, seen]| Bin {
            weight: weight / total,
            predicted: predicted / weight,
            seen: seen / weight,
        })
        .collect();
    let error = curve
        .iter()
        .map(|bin| bin.weight * (bin.predicted - bin.seen).abs())
        .sum();
    Reliability { curve, error }
}

#[cfg(test)]
mod tests {
    use s2m_core::calibration::cap::{KNEE, LEAST_SHARE, SHARES};
    use s2m_core::calibration::presence as pres;
    use s2m_core::calibration::witness::TELLS;

    use super::*;

    #[test]
    fn a_reliability_curve_weighs_its_items() {
        let found =
            reliability([(0.5, true, 1.0), (0.5, false, 1.0), (1.0, true, 2.0)].into_iter());
        let bin = |weight, predicted, seen| Bin {
            weight,
            predicted,
            seen,
        };
        assert_eq!(found.curve, [bin(0.5, 0.5, 0.5), bin(0.5, 1.0, 1.0)]);
        assert_eq!(found.error, 0.0);
        let found = reliability([(0.8, false, 1.0), (0.25, true, 1.0)].into_iter());
        assert!((found.error - 0.775).abs() < 1e-12);
    }

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
