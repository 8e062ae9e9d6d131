//! Bundles with an output per label set: what is drawn is by that output, whatever lies between it and the sampler.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use s2m::mine;
use s2m::output::Existing;
use s2m::progress::Silent;
use s2m::sample::{Request, Wanted, sample};
use s2m::session::Machine;
use s2m::settings::{CalibrationChoice, DensityChoice, Overrides, SampleSettings};
use s2m_core::joint::LabelSets;
use s2m_core::labels::LabelSet;
use s2m_model::bundle::{self, Bundle};
use s2m_model::manifest::PosteriorName;
use s2m_model::networks::{RunSettings, Wiring};
use s2m_testkit::exact::Files;
use s2m_testkit::linear;
use tempfile::TempDir;

fn count(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

/// Few sets, which are kept as they are; many, of which the likeliest are kept; and some with `rest`.
fn some_sets() -> [LabelSets; 3] {
    let listed = [0b11, 0b101, 0b1, 0b1_0000_0000, 0b11_0000_0011].map(LabelSet::from_bits);
    [
        LabelSets::whole(2).unwrap(),
        LabelSets::whole(5).unwrap(),
        LabelSets::new(10, listed.to_vec(), true).unwrap(),
    ]
}

fn written(files: &Files, root: &TempDir) -> PathBuf {
    let folder = root.path().join("joint.s2m");
    bundle::write(&folder, files).unwrap();
    folder
}

fn request<'a>(model: &'a Path, query: &'a str, out: &'a Path) -> Request<'a> {
    Request {
        model,
        wanted: Wanted::Query(query),
        samples: count(200),
        settings: SampleSettings {
            seed: Some(3),
            latents: true,
            overrides: Overrides {
                floor: Some(0.6),
                ..Overrides::default()
            },
            ..SampleSettings::default()
        },
        machine: Machine::default(),
        bank: None,
        proposal: None,
        out,
        existing: Existing::Keep,
    }
}

fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    s2m_testkit::folder::contents(folder, &["seconds", "from_bank"])
}

#[test]
fn banks_threads_and_wiring_change_no_byte() {
    for sets in some_sets() {
        let root = tempfile::tempdir().unwrap();
        let model = written(&linear::joint(&sets), &root);
        let path = |name: &str| root.path().join(name);
        let plain = path("plain");
        let reports = sample(&request(&model, "L0 - L1", &plain), &Silent).unwrap();
        let report = reports[0].as_ref().unwrap();
        assert_eq!(report.calibration.posterior, "joint");
        assert!(
            report.predicted_purity >= 0.6,
            "{}",
            report.predicted_purity
        );
        assert_eq!(report.predicted_purity, report.plain_purity);
        let bank = path("bank");
        let mined = mine::Request {
            model: &model,
            proposals: count(5000),
            piece: mine::Piece::default(),
            seed: 3,
            machine: Machine::default(),
            out: &bank,
        };
        mine::mine(&mined, &Silent).unwrap();
        let (banked, chained) = (path("banked"), path("chained"));
        let request_of = |out| request(&model, "L0 - L1", out);
        let with_bank = Request {
            bank: Some(&bank),
            ..request_of(&banked)
        };
        sample(&with_bank, &Silent).unwrap();
        assert_eq!(contents(&banked), contents(&plain));
        let other_wiring = Request {
            machine: Machine {
                run: RunSettings {
                    wiring: Wiring::Chained,
                    threads: count(1),
                    batch: Some(count(24)),
                    ..RunSettings::default()
                },
                ..Machine::default()
            },
            ..request_of(&chained)
        };
        sample(&other_wiring, &Silent).unwrap();
        assert_eq!(contents(&chained), contents(&plain));
    }
}

/// Two labels: the logits of {L0}, {L1} and both are coordinates 3, 4 and 5 of a sample.
#[test]
fn every_sample_reaches_the_floor_by_its_own_coordinates() {
    let root = tempfile::tempdir().unwrap();
    let model = written(&linear::joint(&LabelSets::whole(2).unwrap()), &root);
    let out = root.path().join("out");
    sample(&request(&model, "L0 - L1", &out), &Silent).unwrap();
    let bytes = fs::read(out.join("samples.npy")).unwrap();
    let start = bytes.len() - 200 * 6 * 4;
    let values: Vec<f64> = bytes[start..]
        .chunks_exact(4)
        .map(|four| f64::from(f32::from_le_bytes(four.try_into().unwrap())))
        .collect();
    let table = fs::read_to_string(out.join("metadata.csv")).unwrap();
    assert!(table.starts_with("file_name,L0,L1,p_L0,p_L1,"), "{table}");
    for item in values.chunks_exact(6) {
        let p = item[3..].iter().map(|logit| logit.exp());
        let posterior = item[3].exp() / p.sum::<f64>();
        assert!(posterior >= 0.6 - 1e-6, "{posterior}");
    }
}

#[test]
fn what_is_for_levels_asks_for_levels_and_does_not_go_with_joint() {
    let root = tempfile::tempdir().unwrap();
    let model = written(&linear::joint(&LabelSets::whole(3).unwrap()), &root);
    let ask = |name: &str, settings: SampleSettings| {
        let out = root.path().join(name);
        let request = Request {
            settings,
            ..request(&model, "L0 - L1", &out)
        };
        sample(&request, &Silent)
            .map(|answers| answers[0].as_ref().unwrap().calibration.posterior)
            .map_err(|error| error.to_string())
    };
    let base = || request(&model, "", Path::new("")).settings;
    let margin = Overrides {
        margin: Some(0.5),
        ..Overrides::default()
    };
    let cases = [
        (
            "levels",
            SampleSettings {
                posterior: Some(PosteriorName::Levels),
                ..base()
            },
        ),
        (
            "density",
            SampleSettings {
                density: DensityChoice::Paper,
                ..base()
            },
        ),
        (
            "paper",
            SampleSettings {
                calibration: CalibrationChoice::Paper,
                ..base()
            },
        ),
        (
            "margin",
            SampleSettings {
                overrides: margin,
                ..base()
            },
        ),
    ];
    for (name, settings) in cases {
        assert_eq!(ask(name, settings).unwrap(), "levels", "{name}");
    }
    assert_eq!(ask("joint", base()).unwrap(), "joint");
    let both = SampleSettings {
        posterior: Some(PosteriorName::Joint),
        overrides: margin,
        ..base()
    };
    assert_eq!(
        ask("both", both).unwrap_err(),
        "`margin` is for the posterior by levels, and `posterior = joint` was asked for"
    );
    let plain = root.path().join("plain.s2m");
    bundle::write(&plain, &linear::linear(2)).unwrap();
    let out = root.path().join("none");
    let asked = Request {
        settings: SampleSettings {
            posterior: Some(PosteriorName::Joint),
            ..base()
        },
        ..request(&plain, "L0", &out)
    };
    assert_eq!(
        sample(&asked, &Silent).unwrap_err().to_string(),
        "`linear` has no joint head\nhint: `s2m fit` makes one; `posterior = levels` needs none"
    );
}

/// Lists that do not fit are named before any network is run.
#[test]
fn label_sets_that_do_not_fit_are_refused() {
    let files = linear::joint(&LabelSets::whole(2).unwrap());
    let text = String::from_utf8(files[0].1.clone()).unwrap();
    let sets = "sets = [\"10\", \"01\", \"11\"]";
    assert!(text.contains(sets), "{text}");
    let message = |changed: &str| {
        let mut files = files.clone();
        files[0].1 = text.replace(sets, changed).into_bytes();
        let files: Vec<(&str, &[u8])> = files
            .iter()
            .map(|(n, b)| (n.as_str(), b.as_slice()))
            .collect();
        Bundle::from_files(&files).unwrap_err().to_string()
    };
    let cases = [
        (
            "sets = [\"10\", \"01\", \"10\"]",
            "label sets 1 and 3 of the list are the same",
        ),
        (
            "sets = [\"10\", \"00\", \"11\"]",
            "label set 2 of the list is empty",
        ),
        (
            "sets = [\"10\", \"1\", \"11\"]",
            "label set \"1\" is not 2 digits of 0 and 1, one per label",
        ),
        (
            "sets = [\"10\"]",
            "label `L1` is in no label set, and there is no `rest`",
        ),
        (
            "sets = []",
            "0 label sets are listed; 1 to 1024 are possible",
        ),
        (
            "sets = [\"10\", \"01\", \"11\"]\nrest = true",
            "`joint_logits`",
        ),
        ("sets = [\"10\", \"01\"]", "`joint_logits`"),
    ];
    for (changed, expected) in cases {
        let found = message(changed);
        assert!(found.contains(expected), "{changed}: {found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}
