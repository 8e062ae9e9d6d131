//! What can keep a bundle from being calibrated.

use std::io;
use std::path::{Path, PathBuf};

use s2m_model::bundle::BundleError;
use s2m_model::judge::JudgeError;
use s2m_model::networks::NetworkError;
use thiserror::Error;

/// Why a bundle cannot be calibrated.
#[derive(Debug, Error)]
pub enum Error {
    /// A bundle is not usable.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A query is not usable, or settings do not fit it.
    #[error(transparent)]
    Core(#[from] s2m_core::Error),
    /// A network failed.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A classifier is not usable.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// A setting is out of its range, or held-out items do not do.
    #[error("{0}")]
    Setting(String),
    /// A file cannot be written.
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

impl Error {
    /// Names the path in an error of writing.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Write {
            path: path.to_owned(),
            source,
        }
    }
}
