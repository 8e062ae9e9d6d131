//! Whole networks of the embedded models against differences.

use std::fs;
use std::path::Path;

use super::*;

/// An embedded model; levels of images are so fine that differences see through them.
fn bundle(name: &str) -> Bundle {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../s2m/models")
        .join(format!("{name}.s2m"));
    let read = |file: &str| fs::read(folder.join(file)).unwrap();
    let manifest = String::from_utf8(read("model.toml")).unwrap();
    let fine = manifest.replace("bits = 8", "bits = 16");
    let files = [
        ("model.toml", fine.into_bytes()),
        ("generator.onnx", read("generator.onnx")),
        ("classifier.onnx", read("classifier.onnx")),
    ];
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(name, bytes)| (*name, bytes.as_slice()))
        .collect();
    Bundle::from_files(&files).unwrap()
}

fn normal(rows: usize, width: usize, seed: u64) -> Vec<f32> {
    let mut latents = vec![0.0; rows * width];
    s2m_core::proposals::Proposals::new(seed).fill_normal(0, 0, width, &mut latents);
    latents
}

#[test]
fn embedded_models_agree_with_differences() {
    let runtime = Runtime::load(None).unwrap();
    for name in ["gaussians", "gaussians-exact", "mnist-even"] {
        let bundle = bundle(name);
        let gradients = Gradients::open(&bundle, &runtime, &RunSettings::default()).unwrap();
        let (rows, width) = (5, gradients.width());
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
                asked
                    .slopes
                    .iter_mut()
                    .enumerate()
                    .for_each(|(at, slope)| *slope = u(at));
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
        let (_, slopes) = run(&latents);
        let mut bent = 0;
        for seed in 2..6 {
            let mut direction = normal(rows, width, seed);
            if name == "gaussians-exact" {
                // The first number picks a component, by jumps.
                direction.iter_mut().step_by(width).for_each(|d| *d = 0.0);
            }
            let moved = |by: f32| -> Vec<f32> {
                latents
                    .iter()
                    .zip(&direction)
                    .map(|(z, d)| z + by * d)
                    .collect()
            };
            // Levels of images, fine as they are, are seen over less.
            let by = if name.contains("mnist") { 1e-3 } else { 2e-4 };
            let (above, below) = (run(&moved(by)).0, run(&moved(-by)).0);
            for row in 0..rows {
                let range = row * width..(row + 1) * width;
                let along = slopes[range.clone()].iter().zip(&direction[range.clone()]);
                let found: f64 = along.map(|(s, d)| f64::from(*s) * f64::from(*d)).sum();
                let wanted = (above[row] - below[row]) / (2.0 * f64::from(by));
                let size: f64 = slopes[range]
                    .iter()
                    .map(|s| f64::from(*s).powi(2))
                    .sum::<f64>()
                    .sqrt();
                bent += usize::from((found - wanted).abs() > 0.04 * size + 0.02);
            }
        }
        // A rectifier may bend between the two ends of a difference.
        assert!(bent <= 3, "{name}: {bent} of 20 are off");
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
