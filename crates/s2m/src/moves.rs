//! Samples that take steps along the gradient after they were drawn.
//!
//! The steps leave the target as it is ([`s2m_core::moves`]): prior times weight in the latent space, whatever the
//! proposals were drawn from, with the class of each sample fixed. So what the sampler states about its samples holds after
//! any number of steps. The size of the steps is found on pilots: samples that are drawn beyond those asked for, and
//! not given out. Every sample moves by random numbers of its own, so it is a function of the seed, the proposal
//! that it started from, how many samples before it started there too, and the number and size of steps.
//!
//! Moved samples are held in memory, about 4 bytes for each number of a latent.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroUsize;

use s2m_core::moves::{Chain, StepSize, Tally, View, Walk};
use s2m_core::samplers::{Draw, Info, Warning};
use s2m_core::setting::Setting;
use s2m_model::disk::Column;
use s2m_model::latents::{LatentSource, slope_to_uniform, to_uniform};
use s2m_model::logits::Logits;
use s2m_model::manifest::{LatentEntry, Prior};
use s2m_model::networks::{Asked, Given, Gradients};

use crate::draw::Target;
use crate::error::Error;
use crate::moved::{CALLS_PER_GRADIENT, MovedRows, MovesRecord};
use crate::pool::{ClassRule, Pool};
use crate::progress::Progress;
use crate::samplers::SamplerChoice;
use crate::session::Session;
use crate::settings::SampleSettings;
use crate::smc;

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

pub(crate) fn pilots(samples: NonZeroUsize) -> usize {
    let [least, most] = PILOTS;
    (samples.get() / PILOT_SHARE).clamp(least, most)
}

/// Samples to draw so that so many are left after the size of steps is found. `smc` finds it on copies.
pub(crate) fn with_pilots(settings: &SampleSettings, samples: NonZeroUsize) -> NonZeroUsize {
    match settings.moves {
        Some(_) if settings.sampler != SamplerChoice::Smc => {
            samples.saturating_add(pilots(samples))
        }
        _ => samples,
    }
}

/// What is left of a number of calls for drawing; refused where moves alone take more. Of `smc` the first rung is certain, and
/// the others have one half of what it leaves.
pub(crate) fn within(
    settings: &SampleSettings,
    samples: NonZeroUsize,
    max_calls: usize,
) -> Result<usize, Error> {
    let Some(steps) = settings.steps() else {
        return Ok(max_calls);
    };
    let looks = samples.get().saturating_mul(steps.get().saturating_add(1));
    let drawn = with_pilots(settings, samples).get() - samples.get();
    let looks = looks.saturating_add(Walk::tuning_cost(pilots(samples)) + drawn);
    let calls = looks.saturating_mul(CALLS_PER_GRADIENT);
    let on = match settings.sampler {
        SamplerChoice::Smc => " on the first rung alone",
        _ => "",
    };
    match max_calls.checked_sub(calls).filter(|left| *left > 0) {
        Some(left) if settings.sampler == SamplerChoice::Smc => Ok(left.div_ceil(2)),
        Some(left) => Ok(left),
        None => Err(Error::Setting(format!(
            "{} for {samples} items takes {calls} calls{on}, and {max_calls} are allowed\nhint: take fewer steps, or allow more with {}",
            Setting("moves").to(steps),
            Setting("max_calls")
        ))),
    }
}

/// Moves what was kept, where the settings ask for it: the rows of a new pool. Of `smc` the rungs of the climb are noted, which
/// ends where more calls than are allowed would be spent.
pub(crate) fn move_samples(
    (session, pool): (&Session, &Pool),
    (target, allowed): (&Target, usize),
    (kept, samples): (&Column<u64>, NonZeroUsize),
    info: &mut Info,
    progress: &dyn Progress,
) -> Result<Option<(Column<u64>, Moved)>, Error> {
    let (Some(steps), Some(gradients)) = (session.settings.steps(), &session.gradients) else {
        return Ok(None);
    };
    let mover = Mover {
        session,
        pool,
        target,
        gradients,
    };
    let rows = kept.read(0..kept.len())?;
    let rows = rows.split_at(samples.get().min(rows.len()));
    let gathered = match info {
        Info::Smc(info) => smc::climb(&mover, rows.0, (steps, allowed), info, progress)?,
        _ => mover.move_each(rows, steps, progress)?,
    };
    progress.end();
    gathered.finish().map(Some)
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

    fn finish(mut self) -> Result<(Column<u64>, Moved), Error> {
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

/// Whose random numbers each kept row moves by.
fn chains(session: &Session, pool: &Pool, rows: &[u64]) -> Vec<Chain> {
    let mut before = std::collections::HashMap::new();
    let chain = |&row: &u64| {
        let copy = before.entry(row).or_insert(0_u32);
        let (stage, proposal) = pool.start(row);
        let chain = Chain {
            seed: session.seed,
            stage,
            proposal,
            copy: *copy,
        };
        *copy += 1;
        chain
    };
    rows.iter().map(chain).collect()
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

    /// Lets each sample make its steps; pilots come last.
    fn move_each(
        &self,
        (rows, pilots): (&[u64], &[u64]),
        steps: NonZeroUsize,
        progress: &dyn Progress,
    ) -> Result<Gathered<'_>, Error> {
        let chains = chains(self.session, self.pool, &[rows, pilots].concat());
        let all = steps.get() as u64;
        progress.begin("moving samples", Some(rows.len() as u64 * all));
        let classes = self.classes(pilots);
        let mut walk = self.start(pilots, &chains[rows.len()..])?;
        let size = walk.tune(&mut |latents, which| self.look(latents, which, &classes))?;
        let mut gathered = Gathered::new(self, steps.get(), size.get());
        gathered.record.gradients = walk.tally.looked_at as usize;
        gathered.record.pilots = pilots.len();
        let mut done = 0;
        let most = TOGETHER.max(self.gradients.round());
        for (rows, chains) in rows.chunks(most).zip(chains.chunks(most)) {
            let walk = self.run((rows, chains), (all, size), &mut |step| {
                Error::unless_stopped(progress, done + step * rows.len() as u64)
            })?;
            done += all * rows.len() as u64;
            gathered.add(rows, &walk);
        }
        Ok(gathered)
    }

    fn start(&self, rows: &[u64], chains: &[Chain]) -> Result<Walk, Error> {
        let classes = self.classes(rows);
        let latents = self.normal_latents(rows);
        Walk::start(latents, chains.to_vec(), &mut |latents, which| {
            self.look(latents, which, &classes)
        })
    }

    /// All steps of some chains.
    fn run(
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
