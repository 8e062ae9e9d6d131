//! One bundle at work: settings resolved, pools of proposals, and the path from a query to samples.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Instant;

use s2m_core::labels::LabelSet;
use s2m_core::proposals::Proposals;
use s2m_core::query::Query;
use s2m_core::samplers::{Failure, Goal, PILOT_BUDGET};
use s2m_core::weight::Weighting;
use s2m_model::bank::Bank;
use s2m_model::bundle::{Bundle, sha256};
use s2m_model::disk::Scratch;
use s2m_model::networks::RunSettings;
use s2m_model::runtime::Runtime;

use crate::adapt::{self, Judging, Record, Stored, missing_part};
use crate::cover;
use crate::draw::{Target, draw, weigh_first};
use crate::error::Error;
use crate::output::Staging;
use crate::pool::{ClassRule, Origin, Pool};
use crate::presence::{self, Cause};
use crate::progress::{Progress, Silent};
use crate::purity;
use crate::reach::Reach;
use crate::report::{AppliedCalibration, Report, RuleName};
use crate::samplers::{Details, SamplerChoice};
use crate::sequence::Sequence;
use crate::settings::{CALLS_PER_SAMPLE, SampleSettings};
use crate::weigh;
use crate::write::SampleWriter;

/// What to draw with: how networks run, and an explicit path of ONNX Runtime.
#[derive(Debug, Clone, Default)]
pub struct Machine<'a> {
    /// How networks run.
    pub run: RunSettings,
    /// Explicit path of ONNX Runtime.
    pub onnxruntime: Option<&'a Path>,
}

/// Why a query has no samples, and what to try.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("`{query}`: {failure}\nhint: {advice}")]
pub struct Refusal {
    /// The query as typed.
    pub query: String,
    /// Why.
    pub failure: Cause,
    /// What to try.
    pub advice: &'static str,
}

/// A bundle, its runtime and settings.
pub struct Session<'a> {
    /// The bundle.
    pub bundle: &'a Bundle,
    /// ONNX Runtime.
    pub runtime: Runtime,
    /// How networks run.
    pub run: RunSettings,
    /// How to draw.
    pub settings: &'a SampleSettings,
    /// Seed of the proposals.
    pub seed: u64,
    /// Where numbers go that memory does not hold.
    pub(crate) scratch: Scratch,
    bank: Option<&'a Path>,
    bank_rows: u64,
}

impl<'a> Session<'a> {
    /// Loads ONNX Runtime, and opens and checks the bank.
    pub fn open(
        bundle: &'a Bundle,
        machine: &Machine<'_>,
        settings: &'a SampleSettings,
        bank: Option<&'a Path>,
    ) -> Result<Self, Error> {
        let opened = bank
            .map(|folder| open_bank(folder, bundle, settings.seed))
            .transpose()?;
        let (bank_seed, bank_rows) = opened.map_or((0, 0), |bank| (bank.info().seed, bank.len()));
        Ok(Self {
            bundle,
            runtime: Runtime::load(machine.onnxruntime)?,
            run: machine.run,
            settings,
            seed: settings.seed.unwrap_or(bank_seed),
            scratch: Scratch::temporary(),
            bank,
            bank_rows,
        })
    }

    /// Proposals that the bank holds.
    pub fn bank_rows(&self) -> u64 {
        self.bank_rows
    }

    /// A pool and a target for a single query; a journal keeps what is scored for a second try.
    pub fn plan(
        &self,
        query: &Query,
        journal: Option<&Path>,
        progress: &dyn Progress,
    ) -> Result<(Pool<'_>, Target), Error> {
        let classes = self.bundle.classes().filter(|_| self.bank.is_none());
        let Some(classes) = classes else {
            let mut pool = self.shared_pool(journal)?;
            let target = self.plan_shared(query, &mut pool, progress)?;
            return Ok((pool, target));
        };
        // Without a bank every proposal can come from the classes that the query needs.
        let target = self.drawn_target(query, classes)?;
        let shares = cover::equal_shares(target.classes, classes);
        let mut pool = self.with_journal(self.pool(ClassRule::Drawn(shares)), journal)?;
        let target = self.with_purity(target, &mut pool, progress)?;
        Ok((pool, target))
    }

    /// A target over proposals of the classes that the query needs.
    fn drawn_target(&self, query: &Query, classes: usize) -> Result<Target, Error> {
        let weighting = weigh::weighting(self.bundle, query, self.settings)?;
        let mut searched = 0;
        let used = cover::choose(query, self.settings.classes, |set| {
            let shares = cover::equal_shares(set, classes);
            let mut pool = self.pool(ClassRule::Drawn(shares.clone()));
            searched += cover::TRIAL;
            let weighting = self.with_classes(weighting.clone(), &shares)?;
            let mut target = Target::new(weighting, Sequence::all());
            weigh_first(&mut pool, &mut target, cover::TRIAL, &Silent)
        })?;
        let weighting = self.with_classes(weighting, &cover::equal_shares(used, classes))?;
        Ok(Target {
            classes: used,
            searched,
            ..Target::new(weighting, Sequence::all())
        })
    }

    /// A target over proposals that may come from anywhere, before a floor is picked by purity.
    pub(crate) fn own_target(&self, query: &Query) -> Result<Target, Error> {
        match self.bundle.classes() {
            None => {
                let weighting = weigh::weighting(self.bundle, query, self.settings)?;
                Ok(Target::new(weighting, Sequence::all()))
            }
            Some(classes) => self.drawn_target(query, classes),
        }
    }

    /// A pool of adapted proposals and a target for a single query: by a proposal that was kept, or by
    /// one that is searched for now.
    pub fn plan_adapted(
        &self,
        query: &Query,
        kept: Option<Kept<'_>>,
        samples: NonZeroUsize,
        progress: &dyn Progress,
    ) -> Result<Result<Planned<'_>, Refusal>, Error> {
        let mut target = self.own_target(query)?;
        let searched = target.searched;
        let (stored, recycled, calls) = match kept {
            Some(Kept { stored, calls }) => {
                let mut stored = stored.clone();
                if stored.about.weighed_by != adapt::weighed_by(self, &target) {
                    stored.about.adaptation.coverage = None;
                }
                (stored, None, calls)
            }
            None => match adapt::find(self, &target, samples, Judging::Wanted, progress)? {
                Err(failure) => {
                    let refused = refusal(failure, &target.weighting, self.settings.sampler);
                    return Ok(Err(refused));
                }
                Ok(found) => {
                    let calls = found.record.calls;
                    let mixture = found.mixture.as_deref();
                    let stored = Stored::new(self, &target, mixture, found.record);
                    (stored, found.recycled, calls)
                }
            },
        };
        target.searched = searched + calls;
        let rule = match self.bundle.classes() {
            None => ClassRule::None,
            Some(classes) => ClassRule::Drawn(cover::equal_shares(target.classes, classes)),
        };
        let mut pool = self.pool(rule);
        if let Some(mixture) = stored.mixture.clone() {
            // Never a stage of the search: what is drawn must not depend on what was fitted to.
            pool = pool.with_origin(Origin {
                proposals: Proposals::new(self.seed).at_stage(Stored::FRESH_STAGE),
                mixture: Some(mixture),
            });
        }
        let recycles = matches!(self.settings.sampler, SamplerChoice::Resample { .. });
        match (recycled, &stored.mixture) {
            (Some(rows), Some(_)) if recycles => {
                // Scored already, whether or not they will be looked at.
                target.rows = rows.log_ratios.len();
                target.searched -= target.rows;
                pool = pool.with_recycled(rows)?;
            }
            (Some(rows), None) => {
                // Only the first stage is of the prior.
                let first = rows.first_stage();
                target.rows = first.len();
                target.searched -= target.rows;
                pool = pool.with_first_rows(&first)?;
            }
            _ => {}
        }
        let target = self.with_purity(target, &mut pool, progress)?;
        Ok(Ok(Planned {
            pool,
            target,
            stored,
        }))
    }

    /// A pool that every query can share: with a class input, classes take turns.
    pub fn shared_pool(&self, journal: Option<&Path>) -> Result<Pool<'_>, Error> {
        let rule = self
            .bundle
            .classes()
            .map_or(ClassRule::None, ClassRule::Cycled);
        let mut pool = self.pool(rule);
        if let Some(folder) = self.bank {
            pool = pool.with_bank(Bank::open(folder)?);
        }
        self.with_journal(pool, journal)
    }

    /// A target over a shared pool.
    pub fn plan_shared(
        &self,
        query: &Query,
        pool: &mut Pool<'_>,
        progress: &dyn Progress,
    ) -> Result<Target, Error> {
        let weighting = weigh::weighting(self.bundle, query, self.settings)?;
        let Some(classes) = self.bundle.classes() else {
            return self.with_purity(Target::new(weighting, Sequence::all()), pool, progress);
        };
        let target = |used: LabelSet| -> Result<Target, Error> {
            let weighting =
                self.with_classes(weighting.clone(), &cover::equal_shares(used, classes))?;
            let sequence = Sequence::of_classes(classes, used);
            Ok(Target {
                classes: used,
                ..Target::new(weighting, sequence)
            })
        };
        let mut rows = 0;
        let used = cover::choose(query, self.settings.classes, |set| {
            let mut trial = target(set)?;
            let log_weights = weigh_first(pool, &mut trial, cover::TRIAL, &Silent)?;
            rows = rows.max(trial.rows);
            Ok(log_weights)
        })?;
        let target = Target {
            rows,
            ..target(used)?
        };
        self.with_purity(target, pool, progress)
    }

    fn with_purity(
        &self,
        target: Target,
        pool: &mut Pool<'_>,
        progress: &dyn Progress,
    ) -> Result<Target, Error> {
        match self.settings.overrides.purity {
            Some(purity) => purity::with_purity(pool, target, purity, progress),
            None => Ok(target),
        }
    }

    /// A pool and a target for a query whose classes are known already.
    pub(crate) fn known_plan(
        &self,
        query: &Query,
        used: LabelSet,
        rule: Option<RuleName>,
    ) -> Result<(Pool<'_>, Target), Error> {
        let weighting = weigh::weighting(self.bundle, query, self.settings)?;
        let classes = self.bundle.classes().unwrap_or(0);
        let shares = cover::equal_shares(used, classes);
        let (rule, weighting) = match rule {
            None => (ClassRule::None, weighting),
            Some(RuleName::Cycled) => (
                ClassRule::Cycled(classes),
                self.with_classes(weighting, &shares)?,
            ),
            Some(RuleName::Drawn) => (
                ClassRule::Drawn(shares.clone()),
                self.with_classes(weighting, &shares)?,
            ),
        };
        let target = Target {
            classes: used,
            ..Target::new(weighting, Sequence::all())
        };
        Ok((self.pool(rule), target))
    }

    pub(crate) fn with_classes(
        &self,
        weighting: Weighting,
        shares: &[f64],
    ) -> Result<Weighting, Error> {
        let class = self.bundle.manifest().generator.class.as_ref();
        let priors = class
            .map(|class| class.prior.as_slice())
            .unwrap_or_default();
        Ok(weighting.with_classes(shares, priors)?)
    }

    pub(crate) fn pool(&self, rule: ClassRule) -> Pool<'_> {
        let scratch = &self.scratch;
        Pool::new(
            self.bundle,
            &self.runtime,
            self.run,
            self.seed,
            rule,
            scratch,
        )
    }

    /// Keeps what is scored for a second try.
    pub(crate) fn with_journal<'p>(
        &self,
        pool: Pool<'p>,
        journal: Option<&Path>,
    ) -> Result<Pool<'p>, Error> {
        let Some(journal) = journal else {
            return Ok(pool);
        };
        let identity = self.journal_identity(&pool);
        pool.with_journal(journal, &identity)
    }

    /// Everything that decides the rows of a journal: not the query, and not how many items are wanted.
    fn journal_identity(&self, pool: &Pool<'_>) -> String {
        let mixture = pool.origin().mixture.as_deref();
        let parts = [
            format!("s2m {}", env!("CARGO_PKG_VERSION")),
            format!("onnxruntime {}", self.runtime.version()),
            self.bundle.scoring_hash().to_owned(),
            format!("seed {}", self.seed),
            format!("{:?}", pool.rule()),
            format!("stage {}", pool.proposals().stage()),
            format!("{:?}, fast {}", self.run.device, self.run.fast),
            // The journal's first row follows these.
            format!("after {} rows", pool.len()),
            format!("bank of {} rows", self.bank_rows),
            mixture.map_or(String::new(), adapt::digest),
        ];
        sha256(parts.join("\n").as_bytes())
    }

    /// What a sampler is asked for, within the calls that the settings allow.
    pub fn goal(&self, samples: NonZeroUsize) -> Goal {
        // Chains of a length that was asked for are paid for, and a few that find nothing.
        let per_sample = match self.settings.sampler {
            SamplerChoice::Mh { steps } => steps.get().saturating_mul(2).max(CALLS_PER_SAMPLE),
            _ => CALLS_PER_SAMPLE,
        };
        let default = samples.get().saturating_mul(per_sample).max(PILOT_BUDGET);
        Goal {
            samples,
            max_calls: self.settings.max_calls.unwrap_or(default),
        }
    }

    /// Networks behind the bundle's prediction of purity.
    fn members(&self) -> usize {
        let calibration = &self.bundle.manifest().calibration;
        let ensemble = calibration.ensemble.as_ref();
        ensemble.map_or(0, |ensemble| ensemble.members)
    }

    /// A report on a query before anything was drawn.
    fn report(&self, target: &Target) -> Result<Report, Error> {
        let query = target.weighting.query();
        let calibration = weigh::calibration(self.bundle, query, self.settings)?;
        let names = self.bundle.labels();
        Ok(Report {
            model: self.bundle.manifest().name.clone(),
            bundle_hash: self.bundle.hash().to_owned(),
            query: query.text().to_owned(),
            sampler: self.settings.sampler.name().to_owned(),
            seed: self.seed,
            device: self.run.device.name().to_owned(),
            reproducible: !self.run.fast,
            settings: SampleSettings {
                seed: Some(self.seed),
                ..self.settings.clone()
            },
            calibration: AppliedCalibration {
                posterior: target.weighting.kind().name(),
                joint_temperature: calibration.joint.as_ref().map(|joint| joint.temperature),
                members: calibration.ensemble.as_ref().map_or(0, |_| self.members()),
                class_temperature: calibration.class.at(query)?,
                fake_class_temperature: calibration.fake_class.at(query)?,
                real_temperature: calibration.real,
                real_correction: calibration.correction.name(),
                audited: calibration.audit.is_some(),
                odds_clip: Some(calibration.odds_clip).filter(|clip| clip.is_finite()),
                odds_cap: Some(calibration.odds_cap).filter(|cap| cap.is_finite()),
                margin: calibration.margin,
                floor: target.weighting.floor(),
            },
            classes: target
                .classes
                .iter()
                .map(|c| names.name(c).to_owned())
                .collect(),
            class_rule: None,
            versions: BTreeMap::from([
                ("s2m".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
                ("onnxruntime".to_owned(), self.runtime.version()),
            ]),
            samples: 0,
            generator_calls: target.searched + target.rows,
            from_bank: 0,
            render_calls: 0,
            calls_per_sample: 0.0,
            tv_estimate: None,
            tv_bound: None,
            may_be_missing: None,
            acceptance: 0.0,
            weight_ess: 0.0,
            m_at_least: 0.0,
            largest_weight_share: 0.0,
            tail_index: None,
            support_share: 0.0,
            predicted_purity: 0.0,
            plain_purity: 0.0,
            predicted_between: [0.0, 0.0],
            asked_purity: None,
            reach: None,
            duplicates: 0,
            adaptation: None,
            shared: target.shared(names),
            details: Details::Resample {
                pool: 0,
                effective: 0.0,
                bias: 0.0,
            },
            warnings: presence::warnings(self.bundle, query, self.settings),
            seconds: 0.0,
        })
    }
}

/// Opens a bank and makes sure that it is of this model and seed.
pub(crate) fn open_bank(folder: &Path, bundle: &Bundle, seed: Option<u64>) -> Result<Bank, Error> {
    let bank = Bank::open(folder)?;
    let manifest = bundle.manifest();
    bank.check(&manifest.name, bundle.scoring_hash(), &manifest.labels)?;
    if let Some(seed) = seed {
        bank.check_seed(seed)?;
    }
    Ok(bank)
}

/// A proposal that is there already, and what finding it has cost in this very run.
#[derive(Debug, Clone, Copy)]
pub struct Kept<'k> {
    /// What was kept.
    pub stored: &'k Stored,
    /// Proposals that were scored to find it.
    pub calls: usize,
}

/// Adapted proposals for a query.
pub struct Planned<'p> {
    /// The proposals.
    pub pool: Pool<'p>,
    /// What is drawn from them.
    pub target: Target,
    /// Where they come from.
    pub stored: Stored,
}

/// One query to be drawn and written.
pub(crate) struct Job<'j, 'p> {
    pub(crate) session: &'j Session<'j>,
    pub(crate) pool: &'j mut Pool<'p>,
    pub(crate) target: Target,
    /// Folder inside the output, empty for the output itself.
    pub(crate) folder: &'j str,
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
    /// Adds samples that another query has too to the repeated ones, and tells them.
    fn count(&mut self, duplicates: &mut usize, numbers: &[u64]) -> Option<String> {
        // What repeats within this query was counted before.
        let own: HashSet<u64> = numbers.iter().copied().collect();
        let shared = own.intersection(&self.taken).count();
        self.taken.extend(own);
        *duplicates += shared;
        (shared > 0).then(|| {
            format!(
                "{shared} of the samples are proposals that are samples of another class too, with other labels"
            )
        })
    }
}

impl Job<'_, '_> {
    /// Draws, writes and reports.
    pub(crate) fn run(
        self,
        staging: &Staging,
        progress: &dyn Progress,
    ) -> Result<Result<Report, Refusal>, Error> {
        let started = Instant::now();
        let Self {
            session,
            pool,
            mut target,
            folder,
            samples,
            adaptation,
            others,
        } = self;
        let settings = session.settings;
        let mut goal = session.goal(samples);
        if settings.max_calls.is_some() {
            // What the search has spent is gone.
            goal.max_calls = goal.max_calls.saturating_sub(target.searched);
        }
        if let Some(cause) = target.refused.take() {
            return Ok(Err(Refusal {
                query: target.weighting.query().text().to_owned(),
                failure: cause,
                advice: "ask for a lower --purity; --floor 0 draws without a floor",
            }));
        }
        let drawn = draw(pool, &mut target, settings.sampler, goal, progress)?;
        let mut kept = match drawn.outcome {
            Ok(kept) => kept,
            Err(failure) => {
                let failure = failure.after(target.searched);
                return Ok(Err(refusal(failure, &target.weighting, settings.sampler)));
            }
        };
        let missing = adaptation
            .as_ref()
            .and_then(|record| missing_part(record, drawn.log_weights.len()));
        if let Some(missing) = missing {
            kept.error = kept.error.with_missing(missing);
        }
        let predicted = purity::predicted(pool, &target, &drawn.kept)?;
        if let Some(refusal) = presence::refuse_impure(&target.weighting, predicted.value, settings)
        {
            return Ok(Err(refusal));
        }
        let mut report = session
            .report(&target)?
            .with_draw(&kept, &drawn.log_weights);
        drawn.log_weights.check()?;
        report.may_be_missing = missing;
        report.settings.max_calls = Some(settings.max_calls.unwrap_or(goal.max_calls));
        report.class_rule = pool.rule().name();
        report.from_bank = match &adaptation {
            None => target.rows.min(session.bank_rows as usize),
            Some(record) => record.banked(session.bank_rows as usize),
        };
        if let Some(record) = adaptation {
            report.warnings.extend(record.warnings());
            report.adaptation = Some(record);
        }
        let reach = Reach::of(session.bundle, pool, &target, drawn.log_weights.len())?;
        let writer = SampleWriter {
            session,
            pool,
            target: &target,
            staging,
            folder,
        };
        let purity = writer.write(&drawn.kept, progress)?;
        report.predicted_purity = purity.by_others;
        report.predicted_between = predicted.between;
        report.asked_purity = settings.overrides.purity;
        report.warnings.extend(purity::missed(&report));
        report.reach = reach;
        report
            .warnings
            .extend(report.reach.and_then(Reach::warning));
        if let Some(others) = others {
            let numbers = drawn.kept.read(0..drawn.kept.len())?;
            report
                .warnings
                .extend(others.count(&mut report.duplicates, &numbers));
        }
        report.plain_purity = purity.plain;
        report.warnings.extend(purity.warning());
        report.seconds = started.elapsed().as_secs_f64();
        let json = serde_json::to_string_pretty(&report).expect("a report has only plain fields");
        staging.write(&writer.file("report.json"), json.as_bytes())?;
        Ok(Ok(report))
    }
}

/// What is said to a query that a sampler could not draw.
pub fn refusal(failure: Failure, weighting: &Weighting, sampler: SamplerChoice) -> Refusal {
    let advice = sampler.advice(&failure, weighting.floor(), weighting.margin());
    let query = weighting.query().text().to_owned();
    Refusal {
        query,
        failure: failure.into(),
        advice,
    }
}
