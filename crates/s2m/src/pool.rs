//! The logits of proposals 0, 1, 2, …, scored once and shared by every query that needs them.
//!
//! Rows come from a bank while it lasts, then from what an interrupted run left, then from the
//! networks. Latents come from the prior, or from a mixture that was adapted to a query; a pool may also
//! begin with rows that earlier stages of adaptation have left.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use s2m_core::mixture::Mixture;
use s2m_core::proposals::{Proposals, Purpose};
use s2m_core::weight::Evidence;
use s2m_model::bank::Bank;
use s2m_model::bundle::Bundle;
use s2m_model::disk::{Column, Number, Scratch};
use s2m_model::journal::Journal;
use s2m_model::latents::LatentSource;
use s2m_model::logits::{Logits, RowShape};
use s2m_model::networks::{Requested, RunSettings, Scorer};
use s2m_model::runtime::Runtime;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::moved::MovedRows;
use crate::pace::Pace;
use crate::progress::Progress;

/// Which class a conditional generator is given for proposal `k`.
#[derive(Debug, Clone, PartialEq)]
pub enum ClassRule {
    /// The generator takes no class.
    None,
    /// Drawn with these probabilities from the proposal's own random number.
    Drawn(Vec<f64>),
    /// `k mod n`, as in a bank.
    Cycled(usize),
}

impl ClassRule {
    /// Its name in a report.
    pub fn name(&self) -> Option<RuleName> {
        match self {
            Self::None => None,
            Self::Drawn(_) => Some(RuleName::Drawn),
            Self::Cycled(_) => Some(RuleName::Cycled),
        }
    }

    /// The class of one proposal.
    pub fn class(&self, proposals: &Proposals, number: u64) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Cycled(classes) => Some((number % *classes as u64) as u32),
            Self::Drawn(shares) => {
                let u = proposals.uniform(Purpose::Class, number);
                let mut passed = 0.0;
                let found = shares.iter().position(|share| {
                    passed += share;
                    u < passed
                });
                let last = shares.iter().rposition(|share| *share > 0.0);
                found.or(last).map(|class| class as u32)
            }
        }
    }
}

/// How classes are dealt out to proposals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleName {
    /// Drawn from the proposal's own random number, among the classes asked for.
    Drawn,
    /// The number modulo the number of classes, as in a bank.
    Cycled,
}

/// What some proposals are drawn from.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Seed and stage.
    pub proposals: Proposals,
    /// The mixture behind the first latent input; none for the prior.
    pub mixture: Option<Arc<Mixture>>,
}

impl Origin {
    /// The generator's own prior.
    pub fn prior(seed: u64) -> Self {
        Self {
            proposals: Proposals::new(seed),
            mixture: None,
        }
    }

    /// Where the first latent input of a bundle's generator comes from.
    pub fn latents(&self, bundle: &Bundle) -> LatentSource<'_> {
        let latent = &bundle.manifest().generator.latents[0];
        LatentSource {
            proposals: self.proposals,
            mixture: self.mixture.as_deref(),
            input: 0,
            prior: latent.prior,
            size: latent.size(),
        }
    }
}

/// Rows that earlier stages have scored, with their weights against all of these stages.
#[derive(Debug, Clone)]
pub struct RecycledRows {
    /// Where each stage came from and how many rows it has, in order.
    pub stages: Vec<(Origin, usize)>,
    /// Their logits.
    pub logits: Logits,
    /// `log p_z − log p̃_z` of each, with the mixture of all stages for `p̃_z`.
    pub log_ratios: Vec<f64>,
}

impl RecycledRows {
    /// Logits of the first stage alone, which is of the prior.
    pub fn first_stage(&self) -> Logits {
        let shape = self.logits.shape();
        let count = self.stages.first().map_or(0, |(_, rows)| *rows);
        let mut first = Logits::zeros(shape, count);
        let values = &self.logits.values()[..count * shape.width()];
        first.values_mut().copy_from_slice(values);
        first
    }
}

/// A stretch of a pool's rows.
#[derive(Debug, Clone)]
pub struct Rows {
    first: usize,
    logits: Logits,
    log_ratios: Vec<f64>,
}

impl Rows {
    /// What the classifiers say about the proposal of a row of the pool, and how its latent is weighted.
    pub fn evidence(&self, row: usize) -> Evidence<'_> {
        Evidence {
            log_latent_ratio: self.log_ratio(row),
            ..self.logits.evidence(row - self.first)
        }
    }

    /// `log p_z − log p̃_z` of a row's latent.
    pub fn log_ratio(&self, row: usize) -> f64 {
        let ratio = self.log_ratios.get(row - self.first);
        ratio.copied().unwrap_or(0.0)
    }

    /// All of them.
    pub fn logits(&self) -> &Logits {
        &self.logits
    }
}

/// Numbers of rows that are read or taken over at a time.
const AT_A_TIME: usize = 1 << 20;

/// Logits of the proposals from 0 on.
pub struct Pool {
    bundle: Arc<Bundle>,
    runtime: Runtime,
    settings: RunSettings,
    /// First row of each origin; the last one goes on as far as is asked for.
    origins: Vec<(usize, Origin)>,
    rule: ClassRule,
    /// Where rows are of latents that are no proposals: all of them are.
    moved: Option<MovedRows>,
    shape: RowShape,
    /// Numbers of the rows so far.
    values: Column<f32>,
    /// `log p_z − log p̃_z` of each row; empty where all come from the prior.
    log_ratios: Column<f64>,
    scratch: Scratch,
    bank: Option<Bank>,
    journal: Option<Journal>,
    scorer: Option<(Scorer, Pace)>,
}

impl Pool {
    /// An empty pool, whose rows go to the scratch folder where memory does not hold them.
    pub fn new(
        bundle: &Arc<Bundle>,
        runtime: &Runtime,
        settings: RunSettings,
        seed: u64,
        rule: ClassRule,
        scratch: &Scratch,
    ) -> Self {
        Self {
            bundle: Arc::clone(bundle),
            runtime: runtime.clone(),
            settings,
            origins: vec![(0, Origin::prior(seed))],
            shape: row_shape(bundle),
            values: Column::new(scratch),
            log_ratios: Column::new(scratch),
            scratch: scratch.clone(),
            rule,
            moved: None,
            bank: None,
            journal: None,
            scorer: None,
        }
    }

    /// An empty column of numbers about this pool.
    pub(crate) fn column<T: Number>(&self) -> Column<T> {
        Column::new(&self.scratch)
    }

    /// Draws latents from somewhere else than the prior.
    #[must_use]
    pub fn with_origin(mut self, origin: Origin) -> Self {
        self.origins = vec![(0, origin)];
        self
    }

    /// Begins with rows of earlier stages; fresh ones follow them.
    pub fn with_recycled(mut self, recycled: RecycledRows) -> Result<Self, Error> {
        let mut first = 0;
        let fresh = self.origins.remove(0).1;
        for (origin, rows) in recycled.stages {
            self.origins.push((first, origin));
            first += rows;
        }
        self.origins.push((first, fresh));
        self.values.append(recycled.logits.values())?;
        self.log_ratios.append(&recycled.log_ratios)?;
        Ok(self)
    }

    /// Begins with rows that were scored before: the first ones of this very origin.
    pub fn with_first_rows(mut self, rows: &Logits) -> Result<Self, Error> {
        self.append(rows.values())?;
        Ok(self)
    }

    /// Latents with their logits, in the place of proposals.
    pub(crate) fn with_moved(mut self, moved: MovedRows, rows: &Logits) -> Result<Self, Error> {
        self.moved = Some(moved);
        self.values.append(rows.values())?;
        Ok(self)
    }

    /// The latents of a pool that has no proposals.
    pub(crate) fn moved(&self) -> Option<&MovedRows> {
        self.moved.as_ref()
    }

    /// Stage and number of the proposal that a row is, or started from.
    pub(crate) fn start(&self, row: u64) -> (u16, u64) {
        if let Some(moved) = &self.moved {
            return moved.start(row);
        }
        let (origin, number) = self.place(row);
        (origin.proposals.stage(), number)
    }

    /// Takes the first rows from a bank of this model and seed.
    #[must_use]
    pub fn with_bank(mut self, bank: Bank) -> Self {
        self.bank = Some(bank);
        self
    }

    /// Keeps new rows in a journal, and starts with those that it holds.
    ///
    /// Rows before the journal's come from the bank, so a journal belongs to one bank and one length
    /// of it.
    pub fn with_journal(mut self, path: &Path, identity: &str) -> Result<Self, Error> {
        let (shape, mut taken) = (self.shape, Ok(()));
        let mut first = true;
        let journal = Journal::recover(path, identity, shape, &mut |rows| {
            if std::mem::take(&mut first) {
                taken = self.take_from_bank(usize::MAX);
            }
            if taken.is_ok() {
                taken = self.append(rows);
            }
        })?;
        taken?;
        self.journal = Some(journal);
        Ok(self)
    }

    /// Seed and stage of the proposals that are still to come.
    pub fn proposals(&self) -> &Proposals {
        &self.origin().proposals
    }

    /// Where proposals that are still to come are drawn from.
    pub fn origin(&self) -> &Origin {
        &self.origins.last().expect("a pool has an origin").1
    }

    /// Where the proposal of a row comes from, and its number there.
    pub fn place(&self, row: u64) -> (&Origin, u64) {
        let at = self
            .origins
            .partition_point(|(first, _)| *first as u64 <= row);
        let (first, origin) = &self.origins[at.max(1) - 1];
        (origin, row - *first as u64)
    }

    /// Number of rows so far.
    pub fn len(&self) -> usize {
        self.values.len() / self.shape.width()
    }

    /// Whether there are none yet.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Rows that are best read together.
    pub(crate) fn rows_at_a_time(&self) -> usize {
        (AT_A_TIME / self.shape.width()).max(1)
    }

    /// A stretch of the rows so far, to be read by many threads.
    pub fn rows(&self, rows: Range<usize>) -> Result<Rows, Error> {
        let width = self.shape.width();
        let values = self.values.read(rows.start * width..rows.end * width)?;
        let weighed = self.log_ratios.len();
        let ratios = rows.start.min(weighed)..rows.end.min(weighed);
        Ok(Rows {
            first: rows.start,
            logits: Logits::from_values(self.shape, values).expect("these are whole rows"),
            log_ratios: self.log_ratios.read(ratios)?,
        })
    }

    /// Shows what the classifiers say about some rows, in the order in which they are given.
    pub(crate) fn look_at(
        &self,
        numbers: &[u64],
        see: &mut dyn FnMut(u64, Evidence<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let most = self.rows_at_a_time() as u64;
        let mut left = numbers;
        while let Some(&first) = left.first() {
            // As many as lie close together are read together.
            let (mut low, mut high) = (first, first);
            let near = |number: &&u64| {
                let (next_low, next_high) = (low.min(**number), high.max(**number));
                let near = next_high - next_low < most;
                if near {
                    (low, high) = (next_low, next_high);
                }
                near
            };
            let count = left.iter().take_while(near).count();
            let (now, later) = left.split_at(count);
            let rows = self.rows(low as usize..high as usize + 1)?;
            for &number in now {
                see(number, rows.evidence(number as usize))?;
            }
            left = later;
        }
        Ok(())
    }

    /// The same for the first rows.
    pub(crate) fn look_at_first(
        &self,
        count: usize,
        see: &mut dyn FnMut(u64, Evidence<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let most = self.rows_at_a_time();
        for first in (0..count).step_by(most) {
            let rows = first..count.min(first + most);
            let read = self.rows(rows.clone())?;
            for row in rows {
                see(row as u64, read.evidence(row))?;
            }
        }
        Ok(())
    }

    /// Latents of the first input for some rows, in coordinates in which the prior is standard normal.
    pub fn normal_latents(&self, rows: &[u64]) -> Vec<f32> {
        let size = self.origin().latents(&self.bundle).size;
        let mut latents = vec![0.0; rows.len() * size];
        for (row, out) in rows.iter().zip(latents.chunks_mut(size)) {
            let (origin, number) = self.place(*row);
            origin.latents(&self.bundle).fill_normal(&[number], out);
        }
        latents
    }

    /// The class of a proposal still to come, for a conditional generator.
    pub fn own_class(&self, number: u64) -> Option<u32> {
        self.rule.class(self.proposals(), number)
    }

    /// The class of a row's proposal, for a conditional generator.
    pub fn class(&self, row: u64) -> Option<u32> {
        if let Some(moved) = &self.moved {
            return moved.class(row);
        }
        let (origin, number) = self.place(row);
        self.rule.class(&origin.proposals, number)
    }

    /// Whether some rows come from anything but the prior.
    pub fn is_adapted(&self) -> bool {
        let adapted = |(_, origin): &(usize, Origin)| origin.mixture.is_some();
        match &self.moved {
            Some(moved) => moved.adapted,
            None => self.origins.iter().any(adapted),
        }
    }

    /// Rows that begin with this one and come from one origin: that origin, and their numbers there.
    pub fn same_origin<'r>(&self, rows: &'r [u64]) -> (&Origin, Vec<u64>, &'r [u64]) {
        let first = rows.first().copied().unwrap_or_default();
        let at = self
            .origins
            .partition_point(|(start, _)| *start as u64 <= first);
        let end = self
            .origins
            .get(at)
            .map_or(u64::MAX, |(start, _)| *start as u64);
        let count = rows
            .iter()
            .take_while(|row| (first..end).contains(*row))
            .count();
        let (same, rest) = rows.split_at(count);
        let (start, origin) = &self.origins[at.max(1) - 1];
        (
            origin,
            same.iter().map(|row| row - *start as u64).collect(),
            rest,
        )
    }

    /// How classes are chosen.
    pub fn rule(&self) -> &ClassRule {
        &self.rule
    }

    /// Makes sure that the first `wanted` proposals are there.
    pub fn ensure(&mut self, wanted: usize, progress: &dyn Progress) -> Result<(), Error> {
        self.take_from_bank(wanted)?;
        while self.len() < wanted {
            let first = self.len();
            let number = self.place(first as u64).1;
            let (scorer, mut pace) = self.take_scorer()?;
            let rows = self.score(&scorer, number, pace.begin(wanted - first))?;
            pace.end();
            self.scorer = Some((scorer, pace));
            if let Some(journal) = &mut self.journal {
                journal.append(rows.values())?;
            }
            self.append(rows.values())?;
            Error::unless_stopped(progress, self.len() as u64)?;
        }
        Ok(())
    }

    /// The row of one proposal among those still to come, wherever it lies, and `log p_z − log p̃_z`.
    pub fn one(&mut self, number: u64) -> Result<(Logits, f64), Error> {
        let (scorer, pace) = self.take_scorer()?;
        let row = self.score(&scorer, number, 1);
        self.scorer = Some((scorer, pace));
        let ratio = self.log_ratios_of(number, 1).pop();
        Ok((row?, ratio.unwrap_or(0.0)))
    }

    /// The first rows of somewhere else, scored and not kept.
    pub fn elsewhere(&mut self, origin: &Origin, count: usize) -> Result<Logits, Error> {
        let (scorer, pace) = self.take_scorer()?;
        let rows = self.score_at(&scorer, origin, 0, count);
        self.scorer = Some((scorer, pace));
        rows
    }

    /// Adds rows that follow the last one.
    fn append(&mut self, values: &[f32]) -> Result<(), Error> {
        let number = self.place(self.len() as u64).1;
        let ratios = self.log_ratios_of(number, values.len() / self.shape.width());
        self.log_ratios.append(&ratios)?;
        Ok(self.values.append(values)?)
    }

    /// Latent ratios of some proposals still to come; none of them for the prior.
    fn log_ratios_of(&self, first: u64, count: usize) -> Vec<f64> {
        let origin = self.origin();
        let Some(mixture) = &origin.mixture else {
            return Vec::new();
        };
        let numbers: Vec<u64> = (first..first + count as u64).collect();
        let mut latents = vec![0.0; count * mixture.size()];
        origin
            .latents(&self.bundle)
            .fill_normal(&numbers, &mut latents);
        let mut ratios = vec![0.0; count];
        mixture.log_prior_ratios(&latents, &mut ratios);
        ratios
    }

    fn take_from_bank(&mut self, wanted: usize) -> Result<(), Error> {
        let Some(bank) = &self.bank else {
            return Ok(());
        };
        let upto = wanted.min(bank.len() as usize);
        let most = self.rows_at_a_time();
        while self.len() < upto {
            let first = self.len();
            let rows = bank.read(first as u64, most.min(upto - first))?;
            self.values.append(rows.values())?;
        }
        Ok(())
    }

    /// The networks, opened when they are first needed: a bank may do without them.
    fn take_scorer(&mut self) -> Result<(Scorer, Pace), Error> {
        if let Some(open) = self.scorer.take() {
            return Ok(open);
        }
        let scorer = Scorer::open(&self.bundle, &self.runtime, &self.settings)?;
        let pace = Pace::new(scorer.round());
        Ok((scorer, pace))
    }

    fn score(&self, scorer: &Scorer, first: u64, count: usize) -> Result<Logits, Error> {
        self.score_at(scorer, self.origin(), first, count)
    }

    fn score_at(
        &self,
        scorer: &Scorer,
        origin: &Origin,
        first: u64,
        count: usize,
    ) -> Result<Logits, Error> {
        let numbers: Vec<u64> = (first..first + count as u64).collect();
        let class = |&k: &u64| self.rule.class(&origin.proposals, k);
        let classes: Vec<u32> = numbers.iter().filter_map(class).collect();
        let requested = Requested {
            proposals: origin.proposals,
            mixture: origin.mixture.as_deref(),
            numbers: &numbers,
            classes: &classes,
        };
        Ok(scorer.score(requested)?)
    }
}

/// What a row of a bundle's logits holds.
pub fn row_shape(bundle: &Bundle) -> RowShape {
    RowShape {
        labels: bundle.labels().len(),
        conditional: bundle.classes().is_some(),
        joint: bundle.label_sets().map_or(0, |sets| sets.outputs()),
        members: 0,
    }
}
