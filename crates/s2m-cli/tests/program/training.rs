//! `s2m train` and `s2m reproduce`: what is said where nothing can be trained, and what is written.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Ran, run};

/// The program in a folder of its own, where no `s2m-train` lies beside it or on the path.
fn alone(folder: &Path) -> Command {
    let own = folder.join("bin/s2m");
    fs::create_dir_all(folder.join("bin")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_s2m"), &own).unwrap();
    let mut command = Command::new(own);
    command.current_dir(folder).env("PATH", "/nowhere");
    command
}

const TRAIN: [&str; 5] = ["train", "gan", "gan.toml", "--out", "out"];

#[test]
fn without_the_second_executable_the_cure_is_named() {
    let root = tempfile::tempdir().unwrap();
    let ran: Ran = alone(root.path()).args(TRAIN).output().unwrap().into();
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert_eq!(
        ran.err,
        "error: `s2m-train` was not found beside `s2m` or on PATH\nhint: `make train` builds it\n"
    );
}

#[test]
fn without_libtorch_the_folder_that_was_named_is_named() {
    let root = tempfile::tempdir().unwrap();
    let mut command = alone(root.path());
    fs::write(root.path().join("bin/s2m-train"), "").unwrap();
    let ran: Ran = command
        .args(TRAIN)
        .args(["--libtorch", "torch"])
        .output()
        .unwrap()
        .into();
    assert_eq!(ran.code, 2);
    assert_eq!(
        ran.err,
        "error: no libtorch in `torch`, named by --libtorch: there is no `lib/libtorch_cpu.so` and no `torch/lib/libtorch_cpu.so`\n"
    );
}

/// The program stands in for the second executable: it does not know `gan`, says so and ends with 2.
#[test]
fn a_trainer_that_cannot_run_speaks_for_itself() {
    let root = tempfile::tempdir().unwrap();
    let mut command = alone(root.path());
    fs::copy(env!("CARGO_BIN_EXE_s2m"), root.path().join("bin/s2m-train")).unwrap();
    let library = root.path().join("site/torch/lib/libtorch_cpu.so");
    fs::create_dir_all(library.parent().unwrap()).unwrap();
    fs::write(library, "").unwrap();
    let ran: Ran = command
        .args(TRAIN)
        .env("LIBTORCH", root.path().join("site"))
        .output()
        .unwrap()
        .into();
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(
        ran.err.contains("unrecognized subcommand 'gan'"),
        "{}",
        ran.err
    );
    assert!(
        ran.err.ends_with(
            "error: `s2m-train gan` could not run (exit status: 2); what it said is above\n"
        ),
        "{}",
        ran.err
    );
}

#[test]
fn experiments_that_cannot_run_say_why_and_write_nothing() {
    let root = tempfile::tempdir().unwrap();
    let data = "hint: pass --data DIR, a folder with `mnist` and `fashion-mnist` (idx files, plain or gzip), and `cifar10` (its binary version) for colour";
    let cases: [(&[&str], String); 3] = [
        (
            &["table2"],
            "error: unknown experiment `table2`\nhint: the experiments are gaussians, illustration, table1, …"
                .to_owned(),
        ),
        (
            &["table1", "--evaluate-only"],
            format!("error: this experiment needs images\n{data}"),
        ),
        (
            &["table1", "--data", "nowhere", "--evaluate-only"],
            format!("error: there is no folder `mnist` in `nowhere`\n{data}"),
        ),
    ];
    for (arguments, expected) in cases {
        let ran = run(root.path(), &[&["reproduce"], arguments].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}");
        match expected.strip_suffix('…') {
            Some(beginning) => assert!(ran.err.starts_with(beginning), "{}", ran.err),
            None => assert_eq!(ran.err.trim_end(), expected),
        }
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn what_is_not_trained_is_named_as_missing() {
    let root = tempfile::tempdir().unwrap();
    let arguments = [
        "reproduce",
        "illustration",
        "--evaluate-only",
        "--seeds",
        "1,2",
    ];
    let ran = run(root.path(), &arguments);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("GAN alone"), "{}", ran.out);
    assert!(ran.out.contains("1, 2 missing"), "{}", ran.out);
    assert!(
        ran.err
            .starts_with("missing: GAN alone, seed 1, 2: not trained\n"),
        "{}",
        ran.err
    );
    assert!(
        ran.err
            .ends_with("results: experiments/illustration/RESULTS.md\n"),
        "{}",
        ran.err
    );
    // The run files are there, to be trained elsewhere.
    assert!(root.path().join("runs/illustration/cp-gan.toml").exists());
}
