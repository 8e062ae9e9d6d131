//! How right generated items are, by networks that had no part in selecting them.
//!
//! A network that selects by its own posterior picks its own errors too, so that what it says about the selected
//! items is too sure. Other networks, trained on other parts of the same data, do not share these errors. Their logits are
//! averaged, not their probabilities: each alone knows less, and a mean of probabilities is too unsure where all agree. Over
//! generated items of all joint classes, weighed as they are drawn: the mean posterior by the others, as a rising
//! function of the posterior by the one that selects.

use s2m_core::calibration::isotonic::Curve;
use s2m_core::calibration::others::{self, Seen};
use s2m_core::weight::Weighting;

use crate::error::{Error, said};
use crate::found::EnsembleFound;
use crate::held_out::Rows;

/// One joint class: how the network that selects weighs, and how the others together would.
pub(super) struct Judged {
    pub(super) selects: Weighting,
    pub(super) others: Weighting,
}

/// The curve; none where nothing is supported.
pub(super) fn curve(rows: &Rows, classes: &[Judged]) -> Result<Option<Curve>, Error> {
    let each = classes.iter().map(|class| seen(rows, class));
    let each = each.collect::<Result<Vec<_>, Error>>()?;
    Ok(others::curve(each.into_iter().flatten()))
}

/// The supported items of one class.
fn seen(rows: &Rows, class: &Judged) -> Result<Vec<Seen>, Error> {
    let weights = (0..rows.count())
        .map(|at| class.selects.log_weight(rows.evidence(at)))
        .collect::<Result<Vec<f64>, _>>()
        .map_err(said)?;
    let log_total = s2m_core::log_sum_exp(weights.iter().copied());
    let supported = weights.into_iter().enumerate();
    let supported = supported.filter(|(_, log_weight)| log_weight.is_finite());
    let seen = |(at, log_weight): (usize, f64)| {
        let selects = class.selects.item_posterior(rows.evidence(at));
        let others = class.others.item_posterior(rows.evidence_of_others(at));
        Ok(Seen {
            // Every joint class counts alike, however rare it is.
            weight: (log_weight - log_total).exp(),
            posterior: class.selects.plain(&selects.map_err(said)?),
            others: class.others.plain(&others.map_err(said)?),
        })
    };
    supported.map(seen).collect()
}

/// What the report says about it.
pub(super) fn found(members: usize, temperature: f64, curve: &Curve) -> EnsembleFound {
    EnsembleFound {
        members,
        temperature,
        curve: curve.corners().to_vec(),
    }
}
