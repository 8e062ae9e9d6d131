//! `s2m eval`: whether samples are right, real and varied.
//!
//! Real and generated items go through one feature network, and generated ones through a referee where
//! there is one. Each query is measured on its own against the real items that satisfy it, where their
//! labels are known, and all queries together. [`demo`] draws from bundles whose truth is known.
#![warn(missing_docs)]

pub mod demo;
mod error;
mod evaluation;
pub mod gaussians;
pub mod items;
pub mod look;
pub mod measure;
pub mod network;
mod page;
pub mod truth;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use s2m::output::{Lock, write_whole};
use s2m::progress::Progress;
use s2m::session::Machine;
use s2m_core::labels::LabelSet;
use s2m_core::query::Query;
use s2m_model::disk::check_replaceable;
use s2m_model::runtime::Runtime;

use self::evaluation::{Seen, Side};
use self::items::{GivenRows, ItemSet, Items, Rows};
use self::look::look;
use self::measure::{Judged, Known, Metric, by_label, measure};
use self::network::{ClassKind, EvalNetwork, Wanted};
use self::truth::{LabelEntry, LabelMap, Truth};

pub use error::Error;
pub use evaluation::{Evaluated, Evaluation};

/// One request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Real items.
    pub real: &'a Path,
    /// Generated items.
    pub generated: &'a Path,
    /// Items that the generator was trained on, for the copying check.
    pub training: Option<&'a Path>,
    /// Network of the features.
    pub features: Option<&'a Path>,
    /// Network that says which labels an item has.
    pub referee: Option<&'a Path>,
    /// What generated items were drawn for, where they do not say so themselves.
    pub query: Option<&'a str>,
    /// Labels as lists of classes.
    pub labels: &'a [LabelEntry],
    /// What to measure.
    pub metrics: &'a [Metric],
    /// Leave out pictures that cannot be read.
    pub skip_bad: bool,
    /// Folder in which features are kept.
    pub cache: Option<&'a Path>,
    /// What to run networks with.
    pub machine: Machine<'a>,
    /// A page to write.
    pub html: Option<&'a Path>,
}

/// Which real items are compared with: all, or only those of the query.
const ALL_REAL: &str = "real items";
const SATISFYING: &str = "real items that satisfy the query";

/// Evaluates generated items.
pub fn evaluate(request: &Request<'_>, progress: &dyn Progress) -> Result<Evaluation, Error> {
    // Before any work: whether the page can be written where it shall be.
    let _lock = request.html.map(lock_page).transpose()?;
    let open = |path: &Path| items::open(path, request.skip_bad);
    let (real, mut generated) = (open(request.real)?, open(request.generated)?);
    if let Some(query) = request.query {
        for set in &mut generated {
            set.query.get_or_insert_with(|| query.to_owned());
        }
    }
    let training = request.training.map(open).transpose()?;
    check_kinds(request, &real, &generated, training.as_deref())?;
    let runtime = Runtime::load(request.machine.onnxruntime)?;
    let run = &request.machine.run;
    let referee = request
        .referee
        .map(|path| EvalNetwork::open(path, Wanted::Classes, &runtime, run))
        .transpose()?;
    let features = request
        .features
        .map(|path| EvalNetwork::open(path, Wanted::Features, &runtime, run))
        .transpose()?;
    // Without a feature network the referee's features serve.
    let looker = features
        .as_ref()
        .or(referee.as_ref().filter(|r| r.features.is_some()));
    let look_at = |sets: Vec<ItemSet>, network: Option<&EvalNetwork>| -> Result<Side, Error> {
        let see = |set: &ItemSet| see(set, network, request.cache, progress);
        let seen = sets.iter().map(see).collect::<Result<_, Error>>()?;
        Ok(Side { sets, seen })
    };
    let real = look_at(real, looker)?;
    let generated = look_at(generated, looker)?;
    let training = training.map(|sets| look_at(sets, looker)).transpose()?;
    check_widths(&real, &generated)?;
    let labels = label_map(request, referee.as_ref(), &real)?;
    let judged = judged_labels(
        &generated,
        referee.as_ref(),
        labels.as_ref(),
        request,
        progress,
    )?;
    let queries = queries(&generated, labels.as_ref())?;
    let classes_count = features.is_some();
    let comparison = Comparison {
        request,
        real: &real,
        generated: &generated,
        training: training
            .as_ref()
            .map(|side| pooled(&side.seen))
            .unwrap_or_default(),
        labels: labels.as_ref(),
        judged: judged.as_deref(),
        queries: &queries,
        classes_count,
    };
    let pooled = comparison.all()?;
    let by_query = comparison.by_query()?;
    let skipped = [&real.sets, &generated.sets].into_iter().flatten();
    let skipped = skipped.flat_map(|set| set.skipped.clone()).collect();
    let mut evaluation = Evaluation {
        pooled,
        queries: by_query,
        features: looker.map_or("the items themselves".to_owned(), |network| {
            network.name.clone()
        }),
        referee: referee.as_ref().map(|network| network.name.clone()),
        skipped,
        versions: BTreeMap::from([
            ("s2m".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("onnxruntime".to_owned(), runtime.version()),
        ]),
        no_page: None,
    };
    if let Some(path) = request.html {
        let sides = page::Sides {
            real: &real,
            generated: &generated,
            paths: [request.real, request.generated],
        };
        let page = page::page(&evaluation, sides);
        let written = page.and_then(|page| Ok(write_whole(path, page.as_bytes())?));
        evaluation.no_page = written.err().map(|error| error.to_string());
    }
    Ok(evaluation)
}

/// Makes sure that a page can be written, and by nobody else.
fn lock_page(path: &Path) -> Result<Lock, Error> {
    check_replaceable(path).map_err(Error::write(path))?;
    Ok(Lock::beside(path)?)
}

/// What a network says of a set; rows are their own features.
fn see(
    set: &ItemSet,
    network: Option<&EvalNetwork>,
    cache: Option<&Path>,
    progress: &dyn Progress,
) -> Result<Seen, Error> {
    match (&set.items, network) {
        (Items::Rows(rows), _) => Ok(Seen {
            features: Some(rows.clone()),
            classes: None,
        }),
        (Items::Pictures(pictures), Some(network)) => {
            Ok(look(pictures, network, cache, progress)?.into())
        }
        (Items::Pictures(_), None) => Ok(Seen::default()),
    }
}

/// Pictures with pictures, rows with rows, and a network where pictures need one.
fn check_kinds(
    request: &Request<'_>,
    real: &[ItemSet],
    generated: &[ItemSet],
    training: Option<&[ItemSet]>,
) -> Result<(), Error> {
    let holds = |set: &ItemSet| match set.items {
        Items::Pictures(_) => "images",
        Items::Rows(_) => "rows of numbers",
    };
    let first = &generated[0];
    for set in real
        .iter()
        .chain(generated)
        .chain(training.unwrap_or_default())
    {
        if holds(set) != holds(first) {
            return Err(Error::Mixed {
                path: set.path.clone(),
                found: holds(set),
                other: first.path.clone(),
                wanted: holds(first),
            });
        }
        if let Items::Rows(rows) = &set.items
            && let Some((row, column, value)) = rows.unusable()
        {
            return Err(Error::Values {
                path: set.path.clone(),
                reason: format!("number {column} of item {row} is {value}"),
            });
        }
    }
    let needs_network = matches!(first.items, Items::Pictures(_));
    if needs_network && request.features.is_none() && request.referee.is_none() {
        return Err(Error::NoNetwork(first.path.clone()));
    }
    Ok(())
}

fn check_widths(real: &Side, generated: &Side) -> Result<(), Error> {
    let widths = |side: &Side| -> Vec<(PathBuf, usize)> {
        let all = side.sets.iter().zip(&side.seen);
        all.filter_map(|(set, seen)| Some((set.path.clone(), seen.features.as_ref()?.width())))
            .collect()
    };
    let all = [widths(real), widths(generated)].concat();
    let Some((other, wanted)) = all.first().cloned() else {
        return Ok(());
    };
    match all.into_iter().find(|(_, width)| *width != wanted) {
        None => Ok(()),
        Some((path, found)) => Err(Error::Width {
            path,
            found,
            other,
            wanted,
        }),
    }
}

/// Labels over the referee's classes, or over what is known of real items.
fn label_map(
    request: &Request<'_>,
    referee: Option<&EvalNetwork>,
    real: &Side,
) -> Result<Option<LabelMap>, Error> {
    let classes = match (referee, &real.sets[0].truth) {
        (Some(referee), _) => referee.class_names(),
        (None, Truth::Classes(classes)) => {
            let most = classes.iter().copied().max().unwrap_or(0);
            (0..=most).map(|class| class.to_string()).collect()
        }
        (None, Truth::Labels { names, .. }) => names.clone(),
        (None, Truth::Nothing) => return Ok(None),
    };
    LabelMap::new(request.labels, &classes).map(Some)
}

/// Labels of generated items by the referee, set by set.
fn judged_labels(
    generated: &Side,
    referee: Option<&EvalNetwork>,
    labels: Option<&LabelMap>,
    request: &Request<'_>,
    progress: &dyn Progress,
) -> Result<Option<Vec<Vec<LabelSet>>>, Error> {
    let (Some(referee), Some(labels)) = (referee, labels) else {
        return Ok(None);
    };
    let mut judged = Vec::new();
    for set in &generated.sets {
        let Items::Pictures(pictures) = &set.items else {
            return Ok(None);
        };
        let seen = look(pictures, referee, request.cache, progress)?;
        let rows = seen.classes.expect("a referee gives classes");
        let of = |row: &[f32]| match referee.settings.kind {
            ClassKind::OneOf => {
                // The first of equal ones, as everywhere.
                let best = (0..row.len())
                    .rev()
                    .max_by(|&a, &b| row[a].total_cmp(&row[b]));
                labels.of(best)
            }
            ClassKind::Each => labels.of((0..row.len()).filter(|&class| row[class] > 0.0)),
        };
        judged.push(rows.values.chunks_exact(rows.width).map(of).collect());
    }
    Ok(Some(judged))
}

/// The query of each generated set, where it has one and labels are known.
fn queries(generated: &Side, labels: Option<&LabelMap>) -> Result<Vec<Option<Query>>, Error> {
    let query = |set: &ItemSet| match (&set.query, labels) {
        (Some(text), Some(labels)) => labels.query(text).map(Some),
        _ => Ok(None),
    };
    generated.sets.iter().map(query).collect()
}

/// Everything that is compared.
struct Comparison<'a> {
    request: &'a Request<'a>,
    real: &'a Side,
    generated: &'a Side,
    training: Pooled,
    labels: Option<&'a LabelMap>,
    judged: Option<&'a [Vec<LabelSet>]>,
    queries: &'a [Option<Query>],
    /// Whether classes are those of a feature network.
    classes_count: bool,
}

/// Rows of several sets in one.
#[derive(Default)]
struct Pooled {
    features: Option<GivenRows>,
    classes: Option<Rows>,
}

fn pooled(seen: &[Seen]) -> Pooled {
    let features: Option<Vec<&GivenRows>> = seen.iter().map(|one| one.features.as_ref()).collect();
    let classes: Option<Vec<&Rows>> = seen.iter().map(|one| one.classes.as_ref()).collect();
    Pooled {
        features: features.and_then(|all| GivenRows::join(&all)),
        classes: classes.and_then(|all| {
            Some(Rows {
                width: all.first()?.width,
                values: all.iter().flat_map(|rows| &rows.values).copied().collect(),
            })
        }),
    }
}

impl Comparison<'_> {
    /// All generated items against the real items of any of their queries.
    fn all(&self) -> Result<Evaluated, Error> {
        let known: Option<Vec<&Query>> = self.queries.iter().map(Option::as_ref).collect();
        let judged: Option<Vec<Judged<'_>>> = self.judged.and_then(|judged| {
            let pairs = self.queries.iter().zip(judged);
            pairs
                .map(|(query, labels)| {
                    Some(Judged {
                        query: query.as_ref()?,
                        labels,
                    })
                })
                .collect()
        });
        let everything = pooled(&self.generated.seen);
        self.measured(&known.unwrap_or_default(), &everything, judged.as_deref())
    }

    /// Query by query, where all sets have one.
    fn by_query(&self) -> Result<BTreeMap<String, Evaluated>, Error> {
        let mut found = BTreeMap::new();
        for (at, set) in self.generated.sets.iter().enumerate() {
            let Some(text) = &set.query else { continue };
            let query = self.queries[at].as_ref();
            let judged = self.judged.zip(query).map(|(judged, query)| Judged {
                query,
                labels: &judged[at],
            });
            let own = pooled(std::slice::from_ref(&self.generated.seen[at]));
            let queries: Vec<&Query> = query.into_iter().collect();
            let measured =
                self.measured(&queries, &own, judged.as_ref().map(std::slice::from_ref))?;
            found.insert(text.clone(), measured);
        }
        Ok(found)
    }

    /// Generated items against the real items of any of these queries; all of them without queries.
    fn measured(
        &self,
        queries: &[&Query],
        generated: &Pooled,
        judged: Option<&[Judged<'_>]>,
    ) -> Result<Evaluated, Error> {
        let (reference, real, n_real) = self.reference(queries)?;
        let n_generated = generated
            .features
            .as_ref()
            .map(GivenRows::len)
            .or(generated.classes.as_ref().map(Rows::len))
            .or(judged.map(|all| all.iter().map(|items| items.labels.len()).sum()))
            .unwrap_or(0);
        let known = Known {
            real: real.as_ref(),
            generated: generated.features.as_ref(),
            classes: generated.classes.as_ref().filter(|_| self.classes_count),
            training: self.training.features.as_ref(),
            judged,
            n_real,
            n_generated,
        };
        let accuracy_by_label = match (judged, self.labels) {
            (Some([one]), Some(labels)) => {
                let names = labels.labels().names();
                let each = names.zip(by_label(one));
                each.filter_map(|(name, found)| {
                    let found = found?;
                    let [low, high] = found.interval();
                    Some((name.to_owned(), [found.share, low, high]))
                })
                .collect()
            }
            _ => BTreeMap::new(),
        };
        Ok(Evaluated {
            n_generated,
            n_real,
            reference,
            accuracy_by_label,
            measures: measure(&known, self.request.metrics),
        })
    }

    /// Real items of any of these queries, where their labels are known; else all.
    fn reference(
        &self,
        queries: &[&Query],
    ) -> Result<(&'static str, Option<GivenRows>, usize), Error> {
        let all = pooled(&self.real.seen).features;
        let n: usize = self.real.sets.iter().map(|set| set.items.len()).sum();
        let (Some(labels), [set], false) =
            (self.labels, self.real.sets.as_slice(), queries.is_empty())
        else {
            return Ok((ALL_REAL, all, n));
        };
        let mut chosen: Vec<usize> = Vec::new();
        for query in queries {
            match labels.satisfying(&set.truth, query)? {
                None => return Ok((ALL_REAL, all, n)),
                Some(more) => chosen.extend(more),
            }
        }
        chosen.sort_unstable();
        chosen.dedup();
        let n = chosen.len();
        Ok((SATISFYING, all.map(|rows| rows.select(&chosen)), n))
    }
}
