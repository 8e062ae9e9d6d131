//! Lists of files to touch, walked along a neighbour that is there already.
//!
//! A file has to name a new sampler, metric, dataset, network or experiment if it names the neighbour together with all of its
//! kind: as a variant, in a `match` that leaves none out, in a list of all, in a text that lists them, or as a module. These
//! are the files that CONTRIBUTING lists, no more and no less; documents and tests that it lists are looked into by name.

use std::collections::BTreeSet;
use std::fs;

use crate::source::{Source, is_word};
use crate::{between_backticks, named_paths, root, rust_files, section};

/// One list, a neighbour to follow, and where the types are of which it is a variant.
struct List {
    heading: &'static str,
    most: usize,
    neighbour: &'static str,
    kinds: &'static [(&'static str, &'static str)],
}

const LISTS: [List; 5] = [
    List {
        heading: "Adding a sampler",
        most: 4,
        neighbour: "resample",
        kinds: &[
            ("s2m-core/src/samplers/mod.rs", "Info"),
            ("s2m/src/samplers.rs", "SamplerChoice"),
            ("s2m/src/samplers.rs", "Details"),
        ],
    },
    List {
        heading: "Adding a metric",
        most: 4,
        neighbour: "fid",
        kinds: &[("s2m-eval/src/measure.rs", "Metric")],
    },
    List {
        heading: "Adding a dataset",
        most: 4,
        neighbour: "idx",
        kinds: &[("s2m-data/src/recipe.rs", "Source")],
    },
    List {
        heading: "Adding a network to train",
        most: 5,
        neighbour: "lenet5",
        kinds: &[
            ("s2m-runs/src/classifier.rs", "TrunkSettings"),
            ("s2m-train/src/networks/classifier.rs", "Trunk"),
        ],
    },
    List {
        heading: "Adding an experiment",
        most: 4,
        neighbour: "gaussians",
        kinds: &[("s2m-experiments/src/lib.rs", "Experiment")],
    },
];

/// The files of the steps of a list, as they are written there.
fn steps(guide: &str, list: &List) -> Vec<String> {
    let lines = section(guide, list.heading).lines();
    let steps = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let file = |step: &str| {
        let named = named_paths(between_backticks(step));
        assert_eq!(named.len(), 1, "{}: one file in `{step}`", list.heading);
        named.first().unwrap().replace("NAME", list.neighbour)
    };
    steps.map(file).collect()
}

/// Whether a text names a variant of a type, by a path.
fn names(text: &str, kinds: &[&str], variant: &str) -> bool {
    kinds.iter().any(|kind| {
        let path = format!("{kind}::{variant}");
        text.match_indices(&path).any(|(at, _)| {
            let after = text[at + path.len()..].chars().next();
            !text[..at].ends_with(is_word) && !after.is_some_and(is_word)
        })
    })
}

/// Whether a pattern takes what no other has taken.
fn takes_the_rest(pattern: &str) -> bool {
    !pattern.contains(" if ")
        && pattern
            .chars()
            .all(|c| c.is_lowercase() || "_ ,()&".contains(c))
}

/// A variant as people type it.
fn typed(variant: &str) -> String {
    let dashed = variant.chars().enumerate().map(|(at, c)| match c {
        c if c.is_uppercase() && at > 0 => format!("-{}", c.to_lowercase()),
        c => c.to_lowercase().to_string(),
    });
    dashed.collect()
}

/// Whether a text has all of some words.
fn says_all(text: &str, words: &[String]) -> bool {
    let inside = |c: char| is_word(c) || c == '-';
    let said: BTreeSet<&str> = text.split(|c| !inside(c)).collect();
    words.iter().all(|word| said.contains(word.as_str()))
}

/// Whether a file names a whole kind, so that a new one has to be named there too.
fn has_to_name(source: &Source, kind: &str, variants: &[String]) -> bool {
    let own = [format!("impl {kind}"), format!(" for {kind} ")];
    let own = source.variants(kind).is_some() || own.iter().any(|text| source.code.contains(text));
    let kinds = if own { vec![kind, "Self"] } else { vec![kind] };
    let all = |text: &str| variants.iter().all(|variant| names(text, &kinds, variant));
    let leaves_none_out = |patterns: Vec<&str>| {
        all(&patterns.join(" | ")) && !patterns.iter().any(|pattern| takes_the_rest(pattern))
    };
    let words: Vec<String> = variants.iter().map(|variant| typed(variant)).collect();
    source.matches().into_iter().any(leaves_none_out)
        || source.lists().into_iter().any(all)
        || source.strings().any(|text| says_all(text, &words))
}

/// Whether a file has a module of this name.
fn has_module(source: &Source, name: &str) -> bool {
    let statements = source.code.split(';');
    let mut last = statements.map(|one| one.split_whitespace().rev().take(2).collect::<Vec<_>>());
    last.any(|words| words == [name, "mod"])
}

#[test]
fn lists_of_files_to_touch_are_short_and_nothing_else_has_to_be_touched() {
    let guide = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let crates = root().join("crates");
    let code: Vec<(String, Source)> = rust_files(&crates)
        .into_iter()
        .map(|file| {
            (
                file.strip_prefix(&crates).unwrap().display().to_string(),
                file,
            )
        })
        .filter(|(name, _)| name.contains("/src/") && !name.ends_with("tests.rs"))
        .map(|(name, file)| (name, Source::read(&file)))
        .collect();
    for list in &LISTS {
        let List {
            heading,
            most,
            neighbour,
            kinds,
        } = list;
        let steps = steps(&guide, list);
        assert!((1..=*most).contains(&steps.len()), "{heading}: {steps:?}");
        assert!(
            section(&guide, heading).contains(&format!("`{neighbour}.rs`")),
            "{heading}"
        );
        let (in_code, beside): (Vec<String>, Vec<String>) =
            steps.into_iter().partition(|step| step.contains("/src/"));
        let mut found = BTreeSet::from([in_code[0].clone()]);
        let folder = in_code[0].rsplit_once('/').unwrap().0;
        for (name, source) in &code {
            if has_module(source, neighbour) && name.starts_with(folder) {
                found.insert(name.clone());
            }
        }
        for (file, kind) in *kinds {
            let defined = code.iter().find(|(name, _)| name == file).unwrap();
            let variants = defined.1.variants(kind).unwrap();
            let has_to = code
                .iter()
                .filter(|(_, source)| has_to_name(source, kind, &variants));
            found.extend(has_to.map(|(name, _)| name.clone()));
            found.insert((*file).to_owned());
        }
        assert_eq!(
            found,
            in_code.into_iter().collect(),
            "{heading}: files that have to name `{neighbour}`, and those that CONTRIBUTING lists"
        );
        for file in beside {
            let places = [root().join("crates").join(&file), root().join(&file)];
            let there = places.iter().find(|place| place.exists());
            let there = there.unwrap_or_else(|| panic!("{heading}: `{file}`"));
            // A folder has the name already.
            let text = fs::read_to_string(there).unwrap_or_else(|_| (*neighbour).to_owned());
            let (home, kind) = kinds[0];
            let home = code.iter().find(|(name, _)| name == home).unwrap();
            let kind = home.1.variants(kind).unwrap();
            let text = text.to_lowercase();
            let named = kind.iter().any(|variant| text.contains(&typed(variant)));
            assert!(named || text.contains(neighbour), "{heading}: `{file}`");
        }
    }
}

#[test]
fn a_file_that_has_to_name_a_whole_kind_is_found() {
    let variants = ["Big", "SmallOne"].map(str::to_owned);
    let has_to = |text: &str| has_to_name(&Source::of(text), "Kind", &variants);
    for text in [
        "match k { Kind::Big => 1, x::Kind::SmallOne { .. } if f() => 2, Kind::SmallOne { .. } => 3 }",
        "match (k, 1) { (Kind::Big | Kind::SmallOne, _) => {} }",
        "impl Kind { const ALL: [Self; 2] = [Self::Big, Self::SmallOne]; }",
        "const NAMES: &str = \"`big` or `small-one`\";",
    ] {
        assert!(has_to(text), "{text}");
    }
    for text in [
        "match k { Kind::Big => 1, _ => 2 }",
        "match k { Kind::Big => 1, other => Kind::SmallOne }",
        "match k { Self::Big => 1, Self::SmallOne => 2 }",
        "match k { OwnKind::Big => 1, Kind::SmallOnes => 2 }",
        "f(Kind::Big); g(Kind::SmallOne)",
        "#[cfg(test)] mod tests { fn f() { match k { Kind::Big => 1, Kind::SmallOne => 2 } } }",
        "const NAMES: &str = \"bigger or small-one\";",
    ] {
        assert!(!has_to(text), "{text}");
    }
}
