//! Bad input: one clear line that names the thing, a hint where there is a cure, exit 2, nothing
//! half-written. An unreachable query: exit 1.

use std::fs;
use std::path::Path;
use std::process::Command;

use s2m_model::bundle;
use s2m_model::onnx::{Element, GraphBuilder};
use s2m_testkit::exact::{self, Files};
use tempfile::TempDir;

use super::{Ran, run};

const SAMPLE: [&str; 2] = ["sample", "gaussians-exact"];

/// Runs a command that must fail; what it says must be as expected, and nothing may be written.
fn refused(folder: &Path, arguments: &[&str], expected: &str) {
    let before = listing(folder);
    let ran = run(folder, arguments);
    assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.err);
    assert_eq!(ran.out, "", "{arguments:?}");
    assert_eq!(ran.err.trim_end(), expected, "{arguments:?}");
    assert_eq!(
        listing(folder),
        before,
        "{arguments:?} left something behind"
    );
}

fn listing(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn bad_queries_are_explained() {
    let root = tempfile::tempdir().unwrap();
    let cases = [
        ("C", "error: unknown label `C`\nhint: the labels are A, B"),
        (
            "Smiling",
            "error: unknown label `Smiling`\nhint: the labels are A, B",
        ),
        (
            "A - A",
            "error: the query contradicts itself: label `A` is asked to be both present and absent",
        ),
        (
            "",
            "error: the query is empty\nhint: name at least one label, as in \"A + B - C\"",
        ),
        ("A +", "error: expected a label, but the query ends there"),
        ("(A", "error: the parenthesis at position 1 is not closed"),
        (
            "-A",
            "error: the query also holds for items with no label at all, and single positive labels say nothing about those\nhint: add a label that must be present, as in \"B + (-A)\"",
        ),
    ];
    for (query, expected) in cases {
        refused(
            root.path(),
            &[&SAMPLE[..], &[query, "--out", "out"]].concat(),
            expected,
        );
    }
}

#[test]
fn bad_numbers_are_explained() {
    let root = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 8] = [
        (
            &["--sampler", "resample", "--tv", "0.1"],
            "error: --tv is for --sampler reject, and for --sampler mh without --steps",
        ),
        (
            &["--tv", "0"],
            "error: --tv is 0; it must lie strictly between 0 and 1",
        ),
        (
            &["--tv", "1"],
            "error: --tv is 1; it must lie strictly between 0 and 1",
        ),
        (
            &["--margin", "2"],
            "error: the margin is 2; it must be above 0 and at most 1",
        ),
        (
            &["--floor", "1"],
            "error: the posterior floor is 1; it must be at least 0 and below 1",
        ),
        (
            &["--purity", "1"],
            "error: --purity is 1; it must lie strictly between 0 and 1",
        ),
        (
            &["--class-temperature", "0"],
            "error: the temperature of the class head is 0; it must be between 0.000001 and 1000000000",
        ),
        (&["--steps", "5"], "error: --steps is for --sampler mh"),
    ];
    for (options, expected) in cases {
        refused(
            root.path(),
            &[&SAMPLE[..], &["A", "--out", "out"], options].concat(),
            expected,
        );
    }
    let zero = run(
        root.path(),
        &[&SAMPLE[..], &["A", "-n", "0", "--out", "out"]].concat(),
    );
    assert_eq!(zero.code, 2);
    let expected = "invalid value '0' for '--samples <N>': it must be a whole number, at least 1";
    assert!(zero.err.contains(expected), "{}", zero.err);
    let cores = run(
        root.path(),
        &[&SAMPLE[..], &["A", "--threads", "100000", "--out", "out"]].concat(),
    );
    assert!(
        cores.err.contains("it must be at most 1024"),
        "{}",
        cores.err
    );
    assert!(listing(root.path()).is_empty());
}

#[test]
fn a_model_that_is_not_there_is_named_with_those_that_are() {
    let root = tempfile::tempdir().unwrap();
    refused(
        root.path(),
        &["info", "nowhere"],
        "error: no model `nowhere`: there is no such folder, and the embedded models are gaussians-exact, gaussians, mnist-3-5, mnist-even, fmnist-even, mnist-even-conditional, cifar-7to3",
    );
}

/// The exact toy on disk, changed by the test.
struct Toy {
    root: TempDir,
    files: Files,
}

impl Toy {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
            files: exact::gaussians_exact(),
        }
    }

    fn manifest(&mut self, from: &str, to: &str) {
        let text = String::from_utf8(self.files[0].1.clone()).unwrap();
        assert!(text.contains(from), "{from}");
        self.files[0].1 = text.replace(from, to).into_bytes();
    }

    /// Changes a network and puts its hash right.
    fn network(&mut self, which: usize, bytes: Vec<u8>) {
        let (old, new) = (bundle::sha256(&self.files[which].1), bundle::sha256(&bytes));
        self.files[which].1 = bytes;
        self.manifest(&old, &new);
    }

    fn refused(&self, expected: &str) {
        bundle::write(&self.root.path().join("toy.s2m"), &self.files).unwrap();
        refused(
            self.root.path(),
            &["sample", "toy.s2m", "A", "--out", "out"],
            expected,
        );
    }
}

#[test]
fn an_unknown_manifest_key_is_named() {
    let mut toy = Toy::new();
    toy.manifest("floor = 0.0", "floor = 0.0\nflour = 1.0");
    toy.refused("error: model.toml: line 41: unknown field `flour`, expected one of `posterior`, `temperature`, `correction`, `odds_clip`, `odds_cap`, `margin`, `floor`, `audit`, `ensemble`, `auc`, `witnesses`, `presence`");
}

#[test]
fn a_calibration_that_no_query_could_use_is_refused() {
    let cases = [
        (
            "floor = 0.0",
            "floor = 1.5",
            "floor of \"default\" is 1.5; it must be at least 0 and below 1",
        ),
        (
            "default = 1.0",
            "default = 7.0",
            "margin of \"default\" is 7; it must be above 0 and at most 1",
        ),
        (
            "default = 1.0",
            "\"A - Q\" = 0.5",
            "margin of \"A - Q\": unknown label `Q`\nhint: the labels are A, B",
        ),
        (
            "real = 1.0",
            "real = 0.0",
            "temperature 0 is not a positive number",
        ),
        (
            "floor = 0.0",
            "floor = 0.0\nodds_cap = 0.0",
            "odds_cap is 0; it must be above 0",
        ),
    ];
    for (from, to, fault) in cases {
        let mut toy = Toy::new();
        toy.manifest(from, to);
        toy.refused(&format!("error: model.toml: calibration: {fault}"));
    }
}

#[test]
fn a_format_from_another_time_is_named() {
    let mut toy = Toy::new();
    toy.manifest("format = 1", "format = 2\nnovel = true");
    toy.refused("error: model.toml: format 2 is not known; this program reads format 1");
}

#[test]
fn a_changed_file_is_noticed() {
    let mut toy = Toy::new();
    let found = bundle::sha256(&toy.files[1].1);
    toy.manifest(&found, &"0".repeat(64));
    toy.refused(&format!(
        "error: the SHA-256 of `generator.onnx` is {found}, but model.toml says {}\nhint: copy the bundle again; if you changed the file yourself, write its new hash into model.toml",
        "0".repeat(64)
    ));
}

#[test]
fn files_that_are_not_onnx_or_cut_short_are_named() {
    let mut toy = Toy::new();
    toy.network(1, b"hello, this is not a network".to_vec());
    bundle::write(&toy.root.path().join("toy.s2m"), &toy.files).unwrap();
    let ran = run(toy.root.path(), &["sample", "toy.s2m", "A", "--out", "out"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err
            .starts_with("error: `generator.onnx` is not an ONNX file, or is cut short: "),
        "{}",
        ran.err
    );
    let mut toy = Toy::new();
    let half = toy.files[2].1[..1000].to_vec();
    toy.network(2, half);
    bundle::write(&toy.root.path().join("toy.s2m"), &toy.files).unwrap();
    let ran = run(toy.root.path(), &["sample", "toy.s2m", "A", "--out", "out"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err
            .starts_with("error: `classifier.onnx` is not an ONNX file, or is cut short: "),
        "{}",
        ran.err
    );
    assert_eq!(listing(toy.root.path()), ["toy.s2m"]);
}

#[test]
fn outputs_that_do_not_fit_the_labels_are_named() {
    let mut toy = Toy::new();
    toy.manifest("labels = [\"A\", \"B\"]", "labels = [\"A\", \"B\", \"C\"]");
    toy.manifest("observed = [0.5, 0.5]", "observed = [0.5, 0.25, 0.25]");
    toy.manifest(
        "weights = [0.6956521739130435, 0.6956521739130435]",
        "weights = [0.5, 0.5, 0.5]",
    );
    toy.refused("error: `classifier.onnx`: output `class_logits` is f32 [n, 2], but model.toml says f32 [n, 3]");
    let mut toy = Toy::new();
    toy.manifest("class = \"class_logits\"", "class = \"logits\"");
    toy.refused(
        "error: `classifier.onnx` has no output `logits`; it has `class_logits`, `real_logit`",
    );
}

#[test]
fn shares_that_do_not_sum_to_one_are_refused() {
    let mut toy = Toy::new();
    toy.manifest("observed = [0.5, 0.5]", "observed = [0.5, 0.9]");
    toy.refused("error: model.toml: labelling.observed sums to 1.4, not to 1\nhint: give each label's share of the training items; every item shows one label");
}

/// The fault is the network's, so it is named, and not what `model.toml` says about it.
#[test]
fn a_class_index_of_floats_is_named() {
    let mut toy = Toy::new();
    toy.files = exact::toy(exact::ToyLabels::OneOf, exact::ToyGenerator::Conditional);
    let mut g = GraphBuilder::new("floats");
    let z = g.input("z", &[4], Element::F32).unwrap();
    let class = g.input("c", &[], Element::F32).unwrap();
    let class = g.reshape(&class, &[1]).unwrap();
    let point = g.slice(&z, 1, 0..2).unwrap();
    let x = g.add(&point, &class).unwrap();
    g.output(&x, "x").unwrap();
    toy.network(1, g.to_bytes());
    toy.refused("error: `generator.onnx`: the class index `c` is f32, and a class index must be i64\nhint: export it as a 64-bit integer, or take one number per class and say form = \"one-hot\"");
}

#[test]
fn a_latent_that_does_not_fit_is_named() {
    let mut toy = Toy::new();
    toy.manifest("shape = [4]", "shape = [100]");
    toy.refused(
        "error: `generator.onnx`: input `z` is f32 [n, 4], but model.toml says f32 [n, 100]",
    );
}

#[test]
fn logits_that_are_not_numbers_name_the_proposal() {
    let mut toy = Toy::new();
    let mut g = GraphBuilder::new("broken");
    let x = g.input("x", &[2], Element::F32).unwrap();
    let log = g.log(&x).unwrap(); // not a number for negative coordinates
    let one = g.slice(&log, 1, 0..1).unwrap();
    g.output(&log, "class_logits").unwrap();
    g.output(&one, "real_logit").unwrap();
    toy.network(2, g.to_bytes());
    bundle::write(&toy.root.path().join("toy.s2m"), &toy.files).unwrap();
    for command in [
        &["sample", "toy.s2m", "A", "--out", "out"][..],
        &["mine", "toy.s2m", "-n", "100", "--out", "out"],
    ] {
        let ran = run(toy.root.path(), command);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.starts_with("error: proposal "), "{}", ran.err);
        assert!(
            ran.err
                .contains(" is NaN\nhint: the networks overflow for this latent"),
            "{}",
            ran.err
        );
    }
    assert!(!toy.root.path().join("out/metadata.csv").exists());
}

#[test]
fn files_and_external_data_outside_the_bundle_are_refused() {
    let mut toy = Toy::new();
    toy.manifest("file = \"generator.onnx\"", "file = \"../generator.onnx\"");
    toy.files[1].0 = "generator.onnx".to_owned();
    toy.refused("error: file `../generator.onnx` leads outside the bundle");

    let mut toy = Toy::new();
    let bytes = with_external_data(&toy.files[2].1, "../../secret.bin");
    toy.network(2, bytes);
    toy.refused("error: external data `../../secret.bin` leads outside the bundle");
}

/// The same network with its first initializer moved to an external file.
fn with_external_data(bytes: &[u8], location: &str) -> Vec<u8> {
    use prost::Message as _;
    use s2m_model::onnx::{ModelProto, proto::StringStringEntryProto};
    let mut model = ModelProto::decode(bytes).unwrap();
    let tensor = &mut model.graph.as_mut().unwrap().initializer[0];
    tensor.raw_data = None;
    tensor.float_data.clear();
    tensor.data_location = 1;
    tensor.external_data = vec![StringStringEntryProto {
        key: "location".to_owned(),
        value: location.to_owned(),
    }];
    model.encode_to_vec()
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("file"), "x").unwrap();
    refused(
        root.path(),
        &[&SAMPLE[..], &["A", "--out", "file/out"]].concat(),
        "error: could not write `file/out`: Not a directory (os error 20)",
    );
    fs::create_dir(root.path().join("full")).unwrap();
    fs::write(root.path().join("full/precious"), "x").unwrap();
    refused(
        root.path(),
        &[&SAMPLE[..], &["A", "--out", "full"]].concat(),
        "error: `full` already holds files\nhint: choose another folder, or pass --force to replace it",
    );
    assert!(root.path().join("full/precious").exists());
}

/// A limit on file sizes stands in for a full disk: the system refuses to write on.
#[test]
fn a_disk_that_takes_no_more_ends_the_run_cleanly_and_keeps_what_was_scored() {
    let root = tempfile::tempdir().unwrap();
    let line = format!(
        "trap '' XFSZ; ulimit -f 8; exec '{}' \"$@\"",
        env!("CARGO_BIN_EXE_s2m")
    );
    let draw = |out| {
        [
            "sample",
            "gaussians-exact",
            "A",
            "-n",
            "20000",
            "--out",
            out,
        ]
    };
    let ran: Ran = Command::new("bash")
        .args(["-c", &line, "s2m"])
        .args(draw("out"))
        .current_dir(root.path())
        .output()
        .unwrap()
        .into();
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(
        ran.err.starts_with("error: could not write `out.partial/"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("File too large"), "{}", ran.err);
    assert!(
        ran.err
            .ends_with("hint: what was scored is kept in `out.partial`; the same command goes on from it, and so does another number of items\n"),
        "{}",
        ran.err
    );
    assert_eq!(listing(root.path()), ["out.partial"]);
    assert_eq!(
        listing(&root.path().join("out.partial")),
        ["logits.journal", "request.txt"]
    );
    assert_eq!(run(root.path(), &draw("out")).code, 0);
    assert_eq!(run(root.path(), &draw("whole")).code, 0);
    let contents = |name| s2m_testkit::folder::contents(&root.path().join(name), &["seconds"]);
    assert!(contents("out") == contents("whole"));
    assert_eq!(listing(root.path()), ["out", "whole"]);
}

#[test]
fn a_bank_of_another_model_or_seed_is_refused() {
    let toy = Toy::new();
    let root = toy.root.path();
    let files = exact::toy(exact::ToyLabels::OneOf, exact::ToyGenerator::Plain);
    bundle::write(&root.join("other.s2m"), &files).unwrap();
    assert_eq!(
        run(root, &["mine", "other.s2m", "-n", "100", "--out", "bank"]).code,
        0
    );
    for command in [
        &[
            "sample",
            "gaussians-exact",
            "A",
            "--bank",
            "bank",
            "--out",
            "out",
        ][..],
        &["classes", "gaussians-exact", "--bank", "bank"],
        &["mine", "gaussians-exact", "-n", "100", "--out", "bank"],
    ] {
        let ran = run(root, command);
        assert_eq!(ran.code, 2);
        assert!(ran.err.starts_with("error: the bank `bank` belongs to another model: it was mined with `gaussians-exact-one-of`"), "{}", ran.err);
        assert!(
            ran.err.contains("\nhint: mine a new bank for this model"),
            "{}",
            ran.err
        );
    }
    let ran = run(
        root,
        &[
            "sample",
            "other.s2m",
            "A",
            "--bank",
            "bank",
            "--seed",
            "5",
            "--out",
            "out",
        ],
    );
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("seed"), "{}", ran.err);
    let ran = run(
        root,
        &[
            "sample",
            "other.s2m",
            "A",
            "--bank",
            "nowhere",
            "--out",
            "out",
        ],
    );
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("`nowhere`"), "{}", ran.err);
    assert!(!root.join("out").exists() && !root.join("out.partial").exists());
}

#[test]
fn an_unreachable_query_is_an_answer_with_what_was_seen() {
    let root = tempfile::tempdir().unwrap();
    let options = [
        "A - B",
        "--class-temperature",
        "1e6",
        "--floor",
        "0.9",
        "--out",
        "out",
    ];
    let ran = run(root.path(), &[&SAMPLE[..], &options].concat());
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert_eq!(
        ran.err,
        "no samples for `A - B`: the generator does not reach this query: 0 of 131072 proposals lie in its support, \
         at least 10 are needed\nhint: lower --floor or --purity, check `s2m classes` for what the generator makes, \
         or loosen the query\n"
    );
    assert!(listing(root.path()).is_empty());
    let ran = run(
        root.path(),
        &[
            &SAMPLE[..],
            &["A", "-n", "10000", "--max-calls", "1000", "--out", "out"],
        ]
        .concat(),
    );
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("hint: allow more with --max-calls"),
        "{}",
        ran.err
    );
    assert!(listing(root.path()).is_empty());
}

#[test]
fn a_missing_or_wrong_runtime_is_explained() {
    let root = tempfile::tempdir().unwrap();
    refused(
        root.path(),
        &[
            &SAMPLE[..],
            &["A", "--out", "out", "--onnxruntime", "nowhere.so"],
        ]
        .concat(),
        "error: no ONNX Runtime library at `nowhere.so`, named by --onnxruntime",
    );
    fs::write(root.path().join("wrong.so"), "not a library").unwrap();
    let ran = run(
        root.path(),
        &[
            &SAMPLE[..],
            &["A", "--out", "out", "--onnxruntime", "./wrong.so"],
        ]
        .concat(),
    );
    assert_eq!(ran.code, 2);
    assert!(
        ran.err
            .starts_with("error: could not load ONNX Runtime from `./wrong.so`: "),
        "{}",
        ran.err
    );
    let ran = run(
        root.path(),
        &[&SAMPLE[..], &["A", "--out", "out", "--device", "cuda"]].concat(),
    );
    assert_eq!(ran.code, 2);
    assert!(
        ran.err
            .starts_with("error: the CUDA device cannot be used: "),
        "{}",
        ran.err
    );
    assert!(!root.path().join("out").exists() && !root.path().join("out.partial").exists());
}
