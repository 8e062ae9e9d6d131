//! What a person starts the page with.

use std::path::Path;

use s2m::session::Machine;

/// One request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Folder or name of the model.
    pub model: &'a Path,
    /// Bank to draw from.
    pub bank: Option<&'a Path>,
    /// Port on the loopback address; 0 takes a free one.
    pub port: u16,
    /// What to draw with.
    pub machine: Machine<'a>,
}

impl<'a> Request<'a> {
    /// A model on a free port, with everything else by default.
    pub fn new(model: &'a (impl AsRef<Path> + ?Sized)) -> Self {
        Self {
            model: model.as_ref(),
            bank: None,
            port: 0,
            machine: Machine::default(),
        }
    }
}
