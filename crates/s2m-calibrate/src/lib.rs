//! Calibration of a bundle from held-out items, each with the one label that it shows.
//!
//! - `held_out`: logits of real and of fresh generated items, from the bundle's own files;
//! - `settings`: what a person may ask for;
//! - `choose`: the order in which temperatures, corrections, caps, floors and margins are chosen;
//! - `chosen`: what is chosen so far; `margins`, `real`, `floors` choose parts of it;
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
mod chosen;
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
mod settings;

use std::path::Path;

use s2m_data::view::Positive;
use s2m_model::bundle::{Bundle, MANIFEST};
use s2m_model::disk::write_whole;
use s2m_model::manifest::{CalibrationEntry, Manifest};
use s2m_show::progress::Progress;

use self::choose::HeldOut;
use self::held_out::{generated_rows, real_rows};

pub use self::choose::Calibrated;
pub use self::chosen::MOST_LABELS;
pub use self::error::Error;
pub use self::found::{PAGE, REPORT};
pub use self::held_out::{Engine, Subject, class_at};
pub use self::settings::{CalibrationSettings, LabelWeightsChoice};

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
