//! The floor of every joint class, and which of them the data holds.

use std::collections::BTreeMap;

use s2m_core::calibration::purity;
use s2m_core::query::Query;
use s2m_model::manifest::{FloorValue, LabellingEntry};

use crate::chosen::{Chosen, MOST_LABELS, REACHABLE};
use crate::error::{Error, said};
use crate::found::{JointClass, MarginFound, Prediction, Shares};
use crate::held_out::Rows;
use crate::presence;
use crate::settings::CalibrationSettings;

/// Floors are not lowered under this: an item that is more likely something else is no sample.
const LEAST_LOWERED: u32 = 50;

/// A floor that is as pure as wanted is raised while this share of the effective items stays: where posteriors
/// are near 0 or 1, higher floors cost next to nothing.
const CHEAP: f64 = 0.95;

impl Chosen<'_> {
    /// For every reachable joint class the least floor at which it has the wanted predicted purity, lowered to
    /// what it can bear or raised to what costs little more.
    pub(super) fn set_floors(
        &mut self,
        settings: &CalibrationSettings,
        made: &Rows,
        mut margins: BTreeMap<String, MarginFound>,
        shares: &BTreeMap<String, Shares>,
    ) -> Result<BTreeMap<String, JointClass>, Error> {
        let mut floors = BTreeMap::from([("default".to_owned(), 0.0)]);
        let mut report = BTreeMap::new();
        for query in &self.queries {
            let (weighting, rows) = self.drawn(query, made, None)?;
            let item = |at| {
                let explained = weighting.explain(rows.evidence(at))?;
                Ok(purity::Item {
                    log_weight: explained.log_weight,
                    log_posterior: explained.posterior.ln(),
                    predicted: explained.predicted,
                })
            };
            let items = (0..rows.count())
                .map(item)
                .collect::<Result<Vec<_>, _>>()
                .map_err(said)?;
            let supported = items.iter().filter(|i| i.log_weight.is_finite()).count();
            let floor = if supported < REACHABLE {
                0.0
            } else {
                floor_for(&items, settings)
            };
            let at = |floor: f64| {
                purity::kept(&items, floor.ln()).map(|kept| Prediction {
                    predicted_purity: kept.predicted_purity,
                    effective_share: kept.effective_share,
                })
            };
            let joint = JointClass {
                supported,
                margin: margins.remove(query.text()),
                effective_share: shares.get(query.text()).copied(),
                floor,
                without_floor: at(0.0),
                with_floor: at(floor),
                presence: None,
            };
            report.insert(query.text().to_owned(), joint);
            floors.insert(query.text().to_owned(), floor);
        }
        self.entry.floor = FloorValue::ByQuery(floors);
        Ok(report)
    }

    /// Which joint classes the data holds, at their floors.
    pub(super) fn count_present(
        &mut self,
        real: &Rows,
        labelling: &LabellingEntry,
        joint_classes: &mut BTreeMap<String, JointClass>,
    ) -> Result<(), Error> {
        if self.bundle.labels().len() > MOST_LABELS {
            return Ok(());
        }
        let class = |query: &Query| {
            Ok(presence::Class {
                query: query.clone(),
                weighting: self.weighting(query, None)?,
                floor: joint_classes
                    .get(query.text())
                    .map_or(0.0, |joint| joint.floor),
            })
        };
        let classes = self.queries.iter().map(class);
        let classes = classes.collect::<Result<Vec<_>, Error>>()?;
        let found = presence::find(&classes, real, labelling)?;
        self.entry.presence = presence::entry(&found);
        for (query, found) in found {
            if let Some(joint) = joint_classes.get_mut(&query) {
                joint.presence = Some(found);
            }
        }
        Ok(())
    }
}

/// The floor that the purity asks for: in hundredths lowered to what leaves enough effective items, but not under
/// one half, or raised as long as that is cheap.
fn floor_for(items: &[purity::Item], settings: &CalibrationSettings) -> f64 {
    let share =
        |floor: f64| purity::kept(items, floor.ln()).map_or(0.0, |kept| kept.effective_share);
    let least = settings.least_kept * share(0.0);
    let wanted = purity::log_floor_for(items, settings.purity).map_or(1.0, f64::exp);
    let wanted = wanted.min(settings.highest_floor);
    let hundredths = |from: u32, to: f64| (from..=(to * 100.0) as u32).rev();
    if share(wanted) >= least {
        let cheap = least.max(CHEAP * share(wanted));
        let raised = hundredths(0, settings.highest_floor).map(|n| f64::from(n) / 100.0);
        let mut raised = raised.take_while(|&floor| floor > wanted);
        return raised
            .find(|&floor| share(floor) >= cheap)
            .unwrap_or(wanted);
    }
    let lowest = f64::from(LEAST_LOWERED) / 100.0;
    let mut lowered = hundredths(LEAST_LOWERED, wanted).map(|n| f64::from(n) / 100.0);
    let lowered = lowered.find(|&floor| share(floor) >= least);
    lowered.unwrap_or(lowest.min(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(weight: f64, posterior: f64) -> purity::Item {
        purity::Item {
            log_weight: weight.ln(),
            log_posterior: posterior.ln(),
            predicted: posterior,
        }
    }

    #[test]
    fn a_floor_is_what_purity_asks_for_unless_it_costs_too_much() {
        let settings = CalibrationSettings {
            purity: 0.9,
            least_kept: 0.5,
            ..CalibrationSettings::default()
        };
        // Without the third item the mean posterior is 0.95.
        let items = [item(1.0, 0.9), item(1.0, 1.0), item(1.0, 0.2)];
        assert!((floor_for(&items, &settings) - 0.9).abs() < 1e-9);
        // One item in 21 lies below 0.95, so that the higher floor is cheap; two would be too many.
        let settings = CalibrationSettings {
            highest_floor: 0.95,
            ..settings
        };
        let sure = |posterior| item(1.0, posterior);
        let mut items = vec![sure(0.99); 20];
        items.extend([sure(0.6), sure(0.1), sure(0.1)]);
        assert!((floor_for(&items, &settings) - 0.95).abs() < 1e-9);
        items.push(sure(0.61));
        let floor = floor_for(&items, &settings);
        assert!(floor > 0.6 && floor <= 0.61, "{floor}");
        // Only one in four items reaches the purity; keeping half of them asks for a lower floor.
        let items = [
            item(1.0, 0.95),
            item(1.0, 0.6),
            item(1.0, 0.5),
            item(1.0, 0.5),
        ];
        let floor = floor_for(&items, &settings);
        assert!(floor > 0.5 && floor <= 0.6, "{floor}");
        // Nothing here is more likely right than wrong: half of the items would ask for 0.3.
        let items = [
            item(1.0, 0.4),
            item(1.0, 0.3),
            item(1.0, 0.2),
            item(1.0, 0.1),
        ];
        assert_eq!(floor_for(&items, &settings), 0.5);
        assert_eq!(floor_for(&[item(1.0, 0.93)], &settings), 0.93);
    }
}
