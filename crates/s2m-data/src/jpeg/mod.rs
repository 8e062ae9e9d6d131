//! Plain JPEG files, fast: the kind that cameras, programs and data sets write nearly always.
//!
//! Plain is baseline (8 bits, Huffman codes), grey or YCbCr, all components in one scan, and colour at
//! full, half or quarter resolution. Pixels are those of libjpeg with its default settings, to the bit.
//! Every other kind of file, and every file with anything odd about it, gives `None`: the caller then
//! asks a decoder that knows all kinds, and that says what is wrong. So nothing here explains a failure,
//! and a file is taken only if its data end where its picture ends.
//!
//! Files come from anywhere: nothing is reserved before [`Plain::pixels`] is called, so that the caller
//! can refuse a size first.
//!
//! Reference: ITU-T Recommendation T.81 (JPEG); sections and tables below are of it.

mod bits;
mod colour;
mod header;
mod huffman;
mod transform;

use bits::Bits;
use colour::Plane;
use huffman::Huffman;
use transform::Block;

pub(crate) use header::Plain;

/// Side of a block, in samples.
const BLOCK: usize = 8;

/// Where the coefficients of a block lie in rows, in the order of the file (figure A.6).
const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// One component of the picture: brightness, or one of two colours.
#[derive(Debug)]
struct Component {
    /// Blocks per unit of the scan, across and down.
    across: usize,
    down: usize,
    /// Steps of the coefficients, in the order of the file.
    steps: [u16; 64],
    dc: Huffman,
    ac: Huffman,
}

impl Plain<'_> {
    /// The pixels, row by row from the top, one number each or three.
    pub(crate) fn pixels(&self) -> Option<Vec<u8>> {
        let size = [self.width, self.height];
        match &self.planes()?[..] {
            [grey] => Some(grey.cut(size)),
            [brightness, blue, red] => {
                Some(colour::to_rgb([brightness, blue, red], self.chroma, size))
            }
            _ => None,
        }
    }

    /// Decodes the scan, unit by unit (section A.2.3).
    fn planes(&self) -> Option<Vec<Plane>> {
        let first = &self.components[0];
        let units = [
            self.width.div_ceil(BLOCK * first.across),
            self.height.div_ceil(BLOCK * first.down),
        ];
        let plane = |part: &Component| {
            let [width, height] = [units[0] * part.across, units[1] * part.down];
            Plane::new(width * BLOCK, height * BLOCK)
        };
        let mut planes: Vec<_> = self.components.iter().map(plane).collect();
        let mut before = [0; 3];
        let mut bits = Bits::new(self.scan);
        for unit in 0..units[0] * units[1] {
            if self.restart > 0 && unit > 0 && unit % self.restart == 0 {
                bits.restart(unit / self.restart - 1)?;
                before = [0; 3];
            }
            let (x, y) = (unit % units[0], unit / units[0]);
            let parts = self.components.iter().zip(&mut planes).zip(&mut before);
            for ((part, plane), before) in parts {
                for block in 0..part.across * part.down {
                    let left = x * part.across + block % part.across;
                    let top = y * part.down + block / part.across;
                    let samples = part.block(&mut bits, before)?;
                    plane.put(left * BLOCK, top * BLOCK, &samples);
                }
            }
        }
        bits.is_at_end_of_picture().then_some(planes)
    }
}

impl Component {
    /// Decodes a block (section F.2.2); `before` is the first coefficient of the one before.
    fn block(&self, bits: &mut Bits, before: &mut i16) -> Option<Block<u8>> {
        let mut block = [0; 64];
        let size = bits.symbol(&self.dc)?;
        *before = before.wrapping_add(bits.number(size));
        block[0] = before.wrapping_mul(self.steps[0] as i16);
        let mut place = 1;
        while place < 64 {
            let symbol = bits.symbol(&self.ac)?;
            let (zeros, size) = (symbol >> 4, symbol & 15);
            match (zeros, size) {
                (0, 0) => break,
                (1..15, 0) => return None,
                _ => place += zeros as usize,
            }
            let number = bits.number(size); // 0 where there were 16 zeros
            let step = *self.steps.get(place)?;
            block[ZIGZAG[place] as usize] = number.wrapping_mul(step as i16);
            place += 1;
        }
        if bits.ran_out() {
            return None;
        }
        Some(if place == 1 {
            transform::flat(block[0])
        } else {
            transform::inverse(&block)
        })
    }
}

#[cfg(test)]
mod tests;
