//! The folder of a bank: names of its files, and which of them are there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::part::{Damage, PartFile, part_name, part_number};
use super::{BankError, BankInfo, DESCRIPTION};
use crate::disk::{is_temporary_of, open_plain, write_whole_with};

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
    pub(super) fn names(&self) -> Result<Vec<String>, BankError> {
        let names = || -> io::Result<Vec<String>> {
            fs::read_dir(&self.0)?
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                .collect()
        };
        names().map_err(read_error(&self.0))
    }

    /// Fails where there are files that are not of a bank's beginning.
    pub(super) fn check_free(&self) -> Result<(), BankError> {
        if !self.0.exists() {
            return Ok(());
        }
        // A run that was killed right at its start may have left its description half written.
        let beginning = |name: &String| name == LOCK || is_half_written(name);
        if self.names()?.iter().all(beginning) {
            return Ok(());
        }
        Err(BankError::OtherFiles {
            folder: self.0.clone(),
        })
    }

    /// Reads the description; none where there is no such file.
    pub(super) fn info(&self) -> Result<Option<BankInfo>, BankError> {
        let path = self.description();
        let mut bytes = Vec::new();
        let read = open_plain(&path)
            .and_then(|file| file.take(MAX_DESCRIPTION + 1).read_to_end(&mut bytes));
        match read {
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(BankError::Read { path, source }),
            Ok(_) => {}
        }
        if bytes.len() as u64 > MAX_DESCRIPTION {
            let limit = MAX_DESCRIPTION;
            return Err(BankError::TooLarge { path, limit });
        }
        match BankInfo::parse(&bytes) {
            Ok(info) => Ok(Some(info)),
            Err(problem) => Err(BankError::Description { path, problem }),
        }
    }

    /// Number of proposals in every part, after a look at each footer, or at the last one alone where there are more
    /// than [`MOST_FOOTERS`]; the others are then looked at when they are read.
    ///
    /// All parts but the last must be full.
    pub(super) fn parts(&self, info: &BankInfo) -> Result<BTreeMap<u64, u64>, BankError> {
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
            Some((&part, &found)) => Err(BankError::Damaged {
                path: self.part(part),
                damage: Damage::Rows { found, wanted },
            }),
        }
    }
}

pub(super) fn read_error(path: &Path) -> impl FnOnce(io::Error) -> BankError {
    let path = path.to_owned();
    |source| BankError::Read { path, source }
}

pub(super) fn write_error(path: &Path) -> impl FnOnce(io::Error) -> BankError {
    let path = path.to_owned();
    |source| BankError::Write { path, source }
}

/// Writes a file that appears whole or not at all.
pub(super) fn write_whole(
    path: &Path,
    fill: impl FnOnce(&File) -> io::Result<()>,
) -> Result<(), BankError> {
    write_whole_with(path, fill).map_err(write_error(path))
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
