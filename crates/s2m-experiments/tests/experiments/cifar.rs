//! `cifar` with a trainer that writes toys: chains that are made, and chains that are missing.

use std::fs;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::Path;

use s2m::progress::Silent;
use s2m::session::Machine;
use s2m_experiments::{Experiment, Reproduced, Request, reproduce};
use s2m_fit::trainer::{Ended, Job, Kind, Train};
use s2m_model::bundle::sha256;
use s2m_model::manifest::{
    ClassEntry, ClassForm, GeneratorEntry, ItemEntry, LatentEntry, LayoutName, Prior,
};
use s2m_model::onnx::{Element, GraphBuilder};

use crate::Place;

const SHAPE: [usize; 3] = [3, 32, 32];
const VALUES: usize = 3 * 32 * 32;

/// Joint classes as a trainer numbers them, and the original class of each.
const JOINT: [(&str, usize); 7] = [
    ("A - B - C", 0),
    ("B - A - C", 2),
    ("A + B - C", 1),
    ("C - A - B", 4),
    ("A + C - B", 5),
    ("B + C - A", 3),
    ("A + B + C", 6),
];

/// Says the class whose pixel in the first row is lightest.
fn referee() -> Result<Vec<u8>, s2m_model::Error> {
    let mut g = GraphBuilder::new("referee");
    let x = g.input("x", &SHAPE, Element::F32)?;
    let x = g.flatten(&x)?;
    let logits = g.slice(&x, 1, 0..7)?;
    g.output(&logits, "class_logits")?;
    Ok(g.to_bytes())
}

/// Features of a few pixels below.
fn feature_network() -> Result<Vec<u8>, s2m_model::Error> {
    let mut g = GraphBuilder::new("features");
    let x = g.input("x", &SHAPE, Element::F32)?;
    let x = g.flatten(&x)?;
    let features = g.slice(&x, 1, 40..44)?;
    g.output(&features, "features")?;
    Ok(g.to_bytes())
}

/// Noise, with the pixel of the class that is asked for made white.
fn generator() -> Result<Vec<u8>, s2m_model::Error> {
    let mut g = GraphBuilder::new("generator");
    let z = g.input("z", &[VALUES], Element::F32)?;
    let c = g.input("c", &[], Element::I64)?;
    let mut table = vec![0.0; JOINT.len() * VALUES];
    for (row, (_, original)) in JOINT.iter().enumerate() {
        table[row * VALUES + original] = 20.0;
    }
    let table = g.constant("table", &[JOINT.len(), VALUES], &table)?;
    let own = g.gather(&table, &c)?;
    let x = g.add(&z, &own)?;
    let x = g.tanh(&x)?;
    let x = g.reshape(&x, &SHAPE)?;
    g.output(&x, "x")?;
    Ok(g.to_bytes())
}

fn write_generator(folder: &Path, name: &str) {
    fs::create_dir_all(folder).unwrap();
    let bytes = generator().unwrap();
    let entry = GeneratorEntry {
        file: format!("{name}.onnx"),
        sha256: sha256(&bytes),
        latents: vec![LatentEntry {
            input: "z".to_owned(),
            shape: vec![VALUES],
            prior: Prior::Normal,
        }],
        class: Some(ClassEntry {
            input: "c".to_owned(),
            form: ClassForm::Index,
            prior: vec![1.0 / 7.0; 7],
        }),
        output: ItemEntry {
            name: "x".to_owned(),
            layout: Some(LayoutName::Nchw),
            shape: SHAPE.to_vec(),
            range: Some([-1.0, 1.0]),
            bits: Some(8),
        },
    };
    fs::write(folder.join(&entry.file), bytes).unwrap();
    let text = toml::to_string(&entry).unwrap();
    fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    let names: Vec<&str> = JOINT.iter().map(|(name, _)| *name).collect();
    let names = serde_json::json!({ "generator": names, "generator-joint": names });
    fs::write(folder.join("classes.json"), names.to_string()).unwrap();
}

struct Toys;

impl Train for Toys {
    fn train(&self, job: &Job<'_>) -> Result<Ended, s2m_fit::Error> {
        fs::create_dir_all(job.out).unwrap();
        fs::copy(job.run_file, job.out.join("run.toml")).unwrap();
        match job.kind {
            Kind::Referee => fs::write(job.out.join("referee.onnx"), referee().unwrap()).unwrap(),
            Kind::Gan => {
                let folder = job.out.join("cifar-7to3/seed-0");
                // As the trainer does: CP-GAN has nothing but probabilities of classes to ask with.
                if !job.out.ends_with("cp-gan-seed-0") {
                    write_generator(&folder, "generator");
                }
                write_generator(&folder, "generator-joint");
            }
            Kind::Classifier => return Ok(Ended::No),
        }
        let done = r#"{"steps": 600, "seconds": 120.0, "device": "toy"}"#;
        fs::write(job.out.join("done.json"), done).unwrap();
        Ok(Ended::Done)
    }
}

/// Pictures of noise in which the pixel of their class is white; one in ten of the training pictures shows another.
fn write_data(folder: &Path) {
    let cifar = folder.join("cifar10");
    fs::create_dir_all(&cifar).unwrap();
    let file = |name: &str, wrong: bool| {
        let mut bytes = Vec::new();
        for item in 0..210_usize {
            let class = item % 7;
            let seen = if wrong && item / 7 % 10 == 3 {
                (class + 1) % 7
            } else {
                class
            };
            bytes.push(class as u8);
            let noise = |pixel: usize| ((item * 131 + pixel * 71 + item * pixel * 29) % 199) as u8;
            bytes.extend((0..VALUES).map(|pixel| if pixel == seen { 255 } else { noise(pixel) }));
        }
        fs::write(cifar.join(name), bytes).unwrap();
    };
    for batch in 1..=5 {
        file(&format!("data_batch_{batch}.bin"), true);
    }
    file("test_batch.bin", false);
    let network = folder.join("inception");
    fs::create_dir_all(&network).unwrap();
    let packed = fs::File::create(network.join("inception_v3_features.onnx.gz")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
    packed.write_all(&feature_network().unwrap()).unwrap();
    packed.finish().unwrap();
}

fn made(place: &Place, rows: Option<&[String]>, trainer: Option<&dyn Train>) -> Reproduced {
    let (data, work, out) = (place.path("data"), place.path("work"), place.path("out"));
    let request = Request {
        experiment: Experiment::Cifar,
        data: Some(&data),
        work: &work,
        out: &out,
        seeds: None,
        rows,
        samples: NonZeroUsize::new(210).unwrap(),
        machine: Machine::default(),
    };
    reproduce(&request, trainer, &Silent).unwrap()
}

fn row<'m>(made: &'m Reproduced, table: usize, name: &str) -> &'m [String] {
    let rows = &made.tables[table].rows;
    let row = rows.iter().find(|row| row[0] == name);
    row.unwrap_or_else(|| panic!("{name}: {rows:?}"))
}

/// A generator that is asked for joint classes is right in all of them, training items in nine of ten; both stand in
/// the table with the paper's figures, and what is not made is named with how to make it.
#[test]
fn chains_are_made_one_by_one_and_the_missing_ones_are_named() {
    let place = Place::new();
    write_data(&place.path("data"));
    let rows = ["real", "ac-gan", "cp-gan", "oracle-ac-gan"].map(str::to_owned);
    let first = made(&place, Some(&rows), Some(&Toys));
    let real = row(&first, 0, "real training items (floor)");
    assert_eq!(real[1], "90.00");
    let asked = row(&first, 0, "AC-GAN*");
    assert_eq!((asked[1].as_str(), asked[9].as_str()), ("100.00", "1.0"));
    // FID and its like are figures, against test items.
    for cell in [&real[2], &asked[2], &asked[4], &asked[8]] {
        let value: f64 = cell.parse().unwrap();
        assert!(value.is_finite(), "{cell}");
    }
    assert_eq!(row(&first, 0, "the paper's AC-GAN*")[1], "31.06 ± 1.17");
    let oracle = row(&first, 0, "oracle AC-GAN (shown the joint class)");
    assert_eq!(oracle[1], "100.00");
    assert_eq!(row(&first, 2, "`A + B + C`")[3], "30");
    // A generator without classifiers has a time of its own.
    let times = row(&first, 3, "ac-gan");
    assert!(times[2].parse::<f64>().unwrap() > 0.0, "{times:?}");
    assert_eq!(times[3..], ["-", "-", "-"]);
    assert!(row(&first, 3, "cp-gan")[2].parse::<f64>().unwrap() > 0.0);
    let trained = row(&first, 4, "ac-gan");
    assert_eq!(trained[2..4], ["600", "2.0"]);
    for name in ["real.png", "ac-gan.png", "cp-gan.png"] {
        assert!(place.path("out").join(name).exists());
    }
    let wanted =
        "chain `gan`, seed 1: not made; `s2m reproduce cifar --rows gan --seeds 1` makes it";
    assert!(
        first.missing.iter().any(|m| m == wanted),
        "{:?}",
        first.missing
    );

    // A line that is not in its chain's file is named.
    let file = place.path("out").join("rows/oracle-cgan-pd-seed-0.json");
    fs::write(&file, r#"{"trained":[],"lines":{}}"#).unwrap();
    let part = made(&place, Some(&[]), None);
    let wanted = "chain `oracle-cgan-pd`, seed 0: not made: oracle cGAN-PD (shown the joint class); `s2m reproduce cifar --rows oracle-cgan-pd --seeds 0` makes it";
    assert!(
        part.missing.iter().any(|m| m == wanted),
        "{:?}",
        part.missing
    );
    fs::remove_file(file).unwrap();

    // Lines of another generator are not kept beside those of the one that is there.
    let file = place.path("out").join("rows/ac-gan-seed-0.json");
    let text = fs::read_to_string(&file).unwrap();
    let network = "work/ac-gan-seed-0/cifar-7to3/seed-0/generator.onnx";
    let own = sha256(&fs::read(place.path(network)).unwrap());
    assert!(
        text.starts_with(&format!(r#"{{"generator":"{own}","#)),
        "{text}"
    );
    fs::write(
        &file,
        text.replace(&own, "another").replace("AC-GAN*", "its"),
    )
    .unwrap();
    let remade = made(&place, Some(&rows[1..2]), Some(&Toys));
    assert_eq!(remade.tables[0], first.tables[0]);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(&own) && !text.contains("its"), "{text}");

    // The files of the chains are all that the tables need.
    fs::remove_dir_all(place.path("work")).unwrap();
    let again = made(&place, Some(&[]), None);
    assert_eq!(
        (again.tables, again.missing),
        (remade.tables, remade.missing)
    );
}
