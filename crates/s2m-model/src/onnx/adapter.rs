//! The step between a generator's output and a classifier's input.
//!
//! Pictures are files of whole-number levels, so a generator with `bits` is scored on exactly what
//! would be written to a file. With `[lo, hi]` the generator's range, `[lo', hi']` the classifier's
//! and `top = 2^bits − 1`, all in `f32`:
//!
//! ```text
//! level = round(clip((x − lo) · (top / (hi − lo)), 0, top)),   halves to even
//! input = level · ((hi' − lo') / top) + lo'
//! ```
//!
//! The nodes bound `x` to `[lo, hi]` first and scale it then. The level is the same: each step only
//! ever moves upwards with `x`, and `hi` itself lands within 0.02 of `top`, even for 16 bits. But it
//! is the same in every model. Scaled first, with `lo = 0`, ONNX Runtime 1.31.1 drops the subtraction
//! and folds the scale into a convolution in front of it, so that a joined model rounds other
//! numbers than a generator and an adapter run one after the other.
//!
//! The bounds are the operators `Max` and `Min`. On its CPU provider that runtime hands a NaN on
//! through both, and folds neither into a convolution before them, as it does fold `Clip`.

use std::fmt;

use prost::Message as _;

use super::proto::{
    AttributeProto, DimensionValue, GraphProto, IR_VERSION, ModelProto, NodeProto, OPSET,
    OperatorSetIdProto, TensorProto, ValueInfoProto, as_int, data_type,
};

use crate::error::Error;

/// Order of the axes of one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Pictures as channels, height, width.
    Nchw,
    /// Pictures as height, width, channels, as in files.
    Nhwc,
    /// One row of coordinates.
    Points,
}

/// What one item looks like at one end of the adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemFormat {
    /// Order of its axes.
    pub layout: Layout,
    /// Sizes in the layout's own order, without the batch.
    pub shape: Vec<usize>,
    /// Smallest and largest value.
    pub range: Option<[f32; 2]>,
    /// Bits of a level when items are written to a file. Only a generator's are read.
    pub bits: Option<u8>,
}

/// How a network's own input or output lays out an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axes {
    /// One axis for each size of the shape.
    Item,
    /// All values in one axis, as plain networks without convolutions have it.
    Flat,
}

/// The checked step from a generator's items to a classifier's.
///
/// Without `bits`, values are moved from one range to the other only where both ends have a range
/// and the two differ. With `bits` and no range at the classifier, it is fed the generator's range.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapter {
    from: ItemFormat,
    from_axes: Axes,
    to: ItemFormat,
    to_axes: Axes,
    levels: Option<Levels>,
}

/// With more, `f32` no longer tells neighbouring levels apart safely.
const MOST_BITS: u8 = 16;

impl Layout {
    /// Number of axes of an item.
    fn rank(self) -> usize {
        match self {
            Self::Nchw | Self::Nhwc => 3,
            Self::Points => 1,
        }
    }
}

impl Axes {
    /// How a network with `rank` axes, the batch among them, lays out items of `format`.
    ///
    /// `None` when neither way has that many axes.
    pub fn of_rank(rank: usize, format: &ItemFormat) -> Option<Self> {
        if rank == 1 + format.shape.len() {
            Some(Self::Item)
        } else if rank == 2 {
            Some(Self::Flat)
        } else {
            None
        }
    }
}

impl ItemFormat {
    /// Sizes, without the batch, of a network's own input or output.
    pub fn sizes(&self, axes: Axes) -> Vec<usize> {
        match axes {
            Axes::Item => self.shape.clone(),
            Axes::Flat => vec![self.shape.iter().product()],
        }
    }

    fn check(&self) -> Result<(), Error> {
        let volume = self
            .shape
            .iter()
            .try_fold(1_usize, |n, &d| n.checked_mul(d));
        let empty = volume.is_none_or(|n| n == 0);
        if self.shape.len() != self.layout.rank() || empty {
            let (layout, found) = (self.layout, &self.shape);
            return Err(Error::mismatch(format!(
                "a shape in {layout} order wants {} sizes above 0, found {found:?}",
                layout.rank()
            )));
        }
        if let Some([lo, hi]) = self.range
            && !(lo < hi && (hi - lo).is_normal())
        {
            return Err(Error::mismatch(format!(
                "a range wants two finite numbers, the smaller first, found {:?}",
                [lo, hi]
            )));
        }
        Ok(())
    }

    /// The range and the highest level, where items are levels.
    fn levels(&self) -> Result<Option<Levels>, Error> {
        let Some(bits) = self.bits else {
            return Ok(None);
        };
        if !(1..=MOST_BITS).contains(&bits) {
            return Err(Error::mismatch(format!(
                "wanted 1 to {MOST_BITS} bits, found {bits}"
            )));
        }
        let range = self
            .range
            .ok_or_else(|| Error::mismatch(format!("levels of {bits} bits want a range")))?;
        let top = ((1_u32 << bits) - 1) as f32;
        Ok(Some(Levels { range, top }))
    }

    /// Sizes as height, width, channels.
    fn file_order(&self) -> Vec<usize> {
        let mut sizes = self.shape.clone();
        if self.layout == Layout::Nchw {
            sizes.rotate_left(1);
        }
        sizes
    }
}

/// Whole-number levels `0..=top` over a range of values.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Levels {
    range: [f32; 2],
    top: f32,
}

impl Adapter {
    /// An adapter between networks that lay out items as their formats say.
    pub fn new(from: ItemFormat, to: ItemFormat) -> Result<Self, Error> {
        from.check()?;
        let levels = from.levels()?;
        to.check()?;
        let points = |format: &ItemFormat| format.layout == Layout::Points;
        if points(&from) != points(&to) {
            let (from, to) = (from.layout, to.layout);
            return Err(Error::mismatch(format!(
                "wanted points or images at both ends, found {from} and {to}"
            )));
        }
        if from.file_order() != to.file_order() {
            let (from, to) = (from.file_order(), to.file_order());
            return Err(Error::mismatch(format!(
                "wanted items of the same height, width and channels, found {from:?} from the generator and {to:?} at the classifier"
            )));
        }
        Ok(Self {
            from,
            from_axes: Axes::Item,
            to,
            to_axes: Axes::Item,
            levels,
        })
    }

    /// The same adapter for networks whose output or input has other axes.
    #[must_use]
    pub fn with_axes(mut self, from: Axes, to: Axes) -> Self {
        self.from_axes = from;
        self.to_axes = to;
        self
    }

    /// Items as the generator gives them.
    pub fn generator_format(&self) -> &ItemFormat {
        &self.from
    }

    /// Items as the classifier takes them.
    pub fn classifier_format(&self) -> &ItemFormat {
        &self.to
    }

    /// Sizes of the generator's output, without the batch.
    pub fn generator_sizes(&self) -> Vec<usize> {
        self.from.sizes(self.from_axes)
    }

    /// Sizes of the classifier's input, without the batch.
    pub fn classifier_sizes(&self) -> Vec<usize> {
        self.to.sizes(self.to_axes)
    }

    /// Whether the generator's output can be fed to the classifier as it is.
    pub fn is_identity(&self) -> bool {
        self.steps("", "").nodes.is_empty()
    }

    /// The nodes that turn `input` into what the classifier takes; new names start with `prefix`.
    pub(super) fn steps(&self, prefix: &str, input: &str) -> Steps {
        let mut steps = Steps::new(prefix, input);
        steps.unflatten(&self.from, self.from_axes);
        match self.levels {
            Some(levels) => {
                steps.quantise(levels);
                steps.dequantise(levels, self.to.range.unwrap_or(levels.range));
            }
            None => steps.rescale(self.from.range, self.to.range),
        }
        steps.reorder(self.from.layout, self.to.layout);
        let sizes = self.classifier_sizes();
        if sizes.len() != self.to.shape.len() {
            steps.reshape(&sizes);
        }
        steps
    }
}

/// Nodes in a row, each fed by the one before.
#[derive(Debug)]
pub(super) struct Steps {
    prefix: String,
    /// Name of the last value made.
    pub(super) end: String,
    pub(super) nodes: Vec<NodeProto>,
    pub(super) constants: Vec<TensorProto>,
}

impl Steps {
    fn new(prefix: &str, input: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            end: input.to_owned(),
            nodes: Vec::new(),
            constants: Vec::new(),
        }
    }

    fn unflatten(&mut self, format: &ItemFormat, axes: Axes) {
        if format.sizes(axes).len() != format.shape.len() {
            self.reshape(&format.shape);
        }
    }

    /// Values to whole-number levels; see the head of this file for the order of the steps.
    fn quantise(&mut self, levels: Levels) {
        let Levels {
            range: [lo, hi],
            top,
        } = levels;
        self.number("Max", lo);
        self.number("Min", hi);
        self.number("Sub", lo);
        self.number("Mul", top / (hi - lo));
        self.push("Round", None);
    }

    fn dequantise(&mut self, levels: Levels, [lo, hi]: [f32; 2]) {
        self.number("Mul", (hi - lo) / levels.top);
        self.number("Add", lo);
    }

    fn rescale(&mut self, from: Option<[f32; 2]>, to: Option<[f32; 2]>) {
        if let (Some([lo, hi]), Some([to_lo, to_hi])) = (from, to)
            && from != to
        {
            self.number("Sub", lo);
            self.number("Mul", (to_hi - to_lo) / (hi - lo));
            self.number("Add", to_lo);
        }
    }

    fn reorder(&mut self, from: Layout, to: Layout) {
        let order = match (from, to) {
            (Layout::Nchw, Layout::Nhwc) => vec![0, 2, 3, 1],
            (Layout::Nhwc, Layout::Nchw) => vec![0, 3, 1, 2],
            _ => return,
        };
        let node = self.push("Transpose", None);
        node.attribute.push(AttributeProto::ints("perm", order));
    }

    fn reshape(&mut self, item: &[usize]) {
        // A 0 copies the size of that axis, here the batch.
        let sizes = std::iter::once(0).chain(item.iter().map(|&d| as_int(d)));
        let sizes: Vec<i64> = sizes.collect();
        self.push(
            "Reshape",
            Some(TensorProto::i64("", &[sizes.len()], &sizes)),
        );
    }

    fn number(&mut self, op_type: &str, value: f32) {
        self.push(op_type, Some(TensorProto::f32("", &[], &[value])));
    }

    fn push(&mut self, op_type: &str, constant: Option<TensorProto>) -> &mut NodeProto {
        let made = format!("{}{}.{op_type}", self.prefix, self.nodes.len());
        let mut node = NodeProto::new(op_type, &[&self.end], &made);
        if let Some(mut constant) = constant {
            constant.name = format!("{made}.constant");
            node.input.push(constant.name.clone());
            self.constants.push(constant);
        }
        self.end = made;
        self.nodes.push(node);
        let last = self.nodes.len() - 1;
        &mut self.nodes[last]
    }

    /// These steps as a model by themselves.
    fn model(mut self, input: ValueInfoProto, output: ValueInfoProto) -> Vec<u8> {
        let last = NodeProto::new("Identity", &[&self.end], &output.name);
        self.nodes.push(last);
        let graph = GraphProto {
            node: self.nodes,
            name: "adapter".to_owned(),
            initializer: self.constants,
            input: vec![input],
            output: vec![output],
            ..GraphProto::default()
        };
        let opsets = vec![OperatorSetIdProto::default_domain(OPSET)];
        ModelProto::around(graph, IR_VERSION, opsets).encode_to_vec()
    }
}

/// A model of the adapter alone; it copies its input when there is nothing to do.
pub fn adapter_model(adapter: &Adapter, input: &str, output: &str) -> Vec<u8> {
    let steps = adapter.steps(&inner_prefix(input, output), input);
    let from = declaration(input, &adapter.generator_sizes());
    let to = declaration(output, &adapter.classifier_sizes());
    steps.model(from, to)
}

/// A model from a generator's output to what is written to a file.
///
/// With `bits` the values are levels `0..=2^bits − 1`, made by the same nodes, in the same order, as
/// those that a classifier is fed from. Pictures come as height, width, channels. Without
/// `bits` the values themselves are not changed.
pub fn levels_model(
    from: &ItemFormat,
    axes: Axes,
    input: &str,
    output: &str,
) -> Result<Vec<u8>, Error> {
    from.check()?;
    let mut steps = Steps::new(&inner_prefix(input, output), input);
    steps.unflatten(from, axes);
    if let Some(levels) = from.levels()? {
        steps.quantise(levels);
    }
    if from.layout == Layout::Nchw {
        steps.reorder(Layout::Nchw, Layout::Nhwc);
    }
    let given = declaration(input, &from.sizes(axes));
    Ok(steps.model(given, declaration(output, &from.file_order())))
}

/// A start for names inside that neither of two given names has.
fn inner_prefix(input: &str, output: &str) -> String {
    let mut prefix = "a/".to_owned();
    while input.starts_with(&prefix) || output.starts_with(&prefix) {
        prefix.push('/');
    }
    prefix
}

fn declaration(name: &str, item: &[usize]) -> ValueInfoProto {
    let items = item.iter().map(|&d| DimensionValue::DimValue(as_int(d)));
    let dims = std::iter::once(DimensionValue::batch()).chain(items);
    ValueInfoProto::tensor(name, data_type::FLOAT, dims.collect())
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nchw => "nchw",
            Self::Nhwc => "nhwc",
            Self::Points => "points",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(layout: Layout, shape: &[usize], range: [f32; 2], bits: Option<u8>) -> ItemFormat {
        ItemFormat {
            layout,
            shape: shape.to_vec(),
            range: Some(range),
            bits,
        }
    }

    fn points(shape: &[usize]) -> ItemFormat {
        ItemFormat {
            layout: Layout::Points,
            shape: shape.to_vec(),
            range: None,
            bits: None,
        }
    }

    /// Operators of a model in order, and the sizes of its output.
    fn read(bytes: &[u8]) -> (String, Vec<Option<i64>>) {
        let model = ModelProto::decode(bytes).unwrap();
        let dims = crate::onnx::describe(&model).outputs[0].dims.clone();
        let nodes = model.graph.unwrap().node;
        let names: Vec<&str> = nodes.iter().map(|n| n.op_type.as_str()).collect();
        (names.join(" "), dims.unwrap())
    }

    #[test]
    fn levels_ranges_layouts_and_axes_become_nodes_in_that_order() {
        let from = picture(Layout::Nhwc, &[28, 28, 1], [-1.0, 1.0], Some(8));
        let to = picture(Layout::Nchw, &[1, 28, 28], [0.0, 1.0], None);
        let adapter = Adapter::new(from.clone(), to).unwrap();
        let adapter = adapter.with_axes(Axes::Flat, Axes::Flat);
        let (nodes, dims) = read(&adapter_model(&adapter, "x", "y"));
        assert_eq!(
            nodes,
            "Reshape Max Min Sub Mul Round Mul Add Transpose Reshape Identity"
        );
        assert_eq!(dims, [None, Some(784)]);
        assert!(!adapter.is_identity());

        let bytes = levels_model(&from, Axes::Flat, "x", "y").unwrap();
        let (nodes, dims) = read(&bytes);
        assert_eq!(nodes, "Reshape Max Min Sub Mul Round Identity");
        assert_eq!(dims, [None, Some(28), Some(28), Some(1)]);
    }

    /// Numbers in the constants of the steps, in order.
    fn numbers(steps: &Steps) -> Vec<f32> {
        let scalars = steps.constants.iter().filter(|c| c.dims.is_empty());
        let bytes = scalars.map(|c| c.raw_data.clone().unwrap().try_into().unwrap());
        bytes.map(f32::from_le_bytes).collect()
    }

    #[test]
    fn the_numbers_are_those_of_the_formula() {
        let from = picture(Layout::Nchw, &[1, 2, 3], [-1.0, 1.0], Some(8));
        let to = picture(Layout::Nchw, &[1, 2, 3], [0.0, 2.0], None);
        let levels = Adapter::new(from.clone(), to.clone()).unwrap();
        let step = 2.0 / 255.0;
        let wanted = [-1.0, 1.0, -1.0, 127.5, step, 0.0];
        assert_eq!(numbers(&levels.steps("", "x")), wanted);

        let from = ItemFormat { bits: None, ..from };
        let affine = Adapter::new(from, to).unwrap();
        assert_eq!(numbers(&affine.steps("", "x")), [-1.0, 1.0, 0.0]);
    }

    #[test]
    fn axes_are_moved_the_right_way() {
        let order = |from, to| {
            let mut steps = Steps::new("", "x");
            steps.reorder(from, to);
            steps.nodes[0].attribute[0].ints.clone()
        };
        let sizes = ["n", "c", "h", "w"];
        let files = order(Layout::Nchw, Layout::Nhwc).into_iter();
        let files: Vec<&str> = files.map(|axis| sizes[axis as usize]).collect();
        assert_eq!(files, ["n", "h", "w", "c"]);
        let back = order(Layout::Nhwc, Layout::Nchw).into_iter();
        let back: Vec<&str> = back.map(|axis| files[axis as usize]).collect();
        assert_eq!(back, sizes);
    }

    #[test]
    fn levels_are_made_by_the_nodes_that_scores_are_made_by() {
        let from = picture(Layout::Nchw, &[3, 4, 5], [0.0, 1.0], Some(8));
        let to = picture(Layout::Nchw, &[3, 4, 5], [-1.0, 1.0], None);
        let scored = Adapter::new(from.clone(), to).unwrap().steps("a/", "x");
        let written = levels_model(&from, Axes::Item, "x", "y").unwrap();
        let written = ModelProto::decode(written.as_slice())
            .unwrap()
            .graph
            .unwrap();
        assert_eq!(scored.nodes[..5], written.node[..5]);
        assert_eq!(scored.constants[..4], written.initializer[..4]);
        assert_eq!(written.node[4].op_type, "Round");
        assert_eq!(written.node[5].op_type, "Transpose");
    }

    #[test]
    fn nothing_to_do_is_the_identity() {
        let adapter = Adapter::new(points(&[2]), points(&[2])).unwrap();
        let adapter = adapter.with_axes(Axes::Flat, Axes::Item);
        assert!(adapter.is_identity());
        assert_eq!(read(&adapter_model(&adapter, "a/x", "y")).0, "Identity");
        let bytes = levels_model(&points(&[2]), Axes::Item, "x", "y").unwrap();
        assert_eq!(read(&bytes).0, "Identity");

        let same = picture(Layout::Nchw, &[1, 2, 2], [0.0, 1.0], None);
        assert!(Adapter::new(same.clone(), same).unwrap().is_identity());
    }

    #[test]
    fn without_bits_only_a_different_range_is_changed() {
        let from = picture(Layout::Nchw, &[1, 2, 2], [-1.0, 1.0], None);
        let to = picture(Layout::Nchw, &[1, 2, 2], [0.0, 1.0], None);
        let adapter = Adapter::new(from.clone(), to).unwrap();
        let (nodes, _) = read(&adapter_model(&adapter, "x", "y"));
        assert_eq!(nodes, "Sub Mul Add Identity");
        let anything = ItemFormat {
            range: None,
            ..from.clone()
        };
        assert!(Adapter::new(from, anything).unwrap().is_identity());
    }

    #[test]
    fn formats_that_cannot_meet_are_refused_in_words() {
        let good = picture(Layout::Nchw, &[1, 2, 3], [0.0, 1.0], None);
        let cases = [
            (
                points(&[2, 3]),
                "a shape in points order wants 1 sizes above 0, found [2, 3]",
            ),
            (
                picture(Layout::Nhwc, &[2, 0, 1], [0.0, 1.0], None),
                "a shape in nhwc order wants 3 sizes above 0, found [2, 0, 1]",
            ),
            (
                picture(Layout::Nhwc, &[1, 2, 3], [0.0, 1.0], None),
                "wanted items of the same height, width and channels, found [1, 2, 3] from the \
                 generator and [2, 3, 1] at the classifier",
            ),
            (
                points(&[6]),
                "wanted points or images at both ends, found points and nchw",
            ),
            (
                picture(Layout::Nchw, &[1, 2, 3], [1.0, -1.0], None),
                "a range wants two finite numbers, the smaller first, found [1.0, -1.0]",
            ),
            (
                picture(Layout::Nchw, &[1, 2, 3], [0.0, 1.0], Some(17)),
                "wanted 1 to 16 bits, found 17",
            ),
            (
                ItemFormat {
                    range: None,
                    bits: Some(8),
                    ..good.clone()
                },
                "levels of 8 bits want a range",
            ),
        ];
        for (from, message) in cases {
            let failure = Adapter::new(from, good.clone()).unwrap_err();
            assert_eq!(failure.to_string(), message);
        }
        for range in [[0.0, f32::NAN], [f32::MIN, f32::MAX], [0.0, f32::INFINITY]] {
            let from = picture(Layout::Nchw, &[1, 2, 3], range, None);
            assert!(levels_model(&from, Axes::Item, "x", "y").is_err());
        }
    }

    #[test]
    fn axes_follow_from_the_number_of_axes() {
        let format = picture(Layout::Nchw, &[1, 2, 3], [0.0, 1.0], None);
        assert_eq!(Axes::of_rank(4, &format), Some(Axes::Item));
        assert_eq!(Axes::of_rank(2, &format), Some(Axes::Flat));
        assert_eq!(Axes::of_rank(3, &format), None);
        assert_eq!(Axes::of_rank(2, &points(&[2])), Some(Axes::Item));
    }

    /// The twin is the formula at the head of this file; the nodes bound first and scale then.
    #[test]
    fn bounding_first_gives_the_levels_of_the_formula() {
        for (range, bits) in [
            ([0.0, 1.0], 8),
            ([-1.0, 1.0], 8),
            ([-0.3, 2.7], 16),
            ([0.1, 0.7], 3),
        ] {
            let [lo, hi]: [f32; 2] = range;
            let top = ((1_u32 << bits) - 1) as f32;
            let scale = top / (hi - lo);
            let edges = [lo, hi, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN];
            let near = edges[..2].iter().flat_map(|x| [x.next_up(), x.next_down()]);
            let between = (0..200_000).map(|i| lo - 0.1 + (hi - lo + 0.2) * (i as f32 / 200_000.0));
            for x in edges.into_iter().chain(near).chain(between) {
                let formula = ((x - lo) * scale).clamp(0.0, top).round_ties_even();
                let nodes = ((x.max(lo).min(hi) - lo) * scale).round_ties_even();
                assert_eq!(nodes, formula, "{x} in {range:?}, {bits} bits");
            }
        }
    }
}
