//! What a search may have missed: judged on fresh proposals of the prior, and mended.
//!
//! A search can only cover what it saw. So proposals of the prior that it never used are scored, and of those
//! that `reject` would accept, how many lie where the mixture has no component. Where one does, a walk from it
//! shows the part that it belongs to ([`super::walk`]), that part gets components of its own, and the new
//! mixture is judged by new proposals. With `N` of them and a share `Z` accepted, a part of `3/(N·Z)` of the
//! target may still be missing at 95 %.

use std::num::NonZeroUsize;
use std::sync::Arc;

use s2m_core::adaptation::{Recycled, beyond_components, cap_and_share, largest_power, tempered};
use s2m_core::mixture::Mixture;
use s2m_core::mixture::select::{Points, select};
use s2m_core::proposals::{Proposals, Purpose};

use super::AdaptError;
use super::adaptive::wanted_effective;
use super::record::Coverage;
use super::search::Search;
use super::walk::walk;
use crate::error::Error;
use crate::pool::Pool;

/// Accepted proposals of the prior that are looked for, as a share of the samples: what they cost is this
/// share of what all samples would cost without adaptation.
const SHARE_OF_SAMPLES: f64 = 1.0 / 32.0;

/// Expected proposals in a missing part at 95 %; the wanted distance needs no more than so many over it.
const EXPECTED: f64 = 3.0;

/// How often a mixture is mended and judged anew.
const MAX_ROUNDS: u32 = 4;

/// Fewest accepted proposals with which a judgement is worth its calls.
const LEAST_ACCEPTED: f64 = 1.0;

/// Most parts that a mixture is mended to have.
const MAX_PARTS: usize = 12;

/// Stages of proposals that show the shape of a part, and their proposals as a multiple of the effective ones
/// that a fit wants.
const STAGES_OF_A_PART: usize = 5;
const LEAST_STAGES: usize = 2;
const STAGE_OF_A_PART: usize = 5;

/// Power of weights where even small ones leave too few.
const LEAST_POWER: f64 = 1e-3;

/// What there is to judge.
pub(super) struct Judged<'j> {
    /// Log weights under the prior of what the search saw, and the log of what each stands for.
    pub(super) log_scores: &'j [f64],
    pub(super) log_ratios: &'j [f64],
    /// Samples that are to be drawn, within which distance, and the most calls for judging.
    pub(super) samples: NonZeroUsize,
    pub(super) distance: f64,
    pub(super) most_calls: usize,
    /// Share of the prior in a mended mixture.
    pub(super) prior_share: f64,
    /// What is done where something lies beyond the components.
    pub(super) beyond: Beyond,
}

/// A latent of the prior that `reject` accepts, with its log weight.
struct Accepted {
    points: Vec<f32>,
    log_weights: Vec<f64>,
}

/// What is done where something lies beyond the components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beyond {
    /// Its part gets components of its own.
    Mended,
    /// It is counted.
    Counted,
}

/// What judging ended with.
pub(super) struct Settled {
    pub(super) mixture: Option<Arc<Mixture>>,
    pub(super) coverage: Option<Coverage>,
    /// Share of each part of a mixture that was mended, by accepted proposals of the prior.
    pub(super) parts: Vec<f64>,
}

impl Settled {
    /// A mixture about which nothing is said.
    pub(super) fn unjudged(mixture: Option<Arc<Mixture>>) -> Self {
        Self {
            mixture,
            coverage: None,
            parts: Vec::new(),
        }
    }
}

/// Judges a mixture, and mends it as long as something is found beyond its components. Without a mixture
/// everything is.
pub(super) fn settle(
    search: &mut Search<'_>,
    mixture: Option<Arc<Mixture>>,
    judged: &Judged<'_>,
) -> Result<Settled, Error> {
    let mut settled = Settled::unjudged(mixture);
    let found = cap_and_share(judged.log_scores, judged.log_ratios, judged.distance);
    let Some((log_cap, share)) = found else {
        return Ok(settled);
    };
    let wanted = (SHARE_OF_SAMPLES * judged.samples.get() as f64).min(EXPECTED / judged.distance);
    let count = (wanted / share).ceil();
    let mut all = Accepted {
        points: Vec::new(),
        log_weights: Vec::new(),
    };
    let before = search.calls;
    for round in 1..=MAX_ROUNDS {
        let left = judged.most_calls.saturating_sub(search.calls - before);
        let count = count.min(left as f64) as usize;
        if (count as f64) * share < LEAST_ACCEPTED {
            break;
        }
        let stage = search.score(None, count, "prior, to judge what is covered")?;
        let log_acceptance = stage.log_weights.iter().map(|w| (w - log_cap).min(0.0));
        let accepted: f64 = log_acceptance.clone().map(f64::exp).sum();
        let proposals = *stage.pool.proposals();
        let mut uniforms = vec![0.0; count];
        proposals.fill_uniform(Purpose::Accept, 0, &mut uniforms);
        let rows: Vec<u64> = log_acceptance
            .zip(&uniforms)
            .enumerate()
            .filter(|(_, (log, uniform))| uniform.ln() < *log)
            .map(|(row, _)| row as u64)
            .collect();
        let points = stage.pool.normal_latents(&rows);
        let uncovered = match &settled.mixture {
            None => rows.len(),
            Some(mixture) => {
                let beyond = beyond_components(mixture, &points);
                beyond.iter().filter(|beyond| **beyond).count()
            }
        };
        settled.coverage = Some(Coverage {
            proposals: count,
            accepted,
            uncovered,
            rounds: round,
            log_cap,
            share,
        });
        all.points.extend_from_slice(&points);
        let weights = rows.iter().map(|&row| stage.log_weights[row as usize]);
        all.log_weights.extend(weights);
        let spent = search.calls - before + count;
        let last =
            judged.beyond == Beyond::Counted || round == MAX_ROUNDS || spent > judged.most_calls;
        if uncovered == 0 || last {
            break;
        }
        let mut pool = stage.pool;
        let mended = mend(search, &mut pool, &all, judged.prior_share)?;
        (settled.mixture, settled.parts) = (Some(mended.0), mended.1);
    }
    Ok(settled)
}

/// A mixture with components for every part of the target that accepted proposals lie in.
fn mend(
    search: &mut Search<'_>,
    pool: &mut Pool,
    accepted: &Accepted,
    prior_share: f64,
) -> Result<(Arc<Mixture>, Vec<f64>), Error> {
    let size = search.size;
    let count = accepted.log_weights.len();
    let mut covered = vec![false; count];
    let mut parts: Vec<Mixture> = Vec::new();
    for at in 0..count {
        if covered[at] || parts.len() == MAX_PARTS {
            continue;
        }
        let from = &accepted.points[at * size..(at + 1) * size];
        let own = explore(search, pool, (from, accepted.log_weights[at]), prior_share)?;
        let beyond = beyond_components(&own, &accepted.points);
        for (covered, beyond) in covered.iter_mut().zip(beyond) {
            *covered |= !beyond;
        }
        parts.push(own);
    }
    let counts = shares(&parts, &accepted.points, size);
    let all: f64 = counts.iter().sum();
    let counts: Vec<f64> = counts.into_iter().map(|count| count / all).collect();
    let pairs: Vec<(f64, &Mixture)> = counts.iter().copied().zip(&parts).collect();
    let whole = Mixture::combined(&pairs).and_then(|whole| whole.with_prior_share(prior_share));
    let whole = whole.map_err(|e| AdaptError::Fit(e.into()))?;
    Ok((Arc::new(whole), counts))
}

/// Components for the part that a latent lies in: a walk shows where it is, two stages of proposals its shape.
fn explore(
    search: &mut Search<'_>,
    pool: &mut Pool,
    from: (&[f32], f64),
    prior_share: f64,
) -> Result<Mixture, Error> {
    let fault = |e| Error::from(AdaptError::Fit(e));
    let number = search.stages.len() as u16;
    let walked = walk(search, pool, from, number)?;
    let mut own = Mixture::along_mean(&walked.points, search.size).map_err(|e| fault(e.into()))?;
    let proposals = |search: &Search<'_>| {
        Proposals::new(search.session.seed).at_stage(search.stages.len() as u16)
    };
    let mut recycled = Recycled::new(search.size);
    let mut log_scores = Vec::new();
    let wanted = wanted_effective(search.size);
    for stage_number in 0..STAGES_OF_A_PART {
        // Without the prior: one latent of another part would outweigh all of this one.
        let local = own.with_prior_share(0.0).map_err(|e| fault(e.into()))?;
        let drawn_from = format!("{} components of one part", local.components());
        let count = STAGE_OF_A_PART * wanted;
        let stage = search.score(Some(Arc::new(local.clone())), count, &drawn_from)?;
        let rows = stage.pool.rows(0..count)?;
        let ratios = (0..count).map(|row| rows.log_ratio(row));
        log_scores.extend(stage.log_weights.iter().zip(ratios).map(|(w, r)| w - r));
        let numbers: Vec<u64> = (0..count as u64).collect();
        recycled.push(Some(local), &stage.pool.normal_latents(&numbers));
        let ratios = recycled.log_prior_ratios();
        let log_weights = tempered(&log_scores, &ratios, 1.0);
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
        let chosen = select(target, prior_share, proposals(search)).map_err(fault)?;
        own = chosen.mixture;
        if stage_number + 1 >= LEAST_STAGES && power == 1.0 {
            break;
        }
    }
    own.with_prior_share(prior_share)
        .map_err(|e| fault(e.into()))
}

/// How many points are likeliest under each part; none has less than one.
fn shares(parts: &[Mixture], points: &[f32], size: usize) -> Vec<f64> {
    let mut counts = vec![0.0_f64; parts.len()];
    let densities: Vec<Vec<f64>> = parts
        .iter()
        .map(|part| {
            let mut out = vec![0.0; points.len() / size];
            part.log_densities(points, &mut out);
            out
        })
        .collect();
    let count = points.len() / size;
    let best = |at: usize| {
        let parts = densities.iter().map(|own| own[at]).enumerate();
        parts.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    for (part, _) in (0..count).filter_map(best) {
        counts[part] += 1.0;
    }
    counts.into_iter().map(|count| count.max(1.0)).collect()
}
