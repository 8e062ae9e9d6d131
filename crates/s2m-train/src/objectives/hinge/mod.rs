//! The hinge GANs on BigGAN: unconditional, with a projection, with class logits, and CP-GAN.
//!
//! ```text
//! critic      E max(0, 1 − D(x)) + E max(0, 1 + D(G))            generator  −E D(G)
//! projection  D knows the class c: D(x, c), D(G(z, c), c)
//! ac-gan      critic + λ·CE(C(x), c)                             generator + λ·CE(C(G(z, c)), c)
//! cp-gan      s = C(x), held fixed; G(z, s);  critic + λ_c·CE(C(x), c)   generator + λ_g·KL(s ‖ C(G(z, s)))
//! ```
//!
//! `c` is the label that a real item shows, and a generated item has the label of a real one. A generator that was
//! trained on one label at a time is also asked for joint classes: its code is then `1/n` for each of their `n`
//! labels, as the paper does for its starred rows and for CP-GAN. Class losses of the critic are on real items.
//!
//! The generator's spectral norms make one power step per generator step, and the weights that critic steps use are
//! made ready once. References: Lim and Ye, "Geometric GAN", 2017; Miyato and Koyama, "cGANs with projection
//! discriminator", 2018; Odena, Olah and Shlens, "Conditional image synthesis with auxiliary classifier GANs", 2017;
//! Kaneko, Ushiku and Harada, "Class-distinct and class-mutual image generation with GANs", 2019.

mod losses;
pub mod regularise;

use anyhow::Result;
use s2m_core::streams::training::STATISTICS;
use s2m_runs::parts::Precision;
use s2m_runs::regularise::Regularise;
use tch::{Kind, Tensor, no_grad};

use super::{AnyGenerator, Code, Objective, Output, Setup, mean};
use crate::augment;
use crate::feed::{Feed, Pool, Real, one_hot};
use crate::networks::biggan::critic::{Critic, Head, Judged};
use crate::networks::biggan::generator::{Generator, Statistics};
use crate::networks::biggan::{self, Ready};
use crate::networks::spectral::{self, Power};
use crate::noise::{self, Draws, Needs, Noise, Purpose};
use crate::trained::Trained;

/// Which of the four, and its constants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Game {
    Plain,
    Projection,
    AcGan { class: f64 },
    CpGan { class: f64, posterior: f64 },
}

/// Batches by which the statistics of finished weights are measured.
const MEASURED: u32 = 128;

pub(super) struct Hinge {
    game: Game,
    critic_steps: i64,
    batch: i64,
    labels: i64,
    picture: [i64; 3],
    regularise: Regularise,
    /// Of convolutions in training.
    kind: Kind,
    joint: Vec<Vec<f32>>,
    keys: Vec<u64>,
    generator: (Generator, Trained),
    critic: (Critic, Trained),
}

/// The losses of a critic step, `[replicas]` each.
struct CriticLosses {
    hinge: Tensor,
    real: Tensor,
    generated: Tensor,
    class: Tensor,
}

impl Hinge {
    pub(super) fn new(game: Game, critic_steps: i64, setup: &Setup<'_>) -> Result<Self> {
        let network = setup.network.biggan()?;
        let labels = setup.labels;
        let (codes, head) = match game {
            Game::Plain => (0, Head::Score),
            Game::Projection => (labels, Head::Projection(labels)),
            Game::AcGan { .. } | Game::CpGan { .. } => (labels, Head::Classes(labels)),
        };
        let picture = biggan::check(setup.shape, network.latent, None)?;
        let generator = Generator {
            picture,
            channels: network.channels,
            latent: network.latent,
            codes,
            shared: network.shared,
            attention: network.attention,
        };
        let critic = Critic {
            picture,
            channels: network.critic_channels.unwrap_or(network.channels),
            head,
            attention: network.attention,
        };
        if network.attention {
            let least = generator.attended().min(critic.attended());
            biggan::check(setup.shape, network.latent, Some(least))?;
        }
        let mut critic_specs = critic.specs();
        critic_specs.extend(regularise::specs(setup.regularise));
        let weights = setup.generator_of("generator", generator.specs());
        Ok(Self {
            game,
            critic_steps,
            batch: setup.batch,
            labels,
            picture,
            regularise: setup.regularise.clone(),
            kind: match setup.precision {
                Precision::Bf16 => Kind::BFloat16,
                Precision::Float32 | Precision::Tf32 => Kind::Float,
            },
            joint: setup.joint.to_vec(),
            keys: setup.keys.to_vec(),
            generator: (generator, weights),
            critic: (critic, setup.critic_of("critic", critic_specs)),
        })
    }

    /// Pictures by the statistics of their batch.
    fn generate(&self, ready: &[Ready], latent: &Tensor, code: Option<&Tensor>) -> Tensor {
        let how = (Statistics::Batch, self.kind);
        self.generator.0.forward(ready, (latent, code), how)
    }

    fn latent(&self, draws: &mut Draws) -> Tensor {
        draws.normal(self.batch, self.generator.0.latent)
    }

    fn judge(&self, ready: &[Ready], x: &Tensor, code: Option<&Tensor>) -> Judged {
        self.critic.0.forward(ready, x, code, self.kind)
    }

    /// Real items as training draws them.
    fn real(&self, feed: &Feed, draws: &mut Draws) -> Real {
        let mut real = feed.draw(draws, Pool::All, self.batch);
        real.items = regularise::real(&self.regularise, &real.items, self.picture, draws);
        real
    }

    fn seen(&self, x: &Tensor, draws: &mut Draws) -> Tensor {
        regularise::seen(&self.regularise, x, self.picture, draws)
    }

    /// Real and generated items as the critic sees them, what it says about each, and the real one's labels.
    fn compare(
        &self,
        feed: &Feed,
        draws: &mut Draws,
        [generator, critic]: [&[Ready]; 2],
    ) -> (Tensor, [Judged; 2], Tensor) {
        let real = self.real(feed, draws);
        let latent = self.latent(draws);
        if let Game::CpGan { .. } = self.game {
            // The code is what the critic says about the real item, so that one comes first.
            let seen = self.seen(&real.items, draws);
            let about_real = self.judge(critic, &seen, None);
            let code = about_real.class.detach().softmax(-1, Kind::Float);
            let made = no_grad(|| self.generate(generator, &latent, Some(&code)));
            let about_made = self.judge(critic, &self.seen(&made, draws), None);
            return (seen, [about_real, about_made], real.labels);
        }
        let code = self.code(&real.labels);
        let made = no_grad(|| self.generate(generator, &latent, code.as_ref()));
        let seen = self.seen(&Tensor::cat(&[&real.items, &made], 1), draws);
        let twice = code.as_ref().map(|code| Tensor::cat(&[code, code], 1));
        let both = self.judge(critic, &seen, twice.as_ref());
        let about = |first| Judged {
            score: both.score.narrow(1, first, self.batch),
            class: match self.critic.0.head {
                Head::Classes(_) => both.class.narrow(1, first, self.batch),
                _ => Tensor::new(),
            },
        };
        let first = seen.narrow(1, 0, self.batch);
        (first, [about(0), about(self.batch)], real.labels)
    }

    /// Codes of labels, for generators that take one.
    fn code(&self, labels: &Tensor) -> Option<Tensor> {
        match self.game {
            Game::Plain => None,
            _ => Some(one_hot(labels, self.labels)),
        }
    }

    fn critic_step(&mut self, feed: &Feed, draws: &mut Draws, generator: &[Ready]) -> CriticLosses {
        let ready = Ready::all(&self.critic.1.parameters, Power::Moved, self.kind);
        let (seen, [real, made], labels) = self.compare(feed, draws, [generator, &ready]);
        let hinge = losses::hinge(&real.score, &made.score);
        let mut loss = hinge.shallow_clone();
        let mut class = hinge.zeros_like();
        if let Game::AcGan { class: weight } | Game::CpGan { class: weight, .. } = self.game {
            class = losses::cross_entropy(&real.class, &one_hot(&labels, self.labels));
            loss = &loss + &class * weight;
        }
        if let Some(changes) = regularise::consistent(&self.regularise, self.picture) {
            let changed = augment::apply(changes, &seen, self.picture, draws);
            let code = self.code(&labels);
            let again = self.judge(&ready, &changed, code.as_ref());
            let gap = mean(&(&real.score - again.score).square());
            loss = &loss + gap * self.regularise.consistency;
        }
        if let Some(lecam) = self.regularise.lecam {
            let scores = [&real.score, &made.score];
            loss = &loss + regularise::lecam(lecam, &self.critic.1, self.critic_steps, scores);
        }
        self.critic.1.descend(&loss.sum(Kind::Float));
        CriticLosses {
            hinge: hinge.detach(),
            real: mean(&real.score).detach(),
            generated: mean(&made.score).detach(),
            class: class.detach(),
        }
    }

    /// The generator's own loss and its class loss, `[replicas]` each.
    fn generator_step(&mut self, feed: &Feed, draws: &mut Draws) -> [Tensor; 2] {
        let critic = no_grad(|| Ready::all(&self.critic.1.parameters, Power::Kept, self.kind));
        let ready = Ready::all(&self.generator.1.parameters, Power::Moved, self.kind);
        let latent = self.latent(draws);
        let code = match self.game {
            Game::Plain => None,
            Game::Projection | Game::AcGan { .. } => {
                self.code(&feed.draw(draws, Pool::All, self.batch).labels)
            }
            Game::CpGan { .. } => Some(self.posterior(feed, draws, &critic)),
        };
        let made = self.generate(&ready, &latent, code.as_ref());
        let about = self.judge(&critic, &self.seen(&made, draws), code.as_ref());
        let own = -mean(&about.score);
        let (class, weight) = match (self.game, &code) {
            (Game::AcGan { class }, Some(code)) => {
                (losses::cross_entropy(&about.class, code), class)
            }
            (Game::CpGan { posterior, .. }, Some(code)) => {
                (losses::divergence(code, &about.class), posterior)
            }
            _ => (own.zeros_like(), 0.0),
        };
        let loss = &own + &class * weight;
        self.generator.1.descend(&loss.sum(Kind::Float));
        [own.detach(), class.detach()]
    }

    /// Class posteriors of real items: codes of CP-GAN.
    fn posterior(&self, feed: &Feed, draws: &mut Draws, critic: &[Ready]) -> Tensor {
        no_grad(|| {
            let real = self.real(feed, draws).items;
            let seen = self.seen(&real, draws);
            self.judge(critic, &seen, None)
                .class
                .softmax(-1, Kind::Float)
        })
    }

    /// Uniform numbers of a code for the generator.
    fn code_needs(&self) -> i64 {
        let batch = self.batch;
        match self.game {
            Game::Plain => 0,
            Game::Projection | Game::AcGan { .. } => batch,
            Game::CpGan { .. } => {
                batch
                    + regularise::real_needs(&self.regularise, batch)
                    + regularise::seen_needs(&self.regularise, batch)
            }
        }
    }
}

impl Objective for Hinge {
    fn needs(&self) -> Needs {
        let (steps, batch) = (self.critic_steps, self.batch);
        let consistent = regularise::consistent(&self.regularise, self.picture);
        let critic = batch
            + regularise::real_needs(&self.regularise, batch)
            + regularise::seen_needs(&self.regularise, 2 * batch)
            + consistent.map_or(0, |changes| augment::needs(changes, batch));
        let generator = self.code_needs() + regularise::seen_needs(&self.regularise, batch);
        Needs {
            normal: (steps + 1) * batch * self.generator.0.latent,
            uniform: steps * critic + generator,
        }
    }

    fn losses(&self) -> &'static [&'static str] {
        match self.game {
            Game::Plain | Game::Projection => &["critic", "real", "generated", "generator"],
            Game::AcGan { .. } | Game::CpGan { .. } => &[
                "critic",
                "real",
                "generated",
                "generator",
                "class",
                "generator-class",
            ],
        }
    }

    fn step(&mut self, feed: &Feed, draws: &mut Draws) -> Tensor {
        let generator =
            no_grad(|| Ready::all(&self.generator.1.parameters, Power::Kept, self.kind));
        for _ in 1..self.critic_steps {
            let _ = self.critic_step(feed, draws, &generator);
        }
        let critic = self.critic_step(feed, draws, &generator);
        let [own, class] = self.generator_step(feed, draws);
        let mut losses = vec![critic.hinge, critic.real, critic.generated, own];
        if let Game::AcGan { .. } | Game::CpGan { .. } = self.game {
            losses.extend([critic.class, class]);
        }
        Tensor::stack(&losses, 0)
    }

    fn members(&mut self) -> Vec<&mut Trained> {
        vec![&mut self.generator.1, &mut self.critic.1]
    }

    fn outputs(&self) -> Vec<Output> {
        let (network, trained) = &self.generator;
        let output = |file, code| Output {
            file,
            network: AnyGenerator::BigGan(network.clone()),
            weights: trained.finished(),
            code,
        };
        let joint = || Code::Rows(self.joint.clone());
        match self.game {
            Game::Plain => vec![output("generator", Code::None)],
            Game::Projection | Game::AcGan { .. } if self.joint.is_empty() => {
                vec![output("generator", Code::Class)]
            }
            Game::Projection | Game::AcGan { .. } => vec![
                output("generator", Code::Class),
                output("generator-joint", joint()),
            ],
            Game::CpGan { .. } if self.joint.is_empty() => vec![output("generator", Code::Class)],
            Game::CpGan { .. } => vec![output("generator-joint", joint())],
        }
    }

    /// Statistics of batch norms, as means over batches of training's size.
    fn settle(&self, outputs: &mut [Output], feed: &Feed) {
        let Some((first, others)) = outputs.split_first_mut() else {
            return;
        };
        spectral::settle(&first.weights);
        let key = |&key: &u64| noise::key(key, Purpose::Shown, STATISTICS);
        let keys: Vec<u64> = self.keys.iter().map(key).collect();
        let needs = Needs {
            normal: self.batch * self.generator.0.latent,
            uniform: self.code_needs(),
        };
        let mut numbers = Noise::new(&keys, needs, feed.device());
        no_grad(|| {
            let kind = Kind::Float;
            let ready = Ready::all(&first.weights, Power::Kept, kind);
            let critic = Ready::all(&self.critic.1.parameters, Power::Kept, self.kind);
            for before in 0..MEASURED {
                let mut draws = Draws::new(numbers.at(u64::from(before)));
                let latent = self.latent(&mut draws);
                let code = match self.game {
                    Game::CpGan { .. } => Some(self.posterior(feed, &mut draws, &critic)),
                    Game::Plain => None,
                    _ => self.code(&feed.draw(&mut draws, Pool::All, self.batch).labels),
                };
                let drawn = (&latent, code.as_ref());
                let how = (Statistics::Measured(before), kind);
                let _ = self.generator.0.forward(&ready, drawn, how);
            }
        });
        for other in others {
            let views: Vec<&Tensor> = first.weights.views().iter().collect();
            other.weights.set_all(&views);
        }
    }
}
