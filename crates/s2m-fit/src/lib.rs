//! `s2m fit`: classifiers for somebody's generator and somebody's labels, as a bundle.
//!
//! `schedule` has the run files, `choice` what is kept.
//!
//! Works out what the generator takes and gives, brings the data to its size, writes the run file that
//! `s2m-train classifier` trains by, and takes the bundle from there. A run that was stopped goes on.
#![warn(missing_docs)]

pub mod calibrate;
mod choice;
mod error;
mod own_data;
mod request;
mod schedule;
pub mod trainer;

use std::fs;
use std::path::{Path, PathBuf};

use s2m::models;
use s2m::output::{self, Existing, Lock, Plan, Staging, write_whole};
use s2m_calibrate::{Calibrated, CalibrationSettings, Engine};
use s2m_data::recipe::{LabellingRecipe, Loaded};
use s2m_model::bundle::{Bundle, MANIFEST};
use s2m_model::manifest::{GeneratorEntry, Prior};
use s2m_model::networks::{Device, RunSettings};
use s2m_model::probe::{Probed, Said, probe, with_weights};
use s2m_model::runtime::Runtime;
use s2m_runs::folder;
use s2m_show::progress::Progress;
use serde::Serialize;

use crate::trainer::{Ended, Job, Kind, Train};

use choice::Trained;
pub use error::Error;
pub use request::{Backbone, Joint, Network, Request, Training};
pub use s2m_runs::Way;
pub use s2m_runs::classifier::DEFAULT_ITEMS;
pub use s2m_runs::parts::Stored;
use schedule::Schedule;

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
    let work = work_folder(request, &name);
    // First, so that what a killed run left of it goes even where the bundle is there already.
    let _lock = Lock::beside(&work)?;
    let staging = begin(request)?;
    let settings = CalibrationSettings {
        likeness: request.training.likeness,
        generated: request.training.generated,
        ..CalibrationSettings::default()
    };
    settings.check()?;
    let runtime = Runtime::load(request.onnxruntime)?;
    let generator = Described::of(request, &runtime)?;
    let mut recipe = own_data::recipe(request.data, &name, &labelling(request)?)?;
    let mut notes = own_data::set_size(&mut recipe.source, &generator.first.entry);
    progress.begin("reading the data", None);
    let data = recipe.load()?;
    progress.end();
    check(&generator.first.entry, &data)?;
    let probed = generator.for_data(&data, &runtime)?;
    let mut decided = probed.decided.clone();
    decided.push(about(&data));
    for line in &decided {
        progress.note(line);
    }
    notes.extend(data.notes.iter().cloned());
    for note in &notes {
        progress.note(note);
    }
    write_work(&work, &probed)?;
    if let Some(Backbone::Of(model)) = &request.training.backbone {
        let text = format!(
            "the trunk of `{}` may have seen these items with their labels; label sets learnt on it can be too sure",
            model.display()
        );
        progress.note(&text);
        notes.push(text);
    }
    let schedule = Schedule::new(request, &data, &work, trainer.device())?;
    let ways = schedule.ways(request.training.way);
    let mut bundles = Vec::new();
    for (at, &way) in ways.iter().enumerate() {
        if ways.len() > 1 {
            progress.note(&format!("the discriminator variant `{}`", way.name()));
        }
        let run_file = work.join(format!("{}.toml", way.name()));
        let text = schedule.run_file(way, &recipe, &work)?;
        write_whole(&run_file, text.as_bytes())?;
        let out = work.join(way.name());
        let job = Job {
            kind: Kind::Classifier,
            run_file: &run_file,
            out: &out,
            further: ways.len() - 1 - at,
        };
        if trainer.train(&job)? == Ended::No {
            return Ok(Answer::No);
        }
        let made = out.join(folder::bundle(&recipe.name, request.training.seed));
        bundles.push(made);
    }
    let trained = Trained {
        ways: &ways,
        bundles: &bundles,
        data: &data,
    };
    let on_cuda = trainer.device() == Device::Cuda && runtime.has_cuda();
    let engine = Engine {
        runtime: &runtime,
        run: RunSettings {
            device: if on_cuda { Device::Cuda } else { Device::Cpu },
            ..RunSettings::default()
        },
    };
    let kept = choice::keep(&trained, &settings, &engine, progress)?;
    if ways.len() > 1 {
        progress.note(&kept.why);
        decided.push(kept.why);
    }
    publish(&bundles[kept.at], staging, &name, kept.calibrated)?;
    Ok(Answer::Fitted(Fitted {
        bundle: request.out.to_owned(),
        decided,
        notes,
    }))
}

/// The bundle in the making, locked for as long as that takes.
fn begin(request: &Request<'_>) -> Result<Staging, Error> {
    Ok(Staging::open(&Plan {
        target: request.out,
        kind: output::Kind::Bundle,
        identity: "fit",
        existing: if request.replace {
            Existing::Replace
        } else {
            Existing::Keep
        },
        inputs: &inputs(request),
    })?)
}

/// What a request reads, which is never replaced.
fn inputs<'a>(request: &'a Request<'_>) -> Vec<&'a Path> {
    let backbone = request.training.backbone.as_ref().map(|from| match from {
        Backbone::File { file: path, .. } | Backbone::Of(path) => path.as_path(),
    });
    let given = [request.generator, Some(request.data), backbone];
    given.into_iter().flatten().collect()
}

/// The bundle's name, out of its folder's.
fn bundle_name(request: &Request<'_>) -> Result<String, Error> {
    let out = request.out;
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".s2m").unwrap_or(&name).to_owned();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(plain) {
        return Err(Error::Name(out.to_owned()));
    }
    Ok(name)
}

/// A generator that was looked at once, to learn what it makes.
struct Described {
    file: String,
    bytes: Vec<u8>,
    said: Said,
    first: Probed,
}

impl Described {
    fn of(request: &Request<'_>, runtime: &Runtime) -> Result<Self, Error> {
        let (file, bytes, said) = match (request.generator, &request.training.backbone) {
            (Some(path), _) => {
                let bytes = s2m_model::disk::read_plain(path).map_err(|e| Error::Read {
                    path: path.to_owned(),
                    reason: e.to_string(),
                })?;
                let bytes = with_weights(path, bytes)?;
                (path.display().to_string(), bytes, request.said.clone())
            }
            (None, Some(Backbone::Of(model))) => inside(model)?,
            (None, _) => return Err(Error::NoGenerator),
        };
        // How many labels there are is not known yet; the size of an item does not depend on it.
        let without_class = Said {
            class_input: None,
            ..said.clone()
        };
        let first = probe(&file, bytes.clone(), 1, &without_class, runtime);
        Ok(Self {
            first: first?,
            file,
            bytes,
            said,
        })
    }

    /// Looks again, now that labels are known and what pictures look like if items come out flat.
    fn for_data(&self, data: &Loaded, runtime: &Runtime) -> Result<Probed, Error> {
        let (bytes, labels) = (self.bytes.clone(), data.train.labels.len());
        let picture = match *data.train.items.shape {
            [channels, height, width] => Some([height, width, channels]),
            _ => self.said.picture,
        };
        let said = Said {
            picture,
            ..self.said.clone()
        };
        Ok(probe(&self.file, bytes, labels, &said, runtime)?)
    }
}

/// How the labels came about, where nothing is said too.
fn labelling(request: &Request<'_>) -> Result<LabellingRecipe, Error> {
    match (&request.labelling, &request.training.backbone) {
        (Some(labelling), _) => Ok(labelling.clone()),
        (None, Some(Backbone::Of(model))) => Ok(own_data::labelling(models::open(model)?.as_ref())),
        (None, _) => Ok(LabellingRecipe::OneOf { weights: None }),
    }
}

/// The generator of a bundle, and what the bundle says about it.
fn inside(model: &Path) -> Result<(String, Vec<u8>, Said), Error> {
    let bundle = models::open(model)?;
    if bundle.classes().is_some() {
        return Err(Error::Conditional);
    }
    let GeneratorEntry {
        file,
        latents,
        output,
        ..
    } = bundle.manifest().generator.clone();
    let picture = output.picture_size();
    let uniform = latents.iter().filter(|l| l.prior == Prior::Uniform);
    let said = Said {
        uniform: uniform.map(|latent| latent.input.clone()).collect(),
        class_input: None,
        output: Some(output.name),
        layout: output.layout,
        range: output.range,
        picture,
    };
    let files = models::files(model)?;
    let bytes = files.into_iter().find(|(name, _)| *name == file);
    let (_, bytes) = bytes.ok_or(Error::NoGenerator)?;
    Ok((format!("{} of {}", file, model.display()), bytes, said))
}

/// Generator and data must have the same shape, or as many numbers where pictures come out flat.
fn check(generator: &GeneratorEntry, data: &Loaded) -> Result<(), Error> {
    let made = match generator.output.picture_size() {
        Some([height, width, channels]) => vec![channels, height, width],
        None => generator.output.shape.clone(),
    };
    let held = &data.train.items.shape;
    let flat = held.len() == 3 && made == [held.iter().product::<usize>()];
    if made == *held || flat {
        return Ok(());
    }
    Err(Error::Mismatch {
        made: format!("items of shape {made:?}"),
        held: format!("items of shape {held:?}"),
    })
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

/// Writes what training starts from.
fn write_work(work: &Path, probed: &Probed) -> Result<(), Error> {
    fs::create_dir_all(work).map_err(Error::write(work))?;
    write_whole(&work.join(GENERATOR), &probed.bytes)?;
    let entry = toml::to_string(&probed.entry).map_err(|e| Error::Setting(e.to_string()))?;
    Ok(write_whole(
        &work.join(folder::GENERATOR),
        entry.as_bytes(),
    )?)
}

/// The generator, in the folder of the training; what is said about it lies beside it.
const GENERATOR: &str = "generator.onnx";

/// Puts a finished bundle where it was asked for, under its name and with another calibration where it
/// has one; it appears whole.
fn publish(made: &Path, staging: Staging, name: &str, calibrated: Calibrated) -> Result<(), Error> {
    let bundle = Bundle::open(made)?;
    let (mut manifest, mut found) = (calibrated.manifest(bundle.manifest()), calibrated.found);
    name.clone_into(&mut manifest.name);
    let text = toml::to_string(&manifest).map_err(|e| Error::Setting(e.to_string()))?;
    name.clone_into(&mut found.model);
    let mut changed = found.files()?.to_vec();
    changed.push((MANIFEST, text));
    let mut files = models::files(made)?;
    files.retain(|(name, _)| changed.iter().all(|(other, _)| name != other));
    files.extend(
        changed
            .into_iter()
            .map(|(name, text)| (name.to_owned(), text.into_bytes())),
    );
    Ok(s2m_model::bundle::finish(staging, &files)?)
}
