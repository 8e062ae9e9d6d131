//! MobileNetV2 on small pictures, up to its 1280 features.
//!
//! ```text
//! layer     convolution without bias → batch norm → ReLU6, min(max(x, 0), 6)
//! block     1×1 layer to t·c → 3×3 layer, each channel by itself → 1×1 to c, without ReLU6; + x where the shapes agree
//! network   3×3 layer to 32 → 17 blocks → 1×1 layer to 1280 → mean over the picture
//! ```
//!
//! The first convolution has stride 1, and so has the second stage on pictures of up to 32 pixels, which
//! would otherwise be a few pixels wide before they are understood. Replicas run as groups of the
//! convolutions, so that all of them are one call. With [`Precision::Bf16`] a training step convolves in
//! bfloat16, whose gradients reach the 32-bit weights; statistics and features have 32 bits.
//! Reference: Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018.

use anyhow::Result;
use s2m_model::onnx::graph::{self, BatchNorm, Conv2d, GraphBuilder};
use s2m_runs::parts::Precision;
use tch::{Kind, Tensor};

use super::{Mode, channels_last, constant};
use crate::parameters::{First, Spec, Weights};

/// Width of the features.
pub const FEATURES: i64 = 1280;

/// Shortest side of a picture: three of the strides leave two pixels of it.
pub const LEAST_SIDE: i64 = 16;

/// Longest side on which the second stage keeps the size.
const SMALL: i64 = 32;

/// Outputs of the first convolution.
const FIRST: i64 = 32;

/// The stages: widening `t`, channels `c`, blocks `n` and stride `s` of the first one (table 2 of the
/// paper). The second stage's stride is 1 on small pictures.
const STAGES: [[i64; 4]; 7] = [
    [1, 16, 1, 1],
    [6, 24, 2, 2],
    [6, 32, 3, 2],
    [6, 64, 4, 2],
    [6, 96, 3, 1],
    [6, 160, 3, 2],
    [6, 320, 1, 1],
];

/// Weight of a new batch in the running statistics.
const MOMENTUM: f64 = 0.1;

/// Added to variances.
const EPSILON: f64 = 1e-5;

/// The network for pictures of one shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MobileNetV2 {
    /// Channels, height, width.
    pub picture: [i64; 3],
    /// Of training; evaluation has 32 bits.
    pub precision: Precision,
}

/// What follows a layer's batch norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Relu6,
    Linear,
}

/// A convolution and its batch norm.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Layer {
    name: String,
    /// `[out, in / groups, side, side]`
    weight: [i64; 4],
    stride: i64,
    groups: i64,
    end: End,
}

/// Layers one after the other.
struct Block {
    layers: Vec<Layer>,
    /// Whether what goes in is added to what comes out.
    residual: bool,
}

/// Tensors of one layer: the convolution's weight, and the batch norm's scale, bias, mean and variance.
const TENSORS: usize = 5;

impl Layer {
    /// A convolution of single pixels.
    fn pointwise(name: String, [from, to]: [i64; 2], end: End) -> Self {
        Self {
            name,
            weight: [to, from, 1, 1],
            stride: 1,
            groups: 1,
            end,
        }
    }

    /// The convolution starts with the variance of Kaiming's rule, 2 / (out·side²), as PyTorch counts the
    /// fan-out; a uniform number below `b` has variance b² / 3.
    fn specs(&self) -> [Spec; TENSORS] {
        let [out, _, side, _] = self.weight;
        let bound = (6.0 / (out * side * side) as f64).sqrt();
        let spec = |name: &str, shape: &[i64], first| Spec {
            name: format!("{}.{name}", self.name),
            shape: shape.to_vec(),
            first,
        };
        [
            spec("conv.weight", &self.weight, First::Uniform(bound)),
            spec("norm.weight", &[out], First::Constant(1.0)),
            spec("norm.bias", &[out], First::Constant(0.0)),
            spec("norm.mean", &[out], First::Statistic(0.0)),
            spec("norm.var", &[out], First::Statistic(1.0)),
        ]
    }

    fn pad(&self) -> i64 {
        self.weight[2] / 2
    }

    /// `x` is `[batch, replicas·channels, height, width]`, in the kind of numbers that are multiplied.
    fn forward(&self, weights: &[Tensor], x: &Tensor, mode: Mode) -> Tensor {
        let replicas = weights[0].size()[0];
        let [out, per_group, side, _] = self.weight;
        let kernel = weights[0].reshape([replicas * out, per_group, side, side]);
        let kernel = match x.kind() {
            Kind::BFloat16 => channels_last(&kernel, Kind::BFloat16),
            _ => kernel,
        };
        let [scale, bias] = [1, 2].map(|at| weights[at].reshape([-1]));
        // Views, not copies: batch norm writes the running statistics where they lie.
        let [mean, var] = [3, 4].map(|at| weights[at].view(-1));
        let groups = replicas * self.groups;
        let y = x.conv2d(&kernel, None::<Tensor>, self.stride, self.pad(), 1, groups);
        let training = mode == Mode::Training;
        let mut y = y.batch_norm(
            Some(scale),
            Some(bias),
            Some(mean),
            Some(var),
            training,
            MOMENTUM,
            EPSILON,
            true,
        );
        match self.end {
            End::Relu6 => y.relu6_(),
            End::Linear => y,
        }
    }

    fn onnx(
        &self,
        graph: &mut GraphBuilder,
        x: &graph::Tensor,
        weights: &Weights,
        prefix: &str,
    ) -> Result<graph::Tensor> {
        let mut saved =
            |name: &str| constant(graph, weights, &format!("{prefix}{}.{name}", self.name));
        let weight = saved("conv.weight")?;
        let (scale, bias) = (saved("norm.weight")?, saved("norm.bias")?);
        let (mean, var) = (saved("norm.mean")?, saved("norm.var")?);
        let conv = Conv2d {
            weight: &weight,
            bias: None,
            stride: self.stride as usize,
            pad: self.pad() as usize,
            groups: self.groups as usize,
        };
        let norm = BatchNorm {
            scale: &scale,
            bias: &bias,
            mean: &mean,
            var: &var,
            epsilon: EPSILON as f32,
        };
        let y = graph.conv2d(x, &conv)?;
        let y = graph.batch_norm(&y, &norm)?;
        Ok(match self.end {
            End::Relu6 => graph.clip(&y, 0.0, 6.0)?,
            End::Linear => y,
        })
    }
}

impl Block {
    /// One layer that is no inverted residual.
    fn of(layer: Layer) -> Self {
        Self {
            layers: vec![layer],
            residual: false,
        }
    }

    /// Block `n`, which widens `from` channels `t` times and leaves `to`.
    fn inverted(n: usize, t: i64, [from, to]: [i64; 2], stride: i64) -> Self {
        let name = |part: &str| format!("blocks.{n}.{part}");
        let wide = t * from;
        let mut layers = Vec::new();
        if t > 1 {
            layers.push(Layer::pointwise(name("expand"), [from, wide], End::Relu6));
        }
        layers.push(Layer {
            name: name("depthwise"),
            weight: [wide, 1, 3, 3],
            stride,
            groups: wide,
            end: End::Relu6,
        });
        layers.push(Layer::pointwise(name("project"), [wide, to], End::Linear));
        Self {
            layers,
            residual: stride == 1 && from == to,
        }
    }
}

impl MobileNetV2 {
    fn blocks(&self) -> Vec<Block> {
        let [channels, height, width] = self.picture;
        let mut blocks = vec![Block::of(Layer {
            name: "first".to_owned(),
            weight: [FIRST, channels, 3, 3],
            stride: 1,
            groups: 1,
            end: End::Relu6,
        })];
        let mut from = FIRST;
        for (stage, [t, to, count, stride]) in STAGES.into_iter().enumerate() {
            let keeps = stage == 1 && height.max(width) <= SMALL;
            let stride = if keeps { 1 } else { stride };
            for n in 0..count {
                let stride = if n == 0 { stride } else { 1 };
                blocks.push(Block::inverted(blocks.len() - 1, t, [from, to], stride));
                from = to;
            }
        }
        let last = Layer::pointwise("last".to_owned(), [from, FEATURES], End::Relu6);
        blocks.push(Block::of(last));
        blocks
    }

    pub fn specs(&self) -> Vec<Spec> {
        let blocks = self.blocks();
        let layers = blocks.iter().flat_map(|block| &block.layers);
        layers.flat_map(Layer::specs).collect()
    }

    /// Features `[replicas, batch, 1280]` of pictures `[replicas, batch, channels·height·width]`.
    pub fn forward(&self, weights: &[Tensor], x: &Tensor, mode: Mode) -> Tensor {
        let (replicas, batch) = (x.size()[0], x.size()[1]);
        let [channels, height, width] = self.picture;
        let mut x = x
            .transpose(0, 1)
            .reshape([batch, replicas * channels, height, width]);
        let exact = x.kind();
        if (mode, self.precision) == (Mode::Training, Precision::Bf16) {
            x = channels_last(&x, Kind::BFloat16);
        }
        let mut weights = weights.chunks_exact(TENSORS);
        for block in self.blocks() {
            let mut y = x.shallow_clone();
            for (layer, weights) in block.layers.iter().zip(&mut weights) {
                y = layer.forward(weights, &y, mode);
            }
            x = if block.residual { x + y } else { y };
        }
        x.mean_dim([2, 3].as_slice(), false, exact)
            .view([batch, replicas, FEATURES])
            .transpose(0, 1)
    }

    /// The same layers in a graph, with every name behind `prefix`.
    pub fn onnx(
        &self,
        graph: &mut GraphBuilder,
        x: &graph::Tensor,
        weights: &Weights,
        prefix: &str,
    ) -> Result<graph::Tensor> {
        let mut x = x.clone();
        for block in self.blocks() {
            let mut y = x.clone();
            for layer in &block.layers {
                y = layer.onnx(graph, &y, weights, prefix)?;
            }
            x = if block.residual {
                graph.add(&x, &y)?
            } else {
                y
            };
        }
        let pooled = graph.global_avg_pool(&x)?;
        Ok(graph.flatten(&pooled)?)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tch::{Device, no_grad};

    use super::*;
    use crate::parameters::Parameters;

    const SMALL_COLOUR: MobileNetV2 = MobileNetV2 {
        picture: [3, 16, 16],
        precision: Precision::Float32,
    };

    /// Numbers in [−1, 1) that look random and are the same everywhere.
    fn numbers(t: i64, shape: &[i64]) -> Tensor {
        let k = Tensor::arange(shape.iter().product::<i64>(), (Kind::Int64, Device::Cpu));
        let whole = (&k * (&k + 17) * 31 + t * 7919).remainder(4099);
        (whole.to_kind(Kind::Double) / 2049.5 - 1.0)
            .to_kind(Kind::Float)
            .view(shape)
    }

    /// Convolutions are tensors 0, 2, 4, … of the reference, batch norms 1, 3, 5, …
    fn filled(network: &MobileNetV2) -> Parameters {
        let specs = network.specs();
        let tensors: Vec<Tensor> = (0_i64..)
            .zip(&specs)
            .map(|(at, spec)| {
                let (t, shape) = (at / 5 * 2, spec.for_replicas(1));
                match (at % 5, spec.first) {
                    (0, First::Uniform(bound)) => numbers(t, &shape) * bound,
                    (1, _) => numbers(t + 1, &shape) * 0.1 + 1.0,
                    (2, _) => numbers(t + 2, &shape) * 0.1,
                    (3, _) => Tensor::zeros(shape.as_slice(), (Kind::Float, Device::Cpu)),
                    _ => Tensor::ones(shape.as_slice(), (Kind::Float, Device::Cpu)),
                }
            })
            .collect();
        Parameters::from_tensors(specs, &tensors)
    }

    fn assert_close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-4, "{found} against {wanted}");
    }

    /// Against PyTorch 2.11.0:
    ///
    /// ```text
    /// class Block(nn.Module):
    ///     def __init__(self, a, b, t, s):
    ///         super().__init__()
    ///         w, self.res = a * t, s == 1 and a == b
    ///         self.f = nn.Sequential(*(layer(a, w, 1, 1, 1) if t > 1 else []), *layer(w, w, 3, s, w), *layer(w, b, 1, 1, 1)[:2])
    ///     def forward(self, x):
    ///         return x + self.f(x) if self.res else self.f(x)
    /// def layer(a, b, k, s, g):
    ///     return [nn.Conv2d(a, b, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(b), nn.ReLU6()]
    /// def network(channels, s2):
    ///     parts, a = layer(channels, 32, 3, 1, 1), 32
    ///     for t, c, n, s in (1, 16, 1, 1), (6, 24, 2, s2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1):
    ///         for i in range(n):
    ///             parts, a = parts + [Block(a, c, t, s if i == 0 else 1)], c
    ///     return nn.Sequential(*parts, *layer(a, 1280, 1, 1, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    /// def numbers(t, *shape):
    ///     k = torch.arange(torch.Size(shape).numel())
    ///     return ((k * (k + 17) * 31 + t * 7919) % 4099 / 2049.5 - 1).float().view(shape)
    /// def fill(net):
    ///     for t, m in enumerate([m for m in net.modules() if isinstance(m, (nn.Conv2d, nn.BatchNorm2d))]):
    ///         if isinstance(m, nn.Conv2d):
    ///             o, _, side, _ = m.weight.shape
    ///             m.weight.data = numbers(t, *m.weight.shape) * (6 / (o * side * side)) ** 0.5
    ///         else:
    ///             m.weight.data, m.bias.data = 1 + 0.1 * numbers(t, len(m.weight)), 0.1 * numbers(t + 1, len(m.weight))
    ///     return net
    /// net, x = fill(network(3, 1)), numbers(1000, 4, 3, 16, 16)
    /// y = net.train()(x)     # y[0, 0], y[1, 7], y[3, 1279], y.mean(); running_mean[3], running_var[3] of norms 0, 17, 34, 51
    /// y = net.eval()(x)      # the same four
    /// net, x = fill(network(1, 2)), numbers(1000, 2, 1, 40, 36)
    /// y = net.train()(x)     # y[0, 0], y[1, 7], y[1, 1279], y.mean()
    /// ```
    #[test]
    fn both_modes_and_the_running_statistics_agree_with_pytorch() {
        let some = |y: &Tensor| {
            let last = y.size()[1] - 1;
            let at = [[0, 0, 0], [0, 1, 7], [0, last, 1279]].map(|at| y.double_value(&at));
            [at[0], at[1], at[2], y.mean(Kind::Double).double_value(&[])]
        };
        let compare = |found: [f64; 4], wanted: [f64; 4]| {
            for (found, wanted) in found.into_iter().zip(wanted) {
                assert_close(found, wanted);
            }
        };
        let weights = filled(&SMALL_COLOUR);
        assert_eq!(weights.flat().size(), [1, 2_223_872]);
        let x = numbers(1000, &[1, 4, 768]);
        let run = |mode| no_grad(|| SMALL_COLOUR.forward(weights.views(), &x, mode));
        let training = run(Mode::Training);
        assert_eq!(training.size(), [1, 4, FEATURES]);
        compare(
            some(&training),
            [0.784_347_89, 0.969_113_41, 0.371_831_27, 0.405_134_98],
        );
        let statistics = [
            [-0.000_534_59, 0.906_120_54],
            [-0.030_594_50, 1.330_778_96],
            [-0.000_568_41, 0.900_096_65],
            [-0.001_019_76, 0.956_022_56],
        ];
        for (norm, wanted) in [0, 17, 34, 51].into_iter().zip(statistics) {
            let running = &weights.views()[norm * TENSORS + 3..][..2];
            for (running, wanted) in running.iter().zip(wanted) {
                assert_close(running.double_value(&[0, 3]), wanted);
            }
        }
        compare(
            some(&run(Mode::Evaluation)),
            [0.683_918_77, 0.0, 0.122_039_44, 0.040_467_23],
        );
        let large = MobileNetV2 {
            picture: [1, 40, 36],
            ..SMALL_COLOUR
        };
        let x = numbers(1000, &[1, 2, 1440]);
        let y = no_grad(|| large.forward(filled(&large).views(), &x, Mode::Training));
        compare(
            some(&y),
            [0.404_352_01, 0.124_737_46, 0.197_769_81, 0.404_605_78],
        );
    }

    /// Untrained, 52 layers of batch norm make much of any rounding. So what bfloat16 changes is held against what the
    /// 32-bit network makes of weights that are rounded once; factors and products are rounded besides.
    #[test]
    fn bfloat16_is_no_further_off_than_its_roundings_and_ends_in_32_bits() {
        let half = MobileNetV2 {
            precision: Precision::Bf16,
            ..SMALL_COLOUR
        };
        let x = numbers(7, &[2, 64, 768]);
        let weights = || Parameters::new("class", SMALL_COLOUR.specs(), &[1, 2], Device::Cpu);
        let step = |network: &MobileNetV2, weights: &Parameters| {
            let y = network.forward(weights.views(), &x, Mode::Training);
            let loss = (&y * numbers(4, &y.size())).sum(Kind::Float);
            let gradient = weights.gradient(&loss);
            let running = weights.views()[7 * TENSORS + 4].detach();
            [y.detach(), running, gradient]
        };
        let rounded = weights();
        no_grad(|| {
            for weight in rounded.views() {
                let coarse = weight.to_kind(Kind::BFloat16).to_kind(Kind::Float);
                weight.shallow_clone().copy_(&coarse);
            }
        });
        let wanted = step(&SMALL_COLOUR, &weights());
        let found = step(&half, &weights());
        let near = step(&SMALL_COLOUR, &rounded);
        for ((found, wanted), near) in found.iter().zip(&wanted).zip(&near) {
            assert_eq!(found.kind(), Kind::Float);
            let far = |other: &Tensor| {
                let far = (other - wanted).norm() / wanted.norm();
                far.double_value(&[])
            };
            let (far, near) = (far(found), far(near));
            assert!(far > 0.0 && far < 4.0 * near, "{far} against {near}");
        }
    }

    #[test]
    fn evaluation_leaves_the_running_statistics_alone() {
        let weights = filled(&SMALL_COLOUR);
        let before = weights.replica(0).unwrap();
        let x = numbers(1, &[1, 1, 768]);
        let _ = no_grad(|| SMALL_COLOUR.forward(weights.views(), &x, Mode::Evaluation));
        assert!(before == weights.replica(0).unwrap());
    }

    #[test]
    fn names_are_given_once_and_convolutions_start_with_kaimings_variance() {
        let specs = SMALL_COLOUR.specs();
        let names: BTreeSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!((specs.len(), names.len()), (52 * TENSORS, 52 * TENSORS));
        assert!(names.contains("blocks.16.project.norm.var"));
        let weights = Parameters::new("class", specs, &[1], Device::Cpu);
        let last = &weights.views()[51 * TENSORS];
        let variance = last.square().mean(Kind::Double).double_value(&[]);
        // Squares of a uniform number spread by √(4/45)·b² = √0.8·b²/3 around b²/3 = 2/1280.
        let error = 0.8_f64.sqrt() / (1280.0 * 320.0_f64).sqrt();
        assert!((variance * 640.0 - 1.0).abs() < 5.0 * error, "{variance}");
    }

    /// Features, running statistics and gradients, in 64-bit floats: in 32 bits, sums in another order
    /// already show behind 52 batch norms of few items.
    #[test]
    fn a_replica_is_the_same_alone_and_among_others() {
        let specs = SMALL_COLOUR.specs();
        let first = Parameters::new("class", specs.clone(), &[1, 2, 3], Device::Cpu);
        let doubled = |view: &Tensor| view.detach().to_kind(Kind::Double);
        let doubled: Vec<Tensor> = first.views().iter().map(doubled).collect();
        let many = Parameters::from_tensors(specs, &doubled);
        let one = many.select(&[1]);
        let x = numbers(7, &[3, 4, 768]).to_kind(Kind::Double);
        let step = |weights: &Parameters, x: &Tensor| {
            let y = SMALL_COLOUR.forward(weights.views(), x, Mode::Training);
            let gradient = weights.gradient(&(&y * y.sin()).sum(Kind::Double));
            [y.detach(), gradient]
        };
        let (of_many, of_one) = (step(&many, &x), step(&one, &x.narrow(0, 1, 1)));
        let statistics = |weights: &Parameters| -> Vec<Tensor> {
            weights.views().iter().map(Tensor::detach).collect()
        };
        let of_many = of_many.into_iter().chain(statistics(&many));
        let of_one = of_one.into_iter().chain(statistics(&one));
        for (many, one) in of_many.zip(of_one) {
            let difference = many.get(1) - one.get(0);
            let scale = one.abs().max().double_value(&[]);
            assert!(difference.abs().max().double_value(&[]) <= 1e-9 * scale);
        }
    }

    #[test]
    fn a_gradient_reaches_every_weight() {
        let weights = Parameters::new("class", SMALL_COLOUR.specs(), &[5], Device::Cpu);
        let x = numbers(3, &[1, 8, 768]);
        let y = SMALL_COLOUR.forward(weights.views(), &x, Mode::Training);
        let gradient =
            weights.gradient(&(y.square() * numbers(4, &[1, 8, FEATURES])).sum(Kind::Float));
        let gradient = Parameters::from_flat(SMALL_COLOUR.specs(), &gradient);
        for (spec, view) in gradient.specs().iter().zip(gradient.views()) {
            if !matches!(spec.first, First::Statistic(_)) {
                let reached = view.ne(0.0).to_kind(Kind::Float).mean(Kind::Float);
                assert!(reached.double_value(&[]) > 0.9, "{}", spec.name);
            }
        }
    }
}
