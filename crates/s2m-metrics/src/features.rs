//! Features of items, one row each, checked once.

use thiserror::Error;

/// Why numbers are not features.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FeaturesError {
    /// Rows without columns.
    #[error("features need a width of at least 1")]
    NoWidth,
    /// The last row is not whole.
    #[error("{values} values are not whole rows of {width}")]
    Ragged {
        /// Number of values.
        values: usize,
        /// Values in a row.
        width: usize,
    },
    /// A value is not finite.
    #[error("feature {column} of item {row} is {value}")]
    NotFinite {
        /// Which item.
        row: usize,
        /// Which feature.
        column: usize,
        /// The offending value.
        value: f32,
    },
}

/// Why features do not suit a metric.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SizeError {
    /// The two sides come from different networks or layers.
    #[error("real features are {real} wide and generated ones {generated}")]
    Width {
        /// Width of the real side.
        real: usize,
        /// Width of the generated side.
        generated: usize,
    },
    /// A side has too few items.
    #[error("{metric} needs at least {needed} {side} items, got {items}")]
    TooFew {
        /// Which metric.
        metric: &'static str,
        /// `real`, `generated` or `training`.
        side: &'static str,
        /// Items on that side.
        items: usize,
        /// The fewest that will do.
        needed: usize,
    },
}

impl SizeError {
    /// Both sides must be of one width.
    pub(crate) fn check_widths(
        real: Features<'_>,
        generated: Features<'_>,
    ) -> Result<(), SizeError> {
        let (real, generated) = (real.width(), generated.width());
        if real == generated {
            Ok(())
        } else {
            Err(SizeError::Width { real, generated })
        }
    }

    /// A side must have at least `needed` items.
    pub(crate) fn check_items(
        metric: &'static str,
        side: &'static str,
        features: Features<'_>,
        needed: usize,
    ) -> Result<(), SizeError> {
        let items = features.items();
        if items >= needed {
            Ok(())
        } else {
            Err(SizeError::TooFew {
                metric,
                side,
                items,
                needed,
            })
        }
    }
}

/// Finite features of items, row after row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Features<'a> {
    values: &'a [f32],
    width: usize,
}

impl<'a> Features<'a> {
    /// Rows of `width` values each.
    pub fn new(values: &'a [f32], width: usize) -> Result<Self, FeaturesError> {
        if width == 0 {
            return Err(FeaturesError::NoWidth);
        }
        if !values.len().is_multiple_of(width) {
            let values = values.len();
            return Err(FeaturesError::Ragged { values, width });
        }
        match values.iter().position(|v| !v.is_finite()) {
            None => Ok(Self { values, width }),
            Some(at) => Err(FeaturesError::NotFinite {
                row: at / width,
                column: at % width,
                value: values[at],
            }),
        }
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
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// The features of one item.
    pub fn row(&self, item: usize) -> &'a [f32] {
        &self.values[item * self.width..][..self.width]
    }

    /// One row per item.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &'a [f32]> + Clone {
        self.values.chunks_exact(self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_whole_and_finite() {
        let features = Features::new(&[1.0, 2.0, 3.0, 4.0], 2).unwrap();
        assert_eq!((features.items(), features.width()), (2, 2));
        assert_eq!(features.rows().nth(1), Some(&[3.0, 4.0][..]));
        assert_eq!(features.row(1), [3.0, 4.0]);
        let error = |values: &[f32], width| Features::new(values, width).unwrap_err().to_string();
        assert_eq!(error(&[], 0), "features need a width of at least 1");
        assert_eq!(error(&[0.0; 5], 2), "5 values are not whole rows of 2");
        assert_eq!(
            error(&[0.0, 1.0, 2.0, 3.0, f32::NAN, 5.0], 2),
            "feature 0 of item 2 is NaN"
        );
    }
}
