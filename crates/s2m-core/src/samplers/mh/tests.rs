use super::super::tests::drive;
use super::*;

/// With three possible samples the whole chain is a 3×3 matrix, so the claim "the target is
/// stationary" can be checked to rounding error, with no sampling at all.
#[test]
fn target_is_stationary_on_three_points() {
    let target: [f64; 3] = [0.2, 0.5, 0.3];
    let generator: [f64; 3] = [0.6, 0.3, 0.1];
    let after = transition(&target, &generator).apply(&target);
    for (a, t) in after.iter().zip(target) {
        assert!((a - t).abs() < 1e-12, "{after:?}");
    }
}

struct Transition(Vec<Vec<f64>>);

impl Transition {
    fn apply(&self, law: &[f64]) -> Vec<f64> {
        (0..law.len())
            .map(|y| (0..law.len()).map(|x| law[x] * self.0[x][y]).sum())
            .collect()
    }
}

/// The exact matrix of one step, with a zero-weight start allowed.
fn transition(target: &[f64], generator: &[f64]) -> Transition {
    let n = target.len();
    let log_w = |i: usize| (target[i] / generator[i]).ln();
    let mut matrix = vec![vec![0.0; n]; n];
    for (x, row) in matrix.iter_mut().enumerate() {
        for y in 0..n {
            // Before its first supported proposal a chain takes whatever comes.
            let alpha = if log_w(x).is_finite() {
                log_acceptance(log_w(x), log_w(y)).exp()
            } else {
                1.0
            };
            row[y] += generator[y] * alpha;
            row[x] += generator[y] * (1.0 - alpha);
        }
    }
    Transition(matrix)
}

/// The stated distance, computed for a law that the sample has exactly, lies above the true
/// distance of the chain for every length, and is not absurdly far above.
#[test]
fn the_stated_distance_bounds_the_exact_one() {
    let cases: [(&[f64], &[f64]); 4] = [
        (&[0.2, 0.5, 0.3], &[0.6, 0.3, 0.1]),
        (&[0.0, 0.1, 0.9], &[0.5, 0.3, 0.2]),
        (&[0.25, 0.25, 0.25, 0.25], &[0.7, 0.1, 0.1, 0.1]),
        (&[0.05, 0.95], &[0.95, 0.05]),
    ];
    for (target, generator) in cases {
        let matrix = transition(target, generator);
        let logs: Vec<f64> = (0..2000)
            .map(|k| {
                let mut at = 0;
                let mut sum = generator[0];
                while (f64::from(k) + 0.5) / 2000.0 > sum {
                    at += 1;
                    sum += generator[at];
                }
                (target[at] / generator[at]).ln()
            })
            .collect();
        let profile = Sorted::new(&logs).profile(None);
        // The first proposal is the start, so K proposals are K − 1 steps from q.
        let mut law = generator.to_vec();
        for steps in 1..60 {
            let exact: f64 = 0.5
                * law
                    .iter()
                    .zip(target)
                    .map(|(a, b)| (a - b).abs())
                    .sum::<f64>();
            let stated = profile.distance(steps);
            assert!(exact <= stated + 1e-9, "K {steps}: {exact} above {stated}");
            assert!(
                stated <= 12.0 * exact + 0.01,
                "K {steps}: {stated} far above {exact}"
            );
            law = matrix.apply(&law);
        }
    }
}

#[test]
fn a_chain_uses_its_own_proposals_and_starts_on_the_first_supported_one() {
    let none = f64::NEG_INFINITY;
    let log_weights = [none, 0.0, none, 5.0, none, none, none, none];
    let log_uniforms = [-1.0; 8];
    let history = History {
        log_weights: &log_weights,
        log_uniforms: &log_uniforms,
    };
    let mut ends = Vec::new();
    each_end(history, 4, 0..2, |end| ends.push(end));
    assert_eq!(ends[0].state.map(|s| s.position), Some(3));
    assert_eq!(ends[0].accepted, 2);
    assert!(ends[1].state.is_none());
}

#[test]
fn chains_without_support_are_reported_and_replaced() {
    let steps = NonZeroUsize::new(4).unwrap();
    let goal = Goal {
        samples: NonZeroUsize::new(200).unwrap(),
        max_calls: 100_000,
    };
    let mut sampler = MetropolisHastings::new(goal, Steps::Fixed(steps));
    let mut weigh = |k: u64| {
        if (k / 4).is_multiple_of(2) {
            0.0
        } else {
            f64::NEG_INFINITY
        }
    };
    let (draw, _) = drive(&mut sampler, 1, &mut weigh);
    let draw = draw.unwrap();
    assert_eq!(draw.kept.len(), 200);
    let super::super::Info::Mh(info) = draw.info else {
        panic!("mh reports itself")
    };
    assert_eq!(
        (info.chains - info.dead_chains, info.dead_chains),
        (200, 199)
    );
    assert_eq!(
        draw.error.warnings.last().unwrap().to_string(),
        "199 chains of 4 steps found no supported proposal and were left out"
    );
}

/// Two hundred chains of six steps are shorter than their pilot; proposals of the pilot cannot judge it.
#[test]
fn few_short_chains_of_automatic_length_have_a_bound() {
    let goal = Goal {
        samples: NonZeroUsize::new(200).unwrap(),
        max_calls: 100_000,
    };
    let mut weigh = |k: u64| if k.is_multiple_of(4) { 0.0 } else { -0.7 };
    let mut sampler = MetropolisHastings::new(goal, Steps::ForDistance(0.05));
    let (draw, scored) = drive(&mut sampler, 1, &mut weigh);
    let draw = draw.unwrap();
    assert_eq!(draw.kept.len(), 200);
    let bound = draw.error.tv_bound.unwrap();
    assert!(
        draw.error.tv_estimate.unwrap() <= bound && bound < 0.06,
        "{:?}",
        draw.error
    );
    assert!(scored.len() <= 4 * MIN_SUPPORTED_PILOT);
    // Without the calls for it there is none, and the samples are there all the same.
    let goal = Goal {
        max_calls: 2048,
        ..goal
    };
    let mut sampler = MetropolisHastings::new(goal, Steps::ForDistance(0.05));
    let draw = drive(&mut sampler, 1, &mut weigh).0.unwrap();
    assert_eq!((draw.kept.len(), draw.error.tv_bound), (200, None));
}

#[test]
fn automatic_steps_are_the_fewest_that_fit() {
    let logs: Vec<f64> = (0..4000).map(|k| f64::from(k % 10).ln()).collect();
    let steps = steps_for(&logs, 0.01);
    let slack = |steps| {
        let (estimate, error) = Profiles::new(&logs).distance_with_error(steps);
        estimate + BOUND_ERRORS * error
    };
    assert!(slack(steps) <= 0.01 && slack(steps - 1) > 0.01, "{steps}");
}

#[test]
fn chains_that_are_followed_pass_where_shorter_chains_end() {
    let none = f64::NEG_INFINITY;
    let log_weights = [none, 0.0, 1.0, none, 0.0, 0.0, -1.0, 2.0];
    let log_uniforms = [-0.1; 8];
    let history = History {
        log_weights: &log_weights,
        log_uniforms: &log_uniforms,
    };
    let four = NonZeroUsize::new(4).unwrap();
    let found = follow(history, four, &[1, 2, 4]);
    assert_eq!(found.states[0], [None, Some(4)]);
    assert_eq!(found.states[1], [Some(1), Some(5)]);
    // −0.1 is not under log(e^−1): proposal 6 is refused, 7 is taken.
    assert_eq!(found.states[2], [Some(2), Some(7)]);
    assert_eq!(chain_ends(history, four), found.states[2]);
    assert_eq!(found.acceptance.len(), 4);
    assert_eq!(found.acceptance[2], 0.5);
}
