//! Which mixture weighted points ask for: directions, components, covariances, and how far to trust them.
//!
//! A fifth of the points is held out. Mixtures of several numbers of components are fitted to the
//! rest: over the whole space, with shared covariance or, where the points are many enough for it,
//! with full ones; and over the few directions in which the points differ most from the prior (`span`),
//! which is all that matters where a query depends on few directions of a wide latent space. Each
//! is then moved toward the prior's covariance by several shares, and given several shares of the
//! prior. What is taken makes the weights of proposals from it the most even on the held-out points: it
//! has the least
//!
//! ```text
//! E_π[w·p/q],   one over the effective share of proposals from q
//! ```
//!
//! and is fitted again to all points. A larger likelihood would not do: it forgives a few large weights,
//! and these decide what a sample costs.

use std::borrow::Cow;
use std::num::NonZeroUsize;

use super::count::{no_counts, shares, split};
use super::em::{Settings, check, fit};
use super::span::span;
use super::{Covariance, Mixture};
use crate::error::Error;
use crate::log_sum_exp;
use crate::proposals::Proposals;

/// Numbers of components that are tried.
pub const COUNTS: [usize; 4] = [1, 2, 4, 8];

/// Those that are tried over a whole space of many dimensions, where fits are slow and rarely taken.
const WHOLE_COUNTS: [usize; 2] = [1, 4];

/// Numbers of directions that are tried, in spaces of more than the last one.
pub const DIRECTIONS: [usize; 4] = [1, 2, 4, 8];

/// Shares by which covariances are moved toward the prior's.
pub const SHRINKAGES: [f64; 6] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9];

/// Shares of the prior that are tried beside the least one.
pub const PRIOR_SHARES: [f64; 2] = [0.3, 0.6];

/// Share of every component that a wider copy of it has, and how far that is moved toward the prior.
/// In spaces of more dimensions than this, a wider copy would be nowhere near.
const WIDE_SHARE: f64 = 0.2;
const WIDE_TOWARD: f64 = 0.4;
const WIDE_DIMENSIONS: usize = 16;

/// Effective points per component and dimension below which no component gets a covariance of its own.
const POINTS_PER_OWN_DIMENSION: f64 = 10.0;

/// Effective points that each component needs to be worth trying.
const POINTS_PER_COMPONENT: f64 = 20.0;

/// The mixture that was chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Selected {
    /// The mixture, with its share of the prior.
    pub mixture: Mixture,
    /// Directions over which it was fitted; as many as there are dimensions for all.
    pub directions: usize,
    /// How far its covariances were moved toward the prior's.
    pub shrinkage: f64,
}

/// Points of a target, weighted.
#[derive(Debug, Clone, Copy)]
pub struct Points<'a> {
    /// All numbers, point by point.
    pub numbers: &'a [f32],
    /// Log weight that makes each stand for the target, up to a constant.
    pub log_weights: &'a [f64],
    /// Log density of the target over the prior at each, up to a constant.
    pub log_scores: &'a [f64],
}

/// One way to fit.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// How many directions; none for the whole space.
    directions: Option<usize>,
    settings: Settings,
    shrinkage: f64,
    prior_share: f64,
}

/// Chooses a mixture for a target, with at least this share of the prior.
pub fn select(
    target: Points<'_>,
    least_prior_share: f64,
    proposals: Proposals,
) -> Result<Selected, Error> {
    let Points {
        numbers: points,
        log_weights,
        log_scores,
    } = target;
    check(points, log_weights)?;
    let size = points.len() / log_weights.len().max(1);
    let [rest, held_out] = split(points, log_weights, proposals);
    let [_, scores] = split(points, log_scores, proposals);
    // Log of what each held-out point adds, but for the prior's density over a mixture's.
    let weights = shares(&held_out.log_weights)?;
    let fixed: Vec<f64> = weights
        .iter()
        .zip(&scores.log_weights)
        .map(|(weight, score)| weight.ln() + score)
        .collect();
    let rest_shares = shares(&rest.log_weights)?;
    let effective = 1.0 / rest_shares.iter().map(|w| w * w).sum::<f64>();
    let prior_shares: Vec<f64> = std::iter::once(least_prior_share)
        .chain(PRIOR_SHARES.into_iter().filter(|s| *s > least_prior_share))
        .collect();
    let most = DIRECTIONS[DIRECTIONS.len() - 1];
    let narrow = (size > most).then(|| span(&rest.points, &rest_shares, size, most, proposals));
    let mut best: Option<(f64, Candidate)> = None;
    let spaces = narrow.iter().flat_map(|_| DIRECTIONS.map(Some));
    for directions in std::iter::once(None).chain(spaces) {
        let basis = directions.and_then(|count| narrow.as_ref()?.get(..count));
        let within = basis.map_or(size, <[_]>::len);
        let [rest_points, held_points] =
            [&rest.points, &held_out.points].map(|points| projected(points, size, basis));
        for settings in candidates(within, effective) {
            let found = fit(&rest_points, &rest.log_weights, &settings, proposals)?;
            for shrinkage in SHRINKAGES {
                let moved = widened(&found.mixture, shrinkage)?;
                for &prior_share in &prior_shares {
                    let moved = moved.clone().with_prior_share(prior_share)?;
                    let mut ratios = vec![0.0; weights.len()];
                    moved.log_prior_ratios(&held_points, &mut ratios);
                    let terms = fixed
                        .iter()
                        .zip(&ratios)
                        .map(|(fixed, ratio)| fixed + ratio);
                    let unevenness = log_sum_exp(terms);
                    if best.as_ref().is_none_or(|(least, _)| unevenness < *least) {
                        let candidate = Candidate {
                            directions,
                            settings,
                            shrinkage,
                            prior_share,
                        };
                        best = Some((unevenness, candidate));
                    }
                }
            }
        }
    }
    let (_, taken) = best.ok_or_else(no_counts)?;
    refit(target, size, taken, proposals)
}

/// Fits the chosen candidate to all points.
fn refit(
    target: Points<'_>,
    size: usize,
    taken: Candidate,
    proposals: Proposals,
) -> Result<Selected, Error> {
    let all = shares(target.log_weights)?;
    let basis = taken
        .directions
        .map(|count| span(target.numbers, &all, size, count, proposals));
    let points = projected(target.numbers, size, basis.as_deref());
    let found = fit(&points, target.log_weights, &taken.settings, proposals)?;
    let mixture = widened(&found.mixture, taken.shrinkage)?.with_prior_share(taken.prior_share)?;
    Ok(Selected {
        mixture: match &basis {
            None => mixture,
            Some(directions) => mixture.embedded(directions)?,
        },
        directions: basis.map_or(size, |directions| directions.len()),
        shrinkage: taken.shrinkage,
    })
}

/// Covariances moved toward the prior's, and wide copies where they are of use.
fn widened(mixture: &Mixture, shrinkage: f64) -> Result<Mixture, Error> {
    let moved = mixture.toward_prior(shrinkage)?;
    if mixture.size() > WIDE_DIMENSIONS {
        return Ok(moved);
    }
    moved.with_wide_copies(WIDE_SHARE, WIDE_TOWARD)
}

/// Points along some directions, or as they are.
fn projected<'p>(points: &'p [f32], size: usize, basis: Option<&[Vec<f64>]>) -> Cow<'p, [f32]> {
    let Some(basis) = basis else {
        return Cow::Borrowed(points);
    };
    let along = |point: &[f32], direction: &Vec<f64>| {
        let pairs = point.iter().zip(direction);
        pairs.map(|(z, d)| f64::from(*z) * d).sum::<f64>() as f32
    };
    points
        .chunks(size)
        .flat_map(|point| basis.iter().map(move |direction| along(point, direction)))
        .collect()
}

/// What is worth trying for so many effective points.
fn candidates(size: usize, effective: f64) -> Vec<Settings> {
    let most = DIRECTIONS[DIRECTIONS.len() - 1];
    let counts = if size > most {
        &WHOLE_COUNTS[..]
    } else {
        &COUNTS[..]
    };
    let mut all = Vec::new();
    for &count in counts {
        let Some(components) = NonZeroUsize::new(count) else {
            continue;
        };
        if count > 1 && effective < POINTS_PER_COMPONENT * count as f64 {
            continue;
        }
        let own = effective >= POINTS_PER_OWN_DIMENSION * (count * size) as f64;
        let covariance = if own {
            Covariance::Full
        } else {
            Covariance::Shared
        };
        all.push(Settings {
            components,
            covariance,
            most_steps: 50,
            tolerance: 1e-3,
            ..Settings::default()
        });
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
            numbers: points,
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

    /// Effective share of fresh proposals from a mixture for the same target.
    fn effective_share(mixture: &Mixture, size: usize) -> f64 {
        let mut points = vec![0.0; 4000 * size];
        mixture.fill(Proposals::new(5).at_stage(3), 0, &mut points);
        let mut ratios = vec![0.0; 4000];
        mixture.log_prior_ratios(&points, &mut ratios);
        let weights = points
            .chunks(size)
            .zip(&ratios)
            .map(|(z, r)| (log_score(z) + r).exp());
        let [sum, squares] = weights.fold([0.0, 0.0], |[s, q], w| [s + w, q + w * w]);
        sum * sum / (4000.0 * squares)
    }

    /// Log density over the prior of points whose first coordinate was moved and narrowed.
    fn log_score(point: &[f32]) -> f64 {
        let z = f64::from(point[0]);
        0.5 * z * z - 0.5 * ((z - 3.0) / 0.3).powi(2) - 0.3_f64.ln()
    }

    /// The target differs from the prior in one direction of a hundred: 400 points show which.
    #[test]
    fn few_points_in_many_dimensions_show_the_direction_that_matters() {
        let size = 100;
        let points = moved(400, size);
        let chosen = choose(&points, log_score, size);
        assert!(chosen.directions <= 2, "{} directions", chosen.directions);
        let share = effective_share(&chosen.mixture, size);
        // Perfect but for the prior's share of 0.1 and the wide copies would be about 0.8.
        assert!(share > 0.25, "effective share {share}");
    }

    #[test]
    fn embedding_is_the_prior_across_the_other_directions() {
        let inner =
            Mixture::from_covariances(Covariance::Full, &[0.4, 0.6], &[2.0, -1.0], &[0.3, 0.5]);
        let inner = inner.unwrap().with_prior_share(0.1).unwrap();
        let direction = vec![0.6, 0.0, 0.8];
        let whole = inner.embedded(std::slice::from_ref(&direction)).unwrap();
        for point in [[0.3_f32, -1.0, 2.0], [1.5, 0.2, 1.1], [0.0, 3.0, -0.4]] {
            let along: f64 = point
                .iter()
                .zip(&direction)
                .map(|(z, d)| f64::from(*z) * d)
                .sum();
            let (found, wanted) = (
                whole.log_prior_ratio(&point),
                inner.log_prior_ratio(&[along as f32]),
            );
            assert!((found - wanted).abs() < 1e-5, "{found} and {wanted}");
        }
    }

    #[test]
    fn wide_copies_have_their_share() {
        let narrow =
            Mixture::from_covariances(Covariance::Shared, &[0.5, 0.5], &[1.0, -1.0], &[0.01]);
        let wide = narrow.clone().unwrap().with_wide_copies(0.2, 0.5).unwrap();
        let copy =
            Mixture::from_covariances(Covariance::Shared, &[0.5, 0.5], &[1.0, -1.0], &[0.505]);
        let (narrow, copy) = (narrow.unwrap(), copy.unwrap());
        for z in [-2.0_f32, 0.3, 1.1] {
            let [a, b] = [&narrow, &copy].map(|m| m.log_density(&[z]).exp());
            let found = wide.log_density(&[z]).exp();
            assert!((found - 0.8 * a - 0.2 * b).abs() < 1e-12);
        }
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
