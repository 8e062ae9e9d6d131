//! Changes of pictures that keep their labels, drawn anew for every item of a step.
//!
//! ```text
//! y[r, c] = x[r − v, c′ − h]    h, v uniform in −shift … shift; c′ = c, or mirrored with probability 1/2
//! ```
//!
//! What is moved in from outside is black. Numbers come from the step's own draws, so that an item is changed
//! alike on every device, and in every replica alone or among others.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use crate::noise::Draws;

/// Which changes; read from `augment` in a run file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Augment {
    /// Mirrors every second item, left to right.
    #[serde(default)]
    pub flip: bool,
    /// Largest shift in pixels, down or up and right or left.
    #[serde(default)]
    pub shift: i64,
}

/// Uniform numbers per item: the flip, and the shift's two parts.
const NUMBERS: i64 = 3;

/// A black pixel as networks see it.
const BLACK: f64 = -1.0;

impl Augment {
    /// Refuses shifts that can empty a picture.
    pub fn check(self, [_, height, width]: [i64; 3]) -> Result<()> {
        let most = height.min(width) - 1;
        ensure!(
            (0..=most).contains(&self.shift),
            "`augment.shift` is {}; pictures of {width}×{height} take 0 to {most}",
            self.shift
        );
        Ok(())
    }

    /// Uniform numbers for so many items.
    pub fn needs(items: i64) -> i64 {
        NUMBERS * items
    }

    /// Changes pictures `[replicas, items, size]`, each in its own way.
    pub fn apply(
        self,
        x: &Tensor,
        [channels, height, width]: [i64; 3],
        draws: &mut Draws,
    ) -> Tensor {
        let (shape, device) = (x.size(), x.device());
        let [flip, right, down] =
            [(); NUMBERS as usize].map(|()| draws.uniform(shape[1]).reshape([-1, 1]));
        // In 64-bit floats a number below 1 times a count stays below the count.
        let start = |unit: Tensor| {
            let places = (2 * self.shift + 1) as f64;
            (unit.to_kind(Kind::Double) * places).to_kind(Kind::Int64)
        };
        let line = |side: i64| Tensor::arange(side, (Kind::Int64, device)).unsqueeze(0);
        let mut columns = line(width).expand([flip.size()[0], -1], false);
        if self.flip {
            columns = columns.where_self(&flip.lt(0.5), &(width - 1 - line(width)));
        }
        let columns = columns + start(right); // [items, width]
        let rows = line(height) + start(down); // [items, height]
        let pad = self.shift;
        let padded =
            x.reshape([-1, channels, height, width])
                .pad([pad, pad, pad, pad], "constant", BLACK);
        let places = rows.unsqueeze(2) * (width + 2 * pad) + columns.unsqueeze(1);
        let places = places
            .view([-1, 1, height * width])
            .expand([-1, channels, -1], false);
        padded
            .flatten(2, 3)
            .gather(2, &places, false)
            .view(shape.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    /// Numbers of a step in the order in which they are taken: flips, shifts right, shifts down.
    fn draws(numbers: &[f32]) -> Draws {
        let uniform = Tensor::from_slice(numbers).view([1, -1]);
        Draws::new([Tensor::zeros([1, 0], (Kind::Float, Device::Cpu)), uniform])
    }

    fn applied(augment: Augment, pictures: &[f32], shape: [i64; 3], numbers: &[f32]) -> Vec<f32> {
        let size: i64 = shape.iter().product();
        let x = Tensor::from_slice(pictures).view([1, -1, size]);
        let y = augment.apply(&x, shape, &mut draws(numbers));
        Vec::try_from(y.view(-1)).unwrap()
    }

    /// The number at which a start of 0, 1 or 2 is drawn where the shift is at most 1.
    const STARTS: [f32; 3] = [0.1, 0.5, 0.9];

    #[test]
    fn pictures_are_mirrored_and_moved_and_black_comes_in() {
        let augment = Augment {
            flip: true,
            shift: 1,
        };
        let picture = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]; // 2 rows of 3
        let [back, stay, on] = STARTS;
        let shape = [1, 2, 3];
        let cases: [(f32, f32, f32, [f32; 6]); 5] = [
            (0.51, stay, stay, [0.3, 0.2, 0.1, 0.6, 0.5, 0.4]),
            (0.49, stay, stay, picture),
            (0.49, back, stay, [-1.0, 0.1, 0.2, -1.0, 0.4, 0.5]),
            (0.49, stay, on, [0.4, 0.5, 0.6, -1.0, -1.0, -1.0]),
            (0.51, on, back, [-1.0, -1.0, -1.0, -1.0, 0.3, 0.2]),
        ];
        for (flip, right, down, wanted) in cases {
            let found = applied(augment, &picture, shape, &[flip, right, down]);
            assert_eq!(found, wanted, "{flip} {right} {down}");
        }
    }

    #[test]
    fn every_item_is_changed_in_its_own_way_and_its_channels_alike() {
        let augment = Augment {
            flip: true,
            shift: 1,
        };
        // Two pictures of two channels with one row of two pixels each.
        let pictures = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8];
        let [_, stay, on] = STARTS;
        let numbers = [0.9, 0.1, stay, on, stay, stay];
        let found = applied(augment, &pictures, [2, 1, 2], &numbers);
        assert_eq!(found, [0.2, 0.1, 0.4, 0.3, 0.6, -1.0, 0.8, -1.0]);
        let none = Augment::default();
        assert_eq!(applied(none, &pictures, [2, 1, 2], &numbers), pictures);
    }

    #[test]
    fn the_largest_number_shifts_by_the_largest_shift_and_no_more() {
        let augment = Augment {
            flip: false,
            shift: 4,
        };
        let picture: Vec<f32> = (0..25_u8).map(f32::from).collect();
        let ends = [0.5 / 8_388_608.0, 1.0 - 0.5 / 8_388_608.0];
        let found = applied(augment, &picture, [1, 5, 5], &[0.0, ends[1], ends[1]]);
        assert_eq!((found[0], found.iter().sum::<f32>()), (24.0, 0.0));
        let found = applied(augment, &picture, [1, 5, 5], &[0.0, ends[0], ends[0]]);
        assert_eq!((found[24], found.iter().sum::<f32>()), (0.0, -24.0));
    }

    #[test]
    fn a_shift_beyond_the_picture_is_refused() {
        let augment = Augment {
            flip: false,
            shift: 16,
        };
        assert_eq!(
            augment.check([3, 16, 20]).unwrap_err().to_string(),
            "`augment.shift` is 16; pictures of 20×16 take 0 to 15"
        );
        assert!(augment.check([3, 17, 20]).is_ok());
    }
}
