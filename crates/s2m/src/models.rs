//! Which bundle a name means: a folder on disk, or one that ships with the program.

use std::path::Path;

use s2m_model::bundle::Bundle;

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
                    include_bytes!(concat!("../../../models/", $name, ".s2m/model.toml")),
                ),
                (
                    "generator.onnx",
                    include_bytes!(concat!("../../../models/", $name, ".s2m/generator.onnx")),
                ),
                (
                    "classifier.onnx",
                    include_bytes!(concat!("../../../models/", $name, ".s2m/classifier.onnx")),
                ),
            ],
        )
    };
}

/// All bundles inside the program; a line each, for a folder in `models/`.
const EMBEDDED: &[Embedded] = &[
    embedded!("gaussians-exact"),
    embedded!("gaussians"),
    embedded!("mnist-3-5"),
    embedded!("mnist-even"),
    embedded!("fmnist-even"),
    embedded!("mnist-even-conditional"),
];

/// Names of the bundles that ship with the program.
pub fn embedded_names() -> impl Iterator<Item = &'static str> {
    EMBEDDED.iter().map(|(name, _)| *name)
}

/// Opens the bundle in a folder (its ending may be left out), or the embedded one of that name.
pub fn open(model: &Path) -> Result<Bundle, Error> {
    let name = model.to_string_lossy();
    let completed = Path::new(&*name).with_file_name(format!(
        "{}.s2m",
        model.file_name().unwrap_or_default().to_string_lossy()
    ));
    if let Some(folder) = [model, &completed]
        .into_iter()
        .find(|folder| folder.is_dir())
    {
        return Ok(Bundle::open(folder)?);
    }
    let plain = name.strip_suffix(".s2m").unwrap_or(&name);
    match EMBEDDED.iter().find(|(embedded, _)| *embedded == plain) {
        Some((_, files)) => Ok(Bundle::from_files(files)?),
        None => Err(Error::NoSuchModel {
            model: model.to_owned(),
            embedded: embedded_names().collect::<Vec<_>>().join(", "),
        }),
    }
}
