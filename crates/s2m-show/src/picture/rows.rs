//! Rows of pictures with names beside them, and a box around each picture that is wrong.

use super::canvas::{Canvas, Colour};
use super::grid::{Picture, check_all, enlargement, place};
use super::sheet::{INK, PAPER};
use super::text::{self, fit};
use crate::Error;

/// Red, as in the paper's figure.
const WRONG: Colour = [214, 39, 40];

/// Sizes of text, in pixels.
const TITLE: f32 = 28.0;
const NAME: f32 = 20.0;
/// A name that takes more pixels is cut.
const WIDEST_NAME: f32 = 480.0;
/// A title that takes more pixels is cut.
const WIDEST_TITLE: f32 = 1200.0;
/// Height of a title with what is below.
const TITLE_HEIGHT: u32 = 36;
const EDGE: u32 = 20;
/// Pixels between neighbouring pictures; a box fills them without touching its neighbour's.
const GAP: u32 = 8;
/// Thickness of a box.
const BOX: u32 = 3;
const SPACE: u32 = 16;

/// Rows under one title.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Section {
    /// Written above the rows.
    pub title: String,
    /// One below the other.
    pub rows: Vec<Row>,
}

/// Pictures of one kind, side by side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// Written to the left.
    pub name: String,
    /// From left to right.
    pub pictures: Vec<Marked>,
}

/// A picture, and whether it is what was wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    /// The picture.
    pub picture: Picture,
    /// Whether it is.
    pub mark: Mark,
}

/// Whether a picture is what was wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Drawn as it is.
    Right,
    /// Drawn with a box around it.
    Wrong,
}

/// Draws sections one below the other; all pictures have one size.
///
/// Small pictures are enlarged by a whole factor. No pictures at all give a small blank sheet.
pub fn named_rows(sections: &[Section]) -> Result<Canvas, Error> {
    let rows = || sections.iter().flat_map(|section| &section.rows);
    let pictures = || rows().flat_map(|row| &row.pictures);
    let Some(first) = pictures().next().map(|marked| &marked.picture) else {
        return Ok(Canvas::new(EDGE, EDGE, PAPER));
    };
    check_all(
        pictures().map(|marked| &marked.picture),
        (first.width, first.height),
    )?;
    let layout = Layout::of(sections, first);
    let [width, height] = layout.sheet(sections);
    let mut canvas = Canvas::new(width, height, PAPER);
    let mut top = EDGE;
    for section in sections {
        let baseline = top as f32 + (TITLE * text::CAPITAL).round();
        canvas.text([EDGE as f32, baseline], TITLE, INK, &title(section));
        top += TITLE_HEIGHT;
        for row in &section.rows {
            layout.draw(&mut canvas, row, top);
            top += layout.cell[1] + GAP;
        }
        top += SPACE;
    }
    Ok(canvas)
}

fn title(section: &Section) -> String {
    fit(TITLE, WIDEST_TITLE, &section.title)
}

fn name(row: &Row) -> String {
    fit(NAME, WIDEST_NAME, &row.name)
}

fn width(size: f32, line: &str) -> u32 {
    text::width(size, line).ceil() as u32
}

/// Where things go, in pixels.
struct Layout {
    factor: u32,
    /// Sides of an enlarged picture.
    cell: [u32; 2],
    /// Left end of the first picture of every row.
    left: u32,
}

impl Layout {
    fn of(sections: &[Section], first: &Picture) -> Self {
        let factor = enlargement(first);
        let rows = sections.iter().flat_map(|section| &section.rows);
        let widest = rows.map(|row| width(NAME, &name(row))).max();
        Self {
            factor,
            cell: [first.width * factor, first.height * factor],
            left: EDGE + widest.unwrap_or(0) + SPACE,
        }
    }

    fn sheet(&self, sections: &[Section]) -> [u32; 2] {
        let rows = || sections.iter().flat_map(|section| &section.rows);
        let longest = rows().map(|row| row.pictures.len()).max().unwrap_or(0) as u32;
        let titles = sections.iter().map(|s| EDGE + width(TITLE, &title(s)));
        let across = self.left + longest * (self.cell[0] + GAP) - GAP;
        let down = rows().count() as u32 * (self.cell[1] + GAP)
            + sections.len() as u32 * (TITLE_HEIGHT + SPACE)
            - SPACE;
        [
            across.max(titles.max().unwrap_or(0)) + EDGE,
            down + 2 * EDGE,
        ]
    }

    /// One row: the name, level with the middle of its pictures, and the pictures.
    fn draw(&self, canvas: &mut Canvas, row: &Row, top: u32) {
        let middle = top as f32 + self.cell[1] as f32 / 2.0;
        let baseline = (middle + NAME * text::CAPITAL / 2.0).round();
        canvas.text([EDGE as f32, baseline], NAME, INK, &name(row));
        for (index, Marked { picture, mark }) in row.pictures.iter().enumerate() {
            let corner = self.corner(index, top);
            if *mark == Mark::Wrong {
                let box_corner = corner.map(|side| side - BOX.cast_signed());
                canvas.fill(box_corner, self.cell.map(|side| side + 2 * BOX), WRONG);
            }
            place(canvas, picture, corner, self.factor);
        }
    }

    fn corner(&self, index: usize, top: u32) -> [i32; 2] {
        let left = self.left + index as u32 * (self.cell[0] + GAP);
        [left, top].map(u32::cast_signed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(level: u16) -> Picture {
        Picture {
            width: 28,
            height: 28,
            channels: 1,
            bits: 8,
            levels: vec![level; 28 * 28],
        }
    }

    fn row(name: &str, marks: &[Mark]) -> Row {
        let marked = |&mark| Marked {
            picture: picture(90),
            mark,
        };
        Row {
            name: name.to_owned(),
            pictures: marks.iter().map(marked).collect(),
        }
    }

    /// Boxes stand around the wrong pictures, all around them, and nowhere else.
    #[test]
    fn wrong_pictures_are_boxed_and_right_ones_are_not() {
        let (right, wrong) = (Mark::Right, Mark::Wrong);
        let marks = [[right, wrong, right], [right, right, right], [wrong; 3]];
        let rows: Vec<Row> = marks.iter().map(|m| row("method", m)).collect();
        let section = |rows: &[Row]| Section {
            title: "t".to_owned(),
            rows: rows.to_vec(),
        };
        let sections = [section(&rows[..2]), section(&rows[2..])];
        let canvas = named_rows(&sections).unwrap();
        let layout = Layout::of(&sections, &picture(0));
        let first = EDGE + TITLE_HEIGHT;
        let pitch = layout.cell[1] + GAP;
        let tops = [
            first,
            first + pitch,
            first + 2 * pitch + SPACE + TITLE_HEIGHT,
        ];
        let mut red = 0;
        for (top, marks) in tops.into_iter().zip(marks) {
            for (index, mark) in marks.into_iter().enumerate() {
                let [x, y] = layout.corner(index, top);
                let [w, h] = layout.cell.map(u32::cast_signed);
                assert_eq!(canvas.pixel(x, y), Some([90; 3]));
                assert_eq!(canvas.pixel(x + w - 1, y + h - 1), Some([90; 3]));
                let around = [
                    [x - 1, y],
                    [x + w, y],
                    [x, y - 1],
                    [x, y + h],
                    [x - 3, y - 3],
                ];
                for [x, y] in around {
                    let wanted = if mark == wrong { WRONG } else { PAPER };
                    assert_eq!(canvas.pixel(x, y), Some(wanted), "{index} {mark:?}");
                }
                red += usize::from(mark == wrong);
            }
        }
        // Nothing else is red.
        let sheet = (0..canvas.height().cast_signed())
            .flat_map(|y| (0..canvas.width().cast_signed()).map(move |x| (x, y)));
        let found = sheet.filter(|&(x, y)| canvas.pixel(x, y) == Some(WRONG));
        let side = 28 * layout.factor as usize;
        let one = (side + 2 * BOX as usize).pow(2) - side.pow(2);
        assert_eq!(found.count(), red * one);
    }

    #[test]
    fn every_picture_lies_inside_the_sheet() {
        let sections = [Section {
            title: "a title that is far wider than two small pictures are".to_owned(),
            rows: vec![row("a", &[Mark::Right; 2]), row("longer", &[])],
        }];
        let canvas = named_rows(&sections).unwrap();
        let layout = Layout::of(&sections, &picture(0));
        let end = layout.corner(1, EDGE)[0] + layout.cell[0].cast_signed();
        assert!(end <= canvas.width().cast_signed());
        let title = width(TITLE, &sections[0].title);
        assert_eq!(canvas.width(), title + 2 * EDGE);
    }

    #[test]
    fn long_names_are_cut() {
        let long = "long ".repeat(1000);
        let sections = [Section {
            title: long.clone(),
            rows: vec![row(&long, &[Mark::Right])],
        }];
        let canvas = named_rows(&sections).unwrap();
        assert!(canvas.width() <= WIDEST_TITLE as u32 + 2 * EDGE);
        assert_eq!(
            canvas.pixel(canvas.width().cast_signed() - 1, 30),
            Some(PAPER)
        );
    }

    #[test]
    fn nothing_is_a_blank_sheet_and_two_sizes_are_an_error() {
        assert!(named_rows(&[]).unwrap().to_png().is_ok());
        let mut odd = row("a", &[Mark::Right; 3]);
        odd.pictures[2].picture.width = 14;
        odd.pictures[2].picture.levels.truncate(14 * 28);
        let sections = [Section {
            title: String::new(),
            rows: vec![odd],
        }];
        assert_eq!(
            named_rows(&sections).unwrap_err().to_string(),
            "image 2 of the grid is (14, 28) pixels, the first is (28, 28)"
        );
    }
}
