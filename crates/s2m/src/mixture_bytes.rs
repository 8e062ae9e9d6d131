//! The numbers of a mixture as bytes, and their hash: what an adapted proposal is known by.

use s2m_core::mixture::Mixture;
use s2m_model::bundle::sha256;

/// A hash of a mixture's numbers.
pub(crate) fn digest(mixture: &Mixture) -> String {
    sha256(&bytes(mixture))
}

/// 64-bit floats, lowest byte first: weights, means, factors.
pub(crate) fn bytes(mixture: &Mixture) -> Vec<u8> {
    let parts = mixture.parts();
    let lists = [&parts.weights, &parts.means, &parts.factors];
    let numbers = lists.into_iter().flatten();
    numbers.flat_map(|number| number.to_le_bytes()).collect()
}
