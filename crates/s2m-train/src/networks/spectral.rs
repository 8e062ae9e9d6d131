//! Spectral norm: a layer multiplies by its weight divided by the weight's largest singular value.
//!
//! ```text
//! v = Wᵀu / ‖Wᵀu‖     σ = ‖Wv‖     u ← Wv / σ     the layer has W / σ
//! ```
//!
//! `W` has one row per output. One such power step for every optimiser step of the network is enough, because
//! weights move little between two. `u` is a running statistic. Gradients take `v` as fixed, so σ's is `uvᵀ`.
//! Reference: Miyato et al., "Spectral normalization for generative adversarial networks", 2018.

use anyhow::{Context as _, Result};
use tch::{Kind, Tensor, no_grad};

use crate::parameters::{First, Parameters, Spec, Weights};

/// Least length that is divided by.
pub const EPSILON: f64 = 1e-6;

/// Power steps that find σ of weights which no training step has followed, such as averaged ones.
const SETTLED: usize = 30;

/// What becomes of `u`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// It makes its step: the weights are about to be trained.
    Moved,
    /// It stays.
    Kept,
}

/// A weight that starts orthogonal, and its `u`.
pub fn specs(name: &str, shape: &[i64]) -> [Spec; 2] {
    let spec = |kind: &str, shape: &[i64], first| Spec {
        name: format!("{name}.{kind}"),
        shape: shape.to_vec(),
        first,
    };
    [
        spec("weight", shape, First::Orthogonal),
        spec("u", &shape[..1], First::Direction),
    ]
}

/// A weight as [`specs`] has it, with a bias that starts at zero.
pub fn specs_with_bias(name: &str, shape: &[i64]) -> [Spec; 3] {
    let [weight, u] = specs(name, shape);
    let bias = Spec {
        name: format!("{name}.bias"),
        shape: shape[..1].to_vec(),
        first: First::Constant(0.0),
    };
    [weight, bias, u]
}

/// One replica's weight divided by its largest singular value, as `u` finds it.
pub fn normed(weight: &Tensor, u: &Tensor, power: Power) -> Tensor {
    let rows = weight.flatten(1, -1); // [out, all else]
    let v = no_grad(|| unit(&rows.transpose(0, 1).mv(u)));
    let image = rows.mv(&v); // [out]
    let norm = image.norm().clamp_min(EPSILON);
    if power == Power::Moved {
        no_grad(|| u.shallow_clone().copy_(&(image.detach() / norm.detach())));
    }
    weight / norm
}

/// Brings every `u` of a network to rest where its weights stand.
pub fn settle(network: &Parameters) {
    let specs = network.specs();
    for (at, spec) in specs.iter().enumerate() {
        let Some(u) = of(specs, spec) else { continue };
        let (weights, us) = (network.views()[at].detach(), &network.views()[u]);
        for (weight, u) in weights.unbind(0).iter().zip(us.unbind(0)) {
            for _ in 0..SETTLED {
                let _ = no_grad(|| normed(weight, &u, Power::Moved));
            }
        }
    }
}

/// Where the `u` of a weight stands, if it has one.
pub fn of(specs: &[Spec], weight: &Spec) -> Option<usize> {
    let name = format!("{}.u", weight.name.strip_suffix(".weight")?);
    specs.iter().position(|spec| spec.name == name)
}

fn unit(x: &Tensor) -> Tensor {
    x / x.norm().clamp_min(EPSILON)
}

/// The saved weight `name.weight` with its spectral norm taken, and its shape.
pub fn folded(weights: &Weights, name: &str) -> Result<(Vec<usize>, Vec<f32>)> {
    let saved = |kind: &str| {
        let name = format!("{name}.{kind}");
        weights
            .get(&name)
            .with_context(|| format!("weight `{name}` is missing"))
    };
    let ((shape, values), (_, u)) = (saved("weight")?, saved("u")?);
    let sides: Vec<i64> = shape.iter().map(|&side| side as i64).collect();
    let exact = |values: &[f32]| Tensor::from_slice(values).to_kind(Kind::Double);
    let weight = exact(values).view(sides.as_slice());
    let normed = no_grad(|| normed(&weight, &exact(u), Power::Kept)).to_kind(Kind::Float);
    Ok((shape.clone(), Vec::try_from(normed.reshape([-1]))?))
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::noise;

    fn largest(weight: &Tensor) -> f64 {
        let (_, values, _) = weight.flatten(1, -1).svd(true, false);
        values.max().double_value(&[])
    }

    /// A kernel with all its singular values known to libtorch's SVD.
    #[test]
    fn power_steps_find_the_largest_singular_value() {
        for shape in [[6, 5, 3, 3], [40, 2, 1, 1]] {
            let mut network = Parameters::new("a", specs("a", &shape).into(), &[1, 2], Device::Cpu);
            let size: i64 = shape.iter().product();
            let flat = noise::normal(&[5, 6], 0, (size + 1) / 2, Device::Cpu);
            network.set(&flat.narrow(1, 0, size));
            let [weight, u] = network.views() else {
                panic!("two tensors")
            };
            let wanted = largest(&weight.get(1).detach());
            let norm = |power| {
                let normed = normed(&weight.get(1), &u.get(1), power);
                let ratio = weight.get(1).norm() / normed.norm();
                ratio.double_value(&[])
            };
            let first = norm(Power::Kept);
            assert!(first < wanted - 1e-3, "{first} of {wanted}");
            assert_eq!(norm(Power::Kept), first);
            for _ in 0..200 {
                let _ = norm(Power::Moved);
            }
            assert!((norm(Power::Kept) - wanted).abs() < 1e-4 * wanted);
            assert!((u.get(1).norm().double_value(&[]) - 1.0).abs() < 1e-6);
            let folded = folded(&network.replica(1).unwrap(), "a").unwrap().1;
            let folded = Tensor::from_slice(&folded).view(shape);
            assert!((largest(&folded) - 1.0).abs() < 1e-4);
        }
    }

    #[test]
    fn an_orthogonal_start_has_singular_values_of_one() {
        for shape in [[6, 5, 3, 3], [40, 2, 1, 1]] {
            let network = Parameters::new("a", specs("a", &shape).into(), &[1, 2], Device::Cpu);
            for weight in network.views()[0].unbind(0) {
                let (_, values, _) = weight.detach().flatten(1, -1).svd(true, false);
                let off = (values - 1.0).abs().max().double_value(&[]);
                assert!(off < 1e-5, "{off}");
            }
            assert_ne!(network.views()[0].get(0), network.views()[0].get(1));
        }
    }

    /// ∂/∂W of Σ c·W/σ(W) with u and v fixed, against differences of the same with the true σ: at rest `u` and
    /// `v` are where σ is stationary in them, so that both agree.
    #[test]
    fn the_gradient_is_that_of_the_weight_over_its_norm() {
        let shape = [4, 3, 2, 1];
        let start = Parameters::new("a", specs("a", &shape).into(), &[3], Device::Cpu);
        let number = |first, count: i64| {
            noise::normal(&[9], first, count / 2, Device::Cpu).to_kind(Kind::Double)
        };
        let values = number(0, 24).view([1, 4, 3, 2, 1]);
        let u = start.views()[1].to_kind(Kind::Double);
        let network = Parameters::from_tensors(specs("a", &shape).into(), &[values.copy(), u]);
        settle(&network);
        settle(&network);
        let factor = number(100, 24).view(shape);
        let [weight, u] = network.views() else {
            panic!("two tensors")
        };
        let loss = (normed(&weight.get(0), &u.get(0), Power::Kept) * &factor).sum(Kind::Double);
        let gradient = network.gradient(&loss);
        let exact = |values: &Tensor| {
            let value = (values * &factor).sum(Kind::Double) / largest(values);
            value.double_value(&[])
        };
        let step = 1e-5;
        for at in 0..24 {
            let moved = |by: f64| {
                let moved = values.copy().view(-1);
                let _ = moved.get(at).fill_(moved.double_value(&[at]) + by);
                exact(&moved.view(shape))
            };
            let slope = (moved(step) - moved(-step)) / (2.0 * step);
            let found = gradient.double_value(&[0, at]);
            assert!((slope - found).abs() < 1e-5, "{slope} against {found}");
        }
    }
}
