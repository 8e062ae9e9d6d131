use std::convert::Infallible;
use std::num::NonZeroUsize;

use super::super::tests::drive;
use super::super::{Info as AnyInfo, PILOT_BUDGET};
use super::*;
use crate::moves::View;

fn goal(samples: usize) -> Goal {
    Goal {
        samples: NonZeroUsize::new(samples).unwrap(),
        max_calls: 10_000_000,
    }
}

/// One weight `x^10` and three of 1: `(x^δ + 3)² = 2 (x^2δ + 3)` where `x^δ = 3 + √12`.
#[test]
fn the_next_power_is_the_root_on_paper() {
    let root = (3.0 + 12.0_f64.sqrt()).ln() / 10.0;
    for shift in [0.0, -700.0, 300.0] {
        let weights = [shift, 10.0 + shift, f64::NEG_INFINITY, shift, shift];
        assert!((effective(&weights, root) - 2.0).abs() < 1e-9);
        assert!((next_power(&weights, 0.0, 2.0) - root).abs() < 1e-9);
        assert!((next_power(&weights, 0.5, 2.0) - 0.5 - root).abs() < 1e-9);
        // From here the whole weight is closer than that.
        assert_eq!(next_power(&weights, 0.9, 2.0), 1.0);
    }
}

#[test]
fn the_effective_size_without_a_rise_is_the_number_of_weights_above_zero() {
    let weights = [3.0, f64::NEG_INFINITY, -900.0, 40.0];
    assert_eq!(effective(&weights, 0.0), 3.0);
    assert_eq!(effective(&[f64::NEG_INFINITY; 3], 0.5), 0.0);
    assert_eq!(effective(&[], 0.5), 0.0);
    // (1 + 2)² / (1 + 4)
    assert!((effective(&[0.0, 2.0 * 2.0_f64.ln()], 0.5) - 1.8).abs() < 1e-12);
}

/// Weights that no power above zero makes even enough still end.
#[test]
fn a_power_rises_by_a_little_at_least() {
    assert_eq!(next_power(&[0.0, 1e300], 0.0, 1.5), LEAST_RISE);
    assert_eq!(next_power(&[0.0, 1e300], 0.999_95, 1.5), 1.0);
}

fn first(samples: usize, log_weight: &mut dyn FnMut(u64) -> f64) -> (Vec<usize>, Rung, usize) {
    let (drawn, weights) = drive(&mut Smc::new(goal(samples), 0.37), 3, log_weight);
    let drawn = drawn.unwrap();
    assert_eq!(drawn.error, ErrorStatement::default());
    let AnyInfo::Smc(info) = &drawn.info else {
        panic!("{:?}", drawn.info)
    };
    assert_eq!(info.pool, weights.len());
    (drawn.kept.clone(), info.rungs[0], info.pool)
}

/// The pool ends where half as many proposals have weight as particles are wanted, and is never smaller than these.
#[test]
fn the_pool_is_as_large_as_the_support_needs() {
    for (every, least) in [(1, 4000), (10, 19_900), (100, 199_000)] {
        let (kept, rung, pool) = first(4000, &mut |k| {
            if k.is_multiple_of(every) {
                0.0
            } else {
                f64::NEG_INFINITY
            }
        });
        assert!(
            (least..least + least / 40).contains(&pool),
            "{every}: {pool}"
        );
        assert!(kept.iter().all(|&k| (k as u64).is_multiple_of(every)));
        assert_eq!((kept.len(), rung.power), (4000, 1.0));
        let supported = pool.div_ceil(every as usize);
        assert_eq!(rung.ancestors, supported.min(4000));
        assert_eq!(rung.effective, supported as f64);
    }
    // 100 proposals per sample, or what a search may score, are enough whatever is found.
    let (_, rung, pool) = first(1000, &mut |k| {
        if k.is_multiple_of(2000) {
            0.0
        } else {
            f64::NEG_INFINITY
        }
    });
    assert_eq!((pool, rung.ancestors), (PILOT_BUDGET, 66));
}

/// Copies are those of the weight raised to the power, rounded up or down.
#[test]
fn first_particles_follow_the_raised_weight() {
    let log_weight = |k: u64| [0.0, 6.0, f64::NEG_INFINITY, -2.0, 1.0, 12.0][(k % 6) as usize];
    let (kept, rung, pool) = first(600, &mut |k| log_weight(k));
    assert!(rung.power > 0.0 && rung.power < 1.0, "{rung:?}");
    let supported = (0..pool as u64)
        .filter(|&k| log_weight(k).is_finite())
        .count();
    assert!(
        (rung.effective - 0.5 * supported.min(600) as f64).abs() < 1e-6,
        "{rung:?}"
    );
    let raised = |k: u64| (rung.power * log_weight(k)).exp();
    let total: f64 = (0..pool as u64).map(raised).sum();
    let mut counts = vec![0; pool];
    for &k in &kept {
        counts[k] += 1;
    }
    for (k, count) in counts.iter().enumerate() {
        let expected = 600.0 * raised(k as u64) / total;
        assert!(
            (f64::from(*count) - expected).abs() < 1.0,
            "{k}: {count} for {expected}"
        );
    }
}

type LogWeight = dyn Fn(&[f32]) -> (f64, Vec<f32>);

/// All of it on latents of two dimensions, from the pool to the target.
fn run(samples: usize, moves: u64, seed: u64, log_weight: &LogWeight) -> (Walk, Info) {
    let proposals = Proposals::new(seed);
    let latent = |k: u64| {
        let mut z = vec![0.0; 2];
        proposals.fill_normal(0, k, 2, &mut z);
        z
    };
    let mut sampler = Smc::new(goal(samples), proposals.uniform(Purpose::Resample, 0));
    let (drawn, _) = drive(&mut sampler, seed, &mut |k| log_weight(&latent(k)).0);
    let drawn = drawn.unwrap();
    let AnyInfo::Smc(mut info) = drawn.info.clone() else {
        panic!("{:?}", drawn.info)
    };
    let kept: Vec<u64> = drawn.kept.iter().map(|&k| k as u64).collect();
    let mut look = |latents: &[f32], starts: &[usize]| -> Result<Vec<View>, Infallible> {
        assert_eq!(latents.len(), 2 * starts.len());
        let view = |z: &[f32]| {
            let (log_weight, drift) = log_weight(z);
            View::new(log_weight, drift)
        };
        Ok(latents.chunks_exact(2).map(view).collect())
    };
    let starts = kept.iter().map(|&k| latent(k)).collect();
    let chains = (0..kept.len()).map(|at| chain(seed, at)).collect();
    let mut walk = Walk::start(starts, chains, &mut look).unwrap();
    let ladder = Ladder {
        seed,
        moves,
        first: info.rungs[0],
        pilots: 32,
        proposals: &kept,
    };
    info.rungs = climb(&mut walk, &ladder, &mut look, &mut |_| Ok(())).unwrap();
    (walk, info)
}

/// Mean and standard error of a function of the particles, as if a quarter of them were independent: copies are not,
/// and moves make them so in part.
fn mean(walk: &Walk, value: impl Fn(&[f32]) -> f64) -> (f64, f64) {
    let values: Vec<f64> = walk.places.iter().map(|p| value(&p.latent)).collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
    (mean, (variance / (0.25 * count)).sqrt())
}

fn check(walk: &Walk, what: &str, wanted: f64, value: impl Fn(&[f32]) -> f64) {
    let (found, error) = mean(walk, value);
    assert!(
        (found - wanted).abs() < 4.0 * error,
        "{what}: {found:.4} for {wanted:.4}, standard error {error:.4}"
    );
}

/// `w = exp(4x − 12 y²)` makes `x` normal around 4 and `y` of variance 1/25: one proposal in thousands is like that. Over 24
/// seeds the mean of `x` was 3.998, of standard deviation 0.015; with 10 moves 4.002 and 0.030, with 5 moves 3.964 and 0.048.
#[test]
fn a_normal_target_has_its_means_and_variances() {
    let log_weight = |z: &[f32]| {
        let [x, y] = [f64::from(z[0]), f64::from(z[1])];
        (4.0 * x - 12.0 * y * y, vec![4.0, -24.0 * z[1]])
    };
    for seed in [1, 2, 3] {
        let (walk, info) = run(8000, 25, seed, &log_weight);
        let number = |v: f32| f64::from(v);
        check(&walk, "mean of x", 4.0, |z| number(z[0]));
        check(&walk, "variance of x", 1.0, |z| {
            (number(z[0]) - 4.0).powi(2)
        });
        check(&walk, "mean of y", 0.0, |z| number(z[1]));
        check(&walk, "variance of y", 0.04, |z| number(z[1]).powi(2));
        let powers: Vec<f64> = info.rungs.iter().map(|rung| rung.power).collect();
        assert!(powers.is_sorted() && powers.len() > 3, "{powers:?}");
        assert_eq!(powers.last(), Some(&1.0));
        let (last, before) = info.rungs.split_last().unwrap();
        for rung in before {
            assert!((rung.effective - 4000.0).abs() < 1.0, "{rung:?}");
        }
        assert!(last.effective >= 4000.0, "{last:?}");
        // Sizes are right on every rung, and smaller where the target is narrower.
        for rung in &info.rungs {
            assert!((0.45..0.7).contains(&rung.acceptance), "{rung:?}");
        }
        let [wide, narrow] = [info.rungs[0], *last].map(|rung| rung.step_size);
        assert!(narrow < 0.7 * wide, "{wide} {narrow}");
        assert!(
            info.rungs
                .iter()
                .map(|r| r.ancestors)
                .is_sorted_by(|a, b| a >= b)
        );
    }
}

/// A wide mode of mass 0.3 and a narrow one of mass 0.7, too far apart to be crossed at the full weight.
#[test]
fn modes_keep_their_masses() {
    // Of N(z; 0, I)·w with w = c·exp(m·x − s·|z|²/2) the mass is c/(1 + s)·exp(m²/2(1 + s)), around m/(1 + s).
    let mode = |z: &[f32], m: f64, s: f64, share: f64| {
        let [x, y] = [f64::from(z[0]), f64::from(z[1])];
        let log_mass = m * m / (2.0 * (1.0 + s)) - s.ln_1p();
        share.ln() - log_mass + m * x - 0.5 * s * (x * x + y * y)
    };
    let log_weight = move |z: &[f32]| {
        let [left, right] = [mode(z, -10.0, 3.0, 0.3), mode(z, 60.0, 23.0, 0.7)];
        let log_sum = crate::log_sum_exp([left, right].into_iter());
        let share = (left - log_sum).exp();
        let slope = |v: f32| share * -3.0 * f64::from(v) + (1.0 - share) * -23.0 * f64::from(v);
        let along = slope(z[0]) + share * -10.0 + (1.0 - share) * 60.0;
        (log_sum, vec![along as f32, slope(z[1]) as f32])
    };
    for seed in [1, 2, 3] {
        let (walk, info) = run(8000, 5, seed, &log_weight);
        assert!(info.rungs.len() > 1, "{info:?}");
        check(&walk, "mass on the left", 0.3, |z| {
            f64::from(u8::from(z[0] < 0.0))
        });
        let right: Vec<f64> = walk
            .places
            .iter()
            .map(|p| f64::from(p.latent[0]))
            .filter(|x| *x > 0.0)
            .collect();
        let mean = right.iter().sum::<f64>() / right.len() as f64;
        let error = (1.0 / 24.0 / (0.25 * right.len() as f64)).sqrt();
        assert!((mean - 2.5).abs() < 4.0 * error, "{mean} +- {error}");
    }
}

/// A wall through the middle of the mass, beyond which nothing has weight: half a normal law, and its mean.
#[test]
fn nobody_stands_where_there_is_no_weight() {
    let log_weight = |z: &[f32]| {
        let y = f64::from(z[1]);
        let inside = z[0] > 1.5;
        let log_weight = if inside { 3.0 * y } else { f64::NEG_INFINITY };
        // The drift leads across the wall: only the acceptance knows of it.
        (log_weight, vec![-1.0, 3.0])
    };
    // E[x | x > 1.5] = φ(1.5)/(1 − Φ(1.5)) for a standard normal x.
    let wanted = 0.129_517_6 / 0.066_807_2;
    for seed in [1, 2, 3] {
        let (walk, _) = run(8000, 25, seed, &log_weight);
        assert!(walk.places.iter().all(|p| p.latent[0] > 1.5));
        check(&walk, "mean behind the wall", wanted, |z| f64::from(z[0]));
        check(&walk, "mean along it", 3.0, |z| f64::from(z[1]));
    }
}

/// Drift and weight may disagree: the drift leads, the weight decides.
#[test]
fn a_drift_that_is_none_changes_nothing_but_the_acceptance() {
    let log_weight = |z: &[f32]| (3.0 * f64::from(z[0]), vec![0.0, 0.0]);
    let (walk, _) = run(8000, 5, 1, &log_weight);
    check(&walk, "mean", 3.0, |z| f64::from(z[0]));
}

#[test]
fn whoever_says_that_calls_are_spent_ends_it() {
    let latents = vec![vec![0.1], vec![2.0]];
    let mut look = |latents: &[f32], _: &[usize]| -> Result<Vec<View>, f64> {
        let view = |&z: &f32| View::new(40.0 * f64::from(z), vec![0.0]);
        Ok(latents.iter().map(view).collect())
    };
    let mut walk = Walk::start(latents, vec![chain(1, 0), chain(1, 1)], &mut look).unwrap();
    let ladder = Ladder {
        seed: 1,
        moves: 1,
        first: Rung {
            power: 0.25,
            effective: 1.0,
            step_size: 0.0,
            acceptance: 0.0,
            ancestors: 2,
        },
        pilots: 1,
        proposals: &[4, 5],
    };
    let mut asked = 0;
    let ended = climb(&mut walk, &ladder, &mut look, &mut |walk| {
        asked += 1;
        if asked > 1 { Err(walk.power) } else { Ok(()) }
    });
    assert_eq!(ended, Err(0.25));
}

#[test]
fn few_ancestors_are_said() {
    let info = |ancestors| Info {
        pool: 1000,
        rungs: vec![Rung {
            power: 1.0,
            effective: 500.0,
            step_size: 0.1,
            acceptance: 0.5,
            ancestors,
        }],
    };
    assert_eq!(info(100).warning(1000), None);
    assert_eq!(
        info(99).warning(1000).unwrap().to_string(),
        "the samples come from 99 of the first proposals alone: shares of modes are as uncertain as in 99 samples\nhint: with more moves or more items more are left"
    );
}
