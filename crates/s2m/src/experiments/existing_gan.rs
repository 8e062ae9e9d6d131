//! GANs from elsewhere on CIFAR-7to3: `s2m fit` by class probabilities and by label sets, all seven joint classes.
//!
//! The generators are files that nobody here has trained. Two trunks are fitted, each way of the real output is
//! looked at by itself, and as a ceiling a network is shown every item's whole label set. A referee of its own
//! judges every proposal of a bank once; what is drawn out of that bank is then known to be right or wrong.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use s2m_core::labels::{LabelSet, Labels};
use s2m_core::query::Query;
use s2m_data::recipe::DataRecipe;
use s2m_model::bundle::Bundle;
use s2m_model::judge::Judge;
use s2m_model::manifest::PosteriorName;
use s2m_model::probe::Said;
use serde::{Deserialize, Serialize};

use super::evaluation::{Drawn, Evaluator, Finding, Sampled, Way};
use super::line::Line;
use super::results::Table;
use super::stages::{self, Stage};
use super::{Bench, ExperimentError, Findings, stage};
use crate::error::Error;
use crate::fit::{self, Joint, Network, Training};
use crate::output::write_whole;
use crate::settings::Overrides;
use crate::trainer::Kind;

const REFEREE: Stage = Stage {
    name: "referee",
    kind: Kind::Referee,
    template: include_str!("../../../../experiments/existing-gan/referee.toml"),
};

/// Every network that a run file states.
pub(super) const STAGES: [Stage; 1] = [REFEREE];

const DATA: &str = "cifar-7to3";

/// A generator in the folder of data; `{seed}` stands for the seed where there is one for each.
const BIGGAN: &str = "cifar-gan/biggan32-cifar7to3.onnx";
const DCGAN: &str = "cifar-gan/dcgan-seed-{seed}.onnx";

const SEEDS: [u64; 3] = [0, 1, 2];

/// Proposals in a bank, per sample, and so the most calls that a sample may take.
const BANK: NonZeroUsize = NonZeroUsize::new(400).expect("400 is not zero");

/// A temperature of the real output at which it says nothing.
const SILENT: f64 = 1e6;

/// What is fitted.
#[derive(Debug, Clone, Copy)]
struct Fit {
    title: &'static str,
    /// Name of the row and of its files.
    name: &'static str,
    generator: &'static str,
    network: Network,
    /// What it is shown.
    joint: Joint,
    /// The way to fit the real output, where only one is looked at.
    way: Option<fit::Way>,
    /// The row whose trainings it rests on, where it has none of its own.
    trained_by: Option<&'static str>,
}

impl Fit {
    /// Label sets learnt from single labels, the real output in the way that `s2m fit` chooses.
    const fn learnt(
        name: &'static str,
        title: &'static str,
        generator: &'static str,
        network: Network,
    ) -> Self {
        Self {
            title,
            name,
            generator,
            network,
            joint: Joint::Learnt,
            way: None,
            trained_by: None,
        }
    }

    /// The same, in one way.
    const fn in_way(mut self, name: &'static str, title: &'static str, way: fit::Way) -> Self {
        self.trained_by = Some(self.name);
        self.name = name;
        self.title = title;
        self.way = Some(way);
        self
    }

    /// The ceiling: shown every item's label set.
    const fn ceiling(name: &'static str, title: &'static str, generator: &'static str) -> Self {
        let mut fit = Self::learnt(name, title, generator, Network::Resnet9);
        fit.joint = Joint::Supervised;
        fit.way = Some(fit::Way::Frozen);
        fit
    }

    /// Posteriors to draw by, and how much say the real output has.
    fn ways_to_draw(self) -> &'static [Drawing] {
        const LEARNT: &[Drawing] = &[
            Drawing::new(PosteriorName::Levels, 1.0),
            Drawing::new(PosteriorName::Joint, 1.0),
            Drawing::new(PosteriorName::Joint, 0.5),
            Drawing::new(PosteriorName::Levels, 0.0),
            Drawing::new(PosteriorName::Joint, 0.0),
        ];
        const CEILING: &[Drawing] = &[
            Drawing::new(PosteriorName::Joint, 1.0),
            Drawing::new(PosteriorName::Joint, 0.0),
        ];
        const ONE_WAY: &[Drawing] = &[Drawing::new(PosteriorName::Joint, 1.0)];
        match (self.joint, self.trained_by) {
            (Joint::Supervised, _) => CEILING,
            (_, Some(_)) => ONE_WAY,
            (_, None) => LEARNT,
        }
    }
}

/// A posterior, and what share of the tempered log odds of the real output counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Drawing {
    posterior: PosteriorName,
    say: f64,
}

impl Drawing {
    const fn new(posterior: PosteriorName, say: f64) -> Self {
        Self { posterior, say }
    }

    fn words(self) -> String {
        let posterior = match self.posterior {
            PosteriorName::Levels => "levels",
            PosteriorName::Joint => "joint",
        };
        match self.say {
            1.0 => posterior.to_owned(),
            0.0 => format!("{posterior}, no D_v"),
            say => format!("{posterior}, {say} of D_v"),
        }
    }

    /// The temperature of the real output in the place of a bundle's own.
    fn real_temperature(self, own: f64) -> Option<f64> {
        match self.say {
            1.0 => None,
            0.0 => Some(SILENT),
            say => Some(own / say),
        }
    }
}

const RESNET9: Fit = Fit::learnt("resnet9", "ResNet-9", BIGGAN, Network::Resnet9);

const FITS: [Fit; 8] = [
    RESNET9,
    RESNET9.in_way("resnet9-shared", "ResNet-9, way `shared`", fit::Way::Shared),
    RESNET9.in_way("resnet9-frozen", "ResNet-9, way `frozen`", fit::Way::Frozen),
    RESNET9.in_way(
        "resnet9-smoothed",
        "ResNet-9, way `smoothed`",
        fit::Way::Smoothed,
    ),
    Fit::learnt("mobilenet-v2", "MobileNetV2", BIGGAN, Network::MobilenetV2),
    Fit::ceiling("ceiling", "ResNet-9, all labels (ceiling)", BIGGAN),
    Fit::learnt("dcgan", "DCGAN, ResNet-9", DCGAN, Network::Resnet9),
    Fit::ceiling("dcgan-ceiling", "DCGAN, ResNet-9, all labels (ceiling)", DCGAN),
];

/// Floors of the table; none for the bundle's own.
const FLOORS: [Option<f64>; 8] = [
    Some(0.0),
    Some(0.5),
    Some(0.7),
    Some(0.8),
    Some(0.85),
    Some(0.9),
    Some(0.95),
    None,
];

/// What is measured of one joint class, or the mean over those that gave samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Figures {
    accuracy: f64,
    predicted: f64,
    plain: f64,
    calls: f64,
}

/// One way to draw and one floor, with what was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Measured {
    drawing: Drawing,
    floor: Option<f64>,
    /// Every joint class by its query; null where nothing was drawn within the calls.
    classes: BTreeMap<String, Option<Figures>>,
}

impl Measured {
    /// Joint classes that gave samples.
    fn found(&self) -> Vec<Figures> {
        self.classes.values().copied().flatten().collect()
    }

    fn means(&self) -> Option<Figures> {
        let found = self.found();
        let mean =
            |of: fn(&Figures) -> f64| found.iter().map(of).sum::<f64>() / found.len() as f64;
        (!found.is_empty()).then(|| Figures {
            accuracy: mean(|f| f.accuracy),
            predicted: mean(|f| f.predicted),
            plain: mean(|f| f.plain),
            calls: mean(|f| f.calls),
        })
    }
}

pub(super) fn run(bench: &Bench<'_>) -> Result<Findings, Error> {
    let seeds: Vec<u64> = match bench.request.seeds {
        None => SEEDS.to_vec(),
        Some(wanted) => SEEDS
            .into_iter()
            .filter(|seed| wanted.contains(seed))
            .collect(),
    };
    let runs = bench.finish(&STAGES)?;
    let file = bench.place.run_file(&REFEREE)?;
    let recipe = stages::recipe(&file, DATA).expect("a test looks for the data set");
    let evaluator = Evaluator {
        most_calls: BANK.get(),
        ..bench.evaluator(BANK)
    };
    let mut missing = Vec::new();
    let mut table = Table::new(
        "All seven joint classes, means",
        &[
            "posterior",
            "floor",
            "right %",
            "predicted %",
            "plain prediction %",
            "calls per sample",
            "classes",
            "seeds",
        ],
    );
    let court = match stage(&runs, REFEREE.name) {
        Some(referee) => {
            let path = referee.folder.join("referee.onnx");
            let settings = &bench.request.machine.run;
            let judge = Judge::open(&path, &["class_logits"], &bench.runtime, settings)?;
            Some(Court::new(judge, &recipe)?)
        }
        None => None,
    };
    for fit in FITS {
        let wanted = bench.request.rows;
        let asked = wanted.is_none_or(|rows| rows.iter().any(|row| row == fit.name));
        let mut found = Vec::new();
        for &seed in &seeds {
            let path = bench
                .request
                .out
                .join(format!("rows/{}-seed-{seed}.json", fit.name));
            let measured = match &court {
                Some(court) if asked => fitted(bench, fit, &recipe, seed)?
                    .map(|folder| court.measure(&evaluator, fit, folder))
                    .transpose()?,
                _ => None,
            };
            if let Some(measured) = &measured {
                let text = serde_json::to_string_pretty(measured).expect("figures are plain");
                let rows = bench.request.out.join("rows");
                fs::create_dir_all(&rows).map_err(Error::write(&rows))?;
                write_whole(&path, (text + "\n").as_bytes())?;
            }
            found.push((seed, measured.or_else(|| read(&path))));
        }
        add_rows(&mut table, &mut missing, fit, &found)?;
    }
    Ok(Findings {
        title: "An existing GAN: CIFAR-7to3, class probabilities against label sets",
        preface: vec![format!(
            "`s2m fit` for the BigGAN-32 in `{BIGGAN}` and for DCGANs of [docs/existing-gan.md](../../docs/existing-gan.md), trained elsewhere, from one label per picture; then `s2m sample` of every joint class by `reject` at TV 0.01. The referee is a ResNet-9 over the seven classes. Right: means over the joint classes that gave samples within {BANK} calls each. Predicted: by networks that had no part in selecting; plain: by the one that selected. Floor `own`: the bundle's. No D_v: the real output has no say; 0.5 of D_v: half of its log odds count."
        )],
        seeds,
        runs,
        tables: vec![table],
        missing,
        pictures: Vec::new(),
    })
}

/// What an earlier run has left of a row.
fn read(path: &Path) -> Option<Vec<Measured>> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// The rows of one fit.
fn add_rows(
    table: &mut Table,
    missing: &mut Vec<String>,
    fit: Fit,
    found: &[(u64, Option<Vec<Measured>>)],
) -> Result<(), Error> {
    let seeds: Vec<u64> = found.iter().map(|(seed, _)| *seed).collect();
    for drawing in fit.ways_to_draw() {
        for floor in FLOORS {
            let name = format!("{}, {}", fit.title, drawing.words());
            let line = Line::measure(&name, &seeds, |seed| {
                let own = found.iter().find(|(own, _)| *own == seed);
                let rows = own.and_then(|(_, rows)| rows.as_ref());
                let wanted = |row: &&Measured| row.drawing == *drawing && row.floor == floor;
                let row = rows.and_then(|rows| rows.iter().find(wanted));
                Ok(row.map(|row| match row.means() {
                    Some(means) => Finding::Measured((means, row.found().len())),
                    None => Finding::Refused("no joint class gave samples".to_owned()),
                }))
            })?;
            // A fit that is missing is missing at every floor.
            for text in line.missing() {
                if !missing.contains(&text) {
                    missing.push(text);
                }
            }
            table.rows.push(vec![
                line.name.clone(),
                floor.map_or("own".to_owned(), |floor| floor.to_string()),
                line.cell(2, |(m, _): &(Figures, usize)| Some(100.0 * m.accuracy)),
                line.cell(2, |(m, _)| Some(100.0 * m.predicted)),
                line.cell(2, |(m, _)| Some(100.0 * m.plain)),
                line.cell(1, |(m, _)| Some(m.calls)),
                line.cell(1, |(_, classes)| Some(*classes as f64)),
                line.seeds(),
            ]);
        }
    }
    Ok(())
}

/// The bundle of a fit, made now where it is not there; none where nobody trains.
fn fitted(
    bench: &Bench<'_>,
    fit: Fit,
    recipe: &DataRecipe,
    seed: u64,
) -> Result<Option<PathBuf>, Error> {
    let training = Training {
        network: Some(fit.network),
        joint: fit.joint,
        seed,
        way: fit.way,
        ..Training::default()
    };
    let folder = &bench.place.work;
    let out = folder.join(format!("{}-seed-{seed}.s2m", fit.name));
    if out.is_dir() {
        return Ok(Some(out));
    }
    let (Some(trainer), Some(data)) = (bench.place.trainer, bench.place.data) else {
        return Ok(None);
    };
    let text = toml::to_string(recipe).map_err(|e| Error::Setting(e.to_string()))?;
    let recipe = folder.join("cifar-7to3.toml");
    write_whole(&recipe, text.as_bytes())?;
    let generator = data.join(fit.generator.replace("{seed}", &seed.to_string()));
    if !generator.is_file() {
        return Ok(None);
    }
    let trained_by = fit.trained_by.unwrap_or(fit.name);
    let work = folder.join(format!("{trained_by}-seed-{seed}-fit"));
    let request = fit::Request {
        generator: Some(&generator),
        data: &recipe,
        out: &out,
        work: Some(&work),
        said: Said::default(),
        labelling: None,
        training,
        onnxruntime: bench.request.machine.onnxruntime,
        replace: false,
    };
    match fit::fit(&request, trainer, bench.progress)? {
        fit::Answer::Fitted(_) => Ok(Some(out)),
        fit::Answer::No => Err(ExperimentError::StageFailed { stage: "fit" }.into()),
    }
}

/// Who judges, and what the original classes mean.
struct Court {
    judge: Judge,
    classes: Vec<LabelSet>,
    labels: Labels,
}

impl Court {
    fn new(judge: Judge, recipe: &DataRecipe) -> Result<Self, Error> {
        let names = recipe.classes.iter().map(|class| class.name.clone());
        let labels = Labels::new(names).map_err(ExperimentError::from)?;
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
        Ok(Self {
            judge,
            classes: (0..count).map(of).collect(),
            labels,
        })
    }

    /// Which class each picture is of, given as levels with channels last.
    fn classes_of(&self, levels: &[f32]) -> Result<Vec<u8>, Error> {
        let size: usize = self.judge.item_shape().iter().product();
        let plane = size / 3;
        let mut items = vec![0.0; levels.len()];
        for (item, picture) in items.chunks_exact_mut(size).zip(levels.chunks_exact(size)) {
            for (at, value) in item.iter_mut().enumerate() {
                *value = 2.0 * picture[at % plane * 3 + at / plane] / 255.0 - 1.0;
            }
        }
        let logits = self.judge.judge(&items)?.swap_remove(0);
        let best = |row: &[f32]| {
            let by_logit = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            by_logit.map_or(0, |(class, _)| class as u8)
        };
        Ok(logits.chunks_exact(self.classes.len()).map(best).collect())
    }

    /// The class of every proposal of a bundle's bank.
    fn verdicts(&self, evaluator: &Evaluator<'_>, folder: &Path) -> Result<Vec<u8>, Error> {
        let drawn = Drawn::query(folder.to_owned(), Way::of("A"))?;
        let count = evaluator.bank.get() as u64;
        let generator = drawn.generator().digest().to_string();
        let identity = [self.judge.sha256(), &generator, &count.to_string()];
        evaluator.kept("verdicts", &identity, || {
            let progress = evaluator.progress;
            progress.begin("judging the bank", Some(count));
            let mut classes = Vec::new();
            for first in (0..count).step_by(JUDGED) {
                let numbers: Vec<u64> = (first..count.min(first + JUDGED as u64)).collect();
                let judged = numbers.len();
                let some = Sampled {
                    numbers,
                    ..Sampled::default()
                };
                let levels = evaluator.render(&drawn, &some, judged)?;
                classes.extend(self.classes_of(&levels)?);
                progress.at(first + judged as u64);
            }
            progress.end();
            Ok(classes)
        })
    }

    /// Every way to draw and floor of one fit.
    fn measure(
        &self,
        evaluator: &Evaluator<'_>,
        fit: Fit,
        folder: PathBuf,
    ) -> Result<Vec<Measured>, Error> {
        let judged = Judged {
            court: self,
            verdicts: self.verdicts(evaluator, &folder)?,
            bundle: Bundle::open(&folder)?,
            folder,
        };
        let mut rows = Vec::new();
        for &drawing in fit.ways_to_draw() {
            for floor in FLOORS {
                let mut classes = BTreeMap::new();
                for query in Query::all_joint(&self.labels) {
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
        Ok(rows)
    }
}

/// Pictures that are rendered and judged at once.
const JUDGED: usize = 25_000;

/// A bundle of whose bank every proposal was judged.
struct Judged<'a> {
    court: &'a Court,
    verdicts: Vec<u8>,
    folder: PathBuf,
    bundle: Bundle,
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
        let drawn = Drawn::query(self.folder.clone(), way)?;
        let identity = [self.court.judge.sha256(), "existing gan"];
        evaluator.measure_numbers("existing-gan", &identity, &drawn, |sampled| {
            Ok(Figures {
                accuracy: self.right(query, &sampled.numbers),
                predicted: sampled.predicted_purity.unwrap_or(0.0),
                plain: sampled.plain_purity.unwrap_or(0.0),
                calls: sampled.calls_per_sample,
            })
        })
    }

    /// Temperature of the real output under a posterior, as the bundle was calibrated.
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
            let class = self.verdicts.get(**number as usize);
            class.is_some_and(|&class| query.holds(self.court.classes[usize::from(class)]))
        };
        numbers.iter().filter(holds).count() as f64 / numbers.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_referee_knows_the_data_set_and_its_seven_joint_classes() {
        let recipe = stages::recipe(&stages::template(&REFEREE), DATA).unwrap();
        let names = recipe.classes.iter().map(|class| class.name.clone());
        let labels = Labels::new(names).unwrap();
        let mut sets: Vec<LabelSet> = (0..7_u32)
            .map(|class| {
                let has = |label: &usize| recipe.classes[*label].of.contains(&class);
                (0..labels.len()).filter(has).collect()
            })
            .collect();
        sets.sort_unstable();
        sets.dedup();
        assert_eq!(sets.len(), 7);
    }

    /// Two classes of samples, one of which gave none; rows that are there and rows that are missing.
    #[test]
    fn rows_are_means_over_what_gave_samples_and_missing_ones_are_named() {
        let figures = |accuracy, calls| {
            Some(Figures {
                accuracy,
                predicted: 0.9,
                plain: 0.8,
                calls,
            })
        };
        let row = |floor, found: [Option<Figures>; 3]| Measured {
            drawing: Drawing::new(PosteriorName::Joint, 1.0),
            floor: Some(floor),
            classes: ["A", "B", "C"].map(str::to_owned).into_iter().zip(found).collect(),
        };
        let some = row(0.9, [figures(0.5, 10.0), None, figures(1.0, 30.0)]);
        let means = some.means().unwrap();
        assert_eq!((means.accuracy, means.calls), (0.75, 20.0));
        let none = row(0.95, [None; 3]);
        assert_eq!(none.means(), None);
        let mut table = Table::new("", &[""; 8]);
        let mut missing = Vec::new();
        let ceiling = FITS.into_iter().find(|fit| fit.name == "ceiling").unwrap();
        let found = [(0, Some(vec![some, none])), (1, None)];
        add_rows(&mut table, &mut missing, ceiling, &found).unwrap();
        assert_eq!(table.rows.len(), 2 * FLOORS.len());
        assert_eq!(
            table.rows[5],
            [
                "ResNet-9, all labels (ceiling), joint",
                "0.9",
                "75.00",
                "90.00",
                "80.00",
                "20.0",
                "2.0",
                "0; 1 missing"
            ]
        );
        let name = "ResNet-9, all labels (ceiling), joint";
        for wanted in [
            format!("{name}, seed 0: no joint class gave samples"),
            format!("{name}, seed 0, 1: not trained"),
            format!("{name}, no D_v, seed 0, 1: not trained"),
        ] {
            assert_eq!(missing.iter().filter(|m| **m == wanted).count(), 1, "{missing:?}");
        }
    }

    /// A row by one way rests on the trainings of another row, of the same generator and network.
    #[test]
    fn rows_by_one_way_rest_on_a_row_that_is_there() {
        for fit in FITS {
            let Some(trained_by) = fit.trained_by else {
                continue;
            };
            let own = FITS.iter().find(|own| own.name == trained_by).unwrap();
            assert_eq!((own.generator, own.network), (fit.generator, fit.network));
            assert!(own.way.is_none() && fit.way.is_some());
        }
    }
}
