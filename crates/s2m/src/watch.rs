//! A draw that is seen while it goes on: samples as they are accepted, and the same ones in the end.
//!
//! The cap of `reject` may still grow, which takes some samples back and never adds one before the last. So whoever
//! follows the news ends with exactly the samples of [`Ask::draw`], in their order.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Instant;

use crate::ask::{Ask, count};
use crate::drawing::Job;
use crate::error::Error;
use crate::progress::Progress;
use crate::report::Report;
use crate::samples::{Maker, Samples};

/// What happens while a query is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// Samples that follow those before.
    Accepted(Samples),
    /// Samples that are taken back: their places, ascending from 0, among those that were told of and still stand.
    Withdrawn(Vec<usize>),
}

/// Samples that are told together, at least, where the networks make so few at a time.
const TOGETHER: usize = 16;

impl Ask {
    /// Draws samples and tells of them as they are accepted.
    ///
    /// Samples that were told of, and not withdrawn, are those of [`Ask::draw`]. Samplers that decide at the end tell
    /// of all samples then. Whoever sees them can end it, which is [`Error::Stopped`]. A query that turns out to have no samples is [`Error::Refused`], after some were told of.
    pub fn watch(
        &self,
        samples: usize,
        progress: &dyn Progress,
        see: &mut dyn FnMut(News) -> ControlFlow<()>,
    ) -> Result<Report, Error> {
        let started = Instant::now();
        let samples = count(samples)?;
        let session = self.session()?;
        let maker = Maker::open(&session)?;
        let mut planned = self.plan(&session, samples, progress)?;
        let job = Job {
            session: &session,
            pool: &mut planned.pool,
            target: planned.target,
            samples,
            adaptation: planned.stored.map(|stored| stored.about.adaptation),
            others: None,
        };
        let mut see = |news: News| match see(news) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped),
        };
        let together = maker.round().max(TOGETHER);
        let mut told: Vec<u64> = Vec::new();
        let mut tell = |pool: &_, target: &_, rows: &[u64]| -> Result<(), Error> {
            let (before, now): (HashSet<u64>, HashSet<u64>) = (
                told.iter().copied().collect(),
                rows.iter().copied().collect(),
            );
            let gone = |(at, row): (usize, &u64)| (!now.contains(row)).then_some(at);
            let lost: Vec<usize> = told.iter().enumerate().filter_map(gone).collect();
            if !lost.is_empty() {
                told.retain(|row| now.contains(row));
                see(News::Withdrawn(lost))?;
            }
            let new: Vec<u64> = rows
                .iter()
                .copied()
                .filter(|row| !before.contains(row))
                .collect();
            for rows in new.chunks(together) {
                if progress.stopped() {
                    return Err(Error::Stopped);
                }
                see(News::Accepted(maker.collect(
                    pool,
                    target,
                    rows,
                    &crate::progress::Silent,
                )?))?;
                told.extend_from_slice(rows);
            }
            Ok(())
        };
        let (drawing, pool) = job.draw_watched(Some(&mut tell), progress)?;
        if !session.tells_early() {
            let rows = drawing.kept.read(0..drawing.kept.len())?;
            for rows in rows.chunks(together) {
                see(News::Accepted(maker.collect(
                    drawing.pool(pool),
                    &drawing.target,
                    rows,
                    progress,
                )?))?;
            }
        }
        Ok(drawing.report(&session, started.elapsed().as_secs_f64()))
    }
}
