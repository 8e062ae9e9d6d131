//! Convolutions behind a doubling, as they are run, against the definition written out.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use s2m_core::proposals::Proposals;
use s2m_model::bundle::{Bundle, sha256};
use s2m_model::networks::{Renderer, Requested, RunSettings};
use s2m_model::onnx::{Conv2d, Element, GraphBuilder};
use s2m_model::runtime::Runtime;
use s2m_testkit::linear::linear;

const SIDE: usize = 3;
const INPUTS: usize = 2;
const OUTPUTS: usize = 4;
const LARGE: usize = 2 * SIDE;

fn weight(at: usize) -> f32 {
    ((at * 37 + 11) % 101) as f32 / 101.0 - 0.5
}

fn weights(first: usize, count: usize) -> Vec<f32> {
    (first..first + count).map(weight).collect()
}

/// Latents as a small picture, doubled, through a 3×3 and a 1×1 convolution that are added up.
fn generator() -> Vec<u8> {
    let mut g = GraphBuilder::new("block");
    let z = g.input("z", &[INPUTS * SIDE * SIDE], Element::F32).unwrap();
    let x = g.reshape(&z, &[INPUTS, SIDE, SIDE]).unwrap();
    let big = g.resize_nearest_2x(&x).unwrap();
    let three = weights(0, OUTPUTS * INPUTS * 9);
    let three = g
        .constant("three", &[OUTPUTS, INPUTS, 3, 3], &three)
        .unwrap();
    let one = weights(500, OUTPUTS * INPUTS);
    let one = g.constant("one", &[OUTPUTS, INPUTS, 1, 1], &one).unwrap();
    let bias = g
        .constant("bias", &[OUTPUTS], &weights(900, OUTPUTS))
        .unwrap();
    let three = Conv2d {
        weight: &three,
        bias: Some(&bias),
        stride: 1,
        pad: 1,
        groups: 1,
    };
    let one = Conv2d {
        weight: &one,
        bias: None,
        stride: 1,
        pad: 0,
        groups: 1,
    };
    let (a, b) = (
        g.conv2d(&big, &three).unwrap(),
        g.conv2d(&big, &one).unwrap(),
    );
    let y = g.add(&a, &b).unwrap();
    let y = g.flatten(&y).unwrap();
    g.output(&y, "x").unwrap();
    g.to_bytes()
}

fn classifier() -> Vec<u8> {
    let mut g = GraphBuilder::new("slices");
    let x = g
        .input("x", &[OUTPUTS * LARGE * LARGE], Element::F32)
        .unwrap();
    let class = g.slice(&x, 1, 0..2).unwrap();
    let real = g.slice(&x, 1, 2..3).unwrap();
    g.output(&class, "class_logits").unwrap();
    g.output(&real, "real_logit").unwrap();
    g.to_bytes()
}

/// One output value, straight from the definition of padding, doubling and convolution.
fn expected(z: &[f32], channel: usize, row: usize, column: usize) -> f64 {
    // Coordinates are one larger than those of the doubled picture: its border is the padding.
    let padded = |input: usize, row: usize, column: usize| -> f64 {
        let inside = 1..=LARGE;
        if !inside.contains(&row) || !inside.contains(&column) {
            return 0.0;
        }
        f64::from(z[(input * SIDE + (row - 1) / 2) * SIDE + (column - 1) / 2])
    };
    let mut sum = f64::from(weight(900 + channel));
    for input in 0..INPUTS {
        let pair = channel * INPUTS + input;
        for (u, v) in (0..3).flat_map(|u| (0..3).map(move |v| (u, v))) {
            sum += f64::from(weight(pair * 9 + 3 * u + v)) * padded(input, row + u, column + v);
        }
        sum += f64::from(weight(500 + pair)) * padded(input, row + 1, column + 1);
    }
    sum
}

#[test]
fn a_doubled_convolution_is_what_its_definition_says() {
    let mut files = linear(2);
    let mut text = String::from_utf8(files[0].1.clone()).unwrap();
    let large = OUTPUTS * LARGE * LARGE;
    for size in [INPUTS * SIDE * SIDE, large, large] {
        text = text.replacen("shape = [3]", &format!("shape = [ {size} ]"), 1);
    }
    for (which, bytes) in [(1, generator()), (2, classifier())] {
        text = text.replace(&sha256(&files[which].1), &sha256(&bytes));
        files[which].1 = bytes;
    }
    files[0].1 = text.into_bytes();
    let borrowed: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(n, b)| (n.as_str(), b.as_slice()))
        .collect();
    let bundle = Bundle::from_files(&borrowed).unwrap();
    let run = bundle.generator().model.graph.as_ref().unwrap();
    assert!(
        run.node.iter().any(|node| node.op_type == "DepthToSpace"),
        "the faster form is run"
    );

    let runtime = Runtime::load(None).unwrap();
    let renderer = Renderer::open(&bundle, &runtime, &RunSettings::default()).unwrap();
    let (proposals, numbers) = (Proposals::new(4), [0, 1, 2]);
    let requested = Requested {
        mixture: None,
        proposals,
        numbers: &numbers,
        classes: &[],
    };
    let items = renderer.render(requested).unwrap();
    let mut z = vec![0.0; 3 * INPUTS * SIDE * SIDE];
    proposals.fill_normal(0, 0, INPUTS * SIDE * SIDE, &mut z);
    for (item, z) in items
        .chunks_exact(large)
        .zip(z.chunks_exact(INPUTS * SIDE * SIDE))
    {
        for (at, &value) in item.iter().enumerate() {
            let (channel, row, column) = (at / (LARGE * LARGE), at / LARGE % LARGE, at % LARGE);
            let wanted = expected(z, channel, row, column);
            assert!(
                (f64::from(value) - wanted).abs() < 1e-5,
                "{channel} {row} {column}: {value}, not {wanted}"
            );
        }
    }
}
