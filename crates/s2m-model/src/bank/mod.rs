//! The bank: logits of proposals 0, 1, 2, … of one seed, scored once and kept for every query.
//!
//! A bank is a folder. `bank.toml` says what was mined, `part-%08d.parquet` holds [`PART`]
//! proposals each, and a part in progress grows in a journal until it is written whole. The bytes
//! of a part depend on its proposals only: not on batches, interruptions or the order of work.
//!
//! A piece of a bank begins at a later proposal (`first`). Pieces are mined apart, on any number of machines, and joined
//! ([`join`]): the files of their parts are those that one machine would have written.

mod folder;
mod info;
mod join;
mod part;
mod thrift;
mod write;

use std::path::Path;

use self::folder::{Folder, gap, no_bank, piece_alone};
pub use self::info::BankInfo;
use self::info::labels_in_words;
pub use self::join::{GoesOn, Joined, extend, extend_while, join, join_while};
use self::part::PartFile;
pub use self::write::BankWriter;
use crate::error::Error;
use crate::logits::Logits;

/// The version of the bank format that this program reads and writes.
pub const FORMAT: u32 = 1;

/// Proposals in a part; a bank may say less, never more.
pub const PART: u64 = 1 << 18;

/// Name of the description inside a bank.
pub const DESCRIPTION: &str = "bank.toml";

/// A bank that is read.
#[derive(Debug, Clone)]
pub struct Bank {
    folder: Folder,
    info: BankInfo,
    len: u64,
}

impl Bank {
    /// Whether there is a bank in `folder`; whether it is a sound one, `open` says.
    pub fn exists(folder: &Path) -> bool {
        folder.join(DESCRIPTION).is_file()
    }

    /// Opens the bank in `folder` and looks at the footer of every part.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let folder = Folder(folder.to_owned());
        let Some(info) = folder.info()? else {
            return Err(no_bank(&folder.0));
        };
        if info.first > 0 {
            return Err(piece_alone(&folder.0, info.first));
        }
        let parts = folder.parts(&info)?;
        if let Some(part) = (0..parts.len() as u64).find(|part| !parts.contains_key(part)) {
            return Err(gap(&folder.0, part));
        }
        let len = parts.values().sum();
        Ok(Self { folder, info, len })
    }

    /// What was mined.
    pub fn info(&self) -> &BankInfo {
        &self.info
    }

    /// Number of proposals, counted from 0 without a gap; a part in progress does not count.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no proposals.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fails where the bank was not mined with this model.
    pub fn check(&self, model: &str, scoring_hash: &str, labels: &[String]) -> Result<(), Error> {
        let folder = self.folder.0.display();
        if self.info.scoring_hash != scoring_hash {
            return Err(Error::mismatch(format!(
                "the bank `{folder}` belongs to another model: it was mined with `{}` (scoring hash {}), this is `{model}` ({})\nhint: mine a new bank for this model",
                self.info.model,
                short(&self.info.scoring_hash),
                short(scoring_hash)
            )));
        }
        if self.info.labels != labels {
            let (found, wanted) = (labels_in_words(&self.info.labels), labels_in_words(labels));
            return Err(self.folder.other_columns(&found, &wanted));
        }
        Ok(())
    }

    /// Fails where the bank was mined with another seed.
    pub fn check_seed(&self, seed: u64) -> Result<(), Error> {
        let (folder, own) = (self.folder.0.display(), self.info.seed);
        if own == seed {
            return Ok(());
        }
        Err(Error::mismatch(format!(
            "the bank `{folder}` was mined with seed {own}, not {seed}\nhint: use seed {own}, or mine another bank"
        )))
    }

    /// Reads the logits of `count` proposals from number `first` on.
    pub fn read(&self, first: u64, count: usize) -> Result<Logits, Error> {
        let end = first.checked_add(count as u64);
        if end.is_none_or(|end| end > self.len) {
            return Err(Error::mismatch(format!(
                "the bank `{}` holds {} proposals; {count} from number {first} were asked for",
                self.folder.0.display(),
                self.len
            )));
        }
        let shape = self.info.shape();
        let mut logits = Logits::zeros(shape, count);
        let mut rest = logits.values_mut();
        let mut next = first;
        while !rest.is_empty() {
            let (part, row) = (next / self.info.part, next % self.info.part);
            let rows = (rest.len() / shape.width()).min((self.info.part - row) as usize);
            let (here, after) = rest.split_at_mut(rows * shape.width());
            let file = PartFile::open(self.folder.part(part), &self.info, part)?;
            file.read(row as usize, here)?;
            rest = after;
            next += rows as u64;
        }
        Ok(logits)
    }
}

/// The first digits of a hash, enough to tell two apart.
fn short(hash: &str) -> String {
    const DIGITS: usize = 12;
    match hash.char_indices().nth(DIGITS) {
        Some((end, _)) => format!("{}…", &hash[..end]),
        None => hash.to_owned(),
    }
}

#[cfg(test)]
mod tests;
