//! Every network's ONNX file against libtorch, and against itself broken.

use std::fs;
use std::path::Path;

use s2m_model::bundle::Bundle;
use s2m_train::export::{self, Input};
use s2m_train::networks::mlp::{End, Generator};
use s2m_train::parameters::Parameters;
use s2m_train::{classifier, noise, referee};
use tch::{Device, Tensor};
use tempfile::tempdir;

use crate::{
    OBJECTIVES, WGAN_GP, classifier_settings, machine, picture_settings, train_gan, write_pictures,
};

/// `train` itself refuses an export that is off by more than 1e-4; these must be far below.
const CLOSE: f64 = 1e-5;

fn difference(done: &Path) -> f64 {
    let done: serde_json::Value = serde_json::from_str(&fs::read_to_string(done).unwrap()).unwrap();
    done["largest_export_difference"].as_f64().unwrap()
}

#[test]
fn generators_of_all_objectives_agree_with_their_files() {
    let folder = tempdir().unwrap();
    write_pictures(folder.path());
    for (n, objective) in OBJECTIVES.iter().enumerate() {
        let out = folder.path().join(format!("gan{n}"));
        train_gan(
            &picture_settings(folder.path(), objective, "[0, 1]", 3),
            &out,
        );
        assert!(difference(&out.join("done.json")) < CLOSE, "{objective}");
        assert!(out.join("bars/seed-1/generator.onnx").is_file());
    }
}

#[test]
fn classifiers_of_all_fits_agree_with_their_files_and_make_bundles() {
    let folder = tempdir().unwrap();
    write_pictures(folder.path());
    for (n, objective) in OBJECTIVES[..2].iter().enumerate() {
        let gan = folder.path().join(format!("gan{n}"));
        train_gan(&picture_settings(folder.path(), objective, "[0]", 3), &gan);
        for fit in [
            "{ fit = \"shared\" }",
            "{ fit = \"frozen\", epochs = 1 }",
            "{ fit = \"smoothed\" }",
        ] {
            let extra = format!("real = {fit}\nnetwork = {{ kind = \"lenet5\" }}");
            let out = folder.path().join(format!("classifier{n}{}", fit.len()));
            classifier::train(&classifier_settings(&gan, &extra), &out, &machine()).unwrap();
            assert!(
                difference(&out.join("done.json")) < CLOSE,
                "{objective} {fit}"
            );
            let bundle = Bundle::open(&out.join("bars-seed-0.s2m")).unwrap();
            assert_eq!(bundle.classes().is_some(), n == 1);
            assert_eq!(bundle.manifest().provenance.seed, Some(0));
        }
    }
}

#[test]
fn a_referee_agrees_with_its_file_and_learns_the_bars() {
    let folder = tempdir().unwrap();
    write_pictures(folder.path());
    for (judges, output) in [("classes", "class_logits"), ("labels", "label_logits")] {
        let mut settings: s2m_runs::RefereeSettings = toml::from_str(&format!(
            r#"
            epochs = 10
            batch = 32
            judges = "{judges}"
            optimizer = {{ kind = "adam", learning-rate = 1e-3 }}
            [data]
            name = "bars"
            source = {{ format = "idx", folder = "." }}
            classes = [{{ name = "A", of = [0, 1] }}]
            labelling = {{ model = "one-of" }}
            "#
        ))
        .unwrap();
        settings.data = picture_settings(folder.path(), WGAN_GP, "[0]", 1)
            .data
            .remove(0);
        let out = folder.path().join(judges);
        referee::train(&settings, &out, &machine()).unwrap();
        assert!(difference(&out.join("done.json")) < CLOSE);
        let text = fs::read_to_string(out.join("referee.json")).unwrap();
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(found["test_accuracy"].as_f64(), Some(1.0), "{judges}");
        let bytes = fs::read(out.join("referee.onnx")).unwrap();
        let outputs = s2m_model::judge::outputs_of("referee.onnx", &bytes).unwrap();
        assert_eq!(outputs[0], (output.to_owned(), 2), "{outputs:?}");
        // What `s2m eval` reads beside a network whose answers are not classes.
        let beside = fs::read_to_string(out.join("referee.toml")).ok();
        let wanted = "classes = \"label_logits\"\nkind = \"each\"\nnames = [\"A\", \"B\"]\n";
        assert_eq!(beside.as_deref(), (judges == "labels").then_some(wanted));
    }
}

/// Colour pictures in CIFAR-10's form, each darker on the left.
fn write_colours(folder: &Path) {
    let names = (1..=5).map(|n| format!("data_batch_{n}.bin"));
    for name in names.chain(["test_batch.bin".to_owned()]) {
        let levels = |n: u8| (0..3072).map(move |at: u16| n * 16 + (at % 32) as u8);
        let record = |n: u8| std::iter::once(n % 2).chain(levels(n));
        let records: Vec<u8> = (0..8).flat_map(record).collect();
        fs::write(folder.join(name), records).unwrap();
    }
}

#[test]
fn colour_referees_of_all_networks_agree_with_their_files() {
    let folder = tempdir().unwrap();
    write_colours(folder.path());
    for (network, mirrored) in [
        ("kind = \"mobilenet-v2\"", false),
        ("kind = \"resnet9\"\nwidth = 8", true),
    ] {
        let settings: s2m_runs::RefereeSettings = toml::from_str(&format!(
            r#"
            epochs = 1
            batch = 16
            mirrored = {mirrored}
            optimizer = {{ kind = "sgd", learning-rate = 1e-2 }}
            [network]
            {network}
            [data]
            name = "greys"
            source = {{ format = "cifar10", folder = "{}" }}
            classes = [{{ name = "A", of = [0, 1] }}]
            labelling = {{ model = "one-of" }}
            validation = 0.2
            "#,
            folder.path().display()
        ))
        .unwrap();
        let out = folder.path().join(format!("referee{}", network.len()));
        referee::train(&settings, &out, &machine()).unwrap();
        assert!(difference(&out.join("done.json")) < CLOSE, "{network}");
        let text = fs::read_to_string(out.join("run.toml")).unwrap();
        assert!(text.contains(network), "{text}");
    }
}

/// Both trunks of a smoothed fit, for two replicas on grey pictures, with all that the guide's recipe has; its rate
/// is for longer trainings.
#[test]
fn resnets_agree_with_their_files() {
    let folder = tempdir().unwrap();
    write_pictures(folder.path());
    let gan = folder.path().join("gan");
    let settings = picture_settings(folder.path(), OBJECTIVES[1], "[0, 1]", 3);
    train_gan(&settings, &gan);
    let mut settings = classifier_settings(
        &gan,
        r#"
        network = { kind = "resnet9", width = 4 }
        augment = { flip = true, shift = 4, cutout = 10 }
        real = { fit = "smoothed" }
        "#,
    );
    settings.optimizer = toml::from_str(
        r#"
        kind = "sgd"
        learning-rate = 1e-3
        momentum = 0.9
        nesterov = true
        weight-decay = 5e-4
        schedule = "cosine"
        warm-up = 0.1
        "#,
    )
    .unwrap();
    let out = folder.path().join("classifier");
    classifier::train(&settings, &out, &machine()).unwrap();
    assert!(difference(&out.join("done.json")) < CLOSE);
    assert!(out.join("bars-seed-1.s2m/classifier.onnx").is_file());
}

#[test]
fn a_file_that_says_something_else_is_refused() {
    let generator = Generator::new(4, 0, &[8], 3, End::Linear);
    let weights = Parameters::new("generator", generator.mlp.specs(), &[1], Device::Cpu);
    let file = generator
        .onnx_by_class(&weights.replica(0).unwrap(), None, &[3])
        .unwrap();
    let z = noise::normal(&[5], 0, 20, Device::Cpu).view([1, 10, 4]);
    let x = generator.forward(weights.views(), &z, None).detach();
    let inputs = [Input {
        name: "z",
        rows: &z.squeeze_dim(0),
    }];
    let runtime = machine().runtime;
    assert!(export::check(&runtime, &file, &inputs, &[("x", &x)]).unwrap() < CLOSE);
    let off: Tensor = &x + 2e-4;
    let error = export::check(&runtime, &file, &inputs, &[("x", &off)]).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the exported file differs from libtorch by 2.0e-4"),
        "{error}"
    );
    let nan: Tensor = &x / 0.0 * 0.0;
    assert!(export::check(&runtime, &file, &inputs, &[("x", &nan)]).is_err());
}
