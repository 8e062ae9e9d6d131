//! What a logit may not be.

use thiserror::Error;

/// A classifier said something that is not a number.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error("a logit of the {output} is {value}")]
pub struct LogitError {
    /// Which head.
    pub output: &'static str,
    /// What it said.
    pub value: f32,
}
