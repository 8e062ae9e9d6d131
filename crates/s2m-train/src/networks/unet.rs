//! A U-Net for flows: the velocity of an image on its way from noise to data, and the way itself in equal steps.
//!
//! ```text
//! time   t → cosines and sines → linear → SiLU → linear → SiLU
//! block  x → norm → SiLU → 3×3, plus linear of time → norm → SiLU → 3×3,  plus x (by 1×1 where widths differ)
//! down   3×3; two blocks for every side; between sides halved by 3×3 with stride 2
//! up     two blocks for every side, which also take what those on the way down made; between sides doubled, 3×3
//! whole  down → block → up → norm → SiLU → 3×3
//! way    x₀ = z,  x_{k+1} = x_k + v(x_k, k/n)/n,  the image is x_n within [−1, 1]
//! ```
//!
//! Sides halve down to at most 8 pixels; the first has `channels`, the others twice as many. Norms go by groups of
//! channels, and the last convolution starts at 0, so that an untrained network leaves noise where it is. In a file
//! all steps stand one after the other and share their weights; what time adds is folded into biases.
//! Reference: Ho, Jain and Abbeel, "Denoising diffusion probabilistic models", 2020, without its attention.

use std::collections::HashMap;

use anyhow::{Result, ensure};
use s2m_model::onnx::graph::{self, Conv2d, Element, GraphBuilder};
use tch::{Kind, Tensor, no_grad};

use super::constant;
use crate::parameters::{First, Parameters, Spec, Weights};

/// Blocks for every side, each way.
const BLOCKS: usize = 2;

/// Groups of channels that are normed together. What time adds to a channel that is a group alone would be taken away again.
const GROUPS: i64 = 8;

/// Added to variances.
const EPSILON: f64 = 1e-5;

/// Sides are halved while they are larger.
const LEAST_SIDE: i64 = 8;

/// What time is multiplied by before cosines and sines are taken, and the slowest of these turns so much slower.
const TIMES: f64 = 1000.0;
const SLOWEST: f64 = 10_000.0;

/// The network for images of one shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UNet {
    /// Colours, height, width.
    pub picture: [i64; 3],
    /// Width at the first side, in channels.
    pub channels: i64,
    /// Steps from noise to an image.
    pub steps: i64,
}

/// What happens to an image, in order.
enum Part {
    Block(Block),
    /// To half the side.
    Halve(String, i64),
    /// To twice the side.
    Double(String, i64),
    /// Keeps a copy.
    Keep,
    /// Puts the last copy that was kept behind it.
    Join,
}

/// A block's name and its width before and after.
struct Block {
    name: String,
    from: i64,
    to: i64,
}

fn layer(name: &str, to: i64, from: i64, kernel: i64) -> [Spec; 2] {
    Spec::layer(name, &[to, from, kernel, kernel])
}

fn norm_specs(name: &str, channels: i64) -> [Spec; 2] {
    [("weight", 1.0), ("bias", 0.0)].map(|(kind, first)| Spec {
        name: format!("{name}.{kind}"),
        shape: vec![channels],
        first: First::Constant(first),
    })
}

impl Block {
    fn specs(&self, time: i64) -> Vec<Spec> {
        let name = |part: &str| format!("{}.{part}", self.name);
        let (from, to) = (self.from, self.to);
        let mut specs = norm_specs(&name("first-norm"), from).to_vec();
        specs.extend(layer(&name("first"), to, from, 3));
        specs.extend(Spec::layer(&name("time"), &[to, time]));
        specs.extend(norm_specs(&name("second-norm"), to));
        specs.extend(layer(&name("second"), to, to, 3));
        if from != to {
            specs.extend(layer(&name("shortcut"), to, from, 1));
        }
        specs
    }
}

/// One replica's weights by name; those of layers that see images in the kind of number that they are computed in.
struct Ready {
    weights: HashMap<String, Tensor>,
    kind: Kind,
}

impl Ready {
    fn of(network: &Parameters, replica: i64, kind: Kind) -> Self {
        let pairs = network.specs().iter().zip(network.views());
        let weights = pairs.map(|(spec, view)| {
            let timed = spec.name.split('.').any(|part| part == "time");
            let own = view.get(replica);
            let own = if timed { own } else { own.to_kind(kind) };
            (spec.name.clone(), own)
        });
        Self {
            weights: weights.collect(),
            kind,
        }
    }

    fn both(&self, name: &str) -> [&Tensor; 2] {
        ["weight", "bias"].map(|kind| &self.weights[&format!("{name}.{kind}")])
    }

    fn conv(&self, x: &Tensor, name: &str, stride: i64) -> Tensor {
        let [weight, bias] = self.both(name);
        x.conv2d(weight, Some(bias), stride, weight.size()[2] / 2, 1, 1)
    }

    fn linear(&self, x: &Tensor, name: &str) -> Tensor {
        let [weight, bias] = self.both(name);
        x.linear(weight, Some(bias))
    }

    /// Norm and SiLU.
    fn active(&self, x: &Tensor, name: &str) -> Tensor {
        let [weight, bias] = self.both(name).map(Some);
        x.group_norm(GROUPS, weight, bias, EPSILON, true).silu()
    }

    fn block(&self, block: &Block, x: &Tensor, time: &Tensor) -> Tensor {
        let name = |part: &str| format!("{}.{part}", block.name);
        let h = self.conv(&self.active(x, &name("first-norm")), &name("first"), 1);
        let time = self.linear(time, &name("time")).to_kind(self.kind);
        let h = h + time.unsqueeze(-1).unsqueeze(-1);
        let h = self.conv(&self.active(&h, &name("second-norm")), &name("second"), 1);
        if block.from == block.to {
            h + x
        } else {
            h + self.conv(x, &name("shortcut"), 1)
        }
    }

    /// What blocks are told of times `[batch]`.
    fn time(&self, t: &Tensor) -> Tensor {
        let half = self.both("time.first")[0].size()[1] / 2;
        let slower = Tensor::arange(half, (Kind::Float, t.device()));
        let turns = (slower * (-SLOWEST.ln() / half as f64)).exp() * TIMES;
        let angles = t.unsqueeze(-1) * turns;
        let waves = Tensor::cat(&[angles.cos(), angles.sin()], -1);
        let inside = self.linear(&waves, "time.first").silu();
        self.linear(&inside, "time.second").silu()
    }
}

impl UNet {
    /// Refuses items that are no images, and sides that cannot be halved and doubled back.
    pub fn check(shape: &[usize]) -> Result<[i64; 3]> {
        let [colours, height, width] = shape[..] else {
            anyhow::bail!(
                "`network.kind` is `unet`, which makes images; the data's items are points of {shape:?} numbers"
            );
        };
        let picture = [colours as i64, height as i64, width as i64];
        let halves = sides(picture[1]).len() as u32 - 1;
        let whole = 1 << halves;
        ensure!(
            height == width && picture[1] % whole == 0 && height >= 4,
            "a U-Net makes square images whose side can be halved down to at most {LEAST_SIDE} pixels; the data's have {width}×{height}"
        );
        Ok(picture)
    }

    /// Numbers in a latent, which is an image of noise.
    pub fn latent(&self) -> i64 {
        self.picture.iter().product()
    }

    fn widths(&self) -> Vec<i64> {
        let sides = sides(self.picture[1]);
        let width = |at| self.channels * if at == 0 { 1 } else { 2 };
        (0..sides.len()).map(width).collect()
    }

    /// Numbers that tell of time.
    fn time(&self) -> i64 {
        4 * self.channels
    }

    fn parts(&self) -> Vec<Part> {
        let widths = self.widths();
        let (mut parts, mut kept, mut width) = (Vec::new(), Vec::new(), self.channels);
        let block = |name, from, to| Part::Block(Block { name, from, to });
        for (side, &to) in widths.iter().enumerate() {
            if side > 0 {
                parts.push(Part::Halve(format!("down.{side}.halved"), width));
            }
            for n in 0..BLOCKS {
                parts.extend([block(format!("down.{side}.{n}"), width, to), Part::Keep]);
                kept.push(to);
                width = to;
            }
        }
        parts.push(block("middle".to_owned(), width, width));
        for (side, &to) in widths.iter().enumerate().rev() {
            for n in 0..BLOCKS {
                let from = width + kept.pop().expect("every block down is kept for one up");
                parts.extend([Part::Join, block(format!("up.{side}.{n}"), from, to)]);
                width = to;
            }
            if side > 0 {
                parts.push(Part::Double(format!("up.{side}.doubled"), width));
            }
        }
        parts
    }

    pub fn specs(&self) -> Vec<Spec> {
        let (colours, channels, time) = (self.picture[0], self.channels, self.time());
        let mut specs = Spec::layer("time.first", &[time, channels]).to_vec();
        specs.extend(Spec::layer("time.second", &[time, time]));
        specs.extend(layer("first", channels, colours, 3));
        for part in self.parts() {
            match part {
                Part::Block(block) => specs.extend(block.specs(time)),
                Part::Halve(name, width) | Part::Double(name, width) => {
                    specs.extend(layer(&name, width, width, 3));
                }
                Part::Keep | Part::Join => {}
            }
        }
        specs.extend(norm_specs("last-norm", channels));
        specs.extend(layer("last", colours, channels, 3).map(|spec| Spec {
            first: First::Constant(0.0),
            ..spec
        }));
        specs
    }

    /// Velocities `[replicas, batch, size]` of images like that at times `[replicas, batch]`; images are computed
    /// in `kind`.
    pub fn velocity(&self, network: &Parameters, x: &Tensor, t: &Tensor, kind: Kind) -> Tensor {
        let of = |replica: i64| {
            let ready = Ready::of(network, replica, kind);
            let [colours, height, width] = self.picture;
            let x = x.get(replica).view([-1, colours, height, width]);
            self.alone(&ready, &x, &t.get(replica))
        };
        let all: Vec<Tensor> = (0..network.replicas() as i64).map(of).collect();
        Tensor::stack(&all, 0)
    }

    fn alone(&self, ready: &Ready, x: &Tensor, t: &Tensor) -> Tensor {
        let time = ready.time(t);
        let mut x = ready.conv(&x.to_kind(ready.kind), "first", 1);
        let mut kept = Vec::new();
        for part in self.parts() {
            x = match part {
                Part::Block(block) => ready.block(&block, &x, &time),
                Part::Halve(name, _) => ready.conv(&x, &name, 2),
                Part::Double(name, _) => {
                    let side = 2 * x.size()[2];
                    ready.conv(&x.upsample_nearest2d([side, side], None, None), &name, 1)
                }
                Part::Keep => {
                    kept.push(x.shallow_clone());
                    x
                }
                Part::Join => Tensor::cat(&[x, kept.pop().expect("a copy was kept")], 1),
            };
        }
        let x = ready.conv(&ready.active(&x, "last-norm"), "last", 1);
        x.to_kind(t.kind()).flatten(1, 3)
    }

    /// Images `[replicas, batch, size]` that latents like that flow to, in 32 bits.
    pub fn flow(&self, network: &Parameters, latent: &Tensor) -> Tensor {
        let mut x = latent.shallow_clone();
        let rows = [latent.size()[0], latent.size()[1]];
        for step in 0..self.steps {
            let at = step as f64 / self.steps as f64;
            let t = Tensor::full(rows, at, (latent.kind(), latent.device()));
            x = &x + self.velocity(network, &x, &t, latent.kind()) / self.steps as f64;
        }
        x.clamp(-1.0, 1.0)
    }

    /// The whole way from `z` in one file.
    pub fn onnx(&self, weights: &Weights) -> Result<Vec<u8>> {
        let mut graph = GraphBuilder::new("generator");
        let z = graph.input("z", &[self.latent() as usize], Element::F32)?;
        let mut x = graph.reshape(&z, &self.picture.map(|side| side as usize))?;
        let mut file = File {
            weights,
            known: HashMap::new(),
            timed: HashMap::new(),
            graph,
        };
        let ready = Ready {
            weights: tensors(weights)?,
            kind: Kind::Float,
        };
        for step in 0..self.steps {
            let t = Tensor::from_slice(&[step as f32 / self.steps as f32]);
            file.timed = no_grad(|| self.timed(&ready, &t))?;
            let velocity = self.velocity_onnx(&mut file, &x, step)?;
            x = file.graph.add(&x, &velocity)?;
        }
        let mut graph = file.graph;
        let x = graph.clip(&x, -1.0, 1.0)?;
        graph.output(&x, "x")?;
        Ok(graph.to_bytes())
    }

    /// Biases of all first convolutions of blocks at a time, with what it adds to them.
    fn timed(&self, ready: &Ready, t: &Tensor) -> Result<HashMap<String, Vec<f32>>> {
        let time = ready.time(t);
        let mut timed = HashMap::new();
        for part in self.parts() {
            if let Part::Block(block) = part {
                let name = format!("{}.first", block.name);
                let added = ready.linear(&time, &format!("{}.time", block.name));
                let bias = added.view(-1) + ready.both(&name)[1];
                timed.insert(name, Vec::try_from(bias)?);
            }
        }
        Ok(timed)
    }

    /// A step's share of the velocity.
    fn velocity_onnx(
        &self,
        file: &mut File<'_>,
        x: &graph::Tensor,
        step: i64,
    ) -> Result<graph::Tensor> {
        let mut x = file.conv(x, "first", 1, step)?;
        let mut kept = Vec::new();
        for part in self.parts() {
            x = match part {
                Part::Block(block) => file.block(&block, &x, step)?,
                Part::Halve(name, _) => file.conv(&x, &name, 2, step)?,
                Part::Double(name, _) => {
                    let x = file.graph.resize_nearest_2x(&x)?;
                    file.conv(&x, &name, 1, step)?
                }
                Part::Keep => {
                    kept.push(x.clone());
                    x
                }
                Part::Join => {
                    let copy = kept.pop().expect("a copy was kept");
                    file.graph.concat(&[&x, &copy], 1)?
                }
            };
        }
        let x = file.active(&x, "last-norm")?;
        // Weight and bias of the last convolution are divided once, in the place of every velocity.
        file.scale("last", 1.0 / self.steps as f32)?;
        file.conv(&x, "last", 1, step)
    }
}

/// Sides of the image on its way down.
fn sides(side: i64) -> Vec<i64> {
    let half = |&side: &i64| (side > LEAST_SIDE).then_some(side / 2);
    std::iter::successors(Some(side), half).collect()
}

fn tensors(weights: &Weights) -> Result<HashMap<String, Tensor>> {
    let tensor = |(name, (shape, values)): (&String, &(Vec<usize>, Vec<f32>))| {
        let shape: Vec<i64> = shape.iter().map(|&side| side as i64).collect();
        let tensor = Tensor::from_slice(values).f_view(shape.as_slice())?;
        Ok((name.clone(), tensor))
    };
    weights.iter().map(tensor).collect()
}

/// A file in the making; weights are written when they are first needed.
struct File<'w> {
    weights: &'w Weights,
    known: HashMap<String, graph::Tensor>,
    /// Biases that this step has for its own.
    timed: HashMap<String, Vec<f32>>,
    graph: GraphBuilder,
}

impl File<'_> {
    fn constant(&mut self, name: &str) -> Result<graph::Tensor> {
        if let Some(known) = self.known.get(name) {
            return Ok(known.clone());
        }
        let made = constant(&mut self.graph, self.weights, name)?;
        self.known.insert(name.to_owned(), made.clone());
        Ok(made)
    }

    /// Writes a layer's weight and bias times a factor.
    fn scale(&mut self, layer: &str, factor: f32) -> Result<()> {
        for kind in ["weight", "bias"] {
            let name = format!("{layer}.{kind}");
            if self.known.contains_key(&name) {
                continue;
            }
            let saved = self.weights.get(&name);
            let (shape, values) =
                saved.ok_or_else(|| anyhow::anyhow!("weight `{name}` is missing"))?;
            let values: Vec<f32> = values.iter().map(|value| value * factor).collect();
            let made = self.graph.constant(&name, shape, &values)?;
            self.known.insert(name, made);
        }
        Ok(())
    }

    fn conv(
        &mut self,
        x: &graph::Tensor,
        name: &str,
        stride: usize,
        step: i64,
    ) -> Result<graph::Tensor> {
        let weight = self.constant(&format!("{name}.weight"))?;
        let bias = match self.timed.remove(name) {
            Some(own) => {
                let at = format!("{name}.bias.{step}");
                self.graph.constant(&at, &[own.len()], &own)?
            }
            None => self.constant(&format!("{name}.bias"))?,
        };
        let pad = self.weights[&format!("{name}.weight")].0[2] / 2;
        let conv = Conv2d {
            weight: &weight,
            bias: Some(&bias),
            stride,
            pad,
            groups: 1,
        };
        Ok(self.graph.conv2d(x, &conv)?)
    }

    fn active(&mut self, x: &graph::Tensor, name: &str) -> Result<graph::Tensor> {
        let scale = self.constant(&format!("{name}.weight"))?;
        let bias = self.constant(&format!("{name}.bias"))?;
        let norm = graph::GroupNorm {
            groups: GROUPS as usize,
            scale: &scale,
            bias: &bias,
            epsilon: EPSILON as f32,
        };
        let x = self.graph.group_norm(x, &norm)?;
        let gate = self.graph.sigmoid(&x)?;
        Ok(self.graph.mul(&x, &gate)?)
    }

    fn block(&mut self, block: &Block, x: &graph::Tensor, step: i64) -> Result<graph::Tensor> {
        let name = |part: &str| format!("{}.{part}", block.name);
        let h = self.active(x, &name("first-norm"))?;
        let h = self.conv(&h, &name("first"), 1, step)?;
        let h = self.active(&h, &name("second-norm"))?;
        let h = self.conv(&h, &name("second"), 1, step)?;
        let other = if block.from == block.to {
            x.clone()
        } else {
            self.conv(x, &name("shortcut"), 1, step)?
        };
        Ok(self.graph.add(&h, &other)?)
    }
}

#[cfg(test)]
mod tests;
