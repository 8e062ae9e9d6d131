//! Heads on networks from elsewhere, labels added to a finished bundle, and balanced draws.

use std::fs;
use std::path::{Path, PathBuf};

use s2m_data::recipe::{DataRecipe, Loaded};
use s2m_model::backbone::{Backbone, Wanted};
use s2m_model::bundle::Bundle;
use s2m_model::judge::Judge;
use s2m_model::networks::RunSettings;
use s2m_runs::ClassifierSettings;
use s2m_runs::Way;
use s2m_train::checkpoint::Checkpoint;
use s2m_train::classifier;
use s2m_train::gan;
use s2m_train::networks::classifier::{Classifier, Trunk};
use s2m_train::networks::given::Given;
use s2m_train::replica::scaled;
use tch::{Device, Tensor};
use tempfile::tempdir;

use crate::runs::{files, leave_unfinished};
use crate::{OBJECTIVES, WGAN_GP, classifier_settings, gan_settings, machine, train_gan};

/// A folder in MNIST's form with 28×28 pictures of three kinds: a bar at the left (0), at the top (1), or a diagonal (2).
fn write_three_kinds(folder: &Path) {
    let picture = |n: usize| {
        let mut pixels = vec![0_u8; 784];
        let shift = n / 3 % 9;
        for k in 0..28 {
            let at = [k * 28 + shift, shift * 28 + k, k * 28 + (k + shift) % 28];
            pixels[at[n % 3]] = 200 + (n % 50) as u8;
        }
        pixels
    };
    for (part, count) in [("train", 600_usize), ("t10k", 90)] {
        let size = (count as u32).to_be_bytes();
        let mut images = [&[0, 0, 8, 3][..], &size, &[0, 0, 0, 28], &[0, 0, 0, 28]].concat();
        let mut labels = [&[0, 0, 8, 1][..], &size].concat();
        for n in 0..count {
            images.extend(picture(n));
            labels.push((n % 3) as u8);
        }
        fs::write(folder.join(format!("{part}-images-idx3-ubyte")), images).unwrap();
        fs::write(folder.join(format!("{part}-labels-idx1-ubyte")), labels).unwrap();
    }
}

/// These pictures with the first kinds as labels.
fn kinds(folder: &Path, count: usize) -> DataRecipe {
    let classes = [
        "{ name = \"left\", of = [0] }",
        "{ name = \"top\", of = [1] }",
        "{ name = \"diagonal\", of = [2] }",
    ];
    let text = format!(
        "name = \"bars\"\nsource = {{ format = \"idx\", folder = \"{}\" }}\nclasses = [{}]\nlabelling = {{ model = \"one-of\" }}\nvalidation = 0.2\n",
        folder.display(),
        classes[..count].join(", ")
    );
    toml::from_str(&text).unwrap()
}

/// A classifier of a generator from elsewhere on a network from elsewhere.
fn own(generator: &Path, data: DataRecipe, network: &str, extra: &str) -> ClassifierSettings {
    let mut settings: ClassifierSettings = toml::from_str(&format!(
        r#"
        epochs = 40
        batch = 64
        optimizer = {{ kind = "adam", learning-rate = 1e-3 }}
        network = {network}
        generator = {{ file = "{}", items = 400, seed = 5 }}
        {extra}
        "#,
        generator.display()
    ))
    .unwrap();
    settings.data = Some(data);
    settings
}

/// An ONNX network of a run file, as text.
fn onnx(file: &Path, more: &str) -> String {
    format!("{{ kind = \"onnx\", file = \"{}\"{more} }}", file.display())
}

/// What a classifier's file says about the validation items: class logits and real logits.
fn answers(bundle: &Path, data: &Loaded) -> [Vec<f32>; 2] {
    let judge = Judge::open(
        &bundle.join("classifier.onnx"),
        &["class_logits", "real_logit"],
        &machine().runtime,
        &RunSettings::default(),
    )
    .unwrap();
    let shown: Vec<u32> = data.validation_positives.iter().map(|p| p.item).collect();
    let answers = judge.judge(&scaled(&data.train.items.select(&shown)));
    answers.unwrap().try_into().unwrap()
}

/// Largest difference of two lists.
fn apart(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}

#[test]
fn a_label_that_is_added_later_stands_on_the_trunk_of_the_bundle() {
    let folder = tempdir().unwrap();
    write_three_kinds(folder.path());
    let [first, gan, later] = ["first", "gan", "later"].map(|name| folder.path().join(name));
    let mut two = gan_settings(WGAN_GP, "[0]", 20);
    two.data = vec![kinds(folder.path(), 2)];
    train_gan(&two, &gan);
    let mut two = classifier_settings(&gan, "network = { kind = \"lenet5\" }");
    two.epochs = 10;
    classifier::train(&two, &first, &machine()).unwrap();
    let trunk = first.join("bars-seed-0.s2m/classifier.onnx");

    let recipe = kinds(folder.path(), 3);
    let data = recipe.load().unwrap();
    let mut settings = own(
        &gan.join("bars/seed-0/generator.toml"),
        recipe,
        &onnx(&trunk, ", features = \"features\""),
        "",
    );
    settings.epochs = 100;
    classifier::train(&settings, &later, &machine()).unwrap();
    let out = later.join("bars-seed-5.s2m");
    let bundle = Bundle::open(&out).unwrap();
    assert_eq!(bundle.manifest().labels, ["left", "top", "diagonal"]);
    let recipe = &bundle.manifest().provenance.recipe;
    assert!(recipe.contains("file = \"classifier.onnx\""), "{recipe}");
    assert!(
        !recipe.contains(&folder.path().display().to_string()),
        "{recipe}"
    );

    let [class, real] = answers(&out, &data);
    let right = class.chunks_exact(3).zip(&data.validation_positives);
    let right = right.filter(|(row, shown)| {
        let best = (0..3).max_by(|&a, &b| row[a].total_cmp(&row[b]));
        best == Some(usize::from(shown.label))
    });
    let accuracy = right.count() as f64 / data.validation_positives.len() as f64;
    assert!(accuracy > 0.95, "{accuracy}");

    // The same by hand: features out of the first bundle, heads out of the second run's checkpoint.
    let item = gan::item_entry(&data, "x", false).format();
    let wanted = Wanted {
        features: Some("features"),
        item: &item,
        range: None,
    };
    let backbone =
        Backbone::open(&trunk, &wanted, &machine().runtime, &RunSettings::default()).unwrap();
    let shown: Vec<u32> = data.validation_positives.iter().map(|p| p.item).collect();
    let features = backbone.features(&scaled(&data.train.items.select(&shown)), |item| item);
    let size = backbone.size() as i64;
    let features = Tensor::from_slice(&features.unwrap()).view([-1, size]);
    let heads = Classifier {
        trunk: Trunk::Given(Given { size }),
        classes: 3,
        conditional: false,
        fit: Way::Shared,
    };
    let checkpoint = Checkpoint::read(&later.join("checkpoint.safetensors")).unwrap();
    let saved = |name, specs| checkpoint.finished(name, specs, Device::Cpu).unwrap();
    let (classes, others) = (
        saved("class", heads.class_specs()),
        saved("others", heads.other_specs()),
    );
    let [mean, factor, weight, bias] = classes.views() else {
        panic!("four parts of the class head");
    };
    let rows = (features - mean) * factor;
    let by_hand = rows.matmul(&weight.get(0).tr()) + bias;
    assert!(apart(&Vec::try_from(by_hand.detach().view(-1)).unwrap(), &class) < 1e-5);
    let by_hand = rows.matmul(&others.views()[0].get(0).tr()) + &others.views()[1];
    assert!(apart(&Vec::try_from(by_hand.detach().view(-1)).unwrap(), &real) < 1e-5);
}

/// The bundle of a short run of points, with a trunk to stand on.
fn points_bundle(folder: &Path, objective: &str) -> (PathBuf, PathBuf) {
    let [gan, first] = ["gan", "first"].map(|name| folder.join(name));
    train_gan(&gan_settings(objective, "[0, 1]", 5), &gan);
    let network = "network = { kind = \"mlp\", hidden = [16, 16] }";
    classifier::train(&classifier_settings(&gan, network), &first, &machine()).unwrap();
    (gan, first.join("line-seed-0.s2m/classifier.onnx"))
}

/// Heads on generators of a GAN run and on one of them from its file, with and without classes.
#[test]
fn resumed_heads_end_with_the_same_bundles() {
    let frozen = |epochs: u64| (1, format!("{{ fit = \"frozen\", epochs = {epochs} }}"));
    let shared = |epochs: u64| (epochs, "{ fit = \"shared\" }".to_owned());
    for (objective, [shorter, longer]) in [
        (OBJECTIVES[0], [frozen(1), frozen(2)]),
        (OBJECTIVES[1], [shared(1), shared(2)]),
    ] {
        let folder = tempdir().unwrap();
        let (gan, file) = points_bundle(folder.path(), objective);
        let network = onnx(&file, ", features = \"features\"");
        let settings = |(epochs, fit): &(u64, String)| {
            let extra = format!("real = {fit}\nbalance = true\nnetwork = {network}");
            let mut settings = classifier_settings(&gan, &extra);
            settings.epochs = *epochs;
            settings
        };
        let [whole, part, resumed, own_file] =
            ["whole", "part", "resumed", "own"].map(|name| folder.path().join(name));
        classifier::train(&settings(&longer), &whole, &machine()).unwrap();
        classifier::train(&settings(&shorter), &part, &machine()).unwrap();
        leave_unfinished(&part, &resumed);
        classifier::train(&settings(&longer), &resumed, &machine()).unwrap();
        let without_log = |folder: &Path| {
            let mut files = files(folder);
            files.retain(|(name, _)| name != "metrics.jsonl");
            files
        };
        assert_eq!(without_log(&resumed), without_log(&whole), "{objective}");
        assert_ne!(without_log(&part), without_log(&whole), "{objective}");
        let data = gan_settings(objective, "[0]", 5).data.remove(0);
        let mut from_file = own(&gan.join("line/seed-0/generator.toml"), data, &network, "");
        from_file.epochs = 1;
        classifier::train(&from_file, &own_file, &machine()).unwrap();
        let bundles = [
            "whole/line-seed-0.s2m",
            "whole/line-seed-1.s2m",
            "own/line-seed-5.s2m",
        ];
        for bundle in bundles {
            let bundle = Bundle::open(&folder.path().join(bundle)).unwrap();
            assert_eq!(bundle.classes().is_some(), objective == OBJECTIVES[1]);
        }
        // Another network under the same name is found out.
        let other = folder.path().join("first/line-seed-1.s2m/classifier.onnx");
        fs::copy(other, &file).unwrap();
        fs::remove_dir_all(&resumed).unwrap();
        leave_unfinished(&part, &resumed);
        let error = classifier::train(&settings(&longer), &resumed, &machine()).unwrap_err();
        assert!(
            error.to_string().contains("another network's features"),
            "{error}"
        );
    }
}

/// Items and statistics of a replica are its own.
#[test]
fn heads_are_the_same_alone_and_among_others() {
    let folder = tempdir().unwrap();
    let (many, file) = points_bundle(folder.path(), WGAN_GP);
    let one = folder.path().join("one");
    train_gan(&gan_settings(WGAN_GP, "[1]", 5), &one);
    let network = onnx(&file, ", features = \"features\"");
    let heads = Classifier {
        trunk: Trunk::Given(Given { size: 16 }),
        classes: 2,
        conditional: false,
        fit: Way::Shared,
    };
    let weights = |gan: &Path, replica: usize| {
        let out = gan.join("heads");
        let settings = classifier_settings(gan, &format!("network = {network}"));
        classifier::train(&settings, &out, &machine()).unwrap();
        let checkpoint = Checkpoint::read(&out.join("checkpoint.safetensors")).unwrap();
        let groups = [
            ("class", heads.class_specs()),
            ("others", heads.other_specs()),
        ];
        let group = |(name, specs)| {
            let all = checkpoint.finished(name, specs, Device::Cpu).unwrap();
            all.replica(replica).unwrap().into_values()
        };
        let parts = groups.into_iter().flat_map(group);
        parts.flat_map(|(_, values)| values).collect::<Vec<f32>>()
    };
    let alone = weights(&one, 0);
    let [same, other] = [1, 0].map(|replica| apart(&alone, &weights(&many, replica)));
    assert!(same < 1e-3, "{same}");
    assert!(other > 0.1, "{other}");
}

#[test]
fn what_a_frozen_network_cannot_do_is_said() {
    let folder = tempdir().unwrap();
    let (gan, file) = points_bundle(folder.path(), WGAN_GP);
    let message = |network: &str, extra: &str| {
        let settings = classifier_settings(&gan, &format!("network = {network}\n{extra}"));
        let out = folder.path().join("refused");
        let error = classifier::train(&settings, &out, &machine()).unwrap_err();
        format!("{error:#}")
    };
    let network = onnx(&file, ", features = \"features\"");
    assert_eq!(
        message(&network, "augment = { flip = true }"),
        "`augment` cannot be used with an `onnx` network, which sees every item once, before training\nhint: remove `augment`"
    );
    assert_eq!(
        message(&network, "real = { fit = \"smoothed\" }"),
        "`smoothed` trains a trunk of its own, and an `onnx` network is not trained\nhint: use `shared` or `frozen`"
    );
    let ranged = onnx(&file, ", features = \"features\", range = [0, 1]");
    assert!(message(&ranged, "").starts_with("`network.range` is for pictures"));
    let which = message(&onnx(&file, ""), "");
    assert!(
        which.contains("it has 2 outputs, `class_logits`, `real_logit`"),
        "{which}"
    );
    let none = message(&onnx(&folder.path().join("none.onnx"), ""), "");
    assert!(none.starts_with("`network`: could not read"), "{none}");
}

/// An array of NumPy.
fn write_npy(path: &Path, kind: &str, shape: &str, values: &[u8]) {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    while (header.len() + 11) % 64 > 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = (header.len() as u16).to_le_bytes();
    let start = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes()].concat();
    fs::write(path, [&start, values].concat()).unwrap();
}

/// Points at −1 and at 1 only, so that the shares of the labels at each are the best answer. Label A is rare, most of all
/// at 1.
#[test]
fn balanced_training_speaks_of_the_data_as_it_is() {
    let folder = tempdir().unwrap();
    let [items, truth, gan, out] =
        ["items.npy", "truth.npy", "gan", "out"].map(|name| folder.path().join(name));
    let count = 4000;
    let points = (0..count).flat_map(|n| [-1.0_f32, 1.0][n % 2].to_le_bytes());
    write_npy(
        &items,
        "<f4",
        &format!("({count}, 1)"),
        &points.collect::<Vec<u8>>(),
    );
    let kinds = (0..count).map(|n| u8::from(n / 2 % [5, 50][n % 2] != 0));
    write_npy(
        &truth,
        "|u1",
        &format!("({count},)"),
        &kinds.collect::<Vec<u8>>(),
    );
    let mut settings = gan_settings(WGAN_GP, "[0]", 5);
    let recipe = format!(
        "name = \"ends\"\nsource = {{ format = \"arrays\", items = \"{}\", truth = \"{}\", test = 0.1 }}\nclasses = [{{ name = \"A\", of = [0] }}, {{ name = \"B\", of = [1] }}]\nlabelling = {{ model = \"one-of\" }}\n",
        items.display(),
        truth.display()
    );
    settings.data = vec![toml::from_str(&recipe).unwrap()];
    train_gan(&settings, &gan);
    let network = "balance = true\nnetwork = { kind = \"mlp\", hidden = [16] }";
    let mut balanced = classifier_settings(&gan, network);
    balanced.epochs = 20;
    classifier::train(&balanced, &out, &machine()).unwrap();
    let data = settings.data[0].load().unwrap();
    let values = scaled(&data.train.items);
    let [class, _] = answers(&out.join("ends-seed-0.s2m"), &data);
    for end in [-1.0, 1.0] {
        let here = |item: u32| values[item as usize].total_cmp(&end).is_eq();
        let shown = data.positives.iter().filter(|p| here(p.item));
        let shares = shown.clone().filter(|p| p.label == 0).count() as f64 / shown.count() as f64;
        let at = data.validation_positives.iter().position(|p| here(p.item));
        let row = &class[2 * at.unwrap()..][..2];
        let found = 1.0 / (1.0 + f64::from(row[1] - row[0]).exp());
        // A fifth of the logarithm; balanced draws alone would be off by a factor of more than 3.
        assert!(
            (found / shares).ln().abs() < 0.2,
            "{found} against {shares}"
        );
    }
}
