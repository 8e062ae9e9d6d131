//! ONNX files: what is in them, how small ones are written, and how two are joined into one.
//!
//! - [`proto`]: the messages of the file format;
//! - [`inspect`]: inputs, outputs and outside files of a model that somebody else made;
//! - [`inside`]: weights from other files, brought inside;
//! - [`casts`]: plain element types around a file that has others;
//! - [`doubling`]: fewer multiplications where pixels are repeated before a convolution;
//! - [`half`]: weights stored in 16 bits;
//! - [`narrow`]: all arithmetic in 16 bits;
//! - [`backbone`]: a network up to one of its values, with heads of one's own;
//! - [`gradient`]: the derivative of a network by its latents;
//! - [`graph`]: a writer that checks shapes;
//! - [`adapter`]: levels, ranges and layouts between a generator and a classifier;
//! - [`join`](mod@join): generator, adapter and classifier as one model.

pub mod adapter;
pub mod backbone;
pub mod casts;
pub mod doubling;
pub mod gradient;
pub mod graph;
pub mod half;
pub mod inside;
pub mod inspect;
pub mod join;
pub mod narrow;
pub mod proto;

pub use adapter::{Adapter, Axes, ItemFormat, Layout, adapter_model, levels_model};
pub use backbone::{Cut, cut, with_heads};
pub use doubling::fold_doubling;
pub use graph::{BatchNorm, Conv2d, ConvTranspose2d, Dim, Element, GraphBuilder, Reduced, Tensor};
pub use inside::with_weights_inside;
pub use inspect::{Description, Port, PortElement, describe, external_paths};
pub use join::{Join, Network, NotJoinable, join};
pub use proto::ModelProto;
