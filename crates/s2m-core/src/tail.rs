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

/// The tail index of the positive weights among `log_weights`, or none where too few are there.
///
/// Bounded weights come out near or below zero. Largest weights that are as good as equal give `-∞`:
/// there is no tail beyond the cut.
pub fn tail_index<S: Series + ?Sized>(log_weights: &S) -> Option<f64> {
    let total = series::finite(log_weights);
    let length = (0.2 * total as f64).min(3.0 * (total as f64).sqrt()).ceil() as usize;
    if length < MIN_TAIL {
        return None;
    }
    let upper = largest_ones(log_weights, length + 1);
    let (cut, tail) = (upper[0], &upper[1..]);
    let largest = tail[length - 1];
    if largest - cut < LEAST_SPREAD {
        return Some(f64::NEG_INFINITY);
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
        return Some(f64::INFINITY);
    }
    let shape = pareto_shape(&excess);
    Some(if shape.is_nan() { f64::INFINITY } else { shape })
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
