//! `s2m demo`: the main job on a bundle whose truth is known, beside the paper's figures.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use s2m_core::query::Query;
use s2m_core::samplers::Goal;
use s2m_model::networks::{Renderer, Requested};
use serde::Serialize;

use crate::draw::draw;
use crate::error::Error;
use crate::grids::{Fit, fit, modes};
use crate::models;
use crate::output::write_whole;
use crate::picture::{Panel, scatter};
use crate::progress::Progress;
use crate::samplers::SamplerChoice;
use crate::session::{Machine, Session};
use crate::settings::{DEFAULT_TV, SampleSettings};

/// Steps of the paper's chains on this data.
const PAPER_STEPS: usize = 400;

/// The queries shown, each with the paper's row for it.
const QUERIES: [(&str, Option<PaperRow>); 6] = [
    ("A", Some(PAPER_SINGLE)),
    ("B", Some(PAPER_SINGLE)),
    ("A + B", Some(PAPER_BOTH)),
    ("A - B", Some(PAPER_DIFFERENCE)),
    ("B - A", Some(PAPER_DIFFERENCE)),
    ("A | B", None),
];

/// Means of the paper's table for the 2×16 Gaussians (appendix E.1).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PaperRow {
    /// GAN alone: accuracy in %, high quality in %, standard deviation.
    pub generator: [f64; 3],
    /// GAN with S2M sampling.
    pub sampled: [f64; 3],
}

const PAPER_SINGLE: PaperRow = PaperRow {
    generator: [69.83, 84.39, 0.106],
    sampled: [100.0, 98.94, 0.052],
};
const PAPER_DIFFERENCE: PaperRow = PaperRow {
    generator: [30.17, 88.87, 0.090],
    sampled: [99.52, 98.67, 0.051],
};
const PAPER_BOTH: PaperRow = PaperRow {
    generator: [39.66, 80.98, 0.118],
    sampled: [100.0, 99.73, 0.050],
};

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The query.
    pub query: String,
    /// Generator alone, `mh` or `reject`.
    pub sampler: &'static str,
    /// Points whose nearest mode satisfies the query, in %.
    pub accuracy: f64,
    /// Points within four standard deviations of a mode, in %.
    pub high_quality: f64,
    /// Standard deviation about the modes.
    pub spread: f64,
    /// Generator calls per sample.
    pub calls_per_sample: f64,
    /// Stated bound on the distance from the target.
    pub tv_bound: Option<f64>,
    /// The paper's figures in the same order, where it has them.
    pub paper: Option<[f64; 3]>,
}

/// The table and the picture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Demo {
    /// Model used.
    pub model: &'static str,
    /// Samples per line.
    pub samples: usize,
    /// The lines.
    pub rows: Vec<Row>,
    /// What perfect samples would show: accuracy and high quality in %, standard deviation.
    pub ceiling: [f64; 3],
    /// The picture.
    pub picture: PathBuf,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Samples per line.
    pub samples: NonZeroUsize,
    /// Seed of the proposals.
    pub seed: u64,
    /// What to draw with.
    pub machine: Machine<'a>,
    /// Folder for the picture.
    pub out: &'a Path,
}

/// Runs the demonstration.
pub fn demo(request: &Request<'_>, progress: &dyn Progress) -> Result<Demo, Error> {
    let model = "gaussians-exact";
    let bundle = models::open(Path::new(model))?;
    let settings = SampleSettings {
        seed: Some(request.seed),
        ..SampleSettings::default()
    };
    let session = Session::open(&bundle, &request.machine, &settings, None)?;
    std::fs::create_dir_all(request.out).map_err(Error::write(request.out))?;
    let renderer = Renderer::open(&bundle, &session.runtime, &session.run)?;
    let mut pool = session.shared_pool(None)?;
    let render = |numbers: &[u64]| -> Result<Vec<[f32; 2]>, Error> {
        let proposals = s2m_core::proposals::Proposals::new(session.seed);
        let items = renderer.render(Requested {
            proposals,
            numbers,
            classes: &[],
        })?;
        Ok(items.chunks_exact(2).map(|p| [p[0], p[1]]).collect())
    };
    let n = request.samples.get();
    let alone = render(&(0..n as u64).collect::<Vec<_>>())?;
    let mut panels = vec![panel(
        "generator alone",
        alone.clone(),
        [150, 60, 50],
        "bridges between modes".to_owned(),
    )];
    let steps = NonZeroUsize::new(PAPER_STEPS).expect("400 is not zero");
    let choices = [
        SamplerChoice::Mh { steps },
        SamplerChoice::Reject { tv: DEFAULT_TV },
    ];
    let goal = Goal {
        samples: request.samples,
        max_calls: usize::MAX,
    };
    let mut rows = Vec::new();
    for (text, paper) in QUERIES {
        let query = Query::parse(text, bundle.labels())?;
        let measured = fit(&alone, &query);
        rows.push(row(
            text,
            "generator",
            measured,
            1.0,
            None,
            paper.map(|p| p.generator),
        ));
        for choice in choices {
            let mut target = session.plan_shared(&query, &mut pool, progress)?;
            let drawn = draw(&mut pool, &mut target, choice, goal, progress)?;
            let calls = drawn.log_weights.len() as f64 / n as f64;
            let kept = drawn
                .outcome
                .map_err(|failure| Error::Setting(format!("`{text}`: {failure}")))?;
            let numbers: Vec<u64> = kept
                .kept
                .iter()
                .map(|&p| target.sequence.number(p))
                .collect();
            let points = render(&numbers)?;
            let measured = fit(&points, &query);
            rows.push(row(
                text,
                choice.name(),
                measured,
                calls,
                kept.error.tv_bound,
                paper.map(|p| p.sampled),
            ));
            if choice.name() == "reject" {
                let caption = format!(
                    "{:.1} % right, {calls:.1} calls per sample",
                    100.0 * measured.accuracy
                );
                panels.push(panel(text, points, [31, 95, 170], caption));
            }
        }
    }
    let heading = "One generator, six queries: s2m on the 2x16 Gaussians";
    let picture = request.out.join("demo.png");
    write_whole(&picture, &scatter(&panels, 4, heading).to_png()?)?;
    // Within four standard deviations in two dimensions: 1 − exp(−4²/2).
    let ceiling = [
        100.0,
        100.0 * (1.0 - (-8.0_f64).exp()),
        crate::grids::MODE_SD,
    ];
    let demo = Demo {
        model,
        samples: n,
        rows,
        ceiling,
        picture,
    };
    let json = serde_json::to_string_pretty(&demo).expect("a table has only plain fields");
    write_whole(&request.out.join("demo.json"), json.as_bytes())?;
    Ok(demo)
}

fn panel(title: &str, points: Vec<[f32; 2]>, colour: [u8; 3], caption: String) -> Panel {
    let marks = modes()
        .iter()
        .map(|m| [m.centre[0] as f32, m.centre[1] as f32])
        .collect();
    Panel {
        title: title.to_owned(),
        caption,
        points,
        marks,
        colour,
        ..Panel::default()
    }
}

fn row(
    query: &str,
    sampler: &'static str,
    fit: Fit,
    calls_per_sample: f64,
    tv_bound: Option<f64>,
    paper: Option<[f64; 3]>,
) -> Row {
    Row {
        query: query.to_owned(),
        sampler,
        accuracy: 100.0 * fit.accuracy,
        high_quality: 100.0 * fit.high_quality,
        spread: fit.spread,
        calls_per_sample,
        tv_bound,
        paper,
    }
}
