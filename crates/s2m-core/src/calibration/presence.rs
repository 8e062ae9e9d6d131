//! Whether the data holds a joint class at all, from held-out items that show one label each.
//!
//! Posteriors can be sure of a combination that no item has, since every label alone is common. So it is
//! counted how many of N held-out items have a posterior of the class of at least a floor: n. Some of them
//! are errors, and how many is estimated in three ways, of which the largest counts:
//!
//! ```text
//! by posteriors   Σ (1 − P(Q|x)) over the n items
//! by labels       Σ A(S ∪ {c}) / a_c over those that show a label c outside the class's set S
//! by the tail     what lies above the floor where counts fall on as they do from [0.1, 0.3) to [0.3, 0.5)
//! ```
//!
//! An item that has one label c too many shows it with probability `a_c / A(S ∪ {c})`, so each one that
//! shows it stands for the inverse of that many that have it. Labels do not see an item that might be {A}
//! or {B} and is taken for {A, B}. Of such items there are the fewer the higher the posterior, by about the
//! same factor q from one fifth to the next, while items of a class that is there have high posteriors:
//! with b items in [0.3, 0.5), the tail above a floor τ has `b q/(1 − q) · q^((τ − 0.5)/0.2)`. Errors explain
//! what is estimated and two standard errors more, counts being Poisson; a tail explains at most [`ENOUGH`].
//! What is left decides: [`Verdict`].

use crate::query::Query;

/// Items beyond errors from which on a class is in the data for sure: fewer are too few to hold anything
/// that is said about the class against.
pub const ENOUGH: f64 = 20.0;

/// The floor that verdicts go by where a class has none of its own: more likely right than wrong.
pub const REFERENCE_FLOOR: f64 = 0.5;

/// Floors at which items are counted for the report.
pub const FLOORS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];

/// Standard errors of the number of errors that they may explain beyond it.
const BEYOND: f64 = 2.0;

/// One held-out item as a class sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Item {
    /// The posterior of the class.
    pub posterior: f64,
    /// How many items it stands for that have a label which the class excludes: `A(S ∪ {c}) / a_c` of the
    /// label c that it shows, the largest where it shows several; zero where it shows none of them.
    pub stands_for: f64,
}

/// What held-out items say about one class at one floor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counted {
    /// Items of the class or not: N.
    pub items: usize,
    /// Those at or above the floor.
    pub reached: usize,
    /// How many of these errors explain.
    pub explained: f64,
}

/// Whether the data holds a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// No item reaches the floor, or no more than errors explain: the data may hold no such item.
    Absent,
    /// Some do, and too few to be sure.
    Undecided,
    /// At least [`ENOUGH`] beyond errors.
    Present,
}

impl Verdict {
    /// Its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Undecided => "undecided",
            Self::Present => "present",
        }
    }
}

/// How many items reach a floor.
pub fn reached(items: &[Item], floor: f64) -> usize {
    items.iter().filter(|item| item.posterior >= floor).count()
}

/// Counts of errors fall at least this fast from one fifth of posteriors to the next. Those of a class whose
/// posteriors are soft fall more slowly, and say nothing about errors.
const SLOWEST: f64 = 0.25;

/// How many items lie at or above a floor if counts fall on as they do below one half.
fn tail(items: &[Item], floor: f64) -> f64 {
    let between = |low, high| (reached(items, low) - reached(items, high)) as f64;
    let [before, last] = [between(0.1, 0.3), between(0.3, 0.5)];
    if last == 0.0 || last > SLOWEST * before {
        return 0.0;
    }
    let ratio = last / before;
    last * ratio / (1.0 - ratio) * ratio.powf((floor - 0.5) / 0.2)
}

/// Counts items at a floor.
pub fn count(items: &[Item], floor: f64) -> Counted {
    let (mut wrong, mut stands_for, mut squares) = (0.0, 0.0, 0.0);
    for item in items.iter().filter(|item| item.posterior >= floor) {
        wrong += 1.0 - item.posterior;
        stands_for += item.stands_for;
        squares += item.stands_for * item.stands_for;
    }
    let with = |errors: f64, variance: f64| errors + BEYOND * variance.sqrt();
    let tail = tail(items, floor);
    let explained = [
        with(wrong, wrong),
        with(stands_for, squares),
        with(tail, tail).min(ENOUGH),
    ];
    Counted {
        items: items.len(),
        reached: reached(items, floor),
        explained: explained.into_iter().fold(0.0, f64::max),
    }
}

impl Counted {
    /// What that means.
    pub fn verdict(&self) -> Verdict {
        let left = self.reached as f64 - self.explained;
        if left <= 0.0 {
            Verdict::Absent
        } else if left < ENOUGH {
            Verdict::Undecided
        } else {
            Verdict::Present
        }
    }

    /// Upper limit on the share of items that reach the floor, right in 95 of 100 cases: 3 in N where none
    /// of N did.
    pub fn upper_limit(&self) -> f64 {
        (most_expected(self.reached) / self.items.max(1) as f64).min(1.0)
    }

    /// Counts of two classes together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            items: self.items.max(other.items),
            reached: self.reached + other.reached,
            explained: self.explained + other.explained,
        }
    }
}

/// The expectation under which a Poisson count this small or smaller has probability 1/20.
fn most_expected(count: usize) -> f64 {
    let log_chance = |mean: f64| {
        let mut log_term = -mean;
        let terms = (0..=count).map(|k| {
            if k > 0 {
                log_term += (mean / k as f64).ln();
            }
            log_term
        });
        crate::log_sum_exp(terms.collect::<Vec<_>>().into_iter())
    };
    let wanted = 0.05_f64.ln();
    // The limit is never more than this far above the count.
    let n = count as f64;
    let (mut low, mut high) = (n, n + 3.0 * (n + 1.0).sqrt() + 3.0);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if log_chance(middle) > wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The floor that a verdict on a class goes by: its own, or [`REFERENCE_FLOOR`] where it has none.
pub fn judged_at(floor: f64) -> f64 {
    if floor > 0.0 { floor } else { REFERENCE_FLOOR }
}

/// `a_c` of every label where items come once for each of theirs: its share among what was observed over its prior. Where an
/// item shows one of its labels, these are the label weights.
pub fn readiness(observed: &[f64], priors: &[f64]) -> Vec<f64> {
    let shares = observed.iter().zip(priors);
    shares.map(|(observed, prior)| observed / prior).collect()
}

/// Of every label that a class excludes `A(S ∪ {c}) / a_c`, of the others zero.
pub fn stands_for(query: &Query, readiness: &[f64]) -> Vec<f64> {
    let has = |label: &usize| query.forced(*label) == Some(true);
    let labels = 0..readiness.len();
    let of_set: f64 = labels.clone().filter(has).map(|c| readiness[c]).sum();
    let excluded = |label: usize| match query.forced(label) {
        Some(false) => (of_set + readiness[label]) / readiness[label],
        _ => 0.0,
    };
    labels.map(excluded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(posterior: f64, stands_for: f64) -> Item {
        Item {
            posterior,
            stands_for,
        }
    }

    fn verdict(items: &[Item]) -> Verdict {
        count(items, 0.5).verdict()
    }

    #[test]
    fn what_reaches_the_floor_is_held_against_errors() {
        // None at the floor; one just below it.
        let none = [item(0.499, 0.0), item(0.1, 3.0)];
        assert_eq!(verdict(&none), Verdict::Absent);
        // The floor itself is reached. Errors explain ½ + 2 √½ items, more than there are.
        assert_eq!(verdict(&[item(0.5, 0.0)]), Verdict::Absent);
        // 0.02 + 2 √0.02 = 0.30 of one item.
        assert_eq!(verdict(&[item(0.98, 0.0)]), Verdict::Undecided);
        // A hundred sure items: errors explain 2 + 2 √2.
        let sure = vec![item(0.98, 0.0); 100];
        let found = count(&sure, 0.5);
        assert!((found.explained - (2.0 + 2.0 * 2.0_f64.sqrt())).abs() < 1e-9);
        assert_eq!((found.reached, found.verdict()), (100, Verdict::Present));
    }

    /// Thirty items that all have a third label, which ten of them show: three each, and nothing is left.
    #[test]
    fn items_that_show_an_excluded_label_stand_for_those_that_hide_it() {
        let mut items = vec![item(0.97, 3.0); 10];
        items.extend(vec![item(0.97, 0.0); 20]);
        let found = count(&items, 0.5);
        assert!((found.explained - (30.0 + 2.0 * 90.0_f64.sqrt())).abs() < 1e-9);
        assert_eq!(found.verdict(), Verdict::Absent);
        // One in sixty: six are explained beside three, and 51 are left.
        let mut items = vec![item(1.0, 0.0); 59];
        items.push(item(1.0, 3.0));
        let found = count(&items, 0.5);
        assert_eq!(found.explained, 9.0);
        assert_eq!(found.verdict(), Verdict::Present);
    }

    /// 64 items, then 16, then 4 from fifth to fifth: 16/3 are to be expected above one half, and a quarter
    /// of that for every fifth more.
    #[test]
    fn a_tail_of_unsure_items_explains_some_that_are_sure() {
        let mut items = vec![item(0.2, 0.0); 64];
        items.extend(vec![item(0.4, 0.0); 16]);
        assert!((tail(&items, 0.5) - 16.0 / 3.0).abs() < 1e-12);
        assert!((tail(&items, 0.7) - 4.0 / 3.0).abs() < 1e-12);
        assert!((tail(&items, 0.3) - 64.0 / 3.0).abs() < 1e-12);
        let with = |sure: usize| [items.as_slice(), &vec![item(0.99, 0.0); sure]].concat();
        // Errors explain 16/3 + 2 √(16/3) = 9.95.
        assert_eq!(verdict(&with(9)), Verdict::Absent);
        assert_eq!(verdict(&with(10)), Verdict::Undecided);
        assert_eq!(verdict(&with(30)), Verdict::Present);
        // A long tail does not explain everything.
        let long = [vec![item(0.2, 0.0); 6400], vec![item(0.4, 0.0); 1600]].concat();
        let with_long = [long, vec![item(0.99, 0.0); 21]].concat();
        assert_eq!(count(&with_long, 0.5).explained, ENOUGH);
        assert_eq!(verdict(&with_long), Verdict::Undecided);
        // Without a tail, or with counts that hardly fall, nothing is said.
        assert_eq!(tail(&vec![item(0.99, 0.0); 30], 0.5), 0.0);
        assert_eq!(tail(&[item(0.4, 0.0); 3], 0.5), 0.0);
        items.extend(vec![item(0.4, 0.0); 6]);
        assert_eq!(tail(&items, 0.5), 0.0);
    }

    #[test]
    fn twenty_beyond_errors_are_enough() {
        let of = |reached, explained| Counted {
            items: 1000,
            reached,
            explained,
        };
        let table = [
            (of(0, 0.0), Verdict::Absent),
            (of(3, 3.0), Verdict::Absent),
            (of(3, 2.9), Verdict::Undecided),
            (of(22, 2.1), Verdict::Undecided),
            (of(22, 2.0), Verdict::Present),
        ];
        for (counted, wanted) in table {
            assert_eq!(counted.verdict(), wanted, "{counted:?}");
        }
        let both = of(3, 2.0).and(&of(4, 0.5));
        assert_eq!(both, of(7, 2.5));
        assert_eq!(
            [Verdict::Absent, Verdict::Undecided, Verdict::Present].map(Verdict::name),
            ["absent", "undecided", "present"]
        );
    }

    #[test]
    fn none_in_n_means_three_in_n_at_most() {
        assert!((most_expected(0) - 20.0_f64.ln()).abs() < 1e-12);
        // So small a count has probability 1/20, term by term.
        for count in [1_i32, 5, 100] {
            let mean = most_expected(count as usize);
            let mut term = (-mean).exp();
            let mut chance = term;
            for k in 1..=count {
                term *= mean / f64::from(k);
                chance += term;
            }
            assert!((chance - 0.05).abs() < 1e-12, "{count}: {mean}");
        }
        let of = |items, reached| {
            let counted = Counted {
                items,
                reached,
                explained: 0.0,
            };
            counted.upper_limit()
        };
        assert!((of(1000, 0) - 0.003).abs() < 1e-5);
        assert_eq!(of(2, 0), 1.0);
        assert_eq!(of(0, 0), 1.0);
    }

    #[test]
    fn every_floor_is_counted() {
        let items = [item(0.95, 0.0), item(0.55, 0.0), item(0.1, 0.0)];
        assert_eq!(
            FLOORS.map(|floor| reached(&items, floor)),
            [3, 2, 2, 2, 2, 1, 1, 1, 1, 1]
        );
    }

    #[test]
    fn an_excluded_label_stands_for_the_items_that_hide_it() {
        let labels = crate::labels::Labels::new(["A", "B", "C"]).unwrap();
        let of = |text, readiness: &[f64]| {
            let query = Query::parse(text, &labels).unwrap();
            stands_for(&query, readiness)
        };
        // A and B are shown with weights 1 and 2, so one in 7/4 items that have C too shows it.
        let weights = [1.0, 2.0, 4.0];
        assert_eq!(of("A + B - C", &weights), [0.0, 0.0, 7.0 / 4.0]);
        assert_eq!(of("A - B - C", &weights), [0.0, 3.0 / 2.0, 5.0 / 4.0]);
        assert_eq!(of("A + B + C", &weights), [0.0; 3]);
        // Shown in shares 1/2, 1/4, 1/4 with priors 1, 2, 4: readiness 1/2, 1/8, 1/16.
        let per_class = readiness(&[0.5, 0.25, 0.25], &weights);
        assert_eq!(per_class, [0.5, 0.125, 0.0625]);
        assert_eq!(of("A - B - C", &per_class), [0.0, 5.0, 9.0]);
    }

    #[test]
    fn a_class_without_a_floor_is_judged_at_one_half() {
        assert_eq!(judged_at(0.8), 0.8);
        assert_eq!(judged_at(0.0), REFERENCE_FLOOR);
    }
}
