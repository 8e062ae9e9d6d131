//! What a model file says about itself: its inputs, its outputs, and the other files it reads.

use std::collections::BTreeSet;
use std::fmt;

use super::proto::{
    AttributeProto, DimensionValue, FunctionProto, GraphProto, ModelProto, NodeProto,
    SparseTensorProto, TensorProto, TensorType, ValueInfoProto, data_type,
};

/// Inputs that a caller must feed and outputs that a caller may ask for, in the file's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// What a caller must feed.
    pub inputs: Vec<Port>,
    /// What a caller may ask for.
    pub outputs: Vec<Port>,
}

/// One input or output as the file declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Type of its values.
    pub element: PortElement,
    /// `None` when the file does not even say how many axes there are; a `None` axis has a name
    /// or nothing instead of a size.
    pub dims: Option<Vec<Option<i64>>>,
}

/// Element type of an input or output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortElement {
    /// 32-bit floats.
    F32,
    /// 64-bit integers.
    I64,
    /// Conditions.
    Bool,
    /// Another number of `TensorProto.DataType`.
    Other(i32),
    /// A sequence, a map, or nothing declared.
    NotATensor,
}

impl Port {
    /// Number of axes with the batch axis, where declared.
    pub fn rank(&self) -> Option<usize> {
        self.dims.as_ref().map(Vec::len)
    }
}

/// Lists the inputs (without those that the file itself fills) and the outputs.
pub fn describe(model: &ModelProto) -> Description {
    let Some(graph) = &model.graph else {
        return Description {
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
    };
    Description {
        inputs: free_inputs(graph).map(port).collect(),
        outputs: graph.output.iter().map(port).collect(),
    }
}

/// Graph inputs that no initializer fills; files older than IR version 4 list weights as inputs too.
pub(super) fn free_inputs(graph: &GraphProto) -> impl Iterator<Item = &ValueInfoProto> {
    let dense = graph.initializer.iter().map(|t| t.name.as_str());
    let sparse = graph.sparse_initializer.iter();
    let sparse = sparse.filter_map(|s| s.values.as_ref().map(|t| t.name.as_str()));
    let filled: BTreeSet<&str> = dense.chain(sparse).collect();
    let free = move |v: &&ValueInfoProto| !filled.contains(v.name.as_str());
    graph.input.iter().filter(free)
}

pub(super) fn port(value: &ValueInfoProto) -> Port {
    let tensor = value.tensor_type();
    Port {
        name: value.name.clone(),
        element: tensor.map_or(PortElement::NotATensor, |t| t.elem_type.into()),
        dims: tensor.and_then(sizes),
    }
}

/// Some exporters write −1 for an axis without a fixed size.
fn sizes(tensor: &TensorType) -> Option<Vec<Option<i64>>> {
    let dims = tensor.shape.as_ref()?.dim.iter().map(|d| match d.value {
        Some(DimensionValue::DimValue(size)) if size >= 0 => Some(size),
        _ => None,
    });
    Some(dims.collect())
}

/// Paths of all files outside the model that it takes values from, in the model's order.
///
/// Looks everywhere: initializers, attributes, nested graphs, functions, sparse tensors, training
/// graphs. An empty path stands for a tensor that claims to be outside without saying where. Note
/// that ONNX Runtime also takes markers of raw memory addresses as paths, so a caller must
/// check each path rather than just open it.
pub fn external_paths(model: &ModelProto) -> Vec<String> {
    let mut tensors = Vec::new();
    if let Some(graph) = &model.graph {
        tensors_of_graph(graph, &mut tensors);
    }
    for function in &model.functions {
        tensors_of_function(function, &mut tensors);
    }
    for training in &model.training_info {
        let graphs = [&training.initialization, &training.algorithm];
        for graph in graphs.into_iter().flatten() {
            tensors_of_graph(graph, &mut tensors);
        }
    }
    tensors.into_iter().flat_map(locations).collect()
}

/// Any location counts, and so does any data location but 0: C++ readers skip numbers they do not
/// know, so a tensor marked 1 and then 2 is outside for them while `data_location` here is 2.
fn locations(tensor: &TensorProto) -> Vec<String> {
    let entries = tensor.external_data.iter();
    let mut paths: Vec<String> = entries
        .filter(|entry| entry.key == "location")
        .map(|entry| entry.value.clone())
        .collect();
    if paths.is_empty() && tensor.data_location != 0 {
        paths.push(String::new());
    }
    paths
}

// Nesting is at most as deep as the decoder's own limit, so these may call each other.

fn tensors_of_graph<'a>(graph: &'a GraphProto, found: &mut Vec<&'a TensorProto>) {
    found.extend(&graph.initializer);
    for sparse in &graph.sparse_initializer {
        tensors_of_sparse(sparse, found);
    }
    tensors_of_nodes(&graph.node, found);
}

fn tensors_of_function<'a>(function: &'a FunctionProto, found: &mut Vec<&'a TensorProto>) {
    for attribute in &function.attribute_proto {
        tensors_of_attribute(attribute, found);
    }
    tensors_of_nodes(&function.node, found);
}

fn tensors_of_nodes<'a>(nodes: &'a [NodeProto], found: &mut Vec<&'a TensorProto>) {
    for attribute in nodes.iter().flat_map(|node| &node.attribute) {
        tensors_of_attribute(attribute, found);
    }
}

fn tensors_of_attribute<'a>(attribute: &'a AttributeProto, found: &mut Vec<&'a TensorProto>) {
    found.extend(attribute.t.iter().chain(&attribute.tensors));
    for sparse in attribute
        .sparse_tensor
        .iter()
        .chain(&attribute.sparse_tensors)
    {
        tensors_of_sparse(sparse, found);
    }
    for graph in attribute.g.iter().chain(&attribute.graphs) {
        tensors_of_graph(graph, found);
    }
}

fn tensors_of_sparse<'a>(sparse: &'a SparseTensorProto, found: &mut Vec<&'a TensorProto>) {
    found.extend(sparse.values.iter().chain(&sparse.indices));
}

impl From<i32> for PortElement {
    fn from(number: i32) -> Self {
        match number {
            data_type::FLOAT => Self::F32,
            data_type::INT64 => Self::I64,
            data_type::BOOL => Self::Bool,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for PortElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::F32 => f.write_str("f32"),
            Self::I64 => f.write_str("i64"),
            Self::Bool => f.write_str("bool"),
            Self::Other(number) => write!(f, "ONNX element type {number}"),
            Self::NotATensor => f.write_str("not a tensor"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::{StringStringEntryProto, TrainingInfoProto};

    fn outside(path: &str) -> TensorProto {
        TensorProto {
            data_location: 1,
            external_data: vec![StringStringEntryProto {
                key: "location".to_owned(),
                value: path.to_owned(),
            }],
            ..TensorProto::default()
        }
    }

    fn node_with(attribute: AttributeProto) -> NodeProto {
        NodeProto::new("Op", &[], "y").with(attribute)
    }

    fn graph_with(attribute: AttributeProto) -> GraphProto {
        GraphProto {
            node: vec![node_with(attribute)],
            ..GraphProto::default()
        }
    }

    fn sparse(path: &str) -> SparseTensorProto {
        SparseTensorProto {
            indices: Some(outside(path)),
            ..SparseTensorProto::default()
        }
    }

    fn tensor_attribute(path: &str) -> AttributeProto {
        AttributeProto {
            t: Some(outside(path)),
            ..AttributeProto::default()
        }
    }

    #[test]
    fn outside_files_are_found_wherever_they_hide() {
        let attribute = AttributeProto {
            t: Some(outside("b")),
            tensors: vec![outside("c")],
            sparse_tensor: Some(sparse("d")),
            g: Some(graph_with(tensor_attribute("e"))),
            graphs: vec![graph_with(tensor_attribute("f"))],
            ..AttributeProto::default()
        };
        let graph = GraphProto {
            initializer: vec![outside("a"), TensorProto::default()],
            ..graph_with(attribute)
        };
        let model = ModelProto {
            graph: Some(graph),
            functions: vec![FunctionProto {
                node: vec![node_with(tensor_attribute("h"))],
                attribute_proto: vec![tensor_attribute("g")],
                ..FunctionProto::default()
            }],
            training_info: vec![TrainingInfoProto {
                algorithm: Some(GraphProto {
                    sparse_initializer: vec![sparse("i")],
                    ..GraphProto::default()
                }),
                ..TrainingInfoProto::default()
            }],
            ..ModelProto::default()
        };
        assert_eq!(external_paths(&model).join(""), "abcdefghi");
    }

    #[test]
    fn a_tensor_outside_without_a_path_still_counts() {
        let unknown_location = TensorProto {
            data_location: 2,
            ..TensorProto::default()
        };
        let graph = GraphProto {
            initializer: vec![unknown_location],
            ..GraphProto::default()
        };
        let model = ModelProto {
            graph: Some(graph),
            ..ModelProto::default()
        };
        assert_eq!(external_paths(&model), [""]);
    }

    #[test]
    fn weights_listed_as_inputs_are_not_inputs() {
        let dims = || vec![DimensionValue::batch(), DimensionValue::DimValue(2)];
        let unsized_dims = vec![DimensionValue::DimValue(-1)];
        let graph = GraphProto {
            initializer: vec![TensorProto::f32("w", &[1], &[0.5])],
            input: vec![
                ValueInfoProto::tensor("w", data_type::FLOAT, vec![]),
                ValueInfoProto::tensor("x", data_type::FLOAT, dims()),
            ],
            output: vec![
                ValueInfoProto::tensor("y", 10, unsized_dims),
                ValueInfoProto::default(),
            ],
            ..GraphProto::default()
        };
        let model = ModelProto {
            graph: Some(graph),
            ..ModelProto::default()
        };

        let found = describe(&model);

        assert_eq!(found.inputs.len(), 1);
        assert_eq!(found.inputs[0].name, "x");
        assert_eq!(found.inputs[0].element, PortElement::F32);
        assert_eq!(found.inputs[0].dims, Some(vec![None, Some(2)]));
        assert_eq!(found.outputs[0].element.to_string(), "ONNX element type 10");
        assert_eq!(found.outputs[0].dims, Some(vec![None]));
        assert_eq!(found.outputs[1].element, PortElement::NotATensor);
        assert_eq!(found.outputs[1].rank(), None);
    }
}
