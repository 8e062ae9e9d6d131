//! Adaptation that wastes nothing: stages of proposals, each from a mixture fitted to all before it.
//!
//! Every proposal scored so far is weighted against the mixture of all distributions that proposals
//! came from ([`s2m_core::adaptation`]), and a Gaussian mixture is fitted to the weighted latents
//! ([`s2m_core::mixture::select`]). While too few of them count, the fit aims nearer: at weights raised
//! to a power below 1, or, where hardly anything lies in the support, at how near an item is to the
//! query, raised to the largest power that leaves enough. So a search for one item in ten thousand takes
//! a few stages, not ten thousand proposals per item.
//!
//! It stops once drawing all samples costs less than another stage, or once a stage no longer lowers the
//! calls per sample by a stated share. Where no stage was that much better than the prior, the prior it
//! stays: in some latent spaces no mixture of a few normal distributions comes near the target.

use std::num::NonZeroUsize;
use std::sync::Arc;

use s2m_core::adaptation::{effective, largest_power, tempered, thin};
use s2m_core::mixture::Mixture;
use s2m_core::mixture::select::{Points, select};
use s2m_core::proposals::Purpose;
use s2m_core::samplers::{Failure, MIN_SUPPORTED, PILOT_BUDGET};
use s2m_core::streams;

use super::parts::{Beyond, Judged, Settled, settle};
use super::record::{ProposalRecord, Record};
use super::search::{MAX_STAGES, Search, Seen};
use super::{Found, Judging, uncovered};
use crate::error::Error;
use crate::refusal::Refusal;

/// Effective proposals behind every fit: a few hundred, and four per dimension.
pub(super) fn wanted_effective(size: usize) -> usize {
    (4 * size).max(200)
}

/// Proposals of a stage, as a multiple of that.
const STAGE_FACTOR: usize = 10;

/// Most proposals of a search.
const MAX_SEARCH: usize = 1 << 20;

/// Stages in a row that may come no nearer to a query of which nothing was met yet; each refit costs more
/// than the one before, and a search that still gets somewhere shows it sooner.
const PATIENCE: usize = 8;

/// The same where the nearest items lie beyond the middle: the levels have every label on its side there, and
/// the support begins elsewhere, where nearness does not lead.
const PATIENCE_BEYOND: usize = 2;

/// By how much the log of nearness must grow to count as nearer: the largest of ever more numbers creeps up
/// by itself.
const NEARER: f64 = 0.05;

/// Points of a fit, as a multiple of the effective ones wanted; more are thinned out.
const POINTS_FACTOR: usize = 20;

/// Largest power of nearness: beyond it the fit would only crowd together.
const MAX_NEARNESS_POWER: f64 = 16.0;

/// A stage that costs so much more than the one before it, as a share, is not the last: it met what that one had
/// missed, and what is fitted to it has to be tried.
const DEARER: f64 = 1.0;

/// Calls per sample of the prior above which parts that a search lost are looked for: below, they come through the
/// prior's share of a mixture often enough.
const RARE: f64 = 20.0;

/// Why a search that gained nothing ended.
const NOT_BETTER: &str = "no stage was much better than the prior";

/// What a fit aimed at.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Aim {
    /// The target itself.
    Weights,
    /// Its weights to a power.
    Tempered(f64),
    /// Nearness to the query, to a power.
    Nearness(f64),
}

impl Aim {
    fn power(self) -> f64 {
        match self {
            Self::Weights => 1.0,
            Self::Tempered(power) | Self::Nearness(power) => power,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Weights => "weights".to_owned(),
            Self::Tempered(power) => format!("weights to the power {power:.3}"),
            Self::Nearness(power) => format!("nearness to the power {power:.3}"),
        }
    }
}

/// Searches until another stage would not pay.
pub(super) fn adaptive(
    search: &mut Search<'_>,
    samples: NonZeroUsize,
    gain: f64,
    prior_share: f64,
    judging: Judging,
) -> Result<Found, Error> {
    let max_calls = search.session.settings.max_calls;
    let wanted = wanted_effective(search.size);
    let round = STAGE_FACTOR * wanted;
    // Half of what is allowed is for the samples themselves.
    let most = max_calls.map_or(MAX_SEARCH, |calls| (calls / 2).min(MAX_SEARCH));
    let mut seen = Seen::new(search);
    // What a bank holds costs nothing.
    let banked = (search.session.bank_rows() as usize).min(PILOT_BUDGET);
    let first = round.min(most.max(1)).max(banked);
    let first = search.score(None, first, "prior")?;
    seen.push(search, &first)?;
    let mut aims = vec![];
    let (mut nearest, middle) = (Nearest::default(), middle(search));
    let (mixture, mut stopped) = loop {
        let cost = |at: usize| search.stages[at].calls_per_sample;
        let last = search.stages.len() - 1;
        let cheap = cost(last).is_some_and(|calls| calls * samples.get() as f64 <= round as f64);
        if cheap && last == 0 {
            break (None, "samples from the prior cost less than another stage");
        }
        if last == 0 && search.calls + round > most {
            break (None, "the budget of the search is spent");
        }
        let supported = seen.supported();
        if supported == 0
            && let Some(stages) = nearest.stalled(&seen.log_nearness, middle)
        {
            let proposals = search.calls;
            return Err(refused(search, Failure::Stalled { proposals, stages }));
        }
        let (mixture, directions, aim) = fit(search, &seen, wanted, prior_share)?;
        // Only stages from fits to the target itself can be compared.
        let settled = aims.last() == Some(&Aim::Weights);
        if aim == Aim::Weights || settled {
            if cheap {
                break (Some(mixture), "samples cost less than another stage");
            }
            let gained = match (cost(last), last.checked_sub(1).and_then(cost)) {
                (Some(now), Some(before)) => 1.0 - now / before,
                _ => 1.0,
            };
            if settled && gained < gain && gained > -DEARER {
                let first = cost(0).unwrap_or(f64::INFINITY);
                let helps = cost(last).is_some_and(|calls| calls < (1.0 - gain) * first);
                break if helps {
                    (Some(mixture), "the last stage gained too little")
                } else {
                    (None, NOT_BETTER)
                };
            }
        }
        let full = search.stages.len() >= usize::from(MAX_STAGES);
        let spent = search.calls + round > most;
        if supported < MIN_SUPPORTED && (search.calls >= PILOT_BUDGET || full || spent) {
            let failure = Failure::Unreachable {
                proposals: search.calls,
                supported,
            };
            return Err(refused(search, failure));
        }
        if full || spent {
            break (Some(mixture), "the budget of the search is spent");
        }
        let drawn_from = format!(
            "{} components over {directions} directions, fitted to {}",
            mixture.components(),
            aim.text()
        );
        let stage = search.score(Some(mixture), round, &drawn_from)?;
        seen.push(search, &stage)?;
        aims.push(aim);
    };
    let ratios = seen.recycled.log_prior_ratios();
    let wish = Wish {
        samples,
        gain,
        prior_share,
        judging,
    };
    let settled = judged(search, &seen, mixture, &mut stopped, wish)?;
    let mixture = settled.mixture;
    let log_weights = tempered(&seen.log_scores, &ratios, 1.0);
    let record = Record {
        method: "adaptive".to_owned(),
        stages: search.stages.clone(),
        calls: search.calls,
        proposal: mixture.as_deref().map(ProposalRecord::of),
        uncovered: uncovered(mixture.as_deref(), seen.recycled.points(), &log_weights),
        effective: effective(&log_weights),
        stopped: stopped.to_owned(),
        coverage: settled.coverage,
        parts: settled.parts.clone(),
    };
    // What lost a part is not used again.
    let recycled = settled.parts.is_empty().then(|| seen.into_rows());
    Ok(Found {
        mixture,
        record,
        recycled,
    })
}

/// What a search that found nothing to draw from comes to.
fn refused(search: &Search<'_>, failure: Failure) -> Error {
    let sampler = search.session.settings.sampler;
    Refusal::of(failure, &search.target.weighting, sampler).into()
}

/// The log of nearness where every label is as likely present as not.
fn middle(search: &Search<'_>) -> f64 {
    let query = search.target.weighting.query();
    let even = vec![-std::f64::consts::LN_2; query.label_count()];
    query.log_probability(&even, &even)
}

/// What a search was asked for.
#[derive(Debug, Clone, Copy)]
struct Wish {
    samples: NonZeroUsize,
    gain: f64,
    prior_share: f64,
    judging: Judging,
}

/// Judges what a search ended with, and mends it; where no mixture was much better than the prior, parts may be.
fn judged(
    search: &mut Search<'_>,
    seen: &Seen,
    mixture: Option<Arc<Mixture>>,
    stopped: &mut &'static str,
    wish: Wish,
) -> Result<Settled, Error> {
    let first_cost = search.stages[0].calls_per_sample;
    let rare = first_cost.is_none_or(|calls| calls > RARE);
    Ok(match (wish.judging, mixture) {
        (Judging::Skipped, mixture) => Settled::unjudged(mixture),
        // The prior is as cheap as anything.
        (Judging::Wanted, None) if *stopped != NOT_BETTER || !rare => Settled::unjudged(None),
        (Judging::Wanted, mixture) => {
            let searched = mixture.is_some();
            let judged = Judged {
                log_scores: &seen.log_scores,
                log_ratios: &seen.recycled.log_prior_ratios(),
                samples: wish.samples,
                distance: search.price.distance(),
                most_calls: search
                    .session
                    .settings
                    .max_calls
                    .map_or(usize::MAX, |calls| calls / 4),
                beyond: if rare {
                    Beyond::Mended {
                        points: seen.recycled.points(),
                        prior_share: wish.prior_share,
                    }
                } else {
                    Beyond::Counted
                },
            };
            let settled = settle(search, mixture, &judged)?;
            match &settled.mixture {
                Some(found) if !searched => {
                    let drawn_from = format!("{} components of all parts", found.components());
                    let round = STAGE_FACTOR * wanted_effective(search.size);
                    search.score(Some(found.clone()), round, &drawn_from)?;
                    let cost = |at: usize| search.stages[at].calls_per_sample;
                    let (first, last) = (cost(0), cost(search.stages.len() - 1));
                    let helps = match (first, last) {
                        (Some(first), Some(last)) => last < (1.0 - wish.gain) * first,
                        (_, last) => last.is_some(),
                    };
                    if helps {
                        *stopped = "parts were found one by one";
                        settled
                    } else {
                        Settled::unjudged(None)
                    }
                }
                _ => settled,
            }
        }
    })
}

/// The nearest item so far, and how many stages have passed since it was found.
#[derive(Debug, Default)]
struct Nearest {
    log_nearness: Option<f64>,
    stages_since: usize,
}

impl Nearest {
    /// Takes in what all stages so far have found; says for how many stages nothing nearer has come, once that
    /// is too long.
    fn stalled(&mut self, log_nearness: &[f64], middle: f64) -> Option<usize> {
        let best = log_nearness
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        if self
            .log_nearness
            .is_none_or(|before| best > before + NEARER)
        {
            *self = Self {
                log_nearness: Some(best),
                stages_since: 0,
            };
        } else {
            self.stages_since += 1;
        }
        let patience = if best > middle {
            PATIENCE_BEYOND
        } else {
            PATIENCE
        };
        (self.stages_since >= patience).then_some(patience)
    }
}

/// Fits a mixture to all proposals so far, to the target if enough of them count there.
fn fit(
    search: &Search<'_>,
    seen: &Seen,
    wanted: usize,
    prior_share: f64,
) -> Result<(Arc<Mixture>, usize, Aim), Error> {
    let ratios = seen.recycled.log_prior_ratios();
    let wanted = wanted as f64;
    let near = &seen.log_nearness;
    let exact = tempered(&seen.log_scores, &ratios, 1.0);
    let (scores, aim) = if effective(&exact) >= wanted {
        (&seen.log_scores, Aim::Weights)
    } else if let Some(power) = largest_power(&seen.log_scores, &ratios, wanted, 1.0) {
        (&seen.log_scores, Aim::Tempered(power))
    } else {
        let power = largest_power(near, &ratios, wanted, MAX_NEARNESS_POWER).unwrap_or(1e-3);
        (near, Aim::Nearness(power))
    };
    let power = aim.power();
    let log_weights = tempered(scores, &ratios, power);
    // Which points stay, which are held out and where centres start belongs to this stage.
    let proposals = search.proposals();
    let mut uniforms = vec![0.0; log_weights.len()];
    proposals.fill_uniform(Purpose::Mixture, streams::THINNED_POINTS, &mut uniforms);
    let most = POINTS_FACTOR * wanted as usize;
    let (kept, log_weights) = thin(&log_weights, &uniforms, most);
    let size = search.size;
    let point = |&i: &usize| &seen.recycled.points()[i * size..(i + 1) * size];
    let points: Vec<f32> = kept.iter().flat_map(point).copied().collect();
    let target = Points {
        numbers: &points,
        log_weights: &log_weights,
        log_scores: &kept
            .iter()
            .map(|&i| power * scores[i])
            .collect::<Vec<f64>>(),
    };
    let chosen = select(target, prior_share, proposals).map_err(super::AdaptError::Fit)?;
    Ok((Arc::new(chosen.mixture), chosen.directions, aim))
}
