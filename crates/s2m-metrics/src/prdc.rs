//! Improved precision and recall, density and coverage.
//!
//! The ball of an item reaches to its k-th nearest other item on the same side. With strict `<`, an
//! item lies in a ball when it is nearer to the ball's item than the radius.
//!
//! ```text
//! precision  share of generated items in the ball of some real item
//! recall     share of real items in the ball of some generated item
//! density    real balls that hold a generated item, mean over generated items, divided by k
//! coverage   share of real items whose ball holds some generated item
//! ```
//!
//! This is what the package `prdc` computes, in double precision. StyleGAN3 counts an item *on* the
//! radius too. Where more than k items are identical, radii are zero and hold nothing, not even a
//! copy: the result says how many. Precision and recall change places with the two sides, so the
//! arguments have names.
//!
//! References: Kynkäänniemi et al., "Improved Precision and Recall Metric for Assessing Generative
//! Models", 2019; Naeem et al., "Reliable Fidelity and Diversity Metrics for Generative Models", 2020.

use std::num::NonZeroUsize;
use std::ops::Range;

use crate::bootstrap::Bootstrap;
use crate::error::Error;
use crate::features::{Features, check_items, check_widths};
use crate::neighbours::{self, Bounds, Candidate, shortlist_within};
use crate::pairs::{Block, LANES, Side, across, within};

/// Neighbours that reach to an item's radius, as `prdc`'s authors choose it.
pub const DEFAULT_K: NonZeroUsize = NonZeroUsize::new(5).expect("5 is not zero");

/// The four shares, and what they are made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Prdc {
    /// Share of generated items in some real ball; larger is better.
    pub precision: f64,
    /// Share of real items in some generated ball; larger is better.
    pub recall: f64,
    /// Real balls per generated item, over k; about 1 where both sides are alike.
    pub density: f64,
    /// Share of real items whose ball holds a generated item; larger is better.
    pub coverage: f64,
    /// Neighbours that reach to a radius.
    pub k: usize,
    /// Real items with k identical others: their balls hold nothing.
    pub empty_real_balls: usize,
    /// Generated items with k identical others: their balls hold nothing.
    pub empty_generated_balls: usize,
    /// Real balls that hold each generated item.
    pub balls_around: Vec<u32>,
    /// Whether each real item lies in some generated ball.
    pub recalled: Vec<bool>,
    /// Whether each real item's ball holds some generated item.
    pub covered: Vec<bool>,
}

/// Percentile bootstrap intervals at 95 %, the other side held fixed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrdcIntervals {
    /// Over generated items.
    pub precision: [f64; 2],
    /// Over real items.
    pub recall: [f64; 2],
    /// Over generated items.
    pub density: [f64; 2],
    /// Over real items.
    pub coverage: [f64; 2],
}

impl Prdc {
    /// Intervals by drawing the items again; none without resamples.
    pub fn intervals(&self, bootstrap: Bootstrap) -> Option<PrdcIntervals> {
        let of = |values: Vec<f64>| bootstrap.interval_of_mean(&values);
        let shares = |held: &[bool]| of(held.iter().map(|h| f64::from(u8::from(*h))).collect());
        let balls = self.balls_around.iter();
        let density = balls.clone().map(|n| f64::from(*n) / self.k as f64);
        Some(PrdcIntervals {
            precision: shares(&balls.map(|n| *n > 0).collect::<Vec<_>>())?,
            recall: shares(&self.recalled)?,
            density: of(density.collect())?,
            coverage: shares(&self.covered)?,
        })
    }
}

/// Precision, recall, density and coverage of `generated` against `real`.
///
/// ```
/// use s2m_metrics::{features::Features, prdc::{DEFAULT_K, prdc}};
///
/// let real: Vec<f32> = (0..20).map(|i| i as f32).collect();
/// let far: Vec<f32> = (0..20).map(|i| 1000.0 + i as f32).collect();
/// let [real, far] = [&real, &far].map(|values| Features::new(values, 1).unwrap());
/// let alike = prdc(real, real, DEFAULT_K)?;
/// assert_eq!((alike.precision, alike.coverage), (1.0, 1.0));
/// assert_eq!(prdc(real, far, DEFAULT_K)?.precision, 0.0);
/// # Ok::<(), s2m_metrics::Error>(())
/// ```
pub fn prdc(real: Features<'_>, generated: Features<'_>, k: NonZeroUsize) -> Result<Prdc, Error> {
    check(real, generated, k)?;
    let [real, generated] = Side::together([real, generated]);
    let balls = |side: &Side<'_>| {
        let bounds = Bounds::unknown(side.items());
        let lists = within(side, |block| shortlist_within(block, k.get(), &bounds));
        Balls::new(side, k, lists)
    };
    let balls = [balls(&real), balls(&generated)];
    let held = across(&real, &generated, |block| who_is_held(block, &balls));
    Ok(gather(k, &balls, &held))
}

/// Both sides are of one width and have radii.
pub(crate) fn check(
    real: Features<'_>,
    generated: Features<'_>,
    k: NonZeroUsize,
) -> Result<(), Error> {
    let metric = "PRDC";
    check_widths(real.width(), generated.width())?;
    let needed = k.get().saturating_add(1);
    check_items(metric, "real", real, needed)?;
    check_items(metric, "generated", generated, needed)
}

/// Squared radii of a side's items.
pub(crate) struct Balls {
    /// As they are.
    exact: Vec<f64>,
    /// Scaled and rounded down and up.
    below: Vec<f32>,
    above: Vec<f32>,
}

impl Balls {
    pub(crate) fn new(side: &Side<'_>, k: NonZeroUsize, lists: Vec<Vec<Candidate>>) -> Self {
        let nearest = neighbours::nearest(side, side, k.get(), lists);
        let exact: Vec<f64> = nearest
            .iter()
            .map(|near| near[k.get() - 1].square)
            .collect();
        let scaled = |r: &f64| (r * side.scale * side.scale) as f32;
        Self {
            below: exact.iter().map(|r| scaled(r).next_down()).collect(),
            above: exact.iter().map(|r| scaled(r).next_up()).collect(),
            exact,
        }
    }

    fn empty(&self) -> usize {
        self.exact.iter().filter(|r| **r == 0.0).count()
    }
}

/// Which items of a block lie in whose balls.
pub(crate) struct Held {
    rows: Range<usize>,
    columns: Range<usize>,
    balls_around: Vec<u32>,
    recalled: Vec<bool>,
    covered: Vec<bool>,
}

/// Decides every pair of a real item (row) and a generated one (column): by its bounds where they
/// are clear of the radius, by its exact distance otherwise.
pub(crate) fn who_is_held(block: &Block<'_>, [real, generated]: &[Balls; 2]) -> Held {
    let (rows, columns) = (block.rows.clone(), block.columns.clone());
    let mut held = Held {
        balls_around: vec![0; columns.len()],
        recalled: vec![false; rows.len()],
        covered: vec![false; rows.len()],
        rows,
        columns,
    };
    let column_above = &generated.above[held.columns.clone()];
    for (row, _, products) in block.pairs() {
        let (low_row, low) = block.low(row);
        let item = held.rows.start + row;
        let row_above = real.above[item];
        for from in (0..products.len()).step_by(LANES) {
            let to = products.len().min(from + LANES);
            let lower = |at: usize| low_row + low[at] - 2.0 * products[at];
            let near = |at: usize| lower(at) <= row_above.max(column_above[at]);
            if !(from..to).fold(false, |any, at| any | near(at)) {
                continue;
            }
            for column in (from..to).filter(|at| near(*at)) {
                let bounds = [lower(column), block.upper(row, column, products[column])];
                let exact = || block.exact(row, column);
                if real.holds(item, bounds, exact) {
                    held.balls_around[column] += 1;
                    held.covered[row] = true;
                }
                // One ball is enough.
                if !held.recalled[row] {
                    let other = held.columns.start + column;
                    held.recalled[row] = generated.holds(other, bounds, exact);
                }
            }
        }
    }
    held
}

impl Balls {
    /// Whether the ball of `item` holds something at a distance between these bounds.
    fn holds(&self, item: usize, [lower, upper]: [f32; 2], exact: impl Fn() -> f64) -> bool {
        if upper < self.below[item] {
            true
        } else if lower > self.above[item] {
            false
        } else {
            exact() < self.exact[item]
        }
    }
}

/// The four shares out of all blocks.
pub(crate) fn gather(k: NonZeroUsize, [real, generated]: &[Balls; 2], blocks: &[Held]) -> Prdc {
    let mut balls_around = vec![0; generated.exact.len()];
    let mut recalled = vec![false; real.exact.len()];
    let mut covered = recalled.clone();
    for block in blocks {
        let around = balls_around[block.columns.clone()].iter_mut();
        for (sum, n) in around.zip(&block.balls_around) {
            *sum += n;
        }
        for (all, part) in [
            (&mut recalled, &block.recalled),
            (&mut covered, &block.covered),
        ] {
            for (any, held) in all[block.rows.clone()].iter_mut().zip(part) {
                *any |= held;
            }
        }
    }
    let share = |n: usize, of: usize| n as f64 / of as f64;
    let count = |held: &[bool]| held.iter().filter(|h| **h).count();
    let inside = balls_around.iter().filter(|n| **n > 0).count();
    let balls: u64 = balls_around.iter().map(|n| u64::from(*n)).sum();
    Prdc {
        precision: share(inside, balls_around.len()),
        recall: share(count(&recalled), recalled.len()),
        density: balls as f64 / (k.get() * balls_around.len()) as f64,
        coverage: share(count(&covered), covered.len()),
        k: k.get(),
        empty_real_balls: real.empty(),
        empty_generated_balls: generated.empty(),
        balls_around,
        recalled,
        covered,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::examples::{features, offset_by, two_sides};
    use crate::features::Row;
    use crate::pairs::squared_distance;

    fn neighbours(k: usize) -> NonZeroUsize {
        NonZeroUsize::new(k).unwrap()
    }

    fn four(found: &Prdc) -> [f64; 4] {
        [found.precision, found.recall, found.density, found.coverage]
    }

    /// Features of 64 bits are compared as they are: with an offset at which 32 bits would hold none of their
    /// digits, every ball holds what it held.
    #[test]
    fn an_offset_changes_no_ball() {
        let [real, generated] = two_sides();
        let wanted = prdc(features(&real, 8), features(&generated, 8), neighbours(5)).unwrap();
        for offset in [1e6, 1e8] {
            let [real, generated] = [&real, &generated].map(|side| offset_by(side, offset));
            let sides = [&real, &generated].map(|side| Features::of_doubles(side, 8).unwrap());
            assert_eq!(prdc(sides[0], sides[1], neighbours(5)).unwrap(), wanted);
        }
    }

    #[test]
    fn a_line_on_paper() {
        // Radii with k = 1: 1, 1, 2, 4 of the real items, 3, 3, 4 of the generated ones.
        let (real, generated) = ([0.0, 1.0, 3.0, 7.0], [2.0, 5.0, 9.0]);
        let found = prdc(features(&real, 1), features(&generated, 1), neighbours(1)).unwrap();
        // 2 is 1 from the real 1 and 3: strictly inside 3's ball alone. 5 is 2 from 3 and 7: inside
        // 7's ball alone. 9 is 2 from 7: inside its ball.
        assert_eq!(found.balls_around, [1, 1, 1]);
        assert_eq!(found.covered, [false, false, true, true]);
        // 0 is 2 from 2, 1 is 1, 3 is 1, 7 is 2 from 5.
        assert_eq!(found.recalled, [true; 4]);
        assert_eq!(four(&found), [1.0, 1.0, 1.0, 0.5]);
    }

    // prdc 0.2, scikit-learn 1.9.1, numpy 2.4.6, with x and y of `examples::two_sides` and
    //   def lattice(n, a, b, m):
    //       i, j = np.arange(n)[:, None], np.arange(3)[None, :]
    //       return ((a*i*i + b*i*(j+1) + i*i*j + i//3) % m).astype(np.float64)
    //   u, v = lattice(80, 3, 5, m), lattice(50, 1, 7, m)
    //   print(prdc.compute_prdc(x, y, k), prdc.compute_prdc(u, v, k))
    #[test]
    fn prdc_has_the_same_shares() {
        let [real, generated] = two_sides();
        for (k, wanted) in [
            (
                5,
                [0.977_777_777_777_777_7, 1.0, 1.115_555_555_555_555_6, 1.0],
            ),
            (
                3,
                [0.977_777_777_777_777_7, 1.0, 1.081_481_481_481_481_5, 0.7],
            ),
            (
                1,
                [
                    0.666_666_666_666_666_6,
                    0.566_666_666_666_666_7,
                    1.088_888_888_888_888_8,
                    0.283_333_333_333_333_3,
                ],
            ),
        ] {
            let found = prdc(features(&real, 8), features(&generated, 8), neighbours(k)).unwrap();
            assert_eq!(four(&found), wanted, "k = {k}");
        }
    }

    fn lattice(n: usize, [a, b, m]: [usize; 3]) -> Vec<f32> {
        let value = |i: usize, j: usize| (a * i * i + b * i * (j + 1) + i * i * j + i / 3) % m;
        let rows = (0..n).flat_map(|i| (0..3).map(move |j| value(i, j) as f32));
        rows.collect()
    }

    /// Items repeat, distances tie, and some radii are zero.
    #[test]
    fn prdc_has_the_same_shares_of_repeated_items() {
        for (m, k, wanted) in [
            (5, 5, [0.2, 0.6, 0.2, 0.125]),
            (5, 3, [0.0, 0.525, 0.0, 0.0]),
            (5, 1, [0.0, 0.0, 0.0, 0.0]),
            (9, 5, [0.42, 0.9625, 0.26, 0.475]),
            (9, 3, [0.42, 0.7, 0.42, 0.45]),
            (9, 1, [0.0, 0.175, 0.0, 0.0]),
        ] {
            let (real, generated) = (lattice(80, [3, 5, m]), lattice(50, [1, 7, m]));
            let found = prdc(features(&real, 3), features(&generated, 3), neighbours(k)).unwrap();
            assert_eq!(four(&found), wanted, "m = {m}, k = {k}");
            assert!(found.empty_real_balls > 0, "{found:?}");
        }
    }

    /// The definition as it stands.
    fn twin(real: Features<'_>, generated: Features<'_>, k: usize) -> Prdc {
        let radii = |side: Features<'_>| -> Vec<f64> {
            let radius = |(i, x): (usize, Row<'_>)| {
                let others = side.rows().enumerate().filter(|(j, _)| *j != i);
                let mut all: Vec<f64> = others.map(|(_, y)| squared_distance(x, y)).collect();
                all.sort_by(f64::total_cmp);
                all[k - 1]
            };
            side.rows().enumerate().map(radius).collect()
        };
        let (real_radii, generated_radii) = (radii(real), radii(generated));
        let mut balls_around = vec![0; generated.items()];
        let mut recalled = vec![false; real.items()];
        let mut covered = vec![false; real.items()];
        for (i, x) in real.rows().enumerate() {
            for (j, y) in generated.rows().enumerate() {
                let square = squared_distance(x, y);
                if square < real_radii[i] {
                    balls_around[j] += 1;
                    covered[i] = true;
                }
                recalled[i] |= square < generated_radii[j];
            }
        }
        let share = |held: &[bool]| held.iter().filter(|h| **h).count() as f64 / held.len() as f64;
        let zeros = |radii: &[f64]| radii.iter().filter(|r| **r == 0.0).count();
        let n = balls_around.len() as f64;
        Prdc {
            precision: balls_around.iter().filter(|b| **b > 0).count() as f64 / n,
            recall: share(&recalled),
            density: f64::from(balls_around.iter().sum::<u32>()) / (k as f64 * n),
            coverage: share(&covered),
            k,
            empty_real_balls: zeros(&real_radii),
            empty_generated_balls: zeros(&generated_radii),
            balls_around,
            recalled,
            covered,
        }
    }

    fn check(real: &[f32], generated: &[f32], width: usize, k: usize) {
        let whole = |values: &[f32]| values[..values.len() / width * width].to_vec();
        let (real, generated) = (whole(real), whole(generated));
        let (real, generated) = (features(&real, width), features(&generated, width));
        let found = prdc(real, generated, neighbours(k)).unwrap();
        assert_eq!(found, twin(real, generated, k));
    }

    proptest! {
        #[test]
        fn every_item_is_judged_as_by_the_twin(
            real in prop::collection::vec(-1.0..1.0f32, 24..150),
            generated in prop::collection::vec(-1.2..0.8f32, 24..150),
            (width, k) in (1..4usize, 1..6usize),
            offset in prop_oneof![Just(0.0f32), Just(3e4f32), Just(1e37f32)],
        ) {
            let moved = |values: &[f32]| values.iter().map(|x| x + offset).collect::<Vec<_>>();
            check(&moved(&real), &moved(&generated), width, k);
        }

        #[test]
        fn ties_and_repeats_are_judged_as_by_the_twin(
            real in prop::collection::vec(0..4u8, 24..300),
            generated in prop::collection::vec(0..4u8, 24..300),
            (width, k) in (1..4usize, 1..6usize),
            step in prop_oneof![Just(1.0f32), Just(0.1f32), Just(1e15f32)],
        ) {
            let real: Vec<f32> = real.iter().map(|x| f32::from(*x) * step).collect();
            let generated: Vec<f32> = generated.iter().map(|x| f32::from(*x) * step).collect();
            check(&real, &generated, width, k);
        }
    }

    #[test]
    fn more_items_than_a_block_holds() {
        let real: Vec<f32> = (0..1300).map(|i| (i * i % 1009) as f32 / 7.0).collect();
        let generated: Vec<f32> = (0..1100).map(|i| (3 * i * i % 997) as f32 / 7.0).collect();
        check(&real, &generated, 2, 5);
        check(&[2.5; 700], &[2.5; 600], 1, 5);
        check(&[2.5; 700], &generated, 1, 5);
    }

    #[test]
    fn intervals_hold_their_shares() {
        let [real, generated] = two_sides();
        let found = prdc(features(&real, 8), features(&generated, 8), neighbours(1)).unwrap();
        let intervals = found.intervals(Bootstrap::default()).unwrap();
        for (share, [low, high]) in four(&found).into_iter().zip([
            intervals.precision,
            intervals.recall,
            intervals.density,
            intervals.coverage,
        ]) {
            assert!(low < share && share < high, "{share} {low} {high}");
        }
        let none = Bootstrap {
            resamples: 0,
            seed: 0,
        };
        assert_eq!(found.intervals(none), None);
    }

    #[test]
    fn what_has_no_shares_is_named() {
        let six = [0.0, 1.0, 2.0, 3.0, 5.0, 1.0];
        let error = |a, b, k| prdc(a, b, neighbours(k)).unwrap_err().to_string();
        assert_eq!(
            error(features(&six, 2), features(&six, 3), 1),
            "real features are 2 wide and generated ones 3"
        );
        assert_eq!(
            error(features(&six, 1), features(&six[..5], 1), 5),
            "PRDC needs at least 6 generated items, got 5"
        );
        assert_eq!(
            error(features(&[], 1), features(&six, 1), 1),
            "PRDC needs at least 2 real items, got 0"
        );
        assert!(prdc(features(&six, 1), features(&six, 1), DEFAULT_K).is_ok());
    }
}
