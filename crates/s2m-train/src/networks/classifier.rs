//! Three classifiers on one trunk: class of real items (`class`), real against generated (`real`),
//! and class of generated items (`fake_class`, conditional generators only).
//!
//! The weights come in two groups that are trained apart where the fit asks for it: the trunk with
//! the `class` head, and the other heads. With [`Way::Smoothed`] the second group has a trunk of
//! its own, which sees items after a 3×3 binomial blur.

use anyhow::{Result, bail, ensure};
use s2m_data::recipe::Loaded;
use s2m_model::onnx::backbone::FEATURES;
use s2m_model::onnx::graph::{self, Conv2d, GraphBuilder};
use s2m_runs::Way;
use s2m_runs::classifier::TrunkSettings;
use s2m_runs::parts::Precision;
use tch::Tensor;

use super::balance::Balance;
use super::given::{self, Given};
use super::lenet5;
use super::mlp::{End, Mlp};
use super::mobilenet_v2::{self, MobileNetV2};
use super::resnet9::{self, ResNet9};
use super::{Mode, linear, linear_onnx};
use crate::parameters::{Spec, Weights};

/// What turns an item into features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trunk {
    LeNet5,
    /// Points: fully connected layers, ReLU after each.
    Mlp(Mlp),
    MobileNetV2(MobileNetV2),
    ResNet9(ResNet9),
    /// Features that a network from elsewhere computed beforehand; see [`given`].
    Given(Given),
}

impl Trunk {
    /// The trunk that a run file asks for, checked against the items.
    pub fn of(settings: &TrunkSettings, loaded: &Loaded) -> Result<Self> {
        let items = &loaded.train.items;
        match settings {
            TrunkSettings::Mlp { hidden } => {
                ensure!(
                    hidden.iter().all(|side| (1..=1 << 16).contains(side)),
                    "`network.hidden` must list layers of 1 to 65536 units"
                );
                ensure!(
                    items.shape.len() == 1,
                    "`mlp` classifies points; pictures take `lenet5`, `mobilenet-v2` or `resnet9`"
                );
                Self::mlp(items.item_size() as i64, hidden)
            }
            TrunkSettings::Lenet5 {} => {
                let side = lenet5::SIDE as usize;
                ensure!(
                    items.shape == [1, side, side],
                    "`lenet5` takes pictures of shape [1, {side}, {side}], the data has {:?}",
                    items.shape
                );
                Ok(Self::LeNet5)
            }
            TrunkSettings::MobilenetV2 {} => {
                let picture = picture("mobilenet-v2", mobilenet_v2::LEAST_SIDE, &items.shape)?;
                Ok(Self::MobileNetV2(MobileNetV2 {
                    picture,
                    precision: Precision::Float32,
                }))
            }
            TrunkSettings::Resnet9 { width } => {
                ensure!(
                    (1..=512).contains(width),
                    "`network.width` is {width}; it must be from 1 to 512"
                );
                Ok(Self::ResNet9(ResNet9 {
                    picture: picture("resnet9", resnet9::LEAST_SIDE, &items.shape)?,
                    width: *width,
                    precision: Precision::Float32,
                }))
            }
            TrunkSettings::Onnx { .. } => bail!(
                "`onnx` is for classifiers, whose heads stand on it; here a network is trained whole"
            ),
        }
    }

    /// Layers for points: the last size is the width of the features.
    pub fn mlp(input: i64, hidden: &[i64]) -> Result<Self> {
        let Some((&last, before)) = hidden.split_last() else {
            bail!("`hidden` of an MLP classifier needs at least one layer");
        };
        Ok(Self::Mlp(Mlp::new(input, before, last, End::Relu)))
    }

    /// The same trunk, trained in a precision; refuses one that it does not have.
    pub fn trained_in(mut self, precision: Precision) -> Result<Self> {
        match &mut self {
            Self::ResNet9(network) => network.precision = precision,
            Self::MobileNetV2(network) => network.precision = precision,
            Self::LeNet5 | Self::Mlp(_) | Self::Given(_) => ensure!(
                precision != Precision::Bf16,
                "`precision` is `bf16`, which `resnet9` and `mobilenet-v2` networks alone have\nhint: precision = \"tf32\""
            ),
        }
        Ok(self)
    }

    pub fn features(&self) -> i64 {
        match self {
            Self::LeNet5 => lenet5::FEATURES,
            Self::Mlp(mlp) => *mlp.sizes.last().expect("an MLP has sizes"),
            Self::MobileNetV2(_) => mobilenet_v2::FEATURES,
            Self::ResNet9(network) => network.features(),
            Self::Given(given) => given.size,
        }
    }

    /// Channels, height and width of the pictures; `None` for points.
    pub fn picture(&self) -> Option<[i64; 3]> {
        match self {
            Self::LeNet5 => Some([1, lenet5::SIDE, lenet5::SIDE]),
            Self::Mlp(_) | Self::Given(_) => None,
            Self::MobileNetV2(network) => Some(network.picture),
            Self::ResNet9(network) => Some(network.picture),
        }
    }

    /// Name and shape of what goes in, for items of a shape.
    fn input(&self, item: &[usize]) -> (&'static str, Vec<usize>) {
        match self {
            Self::Given(given) => (FEATURES, vec![given.size as usize]),
            Self::LeNet5 | Self::Mlp(_) | Self::MobileNetV2(_) | Self::ResNet9(_) => {
                ("x", item.to_vec())
            }
        }
    }

    pub fn specs(&self, prefix: &str) -> Vec<Spec> {
        let specs = match self {
            Self::LeNet5 => lenet5::specs(),
            Self::Mlp(mlp) => mlp.specs(),
            Self::MobileNetV2(network) => network.specs(),
            Self::ResNet9(network) => network.specs(),
            Self::Given(given) => given.specs(),
        };
        let named = |spec: Spec| Spec {
            name: format!("{prefix}{}", spec.name),
            ..spec
        };
        specs.into_iter().map(named).collect()
    }

    pub fn forward(&self, weights: &[Tensor], x: &Tensor, mode: Mode) -> Tensor {
        match self {
            Self::LeNet5 => lenet5::forward(weights, x),
            Self::Mlp(mlp) => mlp.forward(weights, x),
            Self::MobileNetV2(network) => network.forward(weights, x, mode),
            Self::ResNet9(network) => network.forward(weights, x, mode),
            Self::Given(_) => given::forward(weights, x),
        }
    }

    pub fn onnx(
        &self,
        graph: &mut GraphBuilder,
        x: &graph::Tensor,
        weights: &Weights,
        prefix: &str,
    ) -> Result<graph::Tensor> {
        match self {
            Self::LeNet5 => lenet5::onnx(graph, x, weights, prefix),
            Self::Mlp(mlp) => mlp.onnx(graph, x, weights, prefix),
            Self::MobileNetV2(network) => network.onnx(graph, x, weights, prefix),
            Self::ResNet9(network) => network.onnx(graph, x, weights, prefix),
            Self::Given(_) => given::onnx(graph, x, weights, prefix),
        }
    }
}

/// Sides of pictures that a network of a name takes: grey or colour, of some size.
fn picture(name: &str, least: i64, shape: &[usize]) -> Result<[i64; 3]> {
    match *shape {
        [channels @ (1 | 3), height, width] if height.min(width) >= least as usize => {
            Ok([channels, height, width].map(|side| side as i64))
        }
        _ => bail!(
            "`{name}` takes pictures of 1 or 3 channels and sides of at least {least}, the data has shape {shape:?}"
        ),
    }
}

/// The three outputs for a batch.
pub struct Outputs {
    /// `[replicas, batch, classes]`
    pub class: Tensor,
    /// `[replicas, batch]`
    pub real: Tensor,
    /// `[replicas, batch, classes]`
    pub fake_class: Option<Tensor>,
}

/// The network; see the head of this file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classifier {
    pub trunk: Trunk,
    pub classes: i64,
    pub conditional: bool,
    pub fit: Way,
}

/// What a file has beside the three heads: weights of the network of label sets, and of those of its folds.
pub struct SetOutputs<'a> {
    pub student: &'a Weights,
    pub members: &'a [Weights],
}

/// Names of the outputs of label sets.
pub const JOINT: &str = "joint_logits";

/// The output of a fold's network.
pub fn member_name(fold: usize) -> String {
    format!("{JOINT}_{fold}")
}

impl Classifier {
    /// Weights of the trunk and the `class` head.
    pub fn class_specs(&self) -> Vec<Spec> {
        let head = Spec::layer("class", &[self.classes, self.trunk.features()]);
        [self.trunk.specs("trunk."), head.into()].concat()
    }

    /// Weights of the other heads, and of their own trunk where they have one.
    pub fn other_specs(&self) -> Vec<Spec> {
        let features = self.trunk.features();
        let mut specs = match self.fit {
            Way::Smoothed => self.trunk.specs("smooth."),
            Way::Shared | Way::Frozen => Vec::new(),
        };
        specs.extend(Spec::layer("real", &[1, features]));
        if self.conditional {
            specs.extend(Spec::layer("fake_class", &[self.classes, features]));
        }
        specs
    }

    /// Features and class logits.
    pub fn class(&self, weights: &[Tensor], x: &Tensor, mode: Mode) -> (Tensor, Tensor) {
        let (trunk, head) = weights.split_at(weights.len() - 2);
        let features = self.trunk.forward(trunk, x, mode);
        let class = linear(&features, &head[0], &head[1]);
        (features, class)
    }

    /// The other heads, from the trunk's features, or from the items where they have their own trunk.
    pub fn others(
        &self,
        weights: &[Tensor],
        x: &Tensor,
        features: &Tensor,
        mode: Mode,
    ) -> (Tensor, Option<Tensor>) {
        let heads = if self.conditional { 4 } else { 2 };
        let (trunk, heads) = weights.split_at(weights.len() - heads);
        let own;
        let features = match self.fit {
            Way::Smoothed => {
                own = self.trunk.forward(trunk, &blur(x, self.picture()), mode);
                &own
            }
            Way::Shared | Way::Frozen => features,
        };
        let real = linear(features, &heads[0], &heads[1]).squeeze_dim(-1);
        let fake_class = heads
            .get(2)
            .map(|weight| linear(features, weight, &heads[3]));
        (real, fake_class)
    }

    /// All heads after training.
    pub fn forward(
        &self,
        class_weights: &[Tensor],
        other_weights: &[Tensor],
        x: &Tensor,
    ) -> Outputs {
        let mode = Mode::Evaluation;
        let (features, class) = self.class(class_weights, x, mode);
        let (real, fake_class) = self.others(other_weights, x, &features, mode);
        Outputs {
            class,
            real,
            fake_class,
        }
    }

    /// The whole network as a file, from `x`, or from `features` where these are given; `weights` holds both groups.
    /// With `balance` they come from balanced draws, and the file corrects for that.
    pub fn onnx(
        &self,
        weights: &Weights,
        item: &[usize],
        balance: Option<&Balance>,
        sets: Option<SetOutputs<'_>>,
    ) -> Result<Vec<u8>> {
        let folded;
        let weights = match balance {
            None => weights,
            Some(balance) => {
                folded = balance.fold(weights)?;
                &folded
            }
        };
        let mut graph = GraphBuilder::new("classifier");
        let (name, item) = self.trunk.input(item);
        let x = graph.input(name, &item, graph::Element::F32)?;
        let mut features = self.trunk.onnx(&mut graph, &x, weights, "trunk.")?;
        if name != FEATURES {
            // By this name a later classifier can stand on the same trunk.
            features = graph.named(&features, FEATURES)?;
        }
        let class = linear_onnx(&mut graph, &features, weights, "class")?;
        if let Some(sets) = sets {
            self.sets_onnx(&mut graph, [&x, &features], &sets)?;
        }
        let features = match self.fit {
            Way::Shared | Way::Frozen => features,
            Way::Smoothed => {
                let blurred = blur_onnx(&mut graph, &x, self.picture())?;
                self.trunk.onnx(&mut graph, &blurred, weights, "smooth.")?
            }
        };
        let real = linear_onnx(&mut graph, &features, weights, "real")?;
        let mut real = graph.squeeze(&real, 1)?;
        if let Some(balance) = balance {
            real = balance.real_onnx(&mut graph, &class, &real)?;
        }
        graph.output(&class, "class_logits")?;
        graph.output(&real, "real_logit")?;
        if self.conditional {
            let fake_class = linear_onnx(&mut graph, &features, weights, "fake_class")?;
            graph.output(&fake_class, "fake_class_logits")?;
        }
        Ok(graph.to_bytes())
    }

    /// Outputs of label sets: on the trunk where the student's own is that, else on trunks of their own.
    fn sets_onnx(
        &self,
        graph: &mut GraphBuilder,
        [x, features]: [&graph::Tensor; 2],
        sets: &SetOutputs<'_>,
    ) -> Result<()> {
        let alone = |graph: &mut GraphBuilder, weights: &Weights, prefix: &str| {
            let named: Weights = weights
                .iter()
                .map(|(name, value)| (format!("{prefix}{name}"), value.clone()))
                .collect();
            let features = self
                .trunk
                .onnx(graph, x, &named, &format!("{prefix}trunk."))?;
            linear_onnx(graph, &features, &named, &format!("{prefix}joint"))
        };
        let joint = match self.fit {
            Way::Shared => alone(graph, sets.student, "student.")?,
            Way::Frozen | Way::Smoothed => linear_onnx(graph, features, sets.student, "joint")?,
        };
        graph.output(&joint, JOINT)?;
        for (fold, weights) in sets.members.iter().enumerate() {
            let joint = alone(graph, weights, &format!("member.{fold}."))?;
            graph.output(&joint, &member_name(fold))?;
        }
        Ok(())
    }

    /// Shape of the pictures of a fit that blurs them.
    fn picture(&self) -> [i64; 3] {
        self.trunk.picture().expect("only pictures are smoothed")
    }
}

/// Weights of the 3×3 binomial blur.
const BLUR: [f32; 9] = [
    0.0625, 0.125, 0.0625, 0.125, 0.25, 0.125, 0.0625, 0.125, 0.0625,
];

/// Blurs pictures `[replicas, batch, size]` channel by channel; the edge counts as zero. Two means of
/// 2×2 are one binomial blur, and need no constant on the device.
fn blur(x: &Tensor, [_, height, width]: [i64; 3]) -> Tensor {
    let size = x.size();
    let mean = |x: &Tensor| x.avg_pool2d(2, 1, 0, false, true, None::<i64>);
    let padded = x
        .reshape([-1, 1, height, width])
        .constant_pad_nd([1, 1, 1, 1]);
    mean(&mean(&padded)).reshape(size.as_slice())
}

fn blur_onnx(
    graph: &mut GraphBuilder,
    x: &graph::Tensor,
    [channels, ..]: [i64; 3],
) -> Result<graph::Tensor> {
    let channels = channels as usize;
    let kernel = graph.constant("blur", &[channels, 1, 3, 3], &BLUR.repeat(channels))?;
    let conv = Conv2d {
        weight: &kernel,
        bias: None,
        stride: 1,
        pad: 1,
        groups: channels,
    };
    Ok(graph.conv2d(x, &conv)?)
}
