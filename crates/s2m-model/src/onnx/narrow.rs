//! A network that computes in half precision, for graphics cards that are several times faster at it.
//!
//! Every 32-bit constant and value becomes a 16-bit one, with casts around the whole, so that inputs and outputs
//! stay as they were. The sizes by which pictures are resized stay in 32 bits, as the standard wants them. A network
//! with operators beyond the known ones, with constants too large for 16 bits or with weights in other files is left
//! alone.

use std::collections::HashSet;

use super::casts::with_plain_types;
use super::half::{self, FLOAT16};
use super::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeValue, data_type,
};

/// Operators whose values may all be of 16 bits.
const KNOWN: &[&str] = &[
    "Abs",
    "Add",
    "AveragePool",
    "BatchNormalization",
    "Cast",
    "Clip",
    "Concat",
    "Constant",
    "Conv",
    "ConvTranspose",
    "Div",
    "Exp",
    "Expand",
    "Flatten",
    "Floor",
    "Gather",
    "Gemm",
    "GlobalAveragePool",
    "Identity",
    "InstanceNormalization",
    "LeakyRelu",
    "MatMul",
    "MaxPool",
    "Mul",
    "Neg",
    "Pad",
    "PRelu",
    "ReduceMean",
    "ReduceSum",
    "Relu",
    "Reshape",
    "Resize",
    "Round",
    "Shape",
    "Sigmoid",
    "Slice",
    "Softmax",
    "Softplus",
    "Split",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Tanh",
    "Transpose",
    "Unsqueeze",
];

/// The network in 16 bits with 32 bits around it; none where it is left alone.
pub fn in_half_precision(model: &ModelProto) -> Option<ModelProto> {
    let mut model = half::restored(model).unwrap_or_else(|| model.clone());
    if !model.functions.is_empty() {
        return None;
    }
    let graph = model.graph.as_mut()?;
    let plain = graph.sparse_initializer.is_empty() && graph.quantization_annotation.is_empty();
    if !plain || !graph.node.iter().all(is_known) {
        return None;
    }
    let sizes = sizes(graph)?;
    for weight in &mut graph.initializer {
        if !sizes.contains(&weight.name) {
            narrow(weight)?;
        }
    }
    for node in &mut graph.node {
        let is_size = node.output.iter().any(|name| sizes.contains(name));
        for attribute in &mut node.attribute {
            match (node.op_type.as_str(), attribute.name.as_str()) {
                ("Cast", "to") if attribute.i == Some(i64::from(data_type::FLOAT)) => {
                    attribute.i = Some(i64::from(FLOAT16));
                }
                ("Constant", "value") if !is_size => narrow(attribute.t.as_mut()?)?,
                // Numbers outside of tensors are of 32 bits by definition.
                ("Constant", "value_float" | "value_floats") if !is_size => return None,
                _ => {}
            }
        }
    }
    graph.value_info.clear();
    for port in graph.input.iter_mut().chain(&mut graph.output) {
        if sizes.contains(&port.name) {
            continue;
        }
        if let Some(TypeValue::Tensor(tensor)) = port.r#type.as_mut().and_then(|t| t.value.as_mut())
            && tensor.elem_type == data_type::FLOAT
        {
            tensor.elem_type = FLOAT16;
        }
    }
    with_plain_types(&model)
}

fn is_known(node: &NodeProto) -> bool {
    let inner = |a: &AttributeProto| a.g.is_some() || !a.graphs.is_empty();
    node.domain.is_empty()
        && KNOWN.contains(&node.op_type.as_str())
        && !node.attribute.iter().any(inner)
}

/// Names of the values by which pictures are resized; none where one of them is also used otherwise.
fn sizes(graph: &GraphProto) -> Option<HashSet<String>> {
    let is_size = |node: &NodeProto, at: usize| node.op_type == "Resize" && (at == 1 || at == 2);
    let mut sizes = HashSet::new();
    let mut others = HashSet::new();
    for node in &graph.node {
        for (at, name) in node.input.iter().enumerate().filter(|(_, n)| !n.is_empty()) {
            let own = if is_size(node, at) {
                &mut sizes
            } else {
                &mut others
            };
            own.insert(name.clone());
        }
    }
    // Only constants are known to be there as they are.
    let constant = |name: &String| {
        let by_node = |node: &&NodeProto| node.op_type == "Constant" && node.output.contains(name);
        graph.initializer.iter().any(|weight| weight.name == *name)
            || graph.node.iter().any(|node| by_node(&node))
    };
    let clear = sizes
        .iter()
        .all(|name| constant(name) && !others.contains(name));
    clear.then_some(sizes)
}

/// Brings a constant of 32-bit floats to 16 bits; none where it cannot be.
fn narrow(tensor: &mut TensorProto) -> Option<()> {
    if tensor.data_type != data_type::FLOAT {
        return Some(());
    }
    if tensor.data_location != 0 {
        return None;
    }
    let values: Vec<f32> = match &tensor.raw_data {
        Some(raw) => {
            let fours = raw.chunks_exact(4);
            fours
                .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
                .collect()
        }
        None => std::mem::take(&mut tensor.float_data),
    };
    let mut stored = Vec::with_capacity(2 * values.len());
    for value in values {
        stored.extend(half::narrowed(value)?.to_le_bytes());
    }
    tensor.raw_data = Some(stored);
    tensor.data_type = FLOAT16;
    Some(())
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::super::graph::{BatchNorm, Conv2d, Element, GraphBuilder};
    use super::*;
    use crate::judge::Judge;
    use crate::networks::RunSettings;
    use crate::runtime::Runtime;

    /// A linear layer, a doubled picture, a convolution, a norm and a head.
    fn network(largest: f32) -> ModelProto {
        let values = |count: usize, by: f32| -> Vec<f32> {
            let value = |n: usize| ((n * 37 % 101) as f32 / 50.0 - 1.0) * by;
            (0..count).map(value).collect()
        };
        let mut g = GraphBuilder::new("toy");
        let x = g.input("x", &[6], Element::F32).unwrap();
        let weight = g.constant("w", &[2 * 16, 6], &values(192, 0.5)).unwrap();
        let bias = g.constant("b", &[32], &values(32, 0.1)).unwrap();
        let y = g.linear(&x, &weight, &bias).unwrap();
        let y = g.reshape(&y, &[2, 4, 4]).unwrap();
        let y = g.resize_nearest_2x(&y).unwrap();
        let kernel = g.constant("k", &[3, 2, 3, 3], &values(54, 0.3)).unwrap();
        let shift = g.constant("s", &[3], &[0.1, largest, -0.1]).unwrap();
        let conv = Conv2d {
            weight: &kernel,
            bias: Some(&shift),
            stride: 1,
            pad: 1,
            groups: 1,
        };
        let y = g.conv2d(&y, &conv).unwrap();
        let [scale, zero, mean, var] = ["scale", "zero", "mean", "var"].map(|name| {
            let value = f32::from(name == "scale" || name == "var");
            g.constant(name, &[3], &[value; 3]).unwrap()
        });
        let norm = BatchNorm {
            scale: &scale,
            bias: &zero,
            mean: &mean,
            var: &var,
            epsilon: 1e-5,
        };
        let y = g.batch_norm(&y, &norm).unwrap();
        let y = g.relu(&y).unwrap();
        let y = g.global_avg_pool(&y).unwrap();
        let y = g.flatten(&y).unwrap();
        g.output(&y, "y").unwrap();
        g.finish()
    }

    fn said(model: &ModelProto, items: &[f32]) -> Vec<f32> {
        let runtime = Runtime::load(None).unwrap();
        let settings = RunSettings::default();
        let bytes = model.encode_to_vec();
        let judge = Judge::of("toy".to_owned(), bytes, &["y"], &runtime, &settings).unwrap();
        judge.judge(items).unwrap().swap_remove(0)
    }

    #[test]
    fn a_network_in_half_precision_says_nearly_the_same() {
        let model = network(0.2);
        let narrow = in_half_precision(&model).unwrap();
        let graph = narrow.graph.as_ref().unwrap();
        let stored = |name: &str| {
            let weight = graph.initializer.iter().find(|w| w.name == name);
            weight.unwrap().data_type
        };
        assert_eq!((stored("w"), stored("var")), (FLOAT16, FLOAT16));
        let resize = graph.node.iter().find(|n| n.op_type == "Resize").unwrap();
        assert_eq!(stored(&resize.input[2]), data_type::FLOAT);
        let items: Vec<f32> = (0..48)
            .map(|n| ((n * 13 % 29) as f32 - 14.0) / 9.0)
            .collect();
        let (exact, found) = (said(&model, &items), said(&narrow, &items));
        assert_ne!(exact, found);
        for (a, b) in exact.iter().zip(&found) {
            assert!((a - b).abs() < 4e-3 * (1.0 + a.abs()), "{a} and {b}");
        }
        // Weights that are stored in half precision come to the same.
        let again = in_half_precision(&half::in_half(&model)).unwrap();
        assert_eq!(said(&again, &items), found);
    }

    #[test]
    fn what_would_change_more_is_left_alone() {
        assert!(in_half_precision(&network(1e6)).is_none());
        let mut unknown = network(0.2);
        unknown.graph.as_mut().unwrap().node[0].op_type = "TopK".to_owned();
        assert!(in_half_precision(&unknown).is_none());
        let mut outside = network(0.2);
        outside.graph.as_mut().unwrap().initializer[0].data_location = 1;
        assert!(in_half_precision(&outside).is_none());
    }
}
