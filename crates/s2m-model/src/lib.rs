//! The model bundle: a generator and its classifiers as ONNX files, run by ONNX Runtime.
//!
//! [`bundle`] reads and checks what is on disk, [`runtime`] finds ONNX Runtime, [`networks`] turns
//! proposal numbers into classifier outputs and pictures, and [`bank`] keeps those outputs so that
//! every query can be answered from them.

pub mod bank;
pub mod bundle;
pub mod journal;

pub mod logits;
pub mod manifest;
pub mod networks;
pub mod onnx;
pub mod runtime;
