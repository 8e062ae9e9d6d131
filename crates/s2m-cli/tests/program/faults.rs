//! Every command that writes, stopped at every step that publishes, deletes or locks: typed again, it
//! ends with the bytes of a run that nothing happened to.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use s2m_model::disk::step::Step;
use s2m_testkit::faults::{Effect, Fault, steps};

use super::{Ran, program};

/// A command that writes.
pub(super) struct Case {
    /// What it is called in the table.
    pub(super) name: &'static str,
    /// What is typed.
    pub(super) typed: &'static [&'static str],
    /// What is typed before, to have something to replace or to go on from.
    before: &'static [&'static str],
    /// Another request for the same place.
    pub(super) other: &'static [&'static str],
    /// What it writes.
    pub(super) out: &'static str,
}

const DRAW: [&str; 6] = ["sample", "gaussians-exact", "A - B", "-n", "300", "--quiet"];

/// All commands that write one folder or file.
pub(super) const CASES: [Case; 11] = [
    Case {
        name: "sample",
        typed: &[DRAW[0], DRAW[1], DRAW[2], "-n", "300", "--out", "out"],
        before: &[],
        other: &[DRAW[0], DRAW[1], "A + B", "-n", "70", "--out", "out"],
        out: "out",
    },
    Case {
        name: "sample --force",
        typed: &[
            DRAW[0], DRAW[1], DRAW[2], "-n", "300", "--out", "out", "--force",
        ],
        before: &[DRAW[0], DRAW[1], "A + B", "-n", "70", "--out", "out"],
        other: &[DRAW[0], DRAW[1], "B", "-n", "60", "--out", "out", "--force"],
        out: "out",
    },
    Case {
        name: "sample --all-joint",
        typed: &[DRAW[0], DRAW[1], "--all-joint", "-n", "50", "--out", "out"],
        before: &[],
        other: &[DRAW[0], DRAW[1], "A + B", "-n", "70", "--out", "out"],
        out: "out",
    },
    Case {
        name: "sample --adapt",
        typed: &[
            DRAW[0], DRAW[1], DRAW[2], "--adapt", "adaptive", "--out", "out",
        ],
        before: &[],
        other: &[DRAW[0], DRAW[1], "A + B", "-n", "70", "--out", "out"],
        out: "out",
    },
    Case {
        name: "adapt",
        typed: &["adapt", DRAW[1], DRAW[2], "-n", "100", "--out", "out"],
        before: &[],
        other: &["adapt", DRAW[1], "A + B", "-n", "100", "--out", "out"],
        out: "out",
    },
    Case {
        name: "adapt --force",
        typed: &[
            "adapt", DRAW[1], DRAW[2], "-n", "100", "--out", "out", "--force",
        ],
        before: &["adapt", DRAW[1], "A + B", "-n", "100", "--out", "out"],
        other: &[
            "adapt", DRAW[1], "B", "-n", "100", "--out", "out", "--force",
        ],
        out: "out",
    },
    Case {
        name: "mine",
        typed: &["mine", DRAW[1], "-n", "3000", "--out", "out"],
        before: &[],
        other: &["mine", DRAW[1], "-n", "3000", "--seed", "9", "--out", "out"],
        out: "out",
    },
    Case {
        name: "mine, more",
        typed: &["mine", DRAW[1], "-n", "3000", "--out", "out"],
        before: &["mine", DRAW[1], "-n", "1000", "--out", "out"],
        other: &["mine", DRAW[1], "-n", "2000", "--out", "out"],
        out: "out",
    },
    Case {
        name: "calibrate --out --force",
        typed: &[
            "calibrate",
            DRAW[1],
            "--data",
            "data.toml",
            "--unseen",
            "--generated",
            "1000",
            "--out",
            "out.s2m",
            "--force",
        ],
        before: &[
            "calibrate",
            DRAW[1],
            "--data",
            "data.toml",
            "--unseen",
            "--generated",
            "2000",
            "--out",
            "out.s2m",
        ],
        other: &[
            "calibrate",
            DRAW[1],
            "--data",
            "data.toml",
            "--unseen",
            "--generated",
            "3000",
            "--out",
            "out.s2m",
            "--force",
        ],
        out: "out.s2m",
    },
    Case {
        name: "calibrate in place",
        typed: &[
            "calibrate",
            "out.s2m",
            "--data",
            "data.toml",
            "--unseen",
            "--generated",
            "1000",
        ],
        before: &[
            "calibrate",
            DRAW[1],
            "--data",
            "data.toml",
            "--unseen",
            "--generated",
            "2000",
            "--out",
            "out.s2m",
        ],
        other: &[
            "calibrate",
            "out.s2m",
            "--data",
            "data.toml",
            "--unseen",
            "--generated",
            "3000",
        ],
        out: "out.s2m",
    },
    Case {
        name: "eval --html",
        typed: &[
            "eval",
            "--real",
            "real.npy",
            "--generated",
            "made.npy",
            "--metrics",
            "fid",
            "--html",
            "page.html",
        ],
        before: &[],
        other: &[
            "eval",
            "--real",
            "made.npy",
            "--generated",
            "made.npy",
            "--metrics",
            "fid",
            "--html",
            "page.html",
        ],
        out: "page.html",
    },
];

const RECIPE: &str = "name = \"gaussians\"\nseed = 0\nvalidation = 0.5\nlabelling = { model = \"per-class\" }\nsource = { format = \"gaussians\", items = 2000 }\n";

/// A folder with the same files.
pub(super) fn copy(of: &Path) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, bytes) in s2m_testkit::folder::contents(of, &[]) {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    root
}

impl Case {
    /// A folder with what the command reads and what was there before it.
    pub(super) fn prepare(&self) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("data.toml"), RECIPE).unwrap();
        for (name, by) in [("real.npy", 0.0), ("made.npy", 3.0)] {
            super::eval::write_line(&root.path().join(name), by);
        }
        if !self.before.is_empty() {
            let ran: Ran = program(root.path())
                .args(self.before)
                .output()
                .unwrap()
                .into();
            assert_eq!(ran.code, 0, "{}", ran.err);
        }
        root
    }

    pub(super) fn command(&self, folder: &Path) -> Command {
        let mut command = program(folder);
        command.args(self.typed);
        command
    }

    /// Whether this one replaces something.
    fn forces(&self) -> bool {
        self.typed.contains(&"--force")
    }
}

/// Everything in a folder but what differs from run to run.
pub(super) fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    s2m_testkit::folder::contents(folder, &["seconds"])
}

/// How a command ended that was typed again after a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// It went on and has the right bytes.
    Resumed,
    /// The fault came when all was done; typed again, it says that the folder holds files.
    Done,
}

/// Tries all faults of a command: how many ended in which way, at each step.
fn try_all(case: &Case) -> BTreeMap<&'static str, BTreeMap<(&'static str, End), usize>> {
    let start = case.prepare();
    let whole = copy(start.path());
    let old = case
        .forces()
        .then(|| contents(&whole.path().join(case.out)));
    let log = tempfile::NamedTempFile::new().unwrap();
    let taken = steps(&mut case.command(whole.path()), log.path());
    let wanted = contents(whole.path());
    let new = case
        .forces()
        .then(|| contents(&whole.path().join(case.out)));
    let mut ends: BTreeMap<_, BTreeMap<_, usize>> = BTreeMap::new();
    for (step, times) in taken {
        for fault in Fault::at(step, times) {
            let what = format!("{}: {fault:?}", case.name);
            let root = copy(start.path());
            let mut command = case.command(root.path());
            let struck: Ran = fault.strike(&mut command).output().unwrap().into();
            match fault.effect {
                Effect::Kill => assert_eq!(struck.code, -1, "{what}: it was not reached"),
                // One `error:` line, or nothing at all where the step does not matter.
                _ => assert!([0, 2].contains(&struck.code), "{what}: {}", struck.err),
            }
            if let (Some(old), Some(new)) = (&old, &new) {
                let at = |place: &str| {
                    let place = root.path().join(place);
                    if place.is_dir() {
                        contents(&place)
                    } else {
                        Vec::new()
                    }
                };
                let (out, aside) = (at(case.out), at(&format!("{}.partial/replaced", case.out)));
                let safe = out == *old || out == *new || out.is_empty() && aside == *old;
                assert!(safe, "{what}: the old folder is lost");
            }
            let again: Ran = case.command(root.path()).output().unwrap().into();
            let end = match again.code {
                0 => End::Resumed,
                _ => End::Done,
            };
            if end == End::Done {
                assert!(
                    again.err.contains("already holds files"),
                    "{what}: {}",
                    again.err
                );
                // What is left may be an empty folder, which the next run takes.
                let _ = fs::remove_dir(root.path().join(format!("{}.partial", case.out)));
            }
            let found = contents(root.path());
            let names = |files: &[(PathBuf, Vec<u8>)]| -> Vec<PathBuf> {
                files.iter().map(|(name, _)| name.clone()).collect()
            };
            assert_eq!(names(&found), names(&wanted), "{what}");
            assert!(found == wanted, "{what}: other bytes");
            let row = ends.entry(step.name()).or_default();
            *row.entry((fault.effect.name(), end)).or_default() += 1;
        }
    }
    ends
}

/// The table of `docs/faults.md`.
fn table() -> String {
    let tried: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = CASES
            .iter()
            .map(|case| scope.spawn(move || (case.name, try_all(case))))
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let mut text = String::new();
    for (name, rows) in tried {
        writeln!(text, "\n## {name}\n").unwrap();
        writeln!(
            text,
            "| step | killed | disk full | disk fails |\n|---|---|---|---|"
        )
        .unwrap();
        for step in Step::ALL {
            let Some(row) = rows.get(step.name()) else {
                continue;
            };
            let cell = |effect: Effect| {
                let of = row.iter().filter(|((name, _), _)| *name == effect.name());
                let words = of.map(|((_, end), count)| match end {
                    End::Resumed => format!("{count} resumed"),
                    End::Done => format!("{count} done"),
                });
                words.collect::<Vec<_>>().join(", ")
            };
            let cells = Effect::ALL.map(cell).join(" | ");
            writeln!(text, "| {} | {cells} |", step.name()).unwrap();
        }
    }
    text
}

const PAGE: &str = "# Faults

What happens when a command that writes is killed, or its disk is full or fails, at each step that publishes, deletes
or locks. The test `stopped_anywhere_and_typed_again_every_command_ends_with_the_same_bytes` makes this page; it fails
where the page is another one, and writes it where `S2M_WRITE_DOCS` is set.

*Resumed*: the same command, typed again, ended with the bytes of a run that nothing happened to, and left nothing else.
*Done*: the result was there and whole, and the command typed again says that the folder holds files. A step that a
command takes more than once is tried the first and the last time; killed before and after it.
";

#[test]
fn stopped_anywhere_and_typed_again_every_command_ends_with_the_same_bytes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/faults.md");
    let found = format!("{PAGE}{}", table());
    if std::env::var_os("S2M_WRITE_DOCS").is_some() {
        fs::write(&path, &found).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    assert!(found == kept, "docs/faults.md is another one:\n{found}");
}

/// After a kill in the middle of a finish, another request finds nothing in its way.
#[test]
fn another_request_after_a_kill_in_the_finish_is_not_hindered() {
    for case in CASES.iter().filter(|case| case.forces()) {
        let start = case.prepare();
        for step in [
            Step::FinishAnnounce,
            Step::FinishAside,
            Step::FinishPublish,
            Step::FinishClean,
        ] {
            for moment in ["before", "after"] {
                let root = copy(start.path());
                let fault = Fault {
                    moment,
                    step,
                    effect: Effect::Kill,
                    time: 1,
                };
                let mut command = case.command(root.path());
                fault.strike(&mut command).output().unwrap();
                let ran: Ran = program(root.path())
                    .args(case.other)
                    .output()
                    .unwrap()
                    .into();
                assert_eq!(ran.code, 0, "{} {fault:?}: {}", case.name, ran.err);
                let names = fs::read_dir(root.path()).unwrap();
                let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
                let left: Vec<String> = names
                    .filter(|name| name.contains("partial") || name.contains("lock"))
                    .collect();
                assert!(left.is_empty(), "{left:?}");
            }
        }
    }
}
