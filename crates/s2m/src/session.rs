//! One bundle at work: settings resolved, pools of proposals, targets over them.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use s2m_core::labels::LabelSet;
use s2m_core::query::Query;
use s2m_core::samplers::{Goal, PILOT_BUDGET};
use s2m_model::bank::Bank;
use s2m_model::bundle::{Bundle, sha256};
use s2m_model::disk::Scratch;
use s2m_model::networks::{Gradients, RunSettings};
use s2m_model::runtime::Runtime;

use crate::cover;
use crate::draw::{Target, weigh_first};
use crate::error::Error;
use crate::mixture_bytes::digest;
use crate::moved::CALLS_PER_GRADIENT;
use crate::pool::{ClassRule, Pool, RuleName};
use crate::progress::{Progress, Silent};
use crate::purity;
use crate::samplers::SamplerChoice;
use crate::sequence::Sequence;
use crate::settings::{CALLS_PER_SAMPLE, SampleSettings};
use crate::weigh::{self, Weighed};

/// Rungs of `smc` that are allowed for; those of samples that were seen are under twenty.
const RUNGS: usize = 50;

/// What to draw with: how networks run, and an explicit path of ONNX Runtime.
#[derive(Debug, Clone, Default)]
pub struct Machine<'a> {
    /// How networks run.
    pub run: RunSettings,
    /// Explicit path of ONNX Runtime.
    pub onnxruntime: Option<&'a Path>,
}

/// A bundle, its runtime and settings.
pub struct Session {
    /// The bundle.
    pub bundle: Arc<Bundle>,
    /// ONNX Runtime.
    pub runtime: Runtime,
    /// How networks run.
    pub run: RunSettings,
    /// How to draw.
    pub settings: SampleSettings,
    /// Seed of the proposals.
    pub seed: u64,
    /// The networks with their derivative, where samples are moved.
    pub(crate) gradients: Option<Arc<Gradients>>,
    /// Where numbers go that memory does not hold.
    pub(crate) scratch: Scratch,
    bank: Option<PathBuf>,
    bank_rows: u64,
}

impl Session {
    /// Loads ONNX Runtime, and opens and checks the bank.
    pub fn open(
        bundle: &Arc<Bundle>,
        machine: &Machine<'_>,
        settings: &SampleSettings,
        bank: Option<&Path>,
    ) -> Result<Self, Error> {
        let opened = bank
            .map(|folder| open_bank(folder, bundle, settings.seed))
            .transpose()?;
        let (bank_seed, bank_rows) = opened.map_or((0, 0), |bank| (bank.info().seed, bank.len()));
        let runtime = Runtime::load(machine.onnxruntime)?;
        // What has no gradient is said before any work is done.
        let gradients = settings
            .steps()
            .map(|_| Gradients::open(bundle, &runtime, &machine.run));
        Ok(Self {
            bundle: Arc::clone(bundle),
            gradients: gradients.transpose()?.map(Arc::new),
            runtime,
            run: machine.run,
            settings: settings.clone(),
            seed: settings.seed.unwrap_or(bank_seed),
            scratch: Scratch::temporary(),
            bank: bank.map(Path::to_owned),
            bank_rows,
        })
    }

    /// The same with another seed.
    #[must_use]
    pub(crate) fn at_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Whether samples can be told of before the draw is done.
    pub(crate) fn tells_early(&self) -> bool {
        self.settings.sampler.tells_early() && self.settings.steps().is_none()
    }

    /// How a query weighs under these settings.
    pub fn weigh(&self, query: &Query) -> Result<Weighed, Error> {
        weigh::weigh(&self.bundle, query, &self.settings)
    }

    /// Whether proposals come from a bank first.
    pub(crate) fn has_bank(&self) -> bool {
        self.bank.is_some()
    }

    /// Proposals that the bank holds.
    pub fn bank_rows(&self) -> u64 {
        self.bank_rows
    }

    /// A target over proposals of the classes that the query needs.
    pub(crate) fn drawn_target(&self, weighed: &Weighed, classes: usize) -> Result<Target, Error> {
        let query = weighed.query();
        let shares = cover::equal_shares(query.covering(), classes);
        let mut pool = self.pool(ClassRule::Drawn(shares));
        let used = cover::choose(query, self.settings.classes, |set| {
            let shares = cover::equal_shares(set, classes);
            let weighed = self.with_classes(weighed.clone(), &shares)?;
            let mut target = Target::new(weighed, Sequence::all());
            weigh_first(&mut pool, &mut target, cover::TRIAL, &Silent)
        })?;
        let shares = cover::equal_shares(used, classes);
        let weighed = self.with_classes(weighed.clone(), &shares)?;
        Ok(Target {
            classes: used,
            searched: pool.len(),
            ..Target::new(weighed, Sequence::all())
        })
    }

    /// A target over proposals that may come from anywhere, before a floor is picked by purity.
    pub(crate) fn own_target(&self, weighed: &Weighed) -> Result<Target, Error> {
        match self.bundle.classes() {
            None => Ok(Target::new(weighed.clone(), Sequence::all())),
            Some(classes) => self.drawn_target(weighed, classes),
        }
    }

    /// A pool that every query can share: with a class input, classes take turns.
    pub fn shared_pool(&self, journal: Option<&Path>) -> Result<Pool, Error> {
        let rule = self
            .bundle
            .classes()
            .map_or(ClassRule::None, ClassRule::Cycled);
        let mut pool = self.pool(rule);
        if let Some(folder) = &self.bank {
            pool = pool.with_bank(Bank::open(folder)?);
        }
        self.with_journal(pool, journal)
    }

    /// A target over a shared pool.
    pub fn plan_shared(
        &self,
        weighed: &Weighed,
        pool: &mut Pool,
        progress: &dyn Progress,
    ) -> Result<Target, Error> {
        let Some(classes) = self.bundle.classes() else {
            let target = Target::new(weighed.clone(), Sequence::all());
            return self.with_purity(target, pool, progress);
        };
        let target = |used: LabelSet, from: LabelSet| -> Result<Target, Error> {
            let shares = cover::equal_shares(used, classes);
            let weighed = self.with_classes(weighed.clone(), &shares)?;
            let sequence = Sequence::of_classes(classes, from);
            Ok(Target {
                classes: used,
                ..Target::new(weighed, sequence)
            })
        };
        let query = weighed.query();
        let mut rows = 0;
        let used = cover::choose(query, self.settings.classes, |set| {
            let mut trial = target(set, query.covering())?;
            let log_weights = weigh_first(pool, &mut trial, cover::TRIAL, &Silent)?;
            rows = rows.max(trial.rows);
            Ok(log_weights)
        })?;
        let target = Target {
            rows,
            ..target(used, used)?
        };
        self.with_purity(target, pool, progress)
    }

    pub(crate) fn with_purity(
        &self,
        target: Target,
        pool: &mut Pool,
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
        weighed: Weighed,
        used: LabelSet,
        rule: Option<RuleName>,
    ) -> Result<(Pool, Target), Error> {
        let classes = self.bundle.classes().unwrap_or(0);
        let shares = cover::equal_shares(used, classes);
        let (rule, weighed) = match rule {
            None => (ClassRule::None, weighed),
            Some(RuleName::Cycled) => (
                ClassRule::Cycled(classes),
                self.with_classes(weighed, &shares)?,
            ),
            Some(RuleName::Drawn) => (
                ClassRule::Drawn(shares.clone()),
                self.with_classes(weighed, &shares)?,
            ),
        };
        let target = Target {
            classes: used,
            ..Target::new(weighed, Sequence::all())
        };
        Ok((self.pool(rule), target))
    }

    pub(crate) fn with_classes(&self, weighed: Weighed, shares: &[f64]) -> Result<Weighed, Error> {
        let class = self.bundle.manifest().generator.class.as_ref();
        let priors = class
            .map(|class| class.prior.as_slice())
            .unwrap_or_default();
        Ok(Weighed {
            weighting: weighed.weighting.with_classes(shares, priors)?,
            ..weighed
        })
    }

    pub(crate) fn pool(&self, rule: ClassRule) -> Pool {
        let scratch = &self.scratch;
        Pool::new(
            &self.bundle,
            &self.runtime,
            self.run,
            self.seed,
            rule,
            scratch,
        )
    }

    /// Keeps what is scored for a second try.
    pub(crate) fn with_journal(&self, pool: Pool, journal: Option<&Path>) -> Result<Pool, Error> {
        let Some(journal) = journal else {
            return Ok(pool);
        };
        let identity = self.journal_identity(&pool);
        pool.with_journal(journal, &identity)
    }

    /// Everything that decides the rows of a journal: not the query, and not how many items are wanted.
    fn journal_identity(&self, pool: &Pool) -> String {
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
            mixture.map_or(String::new(), digest),
        ];
        sha256(parts.join("\n").as_bytes())
    }

    /// Calls for the moves of a sample on so many rungs that `smc` hardly ever has more.
    fn rungs_allowed(&self) -> usize {
        let steps = self.settings.steps().map_or(0, NonZeroUsize::get);
        steps.saturating_mul(CALLS_PER_GRADIENT * RUNGS)
    }

    /// What a sampler is asked for, within the calls that the settings allow.
    pub fn goal(&self, samples: NonZeroUsize) -> Goal {
        // Chains of a length that was asked for are paid for, and a few that find nothing.
        let per_sample = match self.settings.sampler {
            SamplerChoice::Mh { steps } => steps.get().saturating_mul(2).max(CALLS_PER_SAMPLE),
            SamplerChoice::Smc => self.rungs_allowed().max(CALLS_PER_SAMPLE),
            _ => CALLS_PER_SAMPLE,
        };
        let default = samples.get().saturating_mul(per_sample).max(PILOT_BUDGET);
        Goal {
            samples,
            max_calls: self.settings.max_calls.unwrap_or(default),
        }
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
