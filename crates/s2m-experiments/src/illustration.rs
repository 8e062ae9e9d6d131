//! The one-dimensional example: the overlap of two classes, against its exact density.
//!
//! Total variation is taken on bins of width 0.1; a perfect sampler of the same size has the expected
//! distance that stands beside it.
//!
//! Reference: figure 2 of "Mining Multi-Label Samples from Single Positive Labels", 2022.

use std::num::NonZeroUsize;

use s2m::samplers::SamplerChoice;
use s2m::settings::DEFAULT_TV;
use s2m_core::labels::LabelSet;
use s2m_data::illustration::density;
use s2m_fit::trainer::Kind;
use s2m_metrics::total_variation::{expected_floor, total_variation};
use s2m_runs::folder::GENERATOR;
use s2m_show::picture::{Canvas, Drawing, Panel, scatter};
use serde::{Deserialize, Serialize};

use super::evaluation::{Drawn, Evaluator, Finding, Sampled, Way};
use super::line::Line;
use super::results::Table;
use super::stages::{Run, Stage};
use super::{Bench, Findings, stage};
use crate::Error;

/// Name of the data in the run files.
const DATA: &str = "illustration";

/// Both labels at once.
const QUERY: &str = "A + B";
const OVERLAP: u64 = 0b11;

/// Steps of a chain; the paper gives none for this figure, so this is its number for pictures.
const STEPS: NonZeroUsize = NonZeroUsize::new(100).expect("100 is not zero");

/// Bins of width 0.1 on this range; what lies outside has a bin at each end.
const RANGE: [f64; 2] = [-5.0, 5.0];
const BINS: usize = 100;

/// Pieces of a bin over which the density is integrated by Simpson's rule.
const PIECES: usize = 10;

const STAGES: [Stage; 4] = [
    Stage {
        name: "gan",
        kind: Kind::Gan,
        template: include_str!("../../../experiments/illustration/gan.toml"),
    },
    Stage {
        name: "conditional",
        kind: Kind::Gan,
        template: include_str!("../../../experiments/illustration/conditional.toml"),
    },
    Stage {
        name: "cp-gan",
        kind: Kind::Gan,
        template: include_str!("../../../experiments/illustration/cp-gan.toml"),
    },
    Stage {
        name: "classifier",
        kind: Kind::Classifier,
        template: include_str!("../../../experiments/illustration/classifier.toml"),
    },
];

/// A line's model.
#[derive(Debug, Clone, Copy)]
enum Method {
    /// A generator's file in a stage.
    Alone(&'static str, &'static str),
    Sampled(SamplerChoice),
}

const GAN: Method = Method::Alone("gan", GENERATOR);
const CONDITIONAL: Method = Method::Alone("conditional", "generator-overlap.toml");
const CP_GAN: Method = Method::Alone("cp-gan", "generator-overlap.toml");
const REJECT: Method = Method::Sampled(SamplerChoice::Reject { tv: DEFAULT_TV });
const MH: Method = Method::Sampled(SamplerChoice::Mh { steps: STEPS });

const METHODS: [(&str, Method); 5] = [
    ("GAN alone", GAN),
    ("conditional GAN, code (0.5, 0.5)", CONDITIONAL),
    ("CP-GAN, code (0.5, 0.5)", CP_GAN),
    ("GAN + S2M, mh, K = 100", MH),
    ("GAN + S2M, reject, TV 0.01", REJECT),
];

/// What is measured of one draw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Figures {
    tv: f64,
    mean: f64,
    sd: f64,
    sampled: Sampled,
}

pub(super) fn run(bench: &Bench<'_>) -> Result<Findings, Error> {
    let seeds = bench.seeds(&STAGES[0])?;
    let runs = bench.finish(&STAGES)?;
    let evaluator = bench.evaluator(STEPS);
    let columns = [
        "method",
        "TV from the exact overlap",
        "mean",
        "std. dev.",
        "calls per sample",
        "TV bound",
        "seeds",
    ];
    let mut table = Table::new("Overlap of two classes in one dimension", &columns);
    let mut missing = Vec::new();
    for (name, method) in METHODS {
        let line = Line::measure(name, &seeds, |seed| {
            measure(&evaluator, &runs, method, seed)
        })?;
        missing.extend(line.missing());
        table.rows.push(row(&line));
    }
    table.rows.push(perfect(bench.request.samples.get())?);
    table.notes.push(format!(
        "TV on {BINS} bins from {} to {}. The last line is what a perfect sampler of the same number of samples is expected to show.",
        RANGE[0], RANGE[1]
    ));
    let picture = picture(&evaluator, &runs, &seeds)?;
    Ok(Findings {
        title: "One-dimensional illustration (figure 2)",
        preface: vec![
            "Two classes with one common mode; each method is to draw from the overlap. The paper shows a picture and gives no figures.".to_owned(),
        ],
        seeds,
        runs,
        tables: vec![table],
        missing,
        pictures: picture.into_iter().map(|canvas| ("illustration.png", canvas)).collect(),
    })
}

fn overlap(x: f64) -> f64 {
    density(x, LabelSet::from_bits(OVERLAP)).expect("the overlap is one of the joint classes")
}

/// Exact probabilities of all bins, from the left end to the right.
fn probabilities() -> Vec<f64> {
    let width = (RANGE[1] - RANGE[0]) / BINS as f64;
    let step = width / PIECES as f64;
    let simpson = |left: f64| {
        step / 6.0 * (overlap(left) + 4.0 * overlap(left + step / 2.0) + overlap(left + step))
    };
    let bin = |index: usize| {
        let left = RANGE[0] + index as f64 * width;
        (0..PIECES)
            .map(|piece| simpson(left + piece as f64 * step))
            .sum()
    };
    let inside: Vec<f64> = (0..BINS).map(bin).collect();
    // The overlap is symmetric about zero.
    let end = ((1.0 - inside.iter().sum::<f64>()) / 2.0).max(0.0);
    [vec![end], inside, vec![end]].concat()
}

/// How many items fall into each of those bins.
fn counts(items: &[f32]) -> Vec<u64> {
    let mut counts = vec![0; BINS + 2];
    for &item in items {
        let place = (f64::from(item) - RANGE[0]) / (RANGE[1] - RANGE[0]) * BINS as f64;
        // Below the range is bin 0, above it the last one.
        let bin = (place.floor() + 1.0).clamp(0.0, (BINS + 1) as f64);
        counts[bin as usize] += 1;
    }
    counts
}

/// The model behind a line, where it is trained.
fn drawn(runs: &[Run], method: Method, seed: u64) -> Result<Option<Drawn<'static>>, Error> {
    match method {
        Method::Alone(name, file) => {
            let file = stage(runs, name).and_then(|run| run.generator(DATA, seed, file));
            file.map(|file| Drawn::alone(&file)).transpose()
        }
        Method::Sampled(sampler) => {
            let folder = stage(runs, "classifier").and_then(|run| run.bundle(DATA, seed));
            let way = Way {
                sampler,
                ..Way::of(QUERY)
            };
            folder.map(|folder| Drawn::query(folder, way)).transpose()
        }
    }
}

fn measure(
    evaluator: &Evaluator<'_>,
    runs: &[Run],
    method: Method,
    seed: u64,
) -> Result<Option<Finding<Figures>>, Error> {
    let Some(drawn) = drawn(runs, method, seed)? else {
        return Ok(None);
    };
    let name = format!("{DATA}-seed-{seed}");
    let finding = evaluator.measure(&name, &[], &drawn, |sampled, items| {
        let n = items.len() as f64;
        let mean = items.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        let squares: f64 = items.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum();
        Ok(Figures {
            tv: total_variation(&counts(items), &probabilities())?,
            mean,
            sd: (squares / (n - 1.0)).sqrt(),
            sampled,
        })
    });
    finding.map(Some)
}

fn row(line: &Line<Figures>) -> Vec<String> {
    vec![
        line.name.clone(),
        line.cell(4, |f| Some(f.tv)),
        line.cell(3, |f| Some(f.mean)),
        line.cell(3, |f| Some(f.sd)),
        line.cell(1, |f| Some(f.sampled.calls_per_sample)),
        line.cell(4, |f| f.sampled.tv_bound),
        line.seeds(),
    ]
}

fn perfect(samples: usize) -> Result<Vec<String>, Error> {
    let floor = expected_floor(&probabilities(), samples)?;
    let sd = s2m_data::illustration::MODE_SD;
    let cells = [
        "perfect sampler",
        &format!("{floor:.4}"),
        "0.000",
        &format!("{sd:.3}"),
    ];
    let rest = ["-"; 3].map(str::to_owned);
    Ok(cells.map(str::to_owned).into_iter().chain(rest).collect())
}

/// Histograms with the exact curve, of the first seed that is there.
fn picture(
    evaluator: &Evaluator<'_>,
    runs: &[Run],
    seeds: &[u64],
) -> Result<Option<Canvas>, Error> {
    let shown = [
        ("GAN alone", GAN, [150, 60, 50]),
        ("conditional GAN", CONDITIONAL, [150, 105, 30]),
        ("CP-GAN", CP_GAN, [120, 120, 128]),
        ("GAN + S2M", REJECT, [31, 95, 170]),
    ];
    let curve: Vec<[f32; 2]> = (-300..=300)
        .map(|i| f64::from(i) / 60.0)
        .map(|x| [x as f32, overlap(x) as f32])
        .collect();
    for &seed in seeds {
        let mut panels = Vec::new();
        for (title, method, colour) in shown {
            let Some(drawn) = drawn(runs, method, seed)? else {
                continue;
            };
            let Some(Finding::Measured(figures)) = measure(evaluator, runs, method, seed)? else {
                continue;
            };
            let sampled = &figures.sampled;
            let items = evaluator.render(&drawn, sampled, sampled.numbers.len())?;
            panels.push(Panel {
                title: title.to_owned(),
                caption: format!("TV {:.3} from the exact overlap (line)", figures.tv),
                points: items.iter().map(|&x| [x, 0.0]).collect(),
                curve: curve.clone(),
                colour,
                drawing: Drawing::Bars,
                ..Panel::default()
            });
        }
        if !panels.is_empty() {
            let heading = format!("The overlap of two classes, seed {seed}");
            return Ok(Some(scatter(&panels, 2, &heading)));
        }
    }
    Ok(None)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const ALL: &[Stage] = &STAGES;

    /// Exact values of the normal distribution: within one and two standard deviations (of 0.5).
    #[test]
    fn bin_probabilities_are_those_of_the_normal_distribution() {
        let p = probabilities();
        assert_eq!(p.len(), BINS + 2);
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let within = |bins: usize| p[1 + 50 - bins..1 + 50 + bins].iter().sum::<f64>();
        assert!((within(5) - 0.682_689_492_137_086).abs() < 1e-9);
        assert!((within(10) - 0.954_499_736_103_642).abs() < 1e-9);
    }

    #[test]
    fn every_item_has_one_bin() {
        let items = [-1e30, -5.001, -5.0, -4.95, 0.0, 4.95, 5.0, f32::INFINITY];
        let found = counts(&items);
        assert_eq!(found.iter().sum::<u64>(), 8);
        assert_eq!((found[0], found[1], found[51], found[BINS]), (2, 2, 1, 1));
        assert_eq!(found[BINS + 1], 2);
    }

    #[test]
    fn names_of_methods_state_their_settings() {
        for (name, method) in METHODS {
            match method {
                Method::Sampled(SamplerChoice::Mh { steps }) => {
                    assert!(name.ends_with(&format!("K = {steps}")));
                }
                Method::Sampled(SamplerChoice::Reject { tv }) => {
                    assert!(name.ends_with(&format!("TV {tv}")));
                }
                _ => {}
            }
        }
    }
}
