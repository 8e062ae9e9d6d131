//! `s2m fit`: your generator and your labels to a bundle.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use s2m_data::recipe::LabellingRecipe;
use s2m_fit::{Backbone, DEFAULT_ITEMS, Joint, Network, Request, Stored, Training, Way, fit};
use s2m_model::manifest::LayoutName;
use s2m_model::probe::Said;

use super::Answer;
use crate::bars::Bars;
use crate::options::TrainOptions;
use crate::streams::Streams;

const EXAMPLES: &str = "Examples:
  s2m fit --generator g.onnx --data pets --out pets.s2m
  s2m fit --generator g.onnx --data faces.toml --out faces.s2m --uniform z --device cuda
  s2m fit --from pets.s2m --data more-pets --out more-pets.s2m

`pets` holds a folder of pictures per label, or pictures and `metadata.csv`; a recipe names any
other data. What the generator takes and gives is worked out from its file and a trial run, and
said before training; the options under \"Generator\" say otherwise. A run that was stopped goes on
when you type the same command again. Training is done by `s2m-train`; libtorch is found for it.";

/// Fit classifiers to your own generator and labels, and write a bundle
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FitArgs {
    /// Generator: an ONNX file from noise (and class) to items
    #[arg(long, value_name = "G.onnx", required_unless_present = "from")]
    generator: Option<PathBuf>,

    /// Bundle to add labels to: its generator and its trunk stay, only the outputs are fitted
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["generator", "backbone", "uniform", "class_input", "output", "layout", "range"])]
    from: Option<PathBuf>,

    /// Data: a folder of images with labels, or a recipe (.toml)
    #[arg(long, value_name = "PATH")]
    data: PathBuf,

    /// Bundle to write
    #[arg(long, value_name = "NAME.s2m")]
    out: PathBuf,

    /// Folder of the training [default: NAME.fit beside the bundle]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,

    /// How the labels came about: each item shows one of its labels, or items were gathered per label
    /// [default: one-of, or as the bundle of --from has it]
    #[arg(long, value_enum)]
    labelling: Option<LabellingName>,

    /// Replace a bundle of that name
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    about: GeneratorOptions,

    #[command(flatten)]
    fitting: FittingOptions,

    #[command(flatten)]
    train: TrainOptions,

    /// Say nothing but the result and errors
    #[arg(long, short)]
    quiet: bool,
}

/// What a person says about the generator.
#[derive(Debug, Args)]
#[command(next_help_heading = "Generator")]
struct GeneratorOptions {
    /// Noise input that is uniform on (-1, 1); repeat for several [default: standard normal]
    #[arg(long, value_name = "INPUT")]
    uniform: Vec<String>,

    /// Input that takes the class [default: told by type and name]
    #[arg(long, value_name = "INPUT")]
    class_input: Option<String>,

    /// Output that holds the items [default: the only one]
    #[arg(long, value_name = "OUTPUT")]
    output: Option<String>,

    /// Order of an image's axes [default: told by the channels]
    #[arg(long, value_enum)]
    layout: Option<LayoutChoice>,

    /// Values of black and white [default: told by a trial run]
    #[arg(long, value_name = "LOW,HIGH", value_parser = range, allow_hyphen_values = true)]
    range: Option<[f64; 2]>,
}

/// How classifiers are trained.
#[derive(Debug, Args)]
#[command(next_help_heading = "Fitting")]
struct FittingOptions {
    /// How the discriminator is fitted [default: all ways, and the one that makes generated items most like
    /// real ones]
    #[arg(long, value_enum, conflicts_with_all = ["backbone", "from"])]
    real: Option<WayName>,

    /// Trunk that is trained [default: lenet5 for 28 by 28 in grey, resnet9 for colour, mobilenet-v2 for other images]
    #[arg(long, value_enum, conflicts_with_all = ["backbone", "from"])]
    network: Option<NetworkName>,

    /// Learn no output per label set: class probabilities alone decide, as in the paper
    #[arg(long)]
    no_joint: bool,

    /// Most rounds of students that teach each other label sets; held-out items say when to stop [default: 10]
    #[arg(long, value_name = "N", conflicts_with = "no_joint", value_parser = clap::value_parser!(u64).range(1..=20))]
    rounds: Option<u64>,

    /// ONNX network that turns items into features, in the place of a trunk that is trained
    #[arg(long, value_name = "B.onnx")]
    backbone: Option<PathBuf>,

    /// Value of that network that holds the features [default: its only output]
    #[arg(long, value_name = "NAME", requires = "backbone")]
    features: Option<String>,

    /// Values of black and white at its input [default: -1,1]
    #[arg(long, value_name = "LOW,HIGH", value_parser = range, allow_hyphen_values = true, requires = "backbone")]
    backbone_range: Option<[f64; 2]>,

    /// Draw every label equally often while training; what is fitted stays about the data as it is
    #[arg(long)]
    balance: bool,

    /// Passes over the training items [default: by the items]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    epochs: Option<u64>,

    /// Items per step [default: by the items]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    batch: Option<u64>,

    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help = format!(
        "Generated items to train on [default: {DEFAULT_ITEMS}]"
    ))]
    items: Option<u32>,

    /// Fresh generated items to calibrate by, 1000 or more [default: by their size]
    #[arg(long, value_name = "N")]
    generated: Option<u64>,

    /// How weights lie in the bundle, the generator's too: in 16 bits it is half as large. They are computed with in
    /// 32 bits either way [default: float32]
    #[arg(long, value_enum)]
    stored: Option<StoredName>,

    /// Seed of first weights and generated items
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// Share of generated items that rejection accepts by the discriminator alone, down to which likeness to real
    /// ones is paid for: 0.5 doubles the calls [default: the knee]
    #[arg(long, value_name = "S")]
    likeness: Option<f64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LabellingName {
    OneOf,
    PerClass,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum WayName {
    /// All outputs on one trunk, as the paper does
    Shared,
    /// On a trunk that the class head alone has trained
    Frozen,
    /// On a trunk of its own, which sees blurred images
    Smoothed,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum NetworkName {
    #[value(name = "lenet5")]
    Lenet5,
    #[value(name = "mobilenet-v2")]
    MobilenetV2,
    #[value(name = "resnet9")]
    Resnet9,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StoredName {
    Float32,
    Half,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LayoutChoice {
    #[value(name = "NCHW")]
    Nchw,
    #[value(name = "NHWC")]
    Nhwc,
}

/// `LOW,HIGH`.
fn range(text: &str) -> Result<[f64; 2], String> {
    let wrong = || "it must be LOW,HIGH, such as -1,1".to_owned();
    let (low, high) = text.split_once(',').ok_or_else(wrong)?;
    let number = |part: &str| part.trim().parse::<f64>().map_err(|_| wrong());
    let range = [number(low)?, number(high)?];
    if range.iter().all(|v| v.is_finite()) && range[0] < range[1] {
        Ok(range)
    } else {
        Err(wrong())
    }
}

pub(crate) fn run(args: &FitArgs, streams: &mut Streams<'_>) -> Result<Answer> {
    let about = &args.about;
    let request = Request {
        generator: args.generator.as_deref(),
        data: &args.data,
        out: &args.out,
        work: args.work.as_deref(),
        said: Said {
            uniform: about.uniform.clone(),
            class_input: about.class_input.clone(),
            output: about.output.clone(),
            layout: about.layout.map(|layout| match layout {
                LayoutChoice::Nchw => LayoutName::Nchw,
                LayoutChoice::Nhwc => LayoutName::Nhwc,
            }),
            range: about.range,
            picture: None,
        },
        labelling: args.labelling.map(|labelling| match labelling {
            LabellingName::OneOf => LabellingRecipe::OneOf { weights: None },
            LabellingName::PerClass => LabellingRecipe::PerClass {},
        }),
        training: Training {
            way: args.fitting.real.map(|way| match way {
                WayName::Shared => Way::Shared,
                WayName::Frozen => Way::Frozen,
                WayName::Smoothed => Way::Smoothed,
            }),
            backbone: backbone(args),
            network: args.fitting.network.map(|network| match network {
                NetworkName::Lenet5 => Network::Lenet5,
                NetworkName::MobilenetV2 => Network::MobilenetV2,
                NetworkName::Resnet9 => Network::Resnet9,
            }),
            joint: if args.fitting.no_joint {
                Joint::Left
            } else {
                Joint::Learnt
            },
            rounds: args.fitting.rounds,
            balance: args.fitting.balance,
            epochs: args.fitting.epochs,
            batch: args.fitting.batch,
            items: args.fitting.items,
            generated: args.fitting.generated,
            stored: match args.fitting.stored {
                Some(StoredName::Half) => Stored::Half,
                Some(StoredName::Float32) | None => Stored::Float32,
            },
            seed: args.fitting.seed,
            likeness: args.fitting.likeness,
        },
        onnxruntime: args.train.onnxruntime(),
        replace: args.force,
    };
    let bars = Bars::new(args.quiet);
    let answer = fit(&request, &args.train.trainer(), &bars)?;
    drop(bars);
    match answer {
        s2m_fit::Answer::No => Ok(Answer::No),
        s2m_fit::Answer::Fitted(fitted) => {
            writeln!(streams.out, "{}", fitted.bundle.display())?;
            Ok(Answer::Yes)
        }
    }
}

fn backbone(args: &FitArgs) -> Option<Backbone> {
    if let Some(model) = &args.from {
        return Some(Backbone::Of(model.clone()));
    }
    let fitting = &args.fitting;
    fitting.backbone.as_ref().map(|file| Backbone::File {
        file: file.clone(),
        features: fitting.features.clone(),
        range: fitting.backbone_range,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_two_rising_numbers() {
        assert_eq!(range("-1,1"), Ok([-1.0, 1.0]));
        for wrong in ["1", "1,0", "a,b", "0,inf"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
