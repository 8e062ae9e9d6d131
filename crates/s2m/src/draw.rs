//! The one loop: score what the sampler asks for, weigh it, ask again.

use s2m_core::density::Levels;
use s2m_core::labels::LabelSet;
use s2m_core::proposals::Purpose;
use s2m_core::samplers::{Draw, Failure, Goal, History, Next};
use s2m_core::weight::{LogitError, Weighting};
use s2m_model::logits::Logits;

use crate::error::Error;
use crate::pool::{ClassRule, Pool};
use crate::progress::Progress;
use crate::samplers::SamplerChoice;

/// Rows weighed by one thread before another is worth starting.
const ROWS_PER_THREAD: usize = 1 << 13;

/// A query's own sequence of proposals: all of the pool, or those of some classes.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    period: usize,
    used: Vec<u64>,
}

impl Sequence {
    /// Every proposal.
    pub fn all() -> Self {
        Self {
            period: 1,
            used: vec![0],
        }
    }

    /// The proposals whose class, `k mod classes`, is one of `used`.
    pub fn of_classes(classes: usize, used: LabelSet) -> Self {
        Self {
            period: classes,
            used: used.iter().map(|c| c as u64).collect(),
        }
    }

    /// The number of the proposal at a position.
    pub fn number(&self, position: usize) -> u64 {
        let (round, at) = (position / self.used.len(), position % self.used.len());
        round as u64 * self.period as u64 + self.used[at]
    }

    /// How many proposals of the pool the first `positions` need.
    pub fn needed(&self, positions: usize) -> usize {
        if positions == 0 {
            0
        } else {
            self.number(positions - 1) as usize + 1
        }
    }
}

/// A query at work: how it weighs, and over which proposals.
#[derive(Debug, Clone)]
pub struct Target {
    /// How proposals are weighed.
    pub weighting: Weighting,
    /// Which proposals it sees.
    pub sequence: Sequence,
    /// Classes asked of a conditional generator.
    pub classes: LabelSet,
    /// Proposals spent on choosing them.
    pub searched: usize,
}

impl Target {
    /// A target without classes.
    pub fn new(weighting: Weighting, sequence: Sequence) -> Self {
        Self {
            weighting,
            sequence,
            classes: LabelSet::EMPTY,
            searched: 0,
        }
    }
}

/// Everything seen and kept for one query.
#[derive(Debug)]
pub struct Drawn {
    /// The samples, or why there are none.
    pub outcome: Result<Draw, Failure>,
    /// Log weights of all proposals of the query's sequence that were scored.
    pub log_weights: Vec<f64>,
}

/// Runs a sampler for one query over a pool.
pub fn draw(
    pool: &mut Pool<'_>,
    target: &Target,
    choice: SamplerChoice,
    goal: Goal,
    progress: &dyn Progress,
) -> Result<Drawn, Error> {
    let offset = pool.proposals().uniform(Purpose::Resample, 0);
    let mut sampler = choice.sampler(goal, offset);
    let (mut log_weights, mut log_uniforms) = (Vec::new(), Vec::new());
    progress.begin("scoring proposals", None);
    let outcome = loop {
        let history = History {
            log_weights: &log_weights,
            log_uniforms: &log_uniforms,
        };
        match sampler.next(history) {
            Next::Done(draw) => break Ok(draw),
            Next::Failed(failure) => break Err(failure),
            Next::Score(count) => {
                let (first, last) = (log_weights.len(), log_weights.len() + count.get());
                pool.ensure(target.sequence.needed(last), progress)?;
                log_weights.resize(last, f64::NEG_INFINITY);
                weigh(pool.logits(), target, first, &mut log_weights[first..])?;
                log_uniforms.extend(uniforms(pool, &target.sequence, first..last));
            }
        }
    };
    progress.end();
    Ok(Drawn {
        outcome,
        log_weights,
    })
}

/// Log weights of the first positions, which must be scored already.
pub fn weigh_first(pool: &Pool<'_>, target: &Target, positions: usize) -> Result<Vec<f64>, Error> {
    let mut log_weights = vec![0.0; positions];
    weigh(pool.logits(), target, 0, &mut log_weights)?;
    Ok(log_weights)
}

/// Logs of the accept numbers of a range of positions.
fn uniforms(pool: &Pool<'_>, sequence: &Sequence, positions: std::ops::Range<usize>) -> Vec<f64> {
    let (first, last) = (
        sequence.number(positions.start),
        sequence.number(positions.end - 1),
    );
    let mut all = vec![0.0; (last - first) as usize + 1];
    pool.proposals()
        .fill_uniform(Purpose::Accept, first, &mut all);
    positions
        .map(|p| all[(sequence.number(p) - first) as usize].ln())
        .collect()
}

/// Log weights of the positions `first …`, on as many threads as pay off.
fn weigh(logits: &Logits, target: &Target, first: usize, out: &mut [f64]) -> Result<(), Error> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let share = out.len().div_ceil(cores).max(ROWS_PER_THREAD);
    let one = |offset: usize, part: &mut [f64]| -> Result<(), Error> {
        for (at, value) in part.iter_mut().enumerate() {
            let number = target.sequence.number(first + offset + at);
            let weight = target
                .weighting
                .log_weight(logits.evidence(number as usize));
            *value = weight.map_err(|source| Error::Logit {
                proposal: number,
                source,
            })?;
        }
        Ok(())
    };
    if out.len() <= share {
        return one(0, out);
    }
    std::thread::scope(|scope| {
        let parts = out.chunks_mut(share).enumerate();
        let running: Vec<_> = parts
            .map(|(i, part)| scope.spawn(move || one(i * share, part)))
            .collect();
        // The first thread has the lowest numbers, so the error that is named does not depend on timing.
        running.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

/// The levels of one proposal, for posteriors.
pub fn levels<'a>(pool: &Pool<'_>, target: &'a Target, number: u64) -> Result<Levels<'a>, Error> {
    let evidence = pool.logits().evidence(number as usize);
    let fault = |source: LogitError| Error::Logit {
        proposal: number,
        source,
    };
    target.weighting.item_levels(evidence).map_err(fault)
}

/// The class of a proposal, for a conditional generator.
pub fn class(pool: &Pool<'_>, number: u64) -> Option<u32> {
    match pool.rule() {
        ClassRule::None => None,
        rule => rule.class(pool.proposals(), number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_of_classes_skips_the_others() {
        let used: LabelSet = [0, 2].into_iter().collect();
        let sequence = Sequence::of_classes(3, used);
        let numbers: Vec<u64> = (0..6).map(|p| sequence.number(p)).collect();
        assert_eq!(numbers, [0, 2, 3, 5, 6, 8]);
        assert_eq!(
            (sequence.needed(0), sequence.needed(1), sequence.needed(4)),
            (0, 1, 6)
        );
        assert_eq!(Sequence::all().number(17), 17);
    }
}
