//! Training and validation items: a seeded cut of the item numbers.

use s2m_core::proposals::Purpose;
use thiserror::Error;

use crate::streams::{Use, choose, numbers};

/// Why items cannot be split.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SplitError {
    /// The share is not one.
    #[error("validation share {0} is not between 0 and 1")]
    Share(f64),
    /// One side would be empty.
    #[error(
        "a validation share of {share} leaves no {side} items out of {items}\nhint: choose a share nearer to 0.5, or use more items"
    )]
    Empty {
        /// Which side.
        side: &'static str,
        /// The share.
        share: f64,
        /// Number of items.
        items: usize,
    },
    /// Items are numbered in 32 bits.
    #[error("{0} items are too many to split; at most {max} are possible", max = u32::MAX)]
    TooMany(usize),
}

/// Item numbers of the two sides, each in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Items to train on.
    pub train: Vec<u32>,
    /// Items held out.
    pub validation: Vec<u32>,
}

/// Splits the items `0 … items − 1`; exactly round(items · share) of them are for validation.
///
/// They are the head of a seeded permutation (Fisher–Yates), so every choice of that many items is
/// equally likely.
pub fn split(items: usize, validation_share: f64, seed: u64) -> Result<Split, SplitError> {
    if !(validation_share > 0.0 && validation_share < 1.0) {
        return Err(SplitError::Share(validation_share));
    }
    let count = u32::try_from(items).map_err(|_| SplitError::TooMany(items))?;
    let held_out = (items as f64 * validation_share).round() as usize;
    let empty = |side| SplitError::Empty {
        side,
        share: validation_share,
        items,
    };
    if held_out == 0 {
        return Err(empty("validation"));
    }
    if held_out >= items {
        return Err(empty("training"));
    }

    let mut uniform = vec![0.0; held_out];
    numbers(seed, Use::Split).fill_uniform(Purpose::Class, 0, &mut uniform);
    let mut order: Vec<u32> = (0..count).collect();
    for (at, u) in uniform.into_iter().enumerate() {
        order.swap(at, at + choose(u, items - at));
    }
    let mut train = order.split_off(held_out);
    train.sort_unstable();
    order.sort_unstable();
    Ok(Split {
        train,
        validation: order,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(items: usize, share: f64) -> String {
        split(items, share, 0).unwrap_err().to_string()
    }

    #[test]
    fn sizes_are_exact_and_every_item_is_on_one_side() {
        for (items, share, wanted) in [
            (10, 0.1, 1),
            (10, 0.25, 3),
            (7, 0.5, 4),
            (60_000, 0.1, 6000),
        ] {
            let parts = split(items, share, 4).unwrap();
            assert_eq!(
                parts.validation.len(),
                wanted,
                "{items} items, share {share}"
            );
            assert!(parts.train.is_sorted() && parts.validation.is_sorted());
            let mut all = [parts.train, parts.validation].concat();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..items as u32));
        }
    }

    #[test]
    fn the_seed_decides() {
        let parts = |seed| split(1000, 0.3, seed).unwrap();
        assert_eq!(parts(1), parts(1));
        assert_ne!(parts(1), parts(2));
        // A change here would change what every run held out; computed a second time in Python 3.
        assert_eq!(split(20, 0.2, 0).unwrap().validation, [0, 2, 15, 17]);
    }

    /// Each of the ten pairs out of five items, within five standard errors over seeds.
    #[test]
    fn all_choices_are_equally_likely() {
        let seeds = 20_000;
        let mut count = [[0usize; 5]; 5];
        for seed in 0..seeds {
            let held_out = split(5, 0.4, seed).unwrap().validation;
            count[held_out[0] as usize][held_out[1] as usize] += 1;
        }
        let error = (0.1 * 0.9 / seeds as f64).sqrt();
        for (a, row) in count.iter().enumerate() {
            for &found in &row[a + 1..] {
                let share = found as f64 / seeds as f64;
                assert!((share - 0.1).abs() < 5.0 * error, "{count:?}");
            }
        }
    }

    #[test]
    fn an_empty_side_and_a_wrong_share_are_errors() {
        let hint = "\nhint: choose a share nearer to 0.5, or use more items";
        assert_eq!(
            message(4, 0.1),
            format!("a validation share of 0.1 leaves no validation items out of 4{hint}")
        );
        assert_eq!(
            message(4, 0.9),
            format!("a validation share of 0.9 leaves no training items out of 4{hint}")
        );
        assert_eq!(
            message(0, 0.5),
            format!("a validation share of 0.5 leaves no validation items out of 0{hint}")
        );
        assert_eq!(message(4, 1.0), "validation share 1 is not between 0 and 1");
        assert_eq!(message(4, 0.0), "validation share 0 is not between 0 and 1");
        assert_eq!(
            message(4, f64::NAN),
            "validation share NaN is not between 0 and 1"
        );
        assert_eq!(
            message(1 << 40, 0.5),
            "1099511627776 items are too many to split; at most 4294967295 are possible"
        );
    }
}
