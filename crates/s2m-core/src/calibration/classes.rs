//! Where the odds of `D_v` are capped so that every joint class keeps enough of its items.
//!
//! Likeness to real items says how high odds may be over all ([`super::cap`]). A joint class can suffer all the same: a few of
//! its items may hold all its weight. The cap is lowered, step by step, until each class that is likely somewhere keeps the
//! share of its effective items that is asked for, and no heavy tail decides what it looks like.

use super::odds::{self, Generated, OddsUse};
use crate::diagnostics::summarise;
use crate::tail::tail_index;

/// A joint class with fewer supported items than this says nothing about temperatures and floors.
pub const REACHABLE: usize = 100;

/// Heaviest tail of weights, as a Pareto index; samplers state no error beyond it.
const HEAVIEST_TAIL: f64 = 0.4;

/// Share of the effective sample size without D_v from which on its tail is not looked at: then the
/// heaviest items cannot hold much, and a lower cap would only take D_v's say away.
const HARMLESS: f64 = 0.5;

/// Each try of a lower cap is the one before divided by this.
const STEP: f64 = 1.05;

/// A joint class with enough supported items, and its generated items.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Log densities without `D_v`, `-∞` outside its support.
    pub log_density: Vec<f64>,
    /// Corrected logits of `D_v`.
    pub log_odds: Vec<f32>,
    /// Whether enough items are more likely of this class than not; it may be one that the data lacks otherwise.
    pub likely: bool,
}

/// Whether a class has enough supported items to say anything.
pub fn is_reachable(log_density: &[f64]) -> bool {
    log_density.iter().filter(|d| d.is_finite()).count() >= REACHABLE
}

/// Effective shares of the generated items of one class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// Without `D_v`.
    pub without_real: f64,
    /// By its odds without a cap.
    pub uncapped: f64,
    /// As its odds are used.
    pub used: f64,
}

impl Class {
    fn items(&self) -> Generated<'_> {
        Generated {
            log_density: &self.log_density,
            real_logits: &self.log_odds,
        }
    }

    /// Effective shares under some odds.
    pub fn shares(&self, odds: OddsUse) -> Shares {
        let at = |odds| odds::effective_share(self.items(), odds);
        Shares {
            without_real: at(odds.silent()),
            uncapped: at(OddsUse {
                cap: f64::INFINITY,
                ..odds
            }),
            used: at(odds),
        }
    }

    /// Whether it keeps this share of its effective items, and no heavy tail decides.
    fn keeps_enough(&self, odds: OddsUse, least: f64) -> bool {
        let items = self.items();
        let alone = odds::effective_share(items, odds.silent());
        let log_weights = odds::log_weights(items, odds);
        let share = summarise(&log_weights).weight_ess;
        let heavy = || tail_index(&log_weights).is_some_and(|index| index > HEAVIEST_TAIL);
        share >= least * alone && (share >= HARMLESS * alone || !heavy())
    }
}

/// The cap, lowered from that of `odds` until every class that is likely somewhere keeps enough of its items.
pub fn lowered_cap(classes: &[Class], odds: OddsUse, least: f64) -> f64 {
    let all = classes.iter().flat_map(|class| &class.log_odds);
    let largest = all.map(|v| odds.log_weight(f64::from(*v)));
    let largest = largest.fold(f64::NEG_INFINITY, f64::max).exp();
    let mut cap = odds.cap;
    // A class that was content may no longer be: round after round until none asks for more.
    loop {
        let before = cap;
        for class in classes.iter().filter(|class| class.likely) {
            while !class.keeps_enough(OddsUse { cap, ..odds }, least) && cap * odds.clip > 1.0 {
                cap = cap.min(largest) / STEP;
            }
        }
        if cap == before {
            return cap;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items of equal density, one in four of which has odds of 8 and the others of 1.
    fn class(likely: bool) -> Class {
        let odds = |at: usize| if at.is_multiple_of(4) { 8.0_f32 } else { 1.0 };
        Class {
            log_density: vec![0.0; 400],
            log_odds: (0..400).map(|at| odds(at).ln()).collect(),
            likely,
        }
    }

    const ODDS: OddsUse = OddsUse {
        temperature: 1.0,
        clip: 100.0,
        cap: f64::INFINITY,
    };

    /// With odds capped at c the share is ((c + 3)/4)² / ((c² + 3)/4).
    fn share(cap: f64) -> f64 {
        ((cap + 3.0) / 4.0).powi(2) / ((cap * cap + 3.0) / 4.0)
    }

    #[test]
    fn a_cap_is_lowered_to_what_a_class_asks_for() {
        let shares = class(true).shares(OddsUse { cap: 2.0, ..ODDS });
        assert!((shares.without_real - 1.0).abs() < 1e-6);
        assert!((shares.uncapped - share(8.0)).abs() < 1e-6, "{shares:?}");
        assert!((shares.used - share(2.0)).abs() < 1e-6, "{shares:?}");
        let cap = lowered_cap(&[class(true)], ODDS, 0.8);
        assert!(share(cap) >= 0.8 && share(cap * STEP) < 0.8, "{cap}");
        // What is content keeps its odds, and so does what is nowhere likely.
        assert_eq!(
            lowered_cap(&[class(true)], ODDS, share(8.0) - 0.01),
            f64::INFINITY
        );
        assert_eq!(lowered_cap(&[class(false)], ODDS, 0.8), f64::INFINITY);
    }

    #[test]
    fn a_class_is_reachable_with_enough_supported_items() {
        let mut density = vec![f64::NEG_INFINITY; 1000];
        density[..REACHABLE - 1].fill(0.0);
        assert!(!is_reachable(&density));
        density[REACHABLE] = 0.0;
        assert!(is_reachable(&density));
    }
}
