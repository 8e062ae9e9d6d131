//! RumiLSGAN: least squares with items to make (label A) and items to avoid (label B).
//!
//! ```text
//! critic     β₊·E₊(D(x) − b₊)² + β₋·E₋(D(x) − b₋)² + E(D(G(z)) − a)²
//! generator  E(D(G(z)) − c)²
//! ```
//!
//! The optimal generator's density is `η₊·p₊ + η₋·p₋` where that is positive, with
//! `t = (1 + β₊ + β₋)/((b₊ − a)β₊ + (b₋ − a)β₋)` and `η± = β±(t(b± − a) − 1)`: items to avoid are
//! subtracted when `η₋ < 0`. Reference: Asokan and Seelamantula, "Teaching a GAN what not to learn",
//! 2020; defaults of the authors' code: a = −0.5, b₊ = 2, b₋ = −2, c = 2, β₊ = 2.5, β₋ = 0.5.

use anyhow::Result;
use s2m_runs::objective::RumiLsgan as Settings;
use tch::{Kind, Tensor, no_grad};

use super::{AnyGenerator, Code, Objective, Output, Setup, mean};
use crate::feed::{Feed, Pool};
use crate::networks::mlp::{Generator, Mlp};
use crate::noise::{Draws, Needs};
use crate::trained::Trained;

pub(super) struct RumiLsgan {
    settings: Settings,
    batch: i64,
    generator: (Generator, Trained),
    critic: (Mlp, Trained),
}

impl RumiLsgan {
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

    /// Mean squared distance of scores from a value.
    fn distance(scores: &Tensor, value: f64) -> Tensor {
        mean(&(scores - value).square())
    }

    fn score(&self, x: &Tensor) -> Tensor {
        let (network, trained) = &self.critic;
        network.forward(trained.weights(), x).squeeze_dim(-1)
    }

    fn critic_step(&mut self, feed: &Feed, draws: &mut Draws) -> Tensor {
        let wanted = feed.draw(draws, Pool::Label(0), self.batch).items;
        let avoided = feed.draw(draws, Pool::Label(1), self.batch).items;
        let fake = no_grad(|| self.generate(draws));
        let scores = self.score(&Tensor::cat(&[wanted, avoided, fake], 1));
        let part = |index: i64| scores.narrow(1, index * self.batch, self.batch);
        let s = &self.settings;
        let loss = Self::distance(&part(0), s.wanted) * s.wanted_weight
            + Self::distance(&part(1), s.avoided) * s.avoided_weight
            + Self::distance(&part(2), s.generated);
        self.critic.1.descend(&loss.sum(Kind::Float));
        loss.detach()
    }
}

impl Objective for RumiLsgan {
    fn needs(&self) -> Needs {
        let steps = self.settings.critic_steps;
        Needs {
            normal: (steps + 1) * self.batch * self.generator.0.latent,
            uniform: steps * self.batch * 2,
        }
    }

    fn losses(&self) -> &'static [&'static str] {
        &["critic", "generator"]
    }

    fn step(&mut self, feed: &Feed, draws: &mut Draws) -> Tensor {
        for _ in 1..self.settings.critic_steps {
            let _ = self.critic_step(feed, draws);
        }
        let critic = self.critic_step(feed, draws);
        let loss = Self::distance(&self.score(&self.generate(draws)), self.settings.target);
        self.generator.1.descend(&loss.sum(Kind::Float));
        Tensor::stack(&[critic, loss.detach()], 0)
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
