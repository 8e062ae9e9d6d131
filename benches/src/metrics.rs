//! How long do FID, KID, precision, recall, density and coverage take, all together?
//!
//! `peer_metrics.py` writes the features, asks here and asks the Python packages.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use s2m_metrics::features::Features;
use s2m_metrics::fid::fid;
use s2m_metrics::pass::compare;
use s2m_metrics::prdc::DEFAULT_K;

use crate::{peak_memory, say};

/// Measures `real.f32` and `generated.f32`, rows of `width` little-endian numbers each.
pub(crate) fn run(folder: &Path, width: usize) -> Result<()> {
    let real = read(&folder.join("real.f32"))?;
    let generated = read(&folder.join("generated.f32"))?;
    let started = Instant::now();
    let (real, generated) = (
        Features::new(&real, width)?,
        Features::new(&generated, width)?,
    );
    let frechet = fid(real, generated)?;
    let fid_seconds = started.elapsed().as_secs_f64();
    let found = compare(real, generated, DEFAULT_K)?;
    let seconds = started.elapsed().as_secs_f64();
    let answer = serde_json::json!({
        "fid": frechet,
        "kid": found.kid.value,
        "kid_standard_error": found.kid.standard_error,
        "precision": found.prdc.precision,
        "recall": found.prdc.recall,
        "density": found.prdc.density,
        "coverage": found.prdc.coverage,
        "fid_seconds": fid_seconds,
        "seconds": seconds,
        "peak_megabytes": peak_memory()?,
    });
    say(&answer.to_string());
    Ok(())
}

fn read(path: &Path) -> Result<Vec<f32>> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let numbers = bytes.as_chunks().0.iter();
    Ok(numbers.map(|b| f32::from_le_bytes(*b)).collect())
}
