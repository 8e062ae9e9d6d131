//! What a run file may not ask for.

use thiserror::Error;

/// Why a run file cannot be followed.
#[derive(Debug, Error)]
pub enum Error {
    /// A setting is out of its range, or does not go with another one.
    #[error("{0}")]
    Setting(String),
    /// The settings of the calibration are not usable.
    #[error(transparent)]
    Calibration(#[from] s2m_calibrate::Error),
}

/// Leaves with an [`Error::Setting`] unless a condition holds.
macro_rules! ensure {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(Error::Setting(format!($($text)+)));
        }
    };
}
pub(crate) use ensure;
