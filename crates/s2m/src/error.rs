//! What can keep a request from being answered.

use std::io;
use std::path::{Path, PathBuf};

use s2m_core::weight::LogitError;
use thiserror::Error;

use crate::adapt::AdaptError;
use crate::drawing::Refusal;
use crate::progress::Progress;

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
