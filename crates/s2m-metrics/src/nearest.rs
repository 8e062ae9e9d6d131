//! The nearest training item of each generated item, and whether the generator copies.
//!
//! A copy lies nearer to a training item than training items lie to each other. The threshold is the
//! 1 % quantile of the distances from each training item to its nearest other one. The statistic is
//! the share of generated items whose nearest training item lies at the threshold or below:
//!
//! - fresh real items are expected to show the floor, the same share among the training items
//!   themselves (1 %, and more where the data repeat themselves);
//! - an exact copy always counts, so a generator that only copies shows 1.
//!
//! A share whose interval lies above the floor says that the generator copies. Distances are exact in
//! double precision. They are as good as the features: in features that miss a difference, all who
//! differ in it alone are copies.

use crate::accuracy::Accuracy;
use crate::bootstrap::quantile;
use crate::error::Error;
use crate::features::{Features, check_items, check_widths};
use crate::neighbours::{self, Bounds, Near, shortlist_across, shortlist_within};
use crate::pairs::{Side, across, within};

/// Share of training items that lie closer to another one than the threshold.
pub const CLOSEST: f64 = 0.01;

/// The item nearest to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nearest {
    /// Its number.
    pub item: usize,
    /// Its distance.
    pub distance: f64,
}

/// The nearest training item of each generated item; of equally near ones, the first.
pub fn nearest(training: Features<'_>, generated: Features<'_>) -> Result<Vec<Nearest>, Error> {
    check_widths(training.width(), generated.width())?;
    check_items("the nearest training item", "training", training, 1)?;
    let [training, generated] = Side::together([training, generated]);
    Ok(nearest_across(&training, &generated))
}

fn nearest_across(training: &Side<'_>, generated: &Side<'_>) -> Vec<Nearest> {
    let bounds = Bounds::unknown(generated.items());
    let lists = across(generated, training, |block| {
        shortlist_across(block, 1, &bounds)
    });
    first_of_each(neighbours::nearest(generated, training, 1, lists))
}

fn first_of_each(near: Vec<Vec<Near>>) -> Vec<Nearest> {
    let first = |near: Vec<Near>| Nearest {
        item: near[0].item,
        distance: near[0].square.sqrt(),
    };
    near.into_iter().map(first).collect()
}

/// How many generated items lie suspiciously close to a training item.
#[derive(Debug, Clone, PartialEq)]
pub struct Copying {
    /// Share of generated items at the threshold or below, with Wilson's interval.
    pub close: Accuracy,
    /// Share of training items that lie as close to another one: what fresh real items would show.
    pub floor: f64,
    /// The distance that counts as close.
    pub threshold: f64,
    /// The nearest training item of each generated item.
    pub nearest: Vec<Nearest>,
}

/// Looks for generated items that copy a training item.
///
/// Quantiles of 1 % need a hundred training items to mean much; fewer than two have no distances.
pub fn copying(training: Features<'_>, generated: Features<'_>) -> Result<Copying, Error> {
    check_widths(training.width(), generated.width())?;
    check_items("the copying check", "training", training, 2)?;
    check_items("the copying check", "generated", generated, 1)?;
    let [training, generated] = Side::together([training, generated]);
    let bounds = Bounds::unknown(training.items());
    let lists = within(&training, |block| shortlist_within(block, 1, &bounds));
    let own = first_of_each(neighbours::nearest(&training, &training, 1, lists));
    let mut own: Vec<f64> = own.iter().map(|near| near.distance).collect();
    own.sort_unstable_by(f64::total_cmp);
    let threshold = quantile(&own, CLOSEST).expect("there are training items");
    let nearest = nearest_across(&training, &generated);
    let close = nearest.iter().filter(|near| near.distance <= threshold);
    Ok(Copying {
        close: Accuracy::new(close.count(), nearest.len()),
        floor: own.partition_point(|d| *d <= threshold) as f64 / own.len() as f64,
        threshold,
        nearest,
    })
}

#[cfg(test)]
mod tests {
    use s2m_core::proposals::Proposals;

    use super::*;
    use crate::examples::features;

    #[test]
    fn nearest_items_on_paper() {
        let training = [0.0, 0.0, 3.0, 4.0, 3.0, 4.0];
        let generated = [0.0, 1.0, 3.0, 4.0, 6.0, 8.0];
        let found = nearest(features(&training, 2), features(&generated, 2)).unwrap();
        let wanted = [(0, 1.0), (1, 0.0), (1, 5.0)];
        assert_eq!(
            found,
            wanted.map(|(item, distance)| Nearest { item, distance })
        );
        assert_eq!(
            nearest(features(&training, 2), features(&[], 2)),
            Ok(vec![])
        );
    }

    fn normal(seed: u64, items: usize) -> Vec<f32> {
        let mut values = vec![0.0; 4 * items];
        Proposals::new(seed).fill_normal(0, 0, 4, &mut values);
        values
    }

    /// Fresh items show the floor within five standard errors; copies show themselves.
    #[test]
    fn copies_rise_above_the_floor() {
        let (training, fresh) = (normal(1, 2000), normal(2, 3000));
        let found = copying(features(&training, 4), features(&fresh, 4)).unwrap();
        assert_eq!(found.floor, 0.01);
        let error = (0.01_f64 * 0.99 / 3000.0 + 0.01 * 0.99 / 2000.0).sqrt();
        assert!(
            (found.close.share - 0.01).abs() < 5.0 * error,
            "{:?}",
            found.close
        );
        let copies = copying(features(&training, 4), features(&training[..4 * 500], 4)).unwrap();
        assert_eq!(copies.close.share, 1.0);
        assert!(
            copies
                .nearest
                .iter()
                .enumerate()
                .all(|(i, near)| near.item == i)
        );
        let some = [&fresh[..4 * 900], &training[..4 * 100]].concat();
        let some = copying(features(&training, 4), features(&some, 4)).unwrap();
        assert!(some.close.right >= 100 && some.close.interval()[0] > some.floor);
    }

    #[test]
    fn repeated_training_items_raise_the_floor() {
        let training = [normal(1, 500), normal(1, 500)].concat();
        let found = copying(features(&training, 4), features(&normal(2, 500), 4)).unwrap();
        assert_eq!((found.threshold, found.floor), (0.0, 1.0));
        assert_eq!(found.close.right, 0);
        // An exact copy counts even so.
        let copies = copying(features(&training, 4), features(&training[..40], 4)).unwrap();
        assert_eq!(copies.close.right, 10);
    }

    #[test]
    fn what_cannot_be_checked_is_named() {
        let four = [0.0, 1.0, 2.0, 3.0];
        let error = nearest(features(&[], 2), features(&four, 2)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the nearest training item needs at least 1 training items, got 0"
        );
        let error = copying(features(&four[..2], 2), features(&four, 2)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the copying check needs at least 2 training items, got 1"
        );
        let error = copying(features(&four, 2), features(&four, 4)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "real features are 2 wide and generated ones 4"
        );
    }
}
