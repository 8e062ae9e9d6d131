//! What reaches the terminal: names and texts come from bundles and files of strangers, so characters that
//! a terminal would obey are written out, and lines have an end.

use std::borrow::Cow;
use std::io::{self, Write};

/// Most characters of a line of a message.
const MAX_LINE: usize = 400;

/// A stream that writes out what a terminal would obey.
pub(crate) struct Shown<W>(pub(crate) W);

impl<W: Write> Write for Shown<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.0.write_all(escaped(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A text in which control characters, and those that turn the direction of writing, are written out.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let characters = text.chars().map(|c| {
        if is_obeyed(c) {
            c.escape_default().to_string()
        } else {
            c.to_string()
        }
    });
    Cow::Owned(characters.collect())
}

/// Whether a terminal does something else with a character than to show it; lines and tabs may stay.
fn is_obeyed(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control() && c != '\n' && c != '\t'
}

/// A message whose lines are not longer than anybody reads.
pub(crate) fn cut(text: &str) -> String {
    let short = |line: &str| match line.char_indices().nth(MAX_LINE) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    };
    text.lines().map(short).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        let mut out = Vec::new();
        let mut shown = Shown(&mut out);
        let title = "\u{1b}]0;title\u{7}";
        write!(shown, "a\tb\n{title}é\u{9b}2J\u{202e}").unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "a\tb\n\\u{1b}]0;title\\u{7}é\\u{9b}2J\\u{202e}");
        assert!(matches!(escaped("plain, é ✓"), Cow::Borrowed(_)));
    }

    #[test]
    fn long_lines_are_cut_and_short_ones_are_not() {
        let text = format!("{}\nhint: short", "é".repeat(500));
        let wanted = format!("{}…\nhint: short", "é".repeat(400));
        assert_eq!(cut(&text), wanted);
    }
}
