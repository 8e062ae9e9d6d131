//! Numbers of one run that memory may not hold: a column that goes on in a file without a name.
//!
//! The file has no name from the beginning, so nothing of it is left behind, however the program ends.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use s2m_core::series::Series;

use crate::error::Error;

/// Numbers of a column that stay in memory: small runs write no file.
const HELD: usize = 1 << 19;

/// Numbers that are read at a time.
const BLOCK: usize = 1 << 14;

/// Numbers that are sorted at a time, and numbers held while sorted runs are merged.
const RUN: usize = 1 << 19;

/// Where numbers go that memory does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scratch {
    folder: PathBuf,
    temporary: bool,
    held: usize,
}

impl Scratch {
    /// The system's folder for what is needed for a while; `TMPDIR` names another.
    pub fn temporary() -> Self {
        Self {
            folder: std::env::temp_dir(),
            temporary: true,
            held: HELD,
        }
    }

    /// A folder that is there.
    pub fn inside(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            temporary: false,
            held: HELD,
        }
    }

    fn error(&self, source: io::Error) -> Error {
        let (folder, hint) = (
            self.folder.display(),
            if self.temporary {
                "\nhint: name another folder with TMPDIR"
            } else {
                ""
            },
        );
        Error::write(format!(
            "could not keep numbers in a file in `{folder}`: {source}{hint}"
        ))
        .because(source)
    }
}

/// What a column holds.
pub trait Number: Copy {
    /// Its bytes in a file.
    type Bytes: AsRef<[u8]> + Copy + Default + AsMut<[u8]>;

    /// The number as bytes.
    fn to_bytes(self) -> Self::Bytes;

    /// The number of some bytes.
    fn of_bytes(bytes: Self::Bytes) -> Self;
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Number for $type {
            type Bytes = [u8; size_of::<$type>()];

            fn to_bytes(self) -> Self::Bytes {
                self.to_le_bytes()
            }

            fn of_bytes(bytes: Self::Bytes) -> Self {
                Self::from_le_bytes(bytes)
            }
        }
    )*};
}

number!(f32, f64, u64);

/// Numbers in the order in which they came.
#[derive(Debug)]
pub struct Column<T> {
    scratch: Scratch,
    file: Option<File>,
    /// Numbers in the file; those that follow are in memory.
    stored: usize,
    tail: Vec<T>,
    fault: Fault,
}

/// The first error of a reader that had no way to tell; shared with what was made out of a column.
type Fault = Arc<Mutex<Option<Error>>>;

impl<T: Number> Column<T> {
    /// An empty column.
    pub fn new(scratch: &Scratch) -> Self {
        Self {
            scratch: scratch.clone(),
            file: None,
            stored: 0,
            tail: Vec::new(),
            fault: Fault::default(),
        }
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.stored + self.tail.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds numbers at the end.
    pub fn append(&mut self, mut numbers: &[T]) -> Result<(), Error> {
        while !numbers.is_empty() {
            let room = self.scratch.held - self.tail.len();
            let (now, later) = numbers.split_at(numbers.len().min(room));
            self.tail.extend_from_slice(now);
            numbers = later;
            if self.tail.len() == self.scratch.held {
                self.store().map_err(|e| self.scratch.error(e))?;
            }
        }
        Ok(())
    }

    /// Moves what is in memory to the file.
    fn store(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile_in(&self.scratch.folder)?);
        }
        let file = self.file.as_ref().expect("it was just made");
        let mut bytes = Vec::with_capacity(BLOCK * size_of::<T::Bytes>());
        for block in self.tail.chunks(BLOCK) {
            bytes.clear();
            for number in block {
                bytes.extend_from_slice(number.to_bytes().as_ref());
            }
            file.write_all_at(&bytes, place::<T>(self.stored))?;
            self.stored += block.len();
        }
        self.tail.clear();
        Ok(())
    }

    /// The numbers of a range.
    pub fn read(&self, range: Range<usize>) -> Result<Vec<T>, Error> {
        let mut numbers = Vec::with_capacity(range.len());
        self.blocks(range, &mut |block| numbers.extend_from_slice(block))?;
        Ok(numbers)
    }

    /// Shows the numbers of a range in order, in blocks.
    ///
    /// # Panics
    ///
    /// Where the column has no such range.
    pub fn blocks(&self, range: Range<usize>, see: &mut dyn FnMut(&[T])) -> Result<(), Error> {
        let from_file = range.start..range.end.min(self.stored);
        if let Some(file) = &self.file {
            read_file(file, from_file, see).map_err(|e| self.scratch.error(e))?;
        }
        let [first, last] = [range.start, range.end].map(|at| at.saturating_sub(self.stored));
        if first < last {
            see(&self.tail[first..last]);
        }
        Ok(())
    }

    /// Whether everything that was read without a word was read well; see [`Series`].
    pub fn check(&self) -> Result<(), Error> {
        let fault = self
            .fault
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        fault.map_or(Ok(()), Err)
    }
}

/// Where a number begins in the file.
fn place<T: Number>(at: usize) -> u64 {
    (at * size_of::<T::Bytes>()) as u64
}

fn read_file<T: Number>(
    file: &File,
    range: Range<usize>,
    see: &mut dyn FnMut(&[T]),
) -> io::Result<()> {
    let size = size_of::<T::Bytes>();
    let most = BLOCK.min(range.len());
    let (mut bytes, mut numbers) = (vec![0; most * size], Vec::with_capacity(most));
    let mut at = range.start;
    while at < range.end {
        let count = BLOCK.min(range.end - at);
        let bytes = &mut bytes[..count * size];
        file.read_exact_at(bytes, place::<T>(at))?;
        numbers.clear();
        numbers.extend(bytes.chunks_exact(size).map(|bytes| {
            let mut own = T::Bytes::default();
            own.as_mut().copy_from_slice(bytes);
            T::of_bytes(own)
        }));
        see(&numbers);
        at += count;
    }
    Ok(())
}

/// A sampler reads a column without a word about files: an error is kept for [`Column::check`], which is to
/// be asked before anything is believed, and zeros are shown in its place.
impl Series for Column<f64> {
    fn len(&self) -> usize {
        self.len()
    }

    fn scan(&self, range: Range<usize>, see: &mut dyn FnMut(&[f64])) {
        let mut left = range.len();
        let read = self.blocks(range, &mut |block| {
            left -= block.len();
            see(block);
        });
        if let Err(error) = read {
            self.keep(error);
            see(&vec![0.0; left]);
        }
    }

    fn descending(&self, value: &dyn Fn(f64) -> Option<f64>) -> Box<dyn Series> {
        match self.sorted(value) {
            Ok(sorted) => Box::new(sorted),
            Err(error) => {
                self.keep(error);
                Box::new(Vec::new())
            }
        }
    }
}

impl Column<f64> {
    fn keep(&self, error: Error) {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.get_or_insert(error);
    }

    /// An empty column whose faults are told by this one.
    fn child(&self) -> Self {
        Self {
            fault: Arc::clone(&self.fault),
            ..Self::new(&self.scratch)
        }
    }

    /// Sorted runs, each as long as memory allows, and then one out of them.
    fn sorted(&self, value: &dyn Fn(f64) -> Option<f64>) -> Result<Self, Error> {
        let most = RUN.min(self.scratch.held);
        let (mut runs, mut ends) = (self.child(), Vec::new());
        let mut run: Vec<f64> = Vec::with_capacity(most.min(self.len()));
        let mut end_run = |run: &mut Vec<f64>| {
            run.sort_unstable_by(|a, b| b.total_cmp(a));
            runs.append(run)?;
            ends.push(runs.len());
            run.clear();
            Ok(())
        };
        let mut ended: Result<(), Error> = Ok(());
        self.blocks(0..self.len(), &mut |block| {
            for number in block.iter().filter_map(|&number| value(number)) {
                if ended.is_ok() {
                    run.push(number);
                }
                if run.len() == most {
                    ended = end_run(&mut run);
                }
            }
        })?;
        ended?;
        end_run(&mut run)?;
        drop(run);
        if ends.len() == 1 {
            return Ok(runs);
        }
        runs.merged(&ends)
    }

    /// One descending column out of descending runs that end at some places.
    fn merged(&self, ends: &[usize]) -> Result<Self, Error> {
        let ahead = (RUN / ends.len()).clamp(1, BLOCK);
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let mut runs: Vec<Reader<'_>> = starts
            .zip(ends)
            .map(|(start, &end)| Reader::new(self, start..end, ahead))
            .collect();
        let mut heads = BinaryHeap::with_capacity(runs.len());
        for (run, reader) in runs.iter_mut().enumerate() {
            heads.extend(reader.next()?.map(|value| Head { value, run }));
        }
        let mut merged = self.child();
        let mut block = Vec::with_capacity(BLOCK);
        while let Some(Head { value, run }) = heads.pop() {
            block.push(value);
            if block.len() == BLOCK {
                merged.append(&block)?;
                block.clear();
            }
            heads.extend(runs[run].next()?.map(|value| Head { value, run }));
        }
        merged.append(&block)?;
        Ok(merged)
    }
}

/// The next number of a run.
struct Head {
    value: f64,
    run: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value
            .total_cmp(&other.value)
            .then(self.run.cmp(&other.run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

/// Reads a range number by number.
struct Reader<'a> {
    column: &'a Column<f64>,
    left: Range<usize>,
    ahead: usize,
    read: std::vec::IntoIter<f64>,
}

impl<'a> Reader<'a> {
    fn new(column: &'a Column<f64>, left: Range<usize>, ahead: usize) -> Self {
        Self {
            column,
            left,
            ahead,
            read: Vec::new().into_iter(),
        }
    }

    fn next(&mut self) -> Result<Option<f64>, Error> {
        if self.read.as_slice().is_empty() {
            let end = self.left.end.min(self.left.start + self.ahead);
            self.read = self.column.read(self.left.start..end)?.into_iter();
            self.left.start = end;
        }
        Ok(self.read.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A column that keeps seven numbers in memory.
    fn column(folder: &Path, count: u32) -> (Column<f64>, Vec<f64>) {
        let scratch = Scratch {
            held: 7,
            ..Scratch::inside(folder)
        };
        let numbers: Vec<f64> = (0..count).map(|k| f64::from(k * k % 101) - 30.0).collect();
        let mut column = Column::new(&scratch);
        for piece in numbers.chunks(5) {
            column.append(piece).unwrap();
        }
        (column, numbers)
    }

    #[test]
    fn every_range_is_read_as_it_was_written_and_no_name_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (column, numbers) = column(folder.path(), 40);
        assert_eq!((column.len(), column.stored), (40, 35));
        for first in 0..=40 {
            for last in first..=40 {
                assert_eq!(column.read(first..last).unwrap(), numbers[first..last]);
            }
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn sorting_out_of_memory_equals_sorting_in_it() {
        let folder = tempfile::tempdir().unwrap();
        for count in [0, 1, 6, 7, 8, 14, 300] {
            let (column, numbers) = column(folder.path(), count);
            let value = |number: f64| (number > -20.0).then(|| number / 3.0);
            let [mut outside, mut inside] = [Vec::new(), Vec::new()];
            let scan = |sorted: Box<dyn Series>, out: &mut Vec<f64>| {
                sorted.scan(0..sorted.len(), &mut |block| out.extend_from_slice(block));
            };
            scan(column.descending(&value), &mut outside);
            scan(numbers.descending(&value), &mut inside);
            assert_eq!(outside, inside, "{count}");
            column.check().unwrap();
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let nowhere = Scratch {
            held: 2,
            ..Scratch::inside(Path::new("/nowhere/at-all"))
        };
        let error = Column::new(&nowhere).append(&[1_u64, 2]).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("could not keep numbers in a file in `/nowhere/at-all`: No such file"),
            "{text}"
        );
    }

    /// What a series cannot say is said by its column.
    #[test]
    fn a_file_that_got_shorter_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let (column, _) = column(folder.path(), 40);
        column.file.as_ref().unwrap().set_len(100).unwrap();
        let mut seen = 0;
        column.scan(0..40, &mut |block| seen += block.len());
        assert_eq!(seen, 40);
        assert!(column.check().is_err() && column.check().is_ok());
        let _ = column.descending(&Some);
        assert!(column.check().is_err());
    }
}
