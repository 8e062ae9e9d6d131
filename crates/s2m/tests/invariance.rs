//! The same samples whatever the threads, batches, wiring or bank behind them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use prost::Message as _;
use s2m::mine;
use s2m::output::Existing;
use s2m::progress::Silent;
use s2m::sample::{Request, Wanted, sample};
use s2m::samplers::SamplerChoice;
use s2m::session::Machine;
use s2m::settings::SampleSettings;
use s2m_core::proposals::Proposals;
use s2m_model::bundle::{self, Generator};
use s2m_model::manifest::{GeneratorEntry, ItemEntry, LatentEntry, LayoutName, Prior};
use s2m_model::networks::{Renderer, Requested, RunSettings, Scorer, Wiring};
use s2m_model::onnx::proto::{DimensionValue, TypeValue};
use s2m_model::onnx::{Element, GraphBuilder, ModelProto};
use s2m_model::runtime::Runtime;
use s2m_testkit::exact::{self, Files, ToyGenerator, ToyLabels};
use s2m_testkit::pictures::{Kind, pictures};
use tempfile::TempDir;

fn count(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

fn request<'a>(model: &'a Path, query: &'a str, out: &'a Path) -> Request<'a> {
    Request {
        model,
        wanted: Wanted::Query(query),
        samples: count(300),
        settings: SampleSettings {
            seed: Some(3),
            latents: true,
            ..SampleSettings::default()
        },
        machine: Machine::default(),
        bank: None,
        proposal: None,
        out,
        existing: Existing::Keep,
    }
}

/// Everything in a folder but how long it took and where rows came from.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    s2m_testkit::folder::contents(folder, &["seconds", "from_bank"])
}

/// A toy written to disk, pictures or points.
fn written(files: &[(String, Vec<u8>)], root: &TempDir) -> PathBuf {
    let folder = root.path().join("toy.s2m");
    bundle::write(&folder, files).unwrap();
    folder
}

fn kind(conditional: bool) -> Kind {
    Kind {
        layout: LayoutName::Nhwc,
        range: [0.0, 1.0],
        bits: 8,
        conditional,
    }
}

#[test]
fn threads_batches_and_wiring_change_no_byte() {
    let toys = [
        exact::toy(ToyLabels::PerClass, ToyGenerator::Plain),
        exact::toy(ToyLabels::OneOf, ToyGenerator::Conditional),
        pictures(kind(false)),
        pictures(kind(true)),
    ];
    for files in toys {
        let root = tempfile::tempdir().unwrap();
        let model = written(&files, &root);
        let machines = [
            RunSettings {
                threads: count(1),
                ..RunSettings::default()
            },
            RunSettings {
                threads: count(2),
                ..RunSettings::default()
            },
            RunSettings {
                threads: count(2),
                batch: Some(count(7)),
                ..RunSettings::default()
            },
            RunSettings {
                threads: count(2),
                wiring: Wiring::Chained,
                ..RunSettings::default()
            },
            RunSettings {
                threads: count(1),
                batch: Some(count(1000)),
                wiring: Wiring::Chained,
                ..RunSettings::default()
            },
        ];
        let mut first = None;
        for (at, run) in machines.into_iter().enumerate() {
            let out = root.path().join(format!("out{at}"));
            let machine = Machine {
                run,
                onnxruntime: None,
            };
            let answers = sample(
                &Request {
                    machine,
                    ..request(&model, "A", &out)
                },
                &Silent,
            )
            .unwrap();
            assert!(answers[0].is_ok());
            let found = contents(&out);
            assert!(found.len() >= 5, "points, table, grid, report and latents");
            let expected = first.get_or_insert_with(|| found.clone());
            assert!(*expected == found, "machine {at}");
        }
    }
}

#[test]
fn joined_and_chained_networks_give_the_same_logits() {
    let runtime = Runtime::load(None).unwrap();
    for files in [
        exact::toy(ToyLabels::PerClass, ToyGenerator::Conditional),
        pictures(kind(true)),
    ] {
        let bundle = exact::open(&files);
        let numbers: Vec<u64> = (0..1000).collect();
        let classes: Vec<u32> = numbers.iter().map(|k| (k % 2) as u32).collect();
        let score = |wiring| {
            let settings = RunSettings {
                wiring,
                ..RunSettings::default()
            };
            let scorer = Scorer::open(&bundle, &runtime, &settings).unwrap();
            assert_eq!(scorer.wiring(), wiring);
            let requested = Requested {
                mixture: None,
                proposals: Proposals::new(1),
                numbers: &numbers,
                classes: &classes,
            };
            scorer.score(requested).unwrap()
        };
        assert_eq!(score(Wiring::Joined), score(Wiring::Chained));
    }
}

/// The files with a batch of this size written into every input of one network.
fn with_fixed_batch(mut files: Files, which: usize, batch: i64) -> Files {
    let mut model = ModelProto::decode(files[which].1.as_slice()).unwrap();
    for input in &mut model.graph.as_mut().unwrap().input {
        let kind = input.r#type.as_mut().unwrap().value.as_mut().unwrap();
        let TypeValue::Tensor(tensor) = kind else {
            panic!("inputs are tensors")
        };
        tensor.shape.as_mut().unwrap().dim[0].value = Some(DimensionValue::DimValue(batch));
    }
    let (old, new) = (bundle::sha256(&files[which].1), model.encode_to_vec());
    let text = String::from_utf8(files[0].1.clone()).unwrap();
    files[0].1 = text.replace(&old, &bundle::sha256(&new)).into_bytes();
    files[which].1 = new;
    files
}

#[test]
fn networks_exported_for_a_fixed_batch_give_the_same_logits() {
    let runtime = Runtime::load(None).unwrap();
    let open = |files: &Files| Scorer::open(&exact::open(files), &runtime, &RunSettings::default());
    let numbers: Vec<u64> = (0..50).collect();
    let score = |scorer: Scorer| {
        let proposals = Proposals::new(1);
        let requested = Requested {
            mixture: None,
            proposals,
            numbers: &numbers,
            classes: &[],
        };
        scorer.score(requested).unwrap()
    };
    let files = exact::gaussians_exact();
    let half = with_fixed_batch(files.clone(), 1, 4);
    let fixed = open(&with_fixed_batch(half.clone(), 2, 4)).unwrap();
    assert_eq!(fixed.batch(), 4);
    assert_eq!(score(fixed), score(open(&files).unwrap()));
    assert_eq!(
        open(&with_fixed_batch(half, 2, 8)).unwrap_err().to_string(),
        "the generator was exported for batches of 4 and the classifier for 8\nhint: export both with a dynamic first axis"
    );
}

/// A copy for every core, each with eight large images on their way through it, is more than many machines hold.
#[test]
fn large_items_share_one_copy_of_the_networks() {
    let runtime = Runtime::load(None).unwrap();
    let rounds = |side: usize| {
        let mut g = GraphBuilder::new("generator");
        let z = g.input("z", &[1, side, side], Element::F32).unwrap();
        let x = g.tanh(&z).unwrap();
        g.output(&x, "x").unwrap();
        let latents = vec![LatentEntry {
            input: "z".to_owned(),
            shape: vec![1, side, side],
            prior: Prior::Normal,
        }];
        let root = tempfile::tempdir().unwrap();
        let bytes = g.to_bytes();
        let entry = GeneratorEntry {
            file: "generator.onnx".to_owned(),
            sha256: bundle::sha256(&bytes),
            latents,
            class: None,
            output: ItemEntry {
                name: "x".to_owned(),
                layout: Some(LayoutName::Nchw),
                shape: vec![1, side, side],
                range: Some([-1.0, 1.0]),
                bits: Some(8),
            },
        };
        fs::write(root.path().join(&entry.file), &bytes).unwrap();
        let file = root.path().join("generator.toml");
        fs::write(&file, toml::to_string(&entry).unwrap()).unwrap();
        let generator = Generator::open(&file).unwrap();
        let renderer = Renderer::of(generator.part(), &runtime, &RunSettings::default()).unwrap();
        renderer.round()
    };
    let copies = RunSettings::default().threads.get();
    assert_eq!(rounds(256), 8 * copies);
    assert_eq!(rounds(257), 8);
}

#[test]
fn a_bank_gives_the_same_samples_and_goes_on_where_it_ends() {
    for files in [
        exact::toy(ToyLabels::PerClass, ToyGenerator::Plain),
        pictures(kind(false)),
    ] {
        let root = tempfile::tempdir().unwrap();
        let model = written(&files, &root);
        let fresh = root.path().join("fresh");
        sample(&request(&model, "A", &fresh), &Silent).unwrap();
        for (at, rows) in [100, 100_000].into_iter().enumerate() {
            let bank = root.path().join(format!("bank{at}"));
            let mined = mine::Request {
                model: &model,
                proposals: count(rows),
                piece: mine::Piece::default(),
                seed: 3,
                machine: Machine::default(),
                out: &bank,
            };
            mine::mine(&mined, &Silent).unwrap();
            let out = root.path().join(format!("out{at}"));
            let mut from_bank = Request {
                bank: Some(&bank),
                ..request(&model, "A", &out)
            };
            from_bank.settings.seed = Some(3);
            sample(&from_bank, &Silent).unwrap();
            assert_eq!(contents(&fresh), contents(&out), "bank of {rows}");
        }
    }
}

/// With a class input a bank cycles through the classes, and a query takes the ones it needs.
#[test]
fn a_bank_of_a_conditional_generator_serves_every_query() {
    let root = tempfile::tempdir().unwrap();
    let model = written(
        &exact::toy(ToyLabels::PerClass, ToyGenerator::Conditional),
        &root,
    );
    let bank = root.path().join("bank");
    let mined = mine::Request {
        model: &model,
        proposals: count(5000),
        piece: mine::Piece::default(),
        seed: 3,
        machine: Machine::default(),
        out: &bank,
    };
    mine::mine(&mined, &Silent).unwrap();
    for (at, query) in ["A - B", "B", "A | B"].into_iter().enumerate() {
        let out = root.path().join(format!("out{at}"));
        let answers = sample(
            &Request {
                bank: Some(&bank),
                ..request(&model, query, &out)
            },
            &Silent,
        )
        .unwrap();
        let report = answers.into_iter().next().unwrap().unwrap();
        assert_eq!(report.samples, 300);
        let table = fs::read_to_string(out.join("metadata.csv")).unwrap();
        for line in table.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let (number, class): (u64, &str) = (fields[5].parse().unwrap(), fields[7]);
            assert_eq!(class, ["A", "B"][(number % 2) as usize]);
            assert!(
                query != "A - B" || class == "A",
                "the query needs class A alone"
            );
        }
    }
}

#[test]
fn all_joint_classes_come_out_of_one_pool() {
    let root = tempfile::tempdir().unwrap();
    for (at, generator) in [ToyGenerator::Plain, ToyGenerator::Conditional]
        .into_iter()
        .enumerate()
    {
        let model = written(&exact::toy(ToyLabels::OneOf, generator), &root);
        let out = root.path().join(format!("all{at}"));
        let answers = sample(
            &Request {
                wanted: Wanted::AllJoint,
                ..request(&model, "", &out)
            },
            &Silent,
        )
        .unwrap();
        assert_eq!(answers.len(), 3);
        let table = fs::read_to_string(out.join("metadata.csv")).unwrap();
        assert_eq!(table.lines().count(), 901);
        assert!(table.starts_with("query,file_name,A,B,p_A,p_B,proposal,log_weight"));
        for folder in ["A-B", "B-A", "A+B"] {
            for file in ["samples.npy", "metadata.csv", "grid.png", "report.json"] {
                assert!(out.join(folder).join(file).exists(), "{folder}/{file}");
            }
        }
    }
}

#[test]
fn purity_picks_a_floor_and_reaches_it() {
    let root = tempfile::tempdir().unwrap();
    let model = written(&pictures(kind(false)), &root);
    let out = root.path().join("plain");
    let purity = |out: &Path, purity| {
        let mut request = Request {
            samples: count(1000),
            ..request(&model, "A - \"B-c\"", out)
        };
        request.settings.overrides.purity = purity;
        request.settings.sampler = SamplerChoice::Reject { tv: 0.05 };
        sample(&request, &Silent).unwrap().remove(0).unwrap()
    };
    let plain = purity(&out, None);
    assert!(plain.predicted_purity < 0.6, "{}", plain.predicted_purity);
    let pure = purity(&root.path().join("pure"), Some(0.7));
    assert!(
        (pure.predicted_purity - 0.7).abs() < 0.02,
        "{}",
        pure.predicted_purity
    );
    assert!(pure.calibration.floor > 0.0 && pure.support_share < plain.support_share);
    // A floor of the bundle gives way, also where it would reach more than the wish.
    let out = root.path().join("floored");
    let mut floored = Request {
        samples: count(1000),
        ..request(&model, "A - \"B-c\"", &out)
    };
    floored.settings.overrides.floor = Some(0.8);
    floored.settings.overrides.purity = Some(0.7);
    floored.settings.sampler = SamplerChoice::Reject { tv: 0.05 };
    let floored = sample(&floored, &Silent).unwrap().remove(0).unwrap();
    assert_eq!(floored.calibration.floor, pure.calibration.floor);
}
