//! How many components points need: by the likelihood of points that were held out.
//!
//! A fifth of the points is held out, chosen by seed and stage. A mixture of each number of components
//! is fitted to the rest. Of all that fall short of the best one by no more than one standard error of
//! that very difference, the one with the fewest components is taken and fitted to all points. The
//! standard error is of differences point by point: how likely a point is at all varies far more.

use std::num::NonZeroUsize;

use super::em::{Fit, Settings, check, fit, no_weight};
use crate::error::Error;
use crate::proposals::{Proposals, Purpose};
use crate::streams::HELD_OUT_POINTS;

/// Numbers of components that are tried where nothing else is said.
pub const COUNTS: [usize; 5] = [1, 2, 4, 8, 16];

/// Share of the points that is held out.
pub const HELD_OUT: f64 = 0.2;

/// One number of components and how well it did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Components that were asked for.
    pub asked: usize,
    /// Components that were left.
    pub components: usize,
    /// Weighted mean log density of the held-out points.
    pub held_out: f64,
    /// How much less that is than the best.
    pub shortfall: f64,
    /// Standard error of the shortfall.
    pub standard_error: f64,
}

/// A fit with the number of components that the points need.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// The fit to all points.
    pub fit: Fit,
    /// What was tried, in order.
    pub trials: Vec<Trial>,
    /// Which trial was taken.
    pub taken: usize,
}

/// Fits a mixture to points, with one of several numbers of components; see [`fit`].
/// `settings.components` plays no part.
pub fn choose(
    points: &[f32],
    log_weights: &[f64],
    settings: &Settings,
    proposals: Proposals,
    counts: &[NonZeroUsize],
) -> Result<Chosen, Error> {
    check(points, log_weights)?;
    let [rest, held_out] = split(points, log_weights, proposals);
    let with = |components| Settings {
        components,
        ..*settings
    };
    let weights = shares(&held_out.log_weights)?;
    let mut tried = Vec::new();
    for &count in counts {
        let found = fit(&rest.points, &rest.log_weights, &with(count), proposals)?;
        let mut logs = vec![0.0; weights.len()];
        found.mixture.log_densities(&held_out.points, &mut logs);
        let mean: f64 = logs.iter().zip(&weights).map(|(l, w)| l * w).sum();
        tried.push((count, found.mixture.components(), mean, logs));
    }
    let Some(best) = tried.iter().max_by(|a, b| a.2.total_cmp(&b.2)) else {
        return Err(no_counts());
    };
    let trials: Vec<Trial> = tried
        .iter()
        .map(|(asked, components, held_out, logs)| {
            let shortfall = best.2 - held_out;
            let gaps = best.3.iter().zip(logs).map(|(a, b)| a - b - shortfall);
            let squares = gaps.zip(&weights).map(|(gap, w)| w * w * gap * gap);
            Trial {
                asked: asked.get(),
                components: *components,
                held_out: *held_out,
                shortfall,
                standard_error: squares.sum::<f64>().sqrt(),
            }
        })
        .collect();
    let close = trials.iter().enumerate();
    let close = close.filter(|(_, t)| t.shortfall <= t.standard_error);
    let taken = close
        .min_by_key(|(_, t)| t.asked)
        .map_or(0, |(taken, _)| taken);
    let fit = fit(points, log_weights, &with(counts[taken]), proposals)?;
    Ok(Chosen { fit, trials, taken })
}

/// Some of the points.
#[derive(Default)]
pub(super) struct Part {
    pub(super) points: Vec<f32>,
    pub(super) log_weights: Vec<f64>,
}

/// The points to fit to and those held out.
pub(super) fn split(points: &[f32], log_weights: &[f64], proposals: Proposals) -> [Part; 2] {
    let mut uniform = vec![0.0; log_weights.len()];
    proposals.fill_uniform(Purpose::Mixture, HELD_OUT_POINTS, &mut uniform);
    let size = points.len() / log_weights.len().max(1);
    let mut parts = [Part::default(), Part::default()];
    let items = points.chunks(size.max(1)).zip(log_weights);
    for ((point, &log_weight), uniform) in items.zip(uniform) {
        let part = &mut parts[usize::from(uniform < HELD_OUT)];
        part.points.extend(point);
        part.log_weights.push(log_weight);
    }
    parts
}

pub(super) fn no_counts() -> Error {
    Error::setting("a choice needs at least one number of components")
}

/// Weights that sum to 1.
pub(super) fn shares(log_weights: &[f64]) -> Result<Vec<f64>, Error> {
    let total = crate::log_sum_exp(log_weights.iter().copied());
    if !total.is_finite() {
        return Err(no_weight());
    }
    Ok(log_weights.iter().map(|w| (w - total).exp()).collect())
}

#[cfg(test)]
mod tests {
    use super::super::Covariance;
    use super::*;

    const COUNT: usize = 1200;

    /// Normal points in three dimensions about `clusters` far corners.
    fn points(clusters: usize) -> Vec<f32> {
        let mut points = vec![0.0; 3 * COUNT];
        Proposals::new(21).fill_normal(0, 0, 3, &mut points);
        for (i, point) in points.chunks_mut(3).enumerate() {
            for (j, value) in point.iter_mut().enumerate() {
                *value += 6.0 * ((i % clusters) >> j & 1) as f32;
            }
        }
        points
    }

    fn run(points: &[f32], log_weights: &[f64], counts: &[usize]) -> Result<Chosen, Error> {
        let counts: Vec<NonZeroUsize> = counts.iter().filter_map(|&c| c.try_into().ok()).collect();
        let settings = Settings {
            covariance: Covariance::Diagonal,
            ..Settings::default()
        };
        choose(points, log_weights, &settings, Proposals::new(2), &counts)
    }

    #[test]
    fn as_many_components_as_clusters_are_chosen() {
        for clusters in [1, 2, 4] {
            let log_weights: Vec<f64> = (0..COUNT).map(|i| (i % 5) as f64 / 8.0).collect();
            let chosen = run(&points(clusters), &log_weights, &COUNTS).unwrap();
            assert_eq!(
                chosen.fit.mixture.components(),
                clusters,
                "{:?}",
                chosen.trials
            );
            assert_eq!(chosen.trials[chosen.taken].asked, clusters);
            assert_eq!(chosen.trials.len(), COUNTS.len());
            for trial in &chosen.trials {
                assert!(trial.shortfall >= 0.0 && trial.components <= trial.asked);
                let fewer_and_close =
                    trial.asked < clusters && trial.shortfall <= trial.standard_error;
                assert!(!fewer_and_close, "{trial:?}");
            }
        }
    }

    #[test]
    fn the_split_is_a_fifth_keyed_by_seed_and_point() {
        let (points, log_weights) = (points(1), vec![0.0; COUNT]);
        let [rest, held_out] = split(&points, &log_weights, Proposals::new(1));
        let count = held_out.log_weights.len() as f64;
        assert_eq!(rest.log_weights.len() + held_out.log_weights.len(), COUNT);
        assert_eq!(rest.points.len() + held_out.points.len(), points.len());
        let error = (COUNT as f64 * HELD_OUT * (1.0 - HELD_OUT)).sqrt();
        assert!((count - HELD_OUT * COUNT as f64).abs() < 5.0 * error);
        let [_, first] = split(&points[..300], &log_weights[..100], Proposals::new(1));
        assert_eq!(first.points, held_out.points[..first.points.len()]);
        let [_, other] = split(&points, &log_weights, Proposals::new(2));
        assert_ne!(other.points, held_out.points);
    }

    #[test]
    fn bad_input_is_named() {
        let message = |found: Result<Chosen, Error>| found.unwrap_err().to_string();
        let points = points(1);
        assert_eq!(
            message(run(&points, &[0.0; COUNT], &[])),
            "a choice needs at least one number of components"
        );
        let mut log_weights = [0.0; COUNT];
        log_weights[7] = f64::NAN;
        assert_eq!(
            message(run(&points, &log_weights, &[1])),
            "the log weight of point 7 is NaN"
        );
        // All weight is on points that are not held out.
        let mut uniform = [0.0; COUNT];
        Proposals::new(2).fill_uniform(Purpose::Mixture, HELD_OUT_POINTS, &mut uniform);
        let log_weights = uniform.map(|u| if u < HELD_OUT { f64::NEG_INFINITY } else { 0.0 });
        assert_eq!(
            message(run(&points, &log_weights, &[1])),
            "no point has a weight above zero"
        );
    }
}
