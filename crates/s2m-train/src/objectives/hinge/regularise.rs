//! What keeps a critic from learning its data by heart, each by key: mirrored pictures, DiffAugment, consistency
//! and LeCam.
//!
//! ```text
//! consistency  λ·E(D(x) − D(T(x)))²,    x real, T: mirrored half of the time and moved by up to 1/8 of the side
//! LeCam        λ·(E max(0, D(x) − a_g)² + E max(0, a_r − D(G))²),    a_r, a_g running means of D(x) and D(G)
//! ```
//!
//! References: Zhang et al., "Consistency regularization for generative adversarial networks", 2020; Tseng et al.,
//! "Regularizing generative adversarial networks under limited data", 2021, in the form of its authors' code.

use s2m_runs::parts::{Augment, Edge};
use s2m_runs::regularise::{Lecam, Regularise};
use tch::{Kind, Tensor, no_grad};

use crate::diff_augment;
use crate::noise::Draws;
use crate::objectives::mean;
use crate::parameters::{First, Spec};
use crate::trained::Trained;

/// Uniform numbers for so many real pictures before anyone sees them.
pub fn real_needs(regularise: &Regularise, items: i64) -> i64 {
    if regularise.flip { items } else { 0 }
}

/// Real pictures `[replicas, items, size]` as training draws them.
pub fn real(
    regularise: &Regularise,
    x: &Tensor,
    [.., width]: [i64; 3],
    draws: &mut Draws,
) -> Tensor {
    if !regularise.flip {
        return x.shallow_clone();
    }
    let shape = x.size();
    let mirrored = draws.uniform(shape[1]).lt(0.5).unsqueeze(-1);
    let lines = [shape[0], shape[1], -1, width];
    let other = x.view(lines).flip([3]).view(shape.as_slice());
    other.where_self(&mirrored, x)
}

/// Uniform numbers for so many pictures that the critic sees.
pub(super) fn seen_needs(regularise: &Regularise, items: i64) -> i64 {
    diff_augment::needs(&regularise.diff_augment, items)
}

/// Pictures `[replicas, items, size]` as the critic sees them.
pub(super) fn seen(
    regularise: &Regularise,
    x: &Tensor,
    picture: [i64; 3],
    draws: &mut Draws,
) -> Tensor {
    diff_augment::apply(&regularise.diff_augment, x, picture, draws)
}

/// `T` of the consistency term, where there is one.
pub(super) fn consistent(regularise: &Regularise, [_, height, width]: [i64; 3]) -> Option<Augment> {
    (regularise.consistency > 0.0).then_some(Augment {
        flip: true,
        shift: height.min(width) / 8,
        cutout: 0,
        edge: Edge::Mirror,
    })
}

/// The running means that LeCam needs, as statistics of the critic.
pub(super) fn specs(regularise: &Regularise) -> Vec<Spec> {
    let spec = |name: &str| Spec {
        name: name.to_owned(),
        shape: vec![1],
        first: First::Statistic(0.0),
    };
    regularise
        .lecam
        .map_or(Vec::new(), |_| MEANS.map(spec).into())
}

/// Names of the running means of scores of real and of generated items.
const MEANS: [&str; 2] = ["lecam.real", "lecam.generated"];

/// The term for every replica, from scores `[replicas, batch]`; its means move on.
pub(super) fn lecam(
    lecam: Lecam,
    critic: &Trained,
    critic_steps: i64,
    [real, generated]: [&Tensor; 2],
) -> Tensor {
    let views = critic.parameters.specs().iter().zip(critic.weights());
    let running = |name: &str| {
        let mut views = views.clone();
        let found = views.find(|(spec, _)| spec.name == name);
        found.expect("the critic has the means").1
    };
    let [real_mean, generated_mean] = MEANS.map(running);
    let over = |gap: Tensor| mean(&gap.relu().square());
    let term = over(real - generated_mean.copy()) + over(real_mean.copy() - generated);
    no_grad(|| {
        for (running, scores) in [(real_mean, real), (generated_mean, generated)] {
            let now = mean(&scores.detach()).unsqueeze(1);
            let _ = running.shallow_clone().lerp_(&now, 1.0 - lecam.decay);
        }
    });
    let first = lecam.from.saturating_mul(critic_steps.unsigned_abs());
    let first = i64::try_from(first).unwrap_or(i64::MAX);
    let counts = critic.optimizer.taken().ge(first).to_kind(Kind::Float);
    term * counts * lecam.weight
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::trained::Start;

    fn scores(values: &[f32]) -> Tensor {
        Tensor::from_slice(values).view([1, -1])
    }

    /// Two steps by hand: the first counts for nothing and moves the means, the second sees them.
    #[test]
    fn lecam_follows_its_formula() {
        let lecam = Lecam {
            weight: 2.0,
            decay: 0.75,
            from: 1,
        };
        let regularise = Regularise {
            lecam: Some(lecam),
            ..Regularise::default()
        };
        let mut specs = specs(&regularise);
        specs.push(Spec {
            name: "w".to_owned(),
            shape: vec![1],
            first: First::Constant(1.0),
        });
        let start = Start {
            keys: &[1],
            optimizer: toml::from_str("kind = \"sgd\"\nlearning-rate = 1e-3").unwrap(),
            steps: 10,
            device: Device::Cpu,
        };
        let mut critic = Trained::new("critic", specs, &start);
        let (real, made) = (scores(&[4.0, 0.0]), scores(&[-4.0, -8.0]));
        let first = super::lecam(lecam, &critic, 1, [&real, &made]);
        assert_eq!(first.double_value(&[0]), 0.0);
        critic.apply(&Tensor::zeros([1, 1], (Kind::Float, Device::Cpu)));
        // Means are now 0.25·2 and 0.25·(−6): gaps of 5.5 and 1.5, and of 4.5 and 8.5.
        let second = super::lecam(lecam, &critic, 1, [&real, &made]).double_value(&[0]);
        let wanted = f64::midpoint(5.5 * 5.5, 1.5 * 1.5) + f64::midpoint(4.5 * 4.5, 8.5 * 8.5);
        assert!((second - 2.0 * wanted).abs() < 1e-4, "{second}");
        // A gap on the good side costs nothing.
        let third = super::lecam(lecam, &critic, 1, [&scores(&[-9.0]), &scores(&[9.0])]);
        assert_eq!(third.double_value(&[0]), 0.0);
    }

    #[test]
    fn every_second_real_picture_is_mirrored() {
        let regularise = Regularise {
            flip: true,
            ..Regularise::default()
        };
        assert_eq!(real_needs(&regularise, 2), 2);
        let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).view([1, 2, 4]);
        let none = Tensor::zeros([1, 0], (Kind::Float, Device::Cpu));
        let mut draws = Draws::new([none, scores(&[0.4, 0.6])]);
        let y = real(&regularise, &x, [1, 2, 2], &mut draws);
        let found = Vec::<f32>::try_from(y.view(-1)).unwrap();
        assert_eq!(found, [2.0, 1.0, 4.0, 3.0, 5.0, 6.0, 7.0, 8.0]);
    }
}
