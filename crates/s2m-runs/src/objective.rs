//! Which game a GAN plays, and its constants; `objective` in a run file of `gan`.
//!
//! Formulae and references stand with the objectives themselves, in `s2m-train/src/objectives`.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ensure};

/// Which objective, and its constants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ObjectiveSettings {
    /// Wasserstein GAN with gradient penalty.
    WganGp(WganGp),
    /// The same on labels, with a projection critic.
    Conditional(Conditional),
    /// A generator conditioned on the class posterior of real items.
    CpGan(CpGan),
    /// Two generators on positive and unlabelled items.
    GenPu(GenPu),
    /// Least squares with items to make and items to avoid.
    RumiLsgan(RumiLsgan),
    /// The hinge GAN on BigGAN.
    Hinge(Hinge),
    /// The same on labels, with a projection critic.
    HingeProjection(Hinge),
    /// The same on labels, with class logits.
    HingeAcGan(HingeAcGan),
    /// CP-GAN on BigGAN.
    HingeCpGan(HingeCpGan),
    /// Flow matching on a U-Net, which has no critic.
    Flow(Flow),
}

/// Constants of `wgan-gp`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct WganGp {
    /// Critic steps before each generator step.
    pub critic_steps: i64,
    /// λ.
    pub penalty: f64,
}

/// Constants of `conditional`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Conditional {
    /// Critic steps before each generator step.
    pub critic_steps: i64,
    /// λ.
    pub penalty: f64,
}

/// Constants of `cp-gan`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CpGan {
    /// Critic steps before each generator step.
    pub critic_steps: i64,
    /// λ.
    pub penalty: f64,
    /// λ_c.
    pub class_weight: f64,
    /// λ_g.
    pub posterior_weight: f64,
}

/// Constants of `gen-pu`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GenPu {
    /// Discriminator steps before each generator step.
    pub critic_steps: i64,
    /// λ_p.
    pub positive_weight: f64,
    /// λ_u.
    pub unlabelled_weight: f64,
    /// λ_n.
    pub negative_weight: f64,
    /// π_p: share of positives among the unlabelled items.
    pub positive_share: f64,
}

/// Constants of `rumi-lsgan`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RumiLsgan {
    /// Critic steps before each generator step.
    pub critic_steps: i64,
    /// a: the critic's score of generated items.
    pub generated: f64,
    /// b₊: its score of items to make.
    pub wanted: f64,
    /// b₋: its score of items to avoid.
    pub avoided: f64,
    /// c: what the generator is after.
    pub target: f64,
    /// β₊.
    pub wanted_weight: f64,
    /// β₋.
    pub avoided_weight: f64,
}

/// Constants of `hinge` and of `hinge-projection`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Hinge {
    /// Critic steps before each generator step.
    pub critic_steps: i64,
}

/// Constants of `hinge-ac-gan`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HingeAcGan {
    /// Critic steps before each generator step.
    pub critic_steps: i64,
    /// λ.
    pub class_weight: f64,
}

/// Constants of `hinge-cp-gan`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HingeCpGan {
    /// Critic steps before each generator step.
    pub critic_steps: i64,
    /// λ_c.
    pub class_weight: f64,
    /// λ_g.
    pub posterior_weight: f64,
}

/// Constants of `flow`; it has none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Flow {}

/// Most critic steps before one generator step.
const MOST_CRITIC_STEPS: i64 = 100;

impl ObjectiveSettings {
    /// Critic steps before one generator step.
    pub fn critic_steps(&self) -> i64 {
        match self {
            Self::WganGp(s) => s.critic_steps,
            Self::Conditional(s) => s.critic_steps,
            Self::CpGan(s) => s.critic_steps,
            Self::GenPu(s) => s.critic_steps,
            Self::RumiLsgan(s) => s.critic_steps,
            Self::Hinge(s) | Self::HingeProjection(s) => s.critic_steps,
            Self::HingeAcGan(s) => s.critic_steps,
            Self::HingeCpGan(s) => s.critic_steps,
            Self::Flow(_) => 0,
        }
    }

    /// Whether the generator is asked for a class.
    pub fn conditional(&self) -> bool {
        match self {
            Self::Conditional(_)
            | Self::CpGan(_)
            | Self::HingeProjection(_)
            | Self::HingeAcGan(_)
            | Self::HingeCpGan(_) => true,
            Self::WganGp(_)
            | Self::GenPu(_)
            | Self::RumiLsgan(_)
            | Self::Hinge(_)
            | Self::Flow(_) => false,
        }
    }

    /// Refuses constants that no training can use.
    pub fn check(&self) -> Result<(), Error> {
        let critic_steps = self.critic_steps();
        let (weights, shares) = match self {
            Self::WganGp(s) => (vec![s.penalty], vec![]),
            Self::Conditional(s) => (vec![s.penalty], vec![]),
            Self::CpGan(s) => (vec![s.penalty, s.class_weight, s.posterior_weight], vec![]),
            Self::GenPu(s) => (
                vec![s.positive_weight, s.unlabelled_weight, s.negative_weight],
                vec![s.positive_share],
            ),
            Self::RumiLsgan(s) => (vec![s.wanted_weight, s.avoided_weight], vec![]),
            Self::Hinge(_) | Self::HingeProjection(_) => (vec![], vec![]),
            Self::Flow(_) => return Ok(()),
            Self::HingeAcGan(s) => (vec![s.class_weight], vec![]),
            Self::HingeCpGan(s) => (vec![s.class_weight, s.posterior_weight], vec![]),
        };
        ensure!(
            (1..=MOST_CRITIC_STEPS).contains(&critic_steps),
            "`objective.critic-steps` is {critic_steps}; it must be from 1 to {MOST_CRITIC_STEPS}"
        );
        for weight in weights {
            ensure!(
                weight.is_finite() && weight >= 0.0,
                "a weight of the objective is {weight}; it must be 0 or more"
            );
        }
        for share in shares {
            ensure!(
                share > 0.0 && share < 1.0,
                "`objective.positive-share` is {share}; it must lie between 0 and 1"
            );
        }
        Ok(())
    }
}
