//! What `resample` gives to the tail of a target, and what it states.
//!
//! A pool grows until its effective size is large enough, so it tends to end before the tail shows.

use s2m_core::samplers::Info;
use s2m_core::samplers::resample::{Copies, Resample};
use serde::{Deserialize, Serialize};

use super::FIRST_SEED;
use super::laws::{Law, goal};
use super::targets::Named;
use crate::Error;
use crate::evaluation::Evaluator;
use crate::results::Table;

/// The share of the target with the largest weights that is looked at.
const TOP: f64 = 0.005;

/// Pools, and samples of each.
const POOLS: u64 = 400;
const SAMPLES: [usize; 2] = [200, 2000];

/// What pools of one size give to the top, and state.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Thinned {
    pools: usize,
    /// Share of the samples that the top is expected to get, in the mean.
    top: f64,
    /// How much that is too little.
    short: f64,
    /// How far off the law of one sample is, as stated: in the mean, and at least.
    bias: f64,
    least: f64,
    /// Pools that state less than what is missing.
    less: usize,
}

/// Resamples out of pools of their own.
fn measure(law: &Law, samples: usize, seeds: std::ops::Range<u64>) -> Thinned {
    let limit = law.target_quantile(1.0 - TOP);
    let resampled = seeds.filter_map(|seed| {
        let mut sampler = Resample::new(goal(samples, 3_000_000), 0.5, Copies::Allowed);
        let (draw, proposals) = law.drive(&mut sampler, seed);
        let Info::Resample(info) = draw.ok()?.info else {
            return None;
        };
        let (mut top, mut all) = (0.0, 0.0);
        for log_weight in law.log_weights(seed, proposals) {
            let weight = (log_weight - limit).exp();
            all += weight;
            top += if log_weight > limit { weight } else { 0.0 };
        }
        Some((top / all, info.bias))
    });
    let (tops, biases): (Vec<f64>, Vec<f64>) = resampled.unzip();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let short = law.target_above(limit) - mean(&tops);
    Thinned {
        pools: tops.len(),
        top: mean(&tops),
        short,
        bias: mean(&biases),
        least: biases.iter().copied().fold(f64::INFINITY, f64::min),
        less: biases.iter().filter(|bias| **bias < short).count(),
    }
}

pub(super) fn table(evaluator: &Evaluator<'_>, laws: &[Named]) -> Result<Table, Error> {
    let mut table = Table::new(
        &format!(
            "`resample`: the {} % of the target with the largest weights",
            100.0 * TOP
        ),
        &[
            "target, samples",
            "pools",
            "its share of the samples, %",
            "short by",
            "bias stated",
            "least stated",
            "stated less than short by",
        ],
    );
    let laws = laws
        .iter()
        .filter(|named| !matches!(named.law, Law::Uniform | Law::Steps));
    for (Named { name, law, .. }, samples) in laws.flat_map(|law| SAMPLES.map(|n| (law, n))) {
        let identity = format!("{name} {POOLS} {samples} {TOP} from {FIRST_SEED} resample 1");
        let found: Thinned = evaluator.kept("resample", &[&identity], || {
            Ok(measure(law, samples, FIRST_SEED..FIRST_SEED + POOLS))
        })?;
        table.rows.push(vec![
            format!("{name}, {samples}"),
            found.pools.to_string(),
            format!("{:.3}", 100.0 * found.top),
            format!("{:.5}", found.short),
            format!("{:.4}", found.bias),
            format!("{:.4}", found.least),
            found.less.to_string(),
        ]);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::super::targets::formulae;
    use super::*;

    /// Tails are thinned, and no pool states less than what is missing.
    #[test]
    fn what_a_thinned_tail_is_short_of_is_stated() {
        let mut thinned = 0;
        for Named { name, law, .. } in formulae() {
            if matches!(law, Law::Uniform | Law::Steps) {
                continue;
            }
            for samples in SAMPLES {
                let found = measure(&law, samples, 0..60);
                assert_eq!(found.less, 0, "{name}: {found:?}");
                thinned += usize::from(found.short > 0.2 * TOP);
            }
        }
        assert!(thinned >= 4, "{thinned}");
    }
}
