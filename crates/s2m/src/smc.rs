//! `--sampler smc`: particles that moves along the gradient take from the prior to the target.
//!
//! The first particles are kept proposals, as [`s2m_core::samplers::smc`] chooses them; from there they climb together, and
//! all of them are held in memory. A sample is a function of the seed, the number of samples and the settings.

use std::num::NonZeroUsize;

use s2m_core::moves::{Chain, View, Walk};
use s2m_core::samplers::Failure;
use s2m_core::samplers::smc::{self, Info, Ladder};
use s2m_core::streams::PARTICLES;

use crate::error::Error;
use crate::moved::CALLS_PER_GRADIENT;
use crate::moves::{Gathered, Mover, TOGETHER};
use crate::progress::Progress;
use crate::refusal::Refusal;

/// Takes kept rows to the target, and notes the rungs. Pilots find the size of the steps on the first one; the others have theirs
/// from the rung before.
pub(crate) fn climb<'m>(
    mover: &'m Mover<'m>,
    (rows, pilots): (&[u64], &[u64]),
    (moves, allowed): (NonZeroUsize, usize),
    info: &mut Info,
    progress: &dyn Progress,
) -> Result<Gathered<'m>, Error> {
    let (session, target) = (mover.session, mover.target);
    let chain = |particle: usize| Chain {
        seed: session.seed,
        stage: PARTICLES,
        proposal: particle as u64,
        copy: 0,
    };
    let chains: Vec<Chain> = (0..rows.len() + pilots.len()).map(chain).collect();
    let first = info.rungs[0];
    progress.begin("moving particles", None);
    let pilots = mover.tune(pilots, &chains[rows.len()..], first.power)?;
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
    let mut walk = Walk::start(latents, chains[..rows.len()].to_vec(), &mut look)?;
    let ladder = Ladder {
        seed: session.seed,
        moves: moves.get() as u64,
        first,
        size: pilots.size,
        proposals: rows,
    };
    let gradients = rows.len().saturating_mul(moves.get());
    let rung = gradients.saturating_mul(CALLS_PER_GRADIENT);
    let drawn = target.searched + target.rows + CALLS_PER_GRADIENT * pilots.gradients as usize;
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
    let mut gathered = Gathered::new(mover, moves.get() * info.rungs.len(), &pilots);
    if let Some(last) = info.rungs.last() {
        gathered.set_step_size(last.step_size);
    }
    let starts: Vec<u64> = walk.starts.iter().map(|&at| rows[at]).collect();
    gathered.add(&starts, &walk);
    Ok(gathered)
}
