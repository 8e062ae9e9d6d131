//! How long work tells whoever waits for it.

/// Receives news of long work; the program draws bars with it, a library caller may ignore it.
pub trait Progress: Sync {
    /// A piece of work begins; `total` is how much there is, where that is known.
    fn begin(&self, _what: &str, _total: Option<u64>) {}
    /// So much of it is done.
    fn at(&self, _done: u64) {}
    /// It is over.
    fn end(&self) {}
    /// Whether nobody waits any longer; asked after every [`at`](Self::at), and the work then ends in an error.
    fn stopped(&self) -> bool {
        false
    }
    /// Something to know while waiting, between pieces of work.
    fn note(&self, _text: &str) {}
}

/// Says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {}
