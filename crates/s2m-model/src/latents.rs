//! Proposal numbers to the generator's latents, from the prior or from a mixture that was adapted.
//!
//! Mixtures live in coordinates in which the prior is standard normal. For a prior that is uniform on
//! (−1, 1) these are `Φ⁻¹((z + 1)/2)`; densities of one over the other do not change with that.

use s2m_core::mixture::Mixture;
use s2m_core::normal::{normal_cdf, normal_quantile};
use s2m_core::proposals::Proposals;

use crate::manifest::Prior;

/// Where the latents of one input come from.
#[derive(Debug, Clone, Copy)]
pub struct LatentSource<'a> {
    /// Seed and stage.
    pub proposals: Proposals,
    /// What they are drawn from, in normal coordinates; none for the prior.
    pub mixture: Option<&'a Mixture>,
    /// Which input of the generator.
    pub input: u16,
    /// Its distribution.
    pub prior: Prior,
    /// Numbers in one latent.
    pub size: usize,
}

impl LatentSource<'_> {
    /// Latents of any list of proposals, drawn run by run of consecutive numbers.
    pub fn fill(&self, numbers: &[u64], out: &mut [f32]) {
        self.each_run(numbers, out, |first, part| {
            match (self.mixture, self.prior) {
                (Some(mixture), prior) => {
                    mixture.fill(self.proposals, first, part);
                    if prior == Prior::Uniform {
                        for value in part {
                            *value = to_uniform(*value);
                        }
                    }
                }
                (None, Prior::Normal) => {
                    self.proposals
                        .fill_normal(self.input, first, self.size, part);
                }
                (None, Prior::Uniform) => {
                    let proposals = &self.proposals;
                    proposals.fill_symmetric_uniform(self.input, first, self.size, part);
                }
            }
        });
    }

    /// The same latents in coordinates in which the prior is standard normal.
    pub fn fill_normal(&self, numbers: &[u64], out: &mut [f32]) {
        if let Some(mixture) = self.mixture {
            return self.each_run(numbers, out, |first, part| {
                mixture.fill(self.proposals, first, part);
            });
        }
        self.fill(numbers, out);
        if self.prior == Prior::Uniform {
            for value in out {
                *value = from_uniform(*value);
            }
        }
    }

    /// Calls `fill` with the first number of each run of consecutive ones, and where its latents go.
    fn each_run(&self, numbers: &[u64], out: &mut [f32], mut fill: impl FnMut(u64, &mut [f32])) {
        let mut start = 0;
        while start < numbers.len() {
            let run = numbers[start..]
                .windows(2)
                .take_while(|pair| pair[1] == pair[0] + 1)
                .count()
                + 1;
            let part = &mut out[start * self.size..(start + run) * self.size];
            fill(numbers[start], part);
            start += run;
        }
    }
}

/// A standard normal number to one that is uniform on (−1, 1).
pub fn to_uniform(normal: f32) -> f32 {
    (2.0 * normal_cdf(f64::from(normal)) - 1.0) as f32
}

/// How fast the uniform number changes with the normal one.
pub fn slope_to_uniform(normal: f32) -> f32 {
    let square = f64::from(normal).powi(2);
    ((-0.5 * square).exp() * std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2)
        as f32
}

/// Back again.
fn from_uniform(uniform: f32) -> f32 {
    normal_quantile(0.5 * (f64::from(uniform) + 1.0)) as f32
}

#[cfg(test)]
mod tests {
    use s2m_core::mixture::Covariance;

    use super::*;

    fn source(mixture: Option<&Mixture>, prior: Prior) -> LatentSource<'_> {
        LatentSource {
            proposals: Proposals::new(7),
            mixture,
            input: 0,
            prior,
            size: 2,
        }
    }

    #[test]
    fn uniform_latents_and_their_normal_coordinates_belong_together() {
        let mixture = Mixture::from_covariances(
            Covariance::Full,
            &[1.0],
            &[1.0, -0.5],
            &[0.3, 0.1, 0.1, 0.4],
        );
        let mixture = mixture.unwrap().with_prior_share(0.2).unwrap();
        for mixture in [None, Some(&mixture)] {
            let (mut latents, mut normal) = (vec![0.0; 800], vec![0.0; 800]);
            let numbers: Vec<u64> = (0..400).map(|k| k + k / 7).collect();
            let source = source(mixture, Prior::Uniform);
            source.fill(&numbers, &mut latents);
            source.fill_normal(&numbers, &mut normal);
            for (&z, &g) in latents.iter().zip(&normal) {
                assert!(z.abs() < 1.0);
                assert!((to_uniform(g) - z).abs() < 1e-6, "{g} is not {z}");
            }
        }
    }

    #[test]
    fn a_mixture_that_is_all_prior_is_the_prior() {
        let mixture =
            Mixture::from_covariances(Covariance::Full, &[1.0], &[9.0, 9.0], &[1.0, 0.0, 0.0, 1.0]);
        let mixture = mixture.unwrap().with_prior_share(1.0).unwrap();
        let numbers = [3, 4, 9];
        let (mut one, mut other) = ([0.0; 6], [0.0; 6]);
        source(Some(&mixture), Prior::Normal).fill(&numbers, &mut one);
        source(None, Prior::Normal).fill(&numbers, &mut other);
        assert_eq!(one, other);
    }
}
