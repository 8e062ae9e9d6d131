//! Changes of pictures that keep their labels, drawn anew for every item of a step.
//!
//! ```text
//! y[r, c] = x[r − v, c′ − h]    h, v uniform in −shift … shift; c′ = c, or mirrored with probability 1/2
//! y[r, c] = 0 in a square of side `cutout`, whose centre is uniform over the picture
//! ```
//!
//! What is moved in from outside is black, or the picture mirrored at its edge; what is cut out is mid-grey. Numbers come from the step's own draws, so that an item is changed
//! alike on every device, and in every replica alone or among others.
//! Reference: DeVries and Taylor, "Improved regularization of convolutional neural networks with cutout", 2017.

use s2m_runs::parts::{Augment, Edge};
use tch::{Kind, Tensor};

use crate::noise::Draws;

/// Pictures `[items, channels, height, width]` with so many pixels more on every side.
fn pad(edge: Edge, x: &Tensor, pad: i64) -> Tensor {
    match edge {
        Edge::Black => x.pad([pad, pad, pad, pad], "constant", BLACK),
        Edge::Mirror => x.reflection_pad2d([pad, pad, pad, pad]),
    }
}

/// Uniform numbers per item: the flip, and the shift's two parts.
const NUMBERS: i64 = 3;

/// Further ones where something is cut out: the centre's two parts.
const CENTRE: i64 = 2;

/// A black pixel as networks see it.
const BLACK: f64 = -1.0;

/// The middle of all levels.
const GREY: f64 = 0.0;

/// Uniform numbers for so many items.
pub fn needs(augment: Augment, items: i64) -> i64 {
    let centre = if augment.cutout > 0 { CENTRE } else { 0 };
    (NUMBERS + centre) * items
}

/// Changes pictures `[replicas, items, size]`, each in its own way.
pub fn apply(
    augment: Augment,
    x: &Tensor,
    [channels, height, width]: [i64; 3],
    draws: &mut Draws,
) -> Tensor {
    let (shape, device) = (x.size(), x.device());
    let [flip, right, down] =
        [(); NUMBERS as usize].map(|()| draws.uniform(shape[1]).reshape([-1, 1]));
    // In 64-bit floats a number below 1 times a count stays below the count.
    let start = |unit: Tensor| {
        let places = (2 * augment.shift + 1) as f64;
        (unit.to_kind(Kind::Double) * places).to_kind(Kind::Int64)
    };
    let line = |side: i64| Tensor::arange(side, (Kind::Int64, device)).unsqueeze(0);
    let mut columns = line(width).expand([flip.size()[0], -1], false);
    if augment.flip {
        columns = columns.where_self(&flip.lt(0.5), &(width - 1 - line(width)));
    }
    let columns = columns + start(right); // [items, width]
    let rows = line(height) + start(down); // [items, height]
    let pad = augment.shift;
    let padded = self::pad(augment.edge, &x.reshape([-1, channels, height, width]), pad);
    let places = rows.unsqueeze(2) * (width + 2 * pad) + columns.unsqueeze(1);
    let places = places
        .view([-1, 1, height * width])
        .expand([-1, channels, -1], false);
    let mut changed = padded.flatten(2, 3).gather(2, &places, false);
    if augment.cutout > 0 {
        let [column, row] =
            [width, height].map(|side| cut(augment, side, &draws.uniform(shape[1])));
        let square = row.unsqueeze(2).logical_and(&column.unsqueeze(1));
        changed = changed.masked_fill(&square.view([-1, 1, height * width]), GREY);
    }
    changed.view(shape.as_slice())
}

/// Which pixels of a side the squares cover, `[items, side]`, from one uniform number per item.
fn cut(augment: Augment, side: i64, unit: &Tensor) -> Tensor {
    let centre = (unit.to_kind(Kind::Double) * side as f64).to_kind(Kind::Int64);
    let line = Tensor::arange(side, (Kind::Int64, unit.device())).unsqueeze(0);
    let into = line - centre.reshape([-1, 1]) + augment.cutout / 2;
    into.ge(0).logical_and(&into.lt(augment.cutout))
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
        let y = apply(augment, &x, shape, &mut draws(numbers));
        Vec::try_from(y.view(-1)).unwrap()
    }

    /// The number at which a start of 0, 1 or 2 is drawn where the shift is at most 1.
    const STARTS: [f32; 3] = [0.1, 0.5, 0.9];

    #[test]
    fn pictures_are_mirrored_and_moved_and_black_comes_in() {
        let augment = Augment {
            flip: true,
            shift: 1,
            cutout: 0,
            edge: Edge::Black,
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
            cutout: 0,
            edge: Edge::Black,
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
            cutout: 0,
            edge: Edge::Black,
        };
        let picture: Vec<f32> = (0..25_u8).map(f32::from).collect();
        let ends = [0.5 / 8_388_608.0, 1.0 - 0.5 / 8_388_608.0];
        let found = applied(augment, &picture, [1, 5, 5], &[0.0, ends[1], ends[1]]);
        assert_eq!((found[0], found.iter().sum::<f32>()), (24.0, 0.0));
        let found = applied(augment, &picture, [1, 5, 5], &[0.0, ends[0], ends[0]]);
        assert_eq!((found[24], found.iter().sum::<f32>()), (0.0, -24.0));
    }

    #[test]
    fn a_mirrored_edge_comes_in_where_it_is_asked_for() {
        let augment = Augment {
            shift: 1,
            edge: Edge::Mirror,
            ..Augment::default()
        };
        let picture = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]; // 2 rows of 3
        let [back, stay, on] = STARTS;
        let found = applied(augment, &picture, [1, 2, 3], &[0.49, back, stay]);
        assert_eq!(found, [0.2, 0.1, 0.2, 0.5, 0.4, 0.5]);
        let found = applied(augment, &picture, [1, 2, 3], &[0.49, stay, on]);
        assert_eq!(found, [0.4, 0.5, 0.6, 0.1, 0.2, 0.3]);
    }

    #[test]
    fn a_shift_beyond_the_picture_is_refused() {
        let augment = Augment {
            flip: false,
            shift: 16,
            cutout: 0,
            edge: Edge::Black,
        };
        assert_eq!(
            augment.check([3, 16, 20]).unwrap_err().to_string(),
            "`augment.shift` is 16; pictures of 20×16 take 0 to 15"
        );
        assert!(augment.check([3, 17, 20]).is_ok());
    }

    /// What remains of 4×5 pictures of ones, each with its own centre.
    #[test]
    fn a_square_around_the_centre_is_cut_out_of_all_channels_and_ends_at_the_edge() {
        let centred = |cutout: i64, column: f32, row: f32| {
            let augment = Augment {
                cutout,
                ..Augment::default()
            };
            assert_eq!(needs(augment, 2), 10);
            // Of two items, the first one's square lies at the top left.
            let numbers = [[0.5; 6].as_slice(), &[0.0, column, 0.0, row]].concat();
            let found = applied(augment, &[1.0; 80], [2, 4, 5], &numbers);
            let [first, second] = [0, 1].map(|item| &found[item * 40..][..40]);
            assert_eq!(first[0], 0.0);
            assert_eq!(second[..20], second[20..]);
            let rows = second[..20].chunks(5);
            rows.map(|row| {
                row.iter()
                    .map(|x| if *x == 0.0 { '.' } else { '#' })
                    .collect()
            })
            .collect::<Vec<String>>()
        };
        // Centres in column 2 of 5 and row 1 of 4: an even square reaches further up and left.
        assert_eq!(centred(2, 0.5, 0.3), ["#..##", "#..##", "#####", "#####"]);
        assert_eq!(centred(3, 0.5, 0.3), ["#...#", "#...#", "#...#", "#####"]);
        assert_eq!(centred(1, 0.99, 0.99), ["#####", "#####", "#####", "####."]);
        assert_eq!(centred(3, 0.99, 0.0), ["###..", "###..", "#####", "#####"]);
    }

    #[test]
    fn without_a_cutout_no_number_more_is_drawn_and_the_run_file_stays_as_it_was() {
        let augment: Augment = toml::from_str("flip = true\nshift = 4").unwrap();
        assert_eq!(needs(augment, 7), 21);
        assert_eq!(
            toml::to_string(&augment).unwrap(),
            "flip = true\nshift = 4\n"
        );
    }

    #[test]
    fn a_square_larger_than_the_picture_is_refused() {
        let of = |cutout| Augment {
            cutout,
            ..Augment::default()
        };
        assert_eq!(
            of(17).check([3, 16, 20]).unwrap_err().to_string(),
            "`augment.cutout` is 17; pictures of 20×16 take 0 to 16"
        );
        assert!(of(16).check([3, 16, 20]).is_ok());
        assert!(of(-1).check([3, 16, 20]).is_err());
    }
}
