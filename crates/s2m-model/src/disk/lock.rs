//! The lock of whoever writes a folder or a file: a small file, held by the system for as long as the
//! process lives.
//!
//! The file says which process holds it. A process that dies lets go of it, whatever it was doing, and
//! what its file says then counts for nothing.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process;

use super::step::Step;

use crate::error::Error;

/// First line of a lock's file.
const MARK: &str = "s2m lock";

/// Most bytes of a lock that are read.
const MAX_LOCK: u64 = 4096;

/// Times that a lock is tried for when its file is exchanged under our hands.
const TRIES: usize = 100;

/// A lock that is held until this value goes away.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    /// Dropping it lets go.
    _file: File,
}

impl Lock {
    /// Locks a file or folder by a file beside it; the folder that both lie in is made.
    pub fn beside(path: &Path) -> Result<Self, Error> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let lock = path.with_file_name(format!(".{name}.lock"));
        if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
            fs::create_dir_all(folder).map_err(Error::writing(folder))?;
        }
        Self::take(path, lock)
    }

    /// Locks a folder by a file inside it.
    pub fn inside(folder: &Path, name: &str) -> Result<Self, Error> {
        Self::take(folder, folder.join(name))
    }

    fn take(locked: &Path, path: PathBuf) -> Result<Self, Error> {
        match Self::try_take(&path) {
            Ok(Attempt::Held(file)) => Ok(Self { path, _file: file }),
            Ok(Attempt::Busy(holder)) => Err(Error::busy(format!(
                "`{}` is in use by {holder}\nhint: wait for it, or name another place",
                locked.display()
            ))),
            Ok(Attempt::Foreign) => Err(Error::place(format!(
                "`{}` is in the way: it is not a lock of this program\nhint: move it, or name another place",
                path.display()
            ))),
            Err(source) => Err(Error::writing(locked)(source)),
        }
    }

    fn try_take(path: &Path) -> io::Result<Attempt> {
        for _ in 0..TRIES {
            // Opening a pipe would wait for its other end, and a link may lead anywhere.
            if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
                return Ok(Attempt::Foreign);
            }
            let open = || {
                let mut options = OpenOptions::new();
                let options = options.read(true).write(true).create(true);
                options.truncate(false).open(path)
            };
            let mut file = Step::LockOpen.run(open)?;
            let text = match file.try_lock() {
                Err(TryLockError::WouldBlock) => {
                    return Ok(Attempt::Busy(holder(&read(&mut file)?)));
                }
                // Some network file systems have no locks; that is no reason to refuse work.
                Ok(()) | Err(TryLockError::Error(_)) => read(&mut file)?,
            };
            if !text.is_empty() && !text.starts_with(MARK) {
                return Ok(Attempt::Foreign);
            }
            // Its last holder may have removed it between our opening and our locking.
            if is_still(&file, path)? {
                Step::LockMark.run(|| mark(&mut file))?;
                return Ok(Attempt::Held(file));
            }
        }
        Ok(Attempt::Busy("other processes".to_owned()))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The name first, and then the lock: whoever opens the file meanwhile sees that it is gone.
        let _ = Step::LockRemove.run(|| fs::remove_file(&self.path));
    }
}

enum Attempt {
    Held(File),
    Busy(String),
    Foreign,
}

fn read(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MAX_LOCK).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes who holds the lock.
fn mark(file: &mut File) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.set_len(0)?;
    file.write_all(format!("{MARK}\n{}\n", process::id()).as_bytes())
}

/// The holder in words.
fn holder(text: &str) -> String {
    match text
        .lines()
        .nth(1)
        .and_then(|line| line.parse::<u32>().ok())
    {
        Some(process) => format!("process {process}"),
        // It has only just taken the lock.
        None => "another process".to_owned(),
    }
}

/// Whether a path still leads to an open file.
#[cfg(unix)]
fn is_still(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let own = file.metadata()?;
    Ok(fs::symlink_metadata(path)
        .is_ok_and(|found| (found.dev(), found.ino()) == (own.dev(), own.ino())))
}

#[cfg(not(unix))]
fn is_still(_: &File, path: &Path) -> io::Result<bool> {
    Ok(path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_once_names_its_holder_and_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("out");
        let held = Lock::beside(&path).unwrap();
        let error = Lock::beside(&path).unwrap_err().to_string();
        let wording = format!(
            "`{}` is in use by process {}\nhint: wait for it, or name another place",
            path.display(),
            process::id()
        );
        assert_eq!(error, wording);
        drop(held);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        drop(Lock::beside(&path).unwrap());
    }

    #[test]
    fn a_lock_of_a_dead_process_is_taken_over() {
        let root = tempfile::tempdir().unwrap();
        for left in ["", "s2m lock\n", "s2m lock\n1\n"] {
            fs::write(root.path().join(".out.lock"), left).unwrap();
            drop(Lock::beside(&root.path().join("out")).unwrap());
        }
    }

    #[test]
    fn a_file_that_is_no_lock_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(".out.lock");
        fs::write(&path, "notes").unwrap();
        let error = Lock::beside(&root.path().join("out")).unwrap_err();
        assert_eq!(error.kind(), crate::Kind::Place, "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "notes");
    }

    /// Many threads that take and drop one lock: never two at a time.
    #[test]
    fn only_one_holds_it_at_a_time() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("out");
        let (inside, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let Ok(lock) = Lock::beside(&path) else {
                            continue;
                        };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        taken.fetch_add(1, Ordering::Relaxed);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                });
            }
        });
        assert!(taken.into_inner() > 100);
    }
}
