//! One query, drawn: which proposals are kept, and everything that is said about them.
//!
//! No item is made here and nothing is written: [`crate::ask`] makes items in memory of it, `write.rs` a folder.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;

use s2m_core::diagnostics::{Mean, WeightSummary, summarise};
use s2m_core::samplers::Draw;
use s2m_core::setting::Setting;
use s2m_model::disk::Column;

use crate::adapt::{Record, missing_part};
use crate::draw::{Drawn, Target, Watch, draw_watched};
use crate::error::Error;
use crate::moved::MovesRecord;
use crate::mover::Moved;
use crate::moves;
use crate::pool::Pool;
use crate::presence;
use crate::progress::Progress;
use crate::purity::{self, Purity};
use crate::reach::Reach;
use crate::refusal::Refusal;
use crate::report::{AppliedCalibration, Report, RuleName, Shared};
use crate::samplers::Details;
use crate::session::Session;
use crate::settings::SampleSettings;

/// A query that is ready to be drawn.
pub(crate) struct Job<'j> {
    pub(crate) session: &'j Session,
    pub(crate) pool: &'j mut Pool,
    pub(crate) target: Target,
    pub(crate) samples: NonZeroUsize,
    /// What adaptation did, where there was any.
    pub(crate) adaptation: Option<Record>,
    /// Samples of the queries before it, where several are drawn from one pool.
    pub(crate) others: Option<&'j mut Others>,
}

/// Proposals that became samples of other queries.
#[derive(Debug, Default)]
pub(crate) struct Others {
    taken: HashSet<u64>,
}

impl Others {
    /// How many samples another query has too; what repeats within this one counts once.
    fn count(&mut self, numbers: &[u64]) -> usize {
        let own: HashSet<u64> = numbers.iter().copied().collect();
        let shared = own.intersection(&self.taken).count();
        self.taken.extend(own);
        shared
    }
}

impl<'j> Job<'j> {
    /// Runs the sampler and gathers what there is to say; gives the pool back, for making items.
    pub(crate) fn draw(self, progress: &dyn Progress) -> Result<(Drawing, &'j Pool), Error> {
        self.draw_watched(None, progress)
    }

    /// The same, with somebody who sees what is kept so far.
    pub(crate) fn draw_watched(
        self,
        watch: Option<Watch<'_>>,
        progress: &dyn Progress,
    ) -> Result<(Drawing, &'j Pool), Error> {
        let Self {
            session,
            pool,
            mut target,
            samples,
            adaptation,
            others,
        } = self;
        let settings = &session.settings;
        let mut goal = session.goal(moves::with_pilots(settings, samples));
        let allowed = goal.max_calls;
        if settings.max_calls.is_some() {
            // What the search has spent is gone.
            goal.max_calls = goal.max_calls.saturating_sub(target.searched);
            goal.max_calls = moves::within(settings, samples, goal.max_calls)?;
        }
        if let Some(cause) = target.refused.take() {
            let refusal = Refusal {
                query: target.weighting.query().text().to_owned(),
                failure: cause,
                advice: format!(
                    "ask for a lower {}; {} draws without a floor",
                    Setting("purity"),
                    Setting("floor").to(0)
                ),
            };
            return Err(refusal.into());
        }
        let Drawn {
            outcome,
            kept,
            log_weights,
        } = draw_watched(
            pool,
            &mut target,
            (settings.sampler, goal),
            watch.filter(|_| session.tells_early()),
            progress,
        )?;
        let mut drawn = outcome.map_err(|failure| {
            let failure = failure.after(target.searched);
            Refusal::of(failure, &target.weighting, settings.sampler)
        })?;
        let missing = adaptation
            .as_ref()
            .and_then(|record| missing_part(record, log_weights.len()));
        if let Some(missing) = missing {
            drawn.error = drawn.error.with_missing(missing);
        }
        let moved = moves::move_samples(
            (session, pool),
            (&target, allowed),
            (&kept, samples),
            &mut drawn.info,
            progress,
        )?;
        let (kept, moved) = match moved {
            None => (kept, None),
            Some((rows, moved)) => {
                moved.note(&mut drawn);
                (rows, Some(moved))
            }
        };
        let seen = moved.as_ref().map_or(&*pool, |moved| &moved.pool);
        let (purity, between) = purity::predicted(seen, &target, &kept)?;
        if let Some(refusal) = presence::refuse_impure(&target.weighting, between.value, settings) {
            return Err(refusal.into());
        }
        let weights = summarise(&log_weights);
        log_weights.check()?;
        let reach = Reach::of(&session.bundle, pool, &target, log_weights.len())?;
        let shared = match others {
            // A sample that was moved is no proposal that another query could have.
            Some(others) if moved.is_none() => others.count(&kept.read(0..kept.len())?),
            _ => 0,
        };
        let drawing = Drawing {
            from_bank: match &adaptation {
                None => target.rows.min(session.bank_rows() as usize),
                Some(record) => record.banked(session.bank_rows() as usize),
            },
            class_rule: pool.rule().name(),
            max_calls: settings.max_calls.unwrap_or(goal.max_calls),
            target,
            drawn,
            kept,
            looked_at: log_weights.len(),
            weights,
            missing,
            purity,
            predicted: between,
            reach,
            shared,
            adaptation,
            moved,
        };
        Ok((drawing, pool))
    }
}

/// What was drawn for one query.
#[derive(Debug)]
pub(crate) struct Drawing {
    /// The query at work.
    pub(crate) target: Target,
    /// What the sampler says.
    pub(crate) drawn: Draw,
    /// Rows of the pool that are kept.
    pub(crate) kept: Column<u64>,
    /// Proposals that the query looked at.
    pub(crate) looked_at: usize,
    weights: WeightSummary,
    /// Share of the target that an adapted proposal may miss.
    missing: Option<f64>,
    pub(crate) purity: Purity,
    predicted: Mean,
    reach: Option<Reach>,
    /// Samples that are samples of other queries too.
    shared: usize,
    adaptation: Option<Record>,
    moved: Option<Moved>,
    from_bank: usize,
    class_rule: Option<RuleName>,
    max_calls: usize,
}

impl Drawing {
    /// The pool that holds the kept rows; it is given the one that was drawn from.
    pub(crate) fn pool<'p>(&'p self, drawn_from: &'p Pool) -> &'p Pool {
        self.moved.as_ref().map_or(drawn_from, |moved| &moved.pool)
    }

    /// The rows that were drawn, before anything was moved.
    pub(crate) fn starts(&self) -> Result<Vec<u64>, Error> {
        match &self.moved {
            Some(moved) => Ok(moved.starts.clone()),
            None => Ok(self.kept.read(0..self.kept.len())?),
        }
    }

    /// Everything about the draw, which took so long.
    pub(crate) fn report(&self, session: &Session, seconds: f64) -> Report {
        let Self { target, drawn, .. } = self;
        let query = target.weighting.query();
        let (bundle, settings) = (&session.bundle, &session.settings);
        let names = bundle.labels();
        let samples = drawn.samples;
        let moves = self.moved.as_ref().map(|moved| moved.record.clone());
        let calls = moves.as_ref().map_or(0, MovesRecord::calls);
        let generator_calls = target.searched + target.rows + calls;
        Report {
            model: bundle.manifest().name.clone(),
            bundle_hash: bundle.hash().to_owned(),
            query: query.text().to_owned(),
            sampler: settings.sampler.name().to_owned(),
            seed: session.seed,
            device: session.run.device.name().to_owned(),
            reproducible: !session.run.fast,
            settings: SampleSettings {
                seed: Some(session.seed),
                max_calls: Some(self.max_calls),
                moves: settings.steps(),
                ..settings.clone()
            },
            calibration: AppliedCalibration {
                floor: target.weighting.floor(),
                ..target.applied
            },
            labelling: bundle.manifest().labelling.model,
            classes: target
                .classes
                .iter()
                .map(|c| names.name(c).to_owned())
                .collect(),
            class_rule: self.class_rule,
            versions: BTreeMap::from([
                ("s2m".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
                ("onnxruntime".to_owned(), session.runtime.version()),
            ]),
            samples,
            generator_calls,
            from_bank: self.from_bank,
            render_calls: samples,
            calls_per_sample: generator_calls as f64 / samples as f64,
            tv_estimate: drawn.error.tv_estimate,
            tv_bound: drawn.error.tv_bound,
            may_be_missing: self.missing,
            acceptance: drawn.acceptance,
            weight_ess: self.weights.weight_ess,
            m_at_least: self.weights.m_at_least,
            largest_weight_share: self.weights.largest_share,
            tail_index: self.weights.tail_index.filter(|index| index.is_finite()),
            support_share: self.weights.support_share,
            predicted_purity: self.purity.by_others,
            plain_purity: self.purity.plain,
            predicted_between: self.predicted.between,
            asked_purity: settings.overrides.purity,
            reach: self.reach,
            duplicates: drawn.duplicates + self.shared,
            adaptation: self.adaptation.clone(),
            moves,
            shared: Shared::of(target, names),
            details: Details::from(&drawn.info),
            warnings: self.warnings(session),
            seconds,
        }
    }

    /// Things to know.
    fn warnings(&self, session: &Session) -> Vec<String> {
        let query = self.target.weighting.query();
        let mut warnings = presence::warnings(&session.bundle, query, &session.settings);
        warnings.extend(self.drawn.error.warnings.iter().map(ToString::to_string));
        warnings.extend(self.adaptation.iter().flat_map(Record::warnings));
        let asked = session.settings.overrides.purity;
        warnings.extend(asked.and_then(|asked| purity::missed(asked, self.purity, self.predicted)));
        warnings.extend(self.reach.and_then(Reach::warning));
        if self.shared > 0 {
            warnings.push(format!(
                "{} of the samples are proposals that are samples of another class too, with other labels",
                self.shared
            ));
        }
        warnings.extend(self.purity.warning());
        warnings
    }
}
