//! BigGAN's generator: a linear layer to 4×4 pixels (7×7 for 28), blocks that double the side, and a last convolution.
//!
//! ```text
//! latent  cut into chunks z₀ … z_b;  y_i = z_i, or (shared embedding of the class, z_i)
//! norm    batch norm of x, times 1 + A·y, plus B·y
//! block   x → norm → ReLU → doubled → 3×3 → norm → ReLU → 3×3,  plus x → 1×1 → doubled
//! whole   z₀ → linear → blocks with y₁ … y_b → batch norm → ReLU → 3×3 → tanh
//! ```
//!
//! A class reaches the network as a code of one number per class, one-hot or any mixture; its embedding is the
//! code times a table. Training goes by the statistics of each batch; what a generator needs after it is measured
//! once its weights are final ([`Statistics::Measured`]). In a file σ is folded into the weights, and every norm
//! inside the blocks is one scale and one shift per item, each a linear layer of `y`.

use anyhow::Result;
use s2m_model::onnx::graph::{self, BatchNorm, Conv2d, Element, GraphBuilder};
use tch::{Kind, Tensor};

use super::{Ready, attention, channels_last, chunks, each, first_side, generator_widths};
use crate::networks::constant;
use crate::networks::spectral::{self, Power};
use crate::parameters::{First, Parameters, Spec, Weights};

/// Added to variances.
const EPSILON: f64 = 1e-4;

/// What batch norms go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistics {
    /// The batch; nothing is kept.
    Batch,
    /// The batch, which also enters the kept statistics as number so many, counted from 0; these become the
    /// means over all batches of their means and of their unbiased variances.
    Measured(u32),
    /// The kept ones.
    Kept,
}

/// The network for pictures of one shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generator {
    /// Colours, height, width.
    pub picture: [i64; 3],
    /// The unit of all widths.
    pub channels: i64,
    pub latent: i64,
    /// Numbers in the class code; 0 for an unconditional generator.
    pub codes: i64,
    /// Numbers in the shared embedding of a class.
    pub shared: i64,
    pub attention: bool,
}

/// A block's name and its width before and after.
struct Block {
    name: String,
    from: i64,
    to: i64,
}

impl Block {
    fn specs(&self, condition: i64) -> Vec<Spec> {
        let name = |part: &str| format!("{}.{part}", self.name);
        let (from, to) = (self.from, self.to);
        let mut specs = norm_specs(&name("first-norm"), from, condition);
        specs.extend(spectral::specs_with_bias(&name("first"), &[to, from, 3, 3]));
        specs.extend(norm_specs(&name("second-norm"), to, condition));
        specs.extend(spectral::specs_with_bias(&name("second"), &[to, to, 3, 3]));
        specs.extend(spectral::specs_with_bias(
            &name("shortcut"),
            &[to, from, 1, 1],
        ));
        specs
    }

    fn forward(&self, ready: &Ready, x: &Tensor, y: &Tensor, statistics: Statistics) -> Tensor {
        let name = |part: &str| format!("{}.{part}", self.name);
        let h = norm(ready, &name("first-norm"), (x, y), statistics).relu();
        let h = ready.conv(&doubled(&h), &name("first"));
        let h = norm(ready, &name("second-norm"), (&h, y), statistics).relu();
        // A 1×1 convolution and doubling may change places, and the smaller picture is cheaper.
        ready.conv(&h, &name("second")) + doubled(&ready.conv(x, &name("shortcut")))
    }

    fn onnx(
        &self,
        graph: &mut GraphBuilder,
        x: &graph::Tensor,
        y: &graph::Tensor,
        weights: &Weights,
    ) -> Result<graph::Tensor> {
        let name = |part: &str| format!("{}.{part}", self.name);
        let h = norm_onnx(graph, (x, y), weights, &name("first-norm"))?;
        let h = graph.relu(&h)?;
        let h = graph.resize_nearest_2x(&h)?;
        let h = conv_onnx(graph, &h, weights, &name("first"))?;
        let h = norm_onnx(graph, (&h, y), weights, &name("second-norm"))?;
        let h = graph.relu(&h)?;
        let h = conv_onnx(graph, &h, weights, &name("second"))?;
        let shortcut = conv_onnx(graph, x, weights, &name("shortcut"))?;
        let shortcut = graph.resize_nearest_2x(&shortcut)?;
        Ok(graph.add(&h, &shortcut)?)
    }
}

fn statistics_specs(name: &str, channels: i64) -> [Spec; 2] {
    [("mean", 0.0), ("var", 1.0)].map(|(kind, first)| Spec {
        name: format!("{name}.{kind}"),
        shape: vec![channels],
        first: First::Statistic(first),
    })
}

/// A norm of so many channels whose scale and shift come from `condition` numbers.
fn norm_specs(name: &str, channels: i64, condition: i64) -> Vec<Spec> {
    let linear = |part: &str| spectral::specs(&format!("{name}.{part}"), &[channels, condition]);
    let mut specs = [linear("scale"), linear("shift")].concat();
    specs.extend(statistics_specs(name, channels));
    specs
}

fn batch_norm(
    ready: &Ready,
    name: &str,
    x: &Tensor,
    own: Option<[&Tensor; 2]>,
    statistics: Statistics,
) -> Tensor {
    let [mean, var] = ["mean", "var"].map(|kind| Some(ready.get(&format!("{name}.{kind}"))));
    let (kept, training, share) = match statistics {
        Statistics::Batch => ([None, None], true, 0.0),
        Statistics::Measured(before) => ([mean, var], true, 1.0 / (f64::from(before) + 1.0)),
        Statistics::Kept => ([mean, var], false, 0.0),
    };
    let [scale, bias] = own.map_or([None, None], |own| own.map(Some));
    let [mean, var] = kept;
    x.batch_norm(scale, bias, mean, var, training, share, EPSILON, true)
}

fn norm(ready: &Ready, name: &str, (x, y): (&Tensor, &Tensor), statistics: Statistics) -> Tensor {
    let of = |part: &str| {
        let row = ready.linear(y, &format!("{name}.{part}"));
        row.unsqueeze(-1).unsqueeze(-1) // [batch, channels, 1, 1]
    };
    let scale = (of("scale") + 1.0).to_kind(x.kind());
    let shift = of("shift").to_kind(x.kind());
    shift.addcmul(&batch_norm(ready, name, x, None, statistics), &scale)
}

fn doubled(x: &Tensor) -> Tensor {
    let sides = [2, 3].map(|axis| 2 * x.size()[axis]);
    x.upsample_nearest2d(sides, None, None)
}

impl Generator {
    fn blocks(&self) -> Vec<Block> {
        let widths = generator_widths(self.picture[1]).windows(2).enumerate();
        let block = |(n, pair): (usize, &[i64])| Block {
            name: format!("blocks.{n}"),
            from: pair[0] * self.channels,
            to: pair[1] * self.channels,
        };
        widths.map(block).collect()
    }

    /// Numbers in one chunk of the latent.
    fn first_side(&self) -> i64 {
        first_side(self.picture[1])
    }

    fn chunk(&self) -> i64 {
        self.latent / chunks(self.picture[1])
    }

    /// Numbers that a block's norms are told.
    fn condition(&self) -> i64 {
        self.chunk() + if self.codes > 0 { self.shared } else { 0 }
    }

    /// Channels where attention stands: before the last block.
    pub fn attended(&self) -> i64 {
        self.blocks().last().map_or(0, |block| block.from)
    }

    pub fn specs(&self) -> Vec<Spec> {
        let (blocks, condition) = (self.blocks(), self.condition());
        let mut specs = Vec::new();
        if self.codes > 0 {
            specs.push(Spec {
                name: "shared.weight".to_owned(),
                shape: vec![self.codes, self.shared],
                first: First::Orthogonal,
            });
        }
        let first = blocks[0].from * self.first_side().pow(2);
        specs.extend(spectral::specs_with_bias("first", &[first, self.chunk()]));
        specs.extend(blocks.iter().flat_map(|block| block.specs(condition)));
        if self.attention {
            specs.extend(attention::specs(self.attended()));
        }
        let last = blocks[blocks.len() - 1].to;
        for (kind, value) in [("weight", 1.0), ("bias", 0.0)] {
            specs.push(Spec {
                name: format!("last-norm.{kind}"),
                shape: vec![last],
                first: First::Constant(value),
            });
        }
        specs.extend(statistics_specs("last-norm", last));
        let kernel = [self.picture[0], last, 3, 3];
        specs.extend(spectral::specs_with_bias("last", &kernel));
        specs
    }

    /// Pictures `[replicas, batch, size]` from latents `[replicas, batch, latent]` and codes
    /// `[replicas, batch, codes]`; all after the first layer is computed in `kind`.
    pub fn forward(
        &self,
        ready: &[Ready],
        (latent, code): (&Tensor, Option<&Tensor>),
        (statistics, kind): (Statistics, Kind),
    ) -> Tensor {
        each(ready, |replica, ready| {
            let replica = replica as i64;
            let code = code.map(|code| code.get(replica));
            let drawn = (&latent.get(replica), code.as_ref());
            self.alone(ready, drawn, (statistics, kind))
        })
    }

    /// Finished weights, by the statistics that were kept, in 32 bits.
    pub fn evaluate(&self, weights: &Parameters, latent: &Tensor, code: Option<&Tensor>) -> Tensor {
        let kind = latent.kind();
        let ready = Ready::all(weights, Power::Kept, kind);
        self.forward(&ready, (latent, code), (Statistics::Kept, kind))
    }

    fn alone(
        &self,
        ready: &Ready,
        (latent, code): (&Tensor, Option<&Tensor>),
        (statistics, kind): (Statistics, Kind),
    ) -> Tensor {
        let blocks = self.blocks();
        let parts = latent.split(self.chunk(), 1);
        let shared = code.map(|code| code.matmul(ready.get("shared.weight")));
        let first = ready.linear(&parts[0], "first");
        let side = self.first_side();
        let first = first.view([-1, blocks[0].from, side, side]);
        let mut x = channels_last(&first, kind);
        for (n, (block, part)) in blocks.iter().zip(&parts[1..]).enumerate() {
            let y = match &shared {
                Some(shared) => Tensor::cat(&[shared, part], 1),
                None => part.shallow_clone(),
            };
            if self.attention && n + 1 == blocks.len() {
                x = attention::forward(ready, &x);
            }
            x = block.forward(ready, &x, &y, statistics);
        }
        let own = ["weight", "bias"].map(|kind| ready.get(&format!("last-norm.{kind}")));
        let x = batch_norm(ready, "last-norm", &x, Some(own), statistics).relu();
        let x = ready.conv(&x, "last").to_kind(latent.kind()).tanh();
        x.contiguous().flatten(1, 3)
    }

    /// The finished generator from `z`, and from a class number `c` where `rows` holds the code of every class.
    pub fn onnx(&self, weights: &Weights, rows: Option<&[Vec<f32>]>) -> Result<Vec<u8>> {
        let mut graph = GraphBuilder::new("generator");
        let z = graph.input("z", &[self.latent as usize], Element::F32)?;
        let shared = match rows {
            None => None,
            Some(rows) => {
                let class = graph.input("c", &[], Element::I64)?;
                let table = self.embedded(weights, rows)?;
                let shape = [rows.len(), self.shared as usize];
                let table = graph.constant("shared.weight", &shape, &table)?;
                Some(graph.gather(&table, &class)?)
            }
        };
        let (blocks, chunk) = (self.blocks(), self.chunk() as usize);
        let first = graph.slice(&z, 1, 0..chunk)?;
        let (shape, values) = spectral::folded(weights, "first")?;
        let weight = graph.constant("first.weight", &shape, &values)?;
        let bias = constant(&mut graph, weights, "first.bias")?;
        let x = graph.linear(&first, &weight, &bias)?;
        let mut side = self.first_side() as usize;
        let mut x = graph.reshape(&x, &[blocks[0].from as usize, side, side])?;
        for (n, block) in blocks.iter().enumerate() {
            let part = graph.slice(&z, 1, (n + 1) * chunk..(n + 2) * chunk)?;
            let y = match &shared {
                Some(shared) => graph.concat(&[shared, &part], 1)?,
                None => part,
            };
            if self.attention && n + 1 == blocks.len() {
                let shape = [block.from as usize, side, side];
                x = attention::onnx(&mut graph, &x, weights, shape)?;
            }
            x = block.onnx(&mut graph, &x, &y, weights)?;
            side *= 2;
        }
        let mut saved = |name: &str| constant(&mut graph, weights, &format!("last-norm.{name}"));
        let (scale, bias) = (saved("weight")?, saved("bias")?);
        let (mean, var) = (saved("mean")?, saved("var")?);
        let last = BatchNorm {
            scale: &scale,
            bias: &bias,
            mean: &mean,
            var: &var,
            epsilon: EPSILON as f32,
        };
        let x = graph.batch_norm(&x, &last)?;
        let x = graph.relu(&x)?;
        let x = conv_onnx(&mut graph, &x, weights, "last")?;
        let x = graph.tanh(&x)?;
        graph.output(&x, "x")?;
        Ok(graph.to_bytes())
    }

    /// The embedding of every row of codes, row by row.
    fn embedded(&self, weights: &Weights, rows: &[Vec<f32>]) -> Result<Vec<f32>> {
        let (_, table) = weights
            .get("shared.weight")
            .ok_or_else(|| anyhow::anyhow!("weight `shared.weight` is missing"))?;
        let code = Tensor::from_slice(&rows.concat()).view([-1, self.codes]);
        let table = Tensor::from_slice(table).view([-1, self.shared]);
        Ok(Vec::try_from(code.matmul(&table).view(-1))?)
    }
}

fn conv_onnx(
    graph: &mut GraphBuilder,
    x: &graph::Tensor,
    weights: &Weights,
    name: &str,
) -> Result<graph::Tensor> {
    let (shape, values) = spectral::folded(weights, name)?;
    let weight = graph.constant(&format!("{name}.weight"), &shape, &values)?;
    let bias = constant(graph, weights, &format!("{name}.bias"))?;
    let conv = Conv2d {
        weight: &weight,
        bias: Some(&bias),
        stride: 1,
        pad: shape[2] / 2,
        groups: 1,
    };
    Ok(graph.conv2d(x, &conv)?)
}

/// A norm inside a block as `x·s + t`. With `r = 1 / √(var + ε)`, row by row:
///
/// ```text
/// s = r·A·y + r        t = (B − mean·r·A)·y − mean·r
/// ```
fn norm_onnx(
    graph: &mut GraphBuilder,
    (x, y): (&graph::Tensor, &graph::Tensor),
    weights: &Weights,
    name: &str,
) -> Result<graph::Tensor> {
    let (shape, scale) = spectral::folded(weights, &format!("{name}.scale"))?;
    let (_, shift) = spectral::folded(weights, &format!("{name}.shift"))?;
    let statistic = |kind: &str| -> Result<&Vec<f32>> {
        let name = format!("{name}.{kind}");
        let saved = weights.get(&name);
        Ok(&saved
            .ok_or_else(|| anyhow::anyhow!("weight `{name}` is missing"))?
            .1)
    };
    let (mean, var) = (statistic("mean")?, statistic("var")?);
    let factor = |channel: usize| 1.0 / (f64::from(var[channel]) + EPSILON).sqrt();
    let (mut by_scale, mut by_shift) = (Vec::new(), Vec::new());
    let (mut first_scale, mut first_shift) = (Vec::new(), Vec::new());
    let rows = scale
        .chunks_exact(shape[1])
        .zip(shift.chunks_exact(shape[1]));
    for (channel, (scale, shift)) in rows.enumerate() {
        let (r, mean) = (factor(channel), f64::from(mean[channel]));
        by_scale.extend(scale.iter().map(|a| (r * f64::from(*a)) as f32));
        let pairs = scale.iter().zip(shift);
        by_shift.extend(pairs.map(|(a, b)| (f64::from(*b) - mean * r * f64::from(*a)) as f32));
        first_scale.push(r as f32);
        first_shift.push((-mean * r) as f32);
    }
    let channels = shape[0];
    let mut linear = |part: &str, values: &[f32], bias: &[f32]| -> Result<graph::Tensor> {
        let weight = graph.constant(&format!("{name}.{part}.weight"), &shape, values)?;
        let bias = graph.constant(&format!("{name}.{part}.bias"), &[channels], bias)?;
        let row = graph.linear(y, &weight, &bias)?;
        Ok(graph.reshape(&row, &[channels, 1, 1])?)
    };
    let s = linear("scale", &by_scale, &first_scale)?;
    let t = linear("shift", &by_shift, &first_shift)?;
    let x = graph.mul(x, &s)?;
    Ok(graph.add(&x, &t)?)
}
