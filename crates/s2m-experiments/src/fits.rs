//! Rows of `s2m fit`: classifiers for a generator that is there already, and every joint class drawn from them.
//!
//! A row is one fit and one seed. It is kept in a small file of its own under `rows`, so that rows can be made
//! apart and on different days; what is missing is named as missing. A referee judges every proposal of a bank
//! once; what is drawn out of that bank is then known to be right or wrong.

mod court;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use s2m::models;
use s2m::output::write_whole;
use s2m_data::recipe::DataRecipe;
use s2m_fit::{Joint, Network, Training};
use s2m_model::manifest::PosteriorName;
use s2m_model::probe::Said;
use s2m_runs::folder;
use s2m_show::picture::{Canvas, Chart, Curve, charts};
use serde::{Deserialize, Serialize};

use super::Bench;
use super::evaluation::{Evaluator, Finding};
use super::line::Line;
use super::results::Table;
use super::stages;
use crate::Error;

pub(super) use self::court::Court;

const SEEDS: [u64; 3] = [0, 1, 2];

/// Proposals in a bank, per sample, and so the most calls that a sample may take.
pub(super) const BANK: NonZeroUsize = NonZeroUsize::new(400).expect("400 is not zero");

/// A temperature of the discriminator at which it says nothing.
pub(super) const SILENT: f64 = 1e6;

/// Floors of the tables; none for the bundle's own.
pub(super) const FLOORS: [Option<f64>; 10] = [
    Some(0.0),
    Some(0.5),
    Some(0.7),
    Some(0.8),
    Some(0.85),
    Some(0.9),
    Some(0.95),
    Some(0.97),
    Some(0.99),
    None,
];

/// Where a generator comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A file in the folder of data; `{seed}` stands for the seed where there is one for each.
    File(&'static str),
    /// The generator of an embedded bundle.
    Embedded(&'static str),
    /// The generator that a stage has trained for the seed of the row.
    Stage(&'static str),
    /// A file in the folder of the experiment's networks, for all seeds.
    Network(&'static str),
}

/// What is fitted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fit {
    pub(super) title: &'static str,
    /// Name of the row and of its files.
    pub(super) name: &'static str,
    pub(super) generator: Source,
    /// What is trained; by the items where left out.
    pub(super) network: Option<Network>,
    /// Passes of every training, and rounds of students; as `s2m fit` chooses where left out.
    pub(super) epochs: Option<u64>,
    pub(super) rounds: Option<u64>,
    /// What it is shown.
    joint: Joint,
    /// The discriminator variant, where only one is looked at.
    pub(super) way: Option<s2m_fit::Way>,
    /// The row whose trainings it rests on, where it has none of its own.
    pub(super) trained_by: Option<&'static str>,
}

impl Fit {
    /// Label sets learnt from single labels, the discriminator in the way that `s2m fit` chooses.
    pub(super) const fn learnt(
        name: &'static str,
        title: &'static str,
        generator: Source,
        network: Option<Network>,
    ) -> Self {
        Self {
            title,
            name,
            generator,
            network,
            epochs: None,
            rounds: None,
            joint: Joint::Learnt,
            way: None,
            trained_by: None,
        }
    }

    /// The same, in one way.
    pub(super) const fn in_way(
        mut self,
        name: &'static str,
        title: &'static str,
        way: s2m_fit::Way,
    ) -> Self {
        self.trained_by = Some(self.name);
        self.name = name;
        self.title = title;
        self.way = Some(way);
        self
    }

    /// The same as a ceiling: shown every item's label set.
    pub(super) const fn ceiling(mut self, name: &'static str, title: &'static str) -> Self {
        self.name = name;
        self.title = title;
        self.joint = Joint::Supervised;
        self.way = Some(s2m_fit::Way::Frozen);
        self
    }

    /// Posteriors to draw by, and how much say the discriminator has.
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
        match self.joint {
            Joint::Supervised => CEILING,
            Joint::Learnt | Joint::Left => LEARNT,
        }
    }
}

/// A posterior, and what share of the log odds of the discriminator counts.
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
        let posterior = self.posterior.name();
        match self.say {
            1.0 => posterior.to_owned(),
            0.0 => format!("{posterior}, no D_v"),
            say => format!("{posterior}, {say} of D_v"),
        }
    }

    /// The temperature of the discriminator in the place of a bundle's own.
    fn real_temperature(self, own: f64) -> Option<f64> {
        match self.say {
            1.0 => None,
            0.0 => Some(SILENT),
            say => Some(own / say),
        }
    }
}

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
        let mean = |of: fn(&Figures) -> f64| found.iter().map(of).sum::<f64>() / found.len() as f64;
        (!found.is_empty()).then(|| Figures {
            accuracy: mean(|f| f.accuracy),
            predicted: mean(|f| f.predicted),
            plain: mean(|f| f.plain),
            calls: mean(|f| f.calls),
        })
    }
}

/// Whether the data has a joint class, as calibration says it and as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Presence {
    verdict: String,
    /// Held-out items that reach its floor.
    reached: usize,
    exists: bool,
}

/// One fit and seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    /// What calibration says about each joint class: whether the data has it.
    presence: BTreeMap<String, Presence>,
    measured: Vec<Measured>,
}

/// Everything that rows of fits rest on.
pub(super) struct Subject<'a> {
    /// The data that is fitted to.
    pub(super) recipe: DataRecipe,
    pub(super) fits: &'a [Fit],
    /// Who judges; none where there is no referee yet.
    pub(super) court: Option<Court>,
}

/// Rows as tables.
pub(super) struct Rows {
    pub(super) seeds: Vec<u64>,
    pub(super) tables: Vec<Table>,
    pub(super) missing: Vec<String>,
    /// How far predictions of label sets are off.
    pub(super) prediction: Option<Canvas>,
}

/// The seeds that are asked for.
pub(super) fn seeds(bench: &Bench<'_>) -> Vec<u64> {
    let asked = bench.request.seeds;
    let of = |seed: &u64| asked.is_none_or(|wanted| wanted.contains(seed));
    SEEDS.into_iter().filter(of).collect()
}

/// Makes the rows that are asked for, and takes the others from what is there.
pub(super) fn rows(bench: &Bench<'_>, subject: &Subject<'_>) -> Result<Rows, Error> {
    let seeds = seeds(bench);
    let evaluator = Evaluator {
        most_calls: BANK.get(),
        ..bench.evaluator(BANK)
    };
    let mut table = means_table();
    let mut held = Table::new(
        "What the data has, as calibration says it, with held-out items that reach the floor",
        &["fit", "present", "undecided", "absent"],
    );
    let mut missing = Vec::new();
    let mut errors = Vec::new();
    let folder = bench.request.out.join("rows");
    for fit in subject.fits {
        let wanted = bench.request.rows;
        let asked = wanted.is_none_or(|rows| rows.iter().any(|row| row == fit.name));
        let mut found = Vec::new();
        for &seed in &seeds {
            let path = folder.join(format!("{}-seed-{seed}.json", fit.name));
            let made = match &subject.court {
                Some(court) if asked => fitted(bench, *fit, &subject.recipe, seed)?
                    .map(|folder| court.measure(&evaluator, *fit, folder))
                    .transpose()?,
                _ => None,
            };
            if let Some(row) = &made {
                let text = serde_json::to_string(row).expect("figures are plain");
                fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
                write_whole(&path, (text + "\n").as_bytes())?;
            }
            let row = made.or_else(|| read(&path));
            if let Some(row) = &row {
                held.rows
                    .push(row.presence(&format!("{}, seed {seed}", fit.title)));
            }
            found.push((seed, row));
        }
        add_rows(&mut table, &mut missing, *fit, &found)?;
        if fit.way.is_none() {
            errors.push((fit.title, found));
        }
    }
    Ok(Rows {
        seeds,
        tables: vec![table, held],
        missing,
        prediction: prediction(&errors),
    })
}

/// A fit, and its rows by seed.
type Found = (&'static str, Vec<(u64, Option<Row>)>);

/// Predicted less measured purity along the floors, means over seeds: with networks that had no part in selecting,
/// and with the one that selected. One chart with the discriminator's say, one without.
fn prediction(fits: &[Found]) -> Option<Canvas> {
    type Predicted = fn(&Figures) -> f64;
    let by: [(&str, Predicted); 2] = [
        ("by others", |means| means.predicted),
        ("plain", |means| means.plain),
    ];
    let chart = |say: f64| {
        let mut curves = Vec::new();
        for (title, rows) in fits {
            for (name, predicted) in by {
                let at = |floor: f64| {
                    let measured = rows.iter().filter_map(|(_, row)| row.as_ref());
                    let wanted = |m: &&Measured| {
                        m.drawing == Drawing::new(PosteriorName::Joint, say)
                            && m.floor == Some(floor)
                    };
                    let errors: Vec<f64> = measured
                        .filter_map(|row| row.measured.iter().find(wanted)?.means())
                        .map(|means| 100.0 * (predicted(&means) - means.accuracy))
                        .collect();
                    let count = errors.len() as f64;
                    (!errors.is_empty()).then(|| [floor, errors.iter().sum::<f64>() / count])
                };
                let points: Vec<[f64; 2]> = FLOORS.into_iter().flatten().filter_map(at).collect();
                if !points.is_empty() {
                    let name = format!("{title}: {name}");
                    curves.push(Curve { name, points });
                }
            }
        }
        Chart {
            title: match say {
                0.0 => "the same without D_v".to_owned(),
                _ => "predicted less right, points".to_owned(),
            },
            x: "floor".to_owned(),
            curves,
            logarithmic: [false, false],
        }
    };
    let both = [chart(1.0), chart(0.0)];
    let any = both.iter().any(|chart| !chart.curves.is_empty());
    any.then(|| charts(&both))
}

fn means_table() -> Table {
    Table::new(
        "All joint classes that the data has, means",
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
    )
}

/// What an earlier run has left of a row.
fn read(path: &Path) -> Option<Row> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

impl Row {
    /// The line of what the data has.
    fn presence(&self, name: &str) -> Vec<String> {
        let of = |verdict: &str| {
            let named = self
                .presence
                .iter()
                .filter(|(_, told)| told.verdict == verdict);
            let named = named.map(|(query, told)| {
                let truth = if told.exists {
                    ""
                } else {
                    ", which nothing has"
                };
                format!("`{query}` ({} items{truth})", told.reached)
            });
            named.collect::<Vec<_>>().join(", ")
        };
        vec![
            name.to_owned(),
            of("present"),
            of("undecided"),
            of("absent"),
        ]
    }
}

/// The rows of one fit.
fn add_rows(
    table: &mut Table,
    missing: &mut Vec<String>,
    fit: Fit,
    found: &[(u64, Option<Row>)],
) -> Result<(), Error> {
    let seeds: Vec<u64> = found.iter().map(|(seed, _)| *seed).collect();
    for drawing in fit.ways_to_draw() {
        for floor in FLOORS {
            let name = format!("{}, {}", fit.title, drawing.words());
            let line = Line::measure(&name, &seeds, |seed| {
                let own = found.iter().find(|(own, _)| *own == seed);
                let rows = own.and_then(|(_, row)| row.as_ref());
                let wanted = |row: &&Measured| row.drawing == *drawing && row.floor == floor;
                let row = rows.and_then(|row| row.measured.iter().find(wanted));
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
            // What nobody has measured yet is named below the table.
            if line.measured().next().is_none() {
                continue;
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

impl Source {
    /// The generator as a file, where it is there.
    fn file(
        self,
        work: &Path,
        data: Option<&Path>,
        (recipe, seed): (&str, u64),
    ) -> Result<Option<PathBuf>, Error> {
        match self {
            Self::File(name) => {
                let name = name.replace("{seed}", &seed.to_string());
                let path = data.map(|data| data.join(name));
                Ok(path.filter(|path| path.is_file()))
            }
            Self::Embedded(model) => {
                let files = models::files(Path::new(model))?;
                let name = &models::open(Path::new(model))?
                    .manifest()
                    .generator
                    .file
                    .clone();
                let path = work.join(format!("{model}-generator.onnx"));
                let found = files.iter().find(|(file, _)| file == name);
                if let Some((_, bytes)) = found {
                    write_whole(&path, bytes)?;
                }
                Ok(found.map(|_| path))
            }
            Self::Stage(name) => {
                let folder = work.join(stages::seeded(name, seed));
                let path = folder
                    .join(folder::replica(recipe, seed))
                    .join("generator.onnx");
                Ok(Some(path).filter(|path| path.is_file()))
            }
            Self::Network(name) => Ok(Some(work.join(name)).filter(|path| path.is_file())),
        }
    }
}

/// The bundle of a fit, made now where it is not there; none where nobody trains.
pub(super) fn fitted(
    bench: &Bench<'_>,
    fit: Fit,
    recipe: &DataRecipe,
    seed: u64,
) -> Result<Option<PathBuf>, Error> {
    let training = Training {
        network: fit.network,
        epochs: fit.epochs,
        rounds: fit.rounds,
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
    let Some(trainer) = bench.place.trainer else {
        return Ok(None);
    };
    fs::create_dir_all(folder).map_err(Error::write(folder))?;
    let of = (recipe.name.as_str(), seed);
    let Some(generator) = fit.generator.file(folder, bench.place.data, of)? else {
        return Ok(None);
    };
    let text = toml::to_string(recipe).map_err(|e| Error::Setting(e.to_string()))?;
    let recipe = folder.join(format!("{}.toml", recipe.name));
    write_whole(&recipe, text.as_bytes())?;
    let trained_by = fit.trained_by.unwrap_or(fit.name);
    let work = folder.join(format!("{trained_by}-seed-{seed}-fit"));
    let request = s2m_fit::Request {
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
    match s2m_fit::fit(&request, trainer, bench.progress)? {
        s2m_fit::Answer::Fitted(_) => Ok(Some(out)),
        s2m_fit::Answer::No => Err(Error::StageFailed { stage: "fit" }),
    }
}

#[cfg(test)]
mod tests;
