//! Which random numbers belong to what, so that no two uses of one seed share any.
//!
//! Generated items use the same keyed numbers at other stages, all of them in one list: a toy's noise is never a
//! generator's latent.

use s2m_core::proposals::Proposals;
use s2m_core::streams;

use crate::dataset::Part;

/// What random numbers are for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Use {
    /// Which of its labels an item shows.
    View,
    /// Which items are for validation.
    Split,
    /// The items of a toy.
    Draw(Part),
    /// Which items are the test part, where data has none of its own.
    TestPart,
    /// Which positives are shown with a wrong label, and with which.
    WrongLabel,
}

/// The random numbers of a seed for one use; number k belongs to item k.
pub(crate) fn numbers(seed: u64, purpose: Use) -> Proposals {
    Proposals::new(seed).at_stage(match purpose {
        Use::View => streams::OBSERVED,
        Use::Split => streams::SPLIT,
        Use::Draw(Part::Train) => streams::TOY_TRAINING,
        Use::Draw(Part::Test) => streams::TOY_TEST,
        Use::TestPart => streams::TEST_SET,
        Use::WrongLabel => streams::LABEL_NOISE,
    })
}

/// A uniform number in `(0, 1)` to one of `0 … count − 1`.
pub(crate) fn choose(uniform: f64, count: usize) -> usize {
    ((uniform * count as f64) as usize).min(count - 1)
}
