//! The derivative of a network's outputs by its latents, as two ONNX files made from the network's own.
//!
//! For `y = f(z)` and any row of numbers `u`, the *vector-Jacobian product* `uᵀ ∂f/∂z` is what reverse-mode
//! differentiation gives at the cost of about two runs of the network. It is written as
//!
//! ```text
//! forward:   z ↦ y, and the values on the way that the other file needs
//! backward:  u, those values ↦ uᵀ ∂f/∂z
//! ```
//!
//! so that `u` may depend on `y`, and no value leaves the runtime's memory in between. Every operator has a
//! rule in [`elementwise`], [`axes`], [`layers`] or [`windows`]; one without a rule is refused by name. Rounding
//! counts as the identity ("straight through"): its true derivative is zero almost everywhere, and would stop
//! every gradient at images of whole-number levels. Comparisons and casts to and from whole numbers stop it.
//!
//! Sizes are not inferred: the caller runs the network [`exposed`] once and says what every value looked like. A
//! network runs at one batch size, so whole numbers that only depend on sizes are constants.
//!
//! Reference: Griewank and Walther, "Evaluating Derivatives", 2008, chapter 3.

mod axes;
mod elementwise;
mod layers;
mod tape;
mod windows;

use std::collections::{BTreeMap, BTreeSet};

use self::tape::{Finished, Step, Tape};
use super::inspect::free_inputs;
use super::proto::{
    GraphProto, IR_VERSION, ModelProto, NodeProto, OPSET, OperatorSetIdProto, ValueInfoProto,
    data_type,
};
use crate::error::Error;

/// Of a value that the caller did not see.
fn unknown(name: &str) -> Error {
    Error::graph(format!("nothing is known about the value `{name}`"))
}

/// What a value looked like when the network ran.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fact {
    /// Sizes, with the batch.
    pub dims: Vec<usize>,
    /// One of `TensorProto.DataType`.
    pub element: i32,
    /// The values, where they are 64-bit whole numbers.
    pub whole: Option<Vec<i64>>,
}

/// What every value looked like, by name: inputs, and all that nodes made.
pub type Facts = BTreeMap<String, Fact>;

/// A network and its derivative.
#[derive(Debug, Clone, PartialEq)]
pub struct Differentiated {
    /// The network, with further outputs.
    pub forward: ModelProto,
    /// The derivative. Its inputs are the cotangents, called as [`seed`] says, and the saved values.
    pub backward: ModelProto,
    /// Outputs of the forward file that are inputs of the other one, and how they are called there.
    pub saved: Vec<(String, String)>,
}

/// Name of the backward file's input that belongs to an output of the network.
pub fn seed(output: &str) -> String {
    format!("u/{output}")
}

/// Name of the backward file's output that belongs to a latent.
pub fn slope(latent: &str) -> String {
    format!("d/{latent}")
}

/// The network with everything that its nodes make as outputs, to be run once for [`Facts`].
pub fn exposed(model: &ModelProto) -> ModelProto {
    let mut shown = model.clone();
    if let Some(graph) = &mut shown.graph {
        let known: BTreeSet<String> = graph.output.iter().map(|v| v.name.clone()).collect();
        let made = graph.node.iter().flat_map(|node| &node.output);
        let new = made.filter(|name| !name.is_empty() && !known.contains(*name));
        let new: Vec<ValueInfoProto> = new.map(|name| named(name)).collect();
        graph.output.extend(new);
    }
    shown
}

fn named(name: &str) -> ValueInfoProto {
    ValueInfoProto {
        name: name.to_owned(),
        ..ValueInfoProto::default()
    }
}

/// Operators whose outputs change by jumps or not at all.
const STOPS: [&str; 19] = [
    "And",
    "ArgMax",
    "ArgMin",
    "ConstantOfShape",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "IsInf",
    "IsNaN",
    "Less",
    "LessOrEqual",
    "NonZero",
    "Not",
    "Or",
    "Range",
    "Shape",
    "Sign",
    "Size",
    "Xor",
];

/// Writes the derivative of some outputs by some inputs, all of 32-bit floats.
pub fn differentiate(
    model: &ModelProto,
    latents: &[&str],
    outputs: &[&str],
    facts: &Facts,
) -> Result<Differentiated, Error> {
    let graph = model
        .graph
        .as_ref()
        .ok_or_else(|| Error::malformed("the network has no graph"))?;
    let depends = dependants(graph, latents, facts);
    let mut tape = Tape::new(graph, facts, (depends, moving(graph)));
    for output in outputs {
        tape.add_cotangent(output, seed(output));
    }
    for node in graph.node.iter().rev() {
        if !node.output.iter().any(|name| tape.depends_on_latents(name)) {
            continue;
        }
        let cotangents: Vec<Option<String>> = node
            .output
            .iter()
            .map(|name| tape.cotangent(name))
            .collect();
        if cotangents.iter().any(Option::is_some) {
            backward(Step::new(&mut tape, node, cotangents)?)?;
        }
    }
    let mut ends = Vec::with_capacity(latents.len());
    for latent in latents {
        let found = tape.cotangent(latent);
        let found = found.ok_or_else(|| {
            Error::unsupported(format!(
                "the networks' outputs do not depend on latent `{latent}` in any way that has a derivative"
            ))
        })?;
        tape.push_named("Identity", &[&found], &slope(latent));
        ends.push(slope(latent));
    }
    let mut inputs = Vec::new();
    for output in outputs {
        let fact = facts.get(*output);
        let fact = fact.ok_or_else(|| unknown(output))?;
        inputs.push((seed(output), fact.clone()));
    }
    let free: BTreeSet<&str> = free_inputs(graph).map(|v| v.name.as_str()).collect();
    let finished = tape.finish(inputs, &ends)?;
    let (forward, saved) = with_saved(model, graph, &finished, &free);
    Ok(Differentiated {
        forward,
        backward: finished.model,
        saved,
    })
}

/// Values that change with a latent in a way that has a derivative.
fn dependants<'a>(graph: &'a GraphProto, latents: &[&'a str], facts: &Facts) -> BTreeSet<&'a str> {
    let mut depends: BTreeSet<&str> = latents.iter().copied().collect();
    let is_float = |name: &str| {
        let element = facts.get(name).map(|fact| fact.element);
        element.is_none_or(|element| [1, 10, 11, 16].contains(&element))
    };
    for node in &graph.node {
        if STOPS.contains(&node.op_type.as_str()) {
            continue;
        }
        if node
            .input
            .iter()
            .any(|name| depends.contains(name.as_str()))
        {
            let floats = node.output.iter().filter(|name| is_float(name));
            depends.extend(floats.map(String::as_str));
        }
    }
    depends
}

/// Values that are not the same at every call: all but those of weights and sizes.
fn moving(graph: &GraphProto) -> BTreeSet<&str> {
    let mut moving: BTreeSet<&str> = free_inputs(graph).map(|v| v.name.as_str()).collect();
    for node in &graph.node {
        let sizes = ["Shape", "Size"].contains(&node.op_type.as_str());
        if !sizes && node.input.iter().any(|name| moving.contains(name.as_str())) {
            moving.extend(node.output.iter().map(String::as_str));
        }
    }
    moving
}

/// The forward file, and the outputs of it that the backward file takes.
fn with_saved(
    model: &ModelProto,
    graph: &GraphProto,
    finished: &Finished,
    free: &BTreeSet<&str>,
) -> (ModelProto, Vec<(String, String)>) {
    let mut forward = graph.clone();
    for node in &mut forward.node {
        // Places of the largest values are a second output, which is left out where nobody asks.
        let Some(first) = node
            .output
            .first()
            .filter(|name| finished.indexed.contains(*name))
        else {
            continue;
        };
        let places = tape::places(first);
        node.output.truncate(1);
        node.output.push(places);
    }
    let mut known: BTreeSet<String> = forward.output.iter().map(|v| v.name.clone()).collect();
    let mut pairs = Vec::with_capacity(finished.saved.len());
    for (name, called) in &finished.saved {
        let mut output = name.clone();
        if free.contains(name.as_str()) {
            // An input of a file cannot be its output.
            output = format!("{name}#saved");
            forward
                .node
                .push(NodeProto::new("Identity", &[name], &output));
        }
        if known.insert(output.clone()) {
            forward.output.push(named(&output));
        }
        pairs.push((output, called.clone()));
    }
    let model = ModelProto {
        graph: Some(forward),
        ..model.clone()
    };
    (model, pairs)
}

/// The rule of one node.
fn backward(mut step: Step<'_, '_>) -> Result<(), Error> {
    let known = elementwise::rule(&mut step)?
        || axes::rule(&mut step)?
        || layers::rule(&mut step)?
        || windows::rule(&mut step)?;
    if known { Ok(()) } else { Err(step.no_rule()) }
}

/// A model of operators of this project's own opset.
fn model(graph: GraphProto) -> ModelProto {
    let opsets = vec![OperatorSetIdProto::default_domain(OPSET)];
    ModelProto::around(graph, IR_VERSION, opsets)
}

const FLOAT: i32 = data_type::FLOAT;

#[cfg(test)]
mod tests;
