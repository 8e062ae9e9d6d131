//! Two commands for one place at the same time: the second changes nothing and names the first.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use s2m_model::disk::step::Step;
use s2m_testkit::faults::{Gate, steps};

use super::faults::{CASES, Case, contents, copy};
use super::{Ran, program, run};

fn start(command: &mut Command) -> Child {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Where a command is held: while its result takes shape, and right before it appears.
const GATES: [Step; 5] = [
    Step::OutputWrite,
    Step::FinishPublish,
    Step::JournalAppend,
    Step::FileWrite,
    Step::FilePublish,
];

/// Starts a case in a folder like `start`, holds it, runs the second command, and lets it go on to its
/// end, which is as in `alone`.
fn meet(case: &Case, start_at: &Path, alone: &Path, gate_at: Step, second: &[&str]) {
    let root = copy(start_at);
    let outside = tempfile::tempdir().unwrap();
    let gate = Gate::new(outside.path());
    let mut command = case.command(root.path());
    let first = start(gate.hold(&mut command, gate_at, 1));
    gate.wait();
    let before = contents(root.path());
    let ran = Case::run(root.path(), second);
    let what = format!("{} at {gate_at:?}", case.name);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{what}: {}", ran.err);
    let named = format!("is in use by process {}\n", first.id());
    assert!(ran.err.contains(&named), "{what}: {}", ran.err);
    assert!(
        contents(root.path()) == before,
        "{what}: something was changed"
    );
    gate.open();
    let ended: Ran = first.wait_with_output().unwrap().into();
    assert_eq!(ended.code, 0, "{what}: {}", ended.err);
    assert!(contents(root.path()) == contents(alone), "{what}");
}

#[test]
fn a_second_command_changes_nothing_and_names_the_first() {
    let mut met = 0;
    let slow = |case: &Case| case.forces() && !case.is_quick();
    for case in CASES.iter().filter(|case| case.locks() && !slow(case)) {
        let before = case.prepare();
        let alone = copy(before.path());
        let outside = tempfile::tempdir().unwrap();
        let taken = steps(&mut case.command(alone.path()), &outside.path().join("log"));
        for gate in GATES
            .into_iter()
            .filter(|gate| taken.iter().any(|(step, _)| step == gate))
        {
            for second in [case.typed, case.other] {
                meet(case, before.path(), alone.path(), gate, second);
                met += 1;
            }
        }
    }
    println!("{met} pairs of commands met");
    assert!(met > 40, "{met}");
}

/// Two of them write the same files, each of them whole: both end, with the bytes of one.
#[test]
fn commands_without_a_lock_do_not_harm_each_other() {
    for case in CASES.iter().filter(|case| !case.locks()) {
        let start_at = case.prepare();
        let alone = copy(start_at.path());
        assert_eq!(Case::run(alone.path(), case.typed).code, 0);
        for gate_at in [Step::FileWrite, Step::FilePublish] {
            let root = copy(start_at.path());
            let outside = tempfile::tempdir().unwrap();
            let gate = Gate::new(outside.path());
            let mut command = case.command(root.path());
            let first = start(gate.hold(&mut command, gate_at, 1));
            gate.wait();
            let second = Case::run(root.path(), case.typed);
            assert_eq!(second.code, 0, "{}", second.err);
            gate.open();
            let ended: Ran = first.wait_with_output().unwrap().into();
            assert_eq!(ended.code, 0, "{}", ended.err);
            assert!(
                contents(root.path()) == contents(alone.path()),
                "{gate_at:?}"
            );
        }
    }
}

/// Both are about to begin a bank; the seed of the one that holds the lock is what it gets.
#[test]
fn two_first_banks_with_different_seeds_do_not_mix() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let mine = |seed| {
        [
            "mine",
            "gaussians-exact",
            "-n",
            "2000",
            "--seed",
            seed,
            "--out",
            "bank",
        ]
    };
    let gate = Gate::new(outside.path());
    let mut command = program(root.path());
    command.args(mine("1"));
    // Past its first look at the empty folder, and not yet in possession of the lock.
    let first = start(gate.hold(&mut command, Step::LockOpen, 1));
    gate.wait();
    assert_eq!(run(root.path(), &mine("2")).code, 0);
    gate.open();
    let ended: Ran = first.wait_with_output().unwrap().into();
    assert_eq!(ended.code, 2);
    assert!(
        ended.err.contains("was mined with seed 2, not 1"),
        "{}",
        ended.err
    );
    let text = fs::read_to_string(root.path().join("bank/bank.toml")).unwrap();
    assert!(text.contains("seed = 2"), "{text}");
}
