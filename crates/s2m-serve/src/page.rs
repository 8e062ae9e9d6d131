//! The page: a few files inside the program, with no build step and nothing from elsewhere.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

/// A file of the page.
pub(crate) fn file(path: &str) -> Option<impl IntoResponse + use<>> {
    let (kind, text) = match path {
        "/" => (
            "text/html; charset=utf-8",
            include_str!("../page/index.html"),
        ),
        "/page.css" => ("text/css; charset=utf-8", include_str!("../page/page.css")),
        "/page.js" => (
            "text/javascript; charset=utf-8",
            include_str!("../page/page.js"),
        ),
        "/theme.js" => (
            "text/javascript; charset=utf-8",
            include_str!("../page/theme.js"),
        ),
        "/icon.svg" => ("image/svg+xml", include_str!("../page/icon.svg")),
        _ => return None,
    };
    Some(([(CONTENT_TYPE, kind)], text))
}
