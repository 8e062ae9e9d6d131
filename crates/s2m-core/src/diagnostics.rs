//! What a set of weights says about itself.

use crate::series::{self, Series};
use crate::tail::{Tail, UNSEEN, tail_index};

/// Figures about the weights of all scored proposals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WeightSummary {
    /// Number of proposals.
    pub proposals: usize,
    /// Share of proposals inside the query's support.
    pub support_share: f64,
    /// Effective sample size of the weights, as a share of the proposals: `(Σw)² / (N Σw²)`.
    pub weight_ess: f64,
    /// Largest weight over mean weight: a lower estimate of `M = sup w / E w`.
    pub m_at_least: f64,
    /// Share of all weight that the single largest one holds.
    pub largest_share: f64,
    /// Pareto tail index of the weights; none where too few are positive.
    pub tail_index: Option<f64>,
}

/// Summarises log weights; shares are zero where nothing is supported.
pub fn summarise<S: Series + ?Sized>(log_weights: &S) -> WeightSummary {
    let n = log_weights.len();
    let largest = series::largest(log_weights);
    let (mut supported, mut sum, mut squares) = (0usize, 0.0, 0.0);
    series::each(log_weights, |log_weight| {
        if log_weight.is_finite() {
            let w = (log_weight - largest).exp();
            supported += 1;
            sum += w;
            squares += w * w;
        }
    });
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    WeightSummary {
        proposals: n,
        support_share: share(supported as f64, n as f64),
        weight_ess: share(sum * sum, n as f64 * squares),
        m_at_least: share(n as f64, sum),
        largest_share: share(1.0, sum),
        tail_index: tail_index(log_weights),
    }
}

/// Share of proposals that an independence chain at its target accepts:
/// `E_{x~π, y~q} min(1, w_y/w_x) = Σ_x Σ_y min(w_x, w_y) / (N Σ w)`; zero where nothing is supported.
pub fn expected_acceptance(log_weights: &[f64]) -> f64 {
    let mut supported: Vec<f64> = log_weights
        .iter()
        .copied()
        .filter(|w| w.is_finite())
        .collect();
    supported.sort_by(f64::total_cmp);
    let Some(&largest) = supported.last() else {
        return 0.0;
    };
    let weights: Vec<f64> = supported.iter().map(|w| (w - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    // In ascending order the i-th weight is the smaller one of itself, of those behind it (twice).
    let behind = |i: usize| (2 * (weights.len() - i) - 1) as f64;
    let smaller: f64 = weights.iter().enumerate().map(|(i, w)| w * behind(i)).sum();
    smaller / (log_weights.len() as f64 * total)
}

/// A mean with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// 1.96 standard errors to both sides, and more above where values may be heavy-tailed; not below zero.
    pub between: [f64; 2],
}

impl Mean {
    /// The mean of values that are not negative; none of fewer than two.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut moments = Moments::default();
        values.for_each(|value| moments.add(value));
        moments.mean()
    }

    /// The mean of `exp` of some values, which may have a heavy upper tail; none of fewer than two.
    ///
    /// The upper end has on top what may lie beyond the largest value seen: without it, it is too low for 17 of 100
    /// means of Pareto values of index 0.63, and for 5 of 100 at 0.41.
    pub fn of_logs<S: Series + ?Sized>(logs: &S) -> Option<Self> {
        let mut moments = Moments::default();
        series::each(logs, |log| moments.add(log.exp()));
        let mut mean = moments.mean()?;
        let tail = Tail::of(logs).filter(|tail| !tail.bounded);
        let share = (series::largest(logs) - series::log_sum_exp(logs)).exp();
        mean.between[1] += tail.map_or(0.0, |tail| UNSEEN * tail.unseen(share) * mean.value);
        Some(mean)
    }
}

/// Count, mean and squares of values that are seen one by one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    /// Values, and those of them that are no copies.
    count: f64,
    distinct: f64,
    mean: f64,
    /// With squared numbers of copies as weights: their sum, and mean and squares of the values.
    weight: f64,
    weighted_mean: f64,
    squares: f64,
}

impl Moments {
    /// One value more.
    pub fn add(&mut self, value: f64) {
        self.add_copies(value, 1.0);
    }

    /// One value more that counts so many times: copies of one draw say no more than it does.
    pub fn add_copies(&mut self, value: f64, copies: f64) {
        self.count += copies;
        self.distinct += 1.0;
        self.mean += copies * (value - self.mean) / self.count;
        let weight = copies * copies;
        self.weight += weight;
        let gap = value - self.weighted_mean;
        self.weighted_mean += weight * gap / self.weight;
        self.squares += weight * gap * (value - self.weighted_mean);
    }

    /// The mean of values between 0 and 1; none of fewer than two.
    ///
    /// Its interval is that of Agresti and Coull: as if two values more were 0 and two were 1. Samples that are nearly all
    /// right say little about the few that are not, and have hardly any standard error.
    pub fn share(&self) -> Option<Mean> {
        let value = self.mean()?.value;
        let mut more = *self;
        for extreme in [0.0, 0.0, 1.0, 1.0] {
            more.add(extreme);
        }
        let [low, high] = more.mean()?.between;
        Some(Mean {
            value,
            between: [low.min(value), high.min(1.0).max(value)],
        })
    }

    /// The mean of values that are not negative; none of fewer than two.
    pub fn mean(&self) -> Option<Mean> {
        if self.distinct < 2.0 {
            return None;
        }
        // The variance of Σ n·v / Σ n for draws that come n times each.
        let apart = self.weighted_mean - self.mean;
        let squares = self.squares + self.weight * apart * apart;
        let few = self.distinct / (self.distinct - 1.0);
        let half = 1.96 * (few * squares).sqrt() / self.count;
        Some(Mean {
            value: self.mean,
            between: [(self.mean - half).max(0.0), self.mean + half],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proposals::{Proposals, Purpose};

    #[test]
    fn figures_computed_on_paper() {
        // Weights 4, 2, 2, 0.
        let logs = [4.0_f64.ln(), 2.0_f64.ln(), 2.0_f64.ln(), f64::NEG_INFINITY];
        let found = summarise(&logs);
        assert_eq!(found.proposals, 4);
        assert_eq!(found.support_share, 0.75);
        assert!((found.weight_ess - 64.0 / (4.0 * 24.0)).abs() < 1e-12);
        assert!((found.m_at_least - 2.0).abs() < 1e-12);
        assert!((found.largest_share - 0.5).abs() < 1e-12);
        assert_eq!(found.tail_index, None);
    }

    #[test]
    fn a_mean_and_its_interval_computed_on_paper() {
        let mean = Mean::of([1.0, 2.0, 3.0, 6.0].into_iter()).unwrap();
        assert!((mean.value - 3.0).abs() < 1e-12);
        // Variance 14/3, standard error √(14/12).
        let half = 1.96 * (14.0_f64 / 12.0).sqrt();
        assert!((mean.between[1] - 3.0 - half).abs() < 1e-12);
        assert!((mean.between[0] - 3.0 + half).abs() < 1e-12);
        assert_eq!(Mean::of([1.0].into_iter()), None);
    }

    /// Three copies of one draw and two single ones: Σ n²(v − m)² is 9·0 + 4 + 4, over 5², times 3/2.
    #[test]
    fn copies_of_a_draw_say_no_more_than_it_does() {
        let mut moments = Moments::default();
        for (value, copies) in [(3.0, 3.0), (1.0, 1.0), (5.0, 1.0)] {
            moments.add_copies(value, copies);
        }
        let mean = moments.mean().unwrap();
        assert!((mean.value - 3.0).abs() < 1e-12);
        let half = 1.96 * (1.5_f64 * 8.0).sqrt() / 5.0;
        assert!((mean.between[1] - 3.0 - half).abs() < 1e-12, "{mean:?}");
        // All of one draw has no interval, however often it comes.
        let mut one = Moments::default();
        one.add_copies(0.5, 100.0);
        assert_eq!(one.mean(), None);
    }

    /// One of a hundred samples is wrong, and 200 are drawn: 13 of 100 such draws have none of them. Without the values
    /// that are added, more than 10 of 100 intervals miss.
    #[test]
    fn a_share_allows_for_what_is_too_rare_to_be_seen() {
        let (mut missed, mut plain) = (0, 0);
        for seed in 0..300 {
            let mut values = vec![0.0; 200];
            Proposals::new(seed).fill_uniform(Purpose::Class, 0, &mut values);
            let mut moments = Moments::default();
            for u in values {
                moments.add(if u < 0.01 { 0.4 } else { 0.999 });
            }
            let truth = 0.01 * 0.4 + 0.99 * 0.999;
            let misses =
                |mean: Mean| usize::from(!(mean.between[0]..=mean.between[1]).contains(&truth));
            missed += misses(moments.share().unwrap());
            plain += misses(moments.mean().unwrap());
        }
        assert!(missed <= 15 && plain >= 30, "{missed} {plain}");
        // On paper: 0.5 and 0.7, two more of 0 and two of 1.
        let mut few = Moments::default();
        for value in [0.5, 0.7] {
            few.add(value);
        }
        let all = Mean::of([0.5, 0.7, 0.0, 0.0, 1.0, 1.0].into_iter()).unwrap();
        let found = few.share().unwrap();
        assert!((found.value - 0.6).abs() < 1e-12);
        assert!((found.between[0] - all.between[0]).abs() < 1e-12);
    }

    /// Means of 2000 Pareto values: at most 5 of 100 intervals miss, and many more do without what was not seen.
    #[test]
    fn what_lies_beyond_the_largest_is_in_the_upper_end() {
        let (k, runs) = (0.63, 300);
        let (mut missed, mut plain) = (0, 0);
        for seed in 0..runs {
            let mut logs = vec![0.0; 2000];
            Proposals::new(seed).fill_uniform(Purpose::Class, 0, &mut logs);
            for u in &mut logs {
                *u = -k * u.ln();
            }
            let misses = |mean: Mean| {
                let truth = 1.0 / (1.0 - k);
                usize::from(!(mean.between[0]..=mean.between[1]).contains(&truth))
            };
            missed += misses(Mean::of_logs(&logs).unwrap());
            plain += misses(Mean::of(logs.iter().map(|log| log.exp())).unwrap());
        }
        assert!(missed <= 15 && plain >= 30, "{missed} {plain}");
        // Values that are bounded have nothing beyond the largest.
        let even: Vec<f64> = (1..=500).map(|i| f64::from(i).ln()).collect();
        let plain = Mean::of(even.iter().map(|log| log.exp())).unwrap();
        assert_eq!(Mean::of_logs(&even), Some(plain));
    }

    #[test]
    fn acceptance_computed_on_paper() {
        // Weights 4, 2, 0: the nine smaller ones of all pairs are 4, 2, 2, 2 and zeros.
        let logs = [4.0_f64.ln(), f64::NEG_INFINITY, 2.0_f64.ln()];
        assert!((expected_acceptance(&logs) - 10.0 / 18.0).abs() < 1e-12);
        assert!((expected_acceptance(&[3.0; 5]) - 1.0).abs() < 1e-12);
        assert_eq!(expected_acceptance(&[f64::NEG_INFINITY; 2]), 0.0);
    }

    #[test]
    fn nothing_supported_gives_zeros_not_nan() {
        let found = summarise(&[f64::NEG_INFINITY; 3]);
        assert_eq!(
            (found.support_share, found.weight_ess, found.m_at_least),
            (0.0, 0.0, 0.0)
        );
    }
}
