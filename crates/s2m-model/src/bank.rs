//! The bank: logits of proposals 0, 1, 2, … of one seed, scored once and kept for every query.
//!
//! A bank is a folder. `bank.toml` says what was mined, `part-%08d.parquet` holds [`PART`]
//! proposals each, and a part in progress grows in a journal until it is written whole. The bytes
//! of a part depend on its proposals only: not on batches, interruptions or the order of work.
//!
//! Parts are written by the crate `parquet` and read by the few lines at the foot of this file.
//! They know the one layout that we write (plain, uncompressed, one page per column and row group)
//! and look before every step, so that a damaged file ends in a message: the crate's own reader
//! can be made to panic, to ask for all memory and to run for hours.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, Repetition, Type as Physical};
use parquet::data_type::{FloatType, Int32Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use s2m_core::labels::{Labels, LabelsError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::journal::{Journal, JournalError};
use crate::logits::{Logits, RowShape};

/// The version of the bank format that this program reads and writes.
pub const FORMAT: u32 = 1;

/// Proposals in a part; a bank may say less, never more.
pub const PART: u64 = 1 << 18;

/// Name of the description inside a bank.
pub const DESCRIPTION: &str = "bank.toml";

/// Ending of files that are not whole yet.
const TEMPORARY: &str = ".tmp";

/// Rows in a row group.
const ROW_GROUP: usize = 1 << 16;

/// Who wrote a part; fixed, so that the bytes do not change with the version of `parquet`.
const CREATED_BY: &str = "s2m bank 1";

/// Key in a part's footer; its value says which part of which bank the file is.
const IDENTITY: &str = "s2m.part";

/// Largest description that is read.
const MAX_DESCRIPTION: u64 = 1 << 20;

/// Largest footer that is read; 64 labels with the longest names need about half of it.
const MAX_FOOTER: u64 = 1 << 20;

/// Longest page header that is read; ours have about 20 bytes.
const MAX_PAGE_HEADER: u64 = 256;

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
    #[error("the bank `{}` is being mined by another run\nhint: wait for it, or mine another bank", .folder.display())]
    Busy {
        /// The bank.
        folder: PathBuf,
    },
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

/// What is wrong with a bank's description.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum InfoError {
    /// Not a text.
    #[error("it is not UTF-8 text")]
    NotText,
    /// Not TOML, a key too many or too few, or a value of the wrong kind.
    #[error(transparent)]
    Syntax(#[from] toml::de::Error),
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
    /// A text is beyond the limit.
    #[error("`{0}` is longer than {MAX_TEXT} bytes")]
    TooLong(&'static str),
}

/// What is wrong with a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Damage {
    /// It does not end as Parquet files do.
    #[error("it is cut short, or no Parquet file")]
    End,
    /// The footer makes no sense.
    #[error("its footer cannot be read")]
    Footer,
    /// The footer is for another part or bank.
    #[error("it belongs to another place or another bank")]
    Identity,
    /// The columns have other names, kinds or lengths.
    #[error("its columns are not those of a bank")]
    Columns,
    /// The number of proposals is impossible.
    #[error("it holds {found} proposals, where {wanted} were expected")]
    Rows {
        /// How many there are.
        found: u64,
        /// How many there should be.
        wanted: u64,
    },
    /// A page is not where or what the footer says.
    #[error("its footer and its pages do not agree")]
    Page,
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
    /// Seed of the proposals.
    pub seed: u64,
    /// Proposals in a part.
    pub part: u64,
    /// Device on which the logits were computed.
    pub device: String,
}

impl BankInfo {
    /// What a row holds.
    pub fn shape(&self) -> RowShape {
        RowShape {
            labels: self.labels.len(),
            conditional: self.conditional,
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
        let version: Version = toml::from_str(text)?;
        if version.format != FORMAT {
            return Err(InfoError::Format(version.format));
        }
        let info: Self = toml::from_str(text)?;
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
        if self.format != FORMAT {
            return Err(InfoError::Format(self.format));
        }
        if !(1..=PART).contains(&self.part) {
            return Err(InfoError::Part(self.part));
        }
        let possible = |classes| (1..=i32::MAX as usize).contains(&classes);
        if self.conditional != self.classes.is_some() || !self.classes.is_none_or(possible) {
            return Err(InfoError::Classes);
        }
        Ok(())
    }

    /// Says which part of which bank a file is.
    fn identity(&self, part: u64) -> String {
        format!("{} seed {} part {part}", self.scoring_hash, self.seed)
    }

    /// Names and kinds of a part's columns.
    fn columns(&self) -> Vec<(String, Physical)> {
        let logits = |kind: &'static str| {
            let name = move |label| (format!("{kind}.{label}"), Physical::FLOAT);
            self.labels.iter().map(name)
        };
        let mut columns: Vec<_> = logits("class_logit").collect();
        columns.push(("real_logit".to_owned(), Physical::FLOAT));
        if self.conditional {
            columns.extend(logits("fake_class_logit"));
            columns.push(("class".to_owned(), Physical::INT32));
        }
        columns
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
        names().map_err(|source| read_error(&self.0, source))
    }

    /// Reads the description; none where there is no such file.
    fn info(&self) -> Result<Option<BankInfo>, BankError> {
        let path = self.description();
        let mut bytes = Vec::new();
        let read = open_plain(&path).and_then(|file| {
            let limited = file.take(MAX_DESCRIPTION + 1).read_to_end(&mut bytes);
            limited.map(drop)
        });
        match read {
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(BankError::Read { path, source }),
            Ok(()) => {}
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

    /// Number of proposals in every part, after a look at each footer.
    ///
    /// All parts but the last must be full.
    fn parts(&self, info: &BankInfo) -> Result<BTreeMap<u64, u64>, BankError> {
        let mut parts = BTreeMap::new();
        for name in self.names()? {
            if let Some(part) = part_number(&name) {
                let rows = PartFile::open(self, info, part)?.rows;
                parts.insert(part, rows as u64);
            }
        }
        let last = parts.keys().next_back().copied();
        let short = |part, rows| Some(part) != last && rows < info.part;
        if let Some((&part, &found)) = parts.iter().find(|&(&part, &rows)| short(part, rows)) {
            let wanted = info.part;
            return Err(BankError::Damaged {
                path: self.part(part),
                damage: Damage::Rows { found, wanted },
            });
        }
        Ok(parts)
    }
}

fn part_name(part: u64) -> String {
    format!("part-{part:08}.parquet")
}

fn part_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("part-")?.strip_suffix(".parquet")?;
    let part = digits.parse().ok()?;
    (part_name(part) == name).then_some(part)
}

fn read_error(path: &Path, source: io::Error) -> BankError {
    let path = path.to_owned();
    BankError::Read { path, source }
}

fn write_error(path: &Path, source: io::Error) -> BankError {
    let path = path.to_owned();
    BankError::Write { path, source }
}

/// Opens a file for reading; opening a pipe would wait for its other end, so that is refused.
fn open_plain(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    File::open(path)
}

/// Writes a file that appears whole or not at all.
fn write_whole(path: &Path, fill: impl FnOnce(&File) -> io::Result<()>) -> Result<(), BankError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(TEMPORARY);
    let temporary = PathBuf::from(temporary);
    let write = || {
        let file = File::create(&temporary)?;
        fill(&file)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        // The new name is on the disk once its folder is. Not every system can do this.
        if let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) {
            let _ = folder.sync_all();
        }
        Ok(())
    };
    write().map_err(|source| {
        let _ = fs::remove_file(&temporary);
        write_error(path, source)
    })
}

/// A bank that is being mined.
#[derive(Debug)]
pub struct BankWriter {
    folder: Folder,
    info: BankInfo,
    wanted: u64,
    /// Proposals in every part on disk.
    parts: BTreeMap<u64, u64>,
    /// The part in progress.
    part: u64,
    /// Its proposals so far.
    rows: Logits,
    /// How many of them are in its file already.
    saved: usize,
    journal: Option<Journal>,
    /// The description, locked for as long as this writer lives.
    _lock: File,
}

impl BankWriter {
    /// Opens the bank in `folder`, or begins it, to be mined up to `wanted` proposals.
    ///
    /// What an earlier run left is taken up, also where it was killed. A bank that is there keeps
    /// its own `part` and name of the model; all else must be the same.
    pub fn open(folder: &Path, info: BankInfo, wanted: u64) -> Result<Self, BankError> {
        let folder = Folder(folder.to_owned());
        let info = match folder.info()? {
            Some(found) => same_bank(&folder, found, &info)?,
            None => begin(&folder, info)?,
        };
        let lock = lock(&folder)?;
        remove_temporaries(&folder)?;
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
        writer.start_part(0)?;
        writer.remove_journals()?;
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
            self.complete_if_full()?;
        }
        Ok(())
    }

    /// Writes the last part even if it is not full, and ends.
    pub fn finish(mut self) -> Result<(), BankError> {
        if self.rows.len() > self.saved {
            self.write_part()?;
        }
        if let Some(journal) = self.journal.take() {
            journal.remove()?;
        }
        Ok(())
    }

    /// Adds rows to the part in progress, first on disk and then in memory.
    fn add(&mut self, values: &[f32]) -> Result<(), BankError> {
        if values.is_empty() {
            return Ok(());
        }
        if self.journal.is_none() {
            self.open_journal()?;
        }
        if let Some(journal) = &mut self.journal {
            journal.append(values)?;
        }
        self.extend(values.to_vec());
        Ok(())
    }

    fn extend(&mut self, values: Vec<f32>) {
        let rows = Logits::from_values(self.info.shape(), values).expect("whole rows");
        self.rows.append(&rows);
    }

    /// Writes the part in progress if it is full, and goes on to the next.
    fn complete_if_full(&mut self) -> Result<(), BankError> {
        if (self.rows.len() as u64) < self.info.part {
            return Ok(());
        }
        self.write_part()?;
        if let Some(journal) = self.journal.take() {
            journal.remove()?;
        }
        self.start_part(self.part + 1)
    }

    fn write_part(&mut self) -> Result<(), BankError> {
        let path = self.folder.part(self.part);
        write_whole(&path, |file| {
            write_parquet(file, &self.info, self.part, &self.rows).map_err(io_error)
        })?;
        self.saved = self.rows.len();
        self.parts.insert(self.part, self.saved as u64);
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
            let mut file = PartFile::open(&self.folder, &self.info, self.part)?;
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
        self.extend(rows.values()[..kept].to_vec());
        self.journal = Some(journal);
        Ok(())
    }

    /// Removes journals of parts that are done.
    fn remove_journals(&self) -> Result<(), BankError> {
        let current = self.folder.journal(self.part);
        let old = |name: &String| {
            let path = self.folder.0.join(name);
            let ours = name.starts_with("part-") && name.ends_with(".journal");
            (ours && path != current).then_some(path)
        };
        remove(self.folder.names()?.iter().filter_map(old))
    }
}

/// The description of the bank that is there, if `info` asks for the same.
fn same_bank(folder: &Folder, found: BankInfo, info: &BankInfo) -> Result<BankInfo, BankError> {
    let bank = Bank {
        folder: folder.clone(),
        info: found,
        len: 0,
    };
    bank.check(&info.model, &info.scoring_hash, &info.labels)?;
    bank.check_seed(info.seed)?;
    let found = bank.info;
    if (found.conditional, found.classes) != (info.conditional, info.classes) {
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

/// Makes the folder and its description.
fn begin(folder: &Folder, info: BankInfo) -> Result<BankInfo, BankError> {
    let path = folder.description();
    if let Err(problem) = info.check() {
        return Err(BankError::Description { path, problem });
    }
    fs::create_dir_all(&folder.0).map_err(|e| write_error(&folder.0, e))?;
    // A run that was killed right at its start may have left its description half written.
    let half_written = format!("{DESCRIPTION}{TEMPORARY}");
    if folder.names()?.iter().any(|name| *name != half_written) {
        let folder = folder.0.clone();
        return Err(BankError::OtherFiles { folder });
    }
    let text = toml::to_string(&info).map_err(|e| write_error(&path, io::Error::other(e)))?;
    write_whole(&path, |mut file| file.write_all(text.as_bytes()))?;
    Ok(info)
}

/// Makes sure that nobody else adds to the bank.
fn lock(folder: &Folder) -> Result<File, BankError> {
    let path = folder.description();
    let file = open_plain(&path).map_err(|e| read_error(&path, e))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(BankError::Busy {
            folder: folder.0.clone(),
        }),
        // Some network file systems have no locks; that is no reason to refuse work.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Removes what runs that were killed while writing a file have left.
fn remove_temporaries(folder: &Folder) -> Result<(), BankError> {
    let temporary = |name: &String| {
        let whole = name.strip_suffix(TEMPORARY)?;
        let ours = whole == DESCRIPTION || part_number(whole).is_some();
        ours.then(|| folder.0.join(name))
    };
    remove(folder.names()?.iter().filter_map(temporary))
}

fn remove(mut paths: impl Iterator<Item = PathBuf>) -> Result<(), BankError> {
    paths.try_for_each(|path| fs::remove_file(&path).map_err(|e| write_error(&path, e)))
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
            let there = folder.0.exists();
            let folder = folder.0;
            return Err(if there {
                BankError::NotABank { folder }
            } else {
                BankError::Missing { folder }
            });
        };
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
            PartFile::open(&self.folder, &self.info, part)?.read(row as usize, here)?;
            rest = after;
            next += rows as u64;
        }
        Ok(logits)
    }
}

/// Writes one part; the same rows give the same bytes.
fn write_parquet(
    file: &File,
    info: &BankInfo,
    part: u64,
    rows: &Logits,
) -> Result<(), ParquetError> {
    let mut writer = SerializedFileWriter::new(file, schema(info)?, Arc::new(properties()))?;
    let identity = KeyValue::new(IDENTITY.to_owned(), info.identity(part));
    writer.append_key_value_metadata(identity);
    let width = rows.shape().width();
    let mut first = part * info.part;
    for rows in rows.values().chunks(ROW_GROUP * width) {
        let mut group = writer.next_row_group()?;
        for column in 0..width {
            let values: Vec<f32> = rows[column..].iter().step_by(width).copied().collect();
            let Some(mut writer) = group.next_column()? else {
                return Err(ParquetError::General("too few columns".to_owned()));
            };
            writer
                .typed::<FloatType>()
                .write_batch(&values, None, None)?;
            writer.close()?;
        }
        let end = first + (rows.len() / width) as u64;
        if let (Some(classes), Some(mut writer)) = (info.classes, group.next_column()?) {
            let class = |proposal| (proposal % classes as u64) as i32;
            let values: Vec<i32> = (first..end).map(class).collect();
            writer
                .typed::<Int32Type>()
                .write_batch(&values, None, None)?;
            writer.close()?;
        }
        group.close()?;
        first = end;
    }
    writer.finish()?;
    Ok(())
}

fn schema(info: &BankInfo) -> Result<Arc<Type>, ParquetError> {
    let column = |(name, kind): (String, Physical)| {
        let builder = Type::primitive_type_builder(&name, kind);
        let built = builder.with_repetition(Repetition::REQUIRED).build()?;
        Ok(Arc::new(built))
    };
    let columns: Result<_, ParquetError> = info.columns().into_iter().map(column).collect();
    let root = Type::group_type_builder("proposals").with_fields(columns?);
    Ok(Arc::new(root.build()?))
}

fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_encoding(Encoding::PLAIN)
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        // One page per column and row group: the limits lie beyond what a row group holds.
        .set_data_page_row_count_limit(2 * ROW_GROUP)
        .set_data_page_size_limit(8 * ROW_GROUP)
        .set_write_batch_size(ROW_GROUP)
        .build()
}

/// The system's own error, where there is one inside.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other),
    }
}

/// One part, opened for reading.
#[derive(Debug)]
struct PartFile {
    path: PathBuf,
    file: File,
    width: usize,
    rows: usize,
    groups: Vec<Group>,
}

/// A row group: its rows, and where its columns lie.
#[derive(Debug)]
struct Group {
    rows: usize,
    chunks: Vec<Chunk>,
}

/// One column of one row group: a page header and the numbers after it.
#[derive(Debug)]
struct Chunk {
    start: u64,
    header: u64,
}

/// Why a part cannot be read: the system's reason or the file's.
enum PartError {
    System(io::Error),
    Damage(Damage),
}

impl From<io::Error> for PartError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Damage(Damage::End),
            _ => Self::System(error),
        }
    }
}

impl From<Damage> for PartError {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}

impl PartError {
    fn at(self, path: &Path) -> BankError {
        let path = path.to_owned();
        match self {
            Self::System(source) => BankError::Read { path, source },
            Self::Damage(damage) => BankError::Damaged { path, damage },
        }
    }
}

impl PartFile {
    /// Opens a part and checks its footer.
    fn open(folder: &Folder, info: &BankInfo, part: u64) -> Result<Self, BankError> {
        let path = folder.part(part);
        let file = open_plain(&path).map_err(|e| read_error(&path, e))?;
        let mut opened = Self {
            path,
            file,
            width: info.shape().width(),
            rows: 0,
            groups: Vec::new(),
        };
        match opened.read_footer(info, part) {
            Ok(()) => Ok(opened),
            Err(error) => Err(error.at(&opened.path)),
        }
    }

    /// Reads whole rows from row `first` on into `rows`.
    fn read(&mut self, first: usize, rows: &mut [f32]) -> Result<(), BankError> {
        let result = self.read_rows(first, rows);
        result.map_err(|error| error.at(&self.path))
    }

    fn bytes(&self, start: u64, length: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.resize(length, 0);
        let mut file = &self.file;
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(bytes)
    }

    fn read_footer(&mut self, info: &BankInfo, part: u64) -> Result<(), PartError> {
        let size = self.file.metadata()?.len();
        let mut bytes = Vec::new();
        let tail = size.checked_sub(8).ok_or(Damage::End)?;
        self.bytes(tail, 8, &mut bytes)?;
        let (length, magic) = bytes.split_at(4);
        let length = u64::from(length.try_into().map_or(0, u32::from_le_bytes));
        if magic != b"PAR1" || length > MAX_FOOTER.min(tail) {
            return Err(Damage::End.into());
        }
        let start = tail - length;
        self.bytes(start, length as usize, &mut bytes)?;
        let footer = Thrift::parse(&bytes).ok_or(Damage::Footer)?.0;
        self.groups = check_footer(&footer, start, info, part)?;
        self.rows = self.groups.iter().map(|group| group.rows).sum();
        Ok(())
    }

    fn read_rows(&self, first: usize, rows: &mut [f32]) -> Result<(), PartError> {
        let end = first + rows.len() / self.width;
        if end > self.rows {
            // The file was exchanged for a shorter one since the bank was opened.
            let (found, wanted) = (self.rows as u64, end as u64);
            return Err(Damage::Rows { found, wanted }.into());
        }
        let mut bytes = Vec::new();
        let mut start = 0;
        for group in &self.groups {
            let (from, to) = (first.max(start), end.min(start + group.rows));
            if from < to {
                let target = &mut rows[(from - first) * self.width..(to - first) * self.width];
                self.read_group(group, from - start, target, &mut bytes)?;
            }
            start += group.rows;
        }
        Ok(())
    }

    /// Reads the columns of one row group from its row `first` on, and interleaves them to rows.
    fn read_group(
        &self,
        group: &Group,
        first: usize,
        rows: &mut [f32],
        bytes: &mut Vec<u8>,
    ) -> Result<(), PartError> {
        let count = rows.len() / self.width;
        for (column, chunk) in group.chunks.iter().take(self.width).enumerate() {
            self.bytes(chunk.start, chunk.header as usize, bytes)?;
            check_page(bytes, group.rows).ok_or(Damage::Page)?;
            let start = chunk.start + chunk.header + first as u64 * 4;
            self.bytes(start, count * 4, bytes)?;
            let values = bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b));
            let target = rows[column..].iter_mut().step_by(self.width);
            target.zip(values).for_each(|(slot, value)| *slot = value);
        }
        Ok(())
    }
}

// The numbers below are field numbers and values of `parquet.thrift`, format 2.

/// Checks what a footer says; returns the row groups.
fn check_footer(
    footer: &Thrift,
    data_end: u64,
    info: &BankInfo,
    part: u64,
) -> Result<Vec<Group>, Damage> {
    let columns = info.columns();
    let schema = footer.list(2).ok_or(Damage::Footer)?;
    let same = |(element, (name, kind)): (&Thrift, &(String, Physical))| {
        let number = if *kind == Physical::FLOAT { 4 } else { 1 };
        element.text(4) == Some(name.as_bytes())
            && element.integer(1) == Some(number)
            && element.integer(3) == Some(0)
    };
    if schema.len() != columns.len() + 1 || !schema[1..].iter().zip(&columns).all(same) {
        return Err(Damage::Columns);
    }
    let identity = info.identity(part);
    let ours = |pair: &Thrift| {
        pair.text(1) == Some(IDENTITY.as_bytes()) && pair.text(2) == Some(identity.as_bytes())
    };
    if !footer.list(5).is_some_and(|pairs| pairs.iter().any(ours)) {
        return Err(Damage::Identity);
    }
    let groups = footer.list(4).ok_or(Damage::Footer)?;
    let groups: Option<Vec<_>> = groups
        .iter()
        .map(|group| check_group(group, data_end, columns.len()))
        .collect();
    let groups = groups.ok_or(Damage::Footer)?;
    let found: u64 = groups.iter().map(|group| group.rows as u64).sum();
    if found == 0 || found > info.part {
        let wanted = info.part;
        return Err(Damage::Rows { found, wanted });
    }
    if footer.integer(3) != i64::try_from(found).ok() {
        return Err(Damage::Footer);
    }
    Ok(groups)
}

fn check_group(group: &Thrift, data_end: u64, columns: usize) -> Option<Group> {
    let rows = u64::try_from(group.integer(3)?).ok()?;
    let chunks = group.list(1)?;
    if rows > PART || chunks.len() != columns {
        return None;
    }
    let chunks = chunks
        .iter()
        .map(|chunk| check_chunk(chunk.field(3)?, data_end, rows));
    Some(Group {
        rows: rows as usize,
        chunks: chunks.collect::<Option<_>>()?,
    })
}

/// Checks that a column is plain, uncompressed and inside the file.
fn check_chunk(chunk: &Thrift, data_end: u64, rows: u64) -> Option<Chunk> {
    let size = u64::try_from(chunk.integer(7)?).ok()?;
    let start = u64::try_from(chunk.integer(9)?).ok()?;
    let header = size.checked_sub(rows * 4)?;
    let plain = chunk.integer(4)? == 0 && chunk.field(11).is_none();
    let inside = start.checked_add(size)? <= data_end && header <= MAX_PAGE_HEADER;
    (plain && inside).then_some(Chunk { start, header })
}

/// Checks that a page header announces `rows` plain numbers and nothing else.
fn check_page(bytes: &[u8], rows: usize) -> Option<()> {
    let (header, length) = Thrift::parse(bytes)?;
    let data = header.field(5)?;
    let size = i64::try_from(rows * 4).ok()?;
    let sound = length == bytes.len()
        && header.integer(1)? == 0
        && header.integer(2)? == size
        && header.integer(3)? == size
        && data.integer(1)? == size / 4
        && data.integer(2)? == 0;
    sound.then_some(())
}

/// A value in Thrift's compact protocol, in which Parquet writes its footers and page headers.
#[derive(Debug)]
enum Thrift {
    Integer(i64),
    Text(Vec<u8>),
    List(Vec<Thrift>),
    Struct(Vec<(i16, Thrift)>),
    /// Booleans and floating-point numbers, of which none matters here.
    Other,
}

impl Thrift {
    /// Reads a struct from the front of `bytes`; returns it with its length.
    fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        // Parquet nests about six deep.
        const DEPTH: u8 = 16;
        let mut rest = ThriftBytes(bytes);
        let value = rest.structure(DEPTH)?;
        Some((value, bytes.len() - rest.0.len()))
    }

    fn field(&self, number: i16) -> Option<&Self> {
        let Self::Struct(fields) = self else {
            return None;
        };
        let found = fields.iter().find(|(other, _)| *other == number);
        found.map(|(_, value)| value)
    }

    fn integer(&self, number: i16) -> Option<i64> {
        match self.field(number)? {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    fn text(&self, number: i16) -> Option<&[u8]> {
        match self.field(number)? {
            Self::Text(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn list(&self, number: i16) -> Option<&[Self]> {
        match self.field(number)? {
            Self::List(values) => Some(values),
            _ => None,
        }
    }
}

/// What is left to read. Every value takes at least one byte, so that the work is bounded.
struct ThriftBytes<'a>(&'a [u8]);

impl ThriftBytes<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn value(&mut self, kind: u8, depth: u8) -> Option<Thrift> {
        let depth = depth.checked_sub(1)?;
        Some(match kind {
            1 | 2 => Thrift::Other,
            3 => Thrift::Integer(self.byte()?.into()),
            4..=6 => Thrift::Integer(self.signed()?),
            7 => self.take(8).map(|_| Thrift::Other)?,
            8 => {
                let length = self.unsigned()?.try_into().ok()?;
                Thrift::Text(self.take(length)?.to_vec())
            }
            9 => self.list(depth)?,
            12 => self.structure(depth)?,
            _ => return None,
        })
    }

    fn list(&mut self, depth: u8) -> Option<Thrift> {
        let header = self.byte()?;
        let count = match header >> 4 {
            15 => self.unsigned()?,
            few => few.into(),
        };
        // In a list a boolean takes a byte, unlike in a struct.
        let kind = match header & 15 {
            1 | 2 => 3,
            other => other,
        };
        let values = (0..count).map(|_| self.value(kind, depth));
        Some(Thrift::List(values.collect::<Option<_>>()?))
    }

    fn structure(&mut self, depth: u8) -> Option<Thrift> {
        let mut fields = Vec::new();
        let mut number = 0_i16;
        loop {
            let header = self.byte()?;
            if header == 0 {
                return Some(Thrift::Struct(fields));
            }
            number = match header >> 4 {
                0 => self.signed()?.try_into().ok()?,
                step => number.checked_add(step.into())?,
            };
            fields.push((number, self.value(header & 15, depth)?));
        }
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    use super::*;

    const WANTED: u64 = 21;

    /// A small bank: parts of eight proposals.
    fn info(conditional: bool) -> BankInfo {
        BankInfo {
            format: FORMAT,
            model: "toy".to_owned(),
            scoring_hash: "0123456789abcdef".to_owned(),
            labels: vec!["A".to_owned(), "Bläck hair".to_owned()],
            conditional,
            classes: conditional.then_some(3),
            seed: 7,
            part: 8,
            device: "cpu".to_owned(),
        }
    }

    /// Logits that are a function of the proposal's number, as real ones are.
    fn score(info: &BankInfo, first: u64, count: usize) -> Logits {
        let mut logits = Logits::zeros(info.shape(), count);
        let start = first as usize * info.shape().width();
        for (index, value) in logits.values_mut().iter_mut().enumerate() {
            *value = ((start + index) as f32).sin();
        }
        logits
    }

    /// Mines in batches until there is nothing to do; does not finish.
    fn mine(writer: &mut BankWriter, batch: usize) {
        while writer.position() < writer.wanted() {
            push(writer, batch);
        }
    }

    fn push(writer: &mut BankWriter, batch: usize) {
        let logits = score(writer.info(), writer.position(), batch);
        writer.push(&logits).unwrap();
    }

    fn mine_to_the_end(folder: &Path, info: &BankInfo, wanted: u64) {
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
    fn several_row_groups_come_back() {
        let mut info = info(true);
        info.part = PART;
        let folder = tempfile::tempdir().unwrap();
        let count = 2 * ROW_GROUP + 5;
        let mut writer = BankWriter::open(folder.path(), info.clone(), count as u64).unwrap();
        mine(&mut writer, 50_000);
        writer.finish().unwrap();
        let bank = Bank::open(folder.path()).unwrap();
        let all = bank.read(0, count).unwrap();
        assert_eq!(all.values(), score(&info, 0, count).values());
        let first = ROW_GROUP as u64 - 2;
        let across = bank.read(first, ROW_GROUP + 4).unwrap();
        assert_eq!(across, score(&info, first, ROW_GROUP + 4));
    }

    /// The twin: the crate's own reader finds the columns and numbers that ours finds.
    #[test]
    fn parts_are_parquet_files_that_others_can_read() {
        let info = info(true);
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info, WANTED);
        let file = File::open(folder.path().join("part-00000001.parquet")).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let names = [
            "class_logit.A",
            "class_logit.Bläck hair",
            "real_logit",
            "fake_class_logit.A",
            "fake_class_logit.Bläck hair",
            "class",
        ];
        let expected = score(&info, 8, 8);
        let mut rows = 0;
        for (row, record) in reader.get_row_iter(None).unwrap().enumerate() {
            let record = record.unwrap();
            let found: Vec<_> = record.get_column_iter().collect();
            let found_names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(found_names, names);
            for (column, &value) in expected.row(row).iter().enumerate() {
                assert_eq!(found[column].1, &Field::Float(value));
            }
            assert_eq!(found[5].1, &Field::Int([2, 0, 1][row % 3]));
            rows += 1;
        }
        assert_eq!(rows, 8);
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
    fn the_most_and_longest_labels_fit_the_limits() {
        let mut info = info(true);
        let name = |label| format!("{label:02}{}", "\u{1f600}".repeat(198));
        info.labels = (0..64).map(name).collect();
        info.part = PART;
        let folder = tempfile::tempdir().unwrap();
        let count = 3 * ROW_GROUP + 1;
        let mut writer = BankWriter::open(folder.path(), info.clone(), count as u64).unwrap();
        mine(&mut writer, count);
        writer.finish().unwrap();
        let bank = Bank::open(folder.path()).unwrap();
        let last = bank.read(count as u64 - 1, 1).unwrap();
        assert_eq!(last, score(&info, count as u64 - 1, 1));
    }

    #[test]
    fn types_can_be_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Bank>();
        shared::<BankWriter>();
        shared::<BankError>();
    }

    /// Small numbers that look random; the same ones every time.
    struct Noise(u64);

    impl Noise {
        fn below(&mut self, limit: usize) -> usize {
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

    /// Flips every bit of a part once. In the footer and in page headers a flip is noticed, or
    /// does not change what is read.
    #[test]
    fn a_flipped_bit_outside_the_numbers_never_changes_them() {
        let info = info(true);
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info, 8);
        let path = folder.path().join("part-00000000.parquet");
        let sound = fs::read(&path).unwrap();
        let part = PartFile::open(&Folder(folder.path().to_owned()), &info, 0).unwrap();
        let numbers: Vec<_> = part.groups[0]
            .chunks
            .iter()
            .map(|chunk| chunk.start + chunk.header..chunk.start + chunk.header + 32)
            .collect();
        let mut noticed = 0;
        for bit in 0..sound.len() * 8 {
            let mut damaged = sound.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, damaged).unwrap();
            let Ok(found) = Bank::open(folder.path()).and_then(|bank| bank.read(0, 8)) else {
                noticed += 1;
                continue;
            };
            let inside = numbers
                .iter()
                .any(|range| range.contains(&(bit as u64 / 8)));
            assert!(inside || found == score(&info, 0, 8), "bit {bit}");
        }
        assert!(noticed > 1000, "{noticed}");
    }

    #[test]
    fn noise_is_no_thrift() {
        let mut noise = Noise(2);
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..noise.below(64))
                .map(|_| noise.below(256) as u8)
                .collect();
            Thrift::parse(&bytes);
        }
        let nested = |depth| [vec![0x1c; depth], vec![0; depth + 1]].concat();
        assert_eq!(Thrift::parse(&nested(16)).unwrap().1, 33);
        assert!(Thrift::parse(&nested(17)).is_none(), "nested too deep");
        // A list that says it holds 2^63 booleans.
        let mut list = vec![0x19, 0xf1];
        list.extend([0x80; 9]);
        list.push(1);
        assert!(Thrift::parse(&list).is_none(), "longer than the file");
    }

    /// A bank of three parts, the last of them short, and what opening it after a change says.
    fn error_after(change: impl FnOnce(&Path)) -> String {
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

    fn rewrite(folder: &Path, from: &str, to: &str) {
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
            "the bank `DIR` is being mined by another run\n\
             hint: wait for it, or mine another bank"
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
            misspelt.starts_with("`DIR/bank.toml`: TOML parse error"),
            "{misspelt}"
        );
        assert!(misspelt.contains("unknown field `sede`"), "{misspelt}");
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
    fn a_damaged_part_is_named_with_its_cure() {
        let part = |folder: &Path| folder.join("part-00000001.parquet");
        let edit = |change: fn(&mut Vec<u8>)| {
            error_after(|folder| {
                let mut bytes = fs::read(part(folder)).unwrap();
                change(&mut bytes);
                fs::write(part(folder), bytes).unwrap();
            })
        };
        let wording = |damage: &str| {
            format!(
                "`DIR/part-00000001.parquet` is damaged: {damage}\n\
                 hint: delete it and mine again; the other parts are kept"
            )
        };
        let cut = edit(|bytes| bytes.truncate(100));
        assert_eq!(cut, wording("it is cut short, or no Parquet file"));
        assert_eq!(edit(Vec::clear), cut);
        // The last byte before the footer's length ends the footer's struct.
        let unended = edit(|bytes| {
            let end = bytes.len() - 9;
            bytes[end] = 0xff;
        });
        assert_eq!(unended, wording("its footer cannot be read"));
        let swapped = error_after(|folder| {
            fs::copy(folder.join("part-00000000.parquet"), part(folder)).unwrap();
        });
        assert_eq!(
            swapped,
            wording("it belongs to another place or another bank")
        );
        let renamed = error_after(|folder| rewrite(folder, "\"A\"", "\"C\""));
        assert!(
            renamed.contains("its columns are not those of a bank"),
            "{renamed}"
        );
        let page = edit(|bytes| bytes[5] ^= 2);
        assert_eq!(page, wording("its footer and its pages do not agree"));
        let short = error_after(|folder| rewrite(folder, "part = 8", "part = 9"));
        assert!(
            short.contains("it holds 8 proposals, where 9 were expected"),
            "{short}"
        );
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

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_reported_in_the_words_of_the_system() {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let rows = score(&info(true), 0, 8);
        let source = write_parquet(&full, &info(true), 0, &rows).unwrap_err();
        assert_eq!(
            write_error(Path::new("part"), io_error(source)).to_string(),
            "could not write `part`: No space left on device (os error 28)"
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
