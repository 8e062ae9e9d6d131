//! A sheet of coloured pixels to draw on.
//!
//! Whole coordinates name pixels, from the top left. Fractional coordinates name places, so that
//! pixel 3 covers 3.0 to 4.0. Whatever falls beside the sheet is left out.

use super::{Format, encode, text};
use crate::Error;

/// Red, green and blue, 0 to 255.
pub type Colour = [u8; 3];

/// A picture in memory with three bytes for each pixel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canvas {
    width: u32,
    height: u32,
    pixels: Vec<Colour>,
}

impl Canvas {
    /// An empty sheet of one colour; a side of zero becomes one pixel, as PNG has no empty picture.
    pub fn new(width: u32, height: u32, background: Colour) -> Self {
        let (width, height) = (width.max(1), height.max(1));
        Self {
            width,
            height,
            pixels: vec![background; width as usize * height as usize],
        }
    }

    /// Width in pixels.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Height in pixels.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// The colour of a pixel, or nothing beside the sheet.
    pub fn pixel(&self, x: i32, y: i32) -> Option<Colour> {
        self.index(x, y).map(|index| self.pixels[index])
    }

    /// Gives a pixel a colour.
    pub fn set(&mut self, x: i32, y: i32, colour: Colour) {
        if let Some(index) = self.index(x, y) {
            self.pixels[index] = colour;
        }
    }

    /// Lays a colour over a pixel; `alpha` runs from 0 (nothing changes) to 1 (as [`Self::set`]).
    pub fn blend(&mut self, x: i32, y: i32, colour: Colour, alpha: f32) {
        if let Some(index) = self.index(x, y) {
            let alpha = alpha.clamp(0.0, 1.0);
            for (old, new) in self.pixels[index].iter_mut().zip(colour) {
                let (from, to) = (f32::from(*old), f32::from(new));
                *old = (from + alpha * (to - from)).round() as u8;
            }
        }
    }

    /// Fills a rectangle.
    pub fn fill(&mut self, corner: [i32; 2], size: [u32; 2], colour: Colour) {
        let span = |start: i32, length: u32, most: u32| {
            let end = start.saturating_add_unsigned(length);
            start.max(0)..end.min(i32::try_from(most).unwrap_or(i32::MAX))
        };
        for y in span(corner[1], size[1], self.height) {
            for x in span(corner[0], size[0], self.width) {
                self.set(x, y, colour);
            }
        }
    }

    /// Writes a line of text; it starts at a place on its baseline.
    pub(super) fn text(&mut self, start: [f32; 2], size: f32, colour: Colour, line: &str) {
        text::ink(size, line, start, |x, y, coverage| {
            self.blend(x, y, colour, coverage);
        });
    }

    /// The sheet as a PNG file with eight bits for each colour; equal sheets give equal bytes.
    pub fn to_png(&self) -> Result<Vec<u8>, Error> {
        let format = Format {
            width: self.width,
            height: self.height,
            colour: png::ColorType::Rgb,
            depth: png::BitDepth::Eight,
        };
        encode(format, self.pixels.as_flattened())
    }

    fn index(&self, x: i32, y: i32) -> Option<usize> {
        let (x, y) = (u32::try_from(x).ok()?, u32::try_from(y).ok()?);
        let is_inside = x < self.width && y < self.height;
        is_inside.then(|| y as usize * self.width as usize + x as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHITE: Colour = [255; 3];
    const BLACK: Colour = [0; 3];

    #[test]
    fn drawing_beside_the_sheet_changes_nothing() {
        let blank = Canvas::new(8, 8, WHITE);
        let mut canvas = blank.clone();
        canvas.set(-1, 0, BLACK);
        canvas.blend(8, 7, BLACK, 1.0);
        canvas.fill([9, 9], [u32::MAX, u32::MAX], BLACK);
        canvas.fill([i32::MAX, i32::MIN], [5, 5], BLACK);
        canvas.text([1e30, -1e30], 20.0, BLACK, "far");
        canvas.text([0.0, 0.0], 0.0, BLACK, "no size");
        assert_eq!(canvas, blank);
        assert_eq!(canvas.pixel(8, 0), None);
    }

    #[test]
    fn a_sheet_without_a_side_is_one_pixel() {
        let canvas = Canvas::new(0, 0, WHITE);
        assert_eq!((canvas.width(), canvas.height()), (1, 1));
        assert!(canvas.to_png().is_ok());
    }

    #[test]
    fn blending_runs_from_the_old_colour_to_the_new() {
        let mut canvas = Canvas::new(3, 1, [100, 200, 0]);
        canvas.blend(0, 0, [200, 100, 50], 0.0);
        canvas.blend(1, 0, [200, 100, 50], 0.5);
        canvas.blend(2, 0, [200, 100, 50], 7.0);
        assert_eq!(canvas.pixel(0, 0), Some([100, 200, 0]));
        assert_eq!(canvas.pixel(1, 0), Some([150, 150, 25]));
        assert_eq!(canvas.pixel(2, 0), Some([200, 100, 50]));
    }

    #[test]
    fn a_rectangle_is_filled_within_its_bounds() {
        let mut canvas = Canvas::new(5, 3, WHITE);
        canvas.fill([1, 1], [3, 9], BLACK);
        canvas.fill([0, 0], [0, 9], BLACK);
        let rows = (0..3).map(|y| {
            (0..5)
                .filter(|&x| canvas.pixel(x, y) == Some(BLACK))
                .collect()
        });
        let rows: Vec<Vec<i32>> = rows.collect();
        assert_eq!(rows, [vec![], vec![1, 2, 3], vec![1, 2, 3]]);
    }

    #[test]
    fn the_png_holds_the_sheet() {
        let mut canvas = Canvas::new(7, 5, [250, 240, 230]);
        canvas.blend(3, 2, [10, 20, 30], 0.5);
        let bytes = canvas.to_png().unwrap();
        assert_eq!(bytes, canvas.to_png().unwrap());

        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, canvas.pixels.as_flattened());
    }
}
