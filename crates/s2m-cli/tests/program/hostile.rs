//! Files that lie: damaged or made to harm. Each is refused in words, and nothing crashes, hangs or fills the memory.

use std::fs;
use std::path::Path;
use std::process::Command;

use prost::Message as _;
use s2m_model::bundle;
use s2m_model::onnx::ModelProto;
use s2m_model::onnx::proto::{StringStringEntryProto, TensorProto};
use s2m_testkit::exact;
use s2m_testkit::linear::linear;

use super::careless::{names, run_soon};
use super::run;

/// Files of a bundle with some text of its manifest exchanged.
fn toy(from: &str, to: &str) -> Vec<(String, Vec<u8>)> {
    let mut files = exact::gaussians_exact().to_vec();
    let text = String::from_utf8(files[0].1.clone()).unwrap();
    assert!(text.contains(from), "{from}");
    files[0].1 = text.replace(from, to).into_bytes();
    files
}

/// Puts files in a folder without looking at them.
fn put(folder: &Path, files: &[(String, Vec<u8>)]) {
    fs::create_dir_all(folder).unwrap();
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

/// A network's first weights moved to a file of their own, which the manifest lists or does not.
#[test]
fn a_flipped_bit_in_weights_outside_the_onnx_file_is_said_where_they_are_listed() {
    const FLOAT: i32 = 1;
    let root = tempfile::tempdir().unwrap();
    let mut files = exact::gaussians_exact().to_vec();
    let mut model = ModelProto::decode(files[2].1.as_slice()).unwrap();
    let graph = model.graph.as_mut().unwrap();
    // Numbers of a layer: those that say where to cut are read before the network runs.
    let size = |t: &TensorProto| {
        t.float_data
            .len()
            .max(t.raw_data.as_ref().map_or(0, Vec::len))
    };
    let floats = graph
        .initializer
        .iter_mut()
        .filter(|t| t.data_type == FLOAT);
    let tensor = floats.max_by_key(|t| size(t)).unwrap();
    let bytes: Vec<u8> = tensor.raw_data.take().unwrap_or_else(|| {
        let floats = tensor.float_data.iter();
        floats.flat_map(|value| value.to_le_bytes()).collect()
    });
    tensor.float_data.clear();
    tensor.data_location = 1;
    tensor.external_data = vec![StringStringEntryProto {
        key: "location".to_owned(),
        value: "weights.bin".to_owned(),
    }];
    let network = model.encode_to_vec();
    let text = String::from_utf8(files[0].1.clone()).unwrap();
    let text = text.replace(&bundle::sha256(&files[2].1), &bundle::sha256(&network));
    files[2].1 = network;
    let listed = format!(
        "{text}\n[external]\n\"weights.bin\" = \"{}\"\n",
        bundle::sha256(&bytes)
    );
    let mut damaged = bytes.clone();
    damaged[0] ^= 1;
    let draw = [
        "sample", "toy.s2m", "A", "-n", "20", "--force", "--out", "out",
    ];
    let mut try_with = |manifest: &str, weights: &[u8]| {
        files[0].1 = manifest.as_bytes().to_vec();
        files.truncate(3);
        files.push(("weights.bin".to_owned(), weights.to_vec()));
        put(&root.path().join("toy.s2m"), &files);
        (
            run(root.path(), &draw),
            run(root.path(), &["info", "toy.s2m"]),
        )
    };
    let (ran, info) = try_with(&text, &bytes);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        info.out
            .contains("unchecked    weights.bin: model.toml does not list it"),
        "{}",
        info.out
    );
    let (ran, info) = try_with(&listed, &bytes);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!info.out.contains("unchecked"), "{}", info.out);
    let (ran, _) = try_with(&listed, &damaged);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err
            .starts_with("error: the SHA-256 of `weights.bin` is "),
        "{}",
        ran.err
    );
}

/// The first axis of every input and output of a network, as a number.
fn with_fixed_batch(bytes: &[u8], batch: i64) -> Vec<u8> {
    use s2m_model::onnx::proto::{DimensionValue, TypeValue};
    let mut model = ModelProto::decode(bytes).unwrap();
    let graph = model.graph.as_mut().unwrap();
    for port in graph.input.iter_mut().chain(&mut graph.output) {
        let kind = port.r#type.as_mut().unwrap().value.as_mut().unwrap();
        let TypeValue::Tensor(tensor) = kind else {
            continue;
        };
        let shape = tensor.shape.as_mut().unwrap();
        shape.dim[0].value = Some(DimensionValue::DimValue(batch));
    }
    model.encode_to_vec()
}

#[test]
fn batches_that_no_memory_holds_are_refused() {
    for batch in [1 << 31, 1 << 62, i64::MAX] {
        let root = tempfile::tempdir().unwrap();
        let mut files = exact::gaussians_exact().to_vec();
        let mut text = String::from_utf8(files[0].1.clone()).unwrap();
        for (_, bytes) in &mut files[1..] {
            let changed = with_fixed_batch(bytes, batch);
            text = text.replace(&bundle::sha256(bytes), &bundle::sha256(&changed));
            *bytes = changed;
        }
        files[0].1 = text.into_bytes();
        put(&root.path().join("toy.s2m"), &files);
        let ran = run_soon(root.path(), &["sample", "toy.s2m", "A", "--out", "out"]);
        assert_eq!(ran.code, 2, "{batch}: {}", ran.err);
        assert!(
            ran.err
                .starts_with("error: the networks were exported for batches of"),
            "{}",
            ran.err
        );
        assert_eq!(names(root.path()), ["toy.s2m"]);
    }
}

#[test]
fn what_a_terminal_would_obey_is_shown_and_not_done() {
    let root = tempfile::tempdir().unwrap();
    let escape = "\\u001b]0;owned\\u0007\\u009b2J";
    for (from, to) in [
        ("name = \"gaussians-exact\"", format!("name = \"{escape}\"")),
        ("A = \"lower left", format!("A = \"{escape} lower left")),
        ("licence = \"MIT", format!("licence = \"{escape} MIT")),
        ("floor = 0.0", format!("\"{escape}\" = 0.0")),
        ("class = \"class_logits\"", format!("class = \"{escape}\"")),
    ] {
        put(&root.path().join("toy.s2m"), &toy(from, &to));
        for arguments in [
            &["info", "toy.s2m"][..],
            &[
                "sample", "toy.s2m", "A", "--force", "--json", "--out", "out",
            ],
            &["classes", "toy.s2m"],
        ] {
            let ran = run(root.path(), arguments);
            let said = format!("{}{}", ran.out, ran.err);
            let obeyed = said
                .chars()
                .find(|c| c.is_control() && *c != '\n' && *c != '\t');
            assert_eq!(obeyed, None, "{said:?}");
        }
    }
}

#[test]
fn messages_have_an_end() {
    let root = tempfile::tempdir().unwrap();
    put(
        &root.path().join("toy.s2m"),
        &toy("floor = 0.0", &format!("{} = 0.0", "f".repeat(100_000))),
    );
    let ran = run(root.path(), &["info", "toy.s2m"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.len() < 1500, "{}", ran.err.len());
}

#[test]
fn pipes_are_refused_wherever_a_file_is_wanted() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let pipe = |path: &Path| {
        let _ = fs::remove_file(path);
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    for file in ["model.toml", "generator.onnx", "classifier.onnx"] {
        bundle::write(&at("toy.s2m"), &exact::gaussians_exact()).unwrap();
        pipe(&at("toy.s2m").join(file));
        let ran = run_soon(root.path(), &["sample", "toy.s2m", "A", "--out", "out"]);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains("it is not a plain file"), "{}", ran.err);
        fs::remove_dir_all(at("toy.s2m")).unwrap();
    }
    super::eval::write_line(&at("real.npy"), 0.0);
    for name in [
        "pipe.npy",
        "pipe.npz",
        "pipe.toml",
        "pipe.csv",
        "pipe.onnx",
        "x-images-idx3-ubyte",
    ] {
        pipe(&at(name));
    }
    for arguments in [
        &["eval", "--real", "real.npy", "--generated", "pipe.npy"][..],
        &["eval", "--real", "pipe.npz", "--generated", "real.npy"],
        &[
            "eval",
            "--real",
            "x-images-idx3-ubyte",
            "--generated",
            "real.npy",
        ],
        &[
            "eval",
            "--real",
            "real.npy",
            "--generated",
            "real.npy",
            "--features",
            "pipe.onnx",
        ],
        &[
            "calibrate",
            "gaussians-exact",
            "--data",
            "pipe.toml",
            "--out",
            "out.s2m",
        ],
        &[
            "fit",
            "--generator",
            "pipe.onnx",
            "--data",
            "pipe.toml",
            "--out",
            "out.s2m",
        ],
        &[
            "fit",
            "--generator",
            "pipe.onnx",
            "--data",
            "pipe.csv",
            "--out",
            "out.s2m",
        ],
    ] {
        let ran = run_soon(root.path(), arguments);
        assert_eq!(ran.code, 2, "{arguments:?}");
        assert!(ran.err.starts_with("error: "), "{arguments:?}: {}", ran.err);
    }
    assert!(!at("out").exists() && !at("out.s2m").exists());
}

#[test]
fn labels_whose_columns_could_not_be_told_apart_are_refused() {
    let root = tempfile::tempdir().unwrap();
    for (labels, wrong, other) in [
        (["A", "p_A"], "p_A", "p_A"),
        (["A", "P_a"], "P_a", "p_A"),
        (["A", "file_name"], "file_name", "file_name"),
        (["Proposal", "B"], "Proposal", "proposal"),
        (["cat", "Cat"], "Cat", "cat"),
    ] {
        let files = linear(2).map(|(name, bytes)| match name.as_str() {
            "model.toml" => {
                let text = String::from_utf8(bytes).unwrap();
                let text = text.replace("\"L0\"", &format!("{:?}", labels[0]));
                (
                    name,
                    text.replace("\"L1\"", &format!("{:?}", labels[1]))
                        .into_bytes(),
                )
            }
            _ => (name, bytes),
        });
        put(&root.path().join("toy.s2m"), &files);
        let ran = run(root.path(), &["info", "toy.s2m"]);
        assert_eq!(ran.code, 2, "{labels:?}");
        let wanted = format!(
            "error: model.toml: label `{wrong}` cannot be told from `{other}` in a table of samples\n"
        );
        assert!(ran.err.starts_with(&wanted), "{}", ran.err);
    }
}

#[test]
fn label_weights_that_cannot_be_added_are_refused() {
    let root = tempfile::tempdir().unwrap();
    for weights in ["[1.7e308, 1.7e308]", "[1e-320, 1e-320]"] {
        let files = toy(
            "weights = [0.6956521739130435, 0.6956521739130435]",
            &format!("weights = {weights}"),
        );
        put(&root.path().join("toy.s2m"), &files);
        let ran = run(root.path(), &["info", "toy.s2m"]);
        assert_eq!(ran.code, 2, "{weights}");
        assert!(
            ran.err.starts_with("error: model.toml: labelling.weights"),
            "{}",
            ran.err
        );
    }
}
