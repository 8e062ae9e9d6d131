//! How often the stated error bounds are missed, over many seeds, on weights with heavy tails.
//!
//! A bound lies 2.58 standard errors above its estimate, that of `reject` 3.09; we hold it to be missed at most once in a
//! hundred runs. Runs that state no bound (too few fresh proposals, tail index over 0.4) do not
//! count as misses, but how many there were is printed.

use std::num::NonZeroUsize;

use s2m_core::proposals::{Proposals, Purpose};
use s2m_core::samplers::{Draw, Goal, History, Info, Next, Sampler, mh, reject};

const SEEDS: u64 = 150;

/// The same for weights without a bound, of which there are more laws.
const SEEDS_WITHOUT_A_BOUND: u64 = 60;

/// Misses that a true rate of 2.5 % (nominal 1 %, doubled for skewness, rounded up) stays within
/// except once in about a thousand: mean plus three standard deviations of the binomial.
fn allowed(stated: usize) -> f64 {
    let mean = 0.025 * stated as f64;
    mean + 3.0 * mean.sqrt()
}

/// Fills in the log weights of the proposals `first …`.
type Weigh<'a> = &'a dyn Fn(u64, &mut [f64]);

fn drive(sampler: &mut dyn Sampler, seed: u64, weigh: Weigh<'_>) -> Draw {
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
                weigh(first as u64, &mut weights[first..]);
                proposals.fill_uniform(Purpose::Accept, first as u64, &mut uniforms[first..]);
                uniforms[first..].iter_mut().for_each(|u| *u = u.ln());
            }
            Next::Done(draw) => return draw,
            Next::Failed(failure) => panic!("{failure}"),
        }
    }
}

fn goal(samples: usize) -> Goal {
    Goal {
        samples: NonZeroUsize::new(samples).expect("tests ask for samples"),
        max_calls: 100_000_000,
    }
}

/// Standard normal distribution function, by Simpson's rule on its density.
fn normal_cdf(x: f64) -> f64 {
    let (steps, low) = (2000, -12.0);
    let width = (x.clamp(low, 12.0) - low) / f64::from(steps);
    let density = |t: f64| (-0.5 * t * t).exp() / std::f64::consts::TAU.sqrt();
    let sum: f64 = (0..=steps)
        .map(|i| {
            let factor = if i == 0 || i == steps {
                1.0
            } else if i % 2 == 1 {
                4.0
            } else {
                2.0
            };
            factor * density(low + f64::from(i) * width)
        })
        .sum();
    sum * width / 3.0
}

/// Weights with a known law: log weight of a proposal, and `E(w − c)^+ / E w` for a cap.
struct Law {
    name: &'static str,
    /// Log weight from a standard normal and a uniform number.
    log_weight: fn(f64, f64) -> f64,
    excess: fn(f64) -> f64,
}

impl Law {
    fn fill(&self, proposals: &Proposals, first: u64, out: &mut [f64]) {
        let mut z = vec![0.0f32; out.len()];
        proposals.fill_normal(0, first, 1, &mut z);
        proposals.fill_uniform(Purpose::Class, first, out);
        for (value, z) in out.iter_mut().zip(z) {
            *value = (self.log_weight)(f64::from(z), *value);
        }
    }
}

fn lognormal_excess(sd: f64, log_cap: f64) -> f64 {
    let mean = (0.5 * sd * sd).exp();
    normal_cdf((sd * sd - log_cap) / sd) - log_cap.exp() / mean * normal_cdf(-log_cap / sd)
}

fn pareto_excess(k: f64, log_cap: f64) -> f64 {
    assert!(log_cap >= 0.0, "the cap lies in the tail");
    k * (log_cap * (1.0 - 1.0 / k)).exp()
}

/// Weights `2^j` on five points, of which the heaviest is rare: bounded, and largest over mean is 13.8.
const STEPS: [(f64, f64); 5] = [
    (0.6, 0.25),
    (0.2, 0.5),
    (0.1, 1.0),
    (0.08, 2.0),
    (0.02, 12.0),
];

fn steps_weight(u: f64) -> f64 {
    let mut left = u;
    for (share, weight) in STEPS {
        left -= share;
        if left < 0.0 {
            return weight.ln();
        }
    }
    STEPS[4].1.ln()
}

fn steps_excess(log_cap: f64) -> f64 {
    let mean: f64 = STEPS.iter().map(|(share, w)| share * w).sum();
    let above = STEPS
        .iter()
        .map(|(share, w)| share * (w - log_cap.exp()).max(0.0));
    above.sum::<f64>() / mean
}

const LAWS: [Law; 9] = [
    Law {
        name: "lognormal, sd 0.5",
        log_weight: |z, _| 0.5 * z,
        excess: |c| lognormal_excess(0.5, c),
    },
    Law {
        name: "lognormal, sd 1",
        log_weight: |z, _| z,
        excess: |c| lognormal_excess(1.0, c),
    },
    Law {
        name: "lognormal, sd 1.5",
        log_weight: |z, _| 1.5 * z,
        excess: |c| lognormal_excess(1.5, c),
    },
    Law {
        name: "Pareto, index 0.2",
        log_weight: |_, u| -0.2 * u.ln(),
        excess: |c| pareto_excess(0.2, c),
    },
    Law {
        name: "Pareto, index 0.35",
        log_weight: |_, u| -0.35 * u.ln(),
        excess: |c| pareto_excess(0.35, c),
    },
    Law {
        name: "Pareto, index 0.42",
        log_weight: |_, u| -0.42 * u.ln(),
        excess: |c| pareto_excess(0.42, c),
    },
    Law {
        name: "Pareto, index 0.45",
        log_weight: |_, u| -0.45 * u.ln(),
        excess: |c| pareto_excess(0.45, c),
    },
    Law {
        name: "five steps",
        log_weight: |_, u| steps_weight(u),
        excess: steps_excess,
    },
    Law {
        name: "uniform",
        log_weight: |_, u| u.ln(),
        excess: |c| {
            if c >= 0.0 {
                0.0
            } else {
                (1.0 - c.exp()).powi(2)
            }
        },
    },
];

#[test]
fn the_bound_of_reject_is_missed_as_rarely_as_stated() {
    let (mut stated_in_all, mut missed_in_all) = (0, 0);
    for (law, samples) in LAWS.iter().flat_map(|law| [(law, 2000), (law, 8000)]) {
        let (mut stated, mut missed, mut above_wanted) = (0, 0, 0);
        for seed in 0..SEEDS {
            let proposals = Proposals::new(seed);
            let mut sampler = reject::Reject::new(goal(samples), 0.01);
            let draw = drive(&mut sampler, seed, &|first, out| {
                law.fill(&proposals, first, out);
            });
            let Info::Reject(info) = draw.info else {
                panic!("reject reports itself")
            };
            let truth = (law.excess)(info.log_cap);
            if let Some(bound) = draw.error.tv_bound {
                stated += 1;
                missed += usize::from(truth > bound);
                above_wanted += usize::from(truth > 0.01);
            }
        }
        println!(
            "reject, {}, n {samples}: bound stated in {stated} of {SEEDS} runs, missed in {missed}; \
             true distance above the wanted 0.01 in {above_wanted}",
            law.name
        );
        assert!(
            missed as f64 <= allowed(stated),
            "{}: {missed} of {stated}",
            law.name
        );
        stated_in_all += stated;
        missed_in_all += missed;
    }
    println!("reject, all laws: bound stated in {stated_in_all} runs, missed in {missed_in_all}");
    assert!(
        missed_in_all as f64 <= 0.01 * stated_in_all as f64,
        "{missed_in_all} of {stated_in_all}"
    );
}

#[test]
fn a_heavy_tail_is_recognised_and_no_bound_is_stated() {
    let mut stated = 0;
    for seed in 0..50 {
        let mut sampler = reject::Reject::new(goal(500), 0.1);
        let draw = drive(&mut sampler, seed, &|first, out| {
            Proposals::new(seed).fill_uniform(Purpose::Class, first, out);
            for u in out {
                *u = -0.6 * u.ln();
            }
        });
        stated += usize::from(draw.error.tv_bound.is_some());
    }
    println!("reject, Pareto, index 0.6: bound stated in {stated} of 50 runs");
    assert!(stated <= 5, "{stated}");
}

/// A space of 400 equally likely proposals: the law of the chain after K steps is exact.
struct Finite {
    weights: Vec<f64>,
}

impl Finite {
    fn lognormal(sd: f64) -> Self {
        let points = 400;
        let quantile = |share: f64| {
            let (mut low, mut high) = (-8.0, 8.0);
            for _ in 0..60 {
                let middle: f64 = 0.5 * (low + high);
                if normal_cdf(middle) < share {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            low
        };
        let weights = (0..points)
            .map(|i| (sd * quantile((f64::from(i) + 0.5) / f64::from(points))).exp())
            .collect();
        Self { weights }
    }

    fn fill(&self, proposals: &Proposals, first: u64, out: &mut [f64]) {
        proposals.fill_uniform(Purpose::Class, first, out);
        for value in out {
            *value = self.weights[(*value * self.weights.len() as f64) as usize].ln();
        }
    }

    /// Total variation between the target and the law of a chain of `steps` proposals.
    fn exact_distance(&self, steps: usize) -> f64 {
        let n = self.weights.len();
        let total: f64 = self.weights.iter().sum();
        let mut law = vec![1.0 / n as f64; n];
        for _ in 1..steps {
            let mut next = vec![0.0; n];
            for x in 0..n {
                let mut stay = law[x];
                for (y, arrived) in next.iter_mut().enumerate() {
                    let moved = law[x] / n as f64 * (self.weights[y] / self.weights[x]).min(1.0);
                    *arrived += moved;
                    stay -= moved;
                }
                next[x] += stay;
            }
            law = next;
        }
        0.5 * law
            .iter()
            .zip(&self.weights)
            .map(|(p, w)| (p - w / total).abs())
            .sum::<f64>()
    }
}

impl Finite {
    /// `E_{x~q, y~π} (1 − p(max(w_x, w_y)))^K`, summed over all pairs of points.
    fn exact_coupling(&self, steps: usize) -> f64 {
        let n = self.weights.len() as f64;
        let total: f64 = self.weights.iter().sum();
        let acceptance = |m: f64| self.weights.iter().map(|w| (w / m).min(1.0)).sum::<f64>() / n;
        let stay: Vec<f64> = self
            .weights
            .iter()
            .map(|&m| (1.0 - acceptance(m)).powf(steps as f64))
            .collect();
        let pairs =
            (0..self.weights.len()).flat_map(|x| (0..self.weights.len()).map(move |y| (x, y)));
        // Weights ascend, so the larger index has the larger weight.
        pairs
            .map(|(x, y)| stay[x.max(y)] * self.weights[y] / total / n)
            .sum()
    }
}

#[test]
fn the_bound_of_mh_is_missed_as_rarely_as_stated() {
    for (sd, steps) in [(1.0, 10), (1.0, 30), (1.5, 30), (2.0, 60)] {
        let space = Finite::lognormal(sd);
        let truth = space.exact_distance(steps);
        let coupling = space.exact_coupling(steps);
        assert!(truth <= coupling, "the coupling value bounds the distance");
        let (mut stated, mut missed, mut smallest) = (0, 0, f64::INFINITY);
        for seed in 0..SEEDS {
            let proposals = Proposals::new(seed);
            let fixed = mh::Steps::Fixed(NonZeroUsize::new(steps).unwrap());
            let mut sampler = mh::MetropolisHastings::new(goal(300), fixed);
            let draw = drive(&mut sampler, seed, &|first, out| {
                space.fill(&proposals, first, out);
            });
            if let Some(bound) = draw.error.tv_bound {
                stated += 1;
                missed += usize::from(coupling > bound);
                smallest = f64::min(smallest, bound);
            }
        }
        println!(
            "mh, lognormal sd {sd}, K {steps}: exact distance {truth:.4}, coupling value {coupling:.4}, bound stated in {stated} \
             of {SEEDS} runs, missed in {missed}, smallest {smallest:.4}"
        );
        assert!(
            missed as f64 <= allowed(stated),
            "sd {sd}: {missed} of {stated}"
        );
        assert!(stated > 100, "sd {sd}: most runs state a bound");
    }
}

/// Weights without a bound: `E (1 − p(max))^K` from the law itself, on a fine grid of its quantiles.
struct Unbounded {
    name: &'static str,
    log_weight: fn(f64, f64) -> f64,
    /// At a log weight: share of proposals at most there, share of the target, and `p`.
    at: fn(f64) -> [f64; 3],
}

fn pareto_at(k: f64, m: f64) -> [f64; 3] {
    let (q, pi) = (1.0 - (-m / k).exp(), 1.0 - (m * (1.0 - 1.0 / k)).exp());
    [q, pi, (-m).exp() / (1.0 - k) * pi + 1.0 - q]
}

fn lognormal_at(sd: f64, m: f64) -> [f64; 3] {
    let (q, pi) = (normal_cdf(m / sd), normal_cdf((m - sd * sd) / sd));
    [q, pi, (0.5 * sd * sd - m).exp() * pi + 1.0 - q]
}

const UNBOUNDED: [Unbounded; 6] = [
    Unbounded {
        name: "lognormal, sd 1",
        log_weight: |z, _| z,
        at: |m| lognormal_at(1.0, m),
    },
    Unbounded {
        name: "lognormal, sd 1.5",
        log_weight: |z, _| 1.5 * z,
        at: |m| lognormal_at(1.5, m),
    },
    Unbounded {
        name: "Pareto, index 0.31",
        log_weight: |_, u| -0.31 * u.ln(),
        at: |m| pareto_at(0.31, m),
    },
    Unbounded {
        name: "Pareto, index 0.36",
        log_weight: |_, u| -0.36 * u.ln(),
        at: |m| pareto_at(0.36, m),
    },
    Unbounded {
        name: "Pareto, index 0.41",
        log_weight: |_, u| -0.41 * u.ln(),
        at: |m| pareto_at(0.41, m),
    },
    Unbounded {
        name: "Pareto, index 0.45",
        log_weight: |_, u| -0.45 * u.ln(),
        at: |m| pareto_at(0.45, m),
    },
];

impl Unbounded {
    fn coupling(&self, steps: usize) -> f64 {
        let (low, high, cells) = (-12.0, 40.0, 20_000);
        let width = (high - low) / f64::from(cells);
        let (mut before, mut sum) = (0.0, 0.0);
        for i in 1..=cells {
            let m = low + f64::from(i) * width;
            let [q, pi, p] = (self.at)(m);
            let reached = (q.max(0.0) * pi.max(0.0)).min(1.0);
            sum += (reached - before).max(0.0) * (1.0 - p.clamp(0.0, 1.0)).powf(steps as f64);
            before = reached.max(before);
        }
        sum
    }
}

#[test]
fn the_bound_of_mh_holds_for_weights_without_a_bound() {
    let (mut stated_in_all, mut missed_in_all) = (0, 0);
    for (law, steps) in UNBOUNDED.iter().flat_map(|law| [(law, 10), (law, 100)]) {
        let truth = law.coupling(steps);
        let (mut stated, mut missed, mut worst) = (0, 0, 1.0_f64);
        for seed in 0..SEEDS_WITHOUT_A_BOUND {
            let proposals = Proposals::new(seed);
            let fixed = mh::Steps::Fixed(NonZeroUsize::new(steps).unwrap());
            let mut sampler = mh::MetropolisHastings::new(goal(30_000 / steps), fixed);
            let draw = drive(&mut sampler, seed, &|first, out| {
                let mut z = vec![0.0f32; out.len()];
                proposals.fill_normal(0, first, 1, &mut z);
                proposals.fill_uniform(Purpose::Class, first, out);
                for (value, z) in out.iter_mut().zip(z) {
                    *value = (law.log_weight)(f64::from(z), *value);
                }
            });
            if let Some(bound) = draw.error.tv_bound {
                stated += 1;
                missed += usize::from(truth > bound);
                worst = worst.max(truth / bound);
            }
        }
        println!(
            "mh, {}, K {steps}: coupling value {truth:.5}, bound stated in {stated} of {SEEDS_WITHOUT_A_BOUND} runs, missed in \
             {missed}, by a factor of {worst:.2} at worst",
            law.name
        );
        stated_in_all += stated;
        missed_in_all += missed;
    }
    println!("mh, all laws without a bound: stated in {stated_in_all}, missed in {missed_in_all}");
    assert!(
        missed_in_all as f64 <= 0.01 * stated_in_all as f64,
        "{missed_in_all} of {stated_in_all}"
    );
}

/// An automatic K is chosen on a pilot; the exact distance of that K must honour the wish.
#[test]
fn automatic_steps_reach_the_wanted_distance() {
    let space = Finite::lognormal(1.0);
    let mut above = 0;
    for seed in 0..100 {
        let proposals = Proposals::new(seed);
        let mut sampler = mh::MetropolisHastings::new(goal(200), mh::Steps::ForDistance(0.01));
        let draw = drive(&mut sampler, seed, &|first, out| {
            space.fill(&proposals, first, out);
        });
        let Info::Mh(info) = draw.info else {
            panic!("mh reports itself")
        };
        above += usize::from(space.exact_distance(info.steps) > 0.01);
    }
    println!("mh, automatic K for 0.01: exact distance above it in {above} of 100 runs");
    assert!(above <= 5, "{above}");
}
