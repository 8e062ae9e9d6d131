//! Where a picture lies: a file of its own, or an entry of a tar archive.

use std::fmt;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::picture_file::{self, MAX_FILE_BYTES, Picture, PictureError};
use crate::picture_set::Pictured;
use crate::plain_file;

/// Where a picture lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PictureAt {
    File(PathBuf),
    Tar {
        archive: Arc<Path>,
        name: String,
        /// Where its bytes start, and how many they are.
        offset: u64,
        size: u64,
    },
}

impl fmt::Display for PictureAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.path().display())
    }
}

impl Pictured for PictureAt {
    fn picture(&self) -> Result<Picture, PictureError> {
        match self {
            Self::File(path) => picture_file::read(path),
            Self::Tar { size, .. } if *size > MAX_FILE_BYTES => {
                Err(PictureError::FileTooLarge { path: self.path() })
            }
            Self::Tar {
                archive,
                offset,
                size,
                ..
            } => {
                let bytes = part(archive, *offset, *size).map_err(|source| PictureError::Read {
                    path: self.path(),
                    source,
                })?;
                picture_file::decode(&bytes, &self.path())
            }
        }
    }
}

impl PictureAt {
    /// The path of the file; an entry counts as lying below its archive.
    fn path(&self) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Tar { archive, name, .. } => archive.join(name),
        }
    }
}

/// Some bytes of a file; opened anew each time, so that threads do not share a place in it.
fn part(path: &Path, offset: u64, size: u64) -> io::Result<Vec<u8>> {
    let mut file = plain_file::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = vec![0; size as usize];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}
