//! Where plots meet pixels: what `plotters` asks for, laid smoothly over a canvas.
//!
//! Places are counted in parts of a pixel, because `plotters` rounds them to whole numbers. Its own bitmap
//! backend sets text without the space to the left of letters, and thick lines without smooth edges.

use std::convert::Infallible;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind,
};

use super::canvas::{Canvas, Colour};
use super::text;
use crate::plot::{Drawn, Look};

pub(super) const PAPER: Colour = [255, 255, 255];
pub(super) const INK: Colour = [31, 35, 40];
pub(super) const QUIET: Colour = [101, 109, 118];
pub(super) const FRAME: Colour = [190, 196, 203];
pub(super) const GUIDE: Colour = [238, 240, 243];

/// Parts of a pixel, the unit of every place and size on a sheet.
const PARTS: u32 = 4;

/// So many pixels.
pub(super) const fn px(pixels: u32) -> u32 {
    pixels * PARTS
}

/// Size of small text, and the room that a line of it takes.
pub(super) const SMALL: u32 = px(20);
/// Size of a title.
pub(super) const TITLE: u32 = px(28);
pub(super) const TICK: u32 = px(6);
pub(super) const SPACE: u32 = px(12);

/// A canvas as a drawing backend.
pub(super) struct Sheet<'a>(&'a mut Canvas);

/// A part of a sheet.
pub(super) type Area<'a> = DrawingArea<Sheet<'a>, Shift>;
/// Whether drawing went well, which it does.
pub(super) type Done = Drawn<(), Sheet<'static>>;

/// A canvas of some width and height with what is drawn on it.
pub(super) fn drawn(size: [u32; 2], draw: impl FnOnce(&Area<'_>) -> Done) -> Canvas {
    let [width, height] = size.map(|side| side.div_ceil(PARTS));
    let mut canvas = Canvas::new(width, height, PAPER);
    draw(&Sheet(&mut canvas).into_drawing_area()).expect("a canvas takes any drawing");
    canvas
}

/// A colour as `plotters` wants it.
pub(super) fn paint([red, green, blue]: Colour) -> RGBColor {
    RGBColor(red, green, blue)
}

/// How frames look on a sheet; the room on the left is for numbers of a width.
pub(super) fn look(numbers: u32, words: [&str; 2]) -> Look<'_> {
    let below = if words[0].is_empty() { 1 } else { 2 };
    Look {
        text: SMALL,
        room: [numbers + 2 * TICK, 2 * TICK + below * line(SMALL) + px(4)],
        margin: [0, 0],
        tick: TICK,
        stroke: px(1),
        ink: paint(QUIET),
        line: paint(FRAME),
        guide: paint(GUIDE),
        border: Some(Color::stroke_width(&paint(FRAME), px(1))),
        words,
    }
}

/// Height of a line of text with the space to the next.
pub(super) fn line(size: u32) -> u32 {
    size * 5 / 4
}

/// Width of a line of text.
pub(super) fn width(size: u32, line: &str) -> u32 {
    text::width(size as f32, line).ceil() as u32
}

/// Writes a line of text; the place is its upper end, on the side that is named.
pub(super) fn write(
    area: &Area<'_>,
    (side, at): (HPos, [u32; 2]),
    (size, colour): (u32, Colour),
    line: &str,
) -> Done {
    let style = ("sans-serif", size).into_font().color(&paint(colour));
    let style = style.pos(Pos::new(side, VPos::Top));
    area.draw_text(line, &style, at.map(u32::cast_signed).into())
}

type Outcome = Result<(), DrawingErrorKind<Infallible>>;

impl Sheet<'_> {
    /// Lays a shape over the pixels of a box; `distance` is that of a place from its edge, negative inside.
    fn shape(
        &mut self,
        [low, high]: [[f32; 2]; 2],
        colour: BackendColor,
        distance: impl Fn([f32; 2]) -> f32,
    ) {
        let sides = [self.0.width(), self.0.height()];
        let [xs, ys] = [0, 1].map(|axis| {
            let end = (high[axis] + 1.0).clamp(0.0, sides[axis] as f32);
            (low[axis] - 1.0).ceil().max(0.0) as i32..end as i32
        });
        for y in ys {
            for x in xs.clone() {
                let middle = [x as f32 + 0.5, y as f32 + 0.5];
                let coverage = 0.5 - distance(middle);
                if coverage > 0.0 {
                    self.blend(x, y, colour, coverage.min(1.0));
                }
            }
        }
    }

    fn blend(&mut self, x: i32, y: i32, colour: BackendColor, coverage: f32) {
        let (red, green, blue) = colour.rgb;
        let alpha = coverage * colour.alpha as f32;
        self.0.blend(x, y, [red, green, blue], alpha);
    }
}

/// A place in pixels.
fn place((x, y): BackendCoord) -> [f32; 2] {
    [x, y].map(|at| at as f32 / PARTS as f32)
}

fn away([x, y]: [f32; 2], [to_x, to_y]: [f32; 2]) -> f32 {
    let [dx, dy] = [x - to_x, y - to_y];
    (dx * dx + dy * dy).sqrt()
}

impl DrawingBackend for Sheet<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (px(self.0.width()), px(self.0.height()))
    }

    fn ensure_prepared(&mut self) -> Outcome {
        Ok(())
    }

    fn present(&mut self) -> Outcome {
        Ok(())
    }

    fn draw_pixel(&mut self, at: BackendCoord, colour: BackendColor) -> Outcome {
        self.draw_rect(
            at,
            (at.0 + PARTS as i32, at.1 + PARTS as i32),
            &colour,
            true,
        )
    }

    /// Thin lines along an axis take whole pixels.
    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Outcome {
        let (colour, half) = (
            style.color(),
            style.stroke_width() as f32 / PARTS as f32 / 2.0,
        );
        let [mut from, mut to] = [from, to].map(place);
        if half <= 0.5 {
            for axis in [0, 1] {
                if from[axis] == to[axis] {
                    (from[axis], to[axis]) = (from[axis].floor() + 0.5, to[axis].floor() + 0.5);
                }
            }
        }
        let along = [to[0] - from[0], to[1] - from[1]];
        let length = (along[0] * along[0] + along[1] * along[1]).max(f32::MIN_POSITIVE);
        let bounds = [f32::min, f32::max].map(|end| [0, 1].map(|i| end(from[i], to[i])));
        let bounds = [bounds[0].map(|at| at - half), bounds[1].map(|at| at + half)];
        self.shape(bounds, colour, |at| {
            let along_it = (at[0] - from[0]) * along[0] + (at[1] - from[1]) * along[1];
            let share = (along_it / length).clamp(0.0, 1.0);
            away(at, [0, 1].map(|i| from[i] + share * along[i])) - half
        });
        Ok(())
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        low: BackendCoord,
        high: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Outcome {
        if !fill {
            let corners = [low, (high.0, low.1), high, (low.0, high.1), low];
            return self.draw_path(corners, style);
        }
        let [[left, top], [right, bottom]] =
            [low, high].map(|at| place(at).map(|side| side.round() as i32));
        for y in top..bottom {
            for x in left..right {
                self.blend(x, y, style.color(), 1.0);
            }
        }
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Outcome {
        let path: Vec<BackendCoord> = path.into_iter().collect();
        let mut pairs = path.windows(2);
        pairs.try_for_each(|pair| self.draw_line(pair[0], pair[1], style))
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        centre: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Outcome {
        let [radius, stroke] =
            [radius, style.stroke_width()].map(|length| length as f32 / PARTS as f32);
        let (centre, far) = (place(centre), radius + stroke);
        let bounds = [-far, far].map(|far| centre.map(|at| at + far));
        self.shape(bounds, style.color(), |at| {
            let beyond = away(at, centre) - radius;
            if fill {
                beyond
            } else {
                beyond.abs() - stroke / 2.0
            }
        });
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        line: &str,
        style: &S,
        at: BackendCoord,
    ) -> Outcome {
        let size = style.size() as f32 / PARTS as f32;
        let anchor = style.anchor();
        let left = match anchor.h_pos {
            HPos::Left => 0.0,
            HPos::Center => -text::width(size, line) / 2.0,
            HPos::Right => -text::width(size, line),
        };
        let baseline = match anchor.v_pos {
            VPos::Top => text::ASCENT,
            VPos::Center => text::CAPITAL / 2.0,
            VPos::Bottom => -text::DESCENT,
        };
        let [at_x, at_y] = place(at);
        // Strokes that lie on a baseline between two pixels would be blurred.
        let start = [at_x.fract() + left, (size * baseline).round()];
        text::ink(size, line, start, |x, y, coverage| {
            let (x, y) = style.transform().transform(x, y);
            self.blend(
                at_x as i32 + x,
                at_y.round() as i32 + y,
                style.color(),
                coverage,
            );
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The canvas as text, `#` for black, `.` for white and `+` for anything between.
    fn sketch(canvas: &Canvas) -> Vec<String> {
        let mark = |x, y| match canvas.pixel(x, y) {
            Some([0, 0, 0]) => '#',
            Some([255, 255, 255]) => '.',
            _ => '+',
        };
        let (width, height) = (canvas.width().cast_signed(), canvas.height().cast_signed());
        (0..height)
            .map(|y| (0..width).map(|x| mark(x, y)).collect())
            .collect()
    }

    /// Pixels that are inked, a half for half inked ones.
    fn inked(canvas: &Canvas) -> f64 {
        let (width, height) = (canvas.width().cast_signed(), canvas.height().cast_signed());
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let share = |(x, y)| 1.0 - f64::from(canvas.pixel(x, y).unwrap()[1]) / 255.0;
        pixels.map(share).sum()
    }

    #[test]
    fn thin_lines_and_rectangles_take_whole_pixels() {
        let canvas = drawn([px(6), px(4)], |area| {
            let thin = Color::stroke_width(&BLACK, px(1));
            area.draw(&PathElement::new([(4, 6), (20, 6)], thin))?;
            area.draw(&Rectangle::new([(8, 10), (17, 16)], BLACK.filled()))
        });
        assert_eq!(sketch(&canvas)[1], "+####+");
        assert_eq!(sketch(&canvas)[2..], ["......", "..##.."]);
    }

    #[test]
    fn discs_rings_and_slanted_lines_have_their_areas() {
        let area = |draw: &dyn Fn(&Area<'_>) -> Done| inked(&drawn([px(80), px(80)], draw));
        let pi = std::f64::consts::PI;
        for radius in [1, 2, 5, 20] {
            let disc = Circle::new((161, 158), px(radius), BLACK.filled());
            let found = area(&|sheet| sheet.draw(&disc));
            let wanted = pi * f64::from(radius).powi(2);
            assert!((found / wanted - 1.0).abs() < 0.1, "{radius}: {found}");
        }
        let ring = Circle::new((160, 160), px(10), Color::stroke_width(&BLACK, px(2)));
        let found = area(&|sheet| sheet.draw(&ring));
        assert!(
            (found / (2.0 * pi * 10.0 * 2.0) - 1.0).abs() < 0.05,
            "{found}"
        );
        let slanted = PathElement::new([(40, 40), (240, 190)], Color::stroke_width(&BLACK, px(3)));
        let found = area(&|sheet| sheet.draw(&slanted));
        let wanted = 3.0 * 62.5 + pi * 1.5 * 1.5;
        assert!((found / wanted - 1.0).abs() < 0.03, "{found}");
    }

    #[test]
    fn what_lies_beside_the_sheet_is_left_out() {
        let blank = Canvas::new(9, 9, PAPER);
        let mut canvas = blank.clone();
        let mut sheet = Sheet(&mut canvas);
        let thick = Color::stroke_width(&BLACK, px(3));
        sheet.draw_circle((-900, 9), px(4), &thick, true).unwrap();
        sheet.draw_line((100, -9), (90, i32::MAX), &thick).unwrap();
        sheet
            .draw_rect((-90, -90), (-1, 900), &thick, true)
            .unwrap();
        let style = ("sans-serif", SMALL).into_font().color(&BLACK);
        sheet.draw_text("far", &style, (900, 900)).unwrap();
        sheet
            .draw_text("far", &style, (i32::MAX, i32::MIN))
            .unwrap();
        assert_eq!(canvas, blank);
    }

    #[test]
    fn text_stands_where_its_anchor_says() {
        let ends = |side: HPos| {
            let canvas = drawn([px(200), px(30)], |area| {
                write(area, (side, [px(100), 0]), (SMALL, [0; 3]), "mm")
            });
            let rows = sketch(&canvas);
            let is_inked = |x: &usize| rows.iter().any(|row| !row[*x..].starts_with('.'));
            assert!(rows[0].bytes().all(|b| b == b'.') && rows[29].bytes().all(|b| b == b'.'));
            [(0..200).find(is_inked), (0..200).rfind(is_inked)].map(Option::unwrap)
        };
        let [[left, _], [from, to], [_, right]] = [HPos::Left, HPos::Center, HPos::Right].map(ends);
        assert!((100..104).contains(&left), "{left}");
        assert!((96..100).contains(&right), "{right}");
        assert!((100 - from).abs_diff(to - 99) <= 1, "{from} to {to}");
    }
}
