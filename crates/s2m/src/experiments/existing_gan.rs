//! A GAN from elsewhere on CIFAR-7to3: `s2m fit` by class probabilities and by label sets, all seven joint classes.
//!
//! The generator is a file that nobody here has trained. Two trunks are fitted, and as a ceiling one that is shown
//! every item's whole label set. A referee of its own judges.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use s2m_core::labels::{LabelSet, Labels};
use s2m_core::query::Query;
use s2m_data::recipe::DataRecipe;
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

/// The generator, in the folder of data.
const GENERATOR: &str = "cifar-gan/biggan32-cifar7to3.onnx";

const SEEDS: [u64; 3] = [0, 1, 2];

/// Proposals in a bank, per sample.
const BANK: NonZeroUsize = NonZeroUsize::new(150).expect("150 is not zero");

/// What is fitted.
#[derive(Debug, Clone, Copy)]
struct Fit {
    title: &'static str,
    /// Name of the row and of its files.
    name: &'static str,
    network: Network,
    /// What it is shown.
    joint: Joint,
}

const FITS: [Fit; 3] = [
    Fit {
        title: "ResNet-9",
        name: "resnet9",
        network: Network::Resnet9,
        joint: Joint::Learnt,
    },
    Fit {
        title: "MobileNetV2",
        name: "mobilenet-v2",
        network: Network::MobilenetV2,
        joint: Joint::Learnt,
    },
    Fit {
        title: "ResNet-9, all labels (ceiling)",
        name: "ceiling",
        network: Network::Resnet9,
        joint: Joint::Supervised,
    },
];

/// Floors of the table; none for the bundle's own.
const FLOORS: [Option<f64>; 6] = [Some(0.0), Some(0.5), Some(0.8), Some(0.9), Some(0.95), None];

/// What is measured of one joint class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Figures {
    accuracy: f64,
    sampled: Sampled,
}

/// Means over the joint classes that gave samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Means {
    accuracy: f64,
    predicted: f64,
    plain: f64,
    calls: f64,
    classes: usize,
}

/// A posterior and a floor of one fit, with what was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Measured {
    posterior: PosteriorName,
    floor: Option<f64>,
    means: Option<Means>,
    /// Accuracy of every joint class, by its query; null where nothing was drawn.
    accuracies: BTreeMap<String, Option<f64>>,
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
    let evaluator = bench.evaluator(BANK);
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
                    .map(|folder| court.measure(&evaluator, fit, &folder))
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
            "`s2m fit` for the BigGAN-32 in `{GENERATOR}`, trained elsewhere, from one label per picture; then `s2m sample` of every joint class by `reject` at TV 0.01. The referee is a ResNet-9 over the seven classes. Right: means over the joint classes that gave samples within 500 calls each. Predicted: by networks that had no part in selecting; plain: by the one that selected. Floor `own`: the bundle's."
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
    for posterior in fit.posteriors() {
        for floor in FLOORS {
            let name = format!("{}, {}", fit.title, kind(*posterior));
            let seeds: Vec<u64> = found.iter().map(|(seed, _)| *seed).collect();
            let line = Line::measure(&name, &seeds, |seed| {
                let own = found.iter().find(|(own, _)| *own == seed);
                let rows = own.and_then(|(_, rows)| rows.as_ref());
                let row = rows.and_then(|rows| {
                    let wanted =
                        |row: &&Measured| row.posterior == *posterior && row.floor == floor;
                    rows.iter().find(wanted)
                });
                let refused = || Finding::Refused("no joint class gave samples".to_owned());
                Ok(row.map(|row| row.means.clone().map_or_else(refused, Finding::Measured)))
            })?;
            missing.extend(line.missing());
            table.rows.push(vec![
                line.name.clone(),
                floor.map_or("own".to_owned(), |floor| floor.to_string()),
                line.cell(2, |m: &Means| Some(100.0 * m.accuracy)),
                line.cell(2, |m| Some(100.0 * m.predicted)),
                line.cell(2, |m| Some(100.0 * m.plain)),
                line.cell(1, |m| Some(m.calls)),
                line.cell(1, |m| Some(m.classes as f64)),
                line.seeds(),
            ]);
        }
    }
    Ok(())
}

fn kind(posterior: PosteriorName) -> &'static str {
    match posterior {
        PosteriorName::Levels => "levels",
        PosteriorName::Joint => "joint",
    }
}

impl Fit {
    fn posteriors(self) -> &'static [PosteriorName] {
        match self.joint {
            Joint::Supervised => &[PosteriorName::Joint],
            Joint::Learnt | Joint::Left => &[PosteriorName::Levels, PosteriorName::Joint],
        }
    }
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
        way: (fit.joint == Joint::Supervised).then_some(fit::Way::Frozen),
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
    let generator = data.join(GENERATOR);
    let request = fit::Request {
        generator: Some(&generator),
        data: &recipe,
        out: &out,
        work: None,
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

    /// Share of pictures, given as levels with channels last, that satisfy a query.
    fn accuracy(&self, query: &Query, levels: &[f32]) -> Result<f64, Error> {
        let size: usize = self.judge.item_shape().iter().product();
        let plane = size / 3;
        let mut items = vec![0.0; levels.len()];
        for (item, picture) in items.chunks_exact_mut(size).zip(levels.chunks_exact(size)) {
            for (at, value) in item.iter_mut().enumerate() {
                *value = 2.0 * picture[at % plane * 3 + at / plane] / 255.0 - 1.0;
            }
        }
        let logits = self.judge.judge(&items)?.swap_remove(0);
        let right = logits.chunks_exact(self.classes.len()).filter(|row| {
            let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            best.is_some_and(|(class, _)| query.holds(self.classes[class]))
        });
        Ok(right.count() as f64 / (levels.len() / size).max(1) as f64)
    }

    /// Every posterior and floor of one fit.
    fn measure(
        &self,
        evaluator: &Evaluator<'_>,
        fit: Fit,
        folder: &Path,
    ) -> Result<Vec<Measured>, Error> {
        let mut rows = Vec::new();
        for &posterior in fit.posteriors() {
            for floor in FLOORS {
                let mut found = Vec::new();
                let mut accuracies = BTreeMap::new();
                for query in Query::all_joint(&self.labels) {
                    let figures = self.figures(evaluator, &query, posterior, floor, folder)?;
                    let accuracy = figures.measured().map(|figures| figures.accuracy);
                    accuracies.insert(query.text().to_owned(), accuracy);
                    found.extend(figures.measured().cloned());
                }
                rows.push(Measured {
                    posterior,
                    floor,
                    means: means(&found),
                    accuracies,
                });
            }
        }
        Ok(rows)
    }

    fn figures(
        &self,
        evaluator: &Evaluator<'_>,
        query: &Query,
        posterior: PosteriorName,
        floor: Option<f64>,
        folder: &Path,
    ) -> Result<Finding<Figures>, Error> {
        let way = Way {
            posterior: Some(posterior),
            overrides: Overrides {
                floor,
                ..Overrides::default()
            },
            ..Way::of(query.text())
        };
        let drawn = Drawn::query(folder.to_owned(), way)?;
        let identity = [self.judge.sha256(), "existing gan"];
        evaluator.measure("existing-gan", &identity, &drawn, |mut sampled, levels| {
            let accuracy = self.accuracy(query, levels)?;
            // Which proposals they were can be found again; a file of figures stays small.
            sampled.numbers.clear();
            Ok(Figures { accuracy, sampled })
        })
    }
}

fn means(found: &[Figures]) -> Option<Means> {
    let mean = |of: &dyn Fn(&Figures) -> f64| {
        found.iter().map(of).sum::<f64>() / found.len().max(1) as f64
    };
    (!found.is_empty()).then(|| Means {
        accuracy: mean(&|f| f.accuracy),
        predicted: mean(&|f| f.sampled.predicted_purity.unwrap_or(0.0)),
        plain: mean(&|f| f.sampled.plain_purity.unwrap_or(0.0)),
        calls: mean(&|f| f.sampled.calls_per_sample),
        classes: found.len(),
    })
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
        let figures = |accuracy, calls_per_sample| Figures {
            accuracy,
            sampled: Sampled {
                calls_per_sample,
                predicted_purity: Some(0.9),
                plain_purity: Some(0.8),
                ..Sampled::default()
            },
        };
        let found = means(&[figures(0.5, 10.0), figures(1.0, 30.0)]).unwrap();
        assert_eq!(
            (found.accuracy, found.calls, found.classes),
            (0.75, 20.0, 2)
        );
        assert_eq!((found.predicted, found.plain), (0.9, 0.8));
        assert_eq!(means(&[]), None);
        let row = |posterior, floor, means| Measured {
            posterior,
            floor,
            means,
            accuracies: BTreeMap::new(),
        };
        let rows = vec![
            row(PosteriorName::Joint, Some(0.9), Some(found)),
            row(PosteriorName::Joint, Some(0.95), None),
        ];
        let mut table = Table::new("", &[""; 8]);
        let mut missing = Vec::new();
        add_rows(
            &mut table,
            &mut missing,
            FITS[2],
            &[(0, Some(rows)), (1, None)],
        )
        .unwrap();
        assert_eq!(table.rows.len(), FLOORS.len());
        assert_eq!(
            table.rows[3][..6],
            [
                "ResNet-9, all labels (ceiling), joint",
                "0.9",
                "75.00",
                "90.00",
                "80.00",
                "20.0"
            ]
        );
        assert_eq!(table.rows[3][7], "0; 1 missing");
        assert!(
            missing.contains(
                &"ResNet-9, all labels (ceiling), joint, seed 0: no joint class gave samples"
                    .to_owned()
            )
        );
        assert!(
            missing.contains(
                &"ResNet-9, all labels (ceiling), joint, seed 0, 1: not trained".to_owned()
            ),
            "{missing:?}"
        );
    }
}
