//! Why a bank cannot be read or written, and what may be wrong with its description.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use s2m_core::setting::Setting;
use thiserror::Error;

use super::info::{MAX_TEXT, MOST_OUTPUTS};
use super::part::Damage;
use super::{DESCRIPTION, FORMAT, PART};
use crate::disk::{LockError, StagingError};
use crate::journal::JournalError;

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
    #[error("proposals {} to {} are in no piece: {before}\nhint: `s2m mine` with {} mines them", .missing.start, .missing.end - 1, Setting("range").to(format_args!("{}..{}", .missing.start, .missing.end)))]
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
    Labels(#[from] s2m_core::Error),
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
