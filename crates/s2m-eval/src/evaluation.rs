//! What an evaluation takes in and what comes out, for whoever compares and for the page.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::items::{GivenRows, ItemSet, Rows};
use crate::look;
use crate::measure::Measure;

/// What was measured of one query, or of all together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluated {
    /// Generated items.
    pub n_generated: usize,
    /// Real items that they are compared with.
    pub n_real: usize,
    /// Which real items these are.
    pub reference: &'static str,
    /// Accuracy of each label that the query decides.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub accuracy_by_label: BTreeMap<String, [f64; 3]>,
    /// The metrics, under their names.
    #[serde(flatten, serialize_with = "by_name")]
    pub measures: Vec<Measure>,
}

fn by_name<S: Serializer>(measures: &[Measure], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(measures.iter().map(|m| (m.metric.name(), m)))
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// All generated items together.
    #[serde(flatten)]
    pub pooled: Evaluated,
    /// Query by query, where samples know their query.
    pub queries: BTreeMap<String, Evaluated>,
    /// What the features are.
    pub features: String,
    /// Who judged the labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub referee: Option<String>,
    /// Pictures that were left out because they could not be read.
    pub skipped: Vec<String>,
    /// Software.
    pub versions: BTreeMap<String, String>,
    /// Why there is no page, where one was asked for and could not be written.
    #[serde(skip)]
    pub no_page: Option<String>,
}

/// One side as the networks see it.
pub(crate) struct Side {
    pub(crate) sets: Vec<ItemSet>,
    /// What the feature network says of each set; rows themselves where there is none.
    pub(crate) seen: Vec<Seen>,
}

/// What is known of the items of a set.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) features: Option<GivenRows>,
    pub(crate) classes: Option<Rows>,
}

impl From<look::Seen> for Seen {
    fn from(seen: look::Seen) -> Self {
        Self {
            features: seen.features.map(GivenRows::Single),
            classes: seen.classes,
        }
    }
}
