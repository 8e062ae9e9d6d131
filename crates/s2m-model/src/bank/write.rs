//! A bank that is being mined: taken up where it was left, part by part.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use super::folder::{Folder, LOCK, is_half_written, write_whole};
use super::part::{self, PartFile};
use super::{Bank, BankInfo};
use crate::disk::Lock;
use crate::error::Error;
use crate::journal::Journal;
use crate::logits::Logits;

/// A bank that is being mined.
#[derive(Debug)]
pub struct BankWriter {
    pub(super) folder: Folder,
    info: BankInfo,
    wanted: u64,
    /// Proposals in every part that was on disk at the start.
    parts: BTreeMap<u64, u64>,
    /// The part in progress.
    pub(super) part: u64,
    /// Its proposals so far.
    rows: Logits,
    /// How many of them are in its file already.
    saved: usize,
    journal: Option<Journal>,
    /// Held for as long as this writer lives.
    _lock: Lock,
}

impl BankWriter {
    /// Opens the bank in `folder`, or begins it, to be mined up to `wanted` proposals.
    ///
    /// What an earlier run left is taken up, also where it was killed. A bank that is there keeps
    /// its own `part` and name of the model; all else must be the same.
    pub fn open(folder: &Path, info: BankInfo, wanted: u64) -> Result<Self, Error> {
        let folder = Folder(folder.to_owned());
        // Before anything is written: what cannot become a bank is refused without a trace.
        if folder.info()?.is_none() {
            folder.check_free()?;
            check_description(&folder, &info)?;
        }
        fs::create_dir_all(&folder.0).map_err(Error::writing(&folder.0))?;
        let lock = Lock::inside(&folder.0, LOCK)?;
        // And again under the lock: another first run may have been quicker.
        let info = match folder.info()? {
            Some(found) => same_bank(&folder, found, &info)?,
            None => begin(&folder, info)?,
        };
        let mut writer = Self {
            parts: folder.parts(&info)?,
            rows: Logits::zeros(info.shape(), 0),
            folder,
            info,
            wanted,
            part: 0,
            saved: 0,
            journal: None,
            _lock: lock,
        };
        writer.start_part(writer.info.first / writer.info.part)?;
        writer.remove_leftovers()?;
        Ok(writer)
    }

    /// What is mined.
    pub fn info(&self) -> &BankInfo {
        &self.info
    }

    /// Number of the next proposal to score; at `wanted` or beyond there is nothing to do.
    ///
    /// It may jump: where a part in the middle was missing, the parts after it are not mined
    /// again. So ask before every batch.
    pub fn position(&self) -> u64 {
        self.part * self.info.part + self.rows.len() as u64
    }

    /// How many proposals the bank shall hold.
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Takes scored proposals, the first of which has the number [`position`](Self::position).
    ///
    /// Rows beyond [`wanted`](Self::wanted) are left out, so that batches need not fit.
    ///
    /// # Panics
    ///
    /// Where the rows have another shape than the bank's.
    pub fn push(&mut self, logits: &Logits) -> Result<(), Error> {
        assert_eq!(logits.shape(), self.info.shape(), "rows of one bank");
        let first = self.position();
        let end = (first + logits.len() as u64).min(self.wanted);
        let width = logits.shape().width();
        let index = |proposal: u64| (proposal - first) as usize * width;
        while self.position() < end {
            let stop = end.min((self.part + 1) * self.info.part);
            self.add(&logits.values()[index(self.position())..index(stop)])?;
            if self.rows.len() as u64 == self.info.part {
                self.save_part()?;
                self.start_part(self.part + 1)?;
            }
        }
        Ok(())
    }

    /// Writes the last part even if it is not full, and ends.
    pub fn finish(mut self) -> Result<(), Error> {
        self.save_part()
    }

    /// Adds rows to the part in progress, first on disk and then in memory.
    fn add(&mut self, values: &[f32]) -> Result<(), Error> {
        if self.journal.is_none() {
            self.open_journal()?;
        }
        if let Some(journal) = &mut self.journal {
            journal.append(values)?;
        }
        self.extend(values);
        Ok(())
    }

    fn extend(&mut self, values: &[f32]) {
        let rows = Logits::from_values(self.info.shape(), values.to_vec()).expect("whole rows");
        self.rows.append(&rows);
    }

    /// Writes the part in progress if its file lacks rows; its journal has then done its work.
    fn save_part(&mut self) -> Result<(), Error> {
        if self.rows.len() > self.saved {
            let path = self.folder.part(self.part);
            let write = |file: &File| part::write(file, &self.info, self.part, &self.rows);
            write_whole(&path, write)?;
            self.saved = self.rows.len();
        }
        if let Some(journal) = self.journal.take() {
            journal.remove()?;
        }
        Ok(())
    }

    /// Goes to the first part from `part` on that is not full, and takes up what there is of it.
    fn start_part(&mut self, part: u64) -> Result<(), Error> {
        self.part = part;
        while self.parts.get(&self.part) == Some(&self.info.part) {
            self.part += 1;
        }
        self.saved = self.parts.get(&self.part).map_or(0, |&rows| rows as usize);
        self.rows = Logits::zeros(self.info.shape(), self.saved);
        if self.saved > 0 {
            let file = PartFile::open(self.folder.part(self.part), &self.info, self.part)?;
            file.read(0, self.rows.values_mut())?;
        }
        if self.folder.journal(self.part).exists() {
            self.open_journal()?;
        }
        Ok(())
    }

    /// Opens the journal of the part in progress and takes up its rows.
    fn open_journal(&mut self) -> Result<(), Error> {
        let path = self.folder.journal(self.part);
        // The rows that are saved already are part of the identity: a journal that outlived the
        // file made from it is then another one, and is not added twice.
        let identity = format!("{} after {}", self.info.identity(self.part), self.saved);
        let shape = self.info.shape();
        let (journal, rows) = Journal::open(&path, &identity, shape)?;
        let room = self.info.part as usize - self.rows.len();
        let kept = rows.len().min(room) * shape.width();
        self.extend(&rows.values()[..kept]);
        self.journal = Some(journal);
        Ok(())
    }

    /// Removes what killed runs left: files half written, and journals of parts that are done.
    fn remove_leftovers(&self) -> Result<(), Error> {
        let current = self.folder.journal(self.part);
        for name in self.folder.names()? {
            let path = self.folder.0.join(&name);
            let half_written = is_half_written(&name);
            let journal = name.starts_with("part-") && name.ends_with(".journal");
            if half_written || journal && path != current {
                fs::remove_file(&path).map_err(Error::writing(&path))?;
            }
        }
        Ok(())
    }
}

/// The description of the bank that is there, if `info` asks for the same.
pub(super) fn same_bank(
    folder: &Folder,
    found: BankInfo,
    info: &BankInfo,
) -> Result<BankInfo, Error> {
    // How many proposals there are does not matter here.
    let bank = Bank {
        folder: folder.clone(),
        info: found,
        len: 0,
    };
    bank.check(&info.model, &info.scoring_hash, &info.labels)?;
    bank.check_seed(info.seed)?;
    let found = bank.info;
    if found.first != info.first {
        return Err(Error::mismatch(format!(
            "`{}` begins at proposal {}, not at {}\nhint: name another folder for this range",
            folder.0.display(),
            found.first,
            info.first
        )));
    }
    if (found.conditional, found.classes, found.joint)
        != (info.conditional, info.classes, info.joint)
    {
        return Err(folder.other_columns(&found.columns_in_words(), &info.columns_in_words()));
    }
    let (own, device) = (&found.device, &info.device);
    if own != device {
        return Err(Error::mismatch(format!(
            "the bank `{}` was mined on `{own}`, not on `{device}`\nhint: go on with `{own}`, or mine another bank",
            folder.0.display()
        )));
    }
    Ok(found)
}

/// The text of a description, if it is one that can be read again.
pub(super) fn check_description(folder: &Folder, info: &BankInfo) -> Result<String, Error> {
    let path = folder.description();
    let text = toml::to_string(info).map_err(|e| Error::writing(&path)(io::Error::other(e)))?;
    let checked = BankInfo::parse(text.as_bytes());
    checked.map_err(|problem| problem.within(format_args!("`{}`", path.display())))?;
    Ok(text)
}

/// Writes the description into an empty folder.
fn begin(folder: &Folder, info: BankInfo) -> Result<BankInfo, Error> {
    folder.check_free()?;
    let text = check_description(folder, &info)?;
    write_whole(&folder.description(), |mut file| {
        file.write_all(text.as_bytes())
    })?;
    Ok(info)
}
