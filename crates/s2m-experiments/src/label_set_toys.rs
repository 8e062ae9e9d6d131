//! Label sets that are known exactly, learnt from a classifier that is left soft: how far what is drawn is from the
//! truth, by levels and by label sets, round by round.
//!
//! The 2×16 Gaussians from the exact generator: nine of 23 modes carry both labels. Few passes over few points leave
//! class probabilities soft, and sorted levels turn softness into mass on {A, B}.

use std::num::NonZeroUsize;

use s2m::settings::Overrides;
use s2m_core::labels::Labels;
use s2m_core::query::Query;
use s2m_data::gaussians::modes;
use s2m_data::recipe::DataRecipe;
use s2m_eval::gaussians::points;
use s2m_metrics::modes::nearest;
use s2m_metrics::total_variation::{expected_floor, total_variation};
use s2m_model::manifest::PosteriorName;
use serde::{Deserialize, Serialize};

use super::evaluation::{Drawn, Evaluator, Finding, Sampled, Way};
use super::fits::{self, Fit, Source};
use super::line::Line;
use super::results::Table;
use super::{Bench, Findings};
use crate::Error;

const DATA: &str = include_str!("../../../experiments/label-set-toys/data.toml");

const EXACT: Source = Source::Embedded("gaussians-exact");

/// Proposals in a bank, per sample.
const BANK: NonZeroUsize = NonZeroUsize::new(10).expect("10 is not zero");

/// Passes of every training: few, so that probabilities stay soft.
const EPOCHS: u64 = 3;

const ROUNDS: Fit = {
    let mut fit = Fit::learnt("rounds", "", EXACT, None);
    fit.way = Some(s2m_fit::Way::Shared);
    fit.epochs = Some(EPOCHS);
    fit.rounds = Some(10);
    fit
};
const ONE_ROUND: Fit = {
    let mut fit = ROUNDS;
    fit.name = "one-round";
    fit.rounds = Some(1);
    fit
};

/// What decides a row.
const ROWS: [(&str, Fit, PosteriorName); 4] = [
    ("levels", ROUNDS, PosteriorName::Levels),
    ("label sets, one round", ONE_ROUND, PosteriorName::Joint),
    (
        "label sets, rounds by held-out likelihood",
        ROUNDS,
        PosteriorName::Joint,
    ),
    (
        "all labels shown (ceiling)",
        ROUNDS.ceiling("ceiling", ""),
        PosteriorName::Joint,
    ),
];

const QUERIES: [&str; 3] = ["A + B", "A - B", "B - A"];

/// Distances of one draw from the truth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Figures {
    /// Where the shared modes carry both labels, as they do.
    both: f64,
    /// Where each of their items carried one of the two: the same single labels, and other sets.
    one: f64,
    sampled: Sampled,
}

pub(super) fn run(bench: &Bench<'_>) -> Result<Findings, Error> {
    let seeds = fits::seeds(bench);
    let evaluator = bench.evaluator(BANK);
    let recipe: DataRecipe =
        toml::from_str(DATA).map_err(|e| Error::Setting(format!("data.toml: {e}")))?;
    let labels = Labels::new(["A", "B"])?;
    let mut missing = Vec::new();
    let mut table = Table::new(
        "Distance from the truth (TV over the 23 modes)",
        &[
            "query, posterior",
            "TV",
            "(perfect samples)",
            "TV if shared modes held {A} and {B}, half each",
            "predicted purity %",
            "calls per sample",
            "seeds",
        ],
    );
    for text in QUERIES {
        let query = Query::parse(text, &labels)?;
        for (name, fit, posterior) in ROWS {
            let line = Line::measure(&format!("`{text}`, {name}"), &seeds, |seed| {
                let Some(folder) = fits::fitted(bench, fit, &recipe, seed)? else {
                    return Ok(None);
                };
                let way = Way {
                    posterior: Some(posterior),
                    overrides: Overrides {
                        floor: Some(0.0),
                        // The generator is exact: odds could only add noise.
                        real_temperature: Some(fits::SILENT),
                        ..Overrides::default()
                    },
                    ..Way::of(text)
                };
                measure(&evaluator, &query, &Drawn::query(folder, way)?).map(Some)
            })?;
            missing.extend(line.missing());
            let floor = expected_floor(&truth(&query, false), evaluator.samples.get())?;
            table.rows.push(vec![
                line.name.clone(),
                line.cell(4, |f: &Figures| Some(f.both)),
                format!("{floor:.4}"),
                line.cell(4, |f| Some(f.one)),
                line.cell(2, |f| f.sampled.predicted_purity.map(|p| 100.0 * p)),
                line.cell(1, |f| Some(f.sampled.calls_per_sample)),
                line.seeds(),
            ]);
        }
    }
    Ok(Findings {
        title: "Label sets that are known exactly, from a soft classifier",
        preface: vec![format!(
            "The 2×16 Gaussians with the exact generator of `gaussians-exact`; {EPOCHS} passes over 9,000 points with one label each, so that the class head stays soft; no floor, and the discriminator has no say. The last distance is from what would be true if the items of the nine shared modes carried one label each: single labels cannot tell the two apart, and nothing is drawn for `A + B` then, so that every sample is wrong."
        )],
        seeds,
        runs: Vec::new(),
        tables: vec![table],
        missing,
        pictures: Vec::new(),
    })
}

fn measure(
    evaluator: &Evaluator<'_>,
    query: &Query,
    drawn: &Drawn<'_>,
) -> Result<Finding<Figures>, Error> {
    evaluator.measure("label-set-toys", &["modes"], drawn, |mut sampled, items| {
        let modes = modes();
        let centres: Vec<[f64; 2]> = modes.iter().map(|mode| mode.centre).collect();
        let mut counts = vec![0_u64; modes.len()];
        for point in points(items) {
            counts[nearest(&centres, &point).0] += 1;
        }
        let distance = |one_label: bool| {
            let truth = truth(query, one_label);
            if truth.iter().sum::<f64>() == 0.0 {
                return Ok(1.0);
            }
            total_variation(&counts, &truth).map_err(Error::from)
        };
        let (both, one) = (distance(false)?, distance(true)?);
        sampled.numbers.clear();
        Ok(Figures { both, one, sampled })
    })
}

/// Share of each mode among the items of a query, where shared modes carry both labels or, half each, one.
fn truth(query: &Query, one_label: bool) -> Vec<f64> {
    let holds = |mode: &s2m_data::gaussians::Mode| {
        let sets = match (one_label, mode.labels.len()) {
            (true, 2) => vec![[0].into_iter().collect(), [1].into_iter().collect()],
            _ => vec![mode.labels],
        };
        let right = sets.iter().filter(|set| query.holds(**set)).count();
        right as f64 / sets.len() as f64
    };
    let raw: Vec<f64> = modes().iter().map(holds).collect();
    let sum: f64 = raw.iter().sum();
    raw.iter().map(|share| share / sum.max(1e-300)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_depends_on_what_shared_modes_carry() {
        let labels = Labels::new(["A", "B"]).unwrap();
        let of = |text: &str, one_label| truth(&Query::parse(text, &labels).unwrap(), one_label);
        // Seven modes of A alone come first, then the nine shared ones.
        let alone = of("A - B", false);
        assert!(alone[..7].iter().all(|p| (p - 1.0 / 7.0).abs() < 1e-12));
        assert!(alone[7..].iter().all(|p| *p == 0.0));
        let halves = of("A - B", true);
        assert!((halves[0] - 1.0 / 11.5).abs() < 1e-12);
        assert!((halves[7] - 0.5 / 11.5).abs() < 1e-12);
        assert_eq!(of("A + B", true).iter().sum::<f64>(), 0.0);
        assert!((of("A + B", false)[7] - 1.0 / 9.0).abs() < 1e-12);
    }

    #[test]
    fn the_data_can_be_read() {
        let recipe: DataRecipe = toml::from_str(DATA).unwrap();
        assert_eq!(recipe.name, "label-set-toys");
    }
}
