//! Wasserstein GAN with gradient penalty.
//!
//! ```text
//! critic     E D(G(z)) − E D(x) + λ·E(‖∇D(x̂)‖ − 1)²,   x̂ uniform between x and G(z)
//! generator  −E D(G(z))
//! ```
//!
//! Reference: Gulrajani et al., "Improved training of Wasserstein GANs", 2017.

use anyhow::Result;
use s2m_runs::objective::WganGp as Settings;
use tch::{Kind, Tensor, no_grad};

use super::{AnyGenerator, Code, Objective, Output, Setup, between, gradient_penalty, mean};
use crate::feed::{Feed, Pool};
use crate::networks::mlp::{Generator, Mlp};
use crate::noise::{Draws, Needs};
use crate::trained::Trained;

pub(super) struct WganGp {
    settings: Settings,
    batch: i64,
    generator: (Generator, Trained),
    critic: (Mlp, Trained),
}

impl WganGp {
    pub(super) fn new(settings: &Settings, setup: &Setup<'_>) -> Result<Self> {
        Ok(Self {
            settings: settings.clone(),
            batch: setup.batch,
            generator: setup.generator("generator", 0)?,
            critic: setup.critic("critic", 1)?,
        })
    }

    fn generate(&self, draws: &mut Draws) -> Tensor {
        let (network, trained) = &self.generator;
        let latent = draws.normal(self.batch, network.latent);
        network.forward(trained.weights(), &latent, None)
    }

    fn score(&self, x: &Tensor) -> Tensor {
        let (network, trained) = &self.critic;
        network.forward(trained.weights(), x).squeeze_dim(-1)
    }

    fn critic_step(&mut self, feed: &Feed, draws: &mut Draws) -> [Tensor; 2] {
        let real = feed.draw(draws, Pool::All, self.batch).items;
        let fake = no_grad(|| self.generate(draws));
        let place = draws.uniform(self.batch);
        let scores = self.score(&Tensor::cat(&[&fake, &real], 1));
        let gap = mean(&scores.narrow(1, self.batch, self.batch))
            - mean(&scores.narrow(1, 0, self.batch));
        let penalty = gradient_penalty(&between(&fake, &real, &place), |x| self.score(x));
        let loss = &penalty * self.settings.penalty - &gap;
        self.critic.1.descend(&loss.sum(Kind::Float));
        [gap.detach(), penalty.detach()]
    }
}

impl Objective for WganGp {
    fn needs(&self) -> Needs {
        let steps = self.settings.critic_steps;
        Needs {
            normal: (steps + 1) * self.batch * self.generator.0.latent,
            uniform: steps * self.batch * 2,
        }
    }

    fn losses(&self) -> &'static [&'static str] {
        &["distance", "penalty", "generator"]
    }

    fn step(&mut self, feed: &Feed, draws: &mut Draws) -> Tensor {
        for _ in 1..self.settings.critic_steps {
            let _ = self.critic_step(feed, draws);
        }
        let [gap, penalty] = self.critic_step(feed, draws);
        let loss = -mean(&self.score(&self.generate(draws)));
        self.generator.1.descend(&loss.sum(Kind::Float));
        Tensor::stack(&[gap, penalty, loss.detach()], 0)
    }

    fn members(&mut self) -> Vec<&mut Trained> {
        vec![&mut self.generator.1, &mut self.critic.1]
    }

    fn outputs(&self) -> Vec<Output> {
        let (network, trained) = &self.generator;
        vec![Output {
            file: "generator",
            network: AnyGenerator::Mlp(network.clone()),
            weights: trained.finished(),
            code: Code::None,
        }]
    }
}
