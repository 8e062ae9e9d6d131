//! Adam and SGD on a network's flat weights. Their memory is plain tensors, saved with a checkpoint.
//!
//! ```text
//! Adam   m ← β₁m + (1 − β₁)g     v ← β₂v + (1 − β₂)g²     w ← w − η·(m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)
//! SGD    m ← μm + g              w ← w − η·m
//! ```
//!
//! As in PyTorch 2.11 (`torch.optim.Adam`, `torch.optim.SGD`), without weight decay. The rate η is constant
//! or falls along half a cosine to zero, as `CosineAnnealingLR` has it.
//! Reference: Kingma and Ba, "Adam: a method for stochastic optimization", 2015.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor, no_grad};

use crate::parameters::{Parameters, zeros_like};

/// Which optimiser, and its constants; read from `optimizer` in a run file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum OptimizerSettings {
    Adam {
        learning_rate: f64,
        #[serde(default = "beta1")]
        beta1: f64,
        #[serde(default = "beta2")]
        beta2: f64,
        #[serde(default, skip_serializing_if = "Schedule::is_constant")]
        schedule: Schedule,
    },
    Sgd {
        learning_rate: f64,
        #[serde(default)]
        momentum: f64,
        #[serde(default, skip_serializing_if = "Schedule::is_constant")]
        schedule: Schedule,
    },
}

/// How the learning rate goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    #[default]
    Constant,
    /// Half a cosine from the rate at the first step to zero after the last one.
    Cosine,
}

impl Schedule {
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_constant(&self) -> bool {
        *self == Self::Constant
    }

    /// Share of the rate in force at a step, counted from 0, of so many.
    fn share(self, step: u64, steps: u64) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::Cosine => {
                let done = step as f64 / steps.max(1) as f64;
                0.5 * (1.0 + (std::f64::consts::PI * done.min(1.0)).cos())
            }
        }
    }
}

impl OptimizerSettings {
    /// Refuses constants that no training of so many steps can use.
    pub fn check(&self, steps: u64) -> Result<()> {
        let (Self::Adam { schedule, .. } | Self::Sgd { schedule, .. }) = self;
        ensure!(
            schedule.is_constant() || steps <= LONGEST_COSINE,
            "`optimizer.schedule` is `cosine` over {steps} steps; it can be laid over at most {LONGEST_COSINE}"
        );
        let (rate, shares) = match *self {
            Self::Adam {
                learning_rate,
                beta1,
                beta2,
                ..
            } => (learning_rate, vec![("beta1", beta1), ("beta2", beta2)]),
            Self::Sgd {
                learning_rate,
                momentum,
                ..
            } => (learning_rate, vec![("momentum", momentum)]),
        };
        ensure!(
            rate.is_finite() && rate > 0.0,
            "`optimizer.learning-rate` is {rate}; it must be above 0"
        );
        for (name, share) in shares {
            ensure!(
                (0.0..=MOST_MEMORY).contains(&share),
                "`optimizer.{name}` is {share}; it must be from 0 to {MOST_MEMORY}"
            );
        }
        Ok(())
    }
}

fn beta1() -> f64 {
    0.9
}

fn beta2() -> f64 {
    0.999
}

/// Largest β and momentum.
const MOST_MEMORY: f64 = 0.99999;

/// Most steps of a falling rate, which is kept step by step.
const LONGEST_COSINE: u64 = 1 << 24;

/// Added to Adam's denominator.
const EPSILON: f64 = 1e-8;

/// An optimiser with its memory for one network.
pub struct Optimizer {
    settings: OptimizerSettings,
    /// Steps taken, on the device, so that a recorded step counts too.
    step: Tensor,
    /// What depends on the step alone, `[steps, 2]`; the last row holds on. Adam: s₁ and s₂; SGD: −η.
    scales: Tensor,
    first: Tensor,
    second: Option<Tensor>,
}

impl Optimizer {
    /// For a training of `steps` steps of this optimiser.
    pub fn new(settings: OptimizerSettings, parameters: &Parameters, steps: u64) -> Self {
        let device = parameters.flat().device();
        let second = match settings {
            OptimizerSettings::Adam { .. } => Some(zeros_like(parameters)),
            OptimizerSettings::Sgd { .. } => None,
        };
        let scales = Tensor::from_slice(&settings.scales(steps));
        Self {
            settings,
            step: Tensor::zeros([1], (Kind::Int64, device)),
            scales: scales.view([-1, 2]).to_device(device),
            first: zeros_like(parameters),
            second,
        }
    }

    /// Steps taken.
    pub fn step(&self) -> u64 {
        self.step.int64_value(&[0]) as u64
    }

    pub fn set_step(&mut self, step: u64) {
        let _ = no_grad(|| self.step.fill_(step as i64));
    }

    /// The memory by name, for checkpoints.
    pub fn memory(&mut self) -> impl Iterator<Item = (&'static str, &mut Tensor)> {
        let second = self.second.as_mut().map(|moment| ("second", moment));
        [("first", &mut self.first)].into_iter().chain(second)
    }

    /// Moves the weights down the gradient, which has the layout of the flat weights.
    pub fn descend(&mut self, parameters: &mut Parameters, gradient: &Tensor) {
        no_grad(|| {
            let last = self.scales.size()[0] - 1;
            let scales = self.scales.index_select(0, &self.step.clamp_max(last));
            let [a, b] = [0, 1].map(|at| scales.select(1, at));
            self.step += 1;
            match self.settings {
                OptimizerSettings::Adam { beta1, beta2, .. } => {
                    let second = self.second.as_mut().expect("Adam has two moments");
                    let _ = self.first.lerp_(gradient, 1.0 - beta1);
                    let _ = second.lerp_(&gradient.square(), 1.0 - beta2);
                    // libtorch's `addcdiv` has no factor here, so the step size goes into the denominator.
                    let denominator = b.addcmul(&second.sqrt(), &a);
                    let _ = parameters.flat_mut().addcdiv_(&self.first, &denominator);
                }
                OptimizerSettings::Sgd { momentum, .. } => {
                    self.first *= momentum;
                    self.first += gradient;
                    let _ = parameters.flat_mut().addcmul_(&self.first, &a);
                }
            }
        });
    }
}

impl OptimizerSettings {
    /// Two numbers for every step, until they change no more. Adam: s₁ and s₂ in
    /// `w += m / (√v·s₁ + s₂)`; SGD: −η, and nothing.
    fn scales(&self, steps: u64) -> Vec<f32> {
        match *self {
            Self::Adam {
                learning_rate,
                beta1,
                beta2,
                schedule,
            } => table(schedule, steps, warm_up(beta1.max(beta2)), |step, share| {
                let exponent = i32::try_from(step + 1).unwrap_or(i32::MAX);
                let [first, second] = [beta1, beta2].map(|beta| 1.0 - beta.powi(exponent));
                let scale = -first / (learning_rate * share);
                [scale / second.sqrt(), scale * EPSILON]
            }),
            Self::Sgd {
                learning_rate,
                schedule,
                ..
            } => table(schedule, steps, 1, |_, share| [-learning_rate * share, 0.0]),
        }
    }
}

/// Steps until `1 − βᵗ` is 1 in 32-bit floats.
fn warm_up(beta: f64) -> u64 {
    if beta > 0.0 {
        (1e-9_f64.ln() / beta.ln()).ceil().max(1.0) as u64
    } else {
        1
    }
}

/// Rows of a step and the share of the rate in force there, as far as they change.
fn table(
    schedule: Schedule,
    steps: u64,
    warm_up: u64,
    row: impl Fn(u64, f64) -> [f64; 2],
) -> Vec<f32> {
    let rows = match schedule {
        Schedule::Constant => warm_up,
        Schedule::Cosine => steps.max(1),
    };
    (0..rows)
        .flat_map(|step| row(step, schedule.share(step, steps)).map(|scale| scale as f32))
        .collect()
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::parameters::{First, Spec};

    /// Ten steps on `Σ sin(c·w)·(k + 1)`, k = 0 … 9, with PyTorch 2.11.0:
    ///
    /// ```text
    /// w = torch.tensor([0.5, -1.0, 2.0, 0.0], requires_grad=True); o = torch.optim.…([w], …)
    /// for k in range(10):
    ///     o.zero_grad(); c = torch.tensor([1.0, 3.0, -2.0, 0.25])
    ///     ((w * c).sin() * (k + 1)).sum().backward(); o.step()
    /// ```
    ///
    /// The last two with `s = torch.optim.lr_scheduler.CosineAnnealingLR(o, 10)` and `s.step()` after each.
    #[test]
    fn ten_steps_agree_with_pytorch() {
        let adam = |learning_rate, beta1, beta2| OptimizerSettings::Adam {
            learning_rate,
            beta1,
            beta2,
            schedule: Schedule::Constant,
        };
        let sgd = |learning_rate, momentum| OptimizerSettings::Sgd {
            learning_rate,
            momentum,
            schedule: Schedule::Constant,
        };
        let falling = |mut settings| {
            match &mut settings {
                OptimizerSettings::Adam { schedule, .. }
                | OptimizerSettings::Sgd { schedule, .. } => *schedule = Schedule::Cosine,
            }
            settings
        };
        let cases = [
            (
                adam(1e-2, 0.5, 0.999),
                [0.374_074_31, -0.875_451_5, 1.872_869, -0.125_488_73],
            ),
            (
                adam(1e-1, 0.9, 0.99),
                [-0.474_662_18, -0.460_894_67, 1.035_389_5, -0.979_675_05],
            ),
            (
                sgd(1e-2, 0.9),
                [-1.149_139_8, -0.694_726_7, 0.231_240_8, -0.443_648_37],
            ),
            (
                sgd(1e-3, 0.0),
                [0.451_188_9, -0.846_150_2, 1.922_878_4, -0.013_749_979],
            ),
            (
                falling(adam(1e-1, 0.9, 0.99)),
                [-0.031_379_465, -0.479_283_07, 1.475_719_9, -0.534_336_1],
            ),
            (
                falling(sgd(1e-2, 0.9)),
                [0.021_173_837, -0.394_057_57, 1.148_041_4, -0.129_574_85],
            ),
        ];
        for (settings, wanted) in cases {
            let spec = Spec {
                name: "w".to_owned(),
                shape: vec![4],
                first: First::Constant(0.0),
            };
            let start = Tensor::from_slice(&[0.5_f32, -1.0, 2.0, 0.0]).view([1, 4]);
            let mut parameters = Parameters::from_flat(vec![spec], &start);
            let mut optimizer = Optimizer::new(settings, &parameters, 10);
            let c = Tensor::from_slice(&[1.0_f32, 3.0, -2.0, 0.25]);
            for k in 0..10 {
                let loss =
                    ((&parameters.views()[0] * &c).sin() * f64::from(k + 1)).sum(Kind::Float);
                let gradient = parameters.gradient(&loss);
                optimizer.descend(&mut parameters, &gradient);
            }
            assert_eq!(optimizer.step(), 10);
            let found =
                Vec::<f32>::try_from(parameters.flat().to_device(Device::Cpu).view(-1)).unwrap();
            for (found, wanted) in found.iter().zip(wanted) {
                let difference = (f64::from(*found) - wanted).abs();
                assert!(difference < 1e-6, "{settings:?}: {found} against {wanted}");
            }
        }
    }

    #[test]
    fn the_correction_of_the_first_steps_ends_where_floats_no_longer_see_it() {
        let settings: OptimizerSettings =
            toml::from_str("kind = \"adam\"\nlearning-rate = 1.0\nbeta1 = 0.5").unwrap();
        let scales = settings.scales(1 << 40);
        assert_eq!(scales[0], (-0.5 / 0.001_f64.sqrt()) as f32);
        assert_eq!(scales[scales.len() - 2], -1.0);
        assert!(scales.len() / 2 < 25_000);
    }
}
