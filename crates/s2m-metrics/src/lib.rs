//! Metrics of generated items: features in, one number out, its definition in the file's header.
//!
//! Nothing here loads a network, reads a file or prints. Extracting features is another step.
#![warn(missing_docs)]

pub mod accuracy;
pub mod features;
pub mod fid;
pub mod modes;
pub mod total_variation;
