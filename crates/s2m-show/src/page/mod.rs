//! What pages are made of: the frame of a page, text that is safe in it, and plots.
//!
//! A page holds everything that it shows, loads nothing and runs no script.

pub mod html;
pub mod plots;

use std::fmt::Write as _;

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// A whole page.
pub fn document(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(colours())) }
            }
            body { main { (body) } }
        }
    };
    // A page cannot hold these, not even as references.
    let is_control = |c: char| c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r');
    page.into_string().replace(is_control, "\u{fffd}")
}

/// A part of a page under a title.
pub fn section(title: &str, body: &Markup) -> Markup {
    html! { section { h2 { (title) } (body) } }
}

/// Rules that exchange the colours of plots on a dark page, and dash the line of real items.
fn colours() -> String {
    let mut css = "@media (prefers-color-scheme: dark) {\n".to_owned();
    for [light, dark] in plots::COLOURS.iter().chain([&plots::INK, &plots::GUIDE]) {
        let _ = writeln!(css, "svg [fill=\"{light}\"] {{ fill: {dark}; }}");
        let _ = writeln!(css, "svg [stroke=\"{light}\"] {{ stroke: {dark}; }}");
    }
    let real = plots::COLOURS[0][0];
    let _ = writeln!(
        css,
        "}}\nsvg.curves polyline[stroke=\"{real}\"] {{ stroke-dasharray: 16 8; }}"
    );
    let _ = writeln!(
        css,
        ".legend path[stroke=\"{real}\"] {{ stroke-dasharray: 7 4; }}"
    );
    css
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_becomes_a_tag_or_ends_an_attribute() {
        let outside = "<script>alert('a' && \"b\")</script>\0 É\n";
        let body = html! { p title=(outside) { (outside) } };
        let page = document(outside, &section(outside, &body));
        let safe = "&lt;script&gt;alert('a' &amp;&amp; &quot;b&quot;)&lt;/script&gt;\u{fffd} É\n";
        assert_eq!(page.matches(safe).count(), 4);
        assert!(!page.contains("<script") && !page.contains('\0'));
    }
}
