//! Adam and SGD on a network's flat weights. Their memory is plain tensors, saved with a checkpoint.
//!
//! ```text
//! Adam   m ← β₁m + (1 − β₁)g     v ← β₂v + (1 − β₂)g²     w ← w − η·(m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)
//! SGD    g ← g + λw     m ← μm + g     w ← w − η·m, or w ← w − η·(g + μm) with Nesterov's momentum
//! ```
//!
//! As in PyTorch 2.11 (`torch.optim.Adam`, `torch.optim.SGD`); the weight decay λ acts on all weights. The
//! rate η is constant or falls along half a cosine to zero, as `CosineAnnealingLR` has it. With a warm-up of r
//! steps, step t < r before that takes η·(t + 1) / (r + 1), as `LinearLR` from 1 / (r + 1) has it.
//! Reference: Kingma and Ba, "Adam: a method for stochastic optimization", 2015.

use s2m_runs::parts::{OptimizerSettings, Schedule};
use tch::{Kind, Tensor, no_grad};

use crate::parameters::{Parameters, zeros_like};

/// The rate over a training.
#[derive(Debug, Clone, Copy)]
struct Course {
    schedule: Schedule,
    /// Steps of the rise.
    rise: u64,
    steps: u64,
}

impl Course {
    /// Share of the rate in force at a step, counted from 0.
    fn share(self, step: u64) -> f64 {
        if step < self.rise {
            return (step + 1) as f64 / (self.rise + 1) as f64;
        }
        match self.schedule {
            Schedule::Constant => 1.0,
            Schedule::Cosine => {
                let after = self.steps.saturating_sub(self.rise).max(1);
                let done = (step - self.rise) as f64 / after as f64;
                0.5 * (1.0 + (std::f64::consts::PI * done.min(1.0)).cos())
            }
        }
    }

    /// Rows of a step and the share of the rate there, as far as they change; without the rate they are
    /// settled after so many.
    fn table(self, settled: u64, row: impl Fn(u64, f64) -> [f64; 2]) -> Vec<f32> {
        let rows = match self.schedule {
            Schedule::Constant => settled.max(self.rise + 1),
            Schedule::Cosine => self.steps.max(1),
        };
        (0..rows)
            .flat_map(|step| row(step, self.share(step)).map(|scale| scale as f32))
            .collect()
    }
}

fn course(settings: &OptimizerSettings, steps: u64) -> Course {
    let (schedule, warm_up) = settings.course();
    Course {
        schedule,
        rise: (warm_up * steps as f64).round() as u64,
        steps,
    }
}

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
        let scales = Tensor::from_slice(&scales(&settings, steps));
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

    /// Steps taken, where the device counts them: `[1]`.
    pub fn taken(&self) -> &Tensor {
        &self.step
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
                OptimizerSettings::Sgd {
                    momentum,
                    nesterov,
                    weight_decay,
                    ..
                } => {
                    let gradient = if weight_decay > 0.0 {
                        gradient + parameters.flat() * weight_decay
                    } else {
                        gradient.shallow_clone()
                    };
                    self.first *= momentum;
                    self.first += &gradient;
                    let way = if nesterov {
                        gradient + &self.first * momentum
                    } else {
                        self.first.shallow_clone()
                    };
                    let _ = parameters.flat_mut().addcmul_(&way, &a);
                }
            }
        });
    }
}

/// Two numbers for every step, until they change no more. Adam: s₁ and s₂ in
/// `w += m / (√v·s₁ + s₂)`; SGD: −η, and nothing.
fn scales(settings: &OptimizerSettings, steps: u64) -> Vec<f32> {
    let course = course(settings, steps);
    match *settings {
        OptimizerSettings::Adam {
            learning_rate,
            beta1,
            beta2,
            ..
        } => course.table(settled(beta1.max(beta2)), |step, share| {
            let exponent = i32::try_from(step + 1).unwrap_or(i32::MAX);
            let [first, second] = [beta1, beta2].map(|beta| 1.0 - beta.powi(exponent));
            let scale = -first / (learning_rate * share);
            [scale / second.sqrt(), scale * EPSILON]
        }),
        OptimizerSettings::Sgd { learning_rate, .. } => {
            course.table(1, |_, share| [-learning_rate * share, 0.0])
        }
    }
}

/// Steps until `1 − βᵗ` is 1 in 32-bit floats.
fn settled(beta: f64) -> u64 {
    if beta > 0.0 {
        (1e-9_f64.ln() / beta.ln()).ceil().max(1.0) as u64
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::parameters::{First, Spec};

    /// The optimiser that a run file states so.
    fn of(settings: &str) -> OptimizerSettings {
        #[derive(serde::Deserialize)]
        struct File {
            optimizer: OptimizerSettings,
        }
        let file: File = toml::from_str(&format!("optimizer = {{ {settings} }}")).unwrap();
        file.optimizer
    }

    /// Ten steps on `Σ sin(c·w)·(k + 1)`, k = 0 … 9, with PyTorch 2.11.0:
    ///
    /// ```text
    /// w = torch.tensor([0.5, -1.0, 2.0, 0.0], requires_grad=True); o = torch.optim.…([w], …)
    /// for k in range(10):
    ///     o.zero_grad(); c = torch.tensor([1.0, 3.0, -2.0, 0.25])
    ///     ((w * c).sin() * (k + 1)).sum().backward(); o.step()
    /// ```
    ///
    /// With `schedule = "cosine"`, `s = torch.optim.lr_scheduler.CosineAnnealingLR(o, 10)` and `s.step()` after
    /// each; with `warm-up = 0.3`, `s = SequentialLR(o, [LinearLR(o, 0.25, total_iters=3), t], [3])`, `t` being
    /// `CosineAnnealingLR(o, 7)`, or `ConstantLR(o, 1.0)` where the rate stays.
    #[test]
    fn ten_steps_agree_with_pytorch() {
        let cases = [
            (
                "kind = 'adam', learning-rate = 1e-2, beta1 = 0.5",
                [0.374_074_31, -0.875_451_5, 1.872_869, -0.125_488_73],
            ),
            (
                "kind = 'adam', learning-rate = 1e-1, beta2 = 0.99",
                [-0.474_662_18, -0.460_894_67, 1.035_389_5, -0.979_675_05],
            ),
            (
                "kind = 'sgd', learning-rate = 1e-2, momentum = 0.9",
                [-1.149_139_8, -0.694_726_7, 0.231_240_8, -0.443_648_37],
            ),
            (
                "kind = 'sgd', learning-rate = 1e-3",
                [0.451_188_9, -0.846_150_2, 1.922_878_4, -0.013_749_979],
            ),
            (
                "kind = 'adam', learning-rate = 1e-1, beta2 = 0.99, schedule = 'cosine'",
                [-0.031_379_465, -0.479_283_07, 1.475_719_9, -0.534_336_1],
            ),
            (
                "kind = 'sgd', learning-rate = 1e-2, momentum = 0.9, schedule = 'cosine'",
                [0.021_173_837, -0.394_057_57, 1.148_041_4, -0.129_574_85],
            ),
            (
                "kind = 'sgd', learning-rate = 1e-2, momentum = 0.9, weight-decay = 0.3",
                [-1.179_386_4, -0.689_796_8, 0.248_965_04, -0.436_285_73],
            ),
            (
                "kind = 'sgd', learning-rate = 1e-2, momentum = 0.9, nesterov = true",
                [-1.405_485, -0.520_607_23, 0.631_431_64, -0.536_366_28],
            ),
            (
                "kind = 'sgd', learning-rate = 1e-2, momentum = 0.9, nesterov = true, weight-decay = 0.3, schedule = 'cosine', warm-up = 0.3",
                [-0.419_925_48, -0.522_227_35, 0.616_678_7, -0.234_184_8],
            ),
            (
                "kind = 'adam', learning-rate = 1e-1, beta2 = 0.99, warm-up = 0.3",
                [-0.327_426_97, -0.367_870_75, 1.183_902_6, -0.832_405_15],
            ),
        ];
        for (settings, wanted) in cases {
            let settings = of(settings);
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
        let scales = scales(&settings, 1 << 40);
        assert_eq!(scales[0], (-0.5 / 0.001_f64.sqrt()) as f32);
        assert_eq!(scales[scales.len() - 2], -1.0);
        assert!(scales.len() / 2 < 25_000);
    }

    #[test]
    fn a_rate_rises_in_even_steps_and_then_falls_along_the_cosine_of_the_rest() {
        let settings = of("kind = 'sgd', learning-rate = 1.0, schedule = 'cosine', warm-up = 0.25");
        let rates: Vec<f32> = scales(&settings, 12)
            .iter()
            .step_by(2)
            .map(|s| -s)
            .collect();
        assert_eq!(rates[..4], [0.25, 0.5, 0.75, 1.0]);
        assert_eq!(rates.len(), 12);
        let plain = scales(
            &of("kind = 'sgd', learning-rate = 1.0, schedule = 'cosine'"),
            9,
        );
        assert!(
            rates[3..]
                .iter()
                .zip(plain.iter().step_by(2))
                .all(|(a, b)| *a == -b)
        );
    }

    /// A folder that holds a run is known by its run file, so keys that are left out must stay out.
    #[test]
    fn what_is_left_out_stays_out_and_what_is_stated_comes_back() {
        let plain = of("kind = 'sgd', learning-rate = 0.5");
        let text = "kind = \"sgd\"\nlearning-rate = 0.5\nmomentum = 0.0\n";
        assert_eq!(toml::to_string(&plain).unwrap(), text);
        let full = of(
            "kind = 'sgd', learning-rate = 0.3, momentum = 0.9, nesterov = true, weight-decay = 5e-4, schedule = 'cosine', warm-up = 0.1",
        );
        let again: OptimizerSettings = toml::from_str(&toml::to_string(&full).unwrap()).unwrap();
        assert_eq!(again, full);
    }

    #[test]
    fn constants_that_no_training_can_use_are_refused() {
        let refused = |extra: &str, steps| {
            let settings = of(&format!("kind = 'sgd', learning-rate = 0.1, {extra}"));
            settings.check(steps).unwrap_err().to_string()
        };
        assert_eq!(
            refused("weight-decay = -1.0", 10),
            "`optimizer.weight-decay` is -1; it must be 0 or above"
        );
        assert_eq!(
            refused("nesterov = true", 10),
            "`optimizer.nesterov` needs a momentum above 0"
        );
        assert_eq!(
            refused("warm-up = 1.0", 10),
            "`optimizer.warm-up` is 1; it must be from 0 to below 1"
        );
        assert_eq!(
            refused("warm-up = 0.1", 1 << 30),
            "`optimizer.warm-up` is for trainings of at most 16777216 steps, this one has 1073741824"
        );
        assert!(refused("schedule = 'cosine'", 1 << 30).contains("at most 16777216"));
        assert!(refused("momentum = 1.0", 10).contains("`optimizer.momentum` is 1"));
    }
}
