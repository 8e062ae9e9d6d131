//! One query to a model: how to draw, then the samples in memory.
//!
//! ```no_run
//! # fn main() -> Result<(), s2m::Error> {
//! let model = s2m::Model::open("mnist-even")?;
//! let draw = model.query("A - B")?.seed(7).tv(0.01).draw(1000)?;
//! println!("{} items, predicted purity {}", draw.samples.len(), draw.report.predicted_purity);
//! # Ok(())
//! # }
//! ```

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use s2m_core::query::Query;
use s2m_core::setting::Setting;
use s2m_model::bundle::Bundle;

use crate::adapt::{AdaptChoice, Stored};
use crate::drawing::{Drawing, Job};
use crate::error::Error;
use crate::model::Model;
use crate::plan::{Kept, Planned};
use crate::pool::Pool;
use crate::presence;
use crate::progress::{Progress, Silent};
use crate::report::Report;
use crate::samplers::SamplerChoice;
use crate::samples::{Draw, Maker, Samples};
use crate::session::Session;
use crate::settings::SampleSettings;

/// A query and how to draw it; made by [`Model::query`].
#[derive(Debug, Clone)]
pub struct Ask {
    model: Model,
    query: Query,
    settings: SampleSettings,
    bank: Option<PathBuf>,
    proposal: Option<PathBuf>,
}

impl Model {
    /// Asks for items that satisfy a boolean combination of labels.
    pub fn query(&self, text: &str) -> Result<Ask, Error> {
        let query = Query::parse(text, self.bundle().labels())?;
        Ok(Ask::new(self.clone(), query))
    }
}

impl Ask {
    fn new(model: Model, query: Query) -> Self {
        Self {
            model,
            query,
            settings: SampleSettings::default(),
            bank: None,
            proposal: None,
        }
    }

    /// Draws with these settings, in the place of all that were given before.
    #[must_use]
    pub fn with_settings(mut self, settings: SampleSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Seed of the proposals; 0, or that of the bank, where left out.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }

    /// Draws by rejection, within this distance of the target in total variation.
    #[must_use]
    pub fn tv(mut self, tv: f64) -> Self {
        self.settings.sampler = SamplerChoice::Reject { tv };
        self
    }

    /// Draws by this sampler.
    #[must_use]
    pub fn sampler(mut self, sampler: SamplerChoice) -> Self {
        self.settings.sampler = sampler;
        self
    }

    /// Least posterior of the query that an item needs, in the place of the model's own.
    #[must_use]
    pub fn floor(mut self, floor: f64) -> Self {
        self.settings.overrides.floor = Some(floor);
        self
    }

    /// Share of right samples to be predicted; picks the floor.
    #[must_use]
    pub fn purity(mut self, purity: f64) -> Self {
        self.settings.overrides.purity = Some(purity);
        self
    }

    /// Moves each sample so many steps along the gradient after it was drawn; with [`SamplerChoice::Smc`], on every rung.
    #[must_use]
    pub fn moves(mut self, steps: NonZeroUsize) -> Self {
        self.settings.moves = Some(steps);
        self
    }

    /// Most proposals that may be scored.
    #[must_use]
    pub fn max_calls(mut self, calls: usize) -> Self {
        self.settings.max_calls = Some(calls);
        self
    }

    /// First learns where the generator makes the query, for rare combinations.
    #[must_use]
    pub fn adapt(mut self, choice: AdaptChoice) -> Self {
        self.settings.adapt = choice;
        self
    }

    /// Takes proposals from a bank while it lasts.
    #[must_use]
    pub fn bank(mut self, folder: impl Into<PathBuf>) -> Self {
        self.bank = Some(folder.into());
        self
    }

    /// Draws from a proposal that was adapted and kept before.
    #[must_use]
    pub fn proposal(mut self, folder: impl Into<PathBuf>) -> Self {
        self.proposal = Some(folder.into());
        self
    }

    /// Draws samples into memory.
    ///
    /// A query that has none, since the generator does not make them or the calls are spent, is
    /// [`Error::Refused`].
    pub fn draw(&self, samples: usize) -> Result<Draw, Error> {
        self.draw_with(samples, &Silent)
    }

    /// The same, telling somebody how far it is.
    pub fn draw_with(&self, samples: usize, progress: &dyn Progress) -> Result<Draw, Error> {
        let started = Instant::now();
        let selected = self.select(samples, progress)?;
        let samples = selected.samples(progress)?;
        let seconds = started.elapsed().as_secs_f64();
        let report = selected.drawing.report(&selected.session, seconds);
        Ok(Draw { samples, report })
    }

    /// Decides which proposals are kept, and makes no items.
    pub fn select(&self, samples: usize, progress: &dyn Progress) -> Result<Selected, Error> {
        let samples = count(samples)?;
        let session = self.session()?;
        let mut planned = self.plan(&session, samples, progress)?;
        let job = Job {
            session: &session,
            pool: &mut planned.pool,
            target: planned.target,
            samples,
            adaptation: planned.stored.map(|stored| stored.about.adaptation),
            others: None,
        };
        let (drawing, _) = job.draw(progress)?;
        Ok(Selected {
            pool: planned.pool,
            session,
            drawing,
        })
    }

    /// What is asked for.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// How it is drawn.
    pub fn settings(&self) -> &SampleSettings {
        &self.settings
    }

    /// Who is asked.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Whether proposals come from anything but the prior.
    pub(crate) fn draws_adapted(&self) -> bool {
        self.proposal.is_some() || !self.settings.adapt.is_none()
    }

    /// Whether proposals come from a bank, or from anything but the prior.
    pub(crate) fn draws_elsewhere(&self) -> bool {
        self.bank.is_some() || self.draws_adapted()
    }

    /// Checks the settings, loads ONNX Runtime, and opens the bank.
    pub(crate) fn session(&self) -> Result<Session, Error> {
        check(
            &self.settings,
            self.model.bundle(),
            self.bank.as_deref(),
            self.proposal.as_deref(),
        )?;
        self.model.session(&self.settings, self.bank.as_deref())
    }

    /// Proposals and target for so many samples.
    pub(crate) fn plan(
        &self,
        session: &Session,
        samples: NonZeroUsize,
        progress: &dyn Progress,
    ) -> Result<Planned, Error> {
        let bundle = self.model.bundle();
        let weighed = session.weigh(&self.query)?;
        if let Some(refusal) = presence::refuse(bundle, &self.query, &self.settings) {
            return Err(refusal.into());
        }
        let proposal = self.proposal.as_deref();
        let stored = proposal
            .map(|folder| Stored::open(folder, bundle))
            .transpose()?;
        let Some(stored) = &stored else {
            return session.prepare(&weighed, samples, progress);
        };
        let kept = Kept { stored, calls: 0 };
        session.plan_adapted(&weighed, Some(kept), samples, progress)
    }
}

/// Refuses settings out of their range, and what does not go together with adaptation.
pub(crate) fn check(
    settings: &SampleSettings,
    bundle: &Bundle,
    bank: Option<&Path>,
    proposal: Option<&Path>,
) -> Result<(), Error> {
    settings.sampler.check()?;
    settings.adapt.check()?;
    let adapts = !settings.adapt.is_none();
    let refuse = |text: String| Err(Error::Setting(text));
    if adapts && proposal.is_some() {
        return refuse(format!(
            "{} is an adapted proposal already; leave {} out",
            Setting("proposal"),
            Setting("adapt")
        ));
    }
    if settings.sampler == SamplerChoice::Smc && (adapts || proposal.is_some()) {
        return refuse(format!(
            "{} starts from the prior, and finds its way from there; leave {} out",
            Setting("sampler").to("smc"),
            Setting(if adapts { "adapt" } else { "proposal" })
        ));
    }
    if proposal.is_some() && bank.is_some() {
        return refuse(format!(
            "a bank holds proposals of the prior; use {} or {}, not both",
            Setting("bank"),
            Setting("proposal")
        ));
    }
    if adapts && bank.is_some() && bundle.classes().is_some() {
        return refuse(format!(
            "{} cannot use a bank of a conditional generator, whose classes take turns\nhint: leave {} out",
            Setting("adapt"),
            Setting("bank")
        ));
    }
    Ok(())
}

/// A number of samples, at least one.
pub(crate) fn count(samples: usize) -> Result<NonZeroUsize, Error> {
    NonZeroUsize::new(samples).ok_or_else(|| {
        Error::Setting("no samples were asked for; it must be at least 1".to_owned())
    })
}

/// Proposals that were kept, before items are made of them.
pub struct Selected {
    session: Session,
    pool: Pool,
    drawing: Drawing,
}

impl Selected {
    /// Their rows among the proposals of the query: numbers of the seed's proposals, without adaptation. Of samples that
    /// were moved they are those that they started from.
    pub fn rows(&self) -> Result<Vec<u64>, Error> {
        self.drawing.starts()
    }

    /// The class that a conditional generator is given for a row.
    pub fn class(&self, row: u64) -> Option<u32> {
        self.pool.class(row)
    }

    /// Proposals that the query looked at. A bank of a conditional generator also holds those of other classes,
    /// which [`Report::generator_calls`] counts.
    pub fn looked_at(&self) -> usize {
        self.drawing.target.searched + self.drawing.looked_at
    }

    /// Everything about the draw, which took so many seconds.
    pub fn report(&self, seconds: f64) -> Report {
        self.drawing.report(&self.session, seconds)
    }

    /// Makes the items.
    pub fn samples(&self, progress: &dyn Progress) -> Result<Samples, Error> {
        let maker = Maker::open(&self.session)?;
        let (pool, target) = (self.drawing.pool(&self.pool), &self.drawing.target);
        let kept = &self.drawing.kept;
        maker.collect(pool, target, &kept.read(0..kept.len())?, progress)
    }
}
