//! A sheet of coloured pixels to draw on.
//!
//! Whole coordinates name pixels, from the top left. Fractional coordinates name places, so that
//! pixel 3 covers 3.0 to 4.0. Whatever falls beside the sheet is left out.

use super::font::{Glyph, ROWS, text_width};
use super::{Format, encode};
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

    /// Draws a line one pixel wide from one pixel to another, both included.
    pub fn line(&mut self, from: [i32; 2], to: [i32; 2], colour: Colour) {
        let [dx, dy] = [0, 1].map(|i| i64::from(to[i]) - i64::from(from[i]));
        let steps = dx.abs().max(dy.abs());
        let at = |start: i32, d: i64, step: i64| {
            let moved = (2 * d * step + steps * d.signum()) / (2 * steps).max(1);
            (i64::from(start) + moved) as i32
        };
        for step in 0..=steps {
            self.set(at(from[0], dx, step), at(from[1], dy, step), colour);
        }
    }

    /// Draws the outline of a rectangle, one pixel wide and inside its bounds.
    pub fn rectangle(&mut self, corner: [i32; 2], size: [u32; 2], colour: Colour) {
        if size.contains(&0) {
            return;
        }
        let [left, top] = corner;
        let right = left.saturating_add_unsigned(size[0] - 1);
        let bottom = top.saturating_add_unsigned(size[1] - 1);
        self.fill(corner, [size[0], 1], colour);
        self.fill([left, bottom], [size[0], 1], colour);
        self.fill(corner, [1, size[1]], colour);
        self.fill([right, top], [1, size[1]], colour);
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

    /// Lays a smooth-edged disc over the sheet.
    pub fn disc(&mut self, centre: [f32; 2], radius: f32, colour: Colour, alpha: f32) {
        visit_disc(centre, radius, |x, y, coverage| {
            self.blend(x, y, colour, alpha * coverage);
        });
    }

    /// Lays a smooth-edged ring over the sheet; `radius` runs to the middle of its stroke.
    pub fn ring(&mut self, centre: [f32; 2], radius: f32, stroke: f32, colour: Colour) {
        let inner = radius - stroke / 2.0;
        visit_disc(centre, radius + stroke / 2.0, |x, y, coverage| {
            let hole = disc_coverage(centre, inner, x, y);
            self.blend(x, y, colour, coverage - hole);
        });
    }

    /// Writes a line of text with its top left corner at a pixel; each dot is `scale` pixels wide.
    ///
    /// Capitals are 7 dots high and lines take 9. A character outside ASCII is drawn as a box.
    pub fn text(&mut self, x: i32, y: i32, scale: u32, colour: Colour, text: &str) {
        let mut left = x;
        for character in text.chars() {
            let glyph = Glyph::of(character);
            self.glyph([left, y], scale, colour, &glyph);
            left = left.saturating_add_unsigned(scale.saturating_mul(glyph.width() + 1));
        }
    }

    /// Pixels that a line of text takes from its first to its last inked column.
    pub fn text_width(scale: u32, text: &str) -> u32 {
        text_width(scale, text)
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

    fn glyph(&mut self, corner: [i32; 2], scale: u32, colour: Colour, glyph: &Glyph) {
        let scale = scale.min(i32::MAX.cast_unsigned() / 16).cast_signed();
        for y in 0..ROWS.cast_signed() * scale {
            for x in 0..glyph.width().cast_signed() * scale {
                let ink = ink(glyph, scale, x, y);
                let (x, y) = (corner[0].saturating_add(x), corner[1].saturating_add(y));
                self.blend(x, y, colour, ink);
            }
        }
    }
}

/// How much of an enlarged glyph's pixel is inked, 0 to 1.
///
/// Where two dots touch only at a corner, the notch on each side of that corner is half filled.
/// Slanted strokes then come out smooth and about as thick as upright ones.
fn ink(glyph: &Glyph, scale: i32, x: i32, y: i32) -> f32 {
    let (column, row) = (x / scale, y / scale);
    if glyph.is_inked(column, row) {
        return 1.0;
    }
    let (right, down) = (2 * (x % scale) + 1 > scale, 2 * (y % scale) + 1 > scale);
    let beside = column + if right { 1 } else { -1 };
    let above = row + if down { 1 } else { -1 };
    let is_notch = glyph.is_inked(beside, row)
        && glyph.is_inked(column, above)
        && !glyph.is_inked(beside, above);
    if !is_notch {
        return 0.0;
    }
    // Distance of the pixel's middle from the corner along both edges, in half pixels.
    let away = |within: i32, far: bool| 2 * if far { scale - 1 - within } else { within } + 1;
    let gap = away(x % scale, right) + away(y % scale, down);
    (0.5 + (scale - gap) as f32 / 2.0).clamp(0.0, 1.0)
}

/// Calls `visit` with each pixel that a disc touches and the share of the pixel that it covers.
///
/// A disc that is not finite, or too large to be meant, touches nothing.
pub(super) fn visit_disc(centre: [f32; 2], radius: f32, mut visit: impl FnMut(i32, i32, f32)) {
    const FARTHEST: f32 = 1e6;
    let is_sane = centre.iter().all(|c| c.abs() < FARTHEST) && radius < 4096.0;
    if !is_sane {
        return;
    }
    let [xs, ys] =
        centre.map(|c| (c - radius - 0.5).floor() as i32..=(c + radius + 0.5).floor() as i32);
    for y in ys {
        for x in xs.clone() {
            let coverage = disc_coverage(centre, radius, x, y);
            if coverage > 0.0 {
                visit(x, y, coverage);
            }
        }
    }
}

/// The share of a pixel that a disc covers, to within what an eye can see.
fn disc_coverage(centre: [f32; 2], radius: f32, x: i32, y: i32) -> f32 {
    let dx = x as f32 + 0.5 - centre[0];
    let dy = y as f32 + 0.5 - centre[1];
    (radius + 0.5 - (dx * dx + dy * dy).sqrt()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHITE: Colour = [255; 3];
    const BLACK: Colour = [0; 3];

    /// The canvas as text, `#` for black, `.` for white and `+` for anything between.
    fn picture(canvas: &Canvas) -> Vec<String> {
        let mark = |x, y| match canvas.pixel(x, y) {
            Some(BLACK) => '#',
            Some(WHITE) => '.',
            _ => '+',
        };
        (0..canvas.height().cast_signed())
            .map(|y| {
                (0..canvas.width().cast_signed())
                    .map(|x| mark(x, y))
                    .collect()
            })
            .collect()
    }

    #[test]
    fn drawing_beside_the_sheet_changes_nothing() {
        let blank = Canvas::new(8, 8, WHITE);
        let mut canvas = blank.clone();
        canvas.set(-1, 0, BLACK);
        canvas.blend(8, 7, BLACK, 1.0);
        canvas.line([-5, -5], [-5, 20], BLACK);
        canvas.fill([9, 9], [u32::MAX, u32::MAX], BLACK);
        canvas.fill([i32::MAX, i32::MIN], [5, 5], BLACK);
        canvas.disc([-20.0, 3.0], 4.0, BLACK, 1.0);
        canvas.disc([f32::NAN, f32::INFINITY], 4.0, BLACK, 1.0);
        canvas.disc([4.0, 4.0], f32::NAN, BLACK, 1.0);
        canvas.text(i32::MAX, i32::MAX, 2, BLACK, "far");
        canvas.text(0, 0, 0, BLACK, "no size");
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
    fn a_line_joins_both_ends() {
        let mut canvas = Canvas::new(5, 3, WHITE);
        canvas.line([0, 0], [4, 2], BLACK);
        assert_eq!(picture(&canvas), ["#....", ".##..", "...##"]);
        canvas.line([3, 0], [3, 0], BLACK);
        canvas.line([0, 2], [0, 1], BLACK);
        assert_eq!(picture(&canvas), ["#..#.", "###..", "#..##"]);
    }

    #[test]
    fn a_rectangle_stays_inside_its_bounds() {
        let mut canvas = Canvas::new(5, 4, WHITE);
        canvas.rectangle([1, 0], [3, 3], BLACK);
        assert_eq!(picture(&canvas), [".###.", ".#.#.", ".###.", "....."]);
        canvas.rectangle([0, 0], [0, 9], BLACK);
        canvas.fill([0, 3], [9, 9], BLACK);
        assert_eq!(picture(&canvas), [".###.", ".#.#.", ".###.", "#####"]);
    }

    #[test]
    fn the_pixels_of_a_disc_add_up_to_its_area() {
        for radius in [1.0_f32, 1.7, 2.5, 6.0] {
            let mut area = 0.0;
            visit_disc([20.3, 20.8], radius, |_, _, coverage| area += coverage);
            let wanted = std::f32::consts::PI * radius * radius;
            assert!((area / wanted - 1.0).abs() < 0.1, "{radius}: {area}");
        }
    }

    #[test]
    fn a_ring_has_a_hole() {
        let mut canvas = Canvas::new(11, 11, WHITE);
        canvas.ring([5.5, 5.5], 4.0, 1.0, BLACK);
        assert_eq!(canvas.pixel(5, 5), Some(WHITE));
        assert_eq!(canvas.pixel(9, 5), Some(BLACK));
        assert_eq!(canvas.pixel(0, 0), Some(WHITE));
    }

    #[test]
    fn text_at_scale_one_is_the_font_dot_for_dot() {
        let mut canvas = Canvas::new(9, 9, WHITE);
        canvas.text(1, 0, 1, BLACK, "4i");
        assert_eq!(
            picture(&canvas),
            [
                "....#..#.",
                "...##....",
                "..#.#..#.",
                ".#..#..#.",
                ".#####.#.",
                "....#..#.",
                "....#..#.",
                ".........",
                ".........",
            ]
        );
    }

    #[test]
    fn enlarged_text_smooths_the_corners_where_dots_touch() {
        let mut canvas = Canvas::new(8, 4, WHITE);
        canvas.text(0, 0, 2, BLACK, "<");
        assert_eq!(
            picture(&canvas),
            ["......##", ".....+##", "....##+.", "...+##.."]
        );
    }

    #[test]
    fn the_png_holds_the_sheet() {
        let mut canvas = Canvas::new(7, 5, [250, 240, 230]);
        canvas.disc([3.0, 2.0], 1.5, [10, 20, 30], 0.5);
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
