//! Kernel distance, precision, recall, density and coverage in one pass over all pairs.
//!
//! Both rest on the same inner products, and the products are nearly all of the work.

use std::num::NonZeroUsize;

use crate::bootstrap::Estimate;
use crate::error::Error;
use crate::features::Features;
use crate::kid::{self, KernelSums, add_across, add_within, kernel_sums};
use crate::neighbours::{Bounds, shortlist_within};
use crate::pairs::{Side, across, within};
use crate::prdc::{self, Balls, Prdc, who_is_held};

/// What all pairs of two sides tell.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// As [`kid::kid`] gives it.
    pub kid: Estimate,
    /// As [`prdc::prdc`] gives it.
    pub prdc: Prdc,
}

/// Compares `generated` with `real` by KID and by balls of `k` neighbours.
pub fn compare(
    real: Features<'_>,
    generated: Features<'_>,
    k: NonZeroUsize,
) -> Result<Comparison, Error> {
    kid::check(real, generated)?;
    prdc::check(real, generated, k)?;
    let [real, generated] = Side::together([real, generated]);
    let of_side = |side: &Side<'_>| {
        let bounds = Bounds::unknown(side.items());
        let visited = within(side, |block| {
            (
                kernel_sums(block),
                shortlist_within(block, k.get(), &bounds),
            )
        });
        let (sums, lists): (Vec<_>, Vec<_>) = visited.into_iter().unzip();
        (add_within(side, &sums), Balls::new(side, k, lists))
    };
    let (real_sums, real_balls) = of_side(&real);
    let (generated_sums, generated_balls) = of_side(&generated);
    let balls = [real_balls, generated_balls];
    let visited = across(&real, &generated, |block| {
        (kernel_sums(block), who_is_held(block, &balls))
    });
    let (sums, held): (Vec<_>, Vec<_>) = visited.into_iter().unzip();
    let sums = KernelSums {
        real: real_sums,
        generated: generated_sums,
        across: add_across(&real, &generated, &sums),
    };
    Ok(Comparison {
        kid: sums.estimate(),
        prdc: prdc::gather(k, &balls, &held),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{features, two_sides};
    use crate::prdc::DEFAULT_K;

    #[test]
    fn one_pass_gives_every_bit_of_both() {
        let [real, generated] = two_sides();
        // The same items several times over, so that there are several blocks.
        for times in [1, 15] {
            let (real, generated) = (real.repeat(times), generated.repeat(times));
            let (real, generated) = (features(&real, 8), features(&generated, 8));
            let found = compare(real, generated, DEFAULT_K).unwrap();
            assert_eq!(found.kid, kid::kid(real, generated).unwrap());
            assert_eq!(found.prdc, prdc::prdc(real, generated, DEFAULT_K).unwrap());
        }
    }
}
