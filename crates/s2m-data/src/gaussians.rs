//! The 2×16 Gaussians: two 4×4 grids of modes that share nine.
//!
//! Modes are one apart and have standard deviation 0.05; every mode is equally likely.
//!
//! Reference: appendix E.1 of "Mining Multi-Label Samples from Single Positive Labels", 2022.

use s2m_core::labels::{LabelSet, Labels};
use s2m_core::proposals::{Proposals, Purpose};

use crate::dataset::{Dataset, Items, Part, Values};
use crate::streams::{Use, choose, numbers};

/// Standard deviation of every mode.
pub const MODE_SD: f64 = 0.05;

/// Sides of a grid.
const SIDE: i32 = 4;

/// One mode of the mixture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mode {
    /// Its centre.
    pub centre: [f64; 2],
    /// Which grids it belongs to: label 0 is A, label 1 is B.
    pub labels: LabelSet,
}

/// All 23 modes: those of A alone, then the shared ones, then those of B alone.
///
/// Grid B is grid A moved by one to the right and one up; both together are centred on zero.
pub fn modes() -> Vec<Mode> {
    let mut modes = Vec::new();
    for y in 0..=SIDE {
        for x in 0..=SIDE {
            let (in_a, in_b) = (x < SIDE && y < SIDE, x > 0 && y > 0);
            let labels: LabelSet = [(in_a, 0), (in_b, 1)]
                .into_iter()
                .filter(|l| l.0)
                .map(|l| l.1)
                .collect();
            let centre = [x, y].map(|side| f64::from(side) - f64::from(SIDE) / 2.0);
            if !labels.is_empty() {
                modes.push(Mode { centre, labels });
            }
        }
    }
    modes.sort_by_key(|mode| match mode.labels.bits() {
        1 => 0,
        3 => 1,
        _ => 2,
    });
    modes
}

/// Draws `items` points `[x, y]`; the original class is the number of the mode in [`modes`].
///
/// Point k is a pure function of the seed and k.
pub fn draw(items: usize, seed: u64) -> Dataset {
    draw_from(numbers(seed, Use::Draw(Part::Train)), items)
}

pub(crate) fn draw_from(numbers: Proposals, items: usize) -> Dataset {
    let modes = modes();
    let mut uniform = vec![0.0; items];
    numbers.fill_uniform(Purpose::Class, 0, &mut uniform);
    let mut points = vec![0.0; 2 * items];
    numbers.fill_normal(0, 0, 2, &mut points);

    let original: Vec<u8> = uniform
        .iter()
        .map(|&u| choose(u, modes.len()) as u8)
        .collect();
    for (point, &mode) in points.chunks_exact_mut(2).zip(&original) {
        for (x, centre) in point.iter_mut().zip(modes[mode as usize].centre) {
            *x = (centre + MODE_SD * f64::from(*x)) as f32;
        }
    }
    Dataset {
        labels: Labels::new(["A", "B"]).expect("A and B are names"),
        items: Items {
            shape: vec![2],
            values: Values::Floats(points),
        },
        truth: original.iter().map(|&m| modes[m as usize].labels).collect(),
        original,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_23_modes_of_which_nine_are_shared() {
        let modes = modes();
        let count = |bits| modes.iter().filter(|m| m.labels.bits() == bits).count();
        assert_eq!((modes.len(), count(1), count(2), count(3)), (23, 7, 7, 9));
        assert!(modes[..7].iter().all(|m| m.labels.bits() == 1));
        assert!(modes[7..16].iter().all(|m| m.labels.bits() == 3));
        let total: f64 = modes.iter().map(|m| m.centre[0] + m.centre[1]).sum();
        assert_eq!(total, 0.0);
    }

    /// Mode frequencies, and mean and variance about the modes, within five standard errors.
    #[test]
    fn points_lie_about_equally_likely_modes() {
        let n = 50_000;
        let data = draw(n, 3);
        assert_eq!((data.len(), data.items.shape.as_slice()), (n, &[2][..]));
        let modes = modes();
        let Values::Floats(points) = &data.items.values else {
            panic!("points are floats");
        };
        let (mut count, mut sum, mut squares) = ([0usize; 23], 0.0, 0.0);
        for (i, point) in points.chunks_exact(2).enumerate() {
            let mode = modes[data.original[i] as usize];
            assert_eq!(data.truth[i], mode.labels);
            count[data.original[i] as usize] += 1;
            for (axis, &value) in point.iter().enumerate() {
                let z = (f64::from(value) - mode.centre[axis]) / MODE_SD;
                assert!(z.abs() < 6.0, "{z} standard deviations");
                sum += z;
                squares += z * z;
            }
        }
        let p = 1.0 / 23.0;
        let error = (p * (1.0 - p) / n as f64).sqrt();
        for share in count.map(|c| c as f64 / n as f64) {
            assert!((share - p).abs() < 5.0 * error, "share {share}");
        }
        let numbers = 2.0 * n as f64;
        assert!((sum / numbers).abs() < 5.0 / numbers.sqrt());
        assert!((squares / numbers - 1.0).abs() < 5.0 * (2.0 / numbers).sqrt());
    }

    #[test]
    fn a_longer_draw_starts_with_the_shorter_and_seeds_differ() {
        let (short, long) = (draw(100, 1), draw(300, 1));
        let first: Vec<u32> = (0..100).collect();
        assert_eq!(short.items, long.items.select(&first));
        assert_eq!(short.original, long.original[..100]);
        assert_ne!(short.original, draw(100, 2).original);
        let test = draw_from(numbers(1, Use::Draw(Part::Test)), 100);
        assert_ne!(short.original, test.original);
        assert_ne!(short.items, test.items);
    }
}
