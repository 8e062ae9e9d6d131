//! Predicted against seen: how right probabilities are.

use super::sureness::softmax;

/// Predicted against seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Reliability {
    /// The curve.
    pub curve: Vec<Bin>,
    /// Mean distance of prediction and truth over the bins.
    pub error: f64,
}

/// Items with about the same predicted probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    /// Share of all items.
    pub weight: f64,
    /// Mean prediction.
    pub predicted: f64,
    /// Share of items for which it was so.
    pub seen: f64,
}

/// Bins of a reliability curve.
const BINS: usize = 10;

/// Of items with about the same predicted probability: the mean prediction and the share for which it
/// was so, by weight.
pub fn reliability(items: impl Iterator<Item = (f64, bool, f64)>) -> Reliability {
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

/// Predicted and seen shares of real items, from log odds of real and of generated ones, both sides
/// counting alike.
pub fn of_odds([real, generated]: &[Vec<f64>; 2]) -> Reliability {
    let of = |(side, is_real): (&Vec<f64>, bool)| -> Vec<(f64, bool, f64)> {
        let weight = 1.0 / side.len().max(1) as f64;
        let item = |log_odds: &f64| (1.0 / (1.0 + (-log_odds).exp()), is_real, weight);
        side.iter().map(item).collect()
    };
    reliability([(real, true), (generated, false)].into_iter().flat_map(of))
}

/// Predicted and seen shares of labels, every label of every item once, from logits in rows and the label of each.
pub fn of_classes(rows: &[f32], classes: usize, labels: &[u8], temperature: f64) -> Reliability {
    let each = rows
        .chunks_exact(classes.max(1))
        .zip(labels)
        .flat_map(|(row, &label)| {
            let seen = usize::from(label);
            let of = move |(label, p)| (p, label == seen, 1.0);
            softmax(row, temperature).into_iter().enumerate().map(of)
        });
    reliability(each)
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

    /// Logits (0, log 3): probabilities 1/4 and 3/4, which are seen in these shares.
    #[test]
    fn labels_are_seen_as_often_as_logits_say() {
        let rows = [0.0, 3.0_f32.ln()].repeat(4);
        let found = of_classes(&rows, 2, &[0, 1, 1, 1], 1.0);
        assert!(found.error < 1e-7, "{found:?}");
        assert_eq!(found.curve.len(), 2);
        let found = of_classes(&rows, 2, &[1, 1, 1, 1], 1.0);
        assert!((found.error - 0.25).abs() < 1e-7, "{found:?}");
        // Odds of 1 for three real items and one generated one: 1/2 is predicted on both sides, which count alike.
        assert_eq!(of_odds(&[vec![0.0; 3], vec![0.0]]).error, 0.0);
    }
}
