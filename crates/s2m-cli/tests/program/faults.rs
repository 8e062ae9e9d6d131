//! Every command that writes, stopped at every step that publishes, deletes or locks: typed again, it
//! ends with the bytes of a run that nothing happened to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use s2m_model::disk::step::Step;
use s2m_testkit::exact;
use s2m_testkit::faults::{Effect, End, Ends, Fault, steps};

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
pub(super) const CASES: [Case; 15] = [
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
        name: "bank join",
        typed: &["bank", "join", "pieces", "--out", "out"],
        before: &[
            "mine", DRAW[1], "-n", "3000", "--part", "1024", "--out", "pieces",
        ],
        other: &["bank", "join", "pieces", "--out", "out", "--force"],
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
    Case {
        name: "fit",
        typed: &[FIT[0], FIT[1], FIT[2], FIT[3], FIT[4], "--out", "out.s2m"],
        before: &[],
        other: &[
            FIT[0], FIT[1], FIT[2], FIT[3], FIT[4], "--seed", "1", "--out", "out.s2m",
        ],
        out: "out.s2m",
    },
    Case {
        name: "fit --force",
        typed: &[
            FIT[0], FIT[1], FIT[2], FIT[3], FIT[4], "--out", "out.s2m", "--force",
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
            FIT[0], FIT[1], FIT[2], FIT[3], FIT[4], "--out", "out.s2m", "--force", "--seed", "1",
        ],
        out: "out.s2m",
    },
    Case {
        name: "reproduce --evaluate-only",
        typed: &[
            "reproduce",
            "illustration",
            "--evaluate-only",
            "--seeds",
            "1",
        ],
        before: &[],
        other: &[],
        out: "experiments",
    },
];

const FIT: [&str; 5] = [
    "fit",
    "--generator=generator.onnx",
    "--data",
    "data.toml",
    "--real=shared",
];

/// The program in a folder where a trainer lies beside it that writes exact networks, whatever it is asked.
///
/// The folder is under the program's own, from where ONNX Runtime is found as ever.
fn with_toy_trainer() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let own = Path::new(env!("CARGO_BIN_EXE_s2m"));
        let folder = own.parent().unwrap().join("with-toy-trainer");
        let library = folder.join("torch/lib/libtorch_cpu.so");
        fs::create_dir_all(library.parent().unwrap()).unwrap();
        fs::write(library, "").unwrap();
        let program = folder.join("s2m");
        let _ = fs::remove_file(&program);
        fs::hard_link(own, &program).unwrap();
        let bundle = folder.join("toy.s2m");
        let _ = fs::remove_dir_all(&bundle);
        s2m_model::bundle::write(&bundle, &exact::gaussians_exact()).unwrap();
        // The folder of the training is the fourth argument.
        let script = "#!/bin/sh\nset -eu\nmkdir -p \"$4\"\nfor seed in 0 1; do\n    made=$4/gaussians-seed-$seed.s2m\n    [ -d \"$made\" ] || cp -r \"$(dirname \"$0\")/toy.s2m\" \"$made\"\ndone\n";
        let trainer = folder.join("s2m-train");
        fs::write(&trainer, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&trainer, mode).unwrap();
        program
    })
}

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
        let generator = &exact::gaussians_exact()[1];
        fs::write(root.path().join(&generator.0), &generator.1).unwrap();
        for (name, by) in [("real.npy", 0.0), ("made.npy", 3.0)] {
            super::eval::write_line(&root.path().join(name), by);
        }
        if !self.before.is_empty() {
            let ran = Self::run(root.path(), self.before);
            assert_eq!(ran.code, 0, "{}", ran.err);
        }
        root
    }

    pub(super) fn command(&self, folder: &Path) -> Command {
        Self::program(folder, self.typed)
    }

    /// Runs the program as this command needs it, with other arguments.
    pub(super) fn run(folder: &Path, arguments: &[&str]) -> Ran {
        Self::program(folder, arguments).output().unwrap().into()
    }

    fn program(folder: &Path, arguments: &[&str]) -> Command {
        let mut command = program(folder);
        if arguments[0] == FIT[0] {
            let own = with_toy_trainer();
            command = Command::new(own);
            command.current_dir(folder);
            command.env("LIBTORCH", own.with_file_name("torch"));
        }
        command.args(arguments);
        command
    }

    /// Whether it takes a lock: files that are whole each by itself need none.
    pub(super) fn locks(&self) -> bool {
        !self.other.is_empty()
    }

    /// Whether it can be tried hundreds of times: a fit calibrates for a second.
    pub(super) fn is_quick(&self) -> bool {
        self.typed[0] != FIT[0]
    }

    /// Whether this one replaces something.
    pub(super) fn forces(&self) -> bool {
        self.typed.contains(&"--force")
    }
}

/// Everything in a folder but what differs from run to run, and where the folder is.
pub(super) fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = s2m_testkit::folder::contents(folder, &["seconds"]);
    let own = folder.display().to_string();
    for (name, bytes) in &mut files {
        if name.extension().is_some_and(|ending| ending == "toml") {
            let text = String::from_utf8_lossy(bytes);
            *bytes = text.replace(&own, "FOLDER").into_bytes();
        }
    }
    files
}

/// Tries all faults of a command: how many ended in which way, at each step.
fn try_all(case: &Case) -> Ends {
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
    let mut ends = Ends::default();
    for (step, times) in taken {
        let faults = if case.is_quick() {
            Fault::at(step, times)
        } else {
            let few = Fault::few_at(step, times).into_iter();
            // What is replaced matters to a kill; a full disk is tried without it.
            few.filter(|fault| !case.forces() || fault.effect == Effect::Kill)
                .collect()
        };
        for fault in faults {
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
            ends.add(fault, end);
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
    tried
        .iter()
        .map(|(name, ends)| ends.section(name))
        .collect()
}

const PAGE: &str = "# Faults

What happens when a command that writes is killed, or its disk is full or fails, at each step that publishes, deletes
or locks. The test `stopped_anywhere_and_typed_again_every_command_ends_with_the_same_bytes` makes this page; it fails
where the page is another one, and writes it where `S2M_WRITE_DOCS` is set.

*Resumed*: the same command, typed again, ended with the bytes of a run that nothing happened to, and left nothing else.
*Done*: the result was there and whole, and the command typed again says that the folder holds files. A step that a
command takes more than once is tried the first and the last time; killed before and after it. Of `fit` and `train`,
which take longer, fewer faults are tried: a full disk the first time, and a kill after the last.
";

/// Where the part of the page begins that the tests of `s2m-train` make.
const TRAINING: &str = "\n## train";

#[test]
fn stopped_anywhere_and_typed_again_every_command_ends_with_the_same_bytes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/faults.md");
    let found = format!("{PAGE}{}", table());
    if std::env::var_os("S2M_WRITE_DOCS").is_some() {
        let kept = fs::read_to_string(&path).unwrap();
        let others = kept.find(TRAINING).map_or("", |start| &kept[start..]);
        fs::write(&path, format!("{found}{others}")).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    let own = kept.find(TRAINING).map_or(&*kept, |end| &kept[..end]);
    assert!(found == own, "docs/faults.md is another one:\n{found}");
}

/// After a kill in the middle of a finish, another request finds nothing in its way.
#[test]
fn another_request_after_a_kill_in_the_finish_is_not_hindered() {
    for case in CASES.iter().filter(|case| case.forces() && case.is_quick()) {
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
                let ran = Case::run(root.path(), case.other);
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
