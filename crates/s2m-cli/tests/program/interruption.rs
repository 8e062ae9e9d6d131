//! Killed at any moment and run again, a command ends with the same bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use super::{program, run};

/// Every file under a folder, without the report's seconds.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(at) = waiting.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            let mut bytes = fs::read(&path).unwrap();
            if path.ends_with("report.json") {
                let text = String::from_utf8(bytes).unwrap();
                let lines = text.lines().filter(|line| !line.contains("\"seconds\""));
                bytes = lines.collect::<Vec<_>>().join("\n").into_bytes();
            }
            files.push((path.strip_prefix(folder).unwrap().to_owned(), bytes));
        }
    }
    files.sort();
    files
}

/// Starts a command, kills it after a while, and says whether it was still running.
fn killed(folder: &Path, arguments: &[&str], after: Duration) -> bool {
    let mut child = program(folder)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    sleep(after);
    let running = child.try_wait().unwrap().is_none();
    let _ = child.kill();
    child.wait().unwrap();
    running
}

#[test]
fn a_bank_that_was_killed_again_and_again_ends_with_the_same_bytes() {
    let root = tempfile::tempdir().unwrap();
    let mine = |out| ["mine", "gaussians-exact", "-n", "900000", "--out", out];
    assert_eq!(run(root.path(), &mine("whole")).code, 0);
    let mut kills = 0;
    for after in [120, 180, 260, 350, 200, 150] {
        kills += usize::from(killed(
            root.path(),
            &mine("bank"),
            Duration::from_millis(after),
        ));
    }
    let ran = run(root.path(), &mine("bank"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    println!("killed {kills} times; {}", ran.err.trim());
    assert!(kills > 0, "at least one run was really interrupted");
    assert_eq!(
        contents(&root.path().join("whole")),
        contents(&root.path().join("bank"))
    );
}

#[test]
fn a_draw_that_was_killed_goes_on_and_ends_with_the_same_bytes() {
    let root = tempfile::tempdir().unwrap();
    let draw = |out| {
        [
            "sample",
            "gaussians-exact",
            "A - B",
            "-n",
            "4000",
            "--sampler",
            "mh",
            "--steps",
            "300",
            "--seed",
            "2",
            "--out",
            out,
        ]
    };
    assert_eq!(run(root.path(), &draw("whole")).code, 0);
    let mut kills = 0;
    for after in [150, 300, 250] {
        kills += usize::from(killed(
            root.path(),
            &draw("out"),
            Duration::from_millis(after),
        ));
        assert!(
            !root.path().join("out").exists() || kills < 3,
            "nothing appears before it is whole"
        );
    }
    let journal = root.path().join("out.partial/logits.journal");
    let kept = fs::metadata(&journal).map_or(0, |m| m.len());
    let ran = run(root.path(), &draw("out"));
    // A run that was faster than the first wait is complete already, which is refused politely.
    assert!(
        ran.code == 0 || ran.err.contains("already holds files"),
        "{}",
        ran.err
    );
    println!("killed {kills} times, {kept} bytes of logits kept");
    assert!(
        kills > 0 && kept > 0,
        "at least one run was really interrupted"
    );
    assert_eq!(
        contents(&root.path().join("whole")),
        contents(&root.path().join("out"))
    );
    assert!(!root.path().join("out.partial").exists());
}
