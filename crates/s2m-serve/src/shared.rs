//! What all requests share: the model, its proposals, who is here, and what may be asked of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::http::StatusCode;
use s2m::settings::SampleSettings;
use s2m::{Ask, Model};
use tokio::sync::Semaphore;

use crate::asked::Asked;
use crate::limits;
use crate::lines::Source;
use crate::proposals::Proposals;
use crate::refused::Refused;
use crate::visitors::Visitors;

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) model: Model,
    /// As it was typed, for requests that open it again.
    pub(crate) path: PathBuf,
    pub(crate) source: Source,
    pub(crate) token: String,
    pub(crate) port: u16,
    pub(crate) visitors: Visitors,
    pub(crate) proposals: Proposals,
    /// Turns of drawings, and of other questions.
    pub(crate) drawings: Arc<Semaphore>,
    pub(crate) questions: Arc<Semaphore>,
    pub(crate) closing: AtomicBool,
}

impl Shared {
    /// Most samples of one drawing.
    pub(crate) fn most(&self) -> usize {
        let size: usize = self
            .model
            .bundle()
            .manifest()
            .generator
            .output
            .shape
            .iter()
            .product();
        limits::SAMPLES.min(limits::NUMBERS / size.max(1)).max(1)
    }

    /// How a request is drawn; in the way of the program.
    pub(crate) fn settings(&self, asked: &Asked) -> SampleSettings {
        let mut settings = SampleSettings {
            // A bank has its own.
            seed: match self.source.seed {
                Some(_) => None,
                None => Some(asked.seed),
            },
            ..SampleSettings::default()
        };
        settings.overrides.purity = asked.purity;
        settings
    }

    /// A request that can be drawn, as far as that is known beforehand.
    pub(crate) fn ask(&self, asked: &Asked) -> Result<Ask, Refused> {
        let refuse =
            |message: String| Err(Refused::new(StatusCode::UNPROCESSABLE_ENTITY, &message));
        if asked.query.len() > limits::QUERY {
            return refuse(format!(
                "the query is {} bytes long; at most {} are read here",
                asked.query.len(),
                limits::QUERY
            ));
        }
        if asked.n == 0 || asked.n > self.most() {
            return refuse(format!(
                "{} samples were asked for; it must be 1 to {}\nhint: the command line has no such limit",
                asked.n,
                self.most()
            ));
        }
        if asked.seed > limits::SEED {
            return refuse(format!(
                "the seed is {}; it must be at most {}",
                asked.seed,
                limits::SEED
            ));
        }
        if let Some(purity) = asked
            .purity
            .filter(|purity| !(*purity > 0.0 && *purity < 1.0))
        {
            return refuse(format!(
                "the purity is {purity}; it must lie strictly between 0 and 1"
            ));
        }
        let mut ask = self
            .model
            .query(&asked.query)?
            .with_settings(self.settings(asked));
        if let Some(bank) = self.source.bank() {
            ask = ask.bank(bank);
        }
        Ok(ask)
    }
}
