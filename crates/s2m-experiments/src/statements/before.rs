//! What was stated before these statements were put right, beside what is stated now.
//!
//! Figures from before are of a check from outside, on toys of its own, and of the last version of this experiment
//! that had the fault; so they are of the same kind, and not of the same runs.

use super::{Bounded, Tally, Way};
use crate::results::Table;

/// Both, statement by statement.
pub(super) fn table(bounds: &[Bounded], intervals: &[(String, Tally)]) -> Table {
    let mut table = Table::new("Before and after", &["statement", "before", "after"]);
    let mut add = |name: &str, before: &str, after: String| {
        table
            .rows
            .push(vec![name.to_owned(), before.to_owned(), after]);
    };
    let of = |laws: &[&str], way: fn(Way) -> bool| {
        let chosen = bounds.iter().filter(|line| way(line.way));
        let chosen = chosen.filter(|line| laws.contains(&line.law.as_str()));
        chosen.fold(Tally::default(), |sum, line| sum.and(line.tally))
    };
    let reject = |way| matches!(way, Way::Reject(_));
    let missed = |tally: Tally| format!("{} of {}", tally.missed, tally.stated);
    let silent = |tally: Tally| format!("{} of {}", tally.runs - tally.stated, tally.runs);
    let heavy = [0.31, 0.36, 0.41].map(|k| format!("Pareto, index {k}"));
    add(
        "bounds missed: `mh`, Pareto weights of index 0.31 to 0.41",
        "182 of 566",
        missed(of(&heavy.each_ref().map(String::as_str), |way| {
            !matches!(way, Way::Reject(_))
        })),
    );
    add(
        "bounds missed: `reject`, Pareto weights of index 0.41 to 0.45",
        "11 of 75",
        missed(of(&["Pareto, index 0.41", "Pareto, index 0.45"], reject)),
    );
    add(
        "no bound: `reject`, five steps, largest over mean 13.8",
        "9 of 12",
        silent(of(&["five steps"], reject)),
    );
    add(
        "no bound: `mh` of automatic length, uniform weights",
        "40 of 40",
        silent(of(&["uniform"], |way| way == Way::Automatic)),
    );
    for (name, before) in [
        ("FID, 300 items", "85 of 100"),
        ("FID, 2000 items", "15 of 100"),
        (
            "calls ahead of time, both ends, lognormal weights, deviation 1",
            "122 of 160",
        ),
    ] {
        if let Some((_, tally)) = intervals.iter().find(|(known, _)| known == name) {
            add(&format!("intervals missed: {name}"), before, missed(*tally));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_now_stands_beside_what_was() {
        let tally = |runs, stated, missed| Tally {
            runs,
            stated,
            missed,
        };
        let line = |law: &str, way, tally| Bounded {
            law: law.to_owned(),
            way,
            tally,
        };
        let bounds = [
            line("uniform", Way::Automatic, tally(40, 39, 1)),
            line("uniform", Way::Chains(10), tally(40, 0, 0)),
            line("Pareto, index 0.31", Way::Chains(10), tally(40, 30, 2)),
            line("Pareto, index 0.41", Way::Automatic, tally(40, 20, 1)),
        ];
        let intervals = [("FID, 300 items".to_owned(), tally(160, 160, 5))];
        let cells = table(&bounds, &intervals).rows;
        assert_eq!(cells.len(), 5);
        assert_eq!(cells[0][1..], ["182 of 566", "3 of 50"]);
        assert_eq!(cells[3][1..], ["40 of 40", "1 of 40"]);
        assert_eq!(cells[4][2], "5 of 160");
    }
}
