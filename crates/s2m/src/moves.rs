//! Samples that take steps along the gradient after they were drawn.
//!
//! The steps leave the target as it is ([`s2m_core::moves`]): prior times weight in the latent space, whatever the
//! proposals were drawn from, with the class of each sample fixed. So what the sampler states about its samples holds after
//! any number of steps. The size of the steps is found on pilots: samples that are drawn beyond those asked for, and
//! not given out. Every sample moves by random numbers of its own, so it is a function of the seed, the proposal
//! that it started from, how many samples before it started there too, and the number and size of steps.
//!
//! Moved samples are held in memory, about 4 bytes for each number of a latent.

use std::num::NonZeroUsize;

use s2m_core::moves::{Chain, Walk};
use s2m_core::samplers::Info;
use s2m_core::setting::Setting;
use s2m_model::disk::Column;

use crate::draw::Target;
use crate::error::Error;
use crate::moved::CALLS_PER_GRADIENT;
use crate::mover::{Gathered, Moved, Mover, TOGETHER, pilots};
use crate::pool::Pool;
use crate::progress::Progress;
use crate::samplers::SamplerChoice;
use crate::session::Session;
use crate::settings::SampleSettings;
use crate::smc;

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
        _ => move_each(&mover, rows, steps, progress)?,
    };
    progress.end();
    gathered.finish().map(Some)
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

/// Lets each sample make its steps; pilots come last.
fn move_each<'m>(
    mover: &'m Mover<'m>,
    (rows, pilots): (&[u64], &[u64]),
    steps: NonZeroUsize,
    progress: &dyn Progress,
) -> Result<Gathered<'m>, Error> {
    let chains = chains(mover.session, mover.pool, &[rows, pilots].concat());
    let all = steps.get() as u64;
    progress.begin("moving samples", Some(rows.len() as u64 * all));
    let classes = mover.classes(pilots);
    let mut walk = mover.start(pilots, &chains[rows.len()..])?;
    let size = walk.tune(&mut |latents, which| mover.look(latents, which, &classes))?;
    let mut gathered = Gathered::new(mover, steps.get(), size.get());
    gathered.note_pilots(pilots.len(), &walk);
    let mut done = 0;
    let most = TOGETHER.max(mover.gradients.round());
    for (rows, chains) in rows.chunks(most).zip(chains.chunks(most)) {
        let walk = mover.run((rows, chains), (all, size), &mut |step| {
            Error::unless_stopped(progress, done + step * rows.len() as u64)
        })?;
        done += all * rows.len() as u64;
        gathered.add(rows, &walk);
    }
    Ok(gathered)
}
