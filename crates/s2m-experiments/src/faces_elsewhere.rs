//! A generator of StyleGAN2's kind from elsewhere, for faces: the paper's three triples of labels, with latents in z
//! and in w.
//!
//! The generator's files are made by `docs/export/random_face.py`. Labels, and the referee that judges them, come from
//! CelebA, cut as FFHQ frames faces. A chain is one triple and one kind of latent; it ends in a small file under
//! `rows`, so that chains can be made on different days. What is missing is named.

mod measure;
mod shown;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use s2m::output::write_whole;
use s2m_fit::Network;
use s2m_fit::trainer::Kind;
use serde::{Deserialize, Serialize};

use super::fits::{self, Court, Fit, Source};
use super::report::Findings;
use super::stages::{Run, Stage};
use super::{Bench, evaluation::Evaluator};
use crate::Error;

use measure::{From, Of, Workshop};

/// The seed of all fits.
const SEED: u64 = 0;

/// Proposals in a bank, per sample, and so the most calls that a sample may take: a call is dear.
const BANK: NonZeroUsize = NonZeroUsize::new(100).expect("100 is not zero");

/// The generator by the kind of its latents.
const FILES: [&str; 2] = ["faces/random-face-z64.onnx", "faces/random-face-w64.onnx"];

/// Three labels, and the paper's accuracy of them on StyleGAN2.
#[derive(Debug, Clone, Copy)]
struct Triple {
    /// As in the names of its data and its chains.
    title: &'static str,
    data: &'static str,
    referee: Stage,
    /// In %, before S2M and after.
    published: [f64; 2],
    /// One for each of the files.
    chains: [Fit; 2],
}

macro_rules! triple {
    ($name:literal, $title:literal, $published:expr) => {
        Triple {
            title: $title,
            data: concat!("faces-", $name),
            referee: Stage {
                name: concat!("referee-", $name),
                kind: Kind::Referee,
                template: include_str!(concat!(
                    "../../../experiments/faces-elsewhere/referee-",
                    $name,
                    ".toml"
                )),
            },
            published: $published,
            chains: [
                chain(concat!($name, "-z"), "z", FILES[0]),
                chain(concat!($name, "-w"), "w", FILES[1]),
            ],
        }
    };
}

const fn chain(name: &'static str, latent: &'static str, file: &'static str) -> Fit {
    Fit::learnt(name, latent, Source::File(file), Some(Network::Resnet9))
}

const TRIPLES: [Triple; 3] = [
    triple!("bms", "Black_Hair, Male, Smiling", [15.44, 77.18]),
    triple!(
        "bbm",
        "Brown_Hair, Bushy_Eyebrows, Mouth_Slightly_Open",
        [18.41, 74.97]
    ),
    triple!(
        "hbw",
        "High_Cheekbones, Bags_Under_Eyes, Wavy_Hair",
        [12.68, 70.94]
    ),
];

/// Every network that a run file states.
#[cfg(test)]
pub(super) const REFEREES: [Stage; 3] =
    [TRIPLES[0].referee, TRIPLES[1].referee, TRIPLES[2].referee];

/// What every chain is drawn with, in the order of the table.
const LINES: [(&str, From); 4] = [
    ("generator alone", From::Alone),
    ("S2M, floor 0", From::Bank { floor: Some(0.0) }),
    ("S2M, defaults", From::Bank { floor: None }),
    ("S2M, defaults, adapted", From::Adapted),
];

/// What a chain leaves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Made {
    /// Every line by its name, with every joint class by its query; null where it gave no samples.
    lines: BTreeMap<String, BTreeMap<String, Option<Of>>>,
    /// Every joint class by its query.
    items: BTreeMap<String, Items>,
    /// Samples of each joint class.
    samples: usize,
}

/// What the data has of a joint class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Items {
    train: usize,
    test: usize,
    /// Share of its test items that the referee finds right; none where there is no test item.
    referee: Option<f64>,
}

/// A chain that was made, or why it was not.
struct Link {
    fit: Fit,
    made: Result<Made, String>,
}

pub(super) fn run(bench: &Bench<'_>) -> Result<Findings, Error> {
    check_seeds(bench)?;
    let mut tables = Vec::new();
    let mut missing = Vec::new();
    let mut runs = Vec::new();
    for triple in &TRIPLES {
        let mut workshop = None;
        let mut links = Vec::new();
        for fit in triple.chains {
            let made = link(bench, triple, fit, &mut workshop, &mut runs)?;
            links.push(Link { fit, made });
        }
        tables.extend(shown::tables(triple, &links));
        missing.extend(shown::missing(&links));
    }
    Ok(Findings {
        title: "A generator from elsewhere: MobileStyleGAN on faces",
        preface: vec![format!(
            "`s2m fit` for MobileStyleGAN of PyPI's `random-face`, which was distilled from StyleGAN2 on FFHQ, made a file by [random_face.py](../../docs/export/random_face.py) with images averaged to 64 × 64 pixels. z: its own latents; w: a normal law in the place of its styles, so not quite the same generator. Labels are those of 30,000 images of CelebA, one label per image, cut as FFHQ frames faces; the paper had all 202,599, at 256 × 256 pixels, and a larger generator, so that its figures are a landmark. Right: the referee, a ResNet-9 that judges each label apart and was shown all labels, agrees with all three; means over the joint classes that CelebA's training items have and that gave samples. It was trained on CelebA, and judges another generator's faces. Generator alone: every item counts for every joint class, as in the paper. Adapted: `--adapt adaptive`, its search among the calls. At most {BANK} calls per sample."
        )],
        seeds: vec![SEED],
        runs,
        tables,
        missing,
        pictures: Vec::new(),
    })
}

/// There is one seed, which may be asked for.
fn check_seeds(bench: &Bench<'_>) -> Result<(), Error> {
    let asked = bench.request.seeds.into_iter().flatten();
    match asked.copied().find(|seed| *seed != SEED) {
        None => Ok(()),
        Some(seed) => Err(Error::UnknownSeed {
            seed,
            known: SEED.to_string(),
        }),
    }
}

/// A chain, made now where it is asked for, or as an earlier run has left it.
fn link<'b>(
    bench: &'b Bench<'b>,
    triple: &Triple,
    fit: Fit,
    workshop: &mut Option<Workshop<'b>>,
    runs: &mut Vec<Run>,
) -> Result<Result<Made, String>, Error> {
    let folder = bench.request.out.join("rows");
    let path = folder.join(format!("{}-seed-{SEED}.json", fit.name));
    let kept: Option<Made> = read(&path);
    let wanted = match bench.request.rows {
        Some(rows) => rows.iter().any(|row| row == fit.name),
        None => kept.is_none(),
    };
    let (true, Some(data)) = (wanted, bench.request.data) else {
        return Ok(kept.ok_or_else(|| how(fit, "not made")));
    };
    let Source::File(file) = fit.generator else {
        unreachable!("every chain has a file");
    };
    if !data.join(file).is_file() {
        let why = format!("there is no `{file}` in the folder of data, which docs/faces.md makes");
        return Ok(kept.ok_or_else(|| how(fit, &why)));
    }
    if workshop.is_none() {
        *workshop = open(bench, triple, runs)?;
    }
    let Some(workshop) = workshop else {
        return Ok(kept.ok_or_else(|| how(fit, "there is no referee")));
    };
    let Some(bundle) = fits::fitted(bench, fit, &workshop.recipe, SEED)? else {
        return Ok(kept.ok_or_else(|| how(fit, "not trained")));
    };
    let made = workshop.make(&bundle)?;
    let text = serde_json::to_string(&made).expect("figures are plain");
    fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
    write_whole(&path, (text + "\n").as_bytes())?;
    Ok(Ok(made))
}

/// Why a chain is missing, and what makes it.
fn how(fit: Fit, why: &str) -> String {
    let name = fit.name;
    format!("chain `{name}`: {why}; `s2m reproduce faces-elsewhere --rows {name}` makes it")
}

fn read(path: &Path) -> Option<Made> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Referee and data of a triple; none where there is no referee and nobody trains one.
fn open<'b>(
    bench: &'b Bench<'b>,
    triple: &Triple,
    runs: &mut Vec<Run>,
) -> Result<Option<Workshop<'b>>, Error> {
    let Some(referee) = bench.place.finish(&triple.referee)? else {
        return Ok(None);
    };
    let file = bench.place.run_file(&triple.referee)?;
    let recipe = file
        .recipe(triple.data)
        .expect("a test looks for the data set")
        .clone();
    let data = recipe.load()?;
    let court = Court::of_labels(bench, &referee, &data.train)?;
    runs.push(referee);
    let evaluator = Evaluator {
        most_calls: BANK.get(),
        ..bench.evaluator(BANK)
    };
    Ok(Some(Workshop {
        evaluator,
        court,
        recipe,
        data,
    }))
}

#[cfg(test)]
mod tests {
    use s2m_data::celeba::Celeba;
    use s2m_data::framing::Framing;
    use s2m_data::recipe;

    use super::*;
    use crate::stages;

    #[test]
    fn every_triple_has_its_labels_cut_as_the_generator_frames_faces() {
        for triple in &TRIPLES {
            let file = stages::outline(&triple.referee);
            let recipe = file.recipe(triple.data).unwrap();
            let recipe::Source::Celeba(Celeba {
                labels,
                framing,
                size,
                ..
            }) = recipe.source.clone()
            else {
                panic!("{} is not of CelebA", triple.data);
            };
            assert_eq!(labels.join(", "), triple.title);
            assert_eq!(framing, Some(Framing::Ffhq));
            assert_eq!(size.unwrap().map(u32::from), [64, 64]);
        }
    }

    #[test]
    fn chains_are_told_apart_and_named_after_their_triple_and_latent() {
        let chains = TRIPLES.iter().flat_map(|triple| triple.chains);
        let names: Vec<&str> = chains.map(|fit| fit.name).collect();
        assert_eq!(
            names,
            ["bms-z", "bms-w", "bbm-z", "bbm-w", "hbw-z", "hbw-w"]
        );
        for triple in &TRIPLES {
            for (fit, file) in triple.chains.iter().zip(FILES) {
                assert!(fit.name.starts_with(&triple.data["faces-".len()..]));
                assert!(fit.name.ends_with(fit.title));
                assert_eq!(fit.generator, Source::File(file));
            }
        }
    }
}
