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
//! The standard error is a jackknife: items are dealt into 20 groups, and the distance is taken
//! without each group of both sides in turn. It costs 20 distances. FID of finitely many items is too large, by an
//! amount that falls as 1/N; the same jackknife says by how much, and the interval is that of the distance without it.
//!
//! Reference: Heusel et al., "GANs Trained by a Two Time-Scale Update Rule Converge to a Local Nash
//! Equilibrium", 2017.

use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, Mat, MatRef, Par, Side};

use crate::bootstrap::leave_one_out_error;
use crate::error::Error;
use crate::features::{Features, Row, check_widths};

/// Rows that enter the covariance at a time, so that only these are held as doubles.
const BLOCK: usize = 1024;

/// Groups of the jackknife.
pub const GROUPS: usize = 20;

/// Two-sided 95 % point of Student's distribution with `GROUPS − 1` degrees of freedom.
const T_95: f64 = 2.093_024_054_408_308_7;

/// The Fréchet distance of `generated` from `real`; smaller is better.
pub fn fid(real: Features<'_>, generated: Features<'_>) -> Result<f64, Error> {
    check_widths(real.width(), generated.width())?;
    let [real, generated] = both(|side| match side {
        0 => Gaussian::fit("real", real),
        _ => Gaussian::fit("generated", generated),
    });
    real?.distance(&generated?)
}

/// The Fréchet distance with its jackknife.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FidEstimate {
    /// The distance, as [`fid`] gives it.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// How much of it the number of items explains: FID of finitely many items is too large.
    pub bias: f64,
}

impl FidEstimate {
    /// Student's 95 % interval of the distance that infinitely many items would have: around the value less its
    /// bias. It does not reach below zero, and need not hold the value itself.
    pub fn interval(&self) -> [f64; 2] {
        let half = T_95 * self.standard_error;
        let middle = self.value - self.bias;
        [(middle - half).max(0.0), (middle + half).max(0.0)]
    }
}

/// The Fréchet distance and its standard error, at the cost of 21 distances.
///
/// Every 20th item goes into the same group. Each side must have enough items without a group.
pub fn fid_with_error(real: Features<'_>, generated: Features<'_>) -> Result<FidEstimate, Error> {
    check_widths(real.width(), generated.width())?;
    let sides = [("real", real), ("generated", generated)];
    for (side, features) in sides {
        let largest = features.items().div_ceil(GROUPS);
        check_enough(side, features.items() - largest, features.width())?;
    }
    let [whole_real, whole_generated] = both(|side| Gaussian::fit(sides[side].0, sides[side].1));
    let whole = [whole_real?, whole_generated?];
    let mut without = Vec::with_capacity(GROUPS);
    for group in 0..GROUPS {
        let [real, generated] = both(|side| whole[side].without(sides[side].1, group));
        without.push(real.distance(&generated)?);
    }
    let value = whole[0].distance(&whole[1])?;
    let mean = without.iter().sum::<f64>() / GROUPS as f64;
    Ok(FidEstimate {
        value,
        standard_error: leave_one_out_error(&without),
        // Quenouille: the bias falls as 1/N, so leaving a group out raises it by a known part.
        bias: (GROUPS - 1) as f64 * (mean - value),
    })
}

fn check_enough(side: &'static str, items: usize, width: usize) -> Result<(), Error> {
    if items > width {
        Ok(())
    } else {
        Err(Error::too_few(format!(
            "FID on {width} features is not meaningful with {items} {side} items: it needs at least {}, KID needs 3",
            width + 1
        )))
    }
}

fn no_convergence() -> Error {
    Error::no_convergence("the eigenvalues of the covariance did not converge")
}

/// Does something for two sides or halves at the same time.
fn both<T: Send>(job: impl Fn(usize) -> T + Sync) -> [T; 2] {
    std::thread::scope(|scope| {
        let second = scope.spawn(|| job(1));
        [job(0), second.join().expect("the job does not panic")]
    })
}

/// Mean and covariance of features: all that FID sees of them.
#[derive(Debug, Clone)]
pub struct Gaussian {
    items: usize,
    mean: Vec<f64>,
    covariance: Mat<f64>,
}

impl Gaussian {
    /// Fits the features of a side, `real` or `generated`, of more items than features.
    pub fn fit(side: &'static str, features: Features<'_>) -> Result<Self, Error> {
        check_enough(side, features.items(), features.width())?;
        Ok(Self::of(features))
    }

    fn of(features: Features<'_>) -> Self {
        let items = features.items();
        let mean = Features::mean(&[features]);
        let mut covariance = scatter(features.rows(), &mean);
        let divisor = items as f64 - 1.0;
        scale_and_mirror(&mut covariance, 1.0 / divisor);
        Self {
            items,
            mean,
            covariance,
        }
    }

    /// The fit without every 20th item from item `group` on; `features` are those of the fit.
    fn without(&self, features: Features<'_>, group: usize) -> Self {
        let gone = features.rows().skip(group).step_by(GROUPS);
        let items = self.items - gone.len();
        let left = items as f64;
        // About the old mean μ, the items left have the sum −Σ(x − μ) over those gone.
        let mut shift = vec![0.0; self.mean.len()];
        for row in gone.clone() {
            for ((sum, value), mean) in shift.iter_mut().zip(row.iter()).zip(&self.mean) {
                *sum -= (value - mean) / left;
            }
        }
        let mut covariance = scatter(gone, &self.mean);
        let whole = self.items as f64 - 1.0;
        for column in 0..shift.len() {
            for row in column..shift.len() {
                let scattered = self.covariance[(row, column)] * whole - covariance[(row, column)];
                covariance[(row, column)] = scattered - left * shift[row] * shift[column];
            }
        }
        scale_and_mirror(&mut covariance, 1.0 / (left - 1.0));
        let mean = self.mean.iter().zip(&shift).map(|(m, s)| m + s).collect();
        Self {
            items,
            mean,
            covariance,
        }
    }

    /// The Fréchet distance from another fit.
    pub fn distance(&self, other: &Self) -> Result<f64, Error> {
        check_widths(self.mean.len(), other.mean.len())?;
        let apart = self.mean.iter().zip(&other.mean);
        let apart: f64 = apart.map(|(r, g)| (r - g) * (r - g)).sum();
        let (a, b) = (self.covariance.as_ref(), other.covariance.as_ref());
        let distance = apart + trace(a) + trace(b) - 2.0 * trace_of_root(a, b)?;
        if !distance.is_finite() {
            return Err(no_convergence());
        }
        // Equal sides may come out a rounding error below zero.
        Ok(distance.max(0.0))
    }
}

/// `Σ (x − μ)(x − μ)ᵀ` over rows, the lower half.
fn scatter<'a>(rows: impl Iterator<Item = Row<'a>>, mean: &[f64]) -> Mat<f64> {
    let width = mean.len();
    let mut sum = Mat::zeros(width, width);
    let mut centred = Vec::with_capacity(BLOCK * width);
    let mut rows = rows.peekable();
    while rows.peek().is_some() {
        centred.clear();
        for row in rows.by_ref().take(BLOCK) {
            centred.extend(row.iter().zip(mean).map(|(x, m)| x - m));
        }
        let items = MatRef::from_row_major_slice(&centred, centred.len() / width, width);
        triangular::matmul(
            sum.as_mut(),
            BlockStructure::TriangularLower,
            Accum::Add,
            items.transpose(),
            BlockStructure::Rectangular,
            items,
            BlockStructure::Rectangular,
            1.0,
            Par::Seq,
        );
    }
    sum
}

/// Scales the lower half and copies it to the upper one.
fn scale_and_mirror(matrix: &mut Mat<f64>, factor: f64) {
    for column in 0..matrix.ncols() {
        for row in column..matrix.nrows() {
            let value = matrix[(row, column)] * factor;
            matrix[(row, column)] = value;
            matrix[(column, row)] = value;
        }
    }
}

fn trace(matrix: MatRef<'_, f64>) -> f64 {
    (0..matrix.nrows()).map(|i| matrix[(i, i)]).sum()
}

/// `tr (A^½ B A^½)^½` of two covariances.
///
/// With any `F` such that `A = F Fᵀ`, the matrix under the root has the eigenvalues of `Fᵀ B F`, so
/// the root of `A` itself is never formed.
fn trace_of_root(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Result<f64, Error> {
    let factor = factor(a)?;
    let inner = product(factor.transpose(), product(b, factor.as_ref()).as_ref());
    let values = inner
        .self_adjoint_eigenvalues(Side::Lower)
        .map_err(|_| no_convergence())?;
    // Unlike `max`, this lets a value that is not a number through, to be found.
    let root = |v: &f64| if *v < 0.0 { 0.0 } else { v.sqrt() };
    Ok(values.iter().map(root).sum())
}

/// Some `F` with `F Fᵀ = A`: Cholesky's, or `U S^½` of `A = U S Uᵀ` where a direction has no variance.
fn factor(a: MatRef<'_, f64>) -> Result<Mat<f64>, Error> {
    if let Ok(cholesky) = a.llt(Side::Lower) {
        return Ok(cholesky.L().to_owned());
    }
    let eigen = a
        .self_adjoint_eigen(Side::Lower)
        .map_err(|_| no_convergence())?;
    let roots = eigen.S().column_vector().iter().map(|s| s.max(0.0).sqrt());
    let roots: Vec<f64> = roots.collect();
    let scaled = |i, j| eigen.U()[(i, j)] * roots[j];
    Ok(Mat::from_fn(a.nrows(), a.nrows(), scaled))
}

/// A matrix product, the left and the right half of its columns at the same time.
fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut product = Mat::zeros(a.nrows(), b.ncols());
    let half = b.ncols() / 2;
    let (left, right) = product.as_mut().split_at_col_mut(half);
    let (b_left, b_right) = b.split_at_col(half);
    std::thread::scope(|scope| {
        scope.spawn(|| matmul(left, Accum::Replace, a, b_left, 1.0, Par::Seq));
        matmul(right, Accum::Replace, a, b_right, 1.0, Par::Seq);
    });
    product
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::examples::{features, offset_by, scattered, two_sides};

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

    // scipy 1.17.1, numpy 2.4.6, with x and y of `examples::two_sides`:
    //   m, n, c, d = x.mean(0), y.mean(0), np.cov(x, rowvar=False), np.cov(y, rowvar=False)
    //   print(((m - n)**2).sum() + np.trace(c + d - 2*scipy.linalg.sqrtm(c @ d).real))
    #[test]
    fn scipy_has_the_same_distance() {
        let [real, generated] = two_sides();
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
            "FID on 2 features is not meaningful with 2 generated items: it needs at least 3, \
             KID needs 3"
        );
        assert!(fid(features(&three, 2), features(&three, 2)).unwrap() < 1e-12);
    }

    /// A feature that never changes adds the square of its shift and nothing else.
    #[test]
    fn constant_features_are_no_obstacle() {
        let [real, generated] = two_sides();
        let wanted = fid(features(&real, 8), features(&generated, 8)).unwrap();
        let with = |rows: &[f32], constant: f32| -> Vec<f32> {
            let rows = rows.chunks(8).map(|row| [row, &[constant, 7.0]].concat());
            rows.collect::<Vec<_>>().concat()
        };
        let (real, generated) = (with(&real, 1.0), with(&generated, 4.0));
        let found = fid(features(&real, 10), features(&generated, 10)).unwrap();
        assert!((found / (wanted + 9.0) - 1.0).abs() < 1e-7, "{found}");
    }

    #[test]
    fn the_jackknife_leaves_out_groups() {
        let real = scattered([3, 7, 5], 205, 0.0);
        let generated = scattered([2, 9, 11], 190, 0.5);
        let found = fid_with_error(features(&real, 8), features(&generated, 8)).unwrap();
        let distance = fid(features(&real, 8), features(&generated, 8)).unwrap();
        assert_eq!(found.value, distance);
        let without = |rows: &[f32], group: usize| -> Vec<f32> {
            let rows = rows.chunks(8).enumerate();
            rows.filter(|(i, _)| i % 20 != group)
                .flat_map(|(_, row)| row.to_vec())
                .collect()
        };
        let values: Vec<f64> = (0..20)
            .map(|group| {
                let (real, generated) = (without(&real, group), without(&generated, group));
                fid(features(&real, 8), features(&generated, 8)).unwrap()
            })
            .collect();
        let mean = values.iter().sum::<f64>() / 20.0;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let wanted = (19.0 / 20.0 * squares).sqrt();
        assert!((found.standard_error / wanted - 1.0).abs() < 1e-9);
        let [low, high] = found.interval();
        assert!(low >= 0.0 && low < distance - found.bias && distance - found.bias < high);
        let few = fid_with_error(features(&real[..8 * 9], 8), features(&generated, 8));
        assert_eq!(
            few.unwrap_err().to_string(),
            "FID on 8 features is not meaningful with 8 real items: it needs at least 9, KID needs 3"
        );
    }

    #[test]
    fn features_of_any_size_have_a_distance() {
        let [real, generated] = two_sides();
        let wanted = fid(features(&real, 8), features(&generated, 8)).unwrap();
        for scale in [1e-30_f32, 1e-10, 1e10, 1e30] {
            let [real, generated] =
                [&real, &generated].map(|side| side.iter().map(|x| x * scale).collect::<Vec<_>>());
            let found = fid(features(&real, 8), features(&generated, 8)).unwrap();
            let square = f64::from(scale) * f64::from(scale);
            assert!(
                (found / square / wanted - 1.0).abs() < 1e-4,
                "{scale} {found}"
            );
        }
    }

    /// The distance does not depend on where both sides lie, as far as 64 bits can tell.
    #[test]
    fn an_offset_changes_no_distance() {
        let real = scattered([3, 7, 5], 205, 0.0);
        let generated = scattered([2, 9, 11], 190, 0.5);
        let wanted = fid_with_error(features(&real, 8), features(&generated, 8)).unwrap();
        for (offset, tolerance) in [(0.0, 1e-12), (1e6, 1e-9), (1e8, 1e-7)] {
            let [real, generated] = [&real, &generated].map(|side| offset_by(side, offset));
            let sides = [&real, &generated].map(|side| Features::of_doubles(side, 8).unwrap());
            let found = fid_with_error(sides[0], sides[1]).unwrap();
            assert!(
                (found.value / wanted.value - 1.0).abs() < tolerance,
                "{found:?}"
            );
            assert!((found.standard_error / wanted.standard_error - 1.0).abs() < 10.0 * tolerance);
        }
    }

    proptest! {
        /// The general formula, with the root of `A` formed.
        #[test]
        fn the_trace_is_the_twins(values in prop::collection::vec(-2.0..2.0f32, 80), flat in any::<bool>()) {
            let values: Vec<f32> = values.iter().enumerate()
                .map(|(i, v)| if flat && i % 4 == 1 { 0.5 } else { *v }).collect();
            let [a, b] = [&values[..40], &values[40..]].map(|v| Gaussian::of(features(v, 4)).covariance);
            let root = |m: &Mat<f64>| {
                let eigen = m.self_adjoint_eigen(Side::Lower).unwrap();
                let u = eigen.U();
                Mat::from_fn(4, 4, |i, j| (0..4).map(|k| u[(i, k)] * eigen.S()[k].max(0.0).sqrt() * u[(j, k)]).sum::<f64>())
            };
            let half = root(&a);
            let wanted = trace(root(&(&half * &b * &half)).as_ref());
            let found = trace_of_root(a.as_ref(), b.as_ref()).unwrap();
            prop_assert!((found - wanted).abs() < 1e-6 * (1.0 + wanted), "{} {}", found, wanted);
        }
    }
}
