//! Rare joint classes of MNIST with six labels: the paper's comparison of ways to adapt, and its figure
//! of acceptance, accuracy and FID† per step.
//!
//! Chains are followed once, over their longest length; what they are after fewer steps is what shorter
//! chains would have ended with.
//!
//! Reference: the table of latent adaptation and the figure of acceptance in "Mining Multi-Label Samples from Single Positive Labels", 2022.

use std::num::NonZeroUsize;
use std::sync::Arc;

use s2m::adapt::{AdaptChoice, PRIOR_SHARE, Pilot};
use s2m::draw::{uniforms, weigh_first};
use s2m::pool::Pool;
use s2m::samplers::SamplerChoice;
use s2m::session::Session;
use s2m::settings::{Overrides, SampleSettings};
use s2m_core::labels::LabelSet;
use s2m_core::query::Query;
use s2m_core::samplers::{History, mh};
use s2m_data::six_labels;
use s2m_data::{Dataset, Values};
use s2m_model::bundle::Bundle;
use s2m_model::judge::Judge;
use s2m_model::networks::{Renderer, Requested};
use s2m_runs::folder::REFEREE;
use s2m_show::picture::{Canvas, Chart, Curve, charts};
use serde::{Deserialize, Serialize};

use super::evaluation::{Evaluator, Finding};
use super::line::Line;
use super::results::{Table, published};
use super::six_labels::{DATA, GAN, STAGES};
use super::table1::referee::{OUTPUTS, distance};
use super::{Bench, Findings, stage};
use crate::Error;

/// Joint classes with less than 3 % of the training items, and the name of their picture.
const CLASSES: [(&str, &str); 3] = [
    ("even + high + loop + thick + slanted + wide", "all-six.png"),
    (
        "high + loop + slanted - even - thick - wide",
        "slanted-nines.png",
    ),
    (
        "even + slanted + wide - high - loop - thick",
        "slanted-wide.png",
    ),
];

/// Chains, and the longest they get.
const CHAINS: usize = 1200;
const STEPS: NonZeroUsize = NonZeroUsize::new(400).expect("400 is not zero");

/// Numbers of steps after which chains are judged.
const AFTER: [usize; 11] = [1, 2, 5, 10, 20, 35, 60, 100, 160, 250, 400];

/// Samples for which the cost of a search is shared out.
const SAMPLES: f64 = 10_000.0;

/// The paper's three classes (B+M+S-A-N-W, B+M+N+S-A-W and A+N+W-B-M-S on CelebA, a BigGAN): searching
/// and sampling iterations without adaptation, at once and repeated.
const PAPER: [[Option<[f64; 2]>; 4]; 3] = [
    [
        Some([0.0, 320.0]),
        Some([90.0, 20.0]),
        Some([90.0, 15.0]),
        None,
    ],
    [
        Some([0.0, 165.0]),
        Some([90.0, 35.0]),
        Some([90.0, 5.0]),
        None,
    ],
    [
        Some([0.0, 335.0]),
        Some([90.0, 40.0]),
        Some([90.0, 5.0]),
        None,
    ],
];

fn ways() -> [(&'static str, AdaptChoice); 4] {
    let steps = |steps| Pilot::paper(NonZeroUsize::new(steps).expect("it is not zero"));
    [
        ("none", AdaptChoice::None),
        (
            "once",
            AdaptChoice::Once {
                pilot: steps(90),
                prior_share: PRIOR_SHARE,
            },
        ),
        ("repeat", AdaptChoice::repeat()),
        ("adaptive", AdaptChoice::adaptive()),
    ]
}

/// What one run of chains showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Figures {
    /// Proposals of the search.
    searched: usize,
    /// Share of right items after each number of steps.
    accuracy: Vec<f64>,
    /// FID† after each.
    fid: Vec<Option<f64>>,
    /// Share of chains with a state after each.
    alive: Vec<f64>,
    /// Acceptance at each number of steps, over the steps since the one before.
    acceptance: Vec<f64>,
    /// Effective share of the proposals.
    effective: f64,
    samples: usize,
}

impl Figures {
    /// The first number of steps after which accuracy is within two standard errors of the last.
    fn converged(&self) -> usize {
        let last = self.accuracy.last().copied().unwrap_or(0.0);
        let error = (last * (1.0 - last) / self.samples.max(1) as f64).sqrt();
        let close = |a: &f64| (a - last).abs() <= 2.0 * error;
        self.accuracy
            .iter()
            .position(close)
            .unwrap_or(AFTER.len() - 1)
    }
}

pub(super) fn run(bench: &Bench<'_>) -> Result<Findings, Error> {
    let seeds = bench.seeds(&GAN)?;
    let runs = bench.finish(&STAGES)?;
    let evaluator = bench.evaluator(NonZeroUsize::MIN);
    let labels = six_labels::labels();
    let file = bench.place.run_file(&GAN)?;
    let recipe = file
        .recipe(DATA)
        .cloned()
        .expect("a test looks for every data set");
    let loaded = recipe.load()?;
    let (mut tables, mut missing, mut pictures) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(referee) = stage(&runs, "referee-mnist") {
        let path = referee.folder.join(REFEREE);
        let settings = &bench.request.machine.run;
        let judge = Judge::open(&path, &OUTPUTS, &bench.runtime, settings)?;
        for ((text, picture), papers) in CLASSES.into_iter().zip(PAPER) {
            let query = Query::parse(text, &labels)?;
            let real = Real::of(&judge, &loaded.train, &loaded.test, &query)?;
            let mut table = table(text, &real);
            let mut lines = Vec::new();
            for ((name, way), paper) in ways().into_iter().zip(papers) {
                let line = Line::measure(name, &seeds, |seed| {
                    let run = stage(&runs, "classifier");
                    let Some(folder) = run.and_then(|run| run.bundle(DATA, seed)) else {
                        return Ok(None);
                    };
                    let bundle = Arc::new(Bundle::open(&folder)?);
                    let job = Job {
                        evaluator: &evaluator,
                        bundle: &bundle,
                        judge: &judge,
                        query: &query,
                        real: &real,
                    };
                    job.measure(&way, seed).map(Some)
                })?;
                missing.extend(line.missing().map(|m| format!("{text}: {m}")));
                table.rows.push(row(&line, paper));
                lines.push(line);
            }
            tables.push(table);
            pictures.push((picture, chart(&lines)));
        }
    } else {
        missing.push("there is no referee, so nothing is judged".to_owned());
    }
    Ok(Findings {
        title: "Rare joint classes of MNIST with six labels",
        preface: vec![format!(
            "Labels as in the experiment `six-labels`; every way draws the same joint class with {CHAINS} chains of `mh`, followed over {STEPS} steps, without floor or margin. Sampling steps are the first of {AFTER:?} after which accuracy is within two standard errors of that at {STEPS}; accuracy and FID† are taken there, and again at {STEPS} steps. `once` and `repeat` have the paper's settings for this comparison: 10,000 pilot latents, 90 steps at once or 15 per label, 8 components with one covariance. `adaptive` counts generator calls, which divided by 10,000 pilots would be its searching steps. FID† is against the *training* items of the class: the test set has too few of them for 84 features. Published steps are those of three classes of the paper on CelebA with a BigGAN, to show the scale."
        )],
        seeds,
        runs,
        tables,
        missing,
        pictures,
    })
}

fn table(text: &str, real: &Real) -> Table {
    let mut table = Table::new(
        &format!(
            "`{text}`, {:.2} % of the training items",
            100.0 * real.share
        ),
        &[
            "way",
            "search calls",
            "searching steps (published)",
            "sampling steps",
            "(published)",
            "accuracy % there",
            "FID† there",
            "accuracy %, last",
            "FID†, last",
            "effective share %",
            "calls per sample for 10,000",
            "seeds",
        ],
    );
    table.notes.push(format!(
        "Real test items of the class: {}, of which the referee finds {:.1} % right; their FID† against training items: {}.",
        real.test_items,
        100.0 * real.test_accuracy,
        real.floor.map_or("-".to_owned(), |f| format!("{f:.2}")),
    ));
    table
}

fn row(line: &Line<Figures>, paper: Option<[f64; 2]>) -> Vec<String> {
    let last = AFTER.len() - 1;
    let paper = |at: usize| published(paper.map(|p| [p[at], 0.0]), 0).replace(" ± 0", "");
    vec![
        line.name.clone(),
        line.cell(0, |f| Some(f.searched as f64)),
        paper(0),
        line.cell(0, |f| Some(AFTER[f.converged()] as f64)),
        paper(1),
        line.cell(2, |f| Some(100.0 * f.accuracy[f.converged()])),
        line.cell(1, |f| f.fid[f.converged()]),
        line.cell(2, |f| Some(100.0 * f.accuracy[last])),
        line.cell(1, |f| f.fid[last]),
        line.cell(2, |f| Some(100.0 * f.effective)),
        line.cell(0, |f| {
            Some(f.searched as f64 / SAMPLES + AFTER[f.converged()] as f64)
        }),
        line.seeds(),
    ]
}

/// Acceptance, accuracy and FID† per step, means over seeds.
fn chart(lines: &[Line<Figures>]) -> Canvas {
    let curves = |figure: &dyn Fn(&Figures, usize) -> Option<f64>| {
        let curve = |line: &Line<Figures>| {
            let point = |at: usize| {
                let known: Vec<f64> = line.measured().filter_map(|(_, f)| figure(f, at)).collect();
                let mean = known.iter().sum::<f64>() / known.len() as f64;
                [AFTER[at] as f64, mean]
            };
            Curve {
                name: line.name.clone(),
                points: (0..AFTER.len()).map(point).collect(),
            }
        };
        lines.iter().map(curve).collect::<Vec<_>>()
    };
    let chart = |title: &str, curves| Chart {
        title: title.to_owned(),
        x: "steps".to_owned(),
        curves,
        logarithmic: [true, false],
    };
    charts(&[
        chart(
            "Acceptance, %",
            curves(&|f, at| Some(100.0 * f.acceptance[at])),
        ),
        chart("Accuracy, %", curves(&|f, at| Some(100.0 * f.accuracy[at]))),
        chart("FID, referee features", curves(&|f, at| f.fid[at])),
    ])
}

/// Real items of a joint class.
struct Real {
    /// Share of the training items.
    share: f64,
    /// Features of the training items of the class.
    features: Vec<f32>,
    test_items: usize,
    test_accuracy: f64,
    /// FID† of the test items.
    floor: Option<f64>,
}

impl Real {
    fn of(judge: &Judge, train: &Dataset, test: &Dataset, query: &Query) -> Result<Self, Error> {
        let of_class = |data: &Dataset| -> Vec<f32> {
            let Values::Bytes(bytes) = &data.items.values else {
                unreachable!("MNIST is pictures");
            };
            let size = bytes.len() / data.truth.len().max(1);
            let pictures = bytes.chunks_exact(size).zip(&data.truth);
            let own = pictures.filter(|(_, set)| query.holds(**set));
            own.flat_map(|(picture, _)| picture.iter().map(|&b| f32::from(b)))
                .collect()
        };
        let count = |data: &Dataset| data.truth.iter().filter(|s| query.holds(**s)).count();
        let (_, features) = seen(judge, &of_class(train))?;
        let (sets, test_features) = seen(judge, &of_class(test))?;
        Ok(Self {
            share: count(train) as f64 / train.truth.len().max(1) as f64,
            floor: distance(DATA, judge, &features, &test_features)?,
            features,
            test_items: sets.len(),
            test_accuracy: right(&sets, query),
        })
    }
}

/// Labels and features of pictures given as levels.
fn seen(judge: &Judge, levels: &[f32]) -> Result<(Vec<LabelSet>, Vec<f32>), Error> {
    let items: Vec<f32> = levels
        .iter()
        .map(|level| 2.0 * level / 255.0 - 1.0)
        .collect();
    let mut answers = judge.judge(&items)?.into_iter();
    let (Some(logits), Some(features)) = (answers.next(), answers.next()) else {
        unreachable!("a judge gives every output that was asked for");
    };
    let size: usize = judge.item_shape().iter().product();
    let digits = logits.chunks_exact(logits.len() / (levels.len() / size).max(1));
    let of = |(row, picture): (&[f32], &[f32])| {
        let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let bytes: Vec<u8> = picture.iter().map(|&level| level as u8).collect();
        six_labels::labels_of(best.map_or(0, |(digit, _)| digit as u8), &bytes)
    };
    let sets = digits.zip(levels.chunks_exact(size)).map(of).collect();
    Ok((sets, features))
}

fn right(sets: &[LabelSet], query: &Query) -> f64 {
    let right = sets.iter().filter(|set| query.holds(**set)).count();
    right as f64 / sets.len().max(1) as f64
}

/// One way on one bundle.
struct Job<'j> {
    evaluator: &'j Evaluator<'j>,
    bundle: &'j Arc<Bundle>,
    judge: &'j Judge,
    query: &'j Query,
    real: &'j Real,
}

impl Job<'_> {
    /// Runs the chains, unless that was done before.
    fn measure(&self, way: &AdaptChoice, seed: u64) -> Result<Finding<Figures>, Error> {
        let settings = SampleSettings {
            seed: Some(0),
            sampler: SamplerChoice::Mh { steps: STEPS },
            adapt: way.clone(),
            overrides: Overrides {
                floor: Some(0.0),
                margin: Some(1.0),
                ..Overrides::default()
            },
            ..SampleSettings::default()
        };
        let identity = [
            self.bundle.hash(),
            self.query.text(),
            &serde_json::to_string(&settings).expect("settings have only plain fields"),
            self.judge.sha256(),
            "chains 1200 400",
            env!("CARGO_PKG_VERSION"),
        ];
        let name = format!("rare-{}-seed-{seed}", way.name());
        self.evaluator
            .kept(&name, &identity, || self.follow(&settings))
    }

    fn follow(&self, settings: &SampleSettings) -> Result<Finding<Figures>, Error> {
        let evaluator = self.evaluator;
        let session = Session::open(self.bundle, evaluator.machine, settings, None)?;
        let chains = NonZeroUsize::new(CHAINS).expect("it is not zero");
        let weighed = session.weigh(self.query)?;
        let planned = match session.prepare(&weighed, chains, evaluator.progress) {
            Ok(planned) => planned,
            Err(s2m::Error::Refused(refusal)) => {
                return Ok(Finding::Refused(refusal.failure.to_string()));
            }
            Err(s2m::Error::Adapt(error)) => {
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default();
                return Ok(Finding::Refused(first.to_owned()));
            }
            Err(error) => return Err(error.into()),
        };
        let (mut pool, mut target) = (planned.pool, planned.target);
        let rows = CHAINS * STEPS.get();
        let log_weights = weigh_first(&mut pool, &mut target, rows, evaluator.progress)?;
        let log_uniforms = uniforms(&pool, &target.sequence, 0..rows);
        let history = History {
            log_weights: &log_weights,
            log_uniforms: &log_uniforms,
        };
        let followed = mh::follow(history, STEPS, &AFTER);
        let renderer = Renderer::open(self.bundle, &evaluator.runtime, &evaluator.machine.run)?;
        let mut figures = Figures {
            searched: target.searched,
            accuracy: Vec::new(),
            fid: Vec::new(),
            alive: Vec::new(),
            acceptance: Vec::new(),
            effective: s2m_core::adaptation::effective(&log_weights) / rows as f64,
            samples: CHAINS,
        };
        let mut before = 0;
        for (states, steps) in followed.states.iter().zip(AFTER) {
            let kept: Vec<u64> = states.iter().flatten().map(|&row| row as u64).collect();
            let levels = render(&renderer, &pool, &kept)?;
            let (sets, features) = seen(self.judge, &levels)?;
            // A chain without a state has nothing to show, which is not right either.
            let share = kept.len() as f64 / CHAINS as f64;
            figures.accuracy.push(share * right(&sets, self.query));
            figures.alive.push(share);
            let fid = distance(DATA, self.judge, &self.real.features, &features)?;
            figures.fid.push(fid);
            let since = &followed.acceptance[before..steps];
            figures
                .acceptance
                .push(since.iter().sum::<f64>() / since.len() as f64);
            before = steps;
        }
        Ok(Finding::Measured(figures))
    }
}

/// The items of some rows, as levels.
fn render(renderer: &Renderer, pool: &Pool, rows: &[u64]) -> Result<Vec<f32>, Error> {
    let origin = pool.origin();
    Ok(renderer.render(Requested {
        proposals: origin.proposals,
        mixture: origin.mixture.as_deref(),
        numbers: rows,
        classes: &[],
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_one_of_these_labels_and_judged_to_the_end() {
        let labels = six_labels::labels();
        for (text, _) in CLASSES {
            let query = Query::parse(text, &labels).unwrap();
            assert!(query.conjunction().is_some(), "{text}");
        }
        assert_eq!(AFTER.last(), Some(&STEPS.get()));
        assert!(AFTER.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn accuracy_has_converged_within_two_standard_errors_of_the_last() {
        let figures = Figures {
            searched: 0,
            accuracy: vec![0.1, 0.2, 0.5, 0.64, 0.66, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7],
            fid: Vec::new(),
            alive: Vec::new(),
            acceptance: Vec::new(),
            effective: 0.0,
            samples: 525,
        };
        // √(0.7·0.3/525) = 0.02.
        assert_eq!(figures.converged(), 4);
    }
}
