//! The logits of proposals 0, 1, 2, …, scored once and shared by every query that needs them.
//!
//! Rows come from a bank while it lasts, then from what an interrupted run left, then from the
//! networks.

use s2m_core::proposals::{Proposals, Purpose};
use s2m_model::bank::Bank;
use s2m_model::bundle::Bundle;
use s2m_model::journal::Journal;
use s2m_model::logits::{Logits, RowShape};
use s2m_model::networks::{Requested, RunSettings, Scorer};
use s2m_model::runtime::Runtime;

use crate::error::Error;
use crate::pace::Pace;
use crate::progress::Progress;
use crate::report::RuleName;

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

/// Logits of the proposals from 0 on.
pub struct Pool<'a> {
    bundle: &'a Bundle,
    runtime: &'a Runtime,
    settings: RunSettings,
    proposals: Proposals,
    rule: ClassRule,
    logits: Logits,
    bank: Option<Bank>,
    journal: Option<Journal>,
    scorer: Option<(Scorer, Pace)>,
}

impl<'a> Pool<'a> {
    /// An empty pool.
    pub fn new(
        bundle: &'a Bundle,
        runtime: &'a Runtime,
        settings: RunSettings,
        seed: u64,
        rule: ClassRule,
    ) -> Self {
        Self {
            bundle,
            runtime,
            settings,
            proposals: Proposals::new(seed),
            logits: Logits::zeros(row_shape(bundle), 0),
            rule,
            bank: None,
            journal: None,
            scorer: None,
        }
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
    pub fn with_journal(mut self, journal: Journal, recovered: &Logits) -> Result<Self, Error> {
        if !recovered.is_empty() {
            self.take_from_bank(usize::MAX)?;
            self.logits.append(recovered);
        }
        self.journal = Some(journal);
        Ok(self)
    }

    /// The proposals behind the rows.
    pub fn proposals(&self) -> &Proposals {
        &self.proposals
    }

    /// How classes are chosen.
    pub fn rule(&self) -> &ClassRule {
        &self.rule
    }

    /// The rows so far.
    pub fn logits(&self) -> &Logits {
        &self.logits
    }

    /// Makes sure that the first `wanted` proposals are there.
    pub fn ensure(&mut self, wanted: usize, progress: &dyn Progress) -> Result<(), Error> {
        self.take_from_bank(wanted)?;
        while self.logits.len() < wanted {
            let first = self.logits.len();
            let (scorer, mut pace) = self.take_scorer()?;
            let rows = self.score(&scorer, first as u64, pace.begin(wanted - first))?;
            pace.end();
            self.scorer = Some((scorer, pace));
            if let Some(journal) = &mut self.journal {
                journal.append(rows.values())?;
            }
            self.logits.append(&rows);
            progress.at(self.logits.len() as u64);
        }
        Ok(())
    }

    /// The row of one proposal, wherever it lies.
    pub fn one(&mut self, number: u64) -> Result<Logits, Error> {
        let (scorer, pace) = self.take_scorer()?;
        let row = self.score(&scorer, number, 1);
        self.scorer = Some((scorer, pace));
        row
    }

    fn take_from_bank(&mut self, wanted: usize) -> Result<(), Error> {
        let Some(bank) = &self.bank else {
            return Ok(());
        };
        let upto = wanted.min(bank.len() as usize);
        if self.logits.len() < upto {
            let first = self.logits.len();
            let rows = bank.read(first as u64, upto - first)?;
            self.logits.append(&rows);
        }
        Ok(())
    }

    /// The networks, opened when they are first needed: a bank may do without them.
    fn take_scorer(&mut self) -> Result<(Scorer, Pace), Error> {
        if let Some(open) = self.scorer.take() {
            return Ok(open);
        }
        let scorer = Scorer::open(self.bundle, self.runtime, &self.settings)?;
        let pace = Pace::new(scorer.round());
        Ok((scorer, pace))
    }

    fn score(&self, scorer: &Scorer, first: u64, count: usize) -> Result<Logits, Error> {
        let numbers: Vec<u64> = (first..first + count as u64).collect();
        let class = |&k: &u64| self.rule.class(&self.proposals, k);
        let classes: Vec<u32> = numbers.iter().filter_map(class).collect();
        let requested = Requested {
            proposals: self.proposals,
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
    }
}
