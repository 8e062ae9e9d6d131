//! Mixtures made out of others: moved toward the prior, widened, or set into a larger space.

use super::triangle::Triangle;
use super::{Covariance, Factors, Mixture, MixtureError};

impl Mixture {
    /// The same mixture with every covariance moved to `(1 − share)·Σ + share·I`: few points say little
    /// about a covariance, and the prior's own is never far off.
    pub fn toward_prior(&self, share: f64) -> Result<Self, MixtureError> {
        let covariances = self.covariances_toward_prior(share);
        let moved =
            Self::from_covariances(self.covariance(), &self.weights, &self.means, &covariances)?;
        moved.with_prior_share(self.prior_share)
    }

    /// A mixture with full covariances in which every component has a second, wider one at its place:
    /// moved toward the prior by `toward`, with this share of its weight. A target whose tails are
    /// heavier than those of the components then still has bounded weights nearby.
    pub fn with_wide_copies(&self, share: f64, toward: f64) -> Result<Self, MixtureError> {
        let full = |covariances: Vec<f64>| match self.factors {
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
        };
        let [own, wide] = [0.0, toward].map(|share| full(self.covariances_toward_prior(share)));
        let weights = [1.0 - share, share].map(|part| self.weights.iter().map(move |w| part * w));
        let weights: Vec<f64> = weights.into_iter().flatten().collect();
        let means = self.means.repeat(2);
        let both =
            Self::from_covariances(Covariance::Full, &weights, &means, &[own, wide].concat())?;
        both.with_prior_share(self.prior_share)
    }

    /// A mixture over some orthonormal directions as one over the whole space, which is the prior across
    /// all other directions.
    pub fn embedded(&self, directions: &[Vec<f64>]) -> Result<Self, MixtureError> {
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
