//! Kernel distance between real and generated features (KID).
//!
//! The squared maximum mean discrepancy with a cubic kernel on features of width d:
//!
//! ```text
//! k(x, y) = (x·y/d + 1)³
//! KID = mean k(x, x′) + mean k(y, y′) − 2 mean k(x, y)
//! ```
//!
//! The first two means leave out pairs of an item with itself. The estimate is therefore unbiased,
//! whatever the number of items, and may be negative.
//!
//! What depends on one item of a pair only cancels between the means. So the kernel is taken about the
//! mean c of all items, which leaves the distance as it is, and its digits too where features share a
//! large offset:
//!
//! ```text
//! k(x, y) − k(x, c) − k(c, y) + k(c, c) = 3ab(2s + a + b) + p(3m² + 3mp + p²)
//! a = c·(x − c)/d,  b = c·(y − c)/d,  p = (x − c)·(y − c)/d,  s = |c|²/d + 1,  m = s + a + b
//! ```
//!
//! [`kid`] takes all pairs. Its standard error is the delete-one jackknife over the items of both
//! sides, from sums made in the same pass. Of the estimators at hand it is the one that does not
//! turn too small on average (the Efron–Stein inequality), also when both sides are alike and the
//! distance degenerates; the interval is normal.
//!
//! [`kid_over_subsets`] is the mean and the deviation (divisor N) over subsets, as torch-fidelity
//! and torchmetrics report it. That deviation is of one subset, not of the mean.
//!
//! References: Bińkowski et al., "Demystifying MMD GANs", 2018; Efron and Stein, "The Jackknife
//! Estimate of Variance", 1981.

use s2m_core::proposals::{Proposals, Purpose};
use s2m_core::streams::metrics;

use crate::bootstrap::{Estimate, leave_one_out_error};
use crate::error::Error;
use crate::features::{Features, check_items, check_widths};
use crate::pairs::{Block, Side, across, within};

/// Fewest items of a side: the jackknife leaves one out, and pairs need two.
const FEWEST: usize = 3;

/// The distance of `generated` from `real` over all pairs; smaller is better.
pub fn kid(real: Features<'_>, generated: Features<'_>) -> Result<Estimate, Error> {
    check(real, generated)?;
    let [real, generated] = Side::together([real, generated]);
    let sums = KernelSums {
        real: add_within(&real, &within(&real, kernel_sums)),
        generated: add_within(&generated, &within(&generated, kernel_sums)),
        across: add_across(&real, &generated, &across(&real, &generated, kernel_sums)),
    };
    Ok(sums.estimate())
}

/// Both sides are of one width and large enough.
pub(crate) fn check(real: Features<'_>, generated: Features<'_>) -> Result<(), Error> {
    check_widths(real.width(), generated.width())?;
    check_items("KID", "real", real, FEWEST)?;
    check_items("KID", "generated", generated, FEWEST)
}

/// Sums of the kernel over a block, for its rows and for its columns.
pub(crate) struct BlockSums {
    first: [usize; 2],
    rows: Vec<f64>,
    columns: Vec<f64>,
}

/// Sums the kernel about the mean over the pairs of a block.
pub(crate) fn kernel_sums(block: &Block<'_>) -> BlockSums {
    match block.doubles() {
        Some(products) => sums_of(block, block.pairs_of(&products)),
        None => sums_of(block, block.pairs()),
    }
}

fn sums_of<'p, P: Copy + Into<f64> + 'p>(
    block: &Block<'_>,
    pairs: impl Iterator<Item = (usize, usize, &'p [P])>,
) -> BlockSums {
    let width = block.left.features.width() as f64;
    let slope = 1.0 / (block.left.scale * block.left.scale * width);
    let centre = block.left.centre / width + 1.0;
    let part = |slopes: &[f64]| slopes.iter().map(|s| s / width).collect::<Vec<_>>();
    let left = part(&block.left.slopes[block.rows.clone()]);
    let right = part(&block.right.slopes[block.columns.clone()]);
    let mut rows = vec![0.0; left.len()];
    let mut columns = vec![0.0; right.len()];
    for (row, first, products) in pairs {
        let a = left[row];
        let pairs = products.iter().zip(&right[first..]);
        let mut sum = 0.0;
        for ((&product, b), column) in pairs.zip(&mut columns[first..]) {
            let p = product.into() * slope;
            let m = centre + a + b;
            let kernel = 3.0 * a * b * (centre + m) + p * (3.0 * m * m + 3.0 * m * p + p * p);
            sum += kernel;
            *column += kernel;
        }
        rows[row] = sum;
    }
    BlockSums {
        first: [block.rows.start, block.columns.start],
        rows,
        columns,
    }
}

/// Sums of the kernel of each item with all others of its side.
pub(crate) fn add_within(side: &Side<'_>, blocks: &[BlockSums]) -> Vec<f64> {
    let mut sums = vec![0.0; side.items()];
    for block in blocks {
        add(&mut sums[block.first[0]..], &block.rows);
        add(&mut sums[block.first[1]..], &block.columns);
    }
    sums
}

/// Sums of the kernel of each item with all of the other side.
pub(crate) fn add_across(left: &Side<'_>, right: &Side<'_>, blocks: &[BlockSums]) -> [Vec<f64>; 2] {
    let mut sums = [left, right].map(|side| vec![0.0; side.items()]);
    for block in blocks {
        add(&mut sums[0][block.first[0]..], &block.rows);
        add(&mut sums[1][block.first[1]..], &block.columns);
    }
    sums
}

fn add(to: &mut [f64], values: &[f64]) {
    for (to, value) in to.iter_mut().zip(values) {
        *to += value;
    }
}

/// Sums of the kernel by item.
pub(crate) struct KernelSums {
    pub(crate) real: Vec<f64>,
    pub(crate) generated: Vec<f64>,
    pub(crate) across: [Vec<f64>; 2],
}

impl KernelSums {
    pub(crate) fn estimate(&self) -> Estimate {
        let (m, n) = (self.real.len() as f64, self.generated.len() as f64);
        let real: f64 = self.real.iter().sum();
        let generated: f64 = self.generated.iter().sum();
        let across: f64 = self.across[0].iter().sum();
        let value = |[real, generated, across]: [f64; 3], m: f64, n: f64| {
            real / (m * (m - 1.0)) + generated / (n * (n - 1.0)) - 2.0 * across / (m * n)
        };
        // Without an item, its pairs are gone: those on its own side from both ends.
        let without_real =
            self.real.iter().zip(&self.across[0]).map(|(own, other)| {
                value([real - 2.0 * own, generated, across - other], m - 1.0, n)
            });
        let without_generated = self.generated.iter().zip(&self.across[1]);
        let without_generated = without_generated
            .map(|(own, other)| value([real, generated - 2.0 * own, across - other], m, n - 1.0));
        let error = leave_one_out_error(&without_real.collect::<Vec<_>>())
            .hypot(leave_one_out_error(&without_generated.collect::<Vec<_>>()));
        Estimate {
            value: value([real, generated, across], m, n),
            standard_error: error,
        }
    }
}

/// Items of both sides that are compared on their own, by number and without repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subset {
    /// Real items.
    pub real: Vec<usize>,
    /// Generated items.
    pub generated: Vec<usize>,
}

/// The distance over subsets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SubsetKid {
    /// Mean over the subsets.
    pub mean: f64,
    /// Standard deviation (divisor N) of one subset's distance.
    pub deviation: f64,
}

/// Mean and deviation of the distance over given subsets of two items or more.
pub fn kid_over_subsets(
    real: Features<'_>,
    generated: Features<'_>,
    subsets: &[Subset],
) -> Result<SubsetKid, Error> {
    check_widths(real.width(), generated.width())?;
    if subsets.is_empty() {
        return Err(Error::setting("KID over subsets needs at least one subset"));
    }
    let mut distances = Vec::with_capacity(subsets.len());
    for (number, subset) in subsets.iter().enumerate() {
        let x = gather("real", real, number, &subset.real)?;
        let y = gather("generated", generated, number, &subset.generated)?;
        let of = |values| Features::of_doubles(values, real.width()).expect("rows of features");
        let (x, y) = (of(&x), of(&y));
        check_items("a subset of KID", "real", x, 2)?;
        check_items("a subset of KID", "generated", y, 2)?;
        let [x, y] = Side::together([x, y]);
        let sums = KernelSums {
            real: add_within(&x, &within(&x, kernel_sums)),
            generated: add_within(&y, &within(&y, kernel_sums)),
            across: add_across(&x, &y, &across(&x, &y, kernel_sums)),
        };
        distances.push(sums.estimate().value);
    }
    let n = distances.len() as f64;
    let mean = distances.iter().sum::<f64>() / n;
    let squares = distances.iter().map(|d| (d - mean) * (d - mean));
    let deviation = (squares.sum::<f64>() / n).sqrt();
    Ok(SubsetKid { mean, deviation })
}

fn gather(
    side: &'static str,
    features: Features<'_>,
    subset: usize,
    items: &[usize],
) -> Result<Vec<f64>, Error> {
    let all = features.items();
    if let Some(&item) = items.iter().find(|item| **item >= all) {
        return Err(Error::mismatch(format!(
            "subset {subset} names {side} item {item} of {all}"
        )));
    }
    Ok(items.iter().flat_map(|i| features.row(*i).iter()).collect())
}

/// Draws `count` subsets of `size` items (or all, where there are fewer) of each side.
pub fn draw_subsets(items: [usize; 2], count: usize, size: usize, seed: u64) -> Vec<Subset> {
    let draw = |side: u16, number: usize| {
        let all = items[usize::from(side == metrics::GENERATED)];
        let size = size.min(all);
        let mut uniform = vec![0.0; size];
        Proposals::new(seed).at_stage(side).fill_uniform(
            Purpose::Resample,
            (number * size) as u64,
            &mut uniform,
        );
        let mut order: Vec<usize> = (0..all).collect();
        for (place, u) in uniform.into_iter().enumerate() {
            order.swap(place, place + (u * (all - place) as f64) as usize);
        }
        order.truncate(size);
        order
    };
    (0..count)
        .map(|number| Subset {
            real: draw(metrics::REAL, number),
            generated: draw(metrics::GENERATED, number),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::examples::{features, offset_by, two_sides};
    use crate::features::Row;

    #[test]
    fn one_dimension_on_paper() {
        // Kernels (xy + 1)³: 1, 1, 27 within the real side, 8 within the generated one, and 1, 8, 27
        // across. Without 0, 1 or 2 on the real side the means are 27, 1, 1 and 35/2, 14, 9/2.
        let (real, generated) = ([0.0, 1.0, 2.0], [1.0; 3]);
        let found = kid(features(&real, 1), features(&generated, 1)).unwrap();
        assert!((found.value - (29.0 / 3.0 + 8.0 - 24.0)).abs() < 1e-12);
        let without = [0.0, 1.0 + 8.0 - 28.0, 1.0 + 8.0 - 9.0];
        let mean = without.iter().sum::<f64>() / 3.0;
        let squares: f64 = without.iter().map(|v| (v - mean).powi(2)).sum();
        let error = (squares * 2.0 / 3.0).sqrt();
        assert!((found.standard_error - error).abs() < 1e-12, "{found:?}");
    }

    // torch-fidelity 0.4.0, torch 2.11.0, with x and y of `examples::two_sides` as tensors:
    //   from torch_fidelity.metric_kid import kid_features_to_metric as kid
    //   print(kid(x[:45], y, kid_subsets=1, kid_subset_size=45))
    //   print(kid(x, y, kid_subsets=3, kid_subset_size=6, rng_seed=2020))
    //   rng = np.random.RandomState(2020)
    //   for _ in range(3): print([rng.choice(n, 6, replace=False) for n in (60, 45)])
    #[test]
    fn torch_fidelity_has_the_same_distances() {
        let [real, generated] = two_sides();
        let found = kid(features(&real[..45 * 8], 8), features(&generated, 8)).unwrap();
        let wanted = 48_905.255_924_425_09;
        assert!((found.value / wanted - 1.0).abs() < 1e-6, "{found:?}");
        let subset = |real: [usize; 6], generated: [usize; 6]| Subset {
            real: real.to_vec(),
            generated: generated.to_vec(),
        };
        let subsets = [
            subset([39, 37, 34, 33, 25, 45], [31, 27, 34, 8, 6, 4]),
            subset([50, 26, 12, 8, 23, 3], [24, 21, 16, 40, 41, 39]),
            subset([59, 34, 12, 16, 43, 7], [15, 6, 16, 25, 28, 32]),
        ];
        let sides = (features(&real, 8), features(&generated, 8));
        let found = kid_over_subsets(sides.0, sides.1, &subsets).unwrap();
        let (mean, deviation) = (-21_698.326_751_058_34, 85_862.458_791_513_05);
        assert!((found.mean / mean - 1.0).abs() < 1e-6, "{found:?}");
        assert!(
            (found.deviation / deviation - 1.0).abs() < 1e-6,
            "{found:?}"
        );
    }

    // Python 3, the definition in exact fractions, with x and y of the first 30 and 20 items of
    // `examples::two_sides` and offsets added in double precision.
    #[test]
    fn an_offset_costs_no_digits() {
        let [real, generated] = two_sides();
        let wanted = [
            67_727.563_217_735_53,
            7.739_394_710_097_034e24,
            7.739_113_952_622_99e32,
        ];
        for (offset, wanted) in [0.0, 1e6, 1e8].into_iter().zip(wanted) {
            let real = offset_by(&real[..30 * 8], offset);
            let generated = offset_by(&generated[..20 * 8], offset);
            let sides = [&real, &generated].map(|side| Features::of_doubles(side, 8).unwrap());
            let found = kid(sides[0], sides[1]).unwrap();
            assert!((found.value / wanted - 1.0).abs() < 1e-7, "{found:?}");
        }
    }

    /// The definition, in double precision.
    fn twin(x: Features<'_>, y: Features<'_>) -> f64 {
        let kernel = |x: Row<'_>, y: Row<'_>| {
            let products = x.iter().zip(y.iter()).map(|(x, y)| x * y);
            (products.sum::<f64>() / x.iter().len() as f64 + 1.0).powi(3)
        };
        let mean = |x: Features<'_>, y: Features<'_>, same: bool| {
            let (mut sum, mut count) = (0.0, 0.0);
            for (i, x) in x.rows().enumerate() {
                for (j, y) in y.rows().enumerate() {
                    if !same || i != j {
                        sum += kernel(x, y);
                        count += 1.0;
                    }
                }
            }
            sum / count
        };
        mean(x, x, true) + mean(y, y, true) - 2.0 * mean(x, y, false)
    }

    /// The twin without each item in turn.
    fn twin_error(x: Features<'_>, y: Features<'_>) -> f64 {
        let without = |side: Features<'_>, item: usize| -> Vec<f32> {
            let rows = side.rows().enumerate().filter(|(i, _)| *i != item);
            rows.flat_map(|(_, row)| row.iter().map(|x| x as f32))
                .collect()
        };
        let width = x.width();
        let real = (0..x.items()).map(|i| twin(features(&without(x, i), width), y));
        let generated = (0..y.items()).map(|i| twin(x, features(&without(y, i), width)));
        let variance = |values: Vec<f64>| {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() * (n - 1.0) / n
        };
        (variance(real.collect()) + variance(generated.collect())).sqrt()
    }

    proptest! {
        #[test]
        fn value_and_error_are_the_twins(
            x in prop::collection::vec(-1.0..2.0f32, 9..60),
            y in prop::collection::vec(-2.0..1.0f32, 9..60),
            width in 1..4usize,
        ) {
            let whole = |v: &[f32]| v[..v.len() / width * width].to_vec();
            let (x, y) = (whole(&x), whole(&y));
            let (x, y) = (features(&x, width), features(&y, width));
            let found = kid(x, y).unwrap();
            let largest = 125.0;
            prop_assert!((found.value - twin(x, y)).abs() < 1e-7 * largest);
            prop_assert!((found.standard_error - twin_error(x, y)).abs() < 1e-6 * largest);
        }
    }

    /// Sides of the same law: the estimate lies within two standard errors in 19 of 20 draws or more.
    #[test]
    fn alike_sides_are_close_within_the_error() {
        let mut inside = 0;
        for seed in 0..40 {
            let mut values = vec![0.0; 4 * 160];
            Proposals::new(seed).fill_normal(0, 0, 4, &mut values);
            let (x, y) = values.split_at(4 * 80);
            let [low, high] = kid(features(x, 4), features(y, 4)).unwrap().interval();
            inside += usize::from(low <= 0.0 && 0.0 <= high);
        }
        assert!(inside >= 38, "{inside} of 40");
    }

    #[test]
    fn subsets_are_drawn_without_repeats_and_again_the_same() {
        let subsets = draw_subsets([50, 9], 30, 12, 7);
        assert_eq!(subsets, draw_subsets([50, 9], 30, 12, 7));
        assert_ne!(subsets, draw_subsets([50, 9], 30, 12, 8));
        let mut seen = [false; 50];
        for subset in &subsets {
            assert_eq!((subset.real.len(), subset.generated.len()), (12, 9));
            for items in [&subset.real, &subset.generated] {
                let mut sorted = items.clone();
                sorted.sort_unstable();
                sorted.dedup();
                assert_eq!(sorted.len(), items.len());
            }
            subset.real.iter().for_each(|i| seen[*i] = true);
        }
        assert_eq!(seen, [true; 50]);
    }

    /// Each of the 12 ordered pairs out of four comes as often, within five standard errors.
    #[test]
    fn subsets_are_drawn_evenly() {
        let mut counts = [0.0; 16];
        let draws = 24_000;
        for subset in draw_subsets([4, 2], draws, 2, 1) {
            counts[4 * subset.real[0] + subset.real[1]] += 1.0;
        }
        let share: f64 = 1.0 / 12.0;
        let error = (draws as f64 * share * (1.0 - share)).sqrt();
        for (pair, count) in counts.into_iter().enumerate() {
            let wanted = if pair % 5 == 0 {
                0.0
            } else {
                draws as f64 * share
            };
            assert!(
                (count - wanted).abs() <= 5.0 * error * wanted.min(1.0),
                "{pair} {count}"
            );
        }
    }

    #[test]
    fn what_has_no_distance_is_named() {
        let six = [0.0, 1.0, 2.0, 3.0, 5.0, 1.0];
        let error = |a, b| kid(a, b).unwrap_err().to_string();
        assert_eq!(
            error(features(&six, 2), features(&six, 3)),
            "real features are 2 wide and generated ones 3"
        );
        assert_eq!(
            error(features(&six, 2), features(&six[..4], 2)),
            "KID needs at least 3 generated items, got 2"
        );
        let error = |real: &[usize], generated: &[usize]| {
            let [real, generated] = [real, generated].map(<[usize]>::to_vec);
            let subset = Subset { real, generated };
            let sides = (features(&six, 2), features(&six, 2));
            kid_over_subsets(sides.0, sides.1, &[subset])
                .unwrap_err()
                .to_string()
        };
        assert_eq!(error(&[0, 3], &[0, 1]), "subset 0 names real item 3 of 3");
        assert_eq!(
            error(&[0, 2], &[1]),
            "a subset of KID needs at least 2 generated items, got 1"
        );
        let none = kid_over_subsets(features(&six, 2), features(&six, 2), &[]);
        assert_eq!(
            none.unwrap_err().to_string(),
            "KID over subsets needs at least one subset"
        );
        let constant = kid(features(&[2.0; 6], 2), features(&[2.0; 8], 2)).unwrap();
        assert_eq!((constant.value, constant.standard_error), (0.0, 0.0));
    }
}
