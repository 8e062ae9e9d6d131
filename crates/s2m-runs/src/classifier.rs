//! The run file of `classifier`.

use std::path::PathBuf;

use s2m_calibrate::CalibrationSettings;
use s2m_data::recipe::DataRecipe;
use s2m_model::manifest::CalibrationEntry;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ensure};
use crate::parts::{Augment, OptimizerSettings, Precision, Stored, is_false};

/// A run file of `classifier`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClassifierSettings {
    /// Folder of a finished GAN run, whose data sets and seeds are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gan: Option<PathBuf>,
    /// Data sets to train for; all of the GAN run where left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// Passes over the training items.
    pub epochs: u64,
    /// Items of a step.
    pub batch: i64,
    /// Numbers that training computes with.
    #[serde(default)]
    pub precision: Precision,
    /// How weights lie in the bundle's files.
    #[serde(default, skip_serializing_if = "Stored::is_default")]
    pub stored: Stored,
    /// Steps between two lines of the log.
    #[serde(default = "every_1000")]
    pub log_every: u64,
    /// Steps between two checkpoints.
    #[serde(default = "every_1000")]
    pub checkpoint_every: u64,
    /// The trunk below the heads.
    pub network: TrunkSettings,
    /// How D_v is fitted.
    #[serde(default)]
    pub real: RealSettings,
    /// How real and generated pictures are changed before they are seen; not at all where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub augment: Option<Augment>,
    /// Draws every label equally often; the exported outputs are those of the data all the same.
    #[serde(default, skip_serializing_if = "is_false")]
    pub balance: bool,
    /// The optimiser of all heads.
    pub optimizer: OptimizerSettings,
    /// Whether an output per label set is learnt, or how; by default where there are two labels or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joint: Option<JointChoice>,
    /// How the bundle is calibrated in the end.
    #[serde(default)]
    pub calibration: CalibrationSettings,
    /// The paper's own settings for this data, kept in the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<CalibrationEntry>,
    /// A generator from elsewhere, in the place of a GAN run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<OwnGenerator>,
    /// Share of labels that are shown wrongly, in the place of what the data says; for trials of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong_labels: Option<f64>,
    /// The data of a generator from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataRecipe>,
}

fn every_1000() -> u64 {
    1000
}

impl ClassifierSettings {
    /// Passes, items per step, trunk and optimiser; all else as where a run file leaves it out.
    pub fn new(
        epochs: u64,
        batch: i64,
        network: TrunkSettings,
        optimizer: OptimizerSettings,
    ) -> Self {
        Self {
            gan: None,
            only: Vec::new(),
            epochs,
            batch,
            precision: Precision::default(),
            stored: Stored::default(),
            log_every: every_1000(),
            checkpoint_every: every_1000(),
            network,
            real: RealSettings::default(),
            augment: None,
            balance: false,
            optimizer,
            joint: None,
            calibration: CalibrationSettings::default(),
            paper: None,
            generator: None,
            wrong_labels: None,
            data: None,
        }
    }

    /// Refuses what no run can do, whatever its data is.
    pub fn check(&self) -> Result<(), Error> {
        ensure!(
            (1..=1 << 20).contains(&self.batch),
            "`batch` must be from 1 to 1048576"
        );
        ensure!(self.epochs > 0, "`epochs` must be above 0");
        self.calibration.check()?;
        check_frozen(self)?;
        ensure!(
            self.real != RealSettings::Frozen { epochs: 0 },
            "`epochs` of a frozen fit must be above 0"
        );
        Ok(())
    }
}

/// Refuses what a network that sees every item once cannot do.
fn check_frozen(settings: &ClassifierSettings) -> Result<(), Error> {
    if !matches!(settings.network, TrunkSettings::Onnx { .. }) {
        return Ok(());
    }
    ensure!(
        settings.augment.is_none(),
        "`augment` cannot be used with an `onnx` network, which sees every item once, before training\nhint: remove `augment`"
    );
    ensure!(
        settings.real.way() != Way::Smoothed,
        "`smoothed` trains a trunk of its own, and an `onnx` network is not trained\nhint: use `shared` or `frozen`"
    );
    Ok(())
}

/// Which trunk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TrunkSettings {
    /// LeNet5, for grey images of 28×28.
    Lenet5 {},
    /// Fully connected layers, for points.
    Mlp {
        /// Layers; the last one's outputs are the features.
        hidden: Vec<i64>,
    },
    /// MobileNetV2.
    MobilenetV2 {},
    /// ResNet-9.
    Resnet9 {
        /// Outputs of the first layer; the features are eight times as many.
        #[serde(default = "width_64")]
        width: i64,
    },
    /// A network from elsewhere, which is not trained.
    Onnx {
        /// The ONNX file.
        file: PathBuf,
        /// An output or a value inside the graph; the only output where left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        features: Option<String>,
        /// Lowest and highest value of the pictures that it takes; −1 and 1 where left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<[f64; 2]>,
    },
}

/// Outputs of the first layer of a residual network, unless said otherwise.
pub const RESNET9_WIDTH: i64 = 64;

fn width_64() -> i64 {
    RESNET9_WIDTH
}

/// How D_v is fitted, without its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// All outputs on one trunk, as the paper does.
    Shared,
    /// On a trunk that the class head alone has trained.
    Frozen,
    /// On a trunk of its own, which sees blurred pictures.
    Smoothed,
}

impl Way {
    /// Its name in run files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Frozen => "frozen",
            Self::Smoothed => "smoothed",
        }
    }
}

/// How D_v is fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "fit",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum RealSettings {
    /// Trained together with the class head, on one trunk: the paper's way.
    Shared {
        /// Passes for the trunk and D_r alone, before those for all heads together.
        #[serde(default, skip_serializing_if = "is_zero")]
        class_epochs: u64,
    },
    /// Trained on a trunk that no longer changes.
    Frozen {
        /// Passes for the other heads, after those for the trunk.
        epochs: u64,
    },
    /// Trained on a trunk of its own, which sees blurred images.
    Smoothed {},
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Default for RealSettings {
    fn default() -> Self {
        Self::Shared { class_epochs: 0 }
    }
}

impl RealSettings {
    /// Which way it is.
    pub fn way(self) -> Way {
        match self {
            Self::Shared { .. } => Way::Shared,
            Self::Frozen { .. } => Way::Frozen,
            Self::Smoothed {} => Way::Smoothed,
        }
    }
}

/// Generated items to train on, unless said otherwise.
pub const DEFAULT_ITEMS: u32 = 50_000;

/// A generator from elsewhere; `generator` in a run file of `classifier`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OwnGenerator {
    /// What goes in and out, in the form of a bundle's `[generator]`; the network lies beside it.
    pub file: PathBuf,
    /// Items made for training.
    #[serde(default = "items")]
    pub items: u32,
    /// Seed of these items and of the first weights.
    #[serde(default)]
    pub seed: u64,
}

fn items() -> u32 {
    DEFAULT_ITEMS
}

/// `joint` in a run file: whether label sets are learnt, or how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum JointChoice {
    /// Whether they are.
    Switch(bool),
    /// How.
    Settings(JointSettings),
}

impl JointChoice {
    /// How label sets are learnt; none where they are not.
    pub fn settings(&self) -> Option<JointSettings> {
        match self {
            Self::Switch(false) => None,
            Self::Switch(true) => Some(JointSettings::default()),
            Self::Settings(settings) => Some(settings.clone()),
        }
    }
}

/// How label sets are learnt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct JointSettings {
    /// Parts that items are dealt into.
    pub folds: usize,
    /// Powers ρ that are tried in the first round; the first is kept unless another gains more than chance explains.
    pub powers: Vec<f64>,
    /// Rounds at most.
    pub rounds: usize,
    /// Passes of every training; the run file's own where left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// Whether the bundle keeps the fold's networks, which tell how right samples are.
    pub members: bool,
    /// Learns the items' true label sets in the place of all that; for trials of what single labels cost.
    #[serde(skip_serializing_if = "is_false")]
    pub supervised: bool,
    /// Folder of these trainings; in that of the run where left out. Runs that differ in how D_v is fitted may share it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
}

impl Default for JointSettings {
    fn default() -> Self {
        Self {
            folds: 3,
            powers: vec![1.0, 1.6],
            rounds: 10,
            epochs: None,
            members: true,
            supervised: false,
            folder: None,
        }
    }
}

impl JointChoice {
    /// The same without the folder, which says where files lay and not what they are.
    #[must_use]
    pub fn without_folder(&self) -> Self {
        match self {
            Self::Switch(on) => Self::Switch(*on),
            Self::Settings(settings) => Self::Settings(JointSettings {
                folder: None,
                ..settings.clone()
            }),
        }
    }
}

/// Limits of what can be asked for.
const MOST_FOLDS: usize = 20;
const MOST_ROUNDS: usize = 20;
const POWERS: std::ops::RangeInclusive<f64> = 0.25..=8.0;

impl JointSettings {
    /// Refuses what cannot be learnt by.
    pub fn check(&self) -> Result<(), Error> {
        ensure!(
            (2..=MOST_FOLDS).contains(&self.folds),
            "`joint.folds` is {}; it must be from 2 to {MOST_FOLDS}",
            self.folds
        );
        ensure!(
            (1..=MOST_ROUNDS).contains(&self.rounds),
            "`joint.rounds` is {}; it must be from 1 to {MOST_ROUNDS}",
            self.rounds
        );
        ensure!(
            !self.powers.is_empty() && self.powers.iter().all(|power| POWERS.contains(power)),
            "`joint.powers` must list numbers from {} to {}",
            POWERS.start(),
            POWERS.end()
        );
        ensure!(self.epochs != Some(0), "`joint.epochs` must be above 0");
        Ok(())
    }
}
