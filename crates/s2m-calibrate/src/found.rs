//! What calibration found; `calibration.json` of a bundle holds exactly this.

use std::collections::BTreeMap;
use std::path::Path;

use s2m_core::calibration::temperature::TemperatureFit;
use s2m_core::calibration::{audit, classes, reliability, sureness};
use s2m_model::disk::read_plain_text;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The report inside a bundle, for programs and for people.
pub const REPORT: &str = "calibration.json";
/// See [`REPORT`].
pub const PAGE: &str = "calibration.html";

/// Everything that led to a calibration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Name of the bundle.
    pub model: String,
    /// Held-out real items, each with a label that it shows; half of them for margins and for what is reported.
    pub held_out_real: usize,
    /// Fresh generated items.
    pub generated: usize,
    /// Temperature of the class head.
    pub class: Fit,
    /// Temperature of the class head for generated items; conditional generators only.
    pub fake_class: Option<Fit>,
    /// Temperature of the joint head, by the labels that held-out items show; bundles with one only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joint: Option<Fit>,
    /// What networks that had no part in selecting say about generated items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ensemble: Option<EnsembleFound>,
    /// How the class head did on held-out items, after its temperature.
    pub class_reliability: Reliability,
    /// How sure it is on held-out real items, and on generated ones.
    pub class_on_real: Sureness,
    /// See `class_on_real`.
    pub class_on_generated: Sureness,
    /// The discriminator.
    pub real: RealFound,
    /// What witnesses tell of the weights; left out by versions that asked none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likeness: Option<LikenessFound>,
    /// What a discriminator variant is chosen by.
    pub way: WayFound,
    /// The same of every way that was tried; empty where one was asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ways: BTreeMap<String, WayFound>,
    /// Weights of the labels, as stated and as estimated.
    pub label_weights: LabelWeights,
    /// Every joint class, by its query.
    pub joint_classes: BTreeMap<String, JointClass>,
    /// What a set of fully labelled items says.
    pub audit: Option<AuditFound>,
    /// What to know.
    pub warnings: Vec<String>,
}

impl Found {
    /// The report in a bundle's folder.
    pub fn read(bundle: &Path) -> Result<Self, Error> {
        let path = bundle.join(REPORT);
        let fail = |reason: String| Error::Read {
            path: path.clone(),
            reason,
        };
        let text = read_plain_text(&path).map_err(|e| fail(e.to_string()))?;
        serde_json::from_str(&text).map_err(|e| fail(e.to_string()))
    }
}

/// A temperature and what it changed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The temperature.
    pub temperature: f64,
    /// Loss at temperature 1.
    pub nll_before: f64,
    /// Loss at this temperature.
    pub nll_after: f64,
    /// Items behind it.
    pub items: usize,
    /// No temperature within the limits is best.
    pub at_limit: bool,
}

impl From<&TemperatureFit> for Fit {
    fn from(fit: &TemperatureFit) -> Self {
        Self {
            temperature: fit.temperature,
            nll_before: fit.nll_before,
            nll_after: fit.nll_after,
            items: fit.items,
            at_limit: fit.at_limit,
        }
    }
}

/// The discriminator: how it was corrected, and how well it does on items that had no part in that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RealFound {
    /// `temperature`, `platt` or `isotonic`.
    pub correction: String,
    /// How each of them did on items that it was not fitted to: loss, excess over the least one and
    /// its standard error.
    pub tried: BTreeMap<String, [f64; 3]>,
    /// Temperature by likelihood, after the correction.
    pub by_likelihood: f64,
    /// Odds above this count as this; none for no cap.
    #[serde(default)]
    pub cap: Option<f64>,
    /// Largest odds.
    pub odds_clip: f64,
    /// Probability that a real item has the larger logit.
    pub auc: f64,
    /// How much nearer the weights, as used, bring generated items to real ones: the mean log weight
    /// of real items less the log of the mean weight of generated ones, which is the KL distance from
    /// real items that they take away.
    pub gain: f64,
    /// As the network gives it.
    pub before: Reliability,
    /// Corrected, at the temperature by likelihood.
    pub after: Reliability,
}

/// How well discriminators, as witnesses, separate held-out real items from generated ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LikenessFound {
    /// Discriminators that were used: its own, and those of other variants.
    pub witnesses: usize,
    /// `Σ |AUC − ½|` without weights, and its standard error.
    pub before: [f64; 2],
    /// The same with the weights as they are used.
    pub after: [f64; 2],
    /// Whether that is more than chance explains.
    pub still_tell: bool,
    /// Share of generated items that rejection accepts by the odds alone, at a distance of 0.01: its inverse is
    /// how many times the calls the discriminator costs.
    pub accepted_share: f64,
    /// Why the cap is not higher.
    pub stopped: String,
    /// Effective shares that were looked at, and the sum at each.
    pub path: Vec<[f64; 2]>,
}

/// How corrected odds of the discriminator do before they are capped, on the first half of the items, and
/// what witnesses say about them on the second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WayFound {
    /// Effective share of generated items that they leave.
    pub effective_share: f64,
    /// Mean distance of predicted and seen shares of real items, each item by a correction that was not
    /// fitted to it.
    pub reliability_error: f64,
    /// Probability that a real item has the larger logit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auc: Option<f64>,
    /// `Σ |AUC − ½|` over all witnesses: without weights, and with its weights capped to the accepted
    /// share at which ways are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witnesses: Option<[f64; 2]>,
    /// Share of generated items outside the data, `E[(1 − odds)⁺]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<f64>,
}

/// Posteriors by networks that had no part in selecting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnsembleFound {
    /// Networks.
    pub members: usize,
    /// Temperature of their mean logits.
    pub temperature: f64,
    /// From the posterior by the network that selects to theirs together, on generated items.
    pub curve: Vec<[f64; 2]>,
}

/// Predicted against seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reliability {
    /// The curve.
    pub curve: Vec<Bin>,
    /// Mean distance of prediction and truth over the bins.
    pub error: f64,
}

/// Items with about the same predicted probability.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Share of all items.
    pub weight: f64,
    /// Mean prediction.
    pub predicted: f64,
    /// Share of items for which it was so.
    pub seen: f64,
}

impl From<reliability::Reliability> for Reliability {
    fn from(found: reliability::Reliability) -> Self {
        let bin = |bin: reliability::Bin| Bin {
            weight: bin.weight,
            predicted: bin.predicted,
            seen: bin.seen,
        };
        Self {
            curve: found.curve.into_iter().map(bin).collect(),
            error: found.error,
        }
    }
}

/// How sure the class head is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sureness {
    /// Mean of the largest probability.
    pub mean_largest_probability: f64,
    /// Mean probability of each label.
    pub mean_probability: Vec<f64>,
}

impl From<sureness::Sureness> for Sureness {
    fn from(found: sureness::Sureness) -> Self {
        Self {
            mean_largest_probability: found.mean_largest_probability,
            mean_probability: found.mean_probability,
        }
    }
}

/// Weights of the labels (`one-of`) or class priors (`per-class`), as bundles state them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabelWeights {
    /// As stated, with mean 1.
    pub stated: Vec<f64>,
    /// From items that carry two labels at once, with the mean of the stated ones; null where no such
    /// items join a label to the others.
    pub estimated: Vec<Option<f64>>,
    /// Whether the estimate is what the bundle says now.
    pub used: bool,
    /// The pairs of labels behind the estimate.
    pub pairs: Vec<LabelPair>,
}

/// Two labels that enough items carry at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabelPair {
    /// Their names.
    pub labels: [String; 2],
    /// How many times as readily the first is shown.
    pub ratio: f64,
    /// Standard error of the logarithm of that.
    pub standard_error: f64,
    /// Items behind it.
    pub items: usize,
}

/// One joint class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JointClass {
    /// Generated items with weight.
    pub supported: usize,
    /// Its exclusion margin; left out where none was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<MarginFound>,
    /// Effective share of generated items: without the discriminator, by its likelihood, and as used;
    /// null where too few items have weight.
    pub effective_share: Option<Shares>,
    /// The floor on its posterior.
    pub floor: f64,
    /// What is predicted without the floor and with it.
    pub without_floor: Option<Prediction>,
    /// See `without_floor`.
    pub with_floor: Option<Prediction>,
    /// Whether the data holds such items; left out where it was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presence: Option<PresenceFound>,
}

/// How many held-out real items have a posterior of a joint class that reaches a floor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PresenceFound {
    /// `present`, `undecided` or `absent`.
    pub verdict: String,
    /// The floor that this goes by.
    pub floor: f64,
    /// Held-out real items.
    pub items: usize,
    /// Those that reach the floor.
    pub reached: usize,
    /// How many of these errors explain.
    pub explained: f64,
    /// Upper limit on the share of items that reach it, right in 95 of 100 cases.
    pub upper_limit: f64,
    /// Floors, and how many items reach each.
    pub reached_at: Vec<(f64, usize)>,
}

/// An exclusion margin, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarginFound {
    /// A new real item that shows an excluded label gets weight with at most this probability.
    Promised {
        /// The margin.
        margin: f64,
        /// The probability, `rank / (items + 1)`.
        exclusion_error: f64,
        /// Which of the sorted ratios it is.
        rank: usize,
        /// Held-out items that show an excluded label.
        items: usize,
    },
    /// There is none.
    None(String),
}

/// Effective shares of generated items.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// Without the discriminator.
    pub without_real: f64,
    /// With its odds as likelihood has them.
    pub by_likelihood: f64,
    /// With it as used.
    pub used: f64,
}

impl From<classes::Shares> for Shares {
    fn from(shares: classes::Shares) -> Self {
        Self {
            without_real: shares.without_real,
            by_likelihood: shares.uncapped,
            used: shares.used,
        }
    }
}

/// What is predicted for samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Share of right items.
    pub predicted_purity: f64,
    /// Effective share of generated items.
    pub effective_share: f64,
}

/// What fully labelled items say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditFound {
    /// Items.
    pub items: usize,
    /// From predicted posteriors to the share of right items, as corners of a rising curve.
    pub curve: Vec<[f64; 2]>,
    /// Predicted against seen, over all joint classes, before the correction.
    pub reliability: Reliability,
    /// Every joint class that some item gets weight for.
    pub joint_classes: BTreeMap<String, Contamination>,
}

/// Audited items that get weight for a joint class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Contamination {
    /// How many.
    pub items: usize,
    /// Share of their weight on wrong items, as posteriors predict it.
    pub predicted: f64,
    /// The same, measured.
    pub measured: f64,
    /// Standard error of what was measured.
    pub standard_error: f64,
}

impl From<audit::Contamination> for Contamination {
    fn from(found: audit::Contamination) -> Self {
        Self {
            items: found.items,
            predicted: found.predicted,
            measured: found.measured,
            standard_error: found.standard_error,
        }
    }
}
