//! Why a folder is not a usable bundle.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::MANIFEST;
use crate::disk::StagingError;
use crate::manifest::FORMAT;
use crate::onnx::AdapterError;

/// Why a folder is not a usable bundle.
#[derive(Debug, Error)]
pub enum BundleError {
    /// A file cannot be read.
    #[error("could not read `{}`: {source}", .path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder cannot be made.
    #[error(transparent)]
    Staging(#[from] StagingError),
    /// A file is beyond the limit.
    #[error("`{}` is larger than {limit} bytes", .path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// The manifest is not what it should be.
    #[error("{MANIFEST}: {0}")]
    Manifest(String),
    /// A generator's entry outside a bundle is not what it should be.
    #[error("`{0}`: {1}")]
    Generator(String, String),
    /// The format is from another time.
    #[error("{MANIFEST}: format {found} is not known; this program reads format {FORMAT}")]
    Format {
        /// The number found.
        found: u32,
    },
    /// The label names or the labelling do not work.
    #[error("{MANIFEST}: {0}")]
    Labels(#[from] s2m_core::Error),
    /// The formats of generator output and classifier input do not meet.
    #[error("{MANIFEST}: {0}")]
    Adapter(#[from] AdapterError),
    /// A file name leads out of the bundle.
    #[error("{what} `{path}` leads outside the bundle")]
    Outside {
        /// What the path is for.
        what: &'static str,
        /// The path as written.
        path: String,
    },
    /// A file has changed since the manifest was written.
    #[error(
        "the SHA-256 of `{file}` is {found}, but {MANIFEST} says {wanted}\nhint: copy the bundle again; if you changed the file yourself, write its new hash into {MANIFEST}"
    )]
    Hash {
        /// Which file.
        file: String,
        /// What the manifest says.
        wanted: String,
        /// What the file has.
        found: String,
    },
    /// Not an ONNX file.
    #[error("`{file}` is not an ONNX file, or is cut short: {reason}")]
    NotOnnx {
        /// Which file.
        file: String,
        /// What the decoder said.
        reason: String,
    },
    /// A graph lacks something the manifest names.
    #[error("`{file}` has no {kind} `{name}`; it has {}", list(.found))]
    NoPort {
        /// Which file.
        file: String,
        /// Input or output.
        kind: &'static str,
        /// The name wanted.
        name: String,
        /// The names there are.
        found: Vec<String>,
    },
    /// A graph wants an input that the manifest does not name.
    #[error("`{file}` has an input `{name}` that {MANIFEST} does not mention")]
    ExtraInput {
        /// Which file.
        file: String,
        /// The input.
        name: String,
    },
    /// A class index that is no integer.
    #[error(
        "`{file}`: the class index `{name}` is {found}, and a class index must be i64\nhint: export it as a 64-bit integer, or take one number per class and say form = \"one-hot\""
    )]
    ClassIndex {
        /// The file.
        file: String,
        /// The input.
        name: String,
        /// Its type.
        found: String,
    },
    /// An input or output has another shape or type than the manifest says.
    #[error("`{file}`: {kind} `{name}` is {found}, but {MANIFEST} says {wanted}")]
    Port {
        /// Which file.
        file: String,
        /// Input or output.
        kind: &'static str,
        /// Which one.
        name: String,
        /// What the manifest says.
        wanted: String,
        /// What the graph says.
        found: String,
    },
}

pub(crate) fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        _ => names
            .iter()
            .map(|n| format!("`{n}`"))
            .collect::<Vec<_>>()
            .join(", "),
    }
}
