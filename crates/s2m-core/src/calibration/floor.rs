//! The floor on the posterior of a joint class.
//!
//! The least floor at which the class has the wanted predicted purity, raised where more costs little. Where that leaves too few
//! items, a lower one, which minimises
//!
//! ```text
//! (1 − predicted purity)² / effective share
//! ```
//!
//! so that four times the calls are paid where they halve what is wrong, and not otherwise. Without this, posteriors that are
//! all too unsure for the purity would leave the few items of which they are least unsure.

use super::purity;

/// What a floor is chosen by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wish {
    /// Predicted purity, at least.
    pub purity: f64,
    /// Largest floor.
    pub highest: f64,
    /// Share of the effective items that a floor leaves, unless it is one half already.
    pub least_kept: f64,
}

/// Floors are not lowered under this: an item that is more likely something else is no sample.
const LEAST_LOWERED: u32 = 50;

/// A floor that is as pure as wanted is raised while this share of the effective items stays: where posteriors
/// are near 0 or 1, higher floors cost next to nothing.
const CHEAP: f64 = 0.95;

/// The floor that the purity asks for: in hundredths lowered to what leaves enough effective items and pays, but not under
/// one half, or raised as long as that is cheap.
pub fn floor_for(items: &[purity::Item], wish: Wish) -> f64 {
    let kept = |floor: f64| purity::kept(items, floor.ln());
    let share = |floor: f64| kept(floor).map_or(0.0, |kept| kept.effective_share);
    let least = wish.least_kept * share(0.0);
    let wanted = purity::log_floor_for(items, wish.purity).map_or(1.0, f64::exp);
    let wanted = wanted.min(wish.highest);
    let hundredths = |from: u32, to: f64| (from..=(to * 100.0) as u32).rev();
    if share(wanted) >= least {
        let cheap = least.max(CHEAP * share(wanted));
        let raised = hundredths(0, wish.highest).map(|n| f64::from(n) / 100.0);
        let mut raised = raised.take_while(|&floor| floor > wanted);
        return raised
            .find(|&floor| share(floor) >= cheap)
            .unwrap_or(wanted);
    }
    let lowest = f64::from(LEAST_LOWERED) / 100.0;
    let price = |n: u32| {
        let floor = f64::from(n) / 100.0;
        let kept = kept(floor).filter(|kept| kept.effective_share >= least)?;
        let price = (1.0 - kept.predicted_purity).powi(2) / kept.effective_share;
        Some((price, floor))
    };
    let lowered = hundredths(LEAST_LOWERED, wanted).filter_map(price);
    let cheapest = lowered.min_by(|a, b| a.0.total_cmp(&b.0));
    cheapest.map_or(lowest.min(wanted), |(_, floor)| floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(weight: f64, posterior: f64) -> purity::Item {
        purity::Item {
            log_weight: weight.ln(),
            log_posterior: posterior.ln(),
            predicted: posterior,
        }
    }

    #[test]
    fn a_floor_is_what_purity_asks_for_unless_it_costs_too_much() {
        let wish = Wish {
            purity: 0.9,
            least_kept: 0.5,
            highest: 0.95,
        };
        // Without the third item the mean posterior is 0.95.
        let items = [item(1.0, 0.9), item(1.0, 1.0), item(1.0, 0.2)];
        assert!((floor_for(&items, wish) - 0.9).abs() < 1e-9);
        // One item in 21 lies below 0.95, so that the higher floor is cheap; two would be too many.
        let wish = Wish {
            highest: 0.95,
            ..wish
        };
        let sure = |posterior| item(1.0, posterior);
        let mut items = vec![sure(0.99); 20];
        items.extend([sure(0.6), sure(0.1), sure(0.1)]);
        assert!((floor_for(&items, wish) - 0.95).abs() < 1e-9);
        items.push(sure(0.61));
        let floor = floor_for(&items, wish);
        assert!(floor > 0.6 && floor <= 0.61, "{floor}");
        // Only one in four items reaches the purity; keeping half of them asks for a lower floor.
        let items = [
            item(1.0, 0.95),
            item(1.0, 0.6),
            item(1.0, 0.5),
            item(1.0, 0.5),
        ];
        let floor = floor_for(&items, wish);
        assert!(floor > 0.5 && floor <= 0.6, "{floor}");
        // All items are as unsure as items of the class can be, but for one: a floor above 0.85 makes little right and costs ten
        // times the calls.
        let mut items = vec![item(1.0, 0.85); 9];
        items.extend([item(1.0, 0.89), item(1.0, 0.6)]);
        let floor = floor_for(
            &items,
            Wish {
                least_kept: 0.05,
                ..wish
            },
        );
        assert!(floor > 0.6 && floor <= 0.85, "{floor}");
        // Nothing here is more likely right than wrong: half of the items would ask for 0.3.
        let items = [
            item(1.0, 0.4),
            item(1.0, 0.3),
            item(1.0, 0.2),
            item(1.0, 0.1),
        ];
        assert_eq!(floor_for(&items, wish), 0.5);
        assert_eq!(floor_for(&[item(1.0, 0.93)], wish), 0.93);
    }
}
