//! Flows on small colour images: resuming, bundles, refusals, and a tiny training that learns colours.

use std::fs;
use std::path::Path;

use s2m_model::bundle::Bundle;
use s2m_runs::GanSettings;
use s2m_train::{classifier, gan};
use tempfile::tempdir;

use crate::colour::{colour_settings, distance, write_colours};
use crate::runs::{files, leave_unfinished};
use crate::{classifier_settings, machine, train_gan};

const FLOW: &str = "kind = 'flow'";

/// A run with three steps from noise to an image.
fn flow_settings(folder: &Path, steps: u64) -> GanSettings {
    let mut settings = colour_settings(folder, FLOW, steps);
    settings.network = toml::from_str("kind = 'unet'\nchannels = 16\nsteps = 3").unwrap();
    settings.regularise = Some(toml::from_str("flip = true").unwrap());
    settings
}

#[test]
fn a_resumed_flow_ends_with_the_same_bytes() {
    let folder = tempdir().unwrap();
    write_colours(folder.path());
    let [whole, part, resumed] = ["whole", "part", "resumed"].map(|name| folder.path().join(name));
    train_gan(&flow_settings(folder.path(), 6), &whole);
    train_gan(&flow_settings(folder.path(), 4), &part);
    leave_unfinished(&part, &resumed);
    train_gan(&flow_settings(folder.path(), 6), &resumed);
    assert_eq!(files(&resumed), files(&whole));
}

/// The latent of a flow is as large as its image; classifiers, calibration and bundles take it like any other.
#[test]
fn classifiers_make_bundles_of_flows() {
    let folder = tempdir().unwrap();
    write_colours(folder.path());
    let [flow, out] = ["flow", "classifier"].map(|name| folder.path().join(name));
    train_gan(&flow_settings(folder.path(), 2), &flow);
    let extra = "network = { kind = \"resnet9\", width = 2 }\ncalibration = { generated = 1000 }";
    classifier::train(&classifier_settings(&flow, extra), &out, &machine()).unwrap();
    let bundle = Bundle::open(&out.join("colours-seed-0.s2m")).unwrap();
    assert!(bundle.classes().is_none());
    assert_eq!(bundle.manifest().generator.latents[0].shape, [3072]);
    let [made, bundled] = [
        flow.join("colours/seed-0/generator.onnx"),
        out.join("colours-seed-0.s2m/generator.onnx"),
    ];
    assert_eq!(fs::read(made).unwrap(), fs::read(bundled).unwrap());
}

/// An untrained flow leaves noise as it is, grey on the mean.
#[test]
fn a_tiny_flow_learns_the_colours() {
    let folder = tempdir().unwrap();
    write_colours(folder.path());
    let run = |steps| {
        let mut settings = flow_settings(folder.path(), steps);
        settings.batch = 8;
        settings.ema = 0.0;
        settings.regularise = None;
        settings.checkpoint_every = 10_000;
        settings.optimizer = toml::from_str("kind = \"adam\"\nlearning-rate = 3e-3").unwrap();
        let out = folder.path().join(format!("flow{steps}"));
        train_gan(&settings, &out);
        distance(&settings, &out)
    };
    let (untrained, trained) = (run(1), run(120));
    assert!(
        trained < 0.65 * untrained,
        "{trained} against {untrained} untrained"
    );
}

#[test]
fn what_a_flow_does_not_have_is_refused() {
    let folder = tempdir().unwrap();
    write_colours(folder.path());
    let refused = |change: &dyn Fn(&mut GanSettings)| {
        let mut settings = flow_settings(folder.path(), 2);
        change(&mut settings);
        let out = folder.path().join("refused");
        let error = gan::train(&settings, &out, &machine()).unwrap_err();
        assert!(!out.join("run.toml").exists());
        error.to_string()
    };
    let other = colour_settings(folder.path(), FLOW, 2);
    assert_eq!(
        refused(&|settings| settings.regularise.clone_from(&other.regularise)),
        "`regularise` has keys that are for critics, and a flow has none\nhint: regularise = { flip = true }"
    );
    assert_eq!(
        refused(&|settings| settings.critic_optimizer = Some(settings.optimizer)),
        "`critic-optimizer` is for critics, and this objective has none\nhint: remove it"
    );
    assert!(refused(&|settings| settings.oracle = true).starts_with("`oracle` shows"));
    assert_eq!(
        refused(&|settings| {
            settings.network = other.network.clone();
            settings.regularise = None;
        }),
        "`objective.kind` is `flow`, which trains a U-Net, and `network` states other layers\nhint: network = { kind = \"unet\", channels = 64 }"
    );
    assert_eq!(
        refused(&|settings| {
            settings.objective = toml::from_str("kind = 'hinge'\ncritic-steps = 1").unwrap();
        }),
        "hinge objectives train BigGAN, and `network` states other layers\nhint: network = { kind = \"biggan\", latent = 80, channels = 64 }"
    );
}
