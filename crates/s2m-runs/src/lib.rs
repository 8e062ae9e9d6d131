//! What `s2m` and `s2m-train` say to each other: run files, the folder of a run, its log, how a run ended.
//!
//! `s2m` writes a run file, starts `s2m-train KIND RUN.toml --out FOLDER`, and reads the folder once the program has
//! ended. Every run file is a type here, and is written and read by it alone.
#![warn(missing_docs)]

pub mod classifier;
mod ended;
mod error;
pub mod folder;
pub mod gan;
pub mod networks;
pub mod objective;
pub mod outline;
pub mod parts;
pub mod referee;
pub mod regularise;

pub use classifier::{ClassifierSettings, Way};
pub use ended::{Ended, Kind, PROGRAM};
pub use error::Error;
pub use folder::Done;
pub use gan::GanSettings;
pub use outline::Outline;
pub use referee::{Judges, RefereeSettings};
