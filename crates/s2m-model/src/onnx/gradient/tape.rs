//! The backward file while it is written, and one node of the network at a time.

use std::collections::{BTreeMap, BTreeSet};

use super::super::inspect::free_inputs;
use super::super::proto::{
    AttributeProto, DimensionValue, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto,
    as_int, data_type,
};
use super::{FLOAT, Fact, Facts, model, unknown};
use crate::error::Error;

/// Name of the places of largest values beside the values.
pub(super) fn places(output: &str) -> String {
    format!("{output}#places")
}

/// The nodes of the backward file so far.
pub(super) struct Tape<'a> {
    facts: &'a Facts,
    /// Weights that the network's file holds.
    weights: BTreeMap<&'a str, &'a TensorProto>,
    depends: BTreeSet<&'a str>,
    moving: BTreeSet<&'a str>,
    graph: GraphProto,
    made: usize,
    copied: BTreeSet<String>,
    saved: BTreeSet<String>,
    indexed: BTreeSet<String>,
    cotangents: BTreeMap<String, Vec<String>>,
}

impl<'a> Tape<'a> {
    pub(super) fn new(
        graph: &'a GraphProto,
        facts: &'a Facts,
        (depends, moving): (BTreeSet<&'a str>, BTreeSet<&'a str>),
    ) -> Self {
        let free: BTreeSet<&str> = free_inputs(graph).map(|v| v.name.as_str()).collect();
        let weights = graph.initializer.iter().map(|w| (w.name.as_str(), w));
        let constant = |node: &'a NodeProto| {
            let value = node.attribute.iter().find(|a| a.name == "value")?;
            let tensor = value.t.as_ref()?;
            (node.op_type == "Constant").then_some((node.output[0].as_str(), tensor))
        };
        let constants = graph.node.iter().filter_map(constant);
        Self {
            facts,
            weights: weights
                .chain(constants)
                .filter(|(name, _)| !free.contains(name))
                .collect(),
            depends,
            moving,
            graph: GraphProto {
                name: "gradient".to_owned(),
                ..GraphProto::default()
            },
            made: 0,
            copied: BTreeSet::new(),
            saved: BTreeSet::new(),
            indexed: BTreeSet::new(),
            cotangents: BTreeMap::new(),
        }
    }

    pub(super) fn depends_on_latents(&self, name: &str) -> bool {
        self.depends.contains(name)
    }

    pub(super) fn add_cotangent(&mut self, name: &str, cotangent: String) {
        let all = self.cotangents.entry(name.to_owned()).or_default();
        all.push(cotangent);
    }

    /// The sum of what has arrived at a value.
    pub(super) fn cotangent(&mut self, name: &str) -> Option<String> {
        let all = self.cotangents.get(name)?.clone();
        let mut parts = all.into_iter();
        let mut sum = parts.next()?;
        for part in parts {
            sum = self.push("Add", &[&sum, &part], Vec::new());
        }
        self.cotangents.insert(name.to_owned(), vec![sum.clone()]);
        Some(sum)
    }

    fn fresh(&mut self) -> String {
        self.made += 1;
        format!("b/{}", self.made)
    }

    fn push(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        let name = self.fresh();
        self.push_named(op, inputs, &name);
        if let Some(node) = self.graph.node.last_mut() {
            node.attribute = attributes;
        }
        name
    }

    pub(super) fn push_named(&mut self, op: &str, inputs: &[&str], output: &str) {
        self.graph.node.push(NodeProto::new(op, inputs, output));
    }

    fn constant(&mut self, mut tensor: TensorProto) -> String {
        let name = self.fresh();
        tensor.name.clone_from(&name);
        self.graph.initializer.push(tensor);
        name
    }

    /// A value of the network, under its name in the backward file.
    fn value(&mut self, name: &str) -> String {
        if let Some(&weights) = self.weights.get(name) {
            let called = format!("w/{name}");
            if self.copied.insert(name.to_owned()) {
                let mut weights = weights.clone();
                weights.name.clone_from(&called);
                self.graph.initializer.push(weights);
            }
            return called;
        }
        self.saved.insert(name.to_owned());
        format!("s/{name}")
    }

    fn dims(&self, name: &str) -> Result<Vec<usize>, Error> {
        if let Some(weights) = self.weights.get(name) {
            let sizes = weights
                .dims
                .iter()
                .map(|&d| usize::try_from(d).unwrap_or(0));
            return Ok(sizes.collect());
        }
        let fact = self.facts.get(name).map(|fact| fact.dims.clone());
        fact.ok_or_else(|| unknown(name))
    }

    fn whole(&self, name: &str) -> Option<Vec<i64>> {
        match self.weights.get(name) {
            Some(weights) => whole_numbers(weights),
            None if self.moving.contains(name) => None,
            None => self.facts.get(name)?.whole.clone(),
        }
    }

    /// The finished file.
    pub(super) fn finish(
        mut self,
        seeds: Vec<(String, Fact)>,
        ends: &[String],
    ) -> Result<Finished, Error> {
        for (name, fact) in seeds {
            self.graph.input.push(declared(&name, &fact));
        }
        let mut saved = Vec::with_capacity(self.saved.len());
        for name in &self.saved {
            let of = name
                .strip_suffix("#places")
                .filter(|of| self.indexed.contains(*of));
            let fact = self.facts.get(of.unwrap_or(name));
            let fact = fact.ok_or_else(|| unknown(name))?;
            let fact = Fact {
                element: if of.is_some() {
                    data_type::INT64
                } else {
                    fact.element
                },
                ..fact.clone()
            };
            let called = format!("s/{name}");
            self.graph.input.push(declared(&called, &fact));
            saved.push((name.clone(), called));
        }
        for name in ends {
            let output = ValueInfoProto {
                name: name.clone(),
                ..ValueInfoProto::default()
            };
            self.graph.output.push(output);
        }
        Ok(Finished {
            model: model(self.graph),
            saved,
            indexed: self.indexed,
        })
    }
}

/// A backward file, and what it takes of the network.
pub(super) struct Finished {
    pub(super) model: ModelProto,
    /// Values of the network, with their names in the file.
    pub(super) saved: Vec<(String, String)>,
    /// Values whose places it takes.
    pub(super) indexed: BTreeSet<String>,
}

fn declared(name: &str, fact: &Fact) -> ValueInfoProto {
    let dims = fact
        .dims
        .iter()
        .map(|&d| DimensionValue::DimValue(as_int(d)));
    ValueInfoProto::tensor(name, fact.element, dims.collect())
}

fn whole_numbers(tensor: &TensorProto) -> Option<Vec<i64>> {
    if tensor.data_type != data_type::INT64 {
        return None;
    }
    Some(match &tensor.raw_data {
        Some(raw) => raw
            .chunks_exact(8)
            .filter_map(|b| b.try_into().ok().map(i64::from_le_bytes))
            .collect(),
        None => tensor.int64_data.clone(),
    })
}

fn floats(tensor: &TensorProto) -> Option<Vec<f32>> {
    if tensor.data_type != FLOAT || tensor.data_location != 0 {
        return None;
    }
    Some(match &tensor.raw_data {
        Some(raw) => raw
            .chunks_exact(4)
            .filter_map(|b| b.try_into().ok().map(f32::from_le_bytes))
            .collect(),
        None => tensor.float_data.clone(),
    })
}

/// One node on the way back.
pub(super) struct Step<'t, 'a> {
    tape: &'t mut Tape<'a>,
    node: &'a NodeProto,
    cotangents: Vec<Option<String>>,
}

impl<'t, 'a> Step<'t, 'a> {
    pub(super) fn new(
        tape: &'t mut Tape<'a>,
        node: &'a NodeProto,
        cotangents: Vec<Option<String>>,
    ) -> Result<Self, Error> {
        let step = Self {
            tape,
            node,
            cotangents,
        };
        let other = |name: &&String| {
            let fact = step.tape.facts.get(*name);
            step.tape.depends_on_latents(name) && fact.is_some_and(|fact| fact.element != FLOAT)
        };
        if node
            .input
            .iter()
            .chain(&node.output)
            .any(|name| other(&name))
        {
            return Err(step.refused("in anything but 32-bit floats"));
        }
        if !["", "ai.onnx"].contains(&node.domain.as_str()) {
            return Err(step.no_rule());
        }
        Ok(step)
    }

    pub(super) fn operator(&self) -> &'a str {
        &self.node.op_type
    }

    fn node_name(&self) -> String {
        let name = Some(&self.node.name).filter(|name| !name.is_empty());
        name.or(self.node.output.first())
            .cloned()
            .unwrap_or_default()
    }

    pub(super) fn no_rule(&self) -> Error {
        self.refused("")
    }

    /// Of an operator with a rule that does not cover this node.
    pub(super) fn refused(&self, why: &str) -> Error {
        let (op, node) = (&self.node.op_type, self.node_name());
        let gap = if why.is_empty() { "" } else { " " };
        Error::unsupported(format!(
            "no gradient is known through operator `{op}` (node `{node}`){gap}{why}"
        ))
    }

    /// How many inputs there are.
    pub(super) fn inputs(&self) -> usize {
        self.node.input.len()
    }

    /// Whether there is such an input.
    pub(super) fn has(&self, input: usize) -> bool {
        self.node
            .input
            .get(input)
            .is_some_and(|name| !name.is_empty())
    }

    /// Whether an input changes with the latents.
    pub(super) fn needs(&self, input: usize) -> bool {
        self.has(input) && self.tape.depends_on_latents(&self.node.input[input])
    }

    /// Refuses a node with inputs that change with the latents and must not.
    pub(super) fn fixed(
        &self,
        inputs: std::ops::Range<usize>,
        why: &'static str,
    ) -> Result<(), Error> {
        if inputs.into_iter().any(|input| self.needs(input)) {
            return Err(self.refused(why));
        }
        Ok(())
    }

    /// The value of an input.
    pub(super) fn x(&mut self, input: usize) -> String {
        self.tape.value(&self.node.input[input])
    }

    /// The value of the first output.
    pub(super) fn y(&mut self) -> String {
        self.tape.value(&self.node.output[0])
    }

    /// What has arrived at the first output.
    pub(super) fn dy(&self) -> Result<String, Error> {
        let first = self.cotangents.first().cloned().flatten();
        first.ok_or_else(|| self.refused("by anything but its first output"))
    }

    /// What has arrived at any output.
    pub(super) fn cotangent(&self, output: usize) -> Option<String> {
        self.cotangents.get(output).cloned().flatten()
    }

    /// How many outputs there are.
    pub(super) fn outputs(&self) -> usize {
        self.node.output.len()
    }

    pub(super) fn x_dims(&self, input: usize) -> Result<Vec<usize>, Error> {
        self.tape.dims(&self.node.input[input])
    }

    pub(super) fn y_dims(&self, output: usize) -> Result<Vec<usize>, Error> {
        self.tape.dims(&self.node.output[output])
    }

    /// Whole numbers that an input holds; an input that is not there holds none.
    pub(super) fn whole(&self, input: usize) -> Result<Option<Vec<i64>>, Error> {
        if !self.has(input) {
            return Ok(None);
        }
        let known = self.tape.whole(&self.node.input[input]);
        known
            .map(Some)
            .ok_or_else(|| self.refused("whose places are not known beforehand"))
    }

    /// Decimal numbers that the file holds for an input.
    pub(super) fn weights(&self, input: usize) -> Option<Vec<f32>> {
        floats(
            self.tape
                .weights
                .get(self.node.input.get(input)?.as_str())?,
        )
    }

    /// Places of the largest values in the whole input.
    pub(super) fn places(&mut self) -> String {
        let output = self.node.output[0].clone();
        let name = places(&output);
        self.tape.indexed.insert(output);
        self.tape.value(&name)
    }

    pub(super) fn int(&self, name: &str, or: i64) -> i64 {
        let found = self.node.attribute.iter().find(|a| a.name == name);
        found.and_then(|a| a.i).unwrap_or(or)
    }

    pub(super) fn float(&self, name: &str, or: f32) -> f32 {
        let found = self.node.attribute.iter().find(|a| a.name == name);
        found.and_then(|a| a.f).unwrap_or(or)
    }

    pub(super) fn ints(&self, name: &str) -> Option<Vec<i64>> {
        let found = self.node.attribute.iter().find(|a| a.name == name);
        found.map(|a| a.ints.clone())
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        let found = self.node.attribute.iter().find(|a| a.name == name)?;
        std::str::from_utf8(found.s.as_ref()?).ok()
    }

    /// An axis of so many, counted from the front.
    pub(super) fn axis(&self, axis: i64, rank: usize) -> Result<usize, Error> {
        let from_front = if axis < 0 { axis + as_int(rank) } else { axis };
        let found = usize::try_from(from_front).ok().filter(|axis| *axis < rank);
        found.ok_or_else(|| self.refused("with an axis that it does not have"))
    }

    pub(super) fn op(&mut self, op: &str, inputs: &[&str]) -> String {
        self.tape.push(op, inputs, Vec::new())
    }

    pub(super) fn op_with(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
    ) -> String {
        self.tape.push(op, inputs, attributes)
    }

    pub(super) fn number(&mut self, value: f32) -> String {
        self.tape.constant(TensorProto::f32("", &[], &[value]))
    }

    pub(super) fn numbers(&mut self, dims: &[usize], values: &[f32]) -> String {
        self.tape.constant(TensorProto::f32("", dims, values))
    }

    pub(super) fn list(&mut self, values: &[i64]) -> String {
        self.tape
            .constant(TensorProto::i64("", &[values.len()], values))
    }

    pub(super) fn sizes(&mut self, dims: &[usize]) -> String {
        let dims: Vec<i64> = dims.iter().map(|&d| as_int(d)).collect();
        self.list(&dims)
    }

    pub(super) fn reshaped(&mut self, value: &str, dims: &[usize]) -> String {
        let dims = self.sizes(dims);
        self.op("Reshape", &[value, &dims])
    }

    pub(super) fn transposed(&mut self, value: &str, order: &[usize]) -> String {
        let order = order.iter().map(|&axis| as_int(axis)).collect();
        self.op_with(
            "Transpose",
            &[value],
            vec![AttributeProto::ints("perm", order)],
        )
    }

    /// Sums over some axes, which are kept with one place each.
    pub(super) fn summed(&mut self, value: &str, axes: &[usize]) -> String {
        let axes = self.sizes(axes);
        self.op("ReduceSum", &[value, &axes])
    }

    /// `value` where `condition` holds, and zero elsewhere.
    pub(super) fn only_where(&mut self, condition: &str, value: &str) -> String {
        let zero = self.number(0.0);
        self.op("Where", &[condition, value, &zero])
    }

    /// Adds up what broadcasting has spread.
    pub(super) fn unbroadcast(&mut self, value: String, from: &[usize], to: &[usize]) -> String {
        if from == to {
            return value;
        }
        let more = from.len() - to.len().min(from.len());
        let axes: Vec<usize> = (0..from.len())
            .filter(|&axis| axis < more || (to[axis - more] == 1 && from[axis] != 1))
            .collect();
        let mut sum = value;
        if !axes.is_empty() {
            sum = self.summed(&sum, &axes);
        }
        if more > 0 {
            sum = self.reshaped(&sum, to);
        }
        sum
    }

    /// Hands a cotangent of the output's shape to an input, through broadcasting.
    pub(super) fn give_broadcast(&mut self, input: usize, value: String) -> Result<(), Error> {
        let (from, to) = (self.y_dims(0)?, self.x_dims(input)?);
        let sum = self.unbroadcast(value, &from, &to);
        self.give(input, sum);
        Ok(())
    }

    /// Hands a cotangent to an input.
    pub(super) fn give(&mut self, input: usize, value: String) {
        let name = self.node.input[input].clone();
        self.tape.add_cotangent(&name, value);
    }
}
