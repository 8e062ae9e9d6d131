//! The order in which a calibration is chosen.
//!
//! Temperatures, the correction of D_v and label weights come from the first half of the held-out
//! items, exclusion margins, where they are asked for, from the second. Of the generated items the first half
//! says what a cap of D_v's odds leaves, and the second the floors and what is reported; witnesses say on both
//! second halves where they are capped.

use std::collections::BTreeMap;

use s2m_core::calibration::correction;
use s2m_core::calibration::odds;
use s2m_core::calibration::sureness::{softmax, sureness};
use s2m_core::calibration::{priors, reliability, temperature};
use s2m_core::density::Labelling;
use s2m_core::joint::targets::{self, Showing};
use s2m_core::labels::LabelSet;
use s2m_core::posterior::PosteriorKind;
use s2m_core::query::Query;
use s2m_core::setting::Setting;
use s2m_core::weight::JointCalibration;
use s2m_model::bundle::Bundle;
use s2m_model::manifest::{
    AuditEntry, CalibrationEntry, CorrectionEntry, EnsembleEntry, LabellingEntry, LabellingModel,
    PosteriorName, TemperatureEntry, TemperatureValue,
};

use crate::chosen::{Chosen, MOST_LABELS};
use crate::error::{Error, held_out};
use crate::found::{
    AuditFound, EnsembleFound, Found, JointClass, LabelPair, LabelWeights, MarginFound, WayFound,
};
use crate::held_out::{Half, Rows, SaidBy};
use crate::likeness::{self, Told};
use crate::real::way_found;
use crate::settings::{CalibrationSettings, LabelWeightsChoice};
use crate::{audit, ensemble, presence};

/// Estimated label weights that differ from stated ones by less than this share are no news.
const WORTH_SAYING: f64 = 0.2;

/// Logits of held-out real items, of generated ones, and of audited ones with their labels.
pub(super) struct HeldOut<'a> {
    pub(super) bundle: &'a Bundle,
    pub(super) real: Rows,
    pub(super) generated: Rows,
    pub(super) audited: Option<(Rows, &'a [LabelSet])>,
    /// Real outputs of other ways, as further witnesses.
    pub(super) others: Vec<Told>,
}

/// The calibration and what led to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// What the bundle's `calibration` becomes.
    pub entry: CalibrationEntry,
    /// What its `levels` becomes.
    pub levels: Option<CalibrationEntry>,
    /// What its `labelling` becomes.
    pub labelling: LabellingEntry,
    /// What led to it.
    pub found: Found,
}

impl HeldOut<'_> {
    /// Chooses temperatures, correction, clip, margins and floors: for the joint head where there is one, and
    /// then for levels too. Margins are for levels alone, so that asking for them asks for levels.
    pub(super) fn calibrate(&self, settings: &CalibrationSettings) -> Result<Calibrated, Error> {
        let mut levels = self.calibrate_by(settings, PosteriorKind::Levels)?;
        if self.bundle.label_sets().is_none() {
            return Ok(levels);
        }
        if settings.exclusion_error.is_some() {
            levels.entry.posterior = Some(PosteriorName::Levels);
            return Ok(levels);
        }
        let joint = self.calibrate_by(settings, PosteriorKind::Joint)?;
        Ok(Calibrated {
            levels: Some(levels.entry),
            ..joint
        })
    }

    /// The joint head at its temperature, and what the temperature changed.
    fn joint(
        &self,
        labelling: &Labelling,
        rows: &Rows,
        by: SaidBy,
        class_temperature: f64,
    ) -> Result<Option<(JointCalibration, temperature::TemperatureFit)>, Error> {
        let Some(sets) = self.bundle.label_sets() else {
            return Ok(None);
        };
        let log_class: Vec<f64> = rows
            .class
            .chunks_exact(rows.classes)
            .flat_map(|row| softmax(row, class_temperature))
            .map(f64::ln)
            .collect();
        let held = targets::HeldOut {
            logits: &rows.set_logits(by),
            log_class: &log_class,
            labels: &rows.labels,
        };
        let showing = Showing::new((**sets).clone(), labelling.clone());
        let fit = showing.fit_temperature(held).map_err(held_out)?;
        let calibration = JointCalibration {
            sets: sets.clone(),
            temperature: fit.temperature,
        };
        Ok(Some((calibration, fit)))
    }

    fn calibrate_by(
        &self,
        settings: &CalibrationSettings,
        kind: PosteriorKind,
    ) -> Result<Calibrated, Error> {
        let classes = self.bundle.labels().len();
        let halves = [Half::First, Half::Second];
        let [first, second] = halves.map(|half| self.real.half(half));
        let [made_first, made_second] = halves.map(|half| self.generated.half(half));
        let class =
            temperature::fit_class(&first.class, classes, &first.labels).map_err(held_out)?;
        let clip = odds::odds_clip(first.distinct());
        let chosen = correction::choose(&first.real, first.numbers(), &made_first.real, clip)
            .map_err(held_out)?;
        let fake_class = if made_first.fake_class.is_empty() {
            None
        } else {
            let rows = &made_first.fake_class;
            Some(temperature::fit_class(rows, classes, &made_first.labels).map_err(held_out)?)
        };
        let (labelling, label_weights) = self.label_weights(settings, &first, class.temperature)?;
        let weights = labelling
            .labelling(classes)
            .map_err(|e| Error::Setting(e.to_string()))?;
        let joint = match kind {
            PosteriorKind::Joint => {
                self.joint(&weights, &first, SaidBy::Selecting, class.temperature)?
            }
            PosteriorKind::Levels => None,
        };
        let mut work = Chosen {
            bundle: self.bundle,
            labelling: weights,
            joint: joint.as_ref().map(|(calibration, _)| calibration.clone()),
            entry: CalibrationEntry {
                temperature: TemperatureEntry {
                    class: TemperatureValue::Same(class.temperature),
                    fake_class: TemperatureValue::Same(
                        fake_class.map_or(1.0, |fit| fit.temperature),
                    ),
                    real: chosen.chosen.temperature,
                    joint: joint.as_ref().map_or(1.0, |(joint, _)| joint.temperature),
                },
                correction: CorrectionEntry::of(&chosen.chosen.correction),
                odds_clip: Some(clip),
                ..CalibrationEntry::default()
            },
            correction: chosen.chosen.correction.clone(),
            queries: queries(self.bundle),
        };
        let margins = work.set_margins(settings, [&first, &second], &made_first)?;
        let way = likeness::way(&chosen.chosen, [&made_first, &made_second]);
        let witnesses = likeness::witnesses(&self.real, &self.generated, &self.others);
        let judged = likeness::capped(way, witnesses, settings, clip);
        work.set_cap(judged.cap());
        work.lower_cap(settings, &made_first)?;
        let ensemble = self.ensemble(&mut work, [&first, &made_first], class.temperature)?;
        let likeness = likeness::found(&judged, work.odds().cap);
        work.entry.witnesses = likeness.still_tell.then_some(likeness.after[0]);
        let audited = self.audit(&mut work)?;
        let shares = work.shares(&made_second)?;
        let mut joint_classes = work.set_floors(settings, &made_second, margins, &shares)?;
        work.count_present(&self.real, &labelling, &mut joint_classes)?;
        let real = work.real_found(&chosen, [&second, &made_second]);
        let mut found = Found {
            model: self.bundle.manifest().name.clone(),
            held_out_real: self.real.count(),
            generated: self.generated.count(),
            class: (&class).into(),
            fake_class: fake_class.as_ref().map(Into::into),
            joint: joint.as_ref().map(|(_, fit)| fit.into()),
            ensemble,
            class_reliability: reliability::of_classes(
                &second.class,
                classes,
                &second.labels,
                class.temperature,
            )
            .into(),
            class_on_real: sureness(&second.class, classes, class.temperature).into(),
            class_on_generated: sureness(&made_second.class, classes, class.temperature).into(),
            way: WayFound {
                auc: Some(real.auc),
                witnesses: Some([likeness.before[0], likeness.after[0]]),
                outside: Some(judged.outside()),
                ..way_found(&chosen, &made_first, clip)
            },
            ways: BTreeMap::new(),
            real,
            likeness: Some(likeness),
            label_weights,
            joint_classes,
            audit: audited,
            warnings: Vec::new(),
        };
        found.warnings = warnings(&found, settings, classes);
        Ok(Calibrated {
            entry: work.entry,
            levels: None,
            labelling,
            found,
        })
    }

    /// Label weights as stated and as estimated, and the labelling that is used from here on.
    fn label_weights(
        &self,
        settings: &CalibrationSettings,
        first: &Rows,
        temperature: f64,
    ) -> Result<(LabellingEntry, LabelWeights), Error> {
        let mut entry = self.bundle.manifest().labelling.clone();
        let labels = self.bundle.labels();
        let estimate = priors::estimate(&first.class, labels.len(), temperature, &first.labels)
            .map_err(held_out)?;
        let observed = match entry.model {
            LabellingModel::OneOf => None,
            LabellingModel::PerClass => Some(entry.observed.as_slice()),
        };
        let estimated = priors::estimated_weights(&entry.weights, observed, &estimate.log_weights);
        let used = settings.label_weights == LabelWeightsChoice::Estimated;
        let stated = entry.weights.clone();
        if used {
            for (weight, found) in entry.weights.iter_mut().zip(&estimated) {
                *weight = found.unwrap_or(*weight);
            }
        }
        let pairs = estimate.pairs.iter().map(|pair| LabelPair {
            labels: pair.labels.map(|label| labels.name(label).to_owned()),
            ratio: pair.log_ratio.exp(),
            standard_error: pair.standard_error,
            items: pair.items,
        });
        let found = LabelWeights {
            stated,
            estimated,
            used,
            pairs: pairs.collect(),
        };
        Ok((entry, found))
    }

    /// What networks that have no part in selecting say, where there are any; the entry learns it.
    fn ensemble(
        &self,
        work: &mut Chosen<'_>,
        [real, made]: [&Rows; 2],
        class_temperature: f64,
    ) -> Result<Option<EnsembleFound>, Error> {
        let joint = self.bundle.manifest().classifier.joint.as_ref();
        let members = joint.map_or(0, |joint| joint.members.len());
        if work.joint.is_none() || members == 0 {
            return Ok(None);
        }
        let own = self.joint(&work.labelling, real, SaidBy::Others, class_temperature)?;
        let Some((others, _)) = own else {
            return Ok(None);
        };
        let judged = |query: &Query| {
            Ok(ensemble::Judged {
                selects: work.weighting(query, None)?,
                others: work.weighting_by(query, None, Some(others.clone()))?,
            })
        };
        let classes = work.queries.iter().map(judged);
        let classes = classes.collect::<Result<Vec<_>, Error>>()?;
        let Some(curve) = ensemble::curve(made, &classes)? else {
            return Ok(None);
        };
        work.entry.ensemble = Some(EnsembleEntry::of(members, &curve));
        Ok(Some(ensemble::found(members, others.temperature, &curve)))
    }

    /// What audited items say, where there are any; the entry learns it.
    fn audit(&self, work: &mut Chosen<'_>) -> Result<Option<AuditFound>, Error> {
        let Some((rows, truth)) = &self.audited else {
            return Ok(None);
        };
        let weightings = work
            .queries
            .iter()
            .map(|query| Ok((query.clone(), work.weighting(query, None)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let (curve, found) = audit::audit(rows, truth, &weightings)?;
        work.entry.audit = Some(AuditEntry::of(found.items, &curve));
        Ok(Some(found))
    }
}

/// Every joint class, or every single label where there are too many.
fn queries(bundle: &Bundle) -> Vec<Query> {
    let labels = bundle.labels();
    if labels.len() > MOST_LABELS {
        let alone = |label| Query::label(label, labels);
        return (0..labels.len()).map(alone).collect();
    }
    Query::all_joint(labels).collect()
}

/// What a person should know about a calibration.
fn warnings(found: &Found, settings: &CalibrationSettings, labels: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(likeness::warnings(found));
    if labels > MOST_LABELS {
        warnings.push(format!(
            "more than {MOST_LABELS} labels: single labels are looked at in the place of joint classes; use {} or {} for combinations",
            Setting("purity"),
            Setting("floor")
        ));
    }
    let none = |joint: &JointClass| match &joint.margin {
        Some(MarginFound::None(why)) => Some(why.clone()),
        Some(MarginFound::Promised { .. }) | None => None,
    };
    let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (query, joint) in &found.joint_classes {
        if let Some(why) = none(joint).filter(|_| query.contains(" - ")) {
            reasons.entry(why).or_default().push(query);
        }
    }
    for (why, queries) in reasons {
        let shown = match queries.as_slice() {
            [one] => (*one).to_owned(),
            [first, .., _] => format!("{first} and {} more", queries.len() - 1),
            [] => continue,
        };
        warnings.push(format!("no exclusion margin for {shown}: {why}"));
    }
    let asked = settings.exclusion_error.unwrap_or(1.0);
    let loosened = |joint: &&JointClass| matches!(joint.margin, Some(MarginFound::Promised { exclusion_error, .. }) if exclusion_error > asked);
    let count = found.joint_classes.values().filter(loosened).count();
    if count > 0 {
        warnings.push(format!(
            "the exclusion error of {count} joint classes is above {asked}: stricter margins would leave too few items, as they do where labels are wrong for a share of the items"
        ));
    }
    if found.class.at_limit && found.class.temperature != 1.0 {
        warnings.push(format!(
            "no temperature of the class head is best; {} is used, and more held-out items would tell",
            found.class.temperature
        ));
    }
    let empty = |(_, joint): &(&String, &JointClass)| {
        joint.without_floor.is_some() && joint.with_floor.is_none()
    };
    let empty: Vec<&str> = found
        .joint_classes
        .iter()
        .filter(empty)
        .map(|(query, _)| query.as_str())
        .collect();
    if !empty.is_empty() {
        warnings.push(format!(
            "no generated item is more likely right than wrong for {}: samples of it need {}",
            empty.join("; "),
            Setting("floor").to(0)
        ));
    }
    warnings.extend(presence::warnings(&found.joint_classes));
    let weights = &found.label_weights;
    let differs = weights
        .stated
        .iter()
        .zip(&weights.estimated)
        .any(|(stated, found)| {
            found.is_some_and(|found| (found / stated).ln().abs() > WORTH_SAYING)
        });
    if differs && !weights.used {
        warnings.push(format!(
            "items with two labels show them in another ratio than the labelling states; {} takes what they show",
            Setting("label_weights").to("estimated")
        ));
    }
    warnings
}

#[cfg(test)]
mod tests;
