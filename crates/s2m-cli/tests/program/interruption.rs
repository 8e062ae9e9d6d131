//! Killed at any moment and run again, a command ends with the same bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use super::{program, run};

fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    s2m_testkit::folder::contents(folder, &["seconds"])
}

/// Bytes of all files under a folder; zero where it does not exist.
fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.metadata().map_or(0, |m| m.len()))
        .sum()
}

/// Starts a command and kills it as soon as `growing` has become larger by `bytes`; says whether it
/// was still running then.
fn killed(folder: &Path, arguments: &[&str], growing: &str, bytes: u64) -> bool {
    let growing = folder.join(growing);
    let before = size(&growing);
    let mut child = program(folder)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let running = loop {
        if child.try_wait().unwrap().is_some() {
            break false;
        }
        if size(&growing) > before + bytes {
            break true;
        }
        sleep(Duration::from_millis(2));
    };
    let _ = child.kill();
    child.wait().unwrap();
    running
}

#[test]
fn a_bank_that_was_killed_again_and_again_ends_with_the_same_bytes() {
    let root = tempfile::tempdir().unwrap();
    let mine = |out| ["mine", "gaussians-exact", "-n", "900000", "--out", out];
    assert_eq!(run(root.path(), &mine("whole")).code, 0);
    // Twelve bytes a proposal: at the start, inside a part, and past its end.
    let kills = [1, 600_000, 2_000_000, 4_000_000]
        .iter()
        .filter(|&&bytes| killed(root.path(), &mine("bank"), "bank", bytes))
        .count();
    let ran = run(root.path(), &mine("bank"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    println!("killed {kills} times; {}", ran.err.trim());
    assert!(kills >= 3, "runs were really interrupted: {kills}");
    let (whole, bank) = (root.path().join("whole"), root.path().join("bank"));
    assert!(contents(&whole) == contents(&bank), "the banks differ");
}

/// Moves are made again from the start: they follow the draw, which is kept.
#[test]
fn moves_that_were_killed_end_with_the_same_bytes() {
    let root = tempfile::tempdir().unwrap();
    let draw = |out| {
        let query = ["sample", "gaussians", "A - B", "-n", "3000", "--seed", "2"];
        [&query[..], &["--moves", "20", "--out", out]].concat()
    };
    assert_eq!(run(root.path(), &draw("whole")).code, 0);
    let mut kills = 0;
    for bytes in [1, 400_000] {
        kills += usize::from(killed(root.path(), &draw("out"), "out.partial", bytes));
    }
    let ran = run(root.path(), &draw("out"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(kills >= 1, "runs were really interrupted: {kills}");
    let (whole, out) = (root.path().join("whole"), root.path().join("out"));
    assert!(contents(&whole) == contents(&out), "the draws differ");
}

#[test]
fn a_draw_that_was_killed_goes_on_and_ends_with_the_same_bytes() {
    let root = tempfile::tempdir().unwrap();
    let draw = |out| {
        let query = [
            "sample",
            "gaussians-exact",
            "A - B",
            "-n",
            "4000",
            "--seed",
            "2",
        ];
        [
            &query[..],
            &["--sampler", "mh", "--steps", "300", "--out", out],
        ]
        .concat()
    };
    assert_eq!(run(root.path(), &draw("whole")).code, 0);
    let mut kills = 0;
    for bytes in [1, 1_000_000, 3_000_000] {
        kills += usize::from(killed(root.path(), &draw("out"), "out.partial", bytes));
        assert!(
            !root.path().join("out").exists(),
            "nothing appears before it is whole"
        );
    }
    let journal = root.path().join("out.partial/logits.journal");
    let kept = fs::metadata(&journal).map_or(0, |m| m.len());
    let ran = run(root.path(), &draw("out"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    println!("killed {kills} times, {kept} bytes of logits kept");
    assert!(
        kills == 3 && kept > 1_000_000,
        "runs were really interrupted: {kills}, {kept}"
    );
    let (whole, out) = (root.path().join("whole"), root.path().join("out"));
    assert!(contents(&whole) == contents(&out), "the samples differ");
    assert!(!root.path().join("out.partial").exists());
}

#[test]
fn adapted_draws_of_all_classes_that_were_killed_end_with_the_same_bytes() {
    let root = tempfile::tempdir().unwrap();
    let draw = |out| {
        let wanted = ["sample", "gaussians-exact", "--all-joint", "-n", "4000"];
        let way = ["--adapt", "adaptive", "--sampler", "mh", "--steps", "300"];
        [&wanted[..], &way, &["--out", out]].concat()
    };
    assert_eq!(run(root.path(), &draw("whole")).code, 0);
    let kills = [1, 1_000_000, 10_000_000, 20_000_000]
        .iter()
        .filter(|&&bytes| killed(root.path(), &draw("out"), "out.partial", bytes))
        .count();
    assert!(kills > 2, "{kills} runs were really interrupted");
    assert_eq!(run(root.path(), &draw("out")).code, 0);
    let (whole, out) = (root.path().join("whole"), root.path().join("out"));
    assert!(contents(&whole) == contents(&out), "the samples differ");
    let left = fs::read_dir(&out).unwrap().flatten();
    let names = left.map(|entry| entry.file_name().into_string().unwrap());
    assert!(names.into_iter().all(|name| !name.contains("journal")));
}

#[test]
fn an_adapted_draw_that_was_killed_ends_with_the_same_bytes() {
    let root = tempfile::tempdir().unwrap();
    let draw = |out| {
        let query = [
            "sample",
            "gaussians-exact",
            "A - B",
            "-n",
            "4000",
            "--seed",
            "3",
        ];
        let way = ["--adapt", "adaptive", "--sampler", "mh", "--steps", "300"];
        [&query[..], &way, &["--out", out]].concat()
    };
    assert_eq!(run(root.path(), &draw("whole")).code, 0);
    let mut kills = 0;
    for bytes in [1, 1_000_000] {
        kills += usize::from(killed(root.path(), &draw("out"), "out.partial", bytes));
    }
    assert_eq!(kills, 2, "runs were really interrupted");
    let left = root.path().join("out.partial/files/proposal/proposal.json");
    assert!(
        left.exists(),
        "the second try has kept what the first one found"
    );
    assert_eq!(run(root.path(), &draw("out")).code, 0);
    let (whole, out) = (root.path().join("whole"), root.path().join("out"));
    assert!(contents(&whole) == contents(&out), "the samples differ");
}
