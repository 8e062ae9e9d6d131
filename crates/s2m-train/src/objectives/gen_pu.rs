//! GenPU: two generators and three discriminators on positive (label B) and unlabelled (label A) items.
//!
//! ```text
//! V_p = E_P log D_p(x) + E log(1 − D_p(G_p))      G_p against D_p
//! V_u = E_U log D_u(x) + π_p·E log(1 − D_u(G_p)) + π_n·E log(1 − D_u(G_n))
//! V_n = E_P log D_n(x) + E log(1 − D_n(G_n))      G_n helps D_n: it keeps away from positives
//! D: max of each;  G_p: min π_p(λ_p V_p + λ_u V_u);  G_n: min π_n(λ_u V_u − λ_n V_n)
//! ```
//!
//! With `π_p` the share of positives among the unlabelled items, the optimum is `G_p = P` and
//! `G_n` = the unlabelled items that are not positive, which is the class asked for here.
//! Generators against a discriminator use the non-saturating form `−log D(G)`.
//! Reference: Hou, Chaib-draa, Li and Zhao, "Generative adversarial positive-unlabelled learning", 2018.

use anyhow::Result;
use s2m_runs::objective::GenPu as Settings;
use tch::{Kind, Tensor, no_grad};

use super::{AnyGenerator, Code, Objective, Output, Setup, mean};
use crate::feed::{Feed, Pool};
use crate::networks::mlp::{Generator, Mlp};
use crate::noise::{Draws, Needs};
use crate::trained::Trained;

pub(super) struct GenPu {
    settings: Settings,
    batch: i64,
    positive: (Generator, Trained),
    negative: (Generator, Trained),
    /// D_p, D_u, D_n.
    critics: [(Mlp, Trained); 3],
}

impl GenPu {
    pub(super) fn new(settings: &Settings, setup: &Setup<'_>) -> Result<Self> {
        Ok(Self {
            settings: settings.clone(),
            batch: setup.batch,
            positive: setup.generator("positive", 0)?,
            negative: setup.generator("negative", 0)?,
            critics: [
                setup.critic("critic-positive", 1)?,
                setup.critic("critic-unlabelled", 1)?,
                setup.critic("critic-negative", 1)?,
            ],
        })
    }

    fn generate(&self, generator: &(Generator, Trained), draws: &mut Draws) -> Tensor {
        let latent = draws.normal(self.batch, generator.0.latent);
        generator.0.forward(generator.1.weights(), &latent, None)
    }

    /// Logits of one discriminator.
    fn score(&self, critic: usize, x: &Tensor) -> Tensor {
        let (network, trained) = &self.critics[critic];
        network.forward(trained.weights(), x).squeeze_dim(-1)
    }

    /// −log D, mean over the batch.
    fn as_real(&self, critic: usize, x: &Tensor) -> Tensor {
        mean(&(-self.score(critic, x)).softplus())
    }

    /// −log(1 − D), mean over the batch.
    fn as_fake(&self, critic: usize, x: &Tensor) -> Tensor {
        mean(&self.score(critic, x).softplus())
    }

    fn critic_step(&mut self, feed: &Feed, draws: &mut Draws) -> Tensor {
        let positives = feed.draw(draws, Pool::Label(1), self.batch).items;
        let unlabelled = feed.draw(draws, Pool::Label(0), self.batch).items;
        let made_positive = no_grad(|| self.generate(&self.positive, draws));
        let made_negative = no_grad(|| self.generate(&self.negative, draws));
        let share = self.settings.positive_share;
        let losses = [
            self.as_real(0, &positives) + self.as_fake(0, &made_positive),
            self.as_real(1, &unlabelled)
                + self.as_fake(1, &made_positive) * share
                + self.as_fake(1, &made_negative) * (1.0 - share),
            self.as_real(2, &positives) + self.as_fake(2, &made_negative),
        ];
        for ((_, critic), loss) in self.critics.iter_mut().zip(&losses) {
            critic.descend(&loss.sum(Kind::Float));
        }
        Tensor::stack(&losses, 0).detach()
    }
}

impl Objective for GenPu {
    fn needs(&self) -> Needs {
        let steps = self.settings.critic_steps;
        Needs {
            normal: (steps + 1) * 2 * self.batch * self.positive.0.latent,
            uniform: steps * self.batch * 2,
        }
    }

    fn losses(&self) -> &'static [&'static str] {
        &[
            "critic-positive",
            "critic-unlabelled",
            "critic-negative",
            "positive",
            "negative",
        ]
    }

    fn step(&mut self, feed: &Feed, draws: &mut Draws) -> Tensor {
        for _ in 1..self.settings.critic_steps {
            let _ = self.critic_step(feed, draws);
        }
        let critics = self.critic_step(feed, draws);
        let Settings {
            positive_weight,
            unlabelled_weight,
            negative_weight,
            positive_share,
            ..
        } = self.settings;
        let made = self.generate(&self.positive, draws);
        let positive = (self.as_real(0, &made) * positive_weight
            + self.as_real(1, &made) * unlabelled_weight)
            * positive_share;
        self.positive.1.descend(&positive.sum(Kind::Float));
        let made = self.generate(&self.negative, draws);
        let negative = (self.as_real(1, &made) * unlabelled_weight
            + self.as_fake(2, &made) * negative_weight)
            * (1.0 - positive_share);
        self.negative.1.descend(&negative.sum(Kind::Float));
        let generators = Tensor::stack(&[positive.detach(), negative.detach()], 0);
        Tensor::cat(&[critics, generators], 0)
    }

    fn members(&mut self) -> Vec<&mut Trained> {
        let [a, b, c] = &mut self.critics;
        vec![
            &mut self.negative.1,
            &mut self.positive.1,
            &mut a.1,
            &mut b.1,
            &mut c.1,
        ]
    }

    fn outputs(&self) -> Vec<Output> {
        let output = |file, (network, trained): &(Generator, Trained)| Output {
            file,
            network: AnyGenerator::Mlp(network.clone()),
            weights: trained.finished(),
            code: Code::None,
        };
        vec![
            output("generator", &self.negative),
            output("generator-positive", &self.positive),
        ]
    }
}
