//! A mixture with components for every part of a target that proposals of the prior were found in.
//!
//! What a search found is kept as it is. From the first accepted proposal that is lost a walk shows the part that it
//! belongs to ([`super::walk`]), stages of proposals show its shape, and so on until none is lost. How much of the
//! target each part has is known from the weights of its own proposals, far better than by counting the few
//! accepted ones.

use std::sync::Arc;

use s2m_core::adaptation::{Part, Recycled, largest_power, part_masses, tempered, thin};
use s2m_core::mixture::Mixture;
use s2m_core::mixture::select::{Points, select};
use s2m_core::proposals::{Proposals, Purpose};
use s2m_core::streams;

use super::AdaptError;
use super::adaptive::wanted_effective;
use super::parts::{Accepted, Judged};
use super::search::Search;
use super::walk::walk;
use crate::error::Error;
use crate::pool::Pool;

/// Most parts that a mixture is mended to have.
const MAX_PARTS: usize = 12;

/// Stages of proposals that show the shape of a part, and their proposals as a multiple of the effective ones
/// that a fit wants.
const STAGES_OF_A_PART: usize = 5;
const LEAST_STAGES: usize = 2;
const STAGE_OF_A_PART: usize = 5;

/// Power of weights where even small ones leave too few.
const LEAST_POWER: f64 = 1e-3;

/// Points that are kept of a part, to know its mass.
const POINTS_OF_A_PART: usize = 2000;

/// What fresh proposals of the prior found.
pub(super) struct Found<'f> {
    pub(super) accepted: &'f Accepted,
    /// Share of the prior in a mended mixture.
    pub(super) prior_share: f64,
    /// Calls for parts, of all rounds together; one part is always looked for.
    pub(super) most_calls: usize,
}

/// All parts as one mixture, and the share of the target in each.
type Whole = (Arc<Mixture>, Vec<f64>);

/// The parts that are known.
#[derive(Default)]
pub(super) struct Parts {
    known: Vec<Part>,
    /// Calls that they took.
    calls: usize,
    /// Accepted proposals from which a walk went out.
    walked: Vec<usize>,
}

impl Parts {
    /// What a search found, as one part.
    pub(super) fn of_search(
        search: &Search<'_>,
        mixture: &Mixture,
        judged: &Judged<'_>,
        points: &[f32],
    ) -> Result<Self, Error> {
        let log_weights = tempered(judged.log_scores, judged.log_ratios, 1.0);
        let part = part(mixture, points, &log_weights, search.proposals())?;
        Ok(Self {
            known: vec![part],
            ..Self::default()
        })
    }

    /// Looks for the parts of all accepted proposals that are lost; none where no part came on top.
    pub(super) fn mend(
        &mut self,
        search: &mut Search<'_>,
        pool: &mut Pool,
        found: &Found<'_>,
    ) -> Result<Option<Whole>, Error> {
        let accepted = found.accepted;
        let known = self.known.len();
        loop {
            let whole = self.whole(accepted.log_weights.len(), found.prior_share)?;
            let mixture = whole.as_ref().map(|(mixture, _)| mixture.as_ref());
            let lost = accepted.lost(mixture, 0);
            let next = (0..lost.len()).find(|at| lost[*at] && !self.walked.contains(at));
            let dear = self.calls > found.most_calls || self.known.len() == MAX_PARTS;
            let Some(at) = next.filter(|_| !dear) else {
                return Ok(whole.filter(|_| self.known.len() > known));
            };
            let before = search.calls;
            let from = &accepted.points[at * search.size..(at + 1) * search.size];
            let from = (from, accepted.log_weights[at]);
            let part = explore(search, pool, from, found.prior_share)?;
            self.known.push(part);
            self.walked.push(at);
            self.calls += search.calls - before;
        }
    }

    /// All parts as one mixture, and their shares; none without a part.
    fn whole(&self, accepted: usize, prior_share: f64) -> Result<Option<Whole>, Error> {
        if self.known.is_empty() {
            return Ok(None);
        }
        let masses = part_masses(&self.known);
        let sum: f64 = masses.iter().sum();
        // At least one accepted proposal led to each.
        let least = 0.5 / accepted.max(1) as f64;
        let shares: Vec<f64> = masses.iter().map(|mass| (mass / sum).max(least)).collect();
        let sum: f64 = shares.iter().sum();
        let shares: Vec<f64> = shares.into_iter().map(|share| share / sum).collect();
        let mixtures = self.known.iter().map(|part| &part.mixture);
        let pairs: Vec<(f64, &Mixture)> = shares.iter().copied().zip(mixtures).collect();
        let whole = Mixture::combined(&pairs).and_then(|whole| whole.with_prior_share(prior_share));
        let whole = whole.map_err(AdaptError::Fit)?;
        Ok(Some((Arc::new(whole), shares)))
    }
}

/// A part of which these points with their log weights are known; a few of them stay, and stand for all.
fn part(
    mixture: &Mixture,
    points: &[f32],
    log_weights: &[f64],
    proposals: Proposals,
) -> Result<Part, Error> {
    let count = log_weights.len() as f64;
    let size = mixture.size();
    let mut uniforms = vec![0.0; log_weights.len()];
    proposals.fill_uniform(Purpose::Mixture, streams::THINNED_POINTS, &mut uniforms);
    let (kept, log_weights) = thin(log_weights, &uniforms, POINTS_OF_A_PART);
    let point = |&at: &usize| &points[at * size..(at + 1) * size];
    let mixture = mixture.clone().with_prior_share(0.0);
    Ok(Part {
        mixture: mixture.map_err(AdaptError::Fit)?,
        points: kept.iter().flat_map(point).copied().collect(),
        log_masses: log_weights.iter().map(|w| w - count.ln()).collect(),
    })
}

/// The part that a latent lies in: a walk shows where it is, a few stages of proposals its shape.
fn explore(
    search: &mut Search<'_>,
    pool: &mut Pool,
    from: (&[f32], f64),
    prior_share: f64,
) -> Result<Part, Error> {
    let fault = |e| Error::from(AdaptError::Fit(e));
    let number = search.stages.len() as u16;
    let walked = walk(search, pool, from, number)?;
    let mut own = Mixture::along_mean(&walked.points, search.size).map_err(&fault)?;
    let mut recycled = Recycled::new(search.size);
    let (mut log_scores, mut log_weights) = (Vec::new(), Vec::new());
    let wanted = wanted_effective(search.size);
    for stage_number in 0..STAGES_OF_A_PART {
        // Without the prior: one latent of another part would outweigh all of this one.
        let local = own.with_prior_share(0.0).map_err(&fault)?;
        let drawn_from = format!("{} components of one part", local.components());
        let count = STAGE_OF_A_PART * wanted;
        let stage = search.score(Some(Arc::new(local.clone())), count, &drawn_from)?;
        let rows = stage.pool.rows(0..count)?;
        let ratios = (0..count).map(|row| rows.log_ratio(row));
        log_scores.extend(stage.log_weights.iter().zip(ratios).map(|(w, r)| w - r));
        let numbers: Vec<u64> = (0..count as u64).collect();
        recycled.push(Some(local), &stage.pool.normal_latents(&numbers));
        let ratios = recycled.log_prior_ratios();
        log_weights = tempered(&log_scores, &ratios, 1.0);
        let none = vec![0.0; log_weights.len()];
        let power = largest_power(&log_weights, &none, wanted as f64, 1.0).unwrap_or(LEAST_POWER);
        // Between what was drawn from and the target, not between the prior and the target: the prior is far.
        let aim: Vec<f64> = log_weights.iter().map(|w| power * w).collect();
        let target = Points {
            numbers: recycled.points(),
            log_weights: &aim,
            log_scores: &aim
                .iter()
                .zip(&ratios)
                .map(|(w, r)| w - r)
                .collect::<Vec<f64>>(),
        };
        let chosen = select(target, prior_share, search.proposals()).map_err(fault)?;
        own = chosen.mixture;
        if stage_number + 1 >= LEAST_STAGES && power == 1.0 {
            break;
        }
    }
    part(&own, recycled.points(), &log_weights, search.proposals())
}
