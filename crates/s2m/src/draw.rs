//! The one loop: score what the sampler asks for, weigh it, ask again.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::ops::Range;

use s2m_core::labels::LabelSet;
use s2m_core::posterior::ItemPosterior;
use s2m_core::proposals::Purpose;
use s2m_core::samplers::{Draw, Failure, Goal, History, Next, Sampler, mh};
use s2m_core::weight::{Evidence, LogitError, Weighting};
use s2m_model::disk::Column;

use crate::error::Error;
use crate::pool::Pool;
use crate::progress::Progress;
use crate::refusal::Cause;
use crate::samplers::SamplerChoice;
use crate::sequence::Sequence;
use crate::weigh::{AppliedCalibration, Weighed};

/// Rows weighed by one thread before another is worth starting.
const ROWS_PER_THREAD: usize = 1 << 13;

/// A query at work: how it weighs, and over which proposals.
#[derive(Debug, Clone)]
pub struct Target {
    /// How proposals are weighed.
    pub weighting: Weighting,
    /// The calibration behind that, but for a floor that was picked by purity.
    pub applied: AppliedCalibration,
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

/// The share of uniform numbers that queries have claimed at a proposal.
pub(crate) fn claimed(
    claims: &[Claim],
    number: u64,
    evidence: Evidence<'_>,
) -> Result<f64, LogitError> {
    let mut taken: f64 = 0.0;
    for claim in claims {
        taken += (1.0 - taken) * claim.share(number, evidence, (-taken).ln_1p())?;
    }
    Ok(taken)
}

/// What is left of a proposal: its log weight and the log of its uniform number, where nobody has claimed it.
pub(crate) fn unclaimed(
    claims: &[Claim],
    number: u64,
    evidence: Evidence<'_>,
    (log_weight, log_uniform): (f64, f64),
) -> Result<(f64, f64), LogitError> {
    let taken = claimed(claims, number, evidence)?;
    let left = log_uniform.exp() - taken;
    if left <= 0.0 {
        return Ok((f64::NEG_INFINITY, log_uniform));
    }
    let log_room = (-taken).ln_1p();
    Ok((log_weight - log_room, left.ln() - log_room))
}

impl Target {
    /// A target without classes.
    pub fn new(weighed: Weighed, sequence: Sequence) -> Self {
        Self {
            weighting: weighed.weighting,
            applied: weighed.applied,
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
        pool: &mut Pool,
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
    /// What is said about the samples, or why there are none.
    pub outcome: Result<Draw, Failure>,
    /// Rows of the pool that were kept, in the order of their positions.
    pub kept: Column<u64>,
    /// Log weights of all proposals of the query's sequence that were scored.
    pub log_weights: Column<f64>,
}

impl Drawn {
    /// All rows that were kept, where memory is sure to hold them.
    pub fn rows(&self) -> Result<Vec<u64>, Error> {
        Ok(self.kept.read(0..self.kept.len())?)
    }
}

/// Sees the rows that are kept so far, all of them, in the order of their positions.
pub(crate) type Watch<'w> = &'w mut dyn FnMut(&Pool, &Target, &[u64]) -> Result<(), Error>;

/// Proposals that a watched draw scores between two looks, at least.
const WATCHED: usize = 512;

/// Of what was scored so far, the share that is scored between two looks, at least: the number of looks then
/// grows with the logarithm of a draw.
const WATCHED_SHARE: usize = 8;

/// Runs a sampler for one query over a pool.
pub fn draw(
    pool: &mut Pool,
    target: &mut Target,
    choice: SamplerChoice,
    goal: Goal,
    progress: &dyn Progress,
) -> Result<Drawn, Error> {
    draw_watched(pool, target, (choice, goal), None, progress)
}

/// The same, with somebody who sees what `reject` keeps by the cap that it has so far. A cap that grows later takes
/// some of it back; other samplers decide at the end.
pub(crate) fn draw_watched(
    pool: &mut Pool,
    target: &mut Target,
    (choice, goal): (SamplerChoice, Goal),
    watch: Option<Watch<'_>>,
    progress: &dyn Progress,
) -> Result<Drawn, Error> {
    let mut watch = watch.filter(|_| choice.tells_early());
    let offset = pool.proposals().uniform(Purpose::Resample, 0);
    let mut sampler = choice.sampler(goal, offset);
    let (mut log_weights, mut log_uniforms) = (pool.column(), pool.column());
    progress.begin("scoring proposals", None);
    let outcome = loop {
        let next = sampler.next(History {
            log_weights: &log_weights,
            log_uniforms: &log_uniforms,
        });
        // An answer counts only where all numbers behind it could be read.
        log_weights.check()?;
        log_uniforms.check()?;
        match next {
            Next::Done(draw) => break Ok(draw),
            Next::Failed(failure) => break Err(failure),
            Next::Score(count) => {
                let last = log_weights.len() + count.get();
                while log_weights.len() < last {
                    let first = log_weights.len();
                    let last = match watch {
                        None => last,
                        Some(_) => last.min(first + WATCHED.max(first / WATCHED_SHARE)),
                    };
                    target.ensure(pool, last, progress)?;
                    let mut weighed = first;
                    weigh(pool, target, first..last, &mut |weights| {
                        let positions = weighed..weighed + weights.len();
                        weighed = positions.end;
                        let uniforms = uniforms(pool, &target.sequence, positions.clone());
                        let (weights, uniforms) = left(pool, target, positions, weights, uniforms)?;
                        log_weights.append(&weights)?;
                        Ok(log_uniforms.append(&uniforms)?)
                    })?;
                    if let Some(watch) = &mut watch {
                        let history = History {
                            log_weights: &log_weights,
                            log_uniforms: &log_uniforms,
                        };
                        let mut so_far = pool.column();
                        keep(sampler.as_ref(), history, &target.sequence, &mut so_far)?;
                        watch(pool, target, &so_far.read(0..so_far.len())?)?;
                    }
                }
            }
        }
    };
    progress.end();
    let mut kept = pool.column();
    if outcome.is_ok() {
        let history = History {
            log_weights: &log_weights,
            log_uniforms: &log_uniforms,
        };
        keep(sampler.as_ref(), history, &target.sequence, &mut kept)?;
        log_weights.check()?;
        log_uniforms.check()?;
        if let Some(watch) = watch {
            watch(pool, target, &kept.read(0..kept.len())?)?;
        }
    }
    Ok(Drawn {
        outcome,
        kept,
        log_weights,
    })
}

/// What claims of other queries leave of some positions: log weights, and logs of uniform numbers in this query's room.
fn left<'w>(
    pool: &Pool,
    target: &Target,
    positions: Range<usize>,
    weights: &'w [f64],
    mut uniforms: Vec<f64>,
) -> Result<(Cow<'w, [f64]>, Vec<f64>), Error> {
    let mut weights = Cow::Borrowed(weights);
    if !target.claims.is_empty() {
        let own = weights.to_mut();
        let mut at = 0;
        let numbers = target.sequence.numbers(positions);
        pool.look_at(&numbers, &mut |number, evidence| {
            let left = unclaimed(&target.claims, number, evidence, (own[at], uniforms[at]));
            (own[at], uniforms[at]) = left.map_err(|source| Error::Logit {
                proposal: number,
                source,
            })?;
            at += 1;
            Ok(())
        })?;
    }
    for uniform in &mut uniforms {
        *uniform += target.log_room;
    }
    Ok((weights, uniforms))
}

/// Notes the rows of the proposals that a sampler keeps.
fn keep(
    sampler: &dyn Sampler,
    history: History<'_>,
    sequence: &Sequence,
    kept: &mut Column<u64>,
) -> Result<(), Error> {
    let (mut written, mut block) = (Ok(()), Vec::with_capacity(PIECE));
    // Numbers of a stretch of positions at a time: one alone may take a walk to be found.
    let (mut known, mut numbers) = (0..0, Vec::new());
    sampler.kept(history, &mut |position| {
        if !known.contains(&position) {
            known = position..history.len().min(position + PIECE);
            numbers = sequence.numbers(known.clone());
        }
        block.push(numbers[position - known.start]);
        if block.len() == PIECE {
            if written.is_ok() {
                written = kept.append(&block);
            }
            block.clear();
        }
    });
    written?;
    Ok(kept.append(&block)?)
}

/// Positions that are looked at together.
const PIECE: usize = 1 << 14;

/// A range in pieces that are looked at together.
pub(crate) fn pieces(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    pieces_of(range, PIECE)
}

/// A range in pieces.
fn pieces_of(range: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range
        .step_by(most)
        .map(move |first| first..end.min(first + most))
}

/// Log weights of the first positions.
pub fn weigh_first(
    pool: &mut Pool,
    target: &mut Target,
    positions: usize,
    progress: &dyn Progress,
) -> Result<Vec<f64>, Error> {
    target.ensure(pool, positions, progress)?;
    let mut log_weights = Vec::with_capacity(positions);
    weigh(pool, target, 0..positions, &mut |weights| {
        log_weights.extend_from_slice(weights);
        Ok(())
    })?;
    Ok(log_weights)
}

/// Log weights of some positions, and logs of their uniform numbers.
pub(crate) fn look(
    pool: &mut Pool,
    target: &mut Target,
    positions: Range<usize>,
    progress: &dyn Progress,
) -> Result<(Vec<f64>, Vec<f64>), Error> {
    target.ensure(pool, positions.end, progress)?;
    let mut log_weights = Vec::with_capacity(positions.len());
    weigh(pool, target, positions.clone(), &mut |weights| {
        log_weights.extend_from_slice(weights);
        Ok(())
    })?;
    let log_uniforms = uniforms(pool, &target.sequence, positions);
    Ok((log_weights, log_uniforms))
}

/// The same where there may be more than memory holds.
pub fn weigh_many(
    pool: &mut Pool,
    target: &mut Target,
    positions: usize,
    progress: &dyn Progress,
) -> Result<Column<f64>, Error> {
    target.ensure(pool, positions, progress)?;
    let mut log_weights = pool.column();
    weigh(pool, target, 0..positions, &mut |weights| {
        Ok(log_weights.append(weights)?)
    })?;
    Ok(log_weights)
}

/// Runs chains of Metropolis–Hastings over the first positions: where each ends (none for one that met
/// no supported proposal), and the log weights of all.
pub fn chains(
    pool: &mut Pool,
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
pub fn uniforms(pool: &Pool, sequence: &Sequence, positions: std::ops::Range<usize>) -> Vec<f64> {
    let numbers = sequence.numbers(positions);
    let span = span(&numbers);
    let mut all = vec![0.0; (span.end - span.start) as usize];
    pool.proposals()
        .fill_uniform(Purpose::Accept, span.start, &mut all);
    numbers
        .iter()
        .map(|number| all[(number - span.start) as usize].ln())
        .collect()
}

/// From the smallest to the largest of some numbers.
fn span(numbers: &[u64]) -> Range<u64> {
    let first = numbers.iter().min().copied().unwrap_or(0);
    first..numbers.iter().max().map_or(0, |last| last + 1)
}

/// Shows log weights of some positions in order, piece by piece.
fn weigh(
    pool: &Pool,
    target: &Target,
    positions: Range<usize>,
    see: &mut dyn FnMut(&[f64]) -> Result<(), Error>,
) -> Result<(), Error> {
    let most = (pool.rows_at_a_time() / target.sequence.period()).max(1);
    let mut weights = Vec::with_capacity(positions.len().min(most));
    for positions in pieces_of(positions, most) {
        let numbers = target.sequence.numbers(positions);
        weights.clear();
        weights.resize(numbers.len(), 0.0);
        weigh_numbers(pool, target, &numbers, &mut weights)?;
        see(&weights)?;
    }
    Ok(())
}

/// Log weights of some proposals, on as many threads as pay off.
fn weigh_numbers(
    pool: &Pool,
    target: &Target,
    numbers: &[u64],
    out: &mut [f64],
) -> Result<(), Error> {
    let span = span(numbers);
    let rows = &pool.rows(span.start as usize..span.end as usize)?;
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let share = out.len().div_ceil(cores).max(ROWS_PER_THREAD);
    let one = |numbers: &[u64], part: &mut [f64]| -> Result<(), Error> {
        for (&number, value) in numbers.iter().zip(part) {
            *value = log_weight(target, number, rows.evidence(number as usize))?;
        }
        Ok(())
    };
    if out.len() <= share {
        return one(numbers, out);
    }
    std::thread::scope(|scope| {
        let parts = numbers.chunks(share).zip(out.chunks_mut(share));
        let running: Vec<_> = parts
            .map(|(numbers, part)| scope.spawn(move || one(numbers, part)))
            .collect();
        // The first thread has the lowest numbers, so the error that is named does not depend on timing.
        running.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

/// The log weight of one proposal.
pub(crate) fn log_weight(
    target: &Target,
    proposal: u64,
    evidence: Evidence<'_>,
) -> Result<f64, Error> {
    let weight = target.weighting.log_weight(evidence);
    weight.map_err(|source| Error::Logit { proposal, source })
}

/// The label sets of one proposal, for posteriors.
pub(crate) fn item_posterior<'a>(
    target: &'a Target,
    proposal: u64,
    evidence: Evidence<'_>,
) -> Result<ItemPosterior<'a>, Error> {
    let fault = |source: LogitError| Error::Logit { proposal, source };
    target.weighting.item_posterior(evidence).map_err(fault)
}
