//! Single-positive views: what a labeller who names one label at a time would have left behind.
//!
//! `per-class` shows every item once for each label that it has, so the items shown with label c
//! are the items that have it: `p(x | c shown) = p(x | y_c = 1)`. `one-of` shows each item once,
//! with one label of its set S drawn by weight: `P(c | S) = a_c / Σ_{s∈S} a_s`.

use s2m_core::density::Labelling;
use s2m_core::labels::LabelSet;
use s2m_core::proposals::Purpose;

use crate::dataset::Dataset;
use crate::error::Error;
use crate::streams::{Use, numbers};

/// One item shown with one of its labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Positive {
    /// Number of the item in its data set.
    pub item: u32,
    /// The label shown.
    pub label: u8,
}

/// How full label sets become single positive labels.
#[derive(Debug, Clone, PartialEq)]
pub enum View {
    /// Every item once for each label that it has.
    PerClass,
    /// Every item once, with one label of its set.
    OneOf {
        /// `a_c` of each label.
        weights: Vec<f64>,
    },
}

impl View {
    /// Shows some items of a data set, in the order given; panics where a number is out of range.
    ///
    /// The label that `one-of` shows is a pure function of the seed and the item's number, so it
    /// depends neither on the other items nor on their order. An item without labels is not shown.
    pub fn positives(
        &self,
        data: &Dataset,
        items: &[u32],
        seed: u64,
    ) -> Result<Vec<Positive>, Error> {
        self.positives_of(&data.truth, data.labels.len(), items, seed)
    }

    /// Shows some items by their label sets, as [`View::positives`] does for those of a data set.
    pub(crate) fn positives_of(
        &self,
        sets: &[LabelSet],
        labels: usize,
        items: &[u32],
        seed: u64,
    ) -> Result<Vec<Positive>, Error> {
        let truth = |item: u32| sets[item as usize];
        let shown = |item, label: usize| Positive {
            item,
            label: label as u8,
        };
        match self {
            Self::PerClass => Ok(items
                .iter()
                .flat_map(|&item| truth(item).iter().map(move |label| shown(item, label)))
                .collect()),
            Self::OneOf { weights } => {
                check(weights, labels)?;
                let numbers = numbers(seed, Use::View);
                let uniform = |item: u32| numbers.uniform(Purpose::Class, u64::from(item));
                Ok(items
                    .iter()
                    .filter_map(|&item| {
                        Some(shown(item, pick(truth(item), weights, uniform(item))?))
                    })
                    .collect())
            }
        }
    }
}

/// One positive finite weight for each label.
fn check(weights: &[f64], labels: usize) -> Result<(), Error> {
    if weights.len() != labels {
        return Err(Error::setting(format!(
            "labelling.weights has {} entries for {labels} labels",
            weights.len()
        )));
    }
    Labelling::one_of(weights)?;
    Ok(())
}

/// The member of `set` in whose stretch of the weights' sum the uniform number falls.
fn pick(set: LabelSet, weights: &[f64], uniform: f64) -> Option<usize> {
    let total: f64 = set.iter().map(|label| weights[label]).sum();
    let mut left = uniform * total;
    let found = set.iter().find(|&label| {
        left -= weights[label];
        left < 0.0
    });
    // Rounding may leave nothing at the very end of the last stretch.
    found.or_else(|| set.iter().last())
}

/// The share of each of `labels` labels among positives: `p_data(c)`; zeros where there are none.
pub fn observed(positives: &[Positive], labels: usize) -> Vec<f64> {
    let mut count = vec![0usize; labels];
    for positive in positives {
        count[positive.label as usize] += 1;
    }
    let total = positives.len().max(1) as f64;
    count.into_iter().map(|c| c as f64 / total).collect()
}

#[cfg(test)]
mod tests {
    use s2m_core::labels::Labels;

    use super::*;
    use crate::dataset::{Items, Values};

    /// Items of three labels with the given sets.
    fn data(sets: impl IntoIterator<Item = u64>) -> Dataset {
        let truth: Vec<_> = sets.into_iter().map(LabelSet::from_bits).collect();
        Dataset {
            labels: Labels::new(["A", "B", "C"]).unwrap(),
            items: Items {
                shape: vec![1],
                values: Values::Bytes(vec![0; truth.len()]),
            },
            original: vec![0; truth.len()],
            truth,
        }
    }

    fn one_of(weights: [f64; 3]) -> View {
        View::OneOf {
            weights: weights.to_vec(),
        }
    }

    #[test]
    fn per_class_shows_each_item_once_for_each_of_its_labels() {
        let data = data([0b001, 0b111, 0b000, 0b110]);
        let shown = View::PerClass.positives(&data, &[3, 1, 2, 0], 0).unwrap();
        let pairs: Vec<_> = shown.iter().map(|p| (p.item, p.label)).collect();
        assert_eq!(pairs, [(3, 1), (3, 2), (1, 0), (1, 1), (1, 2), (0, 0)]);
        assert_eq!(observed(&shown, 3), [2.0 / 6.0, 2.0 / 6.0, 2.0 / 6.0]);
    }

    /// Shares of each label in each kind of set, within five standard errors.
    #[test]
    fn one_of_shows_labels_by_weight() {
        let (n, weights) = (30_000, [1.0, 2.0, 5.0]);
        let sets = [0b011u64, 0b101, 0b111, 0b100];
        let data = data((0..4 * n).map(|i| sets[i % 4]));
        let all: Vec<u32> = (0..4 * n as u32).collect();
        let shown = one_of(weights).positives(&data, &all, 9).unwrap();
        assert_eq!(shown.len(), 4 * n);
        for (kind, &bits) in sets.iter().enumerate() {
            let set = LabelSet::from_bits(bits);
            let total: f64 = set.iter().map(|c| weights[c]).sum();
            for (label, weight) in weights.iter().enumerate() {
                let hits = shown
                    .iter()
                    .filter(|p| p.item as usize % 4 == kind && p.label as usize == label)
                    .count();
                let share = hits as f64 / n as f64;
                let wanted = if set.contains(label) {
                    weight / total
                } else {
                    0.0
                };
                let error = (wanted * (1.0 - wanted) / n as f64).sqrt();
                assert!(
                    (share - wanted).abs() <= 5.0 * error,
                    "set {bits:b}, label {label}: {share} against {wanted}"
                );
            }
        }
    }

    /// Single positive labels pass through, whatever the weights and the seed.
    #[test]
    fn items_of_one_label_show_that_label() {
        let sets = [0b001, 0b100, 0b010, 0b100, 0b001];
        let data = data(sets);
        let wanted: Vec<_> = (0..)
            .zip(sets)
            .map(|(item, set): (u32, u64)| (item, set.trailing_zeros() as u8))
            .collect();
        for (weights, seed) in [([1.0; 3], 0), ([1e-9, 1.0, 1e9], 1), ([5.0, 0.1, 2.0], 99)] {
            for view in [one_of(weights), View::PerClass] {
                let shown = view.positives(&data, &[0, 1, 2, 3, 4], seed).unwrap();
                let pairs: Vec<_> = shown.iter().map(|p| (p.item, p.label)).collect();
                assert_eq!(pairs, wanted);
            }
        }
    }

    #[test]
    fn what_an_item_shows_does_not_depend_on_the_others() {
        let data = data([0b111; 500]);
        let view = one_of([1.0; 3]);
        let all: Vec<u32> = (0..500).collect();
        let whole = view.positives(&data, &all, 2).unwrap();
        let some: Vec<u32> = all.iter().rev().step_by(7).copied().collect();
        for (positive, item) in view.positives(&data, &some, 2).unwrap().iter().zip(some) {
            assert_eq!(*positive, whole[item as usize]);
        }
        assert_ne!(whole, view.positives(&data, &all, 3).unwrap());
        // A change here would change the labels of every run; computed a second time in Python 3.
        let first = view.positives(&data, &all[..8], 0).unwrap();
        let labels: Vec<_> = first.iter().map(|p| p.label).collect();
        assert_eq!(labels, [2, 0, 2, 0, 0, 0, 1, 1]);
    }

    #[test]
    fn the_ends_of_the_unit_interval_pick_a_member() {
        let set = LabelSet::from_bits(0b110);
        assert_eq!(pick(set, &[1.0; 3], 1e-300), Some(1));
        assert_eq!(pick(set, &[1.0; 3], 1.0), Some(2));
        assert_eq!(pick(LabelSet::EMPTY, &[1.0; 3], 0.5), None);
    }

    #[test]
    fn wrong_weights_are_errors() {
        let message = |weights: &[f64]| {
            let weights = weights.to_vec();
            let view = View::OneOf { weights };
            let error = view.positives(&data([1]), &[0], 0).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            message(&[1.0]),
            "labelling.weights has 1 entries for 3 labels"
        );
        assert_eq!(
            message(&[1.0, 0.0, 1.0]),
            "labelling.weights holds 0, which is not a positive number"
        );
    }

    #[test]
    fn nothing_shown_has_no_shares() {
        assert_eq!(observed(&[], 2), [0.0, 0.0]);
    }
}
