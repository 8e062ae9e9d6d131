use super::*;

pub(super) const KINDS: [Covariance; 3] =
    [Covariance::Shared, Covariance::Diagonal, Covariance::Full];

/// Three components of `size` dimensions with weights 1/8, 5/8 and 1/4, none near the identity; and
/// their covariances, row by row.
fn example(covariance: Covariance, size: usize) -> (Mixture, Vec<Vec<f64>>) {
    let root = |k: usize, i: usize, j: usize| ((7 * i + 3 * j + 5 * k) % 9) as f64 / 8.0 - 0.4;
    let own = |k: usize| -> Vec<f64> {
        let k = if covariance == Covariance::Shared {
            0
        } else {
            k
        };
        let element = |i: usize, j: usize| {
            if covariance == Covariance::Diagonal && i != j {
                return 0.0;
            }
            let product: f64 = (0..size).map(|m| root(k, i, m) * root(k, j, m)).sum();
            product + if i == j { 0.3 + k as f64 / 4.0 } else { 0.0 }
        };
        (0..size * size)
            .map(|e| element(e / size, e % size))
            .collect()
    };
    let covariances: Vec<Vec<f64>> = (0..3).map(own).collect();
    let means: Vec<f64> = (0..3 * size)
        .map(|e| ((5 * e) % 7) as f64 / 3.0 - 1.0)
        .collect();
    let given = match covariance {
        Covariance::Shared => covariances[0].clone(),
        Covariance::Full => covariances.concat(),
        Covariance::Diagonal => {
            let diagonal = |c: &Vec<f64>| c.iter().step_by(size + 1).copied().collect::<Vec<_>>();
            covariances.iter().flat_map(diagonal).collect()
        }
    };
    let weights = [0.125, 0.625, 0.25];
    let mixture = Mixture::from_covariances(covariance, &weights, &means, &given).unwrap();
    (mixture, covariances)
}

fn points(size: usize, count: usize) -> Vec<f32> {
    let mut points = vec![0.0; size * count];
    Proposals::new(3).fill_normal(0, 0, size, &mut points);
    points
}

/// `log N(x | mean, covariance)` by Gaussian elimination.
fn slow_log_normal(x: &[f32], mean: &[f64], covariance: &[f64]) -> f64 {
    let size = mean.len();
    let gap: Vec<f64> = x.iter().zip(mean).map(|(&x, m)| f64::from(x) - m).collect();
    let mut rows: Vec<Vec<f64>> = covariance.chunks(size).map(<[f64]>::to_vec).collect();
    for (row, gap) in rows.iter_mut().zip(&gap) {
        row.push(*gap);
    }
    let mut log_determinant = 0.0;
    for pivot in 0..size {
        let own = rows[pivot].clone();
        log_determinant += own[pivot].ln();
        for below in &mut rows[pivot + 1..] {
            let factor = below[pivot] / own[pivot];
            for (below, own) in below.iter_mut().zip(&own) {
                *below -= factor * own;
            }
        }
    }
    let mut solution = vec![0.0; size];
    for i in (0..size).rev() {
        let known: f64 = (i + 1..size).map(|j| rows[i][j] * solution[j]).sum();
        solution[i] = (rows[i][size] - known) / rows[i][i];
    }
    let distance: f64 = gap.iter().zip(&solution).map(|(a, b)| a * b).sum();
    -0.5 * (distance + log_determinant + size as f64 * std::f64::consts::TAU.ln())
}

#[test]
fn densities_agree_with_a_slow_twin() {
    for covariance in KINDS {
        for size in [1, 2, 3, 4, 5, 9] {
            let (mixture, covariances) = example(covariance, size);
            let mixture = mixture.with_prior_share(0.1).unwrap();
            let points = points(size, 150);
            let mut found = vec![0.0; 150];
            mixture.log_densities(&points, &mut found);
            for (point, found) in points.chunks(size).zip(&found) {
                let normals = (0..3).map(|k| {
                    let log = slow_log_normal(point, mixture.mean(k), &covariances[k]);
                    0.9 * mixture.weights()[k] * log.exp()
                });
                let prior = point
                    .iter()
                    .map(|&v| (-0.5 * f64::from(v).powi(2)).exp() / std::f64::consts::TAU.sqrt());
                let wanted = (normals.sum::<f64>() + 0.1 * prior.product::<f64>()).ln();
                assert!(
                    (found - wanted).abs() < 1e-10 * wanted.abs().max(1.0),
                    "{covariance:?} {size}: {found} {wanted}"
                );
                assert_eq!(mixture.log_density(point), *found);
            }
        }
    }
}

#[test]
fn a_density_integrates_to_one() {
    let (mixture, _) = example(Covariance::Full, 1);
    let mixture = mixture.with_prior_share(0.2).unwrap();
    let grid: Vec<f32> = (-4096..4096).map(|i| i as f32 / 256.0).collect();
    let mut logs = vec![0.0; grid.len()];
    mixture.log_densities(&grid, &mut logs);
    let sum: f64 = logs.iter().map(|l| l.exp() / 256.0).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
}

#[test]
fn the_prior_over_the_mixture_is_bounded_by_its_share() {
    for covariance in KINDS {
        for epsilon in [1e-6, 0.1, 0.5, 1.0] {
            let (mixture, _) = example(covariance, 7);
            let mixture = mixture.with_prior_share(epsilon).unwrap();
            for scale in [0.0, 1.0, 1e3, 1e18] {
                let points: Vec<f32> = points(7, 50).iter().map(|v| v * scale).collect();
                let mut ratios = [0.0; 50];
                mixture.log_prior_ratios(&points, &mut ratios);
                for (point, ratio) in points.chunks(7).zip(ratios) {
                    assert!(ratio <= -epsilon.ln(), "{epsilon} {scale}: {ratio}");
                    assert_eq!(mixture.log_prior_ratio(point), ratio);
                    let wanted = log_prior(point) - mixture.log_density(point);
                    assert!(
                        (ratio - wanted).abs()
                            <= 1e-9 * wanted.abs().max(1.0) + 1e-13 * log_prior(point).abs()
                    );
                }
            }
        }
    }
    // Far outside every component the prior is all there is, where it is the widest.
    let narrow = Mixture::from_covariances(Covariance::Diagonal, &[1.0], &[0.0; 2], &[0.01; 2]);
    let narrow = narrow.unwrap().with_prior_share(0.25).unwrap();
    assert!((narrow.log_prior_ratio(&[3.0, 3.0]) - 4.0_f64.ln()).abs() < 1e-12);
}

#[test]
fn a_proposal_is_the_same_in_every_batch() {
    for covariance in KINDS {
        let (mixture, _) = example(covariance, 5);
        let mixture = mixture.with_prior_share(0.3).unwrap();
        let proposals = Proposals::new(4).at_stage(2);
        let mut whole = vec![0.0; 5 * 40];
        mixture.fill(proposals, 0, &mut whole);
        for first in [1, 13, 39] {
            let mut part = vec![0.0; 5 * (40 - first)];
            mixture.fill(proposals, first as u64, &mut part);
            assert_eq!(part, whole[5 * first..], "{covariance:?} {first}");
        }
        let mut other = vec![0.0; 5 * 40];
        mixture.fill(Proposals::new(4).at_stage(3), 0, &mut other);
        assert_ne!(other, whole);
        // With all of the share the prior's own proposals come back.
        let prior = mixture.with_prior_share(1.0).unwrap();
        prior.fill(proposals, 0, &mut whole);
        proposals.fill_normal(0, 0, 5, &mut other);
        assert_eq!(other, whole);
    }
}

/// Means and second moments within five standard errors.
#[test]
fn proposals_have_the_moments_of_the_mixture() {
    let (size, count) = (3, 100_000);
    for covariance in KINDS {
        let (mixture, covariances) = example(covariance, size);
        let mixture = mixture.with_prior_share(0.2).unwrap();
        let mut all = vec![0.0; size * count];
        mixture.fill(Proposals::new(8), 0, &mut all);
        let check = |what: &str, wanted: f64, of: &dyn Fn(&[f32]) -> f64| {
            let values: Vec<f64> = all.chunks(size).map(of).collect();
            let mean = values.iter().sum::<f64>() / count as f64;
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count as f64;
            let error = (variance / count as f64).sqrt();
            assert!(
                (mean - wanted).abs() < 5.0 * error,
                "{covariance:?} {what}: {mean} for {wanted}, {error}"
            );
        };
        let over = |f: &dyn Fn(usize) -> f64| {
            (0..3)
                .map(|k| 0.8 * mixture.weights()[k] * f(k))
                .sum::<f64>()
        };
        for i in 0..size {
            check("mean", over(&|k| mixture.mean(k)[i]), &|p| f64::from(p[i]));
            for j in 0..=i {
                let prior = if i == j { 0.2 } else { 0.0 };
                let moment = |k: usize| {
                    covariances[k][i * size + j] + mixture.mean(k)[i] * mixture.mean(k)[j]
                };
                let wanted = over(&moment) + prior;
                check("product", wanted, &|p| f64::from(p[i]) * f64::from(p[j]));
            }
        }
    }
}

#[test]
fn components_come_in_their_shares_and_rounding_never_picks_an_empty_one() {
    let mixture = |weights: &[f64]| {
        let means = vec![0.0; weights.len()];
        let ones = vec![1.0; weights.len()];
        Mixture::from_covariances(Covariance::Diagonal, weights, &means, &ones)
    };
    let half = mixture(&[0.25, 0.75])
        .unwrap()
        .with_prior_share(0.5)
        .unwrap();
    let picked = [0.1, 0.49, 0.51, 0.62, 0.63, 0.99].map(|u| half.component(u));
    assert_eq!(picked, [None, None, Some(0), Some(0), Some(1), Some(1)]);
    let short = mixture(&[1.0 - 1e-10, 0.0]).unwrap();
    assert_eq!(short.component(1.0 - 1e-12), Some(0));
}

#[test]
fn a_mixture_comes_back_from_its_parts() {
    for covariance in KINDS {
        let (mixture, covariances) = example(covariance, 6);
        let mixture = mixture.with_prior_share(0.05).unwrap();
        let parts = mixture.parts();
        assert_eq!((parts.size, parts.covariance), (6, covariance));
        assert_eq!((mixture.size(), mixture.prior_share()), (6, 0.05));
        if covariance != Covariance::Diagonal {
            let square: f64 = parts.factors[..36][30..].iter().map(|v| v * v).sum();
            assert!((square - covariances[0][35]).abs() < 1e-12);
        }
        assert_eq!(Mixture::new(parts).unwrap(), mixture);
    }
}

#[test]
fn bad_parts_are_named() {
    let (mixture, _) = example(Covariance::Full, 2);
    let refused = |change: &dyn Fn(&mut Parts)| {
        let mut parts = mixture.parts();
        change(&mut parts);
        Mixture::new(parts).unwrap_err().to_string()
    };
    let none = "a mixture needs at least one component and one dimension";
    assert_eq!(refused(&|p| p.weights.clear()), none);
    assert_eq!(refused(&|p| p.size = 0), none);
    assert_eq!(
        refused(&|p| p.means.truncate(5)),
        "means: wanted 6 numbers, found 5"
    );
    assert_eq!(
        refused(&|p| p.covariance = Covariance::Shared),
        "factors: wanted 4 numbers, found 12"
    );
    assert_eq!(
        refused(&|p| p.means[4] = f64::NAN),
        "means: number 4 is NaN"
    );
    assert_eq!(
        refused(&|p| p.weights[1] = f64::INFINITY),
        "weights: number 1 is inf"
    );
    assert_eq!(
        refused(&|p| p.weights[2] = -0.25),
        "the weight of component 2 is -0.25"
    );
    assert_eq!(
        refused(&|p| p.weights[2] = 0.5),
        "the weights of the components sum to 1.25, not to 1"
    );
    assert_eq!(
        refused(&|p| p.factors[11] = 0.0),
        "the covariance of component 2 is not positive definite at row 1"
    );
    assert_eq!(
        refused(&|p| p.prior_share = 1.5),
        "the share of the prior is 1.5, which is not within 0 and 1"
    );
    for (covariance, covariances) in [
        (Covariance::Shared, &[1.0, 2.0, 2.0, 1.0][..]),
        (Covariance::Diagonal, &[1.0, -1.0]),
    ] {
        let found = Mixture::from_covariances(covariance, &[1.0], &[0.0; 2], covariances);
        assert_eq!(
            found.unwrap_err().to_string(),
            "the covariance of component 0 is not positive definite at row 1"
        );
    }
}
