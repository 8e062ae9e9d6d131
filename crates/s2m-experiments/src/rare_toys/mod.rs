//! Rare targets that are known exactly: what each way to adapt costs, and how far off its samples are.
//!
//! Beyond the paper, whose comparison of ways to adapt is on pictures alone.

pub(crate) mod parts;
pub(crate) mod toy;

use std::num::NonZeroUsize;

use s2m::adapt::{AdaptChoice, missing_part};
use s2m::draw::draw;
use s2m::samplers::SamplerChoice;
use s2m::session::Session;
use s2m::settings::{DEFAULT_TV, SampleSettings};
use s2m_core::query::Query;
use s2m_core::samplers::{Goal, Info};
use s2m_metrics::total_variation::{expected_floor, total_variation};
use s2m_show::picture::{Canvas, Chart, Curve, charts};
use serde::{Deserialize, Serialize};

use super::evaluation::{Evaluator, Finding};
use super::line::Line;
use super::results::Table;
use super::{Bench, Findings};
use crate::Error;
use parts::PartsToy;
use toy::{Toy, dot};

/// Seeds of the proposals.
const SEEDS: [u64; 3] = [0, 1, 2];

/// Shares of the targets.
const SHARES: [f64; 3] = [0.03, 0.003, 0.0003];

/// Dimensions, and whether labels hold on both sides: four separate parts in the plane.
const SPACES: [(usize, bool); 2] = [(2, true), (100, false)];

/// Most calls per sample; beyond it a way counts as not finished.
const MOST_CALLS: usize = 4000;

/// Samples that are drawn first, to see what they cost.
const TRIAL: NonZeroUsize = NonZeroUsize::new(200).expect("200 is not zero");

/// Where a label's level is one half, in the count of labels: each has a share of about 0.35 alone.
const LABEL_THRESHOLD: f64 = 0.385;

/// Dimensions of the count of labels, and how many are tried.
const LABEL_SIZE: usize = 20;
const MOST_LABELS: usize = 8;

/// Samples of a target in parts.
pub(crate) const PARTS_SAMPLES: NonZeroUsize = NonZeroUsize::new(5000).expect("5000 is not zero");

/// Samples of a count of labels.
const LABEL_SAMPLES: usize = 2000;

fn ways() -> [(&'static str, AdaptChoice); 4] {
    [
        ("none", AdaptChoice::None),
        ("once", AdaptChoice::once()),
        ("repeat", AdaptChoice::repeat()),
        ("adaptive", AdaptChoice::adaptive()),
    ]
}

/// What one draw showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Figures {
    /// Proposals of the search.
    searched: usize,
    /// All proposals, per sample.
    calls_per_sample: f64,
    /// Distance from the truth on cells of equal share; for two labels.
    distance: Option<f64>,
    /// Mean of `n·mean²` over directions in which the target is the prior; 1 for perfect samples.
    means: Option<f64>,
    tv_bound: Option<f64>,
    /// Parts of the target with samples, and parts that there are.
    parts: [usize; 2],
}

pub(super) fn run(bench: &Bench<'_>) -> Result<Findings, Error> {
    let seeds = match bench.request.seeds {
        None => SEEDS.to_vec(),
        Some(wanted) => SEEDS.into_iter().filter(|s| wanted.contains(s)).collect(),
    };
    let evaluator = bench.evaluator(NonZeroUsize::MIN);
    let mut missing = Vec::new();
    let mut tables = Vec::new();
    for (size, two_sided) in SPACES {
        let parts = if two_sided {
            "four separate parts"
        } else {
            "one part"
        };
        let mut table = Table::new(
            &format!("{size} dimensions, {parts}"),
            &[
                "share, way",
                "search calls",
                "calls per sample, in all",
                "TV on cells",
                "(floor)",
                "TV bound",
                "other directions (1 is perfect)",
                "parts found",
                "seeds",
            ],
        );
        for share in SHARES {
            let toy = Toy::of_share(share, size, two_sided);
            let floor = expected_floor(&toy.cells().shares, bench.request.samples.get());
            let floor = floor?;
            for (name, way) in ways() {
                let name = format!("{} %, {name}", 100.0 * share);
                let line = Line::measure(&name, &seeds, |seed| {
                    measure(&evaluator, &toy, &way, seed, bench.request.samples).map(Some)
                })?;
                missing.extend(line.missing().map(|m| format!("{size} dimensions, {m}")));
                table.rows.push(vec![
                    line.name.clone(),
                    line.cell(0, |f: &Figures| Some(f.searched as f64)),
                    line.cell(1, |f| Some(f.calls_per_sample)),
                    line.cell(4, |f| f.distance),
                    format!("{floor:.4}"),
                    line.cell(4, |f| f.tv_bound),
                    line.cell(2, |f| f.means),
                    line.measured()
                        .map(|(_, f)| format!("{} of {}", f.parts[0], f.parts[1]))
                        .collect::<Vec<_>>()
                        .join(", "),
                    line.seeds(),
                ]);
            }
        }
        tables.push(table);
    }
    tables.push(in_parts(&evaluator, &seeds, &mut missing)?);
    let (table, picture) = by_labels(&evaluator, &seeds, &mut missing)?;
    tables.push(table);
    Ok(Findings {
        title: "Rare targets that are known exactly",
        preface: vec![format!(
            "Items are their latents. Labels are steep half-spaces (in two dimensions with both sides, so that the target has four separate parts) along directions that are no axes; the target is \"all labels\", whose density is known. Shares are those of the query among the generator's items. All lines draw with `reject` at TV {DEFAULT_TV}; calls count everything: pilots, search, sampling. TV is taken on 36 cells of equal share in the plane of the two labels' directions; the floor is what perfect samples of that number have. `once` and `repeat` have the paper's settings: 10,000 pilot latents, 8 components with one covariance, 100 steps, or 15 per label."
        )],
        seeds,
        runs: Vec::new(),
        tables,
        missing,
        pictures: vec![("cost-by-labels.png", picture)],
    })
}

/// What a sample costs by the number of labels.
fn by_labels(
    evaluator: &Evaluator<'_>,
    seeds: &[u64],
    missing: &mut Vec<String>,
) -> Result<(Table, Canvas), Error> {
    let samples = NonZeroUsize::new(LABEL_SAMPLES).expect("it is not zero");
    let columns: Vec<String> = std::iter::once("labels".to_owned())
        .chain(
            ways()
                .iter()
                .map(|(name, _)| format!("{name}: calls per sample")),
        )
        .collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let title = format!(
        "Calls per sample by the number of labels ({LABEL_SAMPLES} samples, {LABEL_SIZE} dimensions, each label on about 35 % of the items by itself)"
    );
    let mut table = Table::new(&title, &columns);
    let mut curves: Vec<Curve> = ways()
        .iter()
        .map(|(name, _)| Curve {
            name: (*name).to_owned(),
            points: Vec::new(),
        })
        .collect();
    for labels in 1..=MOST_LABELS {
        let toy = Toy {
            size: LABEL_SIZE,
            labels,
            threshold: LABEL_THRESHOLD,
            two_sided: false,
        };
        let mut row = vec![labels.to_string()];
        for ((name, way), curve) in ways().into_iter().zip(&mut curves) {
            let line = Line::measure(&format!("{labels} labels, {name}"), seeds, |seed| {
                measure(evaluator, &toy, &way, seed, samples).map(Some)
            })?;
            missing.extend(line.missing());
            row.push(line.cell(1, |f: &Figures| Some(f.calls_per_sample)));
            let found: Vec<f64> = line.measured().map(|(_, f)| f.calls_per_sample).collect();
            if !found.is_empty() {
                let mean = found.iter().sum::<f64>() / found.len() as f64;
                curve.points.push([labels as f64, mean]);
            }
        }
        table.rows.push(row);
    }
    let picture = charts(&[Chart {
        title: "Calls per sample".to_owned(),
        x: "labels in the query".to_owned(),
        curves,
        logarithmic: [false, true],
    }]);
    Ok((table, picture))
}

/// Draws once, unless that was done before.
fn measure(
    evaluator: &Evaluator<'_>,
    toy: &Toy,
    way: &AdaptChoice,
    seed: u64,
    samples: NonZeroUsize,
) -> Result<Finding<Figures>, Error> {
    let name = format!("{}-{}-seed-{seed}", way.name(), toy.size);
    let identity = format!("{toy:?} {way:?} {samples} {}", env!("CARGO_PKG_VERSION"));
    evaluator.kept(&name, &[&identity], || {
        draw_toy(evaluator, toy, way, seed, samples)
    })
}

fn draw_toy(
    evaluator: &Evaluator<'_>,
    toy: &Toy,
    way: &AdaptChoice,
    seed: u64,
    samples: NonZeroUsize,
) -> Result<Finding<Figures>, Error> {
    let bundle = toy.bundle()?;
    let settings = SampleSettings {
        seed: Some(seed),
        sampler: SamplerChoice::Reject { tv: DEFAULT_TV },
        adapt: way.clone(),
        ..SampleSettings::default()
    };
    let session = Session::open(&bundle, evaluator.machine, &settings, None)?;
    let query = Query::parse(&toy.query(), bundle.labels())?;
    let planned = match session.prepare(&session.weigh(&query)?, samples, evaluator.progress) {
        Ok(planned) => planned,
        Err(s2m::Error::Refused(refusal)) => {
            return Ok(Finding::Refused(refusal.failure.to_string()));
        }
        Err(s2m::Error::Adapt(e)) => {
            let reason = e.to_string();
            let first = reason.lines().next().unwrap_or_default();
            return Ok(Finding::Refused(first.to_owned()));
        }
        Err(error) => return Err(error.into()),
    };
    let record = planned.stored.map(|stored| stored.about.adaptation);
    let (mut pool, mut target) = (planned.pool, planned.target);
    let goal = |samples: NonZeroUsize| Goal {
        samples,
        max_calls: samples.get().saturating_mul(MOST_CALLS),
    };
    // A few samples tell whether all of them can be afforded; their proposals are used again.
    let few = goal(samples.min(TRIAL));
    let trial = draw(
        &mut pool,
        &mut target,
        settings.sampler,
        few,
        evaluator.progress,
    )?;
    if let Err(failure) = trial.outcome {
        return Ok(Finding::Refused(failure.to_string()));
    }
    let goal = goal(samples);
    let drawn = draw(
        &mut pool,
        &mut target,
        settings.sampler,
        goal,
        evaluator.progress,
    )?;
    let rows = drawn.rows()?;
    let kept = match drawn.outcome {
        Ok(kept) => kept,
        Err(failure) => return Ok(Finding::Refused(failure.to_string())),
    };
    let latents = pool.normal_latents(&rows);
    let calls = target.searched + target.rows;
    let missing = record.and_then(|record| missing_part(&record, drawn.log_weights.len()));
    let mut figures = Figures {
        searched: target.searched,
        calls_per_sample: calls as f64 / samples.get() as f64,
        distance: None,
        means: None,
        tv_bound: match missing {
            None => kept.error.tv_bound,
            Some(share) => kept.error.clone().with_missing(share).tv_bound,
        },
        parts: [0, 0],
    };
    compare(toy, &latents, &mut figures)?;
    Ok(Finding::Measured(figures))
}

/// Holds latents against the truth.
fn compare(toy: &Toy, latents: &[f32], figures: &mut Figures) -> Result<(), Error> {
    let directions = toy.directions();
    let n = (latents.len() / toy.size) as f64;
    let mut sums = vec![0.0; toy.size];
    let mut places = Vec::new();
    for latent in latents.chunks(toy.size) {
        let z: Vec<f64> = latent.iter().map(|&v| f64::from(v)).collect();
        let v: Vec<f64> = directions.iter().map(|d| dot(d, &z)).collect();
        for (at, sum) in sums.iter_mut().enumerate() {
            let along: f64 = directions.iter().zip(&v).map(|(d, v)| d[at] * v).sum();
            *sum += z[at] - along;
        }
        places.push(v);
    }
    if toy.size > toy.labels {
        let squares: f64 = sums.iter().map(|sum| (sum / n).powi(2)).sum();
        figures.means = Some(n * squares / (toy.size - toy.labels) as f64);
    }
    let sides: std::collections::HashSet<Vec<bool>> = places
        .iter()
        .map(|v| v.iter().map(|v| toy.two_sided && *v < 0.0).collect())
        .collect();
    let all = if toy.two_sided { 1 << toy.labels } else { 1 };
    figures.parts = [sides.len(), all];
    if toy.labels == 2 {
        let cells = toy.cells();
        let mut counts = vec![0; cells.shares.len()];
        for v in &places {
            counts[cells.find([v[0], v[1]])] += 1;
        }
        let distance = total_variation(&counts, &cells.shares);
        figures.distance = Some(distance?);
    }
    Ok(())
}

/// What a draw of a target in parts showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PartsFigures {
    /// Proposals of the search and of judging it.
    pub(crate) searched: usize,
    /// All proposals, per sample.
    pub(crate) calls_per_sample: f64,
    /// Parts with at least half of the samples that they should have, and parts that there are.
    pub(crate) found: usize,
    pub(crate) parts: usize,
    /// The distance of what is drawn from the target, by exact draws: of `reject` `E_π (1 − c·q/(w·p))^+`, of `mh` the
    /// coupling value, which is no smaller; none of `resample`.
    pub(crate) distance: Option<f64>,
    /// What the samples of all parts are short of in all, as a share of the samples.
    #[serde(default)]
    pub(crate) short: Option<f64>,
    pub(crate) tv_bound: Option<f64>,
    /// What the statement says may be missing.
    pub(crate) may_be_missing: Option<f64>,
}

/// Exact draws on which a true distance is taken.
const EXACT: usize = 20_000;

/// How a target in parts is drawn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartsWay {
    pub(crate) adapt: AdaptChoice,
    pub(crate) sampler: SamplerChoice,
}

impl Default for PartsWay {
    fn default() -> Self {
        Self {
            adapt: AdaptChoice::adaptive(),
            sampler: SamplerChoice::Reject { tv: DEFAULT_TV },
        }
    }
}

/// Draws a target in parts once, unless that was done before.
pub(crate) fn measure_parts(
    evaluator: &Evaluator<'_>,
    toy: &PartsToy,
    way: &PartsWay,
    seed: u64,
) -> Result<Finding<PartsFigures>, Error> {
    let [name, identity] = known_as(toy, way, seed);
    evaluator.kept(&name, &[&identity], || {
        draw_parts(evaluator, toy, way, seed)
    })
}

/// Whether a target in parts was drawn before.
pub(crate) fn has_parts(
    evaluator: &Evaluator<'_>,
    toy: &PartsToy,
    way: &PartsWay,
    seed: u64,
) -> bool {
    let [name, identity] = known_as(toy, way, seed);
    evaluator.has(&name, &[&identity])
}

/// Name and identity of a draw of a target in parts.
fn known_as(toy: &PartsToy, way: &PartsWay, seed: u64) -> [String; 2] {
    let usual = *way == PartsWay::default();
    let (sampler, adapt) = (way.sampler.name(), way.adapt.name());
    let (name, identity) = if usual {
        ("parts".to_owned(), "parts 2".to_owned())
    } else {
        (format!("parts-{adapt}-{sampler}"), format!("{way:?} 1"))
    };
    [
        format!("{name}-{}-seed-{seed}", toy.size),
        format!("{toy:?} {PARTS_SAMPLES} {identity}"),
    ]
}

fn draw_parts(
    evaluator: &Evaluator<'_>,
    toy: &PartsToy,
    way: &PartsWay,
    seed: u64,
) -> Result<Finding<PartsFigures>, Error> {
    let samples = PARTS_SAMPLES;
    let bundle = toy.bundle()?;
    let settings = SampleSettings {
        seed: Some(seed),
        sampler: way.sampler,
        adapt: way.adapt.clone(),
        ..SampleSettings::default()
    };
    let session = Session::open(&bundle, evaluator.machine, &settings, None)?;
    let query = Query::parse(PartsToy::query(), bundle.labels())?;
    let planned = match session.prepare(&session.weigh(&query)?, samples, evaluator.progress) {
        Err(s2m::Error::Refused(refusal)) => {
            return Ok(Finding::Refused(refusal.failure.to_string()));
        }
        Err(s2m::Error::Adapt(e)) => {
            let reason = e.to_string();
            let first = reason.lines().next().unwrap_or_default();
            return Ok(Finding::Refused(first.to_owned()));
        }
        planned => planned?,
    };
    let (mut pool, mut target) = (planned.pool, planned.target);
    let goal = Goal {
        samples,
        max_calls: samples.get().saturating_mul(MOST_CALLS),
    };
    let drawn = draw(
        &mut pool,
        &mut target,
        settings.sampler,
        goal,
        evaluator.progress,
    )?;
    let kept = match drawn.outcome {
        Ok(kept) => kept,
        Err(failure) => return Ok(Finding::Refused(failure.to_string())),
    };
    let stored = planned.stored.as_ref();
    let may_be_missing =
        stored.and_then(|stored| missing_part(&stored.about.adaptation, drawn.log_weights.len()));
    let error = match may_be_missing {
        None => kept.error.clone(),
        Some(share) => kept.error.clone().with_missing(share),
    };
    let directions = toy.directions();
    let rows = drawn.kept.read(0..drawn.kept.len())?;
    let place = |latent: &[f32]| {
        let z: Vec<f64> = latent.iter().map(|&v| f64::from(v)).collect();
        toy.place(&directions, &z)
    };
    let mut counts = vec![0.0; toy.masses.len()];
    for latent in pool.normal_latents(&rows).chunks(toy.size) {
        counts[place(latent).0] += 1.0;
    }
    let wanted = toy.masses.iter().map(|mass| mass * samples.get() as f64);
    let shortages = counts.iter().zip(wanted.clone());
    let short: f64 = shortages.map(|(n, w)| (w - n).max(0.0)).sum();
    let exact = toy.exact(EXACT, seed);
    let mut ratios = vec![0.0; EXACT];
    if let Some(mixture) = stored.and_then(|stored| stored.mixture.as_ref()) {
        mixture.log_prior_ratios(&exact, &mut ratios);
    }
    let exact = exact.chunks(toy.size).zip(&ratios);
    let log_weights: Vec<f64> = exact.map(|(z, ratio)| place(z).1 + ratio).collect();
    let distance = if let Info::Reject(info) = kept.info {
        Some(beyond_cap(&log_weights, info.log_cap))
    } else if let Info::Mh(info) = kept.info {
        Some(coupling(log_weights, toy.share, info.steps))
    } else {
        None
    };
    Ok(Finding::Measured(PartsFigures {
        searched: target.searched,
        calls_per_sample: (target.searched + target.rows) as f64 / samples.get() as f64,
        found: counts
            .iter()
            .zip(wanted)
            .filter(|(n, w)| **n >= 0.5 * w)
            .count(),
        parts: toy.masses.len(),
        distance,
        short: Some(short / samples.get() as f64),
        tv_bound: error.tv_bound,
        may_be_missing,
    }))
}

/// `E_π (1 − c/w)^+` by weights of exact draws.
fn beyond_cap(log_weights: &[f64], log_cap: f64) -> f64 {
    let lost = log_weights
        .iter()
        .map(|w| (1.0 - (log_cap - w).exp()).max(0.0));
    lost.sum::<f64>() / log_weights.len() as f64
}

/// `E_{x~q, y~π} (1 − p(max(w_x, w_y)))^K` by weights of exact draws alone: with `E_q w` known to be the share,
/// `P_q(w > m) = share·E_π[1(w > m)/w]` and `p(m) = share·E_π min(1/w, 1/m)`.
fn coupling(mut log_weights: Vec<f64>, share: f64, steps: usize) -> f64 {
    log_weights.sort_by(f64::total_cmp);
    let n = log_weights.len() as f64;
    let mut above: f64 = log_weights.iter().map(|w| share / n * (-w).exp()).sum();
    let (mut before, mut sum) = (0.0, 0.0);
    for (below, w) in log_weights.iter().enumerate() {
        let below = below as f64 + 1.0;
        let own = share / n * (-w).exp();
        above = (above - own).max(0.0);
        let reached = (1.0 - above).max(0.0) * below / n;
        let p = (above + below * own).min(1.0);
        sum += (reached - before) * (1.0 - p).powf(steps as f64);
        before = reached;
    }
    sum
}

/// Targets in separate parts, in spaces of several sizes.
fn in_parts(
    evaluator: &Evaluator<'_>,
    seeds: &[u64],
    missing: &mut Vec<String>,
) -> Result<Table, Error> {
    let mut table = Table::new(
        &format!("Separate parts of unequal mass, `adaptive` ({PARTS_SAMPLES} samples)"),
        &[
            "dimensions, share, parts",
            "search calls",
            "calls per sample, in all",
            "(none)",
            "parts found",
            "true TV",
            "TV bound",
            "seeds",
        ],
    );
    for size in [2, 16, 64, 256] {
        for masses in [[0.7, 0.25, 0.05], [0.68, 0.3, 0.02]] {
            let toy = PartsToy::new(size, 1e-3, &masses);
            let line = Line::measure(&toy.name(), seeds, |seed| {
                measure_parts(evaluator, &toy, &PartsWay::default(), seed).map(Some)
            })?;
            missing.extend(line.missing());
            table.rows.push(vec![
                line.name.clone(),
                line.cell(0, |f: &PartsFigures| Some(f.searched as f64)),
                line.cell(1, |f| Some(f.calls_per_sample)),
                format!("{:.0}", toy.plain_cost()),
                line.measured()
                    .map(|(_, f)| format!("{} of {}", f.found, f.parts))
                    .collect::<Vec<_>>()
                    .join(", "),
                line.cell(4, |f| f.distance),
                line.cell(4, |f| f.tv_bound),
                line.seeds(),
            ]);
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use s2m_model::runtime::Runtime;

    use super::*;
    use s2m::progress::Silent;
    use s2m::session::Machine;

    /// Three parts of 70, 25 and 5 % of a target of 0.2 or 0.1 % in 16 dimensions: every one is found, at a tenth of
    /// the calls, and the bound holds. With seed 8 the search ends with components that only brush the smallest.
    #[test]
    fn a_small_part_is_found_and_the_bound_holds() {
        let work = tempfile::tempdir().unwrap();
        let machine = Machine::default();
        let evaluator = Evaluator {
            machine: &machine,
            runtime: Runtime::load(None).unwrap(),
            samples: PARTS_SAMPLES,
            bank: NonZeroUsize::MIN,
            most_calls: MOST_CALLS,
            measured: work.path().join("evaluations"),
            work: work.path().to_owned(),
            progress: &Silent,
            mined: RefCell::default(),
        };
        for (share, seed) in [(2e-3, 0), (2e-3, 1), (1e-3, 8)] {
            let toy = PartsToy::new(16, share, &[0.7, 0.25, 0.05]);
            let found = draw_parts(&evaluator, &toy, &PartsWay::default(), seed).unwrap();
            let figures = found.measured().unwrap();
            assert_eq!((figures.found, figures.parts), (3, 3), "{figures:?}");
            assert!(
                figures.calls_per_sample < 0.1 * toy.plain_cost(),
                "{figures:?}"
            );
            let bound = figures.tv_bound.unwrap_or(1.0);
            assert!(figures.distance.unwrap() <= bound, "{figures:?}");
            assert!(figures.may_be_missing.unwrap() <= 0.05, "{figures:?}");
        }
    }
}
