//! Zip archives: the list of entries at the end of a file, and the bytes of one entry.
//!
//! ```text
//! entry: local header, name, extra, data | … | central directory: one record per entry | end record
//! ```
//!
//! Only the central directory is believed; of a local header just its length is used. Entries are
//! stored or deflated, sizes may be of 64 bits. Nothing is unpacked beyond the size that the
//! directory states, and that size must be possible for the packed bytes there are.
//!
//! Read by hand: with the crate `zip` 9 and the crates under it, the check of claimed sizes and the messages
//! would still be ours.
//!
//! Reference: PKWARE, "APPNOTE.TXT: .ZIP File Format Specification", sections 4.3 to 4.5.

use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::read::DeflateDecoder;

use crate::error::Error;
use crate::picture_file::DEFLATE_GAIN;

/// Bytes of the end record without its comment.
const END: usize = 22;

/// Bytes of the locator of the 64-bit end record, which lies right before the end record.
const LOCATOR: usize = 20;

/// Bytes of the 64-bit end record that are used.
const END_64: usize = 56;

/// Bytes of a directory record without its name, extra and comment.
const RECORD: usize = 46;

/// Bytes of a local header without its name and extra.
const LOCAL: usize = 30;

/// Most bytes of a central directory: half a million entries, where arrays come in dozens.
const MAX_DIRECTORY: u64 = 1 << 26;

/// What the directory says about an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Bytes once unpacked.
    pub(crate) size: u64,
    /// Checksum of the unpacked bytes.
    pub(crate) crc: u32,
    packed: u64,
    method: u64,
    encrypted: bool,
    offset: u64,
}

/// An archive with its directory read.
pub(crate) struct Archive<R> {
    file: R,
    length: u64,
    pub(crate) entries: Vec<Entry>,
}

impl<R: Read + Seek> Archive<R> {
    /// Reads the directory.
    pub(crate) fn open(mut file: R) -> Result<Self, Error> {
        let length = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
        let mut archive = Self {
            file,
            length,
            entries: Vec::new(),
        };
        let [offset, size] = archive.directory()?;
        let directory = archive.at(offset, size, "list of entries")?;
        archive.entries = records(&directory).ok_or_else(|| damaged("list of entries"))?;
        Ok(archive)
    }

    /// The unpacked bytes of an entry, of which there are `entry.size` in a sound archive.
    pub(crate) fn read(mut self, entry: &Entry) -> Result<Box<dyn Read>, Error>
    where
        R: 'static,
    {
        let name = &entry.name;
        if entry.encrypted {
            return Err(Error::unsupported(format!("entry `{name}` is encrypted")));
        }
        let most = match entry.method {
            0 => entry.packed,
            8 => entry.packed.saturating_mul(DEFLATE_GAIN),
            method => {
                return Err(Error::unsupported(format!(
                    "entry `{name}` is packed with method {method}; only 0 (stored) and 8 (deflate) can be read"
                )));
            }
        };
        let local = self.at(entry.offset, LOCAL as u64, "local header")?;
        let start = self.data_start(entry, &local);
        let start = start.ok_or_else(|| damaged("local header"))?;
        if entry.size > most {
            return Err(Error::malformed(format!(
                "entry `{name}` claims {} bytes, but only {} packed bytes are there",
                entry.size, entry.packed
            )));
        }
        self.file.seek(SeekFrom::Start(start)).map_err(unreadable)?;
        let packed = BufReader::new(self.file.take(entry.packed));
        Ok(if entry.method == 0 {
            Box::new(packed.take(entry.size))
        } else {
            Box::new(DeflateDecoder::new(packed).take(entry.size))
        })
    }

    /// Where the data of an entry starts; none where it does not lie within the file.
    fn data_start(&self, entry: &Entry, local: &[u8]) -> Option<u64> {
        let local = local.strip_prefix(b"PK\x03\x04").map(|_| local)?;
        let [name, extra] = [number(local, 26, 2)?, number(local, 28, 2)?];
        let start = entry.offset + LOCAL as u64 + name + extra;
        let end = start.checked_add(entry.packed)?;
        (end <= self.length).then_some(start)
    }

    /// Offset and size of the central directory.
    fn directory(&mut self) -> Result<[u64; 2], Error> {
        let tail_length = self
            .length
            .min((END + LOCATOR + usize::from(u16::MAX)) as u64);
        let tail = self.at(self.length - tail_length, tail_length, "end")?;
        let end = (0..=tail.len().saturating_sub(END))
            .rev()
            .find(|&at| is_end(&tail[at..]))
            .ok_or_else(|| {
                Error::malformed("it has no list of entries at its end\nhint: the file is cut short; fetch it again")
            })?;
        let damaged = || damaged("end record");
        let field = |at, size| number(&tail[end..], at, size).ok_or_else(damaged);
        let [size, offset] = [field(12, 4)?, field(16, 4)?];
        let locator = &tail[end.saturating_sub(LOCATOR)..end];
        if !locator.starts_with(b"PK\x06\x07") {
            return Ok([offset, size]);
        }
        let offset_64 = number(locator, 8, 8).ok_or_else(damaged)?;
        let end_64 = self.at(offset_64, END_64 as u64, "end record")?;
        if !end_64.starts_with(b"PK\x06\x06") {
            return Err(damaged());
        }
        let field = |at| number(&end_64, at, 8).ok_or_else(damaged);
        Ok([field(48)?, field(40)?])
    }

    /// The bytes of a part of the file, which has to lie within it.
    fn at(&mut self, offset: u64, size: u64, what: &'static str) -> Result<Vec<u8>, Error> {
        let end = offset.checked_add(size);
        if end.is_none_or(|end| end > self.length) || size > MAX_DIRECTORY {
            return Err(damaged(what));
        }
        let mut bytes = vec![0; size as usize];
        self.file
            .seek(SeekFrom::Start(offset))
            .map_err(unreadable)?;
        self.file.read_exact(&mut bytes).map_err(unreadable)?;
        Ok(bytes)
    }
}

fn unreadable(source: io::Error) -> Error {
    Error::read(source.to_string()).because(source)
}

/// Names the archive in what is wrong with it.
pub(crate) fn in_archive(path: &Path) -> impl Fn(Error) -> Error + Copy + '_ {
    move |error| {
        error.within(format_args!(
            "could not read the archive `{}`",
            path.display()
        ))
    }
}

/// Of a part that lies outside the file or is not what it should be.
pub(crate) fn damaged(what: &str) -> Error {
    Error::malformed(format!("its {what} is damaged\nhint: fetch the file again"))
}

/// Whether these bytes are an end record up to the last byte of its comment.
fn is_end(bytes: &[u8]) -> bool {
    let comment = number(bytes, 20, 2);
    bytes.starts_with(b"PK\x05\x06")
        && comment == Some((bytes.len() as u64).wrapping_sub(END as u64))
}

/// The records of a central directory; none where one is damaged.
fn records(mut directory: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    while !directory.is_empty() {
        let sizes = [28, 30, 32].map(|at| number(directory, at, 2).map(|size| size as usize));
        let [name, extra, comment] = [sizes[0]?, sizes[1]?, sizes[2]?];
        let (record, rest) = directory.split_at_checked(RECORD + name + extra + comment)?;
        entries.push(entry(record, name, extra)?);
        directory = rest;
    }
    Some(entries)
}

fn entry(record: &[u8], name: usize, extra: usize) -> Option<Entry> {
    if !record.starts_with(b"PK\x01\x02") {
        return None;
    }
    let field = |at, size| number(record, at, size);
    let (name, after) = record[RECORD..].split_at(name);
    let mut wide = wide_numbers(&after[..extra]);
    // A number that does not fit in 32 bits stands in the extra part, in the order of asking.
    let mut number_at = |at| match field(at, 4)? {
        0xffff_ffff => {
            let (value, rest) = wide.split_first_chunk()?;
            wide = rest;
            Some(u64::from_le_bytes(*value))
        }
        value => Some(value),
    };
    Some(Entry {
        name: String::from_utf8_lossy(name).into_owned(),
        size: number_at(24)?,
        packed: number_at(20)?,
        offset: number_at(42)?,
        crc: field(16, 4)? as u32,
        method: field(10, 2)?,
        encrypted: field(8, 2)? & 1 == 1,
    })
}

/// The part with 64-bit numbers, tag 1, of an entry's extra bytes; empty where there is none.
fn wide_numbers(mut extra: &[u8]) -> &[u8] {
    while let (Some(tag), Some(size)) = (number(extra, 0, 2), number(extra, 2, 2)) {
        let Some((part, rest)) = extra[4..].split_at_checked(size as usize) else {
            break;
        };
        if tag == 1 {
            return part;
        }
        extra = rest;
    }
    &[]
}

/// The number of up to eight bytes at a place, least significant byte first.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + size)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
    )
}
