//! What pages are made of: the frame of a page, text that is safe in it, and plots.
//!
//! A page holds everything that it shows, loads nothing and runs no script.

pub mod html;
pub mod plots;

use std::fmt::Write as _;

use self::html::escape;

const STYLE: &str = include_str!("style.css");

/// A whole page of a title, not yet safe, and a body that is.
pub fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <style>\n{STYLE}{}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(title),
        colours(),
    )
}

/// A part of a page under a title.
pub fn section(title: &str, body: &str) -> String {
    format!("<section>\n<h2>{title}</h2>\n{body}</section>\n")
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
