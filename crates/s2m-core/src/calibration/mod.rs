//! Ways to calibrate from held-out items that carry one positive label each.
//!
//! Each file is one way: logits in, one or a few numbers out. Temperatures and the margin want
//! disjoint halves of the held-out items, or the margin's guarantee is lost.

pub mod audit;
pub mod cap;
pub mod capped;
pub mod classes;
pub mod correction;
pub mod floor;
pub mod isotonic;
pub mod margin;
pub mod odds;
pub mod others;
pub mod presence;
pub mod priors;
pub mod purity;
pub mod reliability;
pub mod sureness;
pub mod temperature;
pub mod witness;
