//! Exact toys and checks shared by tests; never published.

pub mod chi_square;
pub mod damage;
pub mod exact;
pub mod faults;
pub mod folder;
pub mod linear;
pub mod pictures;
