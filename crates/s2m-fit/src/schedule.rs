//! The run files of a fit: trunk and schedule by the shape of the items, one file for each way to fit D_v.

use std::path::Path;

use s2m::models;
use s2m_calibrate::CalibrationSettings;
use s2m_data::recipe::{DataRecipe, Loaded};
use s2m_model::networks::Device;
use s2m_model::onnx::backbone::FEATURES;
use s2m_runs::classifier::{
    DEFAULT_ITEMS, JointChoice, JointSettings, OwnGenerator, RESNET9_WIDTH, RealSettings,
    TrunkSettings,
};
use s2m_runs::parts::{self, Augment, BETA1, BETA2, Edge, OptimizerSettings, Precision};
use s2m_runs::{ClassifierSettings, Way, folder};

use crate::error::Error;
use crate::request::{Backbone, Joint, Network, Request, Training};

/// What a run file says beside the way and the data.
pub(super) struct Schedule<'a> {
    training: &'a Training,
    chosen: Chosen,
    network: TrunkSettings,
    labels: usize,
    /// Items to train on.
    items: u64,
    device: Device,
}

/// What is chosen for items of one kind.
#[derive(Clone, Copy)]
struct Chosen {
    epochs: u64,
    batch: u64,
    optimizer: OptimizerSettings,
    augment: Option<Augment>,
    ways: &'static [Way],
    /// Whether the class head has a trunk to itself before all outputs share it.
    class_first: bool,
    /// Passes of each of the many trainings behind label sets: small networks learn shown labels by heart in more.
    joint_epochs: u64,
}

/// Adam for small networks.
const ADAM: OptimizerSettings = OptimizerSettings::Adam {
    learning_rate: 1e-3,
    beta1: BETA1,
    beta2: BETA2,
    schedule: parts::Schedule::Cosine,
    warm_up: 0.0,
};

/// Mirrored and moved by up to four pixels.
const MOVED: Augment = Augment {
    flip: true,
    shift: 4,
    cutout: 0,
    edge: Edge::Black,
};

impl Chosen {
    const POINTS: Self = Self {
        epochs: 30,
        batch: 256,
        optimizer: ADAM,
        augment: None,
        ways: &[Way::Shared, Way::Frozen],
        class_first: false,
        joint_epochs: 10,
    };
    const DIGITS: Self = Self {
        epochs: 20,
        batch: 256,
        optimizer: ADAM,
        augment: None,
        ways: &[Way::Shared, Way::Frozen, Way::Smoothed],
        class_first: false,
        joint_epochs: 5,
    };
    const PICTURES: Self = Self {
        epochs: 30,
        batch: 128,
        optimizer: OptimizerSettings::Sgd {
            learning_rate: 0.05,
            momentum: 0.9,
            nesterov: false,
            weight_decay: 0.0,
            schedule: parts::Schedule::Cosine,
            warm_up: 0.0,
        },
        augment: Some(MOVED),
        ways: &[Way::Shared, Way::Frozen, Way::Smoothed],
        class_first: true,
        joint_epochs: 30,
    };
    const COLOUR: Self = Self {
        epochs: 30,
        batch: 512,
        optimizer: OptimizerSettings::Sgd {
            learning_rate: 0.3,
            momentum: 0.9,
            nesterov: true,
            weight_decay: 5e-4,
            schedule: parts::Schedule::Cosine,
            warm_up: 0.1,
        },
        augment: Some(Augment {
            cutout: 10,
            edge: Edge::Mirror,
            ..MOVED
        }),
        ways: &[Way::Shared, Way::Frozen, Way::Smoothed],
        class_first: true,
        joint_epochs: 30,
    };
    /// Outputs alone, on features that stay as they are.
    const HEADS: Self = Self {
        epochs: 30,
        batch: 256,
        optimizer: ADAM,
        augment: None,
        ways: &[Way::Frozen],
        class_first: false,
        joint_epochs: 10,
    };
}

/// Passes of the shorter phase, out of those of the longer one.
const SHORTER: u64 = 6;

/// Steps that a training should take: few items are passed over more often, since a network is not done after the 140
/// steps that five passes over the folds of 10,000 items come to.
const STEPS: u64 = 1000;

/// Most times as many passes as usual that few items get.
const MORE: u64 = 5;

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
            (Chosen::HEADS, given(backbone, work)?)
        } else {
            let shape = &*data.train.items.shape;
            match (training.network, shape) {
                (None, [_]) => {
                    let hidden = vec![256, 256, 256];
                    (Chosen::POINTS, TrunkSettings::Mlp { hidden })
                }
                (Some(Network::Lenet5), _) | (None, [1, 28, 28]) => {
                    (Chosen::DIGITS, TrunkSettings::Lenet5 {})
                }
                (Some(Network::Resnet9), _) | (None, [3, ..]) => {
                    let width = RESNET9_WIDTH;
                    (Chosen::COLOUR, TrunkSettings::Resnet9 { width })
                }
                (Some(Network::MobilenetV2) | None, _) => {
                    (Chosen::PICTURES, TrunkSettings::MobilenetV2 {})
                }
            }
        };
        Ok(Self {
            training,
            chosen,
            network,
            labels: data.train.labels.len(),
            items: data.split.train.len() as u64,
            device,
        })
    }

    /// Items of a step.
    fn batch(&self) -> u64 {
        self.training.batch.unwrap_or(self.chosen.batch)
    }

    /// Passes of a training: as asked for, or as usual, and more often over few items.
    fn passes(&self, usual: u64) -> u64 {
        let steps = self.items.div_ceil(self.batch().max(1)).max(1);
        let needed = STEPS.div_ceil(steps).min(MORE * usual);
        self.training.epochs.unwrap_or(usual.max(needed))
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
        let settings = self.settings(way, recipe, work);
        let text = toml::to_string(&settings).map_err(|e| Error::Setting(e.to_string()))?;
        Ok(format!("# Written by `s2m fit`.\n{text}"))
    }

    /// What it says.
    fn settings(&self, way: Way, recipe: &DataRecipe, work: &Path) -> ClassifierSettings {
        let Self {
            training, chosen, ..
        } = self;
        let long = self.passes(chosen.epochs);
        let short = (long / SHORTER).max(1);
        let (epochs, real) = match way {
            Way::Shared if chosen.class_first => {
                (short, RealSettings::Shared { class_epochs: long })
            }
            Way::Shared => (long, RealSettings::Shared { class_epochs: 0 }),
            Way::Frozen => (long, RealSettings::Frozen { epochs: short }),
            Way::Smoothed => (long, RealSettings::Smoothed {}),
        };
        let in_bf16 =
            self.device == Device::Cuda && matches!(self.network, TrunkSettings::Resnet9 { .. });
        ClassifierSettings {
            real,
            augment: chosen.augment,
            balance: training.balance,
            stored: training.stored,
            precision: if in_bf16 {
                Precision::Bf16
            } else {
                Precision::default()
            },
            joint: Some(self.joint(work)),
            // All ways are calibrated together afterwards.
            calibration: CalibrationSettings {
                generated: Some(1000),
                ..CalibrationSettings::default()
            },
            generator: Some(OwnGenerator {
                file: work.join(folder::GENERATOR),
                items: training.items.unwrap_or(DEFAULT_ITEMS),
                seed: training.seed,
            }),
            data: Some(recipe.clone()),
            ..ClassifierSettings::new(
                epochs,
                i64::try_from(self.batch()).unwrap_or(i64::MAX),
                self.network.clone(),
                chosen.optimizer,
            )
        }
    }

    /// What a run file says about label sets: all ways stand on one student.
    fn joint(&self, work: &Path) -> JointChoice {
        let supervised = match self.training.joint {
            Joint::Left => return JointChoice::Switch(false),
            _ if self.labels < 2 => return JointChoice::Switch(false),
            Joint::Learnt => false,
            Joint::Supervised => true,
        };
        let usual = JointSettings::default();
        JointChoice::Settings(JointSettings {
            folder: Some(work.join(folder::JOINT)),
            epochs: Some(self.passes(self.chosen.joint_epochs)),
            rounds: self.training.rounds.map_or(usual.rounds, |rounds| {
                usize::try_from(rounds).unwrap_or(usize::MAX)
            }),
            supervised,
            ..usual
        })
    }
}

/// A network that stays as it is.
fn given(backbone: &Backbone, work: &Path) -> Result<TrunkSettings, Error> {
    Ok(match backbone {
        Backbone::File {
            file,
            features,
            range,
        } => TrunkSettings::Onnx {
            file: file.clone(),
            features: features.clone(),
            range: *range,
        },
        Backbone::Of(model) => {
            let bundle = models::open(model)?;
            let file = work.join("backbone.onnx");
            s2m::output::write_whole(&file, &bundle.classifier().bytes)?;
            TrunkSettings::Onnx {
                file,
                features: Some(FEATURES.to_owned()),
                range: bundle.manifest().classifier.input.range,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use s2m_runs::parts::Stored;

    use super::*;

    #[test]
    fn a_run_file_is_read_as_it_was_written() {
        let recipe: DataRecipe = toml::from_str(
            "name = \"bars\"\nlabelling = { model = \"one-of\" }\nsource = { format = \"folders\", folder = \"/bars\" }",
        )
        .unwrap();
        let training = Training {
            rounds: Some(3),
            joint: Joint::Supervised,
            stored: Stored::Half,
            ..Training::default()
        };
        let width = RESNET9_WIDTH;
        let kinds = [
            (Chosen::POINTS, TrunkSettings::Mlp { hidden: vec![256] }),
            (Chosen::DIGITS, TrunkSettings::Lenet5 {}),
            (Chosen::PICTURES, TrunkSettings::MobilenetV2 {}),
            (Chosen::COLOUR, TrunkSettings::Resnet9 { width }),
        ];
        for (chosen, network) in kinds {
            let schedule = Schedule {
                training: &training,
                chosen,
                network,
                labels: 2,
                items: 10_000,
                device: Device::Cuda,
            };
            for &way in chosen.ways {
                let work = Path::new("/work");
                let text = schedule.run_file(way, &recipe, work).unwrap();
                let read: ClassifierSettings = toml::from_str(&text).unwrap();
                assert_eq!(read, schedule.settings(way, &recipe, work), "{text}");
                assert!(read.check().is_ok() && read.real.way() == way, "{text}");
                assert_eq!(read.stored, Stored::Half, "{text}");
            }
        }
    }
    #[test]
    fn few_items_are_passed_over_more_often() {
        let schedule = |items, epochs| {
            let training = Training {
                epochs,
                ..Training::default()
            };
            let schedule = Schedule {
                training: &training,
                chosen: Chosen::DIGITS,
                network: TrunkSettings::Lenet5 {},
                labels: 2,
                items,
                device: Device::Cpu,
            };
            [5, 20].map(|usual| schedule.passes(usual))
        };
        // 54,000 items are 211 steps, 10,397 items 41, 300 items 2.
        assert_eq!(schedule(54_000, None), [5, 20]);
        assert_eq!(schedule(10_397, None), [25, 25]);
        assert_eq!(schedule(300, None), [25, 100]);
        assert_eq!(schedule(300, Some(3)), [3, 3]);
    }
}
