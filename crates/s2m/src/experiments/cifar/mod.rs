//! CIFAR-7to3: the paper's main table, one GAN after the other.
//!
//! A chain is one GAN with everything that rests on it: classifiers, draws, measurements. It ends in a small file
//! under `rows`, so that chains can be made in any order and on different days; what is missing is named.
//!
//! - [`chains`]: what is compared, and the paper's figures;
//! - [`measure`]: accuracy by a referee, and features;
//! - [`tables`]: the tables and pictures.

mod chains;
mod measure;
mod tables;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use s2m_core::query::Query;
use s2m_model::bundle::Bundle;
use serde::{Deserialize, Serialize};

use super::Bench;
use super::evaluation::{Drawn, Evaluator, Finding, Sampled, Way};
use super::fits::{self, Court};
use super::report::Findings;
use super::stages::{self, Run, Stage};
use crate::error::Error;
use crate::output::write_whole;
use crate::picture::{Canvas, Section, named_rows};
use crate::samplers::SamplerChoice;
use crate::settings::{CalibrationChoice, Overrides};

use chains::{CHAINS, Chain, DATA, From, GAN, Kept, REFEREE, STEPS};
use measure::{Figures, Gathered, Measured, Measures};

/// What a chain leaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Made {
    /// The trainings behind it.
    trained: Vec<Training>,
    lines: BTreeMap<String, Figures>,
}

/// A training, as its trainer says it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Training {
    stage: String,
    steps: Option<u64>,
    seconds: Option<f64>,
    device: Option<String>,
}

/// A chain and a seed, as far as it is made.
struct Link {
    chain: Chain,
    seed: u64,
    made: Option<Made>,
}

pub(super) fn run(bench: &Bench<'_>) -> Result<Findings, Error> {
    let asked_seeds = bench.request.seeds;
    let folder = bench.request.out.join("rows");
    let mut links = Vec::new();
    let mut pictures = Vec::new();
    let mut runs: Vec<Run> = Vec::new();
    let mut workshop = None;
    for chain in CHAINS {
        for &seed in chain.seeds {
            let path = folder.join(format!("{}-seed-{seed}.json", chain.name));
            let kept: Option<Made> = read(&path);
            let wanted = asked_seeds.is_none_or(|seeds| seeds.contains(&seed))
                && match bench.request.rows {
                    Some(rows) => rows.iter().any(|row| row == chain.name),
                    None => kept.is_none(),
                };
            let made = if wanted && bench.request.data.is_some() {
                if workshop.is_none() {
                    workshop = Workshop::open(bench, &mut runs)?;
                }
                match &workshop {
                    Some(workshop) => workshop.make(chain, seed, &mut runs)?,
                    None => None,
                }
            } else {
                None
            };
            if let Some((made, canvas)) = &made {
                let text = serde_json::to_string(made).expect("figures are plain");
                fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
                write_whole(&path, (text + "\n").as_bytes())?;
                if seed == chain.seeds[0] {
                    pictures.push((chain.picture, canvas.clone()));
                }
            }
            links.push(Link {
                chain,
                seed,
                made: made.map(|(made, _)| made).or(kept),
            });
        }
    }
    let tables::Shown {
        tables,
        missing,
        curve,
    } = tables::of(&links)?;
    pictures.extend(curve.map(|curve| ("floors.png", curve)));
    let mut seeds: Vec<u64> = links.iter().map(|link| link.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    Ok(Findings {
        title: "CIFAR-7to3",
        preface: vec![format!(
            "Samples are of all seven joint classes in equal parts. Accuracy: the referee, a ResNet-9 over the seven classes, agrees with what was asked for. FID, precision, recall, density and coverage are over all joint classes together against the 7,000 test items, KID is per joint class, all on features of an InceptionV3 for ImageNet that is not the network of published FIDs: they compare lines of this table, and the paper's figures beside them are of its own network. The paper's way: MobileNetV2, all outputs on one trunk, `mh` with K = {STEPS}, its temperatures and γ. Ours: `s2m fit` and `s2m sample` with defaults, `reject` at TV 0.01; floor `defaults` is the bundle's. At most {STEPS} calls per sample. Starred: asked for a joint class of n labels with 1/n for each."
        )],
        seeds,
        runs,
        tables,
        missing,
        pictures,
    })
}

fn read(path: &Path) -> Option<Made> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// What chains are made with.
struct Workshop<'a> {
    bench: &'a Bench<'a>,
    evaluator: Evaluator<'a>,
    measures: Measures<'a>,
    queries: Vec<Query>,
}

/// The networks of a chain, as far as they are there.
struct Networks {
    generator: Option<PathBuf>,
    paper: Option<PathBuf>,
    ours: Option<PathBuf>,
    ceiling: Option<PathBuf>,
}

impl<'a> Workshop<'a> {
    /// None where there is no referee and nobody trains one.
    fn open(bench: &'a Bench<'a>, runs: &mut Vec<Run>) -> Result<Option<Self>, Error> {
        let Some(referee) = bench.place.finish(&REFEREE)? else {
            return Ok(None);
        };
        let file = bench.place.run_file(&GAN)?;
        let recipe = stages::recipe(&file, DATA).expect("a test looks for the data set");
        let court = Court::open(bench, Some(&referee), &recipe)?;
        runs.push(referee);
        let Some(court) = court else {
            return Ok(None);
        };
        let measures = Measures::open(bench, court, recipe)?;
        let queries = measures.queries();
        let classes = NonZeroUsize::new(queries.len()).unwrap_or(NonZeroUsize::MIN);
        let samples = bench.request.samples.get().div_ceil(classes.get());
        let samples = NonZeroUsize::new(samples).unwrap_or(NonZeroUsize::MIN);
        let evaluator = Evaluator {
            samples,
            bank: samples.saturating_mul(STEPS),
            most_calls: STEPS.get(),
            ..bench.evaluator(STEPS)
        };
        if !measures.has_features() {
            bench.progress.note(
                "no feature network `inception/inception_v3_features.onnx.gz` in the folder of data: no FID, KID, precision, recall, density and coverage",
            );
        }
        Ok(Some(Self {
            bench,
            evaluator,
            measures,
            queries,
        }))
    }

    /// Makes a chain; none where something of it is not trained and nobody trains it.
    fn make(
        &self,
        chain: Chain,
        seed: u64,
        runs: &mut Vec<Run>,
    ) -> Result<Option<(Made, Canvas)>, Error> {
        let mut trained = Vec::new();
        let mut finish = |stage: Option<Stage>| -> Result<Option<Run>, Error> {
            let Some(stage) = stage else { return Ok(None) };
            let run = self.bench.place.finish_seed(&stage, seed)?;
            if let Some(run) = &run {
                trained.push(Training {
                    stage: stage.name.to_owned(),
                    steps: run.done.steps,
                    seconds: run.done.seconds,
                    device: run.done.device.clone(),
                });
                runs.push(run.clone());
            }
            Ok(run)
        };
        let gan = finish(chain.gan)?;
        let paper = finish(chain.paper)?;
        let fitted = |fit: Option<fits::Fit>| match fit {
            Some(fit) => fits::fitted(self.bench, fit, &self.measures.recipe, seed),
            None => Ok(None),
        };
        let networks = Networks {
            generator: gan.map(|run| run.folder.join(format!("{DATA}/seed-{seed}"))),
            paper: paper.and_then(|run| run.bundle(DATA, seed)),
            ours: fitted(chain.ours)?,
            ceiling: fitted(chain.ceiling)?,
        };
        let mut lines = BTreeMap::new();
        let mut sections = Vec::new();
        for line in chain.lines {
            let Some(measured) = self.line(&networks, line)? else {
                return Ok(None);
            };
            if shown(line.from) {
                sections.push(Section {
                    title: line.name.to_owned(),
                    rows: measured.rows(),
                });
            }
            lines.insert(line.name.to_owned(), measured.figures);
        }
        let canvas = named_rows(&sections)?;
        Ok(Some((Made { trained, lines }, canvas)))
    }

    /// One line, measured once; none where its networks are not there.
    fn line(&self, networks: &Networks, line: &Kept) -> Result<Option<Measured>, Error> {
        let entry = |file: &str| networks.generator.as_ref().map(|folder| folder.join(file));
        let drawn = match line.from {
            From::Training => None,
            From::Unfiltered => match entry("generator.toml") {
                Some(file) => Some(vec![Drawn::alone(&file)?]),
                None => return Ok(None),
            },
            From::Asked(file) => match entry(file) {
                Some(file) => Some(vec![Drawn::alone(&file)?]),
                None => return Ok(None),
            },
            From::Paper { .. } | From::Ours(_) | From::Ceiling(_) => {
                let folder = match line.from {
                    From::Paper { .. } => &networks.paper,
                    From::Ours(_) => &networks.ours,
                    _ => &networks.ceiling,
                };
                let Some(folder) = folder else {
                    return Ok(None);
                };
                Some(self.drawn(folder, line.from)?)
            }
        };
        let mut identity = vec![self.measures.identity(), format!("{:?}", line.from)];
        identity.push(line.whole.to_string());
        identity.extend(drawn.iter().flatten().map(Drawn::identity));
        identity.push(self.evaluator.most_calls.to_string());
        let identity: Vec<&str> = identity.iter().map(String::as_str).collect();
        let measured = self.evaluator.kept("cifar", &identity, || {
            self.bench.progress.note(line.name);
            let gathered = match (line.from, drawn.as_deref()) {
                (From::Unfiltered, Some([alone])) => self.unfiltered(alone)?,
                (From::Asked(_), Some([alone])) => self.asked(alone, networks)?,
                (_, Some(drawn)) => self.drawn_items(drawn)?,
                (_, None) => self.training()?,
            };
            self.measures.measure(&gathered, &self.queries, line.whole)
        })?;
        Ok(Some(measured))
    }

    /// How every joint class is drawn from a bundle.
    fn drawn(&self, folder: &Path, from: From) -> Result<Vec<Drawn<'_>>, Error> {
        let bundle = Arc::new(Bundle::open(folder)?);
        let drawn = self.queries.iter().map(|query| {
            let way = way(query, from);
            Drawn::opened(folder.to_owned(), Arc::clone(&bundle), way)
        });
        Ok(drawn.collect())
    }

    fn drawn_items(&self, drawn: &[Drawn<'_>]) -> Result<Vec<Option<Gathered>>, Error> {
        let one = |(query, drawn): (&Query, &Drawn<'_>)| match self.evaluator.sample(drawn)? {
            Finding::Refused(why) => {
                self.bench
                    .progress
                    .note(&format!("{}: {why}", query.text()));
                Ok(None)
            }
            Finding::Measured(sampled) => self.rendered(query, drawn, sampled).map(Some),
        };
        self.queries.iter().zip(drawn).map(one).collect()
    }

    fn rendered(
        &self,
        query: &Query,
        drawn: &Drawn<'_>,
        sampled: Sampled,
    ) -> Result<Gathered, Error> {
        let levels = self
            .evaluator
            .render(drawn, &sampled, sampled.numbers.len())?;
        Ok(Gathered {
            query: query.clone(),
            levels: levels.into_iter().map(|level| level as u8).collect(),
            sampled,
        })
    }

    /// A generator that takes the joint class.
    fn asked(
        &self,
        alone: &Drawn<'_>,
        networks: &Networks,
    ) -> Result<Vec<Option<Gathered>>, Error> {
        let folder = networks.generator.as_deref().unwrap_or(Path::new(""));
        let path = folder.join("classes.json");
        let fail = |reason: String| Error::Read {
            path: path.clone(),
            reason,
        };
        let text = fs::read(&path).map_err(|e| fail(e.to_string()))?;
        let names: Vec<String> = serde_json::from_slice(&text).map_err(|e| fail(e.to_string()))?;
        let one = |query: &Query| {
            let class = names.iter().position(|name| name == query.text());
            let class = class.ok_or_else(|| fail(format!("it has no `{}`", query.text())))?;
            let count = self.evaluator.samples.get();
            let sampled = Sampled {
                numbers: (0..count as u64).collect(),
                classes: vec![class as u32; count],
                calls_per_sample: 1.0,
                ..Sampled::default()
            };
            self.rendered(query, alone, sampled).map(Some)
        };
        self.queries.iter().map(one).collect()
    }

    /// The first items of each joint class, as the referee sees them.
    fn unfiltered(&self, alone: &Drawn<'_>) -> Result<Vec<Option<Gathered>>, Error> {
        const AT_ONCE: u64 = 10_000;
        let count = self.evaluator.samples.get();
        let mut found: Vec<Vec<u64>> = vec![Vec::new(); self.queries.len()];
        let mut first = 0;
        while found.iter().any(|numbers| numbers.len() < count)
            && first < self.evaluator.bank.get() as u64
        {
            let some = Sampled {
                numbers: (first..first + AT_ONCE).collect(),
                ..Sampled::default()
            };
            let levels = self.evaluator.render(alone, &some, AT_ONCE as usize)?;
            let classes = self.measures.court.classes_of(&levels)?;
            for (&number, class) in some.numbers.iter().zip(classes) {
                let set = self.measures.court.classes[usize::from(class)];
                let at = self.queries.iter().position(|query| query.holds(set));
                if let Some(numbers) = at.map(|at| &mut found[at])
                    && numbers.len() < count
                {
                    numbers.push(number);
                }
            }
            first += AT_ONCE;
        }
        let one = |(query, numbers): (&Query, Vec<u64>)| {
            if numbers.is_empty() {
                return Ok(None);
            }
            let sampled = Sampled {
                numbers,
                calls_per_sample: 1.0,
                ..Sampled::default()
            };
            self.rendered(query, alone, sampled).map(Some)
        };
        self.queries.iter().zip(found).map(one).collect()
    }

    fn training(&self) -> Result<Vec<Option<Gathered>>, Error> {
        let one = |query: &Query| {
            let count = self.evaluator.samples.get();
            Ok(Some(Gathered {
                query: query.clone(),
                levels: self.measures.training(query, count)?,
                sampled: Sampled::default(),
            }))
        };
        self.queries.iter().map(one).collect()
    }
}

/// How a joint class is drawn from a bundle.
fn way(query: &Query, from: From) -> Way<'_> {
    let way = Way::of(query.text());
    match from {
        From::Paper {
            temperature,
            margin,
        } => Way {
            sampler: SamplerChoice::Mh { steps: STEPS },
            calibration: CalibrationChoice::Paper,
            overrides: Overrides {
                class_temperature: (!temperature).then_some(1.0),
                margin: (!margin).then_some(1.0),
                ..Overrides::default()
            },
            ..way
        },
        From::Ours(floor) | From::Ceiling(floor) => Way {
            overrides: Overrides {
                floor,
                ..Overrides::default()
            },
            ..way
        },
        From::Training | From::Unfiltered | From::Asked(_) => way,
    }
}

/// Whether pictures of a line are shown.
fn shown(from: From) -> bool {
    match from {
        From::Training | From::Unfiltered | From::Asked(_) | From::Ours(None) => true,
        From::Paper {
            temperature,
            margin,
        } => temperature && margin,
        From::Ours(Some(_)) | From::Ceiling(_) => false,
    }
}
