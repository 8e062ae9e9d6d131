//! Sequential Monte Carlo, from the command line.

use std::fs;

use super::run;

const SAMPLE: [&str; 7] = [
    "sample",
    "gaussians-exact",
    "A - B",
    "-n",
    "200",
    "--sampler",
    "smc",
];

#[test]
fn a_run_says_how_its_particles_came_to_the_target_and_is_explained() {
    let root = tempfile::tempdir().unwrap();
    let ran = run(
        root.path(),
        &[&SAMPLE[..], &["--moves", "4", "--out", "out"]].concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("no error bound"), "{}", ran.err);
    assert!(
        ran.err.contains("1 rung from the prior to the target"),
        "{}",
        ran.err
    );
    let report = fs::read_to_string(root.path().join("out/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert!(report["tv_bound"].is_null());
    assert_eq!(report["settings"]["sampler"]["kind"], "smc");
    assert_eq!(report["settings"]["moves"], 4);
    assert_eq!(report["details"]["sampler"], "smc");
    assert_eq!(report["details"]["rungs"][0]["power"], 1.0);
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
        (
            &["--tv", "0.1"][..],
            "--tv is for --sampler reject, and for --sampler mh without --steps\n",
        ),
        (&["--steps", "5"], "--steps is for --sampler mh\n"),
        (&["--unique"], "--unique is for --sampler resample\n"),
        (
            &["--adapt", "adaptive"],
            "--sampler smc starts from the prior, and finds its way from there; leave --adapt out\n",
        ),
        (
            &["--proposal", "kept"],
            "--sampler smc starts from the prior, and finds its way from there; leave --proposal out\n",
        ),
        (
            &["--max-calls", "1000"],
            "--moves 10 for 200 items takes 7464 calls on the first rung alone, and 1000 are allowed\nhint: take fewer steps, or allow more with --max-calls\n",
        ),
    ] {
        let ran = run(
            root.path(),
            &[&SAMPLE[..], options, &["--out", "out"]].concat(),
        );
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.ends_with(wanted), "{}", ran.err);
        assert!(!root.path().join("out").exists());
    }
}
