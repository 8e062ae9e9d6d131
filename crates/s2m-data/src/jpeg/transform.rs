//! Blocks of coefficients to blocks of samples: the inverse cosine transform (section A.3.3).
//!
//! Columns first, then rows, in whole numbers. The factors are `√2 cos(kπ/16)` times 2¹³, as they come
//! out of the algorithm of Loeffler, Ligtenberg and Moschytz, "Practical fast 1-D DCT algorithms with 11
//! multiplications", 1989, if each of its constants is rounded: so some are one off, and the samples are
//! libjpeg's to the bit. Eight columns are independent, so that compilers use vectors; what would not
//! fit into 16 bits, which a sound file does not have, is cut.

use std::array;
use std::num::Wrapping;

use super::BLOCK;

/// Rows of a block.
pub(super) type Block<T> = [[T; BLOCK]; BLOCK];

/// Bits behind the point of a factor.
const FACTOR_BITS: u32 = 13;

/// Bits behind the point between columns and rows.
const EXTRA_BITS: u32 = 2;

/// What the coefficients 2 and 6 add to the samples 0 and 1, of 8.
const EVEN: [[i16; 2]; 2] = [[10_703, 4_433], [4_433, -10_704]];

/// What the coefficients 1, 3, 5 and 7 add to the samples 0 to 3, of 8.
const ODD: [[i16; 4]; 4] = [
    [11_363, 9_633, 6_437, 2_260],
    [9_633, -2_259, -11_362, -6_436],
    [6_437, -11_362, 2_261, 9_633],
    [2_260, -6_436, 9_633, -11_363],
];

/// The samples of a block.
pub(super) fn inverse(block: &[i16; 64]) -> Block<u8> {
    let (rows, _) = block.as_chunks();
    let rows: &Block<i16> = rows.try_into().expect("64 numbers are 8 rows");
    let columns = transpose(&along_columns::<{ FACTOR_BITS - EXTRA_BITS }>(rows));
    // A sample is an eighth of the sum of all that the coefficients add.
    let samples = along_columns::<{ FACTOR_BITS + EXTRA_BITS + 3 }>(&columns);
    transpose(&samples.map(|column| column.map(level)))
}

/// The samples of a block with no coefficient but the first.
pub(super) fn flat(first: i16) -> Block<u8> {
    [[level(((i32::from(first) + 4) >> 3) as i16); BLOCK]; BLOCK]
}

/// A sample is stored as its distance from the middle.
fn level(sample: i16) -> u8 {
    sample.saturating_add(128).clamp(0, 255) as u8
}

fn transpose<T: Copy>(block: &Block<T>) -> Block<T> {
    array::from_fn(|x| array::from_fn(|y| block[y][x]))
}

/// Transforms each column, and divides by two to the power of `SHIFT`.
fn along_columns<const SHIFT: u32>(rows: &Block<i16>) -> Block<i16> {
    let mut out = [[0; BLOCK]; BLOCK];
    for x in 0..BLOCK {
        let at = |y: usize| Wrapping(i32::from(rows[y][x]));
        let times = |factor: i16, y: usize| Wrapping(i32::from(factor)) * at(y);
        let cut = |sum: Wrapping<i32>| {
            let half = 1 << (SHIFT - 1);
            let sum = (sum.0.wrapping_add(half)) >> SHIFT;
            sum.clamp(i16::MIN.into(), i16::MAX.into()) as i16
        };
        let whole = Wrapping(1 << FACTOR_BITS);
        let [outer, inner] = [(at(0) + at(4)) * whole, (at(0) - at(4)) * whole];
        let [first, second] = EVEN.map(|[a, b]| times(a, 2) + times(b, 6));
        let even = [outer + first, inner + second, inner - second, outer - first];
        for (y, [a, b, c, d]) in ODD.into_iter().enumerate() {
            let odd = (times(a, 1) + times(b, 3)) + (times(c, 5) + times(d, 7));
            out[y][x] = cut(even[y] + odd);
            out[7 - y][x] = cut(even[y] - odd);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::f64::consts::{FRAC_1_SQRT_2, PI};

    use proptest::prelude::*;

    use super::*;

    /// The formula of section A.3.3, as it stands there.
    fn by_formula(block: &[i16; 64]) -> Block<f64> {
        let scale = |n: usize| if n == 0 { FRAC_1_SQRT_2 } else { 1.0 };
        let wave = |x: usize, u: usize| ((2 * x + 1) as f64 * u as f64 * PI / 16.0).cos();
        let sample = |x, y| {
            let terms = (0..64).map(|i| {
                let (u, v) = (i % 8, i / 8);
                scale(u) * scale(v) * f64::from(block[i]) * wave(x, u) * wave(y, v)
            });
            (terms.sum::<f64>() / 4.0 + 128.0).clamp(0.0, 255.0)
        };
        array::from_fn(|y| array::from_fn(|x| sample(x, y)))
    }

    #[test]
    fn one_coefficient_alone_is_flat() {
        for first in (-3000..3000).chain([i16::MIN, i16::MAX]) {
            let mut block = [0; 64];
            block[0] = first;
            assert_eq!(flat(first), inverse(&block));
        }
        assert_eq!(flat(0), [[128; 8]; 8]);
        assert_eq!(flat(12)[0][0], 130);
    }

    #[test]
    fn the_largest_numbers_are_cut() {
        for sign in [[i16::MIN; 2], [i16::MAX; 2], [i16::MIN, i16::MAX]] {
            for stride in 1..10 {
                inverse(&array::from_fn(|i| sign[i / stride % 2]));
            }
        }
    }

    proptest! {
        #[test]
        fn samples_are_those_of_the_formula(
            numbers in prop::collection::vec((0..64usize, -300..300i16), 0..20),
        ) {
            let mut block = [0; 64];
            for (at, number) in numbers {
                block[at] = number;
            }
            let samples = inverse(&block);
            for (found, wanted) in samples.iter().flatten().zip(by_formula(&block).iter().flatten()) {
                // Half a level to round, and the rounding on the way.
                prop_assert!((f64::from(*found) - wanted).abs() < 0.6, "{found} {wanted}");
            }
        }
    }
}
