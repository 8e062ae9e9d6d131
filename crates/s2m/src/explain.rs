//! `s2m explain`: why one proposal is kept or not.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use s2m_core::proposals::Purpose;
use s2m_core::query::Query;
use s2m_core::samplers::{Goal, Info, PILOT_BUDGET, reject};
use s2m_core::setting::Setting;
use s2m_core::weight::{Evidence, Explanation};
use s2m_model::bundle::Bundle;
use s2m_model::disk::read_plain_text;
use serde::{Deserialize, Serialize};

use crate::adapt::{Record, Stored};
use crate::cover;
use crate::draw::{Claim, Target, claimed, draw, unclaimed};
use crate::error::Error;
use crate::model::Model;
use crate::models;
use crate::output::csv_fields;
use crate::plan::Planned;
use crate::pool::{Origin, Pool};
use crate::progress::Progress;
use crate::refusal::Refusal;
use crate::report::{Report, RuleName, Shared, Taken};
use crate::sample::PROPOSAL;
use crate::samplers::Details;
use crate::session::{Machine, Session};
use crate::settings::SampleSettings;
use crate::weigh::weigh;

/// Samples of the short draw that fixes the cap.
const PILOT_SAMPLES: usize = 256;

/// Largest proposal number that can be asked for.
const MAX_PROPOSAL: u64 = 1 << 48;

/// One request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Folder or name of the model.
    pub model: &'a Path,
    /// The query.
    pub query: &'a str,
    /// The proposal's number.
    pub proposal: u64,
    /// Folder of a finished run, whose seed, settings and cap then hold.
    pub run: Option<&'a Path>,
    /// Seed and calibration, where no run is named; the sampler is `reject`.
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
    /// Raw logits of the class head.
    pub class_logits: Vec<f32>,
    /// Raw logit of the discriminator.
    pub real_logit: f32,
    /// Class probabilities after the temperature.
    pub class_probabilities: Vec<f64>,
    /// Levels `f` of the labels.
    pub levels: Vec<f64>,
    /// Which posterior weighs: `levels` of the class head, or `joint`.
    pub posterior_by: &'static str,
    /// The label sets that the item can have.
    pub sets: Vec<ExplainedSet>,
    /// Log density of the query, after the margin; null outside the support.
    pub log_density: f64,
    /// Posterior of the query.
    pub posterior: f64,
    /// The floor on it.
    pub floor: f64,
    /// Log odds of the discriminator after temperature and clip.
    pub log_odds: f64,
    /// Conditional term.
    pub log_conditional: f64,
    /// Log density of the prior over that of the adapted proposal; zero without adaptation.
    pub log_latent_ratio: f64,
    /// Log weight; null outside the support.
    pub log_weight: f64,
    /// Log of the cap of `reject`; null for a run of another sampler.
    pub log_cap: Option<f64>,
    /// Probability with which `reject` accepts a proposal of this weight.
    pub acceptance: Option<f64>,
    /// Uniform numbers below this belong to queries that were drawn before with the same proposals; absent where there
    /// are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed: Option<f64>,
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

impl Model {
    /// Explains one proposal of a draw in memory, under its seed, settings and cap.
    ///
    /// A draw that was adapted is not told apart by its report, and is refused.
    pub fn explain(&self, report: &Report, proposal: u64) -> Result<Explained, Error> {
        check_number(proposal)?;
        let bundle = self.bundle();
        if report.adaptation.is_some() {
            return Err(Error::Setting(format!(
                "an adapted draw is explained from its folder\nhint: `s2m explain` with {}",
                Setting("run")
            )));
        }
        let record = RunRecord::from(report);
        if record.bundle_hash != bundle.hash() {
            return Err(Error::Setting(
                "this was drawn from another model".to_owned(),
            ));
        }
        let query = Query::parse(&record.query, bundle.labels())?;
        let run = Run::open(&record, bundle, &self.machine(), &query)?;
        run.explain(proposal)
    }
}

/// What is needed of a finished run's report.
#[derive(Debug, Deserialize)]
struct RunRecord {
    query: String,
    bundle_hash: String,
    seed: u64,
    settings: SampleSettings,
    calibration: RunCalibration,
    #[serde(default)]
    classes: Vec<String>,
    class_rule: Option<RuleName>,
    details: Details,
    adaptation: Option<Record>,
    shared: Option<Shared>,
}

#[derive(Debug, Deserialize)]
struct RunCalibration {
    floor: f64,
}

impl From<&Report> for RunRecord {
    fn from(report: &Report) -> Self {
        Self {
            query: report.query.clone(),
            bundle_hash: report.bundle_hash.clone(),
            seed: report.seed,
            settings: report.settings.clone(),
            calibration: RunCalibration {
                floor: report.calibration.floor,
            },
            classes: report.classes.clone(),
            class_rule: report.class_rule,
            details: report.details.clone(),
            adaptation: report.adaptation.clone(),
            shared: report.shared.clone(),
        }
    }
}

/// A finished draw at work again.
struct Run {
    session: Session,
    pool: Pool,
    target: Target,
    log_cap: Option<f64>,
}

impl Run {
    fn open(
        record: &RunRecord,
        bundle: &Arc<Bundle>,
        machine: &Machine<'_>,
        query: &Query,
    ) -> Result<Self, Error> {
        let mut settings = SampleSettings {
            seed: Some(record.seed),
            ..record.settings.clone()
        };
        settings.overrides.purity = None;
        // Nothing is drawn again, so that no gradient is needed.
        settings.moves = None;
        settings.sampler = SampleSettings::default().sampler;
        settings.overrides.floor = Some(record.calibration.floor);
        let session = Session::open(bundle, machine, &settings, None)?;
        let used = record
            .classes
            .iter()
            .filter_map(|name| bundle.labels().find(name))
            .collect();
        let (pool, mut target) =
            session.known_plan(session.weigh(query)?, used, record.class_rule)?;
        if let Some(shared) = &record.shared {
            target.log_room = shared.log_room;
            let claim = |taken: &Taken| claim(&session, taken, shared.log_room);
            target.claims = shared.before.iter().map(claim).collect::<Result<_, _>>()?;
        }
        let log_cap = record.details.log_cap();
        Ok(Self {
            session,
            pool,
            target,
            log_cap,
        })
    }

    fn explain(mut self, proposal: u64) -> Result<Explained, Error> {
        let Self {
            session,
            pool,
            target,
            log_cap,
        } = &mut self;
        weighed(proposal, session, pool, target, *log_cap)
    }
}

/// Explains one proposal; refused where the query has no samples at all.
pub fn explain(request: &Request<'_>, progress: &dyn Progress) -> Result<Explained, Error> {
    check_number(request.proposal)?;
    let bundle = models::open(request.model)?;
    let query = Query::parse(request.query, bundle.labels())?;
    match request.run {
        None => by_a_short_draw(request, &bundle, &query, progress),
        Some(folder) => by_a_run(request, &bundle, &query, folder),
    }
}

fn check_number(proposal: u64) -> Result<(), Error> {
    if proposal <= MAX_PROPOSAL {
        return Ok(());
    }
    Err(Error::Setting(format!(
        "{} is {proposal}; it must be at most {MAX_PROPOSAL}",
        Setting("proposal")
    )))
}

/// The fate under a cap from a short draw of its own.
fn by_a_short_draw(
    request: &Request<'_>,
    bundle: &Arc<Bundle>,
    query: &Query,
    progress: &dyn Progress,
) -> Result<Explained, Error> {
    let session = Session::open(bundle, &request.machine, &request.settings, None)?;
    let Planned {
        mut pool,
        mut target,
        ..
    } = session.plan(&session.weigh(query)?, None, progress)?;
    let samples = NonZeroUsize::new(PILOT_SAMPLES).expect("256 is not zero");
    let goal = Goal {
        samples,
        max_calls: PILOT_BUDGET,
    };
    let sampler = request.settings.sampler;
    let drawn = draw(&mut pool, &mut target, sampler, goal, progress)?;
    let log_cap = match drawn.outcome.map(|draw| draw.info) {
        Ok(Info::Reject(info)) => Some(info.log_cap),
        Ok(_) => None,
        Err(failure) => return Err(Refusal::of(failure, &target.weighting, sampler).into()),
    };
    weighed(request.proposal, &session, &mut pool, &target, log_cap)
}

/// The fate in a finished run, under its own seed, settings and cap.
fn by_a_run(
    request: &Request<'_>,
    bundle: &Arc<Bundle>,
    query: &Query,
    folder: &Path,
) -> Result<Explained, Error> {
    let path = folder.join("report.json");
    let unreadable = |reason: String| Error::Read {
        path: path.clone(),
        reason,
    };
    let text = read_plain_text(&path).map_err(|e| unreadable(e.to_string()))?;
    let record: RunRecord = serde_json::from_str(&text).map_err(|e| unreadable(e.to_string()))?;
    let conditional = bundle.classes().is_some();
    if record.bundle_hash != bundle.hash() || record.class_rule.is_some() != conditional {
        return Err(Error::Setting(format!(
            "the run in `{}` was drawn from another model",
            folder.display()
        )));
    }
    if Query::parse(&record.query, bundle.labels()).as_ref() != Ok(query) {
        let text = format!(
            "the run in `{}` was drawn for `{}`, not for `{}`",
            folder.display(),
            record.query,
            query.text()
        );
        return Err(Error::Setting(text));
    }
    let mut run = Run::open(&record, bundle, &request.machine, query)?;
    if record.adaptation.is_some() {
        let stored = Stored::open(&folder.join(PROPOSAL), bundle)?;
        if stored.mixture.is_some() {
            let proposals = run.pool.proposals().at_stage(Stored::FRESH_STAGE);
            let mixture = stored.mixture;
            run.pool = run.pool.with_origin(Origin { proposals, mixture });
        }
    }
    let mut explained = run.explain(request.proposal)?;
    let sample = sample_of(request.proposal, &folder.join("metadata.csv"))?;
    explained.verdict = match sample {
        Some(row) => {
            let moved = record.settings.moves.map_or(String::new(), |moves| {
                let steps = moves.get() * record.details.times_moved();
                format!("; that sample was moved from here by {steps} steps along the gradient, so that other numbers hold for it")
            });
            format!("kept: it is sample {row} of the run in `{}`{moved}", folder.display())
        }
        None if explained.accepted => {
            "not in the run: `reject` would have kept it, but the run had all its samples before it came".to_owned()
        }
        None => explained.verdict,
    };
    explained.accepted = sample.is_some();
    Ok(explained)
}

/// What a query took that was drawn before with the same proposals.
fn claim(session: &Session, taken: &Taken, log_room: f64) -> Result<Claim, Error> {
    let bundle = &session.bundle;
    let query = Query::parse(&taken.query, bundle.labels())?;
    let mut settings = session.settings.clone();
    settings.overrides.floor = Some(taken.floor);
    let weighed = weigh(bundle, &query, &settings)?;
    let names = taken.classes.iter();
    let used = names
        .filter_map(|name| bundle.labels().find(name))
        .collect();
    let (weighed, classes) = match bundle.classes() {
        Some(classes) => {
            let shares = cover::equal_shares(used, classes);
            (session.with_classes(weighed, &shares)?, classes as u64)
        }
        None => (weighed, 1),
    };
    Ok(Claim {
        weighting: weighed.weighting,
        log_cap: taken.log_cap,
        log_room,
        classes: (classes, used),
    })
}

/// The row of a run's table that holds a proposal, counted from 0.
fn sample_of(proposal: u64, path: &Path) -> Result<Option<usize>, Error> {
    let fail = |reason: String| Error::Read {
        path: path.to_owned(),
        reason,
    };
    let text = read_plain_text(path).map_err(|e| fail(e.to_string()))?;
    let (header, rows) = text.split_once('\n').unwrap_or((&text, ""));
    let column = csv_fields(header)
        .iter()
        .position(|name| name == "proposal");
    let column = column.ok_or_else(|| fail("it has no column `proposal`".to_owned()))?;
    let wanted = proposal.to_string();
    let holds = |row: &str| csv_fields(row).get(column) == Some(&wanted);
    Ok(rows.lines().position(holds))
}

/// Every step from the proposal's logits to its weight, and its fate under a cap if there is one.
fn weighed(
    number: u64,
    session: &Session,
    pool: &mut Pool,
    target: &Target,
    log_cap: Option<f64>,
) -> Result<Explained, Error> {
    let (rows, log_latent_ratio) = pool.one(number)?;
    let evidence = Evidence {
        log_latent_ratio,
        ..rows.evidence(0)
    };
    let explained = target.weighting.explain(evidence);
    let explained = explained.map_err(|source| Error::Logit {
        proposal: number,
        source,
    })?;
    let uniform = pool.proposals().uniform(Purpose::Accept, number);
    let names = session.bundle.labels();
    let logit = |source| Error::Logit {
        proposal: number,
        source,
    };
    let taken = claimed(&target.claims, number, evidence).map_err(logit)?;
    let own = (explained.log_weight, uniform.ln());
    let (log_weight, log_uniform) =
        unclaimed(&target.claims, number, evidence, own).map_err(logit)?;
    let accepted =
        log_cap.is_some_and(|cap| reject::accepts(log_weight, log_uniform + target.log_room, cap));
    let shared = !target.claims.is_empty() || target.log_room != 0.0;
    let log_left = (-taken).ln_1p();
    let acceptance = |cap: f64| {
        let of_left = (explained.log_weight - log_left - cap).min(0.0) - target.log_room;
        (log_left + of_left).exp()
    };
    Ok(Explained {
        query: target.weighting.query().text().to_owned(),
        proposal: number,
        seed: session.seed,
        class: pool
            .own_class(number)
            .map(|c| names.name(c as usize).to_owned()),
        class_logits: evidence.class_logits.to_vec(),
        real_logit: evidence.real_logit,
        class_probabilities: explained.class.clone(),
        levels: explained
            .log_level
            .iter()
            .map(|level| level.exp())
            .collect(),
        posterior_by: explained.kind.name(),
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
        log_latent_ratio,
        log_weight: explained.log_weight,
        log_cap,
        acceptance: log_cap.map(acceptance),
        claimed: (shared && log_cap.is_some()).then_some(taken),
        uniform,
        accepted,
        verdict: match log_cap {
            Some(_) if shared && uniform < taken && explained.log_weight.is_finite() => {
                "not kept: its uniform number belongs to a query that was drawn before this one"
                    .to_owned()
            }
            Some(_) if accepted && taken > 0.0 => {
                "kept by `reject`: its uniform number lies in the interval of this query".to_owned()
            }
            _ => verdict(&explained, log_cap.map(|_| accepted)),
        },
    })
}

/// The reason in words; `accepted` is none where no cap decided.
fn verdict(explained: &Explanation, accepted: Option<bool>) -> String {
    let text = match accepted {
        _ if explained.under_floor => "not kept: the posterior of the query lies under the floor",
        _ if explained.log_density == f64::NEG_INFINITY => {
            "not kept: the query has no density here, so the item lies outside its support"
        }
        Some(true) => "kept by `reject`: its uniform number lies under its acceptance",
        Some(false) => "not kept by `reject`: its uniform number lies above its acceptance",
        None => "not kept: other proposals came first in its chain or its part of the pool",
    };
    text.to_owned()
}
