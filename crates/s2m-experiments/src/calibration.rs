//! Calibration from single positives against the paper's hand settings and against none, on the networks
//! of table 1; what it promises, held against test items; and labels that are wrong for a share of items.

use std::collections::BTreeMap;
use std::path::PathBuf;

use s2m::samplers::SamplerChoice;
use s2m::settings::{CalibrationChoice, DEFAULT_TV, Overrides, SampleSettings};
use s2m::weigh;
use s2m_calibrate::found::MarginFound;
use s2m_calibrate::held_out::{Rows, real_rows};
use s2m_calibrate::{CalibrationSettings, Engine, Subject, calibrate};
use s2m_core::query::Query;
use s2m_core::weight::Weighting;
use s2m_data::recipe::Loaded;
use s2m_data::view::Positive;
use s2m_fit::trainer::Kind;
use s2m_model::bundle::Bundle;
use serde::{Deserialize, Serialize};

use super::evaluation::{Drawn, Evaluator, Finding, Sampled, Way};
use super::line::Line;
use super::results::{NOTHING, Table};
use super::stages::{Run, Stage};
use super::table1::methods::{DATA, DataSet, GAN, QUERY, STEPS};
use super::table1::referee::{self, Referee, Verdict};
use super::{Bench, Findings, stage};
use crate::Error;

macro_rules! stage {
    ($folder:literal, $name:literal, $kind:ident) => {
        Stage {
            name: $name,
            kind: Kind::$kind,
            template: include_str!(concat!(
                "../../../experiments/",
                $folder,
                "/",
                $name,
                ".toml"
            )),
        }
    };
}

/// Every network, in the order of training.
pub(super) const STAGES: [Stage; 9] = [
    stage!("table1", "referee-mnist", Referee),
    stage!("table1", "referee-fmnist", Referee),
    GAN,
    stage!("table1", "classifier-3-5", Classifier),
    stage!("table1", "classifier-even", Classifier),
    stage!("calibration", "classifier-3-5-wrong-2", Classifier),
    stage!("calibration", "classifier-3-5-wrong-10", Classifier),
    stage!("calibration", "classifier-even-wrong-2", Classifier),
    stage!("calibration", "classifier-even-wrong-10", Classifier),
];

/// Endings of the stages with wrong labels.
const WRONG: [(&str, &str); 3] = [("", "0 %"), ("-wrong-2", "2 %"), ("-wrong-10", "10 %")];

/// Floors on the posterior.
const FLOORS: [f64; 6] = [0.0, 0.5, 0.7, 0.8, 0.9, 0.95];

const CHOICES: [(CalibrationChoice, &str); 3] = [
    (CalibrationChoice::None, "none"),
    (CalibrationChoice::Paper, "the paper's, by hand"),
    (CalibrationChoice::Bundle, "automatic"),
];

/// Exclusion error of the arm with margins, which are off unless they are asked for.
const EXCLUSION_ERROR: f64 = 0.01;

const MH: SamplerChoice = SamplerChoice::Mh { steps: STEPS };
const REJECT: SamplerChoice = SamplerChoice::Reject { tv: DEFAULT_TV };

/// What is measured of one draw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Figures {
    verdict: Verdict,
    sampled: Sampled,
}

/// Calibration of the query with margins: what differs from the bundle's, and what is promised.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Margins {
    overrides: Overrides,
    exclusion_error: Option<f64>,
}

/// The same, with how much of the real items is reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Diverse {
    figures: Figures,
    /// Recall and coverage.
    diversity: Option<[f64; 2]>,
}

pub(super) fn run(bench: &Bench<'_>) -> Result<Findings, Error> {
    let seeds = bench.seeds(&GAN)?;
    let runs = bench.finish(&STAGES)?;
    let evaluator = bench.evaluator(STEPS);
    let mut tables = Vec::new();
    let mut missing = Vec::new();
    let mut promises = promises_table();
    for data in &DATA {
        let Some(referee) = referee::of_data(&runs, data, bench)? else {
            missing.push(format!("{}: there is no referee", data.title));
            continue;
        };
        let work = Work {
            evaluator: &evaluator,
            runs: &runs,
            data,
            referee: &referee,
            seeds: &seeds,
        };
        let file = bench.place.run_file(&GAN)?;
        let recipe = file
            .recipe(data.name)
            .cloned()
            .expect("a test looks for every data set");
        let loaded = recipe.load()?;
        let engine = Engine {
            runtime: &bench.runtime,
            run: bench.request.machine.run,
        };
        let margins = work.margins(&loaded, &engine)?;
        tables.push(work.settings(&margins, &mut missing)?);
        let tested = work.tested(&loaded, recipe.seed, &engine)?;
        promises.rows.extend(work.promises(&tested, &margins)?);
        tables.push(work.purity(&tested, &mut missing)?);
        tables.push(work.wrong_labels(&mut missing)?);
    }
    tables.insert(0, promises);
    Ok(Findings {
        title: "Calibration without full labels: MNIST-3/5, MNIST-Even, FMNIST-Even",
        preface: vec![format!(
            "Query `{QUERY}`. The GANs, classifiers and referees are those of table 1 ([RESULTS](../table1/RESULTS.md)); nothing but the calibration differs between rows. Automatic: chosen from held-out items with one label each. Accuracy and FID† are the referee's, floor and ceiling stand in table 1."
        )],
        seeds,
        runs,
        tables,
        missing,
        pictures: Vec::new(),
    })
}

/// One data set under one referee.
struct Work<'a> {
    evaluator: &'a Evaluator<'a>,
    runs: &'a [Run],
    data: &'a DataSet,
    referee: &'a Referee,
    seeds: &'a [u64],
}

/// A bundle's logits on test items.
struct Tested {
    seed: u64,
    bundle: Bundle,
    /// Every test item once, with whether the query holds.
    items: Rows,
    right: Vec<bool>,
    /// Test items with the label that they show.
    shown: Rows,
}

impl Work<'_> {
    /// Draws, judges and keeps; none where the bundle is not trained.
    fn figures(&self, name: &str, seed: u64, way: Way<'static>) -> Outcome<Figures> {
        self.measure("", name, seed, way, |figures, _| Ok(figures))
    }

    fn measure<T: Serialize + serde::de::DeserializeOwned>(
        &self,
        what: &str,
        name: &str,
        seed: u64,
        way: Way<'static>,
        more: impl FnOnce(Figures, &[f32]) -> Result<T, Error>,
    ) -> Outcome<T> {
        let Some(folder) = self.bundle(name, seed) else {
            return Ok(None);
        };
        let drawn = Drawn::query(folder, way)?;
        let identity = self.referee.identity();
        let file = format!("{}-seed-{seed}{what}", self.data.name);
        let finding =
            self.evaluator
                .measure(&file, &[&identity, what], &drawn, |sampled, levels| {
                    let verdict = self.referee.judge(levels, 0)?;
                    more(Figures { verdict, sampled }, levels)
                })?;
        Ok(Some(finding))
    }

    /// Where a bundle lies, if it is trained.
    fn bundle(&self, name: &str, seed: u64) -> Option<PathBuf> {
        stage(self.runs, name).and_then(|run| run.bundle(self.data.name, seed))
    }

    /// Every bundle calibrated with exclusion margins, by its seed.
    fn margins(
        &self,
        loaded: &Loaded,
        engine: &Engine<'_>,
    ) -> Result<BTreeMap<u64, Margins>, Error> {
        let settings = CalibrationSettings {
            exclusion_error: Some(EXCLUSION_ERROR),
            ..CalibrationSettings::default()
        };
        let wishes = format!("{settings:?}");
        let mut all = BTreeMap::new();
        for &seed in self.seeds {
            let Some(folder) = self.bundle(self.data.classifier, seed) else {
                continue;
            };
            let bundle = Bundle::open(&folder)?;
            let name = format!("{}-seed-{seed}-margins", self.data.name);
            let identity = ["margins", bundle.hash(), &wishes];
            let found = self.evaluator.kept(&name, &identity, || {
                let subject = Subject {
                    bundle: &bundle,
                    data: loaded,
                    audit: None,
                };
                let found = calibrate(subject, &settings, engine, self.evaluator.progress)?;
                let joint = found.found.joint_classes.get(QUERY);
                let promised = match joint.and_then(|joint| joint.margin.as_ref()) {
                    Some(MarginFound::Promised {
                        margin,
                        exclusion_error,
                        ..
                    }) => Some((*margin, *exclusion_error)),
                    Some(MarginFound::None(_)) | None => None,
                };
                Ok(Margins {
                    overrides: Overrides {
                        real_temperature: Some(found.found.real.by_likelihood),
                        odds_cap: found.found.real.cap,
                        margin: promised.map(|(margin, _)| margin),
                        floor: joint.map(|joint| joint.floor),
                        ..Overrides::default()
                    },
                    exclusion_error: promised.map(|(_, error)| error),
                })
            })?;
            all.insert(seed, found);
        }
        Ok(all)
    }

    /// Hand settings, automatic ones and none, by both samplers.
    fn settings(
        &self,
        margins: &BTreeMap<u64, Margins>,
        missing: &mut Vec<String>,
    ) -> Result<Table, Error> {
        let columns = [
            "calibration",
            "accuracy %",
            "FID†",
            "predicted purity %",
            "calls per sample",
            "TV bound",
            "seeds",
        ];
        let mut table = Table::new(&format!("{}: settings", self.data.title), &columns);
        // Weights without calibration are too heavy for rejection.
        let [none, paper, automatic] = CHOICES;
        let rows = [
            (MH, none),
            (MH, paper),
            (MH, automatic),
            (REJECT, automatic),
        ];
        for (sampler, (calibration, whose)) in rows {
            let how = match sampler {
                MH => "mh, K = 100",
                _ => "reject, TV 0.01",
            };
            let way = Way {
                sampler,
                calibration,
                ..Way::of(QUERY)
            };
            let name = format!("{whose}; {how}");
            let line = Line::measure(&name, self.seeds, |seed| {
                self.figures(self.data.classifier, seed, way)
            })?;
            missing.extend(self.named(&line));
            table.rows.push(row(&line));
        }
        let name = format!(
            "automatic with margins (`--exclusion-error {EXCLUSION_ERROR}`); reject, TV 0.01"
        );
        let line = Line::measure(&name, self.seeds, |seed| {
            let way = Way {
                sampler: REJECT,
                overrides: margins.get(&seed).map(|m| m.overrides).unwrap_or_default(),
                ..Way::of(QUERY)
            };
            self.figures(self.data.classifier, seed, way)
        })?;
        missing.extend(self.named(&line));
        table.rows.push(row(&line));
        Ok(table)
    }

    /// Every bundle's logits on the test items.
    fn tested(
        &self,
        loaded: &Loaded,
        seed: u64,
        engine: &Engine<'_>,
    ) -> Result<Vec<Tested>, Error> {
        let mut all = Vec::new();
        for &of in self.seeds {
            let Some(folder) = self.bundle(self.data.classifier, of) else {
                continue;
            };
            let bundle = Bundle::open(&folder)?;
            let test = &loaded.test;
            let each: Vec<u32> = (0..test.len() as u32).collect();
            let recipe = s2m_data::recipe::LabellingRecipe::OneOf { weights: None };
            let shown = recipe
                .view(test.labels.len())
                .positives(test, &each, seed)?;
            let once: Vec<Positive> = each
                .iter()
                .map(|&item| Positive { item, label: 0 })
                .collect();
            let query = Query::parse(QUERY, bundle.labels())?;
            all.push(Tested {
                seed: of,
                items: real_rows(&bundle, &test.items, &once, engine)?,
                right: test.truth.iter().map(|set| query.holds(*set)).collect(),
                shown: real_rows(&bundle, &test.items, &shown, engine)?,
                bundle,
            });
        }
        Ok(all)
    }

    /// Exclusion errors promised on held-out items, and seen on test items.
    fn promises(
        &self,
        tested: &[Tested],
        margins: &BTreeMap<u64, Margins>,
    ) -> Result<Vec<Vec<String>>, Error> {
        let mut rows = Vec::new();
        for bundle in tested {
            let Some(found) = margins.get(&bundle.seed) else {
                continue;
            };
            let weighting = weighting(&bundle.bundle, found.overrides)?;
            let query = weighting.query().clone();
            let (mut items, mut kept) = (0_usize, 0_usize);
            for at in 0..bundle.shown.count() {
                if query.forced(usize::from(bundle.shown.labels[at])) != Some(false) {
                    continue;
                }
                items += 1;
                let explained = explain(&weighting, &bundle.shown, at)?;
                kept += usize::from(explained.log_density.is_finite());
            }
            let [low, high] = wilson(kept, items);
            let percent = |error: f64| format!("{:.2}", 100.0 * error);
            let promised = found.exclusion_error.map_or(NOTHING.to_owned(), percent);
            rows.push(vec![
                format!("{}, seed {}", self.data.title, bundle.seed),
                format!("{:.4}", found.overrides.margin.unwrap_or(1.0)),
                promised,
                percent(kept as f64 / items.max(1) as f64),
                format!("{:.2} to {:.2}", 100.0 * low, 100.0 * high),
                items.to_string(),
            ]);
        }
        Ok(rows)
    }

    /// Predicted against measured purity, on real and on generated items.
    fn purity(&self, tested: &[Tested], missing: &mut Vec<String>) -> Result<Table, Error> {
        let columns = [
            "floor",
            "real: predicted %",
            "real: measured %",
            "generated: predicted %",
            "generated: measured %",
            "calls per sample",
            "recall",
            "coverage",
            "FID†",
            "seeds",
        ];
        let title = format!(
            "{}: floors on the posterior (reject, TV 0.01, no margin)",
            self.data.title
        );
        let mut table = Table::new(&title, &columns);
        for floor in FLOORS {
            let overrides = Overrides {
                margin: Some(1.0),
                floor: Some(floor),
                ..Overrides::default()
            };
            let mut real = Vec::new();
            for bundle in tested {
                real.push(on_real(bundle, overrides)?);
            }
            let way = Way {
                sampler: REJECT,
                overrides,
                ..Way::of(QUERY)
            };
            let line = Line::measure(&format!("{floor}"), self.seeds, |seed| {
                self.measure(
                    "-floor",
                    self.data.classifier,
                    seed,
                    way,
                    |figures, levels| {
                        let diversity = self.referee.diversity(levels)?;
                        Ok(Diverse { figures, diversity })
                    },
                )
            })?;
            missing.extend(self.named(&line));
            let of_real = |at: usize| {
                super::results::cell(real.iter().map(|pair| pair.map(|p| 100.0 * p[at])), 2)
            };
            table.rows.push(vec![
                line.name.clone(),
                of_real(0),
                of_real(1),
                line.cell(2, |d| d.figures.sampled.predicted_purity.map(|p| 100.0 * p)),
                line.cell(2, |d| Some(100.0 * d.figures.verdict.accuracy)),
                line.cell(1, |d| Some(d.figures.sampled.calls_per_sample)),
                line.cell(3, |d| d.diversity.map(|d| d[0])),
                line.cell(3, |d| d.diversity.map(|d| d[1])),
                line.cell(2, |d| d.figures.verdict.fid),
                line.seeds(),
            ]);
        }
        table.notes.push(
            "Real: test items with a posterior above the floor, in proportion to the query's density; generated: samples, judged by the referee. Recall and coverage (k = 5) are on the referee's features against the test items of the target."
                .to_owned(),
        );
        Ok(table)
    }

    /// Accuracy where a share of the labels is wrong.
    fn wrong_labels(&self, missing: &mut Vec<String>) -> Result<Table, Error> {
        let columns = [
            "wrong labels; calibration",
            "accuracy %",
            "FID†",
            "predicted purity %",
            "calls per sample",
            "TV bound",
            "seeds",
        ];
        let title = format!("{}: wrong labels (mh, K = 100)", self.data.title);
        let mut table = Table::new(&title, &columns);
        for (ending, share) in WRONG {
            let name = format!("{}{ending}", self.data.classifier);
            for (calibration, whose) in &CHOICES[1..] {
                let way = Way {
                    sampler: MH,
                    calibration: *calibration,
                    ..Way::of(QUERY)
                };
                let line = Line::measure(&format!("{share}; {whose}"), self.seeds, |seed| {
                    self.figures(&name, seed, way)
                })?;
                missing.extend(self.named(&line));
                table.rows.push(row(&line));
            }
        }
        table.notes.push(
            "Each label of the training and validation items is, with this probability, one that the item does not have."
                .to_owned(),
        );
        Ok(table)
    }

    fn named<T>(&self, line: &Line<T>) -> Vec<String> {
        let missing = line.missing();
        missing
            .map(|text| format!("{}: {text}", self.data.title))
            .collect()
    }
}

type Outcome<T> = Result<Option<Finding<T>>, Error>;

fn row(line: &Line<Figures>) -> Vec<String> {
    vec![
        line.name.clone(),
        line.cell(2, |f| Some(100.0 * f.verdict.accuracy)),
        line.cell(2, |f| f.verdict.fid),
        line.cell(2, |f| f.sampled.predicted_purity.map(|p| 100.0 * p)),
        line.cell(1, |f| Some(f.sampled.calls_per_sample)),
        line.cell(4, |f| f.sampled.tv_bound),
        line.seeds(),
    ]
}

fn promises_table() -> Table {
    let columns = [
        "bundle",
        "margin",
        "promised %",
        "on test items %",
        "95 % interval",
        "test items",
    ];
    let title = format!(
        "Exclusion error of `{QUERY}` with margins (`--exclusion-error {EXCLUSION_ERROR}`): promised on held-out items, seen on test items"
    );
    let mut table = Table::new(&title, &columns);
    table.notes.push(
        "Share of test items, shown with an excluded label, that get weight. The promise is on average over the draw of held-out items, so single bundles may lie above it."
            .to_owned(),
    );
    table
}

/// The weighting of the query with some changes, the discriminator left out of account.
fn weighting(bundle: &Bundle, overrides: Overrides) -> Result<Weighting, Error> {
    let query = Query::parse(QUERY, bundle.labels())?;
    let settings = SampleSettings {
        overrides,
        ..SampleSettings::default()
    };
    Ok(weigh::weigh(bundle, &query, &settings)?.weighting)
}

fn explain(
    weighting: &Weighting,
    rows: &Rows,
    at: usize,
) -> Result<s2m_core::weight::Explanation, Error> {
    let explained = weighting.explain(rows.evidence(at));
    explained.map_err(|e| Error::Setting(format!("test item {at}: {e}")))
}

/// Predicted and measured purity of real items above a floor, by the query's density.
fn on_real(tested: &Tested, overrides: Overrides) -> Result<Option<[f64; 2]>, Error> {
    let weighting = weighting(&tested.bundle, overrides)?;
    let (mut total, mut predicted, mut measured) = (0.0, 0.0, 0.0);
    for (at, &right) in tested.right.iter().enumerate() {
        let explained = explain(&weighting, &tested.items, at)?;
        if !explained.log_weight.is_finite() {
            continue;
        }
        let density = explained.log_density.exp();
        total += density;
        predicted += density * explained.predicted;
        measured += density * f64::from(u8::from(right));
    }
    Ok((total > 0.0).then(|| [predicted / total, measured / total]))
}

/// Wilson's 95 % interval of a share.
fn wilson(kept: usize, items: usize) -> [f64; 2] {
    const Z: f64 = 1.959_963_984_540_054;
    let n = items.max(1) as f64;
    let share = kept as f64 / n;
    let middle = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let spread = (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let half = Z * spread / (1.0 + Z * Z / n);
    [(middle - half).max(0.0), (middle + half).min(1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    // scipy 1.17.1: binomtest(3, 100).proportion_ci(method="wilson") = (0.0102545, 0.0845194)
    #[test]
    fn an_interval_is_wilsons() {
        let [low, high] = wilson(3, 100);
        assert!((low - 0.010_254_5).abs() < 1e-6, "{low}");
        assert!((high - 0.084_519_4).abs() < 1e-6, "{high}");
        assert_eq!(wilson(0, 0)[0], 0.0);
    }
}
