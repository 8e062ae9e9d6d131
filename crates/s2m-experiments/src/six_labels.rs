//! MNIST with six labels: partial and boolean queries, by class probabilities and by label sets, round by
//! round, beside a network that is shown every label; and with the factor that `one-of` labels need and without.

use std::num::NonZeroUsize;

use s2m::samplers::SamplerChoice;
use s2m::settings::{DEFAULT_TV, DensityChoice, Overrides};
use s2m_core::labels::{LabelSet, Labels};
use s2m_core::query::Query;
use s2m_data::Values;
use s2m_data::six_labels;
use s2m_fit::trainer::Kind;
use s2m_model::judge::Judge;
use s2m_model::manifest::PosteriorName;
use s2m_runs::folder::REFEREE;
use serde::{Deserialize, Serialize};

use super::evaluation::{Drawn, Finding, Sampled, Way};
use super::line::Line;
use super::results::Table;
use super::stages::Stage;
use super::{Bench, Findings, stage};
use crate::Error;

macro_rules! stage {
    ($name:literal, $kind:ident) => {
        Stage {
            name: $name,
            kind: Kind::$kind,
            template: include_str!(concat!("../../../experiments/six-labels/", $name, ".toml")),
        }
    };
}

pub(super) const GAN: Stage = stage!("gan", Gan);

/// Every network, in the order of training.
pub(super) const STAGES: [Stage; 6] = [
    stage!("referee-mnist", Referee),
    GAN,
    stage!("classifier", Classifier),
    stage!("classifier-round-1", Classifier),
    stage!("classifier-round-2", Classifier),
    stage!("ceiling", Classifier),
];

pub(super) const DATA: &str = "six-labels";

/// Proposals in a bank, per sample.
const BANK: NonZeroUsize = NonZeroUsize::new(50).expect("50 is not zero");

/// One label, conjunctions of some labels, and combinations that are none.
const QUERIES: [&str; 10] = [
    "even",
    "thick",
    "even + thick",
    "high + loop",
    "even - slanted",
    "high + thick - loop",
    "even | wide",
    "(even | high) - thick",
    "even + high | thick + wide",
    "loop + slanted - thick - wide",
];

/// What decides a row of the table.
struct Row {
    name: &'static str,
    /// Stage of the classifier.
    stage: &'static str,
    posterior: PosteriorName,
    density: DensityChoice,
    /// Floor on the posterior.
    floor: f64,
}

impl Row {
    const fn new(name: &'static str, stage: &'static str, posterior: PosteriorName) -> Self {
        Self {
            name,
            stage,
            posterior,
            density: DensityChoice::Corrected,
            floor: 0.0,
        }
    }

    const fn at(mut self, floor: f64) -> Self {
        self.floor = floor;
        self
    }

    const fn printed(mut self) -> Self {
        self.density = DensityChoice::Paper;
        self
    }
}

/// The floor of the second half of the rows.
const FLOOR: f64 = 0.9;

const LEVELS: Row = Row::new("levels", "classifier", PosteriorName::Levels);
const ROUND_1: Row = Row::new(
    "label sets, one round",
    "classifier-round-1",
    PosteriorName::Joint,
);
const ROUND_2: Row = Row::new(
    "label sets, up to two rounds",
    "classifier-round-2",
    PosteriorName::Joint,
);
const JOINT: Row = Row::new("label sets", "classifier", PosteriorName::Joint);
const CEILING: Row = Row::new(
    "all labels shown (ceiling)",
    "ceiling",
    PosteriorName::Joint,
);

const ROWS: [Row; 11] = [
    LEVELS,
    Row {
        name: "levels, as the paper prints them",
        ..LEVELS.printed()
    },
    ROUND_1,
    ROUND_2,
    JOINT,
    CEILING,
    LEVELS.at(FLOOR),
    ROUND_1.at(FLOOR),
    ROUND_2.at(FLOOR),
    JOINT.at(FLOOR),
    CEILING.at(FLOOR),
];

/// What is measured of one draw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Figures {
    /// Share of items for which the query holds.
    accuracy: f64,
    /// Share of each label among all items.
    shares: Vec<f64>,
    sampled: Sampled,
}

pub(super) fn run(bench: &Bench<'_>) -> Result<Findings, Error> {
    let seeds = bench.seeds(&GAN)?;
    let runs = bench.finish(&STAGES)?;
    let evaluator = bench.evaluator(BANK);
    let labels = six_labels::labels();
    let file = bench.place.run_file(&GAN)?;
    let recipe = file
        .recipe(DATA)
        .cloned()
        .expect("a test looks for every data set");
    let loaded = recipe.load()?;
    let (mut tables, mut missing) = (Vec::new(), Vec::new());
    if let Some(referee) = stage(&runs, "referee-mnist") {
        let path = referee.folder.join(REFEREE);
        let settings = &bench.request.machine.run;
        let judge = Judge::open(&path, &["class_logits"], &bench.runtime, settings)?;
        let mut table = queries_table();
        let mut shares_table = shares_table(&labels);
        for text in QUERIES {
            let query = Query::parse(text, &labels)?;
            let real = shares_of(&loaded.test.truth, &query, labels.len());
            let floor = shares_of(&loaded.train.truth, &query, labels.len());
            shares_table
                .rows
                .push(shares_row(&format!("`{text}`, real"), &real));
            for row in &ROWS {
                let name = match row.floor {
                    0.0 => format!("`{text}`, {}", row.name),
                    floor => format!("`{text}`, {}, floor {floor}", row.name),
                };
                let line = Line::measure(&name, &seeds, |seed| {
                    let run = stage(&runs, row.stage);
                    let Some(folder) = run.and_then(|run| run.bundle(DATA, seed)) else {
                        return Ok(None);
                    };
                    let way = Way {
                        sampler: SamplerChoice::Reject { tv: DEFAULT_TV },
                        density: row.density,
                        posterior: Some(row.posterior),
                        overrides: Overrides {
                            floor: Some(row.floor),
                            ..Overrides::default()
                        },
                        ..Way::of(text)
                    };
                    let drawn = Drawn::query(folder, way)?;
                    let file = format!("{DATA}-seed-{seed}");
                    let identity = [judge.sha256(), "six labels"];
                    let found: Finding<Figures> =
                        evaluator.measure(&file, &identity, &drawn, |sampled, levels| {
                            let sets = judged(&judge, levels)?;
                            Ok(figures(&sets, &query, labels.len(), sampled))
                        })?;
                    Ok(Some(found))
                })?;
                missing.extend(line.missing());
                let off = |f: &Figures| Some(100.0 * distance(&f.shares, &real));
                table.rows.push(vec![
                    line.name.clone(),
                    line.cell(2, |f| Some(100.0 * f.accuracy)),
                    line.cell(2, |f| f.sampled.predicted_purity.map(|p| 100.0 * p)),
                    line.cell(2, |f| f.sampled.plain_purity.map(|p| 100.0 * p)),
                    line.cell(2, off),
                    format!("{:.2}", 100.0 * distance(&floor, &real)),
                    line.cell(1, |f| Some(f.sampled.calls_per_sample)),
                    line.cell(4, |f| f.sampled.tv_bound),
                    line.seeds(),
                ]);
                let mut cells = vec![line.name.clone()];
                cells.extend(
                    (0..labels.len())
                        .map(|label| line.cell(1, |f: &Figures| Some(100.0 * f.shares[label]))),
                );
                shares_table.rows.push(cells);
            }
        }
        tables.extend([table, shares_table]);
        tables.push(accuracy_of_referee(&judge, &loaded)?);
    } else {
        missing.push("there is no referee, so nothing is judged".to_owned());
    }
    Ok(Findings {
        title: "MNIST with six labels: partial and boolean queries",
        preface: vec![format!(
            "Labels: even; high (5 or more); loop (0, 6, 8, 9); thick, slanted and wide: ink above {:.6}, slant above {:.6}, width over height above {:.2}, the 67th percentiles of the training pictures. Each training item shows one of its labels, all alike. The digit of a sample is told by a referee (LeNet5 over ten digits), the other three labels are measured on the sample itself. The distance is the mean over the six labels of the difference, in points, between their shares among samples and among the test items of the query; its floor is what training items have. Floors are least posteriors; no floor where none is named. Predicted purity is by networks that had no part in selecting, the plain prediction by the one that selected.",
            six_labels::THICK,
            six_labels::SLANTED,
            six_labels::WIDE,
        )],
        seeds,
        runs,
        tables,
        missing,
        pictures: Vec::new(),
    })
}

fn queries_table() -> Table {
    Table::new(
        "Queries",
        &[
            "query, posterior",
            "accuracy %",
            "predicted purity %",
            "plain prediction %",
            "distance of label shares",
            "(floor)",
            "calls per sample",
            "TV bound",
            "seeds",
        ],
    )
}

fn shares_table(labels: &Labels) -> Table {
    let columns: Vec<&str> = std::iter::once("query").chain(labels.names()).collect();
    Table::new("Shares of labels, %", &columns)
}

fn shares_row(name: &str, shares: &[f64]) -> Vec<String> {
    let cells = shares.iter().map(|share| format!("{:.1}", 100.0 * share));
    std::iter::once(name.to_owned()).chain(cells).collect()
}

/// Labels of pictures given as levels: the digit by the referee, the rest by measuring.
fn judged(judge: &Judge, levels: &[f32]) -> Result<Vec<LabelSet>, Error> {
    let items: Vec<f32> = levels.iter().map(|l| 2.0 * l / 255.0 - 1.0).collect();
    let logits = judge.judge(&items)?.swap_remove(0);
    let size: usize = judge.item_shape().iter().product();
    let digits = logits.chunks_exact(logits.len() / (levels.len() / size).max(1));
    let best = |row: &[f32]| {
        let by_logit = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        by_logit.map_or(0, |(class, _)| class as u8)
    };
    let of = |(row, picture): (&[f32], &[f32])| {
        let bytes: Vec<u8> = picture.iter().map(|&level| level as u8).collect();
        six_labels::labels_of(best(row), &bytes)
    };
    Ok(digits.zip(levels.chunks_exact(size)).map(of).collect())
}

fn figures(sets: &[LabelSet], query: &Query, labels: usize, sampled: Sampled) -> Figures {
    let n = sets.len().max(1) as f64;
    let share =
        |holds: &dyn Fn(&LabelSet) -> bool| sets.iter().filter(|s| holds(s)).count() as f64 / n;
    Figures {
        accuracy: share(&|set| query.holds(*set)),
        shares: (0..labels)
            .map(|label| share(&|set| set.contains(label)))
            .collect(),
        sampled,
    }
}

/// Share of each label among the items of a query.
fn shares_of(truth: &[LabelSet], query: &Query, labels: usize) -> Vec<f64> {
    let right: Vec<LabelSet> = truth
        .iter()
        .copied()
        .filter(|set| query.holds(*set))
        .collect();
    figures(&right, query, labels, Sampled::default()).shares
}

/// Mean difference of shares.
fn distance(found: &[f64], real: &[f64]) -> f64 {
    let differences = found.iter().zip(real).map(|(f, r)| (f - r).abs());
    differences.sum::<f64>() / real.len().max(1) as f64
}

/// How often the referee's labels are the true ones on test items.
fn accuracy_of_referee(judge: &Judge, loaded: &s2m_data::recipe::Loaded) -> Result<Table, Error> {
    let Values::Bytes(bytes) = &loaded.test.items.values else {
        unreachable!("MNIST is pictures");
    };
    let levels: Vec<f32> = bytes.iter().map(|&b| f32::from(b)).collect();
    let sets = judged(judge, &levels)?;
    let right = sets.iter().zip(&loaded.test.truth).filter(|(a, b)| a == b);
    let share = 100.0 * right.count() as f64 / sets.len().max(1) as f64;
    let mut table = Table::new(
        "The referee on test items",
        &["test items", "all labels right %"],
    );
    table
        .rows
        .push(vec![sets.len().to_string(), format!("{share:.2}")]);
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_is_one_of_these_labels() {
        let labels = six_labels::labels();
        for text in QUERIES {
            Query::parse(text, &labels).unwrap_or_else(|e| panic!("{text}: {e}"));
        }
    }

    #[test]
    fn shares_are_counted_among_the_items_of_the_query() {
        let labels = six_labels::labels();
        let set = |members: &[usize]| members.iter().copied().collect::<LabelSet>();
        let truth = [set(&[0]), set(&[0, 3]), set(&[3]), set(&[1])];
        let query = Query::parse("even", &labels).unwrap();
        let shares = shares_of(&truth, &query, 6);
        assert_eq!(shares, [1.0, 0.0, 0.0, 0.5, 0.0, 0.0]);
        assert!((distance(&shares, &[1.0, 0.6, 0.0, 0.5, 0.0, 0.0]) - 0.1).abs() < 1e-12);
    }
}
