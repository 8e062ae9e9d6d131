//! Bits of a scan, up to the next marker (section F.2.2.5).
//!
//! A byte of ones is followed by a zero byte, which does not count; followed by anything else it is a
//! marker, and there the bits end. Behind the end zeros may be taken: [`Bits::ran_out`] tells.

use super::huffman::Huffman;

const MARKER: u8 = 0xff;
const FIRST_RESTART: u8 = 0xd0;
const END_OF_PICTURE: u8 = 0xd9;

pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// The next byte of the file.
    at: usize,
    /// The next bits, from the highest on, and zeros.
    window: u64,
    /// How many bits of the window are of the file; negative where more were taken.
    count: i32,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            window: 0,
            count: 0,
        }
    }

    /// The next symbol of a code; afterwards there are bits for one number.
    #[expect(clippy::inline_always, reason = "pictures take a tenth longer without")]
    #[inline(always)]
    pub(super) fn symbol(&mut self, code: &Huffman) -> Option<u8> {
        self.fill();
        let (symbol, length) = code.symbol((self.window >> 48) as u16)?;
        self.skip(length);
        Some(symbol)
    }

    /// The next number of `size` bits, at most 15; those that start with a 0 are negative (figure F.12).
    #[inline]
    pub(super) fn number(&mut self, size: u8) -> i16 {
        // All of the last `size` of 16 bits, and the first of them.
        let ones = !(u16::MAX << (size & 15));
        let bits = (self.window >> 32 >> (32 - u32::from(size & 31))) as u16 & ones;
        let negative = self.window >> 63 == 0;
        self.skip(size);
        let offset = if negative { ones } else { 0 };
        bits.wrapping_sub(offset) as i16
    }

    /// Whether more bits were taken than there are.
    pub(super) fn ran_out(&self) -> bool {
        self.count < 0
    }

    /// Goes over a restart marker; `number` counts them from the start of the scan.
    pub(super) fn restart(&mut self, number: usize) -> Option<()> {
        if !self.is_at(FIRST_RESTART + (number % 8) as u8) {
            return None;
        }
        *self = Self {
            at: self.at + 2,
            ..Self::new(self.bytes)
        };
        Some(())
    }

    /// Whether all bits are taken and the picture ends here.
    pub(super) fn is_at_end_of_picture(&mut self) -> bool {
        self.is_at(END_OF_PICTURE)
    }

    /// Whether all whole bytes are taken and this marker follows.
    fn is_at(&mut self, marker: u8) -> bool {
        self.fill();
        (0..8).contains(&self.count) && self.bytes[self.at..].starts_with(&[MARKER, marker])
    }

    #[inline]
    fn skip(&mut self, bits: u8) {
        self.window <<= bits & 31;
        self.count -= i32::from(bits);
    }

    /// Makes 32 bits ready, enough for a symbol and a number, or all up to the marker.
    #[inline]
    fn fill(&mut self) {
        if self.count >= 32 {
            return;
        }
        // Bits run out only before a marker or the end, where neither way below takes any.
        match self.bytes[self.at..].first_chunk() {
            Some(&next) if !has_marker(u32::from_be_bytes(next)) => {
                let next = u64::from(u32::from_be_bytes(next));
                self.window |= next << ((32 - self.count) & 63);
                self.count += 32;
                self.at += 4;
            }
            _ => self.fill_by_bytes(),
        }
    }

    #[cold]
    fn fill_by_bytes(&mut self) {
        while self.count <= 56 {
            let taken = match self.bytes[self.at..] {
                [MARKER, 0, ..] => 2,
                [] | [MARKER, ..] => return,
                _ => 1,
            };
            self.window |= u64::from(self.bytes[self.at]) << (56 - self.count);
            self.count += 8;
            self.at += taken;
        }
    }
}

/// Whether a byte of the word is all ones: one less than its inverse alone sets its highest bit anew.
fn has_marker(word: u32) -> bool {
    let inverse = !word;
    inverse.wrapping_sub(0x0101_0101) & word & 0x8080_8080 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One symbol, a 0.
    fn zero() -> Huffman {
        let mut counts = [0; 16];
        counts[0] = 1;
        Huffman::new(counts, &[0]).unwrap()
    }

    #[test]
    fn numbers_with_a_leading_zero_are_negative() {
        // Each number stands behind a 0: 0 1, 0 0, 0 101, 0 010, 0 and 15 ones, 0 and 15 zeros.
        let bytes = [0b0100_0101, 0b0010_0111, 0xff, 0, 0b1111_0000, 0, 0];
        let mut bits = Bits::new(&bytes);
        let sizes = [1, 1, 3, 3, 15, 15];
        let numbers = sizes.map(|size| {
            assert_eq!(bits.symbol(&zero()), Some(0));
            bits.number(size)
        });
        assert_eq!(numbers, [1, -1, 5, -5, 32_767, -32_767]);
        assert_eq!(bits.number(0), 0);
    }

    #[test]
    fn bits_end_at_a_marker() {
        for (end, at_end) in [
            (&[0xff, 0xd9][..], true),
            (&[0xff, 0xd0], false),
            (&[], false),
        ] {
            for count in 0..12 {
                let bytes = [&vec![0; count], end].concat();
                let mut bits = Bits::new(&bytes);
                for taken in 0..8 * count {
                    assert_eq!(bits.is_at_end_of_picture(), at_end && 8 * count - taken < 8);
                    assert_eq!(bits.symbol(&zero()), Some(0));
                    assert!(!bits.ran_out());
                }
                assert_eq!(bits.is_at_end_of_picture(), at_end);
                for _ in 0..1000 {
                    bits.symbol(&zero());
                    assert!(bits.ran_out());
                    assert!(!bits.is_at_end_of_picture());
                }
            }
        }
    }

    #[test]
    fn ones_are_found_wherever_they_are() {
        for word in [0, 0x0101_0101, 0x7f80_fefe, 0xfefe_fefe] {
            assert!(!has_marker(word));
            for byte in 0..4 {
                assert!(has_marker(word | 0xff << (8 * byte)));
            }
        }
    }
}
