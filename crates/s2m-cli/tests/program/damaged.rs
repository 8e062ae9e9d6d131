//! The program itself on damaged files: it ends with an answer or with an error of one line and a hint, and
//! touches nothing but `--out`.
//!
//! `mutations` in `crates/s2m/tests` reads more kinds of them without starting a program.

use std::fs;
use std::path::Path;

use s2m_model::bundle;
use s2m_testkit::damage::survive_slow;
use s2m_testkit::exact;
use s2m_testkit::folder::contents;

use super::{Ran, program, run};

/// What a command has to say about a file that it cannot use.
#[track_caller]
fn is_one_line_and_a_hint(ran: &Ran) {
    assert_eq!(ran.code, 2, "{}", ran.err);
    let lines: Vec<&str> = ran.err.lines().collect();
    let fits = match lines[..] {
        [error] => error.starts_with("error: "),
        [error, hint] => error.starts_with("error: ") && hint.starts_with("hint: "),
        _ => false,
    };
    assert!(fits, "{}", ran.err);
}

/// A folder `in` with a bundle, a bank and a proposal; `out` beside it is for results.
fn workshop(root: &Path) -> std::path::PathBuf {
    let folder = root.join("in");
    fs::create_dir(&folder).unwrap();
    bundle::write(&folder.join("toy.s2m"), &exact::gaussians_exact()).unwrap();
    let mine = ["mine", "toy.s2m", "-n", "300", "--out", "bank"];
    assert_eq!(run(&folder, &mine).code, 0);
    let adapt = [
        "adapt", "toy.s2m", "A - B", "-n", "50", "--adapt", "once", "--out", "proposal",
    ];
    let ran = run(&folder, &adapt);
    assert_eq!(ran.code, 0, "{}", ran.err);
    folder
}

/// Damages one file, and types the same line again and again.
fn try_with(file: &str, typed: &[&str]) {
    let root = tempfile::tempdir().unwrap();
    let folder = workshop(root.path());
    let beside =
        |name: &String| name != "in" && !name.starts_with("out") && !name.starts_with(".out");
    survive_slow("program", &folder, file, &|folder| {
        let line = [typed, &["--quiet", "--force", "--out", "../out"]].concat();
        let ran = run(folder, &line);
        assert!((0..=2).contains(&ran.code), "{}: {}", ran.code, ran.err);
        if ran.code == 2 {
            is_one_line_and_a_hint(&ran);
        }
        let names = super::careless::names(root.path());
        assert!(!names.iter().any(beside), "{names:?}");
        ran.code == 0
    });
}

#[test]
fn damaged_manifests() {
    let draw = ["sample", "toy.s2m", "A - B", "-n", "20"];
    try_with("toy.s2m/model.toml", &draw);
}

#[test]
fn damaged_banks() {
    let draw = ["sample", "toy.s2m", "A - B", "-n", "20", "--bank", "bank"];
    try_with("bank/bank.toml", &draw);
    try_with("bank/part-00000000.parquet", &draw);
}

#[test]
fn damaged_proposals() {
    let draw = [
        "sample",
        "toy.s2m",
        "A - B",
        "-n",
        "20",
        "--proposal",
        "proposal",
    ];
    try_with("proposal/proposal.json", &draw);
    try_with("proposal/mixture.bin", &draw);
}

/// What an interrupted run has left: the same line ends with the same samples, or says what is in its way.
#[test]
fn damaged_leftovers() {
    let draw = [
        "sample",
        "gaussians-exact",
        "A - B",
        "-n",
        "20",
        "--quiet",
        "--out",
        "out",
    ];
    let whole = tempfile::tempdir().unwrap();
    assert_eq!(run(whole.path(), &draw).code, 0);
    let wanted = contents(&whole.path().join("out"), &["seconds"]);
    let root = tempfile::tempdir().unwrap();
    let stopped = program(root.path())
        .args(draw)
        .env("S2M_FAULT", "before:output-write:kill")
        .output()
        .unwrap();
    assert!(!stopped.status.success());
    for file in ["out.partial/logits.journal", "out.partial/request.txt"] {
        survive_slow("program", root.path(), file, &|left| {
            // Typed in a copy, since going on changes what was left.
            let copy = tempfile::tempdir().unwrap();
            for (name, bytes) in contents(left, &[]) {
                let path = copy.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            }
            let ran = run(copy.path(), &draw);
            if ran.code == 0 {
                assert!(contents(&copy.path().join("out"), &["seconds"]) == wanted);
            } else {
                is_one_line_and_a_hint(&ran);
            }
            ran.code == 0
        });
    }
}

/// What is wrong with a bank's description, and where.
#[test]
fn a_damaged_description_of_a_bank_is_told_in_one_line() {
    let root = tempfile::tempdir().unwrap();
    let folder = workshop(root.path());
    let file = folder.join("bank/bank.toml");
    let sound = fs::read_to_string(&file).unwrap();
    for (from, to, why) in [
        ("seed = 0", "seed = zero", "line 6: "),
        ("seed = 0", "sed = 0", "line 6: unknown field `sed`"),
        ("seed = 0\n", "", "missing field `seed`"),
        ("seed = 0", "seed = -1", "line 6: invalid value"),
        ("format = 1", "format = 7", "format 7 is not known"),
        ("format = 1", "", "missing field `format`"),
        ("[", "[[[", "line 5: "),
    ] {
        assert!(sound.contains(from), "{sound}");
        fs::write(&file, sound.replacen(from, to, 1)).unwrap();
        for typed in [
            &["sample", "toy.s2m", "A", "--bank", "bank", "--out", "out"][..],
            &["classes", "toy.s2m", "--bank", "bank"],
            &["mine", "toy.s2m", "-n", "400", "--out", "bank"],
        ] {
            let ran = run(&folder, typed);
            is_one_line_and_a_hint(&ran);
            assert!(
                ran.err.starts_with("error: `bank/bank.toml`: ") && ran.err.contains(why),
                "{to}: {}",
                ran.err
            );
        }
    }
}
