//! `s2m fit` from an ONNX generator and a folder of labelled pictures to a bundle, with the trainer in
//! this process.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use s2m::progress::{Progress, Silent};
use s2m_data::recipe::LabellingRecipe;
use s2m_fit::trainer::{Ended, Job, Train};
use s2m_fit::{Answer, Backbone, Request, Training, Way, fit};
use s2m_model::bundle::Bundle;
use s2m_model::onnx::{Element, GraphBuilder};
use s2m_model::probe::Said;
use s2m_train::classifier;
use tempfile::tempdir;

use crate::{OBJECTIVES, machine, picture_settings, train_gan, write_pictures};

/// Trains in this process; what goes wrong is kept.
#[derive(Default)]
struct Here {
    wrong: RefCell<Option<String>>,
}

impl Train for Here {
    fn train(&self, job: &Job<'_>) -> Result<Ended, s2m_fit::Error> {
        let text = fs::read_to_string(job.run_file).unwrap();
        let settings = toml::from_str(&text).unwrap();
        match classifier::train(&settings, job.out, &machine()) {
            Ok(()) => Ok(Ended::Done),
            Err(error) => {
                *self.wrong.borrow_mut() = Some(format!("{error:#}"));
                Ok(Ended::No)
            }
        }
    }
}

/// Notes that were given on the way.
#[derive(Default)]
struct Notes(std::sync::Mutex<Vec<String>>);

impl Progress for Notes {
    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

/// Pictures of bars: at the top in the folder `top`, anywhere in `bar`; larger than the generator's.
fn write_folders(folder: &Path) {
    for (label, count) in [("bar", 160_u32), ("top", 160)] {
        fs::create_dir_all(folder.join(label)).unwrap();
        for n in 0..count {
            let mut levels = vec![0_u8; 56 * 56];
            let at_top = label == "top" || n % 2 == 0;
            let shift = (n / 2 % 9 * 2) as usize;
            for k in 0..56 {
                for wide in shift..shift + 2 {
                    levels[if at_top { wide * 56 + k } else { k * 56 + wide }] =
                        200 + (n % 50) as u8;
                }
            }
            let picture = s2m_show::picture::Picture {
                width: 56,
                height: 56,
                channels: 1,
                bits: 8,
                levels: levels.iter().map(|&level| u16::from(level)).collect(),
            };
            fs::write(
                folder.join(label).join(format!("{n}.png")),
                picture.to_png().unwrap(),
            )
            .unwrap();
        }
    }
}

/// The generator of a short GAN run on small bars.
fn generator(folder: &Path, objective: &str) -> PathBuf {
    let files = folder.join("idx");
    fs::create_dir_all(&files).unwrap();
    write_pictures(&files);
    let out = folder.join("gan");
    train_gan(&picture_settings(&files, objective, "[0]", 20), &out);
    out.join("bars/seed-0/generator.onnx")
}

fn request<'a>(generator: &'a Path, data: &'a Path, out: &'a Path) -> Request<'a> {
    Request {
        generator: Some(generator),
        data,
        out,
        work: None,
        said: Said::default(),
        labelling: Some(LabellingRecipe::OneOf { weights: None }),
        training: Training {
            way: Some(Way::Shared),
            epochs: Some(1),
            batch: Some(64),
            items: Some(300),
            seed: 3,
            ..Training::default()
        },
        onnxruntime: None,
        replace: false,
    }
}

#[test]
fn a_generator_and_folders_of_pictures_become_a_bundle() {
    for (n, objective) in OBJECTIVES[..2].iter().enumerate() {
        let folder = tempdir().unwrap();
        let generator = generator(folder.path(), objective);
        let (data, out) = (folder.path().join("bars"), folder.path().join("mine.s2m"));
        write_folders(&data);
        let (here, notes) = (Here::default(), Notes::default());
        let answer = fit(&request(&generator, &data, &out), &here, &notes).unwrap();
        let Answer::Fitted(fitted) = answer else {
            panic!("{:?}", here.wrong);
        };
        assert_eq!(fitted.bundle, out);
        let said = notes.0.lock().unwrap().join("\n");
        for line in [
            "noise: input `z` of shape [3], standard normal",
            "items: images of 28 by 28 pixels in grey",
            "images are brought to 28 by 28 pixels",
            "data: 259 items for training, 29 held out; labels bar",
        ] {
            assert!(said.contains(line), "`{line}` is not in:\n{said}");
        }
        let bundle = Bundle::open(&out).unwrap();
        let manifest = bundle.manifest();
        assert_eq!(
            (manifest.name.as_str(), manifest.provenance.seed),
            ("mine", Some(3))
        );
        assert_eq!(manifest.labels, ["bar", "top"]);
        // The second one takes a class.
        assert_eq!(manifest.generator.class.is_some(), n == 1);
        assert_eq!(manifest.classifier.outputs.fake_class.is_some(), n == 1);
        let recipe = &manifest.provenance.recipe;
        assert!(
            !recipe.contains(&folder.path().display().to_string()),
            "{recipe}"
        );
        let error = fit(&request(&generator, &data, &out), &here, &Silent).unwrap_err();
        assert!(error.to_string().contains("`force`"), "{error}");
    }
}

#[test]
fn what_does_not_go_together_is_named() {
    let folder = tempdir().unwrap();
    let generator = generator(folder.path(), OBJECTIVES[0]);
    let (data, out) = (folder.path().join("bars"), folder.path().join("mine.s2m"));
    let message = |generator: &Path, data: &Path| {
        fit(&request(generator, data, &out), &Here::default(), &Silent)
            .unwrap_err()
            .to_string()
    };
    fs::create_dir_all(&data).unwrap();
    assert!(message(&generator, &data).contains("a folder of images per label"));
    assert!(message(&data.join("none.onnx"), &data).contains("none.onnx"));
    let points = folder.path().join("points.toml");
    let recipe = "name = \"line\"\nsource = { format = \"illustration\", items = 500 }\nlabelling = { model = \"one-of\" }\n";
    fs::write(&points, recipe).unwrap();
    assert_eq!(
        message(&generator, &points),
        "the generator makes items of shape [1, 28, 28], the data holds items of shape [1]"
    );
}

#[test]
fn all_ways_are_tried_and_one_is_kept() {
    let folder = tempdir().unwrap();
    let generator = generator(folder.path(), OBJECTIVES[0]);
    let (data, out) = (folder.path().join("bars"), folder.path().join("mine.s2m"));
    write_folders(&data);
    let (here, notes) = (Here::default(), Notes::default());
    let mut asked = request(&generator, &data, &out);
    asked.training.way = None;
    asked.training.balance = true;
    let Answer::Fitted(fitted) = fit(&asked, &here, &notes).unwrap() else {
        panic!("{:?}", here.wrong);
    };
    let report = fs::read_to_string(out.join("calibration.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let ways = report["ways"].as_object().unwrap();
    assert_eq!(
        ways.keys().collect::<Vec<_>>(),
        ["frozen", "shared", "smoothed"]
    );
    let decided = fitted.decided.last().unwrap();
    let kept = decided.split('`').nth(1).unwrap();
    assert_eq!(report["way"], ways[kept], "{decided}");
    for (name, way) in ways {
        let number = |value: &serde_json::Value| format!("{:.3}", value.as_f64().unwrap());
        let percent =
            |value: &serde_json::Value| format!("{:.2} %", 100.0 * value.as_f64().unwrap());
        let told = &way["witnesses"];
        let words = format!(
            "{name} AUC {}, {} effective, witnesses {} to {}, {} outside the data",
            number(&way["auc"]),
            percent(&way["effective_share"]),
            number(&told[0]),
            number(&told[1]),
            percent(&way["outside"]),
        );
        assert!(decided.contains(&words), "`{words}` is not in {decided}");
    }
    assert_eq!(report["likeness"]["witnesses"], 3);
    let bundle = Bundle::open(&out).unwrap();
    assert!(
        bundle
            .manifest()
            .provenance
            .recipe
            .contains("balance = true")
    );
    assert!(out.join("calibration.html").is_file());
}

#[test]
fn labels_are_added_to_a_bundle_without_training_its_trunk() {
    let folder = tempdir().unwrap();
    let generator = generator(folder.path(), OBJECTIVES[0]);
    let (data, first) = (folder.path().join("bars"), folder.path().join("first.s2m"));
    write_folders(&data);
    let here = Here::default();
    let answer = fit(&request(&generator, &data, &first), &here, &Silent).unwrap();
    assert!(matches!(answer, Answer::Fitted(_)), "{:?}", here.wrong);
    // A third label on the same kind of pictures.
    fs::create_dir(data.join("upright")).unwrap();
    for n in (1..160).step_by(2) {
        let (from, to) = (
            data.join(format!("bar/{n}.png")),
            data.join(format!("upright/{n}.png")),
        );
        fs::rename(from, to).unwrap();
    }
    let second = folder.path().join("second.s2m");
    let mut asked = request(&generator, &data, &second);
    asked.generator = None;
    asked.training.backbone = Some(Backbone::Of(first.clone()));
    let answer = fit(&asked, &here, &Silent).unwrap();
    assert!(matches!(answer, Answer::Fitted(_)), "{:?}", here.wrong);
    let [first, second] = [&first, &second].map(|path| Bundle::open(path).unwrap());
    assert_eq!(second.manifest().labels, ["bar", "top", "upright"]);
    // The generator is the same to the last bit.
    let file = |bundle: &Bundle| bundle.manifest().generator.sha256.clone();
    assert_eq!(file(&first), file(&second));
    let recipe = &second.manifest().provenance.recipe;
    assert!(recipe.contains("kind = \"onnx\""), "{recipe}");
    // A network without a value of that name.
    let mut asked = request(&generator, &data, folder.path());
    let third = folder.path().join("third.s2m");
    asked.out = &third;
    asked.training.backbone = Some(Backbone::File {
        file: generator.clone(),
        features: Some("features".to_owned()),
        range: None,
    });
    let answer = fit(&asked, &here, &Silent);
    assert!(!matches!(answer, Ok(Answer::Fitted(_))));
    let wrong = here.wrong.borrow().clone().unwrap_or_default();
    assert!(wrong.contains("features"), "{wrong}");
    assert!(!third.exists());
}

#[test]
fn a_recipe_with_classes_is_fitted() {
    let folder = tempdir().unwrap();
    let generator = generator(folder.path(), OBJECTIVES[0]);
    let (data, out) = (
        folder.path().join("bars.toml"),
        folder.path().join("mine.s2m"),
    );
    let recipe = format!(
        "name = \"bars\"\nlabelling = {{ model = \"one-of\" }}\nvalidation = 0.2\nsource = {{ format = \"idx\", folder = {:?} }}\nclasses = [{{ name = \"any\", of = [0, 1] }}, {{ name = \"one\", of = [1] }}]\n",
        folder.path().join("idx").display().to_string()
    );
    fs::write(&data, recipe).unwrap();
    let here = Here::default();
    let answer = fit(&request(&generator, &data, &out), &here, &Silent).unwrap();
    assert!(matches!(answer, Answer::Fitted(_)), "{:?}", here.wrong);
    assert_eq!(
        Bundle::open(&out).unwrap().manifest().labels,
        ["any", "one"]
    );
}

/// Noise of three numbers to 784 numbers in a row.
fn flat_generator(path: &Path) {
    let mut g = GraphBuilder::new("generator");
    let z = g.input("z", &[3], Element::F32).unwrap();
    let weights: Vec<f32> = (0..784 * 3)
        .map(|k| ((k * 7) % 11) as f32 / 5.0 - 1.0)
        .collect();
    let weight = g.constant("weight", &[784, 3], &weights).unwrap();
    let bias = g.constant("bias", &[784], &[0.0; 784]).unwrap();
    let y = g.linear(&z, &weight, &bias).unwrap();
    let y = g.tanh(&y).unwrap();
    g.output(&y, "x").unwrap();
    fs::write(path, g.to_bytes()).unwrap();
}

#[test]
fn a_generator_of_flat_pictures_is_fitted_and_labels_are_added_to_it() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    flat_generator(&path("flat.onnx"));
    fs::create_dir_all(path("idx")).unwrap();
    write_pictures(&path("idx"));
    let recipe = format!(
        "name = \"bars\"\nlabelling = {{ model = \"one-of\" }}\nvalidation = 0.2\nsource = {{ format = \"idx\", folder = {:?} }}\nclasses = [{{ name = \"any\", of = [0, 1] }}, {{ name = \"one\", of = [1] }}]\n",
        path("idx").display().to_string()
    );
    fs::write(path("bars.toml"), recipe).unwrap();
    let (generator, data, here) = (path("flat.onnx"), path("bars.toml"), Here::default());
    let (first, second) = (path("first.s2m"), path("second.s2m"));
    let mut asked = request(&generator, &data, &first);
    for (out, from) in [(&first, None), (&second, Some(first.clone()))] {
        asked.out = out;
        if let Some(model) = from {
            asked.generator = None;
            asked.training.backbone = Some(Backbone::Of(model));
        }
        let Answer::Fitted(fitted) = fit(&asked, &here, &Silent).unwrap() else {
            panic!("{:?}", here.wrong);
        };
        let wanted = "items: 784 numbers each, taken as images of 28 by 28 pixels in grey (NCHW), as in the data, values from -1 to 1";
        assert!(
            fitted.decided.iter().any(|line| line == wanted),
            "{fitted:?}"
        );
        let bundle = Bundle::open(out).unwrap();
        let item = &bundle.manifest().generator.output;
        assert_eq!(item.picture_size(), Some([28, 28, 1]));
    }
}
