//! Total variation between a histogram of samples and exact bin probabilities.
//!
//! ```text
//! TV = ½ Σ_bins |count/n − p|
//! ```
//!
//! A perfect sampler does not reach zero either. Each count is binomial, nearly normal with standard
//! deviation `√(p(1−p)/n)` in share, so its expected distance is about
//!
//! ```text
//! floor(n) = ½ Σ_bins √(2 p (1−p) / (π n))
//! ```
//!
//! The bins' own truth is what is compared: structure finer than a bin is not seen.

use crate::error::Error;

/// How far probabilities may sum from 1.
const SUM_TOLERANCE: f64 = 1e-6;

/// Total variation distance of counted samples from the truth, in `[0, 1]`.
pub fn total_variation(counts: &[u64], probabilities: &[f64]) -> Result<f64, Error> {
    if counts.len() != probabilities.len() {
        return Err(Error::mismatch(format!(
            "there are {} counts and {} bin probabilities",
            counts.len(),
            probabilities.len()
        )));
    }
    check(probabilities)?;
    let n: u64 = counts.iter().sum();
    if n == 0 {
        return Err(no_samples());
    }
    let gap = |(&count, &p): (&u64, &f64)| (count as f64 / n as f64 - p).abs();
    Ok(0.5 * counts.iter().zip(probabilities).map(gap).sum::<f64>())
}

/// About the distance that `samples` perfect samples are expected to have.
pub fn expected_floor(probabilities: &[f64], samples: usize) -> Result<f64, Error> {
    check(probabilities)?;
    if samples == 0 {
        return Err(no_samples());
    }
    let gap = |p: &f64| (2.0 * p * (1.0 - p) / (std::f64::consts::PI * samples as f64)).sqrt();
    Ok(0.5 * probabilities.iter().map(gap).sum::<f64>())
}

fn no_samples() -> Error {
    Error::too_few("total variation needs at least one sample")
}

fn check(probabilities: &[f64]) -> Result<(), Error> {
    let outside = |p: &f64| !(0.0..=1.0).contains(p);
    if let Some(bin) = probabilities.iter().position(outside) {
        let value = probabilities[bin];
        return Err(Error::value(format!(
            "the probability of bin {bin} is {value}"
        )));
    }
    let sum: f64 = probabilities.iter().sum();
    if (sum - 1.0).abs() > SUM_TOLERANCE {
        return Err(Error::value(format!(
            "the bin probabilities sum to {sum}, not to 1"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_on_paper() {
        let found = total_variation(&[5, 3, 2], &[0.2, 0.5, 0.3]).unwrap();
        assert!((found - 0.3).abs() < 1e-12);
        assert_eq!(total_variation(&[0, 4], &[1.0, 0.0]).unwrap(), 1.0);
        assert_eq!(total_variation(&[1, 1], &[0.5, 0.5]).unwrap(), 0.0);
    }

    /// `E|X/n − p|` of a binomial count, summed over all its values.
    fn exact_gap(p: f64, n: u16) -> f64 {
        let mut probability = (1.0 - p).powi(i32::from(n));
        let mut sum = 0.0;
        for k in 0..=n {
            sum += probability * (f64::from(k) / f64::from(n) - p).abs();
            probability *= f64::from(n - k) / f64::from(k + 1) * p / (1.0 - p);
        }
        sum
    }

    #[test]
    fn the_floor_is_the_expected_distance_of_a_perfect_sampler() {
        let probabilities = [0.1, 0.2, 0.3, 0.4];
        for n in [200, 1000] {
            let exact = 0.5 * probabilities.iter().map(|&p| exact_gap(p, n)).sum::<f64>();
            let found = expected_floor(&probabilities, usize::from(n)).unwrap();
            assert!((found / exact - 1.0).abs() < 0.01, "{found} {exact}");
        }
        // Two even bins on paper: both gaps are √(1 / (2π n)).
        let found = expected_floor(&[0.5, 0.5], 100).unwrap();
        assert!((found - (1.0 / (200.0 * std::f64::consts::PI)).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn what_has_no_distance_is_named() {
        let error = |counts: &[u64], p: &[f64]| total_variation(counts, p).unwrap_err().to_string();
        assert_eq!(
            error(&[1], &[0.5, 0.5]),
            "there are 1 counts and 2 bin probabilities"
        );
        assert_eq!(
            error(&[0, 0], &[0.5, 0.5]),
            "total variation needs at least one sample"
        );
        assert_eq!(
            error(&[1, 1], &[0.5, 0.4]),
            "the bin probabilities sum to 0.9, not to 1"
        );
        assert_eq!(
            error(&[1, 1], &[1.5, -0.5]),
            "the probability of bin 0 is 1.5"
        );
        assert_eq!(
            error(&[1, 1], &[0.5, f64::NAN]),
            "the probability of bin 1 is NaN"
        );
    }
}
