//! What has been chosen of a calibration so far, and how queries weigh under it.

use std::borrow::Cow;

use s2m_core::calibration::correction::Correction;
use s2m_core::density::Labelling;
use s2m_core::query::Query;
use s2m_core::weight::{Calibration, JointCalibration, Temperature, Weighting};
use s2m_model::bundle::Bundle;
use s2m_model::manifest::{AuditEntry, CalibrationEntry, EnsembleEntry, TemperatureValue};

use crate::error::{Error, said};
use crate::held_out::Rows;

/// Most labels whose joint classes are all looked at.
pub const MOST_LABELS: usize = 10;

/// What has been chosen so far.
pub(crate) struct Chosen<'a> {
    pub(crate) bundle: &'a Bundle,
    pub(crate) labelling: Labelling,
    pub(crate) entry: CalibrationEntry,
    pub(crate) joint: Option<JointCalibration>,
    pub(crate) correction: Correction,
    pub(crate) queries: Vec<Query>,
}

impl Chosen<'_> {
    pub(crate) fn clip(&self) -> f64 {
        self.entry.odds_clip.unwrap_or(f64::INFINITY)
    }

    /// The weighting of one query under the calibration so far or another margin, for an unconditional
    /// generator.
    pub(crate) fn weighting(&self, query: &Query, margin: Option<f64>) -> Result<Weighting, Error> {
        self.weighting_by(query, margin, self.joint.clone())
    }

    /// The same with another network's word on label sets.
    pub(crate) fn weighting_by(
        &self,
        query: &Query,
        margin: Option<f64>,
        joint: Option<JointCalibration>,
    ) -> Result<Weighting, Error> {
        let temperature = |value: &TemperatureValue| Temperature::from(value.clone());
        let calibration = Calibration {
            class: temperature(&self.entry.temperature.class),
            fake_class: temperature(&self.entry.temperature.fake_class),
            real: self.entry.temperature.real,
            correction: self.correction.clone(),
            odds_clip: self.clip(),
            odds_cap: self.odds().cap,
            margin: margin
                .or_else(|| self.entry.margin.get(query.text()).copied())
                .unwrap_or(1.0),
            floor: 0.0,
            audit: self.entry.audit.as_ref().and_then(AuditEntry::curve),
            ensemble: self.entry.ensemble.as_ref().and_then(EnsembleEntry::curve),
            joint,
        };
        let labelling = self.labelling.clone();
        Ok(Weighting::calibrated(
            query.clone(),
            labelling,
            &calibration,
        )?)
    }

    /// The weighting of one query, and the items that it is drawn from: for a conditional generator
    /// those of the classes that it may need.
    pub(crate) fn drawn<'r>(
        &self,
        query: &Query,
        made: &'r Rows,
        margin: Option<f64>,
    ) -> Result<(Weighting, Cow<'r, Rows>), Error> {
        let weighting = self.weighting(query, margin)?;
        let Some(class) = &self.bundle.manifest().generator.class else {
            return Ok((weighting, Cow::Borrowed(made)));
        };
        let cover = query.covering();
        let share = |c| {
            if cover.contains(c) {
                1.0 / cover.len() as f64
            } else {
                0.0
            }
        };
        let shares: Vec<f64> = (0..class.prior.len()).map(share).collect();
        Ok((
            weighting.with_classes(&shares, &class.prior)?,
            Cow::Owned(made.of_classes(cover)),
        ))
    }
}

/// Log densities of items without D_v.
pub(crate) fn densities(weighting: &Weighting, rows: &Rows) -> Result<Vec<f64>, Error> {
    let density = |at| {
        let explained = weighting.explain(rows.evidence(at))?;
        Ok(explained.log_density - explained.log_conditional)
    };
    let all = (0..rows.count()).map(density);
    all.collect::<Result<_, _>>().map_err(said)
}
