//! What can keep data from being had.

use std::io;
use std::path::Path;

s2m_core::error! {
    /// A file, a folder, or what it should hold, is not there.
    NotFound(not_found),
    /// The system could not read something; the source says why.
    Read(read),
    /// A file is damaged, cut short, or not what it should be.
    Malformed(malformed),
    /// A file is sound, but of a form that is not read here.
    Unsupported(unsupported),
    /// Something is beyond a limit.
    TooLarge(too_large),
    /// Parts of the data do not go together, or there is too little of something.
    Mismatch(mismatch),
    /// What was asked for is not possible: a share, a size, classes, labels.
    Setting(setting),
}

impl From<s2m_core::Error> for Error {
    fn from(error: s2m_core::Error) -> Self {
        Self::setting(error.to_string())
    }
}

impl Error {
    /// Of the names that a key `labels` gives.
    pub(crate) fn of_labels(error: impl Into<Self>) -> Self {
        error.into().within("`labels`")
    }

    /// Names the file in what the system said on reading it.
    pub(crate) fn reading(path: &Path) -> impl Fn(io::Error) -> Self + Copy + '_ {
        move |source| {
            Self::read(format!("could not read `{}`: {source}", path.display())).because(source)
        }
    }

    /// Names the folder in what the system said on reading it.
    pub(crate) fn reading_folder(path: &Path) -> impl Fn(io::Error) -> Self + Copy + '_ {
        move |source| {
            Self::read(format!(
                "could not read the folder `{}`: {source}",
                path.display()
            ))
            .because(source)
        }
    }
}

/// Says which file or folder a failure is about.
pub(crate) trait AtPath<T> {
    fn at(self, path: &Path) -> Result<T, Error>;
}

impl<T, E: Into<Error>> AtPath<T> for Result<T, E> {
    fn at(self, path: &Path) -> Result<T, Error> {
        self.map_err(|error| error.into().within(format_args!("`{}`", path.display())))
    }
}
