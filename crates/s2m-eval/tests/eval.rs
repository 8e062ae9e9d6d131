//! Pictures through networks: what they see, how it is kept, and InceptionV3 where its file is at hand.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::fs;
use std::path::{Path, PathBuf};

use s2m::progress::Silent;
use s2m::session::Machine;
use s2m_data::resize::{Filter, resize};
use s2m_eval::items::{self, Items, Pictures};
use s2m_eval::look::{Seen, look};
use s2m_eval::measure::Metric;
use s2m_eval::network::{EvalNetwork, Wanted};
use s2m_eval::{Request, evaluate};
use s2m_model::networks::RunSettings;
use s2m_model::onnx::{Element, GraphBuilder};
use s2m_model::runtime::Runtime;

/// A network whose features are the numbers of its input, and whose class is the brighter half.
fn write_network(path: &Path, sides: [usize; 3]) {
    let mut g = GraphBuilder::new("pixels");
    let x = g.input("x", &sides, Element::F32).unwrap();
    let flat = g.flatten(&x).unwrap();
    let size: usize = sides.iter().product();
    let weights: Vec<f32> = (0..2 * size)
        .map(|at| f32::from(u8::from(at / size == (at % size) / size.div_ceil(2))))
        .collect();
    let weight = g.constant("weight", &[2, size], &weights).unwrap();
    let bias = g.constant("bias", &[2], &[0.0, 0.0]).unwrap();
    let classes = g.linear(&flat, &weight, &bias).unwrap();
    g.output(&classes, "class_logits").unwrap();
    g.output(&flat, "features").unwrap();
    fs::write(path, g.to_bytes()).unwrap();
}

fn open(path: &Path) -> EvalNetwork {
    let runtime = Runtime::load(None).unwrap();
    EvalNetwork::open(path, Wanted::Features, &runtime, &RunSettings::default()).unwrap()
}

fn grey(levels: &[u8], shape: [usize; 2]) -> Pictures {
    Pictures::Held {
        bytes: levels.to_vec(),
        shape: [shape[0], shape[1], 1],
    }
}

fn seen(pictures: &Pictures, network: &EvalNetwork, cache: Option<&Path>) -> Seen {
    look(pictures, network, cache, &Silent).unwrap()
}

#[test]
fn a_network_sees_levels_in_its_range_and_colours_plane_by_plane() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pixels.onnx");
    write_network(&path, [3, 1, 2]);
    let colours = Pictures::Held {
        bytes: vec![0, 51, 102, 153, 204, 255],
        shape: [1, 2, 3],
    };
    let at = |level: f32| level * 0.4 - 1.0;
    let found = seen(&colours, &open(&path), None).features.unwrap();
    assert_eq!(found.width, 6);
    let wanted = [0.0, 3.0, 1.0, 4.0, 2.0, 5.0].map(at);
    for (found, wanted) in found.values.iter().zip(wanted) {
        assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
    }
    // Grey is repeated, and the file beside the network moves the range.
    fs::write(folder.path().join("pixels.toml"), "range = [0.0, 255.0]\n").unwrap();
    let found = seen(&grey(&[7, 9], [1, 2]), &open(&path), None)
        .features
        .unwrap();
    for (found, wanted) in found.values.iter().zip([7.0, 9.0, 7.0, 9.0, 7.0, 9.0]) {
        assert!((found - wanted).abs() < 1e-4, "{found} {wanted}");
    }
}

#[test]
fn other_sizes_are_resized_by_the_chosen_filter_without_rounding() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pixels.onnx");
    write_network(&path, [1, 3, 3]);
    let levels: Vec<u8> = (0..35).map(|k| (k * 37 % 256) as u8).collect();
    let floats: Vec<f32> = levels.iter().map(|&level| f32::from(level)).collect();
    for (name, filter) in [("bilinear", Filter::Bilinear), ("bicubic", Filter::Bicubic)] {
        let settings = format!("range = [0.0, 255.0]\nresize = \"{name}\"\n");
        fs::write(folder.path().join("pixels.toml"), settings).unwrap();
        let found = seen(&grey(&levels, [5, 7]), &open(&path), None)
            .features
            .unwrap();
        let wanted = resize(&floats, [5, 7], 1, [3, 3], filter);
        for (found, wanted) in found.values.iter().zip(wanted) {
            assert!(
                (found - wanted.clamp(0.0, 255.0)).abs() < 1e-3,
                "{found} {wanted}"
            );
        }
    }
}

#[test]
fn what_was_seen_is_kept_until_anything_about_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (path, cache) = (
        folder.path().join("pixels.onnx"),
        folder.path().join("kept"),
    );
    write_network(&path, [1, 1, 2]);
    let network = open(&path);
    let pictures = grey(&[1, 2, 3, 4], [1, 2]);
    let first = seen(&pictures, &network, Some(&cache));
    let files = || fs::read_dir(&cache).unwrap().count();
    assert_eq!(files(), 4);
    assert_eq!(seen(&pictures, &network, Some(&cache)), first);
    assert_eq!(files(), 4);
    // A file that was cut is not believed.
    for entry in fs::read_dir(&cache).unwrap() {
        fs::write(entry.unwrap().path(), "x").unwrap();
    }
    assert_eq!(seen(&pictures, &network, Some(&cache)), first);
    // Another picture, the same levels in another shape, another range.
    seen(&grey(&[1, 2, 3, 5], [1, 2]), &network, Some(&cache));
    seen(&grey(&[1, 2, 3, 4], [2, 1]), &network, Some(&cache));
    fs::write(folder.path().join("pixels.toml"), "range = [0.0, 1.0]\n").unwrap();
    seen(&pictures, &open(&path), Some(&cache));
    assert_eq!(files(), 16);
}

#[test]
fn settings_beside_a_network_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pixels.onnx");
    write_network(&path, [1, 2, 2]);
    let runtime = Runtime::load(None).unwrap();
    let error = |settings: &str| {
        fs::write(folder.path().join("pixels.toml"), settings).unwrap();
        EvalNetwork::open(&path, Wanted::Features, &runtime, &RunSettings::default())
            .unwrap_err()
            .to_string()
    };
    assert!(error("rnage = [0.0, 1.0]").contains("rnage"));
    assert!(error("range = [1.0, 0.0]").contains("two rising numbers"));
    assert!(error("features = \"pool\"").contains("has no output `pool`"));
    assert!(error("names = [\"cat\"]").contains("names lists 1 classes, the network has 2"));
}

#[test]
fn reports_that_lead_out_of_their_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for inside in ["../secret", "", "..", "/etc"] {
        let report = format!(r#"[{{ "query": "A", "folder": "{inside}" }}]"#);
        fs::write(folder.path().join("report.json"), report).unwrap();
        let error = items::open(folder.path(), false).unwrap_err().to_string();
        assert!(error.contains("is not inside the output"), "{error}");
    }
}

/// Where data lies that the project does not hold: `$S2M_DATA`, or `data` in the project.
fn data(name: &str) -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let path = std::env::var_os("S2M_DATA")
        .map_or(own, PathBuf::from)
        .join(name);
    let there = path.is_file();
    if !there {
        eprintln!("skipped: {name} is not there; set S2M_DATA to the folder that holds it");
    }
    there.then_some(path)
}

/// Two halves of 48 digits are of one kind, so their KID is zero up to its error.
#[test]
fn inception_looks_at_pictures_of_any_size() {
    let (Some(network), Some(digits)) = (
        data("inception/inception_v3_features.onnx.gz"),
        data("mnist/t10k-images-idx3-ubyte.gz"),
    ) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let Items::Pictures(Pictures::Held { bytes, .. }) =
        &items::open(&digits, false).unwrap()[0].items
    else {
        panic!("an idx file holds images");
    };
    for (name, part) in ["real.npy", "made.npy"].iter().zip(bytes.chunks(24 * 784)) {
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (24, 28, 28), }";
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.bytes());
        file.extend(part);
        fs::write(folder.path().join(name), file).unwrap();
    }
    let found = evaluate(
        &Request {
            real: &folder.path().join("real.npy"),
            generated: &folder.path().join("made.npy"),
            training: None,
            features: Some(&network),
            referee: None,
            query: None,
            labels: &[],
            metrics: &Metric::ALL,
            skip_bad: false,
            cache: None,
            machine: Machine::default(),
            html: None,
        },
        &Silent,
    )
    .unwrap();
    let measure = |metric| {
        let all = &found.pooled.measures;
        all.iter().find(|m| m.metric == metric).unwrap()
    };
    assert!(
        measure(Metric::Fid)
            .note
            .as_ref()
            .unwrap()
            .contains("2048 features")
    );
    let kid = measure(Metric::Kid);
    let [low, high] = kid.interval.unwrap();
    let error = (high - low) / (2.0 * 1.96);
    assert!(kid.value.unwrap().abs() < 4.0 * error, "{kid:?}");
    let score = measure(Metric::Is).value.unwrap();
    assert!((1.0..1001.0).contains(&score), "{score}");
}

/// Two halves of equal brightness have equal logits: the referee says the first class.
#[test]
fn ties_of_a_referee_go_to_the_first_class() {
    let folder = tempfile::tempdir().unwrap();
    let referee = folder.path().join("halves.onnx");
    write_network(&referee, [1, 1, 2]);
    let grey = {
        let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 1, 2), }\n";
        let length = (header.len() as u16).to_le_bytes();
        let levels = [9, 9, 200, 200, 30, 30];
        [b"\x93NUMPY\x01\0", &length[..], header.as_bytes(), &levels].concat()
    };
    let items = folder.path().join("items.npy");
    fs::write(&items, grey).unwrap();
    for (query, wanted) in [("\"0\"", 1.0), ("\"1\"", 0.0)] {
        let found = evaluate(
            &Request {
                real: &items,
                generated: &items,
                training: None,
                features: None,
                referee: Some(&referee),
                query: Some(query),
                labels: &[],
                metrics: &[Metric::Accuracy],
                skip_bad: false,
                cache: None,
                machine: Machine::default(),
                html: None,
            },
            &Silent,
        );
        let measures = found.unwrap().pooled.measures;
        assert_eq!(measures[0].value, Some(wanted), "{query}: {measures:?}");
    }
}

/// An array of 64 bits as NumPy writes it.
fn doubles(width: usize, values: &[f64]) -> Vec<u8> {
    let shape = format!("({}, {width})", values.len() / width);
    let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = (header.len() as u16).to_le_bytes();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    [b"\x93NUMPY\x01\0", &length[..], header.as_bytes(), &bytes].concat()
}

/// Features of 64 bits are compared as they are given: where both sides lie makes no difference.
#[test]
fn an_offset_of_features_in_64_bits_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |item: usize, factor: usize| ((item * item * factor + 7 * item) % 101) as f64 / 8.0;
    let measured = |offset: f64| {
        for (name, factor, items) in [("real.npy", 3, 600), ("made.npy", 5, 400)] {
            let values: Vec<f64> = (0..items).map(|item| at(item, factor) + offset).collect();
            fs::write(folder.path().join(name), doubles(2, &values)).unwrap();
        }
        let found = evaluate(
            &Request {
                real: &folder.path().join("real.npy"),
                generated: &folder.path().join("made.npy"),
                training: None,
                features: None,
                referee: None,
                query: None,
                labels: &[],
                metrics: &[
                    Metric::Fid,
                    Metric::Precision,
                    Metric::Recall,
                    Metric::Density,
                    Metric::Coverage,
                    Metric::Diversity,
                    Metric::Duplicates,
                ],
                skip_bad: false,
                cache: None,
                machine: Machine::default(),
                html: Some(&folder.path().join("page.html")),
            },
            &Silent,
        );
        let measures = found.unwrap().pooled.measures;
        let values = measures.iter().map(|m| (m.metric, m.value.unwrap()));
        values.collect::<Vec<_>>()
    };
    let wanted = measured(0.0);
    for offset in [1e6, 1e8] {
        for ((metric, found), (_, wanted)) in measured(offset).into_iter().zip(&wanted) {
            assert!(
                (found - wanted).abs() <= 1e-6 * wanted.abs(),
                "{metric:?} at {offset}: {found}, not {wanted}"
            );
        }
    }
}
