//! A floor on the posterior of the query, chosen so that the predicted purity is what was asked for.
//!
//! The floor is the lowest one that reaches the wish on a pilot; see [`s2m_core::calibration::purity`]
//! for what it means.

use s2m_core::calibration::purity::{Item, log_floor_for};
use s2m_core::diagnostics::{Mean, Moments};
use s2m_core::samplers::{FIRST_PILOT, PILOT_BUDGET};
use s2m_core::setting::Setting;
use s2m_model::disk::Column;

use crate::draw::{Target, item_posterior, pieces, weigh_first};
use crate::error::Error;
use crate::pool::Pool;
use crate::progress::Progress;
use crate::refusal::Cause;

/// What is predicted for samples: the mean probability that they are right.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Purity {
    /// Corrected by an audit, or by networks that had no part in selecting; plain where there is neither.
    pub(crate) by_others: f64,
    /// As the network that selected says it.
    pub(crate) plain: f64,
}

/// Predictions that differ by more than this are worth a word.
const WORTH_SAYING: f64 = 0.05;

impl Purity {
    /// What to know where the two differ.
    pub(crate) fn warning(self) -> Option<String> {
        let Self { by_others, plain } = self;
        ((plain - by_others).abs() > WORTH_SAYING).then(|| {
            format!(
                "predicted purity is {:.1} %; the network that selected says {:.1} %\nhint: label some samples and give them to `s2m calibrate` with {}",
                100.0 * by_others,
                100.0 * plain,
                Setting("audit")
            )
        })
    }
}

/// Mean predictions of the query over some proposals, and the first of them with its interval. Copies of a proposal,
/// which `resample` gives one after the other, say no more than it does.
pub(crate) fn predicted(
    pool: &Pool,
    target: &Target,
    numbers: &Column<u64>,
) -> Result<(Purity, Mean), Error> {
    let (mut sums, mut values) = (Purity::default(), Moments::default());
    let mut first = None;
    let mut copied: Option<(u64, f64, f64)> = None;
    for range in pieces(0..numbers.len()) {
        pool.look_at(&numbers.read(range)?, &mut |number, evidence| {
            let item = item_posterior(target, number, evidence)?;
            let value = target.weighting.predicted(&item);
            first.get_or_insert(value);
            copied = Some(match copied {
                Some((same, value, copies)) if same == number => (number, value, copies + 1.0),
                before => {
                    if let Some((_, value, copies)) = before {
                        values.add_copies(value, copies);
                    }
                    (number, value, 1.0)
                }
            });
            sums.by_others += value;
            sums.plain += target.weighting.plain(&item);
            Ok(())
        })?;
    }
    if let Some((_, value, copies)) = copied {
        values.add_copies(value, copies);
    }
    let count = numbers.len() as f64;
    let mean = values.share().unwrap_or(Mean {
        value: first.unwrap_or(0.0),
        between: [0.0, 1.0],
    });
    let purity = Purity {
        by_others: sums.by_others / count,
        plain: sums.plain / count,
    };
    Ok((purity, mean))
}

/// What to know where the purity that was asked for lies beyond the interval of what is predicted.
pub(crate) fn missed(asked: f64, purity: Purity, predicted: Mean) -> Option<String> {
    let [low, high] = predicted.between;
    let less = asked > high;
    (less || asked < low).then(|| {
        format!(
            "a purity of {:.1} % was asked for, and {:.1} % is predicted ({:.1} to {:.1} % at 95 %): {}",
            100.0 * asked,
            100.0 * purity.by_others,
            100.0 * low,
            100.0 * high,
            if less {
                "the floor was chosen on a pilot"
            } else {
                "no lower floor is left, or the floor was chosen on a pilot"
            }
        )
    })
}

/// Supported proposals on which the floor is chosen, where the budget allows.
const ENOUGH: usize = 8000;

/// The target with a floor for the wanted purity.
pub(crate) fn with_purity(
    pool: &mut Pool,
    mut target: Target,
    purity: f64,
    progress: &dyn Progress,
) -> Result<Target, Error> {
    if !(purity > 0.0 && purity < 1.0) {
        return Err(Error::Setting(format!(
            "{} is {purity}; it must lie strictly between 0 and 1",
            Setting("purity")
        )));
    }
    // The wish picks the floor, in the place of the bundle's.
    target.weighting = target.weighting.with_log_floor(f64::NEG_INFINITY);
    let mut pilot = FIRST_PILOT;
    let log_weights = loop {
        let log_weights = weigh_first(pool, &mut target, pilot, progress)?;
        let supported = log_weights.iter().filter(|w| w.is_finite()).count();
        if supported >= ENOUGH || pilot >= PILOT_BUDGET {
            break log_weights;
        }
        pilot *= 2;
    };
    let (mut numbers, mut supported) = (target.sequence.numbers(0..log_weights.len()), Vec::new());
    let mut weights = log_weights.iter().copied();
    numbers.retain(|_| {
        let weight = weights.next().filter(|w| w.is_finite());
        supported.extend(weight);
        weight.is_some()
    });
    let mut items = Vec::with_capacity(supported.len());
    pool.look_at(&numbers, &mut |number, evidence| {
        let item = item_posterior(&target, number, evidence)?;
        items.push(Item {
            log_weight: supported[items.len()],
            log_posterior: item.log_posterior(target.weighting.query()),
            predicted: target.weighting.predicted(&item),
        });
        Ok(())
    })?;
    let found = log_floor_for(&items, purity);
    if found.is_none() && !items.is_empty() {
        let predicted = items.iter().map(|item| item.predicted);
        target.refused = Some(Cause::PurityOutOfReach {
            asked: purity,
            items: items.len(),
            best: predicted.fold(0.0, f64::max),
        });
    }
    let log_floor = found.unwrap_or(f64::INFINITY);
    let weighting = target.weighting.with_log_floor(log_floor);
    Ok(Target {
        weighting,
        ..target
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_the_lowest_that_reaches_the_purity() {
        let item = |(posterior, weight): (f64, f64)| Item {
            log_weight: weight.ln(),
            log_posterior: posterior.ln(),
            predicted: posterior,
        };
        let items = [(0.9, 1.0), (0.5, 1.0), (0.7, 2.0), (0.1, 4.0)].map(item);
        let floor = |purity| log_floor_for(&items, purity);
        // Weighted means from the top: 0.9, 0.7667, 0.7, 0.4.
        assert_eq!(floor(0.85), Some(0.9_f64.ln()));
        assert_eq!(floor(0.75), Some(0.7_f64.ln()));
        assert_eq!(floor(0.65), Some(0.5_f64.ln()));
        assert_eq!(floor(0.35), Some(f64::NEG_INFINITY));
        assert_eq!(floor(0.95), None);
    }
}
