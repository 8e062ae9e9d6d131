//! Other sites, other names, other tokens, and clients that send what nobody expects.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use s2m_serve::limits;
use serde_json::{Value, json};

use crate::client::{Page, asked, read};

const POSTS: [&str; 8] = [
    "/api/enter",
    "/api/check",
    "/api/predict",
    "/api/draw",
    "/api/stop",
    "/api/explain",
    "/api/more",
    "/api/download",
];

#[test]
fn the_page_is_served_with_strict_headers_and_holds_no_inline_script() {
    let page = Page::open("gaussians-exact");
    for (path, kind) in [
        ("/", "text/html"),
        ("/page.css", "text/css"),
        ("/page.js", "text/javascript"),
        ("/theme.js", "text/javascript"),
        ("/icon.svg", "image/svg+xml"),
    ] {
        let answer = page.get(path);
        assert_eq!(answer.status, 200, "{path}");
        for header in [
            &format!("content-type: {kind}"),
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'",
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(
                answer.head.contains(header),
                "{path}: {header}\n{}",
                answer.head
            );
        }
        assert!(!answer.head.contains("access-control"), "{}", answer.head);
    }
    let html = String::from_utf8(page.get("/").body).unwrap();
    assert!(!html.contains("onclick") && !html.contains("<style") && !html.contains("style=\""));
    assert_eq!(html.matches("<script").count(), 2);
    assert_eq!(html.matches("<script src=\"/").count(), 2);
    // Nothing comes from elsewhere.
    for path in ["/", "/page.css", "/page.js", "/theme.js"] {
        let text = String::from_utf8(page.get(path).body).unwrap();
        assert!(
            !text.contains("http://") && !text.contains("https://"),
            "{path}"
        );
    }
}

#[test]
fn without_the_token_nothing_is_answered() {
    let page = Page::open("gaussians-exact");
    let good = page.token.clone();
    let longer = format!("{good}0");
    let other = format!(
        "{}{}",
        if good.starts_with('0') { '1' } else { '0' },
        &good[1..]
    );
    let tokens = ["", &good[1..], &longer, &other, &good.to_uppercase()];
    for token in tokens.iter().filter(|token| **token != good) {
        for path in POSTS {
            let request = page
                .posted(path, "x", &asked("A", 4, 0))
                .replace(&good, token);
            let answer = page.raw(request.as_bytes()).unwrap();
            assert_eq!(answer.status, 401, "{path} with `{token}`");
            assert_eq!(answer.why(), "the token is missing or wrong");
        }
        for path in ["/api/state", "/api/classes", "/api/nothing"] {
            let request = format!("{}\r\n", page.head("GET", path)).replace(&good, token);
            assert_eq!(page.raw(request.as_bytes()).unwrap().status, 401, "{path}");
        }
    }
    let twice = format!(
        "{}s2m-token: {good}\r\n\r\n",
        page.head("GET", "/api/state")
    );
    assert_eq!(page.raw(twice.as_bytes()).unwrap().status, 401);
    let address = format!(
        "{}\r\n",
        page.head("GET", &format!("/api/state?token={good}"))
    );
    let address = address.replace(&format!("s2m-token: {good}\r\n"), "");
    assert_eq!(page.raw(address.as_bytes()).unwrap().status, 401);
    assert_eq!(page.state()["visitors"], 0);
}

/// A name of somebody else that leads to this address does not help, with or without the token.
#[test]
fn other_hosts_and_other_origins_are_refused() {
    let page = Page::open("gaussians-exact");
    let own = format!("host: 127.0.0.1:{}\r\n", page.port);
    for host in [
        "host: evil.example\r\n".to_owned(),
        format!("host: evil.example:{}\r\n", page.port),
        "host: 127.0.0.1\r\n".to_owned(),
        "host: 127.0.0.1:1\r\n".to_owned(),
        format!("host: 127.0.0.1.evil.example:{}\r\n", page.port),
        format!("{own}host: evil.example\r\n"),
        "host: \r\n".to_owned(),
        String::new(),
    ] {
        for path in ["/", "/api/state", "/page.js"] {
            let request = format!("{}\r\n", page.head("GET", path)).replace(&own, &host);
            let status = page
                .raw(request.as_bytes())
                .map_or(0, |answer| answer.status);
            assert!([0, 400, 421].contains(&status), "{host:?} {path}: {status}");
        }
    }
    for header in [
        "origin: http://evil.example".to_owned(),
        "origin: null".to_owned(),
        format!("origin: https://127.0.0.1:{}", page.port),
        format!("origin: http://127.0.0.1:{}.evil.example", page.port),
        format!("origin: http://localhost:{}", page.port),
        "sec-fetch-site: cross-site".to_owned(),
        "sec-fetch-site: same-site".to_owned(),
    ] {
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/api/state"),
            ("OPTIONS", "/api/draw"),
        ] {
            let request = format!("{}{header}\r\n\r\n", page.head(method, path));
            let answer = page.raw(request.as_bytes()).unwrap();
            assert_eq!(answer.status, 403, "{header} {path}");
            assert!(!answer.head.contains("access-control"), "{}", answer.head);
        }
    }
    let good = format!(
        "{}origin: http://127.0.0.1:{}\r\nsec-fetch-site: same-origin\r\n\r\n",
        page.head("GET", "/api/state"),
        page.port
    );
    assert_eq!(page.raw(good.as_bytes()).unwrap().status, 200);
    let local = good.replace("127.0.0.1", "localhost");
    assert_eq!(page.raw(local.as_bytes()).unwrap().status, 200);
}

#[test]
fn no_path_leads_anywhere_else() {
    let page = Page::open("gaussians-exact");
    for path in [
        "/../../../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/page.js/../../Cargo.toml",
        "/page.js/",
        "//etc/passwd",
        "/./page.js%00.html",
        "/model.toml",
        "/index.html",
        "/api/../../etc/passwd",
        "/api/%2e%2e/page.js",
        "/api/draw/../../etc/passwd",
        "http://evil.example/etc/passwd",
        "*",
    ] {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE"] {
            let request = format!(
                "{}content-type: application/json\r\n\r\n",
                page.head(method, path)
            );
            let status = page
                .raw(request.as_bytes())
                .map_or(0, |answer| answer.status);
            assert!(
                [0, 400, 404, 405].contains(&status),
                "{method} {path}: {status}"
            );
        }
    }
    assert_eq!(page.get("/api/draw").status, 405);
}

#[test]
fn huge_and_malformed_bodies_are_refused_in_words() {
    let page = Page::open("gaussians-exact");
    let visitor = page.enter();
    let status = |path: &str, body: &Value| {
        let answer = page.post(path, &visitor, body);
        (answer.status, answer.why())
    };
    let (code, why) = status("/api/check", &asked(&"A".repeat(limits::BODY), 4, 0));
    assert_eq!(
        (code, why.as_str()),
        (413, "the body is too large, or broke off")
    );
    let (code, why) = status("/api/check", &asked(&"A".repeat(limits::QUERY + 1), 4, 0));
    assert_eq!(
        (code, why.as_str()),
        (
            422,
            "the query is 1001 bytes long; at most 1000 are read here"
        )
    );
    for (body, said) in [
        (json!({}), "missing field `query`"),
        (json!([]), "invalid length"),
        (
            json!({ "query": 3, "n": 1, "seed": 0, "purity": null }),
            "invalid type",
        ),
        (
            json!({ "query": "A", "n": -1, "seed": 0, "purity": null }),
            "invalid value",
        ),
        (
            json!({ "query": "A", "n": 1, "seed": 0, "purity": null, "out": "/etc" }),
            "unknown field `out`",
        ),
        (
            json!({ "query": "A", "n": 1, "seed": 0, "purity": "x" }),
            "invalid type",
        ),
    ] {
        let (code, why) = status("/api/check", &body);
        assert_eq!(code, 400, "{body}");
        assert!(
            why.starts_with("the body is not understood: ") && why.contains(said),
            "{why}"
        );
    }
    for (body, said) in [
        (
            asked("A", 0, 0),
            "0 samples were asked for; it must be 1 to 2000",
        ),
        (
            asked("A", 1_000_000, 0),
            "1000000 samples were asked for; it must be 1 to 2000",
        ),
        (
            asked("A", 1, u64::MAX),
            "the seed is 18446744073709551615; it must be at most 9007199254740991",
        ),
        (asked("C", 1, 0), "unknown label `C`"),
        (asked("(((", 1, 0), "expected a label"),
        (
            asked("!A", 1, 0),
            "the query also holds for items with no label at all",
        ),
        (
            json!({ "query": "A", "n": 1, "seed": 0, "purity": 1.5 }),
            "the purity is 1.5",
        ),
    ] {
        for path in ["/api/check", "/api/draw", "/api/download"] {
            let (code, why) = status(path, &body);
            assert_eq!(code, 422, "{path} {body}");
            assert!(why.starts_with(said), "{why}");
        }
    }
}

#[test]
fn what_is_no_request_ends_the_connection_and_nothing_else() {
    let page = Page::open("gaussians-exact");
    let nested = format!("{}{}", "[".repeat(4000), "]".repeat(4000));
    let head = page.head("POST", "/api/draw");
    for body in [
        "",
        "{",
        "\u{0}",
        "nul",
        &nested,
        "{\"query\":\"A\",\"n\":1e999,\"seed\":0}",
    ] {
        let request = format!(
            "{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        assert_eq!(
            page.raw(request.as_bytes()).unwrap().status,
            400,
            "{body:.20}"
        );
    }
    for (kind, code) in [
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/json", 413),
    ] {
        let request = format!(
            "{head}content-type: {kind}\r\ncontent-length: 99999999999\r\n\r\n{}",
            "x".repeat(limits::BODY + 1)
        );
        let status = page
            .raw(request.as_bytes())
            .map_or(0, |answer| answer.status);
        assert!(status == code || status == 0, "{kind}: {status}");
    }
    // Bytes that are no request, and headers without end.
    for bytes in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        vec![0; 4096],
        format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20)).into_bytes(),
        format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(5000)).into_bytes(),
        format!("GET /{} HTTP/1.1\r\n\r\n", "z".repeat(1 << 20)).into_bytes(),
    ] {
        let status = page.raw(&bytes).map_or(0, |answer| answer.status);
        assert!([0, 400, 414, 431, 505].contains(&status), "{status}");
    }
    assert_eq!(page.state()["drawing"], 0);
}

#[test]
fn strangers_draw_nothing() {
    let page = Page::open("gaussians-exact");
    let visitor = page.enter();
    for path in ["/api/draw", "/api/explain", "/api/more", "/api/download"] {
        let body = match path {
            "/api/explain" | "/api/more" => json!({ "proposal": 1 }),
            _ => asked("A", 1, 0),
        };
        let stranger = page.post(path, "nobody", &body);
        assert!(
            [403, 409].contains(&stranger.status),
            "{path}: {}",
            stranger.status
        );
    }
    assert_eq!(
        page.post("/api/explain", &visitor, &json!({ "proposal": 1 }))
            .why(),
        "nothing was drawn to its end yet"
    );
    assert_eq!(page.state()["drawing"], 0);
}

/// Clients that send a little and then nothing are let go in time, and nobody else waits for them.
#[test]
fn slow_clients_are_let_go_and_hold_nobody_up() {
    let page = Page::open("gaussians-exact");
    let began = Instant::now();
    let slow: Vec<_> = (0..limits::CONNECTIONS / 2)
        .map(|at| {
            let mut stream = page.connect();
            let part = match at % 3 {
                0 => "GET / HT".to_owned(),
                1 => String::new(),
                _ => format!(
                    "{}content-type: application/json\r\ncontent-length: 50\r\n\r\n{{",
                    page.head("POST", "/api/check")
                ),
            };
            stream.write_all(part.as_bytes()).unwrap();
            (at, stream)
        })
        .collect();
    let one = Instant::now();
    assert_eq!(page.get("/api/state").status, 200);
    assert!(one.elapsed() < Duration::from_secs(2));
    for (at, mut stream) in slow {
        if at % 3 == 2 {
            assert_eq!(read(stream).map(|answer| answer.status), Some(408));
        } else {
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).unwrap();
            assert!(rest.len() < 1000);
        }
    }
    let all = began.elapsed();
    assert!(
        all < limits::HEADER_TIME + Duration::from_secs(5),
        "{all:?}"
    );
}
