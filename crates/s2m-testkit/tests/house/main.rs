//! Rules of the house that no compiler checks: how long files are, what messages of libraries say, how modules depend on each
//! other, and that CONTRIBUTING names the files that are there and those that have to be touched.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cycles;
mod lists;
mod source;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Most lines of a file.
const LONGEST: usize = 700;

/// Crates that people link, whose messages know nothing of a command line.
const LIBRARIES: [&str; 11] = [
    "s2m",
    "s2m-calibrate",
    "s2m-core",
    "s2m-data",
    "s2m-eval",
    "s2m-fit",
    "s2m-metrics",
    "s2m-model",
    "s2m-runs",
    "s2m-serve",
    "s2m-show",
];

/// Command lines that are made here, and are no messages: what the trainer is started with, and what a visitor of
/// the page can copy.
const COMMAND_LINES: [&str; 2] = ["s2m-fit/src/trainer.rs", "s2m-serve/src/lines.rs"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// All Rust files below a folder, by their paths from there.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn no_file_is_too_long_to_read() {
    let files = ["crates", "benches"].map(|folder| rust_files(&root().join(folder)));
    for file in files.iter().flatten() {
        let lines = fs::read_to_string(file).unwrap().lines().count();
        assert!(lines <= LONGEST, "{}: {lines} lines", file.display());
    }
}

/// Whether a line of code has `--` and a letter behind it, as flags have.
fn names_a_flag(line: &str) -> bool {
    let code = line.trim_start();
    let flag = |(at, _): (usize, &str)| {
        let before = line[..at].chars().next_back();
        let after = line[at + 2..].chars().next();
        before != Some('-') && after.is_some_and(|c| c.is_ascii_lowercase())
    };
    !code.starts_with("//") && line.match_indices("--").any(flag)
}

#[test]
fn flags_are_told_from_dashes_and_comments() {
    assert!(names_a_flag("\"raise --purity\""));
    for line in [
        "/// `--purity`",
        "a - b",
        "\"---\"",
        "x -= 1; // --",
        "\"--{}\"",
    ] {
        assert!(!names_a_flag(line), "{line}");
    }
}

#[test]
fn messages_of_libraries_name_settings_and_no_flags() {
    for library in LIBRARIES {
        let crates = root().join("crates");
        for file in rust_files(&crates.join(library).join("src")) {
            let name = file.strip_prefix(&crates).unwrap().to_str().unwrap();
            if name.ends_with("tests.rs") || COMMAND_LINES.contains(&name) {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            // Tests are at the end of a file.
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            for (number, line) in code.lines().enumerate() {
                assert!(
                    !names_a_flag(line),
                    "{name}:{}: {}\nhint: `Setting` of s2m-core names it in messages, as each program calls it",
                    number + 1,
                    line.trim()
                );
            }
        }
    }
}

/// The word after a place in code.
fn argument<'c>(code: &'c str, call: &str) -> Vec<&'c str> {
    let after = code
        .match_indices(call)
        .map(|(at, _)| &code[at + call.len()..]);
    after.filter_map(source::word).collect()
}

#[test]
fn streams_of_random_numbers_are_numbered_in_one_place() {
    let crates = root().join("crates");
    for file in rust_files(&crates) {
        let name = file.strip_prefix(&crates).unwrap().to_str().unwrap();
        if !name.contains("/src/")
            || name.ends_with("tests.rs")
            || name == "s2m-core/src/streams.rs"
        {
            continue;
        }
        let source = source::Source::read(&file);
        assert!(
            source.variants("Purpose").is_none(),
            "{name} has purposes of its own"
        );
        for stage in argument(&source.code, ".at_stage(") {
            let own = stage.starts_with(|c: char| c.is_ascii_digit()) || stage == "u16";
            assert!(
                !own,
                "{name} numbers a stream itself: {stage}\nhint: `s2m-core/src/streams.rs` has the list"
            );
        }
    }
    assert_eq!(
        argument("p.at_stage(3).at_stage(u16::MAX) at_stage(x)", ".at_stage("),
        ["3", "u16"]
    );
}

/// The section of CONTRIBUTING under a heading.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let (_, rest) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    rest.split("\n## ").next().unwrap()
}

/// Paths that a text names, as it names them: words with a slash, and documents.
fn named_paths<'a>(words: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let is_path = |word: &&str| {
        let end = word.rsplit_once('.').map(|(_, end)| end);
        let document = matches!(end, Some("md" | "toml"));
        !word.contains([' ', '…']) && (word.contains('/') || document)
    };
    words.filter(is_path).collect()
}

fn between_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Files and folders of the project, by their paths from the root.
fn everything() -> Vec<String> {
    let root = root();
    let mut found = Vec::new();
    let parts = [
        "crates",
        "docs",
        "experiments",
        "models",
        "tools",
        "benches",
    ];
    let mut open: Vec<PathBuf> = parts.iter().map(|part| root.join(part)).collect();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.strip_prefix(&root).unwrap().display().to_string());
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    found.push("CHANGELOG.md".to_owned());
    found
}

/// Whether a path is there, as a whole or as the end of one; of a name that a contributor is to choose, the folder.
fn is_there(path: &str, all: &[String]) -> bool {
    let fixed = path.split("NAME").next().unwrap_or_default();
    let fixed = if fixed.len() < path.len() {
        fixed.rsplit_once('/').map_or("", |(folder, _)| folder)
    } else {
        fixed.trim_end_matches('/')
    };
    let end = format!("/{fixed}");
    fixed.is_empty() || all.iter().any(|one| one == fixed || one.ends_with(&end))
}

#[test]
fn every_file_that_contributing_names_is_there() {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let (_, guide) = text.split_once("\n## Adding a sampler\n").unwrap();
    let request = section(&text, "One request, file by file");
    let request = request.split("```").nth(1).unwrap();
    let words = request.split([' ', '\n', '(', ')', ',']);
    let named = named_paths(between_backticks(guide).chain(words));
    assert!(named.len() > 50, "{named:?}");
    let all = everything();
    for path in named {
        assert!(is_there(path, &all), "CONTRIBUTING names `{path}`");
    }
    for absent in ["s2m-core/src/nowhere.rs", "nowhere/NAME.rs"] {
        assert!(!is_there(absent, &all), "{absent}");
    }
}
