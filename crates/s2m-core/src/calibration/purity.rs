//! The posterior floor, and the purity that it predicts.
//!
//! Items with posterior `P(Q|x)` under a floor τ are dropped and the rest is drawn in proportion to
//! the weights, so the share of right items among samples is predicted to be
//!
//! ```text
//! purity(τ) = Σ_{P_i ≥ τ} w_i P_i / Σ_{P_i ≥ τ} w_i
//! ```
//!
//! or the same with the P that an audit measured in the place of the second one. It never falls as τ grows: what is dropped lies below everything that stays. The price is the
//! effective share of items that is left, `(Σw)² / (N Σw²)` over those that stay.

/// One item as the floor sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Item {
    /// Its log weight without the floor; `-∞` outside the query's support.
    pub log_weight: f64,
    /// `log P(Q|x)`.
    pub log_posterior: f64,
    /// The probability that it is right; `P(Q|x)`, or what an audit made of it.
    pub predicted: f64,
}

/// What a floor leaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kept {
    /// Items that stay and have weight.
    pub items: usize,
    /// Mean prediction of what stays, in proportion to the weights.
    pub predicted_purity: f64,
    /// Effective sample size of what stays, as a share of all items.
    pub effective_share: f64,
}

/// What stays of `items` above a floor; none where nothing with weight does.
pub fn kept(items: &[Item], log_floor: f64) -> Option<Kept> {
    let stays =
        |item: &&Item| item.log_weight > f64::NEG_INFINITY && item.log_posterior >= log_floor;
    let largest = largest_log_weight(items.iter().filter(stays));
    let (mut count, mut weight, mut mass, mut squares) = (0, 0.0, 0.0, 0.0);
    for item in items.iter().filter(stays) {
        let w = (item.log_weight - largest).exp();
        count += 1;
        weight += w;
        mass += w * item.predicted;
        squares += w * w;
    }
    (count > 0).then(|| Kept {
        items: count,
        predicted_purity: mass / weight,
        effective_share: weight * weight / (items.len() as f64 * squares),
    })
}

/// The lowest log floor for which the predicted purity reaches `purity`; none where no floor does.
///
/// `-∞` where no floor is needed, else the posterior of one of the items to the last bit, so that
/// the item it came from passes it.
pub fn log_floor_for(items: &[Item], purity: f64) -> Option<f64> {
    let largest = largest_log_weight(items.iter());
    let mut sorted: Vec<Item> = items
        .iter()
        .copied()
        .filter(|item| item.log_weight > f64::NEG_INFINITY)
        .collect();
    sorted.sort_by(|a, b| b.log_posterior.total_cmp(&a.log_posterior));
    let (mut weight, mut mass, mut lowest) = (0.0, 0.0, None);
    for equal in sorted.chunk_by(|a, b| a.log_posterior == b.log_posterior) {
        let log_posterior = equal[0].log_posterior;
        for item in equal {
            let w = (item.log_weight - largest).exp();
            weight += w;
            mass += w * item.predicted;
        }
        if weight > 0.0 && mass >= purity * weight {
            lowest = Some(log_posterior);
        }
    }
    // Everything fits: no floor is needed at all.
    if mass >= purity * weight && weight > 0.0 {
        Some(f64::NEG_INFINITY)
    } else {
        lowest
    }
}

fn largest_log_weight<'a>(items: impl Iterator<Item = &'a Item>) -> f64 {
    items
        .map(|i| i.log_weight)
        .fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn items(pairs: &[(f64, f64)]) -> Vec<Item> {
        let item = |&(posterior, weight): &(f64, f64)| Item {
            log_weight: weight.ln(),
            log_posterior: posterior.ln(),
            predicted: posterior,
        };
        pairs.iter().map(item).collect()
    }

    #[test]
    fn figures_computed_on_paper() {
        let all = items(&[(0.9, 1.0), (0.5, 1.0), (0.7, 2.0), (0.1, 4.0), (1.0, 0.0)]);
        let found = kept(&all, 0.6_f64.ln()).unwrap();
        assert_eq!(found.items, 2);
        assert!((found.predicted_purity - 2.3 / 3.0).abs() < 1e-12);
        // (1 + 2)² / (5 · (1 + 4)).
        assert!((found.effective_share - 9.0 / 25.0).abs() < 1e-12);
        let found = kept(&all, f64::NEG_INFINITY).unwrap();
        assert!((found.predicted_purity - 3.2 / 8.0).abs() < 1e-12);
        assert_eq!(found.items, 4);
        assert_eq!(kept(&all, 0.95_f64.ln()), None);
        assert_eq!(kept(&[], f64::NEG_INFINITY), None);
    }

    #[test]
    fn an_audit_changes_what_is_predicted_and_not_what_is_kept() {
        let mut all = items(&[(0.9, 1.0), (0.5, 1.0), (0.7, 2.0)]);
        for item in &mut all {
            item.predicted /= 2.0;
        }
        let found = kept(&all, 0.6_f64.ln()).unwrap();
        assert_eq!(found.items, 2);
        assert!((found.predicted_purity - 2.3 / 6.0).abs() < 1e-12);
        assert_eq!(log_floor_for(&all, 0.375), Some(0.7_f64.ln()));
    }

    #[test]
    fn the_floor_is_the_lowest_that_reaches_the_purity() {
        let all = items(&[(0.9, 1.0), (0.5, 1.0), (0.7, 2.0), (0.1, 4.0)]);
        let floor = |purity| log_floor_for(&all, purity);
        // Weighted means from the top: 0.9, 0.7667, 0.7, 0.4.
        assert_eq!(floor(0.85), Some(0.9_f64.ln()));
        assert_eq!(floor(0.75), Some(0.7_f64.ln()));
        assert_eq!(floor(0.65), Some(0.5_f64.ln()));
        assert_eq!(floor(0.35), Some(f64::NEG_INFINITY));
        assert_eq!(floor(0.95), None);
        assert_eq!(log_floor_for(&[], 0.5), None);
    }

    #[test]
    fn a_constant_in_log_space_changes_nothing() {
        let all = items(&[(0.9, 1.0), (0.5, 1.0), (0.7, 2.0), (0.1, 4.0)]);
        let shift = |by: f64| -> Vec<Item> {
            let item = |i: &Item| Item {
                log_weight: i.log_weight + by,
                ..*i
            };
            all.iter().map(item).collect()
        };
        for by in [-5000.0, 5000.0] {
            let (a, b) = (kept(&all, -1.0).unwrap(), kept(&shift(by), -1.0).unwrap());
            assert!((a.predicted_purity - b.predicted_purity).abs() < 1e-9);
            assert_eq!(log_floor_for(&shift(by), 0.75), log_floor_for(&all, 0.75));
        }
        // Items that are nothing beside the rest reach no purity by weighing nothing.
        let mut faint = items(&[(0.1, 1.0)]);
        faint.push(Item {
            log_weight: -1e4,
            log_posterior: 0.3_f64.ln(),
            predicted: 0.3,
        });
        assert_eq!(log_floor_for(&faint, 0.5), None);
    }

    proptest! {
        /// Twin: try every floor there is.
        #[test]
        fn brute_force_finds_the_same_floor(
            pairs in prop::collection::vec((1u8..12, 0u8..5), 1..20), purity in 0.02..0.99f64,
        ) {
            let pairs: Vec<(f64, f64)> =
                pairs.iter().map(|&(p, w)| (f64::from(p) / 12.0, f64::from(w))).collect();
            let all = items(&pairs);
            let mut floors: Vec<f64> = all.iter().map(|i| i.log_posterior).collect();
            floors.push(f64::NEG_INFINITY);
            floors.sort_by(f64::total_cmp);
            let reaches = |floor: f64| kept(&all, floor).is_some_and(|k| k.predicted_purity >= purity);
            let slow = floors.iter().copied().find(|&floor| reaches(floor));
            let found = log_floor_for(&all, purity);
            // Floors between which no item with weight lies are the same floor.
            let left = |floor: Option<f64>| floor.and_then(|f| kept(&all, f));
            prop_assert_eq!(left(found), left(slow));
        }
    }
}
