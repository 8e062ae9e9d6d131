//! The 2×16 Gaussians of the paper: its figures, and how points sit on their modes.
//!
//! Reference: appendix E.1 of "Mining Multi-Label Samples from Single Positive Labels", 2022.

use std::num::NonZeroUsize;

use s2m_core::query::Query;
use s2m_data::gaussians::{MODE_SD, Mode, modes};
use s2m_metrics::modes::fit;

/// Steps of the paper's chains on this data.
pub const PAPER_STEPS: NonZeroUsize = NonZeroUsize::new(400).expect("400 is not zero");

/// One row of the paper's table: accuracy in %, high quality in %, standard deviation; each as mean
/// and standard deviation over trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PaperRow {
    /// GAN alone.
    pub generator: [[f64; 2]; 3],
    /// GAN with S2M sampling.
    pub sampled: [[f64; 2]; 3],
}

/// The paper's table for the 2×16 Gaussians, query by query.
pub const PAPER: [(&str, PaperRow); 5] = [
    ("A", SINGLE),
    ("B", SINGLE),
    ("A + B", BOTH),
    ("A - B", DIFFERENCE),
    ("B - A", DIFFERENCE),
];

const SINGLE: PaperRow = PaperRow {
    generator: [[69.83, 0.35], [84.39, 0.60], [0.106, 0.002]],
    sampled: [[100.00, 0.00], [98.94, 0.40], [0.052, 0.002]],
};
const DIFFERENCE: PaperRow = PaperRow {
    generator: [[30.17, 0.35], [88.87, 0.50], [0.090, 0.002]],
    sampled: [[99.52, 0.36], [98.67, 0.51], [0.051, 0.002]],
};
const BOTH: PaperRow = PaperRow {
    generator: [[39.66, 0.46], [80.98, 0.82], [0.118, 0.003]],
    sampled: [[100.00, 0.00], [99.73, 0.14], [0.050, 0.001]],
};

/// What perfect samples would show: accuracy and high quality in %, standard deviation.
///
/// Within four standard deviations in two dimensions lies `1 − exp(−4²/2)`.
pub fn ceiling() -> [f64; 3] {
    let within = s2m_metrics::modes::HIGH_QUALITY.powi(2) / 2.0;
    [100.0, 100.0 * (1.0 - (-within).exp()), MODE_SD]
}

/// How points sit on the modes of a query.
pub fn fit_points(points: &[[f32; 2]], query: &Query) -> s2m_metrics::modes::Fit {
    let modes = modes();
    let centres: Vec<[f64; 2]> = modes.iter().map(|mode| mode.centre).collect();
    fit(points, &centres, MODE_SD, |mode| {
        query.holds(modes[mode].labels)
    })
}

/// The centres of the modes, for a picture.
pub fn centres() -> Vec<[f32; 2]> {
    let centre = |mode: &Mode| mode.centre.map(|side| side as f32);
    modes().iter().map(centre).collect()
}

/// Numbers to points of two.
pub fn points(items: &[f32]) -> Vec<[f32; 2]> {
    items.chunks_exact(2).map(|p| [p[0], p[1]]).collect()
}
