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
mod tests;
