//! Classifier outputs of many proposals, one row each.

use s2m_core::joint::{SetLogits, SetShape};
use s2m_core::weight::Evidence;

/// Logits of a run of proposals: one row of `width` numbers each.
///
/// A row holds the class logits, the real logit, for conditional generators the fake-class logits, and what is
/// kept of the logits of label sets, in this order.
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
    /// Outputs of the joint head; zero without one.
    pub joint: usize,
    /// Further outputs of its form.
    pub members: usize,
}

impl RowShape {
    /// Numbers in a row.
    pub fn width(self) -> usize {
        self.first_set() + (usize::from(self.joint > 0) + self.members) * self.sets().width()
    }

    /// How logits of label sets are kept.
    pub fn sets(self) -> SetShape {
        SetShape::of(self.joint)
    }

    /// Where what is kept of them begins.
    fn first_set(self) -> usize {
        self.labels + 1 + if self.conditional { self.labels } else { 0 }
    }

    fn sets_at(self, row: &[f32], at: usize) -> SetLogits<'_> {
        let width = self.sets().width();
        let first = self.first_set() + at * width;
        self.sets().read(&row[first..first + width])
    }

    /// What a further network says about the label set; the shape must have that many.
    pub fn member(self, row: &[f32], member: usize) -> SetLogits<'_> {
        self.sets_at(row, member + 1)
    }

    /// Fills a row from the network's outputs for one item, in the row's order.
    pub fn fill<'o>(self, row: &mut [f32], outputs: impl IntoIterator<Item = &'o [f32]>) {
        let (plain, sets) = row.split_at_mut(self.first_set());
        let mut outputs = outputs.into_iter();
        let mut at = 0;
        while at < plain.len() {
            let output = outputs.next().unwrap_or_default();
            plain[at..at + output.len()].copy_from_slice(output);
            at += output.len().max(1);
        }
        for (kept, logits) in sets
            .chunks_exact_mut(self.sets().width().max(1))
            .zip(outputs)
        {
            self.sets().keep(logits, kept);
        }
    }

    /// One row as evidence.
    pub fn evidence(self, row: &[f32]) -> Evidence<'_> {
        Evidence {
            class_logits: &row[..self.labels],
            real_logit: row[self.labels],
            fake_class_logits: self
                .conditional
                .then(|| &row[self.labels + 1..self.first_set()]),
            joint: (self.joint > 0).then(|| self.sets_at(row, 0)),
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
