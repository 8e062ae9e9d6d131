//! The one loop: score what the sampler asks for, weigh it, ask again.

use std::num::NonZeroUsize;

use s2m_core::labels::LabelSet;
use s2m_core::posterior::ItemPosterior;
use s2m_core::proposals::{Proposals, Purpose};
use s2m_core::samplers::{Draw, Failure, Goal, History, Next, mh};
use s2m_core::weight::{Evidence, LogitError, Weighting};

use crate::error::Error;
use crate::pool::Pool;
use crate::presence::Cause;
use crate::progress::Progress;
use crate::samplers::SamplerChoice;

/// Rows weighed by one thread before another is worth starting.
const ROWS_PER_THREAD: usize = 1 << 13;

/// A query's own sequence of proposals: all of the pool, or those of some classes.
///
/// Where classes take turns in the pool and the query needs several of them, the class of each
/// position is drawn at random and the next unused proposal of that class is taken: a chain or a
/// short draw then sees independent proposals from the mixture, not classes in a fixed turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    period: u64,
    used: Vec<u64>,
    /// Numbers of the first positions, where several classes are drawn from.
    drawn: Vec<u64>,
    /// Proposals taken so far of each class used.
    taken: Vec<u64>,
}

impl Sequence {
    /// Every proposal.
    pub fn all() -> Self {
        Self::of_classes(1, LabelSet::first(1))
    }

    /// The proposals whose class, `k mod classes`, is one of `used`.
    pub fn of_classes(classes: usize, used: LabelSet) -> Self {
        let used: Vec<u64> = used.iter().map(|c| c as u64).collect();
        let taken = vec![0; used.len()];
        Self {
            period: classes as u64,
            used,
            drawn: Vec::new(),
            taken,
        }
    }

    /// Settles the first positions and gives how many proposals of the pool they need.
    pub fn reach(&mut self, positions: usize, proposals: &Proposals) -> usize {
        let [class] = self.used[..] else {
            for position in self.drawn.len()..positions {
                let u = proposals.uniform(Purpose::Class, position as u64);
                let which = (u * self.used.len() as f64) as usize;
                self.drawn
                    .push(self.taken[which] * self.period + self.used[which]);
                self.taken[which] += 1;
            }
            return self.drawn[..positions]
                .iter()
                .max()
                .map_or(0, |last| *last as usize + 1);
        };
        let last = positions.checked_sub(1);
        last.map_or(0, |last| (last as u64 * self.period + class) as usize + 1)
    }

    /// The number of the proposal at a position that was reached.
    pub fn number(&self, position: usize) -> u64 {
        match self.used[..] {
            [class] => position as u64 * self.period + class,
            _ => self.drawn[position],
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
    /// Proposals spent on choosing them, outside the pool.
    pub searched: usize,
    /// Proposals of the pool that were asked for on behalf of this query.
    pub rows: usize,
    /// What other queries have taken of the shared pool, in their order.
    pub claims: Vec<Claim>,
    /// Log of `C/c`: what lengths are divided by so that those of all queries fit into 1 wherever proposals were
    /// seen; 0 where each proposal has weight for one query alone.
    pub log_room: f64,
    /// Why nothing can be drawn, where that is known beforehand.
    pub refused: Option<Cause>,
}

/// The proposals that go to a query of a shared pool: those whose uniform number lies in an interval of length
/// `min(w, c)/C`, which begins where the intervals of the queries before it end. So none goes to two queries.
///
/// A later query sees what is left: a proposal that nobody has claimed, at a place of which the share `o` is
/// claimed, counts with its weight over `1 − o`, and `(u − o)/(1 − o)` is its uniform number. The target of
/// that query stays what it is.
#[derive(Debug, Clone)]
pub struct Claim {
    /// How the other query weighs.
    pub weighting: Weighting,
    /// Its log cap `c`, on weights over what was left when it was drawn.
    pub log_cap: f64,
    /// Log of `C/c`; see [`Target::log_room`].
    pub log_room: f64,
    /// Classes of a conditional generator that it draws from, of so many; all where there are none.
    pub classes: (u64, LabelSet),
}

impl Claim {
    /// The share of what is left of a place that it takes; the log of what is left is given.
    fn share(&self, number: u64, evidence: Evidence<'_>, log_left: f64) -> Result<f64, LogitError> {
        let (period, used) = self.classes;
        if period > 1 && !used.contains((number % period) as usize) {
            return Ok(0.0);
        }
        let log_weight = self.weighting.log_weight(evidence)? - log_left;
        Ok(((log_weight - self.log_cap).min(0.0) - self.log_room).exp())
    }
}

/// What is left of a proposal: its log weight and the log of its uniform number, where nobody has claimed it.
fn unclaimed(
    claims: &[Claim],
    number: u64,
    evidence: Evidence<'_>,
    (log_weight, log_uniform): (f64, f64),
) -> Result<(f64, f64), LogitError> {
    let mut taken: f64 = 0.0;
    for claim in claims {
        taken += (1.0 - taken) * claim.share(number, evidence, (-taken).ln_1p())?;
    }
    let left = log_uniform.exp() - taken;
    if left <= 0.0 {
        return Ok((f64::NEG_INFINITY, log_uniform));
    }
    let log_room = (-taken).ln_1p();
    Ok((log_weight - log_room, left.ln() - log_room))
}

impl Target {
    /// A target without classes.
    pub fn new(weighting: Weighting, sequence: Sequence) -> Self {
        Self {
            weighting,
            sequence,
            classes: LabelSet::EMPTY,
            searched: 0,
            rows: 0,
            claims: Vec::new(),
            log_room: 0.0,
            refused: None,
        }
    }
}

impl Target {
    /// Has the first positions scored.
    fn ensure(
        &mut self,
        pool: &mut Pool<'_>,
        positions: usize,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let rows = self.sequence.reach(positions, pool.proposals());
        self.rows = self.rows.max(rows);
        pool.ensure(rows, progress)
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
    target: &mut Target,
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
                target.ensure(pool, last, progress)?;
                log_weights.resize(last, f64::NEG_INFINITY);
                weigh(pool, target, first, &mut log_weights[first..])?;
                log_uniforms.extend(uniforms(pool, &target.sequence, first..last));
                let room = target.log_room;
                if !target.claims.is_empty() {
                    for position in first..last {
                        let number = target.sequence.number(position);
                        let evidence = pool.rows().evidence(number as usize);
                        let own = (log_weights[position], log_uniforms[position]);
                        let left = unclaimed(&target.claims, number, evidence, own);
                        let fault = |source: LogitError| Error::Logit {
                            proposal: number,
                            source,
                        };
                        (log_weights[position], log_uniforms[position]) = left.map_err(fault)?;
                    }
                }
                for uniform in &mut log_uniforms[first..] {
                    *uniform += room;
                }
            }
        }
    };
    progress.end();
    Ok(Drawn {
        outcome,
        log_weights,
    })
}

/// Log weights of the first positions.
pub fn weigh_first(
    pool: &mut Pool<'_>,
    target: &mut Target,
    positions: usize,
    progress: &dyn Progress,
) -> Result<Vec<f64>, Error> {
    target.ensure(pool, positions, progress)?;
    let mut log_weights = vec![0.0; positions];
    weigh(pool, target, 0, &mut log_weights)?;
    Ok(log_weights)
}

/// Runs chains of Metropolis–Hastings over the first positions: where each ends (none for one that met
/// no supported proposal), and the log weights of all.
pub fn chains(
    pool: &mut Pool<'_>,
    target: &mut Target,
    chains: NonZeroUsize,
    steps: NonZeroUsize,
    progress: &dyn Progress,
) -> Result<(Vec<Option<usize>>, Vec<f64>), Error> {
    let positions = chains.get().saturating_mul(steps.get());
    let log_weights = weigh_first(pool, target, positions, progress)?;
    let log_uniforms = uniforms(pool, &target.sequence, 0..positions);
    let history = History {
        log_weights: &log_weights,
        log_uniforms: &log_uniforms,
    };
    let ends = mh::chain_ends(history, steps);
    Ok((ends, log_weights))
}

/// Logs of the accept numbers of a range of positions.
pub(crate) fn uniforms(
    pool: &Pool<'_>,
    sequence: &Sequence,
    positions: std::ops::Range<usize>,
) -> Vec<f64> {
    let numbers = || positions.clone().map(|position| sequence.number(position));
    let (first, last) = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0));
    let mut all = vec![0.0; (last - first) as usize + 1];
    pool.proposals()
        .fill_uniform(Purpose::Accept, first, &mut all);
    numbers()
        .map(|number| all[(number - first) as usize].ln())
        .collect()
}

/// Log weights of the positions `first …`, on as many threads as pay off.
fn weigh(pool: &Pool<'_>, target: &Target, first: usize, out: &mut [f64]) -> Result<(), Error> {
    let rows = pool.rows();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let share = out.len().div_ceil(cores).max(ROWS_PER_THREAD);
    let one = |offset: usize, part: &mut [f64]| -> Result<(), Error> {
        for (at, value) in part.iter_mut().enumerate() {
            let number = target.sequence.number(first + offset + at);
            let weight = target.weighting.log_weight(rows.evidence(number as usize));
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

/// The label sets of one proposal, for posteriors.
pub fn item_posterior<'a>(
    pool: &Pool<'_>,
    target: &'a Target,
    number: u64,
) -> Result<ItemPosterior<'a>, Error> {
    let evidence = pool.rows().evidence(number as usize);
    let fault = |source: LogitError| Error::Logit {
        proposal: number,
        source,
    };
    target.weighting.item_posterior(evidence).map_err(fault)
}

/// The purity that is predicted for some proposals.
pub fn predicted_purity(pool: &Pool<'_>, target: &Target, numbers: &[u64]) -> Result<f64, Error> {
    mean_of(pool, target, numbers, |item| {
        target.weighting.predicted(item)
    })
}

/// The same as the network that selected says it.
pub fn plain_purity(pool: &Pool<'_>, target: &Target, numbers: &[u64]) -> Result<f64, Error> {
    mean_of(pool, target, numbers, |item| target.weighting.plain(item))
}

fn mean_of(
    pool: &Pool<'_>,
    target: &Target,
    numbers: &[u64],
    of: impl Fn(&ItemPosterior<'_>) -> f64,
) -> Result<f64, Error> {
    let mut sum = 0.0;
    for &number in numbers {
        sum += of(&item_posterior(pool, target, number)?);
    }
    Ok(sum / numbers.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_of_one_class_skips_the_others() {
        let proposals = Proposals::new(1);
        let mut sequence = Sequence::of_classes(3, [2].into_iter().collect());
        assert_eq!(
            (sequence.reach(0, &proposals), sequence.reach(4, &proposals)),
            (0, 12)
        );
        assert_eq!(
            (0..4).map(|p| sequence.number(p)).collect::<Vec<_>>(),
            [2, 5, 8, 11]
        );
        assert_eq!(Sequence::all().number(17), 17);
    }

    /// Classes come at random, each proposal once, and asking in pieces changes nothing.
    #[test]
    fn a_sequence_of_several_classes_mixes_them() {
        let proposals = Proposals::new(1);
        let used: LabelSet = [0, 2].into_iter().collect();
        let mut whole = Sequence::of_classes(3, used);
        let rows = whole.reach(1000, &proposals);
        let mut pieces = Sequence::of_classes(3, used);
        (1..=1000).for_each(|positions| {
            pieces.reach(positions, &proposals);
        });
        let numbers: Vec<u64> = (0..1000).map(|p| whole.number(p)).collect();
        assert_eq!(
            numbers,
            (0..1000).map(|p| pieces.number(p)).collect::<Vec<_>>()
        );
        assert!(numbers.iter().all(|k| k % 3 != 1 && (*k as usize) < rows));
        let mut distinct = numbers.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 1000);
        // A class follows itself about half of the time: five standard errors.
        let repeats = numbers
            .windows(2)
            .filter(|pair| pair[0] % 3 == pair[1] % 3)
            .count() as f64;
        assert!((repeats - 499.5).abs() < 5.0 * 16.0, "{repeats}");
    }
}
