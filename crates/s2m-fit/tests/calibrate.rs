//! Calibration of bundles whose truth is known: what it finds, what it promises, what it writes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use s2m::models;
use s2m::output::Existing;
use s2m::progress::Silent;
use s2m::sample::{self, Wanted, sample};
use s2m::session::Machine;
use s2m::settings::SampleSettings;
use s2m_calibrate::found::MarginFound;
use s2m_calibrate::{CalibrationSettings, LabelWeightsChoice, PAGE, REPORT};
use s2m_fit::calibrate::{Done, Request, request};
use s2m_model::networks::RunSettings;

fn machine() -> Machine<'static> {
    Machine {
        run: RunSettings::default(),
        onnxruntime: None,
    }
}

/// A recipe of the 2×16 Gaussians in a file.
fn recipe(folder: &Path, seed: u64) -> PathBuf {
    let path = folder.join(format!("data-{seed}.toml"));
    let text = format!(
        "name = \"gaussians\"\nseed = {seed}\nvalidation = 0.5\nlabelling = {{ model = \"per-class\" }}\nsource = {{ format = \"gaussians\", items = 20000 }}\n"
    );
    fs::write(&path, text).unwrap();
    path
}

fn asked<'a>(model: &'a Path, data: &'a Path, out: Option<&'a Path>) -> Request<'a> {
    Request {
        model,
        data,
        audit: None,
        out,
        replace: false,
        all_held_out: true,
        settings: CalibrationSettings {
            generated: Some(40_000),
            ..CalibrationSettings::default()
        },
        machine: machine(),
    }
}

fn calibrated(asked: &Request<'_>) -> Done {
    request(asked, &Silent).unwrap()
}

/// Networks that are the exact densities are found to be right, and left as they are.
#[test]
fn exact_networks_need_no_calibration() {
    let folder = tempfile::tempdir().unwrap();
    let (data, out) = (recipe(folder.path(), 0), folder.path().join("exact.s2m"));
    let found = calibrated(&asked(Path::new("gaussians-exact"), &data, Some(&out))).found;
    // The class head is sure, or says one half: no temperature changes that.
    assert_eq!((found.class.temperature, found.class.at_limit), (1.0, true));
    assert!(found.class_reliability.error < 0.01);
    assert!(
        found.real.cap.is_none() && found.real.after.error < 0.02,
        "{:?}",
        found.real
    );
    // 9 of 23 modes carry both labels, and show them alike.
    let pair = &found.label_weights.pairs[0];
    assert!(
        pair.ratio.ln().abs() < 4.0 * pair.standard_error,
        "{pair:?}"
    );
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    // Bridges hold 16 % of what is generated and lie outside the data, and 14 of 23 modes are made more
    // often than the 1 in 32 that they have there.
    let (likeness, outside) = (found.likeness.unwrap(), found.way.outside.unwrap());
    let wanted = 0.16 + 14.0 * (0.84 / 23.0 - 1.0 / 32.0);
    assert!((outside - wanted).abs() < 0.01, "{outside} {wanted}");
    assert!(likeness.before[0] > 0.1, "{likeness:?}");
    assert!(!likeness.still_tell, "{likeness:?}");
    assert_eq!(likeness.witnesses, 1);
    for (query, joint) in &found.joint_classes {
        let presence = joint.presence.as_ref().unwrap();
        assert_eq!(presence.verdict, "present", "{query}: {presence:?}");
    }
    let joint = &found.joint_classes["A - B"];
    assert!(joint.without_floor.unwrap().predicted_purity > 0.99);
    assert_eq!(joint.margin, None);
    // The bundle opens with what was found, and keeps the report.
    let bundle = models::open(&out).unwrap();
    let kept = &bundle.manifest().calibration;
    assert_eq!(kept.temperature.real, found.real.by_likelihood);
    assert_eq!(kept.odds_cap, found.real.cap);
    assert_eq!(kept.witnesses, None);
    assert_eq!(kept.auc, Some(found.real.auc));
    assert_eq!(kept.presence.as_ref().unwrap().classes.len(), 3);
    let page = fs::read_to_string(out.join(PAGE)).unwrap();
    assert!(page.contains("A - B") && !page.contains("<script"));
    assert!(!page.contains("exclusion error"));
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(out.join(REPORT)).unwrap()).unwrap();
    assert_eq!(
        report["held_out_real"],
        serde_json::json!(found.held_out_real)
    );
}

/// A higher cap is paid for where it is asked for, and a least share of every class still decides alone.
#[test]
fn likeness_is_what_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (data, out) = (recipe(folder.path(), 0), folder.path().join("soft.s2m"));
    let mut soft = asked(Path::new("gaussians-exact"), &data, Some(&out));
    soft.replace = true;
    soft.settings.likeness = Some(0.95);
    let found = calibrated(&soft).found;
    let likeness = found.likeness.unwrap();
    assert!(
        found.real.cap.is_some() && likeness.still_tell,
        "{likeness:?}"
    );
    let share = likeness.accepted_share;
    assert!((share - 0.95).abs() < 0.01, "{share}");
    assert_eq!(likeness.stopped, "least share");
    assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
    let bundle = models::open(&out).unwrap();
    assert_eq!(
        bundle.manifest().calibration.witnesses,
        Some(likeness.after[0])
    );
    soft.settings.least_effective_share = Some(0.99);
    let found = calibrated(&soft).found;
    let likeness = found.likeness.unwrap();
    assert_eq!(likeness.stopped, "least share of a joint class");
    assert!(likeness.accepted_share > 0.7, "{likeness:?}");
}

/// Margins come when they are asked for, and go when they are not.
#[test]
fn an_exclusion_error_asks_for_margins() {
    let folder = tempfile::tempdir().unwrap();
    let (data, out) = (recipe(folder.path(), 0), folder.path().join("margins.s2m"));
    let mut with = asked(Path::new("gaussians-exact"), &data, Some(&out));
    with.settings.exclusion_error = Some(0.01);
    let found = calibrated(&with).found;
    let promised = |query: &str| match &found.joint_classes[query].margin {
        Some(MarginFound::Promised {
            margin,
            exclusion_error,
            ..
        }) => (*margin, *exclusion_error),
        other => panic!("{other:?}"),
    };
    let margins = || {
        models::open(&out)
            .unwrap()
            .manifest()
            .calibration
            .margin
            .clone()
    };
    let stored = margins();
    for query in ["A - B", "B - A"] {
        let (margin, error) = promised(query);
        assert!(error > 0.0 && error <= 0.01, "{query}: {error}");
        assert_eq!(stored[query], margin);
    }
    let page = fs::read_to_string(out.join(PAGE)).unwrap();
    assert!(page.contains("exclusion error"));
    calibrated(&asked(&out, &data, None));
    assert_eq!(margins().keys().collect::<Vec<_>>(), ["default"]);
    assert_eq!(margins()["default"], 1.0);
}

/// An audit measures what posteriors predict, and samples carry its correction.
#[test]
fn an_audit_corrects_what_is_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let (data, out) = (recipe(folder.path(), 0), folder.path().join("audited.s2m"));
    let audit = recipe(folder.path(), 7);
    let done = calibrated(&Request {
        audit: Some(&audit),
        ..asked(Path::new("gaussians-exact"), &data, Some(&out))
    });
    let found = done.found.audit.unwrap();
    assert_eq!(found.items, 20_000);
    for (query, c) in &found.joint_classes {
        let off = (c.measured - c.predicted).abs();
        assert!(off < 4.0 * c.standard_error + 1e-3, "{query}: {c:?}");
    }
    let samples = folder.path().join("samples");
    let report = sample(
        &sample::Request {
            model: &out,
            wanted: Wanted::Query("A - B"),
            samples: NonZeroUsize::new(200).unwrap(),
            settings: SampleSettings::default(),
            bank: None,
            proposal: None,
            out: &samples,
            existing: Existing::Keep,
            machine: machine(),
        },
        &Silent,
    )
    .unwrap()
    .remove(0)
    .unwrap();
    assert!(report.calibration.audited && report.predicted_purity > 0.99);
    // How far the discriminator is to be believed stands beside what it says.
    let auc = models::open(&out).unwrap().manifest().calibration.auc;
    assert!(auc.is_some() && report.reach.unwrap().auc == auc);
}

/// In place only the calibration changes: the networks and what scores proposals stay, banks with them.
#[test]
fn a_bundle_is_calibrated_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let (data, model) = (recipe(folder.path(), 0), folder.path().join("mine.s2m"));
    s2m_model::bundle::write(
        &model,
        &models::files(Path::new("gaussians-exact")).unwrap(),
    )
    .unwrap();
    let before = models::open(&model).unwrap();
    let done = calibrated(&Request {
        settings: CalibrationSettings {
            generated: Some(10_000),
            label_weights: LabelWeightsChoice::Estimated,
            ..CalibrationSettings::default()
        },
        ..asked(&model, &data, None)
    });
    assert_eq!(done.bundle, model);
    let after = models::open(&model).unwrap();
    assert_eq!(before.scoring_hash(), after.scoring_hash());
    assert_ne!(before.hash(), after.hash());
    let weights = &after.manifest().labelling.weights;
    let (total, ratio) = (weights[0] + weights[1], weights[0] / weights[1]);
    assert!((total - 2.0 * 0.695_652_173_913_043_5).abs() < 1e-9);
    assert!((ratio.ln()).abs() < 0.15, "{weights:?}");
}

#[test]
fn what_cannot_be_calibrated_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = recipe(folder.path(), 0);
    let exact = Path::new("gaussians-exact");
    let wrong = |asked: &Request<'_>| request(asked, &Silent).unwrap_err().to_string();
    assert_eq!(
        wrong(&asked(exact, &data, None)),
        "`gaussians-exact` is embedded in the program and stays as it is\nhint: give `out = NAME.s2m`"
    );
    let out = folder.path().join("out.s2m");
    // Nothing was trained on these items, and nothing tells which ones would have been held out.
    let seen = Request {
        all_held_out: false,
        ..asked(exact, &data, Some(&out))
    };
    assert!(wrong(&seen).contains("`unseen`"), "{}", wrong(&seen));
    let digits = folder.path().join("line.toml");
    fs::write(
        &digits,
        "name = \"line\"\nlabelling = { model = \"one-of\" }\nsource = { format = \"illustration\", items = 500 }\n",
    )
    .unwrap();
    assert_eq!(
        wrong(&asked(exact, &digits, Some(&out))),
        "the model's items have shape [2], the data has [1]"
    );
    let mut few = asked(exact, &data, Some(&out));
    few.settings.generated = Some(3);
    assert!(wrong(&few).contains("from 1000 to"), "{}", wrong(&few));
    assert!(!out.exists());
    fs::create_dir(&out).unwrap();
    fs::write(out.join("model.toml"), "").unwrap();
    assert!(wrong(&asked(exact, &data, Some(&out))).contains("already holds files"));
    let empty = tempfile::tempdir().unwrap();
    let x = folder.path().join("x.s2m");
    let message = wrong(&asked(exact, empty.path(), Some(&x)));
    assert!(message.contains("is no data"), "{message}");
}
