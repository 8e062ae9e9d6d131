//! How well points sit on the modes of a mixture.
//!
//! Accuracy is the share of points whose nearest mode satisfies the query. Of those points, high
//! quality is the share within four standard deviations of that mode, and the spread is the standard
//! deviation (N − 1) about the mean of the points with the same nearest mode, averaged over modes
//! with two points or more; within a mode, variances are averaged over coordinates.
//!
//! Reference: appendix E.1 of "Mining Multi-Label Samples from Single Positive Labels", 2022.

/// Distance of a high-quality point from its mode, in standard deviations.
pub const HIGH_QUALITY: f64 = 4.0;

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

/// The centre nearest to a point, and the distance.
pub fn nearest<C: AsRef<[f64]>>(centres: &[C], point: &[f32]) -> (usize, f64) {
    let distance = |centre: &C| {
        let apart = point.iter().zip(centre.as_ref());
        apart.map(|(x, c)| f64::from(*x) - c).fold(0.0, f64::hypot)
    };
    let by_distance = centres.iter().map(distance).enumerate();
    by_distance
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .expect("there are modes")
}

/// Measures points against the modes `satisfies` names, out of all `centres` with deviation `sd`.
pub fn fit<P: AsRef<[f32]>, C: AsRef<[f64]>>(
    points: &[P],
    centres: &[C],
    sd: f64,
    satisfies: impl Fn(usize) -> bool,
) -> Fit {
    let (mut right, mut near) = (0usize, 0usize);
    let mut members: Vec<Vec<&[f32]>> = vec![Vec::new(); centres.len()];
    for point in points.iter().map(AsRef::as_ref) {
        let (mode, distance) = nearest(centres, point);
        if satisfies(mode) {
            right += 1;
            near += usize::from(distance <= HIGH_QUALITY * sd);
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

/// Standard deviation about each group's mean, averaged over groups.
fn spread(groups: &[Vec<&[f32]>]) -> f64 {
    let all: Vec<f64> = groups
        .iter()
        .filter(|group| group.len() > 1)
        .map(|group| {
            let axes = group[0].len();
            let total: f64 = (0..axes).map(|axis| variance(group, axis)).sum();
            (total / axes as f64).sqrt()
        })
        .collect();
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

/// Variance (N − 1) of one coordinate.
fn variance(group: &[&[f32]], axis: usize) -> f64 {
    let n = group.len() as f64;
    let values = group.iter().map(|point| f64::from(point[axis]));
    let mean = values.clone().sum::<f64>() / n;
    values.map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn points_are_judged_by_their_nearest_mode() {
        let centres = [[-2.0, -2.0], [0.0, 0.0], [2.0, 2.0]];
        // Three points about the first mode, one of them far off, and one on the second.
        let points = [[-2.0, -2.0], [-2.1, -2.0], [-2.0, -1.7], [0.0, 0.0]];
        let found = fit(&points, &centres, 0.05, |mode| mode == 0);
        assert_eq!(found.accuracy, 0.75);
        assert!((found.high_quality - 2.0 / 3.0).abs() < 1e-12);
        // Variances of (0, −0.1, 0) and (0, 0, 0.3): 0.01/3 and 0.09/3.
        assert!((found.spread - (0.10_f64 / 6.0).sqrt()).abs() < 1e-6);
        let nothing = fit::<[f32; 2], _>(&[], &centres, 0.05, |_| true);
        let zeros = (nothing.accuracy, nothing.high_quality, nothing.spread);
        assert_eq!(zeros, (0.0, 0.0, 0.0));
    }

    #[test]
    fn any_dimension_will_do() {
        let centres = [vec![0.0, 0.0, 0.0], vec![3.0, 4.0, 12.0]];
        assert_eq!(nearest(&centres[1..], &[0.0; 3]), (0, 13.0));
        let found = fit(&[[0.1], [0.3], [5.0]], &[[0.0], [5.0]], 0.05, |_| true);
        assert!((found.high_quality - 2.0 / 3.0).abs() < 1e-12);
        assert!((found.spread - 0.02_f64.sqrt()).abs() < 1e-6);
    }

    /// Two-dimensional twin, written for two coordinates.
    fn plane_fit(points: &[[f32; 2]], centres: &[[f64; 2]], holds: &[bool]) -> Fit {
        let (mut right, mut near) = (0, 0);
        let mut groups = vec![Vec::new(); centres.len()];
        for &point in points {
            let distance = |c: &[f64; 2]| {
                let [dx, dy] = [0, 1].map(|axis| f64::from(point[axis]) - c[axis]);
                dx.hypot(dy)
            };
            let by_distance = centres.iter().map(distance).enumerate();
            let (mode, distance) = by_distance.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
            if holds[mode] {
                right += 1;
                near += usize::from(distance <= 4.0 * 0.05);
                groups[mode].push(point);
            }
        }
        let deviation = |group: &Vec<[f32; 2]>| {
            let n = group.len() as f64;
            let variance = |axis: usize| {
                let mean = group.iter().map(|p| f64::from(p[axis])).sum::<f64>() / n;
                let squares = group.iter().map(|p| (f64::from(p[axis]) - mean).powi(2));
                squares.sum::<f64>() / (n - 1.0)
            };
            f64::midpoint(variance(0), variance(1)).sqrt()
        };
        let all: Vec<f64> = groups
            .iter()
            .filter(|g| g.len() > 1)
            .map(deviation)
            .collect();
        Fit {
            accuracy: f64::from(right) / points.len() as f64,
            high_quality: near as f64 / f64::from(right.max(1)),
            spread: all.iter().sum::<f64>() / all.len().max(1) as f64,
        }
    }

    proptest! {
        #[test]
        fn in_the_plane_every_bit_is_the_twins(
            points in prop::collection::vec(prop::array::uniform2(-1.5..1.5f32), 1..200),
            holds in prop::collection::vec(any::<bool>(), 9),
        ) {
            let centres: Vec<[f64; 2]> =
                (0..9).map(|i| [f64::from(i % 3) - 1.0, f64::from(i / 3) - 1.0]).collect();
            // Some points close to their mode.
            let points: Vec<[f32; 2]> = points.iter().enumerate()
                .map(|(i, p)| if i % 2 == 0 { *p } else { p.map(|x| x.round() + x / 10.0) }).collect();
            prop_assert_eq!(fit(&points, &centres, 0.05, |m| holds[m]), plane_fit(&points, &centres, &holds));
        }
    }
}
