//! Replicas: the data sets and seeds of one run, trained side by side along the leading axis.

use anyhow::{Context as _, Result, ensure};
use s2m_data::recipe::{DataRecipe, Loaded};
use s2m_data::{Items, Values};
use s2m_runs::folder;
use tch::Tensor;

use crate::noise;

/// One training: a data set and a seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// Position of the data set in the run file.
    pub data: usize,
    /// Name of the data set.
    pub name: String,
    pub seed: u64,
}

impl Replica {
    /// What all random numbers of this replica are keyed by; its neighbours do not enter.
    pub fn key(&self) -> u64 {
        noise::key(self.seed, noise::Purpose::Weights, &self.name)
    }

    /// Name for people and folders.
    pub fn title(&self) -> String {
        folder::replica(&self.name, self.seed)
    }
}

/// The titles of all replicas, one per line.
pub fn titles(replicas: &[Replica]) -> String {
    let titles: Vec<String> = replicas.iter().map(Replica::title).collect();
    titles.join("\n")
}

/// All combinations of data set and seed, data set by data set.
pub fn replicas(data: &[DataRecipe], seeds: &[u64]) -> Vec<Replica> {
    let of = |(index, recipe): (usize, &DataRecipe)| {
        let name = recipe.name.clone();
        let replica = move |&seed| Replica {
            data: index,
            name: name.clone(),
            seed,
        };
        seeds.iter().map(replica).collect::<Vec<_>>()
    };
    data.iter().enumerate().flat_map(of).collect()
}

/// Loads all data sets; items of one run must have one shape, and labels one number.
pub fn load(data: &[DataRecipe]) -> Result<Vec<Loaded>> {
    ensure!(
        !data.is_empty(),
        "the run file names no data\nhint: add a [[data]] section"
    );
    for (index, recipe) in data.iter().enumerate() {
        ensure!(
            data[..index].iter().all(|other| other.name != recipe.name),
            "two data sets are called `{}`",
            recipe.name
        );
    }
    let loaded = data
        .iter()
        .map(|recipe| {
            recipe
                .load()
                .with_context(|| format!("data `{}`", recipe.name))
        })
        .collect::<Result<Vec<_>>>()?;
    let first = &loaded[0].train;
    for (recipe, other) in data.iter().zip(&loaded) {
        ensure!(
            other.train.items.shape == first.items.shape
                && other.train.labels.len() == first.labels.len(),
            "data `{}` has items of shape {:?} and {} labels, `{}` has {:?} and {}; one run trains one network\nhint: put them into two run files",
            recipe.name,
            other.train.items.shape,
            other.train.labels.len(),
            data[0].name,
            first.items.shape,
            first.labels.len()
        );
    }
    Ok(loaded)
}

/// Items as the networks see them: pictures in [−1, 1], points as they are.
pub fn scaled(items: &Items) -> Vec<f32> {
    match &items.values {
        Values::Bytes(bytes) => bytes
            .iter()
            .map(|&b| f32::from(b) * (2.0 / 255.0) - 1.0)
            .collect(),
        Values::Floats(floats) => floats.clone(),
    }
}

/// Pictures rounded to the 256 levels of a file, as the scoring graph rounds them.
pub fn as_written(items: &Tensor) -> Tensor {
    ((items + 1.0) * 127.5).round().clamp(0.0, 255.0) * (2.0 / 255.0) - 1.0
}

/// Whether items are pictures.
pub fn is_picture(items: &Items) -> bool {
    matches!(items.values, Values::Bytes(_))
}
