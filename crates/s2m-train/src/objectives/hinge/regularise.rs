//! What keeps a critic from learning its data by heart, each by key: mirrored pictures, DiffAugment, consistency
//! and LeCam.
//!
//! ```text
//! consistency  λ·E(D(x) − D(T(x)))²,    x real, T: mirrored half of the time and moved by up to 1/8 of the side
//! LeCam        λ·(E max(0, D(x) − a_g)² + E max(0, a_r − D(G))²),    a_r, a_g running means of D(x) and D(G)
//! ```
//!
//! References: Zhang et al., "Consistency regularization for generative adversarial networks", 2020; Tseng et al.,
//! "Regularizing generative adversarial networks under limited data", 2021, in the form of its authors' code.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor, no_grad};

use crate::augment::{Augment, Edge};
use crate::diff_augment::{self, Change};
use crate::noise::Draws;
use crate::objectives::mean;
use crate::parameters::{First, Spec};
use crate::trained::Trained;

/// Read from `regularise` in a run file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Regularise {
    /// Mirrors every second real picture, left to right.
    #[serde(default)]
    pub flip: bool,
    /// Changes of all that the critic sees.
    #[serde(default)]
    pub diff_augment: Vec<Change>,
    /// λ of the consistency term; 0 leaves it out.
    #[serde(default)]
    pub consistency: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lecam: Option<Lecam>,
}

/// The LeCam term.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Lecam {
    /// λ.
    pub weight: f64,
    /// Decay of the running means.
    #[serde(default = "decay")]
    pub decay: f64,
    /// Generator steps before the term counts.
    #[serde(default = "from")]
    pub from: u64,
}

fn decay() -> f64 {
    0.99
}

fn from() -> u64 {
    1000
}

impl Regularise {
    pub fn check(&self) -> Result<()> {
        let lecam = self.lecam.map_or(0.0, |lecam| lecam.weight);
        for (name, weight) in [("consistency", self.consistency), ("lecam.weight", lecam)] {
            ensure!(
                weight.is_finite() && weight >= 0.0,
                "`regularise.{name}` is {weight}; it must be 0 or more"
            );
        }
        let decay = self.lecam.map_or(0.0, |lecam| lecam.decay);
        ensure!(
            (0.0..1.0).contains(&decay),
            "`regularise.lecam.decay` is {decay}; it must be from 0 to below 1"
        );
        Ok(())
    }

    /// Uniform numbers for so many real pictures before anyone sees them.
    pub(super) fn real_needs(&self, items: i64) -> i64 {
        if self.flip { items } else { 0 }
    }

    /// Real pictures `[replicas, items, size]` as training draws them.
    pub(super) fn real(&self, x: &Tensor, [.., width]: [i64; 3], draws: &mut Draws) -> Tensor {
        if !self.flip {
            return x.shallow_clone();
        }
        let shape = x.size();
        let mirrored = draws.uniform(shape[1]).lt(0.5).unsqueeze(-1);
        let lines = [shape[0], shape[1], -1, width];
        let other = x.view(lines).flip([3]).view(shape.as_slice());
        other.where_self(&mirrored, x)
    }

    /// Uniform numbers for so many pictures that the critic sees.
    pub(super) fn seen_needs(&self, items: i64) -> i64 {
        diff_augment::needs(&self.diff_augment, items)
    }

    /// Pictures `[replicas, items, size]` as the critic sees them.
    pub(super) fn seen(&self, x: &Tensor, picture: [i64; 3], draws: &mut Draws) -> Tensor {
        diff_augment::apply(&self.diff_augment, x, picture, draws)
    }

    /// `T` of the consistency term, where there is one.
    pub(super) fn consistent(&self, [_, height, width]: [i64; 3]) -> Option<Augment> {
        (self.consistency > 0.0).then_some(Augment {
            flip: true,
            shift: height.min(width) / 8,
            cutout: 0,
            edge: Edge::Mirror,
        })
    }

    /// The running means that LeCam needs, as statistics of the critic.
    pub(super) fn specs(&self) -> Vec<Spec> {
        let spec = |name: &str| Spec {
            name: name.to_owned(),
            shape: vec![1],
            first: First::Statistic(0.0),
        };
        self.lecam.map_or(Vec::new(), |_| MEANS.map(spec).into())
    }
}

/// Names of the running means of scores of real and of generated items.
const MEANS: [&str; 2] = ["lecam.real", "lecam.generated"];

impl Lecam {
    /// The term for every replica, from scores `[replicas, batch]`; its means move on.
    pub(super) fn term(
        &self,
        critic: &Trained,
        critic_steps: i64,
        [real, generated]: [&Tensor; 2],
    ) -> Tensor {
        let views = critic.parameters.specs().iter().zip(critic.weights());
        let running = |name: &str| {
            let mut views = views.clone();
            let found = views.find(|(spec, _)| spec.name == name);
            found.expect("the critic has the means").1
        };
        let [real_mean, generated_mean] = MEANS.map(running);
        let over = |gap: Tensor| mean(&gap.relu().square());
        let term = over(real - generated_mean.copy()) + over(real_mean.copy() - generated);
        no_grad(|| {
            for (running, scores) in [(real_mean, real), (generated_mean, generated)] {
                let now = mean(&scores.detach()).unsqueeze(1);
                let _ = running.shallow_clone().lerp_(&now, 1.0 - self.decay);
            }
        });
        let first = self.from.saturating_mul(critic_steps.unsigned_abs());
        let first = i64::try_from(first).unwrap_or(i64::MAX);
        let counts = critic.optimizer.taken().ge(first).to_kind(Kind::Float);
        term * counts * self.weight
    }
}
