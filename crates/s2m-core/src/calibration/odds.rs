//! What the odds of `D_v` do to the weights.
//!
//! `D_v` may be right and still useless: where real and generated items separate, a handful of
//! generated items holds all the weight. With the weight `w = r·min(o, c)` of a query of density `r` and odds
//! `o = exp(v/T)`, the effective share of N generated items is
//!
//! ```text
//! share(c) = (Σw)² / (N Σw²)
//! ```

use crate::diagnostics::summarise;
use crate::logspace::log_sum_exp;

/// Largest odds that `held_out_real` items can support: one more item than were seen.
pub fn odds_clip(held_out_real: usize) -> f64 {
    held_out_real as f64 + 1.0
}

/// Probability that a real item has the larger logit of a pair, ties counting half.
///
/// 0.5 where one side is empty. Logits must be numbers.
pub fn auc(real: &[f32], generated: &[f32]) -> f64 {
    if real.is_empty() || generated.is_empty() {
        return 0.5;
    }
    let of = |side: &[f32], is_real: bool| -> Vec<(f32, bool)> {
        // Adding zero makes −0 a plain 0, so that both are one group below.
        side.iter().map(|&v| (v + 0.0, is_real)).collect()
    };
    let mut all = [of(real, true), of(generated, false)].concat();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    // In half pairs, so that the count stays whole.
    let (mut generated_below, mut half_wins) = (0u64, 0u64);
    for equal in all.chunk_by(|a, b| a.0 == b.0) {
        let real_here = equal.iter().filter(|item| item.1).count() as u64;
        let generated_here = equal.len() as u64 - real_here;
        half_wins += real_here * (2 * generated_below + generated_here);
        generated_below += generated_here;
    }
    half_wins as f64 / (2.0 * real.len() as f64 * generated.len() as f64)
}

/// Generated items: the log density of a query at each, `-∞` outside its support, and `D_v`'s logit.
#[derive(Debug, Clone, Copy)]
pub struct Generated<'a> {
    /// `log r_Q` of each item.
    pub log_density: &'a [f64],
    /// Its logit of real against generated.
    pub real_logits: &'a [f32],
}

/// How log odds of `D_v` are used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OddsUse {
    /// What they are divided by; infinite for no say at all.
    pub temperature: f64,
    /// Odds are kept in `[1/clip, clip]`.
    pub clip: f64,
    /// Odds above this count as this; infinite for no cap.
    pub cap: f64,
}

impl OddsUse {
    /// The same, saying nothing.
    #[must_use]
    pub fn silent(self) -> Self {
        Self {
            temperature: f64::INFINITY,
            cap: f64::INFINITY,
            ..self
        }
    }

    /// Log weight of an item by its log odds alone.
    pub fn log_weight(self, log_odds: f64) -> f64 {
        let log_clip = self.clip.ln();
        let kept = (log_odds / self.temperature).clamp(-log_clip, log_clip);
        kept.min(self.cap.ln())
    }
}

/// Log weights: the density times odds as they are used; `-∞` outside the support.
pub fn log_weights(items: Generated<'_>, odds: OddsUse) -> Vec<f64> {
    let log_odds = |v: &f32| odds.log_weight(f64::from(*v));
    let pairs = items.log_density.iter().zip(items.real_logits);
    pairs.map(|(density, v)| density + log_odds(v)).collect()
}

/// Effective share of generated items under [`log_weights`]; zero where none is supported.
pub fn effective_share(items: Generated<'_>, odds: OddsUse) -> f64 {
    summarise(&log_weights(items, odds)).weight_ess
}

/// How much nearer to real items weights bring generated ones, from the log weights of both: the mean log weight of real
/// items less the log of the mean weight of generated ones, which is the KL distance from real items that they take away.
pub fn gain(real: &[f64], generated: &[f64]) -> f64 {
    let n = |log_weights: &[f64]| log_weights.len().max(1) as f64;
    let mean_log = real.iter().sum::<f64>() / n(real);
    mean_log - (log_sum_exp(generated.iter().copied()) - n(generated).ln())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Items that all have the same density.
    fn share_of(logits: &[f32], temperature: f64, clip: f64) -> f64 {
        let log_density = vec![-1.5; logits.len()];
        let items = Generated {
            log_density: &log_density,
            real_logits: logits,
        };
        effective_share(items, at(temperature, clip))
    }

    fn at(temperature: f64, clip: f64) -> OddsUse {
        OddsUse {
            temperature,
            clip,
            cap: f64::INFINITY,
        }
    }

    /// Odds 4, 1 and 1/4: kept in [1/2, 2], and then no more than 1/2.
    #[test]
    fn odds_are_clipped_on_both_sides_and_capped_above() {
        let logits = [4.0_f64.ln(), 0.0, -(4.0_f64.ln())];
        let weights = |cap: f64| {
            let odds = OddsUse {
                cap,
                ..at(1.0, 2.0)
            };
            logits.map(|v| odds.log_weight(v).exp())
        };
        let close = |found: [f64; 3], wanted: [f64; 3]| {
            found.iter().zip(wanted).all(|(f, w)| (f - w).abs() < 1e-12)
        };
        assert!(close(weights(f64::INFINITY), [2.0, 1.0, 0.5]));
        assert!(close(weights(1.0), [1.0, 1.0, 0.5]));
        assert!(close(weights(0.1), [0.1, 0.1, 0.1]));
    }

    /// Densities 1, 3 and none with odds 2, 1 and 9: weights 2, 3 and 0.
    #[test]
    fn a_querys_density_counts_too() {
        let items = Generated {
            log_density: &[0.0, 3.0_f64.ln(), f64::NEG_INFINITY],
            real_logits: &[2.0_f32.ln(), 0.0, 9.0_f32.ln()],
        };
        let close = |found: f64, wanted: f64| (found - wanted).abs() < 1e-7;
        assert!(close(
            effective_share(items, at(1.0, f64::INFINITY)),
            25.0 / (3.0 * 13.0)
        ));
        assert!(close(
            effective_share(items, at(f64::INFINITY, f64::INFINITY)),
            16.0 / (3.0 * 10.0)
        ));
    }

    /// All pairs, one by one.
    fn slow_auc(real: &[f32], generated: &[f32]) -> f64 {
        let mut wins = 0.0;
        for r in real {
            for g in generated {
                wins += if r > g {
                    1.0
                } else if r == g {
                    0.5
                } else {
                    0.0
                };
            }
        }
        wins / (real.len() * generated.len()) as f64
    }

    fn logits() -> impl Strategy<Value = Vec<f32>> {
        prop::collection::vec(-8.0..8.0f32, 2..40)
    }

    proptest! {
        #[test]
        fn auc_counts_pairs(
            real in prop::collection::vec(-4i8..4, 1..30),
            generated in prop::collection::vec(-4i8..4, 1..30),
        ) {
            // Whole numbers, so that there are ties; every other zero is a negative one.
            let of = |values: &[i8]| -> Vec<f32> {
                values.iter().map(|&v| if v == 0 { -0.0 } else { f32::from(v % 3) }).collect()
            };
            let (real, generated) = (of(&real), of(&generated));
            let (ours, slow) = (auc(&real, &generated), slow_auc(&real, &generated));
            prop_assert!((ours - slow).abs() < 1e-12, "{} {}", ours, slow);
        }

        #[test]
        fn without_a_clip_the_share_grows_with_the_temperature(
            v in logits(), t in 0.05..20.0f64, factor in 1.0..5.0f64,
        ) {
            let share = |t| share_of(&v, t, f64::INFINITY);
            prop_assert!(share(t * factor) >= share(t) - 1e-12);
        }
    }

    #[test]
    fn shares_computed_on_paper() {
        // Odds 4, 1 and 1: (4+1+1)² / (3·18).
        let v = [4.0_f32.ln(), 0.0, 0.0];
        assert!((share_of(&v, 1.0, f64::INFINITY) - 36.0 / 54.0).abs() < 1e-7);
        // At temperature 2, odds 2, 1, 1: 16 / 18. With a clip at 2 the same.
        assert!((share_of(&v, 2.0, f64::INFINITY) - 16.0 / 18.0).abs() < 1e-7);
        assert!((share_of(&v, 1.0, 2.0) - 16.0 / 18.0).abs() < 1e-12);
        // The clip at the lower end: odds 1/16 and 1 become 1/2 and 1.
        let low = [-(16.0_f32.ln()), 0.0];
        assert!((share_of(&low, 1.0, 2.0) - 2.25 / 2.5).abs() < 1e-12);
        // Logits beyond every exponential.
        assert_eq!(share_of(&[1e30, -1e30], 1.0, f64::INFINITY), 0.5);
        assert_eq!(share_of(&[], 1.0, 10.0), 0.0);
        assert_eq!(odds_clip(6000), 6001.0);
    }

    #[test]
    fn with_a_clip_the_share_need_not_grow() {
        // Log odds 1 and 2, clipped to at most 1: equal at temperature 1, not at 2.
        let share = |t| share_of(&[1.0, 2.0], t, std::f64::consts::E);
        assert_eq!(share(1.0), 1.0);
        assert!(share(2.0) < 0.95);
        assert!(share(20.0) > 0.99);
    }

    // scikit-learn 1.9.1: roc_auc_score(t, v), with t and v as in temperature.rs:
    //   j = np.arange(20); real = ((7*j) % 20)/4 - 1.5
    //   k = np.arange(35); gen = ((11*k) % 35)/5 - 5
    //   t, v = np.r_[np.ones(20), np.zeros(35)], np.r_[real, gen]
    #[test]
    fn scikit_learn_has_the_same_auc() {
        let real: Vec<f32> = (0..20_u16)
            .map(|j| f32::from(7 * j % 20) / 4.0 - 1.5)
            .collect();
        let generated = (0..35_u16).map(|k| f32::from(11 * k % 35) / 5.0 - 5.0);
        let found = auc(&real, &generated.collect::<Vec<f32>>());
        assert!((found - 0.822_142_857_142_857_1).abs() < 1e-12, "{found}");
        assert_eq!(auc(&[], &[1.0]), 0.5);
    }

    /// Real items in shares 1/2 and 1/2, generated ones in 1/4 and 3/4: with the true odds the gain is the KL distance.
    #[test]
    fn the_gain_of_true_odds_is_the_distance() {
        let odds = [2.0_f64.ln(), (2.0_f64 / 3.0).ln()];
        let generated = [odds[0], odds[1], odds[1], odds[1]];
        let wanted = f64::midpoint(odds[0], odds[1]);
        assert!((gain(&odds, &generated) - wanted).abs() < 1e-12);
        assert_eq!(gain(&[0.0], &[0.0; 5]), 0.0);
    }
}
