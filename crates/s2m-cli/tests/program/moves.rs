//! Samples that are moved along the gradient, from the command line.

use std::fs;

use super::run;

const SAMPLE: [&str; 6] = ["sample", "gaussians-exact", "A - B", "-n", "200", "--moves"];

#[test]
fn a_moved_run_says_what_it_did_and_is_explained() {
    let root = tempfile::tempdir().unwrap();
    let ran = run(root.path(), &[&SAMPLE[..], &["4", "--out", "out"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("moved 4 steps each"), "{}", ran.err);
    let report = fs::read_to_string(root.path().join("out/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["settings"]["moves"], 4);
    assert_eq!(report["moves"]["steps"], 4);
    assert_eq!(report["samples"], 200);
    let table = fs::read_to_string(root.path().join("out/metadata.csv")).unwrap();
    let first: Vec<&str> = table.lines().nth(1).unwrap().split(',').collect();
    let explain = [
        "explain",
        "gaussians-exact",
        "A - B",
        "--run",
        "out",
        "--proposal",
    ];
    let explained = run(root.path(), &[&explain[..], &[first[5]]].concat());
    assert!(
        explained
            .out
            .contains("that sample was moved from here by 4 steps along the gradient"),
        "{}",
        explained.out
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let root = tempfile::tempdir().unwrap();
    for (options, wanted) in [
        (&["0"][..], "it must be a whole number, at least 1"),
        (
            &["50", "--max-calls", "1000"],
            "--moves 50 for 200 items takes 31500 calls, and 1000 are allowed\n",
        ),
    ] {
        let ran = run(
            root.path(),
            &[&SAMPLE[..], options, &["--out", "out"]].concat(),
        );
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(wanted), "{}", ran.err);
        assert!(!root.path().join("out").exists());
    }
}
