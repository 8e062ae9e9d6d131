//! From a bundle and settings to the weighting of one query.

use std::collections::BTreeMap;

use s2m_core::query::Query;
use s2m_core::setting::Setting;
use s2m_core::weight::{Calibration, JointCalibration, Temperature, Weighting};
use s2m_model::bundle::Bundle;
use s2m_model::manifest::{
    AuditEntry, CalibrationEntry, CorrectionEntry, EnsembleEntry, FloorValue, PosteriorName,
};
use serde::Serialize;

use crate::error::Error;
use crate::settings::{CalibrationChoice, DensityChoice, SampleSettings};

/// The calibration that holds for a query, after all overrides.
pub fn calibration(
    bundle: &Bundle,
    query: &Query,
    settings: &SampleSettings,
) -> Result<Calibration, Error> {
    let manifest = bundle.manifest();
    let posterior = posterior(bundle, settings)?;
    let base = match settings.calibration {
        CalibrationChoice::Bundle => match (posterior, &manifest.levels) {
            (PosteriorName::Levels, Some(levels)) => levels.clone(),
            _ => manifest.calibration.clone(),
        },
        CalibrationChoice::Paper => CalibrationEntry {
            floor: FloorValue::Same(0.0),
            odds_clip: manifest.calibration.odds_clip,
            ..manifest.paper.clone().unwrap_or_default()
        },
        CalibrationChoice::None => CalibrationEntry {
            odds_clip: manifest.calibration.odds_clip,
            ..CalibrationEntry::default()
        },
    };
    let changes = settings.overrides;
    let class = changes.class_temperature.map(Temperature::Same);
    Ok(Calibration {
        class: class
            .clone()
            .unwrap_or_else(|| base.temperature.class.clone().into()),
        fake_class: class.unwrap_or_else(|| base.temperature.fake_class.clone().into()),
        real: changes.real_temperature.unwrap_or(base.temperature.real),
        correction: base
            .correction
            .as_ref()
            .and_then(CorrectionEntry::correction)
            .unwrap_or_default(),
        odds_clip: base.odds_clip.unwrap_or(f64::INFINITY),
        odds_cap: changes.odds_cap.or(base.odds_cap).unwrap_or(f64::INFINITY),
        margin: match changes.margin {
            Some(margin) => margin,
            None => by_query("margin", &base.margin, query, bundle)?.unwrap_or(1.0),
        },
        floor: match changes.floor {
            Some(floor) => floor,
            None => by_query("floor", &base.floor.entries(), query, bundle)?.unwrap_or(0.0),
        },
        // An audit speaks of the posteriors that it was made with.
        audit: base
            .audit
            .as_ref()
            .filter(|_| changes.class_temperature.is_none())
            .and_then(AuditEntry::curve),
        ensemble: base.ensemble.as_ref().and_then(EnsembleEntry::curve),
        joint: bundle
            .label_sets()
            .filter(|_| posterior == PosteriorName::Joint)
            .map(|sets| JointCalibration {
                sets: sets.clone(),
                temperature: base.temperature.joint,
            }),
    })
}

/// Which posterior a request means. What only levels have asks for levels.
pub(crate) fn posterior(
    bundle: &Bundle,
    settings: &SampleSettings,
) -> Result<PosteriorName, Error> {
    let changes = settings.overrides;
    let for_levels = [
        (
            changes.margin.is_some_and(|margin| margin != 1.0),
            Setting("margin").to_string(),
        ),
        (
            changes.class_temperature.is_some(),
            Setting("class_temperature").to_string(),
        ),
        (
            settings.density == DensityChoice::Paper,
            Setting("density").to("paper").to_string(),
        ),
        (
            settings.calibration == CalibrationChoice::Paper,
            Setting("calibration").to("paper").to_string(),
        ),
    ];
    let asks_for_levels = for_levels.iter().find(|(asked, _)| *asked);
    match (settings.posterior, bundle.label_sets(), asks_for_levels) {
        (Some(PosteriorName::Levels), ..) | (None, None, _) | (None, _, Some(_)) => {
            Ok(PosteriorName::Levels)
        }
        (Some(PosteriorName::Joint), None, _) => Err(Error::Setting(format!(
            "`{}` has no joint head\nhint: `s2m fit` makes one; {} needs none",
            bundle.manifest().name,
            Setting("posterior").to("levels")
        ))),
        (Some(PosteriorName::Joint), Some(_), Some((_, option))) => Err(Error::Setting(format!(
            "{option} is for the posterior by levels, and {} was asked for",
            Setting("posterior").to("joint")
        ))),
        (Some(PosteriorName::Joint), Some(_), None) => Ok(PosteriorName::Joint),
        (None, Some(_), None) => {
            let own = bundle.manifest().calibration.posterior;
            Ok(own.unwrap_or(PosteriorName::Joint))
        }
    }
}

/// What a bundle stores for this query, however it is written there, or its default.
fn by_query(
    what: &str,
    entries: &BTreeMap<String, f64>,
    query: &Query,
    bundle: &Bundle,
) -> Result<Option<f64>, Error> {
    for (text, &value) in entries.iter().filter(|(text, _)| *text != "default") {
        let stored = Query::parse(text, bundle.labels());
        let stored = stored
            .map_err(|e| Error::Setting(format!("model.toml: {what} for \"{text}\": {e}")))?;
        if stored == *query {
            return Ok(Some(value));
        }
    }
    Ok(entries.get("default").copied())
}

/// The calibration that was in force for the query.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AppliedCalibration {
    /// Which posterior weighs items: `joint`, or `levels` of the class head.
    pub posterior: &'static str,
    /// Temperature of the joint head; null for `levels`.
    pub joint_temperature: Option<f64>,
    /// Networks that had no part in selecting and correct the predicted purity; zero for none.
    pub members: usize,
    /// Temperature of the class head.
    pub class_temperature: f64,
    /// Temperature of the fake-class head.
    pub fake_class_temperature: f64,
    /// Temperature of the discriminator, after its correction.
    pub real_temperature: f64,
    /// Correction of the discriminator: `temperature` alone, `platt` or `isotonic`.
    pub real_correction: &'static str,
    /// Whether an audit corrects the predicted purity.
    pub audited: bool,
    /// Clip of the odds; null for none.
    pub odds_clip: Option<f64>,
    /// Odds above this count as this; null for no cap.
    pub odds_cap: Option<f64>,
    /// Exclusion margin.
    pub margin: f64,
    /// Least posterior of the query.
    pub floor: f64,
}

/// How a query weighs, and the calibration behind it.
#[derive(Debug, Clone)]
pub struct Weighed {
    /// For an unconditional generator, or before its classes are chosen.
    pub weighting: Weighting,
    /// What is in force, for reports.
    pub applied: AppliedCalibration,
}

impl Weighed {
    /// The query.
    pub fn query(&self) -> &Query {
        self.weighting.query()
    }
}

/// The weighting of a query.
pub fn weigh(bundle: &Bundle, query: &Query, settings: &SampleSettings) -> Result<Weighed, Error> {
    let labelling = match settings.density {
        DensityChoice::Corrected => bundle.labelling().clone(),
        DensityChoice::Paper => bundle.labelling().clone().uncorrected(),
    };
    let calibration = calibration(bundle, query, settings)?;
    let weighting = Weighting::calibrated(query.clone(), labelling, &calibration)?;
    let members = bundle.manifest().calibration.ensemble.as_ref();
    let applied = AppliedCalibration {
        posterior: weighting.kind().name(),
        joint_temperature: calibration.joint.as_ref().map(|joint| joint.temperature),
        members: members
            .filter(|_| calibration.ensemble.is_some())
            .map_or(0, |ensemble| ensemble.members),
        class_temperature: calibration.class.at(query)?,
        fake_class_temperature: calibration.fake_class.at(query)?,
        real_temperature: calibration.real,
        real_correction: calibration.correction.name(),
        audited: calibration.audit.is_some(),
        odds_clip: Some(calibration.odds_clip).filter(|clip| clip.is_finite()),
        odds_cap: Some(calibration.odds_cap).filter(|cap| cap.is_finite()),
        margin: calibration.margin,
        floor: weighting.floor(),
    };
    Ok(Weighed { weighting, applied })
}
