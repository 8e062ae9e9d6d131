use super::*;
use crate::mixture::Covariance;
use crate::proposals::Proposals;

fn narrow(mean: f64, variance: f64) -> Mixture {
    let mixture = Mixture::from_covariances(Covariance::Full, &[1.0], &[mean], &[variance]);
    mixture.unwrap().with_prior_share(0.1).unwrap()
}

/// Points of the prior and of a mixture, in two stages.
fn two_stages(counts: [usize; 2], mixture: &Mixture) -> Recycled {
    let mut recycled = Recycled::new(1);
    let mut prior = vec![0.0; counts[0]];
    Proposals::new(3).fill_normal(0, 0, 1, &mut prior);
    recycled.push(None, &prior);
    let mut adapted = vec![0.0; counts[1]];
    mixture.fill(Proposals::new(3).at_stage(1), 0, &mut adapted);
    recycled.push(Some(mixture.clone()), &adapted);
    recycled
}

#[test]
fn ratios_are_the_formula() {
    let mixture = narrow(2.0, 0.25);
    let recycled = two_stages([30, 10], &mixture);
    assert_eq!(recycled.len(), 40);
    let ratios = recycled.log_prior_ratios();
    for (&point, ratio) in recycled.points().iter().zip(ratios) {
        let p = log_prior(&[point]).exp();
        let q = 0.75 * p + 0.25 * mixture.log_density(&[point]).exp();
        assert!((ratio - (p / q).ln()).abs() < 1e-12, "at {point}");
    }
}

/// `E[1{z > 2}]` under the prior from recycled points: within four standard errors of 0.02275.
#[test]
fn recycled_weights_estimate_the_prior() {
    let recycled = two_stages([20_000, 20_000], &narrow(2.0, 0.25));
    let hits: Vec<f64> = recycled
        .points()
        .iter()
        .zip(recycled.log_prior_ratios())
        .map(|(&z, ratio)| if z > 2.0 { ratio.exp() } else { 0.0 })
        .collect();
    let mean = hits.iter().sum::<f64>() / hits.len() as f64;
    let variance = hits.iter().map(|h| (h - mean).powi(2)).sum::<f64>() / hits.len() as f64;
    let error = (variance / hits.len() as f64).sqrt();
    assert!(
        (mean - 0.022_750_13).abs() < 4.0 * error,
        "{mean} ± {error}"
    );
    // The prior alone would have an error of 0.0011 with as many calls.
    assert!(error < 0.0004, "{error}");
}

#[test]
fn powers_leave_the_wanted_effective_number() {
    let scores: Vec<f64> = (0..1000).map(|i| f64::from(i) * 0.01).collect();
    let base = vec![0.0; 1000];
    // Weights e^(βs) on an even grid of width 0.01: about 2/(0.01 β) count.
    let power = largest_power(&scores, &base, 100.0, 64.0).unwrap();
    assert!((power - 2.0).abs() < 0.02, "{power}");
    assert!((effective(&tempered(&scores, &base, power)) - 100.0).abs() < 0.1);
    assert_eq!(largest_power(&scores, &base, 100.0, 1.0), Some(1.0));
    assert_eq!(largest_power(&scores[..50], &base[..50], 100.0, 1.0), None);
    assert_eq!(effective(&[f64::NEG_INFINITY; 3]), 0.0);
}

#[test]
fn a_mode_without_a_component_shows() {
    let mixture = narrow(2.0, 0.25);
    // Two modes of the target; the proposal has a component for the first.
    let points = [1.8, 2.1, 2.2, -2.0, -1.9];
    let logs = [0.0; 5];
    assert!((uncovered(&mixture, &points, &logs) - 0.4).abs() < 1e-12);
    assert_eq!(uncovered(&mixture, &points[..3], &logs[..3]), 0.0);
    assert_eq!(uncovered(&mixture, &points, &[f64::NEG_INFINITY; 5]), 0.0);
}

#[test]
fn thinned_points_stand_for_all() {
    let heavy = |i: i32| if i % 50 == 49 { 3.0 } else { 0.0 };
    let logs: Vec<f64> = (0..5000)
        .map(|i| f64::from(i % 50) * 0.1 + heavy(i))
        .collect();
    let mut uniforms = vec![0.0; logs.len()];
    Proposals::new(2).fill_uniform(crate::proposals::Purpose::Mixture, 0, &mut uniforms);
    let (kept, weights) = thin(&logs, &uniforms, 1000);
    assert!((900..1100).contains(&kept.len()), "{} kept", kept.len());
    assert!(kept.windows(2).all(|pair| pair[0] < pair[1]));
    // The sum of weights is kept: its standard error is below 2 %.
    let all = log_sum_exp(logs.iter().copied());
    let left = log_sum_exp(weights.iter().copied());
    assert!((left - all).abs() < 0.08, "{left} for {all}");
    // Light points stand for more than themselves, heavy ones only for themselves.
    let heaviest = kept
        .iter()
        .zip(&weights)
        .find(|(i, _)| **i % 50 == 49)
        .unwrap();
    assert_eq!(*heaviest.1, logs[49]);
    let lightest = weights.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(lightest > 0.0);
    let few = thin(&logs[..100], &uniforms[..100], 1000);
    assert_eq!((few.0.len(), few.1), (100, logs[..100].to_vec()));
    assert!(thin(&[f64::NEG_INFINITY; 3], &[0.5; 3], 2).0.is_empty());
}

/// Why recycled proposals must not run through `mh`: with a mixture fitted to 25 proposals, a chain over
/// these same proposals ends elsewhere than a chain over fresh ones. The target is a normal of mean 1 and
/// deviation ½; ends are counted in eight cells of equal share, over 1500 searches.
#[test]
fn chains_over_recycled_proposals_are_biased_and_over_fresh_ones_they_are_not() {
    use crate::mixture::em::{Settings, fit};
    use crate::proposals::Purpose;
    use crate::samplers::{History, mh};

    let log_score = |z: f32| {
        let z = f64::from(z);
        0.5 * z * z - 2.0 * (z - 1.0).powi(2)
    };
    let steps = std::num::NonZeroUsize::new(25).unwrap();
    let mut counts = [[0_u32; 8]; 2];
    for seed in 0..1500 {
        let proposals = Proposals::new(seed);
        let mut pilot = [0.0; 25];
        proposals.fill_normal(0, 0, 1, &mut pilot);
        let scores = pilot.map(log_score);
        let settings = Settings {
            regularisation: 1e-2,
            ..Settings::default()
        };
        let Ok(found) = fit(&pilot, &scores, &settings, proposals) else {
            continue;
        };
        let mixture = found.mixture.with_prior_share(0.1).unwrap();
        let mut fresh = [0.0; 25];
        mixture.fill(proposals.at_stage(1), 0, &mut fresh);
        for (points, counts) in [pilot, fresh].iter().zip(&mut counts) {
            let weight = |z: &f32| log_score(*z) + mixture.log_prior_ratio(&[*z]);
            let log_weights: Vec<f64> = points.iter().map(weight).collect();
            let mut uniforms = [0.0; 25];
            let stream = proposals.at_stage(2);
            stream.fill_uniform(Purpose::Accept, 0, &mut uniforms);
            let history = History {
                log_weights: &log_weights,
                log_uniforms: &uniforms.map(f64::ln),
            };
            let end = mh::chain_ends(history, steps)[0].unwrap();
            let place = crate::normal::normal_cdf((f64::from(points[end]) - 1.0) / 0.5);
            counts[((place * 8.0) as usize).min(7)] += 1;
        }
    }
    let distance = |counts: &[u32; 8]| {
        let total = f64::from(counts.iter().sum::<u32>());
        0.5 * counts
            .iter()
            .map(|&c| (f64::from(c) / total - 0.125).abs())
            .sum::<f64>()
    };
    let [recycled, fresh] = [distance(&counts[0]), distance(&counts[1])];
    // Perfect samples of this number are off by 0.027 on average.
    assert!(fresh < 0.05, "fresh: {fresh}, recycled: {recycled}");
    assert!(
        recycled > 2.5 * fresh,
        "fresh: {fresh}, recycled: {recycled}"
    );
}

/// Weights 8, 4, 2, 1 and nothing, each once: a cap of 5 cuts 3 of 15 off, and accepts 5+4+2+1 of 5·5.
#[test]
fn a_cap_under_the_prior_computed_on_paper() {
    let scores = [8.0_f64, 4.0, 2.0, 1.0, 0.0].map(f64::ln);
    let (log_cap, share) = cap_and_share(&scores, &[0.0; 5], 0.2).unwrap();
    assert!((log_cap.exp() - 5.0).abs() < 1e-9, "{}", log_cap.exp());
    assert!((share - 12.0 / 25.0).abs() < 1e-9, "{share}");
    // The same as ten proposals of which the first two stand for half a one each.
    let twice: Vec<f64> = [8.0_f64, 8.0, 4.0, 2.0, 1.0].map(f64::ln).to_vec();
    let base = [0.5_f64.ln(), 0.5_f64.ln(), 0.0, 0.0, 0.0];
    let (again, _) = cap_and_share(&twice, &base, 0.2).unwrap();
    assert!((again - log_cap).abs() < 1e-9);
    assert_eq!(cap_and_share(&[f64::NEG_INFINITY; 3], &[0.0; 3], 0.2), None);
}

/// Against tables of the Poisson distribution: 2.996, 4.744 and 16.962 at 5 %.
#[test]
fn what_a_count_cannot_exclude() {
    for (count, wanted) in [(0, 2.9957), (1, 4.7439), (10, 16.9622)] {
        let found = most_expected(count, 0.05);
        assert!((found - wanted).abs() < 1e-3, "{count}: {found}");
    }
    assert!((most_expected(0, 0.025) - 40.0_f64.ln()).abs() < 1e-9);
}

/// `π/q` at a point, where the target accepts half of what it could there and one proposal in a thousand in all.
#[test]
fn calls_at_a_point_are_the_density_of_the_target_over_the_proposals() {
    let mixture = narrow(3.0, 0.25);
    let points = [3.0_f32, -1.0];
    let half = 0.5_f64.ln();
    let found = calls_at(Some(&mixture), &points, &[0.0, half], 1e-3);
    for ((found, z), accepted) in found.iter().zip(points).zip([1.0, 0.5]) {
        let wanted = accepted * 1e3 * mixture.log_prior_ratio(&[z]).exp();
        assert!((found / wanted - 1.0).abs() < 1e-12, "{found} for {wanted}");
    }
    // Through a tenth of the prior it costs ten times what it costs without adaptation; without a mixture just that.
    assert!((found[1] / 5000.0 - 1.0).abs() < 1e-3, "{}", found[1]);
    assert_eq!(calls_at(None, &points, &[0.0, half], 1e-3), [1e3, 500.0]);
}

/// A target of 0.8·N(4, 0.1) + 0.2·N(−4, 0.1) over the prior: the weights of each part's own proposals give the
/// masses, whatever they were drawn from, and a part that is there twice is counted once.
#[test]
fn masses_of_parts_come_from_their_own_points() {
    let target = |z: f64| {
        let at = |mean: f64| (-0.5 * (z - mean).powi(2) / 0.1).exp();
        0.8 * at(4.0) + 0.2 * at(-4.0)
    };
    let part = |mean: f64, variance: f64, count: usize, stage: u16| {
        let mixture = Mixture::from_covariances(Covariance::Full, &[1.0], &[mean], &[variance]);
        let mixture = mixture.unwrap();
        let mut points = vec![0.0; count];
        mixture.fill(Proposals::new(6).at_stage(stage), 0, &mut points);
        let log_masses = points
            .iter()
            .map(|&z| target(f64::from(z)).ln() - mixture.log_density(&[z]) - (count as f64).ln())
            .collect();
        Part {
            mixture,
            points,
            log_masses,
        }
    };
    let mut parts = vec![part(4.1, 0.2, 4000, 1), part(-3.8, 0.3, 1000, 2)];
    let masses = part_masses(&parts);
    let share = masses[1] / (masses[0] + masses[1]);
    assert!((share - 0.2).abs() < 0.02, "{share}");
    parts.push(part(-4.2, 0.25, 1000, 3));
    let masses = part_masses(&parts);
    let share = 1.0 - masses[0] / masses.iter().sum::<f64>();
    assert!((share - 0.2).abs() < 0.02, "{share}");
    assert!(masses[1] > 0.0 && masses[2] > 0.0, "{masses:?}");
    // The very same mixture twice: the second has nothing of its own.
    parts[2] = parts[1].clone();
    let masses = part_masses(&parts);
    assert_eq!(masses[2], 0.0);
}
