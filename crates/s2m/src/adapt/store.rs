//! An adapted proposal on disk: `proposal.json` says what it is, `mixture.bin` holds its numbers.
//!
//! Numbers are 64-bit floats, lowest byte first: weights, means, factors. Files from elsewhere are
//! checked before anything is made of them: size, hash, and that they are a mixture at all.

use std::path::Path;
use std::sync::Arc;

use s2m_core::mixture::{Covariance, Mixture, Parts};
use s2m_core::streams;
use s2m_model::bundle::{Bundle, sha256};
use s2m_model::disk::read_plain;
use serde::{Deserialize, Serialize};

use super::record::{Record, covariance_name};
use crate::draw::Target;
use crate::error::{AdaptError, Error};
use crate::mixture_bytes::{bytes, digest};
use crate::output::Staging;
use crate::pilot::{MAX_COMPONENTS, MAX_SIZE};
use crate::session::Session;

/// The files of a stored proposal.
pub const FILES: [&str; 2] = ["proposal.json", "mixture.bin"];

/// Version of the format.
const FORMAT: u32 = 1;

/// Most bytes of a file that are read.
const MAX_BYTES: u64 = 1 << 30;

/// A proposal with what it was made for.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// What it is.
    pub about: About,
    /// The mixture; none where the prior is as good.
    pub mixture: Option<Arc<Mixture>>,
}

/// What `proposal.json` holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    format: u32,
    /// Name of the model.
    pub model: String,
    /// SHA-256 of its generator.
    pub generator: String,
    /// The query that it was adapted for.
    pub query: String,
    /// Classes asked of a conditional generator.
    pub classes: Vec<String>,
    /// Seed of the proposals of the search.
    pub seed: u64,
    /// What the search did.
    pub adaptation: Record,
    /// SHA-256 of the bundle and of the settings that weigh proposals: what was judged holds for these alone.
    #[serde(default)]
    pub weighed_by: String,
    mixture: Option<Shape>,
}

/// What is needed to read the numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    covariance: String,
    size: usize,
    components: usize,
    prior_share: f64,
    sha256: String,
}

/// What decides the weights of a query's proposals.
pub(crate) fn weighed_by(session: &Session, target: &Target) -> String {
    let settings = &session.settings;
    let parts = [
        session.bundle.hash().to_owned(),
        target.weighting.query().text().to_owned(),
        format!("{:?} {:?}", settings.density, settings.posterior),
        format!("{:?} {:?}", settings.calibration, settings.overrides),
        format!("{:?}", target.classes),
    ];
    sha256(parts.join("\n").as_bytes())
}

impl Stored {
    pub(crate) fn new(
        session: &Session,
        target: &Target,
        mixture: Option<&Mixture>,
        adaptation: Record,
    ) -> Self {
        let manifest = session.bundle.manifest();
        let names = session.bundle.labels();
        let shape = |mixture: &Mixture| Shape {
            covariance: covariance_name(mixture.covariance()).to_owned(),
            size: mixture.size(),
            components: mixture.components(),
            prior_share: mixture.prior_share(),
            sha256: digest(mixture),
        };
        Self {
            about: About {
                format: FORMAT,
                model: manifest.name.clone(),
                generator: manifest.generator.sha256.clone(),
                query: target.weighting.query().text().to_owned(),
                classes: target
                    .classes
                    .iter()
                    .map(|c| names.name(c).to_owned())
                    .collect(),
                seed: session.seed,
                adaptation,
                weighed_by: weighed_by(session, target),
                mixture: mixture.map(shape),
            },
            mixture: mixture.cloned().map(Arc::new),
        }
    }

    /// The stage for proposals to be sampled from: one that no search has used.
    pub(crate) const FRESH_STAGE: u16 = streams::FRESH;

    /// Writes the files into a folder of an output.
    pub(crate) fn write(&self, staging: &Staging, folder: &str) -> Result<(), Error> {
        let at = |file: &str| match folder {
            "" => file.to_owned(),
            folder => format!("{folder}/{file}"),
        };
        if let Some(mixture) = &self.mixture {
            staging.write(&at(FILES[1]), &bytes(mixture))?;
        }
        let json = serde_json::to_string_pretty(&self.about).expect("only plain fields");
        Ok(staging.write(&at(FILES[0]), json.as_bytes())?)
    }

    /// Reads a proposal for a bundle; refuses what is broken or was made for another generator.
    pub fn open(folder: &Path, bundle: &Bundle) -> Result<Self, Error> {
        let broken = |reason: String| AdaptError::Broken {
            path: folder.to_owned(),
            reason,
        };
        let text = read(folder, FILES[0]).map_err(broken)?;
        let about: About = serde_json::from_slice(&text).map_err(|e| broken(e.to_string()))?;
        if about.format != FORMAT {
            let found = about.format;
            return Err(broken(format!("its format is {found}, and {FORMAT} is known")).into());
        }
        let generator = &bundle.manifest().generator;
        if about.generator != generator.sha256 {
            return Err(AdaptError::OtherBundle {
                path: folder.to_owned(),
                model: about.model,
            }
            .into());
        }
        let mixture = match &about.mixture {
            None => None,
            Some(shape) => {
                let numbers = read(folder, FILES[1]).map_err(broken)?;
                let mixture = shape.mixture(&numbers).map_err(broken)?;
                let size = generator.latents[0].size();
                if mixture.size() != size {
                    let found = mixture.size();
                    let reason = format!("it has {found} dimensions, and the latent has {size}");
                    return Err(broken(reason).into());
                }
                Some(Arc::new(mixture))
            }
        };
        Ok(Self { about, mixture })
    }
}

fn read(folder: &Path, file: &str) -> Result<Vec<u8>, String> {
    let path = folder.join(file);
    let about = std::fs::metadata(&path).map_err(|e| format!("`{file}`: {e}"))?;
    if about.len() > MAX_BYTES {
        return Err(format!("`{file}` is larger than {} MiB", MAX_BYTES >> 20));
    }
    read_plain(&path).map_err(|e| format!("`{file}`: {e}"))
}

impl Shape {
    fn mixture(&self, bytes: &[u8]) -> Result<Mixture, String> {
        let covariance = [Covariance::Shared, Covariance::Diagonal, Covariance::Full];
        let covariance = covariance
            .into_iter()
            .find(|c| covariance_name(*c) == self.covariance)
            .ok_or_else(|| format!("`{}` is no kind of covariance", self.covariance))?;
        let (size, components) = (self.size, self.components);
        if !(1..=MAX_SIZE).contains(&size) || !(1..=MAX_COMPONENTS).contains(&components) {
            return Err(format!(
                "{components} components of {size} dimensions are out of range"
            ));
        }
        let factors = covariance.numbers(size, components);
        let wanted = 8 * (components + components * size + factors);
        if bytes.len() != wanted {
            let found = bytes.len();
            return Err(format!("`{}` has {found} bytes, not {wanted}", FILES[1]));
        }
        if sha256(bytes) != self.sha256 {
            return Err(format!(
                "`{}` is not the file that it was made with",
                FILES[1]
            ));
        }
        let mut numbers = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|b| f64::from_le_bytes(*b));
        let mut take = |count: usize| numbers.by_ref().take(count).collect::<Vec<f64>>();
        let parts = Parts {
            covariance,
            size,
            weights: take(components),
            means: take(components * size),
            factors: take(factors),
            prior_share: self.prior_share,
        };
        // Without a share of the prior, some items could never come up.
        if self.prior_share <= 0.0 {
            return Err("it has no share of the prior".to_owned());
        }
        Mixture::new(parts).map_err(|e| e.to_string())
    }
}
