//! From a query to what it is drawn from: a pool of proposals and a target, adapted where the settings ask for it.

use std::num::NonZeroUsize;
use std::path::Path;

use s2m_core::proposals::Proposals;

use crate::adapt::{self, Judging, Stored};
use crate::cover;
use crate::draw::Target;
use crate::error::Error;
use crate::pool::{ClassRule, Origin, Pool};
use crate::progress::Progress;
use crate::samplers::SamplerChoice;
use crate::session::Session;
use crate::weigh::Weighed;

/// A proposal that is there already, and what finding it has cost in this very run.
#[derive(Debug, Clone, Copy)]
pub struct Kept<'k> {
    /// What was kept.
    pub stored: &'k Stored,
    /// Proposals that were scored to find it.
    pub calls: usize,
}

/// A query that is ready to be drawn.
pub struct Planned {
    /// Its proposals.
    pub pool: Pool,
    /// What it makes of them.
    pub target: Target,
    /// The adapted proposal, where there is one.
    pub stored: Option<Stored>,
}

impl Session {
    /// A pool and a target for a single query; a journal keeps what is scored for a second try.
    pub fn plan(
        &self,
        weighed: &Weighed,
        journal: Option<&Path>,
        progress: &dyn Progress,
    ) -> Result<Planned, Error> {
        let stored = None;
        let classes = self.bundle.classes().filter(|_| !self.has_bank());
        let Some(classes) = classes else {
            let mut pool = self.shared_pool(journal)?;
            let target = self.plan_shared(weighed, &mut pool, progress)?;
            return Ok(Planned {
                pool,
                target,
                stored,
            });
        };
        // Without a bank every proposal can come from the classes that the query needs.
        let target = self.drawn_target(weighed, classes)?;
        let shares = cover::equal_shares(target.classes, classes);
        let mut pool = self.with_journal(self.pool(ClassRule::Drawn(shares)), journal)?;
        let target = self.with_purity(target, &mut pool, progress)?;
        Ok(Planned {
            pool,
            target,
            stored,
        })
    }

    /// The same, with adaptation where the settings ask for it.
    pub fn prepare(
        &self,
        weighed: &Weighed,
        samples: NonZeroUsize,
        progress: &dyn Progress,
    ) -> Result<Planned, Error> {
        if self.settings.adapt.is_none() {
            self.plan(weighed, None, progress)
        } else {
            self.plan_adapted(weighed, None, samples, progress)
        }
    }

    /// A pool of adapted proposals and a target for a single query: by a proposal that was kept, or by
    /// one that is searched for now.
    pub fn plan_adapted(
        &self,
        weighed: &Weighed,
        kept: Option<Kept<'_>>,
        samples: NonZeroUsize,
        progress: &dyn Progress,
    ) -> Result<Planned, Error> {
        let mut target = self.own_target(weighed)?;
        let searched = target.searched;
        let (stored, recycled, calls) = if let Some(Kept { stored, calls }) = kept {
            let mut stored = stored.clone();
            if stored.about.weighed_by != adapt::weighed_by(self, &target) {
                stored.about.adaptation.coverage = None;
            }
            (stored, None, calls)
        } else {
            let found = adapt::find(self, &target, samples, Judging::Wanted, progress)?;
            let calls = found.record.calls;
            let mixture = found.mixture.as_deref();
            let stored = Stored::new(self, &target, mixture, found.record);
            (stored, found.recycled, calls)
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
        Ok(Planned {
            pool,
            target,
            stored: Some(stored),
        })
    }
}
