//! Run files and checkpoints that were damaged at random: reading ends, with an error or with a value.
//!
//! `make fuzz` tries more of them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use s2m_runs::ClassifierSettings;
use s2m_runs::GanSettings;
use s2m_runs::RefereeSettings;
use s2m_testkit::damage::survive;
use s2m_train::checkpoint::Checkpoint;
use s2m_train::folder::{RunFolder, read_run_file};
use s2m_train::gan;
use serde::de::DeserializeOwned;
use tch::Device;
use tempfile::tempdir;

use crate::{OBJECTIVES, WGAN_GP, classifier_settings, gan_settings, train_gan};

fn parsed<T: DeserializeOwned>(folder: &Path, file: &str) -> Option<T> {
    let bytes = fs::read(folder.join(file)).unwrap();
    toml::from_str(str::from_utf8(&bytes).ok()?).ok()
}

/// All of a training but its steps: data and networks are made.
fn begins(run: &GanSettings) -> Result<()> {
    run.check()?;
    gan::objective(run, &gan::load(run)?, Device::Cpu)?;
    Ok(())
}

#[test]
fn damaged_run_files() {
    let root = tempdir().unwrap();
    for (n, objective) in OBJECTIVES.iter().enumerate() {
        let file = format!("gan-{n}.toml");
        let text = toml::to_string(&gan_settings(objective, "[0, 1]", 25)).unwrap();
        fs::write(root.path().join(&file), text).unwrap();
        survive("run file", root.path(), &file, &|folder| {
            parsed::<GanSettings>(folder, &file).is_some_and(|run| begins(&run).is_ok())
        });
    }
    let run = classifier_settings(Path::new("gan"), "network = { kind = \"lenet5\" }");
    let text = toml::to_string(&run).unwrap();
    fs::write(root.path().join("classifier.toml"), text).unwrap();
    survive("run file", root.path(), "classifier.toml", &|folder| {
        let run = parsed::<ClassifierSettings>(folder, "classifier.toml");
        run.is_some_and(|run| run.check().is_ok())
    });
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    fs::copy(
        own.join("six-labels/referee-mnist.toml"),
        root.path().join("referee.toml"),
    )
    .unwrap();
    survive("run file", root.path(), "referee.toml", &|folder| {
        let run = parsed::<RefereeSettings>(folder, "referee.toml");
        run.is_some_and(|run| run.check().is_ok())
    });
}

/// What a run has left and the next one reads: the checkpoint, and the resolved run file.
#[test]
fn damaged_runs() {
    let root = tempdir().unwrap();
    let out = root.path().join("gan");
    train_gan(&gan_settings(WGAN_GP, "[0]", 5), &out);
    for file in ["checkpoint.safetensors", "generator.safetensors"] {
        let sound = Checkpoint::read(&out.join(file)).unwrap();
        survive("checkpoint", &out, file, &|folder| {
            let read = Checkpoint::read(&folder.join(file));
            // What can be read is what was written.
            if let Ok(read) = &read {
                assert!(read.holds(&sound), "other numbers");
            }
            read.is_ok()
        });
    }
    survive("run", &out, "run.toml", &|folder| {
        let run = RunFolder::finished_run(folder).unwrap();
        run.settings::<GanSettings>().is_ok()
    });
}

/// Of every byte of a checkpoint one bit in turn: an error, or what was written.
#[test]
fn a_flipped_bit_in_a_checkpoint_is_noticed() {
    let root = tempdir().unwrap();
    let out = root.path().join("gan");
    train_gan(&gan_settings(WGAN_GP, "[0]", 5), &out);
    let file = out.join("checkpoint.safetensors");
    let (sound, bytes) = (Checkpoint::read(&file).unwrap(), fs::read(&file).unwrap());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&file, damaged).unwrap();
        if let Ok(read) = Checkpoint::read(&file) {
            assert!(read.holds(&sound), "byte {at}");
        }
    }
    // Files from before there were checksums say nothing about theirs, and are read.
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = str::from_utf8(&bytes[8..8 + length]).unwrap();
    let start = header.find("\"crc32\"").unwrap();
    let end = start + header[start..].find(',').unwrap() + 1;
    let gap = " ".repeat(end - start);
    let old = header.replace(&header[start..end], &gap);
    fs::write(
        &file,
        [&bytes[..8], old.as_bytes(), &bytes[8 + length..]].concat(),
    )
    .unwrap();
    assert!(Checkpoint::read(&file).unwrap().holds(&sound));
}

#[test]
fn a_pipe_is_no_run_file() {
    let root = tempdir().unwrap();
    let pipe = root.path().join("run.toml");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let error = read_run_file::<GanSettings>(&pipe).unwrap_err();
    assert!(
        format!("{error:#}").ends_with("it is not a plain file"),
        "{error:#}"
    );
}
