//! Writes ONNX models whose shapes are checked as they are built.
//!
//! Every value is a [`Tensor`] handle that carries its shape. A call that does not fit is refused
//! there and then, in words, instead of later by the runtime. All shapes start with the batch axis
//! except those of constants. An `axis` counts all axes, so the batch axis is 0 and the first axis of
//! an item is 1. The same calls give the same bytes.
//!
//! ```text
//! let mut graph = GraphBuilder::new("toy");
//! let x = graph.input("x", &[4], Element::F32)?;                  // [n, 4]
//! let w = graph.constant("w", &[2, 4], weights)?;
//! let y = graph.linear(&x, &w, &b)?;                              // [n, 2]
//! graph.output(&y, "y")?;
//! ```
//!
//! The operators are those of opset 18; from there on all reductions take their axes as an input.

mod axes;
mod elementwise;
mod layers;

use std::collections::BTreeSet;
use std::fmt;

use prost::Message as _;

use super::proto::{
    AttributeProto, BATCH, DimensionValue, GraphProto, IR_VERSION, ModelProto, NodeProto, OPSET,
    OperatorSetIdProto, TensorProto, ValueInfoProto, as_int, data_type,
};

use crate::error::Error;

pub use axes::Reduced;
pub use layers::{BatchNorm, Conv2d, ConvTranspose2d, GroupNorm};

/// Size of one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dim {
    /// However many items are run at once; written `n`.
    Batch,
    /// A number.
    Fixed(usize),
}

/// Element type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// 32-bit floats.
    F32,
    /// Class indices.
    I64,
    /// Conditions.
    Bool,
}

/// Handle on a value of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Its name in the graph.
    pub name: String,
    /// Its shape, the batch first where it has one.
    pub shape: Vec<Dim>,
    /// Type of its values.
    pub element: Element,
}

/// Element types that an operator takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elements {
    /// One type alone.
    Only(Element),
    /// `f32` or `i64`.
    Numbers,
}

/// Builds one graph, value by value.
#[derive(Debug, Clone)]
pub struct GraphBuilder {
    graph: GraphProto,
    names: BTreeSet<String>,
    made: usize,
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new(name: &str) -> Self {
        let graph = GraphProto {
            name: name.to_owned(),
            ..GraphProto::default()
        };
        Self {
            graph,
            names: BTreeSet::new(),
            made: 0,
        }
    }

    /// Declares an input; `item` is the shape of one item, without the batch axis.
    pub fn input(&mut self, name: &str, item: &[usize], element: Element) -> Result<Tensor, Error> {
        self.claim(name)?;
        let items = item.iter().map(|&d| Dim::Fixed(d));
        let tensor = Tensor {
            name: name.to_owned(),
            shape: std::iter::once(Dim::Batch).chain(items).collect(),
            element,
        };
        self.graph.input.push(declaration(&tensor, name));
        Ok(tensor)
    }

    /// Adds weights, row by row, under the name they are saved with; `dims` has no batch axis.
    pub fn constant(
        &mut self,
        name: &str,
        dims: &[usize],
        values: &[f32],
    ) -> Result<Tensor, Error> {
        check_length(name, dims, values.len())?;
        self.claim(name)?;
        let weights = TensorProto::f32(name, dims, values);
        Ok(self.initializer(weights, dims, Element::F32))
    }

    /// Adds whole-number constants, row by row; `dims` has no batch axis.
    pub fn constant_i64(
        &mut self,
        name: &str,
        dims: &[usize],
        values: &[i64],
    ) -> Result<Tensor, Error> {
        check_length(name, dims, values.len())?;
        self.claim(name)?;
        let weights = TensorProto::i64(name, dims, values);
        Ok(self.initializer(weights, dims, Element::I64))
    }

    /// Adds a number that broadcasts against anything, under a name of the builder's own.
    pub fn scalar(&mut self, value: f32) -> Tensor {
        let name = self.fresh("scalar");
        let weights = TensorProto::f32(&name, &[], &[value]);
        self.initializer(weights, &[], Element::F32)
    }

    /// The same value under a name of one's own, by which others can find it in the file.
    pub fn named(&mut self, tensor: &Tensor, name: &str) -> Result<Tensor, Error> {
        self.known("named", &[tensor])?;
        self.claim(name)?;
        let node = NodeProto::new("Identity", &[&tensor.name], name);
        self.graph.node.push(node);
        Ok(Tensor {
            name: name.to_owned(),
            ..tensor.clone()
        })
    }

    /// Makes `tensor` an output of the model, called `name`.
    pub fn output(&mut self, tensor: &Tensor, name: &str) -> Result<(), Error> {
        self.known("output", &[tensor])?;
        let named = self.named(tensor, name)?;
        self.graph.output.push(declaration(&named, name));
        Ok(())
    }

    /// The finished model.
    pub fn finish(self) -> ModelProto {
        let opsets = vec![OperatorSetIdProto::default_domain(OPSET)];
        ModelProto::around(self.graph, IR_VERSION, opsets)
    }

    /// The finished model as the bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.clone().finish().encode_to_vec()
    }

    fn claim(&mut self, name: &str) -> Result<(), Error> {
        if self.names.insert(name.to_owned()) {
            Ok(())
        } else {
            Err(Error::graph(format!("the name `{name}` is already taken")))
        }
    }

    /// A name that nobody gave; `#` keeps it apart from the names of weights.
    fn fresh(&mut self, stem: &str) -> String {
        loop {
            self.made += 1;
            let name = format!("{stem}#{}", self.made);
            if self.names.insert(name.clone()) {
                return name;
            }
        }
    }

    fn initializer(&mut self, weights: TensorProto, dims: &[usize], element: Element) -> Tensor {
        let name = weights.name.clone();
        self.graph.initializer.push(weights);
        Tensor {
            name,
            shape: fixed(dims),
            element,
        }
    }

    /// A whole-number input of an operator, such as axes or a shape.
    fn list(&mut self, stem: &str, values: &[i64]) -> String {
        let name = self.fresh(stem);
        let weights = TensorProto::i64(&name, &[values.len()], values);
        self.graph.initializer.push(weights);
        name
    }

    fn known(&self, op: &'static str, inputs: &[&Tensor]) -> Result<(), Error> {
        let stranger = inputs.iter().find(|t| !self.names.contains(&t.name));
        stranger.map_or(Ok(()), |t| {
            Err(Error::graph(format!(
                "{op}: `{}` is not a value of this graph",
                t.name
            )))
        })
    }

    /// Adds a checked node and hands out its only output.
    fn push(&mut self, op_type: &str, inputs: &[&str], made: Made) -> Tensor {
        let name = self.fresh(op_type);
        let mut node = NodeProto::new(op_type, inputs, &name);
        node.attribute = made.attributes;
        self.graph.node.push(node);
        Tensor {
            name,
            shape: made.shape,
            element: made.element,
        }
    }
}

/// What a node makes: the shape and element of its output, and the settings it needs for that.
struct Made {
    shape: Vec<Dim>,
    element: Element,
    attributes: Vec<AttributeProto>,
}

impl Made {
    fn f32(shape: Vec<Dim>) -> Self {
        Self::of(shape, Element::F32)
    }

    fn of(shape: Vec<Dim>, element: Element) -> Self {
        Self {
            shape,
            element,
            attributes: Vec::new(),
        }
    }

    fn with(mut self, attribute: AttributeProto) -> Self {
        self.attributes.push(attribute);
        self
    }
}

fn declaration(tensor: &Tensor, name: &str) -> ValueInfoProto {
    let dims = tensor.shape.iter().map(|dim| match dim {
        Dim::Batch => DimensionValue::batch(),
        Dim::Fixed(d) => DimensionValue::DimValue(as_int(*d)),
    });
    ValueInfoProto::tensor(name, tensor.element.number(), dims.collect())
}

fn fixed(dims: &[usize]) -> Vec<Dim> {
    dims.iter().map(|&d| Dim::Fixed(d)).collect()
}

/// Number of values in a tensor of shape `dims`, or `None` where no computer could hold it.
fn volume(dims: &[usize]) -> Option<usize> {
    dims.iter().try_fold(1_usize, |n, &d| n.checked_mul(d))
}

fn check_length(name: &str, dims: &[usize], found: usize) -> Result<(), Error> {
    if volume(dims) == Some(found) {
        return Ok(());
    }
    Err(Error::graph(format!(
        "constant `{name}` of shape {dims:?}: wanted as many values as that holds, found {found}"
    )))
}

/// A number that is not possible; `op` is the name of the method.
fn setting(op: &str, wanted: &str, found: usize) -> Error {
    Error::graph(format!("{op}: wanted {wanted}, found {found}"))
}

/// An input with another number of axes.
fn rank(op: &str, wanted: &str, x: &Tensor) -> Error {
    Error::graph(format!(
        "{op}: wanted {wanted} axes, found {} in {}",
        x.shape.len(),
        Shown(&x.shape)
    ))
}

fn check_element(op: &'static str, wanted: Elements, x: &Tensor) -> Result<(), Error> {
    let fits = match wanted {
        Elements::Only(element) => x.element == element,
        Elements::Numbers => x.element != Element::Bool,
    };
    if fits {
        return Ok(());
    }
    Err(Error::graph(format!(
        "{op}: wanted {wanted} values, found {} in `{}`",
        x.element, x.name
    )))
}

/// The shape of two values combined one by one; axes are matched from the last.
fn broadcast(op: &'static str, left: &[Dim], right: &[Dim]) -> Result<Vec<Dim>, Error> {
    let rank = left.len().max(right.len());
    let at = |shape: &[Dim], axis: usize| {
        let missing = rank - shape.len();
        axis.checked_sub(missing)
            .map_or(Dim::Fixed(1), |i| shape[i])
    };
    let pairs = (0..rank).map(|axis| match (at(left, axis), at(right, axis)) {
        (a, b) if a == b => Some(a),
        (Dim::Fixed(1), other) | (other, Dim::Fixed(1)) => Some(other),
        _ => None,
    });
    let shape: Option<Vec<Dim>> = pairs.collect();
    shape.ok_or_else(|| {
        Error::graph(format!(
            "{op}: wanted shapes that broadcast, found {} and {}",
            Shown(left),
            Shown(right)
        ))
    })
}

impl Element {
    fn number(self) -> i32 {
        match self {
            Self::F32 => data_type::FLOAT,
            Self::I64 => data_type::INT64,
            Self::Bool => data_type::BOOL,
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batch => f.write_str(BATCH),
            Self::Fixed(size) => write!(f, "{size}"),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::I64 => "i64",
            Self::Bool => "bool",
        })
    }
}

impl fmt::Display for Elements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only(element) => element.fmt(f),
            Self::Numbers => f.write_str("f32 or i64"),
        }
    }
}

/// A shape in an error: `[n, 3]`.
struct Shown<'a>(&'a [Dim]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.0.iter().map(Dim::to_string).collect();
        write!(f, "[{}]", dims.join(", "))
    }
}

/// A wanted shape in an error: `[_, 3]`, where `_` is any size.
struct Wanted<'a>(&'a [Option<Dim>]);

impl fmt::Display for Wanted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = || "_".to_owned();
        let dims = self.0.iter().map(|d| d.map_or_else(any, |d| d.to_string()));
        write!(f, "[{}]", dims.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toy() -> Result<GraphBuilder, Error> {
        let mut graph = GraphBuilder::new("toy");
        let x = graph.input("x", &[4], Element::F32)?;
        let w = graph.constant("layer.weight", &[2, 4], &[0.5; 8])?;
        let b = graph.constant("layer.bias", &[2], &[0.0; 2])?;
        let y = graph.linear(&x, &w, &b)?;
        let y = graph.log_sum_exp(&y, 1, Reduced::Dropped)?;
        graph.output(&y, "y")?;
        Ok(graph)
    }

    #[test]
    fn the_same_calls_give_the_same_bytes() {
        assert_eq!(toy().unwrap().to_bytes(), toy().unwrap().to_bytes());
    }

    #[test]
    fn a_written_model_reads_back_with_its_names_and_shapes() {
        let model = ModelProto::decode(toy().unwrap().to_bytes().as_slice()).unwrap();
        assert_eq!(model, toy().unwrap().finish());
        assert_eq!(model.opset_import[0].version, 18);
        assert_eq!((model.ir_version, model.producer_name.as_str()), (9, "s2m"));

        let found = crate::onnx::describe(&model);
        assert_eq!(found.inputs[0].dims, Some(vec![None, Some(4)]));
        assert_eq!(found.outputs[0].dims, Some(vec![None]));
        let weights = &model.graph.unwrap().initializer;
        assert_eq!(weights[0].name, "layer.weight");
    }

    #[test]
    fn a_constant_of_the_wrong_length_is_named() {
        let mut graph = GraphBuilder::new("toy");
        assert_eq!(
            graph
                .constant("w", &[2, 3], &[0.0; 5])
                .unwrap_err()
                .to_string(),
            "constant `w` of shape [2, 3]: wanted as many values as that holds, found 5"
        );
        assert!(graph.constant("w", &[usize::MAX, 2], &[]).is_err());
    }

    #[test]
    fn a_name_can_be_given_once() {
        let mut graph = GraphBuilder::new("toy");
        let x = graph.input("x", &[4], Element::F32).unwrap();
        let again = graph.constant_i64("x", &[], &[1]).unwrap_err();
        assert_eq!(again.to_string(), "the name `x` is already taken");
        assert!(graph.output(&x, "x").is_err());
    }

    #[test]
    fn a_value_can_be_given_a_name() {
        let mut graph = GraphBuilder::new("toy");
        let x = graph.input("x", &[4], Element::F32).unwrap();
        let y = graph.relu(&x).unwrap();
        let named = graph.named(&y, "features").unwrap();
        assert_eq!((named.name.as_str(), &named.shape), ("features", &y.shape));
        assert!(graph.named(&y, "x").is_err());
        let node = &graph.finish().graph.unwrap().node[1];
        assert_eq!((&node.input, &node.output[0]), (&vec![y.name], &named.name));
    }

    #[test]
    fn a_name_of_the_builders_own_steps_aside() {
        let mut graph = GraphBuilder::new("toy");
        let x = graph.input("Relu#1", &[4], Element::F32).unwrap();
        assert_eq!(graph.relu(&x).unwrap().name, "Relu#2");
    }

    #[test]
    fn a_value_of_another_graph_is_refused() {
        let mut other = GraphBuilder::new("other");
        let x = other.input("x", &[4], Element::F32).unwrap();
        let mut graph = GraphBuilder::new("toy");
        assert_eq!(
            graph.relu(&x).unwrap_err().to_string(),
            "relu: `x` is not a value of this graph"
        );
    }

    #[test]
    fn shapes_broadcast_as_in_numpy() {
        use Dim::{Batch, Fixed};
        let cases = [
            (
                vec![Batch, Fixed(3)],
                vec![Fixed(3)],
                Some(vec![Batch, Fixed(3)]),
            ),
            (
                vec![Batch, Fixed(1)],
                vec![Fixed(1), Fixed(5)],
                Some(vec![Batch, Fixed(5)]),
            ),
            (vec![], vec![Batch], Some(vec![Batch])),
            (vec![Batch], vec![Batch], Some(vec![Batch])),
            (vec![Batch], vec![Fixed(2)], None),
            (vec![Batch, Fixed(3)], vec![Fixed(4)], None),
        ];
        for (left, right, wanted) in cases {
            assert_eq!(broadcast("add", &left, &right).ok(), wanted);
            assert_eq!(broadcast("add", &right, &left).ok(), wanted);
        }
    }
}
