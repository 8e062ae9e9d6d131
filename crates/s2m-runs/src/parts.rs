//! Parts that several run files share: precision, storage, augmentation, optimiser.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ensure};

/// How numbers are multiplied on CUDA; read from `precision` in a run file. CPUs know one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// 32-bit floats throughout.
    #[default]
    Float32,
    /// Factors rounded to 10 bits after the point, sums in 32-bit floats.
    Tf32,
    /// Convolutions of networks that have it in bfloat16, 7 bits after the point; all else as `Tf32`. CUDA only.
    Bf16,
}

/// How weights lie in a file; they are computed with in 32 bits either way. `stored` in a run file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stored {
    /// 32 bits.
    #[default]
    Float32,
    /// 16 bits, 10 of them after the point.
    Half,
}

impl Stored {
    /// Whether it is the default, which run files leave out.
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Which changes; read from `augment` in a run file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Augment {
    /// Mirrors every second item, left to right.
    #[serde(default)]
    pub flip: bool,
    /// Largest shift in pixels, down or up and right or left.
    #[serde(default)]
    pub shift: i64,
    /// Side in pixels of the square that is cut out; the part of it that lies in the picture counts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cutout: i64,
    /// What comes in from outside where a picture is moved.
    #[serde(default, skip_serializing_if = "Edge::is_black")]
    pub edge: Edge,
}

/// What lies outside a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Edge {
    /// Black.
    #[default]
    Black,
    /// The picture again, mirrored at its edge.
    Mirror,
}

impl Edge {
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_black(&self) -> bool {
        *self == Self::Black
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(side: &i64) -> bool {
    *side == 0
}

impl Augment {
    /// Refuses shifts that can empty a picture, and squares that are larger than it.
    pub fn check(self, [_, height, width]: [i64; 3]) -> Result<(), Error> {
        let most = height.min(width) - 1;
        ensure!(
            (0..=most).contains(&self.shift),
            "`augment.shift` is {}; pictures of {width}×{height} take 0 to {most}",
            self.shift
        );
        ensure!(
            (0..=most + 1).contains(&self.cutout),
            "`augment.cutout` is {}; pictures of {width}×{height} take 0 to {}",
            self.cutout,
            most + 1
        );
        Ok(())
    }
}

/// Which optimiser, and its constants; read from `optimizer` in a run file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum OptimizerSettings {
    /// Adam.
    Adam {
        /// The learning rate.
        learning_rate: f64,
        /// How long the mean of gradients remembers.
        #[serde(default = "beta1")]
        beta1: f64,
        /// How long the mean of their squares does.
        #[serde(default = "beta2")]
        beta2: f64,
        /// How the rate goes on.
        #[serde(default, skip_serializing_if = "Schedule::is_constant")]
        schedule: Schedule,
        /// Share of the steps over which the rate rises.
        #[serde(default, skip_serializing_if = "is_none")]
        warm_up: f64,
    },
    /// Stochastic gradient descent.
    Sgd {
        /// The learning rate.
        learning_rate: f64,
        /// How much of the step before is kept.
        #[serde(default)]
        momentum: f64,
        /// Looks ahead by one step of the momentum.
        #[serde(default, skip_serializing_if = "is_false")]
        nesterov: bool,
        /// So much of every weight is added to its gradient.
        #[serde(default, skip_serializing_if = "is_none")]
        weight_decay: f64,
        /// How the rate goes on.
        #[serde(default, skip_serializing_if = "Schedule::is_constant")]
        schedule: Schedule,
        /// Share of the steps over which the rate rises.
        #[serde(default, skip_serializing_if = "is_none")]
        warm_up: f64,
    },
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_none(number: &f64) -> bool {
    *number == 0.0
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
pub(crate) fn is_false(key: &bool) -> bool {
    !key
}

/// How the learning rate goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// As it is.
    #[default]
    Constant,
    /// Half a cosine from the rate at the first step to zero after the last one.
    Cosine,
}

impl Schedule {
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_constant(&self) -> bool {
        *self == Self::Constant
    }
}

/// β₁ of Adam, unless said otherwise.
pub const BETA1: f64 = 0.9;

/// β₂ of Adam, unless said otherwise.
pub const BETA2: f64 = 0.999;

fn beta1() -> f64 {
    BETA1
}

fn beta2() -> f64 {
    BETA2
}

/// Largest β and momentum.
const MOST_MEMORY: f64 = 0.99999;

/// Most steps of a rate that changes, which is kept step by step.
const LONGEST_CHANGE: u64 = 1 << 24;

impl OptimizerSettings {
    /// Refuses constants that no training of so many steps can use.
    pub fn check(&self, steps: u64) -> Result<(), Error> {
        let (rate, shares, (schedule, warm_up)) = match *self {
            Self::Adam {
                learning_rate,
                beta1,
                beta2,
                schedule,
                warm_up,
            } => {
                let shares = vec![("beta1", beta1), ("beta2", beta2)];
                (learning_rate, shares, (schedule, warm_up))
            }
            Self::Sgd {
                learning_rate,
                momentum,
                nesterov,
                weight_decay,
                schedule,
                warm_up,
            } => {
                ensure!(
                    weight_decay.is_finite() && weight_decay >= 0.0,
                    "`optimizer.weight-decay` is {weight_decay}; it must be 0 or above"
                );
                ensure!(
                    !nesterov || momentum > 0.0,
                    "`optimizer.nesterov` needs a momentum above 0"
                );
                let shares = vec![("momentum", momentum)];
                (learning_rate, shares, (schedule, warm_up))
            }
        };
        ensure!(
            schedule.is_constant() || steps <= LONGEST_CHANGE,
            "`optimizer.schedule` is `cosine` over {steps} steps; it can be laid over at most {LONGEST_CHANGE}"
        );
        ensure!(
            (0.0..1.0).contains(&warm_up),
            "`optimizer.warm-up` is {warm_up}; it must be from 0 to below 1"
        );
        ensure!(
            warm_up == 0.0 || steps <= LONGEST_CHANGE,
            "`optimizer.warm-up` is for trainings of at most {LONGEST_CHANGE} steps, this one has {steps}"
        );
        ensure!(
            rate.is_finite() && rate > 0.0,
            "`optimizer.learning-rate` is {rate}; it must be above 0"
        );
        for (name, share) in shares {
            ensure!(
                (0.0..=MOST_MEMORY).contains(&share),
                "`optimizer.{name}` is {share}; it must be from 0 to {MOST_MEMORY}"
            );
        }
        Ok(())
    }

    /// Whether the rate is the same at every step.
    pub fn is_constant(&self) -> bool {
        let (schedule, warm_up) = self.course();
        schedule.is_constant() && (warm_up * 1000.0).round() == 0.0
    }

    /// How the rate goes on, and the share of the steps over which it rises.
    pub fn course(&self) -> (Schedule, f64) {
        let (Self::Adam {
            schedule, warm_up, ..
        }
        | Self::Sgd {
            schedule, warm_up, ..
        }) = *self;
        (schedule, warm_up)
    }
}
