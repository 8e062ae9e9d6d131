//! What all ways to adapt share: stages of proposals, scored and kept.

use std::ops::Range;
use std::sync::Arc;

use s2m_core::adaptation::{Recycled, effective};
use s2m_core::diagnostics::expected_acceptance;
use s2m_core::mixture::Mixture;
use s2m_core::proposals::Proposals;
use s2m_core::samplers::{MIN_SUPPORTED, reject};
use s2m_core::streams;
use s2m_core::weight::LogitError;
use s2m_model::logits::Logits;

use super::record::StageRecord;
use super::store::Stored;
use crate::cover;
use crate::draw::{Target, weigh_first};
use crate::error::AdaptError;
use crate::error::Error;
use crate::pilot::MAX_SIZE;
use crate::pool::{ClassRule, Origin, Pool, RecycledRows, row_shape};
use crate::progress::Progress;
use crate::samplers::SamplerChoice;
use crate::sequence::Sequence;
use crate::session::Session;
use crate::settings::DEFAULT_TV;

/// Stages that a search may have.
pub(crate) const MAX_STAGES: u16 = *streams::SEARCH.end();

/// How the cost of a sample is judged by the weights of some proposals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Price {
    /// Calls of `reject` for this distance.
    Distance(f64),
    /// Calls per effective proposal, for chains of a fixed length and for pools.
    Effective,
}

impl Price {
    pub(crate) fn of(sampler: SamplerChoice) -> Self {
        sampler.distance().map_or(Self::Effective, Self::Distance)
    }

    /// The distance that is wanted, or the usual one.
    pub(crate) fn distance(self) -> f64 {
        match self {
            Self::Distance(distance) => distance,
            Self::Effective => DEFAULT_TV,
        }
    }

    fn calls_per_sample(self, log_weights: &[f64]) -> Option<f64> {
        match self {
            Self::Distance(distance) => reject::calls_per_sample(log_weights, distance),
            Self::Effective => Some(log_weights.len() as f64 / effective(log_weights)),
        }
    }
}

/// A search in the latent space of one bundle.
pub(crate) struct Search<'s> {
    pub(crate) session: &'s Session,
    pub(crate) progress: &'s dyn Progress,
    /// How classes are given to a conditional generator.
    pub(crate) rule: ClassRule,
    /// The query at work, over all proposals of a stage.
    pub(crate) target: Target,
    /// What a sample costs.
    pub(crate) price: Price,
    /// Numbers in a latent.
    pub(crate) size: usize,
    /// Proposals scored so far.
    pub(crate) calls: usize,
    pub(crate) stages: Vec<StageRecord>,
}

/// The number of a stage, in order. The one of fresh proposals is left out: judging and mending may take a search
/// beyond it, and what is sampled must not have been seen.
fn stage_number(order: usize) -> u16 {
    let number = order as u16;
    number + u16::from(number >= Stored::FRESH_STAGE)
}

/// One scored stage.
pub(crate) struct Stage {
    pub(crate) pool: Pool,
    /// Log weights of its positions.
    pub(crate) log_weights: Vec<f64>,
}

impl<'s> Search<'s> {
    /// A search for a target that was planned over the prior.
    pub(crate) fn new(
        session: &'s Session,
        target: &Target,
        price: Price,
        progress: &'s dyn Progress,
    ) -> Result<Self, Error> {
        let latent = &session.bundle.manifest().generator.latents[0];
        if latent.size() > MAX_SIZE {
            return Err(AdaptError::TooWide {
                input: latent.input.clone(),
                size: latent.size(),
            }
            .into());
        }
        let rule = match session.bundle.classes() {
            None => ClassRule::None,
            Some(classes) => ClassRule::Drawn(cover::equal_shares(target.classes, classes)),
        };
        Ok(Self {
            session,
            progress,
            rule,
            target: Target {
                sequence: Sequence::all(),
                ..target.clone()
            },
            price,
            size: latent.size(),
            calls: 0,
            stages: Vec::new(),
        })
    }

    /// The random numbers of the next stage.
    pub(crate) fn proposals(&self) -> Proposals {
        Proposals::new(self.session.seed).at_stage(stage_number(self.stages.len()))
    }

    /// The next stage's proposals, none of them scored yet.
    pub(crate) fn next_pool(&self, mixture: Option<Arc<Mixture>>) -> Result<Pool, Error> {
        if self.stages.is_empty() && self.session.bank_rows() > 0 {
            return self.session.shared_pool(None);
        }
        let proposals = self.proposals();
        let origin = Origin { proposals, mixture };
        Ok(self.session.pool(self.rule.clone()).with_origin(origin))
    }

    /// Scores a stage of proposals from a mixture and notes what it showed.
    pub(crate) fn score(
        &mut self,
        mixture: Option<Arc<Mixture>>,
        count: usize,
        drawn_from: &str,
    ) -> Result<Stage, Error> {
        let mut pool = self.next_pool(mixture)?;
        let stage = self.stages.len();
        let title = format!("adapting, stage {stage}");
        self.progress.begin(&title, Some(count as u64));
        let mut target = self.target.clone();
        let log_weights = weigh_first(&mut pool, &mut target, count, self.progress)?;
        self.progress.end();
        self.note(&target, &log_weights, drawn_from);
        Ok(Stage { pool, log_weights })
    }

    /// Scores a stage of proposals of the prior, block by block: `more` sees the rows that a block brought and the log
    /// weights of all, and says how many are to follow. At most so many are scored.
    pub(crate) fn score_blocks(
        &mut self,
        first: usize,
        most: usize,
        drawn_from: &str,
        mut more: impl FnMut(&Pool, Range<usize>, &[f64]) -> usize,
    ) -> Result<Stage, Error> {
        let mut pool = self.next_pool(None)?;
        let title = format!("adapting, stage {}", self.stages.len());
        self.progress.begin(&title, Some(most as u64));
        let mut target = self.target.clone();
        let mut log_weights = Vec::new();
        let mut to = first.min(most);
        while to > log_weights.len() {
            let from = log_weights.len();
            log_weights = weigh_first(&mut pool, &mut target, to, self.progress)?;
            to = most.min(to + more(&pool, from..to, &log_weights));
        }
        self.progress.end();
        self.note(&target, &log_weights, drawn_from);
        Ok(Stage { pool, log_weights })
    }

    /// Notes what the weights of a stage showed.
    pub(crate) fn note(&mut self, target: &Target, log_weights: &[f64], drawn_from: &str) {
        let supported = log_weights.iter().filter(|w| w.is_finite()).count();
        let calls = (supported >= MIN_SUPPORTED)
            .then(|| self.price.calls_per_sample(log_weights))
            .flatten();
        self.calls += log_weights.len();
        self.stages.push(StageRecord {
            stage: stage_number(self.stages.len()),
            drawn_from: drawn_from.to_owned(),
            query: target.weighting.query().text().to_owned(),
            proposals: log_weights.len(),
            supported,
            effective: effective(log_weights),
            acceptance: expected_acceptance(log_weights),
            calls_per_sample: calls,
        });
    }
}

/// Scored proposals of all stages, with what the fits need of them.
pub(crate) struct Seen {
    pub(crate) recycled: Recycled,
    /// Log weights as if all proposals came from the prior; `-∞` outside the support.
    pub(crate) log_scores: Vec<f64>,
    /// How near each is to the query.
    pub(crate) log_nearness: Vec<f64>,
    stages: Vec<(Origin, usize)>,
    logits: Logits,
}

impl Seen {
    pub(crate) fn new(search: &Search<'_>) -> Self {
        Self {
            recycled: Recycled::new(search.size),
            log_scores: Vec::new(),
            log_nearness: Vec::new(),
            stages: Vec::new(),
            logits: Logits::zeros(row_shape(&search.session.bundle), 0),
        }
    }

    /// Takes a stage in.
    pub(crate) fn push(&mut self, search: &Search<'_>, stage: &Stage) -> Result<(), Error> {
        let rows = stage.pool.rows(0..stage.pool.len())?;
        let numbers: Vec<u64> = (0..stage.log_weights.len() as u64).collect();
        for (row, log_weight) in stage.log_weights.iter().enumerate() {
            self.log_scores.push(log_weight - rows.log_ratio(row));
            let nearness = search.target.weighting.log_nearness(rows.evidence(row));
            let fault = |source: LogitError| Error::Logit {
                proposal: row as u64,
                source,
            };
            self.log_nearness.push(nearness.map_err(fault)?);
        }
        let origin = stage.pool.origin().clone();
        let mut latents = vec![0.0; numbers.len() * search.size];
        let source = origin.latents(&search.session.bundle);
        source.fill_normal(&numbers, &mut latents);
        self.recycled
            .push(origin.mixture.as_deref().cloned(), &latents);
        self.stages.push((origin, numbers.len()));
        self.logits.append(rows.logits());
        Ok(())
    }

    pub(crate) fn supported(&self) -> usize {
        self.log_scores.iter().filter(|w| w.is_finite()).count()
    }

    /// Everything that was scored, to be resampled from.
    pub(crate) fn into_rows(self) -> RecycledRows {
        RecycledRows {
            log_ratios: self.recycled.log_prior_ratios(),
            stages: self.stages,
            logits: self.logits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_stage_of_a_search_has_the_number_of_fresh_proposals() {
        let numbers: Vec<u16> = (0..200).map(stage_number).collect();
        assert!(!numbers.contains(&Stored::FRESH_STAGE));
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(numbers[64], 64);
    }
}
