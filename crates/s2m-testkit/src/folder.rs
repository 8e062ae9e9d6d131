//! Everything that a command left in a folder, for comparing two runs byte by byte.

use std::fs;
use std::path::{Path, PathBuf};

/// Path and bytes of every file under a folder, in order.
///
/// Lines of `report.json` that name one of the `ignored` fields are left out.
///
/// # Panics
///
/// Where the folder cannot be read: a test that compares it has failed then.
pub fn contents(folder: &Path, ignored: &[&str]) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(at) = waiting.pop() {
        for entry in fs::read_dir(&at).expect("the folder can be read") {
            let path = entry.expect("its entries can be read").path();
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            let mut bytes = fs::read(&path).expect("its files can be read");
            if path.ends_with("report.json") {
                let text = String::from_utf8(bytes).expect("a report is text");
                let names =
                    |line: &&str| ignored.iter().any(|f| line.contains(&format!("\"{f}\"")));
                let kept = text.lines().filter(|line| !names(line));
                bytes = kept.collect::<Vec<_>>().join("\n").into_bytes();
            }
            let name = path.strip_prefix(folder).expect("it lies in the folder");
            files.push((name.to_owned(), bytes));
        }
    }
    files.sort();
    files
}
