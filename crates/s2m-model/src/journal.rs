//! An append-only file of logit rows that survives being killed at any moment.
//!
//! ```text
//! header   magic, version, labels, conditional, length of identity, identity, checksum
//! record   rows (u32), rows × width numbers (f32), checksum (u32) of both and of its place in the file
//! record   …
//! ```
//!
//! All numbers are little-endian; the checksum is CRC-32 (ISO-HDLC, as in gzip). A record counts
//! once all of it is there, so whatever a crash leaves behind is whole records and a tail to cut. A
//! record that was lost, doubled or moved is noticed by its place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::disk::crc32;
use crate::disk::step::Step;
use crate::error::Error;
use crate::logits::{Logits, RowShape};

const MAGIC: &[u8; 8] = b"s2m-rows";

/// Version of the file format; a journal of another version is started afresh.
const VERSION: u32 = 2;

/// A file to which scored rows are added as they come; it is made when the first ones do.
///
/// Whoever opens one holds the lock of the folder that it lies in.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Option<File>,
    header: Vec<u8>,
    shape: RowShape,
    /// Length of the file up to its last whole record.
    length: u64,
}

impl Journal {
    /// Opens the journal at `path` and returns it with the rows that an earlier run left.
    ///
    /// A damaged tail is cut off. A file of another identity or shape, or one that is no journal,
    /// is started afresh.
    pub fn open(path: &Path, identity: &str, shape: RowShape) -> Result<(Self, Logits), Error> {
        let mut rows = Vec::new();
        let journal = Self::recover(path, identity, shape, &mut |record| {
            rows.extend_from_slice(record);
        })?;
        let rows = Logits::from_values(shape, rows).expect("records hold whole rows");
        Ok((journal, rows))
    }

    /// The same, where the rows are shown record by record: there may be more than memory holds.
    pub fn recover(
        path: &Path,
        identity: &str,
        shape: RowShape,
        see: &mut dyn FnMut(&[f32]),
    ) -> Result<Self, Error> {
        let file = open_file(path)?;
        let read_error = |e| failed("read", path, e);
        let header = header(identity, shape);
        let length = match &file {
            Some(file) => recover(file, &header, shape, see).map_err(read_error)?,
            None => 0,
        };
        let journal = Self {
            path: path.to_owned(),
            file,
            header,
            shape,
            length,
        };
        // Also where we start afresh: records of another run must not follow our header.
        journal.cut().map_err(|e| journal.write_error(e))?;
        Ok(journal)
    }

    /// Adds rows as one record; after an error the earlier records are as they were.
    ///
    /// # Panics
    ///
    /// Where the numbers do not fill whole rows.
    pub fn append(&mut self, rows: &[f32]) -> Result<(), Error> {
        let width = self.shape.width();
        assert!(
            rows.len().is_multiple_of(width),
            "a record holds whole rows"
        );
        if rows.is_empty() {
            return Ok(());
        }
        if self.length == 0 {
            self.write(&self.header.clone())?;
        }
        // The row count is a u32; beyond it one record becomes several.
        for rows in rows.chunks(width * u32::MAX as usize) {
            self.write(&record(rows, width, self.length))?;
        }
        Ok(())
    }

    /// Waits until the system has put everything on the disk.
    pub fn sync(&self) -> Result<(), Error> {
        let synced = self.file.as_ref().map_or(Ok(()), File::sync_data);
        synced.map_err(|e| self.write_error(e))
    }

    /// Deletes the file.
    pub fn remove(self) -> Result<(), Error> {
        if self.file.is_none() {
            return Ok(());
        }
        let remove = || fs::remove_file(&self.path);
        Step::JournalRemove
            .run(remove)
            .map_err(|e| failed("remove", &self.path, e))
    }

    /// Writes one piece after the last whole record, in one call, or leaves the file as it was.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let length = self.length;
        let written = self.writable().and_then(|mut file| {
            file.seek(SeekFrom::Start(length))?;
            Step::JournalAppend.run(|| file.write_all(bytes))
        });
        if let Err(source) = written {
            // Where even this fails, the next `open` does it.
            let _ = self.cut();
            return Err(self.write_error(source));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// The file, made where it is not there yet.
    fn writable(&mut self) -> io::Result<&File> {
        if self.file.is_none() {
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create_new(true);
            self.file = Some(options.open(&self.path)?);
        }
        Ok(self.file.as_ref().expect("it was just made"))
    }

    fn cut(&self) -> io::Result<()> {
        self.file
            .as_ref()
            .map_or(Ok(()), |file| file.set_len(self.length))
    }

    fn write_error(&self, source: io::Error) -> Error {
        failed("write", &self.path, source)
    }
}

fn failed(to: &str, path: &Path, source: io::Error) -> Error {
    Error::journal(format!("could not {to} `{}`: {source}", path.display())).because(source)
}

/// Opens the file, where there is one.
fn open_file(path: &Path) -> Result<Option<File>, Error> {
    // Opening a pipe would wait for its other end, so look first.
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(found) if !found.is_file() => {
            return Err(Error::journal(format!(
                "could not write `{}`: it is not a plain file",
                path.display()
            )));
        }
        _ => {}
    }
    let file = OpenOptions::new().read(true).write(true).open(path);
    file.map(Some).map_err(|e| failed("write", path, e))
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

fn record(rows: &[f32], width: usize, place: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows.len() * 4 + 8);
    bytes.extend(((rows.len() / width) as u32).to_le_bytes());
    bytes.extend(rows.iter().flat_map(|value| value.to_le_bytes()));
    bytes.extend(crc32(&[&bytes, &place.to_le_bytes()]).to_le_bytes());
    bytes
}

/// Shows the whole records after the header and says where the last one ends; zero where the header is not ours.
fn recover(
    file: &File,
    header: &[u8],
    shape: RowShape,
    see: &mut dyn FnMut(&[f32]),
) -> io::Result<u64> {
    let size = file.metadata()?.len();
    let mut reader = BufReader::new(file);
    let mut start = vec![0; header.len()];
    if size < header.len() as u64 {
        return Ok(0);
    }
    reader.read_exact(&mut start)?;
    if start != header {
        return Ok(0);
    }
    let mut end = header.len() as u64;
    let (mut bytes, mut rows) = (Vec::new(), Vec::new());
    while let Some(length) = read_record(&mut reader, [end, size], shape, &mut bytes)? {
        rows.clear();
        rows.extend(bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)));
        see(&rows);
        end += length;
    }
    Ok(end)
}

/// Reads the numbers of one record into `bytes` and returns the record's length; none at the end,
/// and none where the record is torn or damaged.
fn read_record(
    reader: &mut impl Read,
    [place, end]: [u64; 2],
    shape: RowShape,
    bytes: &mut Vec<u8>,
) -> io::Result<Option<u64>> {
    let left = end - place;
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
    let whole = u32::from_le_bytes(checksum) == crc32(&[&count, bytes, &place.to_le_bytes()]);
    Ok(whole.then_some(data + 8))
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
        let mut ends = vec![journal.header.len() as u64];
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
    fn a_record_that_was_lost_doubled_or_moved_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let ends = sample(&path);
        let bytes = fs::read(&path).unwrap();
        let [start, one, two, three] = [0, 1, 2, 3].map(|at| ends[at] as usize);
        let pieces = [&bytes[start..one], &bytes[one..two], &bytes[two..three]];
        for (order, kept) in [
            (&[0, 2][..], 1),
            (&[1, 2], 0),
            (&[0, 0, 1, 2], 1),
            (&[0, 2, 1], 1),
            (&[0, 1, 1], 3),
        ] {
            let mut changed = bytes[..start].to_vec();
            for &piece in order {
                let piece: &[u8] = pieces[piece];
                changed.extend(piece);
            }
            fs::write(&path, changed).unwrap();
            assert_eq!(reopen(&path).1.values(), numbers(0, kept), "{order:?}");
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
    fn a_journal_without_rows_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let (mut journal, _) = reopen(&path);
        journal.append(&[]).unwrap();
        journal.sync().unwrap();
        journal.remove().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_missing_folder_is_named_in_the_error() {
        let path = Path::new("/nowhere/a.journal");
        let append = |path| Journal::open(path, "", SHAPE)?.0.append(&numbers(0, 1));
        assert_eq!(
            append(path).unwrap_err().to_string(),
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
        sample(&path);
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
            file: Some(open("/dev/full")),
            header: header("", SHAPE),
            shape: SHAPE,
            length: 0,
        };
        assert_eq!(
            journal.append(&numbers(0, 1)).unwrap_err().to_string(),
            "could not write `a.journal`: No space left on device (os error 28)"
        );
        assert_eq!(journal.length, 0, "the failed record does not count");
        let source = (&open("/proc/self/mem")).read(&mut [0]).unwrap_err();
        let path = Path::new("a.journal");
        assert_eq!(
            failed("read", path, source).to_string(),
            "could not read `a.journal`: Input/output error (os error 5)"
        );
    }
}
