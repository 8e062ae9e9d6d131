//! The paper's adaptation: chains of Metropolis–Hastings find pilot latents, a mixture is fitted to them.
//!
//! `once` is its Algorithm 2: one pilot for the whole query, from the prior. `repeat` is its Algorithm 3:
//! the query grows label by label, and each pilot is drawn from the mixture that the one before it
//! left, so that the cost grows with the number of labels and not with the product of their odds.
//!
//! Here as there all components share one covariance. Unlike there the mixture keeps a share of the
//! prior, since without it weights have no bound.

use std::num::NonZeroUsize;
use std::sync::Arc;

use s2m_core::diagnostics::expected_acceptance;
use s2m_core::labels::{LabelSet, Labels, Quoted};
use s2m_core::mixture::em::{Settings, fit};
use s2m_core::mixture::{Covariance, Mixture};
use s2m_core::query::Query;

use super::parts::{Beyond, Judged, settle};
use super::record::{ProposalRecord, Record};
use super::search::Search;
use super::{AdaptError, Found, Judging, uncovered};
use crate::draw::{Target, chains, weigh_first};
use crate::error::Error;
use crate::pilot::Pilot;
use crate::pool::Pool;
use crate::progress::Silent;

/// Proposals by which the next label is chosen; they are the first of its pilot.
const TRIAL: usize = 512;

/// Different pilot latents that a mixture needs at least, per dimension and component.
const PILOTS_PER_NUMBER: usize = 2;

/// One label of a query, wanted or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Literal {
    label: usize,
    present: bool,
}

/// One pilot for the whole query.
pub(super) fn once(
    search: &mut Search<'_>,
    pilot: Pilot,
    prior_share: f64,
) -> Result<(Found, Pilots), Error> {
    let target = search.target.clone();
    let pool = search.next_pool(None)?;
    let (mixture, pilots) = step(search, target, pool, "prior", pilot)?;
    finish(search, "once", mixture, pilots, prior_share)
}

/// One pilot per label.
pub(super) fn repeat(
    search: &mut Search<'_>,
    pilot: Pilot,
    order: Option<&[String]>,
    prior_share: f64,
) -> Result<(Found, Pilots), Error> {
    let query = search.target.weighting.query().clone();
    let labels = search.session.bundle.labels();
    let mut left = literals(&query)?;
    let first = search.target.classes;
    let given = order.map(|names| read_order(names, &left, labels, first));
    let mut given = given.transpose()?;
    let mut taken: Vec<Literal> = Vec::new();
    let mut mixture: Option<Arc<Mixture>> = None;
    let mut pilots = Pilots::default();
    while !left.is_empty() {
        let mut pool = search.next_pool(mixture.clone())?;
        let next = match &mut given {
            Some(order) => order.remove(0),
            None => likeliest(search, &mut pool, &taken, &left)?,
        };
        left.retain(|literal| *literal != next);
        taken.push(next);
        let target = partial(search, &taken)?;
        let drawn_from = match &mixture {
            None => "prior".to_owned(),
            Some(mixture) => format!(
                "{} components fitted to the pilot before",
                mixture.components()
            ),
        };
        // Between pilots the prior keeps its share too: what one label's fit lost, the next can find.
        let found;
        (found, pilots) = step(search, target, pool, &drawn_from, pilot)?;
        mixture = Some(Arc::new(with_share(found, prior_share)?));
    }
    let mixture = mixture.ok_or(AdaptError::NotPlain {
        query: query.text().to_owned(),
    })?;
    finish(
        search,
        "repeat",
        Mixture::clone(&mixture),
        pilots,
        prior_share,
    )
}

/// What is left of a pilot.
#[derive(Debug, Default)]
pub(super) struct Pilots {
    /// Latents that chains ended on.
    points: Vec<f32>,
    /// Log weights under the prior of all proposals, and the log of what each stands for.
    log_scores: Vec<f64>,
    log_ratios: Vec<f64>,
}

/// Says what a mixture may miss, by fresh proposals of the prior.
pub(super) fn judge(
    search: &mut Search<'_>,
    (mut found, pilots): (Found, Pilots),
    samples: NonZeroUsize,
    judging: Judging,
) -> Result<Found, Error> {
    if judging == Judging::Skipped {
        return Ok(found);
    }
    let most_calls = search.session.settings.max_calls;
    let judged = Judged {
        log_scores: &pilots.log_scores,
        log_ratios: &pilots.log_ratios,
        samples,
        distance: search.price.distance(),
        most_calls: most_calls.map_or(usize::MAX, |calls| calls / 4),
        beyond: Beyond::Counted,
    };
    let settled = settle(search, found.mixture, &judged)?;
    found.mixture = settled.mixture;
    found.record.coverage = settled.coverage;
    found.record.stages.clone_from(&search.stages);
    found.record.calls = search.calls;
    Ok(found)
}

/// Draws one pilot and fits a mixture to it; gives what is left of the pilot too.
fn step(
    search: &mut Search<'_>,
    mut target: Target,
    mut pool: Pool,
    drawn_from: &str,
    pilot: Pilot,
) -> Result<(Mixture, Pilots), Error> {
    let title = format!("pilot for {}", target.weighting.query().text());
    let calls = pilot.pilots.get().saturating_mul(pilot.steps.get());
    search.progress.begin(&title, Some(calls as u64));
    let found = chains(
        &mut pool,
        &mut target,
        pilot.pilots,
        pilot.steps,
        search.progress,
    );
    search.progress.end();
    let (ends, log_weights) = found?;
    search.note(&target, &log_weights, drawn_from);
    let mut rows: Vec<u64> = ends.iter().flatten().map(|&row| row as u64).collect();
    rows.sort_unstable();
    let supported = log_weights.iter().filter(|w| w.is_finite()).count();
    let needed = PILOTS_PER_NUMBER * (search.size + pilot.components.get());
    if rows.len() < needed {
        return Err(AdaptError::TooFewPilots {
            query: target.weighting.query().text().to_owned(),
            found: rows.len(),
            pilot,
            supported,
            needed,
            size: search.size,
        }
        .into());
    }
    let points = pool.normal_latents(&rows);
    let settings = Settings {
        components: pilot.components,
        covariance: Covariance::Shared,
        ..Settings::default()
    };
    let fitted = fit(
        &points,
        &vec![0.0; rows.len()],
        &settings,
        search.proposals(),
    );
    let fitted = fitted.map_err(AdaptError::Fit)?;
    let rows = pool.rows(0..log_weights.len())?;
    let log_ratios: Vec<f64> = (0..log_weights.len())
        .map(|row| rows.log_ratio(row))
        .collect();
    let pilots = Pilots {
        points,
        log_scores: log_weights
            .iter()
            .zip(&log_ratios)
            .map(|(weight, ratio)| weight - ratio)
            .collect(),
        log_ratios,
    };
    Ok((fitted.mixture, pilots))
}

fn with_share(mixture: Mixture, prior_share: f64) -> Result<Mixture, Error> {
    let mixture = mixture.with_prior_share(prior_share);
    Ok(mixture.map_err(AdaptError::Fit)?)
}

fn finish(
    search: &Search<'_>,
    method: &str,
    mixture: Mixture,
    pilots: Pilots,
    prior_share: f64,
) -> Result<(Found, Pilots), Error> {
    let points = &pilots.points;
    let mixture = with_share(mixture, prior_share)?;
    let count = points.len() / search.size;
    let record = Record {
        method: method.to_owned(),
        stages: search.stages.clone(),
        calls: search.calls,
        proposal: Some(ProposalRecord::of(&mixture)),
        uncovered: uncovered(Some(&mixture), points, &vec![0.0; count]),
        effective: count as f64,
        stopped: "all pilots were drawn".to_owned(),
        coverage: None,
        parts: Vec::new(),
    };
    let found = Found {
        mixture: Some(Arc::new(mixture)),
        record,
        recycled: None,
    };
    Ok((found, pilots))
}

/// The labels of a plain query, those to be present first.
fn literals(query: &Query) -> Result<Vec<Literal>, AdaptError> {
    let (present, absent) = query.conjunction().ok_or_else(|| AdaptError::NotPlain {
        query: query.text().to_owned(),
    })?;
    let literal = |present| move |label| Literal { label, present };
    let present = present.iter().map(literal(true));
    Ok(present.chain(absent.iter().map(literal(false))).collect())
}

/// A given order, checked: each label of the query once, and one to be present first; where a
/// conditional generator is asked for some classes, one of them.
fn read_order(
    names: &[String],
    wanted: &[Literal],
    labels: &Labels,
    classes: LabelSet,
) -> Result<Vec<Literal>, AdaptError> {
    let fault = |reason: String| AdaptError::Order { reason };
    let mut order = Vec::new();
    for name in names {
        let name = name.trim();
        let (plain, present) = match name.strip_prefix(['-', '!']) {
            Some(rest) => (rest.trim(), false),
            None => (name.strip_prefix('+').unwrap_or(name).trim(), true),
        };
        let label = labels.find(plain.trim_matches('"'));
        let label = label.ok_or_else(|| fault(format!("it names `{plain}`, which is no label")))?;
        let literal = Literal { label, present };
        if !wanted.contains(&literal) {
            return Err(fault(format!("the query does not ask for `{name}`")));
        }
        if order.contains(&literal) {
            return Err(fault(format!("it names `{name}` twice")));
        }
        order.push(literal);
    }
    if let Some(missing) = wanted.iter().find(|literal| !order.contains(literal)) {
        let sign = if missing.present { "" } else { "-" };
        let name = labels.name(missing.label);
        return Err(fault(format!("it leaves out `{sign}{name}`")));
    }
    if order.first().is_some_and(|first| !first.present) {
        return Err(fault(
            "its first label must be one to be present".to_owned(),
        ));
    }
    let begins = order.first().is_none_or(|first| can_begin(*first, classes));
    if !begins {
        let names: Vec<&str> = classes.iter().map(|class| labels.name(class)).collect();
        let names = names.join("` or `");
        return Err(fault(format!(
            "it must begin with `{names}`, which the generator is asked for"
        )));
    }
    Ok(order)
}

/// Whether a query can begin with this label: it must be present, and of the generator's classes.
fn can_begin(literal: Literal, classes: LabelSet) -> bool {
    literal.present && (classes.is_empty() || classes.contains(literal.label))
}

/// The next label: the one with which the query has the largest expected acceptance.
fn likeliest(
    search: &Search<'_>,
    pool: &mut Pool,
    taken: &[Literal],
    left: &[Literal],
) -> Result<Literal, Error> {
    let classes = search.target.classes;
    let possible = |literal: &&Literal| !taken.is_empty() || can_begin(**literal, classes);
    let candidates: Vec<Literal> = left.iter().filter(possible).copied().collect();
    if let [only] = candidates[..] {
        return Ok(only);
    }
    let mut best = (candidates[0], -1.0);
    for literal in candidates {
        let with: Vec<Literal> = taken.iter().copied().chain([literal]).collect();
        let mut target = partial(search, &with)?;
        let log_weights = weigh_first(pool, &mut target, TRIAL, &Silent)?;
        let acceptance = expected_acceptance(&log_weights);
        if acceptance > best.1 {
            best = (literal, acceptance);
        }
    }
    Ok(best.0)
}

/// The target of a part of the query.
fn partial(search: &Search<'_>, literals: &[Literal]) -> Result<Target, Error> {
    let session = search.session;
    let labels = session.bundle.labels();
    let name = |literal: &Literal| Quoted(labels.name(literal.label)).to_string();
    let (present, absent): (Vec<&Literal>, Vec<&Literal>) =
        literals.iter().partition(|literal| literal.present);
    let present: Vec<String> = present.into_iter().map(name).collect();
    let parts: Vec<String> = std::iter::once(present.join(" + "))
        .chain(absent.into_iter().map(name))
        .collect();
    let query = Query::parse(&parts.join(" - "), labels)?;
    // The whole query is weighed as it is for sampling.
    if query == *search.target.weighting.query() {
        return Ok(search.target.clone());
    }
    let weighed = session.weigh(&query)?;
    let weighed = match session.bundle.classes() {
        None => weighed,
        Some(classes) => {
            let used = search.target.classes;
            let shares = crate::cover::equal_shares(used, classes);
            session.with_classes(weighed, &shares)?
        }
    };
    Ok(Target {
        weighting: weighed.weighting,
        ..search.target.clone()
    })
}
