//! MNIST with six labels: three of the digit, and three of how it is written.
//!
//! ```text
//! even     the digit is even         thick     more ink than two pictures in three
//! high     the digit is 5 or more    slanted   leans more to the right than two in three
//! loop     the digit is 0, 6, 8, 9   wide      wider for its height than two in three
//! ```
//!
//! ```toml
//! source = { format = "six-labels", folder = "mnist" }
//! ```
//!
//! The files are those of [`idx`]. The last three labels are measured on the picture
//! alone, so [`labels_of`] judges generated pictures by the same rule once their digit is known.
//! Every picture has all three measures: where there is nothing to measure, the measure is 0.
//!
//! A threshold is the 67th percentile of its measure over MNIST's 60,000 training pictures by nearest
//! rank, the 40,200th smallest value, and a label holds above it. Widths and heights are whole numbers,
//! so many pictures lie right at the last threshold, and fewer than a third of all are wide.

use std::path::PathBuf;

use s2m_core::labels::{LabelSet, Labels};
use serde::{Deserialize, Serialize};

use crate::dataset::{Dataset, Part, Values};
use crate::error::Error;
use crate::idx;

/// Rows and columns of a picture.
const SIDE: usize = 28;

/// Pixels of a picture.
const PIXELS: usize = SIDE * SIDE;

/// Least level of a pixel inside the box: half of white, so that blurred edges do not widen it.
const LIT: u8 = 128;

/// Ink above which a picture is thick.
pub const THICK: f64 = 29_384.0 / FULL;

/// Slant above which a picture is slanted.
pub const SLANTED: f64 = 0.226_312_519_656_074_63;

/// Width over height above which a picture is wide.
pub const WIDE: f64 = 17.0 / 20.0;

/// The sum of all levels of a white picture.
const FULL: f64 = (PIXELS * 255) as f64;

/// The labels, in their order.
pub const NAMES: [&str; 6] = ["even", "high", "loop", "thick", "slanted", "wide"];

/// MNIST's four files, read as pictures of six labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SixLabels {
    /// Their folder; relative to where the program runs.
    pub folder: PathBuf,
}

impl SixLabels {
    /// All pictures of one part, also those without a label; the original class is the digit.
    pub(crate) fn read(&self, part: Part) -> Result<Dataset, Error> {
        let idx::Pictures { items, original } = idx::read_folder(&self.folder, part)?;
        let folder = self.folder.display();
        if items.shape != [1, SIDE, SIDE] {
            let (height, width) = (items.shape[1], items.shape[2]);
            return Err(Error::mismatch(format!(
                "the images of `{folder}` are {height} by {width}, but six labels are measured on {SIDE} by {SIDE}\nhint: use the files of MNIST, or `format = \"idx\"` with `classes`"
            )));
        }
        if let Some(item) = original.iter().position(|&class| class > 9) {
            return Err(Error::malformed(format!(
                "`{folder}`: {} item {item} is of class {}, but digits are 0 to 9\nhint: use the files of MNIST, or `format = \"idx\"` with `classes`",
                part.name(),
                original[item]
            )));
        }
        let pictures = match &items.values {
            Values::Bytes(levels) => levels.chunks_exact(PIXELS),
            Values::Floats(_) => unreachable!("idx files hold bytes"),
        };
        let truth: Vec<_> = original
            .iter()
            .zip(pictures)
            .map(|(&digit, picture)| labels_of(digit, picture))
            .collect();
        Ok(Dataset {
            labels: labels(),
            items,
            truth,
            original,
        })
    }

    /// How many pictures one part has, and those that have a label.
    pub(crate) fn read_labelled(&self, part: Part) -> Result<(usize, Dataset), Error> {
        let data = self.read(part)?;
        let all = data.len();
        let data = data.only_labelled();
        if data.is_empty() {
            return Err(Error::mismatch(format!(
                "`{}`: not one {} item has a label\nhint: use the files of MNIST",
                self.folder.display(),
                part.name()
            )));
        }
        Ok((all, data))
    }
}

/// The six labels.
pub fn labels() -> Labels {
    Labels::new(NAMES).expect("six different plain names")
}

/// How a picture is written, whatever its digit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measures {
    /// Mean level, from 0 for black to 1 for white.
    pub ink: f64,
    /// How far strokes move to the right for each pixel upwards; 0 where ink lies in one row at most.
    pub slant: f64,
    /// Width over height of the box around all pixels of level 128 or more; 0 where there is none.
    pub wide: f64,
}

/// Measures a picture of 28×28 levels, row by row from the top; panics at another length.
///
/// With levels as weights, `slant = −cov(x, y) / var(y)`: y runs downwards, hence the sign. All sums
/// are of whole numbers, so the measures are the same on every machine.
pub fn measures(picture: &[u8]) -> Measures {
    assert_eq!(picture.len(), PIXELS, "an image has {SIDE}×{SIDE} levels");
    let (mut sum, mut sum_x, mut sum_y, mut sum_xy, mut sum_yy) = (0i64, 0, 0, 0, 0);
    let (mut columns, mut rows) = (Span::default(), Span::default());
    for (at, &level) in picture.iter().enumerate() {
        let (x, y, weight) = ((at % SIDE) as i64, (at / SIDE) as i64, i64::from(level));
        sum += weight;
        sum_x += weight * x;
        sum_y += weight * y;
        sum_xy += weight * x * y;
        sum_yy += weight * y * y;
        if level >= LIT {
            columns.take_in(x);
            rows.take_in(y);
        }
    }
    let covariance = sum * sum_xy - sum_x * sum_y;
    let variance = sum * sum_yy - sum_y * sum_y;
    Measures {
        ink: sum as f64 / FULL,
        slant: ratio(-covariance, variance),
        wide: ratio(columns.length(), rows.length()),
    }
}

/// The labels of a picture of this digit.
pub fn labels_of(digit: u8, picture: &[u8]) -> LabelSet {
    let Measures { ink, slant, wide } = measures(picture);
    let holds = [
        digit.is_multiple_of(2),
        digit >= 5,
        matches!(digit, 0 | 6 | 8 | 9),
        ink > THICK,
        slant > SLANTED,
        wide > WIDE,
    ];
    (0..NAMES.len()).filter(|&label| holds[label]).collect()
}

/// From the first to the last of some whole numbers.
#[derive(Default)]
struct Span(Option<(i64, i64)>);

impl Span {
    fn take_in(&mut self, number: i64) {
        let (first, last) = self.0.unwrap_or((number, number));
        self.0 = Some((first.min(number), last.max(number)));
    }

    fn length(&self) -> i64 {
        self.0.map_or(0, |(first, last)| last - first + 1)
    }
}

/// A ratio that is 0 where nothing was measured.
fn ratio(above: i64, below: i64) -> f64 {
    if below == 0 {
        0.0
    } else {
        above as f64 / below as f64
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::made::{bits, real_data};

    /// A picture that is white where `lit` says so of x and y.
    fn picture(lit: impl Fn(usize, usize) -> bool) -> Vec<u8> {
        let level = |at| if lit(at % SIDE, at / SIDE) { 255 } else { 0 };
        (0..PIXELS).map(level).collect()
    }

    fn names(digit: u8, picture: &[u8]) -> Vec<&'static str> {
        let set = labels_of(digit, picture);
        set.iter().map(|label| NAMES[label]).collect()
    }

    /// Files of these digits and pictures.
    fn write(folder: &Path, part: &str, side: u8, items: &[(u8, Vec<u8>)]) {
        let n = items.len() as u8;
        let mut images = vec![0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, side, 0, 0, 0, side];
        let mut labels = vec![0, 0, 8, 1, 0, 0, 0, n];
        for (digit, picture) in items {
            labels.push(*digit);
            images.extend(picture);
        }
        fs::write(folder.join(format!("{part}-images-idx3-ubyte")), images).unwrap();
        fs::write(folder.join(format!("{part}-labels-idx1-ubyte")), labels).unwrap();
    }

    #[test]
    fn a_blank_picture_measures_zero() {
        let zero = Measures {
            ink: 0.0,
            slant: 0.0,
            wide: 0.0,
        };
        assert_eq!(measures(&[0; PIXELS]), zero);
        assert!(names(3, &[0; PIXELS]).is_empty());
        assert_eq!(names(8, &[0; PIXELS]), ["even", "high", "loop"]);
    }

    #[test]
    fn ink_without_a_lit_pixel_has_no_box() {
        let faint = measures(&[LIT - 1; PIXELS]);
        assert_eq!((faint.slant, faint.wide), (0.0, 0.0));
        assert_eq!(faint.ink, 127.0 / 255.0);
        assert_eq!(measures(&[LIT; PIXELS]).wide, 1.0);
    }

    #[test]
    fn an_upright_bar_does_not_slant() {
        let bar = picture(|x, y| (12..16).contains(&x) && (4..24).contains(&y));
        let wanted = Measures {
            ink: 80.0 / 784.0,
            slant: 0.0,
            wide: 4.0 / 20.0,
        };
        assert_eq!(measures(&bar), wanted);
        assert!(names(1, &bar).is_empty());
        let lying = picture(|x, y| (12..16).contains(&y) && (4..24).contains(&x));
        assert_eq!(measures(&lying).slant, 0.0);
        assert_eq!(measures(&lying).wide, 5.0);
        assert_eq!(names(1, &lying), ["wide"]);
        let row = measures(&picture(|_, y| y == 9));
        assert_eq!((row.slant, row.wide), (0.0, 28.0));
    }

    /// One pixel to the right for each pixel upwards, and its mirror image.
    #[test]
    fn a_bar_that_leans_to_the_right_has_a_positive_slant() {
        let right = measures(&picture(|x, y| x + y == 27));
        let left = measures(&picture(|x, y| x == y));
        assert_eq!((right.slant, left.slant), (1.0, -1.0));
        assert_eq!((right.wide, right.ink), (1.0, 28.0 / 784.0));
        // Four pixels upwards for one to the right, in columns of four pixels.
        let steep = picture(|x, y| (4..24).contains(&y) && x == 14 - y / 4);
        // Columns 13 to 9 over rows 4 to 23: cov = −4·var(0…4) = −8, var(y) = 33.25.
        assert_eq!(measures(&steep).slant, 8.0 / 33.25);
        assert_eq!(names(7, &steep), ["high", "slanted"]);
    }

    #[test]
    fn labels_of_the_digit_are_as_listed() {
        let blank = [0; PIXELS];
        let digits: Vec<_> = (0..10).map(|digit| labels_of(digit, &blank)).collect();
        let bits: Vec<_> = digits.iter().map(|set| set.bits()).collect();
        let [even, high, ring] = [1, 2, 4];
        let wanted = [
            even | ring,
            0,
            even,
            0,
            even,
            high,
            even | high | ring,
            high,
            even | high | ring,
            high | ring,
        ];
        assert_eq!(bits, wanted);
    }

    #[test]
    fn files_are_read_with_all_their_pictures() {
        let folder = tempfile::tempdir().unwrap();
        let source = SixLabels {
            folder: folder.path().to_owned(),
        };
        let items = [(3, vec![0; PIXELS]), (6, vec![255; PIXELS])];
        write(folder.path(), "train", 28, &items);
        let data = source.read(Part::Train).unwrap();
        assert_eq!(
            (bits(&data), &data.original[..]),
            (vec![0, 0b10_1111], &[3, 6][..])
        );
        let (all, labelled) = source.read_labelled(Part::Train).unwrap();
        assert_eq!(all, 2);
        assert_eq!(
            (bits(&labelled), &labelled.original[..]),
            (vec![0b10_1111], &[6][..])
        );
        assert_eq!(labelled.items.values, Values::Bytes(vec![255; PIXELS]));
    }

    #[test]
    fn files_that_are_not_of_digits_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let source = SixLabels {
            folder: folder.path().to_owned(),
        };
        let message = |items: &[(u8, Vec<u8>)], side| {
            write(folder.path(), "t10k", side, items);
            let error = source.read_labelled(Part::Test).unwrap_err().to_string();
            error.replace(folder.path().to_str().unwrap(), "DIR")
        };
        assert_eq!(
            message(&[(3, vec![0; 4])], 2),
            "the images of `DIR` are 2 by 2, but six labels are measured on 28 by 28\n\
             hint: use the files of MNIST, or `format = \"idx\"` with `classes`"
        );
        assert_eq!(
            message(&[(9, vec![0; PIXELS]), (10, vec![0; PIXELS])], 28),
            "`DIR`: test item 1 is of class 10, but digits are 0 to 9\n\
             hint: use the files of MNIST, or `format = \"idx\"` with `classes`"
        );
        assert_eq!(
            message(&[(1, vec![0; PIXELS])], 28),
            "`DIR`: not one test item has a label\nhint: use the files of MNIST"
        );
    }

    /// The thresholds and counts were computed a second time in Python 3.
    #[test]
    fn the_thresholds_are_the_67th_percentiles_of_mnist() {
        let Some(folder) = real_data("mnist") else {
            return;
        };
        let data = SixLabels { folder }.read(Part::Train).unwrap();
        let Values::Bytes(levels) = &data.items.values else {
            panic!("images are bytes")
        };
        let all: Vec<_> = levels.chunks_exact(PIXELS).map(measures).collect();
        assert_eq!(all.len(), 60_000);
        let percentile = |measure: fn(&Measures) -> f64| {
            let mut values: Vec<f64> = all.iter().map(measure).collect();
            values.sort_by(f64::total_cmp);
            values[(67 * all.len()).div_ceil(100) - 1]
        };
        assert_eq!(percentile(|m| m.ink), THICK);
        assert_eq!(percentile(|m| m.slant), SLANTED);
        assert_eq!(percentile(|m| m.wide), WIDE);
        let count = |label| data.truth.iter().filter(|set| set.contains(label)).count();
        let counts: Vec<_> = (0..6).map(count).collect();
        assert_eq!(counts, [29_492, 29_404, 23_641, 19_797, 19_800, 18_167]);
        assert_eq!(data.truth.iter().filter(|set| set.is_empty()).count(), 5934);
    }
}
