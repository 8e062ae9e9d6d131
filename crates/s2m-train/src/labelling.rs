//! How the labels of a data set came about, as bundles state it.

use s2m_data::recipe::{LabellingRecipe, Loaded};
use s2m_model::manifest::{LabellingEntry, LabellingModel};

/// The labelling mechanism of a recipe, with the shares of its data.
pub(crate) fn labelling_entry(recipe: &LabellingRecipe, data: &Loaded) -> LabellingEntry {
    let labels = data.train.labels.len();
    let observed = data.observed.clone();
    match recipe {
        LabellingRecipe::PerClass {} => LabellingEntry {
            model: LabellingModel::PerClass,
            // Items come once per label, so a label's share is its prior up to a constant.
            weights: observed.clone(),
            observed,
        },
        LabellingRecipe::OneOf { weights } => LabellingEntry {
            model: LabellingModel::OneOf,
            weights: weights.clone().unwrap_or_else(|| vec![1.0; labels]),
            observed,
        },
    }
}
