//! Which bundle a name means: a folder on disk, or one that ships with the program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use s2m_model::bundle::Bundle;
use s2m_model::disk::read_plain;

use crate::error::Error;

/// A bundle inside the program: its name and its files.
type Embedded = (&'static str, [(&'static str, &'static [u8]); 3]);

macro_rules! embedded {
    ($name:literal) => {
        (
            $name,
            [
                (
                    "model.toml",
                    include_bytes!(concat!("../models/", $name, ".s2m/model.toml")),
                ),
                (
                    "generator.onnx",
                    include_bytes!(concat!("../models/", $name, ".s2m/generator.onnx")),
                ),
                (
                    "classifier.onnx",
                    include_bytes!(concat!("../models/", $name, ".s2m/classifier.onnx")),
                ),
            ],
        )
    };
}

/// All bundles inside the program; a line each, for a folder in `models/` or a crate that has one.
const EMBEDDED: &[Embedded] = &[
    embedded!("gaussians-exact"),
    embedded!("gaussians"),
    embedded!("mnist-3-5"),
    embedded!("mnist-even"),
    embedded!("fmnist-even"),
    embedded!("mnist-even-conditional"),
    s2m_cifar::CIFAR_7TO3,
];

/// Names of the bundles that ship with the program.
pub fn embedded_names() -> impl Iterator<Item = &'static str> {
    EMBEDDED.iter().map(|(name, _)| *name)
}

/// The folder that a model is in (its ending may be left out); none for an embedded one.
pub fn folder(model: &Path) -> Option<PathBuf> {
    let name = model.file_name().unwrap_or_default().to_string_lossy();
    let completed = model.with_file_name(format!("{name}.s2m"));
    [model.to_owned(), completed]
        .into_iter()
        .find(|folder| folder.is_dir())
}

/// Opens the bundle in a folder (its ending may be left out), or the embedded one of that name.
pub fn open(model: &Path) -> Result<Arc<Bundle>, Error> {
    let bundle = match folder(model) {
        Some(folder) => Bundle::open(&folder)?,
        None => Bundle::from_files(embedded(model)?)?,
    };
    Ok(Arc::new(bundle))
}

/// The files of a bundle, as they are: name and bytes of each.
pub fn files(model: &Path) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let Some(folder) = folder(model) else {
        let files = embedded(model)?.iter();
        let copy = |(name, bytes): &(&str, &[u8])| ((*name).to_owned(), bytes.to_vec());
        return Ok(files.map(copy).collect());
    };
    let mut files = Vec::new();
    collect(&folder, &folder, &mut files)?;
    Ok(files)
}

/// The files of a folder and of the folders in it, by their names from its root; what leads out of it or is
/// no file is refused.
fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, Vec<u8>)>) -> Result<(), Error> {
    let fail = |path: &Path, reason: String| Error::Read {
        path: path.to_owned(),
        reason,
    };
    let system = |path: &Path, error: &io::Error| fail(path, error.to_string());
    let entries = fs::read_dir(folder).map_err(|e| system(folder, &e))?;
    for entry in entries {
        let path = entry.map_err(|e| system(folder, &e))?.path();
        let kind = fs::symlink_metadata(&path).map_err(|e| system(&path, &e))?;
        if kind.is_dir() {
            collect(root, &path, files)?;
            continue;
        }
        if kind.is_symlink() && !is_file_inside(root, &path) {
            let reason = "it is a link that leads outside the bundle, or to no file";
            return Err(fail(&path, reason.to_owned()));
        }
        let bytes = read_plain(&path).map_err(|e| system(&path, &e))?;
        let name = path.strip_prefix(root).unwrap_or(&path);
        files.push((name.to_string_lossy().into_owned(), bytes));
    }
    Ok(())
}

/// Whether a link leads to a file inside a folder.
fn is_file_inside(root: &Path, link: &Path) -> bool {
    let (Ok(root), Ok(target)) = (root.canonicalize(), link.canonicalize()) else {
        return false;
    };
    target.starts_with(root) && target.is_file()
}

fn embedded(model: &Path) -> Result<&'static [(&'static str, &'static [u8]); 3], Error> {
    let name = model.to_string_lossy();
    let plain = name.strip_suffix(".s2m").unwrap_or(&name);
    let found = EMBEDDED.iter().find(|(embedded, _)| *embedded == plain);
    found
        .map(|(_, files)| files)
        .ok_or_else(|| Error::NoSuchModel {
            model: model.to_owned(),
            embedded: embedded_names().collect::<Vec<_>>().join(", "),
        })
}
