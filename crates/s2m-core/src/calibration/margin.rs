//! The exclusion margin, with its exact order statistic.
//!
//! An item gets weight for a query at margin `g` only where `g` exceeds its critical ratio `s`: for
//! "all of I, none of J" `s = max_J f / min_I f`, for any boolean query the smallest
//! `f_(b+1) / f_(a)` over the runs a..b of levels on which the query holds. From m held-out items
//! observed with a label that the query excludes,
//!
//! ```text
//! g = the k-th smallest s, at most 1,   k = ⌊δ (m + 1)⌋
//! ```
//!
//! Guarantee: a *new real item observed with an excluded label* gets weight with probability at most
//! δ, over the draw of the held-out items and the new one. It says nothing about generated items,
//! about items that carry the label unobserved, or about the share of wrong items in the output.
//!
//! Reference: the rank argument of split conformal prediction; Vovk et al., "Algorithmic Learning in
//! a Random World", 2005.

use crate::density::{Labelling, Levels};
use crate::error::Error;
use crate::logits::LogitError;
use crate::query::Query;

/// A margin below 1 is lowered by this share, so that rounding in the levels cannot give weight to
/// an item whose ratio is the margin itself.
const HAIR: f64 = 1e-9;

/// Products of δ and a count this close (relatively) below a whole number are that number: δ is
/// typed in decimals, and 0.01 · 100 must be 1.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// A margin and where it came from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// The margin `g`, in `(0, 1]`.
    pub value: f64,
    /// It is the `rank`-th smallest ratio.
    pub rank: usize,
    /// Number of held-out items.
    pub items: usize,
}

/// The margin at which a new item of this kind gets weight with probability at most `delta`.
///
/// `log_ratios` are the items' critical ratios as [`log_critical_margin`] gives them.
pub fn exclusion_margin(log_ratios: &[f64], delta: f64) -> Result<Margin, Error> {
    if !(delta > 0.0 && delta < 1.0) {
        return Err(Error::value(format!(
            "the exclusion error is {delta}; it must lie strictly between 0 and 1"
        )));
    }
    if let Some(item) = log_ratios.iter().position(|s| s.is_nan()) {
        return Err(Error::value(format!(
            "the ratio of held-out item {item} is not a number"
        )));
    }
    let items = log_ratios.len();
    let rank = rank(delta, items);
    if rank == 0 {
        let needed = needed(delta);
        return Err(Error::too_few(format!(
            "an exclusion error of {delta} needs at least {needed} held-out items observed with an excluded label, got {items}"
        )));
    }
    let mut sorted = log_ratios.to_vec();
    let (_, log_ratio, _) = sorted.select_nth_unstable_by(rank - 1, f64::total_cmp);
    let margin = if *log_ratio >= 0.0 {
        1.0
    } else {
        log_ratio.exp() * (1.0 - HAIR)
    };
    if margin < f64::MIN_POSITIVE {
        let unreachable = |s: &&f64| s.exp() * (1.0 - HAIR) < f64::MIN_POSITIVE;
        let always = log_ratios.iter().filter(unreachable).count();
        return Err(Error::unreachable(format!(
            "no margin keeps the exclusion error at {delta}: {always} of {items} held-out items get weight at every margin"
        )));
    }
    Ok(Margin {
        value: margin,
        rank,
        items,
    })
}

/// Exclusion errors from here on promise nothing worth having.
const LOOSEST: f64 = 0.5;

/// The exclusion error by which a margin is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loosened {
    /// This one leaves enough generated items, or none does better.
    Enough(f64),
    /// Even this one leaves too few.
    TooDear(f64),
}

/// The error that was asked for, doubled until the margin by these items leaves `least_kept` of the effective share of
/// generated items without one; `share` gives that share at a margin.
pub fn loosened<E>(
    log_ratios: &[f64],
    asked: f64,
    least_kept: f64,
    share: impl Fn(f64) -> Result<f64, E>,
) -> Result<Loosened, E> {
    let mut error = asked;
    let alone = share(1.0)?;
    while let Ok(found) = exclusion_margin(log_ratios, error) {
        if share(found.value)? >= least_kept * alone {
            break;
        }
        error *= 2.0;
        if error >= LOOSEST {
            return Ok(Loosened::TooDear(error / 2.0));
        }
    }
    Ok(Loosened::Enough(error))
}

/// `⌊δ(m+1)⌋`, at most m.
fn rank(delta: f64, items: usize) -> usize {
    let product = delta * (items as f64 + 1.0);
    ((product * (1.0 + ROUNDING)).floor() as usize).min(items)
}

/// The fewest items for which the rank is not zero.
fn needed(delta: f64) -> usize {
    let about = ((1.0 / delta) * (1.0 - ROUNDING)).ceil() as usize;
    let first = about.saturating_sub(2).max(1);
    (first..=about)
        .find(|&items| rank(delta, items) > 0)
        .unwrap_or(about)
}

/// Log of the largest margin, at most 1, at which an item gets no weight for a query.
///
/// `-∞` where it gets weight at every margin. For "all of I, none of J" this is
/// `log min(1, max_J f / min_I f)`.
pub fn log_critical_margin(levels: &Levels<'_>, query: &Query) -> f64 {
    let mut log_critical = 0.0_f64;
    let mut log_top = None;
    // Levels without width carry no item: they neither belong to a run nor end one.
    for (set, log_density) in levels.sets() {
        if log_density == f64::NEG_INFINITY {
            continue;
        }
        if !query.holds(set) {
            log_top = None;
            continue;
        }
        let level = |label: usize| levels.log_level(label);
        let top =
            *log_top.get_or_insert_with(|| set.iter().map(level).fold(f64::INFINITY, f64::min));
        let below = (0..query.label_count())
            .filter(|&label| !set.contains(label))
            .map(level)
            .fold(f64::NEG_INFINITY, f64::max);
        // The last set of a run decides: what lies below only falls along it.
        log_critical = log_critical.min(below - top);
    }
    log_critical
}

/// [`log_critical_margin`] of an item with these logits of `D_r`, divided by `temperature`.
pub fn log_critical_margin_of(
    class_logits: &[f32],
    temperature: f64,
    labelling: &Labelling,
    query: &Query,
) -> Result<f64, LogitError> {
    if let Some(&value) = class_logits.iter().find(|l| !l.is_finite()) {
        let output = "class head";
        return Err(LogitError { output, value });
    }
    // The normaliser of D_r cancels in a ratio of levels.
    let log_class = class_logits.iter().map(|&l| f64::from(l) / temperature);
    Ok(log_critical_margin(
        &Levels::new(labelling, log_class),
        query,
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::labels::{LabelSet, Labels};
    use crate::weight::{Calibration, Evidence, Weighting};

    fn labels(n: usize) -> Labels {
        Labels::new((0..n).map(|i| format!("L{i}"))).unwrap()
    }

    fn logs(ratios: &[f64]) -> Vec<f64> {
        ratios.iter().map(|s| s.ln()).collect()
    }

    #[test]
    fn ranks_of_round_errors_are_whole() {
        // δ(m+1) is exactly whole here, and not in binary.
        for (delta, items, wanted) in [
            (0.01, 99, 1),
            (0.01, 98, 0),
            (0.01, 199, 2),
            (0.29, 99, 29),
            (0.07, 99, 7),
            (0.57, 99, 57),
            (0.001, 2999, 3),
            (0.005, 199, 1),
            (0.1, 29, 3),
            (0.1, 28, 2),
            (0.999_999_999_999_999_9, 10, 10),
        ] {
            assert_eq!(rank(delta, items), wanted, "δ {delta}, m {items}");
        }
        // Every δ of the form a/b at every m, against whole numbers.
        for b in [10_usize, 100, 1000] {
            for a in 1..b {
                let delta = format!("{}", a as f64 / b as f64).parse().unwrap();
                for items in [1, 9, 49, 99, 100, 999, 1000, 12_345] {
                    assert_eq!(rank(delta, items), a * (items + 1) / b, "{a}/{b}, {items}");
                }
                assert_eq!(needed(delta), b.div_ceil(a) - 1, "{a}/{b}");
            }
        }
    }

    #[test]
    fn the_margin_is_the_order_statistic() {
        let ratios = logs(&[0.9, 0.2, 3.0, 0.5, 0.4, 0.05, 7.0, 0.3, 0.6]);
        let margin = |delta| exclusion_margin(&ratios, delta).unwrap();
        assert!((margin(0.1).value - 0.05).abs() < 1e-9);
        assert_eq!((margin(0.1).rank, margin(0.1).items), (1, 9));
        assert!((margin(0.3).value - 0.3).abs() < 1e-9);
        assert!((margin(0.39).value - 0.3).abs() < 1e-9);
        // The eighth smallest is 3: no margin is needed.
        assert_eq!(margin(0.8).value, 1.0);
    }

    #[test]
    fn what_cannot_be_is_named() {
        let error =
            |ratios: &[f64], delta| exclusion_margin(ratios, delta).unwrap_err().to_string();
        assert_eq!(
            error(&[-1.0; 98], 0.01),
            "an exclusion error of 0.01 needs at least 99 held-out items observed with an excluded label, got 98"
        );
        assert!(exclusion_margin(&[-1.0; 99], 0.01).is_ok());
        assert_eq!(
            error(&[], 1.0),
            "the exclusion error is 1; it must lie strictly between 0 and 1"
        );
        assert_eq!(
            error(&[0.0, f64::NAN], 0.5),
            "the ratio of held-out item 1 is not a number"
        );
        let always = [f64::NEG_INFINITY, f64::NEG_INFINITY, -1.0, 0.0];
        assert_eq!(
            error(&always, 0.4),
            "no margin keeps the exclusion error at 0.4: 2 of 4 held-out items get weight at every margin"
        );
        assert!(exclusion_margin(&always, 0.6).is_ok());
    }

    /// Whatever m + 1 values come, and with ties: leaving each out in turn, the one left out gets
    /// weight at most k times.
    #[test]
    fn the_guarantee_holds_on_every_small_sample() {
        let values = logs(&[0.1, 0.4, 0.7, 1.0]);
        for items in 1..=5_u32 {
            for delta in [0.2, 0.25, 0.34, 0.5, 0.67, 0.9] {
                if rank(delta, items as usize) == 0 {
                    continue;
                }
                for code in 0..4_usize.pow(items + 1) {
                    let all: Vec<f64> = (0..=items)
                        .map(|i| values[code / 4_usize.pow(i) % 4])
                        .collect();
                    let bad = (0..all.len()).filter(|&new| {
                        let mut held_out = all.clone();
                        let ratio = held_out.remove(new);
                        ratio < exclusion_margin(&held_out, delta).unwrap().value.ln()
                    });
                    assert!(
                        bad.count() as f64 <= delta * all.len() as f64 + 1e-9,
                        "{all:?}"
                    );
                }
            }
        }
        // Without ties the probability is k / (m + 1) exactly.
        let all = logs(&[0.9, 0.1, 0.5, 0.3, 0.7]);
        let bad = (0..5).filter(|&new| {
            let mut held_out = all.clone();
            let ratio = held_out.remove(new);
            ratio < exclusion_margin(&held_out, 0.4).unwrap().value.ln()
        });
        assert_eq!(bad.count(), 2);
    }

    #[test]
    fn a_plain_query_has_the_ratio_of_its_levels() {
        let labelling = Labelling::one_of(&[1.0, 2.0, 0.5]).unwrap();
        let query = Query::parse("L0 - L1 - L2", &labels(3)).unwrap();
        // f = (e^(3/2), e^(1/2)/2, 2e^(-1)): the largest excluded level is the second.
        let found = log_critical_margin_of(&[3.0, 1.0, -2.0], 2.0, &labelling, &query).unwrap();
        assert!((found - (-1.0 - 2.0_f64.ln())).abs() < 1e-12, "{found}");
        // The excluded level is the highest: no weight at any margin.
        let found = log_critical_margin_of(&[0.0, 1.0, 0.0], 1.0, &labelling, &query).unwrap();
        assert_eq!(found, 0.0);
        let present = Query::parse("L0", &labels(3)).unwrap();
        let found = log_critical_margin_of(&[0.0; 3], 1.0, &labelling, &present).unwrap();
        assert_eq!(found, f64::NEG_INFINITY);
        let error = log_critical_margin_of(&[0.0, f32::NAN, 0.0], 1.0, &labelling, &query);
        assert_eq!(
            error.unwrap_err().to_string(),
            "a logit of the class head is NaN"
        );
    }

    /// Items that all have the margin's own ratio get no weight from it, whatever was rounded.
    #[test]
    fn ties_at_the_margin_get_no_weight() {
        let query = Query::parse("L0 + L2 - L1", &labels(3)).unwrap();
        let labelling = Labelling::one_of(&[0.3, 1.7, 0.9]).unwrap();
        for i in 0..200_u16 {
            let wobble = f32::from(i * 37 % 101) / 7.0;
            let logits = [9.0 + wobble, 1.0 - wobble, 11.0 + 3.0 * wobble];
            let class = crate::weight::Temperature::Same(0.7);
            let ratio = log_critical_margin_of(&logits, 0.7, &labelling, &query).unwrap();
            let margin = exclusion_margin(&[ratio; 9], 0.1).unwrap().value;
            let calibration = Calibration {
                class,
                margin,
                ..Calibration::default()
            };
            let weighting =
                Weighting::calibrated(query.clone(), labelling.clone(), &calibration).unwrap();
            let evidence = Evidence {
                class_logits: &logits,
                real_logit: 0.0,
                fake_class_logits: None,
                joint: None,
                log_latent_ratio: 0.0,
            };
            assert_eq!(
                weighting.log_weight(evidence).unwrap(),
                f64::NEG_INFINITY,
                "{logits:?}"
            );
        }
    }

    /// Any boolean query over four labels that does not hold on the empty set.
    fn some_query() -> impl Strategy<Value = Query> {
        any::<u16>().prop_filter_map("must hold somewhere, not on the empty set", |table| {
            let labels = labels(4);
            let joint = |bits| Query::joint(LabelSet::from_bits(bits), &labels).unwrap();
            let terms: Vec<String> = (1..16u64)
                .filter(|bits| table >> bits & 1 == 1)
                .map(|bits| joint(bits).text().to_owned())
                .collect();
            Query::parse(&terms.join(" | "), &labels).ok()
        })
    }

    proptest! {
        /// Twin: the density itself, just below and just above the critical margin. Whole logits,
        /// so that levels tie.
        #[test]
        fn weight_begins_at_the_critical_margin(
            logits in prop::collection::vec(-3i8..4, 4), query in some_query(), corrected: bool,
        ) {
            let labelling = Labelling::one_of(&[1.0; 4]).unwrap();
            let labelling = if corrected { labelling } else { labelling.uncorrected() };
            let levels = Levels::new(&labelling, logits.iter().map(|&l| f64::from(l)));
            let has_weight = |log_margin: f64| levels.log_density(&query, log_margin) > f64::NEG_INFINITY;
            let found = log_critical_margin(&levels, &query);
            if found == f64::NEG_INFINITY {
                prop_assert!(has_weight(-700.0));
            } else {
                prop_assert!(!has_weight(found - 1e-9));
                prop_assert!(found == 0.0 || has_weight(found + 1e-9));
            }
            prop_assert!(found <= 0.0);
        }
    }

    #[test]
    fn an_error_is_doubled_until_enough_is_left() {
        // Margins by 99 ratios of 0.01 to 0.99: an error of δ takes the 100·δ-th of them.
        let ratios: Vec<f64> = (1..100).map(|n| (f64::from(n) / 100.0).ln()).collect();
        let least = |least_kept| {
            let share = |margin: f64| Ok::<f64, ()>(margin);
            loosened(&ratios, 0.03, least_kept, share).unwrap()
        };
        assert_eq!(least(0.02), Loosened::Enough(0.03));
        assert_eq!(least(0.1), Loosened::Enough(0.12));
        assert_eq!(least(0.49), Loosened::TooDear(0.48));
        // Too few items for a margin: the error stays, and who asks for the margin is told.
        let share = |_| Ok::<f64, ()>(0.0);
        assert_eq!(
            loosened(&ratios[..3], 0.03, 0.5, share),
            Ok(Loosened::Enough(0.03))
        );
        assert_eq!(loosened(&ratios, 0.03, 0.5, |_| Err::<f64, u8>(7)), Err(7));
    }
}
