use super::*;
use crate::proposals::{Proposals, Purpose};
use crate::series::tests::InBlocks;

/// A draw and the positions that it keeps.
#[derive(Debug, PartialEq)]
pub(super) struct Driven {
    pub(super) kept: Vec<usize>,
    pub(super) draw: Draw,
}

impl std::ops::Deref for Driven {
    type Target = Draw;

    fn deref(&self) -> &Draw {
        &self.draw
    }
}

/// Runs a sampler on proposals whose log weights a function gives.
pub(super) fn drive(
    sampler: &mut dyn Sampler,
    seed: u64,
    log_weight: &mut dyn FnMut(u64) -> f64,
) -> (Result<Driven, Failure>, Vec<f64>) {
    drive_through(
        |numbers| Box::new(numbers.clone()),
        sampler,
        seed,
        log_weight,
    )
}

/// The same where the sampler sees other series of the same numbers.
fn drive_through(
    series: impl Fn(&Vec<f64>) -> Box<dyn Series>,
    sampler: &mut dyn Sampler,
    seed: u64,
    log_weight: &mut dyn FnMut(u64) -> f64,
) -> (Result<Driven, Failure>, Vec<f64>) {
    let proposals = Proposals::new(seed);
    let (mut weights, mut uniforms) = (Vec::new(), Vec::new());
    loop {
        let history = History {
            log_weights: &*series(&weights),
            log_uniforms: &*series(&uniforms),
        };
        match sampler.next(history) {
            Next::Score(count) => {
                for k in weights.len()..weights.len() + count.get() {
                    weights.push(log_weight(k as u64));
                    uniforms.push(proposals.uniform(Purpose::Accept, k as u64).ln());
                }
            }
            Next::Done(draw) => {
                let mut kept = Vec::new();
                sampler.kept(history, &mut |position| kept.push(position));
                let repeats = kept.windows(2).filter(|pair| pair[0] == pair[1]).count();
                assert!(kept.is_sorted());
                assert_eq!((draw.samples, draw.duplicates), (kept.len(), repeats));
                return (Ok(Driven { kept, draw }), weights);
            }
            Next::Failed(failure) => return (Err(failure), weights),
        }
    }
}

fn goal(samples: usize) -> Goal {
    Goal {
        samples: NonZeroUsize::new(samples).unwrap(),
        max_calls: 50_000_000,
    }
}

/// Small exact targets: generator shares and target shares of a few points.
const TARGETS: [(&[f64], &[f64]); 4] = [
    (&[0.6, 0.3, 0.1], &[0.2, 0.5, 0.3]),
    (&[0.5, 0.5], &[1.0, 0.0]),
    (&[0.25, 0.25, 0.25, 0.25], &[0.1, 0.2, 0.3, 0.4]),
    (&[0.9, 0.05, 0.05], &[0.0, 0.5, 0.5]),
];

fn point(shares: &[f64], u: f64) -> usize {
    let mut at = 0;
    let mut sum = shares[0];
    while u > sum && at + 1 < shares.len() {
        at += 1;
        sum += shares[at];
    }
    at
}

/// Frequencies within five standard errors (of independent draws; `resample` is steadier).
#[test]
fn every_sampler_reaches_every_small_exact_target() {
    for (generator, target) in TARGETS {
        let class = Proposals::new(3);
        let at = |k: u64| point(generator, class.uniform(Purpose::Class, k));
        for (name, mut sampler) in every_sampler(goal(20_000)) {
            let mut weigh = |k: u64| (target[at(k)] / generator[at(k)]).ln();
            let (draw, _) = drive(sampler.as_mut(), 3, &mut weigh);
            let draw = draw.unwrap();
            assert_eq!(draw.kept.len(), 20_000, "{name}");
            for (i, &share) in target.iter().enumerate() {
                let hits = draw.kept.iter().filter(|&&k| at(k as u64) == i).count();
                let found = hits as f64 / 20_000.0;
                let error = (share * (1.0 - share) / 20_000.0).sqrt();
                assert!(
                    (found - share).abs() <= 5.0 * error,
                    "{name}: point {i} has {found}, not {share}"
                );
            }
        }
    }
}

#[test]
fn a_constant_added_to_all_log_weights_keeps_the_same_proposals() {
    let shape = |k: u64| (Proposals::new(5).uniform(Purpose::Class, k) * 6.0).floor() - 3.0;
    for ((name, mut one), (_, mut two)) in every_sampler(goal(500))
        .into_iter()
        .zip(every_sampler(goal(500)))
    {
        let (plain, _) = drive(one.as_mut(), 5, &mut |k| shape(k));
        let (shifted, _) = drive(two.as_mut(), 5, &mut |k| shape(k) + 512.0);
        assert_eq!(plain.unwrap().kept, shifted.unwrap().kept, "{name}");
    }
}

#[test]
fn numbers_that_come_in_blocks_give_the_same_draw_to_the_bit() {
    let shape = |k: u64| (Proposals::new(5).uniform(Purpose::Class, k) * 9.0).sin() * 3.0;
    for ((name, mut one), (_, mut two)) in every_sampler(goal(5000))
        .into_iter()
        .zip(every_sampler(goal(5000)))
    {
        let whole = drive(one.as_mut(), 5, &mut |k| shape(k));
        let blocks =
            |numbers: &Vec<f64>| -> Box<dyn Series> { Box::new(InBlocks(numbers.clone())) };
        let in_blocks = drive_through(blocks, two.as_mut(), 5, &mut |k| shape(k));
        assert!(whole == in_blocks, "{name}");
    }
}

#[test]
fn a_query_without_support_is_unreachable_and_bounded() {
    for (name, mut sampler) in every_sampler(goal(10)) {
        let mut weigh = |k: u64| {
            if k % 100_000 == 7 {
                0.0
            } else {
                f64::NEG_INFINITY
            }
        };
        let (draw, weights) = drive(sampler.as_mut(), 1, &mut weigh);
        let failure = draw.unwrap_err();
        assert_eq!(
            failure,
            Failure::Unreachable {
                proposals: PILOT_BUDGET,
                supported: 2
            },
            "{name}"
        );
        assert_eq!(weights.len(), PILOT_BUDGET, "{name}");
    }
    assert_eq!(
        Failure::Unreachable {
            proposals: 100,
            supported: 2
        }
        .to_string(),
        "the generator does not reach this query: 2 of 100 proposals lie in its support, at least 10 are needed"
    );
}

#[test]
fn no_sampler_keeps_a_proposal_outside_the_support() {
    for (name, mut sampler) in every_sampler(goal(300)) {
        let mut weigh = |k: u64| {
            if k.is_multiple_of(7) {
                0.5
            } else {
                f64::NEG_INFINITY
            }
        };
        let (draw, _) = drive(sampler.as_mut(), 9, &mut weigh);
        assert!(draw.unwrap().kept.iter().all(|k| k % 7 == 0), "{name}");
    }
}

#[test]
fn a_budget_that_is_too_small_is_an_answer_with_figures() {
    let tight = Goal {
        samples: NonZeroUsize::new(1000).unwrap(),
        max_calls: 2000,
    };
    let mut sampler = reject::Reject::new(tight, 0.01);
    let mut weigh = |k: u64| {
        if k.is_multiple_of(4) {
            0.0
        } else {
            f64::NEG_INFINITY
        }
    };
    let (draw, weights) = drive(&mut sampler, 1, &mut weigh);
    assert_eq!(weights.len(), 2000);
    assert_eq!(
        draw.unwrap_err().to_string(),
        "2000 generator calls gave 500 of 1000 samples; about 4000 would be needed (3712 to 4592 at 95 %)"
    );
}

#[test]
fn every_tiny_budget_and_huge_wish_is_answered() {
    for (samples, max_calls) in [
        (1000, 1),
        (1000, 5),
        (1000, 100),
        (1000, 300),
        (usize::MAX, 1000),
    ] {
        let goal = Goal {
            samples: NonZeroUsize::new(samples).unwrap(),
            max_calls,
        };
        for steps in [1, 7, usize::MAX] {
            let steps = mh::Steps::Fixed(NonZeroUsize::new(steps).unwrap());
            let samplers: [Box<dyn Sampler>; 5] = [
                Box::new(reject::Reject::new(goal, 0.01)),
                Box::new(mh::MetropolisHastings::new(goal, steps)),
                Box::new(mh::MetropolisHastings::new(
                    goal,
                    mh::Steps::ForDistance(0.01),
                )),
                Box::new(resample::Resample::new(
                    goal,
                    0.5,
                    resample::Copies::Allowed,
                )),
                Box::new(smc::Smc::new(goal, 0.5)),
            ];
            for mut sampler in samplers {
                let (draw, weights) = drive(sampler.as_mut(), 1, &mut |_| 0.0);
                let failure = draw.unwrap_err();
                assert!(matches!(failure, Failure::OutOfCalls { .. }), "{failure:?}");
                assert!(weights.len() <= max_calls);
            }
        }
    }
}

#[test]
fn a_part_that_may_be_missing_belongs_to_the_bound_or_there_is_none() {
    let stated = ErrorStatement {
        tv_estimate: Some(0.008),
        tv_bound: Some(0.01),
        warnings: Vec::new(),
    };
    let little = stated.clone().with_missing(0.02);
    assert!((little.tv_bound.unwrap() - 0.03).abs() < 1e-12 && little.warnings.is_empty());
    let some = stated.clone().with_missing(0.2);
    assert!((some.tv_bound.unwrap() - 0.21).abs() < 1e-12);
    assert_eq!(
        some.warnings[0].to_string(),
        "a part of the target of up to 20.0 % may be missing from the adapted proposal, for all that proposals of the prior can tell; the bound includes it"
    );
    let unknown = stated.with_missing(1.0);
    assert_eq!((unknown.tv_estimate, unknown.tv_bound), (Some(0.008), None));
    assert_eq!(
        unknown.warnings[0].to_string(),
        "no error bound: a part of the target of up to 100 % may be missing from the adapted proposal, for all that proposals of the prior can tell"
    );
}

/// What is public can be sent to and shared between threads.
#[test]
fn samplers_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<reject::Reject>();
    check::<mh::MetropolisHastings>();
    check::<resample::Resample>();
    check::<smc::Smc>();
    check::<Draw>();
}
