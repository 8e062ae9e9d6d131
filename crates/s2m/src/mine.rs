//! `s2m mine`: scores proposals once, for every query to come.

use std::num::NonZeroUsize;
use std::path::Path;

use s2m_core::proposals::Proposals;
use s2m_model::bank::{BankInfo, BankWriter, FORMAT, PART};
use s2m_model::networks::{Requested, Scorer};
use s2m_model::runtime::Runtime;
use serde::Serialize;

use crate::error::Error;
use crate::models;
use crate::pace::Pace;
use crate::pool::{ClassRule, row_shape};
use crate::progress::Progress;
use crate::session::Machine;

/// One request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Folder or name of the model.
    pub model: &'a Path,
    /// Proposals wanted in the bank; those of a piece end there, counted from 0.
    pub proposals: NonZeroUsize,
    /// Whether it is a whole bank, or a piece that others are joined with.
    pub piece: Piece,
    /// Seed of the proposals.
    pub seed: u64,
    /// What to score with.
    pub machine: Machine<'a>,
    /// The bank's folder.
    pub out: &'a Path,
}

/// Where a bank begins, and how many proposals lie in each of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The first proposal; a multiple of `part`.
    pub first: u64,
    /// Proposals in a part, at most [`PART`]. A bank that is there keeps its own.
    pub part: u64,
}

impl Default for Piece {
    /// A whole bank.
    fn default() -> Self {
        Self {
            first: 0,
            part: PART,
        }
    }
}

/// What was mined.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mined {
    /// Proposals in the bank now, counted from 0 also for a piece.
    pub proposals: u64,
    /// Of these, proposals that were there before, or lie before the piece.
    pub resumed_at: u64,
    /// Wall-clock seconds of this run.
    pub seconds: f64,
}

/// Mines a bank, or what is missing of it.
pub fn mine(request: &Request<'_>, progress: &dyn Progress) -> Result<Mined, Error> {
    let started = std::time::Instant::now();
    let bundle = models::open(request.model)?;
    let runtime = Runtime::load(request.machine.onnxruntime)?;
    let scorer = Scorer::open(&bundle, &runtime, &request.machine.run)?;
    let wanted = request.proposals.get() as u64;
    if wanted <= request.piece.first {
        return Err(Error::Setting(format!(
            "the range {}..{wanted} holds no proposal",
            request.piece.first
        )));
    }
    let info = BankInfo {
        format: FORMAT,
        model: bundle.manifest().name.clone(),
        scoring_hash: bundle.scoring_hash().to_owned(),
        labels: bundle.manifest().labels.clone(),
        conditional: bundle.classes().is_some(),
        classes: bundle.classes(),
        joint: row_shape(&bundle).joint,
        seed: request.seed,
        part: request.piece.part,
        first: request.piece.first,
        device: request.machine.run.device.name().to_owned(),
    };
    let mut writer = BankWriter::open(request.out, info, wanted)?;
    let resumed_at = writer.position();
    let proposals = Proposals::new(request.seed);
    let rule = bundle.classes().map_or(ClassRule::None, ClassRule::Cycled);
    progress.begin("mining proposals", Some(wanted));
    progress.at(resumed_at);
    let mut pace = Pace::new(scorer.round());
    while writer.position() < wanted {
        let first = writer.position();
        let piece = pace.begin((wanted - first) as usize) as u64;
        let numbers: Vec<u64> = (first..first + piece).collect();
        let classes: Vec<u32> = numbers
            .iter()
            .filter_map(|&k| rule.class(&proposals, k))
            .collect();
        let rows = scorer.score(Requested {
            mixture: None,
            proposals,
            numbers: &numbers,
            classes: &classes,
        })?;
        if let Some(bad) = (0..rows.len()).find(|&row| rows.row(row).iter().any(|v| !v.is_finite()))
        {
            let value = rows
                .row(bad)
                .iter()
                .copied()
                .find(|v| !v.is_finite())
                .unwrap_or(f32::NAN);
            let source = s2m_core::weight::LogitError {
                output: "classifier",
                value,
            };
            return Err(Error::Logit {
                proposal: numbers[bad],
                source,
            });
        }
        writer.push(&rows)?;
        pace.end();
        Error::unless_stopped(progress, writer.position())?;
    }
    let proposals = writer.position();
    writer.finish()?;
    progress.end();
    Ok(Mined {
        proposals,
        resumed_at,
        seconds: started.elapsed().as_secs_f64(),
    })
}
