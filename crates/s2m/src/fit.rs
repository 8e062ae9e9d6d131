//! `s2m fit`: classifiers for somebody's generator and somebody's labels, as a bundle.
//!
//! Works out what the generator takes and gives, brings the data to its size, writes the run file that
//! `s2m-train classifier` trains by, and takes the bundle from there. A run that was stopped goes on.

use std::fs;
use std::path::{Path, PathBuf};

use s2m_data::recipe::{DataRecipe, LabellingRecipe, Loaded};
use s2m_model::bundle::{Bundle, MANIFEST};
use s2m_model::manifest::GeneratorEntry;
use s2m_model::probe::{ProbeError, Probed, Said, probe};
use s2m_model::runtime::Runtime;
use serde::Serialize;
use thiserror::Error;

use crate::error::Error;
use crate::output::write_whole;
use crate::own_data;
use crate::progress::Progress;
use crate::trainer::{Ended, Job, Kind, Train};

/// Why nothing can be fitted.
#[derive(Debug, Error)]
pub enum FitError {
    /// The generator is not usable.
    #[error(transparent)]
    Generator(#[from] ProbeError),
    /// Generator and data do not go together.
    #[error("the generator makes {made}, the data holds {held}")]
    Mismatch {
        /// What the generator makes.
        made: String,
        /// What the data holds.
        held: String,
    },
    /// The name of the bundle is none.
    #[error("`{}` is no name for a bundle\nhint: give --out NAME.s2m", .0.display())]
    Name(PathBuf),
    /// The bundle is there already.
    #[error("`{}` already exists\nhint: choose another name, or pass --force to replace it", .0.display())]
    Exists(PathBuf),
}

/// One request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The generator, an ONNX file.
    pub generator: &'a Path,
    /// A folder of data, or a recipe.
    pub data: &'a Path,
    /// The bundle to make.
    pub out: &'a Path,
    /// Folder of the training; beside the bundle where left out.
    pub work: Option<&'a Path>,
    /// What a person says about the generator.
    pub said: Said,
    /// How the labels came about.
    pub labelling: LabellingRecipe,
    /// How classifiers are trained.
    pub training: Training,
    /// Explicit path of ONNX Runtime.
    pub onnxruntime: Option<&'a Path>,
    /// Replace a bundle of that name.
    pub replace: bool,
}

/// How classifiers are trained; what is left out is chosen by the items.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Training {
    /// Passes over the training items.
    pub epochs: Option<u64>,
    /// Items per step.
    pub batch: Option<u64>,
    /// Generated items to train on.
    pub items: Option<u32>,
    /// Seed of first weights and generated items.
    pub seed: u64,
}

/// What was decided and made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fitted {
    /// The bundle.
    pub bundle: PathBuf,
    /// Decisions about the generator and the data, a line each.
    pub decided: Vec<String>,
    /// What to know about the data.
    pub notes: Vec<String>,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The bundle is there.
    Fitted(Fitted),
    /// The trainer has said why there is none.
    No,
}

/// Fits classifiers and writes the bundle.
pub fn fit(
    request: &Request<'_>,
    trainer: &dyn Train,
    progress: &dyn Progress,
) -> Result<Answer, Error> {
    let name = bundle_name(request)?;
    let runtime = Runtime::load(request.onnxruntime)?;
    let generator = Described::of(request, &runtime)?;
    let mut recipe = own_data::recipe(request.data, &name, &request.labelling)?;
    let mut notes = own_data::set_size(&mut recipe.source, &generator.first.entry);
    progress.begin("reading the data", None);
    let data = recipe.load()?;
    progress.end();
    check(&generator.first.entry, &data)?;
    let probed = generator.with_labels(request, data.train.labels.len(), &runtime)?;
    let mut decided = probed.decided.clone();
    decided.push(about(&data));
    for line in &decided {
        progress.note(line);
    }
    notes.extend(data.notes.iter().cloned());
    for note in &notes {
        progress.note(note);
    }
    let work = work_folder(request, &name);
    let run_file = write_work(&work, &probed, &recipe, &data, &request.training)?;
    drop(data);
    let out = work.join("classifier");
    let job = Job {
        kind: Kind::Classifier,
        run_file: &run_file,
        out: &out,
    };
    if trainer.train(&job)? == Ended::No {
        return Ok(Answer::No);
    }
    let made = out.join(format!(
        "{}-seed-{}.s2m",
        recipe.name, request.training.seed
    ));
    publish(&made, request.out, &name)?;
    Ok(Answer::Fitted(Fitted {
        bundle: request.out.to_owned(),
        decided,
        notes,
    }))
}

/// The bundle's name, out of its folder's.
fn bundle_name(request: &Request<'_>) -> Result<String, Error> {
    let out = request.out;
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".s2m").unwrap_or(&name).to_owned();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(plain) {
        return Err(FitError::Name(out.to_owned()).into());
    }
    if out.exists() && !request.replace {
        return Err(FitError::Exists(out.to_owned()).into());
    }
    Ok(name)
}

/// A generator that was looked at once, to learn what it makes.
struct Described {
    file: String,
    bytes: Vec<u8>,
    first: Probed,
}

impl Described {
    fn of(request: &Request<'_>, runtime: &Runtime) -> Result<Self, Error> {
        let file = request.generator.display().to_string();
        let bytes = fs::read(request.generator).map_err(|e| Error::Read {
            path: request.generator.to_owned(),
            reason: e.to_string(),
        })?;
        // How many labels there are is not known yet; the size of an item does not depend on it.
        let said = Said {
            class_input: None,
            ..request.said.clone()
        };
        let first = probe(&file, bytes.clone(), 1, &said, runtime).map_err(FitError::from)?;
        Ok(Self { file, bytes, first })
    }

    fn with_labels(
        &self,
        request: &Request<'_>,
        labels: usize,
        runtime: &Runtime,
    ) -> Result<Probed, Error> {
        let bytes = self.bytes.clone();
        Ok(probe(&self.file, bytes, labels, &request.said, runtime).map_err(FitError::from)?)
    }
}

/// Generator and data must have the same shape.
fn check(generator: &GeneratorEntry, data: &Loaded) -> Result<(), Error> {
    let made = match generator.output.picture_size() {
        Some([height, width, channels]) => vec![channels, height, width],
        None => generator.output.shape.clone(),
    };
    let held = &data.train.items.shape;
    if made == *held {
        return Ok(());
    }
    Err(FitError::Mismatch {
        made: format!("items of shape {made:?}"),
        held: format!("items of shape {held:?}"),
    }
    .into())
}

/// What the data is, in a line.
fn about(data: &Loaded) -> String {
    let labels = data.train.labels.names().zip(&data.observed);
    let labels: Vec<String> = labels
        .map(|(name, share)| format!("{name} {:.1} %", 100.0 * share))
        .collect();
    format!(
        "data: {} items for training, {} held out; labels {}",
        data.split.train.len(),
        data.split.validation.len(),
        labels.join(", ")
    )
}

fn work_folder(request: &Request<'_>, name: &str) -> PathBuf {
    request.work.map_or_else(
        || request.out.with_file_name(format!("{name}.fit")),
        Path::to_owned,
    )
}

/// Writes the generator and the run file; returns the latter.
fn write_work(
    work: &Path,
    probed: &Probed,
    recipe: &DataRecipe,
    data: &Loaded,
    training: &Training,
) -> Result<PathBuf, Error> {
    fs::create_dir_all(work).map_err(Error::write(work))?;
    write_whole(&work.join("generator.onnx"), &probed.bytes)?;
    let entry = toml::to_string(&probed.entry).map_err(|e| Error::Setting(e.to_string()))?;
    write_whole(&work.join("generator.toml"), entry.as_bytes())?;
    let run_file = work.join("classifier.toml");
    let text = run_text(work, recipe, data, training)?;
    write_whole(&run_file, text.as_bytes())?;
    Ok(run_file)
}

/// The run file: trunk and schedule by the shape of the items.
fn run_text(
    work: &Path,
    recipe: &DataRecipe,
    data: &Loaded,
    training: &Training,
) -> Result<String, Error> {
    let shape = data.train.items.shape.as_slice();
    let chosen = match shape {
        [_] => Chosen::POINTS,
        [1, 28, 28] => Chosen::DIGITS,
        _ => Chosen::PICTURES,
    };
    let toml =
        |value: &DataRecipe| toml::to_string(value).map_err(|e| Error::Setting(e.to_string()));
    let data_text: String = toml(recipe)?
        .lines()
        .map(|line| match line.strip_prefix('[') {
            Some(rest) => format!("[data.{rest}\n"),
            None => format!("{line}\n"),
        })
        .collect();
    let generator = work.join("generator.toml");
    Ok(format!(
        "# Written by `s2m fit`.\nepochs = {}\nbatch = {}\n{}\n\n[generator]\nfile = {:?}\nitems = {}\nseed = {}\n\n[data]\n{data_text}",
        training.epochs.unwrap_or(chosen.epochs),
        training.batch.unwrap_or(chosen.batch),
        chosen.text,
        generator.display().to_string(),
        training.items.unwrap_or(DEFAULT_ITEMS),
        training.seed,
    ))
}

/// Generated items to train on, unless said otherwise.
pub const DEFAULT_ITEMS: u32 = 50_000;

/// What is chosen for items of one kind.
struct Chosen {
    epochs: u64,
    batch: u64,
    text: &'static str,
}

impl Chosen {
    const POINTS: Self = Self {
        epochs: 30,
        batch: 256,
        text: "network = { kind = \"mlp\", hidden = [256, 256, 256] }\nreal = { fit = \"shared\" }\noptimizer = { kind = \"adam\", learning-rate = 1e-3, schedule = \"cosine\" }",
    };
    const DIGITS: Self = Self {
        epochs: 20,
        batch: 256,
        text: "network = { kind = \"lenet5\" }\nreal = { fit = \"shared\" }\noptimizer = { kind = \"adam\", learning-rate = 1e-3, schedule = \"cosine\" }",
    };
    /// D_v on a trunk that only D_r trained: it would separate real from generated by pixel detail.
    const PICTURES: Self = Self {
        epochs: 30,
        batch: 128,
        text: "network = { kind = \"mobilenet-v2\" }\nreal = { fit = \"frozen\", epochs = 5 }\noptimizer = { kind = \"sgd\", learning-rate = 0.05, momentum = 0.9, schedule = \"cosine\" }\naugment = { flip = true, shift = 4 }",
    };
}

/// Puts the finished bundle where it was asked for, under its name; it appears whole.
fn publish(made: &Path, out: &Path, name: &str) -> Result<(), Error> {
    let bundle = Bundle::open(made)?;
    let mut manifest = bundle.manifest().clone();
    name.clone_into(&mut manifest.name);
    let text = toml::to_string(&manifest).map_err(|e| Error::Setting(e.to_string()))?;
    let mut files = vec![(MANIFEST.to_owned(), text.into_bytes())];
    for file in [&manifest.generator.file, &manifest.classifier.file] {
        let path = made.join(file);
        let bytes = fs::read(&path).map_err(|e| Error::Read {
            path: path.clone(),
            reason: e.to_string(),
        })?;
        files.push((file.clone(), bytes));
    }
    Ok(s2m_model::bundle::write(out, &files)?)
}
