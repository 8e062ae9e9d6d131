//! What goes wrong between a proposal number and its logits.

use s2m_core::setting::Setting;
use thiserror::Error;

use crate::onnx::NotJoinable;
use crate::onnx::gradient::GradientError;

/// What went wrong between a proposal number and its logits.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// ONNX Runtime refuses a network.
    #[error("ONNX Runtime cannot load `{file}`: {reason}")]
    Load {
        /// Which file.
        file: String,
        /// What it said.
        reason: String,
    },
    /// A network failed while running.
    #[error("`{file}` failed while running: {reason}")]
    Run {
        /// Which file.
        file: String,
        /// What it said.
        reason: String,
    },
    /// A network gave another number of values than the bundle promises.
    #[error(
        "`{file}`: output `{output}` has {found} values for {rows} items; the bundle promises {wanted} for each"
    )]
    OutputSize {
        /// Which file.
        file: String,
        /// Which output.
        output: String,
        /// Values found.
        found: usize,
        /// Items in the batch.
        rows: usize,
        /// Values per item.
        wanted: usize,
    },
    /// The device is not there.
    #[error(
        "the CUDA device cannot be used: {reason}\nhint: install onnxruntime-gpu and point ORT_DYLIB_PATH at its library, or pass {}",
        Setting("device").to("cpu")
    )]
    NoCuda {
        /// What was said.
        reason: String,
    },
    /// The two networks were exported with different fixed batches.
    #[error(
        "the generator was exported for batches of {generator} and the classifier for {classifier}\nhint: export both with a dynamic first axis"
    )]
    FixedBatches {
        /// The generator's.
        generator: i64,
        /// The classifier's.
        classifier: i64,
    },
    /// A network was exported for batches that no memory holds.
    #[error(
        "the networks were exported for batches of {batch}, which take more than {MAX_BATCH_NUMBERS} numbers at once\nhint: export them with a dynamic first axis"
    )]
    LargeBatch {
        /// The batch.
        batch: usize,
    },
    /// The networks cannot be made one, which a gradient needs.
    #[error(
        "moves need generator and classifier in one graph: {source}\nhint: leave {} out",
        Setting("moves")
    )]
    NotOne {
        /// Why.
        source: NotJoinable,
    },
    /// The networks have no gradient.
    #[error("`{file}`: {source}\nhint: leave {} out", Setting("moves"))]
    NoGradient {
        /// Which networks.
        file: String,
        /// Why.
        source: GradientError,
    },
    /// A value of a generated item is not a number.
    #[error("the generator's output for proposal {proposal} is not a number")]
    BadItem {
        /// Which proposal.
        proposal: u64,
    },
}

/// Most numbers that one input or output of a batch may have: 1 GiB.
pub(crate) const MAX_BATCH_NUMBERS: usize = 1 << 28;

/// A batch whose largest tensor has so many numbers per item, if it can be held.
pub(crate) fn check_batch(batch: usize, per_item: usize) -> Result<usize, NetworkError> {
    let numbers = batch.checked_mul(per_item.max(1));
    if numbers.is_some_and(|numbers| numbers <= MAX_BATCH_NUMBERS) {
        return Ok(batch);
    }
    Err(NetworkError::LargeBatch { batch })
}
