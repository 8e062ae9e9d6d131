//! Wrong labels: some of what is shown is not true, as where people label in haste.
//!
//! Each positive is, with probability `wrong-labels`, shown with a label that its item does not have,
//! all of these equally likely; an item that has every label keeps what it shows.

use s2m_core::labels::{LabelSet, MAX_LABELS};
use s2m_core::proposals::Purpose;

use crate::streams::{Use, choose, numbers};
use crate::view::Positive;

/// Shows a share of the positives of items with these label sets wrongly, in place.
///
/// What becomes of a positive is a pure function of the seed, its item's number and label set, and the
/// label that it showed.
pub(crate) fn mislabel(
    positives: &mut [Positive],
    truth: &[LabelSet],
    labels: usize,
    share: f64,
    seed: u64,
) {
    let numbers = numbers(seed, Use::WrongLabel);
    for positive in positives {
        let set = truth[positive.item as usize];
        let absent = labels - set.len();
        let number = u64::from(positive.item) * MAX_LABELS as u64 + u64::from(positive.label);
        if absent == 0 || numbers.uniform(Purpose::Accept, number) >= share {
            continue;
        }
        let chosen = choose(numbers.uniform(Purpose::Class, number), absent);
        let wrong = (0..labels)
            .filter(|&label| !set.contains(label))
            .nth(chosen);
        positive.label = wrong.expect("one of the absent labels") as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items of sets that come round, each shown with the first of its labels.
    fn shown(count: u32, sets: &[u64]) -> (Vec<Positive>, Vec<LabelSet>) {
        let sets: Vec<_> = sets.iter().map(|&bits| LabelSet::from_bits(bits)).collect();
        let truth: Vec<_> = sets.iter().copied().cycle().take(count as usize).collect();
        let positives = (0..)
            .zip(&truth)
            .map(|(item, set)| Positive {
                item,
                label: set.bits().trailing_zeros() as u8,
            })
            .collect();
        (positives, truth)
    }

    fn mislabelled(
        positives: &[Positive],
        truth: &[LabelSet],
        share: f64,
        seed: u64,
    ) -> Vec<Positive> {
        let mut changed = positives.to_vec();
        mislabel(&mut changed, truth, 4, share, seed);
        changed
    }

    /// The share of each wrong label in each kind of set, within five standard errors.
    #[test]
    fn wrong_labels_are_absent_ones_in_equal_shares() {
        let (n, share, sets) = (40_000, 0.1, [0b0001, 0b0110, 0b1101]);
        let (positives, truth) = shown(3 * n, &sets);
        let changed = mislabelled(&positives, &truth, share, 5);
        for (kind, &bits) in sets.iter().enumerate() {
            let set = LabelSet::from_bits(bits);
            for label in 0..4 {
                let hits = changed
                    .iter()
                    .filter(|p| p.item as usize % 3 == kind && p.label as usize == label)
                    .count();
                let wanted = match (set.contains(label), set.iter().next() == Some(label)) {
                    (false, _) => share / (4 - set.len()) as f64,
                    (true, true) => 1.0 - share,
                    (true, false) => 0.0,
                };
                let found = hits as f64 / f64::from(n);
                let error = (wanted * (1.0 - wanted) / f64::from(n)).sqrt();
                assert!(
                    (found - wanted).abs() <= 5.0 * error,
                    "set {bits:b}, label {label}: {found} against {wanted}"
                );
            }
        }
    }

    #[test]
    fn a_share_of_zero_changes_nothing_and_full_sets_stay() {
        let (positives, truth) = shown(3000, &[0b0001, 0b0110, 0b1000]);
        assert_eq!(mislabelled(&positives, &truth, 0.0, 1), positives);
        assert_ne!(mislabelled(&positives, &truth, 0.01, 1), positives);
        let (positives, truth) = shown(3000, &[0b1111]);
        assert_eq!(mislabelled(&positives, &truth, 0.99, 1), positives);
    }

    #[test]
    fn what_becomes_of_a_positive_does_not_depend_on_the_others() {
        let (positives, truth) = shown(2000, &[0b0001, 0b0110, 0b1000]);
        let whole = mislabelled(&positives, &truth, 0.5, 2);
        let some: Vec<_> = positives.iter().rev().step_by(7).copied().collect();
        for positive in mislabelled(&some, &truth, 0.5, 2) {
            assert_eq!(positive, whole[positive.item as usize]);
        }
        assert_ne!(mislabelled(&positives, &truth, 0.5, 3), whole);
        // A change here would change the labels of every run; computed a second time in Python 3.
        let (positives, truth) = shown(12, &[0b0010]);
        let first = mislabelled(&positives, &truth, 0.5, 0);
        let labels: Vec<_> = first.iter().map(|p| p.label).collect();
        assert_eq!(labels, [1, 1, 3, 3, 1, 0, 1, 2, 3, 3, 1, 1]);
    }

    #[test]
    fn a_larger_share_keeps_the_wrong_labels_of_a_smaller_one() {
        let (positives, truth) = shown(2000, &[0b0001, 0b0110, 0b1000]);
        let whole = mislabelled(&positives, &truth, 0.5, 2);
        let fewer = mislabelled(&positives, &truth, 0.2, 2);
        for ((before, fewer), whole) in positives.iter().zip(&fewer).zip(&whole) {
            assert!(fewer == before || fewer == whole);
        }
    }

    /// Two labels of one item go wrong independently, within five standard errors.
    #[test]
    fn each_label_of_an_item_has_numbers_of_its_own() {
        let n = 20_000u32;
        let truth = vec![LabelSet::from_bits(0b0011); n as usize];
        let positives: Vec<_> = (0..n)
            .flat_map(|item| [0, 1].map(|label| Positive { item, label }))
            .collect();
        let changed = mislabelled(&positives, &truth, 0.3, 0);
        let both = changed
            .chunks(2)
            .filter(|pair| pair.iter().all(|p| p.label > 1));
        let (found, wanted) = (both.count() as f64 / f64::from(n), 0.09f64);
        let error = (wanted * (1.0 - wanted) / f64::from(n)).sqrt();
        assert!((found - wanted).abs() <= 5.0 * error, "{found}");
    }
}
