//! Lower triangular matrices in tiles of four by four, and the few things mixtures need of them.
//!
//! Every sum of products here is one small kernel, [`outer_sum`], over columns of four numbers that
//! lie side by side: Cholesky factors, whitened points and scatter matrices all come from it. A sum
//! always runs in the same order, so results do not depend on how work is shared out.

use std::ops::Range;

use super::wide::wide;

/// Rows and columns of a tile.
pub(super) const TILE: usize = 4;

/// Four numbers that are worked on together.
pub(super) type Column = [f64; TILE];

/// Points whose products are summed before they are added to a scatter matrix.
const PANEL: usize = 128;

/// `sum[c][r] = Σ_j a[j][r]·b[j][c]`.
fn outer_sum(a: &[Column], b: &[Column]) -> [Column; TILE] {
    wide!(plain_outer_sum(a: &[Column], b: &[Column]) -> [Column; TILE])
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled for each width of vectors")]
fn plain_outer_sum(a: &[Column], b: &[Column]) -> [Column; TILE] {
    // Even and odd terms apart, since each sum has to wait for itself.
    let (mut even, mut odd) = ([[0.0; TILE]; TILE], [[0.0; TILE]; TILE]);
    let ((a, last_a), (b, last_b)) = (a.as_chunks::<2>(), b.as_chunks::<2>());
    for (a, b) in a.iter().zip(b) {
        add_outer(&mut even, &a[0], &b[0]);
        add_outer(&mut odd, &a[1], &b[1]);
    }
    for (a, b) in last_a.iter().zip(last_b) {
        add_outer(&mut even, a, b);
    }
    for (even, odd) in even.iter_mut().flatten().zip(odd.iter().flatten()) {
        *even += odd;
    }
    even
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled for each width of vectors")]
fn add_outer(sum: &mut [Column; TILE], a: &Column, b: &Column) {
    for (sum, b) in sum.iter_mut().zip(b) {
        for (sum, a) in sum.iter_mut().zip(a) {
            *sum += a * b;
        }
    }
}

/// Where row tile `tile` starts among the columns of a packed lower triangle.
fn offset(tile: usize) -> usize {
    TILE * tile * (tile + 1) / 2
}

/// How many tiles hold `size` numbers.
pub(super) fn tiles(size: usize) -> usize {
    size.div_ceil(TILE)
}

/// The lower half of a symmetric matrix, row tile by row tile; what pads it is zero.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Symmetric {
    size: usize,
    columns: Vec<Column>,
}

impl Symmetric {
    /// The matrix of zeros.
    pub(super) fn zeros(size: usize) -> Self {
        let columns = vec![[0.0; TILE]; offset(tiles(size))];
        Self { size, columns }
    }

    /// A matrix out of its rows, of which the lower half is read.
    pub(super) fn from_rows(size: usize, rows: &[f64]) -> Self {
        let mut matrix = Self::zeros(size);
        for (i, row) in rows.chunks(size).enumerate() {
            for (j, &value) in row[..=i].iter().enumerate() {
                *matrix.at(i, j) = value;
            }
        }
        matrix
    }

    /// Element `(i, j)` with `j ≤ i`.
    fn at(&mut self, i: usize, j: usize) -> &mut f64 {
        &mut self.columns[offset(i / TILE) + j][i % TILE]
    }

    /// `factor·self`, with `term` added to the diagonal.
    pub(super) fn scaled_plus(mut self, factor: f64, term: f64) -> Self {
        self.columns.iter_mut().flatten().for_each(|v| *v *= factor);
        for i in 0..self.size {
            *self.at(i, i) += term;
        }
        self
    }

    /// `self − other`.
    pub(super) fn minus(&self, other: &Self) -> Self {
        let pairs = self.columns.iter().zip(&other.columns);
        let columns = pairs.map(|(a, b)| std::array::from_fn(|r| a[r] - b[r]));
        Self {
            size: self.size,
            columns: columns.collect(),
        }
    }

    /// The row tiles in at most `parts` pieces of about equal work: which, and their columns.
    pub(super) fn pieces(&mut self, parts: usize) -> Vec<(Range<usize>, &mut [Column])> {
        let all = tiles(self.size);
        let mut rest = self.columns.as_mut_slice();
        let mut start = 0;
        let mut pieces = Vec::new();
        for part in 1..=parts {
            // The work of the rows before tile t grows as t².
            let end = (all as f64 * (part as f64 / parts as f64).sqrt()).round() as usize;
            let (piece, after) = rest.split_at_mut(offset(end) - offset(start));
            pieces.push((start..end, piece));
            (rest, start) = (after, end);
        }
        pieces
    }

    /// The Cholesky factor, or the first row at which the matrix is not positive definite.
    pub(super) fn cholesky(self) -> Result<Triangle, usize> {
        let Self { size, mut columns } = self;
        for i in 0..tiles(size) {
            let (before, own) = columns.split_at_mut(offset(i));
            for j in 0..=i {
                let (left, rest) = own.split_at_mut(TILE * j);
                let tile = &mut rest[..TILE];
                let above = if j < i {
                    &before[offset(j)..]
                } else {
                    &left[..]
                };
                subtract(tile, &outer_sum(left, &above[..TILE * j]));
                if j < i {
                    divide(tile, &before[offset(j) + TILE * j..][..TILE]);
                } else {
                    let padding = (TILE * (i + 1)).saturating_sub(size);
                    for (c, column) in tile.iter_mut().enumerate().skip(TILE - padding) {
                        column[c] = 1.0;
                    }
                    factorise(tile).map_err(|row| TILE * i + row)?;
                }
            }
        }
        Ok(Triangle::from_columns(size, columns))
    }
}

fn subtract(tile: &mut [Column], sum: &[Column; TILE]) {
    for (a, b) in tile.iter_mut().flatten().zip(sum.iter().flatten()) {
        *a -= b;
    }
}

/// `tile · (diagonalᵀ)⁻¹`, where `diagonal` is lower triangular.
fn divide(tile: &mut [Column], diagonal: &[Column]) {
    for c in 0..TILE {
        let (done, own) = tile.split_at_mut(c);
        for (r, value) in own[0].iter_mut().enumerate() {
            let pairs = done.iter().zip(diagonal);
            let sum: f64 = pairs.map(|(a, b)| a[r] * b[c]).sum();
            *value = (*value - sum) / diagonal[c][c];
        }
    }
}

/// The Cholesky factor of one tile in place, or the row at which there is none.
fn factorise(tile: &mut [Column]) -> Result<(), usize> {
    for c in 0..TILE {
        let (done, own) = tile.split_at_mut(c);
        let own = &mut own[0];
        for (r, value) in own.iter_mut().enumerate() {
            *value -= done.iter().map(|a| a[r] * a[c]).sum::<f64>();
        }
        let pivot = own[c];
        if !(pivot > 0.0 && pivot.is_finite()) {
            return Err(c);
        }
        for (r, value) in own.iter_mut().enumerate() {
            *value = if r < c { 0.0 } else { *value / pivot.sqrt() };
        }
    }
    Ok(())
}

/// A lower triangular matrix with a positive diagonal; what pads it is the identity.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Triangle {
    size: usize,
    columns: Vec<Column>,
    /// One over the diagonal, padding included.
    inverse: Vec<f64>,
}

impl Triangle {
    fn from_columns(size: usize, columns: Vec<Column>) -> Self {
        let padded = TILE * tiles(size);
        let inverse = (0..padded).map(|i| 1.0 / columns[offset(i / TILE) + i][i % TILE]);
        let inverse = inverse.collect();
        Self {
            size,
            columns,
            inverse,
        }
    }

    /// A triangle out of its rows, or the first row whose diagonal is not positive.
    pub(super) fn from_rows(size: usize, rows: &[f64]) -> Result<Self, usize> {
        let mut matrix = Symmetric::from_rows(size, rows);
        for i in 0..TILE * tiles(size) {
            let place = &mut matrix.columns[offset(i / TILE) + i][i % TILE];
            if i >= size {
                *place = 1.0;
            } else if *place <= 0.0 {
                return Err(i);
            }
        }
        Ok(Self::from_columns(size, matrix.columns))
    }

    /// All rows, with zeros above the diagonal.
    pub(super) fn to_rows(&self) -> Vec<f64> {
        let mut rows = vec![0.0; self.size * self.size];
        for (i, row) in rows.chunks_mut(self.size).enumerate() {
            for (j, value) in row[..=i].iter_mut().enumerate() {
                *value = self.columns[offset(i / TILE) + j][i % TILE];
            }
        }
        rows
    }

    /// The columns of row tile `tile`.
    fn row(&self, tile: usize) -> &[Column] {
        &self.columns[offset(tile)..offset(tile + 1)]
    }

    /// Logarithm of the determinant.
    pub(super) fn log_determinant(&self) -> f64 {
        -self.inverse.iter().map(|v| v.ln()).sum::<f64>()
    }

    /// Solves `self · y = x` in place for groups of four points, each padded to whole tiles:
    /// number `j` of the four points is one column.
    pub(super) fn solve(&self, groups: &mut [Column]) {
        self.solve_from(0, groups);
    }

    /// Solves for points of which all numbers before tile `first` are zero.
    fn solve_from(&self, first: usize, groups: &mut [Column]) {
        let triangle = self;
        wide!(plain_solve(triangle: &Triangle, first: usize, groups: &mut [Column]) -> ());
    }

    /// Trace of the inverse of `self · selfᵀ`: the sum of squares of the inverse of `self`.
    pub(super) fn trace_of_inverse(&self) -> f64 {
        let tiles = tiles(self.size);
        let mut group = vec![[0.0; TILE]; TILE * tiles];
        let mut trace = 0.0;
        for first in 0..tiles {
            // Four columns of the identity; the inverse is zero above them.
            let own = &mut group[TILE * first..];
            own.fill([0.0; TILE]);
            let lanes = TILE.min(self.size - TILE * first);
            for (lane, column) in own.iter_mut().enumerate().take(lanes) {
                column[lane] = 1.0;
            }
            self.solve_from(first, &mut group);
            let squares = group[TILE * first..].iter().flatten().map(|v| v * v);
            trace += squares.sum::<f64>();
        }
        trace
    }

    /// `self · x`, handed out number by number; `x` is padded to whole tiles.
    pub(super) fn multiply(&self, x: &[f64], mut each: impl FnMut(usize, f64)) {
        for tile in 0..tiles(self.size) {
            let mut sum = [0.0; TILE];
            for (column, x) in self.row(tile).iter().zip(x) {
                for (sum, value) in sum.iter_mut().zip(column) {
                    *sum += value * x;
                }
            }
            let rows = self.size.min(TILE * (tile + 1)) - TILE * tile;
            for (r, &value) in sum[..rows].iter().enumerate() {
                each(TILE * tile + r, value);
            }
        }
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled for each width of vectors")]
fn plain_solve(triangle: &Triangle, first: usize, groups: &mut [Column]) {
    let tiles = tiles(triangle.size);
    for tile in first..tiles {
        let row = triangle.row(tile);
        for group in groups.chunks_exact_mut(TILE * tiles) {
            let (done, rest) = group.split_at_mut(TILE * tile);
            let (before, diagonal) = row.split_at(TILE * tile);
            let sum = outer_sum(&done[TILE * first..], &before[TILE * first..]);
            for r in 0..TILE {
                let mut value: Column = std::array::from_fn(|lane| rest[r][lane] - sum[r][lane]);
                for (column, known) in diagonal.iter().zip(&rest[..r]) {
                    for (value, known) in value.iter_mut().zip(known) {
                        *value -= column[r] * known;
                    }
                }
                rest[r] = value.map(|v| v * triangle.inverse[TILE * tile + r]);
            }
        }
    }
}

/// Points of one sum of squares `Σ scale·(x − centre)(x − centre)ᵀ`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scatter<'a, T> {
    /// All points, one after the other.
    pub(super) points: &'a [T],
    /// Which of them count, and how much.
    pub(super) shares: &'a [(usize, f64)],
    /// What is subtracted from each.
    pub(super) centre: &'a [f64],
}

impl<T: Copy + Into<f64>> Scatter<'_, T> {
    /// Adds the row tiles `rows` to `columns`, a piece of a [`Symmetric`].
    pub(super) fn add_to(&self, rows: Range<usize>, columns: &mut [Column]) {
        if rows.is_empty() {
            return;
        }
        let start = offset(rows.start);
        let mut panel = vec![[0.0; TILE]; rows.end * PANEL];
        for shares in self.shares.chunks(PANEL) {
            self.gather(shares, &mut panel);
            let part = |tile: usize| &panel[tile * PANEL..][..shares.len()];
            for i in rows.clone() {
                let row = &mut columns[offset(i) - start..][..TILE * (i + 1)];
                for (j, tile) in row.chunks_exact_mut(TILE).enumerate() {
                    let sum = outer_sum(part(i), part(j));
                    for (a, b) in tile.iter_mut().flatten().zip(sum.iter().flatten()) {
                        *a += b;
                    }
                }
            }
        }
    }

    /// `√scale·(x − centre)` of some points, tile by tile.
    fn gather(&self, shares: &[(usize, f64)], panel: &mut [Column]) {
        let size = self.centre.len();
        for (p, &(item, share)) in shares.iter().enumerate() {
            let root = share.sqrt();
            let point = &self.points[item * size..][..size];
            let values = point.chunks(TILE).zip(self.centre.chunks(TILE));
            for ((x, centre), part) in values.zip(panel.chunks_exact_mut(PANEL)) {
                for ((value, &x), centre) in part[p].iter_mut().zip(x).zip(centre) {
                    *value = root * (x.into() - centre);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A positive definite matrix that is not near the identity.
    fn example(size: usize) -> Vec<f64> {
        let root = |i: usize, j: usize| ((7 * i + 3 * j) % 5) as f64 / 4.0 - 0.4;
        let element = |i: usize, j: usize| {
            let product: f64 = (0..size).map(|m| root(i, m) * root(j, m)).sum();
            product + if i == j { 1.0 + i as f64 / 7.0 } else { 0.0 }
        };
        let all = (0..size * size).map(|k| element(k / size, k % size));
        all.collect()
    }

    #[test]
    fn factors_solutions_and_traces_agree_with_their_definitions() {
        for size in [1, 2, 3, 4, 5, 8, 9, 13] {
            let matrix = example(size);
            let triangle = Symmetric::from_rows(size, &matrix).cholesky().unwrap();
            let rows = triangle.to_rows();
            for i in 0..size {
                for j in 0..size {
                    let product: f64 = (0..size)
                        .map(|m| rows[i * size + m] * rows[j * size + m])
                        .sum();
                    assert!((product - matrix[i * size + j]).abs() < 1e-12, "{size}");
                    assert!(j <= i || rows[i * size + j] == 0.0);
                }
            }
            assert_eq!(Triangle::from_rows(size, &rows).unwrap(), triangle);
            // Two groups of points; point `p` is column `p` of (1, 2, …) / (p + 1).
            let length = TILE * tiles(size);
            let mut groups = vec![[0.0; TILE]; 2 * length];
            let wanted = |p: usize, j: usize| (j + 1) as f64 / (p + 1) as f64 - 0.7;
            for p in 0..8 {
                let x: Vec<f64> = (0..length).map(|j| wanted(p, j)).collect();
                triangle.multiply(&x, |i, value| {
                    groups[p / TILE * length + i][p % TILE] = value;
                });
            }
            triangle.solve(&mut groups);
            for p in 0..8 {
                for j in 0..size {
                    let found = groups[p / TILE * length + j][p % TILE];
                    assert!((found - wanted(p, j)).abs() < 1e-10, "{size} {p} {j}");
                }
            }
            // The trace by solving for each column of the identity.
            let mut trace = 0.0;
            for c in 0..size {
                let mut group = vec![[0.0; TILE]; length];
                group[c][0] = 1.0;
                triangle.solve(&mut group);
                trace += group[..size].iter().map(|v| v[0] * v[0]).sum::<f64>();
            }
            assert!((triangle.trace_of_inverse() - trace).abs() < 1e-12 * trace);
            let log: f64 = (0..size).map(|i| rows[i * size + i].ln()).sum();
            assert!((triangle.log_determinant() - log).abs() < 1e-12);
        }
    }

    #[test]
    fn wide_vectors_change_no_bit() {
        let column = |j: usize| [0.1, 0.7, 1.3, -2.9].map(|v| (v * (j + 1) as f64).sin());
        for length in [0, 1, 2, 7, 128] {
            let a: Vec<Column> = (0..length).map(column).collect();
            let b: Vec<Column> = (0..length).map(|j| column(3 * j + 1)).collect();
            assert_eq!(outer_sum(&a, &b), plain_outer_sum(&a, &b), "{length}");
        }
    }

    #[test]
    fn a_matrix_without_a_factor_names_the_row() {
        let mut matrix = example(6);
        matrix[5 * 6 + 5] = -1.0;
        assert_eq!(Symmetric::from_rows(6, &matrix).cholesky(), Err(5));
        matrix[0] = f64::NAN;
        assert_eq!(Symmetric::from_rows(6, &matrix).cholesky(), Err(0));
    }

    #[test]
    fn scatter_is_the_same_in_any_number_of_pieces() {
        let (size, items) = (11, 300);
        let points: Vec<f32> = (0..size * items)
            .map(|k| ((k * k + 3 * k) % 101) as f32 / 50.0)
            .collect();
        let shares: Vec<(usize, f64)> = (0..items).map(|i| (i, 1.0 / (1 + i % 7) as f64)).collect();
        let centre: Vec<f64> = (0..size).map(|j| j as f64 / 10.0).collect();
        let scatter = Scatter {
            points: &points,
            shares: &shares,
            centre: &centre,
        };
        let mut whole = Symmetric::zeros(size);
        scatter.add_to(0..tiles(size), &mut whole.columns);
        for parts in [1, 2, 3, 7] {
            let mut found = Symmetric::zeros(size);
            for (rows, columns) in found.pieces(parts) {
                scatter.add_to(rows, columns);
            }
            assert_eq!(found, whole, "{parts}");
        }
        for i in 0..size {
            for j in 0..=i {
                let part = |item: usize, j: usize| f64::from(points[item * size + j]) - centre[j];
                let terms = shares.iter().map(|&(k, s)| s * part(k, i) * part(k, j));
                let wanted: f64 = terms.sum();
                assert!((*whole.at(i, j) - wanted).abs() < 1e-10);
            }
        }
    }
}
