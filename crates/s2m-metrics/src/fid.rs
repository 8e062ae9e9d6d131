//! Fréchet distance between Gaussians fitted to real and generated features.
//!
//! ```text
//! FID = |μ_r − μ_g|² + tr(C_r) + tr(C_g) − 2 tr (C_r^½ C_g C_r^½)^½
//! ```
//!
//! Covariances divide by N − 1, as numpy's `cov` and the original FID do (StyleGAN3 divides by N).
//! The root of `C_r C_g` is taken through symmetric matrices, whose eigenvalues are real and, up to
//! rounding, not negative; no part of the diagonal is padded. A covariance of fewer items than
//! features + 1 is singular, and the distance then says more about the number of items than about
//! them: that is an error.
//!
//! Reference: Heusel et al., "GANs Trained by a Two Time-Scale Update Rule Converge to a Local Nash
//! Equilibrium", 2017.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par, Side};
use thiserror::Error;

use crate::features::Features;

/// Rows that enter the covariance at a time, so that only these are held as doubles.
const BLOCK: usize = 1024;

/// Why there is no distance.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FidError {
    /// The two sides come from different networks or layers.
    #[error("real features are {real} wide and generated ones {generated}")]
    Width {
        /// Width of the real side.
        real: usize,
        /// Width of the generated side.
        generated: usize,
    },
    /// The covariance would be singular.
    #[error(
        "FID on {width} features is not meaningful with {items} {side} items: it needs at least {}",
        .width + 1
    )]
    TooFew {
        /// `real` or `generated`.
        side: &'static str,
        /// Items on that side.
        items: usize,
        /// Features per item.
        width: usize,
    },
    /// The eigenvalues of a covariance were not found.
    #[error("the eigenvalues of the covariance did not converge")]
    NoConvergence,
}

/// The Fréchet distance of `generated` from `real`; smaller is better.
pub fn fid(real: Features<'_>, generated: Features<'_>) -> Result<f64, FidError> {
    let width = real.width();
    if generated.width() != width {
        return Err(FidError::Width {
            real: width,
            generated: generated.width(),
        });
    }
    for (side, features) in [("real", real), ("generated", generated)] {
        let items = features.items();
        if items <= width {
            return Err(FidError::TooFew { side, items, width });
        }
    }
    let (real, generated) = (Gaussian::of(real), Gaussian::of(generated));
    let apart = real.mean.iter().zip(&generated.mean);
    let apart: f64 = apart.map(|(r, g)| (r - g) * (r - g)).sum();
    let overlap = trace_of_root(real.covariance.as_ref(), generated.covariance.as_ref())?;
    let distance = apart + trace(real.covariance.as_ref()) + trace(generated.covariance.as_ref())
        - 2.0 * overlap;
    // Equal sides may come out a rounding error below zero.
    Ok(distance.max(0.0))
}

/// Mean and covariance of features.
struct Gaussian {
    mean: Vec<f64>,
    covariance: Mat<f64>,
}

impl Gaussian {
    fn of(features: Features<'_>) -> Self {
        let (items, width) = (features.items(), features.width());
        let mut mean = vec![0.0; width];
        for row in features.rows() {
            for (sum, &value) in mean.iter_mut().zip(row) {
                *sum += f64::from(value);
            }
        }
        for sum in &mut mean {
            *sum /= items as f64;
        }
        let mut covariance = Mat::zeros(width, width);
        for block in features.values().chunks(BLOCK * width) {
            let centred = Mat::from_fn(width, block.len() / width, |column, row| {
                f64::from(block[row * width + column]) - mean[column]
            });
            let scale = 1.0 / (items as f64 - 1.0);
            let (left, right) = (centred.as_ref(), centred.transpose());
            matmul(
                covariance.as_mut(),
                Accum::Add,
                left,
                right,
                scale,
                Par::Seq,
            );
        }
        Self { mean, covariance }
    }
}

fn trace(matrix: MatRef<'_, f64>) -> f64 {
    (0..matrix.nrows()).map(|i| matrix[(i, i)]).sum()
}

/// `tr (A^½ B A^½)^½` of two covariances.
///
/// With `A = U S Uᵀ` the matrix under the root has the eigenvalues of `S^½ Uᵀ B U S^½`, so the root
/// of `A` itself is never formed.
fn trace_of_root(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Result<f64, FidError> {
    let eigen = a
        .self_adjoint_eigen(Side::Lower)
        .map_err(|_| FidError::NoConvergence)?;
    let roots: Vec<f64> = eigen
        .S()
        .column_vector()
        .iter()
        .map(|s| s.max(0.0).sqrt())
        .collect();
    let scaled = Mat::from_fn(a.nrows(), a.nrows(), |i, j| eigen.U()[(i, j)] * roots[j]);
    let inner = scaled.transpose() * b * &scaled;
    let values = inner
        .self_adjoint_eigenvalues(Side::Lower)
        .map_err(|_| FidError::NoConvergence)?;
    Ok(values.iter().map(|v| v.max(0.0).sqrt()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(values: &[f32], width: usize) -> Features<'_> {
        Features::new(values, width).unwrap()
    }

    #[test]
    fn one_dimension_on_paper() {
        // Means 2 and 7, standard deviations 1 and 2 (N − 1): 25 + (2 − 1)².
        let (real, generated) = ([1.0, 2.0, 3.0], [5.0, 7.0, 9.0]);
        let found = fid(features(&real, 1), features(&generated, 1)).unwrap();
        assert!((found - 26.0).abs() < 1e-12, "{found}");
        let same = fid(features(&real, 1), features(&real, 1)).unwrap();
        assert!(same < 1e-12, "{same}");
        let flat = fid(features(&[3.0; 4], 1), features(&generated, 1)).unwrap();
        assert!((flat - 20.0).abs() < 1e-12, "{flat}");
    }

    /// The eight corners of a box with these half sides about a centre: uncorrelated, with variances
    /// `8/7 · side²`.
    fn corners(sides: [f32; 3], centre: [f32; 3]) -> Vec<f32> {
        (0..8)
            .flat_map(|corner| {
                (0..3).map(move |axis| {
                    let sign = if corner >> axis & 1 == 1 { 1.0 } else { -1.0 };
                    centre[axis] + sign * sides[axis]
                })
            })
            .collect()
    }

    #[test]
    fn covariances_that_commute_on_paper() {
        let real = corners([1.0, 2.0, 4.0], [0.0; 3]);
        let generated = corners([3.0, 2.0, 0.5], [1.0, 0.0, -2.0]);
        let found = fid(features(&real, 3), features(&generated, 3)).unwrap();
        // |(1, 0, −2)|² + 8/7 · (2² + 0 + 3.5²).
        assert!((found - (5.0 + 8.0 / 7.0 * 16.25)).abs() < 1e-10, "{found}");
    }

    /// Whole numbers that look like nothing in particular.
    fn scattered([a, b, c]: [usize; 3], items: usize, shift: f32) -> Vec<f32> {
        let value = |i: usize, j: usize| {
            let whole = (a * i * i + b * i * (j + 1) + c * (j + 1) * (j + 1)) % 101;
            (whole as f64 / 10.0 * (1.0 + 0.2 * j as f64)) as f32 + shift
        };
        (0..items)
            .flat_map(|i| (0..8).map(move |j| value(i, j)))
            .collect()
    }

    // scipy 1.17.1, numpy 2.4.6:
    //   def feats(n, a, b, c):
    //       i, j = np.arange(n)[:, None], np.arange(8)[None, :]
    //       x = ((a*i*i + b*i*(j+1) + c*(j+1)*(j+1)) % 101)/10 * (1 + 0.2*j)
    //       return x.astype(np.float32).astype(np.float64)
    //   x, y = feats(60, 3, 7, 5), feats(45, 2, 9, 11) + 0.5
    //   m, n, c, d = x.mean(0), y.mean(0), np.cov(x, rowvar=False), np.cov(y, rowvar=False)
    //   print(((m - n)**2).sum() + np.trace(c + d - 2*scipy.linalg.sqrtm(c @ d).real))
    #[test]
    fn scipy_has_the_same_distance() {
        let (real, generated) = (
            scattered([3, 7, 5], 60, 0.0),
            scattered([2, 9, 11], 45, 0.5),
        );
        let found = fid(features(&real, 8), features(&generated, 8)).unwrap();
        let wanted = 24.538_460_307_337_154;
        assert!((found / wanted - 1.0).abs() < 1e-6, "{found}");
        let other_way = fid(features(&generated, 8), features(&real, 8)).unwrap();
        assert!((other_way / found - 1.0).abs() < 1e-9);
    }

    /// More rows than one block: the same as the same rows counted once, up to the divisor.
    #[test]
    fn blocks_add_up() {
        let once = scattered([3, 7, 5], 60, 0.0);
        let repeated = once.repeat(50);
        let (a, b) = (
            Gaussian::of(features(&once, 8)),
            Gaussian::of(features(&repeated, 8)),
        );
        for (i, j) in [(0, 0), (2, 5), (7, 7)] {
            let (one, many) = (
                a.covariance[(i, j)] * 59.0 / 60.0,
                b.covariance[(i, j)] * 2999.0 / 3000.0,
            );
            assert!((one - many).abs() < 1e-9, "{one} {many}");
        }
    }

    #[test]
    fn what_has_no_distance_is_named() {
        let three = [0.0, 1.0, 2.0, 3.0, 5.0, 1.0];
        let error = |a: Features<'_>, b: Features<'_>| fid(a, b).unwrap_err().to_string();
        assert_eq!(
            error(features(&three, 2), features(&three, 3)),
            "real features are 2 wide and generated ones 3"
        );
        assert_eq!(
            error(features(&three, 2), features(&three[..4], 2)),
            "FID on 2 features is not meaningful with 2 generated items: it needs at least 3"
        );
        assert!(fid(features(&three, 2), features(&three, 2)).unwrap() < 1e-12);
    }
}
