//! Many at once: states by the thousand, fifty visitors.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::time::Instant;

use crate::client::{Page, asked, followed};

/// States over connections that stay open: every request is answered, and at least 1,000 a second.
#[test]
fn a_thousand_states_a_second() {
    const CLIENTS: usize = 8;
    const EACH: usize = 1500;
    let page = Page::open("gaussians-exact");
    page.until("proposals are scored", |state| {
        state["proposals"]["ready"] == true
    });
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let stream = page.connect();
                let _ = stream.set_nodelay(true);
                let mut writer = stream.try_clone().unwrap();
                let mut reader = BufReader::new(stream);
                let request = format!("{}\r\n", page.head("GET", "/api/state"))
                    .replace("connection: close\r\n", "");
                for _ in 0..EACH {
                    writer.write_all(request.as_bytes()).unwrap();
                    let (mut line, mut length) = (String::new(), 0);
                    let mut first = true;
                    while line != "\r\n" {
                        line.clear();
                        reader.read_line(&mut line).unwrap();
                        assert!(
                            !std::mem::take(&mut first) || line.starts_with("HTTP/1.1 200"),
                            "{line}"
                        );
                        if let Some(value) =
                            line.to_ascii_lowercase().strip_prefix("content-length: ")
                        {
                            length = value.trim().parse().unwrap();
                        }
                    }
                    let mut body = vec![0; length];
                    reader.read_exact(&mut body).unwrap();
                    assert!(body.ends_with(b"}"));
                }
            });
        }
    });
    let rate = (CLIENTS * EACH) as f64 / began.elapsed().as_secs_f64();
    println!("{} states, {rate:.0} a second", CLIENTS * EACH);
    assert!(rate >= 1000.0, "{rate:.0} a second");
}

/// Fifty visitors draw at the same time, twice: all get all their samples, the same for the same seed.
#[test]
fn fifty_visitors_at_once() {
    const VISITORS: usize = 50;
    const SAMPLES: usize = 32;
    let page = Page::open("mnist-even");
    page.until("proposals are scored", |state| {
        state["proposals"]["ready"] == true
    });
    for round in 0..2 {
        let began = Instant::now();
        let drawn: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let each = (0..VISITORS).map(|at| {
                let page = &page;
                scope.spawn(move || {
                    let visitor = page.enter();
                    let events = page.draw(&visitor, &asked("A - B", SAMPLES, at as u64 / 2));
                    let (samples, (last, told)) = followed(&events);
                    assert_eq!(last, "done", "{told}");
                    samples
                        .iter()
                        .map(|one| one["proposal"].as_u64().unwrap())
                        .collect()
                })
            });
            let running: Vec<_> = each.collect();
            running.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(drawn.iter().all(|samples| samples.len() == SAMPLES));
        assert!(drawn.chunks(2).all(|pair| pair[0] == pair[1]));
        println!(
            "round {round}: {VISITORS} visitors in {:.1} s",
            began.elapsed().as_secs_f64()
        );
    }
    assert_eq!(page.state()["drawing"], 0);
}
