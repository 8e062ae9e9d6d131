//! Whole experiments with a trainer that writes small networks: stages, measurements, results.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "experiments/cifar.rs"]
mod cifar;
#[path = "experiments/faces_elsewhere.rs"]
mod faces_elsewhere;

use std::cell::RefCell;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use s2m::progress::Silent;
use s2m::session::Machine;
use s2m_data::recipe::DataRecipe;
use s2m_experiments::{Experiment, Reproduced, Request, reproduce};
use s2m_fit::trainer::{Ended, Job, Kind, Train};
use s2m_model::bundle::{self, Generator};
use s2m_model::manifest::{
    CalibrationEntry, ClassEntry, ClassForm, ClassifierEntry, FORMAT, GeneratorEntry, ItemEntry,
    LabellingEntry, LabellingModel, LatentEntry, LayoutName, Manifest, OutputsEntry, Prior,
    Provenance,
};
use s2m_model::onnx::{Element, GraphBuilder};
use s2m_runs::{Outline, folder};
use s2m_testkit::exact;

/// Side of the toy pictures.
const SIDE: usize = 6;
const PIXELS: usize = SIDE * SIDE;

/// Seeds that the trainer has networks for; the run files ask for seed 2 as well.
const TRAINED: [u64; 2] = [0, 1];

/// Writes what a stage leaves behind, and notes that it was asked.
struct Toys {
    asked: RefCell<Vec<String>>,
    /// Files of a bundle for a data set, in a stage.
    bundle: fn(&str) -> exact::Files,
}

impl Toys {
    fn new(bundle: fn(&str) -> exact::Files) -> Self {
        Self {
            asked: RefCell::default(),
            bundle,
        }
    }
}

impl Train for Toys {
    fn train(&self, job: &Job<'_>) -> Result<Ended, s2m_fit::Error> {
        let stage = job.out.file_name().unwrap().to_string_lossy().into_owned();
        let file = fs::read_to_string(job.run_file).unwrap();
        fs::create_dir_all(job.out).unwrap();
        fs::write(job.out.join("run.toml"), &file).unwrap();
        let file = Outline::of(file.parse().unwrap()).unwrap();
        match job.kind {
            Kind::Gan => {
                for data in file.data() {
                    for seed in TRAINED {
                        let folder = job.out.join(folder::replica(&data.name, seed));
                        write_generators(&folder, &(self.bundle)(&stage));
                    }
                }
            }
            Kind::Classifier => {
                let gan = file.gan.unwrap().join("run.toml");
                let gan = fs::read_to_string(gan).unwrap().parse().unwrap();
                let gan = Outline::of(gan).unwrap();
                let wanted =
                    |data: &&DataRecipe| file.only.is_empty() || file.only.contains(&data.name);
                for data in gan.data().iter().filter(wanted) {
                    for seed in TRAINED {
                        let folder = job.out.join(folder::bundle(&data.name, seed));
                        bundle::write(&folder, &(self.bundle)(&stage)).unwrap();
                    }
                }
            }
            Kind::Referee => fs::write(job.out.join("referee.onnx"), referee().unwrap()).unwrap(),
        }
        let done = r#"{"steps": 7, "seconds": 3.5, "steps_per_second": 2.0, "replicas": 2, "device": "toy"}"#;
        fs::write(job.out.join("done.json"), done).unwrap();
        self.asked.borrow_mut().push(stage);
        Ok(Ended::Done)
    }
}

/// The generator of a bundle as a stage leaves it, for both query codes.
fn write_generators(folder: &Path, files: &exact::Files) {
    fs::create_dir_all(folder).unwrap();
    let manifest: Manifest = toml::from_slice(&files[0].1).unwrap();
    for name in ["generator", "generator-overlap"] {
        let entry = GeneratorEntry {
            file: format!("{name}.onnx"),
            class: None,
            ..manifest.generator.clone()
        };
        fs::write(folder.join(&entry.file), &files[1].1).unwrap();
        let text = toml::to_string(&entry).unwrap();
        fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    }
}

struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        Self { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn reproduce(&self, experiment: Experiment, trainer: Option<&dyn Train>) -> Reproduced {
        let (data, work, out) = (self.path("data"), self.path("work"), self.path("out"));
        let request = Request {
            experiment,
            data: Some(&data),
            work: &work,
            out: &out,
            seeds: None,
            rows: None,
            samples: NonZeroUsize::new(200).unwrap(),
            machine: Machine::default(),
        };
        reproduce(&request, trainer, &Silent).unwrap()
    }

    fn results(&self) -> String {
        fs::read_to_string(self.path("out/RESULTS.md")).unwrap()
    }
}

/// The exact bundle stands in for a trained one: S2M is right and the generator alone is not.
#[test]
fn the_gaussians_come_out_of_exact_networks_as_they_should() {
    let place = Place::new();
    let trainer = Toys::new(|_| exact::gaussians_exact());
    fs::create_dir_all(place.path("out")).unwrap();
    fs::write(place.path("out/NOTES.md"), "A remark by hand.\n").unwrap();
    let made = place.reproduce(Experiment::Gaussians, Some(&trainer));
    assert_eq!(*trainer.asked.borrow(), ["gan", "classifier"]);
    assert_eq!(made.tables[0].rows.len(), 5 * 4 + 1);
    let row = |name: &str| {
        let rows = made.tables[0].rows.iter();
        rows.into_iter().find(|row| row[0] == name).unwrap().clone()
    };
    let alone = row("A - B: GAN alone");
    assert_eq!(
        (alone[2].as_str(), alone[7].as_str()),
        ("30.17 ± 0.35", "1.0 ± 0.0")
    );
    let mh = row("A - B: GAN + S2M, chosen settings, mh, K = 400");
    assert_eq!(
        (mh[1].as_str(), mh[7].as_str()),
        ("100.00 ± 0.00", "400.0 ± 0.0")
    );
    assert_eq!(mh[9], "0, 1; 2 missing");
    assert!(
        made.missing
            .contains(&"A: GAN alone, seed 2: not trained".to_owned())
    );
    let text = place.results();
    for part in [
        "# 2x16 Gaussians (appendix E.1)",
        "200 samples per line; seeds 0, 1, 2",
        "| [gan](gan.toml) | 7 | 2 | toy | 4 | 2.0 |",
        "## Missing",
        "![gaussians.png](gaussians.png)",
        "## Notes\n\nA remark by hand.",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(place.path("out/gaussians.png").exists());
    // Again, with nobody to train: nothing changes, not even a byte.
    let again = place.reproduce(Experiment::Gaussians, None);
    assert_eq!(again, made);
    assert_eq!(place.results(), text);
}

/// A bundle in one dimension: the generator makes a normal number twice as wide as the overlap, and
/// the classifiers know both densities.
fn one_dimension(_stage: &str) -> exact::Files {
    let mut g = GraphBuilder::new("wide");
    let z = g.input("z", &[1], Element::F32).unwrap();
    g.output(&z, "x").unwrap();
    let generator = g.to_bytes();
    let mut g = GraphBuilder::new("judge");
    let x = g.input("x", &[1], Element::F32).unwrap();
    let zero = g.scalar(0.0);
    let none = g.mul(&x, &zero).unwrap();
    let class = g.concat(&[&none, &none], 1).unwrap();
    // log N(x; 0, 1/2) − log N(x; 0, 1) = log 2 − 3x²/2.
    let square = g.mul(&x, &x).unwrap();
    let factor = g.scalar(-1.5);
    let real = g.mul(&square, &factor).unwrap();
    g.output(&class, "class_logits").unwrap();
    g.output(&real, "real_logit").unwrap();
    let point = ItemEntry {
        name: "x".to_owned(),
        layout: None,
        shape: vec![1],
        range: None,
        bits: None,
    };
    bundle::files(&manifest(point, 1, false), generator, g.to_bytes()).unwrap()
}

#[test]
fn the_illustration_measures_the_overlap() {
    let place = Place::new();
    let made = place.reproduce(Experiment::Illustration, Some(&Toys::new(one_dimension)));
    let tv = |row: usize| -> f64 {
        let cell = &made.tables[0].rows[row][1];
        cell.split(' ').next().unwrap().parse().unwrap()
    };
    // Three generators alone, mh, reject, perfect: normal densities of sd 1 and 1/2 are 0.32 apart.
    assert!(tv(0) > 0.3, "{:?}", made.tables);
    assert!(tv(0) == tv(1) && tv(0) == tv(2), "{:?}", made.tables);
    let floor = tv(5);
    assert!(
        tv(3) < 2.0 * floor && tv(4) < 2.0 * floor,
        "{:?}",
        made.tables
    );
    assert!(place.path("out/illustration.png").exists());
}

/// Class logits from six pixels each and features of the first few pixels.
fn referee() -> Result<Vec<u8>, s2m_model::Error> {
    let mut g = GraphBuilder::new("referee");
    let x = g.input("x", &[1, SIDE, SIDE], Element::F32)?;
    let x = g.flatten(&x)?;
    let logits = g.slice(&x, 1, 0..10)?;
    let features = g.slice(&x, 1, 20..24)?;
    g.output(&logits, "class_logits")?;
    g.output(&features, "features")?;
    Ok(g.to_bytes())
}

/// Pictures whose pixels are a squashed linear map of the latent. The first ten pixels decide the
/// class for the referee; the classifier says B where an odd one is light.
fn pictures(stage: &str) -> exact::Files {
    let conditional = stage.contains("conditional");
    let graphs =
        picture_generator(conditional).and_then(|g| Ok((g, picture_classifier(conditional)?)));
    let (generator, classifier) = graphs.unwrap();
    let item = ItemEntry {
        name: "x".to_owned(),
        layout: Some(LayoutName::Nchw),
        shape: vec![1, SIDE, SIDE],
        range: Some([-1.0, 1.0]),
        bits: Some(8),
    };
    bundle::files(&manifest(item, PIXELS, conditional), generator, classifier).unwrap()
}

fn picture_generator(conditional: bool) -> Result<Vec<u8>, s2m_model::Error> {
    let mut g = GraphBuilder::new("pictures");
    let mut x = g.input("z", &[PIXELS], Element::F32)?;
    if conditional {
        let c = g.input("c", &[2], Element::F32)?;
        let zeros = g.constant("c.weight", &[PIXELS, 2], &[0.0; 2 * PIXELS])?;
        let bias = g.constant("c.bias", &[PIXELS], &[0.0; PIXELS])?;
        let c = g.linear(&c, &zeros, &bias)?;
        x = g.add(&x, &c)?;
    }
    let x = g.tanh(&x)?;
    let x = g.reshape(&x, &[1, SIDE, SIDE])?;
    g.output(&x, "x")?;
    Ok(g.to_bytes())
}

fn picture_classifier(conditional: bool) -> Result<Vec<u8>, s2m_model::Error> {
    let mut g = GraphBuilder::new("judge");
    let x = g.input("x", &[1, SIDE, SIDE], Element::F32)?;
    let x = g.flatten(&x)?;
    let heads = [
        ("class_logits", 2),
        ("real_logit", 1),
        ("fake_class_logits", 2),
    ];
    for (name, rows) in heads.into_iter().take(if conditional { 3 } else { 2 }) {
        let weight = |at: usize| match (name, at / PIXELS, at % PIXELS) {
            ("class_logits", 1, pixel) if pixel < 10 => {
                if pixel % 2 == 1 {
                    3.0
                } else {
                    -3.0
                }
            }
            _ => 0.0,
        };
        let weights: Vec<f32> = (0..rows * PIXELS).map(weight).collect();
        let weights = g.constant(&format!("{name}.weight"), &[rows, PIXELS], &weights)?;
        let bias = g.constant(&format!("{name}.bias"), &[rows], &vec![0.0; rows])?;
        let y = g.linear(&x, &weights, &bias)?;
        g.output(&y, name)?;
    }
    Ok(g.to_bytes())
}

fn manifest(item: ItemEntry, latent: usize, conditional: bool) -> Manifest {
    let named = |name: &str| name.to_owned();
    Manifest {
        format: FORMAT,
        name: named("toy"),
        labels: vec![named("A"), named("B")],
        describe: std::collections::BTreeMap::new(),
        labelling: LabellingEntry {
            model: LabellingModel::OneOf,
            weights: vec![1.0, 1.0],
            observed: vec![0.5, 0.5],
        },
        generator: GeneratorEntry {
            file: named("generator.onnx"),
            sha256: String::new(),
            latents: vec![LatentEntry {
                input: named("z"),
                shape: vec![latent],
                prior: Prior::Normal,
            }],
            class: conditional.then(|| ClassEntry {
                input: named("c"),
                form: ClassForm::OneHot,
                prior: vec![0.5, 0.5],
            }),
            output: item.clone(),
        },
        classifier: ClassifierEntry {
            file: named("classifier.onnx"),
            sha256: String::new(),
            input: ItemEntry { bits: None, ..item },
            outputs: OutputsEntry {
                class: named("class_logits"),
                real: named("real_logit"),
                fake_class: conditional.then(|| named("fake_class_logits")),
            },
            joint: None,
        },
        calibration: CalibrationEntry {
            floor: s2m_model::manifest::FloorValue::Same(0.5),
            ..CalibrationEntry::default()
        },
        levels: None,
        paper: Some(CalibrationEntry::default()),
        external: [].into(),
        provenance: Provenance::default(),
    }
}

/// Real pictures in which the pixel of their class is white and others are grey.
fn write_idx(folder: &Path, part: &str, items: usize) {
    fs::create_dir_all(folder).unwrap();
    let (mut images, mut labels) = (vec![0, 0, 8, 3], vec![0, 0, 8, 1]);
    for side in [items, SIDE, SIDE] {
        images.extend((side as u32).to_be_bytes());
    }
    labels.extend((items as u32).to_be_bytes());
    for item in 0..items {
        let class = item % 10;
        let grey = |pixel: usize| ((item * 31 + pixel * 17 + item * pixel * 7) % 200) as u8;
        images.extend((0..PIXELS).map(|pixel| if pixel == class { 255 } else { grey(pixel) }));
        labels.push(class as u8);
    }
    fs::write(folder.join(format!("{part}-images-idx3-ubyte")), images).unwrap();
    fs::write(folder.join(format!("{part}-labels-idx1-ubyte")), labels).unwrap();
}

/// The conditional generator cannot be drawn alone, and is not: only its bundles are used.
#[test]
fn table_1_has_every_row_with_the_papers_figures_and_the_bounds() {
    let place = Place::new();
    for family in ["mnist", "fashion-mnist"] {
        write_idx(&place.path("data").join(family), "train", 400);
        write_idx(&place.path("data").join(family), "t10k", 200);
    }
    let trainer = Toys::new(pictures);
    let made = place.reproduce(Experiment::Table1, Some(&trainer));
    assert_eq!(trainer.asked.borrow().len(), 10);
    let tables = &made.tables;
    let lines: Vec<usize> = tables.iter().map(|table| table.rows.len()).collect();
    // Methods and two bounds; in the last table two settings of four bundles with two seeds each.
    assert_eq!(lines, [8 + 2, 11 + 2, 7 + 2, 2 * 4 * 2], "{tables:?}");
    assert_eq!(tables[0].title, "MNIST-3/5 (wanted: 5)");
    assert_eq!(tables[2].title, "FMNIST-Even (wanted: 0, 2, 4, 6, 8)");
    let even = |name: &str| {
        let row = tables[1].rows.iter().find(|row| row[0] == name);
        row.unwrap_or_else(|| panic!("{name}: {tables:?}"))
    };
    let number = |cell: &str| -> f64 { cell.split(' ').next().unwrap().parse().unwrap() };
    let chosen = even("GAN + S2M, chosen settings, reject, TV 0.01");
    let alone = even("GAN alone");
    // The toy's classifier is not calibrated: better than the generator alone is all that it promises.
    let better = number(&alone[1]) + 10.0;
    assert!(number(&chosen[1]) > better, "{tables:?}");
    assert!(number(&chosen[6]) > 80.0, "{chosen:?}");
    assert_eq!(even("CP-GAN")[2], "87.87 ± 0.40");
    let paper = even("GAN + S2M, paper's settings, mh, K = 100");
    assert_eq!(
        (paper[2].as_str(), paper[4].as_str()),
        ("96.37 ± 0.25", "0.86 ± 0.24")
    );
    assert_eq!(number(&paper[5]), 100.0);
    let conditional = even("conditional GAN + S2M, chosen settings, reject, TV 0.01");
    assert!(number(&conditional[1]) > better, "{conditional:?}");
    let chains = even("conditional GAN + S2M, paper's settings, mh, K = 100");
    assert_eq!(number(&chains[5]), 100.0, "{chains:?}");
    assert_eq!(even("real test items (accuracy ceiling)")[1], "100.00");
    assert!(
        made.missing
            .contains(&"MNIST-3/5: GenPU, seed 2: not trained".to_owned())
    );
    for picture in ["out/mnist.png", "out/fmnist.png"] {
        assert!(place.path(picture).exists(), "{picture}");
    }
    let again = place.reproduce(Experiment::Table1, None);
    assert_eq!(again, made);
}

/// Bundles have no margins; the arm that has them is calibrated on its own, from the same held-out items.
#[test]
fn the_calibration_has_an_arm_with_margins() {
    let place = Place::new();
    for family in ["mnist", "fashion-mnist"] {
        write_idx(&place.path("data").join(family), "train", 10_000);
        write_idx(&place.path("data").join(family), "t10k", 200);
    }
    let made = place.reproduce(Experiment::Calibration, Some(&Toys::new(pictures)));
    let lines: Vec<usize> = made.tables.iter().map(|table| table.rows.len()).collect();
    // Promises of two seeds of every data set; then settings, floors and wrong labels of each.
    assert_eq!(lines, [3 * 2, 5, 6, 6, 5, 6, 6, 5, 6, 6]);
    let promised = |name: &str| {
        let row = made.tables[0].rows.iter().find(|row| row[0] == name);
        row.unwrap_or_else(|| panic!("{:?}", made.tables[0]))
    };
    // Some 50 held-out items show an excluded label, and 99 are needed.
    assert_eq!(promised("MNIST-3/5, seed 0")[1..3], ["1.0000", "-"]);
    let even = promised("MNIST-Even, seed 1");
    let number = |cell: &str| -> f64 { cell.parse().unwrap() };
    assert!(
        number(&even[1]) < 1.0 && number(&even[2]) <= 1.0,
        "{even:?}"
    );
    let again = place.reproduce(Experiment::Calibration, None);
    assert_eq!(again, made);
}

#[test]
fn nothing_trained_means_that_everything_is_missing_and_nothing_fails() {
    let place = Place::new();
    for family in ["mnist", "fashion-mnist"] {
        fs::create_dir_all(place.path("data").join(family)).unwrap();
    }
    let made = place.reproduce(Experiment::Table1, None);
    assert_eq!(
        made.missing[0],
        "MNIST-3/5: there is no referee (referee-mnist), so nothing is judged"
    );
    let made = place.reproduce(Experiment::Gaussians, None);
    assert_eq!(made.missing.len(), 5 * 4);
    assert_eq!(made.missing[0], "A: GAN alone, seed 0, 1, 2: not trained");
    assert!(made.pictures.is_empty());
    assert_eq!(made.tables[0].rows[0][1], "-");
    assert_eq!(made.tables[0].rows[0][9], "0, 1, 2 missing");
}

/// A generator's entry comes from a folder like any other file, and nothing in it is believed.
#[test]
fn a_generator_that_cannot_be_used_is_named() {
    let root = tempfile::tempdir().unwrap();
    write_generators(root.path(), &exact::gaussians_exact());
    let file = root.path().join("generator.toml");
    let good = fs::read_to_string(&file).unwrap();
    assert!(Generator::open(&file).is_ok());
    let refused = |from: &str, to: &str, expected: &str| {
        assert!(good.contains(from), "{from}");
        fs::write(&file, good.replace(from, to)).unwrap();
        let error = Generator::open(&file).unwrap_err().to_string();
        let error = error.replace(&file.display().to_string(), "FILE");
        assert!(error.contains(expected), "{error}");
    };
    refused(
        "sha256 =",
        "sha265 =",
        "`FILE`: line 2: unknown field `sha265`",
    );
    refused(
        "generator.onnx",
        "../x.onnx",
        "file `../x.onnx` leads outside",
    );
    refused(
        "input = \"z\"",
        "input = \"y\"",
        "`generator.onnx` has no input `y`",
    );
    refused(
        "sha256 = \"",
        "sha256 = \"0",
        "the SHA-256 of `generator.onnx` is",
    );
    refused(
        "shape = [2]",
        "shape = [0]",
        "`FILE`: generator.output.shape: shape [0] is not usable",
    );
    fs::write(&file, [0xff, 0xfe]).unwrap();
    let error = Generator::open(&file).unwrap_err().to_string();
    assert!(error.contains("generator.toml`: not UTF-8 text"), "{error}");
}

#[test]
fn a_seed_that_no_run_file_has_is_refused() {
    let place = Place::new();
    let (work, out) = (place.path("work"), place.path("out"));
    let request = Request {
        experiment: Experiment::Gaussians,
        data: None,
        work: &work,
        out: &out,
        seeds: Some(&[1, 7]),
        rows: None,
        samples: NonZeroUsize::new(10).unwrap(),
        machine: Machine::default(),
    };
    let error = reproduce(&request, None, &Silent).unwrap_err();
    assert_eq!(
        error.to_string(),
        "seed 7 is not one of those in the run files: 0, 1, 2"
    );
    assert!(!work.exists() && !out.exists());
}
