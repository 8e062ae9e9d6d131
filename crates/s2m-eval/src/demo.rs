//! `s2m demo`: the main job on bundles whose truth is known, beside the paper's figures.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use s2m::output::write_whole;
use s2m::progress::Progress;
use s2m::samplers::SamplerChoice;
use s2m::session::Machine;
use s2m::settings::DEFAULT_TV;
use s2m::{Draw, Model};
use s2m_show::picture::{Canvas, Panel, scatter};
use serde::Serialize;

use crate::Error;
use crate::gaussians;

/// A model that is shown.
struct Shown {
    model: &'static str,
    samplers: &'static [SamplerChoice],
    picture: &'static str,
    heading: &'static str,
}

const MH: SamplerChoice = SamplerChoice::Mh {
    steps: gaussians::PAPER_STEPS,
};
const REJECT: SamplerChoice = SamplerChoice::Reject { tv: DEFAULT_TV };

/// Models shown. The trained one leaves out `mh`, whose millions of calls take minutes there;
/// `s2m reproduce gaussians` has them.
const MODELS: &[Shown] = &[
    Shown {
        model: "gaussians-exact",
        samplers: &[MH, REJECT],
        picture: "demo.png",
        heading: "One generator, six queries: s2m on the 2x16 Gaussians",
    },
    Shown {
        model: "gaussians",
        samplers: &[REJECT],
        picture: "demo-trained.png",
        heading: "The same by trained networks",
    },
];

/// A query beside those of the paper's table, which has no figures for it.
const BESIDE_THE_PAPER: &str = "A | B";

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The model.
    pub model: &'static str,
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

/// The table and the pictures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Demo {
    /// Models used.
    pub models: Vec<&'static str>,
    /// Samples per line.
    pub samples: usize,
    /// The lines.
    pub rows: Vec<Row>,
    /// What perfect samples would show: accuracy and high quality in %, standard deviation.
    pub ceiling: [f64; 3],
    /// One picture per model.
    pub pictures: Vec<PathBuf>,
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
    /// Folder for the pictures.
    pub out: &'a Path,
}

/// Runs the demonstration.
pub fn demo(request: &Request<'_>, progress: &dyn Progress) -> Result<Demo, Error> {
    std::fs::create_dir_all(request.out).map_err(Error::write(request.out))?;
    let (mut rows, mut pictures) = (Vec::new(), Vec::new());
    for shown in MODELS {
        let (lines, canvas) = show(shown, request, progress)?;
        let picture = request.out.join(shown.picture);
        write_whole(&picture, &canvas.to_png()?)?;
        rows.extend(lines);
        pictures.push(picture);
    }
    let demo = Demo {
        models: MODELS.iter().map(|shown| shown.model).collect(),
        samples: request.samples.get(),
        rows,
        ceiling: gaussians::ceiling(),
        pictures,
    };
    let json = serde_json::to_string_pretty(&demo).expect("a table has only plain fields");
    write_whole(&request.out.join("demo.json"), json.as_bytes())?;
    Ok(demo)
}

/// The lines and the picture of one model.
fn show(
    shown: &Shown,
    request: &Request<'_>,
    progress: &dyn Progress,
) -> Result<(Vec<Row>, Canvas), Error> {
    let name = shown.model;
    let model = Model::open(name)?.with_machine(&request.machine);
    let mut scored = model.scored(request.seed)?;
    let n = request.samples.get();
    let alone = gaussians::points(&scored.generated(n, progress)?.to_floats());
    let mut panels = vec![panel(
        "generator alone",
        alone.clone(),
        [150, 60, 50],
        "bridges between modes".to_owned(),
    )];
    let published = gaussians::PAPER.map(|(text, paper)| (text, Some(paper)));
    let mut rows = Vec::new();
    for (text, paper) in published.into_iter().chain([(BESIDE_THE_PAPER, None)]) {
        let ask = model.query(text)?.max_calls(usize::MAX);
        let line = |sampler, points: &[[f32; 2]], calls, tv_bound, paper: Option<[[f64; 2]; 3]>| {
            let fit = gaussians::fit_points(points, ask.query());
            Row {
                model: name,
                query: text.to_owned(),
                sampler,
                accuracy: 100.0 * fit.accuracy,
                high_quality: 100.0 * fit.high_quality,
                spread: fit.spread,
                calls_per_sample: calls,
                tv_bound,
                paper: paper.map(|figures| figures.map(|[mean, _]| mean)),
            }
        };
        let paper_alone = paper.map(|p| p.generator);
        rows.push(line("generator", &alone, 1.0, None, paper_alone));
        for &choice in shown.samplers {
            let ask = ask.clone().sampler(choice);
            let Draw { samples, report } = ask.draw_from(&mut scored, n, progress)?;
            let (points, calls) = (
                gaussians::points(&samples.items.to_floats()),
                report.calls_per_sample,
            );
            let paper = paper.map(|p| p.sampled);
            let row = line(choice.name(), &points, calls, report.tv_bound, paper);
            if choice.name() == "reject" {
                let caption = format!("{:.1} % right, {calls:.1} calls per sample", row.accuracy);
                panels.push(panel(text, points, [31, 95, 170], caption));
            }
            rows.push(row);
        }
    }
    Ok((rows, scatter(&panels, 4, shown.heading)))
}

fn panel(title: &str, points: Vec<[f32; 2]>, colour: [u8; 3], caption: String) -> Panel {
    Panel {
        title: title.to_owned(),
        caption,
        points,
        marks: gaussians::centres(),
        colour,
        ..Panel::default()
    }
}
