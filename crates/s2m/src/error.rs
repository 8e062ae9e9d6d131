//! What can keep a request from being answered.

use std::io;
use std::path::{Path, PathBuf};

use s2m_core::weight::LogitError;
use s2m_model::bank::BankError;
use s2m_model::bundle::BundleError;
use s2m_model::disk::{LockError, ScratchError, StagingError};
use s2m_model::journal::JournalError;
use s2m_model::networks::NetworkError;
use s2m_model::runtime::RuntimeError;
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
    /// The bundle is not usable.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The query is not usable, or the settings do not fit it.
    #[error(transparent)]
    Core(#[from] s2m_core::Error),
    /// ONNX Runtime is not usable.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A network failed.
    #[error(transparent)]
    Network(#[from] NetworkError),
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
    /// The bank is not usable.
    #[error(transparent)]
    Bank(#[from] BankError),
    /// Progress of an interrupted run cannot be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
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
    /// The output folder cannot be made.
    #[error(transparent)]
    Staging(#[from] StagingError),
    /// Numbers that memory does not hold cannot be kept or read.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// A run stopped, and can go on from what it has scored.
    #[error("{source}\nhint: what was scored is kept in `{}`; the same command goes on from it, and so does another number of items", .kept.display())]
    Unfinished {
        /// Why it stopped.
        source: Box<Error>,
        /// Where the logits are.
        kept: PathBuf,
    },
    /// Somebody else writes there.
    #[error(transparent)]
    Lock(#[from] LockError),
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
        matches!(
            self,
            Self::Write { .. }
                | Self::Stopped
                | Self::Journal(_)
                | Self::Network(_)
                | Self::Scratch(_)
                | Self::Staging(_)
        )
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
