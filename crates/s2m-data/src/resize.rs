//! Resizing pictures without aliasing, as Pillow does for pictures of floats (mode "F").
//!
//! Rows and columns are resized one after the other. A new pixel `i` of `m`, out of `n` old ones,
//! is a weighted mean of the old pixels `j` around its centre `c`:
//!
//! ```text
//! scale = n / m,   stretch = max(1, scale),   c = (i + ½) scale
//! weight(j) = filter((j + ½ − c) / stretch) / sum of the same over the window
//! ```
//!
//! When a picture shrinks the filter is stretched, so that every old pixel counts. The window is
//! every `j` whose centre is at most the filter's reach times `stretch` from `c`, cut at the border.
//! Weights are computed in `f64` and used in `f32`, where Pillow sums in `f64`; nothing is rounded
//! to whole levels or cut to a range, so sharp edges may overshoot.
//!
//! Reference: <https://pillow.readthedocs.io/en/stable/handbook/concepts.html#filters>; the cubic is
//! of Keys, "Cubic convolution interpolation for digital image processing", 1981.

use std::f64::consts::PI;
use std::ops::Range;

/// How much a pixel counts by its distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Filter {
    /// A triangle that reaches one pixel far.
    Bilinear,
    /// A cubic with a = −½ that reaches two pixels far.
    Bicubic,
    /// A sinc under the middle of a wider sinc, three pixels far.
    Lanczos3,
}

impl Filter {
    /// Beyond this distance a pixel counts nothing.
    fn reach(self) -> f64 {
        match self {
            Self::Bilinear => 1.0,
            Self::Bicubic => 2.0,
            Self::Lanczos3 => 3.0,
        }
    }

    fn weight(self, distance: f64) -> f64 {
        let x = distance.abs();
        if x >= self.reach() {
            return 0.0;
        }
        match self {
            Self::Bilinear => 1.0 - x,
            // (a + 2) x³ − (a + 3) x² + 1 and a x³ − 5a x² + 8a x − 4a
            Self::Bicubic if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
            Self::Bicubic => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
            Self::Lanczos3 => sinc(x) * sinc(x / 3.0),
        }
    }
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    (PI * x).sin() / (PI * x)
}

/// Resizes one picture, `[height, width, channels]`; panics as [`Resizer`] does.
///
/// ```
/// use s2m_data::resize::{Filter, resize};
///
/// let halved = resize(&[0.0, 2.0, 4.0, 6.0], [1, 4], 1, [1, 2], Filter::Bilinear);
/// let by_hand = (3.0 * 0.0 + 3.0 * 2.0 + 1.0 * 4.0) / 7.0;
/// assert!((halved[0] - by_hand).abs() < 1e-6);
/// ```
pub fn resize(
    picture: &[f32],
    size: [usize; 2],
    channels: usize,
    new_size: [usize; 2],
    filter: Filter,
) -> Vec<f32> {
    Resizer::new(size, new_size, filter).interleaved(picture, channels)
}

/// Resizes any number of pictures from one size to another; all weights are computed once.
#[derive(Debug, Clone, PartialEq)]
pub struct Resizer {
    vertical: Axis,
    horizontal: Axis,
}

impl Resizer {
    /// Prepares for pictures of `size`, `[height, width]`; panics where a side is zero.
    pub fn new(size: [usize; 2], new_size: [usize; 2], filter: Filter) -> Self {
        Self {
            vertical: Axis::new(size[0], new_size[0], filter),
            horizontal: Axis::new(size[1], new_size[1], filter),
        }
    }

    /// Resizes `[height, width, channels]`; panics where the picture has another size.
    pub fn interleaved(&self, picture: &[f32], channels: usize) -> Vec<f32> {
        self.numbers(picture, channels)
    }

    /// [`Resizer::interleaved`] for a picture of bytes.
    pub(crate) fn levels(&self, picture: &[u8], channels: usize) -> Vec<f32> {
        self.numbers(picture, channels)
    }

    /// Row by row, so that nothing of the picture's own size is kept.
    fn numbers<T: Copy + Into<f32>>(&self, picture: &[T], channels: usize) -> Vec<f32> {
        let [height, width] = [self.vertical.old, self.horizontal.old];
        assert_eq!(
            picture.len(),
            height * width * channels,
            "an image is {height} × {width} pixels of {channels} numbers"
        );
        let length = self.horizontal.new * channels;
        let mut out = vec![0.0; self.vertical.new * length];
        if length == 0 {
            return out;
        }
        let mut row = vec![0.0; length];
        for (y, old) in picture.chunks_exact(width * channels).enumerate() {
            self.horizontal.row(old, channels, &mut row);
            self.vertical.add(y, &row, &mut out);
        }
        out
    }

    /// Resizes `[channels, height, width]`; panics where the picture has another size.
    pub fn planar(&self, picture: &[f32], channels: usize) -> Vec<f32> {
        let plane = self.vertical.old * self.horizontal.old;
        assert_eq!(
            picture.len(),
            channels * plane,
            "an image is {channels} planes of {plane} numbers"
        );
        let planes = picture.chunks_exact(plane);
        let resized: Vec<_> = planes.map(|plane| self.interleaved(plane, 1)).collect();
        resized.concat()
    }
}

/// The old pixels behind each new one, along one side.
#[derive(Debug, Clone, PartialEq)]
struct Axis {
    old: usize,
    new: usize,
    windows: Vec<Window>,
}

/// Channels that are summed at once, as many as the vectors of every processor hold.
const LANES: usize = 4;

/// Consecutive old pixels from `start`, and how much each counts.
#[derive(Debug, Clone, PartialEq)]
struct Window {
    start: usize,
    weights: Vec<f32>,
}

impl Axis {
    fn new(old: usize, new: usize, filter: Filter) -> Self {
        assert!(old > 0 && new > 0, "a side of an image is not zero");
        let scale = old as f64 / new as f64;
        let windows = (0..new)
            .map(|i| Window::new((i as f64 + 0.5) * scale, scale.max(1.0), old, filter))
            .collect();
        Self { old, new, windows }
    }

    fn is_identity(&self) -> bool {
        self.old == self.new
    }

    /// Turns a row of `old` pixels into one of `new` pixels.
    fn row<T: Copy + Into<f32>>(&self, row: &[T], channels: usize, out: &mut [f32]) {
        if self.is_identity() {
            for (to, &from) in out.iter_mut().zip(row) {
                *to = from.into();
            }
            return;
        }
        for first in (0..channels).step_by(LANES) {
            let across = match channels - first {
                1 => Self::channels::<1, T>,
                2 => Self::channels::<2, T>,
                3 => Self::channels::<3, T>,
                _ => Self::channels::<LANES, T>,
            };
            across(self, row, first..channels, out);
        }
    }

    /// [`Axis::row`] for the first `N` of some channels; the others are left alone.
    fn channels<const N: usize, T: Copy + Into<f32>>(
        &self,
        row: &[T],
        channels: Range<usize>,
        out: &mut [f32],
    ) {
        let (first, depth) = (channels.start, channels.end);
        let lanes = |pixel: &[T]| {
            let mut lanes = [0.0; LANES];
            for (lane, &number) in lanes.iter_mut().zip(&pixel[first..first + N]) {
                *lane = number.into();
            }
            lanes
        };
        let pixels: Vec<_> = row.chunks_exact(depth).map(lanes).collect();
        for (window, to) in self.windows.iter().zip(out.chunks_exact_mut(depth)) {
            let mut sum = [0.0; LANES];
            for (&weight, pixel) in window.weights.iter().zip(&pixels[window.start..]) {
                for (sum, number) in sum.iter_mut().zip(pixel) {
                    *sum += weight * number;
                }
            }
            to[first..first + N].copy_from_slice(&sum[..N]);
        }
    }

    /// Adds row `y` of `old` to those of the `new` rows that it counts for.
    fn add(&self, y: usize, row: &[f32], out: &mut [f32]) {
        let rows = out.chunks_exact_mut(row.len());
        if self.is_identity() {
            rows.skip(y).take(1).for_each(|to| to.copy_from_slice(row));
            return;
        }
        // Windows start and end in order.
        let passed = self.windows.partition_point(|window| window.end() <= y);
        for (window, sums) in self.windows.iter().zip(rows).skip(passed) {
            let Some(place) = y.checked_sub(window.start) else {
                break;
            };
            let weight = window.weights[place];
            for (sum, number) in sums.iter_mut().zip(row) {
                *sum += weight * number;
            }
        }
    }
}

impl Window {
    /// The old pixel behind the last one.
    fn end(&self) -> usize {
        self.start + self.weights.len()
    }

    fn new(centre: f64, stretch: f64, old: usize, filter: Filter) -> Self {
        let reach = filter.reach() * stretch;
        // Pixel j has its centre at j + ½; a cast of a negative number gives 0.
        let start = (centre - reach + 0.5) as usize;
        let end = ((centre + reach + 0.5) as usize).min(old);
        let weight = |j: usize| filter.weight((j as f64 + 0.5 - centre) / stretch);
        let sum: f64 = (start..end).map(weight).sum();
        Self {
            start,
            weights: (start..end).map(|j| (weight(j) / sum) as f32).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILTERS: [Filter; 3] = [Filter::Bilinear, Filter::Bicubic, Filter::Lanczos3];

    /// The size before, the size after, how, and some numbers of the result.
    type Case<T> = ([usize; 2], [usize; 2], Filter, T);

    /// A picture with sharp edges, made by formula; numbers are 0 to 16.
    fn picture([height, width]: [usize; 2]) -> Vec<f32> {
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        pixels
            .map(|(x, y)| ((7 * x + 13 * y + x * y) % 17) as f32)
            .collect()
    }

    /// A one-thousandth of a percent of the range of [`picture`].
    const CLOSE: f32 = 1e-5 * 16.0;

    fn apart(a: &[f32], b: &[f32]) -> f32 {
        assert_eq!(a.len(), b.len());
        a.iter()
            .zip(b)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max)
    }

    #[test]
    fn weights_are_as_on_paper() {
        // Twice as large: the centres lie at ¼ and ¾ between pixels, and the border is cut.
        let doubled = resize(&[0.0, 4.0], [1, 2], 1, [1, 4], Filter::Bilinear);
        assert!(apart(&doubled, &[0.0, 1.0, 3.0, 4.0]) < 1e-6, "{doubled:?}");
        // Half as large: the triangle reaches two pixels to both sides.
        let halved = resize(&[7.0, 0.0, 14.0, 21.0], [4, 1], 1, [2, 1], Filter::Bilinear);
        assert!(apart(&halved, &[5.0, 15.0]) < 1e-6, "{halved:?}");
        // The cubic at ½ and 1½ is 9/16 and −1/16.
        let between = Window::new(2.0, 1.0, 4, Filter::Bicubic);
        assert_eq!(
            (between.start, &between.weights[..]),
            (0, &[-0.0625, 0.5625, 0.5625, -0.0625][..])
        );
        // sinc(½) sinc(1/6) = (2/π)(3/π) is 6/π².
        let half = Filter::Lanczos3.weight(-0.5);
        assert!((half - 6.0 / (PI * PI)).abs() < 1e-15);
        for filter in FILTERS {
            assert_eq!(filter.weight(0.0), 1.0);
            assert_eq!(filter.weight(filter.reach()), 0.0);
        }
    }

    /// Pillow 13.0.0 and NumPy 2.4.6, for each case:
    ///
    /// y, x = np.mgrid[0:h, 0:w]
    /// a = ((7*x + 13*y + x*y) % 17).astype("f4")
    /// np.asarray(Image.fromarray(a).resize((new_w, new_h), Image.BILINEAR)).ravel()
    #[test]
    fn small_pictures_agree_with_pillow() {
        #[rustfmt::skip]
        let cases: [Case<&[f32]>; 12] = [
            ([5, 7], [3, 4], Filter::Bilinear, &[5.993_197, 8.977_143, 7.005_714, 5.775_51, 7.238_095, 6.715_556, 6.88, 8.095_238, 7.442_177, 6.342_857, 6.754_286, 10.414_966]),
            ([5, 7], [3, 4], Filter::Bicubic, &[5.829_313, 9.220_782, 6.865_046, 5.588_751, 7.605_139, 6.508_041, 6.636_779, 8.222_817, 7.741_901, 6.243_41, 6.180_567, 10.856_884]),
            ([5, 7], [3, 4], Filter::Lanczos3, &[5.901_16, 9.304_086, 6.552_207, 5.685_918, 8.107_012, 6.348_037, 6.339_85, 8.441_483, 8.020_197, 6.603_856, 5.358_211, 11.282_943]),
            ([3, 4], [5, 6], Filter::Bilinear, &[0.0, 3.5, 8.166_667, 12.833_333, 9.0, 4.0, 5.2, 5.5, 7.033_334, 11.966_666, 8.4, 3.6, 13.0, 8.5, 5.333_333, 10.666_667, 7.5, 3.0, 10.6, 6.4, 3.633_333, 9.366_667, 6.6, 2.4, 9.0, 5.0, 2.5, 8.5, 6.0, 2.0]),
            ([3, 4], [5, 6], Filter::Bicubic, &[-1.521_102, 2.473_918, 8.651_511, 13.995_502, 9.224_195, 3.412_611, 4.650_432, 4.941_176, 7.151_448, 13.085_182, 8.685_689, 3.056_265, 13.592_105, 8.294_118, 4.546_296, 11.453_704, 7.705_883, 2.407_895, 11.581_598, 6.206_76, 2.535_828, 9.941_162, 6.726_076, 1.759_525, 9.219_463, 4.435_072, 1.499_127, 9.123_515, 6.187_569, 1.403_178]),
            ([3, 4], [5, 6], Filter::Lanczos3, &[-2.145_328, 1.490_094, 9.507_855, 14.730_637, 9.109_357, 2.949_965, 4.737_383, 4.480_556, 7.859_336, 13.744_608, 8.859_375, 2.667_784, 14.056_981, 7.951_1, 4.452_806, 11.547_194, 8.048_9, 1.943_019, 12.816_682, 6.102_332, 2.091_872, 9.773_202, 7.025_651, 1.218_253, 9.079_574, 3.743_295, 1.494_881, 9.212_999, 6.561_69, 0.936_073]),
            ([9, 31], [2, 3], Filter::Bilinear, &[7.689_235, 8.125_444, 8.030_785, 8.157_143, 7.841_341, 8.205_986]),
            ([9, 31], [2, 3], Filter::Bicubic, &[7.654_35, 8.152_344, 8.016_752, 8.196_413, 7.820_205, 8.230_699]),
            ([9, 31], [2, 3], Filter::Lanczos3, &[7.743_333, 8.113_77, 7.967_057, 8.200_144, 7.847_486, 8.215_916]),
            ([6, 3], [2, 5], Filter::Bilinear, &[7.75, 6.8, 5.375, 9.05, 11.5, 6.25, 8.0, 10.625, 8.15, 6.5]),
            ([6, 3], [2, 5], Filter::Bicubic, &[7.491_807, 6.278_083, 5.171_052, 9.337_294, 12.232_373, 6.357_249, 8.333_857, 10.828_947, 8.050_766, 5.918_57]),
            ([6, 3], [2, 5], Filter::Lanczos3, &[7.475_955, 5.767_566, 5.211_268, 9.495_852, 12.655_816, 6.373_383, 8.684_461, 10.788_732, 8.052_121, 5.494_847]),
        ];
        for (size, new_size, filter, wanted) in cases {
            let resized = resize(&picture(size), size, 1, new_size, filter);
            let apart = apart(&resized, wanted);
            assert!(
                apart < CLOSE,
                "{size:?} to {new_size:?}, {filter:?}: {apart}"
            );
        }
    }

    /// As above; the pixels are at [0, 0], [h/3, w/5], [h/2, w−1] and [h−1, w/2] of the new picture.
    #[test]
    fn large_pictures_agree_with_pillow() {
        #[rustfmt::skip]
        let cases: [Case<[f32; 4]>; 6] = [
            ([64, 64], [299, 299], Filter::Bilinear, [0.0, 11.729_902, 4.5, 15.0]),
            ([64, 64], [299, 299], Filter::Bicubic, [-2.498_796, 13.356_657, 4.042_163, 17.385_933]),
            ([64, 64], [299, 299], Filter::Lanczos3, [-4.177_926, 14.353_402, 3.921_139, 19.523_201]),
            ([299, 301], [64, 63], Filter::Bilinear, [7.333_325, 7.601_887, 7.525_766, 7.308_607]),
            ([299, 301], [64, 63], Filter::Bicubic, [7.150_016, 7.406_618, 7.451_601, 6.942_849]),
            ([299, 301], [64, 63], Filter::Lanczos3, [7.080_563, 7.337_14, 7.412_089, 6.757_576]),
        ];
        for (size, [h, w], filter, wanted) in cases {
            let resized = resize(&picture(size), size, 1, [h, w], filter);
            let places = [[0, 0], [h / 3, w / 5], [h / 2, w - 1], [h - 1, w / 2]];
            let found = places.map(|[y, x]| resized[y * w + x]);
            let apart = apart(&found, &wanted);
            assert!(apart < CLOSE, "{size:?} to {h} × {w}, {filter:?}: {apart}");
        }
    }

    /// The channels of a picture do not mix, whichever way they are laid out.
    #[test]
    fn planar_and_interleaved_pictures_agree() {
        let ([h, w], new_size) = ([6, 5], [4, 9]);
        for channels in 1..=5 {
            let planes = picture([channels * h, w]);
            let interleaved: Vec<f32> = (0..h * w)
                .flat_map(|pixel| planes.iter().skip(pixel).step_by(h * w).copied())
                .collect();
            for filter in FILTERS {
                let resizer = Resizer::new([h, w], new_size, filter);
                let planar = resizer.planar(&planes, channels);
                let interleaved = resizer.interleaved(&interleaved, channels);
                for (i, value) in interleaved.iter().enumerate() {
                    let (pixel, channel) = (i / channels, i % channels);
                    assert_eq!(*value, planar[channel * 36 + pixel]);
                }
            }
        }
    }

    #[test]
    fn the_same_size_changes_nothing() {
        for filter in FILTERS {
            let same = resize(&picture([4, 6]), [4, 6], 1, [4, 6], filter);
            assert_eq!(same, picture([4, 6]));
            // One side alone is resized in the same way as both.
            let wider = resize(&picture([4, 6]), [4, 6], 1, [4, 9], filter);
            let row = resize(&picture([4, 6])[..6], [1, 6], 1, [1, 9], filter);
            assert_eq!(wider[..9], row);
        }
    }

    #[test]
    #[should_panic(expected = "an image is 2 × 2 pixels of 3 numbers")]
    fn a_picture_of_another_size_is_a_mistake_of_ours() {
        resize(&[0.0; 4], [2, 2], 3, [1, 1], Filter::Bilinear);
    }

    proptest! {
        /// Weights add up to one, so a flat picture stays flat.
        #[test]
        fn flat_pictures_stay_flat(
            size in [1..60usize, 1..60usize],
            new_size in [1..60usize, 1..60usize],
            which in 0..3usize,
        ) {
            let flat = vec![1.0; size[0] * size[1]];
            let resized = resize(&flat, size, 1, new_size, FILTERS[which]);
            prop_assert_eq!(resized.len(), new_size[0] * new_size[1]);
            prop_assert!(resized.iter().all(|value| (value - 1.0).abs() < 1e-5));
        }
    }
}
