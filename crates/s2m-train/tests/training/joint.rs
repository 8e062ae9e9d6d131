//! Label sets learnt from single labels: what is learnt, what a bundle says, and that an interruption changes nothing.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use s2m_model::bundle::Bundle;
use s2m_runs::parts::{BETA1, BETA2, OptimizerSettings, Schedule};
use s2m_train::classifier;
use serde_json::Value;
use tempfile::tempdir;

use crate::runs::files;
use crate::{
    WGAN_GP, classifier_settings, gan_settings, machine, picture_settings, train_gan,
    write_pictures,
};

/// What a run says about its label sets.
fn report(out: &Path) -> Value {
    let text = fs::read_to_string(out.join("joint/joint.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Bars at the top carry A and B and show either, bars at the left carry A alone. Nobody can do better than to guess
/// the label of half of the pictures: a likelihood of half a bit, log 2 / 2.
#[test]
fn a_student_learns_label_sets_that_no_item_was_ever_shown_with() {
    let folder = tempdir().unwrap();
    let pictures = folder.path().join("idx");
    fs::create_dir_all(&pictures).unwrap();
    write_pictures(&pictures);
    let gan = folder.path().join("gan");
    train_gan(&picture_settings(&pictures, WGAN_GP, "[0]", 5), &gan);
    for fit in ["{ fit = \"frozen\", epochs = 1 }", "{ fit = \"shared\" }"] {
        let out = folder
            .path()
            .join(if fit.contains("frozen") { "a" } else { "b" });
        let extra = format!(
            "real = {fit}\nnetwork = {{ kind = \"lenet5\" }}\njoint = {{ rounds = 2, epochs = 25 }}\ncalibration = {{ generated = 1000 }}"
        );
        classifier::train(&classifier_settings(&gan, &extra), &out, &machine()).unwrap();
        let said = &report(&out)[0];
        let nll = said["student_nll"].as_f64().unwrap();
        let best = 2.0_f64.ln() / 2.0;
        assert!(nll < best + 0.1, "{nll} against {best}: {said}");
        assert_eq!(said["rounds"].as_array().unwrap().len(), 2);
        let bundle = Bundle::open(&out.join("bars-seed-0.s2m")).unwrap();
        let joint = bundle.manifest().classifier.joint.as_ref().unwrap();
        assert_eq!(joint.sets, ["10", "01", "11"]);
        assert_eq!(joint.members.len(), 3);
        let calibration = &bundle.manifest().calibration;
        assert!(calibration.ensemble.is_some(), "{calibration:?}");
        assert!(bundle.manifest().levels.is_some());
    }
}

/// At a rate at which nothing is learnt, students of the second round are those of the first; anew, they would differ.
#[test]
fn later_rounds_go_on_from_the_students_of_the_round_before() {
    let folder = tempdir().unwrap();
    let (gan, out) = (folder.path().join("gan"), folder.path().join("out"));
    train_gan(&gan_settings(WGAN_GP, "[0]", 5), &gan);
    let extra = "real = { fit = \"frozen\", epochs = 1 }\nnetwork = { kind = \"mlp\", hidden = [24] }\njoint = { rounds = 3, epochs = 3, powers = [1.0] }\ncalibration = { generated = 1000 }";
    let mut settings = classifier_settings(&gan, extra);
    settings.optimizer = OptimizerSettings::Adam {
        learning_rate: 1e-12,
        beta1: BETA1,
        beta2: BETA2,
        schedule: Schedule::Cosine,
        warm_up: 0.0,
    };
    classifier::train(&settings, &out, &machine()).unwrap();
    let said = &report(&out)[0];
    let rounds: Vec<f64> = serde_json::from_value(said["rounds"].clone()).unwrap();
    let student = said["student_nll"].as_f64().unwrap();
    assert_eq!(rounds.len(), 3, "{said}");
    for round in &rounds[1..] {
        assert!((round - rounds[0]).abs() < 1e-7, "{said}");
    }
    // The student of all items begins anew.
    assert!((student - rounds[0]).abs() > 1e-5, "{said}");
}

/// Two runs on one student: the second takes it as it is, and works out nothing again.
#[test]
fn the_next_variant_takes_what_the_first_has_learnt() {
    let folder = tempdir().unwrap();
    let gan = folder.path().join("gan");
    train_gan(&gan_settings(WGAN_GP, "[0]", 5), &gan);
    let learnt = folder.path().join("learnt");
    let extra = format!(
        "real = {{ fit = \"frozen\", epochs = 1 }}\nnetwork = {{ kind = \"mlp\", hidden = [24] }}\njoint = {{ rounds = 2, epochs = 6, folder = \"{}\" }}\ncalibration = {{ generated = 1000 }}",
        learnt.display()
    );
    let settings = classifier_settings(&gan, &extra);
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    classifier::train(&settings, &first, &machine()).unwrap();
    fs::remove_dir_all(learnt.join("class")).unwrap();
    classifier::train(&settings, &second, &machine()).unwrap();
    assert!(!learnt.join("class").exists());
    let networks = |out: &Path| {
        let mut files = files(out);
        files.retain(|(name, _)| name.ends_with("classifier.onnx"));
        files
    };
    assert!(!networks(&first).is_empty());
    assert!(networks(&first) == networks(&second));
}

/// Killed again and again, the run ends with the bytes of one that was left alone.
#[test]
fn interrupted_cross_fitting_ends_with_the_same_bytes() {
    let folder = tempdir().unwrap();
    let gan = folder.path().join("gan");
    train_gan(&gan_settings(WGAN_GP, "[0]", 5), &gan);
    let extra = "real = { fit = \"frozen\", epochs = 1 }\nnetwork = { kind = \"mlp\", hidden = [24, 24] }\njoint = { rounds = 3, epochs = 24 }\ncalibration = { generated = 1000 }";
    let settings = classifier_settings(&gan, extra);
    let [whole, killed] = ["whole", "killed"].map(|name| folder.path().join(name));
    let run_file = folder.path().join("run.toml");
    fs::write(&run_file, toml::to_string(&settings).unwrap()).unwrap();
    let start = |out: &Path| {
        Command::new(env!("CARGO_BIN_EXE_s2m-train"))
            .args([
                "classifier".as_ref(),
                run_file.as_os_str(),
                "--out".as_ref(),
                out.as_os_str(),
            ])
            // Sums of two threads may be rounded otherwise where other work takes their cores.
            .env("OMP_NUM_THREADS", "1")
            .env("MKL_NUM_THREADS", "1")
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    assert!(start(&whole).wait().unwrap().success());
    // Killed a moment after each of these trainings has begun, however fast the machine is.
    let mut kills = 0;
    for begun in [
        "class",
        "round-1-power-1.6",
        "round-2",
        "round-3",
        "student",
    ] {
        let mut child = start(&killed);
        let place = killed.join("joint").join(begun);
        while child.try_wait().unwrap().is_none() {
            if place.exists() {
                std::thread::sleep(Duration::from_millis(60));
                child.kill().unwrap();
                child.wait().unwrap();
                kills += 1;
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    assert!(
        kills >= 2,
        "the run ended after {kills} kills: nothing was shown"
    );
    assert!(start(&killed).wait().unwrap().success());
    let kept = |folder: &Path| {
        let mut files = files(folder);
        files.retain(|(name, _)| {
            // Logs of steps that were taken twice, files that a kill left, the time, and weights in files whose
            // header has no order; the networks of the bundle are these weights.
            ![
                ".safetensors",
                "metrics.jsonl",
                "done.json",
                ".tmp",
                "run.toml",
                "held-out.json",
            ]
            .iter()
            .any(|end| name.ends_with(end))
        });
        files
    };
    let (whole, killed) = (kept(&whole), kept(&killed));
    let names = |files: &[(String, Vec<u8>)]| -> Vec<String> {
        files.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&whole), names(&killed));
    for ((name, a), (_, b)) in whole.iter().zip(&killed) {
        assert!(a == b, "{name} differs after {kills} kills");
    }
}

#[test]
fn what_cannot_be_learnt_is_said_in_a_line() {
    let folder = tempdir().unwrap();
    let gan = folder.path().join("gan");
    train_gan(&gan_settings(WGAN_GP, "[0]", 5), &gan);
    let message = |joint: &str| {
        let extra = format!("network = {{ kind = \"mlp\", hidden = [8] }}\njoint = {joint}");
        let settings = classifier_settings(&gan, &extra);
        let out = folder.path().join("refused");
        let error = classifier::train(&settings, &out, &machine()).unwrap_err();
        assert!(!out.join("run.toml").exists());
        error.to_string()
    };
    assert_eq!(
        message("{ folds = 1 }"),
        "`joint.folds` is 1; it must be from 2 to 20"
    );
    assert_eq!(
        message("{ rounds = 0 }"),
        "`joint.rounds` is 0; it must be from 1 to 20"
    );
    assert_eq!(
        message("{ powers = [1.0, 0.0] }"),
        "`joint.powers` must list numbers from 0.25 to 8"
    );
    assert!(message("{ epochs = 0 }").contains("`joint.epochs` must be above 0"));
}

#[test]
fn one_label_has_nothing_joint_to_learn_and_needs_nothing_said() {
    let folder = tempdir().unwrap();
    let pictures = folder.path().join("idx");
    fs::create_dir_all(&pictures).unwrap();
    write_pictures(&pictures);
    let gan = folder.path().join("gan");
    let mut settings = picture_settings(&pictures, WGAN_GP, "[0]", 5);
    settings.data[0].classes.truncate(1);
    train_gan(&settings, &gan);
    let network = "network = { kind = \"lenet5\" }\ncalibration = { generated = 1000 }";
    let asked = classifier_settings(&gan, &format!("{network}\njoint = true"));
    let out = folder.path().join("asked");
    let error = classifier::train(&asked, &out, &machine()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is nothing joint to learn: the data has one label\nhint: leave `joint` out"
    );
    assert!(!out.join("run.toml").exists());
    let mut left_out = asked;
    left_out.joint = None;
    let out = folder.path().join("left-out");
    classifier::train(&left_out, &out, &machine()).unwrap();
    let bundle = Bundle::open(&out.join("bars-seed-0.s2m")).unwrap();
    assert!(bundle.manifest().classifier.joint.is_none());
}
