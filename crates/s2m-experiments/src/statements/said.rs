//! What whole draws say of themselves: a purity that was asked for beside what was delivered, rows of `--all-joint` and
//! the proposals behind them, and data that no proposal reaches.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use s2m::Model;
use s2m::output::Existing;
use s2m::reach::Reach;
use s2m::sample::{Request, Wanted, sample};
use s2m::settings::SampleSettings;
use s2m_core::diagnostics::Mean;
use serde::{Deserialize, Serialize};

use super::laws::Law;
use crate::Error;
use crate::evaluation::Evaluator;

/// Purities that are asked for, of whom, and the seeds.
const ASKED: [(&str, &str); 3] = [
    ("mnist-even", "A - B"),
    ("mnist-3-5", "A - B"),
    ("mnist-even-conditional", "A - B"),
];
const PURITIES: [f64; 3] = [0.9, 0.95, 0.98];
const SEEDS: std::ops::Range<u64> = 7000..7003;

/// Samples of each draw.
const SAMPLES: NonZeroUsize = NonZeroUsize::new(2000).expect("2000 is not zero");

/// The model whose joint classes are drawn together, without a floor, so that one proposal has weight for several.
const JOINT: &str = "gaussians-exact";

/// Runs of a generator that never makes 5.5 % of the data, and proposals of each.
const UNREACHED: f64 = 0.055;
const REACH_RUNS: u64 = 300;
const REACHED: usize = 5000;

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Said {
    /// Draws with a purity that was asked for, and those whose answer was no.
    pub(super) asked: usize,
    pub(super) refused: usize,
    /// Delivered less asked: the least and the largest.
    pub(super) between: [f64; 2],
    /// Those with the purity that was asked for outside the interval of what was delivered, and how many of them said it.
    pub(super) off: usize,
    pub(super) told: usize,
    /// Rows of `--all-joint`, and those that share a proposal with another.
    pub(super) rows: usize,
    pub(super) shared: usize,
    /// Runs that miss a part of the data, and those that do not say so.
    pub(super) unreached: usize,
    pub(super) silent: usize,
}

/// All of it, measured once.
pub(super) fn measure(evaluator: &Evaluator<'_>) -> Result<Said, Error> {
    let identity = format!("{ASKED:?} {PURITIES:?} {SEEDS:?} {SAMPLES} {JOINT} {UNREACHED} said 1");
    evaluator.kept("said", &[&identity], || {
        let mut said = Said {
            asked: 0,
            refused: 0,
            between: [f64::INFINITY, f64::NEG_INFINITY],
            off: 0,
            told: 0,
            rows: 0,
            shared: 0,
            unreached: REACH_RUNS as usize,
            silent: (0..REACH_RUNS).filter(|seed| !warns(7000 + seed)).count(),
        };
        for (model, query) in ASKED {
            let model = Model::open(model)?.with_machine(evaluator.machine);
            for (purity, seed) in PURITIES.iter().flat_map(|p| SEEDS.map(move |s| (*p, s))) {
                said.asked += 1;
                let ask = model.query(query)?.seed(seed).purity(purity);
                let report = match ask.select(SAMPLES.get(), evaluator.progress) {
                    Err(s2m::Error::Refused(_)) => {
                        said.refused += 1;
                        continue;
                    }
                    selected => selected?.report(0.0),
                };
                let more = report.predicted_purity - purity;
                said.between = [said.between[0].min(more), said.between[1].max(more)];
                let [low, high] = report.predicted_between;
                let off = !(low..=high).contains(&purity);
                let told = |text: &String| text.starts_with("a purity of");
                said.off += usize::from(off);
                said.told += usize::from(off && report.warnings.iter().any(told));
            }
        }
        fs::create_dir_all(&evaluator.work).map_err(Error::write(&evaluator.work))?;
        let mut settings = SampleSettings {
            seed: Some(SEEDS.start),
            ..SampleSettings::default()
        };
        settings.overrides.floor = Some(0.0);
        let request = Request {
            model: Path::new(JOINT),
            wanted: Wanted::AllJoint,
            samples: SAMPLES,
            settings,
            machine: evaluator.machine.clone(),
            bank: None,
            proposal: None,
            out: &evaluator.work.join("all-joint"),
            existing: Existing::Replace,
        };
        for report in sample(&request, evaluator.progress)?.into_iter().flatten() {
            said.rows += report.samples;
            said.shared += report.duplicates;
        }
        Ok(said)
    })
}

/// Whether a run says that proposals account for less than all of the data.
fn warns(seed: u64) -> bool {
    let share: f64 = 1.0 - UNREACHED;
    let law = Law::Lognormal(0.5);
    let mut log_odds = law.log_weights(seed, REACHED);
    let scale = (share / law.mean()).ln();
    for log in &mut log_odds {
        *log += scale;
    }
    Mean::of_logs(&log_odds).is_some_and(|mean| {
        let reach = Reach {
            share: mean.value,
            between: mean.between,
            auc: None,
        };
        reach.warning().is_some()
    })
}
