//! The trainer, stopped at its steps that publish, delete or lock, and met by a second one.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use s2m_model::disk::step::Step;
use s2m_testkit::faults::{Effect, End, Ends, Fault, Gate, steps};
use tempfile::tempdir;

use crate::{WGAN_GP, gan_settings};

/// A training in a folder; its run file is written there.
fn command(folder: &Path) -> Command {
    let settings = gan_settings(WGAN_GP, "[0]", 25);
    let text = toml::to_string(&settings).unwrap();
    fs::write(folder.join("gan.toml"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_s2m-train"));
    command
        .current_dir(folder)
        .args(["gan", "gan.toml", "--out", "gan"]);
    command
}

/// What a training leaves, without files of weights, whose headers have no order: the networks are these
/// weights.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = crate::runs::files(folder);
    files.retain(|(name, _)| !name.ends_with(".safetensors") && !name.ends_with("done.json"));
    files
}

/// The section of `docs/faults.md` about a training.
fn section() -> String {
    let whole = tempdir().unwrap();
    let outside = tempdir().unwrap();
    let taken = steps(&mut command(whole.path()), &outside.path().join("log"));
    let wanted = files(whole.path());
    let mut ends = Ends::default();
    for (step, times) in taken {
        for fault in Fault::few_at(step, times) {
            let root = tempdir().unwrap();
            let struck = fault.strike(&mut command(root.path())).output().unwrap();
            let code = struck.status.code();
            match fault.effect {
                Effect::Kill => assert_eq!(code, None, "{fault:?}: it was not reached"),
                _ => assert!([Some(0), Some(2)].contains(&code), "{fault:?}: {code:?}"),
            }
            let again = command(root.path()).output().unwrap();
            let said = String::from_utf8_lossy(&again.stderr);
            assert!(again.status.success(), "{fault:?}: {said}");
            assert!(files(root.path()) == wanted, "{fault:?}: other bytes");
            let finished = root.path().join("gan/done.json").is_file();
            assert!(finished, "{fault:?}: it is not finished");
            ends.add(fault, End::Resumed);
        }
    }
    ends.section("train gan")
}

#[test]
fn a_training_that_is_stopped_anywhere_ends_with_the_same_bytes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/faults.md");
    let found = section();
    let page = fs::read_to_string(&path).unwrap();
    let start = page.find("\n## train").unwrap_or(page.len());
    if std::env::var_os("S2M_WRITE_DOCS").is_some() {
        fs::write(&path, format!("{}{found}", &page[..start])).unwrap();
        return;
    }
    assert!(
        page[start..] == found,
        "docs/faults.md is another one:\n{found}"
    );
}

#[test]
fn a_second_training_changes_nothing_and_names_the_first() {
    let (alone, root) = (tempdir().unwrap(), tempdir().unwrap());
    assert!(command(alone.path()).output().unwrap().status.success());
    let outside = tempdir().unwrap();
    let gate = Gate::new(outside.path());
    let mut first = command(root.path());
    let first = gate
        .hold(&mut first, Step::FilePublish, 1)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    gate.wait();
    let before = files(root.path());
    let second = command(root.path()).output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(2), "{said}");
    let named = format!("is in use by process {}", first.id());
    assert!(said.contains(&named), "{said}");
    assert!(files(root.path()) == before, "something was changed");
    gate.open();
    assert!(first.wait_with_output().unwrap().status.success());
    assert!(files(root.path()) == files(alone.path()));
}
