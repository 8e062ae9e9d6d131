//! What earlier proposals teach about where the target's latents lie.
//!
//! Proposals come in stages, each from its own distribution `q_t` (the prior first). Together they are
//! a sample of the *deterministic mixture* of all of them, so a proposal `z` of any stage counts with
//!
//! ```text
//! w(z) · p(z) / Σ_t (n_t / N) q_t(z)
//! ```
//!
//! and nothing that was ever scored is thrown away. These recycled weights are for fitting the next
//! proposal distribution, for diagnostics and for `resample`. They are no proposals for `mh` or
//! `reject`: which distributions exist depends on them, so they are not independent of it.
//!
//! Where too few proposals count, weights are tempered: raised to the largest power that leaves the
//! wanted effective number.
//!
//! References: Owen and Zhou, "Safe and Effective Importance Sampling", 2000 (deterministic mixtures
//! and the defensive share); Cornuet et al., "Adaptive Multiple Importance Sampling", 2012.

use crate::log_sum_exp;
use crate::mixture::{Mixture, log_prior};

/// Largest power that tempering may take: beyond it, only a handful of points would decide.
const MAX_POWER: f64 = 64.0;

/// Latents of all stages, and the density of every stage at every one of them.
#[derive(Debug, Clone)]
pub struct Recycled {
    size: usize,
    points: Vec<f32>,
    stages: Vec<Stage>,
}

/// One stage of proposals.
#[derive(Debug, Clone)]
struct Stage {
    /// What they were drawn from; none for the prior.
    mixture: Option<Mixture>,
    count: usize,
    /// Log density of this stage's distribution at every point of all stages.
    log_densities: Vec<f64>,
}

impl Stage {
    fn densities_at(&mut self, points: &[f32], size: usize) {
        let from = self.log_densities.len();
        let to = from + points.len() / size;
        self.log_densities.resize(to, 0.0);
        let rest = &mut self.log_densities[from..];
        if let Some(mixture) = &self.mixture {
            mixture.log_densities(points, rest);
            return;
        }
        for (out, point) in rest.iter_mut().zip(points.chunks(size)) {
            *out = log_prior(point);
        }
    }
}

impl Recycled {
    /// No stage yet, of latents with `size` numbers each.
    pub fn new(size: usize) -> Self {
        Self {
            size: size.max(1),
            points: Vec::new(),
            stages: Vec::new(),
        }
    }

    /// Adds a stage of proposals and what they were drawn from; none for the prior.
    pub fn push(&mut self, mixture: Option<Mixture>, points: &[f32]) {
        for stage in &mut self.stages {
            stage.densities_at(points, self.size);
        }
        self.points.extend_from_slice(points);
        let mut stage = Stage {
            mixture,
            count: points.len() / self.size,
            log_densities: Vec::new(),
        };
        stage.densities_at(&self.points, self.size);
        self.stages.push(stage);
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.points.len() / self.size
    }

    /// Whether there is no point.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The points, one after the other.
    pub fn points(&self) -> &[f32] {
        &self.points
    }

    /// `log p(z) − log Σ_t (n_t/N) q_t(z)` of every point.
    pub fn log_prior_ratios(&self) -> Vec<f64> {
        let total = self.len() as f64;
        let shares: Vec<f64> = self
            .stages
            .iter()
            .map(|stage| (stage.count as f64 / total).ln())
            .collect();
        let points = self.points.chunks(self.size).enumerate();
        points
            .map(|(i, point)| {
                let terms = self.stages.iter().zip(&shares);
                let mixture =
                    log_sum_exp(terms.map(|(stage, share)| stage.log_densities[i] + share));
                log_prior(point) - mixture
            })
            .collect()
    }
}

/// Effective number of points: `(Σw)² / Σw²`; zero without any weight.
pub fn effective(log_weights: &[f64]) -> f64 {
    let sum = log_sum_exp(log_weights.iter().copied());
    if sum == f64::NEG_INFINITY {
        return 0.0;
    }
    let squares = log_sum_exp(log_weights.iter().map(|w| 2.0 * w));
    (2.0 * sum - squares).exp()
}

/// The largest power `β` for which the weights `exp(β·score + base)` still have the wanted effective
/// number; none where even small powers have fewer.
///
/// The effective number need not fall steadily with the power; what is found lies where it crosses the
/// wanted one.
pub fn largest_power(log_scores: &[f64], log_base: &[f64], wanted: f64, most: f64) -> Option<f64> {
    let at = |power: f64| effective(&tempered(log_scores, log_base, power));
    let most = most.min(MAX_POWER);
    if at(most) >= wanted {
        return Some(most);
    }
    let (mut low, mut high) = (1e-4 * most, most);
    if at(low) < wanted {
        return None;
    }
    for _ in 0..40 {
        let middle = (low * high).sqrt();
        if at(middle) >= wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(low)
}

/// `power·score + base`, where a score outside the support stays there.
pub fn tempered(log_scores: &[f64], log_base: &[f64], power: f64) -> Vec<f64> {
    let pairs = log_scores.iter().zip(log_base);
    pairs.map(|(score, base)| power * score + base).collect()
}

/// Leaves about `most` points, with weights that make them stand for all: a point is kept with
/// probability `min(1, w/τ)` and then has weight `max(w, τ)`. No point is kept twice.
///
/// One uniform number belongs to each point. Gives the points kept, in order, and their log weights.
pub fn thin(log_weights: &[f64], uniforms: &[f64], most: usize) -> (Vec<usize>, Vec<f64>) {
    let mut sorted: Vec<f64> = log_weights
        .iter()
        .copied()
        .filter(|w| w.is_finite())
        .collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let log_threshold = if sorted.len() <= most {
        f64::NEG_INFINITY
    } else {
        // With the i heaviest kept for sure, the rest share what is left: τ = Σ_rest w / (most − i).
        let mut rest = vec![f64::NEG_INFINITY; sorted.len() + 1];
        for (i, weight) in sorted.iter().enumerate().rev() {
            rest[i] = log_sum_exp([rest[i + 1], *weight].into_iter());
        }
        let sure = (0..most).find(|&i| sorted[i] <= rest[i] - ((most - i) as f64).ln());
        let sure = sure.unwrap_or(most.saturating_sub(1));
        rest[sure] - ((most - sure) as f64).ln()
    };
    let kept = |&(i, weight): &(usize, f64)| {
        weight.is_finite() && uniforms[i].ln() < weight - log_threshold
    };
    let points = log_weights.iter().copied().enumerate();
    points
        .filter(kept)
        .map(|(i, weight)| (i, weight.max(log_threshold)))
        .unzip()
}

/// Share of the target's weight on these points that a proposal reaches through its share of the prior
/// alone: where its components together are less dense than that share.
///
/// A large value says that components went missing: the target has a part there, and proposals hardly
/// ever come from it.
pub fn uncovered(mixture: &Mixture, points: &[f32], log_weights: &[f64]) -> f64 {
    let total = log_sum_exp(log_weights.iter().copied());
    if total == f64::NEG_INFINITY {
        return 0.0;
    }
    let beyond = beyond_components(mixture, points);
    let lost = beyond.iter().zip(log_weights).filter(|(lost, _)| **lost);
    let lost: Vec<f64> = lost.map(|(_, weight)| *weight).collect();
    (log_sum_exp(lost.into_iter()) - total).exp()
}

/// Whether a proposal reaches each of these points through its share of the prior alone: where its
/// components together are less dense than that share.
pub fn beyond_components(mixture: &Mixture, points: &[f32]) -> Vec<bool> {
    let mut densities = vec![0.0; points.len() / mixture.size()];
    mixture.log_densities(points, &mut densities);
    let log_share = mixture.prior_share().ln();
    let points = points.chunks(mixture.size()).zip(&densities);
    // Less than twice the prior's part means that the components' part is the smaller one.
    points
        .map(|(point, density)| *density < log_share + log_prior(point) + std::f64::consts::LN_2)
        .collect()
}

/// What a sample costs, in proposals of `reject`, under a cap that takes each of these points whole: the density
/// of the target over that of the proposal, `min(w, c)/(c·Z)·p/q`.
///
/// `log_accepted` is the log of `min(w, c)/c` at each point, and `share` is its mean `Z` over the prior. Without
/// a mixture proposals are the prior's.
pub fn calls_at(
    mixture: Option<&Mixture>,
    points: &[f32],
    log_accepted: &[f64],
    share: f64,
) -> Vec<f64> {
    let mut log_ratios = vec![0.0; log_accepted.len()];
    if let Some(mixture) = mixture {
        mixture.log_prior_ratios(points, &mut log_ratios);
    }
    let pairs = log_accepted.iter().zip(&log_ratios);
    pairs
        .map(|(accepted, ratio)| (accepted + ratio).exp() / share)
        .collect()
}

/// A part of a target: a mixture for it, and weighted points of proposals that came from near it.
#[derive(Debug, Clone)]
pub struct Part {
    /// What it is drawn from.
    pub mixture: Mixture,
    /// The points, one after the other.
    pub points: Vec<f32>,
    /// The log of what each stands for under the prior, `w·p/q`, such that their sum is the part's mass.
    pub log_masses: Vec<f64>,
}

/// Mass of the target in each part, up to a constant. A point belongs to the part that is densest there, and only a
/// part's own points speak for it: what two parts share is counted once.
pub fn part_masses(parts: &[Part]) -> Vec<f64> {
    let mass = |own: usize| -> f64 {
        let part = &parts[own];
        let density = |mixture: &Mixture| {
            let mut out = vec![0.0; part.log_masses.len()];
            mixture.log_densities(&part.points, &mut out);
            out
        };
        let densities: Vec<Vec<f64>> = parts.iter().map(|part| density(&part.mixture)).collect();
        let is_own = |at: usize| {
            let others = densities.iter().enumerate();
            others
                .filter(|(other, _)| *other != own)
                .all(|(other, log)| {
                    let own_log = densities[own][at];
                    own_log > log[at] || (own_log == log[at] && own < other)
                })
        };
        let masses = part.log_masses.iter().enumerate();
        let own_masses = masses.filter(|(at, log)| log.is_finite() && is_own(*at));
        own_masses.map(|(_, log)| log.exp()).sum()
    };
    (0..parts.len()).map(mass).collect()
}

/// The smallest log cap `c` with `E(w − c)^+ ≤ distance·E w` under the prior, and the share of the prior's
/// proposals that it accepts, `E min(w, c)/c`; both by scores `w` and what each point stands for.
///
/// None where nothing is supported.
pub fn cap_and_share(log_scores: &[f64], log_base: &[f64], distance: f64) -> Option<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = log_scores
        .iter()
        .copied()
        .zip(log_base.iter().map(|base| base.exp()))
        .filter(|(score, _)| score.is_finite())
        .collect();
    points.sort_by(|a, b| b.0.total_cmp(&a.0));
    let log_largest = points.first()?.0;
    let weight = |log_score: f64| (log_score - log_largest).exp();
    let total: f64 = points.iter().map(|(w, base)| base * weight(*w)).sum();
    let excess = |c: f64| {
        let above = points.iter().map(|(w, base)| (weight(*w), base));
        let above = above.take_while(|(w, _)| *w > c);
        above.map(|(w, base)| base * (w - c)).sum::<f64>()
    };
    let (mut low, mut high) = (-60.0, 0.0);
    for _ in 0..60 {
        let middle: f64 = 0.5 * (low + high);
        if excess(middle.exp()) <= distance * total {
            high = middle;
        } else {
            low = middle;
        }
    }
    let cap: f64 = f64::exp(high);
    let accepted = points
        .iter()
        .map(|(w, base)| base * weight(*w).min(cap) / cap);
    let share = accepted.sum::<f64>() / log_scores.len() as f64;
    Some((high + log_largest, share.min(1.0)))
}

/// The largest mean of a Poisson count that gives `count` or fewer with probability `miss`:
/// `−ln miss` where nothing was counted.
pub fn most_expected(count: usize, miss: f64) -> f64 {
    // P(X ≤ count) falls with the mean.
    let at_most = |mean: f64| {
        let mut term = (-mean).exp();
        let mut sum = term;
        for k in 1..=count {
            term *= mean / k as f64;
            sum += term;
        }
        sum
    };
    let (mut low, mut high) = (0.0, 10.0 * (count as f64 + 10.0));
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if at_most(middle) > miss {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests;
