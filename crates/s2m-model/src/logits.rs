//! Classifier outputs of many proposals, one row each.

use s2m_core::weight::Evidence;

/// Logits of a run of proposals: one row of `width` numbers each.
///
/// A row holds the class logits, the real logit, and for conditional generators the fake-class
/// logits, in this order.
#[derive(Debug, Clone, PartialEq)]
pub struct Logits {
    shape: RowShape,
    values: Vec<f32>,
}

/// What one row holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowShape {
    /// Number of labels.
    pub labels: usize,
    /// Whether fake-class logits follow.
    pub conditional: bool,
}

impl RowShape {
    /// Numbers in a row.
    pub fn width(self) -> usize {
        self.labels + 1 + if self.conditional { self.labels } else { 0 }
    }

    /// One row as evidence.
    pub fn evidence(self, row: &[f32]) -> Evidence<'_> {
        Evidence {
            class_logits: &row[..self.labels],
            real_logit: row[self.labels],
            fake_class_logits: self.conditional.then(|| &row[self.labels + 1..]),
            log_latent_ratio: 0.0,
        }
    }
}

impl Logits {
    /// Room for `rows` rows, all zero.
    pub fn zeros(shape: RowShape, rows: usize) -> Self {
        Self {
            shape,
            values: vec![0.0; rows * shape.width()],
        }
    }

    /// Rows that were stored earlier; none where the numbers do not fill whole rows.
    pub fn from_values(shape: RowShape, values: Vec<f32>) -> Option<Self> {
        values
            .len()
            .is_multiple_of(shape.width())
            .then_some(Self { shape, values })
    }

    /// What a row holds.
    pub fn shape(&self) -> RowShape {
        self.shape
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.shape.width()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// One row as evidence.
    pub fn evidence(&self, row: usize) -> Evidence<'_> {
        self.shape.evidence(self.row(row))
    }

    /// One row.
    pub fn row(&self, row: usize) -> &[f32] {
        let width = self.shape.width();
        &self.values[row * width..(row + 1) * width]
    }

    /// All numbers, row by row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All numbers, row by row, to be filled.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// Adds the rows of another run of proposals.
    pub fn append(&mut self, other: &Self) {
        debug_assert_eq!(self.shape, other.shape, "rows of one bundle have one shape");
        self.values.extend_from_slice(&other.values);
    }
}
