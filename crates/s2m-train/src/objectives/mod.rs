//! GAN objectives, one file each. All have the same shape: networks, one step, what is exported.

mod conditional;
mod cp_gan;
mod flow;
mod gen_pu;
pub mod hinge;
mod rumi_lsgan;
mod wgan_gp;

use anyhow::{Result, ensure};
use s2m_runs::networks::{MlpSettings, NetworkSettings};
use s2m_runs::objective::ObjectiveSettings;
use s2m_runs::parts::OptimizerSettings;
use s2m_runs::parts::Precision;
use s2m_runs::regularise::Regularise;
use tch::{Device, Kind, Tensor};

use crate::feed::{Feed, one_hot};
pub use crate::networks::generator::{Code, Generator as AnyGenerator};
use crate::networks::mlp::{End, Generator, Mlp};
use crate::noise::{Draws, Needs};
use crate::parameters::{Parameters, Spec};
use crate::trained::{Start, Trained};
use hinge::Game;

/// What an objective starts from.
pub struct Setup<'a> {
    pub keys: &'a [u64],
    pub network: &'a NetworkSettings,
    pub optimizer: OptimizerSettings,
    /// Of the critics, where they have another.
    pub critic_optimizer: Option<OptimizerSettings>,
    pub precision: Precision,
    pub regularise: &'a Regularise,
    /// Steps of the generators.
    pub steps: u64,
    /// Steps of the critics before each of these.
    pub critic_steps: u64,
    pub batch: i64,
    /// Decay of the generator's average.
    pub ema: f64,
    /// Steps before it begins.
    pub ema_from: u64,
    /// Shape of one item.
    pub shape: &'a [usize],
    pub picture: bool,
    pub labels: i64,
    /// The codes of joint classes that a generator of single labels is asked for.
    pub joint: &'a [Vec<f32>],
    pub device: Device,
}

impl Setup<'_> {
    /// For networks that take so many steps.
    fn start(&self, optimizer: OptimizerSettings, steps: u64) -> Start<'_> {
        Start {
            keys: self.keys,
            optimizer,
            steps,
            device: self.device,
        }
    }

    /// Numbers in one item.
    fn size(&self) -> i64 {
        self.shape.iter().product::<usize>() as i64
    }

    fn generator(&self, name: &'static str, codes: i64) -> Result<(Generator, Trained)> {
        let end = if self.picture { End::Tanh } else { End::Linear };
        let MlpSettings { latent, hidden } = self.network.mlp()?;
        let generator = Generator::new(*latent, codes, hidden, self.size(), end);
        let trained = self.generator_of(name, generator.mlp.specs());
        Ok((generator, trained))
    }

    /// A generator with these weights.
    fn generator_of(&self, name: &'static str, specs: Vec<Spec>) -> Trained {
        Trained::new(name, specs, &self.start(self.optimizer, self.steps))
            .averaged(self.ema, self.ema_from)
    }

    /// A critic with `outputs` scores.
    fn critic(&self, name: &'static str, outputs: i64) -> Result<(Mlp, Trained)> {
        let hidden = &self.network.mlp()?.hidden;
        let mlp = Mlp::new(self.size(), hidden, outputs, End::Linear);
        Ok((mlp.clone(), self.critic_of(name, mlp.specs())))
    }

    /// A critic with these weights.
    fn critic_of(&self, name: &'static str, specs: Vec<Spec>) -> Trained {
        let steps = self.steps.saturating_mul(self.critic_steps);
        let optimizer = self.critic_optimizer.unwrap_or(self.optimizer);
        Trained::new(name, specs, &self.start(optimizer, steps))
    }
}

/// A generator to export.
pub struct Output {
    /// File name without ending.
    pub file: &'static str,
    pub network: AnyGenerator,
    pub weights: Parameters,
    pub code: Code,
}

impl Output {
    /// Classes that the file can be asked for; none where it takes none.
    pub fn classes(&self) -> Option<i64> {
        self.code.classes(self.network.codes())
    }

    /// Items of every replica; classes are `[replicas, batch]`, used by generators with classes only.
    pub fn items(&self, latent: &Tensor, classes: &Tensor) -> Tensor {
        let code = self.code.of(classes, self.network.codes());
        self.network.items(&self.weights, latent, code.as_ref())
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
    /// Measures on the data what finished weights do not have from training.
    fn settle(&self, _outputs: &mut [Output], _feed: &Feed) {}
}

/// An objective with its first weights.
pub fn build(settings: &ObjectiveSettings, setup: &Setup<'_>) -> Result<Box<dyn Objective>> {
    let two = || {
        ensure!(
            setup.labels == 2,
            "this objective knows two labels, the data has {}",
            setup.labels
        );
        Ok(())
    };
    let hinge = |game, critic_steps| -> Result<Box<dyn Objective>> {
        Ok(Box::new(hinge::Hinge::new(game, critic_steps, setup)?))
    };
    Ok(match settings {
        ObjectiveSettings::WganGp(settings) => Box::new(wgan_gp::WganGp::new(settings, setup)?),
        ObjectiveSettings::Conditional(settings) => {
            Box::new(conditional::Conditional::new(settings, setup)?)
        }
        ObjectiveSettings::CpGan(settings) => Box::new(cp_gan::CpGan::new(settings, setup)?),
        ObjectiveSettings::Flow(_) => Box::new(flow::Flow::new(setup)?),
        ObjectiveSettings::GenPu(settings) => {
            two()?;
            Box::new(gen_pu::GenPu::new(settings, setup)?)
        }
        ObjectiveSettings::RumiLsgan(settings) => {
            two()?;
            Box::new(rumi_lsgan::RumiLsgan::new(settings, setup)?)
        }
        ObjectiveSettings::Hinge(s) => hinge(Game::Plain, s.critic_steps)?,
        ObjectiveSettings::HingeProjection(s) => hinge(Game::Projection, s.critic_steps)?,
        ObjectiveSettings::HingeAcGan(s) => hinge(
            Game::AcGan {
                class: s.class_weight,
            },
            s.critic_steps,
        )?,
        ObjectiveSettings::HingeCpGan(s) => hinge(
            Game::CpGan {
                class: s.class_weight,
                posterior: s.posterior_weight,
            },
            s.critic_steps,
        )?,
    })
}

/// Mean over the batch, for every replica.
pub fn mean(scores: &Tensor) -> Tensor {
    scores.mean_dim([1].as_slice(), false, None)
}

/// Mean cross entropy over the batch for every replica.
pub fn cross_entropy(logits: &Tensor, labels: &Tensor) -> Tensor {
    let classes = *logits.size().last().expect("logits have a class axis");
    let likelihood = logits.log_softmax(-1, Kind::Float) * one_hot(labels, classes);
    -mean(&likelihood.sum_dim_intlist([-1].as_slice(), false, Kind::Float))
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

    /// Steps of an objective on the one-dimensional data whose networks are set by hand: `fill` gives
    /// the value of every weight by network and name. The learning rate is too small to change one.
    fn losses(objective: &str, fill: impl Fn(&str, &str) -> f64) -> Vec<f64> {
        let recipe = r#"
            name = "line"
            source = { format = "illustration", items = 500 }
            labelling = { model = "one-of" }"#;
        let data = [toml::from_str(recipe).unwrap()];
        let loaded = crate::replica::load(&data).unwrap();
        let replicas = crate::replica::replicas(&data, &[0]);
        let feed = Feed::training(&loaded, &replicas, Device::Cpu).unwrap();
        let settings: ObjectiveSettings = toml::from_str(objective).unwrap();
        settings.check().unwrap();
        let mut built = build(
            &settings,
            &Setup {
                keys: &[1],
                network: &NetworkSettings::Mlp(MlpSettings {
                    latent: 2,
                    hidden: vec![4],
                }),
                critic_optimizer: None,
                precision: Precision::Float32,
                regularise: &Regularise::default(),
                joint: &[],
                optimizer: toml::from_str("kind = \"sgd\"\nlearning-rate = 1e-30").unwrap(),
                steps: 1,
                critic_steps: settings.critic_steps().unsigned_abs(),
                batch: 8,
                ema: 0.0,
                ema_from: 0,
                shape: &[1],
                picture: false,
                labels: 2,
                device: Device::Cpu,
            },
        )
        .unwrap();
        for member in built.members() {
            let parts: Vec<Tensor> = member
                .parameters
                .specs()
                .iter()
                .map(|spec| {
                    let size: i64 = spec.shape.iter().product();
                    Tensor::full(
                        [1, size],
                        fill(member.name, &spec.name),
                        (Kind::Float, Device::Cpu),
                    )
                })
                .collect();
            member.parameters.set(&Tensor::cat(&parts, 1));
        }
        let mut noise = crate::noise::Noise::new(&[1], built.needs(), Device::Cpu);
        let found = built.step(&feed, &mut Draws::new(noise.at(0)));
        assert_eq!(found.size(), [built.losses().len() as i64, 1]);
        Vec::<f32>::try_from(found.view(-1))
            .unwrap()
            .into_iter()
            .map(f64::from)
            .collect()
    }

    fn close(found: &[f64], wanted: &[f64]) {
        assert_eq!(found.len(), wanted.len());
        for (a, b) in found.iter().zip(wanted) {
            assert!((a - b).abs() < 1e-5, "{found:?} against {wanted:?}");
        }
    }

    /// A critic that is 3 everywhere: no distance, a slope of 0 and so a penalty of 1.
    #[test]
    fn losses_of_wgan_gp_are_its_formula() {
        let constant = |_: &str, name: &str| if name == "layers.1.bias" { 3.0 } else { 0.0 };
        let found = losses(
            "kind = \"wgan-gp\"\ncritic-steps = 2\npenalty = 10.0",
            constant,
        );
        close(&found, &[0.0, 1.0, -3.0]);
    }

    /// Features of 1 everywhere, a score of 0.5 and label vectors of 0.25: 0.5 + 4·0.25 for both labels.
    #[test]
    fn losses_of_the_projection_critic_are_its_formula() {
        let fill = |network: &str, name: &str| match (network, name) {
            ("critic", "layers.0.bias") => 1.0,
            ("critic", "score.bias") => 0.5,
            ("critic", "labels.weight") => 0.25,
            _ => 0.0,
        };
        let found = losses(
            "kind = \"conditional\"\ncritic-steps = 1\npenalty = 10.0",
            fill,
        );
        close(&found, &[0.0, 1.0, -1.5]);
    }

    /// All outputs are 2, so both classes have posterior 1/2: cross entropy log 2, no divergence.
    #[test]
    fn losses_of_cp_gan_are_its_formula() {
        let fill = |_: &str, name: &str| if name == "layers.1.bias" { 2.0 } else { 0.0 };
        let text = "kind = \"cp-gan\"\ncritic-steps = 1\npenalty = 10.0\nclass-weight = 1.0\nposterior-weight = 0.4";
        close(&losses(text, fill), &[0.0, 1.0, 2.0_f64.ln(), -2.0, 0.0]);
    }

    /// A critic that is 1 everywhere: 2.5·(1 − 2)² + 0.5·(1 + 2)² + (1 + 0.5)², and (1 − 1.5)².
    #[test]
    fn losses_of_rumi_lsgan_are_its_formula() {
        let fill = |network: &str, name: &str| {
            if (network, name) == ("critic", "layers.1.bias") {
                1.0
            } else {
                0.0
            }
        };
        let text = "kind = \"rumi-lsgan\"\ncritic-steps = 1\ngenerated = -0.5\nwanted = 2.0\navoided = -2.0\ntarget = 1.5\nwanted-weight = 2.5\navoided-weight = 0.5";
        close(&losses(text, fill), &[2.5 + 4.5 + 2.25, 0.25]);
    }

    /// Logits of 0, 1 and 2 for D_p, D_u and D_n, π_p = 1/4 and weights 2, 3 and 5.
    #[test]
    fn losses_of_gen_pu_are_its_formula() {
        let fill = |network: &str, name: &str| match (network, name) {
            ("critic-unlabelled", "layers.1.bias") => 1.0,
            ("critic-negative", "layers.1.bias") => 2.0,
            _ => 0.0,
        };
        let text = "kind = \"gen-pu\"\ncritic-steps = 1\npositive-weight = 2.0\nunlabelled-weight = 3.0\nnegative-weight = 5.0\npositive-share = 0.25";
        // softplus(−v) = −log D of a real item, softplus(v) = −log(1 − D) of a generated one.
        let [real, fake] = [|v: f64| (-v).exp().ln_1p(), |v: f64| v.exp().ln_1p()];
        let wanted = [
            2.0 * 2.0_f64.ln(),
            real(1.0) + fake(1.0),
            real(2.0) + fake(2.0),
            0.25 * (2.0 * real(0.0) + 3.0 * real(1.0)),
            // G_n wants D_n to tell it from positives, so D_n's loss on it counts with its own sign.
            0.75 * (3.0 * real(1.0) + 5.0 * fake(2.0)),
        ];
        close(&losses(text, fill), &wanted);
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
