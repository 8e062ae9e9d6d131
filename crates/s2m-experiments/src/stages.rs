//! The training stages of an experiment: run files out of templates, finished stages reused,
//! unfinished ones resumed.
//!
//! A template is a run file as it stands in the repository. Only its folders are changed: data to
//! where the data lie, `gan` to the stage of that name. A stage is finished when its folder holds
//! `done.json`; it is then used without asking the trainer, so that results can be evaluated where
//! nothing can be trained.

use std::fs;
use std::path::{Path, PathBuf};

use s2m::output::write_whole;
use s2m::progress::Progress;
use s2m_fit::trainer::{Ended, Job, Kind, Train};
use s2m_runs::folder::{self, DONE, GENERATOR, RUN_FILE};
use s2m_runs::outline::FREE;
use s2m_runs::{Done, Outline};
use toml::{Table, Value};

use crate::Error;

/// One training run of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stage {
    /// Its name, and that of its folder.
    pub(crate) name: &'static str,
    /// What is trained.
    pub(crate) kind: Kind,
    /// Its run file.
    pub(crate) template: &'static str,
}

/// A finished stage.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    pub(crate) name: &'static str,
    pub(crate) folder: PathBuf,
    pub(crate) done: Done,
    /// Its run file, with the folders of this machine.
    pub(crate) file: Outline,
}

impl Run {
    /// The entry of a generator, where it was trained.
    pub(crate) fn generator(&self, data: &str, seed: u64, file: &str) -> Option<PathBuf> {
        let path = self.folder.join(folder::replica(data, seed)).join(file);
        path.is_file().then_some(path)
    }

    /// A bundle, where it was trained.
    pub(crate) fn bundle(&self, data: &str, seed: u64) -> Option<PathBuf> {
        let path = self.folder.join(folder::bundle(data, seed));
        path.is_dir().then_some(path)
    }
}

/// Where the stages of an experiment are run.
pub(crate) struct Workplace<'a> {
    /// Folder of all stages.
    pub(crate) work: PathBuf,
    /// Folder of the data sets.
    pub(crate) data: Option<&'a Path>,
    /// Who trains what is not finished; nobody to leave it so.
    pub(crate) trainer: Option<&'a dyn Train>,
    pub(crate) progress: &'a dyn Progress,
}

impl Workplace<'_> {
    /// Finishes a stage; none where it is unfinished and stays so.
    pub(crate) fn finish(&self, stage: &Stage) -> Result<Option<Run>, Error> {
        self.finish_as(stage, stage.name, self.placed(stage)?)
    }

    /// The same for one seed alone, in a folder of its own, on the generator of that seed.
    pub(crate) fn finish_seed(&self, stage: &Stage, seed: u64) -> Result<Option<Run>, Error> {
        let mut file = self.placed(stage)?;
        if let Some(seeds) = file.get_mut("seeds") {
            *seeds = Value::Array(vec![Value::Integer(seed.cast_signed())]);
        }
        if let Some(Value::String(gan)) = file.get_mut("gan") {
            *gan = seeded(gan, seed);
        }
        self.finish_as(stage, &seeded(stage.name, seed), file)
    }

    fn finish_as(&self, stage: &Stage, name: &str, file: Table) -> Result<Option<Run>, Error> {
        let run_file = self.work.join(format!("{name}.toml"));
        let folder = self.work.join(name);
        fs::create_dir_all(&self.work).map_err(Error::write(&self.work))?;
        write_whole(&run_file, file.to_string().as_bytes())?;
        if !folder.join(DONE).is_file() {
            let Some(trainer) = self.trainer else {
                return Ok(None);
            };
            let job = Job {
                kind: stage.kind,
                run_file: &run_file,
                out: &folder,
                further: 0,
            };
            let note = format!("training run `{name}`, in {}", folder.display());
            self.progress.note(&note);
            let ended = trainer.train(&job)?;
            if ended == Ended::No || !folder.join(DONE).is_file() {
                return Err(Error::StageFailed { stage: stage.name });
            }
        }
        let done = read_done(&folder.join(DONE))?;
        check_same(stage.name, &file, &folder)?;
        Ok(Some(Run {
            name: stage.name,
            folder,
            done,
            file: outlined(file),
        }))
    }

    /// What the run file of a stage says.
    pub(crate) fn run_file(&self, stage: &Stage) -> Result<Outline, Error> {
        Ok(outlined(self.placed(stage)?))
    }

    /// The run file: the template with the folders of this machine.
    fn placed(&self, stage: &Stage) -> Result<Table, Error> {
        let mut file = template(stage);
        if let Some(Value::String(gan)) = file.get_mut("gan") {
            *gan = text(&absolute(&self.work.join(&gan))?);
        }
        for data in data_tables(&mut file) {
            let source = data.get_mut("source").and_then(Value::as_table_mut);
            if let Some(Value::String(folder)) = source.and_then(|s| s.get_mut("folder")) {
                *folder = text(&absolute(&self.data_folder(folder)?)?);
            }
        }
        Ok(file)
    }

    fn data_folder(&self, name: &str) -> Result<PathBuf, Error> {
        let data = self.data.ok_or(Error::NoData)?;
        let folder = data.join(name);
        if folder.is_dir() {
            return Ok(folder);
        }
        let (name, data) = (name.to_owned(), data.to_owned());
        Err(Error::NoDataFolder { name, data })
    }
}

/// The name of a stage that is trained for one seed.
pub(crate) fn seeded(name: &str, seed: u64) -> String {
    format!("{name}-seed-{seed}")
}

/// Makes sure that classifiers were trained for the generators that are there now.
pub(crate) fn check_generators(runs: &[Run]) -> Result<(), Error> {
    let table = |path: &Path| read_text(path).ok()?.parse::<Table>().ok();
    for run in runs {
        let Some(gan) = &run.file.gan else {
            continue;
        };
        let Some(gan) = runs.iter().find(|other| gan.ends_with(other.name)) else {
            continue;
        };
        for &seed in &gan.file.seeds {
            for recipe in gan.file.data() {
                let name = &recipe.name;
                let ours = run
                    .bundle(name, seed)
                    .and_then(|b| table(&b.join("model.toml")));
                let theirs = gan.generator(name, seed, GENERATOR);
                let theirs = theirs.and_then(|path| table(&path));
                if let (Some(ours), Some(theirs)) = (ours, theirs)
                    && ours.get("generator").and_then(|g| g.get("sha256")) != theirs.get("sha256")
                {
                    return Err(Error::OtherGenerator {
                        stage: run.name,
                        gan: gan.name,
                        data: name.clone(),
                        seed,
                    });
                }
            }
        }
    }
    Ok(())
}

/// What the template of a stage says.
pub(crate) fn outline(stage: &Stage) -> Outline {
    outlined(template(stage))
}

/// A template, parsed.
fn template(stage: &Stage) -> Table {
    stage
        .template
        .parse()
        .expect("a test parses every template")
}

fn outlined(file: Table) -> Outline {
    Outline::of(file).expect("a test reads every template")
}

/// The data sets of a run file: a list for generators, one for a referee.
fn data_tables(file: &mut Table) -> impl Iterator<Item = &mut Table> {
    let (list, one) = match file.get_mut("data") {
        Some(Value::Array(list)) => (Some(list), None),
        Some(Value::Table(one)) => (None, Some(one)),
        _ => (None, None),
    };
    let list = list.into_iter().flatten().filter_map(Value::as_table_mut);
    list.chain(one)
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|e| Error::Read {
        path: path.to_owned(),
        reason: e.to_string(),
    })
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn read_text(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|e| Error::Read {
        path: path.to_owned(),
        reason: e.to_string(),
    })
}

fn read_done(path: &Path) -> Result<Done, Error> {
    serde_json::from_str(&read_text(path)?).map_err(|e| Error::Read {
        path: path.to_owned(),
        reason: e.to_string(),
    })
}

/// Makes sure that a finished stage was run with our run file.
fn check_same(stage: &'static str, ours: &Table, folder: &Path) -> Result<(), Error> {
    let path = folder.join(RUN_FILE);
    let theirs: Table = read_text(&path)?.parse().map_err(|e| Error::Read {
        path,
        reason: format!("{e}"),
    })?;
    match difference(&Value::Table(ours.clone()), &Value::Table(theirs), "") {
        None => Ok(()),
        Some(difference) => Err(Error::OtherRun {
            stage,
            folder: folder.to_owned(),
            difference,
        }),
    }
}

/// The first thing that both files state and that is not the same in them.
///
/// A resolved file states more than ours, and what it leaves out cannot be compared.
fn difference(ours: &Value, theirs: &Value, at: &str) -> Option<String> {
    match (ours, theirs) {
        (Value::Table(ours), Value::Table(theirs)) => ours
            .iter()
            .filter(|(key, _)| !FREE.contains(&key.as_str()))
            .filter_map(|(key, value)| Some((key, value, theirs.get(key)?)))
            .find_map(|(key, ours, theirs)| difference(ours, theirs, &joined(at, key))),
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let pairs = ours.iter().zip(theirs).enumerate();
            let mut pairs = pairs.map(|(i, (o, t))| difference(o, t, &joined(at, &i.to_string())));
            pairs.find_map(|found| found)
        }
        (ours, theirs) if equal(ours, theirs) => None,
        (ours, theirs) => Some(format!("{at} is {theirs} there and {ours} here")),
    }
}

fn joined(at: &str, key: &str) -> String {
    if at.is_empty() {
        key.to_owned()
    } else {
        format!("{at}.{key}")
    }
}

/// Whether two values are the same; 10 and 10.0 are.
fn equal(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Integer(whole) => Some(*whole as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    };
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use s2m::progress::Silent;

    const STAGE: Stage = Stage {
        name: "gan",
        kind: Kind::Gan,
        template: r#"
            seeds = [0, 1]
            steps = 100
            objective = { kind = "wgan-gp", penalty = 10 }
            [[data]]
            name = "mnist-even"
            source = { format = "idx", folder = "mnist" }
            classes = [{ name = "A", of = [0, 1] }, { name = "B", of = [1] }]
            labelling = { model = "one-of" }
        "#,
    };

    const CLASSIFIER: Stage = Stage {
        name: "classifier",
        kind: Kind::Classifier,
        template: "gan = \"gan\"\nepochs = 1\n",
    };

    /// A trainer that notes what it was asked, and finishes or does not.
    struct Fake {
        asked: RefCell<Vec<String>>,
        finishes: bool,
    }

    impl Fake {
        fn new(finishes: bool) -> Self {
            Self {
                asked: RefCell::default(),
                finishes,
            }
        }
    }

    impl Train for Fake {
        fn train(&self, job: &Job<'_>) -> Result<Ended, s2m_fit::Error> {
            let name = job.out.file_name().unwrap().to_string_lossy();
            let resumed = job.out.join("checkpoint.safetensors").exists();
            let note = format!("{} {name} resumed: {resumed}", job.kind.name());
            self.asked.borrow_mut().push(note);
            if !self.finishes {
                return Ok(Ended::No);
            }
            finish(job.out, &fs::read_to_string(job.run_file).unwrap());
            Ok(Ended::Done)
        }
    }

    fn finish(folder: &Path, resolved: &str) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(RUN_FILE), resolved).unwrap();
        let done = r#"{"steps": 100, "seconds": 2.5, "device": "cpu", "more": 1}"#;
        fs::write(folder.join(DONE), done).unwrap();
    }

    struct Place {
        root: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir_all(root.path().join("data/mnist")).unwrap();
            Self { root }
        }

        fn finish(&self, stage: &Stage, trainer: Option<&dyn Train>) -> Result<Option<Run>, Error> {
            let data = self.root.path().join("data");
            let place = Workplace {
                work: self.root.path().join("work"),
                data: Some(&data),
                trainer,
                progress: &Silent,
            };
            place.finish(stage)
        }

        fn work(&self, name: &str) -> PathBuf {
            self.root.path().join("work").join(name)
        }
    }

    #[test]
    fn a_stage_is_trained_once_and_then_reused() {
        let place = Place::new();
        let trainer = Fake::new(true);
        for _ in 0..2 {
            let run = place.finish(&STAGE, Some(&trainer)).unwrap().unwrap();
            assert_eq!(run.done.steps, Some(100));
            assert_eq!(run.done.device.as_deref(), Some("cpu"));
        }
        assert_eq!(*trainer.asked.borrow(), ["gan gan resumed: false"]);
    }

    #[test]
    fn an_unfinished_stage_goes_back_to_the_trainer_with_what_it_left() {
        let place = Place::new();
        fs::create_dir_all(place.work("gan")).unwrap();
        fs::write(place.work("gan/checkpoint.safetensors"), "x").unwrap();
        let trainer = Fake::new(true);
        place.finish(&STAGE, Some(&trainer)).unwrap();
        assert_eq!(*trainer.asked.borrow(), ["gan gan resumed: true"]);
    }

    #[test]
    fn without_a_trainer_unfinished_stages_stay_so_and_their_run_files_are_there() {
        let place = Place::new();
        assert_eq!(place.finish(&STAGE, None).unwrap(), None);
        let text = fs::read_to_string(place.work("gan.toml")).unwrap();
        assert_eq!(outlined(text.parse().unwrap()).seeds, [0, 1]);
    }

    #[test]
    fn a_stage_that_ends_without_a_result_is_named() {
        let place = Place::new();
        let error = place.finish(&STAGE, Some(&Fake::new(false))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "training run `gan` ended without a result; what the trainer said is above"
        );
    }

    #[test]
    fn only_folders_are_changed_in_a_template() {
        let place = Place::new();
        let trainer = Fake::new(true);
        let run = place.finish(&STAGE, Some(&trainer)).unwrap().unwrap();
        let recipe = run.file.recipe("mnist-even").unwrap();
        let folder = place.root.path().join("data/mnist");
        assert_eq!(recipe.source, s2m_data::recipe::Source::Idx { folder });
        let theirs = fs::read_to_string(place.work("gan.toml")).unwrap();
        let theirs = Value::Table(theirs.parse().unwrap());
        let ours = Value::Table(template(&STAGE));
        assert_eq!(difference(&ours, &theirs, ""), None);
        let run = place.finish(&CLASSIFIER, Some(&trainer)).unwrap().unwrap();
        assert_eq!(run.file.gan, Some(place.work("gan")));
    }

    #[test]
    fn a_finished_stage_of_another_run_file_is_refused_and_says_what_differs() {
        let place = Place::new();
        let resolved = |from: &str, to: &str| STAGE.template.replace(from, to);
        let outcome = |text: &str| {
            finish(&place.work("gan"), text);
            place.finish(&STAGE, None)
        };
        for (from, to, found) in [
            ("steps = 100", "steps = 7", "steps is 7 there and 100 here"),
            (
                "penalty = 10",
                "penalty = 1.0",
                "objective.penalty is 1.0 there and 10 here",
            ),
            (
                "of = [1]",
                "of = [0]",
                "data.0.classes.1.of.0 is 0 there and 1 here",
            ),
        ] {
            let error = outcome(&resolved(from, to)).unwrap_err().to_string();
            let folder = place.work("gan").display().to_string();
            assert_eq!(
                error,
                format!(
                    "training run `gan` was run in `{folder}` with another run file: {found}\nhint: remove that folder, or choose another --work"
                )
            );
        }
        // More seeds, other folders, defaults filled in and 10.0 for 10 are the same run.
        for (from, to) in [
            ("seeds = [0, 1]", "seeds = [0]"),
            ("\"mnist\"", "\"/elsewhere/mnist\""),
            ("penalty = 10", "penalty = 10.0"),
            ("steps = 100", "steps = 100\nbatch = 64"),
        ] {
            assert!(outcome(&resolved(from, to)).unwrap().is_some(), "{to}");
        }
    }

    #[test]
    fn missing_data_are_named_with_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        let message = |data: Option<&Path>| {
            let place = Workplace {
                work: root.path().join("work"),
                data,
                trainer: None,
                progress: &Silent,
            };
            place.finish(&STAGE).unwrap_err().to_string()
        };
        assert_eq!(
            message(None),
            "this experiment needs images\nhint: pass --data DIR, a folder with `mnist` and `fashion-mnist` (idx files, plain or gzip), and `cifar10` (its binary version) for colour"
        );
        assert_eq!(
            message(Some(Path::new("/nowhere"))),
            "there is no folder `mnist` in `/nowhere`\nhint: pass --data DIR, a folder with `mnist` and `fashion-mnist` (idx files, plain or gzip), and `cifar10` (its binary version) for colour"
        );
        assert!(!root.path().join("work").exists());
    }
}
