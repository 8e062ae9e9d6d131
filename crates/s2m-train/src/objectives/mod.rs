//! GAN objectives, one file each. All have the same shape: networks, one step, what is exported.

mod conditional;
mod cp_gan;
mod gen_pu;
mod rumi_lsgan;
mod wgan_gp;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use tch::{Device, Tensor};

use crate::feed::Feed;
use crate::networks::mlp::{End, Generator, Mlp};
use crate::noise::{Draws, Needs};
use crate::optimizer::OptimizerSettings;
use crate::parameters::Parameters;
use crate::trained::{Start, Trained};

/// Which objective, and its constants; read from `objective` in a run file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ObjectiveSettings {
    WganGp(wgan_gp::Settings),
    Conditional(conditional::Settings),
    CpGan(cp_gan::Settings),
    GenPu(gen_pu::Settings),
    RumiLsgan(rumi_lsgan::Settings),
}

/// Sizes of the networks; read from `network` in a run file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NetworkSettings {
    /// Numbers in the latent.
    pub latent: i64,
    /// Hidden layers of generator and critic.
    pub hidden: Vec<i64>,
}

/// What an objective starts from.
pub struct Setup<'a> {
    pub keys: &'a [u64],
    pub network: &'a NetworkSettings,
    pub optimizer: OptimizerSettings,
    pub batch: i64,
    /// Decay of the generator's average.
    pub ema: f64,
    /// Numbers in one item.
    pub size: i64,
    pub picture: bool,
    pub labels: i64,
    pub device: Device,
}

impl Setup<'_> {
    fn start(&self) -> Start<'_> {
        Start {
            keys: self.keys,
            optimizer: self.optimizer,
            device: self.device,
        }
    }

    fn generator(&self, name: &'static str, codes: i64) -> (Generator, Trained) {
        let end = if self.picture { End::Tanh } else { End::Linear };
        let hidden = &self.network.hidden;
        let generator = Generator::new(self.network.latent, codes, hidden, self.size, end);
        let trained = Trained::new(name, generator.mlp.specs(), &self.start()).averaged(self.ema);
        (generator, trained)
    }

    /// A critic with `outputs` scores.
    fn critic(&self, name: &'static str, outputs: i64) -> (Mlp, Trained) {
        let mlp = Mlp::new(self.size, &self.network.hidden, outputs, End::Linear);
        let trained = Trained::new(name, mlp.specs(), &self.start());
        (mlp, trained)
    }
}

/// How a class code reaches an exported generator.
#[derive(Debug, Clone, PartialEq)]
pub enum Code {
    None,
    /// An input of the file: one of so many classes.
    Class,
    /// Fixed numbers.
    Fixed(Vec<f32>),
}

/// A generator to export.
pub struct Output {
    /// File name without ending.
    pub file: &'static str,
    pub network: Generator,
    pub weights: Parameters,
    pub code: Code,
}

impl Output {
    /// Items of every replica; classes are `[replicas, batch]`, used by generators with classes only.
    pub fn items(&self, latent: &Tensor, classes: &Tensor) -> Tensor {
        let rows = [latent.size()[0], latent.size()[1], self.network.codes];
        let code = match (&self.code, classes) {
            (Code::None, _) => None,
            (Code::Class, classes) => Some(crate::feed::one_hot(classes, self.network.codes)),
            (Code::Fixed(code), _) => {
                let code = Tensor::from_slice(code).to_device(latent.device());
                Some(code.expand(rows, false))
            }
        };
        tch::no_grad(|| {
            self.network
                .forward(self.weights.views(), latent, code.as_ref())
        })
    }
}

/// A GAN objective over all replicas.
pub trait Objective {
    /// Random numbers for one step.
    fn needs(&self) -> Needs;
    /// Names of what [`Objective::step`] returns.
    fn losses(&self) -> &'static [&'static str];
    /// One step of every network: losses as `[losses, replicas]`.
    fn step(&mut self, feed: &Feed, draws: &mut Draws) -> Tensor;
    /// All networks, for checkpoints.
    fn members(&mut self) -> Vec<&mut Trained>;
    /// The generators to export; the first is the one that is shown and sampled.
    fn outputs(&self) -> Vec<Output>;
}

/// Most critic steps before one generator step.
const MOST_CRITIC_STEPS: i64 = 100;

impl ObjectiveSettings {
    /// Refuses constants that no training can use.
    pub fn check(&self) -> Result<()> {
        let (critic_steps, weights, shares) = match self {
            Self::WganGp(s) => (s.critic_steps, vec![s.penalty], vec![]),
            Self::Conditional(s) => (s.critic_steps, vec![s.penalty], vec![]),
            Self::CpGan(s) => (
                s.critic_steps,
                vec![s.penalty, s.class_weight, s.posterior_weight],
                vec![],
            ),
            Self::GenPu(s) => (
                s.critic_steps,
                vec![s.positive_weight, s.unlabelled_weight, s.negative_weight],
                vec![s.positive_share],
            ),
            Self::RumiLsgan(s) => (
                s.critic_steps,
                vec![s.wanted_weight, s.avoided_weight],
                vec![],
            ),
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

    pub fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Objective>> {
        let two = || {
            ensure!(
                setup.labels == 2,
                "this objective knows two labels, the data has {}",
                setup.labels
            );
            Ok(())
        };
        Ok(match self {
            Self::WganGp(settings) => Box::new(wgan_gp::WganGp::new(settings, setup)),
            Self::Conditional(settings) => Box::new(conditional::Conditional::new(settings, setup)),
            Self::CpGan(settings) => Box::new(cp_gan::CpGan::new(settings, setup)),
            Self::GenPu(settings) => {
                two()?;
                Box::new(gen_pu::GenPu::new(settings, setup))
            }
            Self::RumiLsgan(settings) => {
                two()?;
                Box::new(rumi_lsgan::RumiLsgan::new(settings, setup))
            }
        })
    }
}

/// Mean over the batch, for every replica.
pub fn mean(scores: &Tensor) -> Tensor {
    scores.mean_dim([1].as_slice(), false, None)
}

/// Mean of (‖∇ₓ score(x)‖ − 1)² over points between real and generated items, for every replica.
///
/// `between` is `[replicas, batch, size]`; the result keeps its graph, so that a step on it is a real
/// second-order step.
fn gradient_penalty(between: &Tensor, score: impl Fn(&Tensor) -> Tensor) -> Tensor {
    let between = between.detach().set_requires_grad(true);
    let total = score(&between).sum(between.kind());
    let slope = Tensor::run_backward(&[total], &[&between], true, true).remove(0);
    let norm = slope.norm_scalaropt_dim(2, [-1].as_slice(), false);
    mean(&(norm - 1.0).square())
}

/// Points on the lines between generated and real items, at uniform places.
fn between(generated: &Tensor, real: &Tensor, place: &Tensor) -> Tensor {
    generated + (real - generated) * place.unsqueeze(-1)
}

#[cfg(test)]
mod tests {
    use tch::Kind;

    use super::*;

    /// The penalty's gradient in the critic's weights against central differences, in 64-bit floats.
    #[test]
    fn the_gradient_penalty_is_a_second_order_term() {
        let mlp = Mlp::new(3, &[5, 4], 1, End::Linear);
        let keys = [1, 2];
        let first = Parameters::new("critic", mlp.specs(), &keys, Device::Cpu);
        let flat = first.flat().to_kind(Kind::Double) * 2.0;
        let x = crate::noise::normal(&keys, 7, 9, Device::Cpu)
            .to_kind(Kind::Double)
            .view([2, 6, 3]);
        let penalty = |flat: &Tensor| {
            let critic = Parameters::from_flat(mlp.specs(), flat);
            let score = |x: &Tensor| mlp.forward(critic.views(), x).squeeze_dim(-1);
            let loss = gradient_penalty(&x, score).sum(Kind::Double);
            (loss.double_value(&[]), critic, loss)
        };
        let (_, critic, loss) = penalty(&flat);
        let parts = Tensor::f_run_backward(&[&loss], &critic.views()[..5], false, false).unwrap();
        let gradient: Vec<Tensor> = parts.iter().map(|part| part.reshape([2, -1])).collect();
        let gradient = Tensor::cat(&gradient, 1);
        let step = 1e-6;
        for at in [0_i64, 4, 14, 17, 20, 33, 40] {
            for replica in 0..2 {
                let moved = |by: f64| {
                    let moved = flat.copy();
                    let _ = moved
                        .get(replica)
                        .get(at)
                        .fill_(flat.double_value(&[replica, at]) + by);
                    penalty(&moved).0
                };
                let slope = (moved(step) - moved(-step)) / (2.0 * step);
                let found = gradient.double_value(&[replica, at]);
                assert!(
                    (slope - found).abs() < 1e-6 * (1.0 + slope.abs()),
                    "weight {at} of replica {replica}: {slope} by differences, {found} by the graph"
                );
            }
        }
        // A linear critic's slope is its weight, so the penalty is (‖w‖ − 1)² wherever it is taken.
        let linear = Tensor::from_slice(&[3.0_f64, 4.0, 0.0]).view([1, 3, 1]);
        let points = Tensor::ones([1, 2, 3], (Kind::Double, Device::Cpu));
        let exact = gradient_penalty(&points, |x| x.matmul(&linear).squeeze_dim(-1));
        assert_eq!(exact.double_value(&[0]), 16.0);
    }

    #[test]
    fn points_between_lie_on_the_line() {
        let [made, real] =
            [0.0, 2.0].map(|v| Tensor::full([1, 2, 3], v, (Kind::Float, Device::Cpu)));
        let place = Tensor::from_slice(&[0.25_f32, 1.0]).view([1, 2]);
        let found = between(&made, &real, &place);
        assert_eq!(found.double_value(&[0, 0, 2]), 0.5);
        assert_eq!(found.double_value(&[0, 1, 0]), 2.0);
    }
}
