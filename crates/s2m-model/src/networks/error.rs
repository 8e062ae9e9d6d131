//! What goes wrong between a proposal number and its logits.

use s2m_core::setting::Setting;

use crate::error::Error;
use crate::onnx::NotJoinable;

/// Most numbers that one input or output of a batch may have: 1 GiB.
pub(crate) const MAX_BATCH_NUMBERS: usize = 1 << 28;

/// A batch whose largest tensor has so many numbers per item, if it can be held.
pub(crate) fn check_batch(batch: usize, per_item: usize) -> Result<usize, Error> {
    let numbers = batch.checked_mul(per_item.max(1));
    if numbers.is_some_and(|numbers| numbers <= MAX_BATCH_NUMBERS) {
        return Ok(batch);
    }
    Err(Error::too_large(format!(
        "the networks were exported for batches of {batch}, which take more than {MAX_BATCH_NUMBERS} numbers at once\nhint: export them with a dynamic first axis"
    )))
}

/// Of a network that ran and did not end.
pub(crate) fn failed(file: &str, reason: &str) -> Error {
    Error::network(format!("`{file}` failed while running: {reason}"))
}

/// Of a network that does not start.
pub(crate) fn not_loaded(file: &str, reason: &str) -> Error {
    Error::network(format!("ONNX Runtime cannot load `{file}`: {reason}"))
}

/// Of an output with another number of values than so many items, of so many numbers each.
pub(crate) fn wrong_size(
    file: &str,
    output: &str,
    found: usize,
    [items, wanted]: [usize; 2],
) -> Error {
    Error::network(format!(
        "`{file}`: output `{output}` has {found} values for {items} items; the bundle promises {wanted} for each"
    ))
}

/// Of networks that cannot be made one, which a gradient needs.
pub(super) fn not_one(why: &NotJoinable) -> Error {
    Error::unsupported(format!(
        "moves need generator and classifier in one graph: {why}\nhint: leave {} out",
        Setting("moves")
    ))
}

/// Of networks without a gradient.
pub(super) fn no_gradient(file: &str, why: &Error) -> Error {
    Error::unsupported(format!(
        "`{file}`: {why}\nhint: leave {} out",
        Setting("moves")
    ))
}
