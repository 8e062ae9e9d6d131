//! One bank out of pieces that were mined apart.
//!
//! Nothing is scored or computed: files of parts are linked, or copied where the file system does not link, and the
//! description is that of the pieces without their beginning. What one machine would have mined has the same bytes.

use std::fs;
use std::path::{Path, PathBuf};

use s2m_core::setting::Setting;
use serde::Serialize;

use super::folder::{Folder, LOCK, gap, missing, no_bank, piece_alone};
use super::part::part_name;
use super::write::{check_description, same_bank};
use super::{BankInfo, DESCRIPTION};
use crate::bundle::sha256;
use crate::disk::{Existing, Kind, Lock, Plan, Staging};
use crate::error::Error;

/// What was joined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Joined {
    /// Pieces that the bank is made of.
    pub pieces: usize,
    /// Files of parts.
    pub parts: u64,
    /// Proposals in the bank.
    pub proposals: u64,
}

/// A piece as it lies on disk.
struct Piece {
    folder: Folder,
    info: BankInfo,
    /// One after its last proposal.
    end: u64,
    parts: Vec<u64>,
}

impl Piece {
    fn open(path: &Path) -> Result<Self, Error> {
        let folder = Folder(path.to_owned());
        let Some(info) = folder.info()? else {
            return Err(no_bank(&folder.0));
        };
        let parts = folder.parts(&info)?;
        let first = info.first / info.part;
        let numbers: Vec<u64> = parts.keys().copied().collect();
        let expected = first..first + numbers.len() as u64;
        if let Some(part) = expected.clone().find(|part| !parts.contains_key(part)) {
            return Err(gap(&folder.0, part));
        }
        let end = info.first + parts.values().sum::<u64>();
        Ok(Self {
            folder,
            info,
            end,
            parts: numbers,
        })
    }

    fn path(&self) -> &Path {
        &self.folder.0
    }
}

/// Whether anybody still waits, asked with the number of files that were looked at or put in place.
pub type GoesOn<'g> = &'g dyn Fn(u64) -> bool;

/// Pieces by their folders: of a folder that is none itself, the folders in it that are.
///
/// A million pieces have one folder around them, and more names than a command line takes.
fn found(paths: &[PathBuf], goes_on: GoesOn<'_>) -> Result<Vec<PathBuf>, Error> {
    let is_piece = |folder: &Path| folder.join(DESCRIPTION).is_file();
    let mut all = Vec::with_capacity(paths.len());
    for path in paths {
        unless_stopped(goes_on, all.len() as u64)?;
        if is_piece(path) || !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let mut inside = Vec::new();
        for entry in fs::read_dir(path).map_err(Error::reading(path))? {
            let folder = entry.map_err(Error::reading(path))?.path();
            unless_stopped(goes_on, inside.len() as u64)?;
            if is_piece(&folder) {
                inside.push(folder);
            }
        }
        if inside.is_empty() {
            // Opening it says what is wrong with it.
            inside.push(path.clone());
        }
        inside.sort();
        all.append(&mut inside);
    }
    Ok(all)
}

/// Opens all pieces, in the order of their proposals.
fn open_all(paths: &[PathBuf], goes_on: GoesOn<'_>) -> Result<Vec<Piece>, Error> {
    let paths = found(paths, goes_on)?;
    let mut opened = Vec::with_capacity(paths.len());
    for path in &paths {
        opened.push(Piece::open(path)?);
        unless_stopped(goes_on, opened.len() as u64)?;
    }
    opened.sort_by_key(|piece| (piece.info.first, piece.end));
    Ok(opened)
}

fn unless_stopped(goes_on: GoesOn<'_>, done: u64) -> Result<(), Error> {
    if goes_on(done) {
        Ok(())
    } else {
        Err(Error::stopped("stopped before the end"))
    }
}

/// Makes a bank in a new folder out of all its pieces, in any order; they stay as they are. A folder of pieces stands for all
/// of them.
///
/// Refused where pieces are of different models, seeds, devices or parts, overlap, or leave a gap.
pub fn join(pieces: &[PathBuf], out: &Path, existing: Existing) -> Result<Joined, Error> {
    join_while(pieces, out, existing, &|_| true)
}

/// The same, as long as somebody waits for it.
pub fn join_while(
    pieces: &[PathBuf],
    out: &Path,
    existing: Existing,
    goes_on: GoesOn<'_>,
) -> Result<Joined, Error> {
    let opened = open_all(pieces, goes_on)?;
    let Some(info) = check(&opened)? else {
        return Err(missing(out));
    };
    let description = check_description(&Folder(out.to_owned()), &info)?;
    let proposals = opened.iter().map(|piece| piece.end).max().unwrap_or(0);
    let inputs: Vec<&Path> = opened.iter().map(Piece::path).collect();
    let staging = Staging::open(&Plan {
        target: out,
        kind: Kind::Bank,
        identity: &sha256(format!("{description}{proposals}{inputs:?}").as_bytes()),
        existing,
        inputs: &inputs,
    })?;
    match fill(&staging, &opened, &description, goes_on) {
        Ok(parts) => {
            staging.finish()?;
            Ok(Joined {
                pieces: opened.len(),
                parts,
                proposals,
            })
        }
        Err(error) => {
            staging.discard();
            Err(error)
        }
    }
}

/// Adds pieces to a bank that is there: they begin where it ends, or in the part that it ends in.
///
/// Parts appear in their order, each whole, so that it is a bank at every moment.
pub fn extend(bank: &Path, pieces: &[PathBuf]) -> Result<Joined, Error> {
    extend_while(bank, pieces, &|_| true)
}

/// The same, as long as somebody waits for it.
pub fn extend_while(bank: &Path, pieces: &[PathBuf], goes_on: GoesOn<'_>) -> Result<Joined, Error> {
    let _lock = Lock::inside(bank, LOCK)?;
    let whole = Piece::open(bank)?;
    if whole.info.first > 0 {
        return Err(piece_alone(bank, whole.info.first));
    }
    let mut opened = open_all(pieces, goes_on)?;
    let added = opened.len();
    // The part that the bank ends in may be replaced by a longer one.
    let full = Piece {
        end: whole.end / whole.info.part * whole.info.part,
        ..whole
    };
    opened.insert(0, full);
    check(&opened)?;
    let mut parts = 0;
    for piece in &opened[1..] {
        for &part in &piece.parts {
            let to = opened[0].folder.part(part);
            let half = to.with_extension("parquet.tmp");
            let _ = fs::remove_file(&half);
            if fs::hard_link(piece.folder.part(part), &half).is_err() {
                fs::copy(piece.folder.part(part), &half).map_err(Error::writing(&half))?;
            }
            fs::rename(&half, &to).map_err(Error::writing(&to))?;
            parts += 1;
            unless_stopped(goes_on, parts)?;
        }
    }
    let proposals = opened.iter().map(|piece| piece.end).max().unwrap_or(0);
    Ok(Joined {
        pieces: added,
        parts,
        proposals,
    })
}

/// The description of the whole; none without any piece.
fn check(pieces: &[Piece]) -> Result<Option<BankInfo>, Error> {
    let Some(first) = pieces.first() else {
        return Ok(None);
    };
    let whole = BankInfo {
        first: 0,
        ..first.info.clone()
    };
    let mut end = 0;
    let mut before: Option<&Piece> = None;
    for piece in pieces {
        if piece.info.part != whole.part {
            return Err(Error::mismatch(format!(
                "`{}` has parts of {} proposals, `{}` of {}\nhint: mine all pieces with the same part",
                piece.path().display(),
                piece.info.part,
                first.path().display(),
                whole.part
            )));
        }
        let own = BankInfo {
            first: piece.info.first,
            ..whole.clone()
        };
        same_bank(&piece.folder, piece.info.clone(), &own)?;
        if piece.info.first > end {
            let (first, last) = (end, piece.info.first - 1);
            let before = before.map_or("no piece begins at 0".to_owned(), |before| {
                format!("`{}` ends there", before.path().display())
            });
            let range = Setting("range").to(format!("{end}..{}", piece.info.first));
            return Err(Error::mismatch(format!(
                "proposals {first} to {last} are in no piece: {before}\nhint: `s2m mine` with {range} mines them"
            )));
        }
        if let Some(before) = before.filter(|before| piece.info.first < before.end) {
            return Err(Error::mismatch(format!(
                "proposals from {} on are in `{}` and in `{}`\nhint: leave one of them out",
                piece.info.first,
                before.path().display(),
                piece.path().display()
            )));
        }
        end = piece.end;
        before = Some(piece);
    }
    Ok(Some(whole))
}

/// Puts all files in place; the number of parts.
fn fill(
    staging: &Staging,
    pieces: &[Piece],
    description: &str,
    goes_on: GoesOn<'_>,
) -> Result<u64, Error> {
    let mut parts = 0;
    for piece in pieces {
        for &part in &piece.parts {
            let (from, to) = (piece.folder.part(part), staging.path(&part_name(part)));
            // A run of the same request that was stopped may have left it.
            if to.exists() {
                fs::remove_file(&to).map_err(Error::writing(&to))?;
            }
            if fs::hard_link(&from, &to).is_err() {
                fs::copy(&from, &to).map_err(Error::writing(&to))?;
            }
            parts += 1;
            unless_stopped(goes_on, parts)?;
        }
    }
    let write = |bytes: &[u8]| -> Result<(), Error> { staging.write(DESCRIPTION, bytes) };
    write(description.as_bytes())?;
    Ok(parts)
}
