//! From data to samples in seconds: a generator, a classifier and a query on the one-dimensional
//! example, whose truth is known.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use s2m::output::Existing;
use s2m::sample::{Request, Wanted, sample};
use s2m::session::Machine;
use s2m::settings::SampleSettings;
use s2m_train::classifier;
use tempfile::tempdir;

use crate::{WGAN_GP, classifier_settings, gan_settings, machine, train_gan};

const SAMPLES: usize = 1000;

/// Trains a bundle with so many generator steps and draws `A - B` from it: the share of samples that
/// lie nearest to A's own mode, at −3. No samples at all count as none right.
fn accuracy(folder: &Path, steps: u64) -> f64 {
    let [gan, networks, out] =
        ["gan", "classifier", "samples"].map(|n| folder.join(format!("{n}-{steps}")));
    let mut settings = gan_settings(WGAN_GP, "[0]", steps);
    settings.batch = 128;
    settings.network = toml::from_str("latent = 3\nhidden = [64, 64]").unwrap();
    settings.checkpoint_every = 10_000;
    settings.objective =
        toml::from_str("kind = \"wgan-gp\"\ncritic-steps = 2\npenalty = 0.1").unwrap();
    settings.optimizer =
        toml::from_str("kind = \"adam\"\nlearning-rate = 5e-4\nbeta1 = 0.5").unwrap();
    train_gan(&settings, &gan);
    let mut settings = classifier_settings(&gan, "network = { kind = \"mlp\", hidden = [32, 32] }");
    settings.epochs = 20;
    // A purity that asks the classifier for all that it knows: this is about training.
    settings.calibration.purity = 0.995;
    classifier::train(&settings, &networks, &machine()).unwrap();
    let request = Request {
        model: &networks.join("line-seed-0.s2m"),
        wanted: Wanted::Query("A - B"),
        samples: NonZeroUsize::new(SAMPLES).unwrap(),
        settings: SampleSettings::default(),
        machine: Machine::default(),
        bank: None,
        proposal: None,
        out: &out,
        existing: Existing::Keep,
    };
    if sample(&request, &s2m::progress::Silent).unwrap()[0].is_err() {
        return 0.0;
    }
    let bytes = fs::read(out.join("samples.npy")).unwrap();
    let right = bytes[bytes.len() - 4 * SAMPLES..]
        .chunks_exact(4)
        .filter(|four| f32::from_le_bytes((*four).try_into().unwrap()) < -1.5)
        .count();
    right as f64 / SAMPLES as f64
}

/// A perfect generator and classifier give 1; the generator without S2M would give 1/3.
#[test]
fn a_tiny_training_beats_the_untrained_networks_by_far() {
    let folder = tempdir().unwrap();
    let untrained = accuracy(folder.path(), 1);
    let trained = accuracy(folder.path(), 2500);
    assert!(trained > 0.9, "{trained}");
    assert!(
        trained > untrained + 0.4,
        "{trained} against {untrained} untrained"
    );
}
