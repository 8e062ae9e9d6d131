//! Arrays of NumPy: `.npy` files, and `.npz` archives of them.
//!
//! ```text
//! 93 "NUMPY" | version, 2 bytes | length of the header, 2 bytes or 4 | header | the numbers
//! header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }
//! ```
//!
//! Bytes stay bytes; all other numbers become `f32`, or `f64` for who asks for their digits. Arrays of Python objects are refused: to read
//! them is to run what the file says. The length of the file, or what a zip entry states, has to fit
//! the shape exactly before any memory is reserved.
//!
//! Read by hand: the crates `npyz` 0.9 and `ndarray-npy` 0.10 reserve as much memory as a header says it
//! has bytes, and parse it with fourteen crates more (`py_literal`, `pest`); our checks would stay.
//!
//! Reference: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

mod header;
mod types;

use std::io::{self, BufReader, Read, Seek as _};
use std::path::Path;

use flate2::CrcReader;

use self::header::Header;
use self::types::{MAX_TEXTS, Number, Text};
use crate::error::Error;
use crate::message::quoted;
use crate::plain_file;
use crate::zip::{Archive, Entry, in_archive};

/// Most bytes that a shape may promise.
pub const MAX_BYTES: u64 = 1 << 36;

/// Most bytes of a header; NumPy itself writes a hundred or so and stops reading at 10,000.
const MAX_HEADER: u64 = 1 << 16;

const MAGIC: &[u8] = b"\x93NUMPY";

/// An array, its last index running fastest.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Size along each dimension; empty for a single number.
    pub shape: Vec<usize>,
    /// The numbers, as many as the sizes multiply to.
    pub values: Values,
}

/// The numbers of an array.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Unsigned bytes as they are, and truth values as 0 and 1.
    U8(Vec<u8>),
    /// All other numbers, rounded to 32 bits: whole numbers beyond 2²⁴ may change.
    F32(Vec<f32>),
}

impl Values {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(values) => values.len(),
            Self::F32(values) => values.len(),
        }
    }

    /// Whether there is no number.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What an array may hold.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Numbers.
    Numbers(Array),
    /// Texts, in the order of the last index running fastest.
    Texts(Vec<String>),
}

/// Reads a `.npy` file, or one array of a `.npz` file; the first bytes tell which it is.
///
/// `entry` names the array of an archive, with or without `.npy`; it may be left out where there is
/// only one.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method itself is of one lifetime only"
)]
pub fn read(path: &Path, entry: Option<&str>) -> Result<Array, Error> {
    open(path, entry, |source| source.read())
}

/// Numbers with all their digits.
#[derive(Debug, Clone, PartialEq)]
pub enum Precise {
    /// Numbers that 32 bits hold.
    Single(Array),
    /// Floats of 64 bits, and whole numbers of 32 or 64.
    Double {
        /// Size along each dimension.
        shape: Vec<usize>,
        /// The numbers, as many as the sizes multiply to.
        values: Vec<f64>,
    },
}

/// Reads an array as [`read`] does, and keeps numbers of 64 bits as they are.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method itself is of one lifetime only"
)]
pub fn read_precise(path: &Path, entry: Option<&str>) -> Result<Precise, Error> {
    open(path, entry, |source| source.read_precise())
}

/// Reads an array as [`read`] does, which may also be of texts: types `U` and `S`.
///
/// What is not UTF-8 in texts of type `S`, and no character in those of type `U`, becomes `�`.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method itself is of one lifetime only"
)]
pub fn read_content(path: &Path, entry: Option<&str>) -> Result<Content, Error> {
    open(path, entry, |source| source.read_content())
}

fn open<T>(
    path: &Path,
    entry: Option<&str>,
    read: impl FnOnce(Source<&mut dyn Read>) -> Result<T, Error>,
) -> Result<T, Error> {
    let place = format!("`{}`", path.display());
    let failed = unreadable(&place);
    let mut file = plain_file::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut start = Vec::new();
    let mut first = file.by_ref().take(2);
    first.read_to_end(&mut start).map_err(failed)?;
    file.rewind().map_err(failed)?;
    match entry {
        _ if start == b"PK" => read_archive(file, path, entry, read),
        None => read(Source::new(&mut BufReader::new(file), length, place)),
        Some(entry) => Err(Error::setting(format!(
            "`{}` is one array, so there is no array `{entry}` in it",
            path.display()
        ))),
    }
}

fn read_archive<T>(
    file: impl Read + io::Seek + 'static,
    path: &Path,
    entry: Option<&str>,
    read: impl FnOnce(Source<&mut dyn Read>) -> Result<T, Error>,
) -> Result<T, Error> {
    let failed = in_archive(path);
    let archive = Archive::open(file).map_err(failed)?;
    let entry = choose(&archive.entries, path, entry)?;
    let name = array_name(&entry).unwrap_or(&entry.name);
    let place = format!("`{name}` of `{}`", path.display());
    let mut unpacked = CrcReader::new(archive.read(&entry).map_err(failed)?);
    let made = read(Source::new(&mut unpacked, entry.size, place.clone()))?;
    if unpacked.crc().sum() != entry.crc {
        return Err(Error::malformed(format!(
            "{place} does not fit its checksum\nhint: the file is damaged; fetch it again"
        )));
    }
    Ok(made)
}

/// The name of an array is its entry's without `.npy`; other entries are not arrays.
fn array_name(entry: &Entry) -> Option<&str> {
    entry.name.strip_suffix(".npy")
}

/// The names of the arrays of an archive.
pub(crate) fn names(path: &Path) -> Result<Vec<String>, Error> {
    let file = plain_file::open(path).map_err(Error::reading(path))?;
    let archive = Archive::open(file).map_err(in_archive(path))?;
    let names = archive.entries.iter().filter_map(array_name);
    Ok(names.map(str::to_owned).collect())
}

fn unreadable(place: &str) -> impl Fn(io::Error) -> Error + Copy + '_ {
    move |source| Error::read(format!("could not read {place}: {source}")).because(source)
}

fn choose(entries: &[Entry], path: &Path, wanted: Option<&str>) -> Result<Entry, Error> {
    let arrays = || entries.iter().filter(|entry| array_name(entry).is_some());
    let names = || match quoted(arrays().filter_map(array_name)) {
        names if names.is_empty() => "none".to_owned(),
        names => names,
    };
    let Some(wanted) = wanted else {
        let mut arrays = arrays();
        return match (arrays.next(), arrays.next()) {
            (Some(only), None) => Ok(only.clone()),
            _ => Err(Error::setting(format!(
                "`{}` should have one array, but has {}\nhint: say which one",
                path.display(),
                names()
            ))),
        };
    };
    let found = arrays().find(|entry| entry.name == wanted || array_name(entry) == Some(wanted));
    found.cloned().ok_or_else(|| {
        Error::not_found(format!(
            "`{}` has no array `{wanted}`, only {}",
            path.display(),
            names()
        ))
    })
}

/// An array about to be read.
struct Source<R> {
    reader: R,
    /// Bytes that there are, or that there should be in a sound archive.
    length: u64,
    /// The file, or the entry of an archive, for messages.
    place: String,
}

impl<R: Read> Source<R> {
    fn new(reader: R, length: u64, place: String) -> Self {
        Self {
            reader,
            length,
            place,
        }
    }

    fn read(mut self) -> Result<Array, Error> {
        let (header, header_bytes) = self.parsed_header()?;
        self.numbers(header, header_bytes)
    }

    fn read_precise(mut self) -> Result<Precise, Error> {
        let (header, header_bytes) = self.parsed_header()?;
        let number = self.number_type(&header.descr)?;
        if !number.is_wide() {
            return self.numbers(header, header_bytes).map(Precise::Single);
        }
        let count = self.check_length(&header.shape, number.size(), header_bytes)?;
        let values = number.read_doubles(&mut self.reader, count);
        let values = values.map_err(unreadable(&self.place))?;
        let values = if header.fortran_order {
            last_index_fastest(&values, &header.shape)
        } else {
            values
        };
        Ok(Precise::Double {
            shape: header.shape,
            values,
        })
    }

    fn read_content(mut self) -> Result<Content, Error> {
        let (header, header_bytes) = self.parsed_header()?;
        match Text::parse(&header.descr) {
            Some(text) => self.texts(&header, header_bytes, text).map(Content::Texts),
            None => self.numbers(header, header_bytes).map(Content::Numbers),
        }
    }

    /// What the header says, and the bytes up to its end.
    fn parsed_header(&mut self) -> Result<(Header, u64), Error> {
        let (text, header_bytes) = self.header()?;
        let header = Header::parse(&text).map_err(|unclear| {
            Error::malformed(format!(
                "the header of {} should have {} where it has `{}`",
                self.place, unclear.wanted, unclear.found
            ))
        })?;
        Ok((header, header_bytes))
    }

    fn texts(
        mut self,
        header: &Header,
        header_bytes: u64,
        text: Text,
    ) -> Result<Vec<String>, Error> {
        let count = self.check_length(&header.shape, text.size() as u64, header_bytes)?;
        if count > MAX_TEXTS {
            return Err(Error::too_large(format!(
                "{} is of shape {:?}, which is more than {MAX_BYTES} bytes",
                self.place, header.shape
            )));
        }
        let mut texts = Vec::with_capacity(count);
        let mut bytes = vec![0; text.size()];
        for _ in 0..count {
            let read = self.reader.read_exact(&mut bytes);
            read.map_err(unreadable(&self.place))?;
            texts.push(text.decode(&bytes));
        }
        Ok(if header.fortran_order {
            let order: Vec<usize> = (0..count).collect();
            let order = last_index_fastest(&order, &header.shape);
            order.into_iter().map(|i| texts[i].clone()).collect()
        } else {
            texts
        })
    }

    fn numbers(mut self, header: Header, header_bytes: u64) -> Result<Array, Error> {
        let number = self.number_type(&header.descr)?;
        let count = self.check_length(&header.shape, number.size(), header_bytes)?;
        let values = number.read(&mut self.reader, count);
        let values = values.map_err(unreadable(&self.place))?;
        let values = if header.fortran_order {
            match values {
                Values::U8(values) => Values::U8(last_index_fastest(&values, &header.shape)),
                Values::F32(values) => Values::F32(last_index_fastest(&values, &header.shape)),
            }
        } else {
            values
        };
        Ok(Array {
            shape: header.shape,
            values,
        })
    }

    /// The header's text, and the bytes up to its end.
    fn header(&mut self) -> Result<(String, u64), Error> {
        let start = self.up_to(MAGIC.len() as u64 + 2)?;
        let Some(&[version, _minor]) = start.strip_prefix(MAGIC) else {
            return Err(Error::unsupported(format!(
                "{} is not a NumPy array: it starts with {start:02x?}",
                self.place
            )));
        };
        let width = match version {
            1 => 2,
            2 | 3 => 4,
            _ => {
                let place = &self.place;
                return Err(Error::unsupported(format!(
                    "{place} is of version {version} of NumPy's format; versions 1 to 3 can be read"
                )));
            }
        };
        let length = self.up_to(width)?;
        let stated = length
            .iter()
            .rev()
            .fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        if stated > MAX_HEADER {
            return Err(Error::too_large(format!(
                "{} has a header of {stated} bytes; {MAX_HEADER} are the most",
                self.place
            )));
        }
        // Versions 1 and 2 are Latin-1, which differs in names of fields only; those are refused.
        let text = String::from_utf8_lossy(&self.up_to(stated)?).into_owned();
        Ok((text, MAGIC.len() as u64 + 2 + width + stated))
    }

    fn number_type(&self, descr: &str) -> Result<Number, Error> {
        let place = &self.place;
        if descr.contains("|O") {
            return Err(Error::unsupported(format!(
                "{place} holds Python objects, not numbers; they are not read, because that would run code out of the file\nhint: save it again as numbers, for instance with `array.astype(\"float32\")`"
            )));
        }
        Number::parse(descr).ok_or_else(|| {
            Error::unsupported(format!(
                "{place} holds values of type `{descr}`; b1, i1 to i8, u1 to u8 and f2 to f8 can be read"
            ))
        })
    }

    /// How many numbers the shape promises, which has to fit the bytes there are.
    fn check_length(&self, shape: &[usize], size: u64, header: u64) -> Result<usize, Error> {
        let place = &self.place;
        let count = if shape.contains(&0) {
            Some(0)
        } else {
            let mut sides = shape.iter();
            sides.try_fold(1, |product: u64, &side| product.checked_mul(side as u64))
        };
        let bytes = count.and_then(|count| count.checked_mul(size));
        match (count, bytes.filter(|&bytes| bytes <= MAX_BYTES)) {
            (Some(count), Some(bytes)) if header + bytes == self.length => Ok(count as usize),
            (_, Some(bytes)) => Err(Error::malformed(format!(
                "{place} is of shape {shape:?}, so it should have {} bytes, but it has {}",
                header + bytes,
                self.length
            ))),
            _ => Err(Error::too_large(format!(
                "{place} is of shape {shape:?}, which is more than {MAX_BYTES} bytes"
            ))),
        }
    }

    /// The next `limit` bytes, or fewer at the end; memory grows with what is there.
    fn up_to(&mut self, limit: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let mut limited = self.reader.by_ref().take(limit);
        let read = limited.read_to_end(&mut bytes);
        read.map_err(unreadable(&self.place))?;
        Ok(bytes)
    }
}

/// Values whose first index runs fastest, put so that the last one does.
fn last_index_fastest<T: Copy>(values: &[T], shape: &[usize]) -> Vec<T> {
    if values.is_empty() {
        return Vec::new();
    }
    // Counts up like a milometer, last wheel first; a step of wheel d moves `strides[d]` values.
    let strides = shape.iter().scan(1, |stride, &side| {
        let this = *stride;
        *stride *= side;
        Some(this)
    });
    let strides: Vec<usize> = strides.collect();
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    let mut out = Vec::with_capacity(values.len());
    for _ in 0..values.len() {
        out.push(values[at]);
        for dimension in (0..shape.len()).rev() {
            index[dimension] += 1;
            at += strides[dimension];
            if index[dimension] < shape[dimension] {
                break;
            }
            at -= strides[dimension] * shape[dimension];
            index[dimension] = 0;
        }
    }
    out
}

#[cfg(test)]
mod tests;
