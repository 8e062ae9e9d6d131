//! What can keep a bundle from being fitted.

use std::io;
use std::path::{Path, PathBuf};

use s2m_core::setting::Setting;
use s2m_runs::PROGRAM;
use thiserror::Error;

/// The file by which a folder of libtorch is known.
pub(crate) const LIBRARY: &str = "lib/libtorch_cpu.so";

/// Why nothing can be fitted.
#[derive(Debug, Error)]
pub enum Error {
    /// A generator, a bundle, ONNX Runtime or a place on disk is not usable.
    #[error(transparent)]
    Model(#[from] s2m_model::Error),
    /// Generator and data do not go together.
    #[error("the generator makes {made}, the data holds {held}")]
    Mismatch {
        /// What the generator makes.
        made: String,
        /// What the data holds.
        held: String,
    },
    /// The name of the bundle is none.
    #[error("`{}` is no name for a bundle\nhint: give {}", .0.display(), Setting("out").to("NAME.s2m"))]
    Name(PathBuf),
    /// There is nothing to generate with.
    #[error(
        "there is no generator\nhint: give {}, or {} to add labels to a bundle",
        Setting("generator").to("G.onnx"),
        Setting("from").to("MODEL")
    )]
    NoGenerator,
    /// Classes of a conditional generator are its labels.
    #[error(
        "labels cannot be added to a conditional generator, whose classes are its labels\nhint: fit anew with {}",
        Setting("generator")
    )]
    Conditional,
    /// The second executable is not there.
    #[error("`{PROGRAM}` was not found beside `s2m` or on PATH\nhint: `make train` builds it")]
    NoProgram,
    /// Libtorch is not there.
    #[error(
        "libtorch was not found\nhint: `make train` fetches it; or pass {}, or point LIBTORCH at the `torch` folder of an installed PyTorch",
        Setting("libtorch").to("DIR")
    )]
    NoLibtorch,
    /// An explicit folder is wrong.
    #[error("no libtorch in `{}`, named by {by}: there is no `{LIBRARY}` and no `torch/{LIBRARY}`", .folder.display())]
    NotLibtorch {
        /// The folder.
        folder: PathBuf,
        /// Who named it.
        by: String,
    },
    /// The program could not be started.
    #[error("could not start `{}`: {source}", .program.display())]
    Start {
        /// Which program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It could not run.
    #[error("`{PROGRAM} {kind}` could not run ({status}); what it said is above")]
    CouldNotRun {
        /// What was to be trained.
        kind: &'static str,
        /// How it ended.
        status: String,
    },
    /// A bundle cannot be calibrated.
    #[error(transparent)]
    Calibrate(#[from] s2m_calibrate::Error),
    /// A model cannot be opened, or a bundle not written.
    #[error(transparent)]
    S2m(Box<s2m::Error>),
    /// Data cannot be had.
    #[error(transparent)]
    Data(#[from] s2m_data::Error),
    /// Data of no known form.
    #[error("`{}` is no data of a form that is detected: a folder with a folder of images per label, a folder with `metadata.csv` or `metadata.jsonl`, or a recipe (.toml)\nhint: docs/fitting.md lists all forms of data and their recipes", .0.display())]
    UnknownData(PathBuf),
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
