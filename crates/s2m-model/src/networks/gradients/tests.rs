//! Whole networks of the embedded models against differences.

use std::fs;
use std::path::Path;

use super::*;

/// An embedded model.
fn bundle(name: &str) -> Bundle {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../s2m/models")
        .join(format!("{name}.s2m"));
    let files = ["model.toml", "generator.onnx", "classifier.onnx"]
        .map(|file| (file, fs::read(folder.join(file)).unwrap()));
    let files = files.each_ref().map(|(name, bytes)| (*name, &**bytes));
    Bundle::from_files(&files).unwrap()
}

/// Gradients of an embedded model whose images keep every value between two levels: differences cannot see through
/// levels, which gradients pass over.
fn without_levels(bundle: &Bundle, runtime: &Runtime) -> Gradients {
    let bytes = join_networks(bundle, &output_names(bundle, &[])).unwrap();
    let mut model = ModelProto::decode(&*bytes).unwrap();
    let graph = model.graph.as_mut().unwrap();
    for node in graph.node.iter_mut().filter(|n| n.op_type == "Round") {
        "Identity".clone_into(&mut node.op_type);
    }
    Gradients::of(&model, "test", bundle, (runtime, &RunSettings::default())).unwrap()
}

fn normal(rows: usize, width: usize, seed: u64) -> Vec<f32> {
    let mut latents = vec![0.0; rows * width];
    s2m_core::proposals::Proposals::new(seed).fill_normal(0, 0, width, &mut latents);
    latents
}

/// Between the bends of its rectifiers a network is as smooth as differences need: where those to both sides and over two
/// lengths agree, the gradient is what they say.
#[test]
fn embedded_models_agree_with_differences() {
    let runtime = Runtime::load(None).unwrap();
    for name in [
        "gaussians",
        "gaussians-exact",
        "mnist-even",
        "mnist-even-conditional",
        "fmnist-even",
    ] {
        let bundle = bundle(name);
        let gradients = without_levels(&bundle, &runtime);
        let (rows, width) = (8, gradients.width());
        let numbers: Vec<u64> = (0..rows as u64).collect();
        let conditional = bundle.classes().is_some();
        let classes: Vec<u32> = numbers
            .iter()
            .filter(|_| conditional)
            .map(|k| (k % 2) as u32)
            .collect();
        let u = |at: usize| [0.7, -0.4, 1.1, 0.3, -0.9][at % 5];
        let run = |latents: &[f32]| -> (Vec<f64>, Vec<f32>) {
            let given = Given {
                latents,
                numbers: &numbers,
                classes: &classes,
            };
            let ask = |asked: Asked<'_>| {
                let slopes = asked.slopes.iter_mut().enumerate();
                slopes.for_each(|(at, slope)| *slope = u(at));
            };
            let (logits, slopes) = gradients.run(given, &ask).unwrap();
            let sum = |row: usize| {
                let logits = logits.row(row).iter().enumerate();
                logits
                    .map(|(at, &logit)| f64::from(u(at)) * f64::from(logit))
                    .sum()
            };
            ((0..rows).map(sum).collect(), slopes)
        };
        let latents = normal(rows, width, 1);
        let (here, slopes) = run(&latents);
        let mut smooth = 0;
        for seed in 2..8 {
            let mut direction = normal(rows, width, seed);
            if name == "gaussians-exact" {
                // The first number picks a component, by jumps.
                direction.iter_mut().step_by(width).for_each(|d| *d = 0.0);
            }
            for own in direction.chunks_exact_mut(width) {
                let length = own.iter().map(|d| d * d).sum::<f32>().sqrt();
                for d in own {
                    *d /= length;
                }
            }
            let moved = |by: f32| -> Vec<f32> {
                let pairs = latents.iter().zip(&direction);
                pairs.map(|(z, d)| z + by * d).collect()
            };
            let sides = [1e-3, 2e-3].map(|by| {
                let ends = [run(&moved(by)).0, run(&moved(-by)).0];
                let by = f64::from(by);
                let to = |at: usize, row: usize| (ends[at][row] - here[row]) / by;
                let all: Vec<[f64; 2]> = (0..rows).map(|row| [to(0, row), -to(1, row)]).collect();
                all
            });
            for row in 0..rows {
                let range = row * width..(row + 1) * width;
                let own = &slopes[range.clone()];
                let along = own.iter().zip(&direction[range]);
                let found: f64 = along.map(|(s, d)| f64::from(*s) * f64::from(*d)).sum();
                let said = [sides[0][row], sides[1][row]].concat();
                let least = said.iter().copied().fold(f64::INFINITY, f64::min);
                let most = said.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                // Logits of 32 bits are known to a few ten millionths of their size, differences over 1e-3 to 1,000 times that.
                let size = own
                    .iter()
                    .map(|s| f64::from(*s).powi(2))
                    .sum::<f64>()
                    .sqrt();
                let close = 0.02 * size + 2e-3 + 5e-4 * here[row].abs();
                if most - least > close {
                    continue;
                }
                smooth += 1;
                let wanted = f64::midpoint(least, most);
                assert!(
                    (found - wanted).abs() <= close,
                    "{name}, item {row}: {found}, but differences say {said:?}"
                );
            }
        }
        assert!(smooth >= 16, "{name}: {smooth} of 48 places are smooth");
    }
}

/// The logits are those of the scorer, and no row depends on how many there are.
#[test]
fn rows_do_not_depend_on_their_batch() {
    use super::super::{Requested, Scorer};
    use s2m_core::proposals::Proposals;

    let runtime = Runtime::load(None).unwrap();
    let bundle = bundle("mnist-even");
    let gradients = Gradients::open(&bundle, &runtime, &RunSettings::default()).unwrap();
    let (rows, width) = (2 * gradients.batch + 3, gradients.width());
    let latents = normal(rows, width, 0);
    let numbers: Vec<u64> = (0..rows as u64).collect();
    let ask = |asked: Asked<'_>| asked.slopes.fill(1.0);
    let run = |rows: std::ops::Range<usize>| {
        let given = Given {
            latents: &latents[rows.start * width..rows.end * width],
            numbers: &numbers[rows],
            classes: &[],
        };
        gradients.run(given, &ask).unwrap()
    };
    let (logits, slopes) = run(0..rows);
    for range in [0..1, 7..gradients.batch + 9, rows - 3..rows] {
        let (some, own) = run(range.clone());
        assert_eq!(
            some.values(),
            &logits.values()
                [range.start * logits.shape().width()..range.end * logits.shape().width()]
        );
        assert_eq!(own, slopes[range.start * width..range.end * width]);
    }
    let scorer = Scorer::open(&bundle, &runtime, &RunSettings::default()).unwrap();
    let requested = Requested {
        proposals: Proposals::new(0),
        mixture: None,
        numbers: &numbers,
        classes: &[],
    };
    let scored = scorer.score(requested).unwrap();
    for (one, other) in logits.values().iter().zip(scored.values()) {
        assert!((one - other).abs() < 1e-3, "{one} and {other}");
    }
}

/// A generator of two latents, of which one changes nothing.
#[test]
fn a_latent_that_changes_nothing_is_named() {
    let mut network = crate::onnx::GraphBuilder::new("toy");
    let z = network.input("z", &[2], crate::onnx::Element::F32).unwrap();
    network
        .input("noise", &[3], crate::onnx::Element::F32)
        .unwrap();
    let y = network.tanh(&z).unwrap();
    network.output(&y, "y").unwrap();
    let model = network.finish();
    let dims = |sizes: &[usize]| Fact {
        dims: sizes.to_vec(),
        element: 1,
        whole: None,
    };
    let facts = Facts::from([
        ("z".into(), dims(&[8, 2])),
        ("noise".into(), dims(&[8, 3])),
        ("y".into(), dims(&[8, 2])),
    ]);
    let said = differentiate(&model, &["z", "noise"], &["y"], &facts).unwrap_err();
    assert_eq!(
        said.to_string(),
        "the networks' outputs do not depend on latent `noise` in any way that has a derivative"
    );
}
