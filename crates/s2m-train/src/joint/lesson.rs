//! One training of several networks at once, on shown labels or on targets over label sets, and what they say.
//!
//! The length is chosen by held-out items: at a few places of the second half of the training each network is judged by the
//! likelihood of the labels that held-out items show, and the best of these is what is left of it.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use s2m_core::calibration::temperature::{TemperatureFit, fit_class};
use s2m_core::joint::targets::{HeldOut, Showing};
use s2m_runs::parts::Augment;
use tch::{Device, Kind, Tensor, no_grad};

use crate::augment;
use crate::checkpoint::Checkpoint;
use crate::feed::{Feed, Pool};
use crate::networks::Mode;
use crate::networks::student::Student;
use crate::noise::{Draws, Needs};
use crate::objectives::{cross_entropy, mean};
use crate::parameters::Parameters;
use crate::trained::Trained;
use crate::training::Work;

/// Places at which a training is judged: these eighths of it.
const JUDGED: [u64; 4] = [4, 6, 7, 8];

/// Items judged at a time.
const PIECE: i64 = 2000;

/// What networks say about some items: logits in rows, of the labels and of the label sets.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Logits {
    pub class: Vec<f32>,
    /// Empty for a class network.
    pub joint: Vec<f32>,
}

/// How items are looked at when they are judged.
#[derive(Debug, Clone)]
pub(super) struct Look {
    /// Added to class logits, and subtracted from those of sets: what balanced draws have changed.
    pub class_shift: Vec<f64>,
    pub joint_shift: Vec<f64>,
    /// Sides of pictures whose mirror image is looked at too.
    pub mirrored: Option<[i64; 3]>,
}

/// What a network of one replica says about items `[items, size]`.
pub(super) fn judge(
    network: &Student,
    weights: &Parameters,
    items: &Tensor,
    look: &Look,
) -> Result<Logits> {
    let (mut class, mut joint) = (Vec::new(), Vec::new());
    let count = items.size()[0];
    let both = |x: &Tensor, of: &dyn Fn(&Tensor) -> Option<Tensor>| -> Result<Option<Vec<f32>>> {
        let Some(plain) = of(x) else { return Ok(None) };
        let mut log_p = plain.log_softmax(-1, Kind::Float);
        if let Some(sides) = look.mirrored {
            let [channels, height, width] = sides;
            let mirror = x.view([-1, channels, height, width]).flip([3]);
            let other = of(&mirror.reshape(x.size().as_slice()));
            let other = other
                .context("a network has its outputs")?
                .log_softmax(-1, Kind::Float);
            log_p = log_p.logaddexp(&other);
        }
        let flat = log_p.to_device(Device::Cpu).contiguous().view(-1);
        Ok(Some(Vec::<f32>::try_from(flat)?))
    };
    for first in (0..count).step_by(PIECE as usize) {
        let x = items
            .narrow(0, first, (count - first).min(PIECE))
            .unsqueeze(0);
        let said = |x: &Tensor| no_grad(|| network.forward(weights.views(), x, Mode::Evaluation));
        class.extend(both(&x, &|x| Some(said(x).class))?.unwrap_or_default());
        joint.extend(both(&x, &|x| said(x).joint)?.unwrap_or_default());
    }
    shift(&mut class, &look.class_shift, 1.0);
    shift(&mut joint, &look.joint_shift, -1.0);
    Ok(Logits { class, joint })
}

fn shift(rows: &mut [f32], by: &[f64], sign: f64) {
    if by.is_empty() {
        return;
    }
    for row in rows.chunks_exact_mut(by.len()) {
        for (value, by) in row.iter_mut().zip(by) {
            *value = (f64::from(*value) + sign * by) as f32;
        }
    }
}

/// Held-out items of one data set, and the labels that they show.
pub(super) struct Held {
    /// `[items, size]`
    pub items: Tensor,
    pub labels: Vec<u8>,
}

/// A temperature, and the log probability of every held-out label at it.
#[derive(Debug, Clone)]
pub(super) struct Score {
    pub fit: TemperatureFit,
    pub log_likelihoods: Vec<f64>,
}

/// Judges a network by held-out items: by its set outputs where it has them, else by its class head.
pub(super) fn score(
    logits: &Logits,
    classes: usize,
    labels: &[u8],
    showing: Option<&Showing>,
) -> Result<Score> {
    let fit = fit_class(&logits.class, classes, labels)?;
    let log_class = log_softmax(&logits.class, classes, fit.temperature);
    let Some(showing) = showing else {
        let of = |(row, label): (&[f64], &u8)| row[usize::from(*label)];
        let log_likelihoods = log_class
            .chunks_exact(classes)
            .zip(labels)
            .map(of)
            .collect();
        return Ok(Score {
            fit,
            log_likelihoods,
        });
    };
    let held = HeldOut {
        logits: &logits.joint,
        log_class: &log_class,
        labels,
    };
    let fit = showing.fit_temperature(held)?;
    let log_likelihoods = showing.log_likelihoods(held, fit.temperature);
    Ok(Score {
        fit,
        log_likelihoods,
    })
}

/// Rows of log probabilities at a temperature.
pub(super) fn log_softmax(logits: &[f32], width: usize, temperature: f64) -> Vec<f64> {
    let mut all = Vec::with_capacity(logits.len());
    for row in logits.chunks_exact(width) {
        let tempered = row.iter().map(|&l| f64::from(l) / temperature);
        let norm = s2m_core::log_sum_exp(tempered.clone());
        all.extend(tempered.map(|l| l - norm));
    }
    all
}

/// Several networks in training.
pub(super) struct Lesson<'a> {
    pub network: &'a Student,
    pub trained: Trained,
    pub feed: Feed,
    /// Targets of all showings, network by network, and where each network's begin: `[networks, 1]`.
    pub targets: Option<(Tensor, Tensor)>,
    pub pool: Pool,
    pub batch: i64,
    pub steps: u64,
    /// Changes of pictures, and their sides.
    pub augment: Option<(Augment, [i64; 3])>,
    /// What judges each network.
    pub judges: Vec<Bench<'a>>,
    pub best: Best,
}

/// What judges one network: held-out items, how they are looked at, and what sets show.
#[derive(Clone, Copy)]
pub(super) struct Bench<'a> {
    pub held: &'a Held,
    pub look: &'a Look,
    pub showing: Option<&'a Showing>,
}

/// The best that was left of each network so far.
pub(super) struct Best {
    pub weights: Option<Parameters>,
    pub nll: Vec<f64>,
    pub step: Vec<u64>,
}

const BEST_FACT: &str = "best";

impl Best {
    /// What an earlier run left, or nothing.
    pub(super) fn open(
        path: &Path,
        name: &str,
        lesson: &Student,
        networks: usize,
        device: Device,
    ) -> Result<Self> {
        let nothing = Self {
            weights: None,
            nll: vec![f64::INFINITY; networks],
            step: vec![0; networks],
        };
        if !path.is_file() {
            return Ok(nothing);
        }
        let file = Checkpoint::read(path)?;
        let pairs: Vec<(f64, u64)> = serde_json::from_str(file.fact(BEST_FACT)?)?;
        ensure!(
            pairs.len() == networks,
            "`{}` is of another number of networks\nhint: remove it to start again",
            path.display()
        );
        let (nll, step) = pairs.into_iter().unzip();
        let weights = Some(file.finished(name, lesson.specs(), device)?);
        Ok(Self { weights, nll, step })
    }

    /// Writes it under a name.
    pub(super) fn write(&self, path: &Path, name: &str) -> Result<()> {
        let weights = self.weights.as_ref().context("nothing was judged")?;
        let pairs: Vec<(f64, u64)> = self
            .nll
            .iter()
            .copied()
            .zip(self.step.iter().copied())
            .collect();
        let lines = vec![name; self.nll.len()].join("\n");
        Checkpoint::of_finished(std::iter::once((name, weights)), &lines)
            .with_fact(BEST_FACT, serde_json::to_string(&pairs)?)
            .write(path)
    }
}

impl Lesson<'_> {
    /// Judges all networks as they stand; true where one is better than it was.
    pub(super) fn judge_now(&mut self, step: u64) -> Result<bool> {
        let mut better = false;
        let now = self.trained.finished();
        for network in 0..self.judges.len() {
            let Bench {
                held,
                look,
                showing,
            } = self.judges[network];
            let own = now.select(&[network as i64]);
            let logits = judge(self.network, &own, &held.items, look)?;
            let found = score(
                &logits,
                self.network.classes as usize,
                &held.labels,
                showing,
            )?;
            if found.fit.nll_after < self.best.nll[network] {
                self.best.nll[network] = found.fit.nll_after;
                self.best.step[network] = step;
                better = true;
                let best = self
                    .best
                    .weights
                    .get_or_insert_with(|| self.trained.finished());
                no_grad(|| {
                    for (to, from) in best.views().iter().zip(own.views()) {
                        to.get(network as i64).copy_(&from.get(0));
                    }
                });
            }
        }
        Ok(better)
    }
}

/// A lesson with the file in which its best is kept.
pub(super) struct Kept<'a> {
    pub lesson: Lesson<'a>,
    pub path: std::path::PathBuf,
    pub name: &'static str,
}

impl Work for Kept<'_> {
    fn needs(&self) -> Needs {
        let Lesson { batch, pool, .. } = self.lesson;
        let changes = match self.lesson.augment {
            Some((augment, _)) => augment::needs(augment, batch),
            None => 0,
        };
        Needs {
            normal: 0,
            uniform: pool.numbers() * batch + changes,
        }
    }

    fn losses(&self) -> &'static [&'static str] {
        match self.lesson.targets {
            None => &["class"],
            Some(_) => &["joint", "class"],
        }
    }

    fn step(&mut self, _at: u64, draws: &mut Draws) -> Tensor {
        let lesson = &mut self.lesson;
        let real = lesson.feed.draw(draws, lesson.pool, lesson.batch);
        let items = match lesson.augment {
            Some((augment, picture)) => augment::apply(augment, &real.items, picture, draws),
            None => real.items,
        };
        let said = lesson
            .network
            .forward(lesson.trained.weights(), &items, Mode::Training);
        let class = cross_entropy(&said.class, &real.labels);
        let (Some(logits), Some((targets, first))) = (said.joint, &lesson.targets) else {
            lesson.trained.descend(&class.sum(Kind::Float));
            return class.detach().unsqueeze(0);
        };
        let rows = (real.showings + first).view(-1);
        let targets = targets
            .index_select(0, &rows)
            .view(logits.size().as_slice());
        let likelihood = logits.log_softmax(-1, Kind::Float) * targets;
        let joint = -mean(&likelihood.sum_dim_intlist([-1].as_slice(), false, Kind::Float));
        lesson.trained.descend(&(&joint + &class).sum(Kind::Float));
        Tensor::stack(&[joint.detach(), class.detach()], 0)
    }

    fn members(&mut self) -> Vec<&mut Trained> {
        vec![&mut self.lesson.trained]
    }

    fn show(&mut self, done: u64, _last: bool) -> Result<()> {
        let steps = self.lesson.steps;
        let judged = |eighth: &u64| done == (steps * eighth / 8).max(1);
        if JUDGED.iter().any(judged) && self.lesson.judge_now(done)? {
            self.lesson.best.write(&self.path, self.name)?;
        }
        Ok(())
    }
}

/// Puts a file away that is no longer needed.
pub(super) fn forget(path: &Path) {
    // What is left behind is a file too many, and nothing else.
    let _ = std::fs::remove_file(path);
}
