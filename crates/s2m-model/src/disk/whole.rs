//! One file that has its old content or its new one, never a part; and files that are really files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::step::Step;

/// Writes a file whole.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_whole_with(path, |mut file| file.write_all(bytes))
}

/// Writes a file whole, filled bit by bit.
///
/// What lies at `path` may only be a file: a device, a link or a folder is not replaced.
pub fn write_whole_with(path: &Path, fill: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    check_replaceable(path)?;
    remove_leftovers(path);
    let temporary = temporary(path);
    let write = || {
        Step::FileWrite.run(|| {
            // Never over what is there: the name is ours alone.
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&temporary)?;
            fill(&file)?;
            file.sync_all()
        })?;
        Step::FilePublish.run(|| fs::rename(&temporary, path))?;
        // The new name is on the disk once its folder is. Not every system can do this.
        if let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) {
            let _ = folder.sync_all();
        }
        Ok(())
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

/// Fails where a path holds something that a file must not replace.
pub fn check_replaceable(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(found) if found.is_symlink() => Err(io::Error::other("it is a link")),
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) => Err(io::Error::other("it is not a plain file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// A name beside a file that nobody else uses.
fn temporary(path: &Path) -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!(".{name}.{}-{number}{TEMPORARY}", process::id()))
}

/// Removes what killed processes have left on the way to a file.
fn remove_leftovers(path: &Path) {
    let whole = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new(".")));
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if is_temporary_of(&name, &whole) && is_of_the_dead(&name) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether the process whose number a temporary name holds lives no more; told on Linux alone.
fn is_of_the_dead(name: &str) -> bool {
    let middle = name
        .strip_suffix(TEMPORARY)
        .and_then(|name| name.rsplit('.').next());
    let process = middle.and_then(|middle| middle.split('-').next());
    let running = |process: &str| Path::new("/proc").join(process).exists();
    Path::new("/proc/self").exists() && process.is_some_and(|process| !running(process))
}

/// Ending of files that are not whole yet.
const TEMPORARY: &str = ".tmp";

/// Whether a name is one that [`write_whole`] gives on the way to `whole`; a killed run may leave such.
pub(crate) fn is_temporary_of(name: &str, whole: &str) -> bool {
    let middle = name
        .strip_prefix('.')
        .and_then(|name| name.strip_prefix(whole))
        .and_then(|name| name.strip_prefix('.'))
        .and_then(|name| name.strip_suffix(TEMPORARY));
    middle.is_some_and(|middle| middle.bytes().all(|b| b.is_ascii_digit() || b == b'-'))
}

/// Opens a file for reading; opening a pipe would wait for its other end, so that is refused.
pub fn open_plain(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    File::open(path)
}

/// Reads a whole file that is really a file.
pub fn read_plain(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_plain(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a whole text.
pub fn read_plain_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_plain(path)?.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_what_was_there_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        write_whole(&path, b"old").unwrap();
        let error = write_whole_with(&path, |_| Err(io::Error::other("no"))).unwrap_err();
        assert_eq!(error.to_string(), "no");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        write_whole(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_folders_are_not_replaced() {
        let root = tempfile::tempdir().unwrap();
        let (file, link) = (root.path().join("file"), root.path().join("link"));
        fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let error = write_whole(&link, b"new").unwrap_err();
        assert_eq!(error.to_string(), "it is a link");
        assert_eq!(fs::read(&file).unwrap(), b"x");
        write_whole(root.path(), b"new").unwrap_err();
        write_whole(Path::new("/dev/null"), b"new").unwrap_err();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let own = format!(".a.{}-9.tmp", process::id());
        let others = [
            own.as_str(),
            ".a.notes.tmp",
            ".b.4194999-0.tmp",
            "a.4194999-0.tmp",
        ];
        for name in others.iter().chain(&[".a.4194999-0.tmp"]) {
            fs::write(root.path().join(name), "").unwrap();
        }
        write_whole(&root.path().join("a"), b"x").unwrap();
        let left = fs::read_dir(root.path()).unwrap();
        let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        let mut wanted = others.to_vec();
        wanted.push("a");
        left.sort();
        wanted.sort_unstable();
        assert_eq!(left, wanted);
    }

    #[test]
    fn temporary_names_are_told_from_others() {
        let made = temporary(Path::new("a/bank.toml"));
        let made = made.file_name().unwrap().to_string_lossy();
        assert!(is_temporary_of(&made, "bank.toml"), "{made}");
        for other in [
            "bank.toml",
            ".bank.toml.tmp2",
            ".bank.toml.mine.tmp",
            "bank.toml.tmp",
        ] {
            assert!(!is_temporary_of(other, "bank.toml"), "{other}");
        }
    }
}
