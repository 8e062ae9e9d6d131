//! Features by formula, for tests; Python makes the same ones.

use crate::features::Features;

pub(crate) fn features(values: &[f32], width: usize) -> Features<'_> {
    Features::new(values, width).unwrap()
}

/// Eight features per item that look like nothing in particular. In numpy:
///
/// ```text
/// def feats(n, a, b, c):
///     i, j = np.arange(n)[:, None], np.arange(8)[None, :]
///     x = ((a*i*i + b*i*(j+1) + c*(j+1)*(j+1)) % 101)/10 * (1 + 0.2*j)
///     return x.astype(np.float32).astype(np.float64)
/// ```
pub(crate) fn scattered([a, b, c]: [usize; 3], items: usize, shift: f32) -> Vec<f32> {
    let value = |i: usize, j: usize| {
        let whole = (a * i * i + b * i * (j + 1) + c * (j + 1) * (j + 1)) % 101;
        (whole as f64 / 10.0 * (1.0 + 0.2 * j as f64)) as f32 + shift
    };
    (0..items)
        .flat_map(|i| (0..8).map(move |j| value(i, j)))
        .collect()
}

/// `x, y = feats(60, 3, 7, 5), feats(45, 2, 9, 11) + 0.5`.
pub(crate) fn two_sides() -> [Vec<f32>; 2] {
    [
        scattered([3, 7, 5], 60, 0.0),
        scattered([2, 9, 11], 45, 0.5),
    ]
}

/// The same features in double precision, moved.
pub(crate) fn offset_by(values: &[f32], offset: f64) -> Vec<f64> {
    values.iter().map(|x| f64::from(*x) + offset).collect()
}
