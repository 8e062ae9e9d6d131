//! What a batch of proposals takes: the generator alone, with classifiers over it, and with adapted latents.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use s2m_core::mixture::{Covariance, Mixture};
use s2m_core::proposals::Proposals;
use s2m_model::bundle::Bundle;
use s2m_model::networks::{Renderer, Requested, RunSettings, Scorer};
use s2m_runs::folder::GENERATOR;
use serde::{Deserialize, Serialize};

use super::chains::From;
use super::{Networks, Workshop};
use crate::Error;
use crate::evaluation::Drawn;

/// Milliseconds for a batch of [`TIMED`] proposals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Times {
    /// Pictures out of the generator alone, the paper's classifiers over it, and ours.
    pub(super) generator: f64,
    pub(super) paper: Option<f64>,
    pub(super) ours: Option<f64>,
    /// The paper's classifiers over latents of a mixture.
    #[serde(default)]
    pub(super) adapted: Option<f64>,
}

/// The paper's batch.
const TIMED: usize = 64;

impl Workshop<'_> {
    /// What a batch of proposals takes, as medians.
    pub(super) fn times(&self, networks: &mut Networks<'_, '_>) -> Result<Option<Times>, Error> {
        let Some(folder) = networks.generator()? else {
            return Ok(None);
        };
        let settings = RunSettings {
            batch: NonZeroUsize::new(TIMED),
            ..self.bench.request.machine.run
        };
        let runtime = &self.bench.runtime;
        // CP-GAN leaves no generator by class.
        let asked = networks
            .chain
            .lines
            .iter()
            .find_map(|line| match line.from {
                From::Asked(file) => Some(folder.join(file)),
                _ => None,
            });
        let by_class = folder.join(GENERATOR);
        let alone = Drawn::alone(&asked.filter(|_| !by_class.is_file()).unwrap_or(by_class))?;
        let renderer = Renderer::of(alone.generator(), runtime, &settings)?;
        let classes = alone.generator().entry.class.as_ref();
        let classes = vec![0; classes.map_or(0, |_| TIMED)];
        let generator = median_of(|numbers| {
            renderer.render(batch(numbers, &classes))?;
            Ok(())
        })?;
        let latent = alone.generator().entry.latents.first();
        let mixture = latent.and_then(|latent| adapted(latent.size()));
        let scored = |folder: Option<PathBuf>, mixture: Option<&Mixture>| {
            let Some(folder) = folder else {
                return Ok(None);
            };
            let scorer = Scorer::open(&Bundle::open(&folder)?, runtime, &settings)?;
            let median = median_of(|numbers| {
                let requested = Requested {
                    mixture,
                    ..batch(numbers, &classes)
                };
                scorer.score(requested)?;
                Ok(())
            });
            median.map(Some)
        };
        let paper = networks.paper()?;
        Ok(Some(Times {
            generator,
            ours: scored(networks.ours()?, None)?,
            adapted: match &mixture {
                Some(mixture) => scored(paper.clone(), Some(mixture))?,
                None => None,
            },
            paper: scored(paper, None)?,
        }))
    }
}

/// Batches that are timed, after a few that are not.
const BATCHES: u64 = 30;
const UNTIMED: u64 = 5;

/// A mixture as the paper's adaptation has it: eight components around means of their own, one covariance for all.
fn adapted(size: usize) -> Option<Mixture> {
    const COMPONENTS: usize = 8;
    let mut means = vec![0.0; COMPONENTS * size];
    for (component, mean) in means.chunks_exact_mut(size).enumerate() {
        mean[component % size] = 1.0;
    }
    let mut identity = vec![0.0; size * size];
    identity.iter_mut().step_by(size + 1).for_each(|v| *v = 1.0);
    let weights = [1.0 / COMPONENTS as f64; COMPONENTS];
    Mixture::from_covariances(Covariance::Shared, &weights, &means, &identity).ok()
}

/// The proposals of one call.
fn batch<'b>(numbers: &'b [u64], classes: &'b [u32]) -> Requested<'b> {
    Requested {
        proposals: Proposals::new(0),
        mixture: None,
        numbers,
        classes,
    }
}

/// Median of the milliseconds that some work takes for a batch.
fn median_of(work: impl Fn(&[u64]) -> Result<(), Error>) -> Result<f64, Error> {
    let mut taken = Vec::new();
    for round in 0..UNTIMED + BATCHES {
        let first = round * TIMED as u64;
        let numbers: Vec<u64> = (first..first + TIMED as u64).collect();
        let begin = Instant::now();
        work(&numbers)?;
        if round >= UNTIMED {
            taken.push(begin.elapsed().as_secs_f64() * 1e3);
        }
    }
    taken.sort_by(f64::total_cmp);
    Ok(taken[taken.len() / 2])
}
