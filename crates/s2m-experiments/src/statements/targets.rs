//! The targets that statements are held against, by family: laws of weights, and proposals of real models with their
//! weights, odds and posteriors.

use std::sync::Arc;

use s2m::adapt::AdaptChoice;
use s2m::draw::{Target, weigh_first};
use s2m::models;
use s2m::pool::Pool;
use s2m::session::Session;
use s2m::settings::SampleSettings;
use s2m_core::query::Query;
use s2m_model::bundle::Bundle;

use super::laws::Law;
use super::{CONDITIONAL_RUNS, LISTED, RUNS};
use crate::Error;
use crate::evaluation::Evaluator;
use crate::rare_toys::PARTS_SAMPLES;
use crate::rare_toys::parts::PartsToy;

/// A law of weights with its family and its name.
pub(super) struct Named {
    pub(super) family: &'static str,
    pub(super) name: String,
    /// How the latents were adapted.
    pub(super) adapt: &'static str,
    pub(super) law: Law,
    /// What else is known of each weight of a list.
    pub(super) items: Option<Items>,
    /// Runs of each sampler.
    pub(super) runs: u64,
}

/// Proposals in the order of their weights.
pub(super) struct Items {
    /// Logs of the odds of real against generated, neither tempered nor capped.
    pub(super) log_odds: Vec<f64>,
    /// What is predicted for each: the probability that it is right.
    pub(super) predicted: Vec<f64>,
}

/// Laws by family.
pub(super) fn formulae() -> Vec<Named> {
    let mut all = vec![
        ("bounded", "uniform".to_owned(), Law::Uniform),
        ("bounded", "five steps".to_owned(), Law::Steps),
    ];
    for sd in [0.5, 1.0, 1.5] {
        all.push((
            "light",
            format!("lognormal, deviation {sd}"),
            Law::Lognormal(sd),
        ));
    }
    for k in [0.2, 0.31, 0.36, 0.41, 0.45] {
        all.push(("heavy", format!("Pareto, index {k}"), Law::Pareto(k)));
    }
    let named = all.into_iter().map(|(family, name, law)| Named {
        family,
        name,
        adapt: "none",
        law,
        items: None,
        runs: RUNS,
    });
    named.collect()
}

/// Proposals of shipped models and of targets in parts, each as likely as the others.
pub(super) fn listed(
    evaluator: &Evaluator<'_>,
    missing: &mut Vec<String>,
) -> Result<Vec<Named>, Error> {
    let shipped = |family, model: &str, query, adapt| -> Result<_, Error> {
        Ok((
            family,
            model.to_owned(),
            models::open(model.as_ref())?,
            query,
            adapt,
        ))
    };
    let parts = |toy: PartsToy| -> Result<_, Error> {
        let name = format!("parts: {}", toy.name());
        let adapt = AdaptChoice::adaptive();
        Ok(("adapted", name, toy.bundle()?, PartsToy::query(), adapt))
    };
    let (none, once) = (AdaptChoice::None, AdaptChoice::once());
    let (repeat, adaptive) = (AdaptChoice::repeat(), AdaptChoice::adaptive());
    let (real, conditional) = ("real networks", "conditional");
    let all = [
        shipped(real, "mnist-even", "A - B", none.clone())?,
        shipped(real, "mnist-3-5", "A - B", none.clone())?,
        shipped(real, "fmnist-even", "A + B", none.clone())?,
        shipped(conditional, "mnist-even-conditional", "A - B", none)?,
        shipped("adapted", "gaussians", "A - B", once.clone())?,
        shipped("adapted", "gaussians", "A - B", repeat.clone())?,
        shipped("adapted", "gaussians", "A - B", adaptive.clone())?,
        shipped("adapted", "mnist-3-5", "A - B", once)?,
        shipped("adapted", "mnist-3-5", "A - B", repeat)?,
        shipped("adapted", "mnist-3-5", "A - B", adaptive)?,
        parts(PartsToy::new(16, 1e-3, &[0.7, 0.25, 0.05]))?,
        parts(PartsToy::new(64, 1e-3, &[0.6, 0.3, 0.1]))?,
    ];
    let mut found = Vec::new();
    for (family, model, bundle, query, adapt) in all {
        let name = match adapt {
            AdaptChoice::None => format!("{model}, {query}"),
            _ => format!("{model}, {query}, `{}`", adapt.name()),
        };
        match list(evaluator, &bundle, query, &adapt)? {
            Err(why) => missing.push(format!("{name}: {why}")),
            Ok((law, items, kept_prior)) => found.push(Named {
                family,
                name: if kept_prior {
                    format!("{name}, which kept the prior")
                } else {
                    name
                },
                adapt: match adapt.name() {
                    "adaptive" if kept_prior => "adaptive, which kept the prior",
                    name => name,
                },
                law,
                items: Some(items),
                runs: if family == conditional {
                    CONDITIONAL_RUNS
                } else {
                    RUNS
                },
            }),
        }
    }
    Ok(found)
}

/// Proposals of one model, whether they are the prior's all the same; or why there are none.
fn list(
    evaluator: &Evaluator<'_>,
    bundle: &Arc<Bundle>,
    query: &str,
    adapt: &AdaptChoice,
) -> Result<Result<(Law, Items, bool), String>, Error> {
    let settings = SampleSettings {
        seed: Some(1000),
        adapt: adapt.clone(),
        ..SampleSettings::default()
    };
    let session = Session::open(bundle, evaluator.machine, &settings, None)?;
    let weighed = session.weigh(&Query::parse(query, bundle.labels())?)?;
    let planned = match session.prepare(&weighed, PARTS_SAMPLES, evaluator.progress) {
        Err(s2m::Error::Refused(refusal)) => return Ok(Err(refusal.failure.to_string())),
        planned => planned?,
    };
    let adapted = planned.stored.as_ref();
    let kept_prior = adapted.is_some_and(|stored| stored.mixture.is_none());
    let (mut pool, mut target) = (planned.pool, planned.target);
    let log_weights = weigh_first(&mut pool, &mut target, LISTED, evaluator.progress)?;
    let mut all = Vec::with_capacity(LISTED);
    for (position, weight) in log_weights.into_iter().enumerate() {
        let [log_odds, predicted] = known(&pool, &target, position)?;
        all.push((weight, log_odds, predicted));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let items = Items {
        log_odds: all.iter().map(|item| item.1).collect(),
        predicted: all.iter().map(|item| item.2).collect(),
    };
    let law = Law::listed(all.into_iter().map(|item| item.0).collect());
    Ok(Ok((law, items, kept_prior)))
}

/// Log odds of one proposal, and what is predicted for it.
fn known(pool: &Pool, target: &Target, position: usize) -> Result<[f64; 2], Error> {
    let number = target.sequence.number(position);
    let fault = |source| s2m::Error::Logit {
        proposal: number,
        source,
    };
    let row = number as usize;
    let rows = pool.rows(row..row + 1)?;
    let weighting = &target.weighting;
    let log_odds = weighting
        .log_plain_odds(rows.evidence(row))
        .map_err(fault)?;
    let item = weighting
        .item_posterior(rows.evidence(row))
        .map_err(fault)?;
    Ok([log_odds, weighting.predicted(&item)])
}
