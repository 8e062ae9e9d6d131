//! Whether the data holds a joint class at all, from held-out items that show one label each.
//!
//! Posteriors can be sure of a combination that no item has, since every label alone is common. So it is
//! counted how many of N held-out items have a posterior of the class of at least a floor: n. Some of them
//! are errors, and how many is estimated in three ways, of which the largest counts:
//!
//! ```text
//! by posteriors   Σ (1 − P(Q|x)) over the n items
//! by labels       Σ A(S ∪ {c}) / a_c over those that show a label c outside the class's set S
//! by the others   the mean over all joint classes of what labels say
//! ```
//!
//! An item that has one label c too many shows it with probability `a_c / A(S ∪ {c})`, so each one that
//! shows it stands for the inverse of that many that have it. Labels do not see an item that might be {A}
//! or {B} and is taken for {A, B}; classifiers that err elsewhere err there too, hence the third. Errors
//! explain what is estimated and two standard errors more, counts being Poisson; the third explains at most
//! half of [`ENOUGH`], so that a class with that many items is never absent by what happens elsewhere.
//! What is left decides: [`Verdict`].

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

/// How many items at or above a floor are wrong, by the labels that they show.
pub fn wrong_by_labels(items: &[Item], floor: f64) -> f64 {
    let reach = items.iter().filter(|item| item.posterior >= floor);
    reach.map(|item| item.stands_for).sum()
}

/// Counts items at a floor; `elsewhere` is the mean of [`wrong_by_labels`] over all joint classes.
pub fn count(items: &[Item], floor: f64, elsewhere: f64) -> Counted {
    let (mut wrong, mut squares) = (0.0, 0.0);
    for item in items.iter().filter(|item| item.posterior >= floor) {
        wrong += 1.0 - item.posterior;
        squares += item.stands_for * item.stands_for;
    }
    let with = |errors: f64, variance: f64| errors + BEYOND * variance.sqrt();
    let explained = [
        with(wrong, wrong),
        with(wrong_by_labels(items, floor), squares),
        with(elsewhere, elsewhere).min(ENOUGH / 2.0),
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
        count(items, 0.5, 0.0).verdict()
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
        let found = count(&sure, 0.5, 0.0);
        assert!((found.explained - (2.0 + 2.0 * 2.0_f64.sqrt())).abs() < 1e-9);
        assert_eq!((found.reached, found.verdict()), (100, Verdict::Present));
    }

    /// Thirty items that all have a third label, which ten of them show: three each, and nothing is left.
    #[test]
    fn items_that_show_an_excluded_label_stand_for_those_that_hide_it() {
        let mut items = vec![item(0.97, 3.0); 10];
        items.extend(vec![item(0.97, 0.0); 20]);
        let found = count(&items, 0.5, 0.0);
        assert!((found.explained - (30.0 + 2.0 * 90.0_f64.sqrt())).abs() < 1e-9);
        assert_eq!(found.verdict(), Verdict::Absent);
        // One in sixty: six are explained beside three, and 51 are left.
        let mut items = vec![item(1.0, 0.0); 59];
        items.push(item(1.0, 3.0));
        let found = count(&items, 0.5, 0.0);
        assert_eq!(found.explained, 9.0);
        assert_eq!(found.verdict(), Verdict::Present);
    }

    #[test]
    fn errors_elsewhere_count_but_for_half_of_what_is_enough() {
        let sure = |count: usize| vec![item(1.0, 0.0); count];
        // Four errors in a class elsewhere: eight here are no surprise.
        assert_eq!(count(&sure(8), 0.5, 4.0).explained, 8.0);
        assert_eq!(count(&sure(8), 0.5, 4.0).verdict(), Verdict::Absent);
        assert_eq!(count(&sure(9), 0.5, 4.0).verdict(), Verdict::Undecided);
        // However many there are, twenty items are not absent by them.
        assert_eq!(count(&sure(11), 0.5, 100.0).verdict(), Verdict::Undecided);
        assert_eq!(count(&sure(30), 0.5, 100.0).verdict(), Verdict::Present);
        assert_eq!(wrong_by_labels(&[item(0.6, 3.0), item(0.4, 3.0)], 0.5), 3.0);
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
}
