//! Operators that move, cut, join or sum along axes.

use super::super::proto::{AttributeProto, as_int};
use super::{
    Dim, Element, Elements, GraphBuilder, Made, Shown, Tensor, check_element, rank, setting, volume,
};

use crate::error::Error;

const F32: Elements = Elements::Only(Element::F32);

/// What becomes of an axis that is reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduced {
    /// It stays, with size 1.
    Kept,
    /// It is gone.
    Dropped,
}

impl GraphBuilder {
    /// Axes in another order: axis `i` of the result is axis `permutation[i]` of `x`.
    pub fn transpose(&mut self, x: &Tensor, permutation: &[usize]) -> Result<Tensor, Error> {
        self.known("transpose", &[x])?;
        let mut sorted = permutation.to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..x.shape.len()) {
            return Err(Error::graph(format!(
                "transpose: wanted a permutation of the axes of {}, found {permutation:?}",
                Shown(&x.shape)
            )));
        }
        let shape = permutation.iter().map(|&axis| x.shape[axis]).collect();
        let order = permutation.iter().map(|&axis| as_int(axis)).collect();
        let made = Made::of(shape, x.element).with(AttributeProto::ints("perm", order));
        Ok(self.push("Transpose", &[&x.name], made))
    }

    /// The values of each item, in the same order, as an item of shape `item`.
    pub fn reshape(&mut self, x: &Tensor, item: &[usize]) -> Result<Tensor, Error> {
        self.known("reshape", &[x])?;
        if item_volume("reshape", x)? != volume(item) {
            return Err(Error::graph(format!(
                "reshape: wanted items that fill {item:?}, found {}",
                Shown(&x.shape)
            )));
        }
        // A 0 copies the size of that axis, here the batch.
        let sizes = std::iter::once(0).chain(item.iter().map(|&d| as_int(d)));
        let shape = self.list("shape", &sizes.collect::<Vec<_>>());
        let made = Made::of(batch_of(item), x.element);
        Ok(self.push("Reshape", &[&x.name, &shape], made))
    }

    /// The values of each item in one row.
    pub fn flatten(&mut self, x: &Tensor) -> Result<Tensor, Error> {
        self.known("flatten", &[x])?;
        let width = item_volume("flatten", x)?.unwrap_or(usize::MAX);
        let made = Made::of(batch_of(&[width]), x.element).with(AttributeProto::int("axis", 1));
        Ok(self.push("Flatten", &[&x.name], made))
    }

    /// Puts values one after the other along `axis`; all other axes must agree.
    pub fn concat(&mut self, parts: &[&Tensor], axis: usize) -> Result<Tensor, Error> {
        self.known("concat", parts)?;
        let Some(first) = parts.first() else {
            return Err(setting("concat", "at least one part", 0));
        };
        let mut total = 0;
        for part in parts {
            check_element("concat", Elements::Only(first.element), part)?;
            total += size_of("concat", part, axis)?;
            check_equal_but(axis, first, part)?;
        }
        let mut shape = first.shape.clone();
        shape[axis] = Dim::Fixed(total);
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        let made = Made::of(shape, first.element).with(AttributeProto::int("axis", as_int(axis)));
        Ok(self.push("Concat", &names, made))
    }

    /// Places `start..end` of `axis`.
    pub fn slice(
        &mut self,
        x: &Tensor,
        axis: usize,
        range: std::ops::Range<usize>,
    ) -> Result<Tensor, Error> {
        self.known("slice", &[x])?;
        let size = size_of("slice", x, axis)?;
        let (start, end) = (range.start, range.end);
        if start >= end || end > size {
            return Err(Error::graph(format!(
                "slice: wanted a range within 0..{size}, found {start}..{end}"
            )));
        }
        let starts = self.list("start", &[as_int(start)]);
        let ends = self.list("end", &[as_int(end)]);
        let axes = self.list("axis", &[as_int(axis)]);
        let mut shape = x.shape.clone();
        shape[axis] = Dim::Fixed(end - start);
        let made = Made::of(shape, x.element);
        Ok(self.push("Slice", &[&x.name, &starts, &ends, &axes], made))
    }

    /// The places of `axis` from the last to the first.
    pub fn mirrored(&mut self, x: &Tensor, axis: usize) -> Result<Tensor, Error> {
        self.known("mirrored", &[x])?;
        size_of("mirrored", x, axis)?;
        let starts = self.list("start", &[-1]);
        let ends = self.list("end", &[i64::MIN]);
        let axes = self.list("axis", &[as_int(axis)]);
        let steps = self.list("step", &[-1]);
        let made = Made::of(x.shape.clone(), x.element);
        Ok(self.push("Slice", &[&x.name, &starts, &ends, &axes, &steps], made))
    }

    /// Batches of one size as a single one, one after the other; see [`mean_of_stacked`](Self::mean_of_stacked).
    pub fn stacked(&mut self, parts: &[&Tensor]) -> Result<Tensor, Error> {
        self.known("stacked", parts)?;
        let Some(first) = parts.first() else {
            return Err(setting("stacked", "at least one batch", 0));
        };
        for part in parts {
            check_element("stacked", Elements::Only(first.element), part)?;
            item_volume("stacked", part)?;
            check_equal_but(0, first, part)?;
        }
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        let made =
            Made::of(first.shape.clone(), first.element).with(AttributeProto::int("axis", 0));
        Ok(self.push("Concat", &names, made))
    }

    /// The mean over as many batches as were [`stacked`](Self::stacked).
    pub fn mean_of_stacked(&mut self, x: &Tensor, count: usize) -> Result<Tensor, Error> {
        self.known("mean_of_stacked", &[x])?;
        check_element("mean_of_stacked", F32, x)?;
        let width = item_volume("mean_of_stacked", x)?.unwrap_or(usize::MAX);
        let apart = self.list("shape", &[as_int(count), -1, as_int(width)]);
        let apart = self.push(
            "Reshape",
            &[&x.name, &apart],
            Made::of(x.shape.clone(), x.element),
        );
        let axes = self.list("axis", &[0]);
        let made = Made::of(batch_of(&[width]), x.element).with(AttributeProto::int("keepdims", 0));
        Ok(self.push("ReduceMean", &[&apart.name, &axes], made))
    }

    /// Rows of `table`, picked by whole numbers; the runtime refuses a number past the last row.
    pub fn gather(&mut self, table: &Tensor, index: &Tensor) -> Result<Tensor, Error> {
        self.known("gather", &[table, index])?;
        check_element("gather", Elements::Only(Element::I64), index)?;
        size_of("gather", table, 0)?;
        let shape = index.shape.iter().chain(&table.shape[1..]).copied();
        let made = Made::of(shape.collect(), table.element).with(AttributeProto::int("axis", 0));
        Ok(self.push("Gather", &[&table.name, &index.name], made))
    }

    /// Drops an axis of size 1.
    pub fn squeeze(&mut self, x: &Tensor, axis: usize) -> Result<Tensor, Error> {
        self.known("squeeze", &[x])?;
        let size = size_of("squeeze", x, axis)?;
        if size != 1 {
            return Err(setting("squeeze", "an axis of size 1", size));
        }
        let axes = self.list("axis", &[as_int(axis)]);
        let made = Made::of(reduced(x, axis, Reduced::Dropped), x.element);
        Ok(self.push("Squeeze", &[&x.name, &axes], made))
    }

    /// The largest value along `axis`.
    pub fn reduce_max(&mut self, x: &Tensor, axis: usize, after: Reduced) -> Result<Tensor, Error> {
        self.reduce(("reduce_max", "ReduceMax"), x, axis, after)
    }

    /// The sum along `axis`.
    pub fn reduce_sum(&mut self, x: &Tensor, axis: usize, after: Reduced) -> Result<Tensor, Error> {
        self.reduce(("reduce_sum", "ReduceSum"), x, axis, after)
    }

    /// The mean along `axis`.
    pub fn reduce_mean(
        &mut self,
        x: &Tensor,
        axis: usize,
        after: Reduced,
    ) -> Result<Tensor, Error> {
        self.reduce(("reduce_mean", "ReduceMean"), x, axis, after)
    }

    /// `e^x`, divided by its sum along `axis`.
    pub fn softmax(&mut self, x: &Tensor, axis: usize) -> Result<Tensor, Error> {
        self.along(("softmax", "Softmax"), x, axis)
    }

    /// Logarithm of [`softmax`](Self::softmax).
    pub fn log_softmax(&mut self, x: &Tensor, axis: usize) -> Result<Tensor, Error> {
        self.along(("log_softmax", "LogSoftmax"), x, axis)
    }

    /// `log Σ e^x` along `axis`, without overflow; `-∞` where every value is `-∞`.
    pub fn log_sum_exp(
        &mut self,
        x: &Tensor,
        axis: usize,
        after: Reduced,
    ) -> Result<Tensor, Error> {
        let largest = self.reduce_max(x, axis, Reduced::Kept)?;
        // −∞ − (−∞) is not a number, so the value taken off is finite.
        let lowest = self.scalar(f32::MIN);
        let largest = self.maximum(&largest, &lowest)?;
        let shifted = self.sub(x, &largest)?;
        let shifted = self.exp(&shifted)?;
        let sum = self.reduce_sum(&shifted, axis, Reduced::Kept)?;
        let log = self.log(&sum)?;
        let log = self.add(&log, &largest)?;
        match after {
            Reduced::Kept => Ok(log),
            Reduced::Dropped => self.squeeze(&log, axis),
        }
    }

    fn reduce(
        &mut self,
        (op, op_type): (&'static str, &str),
        x: &Tensor,
        axis: usize,
        after: Reduced,
    ) -> Result<Tensor, Error> {
        self.known(op, &[x])?;
        check_element(op, F32, x)?;
        size_of(op, x, axis)?;
        let axes = self.list("axis", &[as_int(axis)]);
        let keepdims = i64::from(after == Reduced::Kept);
        let made =
            Made::f32(reduced(x, axis, after)).with(AttributeProto::int("keepdims", keepdims));
        Ok(self.push(op_type, &[&x.name, &axes], made))
    }

    fn along(
        &mut self,
        (op, op_type): (&'static str, &str),
        x: &Tensor,
        axis: usize,
    ) -> Result<Tensor, Error> {
        self.known(op, &[x])?;
        check_element(op, F32, x)?;
        size_of(op, x, axis)?;
        let made = Made::f32(x.shape.clone()).with(AttributeProto::int("axis", as_int(axis)));
        Ok(self.push(op_type, &[&x.name], made))
    }
}

/// Size of an axis that an operator mixes or cuts; never the batch, whose items stay apart.
fn size_of(op: &'static str, x: &Tensor, axis: usize) -> Result<usize, Error> {
    let shape = &x.shape;
    match shape.get(axis) {
        Some(Dim::Fixed(size)) => Ok(*size),
        Some(Dim::Batch) => Err(Error::graph(format!(
            "{op}: wanted an axis of fixed size, found axis {axis}, the batch, of {}",
            Shown(shape)
        ))),
        None => Err(Error::graph(format!(
            "{op}: wanted an axis below {}, found {axis} for {}",
            shape.len(),
            Shown(shape)
        ))),
    }
}

/// Values in one item; `Ok(None)` is a number too large to count.
fn item_volume(op: &'static str, x: &Tensor) -> Result<Option<usize>, Error> {
    let items = || -> Option<Vec<usize>> {
        let (Dim::Batch, rest) = x.shape.split_first()? else {
            return None;
        };
        let size = |dim: &Dim| match dim {
            Dim::Batch => None,
            Dim::Fixed(size) => Some(*size),
        };
        rest.iter().map(size).collect()
    };
    let items = items().ok_or_else(|| rank(op, "a batch first and fixed", x))?;
    Ok(volume(&items))
}

fn batch_of(item: &[usize]) -> Vec<Dim> {
    let items = item.iter().map(|&d| Dim::Fixed(d));
    std::iter::once(Dim::Batch).chain(items).collect()
}

fn reduced(x: &Tensor, axis: usize, after: Reduced) -> Vec<Dim> {
    let mut shape = x.shape.clone();
    match after {
        Reduced::Kept => shape[axis] = Dim::Fixed(1),
        Reduced::Dropped => {
            shape.remove(axis);
        }
    }
    shape
}

fn check_equal_but(axis: usize, first: &Tensor, part: &Tensor) -> Result<(), Error> {
    let mut wanted: Vec<Option<Dim>> = first.shape.iter().copied().map(Some).collect();
    wanted[axis] = None;
    super::layers::check_shape("concat", "each part", (&wanted, part))
}

#[cfg(test)]
mod tests {
    use super::super::Dim::{Batch, Fixed};
    use super::*;

    fn graph_and_input(item: &[usize]) -> (GraphBuilder, Tensor) {
        let mut graph = GraphBuilder::new("toy");
        let x = graph.input("x", item, Element::F32).unwrap();
        (graph, x)
    }

    #[test]
    fn the_batch_axis_is_never_mixed() {
        let (mut graph, x) = graph_and_input(&[3]);
        let failure = graph.softmax(&x, 0).unwrap_err();
        assert_eq!(
            failure.to_string(),
            "softmax: wanted an axis of fixed size, found axis 0, the batch, of [n, 3]"
        );
        assert!(graph.reduce_sum(&x, 0, Reduced::Kept).is_err());
        assert!(graph.slice(&x, 0, 0..1).is_err());
        assert!(graph.concat(&[&x, &x], 0).is_err());
    }

    #[test]
    fn an_axis_past_the_last_is_refused() {
        let (mut graph, x) = graph_and_input(&[3]);
        let failure = graph.reduce_max(&x, 2, Reduced::Kept).unwrap_err();
        assert_eq!(
            failure.to_string(),
            "reduce_max: wanted an axis below 2, found 2 for [n, 3]"
        );
    }

    #[test]
    fn transpose_wants_every_axis_once() {
        let (mut graph, x) = graph_and_input(&[3, 4]);
        let y = graph.transpose(&x, &[0, 2, 1]).unwrap();
        assert_eq!(y.shape, [Batch, Fixed(4), Fixed(3)]);
        assert_eq!(
            graph.transpose(&x, &[0, 1, 1]).unwrap_err().to_string(),
            "transpose: wanted a permutation of the axes of [n, 3, 4], found [0, 1, 1]"
        );
        assert!(graph.transpose(&x, &[0, 1]).is_err());
        assert!(graph.transpose(&x, &[0, 1, 9]).is_err());
    }

    #[test]
    fn reshape_and_flatten_keep_the_number_of_values() {
        let (mut graph, x) = graph_and_input(&[3, 4]);
        let y = graph.reshape(&x, &[2, 6]).unwrap();
        assert_eq!(y.shape, [Batch, Fixed(2), Fixed(6)]);
        assert_eq!(graph.flatten(&x).unwrap().shape, [Batch, Fixed(12)]);
        assert_eq!(
            graph.reshape(&x, &[2, 5]).unwrap_err().to_string(),
            "reshape: wanted items that fill [2, 5], found [n, 3, 4]"
        );
        let w = graph.constant("w", &[2, 6], &[0.0; 12]).unwrap();
        assert_eq!(
            graph.reshape(&w, &[12]).unwrap_err().to_string(),
            "reshape: wanted a batch first and fixed axes, found 2 in [2, 6]"
        );
    }

    #[test]
    fn concat_adds_sizes_and_wants_the_rest_equal() {
        let (mut graph, x) = graph_and_input(&[3, 4]);
        let y = graph.input("y", &[3, 5], Element::F32).unwrap();
        let z = graph.concat(&[&x, &y], 2).unwrap();
        assert_eq!(z.shape, [Batch, Fixed(3), Fixed(9)]);
        assert_eq!(
            graph.concat(&[&x, &y], 1).unwrap_err().to_string(),
            "concat: wanted each part of shape [n, _, 4], found [n, 3, 5]"
        );
        assert_eq!(
            graph.concat(&[], 1).unwrap_err().to_string(),
            "concat: wanted at least one part, found 0"
        );
        let flat = graph.flatten(&x).unwrap();
        assert!(graph.concat(&[&x, &flat], 1).is_err());
    }

    #[test]
    fn batches_are_stacked_and_meant() {
        let (mut graph, x) = graph_and_input(&[3, 4]);
        let other = graph.mirrored(&x, 2).unwrap();
        assert_eq!(other.shape, x.shape);
        let both = graph.stacked(&[&x, &other]).unwrap();
        let flat = graph.flatten(&both).unwrap();
        let mean = graph.mean_of_stacked(&flat, 2).unwrap();
        assert_eq!(mean.shape, [Batch, Fixed(12)]);
        assert!(graph.mirrored(&x, 0).is_err());
        assert!(graph.stacked(&[]).is_err());
        assert!(graph.stacked(&[&x, &flat]).is_err());
    }

    #[test]
    fn slice_stays_inside_the_axis() {
        let (mut graph, x) = graph_and_input(&[3]);
        assert_eq!(graph.slice(&x, 1, 1..3).unwrap().shape, [Batch, Fixed(2)]);
        assert_eq!(
            graph.slice(&x, 1, 1..4).unwrap_err().to_string(),
            "slice: wanted a range within 0..3, found 1..4"
        );
        assert!(graph.slice(&x, 1, 2..2).is_err());
    }

    #[test]
    fn gather_replaces_each_index_by_a_row() {
        let (mut graph, x) = graph_and_input(&[3]);
        let class = graph.input("class", &[], Element::I64).unwrap();
        let table = graph.constant("table", &[10, 8], &[0.0; 80]).unwrap();
        let rows = graph.gather(&table, &class).unwrap();
        assert_eq!(rows.shape, [Batch, Fixed(8)]);
        assert!(graph.gather(&table, &x).is_err());
        assert!(graph.gather(&x, &class).is_err());
    }

    #[test]
    fn squeeze_wants_an_axis_of_size_one() {
        let (mut graph, x) = graph_and_input(&[3]);
        assert_eq!(
            graph.squeeze(&x, 1).unwrap_err().to_string(),
            "squeeze: wanted an axis of size 1, found 3"
        );
        let sum = graph.reduce_sum(&x, 1, Reduced::Kept).unwrap();
        assert_eq!(sum.shape, [Batch, Fixed(1)]);
        assert_eq!(graph.squeeze(&sum, 1).unwrap().shape, [Batch]);
    }
}
