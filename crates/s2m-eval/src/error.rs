//! What can keep items from being evaluated.

use std::io;
use std::path::{Path, PathBuf};

use s2m_core::setting::Setting;
use thiserror::Error;

/// Why items cannot be evaluated.
#[derive(Debug, Error)]
pub enum Error {
    /// Nothing is known by this path.
    #[error("`{}` is no folder, `.npy`, `.npz` or idx file\nhint: give a folder of images, an output folder of `s2m sample`, or an array", .0.display())]
    Unknown(PathBuf),
    /// There is nothing in it.
    #[error("`{}` holds no items", .0.display())]
    Empty(PathBuf),
    /// An array that is neither pictures nor features.
    #[error("`{}` has shape {shape:?}; bytes [n, h, w], [n, h, w, c] or [n, c, h, w] are images, floats [n, d] are features", .path.display())]
    Shape {
        /// Which file.
        path: PathBuf,
        /// Its sides.
        shape: Vec<usize>,
    },
    /// Labels and pictures differ in number.
    #[error("`{}` has {labels} labels for {items} images", .path.display())]
    Labels {
        /// The labels.
        path: PathBuf,
        /// How many.
        labels: usize,
        /// For how many.
        items: usize,
    },
    /// A network's settings are wrong.
    #[error("the settings of `{}`: {reason}", .file.display())]
    Network {
        /// Which network.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A network that does not take pictures.
    #[error(
        "`{network}` takes items of shape {shape:?}; images have 1 or 3 channels, a height and a width"
    )]
    NotPictures {
        /// Which network.
        network: String,
        /// What it takes.
        shape: Vec<usize>,
    },
    /// Pictures need a network.
    #[error("`{}` holds images, and there is no network to look at them with\nhint: give {}, or {}", .0.display(), Setting("features").to("NET.onnx"), Setting("referee").to("NET.onnx"))]
    NoNetwork(PathBuf),
    /// Rows cannot go through a network, and rows and pictures cannot be compared.
    #[error("`{}` holds {found}, and `{}` {wanted}", .path.display(), .other.display())]
    Mixed {
        /// One side.
        path: PathBuf,
        /// What it holds.
        found: &'static str,
        /// The other side.
        other: PathBuf,
        /// What that holds.
        wanted: &'static str,
    },
    /// Rows of different width.
    #[error("`{}` has rows of {found} numbers, and `{}` rows of {wanted}", .path.display(), .other.display())]
    Width {
        /// One side.
        path: PathBuf,
        /// Its width.
        found: usize,
        /// The other side.
        other: PathBuf,
        /// Its width.
        wanted: usize,
    },
    /// A value is not a number.
    #[error("`{}`: {reason}", .path.display())]
    Values {
        /// Where.
        path: PathBuf,
        /// Which.
        reason: String,
    },
    /// A label of a class that does not exist.
    #[error("label `{label}` lists class `{class}`; the classes are {}", .classes.join(", "))]
    NoClass {
        /// The label.
        label: String,
        /// The class.
        class: String,
        /// The classes that exist.
        classes: Vec<String>,
    },
    /// A table without a column for a label.
    #[error("the real items have no column for label `{label}`; their columns are {}", .columns.join(", "))]
    NoColumn {
        /// The label.
        label: String,
        /// The columns that exist.
        columns: Vec<String>,
    },
    /// A query over labels that the referee does not know.
    #[error("query `{query}`: {source}\nhint: the labels here are {}; say which classes a label stands for with {}", .labels.join(", "), Setting("label").to("NAME=CLASS,CLASS"))]
    OtherLabels {
        /// The query.
        query: String,
        /// The labels there are.
        labels: Vec<String>,
        /// What is wrong.
        source: s2m_core::Error,
    },
    /// Features cannot be kept.
    #[error("could not keep features in `{}`: {source}\nhint: {} keeps none, and {} keeps them elsewhere", .folder.display(), Setting("no_cache"), Setting("cache").to("DIR"))]
    Cache {
        /// Where.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder of pictures, an array or an idx file is not usable.
    #[error(transparent)]
    Data(#[from] s2m_data::Error),
    /// A picture cannot be read.
    #[error("{}\nhint: {} leaves out what cannot be read, and counts it", .0, Setting("skip_bad"))]
    Picture(s2m_data::Error),
    /// Items cannot be drawn or written.
    #[error(transparent)]
    S2m(Box<s2m::Error>),
    /// A picture cannot be drawn.
    #[error(transparent)]
    Drawing(#[from] s2m_show::Error),
    /// Labels or a query are not usable.
    #[error(transparent)]
    Core(#[from] s2m_core::Error),
    /// A network, ONNX Runtime or a place on disk is not usable.
    #[error(transparent)]
    Model(#[from] s2m_model::Error),
    /// A setting is out of its range or makes no sense here.
    #[error("{0}")]
    Setting(String),
    /// A file or folder cannot be written.
    #[error("could not write `{}`: {source}", .path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("could not read `{}`: {reason}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl From<s2m::Error> for Error {
    fn from(error: s2m::Error) -> Self {
        Self::S2m(Box::new(error))
    }
}

impl Error {
    /// Names the path in an error of writing.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Write {
            path: path.to_owned(),
            source,
        }
    }
}
