//! Convolutions behind a nearest-neighbour doubling, done before it with fewer multiplications.
//!
//! Image generators often double a picture by repeating pixels and then convolve it. The nine weights
//! of a 3×3 kernel then meet at most four different pixels, which four depend on whether the output
//! row and column are even or odd. So the layer is four 2×2 convolutions of the small picture, whose
//! outputs are interleaved: 16 multiplications in place of 36. With `x` the small picture and `a` the
//! parity of the output row,
//!
//! ```text
//! a = 0:  y[2i]   = w₀ x[i−1] + (w₁ + w₂) x[i]
//! a = 1:  y[2i+1] = (w₀ + w₁) x[i] + w₂ x[i+1]
//! ```
//!
//! and the same for columns. A 1×1 kernel commutes with the doubling. Results agree up to rounding.

use std::collections::{BTreeSet, HashMap};

use super::proto::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, data_type};

/// Oldest opset whose `Resize` and `DepthToSpace` are the ones known here.
const OLDEST_OPSET: i64 = 13;

/// The same model with such convolutions rewritten, or none where there is nothing to gain.
pub fn fold_doubling(model: &ModelProto) -> Option<ModelProto> {
    let graph = model.graph.as_ref()?;
    let opset = model
        .opset_import
        .iter()
        .find(|opset| opset.domain.is_empty())?;
    let nested = |a: &AttributeProto| a.g.is_some() || !a.graphs.is_empty();
    let has_subgraphs = graph
        .node
        .iter()
        .any(|node| node.attribute.iter().any(nested));
    if opset.version < OLDEST_OPSET || has_subgraphs {
        return None;
    }
    let constants = constants(graph);
    let doublings: HashMap<&str, &NodeProto> = graph
        .node
        .iter()
        .filter(|node| doubles(node, &constants))
        .filter_map(|node| Some((node.output.first()?.as_str(), node)))
        .collect();
    let mut made = Made::new(graph);
    for node in &graph.node {
        let rewritten = convolution(node, &constants).and_then(|convolution| {
            let doubling = doublings.get(node.input[0].as_str())?;
            Some((convolution, *doubling))
        });
        match rewritten {
            Some((Convolution::Three(weights), doubling)) => made.phases(node, doubling, &weights),
            Some((Convolution::One, doubling)) => made.swapped(node, doubling),
            None => made.nodes.push(node.clone()),
        }
    }
    (made.count > 0).then(|| {
        let mut folded = model.clone();
        folded.graph = Some(made.finish(graph));
        folded
    })
}

/// Tensors that are known when the model is read, by name.
fn constants(graph: &GraphProto) -> HashMap<&str, &TensorProto> {
    let stored = graph
        .initializer
        .iter()
        .map(|tensor| (tensor.name.as_str(), tensor));
    let nodes = graph
        .node
        .iter()
        .filter(|node| node.op_type == "Constant")
        .filter_map(|node| {
            let value = node.attribute.iter().find(|a| a.name == "value")?;
            Some((node.output.first()?.as_str(), value.t.as_ref()?))
        });
    stored.chain(nodes).collect()
}

/// The 32-bit floats of a tensor that lies in the file, or none for anything else.
fn floats(tensor: &TensorProto) -> Option<Vec<f32>> {
    let mut sides = tensor.dims.iter().map(|&side| usize::try_from(side).ok());
    let count = sides.try_fold(1usize, |all, side| all.checked_mul(side?))?;
    if tensor.data_type != data_type::FLOAT || tensor.data_location != 0 {
        return None;
    }
    let values = match &tensor.raw_data {
        Some(raw) => raw
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect(),
        None => tensor.float_data.clone(),
    };
    (values.len() == count).then_some(values)
}

fn attribute<'a>(node: &'a NodeProto, name: &str) -> Option<&'a AttributeProto> {
    node.attribute
        .iter()
        .find(|attribute| attribute.name == name)
}

/// Whether a text attribute has this value, or is left out where that is its default.
fn says(node: &NodeProto, name: &str, value: &str, default: &str) -> bool {
    let found = attribute(node, name).map_or(Some(default.as_bytes()), |a| a.s.as_deref());
    found == Some(value.as_bytes())
}

/// Whether a list attribute has these values, or is left out where they are its default.
fn lists(node: &NodeProto, name: &str, values: &[i64]) -> bool {
    attribute(node, name).is_none_or(|a| a.ints == values)
}

/// Whether a node repeats every pixel twice in both directions.
fn doubles(node: &NodeProto, constants: &HashMap<&str, &TensorProto>) -> bool {
    let scales = node
        .input
        .get(2)
        .and_then(|name| constants.get(name.as_str()));
    node.op_type == "Resize"
        && node.domain.is_empty()
        && says(node, "mode", "nearest", "nearest")
        && says(
            node,
            "coordinate_transformation_mode",
            "asymmetric",
            "half_pixel",
        )
        && says(node, "nearest_mode", "floor", "round_prefer_floor")
        && attribute(node, "axes").is_none()
        && node.input.get(3).is_none_or(String::is_empty)
        && scales.and_then(|tensor| floats(tensor)).as_deref() == Some(&[1.0, 1.0, 2.0, 2.0])
}

/// A convolution that can be done before a doubling.
enum Convolution {
    /// 3×3, padded to keep the size.
    Three(Kernel),
    /// 1×1.
    One,
}

/// Weights of a 3×3 convolution. [outputs, inputs, 3, 3]
struct Kernel {
    outputs: usize,
    inputs: usize,
    values: Vec<f32>,
}

fn convolution(node: &NodeProto, constants: &HashMap<&str, &TensorProto>) -> Option<Convolution> {
    let plain = node.op_type == "Conv"
        && node.domain.is_empty()
        && node.output.len() == 1
        && attribute(node, "group").is_none_or(|a| a.i == Some(1))
        && says(node, "auto_pad", "NOTSET", "NOTSET")
        && lists(node, "strides", &[1, 1])
        && lists(node, "dilations", &[1, 1]);
    let tensor = *constants.get(node.input.get(1)?.as_str())?;
    let pads = attribute(node, "pads").map_or(vec![0; 4], |a| a.ints.clone());
    match (tensor.dims.as_slice(), pads.as_slice()) {
        (&[_, _, 1, 1], [0, 0, 0, 0]) if plain => Some(Convolution::One),
        (&[outputs, inputs, 3, 3], [1, 1, 1, 1]) if plain => Some(Convolution::Three(Kernel {
            outputs: usize::try_from(outputs).ok()?,
            inputs: usize::try_from(inputs).ok()?,
            values: floats(tensor)?,
        })),
        _ => None,
    }
}

impl Kernel {
    /// The 2×2 kernel for output rows of parity `a` and columns of parity `b`.
    fn phase(&self, a: u8, b: u8) -> Vec<f32> {
        // Rows 0 | 1 2 of the large kernel meet the two small rows where the parity is even, 0 1 | 2
        // where it is odd.
        let place = |u: usize, parity: u8| (u + 1 - usize::from(parity)) / 2;
        let mut small = vec![0.0; self.outputs * self.inputs * 4];
        for (pair, nine) in self.values.chunks_exact(9).enumerate() {
            for (at, value) in nine.iter().enumerate() {
                let (u, v) = (place(at / 3, a), place(at % 3, b));
                small[pair * 4 + 2 * u + v] += value;
            }
        }
        small
    }
}

/// The graph in the making.
struct Made {
    nodes: Vec<NodeProto>,
    weights: Vec<TensorProto>,
    prefix: String,
    count: usize,
}

impl Made {
    fn new(graph: &GraphProto) -> Self {
        let values = graph
            .node
            .iter()
            .flat_map(|node| node.input.iter().chain(&node.output));
        let names: BTreeSet<&String> = values
            .chain(graph.initializer.iter().map(|t| &t.name))
            .collect();
        let mut prefix = "s2m/doubling".to_owned();
        while names.iter().any(|name| name.starts_with(&prefix)) {
            prefix.push('_');
        }
        Self {
            nodes: Vec::new(),
            weights: Vec::new(),
            prefix,
            count: 0,
        }
    }

    fn name(&self, what: &str) -> String {
        format!("{}/{}/{what}", self.prefix, self.count)
    }

    /// Four convolutions of the small picture, interleaved.
    fn phases(&mut self, node: &NodeProto, doubling: &NodeProto, kernel: &Kernel) {
        let mut outputs = Vec::new();
        for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let pads = [1 - a, 1 - b, a, b].map(i64::from).to_vec();
            let (weight, output) = (
                self.name(&format!("weight{a}{b}")),
                self.name(&format!("phase{a}{b}")),
            );
            let dims = [kernel.outputs, kernel.inputs, 2, 2];
            self.weights
                .push(TensorProto::f32(&weight, &dims, &kernel.phase(a, b)));
            let bias = node
                .input
                .get(2)
                .filter(|name| !name.is_empty())
                .map(String::as_str);
            let inputs: Vec<&str> = [doubling.input[0].as_str(), &weight]
                .into_iter()
                .chain(bias)
                .collect();
            self.nodes.push(
                NodeProto::new("Conv", &inputs, &output)
                    .with(AttributeProto::ints("kernel_shape", vec![2, 2]))
                    .with(AttributeProto::ints("pads", pads)),
            );
            outputs.push(output);
        }
        let names: Vec<&str> = outputs.iter().map(String::as_str).collect();
        let all = self.name("phases");
        self.nodes
            .push(NodeProto::new("Concat", &names, &all).with(AttributeProto::int("axis", 1)));
        self.nodes.push(
            NodeProto::new("DepthToSpace", &[&all], &node.output[0])
                .with(AttributeProto::int("blocksize", 2))
                .with(AttributeProto::string("mode", "DCR")),
        );
        self.count += 1;
    }

    /// The 1×1 convolution first, the doubling after it.
    fn swapped(&mut self, node: &NodeProto, doubling: &NodeProto) {
        let small = self.name("small");
        let mut first = node.clone();
        first.input[0].clone_from(&doubling.input[0]);
        first.output[0].clone_from(&small);
        let mut second = doubling.clone();
        second.name.clear();
        second.input[0] = small;
        second.output[0].clone_from(&node.output[0]);
        self.nodes.extend([first, second]);
        self.count += 1;
    }

    /// Leaves out doublings and weights that nothing reads any more.
    fn finish(mut self, graph: &GraphProto) -> GraphProto {
        let read: BTreeSet<String> = self
            .nodes
            .iter()
            .flat_map(|node| node.input.iter().cloned())
            .collect();
        let kept =
            |name: &String| read.contains(name) || graph.output.iter().any(|o| o.name == *name);
        self.nodes
            .retain(|node| node.op_type != "Resize" || node.output.iter().any(kept));
        let mut folded = graph.clone();
        folded.node = self.nodes;
        folded.initializer.retain(|tensor| {
            kept(&tensor.name) || graph.input.iter().any(|i| i.name == tensor.name)
        });
        folded.initializer.extend(self.weights);
        // Shapes of values in between are a convenience, and some are gone now.
        folded.value_info.clear();
        folded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::{Conv2d, Element, GraphBuilder};

    /// One doubling with a 3×3 and a 1×1 convolution behind it, added up.
    fn block() -> ModelProto {
        let mut g = GraphBuilder::new("block");
        let x = g.input("x", &[2, 3, 3], Element::F32).unwrap();
        let big = g.resize_nearest_2x(&x).unwrap();
        let w3 = g.constant("w3", &[4, 2, 3, 3], &[0.5; 72]).unwrap();
        let w1 = g.constant("w1", &[4, 2, 1, 1], &[0.5; 8]).unwrap();
        let bias = g.constant("bias", &[4], &[1.0; 4]).unwrap();
        let three = Conv2d {
            weight: &w3,
            bias: Some(&bias),
            stride: 1,
            pad: 1,
            groups: 1,
        };
        let one = Conv2d {
            weight: &w1,
            bias: None,
            stride: 1,
            pad: 0,
            groups: 1,
        };
        let a = g.conv2d(&big, &three).unwrap();
        let b = g.conv2d(&big, &one).unwrap();
        let y = g.add(&a, &b).unwrap();
        g.output(&y, "y").unwrap();
        g.finish()
    }

    fn count(model: &ModelProto, op: &str) -> usize {
        model
            .graph
            .as_ref()
            .unwrap()
            .node
            .iter()
            .filter(|node| node.op_type == op)
            .count()
    }

    #[test]
    fn convolutions_move_in_front_of_the_doubling() {
        let folded = fold_doubling(&block()).unwrap();
        let counts = ["Conv", "Concat", "DepthToSpace", "Resize"].map(|op| count(&folded, op));
        assert_eq!(counts, [5, 1, 1, 1]);
        let names: Vec<&str> = folded
            .graph
            .as_ref()
            .unwrap()
            .initializer
            .iter()
            .map(|t| t.name.as_str())
            .collect();
        assert!(!names.contains(&"w3") && names.contains(&"w1") && names.contains(&"bias"));
        assert!(fold_doubling(&folded).is_none(), "nothing is left to do");
    }

    /// Every weight of the large kernel lands in one place of each small one.
    #[test]
    fn small_kernels_gather_the_weights_that_meet_the_same_pixel() {
        let kernel = Kernel {
            outputs: 1,
            inputs: 1,
            values: (0..9).map(|v| 2f32.powi(v)).collect(),
        };
        // Rows (0 | 1 2) and columns (0 | 1 2) for even outputs, (0 1 | 2) for odd ones.
        assert_eq!(kernel.phase(0, 0), [1.0, 6.0, 72.0, 432.0]);
        assert_eq!(kernel.phase(1, 1), [27.0, 36.0, 192.0, 256.0]);
        assert_eq!(kernel.phase(0, 1), [3.0, 4.0, 216.0, 288.0]);
        assert_eq!(kernel.phase(1, 0), [9.0, 54.0, 64.0, 384.0]);
    }

    #[test]
    fn what_does_not_fit_is_left_alone() {
        let change = |edit: &dyn Fn(&mut NodeProto)| {
            let mut model = block();
            model.graph.as_mut().unwrap().node.iter_mut().for_each(edit);
            fold_doubling(&model)
        };
        let linear = |node: &mut NodeProto| {
            if let Some(mode) = node.attribute.iter_mut().find(|a| a.name == "mode") {
                mode.s = Some(b"linear".to_vec());
            }
        };
        assert!(change(&linear).is_none());
        let strided = |node: &mut NodeProto| {
            if node.op_type == "Conv" {
                node.attribute.retain(|a| a.name != "strides");
                node.attribute
                    .push(AttributeProto::ints("strides", vec![2, 2]));
            }
        };
        assert!(change(&strided).is_none());
        let mut old = block();
        old.opset_import[0].version = 10;
        assert!(fold_doubling(&old).is_none());
        assert!(fold_doubling(&ModelProto::default()).is_none());
    }

    #[test]
    fn damaged_files_never_panic() {
        use prost::Message as _;
        let bytes = block().encode_to_vec();
        let (mut state, mut folded) = (7u64, 0);
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        for _ in 0..3000 {
            let mut damaged = bytes.clone();
            for _ in 0..=random(3) {
                let at = random(damaged.len());
                damaged[at] = random(256) as u8;
            }
            let model = ModelProto::decode(damaged.as_slice()).ok();
            folded += usize::from(model.and_then(|m| fold_doubling(&m)).is_some());
        }
        assert!(
            folded > 100,
            "some changes leave the pattern in place: {folded}"
        );
    }
}
