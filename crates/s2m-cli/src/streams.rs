//! Where a command's words go.

use std::io::Write;

/// Data to `out`, talk to `err`.
pub(crate) struct Streams<'a> {
    pub(crate) out: &'a mut dyn Write,
    pub(crate) err: &'a mut dyn Write,
}
