//! What a small set of fully labelled items says about predictions.
//!
//! Every item meets every joint class: its posterior against whether the class is its own. The rising
//! curve nearest to that corrects what is predicted for samples. Items may be real ones, or samples that
//! a person has labelled; the latter also show what posteriors are worth on generated items.

use std::collections::BTreeMap;

use s2m_core::calibration::isotonic::{Curve, Observation};
use s2m_core::labels::LabelSet;
use s2m_core::query::Query;
use s2m_core::weight::Weighting;

use crate::error::Error;
use crate::found::{AuditFound, Contamination};
use crate::held_out::Rows;
use crate::reliability::reliability;

/// Fewest items that an audit is made of.
pub(super) const FEWEST: usize = 50;

/// The curve, and the report.
pub(super) fn audit(
    rows: &Rows,
    truth: &[LabelSet],
    weightings: &[(Query, Weighting)],
) -> Result<(Curve, AuditFound), Error> {
    if truth.len() < FEWEST {
        return Err(Error::Setting(format!(
            "an audit needs at least {FEWEST} fully labelled items, and has {}",
            truth.len()
        )));
    }
    let mut seen = Vec::new();
    let mut joint_classes = BTreeMap::new();
    for (query, weighting) in weightings {
        let mut weighed = Vec::new();
        for (at, set) in truth.iter().enumerate() {
            let explained = weighting
                .explain(rows.evidence(at))
                .map_err(|e| Error::Setting(format!("audited item {at}: {e}")))?;
            let right = query.holds(*set);
            seen.push((explained.posterior, right));
            // Real items are not drawn by the generator: the discriminator has no say here.
            if explained.log_weight.is_finite() {
                weighed.push((explained.log_density, explained.posterior, right));
            }
        }
        if !weighed.is_empty() {
            joint_classes.insert(query.text().to_owned(), contamination(&weighed));
        }
    }
    let observation = |&(at, right): &(f64, bool)| Observation {
        at,
        value: f64::from(u8::from(right)),
        weight: 1.0,
    };
    let observations: Vec<_> = seen.iter().map(observation).collect();
    let curve = Curve::fit(&observations)
        .ok_or_else(|| Error::Setting("an audit needs items with posteriors".to_owned()))?;
    let pairs = seen.iter().map(|&(p, right)| (p, right, 1.0));
    let found = AuditFound {
        items: truth.len(),
        curve: curve.corners().to_vec(),
        reliability: reliability(pairs),
        joint_classes,
    };
    Ok((curve, found))
}

/// Of items with log weight, posterior and truth.
fn contamination(items: &[(f64, f64, bool)]) -> Contamination {
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
