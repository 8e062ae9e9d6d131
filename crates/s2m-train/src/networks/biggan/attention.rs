//! Attention over a picture: every pixel takes up a mixture of what all others hold.
//!
//! ```text
//! x + s·O(V(x)·softmax(Q(x)ᵀK(x))ᵀ)    Q, K: 1×1 to c/8 channels, V: to c/2, O: back to c; K and V halved
//! ```
//!
//! `s` starts at 0. Reference: Zhang et al., "Self-attention generative adversarial networks", 2019.

use anyhow::Result;
use s2m_model::onnx::graph::{self, Conv2d, GraphBuilder};
use tch::Tensor;

use super::Ready;
use crate::networks::{constant, spectral};
use crate::parameters::{First, Spec, Weights};

/// Weights for pictures of so many channels.
pub(super) fn specs(channels: i64) -> Vec<Spec> {
    let mut specs: Vec<Spec> = parts(channels)
        .iter()
        .flat_map(|(name, from, to)| spectral::specs(name, &[*to, *from, 1, 1]))
        .collect();
    specs.push(Spec {
        name: STRENGTH.to_owned(),
        shape: vec![1],
        first: First::Constant(0.0),
    });
    specs
}

const STRENGTH: &str = "attention.strength";

fn parts(channels: i64) -> [(&'static str, i64, i64); 4] {
    [
        ("attention.query", channels, channels / 8),
        ("attention.key", channels, channels / 8),
        ("attention.value", channels, channels / 2),
        ("attention.out", channels / 2, channels),
    ]
}

/// `x` is `[batch, channels, height, width]`.
pub(super) fn forward(ready: &Ready, x: &Tensor) -> Tensor {
    let (batch, channels, height, width) = x.size4().expect("pictures have four axes");
    let halved = |name| ready.conv(x, name).max_pool2d(2, 2, 0, 1, false);
    let query = ready.conv(x, "attention.query").flatten(2, 3); // [batch, c/8, pixels]
    let key = halved("attention.key").flatten(2, 3); // [batch, c/8, pixels/4]
    let value = halved("attention.value").flatten(2, 3); // [batch, c/2, pixels/4]
    let share = query.transpose(1, 2).matmul(&key).softmax(-1, x.kind());
    let mixed = value
        .matmul(&share.transpose(1, 2))
        .view([batch, channels / 2, height, width]);
    let strength = ready.get(STRENGTH).to_kind(x.kind());
    x + ready.conv(&mixed, "attention.out") * strength
}

/// The same in a graph; `shape` is channels, height, width.
pub(super) fn onnx(
    graph: &mut GraphBuilder,
    x: &graph::Tensor,
    weights: &Weights,
    [channels, height, width]: [usize; 3],
) -> Result<graph::Tensor> {
    let conv = |graph: &mut GraphBuilder, x: &graph::Tensor, name: &str| -> Result<graph::Tensor> {
        let (shape, values) = spectral::folded(weights, name)?;
        let weight = graph.constant(&format!("{name}.weight"), &shape, &values)?;
        let conv = Conv2d {
            weight: &weight,
            bias: None,
            stride: 1,
            pad: 0,
            groups: 1,
        };
        Ok(graph.conv2d(x, &conv)?)
    };
    let pixels = height * width;
    let query = conv(graph, x, "attention.query")?;
    let query = graph.reshape(&query, &[channels / 8, pixels])?;
    let query = graph.transpose(&query, &[0, 2, 1])?;
    let key = conv(graph, x, "attention.key")?;
    let key = graph.max_pool(&key, 2, 2)?;
    let key = graph.reshape(&key, &[channels / 8, pixels / 4])?;
    let value = conv(graph, x, "attention.value")?;
    let value = graph.max_pool(&value, 2, 2)?;
    let value = graph.reshape(&value, &[channels / 2, pixels / 4])?;
    let share = graph.matmul(&query, &key)?;
    let share = graph.softmax(&share, 2)?;
    let share = graph.transpose(&share, &[0, 2, 1])?;
    let mixed = graph.matmul(&value, &share)?;
    let mixed = graph.reshape(&mixed, &[channels / 2, height, width])?;
    let out = conv(graph, &mixed, "attention.out")?;
    let strength = constant(graph, weights, STRENGTH)?;
    let out = graph.mul(&out, &strength)?;
    Ok(graph.add(x, &out)?)
}
