//! A network up to one of its values: frozen features, on which heads of one's own stand.
//!
//! [`cut`] makes the value the only output and leaves out what it does not need. [`Cut::reading`] puts the step
//! from items as the data has them in front, [`Cut::finish`] makes one row per item of what comes out, and
//! [`with_heads`] appends heads. All names of the network move behind `backbone/`, so that none is given twice, also
//! where the result is cut again.
//!
//! ```text
//! x ── a/… ── backbone/… ── features ── heads
//! ```

use super::adapter::{Adapter, Axes, ItemFormat, Layout};
use super::inspect::{Port, PortElement, free_inputs, port};
use super::join::{OLDEST_IR_VERSION, OLDEST_OPSET, keep_live, opset_of};
use super::proto::{
    AttributeProto, DimensionValue, GraphProto, ModelProto, NodeProto, ValueInfoProto, as_int,
    data_type,
};

use crate::error::{Error, list};

/// Name of the features in every file that this workspace writes.
pub const FEATURES: &str = "features";

/// Name of the items.
const ITEMS: &str = "x";

/// What stands before the names of the network.
const PREFIX: &str = "backbone/";

fn sides(dims: &[Option<i64>]) -> String {
    let side = |dim: &Option<i64>| dim.map_or("?".to_owned(), |side| side.to_string());
    format!("[{}]", dims.iter().map(side).collect::<Vec<_>>().join(", "))
}

/// A network up to one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    /// Its one output has no type yet.
    pub model: ModelProto,
    /// The one input.
    pub input: Port,
    /// The value as its file calls it.
    pub features: String,
}

/// The part of a network that computes `features`; a network with one output needs no name.
pub fn cut(model: &ModelProto, features: Option<&str>) -> Result<Cut, Error> {
    let graph = model.graph.as_ref().ok_or_else(no_graph)?;
    let opset = opset_of(model);
    if opset < OLDEST_OPSET {
        return Err(Error::unsupported(format!(
            "it uses opset {opset}\nhint: export it with opset {OLDEST_OPSET} or later"
        )));
    }
    let features = value_of(graph, features)?;
    let mut part = GraphProto {
        name: "backbone".to_owned(),
        node: graph.node.clone(),
        initializer: graph.initializer.clone(),
        sparse_initializer: graph.sparse_initializer.clone(),
        input: free_inputs(graph).cloned().collect(),
        output: vec![untyped(&features)],
        ..GraphProto::default()
    };
    let live = keep_live(&mut part);
    part.input.retain(|value| live.contains(&value.name));
    let input = input_of(&part, &features)?;
    rename(&mut part);
    part.output = vec![untyped(&prefixed(&features))];
    let ir_version = model.ir_version.max(OLDEST_IR_VERSION);
    Ok(Cut {
        model: ModelProto {
            functions: model.functions.clone(),
            ..ModelProto::around(part, ir_version, model.opset_import.clone())
        },
        input,
        features,
    })
}

fn no_graph() -> Error {
    Error::unsupported("it holds no graph")
}

fn unfit_heads() -> Error {
    Error::unsupported(format!(
        "the heads do not fit: they must take `{FEATURES}` alone, and no name may be given twice"
    ))
}

/// The value that is meant.
fn value_of(graph: &GraphProto, features: Option<&str>) -> Result<String, Error> {
    let outputs = || list(graph.output.iter().map(|v| &v.name));
    let Some(name) = features else {
        return match graph.output.as_slice() {
            [only] => Ok(only.name.clone()),
            _ => Err(Error::setting(format!(
                "it has {} outputs, {}\nhint: name one of them, or another value of the graph, as `features`",
                graph.output.len(),
                outputs()
            ))),
        };
    };
    let mut made = graph.node.iter().flat_map(|node| &node.output);
    if !name.is_empty() && made.any(|made| made == name) {
        return Ok(name.to_owned());
    }
    Err(Error::not_found(format!(
        "it computes no value `{name}`; its outputs are {}\nhint: `features` names an output or any other value of the graph",
        outputs()
    )))
}

/// The one input that is left.
fn input_of(part: &GraphProto, features: &str) -> Result<Port, Error> {
    let input = match part.input.as_slice() {
        [] => {
            return Err(Error::unsupported(format!(
                "`{features}` depends on no input\nhint: name another value as `features`"
            )));
        }
        [only] => port(only),
        several => {
            let names = list(several.iter().map(|v| &v.name));
            return Err(Error::unsupported(format!(
                "it takes {} inputs, {names}; features come from one, the items\nhint: export it with the others filled in",
                several.len()
            )));
        }
    };
    let name = input.name.clone();
    if input.element != PortElement::F32 {
        let found = input.element;
        return Err(Error::unsupported(format!(
            "its input `{name}` is {found}, wanted 32-bit floats\nhint: export it in 32-bit floats"
        )));
    }
    match input.dims.as_ref().and_then(|dims| *dims.first()?) {
        Some(batch) => Err(Error::unsupported(format!(
            "its input `{name}` is for batches of {batch}\nhint: export it with a dynamic first axis"
        ))),
        None => Ok(input),
    }
}

fn untyped(name: &str) -> ValueInfoProto {
    ValueInfoProto {
        name: name.to_owned(),
        ..ValueInfoProto::default()
    }
}

fn prefixed(name: &str) -> String {
    // An empty name is an optional input or output that is not there.
    if name.is_empty() {
        String::new()
    } else {
        format!("{PREFIX}{name}")
    }
}

/// Every name behind the prefix, also in graphs inside nodes, which may use values around them.
fn rename(graph: &mut GraphProto) {
    let sparse = graph.sparse_initializer.iter_mut();
    let sparse = sparse.filter_map(|weights| weights.values.as_mut());
    let values = graph.input.iter_mut().chain(&mut graph.output);
    let names = values
        .map(|value| &mut value.name)
        .chain(
            graph
                .initializer
                .iter_mut()
                .map(|weights| &mut weights.name),
        )
        .chain(sparse.map(|weights| &mut weights.name));
    names.for_each(|name| *name = prefixed(name));
    // Shapes and quantisation notes are only hints, and hold names.
    graph.value_info.clear();
    graph.quantization_annotation.clear();
    for node in &mut graph.node {
        let names = node.input.iter_mut().chain(&mut node.output);
        names
            .chain([&mut node.name])
            .for_each(|name| *name = prefixed(name));
        for attribute in &mut node.attribute {
            let inner = attribute.g.iter_mut().chain(&mut attribute.graphs);
            inner.for_each(rename);
        }
    }
}

impl Cut {
    /// The same network for items called `x` in the form that the data has; it takes pictures with values in `range`.
    pub fn reading(mut self, item: &ItemFormat, range: Option<[f32; 2]>) -> Result<Self, Error> {
        let adapter = self.adapter(item, range)?;
        let steps = adapter.steps("a/", ITEMS);
        let own = prefixed(&self.input.name);
        let given = NodeProto::new("Identity", &[&steps.end], &own);
        let dims = adapter.generator_sizes();
        let declared = ValueInfoProto::tensor(ITEMS, data_type::FLOAT, rows_of(&dims));
        self.input = port(&declared);
        let graph = self.model.graph.get_or_insert_default();
        graph.input = vec![declared];
        let nodes = std::mem::take(&mut graph.node);
        graph.node = steps
            .nodes
            .into_iter()
            .chain([given])
            .chain(nodes)
            .collect();
        graph.initializer.extend(steps.constants);
        Ok(self)
    }

    /// The step from the data's items to what the network takes: channels first, channels last, or one row.
    fn adapter(&self, item: &ItemFormat, range: Option<[f32; 2]>) -> Result<Adapter, Error> {
        let mut last = item.clone();
        if item.layout == Layout::Nchw {
            last.layout = Layout::Nhwc;
            last.shape.rotate_left(1);
        }
        let forms = [
            (item.clone(), Axes::Item),
            (last, Axes::Item),
            (item.clone(), Axes::Flat),
        ];
        let Some(dims) = &self.input.dims else {
            return Adapter::new(item.clone(), in_range(item.clone(), range));
        };
        let dims = dims.get(1..).unwrap_or_default();
        let fits = |(form, axes): &(ItemFormat, Axes)| {
            let sizes = form.sizes(*axes);
            let agrees = |(dim, size): (&Option<i64>, &usize)| {
                dim.is_none_or(|dim| usize::try_from(dim) == Ok(*size))
            };
            dims.len() == sizes.len() && dims.iter().zip(&sizes).all(agrees)
        };
        let Some((form, axes)) = forms.into_iter().find(fits) else {
            return Err(Error::unsupported(format!(
                "its input `{}` takes items of {}, the data has items of {:?}\nhint: give the data the network's size, or export the network for the data's",
                self.input.name,
                sides(dims),
                item.shape
            )));
        };
        Ok(Adapter::new(item.clone(), in_range(form, range))?.with_axes(Axes::Item, axes))
    }

    /// The network with the one output `features`, `[n, f]`, for a value that had this shape for so many items. Sides
    /// are averaged over.
    pub fn finish(self, shape: &[i64], rows: i64) -> Result<ModelProto, Error> {
        let mut model = self.model;
        let graph = model.graph.get_or_insert_default();
        let value = prefixed(&self.features);
        let width = match *shape {
            [n, width] if n == rows && width > 0 => {
                graph
                    .node
                    .push(NodeProto::new("Identity", &[&value], FEATURES));
                width
            }
            [n, width, height, breadth] if n == rows && width.min(height).min(breadth) > 0 => {
                let mean = format!("{FEATURES}/mean");
                graph
                    .node
                    .push(NodeProto::new("GlobalAveragePool", &[&value], &mean));
                let flat = NodeProto::new("Flatten", &[&mean], FEATURES);
                graph.node.push(flat.with(AttributeProto::int("axis", 1)));
                width
            }
            _ => {
                return Err(Error::unsupported(format!(
                    "`{}` is of shape {shape:?} for {rows} items, wanted [n, f] or [n, f, height, width]\nhint: name another value as `features`",
                    self.features
                )));
            }
        };
        let dims = rows_of(&[usize::try_from(width).unwrap_or_default()]);
        graph.output = vec![ValueInfoProto::tensor(FEATURES, data_type::FLOAT, dims)];
        Ok(model)
    }
}

fn in_range(form: ItemFormat, range: Option<[f32; 2]>) -> ItemFormat {
    let range = range.or(form.range);
    ItemFormat { range, ..form }
}

fn rows_of(item: &[usize]) -> Vec<DimensionValue> {
    let sizes = item
        .iter()
        .map(|&size| DimensionValue::DimValue(as_int(size)));
    std::iter::once(DimensionValue::batch())
        .chain(sizes)
        .collect()
}

/// A finished network with heads that take its `features`; the outputs are those of the heads.
///
/// The heads keep their names, and take the network's version of all operators: theirs must mean the same in every one
/// from the oldest that [`cut`] takes.
pub fn with_heads(backbone: &ModelProto, heads: &ModelProto) -> Result<ModelProto, Error> {
    let (Some(under), Some(over)) = (&backbone.graph, &heads.graph) else {
        return Err(no_graph());
    };
    let meets = |ports: &[ValueInfoProto]| matches!(ports, [only] if only.name == FEATURES);
    if !meets(&under.output) || !meets(&over.input) {
        return Err(unfit_heads());
    }
    let mut model = backbone.clone();
    model.ir_version = backbone.ir_version.max(heads.ir_version);
    let graph = model.graph.get_or_insert_default();
    graph.name.clone_from(&over.name);
    graph.node.extend(over.node.iter().cloned());
    graph.initializer.extend(over.initializer.iter().cloned());
    graph.output.clone_from(&over.output);
    super::join::check_names(graph).map_err(|_| unfit_heads())?;
    Ok(model)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::{Element, GraphBuilder};

    fn pictures() -> ItemFormat {
        ItemFormat {
            layout: Layout::Nchw,
            shape: vec![3, 4, 5],
            range: Some([-1.0, 1.0]),
            bits: None,
        }
    }

    /// Two inputs and two outputs; `first` needs the pictures alone.
    fn two() -> ModelProto {
        let mut graph = GraphBuilder::new("two");
        let x = graph.input("picture", &[3, 4, 5], Element::F32).unwrap();
        let other = graph.input("other", &[3, 4, 5], Element::F32).unwrap();
        let first = graph.relu(&x).unwrap();
        let second = graph.add(&first, &other).unwrap();
        let weights = graph.constant("unused", &[5], &[1.0; 5]).unwrap();
        let third = graph.add(&second, &weights).unwrap();
        graph.output(&first, "first").unwrap();
        graph.output(&third, "second").unwrap();
        graph.finish()
    }

    fn message(model: &ModelProto, features: Option<&str>) -> String {
        cut(model, features).unwrap_err().to_string()
    }

    #[test]
    fn only_what_the_value_needs_is_left_and_all_names_move() {
        let found = cut(&two(), Some("Relu#1")).unwrap();
        let graph = found.model.graph.as_ref().unwrap();
        let nodes: Vec<&str> = graph.node.iter().map(|n| n.output[0].as_str()).collect();
        assert_eq!(nodes, ["backbone/Relu#1"]);
        assert_eq!(graph.node[0].input, ["backbone/picture"]);
        assert_eq!((graph.initializer.len(), graph.input.len()), (0, 1));
        assert_eq!(
            (found.input.name.as_str(), graph.output.len()),
            ("picture", 1)
        );
    }

    #[test]
    fn a_graph_inside_a_node_is_renamed_and_what_it_reads_is_kept() {
        let inner = GraphProto {
            node: vec![NodeProto::new("Add", &["outside", "weight"], "inner")],
            output: vec![untyped("inner")],
            ..GraphProto::default()
        };
        let branch = AttributeProto {
            name: "then_branch".to_owned(),
            g: Some(inner),
            ..AttributeProto::default()
        };
        let mut model = two();
        let graph = model.graph.as_mut().unwrap();
        graph.node = vec![
            NodeProto::new("Relu", &["picture"], "outside"),
            NodeProto::new("If", &["unused"], "chosen").with(branch),
        ];
        graph.initializer[0].name = "weight".to_owned();
        let found = cut(&model, Some("chosen")).unwrap();
        let graph = found.model.graph.unwrap();
        assert_eq!(graph.initializer[0].name, "backbone/weight");
        assert_eq!(graph.node[0].output, ["backbone/outside"]);
        let inner = graph.node[1].attribute[0].g.as_ref().unwrap();
        assert_eq!(inner.node[0].input, ["backbone/outside", "backbone/weight"]);
        assert_eq!(inner.output[0].name, "backbone/inner");
    }

    #[test]
    fn values_and_inputs_that_do_not_serve_are_named_with_a_cure() {
        assert_eq!(
            message(&two(), None),
            "it has 2 outputs, `first`, `second`\nhint: name one of them, or another value of the graph, as `features`"
        );
        assert_eq!(
            message(&two(), Some("pool")),
            "it computes no value `pool`; its outputs are `first`, `second`\nhint: `features` names an output or any other value of the graph"
        );
        assert_eq!(
            message(&two(), Some("second")),
            "it takes 2 inputs, `picture`, `other`; features come from one, the items\nhint: export it with the others filled in"
        );
        let mut old = two();
        old.opset_import[0].version = 12;
        assert_eq!(
            message(&old, None),
            "it uses opset 12\nhint: export it with opset 13 or later"
        );
        let mut fixed = two();
        let batch = vec![DimensionValue::DimValue(8)];
        fixed.graph.as_mut().unwrap().input[0] =
            ValueInfoProto::tensor("picture", data_type::FLOAT, batch);
        assert_eq!(
            message(&fixed, Some("first")),
            "its input `picture` is for batches of 8\nhint: export it with a dynamic first axis"
        );
        let mut whole = two();
        whole.graph.as_mut().unwrap().input[0] =
            ValueInfoProto::tensor("picture", data_type::INT64, rows_of(&[3, 4, 5]));
        assert!(message(&whole, Some("first")).contains("`picture` is i64, wanted 32-bit floats"));
        let mut constant = two();
        constant.graph.as_mut().unwrap().node[0].input[0] = "unused".to_owned();
        assert!(message(&constant, Some("first")).starts_with("`first` depends on no input"));
        assert_eq!(message(&ModelProto::default(), None), "it holds no graph");
    }

    #[test]
    fn the_order_of_the_axes_is_told_by_the_shape() {
        let steps = |dims: Vec<DimensionValue>, range| {
            let mut found = cut(&two(), Some("first")).unwrap();
            found.input = port(&ValueInfoProto::tensor("picture", data_type::FLOAT, dims));
            let read = found.reading(&pictures(), range)?;
            let graph = read.model.graph.unwrap();
            assert_eq!(graph.input[0].name, "x");
            let steps = graph.node.iter().map(|n| n.op_type.clone());
            Ok(steps
                .take_while(|op| op != "Identity")
                .collect::<Vec<_>>()
                .join(" "))
        };
        let unknown = || DimensionValue::DimParam("side".to_owned());
        let rows = |dims: &[usize]| rows_of(dims);
        let cases = [
            (rows(&[3, 4, 5]), None, ""),
            (rows(&[3, 4, 5]), Some([0.0, 1.0]), "Sub Mul Add"),
            (rows(&[4, 5, 3]), None, "Transpose"),
            (rows(&[60]), None, "Reshape"),
            (vec![unknown(), unknown(), unknown(), unknown()], None, ""),
        ];
        for (dims, range, wanted) in cases {
            assert_eq!(steps(dims, range), Ok::<_, Error>(wanted.to_owned()));
        }
        assert_eq!(
            steps(rows(&[3, 8, 8]), None).unwrap_err().to_string(),
            "its input `picture` takes items of [3, 8, 8], the data has items of [3, 4, 5]\nhint: give the data the network's size, or export the network for the data's"
        );
        assert!(steps(rows(&[3, 4, 5]), Some([1.0, 0.0])).is_err());
    }

    #[test]
    fn features_are_one_row_per_item() {
        let finish = |shape: &[i64]| cut(&two(), Some("first")).unwrap().finish(shape, 2);
        let ops = |shape: &[i64]| {
            let graph = finish(shape).unwrap().graph.unwrap();
            let width = port(&graph.output[0]).dims.unwrap()[1];
            (graph.node.last().unwrap().op_type.clone(), width)
        };
        assert_eq!(ops(&[2, 7]), ("Identity".to_owned(), Some(7)));
        assert_eq!(ops(&[2, 7, 1, 1]), ("Flatten".to_owned(), Some(7)));
        assert_eq!(ops(&[2, 7, 3, 4]), ("Flatten".to_owned(), Some(7)));
        for wrong in [&[2][..], &[2, 5, 7], &[1, 7], &[2, 0]] {
            assert!(finish(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(
            finish(&[2, 5, 7]).unwrap_err().to_string(),
            "`first` is of shape [2, 5, 7] for 2 items, wanted [n, f] or [n, f, height, width]\nhint: name another value as `features`"
        );
    }

    #[test]
    fn heads_must_stand_on_the_features() {
        let mut heads = GraphBuilder::new("heads");
        let x = heads.input("other", &[7], Element::F32).unwrap();
        let y = heads.relu(&x).unwrap();
        heads.output(&y, "y").unwrap();
        let backbone = cut(&two(), Some("first"))
            .unwrap()
            .finish(&[2, 7], 2)
            .unwrap();
        let heads = heads.finish();
        assert_eq!(with_heads(&backbone, &heads), Err(unfit_heads()));
    }
}
