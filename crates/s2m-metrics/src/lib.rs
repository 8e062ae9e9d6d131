//! Metrics of generated items: features in, numbers out, each definition in its file's header.
//!
//! Nothing here loads a network, reads a file or prints. Extracting features is another step.
//! How sure each number is: [`bootstrap`].
#![warn(missing_docs)]

pub mod accuracy;
pub mod bootstrap;
pub mod diversity;
mod error;
#[cfg(test)]
mod examples;
pub mod features;
pub mod fid;
pub mod inception_score;
pub mod kid;
pub mod modes;
pub mod nearest;
mod neighbours;
mod pairs;
pub mod pass;
pub mod prdc;
pub mod total_variation;
pub mod tsne;

pub use error::{Error, Kind};
