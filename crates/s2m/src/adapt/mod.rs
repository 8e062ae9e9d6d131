//! Latent adaptation: for a combination that the generator rarely makes, first learn where it makes it.
//!
//! | method | what it does |
//! |---|---|
//! | [`pilots`] `once` | the paper's Algorithm 2: one pilot, one fit |
//! | [`pilots`] `repeat` | the paper's Algorithm 3: label by label |
//! | [`adaptive`] | every proposal of every stage counts, weighted |
//!
//! All end in a frozen mixture with a share of the prior, from which the samplers then draw *fresh*
//! proposals. The target does not change: weights carry the density of the prior over that of the mixture.

mod adaptive;
mod choice;
mod mend;
mod parts;
mod pilots;
mod record;
mod search;
mod store;
mod walk;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use s2m_core::adaptation;
use s2m_core::mixture::Mixture;
use s2m_core::query::Query;
use s2m_core::setting::Setting;
use thiserror::Error as ThisError;

pub use choice::{
    AdaptChoice, COMPONENTS, GAIN, PILOTS, PRIOR_SHARE, Pilot, STEPS_ONCE, STEPS_REPEAT,
};
pub use record::{Coverage, ProposalRecord, Record, StageRecord};
pub use store::{FILES, Stored};
pub(crate) use store::{digest, weighed_by};

use crate::draw::Target;
use crate::error::Error;
use crate::models;
use crate::output::{Existing, Kind, Plan, Staging};
use crate::pool::RecycledRows;
use crate::progress::Progress;
use crate::session::{Machine, Session};
use crate::settings::SampleSettings;
use search::{Price, Search};

/// Samples for which a proposal is adapted where nothing else is said.
pub const DEFAULT_SAMPLES: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Why a latent distribution cannot be adapted.
#[derive(Debug, ThisError)]
pub enum AdaptError {
    /// A latent that is too wide for covariances.
    #[error(
        "the latent `{input}` has {size} numbers; at most {} can be adapted\nhint: draw without {}",
        search::MAX_SIZE,
        Setting("adapt")
    )]
    TooWide {
        /// The generator's input.
        input: String,
        /// Its size.
        size: usize,
    },
    /// Too few pilot latents for a mixture.
    #[error("{}", too_few(.query, *.found, *.supported, *.needed, *.size, *.pilot))]
    TooFewPilots {
        /// The query of the pilot.
        query: String,
        /// Chains that met the support.
        found: usize,
        /// How the pilot was drawn.
        pilot: Pilot,
        /// Supported proposals among all.
        supported: usize,
        /// Pilot latents needed.
        needed: usize,
        /// Numbers in a latent.
        size: usize,
    },
    /// `repeat` for a query that has no list of labels.
    #[error(
        "`{query}` is not a plain \"all of these, none of those\", so it cannot be built up label by label\nhint: use {}, which takes any query",
        Setting("adapt").to("adaptive")
    )]
    NotPlain {
        /// The query as typed.
        query: String,
    },
    /// An order that does not fit the query.
    #[error(
        "{} does not fit the query: {reason}\nhint: name each label of the query once, as in {}",
        Setting("order"),
        Setting("order").to("\"A, -B\"")
    )]
    Order {
        /// What is wrong.
        reason: String,
    },
    /// The pilot costs more than is allowed.
    #[error(
        "{} spends {calls} generator calls on its pilot alone, and {} allows {allowed}\nhint: use {}, or lower {} or {}",
        Setting("adapt").to(.method),
        Setting("max_calls"),
        Setting("adapt").to("adaptive"),
        Setting("pilots"),
        Setting("pilot_steps")
    )]
    TooDear {
        /// The method.
        method: &'static str,
        /// What the pilot costs.
        calls: usize,
        /// What is allowed.
        allowed: usize,
    },
    /// No mixture fits the points.
    #[error("no mixture could be fitted to the latents found: {0}")]
    Fit(#[from] s2m_core::Error),
    /// A stored proposal of another generator.
    #[error("the proposal in `{}` was adapted for another generator (of the model `{model}`)\nhint: make one for this model with `s2m adapt`", .path.display())]
    OtherBundle {
        /// Its folder.
        path: PathBuf,
        /// The model that it was made for.
        model: String,
    },
    /// A stored proposal that is broken.
    #[error("the proposal in `{}` cannot be used: {reason}", .path.display())]
    Broken {
        /// Its folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

fn too_few(
    query: &str,
    found: usize,
    supported: usize,
    needed: usize,
    size: usize,
    pilot: Pilot,
) -> String {
    let calls = pilot.pilots.get().saturating_mul(pilot.steps.get());
    let more = match found {
        0 => "nobody can say how many more calls that takes".to_owned(),
        found => {
            let whole = calls as f64 * needed as f64 / found as f64;
            format!(
                "about {:.0} more generator calls would be needed",
                (whole - calls as f64).max(1.0)
            )
        }
    };
    format!(
        "too few pilot latents for `{query}`: {found} of {} chains of {} steps met its support ({supported} of {calls} proposals); {} components that share a covariance in {size} dimensions need at least {needed} different ones to have a shape, so {more}\nhint: raise {} or {}, use {}, or loosen the query",
        pilot.pilots,
        pilot.steps,
        pilot.components,
        Setting("pilot_steps"),
        Setting("pilots"),
        Setting("adapt").to("adaptive")
    )
}

/// What a search ended with.
pub(crate) struct Found {
    /// What to draw latents from; none where the prior is as good.
    pub(crate) mixture: Option<Arc<Mixture>>,
    pub(crate) record: Record,
    /// Rows that `resample` can use again.
    pub(crate) recycled: Option<RecycledRows>,
}

/// Whether fresh proposals of the prior say what a search may have missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judging {
    /// They do: samples are to be drawn.
    Wanted,
    /// Only what samples would cost is asked for.
    Skipped,
}

/// Searches for a proposal for a target that was planned over the prior.
pub(crate) fn find(
    session: &Session,
    target: &Target,
    samples: NonZeroUsize,
    judging: Judging,
    progress: &dyn Progress,
) -> Result<Found, Error> {
    let settings = &session.settings;
    let mut search = Search::new(session, target, Price::of(settings.sampler), progress)?;
    match &settings.adapt {
        AdaptChoice::None => Err(Error::Setting(format!(
            "{} adapts nothing; choose once, repeat or adaptive",
            Setting("adapt").to("none")
        ))),
        AdaptChoice::Once { pilot, prior_share } => {
            affordable(&settings.adapt, pilot, 1, settings.max_calls)?;
            let found = pilots::once(&mut search, *pilot, *prior_share)?;
            pilots::judge(&mut search, found, samples, judging)
        }
        AdaptChoice::Repeat {
            pilot,
            order,
            prior_share,
        } => {
            let query = target.weighting.query();
            let (present, absent) = query.conjunction().unwrap_or_default();
            let labels = present.len() + absent.len();
            affordable(&settings.adapt, pilot, labels, settings.max_calls)?;
            let found = pilots::repeat(&mut search, *pilot, order.as_deref(), *prior_share)?;
            pilots::judge(&mut search, found, samples, judging)
        }
        AdaptChoice::Adaptive { gain, prior_share } => {
            adaptive::adaptive(&mut search, samples, *gain, *prior_share, judging)
        }
    }
}

/// Share of the target that may be missing where so many proposals were drawn from an adapted proposal; all of
/// it where that was not judged, none where the prior was drawn from.
pub fn missing_part(record: &Record, proposals: usize) -> Option<f64> {
    let proposal = record.proposal.as_ref()?;
    Some(record.coverage.map_or(1.0, |coverage| {
        // The share of the prior in the proposal explores too.
        let further = proposal.prior_share * proposals as f64 * coverage.share;
        coverage.may_be_missing(further)
    }))
}

/// Refuses a pilot that costs more than all that is allowed.
fn affordable(
    choice: &AdaptChoice,
    pilot: &Pilot,
    times: usize,
    max_calls: Option<usize>,
) -> Result<(), AdaptError> {
    let one = pilot.pilots.get().saturating_mul(pilot.steps.get());
    let calls = one.saturating_mul(times);
    match max_calls {
        Some(allowed) if calls >= allowed => Err(AdaptError::TooDear {
            method: choice.name(),
            calls,
            allowed,
        }),
        _ => Ok(()),
    }
}

/// Share of the pilot's weight that a proposal reaches through its share of the prior alone.
fn uncovered(mixture: Option<&Mixture>, points: &[f32], log_weights: &[f64]) -> f64 {
    mixture.map_or(0.0, |m| adaptation::uncovered(m, points, log_weights))
}

/// One request for a proposal to keep.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Folder or name of the model.
    pub model: &'a Path,
    /// The query.
    pub query: &'a str,
    /// Samples that it is for: how far adaptation goes.
    pub samples: NonZeroUsize,
    /// How to adapt, seed and calibration.
    pub settings: SampleSettings,
    /// What to score with.
    pub machine: Machine<'a>,
    /// Folder for the proposal.
    pub out: &'a Path,
    /// What to do where it holds something.
    pub existing: Existing,
}

/// Adapts a proposal and keeps it.
pub fn adapt(request: &Request<'_>, progress: &dyn Progress) -> Result<Stored, Error> {
    request.settings.adapt.check()?;
    let bundle = models::open(request.model)?;
    let query = Query::parse(request.query, bundle.labels())?;
    let session = Session::open(&bundle, &request.machine, &request.settings, None)?;
    let identity = format!("adapt {} {} {}", bundle.hash(), query.text(), session.seed);
    let folder = models::folder(request.model);
    let staging = Staging::open(&Plan {
        target: request.out,
        kind: Kind::Proposal,
        identity: &identity,
        existing: request.existing,
        inputs: &folder.as_deref().into_iter().collect::<Vec<_>>(),
    })?;
    staging.empty()?;
    let target = session.own_target(&session.weigh(&query)?)?;
    let found = find(
        &session,
        &target,
        request.samples,
        Judging::Wanted,
        progress,
    );
    let stored = match found {
        Ok(found) => Stored::new(&session, &target, found.mixture.as_deref(), found.record),
        Err(error) => {
            staging.discard();
            return Err(error);
        }
    };
    stored.write(&staging, "")?;
    staging.finish()?;
    Ok(stored)
}
