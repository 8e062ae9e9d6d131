//! `s2m explain`: why one proposal is kept or not.

use std::num::NonZeroUsize;
use std::path::Path;

use s2m_core::proposals::Purpose;
use s2m_core::query::Query;
use s2m_core::samplers::{Goal, Info, PILOT_BUDGET, reject};
use s2m_core::weight::Explanation;
use serde::Serialize;

use crate::draw::{class, draw};
use crate::error::Error;
use crate::models;
use crate::progress::Progress;
use crate::session::{Machine, Refusal, Session, refusal};
use crate::settings::{DEFAULT_TV, SampleSettings, SamplerChoice};

/// Samples of the short draw that fixes the cap.
const PILOT_SAMPLES: usize = 256;

/// One request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Folder or name of the model.
    pub model: &'a Path,
    /// The query.
    pub query: &'a str,
    /// The proposal's number.
    pub proposal: u64,
    /// Seed and calibration.
    pub settings: SampleSettings,
    /// What to score with.
    pub machine: Machine<'a>,
}

/// One proposal, explained.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explained {
    /// The query as typed.
    pub query: String,
    /// The proposal's number.
    pub proposal: u64,
    /// Seed of the proposals.
    pub seed: u64,
    /// Class that a conditional generator was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Raw logits of the class output.
    pub class_logits: Vec<f32>,
    /// Raw logit of the real output.
    pub real_logit: f32,
    /// Class probabilities after the temperature.
    pub class_probabilities: Vec<f64>,
    /// Levels `f` of the labels.
    pub levels: Vec<f64>,
    /// The label sets that the item can have.
    pub sets: Vec<ExplainedSet>,
    /// Log density of the query, after the margin; null outside the support.
    pub log_density: f64,
    /// Posterior of the query.
    pub posterior: f64,
    /// The floor on it.
    pub floor: f64,
    /// Log odds of the real output after temperature and clip.
    pub log_odds: f64,
    /// Conditional term.
    pub log_conditional: f64,
    /// Log weight; null outside the support.
    pub log_weight: f64,
    /// Log of the cap of a short draw with `reject`.
    pub log_cap: f64,
    /// Probability with which `reject` accepts a proposal of this weight.
    pub acceptance: f64,
    /// The proposal's own uniform number.
    pub uniform: f64,
    /// Whether it is accepted.
    pub accepted: bool,
    /// The reason in words.
    pub verdict: String,
}

/// One label set that the item can have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExplainedSet {
    /// Its labels.
    pub labels: Vec<String>,
    /// Whether the query holds on it.
    pub holds: bool,
    /// Its density.
    pub density: f64,
}

/// Explains one proposal; refused where the query has no samples at all.
pub fn explain(
    request: &Request<'_>,
    progress: &dyn Progress,
) -> Result<Result<Explained, Refusal>, Error> {
    let bundle = models::open(request.model)?;
    let query = Query::parse(request.query, bundle.labels())?;
    let session = Session::open(&bundle, &request.machine, &request.settings, None)?;
    let (mut pool, target) = session.plan(&query, None, progress)?;
    let tv = match request.settings.sampler {
        SamplerChoice::Reject { tv } => tv,
        _ => DEFAULT_TV,
    };
    let goal = Goal {
        samples: NonZeroUsize::new(PILOT_SAMPLES).expect("256 is not zero"),
        max_calls: PILOT_BUDGET,
    };
    let drawn = draw(
        &mut pool,
        &target,
        SamplerChoice::Reject { tv },
        goal,
        progress,
    )?;
    let log_cap = match drawn.outcome.map(|draw| draw.info) {
        Ok(Info::Reject(info)) => info.log_cap,
        Ok(_) => f64::INFINITY,
        Err(failure) => return Ok(Err(refusal(failure, &target.weighting))),
    };
    let number = request.proposal;
    let rows = pool.one(number)?;
    let evidence = rows.evidence(0);
    let explained = target.weighting.explain(evidence);
    let explained = explained.map_err(|source| Error::Logit {
        proposal: number,
        source,
    })?;
    let uniform = pool.proposals().uniform(Purpose::Accept, number);
    let names = bundle.labels();
    let accepted = reject::accepts(explained.log_weight, uniform.ln(), log_cap);
    Ok(Ok(Explained {
        query: query.text().to_owned(),
        proposal: number,
        seed: session.seed,
        class: class(&pool, number).map(|c| names.name(c as usize).to_owned()),
        class_logits: evidence.class_logits.to_vec(),
        real_logit: evidence.real_logit,
        class_probabilities: explained.class.clone(),
        levels: explained
            .log_level
            .iter()
            .map(|level| level.exp())
            .collect(),
        sets: explained
            .sets
            .iter()
            .map(|(set, holds, log_density)| ExplainedSet {
                labels: set.iter().map(|l| names.name(l).to_owned()).collect(),
                holds: *holds,
                density: log_density.exp(),
            })
            .collect(),
        log_density: explained.log_density,
        posterior: explained.posterior,
        floor: target.weighting.floor(),
        log_odds: explained.log_odds,
        log_conditional: explained.log_conditional,
        log_weight: explained.log_weight,
        log_cap,
        acceptance: (explained.log_weight - log_cap).min(0.0).exp(),
        uniform,
        accepted,
        verdict: verdict(&explained, accepted),
    }))
}

fn verdict(explained: &Explanation, accepted: bool) -> String {
    let text = if explained.under_floor {
        "not kept: the posterior of the query lies under the floor"
    } else if explained.log_density == f64::NEG_INFINITY {
        "not kept: the query has no density here, so the item lies outside its support"
    } else if accepted {
        "kept by `reject`: its uniform number lies under its acceptance"
    } else {
        "not kept by `reject`: its uniform number lies above its acceptance"
    };
    text.to_owned()
}
