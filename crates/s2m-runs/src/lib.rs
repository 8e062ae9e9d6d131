//! What `s2m` and `s2m-train` say to each other: what is trained, the folder of a run, how a run ended.
//!
//! `s2m` starts `s2m-train KIND RUN.toml --out FOLDER`, and reads the folder once the program has ended.

mod ended;
pub mod folder;

pub use ended::{Ended, Kind};
pub use folder::Done;
