//! Run files and checkpoints that were damaged at random: reading ends, with an error or with a value.
//!
//! `make fuzz` tries more of them.

use std::fs;
use std::path::Path;

use s2m_testkit::damage::survive;
use s2m_train::checkpoint::Checkpoint;
use s2m_train::classifier::ClassifierSettings;
use s2m_train::folder::RunFolder;
use s2m_train::gan::GanSettings;
use s2m_train::referee::RefereeSettings;
use serde::de::DeserializeOwned;
use tempfile::tempdir;

use crate::{OBJECTIVES, WGAN_GP, classifier_settings, gan_settings, train_gan};

fn parsed<T: DeserializeOwned>(folder: &Path, file: &str) -> Option<T> {
    let bytes = fs::read(folder.join(file)).unwrap();
    toml::from_str(str::from_utf8(&bytes).ok()?).ok()
}

#[test]
fn damaged_run_files() {
    let root = tempdir().unwrap();
    for (n, objective) in OBJECTIVES.iter().enumerate() {
        let file = format!("gan-{n}.toml");
        let text = toml::to_string(&gan_settings(objective, "[0, 1]", 25)).unwrap();
        fs::write(root.path().join(&file), text).unwrap();
        survive("run file", root.path(), &file, &|folder| {
            parsed::<GanSettings>(folder, &file).is_some_and(|run| run.check().is_ok())
        });
    }
    let run = classifier_settings(Path::new("gan"), "network = { kind = \"lenet5\" }");
    let text = toml::to_string(&run).unwrap();
    fs::write(root.path().join("classifier.toml"), text).unwrap();
    survive("run file", root.path(), "classifier.toml", &|folder| {
        parsed::<ClassifierSettings>(folder, "classifier.toml").is_some()
    });
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    fs::copy(
        own.join("six-labels/referee-mnist.toml"),
        root.path().join("referee.toml"),
    )
    .unwrap();
    survive("run file", root.path(), "referee.toml", &|folder| {
        parsed::<RefereeSettings>(folder, "referee.toml").is_some()
    });
}

/// What a run has left and the next one reads: the checkpoint, and the resolved run file.
#[test]
fn damaged_runs() {
    let root = tempdir().unwrap();
    let out = root.path().join("gan");
    train_gan(&gan_settings(WGAN_GP, "[0]", 5), &out);
    for file in ["checkpoint.safetensors", "generator.safetensors"] {
        survive("checkpoint", &out, file, &|folder| {
            Checkpoint::read(&folder.join(file)).is_ok()
        });
    }
    survive("run", &out, "run.toml", &|folder| {
        let run = RunFolder::finished_run(folder).unwrap();
        run.settings::<GanSettings>().is_ok()
    });
}
