//! Intervals of metrics, as `s2m eval` states them, on items whose metrics are known.

use std::num::NonZeroUsize;

use s2m_core::proposals::{Proposals, Purpose};
use s2m_core::streams::trials;
use s2m_metrics::accuracy::Accuracy;
use s2m_metrics::bootstrap::Bootstrap;
use s2m_metrics::features::Features;
use s2m_metrics::fid::fid_with_error;
use s2m_metrics::kid::kid;
use s2m_metrics::prdc::{DEFAULT_K, prdc};

/// Numbers in an item for FID and KID, and for balls.
const WIDTH: usize = 8;
const BALL_WIDTH: usize = 4;

/// Fresh items by which a share inside given balls is known.
const FRESH: usize = 20_000;

/// Normal items of one side, whose mean is off by `shift` in the first direction.
fn side(seed: u64, stage: u16, items: usize, width: usize, shift: f32) -> Vec<f32> {
    let mut numbers = vec![0.0_f32; items * width];
    let proposals = Proposals::new(seed).at_stage(stage);
    proposals.fill_normal(0, 0, width, &mut numbers);
    for value in numbers.iter_mut().step_by(width) {
        *value += shift;
    }
    numbers
}

fn misses([low, high]: [f64; 2], truth: f64) -> bool {
    !(low..=high).contains(&truth)
}

/// FID between normal items whose means differ by one in one of eight directions: 1.
pub(super) fn fid(items: usize, seed: u64) -> Option<bool> {
    let (real, generated) = (
        side(seed, trials::REAL, items, WIDTH, 0.0),
        side(seed, trials::GENERATED, items, WIDTH, 1.0),
    );
    let real = Features::new(&real, WIDTH).ok()?;
    let found = fid_with_error(real, Features::new(&generated, WIDTH).ok()?).ok()?;
    Some(misses(found.interval(), 1.0))
}

/// KID between normal items whose means differ by `shift` in one of eight directions.
pub(super) fn kernel(items: usize, shift: f32, seed: u64) -> Option<bool> {
    let real = side(seed, trials::REAL, items, WIDTH, 0.0);
    let generated = side(seed, trials::GENERATED, items, WIDTH, shift);
    let real = Features::new(&real, WIDTH).ok()?;
    let found = kid(real, Features::new(&generated, WIDTH).ok()?).ok()?;
    Some(misses(found.interval(), kernel_distance(f64::from(shift))))
}

/// The KID of infinitely many such items.
fn kernel_distance(shift: f64) -> f64 {
    kernel_mean([0.0, 0.0]) + kernel_mean([shift, shift]) - 2.0 * kernel_mean([0.0, shift])
}

/// `E (x·y/d + 1)³` of independent normal items with these means in the first direction, by cumulants of the products of
/// their numbers, which add up.
fn kernel_mean(means: [f64; 2]) -> f64 {
    let d = WIDTH as f64;
    let cumulants = |[a, b]: [f64; 2]| {
        let first = a * b;
        let second = (1.0 + a * a) * (1.0 + b * b);
        let third = (a * a * a + 3.0 * a) * (b * b * b + 3.0 * b);
        [
            first,
            second - first * first,
            third - 3.0 * first * second + 2.0 * first * first * first,
        ]
    };
    let (own, others) = (cumulants(means), cumulants([0.0, 0.0]));
    let sum = |i: usize| own[i] + (d - 1.0) * others[i];
    let (k1, k2, k3) = (sum(0) / d + 1.0, sum(1) / (d * d), sum(2) / (d * d * d));
    k3 + 3.0 * k1 * k2 + k1 * k1 * k1
}

/// Accuracy of items that are right with this probability.
pub(super) fn right(share: f64, items: usize, seed: u64) -> bool {
    let mut uniform = vec![0.0; items];
    Proposals::new(seed).fill_uniform(Purpose::Class, 0, &mut uniform);
    let right = uniform.iter().filter(|u| **u < share).count();
    misses(Accuracy::new(right, items).interval(), share)
}

/// Which of the two shares of items inside balls of the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    Precision,
    Recall,
}

/// Precision or recall of normal items whose means differ by one in one of four directions. The truth is for the
/// very balls of the other side, which the interval holds fixed: the share of fresh items that they hold.
pub(super) fn in_balls(share: Share, items: usize, seed: u64) -> Option<bool> {
    let real = side(seed, trials::REAL, items, BALL_WIDTH, 0.0);
    let generated = side(seed, trials::GENERATED, items, BALL_WIDTH, 1.0);
    let found = prdc(
        Features::new(&real, BALL_WIDTH).ok()?,
        Features::new(&generated, BALL_WIDTH).ok()?,
        DEFAULT_K,
    );
    let intervals = found.ok()?.intervals(Bootstrap::default())?;
    let (interval, balls, shift) = match share {
        Share::Precision => (intervals.precision, &real, 1.0),
        Share::Recall => (intervals.recall, &generated, 0.0),
    };
    let fresh = side(seed, trials::FRESH, FRESH, BALL_WIDTH, shift);
    Some(misses(interval, held(balls, &fresh, DEFAULT_K)))
}

/// Share of some items that lie strictly inside a ball of others.
fn held(balls: &[f32], items: &[f32], k: NonZeroUsize) -> f64 {
    let square = |a: &[f32], b: &[f32]| -> f64 {
        let gaps = a.iter().zip(b).map(|(a, b)| f64::from(*a) - f64::from(*b));
        gaps.map(|gap| gap * gap).sum()
    };
    let centres: Vec<&[f32]> = balls.chunks(BALL_WIDTH).collect();
    let radii: Vec<f64> = (0..centres.len())
        .map(|own| {
            let others = centres.iter().enumerate().filter(|(i, _)| *i != own);
            let mut squares: Vec<f64> = others.map(|(_, c)| square(c, centres[own])).collect();
            *squares
                .select_nth_unstable_by(k.get() - 1, f64::total_cmp)
                .1
        })
        .collect();
    let inside = items.chunks(BALL_WIDTH).filter(|item| {
        let mut balls = centres.iter().zip(&radii);
        balls.any(|(centre, radius)| square(centre, item) < *radius)
    });
    inside.count() as f64 / (items.len() / BALL_WIDTH) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula of KID against many items, and balls against the metric itself.
    #[test]
    fn truths_agree_with_many_items() {
        let (a, b) = (
            side(1, trials::REAL, 4000, WIDTH, 0.0),
            side(1, trials::GENERATED, 4000, WIDTH, 1.0),
        );
        let [a, b] = [&a, &b].map(|values| Features::new(values, WIDTH).unwrap());
        let found = kid(a, b).unwrap();
        let gap = (found.value - kernel_distance(1.0)).abs();
        assert!(gap < 4.0 * found.standard_error, "{found:?} {gap}");
        assert!(kernel_distance(0.0).abs() < 1e-12 && kernel_distance(1.0) > 0.1);
        let (real, generated) = (
            side(2, trials::REAL, 200, BALL_WIDTH, 0.0),
            side(2, trials::GENERATED, 300, BALL_WIDTH, 1.0),
        );
        let features = [&real, &generated].map(|values| Features::new(values, BALL_WIDTH).unwrap());
        let shares = prdc(features[0], features[1], DEFAULT_K).unwrap();
        assert_eq!(held(&real, &generated, DEFAULT_K), shares.precision);
        assert_eq!(held(&generated, &real, DEFAULT_K), shares.recall);
    }
}
