//! Layers of networks: matrix products, convolutions, normalisation, pooling, resizing.
//!
//! Pictures are `[n, channels, height, width]`. Windows are square, with the same stride and the
//! same padding on all sides.

use super::super::proto::{AttributeProto, TensorProto, as_int};
use super::{
    Dim, Element, Elements, GraphBuilder, Made, Shown, Tensor, Wanted, broadcast, check_element,
    rank, setting,
};

use crate::error::Error;

const F32: Elements = Elements::Only(Element::F32);

/// A convolution; `weight` is `[out, in / groups, height, width]`, `bias` is `[out]`.
#[derive(Debug, Clone, Copy)]
pub struct Conv2d<'a> {
    /// Weights.
    pub weight: &'a Tensor,
    /// What is added to each channel.
    pub bias: Option<&'a Tensor>,
    /// Steps between places.
    pub stride: usize,
    /// Zeros around each side.
    pub pad: usize,
    /// Groups of channels.
    pub groups: usize,
}

/// A transposed convolution; `weight` is `[in, out, height, width]`, `bias` is `[out]`.
///
/// The result is `(in − 1) · stride − 2 · pad + kernel + output_pad` wide.
#[derive(Debug, Clone, Copy)]
pub struct ConvTranspose2d<'a> {
    /// Weights.
    pub weight: &'a Tensor,
    /// What is added to each channel.
    pub bias: Option<&'a Tensor>,
    /// Steps between places.
    pub stride: usize,
    /// Zeros around each side.
    pub pad: usize,
    /// What is added to the size of the result.
    pub output_pad: usize,
}

/// Normalisation of groups of channels; scale and bias are `[channels]`.
#[derive(Debug, Clone, Copy)]
pub struct GroupNorm<'a> {
    /// How many groups; channels that follow each other make one.
    pub groups: usize,
    /// Factor of each channel.
    pub scale: &'a Tensor,
    /// What is added to each channel.
    pub bias: &'a Tensor,
    /// Added to the variance.
    pub epsilon: f32,
}

/// Batch normalisation as it is after training; all four tensors are `[channels]`.
#[derive(Debug, Clone, Copy)]
pub struct BatchNorm<'a> {
    /// Factor of each channel.
    pub scale: &'a Tensor,
    /// What is added to each channel.
    pub bias: &'a Tensor,
    /// Mean of each channel.
    pub mean: &'a Tensor,
    /// Variance of each channel.
    pub var: &'a Tensor,
    /// Added to the variance.
    pub epsilon: f32,
}

impl GraphBuilder {
    /// `x · weightᵀ + bias` with `weight` of shape `[out, in]`.
    pub fn linear(&mut self, x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor, Error> {
        self.floats("linear", &[x, weight, bias])?;
        let [batch, width] = axes_of("linear", "2", x)?;
        let [out, _] = axes_of("linear", "2", weight)?;
        check_shape("linear", "weight", (&[None, Some(width)], weight))?;
        check_shape("linear", "bias", (&[Some(out)], bias))?;
        let made = Made::f32(vec![batch, out]).with(AttributeProto::int("transB", 1));
        Ok(self.push("Gemm", &[&x.name, &weight.name, &bias.name], made))
    }

    /// Matrix product over the last two axes; the axes before them broadcast.
    pub fn matmul(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
        self.floats("matmul", &[a, b])?;
        let (left, [rows, inner]) = last_two(a)?;
        let (right, [_, columns]) = last_two(b)?;
        let mut wanted = vec![None; b.shape.len()];
        wanted[right.len()] = Some(inner);
        check_shape("matmul", "the second factor", (&wanted, b))?;
        let mut shape = broadcast("matmul", left, right)?;
        shape.extend([rows, columns]);
        Ok(self.push("MatMul", &[&a.name, &b.name], Made::f32(shape)))
    }

    /// Convolution of pictures.
    pub fn conv2d(&mut self, x: &Tensor, conv: &Conv2d<'_>) -> Result<Tensor, Error> {
        let op = "conv2d";
        self.floats(op, &[x, conv.weight])?;
        at_least_one(op, "groups of at least 1", conv.groups)?;
        let [batch, channels, height, width] = axes_of(op, "4", x)?;
        let [out, _, kh, kw] = axes_of(op, "4", conv.weight)?;
        divides(
            op,
            "channels that the groups divide",
            (conv.groups, channels),
        )?;
        divides(op, "outputs that the groups divide", (conv.groups, out))?;
        let per_group = channels.map(|c| c / conv.groups);
        check_shape(
            op,
            "weight",
            (&[None, Some(per_group), None, None], conv.weight),
        )?;
        let step = (conv.stride, conv.pad);
        let height = windows(op, (height, kh), step)?;
        let width = windows(op, (width, kw), step)?;
        let made = Made::f32(vec![batch, out, height, width])
            .with(AttributeProto::ints(
                "strides",
                vec![as_int(conv.stride); 2],
            ))
            .with(AttributeProto::ints("pads", vec![as_int(conv.pad); 4]))
            .with(AttributeProto::int("group", as_int(conv.groups)));
        self.weighted((op, "Conv"), x, (conv.weight, conv.bias), made)
    }

    /// Transposed convolution of pictures.
    pub fn conv_transpose2d(
        &mut self,
        x: &Tensor,
        conv: &ConvTranspose2d<'_>,
    ) -> Result<Tensor, Error> {
        let op = "conv_transpose2d";
        self.floats(op, &[x, conv.weight])?;
        at_least_one(op, "a stride of at least 1", conv.stride)?;
        if conv.output_pad >= conv.stride {
            let (wanted, found) = ("an output padding below the stride", conv.output_pad);
            return Err(setting(op, wanted, found));
        }
        let [batch, channels, height, width] = axes_of(op, "4", x)?;
        let [_, out, kh, kw] = axes_of(op, "4", conv.weight)?;
        check_shape(
            op,
            "weight",
            (&[Some(channels), None, None, None], conv.weight),
        )?;
        let height = spread(op, (height, kh), conv)?;
        let width = spread(op, (width, kw), conv)?;
        let made = Made::f32(vec![batch, out, height, width])
            .with(AttributeProto::ints(
                "strides",
                vec![as_int(conv.stride); 2],
            ))
            .with(AttributeProto::ints("pads", vec![as_int(conv.pad); 4]))
            .with(AttributeProto::ints(
                "output_padding",
                vec![as_int(conv.output_pad); 2],
            ));
        self.weighted((op, "ConvTranspose"), x, (conv.weight, conv.bias), made)
    }

    /// `(x − mean) / sqrt(var + epsilon) · scale + bias`, channel by channel (axis 1).
    pub fn batch_norm(&mut self, x: &Tensor, norm: &BatchNorm<'_>) -> Result<Tensor, Error> {
        let op = "batch_norm";
        let BatchNorm {
            scale,
            bias,
            mean,
            var,
            epsilon,
        } = *norm;
        self.floats(op, &[x, scale, bias, mean, var])?;
        let Some(&channels) = x.shape.get(1) else {
            return Err(rank(op, "at least 2", x));
        };
        let inputs = [
            ("scale", scale),
            ("bias", bias),
            ("mean", mean),
            ("var", var),
        ];
        for (input, tensor) in inputs {
            check_shape(op, input, (&[Some(channels)], tensor))?;
        }
        let made = Made::f32(x.shape.clone()).with(AttributeProto::float("epsilon", epsilon));
        let names = [&x.name, &scale.name, &bias.name, &mean.name, &var.name];
        Ok(self.push("BatchNormalization", &names.map(String::as_str), made))
    }

    /// Norm of groups of channels: those of a group have mean 0 and variance 1 over all their pixels, then each channel
    /// has a factor and a number of its own.
    pub fn group_norm(&mut self, x: &Tensor, norm: &GroupNorm<'_>) -> Result<Tensor, Error> {
        let op = "group_norm";
        self.floats(op, &[x, norm.scale, norm.bias])?;
        let [_, channels, height, width] = axes_of(op, "4", x)?;
        let [Dim::Fixed(channels), Dim::Fixed(height), Dim::Fixed(width)] =
            [channels, height, width]
        else {
            return Err(rank(op, "three fixed", x));
        };
        if norm.groups == 0 || !channels.is_multiple_of(norm.groups) {
            return Err(setting(op, "groups that channels divide into", norm.groups));
        }
        let own = Dim::Fixed(channels);
        for (input, tensor) in [("scale", norm.scale), ("bias", norm.bias)] {
            check_shape(op, input, (&[Some(own)], tensor))?;
        }
        let rows = [norm.groups, channels / norm.groups * height * width];
        let grouped = self.reshape(x, &rows)?;
        let [ones, zeros] = [1.0, 0.0].map(|value| {
            let name = self.fresh("groups");
            let values = vec![value; norm.groups];
            let tensor = TensorProto::f32(&name, &[norm.groups], &values);
            self.graph.initializer.push(tensor);
            name
        });
        let made =
            Made::f32(grouped.shape.clone()).with(AttributeProto::float("epsilon", norm.epsilon));
        let names = [grouped.name.as_str(), &ones, &zeros];
        let normed = self.push("InstanceNormalization", &names, made);
        let normed = self.reshape(&normed, &[channels, height, width])?;
        let mut each = |tensor: &Tensor| {
            let shape = self.list("shape", &[as_int(channels), 1, 1]);
            let made = Made::f32(super::fixed(&[channels, 1, 1]));
            self.push("Reshape", &[&tensor.name, &shape], made)
        };
        let (scale, bias) = (each(norm.scale), each(norm.bias));
        let scaled = self.mul(&normed, &scale)?;
        self.add(&scaled, &bias)
    }

    /// The largest value of each `kernel` × `kernel` window, without padding.
    pub fn max_pool(&mut self, x: &Tensor, kernel: usize, stride: usize) -> Result<Tensor, Error> {
        self.pool(("max_pool", "MaxPool"), x, (kernel, stride))
    }

    /// The mean of each `kernel` × `kernel` window, without padding.
    pub fn avg_pool(&mut self, x: &Tensor, kernel: usize, stride: usize) -> Result<Tensor, Error> {
        self.pool(("avg_pool", "AveragePool"), x, (kernel, stride))
    }

    /// The mean of each channel, as a picture of one pixel.
    pub fn global_avg_pool(&mut self, x: &Tensor) -> Result<Tensor, Error> {
        self.floats("global_avg_pool", &[x])?;
        let [batch, channels, _, _] = axes_of("global_avg_pool", "4", x)?;
        let made = Made::f32(vec![batch, channels, Dim::Fixed(1), Dim::Fixed(1)]);
        Ok(self.push("GlobalAveragePool", &[&x.name], made))
    }

    /// Pictures of twice the height and width; each pixel becomes four equal ones.
    pub fn resize_nearest_2x(&mut self, x: &Tensor) -> Result<Tensor, Error> {
        self.floats("resize_nearest_2x", &[x])?;
        let [batch, channels, height, width] = axes_of("resize_nearest_2x", "4", x)?;
        let scales = self.fresh("scales");
        let factors = TensorProto::f32(&scales, &[4], &[1.0, 1.0, 2.0, 2.0]);
        self.graph.initializer.push(factors);
        let double = |dim: Dim| dim.map(|size| 2 * size);
        let made = Made::f32(vec![batch, channels, double(height), double(width)])
            .with(AttributeProto::string("mode", "nearest"))
            .with(AttributeProto::string(
                "coordinate_transformation_mode",
                "asymmetric",
            ))
            .with(AttributeProto::string("nearest_mode", "floor"));
        // The second input is the region of interest, which this mode does not read.
        Ok(self.push("Resize", &[&x.name, "", &scales], made))
    }

    fn pool(
        &mut self,
        (op, op_type): (&'static str, &str),
        x: &Tensor,
        (kernel, stride): (usize, usize),
    ) -> Result<Tensor, Error> {
        self.floats(op, &[x])?;
        let [batch, channels, height, width] = axes_of(op, "4", x)?;
        let size = Dim::Fixed(kernel);
        let height = windows(op, (height, size), (stride, 0))?;
        let width = windows(op, (width, size), (stride, 0))?;
        let made = Made::f32(vec![batch, channels, height, width])
            .with(AttributeProto::ints(
                "kernel_shape",
                vec![as_int(kernel); 2],
            ))
            .with(AttributeProto::ints("strides", vec![as_int(stride); 2]));
        Ok(self.push(op_type, &[&x.name], made))
    }

    /// Adds a node of a weight and, maybe, a bias of one value per output channel.
    fn weighted(
        &mut self,
        (op, op_type): (&'static str, &str),
        x: &Tensor,
        (weight, bias): (&Tensor, Option<&Tensor>),
        made: Made,
    ) -> Result<Tensor, Error> {
        let mut names = vec![x.name.as_str(), &weight.name];
        if let Some(bias) = bias {
            self.floats(op, &[bias])?;
            check_shape(op, "bias", (&[Some(made.shape[1])], bias))?;
            names.push(&bias.name);
        }
        Ok(self.push(op_type, &names, made))
    }

    fn floats(&self, op: &'static str, inputs: &[&Tensor]) -> Result<(), Error> {
        self.known(op, inputs)?;
        inputs.iter().try_for_each(|x| check_element(op, F32, x))
    }
}

impl Dim {
    /// The same axis with its fixed size changed; the batch stays the batch.
    fn map(self, change: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::Batch => Self::Batch,
            Self::Fixed(size) => Self::Fixed(change(size)),
        }
    }
}

/// Checks a whole shape, where `None` is any size.
pub(super) fn check_shape(
    op: &'static str,
    input: &'static str,
    (wanted, x): (&[Option<Dim>], &Tensor),
) -> Result<(), Error> {
    let fits = |(wanted, found): (&Option<Dim>, &Dim)| wanted.is_none_or(|w| w == *found);
    if wanted.len() == x.shape.len() && wanted.iter().zip(&x.shape).all(fits) {
        return Ok(());
    }
    Err(Error::graph(format!(
        "{op}: wanted {input} of shape {}, found {}",
        Wanted(wanted),
        Shown(&x.shape)
    )))
}

fn axes_of<const N: usize>(
    op: &'static str,
    wanted: &'static str,
    x: &Tensor,
) -> Result<[Dim; N], Error> {
    <[Dim; N]>::try_from(x.shape.as_slice()).map_err(|_| rank(op, wanted, x))
}

fn last_two(x: &Tensor) -> Result<(&[Dim], [Dim; 2]), Error> {
    let split = x.shape.split_last_chunk::<2>();
    let (rest, last) = split.ok_or_else(|| rank("matmul", "at least 2", x))?;
    Ok((rest, *last))
}

fn at_least_one(op: &'static str, wanted: &'static str, found: usize) -> Result<(), Error> {
    if found == 0 {
        return Err(setting(op, wanted, found));
    }
    Ok(())
}

fn divides(
    op: &'static str,
    wanted: &'static str,
    (groups, channels): (usize, Dim),
) -> Result<(), Error> {
    match channels {
        Dim::Fixed(found) if !found.is_multiple_of(groups) => Err(setting(op, wanted, found)),
        _ => Ok(()),
    }
}

/// How many windows fit along one axis: `(size + 2 · pad − kernel) / stride + 1`.
fn windows(
    op: &'static str,
    (size, kernel): (Dim, Dim),
    (stride, pad): (usize, usize),
) -> Result<Dim, Error> {
    at_least_one(op, "a stride of at least 1", stride)?;
    let (size, kernel) = (fixed_size(op, size)?, fixed_size(op, kernel)?);
    at_least_one(op, "a kernel of at least 1", kernel)?;
    match (size + 2 * pad).checked_sub(kernel) {
        Some(room) => Ok(Dim::Fixed(room / stride + 1)),
        None => Err(too_large(op, kernel)),
    }
}

/// Size of one axis after a transposed convolution.
fn spread(
    op: &'static str,
    (size, kernel): (Dim, Dim),
    conv: &ConvTranspose2d<'_>,
) -> Result<Dim, Error> {
    let (size, kernel) = (fixed_size(op, size)?, fixed_size(op, kernel)?);
    at_least_one(op, "images of at least 1 pixel", size)?;
    let full = (size - 1) * conv.stride + kernel + conv.output_pad;
    match full.checked_sub(2 * conv.pad) {
        Some(left) if left > 0 => Ok(Dim::Fixed(left)),
        _ => Err(setting(op, "a padding that leaves some image", conv.pad)),
    }
}

fn fixed_size(op: &'static str, dim: Dim) -> Result<usize, Error> {
    match dim {
        Dim::Fixed(size) => Ok(size),
        Dim::Batch => Err(setting(op, "one batch axis, the first", 2)),
    }
}

fn too_large(op: &'static str, kernel: usize) -> Error {
    setting(op, "a kernel within the padded image", kernel)
}

#[cfg(test)]
mod tests {
    use super::super::Dim::{Batch, Fixed};
    use super::*;
    use crate::judge::Judge;
    use crate::networks::RunSettings;
    use crate::runtime::Runtime;

    fn graph_and_input(item: &[usize]) -> (GraphBuilder, Tensor) {
        let mut graph = GraphBuilder::new("toy");
        let x = graph.input("x", item, Element::F32).unwrap();
        (graph, x)
    }

    fn zeros(graph: &mut GraphBuilder, name: &str, dims: &[usize]) -> Tensor {
        let values = vec![0.0; dims.iter().product()];
        graph.constant(name, dims, &values).unwrap()
    }

    #[test]
    fn linear_says_which_input_does_not_fit() {
        let (mut graph, x) = graph_and_input(&[4]);
        let w = zeros(&mut graph, "w", &[5, 3]);
        let b = zeros(&mut graph, "b", &[5]);
        assert_eq!(
            graph.linear(&x, &w, &b).unwrap_err().to_string(),
            "linear: wanted weight of shape [_, 4], found [5, 3]"
        );
        let w = zeros(&mut graph, "w4", &[5, 4]);
        assert_eq!(
            graph.linear(&x, &w, &w).unwrap_err().to_string(),
            "linear: wanted bias of shape [5], found [5, 4]"
        );
        assert_eq!(graph.linear(&x, &w, &b).unwrap().shape, [Batch, Fixed(5)]);
        assert_eq!(
            graph.linear(&b, &w, &b).unwrap_err().to_string(),
            "linear: wanted 2 axes, found 1 in [5]"
        );
    }

    #[test]
    fn matmul_broadcasts_what_is_left_of_the_matrices() {
        let (mut graph, x) = graph_and_input(&[2, 3]);
        let w = zeros(&mut graph, "w", &[3, 5]);
        let y = graph.matmul(&x, &w).unwrap();
        assert_eq!(y.shape, [Batch, Fixed(2), Fixed(5)]);
        assert_eq!(
            graph.matmul(&x, &x).unwrap_err().to_string(),
            "matmul: wanted the second factor of shape [_, 3, _], found [n, 2, 3]"
        );
        let b = zeros(&mut graph, "b", &[3]);
        assert_eq!(
            graph.matmul(&x, &b).unwrap_err().to_string(),
            "matmul: wanted at least 2 axes, found 1 in [3]"
        );
    }

    #[test]
    fn conv2d_counts_windows_and_groups() {
        let (mut graph, x) = graph_and_input(&[4, 9, 8]);
        let weight = zeros(&mut graph, "w", &[6, 2, 3, 3]);
        let conv = |groups, stride| Conv2d {
            weight: &weight,
            bias: None,
            stride,
            pad: 1,
            groups,
        };
        let y = graph.conv2d(&x, &conv(2, 2)).unwrap();
        assert_eq!(y.shape, [Batch, Fixed(6), Fixed(5), Fixed(4)]);
        let failures = [
            (
                conv(1, 2),
                "wanted weight of shape [_, 4, _, _], found [6, 2, 3, 3]",
            ),
            (conv(0, 2), "wanted groups of at least 1, found 0"),
            (
                conv(3, 2),
                "wanted channels that the groups divide, found 4",
            ),
            (conv(4, 2), "wanted outputs that the groups divide, found 6"),
            (conv(2, 0), "wanted a stride of at least 1, found 0"),
        ];
        for (conv, message) in failures {
            let failure = graph.conv2d(&x, &conv).unwrap_err();
            assert_eq!(failure.to_string(), format!("conv2d: {message}"));
        }
        let biased = Conv2d {
            bias: Some(&weight),
            ..conv(2, 1)
        };
        assert_eq!(
            graph.conv2d(&x, &biased).unwrap_err().to_string(),
            "conv2d: wanted bias of shape [6], found [6, 2, 3, 3]"
        );
    }

    #[test]
    fn a_transposed_convolution_undoes_the_size_of_a_convolution() {
        let (mut graph, x) = graph_and_input(&[4, 7, 7]);
        let weight = zeros(&mut graph, "w", &[4, 2, 4, 4]);
        let conv = ConvTranspose2d {
            weight: &weight,
            bias: None,
            stride: 2,
            pad: 1,
            output_pad: 0,
        };
        let y = graph.conv_transpose2d(&x, &conv).unwrap();
        assert_eq!(y.shape, [Batch, Fixed(2), Fixed(14), Fixed(14)]);
        let failures = [
            (
                ConvTranspose2d {
                    output_pad: 2,
                    ..conv
                },
                "an output padding below the stride, found 2",
            ),
            (
                ConvTranspose2d { pad: 8, ..conv },
                "a padding that leaves some image, found 8",
            ),
            (
                ConvTranspose2d { stride: 0, ..conv },
                "a stride of at least 1, found 0",
            ),
        ];
        for (conv, message) in failures {
            let failure = graph.conv_transpose2d(&x, &conv).unwrap_err();
            assert_eq!(
                failure.to_string(),
                format!("conv_transpose2d: wanted {message}")
            );
        }
    }

    #[test]
    fn batch_norm_wants_one_number_per_channel() {
        let (mut graph, x) = graph_and_input(&[3, 8, 8]);
        let good = zeros(&mut graph, "good", &[3]);
        let bad = zeros(&mut graph, "bad", &[8]);
        let norm = BatchNorm {
            scale: &good,
            bias: &good,
            mean: &good,
            var: &good,
            epsilon: 1e-5,
        };
        assert_eq!(graph.batch_norm(&x, &norm).unwrap().shape, x.shape);
        let norm = BatchNorm { mean: &bad, ..norm };
        assert_eq!(
            graph.batch_norm(&x, &norm).unwrap_err().to_string(),
            "batch_norm: wanted mean of shape [3], found [8]"
        );
    }

    #[test]
    fn pools_shrink_and_resize_doubles() {
        let (mut graph, x) = graph_and_input(&[3, 7, 8]);
        let pooled = graph.max_pool(&x, 2, 2).unwrap();
        assert_eq!(pooled.shape, [Batch, Fixed(3), Fixed(3), Fixed(4)]);
        let mean = graph.global_avg_pool(&x).unwrap();
        assert_eq!(mean.shape, [Batch, Fixed(3), Fixed(1), Fixed(1)]);
        let large = graph.resize_nearest_2x(&x).unwrap();
        assert_eq!(large.shape, [Batch, Fixed(3), Fixed(14), Fixed(16)]);
        assert_eq!(
            graph.avg_pool(&x, 9, 1).unwrap_err().to_string(),
            "avg_pool: wanted a kernel within the padded image, found 9"
        );
        assert!(graph.max_pool(&x, 0, 1).is_err());
    }

    fn norm_of(groups: usize) -> Result<Vec<u8>, Error> {
        let mut g = GraphBuilder::new("norm");
        let x = g.input("x", &[4, 1, 2], Element::F32)?;
        let scale = g.constant("scale", &[4], &[1.0, 2.0, 3.0, -1.0])?;
        let bias = g.constant("bias", &[4], &[0.0, 0.5, 0.0, 1.0])?;
        let norm = GroupNorm {
            groups,
            scale: &scale,
            bias: &bias,
            epsilon: 0.0,
        };
        let y = g.group_norm(&x, &norm)?;
        let y = g.flatten(&y)?;
        g.output(&y, "y")?;
        Ok(g.to_bytes())
    }

    /// Groups of 1, 3, 5, 7 (mean 4, variance 5) and of 0, 0, 2, 2 (mean 1, variance 1).
    #[test]
    fn groups_of_channels_are_normed_by_their_own_mean_and_variance() {
        let runtime = Runtime::load(None).unwrap();
        let bytes = norm_of(2).unwrap();
        let settings = RunSettings::default();
        let judge = Judge::of("norm".to_owned(), bytes, &["y"], &runtime, &settings).unwrap();
        let found = judge.judge(&[1.0, 3.0, 5.0, 7.0, 0.0, 0.0, 2.0, 2.0]);
        let r = 5.0_f32.sqrt();
        let wanted = [
            -3.0 / r,
            -1.0 / r,
            2.0 / r + 0.5,
            6.0 / r + 0.5,
            -3.0,
            -3.0,
            0.0,
            0.0,
        ];
        for (found, wanted) in found.unwrap()[0].iter().zip(wanted) {
            assert!((found - wanted).abs() < 1e-5, "{found} against {wanted}");
        }
    }

    #[test]
    fn groups_that_channels_do_not_divide_into_are_refused() {
        for groups in [0, 3] {
            let refused = norm_of(groups).unwrap_err().to_string();
            assert_eq!(
                refused,
                format!("group_norm: wanted groups that channels divide into, found {groups}")
            );
        }
    }
}
