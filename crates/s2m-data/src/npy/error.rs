//! Why a file gives no array, and which file it is.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::{MAX_BYTES, MAX_HEADER, ZipError};
use crate::message::quoted;

/// A file, or an entry of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Which file.
    pub path: PathBuf,
    /// Which entry, if the file is an archive.
    pub entry: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(entry) = &self.entry {
            write!(f, "`{entry}` of ")?;
        }
        write!(f, "`{}`", self.path.display())
    }
}

/// Why a file gives no array.
#[derive(Debug, Error)]
pub enum NpyError {
    /// The file cannot be read or unpacked.
    #[error("could not read {place}: {source}")]
    Read {
        /// Which array.
        place: Place,
        /// What the system or the unpacking said.
        source: io::Error,
    },
    /// The file is neither an array nor an archive.
    #[error("{place} is not a NumPy array: it starts with {found:02x?}")]
    NotNumpy {
        /// Which array.
        place: Place,
        /// Its first bytes.
        found: Vec<u8>,
    },
    /// The format is of a version that is not known.
    #[error("{place} is of version {version} of NumPy's format; versions 1 to 3 can be read")]
    Version {
        /// Which array.
        place: Place,
        /// Its version.
        version: u8,
    },
    /// The header is too long to be one.
    #[error("{place} has a header of {found} bytes; {MAX_HEADER} are the most")]
    HeaderTooLarge {
        /// Which array.
        place: Place,
        /// Bytes stated.
        found: u64,
    },
    /// The header does not describe an array.
    #[error("the header of {place} should have {wanted} where it has `{found}`")]
    Header {
        /// Which array.
        place: Place,
        /// What should be there.
        wanted: &'static str,
        /// The text that is there, or its start.
        found: String,
    },
    /// The array is of Python objects.
    #[error(
        "{place} holds Python objects, not numbers; they are not read, because that would run code out of the file\nhint: save it again as numbers, for instance with `array.astype(\"float32\")`"
    )]
    Objects {
        /// Which array.
        place: Place,
    },
    /// The values are not numbers that can be read.
    #[error(
        "{place} holds values of type `{found}`; b1, i1 to i8, u1 to u8 and f2 to f8 can be read"
    )]
    Type {
        /// Which array.
        place: Place,
        /// NumPy's name of the type.
        found: String,
    },
    /// The shape is beyond the limit.
    #[error("{place} is of shape {shape:?}, which is more than {MAX_BYTES} bytes")]
    TooLarge {
        /// Which array.
        place: Place,
        /// The shape in the header.
        shape: Vec<usize>,
    },
    /// The file is shorter or longer than the shape says.
    #[error("{place} is of shape {shape:?}, so it should have {wanted} bytes, but it has {found}")]
    Length {
        /// Which array.
        place: Place,
        /// The shape in the header.
        shape: Vec<usize>,
        /// Bytes of header and numbers.
        wanted: u64,
        /// Bytes there.
        found: u64,
    },
    /// The archive cannot be used.
    #[error("could not read the archive `{}`: {source}", .path.display())]
    Zip {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: ZipError,
    },
    /// The unpacked bytes are not those that were packed.
    #[error("{place} does not fit its checksum\nhint: the file is damaged; fetch it again")]
    Checksum {
        /// Which array.
        place: Place,
    },
    /// The archive has no array of this name.
    #[error("`{}` has no array `{wanted}`, only {}", .path.display(), listed(.names))]
    NoSuchEntry {
        /// Which file.
        path: PathBuf,
        /// The name asked for.
        wanted: String,
        /// The names there are.
        names: Vec<String>,
    },
    /// The archive has not exactly one array, and none was named.
    #[error("`{}` should have one array, but has {}\nhint: say which one", .path.display(), listed(.names))]
    WhichEntry {
        /// Which file.
        path: PathBuf,
        /// The names there are.
        names: Vec<String>,
    },
    /// An entry was asked of a file that is one array.
    #[error("`{}` is one array, so there is no array `{entry}` in it", .path.display())]
    NotAnArchive {
        /// Which file.
        path: PathBuf,
        /// The name asked for.
        entry: String,
    },
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => quoted(names),
    }
}
