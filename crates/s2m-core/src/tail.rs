//! The Pareto tail index of weights: how heavy is their upper tail?
//!
//! A generalised Pareto distribution is fitted to the largest weights; its shape `k` says which
//! moments exist (those of order below `1/k`). Averages of weights settle slowly for k above 0.5
//! and their standard errors mean little.
//!
//! References: Zhang and Stephens, "A New and Efficient Estimation Method for the Generalized
//! Pareto Distribution", 2009; Vehtari et al., "Pareto Smoothed Importance Sampling", 2024, whose
//! tail length and weak prior at 0.5 are used here.

use crate::series::{self, Series};

/// Fewest tail weights for a fit.
const MIN_TAIL: usize = 25;

/// Largest weights that differ by less than this (in log) have no tail: the largest fifth of even a
/// mild tail spreads over much more, and below it one would fit rounding noise.
const LEAST_SPREAD: f64 = 0.01;

/// This many weights within a factor of two of the largest show that it is no outlier: under a Pareto tail of
/// index `k` they are geometric in number, with mean `2^(1/k) − 1`, and so many come up once in a hundred and
/// twenty times for an index of 0.4, less than once in a thousand for 0.5.
const MIN_NEAR_LARGEST: usize = 25;

/// Standard errors of the index between it and its upper limit: once in twenty it lies above.
const INDEX_ERRORS: f64 = 1.64;

/// Standard errors by which an index must be over a limit, and the most that they allow.
const DECIDING_ERRORS: f64 = 0.75;
const MOST_ALLOWED: f64 = 0.08;

/// Times the expected weight beyond the largest one seen that statements have on top.
pub(crate) const UNSEEN: f64 = 2.0;

/// Largest index for which the mass beyond the largest weight is worked out.
const MAX_INDEX: f64 = 0.9;

/// The upper tail of some weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tail {
    /// The tail index; at most zero where weights are bounded.
    pub index: f64,
    /// Standard error of the index.
    pub error: f64,
    /// Whether many weights lie near the largest, so that there is no tail beyond it to speak of.
    pub bounded: bool,
}

impl Tail {
    /// The tail of the positive weights among `log_weights`, or none where too few are there.
    pub fn of<S: Series + ?Sized>(log_weights: &S) -> Option<Self> {
        let (index, length) = fitted_index(log_weights)?;
        let least = series::largest(log_weights) - std::f64::consts::LN_2;
        let mut near = 0;
        series::each(log_weights, |weight| near += usize::from(weight > least));
        let bounded = near >= MIN_NEAR_LARGEST;
        let index = if bounded { index.min(0.0) } else { index };
        // The asymptotic standard error of the shape of a generalised Pareto distribution.
        let error = (1.0 + index.max(0.0)) / (length as f64).sqrt();
        Some(Self {
            index,
            error,
            bounded,
        })
    }

    /// Whether the index is over a limit by more than its error explains.
    pub fn is_over(&self, limit: f64) -> bool {
        self.index - (DECIDING_ERRORS * self.error).min(MOST_ALLOWED) > limit
    }

    /// Share of all weight that may lie beyond the largest one seen: of a Pareto tail of index `k` the mean
    /// beyond a point is `1/(1 − k)` times it, and of `n` proposals one is expected beyond the largest.
    pub fn unseen(&self, largest_share: f64) -> f64 {
        largest_share / (1.0 - self.upper().clamp(0.0, MAX_INDEX))
    }

    /// The upper limit of the index.
    pub fn upper(&self) -> f64 {
        self.index + INDEX_ERRORS * self.error
    }
}

/// The tail index of the positive weights among `log_weights`, or none where too few are there.
///
/// Bounded weights come out at or below zero. Largest weights that are as good as equal give `-∞`:
/// there is no tail beyond the cut.
pub fn tail_index<S: Series + ?Sized>(log_weights: &S) -> Option<f64> {
    Tail::of(log_weights).map(|tail| tail.index)
}

/// The index that fits best, and the number of weights in the tail.
fn fitted_index<S: Series + ?Sized>(log_weights: &S) -> Option<(f64, usize)> {
    let total = series::finite(log_weights);
    let length = (0.2 * total as f64).min(3.0 * (total as f64).sqrt()).ceil() as usize;
    if length < MIN_TAIL {
        return None;
    }
    let upper = largest_ones(log_weights, length + 1);
    let (cut, tail) = (upper[0], &upper[1..]);
    let largest = tail[length - 1];
    if largest - cut < LEAST_SPREAD {
        return Some((f64::NEG_INFINITY, length));
    }
    // Everything relative to the largest weight, so that nothing overflows.
    let threshold = (cut - largest).exp();
    let excess: Vec<f64> = tail
        .iter()
        .map(|w| (w - largest).exp() - threshold)
        .filter(|&e| e > 0.0)
        .collect();
    // Most of the tail is nothing beside its largest weights: as heavy as can be.
    if excess.len() < MIN_TAIL {
        return Some((f64::INFINITY, length));
    }
    let shape = pareto_shape(&excess);
    let shape = if shape.is_nan() { f64::INFINITY } else { shape };
    Some((shape, length))
}

/// The largest `count` of the finite numbers, in ascending order.
fn largest_ones<S: Series + ?Sized>(log_weights: &S, count: usize) -> Vec<f64> {
    let mut found: Vec<f64> = Vec::with_capacity(2 * count);
    let mut least = f64::NEG_INFINITY;
    series::each(log_weights, |weight| {
        if !weight.is_finite() || weight < least {
            return;
        }
        found.push(weight);
        if found.len() == 2 * count {
            found.select_nth_unstable_by(count, |a, b| b.total_cmp(a));
            found.truncate(count);
            least = found.iter().copied().fold(f64::INFINITY, f64::min);
        }
    });
    found.sort_unstable_by(|a, b| b.total_cmp(a));
    found.truncate(count);
    found.reverse();
    found
}

/// Shape of the generalised Pareto distribution behind ascending positive `excess`.
fn pareto_shape(excess: &[f64]) -> f64 {
    let n = excess.len();
    let grid = 30 + (n as f64).sqrt() as usize;
    let quartile = excess[(n as f64 / 4.0 + 0.5) as usize - 1];
    let largest = excess[n - 1];
    let shape = |b: f64| excess.iter().map(|x| (-b * x).ln_1p()).sum::<f64>() / n as f64;
    let candidates: Vec<(f64, f64)> = (1..=grid)
        .map(|j| {
            let spread = 1.0 - (grid as f64 / (j as f64 - 0.5)).sqrt();
            let b = 1.0 / largest + spread / (3.0 * quartile);
            let k = shape(b);
            (b, n as f64 * ((-b / k).ln() - k - 1.0))
        })
        .filter(|(_, log_likelihood)| log_likelihood.is_finite())
        .collect();
    let best = candidates
        .iter()
        .map(|c| c.1)
        .fold(f64::NEG_INFINITY, f64::max);
    let (mut b, mut total) = (0.0, 0.0);
    for (candidate, log_likelihood) in candidates {
        let weight = (log_likelihood - best).exp();
        b += weight * candidate;
        total += weight;
    }
    let k = shape(b / total);
    // A weak prior, worth ten observations at 0.5, steadies short tails.
    (n as f64 * k + 10.0 * 0.5) / (n as f64 + 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weights at the exact quantiles of a Pareto distribution with shape k.
    fn pareto(k: f64, n: usize) -> Vec<f64> {
        (0..n)
            .map(|i| -k * ((i as f64 + 0.5) / n as f64).ln())
            .collect()
    }

    #[test]
    fn known_tails_are_recovered() {
        for k in [0.2, 0.4, 0.7, 1.0] {
            let found = tail_index(&pareto(k, 20_000)).unwrap();
            assert!((found - k).abs() < 0.06, "k {k} found {found}");
        }
        // Exponential tails have index 0, uniform weights −1; the prior pulls both up a little.
        let exponential: Vec<f64> = (0..20_000)
            .map(|i| (-((i as f64 + 0.5) / 2e4).ln()).ln())
            .collect();
        assert!(tail_index(&exponential).unwrap().abs() < 0.08);
        let uniform: Vec<f64> = (0..20_000).map(|i| ((i as f64 + 0.5) / 2e4).ln()).collect();
        assert!(tail_index(&uniform).unwrap() < -0.8);
    }

    #[test]
    fn a_constant_in_log_space_changes_nothing() {
        let weights = pareto(0.5, 5000);
        let shifted: Vec<f64> = weights.iter().map(|w| w + 700.0).collect();
        let (a, b) = (tail_index(&weights).unwrap(), tail_index(&shifted).unwrap());
        assert!((a - b).abs() < 1e-6);
    }

    #[test]
    fn too_few_or_equal_weights_have_no_tail() {
        assert_eq!(tail_index(&[0.0; 50]), None);
        assert_eq!(tail_index(&vec![f64::NEG_INFINITY; 5000]), None);
        assert_eq!(tail_index(&vec![1.0; 5000]), Some(f64::NEG_INFINITY));
        let noisy: Vec<f64> = pareto(1.0, 5000).iter().map(|w| 1e-6 * w).collect();
        assert_eq!(tail_index(&noisy), Some(f64::NEG_INFINITY));
    }

    /// Five steps, of which the highest is 12 and rare: its few weights used to be fitted as a tail of index 6, or
    /// of −2, as the seed would have it.
    #[test]
    fn weights_that_many_share_are_no_tail() {
        for n in [2000, 5000, 20_000] {
            for high in [30, 60, 200] {
                let logs: Vec<f64> = (0..n)
                    .map(|i| {
                        if i < high {
                            12.0
                        } else {
                            0.25 * 2.0_f64.powi(i % 4)
                        }
                    })
                    .map(f64::ln)
                    .collect();
                let tail = Tail::of(&logs).unwrap();
                assert!(tail.bounded && tail.index <= 0.0, "{n} {high}: {tail:?}");
            }
        }
        // Without many near the largest a tail is a tail.
        assert!(!Tail::of(&pareto(0.4, 20_000)).unwrap().bounded);
    }

    #[test]
    fn what_lies_beyond_the_largest_is_the_mean_excess_of_a_pareto_tail() {
        let tail = Tail {
            index: 0.25,
            error: 0.0,
            bounded: false,
        };
        assert!((tail.unseen(0.003) - 0.004).abs() < 1e-15);
        let over = |index, error| {
            let tail = Tail {
                index,
                error,
                bounded: false,
            };
            tail.is_over(0.4)
        };
        assert!(over(0.41, 0.0) && !over(0.41, 0.1) && over(0.5, 0.5));
    }

    #[test]
    fn a_few_giants_are_a_heavy_tail() {
        let steep: Vec<f64> = (0..5000).map(|k| -40.0 * f64::from(k)).collect();
        assert_eq!(tail_index(&steep), Some(f64::INFINITY));
        let plateau = (0..10_000).map(|k| if k < 20 { 10.0 } else { 0.0 });
        assert_eq!(
            tail_index(&plateau.collect::<Vec<f64>>()),
            Some(f64::INFINITY)
        );
        let steeper: Vec<f64> = (0..5000).map(|k| -8.0 * f64::from(k)).collect();
        assert!(tail_index(&steeper).unwrap() > 0.4);
    }
}
