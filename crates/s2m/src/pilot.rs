//! The pilots of the paper's adaptation, and how large what is fitted to them may be.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

/// The paper's settings: pilot latents, components, steps of a pilot chain, at once and per label.
pub const PILOTS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// See [`PILOTS`].
pub const COMPONENTS: NonZeroUsize = NonZeroUsize::new(8).unwrap();
/// See [`PILOTS`].
pub const STEPS_ONCE: NonZeroUsize = NonZeroUsize::new(100).unwrap();
/// See [`PILOTS`].
pub const STEPS_REPEAT: NonZeroUsize = NonZeroUsize::new(15).unwrap();

/// How the paper's pilots are drawn and fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pilot {
    /// Chains; each gives one latent.
    pub pilots: NonZeroUsize,
    /// Steps of each.
    pub steps: NonZeroUsize,
    /// Components of the mixture.
    pub components: NonZeroUsize,
}

impl Pilot {
    /// The paper's numbers, with so many steps.
    pub fn paper(steps: NonZeroUsize) -> Self {
        Self {
            pilots: PILOTS,
            steps,
            components: COMPONENTS,
        }
    }
}

/// Most components that a mixture may have.
pub(crate) const MAX_COMPONENTS: usize = 1024;

/// Latents with more numbers than this are not adapted: covariances would not fit into memory.
pub(crate) const MAX_SIZE: usize = 4096;
