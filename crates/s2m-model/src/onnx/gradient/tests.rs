//! Every rule against central differences, in ONNX Runtime itself.
//!
//! The networks are of 32-bit floats, so differences are taken over steps of 0.02 and 0.04 and combined so that their
//! error is of fifth order; they agree with the derivative to 0.002 of the largest entry.

use std::collections::BTreeMap;

use ort::session::{Session, SessionInputValue};
use ort::value::TensorRef;

use super::super::proto::{AttributeProto, DimensionValue, NodeProto, TensorProto};
use super::*;
use crate::networks::facts_of;
use crate::runtime::Runtime;

/// A network of one latent, called `z`, and one output, called `y`.
struct Net {
    dims: Vec<usize>,
    nodes: Vec<NodeProto>,
    weights: Vec<TensorProto>,
    latent: Vec<f32>,
}

impl Net {
    fn new(dims: &[usize]) -> Self {
        let size: usize = dims.iter().product();
        Self {
            dims: dims.to_vec(),
            nodes: Vec::new(),
            weights: Vec::new(),
            // Far from zero, from each other and from whole numbers, and of both signs.
            latent: numbers(size, 1),
        }
    }

    fn node(
        mut self,
        op: &str,
        inputs: &[&str],
        output: &str,
        attributes: Vec<AttributeProto>,
    ) -> Self {
        let mut node = NodeProto::new(op, inputs, output);
        node.attribute = attributes;
        self.nodes.push(node);
        self
    }

    fn weight(mut self, name: &str, dims: &[usize]) -> Self {
        let values = numbers(dims.iter().product(), 7);
        self.weights.push(TensorProto::f32(name, dims, &values));
        self
    }

    fn weights_of(mut self, name: &str, dims: &[usize], values: &[f32]) -> Self {
        self.weights.push(TensorProto::f32(name, dims, values));
        self
    }

    fn list(mut self, name: &str, values: &[i64]) -> Self {
        self.weights
            .push(TensorProto::i64(name, &[values.len()], values));
        self
    }

    fn at(mut self, latent: Vec<f32>) -> Self {
        self.latent = latent;
        self
    }

    fn model(&self) -> ModelProto {
        let dims = self
            .dims
            .iter()
            .map(|&d| DimensionValue::DimValue(d as i64));
        model(GraphProto {
            name: "net".to_owned(),
            node: self.nodes.clone(),
            initializer: self.weights.clone(),
            input: vec![ValueInfoProto::tensor("z", FLOAT, dims.collect())],
            output: vec![named("y")],
            ..GraphProto::default()
        })
    }

    fn facts(&self) -> Facts {
        let mut session = open(&exposed(&self.model()));
        let tensor =
            TensorRef::from_array_view((self.dims.clone(), self.latent.as_slice())).unwrap();
        let inputs = vec![("z".to_owned(), SessionInputValue::from(tensor))];
        let mut facts = facts_of(&mut session, inputs).unwrap();
        let fact = Fact {
            dims: self.dims.clone(),
            element: FLOAT,
            whole: None,
        };
        facts.insert("z".to_owned(), fact);
        facts
    }

    fn differentiated(&self) -> Result<Differentiated, GradientError> {
        differentiate(&self.model(), &["z"], &["y"], &self.facts())
    }

    /// The derivative of `Σ u·y` by both ways.
    fn check(self, what: &str) {
        let two = self
            .differentiated()
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        let mut session = open(&two.forward);
        let (shape, size) = {
            let tensor =
                TensorRef::from_array_view((self.dims.clone(), self.latent.as_slice())).unwrap();
            let outputs = session
                .run(vec![("z", SessionInputValue::from(tensor))])
                .unwrap();
            let y = outputs.get("y").unwrap();
            let (shape, values) = y.try_extract_tensor::<f32>().unwrap();
            (shape.to_vec(), values.len())
        };
        let u = numbers(size, 3);
        let mut backward = open(&two.backward);
        let mut run = |latent: &[f32]| -> (f64, Vec<f32>) {
            let tensor = TensorRef::from_array_view((self.dims.clone(), latent)).unwrap();
            let outputs = session
                .run(vec![("z", SessionInputValue::from(tensor))])
                .unwrap();
            let (_, y) = outputs
                .get("y")
                .unwrap()
                .try_extract_tensor::<f32>()
                .unwrap();
            let sum = y
                .iter()
                .zip(&u)
                .map(|(y, u)| f64::from(*y) * f64::from(*u))
                .sum();
            let cotangent = TensorRef::from_array_view((shape.clone(), u.as_slice())).unwrap();
            let mut inputs = vec![(seed("y"), SessionInputValue::from(cotangent))];
            for (name, called) in &two.saved {
                inputs.push((called.clone(), outputs.get(name).unwrap().view().into()));
            }
            let found = backward.run(inputs).unwrap();
            let (_, slope) = found
                .get(slope("z"))
                .unwrap()
                .try_extract_tensor::<f32>()
                .unwrap();
            (sum, slope.to_vec())
        };
        let (_, found) = run(&self.latent);
        assert_eq!(found.len(), self.latent.len(), "{what}");
        let mut wanted = Vec::new();
        for at in 0..self.latent.len() {
            let mut moved = |by: f32| {
                let mut latent = self.latent.clone();
                latent[at] += by;
                // What was really added.
                let by = f64::from(latent[at]) - f64::from(self.latent[at]);
                (run(&latent).0, by)
            };
            let mut central = |by: f32| {
                let ((above, right), (below, left)) = (moved(by), moved(-by));
                (above - below) / (right - left)
            };
            let (near, far) = (central(0.02), central(0.04));
            wanted.push((4.0 * near - far) / 3.0);
        }
        let largest = wanted.iter().fold(1e-3, |most: f64, w| most.max(w.abs()));
        for (at, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            let off = (f64::from(*found) - wanted).abs();
            assert!(
                off <= 2e-3 * largest,
                "{what}: number {at} is {found}, not {wanted}"
            );
        }
    }
}

/// Numbers of both signs from 0.15 to about 1.4, none near another one.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    let number = |at: usize| {
        let place = (at * 37 + seed * 11) % count.max(1).next_power_of_two().max(64);
        let sign = if (at * 7 + seed).is_multiple_of(3) {
            -1.0
        } else {
            1.0
        };
        sign * (0.15 + 1.25 * place as f32 / count.max(1).next_power_of_two().max(64) as f32)
    };
    (0..count).map(number).collect()
}

fn open(model: &ModelProto) -> Session {
    use prost::Message as _;
    let runtime = Runtime::load(None).unwrap();
    let builder = Session::builder(runtime.environment()).unwrap();
    builder
        .with_intra_threads(1)
        .unwrap()
        .commit_from_memory(&model.encode_to_vec())
        .unwrap()
}

fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto::int(name, value)
}

fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto::ints(name, values.to_vec())
}

fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto::string(name, value)
}

#[test]
fn curves() {
    for op in [
        "Identity",
        "Relu",
        "LeakyRelu",
        "Neg",
        "Abs",
        "Tanh",
        "Sigmoid",
        "Softplus",
        "Softsign",
        "Exp",
        "Reciprocal",
        "Erf",
        "Sin",
        "Cos",
        "Elu",
        "Selu",
        "HardSigmoid",
    ] {
        Net::new(&[2, 7]).node(op, &["z"], "y", vec![]).check(op);
    }
    for op in ["Log", "Sqrt"] {
        let positive = numbers(14, 1).iter().map(|v| v.abs() + 0.2).collect();
        Net::new(&[2, 7])
            .at(positive)
            .node(op, &["z"], "y", vec![])
            .check(op);
    }
    let alpha = vec![AttributeProto::float("alpha", 0.3)];
    for op in ["LeakyRelu", "Elu", "HardSigmoid"] {
        Net::new(&[2, 7])
            .node(op, &["z"], "y", alpha.clone())
            .check(op);
    }
    Net::new(&[3, 2, 2])
        .weights_of("slope", &[2, 1], &[0.2, -0.4])
        .node("PRelu", &["z", "slope"], "y", vec![])
        .check("PRelu");
    let apart = (0..14).map(|k| 0.1 * k as f32 - 0.65).collect();
    Net::new(&[2, 7])
        .at(apart)
        .weights_of("low", &[], &[-0.5])
        .weights_of("high", &[], &[0.6])
        .node("Clip", &["z", "low", "high"], "y", vec![])
        .check("Clip");
    Net::new(&[2, 7])
        .node("Dropout", &["z"], "y", vec![])
        .check("Dropout");
    Net::new(&[2, 7])
        .node("Cast", &["z"], "y", vec![int("to", 1)])
        .check("Cast");
}

/// The step between levels has no slope; the cotangent goes straight through.
#[test]
fn rounding_is_taken_for_the_identity() {
    for op in ["Round", "Floor", "Ceil"] {
        let net = Net::new(&[1, 3]).node(op, &["z"], "y", vec![]);
        let two = net.differentiated().unwrap();
        assert!(two.saved.is_empty(), "{op}");
        let mut session = open(&two.backward);
        let u = [0.5_f32, -2.0, 3.0];
        let tensor = TensorRef::from_array_view(([1_usize, 3], u.as_slice())).unwrap();
        let found = session
            .run(vec![(seed("y"), SessionInputValue::from(tensor))])
            .unwrap();
        let (_, slope) = found
            .get(slope("z"))
            .unwrap()
            .try_extract_tensor::<f32>()
            .unwrap();
        assert_eq!(slope, u);
    }
}

#[test]
fn pairs_broadcast_both_ways() {
    // Where the larger of two is taken they are never within a step of each other.
    let grid = |count: usize, from: f32| -> Vec<f32> {
        (0..count)
            .map(|k| from + 0.1 * (k * 7 % 24) as f32)
            .collect()
    };
    for op in ["Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean"] {
        for dims in [&[2, 3, 4][..], &[3, 1], &[], &[2, 1, 4], &[5, 2, 3, 4]] {
            for order in [["z", "w"], ["w", "z"]] {
                let size = dims.iter().product();
                let net = if ["Max", "Min"].contains(&op) {
                    let net = Net::new(&[2, 3, 4]).at(grid(24, -1.15));
                    net.weights_of("w", dims, &grid(size, -1.1))
                } else {
                    Net::new(&[2, 3, 4]).weight("w", dims)
                };
                net.node(op, &order, "y", vec![])
                    .check(&format!("{op} {dims:?} {order:?}"));
            }
        }
        // Both sides at once, through other values.
        Net::new(&[2, 3])
            .node("Tanh", &["z"], "t", vec![])
            .weight("w", &[2, 1])
            .node("Add", &["z", "w"], "s", vec![])
            .node(op, &["s", "t"], "y", vec![])
            .check(op);
    }
    Net::new(&[2, 3])
        .node("Mul", &["z", "z"], "y", vec![])
        .check("a square");
    let positive: Vec<f32> = numbers(6, 1).iter().map(|v| v.abs() + 0.2).collect();
    for exponent in [2.0, 3.0, 0.5, -1.5] {
        Net::new(&[2, 3])
            .at(positive.clone())
            .weights_of("p", &[], &[exponent])
            .node("Pow", &["z", "p"], "y", vec![])
            .check("Pow");
    }
    Net::new(&[2, 3])
        .list("p", &[3])
        .node("Pow", &["z", "p"], "y", vec![])
        .check("Pow by a whole number");
    Net::new(&[2, 3])
        .weights_of("zero", &[], &[0.0])
        .node("Greater", &["z", "zero"], "c", vec![])
        .node("Exp", &["z"], "e", vec![])
        .weight("w", &[3])
        .node("Where", &["c", "e", "w"], "y1", vec![])
        .node("Where", &["c", "w", "z"], "y2", vec![])
        .node("Mul", &["y1", "y2"], "y", vec![])
        .check("Where");
}

#[test]
fn axes_are_moved_back() {
    let two = || Net::new(&[2, 3, 4]);
    two()
        .list("s", &[0, -1])
        .node("Reshape", &["z", "s"], "y", vec![])
        .check("Reshape");
    two()
        .node("Flatten", &["z"], "y", vec![int("axis", 2)])
        .check("Flatten");
    two()
        .list("a", &[1])
        .node("Unsqueeze", &["z", "a"], "u", vec![])
        .node("Squeeze", &["u", "a"], "y", vec![])
        .check("Squeeze");
    two()
        .node("Transpose", &["z"], "y", vec![ints("perm", &[1, 2, 0])])
        .check("Transpose");
    two()
        .node("Transpose", &["z"], "y", vec![])
        .check("Transpose without an order");
    two()
        .list("s", &[5, 2, 3, 4])
        .node("Expand", &["z", "s"], "y", vec![])
        .check("Expand");
    two()
        .weight("w", &[2, 1, 4])
        .node("Tanh", &["z"], "t", vec![])
        .node("Concat", &["z", "w", "t"], "y", vec![int("axis", -2)])
        .check("Concat");
    two()
        .node(
            "Split",
            &["z"],
            "s1",
            vec![int("axis", 2), int("num_outputs", 2)],
        )
        .splits()
        .check("Split");
    two()
        .list("i", &[2, 0, 2, -1])
        .node("Gather", &["z", "i"], "y", vec![int("axis", 2)])
        .check("Gather");
    two()
        .weights_i64("i", &[], &[1])
        .node("Gather", &["z", "i"], "y", vec![int("axis", 1)])
        .check("Gather of one");
    for (starts, ends, axes, steps) in [
        (&[1, 0][..], &[3, 2][..], &[1, 2][..], &[1, 1][..]),
        (&[-1, 3], &[-4, 0], &[1, -1], &[-1, -2]),
        (&[0], &[i64::MAX], &[2], &[3]),
        (&[-2], &[i64::MAX], &[2], &[1]),
    ] {
        two()
            .list("s", starts)
            .list("e", ends)
            .list("a", axes)
            .list("t", steps)
            .node("Slice", &["z", "s", "e", "a", "t"], "y", vec![])
            .check(&format!("Slice {starts:?}"));
    }
    two()
        .list("s", &[0, 1])
        .list("e", &[1, 3])
        .node("Slice", &["z", "s", "e"], "y", vec![])
        .check("Slice without axes");
    for mode in ["constant", "reflect", "edge"] {
        two()
            .list("p", &[0, 1, 2, 0, 2, 1])
            .node("Pad", &["z", "p"], "y", vec![text("mode", mode)])
            .check(&format!("Pad {mode}"));
    }
    for mode in ["DCR", "CRD"] {
        Net::new(&[2, 8, 2, 3])
            .node(
                "DepthToSpace",
                &["z"],
                "y",
                vec![int("blocksize", 2), text("mode", mode)],
            )
            .check(mode);
    }
    Net::new(&[2, 3, 4, 6])
        .node("SpaceToDepth", &["z"], "y", vec![int("blocksize", 2)])
        .check("SpaceToDepth");
}

#[test]
fn sums_and_their_kin() {
    for op in [
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceSumSquare",
        "ReduceL2",
        "ReduceLogSumExp",
    ] {
        for kept in [0, 1] {
            Net::new(&[2, 3, 4])
                .list("a", &[-1, 0])
                .node(op, &["z", "a"], "y", vec![int("keepdims", kept)])
                .check(op);
        }
        Net::new(&[2, 3])
            .node(op, &["z"], "y", vec![])
            .check(&format!("{op} over all"));
    }
    for op in ["Softmax", "LogSoftmax"] {
        Net::new(&[2, 3, 4]).node(op, &["z"], "y", vec![]).check(op);
        Net::new(&[2, 3, 4])
            .node(op, &["z"], "y", vec![int("axis", 1)])
            .check(op);
    }
}

#[test]
fn products() {
    for (z, w) in [
        (&[2, 3][..], &[3, 4][..]),
        (&[5, 2, 3], &[3, 4]),
        (&[5, 2, 3], &[5, 3, 2]),
        (&[2, 3], &[5, 3, 4]),
    ] {
        Net::new(z)
            .weight("w", w)
            .node("MatMul", &["z", "w"], "y", vec![])
            .check(&format!("MatMul {z:?} {w:?}"));
    }
    for (w, z) in [
        (&[4, 2][..], &[2, 3][..]),
        (&[5, 4, 2], &[2, 3]),
        (&[4, 2], &[5, 2, 3]),
    ] {
        Net::new(z)
            .weight("w", w)
            .node("MatMul", &["w", "z"], "y", vec![])
            .check(&format!("MatMul {w:?} {z:?}"));
    }
    for a in [0, 1] {
        for b in [0, 1] {
            let attributes = || {
                vec![
                    int("transA", a),
                    int("transB", b),
                    AttributeProto::float("alpha", 0.7),
                    AttributeProto::float("beta", -1.3),
                ]
            };
            let z = if a == 0 { [2, 3] } else { [3, 2] };
            let w = if b == 0 { [3, 4] } else { [4, 3] };
            Net::new(&z)
                .weight("w", &w)
                .weight("c", &[4])
                .node("Gemm", &["z", "w", "c"], "y", attributes())
                .check(&format!("Gemm {a}{b}"));
            // The other factor, and what is added.
            let first = if a == 0 { [2, 3] } else { [3, 2] };
            Net::new(&w)
                .weight("a", &first)
                .weights_of("one", &[1, 1], &[1.0])
                .node("ReduceSum", &["z"], "s", vec![int("keepdims", 1)])
                .node("Gemm", &["a", "z", "s"], "y", attributes())
                .check(&format!("Gemm {a}{b}, second"));
        }
    }
}

#[test]
fn convolutions() {
    let cases: [(&[i64], &[i64], &[i64], i64, usize); 6] = [
        (&[1, 1], &[0, 0, 0, 0], &[1, 1], 1, 3),
        (&[1, 1], &[1, 1, 1, 1], &[1, 1], 1, 3),
        (&[2, 2], &[1, 0, 1, 2], &[1, 1], 1, 3),
        (&[2, 1], &[2, 2, 1, 1], &[2, 1], 1, 2),
        (&[1, 1], &[1, 1, 1, 1], &[1, 1], 2, 3),
        (&[3, 3], &[0, 0, 0, 0], &[1, 1], 1, 2),
    ];
    for (strides, pads, dilations, group, kernel) in cases {
        let attributes = || {
            vec![
                ints("strides", strides),
                ints("pads", pads),
                ints("dilations", dilations),
                int("group", group),
            ]
        };
        let what =
            format!("strides {strides:?}, pads {pads:?}, dilations {dilations:?}, groups {group}");
        let inner = 4 / group as usize;
        Net::new(&[2, 4, 5, 6])
            .weight("w", &[6, inner, kernel, kernel])
            .weight("b", &[6])
            .node("Conv", &["z", "w", "b"], "y", attributes())
            .check(&format!("Conv, {what}"));
        let outer = 6 / group as usize;
        Net::new(&[2, 4, 3, 4])
            .weight("w", &[4, outer, kernel, kernel])
            .weight("b", &[6])
            .node("ConvTranspose", &["z", "w", "b"], "y", attributes())
            .check(&format!("ConvTranspose, {what}"));
    }
    for auto in ["SAME_UPPER", "SAME_LOWER", "VALID"] {
        Net::new(&[1, 2, 5, 6])
            .weight("w", &[3, 2, 4, 4])
            .node(
                "Conv",
                &["z", "w"],
                "y",
                vec![text("auto_pad", auto), ints("strides", &[2, 2])],
            )
            .check(auto);
    }
    Net::new(&[1, 2, 3, 3])
        .weight("w", &[2, 3, 4, 4])
        .node(
            "ConvTranspose",
            &["z", "w"],
            "y",
            vec![
                ints("strides", &[2, 2]),
                ints("pads", &[1, 1, 1, 1]),
                ints("output_padding", &[1, 0]),
            ],
        )
        .check("ConvTranspose with more at its end");
    Net::new(&[2, 3, 7])
        .weight("w", &[4, 3, 3])
        .node("Conv", &["z", "w"], "y", vec![])
        .check("Conv of one axis");
}

#[test]
fn normalisation() {
    for dims in [&[3, 4][..], &[2, 4, 3], &[2, 4, 3, 2]] {
        Net::new(dims)
            .weight("s", &[4])
            .weight("b", &[4])
            .weight("m", &[4])
            .weights_of("v", &[4], &[0.5, 1.5, 0.9, 2.0])
            .node(
                "BatchNormalization",
                &["z", "s", "b", "m", "v"],
                "y",
                vec![],
            )
            .check("BatchNormalization");
    }
    Net::new(&[2, 3, 2, 4])
        .weight("s", &[3])
        .weight("b", &[3])
        .node("InstanceNormalization", &["z", "s", "b"], "y", vec![])
        .check("InstanceNormalization");
    Net::new(&[2, 3, 4])
        .weight("s", &[3, 4])
        .weight("b", &[3, 4])
        .node(
            "LayerNormalization",
            &["z", "s", "b"],
            "y",
            vec![int("axis", 1)],
        )
        .check("LayerNormalization");
}

#[test]
fn pools_and_sizes() {
    for (kernel, strides, pads) in [
        (2, 2, [0; 4]),
        (3, 2, [1, 1, 1, 1]),
        (3, 1, [0; 4]),
        (2, 3, [0, 1, 0, 0]),
    ] {
        let attributes = || {
            vec![
                ints("kernel_shape", &[kernel, kernel]),
                ints("strides", &[strides, strides]),
                ints("pads", &pads),
            ]
        };
        let what = format!("{kernel} by {strides}, pads {pads:?}");
        let apart = (0..140)
            .map(|k| 0.1 * ((k * 37 % 140) as f32) - 7.03)
            .collect();
        Net::new(&[2, 2, 5, 7])
            .at(apart)
            .node("MaxPool", &["z"], "y", attributes())
            .check(&format!("MaxPool {what}"));
        for count in [0, 1] {
            let mut attributes = attributes();
            attributes.push(int("count_include_pad", count));
            Net::new(&[2, 2, 5, 7])
                .node("AveragePool", &["z"], "y", attributes)
                .check(&format!("AveragePool {what}, {count}"));
        }
    }
    Net::new(&[2, 2, 5, 7])
        .node(
            "AveragePool",
            &["z"],
            "y",
            vec![
                ints("kernel_shape", &[2, 2]),
                ints("strides", &[2, 2]),
                int("ceil_mode", 1),
            ],
        )
        .check("AveragePool that goes beyond");
    for op in ["GlobalAveragePool", "GlobalMaxPool"] {
        Net::new(&[2, 3, 2, 4])
            .node(op, &["z"], "y", vec![])
            .check(op);
    }
    for (how, rounding) in [
        ("asymmetric", "floor"),
        ("half_pixel", "round_prefer_floor"),
    ] {
        for factor in [2.0, 3.0] {
            Net::new(&[1, 2, 2, 3])
                .weights_of("f", &[4], &[1.0, 1.0, factor, factor])
                .node(
                    "Resize",
                    &["z", "", "f"],
                    "y",
                    vec![
                        text("mode", "nearest"),
                        text("coordinate_transformation_mode", how),
                        text("nearest_mode", rounding),
                    ],
                )
                .check(how);
        }
    }
}

/// Whole numbers that only depend on sizes may be made by nodes.
#[test]
fn a_shape_may_be_worked_out_by_nodes() {
    Net::new(&[2, 3, 4])
        .list("places", &[0])
        .list("rest", &[-1])
        .node("Shape", &["z"], "shape", vec![])
        .node("Gather", &["shape", "places"], "batch", vec![])
        .node("Concat", &["batch", "rest"], "wanted", vec![int("axis", 0)])
        .node("Tanh", &["z"], "t", vec![])
        .node("Reshape", &["t", "wanted"], "y", vec![])
        .check("Reshape by a shape");
}

fn refused(net: Net) -> String {
    net.differentiated().unwrap_err().to_string()
}

#[test]
fn what_has_no_gradient_is_named() {
    assert_eq!(
        refused(
            Net::new(&[2, 3])
                .node("Det", &["s"], "y", vec![])
                .before("z")
        ),
        "no gradient is known through operator `Det` (node `y`)"
    );
    assert_eq!(
        refused(
            Net::new(&[1, 2, 4, 4])
                .weights_of("f", &[4], &[1.0, 1.0, 1.5, 1.5])
                .node("Resize", &["z", "", "f"], "y", vec![text("mode", "linear")])
        ),
        "no gradient is known through operator `Resize` (node `y`) but for whole numbers of equal pixels"
    );
    assert_eq!(
        refused(
            Net::new(&[2, 2])
                .weight("x", &[2, 2])
                .node("Exp", &["z"], "e", vec![])
                .node("Pow", &["x", "e"], "y", vec![])
        ),
        "no gradient is known through operator `Pow` (node `y`) with an exponent that depends on the latents"
    );
    assert_eq!(
        refused(
            Net::new(&[2, 2])
                .weight("x", &[2, 2])
                .node("Exp", &["x"], "y", vec![])
        ),
        "the networks' outputs do not depend on latent `z` in any way that has a derivative"
    );
    assert_eq!(
        refused(
            Net::new(&[2, 2])
                .node("Cast", &["z"], "d", vec![int("to", 11)])
                .node("Exp", &["d"], "e", vec![])
                .node("Cast", &["e"], "y", vec![int("to", 1)])
        ),
        "no gradient is known through operator `Cast` (node `y`) in anything but 32-bit floats"
    );
}

impl Net {
    /// A square matrix out of the latents, for an operator that wants one.
    fn before(mut self, latent: &str) -> Self {
        let mut node = NodeProto::new("MatMul", &[latent, "turned"], "s");
        node.name = "product".to_owned();
        self.nodes.insert(0, node);
        self.nodes
            .insert(0, NodeProto::new("Transpose", &[latent], "turned"));
        self
    }

    /// Two halves along the last axis, the first unused once and used once.
    fn splits(mut self) -> Self {
        self.nodes[0].output = vec!["a".to_owned(), "b".to_owned()];
        self.nodes.push(NodeProto::new("Exp", &["b"], "e"));
        self.nodes.push(NodeProto::new("Neg", &["e"], "y"));
        self
    }

    fn weights_i64(mut self, name: &str, dims: &[usize], values: &[i64]) -> Self {
        self.weights.push(TensorProto::i64(name, dims, values));
        self
    }
}

/// What the operators of this file's rules are is known to these tests.
#[test]
fn names_of_saved_values_are_outputs_of_the_forward_file() {
    let net =
        Net::new(&[2, 3])
            .node("Exp", &["z"], "e", vec![])
            .node("Mul", &["e", "z"], "y", vec![]);
    let two = net.differentiated().unwrap();
    let outputs: BTreeMap<String, ()> = two
        .forward
        .graph
        .unwrap()
        .output
        .into_iter()
        .map(|v| (v.name, ()))
        .collect();
    assert_eq!(two.saved.len(), 2);
    assert!(two.saved.iter().all(|(name, _)| outputs.contains_key(name)));
}
