//! DiffAugment: what a critic is shown of real and generated pictures alike, so that it cannot learn the real ones
//! by heart; gradients pass through.
//!
//! ```text
//! colour   x + b;  then c + s·(x − c), c a pixel's mean over colours;  then m + k·(x − m), m the picture's mean
//!          b uniform in ±1/2, s in 0 … 2, k in 1/2 … 3/2
//! shift    moved by up to 1/8 of the side, right or left and down or up; mid-grey comes in
//! cutout   a square of half the side becomes mid-grey; its middle is uniform, from edge to edge
//! ```
//!
//! Reference: Zhao et al., "Differentiable augmentation for data-efficient GAN training", 2020.

use s2m_runs::regularise::Change;
use tch::{Kind, Tensor};

use crate::noise::Draws;

/// Uniform numbers per item.
fn numbers(change: Change) -> i64 {
    match change {
        Change::Colour => 3,
        Change::Shift | Change::Cutout => 2,
    }
}

/// Pictures `[items, colours, height, width]`, changed; `numbers` are `[items, 1, 1, 1]` each.
fn changed(change: Change, x: &Tensor, numbers: &[Tensor]) -> Tensor {
    match change {
        Change::Colour => colour(x, numbers),
        Change::Shift => shift(x, numbers),
        Change::Cutout => cutout(x, numbers),
    }
}

/// Uniform numbers for so many items.
pub fn needs(changes: &[Change], items: i64) -> i64 {
    let numbers = changes.iter().map(|&change| numbers(change));
    numbers.sum::<i64>() * items
}

/// Changes pictures `[replicas, items, size]`, each in its own way, by every change in turn.
pub fn apply(changes: &[Change], x: &Tensor, picture: [i64; 3], draws: &mut Draws) -> Tensor {
    if changes.is_empty() {
        return x.shallow_clone();
    }
    let (shape, [colours, height, width]) = (x.size(), picture);
    let mut x = x.reshape([-1, colours, height, width]);
    for &change in changes {
        let number = |_| draws.uniform(shape[1]).reshape([-1, 1, 1, 1]);
        let numbers: Vec<Tensor> = (0..numbers(change)).map(number).collect();
        x = changed(change, &x, &numbers);
    }
    x.reshape(shape.as_slice())
}

fn colour(x: &Tensor, numbers: &[Tensor]) -> Tensor {
    let [brightness, saturation, contrast] = numbers else {
        unreachable!("three numbers per item")
    };
    let kind = x.kind();
    let x = x + (brightness - 0.5);
    let grey = x.mean_dim([1].as_slice(), true, kind);
    let x = &grey + (x - &grey) * (saturation * 2.0);
    let mean = x.mean_dim([1, 2, 3].as_slice(), true, kind);
    &mean + (x - &mean) * (contrast + 0.5)
}

/// Whole numbers `[items, 1]` uniform in `0 … count − 1`, from uniform ones; in 64-bit floats these stay below.
fn whole(unit: &Tensor, count: i64) -> Tensor {
    (unit.to_kind(Kind::Double) * count as f64)
        .to_kind(Kind::Int64)
        .view([-1, 1])
}

fn line(side: i64, like: &Tensor) -> Tensor {
    Tensor::arange(side, (Kind::Int64, like.device())).unsqueeze(0)
}

fn shift(x: &Tensor, numbers: &[Tensor]) -> Tensor {
    let (items, colours, height, width) = x.size4().expect("pictures have four axes");
    // One grey pixel around the picture stands for all that lies outside.
    let place = |side: i64, unit: &Tensor| {
        let most = side / 8;
        let moved = line(side, x) + whole(unit, 2 * most + 1) - most;
        (moved + 1).clamp(0, side + 1) // [items, side]
    };
    let rows = place(height, &numbers[0]).unsqueeze(2) * (width + 2);
    let places = (rows + place(width, &numbers[1]).unsqueeze(1)).view([items, 1, -1]);
    let padded = x.pad([1, 1, 1, 1], "constant", 0.0).flatten(2, 3);
    padded
        .gather(2, &places.expand([-1, colours, -1], false), false)
        .view([items, colours, height, width])
}

fn cutout(x: &Tensor, numbers: &[Tensor]) -> Tensor {
    let (_, _, height, width) = x.size4().expect("pictures have four axes");
    let covered = |side: i64, unit: &Tensor| {
        let size = side / 2;
        // An even square has its middle between two pixels, so there is one place more.
        let start = whole(unit, side + 1 - size % 2) - size / 2;
        let into = line(side, x) - start;
        into.ge(0).logical_and(&into.lt(size)) // [items, side]
    };
    let (rows, columns) = (covered(height, &numbers[0]), covered(width, &numbers[1]));
    let square = rows.unsqueeze(2).logical_and(&columns.unsqueeze(1));
    x.masked_fill(&square.unsqueeze(1), 0.0)
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    /// Each change of 16×16 pictures with one number per item and use, `numbers[use][item]`.
    fn changed(change: Change, x: &Tensor, numbers: &[&[f32]]) -> Tensor {
        let uniform = Tensor::from_slice(&numbers.concat()).view([1, -1]);
        let none = Tensor::zeros([1, 0], (Kind::Float, Device::Cpu));
        let flat = x.reshape([1, x.size()[0], -1]);
        let shape = [x.size()[1], 16, 16];
        let mut draws = Draws::new([none, uniform]);
        apply(&[change], &flat, shape, &mut draws).view(x.size().as_slice())
    }

    fn pictures(items: i64) -> Tensor {
        let count = items * 2 * 256;
        crate::noise::normal(&[4], 0, count / 2, Device::Cpu).view([items, 2, 16, 16])
    }

    #[test]
    fn pictures_are_moved_and_grey_comes_in() {
        let x = pictures(3);
        let (least, most) = (0.0, 1.0 - 1e-7);
        // The first moves by −2 rows and +2 columns, the second stays, the third moves by one row.
        let y = changed(Change::Shift, &x, &[&[least, 0.5, 0.7], &[most, 0.5, 0.5]]);
        let first = y.get(0);
        assert_eq!(
            first.narrow(1, 2, 14).narrow(2, 0, 14),
            x.get(0).narrow(1, 0, 14).narrow(2, 2, 14)
        );
        assert_eq!(first.narrow(1, 0, 2).abs().max().double_value(&[]), 0.0);
        assert_eq!(first.narrow(2, 14, 2).abs().max().double_value(&[]), 0.0);
        assert_eq!(y.get(1), x.get(1));
        assert_eq!(y.get(2).narrow(1, 0, 15), x.get(2).narrow(1, 1, 15));
    }

    #[test]
    fn half_of_the_side_is_cut_out_and_ends_at_the_edge() {
        let x = Tensor::ones([3, 2, 16, 16], (Kind::Float, Device::Cpu));
        let most = 1.0 - 1e-7;
        let y = changed(Change::Cutout, &x, &[&[0.5, 0.0, most], &[0.5, 0.0, 0.5]]);
        let left = |item: i64| y.get(item).sum(Kind::Double).double_value(&[]);
        assert_eq!([left(0), left(1), left(2)], [384.0, 480.0, 448.0]);
        assert_eq!(y.double_value(&[0, 1, 4, 4]), 0.0);
        assert_eq!(y.double_value(&[0, 1, 3, 4]), 1.0);
        assert_eq!(y.double_value(&[2, 0, 12, 4]), 0.0);
    }

    /// Against the formula, number by number.
    #[test]
    fn colours_follow_their_formula() {
        let x = pictures(2);
        let y = changed(
            Change::Colour,
            &x,
            &[&[0.75, 0.5], &[1.0, 0.5], &[0.0, 0.5]],
        );
        let unchanged = (y.get(1) - x.get(1)).abs().max().double_value(&[]);
        assert!(unchanged < 1e-6, "{unchanged}");
        let bright = x.get(0) + 0.25;
        let mean = bright.mean(Kind::Double).double_value(&[]);
        for at in [[0, 3, 5], [1, 15, 0]] {
            let [here, there] = [0, 1].map(|colour| bright.double_value(&[colour, at[1], at[2]]));
            let grey = f64::midpoint(here, there);
            let saturated = grey + 2.0 * (bright.double_value(&at) - grey);
            let wanted = mean + 0.5 * (saturated - mean);
            let found = y.double_value(&[0, at[0], at[1], at[2]]);
            assert!((found - wanted).abs() < 1e-6, "{found} against {wanted}");
        }
    }

    #[test]
    fn gradients_pass_through_all_changes() {
        let x = pictures(4).set_requires_grad(true);
        let changes = [Change::Colour, Change::Shift, Change::Cutout];
        assert_eq!(needs(&changes, 4), 28);
        let uniform = crate::noise::uniform(&[1], 0, 28, Device::Cpu);
        let none = Tensor::zeros([1, 0], (Kind::Float, Device::Cpu));
        let flat = x.view([1, 4, -1]);
        let y = apply(
            &changes,
            &flat,
            [2, 16, 16],
            &mut Draws::new([none, uniform]),
        );
        let gradient = Tensor::run_backward(&[y.sum(Kind::Float)], &[&x], false, false);
        let reached = gradient[0].ne(0.0).to_kind(Kind::Float).mean(Kind::Float);
        assert!(reached.double_value(&[]) > 0.5);
    }
}
