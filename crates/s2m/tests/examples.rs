//! The examples run, and print what is written here.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(dead_code, reason = "their `main` is not called here")]

use std::error::Error;

#[path = "../examples/bank.rs"]
mod bank;
#[path = "../examples/digits.rs"]
mod digits;
#[path = "../examples/metrics.rs"]
mod metrics;
#[path = "../examples/own_generator.rs"]
mod own_generator;
#[path = "../examples/rare.rs"]
mod rare;

fn printed(run: impl FnOnce(&mut dyn std::io::Write) -> Result<(), Box<dyn Error>>) -> String {
    let mut out = Vec::new();
    run(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn digits_are_drawn_into_an_array() {
    let text = printed(|out| digits::run(out));
    let (first, picture) = text.split_once('\n').unwrap();
    assert!(first.starts_with("64 pictures of 28 x 28 x 1, "), "{first}");
    assert_eq!(picture.lines().count(), 28);
    // A digit has ink in its middle, and none in its corners.
    assert!(picture.contains('@') && picture.lines().next() == Some(""));
}

#[test]
fn a_bank_answers_two_queries() {
    let root = tempfile::tempdir().unwrap();
    let text = printed(|out| bank::run(&root.path().join("bank"), out));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "20000 proposals in the bank");
    for (line, query) in lines[1..].iter().zip(["A - B", "A | B"]) {
        let told = line.strip_prefix(&format!("{query}: 1000 items, "));
        let (taken, of) = told.unwrap().split_once(" of ").unwrap();
        assert_eq!(of, format!("{taken} proposals from the bank"));
    }
}

#[test]
fn networks_of_ones_own_need_no_folder() {
    let text = printed(|out| own_generator::run(out));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..3], ["100 of 100 points are right"; 3]);
    assert_eq!(lines[3], "25 % of the proposals are accepted");
}

#[test]
fn rare_items_cost_less_after_adaptation() {
    let text = printed(|out| rare::run(out));
    let calls = |line: &str| -> f64 {
        let (_, told) = line.split_once(": ").unwrap();
        told.split_once(' ').unwrap().0.parse().unwrap()
    };
    let lines: Vec<&str> = text.lines().collect();
    // One in a thousand as it is; adaptation is worth at least a factor of ten.
    assert!((900.0..1200.0).contains(&calls(lines[0])), "{text}");
    assert!(calls(lines[1]) < 0.1 * calls(lines[0]), "{text}");
    assert!(lines.iter().all(|line| line.contains("axis 3.3")), "{text}");
}

#[test]
fn samples_are_measured_in_memory() {
    let text = printed(|out| metrics::run(out));
    let distance = |line: &str| -> f64 {
        let (_, told) = line.split_once("distance ").unwrap();
        told.split_once(',').unwrap().0.parse().unwrap()
    };
    let [trained, exact] = [0, 1].map(|at| distance(text.lines().nth(at).unwrap()));
    assert!(exact < trained && exact < 0.01, "{text}");
}
