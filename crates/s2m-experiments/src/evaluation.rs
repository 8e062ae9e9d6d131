//! Samples of trained models to figures, each measured once and kept.
//!
//! A measurement is kept as JSON under a name that holds a hash of everything that decides it, so a
//! changed bundle, setting or referee is measured again and nothing else is. All settings of one
//! bundle are answered out of one bank.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use s2m_core::proposals::Proposals;
use s2m_model::bundle::{Bundle, Generator, GeneratorPart, sha256};
use s2m_model::manifest::PosteriorName;
use s2m_model::networks::{Renderer, Requested};
use s2m_model::runtime::Runtime;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Error;
use s2m::Model;
use s2m::mine;
use s2m::output::write_whole;
use s2m::progress::Progress;
use s2m::samplers::SamplerChoice;
use s2m::session::Machine;
use s2m::settings::{CalibrationChoice, ClassChoice, DensityChoice, Overrides, SampleSettings};

/// Changes when the meaning of a stored measurement does.
const FORMAT: u32 = 1;

/// Seed of all proposals; the networks of different seeds make different items of them.
const PROPOSAL_SEED: u64 = 0;

/// A measurement, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Finding<T> {
    /// What was measured.
    Measured(T),
    /// The sampler's answer was no.
    Refused(String),
}

impl<T> Finding<T> {
    /// What was measured, if anything was.
    pub(crate) fn measured(&self) -> Option<&T> {
        match self {
            Self::Measured(value) => Some(value),
            Self::Refused(_) => None,
        }
    }
}

/// Which proposals became samples, and what that cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Sampled {
    /// Proposal numbers, from which the items can be made again.
    pub(crate) numbers: Vec<u64>,
    /// Their classes; empty for an unconditional generator.
    pub(crate) classes: Vec<u32>,
    /// Generator calls per sample.
    pub(crate) calls_per_sample: f64,
    /// Mean posterior of the query over the samples; none for a generator alone.
    pub(crate) predicted_purity: Option<f64>,
    /// The same as the network that selected says it.
    #[serde(default)]
    pub(crate) plain_purity: Option<f64>,
    /// Stated bound on the distance from the target.
    pub(crate) tv_bound: Option<f64>,
    /// Things to know.
    pub(crate) warnings: Vec<String>,
}

/// How a query is drawn from a bundle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way<'a> {
    pub(crate) query: &'a str,
    pub(crate) sampler: SamplerChoice,
    pub(crate) calibration: CalibrationChoice,
    pub(crate) overrides: Overrides,
    pub(crate) density: DensityChoice,
    pub(crate) posterior: Option<PosteriorName>,
    pub(crate) classes: ClassChoice,
}

impl<'a> Way<'a> {
    /// A query drawn by rejection, as its bundle says.
    pub(crate) fn of(query: &'a str) -> Self {
        let SampleSettings {
            sampler,
            calibration,
            overrides,
            density,
            posterior,
            classes,
            ..
        } = SampleSettings::default();
        Self {
            query,
            sampler,
            calibration,
            overrides,
            density,
            posterior,
            classes,
        }
    }

    fn settings(&self) -> SampleSettings {
        SampleSettings {
            seed: Some(PROPOSAL_SEED),
            sampler: self.sampler,
            calibration: self.calibration,
            overrides: self.overrides,
            density: self.density,
            posterior: self.posterior,
            classes: self.classes,
            ..SampleSettings::default()
        }
    }
}

/// A trained model, and how it is drawn from.
#[derive(Debug)]
pub(crate) enum Drawn<'a> {
    /// A generator as it is.
    Alone(Box<Generator>),
    /// A query out of a bundle.
    Query {
        /// Where the bundle lies.
        folder: PathBuf,
        bundle: Arc<Bundle>,
        way: Way<'a>,
    },
}

impl<'a> Drawn<'a> {
    /// The generator whose entry lies in a file.
    pub(crate) fn alone(file: &Path) -> Result<Self, Error> {
        Ok(Self::Alone(Box::new(Generator::open(file)?)))
    }

    /// A query out of the bundle in a folder.
    pub(crate) fn query(folder: PathBuf, way: Way<'a>) -> Result<Self, Error> {
        let bundle = Arc::new(Bundle::open(&folder)?);
        Ok(Self::opened(folder, bundle, way))
    }

    /// A query out of a bundle that is open already.
    pub(crate) fn opened(folder: PathBuf, bundle: Arc<Bundle>, way: Way<'a>) -> Self {
        Self::Query {
            folder,
            bundle,
            way,
        }
    }

    /// Where its items come from.
    pub(crate) fn generator(&self) -> GeneratorPart<'_> {
        match self {
            Self::Alone(generator) => generator.part(),
            Self::Query { bundle, .. } => bundle.generator_part(),
        }
    }

    /// Everything that decides what is drawn, for [`Evaluator::kept`].
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::Alone(generator) => {
                let part = generator.part();
                format!("{} {:?}", part.digest(), part.entry)
            }
            Self::Query { bundle, way, .. } => {
                let settings = serde_json::to_string(&way.settings());
                let settings = settings.expect("settings have only plain fields");
                format!("{} {} {settings}", bundle.hash(), way.query)
            }
        }
    }
}

/// Most generator calls per sample unless an experiment says otherwise; weights that ask for more are
/// reported as not reached.
pub(crate) const MOST_CALLS: usize = 500;

/// Draws and measures with one machine, and keeps what it measured.
#[derive(Clone)]
pub(crate) struct Evaluator<'a> {
    pub(crate) machine: &'a Machine<'a>,
    pub(crate) runtime: Runtime,
    pub(crate) samples: NonZeroUsize,
    /// Proposals in the bank of each bundle, for each class of a conditional generator.
    pub(crate) bank: NonZeroUsize,
    /// Most generator calls per sample.
    pub(crate) most_calls: usize,
    /// Folder for banks.
    pub(crate) work: PathBuf,
    /// Folder for measurements.
    pub(crate) measured: PathBuf,
    pub(crate) progress: &'a dyn Progress,
    /// Banks that are known to be whole.
    pub(crate) mined: RefCell<BTreeSet<PathBuf>>,
}

impl Evaluator<'_> {
    /// The same for another number of samples, out of the same banks.
    pub(crate) fn of_samples(&self, samples: NonZeroUsize) -> Self {
        Self {
            samples,
            ..self.clone()
        }
    }

    /// The measurement of this name and identity, taken now where it is not there.
    pub(crate) fn kept<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        identity: &[&str],
        measure: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (folder, path) = (&self.measured, self.path(name, identity));
        // One that cannot be read was written by another version, or is damaged: measured again.
        let stored = fs::read(&path).ok();
        if let Some(kept) = stored.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            return Ok(kept);
        }
        let measured = measure()?;
        fs::create_dir_all(folder).map_err(Error::write(folder))?;
        let json = serde_json::to_string(&measured).expect("figures have only plain fields");
        write_whole(&path, json.as_bytes())?;
        Ok(measured)
    }

    /// Whether there is a measurement of this name and identity.
    pub(crate) fn has(&self, name: &str, identity: &[&str]) -> bool {
        self.path(name, identity).exists()
    }

    fn path(&self, name: &str, identity: &[&str]) -> PathBuf {
        let whole = format!("{FORMAT}\n{}\n{}", self.samples, identity.join("\n"));
        let hash = sha256(whole.as_bytes());
        self.measured.join(format!("{name}-{}.json", &hash[..12]))
    }

    /// Draws; a generator alone gives its first proposals.
    pub(crate) fn sample(&self, drawn: &Drawn<'_>) -> Result<Finding<Sampled>, Error> {
        match drawn {
            Drawn::Alone(_) => Ok(Finding::Measured(Sampled {
                numbers: (0..self.samples.get() as u64).collect(),
                calls_per_sample: 1.0,
                ..Sampled::default()
            })),
            Drawn::Query {
                folder,
                bundle,
                way,
            } => self.sample_query(folder, bundle, way),
        }
    }

    /// Draws from the bundle in a folder, out of its bank.
    fn sample_query(
        &self,
        folder: &Path,
        bundle: &Arc<Bundle>,
        way: &Way<'_>,
    ) -> Result<Finding<Sampled>, Error> {
        let bank = self.bank_of(folder, bundle)?;
        let mut settings = way.settings();
        settings.max_calls = Some(self.samples.get().saturating_mul(self.most_calls));
        let model = Model::from(Arc::clone(bundle)).with_machine(self.machine);
        let ask = model.query(way.query)?.with_settings(settings).bank(bank);
        let selected = match ask.select(self.samples.get(), self.progress) {
            Err(s2m::Error::Refused(refusal)) => {
                return Ok(Finding::Refused(refusal.failure.to_string()));
            }
            selected => selected?,
        };
        let numbers = selected.rows()?;
        let report = selected.report(0.0);
        Ok(Finding::Measured(Sampled {
            // A bank of a conditional generator holds proposals of the other classes too, which a query without a
            // bank would not have asked for.
            calls_per_sample: selected.looked_at() as f64 / numbers.len() as f64,
            predicted_purity: Some(report.predicted_purity),
            plain_purity: Some(report.plain_purity),
            tv_bound: report.tv_bound,
            warnings: report.warnings,
            classes: numbers.iter().filter_map(|&k| selected.class(k)).collect(),
            numbers,
        }))
    }

    /// The first `count` samples as they would be written: points, or the levels of pictures.
    pub(crate) fn render(
        &self,
        drawn: &Drawn<'_>,
        sampled: &Sampled,
        count: usize,
    ) -> Result<Vec<f32>, Error> {
        let renderer = Renderer::of(drawn.generator(), &self.runtime, &self.machine.run)?;
        let first = count.min(sampled.numbers.len());
        Ok(renderer.render(Requested {
            mixture: None,
            proposals: Proposals::new(PROPOSAL_SEED),
            numbers: &sampled.numbers[..first],
            classes: sampled.classes.get(..first).unwrap_or_default(),
        })?)
    }

    /// Draws, makes the items and measures them, unless that was done before.
    pub(crate) fn measure<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        identity: &[&str],
        drawn: &Drawn<'_>,
        measure: impl FnOnce(Sampled, &[f32]) -> Result<T, Error>,
    ) -> Result<Finding<T>, Error> {
        self.measure_numbers(name, identity, drawn, |sampled| {
            let items = self.render(drawn, &sampled, sampled.numbers.len())?;
            measure(sampled, &items)
        })
    }

    /// The same for measurements that need to know which proposals were kept, and not what they look like.
    pub(crate) fn measure_numbers<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        identity: &[&str],
        drawn: &Drawn<'_>,
        measure: impl FnOnce(Sampled) -> Result<T, Error>,
    ) -> Result<Finding<T>, Error> {
        let own = format!("{} {}", drawn.identity(), self.most_calls);
        let identity: Vec<&str> = identity.iter().copied().chain([own.as_str()]).collect();
        self.kept(name, &identity, || match self.sample(drawn)? {
            Finding::Refused(why) => Ok(Finding::Refused(why)),
            Finding::Measured(sampled) => Ok(Finding::Measured(measure(sampled)?)),
        })
    }

    /// The bank of a bundle, mined where it is not there yet.
    fn bank_of(&self, folder: &Path, bundle: &Bundle) -> Result<PathBuf, Error> {
        let bank = self.work.join("banks").join(&bundle.scoring_hash()[..16]);
        if self.mined.borrow().contains(&bank) {
            return Ok(bank);
        }
        // A query sees the proposals of one class at least; classes take turns in a bank.
        let classes = bundle.classes().and_then(NonZeroUsize::new);
        let proposals = self
            .bank
            .saturating_mul(classes.unwrap_or(NonZeroUsize::MIN));
        let request = mine::Request {
            model: folder,
            proposals,
            piece: mine::Piece::default(),
            seed: PROPOSAL_SEED,
            machine: self.machine.clone(),
            out: &bank,
        };
        let parent = self.work.join("banks");
        fs::create_dir_all(&parent).map_err(Error::write(&parent))?;
        mine::mine(&request, self.progress)?;
        self.mined.borrow_mut().insert(bank.clone());
        Ok(bank)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use s2m_testkit::linear::linear;

    use super::*;
    use s2m::progress::Silent;

    fn evaluator<'a>(work: &Path, machine: &'a Machine<'a>, samples: usize) -> Evaluator<'a> {
        Evaluator {
            machine,
            runtime: Runtime::load(None).unwrap(),
            samples: NonZeroUsize::new(samples).unwrap(),
            bank: NonZeroUsize::new(5000).unwrap(),
            most_calls: MOST_CALLS,
            measured: work.join("evaluations"),
            work: work.to_owned(),
            progress: &Silent,
            mined: RefCell::default(),
        }
    }

    #[test]
    fn a_measurement_is_taken_once_for_each_identity() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::default();
        let evaluator = evaluator(root.path(), &machine, 10);
        let taken = Cell::new(0);
        let measure = |name: &str, identity: &str| {
            let kept = evaluator.kept(name, &[identity], || {
                taken.set(taken.get() + 1);
                Ok(Finding::Measured(taken.get()))
            });
            *kept.unwrap().measured().unwrap()
        };
        assert_eq!(measure("a", "x"), 1);
        assert_eq!(measure("a", "x"), 1);
        assert_eq!((measure("a", "y"), measure("b", "x")), (2, 3));
        assert_eq!(measure("a", "x"), 1);
        let folder = root.path().join("evaluations");
        for file in fs::read_dir(folder).unwrap() {
            fs::write(file.unwrap().path(), "damaged").unwrap();
        }
        assert_eq!(measure("a", "x"), 4);
    }

    /// The same samples, calls and purity as the program's own path, and no more than the bank mined.
    #[test]
    fn a_bundle_is_drawn_from_its_bank() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("linear.s2m");
        s2m_model::bundle::write(&folder, &linear(2)).unwrap();
        let machine = Machine::default();
        let evaluator = evaluator(root.path(), &machine, 100);
        let way = Way {
            sampler: SamplerChoice::Reject { tv: 0.05 },
            calibration: CalibrationChoice::Bundle,
            ..Way::of("L0 - L1")
        };
        let drawn = Drawn::query(folder.clone(), way).unwrap();
        let finding = evaluator.sample(&drawn).unwrap();
        let sampled = finding.measured().unwrap().clone();
        assert_eq!(sampled.numbers.len(), 100);
        let purity = sampled.predicted_purity.unwrap();
        assert!((0.5..1.0).contains(&purity), "{purity}");
        let out = root.path().join("out");
        let request = s2m::sample::Request {
            model: &folder,
            wanted: s2m::sample::Wanted::Query(way.query),
            samples: evaluator.samples,
            settings: way.settings(),
            machine: machine.clone(),
            bank: None,
            proposal: None,
            out: &out,
            existing: s2m::output::Existing::Keep,
        };
        let answers = s2m::sample::sample(&request, &Silent).unwrap();
        let report = answers[0].as_ref().unwrap();
        assert_eq!(report.calls_per_sample, sampled.calls_per_sample);
        assert_eq!(report.predicted_purity, purity);
        assert_eq!(report.tv_bound, sampled.tv_bound);
        let table = fs::read_to_string(out.join("metadata.csv")).unwrap();
        let column = table.lines().next().unwrap().split(',');
        let column = column.clone().position(|name| name == "proposal").unwrap();
        let written = table
            .lines()
            .skip(1)
            .map(|l| l.split(',').nth(column).unwrap());
        let written: Vec<u64> = written.map(|text| text.parse().unwrap()).collect();
        assert_eq!(written, sampled.numbers);
        // Points are twice their latents: rendering gives what was scored.
        let items = evaluator.render(&drawn, &sampled, 1).unwrap();
        let mut latents = vec![0.0; 3];
        Proposals::new(PROPOSAL_SEED).fill_normal(0, sampled.numbers[0], 3, &mut latents);
        let doubled: Vec<f32> = latents.iter().map(|z| 2.0 * z).collect();
        assert_eq!(items, doubled);
    }
}
