//! What can keep a request from being answered.

use std::io;
use std::path::{Path, PathBuf};

use s2m_core::setting::Setting;
use s2m_core::weight::LogitError;
use thiserror::Error;

use crate::pilot::{MAX_SIZE, Pilot};
use crate::progress::Progress;
use crate::refusal::Refusal;

/// Why a request could not run.
#[derive(Debug, Error)]
pub enum Error {
    /// No folder and no embedded bundle of that name.
    #[error("no model `{}`: there is no such folder, and the embedded models are {embedded}", .model.display())]
    NoSuchModel {
        /// What was asked for.
        model: PathBuf,
        /// What there is.
        embedded: String,
    },
    /// A bundle, a network, a bank, ONNX Runtime or a place on disk is not usable.
    #[error(transparent)]
    Model(#[from] s2m_model::Error),
    /// The query is not usable, or the settings do not fit it.
    #[error(transparent)]
    Core(#[from] s2m_core::Error),
    /// A classifier said something that is not a number.
    #[error(
        "proposal {proposal}: {source}\nhint: the networks overflow for this latent; check their export, or the input range in model.toml"
    )]
    Logit {
        /// Which proposal.
        proposal: u64,
        /// What it said.
        source: LogitError,
    },
    /// A picture cannot be made.
    #[error(transparent)]
    Picture(#[from] s2m_show::Error),
    /// The latent distribution cannot be adapted.
    #[error(transparent)]
    Adapt(#[from] AdaptError),
    /// A setting is out of its range or makes no sense here.
    #[error("{0}")]
    Setting(String),
    /// The query has no samples: an answer, and no fault.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// Nobody waited for the end any longer.
    #[error("stopped before the end")]
    Stopped,
    /// A run stopped, and can go on from what it has scored.
    #[error("{source}\nhint: what was scored is kept in `{}`; the same command goes on from it, and so does another number of items", .kept.display())]
    Unfinished {
        /// Why it stopped.
        source: Box<Error>,
        /// Where the logits are.
        kept: PathBuf,
    },
    /// A file or folder cannot be written.
    #[error("could not write `{}`: {source}", .path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("could not read `{}`: {reason}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl Error {
    /// Whether the same request may end otherwise another time: the disk is full, or memory, or somebody stopped it.
    pub(crate) fn may_pass(&self) -> bool {
        use s2m_model::Kind;
        match self {
            Self::Write { .. } | Self::Stopped => true,
            Self::Model(error) => matches!(
                error.kind(),
                Kind::Journal | Kind::Network | Kind::Write | Kind::Place
            ),
            _ => false,
        }
    }

    /// Tells how far work is; an error where nobody waits for it any longer.
    pub(crate) fn unless_stopped(progress: &dyn Progress, done: u64) -> Result<(), Self> {
        progress.at(done);
        if progress.stopped() {
            return Err(Self::Stopped);
        }
        Ok(())
    }

    /// Names the path in an error of writing.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Write {
            path: path.to_owned(),
            source,
        }
    }
}

/// Why a latent distribution cannot be adapted.
#[derive(Debug, Error)]
pub enum AdaptError {
    /// A latent that is too wide for covariances.
    #[error(
        "the latent `{input}` has {size} numbers; at most {} can be adapted\nhint: draw without {}",
        MAX_SIZE,
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
