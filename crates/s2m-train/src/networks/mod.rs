//! The networks, one file each: `forward` in libtorch and the same layers as ONNX side by side.
//!
//! Every tensor has the replica axis first: items are `[replicas, batch, …]`.

pub mod balance;
pub mod biggan;
pub mod classifier;
pub mod generator;
pub mod given;
pub mod lenet5;
pub mod mlp;
pub mod mobilenet_v2;
pub mod resnet9;
pub mod spectral;
pub mod student;
pub mod unet;

use anyhow::{Context as _, Result};
use s2m_model::onnx::graph::{self, GraphBuilder};
use tch::{Kind, Tensor};

use crate::parameters::Weights;

/// What batch norms go by; networks without them are the same in both modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The mean and variance of the batch, which also move the running ones, as in PyTorch.
    Training,
    /// The running mean and variance.
    Evaluation,
}

/// `x·Wᵀ + b` for every replica: `x` is `[replicas, batch, in]`, `W` is `[replicas, out, in]`.
pub fn linear(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Tensor {
    bias.unsqueeze(1)
        .baddbmm(x, &weight.transpose(1, 2), 1.0, 1.0)
}

/// `[n, channels, height, width]` in another kind of number, the channels of a pixel side by side in memory:
/// tensor cores take them so, and other layouts are turned for them at every call.
fn channels_last(x: &Tensor, kind: Kind) -> Tensor {
    x.permute([0, 2, 3, 1])
        .to_kind(kind)
        .contiguous()
        .permute([0, 3, 1, 2])
}

/// The graph's constant for a saved weight.
pub fn constant(graph: &mut GraphBuilder, weights: &Weights, name: &str) -> Result<graph::Tensor> {
    let (shape, values) = weights
        .get(name)
        .with_context(|| format!("weight `{name}` is missing"))?;
    Ok(graph.constant(name, shape, values)?)
}

/// [`linear`] in a graph, from the saved weights `name.weight` and `name.bias`.
pub fn linear_onnx(
    graph: &mut GraphBuilder,
    x: &graph::Tensor,
    weights: &Weights,
    name: &str,
) -> Result<graph::Tensor> {
    let weight = constant(graph, weights, &format!("{name}.weight"))?;
    let bias = constant(graph, weights, &format!("{name}.bias"))?;
    Ok(graph.linear(x, &weight, &bias)?)
}
