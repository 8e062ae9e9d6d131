//! Laws of weights of which the true distances are known: formulae, and the weights of real targets as they are.

use std::num::NonZeroUsize;

use s2m_core::normal::normal_cdf;
use s2m_core::proposals::{Proposals, Purpose};
use s2m_core::samplers::{Draw, Failure, Goal, History, Next, Sampler};

/// Weights and shares of five steps; largest over mean is 13.8.
const STEPS: [(f64, f64); 5] = [
    (0.6, 0.25),
    (0.2, 0.5),
    (0.1, 1.0),
    (0.08, 2.0),
    (0.02, 12.0),
];

/// The grid on which coupling values are summed, in log weights.
const GRID: [f64; 2] = [-12.0, 40.0];
const GRID_CELLS: u32 = 20_000;

/// A law of weights under the proposals.
#[derive(Debug, Clone)]
pub(super) enum Law {
    /// `P(w > m) = m^(−1/k)`.
    Pareto(f64),
    /// `log w` is normal with this deviation.
    Lognormal(f64),
    /// Uniform on (0, 1).
    Uniform,
    /// Five values.
    Steps,
    /// Each of these log weights, in ascending order, is as likely as any other.
    Listed(Vec<f64>),
}

impl Law {
    /// All of some weights, each as likely as the others.
    pub(super) fn listed(mut log_weights: Vec<f64>) -> Self {
        log_weights.sort_by(f64::total_cmp);
        Self::Listed(log_weights)
    }

    fn fill(&self, proposals: &Proposals, first: u64, out: &mut [f64]) {
        if let Self::Lognormal(sd) = self {
            let mut normal = vec![0.0_f32; out.len()];
            proposals.fill_normal(0, first, 1, &mut normal);
            for (value, z) in out.iter_mut().zip(normal) {
                *value = sd * f64::from(z);
            }
            return;
        }
        proposals.fill_uniform(Purpose::Class, first, out);
        for value in out {
            *value = self.at(*value);
        }
    }

    /// The log weight of a uniform number.
    fn at(&self, u: f64) -> f64 {
        match self {
            Self::Pareto(k) => -k * u.ln(),
            Self::Lognormal(_) => f64::NEG_INFINITY,
            Self::Uniform => u.ln(),
            Self::Steps => {
                let mut left = u;
                let found = STEPS.iter().find(|(share, _)| {
                    left -= share;
                    left < 0.0
                });
                found.map_or(STEPS[4].1, |(_, weight)| *weight).ln()
            }
            Self::Listed(weights) => weights[place(weights, u)],
        }
    }

    /// `E(w − c)^+ / E w`.
    pub(super) fn excess(&self, log_cap: f64) -> f64 {
        let cap = log_cap.exp();
        match self {
            Self::Pareto(k) if log_cap >= 0.0 => k * (log_cap * (1.0 - 1.0 / k)).exp(),
            Self::Pareto(k) => 1.0 - cap * (1.0 - k),
            Self::Lognormal(sd) => {
                let mean = (0.5 * sd * sd).exp();
                normal_cdf((sd * sd - log_cap) / sd) - cap / mean * normal_cdf(-log_cap / sd)
            }
            Self::Uniform => (1.0 - cap).max(0.0).powi(2),
            Self::Steps => {
                let mean: f64 = STEPS.iter().map(|(share, w)| share * w).sum();
                let above = STEPS.iter().map(|(share, w)| share * (w - cap).max(0.0));
                above.sum::<f64>() / mean
            }
            Self::Listed(weights) => {
                let largest = weights[weights.len() - 1];
                let weight = |w: &f64| (w - largest).exp();
                let cap = (log_cap - largest).exp();
                let total: f64 = weights.iter().map(weight).sum();
                let above = weights.iter().map(|w| (weight(w) - cap).max(0.0));
                above.sum::<f64>() / total
            }
        }
    }

    /// At a log weight: share of proposals at most there, share of the target, and `E min(1, w/m)`.
    fn below(&self, m: f64) -> [f64; 3] {
        match self {
            Self::Pareto(_) if m < 0.0 => [0.0, 0.0, 1.0],
            Self::Pareto(k) => {
                let (q, pi) = (1.0 - (-m / k).exp(), 1.0 - (m * (1.0 - 1.0 / k)).exp());
                [q, pi, (-m).exp() / (1.0 - k) * pi + 1.0 - q]
            }
            Self::Lognormal(sd) => {
                let (q, pi) = (normal_cdf(m / sd), normal_cdf((m - sd * sd) / sd));
                [q, pi, (0.5 * sd * sd - m).exp() * pi + 1.0 - q]
            }
            _ => [0.0; 3],
        }
    }

    /// `E_{x~q, y~π} (1 − p(max(w_x, w_y)))^K`, which bounds the distance of a chain of K proposals.
    pub(super) fn coupling(&self, steps: usize) -> f64 {
        let stay = |p: f64| (1.0 - p.clamp(0.0, 1.0)).powf(steps as f64);
        match self {
            Self::Pareto(_) | Self::Lognormal(_) => {
                let width = (GRID[1] - GRID[0]) / f64::from(GRID_CELLS);
                let (mut before, mut sum) = (0.0, 0.0);
                for cell in 1..=GRID_CELLS {
                    let [q, pi, p] = self.below(GRID[0] + f64::from(cell) * width);
                    let reached = q * pi;
                    sum += (reached - before) * stay(p);
                    before = reached;
                }
                sum
            }
            Self::Uniform => {
                let points = 20_000;
                let grid = (1..=points).map(|i| (f64::from(i) / f64::from(points)).ln());
                Self::Listed(grid.collect()).coupling(steps)
            }
            Self::Steps => {
                let grid = (0..10_000).map(|i| self.at((f64::from(i) + 0.5) / 10_000.0));
                Self::listed(grid.collect()).coupling(steps)
            }
            Self::Listed(weights) => {
                let n = weights.len() as f64;
                let largest = weights[weights.len() - 1];
                let weight = |w: &f64| (w - largest).exp();
                let total: f64 = weights.iter().map(weight).sum();
                let (mut below, mut mass, mut before, mut sum) = (0.0, 0.0, 0.0, 0.0);
                for w in weights {
                    let w = weight(w);
                    below += 1.0;
                    mass += w;
                    let reached = below / n * (mass / total);
                    if w > 0.0 {
                        let p = (mass / w + n - below) / n;
                        sum += (reached - before) * stay(p);
                    }
                    before = reached;
                }
                sum
            }
        }
    }

    /// The log weight up to which this share of the target lies; of laws without gaps.
    pub(super) fn target_quantile(&self, share: f64) -> f64 {
        if let Self::Listed(weights) = self {
            let largest = weights[weights.len() - 1];
            let weight = |w: &f64| (w - largest).exp();
            let mut left = share * weights.iter().map(weight).sum::<f64>();
            let found = weights.iter().find(|w| {
                left -= weight(w);
                left <= 0.0
            });
            return found.copied().unwrap_or(largest);
        }
        let [mut low, mut high] = GRID;
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if self.below(middle)[1] < share {
                low = middle;
            } else {
                high = middle;
            }
        }
        0.5 * (low + high)
    }

    /// Share of the target above a log weight; of laws without gaps, and of listed ones.
    pub(super) fn target_above(&self, log_weight: f64) -> f64 {
        let Self::Listed(weights) = self else {
            return 1.0 - self.below(log_weight)[1];
        };
        let largest = weights[weights.len() - 1];
        let sum =
            |from: usize| -> f64 { weights[from..].iter().map(|w| (w - largest).exp()).sum() };
        sum(weights.partition_point(|w| *w <= log_weight)) / sum(0)
    }

    /// Log weights of the first proposals of a seed.
    pub(super) fn log_weights(&self, seed: u64, count: usize) -> Vec<f64> {
        let mut log_weights = vec![0.0; count];
        self.fill(&Proposals::new(seed), 0, &mut log_weights);
        log_weights
    }

    /// The mean weight.
    pub(super) fn mean(&self) -> f64 {
        match self {
            Self::Pareto(k) => 1.0 / (1.0 - k),
            Self::Lognormal(sd) => (0.5 * sd * sd).exp(),
            Self::Uniform => 0.5,
            Self::Steps => STEPS.iter().map(|(share, w)| share * w).sum(),
            Self::Listed(weights) => {
                let sum: f64 = weights.iter().map(|w| w.exp()).sum();
                sum / weights.len() as f64
            }
        }
    }

    /// Which of some listed weights a proposal of a seed has.
    pub(super) fn place(&self, seed: u64, position: usize) -> usize {
        let u = Proposals::new(seed).uniform(Purpose::Class, position as u64);
        match self {
            Self::Listed(weights) => place(weights, u),
            _ => 0,
        }
    }

    /// The mean of values of listed weights under the target; zero for other laws.
    pub(super) fn mean_under_target(&self, values: &[f64]) -> f64 {
        let Self::Listed(weights) = self else {
            return 0.0;
        };
        let largest = weights[weights.len() - 1];
        let (mut sum, mut total) = (0.0, 0.0);
        for (log_weight, value) in weights.iter().zip(values) {
            let weight = (log_weight - largest).exp();
            sum += weight * value;
            total += weight;
        }
        sum / total
    }

    /// Runs a sampler on proposals of this law: what it says, and how many it saw.
    pub(super) fn drive(
        &self,
        sampler: &mut dyn Sampler,
        seed: u64,
    ) -> (Result<Draw, Failure>, usize) {
        self.run(sampler, seed, &mut |_| ())
    }

    /// Runs a sampler on proposals of this law: what it says, and which it keeps.
    pub(super) fn keep(
        &self,
        sampler: &mut dyn Sampler,
        seed: u64,
    ) -> (Result<Draw, Failure>, Vec<usize>) {
        let mut kept = Vec::new();
        let (draw, _) = self.run(sampler, seed, &mut |position| kept.push(position));
        (draw, kept)
    }

    fn run(
        &self,
        sampler: &mut dyn Sampler,
        seed: u64,
        see: &mut dyn FnMut(usize),
    ) -> (Result<Draw, Failure>, usize) {
        let proposals = Proposals::new(seed);
        let (mut weights, mut uniforms) = (Vec::new(), Vec::new());
        loop {
            let history = History {
                log_weights: &weights,
                log_uniforms: &uniforms,
            };
            match sampler.next(history) {
                Next::Score(count) => {
                    let first = weights.len();
                    weights.resize(first + count.get(), 0.0);
                    uniforms.resize(first + count.get(), 0.0);
                    self.fill(&proposals, first as u64, &mut weights[first..]);
                    proposals.fill_uniform(Purpose::Accept, first as u64, &mut uniforms[first..]);
                    for uniform in &mut uniforms[first..] {
                        *uniform = uniform.ln();
                    }
                }
                Next::Done(draw) => {
                    sampler.kept(history, see);
                    return (Ok(draw), weights.len());
                }
                Next::Failed(failure) => return (Err(failure), weights.len()),
            }
        }
    }
}

/// Which of some weights, each as likely as the others, a uniform number stands for.
fn place(weights: &[f64], u: f64) -> usize {
    ((u * weights.len() as f64) as usize).min(weights.len() - 1)
}

/// A request for so many samples.
pub(super) fn goal(samples: usize, max_calls: usize) -> Goal {
    Goal {
        samples: NonZeroUsize::new(samples).unwrap_or(NonZeroUsize::MIN),
        max_calls,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formulae against sums over the quantiles of the same law.
    #[test]
    fn formulae_agree_with_sums() {
        let grid = |law: &Law| {
            let n = 400_000;
            let at = |i: u32| (f64::from(i) + 0.5) / f64::from(n);
            Law::listed((0..n).map(|i| law.at(at(i))).collect())
        };
        for law in [Law::Pareto(0.2), Law::Uniform, Law::Steps] {
            let sums = grid(&law);
            assert!((law.mean() - sums.mean()).abs() < 2e-3, "{law:?}");
            for log_cap in [-0.3, 0.4, 1.0] {
                let (a, b) = (law.excess(log_cap), sums.excess(log_cap));
                assert!((a - b).abs() < 2e-3, "{law:?} {log_cap}: {a} {b}");
            }
            for steps in [3, 20] {
                let (a, b) = (law.coupling(steps), sums.coupling(steps));
                assert!((a - b).abs() < 2e-3, "{law:?} {steps}: {a} {b}");
            }
        }
    }
}
