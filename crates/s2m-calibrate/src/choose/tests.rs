use s2m_core::calibration::correction::{Choice, Corrected, Correction};
use s2m_testkit::{exact, linear};

use super::*;

/// A bundle with three labels, of which items may show several.
fn per_class() -> Bundle {
    let mut files = linear::linear(3);
    let text = String::from_utf8(files[0].1.clone()).unwrap();
    assert!(text.contains("one-of"));
    files[0].1 = text.replace("one-of", "per-class").into_bytes();
    exact::open(&files)
}

/// Rows of items that show these labels, with logits between -2 and 2; `real` is added to D_v's.
fn rows(shown: &[(u32, u8)], real: f32) -> Rows {
    let logit = |item: u32, output: u32| ((item * 37 + output * 61) % 101) as f32 / 25.0 - 2.0;
    let classes = 3;
    let row = |&(item, _): &(u32, u8)| (0..3).map(move |output| logit(item, output));
    Rows {
        classes,
        class: shown.iter().flat_map(row).collect(),
        real: shown.iter().map(|&(n, _)| logit(n, 7) + real).collect(),
        fake_class: Vec::new(),
        sets: crate::held_out::Sets::default(),
        labels: shown.iter().map(|&(_, label)| label).collect(),
        items: shown.iter().map(|&(item, _)| item).collect(),
    }
}

fn generated() -> Rows {
    let shown: Vec<(u32, u8)> = (0..2000).map(|item| (item, 0)).collect();
    Rows {
        labels: Vec::new(),
        ..rows(&shown, 0.0)
    }
}

/// Odds 2 and 1 leave (2 + 1)² / (2 · (4 + 1)) of two items; at even odds of 3 a half is seen where
/// three quarters are predicted.
#[test]
fn a_way_is_known_by_what_its_odds_leave_and_how_right_they_are() {
    let made = Rows {
        real: vec![4.0_f32.ln(), 0.0],
        ..Rows::default()
    };
    let choice = Choice {
        chosen: Corrected {
            correction: Correction::None,
            temperature: 2.0,
        },
        tried: Vec::new(),
        held_out: [vec![3.0_f64.ln()], vec![3.0_f64.ln(); 5]],
    };
    let found = way_found(&choice, &made, 100.0);
    assert!((found.effective_share - 0.9).abs() < 1e-6, "{found:?}");
    assert!((found.reliability_error - 0.25).abs() < 1e-12, "{found:?}");
    // Odds are clipped: none may be more than the other here.
    let share = way_found(&choice, &made, 1.0).effective_share;
    assert!((share - 1.0).abs() < 1e-6, "{share}");
}

/// What is fitted to one half is reported on the other.
#[test]
fn a_way_is_fitted_to_the_first_half_and_judged_by_the_second() {
    let bundle = per_class();
    let shown: Vec<(u32, u8)> = (0..600).map(|item| (item, (item % 3) as u8)).collect();
    let found = |change: &dyn Fn(&mut Rows, &mut Rows)| {
        let (mut real, mut generated) = (rows(&shown, 0.5), generated());
        change(&mut real, &mut generated);
        let held_out = HeldOut {
            bundle: &bundle,
            real,
            generated,
            audited: None,
            others: Vec::new(),
        };
        let settings = CalibrationSettings::default();
        held_out.calibrate(&settings).unwrap().found
    };
    let fitted = |found: &Found| [found.way.effective_share, found.way.reliability_error];
    let judged = |found: &Found| [Some(found.real.auc), found.way.auc];
    let before = found(&|_, _| ());
    // Items are dealt in turn, the first one to the first half.
    let change = |rows: &mut Rows, first: usize, by: f32| {
        rows.real
            .iter_mut()
            .skip(first)
            .step_by(2)
            .for_each(|v| *v += by);
    };
    for part in [0, 1] {
        let of_real = found(&|real, _| change(real, part, 3.0));
        let of_generated = found(&|_, generated| change(generated, part, -3.0));
        for after in [of_real, of_generated] {
            assert_eq!(
                fitted(&after) == fitted(&before),
                part == 1,
                "{:?}",
                after.way
            );
            assert_eq!(judged(&after) == judged(&before), part == 0);
            let told = |found: &Found| found.likeness.as_ref().map(|l| l.before[0]);
            assert_eq!(told(&after) == told(&before), part == 0);
        }
    }
}

#[test]
fn an_item_that_shows_two_excluded_labels_counts_once() {
    // 300 items, of which every third shows the label that is wanted and the others both excluded ones.
    let shown: Vec<(u32, u8)> = (0..300)
        .flat_map(|item| match item % 3 {
            0 => vec![(item, 0)],
            _ => vec![(item, 1), (item, 2)],
        })
        .collect();
    let bundle = per_class();
    let held_out = HeldOut {
        bundle: &bundle,
        real: rows(&shown, 0.5),
        generated: generated(),
        audited: None,
        others: Vec::new(),
    };
    let settings = CalibrationSettings {
        exclusion_error: Some(0.1),
        least_kept: 0.0,
        ..CalibrationSettings::default()
    };
    let found = held_out.calibrate(&settings).unwrap().found;
    let margin = &found.joint_classes["L0 - L1 - L2"].margin;
    // Half of 200 items: the ⌊0.1 · 101⌋-th smallest ratio.
    let Some(MarginFound::Promised { rank, items, .. }) = margin else {
        panic!("{margin:?}");
    };
    assert_eq!((*rank, *items), (10, 100));
}

/// Items that show one label each, of which no two ever hold together.
#[test]
fn a_combination_that_no_item_has_is_absent() {
    let shown: Vec<(u32, u8)> = (0..600).map(|item| (item, (item % 3) as u8)).collect();
    let apart = |mut rows: Rows| {
        for at in 0..rows.count() {
            let own = rows
                .labels
                .get(at)
                .map_or(at % 3, |&label| usize::from(label));
            for label in 0..3 {
                rows.class[at * 3 + label] = if label == own { 4.0 } else { -4.0 };
            }
        }
        rows
    };
    let bundle = exact::open(&linear::linear(3));
    let held_out = HeldOut {
        bundle: &bundle,
        real: apart(rows(&shown, 0.5)),
        generated: apart(generated()),
        audited: None,
        others: Vec::new(),
    };
    let calibrated = held_out.calibrate(&CalibrationSettings::default()).unwrap();
    let presence = |query: &str| {
        let joint = &calibrated.found.joint_classes[query];
        joint.presence.clone().unwrap()
    };
    for query in ["L0 - L1 - L2", "L1 - L0 - L2", "L2 - L0 - L1"] {
        let found = presence(query);
        assert_eq!((found.verdict.as_str(), found.items), ("present", 600));
        assert_eq!(found.reached, 200, "{query}");
    }
    for query in ["L0 + L1 - L2", "L0 + L1 + L2"] {
        let found = presence(query);
        assert_eq!((found.verdict.as_str(), found.reached), ("absent", 0));
        assert!((found.upper_limit - 20.0_f64.ln() / 600.0).abs() < 1e-12);
        assert_eq!(found.floor, 0.5, "it has no floor of its own");
    }
    let kept = calibrated.entry.presence.unwrap();
    assert_eq!((kept.items, kept.classes.len()), (600, 7));
    assert_eq!(kept.classes["L0 + L1 - L2"], (0.5, 0, 0.0));
    let warned = |text: &str| calibrated.found.warnings.iter().any(|w| w.contains(text));
    assert!(
        warned("the data may hold no item of L0 + L1 + L2; L0 + L1 - L2;"),
        "{:?}",
        calibrated.found.warnings
    );
}

/// Everything that a page can hold, with names that a browser might run.
#[test]
fn nothing_from_outside_becomes_part_of_the_page() {
    use crate::found::{AuditFound, Contamination, LabelPair};
    const SCRIPT: &str = "<script>alert('x')</script>";

    let bundle = per_class();
    let shown: Vec<(u32, u8)> = (0..600).map(|item| (item, (item % 3) as u8)).collect();
    let held_out = HeldOut {
        bundle: &bundle,
        real: rows(&shown, 0.5),
        generated: generated(),
        audited: None,
        others: Vec::new(),
    };
    let settings = CalibrationSettings {
        exclusion_error: Some(0.1),
        least_kept: 0.0,
        ..CalibrationSettings::default()
    };
    let mut found = held_out.calibrate(&settings).unwrap().found;
    SCRIPT.clone_into(&mut found.model);
    found.warnings.push(SCRIPT.to_owned());
    let mut joint = found.joint_classes["L0 - L1 - L2"].clone();
    SCRIPT.clone_into(&mut joint.presence.as_mut().unwrap().verdict);
    found.joint_classes.insert(SCRIPT.to_owned(), joint);
    SCRIPT.clone_into(&mut found.likeness.as_mut().unwrap().stopped);
    found.ways = [SCRIPT, "frozen"]
        .map(|name| (name.to_owned(), found.way))
        .into();
    found.label_weights.pairs = vec![LabelPair {
        labels: [SCRIPT, "L1"].map(str::to_owned),
        ratio: 1.5,
        standard_error: 0.125,
        items: 1234,
    }];
    let contamination = Contamination {
        items: 1234,
        predicted: 0.125,
        measured: 0.25,
        standard_error: 0.01,
    };
    found.audit = Some(AuditFound {
        items: 5678,
        curve: Vec::new(),
        reliability: found.class_reliability.clone(),
        joint_classes: [(SCRIPT.to_owned(), contamination)].into(),
    });
    let [_, (_, page)] = found.files().unwrap();
    assert!(!page.contains("<script"));
    // In the title, the header, a warning, a sentence, and five cells of tables.
    let safe = "&lt;script&gt;alert('x')&lt;/script&gt;";
    assert_eq!(page.matches(safe).count(), 9);
    assert!(page.contains("<th scope=\"row\"><code>L0 - L1 - L2</code></th>"));
    assert!(page.contains("<td>25.00 % ± 1.00 %</td>"));
    assert!(page.contains("<th scope=\"col\">exclusion error<small>promised</small></th>"));
    assert_eq!(page.matches("<svg role=\"img\"").count(), 3);
}
