//! `s2m eval`: what it measures, what it refuses, and in which words.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Ran, run};

/// A NumPy file of 32-bit floats, `[rows, width]`.
fn write_rows(path: &Path, width: usize, values: &[f32]) {
    let header = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {width}), }}",
        values.len() / width
    );
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    fs::write(path, bytes).unwrap();
}

/// A grey picture of 28 by 28 pixels whose level rises from the left.
pub(super) fn write_picture(path: &Path, shade: u8) {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 28, 28);
    encoder.set_color(png::ColorType::Grayscale);
    let mut writer = encoder.write_header().unwrap();
    let levels: Vec<u8> = (0..28 * 28).map(|at| (at % 28) as u8 * 4 + shade).collect();
    writer.write_image_data(&levels).unwrap();
    writer.finish().unwrap();
    fs::write(path, bytes).unwrap();
}

pub(super) fn referee(name: &str) -> String {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/referees");
    models.join(name).display().to_string()
}

fn json(ran: &Ran) -> Value {
    assert_eq!(ran.code, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

/// Forty points on a line, shifted by `by`: mean `by` off, the same covariance.
fn line(by: f32) -> Vec<f32> {
    (0..40).map(|k| (k * 7 % 40) as f32 / 10.0 + by).collect()
}

/// An array of such points.
pub(super) fn write_line(path: &Path, by: f32) {
    write_rows(path, 1, &line(by));
}

#[test]
fn arrays_of_features_are_measured_and_every_number_states_its_definition() {
    let root = tempfile::tempdir().unwrap();
    write_rows(&root.path().join("real.npy"), 1, &line(0.0));
    write_rows(&root.path().join("made.npy"), 1, &line(3.0));
    let ran = run(
        root.path(),
        &[
            "eval",
            "--real",
            "real.npy",
            "--generated",
            "made.npy",
            "--json",
            "--no-cache",
        ],
    );
    let found = json(&ran);
    for key in [
        "fid",
        "kid",
        "is",
        "precision",
        "recall",
        "density",
        "coverage",
    ] {
        let metric = &found[key];
        for part in ["value", "interval", "n_real", "n_generated", "definition"] {
            assert!(metric.get(part).is_some(), "{key} has no {part}: {metric}");
        }
        assert_eq!(metric["n_real"], 40);
    }
    // Means 3 apart and equal covariances.
    let fid = found["fid"]["value"].as_f64().unwrap();
    assert!((fid - 9.0).abs() < 1e-4, "{fid}");
    assert_eq!(found["is"]["value"], Value::Null);
    assert_eq!(found["duplicates"]["value"], 0.0);

    let ran = run(
        root.path(),
        &[
            "eval",
            "--real",
            "real.npy",
            "--generated",
            "made.npy",
            "--metrics",
            "fid,precision",
        ],
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("40 generated items against 40 real items"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("FID (covariance N - 1)"), "{}", ran.out);
    assert!(!ran.out.contains("KID"), "{}", ran.out);
}

#[test]
fn samples_are_measured_query_by_query_and_together() {
    let root = tempfile::tempdir().unwrap();
    let drawn = run(
        root.path(),
        &[
            "sample",
            "mnist-even",
            "--all-joint",
            "-n",
            "100",
            "--out",
            "made",
        ],
    );
    assert!(drawn.code <= 1, "{}", drawn.err);
    let real = root.path().join("real");
    fs::create_dir(&real).unwrap();
    for shade in 0..8 {
        write_picture(&real.join(format!("{shade}.png")), 10 * shade);
    }
    let referee = referee("mnist.onnx");
    let arguments = [
        "eval",
        "--real",
        "real",
        "--generated",
        "made",
        "--referee",
        &referee,
        "--label",
        "A=0,1,2,3,4,5,6,7,8,9",
        "--label",
        "B=1,3,5,7,9",
        "--cache",
        "kept",
        "--json",
        "--html",
        "page.html",
    ];
    let ran = run(root.path(), &arguments);
    let found = json(&ran);
    for query in ["A - B", "A + B"] {
        let part = &found["queries"][query];
        assert_eq!(part["n_generated"], 100, "{part}");
        // By `experiments/table1/RESULTS.md` about 99 of 100.
        assert!(part["accuracy"]["value"].as_f64().unwrap() > 0.9, "{part}");
        assert!(part["accuracy_by_label"]["B"].is_array(), "{part}");
    }
    assert_eq!(found["n_generated"], 200);
    assert_eq!(found["queries"].as_object().unwrap().len(), 2);
    // 84 features, 100 and 8 items: FID says that it cannot be, and what can.
    assert!(
        found["fid"]["note"].as_str().unwrap().contains("KID"),
        "{}",
        found["fid"]
    );
    assert!(found["kid"]["value"].is_number());
    let page = fs::read_to_string(root.path().join("page.html")).unwrap();
    assert!(page.contains("A - B") && !page.contains("http-equiv=\"refresh\""));
    // What the networks said is kept, and taken from there.
    let kept = fs::read_dir(root.path().join("kept")).unwrap().count();
    assert!(kept > 0);
    let again = run(root.path(), &arguments);
    assert_eq!(again.out, ran.out);
    assert_eq!(
        fs::read_dir(root.path().join("kept")).unwrap().count(),
        kept
    );
}

fn refused(folder: &Path, arguments: &[&str], words: &str) {
    let ran = run(folder, &[&["eval"], arguments].concat());
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains(words), "`{words}` is not in: {}", ran.err);
    assert!(ran.out.is_empty(), "{}", ran.out);
}

#[test]
fn what_cannot_be_measured_is_named() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| -> PathBuf { root.path().join(name) };
    write_rows(&at("real.npy"), 1, &line(0.0));
    write_rows(&at("wide.npy"), 2, &line(0.0));
    write_rows(&at("bad.npy"), 1, &[1.0, f32::NAN, 2.0]);
    fs::create_dir(at("empty")).unwrap();
    fs::create_dir(at("pictures")).unwrap();
    fs::write(at("text.txt"), "x").unwrap();
    for shade in 0..8 {
        write_picture(&at("pictures").join(format!("{shade}.png")), 10 * shade);
    }
    let between = |real, made| ["--real", real, "--generated", made];
    refused(root.path(), &between("nowhere", "real.npy"), "`nowhere`");
    refused(
        root.path(),
        &between("text.txt", "real.npy"),
        "`text.txt` is no folder",
    );
    refused(
        root.path(),
        &between("empty", "real.npy"),
        "`empty` holds no images",
    );
    refused(
        root.path(),
        &between("wide.npy", "real.npy"),
        "`real.npy` has rows of 1 numbers, and `wide.npy` rows of 2",
    );
    refused(
        root.path(),
        &between("real.npy", "bad.npy"),
        "number 0 of item 1 is NaN",
    );
    refused(
        root.path(),
        &between("pictures", "real.npy"),
        "`pictures` holds images, and `real.npy` rows of numbers",
    );
    refused(
        root.path(),
        &between("pictures", "pictures"),
        "--features NET.onnx",
    );
    refused(
        root.path(),
        &[&between("real.npy", "real.npy")[..], &["--metrics", "fud"]].concat(),
        "no metric `fud`; there are accuracy, fid",
    );
    let referee = referee("mnist.onnx");
    let judged = [
        &between("pictures", "pictures")[..],
        &["--referee", &referee, "--no-cache"],
    ]
    .concat();
    refused(
        root.path(),
        &[&judged[..], &["--label", "A=3,cat"]].concat(),
        "label `A` lists class `cat`; the classes are 0, 1, 2",
    );
    fs::write(at("pictures").join("4.png"), "not an image").unwrap();
    refused(root.path(), &judged, "4.png");
    let ran = run(
        root.path(),
        &[&["eval"], &judged[..], &["--skip-bad"]].concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("7 generated items against 7 real items"),
        "{}",
        ran.out
    );
    assert!(ran.err.contains("2 images were left out"), "{}", ran.err);
    assert!(ran.err.contains("4.png"), "{}", ran.err);
}

/// Pictures from elsewhere are judged by the query that they are said to be for.
#[test]
fn a_plain_folder_is_judged_by_the_query_that_is_given() {
    let root = tempfile::tempdir().unwrap();
    let drawn = run(
        root.path(),
        &["sample", "mnist-3-5", "A - B", "-n", "20", "--out", "made"],
    );
    assert_eq!(drawn.code, 0, "{}", drawn.err);
    let referee = referee("mnist.onnx");
    let accuracy = |query: &str| {
        let ran = run(
            root.path(),
            &[
                "eval",
                "--real",
                "made/images",
                "--generated",
                "made/images",
                "--referee",
                &referee,
                "--no-cache",
                "--label",
                "A=3,5",
                "--label",
                "B=3",
                "--query",
                query,
                "--json",
                "--quiet",
            ],
        );
        json(&ran)["queries"][query]["accuracy"]["value"]
            .as_f64()
            .unwrap()
    };
    let (right, wrong) = (accuracy("A - B"), accuracy("A + B"));
    assert!(right > 0.8 && wrong < 0.2, "{right} {wrong}");
}

#[test]
fn a_referee_with_other_labels_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let drawn = run(
        root.path(),
        &["sample", "mnist-3-5", "A - B", "-n", "20", "--out", "made"],
    );
    assert_eq!(drawn.code, 0, "{}", drawn.err);
    let referee = referee("mnist.onnx");
    refused(
        root.path(),
        &[
            "--real",
            "made",
            "--generated",
            "made",
            "--referee",
            &referee,
            "--no-cache",
        ],
        "--label NAME=CLASS,CLASS",
    );
}

#[test]
fn constant_and_few_features_give_what_can_be_said_of_them() {
    let root = tempfile::tempdir().unwrap();
    write_rows(&root.path().join("flat.npy"), 2, &[1.0; 40]);
    write_rows(
        &root.path().join("few.npy"),
        2,
        &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    );
    let ran = run(
        root.path(),
        &[
            "eval",
            "--real",
            "flat.npy",
            "--generated",
            "flat.npy",
            "--json",
            "--no-cache",
        ],
    );
    let found = json(&ran);
    assert_eq!(found["fid"]["value"], 0.0);
    assert_eq!(found["duplicates"]["value"], 1.0);
    let ran = run(
        root.path(),
        &[
            "eval",
            "--real",
            "few.npy",
            "--generated",
            "few.npy",
            "--metrics",
            "precision,kid",
        ],
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("no precision: PRDC needs at least 6"),
        "{}",
        ran.err
    );
}
