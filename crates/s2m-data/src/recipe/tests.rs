use std::env;
use std::fs;

use s2m_core::labels::LabelSet;

use super::*;
use crate::dataset::Values;
use crate::made::{files, npy, png, real_data};
use crate::six_labels;

const TOY: &str = r#"
        name = "toy"
        source = { format = "gaussians", items = 2000 }
        labelling = { model = "one-of" }
    "#;

fn mnist(folder: &Path) -> DataRecipe {
    let text = r#"
            name = "mnist-even"
            source = { format = "idx", folder = "FOLDER" }
            classes = [
                { name = "Z", of = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] },
                { name = "B", of = [1, 3, 5, 7, 9] },
            ]
            describe = { Z = "any digit", B = "odd digit" }
            labelling = { model = "one-of", weights = [1.0, 3.0] }
            validation = 0.25
            seed = 7
            licence = "CC BY-SA 3.0"
        "#;
    parse(&text.replace("FOLDER", folder.to_str().unwrap()))
}

fn parse(text: &str) -> DataRecipe {
    toml::from_str(text).unwrap()
}

fn toy(change: impl FnOnce(&mut DataRecipe)) -> DataRecipe {
    let mut recipe = parse(TOY);
    change(&mut recipe);
    recipe
}

fn message(recipe: &DataRecipe) -> String {
    recipe.load().unwrap_err().to_string()
}

/// Idx files of 1×1 pictures whose pixel is their digit.
fn write_idx(folder: &Path, part: &str, digits: &[u8]) {
    let n = digits.len() as u8;
    let images = [&[0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, 1, 0, 0, 0, 1], digits];
    let labels = [&[0, 0, 8, 1, 0, 0, 0, n], digits];
    let path = |name| folder.join(format!("{part}-{name}"));
    fs::write(path("images-idx3-ubyte"), images.concat()).unwrap();
    fs::write(path("labels-idx1-ubyte"), labels.concat()).unwrap();
}

#[test]
fn a_toy_does_not_fill_the_memory() {
    let recipe: DataRecipe = toml::from_str(
            "name = \"x\"\nsource = { format = \"gaussians\", items = 4000000000 }\nlabelling = { model = \"per-class\" }",
        )
        .unwrap();
    assert_eq!(
        recipe.load().unwrap_err().to_string(),
        "`gaussians` is asked for 4000000000 items; 10000000 are the most"
    );
}

#[test]
fn a_name_cannot_lead_out_of_a_folder() {
    for name in ["", "../x", "/x", "a b", "a\nb", ".x"] {
        let mut recipe: DataRecipe = toml::from_str(
                "name = \"x\"\nsource = { format = \"gaussians\", items = 100 }\nlabelling = { model = \"per-class\" }",
            )
            .unwrap();
        recipe.name = name.to_owned();
        let text = recipe.load().unwrap_err().to_string();
        assert!(
            text.starts_with(&format!("data cannot be called `{name}`")),
            "{text}"
        );
    }
}

#[test]
fn recipes_survive_being_written() {
    let toys = ["gaussians", "illustration"].map(|name| TOY.replace("gaussians", name));
    let per_class = TOY.replace("one-of", "per-class");
    let mut recipes: Vec<_> = toys.iter().chain([&per_class]).map(|t| parse(t)).collect();
    recipes.push(mnist(Path::new("data/mnist")));
    for recipe in recipes {
        let text = toml::to_string(&recipe).unwrap();
        assert_eq!(parse(&text), recipe, "{text}");
    }
}

#[test]
fn missing_keys_take_their_defaults() {
    let recipe = parse(TOY);
    assert_eq!((recipe.validation, recipe.seed), (0.1, 0));
    assert_eq!(
        recipe.labelling.view(2),
        View::OneOf {
            weights: vec![1.0, 1.0]
        }
    );
}

#[test]
fn a_misspelt_key_is_an_error_and_names_the_key() {
    for (right, wrong, named) in [
        ("name =", "nmae =", "unknown field `nmae`"),
        ("items =", "itmes =", "unknown field `itmes`"),
        ("items = 2000", "items = 0", "nonzero"),
        (
            "\"gaussians\"",
            "\"gausians\"",
            "unknown variant `gausians`",
        ),
        ("\"one-of\"", "\"oneof\"", "unknown variant `oneof`"),
        (
            "\"one-of\"",
            "\"one-of\", weight = [1.0]",
            "unknown field `weight`",
        ),
        (
            "\"one-of\"",
            "\"per-class\", weights = [1.0]",
            "unknown field `weights`",
        ),
    ] {
        let text = TOY.replace(right, wrong);
        let error = toml::from_str::<DataRecipe>(&text).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
    let class = "classes = [{ name = \"A\", fo = [1] }]";
    let error = toml::from_str::<DataRecipe>(&format!("{TOY}\n{class}")).unwrap_err();
    assert!(error.to_string().contains("unknown field `fo`"), "{error}");
}

#[test]
fn files_become_data_with_labels_in_the_order_written() {
    let folder = tempfile::tempdir().unwrap();
    write_idx(folder.path(), "train", &[1, 2, 11, 3, 4, 5, 6, 7, 8]);
    write_idx(folder.path(), "t10k", &[12, 9]);
    let recipe = mnist(folder.path());
    let data = recipe.load().unwrap();
    assert_eq!(data.train.labels.names().collect::<Vec<_>>(), ["Z", "B"]);
    assert_eq!(data.train.original, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(data.train.items.values, Values::Bytes((1..=8).collect()));
    assert_eq!(data.test.original, [9]);
    assert_eq!(
        (data.split.train.len(), data.split.validation.len()),
        (6, 2)
    );
    let items = |shown: &[Positive]| shown.iter().map(|p| p.item).collect::<Vec<_>>();
    assert_eq!(items(&data.positives), data.split.train);
    assert_eq!(items(&data.validation_positives), data.split.validation);
    for shown in data.positives.iter().chain(&data.validation_positives) {
        let truth = data.train.truth[shown.item as usize];
        assert!(truth.contains(shown.label.into()));
    }
    assert_eq!(data.observed, observed(&data.positives, 2));
    assert_eq!(recipe.load().unwrap(), data);
}

#[test]
fn toys_have_a_test_part_of_their_own() {
    for format in ["gaussians", "illustration"] {
        let data = parse(&TOY.replace("gaussians", format)).load().unwrap();
        assert_eq!((data.train.len(), data.test.len()), (2000, 10_000));
        assert_eq!(data.split.validation.len(), 200);
        assert_eq!(data.positives.len(), 1800);
        let first: Vec<u32> = (0..2000).collect();
        assert_ne!(data.test.items.select(&first), data.train.items);
    }
    let drawn = parse(TOY).load().unwrap().train;
    assert_eq!(drawn, gaussians::draw(2000, 0));
}

#[test]
fn per_class_shows_exactly_the_items_of_each_label() {
    let data = toy(|r| r.labelling = LabellingRecipe::PerClass {})
        .load()
        .unwrap();
    for label in 0..2u8 {
        let shown = data.positives.iter().filter(|p| p.label == label);
        let has = |item: &&u32| data.train.truth[**item as usize].contains(label.into());
        assert!(
            shown
                .map(|p| p.item)
                .eq(data.split.train.iter().filter(has).copied())
        );
    }
}

/// The share of wrong labels, within five standard errors, and all else as it was.
#[test]
fn wrong_labels_are_shown_in_training_and_validation() {
    let clean = toy(|_| ()).load().unwrap();
    let dirty = toy(|r| r.wrong_labels = 0.25).load().unwrap();
    assert_eq!((&dirty.train, &dirty.test), (&clean.train, &clean.test));
    assert_eq!(dirty.split, clean.split);
    assert_eq!(dirty.observed, observed(&dirty.positives, 2));
    let truth = &clean.train.truth;
    for (dirty, clean) in [
        (&dirty.positives, &clean.positives),
        (&dirty.validation_positives, &clean.validation_positives),
    ] {
        let (mut partial, mut wrong) = (0usize, 0usize);
        for (dirty, positive) in dirty.iter().zip(clean) {
            assert_eq!(dirty.item, positive.item);
            let set = truth[dirty.item as usize];
            partial += usize::from(set.len() < 2);
            wrong += usize::from(!set.contains(dirty.label.into()));
            assert!(dirty == positive || !set.contains(dirty.label.into()));
        }
        let (wanted, partial) = (0.25, partial as f64);
        let error = (wanted * (1.0 - wanted) / partial).sqrt();
        assert!((wrong as f64 / partial - wanted).abs() <= 5.0 * error);
    }
    for share in [-0.1, 1.0, f64::NAN] {
        assert_eq!(
            message(&toy(|r| r.wrong_labels = share)),
            format!(
                "`wrong-labels` is {share}, wanted a share of at least 0 and below 1\n\
                     hint: 0.02 shows one label in fifty wrongly"
            )
        );
    }
    let text = toml::to_string(&toy(|_| ())).unwrap();
    assert!(!text.contains("wrong-labels"), "{text}");
    let recipe = parse(&format!("{TOY}\nwrong-labels = 0.02"));
    assert_eq!(recipe.wrong_labels, 0.02);
    assert_eq!(parse(&toml::to_string(&recipe).unwrap()), recipe);
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let class = ClassEntry {
        name: "A".to_owned(),
        of: vec![1],
    };
    assert_eq!(
        message(&toy(|r| r.classes.push(class))),
        "`classes` cannot be given for `gaussians`, whose classes are A and B\n\
             hint: remove `classes`"
    );
    assert_eq!(
        message(&toy(|r| drop(
            r.describe.insert("C".to_owned(), "c".to_owned())
        ))),
        "`describe` has an entry for `C`, which is not one of the labels `A`, `B`"
    );
    assert_eq!(
        message(&toy(|r| r.labelling = LabellingRecipe::OneOf {
            weights: Some(vec![1.0])
        })),
        "labelling.weights has 1 entries for 2 labels"
    );
    assert_eq!(
        message(&toy(|r| r.validation = 1.5)),
        "validation share 1.5 is not between 0 and 1"
    );
}

#[test]
fn a_label_that_no_training_item_shows_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    write_idx(folder.path(), "train", &[1; 12]);
    write_idx(folder.path(), "t10k", &[1]);
    let mut recipe = mnist(folder.path());
    recipe.labelling = LabellingRecipe::OneOf {
        weights: Some(vec![1.0, 1e-300]),
    };
    assert_eq!(
        message(&recipe),
        "no training item shows label `B`, so nothing can be learnt about it\n\
             hint: use more items, a larger weight for the label, or another seed"
    );
}

#[test]
fn a_part_without_a_class_is_named() {
    let folder = tempfile::tempdir().unwrap();
    write_idx(folder.path(), "train", &[1; 12]);
    write_idx(folder.path(), "t10k", &[2, 4]);
    let at = folder.path().display();
    assert_eq!(
        message(&mnist(folder.path())),
        format!(
            "the test part of `{at}`: no item belongs to class `B`: none has an original \
                 label out of [1, 3, 5, 7, 9]; the labels found are [2, 4]"
        )
    );
}

#[test]
fn files_without_classes_are_refused() {
    let source = "format = \"idx\", folder = \"nowhere\"";
    let text = TOY.replace("format = \"gaussians\", items = 2000", source);
    assert_eq!(
        message(&parse(&text)),
        "no class is given\n\
             hint: write for example `classes = [{ name = \"A\", of = [3, 5] }]`"
    );
}

const SOURCES: [&str; 7] = [
    r#"{ format = "folders", folder = "pets", size = [64, 48], channels = 3, test = 0.2, unlabelled = "skip" }"#,
    r#"{ format = "table", folder = "pets", table = "t.csv", labels = ["cat"], split = "part" }"#,
    r#"{ format = "celeba", folder = "celeba", pictures = "faces.tar", labels = ["Male"], channels = 1 }"#,
    r#"{ format = "cole", folder = "pascal", pictures = "jpegs", labels = ["A"] }"#,
    r#"{ format = "cifar10", folder = "cifar" }"#,
    r#"{ format = "six-labels", folder = "mnist" }"#,
    r#"{ format = "arrays", items = "x.npy", truth = "y.npy", test-items = "a.npz/x", test-truth = "a.npz/y" }"#,
];

fn from(source: &str) -> String {
    TOY.replace("{ format = \"gaussians\", items = 2000 }", source)
}

#[test]
fn sources_survive_being_written_and_refuse_unknown_keys() {
    let folders = [1, 1, 2, 2, 1, 1, 4];
    for (source, paths) in SOURCES.into_iter().zip(folders) {
        let mut recipe = parse(&from(source));
        let text = toml::to_string(&recipe).unwrap();
        assert_eq!(parse(&text), recipe, "{text}");
        let wrong = from(&source.replacen("format", "colour = 1, format", 1));
        let error = toml::from_str::<DataRecipe>(&wrong)
            .unwrap_err()
            .to_string();
        assert!(error.contains("unknown field `colour`"), "{error}");
        assert_eq!(recipe.source.paths_mut().len(), paths, "{source}");
        for path in recipe.source.paths_mut() {
            *path = Path::new("moved").join(&*path);
        }
        let text = toml::to_string(&recipe).unwrap();
        assert_eq!(text.matches("\"moved/").count(), paths, "{text}");
    }
    for (right, wrong, named) in [
        (
            "channels = 3",
            "channels = 2",
            "channels are 1 (grey) or 3 (colour), not 2",
        ),
        ("[64, 48]", "[0, 48]", "nonzero"),
        ("\"skip\"", "\"ignore\"", "unknown variant `ignore`"),
    ] {
        let text = from(&SOURCES[0].replace(right, wrong));
        let error = toml::from_str::<DataRecipe>(&text).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}

/// Folders are single positive labels: training sees each picture with the label of its folder.
#[test]
fn folders_pass_through_one_of_unchanged() {
    let pictures: Vec<_> = (0..40).map(|level| png(&[level])).collect();
    let names: Vec<_> = (0..40)
        .map(|i| format!("{}/{i:02}.png", ["cat", "dog", "cow"][i % 3]))
        .collect();
    let list = names.iter().zip(&pictures);
    let list: Vec<_> = list.map(|(n, p)| (n.as_str(), p.as_slice())).collect();
    let at = files(&list);
    let source = format!(
        "{{ format = \"folders\", folder = \"{}\" }}",
        at.path().display()
    );
    let weighted = "\"one-of\", weights = [9.0, 1.0, 0.01]";
    for labelling in ["\"one-of\"", "\"per-class\"", weighted] {
        let data = parse(&from(&source).replace("\"one-of\"", labelling))
            .load()
            .unwrap();
        assert_eq!(
            data.train.labels.names().collect::<Vec<_>>(),
            ["cat", "cow", "dog"]
        );
        assert_eq!((data.train.len(), data.test.len()), (36, 4));
        assert_eq!(data.positives.len(), 32);
        let Values::Bytes(levels) = &data.train.items.values else {
            panic!("images are bytes")
        };
        for shown in data.positives.iter().chain(&data.validation_positives) {
            let level = usize::from(levels[shown.item as usize]);
            assert_eq!(shown.label, [0, 2, 1][level % 3]);
        }
        let rare = |note: &&String| note.ends_with("fewer than 50 teach little about it");
        assert_eq!(data.notes.iter().filter(rare).count(), 3);
    }
}

/// An observed matrix decides what is shown; all labels stay the truth.
#[test]
fn observed_labels_are_shown_and_no_others() {
    let truth = npy("|u1", "(20, 2)", &[1; 40]);
    let seen: Vec<u8> = (0..20).flat_map(|i| [i % 2, 1 - i % 2]).collect();
    let at = files(&[
        (
            "images.npy",
            &npy("|u1", "(20, 1, 1)", &(0..20).collect::<Vec<_>>()),
        ),
        ("labels.npy", &truth),
        ("labels_obs.npy", &npy("|u1", "(20, 2)", &seen)),
    ]);
    let source = format!(
        "{{ format = \"cole\", folder = \"{}\", labels = [\"A\", \"B\"] }}",
        at.path().display()
    );
    let data = parse(&from(&source)).load().unwrap();
    let Values::Bytes(levels) = &data.train.items.values else {
        panic!("images are bytes")
    };
    for shown in data.positives.iter().chain(&data.validation_positives) {
        assert_eq!(shown.label, 1 - levels[shown.item as usize] % 2);
    }
    assert!(data.train.truth.iter().all(|set| set.len() == 2));
}

#[test]
fn what_the_data_holds_out_is_held_out() {
    let picture = png(&[1]);
    let rows = "file_name,split,A,B\n\
            a.png,train,1,0\nb.png,valid,0,1\nc.png,train,0,1\nd.png,test,1,1\n";
    let at = files(&[
        ("metadata.csv", rows.as_bytes()),
        ("a.png", &picture),
        ("b.png", &picture),
        ("c.png", &picture),
        ("d.png", &picture),
    ]);
    let source = format!(
        "{{ format = \"table\", folder = \"{}\" }}",
        at.path().display()
    );
    let data = parse(&from(&source)).load().unwrap();
    assert_eq!(
        (data.split.train, data.split.validation),
        (vec![0, 2], vec![1])
    );
    assert_eq!(data.validation_positives.len(), 1);
    let mut recipe = parse(&from(&source));
    recipe.classes.push(ClassEntry {
        name: "A".to_owned(),
        of: vec![1],
    });
    assert_eq!(
        message(&recipe),
        "`classes` cannot be given for `table`, which has labels of its own\n\
             hint: remove `classes`"
    );
}

#[test]
fn cifar10_becomes_labels_by_classes() {
    let record = |class: u8| [&[class][..], &[class; 3072]].concat();
    let names: Vec<_> = (1..=5).map(|i| format!("data_batch_{i}.bin")).collect();
    let batch: Vec<u8> = [2, 5, 0, 9].into_iter().flat_map(record).collect();
    let mut list: Vec<_> = names.iter().map(|n| (n.as_str(), &batch[..])).collect();
    list.push(("test_batch.bin", &batch));
    let at = files(&list);
    let source = format!(
        "{{ format = \"cifar10\", folder = \"{}\" }}",
        at.path().display()
    );
    let classes =
        "classes = [{ name = \"animal\", of = [2, 5] }, { name = \"flies\", of = [0, 2] }]";
    let data = parse(&format!("{}\n{classes}", from(&source)))
        .load()
        .unwrap();
    assert_eq!(data.train.len(), 15);
    assert_eq!(data.test.original, [2, 5, 0]);
    let bits: Vec<_> = data.test.truth.iter().map(|set| set.bits()).collect();
    assert_eq!(bits, [0b11, 0b01, 0b10]);
    assert_eq!(
        data.notes[..2],
        [
            "5 of 20 training items have no class and are left out",
            "1 of 4 test items have no class and are left out"
        ]
    );
}

#[test]
fn six_labels_come_with_the_files() {
    let Some(folder) = real_data("mnist") else {
        return;
    };
    let source = format!(
        "{{ format = \"six-labels\", folder = \"{}\" }}",
        folder.display()
    );
    let mut recipe = parse(&from(&source));
    let data = recipe.load().unwrap();
    assert!(data.train.labels.names().eq(six_labels::NAMES));
    assert_eq!(data.train.len(), 60_000 - 5934);
    assert!(data.train.truth.iter().all(|set| !set.is_empty()));
    assert_eq!(
        data.notes[0],
        "5934 of 60000 training items have no label and are left out"
    );
    let even = |(&digit, set): (&u8, &LabelSet)| (digit % 2 == 0) == set.contains(0);
    assert!(data.test.original.iter().zip(&data.test.truth).all(even));
    recipe.classes.push(ClassEntry {
        name: "A".to_owned(),
        of: vec![1],
    });
    assert_eq!(
        message(&recipe),
        "`classes` cannot be given for `six-labels`, which has labels of its own\n\
             hint: remove `classes`"
    );
}

/// Counts per digit as published with the data.
#[test]
fn mnist_itself_is_read() {
    let Some(folder) = env::var_os("S2M_DATA") else {
        eprintln!("skipped: set S2M_DATA to a folder that holds `mnist/`");
        return;
    };
    let data = mnist(&Path::new(&folder).join("mnist")).load().unwrap();
    assert_eq!((data.train.len(), data.test.len()), (60_000, 10_000));
    assert_eq!(data.train.items.shape, [1, 28, 28]);
    let mut digits = [0; 10];
    for &digit in &data.train.original {
        digits[digit as usize] += 1;
    }
    assert_eq!(
        digits,
        [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    );
    assert_eq!(data.split.validation.len(), 15_000);
    // Odd digits show B with probability 3/4.
    let odd = (6742 + 6131 + 5421 + 6265 + 5949) as f64 / 60_000.0;
    let wanted = 0.75 * odd;
    let error = (wanted * (1.0 - wanted) / 45_000.0).sqrt();
    assert!((data.observed[1] - wanted).abs() < 5.0 * error);
}
