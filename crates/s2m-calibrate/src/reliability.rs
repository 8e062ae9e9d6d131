//! Predicted against seen: how right probabilities are.

use crate::found::{Bin, Reliability};

/// Bins of a reliability curve.
const BINS: usize = 10;

/// Of items with about the same predicted probability: the mean prediction and the share for which it
/// was so, by weight.
pub(crate) fn reliability(items: impl Iterator<Item = (f64, bool, f64)>) -> Reliability {
    let mut bins = [[0.0_f64; 3]; BINS];
    for (probability, seen, weight) in items {
        let bin = ((probability * BINS as f64) as usize).min(BINS - 1);
        let values = [1.0, probability, f64::from(u8::from(seen))];
        for (sum, value) in bins[bin].iter_mut().zip(values) {
            *sum += weight * value;
        }
    }
    let total: f64 = bins.iter().map(|bin| bin[0]).sum();
    let filled = bins.iter().filter(|bin| bin[0] > 0.0);
    let curve: Vec<Bin> = filled
        .map(|[weight, predicted, seen]| Bin {
            weight: weight / total,
            predicted: predicted / weight,
            seen: seen / weight,
        })
        .collect();
    let error = curve
        .iter()
        .map(|bin| bin.weight * (bin.predicted - bin.seen).abs())
        .sum();
    Reliability { curve, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reliability_curve_weighs_its_items() {
        let found =
            reliability([(0.5, true, 1.0), (0.5, false, 1.0), (1.0, true, 2.0)].into_iter());
        let bin = |weight, predicted, seen| Bin {
            weight,
            predicted,
            seen,
        };
        assert_eq!(found.curve, [bin(0.5, 0.5, 0.5), bin(0.5, 1.0, 1.0)]);
        assert_eq!(found.error, 0.0);
        let found = reliability([(0.8, false, 1.0), (0.25, true, 1.0)].into_iter());
        assert!((found.error - 0.775).abs() < 1e-12);
    }
}
