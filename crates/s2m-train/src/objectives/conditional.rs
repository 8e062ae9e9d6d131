//! Conditional Wasserstein GAN with gradient penalty and a projection critic.
//!
//! ```text
//! D(x, c)    ψ(φ(x)) + v_c·φ(x)
//! critic     E D(G(z, c), c) − E D(x, c) + λ·E(‖∇ₓD(x̂, c)‖ − 1)²,   c the real item's label
//! generator  −E D(G(z, c), c)
//! ```
//!
//! A generated item shares the label of the real item that it is mixed with, so that `x̂` has one.
//! References: Miyato and Koyama, "cGANs with projection discriminator", 2018; Gulrajani et al., 2017.

use anyhow::Result;
use s2m_runs::objective::Conditional as Settings;
use tch::{Kind, Tensor, no_grad};

use super::{AnyGenerator, Code, Objective, Output, Setup, between, gradient_penalty, mean};
use crate::feed::{Feed, Pool, one_hot};
use crate::networks::linear;
use crate::networks::mlp::{End, Generator, Mlp};
use crate::noise::{Draws, Needs};
use crate::parameters::Spec;
use crate::trained::Trained;

pub(super) struct Conditional {
    settings: Settings,
    batch: i64,
    labels: i64,
    generator: (Generator, Trained),
    features: Mlp,
    critic: Trained,
}

impl Conditional {
    pub(super) fn new(settings: &Settings, setup: &Setup<'_>) -> Result<Self> {
        let hidden = &setup.network.mlp()?.hidden;
        let (&width, before) = hidden
            .split_last()
            .expect("checked where the run file is read");
        let features = Mlp::new(setup.size(), before, width, End::Relu);
        let mut specs = features.specs();
        specs.extend(Spec::layer("score", &[1, width]));
        let [weight, _] = Spec::layer("labels", &[setup.labels, width]);
        specs.push(weight);
        Ok(Self {
            settings: settings.clone(),
            batch: setup.batch,
            labels: setup.labels,
            generator: setup.generator("generator", setup.labels)?,
            critic: setup.critic_of("critic", specs),
            features,
        })
    }

    fn generate(&self, draws: &mut Draws, code: &Tensor) -> Tensor {
        let (network, trained) = &self.generator;
        let latent = draws.normal(self.batch, network.latent);
        network.forward(trained.weights(), &latent, Some(code))
    }

    fn score(&self, x: &Tensor, code: &Tensor) -> Tensor {
        let (layers, head) = self.critic.weights().split_at(2 * self.features.layers());
        let features = self.features.forward(layers, x);
        let own = linear(&features, &head[0], &head[1]).squeeze_dim(-1);
        let projection = code.bmm(&head[2]) * &features;
        own + projection.sum_dim_intlist([-1].as_slice(), false, Kind::Float)
    }

    fn critic_step(&mut self, feed: &Feed, draws: &mut Draws) -> [Tensor; 2] {
        let real = feed.draw(draws, Pool::All, self.batch);
        let code = one_hot(&real.labels, self.labels);
        let fake = no_grad(|| self.generate(draws, &code));
        let place = draws.uniform(self.batch);
        let gap = mean(&self.score(&real.items, &code)) - mean(&self.score(&fake, &code));
        let penalty = gradient_penalty(&between(&fake, &real.items, &place), |x| {
            self.score(x, &code)
        });
        let loss = &penalty * self.settings.penalty - &gap;
        self.critic.descend(&loss.sum(Kind::Float));
        [gap.detach(), penalty.detach()]
    }
}

impl Objective for Conditional {
    fn needs(&self) -> Needs {
        let steps = self.settings.critic_steps;
        Needs {
            normal: (steps + 1) * self.batch * self.generator.0.latent,
            uniform: (2 * steps + 1) * self.batch,
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
        let labels = feed.draw(draws, Pool::All, self.batch).labels;
        let code = one_hot(&labels, self.labels);
        let loss = -mean(&self.score(&self.generate(draws, &code), &code));
        self.generator.1.descend(&loss.sum(Kind::Float));
        Tensor::stack(&[gap, penalty, loss.detach()], 0)
    }

    fn members(&mut self) -> Vec<&mut Trained> {
        vec![&mut self.generator.1, &mut self.critic]
    }

    /// Beside the generator of a class, one that is given the same value for every class, which it was never shown.
    fn outputs(&self) -> Vec<Output> {
        let (network, trained) = &self.generator;
        let output = |file, code| Output {
            file,
            network: AnyGenerator::Mlp(network.clone()),
            weights: trained.finished(),
            code,
        };
        let labels = self.labels as usize;
        let even = vec![1.0 / labels as f32; labels];
        vec![
            output("generator", Code::Class),
            output("generator-overlap", Code::Fixed(even)),
        ]
    }
}
