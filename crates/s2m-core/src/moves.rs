//! Moves of samples along the gradient: a Metropolis-adjusted Langevin step for a normal prior.
//!
//! The target is `π(z) ∝ N(z; 0, I)·w(z)`. With any drift `g`, meant to be close to `∇ log w`, a step from `z` proposes
//!
//! ```text
//! y = ρz + (1 − ρ)g(z) + √(1 − ρ²) ξ,   ξ ~ N(0, I),   ρ = (1 − h/4)/(1 + h/4)
//! ```
//!
//! Without a drift this keeps the prior as it is, in any number of dimensions: only `w` decides what is accepted. The
//! densities `q` of the proposal there and back make the acceptance
//!
//! ```text
//! log α = log w(y) − log w(z) + [(z − ρy)·g(y) − (y − ρz)·g(z)]/(1 + ρ) − (1 − ρ)/(1 + ρ)·(|g(y)|² − |g(z)|²)/2
//! ```
//!
//! and a step with it leaves `π` as it is whatever the drift, as long as both densities have the same one. So the drift
//! may be wrong, softened or bounded, and `w` may not. What is within some total variation of `π` before a
//! step is so after it.
//!
//! References: Roberts and Tweedie, "Exponential convergence of Langevin distributions and their discrete
//! approximations", 1996 (the bounded drift); Cotter, Roberts, Stuart and White, "MCMC methods for functions", 2013, section
//! 4.3 (this form of the proposal).

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use crate::logspace::raised;
use crate::proposals::{normal_pair, open_unit};

/// The share of steps that is aimed for: the best one for many dimensions (Roberts and Rosenthal, 1998).
pub const ACCEPTANCE: f64 = 0.574;

/// Most that a drift may be, in units of the prior's own distance from its centre, `√d`.
const LONGEST_DRIFT: f64 = 2.0;

/// Step sizes; at 4 nothing of the place before would be left.
const SIZES: std::ops::RangeInclusive<f64> = 1e-5..=3.9;

/// Where tuning begins.
const FIRST_SIZE: f64 = 0.3;

/// Steps of tuning.
const TUNING: u64 = 24;

/// Where a chain stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The latent, in coordinates in which the prior is standard normal.
    pub latent: Vec<f32>,
    /// What is known there.
    pub view: View,
}

/// What is known about a latent.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// `log w`, exact; `-∞` outside the support.
    pub log_weight: f64,
    /// The drift `g`, before it is bounded.
    pub drift: Vec<f32>,
    /// Whatever else was said there, which goes along with the place.
    pub said: Vec<f32>,
}

/// Whose random numbers a chain takes: a key of its own for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    /// Seed of the proposals.
    pub seed: u64,
    /// Stage of the proposal that it starts from.
    pub stage: u16,
    /// Number of that proposal.
    pub proposal: u64,
    /// How many chains before this one start from it too.
    pub copy: u32,
}

impl Chain {
    /// The normal numbers of a step, and its uniform one.
    fn numbers(&self, step: u64, size: usize) -> (Vec<f32>, f64) {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[8..16].copy_from_slice(&self.proposal.to_le_bytes());
        key[16..18].copy_from_slice(&self.stage.to_le_bytes());
        key[18..22].copy_from_slice(&self.copy.to_le_bytes());
        // Keys of proposals end with other letters.
        key[22..].copy_from_slice(b"s2m moves1");
        let mut stream = ChaCha8Rng::from_seed(key);
        stream.set_stream(step);
        let uniform = open_unit(stream.next_u64());
        let mut noise = vec![0.0; size];
        for pair in noise.chunks_mut(2) {
            let (x, y) = normal_pair(stream.next_u64(), stream.next_u64());
            pair[0] = x;
            if let Some(second) = pair.get_mut(1) {
                *second = y;
            }
        }
        (noise, uniform)
    }
}

/// How far a step goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepSize(f64);

impl StepSize {
    /// The size `h`, brought into its range.
    pub fn new(size: f64) -> Self {
        Self(size.clamp(*SIZES.start(), *SIZES.end()))
    }

    /// The size `h`.
    pub fn get(self) -> f64 {
        self.0
    }

    /// `ρ`.
    fn kept(self) -> f64 {
        (1.0 - self.0 / 4.0) / (1.0 + self.0 / 4.0)
    }

    /// The latent that is proposed.
    fn propose(self, from: &Place, noise: &[f32]) -> Vec<f32> {
        let rho = self.kept();
        let spread = (1.0 - rho * rho).sqrt();
        let (bound, drift) = (bound(&from.view.drift), &from.view.drift);
        let numbers = from.latent.iter().zip(drift).zip(noise);
        let one = |((&z, &g), &noise): ((&f32, &f32), &f32)| {
            let middle = rho * f64::from(z) + (1.0 - rho) * bound * f64::from(g);
            (middle + spread * f64::from(noise)) as f32
        };
        numbers.map(one).collect()
    }

    /// `log α` of a step between two places; a place outside the support is never gone to.
    pub fn log_acceptance(self, from: &Place, to: &Place) -> f64 {
        if to.view.log_weight == f64::NEG_INFINITY {
            return f64::NEG_INFINITY;
        }
        let rho = self.kept();
        let bounds = [bound(&from.view.drift), bound(&to.view.drift)];
        let (mut along, mut longer) = (0.0, 0.0);
        for at in 0..from.latent.len() {
            let [z, y] = [from, to].map(|place| f64::from(place.latent[at]));
            let here = bounds[0] * f64::from(from.view.drift[at]);
            let there = bounds[1] * f64::from(to.view.drift[at]);
            along += (z - rho * y) * there - (y - rho * z) * here;
            longer += there * there - here * here;
        }
        let way = (along - 0.5 * (1.0 - rho) * longer) / (1.0 + rho);
        (to.view.log_weight - from.view.log_weight + way).min(0.0)
    }
}

/// What a drift is multiplied by, so that it is not too long; not a number nowhere: a drift that is none counts as zero.
fn bound(drift: &[f32]) -> f64 {
    let square: f64 = drift.iter().map(|&g| f64::from(g).powi(2)).sum();
    let most = LONGEST_DRIFT * (drift.len() as f64).sqrt();
    if square.is_finite() {
        most / most.max(square.sqrt())
    } else {
        0.0
    }
}

impl View {
    /// What is known, with a drift that is not finite counted as none.
    pub fn new(log_weight: f64, drift: Vec<f32>) -> Self {
        let finite = drift.iter().all(|g| g.is_finite());
        let drift = if finite {
            drift
        } else {
            vec![0.0; drift.len()]
        };
        Self {
            log_weight,
            drift,
            said: Vec::new(),
        }
    }

    /// The same of the weight raised to a power; one of zero stays zero.
    fn raised(&self, power: f64) -> Self {
        let drift = self.drift.iter();
        Self {
            log_weight: raised(self.log_weight, power),
            drift: drift.map(|&g| (power * f64::from(g)) as f32).collect(),
            said: Vec::new(),
        }
    }

    /// The same with something else that goes along.
    #[must_use]
    pub fn with(mut self, said: &[f32]) -> Self {
        self.said = said.to_vec();
        self
    }
}

/// How moves went.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tally {
    /// Steps tried, of all chains together.
    pub tried: u64,
    /// Steps taken.
    pub accepted: u64,
    /// Latents looked at.
    pub looked_at: u64,
}

impl Tally {
    /// What came after an earlier tally of the same chains.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            tried: self.tried - before.tried,
            accepted: self.accepted - before.accepted,
            looked_at: self.looked_at - before.looked_at,
        }
    }

    /// Steps taken as a share of those tried.
    pub fn acceptance(self) -> f64 {
        if self.tried == 0 {
            0.0
        } else {
            self.accepted as f64 / self.tried as f64
        }
    }
}

/// Looks at latents: those of all chains, one after the other, and which start each comes from.
pub type Look<'l, E> = dyn FnMut(&[f32], &[usize]) -> Result<Vec<View>, E> + 'l;

/// Chains that step together.
#[derive(Debug, Clone)]
pub struct Walk {
    /// Where they stand.
    pub places: Vec<Place>,
    chains: Vec<Chain>,
    /// Which start each comes from: its own, until places are [chosen](Self::choose) anew.
    pub starts: Vec<usize>,
    /// The power of the weight in the target; 1 unless somebody sets it.
    pub power: f64,
    /// How it went so far.
    pub tally: Tally,
}

impl Walk {
    /// Chains at their starts, which are looked at. One whose start has no weight, or is no finite number, stays there.
    pub fn start<E>(
        latents: Vec<Vec<f32>>,
        chains: Vec<Chain>,
        look: &mut Look<'_, E>,
    ) -> Result<Self, E> {
        let all: Vec<usize> = (0..latents.len()).collect();
        let views = look(&latents.concat(), &all)?;
        let looked_at = latents.len() as u64;
        let places = latents.into_iter().zip(views);
        Ok(Self {
            places: places
                .map(|(latent, view)| Place { latent, view })
                .collect(),
            chains,
            starts: all,
            power: 1.0,
            tally: Tally {
                looked_at,
                ..Tally::default()
            },
        })
    }

    /// Lets every chain go on from the place of the one that is named for it.
    pub fn choose(&mut self, chosen: &[usize]) {
        let places = chosen.iter().map(|&at| self.places[at].clone());
        self.places = places.collect();
        self.starts = chosen.iter().map(|&at| self.starts[at]).collect();
    }

    /// Other chains that start where some of these stand, with the same target.
    #[must_use]
    pub fn part(&self, which: &[usize], chains: Vec<Chain>) -> Self {
        Self {
            places: which.iter().map(|&at| self.places[at].clone()).collect(),
            starts: which.iter().map(|&at| self.starts[at]).collect(),
            chains,
            power: self.power,
            tally: Tally::default(),
        }
    }

    /// A place as the target sees it.
    fn raised(&self, place: &Place) -> Place {
        Place {
            latent: place.latent.clone(),
            view: place.view.raised(self.power),
        }
    }

    fn moves(&self, chain: usize) -> bool {
        let place = &self.places[chain];
        place.view.log_weight > f64::NEG_INFINITY && place.latent.iter().all(|z| z.is_finite())
    }

    /// One step of every chain; gives the mean of `α`.
    pub fn step<E>(
        &mut self,
        number: u64,
        size: StepSize,
        look: &mut Look<'_, E>,
    ) -> Result<f64, E> {
        let moving: Vec<usize> = (0..self.places.len())
            .filter(|&at| self.moves(at))
            .collect();
        if moving.is_empty() {
            return Ok(0.0);
        }
        let mut latents = Vec::with_capacity(moving.len());
        let mut uniforms = Vec::with_capacity(moving.len());
        for &at in &moving {
            let place = self.raised(&self.places[at]);
            let (noise, uniform) = self.chains[at].numbers(number, place.latent.len());
            latents.push(size.propose(&place, &noise));
            uniforms.push(uniform);
        }
        let starts: Vec<usize> = moving.iter().map(|&at| self.starts[at]).collect();
        let views = look(&latents.concat(), &starts)?;
        let mut sum = 0.0;
        for (((&at, latent), view), uniform) in moving.iter().zip(latents).zip(views).zip(uniforms)
        {
            let to = Place { latent, view };
            let [from, raised] = [&self.places[at], &to].map(|place| self.raised(place));
            let log_acceptance = size.log_acceptance(&from, &raised);
            sum += log_acceptance.exp();
            self.tally.tried += 1;
            self.tally.looked_at += 1;
            if uniform.ln() < log_acceptance {
                self.tally.accepted += 1;
                self.places[at] = to;
            }
        }
        Ok(sum / moving.len() as f64)
    }

    /// A step size at which the wanted share of steps is taken, found by chains that are no samples: a size that
    /// samples had a say in would change their law.
    pub fn tune<E>(&mut self, look: &mut Look<'_, E>) -> Result<StepSize, E> {
        let (mut log_size, mut sum) = (FIRST_SIZE.ln(), 0.0);
        if !(0..self.places.len()).any(|chain| self.moves(chain)) {
            return Ok(StepSize::new(FIRST_SIZE));
        }
        for number in 0..TUNING {
            let acceptance = self.step(number, StepSize::new(log_size.exp()), look)?;
            // Robbins and Monro, with steps that become smaller.
            log_size += 3.0 * (acceptance - ACCEPTANCE) / (1.0 + number as f64).sqrt();
            log_size = log_size.clamp(SIZES.start().ln(), SIZES.end().ln());
            if number >= TUNING / 2 {
                sum += log_size;
            }
        }
        Ok(StepSize::new((sum / (TUNING - TUNING / 2) as f64).exp()))
    }

    /// Latents that tuning so many chains looks at, beside their starts.
    pub fn tuning_cost(chains: usize) -> usize {
        chains.saturating_mul(TUNING as usize)
    }
}

#[cfg(test)]
mod tests;
