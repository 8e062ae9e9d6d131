//! Faults in the real program: which there are, how a command is given one, and how two commands meet.
//!
//! The steps themselves are named in `s2m_model::disk::step`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use s2m_model::disk::step::Step;

/// What happens at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The program dies at once.
    Kill,
    /// The disk is full.
    Full,
    /// The disk fails.
    Broken,
}

impl Effect {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Kill, Self::Full, Self::Broken];

    /// Its name as the program reads it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Full => "enospc",
            Self::Broken => "eio",
        }
    }
}

/// One fault: before or after a step is taken for the n-th time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// `before` or `after`.
    pub moment: &'static str,
    /// The step.
    pub step: Step,
    /// What happens.
    pub effect: Effect,
    /// From 1 on.
    pub time: usize,
}

impl Fault {
    /// The faults worth trying where a step is taken `times` times: the first and the last of them, and
    /// a disk that fails only before the work, since afterwards it has not failed.
    pub fn at(step: Step, times: usize) -> Vec<Self> {
        let mut faults = Vec::new();
        for time in [1, times].into_iter().take(times.min(2)) {
            for effect in Effect::ALL {
                let moments = match effect {
                    Effect::Kill => &["before", "after"][..],
                    Effect::Full | Effect::Broken => &["before"],
                };
                faults.extend(moments.iter().map(|moment| Self {
                    moment,
                    step,
                    effect,
                    time,
                }));
            }
        }
        faults
    }

    /// Two of them, for commands that take long: a full disk the first time, and a kill after the last.
    pub fn few_at(step: Step, times: usize) -> Vec<Self> {
        let fault = |moment, effect, time| Self {
            moment,
            step,
            effect,
            time,
        };
        vec![
            fault("before", Effect::Full, 1),
            fault("after", Effect::Kill, times),
        ]
    }

    /// Gives a command this fault.
    pub fn strike<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let (effect, time) = (self.effect.name(), self.time);
        let text = format!("{}:{}:{effect}:{time}", self.moment, self.step.name());
        command.env("S2M_FAULT", text)
    }
}

/// How a command ended that was typed again after a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// It went on and has the right bytes.
    Resumed,
    /// The fault came when all was done; typed again, it says so.
    Done,
}

/// How many faults of a command ended in which way, at each step.
#[derive(Debug, Default)]
pub struct Ends(BTreeMap<&'static str, BTreeMap<(&'static str, End), usize>>);

impl Ends {
    /// Counts one.
    pub fn add(&mut self, fault: Fault, end: End) {
        let row = self.0.entry(fault.step.name()).or_default();
        *row.entry((fault.effect.name(), end)).or_default() += 1;
    }

    /// A section of `docs/faults.md`.
    pub fn section(&self, command: &str) -> String {
        let head = "| step | killed | disk full | disk fails |\n|---|---|---|---|";
        let mut text = format!("\n## {command}\n\n{head}\n");
        for step in Step::ALL {
            let Some(row) = self.0.get(step.name()) else {
                continue;
            };
            let cell = |effect: Effect| {
                let of = row.iter().filter(|((name, _), _)| *name == effect.name());
                let words = of.map(|((_, end), count)| match end {
                    End::Resumed => format!("{count} resumed"),
                    End::Done => format!("{count} done"),
                });
                words.collect::<Vec<_>>().join(", ")
            };
            let cells = Effect::ALL.map(cell).join(" | ");
            let _ = writeln!(text, "| {} | {cells} |", step.name());
        }
        text
    }
}

/// How often a command takes each step, by a run of it that writes them down.
pub fn steps(command: &mut Command, log: &Path) -> Vec<(Step, usize)> {
    let _ = fs::remove_file(log);
    let _ = command.env("S2M_FAULT_LOG", log).output();
    let text = fs::read_to_string(log).unwrap_or_default();
    let times = |step: Step| text.lines().filter(|name| *name == step.name()).count();
    let counted = Step::ALL.map(|step| (step, times(step)));
    counted
        .into_iter()
        .filter(|(_, times)| *times > 0)
        .collect()
}

/// Longest time that a command is waited for.
const LONGEST: Duration = Duration::from_mins(1);

/// Holds a command at a step until it is let go.
#[derive(Debug)]
pub struct Gate {
    go: PathBuf,
}

impl Gate {
    /// A gate whose files lie in a folder.
    pub fn new(folder: &Path) -> Self {
        Self {
            go: folder.join("go"),
        }
    }

    /// Has a command stop before a step is taken for the n-th time.
    pub fn hold<'c>(&self, command: &'c mut Command, step: Step, time: usize) -> &'c mut Command {
        let text = format!("before:{}:pause:{time}", step.name());
        command.env("S2M_FAULT", text).env("S2M_FAULT_GO", &self.go)
    }

    /// Waits until the command stands at the gate.
    ///
    /// # Panics
    ///
    /// Where it has not come after a minute: a test that waits for it has failed then.
    pub fn wait(&self) {
        let started = Instant::now();
        while !self.go.with_extension("reached").exists() {
            assert!(started.elapsed() < LONGEST, "nobody came");
            sleep(Duration::from_millis(2));
        }
    }

    /// Lets the command go on.
    ///
    /// # Panics
    ///
    /// Where the file cannot be written.
    pub fn open(&self) {
        fs::write(&self.go, "").expect("the gate's folder can be written");
    }
}
