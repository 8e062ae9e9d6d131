//! What fully labelled items say about predictions.

use super::isotonic::{Curve, Observation};

/// Audited items that get weight for a joint class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contamination {
    /// How many.
    pub items: usize,
    /// Share of their weight on wrong items, as posteriors predict it.
    pub predicted: f64,
    /// The same, measured.
    pub measured: f64,
    /// Standard error of what was measured.
    pub standard_error: f64,
}

/// The curve nearest to posteriors and whether they were right; none of nothing.
pub fn curve(seen: &[(f64, bool)]) -> Option<Curve> {
    let observation = |&(at, right): &(f64, bool)| Observation {
        at,
        value: f64::from(u8::from(right)),
        weight: 1.0,
    };
    Curve::fit(&seen.iter().map(observation).collect::<Vec<_>>())
}

/// Of items with log weight, posterior and truth.
pub fn contamination(items: &[(f64, f64, bool)]) -> Contamination {
    let largest = items
        .iter()
        .map(|(w, ..)| *w)
        .fold(f64::NEG_INFINITY, f64::max);
    let weighed = |&(w, p, right): &(f64, f64, bool)| ((w - largest).exp(), p, right);
    let items: Vec<(f64, f64, bool)> = items.iter().map(weighed).collect();
    let total: f64 = items.iter().map(|(w, ..)| w).sum();
    let share = |of: &dyn Fn(f64, bool) -> f64| {
        items
            .iter()
            .map(|&(w, p, right)| w * of(p, right))
            .sum::<f64>()
            / total
    };
    let measured = share(&|_, right| f64::from(u8::from(!right)));
    let squares: f64 = items
        .iter()
        .map(|&(w, _, right)| (w / total * (f64::from(u8::from(!right)) - measured)).powi(2))
        .sum();
    Contamination {
        items: items.len(),
        predicted: share(&|posterior, _| 1.0 - posterior),
        measured,
        standard_error: squares.sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contamination_is_a_share_of_weight() {
        let found = contamination(&[(-2000.0 + 3.0_f64.ln(), 0.9, true), (-2000.0, 0.5, false)]);
        assert!(found.items == 2 && (found.measured - 0.25).abs() < 1e-9);
        assert!((found.predicted - 0.2).abs() < 1e-9);
        // Weights 3/4 and 1/4, distances 1/4 and 3/4 from the share.
        let wanted = (0.1875_f64.powi(2) * 2.0).sqrt();
        assert!((found.standard_error - wanted).abs() < 1e-9);
    }
}
