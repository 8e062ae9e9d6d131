//! What people look at: pictures of samples, pages that hold all that they show, and what long work says.
//!
//! Nothing here knows of models or queries.
#![warn(missing_docs)]

mod axis;
mod error;
pub mod page;
pub mod picture;
mod plot;
pub mod progress;
pub mod talk;

pub use error::Error;
