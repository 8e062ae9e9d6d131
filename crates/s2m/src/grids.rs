//! The 2×16 Gaussians: two 4×4 grids of modes that share nine, and how well points sit on them.
//!
//! Modes are one apart and have standard deviation 0.05. Accuracy is the share of points whose
//! nearest mode satisfies the query. Of those points, high quality is the share within four standard
//! deviations of that mode, and the spread is the standard deviation about the mean of the points
//! with the same nearest mode. (The paper's figures for the GAN alone differ between queries, so it
//! must have looked at the query's own points too.)
//!
//! Reference: appendix E.1 of "Mining Multi-Label Samples from Single Positive Labels", 2022.

use s2m_core::labels::LabelSet;
use s2m_core::query::Query;

/// Standard deviation of every mode.
pub const MODE_SD: f64 = 0.05;

/// Distance of a high-quality point from its mode, in standard deviations.
const HIGH_QUALITY: f64 = 4.0;

/// Sides of a grid.
const SIDE: i32 = 4;

/// One mode of the mixture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mode {
    /// Its centre.
    pub centre: [f64; 2],
    /// Which grids it belongs to: label 0 is A, label 1 is B.
    pub labels: LabelSet,
}

/// All 23 modes: those of A alone, then the shared ones, then those of B alone.
///
/// Grid B is grid A moved by one to the right and one up; both together are centred on zero.
pub fn modes() -> Vec<Mode> {
    let mut modes = Vec::new();
    for y in 0..=SIDE {
        for x in 0..=SIDE {
            let (in_a, in_b) = (x < SIDE && y < SIDE, x > 0 && y > 0);
            let labels: LabelSet = [(in_a, 0), (in_b, 1)]
                .into_iter()
                .filter(|l| l.0)
                .map(|l| l.1)
                .collect();
            let centre = [x, y].map(|side| f64::from(side) - f64::from(SIDE) / 2.0);
            if !labels.is_empty() {
                modes.push(Mode { centre, labels });
            }
        }
    }
    modes.sort_by_key(|mode| match mode.labels.bits() {
        1 => 0,
        3 => 1,
        _ => 2,
    });
    modes
}

/// How well points sit on the modes of a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// Share of points whose nearest mode satisfies the query.
    pub accuracy: f64,
    /// Share of those points within four standard deviations of that mode.
    pub high_quality: f64,
    /// Standard deviation of those points about their modes.
    pub spread: f64,
}

/// The mode nearest to a point, and the distance.
pub fn nearest(modes: &[Mode], point: [f32; 2]) -> (usize, f64) {
    let distance = |mode: &Mode| {
        let [dx, dy] = [0, 1].map(|axis| f64::from(point[axis]) - mode.centre[axis]);
        dx.hypot(dy)
    };
    let by_distance = modes.iter().map(distance).enumerate();
    by_distance
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .expect("there are modes")
}

/// Measures points against a query.
pub fn fit(points: &[[f32; 2]], query: &Query) -> Fit {
    let modes = modes();
    let (mut right, mut near) = (0usize, 0usize);
    let mut members: Vec<Vec<[f32; 2]>> = vec![Vec::new(); modes.len()];
    for &point in points {
        let (mode, distance) = nearest(&modes, point);
        if query.holds(modes[mode].labels) {
            right += 1;
            near += usize::from(distance <= HIGH_QUALITY * MODE_SD);
            members[mode].push(point);
        }
    }
    let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
    Fit {
        accuracy: share(right, points.len()),
        high_quality: share(near, right),
        spread: spread(&members),
    }
}

/// Standard deviation about each group's mean, averaged over groups and both coordinates.
fn spread(groups: &[Vec<[f32; 2]>]) -> f64 {
    let deviation = |group: &Vec<[f32; 2]>| {
        let n = group.len() as f64;
        let variance = |axis: usize| {
            let mean = group.iter().map(|p| f64::from(p[axis])).sum::<f64>() / n;
            group
                .iter()
                .map(|p| (f64::from(p[axis]) - mean).powi(2))
                .sum::<f64>()
                / (n - 1.0)
        };
        f64::midpoint(variance(0), variance(1)).sqrt()
    };
    let all: Vec<f64> = groups
        .iter()
        .filter(|g| g.len() > 1)
        .map(deviation)
        .collect();
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use s2m_core::labels::Labels;

    use super::*;

    #[test]
    fn there_are_23_modes_of_which_nine_are_shared() {
        let modes = modes();
        let count = |bits| modes.iter().filter(|m| m.labels.bits() == bits).count();
        assert_eq!((modes.len(), count(1), count(2), count(3)), (23, 7, 7, 9));
        assert!(modes[..7].iter().all(|m| m.labels.bits() == 1));
        assert!(modes[7..16].iter().all(|m| m.labels.bits() == 3));
        let total: f64 = modes.iter().map(|m| m.centre[0] + m.centre[1]).sum();
        assert_eq!(total, 0.0);
    }

    #[test]
    fn points_are_judged_by_their_nearest_mode() {
        let labels = Labels::new(["A", "B"]).unwrap();
        let query = Query::parse("A - B", &labels).unwrap();
        // Three points about a corner of grid A, one of them far off, and one on a shared mode.
        let points = [[-2.0, -2.0], [-2.1, -2.0], [-2.0, -1.7], [0.0, 0.0]];
        let found = fit(&points, &query);
        assert_eq!(found.accuracy, 0.75);
        assert!((found.high_quality - 2.0 / 3.0).abs() < 1e-12);
        // Variances of (0, −0.1, 0) and (0, 0, 0.3): 0.01/3 and 0.09/3.
        assert!(
            (found.spread - (0.10_f64 / 6.0).sqrt()).abs() < 1e-6,
            "{}",
            found.spread
        );
    }
}
