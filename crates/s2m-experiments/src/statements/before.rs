//! What was stated before these statements were put right, beside what is stated now.
//!
//! Figures from before are of a check from outside, on toys of its own, and of the last version of this experiment
//! that had the fault; so they are of the same kind, and not of the same runs. Shares of runs with a bound are of the
//! first version of this experiment (40 runs a line, seeds from 0), and of the last one before today's.

use super::laws::Law;
use super::parts::Outcomes;
use super::said::Said;
use super::{Bounded, Tally, Way};
use crate::Error;
use crate::evaluation::Evaluator;
use crate::results::Table;

/// Both, statement by statement.
pub(super) fn table(
    bounds: &[Bounded],
    intervals: &[(String, Tally)],
    parts: &Outcomes,
    said: &Said,
) -> Table {
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
        ("calls, both ends, lognormal, deviation 1", "122 of 160"),
    ] {
        if let Some((_, tally)) = intervals.iter().find(|(known, _)| known == name) {
            add(&format!("intervals missed: {name}"), before, missed(*tally));
        }
    }
    let share = |(some, all): (usize, usize)| format!("{some} of {all}");
    add(
        "a part of 5 % lost or given up: `adaptive`, `reject`, 64 dimensions",
        "22 of 25",
        share(parts.reject),
    );
    add("the same: `adaptive`, `mh`", "3 of 5", share(parts.mh));
    add(
        "the same: `adaptive`, `resample`",
        "6 of 6",
        share(parts.resample),
    );
    add(
        "a part lost, and a bound below the true distance",
        "6 of 6 bounds",
        format!("{} of {} bounds", parts.silent.0, parts.silent.1),
    );
    add(
        "5.5 % of the data never proposed, and not a word of it",
        "140 of 140",
        share((said.silent, said.unreached)),
    );
    add(
        "`--purity`: delivered less asked",
        "-0.011 to +0.037",
        format!("{:+.3} to {:+.3}", said.between[0], said.between[1]),
    );
    add(
        "`--purity`: not what was asked for, beyond its interval, and not a word of it",
        "all",
        format!(
            "{} of {} ({} draws, {} of them answered no)",
            said.off - said.told,
            said.off,
            said.asked,
            said.refused
        ),
    );
    add(
        "`--all-joint`, `reject`: rows, and proposals behind them",
        "52000, 23979",
        format!("{}, {}", said.rows, said.rows - said.shared),
    );
    table
}

/// Runs with a bound of an earlier version, in percent of its runs: the first one of this experiment, and the last.
struct Earlier {
    family: &'static str,
    sampler: &'static str,
    first: (usize, usize),
    last: (usize, usize),
}

/// Only families with the same targets then and now.
const EARLIER: [Earlier; 10] = [
    earlier("bounded", "reject", (160, 160), (400, 400)),
    earlier("bounded", "mh", (200, 240), (600, 600)),
    earlier("light", "reject", (153, 240), (365, 600)),
    earlier("light", "mh", (264, 360), (790, 900)),
    earlier("heavy", "reject", (148, 400), (420, 1000)),
    earlier("heavy", "mh", (332, 600), (1255, 1500)),
    earlier("real networks", "reject", (203, 240), (516, 600)),
    earlier("real networks", "mh", (239, 360), (900, 900)),
    earlier("conditional", "reject", (64, 80), (156, 200)),
    earlier("conditional", "mh", (80, 120), (300, 300)),
];

const fn earlier(
    family: &'static str,
    sampler: &'static str,
    first: (usize, usize),
    last: (usize, usize),
) -> Earlier {
    Earlier {
        family,
        sampler,
        first,
        last,
    }
}

/// `mh` of automatic length: runs with a bound in the version that first gave it bounds, of seeds 0 to 39, and in the
/// last one, of 100 others.
const AUTOMATIC: [(&str, Law, usize, usize); 3] = [
    ("Pareto, index 0.41", Law::Pareto(0.41), 33, 67),
    ("Pareto, index 0.45", Law::Pareto(0.45), 28, 56),
    ("lognormal, deviation 1.5", Law::Lognormal(1.5), 30, 60),
];
const FIRST_SEEDS: u64 = 40;

/// The share of runs that got a bound: before, and today.
pub(super) fn shares(evaluator: &Evaluator<'_>, bounds: &[Bounded]) -> Result<Table, Error> {
    let mut again = Vec::new();
    for (name, law, ..) in &AUTOMATIC {
        let identity = format!("{name} {FIRST_SEEDS} automatic 1");
        let tally: Tally = evaluator.kept("automatic", &[&identity], || {
            let mut tally = Tally::default();
            for seed in 0..FIRST_SEEDS {
                tally.add(Way::Automatic.run(law, seed));
            }
            Ok(tally)
        })?;
        again.push(tally);
    }
    Ok(shares_table(bounds, &again))
}

/// The table, with today's bounds of `mh` of automatic length on the first version's seeds.
fn shares_table(bounds: &[Bounded], again: &[Tally]) -> Table {
    let mut table = Table::new(
        "Runs that got a bound, % (95 %)",
        &["family, sampler", "first version", "last version", "today"],
    );
    let cell = |stated, runs| {
        let tally = Tally {
            runs,
            stated,
            missed: 0,
        };
        tally.stated_cell()
    };
    let today = |chosen: &dyn Fn(&Bounded) -> bool| {
        let chosen = bounds.iter().filter(|line| chosen(line));
        let sum = chosen.fold(Tally::default(), |sum, line| sum.and(line.tally));
        sum.stated_cell()
    };
    let none = || "-".to_owned();
    for Earlier {
        family,
        sampler,
        first,
        last,
    } in EARLIER
    {
        table.rows.push(vec![
            format!("{family}, {sampler}"),
            cell(first.0, first.1),
            cell(last.0, last.1),
            today(&|line| line.family == family && line.way.sampler() == sampler),
        ]);
    }
    for ((law, _, first, last), again) in AUTOMATIC.into_iter().zip(again) {
        table.rows.push(vec![
            format!("{law}, mh, automatic, seeds 0 to 39"),
            cell(first, 40),
            none(),
            again.stated_cell(),
        ]);
        table.rows.push(vec![
            format!("{law}, mh, automatic, seeds 5000 to 5099"),
            none(),
            cell(last, 100),
            today(&|line| line.law == law && line.way == Way::Automatic),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(runs: usize, stated: usize, missed: usize) -> Tally {
        Tally {
            runs,
            stated,
            missed,
        }
    }

    fn line(law: &str, way: Way, tally: Tally) -> Bounded {
        Bounded {
            family: "bounded",
            law: law.to_owned(),
            way,
            tally,
        }
    }

    #[test]
    fn what_is_now_stands_beside_what_was() {
        let bounds = [
            line("uniform", Way::Automatic, tally(40, 39, 1)),
            line("uniform", Way::Chains(10), tally(40, 0, 0)),
            line("Pareto, index 0.31", Way::Chains(10), tally(40, 30, 2)),
            line("Pareto, index 0.41", Way::Automatic, tally(40, 20, 1)),
        ];
        let intervals = [("FID, 300 items".to_owned(), tally(160, 160, 5))];
        let parts = Outcomes {
            reject: (1, 40),
            mh: (0, 20),
            resample: (2, 20),
            silent: (0, 3),
        };
        let said = Said {
            asked: 27,
            refused: 1,
            between: [-0.004, 0.01],
            off: 3,
            told: 3,
            rows: 600,
            shared: 0,
            unreached: 300,
            silent: 2,
        };
        let cells = table(&bounds, &intervals, &parts, &said).rows;
        assert_eq!(cells.len(), 13);
        assert_eq!(cells[0][1..], ["182 of 566", "3 of 50"]);
        assert_eq!(cells[3][1..], ["40 of 40", "1 of 40"]);
        assert_eq!(cells[4][2], "5 of 160");
        assert_eq!(cells[5][1..], ["22 of 25", "1 of 40"]);
        assert_eq!(cells[10][2], "-0.004 to +0.010");
        assert_eq!(cells[12][2], "600, 600");
    }

    #[test]
    fn shares_of_runs_with_a_bound_are_of_the_same_family_and_sampler() {
        let bounds = [
            line("uniform", Way::Automatic, tally(40, 20, 1)),
            line("uniform", Way::Chains(10), tally(40, 40, 0)),
            line("uniform", Way::Reject(2000), tally(100, 100, 0)),
        ];
        let rows = shares_table(&bounds, &[tally(40, 30, 0); 3]).rows;
        assert_eq!(rows[0][0], "bounded, reject");
        assert!(rows[0][3].starts_with("100.0 ("), "{:?}", rows[0]);
        assert!(rows[1][3].starts_with("75.0 ("), "{:?}", rows[1]);
        assert_eq!(rows[2][3], "-");
        assert!(rows[10][3].starts_with("75.0 ("), "{:?}", rows[10]);
    }
}
