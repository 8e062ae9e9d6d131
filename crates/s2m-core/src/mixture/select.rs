//! Which mixture weighted points ask for: components, covariances, and how far to trust them.
//!
//! A fifth of the points is held out. Mixtures of several numbers of components are fitted to the
//! rest, with shared covariance and, where the points are many enough for it, with full ones. Each is
//! then moved toward the prior's covariance by several shares, and given several shares of the prior.
//! What is taken makes the weights of proposals from it the most even on the held-out points: it has
//! the least
//!
//! ```text
//! E_π[w·p/q],   one over the effective share of proposals from q
//! ```
//!
//! and is fitted again to all points. So a few hundred points are enough in a hundred dimensions,
//! where a plain covariance of so few would be far too sure of itself. A larger likelihood would not
//! do: it forgives a few large weights, and these decide what a sample costs.

use std::num::NonZeroUsize;

use super::count::{shares, split};
use super::em::{Fit, FitError, Settings, check, fit};
use super::{Covariance, Mixture, log_prior};
use crate::log_sum_exp;
use crate::proposals::Proposals;

/// Numbers of components that are tried.
pub const COUNTS: [usize; 4] = [1, 2, 4, 8];

/// Shares by which covariances are moved toward the prior's.
pub const SHRINKAGES: [f64; 6] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9];

/// Shares of the prior that are tried beside the least one.
pub const PRIOR_SHARES: [f64; 2] = [0.3, 0.6];

/// Effective points per component and dimension below which no component gets a covariance of its own.
const POINTS_PER_OWN_DIMENSION: f64 = 10.0;

/// Effective points that each component needs to be worth trying.
const POINTS_PER_COMPONENT: f64 = 20.0;

/// The mixture that was chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Selected {
    /// The mixture, with its share of the prior.
    pub mixture: Mixture,
    /// The fit behind it, before its covariances were moved.
    pub fit: Fit,
    /// How far they were moved toward the prior's.
    pub shrinkage: f64,
}

/// Points of a target, weighted.
#[derive(Debug, Clone, Copy)]
pub struct Points<'a> {
    /// The points, one after the other.
    pub points: &'a [f32],
    /// Log weight that makes each stand for the target, up to a constant.
    pub log_weights: &'a [f64],
    /// Log density of the target over the prior at each, up to a constant.
    pub log_scores: &'a [f64],
}

/// Chooses a mixture for a target, with at least this share of the prior.
pub fn select(
    target: Points<'_>,
    least_prior_share: f64,
    proposals: Proposals,
) -> Result<Selected, FitError> {
    let Points {
        points,
        log_weights,
        log_scores,
    } = target;
    check(points, log_weights)?;
    let size = points.len() / log_weights.len().max(1);
    let [rest, held_out] = split(points, log_weights, proposals);
    let [_, scores] = split(points, log_scores, proposals);
    let weights = shares(&held_out.log_weights)?;
    let effective = 1.0
        / shares(&rest.log_weights)?
            .iter()
            .map(|w| w * w)
            .sum::<f64>();
    // Log of what each held-out point adds, but for the density of a mixture there.
    let held_points = held_out.points.chunks(size);
    let fixed: Vec<f64> = weights
        .iter()
        .zip(&scores.log_weights)
        .zip(held_points)
        .map(|((weight, score), point)| weight.ln() + score + log_prior(point))
        .collect();
    let prior_shares: Vec<f64> = std::iter::once(least_prior_share)
        .chain(PRIOR_SHARES.into_iter().filter(|s| *s > least_prior_share))
        .collect();
    let mut best: Option<(f64, Settings, [f64; 2])> = None;
    for settings in candidates(size, effective) {
        let found = fit(&rest.points, &rest.log_weights, &settings, proposals)?;
        for shrinkage in SHRINKAGES {
            let moved = found.mixture.toward_prior(shrinkage)?;
            for &prior_share in &prior_shares {
                let moved = moved.clone().with_prior_share(prior_share)?;
                let mut logs = vec![0.0; weights.len()];
                moved.log_densities(&held_out.points, &mut logs);
                let unevenness =
                    log_sum_exp(fixed.iter().zip(&logs).map(|(fixed, log)| fixed - log));
                if best.as_ref().is_none_or(|(least, ..)| unevenness < *least) {
                    best = Some((unevenness, settings, [shrinkage, prior_share]));
                }
            }
        }
    }
    let (_, settings, [shrinkage, prior_share]) = best.ok_or(FitError::NoCounts)?;
    let fit = fit(points, log_weights, &settings, proposals)?;
    let mixture = fit.mixture.toward_prior(shrinkage)?;
    Ok(Selected {
        mixture: mixture.with_prior_share(prior_share)?,
        fit,
        shrinkage,
    })
}

/// What is worth trying for so many effective points.
fn candidates(size: usize, effective: f64) -> Vec<Settings> {
    let mut all = Vec::new();
    for count in COUNTS {
        let Some(components) = NonZeroUsize::new(count) else {
            continue;
        };
        if count > 1 && effective < POINTS_PER_COMPONENT * count as f64 {
            continue;
        }
        let own = POINTS_PER_OWN_DIMENSION * (count * size) as f64;
        let covariances = [
            (Covariance::Shared, true),
            (Covariance::Full, count > 1 && effective >= own),
        ];
        for (covariance, _) in covariances.into_iter().filter(|(_, worth)| *worth) {
            all.push(Settings {
                components,
                covariance,
                most_steps: 50,
                tolerance: 1e-3,
                ..Settings::default()
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chooses for points that stand for their own density over the prior.
    fn choose(points: &[f32], log_score: impl Fn(&[f32]) -> f64, size: usize) -> Selected {
        let log_scores: Vec<f64> = points.chunks(size).map(log_score).collect();
        let target = Points {
            points,
            log_weights: &vec![0.0; log_scores.len()],
            log_scores: &log_scores,
        };
        select(target, 0.1, Proposals::new(1)).unwrap()
    }

    /// Points of the prior with their first coordinate moved and narrowed.
    fn moved(count: usize, size: usize) -> Vec<f32> {
        let mut points = vec![0.0; count * size];
        Proposals::new(4).fill_normal(0, 0, size, &mut points);
        for point in points.chunks_mut(size) {
            point[0] = 3.0 + 0.3 * point[0];
        }
        points
    }

    /// Mean log density of other points of the same kind, less that of the truth.
    fn shortfall(mixture: &Mixture, size: usize) -> f64 {
        let mut points = vec![0.0; 2000 * size];
        Proposals::new(5).fill_normal(0, 0, size, &mut points);
        let mut sum = 0.0;
        for point in points.chunks_mut(size) {
            let truth = log_prior(point) - 0.3_f64.ln();
            point[0] = 3.0 + 0.3 * point[0];
            sum += truth - mixture.log_density(point);
        }
        sum / 2000.0
    }

    /// Log density over the prior of points whose first coordinate was moved and narrowed.
    fn log_score(point: &[f32]) -> f64 {
        let z = f64::from(point[0]);
        0.5 * z * z - 0.5 * ((z - 3.0) / 0.3).powi(2) - 0.3_f64.ln()
    }

    #[test]
    fn few_points_in_many_dimensions_are_moved_toward_the_prior() {
        let size = 100;
        let points = moved(400, size);
        let chosen = choose(&points, log_score, size);
        assert!(chosen.shrinkage >= 0.5, "moved by {}", chosen.shrinkage);
        let (with, without) = (
            shortfall(&chosen.mixture, size),
            shortfall(&chosen.fit.mixture, size),
        );
        // The first coordinate's spread of 0.3 would be 0.95 if everything were moved: log(0.95/0.3) = 1.2.
        assert!(with < 1.2, "short by {with}");
        assert!(without > 2.0 * with, "{without} without, {with} with");
    }

    #[test]
    fn many_points_in_few_dimensions_keep_their_own_covariances() {
        let mut points = moved(4000, 2);
        // Two far clusters, one wide and one narrow.
        for point in points.chunks_mut(2).step_by(2) {
            point[0] = -4.0 + 0.05 * point[1];
        }
        let score = |point: &[f32]| {
            if point[0] > -2.0 {
                return log_score(point);
            }
            let z = f64::from(point[0]);
            0.5 * z * z - 0.5 * ((z + 4.0) / 0.05).powi(2) - 0.05_f64.ln()
        };
        let chosen = choose(&points, score, 2);
        assert_eq!(chosen.mixture.covariance(), Covariance::Full);
        assert!(chosen.mixture.components() >= 2);
        assert_eq!(chosen.shrinkage, 0.0);
    }

    #[test]
    fn moving_a_covariance_is_the_stated_blend() {
        let mixture = Mixture::from_covariances(
            Covariance::Full,
            &[1.0],
            &[1.0, -2.0],
            &[4.0, 1.0, 1.0, 2.0],
        );
        let moved = mixture.unwrap().toward_prior(0.25).unwrap();
        let wanted = Mixture::from_covariances(
            Covariance::Full,
            &[1.0],
            &[1.0, -2.0],
            &[3.25, 0.75, 0.75, 1.75],
        );
        let (moved, wanted) = (moved.parts(), wanted.unwrap().parts());
        for (a, b) in moved.factors.iter().zip(&wanted.factors) {
            assert!((a - b).abs() < 1e-14, "{a} and {b}");
        }
    }
}
