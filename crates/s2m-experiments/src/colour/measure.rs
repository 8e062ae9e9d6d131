//! What is measured of a line: the referee's answers for every joint class, and features of all of them together.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;

use s2m::progress::Progress;
use s2m_core::query::Query;
use s2m_data::recipe::{DataRecipe, Loaded};
use s2m_data::{Dataset, Values};
use s2m_eval::items::{Pictures, Rows, interleaved};
use s2m_eval::look::{Seen, look};
use s2m_eval::network::{EvalNetwork, Wanted as Output};
use s2m_metrics::features::Features;
use s2m_metrics::fid::fid;
use s2m_metrics::inception_score::{ClassScores, inception_score};
use s2m_metrics::kid::kid;
use s2m_metrics::prdc::{DEFAULT_K, prdc};
use s2m_metrics::tsne::{TsneSettings, tsne};
use s2m_show::picture::{Canvas, Mark, Marked, Panel, Picture, Row, scatter};
use serde::{Deserialize, Serialize};

use super::Wanted;
use crate::Bench;
use crate::Error;
use crate::evaluation::Sampled;
use crate::fits::Court;

/// The feature network, in the folder of data.
const NETWORK: &str = "inception/inception_v3_features.onnx.gz";

/// Splits of the Inception score.
const SPLITS: NonZeroUsize = NonZeroUsize::new(10).expect("10 is not zero");

/// Pictures of every joint class that are shown.
const SHOWN: usize = 12;

/// What is measured of one line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Figures {
    /// Every joint class by its query; null where it could not be drawn within the calls.
    pub(super) classes: BTreeMap<String, Option<OfClass>>,
    /// Of all items together; none where features were not looked at.
    pub(super) pooled: Option<Pooled>,
}

/// Of one joint class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct OfClass {
    pub(super) accuracy: f64,
    /// Against test items of the class.
    pub(super) kid: Option<f64>,
    pub(super) calls: f64,
    /// By networks that had no part in selecting, and by the one that selected.
    pub(super) predicted: Option<f64>,
    pub(super) plain: Option<f64>,
    pub(super) tv_bound: Option<f64>,
}

/// Of all joint classes together, against all test items.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Pooled {
    pub(super) fid: f64,
    pub(super) inception_score: Option<f64>,
    pub(super) precision: f64,
    pub(super) recall: f64,
    pub(super) density: f64,
    pub(super) coverage: f64,
}

impl Figures {
    /// The mean over the joint classes that have a value.
    pub(super) fn mean(&self, of: impl Fn(&OfClass) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.classes.values().flatten().filter_map(of).collect();
        let count = values.len() as f64;
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)
    }

    /// The largest over the joint classes that have a value.
    pub(super) fn largest(&self, of: impl Fn(&OfClass) -> Option<f64>) -> Option<f64> {
        let values = self.classes.values().flatten().filter_map(of);
        values.reduce(f64::max)
    }
}

/// Items of one joint class.
pub(super) struct Gathered {
    pub(super) query: Query,
    /// Levels with channels last.
    pub(super) levels: Vec<u8>,
    /// What it took; nothing of it for real items.
    pub(super) sampled: Sampled,
}

/// A measured line, and its first pictures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) figures: Figures,
    /// By query: levels with channels last, and whether the referee finds each right.
    shown: BTreeMap<String, (Vec<u8>, Vec<bool>)>,
}

impl Measured {
    /// Its pictures, a row for every joint class.
    pub(super) fn rows(&self) -> Vec<Row> {
        let row = |(query, (levels, right)): (&String, &(Vec<u8>, Vec<bool>))| {
            let size = levels.len() / right.len().max(1);
            let side = (size / 3).isqrt() as u32;
            let marked = |(levels, &right): (&[u8], &bool)| Marked {
                picture: Picture {
                    width: side,
                    height: side,
                    channels: 3,
                    bits: 8,
                    levels: levels.iter().map(|&level| u16::from(level)).collect(),
                },
                mark: if right { Mark::Right } else { Mark::Wrong },
            };
            Row {
                name: query.clone(),
                pictures: levels.chunks(size.max(1)).zip(right).map(marked).collect(),
            }
        };
        self.shown.iter().map(row).collect()
    }
}

/// Who measures.
pub(super) struct Measures<'a> {
    pub(super) court: Court,
    pub(super) recipe: DataRecipe,
    network: Option<EvalNetwork>,
    progress: &'a dyn Progress,
    data: Loaded,
    test: OnceCell<Test>,
}

/// Features of test items.
struct Test {
    pooled: Rows,
    classes: BTreeMap<String, Rows>,
}

impl<'a> Measures<'a> {
    /// With the feature network of the folder of data, where it is there.
    pub(super) fn open(
        bench: &Bench<'a>,
        court: Court,
        recipe: DataRecipe,
        data: Loaded,
    ) -> Result<Self, Error> {
        let path = bench.request.data.map(|data| data.join(NETWORK));
        let open = |path: &Path| {
            EvalNetwork::open(
                path,
                Output::Features,
                &bench.runtime,
                &bench.request.machine.run,
            )
            .map_err(Error::from)
        };
        let path = path.filter(|path| path.is_file());
        Ok(Self {
            court,
            recipe,
            network: path.as_deref().map(open).transpose()?,
            progress: bench.progress,
            data,
            test: OnceCell::new(),
        })
    }

    /// Whether features can be looked at.
    pub(super) fn has_features(&self) -> bool {
        self.network.is_some()
    }

    /// Everything that changes what is measured.
    pub(super) fn identity(&self) -> String {
        let network = self.network.as_ref().map(EvalNetwork::identity);
        format!(
            "{} {}",
            self.court.judge.sha256(),
            network.unwrap_or_default()
        )
    }

    /// The joint classes that training and test items have, with their shares of the test items.
    pub(super) fn shares(&self) -> Vec<(Query, f64)> {
        let all = Query::all_joint(&self.court.labels);
        let counted = all.filter(|query| self.court.exists(query)).map(|query| {
            let test = self.data.test.truth.iter();
            let count = test.filter(|set| query.holds(**set)).count();
            (query, count)
        });
        let known: Vec<(Query, usize)> = counted.filter(|(_, count)| *count > 0).collect();
        let total: usize = known.iter().map(|(_, count)| count).sum();
        let share = |(query, count)| (query, count as f64 / total as f64);
        known.into_iter().map(share).collect()
    }

    /// Training items of a joint class, the first so many.
    pub(super) fn training(&self, query: &Query, count: usize) -> Vec<u8> {
        levels_of(&self.data.train, query, count)
    }

    /// What the items of a line are worth.
    pub(super) fn measure(
        &self,
        gathered: &[Option<Gathered>],
        wanted: &[Wanted],
        whole: bool,
    ) -> Result<Measured, Error> {
        let mut classes = BTreeMap::new();
        let mut shown = BTreeMap::new();
        let (mut pooled, mut scores): (Option<Rows>, Option<Rows>) = (None, None);
        for (
            Wanted {
                query,
                pooled: most,
                ..
            },
            items,
        ) in wanted.iter().zip(gathered)
        {
            let Some(items) = items else {
                classes.insert(query.text().to_owned(), None);
                continue;
            };
            let right = self.right(items)?;
            let seen = match &self.network {
                Some(network) if whole => Some(self.look(network, &items.levels)?),
                _ => None,
            };
            let kid = match seen.as_ref().and_then(|seen| seen.features.as_ref()) {
                Some(rows) => self.kid(query, rows)?,
                None => None,
            };
            if let Some(seen) = seen {
                let first =
                    |rows: Rows| rows.select(&(0..rows.len().min(*most)).collect::<Vec<_>>());
                append(&mut pooled, seen.features.map(first));
                append(&mut scores, seen.classes.map(first));
            }
            let count = right.len();
            let of_class = OfClass {
                accuracy: right.iter().filter(|right| **right).count() as f64 / count.max(1) as f64,
                kid,
                calls: items.sampled.calls_per_sample,
                predicted: items.sampled.predicted_purity,
                plain: items.sampled.plain_purity,
                tv_bound: items.sampled.tv_bound,
            };
            classes.insert(query.text().to_owned(), Some(of_class));
            let size = items.levels.len() / count.max(1);
            let first = items.levels[..size * count.min(SHOWN)].to_vec();
            let marks = right[..count.min(SHOWN)].to_vec();
            shown.insert(query.text().to_owned(), (first, marks));
        }
        let pooled = match &pooled {
            Some(rows) => self.pooled(rows, scores.as_ref())?,
            None => None,
        };
        Ok(Measured {
            figures: Figures { classes, pooled },
            shown,
        })
    }

    /// How many items the data has of every joint class: for training, held out, for tests.
    pub(super) fn statistics(&self) -> BTreeMap<String, [usize; 3]> {
        let data = &self.data;
        let count = |query: &Query, items: &[u32]| {
            let holds = |item: &&u32| query.holds(data.train.truth[**item as usize]);
            items.iter().filter(holds).count()
        };
        let of = |query: Query| {
            let test = data.test.truth.iter();
            let counts = [
                count(&query, &data.split.train),
                count(&query, &data.split.validation),
                test.filter(|set| query.holds(**set)).count(),
            ];
            (query.text().to_owned(), counts)
        };
        Query::all_joint(&self.court.labels).map(of).collect()
    }

    /// FID of pictures against all test items; none without features.
    pub(super) fn fid(&self, levels: &[u8]) -> Result<Option<f64>, Error> {
        let Some(network) = &self.network else {
            return Ok(None);
        };
        let Some(rows) = self.look(network, levels)?.features else {
            return Ok(None);
        };
        let real = features(&self.test()?.pooled)?;
        Ok(fid(real, features(&rows)?).ok())
    }

    /// Features of the first test items and of the first samples of every joint class, in the plane.
    pub(super) fn embedded(
        &self,
        gathered: &[Option<Gathered>],
        wanted: &[Wanted],
        most: usize,
    ) -> Result<Option<Canvas>, Error> {
        let Some(network) = &self.network else {
            return Ok(None);
        };
        let mut all: Option<Rows> = None;
        let mut parts = Vec::new();
        for (Wanted { query, .. }, items) in wanted.iter().zip(gathered) {
            let (Some(items), Some(real)) = (items, self.test()?.classes.get(query.text())) else {
                continue;
            };
            let first: Vec<usize> = (0..real.len().min(most)).collect();
            let real = real.select(&first);
            let Some(own) = self.look(network, &items.levels)?.features else {
                continue;
            };
            parts.push((query.text().to_owned(), real.len(), own.len()));
            append(&mut all, Some(real));
            append(&mut all, Some(own));
        }
        let Some(all) = all else { return Ok(None) };
        let Ok(places) = tsne(features(&all)?, TsneSettings::default()) else {
            return Ok(None);
        };
        let mut places = places.into_iter().map(|[x, y]| [x as f32, y as f32]);
        let panel = |(title, real, own): (String, usize, usize)| Panel {
            title,
            marks: places.by_ref().take(real).collect(),
            points: places.by_ref().take(own).collect(),
            colour: [9, 105, 218],
            ..Panel::default()
        };
        let panels: Vec<Panel> = parts.into_iter().map(panel).collect();
        let heading = "t-SNE of features: samples (points), test items (rings)";
        Ok(Some(scatter(&panels, 4, heading)))
    }

    /// Which items the referee finds right.
    fn right(&self, items: &Gathered) -> Result<Vec<bool>, Error> {
        let levels: Vec<f32> = items.levels.iter().map(|&l| f32::from(l)).collect();
        let sets = self.court.sets_of(&levels)?;
        Ok(sets.iter().map(|set| items.query.holds(*set)).collect())
    }

    fn look(&self, network: &EvalNetwork, levels: &[u8]) -> Result<Seen, Error> {
        let shape = &self.court.judge.item_shape();
        let pictures = Pictures::Held {
            bytes: levels.to_vec(),
            shape: [shape[1], shape[2], shape[0]],
        };
        Ok(look(&pictures, network, None, self.progress)?)
    }

    fn kid(&self, query: &Query, generated: &Rows) -> Result<Option<f64>, Error> {
        let test = self.test()?;
        let Some(real) = test.classes.get(query.text()) else {
            return Ok(None);
        };
        let found = kid(features(real)?, features(generated)?);
        Ok(found.ok().map(|estimate| estimate.value))
    }

    /// None where there are too few items.
    fn pooled(&self, rows: &Rows, scores: Option<&Rows>) -> Result<Option<Pooled>, Error> {
        let real = features(&self.test()?.pooled)?;
        let generated = features(rows)?;
        let (Ok(fid), Ok(balls)) = (fid(real, generated), prdc(real, generated, DEFAULT_K)) else {
            return Ok(None);
        };
        let score = match scores {
            Some(rows) => {
                let dealt = dealt(rows);
                inception_score(ClassScores::told(features(&dealt)?), SPLITS).ok()
            }
            None => None,
        };
        Ok(Some(Pooled {
            fid,
            inception_score: score.map(|score| score.mean),
            precision: balls.precision,
            recall: balls.recall,
            density: balls.density,
            coverage: balls.coverage,
        }))
    }

    fn test(&self) -> Result<&Test, Error> {
        if let Some(test) = self.test.get() {
            return Ok(test);
        }
        let network = self.network.as_ref().expect("asked for with features only");
        let mut pooled = None;
        let mut classes = BTreeMap::new();
        for (query, _) in self.shares() {
            let levels = levels_of(&self.data.test, &query, usize::MAX);
            if let Some(rows) = self.look(network, &levels)?.features {
                classes.insert(query.text().to_owned(), rows.clone());
                append(&mut pooled, Some(rows));
            }
        }
        let pooled = pooled.unwrap_or(Rows {
            values: Vec::new(),
            width: network.feature_width().unwrap_or(1),
        });
        Ok(self.test.get_or_init(|| Test { pooled, classes }))
    }
}

/// Puts rows behind others.
fn append(all: &mut Option<Rows>, more: Option<Rows>) {
    match (all, more) {
        (Some(all), Some(more)) => all.values.extend(more.values),
        (all @ None, more) => *all = more,
        (Some(_), None) => {}
    }
}

/// Rows that came class by class, dealt out so that every split of the Inception score has its part of each.
fn dealt(rows: &Rows) -> Rows {
    let splits = SPLITS.get();
    let order: Vec<usize> = (0..splits)
        .flat_map(|split| (split..rows.len()).step_by(splits))
        .collect();
    rows.select(&order)
}

fn features(rows: &Rows) -> Result<Features<'_>, Error> {
    Features::new(&rows.values, rows.width).map_err(Error::features("the feature network"))
}

/// Levels of the first items that satisfy a query, channels last.
fn levels_of(data: &Dataset, query: &Query, most: usize) -> Vec<u8> {
    let items = data.truth.iter().enumerate();
    let wanted: Vec<u32> = items
        .filter(|(_, set)| query.holds(**set))
        .map(|(item, _)| item as u32)
        .take(most)
        .collect();
    match data.items.select(&wanted).values {
        Values::Bytes(planes) => match *data.items.shape {
            [channels, height, width] => interleaved(&planes, [channels, height, width]),
            _ => planes,
        },
        Values::Floats(_) => unreachable!("pictures are bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thirty rows of three classes in a row: every split of three gets one of each.
    #[test]
    fn every_split_has_items_of_every_class() {
        let rows = Rows {
            values: (0..30).map(|at| (at / 10) as f32).collect(),
            width: 1,
        };
        for split in dealt(&rows).values.chunks(3) {
            assert_eq!(split, [0.0, 1.0, 2.0]);
        }
    }
}
