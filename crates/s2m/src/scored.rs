//! Proposals that are scored once, in memory, for many queries; a bank keeps them on disk.

use std::path::Path;
use std::time::Instant;

use crate::ask::{Ask, count};
use crate::classes::{self, Found};
use crate::drawing::Job;
use crate::error::Error;
use crate::model::Model;
use crate::pool::Pool;
use crate::presence;
use crate::progress::Progress;
use crate::samples::{Draw, Items, Maker};
use crate::session::Session;
use crate::settings::SampleSettings;

/// Proposals of one seed; made by [`Model::scored`], drawn from by [`Ask::draw_from`].
pub struct Scored {
    pub(crate) session: Session,
    pub(crate) pool: Pool,
    pub(crate) maker: Maker,
}

impl Model {
    /// Proposals of a seed, of which none is scored before a query needs it.
    pub fn scored(&self, seed: u64) -> Result<Scored, Error> {
        let settings = SampleSettings {
            seed: Some(seed),
            ..SampleSettings::default()
        };
        Scored::of(self.session(&settings, None)?)
    }

    /// Proposals that a bank holds, and those that follow them.
    pub fn scored_in(&self, bank: &Path) -> Result<Scored, Error> {
        Scored::of(self.session(&SampleSettings::default(), Some(bank))?)
    }
}

impl Scored {
    fn of(session: Session) -> Result<Self, Error> {
        Ok(Self {
            pool: session.shared_pool(None)?,
            maker: Maker::open(&session)?,
            session,
        })
    }

    /// Seed of the proposals.
    pub fn seed(&self) -> u64 {
        self.session.seed
    }

    /// Proposals that a bank holds; none without one.
    pub fn in_bank(&self) -> u64 {
        self.session.bank_rows()
    }

    /// How many are scored.
    pub fn len(&self) -> usize {
        self.pool.len()
    }

    /// Whether none is scored yet.
    pub fn is_empty(&self) -> bool {
        self.pool.is_empty()
    }

    /// Has the first proposals scored.
    pub fn score(&mut self, count: usize, progress: &dyn Progress) -> Result<(), Error> {
        self.pool.ensure(count, progress)
    }

    /// Every joint class as these proposals show it, or the largest ones where there are more than so many.
    pub fn classes(&mut self, most: usize, progress: &dyn Progress) -> Result<Found, Error> {
        classes::by_pool(&self.session, &mut self.pool, most, progress)
    }

    /// Items of some proposals, whatever their labels.
    pub fn items(&self, proposals: &[u64], progress: &dyn Progress) -> Result<Items, Error> {
        self.maker.make_all(&self.pool, proposals, progress)
    }

    /// The first items as the generator makes them, whatever their labels.
    ///
    /// Classes of a conditional generator take turns.
    pub fn generated(&self, count: usize, progress: &dyn Progress) -> Result<Items, Error> {
        let rows: Vec<u64> = (0..count as u64).collect();
        self.maker.make_all(&self.pool, &rows, progress)
    }
}

impl Ask {
    /// Draws out of proposals that other queries have had scored, and has more of them scored where they end.
    ///
    /// Samples of different queries may be the same proposals.
    pub fn draw_from(
        &self,
        scored: &mut Scored,
        samples: usize,
        progress: &dyn Progress,
    ) -> Result<Draw, Error> {
        let started = Instant::now();
        let samples = count(samples)?;
        let session = self.session()?;
        if session.bundle.hash() != scored.session.bundle.hash() || self.draws_elsewhere() {
            return Err(Error::Setting(ELSEWHERE.to_owned()));
        }
        let session = session.at_seed(scored.seed());
        let weighed = session.weigh(self.query())?;
        let refusal = presence::refuse(&session.bundle, self.query(), &session.settings);
        if let Some(refusal) = refusal {
            return Err(refusal.into());
        }
        let target = session.plan_shared(&weighed, &mut scored.pool, progress)?;
        let job = Job {
            session: &session,
            pool: &mut scored.pool,
            target,
            samples,
            adaptation: None,
            others: None,
        };
        let (drawing, pool) = job.draw(progress)?;
        let rows = drawing.kept.read(0..drawing.kept.len())?;
        let samples = scored
            .maker
            .collect(drawing.pool(pool), &drawing.target, &rows, progress)?;
        let report = drawing.report(&session, started.elapsed().as_secs_f64());
        Ok(Draw { samples, report })
    }
}

/// What proposals in memory are not.
pub(crate) const ELSEWHERE: &str = "scored proposals are the prior's, of one model; a bank, an adapted proposal and another model have their own";
