//! BigGAN on small colour pictures: resuming, exports, oracles, refusals, and a tiny training that learns colours.

use std::fs;
use std::path::Path;

use s2m_model::bundle::Bundle;
use s2m_runs::GanSettings;
use s2m_runs::gan::Form;
use s2m_runs::parts::Stored;
use s2m_train::checkpoint::Checkpoint;
use s2m_train::gan;
use s2m_train::{classifier, noise};
use tch::{Device, Kind, Tensor};
use tempfile::tempdir;

use crate::runs::{files, leave_unfinished};
use crate::{WGAN_GP, classifier_settings, machine, picture_settings, train_gan, write_pictures};

/// Pictures in CIFAR-10's form: reds (0), blues (1) and purples (2), brighter and darker, each with a darker half.
pub(crate) fn write_colours(folder: &Path) {
    let picture = |n: usize| {
        let level = |colour: usize, at: usize| {
            let on = [[1, 0, 0], [0, 0, 1], [1, 0, 1]][n % 3][colour];
            let half = if at % 32 < 16 { 1 } else { 2 };
            (40 + on * (120 + n * 7 % 80) / half) as u8
        };
        let pixels = (0..3).flat_map(|colour| (0..1024).map(move |at| level(colour, at)));
        [vec![(n % 3) as u8], pixels.collect()].concat()
    };
    let names = (1..=5).map(|n| format!("data_batch_{n}.bin"));
    for (part, name) in names.chain(["test_batch.bin".to_owned()]).enumerate() {
        let records: Vec<u8> = (0..24).flat_map(|n| picture(24 * part + n)).collect();
        fs::write(folder.join(name), records).unwrap();
    }
}

/// A run on them: A has the colour red, B blue, purples both.
pub(crate) fn colour_settings(folder: &Path, objective: &str, steps: u64) -> GanSettings {
    toml::from_str(&format!(
        r#"
        seeds = [0]
        steps = {steps}
        batch = 8
        ema = 0.9
        log-every = 2
        checkpoint-every = 4
        grid-every = 1000
        objective = {{ {objective} }}
        optimizer = {{ kind = "adam", learning-rate = 2e-4, beta1 = 0.5 }}
        network = {{ kind = "biggan", latent = 8, channels = 2, critic-channels = 4, shared = 4, attention = true }}
        [regularise]
        flip = true
        diff-augment = ["colour", "shift", "cutout"]
        consistency = 10.0
        lecam = {{ weight = 0.3, from = 1 }}
        [[data]]
        name = "colours"
        source = {{ format = "cifar10", folder = "{}" }}
        classes = [{{ name = "A", of = [0, 2] }}, {{ name = "B", of = [1, 2] }}]
        labelling = {{ model = "one-of" }}
        validation = 0.2
        "#,
        folder.display()
    ))
    .unwrap()
}

const HINGE: &str = "kind = 'hinge', critic-steps = 2";

/// All hinge objectives, as a run file states them.
const HINGES: [&str; 4] = [
    HINGE,
    "kind = 'hinge-projection', critic-steps = 2",
    "kind = 'hinge-ac-gan', critic-steps = 2, class-weight = 1.0",
    "kind = 'hinge-cp-gan', critic-steps = 2, class-weight = 1.0, posterior-weight = 0.4",
];

fn difference(done: &Path) -> f64 {
    let done: serde_json::Value = serde_json::from_str(&fs::read_to_string(done).unwrap()).unwrap();
    done["largest_export_difference"].as_f64().unwrap()
}

#[test]
fn a_resumed_run_ends_with_the_same_bytes() {
    let folder = tempdir().unwrap();
    write_colours(folder.path());
    for (n, objective) in HINGES.iter().enumerate() {
        let [whole, part, resumed] =
            ["whole", "part", "resumed"].map(|name| folder.path().join(format!("{name}{n}")));
        train_gan(&colour_settings(folder.path(), objective, 6), &whole);
        train_gan(&colour_settings(folder.path(), objective, 4), &part);
        leave_unfinished(&part, &resumed);
        train_gan(&colour_settings(folder.path(), objective, 6), &resumed);
        assert_eq!(files(&resumed), files(&whole), "{objective}");
        assert!(difference(&whole.join("done.json")) < 2e-5, "{objective}");
    }
}

#[test]
fn generators_of_single_labels_can_be_asked_for_joint_classes_and_oracles_are_shown_them() {
    let folder = tempdir().unwrap();
    write_colours(folder.path());
    let classes = |name: &str, objective: &str, oracle: bool| {
        let mut settings = colour_settings(folder.path(), objective, 1);
        settings.oracle = oracle;
        let out = folder.path().join(name);
        train_gan(&settings, &out);
        let text = fs::read_to_string(out.join("colours/seed-0/classes.json")).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let joint = r#""A - B", "B - A", "A + B""#;
    assert_eq!(
        classes("single", HINGES[1], false),
        format!(r#"{{ "generator": [ "A", "B" ], "generator-joint": [ {joint} ] }}"#)
    );
    assert_eq!(
        classes("posterior", HINGES[3], false),
        format!(r#"{{ "generator-joint": [ {joint} ] }}"#)
    );
    assert_eq!(
        classes("oracle", HINGES[2], true),
        format!(r#"{{ "generator": [ {joint} ] }}"#)
    );
    let text = fs::read_to_string(folder.path().join("oracle/colours/seed-0/generator.toml"));
    let entry: toml::Table = toml::from_str(&text.unwrap()).unwrap();
    let prior = entry["class"]["prior"].as_array().unwrap();
    let sum: f64 = prior.iter().filter_map(toml::Value::as_float).sum();
    assert!(prior.len() == 3 && (sum - 1.0).abs() < 1e-12, "{prior:?}");
    let out = folder.path().join("classifier");
    let refused = |gan: &str| {
        let settings = classifier_settings(
            &folder.path().join(gan),
            "network = { kind = \"resnet9\", width = 2 }",
        );
        classifier::train(&settings, &out, &machine())
            .unwrap_err()
            .to_string()
    };
    assert!(refused("oracle").starts_with("the GAN run is an oracle"));
    assert!(refused("posterior").contains("already decides which class is made"));
}

/// Unconditional and conditional generators end in bundles that hold the file of the run.
#[test]
fn classifiers_make_bundles_of_hinge_runs() {
    let folder = tempdir().unwrap();
    write_colours(folder.path());
    for (n, objective) in HINGES[..2].iter().enumerate() {
        let [gan, out] = ["gan", "classifier"].map(|name| folder.path().join(format!("{name}{n}")));
        train_gan(&colour_settings(folder.path(), objective, 2), &gan);
        let extra = "network = { kind = \"resnet9\", width = 2 }";
        classifier::train(&classifier_settings(&gan, extra), &out, &machine()).unwrap();
        let bundle = Bundle::open(&out.join("colours-seed-0.s2m")).unwrap();
        assert_eq!(bundle.classes().is_some(), n == 1);
        let [made, bundled] = [
            gan.join("colours/seed-0/generator.onnx"),
            out.join("colours-seed-0.s2m/generator.onnx"),
        ];
        assert_eq!(fs::read(made).unwrap(), fs::read(bundled).unwrap());
    }
}

/// Mean red, green and blue of generated pictures and their spread over pictures.
fn colours_of(settings: &GanSettings, out: &Path) -> [Tensor; 2] {
    let loaded = gan::load(settings).unwrap();
    let objective = gan::objective(settings, &loaded, Device::Cpu).unwrap();
    let mut output = objective.outputs().swap_remove(0);
    output.weights = Checkpoint::read(&out.join("generator.safetensors"))
        .unwrap()
        .finished("generator", output.network.specs(), Device::Cpu)
        .unwrap();
    let latent = output.network.latent();
    let z = noise::normal(&[77], 0, 128 * latent, Device::Cpu).view([1, 256, latent]);
    let classes = Tensor::zeros([1, 256], (Kind::Int64, Device::Cpu));
    spread(&output.items(&z, &classes).view([256, 3, 1024]))
}

fn spread(pictures: &Tensor) -> [Tensor; 2] {
    let means = pictures.mean_dim([2].as_slice(), false, Kind::Double);
    [
        means.mean_dim([0].as_slice(), false, Kind::Double),
        means.std_dim([0].as_slice(), true, false),
    ]
}

/// How far the colours of generated pictures are from those of the data, in mean and spread.
pub(crate) fn distance(settings: &GanSettings, out: &Path) -> f64 {
    let loaded = &gan::load(settings).unwrap()[0];
    let real = s2m_train::replica::scaled(&loaded.train.items);
    let [mean, sd] = spread(&Tensor::from_slice(&real).view([-1, 3, 1024]));
    let [own_mean, own_sd] = colours_of(settings, out);
    let far = (mean - own_mean).square() + (sd - own_sd).square();
    far.sum(Kind::Double).sqrt().double_value(&[])
}

/// Colours of the pictures are about (−0.1, −0.7, −0.1), spread by (0.4, 0, 0.4). The mean of three seeds: where one
/// training of so few steps ends differs from one processor's rounding to another's.
#[test]
fn a_tiny_training_comes_closer_to_the_colours_than_the_untrained_network() {
    let folder = tempdir().unwrap();
    write_colours(folder.path());
    let run = |steps, seed| {
        let mut settings = colour_settings(folder.path(), HINGE, steps);
        settings.seeds = vec![seed];
        settings.batch = 16;
        settings.regularise = None;
        settings.checkpoint_every = 10_000;
        settings.optimizer =
            toml::from_str("kind = \"adam\"\nlearning-rate = 2e-3\nbeta1 = 0.0").unwrap();
        settings.network =
            toml::from_str("kind = \"biggan\"\nlatent = 8\nchannels = 2\ncritic-channels = 4")
                .unwrap();
        let out = folder.path().join(format!("gan{steps}-{seed}"));
        train_gan(&settings, &out);
        distance(&settings, &out)
    };
    let mean = |steps| [0, 1, 2].map(|seed| run(steps, seed)).iter().sum::<f64>() / 3.0;
    let (untrained, trained) = (mean(1), mean(240));
    assert!(
        trained < 0.5 * untrained,
        "{trained} against {untrained} untrained"
    );
}

/// Grey digits too, from 7×7 pixels on; generators on the way are kept beside the finished one.
#[test]
fn digits_are_trained_by_the_same_rule_and_kept_on_the_way() {
    let folder = tempdir().unwrap();
    write_pictures(folder.path());
    let mut settings = colour_settings(folder.path(), HINGE, 4);
    settings.data = picture_settings(folder.path(), WGAN_GP, "[0]", 1).data;
    settings.network = toml::from_str(
        "kind = 'biggan'\nlatent = 9\nchannels = 2\ncritic-channels = 4\nattention = true",
    )
    .unwrap();
    settings.keep_every = Some(2);
    let out = folder.path().join("digits");
    gan::train(&settings, &out, &machine()).unwrap();
    assert!(difference(&out.join("done.json")) < 1e-4);
    let own = out.join(format!("{}/seed-0", settings.data[0].name));
    let read = |name: &str| fs::read(own.join(name)).unwrap();
    let [half, last] =
        ["00000002", "00000004"].map(|step| read(&format!("steps/{step}/generator.onnx")));
    assert_ne!(half, last);
    assert_eq!(last, read("generator.onnx"));
    settings.keep_every = Some(0);
    let refused = gan::train(&settings, &folder.path().join("none"), &machine());
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .starts_with("`keep-every` must be above 0")
    );
}

#[test]
fn what_biggan_has_no_rule_for_is_refused() {
    let folder = tempdir().unwrap();
    write_colours(folder.path());
    let refused = |change: &dyn Fn(&mut GanSettings)| {
        let mut settings = colour_settings(folder.path(), HINGE, 2);
        change(&mut settings);
        let out = folder.path().join("refused");
        let error = gan::train(&settings, &out, &machine()).unwrap_err();
        assert!(!out.join("run.toml").exists());
        error.to_string()
    };
    let pictures = tempdir().unwrap();
    write_pictures(pictures.path());
    let grey = picture_settings(pictures.path(), WGAN_GP, "[0]", 1);
    assert_eq!(
        refused(&|settings| settings.data.clone_from(&grey.data)),
        "`network.latent` is 8; pictures of 28 pixels take a multiple of 3, a part for the first layer and one for each block"
    );
    assert_eq!(
        refused(&|settings| settings.precision = s2m_runs::parts::Precision::Bf16),
        "`precision` is `bf16`: half-precision arithmetic is for CUDA devices, and this run is on the CPU\nhint: precision = \"float32\""
    );
    assert_eq!(
        refused(&|settings| settings.network = grey.network.clone()),
        "`regularise` is for hinge objectives, and `network` states no BigGAN\nhint: remove `regularise`"
    );
    assert_eq!(
        refused(&|settings| {
            settings.network = grey.network.clone();
            settings.regularise = None;
        }),
        "hinge objectives train BigGAN, and `network` states other layers\nhint: network = { kind = \"biggan\", latent = 80, channels = 64 }"
    );
    assert_eq!(
        refused(&|settings| settings.objective = grey.objective.clone()),
        "`network.kind` is `biggan`, which this objective does not train\nhint: objective = { kind = \"hinge\", critic-steps = 4 }"
    );
    assert_eq!(
        refused(&|settings| settings.oracle = true),
        "`oracle` shows joint classes, and this objective is shown none\nhint: `hinge-projection`, `hinge-ac-gan` or `hinge-cp-gan`"
    );
}

#[test]
fn a_checkpoint_of_other_widths_is_refused() {
    let folder = tempdir().unwrap();
    write_colours(folder.path());
    let [narrow, wide] = ["narrow", "wide"].map(|name| folder.path().join(name));
    let mut settings = colour_settings(folder.path(), HINGE, 4);
    train_gan(&settings, &narrow);
    leave_unfinished(&narrow, &wide);
    settings.network =
        toml::from_str("kind = \"biggan\"\nlatent = 8\nchannels = 3\ncritic-channels = 4").unwrap();
    settings.steps = 6;
    let error = gan::train(&settings, &wide, &machine()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor `generator.first.weight` of the checkpoint has shape [1, 128, 2] where the run file asks for [1, 192, 2]"
    );
}

/// Files of half the size whose pictures are close, and bundles that are read as if they had 32 bits.
#[test]
fn weights_stored_in_half_make_small_files_of_nearly_the_same_generator() {
    let folder = tempdir().unwrap();
    write_colours(folder.path());
    let size = |path: &Path| fs::metadata(path).unwrap().len() as f64;
    let mut settings = colour_settings(folder.path(), HINGE, 2);
    settings.network =
        toml::from_str("kind = \"biggan\"\nlatent = 8\nchannels = 8\ncritic-channels = 2").unwrap();
    let [full, small] = ["full", "small"].map(|name| folder.path().join(name));
    train_gan(&settings, &full);
    settings.stored = Stored::Half;
    train_gan(&settings, &small);
    let [one, other] = [&full, &small].map(|out| out.join("colours/seed-0/generator.onnx"));
    assert!(size(&other) < 0.6 * size(&one));
    let off = difference(&small.join("done.json"));
    assert!(off > 1e-6 && off < 5e-3, "{off}");
    let out = folder.path().join("classifier");
    let extra = "stored = \"half\"\nnetwork = { kind = \"resnet9\", width = 8 }";
    classifier::train(&classifier_settings(&small, extra), &out, &machine()).unwrap();
    let bundle = out.join("colours-seed-0.s2m");
    assert_eq!(
        fs::read(&other).unwrap(),
        fs::read(bundle.join("generator.onnx")).unwrap()
    );
    Bundle::open(&bundle).unwrap();
}

#[test]
fn a_small_checkpoint_goes_on_with_new_optimisers() {
    let folder = tempdir().unwrap();
    write_colours(folder.path());
    let settings = |steps, small| {
        let mut settings = colour_settings(folder.path(), HINGE, steps);
        if small {
            settings.checkpoint = Form {
                stored: Stored::Half,
                optimizer: false,
            };
        }
        settings
    };
    let [full, small, resumed] = ["full", "small", "resumed"].map(|name| folder.path().join(name));
    train_gan(&settings(4, false), &full);
    train_gan(&settings(4, true), &small);
    let size = |out: &Path| {
        let file = fs::metadata(out.join("checkpoint.safetensors")).unwrap();
        file.len() as f64
    };
    assert!(size(&small) < 0.3 * size(&full));
    leave_unfinished(&small, &resumed);
    train_gan(&settings(6, true), &resumed);
    let steps = fs::read_to_string(resumed.join("metrics.jsonl")).unwrap();
    assert_eq!(steps.lines().count(), 3, "{steps}");
    let mut refused = settings(4, true);
    refused.optimizer =
        toml::from_str("kind = \"adam\"\nlearning-rate = 1e-3\nschedule = \"cosine\"").unwrap();
    let error = gan::train(&refused, &folder.path().join("refused"), &machine()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("`checkpoint.optimizer` is false: an optimiser that starts again"),
        "{error}"
    );
}
