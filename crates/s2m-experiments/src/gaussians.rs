//! The 2×16 Gaussians: a trained generator alone beside S2M, query by query.
//!
//! Reference: appendix E.1 of "Mining Multi-Label Samples from Single Positive Labels", 2022.

use s2m::samplers::SamplerChoice;
use s2m::settings::{CalibrationChoice, DEFAULT_TV};
use s2m_core::labels::Labels;
use s2m_core::query::Query;
use s2m_eval::gaussians::{PAPER, PAPER_STEPS, PaperRow, ceiling, centres, fit_points, points};
use s2m_fit::trainer::Kind;
use s2m_runs::folder::GENERATOR;
use s2m_show::picture::{Canvas, Panel, scatter};
use serde::{Deserialize, Serialize};

use super::evaluation::{Drawn, Evaluator, Finding, Sampled, Way};
use super::line::Line;
use super::results::{Table, published};
use super::stages::{Run, Stage};
use super::{Bench, Findings, stage};
use crate::Error;

/// Name of the data in the run files.
const DATA: &str = "gaussians";

const STAGES: [Stage; 2] = [
    Stage {
        name: "gan",
        kind: Kind::Gan,
        template: include_str!("../../../experiments/gaussians/gan.toml"),
    },
    Stage {
        name: "classifier",
        kind: Kind::Classifier,
        template: include_str!("../../../experiments/gaussians/classifier.toml"),
    },
];

/// What is measured of one draw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Figures {
    accuracy: f64,
    high_quality: f64,
    spread: f64,
    sampled: Sampled,
}

/// A line's model: the generator alone, or a sampler over it.
#[derive(Debug, Clone, Copy)]
enum Method {
    Alone,
    Sampled(CalibrationChoice, SamplerChoice),
}

const MH: SamplerChoice = SamplerChoice::Mh { steps: PAPER_STEPS };
const REJECT: SamplerChoice = SamplerChoice::Reject { tv: DEFAULT_TV };

/// The paper tunes nothing here: its settings are temperatures and margin of 1, and no floor.
const METHODS: [(&str, Method); 4] = [
    ("GAN alone", Method::Alone),
    (
        "GAN + S2M, paper's settings, mh, K = 400",
        Method::Sampled(CalibrationChoice::Paper, MH),
    ),
    (
        "GAN + S2M, chosen settings, mh, K = 400",
        Method::Sampled(CalibrationChoice::Bundle, MH),
    ),
    (
        "GAN + S2M, chosen settings, reject, TV 0.01",
        Method::Sampled(CalibrationChoice::Bundle, REJECT),
    ),
];

pub(super) fn run(bench: &Bench<'_>) -> Result<Findings, Error> {
    let seeds = bench.seeds(&STAGES[0])?;
    let runs = bench.finish(&STAGES)?;
    let evaluator = bench.evaluator(PAPER_STEPS);
    let columns = [
        "query, method",
        "accuracy %",
        "(paper)",
        "high quality %",
        "(paper)",
        "std. dev.",
        "(paper)",
        "calls per sample",
        "TV bound",
        "seeds",
    ];
    let mut table = Table::new("2x16 Gaussians", &columns);
    let mut missing = Vec::new();
    for (query, paper) in PAPER {
        for (name, method) in METHODS {
            let name = format!("{query}: {name}");
            let line = Line::measure(&name, &seeds, |seed| {
                measure(&evaluator, &runs, query, method, seed)
            })?;
            missing.extend(line.missing());
            table.rows.push(row(&line, method, &paper));
        }
    }
    let [accuracy, quality, spread] = ceiling();
    let perfect = [
        "perfect samples",
        &format!("{accuracy:.2}"),
        "-",
        &format!("{quality:.2}"),
        "-",
    ];
    let perfect = perfect.map(str::to_owned).into_iter();
    let rest = [&format!("{spread:.3}"), "-", "-", "-", "-"].map(ToString::to_string);
    table.rows.push(perfect.chain(rest).collect());
    let picture = picture(&evaluator, &runs, &seeds)?;
    Ok(Findings {
        title: "2x16 Gaussians (appendix E.1)",
        preface: vec![
            "Accuracy: share of points whose nearest mode satisfies the query. Of those points: high quality, the share within four standard deviations of that mode, and the standard deviation about the mean of each mode's points.".to_owned(),
        ],
        seeds,
        runs,
        tables: vec![table],
        missing,
        pictures: picture.into_iter().map(|canvas| ("gaussians.png", canvas)).collect(),
    })
}

/// The model behind a line, where it is trained.
fn drawn<'q>(
    runs: &[Run],
    query: &'q str,
    method: Method,
    seed: u64,
) -> Result<Option<Drawn<'q>>, Error> {
    match method {
        Method::Alone => {
            let file = stage(runs, "gan").and_then(|run| run.generator(DATA, seed, GENERATOR));
            file.map(|file| Drawn::alone(&file)).transpose()
        }
        Method::Sampled(calibration, sampler) => {
            let folder = stage(runs, "classifier").and_then(|run| run.bundle(DATA, seed));
            let way = Way {
                sampler,
                calibration,
                ..Way::of(query)
            };
            folder.map(|folder| Drawn::query(folder, way)).transpose()
        }
    }
}

fn measure(
    evaluator: &Evaluator<'_>,
    runs: &[Run],
    query: &str,
    method: Method,
    seed: u64,
) -> Result<Option<Finding<Figures>>, Error> {
    let Some(drawn) = drawn(runs, query, method, seed)? else {
        return Ok(None);
    };
    let labels = Labels::new(["A", "B"]).expect("A and B are names");
    let parsed = Query::parse(query, &labels)?;
    let name = format!("{DATA}-seed-{seed}");
    let finding = evaluator.measure(&name, &[query], &drawn, |sampled, items| {
        let fit = fit_points(&points(items), &parsed);
        Ok(Figures {
            accuracy: fit.accuracy,
            high_quality: fit.high_quality,
            spread: fit.spread,
            sampled,
        })
    });
    finding.map(Some)
}

fn row(line: &Line<Figures>, method: Method, paper: &PaperRow) -> Vec<String> {
    let paper = match method {
        Method::Alone => Some(paper.generator),
        Method::Sampled(CalibrationChoice::Paper, _) => Some(paper.sampled),
        Method::Sampled(CalibrationChoice::Bundle | CalibrationChoice::None, _) => None,
    };
    let paper = |figure: usize| paper.map(|figures| figures[figure]);
    vec![
        line.name.clone(),
        line.cell(2, |f| Some(100.0 * f.accuracy)),
        published(paper(0), 2),
        line.cell(2, |f| Some(100.0 * f.high_quality)),
        published(paper(1), 2),
        line.cell(3, |f| Some(f.spread)),
        published(paper(2), 3),
        line.cell(1, |f| Some(f.sampled.calls_per_sample)),
        line.cell(4, |f| f.sampled.tv_bound),
        line.seeds(),
    ]
}

/// The generator and every query side by side, of the first seed that is there.
fn picture(
    evaluator: &Evaluator<'_>,
    runs: &[Run],
    seeds: &[u64],
) -> Result<Option<Canvas>, Error> {
    let (_, alone) = METHODS[0];
    let (_, mh) = METHODS[2];
    let queries = PAPER.map(|(query, _)| (query, mh));
    for &seed in seeds {
        let mut panels = Vec::new();
        for (query, method) in [("A", alone)].into_iter().chain(queries) {
            let Some(drawn) = drawn(runs, query, method, seed)? else {
                continue;
            };
            let figures = measure(evaluator, runs, query, method, seed)?;
            let Some(Finding::Measured(figures)) = figures else {
                continue;
            };
            let sampled = &figures.sampled;
            let items = evaluator.render(&drawn, sampled, sampled.numbers.len())?;
            panels.push(panel(query, method, &figures, points(&items)));
        }
        if !panels.is_empty() {
            let heading = format!("2x16 Gaussians, trained networks, seed {seed}");
            return Ok(Some(scatter(&panels, 3, &heading)));
        }
    }
    Ok(None)
}

fn panel(query: &str, method: Method, figures: &Figures, points: Vec<[f32; 2]>) -> Panel {
    let (title, caption, colour) = match method {
        Method::Alone => ("GAN alone", String::new(), [150, 60, 50]),
        Method::Sampled(..) => {
            let caption = format!(
                "{:.1} % right, {:.1} calls per sample",
                100.0 * figures.accuracy,
                figures.sampled.calls_per_sample
            );
            (query, caption, [31, 95, 170])
        }
    };
    Panel {
        title: title.to_owned(),
        caption,
        points,
        marks: centres(),
        colour,
        ..Panel::default()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const ALL: &[Stage] = &STAGES;

    /// The published table, figure by figure, where the paper prints it.
    #[test]
    fn names_of_methods_state_their_settings() {
        for (name, method) in METHODS {
            match method {
                Method::Alone => assert_eq!(name, "GAN alone"),
                Method::Sampled(_, SamplerChoice::Mh { steps }) => {
                    assert!(name.ends_with(&format!("K = {steps}")));
                }
                Method::Sampled(_, SamplerChoice::Reject { tv }) => {
                    assert!(name.ends_with(&format!("TV {tv}")));
                }
                Method::Sampled(_, other) => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn points_are_judged_by_their_nearest_mode() {
        let labels = Labels::new(["A", "B"]).unwrap();
        let query = Query::parse("A - B", &labels).unwrap();
        // Three points about a corner of grid A, one of them far off, and one on a shared mode.
        let items = [-2.0, -2.0, -2.1, -2.0, -2.0, -1.7, 0.0, 0.0];
        let found = fit_points(&points(&items), &query);
        assert_eq!(found.accuracy, 0.75);
        assert!((found.high_quality - 2.0 / 3.0).abs() < 1e-12);
    }
}
