//! The run files of a fit: trunk and schedule by the shape of the items, one file for each way to fit D_v.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use s2m_data::recipe::{DataRecipe, Loaded};
use s2m_model::networks::Device;
use s2m_model::onnx::backbone::FEATURES;
use s2m_runs::folder;
use serde::Serialize;

use super::{Backbone, Joint, Network, Request, Training};
use crate::Error;
use s2m::models;

/// Generated items to train on, unless said otherwise.
pub const DEFAULT_ITEMS: u32 = 50_000;

/// How the real output is fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// All outputs on one trunk, as the paper does.
    Shared,
    /// On a trunk that the class output alone has trained.
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

/// What a run file says beside the way and the data.
pub(super) struct Schedule<'a> {
    training: &'a Training,
    chosen: Chosen,
    network: String,
    labels: usize,
    device: Device,
}

/// What is chosen for items of one kind.
#[derive(Clone, Copy)]
struct Chosen {
    epochs: u64,
    batch: u64,
    network: &'static str,
    rest: &'static str,
    ways: &'static [Way],
    /// Whether the class output has a trunk to itself before all outputs share it.
    class_first: bool,
    /// Passes of each of the many trainings behind label sets: small networks learn shown labels by heart in more.
    joint_epochs: u64,
}

impl Chosen {
    const POINTS: Self = Self {
        epochs: 30,
        batch: 256,
        network: "{ kind = \"mlp\", hidden = [256, 256, 256] }",
        rest: "optimizer = { kind = \"adam\", learning-rate = 1e-3, schedule = \"cosine\" }",
        ways: &[Way::Shared, Way::Frozen],
        class_first: false,
        joint_epochs: 10,
    };
    const DIGITS: Self = Self {
        epochs: 20,
        batch: 256,
        network: "{ kind = \"lenet5\" }",
        rest: "optimizer = { kind = \"adam\", learning-rate = 1e-3, schedule = \"cosine\" }",
        ways: &[Way::Shared, Way::Frozen, Way::Smoothed],
        class_first: false,
        joint_epochs: 5,
    };
    const PICTURES: Self = Self {
        epochs: 30,
        batch: 128,
        network: "{ kind = \"mobilenet-v2\" }",
        rest: "optimizer = { kind = \"sgd\", learning-rate = 0.05, momentum = 0.9, schedule = \"cosine\" }\naugment = { flip = true, shift = 4 }",
        ways: &[Way::Shared, Way::Frozen, Way::Smoothed],
        class_first: true,
        joint_epochs: 30,
    };
    const COLOUR: Self = Self {
        epochs: 30,
        batch: 512,
        network: "{ kind = \"resnet9\" }",
        rest: "optimizer = { kind = \"sgd\", learning-rate = 0.3, momentum = 0.9, nesterov = true, weight-decay = 5e-4, schedule = \"cosine\", warm-up = 0.1 }\naugment = { flip = true, shift = 4, cutout = 10, edge = \"mirror\" }",
        ways: &[Way::Shared, Way::Frozen, Way::Smoothed],
        class_first: true,
        joint_epochs: 30,
    };
    /// Outputs alone, on features that stay as they are.
    const HEADS: Self = Self {
        epochs: 30,
        batch: 256,
        network: "",
        rest: "optimizer = { kind = \"adam\", learning-rate = 1e-3, schedule = \"cosine\" }",
        ways: &[Way::Frozen],
        class_first: false,
        joint_epochs: 10,
    };
}

/// The part of a run file that is the data.
#[derive(Serialize)]
struct Section<'a> {
    data: &'a DataRecipe,
}

/// Passes of the shorter phase, out of those of the longer one.
const SHORTER: u64 = 6;

impl<'a> Schedule<'a> {
    /// The schedule for items of a shape; what it needs of other bundles goes to `work`.
    pub(super) fn new(
        request: &'a Request<'_>,
        data: &Loaded,
        work: &Path,
        device: Device,
    ) -> Result<Self, Error> {
        let training = &request.training;
        let (chosen, network) = if let Some(backbone) = &training.backbone {
            (Chosen::HEADS, backbone_text(backbone, work)?)
        } else {
            let shape = &*data.train.items.shape;
            let chosen = match (training.network, shape) {
                (None, [_]) => Chosen::POINTS,
                (Some(Network::Lenet5), _) | (None, [1, 28, 28]) => Chosen::DIGITS,
                (Some(Network::Resnet9), _) | (None, [3, ..]) => Chosen::COLOUR,
                (Some(Network::MobilenetV2) | None, _) => Chosen::PICTURES,
            };
            (chosen, chosen.network.to_owned())
        };
        Ok(Self {
            training,
            chosen,
            network,
            labels: data.train.labels.len(),
            device,
        })
    }

    /// The ways to try.
    pub(super) fn ways(&self, asked: Option<Way>) -> Vec<Way> {
        match asked {
            Some(way) if self.training.backbone.is_none() => vec![way],
            _ => self.chosen.ways.to_vec(),
        }
    }

    /// The run file of one way.
    pub(super) fn run_file(
        &self,
        way: Way,
        recipe: &DataRecipe,
        work: &Path,
    ) -> Result<String, Error> {
        let Self {
            training, chosen, ..
        } = self;
        let long = training.epochs.unwrap_or(chosen.epochs);
        let short = (long / SHORTER).max(1);
        let (epochs, real) = match way {
            Way::Shared if chosen.class_first => (
                short,
                format!("{{ fit = \"shared\", class-epochs = {long} }}"),
            ),
            Way::Frozen => (long, format!("{{ fit = \"frozen\", epochs = {short} }}")),
            Way::Shared | Way::Smoothed => (long, format!("{{ fit = \"{}\" }}", way.name())),
        };
        let data = toml::to_string(&Section { data: recipe });
        let data = data.map_err(|e| Error::Setting(e.to_string()))?;
        let batch = training.batch.unwrap_or(chosen.batch);
        let mut text = format!(
            "# Written by `s2m fit`.\nepochs = {epochs}\nbatch = {batch}\nnetwork = {}\nreal = {real}\n{}\n",
            self.network, chosen.rest
        );
        if training.balance {
            text.push_str("balance = true\n");
        }
        if self.device == Device::Cuda && self.network.contains("resnet9") {
            text.push_str("precision = \"bf16\"\n");
        }
        text.push_str(&self.joint_text(work));
        // All ways are calibrated together afterwards.
        text.push_str("calibration = { generated = 1000 }\n");
        let _ = write!(
            text,
            "\n[generator]\nfile = {:?}\nitems = {}\nseed = {}\n\n{data}",
            work.join(folder::GENERATOR).display().to_string(),
            training.items.unwrap_or(DEFAULT_ITEMS),
            training.seed,
        );
        Ok(text)
    }
}

impl Schedule<'_> {
    /// What a run file says about label sets: all ways stand on one student.
    fn joint_text(&self, work: &Path) -> String {
        let supervised = match self.training.joint {
            Joint::Left => return "joint = false\n".to_owned(),
            _ if self.labels < 2 => return "joint = false\n".to_owned(),
            Joint::Learnt => "",
            Joint::Supervised => ", supervised = true",
        };
        let folder = work.join(folder::JOINT).display().to_string();
        let epochs = self.training.epochs.unwrap_or(self.chosen.joint_epochs);
        let rounds = match self.training.rounds {
            Some(rounds) => format!(", rounds = {rounds}"),
            None => String::new(),
        };
        format!("joint = {{ folder = {folder:?}, epochs = {epochs}{rounds}{supervised} }}\n")
    }
}

/// What a run file says about a network that stays as it is.
fn backbone_text(backbone: &Backbone, work: &Path) -> Result<String, Error> {
    let (file, features, range): (PathBuf, Option<&str>, Option<[f64; 2]>) = match backbone {
        Backbone::File {
            file,
            features,
            range,
        } => (file.clone(), features.as_deref(), *range),
        Backbone::Of(model) => {
            let bundle = models::open(model)?;
            let file = work.join("backbone.onnx");
            s2m::output::write_whole(&file, &bundle.classifier().bytes)?;
            let range = bundle.manifest().classifier.input.range;
            (file, Some(FEATURES), range)
        }
    };
    let mut text = format!(
        "{{ kind = \"onnx\", file = {:?}",
        file.display().to_string()
    );
    if let Some(features) = features {
        let _ = write!(text, ", features = {features:?}");
    }
    if let Some([low, high]) = range {
        let _ = write!(text, ", range = [{low:?}, {high:?}]");
    }
    Ok(text + " }")
}
