//! ResNet-9 on small pictures, up to its 8·w features: few wide layers, which a graphics card runs fast.
//!
//! ```text
//! layer     3×3 convolution without bias → batch norm → ReLU
//! residual  x + layer(layer(x))
//! network   layer to w → layer to 2w, halved → residual → layer to 4w, halved → layer to 8w, halved → residual
//!           → mean over the picture
//! ```
//!
//! Halved means the largest of every 2×2 pixels. Replicas run one after the other: as groups of one
//! convolution, layers this wide are slow on graphics cards. With [`Precision::Bf16`] a training step
//! convolves in bfloat16, whose gradients reach the 32-bit weights; statistics and features have 32 bits.
//! Reference: Page, "How to train your ResNet", 2018.

use anyhow::Result;
use s2m_model::onnx::graph::{self, BatchNorm, Conv2d, GraphBuilder};
use s2m_runs::parts::Precision;
use tch::{Kind, Tensor};

use super::{Mode, channels_last, constant};
use crate::parameters::{First, Spec, Weights};

/// Shortest side of a picture: it is halved three times, which leaves two pixels of it.
pub const LEAST_SIDE: i64 = 16;

/// Weight of a new batch in the running statistics.
const MOMENTUM: f64 = 0.1;

/// Added to variances.
const EPSILON: f64 = 1e-5;

/// The network for pictures of one shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResNet9 {
    /// Channels, height, width.
    pub picture: [i64; 3],
    /// Outputs of the first layer.
    pub width: i64,
    /// Of training; evaluation has 32 bits.
    pub precision: Precision,
}

/// What follows the layers of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Plain,
    /// The largest of every 2×2 pixels.
    Halved,
    /// What went in is added to what came out.
    Residual,
}

/// A convolution and its batch norm.
struct Layer {
    name: String,
    from: i64,
    to: i64,
}

/// Layers one after the other.
struct Part {
    layers: Vec<Layer>,
    end: End,
}

/// Tensors of one layer: the convolution's weight, and the batch norm's scale, bias, mean and variance.
const TENSORS: usize = 5;

impl Layer {
    /// The convolution starts as in PyTorch: uniform below 1 / √(inputs of an output).
    fn specs(&self) -> [Spec; TENSORS] {
        let bound = 1.0 / ((9 * self.from) as f64).sqrt();
        let spec = |name: &str, shape: &[i64], first| Spec {
            name: format!("{}.{name}", self.name),
            shape: shape.to_vec(),
            first,
        };
        let kernel = [self.to, self.from, 3, 3];
        [
            spec("conv.weight", &kernel, First::Uniform(bound)),
            spec("norm.weight", &[self.to], First::Constant(1.0)),
            spec("norm.bias", &[self.to], First::Constant(0.0)),
            spec("norm.mean", &[self.to], First::Statistic(0.0)),
            spec("norm.var", &[self.to], First::Statistic(1.0)),
        ]
    }

    /// `x` is `[batch, channels, height, width]`, in the kind of numbers that are multiplied.
    fn forward(weights: &[Tensor; TENSORS], x: &Tensor, mode: Mode) -> Tensor {
        let [kernel, scale, bias, mean, var] = weights;
        let kernel = channels_last(kernel, x.kind());
        // Batch norm writes the running statistics where they lie.
        x.conv2d(&kernel, None::<Tensor>, 1, 1, 1, 1)
            .batch_norm(
                Some(scale),
                Some(bias),
                Some(mean),
                Some(var),
                mode == Mode::Training,
                MOMENTUM,
                EPSILON,
                true,
            )
            .relu_()
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
            stride: 1,
            pad: 1,
            groups: 1,
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
        Ok(graph.relu(&y)?)
    }
}

impl Part {
    fn one(name: &str, [from, to]: [i64; 2], end: End) -> Self {
        let name = name.to_owned();
        Self {
            layers: vec![Layer { name, from, to }],
            end,
        }
    }

    fn residual(name: &str, width: i64) -> Self {
        let layer = |n| Layer {
            name: format!("{name}.{n}"),
            from: width,
            to: width,
        };
        Self {
            layers: [0, 1].map(layer).into(),
            end: End::Residual,
        }
    }
}

impl ResNet9 {
    /// Width of the features.
    pub fn features(&self) -> i64 {
        8 * self.width
    }

    fn parts(&self) -> [Part; 6] {
        let ([channels, ..], w) = (self.picture, self.width);
        [
            Part::one("first", [channels, w], End::Plain),
            Part::one("second", [w, 2 * w], End::Halved),
            Part::residual("second-residual", 2 * w),
            Part::one("third", [2 * w, 4 * w], End::Halved),
            Part::one("fourth", [4 * w, 8 * w], End::Halved),
            Part::residual("fourth-residual", 8 * w),
        ]
    }

    pub fn specs(&self) -> Vec<Spec> {
        let parts = self.parts();
        let layers = parts.iter().flat_map(|part| &part.layers);
        layers.flat_map(Layer::specs).collect()
    }

    /// Features `[replicas, batch, 8·w]` of pictures `[replicas, batch, channels·height·width]`.
    pub fn forward(&self, weights: &[Tensor], x: &Tensor, mode: Mode) -> Tensor {
        let weights: Vec<Vec<Tensor>> = weights.iter().map(|weight| weight.unbind(0)).collect();
        let features = |(replica, x): (usize, &Tensor)| {
            let own = |all: &Vec<Tensor>| all[replica].shallow_clone();
            let own: Vec<Tensor> = weights.iter().map(own).collect();
            self.alone(&own, x, mode)
        };
        let replicas: Vec<Tensor> = x.unbind(0).iter().enumerate().map(features).collect();
        Tensor::stack(&replicas, 0)
    }

    /// One replica's features `[batch, 8·w]` of pictures `[batch, channels·height·width]`.
    fn alone(&self, weights: &[Tensor], x: &Tensor, mode: Mode) -> Tensor {
        let [channels, height, width] = self.picture;
        let exact = x.kind();
        let kind = match (mode, self.precision) {
            (Mode::Training, Precision::Bf16) => Kind::BFloat16,
            _ => exact,
        };
        let mut x = channels_last(&x.reshape([-1, channels, height, width]), kind);
        let mut weights = weights.as_chunks().0.iter();
        for part in self.parts() {
            let mut y = x.shallow_clone();
            for weights in weights.by_ref().take(part.layers.len()) {
                y = Layer::forward(weights, &y, mode);
            }
            x = match part.end {
                End::Plain => y,
                End::Halved => y.max_pool2d(2, 2, 0, 1, false),
                End::Residual => x + y,
            };
        }
        x.mean_dim([2, 3].as_slice(), false, exact)
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
        for part in self.parts() {
            let mut y = x.clone();
            for layer in &part.layers {
                y = layer.onnx(graph, &y, weights, prefix)?;
            }
            x = match part.end {
                End::Plain => y,
                End::Halved => graph.max_pool(&y, 2, 2)?,
                End::Residual => graph.add(&x, &y)?,
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

    const SMALL_COLOUR: ResNet9 = ResNet9 {
        picture: [3, 16, 16],
        width: 8,
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
    fn filled(network: &ResNet9) -> Parameters {
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
        assert!((found - wanted).abs() < 1e-5, "{found} against {wanted}");
    }

    /// Against PyTorch 2.11.0:
    ///
    /// ```text
    /// def layer(a, b):
    ///     return [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    /// class Residual(nn.Module):
    ///     def __init__(self, c):
    ///         super().__init__()
    ///         self.f = nn.Sequential(*layer(c, c), *layer(c, c))
    ///     def forward(self, x):
    ///         return x + self.f(x)
    /// def network(c, w):
    ///     half = nn.MaxPool2d(2)
    ///     return nn.Sequential(*layer(c, w), *layer(w, 2 * w), half, Residual(2 * w), *layer(2 * w, 4 * w), half,
    ///         *layer(4 * w, 8 * w), half, Residual(8 * w), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    /// def numbers(t, *shape):
    ///     k = torch.arange(torch.Size(shape).numel())
    ///     return ((k * (k + 17) * 31 + t * 7919) % 4099 / 2049.5 - 1).float().view(shape)
    /// def fill(net):
    ///     for t, m in enumerate([m for m in net.modules() if isinstance(m, (nn.Conv2d, nn.BatchNorm2d))]):
    ///         if isinstance(m, nn.Conv2d):
    ///             m.weight.data = numbers(t, *m.weight.shape) * (9 * m.in_channels) ** -0.5
    ///         else:
    ///             m.weight.data, m.bias.data = 1 + 0.1 * numbers(t, len(m.weight)), 0.1 * numbers(t + 1, len(m.weight))
    ///     return net
    /// net, x = fill(network(3, 8)), numbers(1000, 4, 3, 16, 16)
    /// y = net.train()(x)     # y[0, 0], y[1, 7], y[3, 63], y.mean(); running_mean[3], running_var[3] of norms 0, 3, 7
    /// y = net.eval()(x)      # the same four
    /// net, x = fill(network(1, 4)), numbers(1000, 2, 1, 20, 18)
    /// y = net.train()(x)     # y[0, 0], y[1, 7], y[1, 31], y.mean()
    /// sum(p.numel() for p in network(3, 64).parameters())
    /// ```
    #[test]
    fn both_modes_and_the_running_statistics_agree_with_pytorch() {
        let compare = |y: &Tensor, wanted: [f64; 4]| {
            let last = [0, y.size()[1] - 1, y.size()[2] - 1];
            let [a, b, c] = [[0, 0, 0], [0, 1, 7], last].map(|at| y.double_value(&at));
            let found = [a, b, c, y.mean(Kind::Double).double_value(&[])];
            for (found, wanted) in found.into_iter().zip(wanted) {
                assert_close(found, wanted);
            }
        };
        let weights = filled(&SMALL_COLOUR);
        let x = numbers(1000, &[1, 4, 768]);
        let run = |mode| no_grad(|| SMALL_COLOUR.forward(weights.views(), &x, mode));
        let training = run(Mode::Training);
        assert_eq!(training.size(), [1, 4, SMALL_COLOUR.features()]);
        compare(
            &training,
            [1.958_823_68, 1.682_797_31, 1.145_653_61, 1.414_230_47],
        );
        let statistics = [
            [-0.000_712_78, 0.910_880_98],
            [0.018_037_25, 0.908_039_69],
            [0.009_635_04, 0.905_248_76],
        ];
        for (norm, wanted) in [0, 3, 7].into_iter().zip(statistics) {
            let running = &weights.views()[norm * TENSORS + 3..][..2];
            for (running, wanted) in running.iter().zip(wanted) {
                assert_close(running.double_value(&[0, 3]), wanted);
            }
        }
        compare(
            &run(Mode::Evaluation),
            [0.066_236_90, 0.060_415_93, 0.009_846_11, 0.068_466_60],
        );
        let grey = ResNet9 {
            picture: [1, 20, 18],
            width: 4,
            ..SMALL_COLOUR
        };
        let x = numbers(1000, &[1, 2, 360]);
        let y = no_grad(|| grey.forward(filled(&grey).views(), &x, Mode::Training));
        compare(&y, [1.593_408_82, 1.362_673_52, 1.847_949_74, 1.501_743_56]);
        let full = ResNet9 {
            width: 64,
            ..SMALL_COLOUR
        };
        let size = |spec: &Spec| match spec.first {
            First::Statistic(_) => 0,
            _ => spec.shape.iter().product::<i64>(),
        };
        assert_eq!(full.specs().iter().map(size).sum::<i64>(), 6_568_000);
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
    fn names_are_given_once() {
        let specs = SMALL_COLOUR.specs();
        let names: BTreeSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!((specs.len(), names.len()), (8 * TENSORS, 8 * TENSORS));
        assert!(names.contains("fourth-residual.1.norm.var"));
    }

    /// Features, gradients, weights and running statistics, in 64-bit floats.
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
            let mut found = vec![y.detach(), gradient];
            found.extend(weights.views().iter().map(Tensor::detach));
            found
        };
        let (of_many, of_one) = (step(&many, &x), step(&one, &x.narrow(0, 1, 1)));
        for (many, one) in of_many.iter().zip(&of_one) {
            let difference = many.get(1) - one.get(0);
            let scale = one.abs().max().double_value(&[]);
            assert!(difference.abs().max().double_value(&[]) <= 1e-12 * scale);
        }
        let other = (of_many[0].get(0) - of_one[0].get(0)).abs().max();
        assert!(other.double_value(&[]) > 0.1);
    }

    #[test]
    fn a_gradient_reaches_every_weight() {
        let weights = Parameters::new("class", SMALL_COLOUR.specs(), &[5], Device::Cpu);
        let x = numbers(3, &[1, 8, 768]);
        let y = SMALL_COLOUR.forward(weights.views(), &x, Mode::Training);
        let loss = (y.square() * numbers(4, &y.size())).sum(Kind::Float);
        let gradient = Parameters::from_flat(SMALL_COLOUR.specs(), &weights.gradient(&loss));
        for (spec, view) in gradient.specs().iter().zip(gradient.views()) {
            if !matches!(spec.first, First::Statistic(_)) {
                let reached = view.ne(0.0).to_kind(Kind::Float).mean(Kind::Float);
                assert!(reached.double_value(&[]) > 0.9, "{}", spec.name);
            }
        }
    }

    /// Features, statistics, later features and gradients of a step. PyTorch 2.11.0's `autocast` in bfloat16 is as
    /// far from 32 bits with such a network: 0.006 in features, 0.2 in gradients, where ReLUs close to zero switch.
    #[test]
    fn bfloat16_is_close_to_32_bits_and_ends_in_them() {
        let half = ResNet9 {
            precision: Precision::Bf16,
            ..SMALL_COLOUR
        };
        let x = numbers(7, &[2, 16, 768]);
        let step = |network: &ResNet9| {
            let weights = Parameters::new("class", network.specs(), &[1, 2], Device::Cpu);
            let y = network.forward(weights.views(), &x, Mode::Training);
            let loss = (&y * numbers(4, &y.size())).sum(Kind::Float);
            let gradient = weights.gradient(&loss);
            let running = weights.views()[7 * TENSORS + 4].detach();
            let evaluated = network.forward(weights.views(), &x, Mode::Evaluation);
            [y.detach(), running, evaluated.detach(), gradient]
        };
        let (found, wanted) = (step(&half), step(&SMALL_COLOUR));
        let limits = [2e-2, 1e-3, 1e-2, 0.3];
        for ((found, wanted), limit) in found.iter().zip(&wanted).zip(limits) {
            assert_eq!(found.kind(), Kind::Float);
            let far = (found - wanted).norm() / wanted.norm();
            let far = far.double_value(&[]);
            assert!(far > 0.0 && far < limit, "{far} against {limit}");
        }
    }
}
