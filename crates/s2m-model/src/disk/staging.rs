//! A folder that appears whole or not at all, and whose making survives being killed at any moment.
//!
//! ```text
//! NAME.partial/request.txt     whose work this is: our mark and the request
//! NAME.partial/files/          what becomes NAME
//! NAME.partial/*.journal       what a second try can go on from
//! NAME.partial/replaced/       the folder that is being replaced
//! .NAME.lock                   held for as long as any of this is touched
//! ```
//!
//! To finish, `request.txt` is renamed to `finished.txt`, an old NAME moves to `replaced`, `files` takes
//! the name NAME, and the rest is removed, the marked file last. After a kill the next run sees from
//! what is there how far that came, and goes back to the moment before it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use s2m_core::setting::Setting;

use super::lock::Lock;
use super::scratch::Scratch;
use super::step::Step;

use crate::error::Error;

/// First line of `request.txt`.
const MARK: &str = "s2m output";

/// Names inside the folder of unfinished work.
const REQUEST: &str = "request.txt";
const FINISHED: &str = "finished.txt";
const FILES: &str = "files";
const REPLACED: &str = "replaced";
const JOURNAL: &str = "journal";

/// Most bytes of a mark that are read.
const MAX_MARK: u64 = 1 << 16;

/// What to do where the folder already holds something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Keep it and refuse.
    #[default]
    Keep,
    /// Replace it, if this program made it.
    Replace,
}

/// What a folder is when it is whole, and how one made before is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Samples, of one query or of all joint classes.
    Samples,
    /// An adapted proposal.
    Proposal,
    /// A model bundle.
    Bundle,
    /// A bank that was joined.
    Bank,
}

impl Kind {
    /// In words.
    fn name(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Proposal => "an adapted proposal",
            Self::Bundle => "a bundle",
            Self::Bank => "a bank",
        }
    }

    /// Files that every folder of this kind has.
    fn signature(self) -> &'static [&'static str] {
        match self {
            Self::Samples => &["metadata.csv", "report.json"],
            Self::Proposal => &["proposal.json"],
            Self::Bundle => &["model.toml"],
            Self::Bank => &["bank.toml"],
        }
    }
}

/// A folder to be made.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// The folder.
    pub target: &'a Path,
    /// What it will be.
    pub kind: Kind,
    /// Names the request, to recognise what an interrupted run of it has left.
    pub identity: &'a str,
    /// What to do where it holds something.
    pub existing: Existing,
    /// What the request reads; a folder that holds any of it is never replaced.
    pub inputs: &'a [&'a Path],
}

/// A folder in the making.
#[derive(Debug)]
pub struct Staging {
    target: PathBuf,
    partial: PathBuf,
    kind: Kind,
    existing: Existing,
    inputs: Vec<PathBuf>,
    /// Whether the folder of unfinished work is the request's own.
    begun: bool,
    _lock: Lock,
}

/// A file of the folder that is written piece by piece.
#[derive(Debug)]
pub struct OutputFile {
    file: BufWriter<File>,
    path: PathBuf,
}

impl OutputFile {
    /// Adds bytes.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = self.file.write_all(bytes);
        written.map_err(Error::writing(&self.path))
    }

    /// Ends the file.
    pub fn finish(mut self) -> Result<(), Error> {
        let flushed = Step::OutputWrite.run(|| self.file.flush());
        flushed.map_err(Error::writing(&self.path))
    }
}

impl Staging {
    /// Starts or continues the folder for a request.
    ///
    /// Fails before anything is changed where the folder could not take its name in the end.
    pub fn open(plan: &Plan<'_>) -> Result<Self, Error> {
        let target = resolve(plan.target)?;
        let name = target.file_name().ok_or_else(|| {
            Error::place(format!("`{}` is not a name for a folder", target.display()))
        })?;
        let name = name.to_string_lossy();
        let mut staging = Self {
            partial: target.with_file_name(format!("{name}.partial")),
            kind: plan.kind,
            existing: plan.existing,
            inputs: plan.inputs.iter().map(|path| (*path).to_owned()).collect(),
            begun: false,
            _lock: Lock::beside(&target)?,
            target,
        };
        let left = staging.left()?;
        staging.go_back(&left, plan.identity)?;
        staging.check_target(Self::occupied)?;
        staging.begin(&left, plan.identity)?;
        staging.begun = true;
        Ok(staging)
    }

    /// Where a file of the folder lies for now.
    pub fn path(&self, file: &str) -> PathBuf {
        self.partial.join(FILES).join(file)
    }

    /// Where what only a second try needs is kept: it does not become part of the folder.
    pub fn journal(&self, name: &str) -> PathBuf {
        self.partial.join(format!("{name}.{JOURNAL}"))
    }

    /// Writes one file.
    pub fn write(&self, file: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(file);
        let folder = parent(&path);
        fs::create_dir_all(folder).map_err(Error::writing(folder))?;
        let write = || fs::write(&path, bytes);
        Step::OutputWrite.run(write).map_err(Error::writing(&path))
    }

    /// Begins one file that may be larger than memory.
    pub fn create(&self, file: &str) -> Result<OutputFile, Error> {
        let path = self.path(file);
        let folder = parent(&path);
        fs::create_dir_all(folder).map_err(Error::writing(folder))?;
        let file = File::create(&path).map_err(Error::writing(&path))?;
        Ok(OutputFile {
            file: BufWriter::new(file),
            path,
        })
    }

    /// Where numbers of this run go that memory does not hold.
    pub fn scratch(&self) -> Scratch {
        Scratch::inside(&self.partial)
    }

    /// Removes the files so far: for work that does not go on where it stopped.
    pub fn empty(&self) -> Result<(), Error> {
        let files = self.partial.join(FILES);
        remove(&files, Step::StagingClear)?;
        fs::create_dir_all(&files).map_err(Error::writing(&files))
    }

    /// Gives the folder its name.
    pub fn finish(self) -> Result<(), Error> {
        let files = self.partial.join(FILES);
        self.check_target(Self::appeared)?;
        sync(&files).map_err(Error::writing(&files))?;
        let (request, finished) = (self.partial.join(REQUEST), self.partial.join(FINISHED));
        let announce = || fs::rename(&request, &finished);
        Step::FinishAnnounce
            .run(announce)
            .map_err(Error::writing(&finished))?;
        if self.existing == Existing::Replace && holds_anything(&self.target) {
            let aside = || fs::rename(&self.target, self.partial.join(REPLACED));
            let moved = Step::FinishAside.run(aside);
            moved.map_err(Error::writing(&self.target))?;
        }
        // Over an empty folder this works; over one that somebody has just filled it does not.
        let publish = || fs::rename(&files, &self.target);
        let published = Step::FinishPublish.run(publish);
        published.map_err(|source| match source.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => self.appeared(),
            _ => Error::writing(&self.target)(source),
        })?;
        let _ = sync(parent(&self.target));
        self.remove_all(Step::FinishClean)
    }

    /// Takes everything away, for a request that ends without a result.
    pub fn discard(self) {
        // What cannot be removed carries our mark, and the next run tries again.
        let _ = self.remove_all(Step::StagingDiscard);
    }

    /// Ends without a result but keeps the journals, from which a second try goes on; says where they
    /// are, if there are any.
    pub fn keep_journals(self) -> Option<PathBuf> {
        let _ = fs::remove_dir_all(self.partial.join(FILES));
        let left = entries(&self.partial).unwrap_or_default();
        let holds_rows = |name: &OsString| {
            let size = fs::metadata(self.partial.join(name)).map_or(0, |found| found.len());
            is_journal(name) && size > 0
        };
        if left.iter().any(holds_rows) {
            return Some(self.partial.clone());
        }
        self.discard();
        None
    }

    /// What an earlier run has left.
    fn left(&self) -> Result<Left, Error> {
        let system = Error::writing(&self.partial);
        match fs::symlink_metadata(&self.partial) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Left::Nothing),
            Err(error) => return Err(system(error)),
            Ok(found) if !found.is_dir() => {
                return Err(self.in_the_way());
            }
            Ok(_) => {}
        }
        let names = entries(&self.partial).map_err(system)?;
        if let Some(identity) = marked(&self.partial.join(FINISHED)) {
            return Ok(if names.iter().any(|name| name == FILES) {
                Left::Announced(identity)
            } else {
                Left::Published(identity)
            });
        }
        if let Some(identity) = marked(&self.partial.join(REQUEST)) {
            return Ok(Left::Begun(identity));
        }
        // A run may be killed before its mark is whole; nothing else of ours is there by then.
        let unmarked = [REQUEST, UNFINISHED_REQUEST];
        if names
            .iter()
            .all(|name| unmarked.iter().any(|own| name == own))
            && names.iter().all(|name| is_short(&self.partial.join(name)))
        {
            return Ok(Left::Begun(String::new()));
        }
        Err(self.in_the_way())
    }

    /// Undoes a finish that was cut off, so that work goes on before it.
    fn go_back(&self, left: &Left, identity: &str) -> Result<(), Error> {
        let (files, replaced) = (self.partial.join(FILES), self.partial.join(REPLACED));
        let restore = |from: &Path, to: &Path| {
            let step = Step::StagingRestore.run(|| fs::rename(from, to));
            step.map_err(Error::writing(to))
        };
        match left {
            // The old folder was moved aside and the new one has not come: the old one goes back.
            Left::Announced(_) => {
                if replaced.exists() && !self.target.exists() {
                    restore(&replaced, &self.target)?;
                }
                restore(&self.partial.join(FINISHED), &self.partial.join(REQUEST))
            }
            // All but the cleaning was done. The same request takes its folder back and finishes
            // again, since it still has to say what it found; any other one leaves it.
            Left::Published(own) if own == identity => {
                remove(&replaced, Step::StagingClear)?;
                if self.target.exists() {
                    restore(&self.target, &files)?;
                }
                restore(&self.partial.join(FINISHED), &self.partial.join(REQUEST))
            }
            Left::Published(_) => self.remove_all(Step::StagingClear),
            Left::Nothing | Left::Begun(_) => Ok(()),
        }
    }

    fn occupied(&self) -> Error {
        let (target, force) = (self.target.display(), Setting("force"));
        Error::place(format!(
            "`{target}` already holds files\nhint: choose another folder, or pass {force} to replace it"
        ))
    }

    /// Of files that came while the folder was made.
    fn appeared(&self) -> Error {
        let (target, kept) = (self.target.display(), self.partial.display());
        Error::place(format!(
            "`{target}` has come to hold files in the meantime; what was made waits in `{kept}`\nhint: move them away and run the same command again, or pass {} to replace them",
            Setting("force")
        ))
    }

    fn in_the_way(&self) -> Error {
        Error::place(format!(
            "`{}` is in the way: this program did not make it\nhint: move it, or choose another folder",
            self.partial.display()
        ))
    }

    /// Fails where the folder could not take its name.
    fn check_target(&self, occupied: impl Fn(&Self) -> Error) -> Result<(), Error> {
        match fs::read_dir(&self.target).map(Iterator::count) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::writing(&self.target)(error)),
        }
        if self.existing == Existing::Keep {
            return Err(occupied(self));
        }
        let signature = self.kind.signature().iter();
        if !signature
            .into_iter()
            .all(|file| self.target.join(file).is_file())
        {
            return Err(Error::place(format!(
                "`{}` was not made by this program as {}, so {} does not replace it\nhint: remove it yourself, or choose another folder",
                self.target.display(),
                self.kind.name(),
                Setting("force")
            )));
        }
        let resolved = self.target.canonicalize();
        let resolved = resolved.map_err(Error::writing(&self.target))?;
        let inside = |input: &&PathBuf| {
            let input = input.canonicalize();
            input.is_ok_and(|input| input.starts_with(&resolved))
        };
        match self.inputs.iter().find(inside) {
            None => Ok(()),
            Some(input) => Err(Error::place(format!(
                "`{}` holds `{}`, which is read by this very command\nhint: choose another folder",
                self.target.display(),
                input.display()
            ))),
        }
    }

    /// Makes the folder of unfinished work the request's own.
    fn begin(&self, left: &Left, identity: &str) -> Result<(), Error> {
        let files = self.partial.join(FILES);
        if !left.is_of(identity) {
            self.clear()?;
            let create = || fs::create_dir_all(&self.partial);
            let created = Step::StagingCreate.run(create);
            created.map_err(Error::writing(&self.partial))?;
            self.mark(identity).map_err(Error::writing(&self.partial))?;
        }
        remove(&self.partial.join(REPLACED), Step::StagingClear)?;
        fs::create_dir_all(&files).map_err(Error::writing(&files))
    }

    fn mark(&self, identity: &str) -> io::Result<()> {
        let unfinished = self.partial.join(UNFINISHED_REQUEST);
        Step::StagingMark.run(|| {
            let mut file = File::create(&unfinished)?;
            file.write_all(format!("{MARK}\n{identity}\n").as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, self.partial.join(REQUEST))
        })
    }

    /// Removes what another request has left, but for its journals: these know themselves whom they serve.
    fn clear(&self) -> Result<(), Error> {
        let Ok(names) = entries(&self.partial) else {
            return Ok(());
        };
        let others = names.iter().filter(|name| {
            !is_journal(name) && *name != OsStr::new(REQUEST) && *name != OsStr::new(FINISHED)
        });
        for name in others {
            remove(&self.partial.join(name), Step::StagingClear)?;
        }
        Ok(())
    }

    /// Removes the folder of unfinished work, its mark last.
    fn remove_all(&self, step: Step) -> Result<(), Error> {
        let system = Error::writing(&self.partial);
        let names = entries(&self.partial).map_err(system)?;
        let (marks, others): (Vec<_>, Vec<_>) = names
            .into_iter()
            .partition(|name| [REQUEST, FINISHED].iter().any(|mark| name == mark));
        for name in others.iter().chain(&marks) {
            remove(&self.partial.join(name), step)?;
        }
        step.run(|| fs::remove_dir(&self.partial)).map_err(system)
    }
}

impl Drop for Staging {
    /// Leaves nothing behind where nothing was made.
    fn drop(&mut self) {
        if !self.begun {
            return;
        }
        let names = entries(&self.partial).unwrap_or_default();
        let pristine = |name: &OsString| {
            name == REQUEST || name == FILES && !holds_anything(&self.partial.join(FILES))
        };
        if names.iter().all(pristine) && names.iter().any(|name| name == REQUEST) {
            let _ = self.remove_all(Step::StagingDiscard);
        }
    }
}

/// Removes a file or folder, where there is one.
fn remove(path: &Path, step: Step) -> Result<(), Error> {
    let remove = || match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => step.run(|| fs::remove_dir_all(path)),
        Ok(_) => step.run(|| fs::remove_file(path)),
    };
    remove().map_err(Error::writing(path))
}

/// Name of a mark that is not whole yet.
const UNFINISHED_REQUEST: &str = "request.txt.tmp";

/// What an earlier run has left, with the request that it was for.
#[derive(Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    /// Unfinished work.
    Begun(String),
    /// Work that is whole and does not have its name yet.
    Announced(String),
    /// The new folder has its name; some of the rest may be removed.
    Published(String),
}

impl Left {
    fn is_of(&self, request: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Begun(own) | Self::Announced(own) | Self::Published(own) => own == request,
        }
    }
}

/// The request in a marked file; none where the file is not ours.
fn marked(path: &Path) -> Option<String> {
    let found = fs::symlink_metadata(path).ok()?;
    if !found.is_file() || found.len() > MAX_MARK {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    match text
        .strip_prefix(MARK)
        .and_then(|rest| rest.strip_prefix('\n'))
    {
        Some(identity) => Some(identity.trim_end().to_owned()),
        // Before there was a first line, the file held a SHA-256 and nothing else.
        None => is_hash(&text).then_some(text),
    }
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Whether a file may be a mark that was cut off.
fn is_short(path: &Path) -> bool {
    fs::read(path).is_ok_and(|bytes| format!("{MARK}\n").as_bytes().starts_with(&bytes))
        || marked(path).is_some()
}

fn is_journal(name: &OsStr) -> bool {
    Path::new(name).extension() == Some(OsStr::new(JOURNAL))
}

fn entries(folder: &Path) -> io::Result<Vec<OsString>> {
    let mut names = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn holds_anything(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// The folder that a path lies in.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// A link to a folder stays a link; what it points at is filled.
fn resolve(target: &Path) -> Result<PathBuf, Error> {
    let resolved = if target.is_symlink() {
        let resolved = target.canonicalize();
        resolved.map_err(|_| {
            Error::place(format!(
                "`{}` is a link that leads nowhere\nhint: remove it, or name another folder",
                target.display()
            ))
        })?
    } else {
        target.to_owned()
    };
    match fs::metadata(&resolved) {
        Ok(found) if !found.is_dir() => Err(Error::place(format!(
            "`{}` is a file, not a folder",
            resolved.display()
        ))),
        Ok(_) if is_mount_point(&resolved) => Err(Error::place(format!(
            "`{}` is a mount point, which cannot be replaced as a whole\nhint: name a folder inside it",
            resolved.display()
        ))),
        _ => Ok(resolved),
    }
}

/// Makes sure that a folder's entries are on the disk before its name changes.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all())
}

/// Whether another file system begins at a folder, so that it cannot be renamed.
#[cfg(unix)]
fn is_mount_point(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(resolved) = folder.canonicalize() else {
        return false;
    };
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    let above = resolved.parent();
    above.is_none_or(|above| device(above) != device(&resolved)) || is_listed(&resolved)
}

#[cfg(not(unix))]
fn is_mount_point(_: &Path) -> bool {
    false
}

/// Whether the system lists a folder as mounted; a folder can be mounted from the same device.
#[cfg(unix)]
fn is_listed(folder: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    // Spaces and the like are written as octal numbers.
    let plain = |place: &str| {
        let characters = [
            ("\\040", " "),
            ("\\011", "\t"),
            ("\\012", "\n"),
            ("\\134", "\\"),
        ];
        characters
            .iter()
            .fold(place.to_owned(), |text, (from, to)| text.replace(from, to))
    };
    places
        .into_iter()
        .any(|place| Path::new(&plain(place)) == folder)
}

#[cfg(test)]
#[path = "staging_tests.rs"]
mod tests;
