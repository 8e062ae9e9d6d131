//! What samples that move along the gradient need: the networks' derivatives at latents, and a place for what has moved.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroUsize;

use s2m_core::moves::{Chain, StepSize, Tally, View, Walk};
use s2m_core::samplers::{Draw, Info, Warning};
use s2m_model::disk::Column;
use s2m_model::latents::{LatentSource, slope_to_uniform, to_uniform};
use s2m_model::logits::Logits;
use s2m_model::manifest::{LatentEntry, Prior};
use s2m_model::networks::{Asked, Given, Gradients};

use crate::draw::Target;
use crate::error::Error;
use crate::moved::{MovedRows, MovesRecord};
use crate::pool::{ClassRule, Pool};
use crate::session::Session;

/// Pilots for the size of the steps: a share of the samples, within these bounds.
const PILOT_SHARE: usize = 16;
const PILOTS: [usize; 2] = [4, 32];

/// Samples that move together, at least, where the networks take fewer at a time.
pub(crate) const TOGETHER: usize = 1024;

/// Samples after their moves.
pub(crate) struct Moved {
    /// What holds them.
    pub(crate) pool: Pool,
    /// The rows that they started from, in the pool that they were drawn from.
    pub(crate) starts: Vec<u64>,
    /// How it went.
    pub(crate) record: MovesRecord,
}

impl std::fmt::Debug for Moved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Moved")
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}

impl Moved {
    /// Puts what is so after the moves in the place of what a sampler said before them.
    pub(crate) fn note(&self, drawn: &mut Draw) {
        let (samples, count) = (self.starts.len(), self.record.duplicates);
        drawn.samples = samples;
        drawn.duplicates = count;
        let warnings = &mut drawn.error.warnings;
        warnings.retain(|warning| !matches!(warning, Warning::Duplicates { .. }));
        warnings.extend((count > 0).then_some(Warning::Duplicates { count }));
        if let Info::Smc(info) = &drawn.info {
            drawn.acceptance = self.record.acceptance;
            warnings.extend(info.warning(samples));
        }
    }
}

/// Pilots for so many samples.
pub(crate) fn pilots(samples: NonZeroUsize) -> usize {
    let [least, most] = PILOTS;
    (samples.get() / PILOT_SHARE).clamp(least, most)
}

/// What is known about moved samples so far.
pub(crate) struct Gathered<'m> {
    mover: &'m Mover<'m>,
    moved: MovedRows,
    starts: Vec<u64>,
    logits: Vec<f32>,
    seen: HashSet<u64>,
    tally: Tally,
    record: MovesRecord,
}

impl<'m> Gathered<'m> {
    /// Nothing yet; so many steps are made, the last of them of this size.
    pub(crate) fn new(mover: &'m Mover<'m>, steps: usize, step_size: f64) -> Self {
        let width = mover.gradients.width();
        Self {
            mover,
            moved: MovedRows {
                latents: Vec::new(),
                width,
                starts: Vec::new(),
                classes: Vec::new(),
                adapted: mover.pool.is_adapted(),
            },
            starts: Vec::new(),
            logits: Vec::new(),
            seen: HashSet::new(),
            tally: Tally::default(),
            record: MovesRecord {
                steps,
                step_size,
                acceptance: 0.0,
                gradients: 0,
                pilots: 0,
                unmoved: 0,
                duplicates: 0,
            },
        }
    }

    /// Notes what finding the size of the steps took.
    pub(crate) fn note_pilots(&mut self, pilots: usize, walk: &Walk) {
        self.record.gradients += walk.tally.looked_at as usize;
        self.record.pilots = pilots;
    }

    /// Takes over where chains stand that started from some rows.
    pub(crate) fn add(&mut self, rows: &[u64], walk: &Walk) {
        let mover = self.mover;
        self.tally.tried += walk.tally.tried;
        self.tally.accepted += walk.tally.accepted;
        self.record.gradients += walk.tally.looked_at as usize;
        let before = mover.normal_latents(rows);
        for ((place, before), &row) in walk.places.iter().zip(&before).zip(rows) {
            self.record.unmoved += usize::from(place.latent == *before);
            let mut hash = DefaultHasher::new();
            place
                .latent
                .iter()
                .for_each(|number| number.to_bits().hash(&mut hash));
            let (origin, number) = mover.pool.place(row);
            self.record.duplicates += usize::from(!self.seen.insert(hash.finish()));
            self.moved.latents.extend(mover.as_taken(&place.latent));
            self.moved.starts.push((origin.proposals.stage(), number));
            self.logits.extend_from_slice(&place.view.said);
        }
        self.moved.classes.extend(mover.classes(rows));
        self.starts.extend_from_slice(rows);
    }

    /// The rows of a new pool, and what holds them.
    pub(crate) fn finish(mut self) -> Result<(Column<u64>, Moved), Error> {
        let Mover { session, pool, .. } = self.mover;
        self.record.acceptance = self.tally.acceptance();
        let shape = crate::pool::row_shape(&session.bundle);
        let rows = Logits::from_values(shape, self.logits).expect("each place has a whole row");
        let mut kept = pool.column();
        kept.append(&(0..self.starts.len() as u64).collect::<Vec<_>>())?;
        let pool = session.pool(ClassRule::None);
        let moved = Moved {
            pool: pool.with_moved(self.moved, &rows)?,
            starts: self.starts,
            record: self.record,
        };
        Ok((kept, moved))
    }
}

/// What moves need.
pub(crate) struct Mover<'m> {
    pub(crate) session: &'m Session,
    pub(crate) pool: &'m Pool,
    pub(crate) target: &'m Target,
    pub(crate) gradients: &'m Gradients,
}

impl Mover<'_> {
    fn inputs(&self) -> &[LatentEntry] {
        &self.session.bundle.manifest().generator.latents
    }

    pub(crate) fn classes(&self, rows: &[u64]) -> Vec<u32> {
        rows.iter()
            .filter_map(|&row| self.pool.class(row))
            .collect()
    }

    /// Latents of some rows, in coordinates in which the prior is standard normal.
    pub(crate) fn normal_latents(&self, rows: &[u64]) -> Vec<Vec<f32>> {
        let latent = |&row: &u64| {
            let (origin, number) = self.pool.place(row);
            let mut latent = vec![0.0; self.gradients.width()];
            let mut left = latent.as_mut_slice();
            for (input, entry) in self.inputs().iter().enumerate() {
                let (own, rest) = left.split_at_mut(entry.size());
                let source = LatentSource {
                    proposals: origin.proposals,
                    mixture: origin.mixture.as_deref().filter(|_| input == 0),
                    input: input as u16,
                    prior: entry.prior,
                    size: entry.size(),
                };
                source.fill_normal(&[number], own);
                left = rest;
            }
            latent
        };
        rows.iter().map(latent).collect()
    }

    /// Calls `see` with the numbers of each uniform input within rows of latents.
    fn each_uniform(&self, rows: &mut [f32], mut see: impl FnMut(usize, &mut f32)) {
        let width = self.gradients.width();
        let mut first = 0;
        for entry in self.inputs() {
            if entry.prior == Prior::Uniform {
                for row in 0..rows.len() / width {
                    let range = row * width + first..row * width + first + entry.size();
                    range.for_each(|at| see(at, &mut rows[at]));
                }
            }
            first += entry.size();
        }
    }

    /// Latents as the generator takes them.
    fn as_taken(&self, latents: &[f32]) -> Vec<f32> {
        let mut taken = latents.to_vec();
        self.each_uniform(&mut taken, |_, value| *value = to_uniform(*value));
        taken
    }

    /// What is known about latents that come from some starts; `classes` are those of all starts.
    pub(crate) fn look(
        &self,
        latents: &[f32],
        which: &[usize],
        classes: &[u32],
    ) -> Result<Vec<View>, Error> {
        let classes: Vec<u32> = which
            .iter()
            .filter_map(|&at| classes.get(at))
            .copied()
            .collect();
        let numbers: Vec<u64> = which.iter().map(|&at| at as u64).collect();
        let taken = self.as_taken(latents);
        let given = Given {
            latents: &taken,
            numbers: &numbers,
            classes: &classes,
        };
        let weighting = &self.target.weighting;
        let ask = |asked: Asked<'_>| {
            let slopes = weighting.slopes(asked.evidence, asked.set_logits, asked.slopes);
            // Where a logit is no number there is no weight either.
            slopes.unwrap_or_default();
        };
        let (logits, mut drifts) = self.gradients.run(given, &ask)?;
        self.each_uniform(&mut drifts, |at, slope| {
            *slope *= slope_to_uniform(latents[at]);
        });
        let view = |(row, drift): (usize, &[f32])| {
            let log_weight = weighting.log_weight(logits.evidence(row));
            let log_weight = log_weight.unwrap_or(f64::NEG_INFINITY);
            View::new(log_weight, drift.to_vec()).with(logits.row(row))
        };
        let drifts = drifts.chunks_exact(self.gradients.width());
        Ok(drifts.enumerate().map(view).collect())
    }

    pub(crate) fn start(&self, rows: &[u64], chains: &[Chain]) -> Result<Walk, Error> {
        let classes = self.classes(rows);
        let latents = self.normal_latents(rows);
        Walk::start(latents, chains.to_vec(), &mut |latents, which| {
            self.look(latents, which, &classes)
        })
    }

    /// All steps of some chains.
    pub(crate) fn run(
        &self,
        (rows, chains): (&[u64], &[Chain]),
        (steps, size): (u64, StepSize),
        tell: &mut dyn FnMut(u64) -> Result<(), Error>,
    ) -> Result<Walk, Error> {
        let classes = self.classes(rows);
        let mut walk = self.start(rows, chains)?;
        for step in 0..steps {
            walk.step(step, size, &mut |latents, which| {
                self.look(latents, which, &classes)
            })?;
            tell(step + 1)?;
        }
        Ok(walk)
    }
}
