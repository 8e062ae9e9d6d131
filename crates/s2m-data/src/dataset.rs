//! The one type that every format becomes: items, their label sets and their original classes.

use s2m_core::labels::{LabelSet, Labels};

/// Which part of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What networks are trained and calibrated on.
    Train,
    /// What results are judged on.
    Test,
}

impl Part {
    /// The part in words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Train => "training",
            Self::Test => "test",
        }
    }
}

/// Items with their full label sets, all in the same order.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// The labels.
    pub labels: Labels,
    /// The items.
    pub items: Items,
    /// The labels of each item; for making a view and for judging results only.
    pub truth: Vec<LabelSet>,
    /// The original class of each item: the digit, or the number of the mode.
    ///
    /// Data that comes with labels alone has joint classes here: the label sets that occur are
    /// numbered in ascending order of their bits, and all after the first 255 share the last number.
    pub original: Vec<u8>,
}

impl Dataset {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The items that have a label, in the same order.
    pub(crate) fn only_labelled(self) -> Self {
        if !self.truth.contains(&LabelSet::EMPTY) {
            return self;
        }
        let kept: Vec<u32> = (0..)
            .zip(&self.truth)
            .filter(|(_, set)| !set.is_empty())
            .map(|(item, _)| item)
            .collect();
        Self {
            labels: self.labels,
            items: self.items.select(&kept),
            truth: kept.iter().map(|&item| self.truth[item as usize]).collect(),
            original: kept
                .iter()
                .map(|&item| self.original[item as usize])
                .collect(),
        }
    }
}

/// Items of one shape, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Items {
    /// Shape of one item; pictures are channels, height, width.
    pub shape: Vec<usize>,
    /// The numbers of all items.
    pub values: Values,
}

/// The numbers of items.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Pictures: 0 is black, 255 is white.
    Bytes(Vec<u8>),
    /// Points.
    Floats(Vec<f32>),
}

impl Items {
    /// Numbers in one item.
    pub fn item_size(&self) -> usize {
        self.shape.iter().product()
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        let numbers = match &self.values {
            Values::Bytes(values) => values.len(),
            Values::Floats(values) => values.len(),
        };
        numbers.checked_div(self.item_size()).unwrap_or(0)
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items with these numbers, in this order; panics where a number is out of range.
    #[must_use]
    pub fn select(&self, chosen: &[u32]) -> Self {
        let size = self.item_size();
        Self {
            shape: self.shape.clone(),
            values: match &self.values {
                Values::Bytes(values) => Values::Bytes(gather(values, size, chosen)),
                Values::Floats(values) => Values::Floats(gather(values, size, chosen)),
            },
        }
    }
}

fn gather<T: Copy>(values: &[T], size: usize, chosen: &[u32]) -> Vec<T> {
    let mut out = Vec::with_capacity(size * chosen.len());
    for &item in chosen {
        let start = item as usize * size;
        out.extend_from_slice(&values[start..start + size]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_counted_and_selected_whole() {
        let items = Items {
            shape: vec![1, 2, 1],
            values: Values::Bytes(vec![0, 1, 10, 11, 20, 21]),
        };
        assert_eq!((items.len(), items.item_size()), (3, 2));
        let chosen = items.select(&[2, 0]);
        assert_eq!(chosen.shape, [1, 2, 1]);
        assert_eq!(chosen.values, Values::Bytes(vec![20, 21, 0, 1]));
        let floats = Items {
            shape: vec![2],
            values: Values::Floats(vec![0.5, 1.5, 2.5, 3.5]),
        };
        let second = Values::Floats(vec![2.5, 3.5]);
        assert_eq!(floats.select(&[1]).values, second);
    }

    #[test]
    fn a_shape_of_nothing_has_no_items() {
        let items = Items {
            shape: vec![0, 3],
            values: Values::Bytes(Vec::new()),
        };
        assert!(items.is_empty());
    }

    #[test]
    fn a_data_set_can_be_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Dataset>();
        shared::<crate::recipe::Loaded>();
        shared::<crate::Error>();
    }
}
