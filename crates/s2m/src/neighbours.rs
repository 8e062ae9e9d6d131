//! Which scored proposals lie nearest to one of them in the latent space.
//!
//! Distances are Euclidean, between latents of the generator's first input, in coordinates in which the prior is standard
//! normal.

use s2m_core::weight::Evidence;
use serde::Serialize;

use crate::ask::Ask;
use crate::draw::{Target, item_posterior, log_weight};
use crate::error::Error;
use crate::pool::Origin;
use crate::progress::Silent;
use crate::scored::{ELSEWHERE, Scored};

/// Whose neighbours are looked for: a proposal of the generator's prior, of any seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Around {
    /// Its seed.
    pub seed: u64,
    /// Its number.
    pub proposal: u64,
    /// The class that a conditional generator was given for it; neighbours then have the same.
    pub class: Option<u32>,
}

/// Which neighbours are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All.
    Any,
    /// Those that the query gives a weight, and on which it more likely holds than not.
    Likely,
}

/// Nearest proposals, nearest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Neighbours {
    /// Those found.
    pub nearest: Vec<Neighbour>,
    /// Proposals that were looked at.
    pub among: usize,
    /// Half of them are nearer than this.
    pub median: f64,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Neighbour {
    /// Its number among the scored proposals.
    pub proposal: u64,
    /// How far away it is.
    pub distance: f64,
    /// Predicted probability that the query holds there.
    pub predicted: f64,
    /// Whether the query gives it a weight.
    pub weighted: bool,
}

/// Latents that are made at a time.
const AT_A_TIME: usize = 1 << 12;

/// Proposals that are looked at together, nearest first.
const LOOKED_AT: usize = 256;

impl Ask {
    /// The scored proposals nearest to one, with what this query makes of each. The proposal itself is left out.
    pub fn neighbours(
        &self,
        scored: &mut Scored,
        around: Around,
        (which, count): (Which, usize),
    ) -> Result<Neighbours, Error> {
        if self.model().bundle().hash() != scored.session.bundle.hash() || self.draws_adapted() {
            return Err(Error::Setting(ELSEWHERE.to_owned()));
        }
        let by_distance = distances(scored, around);
        let Scored { session, pool, .. } = scored;
        let mut settings = self.settings().clone();
        settings.seed = None;
        let weighed = crate::weigh::weigh(&session.bundle, self.query(), &settings)?;
        let target = session.plan_shared(&weighed, pool, &Silent)?;
        let mut nearest = Vec::with_capacity(count);
        for stretch in by_distance.chunks(LOOKED_AT) {
            let numbers: Vec<u64> = stretch.iter().map(|(_, number)| *number).collect();
            let mut each = stretch.iter();
            pool.look_at(&numbers, &mut |number, evidence| {
                let distance = each
                    .next()
                    .map_or(0.0, |(distance, _)| f64::from(*distance));
                nearest.push(neighbour(&target, number, distance, evidence)?);
                Ok(())
            })?;
            nearest.retain(|one: &Neighbour| {
                which == Which::Any || (one.weighted && one.predicted >= 0.5)
            });
            if nearest.len() >= count {
                break;
            }
        }
        nearest.truncate(count);
        let middle = by_distance.get(by_distance.len() / 2);
        Ok(Neighbours {
            nearest,
            among: by_distance.len(),
            median: middle.map_or(0.0, |(distance, _)| f64::from(*distance)),
        })
    }
}

fn neighbour(
    target: &Target,
    proposal: u64,
    distance: f64,
    evidence: Evidence<'_>,
) -> Result<Neighbour, Error> {
    let item = item_posterior(target, proposal, evidence)?;
    Ok(Neighbour {
        proposal,
        distance,
        predicted: target.weighting.predicted(&item),
        weighted: log_weight(target, proposal, evidence)?.is_finite(),
    })
}

/// Distance and number of every other scored proposal of the same class, nearest first.
fn distances(scored: &Scored, around: Around) -> Vec<(f32, u64)> {
    let Scored { session, pool, .. } = scored;
    let (own, others) = (Origin::prior(around.seed), Origin::prior(scored.seed()));
    let (own, others) = (
        own.latents(&session.bundle),
        others.latents(&session.bundle),
    );
    let size = own.size;
    let mut centre = vec![0.0; size];
    own.fill_normal(&[around.proposal], &mut centre);
    let mut latents = vec![0.0; size * AT_A_TIME];
    let mut found = Vec::with_capacity(pool.len());
    for first in (0..pool.len() as u64).step_by(AT_A_TIME) {
        let numbers: Vec<u64> =
            (first..(first + AT_A_TIME as u64).min(pool.len() as u64)).collect();
        let latents = &mut latents[..numbers.len() * size];
        others.fill_normal(&numbers, latents);
        for (&number, latent) in numbers.iter().zip(latents.chunks_exact(size)) {
            let squares = latent.iter().zip(&centre).map(|(a, b)| (a - b) * (a - b));
            found.push((squares.sum::<f32>().sqrt(), number));
        }
    }
    let itself = |number: u64| around.seed == scored.seed() && number == around.proposal;
    found.retain(|(_, number)| {
        !itself(*number) && (around.class.is_none() || pool.class(*number) == around.class)
    });
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    found
}
