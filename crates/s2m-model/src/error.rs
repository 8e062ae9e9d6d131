//! What can go wrong with models, networks, banks and the disk.

use std::io;
use std::path::Path;

s2m_core::error! {
    /// A file, a folder, or something in a file, is not there.
    NotFound(not_found),
    /// The system could not read something; the source says why.
    Read(read),
    /// The system could not write something; the source says why.
    Write(write),
    /// A file is damaged, or not what it should be.
    Malformed(malformed),
    /// A file is sound, but of a form that cannot be used here.
    Unsupported(unsupported),
    /// Something is beyond a limit.
    TooLarge(too_large),
    /// Things do not go together: a bank and a model, the pieces of a bank, two formats of items.
    Mismatch(mismatch),
    /// A place on disk cannot be written to, for what is there already.
    Place(place),
    /// Another process uses the place.
    Busy(busy),
    /// Nobody waited for the end any longer.
    Stopped(stopped),
    /// Progress of an interrupted run cannot be kept or read.
    Journal(journal),
    /// A network cannot be loaded or failed while running, or ONNX Runtime did.
    Network(network),
    /// A graph cannot be built.
    Graph(graph),
    /// Something has to be said, or cannot be asked for.
    Setting(setting),
}

impl From<s2m_core::Error> for Error {
    fn from(error: s2m_core::Error) -> Self {
        Self::malformed(error.to_string())
    }
}

impl Error {
    /// Names the file in what the system said on reading it.
    pub(crate) fn reading(path: &Path) -> impl Fn(io::Error) -> Self + Copy + '_ {
        move |source| {
            Self::read(format!("could not read `{}`: {source}", path.display())).because(source)
        }
    }

    /// Names the file in what the system said on writing it.
    pub(crate) fn writing(path: &Path) -> impl Fn(io::Error) -> Self + Copy + '_ {
        move |source| {
            Self::write(format!("could not write `{}`: {source}", path.display())).because(source)
        }
    }
}

/// Names in quotes with commas between them.
pub(crate) fn list<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let quoted = names.into_iter().map(|name| format!("`{}`", name.as_ref()));
    match quoted.collect::<Vec<_>>() {
        none if none.is_empty() => "none".to_owned(),
        names => names.join(", "),
    }
}
