//! The library behind the program: one request in, one report out.
//!
//! [`sample::sample`] draws multi-label samples, [`mine::mine`] scores proposals once for many
//! queries, [`classes::classes`] tells what a generator reaches, [`explain::explain`] why one
//! proposal was kept or not, and [`adapt::adapt`] learns where a generator makes a rare combination.

pub mod adapt;
pub mod classes;
pub mod cover;
pub mod draw;
mod error;
pub mod explain;
pub mod mine;
pub mod models;
pub mod output;
mod pace;
pub mod pool;
pub mod presence;
mod purity;
pub mod reach;
pub mod report;
pub mod sample;
pub mod samplers;
mod sequence;
pub mod session;
pub mod settings;
pub mod weigh;
mod write;

pub use error::Error;
pub use s2m_show::progress;
