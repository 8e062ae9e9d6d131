//! Which random numbers belong to what, so that no two uses of one seed share any.
//!
//! Generated items use the same keyed numbers at the low stages (0 is the prior, then one for each
//! adaptation), so data counts down from the last stage: a toy's noise is never a generator's latent.

use s2m_core::proposals::Proposals;

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
    let from_the_end = match purpose {
        Use::View => 0,
        Use::Split => 1,
        Use::Draw(Part::Train) => 2,
        Use::Draw(Part::Test) => 3,
        Use::TestPart => 4,
        Use::WrongLabel => 5,
    };
    Proposals::new(seed).at_stage(u16::MAX - from_the_end)
}

/// A uniform number in `(0, 1)` to one of `0 … count − 1`.
pub(crate) fn choose(uniform: f64, count: usize) -> usize {
    ((uniform * count as f64) as usize).min(count - 1)
}
