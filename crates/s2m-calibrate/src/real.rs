//! The discriminator: where its odds are capped, what they leave, and what is reported of them.

use std::collections::BTreeMap;

use s2m_core::calibration::classes::{self, Class, REACHABLE};
use s2m_core::calibration::correction::Choice;
use s2m_core::calibration::odds::{self, Generated, OddsUse};
use s2m_core::calibration::{cap, reliability};
use s2m_core::query::Query;

use crate::chosen::{Chosen, densities};
use crate::error::{Error, said};
use crate::found::{RealFound, Shares, WayFound};
use crate::held_out::Rows;
use crate::settings::CalibrationSettings;

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
    fn reachable(&self, made: &Rows) -> Result<Vec<(Query, Class)>, Error> {
        let mut reachable = Vec::new();
        for query in &self.queries {
            let (weighting, rows) = self.drawn(query, made, None)?;
            let log_density = densities(&weighting, &rows)?;
            if classes::is_reachable(&log_density) {
                let corrected = |v: &f32| self.correction.log_odds(f64::from(*v)) as f32;
                let mut likely = 0;
                for at in 0..rows.count() {
                    let explained = weighting.explain(rows.evidence(at)).map_err(said)?;
                    likely += usize::from(explained.posterior >= 0.5);
                }
                let class = Class {
                    log_density,
                    log_odds: rows.real.iter().map(corrected).collect(),
                    likely: likely >= REACHABLE,
                };
                reachable.push((query.clone(), class));
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
        let least = cap::least_of_a_class(settings.likeness, settings.least_effective_share);
        let reachable = self.reachable(made)?.into_iter().map(|(_, class)| class);
        let cap = classes::lowered_cap(&reachable.collect::<Vec<_>>(), self.odds(), least);
        self.set_cap(cap);
        Ok(())
    }

    /// Effective shares of every reachable joint class: without D_v, by odds without a cap, and as used.
    pub(super) fn shares(&self, made: &Rows) -> Result<BTreeMap<String, Shares>, Error> {
        let share = |(query, class): &(Query, Class)| {
            (query.text().to_owned(), class.shares(self.odds()).into())
        };
        Ok(self.reachable(made)?.iter().map(share).collect())
    }

    /// What is reported about the discriminator, on items that had no part in choosing it.
    pub(super) fn real_found(&self, chosen: &Choice, [real, generated]: [&Rows; 2]) -> RealFound {
        let of_both = |log_odds: &dyn Fn(f32) -> f64| {
            let of = |rows: &Rows| rows.real.iter().map(|&v| log_odds(v)).collect();
            reliability::of_odds(&[of(real), of(generated)]).into()
        };
        let by_likelihood = self.entry.temperature.real;
        let odds = self.odds();
        let log_weight = |v: &f32| odds.log_weight(self.correction.log_odds(f64::from(*v)));
        let log_weights = |rows: &Rows| rows.real.iter().map(log_weight).collect::<Vec<f64>>();
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
            gain: odds::gain(&log_weights(real), &log_weights(generated)),
            before: of_both(&f64::from),
            after: of_both(&|v| self.correction.log_odds(f64::from(v)) / by_likelihood),
        }
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
        reliability_error: reliability::of_odds(&choice.held_out).error,
        auc: None,
        witnesses: None,
        outside: None,
    }
}
