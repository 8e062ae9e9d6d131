//! Scored proposals in memory, from the model or from a bank: joint classes, predictions, neighbours.
//!
//! A thread of its own scores them once the server runs, piece by piece. Whoever asks before that is answered from those
//! that are there.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use s2m::classes::Found;
use s2m::neighbours::{Around, Which};
use s2m::predict::AtFloor;
use s2m::progress::{Progress, Silent};
use s2m::report::Report;
use s2m::{Ask, Model, Scored};
use serde::Serialize;

use crate::limits;
use crate::pictures::{Fault, Shown, shown};

/// Proposals that are scored before somebody else may look.
const PIECE: usize = 1 << 11;

/// Proposals and what was found out about them.
pub(crate) struct Proposals {
    /// Behind a lock that is taken in the order of asking, so that scoring waits its turn after every piece.
    scored: tokio::sync::Mutex<Scored>,
    wanted: usize,
    /// So many are scored.
    done: AtomicUsize,
    banked_seed: Option<u64>,
    found: Mutex<Option<Arc<Found>>>,
    predictions: Mutex<(usize, HashMap<String, Arc<Outlook>>)>,
    /// Why there are no more.
    fault: Mutex<Option<String>>,
}

/// How far scoring is.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Progressed {
    scored: usize,
    wanted: usize,
    /// Whether the joint classes are known.
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

/// What is predicted for a query.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Outlook {
    /// Proposals looked at.
    proposals: usize,
    /// With the model's own floor.
    own: Option<Expected>,
    /// At each purity of the slider.
    at: Vec<(f64, Option<Expected>)>,
}

/// What one floor leads to.
#[derive(Debug, Clone, Copy, Serialize)]
struct Expected {
    floor: f64,
    predicted_purity: f64,
    calls_per_sample: f64,
    /// Share of all items with a label that is kept.
    share: f64,
}

/// A neighbour and its item.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Near {
    proposal: u64,
    distance: f64,
    predicted: f64,
    weighted: bool,
    item: Shown,
}

/// Neighbours of a sample.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Nearby {
    nearest: Vec<Near>,
    among: usize,
    median: f64,
}

/// Purities of the slider.
pub(crate) fn purities() -> impl Iterator<Item = f64> {
    let coarse = (10..18).map(|step| f64::from(step) * 0.05);
    let fine = (90..100).map(|step| f64::from(step) / 100.0);
    let finest = [0.995, 0.999];
    coarse
        .map(|purity| (purity * 100.0).round() / 100.0)
        .chain(fine)
        .chain(finest)
}

/// Says when the server closes.
struct Closing<'c>(&'c AtomicBool);

impl Progress for Closing<'_> {
    fn stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole at every moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proposals {
    /// None is scored yet.
    pub(crate) fn open(model: &Model, bank: Option<&Path>) -> Result<Self, Fault> {
        let scored = match bank {
            None => model.scored(0)?,
            Some(bank) => model.scored_in(bank)?,
        };
        let in_bank = (scored.in_bank() as usize).min(limits::BANKED);
        Ok(Self {
            wanted: if in_bank > 0 {
                in_bank
            } else {
                limits::PROPOSALS
            },
            done: AtomicUsize::new(0),
            banked_seed: bank.map(|_| scored.seed()),
            scored: tokio::sync::Mutex::new(scored),
            found: Mutex::new(None),
            predictions: Mutex::default(),
            fault: Mutex::default(),
        })
    }

    /// The seed of the bank, where there is one.
    pub(crate) fn banked_seed(&self) -> Option<u64> {
        self.banked_seed
    }

    /// Scores all of them, then looks at the joint classes; ends early where the server closes.
    pub(crate) fn score_all(&self, closing: &AtomicBool) {
        if let Err(error) = self.try_score_all(&Closing(closing)) {
            *lock(&self.fault) = Some(error.to_string());
        }
    }

    fn try_score_all(&self, closing: &Closing<'_>) -> Result<(), Fault> {
        while self.done() < self.wanted {
            let mut scored = self.scored.blocking_lock();
            let next = (scored.len() + PIECE).min(self.wanted);
            scored.score(next, closing)?;
            self.done.store(next, Ordering::Relaxed);
        }
        let mut scored = self.scored.blocking_lock();
        let found = scored.classes(limits::CLASSES, closing)?;
        drop(scored);
        *lock(&self.found) = Some(Arc::new(found));
        Ok(())
    }

    fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> Progressed {
        Progressed {
            scored: self.done(),
            wanted: self.wanted,
            ready: lock(&self.found).is_some(),
            fault: lock(&self.fault).clone(),
        }
    }

    /// All joint classes, once they are known.
    pub(crate) fn classes(&self) -> Option<Arc<Found>> {
        lock(&self.found).clone()
    }

    /// What is predicted for a query.
    pub(crate) fn predict(&self, ask: &Ask) -> Result<Arc<Outlook>, Fault> {
        // What is known gets better with every proposal.
        let age = self.done();
        let name = ask.query().text().to_owned();
        let remembered = |name: &str| {
            let mut known = lock(&self.predictions);
            if known.0 != age || known.1.len() >= limits::PREDICTIONS {
                *known = (age, HashMap::new());
            }
            known.1.get(name).cloned()
        };
        if let Some(outlook) = remembered(&name) {
            return Ok(outlook);
        }
        let wishes: Vec<f64> = purities().collect();
        let mut scored = self.scored.blocking_lock();
        // Somebody may have asked the same while this one waited.
        if let Some(outlook) = remembered(&name) {
            return Ok(outlook);
        }
        let prediction = ask.predict(&mut scored, &wishes)?;
        let expected = |one: AtFloor| Expected {
            floor: one.floor,
            predicted_purity: one.predicted_purity,
            calls_per_sample: one.calls_per_sample,
            share: one.share,
        };
        let at = wishes.into_iter().zip(prediction.at);
        let outlook = Arc::new(Outlook {
            proposals: prediction.proposals,
            own: prediction.own.map(expected),
            at: at.map(|(wish, one)| (wish, one.map(expected))).collect(),
        });
        lock(&self.predictions).1.insert(name, Arc::clone(&outlook));
        Ok(outlook)
    }

    /// Proposals near a sample of a draw.
    pub(crate) fn near(
        &self,
        model: &Model,
        report: &Report,
        (proposal, class): (u64, Option<u32>),
        (which, count): (Which, usize),
    ) -> Result<Nearby, Fault> {
        let mut settings = report.settings.clone();
        settings.overrides.purity = None;
        settings.overrides.floor = Some(report.calibration.floor);
        let ask = model.query(&report.query)?.with_settings(settings);
        let around = Around {
            seed: report.seed,
            proposal,
            class,
        };
        let mut scored = self.scored.blocking_lock();
        let found = ask.neighbours(&mut scored, around, (which, count))?;
        let numbers: Vec<u64> = found.nearest.iter().map(|one| one.proposal).collect();
        let items = scored.items(&numbers, &Silent)?;
        drop(scored);
        let items = shown(model.bundle(), &items)?;
        let nearest = found.nearest.into_iter().zip(items);
        Ok(Nearby {
            nearest: nearest
                .map(|(one, item)| Near {
                    proposal: one.proposal,
                    distance: one.distance,
                    predicted: one.predicted,
                    weighted: one.weighted,
                    item,
                })
                .collect(),
            among: found.among,
            median: found.median,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn whoever_asks_waits_for_one_piece_at_most() {
        let model = Model::open("mnist-even").unwrap();
        let proposals = Proposals::open(&model, None).unwrap();
        let pieces = || proposals.done() / PIECE;
        let mut looks = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| proposals.score_all(&AtomicBool::new(false)));
            while proposals.done() < proposals.wanted && proposals.progress().fault.is_none() {
                let before = pieces();
                let _guard = proposals.scored.blocking_lock();
                looks.push(pieces() - before);
            }
        });
        assert!(proposals.classes().is_some());
        // One piece may end between the count and the queue, and one is waited for.
        assert!(looks.iter().all(|waited| *waited <= 2), "{looks:?}");
        assert!(looks.len() >= proposals.wanted / PIECE / 2, "{looks:?}");
    }
}
