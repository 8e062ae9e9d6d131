//! Samples of a component, and how brightness and two colours become red, green and blue.
//!
//! Colours with fewer samples than pixels are stretched by a triangle: a pixel takes ¾ of the sample that
//! it lies in and ¼ of the next nearest, along each stretched side. The standard leaves this open; this
//! is what libjpeg does, with its rounding.
//!
//! Reference: ITU-T Recommendation T.871 (JFIF), section 7, for the colours.

use super::BLOCK;
use super::transform::Block;

/// The samples of one component, whole blocks of them.
#[derive(Debug)]
pub(super) struct Plane {
    width: usize,
    samples: Vec<u8>,
}

impl Plane {
    pub(super) fn new(width: usize, height: usize) -> Self {
        Self {
            width,
            samples: vec![0; width * height],
        }
    }

    /// Puts a block with its corner at this sample.
    #[inline]
    pub(super) fn put(&mut self, x: usize, y: usize, block: &Block<u8>) {
        let start = y * self.width + x;
        let rows = self.samples[start..].chunks_mut(self.width);
        for (to, from) in rows.zip(block) {
            to[..BLOCK].copy_from_slice(from);
        }
    }

    fn row(&self, y: usize) -> &[u8] {
        &self.samples[y * self.width..(y + 1) * self.width]
    }

    /// The samples inside a picture of this size.
    pub(super) fn cut(&self, [width, height]: [usize; 2]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(width * height);
        for y in 0..height {
            bytes.extend_from_slice(&self.row(y)[..width]);
        }
        bytes
    }
}

/// How many pixels share a sample of colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chroma {
    /// Each pixel has its own.
    Full,
    /// Two in a row.
    Half,
    /// Two in each of two rows.
    Quarter,
}

/// Samples in a row that are worth a triangle, as libjpeg has it; fewer are repeated.
const FEWEST: usize = 3;

/// Pixels of brightness, blue and red to interleaved red, green and blue.
pub(super) fn to_rgb(planes: [&Plane; 3], chroma: Chroma, [width, height]: [usize; 2]) -> Vec<u8> {
    let mut bytes = vec![0; 3 * width * height];
    let [brightness, colours @ ..] = planes;
    let mut stretched = colours.map(|_| Stretched::new(chroma, [width, height]));
    for (y, row) in bytes.chunks_exact_mut(3 * width).enumerate() {
        let [first, second] = &mut stretched;
        let colours = [first.row(colours[0], y), second.row(colours[1], y)];
        mix(brightness.row(y), colours, row);
    }
    bytes
}

/// A component brought to the size of the picture, a row at a time.
struct Stretched {
    chroma: Chroma,
    /// Samples across and down that are of the picture.
    size: [usize; 2],
    /// Samples, or weighted sums of two rows of them, with the first and the last one twice.
    sums: Vec<u16>,
    row: Vec<u8>,
}

impl Stretched {
    fn new(chroma: Chroma, [width, height]: [usize; 2]) -> Self {
        let size = match chroma {
            Chroma::Full => [width, height],
            Chroma::Half => [width.div_ceil(2), height],
            Chroma::Quarter => [width.div_ceil(2), height.div_ceil(2)],
        };
        Self {
            chroma,
            size,
            sums: vec![0; size[0] + 2],
            row: vec![0; 2 * size[0]],
        }
    }

    /// Row `y` of the picture, and perhaps some samples more.
    fn row<'a>(&'a mut self, plane: &'a Plane, y: usize) -> &'a [u8] {
        let [width, height] = self.size;
        let (sums, out) = (&mut self.sums[..], &mut self.row[..]);
        match self.chroma {
            Chroma::Full => return plane.row(y),
            Chroma::Half if width < FEWEST => repeat(plane.row(y), out),
            Chroma::Quarter if width < FEWEST => repeat(plane.row(y / 2), out),
            Chroma::Half => {
                for (sum, &sample) in sums[1..].iter_mut().zip(&plane.row(y)[..width]) {
                    *sum = sample.into();
                }
                double::<2>(sums, [1, 2], out);
            }
            Chroma::Quarter => {
                let near = y / 2;
                let far = if y.is_multiple_of(2) {
                    near.saturating_sub(1)
                } else {
                    (near + 1).min(height - 1)
                };
                let rows = plane.row(near).iter().zip(plane.row(far));
                for (sum, (&near, &far)) in sums[1..=width].iter_mut().zip(rows) {
                    *sum = 3 * u16::from(near) + u16::from(far);
                }
                double::<4>(sums, [8, 7], out);
            }
        }
        out
    }
}

/// Makes two pixels of every sample.
fn repeat(samples: &[u8], out: &mut [u8]) {
    let (pairs, _) = out.as_chunks_mut();
    for (pair, &sample) in pairs.iter_mut().zip(samples) {
        *pair = [sample; 2];
    }
}

/// Makes two pixels of every sum, in units of two to the power of `SHIFT`, with what is added to round.
fn double<const SHIFT: u32>(sums: &mut [u16], [left, right]: [u16; 2], out: &mut [u8]) {
    let last = sums.len() - 1;
    sums[0] = sums[1];
    sums[last] = sums[last - 1];
    let three = sums.iter().zip(&sums[1..]).zip(&sums[2..]);
    let (pairs, _) = out.as_chunks_mut();
    for (pair, ((&before, &sum), &after)) in pairs.iter_mut().zip(three) {
        let most = sum.wrapping_mul(3);
        *pair = [
            (most.wrapping_add(before).wrapping_add(left) >> SHIFT) as u8,
            (most.wrapping_add(after).wrapping_add(right) >> SHIFT) as u8,
        ];
    }
}

/// `R = Y + 1.402 r`, `G = Y − 0.34414 b − 0.71414 r`, `B = Y + 1.772 b`, with `b` and `r` the colours
/// less 128. The factors are times 2¹⁶, rounded; whole parts are taken out so that they fit into 16 bits.
fn mix(brightness: &[u8], [blue, red]: [&[u8]; 2], out: &mut [u8]) {
    let (pixels, _) = out.as_chunks_mut();
    let colours = brightness.iter().zip(blue.iter().zip(red));
    for (pixel, (&y, (&blue, &red))) in pixels.iter_mut().zip(colours) {
        let [y, b, r] = [y.into(), i32::from(blue) - 128, i32::from(red) - 128];
        let half = 1 << 15;
        *pixel = [
            y + r + ((26_345 * r + half) >> 16),
            y - r + ((18_734 * r - 22_554 * b + half) >> 16),
            y + 2 * b + ((half - 14_942 * b) >> 16),
        ]
        .map(|level| level.clamp(0, 255) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plane(rows: &[&[u8]]) -> Plane {
        Plane {
            width: rows[0].len(),
            samples: rows.concat(),
        }
    }

    #[test]
    fn colours_are_stretched_by_a_triangle() {
        // The last sample of a row is behind the picture.
        let plane = plane(&[&[0, 100, 200, 9], &[80, 80, 80, 9]]);
        let mut half = Stretched::new(Chroma::Half, [6, 2]);
        assert_eq!(half.row(&plane, 0), [0, 25, 75, 125, 175, 200]);
        assert_eq!(half.row(&plane, 1), [80; 6]);
        let mut quarter = Stretched::new(Chroma::Quarter, [5, 4]);
        assert_eq!(quarter.row(&plane, 0), [0, 25, 75, 125, 175, 200]);
        // A quarter of the way to the other row: 20, 95, 170.
        assert_eq!(quarter.row(&plane, 1), [20, 39, 76, 114, 151, 170]);
        assert_eq!(quarter.row(&plane, 2)[..3], [60, 66, 79]);
        assert_eq!(quarter.row(&plane, 3), [80; 6]);
        // A row of two samples is not.
        let mut few = Stretched::new(Chroma::Quarter, [4, 4]);
        assert_eq!(few.row(&plane, 1), [0, 0, 100, 100]);
        assert_eq!(few.row(&plane, 2), [80; 4]);
        let mut few = Stretched::new(Chroma::Half, [3, 2]);
        assert_eq!(few.row(&plane, 0), [0, 0, 100, 100]);
    }

    /// Every colour against the formula, in floats.
    #[test]
    fn colours_are_mixed_by_the_formula() {
        for y in 0..=255 {
            for blue in (0..=255).step_by(5) {
                for red in (0..=255).step_by(3) {
                    let mut rgb = [0; 3];
                    mix(&[y], [&[blue], &[red]], &mut rgb);
                    let [y, b, r] = [y, blue, red].map(f64::from);
                    let [b, r] = [b - 128.0, r - 128.0];
                    let wanted = [
                        y + 1.402 * r,
                        y - 0.344_14 * b - 0.714_14 * r,
                        y + 1.772 * b,
                    ];
                    for (found, wanted) in rgb.into_iter().zip(wanted) {
                        let apart = f64::from(found) - wanted.clamp(0.0, 255.0);
                        assert!(apart.abs() < 0.501, "{y} {b} {r}");
                    }
                }
            }
        }
    }
}
