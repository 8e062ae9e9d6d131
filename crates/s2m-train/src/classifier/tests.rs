use std::fs;

use tch::Device;
use tempfile::{TempDir, tempdir};

use s2m_runs::classifier::TrunkSettings;

use super::*;
use crate::device::DeviceChoice;
use crate::export::{self, Input};
use crate::gan;
use crate::networks::mobilenet_v2::MobileNetV2;
use crate::parameters::First;
use crate::replica::as_written;

/// Every level of a file comes back as it is, and what lies between two goes to the nearer one,
/// halves to even: the rule of the scoring graph (`s2m_model::onnx::adapter`).
#[test]
fn pictures_are_rounded_as_they_are_written() {
    let step = 2.0_f32 / 255.0;
    let at = |level: f32| level * step - 1.0;
    let given = [at(0.0), at(7.4), at(7.6), at(255.0), 1.7, -3.0];
    let found = Vec::<f32>::try_from(as_written(&Tensor::from_slice(&given))).unwrap_or_default();
    let wanted = [0.0, 7.0, 8.0, 255.0, 255.0, 0.0].map(at);
    for (a, b) in found.iter().zip(wanted) {
        assert!((a - b).abs() < 1e-6, "{found:?} against {wanted:?}");
    }
    assert_eq!(found.len(), 6);
}

/// Logits (0, log 3): probabilities 1/4 and 3/4.
#[test]
fn cross_entropy_is_the_mean_over_the_batch_of_each_replica() {
    let logits = Tensor::from_slice(&[0.0_f32, 3.0_f32.ln(), 0.0, 3.0_f32.ln()]).view([1, 2, 2]);
    let labels = Tensor::from_slice(&[0_i64, 1]).view([1, 2]);
    let wanted = -f64::midpoint(0.25_f64.ln(), 0.75_f64.ln());
    assert!((cross_entropy(&logits, &labels).double_value(&[0]) - wanted).abs() < 1e-6);
}

#[test]
fn a_schedule_has_two_phases_and_each_group_of_weights_its_own_steps() {
    let of = |real: &str| {
        let mut settings = settings(Path::new("gan"), "");
        settings.real = toml::from_str(real).unwrap();
        settings.epochs = 3;
        let schedule = Schedule::new(&settings, None, 10);
        let group = |skipped| schedule.steps_without(Some(skipped));
        let phases = [0, 19, 20, 29, 30, 49].map(|step| schedule.at(step));
        let steps = [Phase::Others, Phase::Class].map(group);
        (phases, steps, schedule.steps_without(None))
    };
    let (c, o, a) = (Phase::Class, Phase::Others, Phase::All);
    assert_eq!(of("fit = \"shared\""), ([a; 6], [30, 30], 30));
    assert_eq!(of("fit = \"smoothed\""), ([a; 6], [30, 30], 30));
    let two = of("fit = \"shared\"\nclass-epochs = 2");
    assert_eq!(two, ([c, c, a, a, a, a], [50, 30], 50));
    let frozen = of("fit = \"frozen\"\nepochs = 2");
    assert_eq!(frozen, ([c, c, c, c, o, o], [30, 20], 50));
}

/// A folder that holds a run is known by its run file, so keys that are left out must stay out.
#[test]
fn new_keys_do_not_show_in_run_files_that_leave_them_out() {
    let text = toml::to_string(&settings(Path::new("gan"), "")).unwrap();
    assert!(text.contains("[real]\nfit = \"shared\"\n"), "{text}");
    for key in ["augment", "balance", "class-epochs"] {
        assert!(!text.contains(key), "{text}");
    }
    let full = "real = { fit = \"shared\", class-epochs = 2 }\nbalance = true\naugment = { flip = true, shift = 4 }";
    let full = settings(Path::new("gan"), full);
    let again: ClassifierSettings = toml::from_str(&toml::to_string(&full).unwrap()).unwrap();
    assert_eq!(again, full);
}

/// A run file of a MobileNetV2 with tiny steps.
fn settings(gan: &Path, extra: &str) -> ClassifierSettings {
    toml::from_str(&format!(
        r#"
        gan = "{}"
        epochs = 1
        batch = 16
        log-every = 1
        joint = false
        network = {{ kind = "mobilenet-v2" }}
        optimizer = {{ kind = "sgd", learning-rate = 1e-2, momentum = 0.9 }}
        {extra}
        "#,
        gan.display()
    ))
    .unwrap()
}

/// Two conditional generators of 16×16 pictures, with seeds 0 and 1, and one with seed 1 alone.
fn trained_generators() -> TempDir {
    let folder = tempdir().unwrap();
    for (part, count) in [("train", 40_u32), ("t10k", 8)] {
        let size = count.to_be_bytes();
        let mut images = [&[0, 0, 8, 3][..], &size, &[0, 0, 0, 16], &[0, 0, 0, 16]].concat();
        images.extend((0..count * 256).map(|k| (k * k % 251 + k / 256) as u8));
        let mut labels = [&[0, 0, 8, 1][..], &size].concat();
        labels.extend((0..count).map(|n| (n % 2) as u8));
        fs::write(
            folder.path().join(format!("{part}-images-idx3-ubyte")),
            images,
        )
        .unwrap();
        fs::write(
            folder.path().join(format!("{part}-labels-idx1-ubyte")),
            labels,
        )
        .unwrap();
    }
    for (name, seeds) in [("gan", "[0, 1]"), ("one", "[1]")] {
        let settings = toml::from_str(&format!(
            r#"
            seeds = {seeds}
            steps = 2
            batch = 8
            ema = 0.9
            objective = {{ kind = "conditional", critic-steps = 1, penalty = 10.0 }}
            optimizer = {{ kind = "adam", learning-rate = 1e-3 }}
            network = {{ latent = 3, hidden = [8] }}
            [[data]]
            name = "noise"
            source = {{ format = "idx", folder = "{}" }}
            classes = [{{ name = "A", of = [0, 1] }}, {{ name = "B", of = [1] }}]
            labelling = {{ model = "one-of" }}
            validation = 0.2
            "#,
            folder.path().display()
        ))
        .unwrap();
        gan::train(&settings, &folder.path().join(name), &machine()).unwrap();
    }
    folder
}

fn machine() -> Machine {
    Machine::open(DeviceChoice::Cpu, None).unwrap()
}

/// Both groups of weights after a run, and how far the exported files are from libtorch.
fn run(settings: &ClassifierSettings, out: &Path) -> ([Parameters; 2], f64) {
    let machine = machine();
    let folder = RunFolder::open(out, settings).unwrap();
    let generators = Generators::open(settings, &machine).unwrap();
    let network = network(settings, &generators).unwrap();
    let (weights, _) = fit(settings, &generators, (&network, None), &folder, &machine).unwrap();
    let own = weights.each_ref().map(|all| all.select(&[0]));
    let parts = Parts {
        network: &network,
        weights: &own,
        balance: balance_of(settings, generators.data(0).1),
        sets: None,
    };
    let difference = bundle::write(&folder, &generators, 0, &parts, settings, &machine).unwrap();
    (weights, difference)
}

/// All fits with a short run and one that goes on from it.
const FITS: [[&str; 2]; 3] = [
    [
        "real = { fit = \"shared\", class-epochs = 1 }\naugment = { flip = true, shift = 2 }\nbalance = true",
        "epochs",
    ],
    ["real = { fit = \"frozen\", epochs = 1 }", "others"],
    ["real = { fit = \"smoothed\" }", "epochs"],
];

/// Weights and running statistics, to the last bit; the exports are checked on the way.
#[test]
fn a_resumed_mobilenet_ends_with_the_same_weights_and_statistics() {
    let folder = trained_generators();
    for (n, [fit, goes_on]) in FITS.into_iter().enumerate() {
        let shorter = settings(&folder.path().join("one"), fit);
        let mut longer = shorter.clone();
        match goes_on {
            "others" => longer.real = RealSettings::Frozen { epochs: 2 },
            _ => longer.epochs = 2,
        }
        let out = |name: &str| folder.path().join(format!("{name}-{n}"));
        let (whole, difference) = run(&longer, &out("whole"));
        assert!(difference < 1e-5, "{fit}: {difference}");
        let (part, _) = run(&shorter, &out("part"));
        fs::create_dir(out("resumed")).unwrap();
        let file = "checkpoint.safetensors";
        fs::copy(out("part").join(file), out("resumed").join(file)).unwrap();
        let (resumed, _) = run(&longer, &out("resumed"));
        for (resumed, whole) in resumed.iter().zip(&whole) {
            assert!(
                resumed.replica(0).unwrap() == whole.replica(0).unwrap(),
                "{fit}"
            );
        }
        // A frozen trunk keeps its weights and its statistics, all others go on.
        let [class, others] =
            [0, 1].map(|at| part[at].replica(0).unwrap() == whole[at].replica(0).unwrap());
        assert_eq!([class, others], [goes_on == "others", false], "{fit}");
    }
}

/// Steps this small leave the weights where they start, so that losses tell whether the same items were
/// drawn and changed in the same way. (With larger ones, untrained batch norms blow up the last bits.)
#[test]
fn a_mobilenet_and_its_augmentation_are_the_same_alone_and_among_others() {
    let folder = trained_generators();
    let losses = |name: &str, replica: &str| {
        let gan = folder.path().join(name);
        let mut settings = settings(&gan, FITS[0][0]);
        settings.optimizer = toml::from_str("kind = \"sgd\"\nlearning-rate = 1e-6").unwrap();
        let out = gan.join("classifier");
        if !out.is_dir() {
            run(&settings, &out);
        }
        let log = fs::read_to_string(out.join("metrics.jsonl")).unwrap();
        let lines = log.lines().filter(|line| line.contains(replica));
        let losses = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            ["class", "real", "fake-class"].map(|loss| line["losses"][loss].as_f64().unwrap())
        };
        lines.flat_map(losses).collect::<Vec<f64>>()
    };
    let one = losses("one", "seed-1");
    let far = |other: &[f64]| {
        let pairs = one.iter().zip(other);
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    };
    assert_eq!(one.len(), 4 * LOSSES.len());
    let [same, other] = ["seed-1", "seed-0"].map(|replica| far(&losses("gan", replica)));
    assert!(same < 1e-3, "{same}");
    assert!(other > 0.05, "{other}");
}

/// Running statistics as one batch left them, r = 0.9·first + 0.1·batch, made those of the batch. With the
/// first ones a new network says the same about all pictures.
fn take_last_batch(weights: &Parameters) {
    for (spec, view) in weights.specs().iter().zip(weights.views()) {
        if let First::Statistic(first) = spec.first {
            let batch = (view - 0.9 * first) * 10.0;
            view.shallow_clone().copy_(&batch);
        }
    }
}

/// Every head of every fit on colour pictures that are no squares, against ONNX Runtime.
#[test]
fn colour_classifiers_agree_with_their_files() {
    let picture = [3, 16, 20];
    for fit in [Way::Shared, Way::Smoothed] {
        let network = Classifier {
            trunk: Trunk::MobileNetV2(MobileNetV2 {
                picture,
                precision: Precision::Float32,
            }),
            classes: 3,
            conditional: true,
            fit,
        };
        let weights = [network.class_specs(), network.other_specs()]
            .map(|specs| Parameters::new("classifier", specs, &[1], Device::Cpu));
        let x = noise::normal(&[2], 0, 4 * 960, Device::Cpu).view([1, 8, 960]);
        let [class, others] = weights.each_ref().map(Parameters::views);
        let outputs = no_grad(|| {
            let (features, _) = network.class(class, &x, Mode::Training);
            let _ = network.others(others, &x, &features, Mode::Training);
            weights.iter().for_each(take_last_batch);
            network.forward(class, others, &x)
        });
        // Otherwise the files could agree whatever they do to the pictures.
        for logits in [&outputs.class, &outputs.real] {
            let spread = logits.std_dim(1, true, false).min().double_value(&[]);
            assert!(spread > 0.01, "{fit:?}: {spread}");
        }
        let mut saved = weights[0].replica(0).unwrap();
        saved.extend(weights[1].replica(0).unwrap());
        let file = network
            .onnx(&saved, &picture.map(|side| side as usize), None, None)
            .unwrap();
        let rows = x.view([8, 3, 16, 20]);
        let input = Input {
            name: "x",
            rows: &rows,
        };
        let wanted = [
            ("class_logits", &outputs.class),
            ("real_logit", &outputs.real),
            ("fake_class_logits", outputs.fake_class.as_ref().unwrap()),
        ];
        export::check(&machine().runtime, &file, &[input], &wanted).unwrap();
    }
}

/// The exported file stands in for weights that are gone, where there is one generator.
#[test]
fn a_run_without_its_weights_goes_by_what_it_exported() {
    let folder = trained_generators();
    let machine = machine();
    let settings = settings(&folder.path().join("one"), "");
    let with = Generators::open(&settings, &machine).unwrap();
    // Items are made at every step, out of noise; or once, and no noise is needed then.
    assert!(with.needs(8).normal > 0);
    fs::remove_file(folder.path().join("one").join(s2m_runs::folder::WEIGHTS)).unwrap();
    let without = Generators::open(&settings, &machine).unwrap();
    assert_eq!(without.needs(8).normal, 0);
    assert_eq!(without.replicas.len(), 1);
    let exported = folder.path().join("one");
    for entry in fs::read_dir(&exported).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        }
    }
    let error = Generators::open(&settings, &machine).err().unwrap();
    assert!(error.to_string().contains("cannot be read"), "{error}");
}

#[test]
fn pictures_that_a_run_file_cannot_use_are_refused() {
    let folder = trained_generators();
    let machine = machine();
    let refused = |extra: &str| {
        let mut settings = settings(&folder.path().join("one"), extra);
        if extra.is_empty() {
            settings.network = TrunkSettings::Lenet5 {};
        }
        let generators = Generators::open(&settings, &machine).unwrap();
        network(&settings, &generators).unwrap_err().to_string()
    };
    assert_eq!(
        refused("augment = { shift = 16 }"),
        "`augment.shift` is 16; pictures of 16×16 take 0 to 15"
    );
    assert!(refused("").starts_with("`lenet5` takes pictures of shape [1, 28, 28]"));
    // What a referee says.
    let own = toml::from_str("kind = \"onnx\"\nfile = \"features.onnx\"").unwrap();
    let generators = Generators::open(&settings(&folder.path().join("one"), ""), &machine);
    let error = Trunk::of(&own, &generators.unwrap().loaded[0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`onnx` is for classifiers, whose heads stand on it; here a network is trained whole"
    );
}
