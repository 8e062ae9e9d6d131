//! BigGAN's generator and critic for pictures of 28, 32, 64 and 128 pixels a side, by one rule.
//!
//! ```text
//! side   generator: linear to 4×4, then blocks that double     critic: blocks that halve, then flat ones
//!   28   4·w → 4 → 4, from 7×7                                 as for 32
//!   32   4·w → 4 → 4 → 4                                       colours → 2·w → 2, then 2, 2
//!   64   16·w → 8 → 4 → 2 → 1                                  colours → w → 2 → 4 → 8, then 16
//!  128   16·w → 16 → 8 → 4 → 2 → 1                             colours → w → 2 → 4 → 8 → 16, then 16
//! ```
//!
//! `w` is the width, `channels` or `critic-channels` in a run file. Every layer has a spectral norm and starts
//! orthogonal. Attention, where asked for, stands at half the picture's side. Replicas run one after the other.
//! References: Brock, Donahue and Simonyan, "Large scale GAN training for high fidelity natural image synthesis",
//! 2019; widths, chunks and the place of attention as StudioGAN's run files have them for CIFAR-10, Tiny ImageNet
//! and ImageNet.

mod attention;
pub mod critic;
pub mod generator;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use anyhow::{Result, ensure};
use tch::{Kind, Tensor};

use super::channels_last;
use super::spectral::{self, Power};
use crate::parameters::Parameters;

/// Sides of pictures that the rule knows.
pub const SIDES: [i64; 4] = [28, 32, 64, 128];

/// Pixels a side after the generator's first layer.
fn first_side(side: i64) -> i64 {
    match side {
        28 => 7,
        _ => 4,
    }
}

/// Widths in units of `channels` around the generator's blocks, for a side in [`SIDES`].
fn generator_widths(side: i64) -> &'static [i64] {
    match side {
        28 => &[4, 4, 4],
        32 => &[4, 4, 4, 4],
        64 => &[16, 8, 4, 2, 1],
        _ => &[16, 16, 8, 4, 2, 1],
    }
}

/// Widths in units of `critic-channels` behind the critic's blocks, and how many of the first ones halve.
fn critic_widths(side: i64) -> (&'static [i64], usize) {
    match side {
        28 | 32 => (&[2, 2, 2, 2], 2),
        64 => (&[1, 2, 4, 8, 16], 4),
        _ => (&[1, 2, 4, 8, 16, 16], 5),
    }
}

/// Parts of equal size that a latent is cut into: one for the first layer, one for every block.
pub fn chunks(side: i64) -> i64 {
    generator_widths(side).len() as i64
}

/// Refuses pictures and sizes that the rule has no networks for.
pub fn check(picture: &[usize], latent: i64, attention_width: Option<i64>) -> Result<[i64; 3]> {
    let sides: Vec<i64> = picture.iter().map(|&side| side as i64).collect();
    let known = |side: i64| SIDES.contains(&side);
    let [colours, height, width] = sides[..] else {
        anyhow::bail!(
            "`network.kind` is `biggan`, which makes pictures; the data's items are points of {picture:?} numbers"
        );
    };
    ensure!(
        height == width && known(height),
        "BigGAN makes pictures of 28×28, 32×32, 64×64 or 128×128 pixels; the data's have {width}×{height}"
    );
    let parts = chunks(height);
    ensure!(
        latent % parts == 0,
        "`network.latent` is {latent}; pictures of {height} pixels take a multiple of {parts}, a part for the first layer and one for each block"
    );
    if let Some(channels) = attention_width {
        ensure!(
            channels >= 8,
            "`network.attention` needs at least 8 channels where it stands, and there are {channels}\nhint: more `channels` and `critic-channels`, or attention = false"
        );
    }
    Ok([colours, height, width])
}

/// One replica's weights as its layers use them: spectral norms are taken, kernels lie as convolutions read them.
pub struct Ready(HashMap<String, Tensor>);

impl Ready {
    /// All replicas of a network; kernels of convolutions in the given kind of number.
    pub fn all(network: &Parameters, power: Power, kind: Kind) -> Vec<Self> {
        let specs = network.specs();
        let parts: Vec<Vec<Tensor>> = network.views().iter().map(|view| view.unbind(0)).collect();
        let of = |replica: usize| {
            let pairs = specs.iter().enumerate().map(|(at, spec)| {
                let mut tensor = parts[at][replica].shallow_clone();
                if let Some(u) = spectral::of(specs, spec) {
                    tensor = spectral::normed(&tensor, &parts[u][replica], power);
                }
                if tensor.dim() == 4 {
                    tensor = channels_last(&tensor, kind);
                }
                (spec.name.clone(), tensor)
            });
            Self(pairs.collect())
        };
        (0..network.replicas()).map(of).collect()
    }

    fn get(&self, name: &str) -> &Tensor {
        self.0.get(name).unwrap_or_else(|| {
            panic!("a network is only run with its own weights, and they have no `{name}`")
        })
    }

    /// The layer `name` as a convolution that keeps the picture's size.
    fn conv(&self, x: &Tensor, name: &str) -> Tensor {
        let kernel = self.get(&format!("{name}.weight"));
        let bias = self.0.get(&format!("{name}.bias"));
        let bias = bias.map(|bias| bias.to_kind(kernel.kind()));
        x.conv2d(kernel, bias, 1, kernel.size()[2] / 2, 1, 1)
    }

    /// The layer `name` on rows `[batch, in]`.
    fn linear(&self, x: &Tensor, name: &str) -> Tensor {
        let weight = self.get(&format!("{name}.weight"));
        x.linear(weight, self.0.get(&format!("{name}.bias")))
    }
}

/// One replica after the other: `[replicas, batch, …]` from what each makes of its own rows.
fn each(ready: &[Ready], one: impl Fn(usize, &Ready) -> Tensor) -> Tensor {
    let all: Vec<Tensor> = ready
        .iter()
        .enumerate()
        .map(|(replica, ready)| one(replica, ready))
        .collect();
    Tensor::stack(&all, 0)
}
