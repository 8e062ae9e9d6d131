//! The file-system steps that publish, delete or lock, each under a name at which a test can stop.
//!
//! `S2M_FAULT=MOMENT:STEP:FAULT` in the environment of the program names one of them: MOMENT is `before`
//! or `after`, FAULT is `kill`, `enospc`, `eio` or `pause`, and a number behind it (`:3`) means the
//! third time that the step is reached. A pause ends when the file that `S2M_FAULT_GO` names is there;
//! the same name with `.reached` appears when it begins. `S2M_FAULT_LOG` names a file to which every step
//! that is reached is added. Nothing of this happens without the variables.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A step that a test can stop at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A lock's file is opened or made.
    LockOpen,
    /// The holder writes itself into the lock.
    LockMark,
    /// The lock's file is removed.
    LockRemove,
    /// The folder for unfinished work is made.
    StagingCreate,
    /// Its request is written into it.
    StagingMark,
    /// What another request left is removed.
    StagingClear,
    /// A folder that a killed run had moved aside or published is put back.
    StagingRestore,
    /// Unfinished work is taken away, for a request without a result.
    StagingDiscard,
    /// The work is declared whole.
    FinishAnnounce,
    /// The folder that is replaced is moved aside.
    FinishAside,
    /// The new folder takes its name.
    FinishPublish,
    /// What only resuming needed is removed, and what was replaced.
    FinishClean,
    /// A file of an output is written.
    OutputWrite,
    /// A file is written under another name.
    FileWrite,
    /// It takes its own name.
    FilePublish,
    /// Rows are added to a journal.
    JournalAppend,
    /// A journal is removed.
    JournalRemove,
}

impl Step {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::LockOpen,
        Self::LockMark,
        Self::LockRemove,
        Self::StagingCreate,
        Self::StagingMark,
        Self::StagingClear,
        Self::StagingRestore,
        Self::StagingDiscard,
        Self::FinishAnnounce,
        Self::FinishAside,
        Self::FinishPublish,
        Self::FinishClean,
        Self::OutputWrite,
        Self::FileWrite,
        Self::FilePublish,
        Self::JournalAppend,
        Self::JournalRemove,
    ];

    /// Its name in `S2M_FAULT`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LockOpen => "lock-open",
            Self::LockMark => "lock-mark",
            Self::LockRemove => "lock-remove",
            Self::StagingCreate => "staging-create",
            Self::StagingMark => "staging-mark",
            Self::StagingClear => "staging-clear",
            Self::StagingRestore => "staging-restore",
            Self::StagingDiscard => "staging-discard",
            Self::FinishAnnounce => "finish-announce",
            Self::FinishAside => "finish-aside",
            Self::FinishPublish => "finish-publish",
            Self::FinishClean => "finish-clean",
            Self::OutputWrite => "output-write",
            Self::FileWrite => "file-write",
            Self::FilePublish => "file-publish",
            Self::JournalAppend => "journal-append",
            Self::JournalRemove => "journal-remove",
        }
    }

    /// Does the work of this step, unless a test stops it before or after.
    pub fn run<T>(self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.note();
        self.reached("before")?;
        let done = work()?;
        self.reached("after")?;
        Ok(done)
    }

    /// Adds this step to the list that a test may want.
    fn note(self) {
        static LOG: OnceLock<Option<PathBuf>> = OnceLock::new();
        let log = LOG.get_or_init(|| env::var_os("S2M_FAULT_LOG").map(PathBuf::from));
        let Some(log) = log else {
            return;
        };
        let file = OpenOptions::new().append(true).create(true).open(log);
        let _ = file.and_then(|mut file| writeln!(file, "{}", self.name()));
    }

    fn reached(self, moment: &str) -> io::Result<()> {
        static FAULT: OnceLock<Option<Fault>> = OnceLock::new();
        let fault = FAULT.get_or_init(|| Fault::parse(&env::var("S2M_FAULT").ok()?));
        match fault {
            Some(fault) if fault.moment == moment && fault.step == self => fault.strike(),
            _ => Ok(()),
        }
    }
}

/// What a test wants to happen.
#[derive(Debug)]
struct Fault {
    moment: String,
    step: Step,
    effect: Effect,
    /// Times that the step must be reached before it happens.
    left: AtomicUsize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Kill,
    Fail(i32),
    Pause,
}

/// The system's numbers for a full disk and for one that cannot be read.
const ENOSPC: i32 = 28;
const EIO: i32 = 5;

impl Fault {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let moment = parts.next()?.to_owned();
        let name = parts.next()?;
        let effect = match parts.next()? {
            "kill" => Effect::Kill,
            "enospc" => Effect::Fail(ENOSPC),
            "eio" => Effect::Fail(EIO),
            "pause" => Effect::Pause,
            _ => return None,
        };
        let times = parts.next().map_or(Some(1), |times| times.parse().ok())?;
        Some(Self {
            moment,
            step: Step::ALL.into_iter().find(|step| step.name() == name)?,
            effect,
            left: AtomicUsize::new(times),
        })
    }

    fn strike(&self) -> io::Result<()> {
        if self.left.fetch_sub(1, Ordering::Relaxed) != 1 {
            // Past it, too: the count must not come back to one.
            return Ok(());
        }
        match self.effect {
            Effect::Kill => process::abort(),
            Effect::Fail(code) => Err(io::Error::from_raw_os_error(code)),
            Effect::Pause => {
                if let Some(go) = env::var_os("S2M_FAULT_GO").map(PathBuf::from) {
                    pause(&go);
                }
                Ok(())
            }
        }
    }
}

/// Waits for a file.
fn pause(go: &Path) {
    let mut reached = go.as_os_str().to_owned();
    reached.push(".reached");
    let _ = fs::write(PathBuf::from(reached), "");
    while !go.exists() {
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_a_moment_a_step_an_effect_and_a_count() {
        let fault = Fault::parse("after:finish-publish:enospc:2").unwrap();
        assert_eq!(
            (fault.moment.as_str(), fault.step),
            ("after", Step::FinishPublish)
        );
        assert!(fault.strike().is_ok());
        assert_eq!(fault.strike().unwrap_err().raw_os_error(), Some(ENOSPC));
        assert!(fault.strike().is_ok());
        for wrong in ["", "before", "before:nothing:kill", "before:lock-open:fire"] {
            assert!(Fault::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn names_are_distinct() {
        let mut names = Step::ALL.map(Step::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Step::ALL.len());
    }
}
