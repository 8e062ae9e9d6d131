//! The paper's one-dimensional example: two classes of Gaussian mixtures with one common mode.
//!
//! Three modes of equal weight and standard deviation 0.5: A alone at −3, both classes at 0, B alone
//! at 3. The paper gives no numbers for its figure; these are ours.
//!
//! Reference: figure 2 of "Mining Multi-Label Samples from Single Positive Labels", 2022.

use std::f64::consts::TAU;

use s2m_core::labels::{LabelSet, Labels};
use s2m_core::proposals::{Proposals, Purpose};

use crate::dataset::{Dataset, Items, Part, Values};
use crate::streams::{Use, choose, numbers};

/// Standard deviation of every mode.
pub const MODE_SD: f64 = 0.5;

/// One mode of the mixture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mode {
    /// Its centre.
    pub centre: f64,
    /// Which classes it belongs to: label 0 is A, label 1 is B.
    pub labels: LabelSet,
}

/// The three modes, from left to right; each is a joint class of its own.
pub fn modes() -> [Mode; 3] {
    [(-3.0, 0b01), (0.0, 0b11), (3.0, 0b10)].map(|(centre, bits)| Mode {
        centre,
        labels: LabelSet::from_bits(bits),
    })
}

/// Density at `x` of the items with exactly these labels; none where no item has them.
pub fn density(x: f64, labels: LabelSet) -> Option<f64> {
    let mode = modes().into_iter().find(|mode| mode.labels == labels)?;
    Some(normal(x, mode.centre))
}

/// Density at `x` of all items.
pub fn marginal(x: f64) -> f64 {
    modes()
        .map(|mode| normal(x, mode.centre) / 3.0)
        .iter()
        .sum()
}

fn normal(x: f64, centre: f64) -> f64 {
    let z = (x - centre) / MODE_SD;
    (-0.5 * z * z).exp() / (MODE_SD * TAU.sqrt())
}

/// Draws `items` numbers; the original class is the number of the mode in [`modes`].
///
/// Item k is a pure function of the seed and k.
pub fn draw(items: usize, seed: u64) -> Dataset {
    draw_from(numbers(seed, Use::Draw(Part::Train)), items)
}

pub(crate) fn draw_from(numbers: Proposals, items: usize) -> Dataset {
    let modes = modes();
    let mut uniform = vec![0.0; items];
    numbers.fill_uniform(Purpose::Class, 0, &mut uniform);
    let mut points = vec![0.0; items];
    numbers.fill_normal(0, 0, 1, &mut points);

    let original: Vec<u8> = uniform
        .iter()
        .map(|&u| choose(u, modes.len()) as u8)
        .collect();
    for (x, &mode) in points.iter_mut().zip(&original) {
        *x = (modes[mode as usize].centre + MODE_SD * f64::from(*x)) as f32;
    }
    Dataset {
        labels: Labels::new(["A", "B"]).expect("A and B are names"),
        items: Items {
            shape: vec![1],
            values: Values::Floats(points),
        },
        truth: original.iter().map(|&m| modes[m as usize].labels).collect(),
        original,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums over a fine grid, which is exact to rounding for smooth functions that end at zero.
    fn integral(f: impl Fn(f64) -> f64) -> f64 {
        (-8000..=8000)
            .map(|i| f(f64::from(i) / 1000.0))
            .sum::<f64>()
            / 1000.0
    }

    #[test]
    fn densities_integrate_to_one_and_mix_to_the_marginal() {
        let classes = [0b01, 0b11, 0b10].map(LabelSet::from_bits);
        for set in classes {
            assert!((integral(|x| density(x, set).unwrap()) - 1.0).abs() < 1e-12);
        }
        assert!((integral(marginal) - 1.0).abs() < 1e-12);
        for x in [-4.0, -1.5, 0.0, 0.3, 5.0] {
            let mixed: f64 = classes.iter().map(|&s| density(x, s).unwrap()).sum();
            assert!((marginal(x) - mixed / 3.0).abs() < 1e-15);
        }
        // The peak of a normal density of standard deviation ½ is 2/√(2π).
        assert!((density(0.0, classes[1]).unwrap() - 0.797_884_560_802_865_4).abs() < 1e-15);
        assert_eq!(density(0.0, LabelSet::EMPTY), None);
        assert_eq!(density(0.0, LabelSet::from_bits(4)), None);
    }

    /// Shares of modes and moments about them, within five standard errors.
    #[test]
    fn items_follow_their_density() {
        let n = 60_000;
        let data = draw(n, 5);
        let Values::Floats(points) = &data.items.values else {
            panic!("points are floats");
        };
        assert_eq!((data.len(), points.len()), (n, n));
        for (mode, wanted) in modes().into_iter().enumerate() {
            let z: Vec<f64> = (0..n)
                .filter(|&i| usize::from(data.original[i]) == mode)
                .inspect(|&i| assert_eq!(data.truth[i], wanted.labels))
                .map(|i| (f64::from(points[i]) - wanted.centre) / MODE_SD)
                .collect();
            let count = z.len() as f64;
            let error = (2.0 / 9.0 / n as f64).sqrt();
            assert!((count / n as f64 - 1.0 / 3.0).abs() < 5.0 * error);
            let mean = z.iter().sum::<f64>() / count;
            let square = z.iter().map(|z| z * z).sum::<f64>() / count;
            assert!(mean.abs() < 5.0 / count.sqrt(), "mode {mode}: mean {mean}");
            assert!((square - 1.0).abs() < 5.0 * (2.0 / count).sqrt());
        }
    }
}
