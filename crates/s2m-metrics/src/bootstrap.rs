//! How sure a metric is: 95 % intervals for each of them, and where they come from.
//!
//! | metric | interval | it covers |
//! |---|---|---|
//! | accuracy, copying | Wilson's | the draw of the items |
//! | KID, mean pairwise distance | normal, by a delete-one jackknife | the draw of all items |
//! | FID | Student's, by a jackknife over 20 groups | the draw of all items, not the bias of FID |
//! | Inception score | percentile bootstrap in every split | the draw of the items, at fixed marginals |
//! | precision, density | percentile bootstrap over generated items | their draw; real items are fixed |
//! | recall, coverage | percentile bootstrap over real items | their draw; generated items are fixed |
//!
//! None covers the error of the network behind the features. A bootstrap draws as many items as
//! there are, with replacement, and takes the 2.5 % and 97.5 % quantiles of the means, with linear
//! interpolation as numpy's `quantile`. It is used for means alone. FID on a bootstrap sample is
//! larger than on the items themselves, since repeated items shrink its covariance, so FID is not
//! bootstrapped at all.
//!
//! Reference: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 11 and 13.

use s2m_core::proposals::{Proposals, Purpose};
use s2m_core::streams::metrics;

use crate::accuracy::Z_95;

/// A value and its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
}

impl Estimate {
    /// Normal 95 % interval.
    pub fn interval(&self) -> [f64; 2] {
        let half = Z_95 * self.standard_error;
        [self.value - half, self.value + half]
    }
}

/// Standard error out of the values of a statistic without each of its items (or groups) in turn.
pub(crate) fn leave_one_out_error(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    ((n - 1.0) / n * squares).sqrt()
}

/// How items are drawn again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bootstrap {
    /// Number of times that all items are drawn.
    pub resamples: usize,
    /// Seed of the draws; the same seed gives the same interval.
    pub seed: u64,
}

impl Default for Bootstrap {
    /// A thousand resamples of seed 0.
    fn default() -> Self {
        Self {
            resamples: 1000,
            seed: 0,
        }
    }
}

impl Bootstrap {
    /// Percentile interval at 95 % of the mean of `values`; none without values or resamples.
    pub fn interval_of_mean(&self, values: &[f64]) -> Option<[f64; 2]> {
        if values.is_empty() {
            return None;
        }
        central_95(self.means(metrics::GROUPS, values))
    }

    /// Means of resampled `values`. Each `group` of values has random numbers of its own.
    pub(crate) fn means(&self, group: u16, values: &[f64]) -> Vec<f64> {
        let n = values.len();
        let random = Proposals::new(self.seed).at_stage(group);
        let mut uniform = vec![0.0; n];
        let mean = |resample: usize| {
            random.fill_uniform(Purpose::Resample, (resample * n) as u64, &mut uniform);
            let drawn = uniform.iter().map(|u| values[(u * n as f64) as usize]);
            drawn.sum::<f64>() / n as f64
        };
        (0..self.resamples).map(mean).collect()
    }
}

/// The 2.5 % and 97.5 % quantiles; none of nothing.
pub(crate) fn central_95(mut values: Vec<f64>) -> Option<[f64; 2]> {
    values.sort_unstable_by(f64::total_cmp);
    Some([quantile(&values, 0.025)?, quantile(&values, 0.975)?])
}

/// A quantile of ascending values, with linear interpolation; none of nothing.
pub(crate) fn quantile(ascending: &[f64], share: f64) -> Option<f64> {
    let last = ascending.len().checked_sub(1)?;
    let place = share * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    let part = place - below as f64;
    Some(ascending[below] + part * (ascending[above] - ascending[below]))
}

#[cfg(test)]
mod tests {
    use super::*;

    // numpy 2.4.6: [np.quantile([1., 2., 4., 8., 16.], q) for q in (0.025, 0.5, 0.975)]
    #[test]
    fn quantiles_are_numpys() {
        let values = [1.0, 2.0, 4.0, 8.0, 16.0];
        for (share, wanted) in [
            (0.025, 1.1),
            (0.5, 4.0),
            (0.975, 15.2),
            (0.0, 1.0),
            (1.0, 16.0),
        ] {
            let found = quantile(&values, share).unwrap();
            assert!((found - wanted).abs() < 1e-12, "{found}");
        }
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(central_95(vec![3.0]), Some([3.0, 3.0]));
    }

    /// For a mean, the jackknife is the textbook's `s/√n`.
    #[test]
    fn the_jackknife_of_a_mean_on_paper() {
        // Of 1, 2, 6, whose variance (N − 1) is 7.
        let without = [4.0, 3.5, 1.5];
        assert!((leave_one_out_error(&without) - (7.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn an_interval_is_a_function_of_its_seed() {
        let values: Vec<f64> = (0..200).map(|i| f64::from(i * i % 37)).collect();
        let interval = |seed| {
            Bootstrap {
                resamples: 500,
                seed,
            }
            .interval_of_mean(&values)
        };
        assert_eq!(interval(1), interval(1));
        assert_ne!(interval(1), interval(2));
        assert_eq!(Bootstrap::default().interval_of_mean(&[]), None);
        assert_eq!(
            Bootstrap::default().interval_of_mean(&[2.0; 9]),
            Some([2.0, 2.0])
        );
    }

    /// The width is that of the normal interval, up to the error of its ends: a quantile at 2.5 % of
    /// R resamples has a standard error of `√(0.025 · 0.975 / R) / φ(1.96)`, 0.054 deviations here.
    #[test]
    fn intervals_of_means_are_as_wide_as_they_should_be() {
        let values: Vec<f64> = (0..1000).map(|i| f64::from(i * i % 997)).collect();
        let bootstrap = Bootstrap {
            resamples: 2500,
            seed: 3,
        };
        let [low, high] = bootstrap.interval_of_mean(&values).unwrap();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        let error = (variance / n).sqrt();
        let of_end = (0.025_f64 * 0.975 / 2500.0).sqrt() / 0.058_445;
        for (end, wanted) in [(low, mean - Z_95 * error), (high, mean + Z_95 * error)] {
            assert!(
                (end - wanted).abs() < 5.0 * of_end * error,
                "{end} {wanted}"
            );
        }
    }
}
