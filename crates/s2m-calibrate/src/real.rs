//! The discriminator: where its odds are capped, what they leave, and what is reported of them.

use std::collections::BTreeMap;

use s2m_core::calibration::correction::Choice;
use s2m_core::calibration::odds::{self, Generated, OddsUse};
use s2m_core::diagnostics::summarise;
use s2m_core::log_sum_exp;
use s2m_core::query::Query;
use s2m_core::tail::tail_index;

use crate::chosen::{Chosen, REACHABLE, densities};
use crate::error::{Error, said};
use crate::found::{RealFound, Reliability, Shares, WayFound};
use crate::held_out::Rows;
use crate::reliability::reliability;
use crate::settings::CalibrationSettings;

/// Heaviest tail of weights, as a Pareto index; samplers state no error beyond it.
const HEAVIEST_TAIL: f64 = 0.4;

/// Share of the effective sample size without D_v from which on its tail is not looked at: then the
/// heaviest items cannot hold much, and a lower cap would only take D_v's say away.
const HARMLESS: f64 = 0.5;

/// Each try of a lower cap is the one before divided by this.
const STEP: f64 = 1.05;

/// A joint class with enough supported items: log densities without D_v, and D_v's corrected logits.
struct Reachable {
    query: Query,
    log_density: Vec<f64>,
    log_odds: Vec<f32>,
    /// Whether enough items are more likely of this class than not; it may be one that the data lacks otherwise.
    likely: bool,
}

impl Reachable {
    fn items(&self) -> Generated<'_> {
        Generated {
            log_density: &self.log_density,
            real_logits: &self.log_odds,
        }
    }
}

impl Chosen<'_> {
    /// How D_v's log odds are used so far.
    pub(super) fn odds(&self) -> OddsUse {
        OddsUse {
            temperature: self.entry.temperature.real,
            clip: self.clip(),
            cap: self.entry.odds_cap.unwrap_or(f64::INFINITY),
        }
    }

    pub(super) fn set_cap(&mut self, cap: f64) {
        self.entry.odds_cap = cap.is_finite().then_some(cap);
    }

    /// Every joint class with enough supported items.
    fn reachable(&self, made: &Rows) -> Result<Vec<Reachable>, Error> {
        let mut reachable = Vec::new();
        for query in &self.queries {
            let (weighting, rows) = self.drawn(query, made, None)?;
            let log_density = densities(&weighting, &rows)?;
            if log_density.iter().filter(|d| d.is_finite()).count() >= REACHABLE {
                let corrected = |v: &f32| self.correction.log_odds(f64::from(*v)) as f32;
                let mut likely = 0;
                for at in 0..rows.count() {
                    let explained = weighting.explain(rows.evidence(at)).map_err(said)?;
                    likely += usize::from(explained.posterior >= 0.5);
                }
                reachable.push(Reachable {
                    query: query.clone(),
                    log_density,
                    log_odds: rows.real.iter().map(corrected).collect(),
                    likely: likely >= REACHABLE,
                });
            }
        }
        Ok(reachable)
    }

    /// Lowers the cap of D_v's odds until every joint class that is likely somewhere keeps enough of its items.
    pub(super) fn lower_cap(
        &mut self,
        settings: &CalibrationSettings,
        made: &Rows,
    ) -> Result<(), Error> {
        let least = settings.least_of_a_class();
        let reachable = self.reachable(made)?;
        let odds = self.odds();
        let keeps_enough = |joint: &Reachable, cap: f64| {
            let items = joint.items();
            let alone = odds::effective_share(items, silent(odds));
            let log_weights = odds::log_weights(items, OddsUse { cap, ..odds });
            let share = summarise(&log_weights).weight_ess;
            let heavy = || tail_index(&log_weights).is_some_and(|index| index > HEAVIEST_TAIL);
            share >= least * alone && (share >= HARMLESS * alone || !heavy())
        };
        let all = reachable.iter().flat_map(|joint| &joint.log_odds);
        let largest = all.map(|v| odds.log_weight(f64::from(*v)));
        let largest = largest.fold(f64::NEG_INFINITY, f64::max).exp();
        let mut cap = odds.cap;
        // A class that was content may no longer be: round after round until none asks for more.
        loop {
            let before = cap;
            for joint in reachable.iter().filter(|joint| joint.likely) {
                while !keeps_enough(joint, cap) && cap * odds.clip > 1.0 {
                    cap = cap.min(largest) / STEP;
                }
            }
            if cap == before {
                self.set_cap(cap);
                return Ok(());
            }
        }
    }

    /// Effective shares of every reachable joint class: without D_v, by odds without a cap, and as used.
    pub(super) fn shares(&self, made: &Rows) -> Result<BTreeMap<String, Shares>, Error> {
        let odds = self.odds();
        let uncapped = OddsUse {
            cap: f64::INFINITY,
            ..odds
        };
        let share = |joint: &Reachable| {
            let at = |odds| odds::effective_share(joint.items(), odds);
            let shares = Shares {
                without_real: at(silent(odds)),
                by_likelihood: at(uncapped),
                used: at(odds),
            };
            (joint.query.text().to_owned(), shares)
        };
        Ok(self.reachable(made)?.iter().map(share).collect())
    }

    /// What is reported about the discriminator, on items that had no part in choosing it.
    pub(super) fn real_found(&self, chosen: &Choice, [real, generated]: [&Rows; 2]) -> RealFound {
        let of_both = |log_odds: &dyn Fn(f32) -> f64| {
            let of = |rows: &Rows| rows.real.iter().map(|&v| log_odds(v)).collect();
            real_reliability(&[of(real), of(generated)])
        };
        let by_likelihood = self.entry.temperature.real;
        let tried = chosen.tried.iter();
        RealFound {
            correction: self.correction.name().to_owned(),
            tried: tried
                .map(|t| (t.name.to_owned(), [t.loss, t.excess[0], t.excess[1]]))
                .collect(),
            by_likelihood,
            cap: self.entry.odds_cap,
            odds_clip: self.clip(),
            auc: odds::auc(&real.real, &generated.real),
            gain: self.gain([real, generated]),
            before: of_both(&f64::from),
            after: of_both(&|v| self.correction.log_odds(f64::from(v)) / by_likelihood),
        }
    }

    /// How much nearer to real items the weights bring generated ones; see [`RealFound::gain`].
    fn gain(&self, [real, generated]: [&Rows; 2]) -> f64 {
        let odds = self.odds();
        let log_weight = |v: &f32| odds.log_weight(self.correction.log_odds(f64::from(*v)));
        let log_weights = |rows: &Rows| rows.real.iter().map(log_weight).collect::<Vec<f64>>();
        let n = |rows: &Rows| rows.count().max(1) as f64;
        let mean_log = log_weights(real).iter().sum::<f64>() / n(real);
        mean_log - (log_sum_exp(log_weights(generated).into_iter()) - n(generated).ln())
    }
}

/// D_v's odds, saying nothing.
fn silent(odds: OddsUse) -> OddsUse {
    OddsUse {
        temperature: f64::INFINITY,
        cap: f64::INFINITY,
        ..odds
    }
}

/// What corrected odds leave of generated items, and how right they are on items that they were not
/// fitted to.
pub(super) fn way_found(choice: &Choice, made: &Rows, clip: f64) -> WayFound {
    let corrected = |v: &f32| choice.chosen.correction.log_odds(f64::from(*v)) as f32;
    let items = Generated {
        log_density: &vec![0.0; made.count()],
        real_logits: &made.real.iter().map(corrected).collect::<Vec<_>>(),
    };
    WayFound {
        effective_share: odds::effective_share(
            items,
            OddsUse {
                temperature: choice.chosen.temperature,
                clip,
                cap: f64::INFINITY,
            },
        ),
        reliability_error: real_reliability(&choice.held_out).error,
        auc: None,
        witnesses: None,
        outside: None,
    }
}

/// Predicted and seen shares of real items, from log odds of real and of generated ones, both sides
/// counting alike.
fn real_reliability([real, generated]: &[Vec<f64>; 2]) -> Reliability {
    let of = |(side, is_real): (&Vec<f64>, bool)| -> Vec<(f64, bool, f64)> {
        let weight = 1.0 / side.len().max(1) as f64;
        let item = |log_odds: &f64| (1.0 / (1.0 + (-log_odds).exp()), is_real, weight);
        side.iter().map(item).collect()
    };
    reliability([(real, true), (generated, false)].into_iter().flat_map(of))
}
