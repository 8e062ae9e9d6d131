//! What can keep a bundle from being calibrated.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a bundle cannot be calibrated.
#[derive(Debug, Error)]
pub enum Error {
    /// A bundle or a network is not usable.
    #[error(transparent)]
    Model(#[from] s2m_model::Error),
    /// A query is not usable, or settings do not fit it.
    #[error(transparent)]
    Core(#[from] s2m_core::Error),
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

/// What held-out items do not do.
pub(crate) fn held_out(error: impl std::fmt::Display) -> Error {
    Error::Setting(format!("held-out items: {error}"))
}

/// What a network must not say.
pub(crate) fn said(error: s2m_core::weight::LogitError) -> Error {
    Error::Setting(error.to_string())
}
