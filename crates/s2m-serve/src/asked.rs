//! What a page asks for.

use serde::Deserialize;

/// What a page asks for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    pub(crate) query: String,
    pub(crate) n: usize,
    pub(crate) seed: u64,
    pub(crate) purity: Option<f64>,
}
