//! Accuracy of a combination under a referee.
//!
//! A referee gives each generated item its set of labels; the accuracy is the share of items whose
//! set satisfies the whole query. Per label it is the share of items on which the one label is as
//! the query demands, for labels that the query decides.
//!
//! The interval is Wilson's score interval at 95 %, which stays inside [0, 1] and does not shrink to
//! a point when all items are right. It covers the draw of the items, not the referee's own errors.
//!
//! Reference: Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", 1927.

use s2m_core::labels::LabelSet;
use s2m_core::query::Query;

/// Two-sided 95 % point of the standard normal distribution.
pub(crate) const Z_95: f64 = 1.959_963_984_540_054;

/// A share of right items.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accuracy {
    /// `right / n`; zero where there are no items.
    pub share: f64,
    /// Items that are right.
    pub right: usize,
    /// All items.
    pub n: usize,
}

impl Accuracy {
    /// `right` out of `n`.
    pub fn new(right: usize, n: usize) -> Self {
        let share = right as f64 / n.max(1) as f64;
        Self { share, right, n }
    }

    /// Wilson's 95 % interval; all of [0, 1] where there are no items.
    pub fn interval(&self) -> [f64; 2] {
        if self.n == 0 {
            return [0.0, 1.0];
        }
        let (n, p, z2) = (self.n as f64, self.share, Z_95 * Z_95);
        let centre = p + z2 / (2.0 * n);
        let half = Z_95 * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
        let end = |value: f64| (value / (1.0 + z2 / n)).clamp(0.0, 1.0);
        let low = if self.right == 0 {
            0.0
        } else {
            end(centre - half)
        };
        let high = if self.right == self.n {
            1.0
        } else {
            end(centre + half)
        };
        [low, high]
    }
}

/// Share of items whose predicted labels satisfy the query.
pub fn accuracy(predicted: &[LabelSet], query: &Query) -> Accuracy {
    let right = predicted.iter().filter(|set| query.holds(**set)).count();
    Accuracy::new(right, predicted.len())
}

/// For each label that the query decides: share of items on which it is as demanded.
pub fn accuracy_by_label(predicted: &[LabelSet], query: &Query) -> Vec<Option<Accuracy>> {
    let of_label = |label: usize| {
        let demanded = query.forced(label)?;
        let right = predicted
            .iter()
            .filter(|set| set.contains(label) == demanded);
        Some(Accuracy::new(right.count(), predicted.len()))
    };
    (0..query.label_count()).map(of_label).collect()
}

#[cfg(test)]
mod tests {
    use s2m_core::labels::Labels;

    use super::*;

    #[test]
    fn items_are_judged_by_the_whole_query_and_by_each_label() {
        let labels = Labels::new(["A", "B", "C"]).unwrap();
        let query = Query::parse("A - C", &labels).unwrap();
        // {A}, {A, B}, {A, C}, {B}.
        let predicted = [1, 3, 5, 2].map(LabelSet::from_bits);
        let found = accuracy(&predicted, &query);
        assert_eq!((found.share, found.right, found.n), (0.5, 2, 4));
        let by_label = accuracy_by_label(&predicted, &query);
        assert_eq!(
            by_label,
            [Some(Accuracy::new(3, 4)), None, Some(Accuracy::new(3, 4))]
        );
        let either = Query::parse("B | C", &labels).unwrap();
        assert_eq!(accuracy(&predicted, &either), Accuracy::new(3, 4));
        assert_eq!(accuracy_by_label(&predicted, &either), [None, None, None]);
        assert_eq!(accuracy(&[], &query), Accuracy::new(0, 0));
    }

    // scipy 1.17.1: binomtest(right, n).proportion_ci(0.95, "wilson")
    #[test]
    fn scipy_has_the_same_intervals() {
        for (right, n, low, high) in [
            (90, 100, 0.825_634_338_495_086_5, 0.944_770_862_939_324_9),
            (0, 10, 0.0, 0.277_532_799_862_889_26),
            (7, 7, 0.645_669_564_933_312_6, 1.0),
            (1, 3, 0.061_491_944_720_396_26, 0.792_340_399_197_952_3),
        ] {
            let found = Accuracy::new(right, n).interval();
            assert!(
                (found[0] - low).abs() < 1e-12 && (found[1] - high).abs() < 1e-12,
                "{found:?}"
            );
        }
        assert_eq!(Accuracy::new(0, 0).interval(), [0.0, 1.0]);
    }

    /// The ends solve `|p − share| = z √(p(1−p)/n)`, the definition.
    #[test]
    fn the_ends_of_an_interval_are_just_not_rejected() {
        for (right, n) in [(3, 8), (1, 2), (500, 1000), (999, 1000)] {
            let accuracy = Accuracy::new(right, n);
            for p in accuracy.interval() {
                let error = (p * (1.0 - p) / n as f64).sqrt();
                assert!(((p - accuracy.share).abs() - Z_95 * error).abs() < 1e-12);
            }
        }
    }
}
