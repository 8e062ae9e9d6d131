//! What is known about the labels of one item: by sorted levels of a class head, or by an output per label set.

use crate::density::Levels;
use crate::joint::SetPosterior;
use crate::labels::LabelSet;
use crate::query::Query;

/// Which posterior of a query weighs items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PosteriorKind {
    /// Sorted levels of the class head.
    Levels,
    /// One output per label set.
    Joint,
}

impl PosteriorKind {
    /// Its name, as typed and as reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Levels => "levels",
            Self::Joint => "joint",
        }
    }
}

/// The label sets that one item can have.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, on the stack of whoever weighs an item"
)]
pub enum ItemPosterior<'a> {
    /// Nested sets, by sorted levels.
    Levels(Levels<'a>),
    /// Any sets, by an output for each.
    Sets(SetPosterior),
}

impl ItemPosterior<'_> {
    /// The sets and the log density of each.
    pub fn sets(&self) -> Vec<(LabelSet, f64)> {
        match self {
            Self::Levels(levels) => levels.sets().collect(),
            Self::Sets(sets) => sets.sets().map(|(set, r)| (set, r.ln())).collect(),
        }
    }

    /// `log r_Q`; a margin is for levels alone.
    pub fn log_density(&self, query: &Query, log_margin: f64) -> f64 {
        match self {
            Self::Levels(levels) => levels.log_density(query, log_margin),
            Self::Sets(sets) => sets.log_density(query),
        }
    }

    /// `log P(Q|x)`, at margin 1.
    pub fn log_posterior(&self, query: &Query) -> f64 {
        match self {
            Self::Levels(levels) => levels.log_posterior(query),
            Self::Sets(sets) => sets.log_posterior(query),
        }
    }

    /// `P(label | Q, x)`, at margin 1; none where the query has no density at this item.
    pub fn label_posterior(&self, query: &Query, label: usize) -> Option<f64> {
        match self {
            Self::Levels(levels) => levels.label_posterior(query, label),
            Self::Sets(sets) => sets.label_posterior(query, label),
        }
    }
}
