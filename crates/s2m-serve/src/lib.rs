//! `s2m serve`: one page on the loopback address, on which a model is asked and its samples are looked at.
//!
//! ```no_run
//! # fn main() -> Result<(), s2m_serve::Error> {
//! let request = s2m_serve::Request::new("mnist-even");
//! let server = s2m_serve::Server::open(&request)?;
//! println!("{}", server.address()); // with a token, without which nothing is answered
//! server.run_until_interrupted()
//! # }
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `limits.rs` | every limit, with its reason |
//! | `connections.rs` | accepts connections, and closes those of slow clients |
//! | `guard.rs` | refuses other hosts, other origins and wrong tokens; headers of every answer |
//! | `routes.rs` | what is answered at which address |
//! | `asked.rs`, `refused.rs` | what a page sends, and how it is answered |
//! | `shared.rs` | what all requests share |
//! | `visitors.rs` | who is here; one drawing at a time for each |
//! | `drawings.rs` | a draw as server-sent events |
//! | `downloads.rs`, `zip.rs` | the folder of `s2m sample`, as one file |
//! | `proposals.rs` | scored proposals in memory: joint classes, predictions, neighbours |
//! | `lines.rs` | the command line and the Python lines that give the same samples |
//! | `page.rs` | the page itself, which lies in `page/` |

#![warn(missing_docs)]

mod asked;
mod connections;
mod downloads;
mod drawings;
mod error;
mod guard;
pub mod limits;
mod lines;
mod page;
mod pictures;
mod pipe;
mod proposals;
mod refused;
mod request;
mod routes;
mod server;
mod shared;
mod token;
mod visitors;
mod zip;

pub use error::Error;
pub use request::Request;
pub use server::{Server, Stopper};
