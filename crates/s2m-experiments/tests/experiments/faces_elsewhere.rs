//! `faces-elsewhere` with toys: faces of one colour, whose channels are their labels.

use std::fmt::Write as _;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use s2m::progress::Silent;
use s2m::session::Machine;
use s2m_experiments::{Experiment, Reproduced, Request, reproduce};
use s2m_fit::trainer::{Ended, Job, Kind, Train};
use s2m_model::bundle;
use s2m_model::manifest::{ItemEntry, LabellingEntry, LayoutName, Manifest};
use s2m_model::onnx::{Element, GraphBuilder, Tensor};
use s2m_show::picture::Picture;

use crate::{Place, manifest};

const SHAPE: [usize; 3] = [3, 64, 64];
const PLANE: usize = 64 * 64;
const VALUES: usize = 3 * PLANE;
const LABELS: [&str; 3] = ["Black_Hair", "Male", "Smiling"];

/// Each number of the latent decides one channel.
fn generator() -> Result<Vec<u8>, s2m_model::Error> {
    let mut g = GraphBuilder::new("generator");
    let z = g.input("z", &[3], Element::F32)?;
    let weight = |at: usize| if at / 3 / PLANE == at % 3 { 100.0 } else { 0.0 };
    let weights: Vec<f32> = (0..VALUES * 3).map(weight).collect();
    let weights = g.constant("weight", &[VALUES, 3], &weights)?;
    let bias = g.constant("bias", &[VALUES], &vec![0.0; VALUES])?;
    let x = g.linear(&z, &weights, &bias)?;
    let x = g.tanh(&x)?;
    let x = g.reshape(&x, &SHAPE)?;
    g.output(&x, "x")?;
    Ok(g.to_bytes())
}

/// The first pixel of every channel, times a factor.
fn channels(g: &mut GraphBuilder, factor: f32) -> Result<Tensor, s2m_model::Error> {
    let x = g.input("x", &SHAPE, Element::F32)?;
    let x = g.flatten(&x)?;
    let first = |g: &mut GraphBuilder, at: usize| g.slice(&x, 1, at * PLANE..at * PLANE + 1);
    let (a, b, c) = (first(g, 0)?, first(g, 1)?, first(g, 2)?);
    let all = g.concat(&[&a, &b, &c], 1)?;
    let factor = g.scalar(factor);
    g.mul(&all, &factor)
}

fn referee() -> Result<Vec<u8>, s2m_model::Error> {
    let mut g = GraphBuilder::new("referee");
    let logits = channels(&mut g, 5.0)?;
    g.output(&logits, "label_logits")?;
    Ok(g.to_bytes())
}

/// Labels that an item has share the probability, as none of them do too; but no real item has none.
fn classifier() -> Result<Vec<u8>, s2m_model::Error> {
    let mut g = GraphBuilder::new("classifier");
    let logits = channels(&mut g, 5.0)?;
    g.output(&logits, "class_logits")?;
    // Logits of 5 and −5 add up to −15 where there is no label, and to −5 or more elsewhere.
    let weights = g.constant("real.weight", &[1, 3], &[-1.0; 3])?;
    let bias = g.constant("real.bias", &[1], &[-8.0])?;
    let lacks = g.linear(&logits, &weights, &bias)?;
    let lacks = g.relu(&lacks)?;
    let factor = g.scalar(-2.0);
    let real = g.mul(&lacks, &factor)?;
    g.output(&real, "real_logit")?;
    Ok(g.to_bytes())
}

/// What `s2m fit` would have left.
fn write_bundle(folder: &Path) {
    let item = ItemEntry {
        name: "x".to_owned(),
        layout: Some(LayoutName::Nchw),
        shape: SHAPE.to_vec(),
        range: Some([-1.0, 1.0]),
        bits: Some(8),
    };
    let toy = manifest(item, 3, false);
    let toy = Manifest {
        labels: LABELS.map(str::to_owned).to_vec(),
        labelling: LabellingEntry {
            weights: vec![1.0; 3],
            observed: vec![1.0 / 3.0; 3],
            ..toy.labelling
        },
        ..toy
    };
    let files = bundle::files(&toy, generator().unwrap(), classifier().unwrap()).unwrap();
    bundle::write(folder, &files).unwrap();
}

struct Toys;

impl Train for Toys {
    fn train(&self, job: &Job<'_>) -> Result<Ended, s2m_fit::Error> {
        assert_eq!(job.kind, Kind::Referee);
        fs::create_dir_all(job.out).unwrap();
        fs::copy(job.run_file, job.out.join("run.toml")).unwrap();
        fs::write(job.out.join("referee.onnx"), referee().unwrap()).unwrap();
        fs::write(
            job.out.join("done.json"),
            r#"{"steps": 5, "device": "toy"}"#,
        )
        .unwrap();
        Ok(Ended::Done)
    }
}

/// Faces of every label set, ten times; those of all three labels are for training alone.
fn write_data(folder: &Path) {
    let celeba = folder.join("celeba");
    fs::create_dir_all(celeba.join("img_align_celeba")).unwrap();
    let (mut attributes, mut parts) = (format!("70\n{}\n", LABELS.join(" ")), String::new());
    for item in 0..70_u32 {
        let (set, name) = (item % 7 + 1, format!("{item:06}.jpg"));
        let has = |label: u32| (set >> label) & 1 == 1;
        let values = [0, 1, 2].map(|label| if has(label) { "1" } else { "-1" });
        writeln!(attributes, "{name} {}", values.join(" ")).unwrap();
        let part = match item / 7 {
            0..7 => 0,
            7 => 1,
            _ if set == 7 => 0,
            _ => 2,
        };
        writeln!(parts, "{name} {part}").unwrap();
        let pixel = [0, 1, 2].map(|label| if has(label) { 255 } else { 0 });
        let picture = Picture {
            width: 64,
            height: 64,
            channels: 3,
            bits: 8,
            levels: pixel.repeat(PLANE),
        };
        let path = celeba.join("img_align_celeba").join(name);
        fs::write(path, picture.to_png().unwrap()).unwrap();
    }
    fs::write(celeba.join("list_attr_celeba.txt"), attributes).unwrap();
    fs::write(celeba.join("list_eval_partition.txt"), parts).unwrap();
}

fn made(place: &Place, rows: &[&str], trainer: Option<&dyn Train>) -> Reproduced {
    let (data, work, out) = (place.path("data"), place.path("work"), place.path("out"));
    let rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
    let request = Request {
        experiment: Experiment::FacesElsewhere,
        data: Some(&data),
        work: &work,
        out: &out,
        seeds: None,
        rows: Some(&rows),
        samples: NonZeroUsize::new(100).unwrap(),
        machine: Machine::default(),
    };
    reproduce(&request, trainer, &Silent).unwrap()
}

/// One in eight of the generator's items is of a joint class, and nearly all samples are, adapted or not. What nobody
/// made, what has no file and what has no test item is named.
#[test]
fn a_chain_is_made_and_the_others_are_named() {
    let place = Place::new();
    write_data(&place.path("data"));
    let missing = |made: &Reproduced, wanted: &str| {
        let found = made.missing.iter().any(|line| line == wanted);
        assert!(found, "{wanted}: {:?}", made.missing);
    };
    let how = "`s2m reproduce faces-elsewhere --rows bms-z` makes it";
    let none = made(&place, &["bms-z"], Some(&Toys));
    let why =
        "there is no `faces/random-face-z64.onnx` in the folder of data, which docs/faces.md makes";
    missing(&none, &format!("chain `bms-z`: {why}; {how}"));
    assert_eq!(none.missing.len(), 6);

    let file = place.path("data/faces/random-face-z64.onnx");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, generator().unwrap()).unwrap();
    let none = made(&place, &["bms-z"], None);
    missing(&none, &format!("chain `bms-z`: there is no referee; {how}"));

    write_bundle(&place.path("work/bms-z-seed-0.s2m"));
    let first = made(&place, &["bms-z"], Some(&Toys));
    let rows = &first.tables[0].rows;
    let row = |name: &str| {
        let row = rows.iter().find(|row| row[0] == name);
        row.unwrap_or_else(|| panic!("{name}: {rows:?}"))
    };
    let number = |cell: &str| -> f64 { cell.parse().unwrap() };
    assert_eq!(row("the paper's StyleGAN2 + S2M")[1], "77.18");
    let alone = row("z, generator alone");
    // Seven of eight items have a label, of seven classes.
    assert!((number(&alone[1]) - 12.5).abs() < 2.0, "{alone:?}");
    assert_eq!(alone[3..5], ["1.0", "7 of 7"]);
    for name in ["z, S2M, defaults", "z, S2M, defaults, adapted"] {
        let line = row(name);
        assert!(number(&line[1]) > 95.0, "{line:?}");
        assert_eq!(line[4..], ["7 of 7", "100"]);
    }
    assert_eq!(row("w, generator alone")[1], "-");
    let classes = &first.tables[1].rows;
    let all = classes
        .iter()
        .find(|row| row[0] == "`Black_Hair + Male + Smiling`");
    assert_eq!(all.unwrap()[1..4], ["10", "0", "-"]);
    let one = classes
        .iter()
        .find(|row| row[0] == "`Male - Black_Hair - Smiling`");
    assert_eq!(one.unwrap()[1..4], ["8", "2", "100.00"]);
    missing(
        &first,
        "`Black_Hair + Male + Smiling`: no real test item, 10 for training; how often the referee errs on it is not known",
    );
    missing(
        &first,
        "chain `hbw-w`: not made; `s2m reproduce faces-elsewhere --rows hbw-w` makes it",
    );

    // The file of the chain is all that the tables need.
    fs::remove_dir_all(place.path("work")).unwrap();
    let again = made(&place, &[], None);
    assert_eq!((again.tables, again.missing), (first.tables, first.missing));
}
