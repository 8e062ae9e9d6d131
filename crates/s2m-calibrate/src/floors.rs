//! The floor of every joint class, and which of them the data holds.

use std::collections::BTreeMap;

use s2m_core::calibration::classes::REACHABLE;
use s2m_core::calibration::{floor, purity};
use s2m_core::query::Query;
use s2m_model::manifest::{FloorValue, LabellingEntry};

use crate::chosen::{Chosen, MOST_LABELS};
use crate::error::{Error, said};
use crate::found::{JointClass, MarginFound, Prediction, Shares};
use crate::held_out::Rows;
use crate::presence;
use crate::settings::CalibrationSettings;

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
        let wish = floor::Wish {
            purity: settings.purity,
            highest: settings.highest_floor,
            least_kept: settings.least_kept,
        };
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
                floor::floor_for(&items, wish)
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
