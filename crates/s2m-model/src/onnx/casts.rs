//! A network with the element types that everything else here speaks: 32-bit floats in and out, and
//! 64-bit class numbers.
//!
//! Half-precision and double-precision files, and class inputs of 32 bits, are common exports. Such a file
//! stays as it is inside; casts are put around it.

use super::inspect::free_inputs;
use super::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TypeValue, ValueInfoProto, data_type,
};

/// `TensorProto.DataType` of what is cast.
const INT32: i32 = 6;
const FLOAT16: i32 = 10;
const DOUBLE: i32 = 11;
const BFLOAT16: i32 = 16;

/// What stands behind a name inside the network.
const INSIDE: &str = "/inside";

/// The plain type for an element type that has one of its own kind.
fn plain(element: i32) -> Option<i32> {
    match element {
        FLOAT16 | BFLOAT16 | DOUBLE => Some(data_type::FLOAT),
        INT32 => Some(data_type::INT64),
        _ => None,
    }
}

/// The same network with casts around it; none where nothing needs one, or where a graph inside a
/// node could use a name that would change.
pub fn with_plain_types(model: &ModelProto) -> Option<ModelProto> {
    let graph = model.graph.as_ref()?;
    let inputs: Vec<(String, i32)> = free_inputs(graph).filter_map(cast_of).collect();
    let outputs: Vec<(String, i32)> = graph.output.iter().filter_map(cast_of).collect();
    if (inputs.is_empty() && outputs.is_empty()) || has_inner_graphs(graph) {
        return None;
    }
    let mut model = model.clone();
    let graph = model.graph.as_mut()?;
    let changed: Vec<&String> = inputs
        .iter()
        .chain(&outputs)
        .map(|(name, _)| name)
        .collect();
    for node in &mut graph.node {
        for name in node.input.iter_mut().chain(&mut node.output) {
            if changed.contains(&&*name) {
                name.push_str(INSIDE);
            }
        }
    }
    for value in &mut graph.value_info {
        if changed.contains(&&value.name) {
            value.name.push_str(INSIDE);
        }
    }
    let given = inputs
        .iter()
        .map(|(name, element)| cast(name, &format!("{name}{INSIDE}"), *element));
    let taken = outputs.iter().map(|(name, element)| {
        cast(
            &format!("{name}{INSIDE}"),
            name,
            plain(*element).unwrap_or(*element),
        )
    });
    let own = std::mem::take(&mut graph.node);
    graph.node = given.chain(own).chain(taken).collect();
    for port in graph.input.iter_mut().chain(&mut graph.output) {
        make_plain(port);
    }
    Some(model)
}

/// The name and the element type of a port that needs a cast.
fn cast_of(port: &ValueInfoProto) -> Option<(String, i32)> {
    let element = port.tensor_type()?.elem_type;
    plain(element).map(|_| (port.name.clone(), element))
}

fn cast(from: &str, to: &str, element: i32) -> NodeProto {
    // The network's own nodes may be called like its outputs.
    NodeProto {
        name: format!("cast {from} to {to}"),
        ..NodeProto::new("Cast", &[from], to).with(AttributeProto::int("to", i64::from(element)))
    }
}

fn make_plain(port: &mut ValueInfoProto) {
    let tensor = port.r#type.as_mut().and_then(|kind| kind.value.as_mut());
    if let Some(TypeValue::Tensor(tensor)) = tensor
        && let Some(element) = plain(tensor.elem_type)
    {
        tensor.elem_type = element;
    }
}

fn has_inner_graphs(graph: &GraphProto) -> bool {
    let mut attributes = graph.node.iter().flat_map(|node| &node.attribute);
    attributes.any(|attribute| attribute.g.is_some() || !attribute.graphs.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::inspect::{PortElement, describe};
    use crate::onnx::proto::DimensionValue;

    /// `y = x + x` in half precision, and `k = c` in 32-bit numbers.
    fn half() -> ModelProto {
        let batch = || vec![DimensionValue::batch(), DimensionValue::DimValue(2)];
        let port = |name, element| ValueInfoProto::tensor(name, element, batch());
        let graph = GraphProto {
            node: vec![
                NodeProto::new("Add", &["x", "x"], "y"),
                NodeProto::new("Identity", &["c"], "k"),
            ],
            input: vec![port("x", FLOAT16), port("c", INT32)],
            output: vec![port("y", FLOAT16), port("k", INT32)],
            ..GraphProto::default()
        };
        ModelProto::around(graph, 9, Vec::new())
    }

    #[test]
    fn casts_stand_around_what_is_not_plain() {
        let found = with_plain_types(&half()).unwrap();
        let ports = describe(&found);
        let elements = |ports: &[crate::onnx::Port]| -> Vec<PortElement> {
            ports.iter().map(|port| port.element).collect()
        };
        assert_eq!(
            elements(&ports.inputs),
            [PortElement::F32, PortElement::I64]
        );
        assert_eq!(
            elements(&ports.outputs),
            [PortElement::F32, PortElement::I64]
        );
        let nodes = &found.graph.as_ref().unwrap().node;
        let wiring: Vec<(String, &str)> = nodes
            .iter()
            .map(|node| (node.input.join(" "), node.output[0].as_str()))
            .collect();
        let wanted = [
            ("x", "x/inside"),
            ("c", "c/inside"),
            ("x/inside x/inside", "y/inside"),
            ("c/inside", "k/inside"),
            ("y/inside", "y"),
            ("k/inside", "k"),
        ];
        assert_eq!(wiring, wanted.map(|(a, b)| (a.to_owned(), b)));
        assert_eq!(with_plain_types(&found), None, "nothing is left to cast");
    }
}
