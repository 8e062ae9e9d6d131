//! Classifier outputs to one log weight.
//!
//! ```text
//! log w(x) = log r_Q(x) + logit D_v(x) − log Σ_c h_c·D_f(c|x)/p_G(c) + log p_z(z) − log p̃_z(z)
//! ```
//!
//! The third term is there for conditional generators only, the fourth for adapted latents only.
//! `-∞` means outside the support. No epsilon anywhere: a constant added to every log weight must
//! not change a sample.

mod slope;

use std::sync::Arc;

use crate::calibration::correction::Correction;
use crate::calibration::isotonic::Curve;
use crate::density::{Labelling, Levels};
use crate::error::Error;
use crate::joint::{LabelSets, SetLogits, SetPosterior};
use crate::labels::LabelSet;
pub use crate::logits::LogitError;
use crate::posterior::{ItemPosterior, PosteriorKind};
use crate::query::Query;
use crate::setting::Setting;

/// What the classifiers say about one generated item.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// Logits of `D_r`, the class of real items.
    pub class_logits: &'a [f32],
    /// Logit of `D_v`, real against generated.
    pub real_logit: f32,
    /// Logits of `D_f`, the class of generated items; conditional generators only.
    pub fake_class_logits: Option<&'a [f32]>,
    /// Logits of label sets; bundles with a joint head only.
    pub joint: Option<SetLogits<'a>>,
    /// `log p_z(z) − log p̃_z(z)`; zero without latent adaptation.
    pub log_latent_ratio: f64,
}

/// One temperature for all queries, or one per number of excluded labels (the paper's hand setting).
#[derive(Debug, Clone, PartialEq)]
pub enum Temperature {
    /// The same for every query.
    Same(f64),
    /// Entry `j` for queries that exclude `j` labels; plain queries only.
    ByExcluded(Vec<f64>),
}

impl Temperature {
    /// The temperature for one query.
    pub fn at(&self, query: &Query) -> Result<f64, Error> {
        match self {
            Self::Same(value) => Ok(*value),
            Self::ByExcluded(values) => {
                let (_, absent) = query.conjunction().ok_or_else(|| {
                    Error::setting(format!(
                        "the temperatures are given by number of excluded labels, and `{}` is not a plain \"all of these, none of those\"\nhint: give one temperature with {}",
                        query.text(),
                        Setting("class_temperature")
                    ))
                })?;
                let excluded = absent.len();
                let last = values.len().saturating_sub(1);
                let found = values.get(excluded).copied();
                found.ok_or_else(|| {
                    Error::setting(format!(
                        "the query excludes {excluded} labels; temperatures are given for 0 to {last}"
                    ))
                })
            }
        }
    }
}

/// Temperatures that keep every logit and weight finite.
const TEMPERATURES: std::ops::RangeInclusive<f64> = 1e-6..=1e9;

/// Calibration of the three classifiers; the default changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Temperature of `D_r`.
    pub class: Temperature,
    /// Temperature of `D_f`.
    pub fake_class: Temperature,
    /// Temperature of `D_v`, after its correction.
    pub real: f64,
    /// From `D_v`'s logit to log odds.
    pub correction: Correction,
    /// Odds of `D_v` are kept in `[1/clip, clip]`; infinite for no clip.
    pub odds_clip: f64,
    /// Odds of `D_v` above this count as this; infinite for no cap.
    pub odds_cap: f64,
    /// The exclusion margin `g`, in `(0, 1]`.
    pub margin: f64,
    /// Items with `P(Q|x)` under this floor get no weight.
    pub floor: f64,
    /// From `P(Q|x)` to the share of right items that an audit measured; changes predictions alone.
    pub audit: Option<Curve>,
    /// From `P(Q|x)` to its mean by networks that had no part in selecting; changes predictions alone, and
    /// an audit goes before it.
    pub ensemble: Option<Curve>,
    /// Outputs of label sets, where these are what weighs; levels of the class head otherwise.
    pub joint: Option<JointCalibration>,
}

/// The joint head: its sets and its temperature.
#[derive(Debug, Clone, PartialEq)]
pub struct JointCalibration {
    /// What the outputs stand for.
    pub sets: Arc<LabelSets>,
    /// What their logits are divided by.
    pub temperature: f64,
}

impl Default for Calibration {
    fn default() -> Self {
        Self {
            class: Temperature::Same(1.0),
            fake_class: Temperature::Same(1.0),
            real: 1.0,
            correction: Correction::None,
            odds_clip: f64::INFINITY,
            odds_cap: f64::INFINITY,
            margin: 1.0,
            floor: 0.0,
            audit: None,
            ensemble: None,
            joint: None,
        }
    }
}

/// Everything that turns evidence into a log weight for one query.
#[derive(Debug, Clone)]
pub struct Weighting {
    query: Query,
    labelling: Labelling,
    class_temperature: f64,
    fake_temperature: f64,
    real_temperature: f64,
    correction: Correction,
    log_odds_clip: f64,
    log_odds_cap: f64,
    log_margin: f64,
    log_floor: f64,
    audit: Option<Curve>,
    ensemble: Option<Curve>,
    joint: Option<JointCalibration>,
    /// `h_c / p_G(c)` per class; empty for an unconditional generator.
    mixture: Vec<f64>,
}

/// How one log weight came about, for people who ask.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// `D_r` after its temperature.
    pub class: Vec<f64>,
    /// `log f` of each label.
    pub log_level: Vec<f64>,
    /// Which posterior `sets` and all that follows come from.
    pub kind: PosteriorKind,
    /// The label sets that the item can have, whether the query holds there, log density.
    pub sets: Vec<(LabelSet, bool, f64)>,
    /// `log r_Q`, after the margin.
    pub log_density: f64,
    /// `P(Q|x)`, before the margin.
    pub posterior: f64,
    /// The same, corrected by an audit or by other networks where there is one or the other.
    pub predicted: f64,
    /// Whether the posterior lies under the floor.
    pub under_floor: bool,
    /// Log odds of `D_v` after temperature and clip.
    pub log_odds: f64,
    /// The conditional term that is subtracted; zero for an unconditional generator.
    pub log_conditional: f64,
    /// The sum of it all.
    pub log_weight: f64,
}

impl Weighting {
    /// A weighting without calibration, for an unconditional generator.
    pub fn new(query: Query, labelling: Labelling) -> Result<Self, Error> {
        Self::calibrated(query, labelling, &Calibration::default())
    }

    /// A weighting for an unconditional generator.
    pub fn calibrated(
        query: Query,
        labelling: Labelling,
        calibration: &Calibration,
    ) -> Result<Self, Error> {
        let (of_query, of_labelling) = (query.label_count(), labelling.label_count());
        if of_query != of_labelling {
            return Err(Error::mismatch(format!(
                "the query has {of_query} labels and the labelling {of_labelling}"
            )));
        }
        let class = calibration.class.at(&query)?;
        let fake_class = calibration.fake_class.at(&query)?;
        let positive = "between 0.000001 and 1000000000";
        within("the temperature of the class head", class, positive, |v| {
            TEMPERATURES.contains(&v)
        })?;
        within(
            "the temperature of the fake-class head",
            fake_class,
            positive,
            |v| TEMPERATURES.contains(&v),
        )?;
        within(
            "the temperature of the discriminator",
            calibration.real,
            positive,
            |v| TEMPERATURES.contains(&v),
        )?;
        if let Some(joint) = &calibration.joint {
            let name = "the temperature of the joint head";
            within(name, joint.temperature, positive, |v| {
                TEMPERATURES.contains(&v)
            })?;
            if joint.sets.labels() != of_query {
                return Err(Error::mismatch(format!(
                    "the query has {of_query} labels and the labelling {}",
                    joint.sets.labels()
                )));
            }
            if calibration.margin != 1.0 {
                return Err(Error::setting(format!(
                    "an exclusion margin is for the posterior by levels\nhint: {}",
                    Setting("posterior").to("levels")
                )));
            }
        }
        within("the odds clip", calibration.odds_clip, "at least 1", |v| {
            v >= 1.0
        })?;
        within("the odds cap", calibration.odds_cap, "above 0", |v| v > 0.0)?;
        within(
            "the margin",
            calibration.margin,
            "above 0 and at most 1",
            |v| v > 0.0 && v <= 1.0,
        )?;
        within(
            "the posterior floor",
            calibration.floor,
            "at least 0 and below 1",
            |v| (0.0..1.0).contains(&v),
        )?;
        Ok(Self {
            query,
            labelling,
            class_temperature: class,
            fake_temperature: fake_class,
            real_temperature: calibration.real,
            correction: calibration.correction.clone(),
            log_odds_clip: calibration.odds_clip.ln(),
            log_odds_cap: calibration.odds_cap.ln(),
            log_margin: calibration.margin.ln(),
            log_floor: calibration.floor.ln(),
            audit: calibration.audit.clone(),
            ensemble: calibration.ensemble.clone(),
            joint: calibration.joint.clone(),
            mixture: Vec::new(),
        })
    }

    /// For a conditional generator: proposals come from class `c` with probability `shares[c]`,
    /// and `priors[c]` is `p_G(c)` as when `D_f` was trained.
    pub fn with_classes(mut self, shares: &[f64], priors: &[f64]) -> Result<Self, Error> {
        let used: LabelSet = (0..shares.len()).filter(|&c| shares[c] > 0.0).collect();
        let covered = self
            .query
            .covers()
            .iter()
            .any(|cover| cover.bits() & !used.bits() == 0);
        let everything = used.len() == self.query.label_count();
        if !(covered || everything) || shares.len() != priors.len() {
            return Err(Error::setting(
                "the classes to generate do not meet every label set of the query",
            ));
        }
        self.mixture = shares.iter().zip(priors).map(|(h, p)| h / p).collect();
        Ok(self)
    }

    /// The query that is weighed.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// Which posterior weighs items.
    pub fn kind(&self) -> PosteriorKind {
        match self.joint {
            Some(_) => PosteriorKind::Joint,
            None => PosteriorKind::Levels,
        }
    }

    /// The exclusion margin.
    pub fn margin(&self) -> f64 {
        self.log_margin.exp()
    }

    /// The floor on `P(Q|x)`.
    pub fn floor(&self) -> f64 {
        self.log_floor.exp()
    }

    /// The same weighting with another floor on `P(Q|x)`, given as a logarithm.
    #[must_use]
    pub fn with_log_floor(mut self, log_floor: f64) -> Self {
        self.log_floor = log_floor;
        self
    }

    /// The log weight of one item; `-∞` outside the support, never NaN.
    pub fn log_weight(&self, evidence: Evidence<'_>) -> Result<f64, LogitError> {
        let posterior = self.item_posterior(evidence)?;
        let log_density = posterior.log_density(&self.query, self.log_margin);
        if log_density == f64::NEG_INFINITY || self.is_under_floor(&posterior) {
            return Ok(f64::NEG_INFINITY);
        }
        Ok(
            log_density + self.log_odds(&evidence) - self.log_conditional(&evidence)
                + evidence.log_latent_ratio,
        )
    }

    /// Log odds of `D_v` as they were corrected, neither tempered nor clipped, weighted back to the generator's own
    /// items.
    ///
    /// Where `D_v` is right the mean of these odds over proposals is the share of the data that the generator
    /// can make at all, since `E_g[p_data/p_g]` leaves out only what `p_g` never makes.
    pub fn log_plain_odds(&self, evidence: Evidence<'_>) -> Result<f64, LogitError> {
        self.check(&evidence)?;
        let log_odds = self.correction.log_odds(f64::from(evidence.real_logit));
        Ok(log_odds - self.log_conditional(&evidence) + evidence.log_latent_ratio)
    }

    /// How near an item is to the query: finite outside its support too, and largest inside.
    ///
    /// Every label is taken for present with probability `f_i / (f_i + max_{j≠i} f_j)`, independently of
    /// the others; this is the log probability that the query then holds. It leads a search to a
    /// support that no proposal has met yet, and is no part of any weight.
    pub fn log_nearness(&self, evidence: Evidence<'_>) -> Result<f64, LogitError> {
        let log_class_norm = self.check(&evidence)?;
        let levels = self.levels(&evidence, log_class_norm);
        let level = |label: usize| levels.log_level(label);
        let labels = 0..self.query.label_count();
        let highest = |but: usize| {
            let others = labels.clone().filter(|&other| other != but).map(level);
            others.fold(f64::NEG_INFINITY, f64::max)
        };
        let (log_present, log_absent): (Vec<f64>, Vec<f64>) = labels
            .clone()
            .map(|label| {
                let (own, other) = (level(label), highest(label));
                let both = crate::log_sum_exp([own, other].into_iter());
                (own - both, other - both)
            })
            .unzip();
        Ok(self.query.log_probability(&log_present, &log_absent))
    }

    /// The label sets of one item, for posteriors of the query and of labels.
    pub fn item_posterior(&self, evidence: Evidence<'_>) -> Result<ItemPosterior<'_>, LogitError> {
        let log_class_norm = self.check(&evidence)?;
        let levels = || self.levels(&evidence, log_class_norm);
        let Some(JointCalibration { sets, temperature }) = &self.joint else {
            return Ok(ItemPosterior::Levels(levels()));
        };
        let logits = evidence.joint.ok_or(LogitError {
            output: "joint head",
            value: f32::NAN,
        })?;
        Ok(ItemPosterior::Sets(SetPosterior::new(
            sets,
            &self.labelling,
            logits,
            *temperature,
            levels,
        )))
    }

    /// `P(Q|x)` as the network says it.
    pub fn plain(&self, item: &ItemPosterior<'_>) -> f64 {
        item.log_posterior(&self.query).exp()
    }

    /// The probability that such an item is right: its posterior, corrected by an audit or by other networks.
    pub fn predicted(&self, item: &ItemPosterior<'_>) -> f64 {
        let posterior = self.plain(item);
        let curve = self.audit.as_ref().or(self.ensemble.as_ref());
        curve.map_or(posterior, |curve| curve.at(posterior))
    }

    /// Every step from the evidence to the log weight.
    pub fn explain(&self, evidence: Evidence<'_>) -> Result<Explanation, LogitError> {
        let item = self.item_posterior(evidence)?;
        let log_norm = self.check(&evidence)?;
        let levels = self.levels(&evidence, log_norm);
        let class = |l: &f32| (f64::from(*l) / self.class_temperature - log_norm).exp();
        Ok(Explanation {
            class: evidence.class_logits.iter().map(class).collect(),
            log_level: (0..self.query.label_count())
                .map(|l| levels.log_level(l))
                .collect(),
            kind: self.kind(),
            sets: item
                .sets()
                .into_iter()
                .map(|(set, d)| (set, self.query.holds(set), d))
                .collect(),
            log_density: item.log_density(&self.query, self.log_margin),
            posterior: self.plain(&item),
            predicted: self.predicted(&item),
            under_floor: self.is_under_floor(&item),
            log_odds: self.log_odds(&evidence),
            log_conditional: self.log_conditional(&evidence),
            log_weight: self.log_weight(evidence)?,
        })
    }

    /// Refuses what is not a number; gives the log normaliser of `D_r`.
    fn check(&self, evidence: &Evidence<'_>) -> Result<f64, LogitError> {
        let finite = |output: &'static str, value: f32| {
            if value.is_finite() {
                Ok(())
            } else {
                Err(LogitError { output, value })
            }
        };
        finite("discriminator", evidence.real_logit)?;
        evidence
            .class_logits
            .iter()
            .try_for_each(|&l| finite("class head", l))?;
        for &logit in evidence.fake_class_logits.unwrap_or_default() {
            finite("fake-class head", logit)?;
        }
        if let (Some(_), Some(logits)) = (&self.joint, evidence.joint)
            && let Some(value) = logits.fault()
        {
            return Err(LogitError {
                output: "joint head",
                value,
            });
        }
        Ok(log_norm(evidence.class_logits, self.class_temperature))
    }

    fn levels(&self, evidence: &Evidence<'_>, log_norm: f64) -> Levels<'_> {
        let log_class = |l: &f32| f64::from(*l) / self.class_temperature - log_norm;
        Levels::new(&self.labelling, evidence.class_logits.iter().map(log_class))
    }

    fn is_under_floor(&self, item: &ItemPosterior<'_>) -> bool {
        self.log_floor > f64::NEG_INFINITY && item.log_posterior(&self.query) < self.log_floor
    }

    fn log_odds(&self, evidence: &Evidence<'_>) -> f64 {
        let log_odds = self.correction.log_odds(f64::from(evidence.real_logit));
        let tempered = log_odds / self.real_temperature;
        let clipped = tempered.clamp(-self.log_odds_clip, self.log_odds_clip);
        clipped.min(self.log_odds_cap)
    }

    fn log_conditional(&self, evidence: &Evidence<'_>) -> f64 {
        let (Some(logits), false) = (evidence.fake_class_logits, self.mixture.is_empty()) else {
            return 0.0;
        };
        let log_norm = log_norm(logits, self.fake_temperature);
        // In log space throughout: D_f of a class may be far below the smallest double.
        let terms = logits.iter().zip(&self.mixture).map(|(&logit, ratio)| {
            ratio.ln() + f64::from(logit) / self.fake_temperature - log_norm
        });
        crate::log_sum_exp(terms)
    }
}

fn within(
    name: &'static str,
    value: f64,
    wanted: &'static str,
    fits: impl Fn(f64) -> bool,
) -> Result<(), Error> {
    if fits(value) {
        Ok(())
    } else {
        Err(Error::value(format!(
            "{name} is {value}; it must be {wanted}"
        )))
    }
}

/// `log Σ exp(logit / temperature)`.
fn log_norm(logits: &[f32], temperature: f64) -> f64 {
    crate::log_sum_exp(logits.iter().map(|&l| f64::from(l) / temperature))
}

#[cfg(test)]
mod tests;
