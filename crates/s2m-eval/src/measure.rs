//! Every metric of one set of generated items against real ones, each with its interval, its counts and
//! its definition; or why there is none.

use std::num::NonZeroUsize;

use s2m_core::labels::LabelSet;
use s2m_core::query::Query;
use s2m_core::setting::Setting;
use s2m_metrics::accuracy::{Accuracy, accuracy, accuracy_by_label};
use s2m_metrics::bootstrap::Bootstrap;
use s2m_metrics::diversity::{duplicate_rate, mean_distance};
use s2m_metrics::features::Features;
use s2m_metrics::fid::{fid, fid_with_error};
use s2m_metrics::inception_score::{ClassScores, inception_score};
use s2m_metrics::kid::kid;
use s2m_metrics::nearest::copying;
use s2m_metrics::pass::compare;
use s2m_metrics::prdc::{Prdc, prdc};
use serde::Serialize;

use super::items::{GivenRows, Rows};

/// Neighbours that make a ball, as the package prdc has it.
const NEIGHBOURS: NonZeroUsize = NonZeroUsize::new(5).expect("5 is not zero");

/// Splits of the Inception score, as usual.
const SPLITS: NonZeroUsize = NonZeroUsize::new(10).expect("10 is not zero");

/// Widest features whose FID gets an interval: it costs twenty-one distances.
const WIDEST_WITH_INTERVAL: usize = 512;

/// A metric by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Share of items that satisfy their query, by a referee.
    Accuracy,
    /// Fréchet distance.
    Fid,
    /// Kernel distance.
    Kid,
    /// Inception score.
    Is,
    /// Improved precision.
    Precision,
    /// Improved recall.
    Recall,
    /// Density.
    Density,
    /// Coverage.
    Coverage,
    /// Mean distance between generated items.
    Diversity,
    /// Share of generated items with an equal one.
    Duplicates,
    /// Share of generated items that lie as close to a training item as few real ones do.
    Copying,
}

impl Metric {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 11] = [
        Self::Accuracy,
        Self::Fid,
        Self::Kid,
        Self::Is,
        Self::Precision,
        Self::Recall,
        Self::Density,
        Self::Coverage,
        Self::Diversity,
        Self::Duplicates,
        Self::Copying,
    ];

    /// Its name, in tables, options and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::Fid => "fid",
            Self::Kid => "kid",
            Self::Is => "is",
            Self::Precision => "precision",
            Self::Recall => "recall",
            Self::Density => "density",
            Self::Coverage => "coverage",
            Self::Diversity => "diversity",
            Self::Duplicates => "duplicates",
            Self::Copying => "copying",
        }
    }

    /// Its name with what tells its definition from others.
    pub fn title(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::Fid => "FID (covariance N - 1)",
            Self::Kid => "KID (unbiased, cubic)",
            Self::Is => "IS (10 splits)",
            Self::Precision => "precision (k = 5, <)",
            Self::Recall => "recall (k = 5, <)",
            Self::Density => "density (k = 5, <)",
            Self::Coverage => "coverage (k = 5, <)",
            Self::Diversity => "diversity (mean distance)",
            Self::Duplicates => "duplicates",
            Self::Copying => "copying (closest 1 %)",
        }
    }

    /// What the number is, so that two of the same name and features can be compared.
    pub fn definition(self) -> &'static str {
        match self {
            Self::Accuracy => {
                "share of generated items whose labels by the referee satisfy the query; Wilson's interval"
            }
            Self::Fid => {
                "Fréchet distance of Gaussians, covariances by N - 1; interval of the distance that infinitely many items would have, by leaving out twentieths"
            }
            Self::Kid => {
                "unbiased squared MMD over all items, kernel (x·y/d + 1)³; normal interval"
            }
            Self::Is => {
                "exp of the mean divergence of class probabilities from their mean, mean over 10 splits; bootstrap"
            }
            Self::Precision => {
                "share of generated items inside a ball of a real item (5th neighbour, strictly); bootstrap of items, real ones held fixed"
            }
            Self::Recall => {
                "share of real items inside a ball of a generated item (5th neighbour, strictly); bootstrap of items, generated ones held fixed"
            }
            Self::Density => "real balls around a generated item, divided by 5; bootstrap of items",
            Self::Coverage => {
                "share of real items whose ball (5th neighbour) holds a generated item; bootstrap of items"
            }
            Self::Diversity => {
                "mean distance between features of two generated items; normal interval"
            }
            Self::Duplicates => "share of generated items whose features equal those of another",
            Self::Copying => {
                "share of generated items as close to a training item as 1 % of training items are to another; Wilson's interval"
            }
        }
    }

    /// Whether a larger value is better; none where neither is.
    pub fn larger_is_better(self) -> Option<bool> {
        match self {
            Self::Accuracy
            | Self::Is
            | Self::Precision
            | Self::Recall
            | Self::Density
            | Self::Coverage => Some(true),
            Self::Fid | Self::Kid | Self::Duplicates => Some(false),
            Self::Diversity | Self::Copying => None,
        }
    }
}

impl std::str::FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|metric| metric.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            format!("no metric `{text}`; there are {}", names.join(", "))
        })
    }
}

/// One metric of one set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measure {
    /// Which.
    #[serde(skip)]
    pub metric: Metric,
    /// The number; null where there is none.
    pub value: Option<f64>,
    /// Its 95 % interval, where one is known.
    pub interval: Option<[f64; 2]>,
    /// Real items behind it.
    pub n_real: usize,
    /// Generated items behind it.
    pub n_generated: usize,
    /// What the number is.
    pub definition: &'static str,
    /// Why there is none, or what to know about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What is known of the items of one set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    /// Features of real items.
    pub(super) real: Option<&'a GivenRows>,
    /// Features of generated items.
    pub(super) generated: Option<&'a GivenRows>,
    /// Numbers for the classes of generated items, by the feature network.
    pub(super) classes: Option<&'a Rows>,
    /// Features of training items.
    pub(super) training: Option<&'a GivenRows>,
    /// Labels of generated items by the referee, each with its query.
    pub(super) judged: Option<&'a [Judged<'a>]>,
    pub(super) n_real: usize,
    pub(super) n_generated: usize,
}

/// Items of one query as the referee sees them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged<'a> {
    pub(super) query: &'a Query,
    pub(super) labels: &'a [LabelSet],
}

/// A value and its interval, or why there is none.
type Found = Result<(f64, Option<[f64; 2]>), String>;

/// What was found of some metrics.
type Values = Vec<(Metric, Found)>;

/// Measures what is asked for.
pub(super) fn measure(known: &Known<'_>, wanted: &[Metric]) -> Vec<Measure> {
    let mut values = Values::new();
    let asked = |metric: &Metric| wanted.contains(metric);
    if asked(&Metric::Accuracy) {
        values.push((Metric::Accuracy, of_referee(known)));
    }
    values.extend(of_pairs(known, &asked));
    if asked(&Metric::Is) {
        values.push((Metric::Is, of_classes(known)));
    }
    values.extend(of_generated(known, &asked));
    if asked(&Metric::Copying) {
        values.push((Metric::Copying, of_training(known)));
    }
    values.sort_by_key(|(metric, _)| *metric);
    let one = |(metric, found): (Metric, Found)| {
        let (value, interval, note) = match found {
            Ok((value, interval)) => (Some(value), interval, None),
            Err(why) => (None, None, Some(why)),
        };
        Measure {
            metric,
            value,
            interval,
            n_real: known.n_real,
            n_generated: known.n_generated,
            definition: metric.definition(),
            note,
        }
    };
    values.into_iter().map(one).collect()
}

fn features(rows: Option<&GivenRows>) -> Result<Features<'_>, String> {
    let rows = rows.ok_or_else(|| {
        format!(
            "it needs features: give {}",
            Setting("features").to("NET.onnx")
        )
    })?;
    rows.features().map_err(|e| e.to_string())
}

fn of_referee(known: &Known<'_>) -> Found {
    let judged = known.judged.ok_or_else(|| {
        format!(
            "it needs a referee and samples of queries: give {}",
            Setting("referee").to("NET.onnx")
        )
    })?;
    let all = whole(judged);
    if all.n == 0 {
        return Err("there are no items of a query".to_owned());
    }
    Ok((all.share, Some(all.interval())))
}

/// Accuracy over items of several queries.
fn whole(judged: &[Judged<'_>]) -> Accuracy {
    let each = judged
        .iter()
        .map(|items| accuracy(items.labels, items.query));
    let (right, n) = each.fold((0, 0), |(right, n), one| (right + one.right, n + one.n));
    Accuracy::new(right, n)
}

/// Accuracy of each label that a query decides.
pub(super) fn by_label(judged: &Judged<'_>) -> Vec<Option<Accuracy>> {
    accuracy_by_label(judged.labels, judged.query)
}

/// FID, KID and the four of neighbours.
fn of_pairs(known: &Known<'_>, asked: &impl Fn(&Metric) -> bool) -> Values {
    let mut values = Values::new();
    let sides = features(known.real).and_then(|real| Ok((real, features(known.generated)?)));
    let (real, generated) = match sides {
        Ok(sides) => sides,
        Err(why) => {
            let metrics = [
                Metric::Fid,
                Metric::Kid,
                Metric::Precision,
                Metric::Recall,
                Metric::Density,
                Metric::Coverage,
            ];
            let metrics = metrics.into_iter().filter(asked);
            return metrics.map(|metric| (metric, Err(why.clone()))).collect();
        }
    };
    if asked(&Metric::Fid) {
        values.push((Metric::Fid, distance(real, generated)));
    }
    let balls = [
        Metric::Precision,
        Metric::Recall,
        Metric::Density,
        Metric::Coverage,
    ];
    let any_ball = balls.iter().any(asked);
    let (kernel, balls_found) = match (asked(&Metric::Kid), any_ball) {
        (true, true) => match compare(real, generated, NEIGHBOURS) {
            Ok(both) => (Some(Ok(both.kid)), Some(Ok(both.prdc))),
            // One of the two may still be known.
            Err(_) => (
                Some(kid(real, generated)),
                Some(prdc(real, generated, NEIGHBOURS)),
            ),
        },
        (true, false) => (Some(kid(real, generated)), None),
        (false, true) => (None, Some(prdc(real, generated, NEIGHBOURS))),
        (false, false) => (None, None),
    };
    if let Some(found) = kernel {
        let found = found.map(|estimate| (estimate.value, Some(estimate.interval())));
        values.push((Metric::Kid, found.map_err(|e| e.to_string())));
    }
    if let Some(found) = balls_found {
        let found = found.map_err(|e| e.to_string());
        let of = |metric| {
            found
                .as_ref()
                .map(|prdc| of_balls(prdc, metric))
                .map_err(Clone::clone)
        };
        let wanted = balls.into_iter().filter(asked);
        values.extend(wanted.map(|metric| (metric, of(metric))));
    }
    values
}

/// One of the four metrics of neighbours.
fn of_balls(prdc: &Prdc, metric: Metric) -> (f64, Option<[f64; 2]>) {
    let intervals = prdc.intervals(Bootstrap::default());
    match metric {
        Metric::Precision => (prdc.precision, intervals.map(|i| i.precision)),
        Metric::Recall => (prdc.recall, intervals.map(|i| i.recall)),
        Metric::Density => (prdc.density, intervals.map(|i| i.density)),
        _ => (prdc.coverage, intervals.map(|i| i.coverage)),
    }
}

fn distance(real: Features<'_>, generated: Features<'_>) -> Found {
    if real.width() <= WIDEST_WITH_INTERVAL
        && let Ok(found) = fid_with_error(real, generated)
    {
        return Ok((found.value, Some(found.interval())));
    }
    let value = fid(real, generated).map_err(|e| e.to_string())?;
    Ok((value, None))
}

fn of_classes(known: &Known<'_>) -> Found {
    let rows = known
        .classes
        .ok_or("it needs a feature network that gives classes")?;
    let features = Features::new(&rows.values, rows.width).map_err(|e| e.to_string())?;
    let found = inception_score(ClassScores::told(features), SPLITS).map_err(|e| e.to_string())?;
    Ok((found.mean, found.interval(Bootstrap::default())))
}

/// What generated items say on their own.
fn of_generated(known: &Known<'_>, asked: &impl Fn(&Metric) -> bool) -> Values {
    let mut values = Values::new();
    let items = features(known.generated);
    if asked(&Metric::Diversity) {
        let found = items.clone().and_then(|items| {
            let found = mean_distance(items).map_err(|e| e.to_string())?;
            Ok((found.value, Some(found.interval())))
        });
        values.push((Metric::Diversity, found));
    }
    if asked(&Metric::Duplicates) {
        let found = items.and_then(|items| duplicate_rate(items, 0.0).map_err(|e| e.to_string()));
        values.push((Metric::Duplicates, found.map(|rate| (rate, None))));
    }
    values
}

fn of_training(known: &Known<'_>) -> Found {
    if known.training.is_none() {
        return Err(format!(
            "it needs the training items: give {}",
            Setting("training").to("PATH")
        ));
    }
    let (training, generated) = (features(known.training)?, features(known.generated)?);
    let found = copying(training, generated).map_err(|e| e.to_string())?;
    Ok((found.close.share, Some(found.close.interval())))
}
