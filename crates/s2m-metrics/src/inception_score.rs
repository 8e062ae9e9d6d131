//! Inception score: how sure a classifier is of each item, and how many classes it sees in all.
//!
//! ```text
//! IS = exp mean KL(p(class | item) ‖ mean p(class | item))
//! ```
//!
//! Items are cut, in the order given, into splits as even as can be (split s ends before item
//! `(s + 1)·n / splits`, rounded down). The score is the mean over splits of each split's own value,
//! with its own marginal, and the deviation (divisor N) is over splits: what torch-fidelity reports.
//! It shuffles first; here the order is the caller's. The logarithm is natural and 0 log 0 is 0.
//!
//! A split of few items scores too low: with n items it cannot exceed n. Real items take no part.
//!
//! Reference: Salimans et al., "Improved Techniques for Training GANs", 2016.

use s2m_core::streams::metrics;
use std::num::NonZeroUsize;

use crate::bootstrap::{Bootstrap, central_95};
use crate::error::Error;
use crate::features::{Features, Row};

/// Splits of the original score.
pub const DEFAULT_SPLITS: NonZeroUsize = NonZeroUsize::new(10).expect("10 is not zero");

/// How far the probabilities of an item may sum from 1: they may come in single precision.
const SUM_TOLERANCE: f64 = 1e-3;

/// What a classifier says of each item, one column per class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ClassScores<'a> {
    /// Scores before the softmax.
    Logits(Features<'a>),
    /// Probabilities.
    Probabilities(Features<'a>),
}

impl<'a> ClassScores<'a> {
    /// Probabilities where every row is a distribution, logits otherwise.
    pub fn told(rows: Features<'a>) -> Self {
        let is_distribution = |row: Row<'_>| {
            let sum: f64 = row.iter().sum();
            row.iter().all(|p| p >= 0.0) && (sum - 1.0).abs() <= SUM_TOLERANCE
        };
        if rows.rows().all(is_distribution) {
            Self::Probabilities(rows)
        } else {
            Self::Logits(rows)
        }
    }
}

/// The score over splits.
#[derive(Debug, Clone, PartialEq)]
pub struct InceptionScore {
    /// Mean over splits, from 1 to the number of classes; larger is better.
    pub mean: f64,
    /// Standard deviation (divisor N) over splits.
    pub deviation: f64,
    /// Divergence of each item from its split's marginal, split by split.
    divergences: Vec<Vec<f64>>,
}

impl InceptionScore {
    /// Percentile bootstrap interval at 95 % of the mean; none without resamples.
    ///
    /// Items are drawn again within their splits, with the splits' marginals held fixed; to first
    /// order this is what drawing everything again would give.
    pub fn interval(&self, bootstrap: Bootstrap) -> Option<[f64; 2]> {
        let mut sums = vec![0.0; bootstrap.resamples];
        for (split, divergences) in self.divergences.iter().enumerate() {
            let means = bootstrap.means(metrics::GROUPS + split as u16, divergences);
            for (sum, mean) in sums.iter_mut().zip(means) {
                *sum += mean.exp();
            }
        }
        let splits = self.divergences.len() as f64;
        central_95(sums.iter().map(|sum| sum / splits).collect())
    }
}

/// The Inception score of items by what a classifier says of them.
pub fn inception_score(
    scores: ClassScores<'_>,
    splits: NonZeroUsize,
) -> Result<InceptionScore, Error> {
    let splits = splits.get();
    let rows = match scores {
        ClassScores::Logits(rows) | ClassScores::Probabilities(rows) => rows,
    };
    let items = rows.items();
    if items < splits {
        return Err(Error::too_few(format!(
            "an Inception score over {splits} splits needs at least {splits} items, got {items}"
        )));
    }
    let log_probabilities = match scores {
        ClassScores::Logits(rows) => rows.rows().map(log_softmax).collect(),
        ClassScores::Probabilities(rows) => log_checked(rows)?,
    };
    let split = |s: usize| &log_probabilities[s * items / splits..(s + 1) * items / splits];
    let divergences: Vec<Vec<f64>> = (0..splits).map(|s| divergences(split(s))).collect();
    let values = divergences
        .iter()
        .map(|d| (d.iter().sum::<f64>() / d.len() as f64).exp());
    let n = splits as f64;
    let mean = values.clone().sum::<f64>() / n;
    let variance = values.map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
    Ok(InceptionScore {
        mean,
        deviation: variance.sqrt(),
        divergences,
    })
}

fn log_softmax(logits: Row<'_>) -> Vec<f64> {
    let logits = logits.iter();
    let total = s2m_core::log_sum_exp(logits.clone());
    logits.map(|logit| logit - total).collect()
}

fn log_checked(rows: Features<'_>) -> Result<Vec<Vec<f64>>, Error> {
    let check = |(item, row): (usize, Row<'_>)| {
        if let Some(class) = row.iter().position(|p| !(0.0..=1.0).contains(&p)) {
            let value = row.at(class) as f32;
            return Err(Error::value(format!(
                "the probability of class {class} for item {item} is {value}"
            )));
        }
        let sum: f64 = row.iter().sum();
        if (sum - 1.0).abs() > SUM_TOLERANCE {
            return Err(Error::value(format!(
                "the probabilities of item {item} sum to {sum}, not to 1"
            )));
        }
        Ok(row.iter().map(f64::ln).collect())
    };
    rows.rows().enumerate().map(check).collect()
}

/// `KL(p ‖ marginal)` of each item.
fn divergences(log_probabilities: &[Vec<f64>]) -> Vec<f64> {
    let classes = log_probabilities[0].len();
    let mut marginal = vec![0.0; classes];
    for log_p in log_probabilities {
        for (sum, log_p) in marginal.iter_mut().zip(log_p) {
            *sum += log_p.exp();
        }
    }
    let n = log_probabilities.len() as f64;
    let log_marginal: Vec<f64> = marginal.iter().map(|sum| (sum / n).ln()).collect();
    let of_item = |log_p: &Vec<f64>| {
        let classes = log_p.iter().zip(&log_marginal);
        let term = |(log_p, log_q): (&f64, &f64)| match log_p.exp() {
            0.0 => 0.0,
            p => p * (log_p - log_q),
        };
        classes.map(term).sum()
    };
    log_probabilities.iter().map(of_item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{features, scattered};

    fn splits(n: usize) -> NonZeroUsize {
        NonZeroUsize::new(n).unwrap()
    }

    fn of_probabilities(p: &[f32], classes: usize, n: usize) -> InceptionScore {
        inception_score(ClassScores::Probabilities(features(p, classes)), splits(n)).unwrap()
    }

    #[test]
    fn scores_on_paper() {
        // Sure of each of three classes; then always the same; then never sure.
        let sure = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        assert!((of_probabilities(&sure, 3, 1).mean - 3.0).abs() < 1e-12);
        assert_eq!(of_probabilities(&sure[..3].repeat(5), 3, 1).mean, 1.0);
        assert_eq!(of_probabilities(&[0.25; 8], 4, 1).mean, 1.0);
        // A split of two sure items of two classes, and a split of two of one class.
        let two = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0];
        let found = of_probabilities(&two, 2, 2);
        assert!((found.mean - 1.5).abs() < 1e-12 && (found.deviation - 0.5).abs() < 1e-12);
        // p = (3/4, 1/4) and (1/4, 3/4): ¾ ln(3/2) + ¼ ln(1/2).
        let found = of_probabilities(&[0.75, 0.25, 0.25, 0.75], 2, 1).mean;
        let wanted = (0.75 * 1.5_f64.ln() + 0.25 * 0.5_f64.ln()).exp();
        assert!((found - wanted).abs() < 1e-12);
    }

    // torch-fidelity 0.4.0, torch 2.11.0, with x of `examples::two_sides` as a tensor:
    //   from torch_fidelity.metric_isc import isc_features_to_metric as isc
    //   print(isc(x, splits=10, shuffle=False), isc(x, splits=7, shuffle=False))
    #[test]
    fn torch_fidelity_has_the_same_scores() {
        let logits = scattered([3, 7, 5], 60, 0.0);
        for (n, mean, deviation) in [
            (10, 2.522_653_490_288_169_7, 0.393_766_359_965_685_43),
            (7, 2.846_544_341_466_34, 0.344_423_997_042_165_2),
        ] {
            let scores = ClassScores::Logits(features(&logits, 8));
            let found = inception_score(scores, splits(n)).unwrap();
            assert!((found.mean / mean - 1.0).abs() < 1e-9, "{}", found.mean);
            assert!((found.deviation / deviation - 1.0).abs() < 1e-9);
            let [low, high] = found.interval(Bootstrap::default()).unwrap();
            assert!(low < found.mean && found.mean < high);
        }
    }

    #[test]
    fn rows_that_are_distributions_are_probabilities() {
        let told = |rows: &[f32]| {
            matches!(
                ClassScores::told(features(rows, 2)),
                ClassScores::Probabilities(_)
            )
        };
        assert!(told(&[0.25, 0.75, 1.0, 0.0]));
        assert!(!told(&[0.25, 0.75, 1.5, -0.5]));
        assert!(!told(&[0.25, 0.75, 2.0, 1.0]));
    }

    #[test]
    fn logits_far_apart_do_not_overflow() {
        let logits = [1e30, -1e30, -1e30, 1e30];
        let found = inception_score(ClassScores::Logits(features(&logits, 2)), splits(1));
        assert!((found.unwrap().mean - 2.0).abs() < 1e-12);
    }

    #[test]
    fn what_has_no_score_is_named() {
        let error = |p: &[f32], n| {
            let scores = ClassScores::Probabilities(features(p, 2));
            inception_score(scores, splits(n)).unwrap_err().to_string()
        };
        assert_eq!(
            error(&[0.5; 4], 10),
            "an Inception score over 10 splits needs at least 10 items, got 2"
        );
        assert_eq!(
            error(&[0.5, 0.5, 1.5, -0.5], 1),
            "the probability of class 0 for item 1 is 1.5"
        );
        assert_eq!(
            error(&[0.5, 0.25], 1),
            "the probabilities of item 0 sum to 0.75, not to 1"
        );
    }
}
