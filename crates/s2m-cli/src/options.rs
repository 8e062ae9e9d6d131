//! Options that several commands share.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use s2m::adapt::{COMPONENTS, GAIN, PILOTS, PRIOR_SHARE, STEPS_ONCE, STEPS_REPEAT};
use s2m::session::Machine;
use s2m::settings::{CalibrationChoice, DensityChoice};
use s2m::typed::{self, Typed};
use s2m_fit::trainer::Trainer;
use s2m_model::manifest::PosteriorName;
use s2m_model::networks::{Device, RunSettings};

/// How networks run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct MachineOptions {
    /// Where networks run
    #[arg(long, value_enum, default_value_t = DeviceName::Cpu)]
    device: DeviceName,

    /// Cores to use [default: all]
    #[arg(long, value_name = "N", value_parser = cores)]
    threads: Option<NonZeroUsize>,

    /// Proposals per network call; results do not depend on it [default: by the size of an item]
    #[arg(long, value_name = "N", value_parser = batch)]
    batch: Option<NonZeroUsize>,

    /// Score in half precision on CUDA, with TF32 and exhaustive search; results can then not be repeated bit by bit
    #[arg(long)]
    fast: bool,

    /// ONNX Runtime library to use
    #[arg(long, value_name = "FILE")]
    onnxruntime: Option<PathBuf>,
}

/// A number of things: whole, at least one.
pub(crate) fn count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .map_err(|_| "it must be a whole number, at least 1".to_owned())
}

/// Most cores and most proposals per call that are believed; more is a slip of the finger.
const MAX_CORES: usize = 1024;
const MAX_BATCH: usize = 1 << 16;

pub(crate) fn cores(text: &str) -> Result<NonZeroUsize, String> {
    count(text).and_then(|value| at_most(value, MAX_CORES))
}

fn batch(text: &str) -> Result<NonZeroUsize, String> {
    count(text).and_then(|value| at_most(value, MAX_BATCH))
}

fn at_most(value: NonZeroUsize, most: usize) -> Result<NonZeroUsize, String> {
    if value.get() <= most {
        Ok(value)
    } else {
        Err(format!("it must be at most {most}"))
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DeviceName {
    Cpu,
    Cuda,
}

impl DeviceName {
    fn device(self) -> Device {
        match self {
            Self::Cpu => Device::Cpu,
            Self::Cuda => Device::Cuda,
        }
    }
}

/// What networks are trained with.
#[derive(Debug, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct TrainOptions {
    /// Where networks are trained
    #[arg(long, value_enum, default_value_t = DeviceName::Cpu)]
    device: DeviceName,

    /// Folder of libtorch: `torch` of an installed PyTorch, or the folder around it [default: looked for]
    #[arg(long, value_name = "DIR")]
    libtorch: Option<PathBuf>,

    /// ONNX Runtime library to use
    #[arg(long, value_name = "FILE")]
    onnxruntime: Option<PathBuf>,
}

impl TrainOptions {
    pub(crate) fn trainer(&self) -> Trainer<'_> {
        Trainer {
            device: self.device.device(),
            libtorch: self.libtorch.as_deref(),
            onnxruntime: self.onnxruntime(),
        }
    }

    pub(crate) fn onnxruntime(&self) -> Option<&Path> {
        self.onnxruntime.as_deref()
    }
}

impl MachineOptions {
    pub(crate) fn machine(&self) -> Machine<'_> {
        let default = RunSettings::default();
        Machine {
            run: RunSettings {
                device: self.device.device(),
                threads: self.threads.unwrap_or(default.threads),
                batch: self.batch,
                fast: self.fast,
                ..default
            },
            onnxruntime: self.onnxruntime.as_deref(),
        }
    }
}

/// How a query is weighed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Weighing")]
pub(crate) struct WeighOptions {
    /// Which density formula: with the factor that partial queries need, or as the paper prints it
    #[arg(long, value_enum, default_value_t = DensityName::Corrected)]
    density: DensityName,

    /// Which posterior of the query: by the model's output per label set, or by sorted levels of its class head
    /// [default: the model's]
    #[arg(long, value_enum, value_name = "KIND")]
    posterior: Option<PosteriorOption>,

    /// Whose calibration: the bundle's, the paper's settings for this data, or none
    #[arg(long, value_enum, default_value_t = CalibrationName::Bundle)]
    calibration: CalibrationName,

    /// Temperature of the class heads [default: the calibration's]
    #[arg(long, value_name = "T")]
    class_temperature: Option<f64>,

    /// Temperature of the discriminator [default: the calibration's]
    #[arg(long, value_name = "T")]
    real_temperature: Option<f64>,

    /// Odds of the discriminator above this count as this [default: the calibration's]
    #[arg(long, value_name = "C")]
    odds_cap: Option<f64>,

    /// Exclusion margin, above 0 and at most 1 [default: the calibration's]
    #[arg(long, value_name = "G")]
    margin: Option<f64>,

    /// Least posterior of the query that an item needs [default: the calibration's]
    #[arg(long, value_name = "P")]
    floor: Option<f64>,

    /// Share of right samples to be predicted; picks the floor
    #[arg(long, value_name = "P")]
    purity: Option<f64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DensityName {
    Corrected,
    Paper,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PosteriorOption {
    Joint,
    Levels,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CalibrationName {
    Bundle,
    Paper,
    None,
}

impl WeighOptions {
    /// Adds what was typed.
    pub(crate) fn add_to(&self, typed: &mut Typed) {
        typed.density = Some(match self.density {
            DensityName::Corrected => DensityChoice::Corrected,
            DensityName::Paper => DensityChoice::Paper,
        });
        typed.posterior = self.posterior.map(|option| match option {
            PosteriorOption::Joint => PosteriorName::Joint,
            PosteriorOption::Levels => PosteriorName::Levels,
        });
        typed.calibration = Some(match self.calibration {
            CalibrationName::Bundle => CalibrationChoice::Bundle,
            CalibrationName::Paper => CalibrationChoice::Paper,
            CalibrationName::None => CalibrationChoice::None,
        });
        typed.class_temperature = self.class_temperature;
        typed.real_temperature = self.real_temperature;
        typed.odds_cap = self.odds_cap;
        typed.margin = self.margin;
        typed.floor = self.floor;
        typed.purity = self.purity;
    }
}

/// How the latent distribution is adapted to the query first.
#[derive(Debug, Args)]
#[command(next_help_heading = "Adapting")]
pub(crate) struct AdaptOptions {
    #[arg(long, value_name = "EPSILON", help = format!(
        "Share of the prior that an adapted proposal keeps, which bounds the weights [default: {PRIOR_SHARE}]"
    ))]
    prior_share: Option<f64>,

    #[arg(long, value_name = "G", help = format!(
        "Least gain in calls per item for which `adaptive` adds a stage [default: {GAIN}]"
    ))]
    gain: Option<f64>,

    #[arg(long, value_name = "N", value_parser = count, help = format!(
        "Pilot latents of `once` and of each label of `repeat` [default: {PILOTS}]"
    ))]
    pilots: Option<NonZeroUsize>,

    #[arg(long, value_name = "K", value_parser = count, help = format!(
        "Steps behind each pilot latent [default: {STEPS_ONCE} for `once`, {STEPS_REPEAT} for `repeat`]"
    ))]
    pilot_steps: Option<NonZeroUsize>,

    #[arg(long, value_name = "M", value_parser = count, help = format!(
        "Components that `once` and `repeat` fit [default: {COMPONENTS}]"
    ))]
    components: Option<NonZeroUsize>,

    /// Labels in the order in which `repeat` adds them, as in "A, -B" [default: by expected acceptance]
    #[arg(long, value_name = "LABELS", allow_hyphen_values = true)]
    order: Option<String>,
}

/// Ways to adapt, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AdaptName {
    /// Draw latents from the prior
    None,
    /// The paper's Algorithm 2: one pilot
    Once,
    /// The paper's Algorithm 3: label by label
    Repeat,
    /// Stages that use every proposal scored so far
    Adaptive,
}

impl AdaptName {
    fn typed(self) -> typed::AdaptName {
        match self {
            Self::None => typed::AdaptName::None,
            Self::Once => typed::AdaptName::Once,
            Self::Repeat => typed::AdaptName::Repeat,
            Self::Adaptive => typed::AdaptName::Adaptive,
        }
    }
}

impl AdaptOptions {
    /// Adds what was typed.
    pub(crate) fn add_to(&self, typed: &mut Typed, name: AdaptName) {
        typed.adapt = name.typed();
        typed.prior_share = self.prior_share;
        typed.gain = self.gain;
        typed.pilots = self.pilots;
        typed.pilot_steps = self.pilot_steps;
        typed.components = self.components;
        typed.order.clone_from(&self.order);
    }
}

/// How much is said.
#[derive(Debug, Args)]
#[command(next_help_heading = "Talking")]
pub(crate) struct TalkOptions {
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Say nothing but the result and errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
