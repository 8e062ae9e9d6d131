//! Samples in memory: the items themselves, and what is known about each.

use std::ops::Range;
use std::sync::Arc;

use s2m_core::query::Query;
use s2m_core::weight::Evidence;
use s2m_model::bundle::Bundle;
use s2m_model::manifest::ItemEntry;
use s2m_model::networks::{Renderer, Requested};

use crate::draw::{Target, item_posterior, log_weight};
use crate::error::Error;
use crate::pace::Pace;
use crate::pool::Pool;
use crate::progress::Progress;
use crate::report::Report;
use crate::session::Session;

/// Items of one draw, or one batch of a stream.
///
/// All lists go by sample, in the order in which they were accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// The items.
    pub items: Items,
    /// Sides of one item: height, width and channels of a picture, or the shape of a point.
    pub shape: Vec<usize>,
    /// What the query says about each label of the model: it holds, it does not, or it is left open.
    pub labels: Vec<Option<bool>>,
    /// Posterior of every label given the query: a row of as many numbers as the model has labels per sample; NaN where
    /// the query has no density, which no sample of a positive margin and floor has.
    pub posteriors: Vec<f64>,
    /// Log of each importance weight, up to a constant that all samples of a query share.
    pub log_weights: Vec<f64>,
    /// Number of each proposal: seed, stage and number say which item it is.
    pub proposals: Vec<u64>,
    /// Stage of an adaptation that each proposal was drawn in, zero for the generator's own prior; empty without
    /// adaptation.
    pub stages: Vec<u16>,
    /// Class that a conditional generator was given for each; empty for another.
    pub classes: Vec<u32>,
}

/// Numbers of items, one item after the other.
#[derive(Debug, Clone, PartialEq)]
pub enum Items {
    /// Pictures of up to 8 bits, channels last.
    Pictures8(Vec<u8>),
    /// Pictures of up to 16 bits, channels last.
    Pictures16(Vec<u16>),
    /// Points.
    Points(Vec<f32>),
}

/// A draw: its samples, and everything that is said about them.
#[derive(Debug, Clone, PartialEq)]
pub struct Draw {
    /// What was drawn.
    pub samples: Samples,
    /// What `report.json` says of a draw to a folder.
    pub report: Report,
}

impl Samples {
    /// No samples of a query yet.
    pub(crate) fn empty(output: &ItemEntry, query: &Query, labels: usize) -> Self {
        let shape = match output.picture_size() {
            Some(size) => size.to_vec(),
            None => output.shape.clone(),
        };
        Self {
            items: Items::of(output),
            shape,
            labels: (0..labels).map(|label| query.forced(label)).collect(),
            posteriors: Vec::new(),
            log_weights: Vec::new(),
            proposals: Vec::new(),
            stages: Vec::new(),
            classes: Vec::new(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.proposals.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.proposals.is_empty()
    }

    /// Posteriors of the labels at one sample.
    pub fn posteriors_of(&self, sample: usize) -> &[f64] {
        let labels = self.labels.len();
        &self.posteriors[sample * labels..(sample + 1) * labels]
    }

    /// What is known about one sample.
    pub(crate) fn known(&self, sample: usize) -> Known {
        let posteriors = self.posteriors_of(sample).iter();
        Known {
            proposal: self.proposals[sample],
            stage: self.stages.get(sample).copied(),
            log_weight: self.log_weights[sample],
            posteriors: posteriors.map(|&p| (!p.is_nan()).then_some(p)).collect(),
            class: self.classes.get(sample).copied(),
        }
    }

    /// Adds what is known about a sample.
    pub(crate) fn note(&mut self, known: Known) {
        // A kept item has a weight, so that the query has a density there.
        let posterior = |p: Option<f64>| p.unwrap_or(f64::NAN);
        self.posteriors
            .extend(known.posteriors.into_iter().map(posterior));
        self.log_weights.push(known.log_weight);
        self.proposals.push(known.proposal);
        self.stages.extend(known.stage);
        self.classes.extend(known.class);
    }
}

impl Items {
    fn of(output: &ItemEntry) -> Self {
        match (output.is_picture(), output.bits.unwrap_or(8)) {
            (false, _) => Self::Points(Vec::new()),
            (true, ..=8) => Self::Pictures8(Vec::new()),
            (true, _) => Self::Pictures16(Vec::new()),
        }
    }

    /// Adds items as a renderer gives them.
    pub(crate) fn extend(&mut self, values: &[f32]) {
        match self {
            Self::Pictures8(levels) => levels.extend(values.iter().map(|&level| level as u8)),
            Self::Pictures16(levels) => levels.extend(values.iter().map(|&level| level as u16)),
            Self::Points(points) => points.extend_from_slice(values),
        }
    }

    /// All numbers as floats: levels of pictures, coordinates of points.
    pub fn to_floats(&self) -> Vec<f32> {
        self.floats(0..self.len())
    }

    /// Some of them.
    pub(crate) fn floats(&self, numbers: Range<usize>) -> Vec<f32> {
        match self {
            Self::Pictures8(levels) => levels[numbers].iter().map(|&l| f32::from(l)).collect(),
            Self::Pictures16(levels) => levels[numbers].iter().map(|&l| f32::from(l)).collect(),
            Self::Points(points) => points[numbers].to_vec(),
        }
    }

    /// How many numbers there are, of all items together.
    fn len(&self) -> usize {
        match self {
            Self::Pictures8(levels) => levels.len(),
            Self::Pictures16(levels) => levels.len(),
            Self::Points(points) => points.len(),
        }
    }
}

/// What is known about one kept proposal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Known {
    pub(crate) proposal: u64,
    /// Stage of an adaptation; none without one.
    pub(crate) stage: Option<u16>,
    pub(crate) log_weight: f64,
    /// Posterior of each label given the query; none where the query has no density.
    pub(crate) posteriors: Vec<Option<f64>>,
    pub(crate) class: Option<u32>,
}

impl Known {
    /// Looks at a row of the pool.
    pub(crate) fn of(
        pool: &Pool,
        target: &Target,
        row: u64,
        evidence: Evidence<'_>,
    ) -> Result<Self, Error> {
        let query = target.weighting.query();
        let item = item_posterior(target, row, evidence)?;
        let labels = evidence.class_logits.len();
        let (stage, proposal) = pool.start(row);
        Ok(Self {
            proposal,
            stage: pool.is_adapted().then_some(stage),
            log_weight: log_weight(target, row, evidence)?,
            posteriors: (0..labels)
                .map(|label| item.label_posterior(query, label))
                .collect(),
            class: pool.class(row),
        })
    }
}

/// Makes items of proposals that were kept.
pub(crate) struct Maker {
    bundle: Arc<Bundle>,
    renderer: Renderer,
}

impl Maker {
    pub(crate) fn open(session: &Session) -> Result<Self, Error> {
        let renderer = Renderer::open(&session.bundle, &session.runtime, &session.run)?;
        Ok(Self {
            bundle: Arc::clone(&session.bundle),
            renderer,
        })
    }

    /// Items that keep every worker busy once.
    pub(crate) fn round(&self) -> usize {
        self.renderer.round()
    }

    /// Numbers in one item.
    pub(crate) fn item_size(&self) -> usize {
        self.renderer.item_size()
    }

    /// Items of the first rows, as many as come from one origin; at least one where there are any.
    pub(crate) fn make(&self, pool: &Pool, rows: &[u64]) -> Result<Vec<f32>, Error> {
        if let Some(moved) = pool.moved() {
            return Ok(moved.render(&self.renderer, rows)?);
        }
        let (origin, numbers, _) = pool.same_origin(rows);
        let classes = rows[..numbers.len()].iter();
        let classes: Vec<u32> = classes.filter_map(|&row| pool.class(row)).collect();
        Ok(self.renderer.render(Requested {
            proposals: origin.proposals,
            mixture: origin.mixture.as_deref(),
            numbers: &numbers,
            classes: &classes,
        })?)
    }

    /// Items of all these rows, and what is known about them.
    pub(crate) fn collect(
        &self,
        pool: &Pool,
        target: &Target,
        rows: &[u64],
        progress: &dyn Progress,
    ) -> Result<Samples, Error> {
        let output = &self.bundle.manifest().generator.output;
        let labels = self.bundle.labels().len();
        let mut samples = Samples::empty(output, target.weighting.query(), labels);
        pool.look_at(rows, &mut |row, evidence| {
            samples.note(Known::of(pool, target, row, evidence)?);
            Ok(())
        })?;
        samples.items = self.make_all(pool, rows, progress)?;
        Ok(samples)
    }

    /// Items of all these rows.
    pub(crate) fn make_all(
        &self,
        pool: &Pool,
        rows: &[u64],
        progress: &dyn Progress,
    ) -> Result<Items, Error> {
        let mut items = Items::of(&self.bundle.manifest().generator.output);
        progress.begin("making samples", Some(rows.len() as u64));
        let mut pace = Pace::new(self.round());
        let mut left = rows;
        while !left.is_empty() {
            let piece = pace.begin(left.len());
            let made = self.make(pool, &left[..piece])?;
            pace.end();
            items.extend(&made);
            left = &left[made.len() / self.item_size()..];
            Error::unless_stopped(progress, (rows.len() - left.len()) as u64)?;
        }
        progress.end();
        Ok(items)
    }
}
