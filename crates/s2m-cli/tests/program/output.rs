//! What commands print and write when all goes well.

use std::fs;

use super::run;

#[test]
fn sample_prints_the_folder_and_writes_what_it_promises() {
    let root = tempfile::tempdir().unwrap();
    let ran = run(
        root.path(),
        &[
            "sample",
            "gaussians-exact",
            "A + B",
            "-n",
            "2000",
            "--seed",
            "7",
            "--latents",
            "--out",
            "out",
        ],
    );
    assert_eq!((ran.code, ran.out.as_str()), (0, "out\n"), "{}", ran.err);
    assert!(ran.err.starts_with("A + B: 2000 items, 3."), "{}", ran.err);
    let out = root.path().join("out");
    let mut names: Vec<String> = fs::read_dir(&out)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "grid.png",
            "latents.npy",
            "metadata.csv",
            "report.json",
            "samples.npy"
        ]
    );
    let table = fs::read_to_string(out.join("metadata.csv")).unwrap();
    assert_eq!(table.lines().count(), 2001);
    assert_eq!(
        table.lines().next().unwrap(),
        "file_name,A,B,p_A,p_B,proposal,log_weight"
    );
    assert!(
        table
            .lines()
            .nth(1)
            .unwrap()
            .starts_with("samples.npy,1,1,1.000000,1.000000,")
    );
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(out.join("report.json")).unwrap()).unwrap();
    for field in [
        "settings",
        "query",
        "sampler",
        "seed",
        "bundle_hash",
        "device",
        "versions",
        "samples",
        "generator_calls",
        "render_calls",
        "calls_per_sample",
        "tv_estimate",
        "tv_bound",
        "acceptance",
        "weight_ess",
        "tail_index",
        "support_share",
        "predicted_purity",
        "duplicates",
        "seconds",
    ] {
        assert!(report.get(field).is_some(), "report.json has `{field}`");
    }
    assert_eq!(report["samples"], 2000);
    assert!(report["calls_per_sample"].as_f64().unwrap() < 8.0);
    assert!(report["tv_bound"].as_f64().unwrap() < 0.0105);
}

#[test]
fn json_on_standard_output_is_the_report() {
    let root = tempfile::tempdir().unwrap();
    let ran = run(
        root.path(),
        &[
            "sample",
            "gaussians-exact",
            "A|B",
            "-n",
            "100",
            "--json",
            "--quiet",
            "--out",
            "out",
        ],
    );
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let printed: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let written = fs::read_to_string(root.path().join("out/report.json")).unwrap();
    assert_eq!(
        printed,
        serde_json::from_str::<serde_json::Value>(&written).unwrap()
    );
}

#[test]
fn a_few_items_are_quick_and_say_that_they_have_no_bound() {
    let root = tempfile::tempdir().unwrap();
    let ran = run(
        root.path(),
        &["sample", "gaussians-exact", "A", "--json", "--out", "out"],
    );
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (
            report["samples"].as_u64(),
            report["generator_calls"].as_u64()
        ),
        (Some(16), Some(512))
    );
    assert!(report["tv_bound"].is_null());
    assert!(
        ran.err
            .contains("warning: no error bound: only 0 proposals were scored"),
        "{}",
        ran.err
    );
}

#[test]
fn the_papers_sampler_spends_its_steps() {
    let root = tempfile::tempdir().unwrap();
    let ran = run(
        root.path(),
        &[
            "sample",
            "gaussians-exact",
            "A - B",
            "-n",
            "50",
            "--sampler",
            "mh",
            "--steps",
            "100",
            "--json",
            "--out",
            "out",
        ],
    );
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["generator_calls"], 5000);
    assert_eq!(report["details"]["steps"], 100);
    assert!(
        report["details"]["r_hat"].as_f64().unwrap() < 1.2,
        "{}",
        report["details"]
    );
}

#[test]
fn resampling_counts_its_copies_or_refuses_them() {
    let root = tempfile::tempdir().unwrap();
    let arguments = [
        "sample",
        "gaussians-exact",
        "A - B",
        "-n",
        "3000",
        "--sampler",
        "resample",
        "--json",
    ];
    let ran = run(root.path(), &[&arguments[..], &["--out", "out"]].concat());
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert!(report["tv_bound"].is_null());
    let ran = run(
        root.path(),
        &[&arguments[..], &["--unique", "--out", "unique"]].concat(),
    );
    let unique: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(unique["duplicates"], 0);
}

#[test]
fn classes_lists_every_joint_class_from_a_bank() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(
        run(
            root.path(),
            &["mine", "gaussians-exact", "-n", "60000", "--out", "bank"]
        )
        .code,
        0
    );
    let ran = run(
        root.path(),
        &["classes", "gaussians-exact", "--bank", "bank"],
    );
    assert_eq!(ran.code, 0);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with("class"));
    let starts: Vec<&str> = lines[1..]
        .iter()
        .map(|l| l.split("  ").next().unwrap())
        .collect();
    assert_eq!(starts, ["A - B", "B - A", "A + B"]);
    assert!(
        ran.err
            .contains("3 of 3 joint classes, from 60000 proposals"),
        "{}",
        ran.err
    );
    // True shares are 7, 7 and 9 of 23 modes.
    let ran = run(
        root.path(),
        &["classes", "gaussians-exact", "--bank", "bank", "--json"],
    );
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    for (class, modes) in [(0, 7.0), (1, 7.0), (2, 9.0)] {
        let share = found["classes"][class]["share"].as_f64().unwrap();
        let error = (modes / 23.0 * (1.0 - modes / 23.0) / 60_000.0_f64).sqrt();
        assert!((share - modes / 23.0).abs() < 6.0 * error, "{share}");
    }
}

#[test]
fn explain_tells_the_fate_that_sample_decided() {
    let root = tempfile::tempdir().unwrap();
    run(
        root.path(),
        &[
            "sample",
            "gaussians-exact",
            "A - B",
            "-n",
            "256",
            "--out",
            "out",
        ],
    );
    let table = fs::read_to_string(root.path().join("out/metadata.csv")).unwrap();
    let kept: Vec<u64> = table
        .lines()
        .skip(1)
        .map(|l| l.split(',').nth(5).unwrap().parse().unwrap())
        .collect();
    for number in 0..12u64 {
        let number_text = number.to_string();
        let ran = run(
            root.path(),
            &[
                "explain",
                "gaussians-exact",
                "A - B",
                "--proposal",
                &number_text,
                "--json",
            ],
        );
        let explained: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(
            explained["accepted"].as_bool().unwrap(),
            kept.contains(&number),
            "{number}: {explained}"
        );
    }
    let ran = run(
        root.path(),
        &["explain", "gaussians-exact", "A - B", "--proposal", "0"],
    );
    assert!(ran.out.contains("posterior of the query"), "{}", ran.out);
}

#[test]
fn info_and_help_and_completions_answer() {
    let root = tempfile::tempdir().unwrap();
    let ran = run(root.path(), &["info"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "gaussians-exact\n"));
    let ran = run(root.path(), &["info", "gaussians-exact"]);
    assert!(ran.out.contains("A (lower left 4×4 grid)"), "{}", ran.out);
    for command in [
        "sample",
        "mine",
        "classes",
        "explain",
        "info",
        "demo",
        "completions",
    ] {
        let ran = run(root.path(), &[command, "--help"]);
        assert_eq!(ran.code, 0);
        assert!(
            ran.out.contains("Example"),
            "{command} --help shows an example"
        );
    }
    let ran = run(root.path(), &["completions", "bash"]);
    assert!(ran.out.contains("complete -F _s2m"), "bash completions");
}

#[test]
fn the_demo_prints_the_table_and_draws_the_picture() {
    let root = tempfile::tempdir().unwrap();
    let ran = run(root.path(), &["demo", "-n", "500", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let demo: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let rows = demo["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 18);
    for row in rows {
        if row["sampler"] != "generator" {
            assert_eq!(row["accuracy"], 100.0, "{row}");
            assert!(row["high_quality"].as_f64().unwrap() > 99.0, "{row}");
        }
    }
    assert!(
        fs::read(root.path().join("demo/demo.png"))
            .unwrap()
            .starts_with(b"\x89PNG")
    );
}
