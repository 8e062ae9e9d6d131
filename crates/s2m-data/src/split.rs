//! Training and validation items: a seeded cut of the item numbers.

use s2m_core::proposals::{Proposals, Purpose};

use crate::error::Error;
use crate::streams::{Use, choose, numbers};

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
pub fn split(items: usize, validation_share: f64, seed: u64) -> Result<Split, Error> {
    let numbers = numbers(seed, Use::Split);
    let [train, validation] = cut(items, validation_share, &numbers, "validation")?;
    Ok(Split { train, validation })
}

/// The training and the test part of items without a test part of their own, cut as in [`split`].
///
/// Its random numbers are others, so the items for validation do not depend on those for testing.
pub(crate) fn test_part(items: usize, share: f64, seed: u64) -> Result<[Vec<u32>; 2], Error> {
    cut(items, share, &numbers(seed, Use::TestPart), "test")
}

/// Items kept and items held out.
fn cut(
    items: usize,
    share: f64,
    numbers: &Proposals,
    held_out: &'static str,
) -> Result<[Vec<u32>; 2], Error> {
    if !(share > 0.0 && share < 1.0) {
        return Err(Error::setting(format!(
            "{held_out} share {share} is not between 0 and 1"
        )));
    }
    let count = u32::try_from(items).map_err(|_| {
        Error::too_large(format!(
            "{items} items are too many to split; at most {} are possible",
            u32::MAX
        ))
    })?;
    let out = (items as f64 * share).round() as usize;
    let empty = |side| {
        Error::mismatch(format!(
            "a {held_out} share of {share} leaves no {side} items out of {items}\nhint: choose a share nearer to 0.5, or use more items"
        ))
    };
    if out == 0 {
        return Err(empty(held_out));
    }
    if out >= items {
        return Err(empty("training"));
    }

    let mut uniform = vec![0.0; out];
    numbers.fill_uniform(Purpose::Class, 0, &mut uniform);
    let mut order: Vec<u32> = (0..count).collect();
    for (at, u) in uniform.into_iter().enumerate() {
        order.swap(at, at + choose(u, items - at));
    }
    let mut kept = order.split_off(out);
    kept.sort_unstable();
    order.sort_unstable();
    Ok([kept, order])
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
    fn the_test_part_is_cut_with_other_numbers() {
        let [train, test] = test_part(1000, 0.3, 1).unwrap();
        assert_eq!((train.len(), test.len()), (700, 300));
        assert_ne!(test, split(1000, 0.3, 1).unwrap().validation);
        assert_ne!(test, test_part(1000, 0.3, 2).unwrap()[1]);
        assert_eq!(
            test_part(4, 0.1, 0).unwrap_err().to_string(),
            "a test share of 0.1 leaves no test items out of 4\n\
             hint: choose a share nearer to 0.5, or use more items"
        );
        assert_eq!(
            test_part(4, 1.0, 0).unwrap_err().to_string(),
            "test share 1 is not between 0 and 1"
        );
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
