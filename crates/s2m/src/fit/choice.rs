//! Which of the ways to fit the real output is kept.
//!
//! Among the ways whose corrected odds are reliable on held-out items, the one that leaves the largest
//! effective share of generated items, before any tempering; the simplest of those that leave as much.
//! Odds that separate real from generated items well are worth nothing here: they leave a handful of
//! items with all the weight, and tempering then takes away what they said.

use crate::calibrate::RELIABLE;
use crate::calibrate::found::WayFound;

/// Effective shares that differ by no more than this, relatively, are the same.
const SAME: f64 = 0.01;

/// The place of the way to keep, and why; the simplest way comes first, and there is one at least.
pub(super) fn choose(ways: &[WayFound]) -> (usize, &'static str) {
    let reliable = |way: &WayFound| way.reliability_error <= RELIABLE;
    let shares = ways.iter().filter(|way| reliable(way));
    let largest = shares.map(|way| way.effective_share).reduce(f64::max);
    if let Some(largest) = largest {
        let enough =
            |way: &WayFound| reliable(way) && way.effective_share >= (1.0 - SAME) * largest;
        let at = ways.iter().position(enough).unwrap_or(0);
        return (at, "leaves the most effective items among reliable ways");
    }
    let errors = ways.iter().map(|way| way.reliability_error).enumerate();
    let least = errors.min_by(|a, b| a.1.total_cmp(&b.1));
    (
        least.map_or(0, |(at, _)| at),
        "is the most reliable way, and none is reliable enough",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_effective_share_among_reliable_ways_is_kept() {
        let kept = |ways: [[f64; 2]; 3]| {
            let found = |[effective_share, reliability_error]: [f64; 2]| WayFound {
                effective_share,
                reliability_error,
            };
            choose(&ways.map(found)).0
        };
        // Effective share and reliability error of shared, frozen and smoothed, and which is kept.
        let table = [
            ([[0.01, 0.01], [0.40, 0.04], [0.02, 0.00]], 1),
            // The largest share is not reliable.
            ([[0.01, 0.01], [0.40, 0.11], [0.02, 0.00]], 2),
            // At the limit is within it.
            ([[0.01, 0.01], [0.40, 0.10], [0.02, 0.00]], 1),
            // Within one in a hundred of the largest: the simpler one.
            ([[0.397, 0.05], [0.398, 0.00], [0.40, 0.00]], 0),
            ([[0.395, 0.05], [0.397, 0.09], [0.40, 0.00]], 1),
            ([[0.395, 0.05], [0.395, 0.00], [0.40, 0.00]], 2),
            // One that is not reliable takes no part, in a tie neither.
            ([[0.40, 0.20], [0.397, 0.09], [0.40, 0.00]], 1),
            ([[0.90, 0.20], [0.30, 0.09], [0.10, 0.00]], 1),
            // None is reliable: the most reliable one, whatever it leaves; the simpler of two.
            ([[0.90, 0.40], [0.50, 0.30], [0.01, 0.20]], 2),
            ([[0.10, 0.20], [0.50, 0.20], [0.01, 0.30]], 0),
        ];
        for (ways, wanted) in table {
            assert_eq!(kept(ways), wanted, "{ways:?}");
        }
        let alone = WayFound {
            effective_share: 0.0,
            reliability_error: 1.0,
        };
        assert_eq!(choose(&[alone]).0, 0);
    }
}
