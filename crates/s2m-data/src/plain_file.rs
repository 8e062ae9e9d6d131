//! Opening a file that is really a file: a named pipe would wait for its other end.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Opens a file for reading; a folder is left to whoever reads it.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let found = fs::metadata(path)?;
    if !found.is_file() && !found.is_dir() {
        return Err(io::Error::other("it is not a plain file"));
    }
    File::open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let error = open(&pipe).unwrap_err();
        assert_eq!(error.to_string(), "it is not a plain file");
        open(folder.path()).unwrap();
    }
}
