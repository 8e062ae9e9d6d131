//! Whole runs on the CPU: resuming, replicas, exports, and a tiny training from data to samples.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod backbones;
mod colour;
mod end_to_end;
mod exports;
mod faults;
mod fitting;
mod flow;
mod joint;
mod mutations;
mod runs;

use std::fs;
use std::path::Path;

use s2m_runs::ClassifierSettings;
use s2m_runs::GanSettings;
use s2m_train::device::{DeviceChoice, Machine};
use s2m_train::gan;

/// The CPU, with the ONNX Runtime that `make` fetched.
fn machine() -> Machine {
    Machine::open(DeviceChoice::Cpu, None).unwrap()
}

/// A run on the one-dimensional example with small networks.
fn gan_settings(objective: &str, seeds: &str, steps: u64) -> GanSettings {
    toml::from_str(&format!(
        r#"
        seeds = {seeds}
        steps = {steps}
        batch = 32
        ema = 0.9
        log-every = 5
        checkpoint-every = 10
        grid-every = 1000
        objective = {objective}
        optimizer = {{ kind = "adam", learning-rate = 1e-3, beta1 = 0.5, beta2 = 0.999 }}
        network = {{ latent = 3, hidden = [16, 16] }}
        [[data]]
        name = "line"
        source = {{ format = "illustration", items = 2000 }}
        labelling = {{ model = "one-of" }}
        "#
    ))
    .unwrap()
}

const WGAN_GP: &str = r#"{ kind = "wgan-gp", critic-steps = 2, penalty = 10.0 }"#;

/// All objectives, as a run file states them.
const OBJECTIVES: [&str; 5] = [
    WGAN_GP,
    r#"{ kind = "conditional", critic-steps = 2, penalty = 10.0 }"#,
    r#"{ kind = "cp-gan", critic-steps = 1, penalty = 10.0, class-weight = 1.0, posterior-weight = 0.4 }"#,
    r#"{ kind = "rumi-lsgan", critic-steps = 2, generated = -0.5, wanted = 2.0, avoided = -2.0, target = 2.0, wanted-weight = 2.5, avoided-weight = 0.5 }"#,
    r#"{ kind = "gen-pu", critic-steps = 1, positive-weight = 1.0, unlabelled-weight = 1.0, negative-weight = 10.0, positive-share = 0.5 }"#,
];

/// A run without label sets, unless it says otherwise.
fn classifier_settings(gan: &Path, extra: &str) -> ClassifierSettings {
    let extra = if extra.contains("joint =") {
        extra.to_owned()
    } else {
        format!("joint = false\n{extra}")
    };
    toml::from_str(&format!(
        r#"
        gan = "{}"
        epochs = 1
        batch = 64
        log-every = 5
        checkpoint-every = 7
        optimizer = {{ kind = "adam", learning-rate = 1e-3 }}
        {extra}
        "#,
        gan.display()
    ))
    .unwrap()
}

fn train_gan(settings: &GanSettings, out: &Path) {
    gan::train(settings, out, &machine()).unwrap();
}

/// A folder in MNIST's form: 28×28 pictures of two kinds, a bar at the top (1) or at the left (0).
fn write_pictures(folder: &Path) {
    let picture = |n: usize| {
        let mut pixels = vec![0_u8; 784];
        for k in 0..28 {
            let shift = n / 2 % 9;
            let at = if n % 2 == 1 {
                shift * 28 + k
            } else {
                k * 28 + shift
            };
            pixels[at] = 200 + (n % 50) as u8;
        }
        pixels
    };
    for (part, count) in [("train", 400_usize), ("t10k", 100)] {
        let size = (count as u32).to_be_bytes();
        let mut images = [&[0, 0, 8, 3][..], &size, &[0, 0, 0, 28], &[0, 0, 0, 28]].concat();
        let mut labels = [&[0, 0, 8, 1][..], &size].concat();
        for n in 0..count {
            images.extend(picture(n));
            labels.push((n % 2) as u8);
        }
        fs::write(folder.join(format!("{part}-images-idx3-ubyte")), images).unwrap();
        fs::write(folder.join(format!("{part}-labels-idx1-ubyte")), labels).unwrap();
    }
}

/// A run on such pictures: A is every picture, B the bars at the top.
fn picture_settings(folder: &Path, objective: &str, seeds: &str, steps: u64) -> GanSettings {
    let mut settings = gan_settings(objective, seeds, steps);
    settings.data = vec![
        toml::from_str(&format!(
            r#"
            name = "bars"
            source = {{ format = "idx", folder = "{}" }}
            classes = [{{ name = "A", of = [0, 1] }}, {{ name = "B", of = [1] }}]
            labelling = {{ model = "one-of" }}
            validation = 0.2
            "#,
            folder.display()
        ))
        .unwrap(),
    ];
    settings
}
