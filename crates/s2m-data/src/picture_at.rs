//! Where a picture lies: a file of its own, or an entry of a tar archive.

use std::fmt;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::picture_file::{self, MAX_FILE_BYTES, Picture};
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
    fn picture(&self) -> Result<Picture, Error> {
        match self {
            Self::File(path) => picture_file::read(path),
            Self::Tar { size, .. } if *size > MAX_FILE_BYTES => {
                Err(picture_file::too_long(&self.path()))
            }
            Self::Tar {
                archive,
                offset,
                size,
                ..
            } => {
                let path = self.path();
                let bytes = part(archive, *offset, *size).map_err(Error::reading(&path))?;
                picture_file::decode(&bytes, &path)
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
