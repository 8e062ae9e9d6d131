//! What is drawn of a chain, and how much of it the referee finds right.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use s2m::Model;
use s2m::adapt::AdaptChoice;
use s2m::settings::{Overrides, SampleSettings};
use s2m_core::labels::LabelSet;
use s2m_core::query::Query;
use s2m_data::recipe::{DataRecipe, Loaded};
use s2m_data::{Dataset, Values};
use s2m_eval::items::interleaved;
use s2m_model::bundle::Bundle;
use serde::{Deserialize, Serialize};

use super::{Items, LINES, Made, SEED};
use crate::Error;
use crate::evaluation::{Drawn, Evaluator, Finding, Sampled, Way};
use crate::fits::Court;

/// Where the items of a line come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum From {
    /// The generator's first items.
    Alone,
    /// Proposals of the prior, with this floor or the bundle's own.
    Bank { floor: Option<f64> },
    /// Proposals that are adapted to the query, with the bundle's own floor.
    Adapted,
}

/// What is measured of one joint class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Of {
    /// Share of items that the referee finds right.
    pub(super) right: f64,
    /// The same as networks predict it that had no part in selecting; none for the generator alone.
    pub(super) predicted: Option<f64>,
    pub(super) calls: f64,
}

/// What is measured of samples and their levels.
type Measure<'m> = dyn Fn(&Sampled, &[f32]) -> Result<Of, Error> + 'm;

/// Everything that the chains of a triple are measured with.
pub(super) struct Workshop<'b> {
    pub(super) evaluator: Evaluator<'b>,
    pub(super) court: Court,
    pub(super) recipe: DataRecipe,
    pub(super) data: Loaded,
}

impl Workshop<'_> {
    /// All lines of a bundle.
    pub(super) fn make(&self, folder: &Path) -> Result<Made, Error> {
        let bundle = Arc::new(Bundle::open(folder)?);
        let all = Query::all_joint(&self.court.labels);
        let queries: Vec<Query> = all.filter(|query| self.court.exists(query)).collect();
        let mut lines = BTreeMap::new();
        for (name, from) in LINES {
            self.evaluator.progress.note(name);
            let line = match from {
                From::Alone => self.alone(folder, &bundle, &queries)?,
                From::Bank { .. } | From::Adapted => {
                    let one = |query: &Query| {
                        let found = self.drawn(folder, &bundle, query, from)?;
                        Ok((query.text().to_owned(), found.measured().copied()))
                    };
                    queries.iter().map(one).collect::<Result<_, Error>>()?
                }
            };
            lines.insert(name.to_owned(), line);
        }
        Ok(Made {
            lines,
            items: self.items(&queries)?,
            samples: self.evaluator.samples.get(),
        })
    }

    /// The generator's first items, which count for every joint class.
    fn alone(
        &self,
        folder: &Path,
        bundle: &Arc<Bundle>,
        queries: &[Query],
    ) -> Result<BTreeMap<String, Option<Of>>, Error> {
        let generator = bundle.generator_part().digest().to_string();
        let sets: Vec<u64> = self.evaluator.kept(
            "faces-alone",
            &[self.court.judge.sha256(), &generator],
            || {
                let way = Way::of(queries.first().map_or("", Query::text));
                let drawn = Drawn::opened(folder.to_owned(), Arc::clone(bundle), way);
                let count = self.evaluator.samples.get();
                let first = Sampled {
                    numbers: (0..count as u64).collect(),
                    ..Sampled::default()
                };
                let levels = self.evaluator.render(&drawn, &first, count)?;
                let sets = self.court.sets_of(&levels)?;
                Ok(sets.into_iter().map(LabelSet::bits).collect())
            },
        )?;
        let sets: Vec<LabelSet> = sets.into_iter().map(LabelSet::from_bits).collect();
        let of = |query: &Query| {
            let of = Of {
                right: right(&sets, query),
                predicted: None,
                calls: 1.0,
            };
            (query.text().to_owned(), Some(of))
        };
        Ok(queries.iter().map(of).collect())
    }

    /// Samples of a joint class.
    fn drawn(
        &self,
        folder: &Path,
        bundle: &Arc<Bundle>,
        query: &Query,
        from: From,
    ) -> Result<Finding<Of>, Error> {
        let identity = [self.court.judge.sha256(), "faces"];
        let of = |sampled: &Sampled, levels: &[f32]| {
            let sets = self.court.sets_of(levels)?;
            Ok(Of {
                right: right(&sets, query),
                predicted: sampled.predicted_purity,
                calls: sampled.calls_per_sample,
            })
        };
        let From::Bank { floor } = from else {
            return self.adapted(bundle, query, &of);
        };
        let way = Way {
            overrides: Overrides {
                floor,
                ..Overrides::default()
            },
            ..Way::of(query.text())
        };
        let drawn = Drawn::opened(folder.to_owned(), Arc::clone(bundle), way);
        let found = |sampled: Sampled, levels: &[f32]| of(&sampled, levels);
        self.evaluator.measure("faces", &identity, &drawn, found)
    }

    /// Samples of a joint class out of proposals that were adapted to it; calls of the search count.
    fn adapted(
        &self,
        bundle: &Arc<Bundle>,
        query: &Query,
        of: &Measure<'_>,
    ) -> Result<Finding<Of>, Error> {
        let evaluator = &self.evaluator;
        let samples = evaluator.samples.get();
        let settings = SampleSettings {
            seed: Some(SEED),
            adapt: AdaptChoice::adaptive(),
            max_calls: Some(samples.saturating_mul(evaluator.most_calls)),
            ..SampleSettings::default()
        };
        let decided = serde_json::to_string(&settings).expect("settings have only plain fields");
        let identity = [
            self.court.judge.sha256(),
            bundle.hash(),
            query.text(),
            &decided,
        ];
        evaluator.kept("faces-adapted", &identity, || {
            let model = Model::from(Arc::clone(bundle)).with_machine(evaluator.machine);
            let ask = model.query(query.text())?.with_settings(settings.clone());
            let selected = match ask.select(samples, evaluator.progress) {
                Err(s2m::Error::Refused(refusal)) => {
                    return Ok(Finding::Refused(refusal.failure.to_string()));
                }
                selected => selected?,
            };
            let found = selected.samples(evaluator.progress)?;
            let sampled = Sampled {
                calls_per_sample: selected.looked_at() as f64 / found.len().max(1) as f64,
                predicted_purity: Some(selected.report(0.0).predicted_purity),
                ..Sampled::default()
            };
            of(&sampled, &found.items.to_floats()).map(Finding::Measured)
        })
    }

    /// What the data has of each joint class, and what the referee makes of its test items.
    fn items(&self, queries: &[Query]) -> Result<BTreeMap<String, Items>, Error> {
        let (train, test) = (&self.data.train, &self.data.test);
        let found = self.court.sets_of(&levels(test))?;
        let of = |query: &Query| {
            let count = |truth: &[LabelSet]| truth.iter().filter(|set| query.holds(**set)).count();
            let pairs = found.iter().zip(&test.truth);
            let own = pairs.filter(|(_, truth)| query.holds(**truth));
            let own: Vec<LabelSet> = own.map(|(found, _)| *found).collect();
            let items = Items {
                train: count(&train.truth),
                test: own.len(),
                referee: (!own.is_empty()).then(|| right(&own, query)),
            };
            (query.text().to_owned(), items)
        };
        Ok(queries.iter().map(of).collect())
    }
}

/// Share of label sets for which a query holds.
fn right(sets: &[LabelSet], query: &Query) -> f64 {
    let holds = sets.iter().filter(|set| query.holds(**set));
    holds.count() as f64 / sets.len().max(1) as f64
}

/// Levels of pictures, channels last.
fn levels(data: &Dataset) -> Vec<f32> {
    let (Values::Bytes(bytes), &[channels, height, width]) =
        (&data.items.values, data.items.shape.as_slice())
    else {
        unreachable!("CelebA is pictures");
    };
    let bytes = interleaved(bytes, [channels, height, width]);
    bytes.into_iter().map(f32::from).collect()
}
