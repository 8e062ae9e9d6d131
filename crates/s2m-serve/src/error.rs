//! What can keep the page from being served.

use std::io;

use s2m::setting::Setting;
use thiserror::Error;

/// Why nothing can be served.
#[derive(Debug, Error)]
pub enum Error {
    /// The model, or its bank, is not usable.
    #[error(transparent)]
    Model(Box<s2m::Error>),
    /// The port is not to be had.
    #[error(
        "could not listen on 127.0.0.1:{port}: {source}\nhint: leave {} out, and a free one is taken",
        Setting("port")
    )]
    Listen {
        /// Which port.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
    /// The system gives no random numbers for a token.
    #[error("could not make a token: {0}")]
    Token(String),
    /// The system gives no threads.
    #[error("could not start: {0}")]
    Start(io::Error),
}

impl From<s2m::Error> for Error {
    fn from(error: s2m::Error) -> Self {
        Self::Model(Box::new(error))
    }
}
