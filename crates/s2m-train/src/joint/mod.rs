//! Label sets learnt from single labels: networks that never saw an item judge it, and a student learns what they say.
//!
//! ```text
//! class networks   one per fold, on the other folds; each judges its own fold
//! round 1          targets by sorted levels of the class networks; students, one per fold, learn them
//! round 2, …       targets by the students of the round before, each for its own fold, which the same students go on
//!                  to learn in a third of the passes
//! the student      all items, with the targets of the best round, in twice the passes
//! ```
//!
//! The power ρ of the first round, the number of rounds, all temperatures and the length of every training are chosen by
//! how likely held-out items are to show the label that they show. No full label is ever read.
//!
//! - `folds`: who judges what;
//! - `lesson`: one training of several networks, and what they say;
//! - `teaching`: what a training is given, its networks and their scores;
//! - `learnt`: what the next training and the files take of it;
//! - `before`: the same from what an earlier run has left.
//!
//! A training that is finished stays in a folder of its own, so that an interrupted run goes on and several ways to fit
//! D_v stand on one student.

mod before;
mod folds;
mod learnt;
mod lesson;
mod teaching;

use anyhow::{Result, ensure};
use s2m_core::density::Labelling;
use s2m_core::joint::LabelSets;
use s2m_core::joint::targets::{Census, Showing, paired_gain, softmax};
use s2m_data::recipe::DataRecipe;
use s2m_runs::ClassifierSettings;
use s2m_runs::classifier::JointSettings;
use s2m_runs::classifier::TrunkSettings;
use s2m_runs::folder::{JOINT, JOINT_FOUND, JointFound, PowerTried};
use s2m_runs::parts::Augment;
use s2m_runs::parts::OptimizerSettings;
use s2m_runs::parts::Precision;
use serde::Serialize;
use tch::Tensor;

use crate::device::Machine;
use crate::feed::shown;
use crate::folder::RunFolder;
use crate::generators::Generators;
use crate::labelling::labelling_entry;
use crate::networks::classifier::Trunk;
use crate::networks::student::Student;
use crate::parameters::Parameters;
use crate::replica::{Replica, scaled};

use folds::Folds;
pub use learnt::{Learnt, OwnSets};
use lesson::{Held, judge, log_softmax};
use teaching::{Given, Taught, pick};

/// The student of all items begins anew, and so takes more passes than each round.
const LONGER: u64 = 2;

/// Rounds end after so many that were no better than the best before.
const PATIENCE: usize = 2;

/// Everything that the trainings of label sets depend on.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Identity<'a> {
    origin: &'a str,
    batch: i64,
    epochs: u64,
    precision: Precision,
    balance: bool,
    network: &'a TrunkSettings,
    optimizer: &'a OptimizerSettings,
    augment: Option<Augment>,
    joint: JointSettings,
    data: &'a [DataRecipe],
}

/// One replica at work.
struct Own {
    data: usize,
    shown: Vec<(u32, u8)>,
    folds: Folds,
    labelling: Labelling,
    /// `log D_r` of every showing, by a class network that never saw its item.
    log_class: Vec<f64>,
}

/// All of it at work.
struct Work<'a> {
    settings: &'a ClassifierSettings,
    joint: JointSettings,
    generators: &'a Generators,
    trunk: &'a Trunk,
    machine: &'a Machine,
    folder: RunFolder,
    owns: Vec<Own>,
    /// All items as networks see them.
    items: Tensor,
    /// One per data set.
    held: Vec<Held>,
    classes: usize,
    /// Networks times steps that are trained when label sets are learnt, for the forecast.
    after: f64,
}

/// What label sets are learnt for.
pub struct Asked<'a> {
    /// The run.
    pub settings: &'a ClassifierSettings,
    /// Where its items come from.
    pub generators: &'a Generators,
    /// What turns items into features.
    pub trunk: &'a Trunk,
    /// Networks times steps that the run trains afterwards.
    pub after: f64,
}

/// Learns label sets where a run file asks for it, or by default where there are two labels or more.
pub fn learn(asked: &Asked<'_>, folder: &RunFolder, machine: &Machine) -> Result<Option<Learnt>> {
    let Asked {
        settings,
        generators,
        trunk,
        after,
    } = *asked;
    let classes = generators.loaded[0].train.labels.len();
    let joint = match &settings.joint {
        Some(choice) => choice.settings(),
        None => (classes > 1).then(JointSettings::default),
    };
    let Some(joint) = joint else {
        return Ok(None);
    };
    joint.check()?;
    ensure!(
        classes > 1,
        "there is nothing joint to learn: the data has one label\nhint: leave `joint` out"
    );
    let own_folder = folder.join(JOINT);
    let path = joint.folder.as_deref().unwrap_or(&own_folder);
    let identity = Identity {
        origin: &generators.sha256,
        batch: settings.batch,
        epochs: joint.epochs.unwrap_or(settings.epochs),
        precision: settings.precision,
        balance: settings.balance,
        network: &settings.network,
        optimizer: &settings.optimizer,
        augment: settings.augment,
        joint: JointSettings {
            folder: None,
            ..joint.clone()
        },
        data: &generators.recipes,
    };
    let lessons = RunFolder::open(path, &identity)?;
    let mut work = Work {
        settings,
        generators,
        trunk,
        machine,
        owns: owns(generators, joint.folds)?,
        items: generators.feed(machine.device)?.items().shallow_clone(),
        held: held(generators, machine)?,
        folder: lessons,
        classes,
        joint,
        after,
    };
    work.folder.claim(&identity)?;
    machine.set(settings.precision)?;
    let learnt = match work.learnt_before()? {
        Some(learnt) => Ok(learnt),
        None => work.learn(),
    };
    machine.set(Precision::Float32)?;
    learnt.map(Some)
}

fn owns(generators: &Generators, folds: usize) -> Result<Vec<Own>> {
    let own = |(at, replica): (usize, &Replica)| {
        let (recipe, data) = generators.data(at);
        let shown = shown(data);
        Ok(Own {
            data: replica.data,
            folds: Folds::deal(data, replica, folds, &shown)?,
            labelling: labelling_entry(&recipe.labelling, data)
                .labelling(data.train.labels.len())?,
            shown,
            log_class: Vec::new(),
        })
    };
    generators.replicas.iter().enumerate().map(own).collect()
}

/// Held-out items as networks see them.
fn held(generators: &Generators, machine: &Machine) -> Result<Vec<Held>> {
    let mut all = Vec::new();
    for data in &generators.loaded {
        let shown = &data.validation_positives;
        ensure!(
            !shown.is_empty(),
            "label sets are learnt by the labels of held-out items, and there are none\nhint: set `validation` of the data, or `joint = false`"
        );
        let rows: Vec<u32> = shown.iter().map(|p| p.item).collect();
        let size = data.train.items.item_size() as i64;
        let items = Tensor::from_slice(&scaled(&data.train.items.select(&rows))).view([-1, size]);
        let items = match &generators.frozen {
            Some(frozen) => frozen.features_of_all(&items)?,
            None => items,
        };
        all.push(Held {
            items: items.to_device(machine.device),
            labels: shown.iter().map(|p| p.label).collect(),
        });
    }
    Ok(all)
}

/// The folder of a round.
fn round_name(number: usize) -> String {
    format!("round-{number}")
}

/// The folder of the first round with a power.
fn first_round_name(power: f64) -> String {
    format!("round-1-power-{power}")
}

impl Work<'_> {
    fn learn(&mut self) -> Result<Learnt> {
        if self.joint.supervised {
            return self.learn_truth();
        }
        let teachers = self.teach("class", None, None, None)?;
        self.judge_by_classes(&teachers)?;
        let sets = self.sets()?;
        let showings = self.showings(&sets);
        let (targets, round, mut report) = self.first_round(&showings, &teachers)?;
        let mut rounds = vec![(targets, round)];
        for number in 2..=self.joint.rounds {
            let (_, before) = &rounds[rounds.len() - 1];
            let targets = self.later_targets(&showings, before)?;
            let name = round_name(number);
            let from = Some(&before.weights);
            let round = self.teach(&name, Some(&showings), Some(&targets), from)?;
            rounds.push((targets, round));
            if self.stands_still(&rounds) {
                break;
            }
        }
        self.finish(sets, &showings, &rounds, &mut report)
    }

    /// Whether the last rounds were no better than the best before them, for every replica.
    fn stands_still(&self, rounds: &[(Vec<Vec<f32>>, Taught)]) -> bool {
        let Some(before) = rounds.len().checked_sub(PATIENCE) else {
            return false;
        };
        let least = |owner: usize, rounds: &[(Vec<Vec<f32>>, Taught)]| {
            let nll = rounds
                .iter()
                .map(|(_, round)| round.nll(owner, self.joint.folds));
            nll.fold(f64::INFINITY, f64::min)
        };
        (0..self.owns.len())
            .all(|owner| least(owner, &rounds[before..]) >= least(owner, &rounds[..before]))
    }

    /// The student of true label sets, which no single label teaches.
    fn learn_truth(&self) -> Result<Learnt> {
        let sets = LabelSets::whole(self.classes)?;
        let outputs = sets.outputs();
        let showings = self.showings(&sets);
        let truth = |own: &Own| {
            let truth = &self.generators.loaded[own.data].train.truth;
            let mut targets = vec![0.0; own.shown.len() * outputs];
            for (row, (item, _)) in targets.chunks_exact_mut(outputs).zip(&own.shown) {
                row[truth[*item as usize].bits() as usize - 1] = 1.0;
            }
            targets
        };
        let targets: Vec<Vec<f32>> = self.owns.iter().map(truth).collect();
        let supervised = JointFound {
            supervised: true,
            ..JointFound::default()
        };
        let mut report = vec![supervised; self.owns.len()];
        self.teach_student(sets, &showings, &targets, Vec::new(), &mut report)
    }

    /// The showings that a network judges, and their items.
    fn judged(&self, owner: usize, fold: usize) -> (Vec<usize>, Tensor) {
        let own = &self.owns[owner];
        let showings: Vec<usize> = own.folds.judged_by(fold).collect();
        let before = self.generators.loaded[..own.data].iter();
        let before: usize = before.map(|data| data.train.len()).sum();
        let row = |&showing: &usize| before as i64 + i64::from(own.shown[showing].0);
        let rows: Vec<i64> = showings.iter().map(row).collect();
        let rows = Tensor::from_slice(&rows).to_device(self.machine.device);
        (showings, self.items.index_select(0, &rows))
    }

    /// Every showing's `log D_r`, by the class network of its fold.
    fn judge_by_classes(&mut self, teachers: &Taught) -> Result<()> {
        let network = Student {
            trunk: self.trunk.clone(),
            classes: self.classes as i64,
            sets: None,
        };
        for owner in 0..self.owns.len() {
            let mut all = vec![0.0; self.owns[owner].shown.len() * self.classes];
            for fold in 0..self.joint.folds {
                let at = owner * self.joint.folds + fold;
                let (showings, items) = self.judged(owner, fold);
                let weights = teachers.weights.select(&[at as i64]);
                let logits = judge(&network, &weights, &items, &self.look(owner, None))?;
                let rows = log_softmax(
                    &logits.class,
                    self.classes,
                    teachers.scores[at].fit.temperature,
                );
                for (showing, row) in showings.into_iter().zip(rows.chunks_exact(self.classes)) {
                    all[showing * self.classes..][..self.classes].copy_from_slice(row);
                }
            }
            self.owns[owner].log_class = all;
        }
        Ok(())
    }

    /// The sets that have an output.
    fn sets(&self) -> Result<LabelSets> {
        let mut census = Census::new(self.owns[0].labelling.clone());
        for own in &self.owns {
            for (row, (_, label)) in own.log_class.chunks_exact(self.classes).zip(&own.shown) {
                census.count(row, usize::from(*label));
            }
        }
        Ok(census.sets()?)
    }

    /// Targets by sorted levels, one row per showing.
    fn first_targets(&self, showing: &Showing, own: &Own, power: f64) -> Vec<f32> {
        let mut target = vec![0.0; showing.sets().outputs()];
        let mut all = Vec::with_capacity(own.shown.len() * target.len());
        for (row, (_, label)) in own.log_class.chunks_exact(self.classes).zip(&own.shown) {
            showing.target_of_levels(row, power, usize::from(*label), &mut target);
            all.extend(target.iter().map(|&mass| mass as f32));
        }
        all
    }

    /// The first round with every power; for each replica that of the power which is kept.
    fn first_round(
        &self,
        showings: &[Showing],
        teachers: &Taught,
    ) -> Result<(Vec<Vec<f32>>, Taught, Vec<JointFound>)> {
        let folds = self.joint.folds;
        let mut tried = Vec::new();
        for &power in &self.joint.powers {
            let own = |(own, showing)| self.first_targets(showing, own, power);
            let targets: Vec<Vec<f32>> = self.owns.iter().zip(showings).map(own).collect();
            let name = first_round_name(power);
            let taught = self.teach(&name, Some(showings), Some(&targets), None)?;
            tried.push((targets, taught));
        }
        let mut chosen = Vec::new();
        let mut report = Vec::new();
        for owner in 0..self.owns.len() {
            let likelihoods: Vec<Vec<f64>> = tried
                .iter()
                .map(|(_, taught)| taught.mean_of(owner, folds))
                .collect();
            let mut best = 0;
            for at in 1..likelihoods.len() {
                let [over_first, error] = paired_gain(&likelihoods[at], &likelihoods[0]);
                let [over_best, _] = paired_gain(&likelihoods[at], &likelihoods[best]);
                if over_first > error && over_best > 0.0 {
                    best = at;
                }
            }
            chosen.push(best);
            let mean = |values: &[f64]| -values.iter().sum::<f64>() / values.len() as f64;
            let powers = self.joint.powers.iter().zip(&likelihoods);
            let powers = powers.map(|(&power, values)| PowerTried {
                nll: mean(values),
                power,
            });
            let temperatures = teachers.of(owner, folds).iter().map(|s| s.fit.temperature);
            report.push(JointFound {
                replica: Some(self.generators.replicas[owner].title()),
                class_nll: Some(mean(&teachers.mean_of(owner, folds))),
                class_temperatures: temperatures.collect(),
                class_steps: teachers.steps[owner * folds..(owner + 1) * folds].to_vec(),
                powers: powers.collect(),
                power: Some(self.joint.powers[best]),
                ..JointFound::default()
            });
        }
        let targets = chosen
            .iter()
            .enumerate()
            .map(|(owner, &at)| tried[at].0[owner].clone())
            .collect();
        let taught = pick(
            &tried.iter().map(|(_, taught)| taught).collect::<Vec<_>>(),
            &chosen,
            folds,
        );
        Ok((targets, taught, report))
    }

    /// Targets by the students of the round before, each for the items of its own fold.
    fn later_targets(&self, showings: &[Showing], round: &Taught) -> Result<Vec<Vec<f32>>> {
        let outputs = showings[0].sets().outputs();
        let network = self.student(showings[0].sets());
        let mut all = Vec::new();
        for (owner, own) in self.owns.iter().enumerate() {
            let mut targets = vec![0.0_f32; own.shown.len() * outputs];
            let (mut probabilities, mut target) = (vec![0.0; outputs], vec![0.0; outputs]);
            for fold in 0..self.joint.folds {
                let at = owner * self.joint.folds + fold;
                let (judged, items) = self.judged(owner, fold);
                let weights = round.weights.select(&[at as i64]);
                let look = self.look(owner, Some(&showings[owner]));
                let logits = judge(&network, &weights, &items, &look)?;
                let temperature = round.scores[at].fit.temperature;
                for (showing, row) in judged.into_iter().zip(logits.joint.chunks_exact(outputs)) {
                    softmax(row, temperature, &mut probabilities);
                    let log_class = &own.log_class[showing * self.classes..][..self.classes];
                    let label = usize::from(own.shown[showing].1);
                    showings[owner].target_of_sets(&probabilities, log_class, label, &mut target);
                    for (to, &from) in targets[showing * outputs..].iter_mut().zip(&target) {
                        *to = from as f32;
                    }
                }
            }
            all.push(targets);
        }
        Ok(all)
    }

    /// The student of every replica, on the targets of its best round.
    fn finish(
        &self,
        sets: LabelSets,
        showings: &[Showing],
        rounds: &[(Vec<Vec<f32>>, Taught)],
        report: &mut [JointFound],
    ) -> Result<Learnt> {
        let folds = self.joint.folds;
        let mut best = Vec::new();
        for (owner, report) in report.iter_mut().enumerate() {
            let nll: Vec<f64> = rounds
                .iter()
                .map(|(_, round)| round.nll(owner, folds))
                .collect();
            let at = (0..nll.len())
                .min_by(|&a, &b| nll[a].total_cmp(&nll[b]))
                .unwrap_or(0);
            report.rounds = nll;
            report.round = Some(at + 1);
            best.push(at);
        }
        let targets: Vec<Vec<f32>> = best
            .iter()
            .enumerate()
            .map(|(owner, &at)| rounds[at].0[owner].clone())
            .collect();
        let members = |(owner, &at): (usize, &usize)| {
            let networks = &rounds[at].1.weights;
            let of = |fold: usize| networks.select(&[(owner * folds + fold) as i64]);
            let kept = if self.joint.members { folds } else { 0 };
            (0..kept).map(of).collect()
        };
        let members = best.iter().enumerate().map(members).collect();
        self.teach_student(sets, showings, &targets, members, report)
    }

    /// The student of every replica on some targets.
    fn teach_student(
        &self,
        sets: LabelSets,
        showings: &[Showing],
        targets: &[Vec<f32>],
        members: Vec<Vec<Parameters>>,
        report: &mut [JointFound],
    ) -> Result<Learnt> {
        let owners: Vec<usize> = (0..self.owns.len()).collect();
        let feed = self.generators.feed(self.machine.device)?;
        let given = Given {
            showings: Some(showings),
            targets: Some(targets),
            from: None,
            passes: self.epochs().saturating_mul(LONGER),
        };
        let student = self.train("student", &owners, feed, &given)?;
        for (owner, report) in report.iter_mut().enumerate() {
            report.student_nll = student.scores[owner].fit.nll_after;
            report.student_temperature = student.scores[owner].fit.temperature;
            report.student_step = student.steps[owner];
            report.sets = sets.sets().iter().map(|s| s.bits()).collect();
            report.rest = sets.has_rest();
        }
        self.folder.write_json(JOINT_FOUND, &report)?;
        let members = if members.is_empty() {
            self.owns.iter().map(|_| Vec::new()).collect()
        } else {
            members
        };
        Ok(self.learnt(sets, showings, student.weights, members))
    }

    /// The student with outputs for these sets, and the networks of its folds.
    fn learnt(
        &self,
        sets: LabelSets,
        showings: &[Showing],
        student: Parameters,
        members: Vec<Vec<Parameters>>,
    ) -> Learnt {
        Learnt {
            network: self.student(&sets),
            student,
            members,
            shifts: (0..self.owns.len())
                .map(|owner| self.look(owner, Some(&showings[owner])).joint_shift)
                .collect(),
            sets,
        }
    }

    /// A network with an output for each of these sets.
    fn student(&self, sets: &LabelSets) -> Student {
        Student {
            trunk: self.trunk.clone(),
            classes: self.classes as i64,
            sets: Some(sets.outputs() as i64),
        }
    }

    /// What sets show, replica by replica.
    fn showings(&self, sets: &LabelSets) -> Vec<Showing> {
        let showing = |own: &Own| Showing::new(sets.clone(), own.labelling.clone());
        self.owns.iter().map(showing).collect()
    }
}
