//! How right generated items are, by networks that had no part in selecting them.
//!
//! A network that selects by its own posterior picks its own errors too, so that what it says about the selected
//! items is too sure. Other networks, trained on other parts of the same data, do not share these errors. Their logits are
//! averaged, not their probabilities: each alone knows less, and a mean of probabilities is too unsure where all agree. Over
//! generated items of all joint classes, weighed as they are drawn: the mean posterior by the others, as a rising
//! function of the posterior by the one that selects.

use s2m_core::calibration::isotonic::{Curve, Observation};
use s2m_core::weight::Weighting;

use crate::error::Error;
use crate::found::EnsembleFound;
use crate::held_out::Rows;

/// Bins by −log(1 − p): fine where posteriors are near 1, as those of samples are.
const BINS: usize = 40;
const WIDTH: f64 = 0.2;

/// One joint class: how the network that selects weighs, and how the others together would.
pub(super) struct Judged {
    pub(super) selects: Weighting,
    pub(super) others: Weighting,
}

/// The curve; none where nothing is supported.
pub(super) fn curve(rows: &Rows, classes: &[Judged]) -> Result<Option<Curve>, Error> {
    let mut bins = [[0.0_f64; 3]; BINS];
    for class in classes {
        add(rows, class, &mut bins)?;
    }
    let seen = bins.iter().filter(|bin| bin[0] > 0.0);
    let observation = |&[weight, at, value]: &[f64; 3]| Observation {
        at: at / weight,
        value: value / weight,
        weight,
    };
    Ok(Curve::fit(&seen.map(observation).collect::<Vec<_>>()))
}

fn add(rows: &Rows, class: &Judged, bins: &mut [[f64; 3]; BINS]) -> Result<(), Error> {
    let said = |e: s2m_core::weight::LogitError| Error::Setting(e.to_string());
    let weights = (0..rows.count())
        .map(|at| class.selects.log_weight(rows.evidence(at)))
        .collect::<Result<Vec<f64>, _>>()
        .map_err(said)?;
    let log_total = s2m_core::log_sum_exp(weights.iter().copied());
    for (at, log_weight) in weights.into_iter().enumerate() {
        if !log_weight.is_finite() {
            continue;
        }
        // Every joint class counts alike, however rare it is.
        let weight = (log_weight - log_total).exp();
        let item = class
            .selects
            .item_posterior(rows.evidence(at))
            .map_err(said)?;
        let posterior = class.selects.plain(&item);
        let item = class.others.item_posterior(rows.evidence_of_others(at));
        let others = class.others.plain(&item.map_err(said)?);
        let bin = ((-(-posterior).ln_1p() / WIDTH) as usize).min(BINS - 1);
        for (sum, value) in bins[bin].iter_mut().zip([1.0, posterior, others]) {
            *sum += weight * value;
        }
    }
    Ok(())
}

/// What the report says about it.
pub(super) fn found(members: usize, temperature: f64, curve: &Curve) -> EnsembleFound {
    EnsembleFound {
        members,
        temperature,
        curve: curve.corners().to_vec(),
    }
}
