//! `model.toml`: what a bundle says about itself. A misspelt key is an error that names the key.

use std::collections::BTreeMap;
use std::fmt;

use s2m_core::Error;
use s2m_core::calibration::correction::Correction;
use s2m_core::calibration::isotonic::Curve;
use s2m_core::density::Labelling;
use s2m_core::joint::LabelSets;
use s2m_core::labels::LabelSet;
use s2m_core::weight::Temperature;
use serde::{Deserialize, Serialize};

use crate::onnx;
use crate::presence::PresenceEntry;

/// The version of the bundle format that this program reads and writes.
pub const FORMAT: u32 = 1;

/// The whole of `model.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this format.
    pub format: u32,
    /// Name of the bundle.
    pub name: String,
    /// Label names, in the order of the classifier's outputs.
    pub labels: Vec<String>,
    /// What each label means, in words.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub describe: BTreeMap<String, String>,
    /// How the labels came about.
    pub labelling: LabellingEntry,
    /// The generator.
    pub generator: GeneratorEntry,
    /// The classifier.
    pub classifier: ClassifierEntry,
    /// Temperatures, clip, margin and floor.
    #[serde(default)]
    pub calibration: CalibrationEntry,
    /// The calibration of the posterior by levels, where that of `calibration` is the joint one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<CalibrationEntry>,
    /// The paper's own settings for this data, used by `--calibration paper`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<CalibrationEntry>,
    /// SHA-256 of every file of weights outside the ONNX files, by its path in the bundle; checked for
    /// those that are listed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub external: BTreeMap<String, String>,
    /// Where the networks come from.
    #[serde(default)]
    pub provenance: Provenance,
}

impl Manifest {
    /// A bundle of points: as many normal latents as numbers of a point, labels picked evenly out of those
    /// that hold, outputs `class_logits` and `real_logit`.
    pub fn of_points(name: &str, labels: Vec<String>, size: usize) -> Self {
        let count = labels.len();
        let point = ItemEntry {
            name: "x".to_owned(),
            layout: None,
            shape: vec![size],
            range: None,
            bits: None,
        };
        Self {
            format: FORMAT,
            name: name.to_owned(),
            labels,
            describe: BTreeMap::new(),
            labelling: LabellingEntry {
                model: LabellingModel::OneOf,
                weights: vec![1.0; count],
                observed: vec![1.0 / count as f64; count],
            },
            generator: GeneratorEntry {
                file: "generator.onnx".to_owned(),
                sha256: String::new(),
                latents: vec![LatentEntry {
                    input: "z".to_owned(),
                    shape: vec![size],
                    prior: Prior::Normal,
                }],
                class: None,
                output: point.clone(),
            },
            classifier: ClassifierEntry {
                file: "classifier.onnx".to_owned(),
                sha256: String::new(),
                input: point,
                outputs: OutputsEntry {
                    class: "class_logits".to_owned(),
                    real: "real_logit".to_owned(),
                    fake_class: None,
                },
                joint: None,
            },
            calibration: CalibrationEntry::default(),
            levels: None,
            paper: None,
            external: BTreeMap::new(),
            provenance: Provenance::default(),
        }
    }
}

/// How the single positive labels came about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabellingEntry {
    /// Which rule.
    pub model: LabellingModel,
    /// `one-of`: the weights `a_c`; `per-class`: the class priors.
    pub weights: Vec<f64>,
    /// `p_data(c)` in the training data.
    pub observed: Vec<f64>,
}

/// The rule behind the labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabellingModel {
    /// Each item shows one label drawn from its set.
    OneOf,
    /// Items were drawn for each label.
    PerClass,
}

impl LabellingEntry {
    /// The checked form that densities use.
    pub fn labelling(&self, labels: usize) -> Result<Labelling, Error> {
        let length = |list: &str, values: &[f64]| match values.len() {
            found if found == labels => Ok(()),
            found => Err(Error::mismatch(format!(
                "labelling.{list} has {found} entries for {labels} labels"
            ))),
        };
        length("weights", &self.weights)?;
        length("observed", &self.observed)?;
        let sum: f64 = self.observed.iter().sum();
        // Shares come with a few printed digits.
        if sum.is_finite() && (sum - 1.0).abs() > 1e-3 {
            return Err(Error::value(format!(
                "labelling.observed sums to {sum}, not to 1\nhint: give each label's share of the training items; every item shows one label"
            )));
        }
        match self.model {
            LabellingModel::OneOf => Labelling::one_of(&self.weights),
            LabellingModel::PerClass => Labelling::per_class(&self.weights, &self.observed),
        }
    }
}

/// The generator's file and what goes in and out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeneratorEntry {
    /// File inside the bundle.
    pub file: String,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// Noise inputs.
    pub latents: Vec<LatentEntry>,
    /// Class input; conditional generators only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ClassEntry>,
    /// The generated item.
    pub output: ItemEntry,
}

/// One noise input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatentEntry {
    /// Name of the graph input.
    pub input: String,
    /// Shape of one latent, without the batch.
    pub shape: Vec<usize>,
    /// Its distribution.
    pub prior: Prior,
}

impl LatentEntry {
    /// Numbers in one latent.
    pub fn size(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Distribution of a latent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prior {
    /// Standard normal.
    Normal,
    /// Uniform on (−1, 1).
    Uniform,
}

/// The class input of a conditional generator; classes are the bundle's labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassEntry {
    /// Name of the graph input.
    pub input: String,
    /// How a class is given.
    pub form: ClassForm,
    /// `p_G(c)` as when the classifier was trained.
    pub prior: Vec<f64>,
}

/// How a class is given to the generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassForm {
    /// One 64-bit integer per item.
    Index,
    /// One row of zeros with a single one per item.
    OneHot,
}

/// One item as a tensor: a picture or a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemEntry {
    /// Name of the graph input or output.
    pub name: String,
    /// Order of the axes; left out for points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<LayoutName>,
    /// Shape of one item, in the layout's order, without the batch.
    pub shape: Vec<usize>,
    /// Lowest and highest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// Bits per channel of a written picture; generator output only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<u8>,
}

/// Order of a picture's axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LayoutName {
    /// Channels, height, width.
    #[serde(rename = "NCHW")]
    Nchw,
    /// Height, width, channels.
    #[serde(rename = "NHWC")]
    Nhwc,
}

impl fmt::Display for LayoutName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nchw => "NCHW",
            Self::Nhwc => "NHWC",
        })
    }
}

impl ItemEntry {
    /// Whether items are pictures rather than points.
    pub fn is_picture(&self) -> bool {
        self.layout.is_some()
    }

    /// The form that the adapter between the two networks works with.
    pub fn format(&self) -> onnx::ItemFormat {
        onnx::ItemFormat {
            layout: match self.layout {
                None => onnx::Layout::Points,
                Some(LayoutName::Nchw) => onnx::Layout::Nchw,
                Some(LayoutName::Nhwc) => onnx::Layout::Nhwc,
            },
            shape: self.shape.clone(),
            range: self.range.map(|[low, high]| [low as f32, high as f32]),
            bits: self.bits,
        }
    }

    /// Height, width and channels of a picture.
    pub fn picture_size(&self) -> Option<[usize; 3]> {
        match (self.layout?, self.shape.as_slice()) {
            (LayoutName::Nchw, &[channels, height, width])
            | (LayoutName::Nhwc, &[height, width, channels]) => Some([height, width, channels]),
            _ => None,
        }
    }
}

/// The classifier's file and what goes in and out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassifierEntry {
    /// File inside the bundle.
    pub file: String,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// The item that is judged.
    pub input: ItemEntry,
    /// Names of the outputs.
    pub outputs: OutputsEntry,
    /// An output per label set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joint: Option<JointEntry>,
}

/// The output with one number per label set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JointEntry {
    /// Its name.
    pub output: String,
    /// What each number stands for: a digit per label in their order, 1 where the set has it.
    pub sets: Vec<String>,
    /// Whether one more number follows, for all sets that are not listed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub rest: bool,
    /// Outputs of the same form, of networks that have no part in selecting; they tell how right samples are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(key: &bool) -> bool {
    !key
}

impl JointEntry {
    /// How a bundle writes the sets of an output.
    pub fn of(output: &str, sets: &LabelSets, members: Vec<String>) -> Self {
        let digit = |set: LabelSet, label| if set.contains(label) { '1' } else { '0' };
        let digits = |set: &LabelSet| (0..sets.labels()).map(|label| digit(*set, label)).collect();
        Self {
            output: output.to_owned(),
            sets: sets.sets().iter().map(digits).collect(),
            rest: sets.has_rest(),
            members,
        }
    }

    /// The checked form that posteriors use.
    pub fn label_sets(&self, labels: usize) -> Result<LabelSets, Error> {
        let read = |text: &String| {
            let fits = text.len() == labels && text.bytes().all(|b| b == b'0' || b == b'1');
            let members = text.bytes().enumerate().filter(|(_, b)| *b == b'1');
            let wrong = || {
                let found: String = text.chars().take(80).collect();
                Error::labels(format!(
                    "label set \"{found}\" is not {labels} digits of 0 and 1, one per label"
                ))
            };
            fits.then(|| members.map(|(label, _)| label).collect())
                .ok_or_else(wrong)
        };
        let sets = self.sets.iter().map(read).collect::<Result<_, _>>()?;
        LabelSets::new(labels, sets, self.rest)
    }
}

/// Names of the classifier's outputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputsEntry {
    /// Logits of the class of real items.
    pub class: String,
    /// Logit of real against generated.
    pub real: String,
    /// Logits of the class of generated items; conditional generators only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fake_class: Option<String>,
}

/// Calibration of the classifiers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CalibrationEntry {
    /// Which posterior it is for; left out where that is the only one, or the joint one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub posterior: Option<PosteriorName>,
    /// Temperatures of the three outputs.
    pub temperature: TemperatureEntry,
    /// From the discriminator to log odds, before temperature and clip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correction: Option<CorrectionEntry>,
    /// Odds of the discriminator are kept in `[1/odds_clip, odds_clip]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub odds_clip: Option<f64>,
    /// Odds of the discriminator above this count as this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub odds_cap: Option<f64>,
    /// Exclusion margin: `default`, and further entries by query.
    pub margin: BTreeMap<String, f64>,
    /// Least posterior of the query.
    pub floor: FloorValue,
    /// What a small set of fully labelled items taught about predictions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditEntry>,
    /// What networks that have no part in selecting say about generated items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ensemble: Option<EnsembleEntry>,
    /// Probability that a held-out real item has a larger real logit than a generated one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auc: Option<f64>,
    /// `Σ |AUC − ½|` by which witnesses still tell weighted generated items from real ones; left out where
    /// they no longer do, and where nobody asked them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witnesses: Option<f64>,
    /// Which joint classes the data holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence: Option<PresenceEntry>,
}

/// Which posterior of a query weighs items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PosteriorName {
    /// Sorted levels of the class head.
    Levels,
    /// One output per label set.
    Joint,
}

impl PosteriorName {
    /// As it is typed and reported.
    pub fn name(self) -> &'static str {
        match self {
            Self::Levels => "levels",
            Self::Joint => "joint",
        }
    }
}

/// A correction of the discriminator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CorrectionEntry {
    /// `slope · logit + shift`.
    Platt {
        /// Above zero.
        slope: f64,
        /// Log odds at a logit of zero.
        shift: f64,
    },
    /// A rising curve, straight between its corners.
    Isotonic {
        /// Logits of the corners, rising.
        logits: Vec<f64>,
        /// Log odds there, not falling.
        log_odds: Vec<f64>,
    },
}

impl CorrectionEntry {
    /// How a bundle writes a correction; none for the logit itself.
    pub fn of(correction: &Correction) -> Option<Self> {
        match correction {
            Correction::None => None,
            &Correction::Platt { slope, shift } => Some(Self::Platt { slope, shift }),
            Correction::Isotonic(curve) => {
                let [logits, log_odds] = columns(curve);
                Some(Self::Isotonic { logits, log_odds })
            }
        }
    }

    /// The checked form that weights use; none where it is no rising function.
    pub fn correction(&self) -> Option<Correction> {
        match self {
            &Self::Platt { slope, shift } => {
                let usable = slope > 0.0 && slope.is_finite() && shift.is_finite();
                usable.then_some(Correction::Platt { slope, shift })
            }
            Self::Isotonic { logits, log_odds } => {
                rising(logits, log_odds).map(Correction::Isotonic)
            }
        }
    }
}

/// From posteriors of a query to the share of right items that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditEntry {
    /// Items behind it.
    pub items: usize,
    /// Posteriors of the corners, rising.
    pub posterior: Vec<f64>,
    /// Shares of right items there, not falling.
    pub measured: Vec<f64>,
}

impl AuditEntry {
    /// How a bundle writes what an audit of so many items gave.
    pub fn of(items: usize, curve: &Curve) -> Self {
        let [posterior, measured] = columns(curve);
        Self {
            items,
            posterior,
            measured,
        }
    }

    /// The checked form; none where it is no rising function to shares.
    pub fn curve(&self) -> Option<Curve> {
        let shares = self.measured.iter().all(|s| (0.0..=1.0).contains(s));
        rising(&self.posterior, &self.measured).filter(|_| shares)
    }
}

/// From posteriors of a query to their mean by other networks, on generated items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnsembleEntry {
    /// Networks behind it.
    pub members: usize,
    /// Posteriors of the corners, rising.
    pub posterior: Vec<f64>,
    /// Mean posteriors there, not falling.
    pub predicted: Vec<f64>,
}

impl EnsembleEntry {
    /// How a bundle writes what so many networks say.
    pub fn of(members: usize, curve: &Curve) -> Self {
        let [posterior, predicted] = columns(curve);
        Self {
            members,
            posterior,
            predicted,
        }
    }

    /// The checked form; none where it is no rising function to probabilities.
    pub fn curve(&self) -> Option<Curve> {
        let shares = self.predicted.iter().all(|s| (0.0..=1.0).contains(s));
        rising(&self.posterior, &self.predicted).filter(|_| shares)
    }
}

fn columns(curve: &Curve) -> [Vec<f64>; 2] {
    [0, 1].map(|side| curve.corners().iter().map(|corner| corner[side]).collect())
}

fn rising(at: &[f64], values: &[f64]) -> Option<Curve> {
    let corners = at.iter().zip(values).map(|(a, v)| [*a, *v]).collect();
    (at.len() == values.len())
        .then(|| Curve::new(corners))
        .flatten()
}

impl Default for CalibrationEntry {
    fn default() -> Self {
        Self {
            posterior: None,
            temperature: TemperatureEntry::default(),
            correction: None,
            odds_clip: None,
            odds_cap: None,
            margin: BTreeMap::from([("default".to_owned(), 1.0)]),
            floor: FloorValue::Same(0.0),
            audit: None,
            ensemble: None,
            auc: None,
            witnesses: None,
            presence: None,
        }
    }
}

/// One floor, or `default` and further entries by query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FloorValue {
    /// The same for every query.
    Same(f64),
    /// By query, as the margin.
    ByQuery(BTreeMap<String, f64>),
}

impl FloorValue {
    /// All entries: `default` and those by query.
    pub fn entries(&self) -> BTreeMap<String, f64> {
        match self {
            Self::Same(floor) => BTreeMap::from([("default".to_owned(), *floor)]),
            Self::ByQuery(entries) => entries.clone(),
        }
    }
}

/// Temperatures of the three outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TemperatureEntry {
    /// Of the class of real items.
    pub class: TemperatureValue,
    /// Of the class of generated items.
    pub fake_class: TemperatureValue,
    /// Of real against generated.
    pub real: f64,
    /// Of the output per label set.
    #[serde(skip_serializing_if = "is_one")]
    pub joint: f64,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_one(temperature: &f64) -> bool {
    *temperature == 1.0
}

impl Default for TemperatureEntry {
    fn default() -> Self {
        let one = TemperatureValue::Same(1.0);
        Self {
            class: one.clone(),
            fake_class: one,
            real: 1.0,
            joint: 1.0,
        }
    }
}

/// One temperature, or a list by number of excluded labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TemperatureValue {
    /// The same for every query.
    Same(f64),
    /// Entry `j` for queries that exclude `j` labels.
    ByExcluded(Vec<f64>),
}

impl From<TemperatureValue> for Temperature {
    fn from(value: TemperatureValue) -> Self {
        match value {
            TemperatureValue::Same(value) => Self::Same(value),
            TemperatureValue::ByExcluded(values) => Self::ByExcluded(values),
        }
    }
}

/// Where the networks come from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Provenance {
    /// Data set.
    pub data: String,
    /// Licence of data and weights.
    pub licence: String,
    /// How the networks were made.
    pub recipe: String,
    /// Seed of the training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Versions of the software used.
    pub versions: String,
}
