//! What the messages of all readers share: the path that a failure is about, and lists of names.

use std::error::Error as StdError;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// What is wrong with the things at a path.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("`{}`: {source}", .path.display())]
pub struct At<E: StdError + 'static> {
    /// Which file or folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub source: E,
}

/// Says which path a failure is about.
pub(crate) trait AtPath<T, E: StdError + 'static> {
    fn at(self, path: &Path) -> Result<T, At<E>>;
}

impl<T, E: StdError + 'static> AtPath<T, E> for Result<T, E> {
    fn at(self, path: &Path) -> Result<T, At<E>> {
        self.map_err(|source| At {
            path: path.to_owned(),
            source,
        })
    }
}

/// Names in quotes with commas between them.
pub(crate) fn quoted<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let quoted = names.into_iter().map(|name| format!("`{}`", name.as_ref()));
    quoted.collect::<Vec<_>>().join(", ")
}
