//! The model bundle: a generator and its classifiers as ONNX files, run by ONNX Runtime.
//!
//! [`bundle`] reads and checks what is on disk, [`runtime`] finds ONNX Runtime, [`networks`] turns
//! proposal numbers into classifier outputs and pictures, [`bank`] keeps those outputs so that every
//! query can be answered from them, [`judge`] runs a classifier of its own over given items,
//! [`backbone`] computes features by a frozen network from elsewhere, and [`probe`] works out what a generator
//! from elsewhere takes and gives. [`disk`] has the ways in which anything is written.

#![warn(missing_docs)]

pub mod backbone;
pub mod bank;
pub mod bundle;
pub mod disk;
mod error;
pub mod journal;
pub mod judge;
pub mod latents;
pub mod logits;
pub mod manifest;
pub mod networks;
pub mod onnx;
pub mod presence;
pub mod probe;
pub mod runtime;

pub use error::{Error, Kind};
