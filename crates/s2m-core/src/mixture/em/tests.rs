use super::super::Parts;
use super::super::tests::KINDS;
use super::*;

fn settings(covariance: Covariance, components: usize) -> Settings {
    Settings {
        components: NonZeroUsize::new(components).unwrap(),
        covariance,
        ..Settings::default()
    }
}

/// A start with unit covariances.
fn unit_start(covariance: Covariance, weights: &[f64], means: &[f64]) -> Mixture {
    let size = means.len() / weights.len();
    let unit: Vec<f64> = (0..size * size)
        .map(|e| f64::from(u8::from(e % (size + 1) == 0)))
        .collect();
    let covariances = match covariance {
        Covariance::Shared => unit,
        Covariance::Diagonal => vec![1.0; means.len()],
        Covariance::Full => unit.repeat(weights.len()),
    };
    Mixture::from_covariances(covariance, weights, means, &covariances).unwrap()
}

fn normal(seed: u64, size: usize, count: usize) -> Vec<f32> {
    let mut points = vec![0.0; size * count];
    Proposals::new(seed).fill_normal(0, 0, size, &mut points);
    points
}

/// Normal points about −`apart` (every fourth) and `apart` in every dimension.
fn two_clusters(size: usize, count: usize, apart: f32) -> Vec<f32> {
    let mut points = normal(5, size, count);
    for (i, point) in points.chunks_mut(size).enumerate() {
        let shift = if i % 4 == 0 { -apart } else { apart };
        for value in point {
            *value += shift;
        }
    }
    points
}

/// What climbs never falls by more than rounding.
fn assert_monotone(fit: &Fit) {
    assert!(fit.path.iter().all(|v| v.is_finite()), "{:?}", fit.path);
    assert_eq!(fit.path.len(), fit.steps + 1);
    for pair in fit.path.windows(2) {
        let rounding = 1e-11 * pair[0].abs().max(1.0);
        assert!(pair[1] >= pair[0] - rounding, "{:?}", fit.path);
    }
}

#[test]
fn one_component_is_the_weighted_mean_and_covariance() {
    // Weights 3 : 1 on (0, 0) and (4, 2): mean (1, ½), covariance (3, 1½; 1½, ¾), mean variance 15/8.
    let points = [0.0, 0.0, 4.0, 2.0];
    let log_weights = [3.0_f64.ln() - 700.0, -700.0];
    let noise = 0.01 * 1.875;
    for covariance in KINDS {
        let settings = Settings {
            regularisation: 0.01,
            ..settings(covariance, 1)
        };
        let found = fit(&points, &log_weights, &settings, Proposals::new(0)).unwrap();
        let across = if covariance == Covariance::Diagonal {
            0.0
        } else {
            1.5
        };
        let wanted = match covariance {
            Covariance::Diagonal => vec![3.0 + noise, 0.75 + noise],
            _ => vec![3.0 + noise, across, across, 0.75 + noise],
        };
        let exact = Mixture::from_covariances(covariance, &[1.0], &[1.0, 0.5], &wanted).unwrap();
        let (found_parts, exact_parts) = (found.mixture.parts(), exact.parts());
        let pairs = found_parts.factors.iter().zip(&exact_parts.factors);
        for (a, b) in pairs.chain(found_parts.means.iter().zip(&exact_parts.means)) {
            assert!((a - b).abs() < 1e-12, "{covariance:?}: {a} {b}");
        }
        let likelihood =
            0.75 * exact.log_density(&points[..2]) + 0.25 * exact.log_density(&points[2..]);
        assert!((found.log_likelihood - likelihood).abs() < 1e-10);
        assert!((found.effective_points - 16.0 / 10.0).abs() < 1e-12);
        assert!(found.converged && found.dropped == 0);
    }
}

// scikit-learn 1.9.1, numpy 2.4.6:
//   i, j = np.meshgrid(np.arange(90), np.arange(3), indexing="ij")
//   X = (3*i*i*(j+1) + 7*i + 5*j) % 31 / 16 + (i % 3 * (j+1)) % 4 / 2
//   M = np.array([[1, 1, 1], [1.5, 2, 2.5], [2, 1, 1.5]])
//   P = {"tied": np.eye(3), "diag": np.ones((3, 3)), "full": np.stack([np.eye(3)]*3)}
//   for kind, precisions in P.items():
//       for regularisation in (0, 1e-6):
//           g = GaussianMixture(3, covariance_type=kind, tol=0, max_iter=25,
//               reg_covar=regularisation*X.var(0).mean(), weights_init=[.5, .25, .25],
//               means_init=M, precisions_init=precisions).fit(X)
//           print(kind, regularisation, g.score(X), g.weights_, g.means_[0], g.n_iter_)
struct Peer {
    covariance: Covariance,
    /// Without regularisation, and with 1e-6.
    log_likelihoods: [f64; 2],
    /// With it: of the first component.
    weight: f64,
    mean: [f64; 3],
}

const PEERS: [Peer; 3] = [
    Peer {
        covariance: Covariance::Shared,
        log_likelihoods: [-3.267_878_950_376_319, -3.267_879_041_386_362_5],
        weight: 0.352_096_85,
        mean: [0.901_271_53, 0.895_897_1, 1.078_245_26],
    },
    Peer {
        covariance: Covariance::Diagonal,
        log_likelihoods: [-3.273_353_220_229_705_8, -3.273_353_520_990_877_3],
        weight: 0.365_686_09,
        mean: [0.926_174_07, 0.755_062_84, 1.080_150_76],
    },
    Peer {
        covariance: Covariance::Full,
        log_likelihoods: [-3.260_905_050_498_012, -3.260_906_777_547_626],
        weight: 0.410_571_63,
        mean: [0.946_304, 0.994_554_9, 1.268_232_58],
    },
];

#[test]
fn scikit_learn_agrees() {
    let points: Vec<f32> = (0..270_u32)
        .map(|e| {
            let (i, j) = (e / 3, e % 3);
            let noise = (3 * i * i * (j + 1) + 7 * i + 5 * j) % 31;
            noise as f32 / 16.0 + (i % 3 * (j + 1) % 4) as f32 / 2.0
        })
        .collect();
    let means = [1.0, 1.0, 1.0, 1.5, 2.0, 2.5, 2.0, 1.0, 1.5];
    for peer in PEERS {
        let covariance = peer.covariance;
        // Penalties differ between components unless they share them: see the head of `em.rs`.
        let with_penalty = if covariance == Covariance::Shared {
            1e-12
        } else {
            1e-7
        };
        let cases = [(0.0, 1e-12), (1e-6, with_penalty)];
        for ((regularisation, tolerance), wanted) in cases.into_iter().zip(peer.log_likelihoods) {
            let start = unit_start(covariance, &[0.5, 0.25, 0.25], &means);
            let settings = Settings {
                regularisation,
                most_steps: 25,
                tolerance: 0.0,
                ..settings(covariance, 3)
            };
            let found = fit_from(start, &points, &[0.0; 90], &settings).unwrap();
            let relative = (found.log_likelihood / wanted - 1.0).abs();
            assert!(relative < tolerance, "{covariance:?}: {relative:e}");
            assert_eq!((found.steps, found.converged), (25, false));
            assert_monotone(&found);
            assert!((found.mixture.weights()[0] - peer.weight).abs() < 1e-5);
            for (a, b) in found.mixture.mean(0).iter().zip(peer.mean) {
                assert!((a - b).abs() < 1e-4, "{covariance:?}: {a} {b}");
            }
        }
    }
}

#[test]
fn two_far_clusters_are_found() {
    let points = two_clusters(6, 2000, 4.0);
    for covariance in KINDS {
        let found = fit(
            &points,
            &[0.0; 2000],
            &settings(covariance, 2),
            Proposals::new(1),
        )
        .unwrap();
        let mixture = &found.mixture;
        let small = usize::from(mixture.weights()[1] < mixture.weights()[0]);
        assert!((mixture.weights()[small] - 0.25).abs() < 1e-6);
        for (component, mean, count) in [(small, -4.0, 500.0_f64), (1 - small, 4.0, 1500.0)] {
            for found in mixture.mean(component) {
                assert!((found - mean).abs() < 5.0 / count.sqrt(), "{found}");
            }
        }
        assert!(found.converged && found.dropped == 0);
        assert_monotone(&found);
    }
}

#[test]
fn a_small_spread_far_from_zero_is_kept() {
    // About −10⁶ and 10⁶, where the square of a number has no digit left for its fraction.
    let mut points: Vec<f32> = Vec::new();
    for i in 0..400 {
        let side = if i % 2 == 0 { -1.0e6 } else { 1.0e6 };
        let offset = if i % 4 < 2 { -0.5 } else { 0.5 };
        points.extend([side + offset, side - offset, offset]);
    }
    let settings = Settings {
        regularisation: 0.0,
        ..settings(Covariance::Diagonal, 2)
    };
    let fit = fit(&points, &[0.0; 400], &settings, Proposals::new(3)).unwrap();
    let Parts { means, factors, .. } = fit.mixture.parts();
    let close = |found: f64, wanted: f64| (found - wanted).abs() < 1e-12;
    assert!(factors.iter().all(|s| close(*s, 0.5)), "{factors:?}");
    for mean in means.chunks(3) {
        let [a, b, c] = [mean[0].abs(), mean[1].abs(), mean[2]].map(|m| m / 1.0e6);
        assert!(close(a, 1.0) && close(b, 1.0) && close(c, 0.0), "{mean:?}");
    }
}

#[test]
fn weights_move_a_fit_as_repeated_points_do() {
    let points = two_clusters(3, 200, 1.0);
    let log_weights: Vec<f64> = (0..200).map(|i| f64::from(i % 3).ln()).collect();
    let repeated: Vec<f32> = points
        .chunks(3)
        .enumerate()
        .flat_map(|(i, point)| point.repeat(i % 3))
        .collect();
    for covariance in KINDS {
        let means = [-1.0, -1.0, 0.0, 1.0, 1.0, 0.0];
        let start = unit_start(covariance, &[0.5; 2], &means);
        let run = |points: &[f32], log_weights: &[f64]| {
            fit_from(start.clone(), points, log_weights, &settings(covariance, 2)).unwrap()
        };
        let weighted = run(&points, &log_weights);
        let plain = run(&repeated, &vec![3.0; repeated.len() / 3]);
        assert!((weighted.log_likelihood - plain.log_likelihood).abs() < 1e-9);
        let (a, b) = (weighted.mixture.parts(), plain.mixture.parts());
        for (a, b) in a
            .factors
            .iter()
            .zip(&b.factors)
            .chain(a.means.iter().zip(&b.means))
        {
            assert!((a - b).abs() < 1e-9, "{covariance:?}");
        }
    }
}

#[test]
fn what_climbs_never_falls_however_strong_the_regularisation() {
    let points = two_clusters(4, 400, 0.7);
    let log_weights: Vec<f64> = (0..400).map(|i| f64::from(i % 11) / 3.0).collect();
    for covariance in KINDS {
        for regularisation in [1e-9, 1e-3, 0.3, 3.0] {
            let settings = Settings {
                regularisation,
                tolerance: 0.0,
                most_steps: 60,
                ..settings(covariance, 5)
            };
            let found = fit(&points, &log_weights, &settings, Proposals::new(2)).unwrap();
            assert_eq!(found.dropped, 0, "{covariance:?} {regularisation}");
            assert_monotone(&found);
        }
    }
}

#[test]
fn five_hundred_and_twelve_dimensions_stay_stable() {
    let (size, count) = (512, 2000);
    let points = two_clusters(size, count, 0.1);
    // Weights over many orders of magnitude, as importance weights are.
    let log_weights: Vec<f64> = (0..count)
        .map(|i| f64::from(i as u16 % 97) / 12.0)
        .collect();
    for covariance in KINDS {
        let settings = Settings {
            most_steps: 4,
            ..settings(covariance, 2)
        };
        let found = fit(&points, &log_weights, &settings, Proposals::new(6)).unwrap();
        assert_monotone(&found);
        assert!(found.effective_points > 100.0 && found.effective_points < 1000.0);
        let parts = found.mixture.parts();
        assert!(
            parts
                .factors
                .iter()
                .chain(&parts.means)
                .all(|v| v.is_finite())
        );
        let mut drawn = vec![0.0; 8 * size];
        found.mixture.fill(Proposals::new(0), 0, &mut drawn);
        let logs: Vec<f64> = drawn
            .chunks(size)
            .map(|p| found.mixture.log_density(p))
            .collect();
        assert!(logs.iter().all(|l| l.is_finite()), "{logs:?}");
    }
}

#[test]
fn results_are_the_same_with_any_number_of_threads() {
    let points = two_clusters(9, 500, 0.5);
    for covariance in KINDS {
        let run = |threads| {
            parallel::FORCED.set(Some(threads));
            let settings = Settings {
                most_steps: 5,
                ..settings(covariance, 3)
            };
            let found = fit(&points, &[0.0; 500], &settings, Proposals::new(9)).unwrap();
            parallel::FORCED.set(None);
            found
        };
        let one = run(1);
        for threads in [2, 3, 16] {
            assert_eq!(run(threads), one, "{covariance:?}, {threads} threads");
        }
    }
}

#[test]
fn the_start_depends_on_seed_and_stage_alone() {
    let points = two_clusters(3, 300, 0.3);
    let run = |proposals| {
        let settings = Settings {
            most_steps: 0,
            ..settings(Covariance::Full, 4)
        };
        fit(&points, &[0.0; 300], &settings, proposals).unwrap()
    };
    let first = run(Proposals::new(1));
    assert_eq!((first.steps, first.converged), (0, false));
    assert_eq!(run(Proposals::new(1)), first);
    assert_ne!(run(Proposals::new(2)), first);
    assert_ne!(run(Proposals::new(1).at_stage(1)), first);
}

#[test]
fn components_without_points_are_dropped() {
    for covariance in KINDS {
        // The third component starts where nothing is.
        let means = [-4.0, -4.0, 4.0, 4.0, 50.0, -50.0];
        let start = unit_start(covariance, &[0.25, 0.25, 0.5], &means);
        let points = two_clusters(2, 400, 4.0);
        let found = fit_from(start, &points, &[0.0; 400], &settings(covariance, 3)).unwrap();
        assert_eq!(
            (found.dropped, found.mixture.components()),
            (1, 2),
            "{covariance:?}"
        );
        assert!(found.converged);
        assert_monotone(&found);
        // Two different points cannot make three components, nor can two points' worth of weight.
        let few = [0.0, 0.0, 1.0, 1.0].repeat(50);
        let found = fit(
            &few,
            &[0.0; 100],
            &settings(covariance, 3),
            Proposals::new(0),
        )
        .unwrap();
        assert_eq!(
            (found.dropped, found.mixture.components()),
            (1, 2),
            "{covariance:?}"
        );
        let steep: Vec<f64> = (0..100).map(|i| -f64::from(i)).collect();
        let found = fit(
            &points[..200],
            &steep,
            &settings(covariance, 3),
            Proposals::new(0),
        )
        .unwrap();
        assert_eq!(found.dropped, 2, "{covariance:?}");
    }
}

#[test]
fn bad_input_is_named() {
    let plain = Settings::default();
    let refused = |points: &[f32], log_weights: &[f64], settings: &Settings| {
        let found = fit(points, log_weights, settings, Proposals::new(0));
        found.unwrap_err().to_string()
    };
    assert_eq!(
        refused(&[], &[], &plain),
        "0 numbers are not 0 points of the same size"
    );
    assert_eq!(
        refused(&[0.0; 5], &[0.0; 2], &plain),
        "5 numbers are not 2 points of the same size"
    );
    assert_eq!(
        refused(&[0.0, 1.0, f32::NAN, 0.0], &[0.0; 2], &plain),
        "point 1 holds NaN"
    );
    assert_eq!(
        refused(&[0.0, 1.0], &[0.0, f64::INFINITY], &plain),
        "the log weight of point 1 is inf"
    );
    let none = f64::NEG_INFINITY;
    assert_eq!(
        refused(&[0.0, 1.0], &[none; 2], &plain),
        "no point has a weight above zero"
    );
    assert_eq!(
        refused(&[0.0, 1.0], &[0.0, none], &plain),
        "all points of any weight are the same"
    );
    let bad = Settings {
        regularisation: -1.0,
        ..plain
    };
    assert_eq!(
        refused(&[0.0, 1.0], &[0.0; 2], &bad),
        "the regularisation is -1, which is not a number from 0 up"
    );
    let bad = Settings {
        tolerance: f64::NAN,
        ..plain
    };
    assert_eq!(
        refused(&[0.0, 1.0], &[0.0; 2], &bad),
        "the tolerance is NaN, which is not a number from 0 up"
    );
    // Points on a line have no full covariance of their own.
    let bare = Settings {
        regularisation: 0.0,
        ..plain
    };
    assert_eq!(
        refused(&[0.0, 0.0, 1.0, 1.0], &[0.0; 2], &bare),
        "the covariance of component 0 is not positive definite at row 1"
    );
    let start = Mixture::from_covariances(Covariance::Diagonal, &[1.0], &[0.0], &[1.0]).unwrap();
    let from = |points: &[f32]| {
        let found = fit_from(start.clone(), points, &[0.0; 2], &plain);
        found.unwrap_err().to_string()
    };
    assert_eq!(
        from(&[0.0, 1.0, 2.0, 3.0]),
        "the start has 1 dimensions and the fit wants 2 dimensions"
    );
    assert_eq!(
        from(&[0.0, 1.0]),
        "the start has diagonal covariance and the fit wants full covariance"
    );
}
