//! What a person asks of a fit.

use std::path::{Path, PathBuf};

use s2m_data::recipe::LabellingRecipe;
use s2m_model::probe::Said;
use s2m_runs::Way;
use s2m_runs::parts::Stored;

/// One request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The generator, an ONNX file; that of the bundle to which labels are added where left out.
    pub generator: Option<&'a Path>,
    /// A folder of data, or a recipe.
    pub data: &'a Path,
    /// The bundle to make.
    pub out: &'a Path,
    /// Folder of the training; beside the bundle where left out.
    pub work: Option<&'a Path>,
    /// What a person says about the generator.
    pub said: Said,
    /// How the labels came about; as in the bundle to which labels are added, or `one-of`, where left out.
    pub labelling: Option<LabellingRecipe>,
    /// How classifiers are trained.
    pub training: Training,
    /// Explicit path of ONNX Runtime.
    pub onnxruntime: Option<&'a Path>,
    /// Replace a bundle of that name.
    pub replace: bool,
}

/// How classifiers are trained; what is left out is chosen by the items.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Training {
    /// How the discriminator is fitted; all ways are tried where left out.
    pub way: Option<Way>,
    /// What turns items into features; trained with the classifiers where left out.
    pub backbone: Option<Backbone>,
    /// What turns items into features and is trained; by the items where left out.
    pub network: Option<Network>,
    /// Whether an output per label set is learnt.
    pub joint: Joint,
    /// Most rounds of students behind it.
    pub rounds: Option<u64>,
    /// Draw every label equally often.
    pub balance: bool,
    /// Passes over the training items.
    pub epochs: Option<u64>,
    /// Items per step.
    pub batch: Option<u64>,
    /// Generated items to train on.
    pub items: Option<u32>,
    /// Fresh generated items to calibrate by; by their size where left out.
    pub generated: Option<u64>,
    /// How weights lie in the bundle's files.
    pub stored: Stored,
    /// Seed of first weights and generated items.
    pub seed: u64,
    /// Accepted share down to which likeness to real items is paid for; the knee where left out.
    pub likeness: Option<f64>,
}

/// A trunk that is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// For pictures of 28 by 28 in grey.
    Lenet5,
    /// The paper's, for pictures.
    MobilenetV2,
    /// A residual network of nine layers, for pictures.
    Resnet9,
}

/// Whether an output per label set is learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Joint {
    /// From single labels, where there are two labels or more.
    #[default]
    Learnt,
    /// From the items' true label sets, as a ceiling for trials.
    Supervised,
    /// Not at all.
    Left,
}

/// A network that turns items into features and stays as it is.
#[derive(Debug, Clone, PartialEq)]
pub enum Backbone {
    /// An ONNX file, and which of its values are the features.
    File {
        /// The file.
        file: PathBuf,
        /// The value; the only output where left out.
        features: Option<String>,
        /// What black and white are at its input; -1 and 1 where left out.
        range: Option<[f64; 2]>,
    },
    /// The trunk of a bundle that `s2m` trained, to which labels are added.
    Of(PathBuf),
}
