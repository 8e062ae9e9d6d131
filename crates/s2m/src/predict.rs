//! What a query costs and how pure its samples will be, from proposals that are scored already.
//!
//! Nothing is drawn: weights and posteriors of proposals in memory say what each floor leaves, so that a wish for a purity is
//! answered before anything is spent on it.

use s2m_core::calibration::purity::{Item, kept, log_floor_for};
use s2m_core::labels::Quoted;
use s2m_core::query::Query;
use s2m_core::samplers::{MIN_SUPPORTED, reject};
use s2m_core::series;
use s2m_core::setting::Setting;
use serde::Serialize;

use crate::ask::Ask;
use crate::draw::{item_posterior, weigh_first};
use crate::error::Error;
use crate::pool::Pool;
use crate::progress::Silent;
use crate::scored::{ELSEWHERE, Scored};
use crate::session::Session;
use crate::settings::{DEFAULT_TV, SampleSettings};
use crate::weigh;

/// What is predicted for a query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// Proposals that the query looked at.
    pub proposals: usize,
    /// With the floor of the model, or of the settings; none where too few proposals have any weight.
    pub own: Option<AtFloor>,
    /// For each purity that was asked about, with the floor that reaches it; none where no floor does, or too few are left.
    pub at: Vec<Option<AtFloor>>,
}

/// What one floor leads to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AtFloor {
    /// Least posterior of the query.
    pub floor: f64,
    /// Mean prediction over proposals, in proportion to their weights.
    pub predicted_purity: f64,
    /// Proposals per sample with `reject` at the default distance.
    pub calls_per_sample: f64,
    /// Share of all items with a label that the query holds on and the floor lets pass, by their weights.
    pub share: f64,
    /// Proposals with any weight.
    pub supported: usize,
}

impl Ask {
    /// Predicts purity and cost at the model's floor, and at the floors that some purities need.
    pub fn predict(&self, scored: &mut Scored, purities: &[f64]) -> Result<Prediction, Error> {
        if let Some(wrong) = purities.iter().find(|p| !(**p > 0.0 && **p < 1.0)) {
            return Err(Error::Setting(format!(
                "{} is {wrong}; it must lie strictly between 0 and 1",
                Setting("purity")
            )));
        }
        if self.model().bundle().hash() != scored.session.bundle.hash() || self.draws_adapted() {
            return Err(Error::Setting(ELSEWHERE.to_owned()));
        }
        let Scored { session, pool, .. } = scored;
        let mut settings = self.settings().clone();
        settings.overrides.purity = None;
        let weighed = weigh::weigh(&session.bundle, self.query(), &settings)?;
        let mut target = session.plan_shared(&weighed, pool, &Silent)?;
        let own_floor = target.weighting.floor().ln();
        target.weighting = target.weighting.with_log_floor(f64::NEG_INFINITY);
        let positions = pool.len() / target.sequence.period();
        let log_weights = weigh_first(pool, &mut target, positions, &Silent)?;
        let (mut numbers, mut weights) = (target.sequence.numbers(0..positions), Vec::new());
        let mut each = log_weights.iter().copied();
        numbers.retain(|_| {
            let weight = each.next().filter(|weight| weight.is_finite());
            weights.extend(weight);
            weight.is_some()
        });
        let mut items = Vec::with_capacity(weights.len());
        pool.look_at(&numbers, &mut |number, evidence| {
            let item = item_posterior(&target, number, evidence)?;
            items.push(Item {
                log_weight: weights[items.len()],
                log_posterior: item.log_posterior(target.weighting.query()),
                predicted: target.weighting.predicted(&item),
            });
            Ok(())
        })?;
        let log_all = log_mass_of_all(session, pool, &settings)?;
        let mut known: Vec<(f64, Option<AtFloor>)> = Vec::new();
        let mut at = |log_floor: f64| {
            let before = known.iter().find(|(floor, _)| *floor == log_floor);
            if let Some((_, predicted)) = before {
                return *predicted;
            }
            let predicted = predicted(&items, positions, (log_floor, log_all));
            known.push((log_floor, predicted));
            predicted
        };
        Ok(Prediction {
            proposals: positions,
            own: at(own_floor),
            at: purities
                .iter()
                .map(|&purity| log_floor_for(&items, purity).and_then(&mut at))
                .collect(),
        })
    }
}

/// What a floor leaves of the supported items among so many; none where that is too little.
fn predicted(
    items: &[Item],
    positions: usize,
    (log_floor, log_all): (f64, f64),
) -> Option<AtFloor> {
    let left = kept(items, log_floor).filter(|left| left.items >= MIN_SUPPORTED)?;
    let stays = items.iter().filter(|item| item.log_posterior >= log_floor);
    let mut log_weights: Vec<f64> = stays.map(|item| item.log_weight).collect();
    let log_mass = series::log_sum_exp(&log_weights) - (positions as f64).ln();
    log_weights.resize(positions, f64::NEG_INFINITY);
    Some(AtFloor {
        floor: log_floor.exp(),
        predicted_purity: left.predicted_purity,
        calls_per_sample: reject::calls_per_sample(&log_weights, DEFAULT_TV)?,
        share: (log_mass - log_all).exp(),
        supported: left.items,
    })
}

/// Log of the mean weight of items with any label, without a floor.
fn log_mass_of_all(
    session: &Session,
    pool: &mut Pool,
    settings: &SampleSettings,
) -> Result<f64, Error> {
    let labels = session.bundle.labels();
    let names = labels.names().map(|name| Quoted(name).to_string());
    let any = Query::parse(&names.collect::<Vec<_>>().join(" | "), labels)?;
    let weighed = weigh::weigh(&session.bundle, &any, settings)?;
    let mut target = session.plan_shared(&weighed, pool, &Silent)?;
    target.weighting = target.weighting.with_log_floor(f64::NEG_INFINITY);
    let positions = pool.len() / target.sequence.period();
    let log_weights = weigh_first(pool, &mut target, positions, &Silent)?;
    Ok(series::log_sum_exp(&log_weights) - (positions as f64).ln())
}
