//! The run file of `referee`.

use s2m_data::recipe::DataRecipe;
use serde::{Deserialize, Serialize};

use crate::classifier::TrunkSettings;
use crate::error::{Error, ensure};
use crate::parts::{Augment, OptimizerSettings, Precision, Stored};

/// A run file of `referee`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RefereeSettings {
    /// Seed of initial weights and of the order of items.
    #[serde(default)]
    pub seed: u64,
    /// Epochs.
    pub epochs: u64,
    /// Items of a step.
    pub batch: i64,
    /// Steps between two lines of the log.
    #[serde(default = "every_1000")]
    pub log_every: u64,
    /// The trunk below its one head.
    #[serde(default = "lenet5", skip_serializing_if = "is_lenet5")]
    pub network: TrunkSettings,
    /// How pictures are changed before they are seen; not at all where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub augment: Option<Augment>,
    /// What it says of an item.
    #[serde(default, skip_serializing_if = "Judges::is_default")]
    pub judges: Judges,
    /// Judges a picture and its mirror image, and takes the mean of the two.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mirrored: bool,
    /// The optimiser.
    pub optimizer: OptimizerSettings,
    /// Numbers that training computes with.
    #[serde(default)]
    pub precision: Precision,
    /// How weights lie in its file.
    #[serde(default, skip_serializing_if = "Stored::is_default")]
    pub stored: Stored,
    /// The dataset, with all labels known.
    pub data: DataRecipe,
}

/// What a referee says of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judges {
    /// Which original class it is of.
    #[default]
    Classes,
    /// Each of its labels apart, for data with more label sets than items could teach.
    Labels,
}

impl Judges {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The output that says it.
    pub fn output(self) -> &'static str {
        match self {
            Self::Classes => "class_logits",
            Self::Labels => "label_logits",
        }
    }
}

/// What the answers of a referee are, as `s2m eval` reads them beside its network; classes need no such words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// The output with a number per answer.
    pub classes: String,
    /// What these numbers mean.
    pub kind: String,
    /// Names of the answers.
    pub names: Vec<String>,
}

impl Answers {
    /// The answers of a referee that judges each label apart.
    pub fn of<'n>(judges: Judges, labels: impl Iterator<Item = &'n str>) -> Self {
        Self {
            classes: judges.output().to_owned(),
            kind: "each".to_owned(),
            names: labels.map(str::to_owned).collect(),
        }
    }
}

impl RefereeSettings {
    /// Refuses what no run can do, whatever its data is.
    pub fn check(&self) -> Result<(), Error> {
        ensure!(self.epochs > 0, "`epochs` must be above 0");
        ensure!(
            (1..=1 << 20).contains(&self.batch),
            "`batch` must be from 1 to 1048576"
        );
        Ok(())
    }
}

fn every_1000() -> u64 {
    1000
}

fn lenet5() -> TrunkSettings {
    TrunkSettings::Lenet5 {}
}

fn is_lenet5(network: &TrunkSettings) -> bool {
    *network == lenet5()
}
