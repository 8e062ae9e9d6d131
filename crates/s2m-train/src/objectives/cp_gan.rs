//! CP-GAN: a generator conditioned on the class posterior of real items.
//!
//! ```text
//! s = C(x) for a real item x, held fixed; the generated item is G(z, s)
//! critic     E D(G(z, s)) − E D(x) + λ·E(‖∇D(x̂)‖ − 1)² + λ_c·CE(C(x), label of x)
//! generator  −E D(G(z, s)) + λ_g·KL(s ‖ C(G(z, s)))
//! ```
//!
//! `D` and `C` are two heads of one network. Items of one class alone come from a one-hot `s`, items
//! that several classes share from equal parts. The code enters the first layer beside the latent.
//! Reference: Kaneko, Ushiku and Harada, "Class-distinct and class-mutual image generation with
//! GANs", 2019; constants as in the authors' code (λ_c = 1, λ_g = 0.4).

use anyhow::Result;
use s2m_runs::objective::CpGan as Settings;
use tch::{Kind, Tensor, no_grad};

use super::{AnyGenerator, Code, Objective, Output, Setup, between, gradient_penalty, mean};
use crate::feed::{Feed, Pool, one_hot};
use crate::networks::mlp::{Generator, Mlp};
use crate::noise::{Draws, Needs};
use crate::trained::Trained;

pub(super) struct CpGan {
    settings: Settings,
    batch: i64,
    labels: i64,
    generator: (Generator, Trained),
    critic: (Mlp, Trained),
}

impl CpGan {
    pub(super) fn new(settings: &Settings, setup: &Setup<'_>) -> Result<Self> {
        Ok(Self {
            settings: settings.clone(),
            batch: setup.batch,
            labels: setup.labels,
            generator: setup.generator("generator", setup.labels)?,
            critic: setup.critic("critic", 1 + setup.labels)?,
        })
    }

    fn generate(&self, draws: &mut Draws, code: &Tensor) -> Tensor {
        let (network, trained) = &self.generator;
        let latent = draws.normal(self.batch, network.latent);
        network.forward(trained.weights(), &latent, Some(code))
    }

    /// Score and log class posterior.
    fn judge(&self, x: &Tensor) -> (Tensor, Tensor) {
        let outputs = self.critic.0.forward(self.critic.1.weights(), x);
        let class = outputs
            .narrow(-1, 1, self.labels)
            .log_softmax(-1, Kind::Float);
        (outputs.select(-1, 0), class)
    }

    fn critic_step(&mut self, feed: &Feed, draws: &mut Draws) -> [Tensor; 3] {
        let real = feed.draw(draws, Pool::All, self.batch);
        let (real_score, log_class) = self.judge(&real.items);
        let fake = no_grad(|| self.generate(draws, &log_class.exp()));
        let place = draws.uniform(self.batch);
        let gap = mean(&real_score) - mean(&self.judge(&fake).0);
        let penalty = gradient_penalty(&between(&fake, &real.items, &place), |x| self.judge(x).0);
        let likelihood = (one_hot(&real.labels, self.labels) * log_class).sum_dim_intlist(
            [-1].as_slice(),
            false,
            Kind::Float,
        );
        let class = -mean(&likelihood);
        let loss = &penalty * self.settings.penalty - &gap + &class * self.settings.class_weight;
        self.critic.1.descend(&loss.sum(Kind::Float));
        [gap.detach(), penalty.detach(), class.detach()]
    }
}

impl Objective for CpGan {
    fn needs(&self) -> Needs {
        let steps = self.settings.critic_steps;
        Needs {
            normal: (steps + 1) * self.batch * self.generator.0.latent,
            uniform: (2 * steps + 1) * self.batch,
        }
    }

    fn losses(&self) -> &'static [&'static str] {
        &["distance", "penalty", "class", "generator", "posterior"]
    }

    fn step(&mut self, feed: &Feed, draws: &mut Draws) -> Tensor {
        for _ in 1..self.settings.critic_steps {
            let _ = self.critic_step(feed, draws);
        }
        let [gap, penalty, class] = self.critic_step(feed, draws);
        let real = feed.draw(draws, Pool::All, self.batch).items;
        let wanted = no_grad(|| self.judge(&real).1);
        let code = wanted.exp();
        let (score, found) = self.judge(&self.generate(draws, &code));
        let divergence =
            (&code * (wanted - found)).sum_dim_intlist([-1].as_slice(), false, Kind::Float);
        let (adversarial, posterior) = (-mean(&score), mean(&divergence));
        let loss = &adversarial + &posterior * self.settings.posterior_weight;
        self.generator.1.descend(&loss.sum(Kind::Float));
        Tensor::stack(
            &[
                gap,
                penalty,
                class,
                adversarial.detach(),
                posterior.detach(),
            ],
            0,
        )
    }

    fn members(&mut self) -> Vec<&mut Trained> {
        vec![&mut self.generator.1, &mut self.critic.1]
    }

    fn outputs(&self) -> Vec<Output> {
        let (network, trained) = &self.generator;
        let output = |file, code| Output {
            file,
            network: AnyGenerator::Mlp(network.clone()),
            weights: trained.finished(),
            code: Code::Fixed(code),
        };
        let labels = self.labels as usize;
        let mut first_alone = vec![0.0; labels];
        first_alone[0] = 1.0;
        vec![
            output("generator", first_alone),
            output("generator-overlap", vec![1.0 / labels as f32; labels]),
        ]
    }
}
