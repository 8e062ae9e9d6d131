//! Thrift's compact protocol, in which Parquet writes its footers and page headers.
//!
//! Whatever the bytes are, reading them ends: depth has a limit, and every value takes at least
//! one byte, so that time and memory are bounded by the length of the input.

/// Deepest nesting that is read; Parquet needs about six levels.
const MAX_DEPTH: u8 = 16;

/// One value.
#[derive(Debug)]
pub(super) enum Thrift {
    Integer(i64),
    Text(Vec<u8>),
    List(Vec<Thrift>),
    Struct(Vec<(i16, Thrift)>),
    /// Booleans and floating-point numbers, of which none matters here.
    Other,
}

impl Thrift {
    /// Reads a struct from the front of `bytes`; returns it with its length.
    pub(super) fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut rest = Rest(bytes);
        let value = rest.structure(MAX_DEPTH)?;
        Some((value, bytes.len() - rest.0.len()))
    }

    /// The field with this number, where the value is a struct that has it.
    pub(super) fn field(&self, number: i16) -> Option<&Self> {
        let Self::Struct(fields) = self else {
            return None;
        };
        let found = fields.iter().find(|(other, _)| *other == number);
        found.map(|(_, value)| value)
    }

    /// The field with this number, where it is an integer.
    pub(super) fn integer(&self, number: i16) -> Option<i64> {
        match self.field(number)? {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The field with this number, where it is a text.
    pub(super) fn text(&self, number: i16) -> Option<&[u8]> {
        match self.field(number)? {
            Self::Text(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The field with this number, where it is a list.
    pub(super) fn list(&self, number: i16) -> Option<&[Self]> {
        match self.field(number)? {
            Self::List(values) => Some(values),
            _ => None,
        }
    }
}

/// What is left to read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
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

    /// A signed number, stored as `0, -1, 1, -2, …`.
    fn signed(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn value(&mut self, kind: u8, depth: u8) -> Option<Thrift> {
        let depth = depth.checked_sub(1)?;
        Some(match kind {
            // In a struct the kind is all there is of a boolean.
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
    use super::*;
    use crate::bank::tests::Noise;

    #[test]
    fn noise_is_no_thrift() {
        let mut noise = Noise(2);
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..noise.below(64))
                .map(|_| noise.below(256) as u8)
                .collect();
            Thrift::parse(&bytes);
        }
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |depth| [vec![0x1c; depth], vec![0; depth + 1]].concat();
        assert_eq!(Thrift::parse(&nested(16)).unwrap().1, 33);
        assert!(Thrift::parse(&nested(17)).is_none());
    }

    #[test]
    fn a_list_cannot_be_longer_than_the_bytes() {
        // A list that says it holds 2^63 booleans.
        let mut list = vec![0x19, 0xf1];
        list.extend([0x80; 9]);
        list.push(1);
        assert!(Thrift::parse(&list).is_none());
    }

    #[test]
    fn the_length_ends_with_the_struct() {
        // Field 1 is an integer, 3; the last byte belongs to something else.
        let (value, length) = Thrift::parse(&[0x15, 6, 0, 9]).unwrap();
        assert_eq!((value.integer(1), length), (Some(3), 3));
    }
}
