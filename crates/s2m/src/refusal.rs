//! Why a query has no samples: an answer, and no fault.

use s2m_core::calibration::presence::{Counted, Verdict};
use s2m_core::samplers::Failure;
use thiserror::Error;

/// Why a query has no samples, and what to try.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("`{query}`: {failure}\nhint: {advice}")]
pub struct Refusal {
    /// The query as typed.
    pub query: String,
    /// Why.
    pub failure: Cause,
    /// What to try.
    pub advice: String,
}

/// Why a query has no samples.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Cause {
    /// The sampler found none.
    #[error(transparent)]
    Sampler(#[from] Failure),
    /// The data may hold no such item.
    #[error("the data may hold no such item: {0}")]
    Absent(Seen),
    /// What would be drawn is mostly wrong.
    #[error(
        "the generator does not reach this query: the samples have a predicted purity of {predicted:.2e}, and at least {LEAST_PURITY} is needed"
    )]
    Impure {
        /// Mean posterior of the query over what would be written.
        predicted: f64,
    },
    /// No floor gives the purity that was asked for.
    #[error(
        "a purity of {asked} cannot be had: the best of {items} proposals are predicted to be right with probability {best:.4}"
    )]
    PurityOutOfReach {
        /// The wish.
        asked: f64,
        /// Proposals with any weight that were looked at.
        items: usize,
        /// The largest prediction among them.
        best: f64,
    },
}

/// Least predicted purity of samples: with less than this, nine of ten are wrong, and a query is out of reach.
/// A softmax is never zero, so that every item has some posterior of every query.
pub const LEAST_PURITY: f64 = 0.1;

/// What held-out items say about a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// Whether the data holds it.
    pub verdict: Verdict,
    /// Items that reach the floor of one of its joint classes, and how many of them errors explain.
    pub counted: Counted,
    /// The least of these floors.
    pub floor: f64,
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { counted, floor, .. } = self;
        match counted.reached {
            0 => write!(
                f,
                "none of {} held-out items reaches the posterior {floor:.2}",
                counted.items
            )?,
            reached => write!(
                f,
                "{reached} of {} held-out items reach the posterior {floor:.2}, and errors explain {:.1}",
                counted.items, counted.explained
            )?,
        }
        write!(
            f,
            "; at most {:.2} % of all items do",
            100.0 * counted.upper_limit()
        )
    }
}
