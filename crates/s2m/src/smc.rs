//! `--sampler smc`: particles that moves along the gradient take from the prior to the target.
//!
//! The first particles are kept proposals, as [`s2m_core::samplers::smc`] chooses them; from there they climb together, and
//! all of them are held in memory. A sample is a function of the seed, the number of samples and the settings.

use std::num::NonZeroUsize;

use s2m_core::moves::{View, Walk};
use s2m_core::samplers::Failure;
use s2m_core::samplers::smc::{self, Info, Ladder, chain};

use crate::error::Error;
use crate::moved::CALLS_PER_GRADIENT;
use crate::mover::{Gathered, Mover, TOGETHER, pilots};
use crate::progress::Progress;
use crate::refusal::Refusal;

/// Takes kept rows to the target, and notes the rungs.
pub(crate) fn climb<'m>(
    mover: &'m Mover<'m>,
    rows: &[u64],
    (moves, allowed): (NonZeroUsize, usize),
    info: &mut Info,
    progress: &dyn Progress,
) -> Result<Gathered<'m>, Error> {
    let (session, target) = (mover.session, mover.target);
    progress.begin("moving particles", None);
    let (classes, width) = (mover.classes(rows), mover.gradients.width());
    let most = TOGETHER.max(mover.gradients.round());
    let mut done = 0;
    let mut look = |latents: &[f32], starts: &[usize]| -> Result<Vec<View>, Error> {
        let mut views = Vec::with_capacity(starts.len());
        for (latents, starts) in latents.chunks(most * width).zip(starts.chunks(most)) {
            views.extend(mover.look(latents, starts, &classes)?);
            done += starts.len() as u64;
            Error::unless_stopped(progress, done)?;
        }
        Ok(views)
    };
    let latents = mover.normal_latents(rows);
    let chains = (0..rows.len()).map(|particle| chain(session.seed, particle));
    let mut walk = Walk::start(latents, chains.collect(), &mut look)?;
    let ladder = Ladder {
        seed: session.seed,
        moves: moves.get() as u64,
        first: info.rungs[0],
        pilots: pilots(NonZeroUsize::new(rows.len()).unwrap_or(NonZeroUsize::MIN)),
        proposals: rows,
    };
    let gradients = rows.len().saturating_mul(moves.get());
    let gradients = gradients.saturating_add(Walk::tuning_cost(ladder.pilots));
    let rung = gradients.saturating_mul(CALLS_PER_GRADIENT);
    let drawn = target.searched + target.rows;
    let mut ready = |walk: &Walk| {
        let calls = drawn + CALLS_PER_GRADIENT * walk.tally.looked_at as usize;
        if calls.saturating_add(rung) <= allowed {
            return Ok(());
        }
        let failure = Failure::NotArrived {
            calls,
            particles: rows.len(),
            power: walk.power,
            allowed,
        };
        Err(Refusal::of(failure, &target.weighting, session.settings.sampler).into())
    };
    info.rungs = smc::climb(&mut walk, &ladder, &mut look, &mut ready)?;
    let last = info.rungs.last().map_or(0.0, |rung| rung.step_size);
    let mut gathered = Gathered::new(mover, moves.get() * info.rungs.len(), last);
    let starts: Vec<u64> = walk.starts.iter().map(|&at| rows[at]).collect();
    gathered.add(&starts, &walk);
    Ok(gathered)
}
