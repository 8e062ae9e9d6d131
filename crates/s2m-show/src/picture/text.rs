//! Lines of text: how wide they are, how they are cut, and which pixels they ink.
//!
//! `fonts/dejavu-sans.ttf` is DejaVu Sans 2.37 with the characters that we use, as `fonts/README.md` says.

use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, Glyph, PxScale, ScaleFont, point};

static FONT: LazyLock<FontRef<'static>> = LazyLock::new(|| {
    FontRef::try_from_slice(include_bytes!("../../fonts/dejavu-sans.ttf"))
        .expect("a test reads this font")
});

/// Height of a capital or a digit, as a share of the size of a text.
pub(super) const CAPITAL: f32 = 0.729;
/// Height of a line with what rises above capitals and falls below the baseline.
pub(super) const LINE: f32 = ASCENT + DESCENT;
/// How far a line reaches above its baseline …
pub(super) const ASCENT: f32 = 0.928;
/// … and below.
pub(super) const DESCENT: f32 = 0.236;

/// Glyphs of a line, each at its place on a baseline through the origin, and the width of all.
fn set(size: f32, text: &str) -> (Vec<Glyph>, f32) {
    let font = FONT.as_scaled(PxScale::from(size * LINE));
    let mut glyphs: Vec<Glyph> = Vec::new();
    let mut right = 0.0;
    for character in text.chars() {
        let mut glyph = font.scaled_glyph(character);
        if let Some(before) = glyphs.last() {
            right += font.kern(before.id, glyph.id);
        }
        glyph.position = point(right, 0.0);
        right += font.h_advance(glyph.id);
        glyphs.push(glyph);
    }
    (glyphs, right)
}

/// Width of a line in pixels; `size` is the font size, in pixels.
pub(super) fn width(size: f32, text: &str) -> f32 {
    set(size, text).1
}

/// Calls `visit` with each pixel that a line inks and the share of it that is covered.
///
/// The line starts at a place on its baseline. A character without a glyph is drawn as a box.
pub(super) fn ink(size: f32, text: &str, start: [f32; 2], mut visit: impl FnMut(i32, i32, f32)) {
    for mut glyph in set(size, text).0 {
        glyph.position += point(start[0], start[1]);
        if let Some(outline) = FONT.outline_glyph(glyph) {
            let corner = outline.px_bounds().min;
            let [left, top] = [corner.x, corner.y].map(|side| side as i32);
            outline.draw(|x, y, coverage| {
                let at = (
                    left.saturating_add_unsigned(x),
                    top.saturating_add_unsigned(y),
                );
                visit(at.0, at.1, coverage);
            });
        }
    }
}

/// Cuts a line to `most` pixels; a cut line ends in three dots.
pub(super) fn fit(size: f32, most: f32, text: &str) -> String {
    let (glyphs, all) = set(size, text);
    if all <= most {
        return text.to_owned();
    }
    let room = most - width(size, "…");
    let ends = glyphs.iter().skip(1).map(|glyph| glyph.position.x);
    let kept = ends.take_while(|end| *end <= room).count();
    if kept == 0 {
        return String::new();
    }
    let start: String = text.chars().take(kept).collect();
    start.trim_end().to_owned() + "…"
}

/// Breaks text at spaces into lines of `most` pixels; at most `lines` of them, each cut where it is too long.
pub(super) fn wrap(size: f32, most: f32, lines: usize, text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            let longer = format!("{line}{}{word}", if line.is_empty() { "" } else { " " });
            let is_full = !line.is_empty() && width(size, &longer) > most;
            if is_full && found.len() + 1 < lines {
                found.push(std::mem::replace(&mut line, word.to_owned()));
            } else {
                line = longer;
            }
        }
        found.push(line);
    }
    found.truncate(lines);
    found.iter().map(|line| fit(size, most, line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(text: &str) -> f32 {
        let mut area = 0.0;
        ink(40.0, text, [0.0, 40.0], |_, _, coverage| area += coverage);
        area
    }

    #[test]
    fn what_people_write_has_glyphs() {
        let boxed = FONT.glyph_id('\u{10ffff}');
        let other = "äéñßÅαβγδθλμπσωΔΣΩ×±·−–—“”‘’…°²³½≤≥≈≠∞∧∨¬→†∈";
        for character in (' '..='~').chain(other.chars()) {
            assert_ne!(FONT.glyph_id(character), boxed, "`{character}`");
        }
        assert!(area("\u{10ffff}") > 0.0, "others are a box");
    }

    #[test]
    fn the_font_has_the_heights_that_are_used() {
        let font = FONT.as_scaled(PxScale::from(LINE));
        assert!((font.ascent() - ASCENT).abs() < 1e-3);
        assert!((font.descent() + DESCENT).abs() < 1e-3);
        let mut rows = Vec::new();
        ink(100.0, "H", [0.0, 0.0], |_, y, coverage| {
            if coverage > 0.5 {
                rows.push(y);
            }
        });
        let tall = rows.iter().max().unwrap() - rows.iter().min().unwrap() + 1;
        assert_eq!(tall, (100.0 * CAPITAL).round() as i32);
        assert_eq!(rows.iter().max(), Some(&-1), "it stands on the baseline");
    }

    #[test]
    fn ink_lies_within_the_width_and_grows_with_the_size() {
        let [small, large] = [20.0, 40.0].map(|size| width(size, "Hi, there"));
        assert!((large / small - 2.0).abs() < 1e-3);
        let mut places = Vec::new();
        ink(40.0, "Hi, there", [5.0, 60.0], |x, _, _| places.push(x));
        assert!(places.iter().all(|x| (5..=6 + large as i32).contains(x)));
        assert!(area("ii") > 1.9 * area("i"));
        assert_eq!((area(" "), width(20.0, "")), (0.0, 0.0));
    }

    #[test]
    fn a_line_that_fits_is_kept_and_a_longer_one_ends_in_dots() {
        let room = width(20.0, "samples…");
        assert_eq!(fit(20.0, room, "samples"), "samples");
        assert_eq!(fit(20.0, room, "samples of everything"), "samples…");
        assert_eq!(fit(20.0, 1.0, "samples"), "");
        let long = fit(20.0, 300.0, &"long ".repeat(10_000));
        assert!(width(20.0, &long) <= 300.0 && long.len() > 20, "{long}");
    }

    #[test]
    fn text_breaks_at_spaces_and_at_given_line_ends() {
        let room = width(20.0, "one two");
        assert_eq!(
            wrap(20.0, room, 3, "one two six\nend"),
            ["one two", "six", "end"]
        );
        assert_eq!(wrap(20.0, room, 2, ""), Vec::<String>::new());
        let lines = wrap(20.0, room, 2, "one two three four five");
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0], "one two");
        assert!(lines[1].ends_with('…'), "{lines:?}");
    }
}
