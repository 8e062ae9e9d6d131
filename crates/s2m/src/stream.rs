//! Samples as they are accepted, one batch after the other.
//!
//! A short draw fixes the sampler's settings: the cap of `reject`, the steps of `mh`. From then on proposal after
//! proposal is decided by them, from the first one on, so that every sample has the same law and what the short draw
//! states about it holds for all. Logits of proposals lie in a file without a name where memory does not hold them.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::time::Instant;

use s2m_core::samplers::Failure;
use s2m_core::setting::Setting;

use crate::ask::Ask;
use crate::draw::{Target, look};
use crate::drawing::Job;
use crate::error::Error;
use crate::pool::Pool;
use crate::progress::{Progress, Silent};
use crate::refusal::Refusal;
use crate::report::Report;
use crate::samplers::Rule;
use crate::samples::{Maker, Samples};
use crate::session::Session;

/// Samples of the short draw, at least.
const PILOT_SAMPLES: usize = 256;

/// Most positions that are looked at together.
const LARGEST: usize = 1 << 14;

/// Samples without end; made by [`Ask::stream`].
pub struct Stream {
    session: Session,
    pool: Pool,
    target: Target,
    rule: Rule,
    report: Report,
    maker: Maker,
    batch: usize,
    /// Positions looked at so far.
    seen: usize,
    /// Positions within which the next batch must be full, or all of them where calls are limited.
    until: usize,
    /// Samples given so far.
    given: usize,
    /// Rows that are accepted and not given yet.
    waiting: VecDeque<u64>,
    ended: bool,
}

impl Ask {
    /// Samples in batches, as they are accepted, as many as are taken out.
    ///
    /// A short draw fixes the sampler's settings first, and all samples then have one law: the error that
    /// [`Stream::report`] states is that of each. Memory does not grow with what is taken.
    pub fn stream(&self, batch: usize) -> Result<Stream, Error> {
        self.stream_with(batch, &Silent)
    }

    /// The same, telling somebody how far the short draw is.
    pub fn stream_with(&self, batch: usize, progress: &dyn Progress) -> Result<Stream, Error> {
        Stream::open(self, batch, progress)
    }
}

impl Stream {
    fn open(ask: &Ask, batch: usize, progress: &dyn Progress) -> Result<Self, Error> {
        let started = Instant::now();
        let session = ask.session()?;
        session.settings.sampler.check_endless()?;
        if session.settings.moves.is_some() {
            return Err(Error::Setting(format!(
                "{} fixes the size of its steps on samples that are drawn last, and a stream has no end\nhint: leave {} out",
                Setting("moves"),
                Setting("moves")
            )));
        }
        let Some(samples) = NonZeroUsize::new(batch.max(PILOT_SAMPLES)).filter(|_| batch > 0)
        else {
            return Err(Error::Setting(
                "batches of no samples were asked for; it must be at least 1".to_owned(),
            ));
        };
        let mut planned = ask.plan(&session, samples, progress)?;
        let job = Job {
            session: &session,
            pool: &mut planned.pool,
            target: planned.target,
            samples,
            adaptation: planned.stored.map(|stored| stored.about.adaptation),
            others: None,
        };
        let (drawing, _) = job.draw(progress)?;
        let rule = Rule::of(&drawing.drawn.info);
        let report = drawing.report(&session, started.elapsed().as_secs_f64());
        let mut stream = Self {
            maker: Maker::open(&session)?,
            rule: rule.expect("chains have steps, and `resample` was refused"),
            pool: planned.pool,
            target: drawing.target,
            session,
            report,
            batch,
            seen: 0,
            until: 0,
            given: 0,
            waiting: VecDeque::new(),
            ended: false,
        };
        stream.allow();
        Ok(stream)
    }

    /// What the short draw says: settings, calibration, acceptance, and the distance from the target of every sample.
    ///
    /// Its counts are those of the short draw, whose samples are the first of the stream.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Proposals looked at so far.
    pub fn looked_at(&self) -> usize {
        self.seen
    }

    /// The next batch, telling somebody how far it is; nothing more after an error.
    pub fn next_with(&mut self, progress: &dyn Progress) -> Option<Result<Samples, Error>> {
        if self.ended {
            return None;
        }
        let batch = self.take(progress);
        self.ended = batch.is_err();
        Some(batch)
    }

    /// Lets the next batch take as many calls as a draw of it.
    fn allow(&mut self) {
        let batch = NonZeroUsize::new(self.batch).unwrap_or(NonZeroUsize::MIN);
        let calls = self.session.goal(batch).max_calls;
        self.until = match self.session.settings.max_calls {
            Some(all) => all,
            None => self.seen.saturating_add(calls),
        };
    }

    /// The next positions to look at; empty where no more calls are allowed.
    fn ahead(&self) -> Range<usize> {
        let missing = self.batch - self.waiting.len();
        let expected = missing as f64 / self.report.acceptance.max(1e-9);
        // A round of the networks may be larger than what is looked at together.
        let wanted = (expected as usize).min(LARGEST).max(self.maker.round());
        let wanted = self.rule.whole(wanted);
        let end = self.seen + wanted;
        self.seen..if end > self.until { self.seen } else { end }
    }

    /// Looks at proposals until a batch is there.
    fn fill(&mut self, progress: &dyn Progress) -> Result<(), Error> {
        while self.waiting.len() < self.batch {
            let positions = self.ahead();
            if positions.is_empty() {
                let failure = Failure::OutOfCalls {
                    proposals: self.seen,
                    found: self.given + self.waiting.len(),
                    wanted: self.given + self.batch,
                    expected: None,
                };
                let sampler = self.session.settings.sampler;
                return Err(Refusal::of(failure, &self.target.weighting, sampler).into());
            }
            let first = positions.start;
            self.seen = positions.end;
            let (weights, uniforms) = look(&mut self.pool, &mut self.target, positions, progress)?;
            let kept = self.rule.kept(&weights, &uniforms);
            let row = |position: usize| self.target.sequence.number(first + position);
            self.waiting.extend(kept.into_iter().map(row));
        }
        Ok(())
    }

    fn take(&mut self, progress: &dyn Progress) -> Result<Samples, Error> {
        self.fill(progress)?;
        let rows: Vec<u64> = self.waiting.drain(..self.batch).collect();
        self.given += rows.len();
        self.allow();
        self.maker
            .collect(&self.pool, &self.target, &rows, progress)
    }
}

impl Iterator for Stream {
    type Item = Result<Samples, Error>;

    /// The next batch; nothing more after an error.
    fn next(&mut self) -> Option<Self::Item> {
        self.next_with(&Silent)
    }
}
