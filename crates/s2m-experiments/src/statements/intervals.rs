//! Statements with a 95 % interval, each kind on each family of targets where it makes sense: how often they miss.

use std::num::NonZeroUsize;

use s2m::settings::DEFAULT_TV;
use s2m_core::calibration::margin::exclusion_margin;
use s2m_core::diagnostics::{Mean, Moments};
use s2m_core::proposals::{Proposals, Purpose};
use s2m_core::samplers::resample::{Copies, Resample};
use s2m_core::samplers::{Failure, Sampler, mh, reject};

use super::laws::{Law, goal};
use super::metrics::{self, Share};
use super::targets::{Items, Named};
use super::{COLUMNS, Sums, Tally};
use crate::Error;
use crate::evaluation::Evaluator;
use crate::results::Table;

/// Runs of each line, and the first of their seeds: lower ones were looked at while intervals were built.
const RUNS: u64 = 300;
const FIRST_SEED: u64 = 7000;

/// The same for purities, whose interval was mended after a look at runs from [`FIRST_SEED`] on.
const FIRST_PURITY_SEED: u64 = 8000;

/// The statement that a line is about.
const PURITY: &str = "predicted purity";

/// Proposals of a reach.
const REACHED: usize = 5000;

/// Samples of a purity and of calls ahead of time, chains of a purity, and their steps.
const SAMPLES: usize = 2000;
const CHAINS: usize = 300;
const STEPS: NonZeroUsize = NonZeroUsize::new(100).expect("100 is not zero");

/// Targets that take more calls than this for so many samples have no known truth here.
const MOST_CALLS: usize = 1 << 18;

/// One run of a statement: whether it missed the truth; none where nothing was stated.
pub(super) type Run<'a> = Box<dyn Fn(u64) -> Option<bool> + 'a>;

/// One line of the table.
struct Line<'a> {
    statement: &'static str,
    family: &'static str,
    toy: String,
    run: Run<'a>,
}

impl<'a> Line<'a> {
    fn new(
        statement: &'static str,
        family: &'static str,
        toy: impl Into<String>,
        run: impl Fn(u64) -> Option<bool> + 'a,
    ) -> Self {
        Self {
            statement,
            family,
            toy: toy.into(),
            run: Box::new(run),
        }
    }
}

fn misses(mean: Mean, truth: f64) -> bool {
    !(mean.between[0]..=mean.between[1]).contains(&truth)
}

/// `reach` where the odds have a law of weights, scaled to this mean.
pub(super) fn reach(law: &Law, share: f64, seed: u64) -> Option<bool> {
    let log_share = (share / law.mean()).ln();
    let mut log_odds = law.log_weights(seed, REACHED);
    for log in &mut log_odds {
        *log += log_share;
    }
    Mean::of_logs(&log_odds).map(|mean| misses(mean, share))
}

/// `reach` where the odds are those of the proposals of a model.
fn reach_of_items(items: &Items, seed: u64) -> Option<bool> {
    let law = Law::listed(items.log_odds.clone());
    Mean::of_logs(&law.log_weights(seed, REACHED)).map(|mean| misses(mean, law.mean()))
}

/// The predicted purity of samples whose posteriors are uniform above a floor.
pub(super) fn purity(floor: f64, samples: usize, seed: u64) -> Option<bool> {
    let mut uniform = vec![0.0; samples];
    Proposals::new(seed).fill_uniform(Purpose::Class, 0, &mut uniform);
    let mut values = Moments::default();
    for u in uniform {
        values.add(floor + (1.0 - floor) * u);
    }
    Some(misses(values.share()?, 0.5 * (1.0 + floor)))
}

/// The predicted purity of what a sampler draws; the truth is that of the target.
fn purity_of(law: &Law, predicted: &[f64], sampler: &mut dyn Sampler, seed: u64) -> Option<bool> {
    let (draw, kept) = law.keep(sampler, seed);
    draw.ok()?;
    let mut values = Moments::default();
    for copies in kept.chunk_by(|a, b| a == b) {
        values.add_copies(predicted[law.place(seed, copies[0])], copies.len() as f64);
    }
    Some(misses(values.share()?, law.mean_under_target(predicted)))
}

/// Whether a new item gets weight at a margin for this exclusion error, chosen on so many held-out items.
pub(super) fn exclusion(delta: f64, items: usize, seed: u64) -> Option<bool> {
    let mut ratios = vec![0.0; items + 1];
    Proposals::new(seed).fill_uniform(Purpose::Class, 0, &mut ratios);
    let log_ratios: Vec<f64> = ratios[..items].iter().map(|ratio| ratio.ln()).collect();
    let margin = exclusion_margin(&log_ratios, delta).ok()?;
    Some(margin.value > ratios[items])
}

/// Which ends of the interval of calls are held against the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// The lower one, which is always stated.
    Least,
    /// Both, where both are.
    Both,
}

/// Calls that are told ahead of time where a tenth of them are allowed: the truth is what the same run takes.
pub(super) fn calls(law: &Law, ends: Ends, seed: u64) -> Option<bool> {
    let mut whole = reject::Reject::new(goal(SAMPLES, 1 << 24), DEFAULT_TV);
    let (draw, needed) = law.drive(&mut whole, seed);
    draw.ok()?;
    let mut few = reject::Reject::new(goal(SAMPLES, needed / 10), DEFAULT_TV);
    let Err(Failure::OutOfCalls {
        expected: Some(expected),
        ..
    }) = law.drive(&mut few, seed).0
    else {
        return None;
    };
    let truth = needed as u64;
    match ends {
        Ends::Least => Some(truth < expected.least),
        Ends::Both => expected
            .most
            .map(|most| !(expected.least..=most).contains(&truth)),
    }
}

/// Statements on one target.
fn of_target(named: &Named) -> Vec<Line<'_>> {
    let Named {
        family,
        name,
        law,
        items,
        ..
    } = named;
    let family = *family;
    let mut lines = Vec::new();
    match items {
        None => {
            for share in [1.0, 0.945] {
                let toy = format!("{share}, odds {name}");
                lines.push(Line::new("reach", family, toy, move |seed| {
                    reach(law, share, seed)
                }));
            }
        }
        Some(items) => {
            lines.push(Line::new("reach", family, name, move |seed| {
                reach_of_items(items, seed)
            }));
            let limit = |samples| goal(samples, MOST_CALLS);
            let predicted = &items.predicted;
            lines.push(Line::new(
                PURITY,
                family,
                format!("{name}, `reject`"),
                move |seed| {
                    let mut sampler = reject::Reject::new(limit(SAMPLES), DEFAULT_TV);
                    purity_of(law, predicted, &mut sampler, seed)
                },
            ));
            lines.push(Line::new(
                PURITY,
                family,
                format!("{name}, `mh`"),
                move |seed| {
                    let steps = mh::Steps::Fixed(STEPS);
                    let mut sampler = mh::MetropolisHastings::new(limit(CHAINS), steps);
                    purity_of(law, predicted, &mut sampler, seed)
                },
            ));
            lines.push(Line::new(
                PURITY,
                family,
                format!("{name}, `resample`"),
                move |seed| {
                    let mut sampler = Resample::new(limit(SAMPLES), 0.5, Copies::Allowed);
                    purity_of(law, predicted, &mut sampler, seed)
                },
            ));
        }
    }
    let mut once = reject::Reject::new(goal(SAMPLES, MOST_CALLS), DEFAULT_TV);
    if law.drive(&mut once, FIRST_SEED).0.is_ok() {
        for (statement, ends) in [
            ("calls, both ends", Ends::Both),
            ("calls, lower end", Ends::Least),
        ] {
            lines.push(Line::new(statement, family, name, move |seed| {
                calls(law, ends, seed)
            }));
        }
    }
    lines
}

/// Statements that no law of weights is behind.
fn of_items() -> Vec<Line<'static>> {
    let toys = "items";
    let mut lines = vec![
        Line::new(PURITY, "bounded", "uniform, 200 samples", |seed| {
            purity(0.5, 200, seed)
        }),
        Line::new(PURITY, "bounded", "uniform, 2000 samples", |seed| {
            purity(0.8, 2000, seed)
        }),
    ];
    for items in [99, 1000] {
        let toy = format!("0.05, {items} held-out items");
        lines.push(Line::new("exclusion error", toys, toy, move |seed| {
            exclusion(0.05, items, seed)
        }));
    }
    for items in [300, 2000] {
        lines.push(Line::new(
            "FID",
            toys,
            format!("{items} items"),
            move |seed| metrics::fid(items, seed),
        ));
    }
    for (items, shift) in [(300, 1.0), (1000, 1.0), (300, 0.0)] {
        let toy = format!("{items} items, means {shift} apart");
        lines.push(Line::new("KID", toys, toy, move |seed| {
            metrics::kernel(items, shift, seed)
        }));
    }
    for (share, items) in [(0.9, 300), (0.99, 300), (0.9, 2000)] {
        let toy = format!("{share}, {items} items");
        lines.push(Line::new("accuracy", toys, toy, move |seed| {
            Some(metrics::right(share, items, seed))
        }));
    }
    for (name, share) in [("precision", Share::Precision), ("recall", Share::Recall)] {
        for items in [200, 500] {
            let toy = format!("{items} items");
            lines.push(Line::new(name, toys, toy, move |seed| {
                metrics::in_balls(share, items, seed)
            }));
        }
    }
    lines
}

/// What was found: a table by statement and family, one of every line, and the tallies of the lines.
pub(super) struct Found {
    pub(super) families: Table,
    pub(super) lines: Table,
    pub(super) each: Vec<(String, Tally)>,
}

pub(super) fn measure(evaluator: &Evaluator<'_>, targets: &[Named]) -> Result<Found, Error> {
    let mut table = Table::new(
        "Statements at 95 %, line by line",
        &[
            "statement",
            "family",
            "toy",
            COLUMNS[0],
            COLUMNS[1],
            COLUMNS[2],
            COLUMNS[3],
        ],
    );
    let mut lines: Vec<Line<'_>> = targets.iter().flat_map(of_target).collect();
    lines.extend(of_items());
    lines.sort_by_key(|line| line.statement);
    let (mut families, mut each) = (Sums::default(), Vec::new());
    for Line {
        statement,
        family,
        toy,
        run,
    } in lines
    {
        let first = if statement == PURITY {
            FIRST_PURITY_SEED
        } else {
            FIRST_SEED
        };
        let identity = format!("{statement} {family} {toy} {RUNS} from {first} intervals 3");
        let tally: Tally = evaluator.kept("intervals", &[&identity], || {
            let mut tally = Tally::default();
            for seed in first..first + RUNS {
                tally.add(run(seed));
            }
            Ok(tally)
        })?;
        families.add(format!("{statement}, {family}"), tally);
        let mut row = vec![statement.to_owned(), family.to_owned(), toy.clone()];
        row.extend(tally.cells());
        table.rows.push(row);
        each.push((format!("{statement}, {toy}"), tally));
    }
    Ok(Found {
        families: families.table(
            "Statements at 95 %: how often they miss the truth",
            "statement, family",
        ),
        lines: table,
        each,
    })
}
