//! What is said about samples, where the truth is known: reach, purity, and proposals that classes share.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use s2m::classes;
use s2m::output::Existing;
use s2m::progress::Silent;
use s2m::sample::{Answer, Request, Wanted, sample};
use s2m::samplers::SamplerChoice;
use s2m::session::Machine;
use s2m::settings::{DEFAULT_TV, SampleSettings};
use s2m_model::bundle;
use s2m_model::manifest::Manifest;
use s2m_model::onnx::{Element, GraphBuilder};
use s2m_testkit::linear::linear;
use tempfile::TempDir;

const SAMPLES: usize = 1500;

fn count(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

/// Points on a line: `A` where they are positive, `B` where they are negative, by a softmax of this steepness, and
/// the same odds of being real everywhere.
fn signs(steepness: f32, odds: f32, root: &TempDir) -> PathBuf {
    let mut g = GraphBuilder::new("identity");
    let z = g.input("z", &[1], Element::F32).unwrap();
    let one = g.scalar(1.0);
    let x = g.mul(&z, &one).unwrap();
    g.output(&x, "x").unwrap();
    let generator = g.to_bytes();
    let mut g = GraphBuilder::new("signs");
    let x = g.input("x", &[1], Element::F32).unwrap();
    // Hard but for a millionth around zero.
    let (far, near) = (g.scalar(1e6), g.scalar(1e-6));
    let x = g.mul(&x, &far).unwrap();
    let x = if steepness > 10.0 {
        g.clip(&x, -1.0, 1.0).unwrap()
    } else {
        g.mul(&x, &near).unwrap()
    };
    let both = g
        .constant("both", &[1, 2], &[steepness, -steepness])
        .unwrap();
    let class = g.matmul(&x, &both).unwrap();
    let none = g.constant("none", &[1, 1], &[0.0]).unwrap();
    let real = g.matmul(&x, &none).unwrap();
    let odds = g.scalar(odds.ln());
    let real = g.add(&real, &odds).unwrap();
    g.output(&class, "class_logits").unwrap();
    g.output(&real, "real_logit").unwrap();
    let labels = ["A", "B"].map(str::to_owned).to_vec();
    let manifest = Manifest::of_points("signs", labels, 1);
    let files = bundle::files(&manifest, generator, g.to_bytes()).unwrap();
    let folder = root.path().join(format!("signs-{steepness}.s2m"));
    bundle::write(&folder, &files).unwrap();
    folder
}

fn asked<'a>(model: &'a Path, wanted: Wanted<'a>, out: &'a Path) -> Request<'a> {
    Request {
        model,
        wanted,
        samples: count(SAMPLES),
        settings: SampleSettings {
            seed: Some(5),
            ..SampleSettings::default()
        },
        machine: Machine::default(),
        bank: None,
        proposal: None,
        out,
        existing: Existing::Keep,
    }
}

fn only(mut answers: Vec<Answer>) -> Answer {
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

/// A softmax is never zero, so every point has some posterior of "A + B": 8e-18. Nothing is
/// written, unless it is asked for without a floor.
#[test]
fn a_query_that_nothing_meets_is_answered_no() {
    let root = tempfile::tempdir().unwrap();
    let model = signs(20.0, 1.0, &root);
    let out = root.path().join("out");
    let refused = only(sample(&asked(&model, Wanted::Query("A + B"), &out), &Silent).unwrap());
    let text = refused.unwrap_err().to_string();
    assert!(
        text.starts_with("`A + B`: the generator does not reach this query: the samples have a predicted purity of ")
            && text.contains("and at least 0.1 is needed")
            && text.ends_with("`floor = 0` draws it anyway"),
        "{text}"
    );
    assert!(!out.exists());
    let found = classes::classes(
        &classes::Request {
            model: &model,
            bank: None,
            proposals: Some(4096),
            top: None,
            settings: SampleSettings::default(),
            machine: Machine::default(),
        },
        &Silent,
    );
    let found = found.unwrap().classes;
    let reachable: Vec<(&str, bool)> = found
        .iter()
        .map(|c| (c.query.as_str(), c.reachable))
        .collect();
    assert_eq!(
        reachable,
        [("A - B", true), ("B - A", true), ("A + B", false)]
    );
    let mut anyway = asked(&model, Wanted::Query("A + B"), &out);
    anyway.settings.overrides.floor = Some(0.0);
    let report = only(sample(&anyway, &Silent).unwrap()).unwrap();
    assert!(report.predicted_purity < 1e-12 && out.exists());
}

#[test]
fn a_purity_that_cannot_be_had_is_answered_no_and_one_that_can_stands_beside_what_came() {
    let root = tempfile::tempdir().unwrap();
    let model = signs(0.7, 1.0, &root);
    let out = root.path().join("out");
    let mut wish = asked(&model, Wanted::Query("A - B"), &out);
    wish.settings.overrides.purity = Some(0.9999);
    let text = only(sample(&wish, &Silent).unwrap())
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("a purity of 0.9999 cannot be had: the best of "),
        "{text}"
    );
    wish.settings.overrides.purity = Some(0.8);
    let report = only(sample(&wish, &Silent).unwrap()).unwrap();
    assert_eq!(report.asked_purity, Some(0.8));
    let [low, high] = report.predicted_between;
    assert!(low < report.predicted_purity && report.predicted_purity < high);
    assert!(low <= 0.81 && high >= 0.79, "{low} to {high}");
}

/// Odds of 0.9 everywhere: the generator's items make up 90 % of the data, and nothing else can say so.
#[test]
fn what_proposals_do_not_account_for_is_told() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("out");
    let model = signs(20.0, 0.9, &root);
    let report =
        only(sample(&asked(&model, Wanted::Query("A - B"), &out), &Silent).unwrap()).unwrap();
    let reach = report.reach.unwrap();
    assert!((reach.share - 0.9).abs() < 1e-6, "{reach:?}");
    let told =
        |text: &String| text.starts_with("by the discriminator, proposals account for 90.0 %");
    assert!(report.warnings.iter().any(told), "{:?}", report.warnings);
}

/// Odds of 1.1 everywhere cannot be right: their mean is at most 1.
#[test]
fn odds_that_account_for_more_than_there_is_are_told() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("out");
    let model = signs(20.0, 1.1, &root);
    let report =
        only(sample(&asked(&model, Wanted::Query("A - B"), &out), &Silent).unwrap()).unwrap();
    let told = |text: &String| {
        text.starts_with("by the discriminator, proposals account for 110.0 %")
            && text.contains("its odds are too high")
    };
    assert!(report.warnings.iter().any(told), "{:?}", report.warnings);
}

/// Copies of a proposal say no more than it does: the interval of a purity over repeated samples is wider than that of
/// as many single ones.
#[test]
fn repeated_samples_have_a_wider_interval_of_purity() {
    let root = tempfile::tempdir().unwrap();
    let model = signs(0.7, 1.0, &root);
    let width = |sampler, out: &str| {
        let out = root.path().join(out);
        let mut wanted = asked(&model, Wanted::Query("A - B"), &out);
        wanted.settings.sampler = sampler;
        let report = only(sample(&wanted, &Silent).unwrap()).unwrap();
        let [low, high] = report.predicted_between;
        (high - low, report.duplicates)
    };
    let (repeated, copies) = width(SamplerChoice::Resample { unique: false }, "resample");
    let (single, none) = width(SamplerChoice::Reject { tv: DEFAULT_TV }, "reject");
    assert!(copies > SAMPLES / 20 && none == 0, "{copies} {none}");
    // A tenth of the samples are second copies, which makes the variance of the mean a fifth larger.
    assert!(repeated > 1.05 * single, "{repeated} {single}");
}

/// Which classes each proposal became a sample of.
fn classes_of(out: &Path) -> HashMap<String, Vec<String>> {
    let table = fs::read_to_string(out.join("metadata.csv")).unwrap();
    let header: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    let at = header.iter().position(|name| *name == "proposal").unwrap();
    let mut found: HashMap<String, Vec<String>> = HashMap::new();
    for row in table.lines().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        let number = cells[at].to_owned();
        found.entry(number).or_default().push(cells[0].to_owned());
    }
    found
}

/// Soft classes overlap everywhere. With `reject` no proposal goes to two classes, and each class keeps its law: the
/// mean of its points is that of a draw by itself, within five standard errors.
#[test]
fn a_proposal_goes_to_one_joint_class_at_most_and_classes_keep_their_laws() {
    let root = tempfile::tempdir().unwrap();
    let model = root.path().join("linear.s2m");
    bundle::write(&model, &linear(3)).unwrap();
    let all = root.path().join("all");
    let mut together = asked(&model, Wanted::AllJoint, &all);
    together.settings.overrides.floor = Some(0.0);
    let answers = sample(&together, &Silent).unwrap();
    assert!(classes_of(&all).values().all(|classes| classes.len() == 1));
    for answer in answers.into_iter().flatten() {
        assert_eq!(answer.duplicates, 0);
        let folder: String = answer.query.chars().filter(|c| *c != ' ').collect();
        let alone = root.path().join(format!("alone{folder}"));
        let query = answer.query.clone();
        let mut one = asked(&model, Wanted::Query(&query), &alone);
        one.settings.overrides.floor = Some(0.0);
        one.settings.seed = Some(77);
        only(sample(&one, &Silent).unwrap()).unwrap();
        let [a, b] = [all.join(&folder), alone].map(|out| moments(&out));
        for ([mean, error], [other, other_error]) in a.iter().zip(&b) {
            let gap = (mean - other).abs() / (error + other_error).sqrt();
            assert!(
                gap < 5.0,
                "{query}: {mean} and {other}, {gap} standard errors"
            );
        }
    }
}

/// Mean and squared standard error of each coordinate.
fn moments(out: &Path) -> Vec<[f64; 2]> {
    let bytes = fs::read(out.join("samples.npy")).unwrap();
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let numbers: Vec<f64> = bytes[start..]
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| f64::from(f32::from_le_bytes(*b)))
        .collect();
    let size = numbers.len() / SAMPLES;
    (0..size)
        .map(|axis| {
            let values = || numbers.iter().skip(axis).step_by(size);
            let n = SAMPLES as f64;
            let mean = values().sum::<f64>() / n;
            let variance = values().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
            [mean, variance / n]
        })
        .collect()
}

#[test]
fn shared_proposals_of_chains_and_pools_are_counted() {
    let root = tempfile::tempdir().unwrap();
    let model = root.path().join("linear.s2m");
    bundle::write(&model, &linear(3)).unwrap();
    for (at, sampler) in [
        SamplerChoice::Mh { steps: count(10) },
        SamplerChoice::Resample { unique: false },
        SamplerChoice::Reject { tv: DEFAULT_TV },
    ]
    .into_iter()
    .enumerate()
    {
        let out = root.path().join(format!("out{at}"));
        let mut request = asked(&model, Wanted::AllJoint, &out);
        request.settings.overrides.floor = Some(0.0);
        request.settings.sampler = sampler;
        let answers = sample(&request, &Silent).unwrap();
        let counted: usize = answers
            .iter()
            .flatten()
            .map(|report| report.duplicates)
            .sum();
        let repeated: usize = classes_of(&out)
            .values()
            .map(|classes| classes.len() - 1)
            .sum();
        assert_eq!(counted, repeated, "{}", sampler.name());
        assert_eq!(
            repeated > 0,
            sampler.name() != "reject",
            "{}",
            sampler.name()
        );
    }
}
