//! Where expectation–maximisation starts: k-means++ and a few rounds of k-means, on weighted points.
//!
//! The first centre is a point drawn by weight, each further one by weight times squared distance to the
//! nearest centre so far. Then all components get the covariance within them: their own would be
//! singular where points are few and dimensions many.

use super::em::{Data, Settings, from_groups};
use super::{Mixture, PANEL, parallel};
use crate::error::Error;
use crate::proposals::{Proposals, Purpose};

/// Rounds of k-means; the fit itself does the rest.
const ROUNDS: usize = 10;

/// Numbers of a sum that are added side by side.
const LANES: usize = 8;

/// The mixture to start from; fewer components than asked for where points repeat.
pub(super) fn start(
    data: &Data<'_>,
    settings: &Settings,
    proposals: Proposals,
) -> Result<Mixture, Error> {
    let mut centres = seed(data, settings.components.get(), proposals);
    let mut groups = groups(data, &centres);
    for _ in 0..ROUNDS {
        centres = data.moments(&groups, &data.first_points(&groups)).means;
        let next = self::groups(data, &centres);
        let settled = next == groups;
        groups = next;
        if settled {
            break;
        }
    }
    from_groups(data, settings, &groups)
}

/// Up to `count` different points, far from each other.
fn seed(data: &Data<'_>, count: usize, proposals: Proposals) -> Vec<f64> {
    let mut centres = Vec::new();
    let mut distances = vec![1.0; data.weights.len()];
    for k in 0..count {
        let odds = distances.iter().zip(&data.weights).map(|(d, w)| d * w);
        let total: f64 = odds.clone().sum();
        if total == 0.0 {
            break; // No point is left that is not a centre.
        }
        let mut left = total * proposals.uniform(Purpose::Mixture, k as u64);
        let mut chosen = 0;
        for (item, odds) in odds.enumerate().filter(|(_, odds)| *odds > 0.0) {
            chosen = item;
            left -= odds;
            if left < 0.0 {
                break;
            }
        }
        let point = &data.points[chosen * data.size..][..data.size];
        let centre: Vec<f64> = point.iter().copied().map(f64::from).collect();
        let found = over_points(data, |point| distance(point, &centre));
        for (nearest, found) in distances.iter_mut().zip(found) {
            *nearest = if k == 0 { found } else { nearest.min(found) };
        }
        centres.extend(centre);
    }
    centres
}

/// The points nearest to each centre, with their weights; centres without any are left out.
fn groups(data: &Data<'_>, centres: &[f64]) -> Vec<Vec<(usize, f64)>> {
    let nearest = over_points(data, |point| {
        let distances = centres.chunks(data.size).map(|c| distance(point, c));
        let nearest = distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        nearest.map_or(0, |(k, _)| k)
    });
    let mut groups = vec![Vec::new(); centres.len() / data.size];
    for (item, (k, &weight)) in nearest.into_iter().zip(&data.weights).enumerate() {
        groups[k].push((item, weight));
    }
    groups.retain(|group| !group.is_empty());
    groups
}

/// One answer per point.
fn over_points<A: Send>(data: &Data<'_>, of: impl Fn(&[f32]) -> A + Sync) -> Vec<A> {
    let panels = data.points.chunks(PANEL * data.size).collect();
    let answers = parallel::each(panels, |panel: &[f32]| {
        panel.chunks(data.size).map(&of).collect::<Vec<A>>()
    });
    answers.into_iter().flatten().collect()
}

/// Squared distance of a point from a centre.
fn distance(point: &[f32], centre: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    for (point, centre) in point.chunks(LANES).zip(centre.chunks(LANES)) {
        for ((sum, &x), c) in sums.iter_mut().zip(point).zip(centre) {
            let gap = f64::from(x) - c;
            *sum += gap * gap;
        }
    }
    sums.iter().sum()
}
