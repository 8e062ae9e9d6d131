//! An append-only file of logit rows that survives being killed at any moment.
//!
//! ```text
//! header   magic, version, labels, conditional, length of identity, identity, checksum
//! record   rows (u32), rows × width numbers (f32), checksum (u32) of both
//! record   …
//! ```
//!
//! All numbers are little-endian; the checksum is CRC-32 (ISO-HDLC, as in gzip). A record counts
//! once all of it is there, so whatever a crash leaves behind is whole records and a tail to cut.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::logits::{Logits, RowShape};

const MAGIC: &[u8; 8] = b"s2m-rows";

/// Version of the file format; a journal of another version is started afresh.
const VERSION: u32 = 1;

/// Why a journal cannot be kept.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The file cannot be read.
    #[error("could not read `{}`: {source}", .path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("could not write `{}`: {source}", .path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be removed.
    #[error("could not remove `{}`: {source}", .path.display())]
    Remove {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The path leads to a folder, a pipe or a device.
    #[error("could not write `{}`: it is not a plain file", .path.display())]
    NotAFile {
        /// Which path.
        path: PathBuf,
    },
    /// Somebody else writes to it.
    #[error("`{}` is in use by another run\nhint: wait for it, or name another folder", .path.display())]
    Busy {
        /// Which file.
        path: PathBuf,
    },
}

/// A file to which scored rows are added as they come.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    shape: RowShape,
    /// Length of the file up to its last whole record.
    length: u64,
}

impl Journal {
    /// Opens the journal at `path` and returns it with the rows that an earlier run left.
    ///
    /// A damaged tail is cut off. A file of another identity or shape, or one that is no journal,
    /// is started afresh.
    pub fn open(
        path: &Path,
        identity: &str,
        shape: RowShape,
    ) -> Result<(Self, Logits), JournalError> {
        let file = open_file(path)?;
        let read_error = |source| JournalError::Read {
            path: path.to_owned(),
            source,
        };
        let header = header(identity, shape);
        let found = recover(&file, &header, shape).map_err(read_error)?;
        let mut journal = Self {
            path: path.to_owned(),
            file,
            shape,
            length: found.as_ref().map_or(0, |found| found.length),
        };
        // Also where we start afresh: records of another run must not follow our header.
        journal.cut().map_err(|e| journal.write_error(e))?;
        if found.is_none() {
            journal.write(&header)?;
        }
        let rows = found.map_or(Vec::new(), |found| found.rows);
        let rows = Logits::from_values(shape, rows).expect("records hold whole rows");
        Ok((journal, rows))
    }

    /// Adds rows as one record; after an error the earlier records are as they were.
    ///
    /// # Panics
    ///
    /// Where the numbers do not fill whole rows.
    pub fn append(&mut self, rows: &[f32]) -> Result<(), JournalError> {
        let width = self.shape.width();
        assert!(
            rows.len().is_multiple_of(width),
            "a record holds whole rows"
        );
        // The row count is a u32; beyond it one record becomes several.
        for rows in rows.chunks(width * u32::MAX as usize) {
            self.write(&record(rows, width))?;
        }
        Ok(())
    }

    /// Waits until the system has put everything on the disk.
    pub fn sync(&self) -> Result<(), JournalError> {
        self.file.sync_data().map_err(|e| self.write_error(e))
    }

    /// Deletes the file.
    pub fn remove(self) -> Result<(), JournalError> {
        fs::remove_file(&self.path).map_err(|source| JournalError::Remove {
            path: self.path,
            source,
        })
    }

    /// Writes one piece after the last whole record, in one call, or leaves the file as it was.
    fn write(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        let written = self
            .file
            .seek(SeekFrom::Start(self.length))
            .and_then(|_| self.file.write_all(bytes));
        if let Err(source) = written {
            // Where even this fails, the next `open` does it.
            let _ = self.cut();
            return Err(self.write_error(source));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn cut(&self) -> io::Result<()> {
        self.file.set_len(self.length)
    }

    fn write_error(&self, source: io::Error) -> JournalError {
        JournalError::Write {
            path: self.path.clone(),
            source,
        }
    }
}

/// Opens or creates the file and makes sure that nobody else writes to it.
fn open_file(path: &Path) -> Result<File, JournalError> {
    let write_error = |source| JournalError::Write {
        path: path.to_owned(),
        source,
    };
    // Opening a pipe would wait for its other end, so look first.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(JournalError::NotAFile {
            path: path.to_owned(),
        });
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(write_error)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(JournalError::Busy {
            path: path.to_owned(),
        }),
        // Some network file systems have no locks; that is no reason to refuse work.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

fn header(identity: &str, shape: RowShape) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((shape.labels as u32).to_le_bytes());
    bytes.extend(u32::from(shape.conditional).to_le_bytes());
    if shape.joint > 0 {
        bytes.extend((shape.joint as u32).to_le_bytes());
    }
    bytes.extend((identity.len() as u32).to_le_bytes());
    bytes.extend(identity.as_bytes());
    bytes.extend(crc32(&[&bytes]).to_le_bytes());
    bytes
}

fn record(rows: &[f32], width: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows.len() * 4 + 8);
    bytes.extend(((rows.len() / width) as u32).to_le_bytes());
    bytes.extend(rows.iter().flat_map(|value| value.to_le_bytes()));
    bytes.extend(crc32(&[&bytes]).to_le_bytes());
    bytes
}

/// What a file holds: its rows, and how long it is up to the end of its last whole record.
struct Found {
    rows: Vec<f32>,
    length: u64,
}

/// Reads the whole records after the header; none where the header is not ours.
fn recover(file: &File, header: &[u8], shape: RowShape) -> io::Result<Option<Found>> {
    let size = file.metadata()?.len();
    let mut reader = BufReader::new(file);
    let mut start = vec![0; header.len()];
    if size < header.len() as u64 {
        return Ok(None);
    }
    reader.read_exact(&mut start)?;
    if start != header {
        return Ok(None);
    }
    let mut found = Found {
        rows: Vec::new(),
        length: header.len() as u64,
    };
    let mut bytes = Vec::new();
    while let Some(length) = read_record(&mut reader, size - found.length, shape, &mut bytes)? {
        found
            .rows
            .extend(bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)));
        found.length += length;
    }
    Ok(Some(found))
}

/// Reads the numbers of one record into `bytes` and returns the record's length; none at the end,
/// and none where the record is torn or damaged.
fn read_record(
    reader: &mut impl Read,
    left: u64,
    shape: RowShape,
    bytes: &mut Vec<u8>,
) -> io::Result<Option<u64>> {
    if left < 8 {
        return Ok(None);
    }
    let mut count = [0; 4];
    reader.read_exact(&mut count)?;
    let rows = u64::from(u32::from_le_bytes(count));
    let data = rows.saturating_mul(shape.width() as u64 * 4);
    // The size on disk is the limit, so that a damaged count cannot ask for memory.
    if rows == 0 || data > left - 8 {
        return Ok(None);
    }
    bytes.resize(data as usize, 0);
    reader.read_exact(bytes)?;
    let mut checksum = [0; 4];
    reader.read_exact(&mut checksum)?;
    let whole = u32::from_le_bytes(checksum) == crc32(&[&count, bytes]);
    Ok(whole.then_some(data + 8))
}

/// CRC-32 of some pieces of bytes, one after the other.
fn crc32(pieces: &[&[u8]]) -> u32 {
    let update =
        |crc: u32, &byte: &u8| CRC_TABLE[((crc ^ u32::from(byte)) & 0xff) as usize] ^ (crc >> 8);
    !pieces.iter().copied().flatten().fold(u32::MAX, update)
}

const CRC_TABLE: [u32; 256] = crc_table();

const fn crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                0xedb8_8320 ^ (crc >> 1)
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: RowShape = RowShape {
        labels: 2,
        conditional: false,
        joint: 0,
        members: 0,
    };

    fn numbers(first: u16, rows: u16) -> Vec<f32> {
        (first * 3..(first + rows) * 3).map(f32::from).collect()
    }

    /// A journal with records of 1, 2 and 3 rows, and where each of them ends.
    fn sample(path: &Path) -> Vec<u64> {
        let (mut journal, rows) = Journal::open(path, "model seed 0", SHAPE).unwrap();
        assert!(rows.is_empty());
        let mut ends = vec![journal.length];
        for (first, rows) in [(0, 1), (1, 2), (3, 3)] {
            journal.append(&numbers(first, rows)).unwrap();
            ends.push(journal.length);
        }
        ends
    }

    fn reopen(path: &Path) -> (Journal, Logits) {
        Journal::open(path, "model seed 0", SHAPE).unwrap()
    }

    /// Rows in the records that end at or before `length`.
    fn whole_rows(ends: &[u64], length: u64) -> u16 {
        let records = ends.iter().filter(|&&end| end <= length).count();
        [0, 0, 1, 3, 6][records]
    }

    #[test]
    fn the_checksum_is_the_usual_crc_32() {
        // The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms.
        assert_eq!(crc32(&[b"1234", b"56789"]), 0xcbf4_3926);
    }

    #[test]
    fn rows_come_back_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        sample(&path);
        let (mut journal, rows) = reopen(&path);
        assert_eq!(rows.values(), numbers(0, 6));
        journal.append(&numbers(6, 1)).unwrap();
        journal.append(&[]).unwrap();
        journal.sync().unwrap();
        drop(journal);
        let (journal, rows) = reopen(&path);
        assert_eq!(rows.values(), numbers(0, 7));
        journal.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_tail_torn_anywhere_is_cut_to_the_last_whole_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let ends = sample(&path);
        let bytes = fs::read(&path).unwrap();
        for length in 0..=bytes.len() {
            fs::write(&path, &bytes[..length]).unwrap();
            let (mut journal, rows) = reopen(&path);
            let kept = whole_rows(&ends, length as u64);
            assert_eq!(rows.values(), numbers(0, kept), "cut to {length}");
            journal.append(&numbers(kept, 2)).unwrap();
            drop(journal);
            assert_eq!(
                reopen(&path).1.values(),
                numbers(0, kept + 2),
                "cut to {length}"
            );
        }
    }

    #[test]
    fn a_flipped_bit_loses_its_record_and_those_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let ends = sample(&path);
        let bytes = fs::read(&path).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, damaged).unwrap();
            let kept = whole_rows(&ends, bit as u64 / 8);
            assert_eq!(reopen(&path).1.values(), numbers(0, kept), "bit {bit}");
        }
    }

    #[test]
    fn zeros_after_the_last_record_are_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let ends = sample(&path);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(ends[3] + 4096).unwrap();
        assert_eq!(reopen(&path).1.values(), numbers(0, 6));
        assert_eq!(fs::metadata(&path).unwrap().len(), ends[3]);
    }

    #[test]
    fn a_journal_of_another_run_is_started_afresh() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let wider = RowShape { labels: 3, ..SHAPE };
        for (identity, shape) in [("model seed 1", SHAPE), ("model seed 0", wider)] {
            sample(&path);
            let (journal, rows) = Journal::open(&path, identity, shape).unwrap();
            assert!(rows.is_empty());
            drop(journal);
            let (_, rows) = Journal::open(&path, identity, shape).unwrap();
            assert!(rows.is_empty(), "the earlier rows are gone");
            fs::remove_file(&path).unwrap();
        }
        fs::write(&path, "something else").unwrap();
        assert!(reopen(&path).1.is_empty());
    }

    #[test]
    fn a_journal_is_written_by_one_run_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let _held = reopen(&path);
        let err = Journal::open(&path, "model seed 0", SHAPE).unwrap_err();
        let wording = format!(
            "`{}` is in use by another run\nhint: wait for it, or name another folder",
            path.display()
        );
        assert_eq!(err.to_string(), wording);
    }

    #[test]
    fn a_missing_folder_is_named_in_the_error() {
        let path = Path::new("/nowhere/a.journal");
        assert_eq!(
            Journal::open(path, "", SHAPE).unwrap_err().to_string(),
            "could not write `/nowhere/a.journal`: No such file or directory (os error 2)"
        );
    }

    #[test]
    fn a_folder_is_not_a_journal() {
        let folder = tempfile::tempdir().unwrap();
        let err = Journal::open(folder.path(), "", SHAPE).unwrap_err();
        let wording = format!(
            "could not write `{}`: it is not a plain file",
            folder.path().display()
        );
        assert_eq!(err.to_string(), wording);
    }

    #[test]
    fn a_journal_that_is_gone_cannot_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let (journal, _) = reopen(&path);
        fs::remove_file(&path).unwrap();
        let wording = format!(
            "could not remove `{}`: No such file or directory (os error 2)",
            path.display()
        );
        assert_eq!(journal.remove().unwrap_err().to_string(), wording);
    }

    /// `/dev/full` takes no bytes, and `/proc/self/mem` gives none at its start.
    #[cfg(target_os = "linux")]
    #[test]
    fn system_errors_name_the_file_and_the_reason() {
        let open = |device| {
            let file = OpenOptions::new().read(true).write(true).open(device);
            file.unwrap()
        };
        let mut journal = Journal {
            path: "a.journal".into(),
            file: open("/dev/full"),
            shape: SHAPE,
            length: 0,
        };
        assert_eq!(
            journal.append(&numbers(0, 1)).unwrap_err().to_string(),
            "could not write `a.journal`: No space left on device (os error 28)"
        );
        assert_eq!(journal.length, 0, "the failed record does not count");
        let source = (&open("/proc/self/mem")).read(&mut [0]).unwrap_err();
        let path = "a.journal".into();
        assert_eq!(
            JournalError::Read { path, source }.to_string(),
            "could not read `a.journal`: Input/output error (os error 5)"
        );
    }
}
