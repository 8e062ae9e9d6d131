//! Pictures as PNG files, and many of them side by side.

use super::canvas::{Canvas, Colour};
use super::{Format, encode};
use crate::Error;

/// Most pictures in one grid; more are too small to look at on one page.
const MOST_SHOWN: usize = 64;
/// Pixels between neighbouring pictures.
const GAP: u32 = 2;
/// Small pictures are enlarged until their longer side has at least this many pixels.
const CELL: u32 = 64;
/// Light enough to frame a dark picture and dark enough to frame a light one.
const BACKGROUND: Colour = [205, 208, 214];
const WHITE: f64 = 255.0;

/// A picture as numbers, as a generator makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
    /// 1 grey, 2 grey and opacity, 3 red green blue, 4 red green blue and opacity.
    pub channels: u8,
    /// Bits for each level: 1, 2, 4, 8 or 16.
    pub bits: u8,
    /// Levels from 0 to `2^bits − 1`: row by row, and within a pixel channel by channel.
    pub levels: Vec<u16>, // [height, width, channels]
}

impl Picture {
    /// The picture as a PNG file; equal pictures give equal bytes.
    ///
    /// Levels are stored as they are. PNG has no colour with fewer than eight bits, so there levels
    /// of 1, 2 and 4 bits are multiplied by 255, 85 and 17 and can be divided back without loss.
    pub fn to_png(&self) -> Result<Vec<u8>, Error> {
        self.check()?;
        let format = Format {
            width: self.width,
            height: self.height,
            colour: self.colour_type(),
            depth: self.stored_depth(),
        };
        encode(format, &self.packed())
    }

    /// Fails unless the parts of the picture agree.
    fn check(&self) -> Result<(), Error> {
        let (width, height) = (self.width, self.height);
        if width == 0 || height == 0 {
            return Err(Error::Empty { width, height });
        }
        if !(1..=4).contains(&self.channels) {
            return Err(Error::Channels(self.channels));
        }
        if ![1, 2, 4, 8, 16].contains(&self.bits) {
            return Err(Error::Bits(self.bits));
        }
        self.check_levels()
    }

    fn check_levels(&self) -> Result<(), Error> {
        let wanted = u128::from(self.width) * u128::from(self.height) * u128::from(self.channels);
        if wanted != self.levels.len() as u128 {
            return Err(Error::LevelCount {
                width: self.width,
                height: self.height,
                channels: self.channels,
                wanted,
                got: self.levels.len(),
            });
        }
        match self.levels.iter().position(|&level| level > self.highest()) {
            None => Ok(()),
            Some(index) => Err(Error::LevelTooLarge {
                index,
                level: self.levels[index],
                bits: self.bits,
            }),
        }
    }

    /// The level of white, `2^bits − 1`.
    fn highest(&self) -> u16 {
        u16::MAX >> (16 - self.bits)
    }

    fn colour_type(&self) -> png::ColorType {
        match self.channels {
            1 => png::ColorType::Grayscale,
            2 => png::ColorType::GrayscaleAlpha,
            3 => png::ColorType::Rgb,
            _ => png::ColorType::Rgba,
        }
    }

    fn stored_depth(&self) -> png::BitDepth {
        match (self.bits, self.channels) {
            (1, 1) => png::BitDepth::One,
            (2, 1) => png::BitDepth::Two,
            (4, 1) => png::BitDepth::Four,
            (16, _) => png::BitDepth::Sixteen,
            _ => png::BitDepth::Eight,
        }
    }

    /// The levels as PNG stores them: rows of whole bytes, the highest bits first.
    fn packed(&self) -> Vec<u8> {
        let depth = self.stored_depth() as u8;
        match depth {
            16 => self.levels.iter().flat_map(|l| l.to_be_bytes()).collect(),
            8 => {
                let factor = 255 / self.highest();
                self.levels.iter().map(|l| (l * factor) as u8).collect()
            }
            _ => self
                .levels
                .chunks(self.width as usize)
                .flat_map(|row| pack_row(row, depth))
                .collect(),
        }
    }

    /// The colour of a pixel on white paper.
    fn colour(&self, x: u32, y: u32) -> Colour {
        let channels = usize::from(self.channels);
        let start = (y as usize * self.width as usize + x as usize) * channels;
        let share =
            |channel: usize| f64::from(self.levels[start + channel]) / f64::from(self.highest());
        let is_grey = channels <= 2;
        let opacity = if channels % 2 == 0 {
            share(channels - 1)
        } else {
            1.0
        };
        [0, 1, 2].map(|channel| {
            let ink = share(if is_grey { 0 } else { channel });
            (WHITE * (1.0 - opacity + opacity * ink)).round() as u8
        })
    }
}

/// Packs levels of 1, 2 or 4 bits into bytes; the last byte of a row is filled up with zeros.
fn pack_row(row: &[u16], bits: u8) -> Vec<u8> {
    let per_byte = usize::from(8 / bits);
    let pack = |levels: &[u16]| {
        levels.iter().enumerate().fold(0, |byte, (place, &level)| {
            byte | (level as u8) << (8 - usize::from(bits) * (place + 1))
        })
    };
    row.chunks(per_byte).map(pack).collect()
}

/// Puts pictures of one size side by side, row by row.
///
/// At most 64 are shown. Without `columns` the grid is about square. Small pictures are enlarged by
/// a whole factor, so that every pixel stays a square. No pictures give a small blank sheet.
pub fn image_grid(items: &[Picture], columns: Option<usize>) -> Result<Canvas, Error> {
    let shown = &items[..items.len().min(MOST_SHOWN)];
    let Some(first) = shown.first() else {
        return Ok(Canvas::new(CELL, CELL, BACKGROUND));
    };
    check_all(shown.iter(), (first.width, first.height))?;
    let columns = columns
        .unwrap_or_else(|| square_columns(shown.len()))
        .clamp(1, shown.len());
    let factor = enlargement(first);
    let pitch = [first.width, first.height].map(|side| (side * factor).saturating_add(GAP));
    let extent = |pitch: u32, count: usize| pitch.saturating_mul(count as u32).saturating_add(GAP);
    let rows = shown.len().div_ceil(columns);
    let (width, height) = (extent(pitch[0], columns), extent(pitch[1], rows));
    let mut canvas = Canvas::new(width, height, BACKGROUND);
    for (index, picture) in shown.iter().enumerate() {
        let cell = [index % columns, index / columns];
        let corner = [0, 1].map(|i| (GAP + pitch[i].saturating_mul(cell[i] as u32)).cast_signed());
        place(&mut canvas, picture, corner, factor);
    }
    Ok(canvas)
}

/// By which whole factor pictures of this size are enlarged.
pub(super) fn enlargement(picture: &Picture) -> u32 {
    let longer = picture.width.max(picture.height).max(1);
    CELL.div_ceil(longer).max(1)
}

/// Fails unless every picture is whole and has the wanted size.
pub(super) fn check_all<'a>(
    shown: impl Iterator<Item = &'a Picture>,
    wanted: (u32, u32),
) -> Result<(), Error> {
    for (index, picture) in shown.enumerate() {
        picture.check()?;
        let got = (picture.width, picture.height);
        if got != wanted {
            return Err(Error::SizesDiffer { index, wanted, got });
        }
    }
    Ok(())
}

/// Fewest columns that make a grid at least as wide as high.
fn square_columns(count: usize) -> usize {
    (1..=count).find(|side| side * side >= count).unwrap_or(1)
}

/// Draws a picture with each pixel as a square of `factor` pixels.
pub(super) fn place(canvas: &mut Canvas, picture: &Picture, corner: [i32; 2], factor: u32) {
    for y in 0..picture.height {
        for x in 0..picture.width {
            let at = [
                corner[0].saturating_add_unsigned(x * factor),
                corner[1].saturating_add_unsigned(y * factor),
            ];
            canvas.fill(at, [factor, factor], picture.colour(x, y));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture whose levels run through the whole range, in no simple order.
    fn sample(width: u32, height: u32, channels: u8, bits: u8) -> Picture {
        let count = width * height * u32::from(channels);
        let highest = (1_u32 << bits) - 1;
        let levels = (0..count)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 7) % (highest + 1))
            .map(|level| level as u16)
            .collect();
        Picture {
            width,
            height,
            channels,
            bits,
            levels,
        }
    }

    /// Colour type, depth and every stored number of a PNG, one number for each channel.
    fn decode(bytes: &[u8]) -> (png::ColorType, png::BitDepth, Vec<u16>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
            .read_info()
            .unwrap();
        let mut stored = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut stored).unwrap();
        let depth = frame.bit_depth as u8;
        let per_row = frame.width as usize * frame.color_type.samples();
        let number = |row: &[u8], i: usize| match depth {
            16 => u16::from_be_bytes([row[2 * i], row[2 * i + 1]]),
            8 => u16::from(row[i]),
            _ => {
                let bit = i * usize::from(depth);
                let shift = 8 - usize::from(depth) - bit % 8;
                u16::from(row[bit / 8] >> shift) & ((1 << depth) - 1)
            }
        };
        let numbers = stored
            .chunks(frame.line_size)
            .flat_map(|row| (0..per_row).map(move |i| number(row, i)))
            .collect();
        (frame.color_type, frame.bit_depth, numbers)
    }

    #[test]
    fn levels_survive_a_round_trip_for_every_kind_of_picture() {
        for channels in 1..=4 {
            for bits in [1, 2, 4, 8, 16] {
                for width in [1, 7, 8, 13] {
                    let picture = sample(width, 5, channels, bits);
                    let (colour, depth, stored) = decode(&picture.to_png().unwrap());
                    assert_eq!(colour.samples(), usize::from(channels));
                    let is_native = bits >= 8 || channels == 1;
                    let wanted_depth = if is_native { bits } else { 8 };
                    assert_eq!(depth as u8, wanted_depth);
                    let factor = if is_native {
                        1
                    } else {
                        255 / picture.highest()
                    };
                    let levels: Vec<u16> = stored.iter().map(|s| s / factor).collect();
                    assert_eq!(levels, picture.levels, "{channels} channels, {bits} bits");
                    assert!(stored.iter().all(|s| s % factor == 0));
                }
            }
        }
    }

    #[test]
    fn equal_pictures_give_equal_bytes() {
        let bytes = || sample(28, 28, 3, 8).to_png().unwrap();
        assert_eq!(bytes(), bytes());
    }

    #[test]
    fn the_first_bit_of_a_row_is_the_highest_of_its_byte() {
        assert_eq!(
            pack_row(&[1, 0, 0, 0, 0, 0, 0, 1, 1], 1),
            [0b1000_0001, 0b1000_0000]
        );
        assert_eq!(pack_row(&[3, 0, 1, 2, 2], 2), [0b1100_0110, 0b1000_0000]);
        assert_eq!(pack_row(&[15, 1, 7], 4), [0xf1, 0x70]);
    }

    #[test]
    fn a_picture_that_cannot_be_written_says_why() {
        let good = sample(2, 2, 3, 4);
        let message = |picture: Picture| picture.to_png().unwrap_err().to_string();
        assert_eq!(
            message(Picture {
                width: 0,
                ..good.clone()
            }),
            "an image needs at least one pixel, got 0 x 2"
        );
        assert_eq!(
            message(Picture {
                channels: 5,
                ..good.clone()
            }),
            "an image has 1 to 4 channels, got 5"
        );
        assert_eq!(
            message(Picture {
                bits: 3,
                ..good.clone()
            }),
            "an image has 1, 2, 4, 8 or 16 bits for each level, got 3"
        );
        assert_eq!(
            message(Picture {
                width: 5,
                ..good.clone()
            }),
            "an image of 5 x 2 with 3 channels needs 30 levels, got 12"
        );
        let mut levels = good.levels.clone();
        levels[7] = 16;
        assert_eq!(
            message(Picture { levels, ..good }),
            "level 7 is 16, more than 4 bits can hold"
        );
    }

    #[test]
    fn a_grid_of_two_sizes_is_an_error_and_names_the_odd_one() {
        let items = [sample(2, 3, 1, 8), sample(2, 3, 3, 8), sample(3, 2, 1, 8)];
        assert_eq!(
            image_grid(&items, None).unwrap_err().to_string(),
            "image 2 of the grid is (3, 2) pixels, the first is (2, 3)"
        );
    }

    #[test]
    fn a_grid_of_nothing_is_a_blank_sheet() {
        let canvas = image_grid(&[], Some(0)).unwrap();
        assert!(canvas.to_png().is_ok());
    }

    #[test]
    fn a_small_picture_is_enlarged_by_a_whole_factor() {
        let picture = sample(28, 28, 1, 8);
        let canvas = image_grid(std::slice::from_ref(&picture), None).unwrap();
        assert_eq!((canvas.width(), canvas.height()), (3 * 28 + 4, 3 * 28 + 4));
        for (x, y) in [(0, 0), (83, 83), (40, 11)] {
            let wanted = picture.levels[(y / 3 * 28 + x / 3) as usize] as u8;
            assert_eq!(canvas.pixel(x + 2, y + 2), Some([wanted; 3]));
        }
    }

    #[test]
    fn a_large_picture_keeps_its_size() {
        let canvas = image_grid(&vec![sample(100, 70, 3, 8); 3], Some(2)).unwrap();
        assert_eq!((canvas.width(), canvas.height()), (2 * 102 + 2, 2 * 72 + 2));
        assert_eq!(canvas.pixel(150, 100), Some(BACKGROUND));
    }

    #[test]
    fn at_most_64_pictures_are_shown_in_a_square() {
        let canvas = image_grid(&vec![sample(64, 64, 1, 1); 100], None).unwrap();
        assert_eq!((canvas.width(), canvas.height()), (8 * 66 + 2, 8 * 66 + 2));
    }

    #[test]
    fn columns_stay_between_one_and_the_number_of_pictures() {
        let items = vec![sample(64, 64, 1, 1); 3];
        let width = |columns| image_grid(&items, Some(columns)).unwrap().width();
        assert_eq!(width(0), 66 + 2);
        assert_eq!(width(usize::MAX), 3 * 66 + 2);
        assert_eq!([1, 2, 4, 5, 9, 10].map(square_columns), [1, 2, 2, 3, 3, 4]);
    }

    #[test]
    fn transparent_parts_show_white_paper() {
        let clear = Picture {
            width: 1,
            height: 1,
            channels: 4,
            bits: 8,
            levels: vec![9, 9, 9, 0],
        };
        assert_eq!(clear.colour(0, 0), [255; 3]);
        let half = Picture {
            width: 1,
            height: 1,
            channels: 2,
            bits: 16,
            levels: vec![0, 32768],
        };
        assert_eq!(half.colour(0, 0), [127; 3]);
        let solid = Picture {
            width: 1,
            height: 1,
            channels: 3,
            bits: 2,
            levels: vec![0, 1, 3],
        };
        assert_eq!(solid.colour(0, 0), [0, 85, 255]);
    }
}
