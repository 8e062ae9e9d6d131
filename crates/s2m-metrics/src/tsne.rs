//! t-SNE: points in the plane that keep the neighbours of items together.
//!
//! Each item spreads probability over the others by a Gaussian of its own width, set so that the
//! perplexity (two to the entropy in bits) is as wanted; halves from both ends make `p`. Points in
//! the plane spread it by `1/(1 + distance²)`, which makes `q`. Gradient descent lowers `KL(p ‖ q)`.
//!
//! All pairs are taken, in double precision, so it suits up to about 2,000 items. The start is the
//! first two principal components, the first scaled to a deviation of 1e-4, and the steps are
//! scikit-learn's (`init="pca"`, `method="exact"`, `learning_rate="auto"`): nothing is random.
//!
//! [`trustworthiness`] says how far neighbours in the plane are neighbours of the items too.
//!
//! References: van der Maaten and Hinton, "Visualizing Data using t-SNE", 2008; Venna and Kaski,
//! "Neighborhood Preservation in Nonlinear Projection Methods", 2001.

use faer::{Mat, Side};

use crate::error::Error;
use crate::features::Features;
use crate::pairs::{in_parallel, squared_distance};

/// Most items that are embedded: all pairs are held, 8 bytes each.
pub const MOST_ITEMS: usize = 5000;

/// Probabilities are multiplied by this at first, so that clusters form early.
const EXAGGERATION: f64 = 12.0;
/// Steps with exaggeration.
const EARLY_STEPS: usize = 250;
/// Momentum in early and in later steps.
const MOMENTUM: [f64; 2] = [0.5, 0.8];
/// Deviation of the first coordinate at the start.
const START_DEVIATION: f64 = 1e-4;
/// A coordinate's gain grows by this where its gradient keeps turning it the same way …
const GAIN_STEP: f64 = 0.2;
/// … and shrinks by this factor where it does not, down to a least gain.
const GAIN_FACTOR: f64 = 0.8;
const LEAST_GAIN: f64 = 0.01;
/// Steepness below which the descent has ended.
const LEAST_GRADIENT: f64 = 1e-7;
/// How close the entropy must come to what is wanted, in natural units.
const ENTROPY_TOLERANCE: f64 = 1e-5;
/// Partial sums of a point: few enough to stay in registers.
const SIDE_BY_SIDE: usize = 4;
/// Halvings of a Gaussian's width at most.
const HALVINGS: usize = 100;

/// How items are embedded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TsneSettings {
    /// About how many neighbours an item has; at least 1 and below the number of items.
    pub perplexity: f64,
    /// Steps of the descent.
    pub steps: usize,
}

impl Default for TsneSettings {
    /// Perplexity 30 and 1,000 steps.
    fn default() -> Self {
        Self {
            perplexity: 30.0,
            steps: 1000,
        }
    }
}

/// Embeds items in the plane.
pub fn tsne(items: Features<'_>, settings: TsneSettings) -> Result<Vec<[f64; 2]>, Error> {
    let n = items.items();
    let perplexity = settings.perplexity;
    if n > MOST_ITEMS {
        return Err(Error::too_large(format!(
            "t-SNE takes at most {MOST_ITEMS} items, got {n}"
        )));
    }
    if !(1.0..n as f64).contains(&perplexity) {
        return Err(Error::setting(format!(
            "t-SNE of {n} items needs a perplexity of at least 1 and below {n}, got {perplexity}"
        )));
    }
    let wanted = joint_probabilities(items, perplexity);
    let start = principal_components(items)?;
    Ok(descend(&wanted, start, settings.steps))
}

/// `p` of all pairs, row after row: symmetric, with a sum of 1 and nothing on the diagonal.
fn joint_probabilities(items: Features<'_>, perplexity: f64) -> Vec<f64> {
    let n = items.items();
    let rows = in_parallel(
        n,
        || (),
        |(), i| {
            let squares = items.rows().map(|y| squared_distance(items.row(i), y));
            conditional(&squares.collect::<Vec<_>>(), i, perplexity.ln())
        },
    );
    let at = |i: usize, j: usize| (rows[i][j] + rows[j][i]) / (2 * n) as f64;
    (0..n * n).map(|pair| at(pair / n, pair % n)).collect()
}

/// `p(j | i)`: a Gaussian about item i, as wide as the entropy demands, found by halving.
fn conditional(squares: &[f64], i: usize, entropy: f64) -> Vec<f64> {
    let others = || squares.iter().enumerate().filter(|(j, _)| *j != i);
    // From 0 at the nearest to 1 at the farthest, so that not all weights vanish.
    let nearest = others().map(|(_, s)| *s).fold(f64::INFINITY, f64::min);
    let farthest = others().map(|(_, s)| *s).fold(0.0, f64::max);
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let span = if farthest > nearest {
        farthest - nearest
    } else {
        1.0
    };
    let mut precision = 1.0;
    let mut weights = vec![0.0; squares.len()];
    for _ in 0..HALVINGS {
        let (mut sum, mut energy) = (0.0, 0.0);
        for (j, square) in others() {
            let excess = precision * ((square - nearest) / span);
            weights[j] = (-excess).exp();
            sum += weights[j];
            energy += excess * weights[j];
        }
        for weight in &mut weights {
            *weight /= sum;
        }
        let gap = sum.ln() + energy / sum - entropy;
        if gap.abs() <= ENTROPY_TOLERANCE {
            break;
        }
        if gap > 0.0 {
            low = precision;
        } else {
            high = precision;
        }
        precision = if high.is_finite() {
            f64::midpoint(low, high)
        } else {
            precision * 2.0
        };
    }
    weights
}

/// The first two principal components of items, the first of a deviation of 1e-4.
///
/// They come from the smaller of the two matrices of products, by items or by features. Each is
/// turned so that its largest value is positive. A component without variance is left out as zero.
fn principal_components(items: Features<'_>) -> Result<Vec<[f64; 2]>, Error> {
    let (n, width) = (items.items(), items.width());
    let mean = Features::mean(&[items]);
    let centred = Mat::from_fn(n, width, |i, j| items.row(i).at(j) - mean[j]);
    let by_features = width < n;
    let products = if by_features {
        centred.transpose() * &centred
    } else {
        &centred * centred.transpose()
    };
    let eigen = products
        .self_adjoint_eigen(Side::Lower)
        .map_err(|_| Error::no_convergence("the principal components did not converge"))?;
    let mut points = vec![[0.0; 2]; n];
    for axis in 0..products.nrows().min(2) {
        // Eigenvalues ascend.
        let last = products.nrows() - 1 - axis;
        let length = eigen.S()[last].max(0.0).sqrt();
        let vector = eigen.U().col(last);
        let scores: Vec<f64> = if by_features {
            (&centred * vector).iter().copied().collect()
        } else {
            vector.iter().map(|u| u * length).collect()
        };
        let largest = scores
            .iter()
            .copied()
            .fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a });
        for (point, score) in points.iter_mut().zip(scores) {
            point[axis] = score * largest.signum();
        }
    }
    let variance = points.iter().map(|p| p[0] * p[0]).sum::<f64>() / n as f64;
    if variance > 0.0 {
        let scale = START_DEVIATION / variance.sqrt();
        points = points.iter().map(|p| p.map(|x| x * scale)).collect();
    }
    Ok(points)
}

/// Gradient descent with momentum and a gain for each coordinate.
fn descend(wanted: &[f64], mut points: Vec<[f64; 2]>, steps: usize) -> Vec<[f64; 2]> {
    let n = points.len();
    let rate = (n as f64 / EXAGGERATION / 4.0).max(50.0);
    let mut velocity = vec![[0.0; 2]; n];
    let mut gains = vec![[1.0; 2]; n];
    for step in 0..steps {
        let early = step < EARLY_STEPS;
        let (exaggeration, momentum) = if early {
            (EXAGGERATION, MOMENTUM[0])
        } else {
            (1.0, MOMENTUM[1])
        };
        if step == EARLY_STEPS {
            velocity.fill([0.0; 2]);
            gains.fill([1.0; 2]);
        }
        let gradient = gradient(wanted, &points, exaggeration);
        let steepness = gradient.iter().flatten().map(|g| g * g).sum::<f64>().sqrt();
        if !early && steepness <= LEAST_GRADIENT {
            break;
        }
        for i in 0..n {
            for axis in 0..2 {
                let (slope, speed) = (gradient[i][axis], &mut velocity[i][axis]);
                let gain = &mut gains[i][axis];
                *gain = if *speed * slope < 0.0 {
                    *gain + GAIN_STEP
                } else {
                    *gain * GAIN_FACTOR
                };
                *gain = gain.max(LEAST_GAIN);
                *speed = momentum * *speed - rate * *gain * slope;
                points[i][axis] += *speed;
            }
        }
    }
    points
}

/// `4 Σ_j (p_ij − q_ij) (y_i − y_j) / (1 + |y_i − y_j|²)` of each point.
fn gradient(wanted: &[f64], points: &[[f64; 2]], exaggeration: f64) -> Vec<[f64; 2]> {
    let n = points.len();
    let axes = [0, 1].map(|axis| points.iter().map(|p| p[axis]).collect::<Vec<f64>>());
    let sums = in_parallel(
        n,
        || (),
        |(), i| {
            let mut sums = PointSums::default();
            let wanted = &wanted[i * n..][..n];
            let whole = n - n % SIDE_BY_SIDE;
            let columns =
                [&axes[0], &axes[1], wanted].map(|c| c[..whole].as_chunks::<SIDE_BY_SIDE>().0);
            for ((xs, ys), p) in columns[0].iter().zip(columns[1]).zip(columns[2]) {
                sums.add(points[i], xs, ys, p);
            }
            for j in whole..n {
                sums.add(points[i], &[axes[0][j]], &[axes[1][j]], &[wanted[j]]);
            }
            sums
        },
    );
    // The point itself has the weight 1 and no place in the sum.
    let total = sums.iter().map(|s| s.weight.iter().sum::<f64>() - 1.0);
    let total: f64 = total.sum();
    let slope = |pull: &[f64], push: &[f64]| {
        4.0 * (exaggeration * pull.iter().sum::<f64>() - push.iter().sum::<f64>() / total)
    };
    let slopes = |s: &PointSums| [0, 1].map(|axis| slope(&s.pull[axis], &s.push[axis]));
    sums.iter().map(slopes).collect()
}

/// What the others do to a point, in partial sums that the compiler can add side by side.
///
/// With t the weights, q is t / Σt over all pairs, so `Σ p t (y_i − y_j)` and `Σ t² (y_i − y_j)` are
/// made before that sum is known.
#[derive(Default)]
struct PointSums {
    weight: [f64; SIDE_BY_SIDE],
    pull: [[f64; SIDE_BY_SIDE]; 2],
    push: [[f64; SIDE_BY_SIDE]; 2],
}

impl PointSums {
    #[inline]
    fn add<const N: usize>(&mut self, at: [f64; 2], xs: &[f64; N], ys: &[f64; N], p: &[f64; N]) {
        for lane in 0..N {
            let (dx, dy) = (at[0] - xs[lane], at[1] - ys[lane]);
            let t = 1.0 / (1.0 + dx * dx + dy * dy);
            self.weight[lane] += t;
            self.pull[0][lane] += p[lane] * t * dx;
            self.pull[1][lane] += p[lane] * t * dy;
            self.push[0][lane] += t * t * dx;
            self.push[1][lane] += t * t * dy;
        }
    }
}

/// How far the `neighbours` nearest of each point are the nearest of its item too, in `[0, 1]`.
///
/// ```text
/// 1 − 2/(n k (2n − 3k − 1)) Σ_i Σ_j max(0, rank of j among the items by distance from i − k)
/// ```
///
/// where j runs over the k nearest points of point i. This is scikit-learn's definition, for k below
/// n/2. Ties are ranked by number.
pub fn trustworthiness(
    items: Features<'_>,
    points: &[[f64; 2]],
    neighbours: usize,
) -> Result<f64, Error> {
    let (n, k) = (items.items(), neighbours);
    if points.len() != n {
        return Err(Error::mismatch(format!(
            "there are {n} items and {} points",
            points.len()
        )));
    }
    if k == 0 || k >= n.div_ceil(2) {
        return Err(Error::setting(format!(
            "trustworthiness of {n} items needs from 1 to fewer than {} neighbours, got {neighbours}",
            n.div_ceil(2)
        )));
    }
    let by_distance = |i: usize, square: &dyn Fn(usize) -> f64| {
        let mut others: Vec<(f64, usize)> =
            (0..n).filter(|j| *j != i).map(|j| (square(j), j)).collect();
        others.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        others.into_iter().map(|(_, j)| j).collect::<Vec<_>>()
    };
    let penalties = in_parallel(
        n,
        || (),
        |(), i| {
            let mut rank = vec![0; n];
            let square = |j| squared_distance(items.row(i), items.row(j));
            for (place, j) in by_distance(i, &square).into_iter().enumerate() {
                rank[j] = place + 1;
            }
            let square = |j: usize| {
                let [dx, dy] = [0, 1].map(|axis| points[i][axis] - points[j][axis]);
                dx * dx + dy * dy
            };
            let near = by_distance(i, &square).into_iter().take(k);
            near.map(|j| rank[j].saturating_sub(k)).sum::<usize>()
        },
    );
    let total: usize = penalties.iter().sum();
    Ok(1.0 - 2.0 * total as f64 / (n * k * (2 * n - 3 * k - 1)) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::features;

    /// Three winding strands in ten dimensions. In numpy:
    ///
    /// ```text
    /// i, j = np.arange(300)[:, None], np.arange(10)[None, :]
    /// arms = (np.sin(0.05*i*(j+1)/3 + i%3*(1.5+j)) + 0.4*np.cos(0.9*i*(j+2))
    ///         + 2.0*((i%3) == (j%3))).astype(np.float32)
    /// ```
    fn arms() -> Vec<f32> {
        let value = |i: usize, j: usize| {
            let (x, y) = (i as f64, j as f64);
            let strand = (i % 3) as f64;
            let wave = (0.05 * x * (y + 1.0) / 3.0 + strand * (1.5 + y)).sin();
            let noise = 0.4 * (0.9 * x * (y + 2.0)).cos();
            (wave + noise + if i % 3 == j % 3 { 2.0 } else { 0.0 }) as f32
        };
        let rows = (0..300).flat_map(|i| (0..10).map(move |j| value(i, j)));
        rows.collect()
    }

    // scikit-learn 1.9.1, with `arms` as above:
    //   points = TSNE(init="pca", perplexity=30, method=m, random_state=0).fit_transform(arms)
    //   trustworthiness(arms, points, n_neighbors=k) for k in (5, 12)
    // is 0.99442, 0.96919 with m="exact" and 0.99705, 0.97327 with m="barnes_hut".
    #[test]
    fn neighbours_are_kept_as_well_as_by_scikit_learn() {
        let arms = arms();
        let items = features(&arms, 10);
        let points = tsne(items, TsneSettings::default()).unwrap();
        for (k, theirs) in [(5, 0.997_052_511_415_525_1), (12, 0.973_269_192_816_262_1)] {
            let ours = trustworthiness(items, &points, k).unwrap();
            assert!(ours > theirs - 0.01, "k = {k}: {ours} against {theirs}");
        }
        assert_eq!(points, tsne(items, TsneSettings::default()).unwrap());
    }

    // scikit-learn 1.9.1, numpy 2.4.6, in double precision:
    //   trustworthiness(arms, arms[:, :2], n_neighbors=k) for k in (5, 12)
    #[test]
    fn trustworthiness_is_scikit_learns() {
        let arms = arms();
        let points: Vec<[f64; 2]> = arms
            .chunks(10)
            .map(|a| [a[0].into(), a[1].into()])
            .collect();
        for (k, wanted) in [(5, 0.796_735_159_817_351_5), (12, 0.814_770_080_915_729_2)] {
            let found = trustworthiness(features(&arms, 10), &points, k).unwrap();
            assert!((found - wanted).abs() < 1e-12, "{found}");
        }
    }

    #[test]
    fn trustworthiness_on_paper() {
        let items = [0.0, 1.0, 3.0, 7.0, 15.0];
        let same = items.map(|x| [f64::from(x), 0.0]);
        assert_eq!(trustworthiness(features(&items, 1), &same, 2), Ok(1.0));
        // 0 and 15 change places. The nearest points, by item: 0 → 7 (rank 3), 1 → 15 (rank 4), 3 → 1
        // (rank 1), 7 → 3 (rank 1), 15 → 1 (rank 3). Beyond k = 1 these are 2 + 3 + 0 + 0 + 2.
        let swapped = [15.0, 1.0, 3.0, 7.0, 0.0].map(|x| [x, 0.0]);
        let found = trustworthiness(features(&items, 1), &swapped, 1).unwrap();
        let wanted = 1.0 - 2.0 / (5.0 * (10.0 - 3.0 - 1.0)) * 7.0;
        assert!((found - wanted).abs() < 1e-12, "{found}");
    }

    #[test]
    fn every_item_has_the_perplexity_that_was_asked_for() {
        let arms = arms();
        let items = features(&arms, 10);
        for perplexity in [2.0, 30.0, 150.0] {
            for i in [0, 17, 299] {
                let squares: Vec<f64> = items
                    .rows()
                    .map(|y| squared_distance(items.row(i), y))
                    .collect();
                let p = conditional(&squares, i, f64::ln(perplexity));
                let positive = p.iter().filter(|p| **p > 0.0);
                let entropy: f64 = positive.map(|p| -p * p.ln()).sum();
                assert!((entropy.exp() / perplexity - 1.0).abs() < 1e-4);
                assert_eq!(p[i], 0.0);
            }
        }
        let joint = joint_probabilities(items, 30.0);
        assert!((joint.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(joint[5 * 300 + 77], joint[77 * 300 + 5]);
    }

    /// The gradient against differences of `KL(p ‖ q)`.
    #[test]
    fn the_gradient_is_the_slope_of_the_divergence() {
        let wanted = [0.0, 0.2, 0.1, 0.2, 0.0, 0.2, 0.1, 0.2, 0.0];
        let points = [[0.3, -0.2], [1.1, 0.4], [-0.7, 0.9]];
        let divergence = |points: &[[f64; 2]]| {
            let t = |i: usize, j: usize| {
                let [dx, dy] = [0, 1].map(|a| points[i][a] - points[j][a]);
                if i == j {
                    0.0
                } else {
                    1.0 / (1.0 + dx * dx + dy * dy)
                }
            };
            let pairs = || (0..9).map(|p| (p / 3, p % 3)).filter(|(i, j)| i != j);
            let total: f64 = pairs().map(|(i, j)| t(i, j)).sum();
            let term = |(i, j): (usize, usize)| {
                let p = wanted[3 * i + j];
                p * (p / (t(i, j) / total)).ln()
            };
            pairs().map(term).sum::<f64>()
        };
        let found = gradient(&wanted, &points, 1.0);
        for (i, axis) in [(0, 0), (0, 1), (1, 0), (2, 1)] {
            let moved = |by: f64| {
                let mut points = points;
                points[i][axis] += by;
                divergence(&points)
            };
            let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((found[i][axis] - slope).abs() < 1e-8, "{found:?} {slope}");
        }
    }

    #[test]
    fn the_start_is_the_principal_components() {
        // Two items per axis of an ellipse about (5, 5): components by items and by features.
        let square = [8.0, 5.0, 2.0, 5.0, 5.0, 6.0, 5.0, 4.0];
        let wide: Vec<f32> = square
            .chunks(2)
            .flat_map(|p| [p[0], p[1], 5.0, 5.0, 5.0])
            .collect();
        for (values, width) in [(&square[..], 2), (&wide[..], 5)] {
            let found = principal_components(features(values, width)).unwrap();
            let scale = 1e-4 / 4.5_f64.sqrt();
            for (point, length) in
                found
                    .iter()
                    .zip([[3.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
            {
                let off = [0, 1].map(|axis| (point[axis].abs() - length[axis] * scale).abs());
                assert!(off.iter().all(|o| *o < 1e-12), "{found:?}");
            }
        }
    }

    #[test]
    fn items_that_are_all_alike_do_no_harm() {
        let same = [1.0; 40];
        let settings = TsneSettings {
            perplexity: 5.0,
            steps: 300,
        };
        let points = tsne(features(&same, 2), settings).unwrap();
        assert!(points.iter().flatten().all(|x| x.is_finite()));
        let mut one_off = same;
        one_off[7] = 1e30;
        let points = tsne(features(&one_off, 2), settings).unwrap();
        assert!(points.iter().flatten().all(|x| x.is_finite()));
        assert!(tsne(features(&one_off, 1), settings).is_ok());
    }

    #[test]
    fn what_cannot_be_embedded_is_named() {
        let items = [0.0; 20];
        let error = |perplexity| {
            let settings = TsneSettings {
                perplexity,
                steps: 1,
            };
            tsne(features(&items, 1), settings).unwrap_err().to_string()
        };
        let wanted =
            |p| format!("t-SNE of 20 items needs a perplexity of at least 1 and below 20, got {p}");
        assert_eq!(error(20.0), wanted("20"));
        assert_eq!(error(0.5), wanted("0.5"));
        assert_eq!(error(f64::NAN), wanted("NaN"));
        let many = vec![0.0; 5001];
        assert_eq!(
            tsne(features(&many, 1), TsneSettings::default())
                .unwrap_err()
                .to_string(),
            "t-SNE takes at most 5000 items, got 5001"
        );
        let error = |points: usize, k| {
            let points = vec![[0.0; 2]; points];
            trustworthiness(features(&items, 1), &points, k)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(error(19, 3), "there are 20 items and 19 points");
        assert_eq!(
            error(20, 10),
            "trustworthiness of 20 items needs from 1 to fewer than 10 neighbours, got 10"
        );
    }
}
