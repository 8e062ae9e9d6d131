//! The losses of hinge GANs, each a mean over the batch for every replica.

use tch::Tensor;

use crate::objectives::mean;

/// E max(0, 1 − D(x)) + E max(0, 1 + D(G)), from scores `[replicas, batch]`.
pub(super) fn hinge(real: &Tensor, made: &Tensor) -> Tensor {
    mean(&(-real + 1.0).relu()) + mean(&(made + 1.0).relu())
}

/// Mean of −Σ p·log softmax(logits), both `[replicas, batch, classes]`.
pub(super) fn cross_entropy(logits: &Tensor, wanted: &Tensor) -> Tensor {
    let each = wanted * logits.log_softmax(-1, logits.kind());
    -mean(&each.sum_dim_intlist([-1].as_slice(), false, logits.kind()))
}

/// Mean of KL(p ‖ softmax(logits)).
pub(super) fn divergence(wanted: &Tensor, logits: &Tensor) -> Tensor {
    // p·log p is 0 where p is.
    let own = wanted * wanted.clamp_min(f64::from(f32::MIN_POSITIVE)).log();
    let own = own.sum_dim_intlist([-1].as_slice(), false, logits.kind());
    mean(&own) + cross_entropy(logits, wanted)
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::networks::biggan::Ready;
    use crate::networks::biggan::critic::{Critic, Head};
    use crate::networks::biggan::generator::{Generator, Statistics};
    use crate::networks::spectral::{self, Power};
    use crate::noise;
    use crate::parameters::{Parameters, Spec};

    #[test]
    fn losses_follow_their_formulae() {
        let scores = |values: &[f64]| Tensor::from_slice(values).view([1, -1]);
        let found = hinge(&scores(&[2.0, 0.5, -1.0]), &scores(&[-3.0, 0.0, 1.0]));
        assert!((found.double_value(&[0]) - (2.5 / 3.0 + 1.0)).abs() < 1e-12);
        let logits = Tensor::from_slice(&[0.3, -0.2, 1.0, 0.0_f64]).view([1, 2, 2]);
        let wanted = Tensor::from_slice(&[1.0, 0.0, 0.25, 0.75_f64]).view([1, 2, 2]);
        let log = |a: f64, b: f64| a - (a.exp() + b.exp()).ln();
        let cross = -(log(0.3, -0.2) + 0.25 * log(1.0, 0.0) + 0.75 * log(0.0, 1.0)) / 2.0;
        let found = cross_entropy(&logits, &wanted).double_value(&[0]);
        assert!((found - cross).abs() < 1e-12, "{found}");
        let own = f64::midpoint(0.25 * 0.25_f64.ln(), 0.75 * 0.75_f64.ln());
        let found = divergence(&wanted, &logits).double_value(&[0]);
        assert!((found - own - cross).abs() < 1e-12, "{found}");
    }

    fn number(first: u64, shape: &[i64]) -> Tensor {
        let count: i64 = shape.iter().product();
        let all = noise::normal(&[9], first, (count + 1) / 2, Device::Cpu);
        let all = all.narrow(1, 0, count).to_kind(Kind::Double);
        all.view(shape)
    }

    /// A network in 64-bit floats at rest under its power steps, where σ does not change with its vectors.
    fn network(name: &str, specs: Vec<Spec>) -> Parameters {
        let first = Parameters::new(name, specs.clone(), &[1], Device::Cpu);
        let exact = |view: &Tensor| view.detach().to_kind(Kind::Double);
        let tensors: Vec<Tensor> = first.views().iter().map(exact).collect();
        let mut network = Parameters::from_tensors(specs, &tensors);
        let size = network.flat().size();
        // Equal singular values of an orthogonal start have no largest one.
        let moved = network.flat() + number(7, &size) * 0.2;
        network.set(&moved);
        for _ in 0..10 {
            spectral::settle(&network);
        }
        network
    }

    const GENERATOR: Generator = Generator {
        picture: [3, 32, 32],
        channels: 1,
        latent: 8,
        codes: 2,
        shared: 3,
        attention: false,
    };

    fn critic(head: Head) -> Critic {
        Critic {
            picture: [3, 32, 32],
            channels: 1,
            head,
            attention: false,
        }
    }

    /// Both losses of one game as functions of both networks.
    fn losses(head: Head, posterior: bool, networks: [&Parameters; 2]) -> [Tensor; 2] {
        let [maker, judge] = networks.map(|network| Ready::all(network, Power::Kept, Kind::Double));
        let critic = critic(head);
        let code = if posterior {
            number(500, &[1, 4, 2]).softmax(-1, Kind::Double)
        } else {
            Tensor::from_slice(&[1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0_f64]).view([1, 4, 2])
        };
        let latent = number(300, &[1, 4, 8]);
        let how = (Statistics::Batch, Kind::Double);
        let made = GENERATOR.forward(&maker, (&latent, Some(&code)), how);
        let real = number(400, &[1, 4, 3072]);
        let about_real = critic.forward(&judge, &real, Some(&code), Kind::Double);
        let about_made = critic.forward(&judge, &made, Some(&code), Kind::Double);
        // Scores are scaled so that no side of a hinge is flat for all items.
        let [real, made] = [&about_real, &about_made].map(|about| &about.score * 0.05);
        let mut own = [hinge(&real, &made), -mean(&made)];
        if let Head::Classes(_) = head {
            own[0] += cross_entropy(&about_real.class, &code);
            own[1] += if posterior {
                divergence(&code, &about_made.class)
            } else {
                cross_entropy(&about_made.class, &code)
            };
        }
        own.map(|loss| loss.sum(Kind::Double))
    }

    /// Hinge, projection, AC-GAN and CP-GAN: gradients of the critic's loss in its weights and of the generator's in
    /// its own, through spectral and batch norms, against central differences.
    #[test]
    fn gradients_agree_with_differences() {
        let games = [
            (Head::Score, false),
            (Head::Projection(2), false),
            (Head::Classes(2), false),
            (Head::Classes(2), true),
        ];
        let maker = network("generator", GENERATOR.specs());
        for (head, posterior) in games {
            let judge = network("critic", critic(head).specs());
            let both = || losses(head, posterior, [&maker, &judge]);
            let gradients = [maker.gradient(&both()[1]), judge.gradient(&both()[0])];
            for (which, (network, gradient)) in
                [&maker, &judge].into_iter().zip(&gradients).enumerate()
            {
                let size = network.flat().size()[1];
                for at in (0..5).map(|n| n * (size - 1) / 4) {
                    let step = 1e-6;
                    let moved = |by: f64| {
                        let flat = network.flat().copy();
                        let _ = flat.get(0).get(at).fill_(flat.double_value(&[0, at]) + by);
                        let tensors: Vec<Tensor> =
                            network.views().iter().map(Tensor::detach).collect();
                        let mut other =
                            Parameters::from_tensors(network.specs().to_vec(), &tensors);
                        other.set(&flat);
                        let pair = if which == 0 {
                            [&other, &judge]
                        } else {
                            [&maker, &other]
                        };
                        losses(head, posterior, pair)[1 - which].double_value(&[])
                    };
                    let slope = (moved(step) - moved(-step)) / (2.0 * step);
                    let found = gradient.double_value(&[0, at]);
                    assert!(
                        (slope - found).abs() < 1e-5 * (1.0 + slope.abs()),
                        "{head:?} network {which} weight {at}: {slope} by differences, {found}"
                    );
                }
            }
        }
    }
}
