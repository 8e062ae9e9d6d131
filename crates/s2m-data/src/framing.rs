//! Pictures cut as another data set frames the same things.
//!
//! FFHQ aligns every face by its eyes and its mouth. With `e` from one eye to the other, `m` from between the eyes to
//! the mouth and `c` between the eyes, it keeps a square
//!
//! ```text
//! centre = c + 0.1 m,   half of a side = max(2 |e|, 1.8 |m|)
//! ```
//!
//! CelebA's aligned pictures of 178 × 218 have the eyes near (69.4, 111.2) and (107.6, 111.2) and the middle of the
//! mouth near (88.3, 152.1), so that the square reaches from (12.1, 38.9) to (164.9, 191.7): it lies inside. As
//! shares of width and height it is the same part of a whole picture that was resized to any other size, even to a
//! square. The cut is to the nearest pixel, and what is cut out becomes a square again.
//!
//! References: Karras et al., "A Style-Based Generator Architecture for Generative Adversarial Networks", 2019, and its
//! data set's own script; Liu et al., "Deep Learning Face Attributes in the Wild", 2015.

use std::fmt;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::picture_at::PictureAt;
use crate::picture_file::Picture;
use crate::picture_set::Pictured;
use crate::resize::{Filter, Resizer};

/// How another data set frames the same things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Framing {
    /// Faces of CelebA's aligned pictures as FFHQ would cut them.
    Ffhq,
}

impl Framing {
    /// Left, top, right and bottom, as shares of width and height.
    fn part(self) -> [f64; 4] {
        match self {
            Self::Ffhq => [12.1 / 178.0, 38.9 / 218.0, 164.9 / 178.0, 191.7 / 218.0],
        }
    }

    /// The part of a picture, resized to a height and width.
    fn cut(self, picture: &Picture, size: Option<[NonZeroU32; 2]>) -> Picture {
        let [left, top, right, bottom] = self.part();
        let at = |share: f64, side: usize| (share * side as f64).round() as usize;
        let columns = at(left, picture.width)..at(right, picture.width);
        let rows = at(top, picture.height)..at(bottom, picture.height);
        let depth = picture.channels.count();
        let mut bytes = Vec::with_capacity(rows.len() * columns.len() * depth);
        for y in rows.clone() {
            let start = y * picture.width;
            bytes.extend_from_slice(
                &picture.bytes[(start + columns.start) * depth..(start + columns.end) * depth],
            );
        }
        let side = rows.len().max(columns.len());
        let size = size.map_or([side; 2], |size| size.map(|side| side.get() as usize));
        let resizer = Resizer::new([rows.len(), columns.len()], size, Filter::Bicubic);
        let levels = resizer.levels(&bytes, depth);
        Picture {
            height: size[0],
            width: size[1],
            channels: picture.channels,
            // The cast cuts to 0 to 255.
            bytes: levels.into_iter().map(|l| l.round() as u8).collect(),
        }
    }
}

/// A picture that is cut when it is read.
pub(crate) struct Framed {
    pub(crate) place: PictureAt,
    pub(crate) framing: Framing,
    /// Height and width; the longer side of what is cut out, for both, where left out.
    pub(crate) size: Option<[NonZeroU32; 2]>,
}

impl fmt::Display for Framed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}

impl Pictured for Framed {
    fn picture(&self) -> Result<Picture, Error> {
        Ok(self.framing.cut(&self.place.picture()?, self.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::Channels;

    /// Each pixel says where it was: 64 columns and 64 rows, or 178 and 218.
    fn whole(height: usize, width: usize) -> Picture {
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| [x as u8, y as u8, 7]));
        Picture {
            height,
            width,
            channels: Channels::Rgb,
            bytes: pixels.flatten().collect(),
        }
    }

    fn corners(picture: &Picture) -> [[u8; 2]; 2] {
        let last = picture.bytes.len() - 3;
        let at = |start: usize| [picture.bytes[start], picture.bytes[start + 1]];
        [at(0), at(last)]
    }

    /// From the landmarks in the header, by the formula there.
    #[test]
    fn the_part_is_what_the_formula_says() {
        let [left, right, mouth] = [(69.4, 111.2), (107.6, 111.2), (88.3, 152.1)];
        let (eyes, centre) = (right.0 - left.0, (f64::midpoint(left.0, right.0), left.1));
        let down: (f64, f64) = (mouth.0 - centre.0, mouth.1 - centre.1);
        let half = f64::max(2.0 * eyes, 1.8 * down.0.hypot(down.1));
        let middle = (centre.0 + 0.1 * down.0, centre.1 + 0.1 * down.1);
        let sides = [178.0, 218.0, 178.0, 218.0];
        let wanted = [
            middle.0 - half,
            middle.1 - half,
            middle.0 + half,
            middle.1 + half,
        ];
        for ((share, side), wanted) in Framing::Ffhq.part().into_iter().zip(sides).zip(wanted) {
            assert!((share * side - wanted).abs() < 0.06, "{wanted}");
        }
    }

    #[test]
    fn a_whole_picture_and_a_squashed_one_are_cut_at_the_same_places() {
        let cut = Framing::Ffhq.cut(&whole(218, 178), None);
        assert_eq!([cut.height, cut.width], [153, 153]);
        assert_eq!(corners(&cut), [[12, 39], [164, 191]]);
        // 64 columns for 178, 64 rows for 218.
        let cut = Framing::Ffhq.cut(&whole(64, 64), None);
        assert_eq!([cut.height, cut.width], [55, 55]);
        assert_eq!(corners(&cut), [[4, 11], [58, 55]]);
    }

    #[test]
    fn the_part_is_resized_to_what_is_asked_for() {
        let size = [64, 48].map(|side| NonZeroU32::new(side).unwrap());
        let cut = Framing::Ffhq.cut(&whole(64, 64), Some(size));
        assert_eq!([cut.height, cut.width], [64, 48]);
        assert_eq!(cut.bytes.len(), 3 * 64 * 48);
        // The smallest picture is its own part.
        assert_eq!(Framing::Ffhq.cut(&whole(1, 1), None).bytes, [0, 0, 7]);
    }
}
