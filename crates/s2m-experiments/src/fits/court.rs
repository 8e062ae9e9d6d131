//! Who evaluates what was drawn: a referee that says once for every proposal of a bank which labels it has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use s2m::presence;
use s2m::settings::Overrides;
use s2m_core::labels::{LabelSet, Labels};
use s2m_core::query::Query;
use s2m_data::Dataset;
use s2m_data::recipe::DataRecipe;
use s2m_model::bundle::Bundle;
use s2m_model::judge::Judge;
use s2m_model::manifest::PosteriorName;
use s2m_runs::Judges;
use s2m_runs::folder::REFEREE;

use super::{Drawing, FLOORS, Figures, Fit, Measured, Presence, Row};
use crate::evaluation::{Drawn, Evaluator, Finding, Sampled, Way};
use crate::stages::Run;
use crate::{Bench, Error};

/// Who judges, and what it may say.
pub(crate) struct Court {
    pub(crate) judge: Judge,
    pub(crate) labels: Labels,
    says: Says,
}

/// What the answers of a referee mean.
enum Says {
    /// One original class, with this label set.
    Class(Vec<LabelSet>),
    /// Each label apart; these sets are among the items of the data.
    Labels(Vec<LabelSet>),
}

impl Court {
    /// The referee of a finished stage, for the classes of a recipe; none where it is not trained.
    pub(crate) fn open(
        bench: &Bench<'_>,
        referee: Option<&Run>,
        recipe: &DataRecipe,
    ) -> Result<Option<Self>, Error> {
        let Some(referee) = referee else {
            return Ok(None);
        };
        let judge = judge(bench, referee, Judges::Classes)?;
        let names = recipe.classes.iter().map(|class| class.name.clone());
        let labels = Labels::new(names)?;
        let count = judge.output_sizes().next().unwrap_or(0);
        let of = |class: usize| {
            let has = |label: &usize| {
                recipe.classes[*label]
                    .of
                    .iter()
                    .any(|&c| c as usize == class)
            };
            (0..labels.len()).filter(has).collect()
        };
        let sets = (0..count).map(of).collect();
        Ok(Some(Self {
            judge,
            labels,
            says: Says::Class(sets),
        }))
    }

    /// The referee of a finished stage that judges each label apart, for data that came with labels.
    pub(crate) fn of_labels(
        bench: &Bench<'_>,
        referee: &Run,
        data: &Dataset,
    ) -> Result<Self, Error> {
        let sets: BTreeSet<LabelSet> = data.truth.iter().copied().collect();
        Ok(Self {
            judge: judge(bench, referee, Judges::Labels)?,
            labels: data.labels.clone(),
            says: Says::Labels(sets.into_iter().collect()),
        })
    }

    /// Whether the data has items that satisfy a query.
    pub(crate) fn exists(&self, query: &Query) -> bool {
        let (Says::Class(sets) | Says::Labels(sets)) = &self.says;
        sets.iter().any(|set| query.holds(*set))
    }

    /// Which labels each picture has, given as levels with channels last.
    pub(crate) fn sets_of(&self, levels: &[f32]) -> Result<Vec<LabelSet>, Error> {
        let size: usize = self.judge.item_shape().iter().product();
        let channels = self.judge.item_shape()[0];
        let plane = size / channels;
        let mut items = vec![0.0; levels.len()];
        for (item, picture) in items.chunks_exact_mut(size).zip(levels.chunks_exact(size)) {
            for (at, value) in item.iter_mut().enumerate() {
                *value = 2.0 * picture[at % plane * channels + at / plane] / 255.0 - 1.0;
            }
        }
        let logits = self.judge.judge(&items)?.swap_remove(0);
        let set = |row: &[f32]| match &self.says {
            Says::Class(sets) => {
                let by_logit = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
                by_logit.map_or(LabelSet::EMPTY, |(class, _)| sets[class])
            }
            Says::Labels(_) => (0..row.len()).filter(|&label| row[label] > 0.0).collect(),
        };
        let answers = self.judge.output_sizes().next().unwrap_or(1);
        Ok(logits.chunks_exact(answers).map(set).collect())
    }

    /// The labels of every proposal of a bundle's bank, as bits.
    fn verdicts(&self, evaluator: &Evaluator<'_>, folder: &Path) -> Result<Vec<u64>, Error> {
        let drawn = Drawn::query(
            folder.to_owned(),
            Way::of(self.labels.names().next().unwrap_or_default()),
        )?;
        let count = evaluator.bank.get() as u64;
        let generator = drawn.generator().digest().to_string();
        let identity = [self.judge.sha256(), &generator, &count.to_string()];
        evaluator.kept("verdicts-sets", &identity, || {
            let progress = evaluator.progress;
            progress.begin("judging the bank", Some(count));
            let mut sets = Vec::new();
            for first in (0..count).step_by(JUDGED) {
                let numbers: Vec<u64> = (first..count.min(first + JUDGED as u64)).collect();
                let judged = numbers.len();
                let some = Sampled {
                    numbers,
                    ..Sampled::default()
                };
                let levels = evaluator.render(&drawn, &some, judged)?;
                sets.extend(self.sets_of(&levels)?.into_iter().map(LabelSet::bits));
                progress.at(first + judged as u64);
            }
            progress.end();
            Ok(sets)
        })
    }

    /// Every way to draw and floor of one fit.
    pub(super) fn measure(
        &self,
        evaluator: &Evaluator<'_>,
        fit: Fit,
        folder: PathBuf,
    ) -> Result<Row, Error> {
        let judged = Judged {
            court: self,
            verdicts: self.verdicts(evaluator, &folder)?,
            bundle: Arc::new(Bundle::open(&folder)?),
            folder,
        };
        let mut rows = Vec::new();
        for &drawing in fit.ways_to_draw() {
            for floor in FLOORS {
                let mut classes = BTreeMap::new();
                for query in Query::all_joint(&self.labels).filter(|query| self.exists(query)) {
                    let found = judged.figures(evaluator, &query, drawing, floor)?;
                    classes.insert(query.text().to_owned(), found.measured().copied());
                }
                rows.push(Measured {
                    drawing,
                    floor,
                    classes,
                });
            }
        }
        Ok(Row {
            presence: judged.presence(),
            measured: rows,
        })
    }
}

fn judge(bench: &Bench<'_>, referee: &Run, judges: Judges) -> Result<Judge, Error> {
    let path = referee.folder.join(REFEREE);
    let settings = &bench.request.machine.run;
    Ok(Judge::open(
        &path,
        &[judges.output()],
        &bench.runtime,
        settings,
    )?)
}

/// Pictures that are rendered and judged at once.
const JUDGED: usize = 25_000;

/// A bundle of whose bank every proposal was judged.
struct Judged<'a> {
    court: &'a Court,
    verdicts: Vec<u64>,
    folder: PathBuf,
    bundle: Arc<Bundle>,
}

impl Judged<'_> {
    fn figures(
        &self,
        evaluator: &Evaluator<'_>,
        query: &Query,
        drawing: Drawing,
        floor: Option<f64>,
    ) -> Result<Finding<Figures>, Error> {
        let way = Way {
            posterior: Some(drawing.posterior),
            overrides: Overrides {
                floor,
                real_temperature: drawing.real_temperature(self.own_temperature(drawing.posterior)),
                ..Overrides::default()
            },
            ..Way::of(query.text())
        };
        let drawn = Drawn::opened(self.folder.clone(), Arc::clone(&self.bundle), way);
        let identity = [self.court.judge.sha256(), "fits"];
        evaluator.measure_numbers("fits", &identity, &drawn, |sampled| {
            Ok(Figures {
                accuracy: self.right(query, &sampled.numbers),
                predicted: sampled.predicted_purity.unwrap_or(0.0),
                plain: sampled.plain_purity.unwrap_or(0.0),
                calls: sampled.calls_per_sample,
            })
        })
    }

    /// What calibration says about each joint class: whether the data has it.
    fn presence(&self) -> BTreeMap<String, Presence> {
        let queries = Query::all_joint(&self.court.labels);
        let of = |query: Query| {
            let seen = presence::of(&self.bundle, &query)?;
            let told = Presence {
                verdict: seen.verdict.name().to_owned(),
                reached: seen.counted.reached,
                exists: self.court.exists(&query),
            };
            Some((query.text().to_owned(), told))
        };
        queries.filter_map(of).collect()
    }

    /// Temperature of the discriminator under a posterior, as the bundle was calibrated.
    fn own_temperature(&self, posterior: PosteriorName) -> f64 {
        let manifest = self.bundle.manifest();
        let entry = match (posterior, &manifest.levels) {
            (PosteriorName::Levels, Some(levels)) => levels,
            _ => &manifest.calibration,
        };
        entry.temperature.real
    }

    /// Share of proposals that satisfy a query; no sampler goes beyond the bank.
    fn right(&self, query: &Query, numbers: &[u64]) -> f64 {
        let holds = |number: &&u64| {
            let set = self.verdicts.get(**number as usize);
            set.is_some_and(|&set| query.holds(LabelSet::from_bits(set)))
        };
        numbers.iter().filter(holds).count() as f64 / numbers.len().max(1) as f64
    }
}
