//! Exclusion margins of joint classes, where they are asked for.

use std::collections::{BTreeMap, BTreeSet};

use s2m_core::Kind;
use s2m_core::calibration::margin::{self, Loosened};
use s2m_core::diagnostics::summarise;
use s2m_core::query::Query;
use s2m_model::manifest::TemperatureValue;

use crate::chosen::{Chosen, densities};
use crate::error::{Error, said};
use crate::found::MarginFound;
use crate::held_out::Rows;
use crate::settings::CalibrationSettings;

impl Chosen<'_> {
    /// The exclusion margin of every joint class that excludes a label, where margins are asked for.
    ///
    /// The exclusion error asked for is doubled until a margin leaves enough generated items; that is
    /// decided on the first half of the held-out items, so that the promise on the second stays exact.
    pub(super) fn set_margins(
        &mut self,
        settings: &CalibrationSettings,
        [first, second]: [&Rows; 2],
        made: &Rows,
    ) -> Result<BTreeMap<String, MarginFound>, Error> {
        let mut report = BTreeMap::new();
        let asked = settings.exclusion_error.filter(|_| self.joint.is_none());
        let Some(asked) = asked else {
            return Ok(report);
        };
        for query in self.queries.clone() {
            let ratios = [self.ratios(&query, first)?, self.ratios(&query, second)?];
            let found = self.margin([asked, settings.least_kept], &query, ratios, made)?;
            if let MarginFound::Promised { margin, .. } = found {
                self.entry.margin.insert(query.text().to_owned(), margin);
            }
            report.insert(query.text().to_owned(), found);
        }
        Ok(report)
    }

    /// Log critical margins of the held-out items that show a label which the query excludes.
    pub(super) fn ratios(&self, query: &Query, held_out: &Rows) -> Result<Vec<f64>, Error> {
        let TemperatureValue::Same(temperature) = self.entry.temperature.class else {
            unreachable!("one temperature was fitted");
        };
        let mut seen = BTreeSet::new();
        let excluded = |at: &usize| {
            let shows = query.forced(usize::from(held_out.labels[*at])) == Some(false);
            // An item counts once, however many excluded labels it shows.
            shows && seen.insert(held_out.item(*at))
        };
        let ratio = |at| {
            let logits = held_out.evidence(at).class_logits;
            margin::log_critical_margin_of(logits, temperature, &self.labelling, query)
        };
        let ratios = (0..held_out.count()).filter(excluded).map(ratio);
        ratios.collect::<Result<_, _>>().map_err(said)
    }

    /// The margin of one query, from ratios of both halves, by the exclusion error asked for and the
    /// share of effective items that must be left.
    pub(super) fn margin(
        &self,
        [asked, least_kept]: [f64; 2],
        query: &Query,
        [first, second]: [Vec<f64>; 2],
        made: &Rows,
    ) -> Result<MarginFound, Error> {
        if second.is_empty() {
            let why = "no held-out item shows a label that it excludes";
            return Ok(MarginFound::None(why.to_owned()));
        }
        let share = |margin| self.effective_share(query, margin, made);
        let error = match margin::loosened(&first, asked, least_kept, share)? {
            Loosened::Enough(error) => error,
            Loosened::TooDear(error) => {
                return Ok(MarginFound::None(format!(
                    "even an exclusion error of {error} would take more than {:.0} % of the effective items",
                    100.0 * (1.0 - least_kept)
                )));
            }
        };
        match margin::exclusion_margin(&second, error) {
            Ok(found) => Ok(MarginFound::Promised {
                margin: found.value,
                exclusion_error: found.rank as f64 / (found.items as f64 + 1.0),
                rank: found.rank,
                items: found.items,
            }),
            Err(why) if matches!(why.kind(), Kind::TooFew | Kind::Unreachable) => {
                Ok(MarginFound::None(why.to_string()))
            }
            Err(why) => Err(Error::Setting(why.to_string())),
        }
    }

    /// Effective share of generated items at a margin, without D_v.
    pub(super) fn effective_share(
        &self,
        query: &Query,
        margin: f64,
        made: &Rows,
    ) -> Result<f64, Error> {
        let (weighting, rows) = self.drawn(query, made, Some(margin))?;
        Ok(summarise(&densities(&weighting, &rows)?).weight_ess)
    }
}
