//! A bitmap font, drawn by hand for this project: printable ASCII, 5 dots wide.
//!
//! Each glyph has seven rows above the baseline and two below it. Lines are set with the blank
//! columns around a glyph removed and one blank column put between neighbours.

/// Rows of a glyph, descenders included.
pub(super) const ROWS: u32 = 9;
/// Rows of a capital letter or a digit.
pub(super) const CAPITAL_ROWS: u32 = 7;
/// Columns that a glyph may use.
const COLUMNS: usize = 5;
const SHEET_ROWS: usize = ROWS as usize;

const SPACE_WIDTH: usize = 3;
const GLYPHS_PER_BAND: usize = 12;
const FIRST: u32 = ' ' as u32;
/// The last glyph of the sheet, a small box, stands for every character that has no glyph.
const BOX: u32 = 0x7f;

/// The glyphs as they look, in the order of their codes, twelve to a band.
const SHEET: [&str; 8 * SHEET_ROWS] = [
    // space ! " # $ % & ' ( ) * +
    "..... ..#.. .#.#. .#.#. ..#.. ##..# .##.. ..#.. ...#. .#... ..... .....",
    "..... ..#.. .#.#. .#.#. .#### ##..# #..#. ..#.. ..#.. ..#.. ..#.. ..#..",
    "..... ..#.. .#.#. ##### #.#.. ...#. #.#.. ..#.. .#... ...#. #.#.# ..#..",
    "..... ..#.. ..... .#.#. .###. ..#.. .#... ..... .#... ...#. .###. #####",
    "..... ..#.. ..... ##### ..#.# .#... #.#.# ..... .#... ...#. #.#.# ..#..",
    "..... ..... ..... .#.#. ####. #..## #..#. ..... ..#.. ..#.. ..#.. ..#..",
    "..... ..#.. ..... .#.#. ..#.. #..## .##.# ..... ...#. .#... ..... .....",
    "..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....",
    "..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....",
    // , - . / 0 1 2 3 4 5 6 7
    "..... ..... ..... ....# .##.. ..#.. .###. ##### ...#. ##### ..##. #####",
    "..... ..... ..... ....# #..#. .##.. #...# ...#. ..##. #.... .#... ....#",
    "..... ..... ..... ...#. #..#. ..#.. ....# ..#.. .#.#. ####. #.... ...#.",
    "..... ####. ..... ..#.. #..#. ..#.. ..##. ...#. #..#. ....# ####. ..#..",
    "..... ..... ..... .#... #..#. ..#.. .#... ....# ##### ....# #...# .#...",
    "..#.. ..... ..... #.... #..#. ..#.. #.... #...# ...#. #...# #...# .#...",
    "..#.. ..... ..#.. #.... .##.. .###. ##### .###. ...#. .###. .###. .#...",
    ".#... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....",
    "..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....",
    // 8 9 : ; < = > ? @ A B C
    ".###. .###. ..... ..... ...#. ..... #.... .###. .###. ..#.. ####. .###.",
    "#...# #...# ..... ..... ..#.. ..... .#... #...# #...# .#.#. #...# #...#",
    "#...# #...# ..... ..... .#... ####. ..#.. ....# #.### #...# #...# #....",
    ".###. .#### ..#.. ..#.. #.... ..... ...#. ...#. #.#.# #...# ####. #....",
    "#...# ....# ..... ..... .#... ####. ..#.. ..#.. #.##. ##### #...# #....",
    "#...# ...#. ..... ..#.. ..#.. ..... .#... ..... #.... #...# #...# #...#",
    ".###. .##.. ..#.. ..#.. ...#. ..... #.... ..#.. .###. #...# ####. .###.",
    "..... ..... ..... .#... ..... ..... ..... ..... ..... ..... ..... .....",
    "..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....",
    // D E F G H I J K L M N O
    "####. ##### ##### .###. #...# .###. ..### #...# #.... #...# #...# .###.",
    "#...# #.... #.... #...# #...# ..#.. ...#. #..#. #.... ##.## ##..# #...#",
    "#...# #.... #.... #.... #...# ..#.. ...#. #.#.. #.... #.#.# #.#.# #...#",
    "#...# ####. ####. #.### ##### ..#.. ...#. ##... #.... #.#.# #.#.# #...#",
    "#...# #.... #.... #...# #...# ..#.. ...#. #.#.. #.... #...# #..## #...#",
    "#...# #.... #.... #...# #...# ..#.. #..#. #..#. #.... #...# #...# #...#",
    "####. ##### #.... .###. #...# .###. .##.. #...# ####. #...# #...# .###.",
    "..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....",
    "..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....",
    // P Q R S T U V W X Y Z [
    "####. .###. ####. .###. ##### #...# #...# #...# #...# #...# ##### .###.",
    "#...# #...# #...# #...# ..#.. #...# #...# #...# #...# #...# ....# .#...",
    "#...# #...# #...# #.... ..#.. #...# #...# #...# .#.#. .#.#. ...#. .#...",
    "####. #...# ####. .###. ..#.. #...# .#.#. #.#.# ..#.. ..#.. ..#.. .#...",
    "#.... #.#.# #.#.. ....# ..#.. #...# .#.#. #.#.# .#.#. ..#.. .#... .#...",
    "#.... #..#. #..#. #...# ..#.. #...# ..#.. ##.## #...# ..#.. #.... .#...",
    "#.... .##.# #...# .###. ..#.. .###. ..#.. #...# #...# ..#.. ##### .###.",
    "..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....",
    "..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....",
    // \ ] ^ _ ` a b c d e f g
    "#.... .###. ..#.. ..... .#... ..... #.... ..... ....# ..... ..##. .....",
    "#.... ...#. .#.#. ..... ..#.. ..... #.... ..... ....# ..... .#... .....",
    ".#... ...#. #...# ..... ..... .###. ####. .###. .#### .###. ####. .####",
    "..#.. ...#. ..... ..... ..... ....# #...# #.... #...# #...# .#... #...#",
    "...#. ...#. ..... ..... ..... .#### #...# #.... #...# ##### .#... #...#",
    "....# ...#. ..... ..... ..... #...# #...# #.... #...# #.... .#... #...#",
    "....# .###. ..... ..... ..... .#### ####. .###. .#### .###. .#... .####",
    "..... ..... ..... ##### ..... ..... ..... ..... ..... ..... ..... ....#",
    "..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .###.",
    // h i j k l m n o p q r s
    "#.... ..#.. ..#.. #.... .#... ..... ..... ..... ..... ..... ..... .....",
    "#.... ..... ..... #.... .#... ..... ..... ..... ..... ..... ..... .....",
    "#.##. ..#.. ..#.. #..#. .#... ####. #.##. .###. ####. .#### #.##. .###.",
    "##..# ..#.. ..#.. #.#.. .#... #.#.# ##..# #...# #...# #...# ##... #....",
    "#...# ..#.. ..#.. ##... .#... #.#.# #...# #...# #...# #...# #.... .##..",
    "#...# ..#.. ..#.. #.#.. .#... #.#.# #...# #...# #...# #...# #.... ...#.",
    "#...# ..#.. ..#.. #..#. ..#.. #.#.# #...# .###. ####. .#### #.... ###..",
    "..... ..... ..#.. ..... ..... ..... ..... ..... #.... ....# ..... .....",
    "..... ..... .#... ..... ..... ..... ..... ..... #.... ....# ..... .....",
    // t u v w x y z { | } ~ box
    ".#... ..... ..... ..... ..... ..... ..... ...#. ..#.. .#... ..... .....",
    ".#... ..... ..... ..... ..... ..... ..... ..#.. ..#.. ..#.. ..... .....",
    "####. #...# #...# #...# #...# #...# ####. ..#.. ..#.. ..#.. .#... #####",
    ".#... #...# #...# #...# .#.#. #...# ...#. .#... ..#.. ...#. #.#.# #...#",
    ".#... #...# .#.#. #.#.# ..#.. #...# .##.. ..#.. ..#.. ..#.. ...#. #...#",
    ".#... #..## .#.#. #.#.# .#.#. #...# #.... ..#.. ..#.. ..#.. ..... #...#",
    "..##. .##.# ..#.. .#.#. #...# .#### ####. ...#. ..#.. .#... ..... #####",
    "..... ..... ..... ..... ..... ....# ..... ..... ..#.. ..... ..... .....",
    "..... ..... ..... ..... ..... .###. ..... ..... ..... ..... ..... .....",
];

/// The dots of one character, moved to the left edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Glyph {
    dots: [[bool; COLUMNS]; SHEET_ROWS],
    width: usize,
}

impl Glyph {
    /// The glyph of `character`, or the box where it has none.
    pub(super) fn of(character: char) -> Self {
        let code = u32::from(character);
        let code = if (FIRST..BOX).contains(&code) {
            code
        } else {
            BOX
        };
        let drawn = sheet_dots((code - FIRST) as usize);
        let inked = |column: &usize| drawn.iter().any(|row| row[*column]);
        let first = (0..COLUMNS).find(inked).unwrap_or(0);
        let width = (0..COLUMNS)
            .rfind(inked)
            .map_or(SPACE_WIDTH, |last| last + 1 - first);
        let mut dots = drawn;
        for row in &mut dots {
            row.rotate_left(first);
        }
        Self { dots, width }
    }

    /// Columns that the glyph takes, without the blank one after it.
    pub(super) fn width(&self) -> u32 {
        self.width as u32
    }

    /// Whether a dot is inked; dots beside the glyph are not.
    pub(super) fn is_inked(&self, column: i32, row: i32) -> bool {
        let (Ok(column), Ok(row)) = (usize::try_from(column), usize::try_from(row)) else {
            return false;
        };
        self.dots
            .get(row)
            .and_then(|dots| dots.get(column))
            .is_some_and(|&dot| dot)
    }
}

/// The dots of the glyph at `index`, as placed on the sheet.
fn sheet_dots(index: usize) -> [[bool; COLUMNS]; SHEET_ROWS] {
    let top = index / GLYPHS_PER_BAND * SHEET_ROWS;
    let left = index % GLYPHS_PER_BAND * (COLUMNS + 1);
    std::array::from_fn(|row| {
        let line = SHEET[top + row].as_bytes();
        std::array::from_fn(|column| line[left + column] == b'#')
    })
}

/// Pixels that one line of text takes from its first to its last inked column.
pub(super) fn text_width(scale: u32, text: &str) -> u32 {
    let columns: u32 = text.chars().map(|c| Glyph::of(c).width() + 1).sum();
    scale.saturating_mul(columns.saturating_sub(1))
}

/// Cuts a line to `width` pixels; a cut line ends in three dots.
pub(super) fn fit(scale: u32, width: u32, text: &str) -> String {
    if text_width(scale, text) <= width {
        return text.to_owned();
    }
    let mut kept: Vec<char> = text.chars().collect();
    while kept.pop().is_some() {
        let cut: String = kept.iter().collect::<String>().trim_end().to_owned() + "...";
        if text_width(scale, &cut) <= width {
            return cut;
        }
    }
    String::new()
}

/// Breaks text at spaces into lines of `width` pixels; at most `most` lines, the last one cut.
pub(super) fn wrap(scale: u32, width: u32, most: usize, text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            let longer = format!("{line}{}{word}", if line.is_empty() { "" } else { " " });
            let is_full = text_width(scale, &longer) > width && !line.is_empty();
            if is_full && lines.len() + 1 < most {
                lines.push(std::mem::replace(&mut line, word.to_owned()));
            } else {
                line = longer;
            }
        }
        lines.push(line);
    }
    lines.truncate(most);
    lines.iter().map(|line| fit(scale, width, line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printable() -> impl Iterator<Item = char> {
        (' '..='~').filter(char::is_ascii)
    }

    #[test]
    fn every_band_of_the_sheet_has_twelve_glyphs_of_dots() {
        for line in SHEET {
            assert_eq!(line.len(), GLYPHS_PER_BAND * (COLUMNS + 1) - 1, "{line}");
            for (at, dot) in line.bytes().enumerate() {
                let is_gap = at % (COLUMNS + 1) == COLUMNS;
                assert!(if is_gap {
                    dot == b' '
                } else {
                    b".#".contains(&dot)
                });
            }
        }
    }

    #[test]
    fn no_two_printable_characters_look_alike() {
        let glyphs: Vec<(char, Glyph)> = printable().map(|c| (c, Glyph::of(c))).collect();
        assert_eq!(glyphs.len(), 95);
        for (i, (a, first)) in glyphs.iter().enumerate() {
            for (b, second) in &glyphs[i + 1..] {
                assert_ne!(first, second, "`{a}` and `{b}`");
            }
        }
    }

    #[test]
    fn every_glyph_but_the_space_is_inked_at_its_left_edge() {
        for c in printable().filter(|&c| c != ' ') {
            let glyph = Glyph::of(c);
            assert!((0..9).any(|row| glyph.is_inked(0, row)), "`{c}`");
        }
    }

    #[test]
    fn only_descenders_ink_the_rows_below_the_baseline() {
        for c in printable().filter(char::is_ascii_alphanumeric) {
            let glyph = Glyph::of(c);
            let below = CAPITAL_ROWS.cast_signed()..ROWS.cast_signed();
            let descends = below
                .flat_map(|row| (0..5).map(move |column| (column, row)))
                .any(|(column, row)| glyph.is_inked(column, row));
            assert_eq!(descends, "gjpqy".contains(c), "`{c}`");
        }
    }

    #[test]
    fn a_character_without_a_glyph_is_drawn_as_the_box() {
        for c in ['\u{7f}', '\n', 'é', '∧', '😀'] {
            assert_eq!(Glyph::of(c), Glyph::of('\u{7f}'));
        }
    }

    #[test]
    fn the_width_of_a_line_is_its_glyphs_and_the_gaps_between_them() {
        assert_eq!(text_width(1, ""), 0);
        assert_eq!(text_width(1, "H"), 5);
        assert_eq!(text_width(1, "Hi"), 5 + 1 + 1);
        assert_eq!(text_width(3, "H i"), 3 * (5 + 1 + 3 + 1 + 1));
    }

    #[test]
    fn a_line_that_fits_is_kept_and_a_longer_one_ends_in_dots() {
        let width = text_width(2, "samples...");
        assert_eq!(fit(2, width, "samples"), "samples");
        assert_eq!(fit(2, width, "samples of everything"), "samples...");
        assert_eq!(fit(2, 1, "samples"), "");
    }

    #[test]
    fn text_breaks_at_spaces_and_at_given_line_ends() {
        let width = text_width(1, "one two");
        assert_eq!(
            wrap(1, width, 3, "one two six\nend"),
            ["one two", "six", "end"]
        );
        assert_eq!(wrap(1, width, 2, ""), Vec::<String>::new());
    }

    #[test]
    fn text_beyond_the_last_line_is_cut() {
        let width = text_width(1, "one two");
        let lines = wrap(1, width, 2, "one two three four five");
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0], "one two");
        assert!(lines[1].ends_with("..."), "{lines:?}");
        for line in lines {
            assert!(text_width(1, &line) <= width);
        }
    }
}
