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

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use s2m_core::streams::training::CLASSIFIER;
use s2m_data::recipe::Loaded;
use s2m_runs::classifier::RealSettings;
use s2m_runs::gan::Form;
use s2m_runs::parts::Precision;
use s2m_runs::{ClassifierSettings, Done, Way};
use tch::{Kind, Tensor, no_grad};

use crate::augment;
use crate::bundle::{self, Parts};
use crate::calibrate;
use crate::device::Machine;
use crate::feed::{Feed, Pool};
use crate::folder::RunFolder;
use crate::generators::{Generators, Subjects};
use crate::joint::{self, Learnt};
use crate::networks::Mode;
use crate::networks::balance::Balance;
use crate::networks::classifier::{Classifier, Trunk};
use crate::networks::given::Given;
use crate::noise::{self, Draws, Needs, Purpose};
use crate::objectives::{cross_entropy, mean};
use crate::parameters::{Parameters, gradients};
use crate::replica::{Replica, is_picture};
use crate::trained::{Start, Trained};
use crate::training::{self, Plan, Taken, Work};

/// How the outputs of networks are corrected that were trained on one data set.
fn balance_of(settings: &ClassifierSettings, data: &Loaded) -> Option<Balance> {
    settings.balance.then(|| Balance::new(&data.observed))
}

/// The two phases of a run whose file asks for so many epochs, and the passes of each.
fn phases(real: RealSettings, epochs: u64) -> [(Phase, u64); 2] {
    match real {
        RealSettings::Shared { class_epochs } => {
            [(Phase::Class, class_epochs), (Phase::All, epochs)]
        }
        RealSettings::Frozen { epochs: others } => {
            [(Phase::Class, epochs), (Phase::Others, others)]
        }
        RealSettings::Smoothed {} => [(Phase::Class, 0), (Phase::All, epochs)],
    }
}

/// The same where a student has trained the trunk and its class head: `shared` heads have a trunk of their own.
fn phases_after_student(real: RealSettings, epochs: u64) -> [(Phase, u64); 2] {
    match real {
        RealSettings::Shared { .. } => phases(real, epochs),
        RealSettings::Frozen { epochs: others } => [(Phase::Class, 0), (Phase::Others, others)],
        RealSettings::Smoothed {} => [(Phase::Class, 0), (Phase::Others, epochs)],
    }
}

/// The classifiers of a run in training.
struct Training<'a> {
    settings: &'a ClassifierSettings,
    generators: &'a Generators,
    network: &'a Classifier,
    feed: Feed,
    schedule: Schedule,
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

/// The phases of a run in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Schedule {
    phases: [(Phase, u64); 2],
}

impl Schedule {
    fn new(settings: &ClassifierSettings, learnt: Option<&Learnt>, steps_per_epoch: u64) -> Self {
        let phases = match learnt {
            None => phases(settings.real, settings.epochs),
            Some(_) => phases_after_student(settings.real, settings.epochs),
        };
        Self {
            phases: phases.map(|(phase, epochs)| (phase, epochs.saturating_mul(steps_per_epoch))),
        }
    }

    /// Steps of all phases but one.
    fn steps_without(self, skipped: Option<Phase>) -> u64 {
        let counts = self
            .phases
            .iter()
            .filter(|(phase, _)| Some(*phase) != skipped);
        counts.fold(0, |sum: u64, (_, steps)| sum.saturating_add(*steps))
    }

    fn at(self, step: u64) -> Phase {
        let [(first, steps), (second, _)] = self.phases;
        if step < steps { first } else { second }
    }
}

const LOSSES: &[&str] = &["class", "real", "fake-class"];

impl Training<'_> {
    /// Items as the networks see them in training.
    fn augmented(&self, items: Tensor, draws: &mut Draws) -> Tensor {
        match (self.settings.augment, self.network.trunk.picture()) {
            (Some(augment), Some(picture)) => augment::apply(augment, &items, picture, draws),
            _ => items,
        }
    }

    /// Where real items are drawn from.
    fn pool(&self) -> Pool {
        if self.settings.balance {
            Pool::Balanced
        } else {
            Pool::All
        }
    }

    /// One step of a phase: losses as `[3, replicas]`.
    fn train(&mut self, phase: Phase, draws: &mut Draws) -> Tensor {
        let batch = self.settings.batch;
        let real = self.feed.draw(draws, self.pool(), batch);
        if phase == Phase::Class {
            let items = self.augmented(real.items, draws);
            let weights = self.class.weights();
            let (_, logits) = self.network.class(weights, &items, Mode::Training);
            let loss = cross_entropy(&logits, &real.labels);
            self.class.descend(&loss.sum(Kind::Float));
            let none = loss.zeros_like();
            return Tensor::stack(&[loss.detach(), none.shallow_clone(), none], 0);
        }
        let (fake, classes) = self.generators.draw(&self.feed, draws, batch);
        let both = self.augmented(Tensor::cat(&[&real.items, &fake], 1), draws);
        let features_and_class = |mode| self.network.class(self.class.weights(), &both, mode);
        let (features, logits) = match phase {
            Phase::Others => no_grad(|| features_and_class(Mode::Evaluation)),
            Phase::All | Phase::Class => features_and_class(Mode::Training),
        };
        let others = self.others.weights();
        let (real_logits, fake_class) =
            self.network
                .others(others, &both, &features, Mode::Training);
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
        let changes = match self.settings.augment {
            Some(augment) => augment::needs(augment, 2 * batch),
            None => 0,
        };
        Needs {
            uniform: self.pool().numbers() * batch + made.uniform + changes,
            ..made
        }
    }

    fn losses(&self) -> &'static [&'static str] {
        LOSSES
    }

    fn step(&mut self, at: u64, draws: &mut Draws) -> Tensor {
        self.train(self.schedule.at(at), draws)
    }

    fn members(&mut self) -> Vec<&mut Trained> {
        vec![&mut self.class, &mut self.others]
    }

    fn changes_at(&self, step: u64) -> bool {
        step > 0 && self.schedule.at(step) != self.schedule.at(step - 1)
    }
}

/// What a step on the heads alone costs, of one that trains the trunk: real and generated items go through it, and
/// nothing comes back.
const HEADS: f64 = 2.0 / 3.0;

/// Networks times steps of the phases of a run, for its forecast.
fn work_of_phases(settings: &ClassifierSettings, generators: &Generators, steps: u64) -> f64 {
    let after = phases_after_student(settings.real, settings.epochs);
    let cost = |(phase, epochs): (Phase, u64)| {
        let step = match phase {
            Phase::Class => 1.0,
            Phase::Others => HEADS,
            Phase::All => 2.0,
        };
        step * epochs as f64
    };
    let passes: f64 = after.into_iter().map(cost).sum();
    passes * steps as f64 * generators.replicas.len() as f64
}

/// Trains all classifiers, calibrates them on held-out items and writes the bundles.
pub fn train(settings: &ClassifierSettings, out: &Path, machine: &Machine) -> Result<()> {
    train_before(settings, out, machine, 0)
}

/// The same as the first of several runs on one student: the forecast includes those that follow.
pub fn train_before(
    settings: &ClassifierSettings,
    out: &Path,
    machine: &Machine,
    further: u64,
) -> Result<()> {
    settings.check()?;
    let folder = RunFolder::open(out, settings)?;
    if folder.finished() {
        return Ok(());
    }
    let generators = Generators::open(settings, machine)?;
    let network = network(settings, &generators)?;
    let per_epoch = generators.steps_per_epoch(settings.batch)?;
    let after = (1 + further) as f64 * work_of_phases(settings, &generators, per_epoch);
    let asked = joint::Asked {
        settings,
        generators: &generators,
        trunk: &network.trunk,
        after,
    };
    let learnt = joint::learn(&asked, &folder, machine)?;
    let learnt = learnt.as_ref();
    let (weights, taken) = fit(settings, &generators, (&network, learnt), &folder, machine)?;
    let mut largest = 0.0_f64;
    for replica in 0..generators.replicas.len() {
        let own = weights.each_ref().map(|all| all.select(&[replica as i64]));
        let parts = Parts {
            network: &network,
            weights: &own,
            balance: balance_of(settings, generators.data(replica).1),
            sets: learnt.map(|learnt| learnt.of(replica)).transpose()?,
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
    let done = Done {
        generators: Some(generators.sha256.clone()),
        ..Done::new(
            generators.replicas.len(),
            (taken.steps, taken.seconds),
            machine.name(),
        )
    };
    folder.finish(largest, done)
}

/// The network that a run file asks for, checked against the items.
fn network(settings: &ClassifierSettings, generators: &Generators) -> Result<Classifier> {
    let first = &generators.loaded[generators.replicas[0].data];
    ensure!(
        is_picture(&first.train.items) || settings.real.way() != Way::Smoothed,
        "`smoothed` blurs pictures; points have `shared` and `frozen`"
    );
    let trunk = match &generators.frozen {
        Some(frozen) => Trunk::Given(Given {
            size: frozen.size(),
        }),
        None => Trunk::of(&settings.network, first)?,
    };
    let trunk = trunk.trained_in(settings.precision)?;
    if let Some(augment) = settings.augment {
        let picture = trunk.picture();
        augment.check(picture.context("`augment` changes pictures; the data has points")?)?;
    }
    Ok(Classifier {
        trunk,
        classes: first.train.labels.len() as i64,
        conditional: generators.conditional(),
        fit: settings.real.way(),
    })
}

/// Trains the two groups of weights of all classifiers.
fn fit(
    settings: &ClassifierSettings,
    generators: &Generators,
    (network, learnt): (&Classifier, Option<&Learnt>),
    folder: &RunFolder,
    machine: &Machine,
) -> Result<([Parameters; 2], Taken)> {
    let keys: Vec<u64> = generators
        .replicas
        .iter()
        .map(|replica| noise::key(replica.key(), Purpose::Weights, CLASSIFIER))
        .collect();
    let per_epoch = generators.steps_per_epoch(settings.batch)?;
    let schedule = Schedule::new(settings, learnt, per_epoch);
    let plan = Plan {
        what: "classifier",
        steps: schedule.steps_without(None),
        log_every: settings.log_every,
        checkpoint_every: settings.checkpoint_every,
        replicas: &generators.replicas,
        keys: &keys,
        origin: &generators.sha256,
        form: Form::default(),
        follows: 0.0,
    };
    plan.check()?;
    settings.optimizer.check(plan.steps)?;
    machine.set(settings.precision)?;
    let start = |skipped| Start {
        keys: &keys,
        optimizer: settings.optimizer,
        steps: schedule.steps_without(Some(skipped)),
        device: machine.device,
    };
    let mut training = Training {
        settings,
        generators,
        network,
        feed: generators.feed(machine.device)?,
        schedule,
        class: Trained::new("class", network.class_specs(), &start(Phase::Others)),
        others: Trained::new("others", network.other_specs(), &start(Phase::Class)),
    };
    generators.standardise(&training.feed, &training.class.parameters);
    if let Some(learnt) = learnt.filter(|_| network.fit != Way::Shared) {
        learnt.start(&mut training.class.parameters)?;
    }
    folder.claim(settings)?;
    let taken = training::run(&mut training, &plan, folder, machine)?;
    machine.set(Precision::Float32)?;
    let weights = [training.class, training.others].map(|trained| trained.parameters);
    Ok((weights, taken))
}

/// Calibrates the bundles of a finished run again, by the run file's `calibration` and `paper`.
pub fn calibrate_again(settings: &ClassifierSettings, out: &Path, machine: &Machine) -> Result<()> {
    let subjects = Subjects::open(settings)?;
    let folder = RunFolder::finished_run(out)?;
    let before: ClassifierSettings = folder.settings()?;
    let same = ClassifierSettings {
        gan: before.gan.clone(),
        joint: before.joint.clone(),
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
mod tests;
