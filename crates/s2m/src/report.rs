//! What is said about a draw; `report.json` holds exactly this.

use std::collections::BTreeMap;

use s2m_core::labels::Labels;
use s2m_model::manifest::LabellingModel;
use serde::{Deserialize, Serialize};

use crate::adapt::Record;
use crate::draw::{Claim, Target};
use crate::moved::MovesRecord;
pub use crate::pool::RuleName;
use crate::reach::Reach;
use crate::refusal::Refusal;
use crate::samplers::Details;
use crate::settings::SampleSettings;
pub use crate::weigh::AppliedCalibration;

/// Everything about one draw that can be traced later.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Name of the model.
    pub model: String,
    /// SHA-256 of the bundle.
    pub bundle_hash: String,
    /// The query as typed.
    pub query: String,
    /// The sampler's name.
    pub sampler: String,
    /// Seed of the proposals.
    pub seed: u64,
    /// Where the networks ran.
    pub device: String,
    /// Whether results can be repeated bit by bit; false for `--fast`.
    pub reproducible: bool,
    /// All settings, resolved.
    pub settings: SampleSettings,
    /// The calibration that was in force.
    pub calibration: AppliedCalibration,
    /// The labelling mechanism of the bundle; under `per-class` nothing is said about items without any label.
    pub labelling: LabellingModel,
    /// Classes asked of a conditional generator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// How its classes are dealt out to proposals; null for an unconditional one.
    pub class_rule: Option<RuleName>,
    /// Software versions.
    pub versions: BTreeMap<String, String>,
    /// Samples written.
    pub samples: usize,
    /// Proposals scored: pilot, search and sampling; a gradient of moves counts as three.
    pub generator_calls: usize,
    /// Of these, proposals that a bank had scored before.
    pub from_bank: usize,
    /// Proposals generated again for output.
    pub render_calls: usize,
    /// `generator_calls / samples`.
    pub calls_per_sample: f64,
    /// Estimated total variation distance from the target; null where not known.
    pub tv_estimate: Option<f64>,
    /// The estimate plus 2.58 standard errors (`reject`: 3.09), what may lie beyond the largest weight seen, and what adaptation may
    /// miss; null where that would not be honest.
    pub tv_bound: Option<f64>,
    /// Share of the target that an adapted proposal may miss at 95 %, which the bound includes; absent without
    /// adaptation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub may_be_missing: Option<f64>,
    /// Accepted proposals or steps as a share of all.
    pub acceptance: f64,
    /// Effective sample size of the weights as a share of the proposals.
    pub weight_ess: f64,
    /// Largest over mean weight: a lower estimate of M.
    pub m_at_least: f64,
    /// Share of all weight held by the largest.
    pub largest_weight_share: f64,
    /// Pareto tail index of the weights; null for too few weights or no tail at all.
    pub tail_index: Option<f64>,
    /// Share of proposals inside the query's support: by `levels`, those whose levels are in an order that the
    /// query allows, however little posterior they have; it is no mass.
    pub support_share: f64,
    /// Mean posterior of the query over the samples, corrected by an audit or by networks that had no part in
    /// selecting, where the bundle has one or the other. Under `per-class` labels items without any label are left
    /// out: it is the share of right ones among those that have a label.
    pub predicted_purity: f64,
    /// The same as the network that selected says it.
    pub plain_purity: f64,
    /// 95 % interval of the mean posterior, over draws of as many samples.
    pub predicted_between: [f64; 2],
    /// The purity that was asked for, where one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_purity: Option<f64>,
    /// Share of the data that proposals account for by the discriminator, with its interval.
    pub reach: Option<Reach>,
    /// Samples that repeat another, of this query or of another one that was drawn with it.
    pub duplicates: usize,
    /// What adaptation of the latent distribution did; absent without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptation: Option<Record>,
    /// How samples were moved along the gradient; absent where they were not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moves: Option<MovesRecord>,
    /// What other queries had taken of the shared proposals; absent where the query was drawn alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<Shared>,
    /// What only the sampler can tell.
    pub details: Details,
    /// Things to know.
    pub warnings: Vec<String>,
    /// Wall-clock seconds of the run that finished.
    pub seconds: f64,
}

/// How one query ended: samples were written, or the answer is no and nothing was.
pub type Answer = Result<Report, Refusal>;

/// How proposals are shared with queries that are drawn with this one, so that none goes to two of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shared {
    /// Log of what the acceptance is divided by, so that those of all queries fit into 1.
    pub log_room: f64,
    /// The queries before this one, in their order.
    pub before: Vec<Taken>,
}

impl Shared {
    /// How a target shares its proposals; none where it does not.
    pub(crate) fn of(target: &Target, labels: &Labels) -> Option<Self> {
        let taken = |claim: &Claim| {
            let conditional = claim.classes.0 > 1;
            let classes = claim.classes.1.iter().filter(|_| conditional);
            Taken {
                query: claim.weighting.query().text().to_owned(),
                log_cap: claim.log_cap,
                floor: claim.weighting.floor(),
                classes: classes.map(|c| labels.name(c).to_owned()).collect(),
            }
        };
        let alone = target.claims.is_empty() && target.log_room == 0.0;
        (!alone).then(|| Self {
            log_room: target.log_room,
            before: target.claims.iter().map(taken).collect(),
        })
    }
}

/// What one of them takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// The query.
    pub query: String,
    /// Log of its cap, on weights over what was left when it was drawn.
    pub log_cap: f64,
    /// Its floor.
    pub floor: f64,
    /// Classes that it asked of a conditional generator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
}
