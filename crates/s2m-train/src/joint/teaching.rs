//! One network per fold and replica, or one per replica, trained on labels or on targets and scored on held-out items.

use anyhow::{Context as _, Result};
use s2m_core::joint::targets::Showing;
use s2m_runs::gan::Form;
use tch::{Device, Tensor};

use super::lesson::{self, Bench, Best, Kept, Lesson, Look, Score, judge, score};
use super::{LONGER, Work};
use crate::checkpoint;
use crate::feed::{Feed, Pool, Source};
use crate::networks::student::Student;
use crate::noise::{self, Purpose};
use crate::parameters::Parameters;
use crate::replica::Replica;
use crate::trained::{Start, Trained};
use crate::training::{self, Plan};

/// What a finished training leaves.
pub(super) const WEIGHTS: &str = "weights.safetensors";

/// Later rounds go on from the students of the round before, in so many times fewer passes.
const SHORTER: u64 = 3;

/// A training's networks, fold by fold and replica by replica, with their scores on held-out items.
pub(super) struct Taught {
    pub(super) weights: Parameters,
    pub(super) scores: Vec<Score>,
    pub(super) steps: Vec<u64>,
}

impl Work<'_> {
    /// What balanced draws change for one replica.
    pub(super) fn look(&self, replica: usize, showing: Option<&Showing>) -> Look {
        let mirrored = match self.settings.augment {
            Some(augment) if augment.flip => self.trunk.picture(),
            _ => None,
        };
        let (_, data) = self.generators.data(replica);
        let ratios: Vec<f64> = data
            .observed
            .iter()
            .map(|share| share * self.classes as f64)
            .collect();
        let (mut class_shift, mut joint_shift) = (Vec::new(), Vec::new());
        if self.settings.balance {
            class_shift = ratios.iter().map(|ratio| ratio.ln()).collect();
            let drawn: Vec<f64> = ratios.iter().map(|ratio| ratio.recip()).collect();
            joint_shift = showing.map_or_else(Vec::new, |showing| showing.log_draw_ratios(&drawn));
        }
        Look {
            class_shift,
            joint_shift,
            mirrored,
        }
    }

    /// Trains one network per fold and replica, on labels or on targets, anew or from the same fold's network of
    /// the round before, and judges them by held-out items.
    pub(super) fn teach(
        &self,
        name: &str,
        showings: Option<&[Showing]>,
        targets: Option<&[Vec<f32>]>,
        from: Option<&Parameters>,
    ) -> Result<Taught> {
        let folds = self.joint.folds;
        let owners: Vec<usize> = (0..self.owns.len() * folds).map(|at| at / folds).collect();
        let parts: Vec<Source<'_>> = (0..owners.len())
            .map(|at| Source {
                data: self.owns[owners[at]].data,
                shows: Box::new(move |showing| {
                    self.owns[at / folds].folds.teaches(at % folds, showing)
                }),
            })
            .collect();
        let items = self.items.shallow_clone();
        let sources: Vec<usize> = (0..owners.len()).collect();
        let feed = Feed::of(&self.generators.loaded, &parts, &sources, items);
        let epochs = self.epochs();
        let lesson = Given {
            showings,
            targets,
            from,
            passes: from.map_or(epochs, |_| epochs.div_ceil(SHORTER)),
        };
        self.train(name, &owners, feed, &lesson)
    }

    /// Titles of a training's networks, and what their random numbers are keyed by: the replica, the training and the
    /// fold, whoever else is trained.
    fn named(&self, name: &str, owners: &[usize]) -> (Vec<Replica>, Vec<u64>) {
        let one = |(at, &owner): (usize, &usize)| {
            let replica = &self.generators.replicas[owner];
            let first = owners.iter().position(|other| *other == owner);
            let own = format!("{name} {}", at - first.unwrap_or(0));
            let titled = Replica {
                name: format!("{} network {at}", replica.name),
                ..replica.clone()
            };
            (titled, noise::key(replica.key(), Purpose::Weights, &own))
        };
        owners.iter().enumerate().map(one).unzip()
    }

    /// Judges networks by held-out items.
    fn scores(
        &self,
        network: &Student,
        weights: &Parameters,
        owners: &[usize],
        looks: &[Look],
        showings: Option<&[Showing]>,
    ) -> Result<Vec<Score>> {
        let one = |(at, &owner): (usize, &usize)| {
            let own = weights.select(&[at as i64]);
            let held = &self.held[self.owns[owner].data];
            let logits = judge(network, &own, &held.items, &looks[at])?;
            let showing = showings.map(|showings| &showings[owner]);
            score(&logits, self.classes, &held.labels, showing)
        };
        owners.iter().enumerate().map(one).collect()
    }

    /// Trains networks of these owners, or takes what an earlier run has left.
    pub(super) fn train(
        &self,
        name: &str,
        owners: &[usize],
        feed: Feed,
        given: &Given<'_>,
    ) -> Result<Taught> {
        let Given {
            showings,
            targets,
            from,
            passes,
        } = *given;
        let network = Student {
            trunk: self.trunk.clone(),
            classes: self.classes as i64,
            sets: showings.map(|showings| showings[0].sets().outputs() as i64),
        };
        let (replicas, keys) = self.named(name, owners);
        let looks: Vec<Look> = owners
            .iter()
            .map(|&owner| self.look(owner, showings.map(|showings| &showings[owner])))
            .collect();
        let folder = self.folder.inside(name);
        let device = self.machine.device;
        let (best, weights) = (folder.join("best.safetensors"), folder.join(WEIGHTS));
        let steps = self.steps(owners, &feed, passes);
        let plan_name = format!("label sets, {name}");
        let plan = Plan {
            what: &plan_name,
            steps,
            log_every: self.settings.log_every,
            checkpoint_every: self.settings.checkpoint_every,
            replicas: &replicas,
            keys: &keys,
            origin: &self.generators.sha256,
            form: Form::default(),
            follows: self.follows(showings, (steps, owners.len())),
        };
        plan.check()?;
        self.settings.optimizer.check(steps)?;
        let start = Start {
            keys: &keys,
            optimizer: self.settings.optimizer,
            steps,
            device,
        };
        let mut trained = Trained::new("student", network.specs(), &start);
        self.generators
            .standardise_each(&feed, &trained.parameters, owners);
        if let Some(from) = from {
            let views: Vec<&Tensor> = from.views().iter().collect();
            trained.parameters.set_all(&views);
        }
        let done = weights.is_file();
        let left = if done { &weights } else { &best };
        let mut kept = Kept {
            lesson: Lesson {
                network: &network,
                trained,
                feed,
                targets: targets.map(|targets| on_device(targets, owners, &network, device)),
                pool: if self.settings.balance {
                    Pool::Balanced
                } else {
                    Pool::All
                },
                batch: self.settings.batch,
                steps,
                augment: self.settings.augment.zip(self.trunk.picture()),
                judges: owners
                    .iter()
                    .zip(&looks)
                    .map(|(&owner, look)| Bench {
                        held: &self.held[self.owns[owner].data],
                        look,
                        showing: showings.map(|showings| &showings[owner]),
                    })
                    .collect(),
                best: Best::open(left, "student", &network, owners.len(), device)?,
            },
            path: best.clone(),
            name: "student",
        };
        if !done {
            training::run(&mut kept, &plan, &folder, self.machine)?;
            kept.lesson.best.write(&weights, "student")?;
            lesson::forget(&best);
            lesson::forget(&folder.join(checkpoint::FILE));
        }
        let steps = kept.lesson.best.step.clone();
        let weights = kept
            .lesson
            .best
            .weights
            .take()
            .context("a training leaves networks")?;
        Ok(Taught {
            scores: self.scores(&network, &weights, owners, &looks, showings)?,
            weights,
            steps,
        })
    }

    /// Steps of a training whose networks draw from a feed.
    fn steps(&self, owners: &[usize], feed: &Feed, passes: u64) -> u64 {
        let most = (0..owners.len() as i64)
            .map(|at| feed.count(at))
            .max()
            .unwrap_or(1);
        passes.saturating_mul(most.div_ceil(self.settings.batch.unsigned_abs()))
    }

    /// Work behind a training, in its steps. The class networks, which learn from labels alone, are the first of all and
    /// tell of the whole: at most as many rounds as asked for, the student, and what comes after it.
    fn follows(&self, showings: Option<&[Showing]>, (steps, networks): (u64, usize)) -> f64 {
        if showings.is_some() {
            return 0.0;
        }
        let (steps, networks) = (steps as f64, networks as f64);
        let later = self.joint.rounds.saturating_sub(1) as f64 / SHORTER as f64;
        let rounds = self.joint.powers.len() as f64 + later;
        let folds = self.joint.folds as f64;
        let student = LONGER as f64 * steps * folds / (folds - 1.0) * self.owns.len() as f64;
        rounds * steps + (student + self.after) / networks
    }

    /// Passes of a training that begins anew.
    pub(super) fn epochs(&self) -> u64 {
        self.joint.epochs.unwrap_or(self.settings.epochs)
    }
}

impl Taught {
    pub(super) fn of(&self, owner: usize, folds: usize) -> &[Score] {
        &self.scores[owner * folds..(owner + 1) * folds]
    }

    /// Log likelihood of each held-out label, the mean over the networks of a replica's folds.
    pub(super) fn mean_of(&self, owner: usize, folds: usize) -> Vec<f64> {
        let scores = self.of(owner, folds);
        let mean =
            |at: usize| scores.iter().map(|s| s.log_likelihoods[at]).sum::<f64>() / folds as f64;
        (0..scores[0].log_likelihoods.len()).map(mean).collect()
    }

    /// Mean negative log likelihood of held-out labels.
    pub(super) fn nll(&self, owner: usize, folds: usize) -> f64 {
        let values = self.mean_of(owner, folds);
        -values.iter().sum::<f64>() / values.len() as f64
    }
}

/// What a training is given.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    /// What sets show, replica by replica; none for class networks.
    pub(super) showings: Option<&'a [Showing]>,
    pub(super) targets: Option<&'a [Vec<f32>]>,
    /// Weights to go on from.
    pub(super) from: Option<&'a Parameters>,
    /// Passes over the items.
    pub(super) passes: u64,
}

/// For every replica the networks of the training that it chose.
pub(super) fn pick(tried: &[&Taught], chosen: &[usize], folds: usize) -> Taught {
    let rows = |owner: usize| {
        (owner * folds..(owner + 1) * folds)
            .map(|at| at as i64)
            .collect::<Vec<_>>()
    };
    let parts: Vec<Parameters> = chosen
        .iter()
        .enumerate()
        .map(|(owner, &at)| tried[at].weights.select(&rows(owner)))
        .collect();
    let views = |at: usize| {
        Tensor::cat(
            &parts
                .iter()
                .map(|part| part.views()[at].detach())
                .collect::<Vec<_>>(),
            0,
        )
    };
    let specs = parts[0].specs().to_vec();
    let tensors: Vec<Tensor> = (0..specs.len()).map(views).collect();
    Taught {
        weights: Parameters::from_tensors(specs, &tensors),
        scores: chosen
            .iter()
            .enumerate()
            .flat_map(|(owner, &at)| tried[at].of(owner, folds).to_vec())
            .collect(),
        steps: chosen
            .iter()
            .enumerate()
            .flat_map(|(owner, &at)| tried[at].steps[owner * folds..(owner + 1) * folds].to_vec())
            .collect(),
    }
}

/// Targets of all owners on the device, and where those of each network begin.
fn on_device(
    targets: &[Vec<f32>],
    owners: &[usize],
    network: &Student,
    device: Device,
) -> (Tensor, Tensor) {
    let outputs = network.sets.unwrap_or(1);
    let mut firsts = vec![0_i64];
    for own in targets {
        firsts.push(firsts[firsts.len() - 1] + own.len() as i64 / outputs);
    }
    let rows: Vec<Tensor> = targets
        .iter()
        .map(|own| Tensor::from_slice(own).view([-1, outputs]))
        .collect();
    let first: Vec<i64> = owners.iter().map(|&owner| firsts[owner]).collect();
    (
        Tensor::cat(&rows, 0).to_device(device),
        Tensor::from_slice(&first).to_device(device).unsqueeze(1),
    )
}
