//! `s2m classes`: what the generator reaches, joint class by joint class.

use std::collections::HashMap;
use std::path::Path;

use s2m_core::diagnostics::summarise;
use s2m_core::labels::{LabelSet, Labels, Quoted};
use s2m_core::log_sum_exp;
use s2m_core::query::Query;
use s2m_core::samplers::{MIN_SUPPORTED, reject};
use s2m_core::series;
use s2m_core::setting::Setting;
use s2m_model::disk::Column;
use serde::Serialize;

use crate::adapt::{self, AdaptError, Judging};
use crate::cover;
use crate::draw::{Target, item_posterior, pieces, weigh_many};
use crate::error::Error;
use crate::models;
use crate::pool::Pool;
use crate::presence;
use crate::progress::Progress;
use crate::reach::Reach;
use crate::sequence::Sequence;
use crate::session::{Machine, Session};
use crate::settings::{DEFAULT_TV, SampleSettings};
use crate::weigh;

/// Most labels for which all joint classes are listed or drawn.
pub const MAX_JOINT_LABELS: usize = 10;

/// Proposals looked at where there is no bank and nothing else is said.
pub const DEFAULT_PROPOSALS: usize = 1 << 16;

/// One request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Folder or name of the model.
    pub model: &'a Path,
    /// Bank to look into.
    pub bank: Option<&'a Path>,
    /// Proposals to look at; none for all of the bank, or [`DEFAULT_PROPOSALS`].
    pub proposals: Option<usize>,
    /// Classes shown; none for all.
    pub top: Option<usize>,
    /// Seed and calibration.
    pub settings: SampleSettings,
    /// What to score with.
    pub machine: Machine<'a>,
}

/// One joint class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JointClass {
    /// Its query.
    pub query: String,
    /// Estimated share among all items with a label.
    pub share: f64,
    /// Share of the proposals inside its support.
    pub support_share: f64,
    /// Effective sample size of its weights, in proposals.
    pub effective: f64,
    /// Proposals per sample with `reject` at the default distance; none where unreachable.
    pub calls_per_sample: Option<f64>,
    /// Mean posterior of the class over proposals, in proportion to their weights; none without any.
    pub predicted_purity: Option<f64>,
    /// Whether enough supported proposals were seen, and their predicted purity is not too low.
    pub reachable: bool,
    /// Whether the data holds such items: `present`, `undecided` or `absent`; left out where the bundle
    /// does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_data: Option<&'static str>,
    /// The same after adaptation, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapted: Option<AdaptedClass>,
}

/// What adaptation makes of a joint class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdaptedClass {
    /// Proposals spent on the search.
    pub search_calls: usize,
    /// Proposals per sample after it, judged by its last stage, or by its first where the prior is as good;
    /// none where it found nothing.
    pub calls_per_sample: Option<f64>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// Proposals looked at.
    pub proposals: usize,
    /// Joint classes that there are.
    pub joint_classes: u64,
    /// Which posterior weighs items: `joint`, or `levels` of the class head.
    pub posterior: &'static str,
    /// Share of the data that proposals account for by the discriminator, with its interval.
    pub reach: Option<Reach>,
    /// Those shown.
    pub classes: Vec<JointClass>,
}

/// Looks at every joint class, or at the largest ones.
pub fn classes(request: &Request<'_>, progress: &dyn Progress) -> Result<Found, Error> {
    request.settings.adapt.check()?;
    let bundle = models::open(request.model)?;
    let session = Session::open(&bundle, &request.machine, &request.settings, request.bank)?;
    let rows = session.bank_rows() as usize;
    let proposals = request
        .proposals
        .unwrap_or(if rows > 0 { rows } else { DEFAULT_PROPOSALS });
    let mut pool = session.shared_pool(None)?;
    progress.begin("scoring proposals", Some(proposals as u64));
    pool.ensure(proposals, progress)?;
    progress.end();
    let labels = bundle.labels();
    let (sets, log_all) = if labels.len() <= MAX_JOINT_LABELS {
        (every(labels), None)
    } else {
        let top = request.top.ok_or_else(|| {
            Error::Setting(format!(
                "{} labels have too many joint classes to list\nhint: show the largest with {}",
                labels.len(),
                Setting("top").to(50)
            ))
        })?;
        let (sets, log_all) = largest(&session, &pool, proposals, top)?;
        (sets, Some(log_all))
    };
    let mut found = look_at_all(&session, &mut pool, proposals, (sets, log_all), progress)?;
    if let Some(top) = request.top {
        found.keep_largest(top);
    }
    if !request.settings.adapt.is_none() {
        for class in &mut found.classes {
            let query = Query::parse(&class.query, labels)?;
            class.adapted = adapted(&session, &query, progress)?;
        }
    }
    Ok(found)
}

/// The same for all proposals of a pool that is there already; the largest where there are more than `most`.
pub(crate) fn by_pool(
    session: &Session,
    pool: &mut Pool,
    most: usize,
    progress: &dyn Progress,
) -> Result<Found, Error> {
    let (labels, proposals) = (session.bundle.labels(), pool.len());
    if labels.all().bits() <= most as u64 {
        return look_at_all(session, pool, proposals, (every(labels), None), progress);
    }
    let (sets, log_all) = largest(session, pool, proposals, most)?;
    let mut found = look_at_all(session, pool, proposals, (sets, Some(log_all)), progress)?;
    found.keep_largest(most);
    Ok(found)
}

impl Found {
    fn keep_largest(&mut self, top: usize) {
        self.classes.sort_by(|a, b| b.share.total_cmp(&a.share));
        self.classes.truncate(top);
    }
}

/// Every joint class.
fn every(labels: &Labels) -> Vec<LabelSet> {
    (1..=labels.all().bits()).map(LabelSet::from_bits).collect()
}

/// Looks at these joint classes; the log of the mean weight of all is given where there are others.
fn look_at_all(
    session: &Session,
    pool: &mut Pool,
    proposals: usize,
    (sets, log_all): (Vec<LabelSet>, Option<f64>),
    progress: &dyn Progress,
) -> Result<Found, Error> {
    let labels = session.bundle.labels();
    let mut classes = Vec::new();
    let mut masses = Vec::new();
    for query in sets.into_iter().filter_map(|set| Query::joint(set, labels)) {
        let (class, mass) = look(session, pool, &query, proposals, progress)?;
        classes.push(class);
        masses.push(mass);
    }
    // Where only the largest were looked at, the others still count.
    let total = log_all.unwrap_or_else(|| log_sum_exp(masses.iter().copied()));
    for (class, mass) in classes.iter_mut().zip(&masses) {
        class.share = (mass - total).exp();
    }
    Ok(Found {
        proposals,
        joint_classes: labels.all().bits(),
        posterior: weigh::posterior(&session.bundle, &session.settings)?.name(),
        reach: reach(session, pool, proposals, progress)?,
        classes,
    })
}

/// Share of the data that proposals of all classes account for.
fn reach(
    session: &Session,
    pool: &mut Pool,
    proposals: usize,
    progress: &dyn Progress,
) -> Result<Option<Reach>, Error> {
    let labels = session.bundle.labels();
    let Some(any) = Query::joint(labels.all(), labels) else {
        return Ok(None);
    };
    let mut weighed = session.weigh(&any)?;
    if let Some(classes) = session.bundle.classes() {
        weighed = session.with_classes(weighed, &cover::equal_shares(labels.all(), classes))?;
    }
    let mut target = Target::new(weighed, Sequence::all());
    weigh_many(pool, &mut target, proposals, progress)?;
    Reach::of(&session.bundle, pool, &target, proposals)
}

/// What adaptation makes of one joint class; none where its pilot finds too little.
fn adapted(
    session: &Session,
    query: &Query,
    progress: &dyn Progress,
) -> Result<Option<AdaptedClass>, Error> {
    let target = session.own_target(&session.weigh(query)?)?;
    let found = adapt::find(
        session,
        &target,
        adapt::DEFAULT_SAMPLES,
        Judging::Skipped,
        progress,
    );
    match found {
        Ok(found) => {
            let stages = &found.record.stages;
            let stage = match found.mixture {
                Some(_) => stages.last(),
                None => stages.first(),
            };
            Ok(Some(AdaptedClass {
                search_calls: found.record.calls,
                calls_per_sample: stage.and_then(|stage| stage.calls_per_sample),
            }))
        }
        Err(Error::Refused(_) | Error::Adapt(AdaptError::TooFewPilots { .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

/// One joint class, and the log of its mean weight.
fn look(
    session: &Session,
    pool: &mut Pool,
    query: &Query,
    proposals: usize,
    progress: &dyn Progress,
) -> Result<(JointClass, f64), Error> {
    let mut target = session.plan_shared(&session.weigh(query)?, pool, progress)?;
    // A joint class needs one class of a conditional generator, which is every n-th proposal.
    let positions = proposals / session.bundle.classes().unwrap_or(1);
    let log_weights = weigh_many(pool, &mut target, positions, progress)?;
    let summary = summarise(&log_weights);
    let supported = series::finite(&log_weights);
    let predicted_purity = expected_purity(pool, &target, &log_weights)?;
    let settings = &session.settings;
    let pure = predicted_purity.is_some_and(|purity| purity >= presence::least_purity(settings));
    let reachable = supported >= MIN_SUPPORTED && (pure || !presence::asks(settings));
    let mean = series::log_sum_exp(&log_weights) - (positions.max(1) as f64).ln();
    let class = JointClass {
        query: query.text().to_owned(),
        share: 0.0,
        support_share: summary.support_share,
        effective: summary.weight_ess * positions as f64,
        calls_per_sample: reachable
            .then(|| reject::calls_per_sample(&log_weights, DEFAULT_TV))
            .flatten(),
        predicted_purity,
        reachable,
        in_data: presence::of(&session.bundle, query).map(|seen| seen.verdict.name()),
        adapted: None,
    };
    log_weights.check()?;
    Ok((class, mean))
}

/// Mean prediction over proposals in proportion to their weights.
fn expected_purity(
    pool: &Pool,
    target: &Target,
    log_weights: &Column<f64>,
) -> Result<Option<f64>, Error> {
    let largest = series::largest(log_weights);
    let (mut sum, mut total) = (0.0, 0.0);
    for positions in pieces(0..log_weights.len()) {
        let mut weights = log_weights.read(positions.clone())?;
        for weight in &mut weights {
            *weight = (*weight - largest).exp();
        }
        let mut numbers = target.sequence.numbers(positions);
        let mut each = weights.iter();
        numbers.retain(|_| each.next().is_some_and(|weight| *weight > 0.0));
        let mut weighty = weights.iter().filter(|weight| **weight > 0.0);
        pool.look_at(&numbers, &mut |number, evidence| {
            let item = item_posterior(target, number, evidence)?;
            let weight = weighty.next().copied().unwrap_or(0.0);
            sum += weight * target.weighting.predicted(&item);
            total += weight;
            Ok(())
        })?;
    }
    Ok((total > 0.0).then(|| sum / total))
}

/// The label sets that hold most of the weight, and the log of the mean weight of all.
fn largest(
    session: &Session,
    pool: &Pool,
    proposals: usize,
    top: usize,
) -> Result<(Vec<LabelSet>, f64), Error> {
    let labels = session.bundle.labels();
    let any: Vec<String> = labels
        .names()
        .map(|name| Quoted(name).to_string())
        .collect();
    let query = Query::parse(&any.join(" | "), labels)?;
    let mut weighed = session.weigh(&query)?;
    if let Some(classes) = session.bundle.classes() {
        weighed = session.with_classes(weighed, &cover::equal_shares(labels.all(), classes))?;
    }
    let mut masses: HashMap<LabelSet, f64> = HashMap::new();
    pool.look_at_first(proposals, &mut |proposal, evidence| {
        let explained = weighed.weighting.explain(evidence);
        let explained = explained.map_err(|source| Error::Logit { proposal, source })?;
        for (set, _, log_density) in explained.sets.into_iter().filter(|s| s.2.is_finite()) {
            let mass = log_density + explained.log_odds - explained.log_conditional;
            let sum = masses.entry(set).or_insert(f64::NEG_INFINITY);
            *sum = log_sum_exp([*sum, mass].into_iter());
        }
        Ok(())
    })?;
    let mut ranked: Vec<(LabelSet, f64)> = masses.into_iter().collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let log_all = log_sum_exp(ranked.iter().map(|(_, mass)| *mass)) - (proposals as f64).ln();
    Ok((
        ranked.into_iter().take(top).map(|(set, _)| set).collect(),
        log_all,
    ))
}
