//! How far generated items lie from each other, and how many repeat one another.
//!
//! Diversity is the mean Euclidean distance over all pairs of different items. Its standard error is
//! the delete-one jackknife, as in [`crate::kid`]: pairs share items, so the spread of distances
//! alone would make it far too small. Distances come from single-precision products, those of close
//! pairs from double precision.
//!
//! The duplicate rate is the share of items with at least one other item within a given distance; at
//! distance 0, with an equal one. It is decided in double precision.

use crate::bootstrap::{Estimate, leave_one_out_error};
use crate::error::Error;
use crate::features::{Features, check_items};
use crate::pairs::{Block, Side, within};

/// A distance is measured again where its bounds are farther apart than this share of it.
const CLOSE: f32 = 1.0 / 16.0;

/// Mean distance over all pairs of different items.
pub fn mean_distance(items: Features<'_>) -> Result<Estimate, Error> {
    check_items("the mean pairwise distance", "generated", items, 3)?;
    let [side] = Side::together([items]);
    let mut sums = vec![0.0; side.items()];
    for (rows, columns) in within(&side, distance_sums) {
        for (at, sum) in rows.into_iter().chain(columns) {
            sums[at] += sum;
        }
    }
    let n = sums.len() as f64;
    let total: f64 = sums.iter().sum();
    // Without an item, its pairs are gone from both ends.
    let without = sums
        .iter()
        .map(|own| (total - 2.0 * own) / ((n - 1.0) * (n - 2.0)));
    Ok(Estimate {
        value: total / (n * (n - 1.0)),
        standard_error: leave_one_out_error(&without.collect::<Vec<_>>()),
    })
}

/// Items and their sums of distances.
type Sums = Vec<(usize, f64)>;

/// Sums of distances over a block, for its rows and for its columns.
fn distance_sums(block: &Block<'_>) -> (Sums, Sums) {
    let mut rows = vec![0.0; block.rows.len()];
    let mut columns = vec![0.0; block.columns.len()];
    for (row, first, products) in block.pairs() {
        let (low_row, low) = block.low(row);
        for (column, product) in (first..).zip(products) {
            let lower = low_row + low[column] - 2.0 * product;
            let upper = block.upper(row, column, *product);
            let distance = if upper - lower > CLOSE * lower {
                block.exact(row, column).sqrt()
            } else {
                f64::midpoint(f64::from(lower), f64::from(upper)).sqrt() / block.left.scale
            };
            rows[row] += distance;
            columns[column] += distance;
        }
    }
    let numbered = |first: usize, sums: Vec<f64>| (first..).zip(sums).collect();
    (
        numbered(block.rows.start, rows),
        numbered(block.columns.start, columns),
    )
}

/// Share of items with another one within `distance`; 0 where there are no items.
pub fn duplicate_rate(items: Features<'_>, distance: f64) -> Result<f64, Error> {
    if distance.is_nan() || distance < 0.0 {
        return Err(Error::setting(format!(
            "duplicates lie within a distance of 0 or more, got {distance}"
        )));
    }
    let [side] = Side::together([items]);
    let mut repeated = vec![false; side.items()];
    for item in within(&side, |block| repeats(block, distance)).concat() {
        repeated[item] = true;
    }
    let count = repeated.iter().filter(|r| **r).count();
    Ok(count as f64 / repeated.len().max(1) as f64)
}

/// Items of a block with another one within `distance`.
fn repeats(block: &Block<'_>, distance: f64) -> Vec<usize> {
    let reach = ((distance * block.left.scale).powi(2) as f32).next_up();
    let mut rows = vec![false; block.rows.len()];
    let mut columns = vec![false; block.columns.len()];
    for (row, first, products) in block.pairs() {
        let (low_row, low) = block.low(row);
        for (column, product) in (first..).zip(products) {
            let lower = low_row + low[column] - 2.0 * product;
            let known = rows[row] && columns[column];
            if lower <= reach && !known && block.exact(row, column).sqrt() <= distance {
                rows[row] = true;
                columns[column] = true;
            }
        }
    }
    let found = |first: usize, flags: Vec<bool>| {
        let flagged = flags.into_iter().enumerate().filter(|(_, flag)| *flag);
        flagged.map(move |(place, _)| first + place)
    };
    found(block.rows.start, rows)
        .chain(found(block.columns.start, columns))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::examples::{features, scattered};
    use crate::pairs::squared_distance;

    #[test]
    fn a_line_on_paper() {
        // Distances 1, 3, 2; without each item 2, 3, 1: the jackknife's error is √(⅔ · 2).
        let found = mean_distance(features(&[0.0, 1.0, 3.0], 1)).unwrap();
        assert!((found.value - 2.0).abs() < 1e-6);
        assert!((found.standard_error - (4.0_f64 / 3.0).sqrt()).abs() < 1e-6);
        let same = mean_distance(features(&[7.0; 40], 2)).unwrap();
        assert_eq!((same.value, same.standard_error), (0.0, 0.0));
    }

    // scipy 1.17.1, with y of `examples::two_sides`: scipy.spatial.distance.pdist(y).mean()
    #[test]
    fn scipy_has_the_same_mean() {
        let items = scattered([2, 9, 11], 45, 0.5);
        let found = mean_distance(features(&items, 8)).unwrap().value;
        assert!(
            (found / 20.115_696_434_574_108 - 1.0).abs() < 1e-6,
            "{found}"
        );
        // Many times the same items: several blocks, and pairs at distance zero.
        let n = 45.0 * 20.0;
        let many = mean_distance(features(&items.repeat(20), 8)).unwrap().value;
        let wanted = found * 44.0 / 45.0 * n / (n - 1.0);
        assert!((many / wanted - 1.0).abs() < 1e-6, "{many} {wanted}");
    }

    #[test]
    fn repeated_items_are_counted_once_each() {
        let items = [0.0, 0.0, 5.0, 6.0, 6.5, 0.0];
        let rate = |distance| duplicate_rate(features(&items, 1), distance).unwrap();
        assert_eq!(rate(0.0), 0.5);
        assert_eq!(rate(0.49), 0.5);
        assert_eq!(rate(0.5), 5.0 / 6.0);
        assert_eq!(rate(1.0), 1.0);
        assert_eq!(rate(f64::INFINITY), 1.0);
        assert_eq!(duplicate_rate(features(&[], 1), 1.0), Ok(0.0));
        assert_eq!(duplicate_rate(features(&[1.0], 1), 1.0), Ok(0.0));
        assert_eq!(duplicate_rate(features(&[1.0; 3000], 2), 0.0), Ok(1.0));
    }

    proptest! {
        #[test]
        fn rates_and_means_are_the_twins(
            values in prop::collection::vec(0..9u8, 6..200),
            width in 1..3usize,
            distance in prop_oneof![Just(0.0), Just(0.1), Just(f64::from(0.2f32)), 0.0..1.0f64],
        ) {
            let values: Vec<f32> = values.iter().map(|x| f32::from(*x) * 0.1).collect();
            let items = features(&values[..values.len() / width * width], width);
            let n = items.items();
            let apart = |i, j| squared_distance(items.row(i), items.row(j)).sqrt();
            let twin = (0..n).filter(|i| (0..n).any(|j| j != *i && apart(*i, j) <= distance));
            prop_assert_eq!(duplicate_rate(items, distance), Ok(twin.count() as f64 / n as f64));
            if n > 2 {
                let sum: f64 = (0..n).map(|i| (0..i).map(|j| apart(i, j)).sum::<f64>()).sum();
                let wanted = sum / (n * (n - 1) / 2) as f64;
                prop_assert!((mean_distance(items).unwrap().value - wanted).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn what_has_no_diversity_is_named() {
        let error = mean_distance(features(&[1.0, 2.0], 1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the mean pairwise distance needs at least 3 generated items, got 2"
        );
        let error = duplicate_rate(features(&[1.0, 2.0], 1), -0.5).unwrap_err();
        assert_eq!(
            error.to_string(),
            "duplicates lie within a distance of 0 or more, got -0.5"
        );
    }
}
