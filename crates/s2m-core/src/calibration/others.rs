//! What networks that had no part in selecting say of generated items, as a curve.
//!
//! Over generated items of all joint classes, weighed as they are drawn: the mean posterior by the others, as a rising function
//! of the posterior by the network that selects.

use super::isotonic::{Curve, Observation};

/// Bins by −log(1 − p): fine where posteriors are near 1, as those of samples are.
const BINS: usize = 40;
const WIDTH: f64 = 0.2;

/// One item of a joint class: its weight, its posterior by the network that selects, and by the others together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// Its share of the weight of the class.
    pub weight: f64,
    /// By the network that selects.
    pub posterior: f64,
    /// By the others.
    pub others: f64,
}

/// The curve; none where nothing has weight.
pub fn curve(items: impl Iterator<Item = Seen>) -> Option<Curve> {
    let mut bins = [[0.0_f64; 3]; BINS];
    for item in items {
        let bin = ((-(-item.posterior).ln_1p() / WIDTH) as usize).min(BINS - 1);
        for (sum, value) in bins[bin].iter_mut().zip([1.0, item.posterior, item.others]) {
            *sum += item.weight * value;
        }
    }
    let seen = bins.iter().filter(|bin| bin[0] > 0.0);
    let observation = |&[weight, at, value]: &[f64; 3]| Observation {
        at: at / weight,
        value: value / weight,
        weight,
    };
    Curve::fit(&seen.map(observation).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_one_bin_count_by_their_weights() {
        let seen = |weight, posterior, others| Seen {
            weight,
            posterior,
            others,
        };
        // Bins are 0.2 wide in −log(1 − p): 0.05 and 0.15 are in the first, 0.9 in a later one.
        let items = [
            seen(1.0, 0.05, 0.0),
            seen(3.0, 0.15, 0.2),
            seen(2.0, 0.9, 0.7),
        ];
        let found = curve(items.into_iter()).unwrap();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(found.at(0.125), 0.15);
        close(found.at(0.9), 0.7);
        assert_eq!(curve([seen(0.0, 0.5, 0.5)].into_iter()), None);
    }
}
