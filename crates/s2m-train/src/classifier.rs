//! `classifier`: three classifiers on one trunk for every generator of a finished GAN run, and the
//! bundles that `s2m sample` draws from.
//!
//! ```text
//! L_r = CE(D_r(x), label)        real items
//! L_v = softplus(−D_v(x)) + softplus(D_v(G(z)))
//! L_f = CE(D_f(G(z, c)), c)      conditional generators
//! ```
//!
//! Real items of `L_v` are those of `L_r`. Generated pictures are rounded to the levels that files
//! hold, so that `D_v` judges what is written.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use s2m_data::recipe::{DataRecipe, Loaded};
use s2m_model::manifest::CalibrationEntry;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tch::{Kind, Tensor, no_grad};

use crate::bundle::{self, Parts};
use crate::calibrate::{self, CalibrationSettings};
use crate::device::{Machine, Precision};
use crate::feed::{Feed, Pool, one_hot};
use crate::folder::RunFolder;
use crate::generators::{Generators, OwnGenerator, Subjects};
use crate::networks::classifier::{Classifier, RealFit, Trunk};
use crate::networks::lenet5;
use crate::noise::{self, Draws, Needs, Purpose};
use crate::objectives::mean;
use crate::optimizer::OptimizerSettings;
use crate::parameters::gradients;
use crate::replica::{Replica, is_picture};
use crate::trained::{Start, Trained};
use crate::training::{self, Plan, Work};

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
    pub batch: i64,
    #[serde(default)]
    pub precision: Precision,
    #[serde(default = "every_1000")]
    pub log_every: u64,
    #[serde(default = "every_1000")]
    pub checkpoint_every: u64,
    pub network: TrunkSettings,
    /// How D_v is fitted.
    #[serde(default)]
    pub real: RealSettings,
    pub optimizer: OptimizerSettings,
    #[serde(default)]
    pub calibration: CalibrationSettings,
    /// The paper's own settings for this data, kept in the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<CalibrationEntry>,
    /// A generator from elsewhere, in the place of a GAN run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<OwnGenerator>,
    /// The data of a generator from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataRecipe>,
}

fn every_1000() -> u64 {
    1000
}

/// Which trunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TrunkSettings {
    Lenet5 {},
    Mlp {
        /// Layers; the last one's outputs are the features.
        hidden: Vec<i64>,
    },
}

/// How D_v is fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fit", rename_all = "kebab-case", deny_unknown_fields)]
pub enum RealSettings {
    Shared {},
    Frozen {
        /// Passes for the other heads, after those for the trunk.
        epochs: u64,
    },
    Smoothed {},
}

impl Default for RealSettings {
    fn default() -> Self {
        Self::Shared {}
    }
}

impl RealSettings {
    /// Passes for heads that are fitted after the trunk.
    fn epochs(self) -> u64 {
        match self {
            Self::Frozen { epochs } => epochs,
            Self::Shared {} | Self::Smoothed {} => 0,
        }
    }

    fn fit(self) -> RealFit {
        match self {
            Self::Shared {} => RealFit::Shared,
            Self::Frozen { .. } => RealFit::Frozen,
            Self::Smoothed {} => RealFit::Smoothed,
        }
    }
}

/// Pictures rounded to the 256 levels of a file, as the scoring graph rounds them.
pub fn as_written(items: &Tensor) -> Tensor {
    ((items + 1.0) * 127.5).round().clamp(0.0, 255.0) * (2.0 / 255.0) - 1.0
}

/// The classifiers of a run in training.
struct Training<'a> {
    settings: &'a ClassifierSettings,
    generators: &'a Generators,
    network: &'a Classifier,
    feed: Feed,
    /// `frozen`: the step at which the trunk is done.
    changes_at: u64,
    class: Trained,
    others: Trained,
}

/// What is trained in a stretch of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The trunk with the `class` head.
    Class,
    /// The other heads, on the trunk as it stands.
    Others,
    /// Everything.
    All,
}

const LOSSES: &[&str] = &["class", "real", "fake-class"];

impl Training<'_> {
    fn phase(&self, step: u64) -> Phase {
        match self.settings.real.fit() {
            RealFit::Frozen if step < self.changes_at => Phase::Class,
            RealFit::Frozen => Phase::Others,
            RealFit::Shared | RealFit::Smoothed => Phase::All,
        }
    }

    /// One step of a phase: losses as `[3, replicas]`.
    fn train(&mut self, phase: Phase, draws: &mut Draws) -> Tensor {
        let batch = self.settings.batch;
        let real = self.feed.draw(draws, Pool::All, batch);
        if phase == Phase::Class {
            let (_, logits) = self.network.class(self.class.weights(), &real.items);
            let loss = cross_entropy(&logits, &real.labels);
            self.class.descend(&loss.sum(Kind::Float));
            let none = loss.zeros_like();
            return Tensor::stack(&[loss.detach(), none.shallow_clone(), none], 0);
        }
        let (fake, classes) = self.generators.draw(&self.feed, draws, batch);
        let both = Tensor::cat(&[&real.items, &fake], 1);
        let features_and_class = || self.network.class(self.class.weights(), &both);
        let (features, logits) = match phase {
            Phase::Others => no_grad(features_and_class),
            Phase::All | Phase::Class => features_and_class(),
        };
        let (real_logits, fake_class) =
            self.network.others(self.others.weights(), &both, &features);
        let class_loss = cross_entropy(&logits.narrow(1, 0, batch), &real.labels);
        let real_loss = mean(&(-real_logits.narrow(1, 0, batch)).softplus())
            + mean(&real_logits.narrow(1, batch, batch).softplus());
        let fake_loss = fake_class.map_or_else(
            || real_loss.zeros_like(),
            |logits| cross_entropy(&logits.narrow(1, batch, batch), &classes),
        );
        let others = &real_loss + &fake_loss;
        if phase == Phase::Others {
            self.others.descend(&others.sum(Kind::Float));
        } else {
            let total = (&class_loss + others).sum(Kind::Float);
            let networks = [&self.class.parameters, &self.others.parameters];
            let [class, others] = gradients(&total, networks);
            self.class.apply(&class);
            self.others.apply(&others);
        }
        Tensor::stack(
            &[class_loss.detach(), real_loss.detach(), fake_loss.detach()],
            0,
        )
    }
}

impl Work for Training<'_> {
    fn needs(&self) -> Needs {
        let batch = self.settings.batch;
        let made = self.generators.needs(batch);
        Needs {
            uniform: batch + made.uniform,
            ..made
        }
    }

    fn losses(&self) -> &'static [&'static str] {
        LOSSES
    }

    fn step(&mut self, at: u64, draws: &mut Draws) -> Tensor {
        self.train(self.phase(at), draws)
    }

    fn members(&mut self) -> Vec<&mut Trained> {
        vec![&mut self.class, &mut self.others]
    }

    fn changes_at(&self, step: u64) -> bool {
        step == self.changes_at
    }
}

/// Mean cross entropy over the batch for every replica.
pub fn cross_entropy(logits: &Tensor, labels: &Tensor) -> Tensor {
    let classes = *logits.size().last().expect("logits have a class axis");
    let likelihood = logits.log_softmax(-1, Kind::Float) * one_hot(labels, classes);
    -mean(&likelihood.sum_dim_intlist([-1].as_slice(), false, Kind::Float))
}

/// The trunk that a run file asks for, checked against the items.
pub fn trunk(settings: &TrunkSettings, loaded: &Loaded) -> Result<Trunk> {
    let items = &loaded.train.items;
    match settings {
        TrunkSettings::Mlp { hidden } => {
            ensure!(
                hidden.iter().all(|side| (1..=1 << 16).contains(side)),
                "`network.hidden` must list layers of 1 to 65536 units"
            );
            ensure!(
                items.shape.len() == 1,
                "`mlp` classifies points; pictures take `lenet5`"
            );
            Trunk::mlp(items.item_size() as i64, hidden)
        }
        TrunkSettings::Lenet5 {} => {
            let side = lenet5::SIDE as usize;
            ensure!(
                items.shape == [1, side, side],
                "`lenet5` takes pictures of shape [1, {side}, {side}], the data has {:?}",
                items.shape
            );
            Ok(Trunk::LeNet5)
        }
    }
}

/// Trains all classifiers, calibrates them on held-out items and writes the bundles.
pub fn train(settings: &ClassifierSettings, out: &Path, machine: &Machine) -> Result<()> {
    ensure!(
        (1..=1 << 20).contains(&settings.batch),
        "`batch` must be from 1 to 1048576"
    );
    ensure!(settings.epochs > 0, "`epochs` must be above 0");
    settings.calibration.check()?;
    ensure!(
        settings.real != RealSettings::Frozen { epochs: 0 },
        "`epochs` of a frozen fit must be above 0"
    );
    let folder = RunFolder::open(out, settings)?;
    if folder.finished() {
        return Ok(());
    }
    let generators = Generators::open(settings, machine)?;
    let first = &generators.loaded[generators.replicas[0].data];
    let picture = is_picture(&first.train.items);
    ensure!(
        picture || settings.real.fit() != RealFit::Smoothed,
        "`smoothed` blurs pictures; points have `shared` and `frozen`"
    );
    let network = Classifier {
        trunk: trunk(&settings.network, first)?,
        classes: first.train.labels.len() as i64,
        conditional: generators.conditional(),
        fit: settings.real.fit(),
    };
    let keys: Vec<u64> = generators
        .replicas
        .iter()
        .map(|replica| noise::key(replica.key(), Purpose::Weights, "classifier"))
        .collect();
    let per_epoch = generators.steps_per_epoch(settings.batch)?;
    let plan = Plan {
        what: "classifier",
        steps: (settings.epochs.saturating_add(settings.real.epochs())).saturating_mul(per_epoch),
        log_every: settings.log_every,
        checkpoint_every: settings.checkpoint_every,
        replicas: &generators.replicas,
        keys: &keys,
        origin: &generators.sha256,
    };
    plan.check()?;
    settings.optimizer.check(plan.steps)?;
    machine.set(settings.precision)?;
    let changes_at = settings.epochs * per_epoch;
    let start = |steps| Start {
        keys: &keys,
        optimizer: settings.optimizer,
        steps,
        device: machine.device,
    };
    let other_steps = match settings.real.fit() {
        RealFit::Frozen => plan.steps - changes_at,
        RealFit::Shared | RealFit::Smoothed => plan.steps,
    };
    let mut training = Training {
        settings,
        generators: &generators,
        network: &network,
        feed: Feed::training(&generators.loaded, &generators.replicas, machine.device)?,
        changes_at,
        class: Trained::new("class", network.class_specs(), &start(changes_at)),
        others: Trained::new("others", network.other_specs(), &start(other_steps)),
    };
    folder.claim(settings)?;
    let taken = training::run(&mut training, &plan, &folder, machine)?;
    machine.set(Precision::Float32)?;
    let mut largest = 0.0_f64;
    for replica in 0..generators.replicas.len() {
        let weights =
            [&training.class, &training.others].map(|t| t.parameters.select(&[replica as i64]));
        let parts = Parts {
            network: &network,
            weights: &weights,
        };
        let difference = bundle::write(&folder, &generators, replica, &parts, settings, machine)?;
        largest = largest.max(difference);
    }
    let provenance = |replica: &Replica| generators.provenance(replica, settings);
    calibrate::bundles(
        &folder,
        (&generators.loaded, &generators.replicas),
        &provenance,
        settings,
        machine,
    )?;
    let summary = json!({
        "steps": taken.steps,
        "seconds": taken.seconds,
        "steps_per_second": taken.steps as f64 / taken.seconds,
        "replicas": generators.replicas.len(),
        "device": machine.name(),
        "generators": generators.sha256,
    });
    folder.finish(largest, summary)
}

/// Calibrates the bundles of a finished run again, by the run file's `calibration` and `paper`.
pub fn calibrate_again(settings: &ClassifierSettings, out: &Path, machine: &Machine) -> Result<()> {
    let subjects = Subjects::open(settings)?;
    let folder = RunFolder::finished_run(out)?;
    let before: ClassifierSettings = folder.settings()?;
    let same = ClassifierSettings {
        gan: before.gan.clone(),
        calibration: before.calibration.clone(),
        paper: before.paper.clone(),
        ..settings.clone()
    };
    ensure!(
        same == before,
        "`{}` was trained by another run file\nhint: only `calibration` and `paper` may differ",
        out.display()
    );
    let provenance = |replica: &Replica| subjects.provenance(replica, settings);
    calibrate::bundles(
        &folder,
        (&subjects.loaded, &subjects.replicas),
        &provenance,
        settings,
        machine,
    )?;
    folder.claim(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every level of a file comes back as it is, and what lies between two goes to the nearer one,
    /// halves to even: the rule of the scoring graph (`s2m_model::onnx::adapter`).
    #[test]
    fn pictures_are_rounded_as_they_are_written() {
        let step = 2.0_f32 / 255.0;
        let at = |level: f32| level * step - 1.0;
        let given = [at(0.0), at(7.4), at(7.6), at(255.0), 1.7, -3.0];
        let found =
            Vec::<f32>::try_from(as_written(&Tensor::from_slice(&given))).unwrap_or_default();
        let wanted = [0.0, 7.0, 8.0, 255.0, 255.0, 0.0].map(at);
        for (a, b) in found.iter().zip(wanted) {
            assert!((a - b).abs() < 1e-6, "{found:?} against {wanted:?}");
        }
        assert_eq!(found.len(), 6);
    }

    /// Logits (0, log 3): probabilities 1/4 and 3/4.
    #[test]
    fn cross_entropy_is_the_mean_over_the_batch_of_each_replica() {
        let logits =
            Tensor::from_slice(&[0.0_f32, 3.0_f32.ln(), 0.0, 3.0_f32.ln()]).view([1, 2, 2]);
        let labels = Tensor::from_slice(&[0_i64, 1]).view([1, 2]);
        let wanted = -f64::midpoint(0.25_f64.ln(), 0.75_f64.ln());
        assert!((cross_entropy(&logits, &labels).double_value(&[0]) - wanted).abs() < 1e-6);
    }
}
