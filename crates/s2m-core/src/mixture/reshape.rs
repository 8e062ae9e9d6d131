//! Mixtures made out of others: moved toward the prior, widened, or set into a larger space.

use super::triangle::Triangle;
use super::{Covariance, Factors, Mixture};

use crate::error::Error;

impl Mixture {
    /// The same mixture with every covariance moved to `(1 − share)·Σ + share·I`: few points say little
    /// about a covariance, and the prior's own is never far off.
    pub fn toward_prior(&self, share: f64) -> Result<Self, Error> {
        let covariances = self.covariances_toward_prior(share);
        let moved =
            Self::from_covariances(self.covariance(), &self.weights, &self.means, &covariances)?;
        moved.with_prior_share(self.prior_share)
    }

    /// A mixture with full covariances in which every component has a second, wider one at its place:
    /// moved toward the prior by `toward`, with this share of its weight. A target whose tails are
    /// heavier than those of the components then still has bounded weights nearby.
    pub fn with_wide_copies(&self, share: f64, toward: f64) -> Result<Self, Error> {
        let [own, wide] = [0.0, toward].map(|share| self.full_covariances(share));
        let weights = [1.0 - share, share].map(|part| self.weights.iter().map(move |w| part * w));
        let weights: Vec<f64> = weights.into_iter().flatten().collect();
        let means = self.means.repeat(2);
        let both =
            Self::from_covariances(Covariance::Full, &weights, &means, &[own, wide].concat())?;
        both.with_prior_share(self.prior_share)
    }

    /// Several mixtures as one, each with its share; what share of the prior each had is left out.
    pub fn combined(parts: &[(f64, &Self)]) -> Result<Self, Error> {
        let whole: f64 = parts.iter().map(|(share, _)| share).sum();
        let (mut weights, mut means, mut covariances) = (Vec::new(), Vec::new(), Vec::new());
        for (share, part) in parts {
            weights.extend(part.weights.iter().map(|w| share / whole * w));
            means.extend_from_slice(&part.means);
            covariances.extend(part.full_covariances(0.0));
        }
        Self::from_covariances(Covariance::Full, &weights, &means, &covariances)
    }

    /// Points next to some others, from which a walk goes on: `N(√(1 − b²)·z, b²·I)` around each point `z`,
    /// all alike. Steps of this kind leave the prior as it is.
    pub fn around(points: &[f32], size: usize, step: f64) -> Result<Self, Error> {
        let count = points.len() / size.max(1);
        let shrunk = (1.0 - step * step).max(0.0).sqrt();
        let means: Vec<f64> = points.iter().map(|&z| shrunk * f64::from(z)).collect();
        let variances = vec![step * step; points.len()];
        let weights = vec![1.0 / count.max(1) as f64; count];
        Self::from_covariances(Covariance::Diagonal, &weights, &means, &variances)
    }

    /// What few points in many dimensions tell at once: a normal distribution along the direction of their
    /// mean, with a wider copy, which is the prior across all other directions.
    pub fn along_mean(points: &[f32], size: usize) -> Result<Self, Error> {
        let count = (points.len() / size.max(1)).max(1) as f64;
        let mut direction = vec![0.0; size];
        for point in points.chunks(size.max(1)) {
            for (sum, &value) in direction.iter_mut().zip(point) {
                *sum += f64::from(value) / count;
            }
        }
        let length = direction.iter().map(|v| v * v).sum::<f64>().sqrt();
        for value in &mut direction {
            *value /= length;
        }
        let along = |point: &[f32]| {
            let pairs = point.iter().zip(&direction);
            pairs.map(|(z, d)| f64::from(*z) * d).sum::<f64>()
        };
        let spread = points
            .chunks(size.max(1))
            .map(|point| (along(point) - length).powi(2));
        let variance = spread.sum::<f64>() / count;
        let inner = Self::from_covariances(Covariance::Full, &[1.0], &[length], &[variance])?;
        inner.with_wide_copies(0.3, 0.3)?.embedded(&[direction])
    }

    /// A mixture over some orthonormal directions as one over the whole space, which is the prior across
    /// all other directions.
    pub fn embedded(&self, directions: &[Vec<f64>]) -> Result<Self, Error> {
        let size = directions.first().map_or(0, Vec::len);
        let within = self.size;
        let copies = self.covariances_toward_prior(0.0);
        let mut means = vec![0.0; self.components() * size];
        let mut covariances = Vec::with_capacity(self.components() * size * size);
        for k in 0..self.components() {
            for (direction, along) in directions.iter().zip(self.mean(k)) {
                let mean = &mut means[k * size..(k + 1) * size];
                mean.iter_mut()
                    .zip(direction)
                    .for_each(|(m, d)| *m += along * d);
            }
            let own = |i: usize, j: usize| match self.factors {
                Factors::Full(_) => copies[(k * within + i) * within + j],
                Factors::Shared { .. } => copies[i * within + j],
                Factors::Diagonal { .. } if i == j => copies[k * within + i],
                Factors::Diagonal { .. } => 0.0,
            };
            for row in 0..size {
                for column in 0..size {
                    let mut value = f64::from(u8::from(row == column));
                    for (i, a) in directions.iter().enumerate() {
                        for (j, b) in directions.iter().enumerate() {
                            let change = own(i, j) - f64::from(u8::from(i == j));
                            value += a[row] * change * b[column];
                        }
                    }
                    covariances.push(value);
                }
            }
        }
        let whole = Self::from_covariances(Covariance::Full, &self.weights, &means, &covariances)?;
        whole.with_prior_share(self.prior_share)
    }

    /// The covariance of every component as a full one, row by row, moved toward the prior's.
    fn full_covariances(&self, share: f64) -> Vec<f64> {
        let covariances = self.covariances_toward_prior(share);
        match self.factors {
            Factors::Full(_) => covariances,
            Factors::Shared { .. } => covariances.repeat(self.components()),
            Factors::Diagonal { .. } => {
                let rows = covariances.iter().enumerate();
                rows.flat_map(|(at, value)| {
                    let mut row = vec![0.0; self.size];
                    row[at % self.size] = *value;
                    row
                })
                .collect()
            }
        }
    }

    /// All covariances, moved to `(1 − share)·Σ + share·I`: row by row, variances where they are diagonal,
    /// one where it is shared.
    fn covariances_toward_prior(&self, share: f64) -> Vec<f64> {
        let blend = |value: f64, prior: f64| (1.0 - share) * value + share * prior;
        let blended = |triangle: &Triangle| {
            let (rows, size) = (triangle.to_rows(), self.size);
            let row = |i: usize| &rows[i * size..][..size];
            let mut matrix = vec![0.0; size * size];
            for i in 0..size {
                for j in 0..=i {
                    let pairs = row(i).iter().zip(row(j)).take(j + 1);
                    let dot: f64 = pairs.map(|(a, b)| a * b).sum();
                    let value = blend(dot, f64::from(u8::from(i == j)));
                    (matrix[i * size + j], matrix[j * size + i]) = (value, value);
                }
            }
            matrix
        };
        match &self.factors {
            Factors::Shared { factor, .. } => blended(factor),
            Factors::Full(factors) => factors.iter().flat_map(blended).collect(),
            Factors::Diagonal { deviations, .. } => {
                deviations.iter().map(|s| blend(s * s, 1.0)).collect()
            }
        }
    }
}
