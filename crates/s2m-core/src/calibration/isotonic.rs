//! Isotonic regression, and the curve that it leaves.
//!
//! Of all rising functions the one nearest to the observations in weighted squares: neighbours that
//! fall are pooled into blocks until none does. The curve runs straight from the middle of one block to
//! the middle of the next and stays level beyond the first and the last, so that nothing is said about
//! places where nothing was seen.
//!
//! Reference: Ayer et al., "An Empirical Distribution Function for Sampling with Incomplete
//! Information", 1955.

/// One observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Where.
    pub at: f64,
    /// What was seen there.
    pub value: f64,
    /// How much it counts; above zero.
    pub weight: f64,
}

/// A curve that never falls, by its corners from left to right.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    corners: Vec<[f64; 2]>,
}

impl Curve {
    /// A curve through corners `[at, value]`; none unless there are some, all are numbers, the places
    /// rise and the values do not fall.
    pub fn new(corners: Vec<[f64; 2]>) -> Option<Self> {
        let numbers = corners.iter().flatten().all(|v| v.is_finite());
        let rises = corners.is_sorted_by(|a, b| a[0] < b[0] && a[1] <= b[1]);
        (!corners.is_empty() && numbers && rises).then_some(Self { corners })
    }

    /// The curve nearest to some observations; none where there are none.
    pub fn fit(observations: &[Observation]) -> Option<Self> {
        let mut sorted = observations.to_vec();
        sorted.sort_by(|a, b| a.at.total_cmp(&b.at));
        // Blocks as weight, weighted place, weighted value.
        let mut blocks: Vec<[f64; 3]> = Vec::new();
        for equal in sorted.chunk_by(|a, b| a.at == b.at) {
            let mut block = [0.0; 3];
            for seen in equal {
                for (sum, value) in block.iter_mut().zip([1.0, seen.at, seen.value]) {
                    *sum += seen.weight * value;
                }
            }
            // Places may meet by rounding alone.
            let joins = |before: &[f64; 3], block: &[f64; 3]| {
                mean(before) >= mean(block) || place(before) >= place(block)
            };
            while let Some(before) = blocks.pop_if(|before| joins(before, &block)) {
                for (sum, value) in block.iter_mut().zip(before) {
                    *sum += value;
                }
            }
            blocks.push(block);
        }
        Self::new(blocks.iter().map(|b| [place(b), mean(b)]).collect())
    }

    /// Its value at a place.
    pub fn at(&self, place: f64) -> f64 {
        let after = self.corners.partition_point(|corner| corner[0] <= place);
        let Some(left) = after.checked_sub(1).map(|at| self.corners[at]) else {
            return self.corners[0][1];
        };
        let Some(right) = self.corners.get(after) else {
            return left[1];
        };
        let share = (place - left[0]) / (right[0] - left[0]);
        left[1] + share * (right[1] - left[1])
    }

    /// The corners, `[at, value]`.
    pub fn corners(&self) -> &[[f64; 2]] {
        &self.corners
    }

    /// The same places with other values; none where those fall or are no numbers.
    pub fn map(&self, change: impl Fn(f64) -> f64) -> Option<Self> {
        Self::new(
            self.corners
                .iter()
                .map(|[at, value]| [*at, change(*value)])
                .collect(),
        )
    }
}

fn place(block: &[f64; 3]) -> f64 {
    block[1] / block[0]
}

fn mean(block: &[f64; 3]) -> f64 {
    block[2] / block[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(values: &[f64]) -> Vec<Observation> {
        let seen = |(at, &value): (usize, &f64)| Observation {
            at: at as f64,
            value,
            weight: 1.0,
        };
        values.iter().enumerate().map(seen).collect()
    }

    #[test]
    fn neighbours_that_fall_are_pooled() {
        let curve = Curve::fit(&seen(&[1.0, 3.0, 2.0, 4.0])).unwrap();
        assert_eq!(curve.corners(), [[0.0, 1.0], [1.5, 2.5], [3.0, 4.0]]);
        assert_eq!(curve.at(0.75), 1.75);
        assert_eq!([curve.at(-9.0), curve.at(9.0)], [1.0, 4.0]);
        // One that keeps falling is one block: its mean.
        let curve = Curve::fit(&seen(&[3.0, 2.0, 1.0])).unwrap();
        assert_eq!(curve.corners(), [[1.0, 2.0]]);
    }

    #[test]
    fn weights_and_ties_count() {
        let at = |at, value, weight| Observation { at, value, weight };
        let curve = Curve::fit(&[at(0.0, 1.0, 3.0), at(0.0, 0.0, 1.0), at(1.0, 0.5, 4.0)]).unwrap();
        // 0.75 before 0.5: one block of weight 8, its place 0.5, its value 0.625.
        assert_eq!(curve.corners(), [[0.5, 0.625]]);
    }

    /// Minimum over all ways to cut the row into blocks, the definition itself.
    fn slow(values: &[f64]) -> f64 {
        let n = values.len();
        let mut best = f64::INFINITY;
        for cuts in 0..1_u32 << (n - 1) {
            let (mut start, mut loss, mut last, mut rises) = (0, 0.0, f64::NEG_INFINITY, true);
            for end in 1..=n {
                if end < n && cuts >> (end - 1) & 1 == 0 {
                    continue;
                }
                let block = &values[start..end];
                let mean = block.iter().sum::<f64>() / block.len() as f64;
                rises &= mean >= last;
                loss += block.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
                (last, start) = (mean, end);
            }
            if rises {
                best = best.min(loss);
            }
        }
        best
    }

    #[test]
    fn no_other_blocks_come_nearer() {
        for seed in 0..50_u32 {
            let values: Vec<f64> = (0..9_u32)
                .map(|i| f64::from((seed * 31 + i * i * 17 + i * seed) % 23))
                .collect();
            // Every place lies in a block whose value is the one seen at its middle.
            let curve = Curve::fit(&seen(&values)).unwrap();
            let mut loss = 0.0;
            let mut start = 0.0;
            for corner in curve.corners() {
                let size = 2.0 * (corner[0] - start) + 1.0;
                for value in &values[start as usize..(start + size) as usize] {
                    loss += (value - corner[1]).powi(2);
                }
                start += size;
            }
            assert!((loss - slow(&values)).abs() < 1e-9, "{values:?}");
        }
    }

    #[test]
    fn places_that_meet_by_rounding_are_pooled() {
        let nearly_one = 1.0 - f64::EPSILON;
        let at = |at, value| Observation {
            at,
            value,
            weight: 1.0,
        };
        let mut seen = vec![at(nearly_one, 0.5); 50];
        seen.push(at(nearly_one + f64::EPSILON / 2.0, 1.0));
        assert!(Curve::fit(&seen).is_some());
    }

    #[test]
    fn corners_that_fall_are_no_curve() {
        assert!(Curve::new(vec![[0.0, 1.0], [1.0, 0.0]]).is_none());
        assert!(Curve::new(vec![[1.0, 0.0], [1.0, 1.0]]).is_none());
        assert!(Curve::new(vec![[0.0, f64::NAN]]).is_none());
        assert!(Curve::new(Vec::new()).is_none());
    }
}
