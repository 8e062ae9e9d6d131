//! Exact toys and checks shared by tests; never published.

pub mod exact;
pub mod normal;
