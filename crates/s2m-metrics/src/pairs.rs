//! All pairs of items, block by block, on all cores.
//!
//! Inner products come from single-precision matrix products of one block of items with another, so
//! that no matrix of all pairs is ever held. Items are first moved to their common mean and scaled by
//! a power of two, which keeps the products small, exact in scale and free of overflow.
//!
//! A squared distance `|x|² + |y|² − 2 x·y` out of such products is known between two bounds: any
//! order of summing `d` products errs by at most `γ Σ|xᵢ yᵢ| ≤ γ (|x|² + |y|²)/2`, with `γ` about
//! `d` units of rounding. Who needs more asks [`squared_distance`], in double precision. Features of 64
//! bits also have their products in double precision, for who sums products.
//!
//! Reference: Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use crate::features::{Features, Row};

/// Items on a side of a block. The products of one block fill a megabyte: about a core's own cache.
const BLOCK: usize = 512;

/// Pairs that are looked at together before any is looked at alone: nearly all are far apart.
pub(crate) const LANES: usize = 16;

/// Units of rounding beyond those of the products: moving, scaling, norms and their sums take ten.
const SPARE_ROUNDINGS: f64 = 16.0;

/// Items moved to the common mean and scaled.
pub(crate) struct Side<'a> {
    /// The items as given.
    pub(crate) features: Features<'a>,
    /// Factor of the scaling, a power of two.
    pub(crate) scale: f64,
    /// `|c|²` of the mean c.
    pub(crate) centre: f64,
    /// `c·(x − c)` of each item about the mean c, so that `x·y` is the product of the moved items divided
    /// by `scale²`, plus the slopes of x and y, plus `|c|²`.
    pub(crate) slopes: Vec<f64>,
    /// Moved and scaled items, row after row.
    moved: Vec<f32>,
    /// The same in double precision, where features of any side are.
    doubles: Option<Vec<f64>>,
    /// Lower and upper parts of each squared norm, for bounds on distances.
    low: Vec<f32>,
    high: Vec<f32>,
}

impl<'a> Side<'a> {
    /// Sides of one width with their mean and scale in common.
    pub(crate) fn together<const N: usize>(sides: [Features<'a>; N]) -> [Self; N] {
        let centre = Features::mean(&sides);
        let distance = |row: Row<'_>| {
            let apart = row.iter().zip(&centre).map(|(x, c)| x - c);
            apart.map(|x| x * x).sum::<f64>().sqrt()
        };
        let rows = sides.iter().flat_map(Features::rows);
        let farthest = rows.map(distance).fold(0.0, f64::max);
        let scale = if farthest > 0.0 {
            (-farthest.log2().ceil()).exp2()
        } else {
            1.0
        };
        let double = sides.iter().any(Features::are_double);
        sides.map(|features| {
            let mut side = Self::moved(features, &centre, scale);
            side.doubles = double.then(|| {
                let pairs = features.rows().flat_map(|row| row.iter().zip(&centre));
                pairs.map(|(x, c)| (x - c) * scale).collect()
            });
            side
        })
    }

    fn moved(features: Features<'a>, centre: &[f64], scale: f64) -> Self {
        let width = features.width() as f64;
        let roundings = (width + SPARE_ROUNDINGS) * f64::from(f32::EPSILON) / 2.0;
        let error = roundings / (1.0 - roundings.min(0.5));
        // Products may also underflow.
        let least = width * f64::from(f32::MIN_POSITIVE);
        let mut side = Self {
            features,
            scale,
            centre: dot(centre.iter().map(|c| (*c, *c))),
            slopes: Vec::with_capacity(features.items()),
            moved: Vec::with_capacity(features.items() * features.width()),
            doubles: None,
            low: Vec::with_capacity(features.items()),
            high: Vec::with_capacity(features.items()),
        };
        for row in features.rows() {
            let apart = row.iter().zip(centre).map(|(x, c)| x - c);
            side.slopes
                .push(dot(apart.clone().zip(centre.iter().copied())));
            let from = side.moved.len();
            side.moved.extend(apart.map(|x| (x * scale) as f32));
            let moved = side.moved[from..].iter().map(|x| f64::from(*x));
            let square = dot(moved.clone().zip(moved));
            side.low.push((square * (1.0 - error) - least) as f32);
            side.high.push((square * (1.0 + error) + least) as f32);
        }
        side
    }

    pub(crate) fn items(&self) -> usize {
        self.features.items()
    }

    fn block(&self, items: &Range<usize>) -> MatRef<'_, f32> {
        let width = self.features.width();
        let values = &self.moved[items.start * width..items.end * width];
        MatRef::from_row_major_slice(values, items.len(), width)
    }
}

/// Sum of products in eight partial sums, which the compiler can add side by side.
fn dot(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let mut sums = [0.0; 8];
    for (i, (x, y)) in pairs.enumerate() {
        sums[i % 8] += x * y;
    }
    sums.iter().sum()
}

/// The squared distance of two items in double precision: what all counts rest on.
pub(crate) fn squared_distance(x: Row<'_>, y: Row<'_>) -> f64 {
    match (x, y) {
        (Row::Single(x), Row::Single(y)) => sum_of_squares(x, y),
        (Row::Single(x), Row::Double(y)) => sum_of_squares(x, y),
        (Row::Double(x), Row::Single(y)) => sum_of_squares(x, y),
        (Row::Double(x), Row::Double(y)) => sum_of_squares(x, y),
    }
}

fn sum_of_squares<X: Copy + Into<f64>, Y: Copy + Into<f64>>(x: &[X], y: &[Y]) -> f64 {
    let mut sums = [0.0; 8];
    let (xs, ys) = (x.chunks_exact(8), y.chunks_exact(8));
    for (sum, (&x, &y)) in sums
        .iter_mut()
        .zip(xs.remainder().iter().zip(ys.remainder()))
    {
        *sum += (x.into() - y.into()).powi(2);
    }
    for (x, y) in xs.zip(ys) {
        for lane in 0..8 {
            let apart = x[lane].into() - y[lane].into();
            sums[lane] += apart * apart;
        }
    }
    sums.iter().sum()
}

/// The products of some items of one side with some of another, or of one side with itself.
pub(crate) struct Block<'a> {
    pub(crate) left: &'a Side<'a>,
    pub(crate) right: &'a Side<'a>,
    /// Items of `left`.
    pub(crate) rows: Range<usize>,
    /// Items of `right`.
    pub(crate) columns: Range<usize>,
    /// Whether the block holds each pair of the same items twice.
    diagonal: bool,
    products: &'a [f32], // [rows, columns]
}

impl Block<'_> {
    /// Each row as its place in the block, its first place among the columns and its products from
    /// there on: every pair of different items comes once.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (usize, usize, &[f32])> {
        self.pairs_of(self.products)
    }

    /// The same of any products, `[rows, columns]`.
    pub(crate) fn pairs_of<'p, P>(
        &'p self,
        products: &'p [P],
    ) -> impl Iterator<Item = (usize, usize, &'p [P])> {
        let rows = products.chunks_exact(self.columns.len());
        rows.enumerate().map(|(row, products)| {
            let first = if self.diagonal { row + 1 } else { 0 };
            (row, first, &products[first..])
        })
    }

    /// The products in double precision, where features of a side are.
    pub(crate) fn doubles(&self) -> Option<Vec<f64>> {
        let width = self.left.features.width();
        let left = &self.left.doubles.as_ref()?[self.rows.start * width..self.rows.end * width];
        let right =
            &self.right.doubles.as_ref()?[self.columns.start * width..self.columns.end * width];
        let (rows, columns) = (self.rows.len(), self.columns.len());
        let mut products = vec![0.0; rows * columns];
        matmul(
            MatMut::from_row_major_slice_mut(&mut products, rows, columns),
            Accum::Replace,
            MatRef::from_row_major_slice(left, rows, width),
            MatRef::from_row_major_slice(right, columns, width).transpose(),
            1.0,
            Par::Seq,
        );
        Some(products)
    }

    /// The norms' part of lower bounds on scaled squared distances: subtract twice the product.
    pub(crate) fn low(&self, row: usize) -> (f32, &[f32]) {
        let row = self.left.low[self.rows.start + row];
        (row, &self.right.low[self.columns.clone()])
    }

    /// An upper bound on the scaled squared distance of a pair in the block.
    pub(crate) fn upper(&self, row: usize, column: usize, product: f32) -> f32 {
        let left = self.left.high[self.rows.start + row];
        let right = self.right.high[self.columns.start + column];
        left + right - 2.0 * product
    }

    /// The squared distance of a pair in the block, unscaled and in double precision.
    pub(crate) fn exact(&self, row: usize, column: usize) -> f64 {
        let left = self.left.features.row(self.rows.start + row);
        let right = self.right.features.row(self.columns.start + column);
        squared_distance(left, right)
    }
}

/// Visits every pair of different items of a side once; results come in a fixed order.
pub(crate) fn within<T: Send>(side: &Side<'_>, visit: impl Fn(&Block<'_>) -> T + Sync) -> Vec<T> {
    let blocks = blocks(side.items());
    let pairs = (0..blocks.len()).flat_map(|i| (i..blocks.len()).map(move |j| (i, j)));
    let pairs: Vec<_> = pairs
        .map(|(i, j)| (blocks[i].clone(), blocks[j].clone()))
        .collect();
    over(&pairs, [side, side], visit)
}

/// Visits every pair of an item on the left with one on the right; results come in a fixed order.
pub(crate) fn across<T: Send>(
    left: &Side<'_>,
    right: &Side<'_>,
    visit: impl Fn(&Block<'_>) -> T + Sync,
) -> Vec<T> {
    let columns = blocks(right.items());
    let pairs: Vec<_> = blocks(left.items())
        .iter()
        .flat_map(|rows| {
            columns
                .iter()
                .map(|columns| (rows.clone(), columns.clone()))
        })
        .collect();
    over(&pairs, [left, right], visit)
}

fn blocks(items: usize) -> Vec<Range<usize>> {
    let starts = (0..items).step_by(BLOCK);
    starts.map(|from| from..items.min(from + BLOCK)).collect()
}

fn over<T: Send>(
    pairs: &[(Range<usize>, Range<usize>)],
    [left, right]: [&Side<'_>; 2],
    visit: impl Fn(&Block<'_>) -> T + Sync,
) -> Vec<T> {
    in_parallel(pairs.len(), Vec::new, |buffer: &mut Vec<f32>, pair| {
        let (rows, columns) = pairs[pair].clone();
        buffer.resize(rows.len() * columns.len(), 0.0);
        matmul(
            MatMut::from_row_major_slice_mut(buffer, rows.len(), columns.len()),
            Accum::Replace,
            left.block(&rows),
            right.block(&columns).transpose(),
            1.0,
            Par::Seq,
        );
        visit(&Block {
            left,
            right,
            diagonal: std::ptr::eq(left, right) && rows == columns,
            rows,
            columns,
            products: buffer,
        })
    })
}

/// Does jobs on all cores; results come in the jobs' order, whoever did them.
pub(crate) fn in_parallel<S, T: Send>(
    jobs: usize,
    scratch: impl Fn() -> S + Sync,
    job: impl Fn(&mut S, usize) -> T + Sync,
) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut scratch = scratch();
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= jobs {
                return done;
            }
            done.push((number, job(&mut scratch, number)));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..cores.min(jobs)).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            done.extend(other.join().expect("a job does not panic"));
        }
        done
    });
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, found)| found).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers of any size, some of them equal.
    fn values() -> impl Strategy<Value = f32> {
        prop_oneof![
            -1.0..1.0f32,
            (-3..3i8).prop_map(f32::from),
            (-1.0..1.0f32).prop_map(|x| 1000.0 + x),
            (-1.0..1.0f32).prop_map(|x| x * 1e38),
            (-1.0..1.0f32).prop_map(|x| x * 1e-38),
        ]
    }

    proptest! {
        #[test]
        fn distances_lie_within_their_bounds_and_products_are_products(
            (width, values) in (1..20usize).prop_flat_map(|width| {
                (Just(width), prop::collection::vec(values(), width * 3..width * 8))
            }),
        ) {
            let whole = &values[..values.len() / width * width];
            let features = Features::new(whole, width).unwrap();
            let [side] = Side::together([features]);
            let square = side.scale * side.scale;
            let visit = |block: &Block<'_>| {
                let mut seen = Vec::new();
                for (row, first, products) in block.pairs() {
                    let (low_row, low) = block.low(row);
                    for (column, product) in (first..).zip(products) {
                        let lower = low_row + low[column] - 2.0 * product;
                        let upper = block.upper(row, column, *product);
                        let exact = block.exact(row, column) * square;
                        assert!(f64::from(lower) <= exact && exact <= f64::from(upper),
                            "{lower} {exact} {upper}");
                        let found = f64::from(*product) / square + side.slopes[row] + side.slopes[column] + side.centre;
                        let (x, y) = (features.row(row), features.row(column));
                        let wanted = dot(x.iter().zip(y.iter()));
                        let largest = features.values().iter().fold(0.0, |m: f64, x| m.max(x.abs()));
                        assert!((found - wanted).abs() <= 1e-5 * width as f64 * largest * largest);
                        seen.push((row, column));
                    }
                }
                seen
            };
            let seen = within(&side, visit).concat();
            let n = side.items();
            let all: Vec<_> = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).collect();
            prop_assert_eq!(seen, all);
        }
    }

    #[test]
    fn every_pair_is_visited_once_whatever_the_blocks() {
        for items in [1, 511, 512, 513, 1100] {
            let values: Vec<f32> = (0..items).map(|i| i as f32).collect();
            let features = Features::new(&values, 1).unwrap();
            let [left, right] = Side::together([features, features]);
            let count = |blocks: Vec<Vec<(usize, usize)>>| {
                let mut all = blocks.concat();
                all.sort_unstable();
                all.dedup();
                all.len()
            };
            let visit = |block: &Block<'_>| -> Vec<(usize, usize)> {
                let pairs = block.pairs().flat_map(|(row, first, products)| {
                    let columns = (first..).take(products.len());
                    columns.map(move |c| (block.rows.start + row, block.columns.start + c))
                });
                pairs.collect()
            };
            let once = within(&left, visit);
            assert_eq!(once.concat().len(), items * (items - 1) / 2);
            assert_eq!(count(once), items * (items - 1) / 2);
            let once = across(&left, &right, visit);
            assert_eq!(once.concat().len(), items * items);
            assert_eq!(count(once), items * items);
        }
    }

    #[test]
    fn jobs_are_answered_in_their_order() {
        let squares = in_parallel(1000, || (), |(), n| n * n);
        assert!(
            squares
                .iter()
                .enumerate()
                .all(|(n, square)| n * n == *square)
        );
        assert!(in_parallel(0, || (), |(), n| n).is_empty());
    }
}
