//! `s2m calibrate`: a bundle of one's own or an embedded one, calibrated by data of one's own.

use std::path::{Path, PathBuf};

use s2m::models;
use s2m::output::{Existing, Kind, Lock, Plan, Staging};
use s2m::session::Machine;
use s2m_calibrate::found::Found;
use s2m_calibrate::{CalibrationSettings, Engine, Subject, calibrate};
use s2m_core::labels::Labels;
use s2m_core::setting::Setting;
use s2m_data::recipe::Loaded;
use s2m_model::bundle::Bundle;
use s2m_model::runtime::Runtime;
use s2m_show::progress::Progress;

use crate::Error;
use crate::own_data;

/// One request of `s2m calibrate`.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// A bundle, or the name of an embedded one.
    pub model: &'a Path,
    /// A folder of data, or a recipe.
    pub data: &'a Path,
    /// Fully labelled data, or none.
    pub audit: Option<&'a Path>,
    /// Where the calibrated bundle goes; in place where left out.
    pub out: Option<&'a Path>,
    /// Replace a bundle of that name.
    pub replace: bool,
    /// None of the data was trained on, so that all of it is held out.
    pub all_held_out: bool,
    /// How to choose.
    pub settings: CalibrationSettings,
    /// How networks run.
    pub machine: Machine<'a>,
}

/// What was calibrated.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// Where the bundle is.
    pub bundle: PathBuf,
    /// What led to it.
    pub found: Found,
}

/// Calibrates a bundle by a request, and writes it.
pub fn request(request: &Request<'_>, progress: &dyn Progress) -> Result<Done, Error> {
    request.settings.check()?;
    let folder = models::folder(request.model);
    let Some(out) = request.out.map(Path::to_owned).or_else(|| folder.clone()) else {
        models::open(request.model)?;
        return Err(Error::Setting(format!(
            "`{}` is embedded in the program and stays as it is\nhint: give {}",
            request.model.display(),
            Setting("out").to("NAME.s2m")
        )));
    };
    let in_place = folder.as_ref() == Some(&out);
    let writing = Writing::begin(&out, in_place, request)?;
    let bundle = models::open(request.model)?;
    let runtime = Runtime::load(request.machine.onnxruntime)?;
    let engine = Engine {
        runtime: &runtime,
        run: request.machine.run,
    };
    progress.begin("reading the data", None);
    let mut data = own_data::recipe_for(request.data, &bundle)?.load()?;
    renumber(&mut data, bundle.labels())?;
    if request.all_held_out {
        data.validation_positives.append(&mut data.positives);
    } else {
        check_split(&data, &bundle)?;
    }
    let audit = match request.audit {
        None => None,
        Some(path) => {
            let recipe = own_data::recipe_for(path, &bundle)?;
            Some(recipe.load_audit(bundle.labels())?)
        }
    };
    progress.end();
    let subject = Subject {
        bundle: &bundle,
        data: &data,
        audit: audit.as_ref(),
    };
    let mut calibrated = calibrate(subject, &request.settings, &engine, progress)?;
    if let (Some(before), None) = (&bundle.manifest().calibration.audit, &audit) {
        calibrated.found.warnings.push(format!(
            "the audit of {} items is no longer used; give {} again to keep it",
            before.items,
            Setting("audit")
        ));
    }
    let manifest = calibrated.manifest(bundle.manifest());
    match writing {
        Writing::InPlace(_lock) => calibrated.write(&out, &manifest)?,
        Writing::Anew(staging) => {
            let changed = calibrated.files(&manifest)?;
            let mut files = models::files(request.model)?;
            files.retain(|(name, _)| changed.iter().all(|(other, _)| name != other));
            files.extend(changed.map(|(name, text)| (name.to_owned(), text.into_bytes())));
            s2m_model::bundle::finish(staging, &files)?;
        }
    }
    Ok(Done {
        bundle: out,
        found: calibrated.found,
    })
}

/// Where a calibrated bundle goes, locked from the beginning.
enum Writing {
    InPlace(Lock),
    Anew(Staging),
}

impl Writing {
    fn begin(out: &Path, in_place: bool, request: &Request<'_>) -> Result<Self, Error> {
        if in_place {
            return Ok(Self::InPlace(Lock::beside(&out.canonicalize().map_err(
                |error| Error::Read {
                    path: out.to_owned(),
                    reason: error.to_string(),
                },
            )?)?));
        }
        let given = [Some(request.model), Some(request.data), request.audit];
        Ok(Self::Anew(Staging::open(&Plan {
            target: out,
            kind: Kind::Bundle,
            identity: "calibrate",
            existing: if request.replace {
                Existing::Replace
            } else {
                Existing::Keep
            },
            inputs: &given.into_iter().flatten().collect::<Vec<_>>(),
        })?))
    }
}

/// Refuses data of which it cannot be told what training held out: then the labels are shown in
/// other shares than those that the bundle states.
fn check_split(data: &Loaded, bundle: &Bundle) -> Result<(), Error> {
    let labels = bundle.labels();
    let own = &data.train.labels;
    let stated = &bundle.manifest().labelling.observed;
    let same = own.names().zip(&data.observed).all(|(name, share)| {
        let stated = labels.find(name).and_then(|label| stated.get(label));
        stated.is_some_and(|stated| (stated - share).abs() < 1e-9)
    });
    if same {
        return Ok(());
    }
    Err(Error::Setting(format!(
        "the data is not what the model was fitted to: its training items show labels in other shares, so it cannot be told which items were held out\nhint: give the same data, seed and validation share, or {} if none of it was trained on",
        Setting("unseen")
    )))
}

/// Brings the labels that items show to the order of a bundle.
fn renumber(data: &mut Loaded, labels: &Labels) -> Result<(), Error> {
    let own = &data.train.labels;
    let missing = labels.names().find(|name| own.find(name).is_none());
    let unknown = own.names().find(|name| labels.find(name).is_none());
    if let Some(name) = missing {
        return Err(Error::Setting(format!(
            "the model has a label `{name}` that the data does not have"
        )));
    }
    if let Some(name) = unknown {
        return Err(Error::Setting(format!(
            "the data has a label `{name}` that the model does not know\nhint: `s2m fit` with {} adds labels",
            Setting("from").to("MODEL")
        )));
    }
    let place: Vec<u8> = own
        .names()
        .map(|name| labels.find(name).unwrap_or_default() as u8)
        .collect();
    let shown = data
        .positives
        .iter_mut()
        .chain(&mut data.validation_positives);
    for positive in shown {
        positive.label = place[usize::from(positive.label)];
    }
    Ok(())
}
