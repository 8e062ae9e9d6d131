//! The folder of a bank: names of its files, and which of them are there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::part::{PartError, PartFile, part_name, part_number};
use super::{BankInfo, DESCRIPTION};
use crate::bundle::larger;
use crate::disk::{is_temporary_of, open_plain, write_whole_with};
use crate::error::Error;

/// Name of the lock inside a bank that is being mined.
pub(super) const LOCK: &str = "mine.lock";

/// Ending of files that are not whole, as earlier versions of this program named them.
const TEMPORARY: &str = ".tmp";

/// Largest description that is read.
const MAX_DESCRIPTION: u64 = 1 << 20;

/// Most parts whose footers are all read before a bank is used: about 270 million proposals.
const MOST_FOOTERS: usize = 1 << 10;

/// The folder of a bank: where its files are, and which of them are there.
#[derive(Debug, Clone)]
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn description(&self) -> PathBuf {
        self.0.join(DESCRIPTION)
    }

    pub(super) fn part(&self, part: u64) -> PathBuf {
        self.0.join(part_name(part))
    }

    pub(super) fn journal(&self, part: u64) -> PathBuf {
        self.0.join(format!("part-{part:08}.journal"))
    }

    /// Names of all files.
    pub(super) fn names(&self) -> Result<Vec<String>, Error> {
        let names = || -> io::Result<Vec<String>> {
            fs::read_dir(&self.0)?
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                .collect()
        };
        names().map_err(Error::reading(&self.0))
    }

    /// Fails where there are files that are not of a bank's beginning.
    pub(super) fn check_free(&self) -> Result<(), Error> {
        if !self.0.exists() {
            return Ok(());
        }
        // A run that was killed right at its start may have left its description half written.
        let beginning = |name: &String| name == LOCK || is_half_written(name);
        if self.names()?.iter().all(beginning) {
            return Ok(());
        }
        Err(Error::place(format!(
            "`{}` holds other files and no {DESCRIPTION}\nhint: name a new or an empty folder for the bank",
            self.0.display()
        )))
    }

    /// Reads the description; none where there is no such file.
    pub(super) fn info(&self) -> Result<Option<BankInfo>, Error> {
        let path = self.description();
        let mut bytes = Vec::new();
        let read = open_plain(&path)
            .and_then(|file| file.take(MAX_DESCRIPTION + 1).read_to_end(&mut bytes));
        match read {
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::reading(&path)(source)),
            Ok(_) => {}
        }
        if bytes.len() as u64 > MAX_DESCRIPTION {
            return Err(larger(&path, MAX_DESCRIPTION));
        }
        let info = BankInfo::parse(&bytes);
        Ok(Some(info.map_err(|problem| {
            problem.within(format_args!("`{}`", path.display()))
        })?))
    }

    pub(super) fn other_columns(&self, found: &str, wanted: &str) -> Error {
        Error::mismatch(format!(
            "the bank `{}` has other columns than the model: {found}, not {wanted}\nhint: mine a new bank for this model",
            self.0.display()
        ))
    }

    /// Number of proposals in every part, after a look at each footer, or at the last one alone where there are more
    /// than [`MOST_FOOTERS`]; the others are then looked at when they are read.
    ///
    /// All parts but the last must be full.
    pub(super) fn parts(&self, info: &BankInfo) -> Result<BTreeMap<u64, u64>, Error> {
        let names = self.names()?;
        let numbers: BTreeSet<u64> = names.iter().filter_map(|name| part_number(name)).collect();
        let trusted = numbers.len() > MOST_FOOTERS;
        let last = numbers.last().copied();
        let mut parts = BTreeMap::new();
        for part in numbers {
            let rows = if trusted && Some(part) != last {
                info.part
            } else {
                PartFile::open(self.part(part), info, part)?.rows()
            };
            parts.insert(part, rows);
        }
        let wanted = info.part;
        let mut all_but_last = parts.iter();
        all_but_last.next_back();
        match all_but_last.find(|&(_, &rows)| rows < wanted) {
            None => Ok(parts),
            Some((&part, &found)) => Err(PartError::Rows { found, wanted }.at(&self.part(part))),
        }
    }
}

/// Of a folder that does not exist.
pub(super) fn missing(folder: &Path) -> Error {
    Error::not_found(format!(
        "there is no bank `{}`\nhint: `s2m mine` makes one",
        folder.display()
    ))
}

/// Of a folder without a description.
pub(super) fn no_bank(folder: &Path) -> Error {
    if folder.exists() {
        Error::not_found(format!(
            "`{}` is not a bank: it has no {DESCRIPTION}",
            folder.display()
        ))
    } else {
        missing(folder)
    }
}

pub(super) fn gap(folder: &Path, part: u64) -> Error {
    let (folder, part) = (folder.display(), part_name(part));
    Error::malformed(format!(
        "the bank `{folder}` has a gap: `{part}` is missing\nhint: mine again to fill it"
    ))
}

/// Of a piece where a whole bank is wanted.
pub(super) fn piece_alone(folder: &Path, first: u64) -> Error {
    Error::mismatch(format!(
        "`{}` is a piece of a bank, which begins at proposal {first}\nhint: `s2m bank join` makes a bank of all pieces",
        folder.display()
    ))
}

/// Writes a file that appears whole or not at all.
pub(super) fn write_whole(
    path: &Path,
    fill: impl FnOnce(&File) -> io::Result<()>,
) -> Result<(), Error> {
    write_whole_with(path, fill).map_err(Error::writing(path))
}

/// Whether a name is one that a description or a part has before it is whole.
pub(super) fn is_half_written(name: &str) -> bool {
    let of_bank = |whole: &str| whole == DESCRIPTION || part_number(whole).is_some();
    let own_part = |name: &str| {
        let whole = name.get(1..1 + part_name(0).len());
        whole.is_some_and(|whole| part_number(whole).is_some() && is_temporary_of(name, whole))
    };
    name.strip_suffix(TEMPORARY).is_some_and(of_bank)
        || is_temporary_of(name, DESCRIPTION)
        || own_part(name)
}
