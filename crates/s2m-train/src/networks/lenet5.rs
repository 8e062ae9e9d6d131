//! LeNet5 on 28×28 pictures with ReLU and max pooling, up to its 84 features.
//!
//! ```text
//! 1×28×28 ─5×5, pad 2→ 6×28×28 ─pool→ 6×14×14 ─5×5→ 16×10×10 ─pool→ 400 → 120 → 84
//! ```
//!
//! Replicas run as groups of one convolution, so that all of them are one call.
//! Reference: LeCun et al., "Gradient-based learning applied to document recognition", 1998.

use anyhow::Result;
use s2m_model::onnx::graph::{self, Conv2d, GraphBuilder};
use tch::Tensor;

use super::{constant, linear, linear_onnx};
use crate::parameters::{Spec, Weights};

/// Side of the pictures.
pub const SIDE: i64 = 28;

/// Width of the features.
pub const FEATURES: i64 = 84;

pub fn specs() -> Vec<Spec> {
    [
        Spec::layer("conv1", &[6, 1, 5, 5]),
        Spec::layer("conv2", &[16, 6, 5, 5]),
        Spec::layer("full1", &[120, 400]),
        Spec::layer("full2", &[FEATURES, 120]),
    ]
    .concat()
}

/// Features `[replicas, batch, 84]` of pictures `[replicas, batch, 784]`.
pub fn forward(weights: &[Tensor], x: &Tensor) -> Tensor {
    let (replicas, batch) = (x.size()[0], x.size()[1]);
    let grouped = x
        .view([replicas, batch, SIDE, SIDE])
        .transpose(0, 1)
        .contiguous();
    let first = convolve(&grouped, &weights[0], &weights[1], 2);
    let second = convolve(&first, &weights[2], &weights[3], 0);
    let flat = second.view([batch, replicas, 400]).transpose(0, 1);
    let hidden = linear(&flat, &weights[4], &weights[5]).relu();
    linear(&hidden, &weights[6], &weights[7]).relu()
}

/// Convolution, ReLU and pooling of `[batch, replicas·channels, side, side]`.
fn convolve(x: &Tensor, weight: &Tensor, bias: &Tensor, padding: i64) -> Tensor {
    let size = weight.size();
    let weight = weight.reshape([size[0] * size[1], size[2], size[3], size[4]]);
    let bias = bias.reshape([-1]);
    x.conv2d(&weight, Some(bias), 1, padding, 1, size[0])
        .relu()
        .max_pool2d(2, 2, 0, 1, false)
}

/// The same layers in a graph, with every name behind `prefix`.
pub fn onnx(
    graph: &mut GraphBuilder,
    x: &graph::Tensor,
    weights: &Weights,
    prefix: &str,
) -> Result<graph::Tensor> {
    let first = convolve_onnx(graph, x, weights, &format!("{prefix}conv1"), 2)?;
    let second = convolve_onnx(graph, &first, weights, &format!("{prefix}conv2"), 0)?;
    let flat = graph.flatten(&second)?;
    let hidden = linear_onnx(graph, &flat, weights, &format!("{prefix}full1"))?;
    let hidden = graph.relu(&hidden)?;
    let features = linear_onnx(graph, &hidden, weights, &format!("{prefix}full2"))?;
    Ok(graph.relu(&features)?)
}

fn convolve_onnx(
    graph: &mut GraphBuilder,
    x: &graph::Tensor,
    weights: &Weights,
    name: &str,
    pad: usize,
) -> Result<graph::Tensor> {
    let weight = constant(graph, weights, &format!("{name}.weight"))?;
    let bias = constant(graph, weights, &format!("{name}.bias"))?;
    let conv = Conv2d {
        weight: &weight,
        bias: Some(&bias),
        stride: 1,
        pad,
        groups: 1,
    };
    let y = graph.conv2d(x, &conv)?;
    let y = graph.relu(&y)?;
    Ok(graph.max_pool(&y, 2, 2)?)
}
