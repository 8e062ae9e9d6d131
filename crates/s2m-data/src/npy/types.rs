//! Types of numbers and texts, and their bytes to values.

use std::io::{self, Read};

use super::Values;

/// Numbers that are converted at a time.
pub(super) const CHUNK: usize = 1 << 14;

/// The type of an array's texts; all have the same length, filled up with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Text {
    length: usize,
    /// Type `U`: characters of four bytes. Otherwise type `S`, bytes.
    wide: bool,
    big_endian: bool,
}

/// Longest text; names of files are far below.
const MAX_TEXT: usize = 1 << 16;

/// Most texts of an array: each takes far more memory than it may have bytes.
pub(super) const MAX_TEXTS: usize = 1 << 26;

impl Text {
    pub(super) fn parse(descr: &str) -> Option<Self> {
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
    pub(super) fn size(self) -> usize {
        if self.wide {
            4 * self.length
        } else {
            self.length
        }
    }

    pub(super) fn decode(self, bytes: &[u8]) -> String {
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
pub(super) struct Number {
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
    pub(super) fn parse(descr: &str) -> Option<Self> {
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
    pub(super) fn size(self) -> u64 {
        match self.kind {
            Kind::Byte | Kind::I1 => 1,
            Kind::I2 | Kind::U2 | Kind::F2 => 2,
            Kind::I4 | Kind::U4 | Kind::F4 => 4,
            Kind::I8 | Kind::U8 | Kind::F8 => 8,
        }
    }

    /// Whether 32 bits may not hold its numbers.
    pub(super) fn is_wide(self) -> bool {
        matches!(
            self.kind,
            Kind::I4 | Kind::I8 | Kind::U4 | Kind::U8 | Kind::F8
        )
    }

    /// Numbers of a wide type.
    pub(super) fn read_doubles(self, reader: &mut impl Read, count: usize) -> io::Result<Vec<f64>> {
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

    pub(super) fn read(self, reader: &mut impl Read, count: usize) -> io::Result<Values> {
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
pub(super) fn half(bits: u16) -> f32 {
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
