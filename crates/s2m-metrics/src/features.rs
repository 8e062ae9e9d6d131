//! Features of items, one row each, checked once; of 32 or of 64 bits, and computed with as they are given.

use std::ops::Range;

use crate::error::Error;

/// Both sides must be of one width.
pub(crate) fn check_widths(real: usize, generated: usize) -> Result<(), Error> {
    if real == generated {
        Ok(())
    } else {
        Err(Error::mismatch(format!(
            "real features are {real} wide and generated ones {generated}"
        )))
    }
}

/// A side must have at least `needed` items.
pub(crate) fn check_items(
    metric: &str,
    side: &str,
    features: Features<'_>,
    needed: usize,
) -> Result<(), Error> {
    let items = features.items();
    if items >= needed {
        Ok(())
    } else {
        Err(Error::too_few(format!(
            "{metric} needs at least {needed} {side} items, got {items}"
        )))
    }
}

/// Finite features of items, row after row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Features<'a> {
    values: Row<'a>,
    width: usize,
}

/// Values of one item, or of several one after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Row<'a> {
    /// Of 32 bits.
    Single(&'a [f32]),
    /// Of 64 bits.
    Double(&'a [f64]),
}

impl<'a> Row<'a> {
    fn len(self) -> usize {
        match self {
            Self::Single(values) => values.len(),
            Self::Double(values) => values.len(),
        }
    }

    fn part(self, range: Range<usize>) -> Self {
        match self {
            Self::Single(values) => Self::Single(&values[range]),
            Self::Double(values) => Self::Double(&values[range]),
        }
    }

    /// One value.
    pub fn at(self, place: usize) -> f64 {
        match self {
            Self::Single(values) => values[place].into(),
            Self::Double(values) => values[place],
        }
    }

    /// The first place of a value that is not a number, or beyond what 32 bits can hold.
    pub fn unusable(self) -> Option<usize> {
        let within = |value: f64| value.abs() <= f32::MAX.into();
        self.iter().position(|value| !within(value))
    }

    /// Every value.
    pub fn iter(self) -> impl ExactSizeIterator<Item = f64> + Clone + use<'a> {
        (0..self.len()).map(move |place| self.at(place))
    }
}

impl<'a> Features<'a> {
    /// Rows of `width` values each.
    pub fn new(values: &'a [f32], width: usize) -> Result<Self, Error> {
        Self::of(Row::Single(values), width)
    }

    /// Rows of `width` values of 64 bits each, none beyond what 32 bits can hold.
    pub fn of_doubles(values: &'a [f64], width: usize) -> Result<Self, Error> {
        Self::of(Row::Double(values), width)
    }

    fn of(values: Row<'a>, width: usize) -> Result<Self, Error> {
        if width == 0 {
            return Err(Error::mismatch("features need a width of at least 1"));
        }
        if !values.len().is_multiple_of(width) {
            let values = values.len();
            return Err(Error::mismatch(format!(
                "{values} values are not whole rows of {width}"
            )));
        }
        match values.unusable() {
            None => Ok(Self { values, width }),
            Some(at) => Err(Error::value(format!(
                "feature {} of item {} is {}",
                at % width,
                at / width,
                values.at(at)
            ))),
        }
    }

    /// Whether the values are of 64 bits.
    pub(crate) fn are_double(&self) -> bool {
        matches!(self.values, Row::Double(_))
    }

    /// The mean of each feature, about the first item: an offset that all items share costs no digits.
    pub(crate) fn mean(sides: &[Self]) -> Vec<f64> {
        let rows = || sides.iter().flat_map(Self::rows);
        let Some(first) = rows().next() else {
            return vec![0.0; sides.first().map_or(0, Self::width)];
        };
        let items: usize = sides.iter().map(Self::items).sum();
        let mut mean = vec![0.0; first.len()];
        for row in rows() {
            for ((sum, value), origin) in mean.iter_mut().zip(row.iter()).zip(first.iter()) {
                *sum += value - origin;
            }
        }
        let whole = mean.iter().zip(first.iter());
        whole
            .map(|(sum, origin)| origin + sum / items as f64)
            .collect()
    }

    /// Values in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of items.
    pub fn items(&self) -> usize {
        self.values.len() / self.width
    }

    /// All values, row after row.
    pub fn values(&self) -> Row<'a> {
        self.values
    }

    /// The features of one item.
    pub fn row(&self, item: usize) -> Row<'a> {
        self.values.part(item * self.width..(item + 1) * self.width)
    }

    /// One row per item.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'a>> + Clone + use<'a> {
        let features = *self;
        (0..self.items()).map(move |item| features.row(item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_whole_and_finite() {
        let features = Features::new(&[1.0, 2.0, 3.0, 4.0], 2).unwrap();
        assert_eq!((features.items(), features.width()), (2, 2));
        assert_eq!(features.rows().nth(1), Some(Row::Single(&[3.0, 4.0])));
        assert_eq!(features.row(1).iter().collect::<Vec<_>>(), [3.0, 4.0]);
        let error = |values: &[f32], width| Features::new(values, width).unwrap_err().to_string();
        assert_eq!(error(&[], 0), "features need a width of at least 1");
        assert_eq!(error(&[0.0; 5], 2), "5 values are not whole rows of 2");
        assert_eq!(
            error(&[0.0, 1.0, 2.0, 3.0, f32::NAN, 5.0], 2),
            "feature 0 of item 2 is NaN"
        );
        let large = Features::of_doubles(&[0.0, 1e39], 1).unwrap_err();
        assert_eq!(
            large.to_string(),
            format!("feature 0 of item 1 is {}", 1e39)
        );
    }

    #[test]
    fn a_mean_keeps_its_digits_under_an_offset() {
        let values: Vec<f64> = (0..10_000).map(|i| 1e8 + f64::from(i % 8)).collect();
        let mean = Features::mean(&[Features::of_doubles(&values, 1).unwrap()]);
        assert_eq!(mean, [1e8 + 3.5]);
        assert_eq!(Features::mean(&[Features::new(&[], 2).unwrap()]), [0.0; 2]);
    }
}
