//! A real server on the loopback address, with real models, asked over real connections.

mod attacks;
mod browser;
mod client;
mod drawing;
mod load;
