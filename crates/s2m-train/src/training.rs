//! The loop that all trainings share: resume, step, log, show, save, and stop where a loss is lost.

use std::time::Instant;

use anyhow::{Result, ensure};
use s2m_runs::folder::Logged;
use s2m_runs::gan::Form;
use s2m_show::talk::Forecast;
use tch::Tensor;

use crate::checkpoint::{self, Checkpoint};
use crate::device::Machine;
use crate::folder::RunFolder;
use crate::losses::Losses;
use crate::noise::{Draws, Needs};
use crate::progress::Progress;
use crate::replica::{Replica, titles};
use crate::steps::Steps;
use crate::trained::Trained;

/// What is trained.
pub trait Work {
    /// Random numbers for one step.
    fn needs(&self) -> Needs;
    /// Names of what a step returns.
    fn losses(&self) -> &'static [&'static str];
    /// One step: losses as `[losses, replicas]`.
    fn step(&mut self, at: u64, draws: &mut Draws) -> Tensor;
    /// All networks, for checkpoints.
    fn members(&mut self) -> Vec<&mut Trained>;
    /// Whether this step does other work than the one before.
    fn changes_at(&self, _step: u64) -> bool {
        false
    }
    /// Shows where the training stands after so many steps, if it is time.
    fn show(&mut self, _done: u64, _last: bool) -> Result<()> {
        Ok(())
    }
}

/// How long, and how often what is done.
pub struct Plan<'a> {
    /// What is trained, in a word.
    pub what: &'a str,
    pub steps: u64,
    pub log_every: u64,
    pub checkpoint_every: u64,
    pub replicas: &'a [Replica],
    /// What all random numbers are keyed by, one per replica.
    pub keys: &'a [u64],
    /// What the training starts from beside its run file: a hash, or nothing.
    pub origin: &'a str,
    /// What checkpoints hold.
    pub form: Form,
    /// Work behind this training, in its steps, where all of it is to be forecast.
    pub follows: f64,
}

/// Steps taken, and in how many seconds, over all runs of this training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Taken {
    pub steps: u64,
    pub seconds: f64,
}

/// Largest number of steps of one training, and between two log points.
const MOST_STEPS: u64 = 1 << 40;
const MOST_LOGGED: u64 = 1 << 20;

impl Plan<'_> {
    /// Refuses lengths that no training has.
    pub fn check(&self) -> Result<()> {
        let limits = [
            ("steps", self.steps, MOST_STEPS),
            ("log-every", self.log_every, MOST_LOGGED),
            ("checkpoint-every", self.checkpoint_every, MOST_STEPS),
        ];
        for (name, value, most) in limits {
            ensure!(
                (1..=most).contains(&value),
                "`{name}` is {value}; it must be from 1 to {most}"
            );
        }
        Ok(())
    }
}

/// Trains to the end, from the folder's checkpoint where there is one.
pub fn run(
    work: &mut dyn Work,
    plan: &Plan<'_>,
    folder: &RunFolder,
    machine: &Machine,
) -> Result<Taken> {
    let (first, before) = resume(work, plan, folder)?;
    let mut steps = Steps::new(plan.keys, work.needs(), machine);
    let names = work.losses();
    let interval = plan.log_every.min(plan.steps);
    let mut losses = Losses::new(names, interval, plan.replicas.len(), machine.device);
    let mut log = folder.log(first)?;
    let left = plan.steps - first;
    let less = if plan.follows > 0.0 {
        "fewer epochs (--epochs N of `s2m fit`), fewer rounds (--rounds N), one discriminator variant (--real frozen)"
    } else {
        "fewer epochs (--epochs N of `s2m fit`, `epochs` or `steps` in a run file)"
    };
    let hint = machine.shorter(less);
    let forecast = Forecast::new(plan.what, left, "steps", &hint)
        .followed_by(plan.follows / left.max(1) as f64);
    let progress = Progress::new(plan.what, plan.steps, first).with_forecast(forecast);
    let started = Instant::now();
    let seconds = || before + started.elapsed().as_secs_f64();
    for step in first..plan.steps {
        let (done, last) = (step + 1, step + 1 == plan.steps);
        if step > first && work.changes_at(step) {
            steps.change();
        }
        losses.keep(step, &steps.take(step, |draws| work.step(step, draws))?);
        // A graphics card only has its orders here; its steps are done where their losses are read.
        if !machine.device.is_cuda() {
            progress.stepped(done);
        }
        let saves = done % plan.checkpoint_every == 0 || last;
        if done % plan.log_every == 0 || last {
            let means = losses.take(plan.replicas)?;
            for (replica, values) in plan.replicas.iter().zip(&means) {
                let named = names.iter().zip(values);
                log.write(&Logged {
                    losses: named
                        .map(|(name, value)| ((*name).to_owned(), *value))
                        .collect(),
                    replica: replica.title(),
                    step: done,
                })?;
            }
            progress.at(done, names, &means[0]);
        } else if saves {
            // A checkpoint never holds weights behind a loss that is not a number.
            let _ = losses.check(plan.replicas)?;
        }
        work.show(done, last)?;
        if saves {
            let facts = [
                ("step", done.to_string()),
                ("seconds", seconds().to_string()),
                ("replicas", titles(plan.replicas)),
                ("origin", plan.origin.to_owned()),
            ];
            Checkpoint::of(&mut work.members(), &facts, plan.form)
                .write(&folder.join(checkpoint::FILE))?;
        }
    }
    progress.finish();
    Ok(Taken {
        steps: plan.steps,
        seconds: seconds(),
    })
}

/// Puts the folder's checkpoint back; returns its step and the seconds spent on it.
fn resume(work: &mut dyn Work, plan: &Plan<'_>, folder: &RunFolder) -> Result<(u64, f64)> {
    let path = folder.join(checkpoint::FILE);
    if !path.is_file() {
        return Ok((0, 0.0));
    }
    let checkpoint = Checkpoint::read(&path)?;
    let hint = format!("hint: remove `{}` to start again", path.display());
    ensure!(
        checkpoint.fact("replicas")? == titles(plan.replicas),
        "the checkpoint is of other data sets or seeds\n{hint}"
    );
    ensure!(
        checkpoint.fact("origin")? == plan.origin,
        "the checkpoint was trained on other generators, or on another network's features, than those that are there now\n{hint}"
    );
    let step: u64 = checkpoint.fact("step")?.parse()?;
    ensure!(
        step <= plan.steps,
        "the checkpoint stands at step {step}, beyond the {} of the run file\n{hint}",
        plan.steps
    );
    checkpoint.restore(&mut work.members())?;
    Ok((step, checkpoint.fact("seconds")?.parse()?))
}
