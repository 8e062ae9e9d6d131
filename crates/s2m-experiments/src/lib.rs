//! `s2m reproduce`: a table or figure of the paper, ours beside the paper's.
//!
//! An experiment trains what is not trained yet, draws and measures what is not measured yet, and
//! writes `RESULTS.md` and pictures. Its run files are the templates in the repository's folder
//! `experiments/NAME`.
//!
//! - `stages`: run files and training, through [`s2m_fit::trainer`];
//! - `evaluation`: draws and measurements, each kept;
//! - `fits`: rows of fits for generators that are there already;
//! - `line`, [`results`], `report`: means over seeds, tables, `RESULTS.md`;
//! - one file per experiment.

mod calibration;
mod colour;
mod error;
mod evaluation;
mod existing_gan;
mod faces_elsewhere;
mod fits;
mod gaussians;
mod illustration;
mod label_set_toys;
mod line;
mod rare_digits;
mod rare_toys;
mod report;
pub mod results;
mod six_labels;
mod stages;
mod statements;
mod table1;
mod unlabelled_digits;

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use s2m_model::runtime::Runtime;
use serde::Serialize;

use s2m::progress::Progress;
use s2m::session::Machine;
use s2m_fit::trainer::Train;

use evaluation::Evaluator;
use report::Findings;
use results::Table;
use stages::{Run, Stage, Workplace};

pub use error::Error;

/// Samples per line when nothing else is said, as in the paper.
pub const DEFAULT_SAMPLES: usize = 10_000;

/// A table or figure of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Experiment {
    /// The 2×16 Gaussians.
    Gaussians,
    /// The one-dimensional example.
    Illustration,
    /// Table 1: MNIST and Fashion-MNIST.
    Table1,
    /// Calibration from single positives against hand settings, on the networks of table 1.
    Calibration,
    /// MNIST with six labels: partial and boolean queries.
    SixLabels,
    /// Rare targets that are known exactly, with every way to adapt.
    RareToys,
    /// Rare joint classes of the six-label MNIST, with every way to adapt.
    RareDigits,
    /// A GAN from elsewhere on CIFAR-7to3: class probabilities against label sets.
    ExistingGan,
    /// A GAN that also makes digits which the labelled data lacks.
    UnlabelledDigits,
    /// Label sets that are known exactly, from a soft classifier.
    LabelSetToys,
    /// The paper's main table on CIFAR-7to3.
    Cifar,
    /// The same on CelebA with three labels.
    CelebaBms,
    /// The same on CelebA with six labels.
    CelebaAbmnsw,
    /// A generator of StyleGAN2's kind from elsewhere, with labels of CelebA.
    FacesElsewhere,
    /// How often statements are wrong where the truth is known.
    Statements,
}

impl Experiment {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Gaussians,
        Self::Illustration,
        Self::Table1,
        Self::Calibration,
        Self::SixLabels,
        Self::RareToys,
        Self::RareDigits,
        Self::ExistingGan,
        Self::UnlabelledDigits,
        Self::LabelSetToys,
        Self::Cifar,
        Self::CelebaBms,
        Self::CelebaAbmnsw,
        Self::FacesElsewhere,
        Self::Statements,
    ];

    /// Its name as typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gaussians => "gaussians",
            Self::Illustration => "illustration",
            Self::Table1 => "table1",
            Self::Calibration => "calibration",
            Self::SixLabels => "six-labels",
            Self::RareToys => "rare-toys",
            Self::RareDigits => "rare-digits",
            Self::ExistingGan => "existing-gan",
            Self::UnlabelledDigits => "unlabelled-digits",
            Self::LabelSetToys => "label-set-toys",
            Self::Cifar => "cifar",
            Self::CelebaBms => "celeba-bms",
            Self::CelebaAbmnsw => "celeba-abmnsw",
            Self::FacesElsewhere => "faces-elsewhere",
            Self::Statements => "statements",
        }
    }

    /// What it shows, in a few words.
    pub fn about(self) -> &'static str {
        match self {
            Self::Gaussians => "appendix E.1: two overlapping grids of Gaussians",
            Self::Illustration => "figure 2: two classes that overlap, in one dimension",
            Self::Table1 => "table 1: MNIST and Fashion-MNIST, all methods",
            Self::Calibration => "calibration from single positives, on the networks of table1",
            Self::SixLabels => "MNIST with six labels: partial and boolean queries",
            Self::RareToys => "rare targets that are known exactly, with every --adapt",
            Self::RareDigits => "rare classes of six-labels, with every --adapt",
            Self::ExistingGan => "a GAN from elsewhere on CIFAR-7to3: classes against label sets",
            Self::UnlabelledDigits => "a GAN that also makes digits which no label is for",
            Self::LabelSetToys => "label sets that are known exactly, from a soft classifier",
            Self::Cifar => "table 2: CIFAR-7to3, one GAN after the other",
            Self::CelebaBms => "table 2: faces with three labels",
            Self::CelebaAbmnsw => "table 2: faces with six labels",
            Self::FacesElsewhere => {
                "a StyleGAN2-class generator from elsewhere, with CelebA's labels"
            }
            Self::Statements => "how often what is stated is wrong, where the truth is known",
        }
    }

    /// The experiment whose networks it uses, by name.
    pub fn networks(self) -> &'static str {
        match self {
            Self::Calibration => Self::Table1.name(),
            Self::RareDigits => Self::SixLabels.name(),
            other => other.name(),
        }
    }

    /// The experiment of that name.
    pub fn parse(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|e| e.name() == name);
        found.ok_or_else(|| Error::Unknown(name.to_owned()))
    }
}

fn names() -> String {
    Experiment::ALL.map(Experiment::name).join(", ")
}

/// One request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Which experiment.
    pub experiment: Experiment,
    /// Folder of the data sets, where it needs any.
    pub data: Option<&'a Path>,
    /// Folder for networks, banks and measurements.
    pub work: &'a Path,
    /// Folder for the results.
    pub out: &'a Path,
    /// Seeds to evaluate, out of those in the run files; none for all.
    pub seeds: Option<&'a [u64]>,
    /// Rows to make, by name, where an experiment has rows that can be made apart; none for all.
    pub rows: Option<&'a [String]>,
    /// Samples per line.
    pub samples: NonZeroUsize,
    /// What to draw and judge with.
    pub machine: Machine<'a>,
}

/// What came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reproduced {
    /// Which experiment.
    pub experiment: Experiment,
    /// The tables.
    pub tables: Vec<Table>,
    /// What is missing and why.
    pub missing: Vec<String>,
    /// The file with all of it.
    pub results: PathBuf,
    /// The pictures.
    pub pictures: Vec<PathBuf>,
}

/// Runs an experiment; without a trainer, what is not trained stays so and is named as missing.
pub fn reproduce(
    request: &Request<'_>,
    trainer: Option<&dyn Train>,
    progress: &dyn Progress,
) -> Result<Reproduced, Error> {
    let findings = match request.experiment {
        Experiment::Gaussians => gaussians::run(&Bench::new(request, trainer, progress)?)?,
        Experiment::Illustration => illustration::run(&Bench::new(request, trainer, progress)?)?,
        Experiment::Table1 => table1::run(&Bench::new(request, trainer, progress)?)?,
        Experiment::Calibration => calibration::run(&Bench::new(request, trainer, progress)?)?,
        Experiment::SixLabels => six_labels::run(&Bench::new(request, trainer, progress)?)?,
        Experiment::RareToys => rare_toys::run(&Bench::new(request, trainer, progress)?)?,
        Experiment::RareDigits => rare_digits::run(&Bench::new(request, trainer, progress)?)?,
        Experiment::ExistingGan => existing_gan::run(&Bench::new(request, trainer, progress)?)?,
        Experiment::LabelSetToys => label_set_toys::run(&Bench::new(request, trainer, progress)?)?,
        Experiment::Cifar => colour::run(&Bench::new(request, trainer, progress)?, &colour::CIFAR)?,
        Experiment::CelebaBms => {
            colour::run(&Bench::new(request, trainer, progress)?, &colour::BMS)?
        }
        Experiment::CelebaAbmnsw => {
            colour::run(&Bench::new(request, trainer, progress)?, &colour::ABMNSW)?
        }
        Experiment::FacesElsewhere => {
            faces_elsewhere::run(&Bench::new(request, trainer, progress)?)?
        }
        Experiment::Statements => statements::run(&Bench::new(request, trainer, progress)?)?,
        Experiment::UnlabelledDigits => {
            unlabelled_digits::run(&Bench::new(request, trainer, progress)?)?
        }
    };
    report::write(request, findings)
}

/// What an experiment works with.
pub(crate) struct Bench<'a> {
    request: &'a Request<'a>,
    place: Workplace<'a>,
    runtime: Runtime,
    progress: &'a dyn Progress,
}

impl<'a> Bench<'a> {
    fn new(
        request: &'a Request<'a>,
        trainer: Option<&'a dyn Train>,
        progress: &'a dyn Progress,
    ) -> Result<Self, Error> {
        let place = Workplace {
            work: request.work.to_owned(),
            data: request.data,
            trainer,
            progress,
        };
        Ok(Self {
            request,
            place,
            runtime: Runtime::load(request.machine.onnxruntime)?,
            progress,
        })
    }

    /// The seeds to evaluate: those of a stage's run file, or the ones asked for among them.
    fn seeds(&self, stage: &Stage) -> Result<Vec<u64>, Error> {
        let known = stages::outline(stage).seeds;
        let Some(wanted) = self.request.seeds else {
            return Ok(known);
        };
        match wanted.iter().find(|seed| !known.contains(seed)) {
            // In the order of the run file, each once.
            None => Ok(known
                .into_iter()
                .filter(|seed| wanted.contains(seed))
                .collect()),
            Some(&seed) => {
                let known = results::list(&known);
                Err(Error::UnknownSeed { seed, known })
            }
        }
    }

    /// All stages, finished as far as they are or can be.
    fn finish(&self, stages: &[Stage]) -> Result<Vec<Run>, Error> {
        let runs = stages.iter().map(|stage| self.place.finish(stage));
        let runs: Vec<Option<Run>> = runs.collect::<Result<_, _>>()?;
        let runs: Vec<Run> = runs.into_iter().flatten().collect();
        stages::check_generators(&runs)?;
        Ok(runs)
    }

    /// An evaluator whose banks serve chains of so many steps.
    fn evaluator(&self, steps: NonZeroUsize) -> Evaluator<'_> {
        Evaluator {
            machine: &self.request.machine,
            runtime: self.runtime.clone(),
            samples: self.request.samples,
            bank: self.request.samples.saturating_mul(steps),
            most_calls: evaluation::MOST_CALLS,
            measured: self.request.work.join("evaluations"),
            work: self.request.work.to_owned(),
            progress: self.progress,
            mined: RefCell::default(),
        }
    }
}

/// The finished stage of a name.
fn stage<'r>(runs: &'r [Run], name: &str) -> Option<&'r Run> {
    runs.iter().find(|run| run.name == name)
}

#[cfg(test)]
mod tests {
    use s2m_runs::{ClassifierSettings, GanSettings, RefereeSettings};
    use serde::de::DeserializeOwned;
    use toml::Table as Toml;

    use super::*;
    use s2m_fit::trainer::Kind;

    fn experiments() -> [(&'static str, &'static [Stage]); 6] {
        [
            ("faces-elsewhere", &faces_elsewhere::REFEREES),
            ("calibration", &calibration::STAGES),
            ("six-labels", &six_labels::STAGES),
            ("gaussians", gaussians::tests::ALL),
            ("illustration", illustration::tests::ALL),
            ("table1", table1::tests::ALL),
        ]
    }

    #[test]
    fn templates_have_known_keys_and_data_that_can_be_read() {
        for (name, stages) in experiments() {
            for stage in stages {
                let at = format!("experiments/{name}/{}.toml", stage.name);
                let file: Toml = stage
                    .template
                    .parse()
                    .unwrap_or_else(|e| panic!("{at}: {e}"));
                let read = |what: Result<(), String>| what.unwrap_or_else(|e| panic!("{at}: {e}"));
                match stage.kind {
                    Kind::Classifier => read(checked(file, ClassifierSettings::check)),
                    Kind::Referee => read(checked(file, RefereeSettings::check)),
                    Kind::Gan => read(checked(file, GanSettings::check)),
                }
            }
        }
    }

    /// Reads a run file as what it is, and asks whether it can be followed.
    fn checked<T: DeserializeOwned>(
        file: Toml,
        check: impl Fn(&T) -> Result<(), s2m_runs::Error>,
    ) -> Result<(), String> {
        let settings: T = file.try_into().map_err(|e| e.to_string())?;
        check(&settings).map_err(|e| e.to_string())
    }

    #[test]
    fn every_classifier_is_of_a_generator_that_is_trained_before_it() {
        for (name, stages) in experiments() {
            for (at, stage) in stages.iter().enumerate() {
                let file = stages::outline(stage);
                let Some(gan) = file.gan else {
                    assert_ne!(stage.kind, Kind::Classifier);
                    continue;
                };
                let before = stages[..at]
                    .iter()
                    .find(|before| gan == Path::new(before.name));
                let before = before.unwrap_or_else(|| panic!("{name}: {}", gan.display()));
                for data in file.only {
                    let there = stages::outline(before).recipe(&data).is_some();
                    assert!(there, "{name}: {data}");
                }
            }
        }
    }

    #[test]
    fn all_stages_of_an_experiment_have_the_same_seeds() {
        for (name, stages) in experiments() {
            let gans = stages.iter().filter(|stage| stage.kind == Kind::Gan);
            for stage in gans {
                let seeds = stages::outline(stage).seeds;
                assert_eq!(seeds, [0, 1, 2], "{name}: {}", stage.name);
            }
        }
    }

    #[test]
    fn an_unknown_experiment_is_named_with_those_there_are() {
        assert_eq!(
            Experiment::parse("table2").unwrap_err().to_string(),
            "unknown experiment `table2`\nhint: the experiments are gaussians, illustration, table1, calibration, six-labels, rare-toys, rare-digits, existing-gan, unlabelled-digits, label-set-toys, cifar, celeba-bms, celeba-abmnsw, faces-elsewhere, statements"
        );
        for experiment in Experiment::ALL {
            assert_eq!(Experiment::parse(experiment.name()).unwrap(), experiment);
        }
    }
}
