//! Joins a generator and a classifier into one model, with the adapter between them.
//!
//! One model saves the trip of every picture out of the runtime and back. Values and nodes of the
//! generator are renamed to `g/…`, those of the classifier to `c/…`, those of the adapter to `a/…`;
//! the generator's inputs keep their names. What no wanted output needs is left out.
//!
//! Some models are refused rather than half understood: see [`NotJoinable`]. They still run as two
//! models, with [`adapter_model`](super::adapter::adapter_model) between them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use prost::Message as _;
use thiserror::Error;

use crate::error::list;

use super::adapter::Adapter;
use super::inspect::{PortElement, external_paths, free_inputs, port};
use super::proto::{
    DimensionValue, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TypeValue,
    ValueInfoProto,
};

/// What to join, and where.
#[derive(Debug, Clone, Copy)]
pub struct Join<'a> {
    /// The first model.
    pub generator: &'a ModelProto,
    /// The second model.
    pub classifier: &'a ModelProto,
    /// What happens between the two.
    pub adapter: &'a Adapter,
    /// Output that holds the items.
    pub generator_output: &'a str,
    /// Input that takes them.
    pub classifier_input: &'a str,
    /// Outputs of the classifier, each with the name that it has in the joined model.
    pub outputs: &'a [(&'a str, &'a str)],
}

/// One of the two models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// The first.
    Generator,
    /// The second.
    Classifier,
}

/// Why two models cannot become one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotJoinable {
    /// A file without a graph.
    #[error("the {0} has no graph")]
    NoGraph(Network),
    /// Functions of its own.
    #[error("the {0} has functions of its own")]
    Functions(Network),
    /// Graphs for training.
    #[error("the {0} carries training graphs")]
    TrainingInfo(Network),
    /// Weights in another file.
    #[error("the {network} keeps weights in another file, `{path}`")]
    ExternalData {
        /// Which of the two.
        network: Network,
        /// Which file.
        path: String,
    },
    /// A graph inside a node.
    #[error("the {network} has a graph inside node `{node}`")]
    Subgraph {
        /// Which of the two.
        network: Network,
        /// Which node.
        node: String,
    },
    /// Sparse weights.
    #[error("the {0} has sparse weights")]
    SparseInitializer(Network),
    /// Operators that are too old.
    #[error("the {network} uses opset {found}, wanted {OLDEST_OPSET} or later")]
    OldOpset {
        /// Which of the two.
        network: Network,
        /// What was found.
        found: i64,
    },
    /// Operators of different versions.
    #[error(
        "the generator uses opset {generator} and the classifier opset {classifier}, wanted the same"
    )]
    DifferentOpsets {
        /// The generator's.
        generator: i64,
        /// The classifier's.
        classifier: i64,
    },
    /// Operators of another set in different versions.
    #[error("operators of `{domain}` are wanted in version {first} and in version {second}")]
    DifferentVersions {
        /// Which set of operators.
        domain: String,
        /// One version.
        first: i64,
        /// The other version.
        second: i64,
    },
    /// An output that is not there.
    #[error("the {network} has no output `{name}`, it has {}", list(.known))]
    NoSuchOutput {
        /// Which of the two.
        network: Network,
        /// Which one.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// An input that is not there.
    #[error("the {network} has no input `{name}`, it has {}", list(.known))]
    NoSuchInput {
        /// Which of the two.
        network: Network,
        /// Which one.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// A classifier that takes more than items.
    #[error("the classifier has a second input, `{0}`")]
    SecondInput(String),
    /// A value that is not of 32-bit floats.
    #[error("`{name}` of the {network} is {found}, wanted f32")]
    NotFloat {
        /// Which of the two.
        network: Network,
        /// Which one.
        name: String,
        /// What was found.
        found: PortElement,
    },
    /// Items of another shape.
    #[error("`{name}` of the {network} has items of {}, wanted {wanted:?}", items(.found))]
    Shape {
        /// Which of the two.
        network: Network,
        /// Which one.
        name: String,
        /// What was wanted.
        wanted: Vec<usize>,
        /// Sizes with the batch; `None` where the file gives no number.
        found: Vec<Option<i64>>,
    },
    /// A name that both have.
    #[error("the name `{0}` would be given twice in the joined model")]
    NameTaken(String),
}

/// The project's own limit. The adapter's nodes need only 11, for `Round`, and gave the same numbers
/// in every opset from 11 to 25 in ONNX Runtime 1.31.1.
pub(super) const OLDEST_OPSET: i64 = 13;

/// Before version 7 of the file format no file has opset 13; from 4 on, weights need not be inputs.
pub(super) const OLDEST_IR_VERSION: i64 = 7;

/// Joins two models; the result has the generator's inputs and the wanted outputs, nothing else.
pub fn join(parts: Join<'_>) -> Result<Vec<u8>, NotJoinable> {
    let generator = checked(Network::Generator, parts.generator)?;
    let classifier = checked(Network::Classifier, parts.classifier)?;
    let opsets = merge_opsets(parts.generator, parts.classifier)?;
    let (given, taken) = check_meeting(&parts, generator, classifier)?;

    let from = Renaming::generator(generator);
    let steps = parts
        .adapter
        .steps("a/", &from.name(parts.generator_output));
    let to = Renaming::classifier(taken, given, &steps.end);

    let mut joined = from.graph(generator);
    joined.input = free_inputs(generator).cloned().collect();
    joined.node.extend(steps.nodes);
    joined.initializer.extend(steps.constants);
    let back = to.graph(classifier);
    joined.node.extend(back.node);
    joined.initializer.extend(back.initializer);
    joined.value_info.extend(back.value_info);
    add_outputs(&mut joined, &parts, classifier, &to)?;

    check_names(&joined)?;
    keep_live(&mut joined);
    let ir_version = [parts.generator.ir_version, parts.classifier.ir_version];
    let ir_version = ir_version.into_iter().fold(OLDEST_IR_VERSION, i64::max);
    Ok(ModelProto::around(joined, ir_version, opsets).encode_to_vec())
}

/// The graph of a model that holds nothing which renaming would miss.
fn checked(network: Network, model: &ModelProto) -> Result<&GraphProto, NotJoinable> {
    let graph = model.graph.as_ref().ok_or(NotJoinable::NoGraph(network))?;
    if !model.functions.is_empty() {
        return Err(NotJoinable::Functions(network));
    }
    if !model.training_info.is_empty() {
        return Err(NotJoinable::TrainingInfo(network));
    }
    if let Some(path) = external_paths(model).into_iter().next() {
        return Err(NotJoinable::ExternalData { network, path });
    }
    let nested = |node: &&NodeProto| {
        let mut attributes = node.attribute.iter();
        attributes.any(|a| a.g.is_some() || !a.graphs.is_empty())
    };
    if let Some(node) = graph.node.iter().find(nested) {
        let node = node.name.clone();
        return Err(NotJoinable::Subgraph { network, node });
    }
    if !graph.sparse_initializer.is_empty() {
        return Err(NotJoinable::SparseInitializer(network));
    }
    Ok(graph)
}

/// Operator versions of both models; the default domain comes first.
fn merge_opsets(
    generator: &ModelProto,
    classifier: &ModelProto,
) -> Result<Vec<OperatorSetIdProto>, NotJoinable> {
    let first = default_opset(Network::Generator, generator)?;
    let second = default_opset(Network::Classifier, classifier)?;
    if first != second {
        return Err(NotJoinable::DifferentOpsets {
            generator: first,
            classifier: second,
        });
    }
    let mut versions: BTreeMap<&str, i64> = BTreeMap::new();
    for opset in generator
        .opset_import
        .iter()
        .chain(&classifier.opset_import)
    {
        let domain = canonical(&opset.domain);
        let first = *versions.entry(domain).or_insert(opset.version);
        if first != opset.version {
            return Err(NotJoinable::DifferentVersions {
                domain: domain.to_owned(),
                first,
                second: opset.version,
            });
        }
    }
    let opset = |(domain, version): (&str, i64)| OperatorSetIdProto {
        domain: domain.to_owned(),
        version,
    };
    Ok(versions.into_iter().map(opset).collect())
}

/// Version of the default operators; a file that names none means version 1.
pub(super) fn opset_of(model: &ModelProto) -> i64 {
    let mut opsets = model.opset_import.iter();
    opsets
        .find(|opset| canonical(&opset.domain).is_empty())
        .map_or(1, |opset| opset.version)
}

fn default_opset(network: Network, model: &ModelProto) -> Result<i64, NotJoinable> {
    let found = opset_of(model);
    if found < OLDEST_OPSET {
        return Err(NotJoinable::OldOpset { network, found });
    }
    Ok(found)
}

/// The default domain has two spellings.
fn canonical(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Finds the generator's output and the classifier's input, and checks that the adapter fits both.
fn check_meeting<'a>(
    parts: &Join<'_>,
    generator: &'a GraphProto,
    classifier: &'a GraphProto,
) -> Result<(&'a ValueInfoProto, &'a ValueInfoProto), NotJoinable> {
    let given = output_of(Network::Generator, generator, parts.generator_output)?;
    let taken = input_of(classifier, parts.classifier_input)?;
    check_port(Network::Generator, given, parts.adapter.generator_sizes())?;
    check_port(Network::Classifier, taken, parts.adapter.classifier_sizes())?;
    Ok((given, taken))
}

fn output_of<'a>(
    network: Network,
    graph: &'a GraphProto,
    name: &str,
) -> Result<&'a ValueInfoProto, NotJoinable> {
    let found = graph.output.iter().find(|v| v.name == name);
    found.ok_or_else(|| NotJoinable::NoSuchOutput {
        network,
        name: name.to_owned(),
        known: graph.output.iter().map(|v| v.name.clone()).collect(),
    })
}

/// The classifier's only input.
fn input_of<'a>(graph: &'a GraphProto, name: &str) -> Result<&'a ValueInfoProto, NotJoinable> {
    let found = free_inputs(graph).find(|v| v.name == name);
    let found = found.ok_or_else(|| NotJoinable::NoSuchInput {
        network: Network::Classifier,
        name: name.to_owned(),
        known: free_inputs(graph).map(|v| v.name.clone()).collect(),
    })?;
    match free_inputs(graph).find(|v| v.name != name) {
        Some(second) => Err(NotJoinable::SecondInput(second.name.clone())),
        None => Ok(found),
    }
}

/// Only sizes that the file declares can disagree.
fn check_port(
    network: Network,
    value: &ValueInfoProto,
    wanted: Vec<usize>,
) -> Result<(), NotJoinable> {
    let port = port(value);
    let (name, element) = (port.name, port.element);
    if element != PortElement::F32 {
        let found = element;
        return Err(NotJoinable::NotFloat {
            network,
            name,
            found,
        });
    }
    let Some(found) = port.dims else {
        return Ok(());
    };
    let agrees = |(found, &wanted): (&Option<i64>, &usize)| {
        found.is_none_or(|size| usize::try_from(size) == Ok(wanted))
    };
    let same_rank = found.len() == 1 + wanted.len();
    if same_rank && found[1..].iter().zip(&wanted).all(agrees) {
        return Ok(());
    }
    Err(NotJoinable::Shape {
        network,
        name,
        wanted,
        found,
    })
}

/// New names for the values of one model.
struct Renaming<'a> {
    prefix: &'static str,
    /// Values with a name of their own.
    kept: BTreeMap<&'a str, String>,
    /// Axes without a number, where they get another name too.
    axes: Option<BTreeMap<&'a str, &'a str>>,
}

impl<'a> Renaming<'a> {
    fn generator(graph: &'a GraphProto) -> Self {
        let inputs = free_inputs(graph).map(|v| (v.name.as_str(), v.name.clone()));
        Self {
            prefix: "g/",
            kept: inputs.collect(),
            axes: None,
        }
    }

    /// The classifier's input becomes the adapter's result, and its batch the generator's batch.
    fn classifier(taken: &'a ValueInfoProto, given: &'a ValueInfoProto, adapted: &str) -> Self {
        let batches = batch_name(taken).zip(batch_name(given));
        Self {
            prefix: "c/",
            kept: BTreeMap::from([(taken.name.as_str(), adapted.to_owned())]),
            axes: Some(batches.into_iter().collect()),
        }
    }

    /// An empty name is an optional input or output that is not there.
    fn name(&self, old: &str) -> String {
        if old.is_empty() {
            return String::new();
        }
        let prefixed = || format!("{}{old}", self.prefix);
        self.kept.get(old).cloned().unwrap_or_else(prefixed)
    }

    /// Nodes, weights and known shapes under their new names; inputs and outputs are the caller's.
    ///
    /// Annotations for quantised running are left out: they hold names, and are only hints.
    fn graph(&self, graph: &GraphProto) -> GraphProto {
        GraphProto {
            name: "joined".to_owned(),
            node: graph.node.iter().map(|node| self.node(node)).collect(),
            initializer: graph.initializer.iter().map(|w| self.weights(w)).collect(),
            value_info: graph.value_info.iter().map(|v| self.value(v)).collect(),
            ..GraphProto::default()
        }
    }

    fn node(&self, node: &NodeProto) -> NodeProto {
        let rename = |names: &[String]| names.iter().map(|name| self.name(name)).collect();
        let name = match node.name.as_str() {
            "" => String::new(),
            name => format!("{}{name}", self.prefix),
        };
        NodeProto {
            input: rename(&node.input),
            output: rename(&node.output),
            name,
            ..node.clone()
        }
    }

    fn weights(&self, weights: &TensorProto) -> TensorProto {
        TensorProto {
            name: self.name(&weights.name),
            ..weights.clone()
        }
    }

    fn value(&self, value: &ValueInfoProto) -> ValueInfoProto {
        let mut renamed = value.clone();
        renamed.name = self.name(&value.name);
        if let Some(axes) = &self.axes {
            for axis in axis_names(&mut renamed) {
                *axis = match axes.get(axis.as_str()) {
                    Some(&known) => known.to_owned(),
                    None => format!("{}{axis}", self.prefix),
                };
            }
        }
        renamed
    }
}

fn axis_names(value: &mut ValueInfoProto) -> impl Iterator<Item = &mut String> {
    let shape = match value.r#type.as_mut().and_then(|t| t.value.as_mut()) {
        Some(TypeValue::Tensor(tensor)) => tensor.shape.as_mut(),
        _ => None,
    };
    let dims = shape.into_iter().flat_map(|shape| &mut shape.dim);
    dims.filter_map(|dim| match &mut dim.value {
        Some(DimensionValue::DimParam(name)) => Some(name),
        _ => None,
    })
}

fn batch_name(value: &ValueInfoProto) -> Option<&str> {
    let first = value.tensor_type()?.shape.as_ref()?.dim.first()?;
    match first.value.as_ref()? {
        DimensionValue::DimParam(name) => Some(name),
        DimensionValue::DimValue(_) => None,
    }
}

fn add_outputs(
    joined: &mut GraphProto,
    parts: &Join<'_>,
    classifier: &GraphProto,
    to: &Renaming<'_>,
) -> Result<(), NotJoinable> {
    for (name, becomes) in parts.outputs {
        let output = output_of(Network::Classifier, classifier, name)?;
        let copy = NodeProto::new("Identity", &[&to.name(name)], becomes);
        joined.node.push(copy);
        joined.output.push(ValueInfoProto {
            name: (*becomes).to_owned(),
            ..to.value(output)
        });
    }
    Ok(())
}

/// Every value is made once: fed, stored, or given out by one node.
pub(super) fn check_names(graph: &GraphProto) -> Result<(), NotJoinable> {
    let inputs = graph.input.iter().map(|v| &v.name);
    let weights = graph.initializer.iter().map(|w| &w.name);
    let outputs = graph.node.iter().flat_map(|node| &node.output);
    let mut seen = BTreeSet::new();
    for name in inputs.chain(weights).chain(outputs) {
        if !name.is_empty() && !seen.insert(name) {
            return Err(NotJoinable::NameTaken(name.clone()));
        }
    }
    Ok(())
}

/// Drops nodes, weights and shapes that no output needs; returns the values that are left.
pub(super) fn keep_live(graph: &mut GraphProto) -> BTreeSet<String> {
    let live = live_values(graph);
    let needed = |name: &String| live.contains(name);
    graph.node.retain(|node| node.output.iter().any(needed));
    graph.initializer.retain(|weights| needed(&weights.name));
    graph.value_info.retain(|value| needed(&value.name));
    graph
        .sparse_initializer
        .retain(|weights| weights.values.as_ref().is_some_and(|w| needed(&w.name)));
    live
}

/// Walks back from the outputs; works for nodes in any order, and ends even if they form a ring.
fn live_values(graph: &GraphProto) -> BTreeSet<String> {
    let makers = graph.node.iter().flat_map(|node| {
        let outputs = node.output.iter().filter(|name| !name.is_empty());
        outputs.map(move |name| (name, node))
    });
    let makers: BTreeMap<&String, &NodeProto> = makers.collect();
    let mut waiting: Vec<&String> = graph.output.iter().map(|v| &v.name).collect();
    let mut live = BTreeSet::new();
    while let Some(name) = waiting.pop() {
        if !name.is_empty()
            && live.insert(name.clone())
            && let Some(node) = makers.get(name)
        {
            waiting.extend(&node.output);
            add_reads(node, &mut waiting);
        }
    }
    live
}

/// All values that a node reads; graphs inside it may use those around it.
fn add_reads<'a>(node: &'a NodeProto, reads: &mut Vec<&'a String>) {
    reads.extend(&node.input);
    for attribute in &node.attribute {
        for graph in attribute.g.iter().chain(&attribute.graphs) {
            reads.extend(graph.output.iter().map(|value| &value.name));
            graph.node.iter().for_each(|node| add_reads(node, reads));
        }
    }
}

fn items(dims: &[Option<i64>]) -> String {
    let size = |dim: &Option<i64>| dim.map_or("_".to_owned(), |size| size.to_string());
    let sizes: Vec<String> = dims.iter().skip(1).map(size).collect();
    format!("[{}]", sizes.join(", "))
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Generator => "generator",
            Self::Classifier => "classifier",
        })
    }
}

#[cfg(test)]
mod tests;
