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

use std::fmt;
use std::io::{self, BufReader, Read, Seek as _};
use std::path::{Path, PathBuf};

use flate2::CrcReader;
use thiserror::Error;

use crate::message::quoted;
use crate::plain_file;
use crate::zip::{Archive, Entry};

pub use crate::zip::ZipError;

/// Most bytes that a shape may promise.
pub const MAX_BYTES: u64 = 1 << 36;

/// Most bytes of a header; NumPy itself writes a hundred or so and stops reading at 10,000.
const MAX_HEADER: u64 = 1 << 16;

/// Numbers that are converted at a time.
const CHUNK: usize = 1 << 14;

const MAGIC: &[u8] = b"\x93NUMPY";

/// A file, or an entry of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Which file.
    pub path: PathBuf,
    /// Which entry, if the file is an archive.
    pub entry: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(entry) = &self.entry {
            write!(f, "`{entry}` of ")?;
        }
        write!(f, "`{}`", self.path.display())
    }
}

/// Why a file gives no array.
#[derive(Debug, Error)]
pub enum NpyError {
    /// The file cannot be read or unpacked.
    #[error("could not read {place}: {source}")]
    Read {
        /// Which array.
        place: Place,
        /// What the system or the unpacking said.
        source: io::Error,
    },
    /// The file is neither an array nor an archive.
    #[error("{place} is not a NumPy array: it starts with {found:02x?}")]
    NotNumpy {
        /// Which array.
        place: Place,
        /// Its first bytes.
        found: Vec<u8>,
    },
    /// The format is of a version that is not known.
    #[error("{place} is of version {version} of NumPy's format; versions 1 to 3 can be read")]
    Version {
        /// Which array.
        place: Place,
        /// Its version.
        version: u8,
    },
    /// The header is too long to be one.
    #[error("{place} has a header of {found} bytes; {MAX_HEADER} are the most")]
    HeaderTooLarge {
        /// Which array.
        place: Place,
        /// Bytes stated.
        found: u64,
    },
    /// The header does not describe an array.
    #[error("the header of {place} should have {wanted} where it has `{found}`")]
    Header {
        /// Which array.
        place: Place,
        /// What should be there.
        wanted: &'static str,
        /// The text that is there, or its start.
        found: String,
    },
    /// The array is of Python objects.
    #[error(
        "{place} holds Python objects, not numbers; they are not read, because that would run code out of the file\nhint: save it again as numbers, for instance with `array.astype(\"float32\")`"
    )]
    Objects {
        /// Which array.
        place: Place,
    },
    /// The values are not numbers that can be read.
    #[error(
        "{place} holds values of type `{found}`; b1, i1 to i8, u1 to u8 and f2 to f8 can be read"
    )]
    Type {
        /// Which array.
        place: Place,
        /// NumPy's name of the type.
        found: String,
    },
    /// The shape is beyond the limit.
    #[error("{place} is of shape {shape:?}, which is more than {MAX_BYTES} bytes")]
    TooLarge {
        /// Which array.
        place: Place,
        /// The shape in the header.
        shape: Vec<usize>,
    },
    /// The file is shorter or longer than the shape says.
    #[error("{place} is of shape {shape:?}, so it should have {wanted} bytes, but it has {found}")]
    Length {
        /// Which array.
        place: Place,
        /// The shape in the header.
        shape: Vec<usize>,
        /// Bytes of header and numbers.
        wanted: u64,
        /// Bytes there.
        found: u64,
    },
    /// The archive cannot be used.
    #[error("could not read the archive `{}`: {source}", .path.display())]
    Zip {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: ZipError,
    },
    /// The unpacked bytes are not those that were packed.
    #[error("{place} does not fit its checksum\nhint: the file is damaged; fetch it again")]
    Checksum {
        /// Which array.
        place: Place,
    },
    /// The archive has no array of this name.
    #[error("`{}` has no array `{wanted}`, only {}", .path.display(), listed(.names))]
    NoSuchEntry {
        /// Which file.
        path: PathBuf,
        /// The name asked for.
        wanted: String,
        /// The names there are.
        names: Vec<String>,
    },
    /// The archive has not exactly one array, and none was named.
    #[error("`{}` should have one array, but has {}\nhint: say which one", .path.display(), listed(.names))]
    WhichEntry {
        /// Which file.
        path: PathBuf,
        /// The names there are.
        names: Vec<String>,
    },
    /// An entry was asked of a file that is one array.
    #[error("`{}` is one array, so there is no array `{entry}` in it", .path.display())]
    NotAnArchive {
        /// Which file.
        path: PathBuf,
        /// The name asked for.
        entry: String,
    },
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => quoted(names),
    }
}

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
pub fn read(path: &Path, entry: Option<&str>) -> Result<Array, NpyError> {
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
pub fn read_precise(path: &Path, entry: Option<&str>) -> Result<Precise, NpyError> {
    open(path, entry, |source| source.read_precise())
}

/// Reads an array as [`read`] does, which may also be of texts: types `U` and `S`.
///
/// What is not UTF-8 in texts of type `S`, and no character in those of type `U`, becomes `�`.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method itself is of one lifetime only"
)]
pub fn read_content(path: &Path, entry: Option<&str>) -> Result<Content, NpyError> {
    open(path, entry, |source| source.read_content())
}

fn open<T>(
    path: &Path,
    entry: Option<&str>,
    read: impl FnOnce(Source<&mut dyn Read>) -> Result<T, NpyError>,
) -> Result<T, NpyError> {
    let place = Place {
        path: path.to_owned(),
        entry: None,
    };
    let failed = |source| NpyError::Read {
        place: place.clone(),
        source,
    };
    let mut file = plain_file::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut start = Vec::new();
    let mut first = file.by_ref().take(2);
    first.read_to_end(&mut start).map_err(failed)?;
    file.rewind().map_err(failed)?;
    match entry {
        _ if start == b"PK" => read_archive(file, path, entry, read),
        None => read(Source::new(&mut BufReader::new(file), length, place)),
        Some(entry) => Err(NpyError::NotAnArchive {
            path: path.to_owned(),
            entry: entry.to_owned(),
        }),
    }
}

fn read_archive<T>(
    file: impl Read + io::Seek + 'static,
    path: &Path,
    entry: Option<&str>,
    read: impl FnOnce(Source<&mut dyn Read>) -> Result<T, NpyError>,
) -> Result<T, NpyError> {
    let failed = |source| NpyError::Zip {
        path: path.to_owned(),
        source,
    };
    let archive = Archive::open(file).map_err(failed)?;
    let entry = choose(&archive.entries, path, entry)?;
    let place = Place {
        path: path.to_owned(),
        entry: Some(array_name(&entry).unwrap_or(&entry.name).to_owned()),
    };
    let mut unpacked = CrcReader::new(archive.read(&entry).map_err(failed)?);
    let made = read(Source::new(&mut unpacked, entry.size, place.clone()))?;
    if unpacked.crc().sum() != entry.crc {
        return Err(NpyError::Checksum { place });
    }
    Ok(made)
}

/// The name of an array is its entry's without `.npy`; other entries are not arrays.
fn array_name(entry: &Entry) -> Option<&str> {
    entry.name.strip_suffix(".npy")
}

fn choose(entries: &[Entry], path: &Path, wanted: Option<&str>) -> Result<Entry, NpyError> {
    let path = path.to_owned();
    let arrays = || entries.iter().filter(|entry| array_name(entry).is_some());
    let names = || arrays().filter_map(array_name).map(str::to_owned).collect();
    let Some(wanted) = wanted else {
        let mut arrays = arrays();
        return match (arrays.next(), arrays.next()) {
            (Some(only), None) => Ok(only.clone()),
            _ => Err(NpyError::WhichEntry {
                path,
                names: names(),
            }),
        };
    };
    let found = arrays().find(|entry| entry.name == wanted || array_name(entry) == Some(wanted));
    found.cloned().ok_or_else(|| NpyError::NoSuchEntry {
        path,
        wanted: wanted.to_owned(),
        names: names(),
    })
}

/// An array about to be read.
struct Source<R> {
    reader: R,
    /// Bytes that there are, or that there should be in a sound archive.
    length: u64,
    place: Place,
}

impl<R: Read> Source<R> {
    fn new(reader: R, length: u64, place: Place) -> Self {
        Self {
            reader,
            length,
            place,
        }
    }

    fn read(mut self) -> Result<Array, NpyError> {
        let (header, header_bytes) = self.parsed_header()?;
        self.numbers(header, header_bytes)
    }

    fn read_precise(mut self) -> Result<Precise, NpyError> {
        let (header, header_bytes) = self.parsed_header()?;
        let number = self.number_type(&header.descr)?;
        if !number.is_wide() {
            return self.numbers(header, header_bytes).map(Precise::Single);
        }
        let count = self.check_length(&header.shape, number.size(), header_bytes)?;
        let values = number.read_doubles(&mut self.reader, count);
        let values = values.map_err(|source| NpyError::Read {
            place: self.place,
            source,
        })?;
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

    fn read_content(mut self) -> Result<Content, NpyError> {
        let (header, header_bytes) = self.parsed_header()?;
        match Text::parse(&header.descr) {
            Some(text) => self.texts(&header, header_bytes, text).map(Content::Texts),
            None => self.numbers(header, header_bytes).map(Content::Numbers),
        }
    }

    /// What the header says, and the bytes up to its end.
    fn parsed_header(&mut self) -> Result<(Header, u64), NpyError> {
        let (text, header_bytes) = self.header()?;
        let header = Header::parse(&text).map_err(|unclear| NpyError::Header {
            place: self.place.clone(),
            wanted: unclear.wanted,
            found: unclear.found,
        })?;
        Ok((header, header_bytes))
    }

    fn texts(
        mut self,
        header: &Header,
        header_bytes: u64,
        text: Text,
    ) -> Result<Vec<String>, NpyError> {
        let count = self.check_length(&header.shape, text.size() as u64, header_bytes)?;
        if count > MAX_TEXTS {
            return Err(NpyError::TooLarge {
                place: self.place.clone(),
                shape: header.shape.clone(),
            });
        }
        let mut texts = Vec::with_capacity(count);
        let mut bytes = vec![0; text.size()];
        for _ in 0..count {
            let read = self.reader.read_exact(&mut bytes);
            read.map_err(|source| NpyError::Read {
                place: self.place.clone(),
                source,
            })?;
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

    fn numbers(mut self, header: Header, header_bytes: u64) -> Result<Array, NpyError> {
        let number = self.number_type(&header.descr)?;
        let count = self.check_length(&header.shape, number.size(), header_bytes)?;
        let values = number.read(&mut self.reader, count);
        let values = values.map_err(|source| NpyError::Read {
            place: self.place,
            source,
        })?;
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
    fn header(&mut self) -> Result<(String, u64), NpyError> {
        let start = self.up_to(MAGIC.len() as u64 + 2)?;
        let Some(&[version, _minor]) = start.strip_prefix(MAGIC) else {
            return Err(NpyError::NotNumpy {
                place: self.place.clone(),
                found: start,
            });
        };
        let width = match version {
            1 => 2,
            2 | 3 => 4,
            _ => {
                let place = self.place.clone();
                return Err(NpyError::Version { place, version });
            }
        };
        let length = self.up_to(width)?;
        let stated = length
            .iter()
            .rev()
            .fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        if stated > MAX_HEADER {
            return Err(NpyError::HeaderTooLarge {
                place: self.place.clone(),
                found: stated,
            });
        }
        // Versions 1 and 2 are Latin-1, which differs in names of fields only; those are refused.
        let text = String::from_utf8_lossy(&self.up_to(stated)?).into_owned();
        Ok((text, MAGIC.len() as u64 + 2 + width + stated))
    }

    fn number_type(&self, descr: &str) -> Result<Number, NpyError> {
        let place = self.place.clone();
        if descr.contains("|O") {
            return Err(NpyError::Objects { place });
        }
        Number::parse(descr).ok_or_else(|| NpyError::Type {
            place,
            found: descr.to_owned(),
        })
    }

    /// How many numbers the shape promises, which has to fit the bytes there are.
    fn check_length(&self, shape: &[usize], size: u64, header: u64) -> Result<usize, NpyError> {
        let (place, shape) = (self.place.clone(), shape.to_vec());
        let count = if shape.contains(&0) {
            Some(0)
        } else {
            let mut sides = shape.iter();
            sides.try_fold(1, |product: u64, &side| product.checked_mul(side as u64))
        };
        let bytes = count.and_then(|count| count.checked_mul(size));
        match (count, bytes.filter(|&bytes| bytes <= MAX_BYTES)) {
            (Some(count), Some(bytes)) if header + bytes == self.length => Ok(count as usize),
            (_, Some(bytes)) => Err(NpyError::Length {
                place,
                shape,
                wanted: header + bytes,
                found: self.length,
            }),
            _ => Err(NpyError::TooLarge { place, shape }),
        }
    }

    /// The next `limit` bytes, or fewer at the end; memory grows with what is there.
    fn up_to(&mut self, limit: u64) -> Result<Vec<u8>, NpyError> {
        let mut bytes = Vec::new();
        let mut limited = self.reader.by_ref().take(limit);
        match limited.read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(source) => Err(NpyError::Read {
                place: self.place.clone(),
                source,
            }),
        }
    }
}

/// What a header says.
#[derive(Debug, Clone, PartialEq)]
struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

/// Where a header is not as it should be.
#[derive(Debug, PartialEq)]
struct Unclear {
    wanted: &'static str,
    found: String,
}

impl Header {
    fn parse(text: &str) -> Result<Self, Unclear> {
        let mut text = Literal(text.trim());
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        text.expect("{")?;
        while !text.eat("}") {
            let key = text.string()?;
            text.expect(":")?;
            match key {
                "descr" => descr = Some(text.descr()?.to_owned()),
                "fortran_order" => fortran_order = Some(text.truth()?),
                "shape" => shape = Some(text.sizes()?),
                _ => return Err(Literal(key).unclear("only descr, fortran_order and shape")),
            }
            if !text.eat(",") && !text.0.starts_with('}') {
                return Err(text.unclear("`,` or `}`"));
            }
        }
        if !text.0.is_empty() {
            return Err(text.unclear("its end"));
        }
        Ok(Self {
            descr: descr.ok_or_else(|| text.unclear("descr"))?,
            fortran_order: fortran_order.ok_or_else(|| text.unclear("fortran_order"))?,
            shape: shape.ok_or_else(|| text.unclear("shape"))?,
        })
    }
}

/// The rest of a Python literal, without space before it.
struct Literal<'a>(&'a str);

impl<'a> Literal<'a> {
    fn unclear(&self, wanted: &'static str) -> Unclear {
        Unclear {
            wanted,
            found: self.0.chars().take(40).collect(),
        }
    }

    fn eat(&mut self, token: &str) -> bool {
        let rest = self.0.strip_prefix(token);
        self.0 = rest.map_or(self.0, str::trim_start);
        rest.is_some()
    }

    fn expect(&mut self, token: &'static str) -> Result<(), Unclear> {
        if self.eat(token) {
            return Ok(());
        }
        Err(self.unclear(token))
    }

    /// Text in quotes of either kind; NumPy writes nothing that needs escapes.
    fn string(&mut self) -> Result<&'a str, Unclear> {
        let inside = |quote| self.0.strip_prefix(quote)?.split_once(quote);
        let Some((text, rest)) = inside('\'').or_else(|| inside('"')) else {
            return Err(self.unclear("text in quotes"));
        };
        self.0 = rest.trim_start();
        Ok(text)
    }

    /// A type's name, or, for a type of several fields, all that follows.
    fn descr(&mut self) -> Result<&'a str, Unclear> {
        if !self.0.starts_with('[') {
            return self.string();
        }
        let end = self.0.rfind(']').map_or(self.0.len(), |last| last + 1);
        let (fields, rest) = self.0.split_at(end);
        self.0 = rest.trim_start();
        Ok(fields)
    }

    fn truth(&mut self) -> Result<bool, Unclear> {
        if self.eat("True") {
            return Ok(true);
        }
        if self.eat("False") {
            return Ok(false);
        }
        Err(self.unclear("True or False"))
    }

    /// Whole numbers in parentheses; one of Python 2 may end in `L`.
    fn sizes(&mut self) -> Result<Vec<usize>, Unclear> {
        self.expect("(")?;
        let mut sizes = Vec::new();
        while !self.eat(")") {
            let digits = self.0.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = self.0.split_at(digits);
            let number = number.parse();
            sizes.push(number.map_err(|_| self.unclear("a size"))?);
            self.0 = rest.trim_start();
            self.eat("L");
            if !self.eat(",") && !self.0.starts_with(')') {
                return Err(self.unclear("`,` or `)`"));
            }
        }
        Ok(sizes)
    }
}

/// The type of an array's texts; all have the same length, filled up with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Text {
    length: usize,
    /// Type `U`: characters of four bytes. Otherwise type `S`, bytes.
    wide: bool,
    big_endian: bool,
}

/// Longest text; names of files are far below.
const MAX_TEXT: usize = 1 << 16;

/// Most texts of an array: each takes far more memory than it may have bytes.
const MAX_TEXTS: usize = 1 << 26;

impl Text {
    fn parse(descr: &str) -> Option<Self> {
        let (order, rest) = descr.split_at_checked(1)?;
        let (kind, length) = rest.split_at_checked(1)?;
        let length = length.parse().ok()?;
        let known = matches!(order, "<" | ">" | "|" | "=") && matches!(kind, "U" | "S");
        // Texts of no length would take no bytes, so any number of them could be promised.
        (known && (1..=MAX_TEXT).contains(&length)).then_some(Self {
            length,
            wide: kind == "U",
            big_endian: order == ">",
        })
    }

    /// Bytes of one text.
    fn size(self) -> usize {
        if self.wide {
            4 * self.length
        } else {
            self.length
        }
    }

    fn decode(self, bytes: &[u8]) -> String {
        if !self.wide {
            let end = bytes.iter().rposition(|&byte| byte != 0);
            return String::from_utf8_lossy(&bytes[..end.map_or(0, |end| end + 1)]).into_owned();
        }
        let (words, _) = bytes.as_chunks();
        let number = |&word: &[u8; 4]| {
            if self.big_endian {
                u32::from_be_bytes(word)
            } else {
                u32::from_le_bytes(word)
            }
        };
        let characters = words.iter().map(number);
        let characters =
            characters.map(|number| char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER));
        let text: String = characters.collect();
        text.trim_end_matches('\0').to_owned()
    }
}

/// The type of an array's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number {
    kind: Kind,
    big_endian: bool,
}

/// A type of numbers, with NumPy's name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Byte,
    I1,
    I2,
    I4,
    I8,
    U2,
    U4,
    U8,
    F2,
    F4,
    F8,
}

impl Number {
    fn parse(descr: &str) -> Option<Self> {
        let order = descr.chars().next()?;
        if !"<>|=".contains(order) {
            return None;
        }
        let kind = match &descr[1..] {
            "u1" | "b1" => Kind::Byte,
            "i1" => Kind::I1,
            "i2" => Kind::I2,
            "i4" => Kind::I4,
            "i8" => Kind::I8,
            "u2" => Kind::U2,
            "u4" => Kind::U4,
            "u8" => Kind::U8,
            "f2" => Kind::F2,
            "f4" => Kind::F4,
            "f8" => Kind::F8,
            _ => return None,
        };
        Some(Self {
            kind,
            big_endian: order == '>',
        })
    }

    /// Bytes of one number.
    fn size(self) -> u64 {
        match self.kind {
            Kind::Byte | Kind::I1 => 1,
            Kind::I2 | Kind::U2 | Kind::F2 => 2,
            Kind::I4 | Kind::U4 | Kind::F4 => 4,
            Kind::I8 | Kind::U8 | Kind::F8 => 8,
        }
    }

    /// Whether 32 bits may not hold its numbers.
    fn is_wide(self) -> bool {
        matches!(
            self.kind,
            Kind::I4 | Kind::I8 | Kind::U4 | Kind::U8 | Kind::F8
        )
    }

    /// Numbers of a wide type.
    fn read_doubles(self, reader: &mut impl Read, count: usize) -> io::Result<Vec<f64>> {
        let big_endian = self.big_endian;
        match self.kind {
            Kind::I4 => floats(reader, count, big_endian, |b| i32::from_le_bytes(b).into()),
            Kind::I8 => floats(reader, count, big_endian, |b| i64::from_le_bytes(b) as f64),
            Kind::U4 => floats(reader, count, big_endian, |b| u32::from_le_bytes(b).into()),
            Kind::U8 => floats(reader, count, big_endian, |b| u64::from_le_bytes(b) as f64),
            Kind::F8 => floats(reader, count, big_endian, f64::from_le_bytes),
            _ => unreachable!("other types fit into 32 bits"),
        }
    }

    fn read(self, reader: &mut impl Read, count: usize) -> io::Result<Values> {
        let big_endian = self.big_endian;
        Ok(Values::F32(match self.kind {
            Kind::Byte => {
                let mut bytes = vec![0; count];
                reader.read_exact(&mut bytes)?;
                return Ok(Values::U8(bytes));
            }
            Kind::I1 => floats(reader, count, big_endian, |b| i8::from_le_bytes(b).into())?,
            Kind::I2 => floats(reader, count, big_endian, |b| i16::from_le_bytes(b).into())?,
            Kind::I4 => floats(reader, count, big_endian, |b| i32::from_le_bytes(b) as f32)?,
            Kind::I8 => floats(reader, count, big_endian, |b| i64::from_le_bytes(b) as f32)?,
            Kind::U2 => floats(reader, count, big_endian, |b| u16::from_le_bytes(b).into())?,
            Kind::U4 => floats(reader, count, big_endian, |b| u32::from_le_bytes(b) as f32)?,
            Kind::U8 => floats(reader, count, big_endian, |b| u64::from_le_bytes(b) as f32)?,
            Kind::F2 => floats(reader, count, big_endian, |b| half(u16::from_le_bytes(b)))?,
            Kind::F4 => floats(reader, count, big_endian, f32::from_le_bytes)?,
            Kind::F8 => floats(reader, count, big_endian, |b| f64::from_le_bytes(b) as f32)?,
        }))
    }
}

/// Numbers of N bytes each; `convert` is given the least significant byte first.
fn floats<const N: usize, T>(
    reader: &mut impl Read,
    count: usize,
    big_endian: bool,
    convert: impl Fn([u8; N]) -> T,
) -> io::Result<Vec<T>> {
    let mut values = Vec::with_capacity(count);
    let mut buffer = vec![[0; N]; count.min(CHUNK)];
    while values.len() < count {
        let numbers = &mut buffer[..(count - values.len()).min(CHUNK)];
        reader.read_exact(numbers.as_flattened_mut())?;
        if big_endian {
            for number in numbers.iter_mut() {
                number.reverse();
            }
        }
        values.extend(numbers.iter().map(|&number| convert(number)));
    }
    Ok(values)
}

/// A number of 16 bits: sign, 5 bits of exponent, 10 bits of fraction.
fn half(bits: u16) -> f32 {
    const SMALLEST: f32 = 1.0 / (1 << 24) as f32;
    let [sign, exponent, fraction] = [bits >> 15, bits >> 10 & 0x1f, bits & 0x3ff].map(u32::from);
    let magnitude = match exponent {
        0 => fraction as f32 * SMALLEST,
        31 => f32::from_bits(0xff << 23 | fraction << 13),
        // The exponents are biased by 15 and by 127.
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    if sign == 1 { -magnitude } else { magnitude }
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
