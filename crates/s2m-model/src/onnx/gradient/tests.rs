//! Every rule against central differences, in ONNX Runtime itself.
//!
//! The networks are of 32-bit floats, so differences are taken over steps of 0.02 and 0.04 and combined so that their
//! error is of fifth order; they agree with the derivative to 0.002 of the largest entry.

mod layers;
mod shapes;

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

    fn differentiated(&self) -> Result<Differentiated, Error> {
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

fn refused(net: &Net) -> String {
    net.differentiated().unwrap_err().to_string()
}

#[test]
fn what_has_no_gradient_is_named() {
    assert_eq!(
        refused(
            &Net::new(&[2, 3])
                .node("Det", &["s"], "y", vec![])
                .before("z")
        ),
        "no gradient is known through operator `Det` (node `y`)"
    );
    assert_eq!(
        refused(
            &Net::new(&[1, 2, 4, 4])
                .weights_of("f", &[4], &[1.0, 1.0, 1.5, 1.5])
                .node("Resize", &["z", "", "f"], "y", vec![text("mode", "linear")])
        ),
        "no gradient is known through operator `Resize` (node `y`) but for whole numbers of equal pixels"
    );
    assert_eq!(
        refused(
            &Net::new(&[2, 2])
                .weight("x", &[2, 2])
                .node("Exp", &["z"], "e", vec![])
                .node("Pow", &["x", "e"], "y", vec![])
        ),
        "no gradient is known through operator `Pow` (node `y`) with an exponent that depends on the latents"
    );
    assert_eq!(
        refused(
            &Net::new(&[2, 2])
                .weight("x", &[2, 2])
                .node("Exp", &["x"], "y", vec![])
        ),
        "the networks' outputs do not depend on latent `z` in any way that has a derivative"
    );
    assert_eq!(
        refused(
            &Net::new(&[2, 2])
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

#[test]
fn names_of_saved_values_are_outputs_of_the_forward_file() {
    let net =
        Net::new(&[2, 3])
            .node("Exp", &["z"], "e", vec![])
            .node("Mul", &["e", "z"], "y", vec![]);
    let two = net.differentiated().unwrap();
    let outputs = two.forward.graph.unwrap().output;
    let outputs: BTreeSet<String> = outputs.into_iter().map(|v| v.name).collect();
    assert_eq!(two.saved.len(), 2);
    assert!(two.saved.iter().all(|(name, _)| outputs.contains(name)));
}
