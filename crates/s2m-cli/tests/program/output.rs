//! What commands print and write when all goes well.

use std::fs;

use s2m_model::bundle;
use s2m_testkit::exact;
use s2m_testkit::linear::linear;

use super::run;

/// Where items were drawn for each label, nothing is known about those without any.
#[test]
fn purity_says_of_which_items_it_is() {
    let root = tempfile::tempdir().unwrap();
    for (model, among, labelling) in [
        (
            "gaussians-exact",
            "% of items with any label (",
            "per-class",
        ),
        ("mnist-even", "% (", "one-of"),
    ] {
        let ran = run(
            root.path(),
            &["sample", model, "A - B", "-n", "20", "--out", model],
        );
        let (_, after) = ran.err.split_once("predicted purity ").unwrap();
        let (_, after) = after.split_once(' ').unwrap();
        assert!(after.starts_with(among), "{}", ran.err);
        let report = fs::read_to_string(root.path().join(model).join("report.json")).unwrap();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["labelling"], labelling);
    }
}

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
            .contains("3 of 3 joint classes, from 60000 proposals, by the posterior `levels`"),
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
fn classes_of_many_labels_show_the_largest() {
    let root = tempfile::tempdir().unwrap();
    bundle::write(&root.path().join("many.s2m"), &linear(11)).unwrap();
    let ran = run(root.path(), &["classes", "many", "-n", "4000"]);
    assert_eq!(ran.code, 2);
    assert_eq!(
        ran.err,
        "error: 11 labels have too many joint classes to list\nhint: show the largest with --top 50\n"
    );
    let ran = run(
        root.path(),
        &["classes", "many", "-n", "4000", "--top", "5", "--json"],
    );
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let shares: Vec<f64> = found["classes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|class| class["share"].as_f64().unwrap())
        .collect();
    assert_eq!(
        (shares.len(), found["joint_classes"].as_u64()),
        (5, Some(2047))
    );
    assert!(
        shares.windows(2).all(|pair| pair[0] >= pair[1]),
        "{shares:?}"
    );
    // Shares are of all 2047 classes: one more class shown leaves the others as they were.
    let ran = run(
        root.path(),
        &["classes", "many", "-n", "4000", "--top", "6", "--json"],
    );
    let more: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    for (at, share) in shares.iter().enumerate() {
        assert!((more["classes"][at]["share"].as_f64().unwrap() - share).abs() < 1e-12);
    }
    assert!(shares.iter().sum::<f64>() < 0.9, "{shares:?}");
    let ran = run(
        root.path(),
        &["sample", "many", "--all-joint", "--out", "out"],
    );
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("--all-joint works up to 10"),
        "{}",
        ran.err
    );
}

/// Proposal numbers in the table of a run.
fn kept(table: &std::path::Path) -> Vec<u64> {
    let table = fs::read_to_string(table).unwrap();
    let column = table
        .lines()
        .next()
        .unwrap()
        .split(',')
        .position(|name| name == "proposal")
        .unwrap();
    table
        .lines()
        .skip(1)
        .map(|l| l.split(',').nth(column).unwrap().parse().unwrap())
        .collect()
}

#[test]
fn explain_tells_the_fate_that_a_run_decided() {
    let root = tempfile::tempdir().unwrap();
    let conditional = exact::toy(exact::ToyLabels::OneOf, exact::ToyGenerator::Conditional);
    bundle::write(&root.path().join("conditional.s2m"), &conditional).unwrap();
    run(
        root.path(),
        &[
            "mine",
            "conditional",
            "-n",
            "3000",
            "--seed",
            "4",
            "--out",
            "bank",
        ],
    );
    let cases: [(&str, &str, &[&str]); 4] = [
        ("gaussians-exact", "A - B", &["--seed", "9"]),
        (
            "gaussians-exact",
            "A - B",
            &["--sampler", "mh", "--steps", "20"],
        ),
        ("conditional", "A | B", &[]),
        ("conditional", "A | B", &["--bank", "bank"]),
    ];
    for (at, (model, query, options)) in cases.into_iter().enumerate() {
        let out = format!("out{at}");
        let ran = run(
            root.path(),
            &[
                &["sample", model, query, "-n", "100", "--out", &out],
                options,
            ]
            .concat(),
        );
        assert_eq!(ran.code, 0, "{}", ran.err);
        let table = root.path().join(&out).join("metadata.csv");
        let kept = kept(&table);
        for number in [0, 1, 2, 3, kept[7], kept[99]] {
            let number_text = number.to_string();
            let arguments = [
                "explain",
                model,
                query,
                "--proposal",
                &number_text,
                "--run",
                &out,
                "--json",
            ];
            let ran = run(root.path(), &arguments);
            let explained: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
            let fate = kept.contains(&number);
            assert_eq!(
                explained["accepted"].as_bool().unwrap(),
                fate,
                "{model} {query} {number}: {explained}"
            );
            if let Some(row) = kept.iter().position(|&k| k == number) {
                let text = fs::read_to_string(&table).unwrap();
                let line = text.lines().nth(row + 1).unwrap().to_owned();
                let weight = format!("{:.6}", explained["log_weight"].as_f64().unwrap());
                assert!(line.contains(&weight), "{line} holds {weight}");
                let class = explained["class"].as_str().unwrap_or_default();
                assert!(line.ends_with(class), "{line} ends with {class}");
            }
        }
    }
}

/// Soft classes overlap: what a run of all joint classes did with a proposal is what `explain` says of it.
#[test]
fn explain_agrees_with_a_run_of_all_joint_classes() {
    let root = tempfile::tempdir().unwrap();
    bundle::write(&root.path().join("linear.s2m"), &linear(3)).unwrap();
    let arguments = "sample linear.s2m --all-joint -n 60 --floor 0 --seed 3 --out all";
    let ran = run(root.path(), &arguments.split(' ').collect::<Vec<_>>());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut claimed = 0;
    for query in ["L0 - L1 - L2", "L1 - L0 - L2", "L0 + L1 + L2"] {
        let folder = query.replace(' ', "");
        let run_folder = format!("all/{folder}");
        let kept = kept(&root.path().join(&run_folder).join("metadata.csv"));
        let last = kept[59];
        for number in (0..last.min(40)).chain([kept[0], kept[7], last]) {
            let text = number.to_string();
            let arguments = [
                "explain",
                "linear.s2m",
                query,
                "--proposal",
                &text,
                "--run",
                &run_folder,
                "--json",
            ];
            let ran = run(root.path(), &arguments);
            let explained: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
            let verdict = explained["verdict"].as_str().unwrap();
            assert_eq!(
                explained["accepted"].as_bool().unwrap(),
                kept.contains(&number),
                "{query} {number}: {explained}"
            );
            // It would have been kept by the same rule, not by the table alone.
            let number_of = |name: &str| explained[name].as_f64().unwrap();
            let from = number_of("claimed");
            let inside = (from..from + number_of("acceptance")).contains(&number_of("uniform"));
            assert_eq!(
                inside,
                kept.contains(&number),
                "{query} {number}: {explained}"
            );
            claimed += usize::from(verdict.contains("belongs to a query that was drawn before"));
        }
    }
    assert!(claimed > 0);
}

#[test]
fn explain_stands_alone_and_refuses_what_does_not_fit() {
    let root = tempfile::tempdir().unwrap();
    run(
        root.path(),
        &["sample", "gaussians-exact", "A - B", "--out", "out0"],
    );
    let ran = run(
        root.path(),
        &[
            "explain",
            "gaussians-exact",
            "A",
            "--proposal",
            "0",
            "--run",
            "out0",
        ],
    );
    assert_eq!(ran.code, 2);
    assert_eq!(
        ran.err,
        "error: the run in `out0` was drawn for `A - B`, not for `A`\n"
    );
    let ran = run(
        root.path(),
        &["explain", "gaussians-exact", "A - B", "--proposal", "0"],
    );
    assert!(ran.out.contains("posterior of the query"), "{}", ran.out);
    let far = u64::MAX.to_string();
    let ran = run(
        root.path(),
        &["explain", "gaussians-exact", "A", "--proposal", &far],
    );
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("it must be at most 281474976710656"),
        "{}",
        ran.err
    );
}

#[test]
fn info_and_help_and_completions_answer() {
    let root = tempfile::tempdir().unwrap();
    let ran = run(root.path(), &["info"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (
            0,
            "gaussians-exact\ngaussians\nmnist-3-5\nmnist-even\nfmnist-even\nmnist-even-conditional\ncifar-7to3\n"
        )
    );
    let ran = run(root.path(), &["info", "gaussians-exact"]);
    assert!(ran.out.contains("A (lower left 4×4 grid)"), "{}", ran.out);
    for command in [
        "sample",
        "mine",
        "classes",
        "explain",
        "info",
        "demo",
        "train",
        "reproduce",
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
    fs::create_dir(root.path().join("demo")).unwrap();
    fs::write(root.path().join("demo/thesis.txt"), "x").unwrap();
    let ran = run(root.path(), &["demo", "-n", "500", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let demo: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let rows = demo["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 18 + 12);
    for row in rows.iter().filter(|row| row["sampler"] != "generator") {
        // The exact networks are right; trained ones are so up to a few of 500 points.
        let exact = row["model"] == "gaussians-exact";
        let least = if exact { [100.0, 99.0] } else { [99.0, 97.5] };
        assert!(row["accuracy"].as_f64().unwrap() >= least[0], "{row}");
        assert!(row["high_quality"].as_f64().unwrap() > least[1], "{row}");
    }
    for picture in ["demo.png", "demo-trained.png"] {
        let bytes = fs::read(root.path().join("demo").join(picture)).unwrap();
        assert!(bytes.starts_with(b"\x89PNG"), "{picture}");
    }
    assert!(
        root.path().join("demo/thesis.txt").exists(),
        "other files are left alone"
    );
}
