//! The mathematics of turning single positive labels into multi-label samples.
//!
//! Nothing here knows of tensors, files, clocks or devices. A generated item enters as the outputs
//! of three classifiers ([`weight::Evidence`]), becomes one log weight ([`weight::Weighting`]), and
//! a sampler ([`samplers`]) keeps items in proportion to it.
//!
//! ```
//! use s2m_core::{density::Labelling, labels::Labels, query::Query, weight::{Evidence, Weighting}};
//!
//! let labels = Labels::new(["Smiling", "Male"])?;
//! let query = Query::parse("Smiling - Male", &labels)?;
//! let labelling = Labelling::one_of(&[1.0, 1.0])?;
//! let weighting = Weighting::new(query, labelling)?;
//! // The class is a coin flip: no level is left for "smiling and not male".
//! let even = Evidence { class_logits: &[0.0, 0.0], real_logit: 0.0, fake_class_logits: None, joint: None, log_latent_ratio: 0.0 };
//! assert_eq!(weighting.log_weight(even)?, f64::NEG_INFINITY);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_docs)]

pub mod adaptation;
pub mod calibration;
pub mod chains;
pub mod density;
pub mod diagnostics;
mod error;
pub mod joint;
pub mod labels;
mod logits;
mod logspace;
pub mod mixture;
pub mod moves;
pub mod normal;
pub mod posterior;
pub mod proposals;
pub mod query;
pub mod samplers;
pub mod series;
pub mod setting;
pub mod streams;
pub mod tail;
pub mod weight;

pub use error::{Error, Kind};
pub use logspace::{log_sub_exp, log_sum_exp};
