//! The bank: logits of proposals 0, 1, 2, … of one seed, scored once and kept for every query.
//!
//! A bank is a folder. `bank.toml` says what was mined, `part-%08d.parquet` holds [`PART`]
//! proposals each, and a part in progress grows in a journal until it is written whole. The bytes
//! of a part depend on its proposals only: not on batches, interruptions or the order of work.
//!
//! A piece of a bank begins at a later proposal (`first`). Pieces are mined apart, on any number of machines, and joined
//! ([`join`]): the files of their parts are those that one machine would have written.

mod join;
mod part;
mod thrift;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use s2m_core::joint::MOST_SETS;
use s2m_core::labels::{Labels, LabelsError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use self::join::{GoesOn, Joined, extend, extend_while, join, join_while};
pub use self::part::Damage;
use self::part::{PartFile, part_name, part_number};
use crate::bundle::one_line;
use crate::disk::{Lock, LockError, StagingError, is_temporary_of, open_plain, write_whole_with};
use crate::journal::{Journal, JournalError};
use crate::logits::{Logits, RowShape};

/// The version of the bank format that this program reads and writes.
pub const FORMAT: u32 = 1;

/// Proposals in a part; a bank may say less, never more.
pub const PART: u64 = 1 << 18;

/// Name of the description inside a bank.
pub const DESCRIPTION: &str = "bank.toml";

/// Name of the lock inside a bank that is being mined.
const LOCK: &str = "mine.lock";

/// Ending of files that are not whole, as earlier versions of this program named them.
const TEMPORARY: &str = ".tmp";

/// Largest description that is read.
const MAX_DESCRIPTION: u64 = 1 << 20;

/// Most parts whose footers are all read before a bank is used: about 270 million proposals.
const MOST_FOOTERS: usize = 1 << 10;

/// Longest text in `model`, `scoring_hash` and `device`.
const MAX_TEXT: usize = 200;

/// Why a bank cannot be read or written.
#[derive(Debug, Error)]
pub enum BankError {
    /// A file or folder cannot be read.
    #[error("could not read `{}`: {source}", .path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file or folder cannot be written.
    #[error("could not write `{}`: {source}", .path.display())]
    Write {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The part in progress cannot be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Nobody waited for the end any longer.
    #[error("stopped before the end")]
    Stopped,
    /// There is no such folder.
    #[error("there is no bank `{}`\nhint: `s2m mine` makes one", .folder.display())]
    Missing {
        /// The folder asked for.
        folder: PathBuf,
    },
    /// The folder is something else.
    #[error("`{}` is not a bank: it has no {DESCRIPTION}", .folder.display())]
    NotABank {
        /// The folder.
        folder: PathBuf,
    },
    /// A new bank would be mixed with files that are already there.
    #[error("`{}` holds other files and no {DESCRIPTION}\nhint: name a new or an empty folder for the bank", .folder.display())]
    OtherFiles {
        /// The folder.
        folder: PathBuf,
    },
    /// The description is beyond the limit.
    #[error("`{}` is larger than {limit} bytes", .path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// The description is not what it should be.
    #[error("`{}`: {problem}", .path.display())]
    Description {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: InfoError,
    },
    /// The bank was mined with other networks.
    #[error("the bank `{}` belongs to another model: it was mined with `{bank_model}` (scoring hash {}), this is `{model}` ({})\nhint: mine a new bank for this model", .folder.display(), short(.bank_hash), short(.hash))]
    OtherModel {
        /// The bank.
        folder: PathBuf,
        /// Name of the bank's model.
        bank_model: String,
        /// Scoring hash of the bank's model.
        bank_hash: String,
        /// Name of the model at hand.
        model: String,
        /// Scoring hash of the model at hand.
        hash: String,
    },
    /// The columns of the bank are not those of the model.
    #[error("the bank `{}` has other columns than the model: {bank_columns}, not {columns}\nhint: mine a new bank for this model", .folder.display())]
    OtherColumns {
        /// The bank.
        folder: PathBuf,
        /// The bank's labels and classes.
        bank_columns: String,
        /// The model's labels and classes.
        columns: String,
    },
    /// The bank was mined with another seed.
    #[error("the bank `{}` was mined with seed {bank_seed}, not {seed}\nhint: use seed {bank_seed}, or mine another bank", .folder.display())]
    OtherSeed {
        /// The bank.
        folder: PathBuf,
        /// The bank's seed.
        bank_seed: u64,
        /// The seed asked for.
        seed: u64,
    },
    /// The bank was mined on another device, whose logits differ in the last digits.
    #[error("the bank `{}` was mined on `{bank_device}`, not on `{device}`\nhint: go on with `{bank_device}`, or mine another bank", .folder.display())]
    OtherDevice {
        /// The bank.
        folder: PathBuf,
        /// The bank's device.
        bank_device: String,
        /// The device at hand.
        device: String,
    },
    /// Somebody else adds to the bank.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A part cannot be used.
    #[error("`{}` is damaged: {damage}\nhint: delete it and mine again; the other parts are kept", .path.display())]
    Damaged {
        /// Which part.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damage,
    },
    /// A part is missing while later ones are there.
    #[error("the bank `{}` has a gap: `{part}` is missing\nhint: mine again to fill it", .folder.display())]
    Gap {
        /// The bank.
        folder: PathBuf,
        /// The missing file.
        part: String,
    },
    /// A piece was opened as if it were a bank.
    #[error("`{}` is a piece of a bank, which begins at proposal {first}\nhint: `s2m bank join` makes a bank of all pieces", .folder.display())]
    Piece {
        /// The piece.
        folder: PathBuf,
        /// Its first proposal.
        first: u64,
    },
    /// A piece that is there begins elsewhere.
    #[error("`{}` begins at proposal {found}, not at {first}\nhint: name another folder for this range", .folder.display())]
    OtherRange {
        /// The piece.
        folder: PathBuf,
        /// Where it begins.
        found: u64,
        /// Where it should begin.
        first: u64,
    },
    /// Pieces do not follow each other.
    #[error("proposals {} to {} are in no piece: {before}\nhint: `s2m mine --range {}..{}` mines them", .missing.start, .missing.end - 1, .missing.start, .missing.end)]
    MissingRange {
        /// What is missing.
        missing: Range<u64>,
        /// What is there before it.
        before: String,
    },
    /// Two pieces hold the same proposals.
    #[error("proposals from {first} on are in `{}` and in `{}`\nhint: leave one of them out", .one.display(), .other.display())]
    Overlap {
        /// The first proposal that both have.
        first: u64,
        /// One piece.
        one: PathBuf,
        /// The other one.
        other: PathBuf,
    },
    /// Pieces with parts of different sizes.
    #[error("`{}` has parts of {found} proposals, `{}` of {wanted}\nhint: mine all pieces with the same part", .folder.display(), .other.display())]
    OtherPart {
        /// One piece.
        folder: PathBuf,
        /// Size of its parts.
        found: u64,
        /// Another piece.
        other: PathBuf,
        /// Size of its parts.
        wanted: u64,
    },
    /// The joined bank cannot be made.
    #[error(transparent)]
    Staging(#[from] StagingError),
    /// Proposals that the bank does not have were asked for.
    #[error("the bank `{}` holds {len} proposals; {count} from number {first} were asked for", .folder.display())]
    OutOfRange {
        /// The bank.
        folder: PathBuf,
        /// Proposals in the bank.
        len: u64,
        /// First one asked for.
        first: u64,
        /// How many were asked for.
        count: usize,
    },
}

/// Most outputs of a network of label sets: one per set and one for the rest.
const MOST_OUTPUTS: usize = MOST_SETS + 1;

/// What is wrong with a bank's description.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum InfoError {
    /// Not a text.
    #[error("it is not UTF-8 text")]
    NotText,
    /// Not TOML, a key too many or too few, or a value of the wrong kind.
    #[error("{0}")]
    Syntax(String),
    /// The format is from another time.
    #[error("format {0} is not known; this program reads format {FORMAT}")]
    Format(u32),
    /// The label names do not work.
    #[error(transparent)]
    Labels(#[from] LabelsError),
    /// The size of a part is impossible.
    #[error("`part` is {0}; 1 to {PART} are possible")]
    Part(u64),
    /// Classes without a conditional generator, the reverse, or none.
    #[error("`classes` is at least 1 where `conditional` is true, and left out where it is not")]
    Classes,
    /// More outputs than a network can have.
    #[error("`joint` is {0}; at most {MOST_OUTPUTS} are possible")]
    Joint(usize),
    /// A piece begins inside a part.
    #[error(
        "it begins at proposal {first}; a piece begins at a multiple of its part, which is {part}"
    )]
    First {
        /// Its first proposal.
        first: u64,
        /// Proposals in a part.
        part: u64,
    },
    /// A text is beyond the limit.
    #[error("`{0}` is longer than {MAX_TEXT} bytes")]
    TooLong(&'static str),
}

/// The first digits of a hash, enough to tell two apart.
fn short(hash: &str) -> String {
    const DIGITS: usize = 12;
    match hash.char_indices().nth(DIGITS) {
        Some((end, _)) => format!("{}…", &hash[..end]),
        None => hash.to_owned(),
    }
}

/// What was mined; the whole of `bank.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BankInfo {
    /// Version of this format.
    pub format: u32,
    /// Name of the bundle.
    pub model: String,
    /// Hash of all that decides the logits.
    pub scoring_hash: String,
    /// Label names, in the order of the columns.
    pub labels: Vec<String>,
    /// Whether there are fake-class logits and classes.
    pub conditional: bool,
    /// Number of classes `n`: proposal `k` has class `k mod n`; conditional generators only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<usize>,
    /// Outputs of the joint head, of which the likeliest are kept; left out without one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub joint: usize,
    /// Seed of the proposals.
    pub seed: u64,
    /// Proposals in a part.
    pub part: u64,
    /// First proposal of a piece, at the beginning of a part; left out where it is 0, as in every whole bank.
    #[serde(default, skip_serializing_if = "is_first")]
    pub first: u64,
    /// Device on which the logits were computed.
    pub device: String,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(outputs: &usize) -> bool {
    *outputs == 0
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_first(proposal: &u64) -> bool {
    *proposal == 0
}

impl BankInfo {
    /// What a row holds.
    pub fn shape(&self) -> RowShape {
        RowShape {
            labels: self.labels.len(),
            conditional: self.conditional,
            joint: self.joint,
            members: 0,
        }
    }

    /// Reads and checks a description.
    fn parse(bytes: &[u8]) -> Result<Self, InfoError> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let text = str::from_utf8(bytes).map_err(|_| InfoError::NotText)?;
        // First the format alone, so that keys of a later one are not called misspelt.
        let syntax = |error: toml::de::Error| InfoError::Syntax(one_line(&error, text));
        let version: Version = toml::from_str(text).map_err(syntax)?;
        if version.format != FORMAT {
            return Err(InfoError::Format(version.format));
        }
        let info: Self = toml::from_str(text).map_err(syntax)?;
        info.check()?;
        Ok(info)
    }

    fn check(&self) -> Result<(), InfoError> {
        Labels::new(self.labels.iter().cloned())?;
        let texts = [
            ("model", &self.model),
            ("scoring_hash", &self.scoring_hash),
            ("device", &self.device),
        ];
        if let Some((key, _)) = texts.iter().find(|(_, text)| text.len() > MAX_TEXT) {
            return Err(InfoError::TooLong(key));
        }
        if self.joint > MOST_OUTPUTS {
            return Err(InfoError::Joint(self.joint));
        }
        if !(1..=PART).contains(&self.part) {
            return Err(InfoError::Part(self.part));
        }
        if !self.first.is_multiple_of(self.part) {
            return Err(InfoError::First {
                first: self.first,
                part: self.part,
            });
        }
        let possible = match self.classes {
            // The column of classes holds 32-bit numbers.
            Some(classes) => self.conditional && (1..=i32::MAX as usize).contains(&classes),
            None => !self.conditional,
        };
        possible.then_some(()).ok_or(InfoError::Classes)
    }

    /// Says which part of which bank a file is.
    fn identity(&self, part: u64) -> String {
        format!("{} seed {} part {part}", self.scoring_hash, self.seed)
    }

    /// Labels and classes in words.
    fn columns_in_words(&self) -> String {
        let labels = labels_in_words(&self.labels);
        match self.classes {
            None => labels,
            Some(classes) => format!("{labels} and {classes} classes"),
        }
    }
}

fn labels_in_words(labels: &[String]) -> String {
    let quoted: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
    quoted.join(", ")
}

/// The folder of a bank: where its files are, and which of them are there.
#[derive(Debug, Clone)]
struct Folder(PathBuf);

impl Folder {
    fn description(&self) -> PathBuf {
        self.0.join(DESCRIPTION)
    }

    fn part(&self, part: u64) -> PathBuf {
        self.0.join(part_name(part))
    }

    fn journal(&self, part: u64) -> PathBuf {
        self.0.join(format!("part-{part:08}.journal"))
    }

    /// Names of all files.
    fn names(&self) -> Result<Vec<String>, BankError> {
        let names = || -> io::Result<Vec<String>> {
            fs::read_dir(&self.0)?
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                .collect()
        };
        names().map_err(read_error(&self.0))
    }

    /// Fails where there are files that are not of a bank's beginning.
    fn check_free(&self) -> Result<(), BankError> {
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
    fn info(&self) -> Result<Option<BankInfo>, BankError> {
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
    fn parts(&self, info: &BankInfo) -> Result<BTreeMap<u64, u64>, BankError> {
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

fn read_error(path: &Path) -> impl FnOnce(io::Error) -> BankError {
    let path = path.to_owned();
    |source| BankError::Read { path, source }
}

fn write_error(path: &Path) -> impl FnOnce(io::Error) -> BankError {
    let path = path.to_owned();
    |source| BankError::Write { path, source }
}

/// Writes a file that appears whole or not at all.
fn write_whole(path: &Path, fill: impl FnOnce(&File) -> io::Result<()>) -> Result<(), BankError> {
    write_whole_with(path, fill).map_err(write_error(path))
}

/// A bank that is being mined.
#[derive(Debug)]
pub struct BankWriter {
    folder: Folder,
    info: BankInfo,
    wanted: u64,
    /// Proposals in every part that was on disk at the start.
    parts: BTreeMap<u64, u64>,
    /// The part in progress.
    part: u64,
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
    pub fn open(folder: &Path, info: BankInfo, wanted: u64) -> Result<Self, BankError> {
        let folder = Folder(folder.to_owned());
        // Before anything is written: what cannot become a bank is refused without a trace.
        if folder.info()?.is_none() {
            folder.check_free()?;
            check_description(&folder, &info)?;
        }
        fs::create_dir_all(&folder.0).map_err(write_error(&folder.0))?;
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
    pub fn push(&mut self, logits: &Logits) -> Result<(), BankError> {
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
    pub fn finish(mut self) -> Result<(), BankError> {
        self.save_part()
    }

    /// Adds rows to the part in progress, first on disk and then in memory.
    fn add(&mut self, values: &[f32]) -> Result<(), BankError> {
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
    fn save_part(&mut self) -> Result<(), BankError> {
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
    fn start_part(&mut self, part: u64) -> Result<(), BankError> {
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
    fn open_journal(&mut self) -> Result<(), BankError> {
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
    fn remove_leftovers(&self) -> Result<(), BankError> {
        let current = self.folder.journal(self.part);
        for name in self.folder.names()? {
            let path = self.folder.0.join(&name);
            let half_written = is_half_written(&name);
            let journal = name.starts_with("part-") && name.ends_with(".journal");
            if half_written || journal && path != current {
                fs::remove_file(&path).map_err(write_error(&path))?;
            }
        }
        Ok(())
    }
}

/// Whether a name is one that a description or a part has before it is whole.
fn is_half_written(name: &str) -> bool {
    let of_bank = |whole: &str| whole == DESCRIPTION || part_number(whole).is_some();
    let own_part = |name: &str| {
        let whole = name.get(1..1 + part_name(0).len());
        whole.is_some_and(|whole| part_number(whole).is_some() && is_temporary_of(name, whole))
    };
    name.strip_suffix(TEMPORARY).is_some_and(of_bank)
        || is_temporary_of(name, DESCRIPTION)
        || own_part(name)
}

/// The description of the bank that is there, if `info` asks for the same.
fn same_bank(folder: &Folder, found: BankInfo, info: &BankInfo) -> Result<BankInfo, BankError> {
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
        return Err(BankError::OtherRange {
            folder: folder.0.clone(),
            found: found.first,
            first: info.first,
        });
    }
    if (found.conditional, found.classes, found.joint)
        != (info.conditional, info.classes, info.joint)
    {
        return Err(BankError::OtherColumns {
            folder: folder.0.clone(),
            bank_columns: found.columns_in_words(),
            columns: info.columns_in_words(),
        });
    }
    if found.device != info.device {
        return Err(BankError::OtherDevice {
            folder: folder.0.clone(),
            bank_device: found.device,
            device: info.device.clone(),
        });
    }
    Ok(found)
}

/// The text of a description, if it is one that can be read again.
fn check_description(folder: &Folder, info: &BankInfo) -> Result<String, BankError> {
    let path = folder.description();
    let text = toml::to_string(info).map_err(|e| write_error(&path)(io::Error::other(e)))?;
    match BankInfo::parse(text.as_bytes()) {
        Ok(_) => Ok(text),
        Err(problem) => Err(BankError::Description { path, problem }),
    }
}

/// Writes the description into an empty folder.
fn begin(folder: &Folder, info: BankInfo) -> Result<BankInfo, BankError> {
    folder.check_free()?;
    let text = check_description(folder, &info)?;
    write_whole(&folder.description(), |mut file| {
        file.write_all(text.as_bytes())
    })?;
    Ok(info)
}

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
    pub fn open(folder: &Path) -> Result<Self, BankError> {
        let folder = Folder(folder.to_owned());
        let Some(info) = folder.info()? else {
            let folder = folder.0;
            return Err(if folder.exists() {
                BankError::NotABank { folder }
            } else {
                BankError::Missing { folder }
            });
        };
        if info.first > 0 {
            let (folder, first) = (folder.0, info.first);
            return Err(BankError::Piece { folder, first });
        }
        let parts = folder.parts(&info)?;
        if let Some(part) = (0..parts.len() as u64).find(|part| !parts.contains_key(part)) {
            return Err(BankError::Gap {
                folder: folder.0,
                part: part_name(part),
            });
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
    pub fn check(
        &self,
        model: &str,
        scoring_hash: &str,
        labels: &[String],
    ) -> Result<(), BankError> {
        let folder = self.folder.0.clone();
        if self.info.scoring_hash != scoring_hash {
            return Err(BankError::OtherModel {
                folder,
                bank_model: self.info.model.clone(),
                bank_hash: self.info.scoring_hash.clone(),
                model: model.to_owned(),
                hash: scoring_hash.to_owned(),
            });
        }
        if self.info.labels != labels {
            return Err(BankError::OtherColumns {
                folder,
                bank_columns: labels_in_words(&self.info.labels),
                columns: labels_in_words(labels),
            });
        }
        Ok(())
    }

    /// Fails where the bank was mined with another seed.
    pub fn check_seed(&self, seed: u64) -> Result<(), BankError> {
        if self.info.seed == seed {
            return Ok(());
        }
        Err(BankError::OtherSeed {
            folder: self.folder.0.clone(),
            bank_seed: self.info.seed,
            seed,
        })
    }

    /// Reads the logits of `count` proposals from number `first` on.
    pub fn read(&self, first: u64, count: usize) -> Result<Logits, BankError> {
        let end = first.checked_add(count as u64);
        if end.is_none_or(|end| end > self.len) {
            return Err(BankError::OutOfRange {
                folder: self.folder.0.clone(),
                len: self.len,
                first,
                count,
            });
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

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const WANTED: u64 = 21;

    /// A small bank: parts of eight proposals.
    pub(super) fn info(conditional: bool) -> BankInfo {
        BankInfo {
            format: FORMAT,
            model: "toy".to_owned(),
            scoring_hash: "0123456789abcdef".to_owned(),
            labels: vec!["A".to_owned(), "Bläck hair".to_owned()],
            conditional,
            classes: conditional.then_some(3),
            joint: 0,
            seed: 7,
            first: 0,
            part: 8,
            device: "cpu".to_owned(),
        }
    }

    /// Logits that are a function of the proposal's number, as real ones are.
    pub(super) fn score(info: &BankInfo, first: u64, count: usize) -> Logits {
        let mut logits = Logits::zeros(info.shape(), count);
        let start = first as usize * info.shape().width();
        for (index, value) in logits.values_mut().iter_mut().enumerate() {
            *value = ((start + index) as f32).sin();
        }
        logits
    }

    /// Mines in batches until there is nothing to do; does not finish.
    pub(super) fn mine(writer: &mut BankWriter, batch: usize) {
        while writer.position() < writer.wanted() {
            push(writer, batch);
        }
    }

    fn push(writer: &mut BankWriter, batch: usize) {
        let logits = score(writer.info(), writer.position(), batch);
        writer.push(&logits).unwrap();
    }

    pub(super) fn mine_to_the_end(folder: &Path, info: &BankInfo, wanted: u64) {
        let mut writer = BankWriter::open(folder, info.clone(), wanted).unwrap();
        mine(&mut writer, 3);
        writer.finish().unwrap();
    }

    /// Names and bytes of all files in a folder.
    fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
        let names = Folder(folder.to_owned()).names().unwrap();
        let read = |name: String| {
            let bytes = fs::read(folder.join(&name)).unwrap();
            (name, bytes)
        };
        names.into_iter().map(read).collect()
    }

    fn put(folder: &Path, files: &BTreeMap<String, Vec<u8>>) {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir(folder).unwrap();
        for (name, bytes) in files {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }

    /// The files of a bank that was mined in one go.
    fn whole_bank(info: &BankInfo, wanted: u64) -> BTreeMap<String, Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), info, wanted);
        files(folder.path())
    }

    #[test]
    fn every_stretch_of_proposals_comes_back() {
        for info in [info(false), info(true)] {
            let folder = tempfile::tempdir().unwrap();
            mine_to_the_end(folder.path(), &info, WANTED);
            let bank = Bank::open(folder.path()).unwrap();
            assert_eq!(bank.info(), &info);
            assert_eq!(bank.len(), WANTED);
            for first in 0..=WANTED {
                for count in 0..=(WANTED - first) as usize {
                    let found = bank.read(first, count).unwrap();
                    assert_eq!(found, score(&info, first, count), "{count} from {first}");
                }
            }
        }
    }

    #[test]
    fn the_batch_size_does_not_change_the_bytes() {
        let expected = whole_bank(&info(true), WANTED);
        let names: Vec<_> = expected.keys().collect();
        assert_eq!(
            names,
            [
                "bank.toml",
                "part-00000000.parquet",
                "part-00000001.parquet",
                "part-00000002.parquet"
            ]
        );
        for batch in [1, 2, 7, 8, 9, 20, 100] {
            let folder = tempfile::tempdir().unwrap();
            let mut writer = BankWriter::open(folder.path(), info(true), WANTED).unwrap();
            mine(&mut writer, batch);
            assert_eq!(writer.position(), WANTED);
            writer.finish().unwrap();
            assert!(files(folder.path()) == expected, "batch {batch}");
        }
    }

    /// Kills the run after every push, tears the journal at every byte, and goes on.
    #[test]
    fn a_killed_run_goes_on_and_ends_with_the_same_bytes() {
        let info = info(false);
        let expected = whole_bank(&info, WANTED);
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("bank");
        for pushes in 0..=7 {
            let _ = fs::remove_dir_all(&folder);
            let mut writer = BankWriter::open(&folder, info.clone(), WANTED).unwrap();
            (0..pushes).for_each(|_| push(&mut writer, 3));
            let (before, journal) = (writer.position(), writer.folder.journal(writer.part));
            drop(writer);
            let mut left = files(&folder);
            let name = journal.file_name().unwrap().to_string_lossy().into_owned();
            let torn = left.get(&name).cloned().unwrap_or_default();
            for length in 0..=torn.len() {
                if !torn.is_empty() {
                    left.insert(name.clone(), torn[..length].to_vec());
                }
                put(&folder, &left);
                let mut writer = BankWriter::open(&folder, info.clone(), WANTED).unwrap();
                let lost = before - writer.position();
                assert!(lost == 0 || length < torn.len() && lost < info.part);
                mine(&mut writer, 4);
                writer.finish().unwrap();
                assert!(
                    files(&folder) == expected,
                    "{pushes} pushes, {length} bytes"
                );
            }
        }
    }

    #[test]
    fn a_run_killed_while_it_changes_files_goes_on() {
        let info = info(false);
        let expected = whole_bank(&info, WANTED);
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("bank");
        let mut writer = BankWriter::open(&folder, info.clone(), WANTED).unwrap();
        (0..8).for_each(|_| push(&mut writer, 1));
        drop(writer);
        let part_done = files(&folder);
        // The journal of part 0 as it was when all eight rows were in it.
        let path = scratch.path().join("full.journal");
        let identity = format!("{} after 0", info.identity(0));
        let (mut journal, _) = Journal::open(&path, &identity, info.shape()).unwrap();
        journal.append(score(&info, 0, 8).values()).unwrap();
        let journal = fs::read(&path).unwrap();

        let mut not_renamed = part_done.clone();
        let part = not_renamed.remove("part-00000000.parquet").unwrap();
        not_renamed.insert("part-00000000.parquet.tmp".to_owned(), part[..40].to_vec());
        not_renamed.insert("part-00000000.journal".to_owned(), journal.clone());
        let mut journal_left = part_done.clone();
        journal_left.insert("part-00000000.journal".to_owned(), journal);
        let mut barely_begun = BTreeMap::new();
        barely_begun.insert("bank.toml.tmp".to_owned(), b"form".to_vec());
        let states = [(8, not_renamed), (8, journal_left), (0, barely_begun)];
        for (position, state) in states {
            put(&folder, &state);
            let mut writer = BankWriter::open(&folder, info.clone(), WANTED).unwrap();
            assert_eq!(writer.position(), position);
            mine(&mut writer, 3);
            writer.finish().unwrap();
            assert!(files(&folder) == expected, "{:?}", state.keys());
        }
    }

    #[test]
    fn a_longer_bank_grows_out_of_a_shorter_one() {
        let info = info(true);
        let expected = whole_bank(&info, WANTED);
        for first in 0..=WANTED {
            let folder = tempfile::tempdir().unwrap();
            mine_to_the_end(folder.path(), &info, first);
            assert_eq!(Bank::open(folder.path()).unwrap().len(), first);
            let mut writer = BankWriter::open(folder.path(), info.clone(), WANTED).unwrap();
            assert_eq!(writer.position(), first);
            if first < WANTED {
                // Killed once more on the way.
                push(&mut writer, 2);
            }
            drop(writer);
            mine_to_the_end(folder.path(), &info, WANTED);
            assert!(files(folder.path()) == expected, "from {first}");
        }
    }

    #[test]
    fn a_journal_that_outlived_an_extended_part_is_not_added_twice() {
        let info = info(false);
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info, 3);
        let mut writer = BankWriter::open(folder.path(), info.clone(), 5).unwrap();
        push(&mut writer, 2);
        let journal = fs::read(folder.path().join("part-00000000.journal")).unwrap();
        writer.finish().unwrap();
        fs::write(folder.path().join("part-00000000.journal"), journal).unwrap();
        let writer = BankWriter::open(folder.path(), info, 8).unwrap();
        assert_eq!(writer.position(), 5);
    }

    #[test]
    fn a_bank_that_is_long_enough_is_left_alone() {
        let info = info(false);
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info, WANTED);
        let before = files(folder.path());
        for wanted in [0, 5, 16, WANTED] {
            let writer = BankWriter::open(folder.path(), info.clone(), wanted).unwrap();
            assert!(writer.position() >= wanted);
            writer.finish().unwrap();
            assert!(files(folder.path()) == before);
        }
    }

    #[test]
    fn a_part_that_was_deleted_is_mined_again_alone() {
        let info = info(true);
        let expected = whole_bank(&info, 30);
        for (missing, position) in [(0, 0), (1, 8), (2, 16)] {
            let folder = tempfile::tempdir().unwrap();
            mine_to_the_end(folder.path(), &info, 29);
            fs::remove_file(folder.path().join(part_name(missing))).unwrap();
            let mut writer = BankWriter::open(folder.path(), info.clone(), 30).unwrap();
            assert_eq!(writer.position(), position);
            push(&mut writer, 11);
            assert_eq!(writer.position(), 29, "the parts after it are there");
            mine(&mut writer, 3);
            writer.finish().unwrap();
            assert!(files(folder.path()) == expected, "part {missing}");
        }
    }

    #[test]
    fn leftovers_of_ours_are_removed_and_other_files_are_not() {
        let info = info(false);
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info, 3);
        let mut expected = files(folder.path());
        expected.insert("notes.tmp".to_owned(), Vec::new());
        fs::write(folder.path().join("notes.tmp"), "").unwrap();
        for name in [
            "bank.toml.tmp",
            "part-00000004.parquet.tmp",
            "part-00000004.journal",
        ] {
            fs::write(folder.path().join(name), "half").unwrap();
        }
        drop(BankWriter::open(folder.path(), info, 3).unwrap());
        assert!(files(folder.path()) == expected);
    }

    #[test]
    fn a_bank_keeps_its_part_size_and_its_name() {
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info(false), 3);
        let mut other = info(false);
        other.part = PART;
        other.model = "renamed".to_owned();
        mine_to_the_end(folder.path(), &other, WANTED);
        assert!(files(folder.path()) == whole_bank(&info(false), WANTED));
    }

    #[test]
    fn the_largest_seed_survives() {
        let mut info = info(false);
        info.seed = u64::MAX;
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info, 3);
        assert_eq!(Bank::open(folder.path()).unwrap().info(), &info);
    }

    #[test]
    fn types_can_be_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Bank>();
        shared::<BankWriter>();
        shared::<BankError>();
    }

    /// Small numbers that look random; the same ones every time.
    pub(super) struct Noise(pub(super) u64);

    impl Noise {
        pub(in crate::bank) fn below(&mut self, limit: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) as usize % limit
        }

        /// Flips bits, overwrites, cuts or lengthens.
        fn damage(&mut self, bytes: &[u8]) -> Vec<u8> {
            let mut bytes = bytes.to_vec();
            for _ in 0..=self.below(3) {
                let at = self.below(bytes.len().max(1));
                match self.below(5) {
                    0 => bytes.truncate(at),
                    1 => bytes.insert(at, self.below(256) as u8),
                    2 if at < bytes.len() => bytes[at] = [0, 0x7f, 0x80, 0xff][self.below(4)],
                    _ if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                    _ => {}
                }
            }
            bytes
        }
    }

    /// Opens, reads and goes on with a bank, whatever state it is in; every error is fine.
    fn use_somehow(folder: &Path, info: &BankInfo) -> bool {
        let read = Bank::open(folder).and_then(|bank| bank.read(0, bank.len() as usize));
        let wrote = BankWriter::open(folder, info.clone(), WANTED).and_then(|mut writer| {
            mine(&mut writer, 8);
            writer.finish()
        });
        read.is_ok() && wrote.is_ok()
    }

    #[test]
    fn damaged_files_end_in_an_error_or_in_a_bank() {
        let info = info(true);
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("bank");
        let mut writer = BankWriter::open(&folder, info.clone(), WANTED).unwrap();
        (0..6).for_each(|_| push(&mut writer, 3));
        drop(writer);
        let sound = files(&folder);
        let mut noise = Noise(1);
        let mut survivors = |name: &str| -> usize {
            let mut try_once = || {
                let mut files = sound.clone();
                files.insert(name.to_owned(), noise.damage(&sound[name]));
                put(&folder, &files);
                use_somehow(&folder, &info)
            };
            (0..1000).map(|_| usize::from(try_once())).sum()
        };
        assert!(survivors("bank.toml") < 500);
        assert!(survivors("part-00000001.parquet") < 500);
        // Of a damaged journal the sound records are used; the rest is mined again.
        assert_eq!(survivors("part-00000002.journal"), 1000);
        assert!(files(&folder) == whole_bank(&info, WANTED));
    }

    /// A bank of three parts, the last of them short, and what opening it after a change says.
    pub(super) fn error_after(change: impl FnOnce(&Path)) -> String {
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info(false), WANTED);
        change(folder.path());
        let err = match Bank::open(folder.path()) {
            Err(err) => err,
            Ok(bank) => bank.read(0, bank.len() as usize).unwrap_err(),
        };
        plain(&err, folder.path())
    }

    /// An error's text with `DIR` in place of the folder.
    fn plain(err: &BankError, folder: &Path) -> String {
        err.to_string().replace(&*folder.to_string_lossy(), "DIR")
    }

    fn error_with(change: impl FnOnce(&mut BankInfo)) -> String {
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info(false), 3);
        let mut info = info(false);
        change(&mut info);
        let err = BankWriter::open(folder.path(), info, 3).unwrap_err();
        plain(&err, folder.path())
    }

    pub(super) fn rewrite(folder: &Path, from: &str, to: &str) {
        let path = folder.join(DESCRIPTION);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replace(from, to)).unwrap();
    }

    #[test]
    fn a_bank_of_another_model_is_named_with_both() {
        let wording = "the bank `DIR` belongs to another model: it was mined with `toy` \
             (scoring hash 0123456789ab…), this is `face` (fedc)\n\
             hint: mine a new bank for this model";
        let found = error_with(|info| {
            info.model = "face".to_owned();
            info.scoring_hash = "fedc".to_owned();
        });
        assert_eq!(found, wording);
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info(false), 3);
        let bank = Bank::open(folder.path()).unwrap();
        let labels = info(false).labels;
        let err = bank.check("face", "fedc", &labels).unwrap_err();
        assert_eq!(plain(&err, folder.path()), wording);
        bank.check("face", "0123456789abcdef", &labels).unwrap();
        bank.check_seed(7).unwrap();
    }

    #[test]
    fn a_bank_with_other_columns_lists_both() {
        assert_eq!(
            error_with(|info| info.labels.reverse()),
            "the bank `DIR` has other columns than the model: `A`, `Bläck hair`, not \
             `Bläck hair`, `A`\nhint: mine a new bank for this model"
        );
        let conditional = |bank_info: &mut BankInfo| *bank_info = info(true);
        assert_eq!(
            error_with(conditional),
            "the bank `DIR` has other columns than the model: `A`, `Bläck hair`, not \
             `A`, `Bläck hair` and 3 classes\nhint: mine a new bank for this model"
        );
    }

    #[test]
    fn a_bank_of_another_seed_names_both_seeds() {
        assert_eq!(
            error_with(|info| info.seed = 8),
            "the bank `DIR` was mined with seed 7, not 8\n\
             hint: use seed 7, or mine another bank"
        );
    }

    #[test]
    fn a_bank_of_another_device_names_both_devices() {
        assert_eq!(
            error_with(|info| info.device = "cuda".to_owned()),
            "the bank `DIR` was mined on `cpu`, not on `cuda`\n\
             hint: go on with `cpu`, or mine another bank"
        );
    }

    #[test]
    fn a_folder_that_is_missing_or_no_bank_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!Bank::exists(folder.path()));
        let open = |folder: &Path| Bank::open(folder).unwrap_err().to_string();
        assert_eq!(
            plain(&Bank::open(folder.path()).unwrap_err(), folder.path()),
            "`DIR` is not a bank: it has no bank.toml"
        );
        assert_eq!(
            open(Path::new("/nowhere/bank")),
            "there is no bank `/nowhere/bank`\nhint: `s2m mine` makes one"
        );
        mine_to_the_end(folder.path(), &info(false), 0);
        assert!(Bank::exists(folder.path()));
        assert!(Bank::open(folder.path()).unwrap().is_empty());
    }

    #[test]
    fn a_folder_with_other_files_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.tex"), "").unwrap();
        let err = BankWriter::open(folder.path(), info(false), 3).unwrap_err();
        assert_eq!(
            plain(&err, folder.path()),
            "`DIR` holds other files and no bank.toml\n\
             hint: name a new or an empty folder for the bank"
        );
        assert_eq!(files(folder.path()).len(), 1, "nothing was written");
    }

    #[test]
    fn a_bank_is_mined_by_one_run_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let _held = BankWriter::open(folder.path(), info(false), 3).unwrap();
        let err = BankWriter::open(folder.path(), info(false), 3).unwrap_err();
        assert_eq!(
            plain(&err, folder.path()),
            format!(
                "`DIR` is in use by process {}\nhint: wait for it, or name another place",
                std::process::id()
            )
        );
        Bank::open(folder.path()).unwrap();
    }

    #[test]
    fn a_bad_description_says_what_is_wrong() {
        let cases = [
            (
                "part = 8",
                "part = 0",
                "`part` is 0; 1 to 262144 are possible",
            ),
            (
                "format = 1",
                "format = 2",
                "format 2 is not known; this program reads format 1",
            ),
            (
                "conditional = false",
                "conditional = true",
                "`classes` is at least 1 where `conditional` is true, and left out where it is not",
            ),
            (
                "\"A\", \"Bläck hair\"",
                "",
                "a bundle needs at least one label",
            ),
        ];
        for (from, to, wording) in cases {
            let found = error_after(|folder| rewrite(folder, from, to));
            assert_eq!(found, format!("`DIR/bank.toml`: {wording}"));
        }
        let long = "x".repeat(201);
        assert_eq!(
            error_after(|folder| rewrite(folder, "cpu", &long)),
            "`DIR/bank.toml`: `device` is longer than 200 bytes"
        );
        let misspelt = error_after(|folder| rewrite(folder, "seed =", "sede ="));
        assert!(
            misspelt.starts_with("`DIR/bank.toml`: line 6: unknown field `sede`"),
            "{misspelt}"
        );
        assert_eq!(misspelt.lines().count(), 1, "{misspelt}");
        let write = |bytes: &[u8]| {
            let bytes = bytes.to_vec();
            error_after(move |folder| fs::write(folder.join(DESCRIPTION), bytes).unwrap())
        };
        assert_eq!(write(b"\xff"), "`DIR/bank.toml`: it is not UTF-8 text");
        assert_eq!(
            write(&vec![b' '; (1 << 20) + 1]),
            "`DIR/bank.toml` is larger than 1048576 bytes"
        );
    }

    #[test]
    fn a_new_bank_with_a_bad_description_is_not_begun() {
        let folder = tempfile::tempdir().unwrap();
        let mut bad = info(false);
        bad.part = PART + 1;
        let err = BankWriter::open(folder.path(), bad, 3).unwrap_err();
        assert_eq!(
            plain(&err, folder.path()),
            "`DIR/bank.toml`: `part` is 262145; 1 to 262144 are possible"
        );
        assert!(files(folder.path()).is_empty());
    }

    #[test]
    fn a_gap_names_the_missing_part() {
        let found = error_after(|folder| {
            fs::remove_file(folder.join("part-00000001.parquet")).unwrap();
        });
        assert_eq!(
            found,
            "the bank `DIR` has a gap: `part-00000001.parquet` is missing\n\
             hint: mine again to fill it"
        );
    }

    #[test]
    fn proposals_beyond_the_end_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info(false), WANTED);
        let bank = Bank::open(folder.path()).unwrap();
        let err = bank.read(20, 2).unwrap_err();
        assert_eq!(
            plain(&err, folder.path()),
            "the bank `DIR` holds 21 proposals; 2 from number 20 were asked for"
        );
        bank.read(u64::MAX, 2).unwrap_err();
    }

    #[test]
    fn system_errors_name_the_file_and_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let err = BankWriter::open(&file.join("bank"), info(false), 3).unwrap_err();
        assert_eq!(
            plain(&err, folder.path()),
            "could not read `DIR/file/bank/bank.toml`: Not a directory (os error 20)"
        );
        let err = BankWriter::open(Path::new("/proc/bank"), info(false), 3).unwrap_err();
        assert_eq!(
            err.to_string(),
            "could not write `/proc/bank`: No such file or directory (os error 2)"
        );
        let bank = folder.path().join("bank");
        fs::create_dir_all(bank.join(DESCRIPTION)).unwrap();
        let err = Bank::open(&bank).unwrap_err();
        assert_eq!(
            plain(&err, folder.path()),
            "could not read `DIR/bank/bank.toml`: it is not a plain file"
        );
    }

    #[test]
    fn a_failed_write_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part");
        let err = write_whole(&path, |_| Err(io::Error::other("no")));
        assert_eq!(
            plain(&err.unwrap_err(), folder.path()),
            "could not write `DIR/part`: no"
        );
        assert!(files(folder.path()).is_empty());
    }
}
