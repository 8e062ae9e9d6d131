//! The network of label sets: a trunk, one output per set (`joint`), and the class of real items (`class`).
//!
//! Where there are set outputs they alone train the trunk. The `class` head then learns the shown labels from the trunk's
//! features as they stand, so that no shown label is learnt by heart through it. Without set outputs it is a plain class
//! network.

use tch::Tensor;

use super::classifier::Trunk;
use super::{Mode, linear};
use crate::parameters::Spec;

/// The network; see the head of this file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Student {
    pub trunk: Trunk,
    pub classes: i64,
    /// Outputs per label set; none for a class network.
    pub sets: Option<i64>,
}

/// What it says about a batch.
pub struct Said {
    /// `[replicas, batch, classes]`
    pub class: Tensor,
    /// `[replicas, batch, sets]`
    pub joint: Option<Tensor>,
}

/// Prefix of the trunk's weights.
pub const TRUNK: &str = "trunk.";

impl Student {
    pub fn specs(&self) -> Vec<Spec> {
        let features = self.trunk.features();
        let mut specs = self.trunk.specs(TRUNK);
        specs.extend(Spec::layer("class", &[self.classes, features]));
        if let Some(sets) = self.sets {
            specs.extend(Spec::layer("joint", &[sets, features]));
        }
        specs
    }

    pub fn forward(&self, weights: &[Tensor], x: &Tensor, mode: Mode) -> Said {
        let heads = if self.sets.is_some() { 4 } else { 2 };
        let (trunk, heads) = weights.split_at(weights.len() - heads);
        let features = self.trunk.forward(trunk, x, mode);
        let [class, joint @ ..] = &heads.chunks_exact(2).collect::<Vec<_>>()[..] else {
            unreachable!("there is a class head");
        };
        match joint {
            [] => Said {
                class: linear(&features, &class[0], &class[1]),
                joint: None,
            },
            [joint, ..] => Said {
                class: linear(&features.detach(), &class[0], &class[1]),
                joint: Some(linear(&features, &joint[0], &joint[1])),
            },
        }
    }
}
