//! How long does expectation–maximisation take?
//!
//! `peer_mixture.py` writes points and a start, asks here and asks scikit-learn.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use s2m_core::mixture::em::{Settings, fit_from};
use s2m_core::mixture::{Covariance, Mixture};

use crate::{peak_memory, say};

/// Fits mixtures of all kinds to `points.f32` (rows of `size` little-endian numbers) in `steps` steps,
/// from the means in `means.f32`, equal weights and unit covariances.
pub(crate) fn run(folder: &Path, size: usize, steps: usize) -> Result<()> {
    let points = read(&folder.join("points.f32"))?;
    let means: Vec<f64> = read(&folder.join("means.f32"))?
        .into_iter()
        .map(f64::from)
        .collect();
    let components = means.len() / size;
    let log_weights = vec![0.0; points.len() / size];
    let unit: Vec<f64> = (0..size * size)
        .map(|k| f64::from(u8::from(k % (size + 1) == 0)))
        .collect();
    let mut answer = serde_json::Map::new();
    for (name, covariance, covariances) in [
        ("full", Covariance::Full, unit.repeat(components)),
        ("tied", Covariance::Shared, unit.clone()),
        ("diag", Covariance::Diagonal, vec![1.0; components * size]),
    ] {
        let weights = vec![1.0 / components as f64; components];
        let start = Mixture::from_covariances(covariance, &weights, &means, &covariances)?;
        let settings = Settings {
            components: NonZeroUsize::new(components).context("no means")?,
            covariance,
            most_steps: steps,
            tolerance: 0.0,
            ..Settings::default()
        };
        let started = Instant::now();
        let found = fit_from(start, &points, &log_weights, &settings)?;
        let seconds = started.elapsed().as_secs_f64();
        anyhow::ensure!(found.steps == steps, "{} steps", found.steps);
        anyhow::ensure!(found.dropped == 0, "{} components dropped", found.dropped);
        let kind =
            serde_json::json!({ "log_likelihood": found.log_likelihood, "seconds": seconds });
        answer.insert(name.to_owned(), kind);
    }
    answer.insert("peak_megabytes".to_owned(), peak_memory()?.into());
    say(&serde_json::Value::from(answer).to_string());
    Ok(())
}

fn read(path: &Path) -> Result<Vec<f32>> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let numbers = bytes.as_chunks().0.iter();
    Ok(numbers.map(|b| f32::from_le_bytes(*b)).collect())
}
