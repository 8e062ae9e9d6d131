//! The run file of `gan`.

use s2m_data::recipe::DataRecipe;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ensure};
use crate::networks::NetworkSettings;
use crate::objective::ObjectiveSettings;
use crate::parts::{OptimizerSettings, Precision, Stored, is_false};
use crate::regularise::Regularise;

/// A run file of `gan`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GanSettings {
    /// Seeds; every data set is trained once by each.
    pub seeds: Vec<u64>,
    /// Generator steps.
    pub steps: u64,
    /// Items of a step.
    pub batch: i64,
    /// Numbers that training computes with.
    #[serde(default)]
    pub precision: Precision,
    /// Decay of the average of the generator's weights; 0 exports the last weights.
    #[serde(default)]
    pub ema: f64,
    /// Steps before the average begins; until then it is the weights themselves.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ema_from: u64,
    /// Shows the joint class of every item in the place of one label.
    #[serde(default, skip_serializing_if = "is_false")]
    pub oracle: bool,
    /// How weights lie in `generator.onnx`.
    #[serde(default, skip_serializing_if = "Stored::is_default")]
    pub stored: Stored,
    /// Steps between two checkpoints.
    #[serde(default = "every_10000")]
    pub checkpoint_every: u64,
    /// Steps between two lines of the log.
    #[serde(default = "every_1000")]
    pub log_every: u64,
    /// Steps between two sample grids.
    #[serde(default = "every_10000")]
    pub grid_every: u64,
    /// Steps between generators that are kept beside the finished one; none where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_every: Option<u64>,
    /// The game that is played.
    pub objective: ObjectiveSettings,
    /// The optimiser.
    pub optimizer: OptimizerSettings,
    /// Of the critics, where they have another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critic_optimizer: Option<OptimizerSettings>,
    /// Generator and critic.
    pub network: NetworkSettings,
    /// What keeps critics from learning the data by heart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regularise: Option<Regularise>,
    /// What checkpoints hold.
    #[serde(default, skip_serializing_if = "Form::is_default")]
    pub checkpoint: Form,
    /// Data sets, trained side by side.
    pub data: Vec<DataRecipe>,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(steps: &u64) -> bool {
    *steps == 0
}

fn every_10000() -> u64 {
    10_000
}

fn every_1000() -> u64 {
    1000
}

impl GanSettings {
    /// Refuses what no run can do, whatever its data is.
    pub fn check(&self) -> Result<(), Error> {
        let distinct: std::collections::BTreeSet<_> = self.seeds.iter().collect();
        ensure!(
            !self.seeds.is_empty() && distinct.len() == self.seeds.len(),
            "`seeds` must be a list of different seeds"
        );
        ensure!(
            (1..=1 << 20).contains(&self.batch),
            "`batch` is {}; it must be from 1 to 1048576",
            self.batch
        );
        ensure!(self.grid_every > 0, "`grid-every` must be above 0");
        ensure!(
            self.keep_every != Some(0),
            "`keep-every` must be above 0\nhint: leave it out to keep the finished generator alone"
        );
        self.objective.check()?;
        let critic_steps = self.objective.critic_steps().unsigned_abs();
        let steps = self.steps.saturating_mul(critic_steps.max(1));
        for optimizer in self.optimizers() {
            optimizer.check(steps)?;
        }
        self.network.check()?;
        self.check_pairs()?;
        ensure!(
            (0.0..1.0).contains(&self.ema),
            "`ema` is {}; it must be from 0 to below 1",
            self.ema
        );
        Ok(())
    }

    /// The generator's optimiser, and the critic's where it has another.
    fn optimizers(&self) -> impl Iterator<Item = OptimizerSettings> {
        std::iter::once(self.optimizer).chain(self.critic_optimizer)
    }

    /// Refuses settings that do not go together.
    fn check_pairs(&self) -> Result<(), Error> {
        ensure!(
            self.network.convolves() || self.precision != Precision::Bf16,
            "`precision` is `bf16`, which generators of fully connected layers do not have\nhint: precision = \"tf32\""
        );
        if let Some(regularise) = &self.regularise {
            let critic = match self.network {
                NetworkSettings::BigGan(_) => true,
                NetworkSettings::UNet(_) => {
                    let flip = regularise.flip;
                    let alone = Regularise {
                        flip,
                        ..Regularise::default()
                    };
                    ensure!(
                        *regularise == alone,
                        "`regularise` has keys that are for critics, and a flow has none\nhint: regularise = {{ flip = {flip} }}"
                    );
                    true
                }
                NetworkSettings::Mlp(_) => false,
            };
            ensure!(
                critic,
                "`regularise` is for hinge objectives, and `network` states no BigGAN\nhint: remove `regularise`"
            );
            regularise.check()?;
        }
        ensure!(
            self.critic_optimizer.is_none() || self.objective.critic_steps() > 0,
            "`critic-optimizer` is for critics, and this objective has none\nhint: remove it"
        );
        for optimizer in self.optimizers() {
            ensure!(
                self.checkpoint.optimizer || optimizer.is_constant(),
                "`checkpoint.optimizer` is false: an optimiser that starts again cannot follow a schedule or a warm-up\nhint: schedule = \"constant\" without `warm-up`, or leave `checkpoint` out"
            );
        }
        ensure!(
            !self.oracle || self.objective.conditional(),
            "`oracle` shows joint classes, and this objective is shown none\nhint: `hinge-projection`, `hinge-ac-gan` or `hinge-cp-gan`"
        );
        Ok(())
    }
}

/// What a checkpoint holds; `checkpoint` in a run file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Form {
    /// How its numbers lie in the file.
    #[serde(default)]
    pub stored: Stored,
    /// Whether it has the optimiser's memory.
    #[serde(default = "with_optimizer")]
    pub optimizer: bool,
}

fn with_optimizer() -> bool {
    true
}

impl Default for Form {
    fn default() -> Self {
        Self {
            stored: Stored::Float32,
            optimizer: true,
        }
    }
}

impl Form {
    /// Whether it is the default, which run files leave out.
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
