//! Multi-label samples out of a generator and single positive labels: open a model, ask, draw.
//!
//! ```
//! # fn main() -> Result<(), s2m::Error> {
//! let model = s2m::Model::open("gaussians-exact")?; // an embedded name, or the folder of a bundle
//! let draw = model.query("A - B")?.seed(7).tv(0.01).draw(1000)?;
//! assert_eq!(draw.samples.len(), 1000);
//! println!(
//!     "{:.1} generator calls each, within TV {:?} of the target",
//!     draw.report.calls_per_sample, draw.report.tv_bound
//! );
//! # Ok(())
//! # }
//! ```
//!
//! Samples also come in batches, as they are accepted, in flat memory:
//!
//! ```
//! # fn main() -> Result<(), s2m::Error> {
//! let model = s2m::Model::open("gaussians-exact")?;
//! for batch in model.query("A + B")?.stream(64)?.take(3) {
//!     let points = batch?.items.to_floats();
//!     assert_eq!(points.len(), 64 * 2);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! ONNX Runtime is looked for beside the program, in `ORT_DYLIB_PATH` and among Python's packages; see
//! [`Model::with_onnxruntime`]. Everything else takes a draw or makes one: [`sample::sample`] writes a folder that an interrupted
//! run goes on with, [`mine::mine`] scores proposals once for many queries, [`classes::classes`] tells what a generator
//! reaches, [`explain::explain`] why one proposal was kept or not, and [`adapt::adapt`] learns where a generator makes
//! a rare combination.
#![warn(missing_docs)]

pub mod adapt;
pub mod ask;
pub mod classes;
pub mod cover;
pub mod draw;
mod drawing;
mod error;
pub mod explain;
mod method;
pub mod mine;
mod mixture_bytes;
pub mod model;
pub mod models;
pub mod moved;
mod mover;
mod moves;
pub mod neighbours;
pub mod output;
mod pace;
mod pilot;
pub mod plan;
pub mod pool;
pub mod predict;
pub mod presence;
mod purity;
pub mod reach;
mod refusal;
pub mod report;
pub mod sample;
pub mod samplers;
pub mod samples;
pub mod scored;
mod sequence;
pub mod session;
pub mod settings;
mod smc;
pub mod stream;
pub mod typed;
pub mod watch;
pub mod weigh;
mod write;

pub use ask::{Ask, Selected};
pub use error::Error;
pub use model::Model;
pub use refusal::Refusal;
pub use s2m_core::setting;
pub use s2m_show::progress;
pub use samples::{Draw, Items, Samples};
pub use scored::Scored;
pub use stream::Stream;
