//! The order in which a calibration is chosen.
//!
//! Temperatures, the correction of D_v and label weights come from the first half of the held-out
//! items, exclusion margins, where they are asked for, from the second. Of the generated items the first half
//! says what a cap of D_v's odds leaves, and the second the floors and what is reported; witnesses say on both
//! second halves where they are capped.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use s2m_core::calibration::correction::{self, Choice, Correction};
use s2m_core::calibration::margin::{self, MarginError};
use s2m_core::calibration::odds::{self, Generated, OddsUse};
use s2m_core::calibration::{priors, purity, temperature};
use s2m_core::density::Labelling;
use s2m_core::diagnostics::summarise;
use s2m_core::joint::targets::{self, Showing};
use s2m_core::labels::LabelSet;
use s2m_core::log_sum_exp;
use s2m_core::posterior::PosteriorKind;
use s2m_core::query::Query;
use s2m_core::tail::tail_index;
use s2m_core::weight::{Calibration, JointCalibration, LogitError, Temperature, Weighting};
use s2m_model::bundle::Bundle;
use s2m_model::manifest::{
    AuditEntry, CalibrationEntry, CorrectionEntry, EnsembleEntry, FloorValue, LabellingEntry,
    LabellingModel, PosteriorName, TemperatureEntry, TemperatureValue,
};

use super::found::{
    Found, JointClass, LabelPair, LabelWeights, MarginFound, Prediction, RealFound, Reliability,
    Shares, Sureness, WayFound,
};
use super::held_out::{Half, Rows, SaidBy};
use super::likeness::{self, Told};
use super::{CalibrationSettings, LabelWeightsChoice, audit, ensemble, presence, reliability};
use crate::error::Error;

/// Heaviest tail of weights, as a Pareto index; samplers state no error beyond it.
const HEAVIEST_TAIL: f64 = 0.4;

/// Share of the effective sample size without D_v from which on its tail is not looked at: then the
/// heaviest items cannot hold much, and a lower cap would only take D_v's say away.
const HARMLESS: f64 = 0.5;

/// Each try of a lower cap is the one before divided by this.
const STEP: f64 = 1.05;

/// A joint class with fewer supported items than this says nothing about temperatures and floors.
const REACHABLE: usize = 100;

/// Exclusion errors from here on promise nothing worth having.
const LOOSEST: f64 = 0.5;

/// Most labels whose joint classes are all looked at.
pub const MOST_LABELS: usize = 10;

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

/// What has been chosen so far.
struct Chosen<'a> {
    bundle: &'a Bundle,
    labelling: Labelling,
    entry: CalibrationEntry,
    joint: Option<JointCalibration>,
    correction: Correction,
    queries: Vec<Query>,
}

/// A joint class with enough supported items: log densities without D_v, and D_v's corrected logits.
struct Reachable {
    query: Query,
    log_density: Vec<f64>,
    log_odds: Vec<f32>,
    /// Whether enough items are more likely of this class than not; it may be one that the data lacks otherwise.
    likely: bool,
}

impl Reachable {
    fn items(&self) -> Generated<'_> {
        Generated {
            log_density: &self.log_density,
            real_logits: &self.log_odds,
        }
    }
}

impl HeldOut<'_> {
    /// Chooses temperatures, correction, clip, margins and floors: for the joint output where there is one, and
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

    /// The joint output at its temperature, and what the temperature changed.
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
        let judged = likeness::Judged::new(way, witnesses, settings, clip);
        work.set_cap(judged.cap());
        work.lower_cap(settings, &made_first)?;
        let ensemble = self.ensemble(&mut work, [&first, &made_first], class.temperature)?;
        let likeness = judged.found(work.odds().cap);
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
            class_reliability: class_reliability(&second, class.temperature),
            class_on_real: sureness(&second.class, classes, class.temperature),
            class_on_generated: sureness(&made_second.class, classes, class.temperature),
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
        let estimated = estimated_weights(&entry, &estimate.log_weights);
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
    ) -> Result<Option<super::found::EnsembleFound>, Error> {
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
    fn audit(&self, work: &mut Chosen<'_>) -> Result<Option<super::found::AuditFound>, Error> {
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

/// Log densities of items without D_v.
fn densities(weighting: &Weighting, rows: &Rows) -> Result<Vec<f64>, Error> {
    let density = |at| {
        let explained = weighting.explain(rows.evidence(at))?;
        Ok(explained.log_density - explained.log_conditional)
    };
    let all = (0..rows.count()).map(density);
    all.collect::<Result<_, _>>().map_err(said)
}

pub(super) fn held_out(error: impl std::fmt::Display) -> Error {
    Error::Setting(format!("held-out items: {error}"))
}

fn said(error: LogitError) -> Error {
    Error::Setting(error.to_string())
}

/// Stated weights where nothing is known, else estimated ones of the same total.
fn estimated_weights(entry: &LabellingEntry, log_weights: &[Option<f64>]) -> Vec<Option<f64>> {
    // One-of: a_i = exp t_i. Per class: the prior is p_data(i) exp(-t_i), up to a constant.
    let raw: Vec<Option<f64>> = log_weights
        .iter()
        .zip(&entry.observed)
        .map(|(t, observed)| {
            t.map(|t| match entry.model {
                LabellingModel::OneOf => t.exp(),
                LabellingModel::PerClass => observed * (-t).exp(),
            })
        })
        .collect();
    let known = |values: &[f64]| -> f64 {
        values
            .iter()
            .zip(&raw)
            .filter(|(_, raw)| raw.is_some())
            .map(|(value, _)| value)
            .sum()
    };
    let scale = known(&entry.weights) / raw.iter().flatten().sum::<f64>();
    raw.iter().map(|raw| raw.map(|raw| raw * scale)).collect()
}

impl Chosen<'_> {
    /// How D_v's log odds are used so far.
    fn odds(&self) -> OddsUse {
        OddsUse {
            temperature: self.entry.temperature.real,
            clip: self.clip(),
            cap: self.entry.odds_cap.unwrap_or(f64::INFINITY),
        }
    }

    fn set_cap(&mut self, cap: f64) {
        self.entry.odds_cap = cap.is_finite().then_some(cap);
    }

    fn clip(&self) -> f64 {
        self.entry.odds_clip.unwrap_or(f64::INFINITY)
    }

    /// The exclusion margin of every joint class that excludes a label, where margins are asked for.
    ///
    /// The exclusion error asked for is doubled until a margin leaves enough generated items; that is
    /// decided on the first half of the held-out items, so that the promise on the second stays exact.
    fn set_margins(
        &mut self,
        settings: &CalibrationSettings,
        [first, second]: [&Rows; 2],
        made: &Rows,
    ) -> Result<BTreeMap<String, MarginFound>, Error> {
        let mut report = BTreeMap::new();
        let asked = settings.exclusion_error.filter(|_| self.joint.is_none());
        let Some(asked) = asked else {
            return Ok(report);
        };
        for query in self.queries.clone() {
            let ratios = [self.ratios(&query, first)?, self.ratios(&query, second)?];
            let found = self.margin([asked, settings.least_kept], &query, ratios, made)?;
            if let MarginFound::Promised { margin, .. } = found {
                self.entry.margin.insert(query.text().to_owned(), margin);
            }
            report.insert(query.text().to_owned(), found);
        }
        Ok(report)
    }

    /// Log critical margins of the held-out items that show a label which the query excludes.
    fn ratios(&self, query: &Query, held_out: &Rows) -> Result<Vec<f64>, Error> {
        let TemperatureValue::Same(temperature) = self.entry.temperature.class else {
            unreachable!("one temperature was fitted");
        };
        let mut seen = BTreeSet::new();
        let excluded = |at: &usize| {
            let shows = query.forced(usize::from(held_out.labels[*at])) == Some(false);
            // An item counts once, however many excluded labels it shows.
            shows && seen.insert(held_out.item(*at))
        };
        let ratio = |at| {
            let logits = held_out.evidence(at).class_logits;
            margin::log_critical_margin_of(logits, temperature, &self.labelling, query)
        };
        let ratios = (0..held_out.count()).filter(excluded).map(ratio);
        ratios.collect::<Result<_, _>>().map_err(said)
    }

    /// The margin of one query, from ratios of both halves, by the exclusion error asked for and the
    /// share of effective items that must be left.
    fn margin(
        &self,
        [asked, least_kept]: [f64; 2],
        query: &Query,
        [first, second]: [Vec<f64>; 2],
        made: &Rows,
    ) -> Result<MarginFound, Error> {
        if second.is_empty() {
            let why = "no held-out item shows a label that it excludes";
            return Ok(MarginFound::None(why.to_owned()));
        }
        let mut error = asked;
        let alone = self.effective_share(query, 1.0, made)?;
        while let Ok(found) = margin::exclusion_margin(&first, error) {
            let share = self.effective_share(query, found.value, made)?;
            if share >= least_kept * alone {
                break;
            }
            error *= 2.0;
            if error >= LOOSEST {
                return Ok(MarginFound::None(format!(
                    "even an exclusion error of {} would take more than {:.0} % of the effective items",
                    error / 2.0,
                    100.0 * (1.0 - least_kept)
                )));
            }
        }
        match margin::exclusion_margin(&second, error) {
            Ok(found) => Ok(MarginFound::Promised {
                margin: found.value,
                exclusion_error: found.rank as f64 / (found.items as f64 + 1.0),
                rank: found.rank,
                items: found.items,
            }),
            Err(why @ (MarginError::TooFew { .. } | MarginError::Never { .. })) => {
                Ok(MarginFound::None(why.to_string()))
            }
            Err(why) => Err(Error::Setting(why.to_string())),
        }
    }

    /// Effective share of generated items at a margin, without D_v.
    fn effective_share(&self, query: &Query, margin: f64, made: &Rows) -> Result<f64, Error> {
        let (weighting, rows) = self.drawn(query, made, Some(margin))?;
        Ok(summarise(&densities(&weighting, &rows)?).weight_ess)
    }

    /// The weighting of one query under the calibration so far or another margin, for an unconditional
    /// generator.
    fn weighting(&self, query: &Query, margin: Option<f64>) -> Result<Weighting, Error> {
        self.weighting_by(query, margin, self.joint.clone())
    }

    /// The same with another network's word on label sets.
    fn weighting_by(
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
    /// those of a smallest set of classes that the query needs.
    fn drawn<'r>(
        &self,
        query: &Query,
        made: &'r Rows,
        margin: Option<f64>,
    ) -> Result<(Weighting, Cow<'r, Rows>), Error> {
        let weighting = self.weighting(query, margin)?;
        let Some(class) = &self.bundle.manifest().generator.class else {
            return Ok((weighting, Cow::Borrowed(made)));
        };
        let cover = query.covers()[0];
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

    /// Every joint class with enough supported items.
    fn reachable(&self, made: &Rows) -> Result<Vec<Reachable>, Error> {
        let mut reachable = Vec::new();
        for query in &self.queries {
            let (weighting, rows) = self.drawn(query, made, None)?;
            let log_density = densities(&weighting, &rows)?;
            if log_density.iter().filter(|d| d.is_finite()).count() >= REACHABLE {
                let corrected = |v: &f32| self.correction.log_odds(f64::from(*v)) as f32;
                let mut likely = 0;
                for at in 0..rows.count() {
                    let explained = weighting.explain(rows.evidence(at)).map_err(said)?;
                    likely += usize::from(explained.posterior >= 0.5);
                }
                reachable.push(Reachable {
                    query: query.clone(),
                    log_density,
                    log_odds: rows.real.iter().map(corrected).collect(),
                    likely: likely >= REACHABLE,
                });
            }
        }
        Ok(reachable)
    }

    /// Lowers the cap of D_v's odds until every joint class that is likely somewhere keeps enough of its items.
    fn lower_cap(&mut self, settings: &CalibrationSettings, made: &Rows) -> Result<(), Error> {
        let least = likeness::least_of_a_class(settings);
        let reachable = self.reachable(made)?;
        let odds = self.odds();
        let keeps_enough = |joint: &Reachable, cap: f64| {
            let items = joint.items();
            let alone = odds::effective_share(items, silent(odds));
            let log_weights = odds::log_weights(items, OddsUse { cap, ..odds });
            let share = summarise(&log_weights).weight_ess;
            let heavy = || tail_index(&log_weights).is_some_and(|index| index > HEAVIEST_TAIL);
            share >= least * alone && (share >= HARMLESS * alone || !heavy())
        };
        let all = reachable.iter().flat_map(|joint| &joint.log_odds);
        let largest = all.map(|v| odds.log_weight(f64::from(*v)));
        let largest = largest.fold(f64::NEG_INFINITY, f64::max).exp();
        let mut cap = odds.cap;
        // A class that was content may no longer be: round after round until none asks for more.
        loop {
            let before = cap;
            for joint in reachable.iter().filter(|joint| joint.likely) {
                while !keeps_enough(joint, cap) && cap * odds.clip > 1.0 {
                    cap = cap.min(largest) / STEP;
                }
            }
            if cap == before {
                self.set_cap(cap);
                return Ok(());
            }
        }
    }

    /// Effective shares of every reachable joint class: without D_v, by odds without a cap, and as used.
    fn shares(&self, made: &Rows) -> Result<BTreeMap<String, Shares>, Error> {
        let odds = self.odds();
        let uncapped = OddsUse {
            cap: f64::INFINITY,
            ..odds
        };
        let share = |joint: &Reachable| {
            let at = |odds| odds::effective_share(joint.items(), odds);
            let shares = Shares {
                without_real: at(silent(odds)),
                by_likelihood: at(uncapped),
                used: at(odds),
            };
            (joint.query.text().to_owned(), shares)
        };
        Ok(self.reachable(made)?.iter().map(share).collect())
    }

    /// For every reachable joint class the least floor at which it has the wanted predicted purity,
    /// lowered to what it can bear.
    fn set_floors(
        &mut self,
        settings: &CalibrationSettings,
        made: &Rows,
        mut margins: BTreeMap<String, MarginFound>,
        shares: &BTreeMap<String, Shares>,
    ) -> Result<BTreeMap<String, JointClass>, Error> {
        let mut floors = BTreeMap::from([("default".to_owned(), 0.0)]);
        let mut report = BTreeMap::new();
        for query in &self.queries {
            let (weighting, rows) = self.drawn(query, made, None)?;
            let item = |at| {
                let explained = weighting.explain(rows.evidence(at))?;
                Ok(purity::Item {
                    log_weight: explained.log_weight,
                    log_posterior: explained.posterior.ln(),
                    predicted: explained.predicted,
                })
            };
            let items = (0..rows.count())
                .map(item)
                .collect::<Result<Vec<_>, _>>()
                .map_err(said)?;
            let supported = items.iter().filter(|i| i.log_weight.is_finite()).count();
            let floor = if supported < REACHABLE {
                0.0
            } else {
                floor_for(&items, settings)
            };
            let at = |floor: f64| {
                purity::kept(&items, floor.ln()).map(|kept| Prediction {
                    predicted_purity: kept.predicted_purity,
                    effective_share: kept.effective_share,
                })
            };
            let joint = JointClass {
                supported,
                margin: margins.remove(query.text()),
                effective_share: shares.get(query.text()).copied(),
                floor,
                without_floor: at(0.0),
                with_floor: at(floor),
                presence: None,
            };
            report.insert(query.text().to_owned(), joint);
            floors.insert(query.text().to_owned(), floor);
        }
        self.entry.floor = FloorValue::ByQuery(floors);
        Ok(report)
    }

    /// Which joint classes the data holds, at their floors.
    fn count_present(
        &mut self,
        real: &Rows,
        labelling: &LabellingEntry,
        joint_classes: &mut BTreeMap<String, JointClass>,
    ) -> Result<(), Error> {
        if self.bundle.labels().len() > MOST_LABELS {
            return Ok(());
        }
        let class = |query: &Query| {
            Ok(presence::Class {
                query: query.clone(),
                weighting: self.weighting(query, None)?,
                floor: joint_classes
                    .get(query.text())
                    .map_or(0.0, |joint| joint.floor),
            })
        };
        let classes = self.queries.iter().map(class);
        let classes = classes.collect::<Result<Vec<_>, Error>>()?;
        let found = presence::find(&classes, real, labelling)?;
        self.entry.presence = presence::entry(&found);
        for (query, found) in found {
            if let Some(joint) = joint_classes.get_mut(&query) {
                joint.presence = Some(found);
            }
        }
        Ok(())
    }

    /// What is reported about the real output, on items that had no part in choosing it.
    fn real_found(&self, chosen: &Choice, [real, generated]: [&Rows; 2]) -> RealFound {
        let of_both = |log_odds: &dyn Fn(f32) -> f64| {
            let of = |rows: &Rows| rows.real.iter().map(|&v| log_odds(v)).collect();
            real_reliability(&[of(real), of(generated)])
        };
        let by_likelihood = self.entry.temperature.real;
        let tried = chosen.tried.iter();
        RealFound {
            correction: self.correction.name().to_owned(),
            tried: tried
                .map(|t| (t.name.to_owned(), [t.loss, t.excess[0], t.excess[1]]))
                .collect(),
            by_likelihood,
            cap: self.entry.odds_cap,
            odds_clip: self.clip(),
            auc: odds::auc(&real.real, &generated.real),
            gain: self.gain([real, generated]),
            before: of_both(&f64::from),
            after: of_both(&|v| self.correction.log_odds(f64::from(v)) / by_likelihood),
        }
    }

    /// How much nearer to real items the weights bring generated ones; see [`RealFound::gain`].
    fn gain(&self, [real, generated]: [&Rows; 2]) -> f64 {
        let odds = self.odds();
        let log_weight = |v: &f32| odds.log_weight(self.correction.log_odds(f64::from(*v)));
        let log_weights = |rows: &Rows| rows.real.iter().map(log_weight).collect::<Vec<f64>>();
        let n = |rows: &Rows| rows.count().max(1) as f64;
        let mean_log = log_weights(real).iter().sum::<f64>() / n(real);
        mean_log - (log_sum_exp(log_weights(generated).into_iter()) - n(generated).ln())
    }
}

/// D_v's odds, saying nothing.
fn silent(odds: OddsUse) -> OddsUse {
    OddsUse {
        temperature: f64::INFINITY,
        cap: f64::INFINITY,
        ..odds
    }
}

/// Floors are not lowered under this: an item that is more likely something else is no sample.
const LEAST_LOWERED: u32 = 50;

/// The floor that the purity asks for, lowered in hundredths to what leaves enough effective items,
/// but not under one half.
fn floor_for(items: &[purity::Item], settings: &CalibrationSettings) -> f64 {
    let share =
        |floor: f64| purity::kept(items, floor.ln()).map_or(0.0, |kept| kept.effective_share);
    let least = settings.least_kept * share(0.0);
    let wanted = purity::log_floor_for(items, settings.purity).map_or(1.0, f64::exp);
    let wanted = wanted.min(settings.highest_floor);
    let lowest = f64::from(LEAST_LOWERED) / 100.0;
    if wanted <= lowest || share(wanted) >= least {
        return wanted;
    }
    let hundredths = LEAST_LOWERED..=(wanted * 100.0) as u32;
    let mut lowered = hundredths.rev().map(|n| f64::from(n) / 100.0);
    lowered
        .find(|&floor| share(floor) >= least)
        .unwrap_or(lowest)
}

/// What corrected odds leave of generated items, and how right they are on items that they were not
/// fitted to.
pub(super) fn way_found(choice: &Choice, made: &Rows, clip: f64) -> WayFound {
    let corrected = |v: &f32| choice.chosen.correction.log_odds(f64::from(*v)) as f32;
    let items = Generated {
        log_density: &vec![0.0; made.count()],
        real_logits: &made.real.iter().map(corrected).collect::<Vec<_>>(),
    };
    WayFound {
        effective_share: odds::effective_share(
            items,
            OddsUse {
                temperature: choice.chosen.temperature,
                clip,
                cap: f64::INFINITY,
            },
        ),
        reliability_error: real_reliability(&choice.held_out).error,
        auc: None,
        witnesses: None,
        outside: None,
    }
}

/// Predicted and seen shares of real items, from log odds of real and of generated ones, both sides
/// counting alike.
fn real_reliability([real, generated]: &[Vec<f64>; 2]) -> Reliability {
    let of = |(side, is_real): (&Vec<f64>, bool)| -> Vec<(f64, bool, f64)> {
        let weight = 1.0 / side.len().max(1) as f64;
        let item = |log_odds: &f64| (1.0 / (1.0 + (-log_odds).exp()), is_real, weight);
        side.iter().map(item).collect()
    };
    reliability([(real, true), (generated, false)].into_iter().flat_map(of))
}

/// Predicted and seen shares of labels, every label of every item once.
fn class_reliability(rows: &Rows, temperature: f64) -> Reliability {
    let each = (0..rows.count()).flat_map(|at| {
        let probabilities = softmax(rows.evidence(at).class_logits, temperature);
        let shown = usize::from(rows.labels[at]);
        let label = move |(label, p)| (p, label == shown, 1.0);
        probabilities.into_iter().enumerate().map(label)
    });
    reliability(each)
}

fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let odds = |v: &f32| (f64::from(v - top) / temperature).exp();
    let total: f64 = logits.iter().map(odds).sum();
    logits.iter().map(|v| odds(v) / total).collect()
}

/// How sure D_r is: its mean largest probability, and the mean probability of each class.
fn sureness(rows: &[f32], classes: usize, temperature: f64) -> Sureness {
    let mut largest = 0.0;
    let mut means = vec![0.0; classes];
    for row in rows.chunks_exact(classes) {
        let probabilities = softmax(row, temperature);
        largest += probabilities.iter().copied().fold(0.0, f64::max);
        for (mean, p) in means.iter_mut().zip(probabilities) {
            *mean += p;
        }
    }
    let n = (rows.len() / classes).max(1) as f64;
    for mean in &mut means {
        *mean /= n;
    }
    Sureness {
        mean_largest_probability: largest / n,
        mean_probability: means,
    }
}

/// What a person should know about a calibration.
fn warnings(found: &Found, settings: &CalibrationSettings, labels: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(likeness::warnings(found));
    if labels > MOST_LABELS {
        warnings.push(format!(
            "more than {MOST_LABELS} labels: single labels are looked at in the place of joint classes; use --purity or --floor for combinations"
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
            "no temperature of the class output is best; {} is used, and more held-out items would tell",
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
            "no generated item is more likely right than wrong for {}: samples of it need --floor 0",
            empty.join("; ")
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
        warnings.push(
            "items with two labels show them in another ratio than the labelling states; --label-weights estimated takes what they show"
                .to_owned(),
        );
    }
    warnings
}

#[cfg(test)]
mod tests {
    use s2m_core::calibration::correction::Corrected;
    use s2m_testkit::{exact, linear};

    use super::*;

    /// A bundle with three labels, of which items may show several.
    fn per_class() -> Bundle {
        let mut files = linear::linear(3);
        let text = String::from_utf8(files[0].1.clone()).unwrap();
        assert!(text.contains("one-of"));
        files[0].1 = text.replace("one-of", "per-class").into_bytes();
        exact::open(&files)
    }

    /// Rows of items that show these labels, with logits between -2 and 2; `real` is added to D_v's.
    fn rows(shown: &[(u32, u8)], real: f32) -> Rows {
        let logit = |item: u32, output: u32| ((item * 37 + output * 61) % 101) as f32 / 25.0 - 2.0;
        let classes = 3;
        let row = |&(item, _): &(u32, u8)| (0..3).map(move |output| logit(item, output));
        Rows {
            classes,
            class: shown.iter().flat_map(row).collect(),
            real: shown.iter().map(|&(n, _)| logit(n, 7) + real).collect(),
            fake_class: Vec::new(),
            sets: super::super::held_out::Sets::default(),
            labels: shown.iter().map(|&(_, label)| label).collect(),
            items: shown.iter().map(|&(item, _)| item).collect(),
        }
    }

    fn generated() -> Rows {
        let shown: Vec<(u32, u8)> = (0..2000).map(|item| (item, 0)).collect();
        Rows {
            labels: Vec::new(),
            ..rows(&shown, 0.0)
        }
    }

    /// Odds 2 and 1 leave (2 + 1)² / (2 · (4 + 1)) of two items; at even odds of 3 a half is seen where
    /// three quarters are predicted.
    #[test]
    fn a_way_is_known_by_what_its_odds_leave_and_how_right_they_are() {
        let made = Rows {
            real: vec![4.0_f32.ln(), 0.0],
            ..Rows::default()
        };
        let choice = Choice {
            chosen: Corrected {
                correction: Correction::None,
                temperature: 2.0,
            },
            tried: Vec::new(),
            held_out: [vec![3.0_f64.ln()], vec![3.0_f64.ln(); 5]],
        };
        let found = way_found(&choice, &made, 100.0);
        assert!((found.effective_share - 0.9).abs() < 1e-6, "{found:?}");
        assert!((found.reliability_error - 0.25).abs() < 1e-12, "{found:?}");
        // Odds are clipped: none may be more than the other here.
        let share = way_found(&choice, &made, 1.0).effective_share;
        assert!((share - 1.0).abs() < 1e-6, "{share}");
    }

    /// What is fitted to one half is reported on the other.
    #[test]
    fn a_way_is_fitted_to_the_first_half_and_judged_by_the_second() {
        let bundle = per_class();
        let shown: Vec<(u32, u8)> = (0..600).map(|item| (item, (item % 3) as u8)).collect();
        let found = |change: &dyn Fn(&mut Rows, &mut Rows)| {
            let (mut real, mut generated) = (rows(&shown, 0.5), generated());
            change(&mut real, &mut generated);
            let held_out = HeldOut {
                bundle: &bundle,
                real,
                generated,
                audited: None,
                others: Vec::new(),
            };
            let settings = CalibrationSettings::default();
            held_out.calibrate(&settings).unwrap().found
        };
        let fitted = |found: &Found| [found.way.effective_share, found.way.reliability_error];
        let judged = |found: &Found| [Some(found.real.auc), found.way.auc];
        let before = found(&|_, _| ());
        // Items are dealt in turn, the first one to the first half.
        let change = |rows: &mut Rows, first: usize, by: f32| {
            rows.real
                .iter_mut()
                .skip(first)
                .step_by(2)
                .for_each(|v| *v += by);
        };
        for part in [0, 1] {
            let of_real = found(&|real, _| change(real, part, 3.0));
            let of_generated = found(&|_, generated| change(generated, part, -3.0));
            for after in [of_real, of_generated] {
                assert_eq!(
                    fitted(&after) == fitted(&before),
                    part == 1,
                    "{:?}",
                    after.way
                );
                assert_eq!(judged(&after) == judged(&before), part == 0);
                let told = |found: &Found| found.likeness.as_ref().map(|l| l.before[0]);
                assert_eq!(told(&after) == told(&before), part == 0);
            }
        }
    }

    #[test]
    fn an_item_that_shows_two_excluded_labels_counts_once() {
        // 300 items, of which every third shows the label that is wanted and the others both excluded ones.
        let shown: Vec<(u32, u8)> = (0..300)
            .flat_map(|item| match item % 3 {
                0 => vec![(item, 0)],
                _ => vec![(item, 1), (item, 2)],
            })
            .collect();
        let bundle = per_class();
        let held_out = HeldOut {
            bundle: &bundle,
            real: rows(&shown, 0.5),
            generated: generated(),
            audited: None,
            others: Vec::new(),
        };
        let settings = CalibrationSettings {
            exclusion_error: Some(0.1),
            least_kept: 0.0,
            ..CalibrationSettings::default()
        };
        let found = held_out.calibrate(&settings).unwrap().found;
        let margin = &found.joint_classes["L0 - L1 - L2"].margin;
        // Half of 200 items: the ⌊0.1 · 101⌋-th smallest ratio.
        let Some(MarginFound::Promised { rank, items, .. }) = margin else {
            panic!("{margin:?}");
        };
        assert_eq!((*rank, *items), (10, 100));
    }

    /// Items that show one label each, of which no two ever hold together.
    #[test]
    fn a_combination_that_no_item_has_is_absent() {
        let shown: Vec<(u32, u8)> = (0..600).map(|item| (item, (item % 3) as u8)).collect();
        let apart = |mut rows: Rows| {
            for at in 0..rows.count() {
                let own = rows
                    .labels
                    .get(at)
                    .map_or(at % 3, |&label| usize::from(label));
                for label in 0..3 {
                    rows.class[at * 3 + label] = if label == own { 4.0 } else { -4.0 };
                }
            }
            rows
        };
        let bundle = exact::open(&linear::linear(3));
        let held_out = HeldOut {
            bundle: &bundle,
            real: apart(rows(&shown, 0.5)),
            generated: apart(generated()),
            audited: None,
            others: Vec::new(),
        };
        let calibrated = held_out.calibrate(&CalibrationSettings::default()).unwrap();
        let presence = |query: &str| {
            let joint = &calibrated.found.joint_classes[query];
            joint.presence.clone().unwrap()
        };
        for query in ["L0 - L1 - L2", "L1 - L0 - L2", "L2 - L0 - L1"] {
            let found = presence(query);
            assert_eq!((found.verdict.as_str(), found.items), ("present", 600));
            assert_eq!(found.reached, 200, "{query}");
        }
        for query in ["L0 + L1 - L2", "L0 + L1 + L2"] {
            let found = presence(query);
            assert_eq!((found.verdict.as_str(), found.reached), ("absent", 0));
            assert!((found.upper_limit - 20.0_f64.ln() / 600.0).abs() < 1e-12);
            assert_eq!(found.floor, 0.5, "it has no floor of its own");
        }
        let kept = calibrated.entry.presence.unwrap();
        assert_eq!((kept.items, kept.classes.len()), (600, 7));
        assert_eq!(kept.classes["L0 + L1 - L2"], (0.5, 0, 0.0));
        let warned = |text: &str| calibrated.found.warnings.iter().any(|w| w.contains(text));
        assert!(
            warned("the data may hold no item of L0 + L1 + L2; L0 + L1 - L2;"),
            "{:?}",
            calibrated.found.warnings
        );
    }

    fn item(weight: f64, posterior: f64) -> purity::Item {
        purity::Item {
            log_weight: weight.ln(),
            log_posterior: posterior.ln(),
            predicted: posterior,
        }
    }

    #[test]
    fn a_floor_is_what_purity_asks_for_unless_it_costs_too_much() {
        let settings = CalibrationSettings {
            purity: 0.9,
            least_kept: 0.5,
            ..CalibrationSettings::default()
        };
        // Without the third item the mean posterior is 0.95.
        let items = [item(1.0, 0.9), item(1.0, 1.0), item(1.0, 0.2)];
        assert!((floor_for(&items, &settings) - 0.9).abs() < 1e-9);
        // Only one in four items reaches the purity; keeping half of them asks for a lower floor.
        let items = [
            item(1.0, 0.95),
            item(1.0, 0.6),
            item(1.0, 0.5),
            item(1.0, 0.5),
        ];
        let floor = floor_for(&items, &settings);
        assert!(floor > 0.5 && floor <= 0.6, "{floor}");
        // Nothing here is more likely right than wrong: half of the items would ask for 0.3.
        let items = [
            item(1.0, 0.4),
            item(1.0, 0.3),
            item(1.0, 0.2),
            item(1.0, 0.1),
        ];
        assert_eq!(floor_for(&items, &settings), 0.5);
        assert_eq!(floor_for(&[item(1.0, 0.95)], &settings), 0.0);
    }

    #[test]
    fn sureness_is_the_mean_of_probabilities() {
        let found = sureness(&[0.0, 0.0, 3.0_f32.ln(), 0.0], 2, 1.0);
        assert!((found.mean_largest_probability - 0.625).abs() < 1e-7);
        assert!((found.mean_probability[0] - 0.625).abs() < 1e-7);
    }

    #[test]
    fn estimates_keep_the_total_of_what_they_replace() {
        let entry = |model| LabellingEntry {
            model,
            weights: vec![1.0, 1.0, 5.0],
            observed: vec![0.4, 0.4, 0.2],
        };
        let log = [Some(3.0_f64.ln()), Some(0.0), None];
        let one_of = estimated_weights(&entry(LabellingModel::OneOf), &log);
        assert!((one_of[0].unwrap() - 1.5).abs() < 1e-12);
        assert!((one_of[1].unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(one_of[2], None);
        // Shown three times as readily for its prior: its prior is a third.
        let per_class = estimated_weights(&entry(LabellingModel::PerClass), &log);
        assert!((per_class[0].unwrap() - 0.5).abs() < 1e-12);
    }
}
