//! Who is answered: this very page, opened with the token that was printed.
//!
//! A page of another site can make a browser send requests here, and can make its own name resolve to this address. So the
//! host must be a name of the loopback address, the origin must be this page's, and everything but the page itself needs
//! the token, in a header that no other site can set.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::refused::Refused;
use crate::shared::Shared;

/// The header that carries the token.
pub(crate) const TOKEN: &str = "s2m-token";

/// Names of the loopback address.
const HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// Nothing but what this server serves, and pictures in the page itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Lets a request through or refuses it, and adds the headers that every answer has.
pub(crate) async fn guard(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match check(&shared, &request) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn check(shared: &Shared, request: &Request) -> Result<(), Refused> {
    let headers = request.headers();
    let host = host(headers, shared.port)?;
    if !from_here(headers, host) {
        return Err(Refused::new(
            StatusCode::FORBIDDEN,
            "another site has sent this request",
        ));
    }
    if !request.uri().path().starts_with("/api/") {
        return Ok(());
    }
    let token = one(headers, TOKEN);
    if !token.is_some_and(|token| same(token.as_bytes(), shared.token.as_bytes())) {
        return Err(Refused::new(
            StatusCode::UNAUTHORIZED,
            "the token is missing or wrong\nhint: open the address that `s2m serve` printed",
        ));
    }
    let json = one(headers, CONTENT_TYPE.as_str()).is_some_and(|kind| kind == "application/json");
    if request.method() == Method::POST && !json {
        return Err(Refused::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body must be application/json",
        ));
    }
    Ok(())
}

/// The host of a request, if it is a name of this server.
fn host(headers: &HeaderMap, port: u16) -> Result<&str, Refused> {
    let known = |host: &&str| HOSTS.iter().any(|name| *host == format!("{name}:{port}"));
    one(headers, HOST.as_str()).filter(known).ok_or_else(|| {
        Refused::new(
            StatusCode::MISDIRECTED_REQUEST,
            "this server answers on the loopback address only",
        )
    })
}

/// Whether a browser says nothing of another site.
fn from_here(headers: &HeaderMap, host: &str) -> bool {
    let origins = headers.get_all(ORIGIN).iter();
    let own = format!("http://{host}");
    let mut sites = headers.get_all("sec-fetch-site").iter();
    origins
        .into_iter()
        .all(|origin| origin.as_bytes() == own.as_bytes())
        && sites.all(|site| site == "same-origin" || site == "none")
}

/// A header that is there once.
fn one<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(first)
}

/// Whether two texts are the same, in a time that does not tell how far they are.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differ = a
        .iter()
        .zip(b)
        .fold(0, |differ, (x, y)| std::hint::black_box(differ | (x ^ y)));
    a.len() == b.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        assert!(same(b"abc", b"abc"));
        for other in ["", "ab", "abd", "abcd", "bbc"] {
            assert!(!same(other.as_bytes(), b"abc"), "{other}");
        }
    }

    #[test]
    fn a_host_is_a_name_of_the_loopback_address_with_the_port() {
        let mut headers = HeaderMap::new();
        for (value, good) in [
            ("127.0.0.1:80", true),
            ("localhost:80", true),
            ("[::1]:80", true),
            ("127.0.0.1", false),
            ("127.0.0.1:81", false),
            ("localhost.evil.example:80", false),
            ("evil.example:80", false),
            ("127.0.0.1:80@evil.example", false),
            ("", false),
        ] {
            headers.insert(HOST, HeaderValue::from_static(value));
            assert_eq!(host(&headers, 80).is_ok(), good, "{value}");
        }
        headers.insert(HOST, HeaderValue::from_static("localhost:80"));
        headers.append(HOST, HeaderValue::from_static("evil.example"));
        assert!(host(&headers, 80).is_err());
    }

    #[test]
    fn an_origin_is_the_page_itself() {
        for (origin, good) in [
            ("http://localhost:80", true),
            ("https://localhost:80", false),
            ("http://localhost:81", false),
            ("http://evil.example", false),
            ("null", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
            assert_eq!(from_here(&headers, "localhost:80"), good, "{origin}");
        }
        let mut headers = HeaderMap::new();
        assert!(from_here(&headers, "localhost:80"));
        headers.insert("sec-fetch-site", HeaderValue::from_static("cross-site"));
        assert!(!from_here(&headers, "localhost:80"));
    }
}
