//! Adapted proposals from the command line.

use std::fs;

use super::run;

#[test]
fn a_kept_proposal_is_used_again_and_a_run_tells_its_stages() {
    let root = tempfile::tempdir().unwrap();
    let kept = run(
        root.path(),
        &[
            "adapt",
            "gaussians-exact",
            "A - B",
            "--seed",
            "3",
            "--out",
            "kept",
        ],
    );
    assert_eq!(
        (kept.code, kept.out.as_str()),
        (0, "kept\n"),
        "{}",
        kept.err
    );
    assert!(
        kept.err.contains("stage") && kept.err.contains("adapted with"),
        "{}",
        kept.err
    );
    let mut names: Vec<_> = fs::read_dir(root.path().join("kept"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["mixture.bin", "proposal.json"]);
    let ran = run(
        root.path(),
        &[
            "sample",
            "gaussians-exact",
            "A - B",
            "-n",
            "500",
            "--proposal",
            "kept",
            "--out",
            "out",
            "--json",
        ],
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["adaptation"]["method"], "adaptive");
    let table = fs::read_to_string(root.path().join("out/metadata.csv")).unwrap();
    assert!(table.starts_with("file_name,A,B,p_A,p_B,proposal,log_weight,stage\n"));
    let first: Vec<&str> = table.lines().nth(1).unwrap().split(',').collect();
    let explained = run(
        root.path(),
        &[
            "explain",
            "gaussians-exact",
            "A - B",
            "--run",
            "out",
            "--proposal",
            first[5],
        ],
    );
    assert!(
        explained.out.contains("log prior over proposal"),
        "{}",
        explained.out
    );
    assert!(
        explained.out.contains("it is sample 0 of the run"),
        "{}",
        explained.out
    );
}

#[test]
fn every_joint_class_can_be_adapted_to_and_its_cost_is_shown() {
    let root = tempfile::tempdir().unwrap();
    let listed = run(
        root.path(),
        &["classes", "gaussians-exact", "--adapt", "adaptive", "-q"],
    );
    assert_eq!(listed.code, 0, "{}", listed.err);
    let heading = listed.out.lines().next().unwrap();
    assert!(
        heading.ends_with("adapted calls per sample  search"),
        "{heading}"
    );
    assert_eq!(listed.out.lines().count(), 4);
    let drawn = run(
        root.path(),
        &[
            "sample",
            "gaussians-exact",
            "--all-joint",
            "-n",
            "3000",
            "--adapt",
            "adaptive",
            "--out",
            "all",
            "-q",
        ],
    );
    assert_eq!(drawn.code, 0, "{}", drawn.err);
    for class in ["A-B", "B-A", "A+B"] {
        let folder = root.path().join("all").join(class);
        assert!(folder.join("proposal/proposal.json").exists(), "{class}");
        assert!(folder.join("samples.npy").exists(), "{class}");
    }
}

#[test]
fn options_that_do_not_belong_together_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let refused = |options: &[&str]| {
        let start = ["sample", "gaussians-exact", "A - B", "--out", "out"];
        let ran = run(root.path(), &[&start, options].concat());
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(!root.path().join("out").exists());
        ran.err
    };
    for (options, wanted) in [
        (
            &["--gain", "0.2"][..],
            "--gain does not go with --adapt none",
        ),
        (
            &["--adapt", "once", "--order", "A"],
            "--order does not go with --adapt once",
        ),
        (
            &["--adapt", "adaptive", "--pilots", "5"],
            "--pilots does not go with --adapt adaptive",
        ),
        (
            &["--adapt", "adaptive", "--prior-share", "1"],
            "--prior-share is 1; it must lie strictly",
        ),
        (
            &["--adapt", "adaptive", "--proposal", "x"],
            "leave --adapt out",
        ),
        (
            &["--proposal", "nowhere"],
            "the proposal in `nowhere` cannot be used",
        ),
    ] {
        let found = refused(options);
        assert!(found.contains(wanted), "{found}");
    }
    let none = [
        "adapt",
        "gaussians-exact",
        "A",
        "--adapt",
        "none",
        "--out",
        "kept",
    ];
    let ran = run(root.path(), &none);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(
        ran.err.contains("--adapt none adapts nothing"),
        "{}",
        ran.err
    );
    assert!(!root.path().join("kept").exists());
}

/// Every odd digit carries both labels there, so that nothing is `B - A`; this bundle does not know that. A search that goes on
/// takes 36,000 proposals.
#[test]
fn a_search_that_gets_nowhere_is_given_up_early_and_says_so() {
    let root = tempfile::tempdir().unwrap();
    let line = [
        "sample",
        "mnist-even-conditional",
        "B - A",
        "-n",
        "50",
        "--adapt",
        "adaptive",
        "--out",
        "out",
    ];
    let ran = run(root.path(), &line);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.err.contains(
            "lies in its support, and the last 2 stages of the search came no nearer\nhint: "
        ),
        "{}",
        ran.err
    );
    let proposals = ran
        .err
        .split("none of ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    assert!(
        proposals.unwrap().parse::<usize>().unwrap() <= 20_000,
        "{}",
        ran.err
    );
    assert!(fs::read_dir(root.path()).unwrap().next().is_none());
}
