//! The paper's main table, on CIFAR-7to3 and on CelebA, one GAN after the other.
//!
//! A chain is one GAN with everything that rests on it: classifiers, draws, measurements. It ends in a small file
//! under `rows`, so that chains can be made in any order and on different days; what is missing is named.
//!
//! - [`chains`]: what is compared;
//! - [`cifar`] and [`faces`]: each data set's run files, and the paper's figures;
//! - [`made`]: what a chain leaves in its file;
//! - [`measure`]: accuracy by a referee, and features;
//! - [`tables`]: the tables and pictures;
//! - [`times`]: what a batch of proposals takes.

mod chains;
mod cifar;
mod faces;
mod made;
mod measure;
mod tables;
#[cfg(test)]
mod tests;
mod times;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use s2m::output::write_whole;
use s2m::samplers::SamplerChoice;
use s2m::settings::{CalibrationChoice, ClassChoice, Overrides};
use s2m_core::query::Query;
use s2m_model::bundle::Bundle;
use s2m_runs::folder::{self, CLASSES, ClassNames, GENERATOR};
use s2m_show::picture::{Canvas, Section, named_rows};

use super::Bench;
use super::evaluation::{Drawn, Evaluator, Finding, Sampled, Way};
use super::fits::{self, Court};
use super::report::Findings;
use super::stages::{Run, Stage};
use crate::Error;

use chains::{Chain, From, JOINT, Kept, Ours};
use made::{Made, OnTheWay, Training};
use measure::{Gathered, Measured, Measures};

pub(crate) use chains::Subject;
pub(crate) use cifar::CIFAR;
pub(crate) use faces::{ABMNSW, BMS};

/// A chain and a seed, as far as it is made.
struct Link {
    chain: &'static Chain,
    seed: u64,
    made: Option<Made>,
}

pub(super) fn run(bench: &Bench<'_>, subject: &'static Subject) -> Result<Findings, Error> {
    let asked_seeds = bench.request.seeds;
    let folder = bench.request.out.join("rows");
    let mut links = Vec::new();
    let mut pictures = Vec::new();
    let mut runs: Vec<Run> = Vec::new();
    let mut workshop = None;
    for chain in subject.chains {
        for &seed in chain.seeds {
            let path = folder.join(format!("{}-seed-{seed}.json", chain.name));
            let kept = Made::read(&path);
            let wanted = asked_seeds.is_none_or(|seeds| seeds.contains(&seed))
                && match bench.request.rows {
                    Some(rows) => rows.iter().any(|row| row == chain.name),
                    None => !kept.as_ref().is_some_and(|made| made.whole(chain)),
                };
            let mut made = kept;
            if wanted && bench.request.data.is_some() {
                if workshop.is_none() {
                    workshop = Workshop::open(bench, subject, &mut runs)?;
                }
                if let Some(workshop) = &workshop {
                    let save = |made: &Made| {
                        let text = serde_json::to_string(made).expect("figures are plain");
                        fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
                        Ok(write_whole(&path, (text + "\n").as_bytes())?)
                    };
                    let drawings = workshop.make(chain, seed, &mut made, &mut runs, &save)?;
                    // One seed is shown, the first that is made.
                    let shown = |name: &str| pictures.iter().any(|(own, _)| *own == name);
                    let new: Vec<_> = drawings
                        .into_iter()
                        .filter(|(name, _)| !shown(name))
                        .collect();
                    pictures.extend(new);
                }
            }
            links.push(Link { chain, seed, made });
        }
    }
    let tables::Shown {
        tables,
        missing,
        curve,
    } = tables::of(subject, &links)?;
    pictures.extend(curve.map(|curve| ("floors.png", curve)));
    let mut seeds: Vec<u64> = links.iter().map(|link| link.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    Ok(Findings {
        title: subject.title,
        preface: vec![subject.about.to_owned()],
        seeds,
        runs,
        tables,
        missing,
        pictures,
    })
}

/// What chains are made with.
struct Workshop<'a> {
    bench: &'a Bench<'a>,
    subject: &'static Subject,
    evaluator: Evaluator<'a>,
    measures: Measures<'a>,
    queries: Vec<Wanted>,
}

/// A joint class, and how many samples of it are drawn.
struct Wanted {
    query: Query,
    /// For its accuracy.
    samples: NonZeroUsize,
    /// The first of them that are looked at with those of the other classes: its share of the test items.
    pooled: usize,
}

/// Fewest samples of a joint class, for its accuracy.
const LEAST: usize = 200;

impl Wanted {
    /// By shares of the test items, so many of all classes together.
    fn all(shares: Vec<(Query, f64)>, samples: NonZeroUsize) -> Vec<Self> {
        let even = samples.get().div_ceil(shares.len().max(1));
        let of = |(query, share): (Query, f64)| {
            let pooled = (samples.get() as f64 * share).ceil() as usize;
            let samples = pooled.max(LEAST.min(even));
            Self {
                query,
                samples: NonZeroUsize::new(samples).unwrap_or(NonZeroUsize::MIN),
                pooled,
            }
        };
        shares.into_iter().map(of).collect()
    }
}

/// The networks of a chain, each trained when it is first asked for.
struct Networks<'w, 'a> {
    workshop: &'w Workshop<'a>,
    chain: &'w Chain,
    seed: u64,
    /// Whatever was asked for already, by name.
    known: BTreeMap<&'static str, Option<PathBuf>>,
    trained: Vec<Training>,
    runs: Vec<Run>,
}

impl<'w, 'a> Networks<'w, 'a> {
    fn new(workshop: &'w Workshop<'a>, chain: &'w Chain, seed: u64) -> Self {
        Self {
            workshop,
            chain,
            seed,
            known: BTreeMap::new(),
            trained: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// The folder of the generator.
    fn generator(&mut self) -> Result<Option<PathBuf>, Error> {
        let folder = folder::replica(self.workshop.subject.data, self.seed);
        self.stage(self.chain.gan, |run| Some(run.folder.join(folder)))
    }

    /// The bundle with the paper's classifiers.
    fn paper(&mut self) -> Result<Option<PathBuf>, Error> {
        let (data, seed) = (self.workshop.subject.data, self.seed);
        self.generator()?;
        self.stage(self.chain.paper, |run| run.bundle(data, seed))
    }

    /// Our bundle.
    fn ours(&mut self) -> Result<Option<PathBuf>, Error> {
        let (data, seed) = (self.workshop.subject.data, self.seed);
        match self.chain.ours {
            Some(Ours::Fit(fit)) => self.fit(Some(fit)),
            Some(Ours::Stage(stage)) => {
                self.generator()?;
                self.stage(Some(stage), |run| run.bundle(data, seed))
            }
            None => Ok(None),
        }
    }

    /// The bundle of the network that was shown all labels.
    fn ceiling(&mut self) -> Result<Option<PathBuf>, Error> {
        self.fit(self.chain.ceiling)
    }

    fn stage(
        &mut self,
        stage: Option<Stage>,
        found: impl FnOnce(&Run) -> Option<PathBuf>,
    ) -> Result<Option<PathBuf>, Error> {
        let Some(stage) = stage else { return Ok(None) };
        if let Some(known) = self.known.get(stage.name) {
            return Ok(known.clone());
        }
        let run = self.workshop.bench.place.finish_seed(&stage, self.seed)?;
        if let Some(run) = &run {
            self.trained.push(Training {
                stage: stage.name.to_owned(),
                steps: run.done.steps,
                seconds: run.done.seconds,
                device: run.done.device.clone(),
            });
            self.runs.push(run.clone());
        }
        let path = run.as_ref().and_then(found);
        self.known.insert(stage.name, path.clone());
        Ok(path)
    }

    fn fit(&mut self, fit: Option<fits::Fit>) -> Result<Option<PathBuf>, Error> {
        let Some(fit) = fit else { return Ok(None) };
        if let Some(known) = self.known.get(fit.name) {
            return Ok(known.clone());
        }
        self.generator()?;
        let recipe = &self.workshop.measures.recipe;
        let path = fits::fitted(self.workshop.bench, fit, recipe, self.seed)?;
        self.known.insert(fit.name, path.clone());
        Ok(path)
    }
}

impl<'a> Workshop<'a> {
    /// None where there is no referee and nobody trains one.
    fn open(
        bench: &'a Bench<'a>,
        subject: &'static Subject,
        runs: &mut Vec<Run>,
    ) -> Result<Option<Self>, Error> {
        let Some(referee) = bench.place.finish(&subject.referee)? else {
            return Ok(None);
        };
        let file = bench.place.run_file(subject.data_of())?;
        let recipe = file
            .recipe(subject.data)
            .cloned()
            .expect("a test looks for the data set");
        let data = recipe.load()?;
        let court = if recipe.classes.is_empty() {
            Some(Court::of_labels(bench, &referee, &data.train)?)
        } else {
            Court::open(bench, Some(&referee), &recipe)?
        };
        runs.push(referee);
        let Some(court) = court else {
            return Ok(None);
        };
        let measures = Measures::open(bench, court, recipe, data)?;
        let queries = Wanted::all(measures.shares(), bench.request.samples);
        let most = queries.iter().map(|wanted| wanted.samples).max();
        let samples = most.unwrap_or(NonZeroUsize::MIN);
        let evaluator = Evaluator {
            samples,
            bank: samples.saturating_mul(subject.steps),
            most_calls: subject.steps.get(),
            ..bench.evaluator(subject.steps)
        };
        if !measures.has_features() {
            bench.progress.note(
                "no feature network `inception/inception_v3_features.onnx.gz` in the folder of data: no FID, KID, precision, recall, density and coverage",
            );
        }
        Ok(Some(Self {
            bench,
            subject,
            evaluator,
            measures,
            queries,
        }))
    }

    /// Makes a chain line by line, and keeps what there is after every one. A line whose networks are not trained,
    /// and which nobody trains, stays as it was. Lines of another generator do not: a chain that was begun elsewhere
    /// goes on where the same generator is.
    fn make(
        &self,
        chain: &'static Chain,
        seed: u64,
        made: &mut Option<Made>,
        runs: &mut Vec<Run>,
        save: &dyn Fn(&Made) -> Result<(), Error>,
    ) -> Result<Vec<Drawing>, Error> {
        let mut networks = Networks::new(self, chain, seed);
        let mut sections = BTreeMap::new();
        let generator = match (networks.generator()?, &chain.gan) {
            (Some(folder), _) => {
                // CP-GAN has no generator by class.
                let files = [GENERATOR, JOINT].map(|file| folder.join(file));
                let file = files.iter().find(|file| file.is_file());
                let alone = Drawn::alone(file.unwrap_or(&files[0]))?;
                Some(alone.generator().digest().to_owned())
            }
            (None, Some(_)) => return Ok(Vec::new()),
            (None, None) => None,
        };
        let own = made.take().filter(|made| made.generator == generator);
        let own = made.insert(own.unwrap_or_else(|| Made {
            generator,
            ..Made::default()
        }));
        let mut order = own.left(chain);
        order.sort_by_key(|line| line.from.turn());
        for line in order {
            let Some(measured) = self.line(&mut networks, line)? else {
                continue;
            };
            if shown(line.from) {
                sections.insert(line.name, measured.rows());
            }
            own.lines.insert(line.name.to_owned(), measured.figures);
            own.add(&networks.trained);
            save(own)?;
        }
        runs.append(&mut networks.runs);
        made.take_if(|made| made.lines.is_empty());
        let Some(made) = made.as_mut().filter(|_| !sections.is_empty()) else {
            return Ok(Vec::new());
        };
        if chain.gan.is_none() {
            made.statistics = self.measures.statistics();
        }
        let on_the_way = self.on_the_way(&mut networks)?;
        if !on_the_way.is_empty() {
            made.on_the_way = on_the_way;
        }
        made.times = self.times(&mut networks)?.or(made.times);
        save(made)?;
        let in_order = chain.lines.iter().filter_map(|line| {
            Some(Section {
                title: line.name.to_owned(),
                rows: sections.remove(line.name)?,
            })
        });
        let sections: Vec<Section> = in_order.collect();
        let mut pictures = vec![(chain.picture, named_rows(&sections)?)];
        if let (Some(folder), "gan") = (networks.ours()?, chain.name) {
            pictures.extend(self.embedded(&folder)?.map(|canvas| ("tsne.png", canvas)));
        }
        Ok(pictures)
    }

    /// FID of the generators that were kept on the way, of as many of their first items as a line has.
    fn on_the_way(&self, networks: &mut Networks<'_, '_>) -> Result<Vec<OnTheWay>, Error> {
        let Some(folder) = networks.generator()?.map(|own| own.join("steps")) else {
            return Ok(Vec::new());
        };
        let training = networks.trained.first();
        let mut steps: Vec<(u64, PathBuf)> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                let step = path.file_name()?.to_str()?.parse().ok()?;
                Some((step, path.join(GENERATOR)))
            })
            .collect();
        steps.sort();
        let mut found = Vec::new();
        for (step, path) in steps {
            let alone = Drawn::alone(&path)?;
            if alone.generator().entry.class.is_some() {
                continue;
            }
            let identity = [self.measures.identity(), alone.identity()];
            let identity = identity.each_ref().map(String::as_str);
            let fid = self.evaluator.kept("cifar-on-the-way", &identity, || {
                let some = Sampled {
                    numbers: (0..self.bench.request.samples.get() as u64).collect(),
                    ..Sampled::default()
                };
                let levels = self.evaluator.render(&alone, &some, some.numbers.len())?;
                let levels: Vec<u8> = levels.into_iter().map(|level| level as u8).collect();
                self.measures.fid(&levels)
            })?;
            let minutes = training.and_then(|training| {
                Some(training.seconds? / 60.0 * step as f64 / training.steps? as f64)
            });
            found.extend(fid.map(|fid| OnTheWay { step, minutes, fid }));
        }
        Ok(found)
    }

    /// Features of test items and of our samples in the plane, by joint class; none without features.
    fn embedded(&self, folder: &Path) -> Result<Option<Canvas>, Error> {
        if !self.measures.has_features() {
            return Ok(None);
        }
        self.bench.progress.note("t-SNE");
        let drawn = self.drawn(folder, From::Ours(None))?;
        let mut gathered = self.drawn_items(&drawn)?;
        for items in gathered.iter_mut().flatten() {
            let size = items.levels.len() / items.sampled.numbers.len().max(1);
            items.levels.truncate(size * EMBEDDED);
        }
        self.measures.embedded(&gathered, &self.queries, EMBEDDED)
    }

    /// One line, measured once; none where its networks are not there.
    fn line(
        &self,
        networks: &mut Networks<'_, '_>,
        line: &Kept,
    ) -> Result<Option<Measured>, Error> {
        let folder = match line.from {
            From::Training => None,
            From::Unfiltered | From::Asked(_) => networks.generator()?,
            From::Paper { .. } => networks.paper()?,
            From::Ours(_) => networks.ours()?,
            From::Ceiling(_) => networks.ceiling()?,
        };
        let drawn = match (line.from, &folder) {
            (From::Training, _) => None,
            (_, None) => return Ok(None),
            // A generator that was brought from elsewhere may come without its second file.
            (From::Asked(file), Some(folder)) if !folder.join(file).is_file() => return Ok(None),
            (From::Unfiltered, Some(folder)) => Some(vec![Drawn::alone(&folder.join(GENERATOR))?]),
            (From::Asked(file), Some(folder)) => Some(vec![Drawn::alone(&folder.join(file))?]),
            (_, Some(folder)) => Some(self.drawn(folder, line.from)?),
        };
        let mut identity = vec![self.measures.identity(), format!("{:?}", line.from)];
        identity.push(line.whole.to_string());
        identity.extend(drawn.iter().flatten().map(Drawn::identity));
        identity.push(self.evaluator.most_calls.to_string());
        identity.push(self.bench.request.samples.to_string());
        let identity: Vec<&str> = identity.iter().map(String::as_str).collect();
        let measured = self.evaluator.kept("cifar", &identity, || {
            self.bench.progress.note(line.name);
            let gathered = match (line.from, drawn.as_deref(), &folder) {
                (From::Unfiltered, Some([alone]), _) => self.unfiltered(alone)?,
                (From::Asked(file), Some([alone]), Some(folder)) => {
                    self.asked(alone, folder, file)?
                }
                (_, Some(drawn), _) => self.drawn_items(drawn)?,
                (_, None, _) => self.training(),
            };
            self.measures.measure(&gathered, &self.queries, line.whole)
        })?;
        Ok(Some(measured))
    }

    /// How every joint class is drawn from a bundle.
    fn drawn(&self, folder: &Path, from: From) -> Result<Vec<Drawn<'_>>, Error> {
        let bundle = Arc::new(Bundle::open(folder)?);
        let drawn = self.queries.iter().map(|wanted| {
            let way = way(&wanted.query, from, self.subject.steps);
            Drawn::opened(folder.to_owned(), Arc::clone(&bundle), way)
        });
        Ok(drawn.collect())
    }

    fn drawn_items(&self, drawn: &[Drawn<'_>]) -> Result<Vec<Option<Gathered>>, Error> {
        let one = |(wanted, drawn): (&Wanted, &Drawn<'_>)| {
            let query = &wanted.query;
            match self.evaluator.of_samples(wanted.samples).sample(drawn)? {
                Finding::Refused(why) => {
                    self.bench
                        .progress
                        .note(&format!("{}: {why}", query.text()));
                    Ok(None)
                }
                Finding::Measured(sampled) => self.rendered(query, drawn, sampled).map(Some),
            }
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
        folder: &Path,
        file: &str,
    ) -> Result<Vec<Option<Gathered>>, Error> {
        let path = folder.join(CLASSES);
        let fail = |reason: String| Error::Read {
            path: path.clone(),
            reason,
        };
        let text = fs::read(&path).map_err(|e| fail(e.to_string()))?;
        let all: ClassNames = serde_json::from_slice(&text).map_err(|e| fail(e.to_string()))?;
        let entry = Path::new(file).file_stem().unwrap_or_default();
        let names = all.get(&*entry.to_string_lossy());
        let names = names.ok_or_else(|| fail(format!("it does not say what `{file}` takes")))?;
        let one = |wanted: &Wanted| {
            let query = &wanted.query;
            let class = names.iter().position(|name| name == query.text());
            let class = class.ok_or_else(|| fail(format!("it has no `{}`", query.text())))?;
            let count = wanted.samples.get();
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
        let mut found: Vec<Vec<u64>> = vec![Vec::new(); self.queries.len()];
        let mut first = 0;
        let lacking =
            |(numbers, wanted): (&Vec<u64>, &Wanted)| numbers.len() < wanted.samples.get();
        while found.iter().zip(&self.queries).any(lacking)
            && first < self.evaluator.bank.get() as u64
        {
            let some = Sampled {
                numbers: (first..first + AT_ONCE).collect(),
                ..Sampled::default()
            };
            let levels = self.evaluator.render(alone, &some, AT_ONCE as usize)?;
            let sets = self.measures.court.sets_of(&levels)?;
            for (&number, set) in some.numbers.iter().zip(sets) {
                let holds = |wanted: &Wanted| wanted.query.holds(set);
                if let Some(at) = self.queries.iter().position(holds)
                    && found[at].len() < self.queries[at].samples.get()
                {
                    found[at].push(number);
                }
            }
            first += AT_ONCE;
        }
        let one = |(wanted, numbers): (&Wanted, Vec<u64>)| {
            if numbers.is_empty() {
                return Ok(None);
            }
            let sampled = Sampled {
                numbers,
                calls_per_sample: 1.0,
                ..Sampled::default()
            };
            self.rendered(&wanted.query, alone, sampled).map(Some)
        };
        self.queries.iter().zip(found).map(one).collect()
    }

    fn training(&self) -> Vec<Option<Gathered>> {
        let one = |wanted: &Wanted| {
            let query = &wanted.query;
            Some(Gathered {
                query: query.clone(),
                levels: self.measures.training(query, wanted.samples.get()),
                sampled: Sampled::default(),
            })
        };
        self.queries.iter().map(one).collect()
    }
}

/// A picture and the name of its file.
type Drawing = (&'static str, Canvas);

/// Items of every joint class and side on the picture of features.
const EMBEDDED: usize = 150;

/// How a joint class is drawn from a bundle.
fn way(query: &Query, from: From, steps: NonZeroUsize) -> Way<'_> {
    let way = Way::of(query.text());
    match from {
        From::Paper {
            temperature,
            margin,
        } => Way {
            sampler: SamplerChoice::Mh { steps },
            calibration: CalibrationChoice::Paper,
            classes: ClassChoice::First,
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
