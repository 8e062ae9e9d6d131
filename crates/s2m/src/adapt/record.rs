//! What adaptation did, stage by stage; part of `report.json` and of a stored proposal.

use s2m_core::adaptation;
use s2m_core::mixture::{Covariance, Mixture};
use serde::{Deserialize, Serialize};

/// Share of the target's weight that may lie outside all components before it is said.
const MOST_UNCOVERED: f64 = 0.05;

/// How often a statement about what is missing may be wrong.
pub(super) const MISS: f64 = 0.05;

/// Everything about one adaptation that can be traced later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// `once`, `repeat` or `adaptive`.
    pub method: String,
    /// Every stage of proposals, in order.
    pub stages: Vec<StageRecord>,
    /// Proposals scored in all of them.
    pub calls: usize,
    /// What the final proposal is; none where the prior is as good.
    pub proposal: Option<ProposalRecord>,
    /// Share of the pilot's weight that the proposal reaches through its share of the prior alone.
    pub uncovered: f64,
    /// Effective number of proposals in all stages together, for `resample`.
    pub effective: f64,
    /// Why it stopped there.
    pub stopped: String,
    /// What fresh proposals of the prior, which the search never used, say about what it may have missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
    /// Share of the target of each part, where judging found some missing: first of what the search had found, where
    /// it had found something, then of each part that got components of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<f64>,
}

/// How much of the target an adapted proposal may miss, judged on fresh proposals of the prior.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// Fresh proposals of the prior.
    pub proposals: usize,
    /// How many of them `reject` would accept, expected: `Σ min(w, c)/c`.
    pub accepted: f64,
    /// Accepted ones that lie where the proposal has no component.
    pub uncovered: usize,
    /// How often a proposal was judged: one with something uncovered is mended and judged anew.
    pub rounds: u32,
    /// Log of the cap `c` on weights under the prior.
    pub log_cap: f64,
    /// Share of the prior's proposals that such a cap accepts.
    pub share: f64,
    /// How often this round may be wrong; all rounds together are at most in 5 of 100.
    #[serde(default = "whole_miss")]
    pub miss: f64,
}

fn whole_miss() -> f64 {
    MISS
}

/// How often one of several rounds may be wrong: half of what is left after those before it.
pub(super) fn miss_of_round(round: u32) -> f64 {
    MISS * 0.5_f64.powi(round as i32)
}

impl Coverage {
    /// Share of the target that may be missing at 95 %, where as many accepted proposals of the prior as
    /// `further` came on top: about `3/(N·Z)` where none lies beyond the components of a mixture that was judged
    /// once, and more where it could be judged again.
    pub fn may_be_missing(&self, further: f64) -> f64 {
        let expected = adaptation::most_expected(self.uncovered, self.miss);
        let judged = match self.uncovered {
            0 => self.accepted + further,
            _ => self.accepted,
        };
        (expected / judged).min(1.0)
    }
}

/// One stage of proposals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    /// Number of the stage; 0 is the prior.
    pub stage: u16,
    /// What the proposals were drawn from.
    pub drawn_from: String,
    /// The query that is weighed in this stage.
    pub query: String,
    /// Proposals scored.
    pub proposals: usize,
    /// Those inside the query's support.
    pub supported: usize,
    /// Effective number of their weights.
    pub effective: f64,
    /// Expected acceptance of a chain of `mh`.
    pub acceptance: f64,
    /// Calls per sample, judged by this stage: with `reject`, or per effective proposal for `mh` with a
    /// fixed number of steps and for `resample`. None where hardly anything is supported.
    pub calls_per_sample: Option<f64>,
}

/// A mixture in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProposalRecord {
    /// Components, the prior not counted.
    pub components: usize,
    /// `shared`, `diagonal` or `full`.
    pub covariance: String,
    /// Share of the prior.
    pub prior_share: f64,
    /// Numbers in a latent.
    pub size: usize,
}

impl ProposalRecord {
    pub(crate) fn of(mixture: &Mixture) -> Self {
        Self {
            components: mixture.components(),
            covariance: covariance_name(mixture.covariance()).to_owned(),
            prior_share: mixture.prior_share(),
            size: mixture.size(),
        }
    }
}

pub(crate) fn covariance_name(covariance: Covariance) -> &'static str {
    match covariance {
        Covariance::Shared => "shared",
        Covariance::Diagonal => "diagonal",
        Covariance::Full => "full",
    }
}

impl Record {
    /// Proposals of the first stage that a bank of this size had scored before.
    pub(crate) fn banked(&self, rows: usize) -> usize {
        self.stages
            .first()
            .map_or(0, |first| first.proposals.min(rows))
    }

    /// What a person should know.
    pub fn warnings(&self) -> Vec<String> {
        let lost = (self.uncovered > MOST_UNCOVERED).then(|| {
            format!(
                "adaptation lost a part of the target: {:.0} % of the pilot's weight lies where the adapted proposal has no component, so such items come only through its share of the prior and cost many calls",
                100.0 * self.uncovered
            )
        });
        lost.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_part_is_told_and_a_small_one_is_not() {
        let record = |uncovered| Record {
            method: "once".to_owned(),
            stages: Vec::new(),
            calls: 0,
            proposal: None,
            uncovered,
            effective: 0.0,
            stopped: String::new(),
            coverage: None,
            parts: Vec::new(),
        };
        assert!(record(0.04).warnings().is_empty());
        let told = record(0.25).warnings();
        assert!(
            told[0].starts_with("adaptation lost a part of the target: 25 %"),
            "{told:?}"
        );
    }

    /// 3/(N·Z) where nothing lies beyond the components, by whatever came on top; more where something does, and
    /// where a mixture had to be judged again.
    #[test]
    fn what_may_be_missing_is_what_proposals_of_the_prior_cannot_exclude() {
        let coverage = |uncovered, miss| Coverage {
            proposals: 100_000,
            accepted: 100.0,
            uncovered,
            rounds: 1,
            log_cap: 0.0,
            share: 0.001,
            miss,
        };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-4, "{a} for {b}");
        close(coverage(0, MISS).may_be_missing(0.0), 0.029_957);
        close(coverage(0, MISS).may_be_missing(100.0), 0.014_979);
        close(coverage(0, miss_of_round(1)).may_be_missing(0.0), 0.036_889);
        close(coverage(1, MISS).may_be_missing(100.0), 0.047_439);
        let all: f64 = (1..=20).map(miss_of_round).sum();
        assert!(all <= MISS && all > 0.999 * MISS, "{all}");
    }
}
