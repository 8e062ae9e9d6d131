//! Adam and SGD on a network's flat weights. Their memory is plain tensors, saved with a checkpoint.
//!
//! ```text
//! Adam   m ← β₁m + (1 − β₁)g     v ← β₂v + (1 − β₂)g²     w ← w − η·(m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)
//! SGD    m ← μm + g              w ← w − η·m
//! ```
//!
//! As in PyTorch 2.11 (`torch.optim.Adam`, `torch.optim.SGD`), without weight decay.
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
    },
    Sgd {
        learning_rate: f64,
        #[serde(default)]
        momentum: f64,
    },
}

impl OptimizerSettings {
    /// Refuses constants that no training can use.
    pub fn check(&self) -> Result<()> {
        let (rate, shares) = match *self {
            Self::Adam {
                learning_rate,
                beta1,
                beta2,
            } => (learning_rate, vec![("beta1", beta1), ("beta2", beta2)]),
            Self::Sgd {
                learning_rate,
                momentum,
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

/// Added to Adam's denominator.
const EPSILON: f64 = 1e-8;

/// An optimiser with its memory for one network.
pub struct Optimizer {
    settings: OptimizerSettings,
    /// Steps taken, on the device, so that a recorded step counts too.
    step: Tensor,
    /// Adam: s₁ and s₂ of every step until they change no more, `[steps, 2]`.
    scales: Tensor,
    first: Tensor,
    second: Option<Tensor>,
}

impl Optimizer {
    pub fn new(settings: OptimizerSettings, parameters: &Parameters) -> Self {
        let device = parameters.flat().device();
        let (scales, second) = match settings {
            OptimizerSettings::Adam {
                learning_rate,
                beta1,
                beta2,
            } => (
                adam_scales(learning_rate, beta1, beta2),
                Some(zeros_like(parameters)),
            ),
            OptimizerSettings::Sgd { .. } => (vec![0.0; 2], None),
        };
        Self {
            settings,
            step: Tensor::zeros([1], (Kind::Int64, device)),
            scales: Tensor::from_slice(&scales).view([-1, 2]).to_device(device),
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
            self.step += 1;
            match self.settings {
                OptimizerSettings::Adam { beta1, beta2, .. } => {
                    self.adam(parameters, gradient, [beta1, beta2]);
                }
                OptimizerSettings::Sgd {
                    learning_rate,
                    momentum,
                } => {
                    self.first *= momentum;
                    self.first += gradient;
                    *parameters.flat_mut() -= &self.first * learning_rate;
                }
            }
        });
    }

    fn adam(&mut self, parameters: &mut Parameters, gradient: &Tensor, [beta1, beta2]: [f64; 2]) {
        let second = self.second.as_mut().expect("Adam has two moments");
        let _ = self.first.lerp_(gradient, 1.0 - beta1);
        let _ = second.lerp_(&gradient.square(), 1.0 - beta2);
        // libtorch's `addcdiv` has no factor here, so the step size goes into the denominator.
        let last = self.scales.size()[0] - 1;
        let scales = self
            .scales
            .index_select(0, &(&self.step - 1).clamp_max(last));
        let [root, epsilon] = [0, 1].map(|at| scales.select(1, at));
        let denominator = epsilon.addcmul(&second.sqrt(), &root);
        let _ = parameters.flat_mut().addcdiv_(&self.first, &denominator);
    }
}

/// s₁ and s₂ in `w += m / (√v·s₁ + s₂)`, step by step, until `1 − βᵗ` is 1 in 32-bit floats.
fn adam_scales(rate: f64, beta1: f64, beta2: f64) -> Vec<f32> {
    let slowest = beta1.max(beta2);
    let steps = if slowest > 0.0 {
        (1e-9_f64.ln() / slowest.ln()).ceil() as i32
    } else {
        1
    };
    (1..=steps.max(1))
        .flat_map(|step| {
            let [first, second] = [beta1, beta2].map(|beta| 1.0 - beta.powi(step));
            let scale = -first / rate;
            [(scale / second.sqrt()) as f32, (scale * EPSILON) as f32]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::parameters::Spec;

    /// Ten steps on `Σ sin(c·w)·(k + 1)`, k = 0 … 9, with PyTorch 2.11.0:
    ///
    /// ```text
    /// w = torch.tensor([0.5, -1.0, 2.0, 0.0], requires_grad=True); o = torch.optim.…([w], …)
    /// for k in range(10):
    ///     o.zero_grad(); c = torch.tensor([1.0, 3.0, -2.0, 0.25])
    ///     ((w * c).sin() * (k + 1)).sum().backward(); o.step()
    /// ```
    #[test]
    fn ten_steps_agree_with_pytorch() {
        let adam = |learning_rate, beta1, beta2| OptimizerSettings::Adam {
            learning_rate,
            beta1,
            beta2,
        };
        let sgd = |learning_rate, momentum| OptimizerSettings::Sgd {
            learning_rate,
            momentum,
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
        ];
        for (settings, wanted) in cases {
            let spec = Spec {
                name: "w".to_owned(),
                shape: vec![4],
                bound: 1.0,
            };
            let start = Tensor::from_slice(&[0.5_f32, -1.0, 2.0, 0.0]).view([1, 4]);
            let mut parameters = Parameters::from_flat(vec![spec], &start);
            let mut optimizer = Optimizer::new(settings, &parameters);
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
        let scales = adam_scales(1.0, 0.5, 0.999);
        assert_eq!(scales[0], (-0.5 / 0.001_f64.sqrt()) as f32);
        assert_eq!(scales[scales.len() - 2], -1.0);
        assert!(scales.len() / 2 < 25_000);
    }
}
