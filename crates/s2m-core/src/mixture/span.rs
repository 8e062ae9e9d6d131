//! The directions in which weighted points differ most from the prior.
//!
//! First the direction of their mean, then those across it in which their variance is furthest from 1:
//! the eigenvectors of `Σ − I` with the largest eigenvalues in size, by orthogonal iteration.

use crate::proposals::Proposals;

/// Rounds of the iteration; directions that are not told apart by then hardly differ.
const ROUNDS: usize = 30;

/// Up to `count` orthonormal directions, the telling ones first.
pub(super) fn span(
    points: &[f32],
    shares: &[f64],
    size: usize,
    count: usize,
    proposals: Proposals,
) -> Vec<Vec<f64>> {
    let count = count.min(size);
    let mut mean = vec![0.0; size];
    for (point, share) in points.chunks(size).zip(shares) {
        add(&mut mean, point, *share);
    }
    let mut found = Vec::new();
    let mut start = vec![0.0_f32; size];
    push(&mut found, mean.clone());
    for number in 0..count as u64 {
        proposals.fill_normal(u16::MAX, number, size, &mut start);
        push(&mut found, start.iter().map(|&v| f64::from(v)).collect());
    }
    found.truncate(count);
    for _ in 0..ROUNDS {
        // (Σ − I)·u for all directions but the mean's, in one pass over the points.
        let mut images = vec![vec![0.0; size]; found.len() - 1];
        for (point, share) in points.chunks(size).zip(shares) {
            for (image, direction) in images.iter_mut().zip(&found[1..]) {
                let pairs = point.iter().zip(&mean).zip(direction);
                let along: f64 = pairs.map(|((z, m), d)| (f64::from(*z) - m) * d).sum();
                add(image, point, share * along);
                image
                    .iter_mut()
                    .zip(&mean)
                    .for_each(|(v, m)| *v -= share * along * m);
            }
        }
        let mut next = vec![found[0].clone()];
        for (mut image, direction) in images.into_iter().zip(&found[1..]) {
            image.iter_mut().zip(direction).for_each(|(v, d)| *v -= d);
            push(&mut next, image);
        }
        // A direction that vanished (nothing differs there) keeps its old one.
        for direction in &found {
            if next.len() < found.len() {
                push(&mut next, direction.clone());
            }
        }
        found = next;
    }
    found
}

fn add(sum: &mut [f64], point: &[f32], share: f64) {
    for (sum, value) in sum.iter_mut().zip(point) {
        *sum += share * f64::from(*value);
    }
}

/// Adds a direction, made orthonormal to those before it; left out where nothing of it is left.
fn push(found: &mut Vec<Vec<f64>>, mut direction: Vec<f64>) {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let before = dot(&direction, &direction).sqrt();
    // Twice, since once leaves rounding behind.
    for _ in 0..2 {
        for other in found.iter() {
            let along = dot(&direction, other);
            direction
                .iter_mut()
                .zip(other)
                .for_each(|(v, o)| *v -= along * o);
        }
    }
    let length = dot(&direction, &direction).sqrt();
    if length > 1e-9 * before.max(f64::MIN_POSITIVE) && length.is_finite() && length > 0.0 {
        for value in &mut direction {
            *value /= length;
        }
        found.push(direction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_and_the_narrow_direction_are_found() {
        let size = 12;
        let mut points = vec![0.0; 4000 * size];
        Proposals::new(6).fill_normal(0, 0, size, &mut points);
        for point in points.chunks_mut(size) {
            point[3] += 2.0;
            point[7] *= 0.2;
        }
        let shares = vec![1.0 / 4000.0; 4000];
        let found = span(&points, &shares, size, 3, Proposals::new(1));
        assert_eq!(found.len(), 3);
        assert!(found[0][3].abs() > 0.99, "{:?}", found[0]);
        assert!(found[1][7].abs() > 0.99, "{:?}", found[1]);
        for (i, a) in found.iter().enumerate() {
            for (j, b) in found.iter().enumerate() {
                let dot: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                let wanted = f64::from(u8::from(i == j));
                assert!((dot - wanted).abs() < 1e-12);
            }
        }
        assert_eq!(
            span(&points, &shares, size, 50, Proposals::new(1)).len(),
            size
        );
    }
}
