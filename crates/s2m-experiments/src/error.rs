//! What can keep an experiment from having results.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::names;

const DATA_HINT: &str = "pass --data DIR, a folder with `mnist` and `fashion-mnist` (idx files, plain or gzip), and `cifar10` (its binary version) for colour";

/// Why an experiment has no results.
#[derive(Debug, Error)]
pub enum Error {
    /// No experiment of that name.
    #[error("unknown experiment `{0}`\nhint: the experiments are {list}", list = names())]
    Unknown(String),
    /// No folder of data was given.
    #[error("this experiment needs images\nhint: {DATA_HINT}")]
    NoData,
    /// The folder of data lacks one.
    #[error("there is no folder `{name}` in `{}`\nhint: {DATA_HINT}", .data.display())]
    NoDataFolder {
        /// The one that is missing.
        name: String,
        /// Where it was looked for.
        data: PathBuf,
    },
    /// A seed that no run file has.
    #[error("seed {seed} is not one of those in the run files: {known}")]
    UnknownSeed {
        /// The seed asked for.
        seed: u64,
        /// The seeds there are.
        known: String,
    },
    /// Training ended without a result.
    #[error("training run `{stage}` ended without a result; what the trainer said is above")]
    StageFailed {
        /// Which stage.
        stage: &'static str,
    },
    /// A stage's folder holds something else.
    #[error(
        "training run `{stage}` was run in `{}` with another run file: {difference}\nhint: remove that folder, or choose another --work", .folder.display()
    )]
    OtherRun {
        /// Which stage.
        stage: &'static str,
        /// Its folder.
        folder: PathBuf,
        /// The first difference.
        difference: String,
    },
    /// Classifiers of generators that are gone.
    #[error(
        "training run `{stage}` was trained for another generator of {data}, seed {seed}, than training run `{gan}` has now\nhint: remove the folder of training run `{stage}`, so that it is trained again"
    )]
    OtherGenerator {
        /// Which stage.
        stage: &'static str,
        /// The stage of its generators.
        gan: &'static str,
        /// Which data set.
        data: String,
        /// Which seed.
        seed: u64,
    },
    /// A metric cannot be computed.
    #[error(transparent)]
    Metric(#[from] s2m_metrics::Error),
    /// Nothing can be drawn.
    #[error(transparent)]
    S2m(Box<s2m::Error>),
    /// A bundle cannot be calibrated.
    #[error(transparent)]
    Calibrate(#[from] s2m_calibrate::Error),
    /// Nothing can be measured.
    #[error(transparent)]
    Eval(#[from] s2m_eval::Error),
    /// A bundle, a network, ONNX Runtime or a place on disk is not usable.
    #[error(transparent)]
    Model(#[from] s2m_model::Error),
    /// Labels or a query are not usable, or settings do not fit it.
    #[error(transparent)]
    Core(#[from] s2m_core::Error),
    /// Data cannot be had.
    #[error(transparent)]
    Data(#[from] s2m_data::Error),
    /// Nothing can be trained or fitted.
    #[error(transparent)]
    Fit(#[from] s2m_fit::Error),
    /// A picture cannot be drawn.
    #[error(transparent)]
    Picture(#[from] s2m_show::Error),
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
    /// Names the data in what is wrong with a referee's features on it.
    pub(crate) fn features(data: &str) -> impl Fn(s2m_metrics::Error) -> Self + Copy + '_ {
        move |error| {
            error
                .within(format_args!("the referee's features on {data}"))
                .into()
        }
    }

    /// Names the path in an error of writing.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Write {
            path: path.to_owned(),
            source,
        }
    }
}
