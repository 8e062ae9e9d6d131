//! Resuming, replicas, and what a run refuses.

use std::fs;
use std::path::Path;

use s2m_runs::parts::Precision;
use s2m_train::checkpoint::Checkpoint;
use s2m_train::networks::classifier::Trunk;
use s2m_train::{classifier, gan};
use tch::Device;
use tempfile::tempdir;

use crate::{
    OBJECTIVES, WGAN_GP, classifier_settings, gan_settings, machine, picture_settings, train_gan,
    write_pictures,
};

/// All files below a folder but what tells the time.
pub(crate) fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            if path.is_dir() {
                folders.push(path);
            } else if !["done.json", "checkpoint.safetensors", "run.toml"].contains(&name.as_str())
            {
                found.push((name, fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// Stops a run after `steps` by giving it so few, and puts its checkpoint where a longer run looks.
pub(crate) fn leave_unfinished(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for name in ["checkpoint.safetensors", "metrics.jsonl"] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

#[test]
fn a_resumed_run_ends_with_the_same_bytes() {
    for objective in OBJECTIVES {
        let folder = tempdir().unwrap();
        let [whole, part, resumed] = ["whole", "part", "resumed"].map(|n| folder.path().join(n));
        train_gan(&gan_settings(objective, "[3]", 25), &whole);
        train_gan(&gan_settings(objective, "[3]", 10), &part);
        leave_unfinished(&part, &resumed);
        train_gan(&gan_settings(objective, "[3]", 25), &resumed);
        assert_eq!(files(&resumed), files(&whole), "{objective}");
    }
}

#[test]
fn a_resumed_classifier_ends_with_the_same_bundle() {
    let folder = tempdir().unwrap();
    let gan = folder.path().join("gan");
    train_gan(&gan_settings(WGAN_GP, "[0]", 5), &gan);
    let settings = |epochs: u64, fit: &str| {
        let network = "network = { kind = \"mlp\", hidden = [16, 16] }";
        let mut settings = classifier_settings(&gan, &format!("real = {fit}\n{network}"));
        settings.epochs = epochs;
        settings
    };
    let cases = [
        (
            "shared",
            settings(2, "{ fit = \"shared\" }"),
            settings(1, "{ fit = \"shared\" }"),
        ),
        (
            "frozen",
            settings(1, "{ fit = \"frozen\", epochs = 2 }"),
            settings(1, "{ fit = \"frozen\", epochs = 1 }"),
        ),
    ];
    for (name, longer, shorter) in cases {
        let [whole, part, resumed] =
            ["whole", "part", "resumed"].map(|n| folder.path().join(format!("{name}-{n}")));
        classifier::train(&longer, &whole, &machine()).unwrap();
        classifier::train(&shorter, &part, &machine()).unwrap();
        leave_unfinished(&part, &resumed);
        classifier::train(&longer, &resumed, &machine()).unwrap();
        // The shorter run also logs its own last step, which the longer one does not.
        let without_log = |folder: &Path| {
            let mut files = files(folder);
            files.retain(|(name, _)| name != "metrics.jsonl");
            files
        };
        assert_eq!(without_log(&resumed), without_log(&whole), "{name}");
        assert_ne!(without_log(&part), without_log(&whole), "{name}");
    }
}

/// Products of many replicas are summed in another order than those of one, so the last bits differ;
/// ten steps leave differences of some 1e-6 where a wrong seed would leave 0.1.
#[test]
fn a_replica_is_the_same_alone_and_among_others() {
    for objective in OBJECTIVES {
        let folder = tempdir().unwrap();
        let [many, one] = ["many", "one"].map(|name| folder.path().join(name));
        train_gan(&gan_settings(objective, "[5, 6, 7]", 10), &many);
        train_gan(&gan_settings(objective, "[6]", 10), &one);
        let weights = |path: &Path| {
            let output =
                gan::objective(&gan_settings(objective, "[0]", 10), &loaded(), Device::Cpu)
                    .unwrap()
                    .outputs()
                    .swap_remove(0);
            Checkpoint::read(&path.join("generator.safetensors"))
                .unwrap()
                .finished("generator", output.network.specs(), Device::Cpu)
                .unwrap()
        };
        let (many, one) = (weights(&many), weights(&one));
        let difference = (many.flat().get(1) - one.flat().get(0))
            .abs()
            .max()
            .double_value(&[]);
        assert!(difference < 1e-5, "{objective}: {difference}");
        let other = (many.flat().get(0) - one.flat().get(0))
            .abs()
            .max()
            .double_value(&[]);
        assert!(other > 0.1, "replicas must differ: {other}");
    }
}

fn loaded() -> Vec<s2m_data::recipe::Loaded> {
    s2m_train::replica::load(&gan_settings(WGAN_GP, "[0]", 1).data).unwrap()
}

#[test]
fn classifiers_of_pictures_are_the_same_alone_and_among_others() {
    let folder = tempdir().unwrap();
    write_pictures(folder.path());
    let gan = folder.path().join("gan");
    train_gan(&picture_settings(folder.path(), WGAN_GP, "[0, 1]", 5), &gan);
    let one = folder.path().join("one");
    train_gan(&picture_settings(folder.path(), WGAN_GP, "[1]", 5), &one);
    let logits = |gan: &Path| {
        let settings = classifier_settings(gan, "network = { kind = \"lenet5\" }");
        let out = gan.join("classifier");
        classifier::train(&settings, &out, &machine()).unwrap();
        let text = fs::read_to_string(out.join("held-out.json")).unwrap();
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        let last = found.as_array().unwrap().last().unwrap().clone();
        last["found"]["class"]["nll_before"].as_f64().unwrap()
    };
    let difference = (logits(&gan) - logits(&one)).abs();
    assert!(difference < 1e-4, "{difference}");
}

#[test]
fn a_finished_run_is_left_alone_and_another_run_is_refused() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("gan");
    let settings = gan_settings(WGAN_GP, "[0]", 5);
    train_gan(&settings, &out);
    let before = fs::metadata(out.join("done.json"))
        .unwrap()
        .modified()
        .unwrap();
    train_gan(&settings, &out);
    assert_eq!(
        fs::metadata(out.join("done.json"))
            .unwrap()
            .modified()
            .unwrap(),
        before
    );
    let error = gan::train(&gan_settings(WGAN_GP, "[0]", 6), &out, &machine()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "`{}` holds a run with other settings\nhint: choose another --out, or remove that folder",
            out.display()
        )
    );
}

#[test]
fn a_training_that_breaks_names_the_step() {
    let folder = tempdir().unwrap();
    let mut settings = gan_settings(WGAN_GP, "[0]", 50);
    settings.optimizer = toml::from_str("kind = \"sgd\"\nlearning-rate = 30.0").unwrap();
    let error = gan::train(&settings, &folder.path().join("gan"), &machine()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("training of line/seed-0 broke at step "),
        "{text}"
    );
    assert!(text.contains("hint: lower the learning rate"), "{text}");
}

/// The program on a run file: its exit code and what it said.
fn program(settings: &impl serde::Serialize, folder: &Path) -> (Option<i32>, String) {
    let run_file = folder.join("run.toml");
    fs::write(&run_file, toml::to_string(settings).unwrap()).unwrap();
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_s2m-train"))
        .arg("gan")
        .arg(&run_file)
        .arg("--out")
        .arg(folder.join("gan"))
        .output()
        .unwrap();
    (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
}

/// It ran, and the answer is no: another exit code than where nothing could run.
#[test]
fn a_training_that_breaks_is_an_answer_and_not_a_failure_to_run() {
    let folder = tempdir().unwrap();
    let mut settings = gan_settings(WGAN_GP, "[0]", 50);
    settings.optimizer = toml::from_str("kind = \"sgd\"\nlearning-rate = 30.0").unwrap();
    let (code, said) = program(&settings, folder.path());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("broke at step "), "{said}");
}

/// Whoever started it holds its standard input; a caller that was killed holds it no longer.
#[test]
fn a_training_ends_when_its_caller_does() {
    let folder = tempdir().unwrap();
    let settings = gan_settings(WGAN_GP, "[0]", 1_000_000_000);
    let run_file = folder.path().join("run.toml");
    fs::write(&run_file, toml::to_string(&settings).unwrap()).unwrap();
    let out = folder.path().join("gan");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_s2m-train"))
        .args(["gan".as_ref(), run_file.as_os_str(), "--out".as_ref()])
        .args([out.as_os_str(), "--with-caller".as_ref()])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !out.join("run.toml").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(child.try_wait().unwrap(), None);
    }
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(2));
    drop(s2m_model::disk::Lock::beside(&out).unwrap());
}

#[test]
fn two_trainings_do_not_share_a_folder() {
    let folder = tempdir().unwrap();
    let _held = s2m_model::disk::Lock::beside(&folder.path().join("gan")).unwrap();
    let (code, said) = program(&gan_settings(WGAN_GP, "[0]", 5), folder.path());
    assert_eq!(code, Some(2));
    let named = format!("is in use by process {}", std::process::id());
    assert!(said.contains(&named), "{said}");
    assert!(!folder.path().join("gan").exists());
}

#[test]
fn a_damaged_checkpoint_is_a_clear_error() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("gan");
    train_gan(&gan_settings(WGAN_GP, "[0]", 10), &out);
    fs::remove_file(out.join("done.json")).unwrap();
    let file = out.join("checkpoint.safetensors");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let error = gan::train(&gan_settings(WGAN_GP, "[0]", 10), &out, &machine()).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("cannot be read\nhint: remove it to start again"),
        "{error}"
    );
}

#[test]
fn run_files_are_checked() {
    let bad = |from: &str, to: &str| {
        let text = toml::to_string(&gan_settings(WGAN_GP, "[0]", 5)).unwrap();
        assert!(text.contains(from), "{text}");
        let text = text.replace(from, to);
        match toml::from_str(&text) {
            Err(error) => error.to_string(),
            Ok(settings) => {
                let folder = tempdir().unwrap();
                gan::train(&settings, folder.path(), &machine())
                    .unwrap_err()
                    .to_string()
            }
        }
    };
    assert!(bad("batch = 32", "bach = 32").contains("unknown field `bach`"));
    assert!(bad("critic-steps = 2", "critic-stops = 2").contains("critic-stops"));
    assert!(bad("batch = 32", "batch = 0").contains("`batch` is 0"));
    assert!(bad("ema = 0.9", "ema = 1.5").contains("`ema` is 1.5"));
    assert!(bad("seeds = [0]", "seeds = []").contains("`seeds` must be"));
    assert!(bad("16", "0").contains("`network.hidden`"));
}

#[test]
fn precisions_and_widths_that_a_run_does_not_have_are_refused() {
    let folder = tempdir().unwrap();
    write_pictures(folder.path());
    let mut settings = picture_settings(folder.path(), WGAN_GP, "[0]", 3);
    let gan = folder.path().join("gan");
    gan::train(&settings, &gan, &machine()).unwrap();
    let refused = |extra: &str| {
        let settings = classifier_settings(&gan, extra);
        let out = folder.path().join("classifier");
        let error = classifier::train(&settings, &out, &machine()).unwrap_err();
        assert!(!out.join("run.toml").exists());
        error.to_string()
    };
    assert_eq!(
        refused("precision = \"bf16\"\nnetwork = { kind = \"resnet9\" }"),
        "`precision` is `bf16`: half-precision arithmetic is for CUDA devices, and this run is on the CPU\nhint: precision = \"float32\""
    );
    assert_eq!(
        refused("precision = \"bf16\"\nnetwork = { kind = \"lenet5\" }"),
        "`precision` is `bf16`, which `resnet9` and `mobilenet-v2` networks alone have\nhint: precision = \"tf32\""
    );
    assert_eq!(
        refused("network = { kind = \"resnet9\", width = 0 }"),
        "`network.width` is 0; it must be from 1 to 512"
    );
    settings.precision = Precision::Bf16;
    let error = gan::train(&settings, &folder.path().join("other"), &machine()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`precision` is `bf16`, which generators of fully connected layers do not have\nhint: precision = \"tf32\""
    );
}

#[test]
fn a_resnet_refuses_points() {
    let trunk = |network: &str| {
        Trunk::of(&toml::from_str(network).unwrap(), &loaded()[0])
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        trunk("kind = \"resnet9\""),
        "`resnet9` takes pictures of 1 or 3 channels and sides of at least 16, the data has shape [1]"
    );
}
