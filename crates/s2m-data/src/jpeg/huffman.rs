//! Huffman codes (annex C).
//!
//! Codes of the same length are consecutive numbers, and a longer code follows the shorter ones. So
//! with zeros put behind every code to make 16 bits, all codes are in order.

/// Codes up to this length are looked up at once.
const SHORT: u32 = 9;

/// What a file's code means.
#[derive(Debug, Clone)]
pub(super) struct Huffman {
    /// By the next bits: the symbol and the length of its code, 0 where it is longer.
    short: [(u8, u8); 1 << SHORT],
    /// For each length, the first 16 bits behind all its codes.
    ends: [u32; 16],
    /// For each length, the place of its first symbol less its first code.
    offsets: [i32; 16],
    symbols: Vec<u8>,
}

impl Huffman {
    /// The code with `counts[n]` symbols of `n + 1` bits; `None` where there are not so many codes.
    pub(super) fn new(counts: [u8; 16], symbols: &[u8]) -> Option<Self> {
        let mut huffman = Self {
            short: [(0, 0); 1 << SHORT],
            ends: [0; 16],
            offsets: [0; 16],
            symbols: symbols.to_vec(),
        };
        let (mut code, mut place) = (0u32, 0usize);
        for (length, count) in (1..=16u32).zip(counts) {
            let at = length as usize - 1;
            huffman.offsets[at] = place as i32 - code as i32;
            for _ in 0..count {
                let symbol = *symbols.get(place)?;
                if code >> length != 0 {
                    return None;
                }
                if length <= SHORT {
                    let first = (code << (SHORT - length)) as usize;
                    let all = &mut huffman.short[first..first + (1 << (SHORT - length))];
                    all.fill((symbol, length as u8));
                }
                code += 1;
                place += 1;
            }
            huffman.ends[at] = code << (16 - length);
            code <<= 1;
        }
        (place == symbols.len()).then_some(huffman)
    }

    /// The symbol that these bits start with, and the length of its code.
    #[inline]
    pub(super) fn symbol(&self, bits: u16) -> Option<(u8, u8)> {
        let (symbol, length) = self.short[(bits >> (16 - SHORT)) as usize];
        if length > 0 {
            return Some((symbol, length));
        }
        self.long(bits)
    }

    #[cold]
    fn long(&self, bits: u16) -> Option<(u8, u8)> {
        let longer = self.ends.iter().skip(SHORT as usize);
        let at = SHORT as usize + longer.take_while(|&&end| u32::from(bits) >= end).count();
        let offset = self.offsets.get(at)?;
        let code = i32::from(bits >> (15 - at));
        let symbol = self.symbols.get(usize::try_from(offset + code).ok()?)?;
        Some((*symbol, at as u8 + 1))
    }

    /// Whether every symbol fits.
    pub(super) fn all(&self, fits: impl Fn(u8) -> bool) -> bool {
        self.symbols.iter().all(|&symbol| fits(symbol))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(usize, u8)]) -> [u8; 16] {
        let mut counts = [0; 16];
        for &(length, count) in pairs {
            counts[length - 1] = count;
        }
        counts
    }

    #[test]
    fn codes_are_as_on_paper() {
        // 00, 01, 100, 1010, 1011 00000000, 1011 00000001 0000
        let code = counts(&[(2, 2), (3, 1), (4, 1), (12, 1), (16, 1)]);
        let code = Huffman::new(code, &[5, 6, 7, 8, 9, 10]).unwrap();
        let cases = [
            (0b0011_1111_1111_1111, Some((5, 2))),
            (0b0100_0000_0000_0000, Some((6, 2))),
            (0b1001_0000_0000_0000, Some((7, 3))),
            (0b1010_1111_1111_1111, Some((8, 4))),
            (0b1011_0000_0000_1111, Some((9, 12))),
            (0b1011_0000_0001_0000, Some((10, 16))),
            (0b1011_0000_0001_0001, None),
            (0b1111_1111_1111_1111, None),
        ];
        for (bits, wanted) in cases {
            assert_eq!(code.symbol(bits), wanted, "{bits:016b}");
        }
    }

    /// With all codes taken, all bits mean something.
    #[test]
    fn a_full_code_knows_all_bits() {
        let mut full = [1; 16];
        full[15] = 2;
        let symbols: Vec<u8> = (0..17).collect();
        let code = Huffman::new(full, &symbols).unwrap();
        for bits in 0..=u16::MAX {
            let ones = bits.leading_ones() as u8;
            assert_eq!(code.symbol(bits), Some((ones, (ones + 1).min(16))));
        }
    }

    #[test]
    fn more_codes_than_there_are_is_an_error() {
        assert!(Huffman::new(counts(&[(1, 2)]), &[1, 2]).is_some());
        assert!(Huffman::new(counts(&[(1, 3)]), &[1, 2, 3]).is_none());
        assert!(Huffman::new(counts(&[(1, 2), (16, 1)]), &[1, 2, 3]).is_none());
        assert!(Huffman::new(counts(&[(1, 2)]), &[1]).is_none());
        assert!(Huffman::new(counts(&[(1, 2)]), &[1, 2, 3]).is_none());
        let none = Huffman::new([0; 16], &[]).unwrap();
        assert_eq!(none.symbol(0), None);
    }
}
