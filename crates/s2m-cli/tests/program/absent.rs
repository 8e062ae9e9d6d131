//! Combinations that the data may not hold: `sample` answers no, `--floor 0` draws them anyway, and
//! `classes` says so.

use std::fs;
use std::path::Path;

use s2m_model::bundle;
use s2m_model::presence::PresenceEntry;
use s2m_testkit::exact;

use super::run;

/// The exact Gaussians in a folder, as if `A - B` had not been met and `B - A` hardly.
fn write_model(folder: &Path) {
    let files = exact::gaussians_exact();
    let mut manifest = exact::open(&files).manifest().clone();
    let classes = [
        ("A - B", (0.9, 0, 0.0)),
        ("B - A", (0.9, 7, 1.5)),
        ("A + B", (0.9, 400, 3.0)),
    ];
    manifest.calibration.witnesses = Some(0.2);
    manifest.calibration.presence = Some(PresenceEntry {
        items: 1000,
        classes: classes.map(|(text, of)| (text.to_owned(), of)).into(),
    });
    let [_, (_, generator), (_, classifier)] = files;
    let files = bundle::files(&manifest, generator, classifier).unwrap();
    bundle::write(&folder.join("toy.s2m"), &files).unwrap();
}

const ABSENT: &str = "the data may hold no such item: none of 1000 held-out items reaches the posterior 0.90; at most 0.30 % of all items do";
const UPPER: &str = "  warning: predicted purity is an upper value: witnesses still tell weighted items from real ones, by 0.20\n";

#[test]
fn an_absent_class_is_refused_unless_the_floor_is_zero() {
    let root = tempfile::tempdir().unwrap();
    write_model(root.path());
    let sample = |query: &str, more: &[&str]| {
        let arguments = [
            &["sample", "toy.s2m", query, "-n", "20", "--out", "out"],
            more,
        ];
        run(root.path(), &arguments.concat())
    };
    for query in ["A - B", "A & !B"] {
        let ran = sample(query, &[]);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""));
        assert_eq!(
            ran.err,
            format!("no samples for `{query}`: {ABSENT}\nhint: --floor 0 draws it anyway\n")
        );
        assert!(!root.path().join("out").exists());
    }
    let ran = sample("A - B", &["--floor", "0"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "out\n"), "{}", ran.err);
    assert!(
        ran.err.contains(&format!("  warning: {ABSENT}\n")),
        "{}",
        ran.err
    );
    assert!(ran.err.contains(UPPER), "{}", ran.err);
    let report = fs::read_to_string(root.path().join("out/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["warnings"][0], ABSENT);
    // A query that holds on a joint class which is there is drawn.
    let ran = sample("A", &["--force"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.err.contains("may hold no such item"), "{}", ran.err);
}

#[test]
fn a_rare_class_is_drawn_with_a_warning() {
    let root = tempfile::tempdir().unwrap();
    write_model(root.path());
    let ran = run(
        root.path(),
        &["sample", "toy.s2m", "B - A", "-n", "20", "--out", "out"],
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let expected = "  warning: it cannot be told whether the data holds such items: 7 of 1000 held-out items reach the posterior 0.90, and errors explain 1.5; at most 1.31 % of all items do\n";
    assert!(ran.err.contains(expected), "{}", ran.err);
}

#[test]
fn of_all_joint_classes_those_that_are_there_are_drawn() {
    let root = tempfile::tempdir().unwrap();
    write_model(root.path());
    let ran = run(
        root.path(),
        &[
            "sample",
            "toy.s2m",
            "--all-joint",
            "-n",
            "20",
            "--out",
            "out",
        ],
    );
    assert_eq!((ran.code, ran.out.as_str()), (1, "out\n"), "{}", ran.err);
    assert!(
        ran.err
            .contains(&format!("no samples for `A - B`: {ABSENT}"))
    );
    let report = fs::read_to_string(root.path().join("out/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report[0]["why"], ABSENT);
    assert_eq!(report[1]["samples"], 20);
}

#[test]
fn classes_say_which_are_in_the_data() {
    let root = tempfile::tempdir().unwrap();
    write_model(root.path());
    let ran = run(root.path(), &["classes", "toy.s2m", "-n", "4096"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].ends_with("in the data"), "{}", ran.out);
    let verdicts: Vec<&str> = lines[1..]
        .iter()
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    assert_eq!(verdicts, ["absent", "undecided", "present"], "{}", ran.out);
    // A bundle that does not know has no such column.
    let ran = run(root.path(), &["classes", "gaussians-exact", "-n", "4096"]);
    assert!(!ran.out.contains("in the data"), "{}", ran.out);
}
