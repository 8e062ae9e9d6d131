//! Targets in separate parts: what is found, what it costs, and whether bounds say what is lost.

use s2m::adapt::AdaptChoice;
use s2m::samplers::SamplerChoice;
use s2m::settings::DEFAULT_TV;
use s2m_model::bundle;

use crate::Error;
use crate::evaluation::Evaluator;
use crate::line::Line;
use crate::rare_toys::parts::PartsToy;
use crate::rare_toys::{PartsFigures, PartsWay, has_parts, measure_parts};
use crate::results::Table;

/// Runs of each target, and the first of their seeds: lower ones were looked at while adaptation was built.
const RUNS: u64 = 20;

/// The same of `once` and `repeat`, whose pilots alone take up to a million calls.
const PILOT_RUNS: u64 = 6;
const FIRST_SEED: u64 = 300;

/// Steps of the paper's chains.
const STEPS: std::num::NonZeroUsize = std::num::NonZeroUsize::new(100).expect("100 is not zero");

fn targets() -> Vec<PartsToy> {
    vec![
        PartsToy::new(64, 1e-3, &[0.7, 0.25, 0.05]),
        PartsToy::new(2, 1e-3, &[0.7, 0.25, 0.05]),
        PartsToy::new(16, 1e-3, &[0.7, 0.25, 0.05]),
        PartsToy::new(64, 1e-3, &[0.68, 0.3, 0.02]),
        PartsToy::new(64, 1e-3, &[0.6, 0.3, 0.1]),
        PartsToy::new(64, 1e-4, &[0.7, 0.25, 0.05]),
        PartsToy::new(256, 1e-3, &[0.7, 0.25, 0.05]),
    ]
}

/// Every other sampler and way to adapt, by name.
fn others() -> Vec<(&'static str, PartsWay)> {
    let reject = SamplerChoice::Reject { tv: DEFAULT_TV };
    let chains = SamplerChoice::MhAuto { tv: DEFAULT_TV };
    let fixed = SamplerChoice::Mh { steps: STEPS };
    let resample = SamplerChoice::Resample { unique: false };
    let way = |adapt, sampler| PartsWay { adapt, sampler };
    vec![
        (
            "`adaptive`, `mh`, 100 steps",
            way(AdaptChoice::adaptive(), fixed),
        ),
        (
            "`adaptive`, `mh`, automatic",
            way(AdaptChoice::adaptive(), chains),
        ),
        (
            "`adaptive`, `resample`",
            way(AdaptChoice::adaptive(), resample),
        ),
        ("`once`, `reject`", way(AdaptChoice::once(), reject)),
        ("`once`, `mh`, automatic", way(AdaptChoice::once(), chains)),
        ("`once`, `resample`", way(AdaptChoice::once(), resample)),
        ("`repeat`, `reject`", way(AdaptChoice::repeat(), reject)),
        (
            "`repeat`, `mh`, automatic",
            way(AdaptChoice::repeat(), chains),
        ),
        ("`repeat`, `resample`", way(AdaptChoice::repeat(), resample)),
    ]
}

/// The runs of one line; those that are not there already only where they are to be made.
fn measure(
    evaluator: &Evaluator<'_>,
    make: bool,
    name: &str,
    toy: &PartsToy,
    way: &PartsWay,
) -> Result<Line<PartsFigures>, Error> {
    let runs = match way.adapt {
        AdaptChoice::Once { .. } | AdaptChoice::Repeat { .. } => PILOT_RUNS,
        _ => RUNS,
    };
    let seeds = FIRST_SEED..FIRST_SEED + runs;
    let seeds = seeds.filter(|seed| make || has_parts(evaluator, toy, way, *seed));
    let seeds: Vec<u64> = seeds.collect();
    Line::measure(name, &seeds, |seed| {
        measure_parts(evaluator, toy, way, seed).map(Some)
    })
}

fn count(line: &Line<PartsFigures>, of: impl Fn(&PartsFigures) -> bool) -> String {
    line.measured().filter(|(_, f)| of(f)).count().to_string()
}

fn missed(figures: &PartsFigures) -> bool {
    let stated = figures.tv_bound.zip(figures.distance);
    stated.is_some_and(|(bound, distance)| distance > bound)
}

/// How `adaptive` ended, for what was found before it was mended: some of all runs each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Outcomes {
    /// Runs in 64 dimensions, with parts of 70, 25 and 5 %, that lost a part or gave up.
    pub(super) reject: (usize, usize),
    /// The same with `mh` and `resample`, at a share of 0.1 % alone.
    pub(super) mh: (usize, usize),
    pub(super) resample: (usize, usize),
    /// Bounds below what is lost, of those of all runs that lost a part.
    pub(super) silent: (usize, usize),
}

impl Outcomes {
    fn add(&mut self, line: &Line<PartsFigures>, of: fn(&mut Self) -> Option<&mut (usize, usize)>) {
        let lost = |figures: &PartsFigures| figures.found < figures.parts;
        let gave_up = line.runs() - line.measured().count();
        if let Some((some, all)) = of(self) {
            *some += gave_up + line.measured().filter(|(_, f)| lost(f)).count();
            *all += line.runs();
        }
        for (_, figures) in line.measured().filter(|(_, f)| lost(f)) {
            self.silent.0 +=
                usize::from(figures.tv_bound.is_some() && figures.tv_bound < figures.short);
            self.silent.1 += usize::from(figures.tv_bound.is_some());
        }
    }
}

/// What `adaptive` and `reject` make of every target, and every other way of the first.
pub(super) fn tables(
    evaluator: &Evaluator<'_>,
    make: bool,
    missing: &mut Vec<String>,
) -> Result<(Outcomes, [Table; 2]), Error> {
    let mut outcomes = Outcomes::default();
    let toy = targets().remove(0);
    let mut table = Table::new(
        &format!("Other samplers and ways to adapt on {}", toy.name()),
        &[
            "way, sampler",
            "runs",
            "all parts found",
            "calls per sample",
            "parts short by",
            "may be missing, as stated",
            "bound stated",
            "bound",
            "true TV at most",
            "bound missed",
            "a part lost, with a bound below it",
        ],
    );
    for (name, way) in others() {
        let line = measure(evaluator, make, name, &toy, &way)?;
        missing.extend(line.missing());
        outcomes.add(
            &line,
            match (way.adapt.name(), way.sampler.name()) {
                ("adaptive", "mh") => |outcomes| Some(&mut outcomes.mh),
                ("adaptive", _) => |outcomes| Some(&mut outcomes.resample),
                _ => |_| None,
            },
        );
        table.rows.push(vec![
            line.name.clone(),
            line.measured().count().to_string(),
            count(&line, |f| f.found == f.parts),
            line.cell(1, |f: &PartsFigures| Some(f.calls_per_sample)),
            line.cell(4, |f| f.short),
            line.cell(4, |f| f.may_be_missing),
            count(&line, |f| f.tv_bound.is_some()),
            line.cell(4, |f| f.tv_bound),
            line.cell(4, |f| f.distance),
            count(&line, missed),
            count(&line, |f| {
                f.found < f.parts && f.tv_bound.is_some() && f.tv_bound < f.short
            }),
        ]);
    }
    let mut usual = Table::new(
        "Targets in separate parts, `--adapt adaptive`, `reject`, 5000 samples",
        &[
            "dimensions, share, parts",
            "runs",
            "all parts found",
            "calls per sample",
            "(without adaptation)",
            "bound stated",
            "bound",
            "true TV",
            "bound missed",
        ],
    );
    for toy in targets() {
        // Kept as a bundle, so that any other version of the program can be held against it.
        let folder = evaluator.work.join("toys").join(toy.file_name());
        if !folder.exists() {
            bundle::write(&folder, &toy.files()?)?;
        }
        let line = measure(evaluator, make, &toy.name(), &toy, &PartsWay::default())?;
        missing.extend(line.missing());
        outcomes.add(
            &line,
            if toy.size == 64 && toy.masses == [0.7, 0.25, 0.05] {
                |outcomes| Some(&mut outcomes.reject)
            } else {
                |_| None
            },
        );
        usual.rows.push(vec![
            line.name.clone(),
            line.measured().count().to_string(),
            count(&line, |f| f.found == f.parts),
            line.cell(1, |f: &PartsFigures| Some(f.calls_per_sample)),
            format!("{:.0}", toy.plain_cost()),
            count(&line, |f| f.tv_bound.is_some()),
            line.cell(4, |f| f.tv_bound),
            line.cell(4, |f| f.distance),
            count(&line, missed),
        ]);
    }
    Ok((outcomes, [usual, table]))
}
