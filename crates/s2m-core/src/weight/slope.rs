//! How the log weight changes with each logit: what leads moves of samples.
//!
//! ```text
//! log w = log r_Q + log odds − log Σ_c h_c·D_f(c|x)/p_G(c)
//! joint:   ∂ log r_Q/∂s_k = (P(k|Q) − P(k))/T
//! levels:  differences of log r_Q; outside the support, of the log nearness
//! odds:    differences over half a logit, so that steps of an isotonic curve have a slope
//! ```
//!
//! A floor `τ` is a wall without a slope. In its place stands `log σ(logit P(Q|x) − logit τ)`, which leads away from the
//! wall, on either side of it. A drift may be as soft as this: the acceptance of a move knows the exact weight.

use super::{Evidence, LogitError, Weighting, log_norm};
use crate::density::Levels;

/// Half the width of differences by a class logit.
const NEAR: f64 = 0.05;

/// Half the width of differences by the logit of the discriminator.
const WIDE: f64 = 0.25;

impl Weighting {
    /// The derivative of the log weight by each logit: class head, discriminator, fake-class head, label sets. `set_logits`
    /// are those of all label sets, of which evidence may keep the likeliest only.
    pub fn slopes(
        &self,
        evidence: Evidence<'_>,
        set_logits: &[f32],
        slopes: &mut [f32],
    ) -> Result<(), LogitError> {
        self.check(&evidence)?;
        let labels = evidence.class_logits.len();
        let (class, rest) = slopes.split_at_mut(labels);
        let (real, rest) = rest.split_at_mut(1);
        let fakes = evidence.fake_class_logits.map_or(0, <[f32]>::len);
        let (fake, sets) = rest.split_at_mut(fakes);
        if self.joint.is_some() {
            self.slopes_of_sets(set_logits, sets);
        } else {
            self.slopes_of_levels(evidence, class)?;
        }
        let odds = |by: f64| {
            let real_logit = (f64::from(evidence.real_logit) + by) as f32;
            self.log_odds(&Evidence {
                real_logit,
                ..evidence
            })
        };
        real[0] = ((odds(WIDE) - odds(-WIDE)) / (2.0 * WIDE)) as f32;
        self.slopes_of_fakes(&evidence, fake);
        Ok(())
    }

    fn slopes_of_sets(&self, logits: &[f32], slopes: &mut [f32]) {
        let Some(joint) = &self.joint else {
            return;
        };
        let scaled = |logit: &f32| f64::from(*logit) / joint.temperature;
        let log_all = crate::log_sum_exp(logits.iter().map(scaled));
        // The density of an output's set, where the query holds there or where it does not.
        let log_density = |at: usize, holds: bool| {
            let set = *joint.sets.sets().get(at)?;
            let density = self.labelling.density_of_shown(set);
            (self.query.holds(set) == holds).then(|| scaled(&logits[at]) + density.ln())
        };
        let log_sum = |holds: bool| {
            crate::log_sum_exp((0..logits.len()).filter_map(|at| log_density(at, holds)))
        };
        let (log_holding, log_other) = (log_sum(true), log_sum(false));
        let wall = self.slope_of_floor(log_holding - log_other);
        for (at, slope) in slopes.iter_mut().enumerate() {
            let share = |holds: bool, log_sum: f64| {
                log_density(at, holds).map_or(0.0, |log| (log - log_sum).exp())
            };
            let (holding, other) = (share(true, log_holding), share(false, log_other));
            let all = (scaled(&logits[at]) - log_all).exp();
            *slope = ((holding - all + wall * (holding - other)) / joint.temperature) as f32;
        }
    }

    /// The derivative of the softened floor by the log odds of the query: one half at the floor itself.
    fn slope_of_floor(&self, log_odds: f64) -> f64 {
        if self.log_floor == f64::NEG_INFINITY || !log_odds.is_finite() {
            return 0.0;
        }
        let log_odds_of_floor = self.log_floor - (-self.log_floor.exp()).ln_1p();
        1.0 / (1.0 + (log_odds - log_odds_of_floor).exp())
    }

    /// `log σ` of how far the log odds of the query lie above those of the floor; zero without a floor.
    fn softened_floor(&self, log_posterior: f64) -> f64 {
        let log_odds = log_posterior - (-log_posterior.exp()).ln_1p();
        if self.log_floor == f64::NEG_INFINITY || !log_odds.is_finite() {
            return 0.0;
        }
        let log_odds_of_floor = self.log_floor - (-self.log_floor.exp()).ln_1p();
        -(log_odds_of_floor - log_odds).exp().ln_1p()
    }

    fn slopes_of_levels(
        &self,
        evidence: Evidence<'_>,
        slopes: &mut [f32],
    ) -> Result<(), LogitError> {
        let log_density = |label: usize, by: f64| {
            let moved = |(at, &logit): (usize, &f32)| {
                let by = if at == label { by } else { 0.0 };
                (f64::from(logit) + by) / self.class_temperature
            };
            let logits = evidence.class_logits.iter().enumerate().map(moved);
            let log_norm = crate::log_sum_exp(logits.clone());
            let levels = Levels::new(&self.labelling, logits.map(|logit| logit - log_norm));
            let log_density = levels.log_density(&self.query, self.log_margin);
            log_density + self.softened_floor(levels.log_posterior(&self.query))
        };
        let here = log_density(0, 0.0);
        if here == f64::NEG_INFINITY {
            return self.slopes_of_nearness(evidence, slopes);
        }
        for (label, slope) in slopes.iter_mut().enumerate() {
            let sides = [-NEAR, NEAR].map(|by| (log_density(label, by), by));
            // At the edge of the support there is one side.
            let inside = sides.map(|side| {
                if side.0.is_finite() {
                    side
                } else {
                    (here, 0.0)
                }
            });
            let [(low, left), (high, right)] = inside;
            *slope = if right > left {
                ((high - low) / (right - left)) as f32
            } else {
                0.0
            };
        }
        Ok(())
    }

    fn slopes_of_nearness(
        &self,
        evidence: Evidence<'_>,
        slopes: &mut [f32],
    ) -> Result<(), LogitError> {
        let mut logits = evidence.class_logits.to_vec();
        for (label, slope) in slopes.iter_mut().enumerate() {
            let mut nearness = |by: f64| {
                logits[label] = (f64::from(evidence.class_logits[label]) + by) as f32;
                self.log_nearness(Evidence {
                    class_logits: &logits,
                    ..evidence
                })
            };
            let (low, high) = (nearness(-NEAR)?, nearness(NEAR)?);
            logits[label] = evidence.class_logits[label];
            let rise = high - low;
            *slope = if rise.is_finite() {
                (rise / (2.0 * NEAR)) as f32
            } else {
                0.0
            };
        }
        Ok(())
    }

    /// Of the term that is subtracted.
    fn slopes_of_fakes(&self, evidence: &Evidence<'_>, slopes: &mut [f32]) {
        let (Some(logits), false) = (evidence.fake_class_logits, self.mixture.is_empty()) else {
            return;
        };
        let temperature = self.fake_temperature;
        let log_all = log_norm(logits, temperature);
        let log_sum = self.log_conditional(evidence) + log_all;
        for ((slope, &logit), ratio) in slopes.iter_mut().zip(logits).zip(&self.mixture) {
            let scaled = f64::from(logit) / temperature;
            let used = (ratio.ln() + scaled - log_sum).exp();
            *slope = ((-used + (scaled - log_all).exp()) / temperature) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::calibration::correction::Correction;
    use crate::density::Labelling;
    use crate::joint::LabelSets;
    use crate::labels::Labels;
    use crate::query::Query;
    use crate::weight::{Calibration, JointCalibration, Temperature};

    fn weighting(text: &str, joint: bool) -> Weighting {
        let labels = Labels::new(["A", "B", "C"]).unwrap();
        let query = Query::parse(text, &labels).unwrap();
        let labelling = Labelling::per_class(&[0.5, 0.4, 0.3], &[0.3, 0.3, 0.4]).unwrap();
        let calibration = Calibration {
            class: Temperature::Same(1.7),
            fake_class: Temperature::Same(0.8),
            real: 2.5,
            correction: Correction::None,
            joint: joint.then(|| JointCalibration {
                sets: Arc::new(LabelSets::whole(3).unwrap()),
                temperature: 1.3,
            }),
            ..Calibration::default()
        };
        Weighting::calibrated(query, labelling, &calibration).unwrap()
    }

    const CLASS: [f32; 3] = [0.9, -0.4, 0.3];
    const FAKE: [f32; 3] = [0.2, 1.1, -0.7];
    const SETS: [f32; 7] = [0.3, -0.8, 1.2, 0.1, 2.0, -1.5, 0.7];

    /// Log weight of logits in one row, in the order of slopes.
    fn log_weight(weighting: &Weighting, row: &[f32]) -> f64 {
        let shape = LabelSets::whole(3).unwrap().shape();
        let evidence = Evidence {
            class_logits: &row[..3],
            real_logit: row[3],
            fake_class_logits: Some(&row[4..7]),
            joint: Some(shape.read(&row[7..])),
            log_latent_ratio: 0.0,
        };
        weighting.log_weight(evidence).unwrap()
    }

    #[test]
    fn slopes_are_those_of_the_log_weight() {
        let row: Vec<f32> = [&CLASS[..], &[0.6], &FAKE, &SETS].concat();
        for (text, joint) in [
            ("A - B", false),
            ("A + C - B", false),
            ("A | B", false),
            ("A - B", true),
            ("B + C", true),
            ("A | C", true),
        ] {
            let plain = weighting(text, joint);
            let weighting = plain.with_classes(&[0.6, 0.4, 0.0], &[0.3, 0.3, 0.4]);
            // All classes where the query needs others.
            let weighting = weighting.unwrap_or_else(|_| {
                self::weighting(text, joint)
                    .with_classes(&[0.2, 0.5, 0.3], &[0.3, 0.3, 0.4])
                    .unwrap()
            });
            let mut slopes = vec![0.0; row.len()];
            let shape = LabelSets::whole(3).unwrap().shape();
            let evidence = Evidence {
                class_logits: &row[..3],
                real_logit: row[3],
                fake_class_logits: Some(&row[4..7]),
                joint: Some(shape.read(&row[7..])),
                log_latent_ratio: 0.0,
            };
            weighting.slopes(evidence, &row[7..], &mut slopes).unwrap();
            let inside = log_weight(&weighting, &row).is_finite();
            for at in 0..row.len() {
                if !inside && at < 3 {
                    continue;
                }
                let moved = |by: f32| {
                    let mut row = row.clone();
                    row[at] += by;
                    let by = f64::from(row[at]);
                    (log_weight(&weighting, &row), by)
                };
                let ((low, left), (high, right)) = (moved(-0.01), moved(0.01));
                if !(low.is_finite() && high.is_finite()) {
                    continue;
                }
                let wanted = (high - low) / (right - left);
                let off = (f64::from(slopes[at]) - wanted).abs();
                assert!(
                    off < 3e-3 * (1.0 + wanted.abs()),
                    "{text}, {at}: {} and {wanted}",
                    slopes[at]
                );
            }
        }
    }

    /// Near a floor they are those of the log weight without it and of the soft wall in its place.
    #[test]
    fn slopes_lead_away_from_the_floor() {
        let row: Vec<f32> = [&CLASS[..], &[0.6], &SETS].concat();
        let shape = LabelSets::whole(3).unwrap().shape();
        let evidence =
            |row: &[f32]| -> (Vec<f32>, Vec<f32>) { (row[..3].to_vec(), row[4..].to_vec()) };
        for (text, joint) in [("A - B", false), ("A - B", true), ("A | C", true)] {
            let weighting = weighting(text, joint);
            for floor in [0.3_f64, 0.9] {
                let floored = weighting.clone().with_log_floor(floor.ln());
                let soft = |row: &[f32]| {
                    let (class, sets) = evidence(row);
                    let evidence = Evidence {
                        class_logits: &class,
                        real_logit: row[3],
                        fake_class_logits: None,
                        joint: Some(shape.read(&sets)),
                        log_latent_ratio: 0.0,
                    };
                    let item = weighting.item_posterior(evidence).unwrap();
                    let p = item.log_posterior(weighting.query()).exp();
                    let odds = (p / (1.0 - p)).ln() - (floor / (1.0 - floor)).ln();
                    weighting.log_weight(evidence).unwrap() - (1.0 + (-odds).exp()).ln()
                };
                let mut slopes = vec![0.0; row.len()];
                let (class, sets) = evidence(&row);
                let asked = Evidence {
                    class_logits: &class,
                    real_logit: row[3],
                    fake_class_logits: None,
                    joint: Some(shape.read(&sets)),
                    log_latent_ratio: 0.0,
                };
                floored.slopes(asked, &sets, &mut slopes).unwrap();
                if !soft(&row).is_finite() {
                    continue;
                }
                for at in 0..row.len() {
                    let moved = |by: f32| {
                        let mut row = row.clone();
                        row[at] += by;
                        (soft(&row), f64::from(row[at]))
                    };
                    let ((low, left), (high, right)) = (moved(-0.01), moved(0.01));
                    let wanted = (high - low) / (right - left);
                    let off = (f64::from(slopes[at]) - wanted).abs();
                    assert!(
                        off < 5e-3 * (1.0 + wanted.abs()),
                        "{text} {floor}, {at}: {} and {wanted}",
                        slopes[at]
                    );
                }
            }
        }
    }

    /// Where no level is left the slope leads towards the query.
    #[test]
    fn outside_the_support_slopes_lead_towards_it() {
        let weighting = weighting("B - A", false);
        let evidence = Evidence {
            class_logits: &[2.0, 0.0, 0.0],
            real_logit: 0.0,
            fake_class_logits: None,
            joint: None,
            log_latent_ratio: 0.0,
        };
        assert_eq!(weighting.log_weight(evidence).unwrap(), f64::NEG_INFINITY);
        let mut slopes = [0.0; 4];
        weighting.slopes(evidence, &[], &mut slopes).unwrap();
        assert!(slopes[0] < 0.0 && slopes[1] > 0.0, "{slopes:?}");
    }
}
