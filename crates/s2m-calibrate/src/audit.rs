//! What a small set of fully labelled items says about predictions.
//!
//! Every item meets every joint class: its posterior against whether the class is its own. The rising
//! curve nearest to that corrects what is predicted for samples. Items may be real ones, or samples that
//! a person has labelled; the latter also show what posteriors are worth on generated items.

use std::collections::BTreeMap;

use s2m_core::calibration::audit;
use s2m_core::calibration::isotonic::Curve;
use s2m_core::calibration::reliability::reliability;
use s2m_core::labels::LabelSet;
use s2m_core::query::Query;
use s2m_core::weight::Weighting;

use crate::error::Error;
use crate::found::AuditFound;
use crate::held_out::Rows;

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
            joint_classes.insert(
                query.text().to_owned(),
                audit::contamination(&weighed).into(),
            );
        }
    }
    let curve = audit::curve(&seen)
        .ok_or_else(|| Error::Setting("an audit needs items with posteriors".to_owned()))?;
    let pairs = seen.iter().map(|&(p, right)| (p, right, 1.0));
    let found = AuditFound {
        items: truth.len(),
        curve: curve.corners().to_vec(),
        reliability: reliability(pairs).into(),
        joint_classes,
    };
    Ok((curve, found))
}
