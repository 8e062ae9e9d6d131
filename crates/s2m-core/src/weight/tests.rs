use super::*;
use crate::labels::Labels;

fn labels() -> Labels {
    Labels::new(["A", "B"]).unwrap()
}

fn weighting(text: &str, calibration: &Calibration) -> Weighting {
    let query = Query::parse(text, &labels()).unwrap();
    Weighting::calibrated(query, Labelling::one_of(&[1.0, 1.0]).unwrap(), calibration).unwrap()
}

fn evidence(class_logits: &[f32]) -> Evidence<'_> {
    Evidence {
        class_logits,
        real_logit: 2.0,
        fake_class_logits: None,
        joint: None,
        log_latent_ratio: 0.0,
    }
}

/// D_r = (3/4, 1/4): A − B has density 1/2, and D_v adds its logit.
#[test]
fn a_weight_computed_on_paper() {
    let w = weighting("A - B", &Calibration::default());
    let found = w.log_weight(evidence(&[3.0_f32.ln(), 0.0])).unwrap();
    assert!((found - (0.5_f64.ln() + 2.0)).abs() < 1e-7, "{found}");
}

#[test]
fn temperature_clip_margin_and_floor_enter_where_they_should() {
    let logits = [2.0 * 3.0_f32.ln(), 0.0];
    let calibration = Calibration {
        class: Temperature::ByExcluded(vec![9.0, 2.0]),
        real: 0.5,
        odds_clip: 10.0,
        margin: 0.5,
        ..Calibration::default()
    };
    // T = 2 makes D_r (3/4, 1/4); margin 1/2: 3/4 − 2/4; odds e^4 are clipped to 10.
    let found = weighting("A - B", &calibration)
        .log_weight(evidence(&logits))
        .unwrap();
    assert!(
        (found - (0.25_f64.ln() + 10.0_f64.ln())).abs() < 1e-7,
        "{found}"
    );
    // P(A − B | x) = 1/2 at margin 1.
    let floor = |floor| {
        weighting(
            "A - B",
            &Calibration {
                floor,
                ..calibration.clone()
            },
        )
    };
    assert!(
        floor(0.49)
            .log_weight(evidence(&logits))
            .unwrap()
            .is_finite()
    );
    assert_eq!(
        floor(0.51).log_weight(evidence(&logits)).unwrap(),
        f64::NEG_INFINITY
    );
}

#[test]
fn a_correction_comes_before_the_temperature_the_clip_and_the_cap() {
    let with = |real, odds_clip, odds_cap| {
        let calibration = Calibration {
            real,
            odds_clip,
            odds_cap,
            correction: Correction::Platt {
                slope: 3.0,
                shift: -1.0,
            },
            ..Calibration::default()
        };
        let w = weighting("A - B", &calibration);
        w.explain(evidence(&[0.0, 0.0])).unwrap().log_odds
    };
    // 3 · 2 − 1 = 5, halved, then clipped, then capped.
    let none = f64::INFINITY;
    assert_eq!(with(1.0, none, none), 5.0);
    assert_eq!(with(2.0, none, none), 2.5);
    assert_eq!(with(2.0, 4.0, none), 4.0_f64.ln());
    assert_eq!(with(2.0, 4.0, 0.5), 0.5_f64.ln());
    assert_eq!(with(2.0, none, 1e9), 2.5);
}

#[test]
fn an_audit_changes_predictions_alone() {
    let curve = Curve::new(vec![[0.0, 0.0], [1.0, 0.8]]);
    let calibration = Calibration {
        audit: curve,
        ..Calibration::default()
    };
    let logits = [3.0_f32.ln(), 0.0];
    let found = weighting("A - B", &calibration)
        .explain(evidence(&logits))
        .unwrap();
    // P(A − B | x) = 1/2.
    assert!((found.posterior - 0.5).abs() < 1e-7);
    assert!((found.predicted - 0.4).abs() < 1e-7);
    let plain = weighting("A - B", &Calibration::default());
    assert_eq!(
        found.log_weight,
        plain.log_weight(evidence(&logits)).unwrap()
    );
}

/// One class: the paper's formula divides by D_f(c|x)/p_G(c).
#[test]
fn the_conditional_term_divides_by_the_mixture_of_classes() {
    let w = weighting("A - B", &Calibration::default());
    let (class, fake) = ([3.0_f32.ln(), 0.0], [4.0_f32.ln(), 0.0]);
    let with = |shares: &[f64]| {
        let w = w.clone().with_classes(shares, &[0.5, 0.5]).unwrap();
        let item = Evidence {
            fake_class_logits: Some(&fake),
            ..evidence(&class)
        };
        w.log_weight(item).unwrap() - (0.5_f64.ln() + 2.0)
    };
    assert!((with(&[1.0, 0.0]) + (0.8_f64 / 0.5).ln()).abs() < 1e-7);
    assert!(with(&[0.5, 0.5]).abs() < 1e-7);
    assert_eq!(
        w.clone()
            .with_classes(&[0.0, 1.0], &[0.5, 0.5])
            .unwrap_err()
            .to_string(),
        "the classes to generate do not meet every label set of the query"
    );
}

#[test]
fn logits_that_are_not_numbers_are_errors() {
    let w = weighting("A", &Calibration::default());
    let message = |item: Evidence<'_>| w.log_weight(item).unwrap_err().to_string();
    assert_eq!(
        message(evidence(&[f32::NAN, 0.0])),
        "a logit of the class head is NaN"
    );
    let real = Evidence {
        real_logit: f32::INFINITY,
        ..evidence(&[0.0, 0.0])
    };
    assert_eq!(message(real), "a logit of the discriminator is inf");
    let fake = Evidence {
        fake_class_logits: Some(&[0.0, f32::NEG_INFINITY]),
        ..evidence(&[0.0, 0.0])
    };
    assert_eq!(message(fake), "a logit of the fake-class head is -inf");
}

#[test]
fn settings_outside_their_range_are_named() {
    let query = || Query::parse("A | B", &labels()).unwrap();
    let labelling = || Labelling::one_of(&[1.0, 1.0]).unwrap();
    let message = |c: Calibration| {
        Weighting::calibrated(query(), labelling(), &c)
            .unwrap_err()
            .to_string()
    };
    let base = Calibration::default;
    assert_eq!(
        message(Calibration {
            margin: 0.0,
            ..base()
        }),
        "the margin is 0; it must be above 0 and at most 1"
    );
    assert_eq!(
        message(Calibration {
            floor: 1.0,
            ..base()
        }),
        "the posterior floor is 1; it must be at least 0 and below 1"
    );
    assert_eq!(
        message(Calibration {
            real: -1.0,
            ..base()
        }),
        "the temperature of the discriminator is -1; it must be between 0.000001 and 1000000000"
    );
    assert_eq!(
        message(Calibration {
            odds_clip: 0.5,
            ..base()
        }),
        "the odds clip is 0.5; it must be at least 1"
    );
    assert!(
        message(Calibration {
            class: Temperature::ByExcluded(vec![1.0]),
            ..base()
        })
        .contains("`A | B` is not a plain")
    );
}

#[test]
fn extreme_logits_stay_finite() {
    let w = weighting("A - B", &Calibration::default());
    let found = w.log_weight(evidence(&[f32::MAX, f32::MIN])).unwrap();
    assert!((found - 2.0).abs() < 1e-9);
    assert_eq!(
        w.log_weight(evidence(&[f32::MIN, f32::MAX])).unwrap(),
        f64::NEG_INFINITY
    );
}

/// On paper: levels 1 : ½ : ¼ (weights 1, one of), so labels are present with 2/3, 1/3 and 1/5.
#[test]
fn nearness_is_the_probability_under_independent_labels() {
    let labels = crate::labels::Labels::new(["A", "B", "C"]).unwrap();
    let near = |text: &str, logits: &[f32]| {
        let query = Query::parse(text, &labels).unwrap();
        let labelling = Labelling::one_of(&[1.0; 3]).unwrap();
        let weighting = Weighting::new(query, labelling).unwrap();
        let evidence = Evidence {
            class_logits: logits,
            real_logit: 0.0,
            fake_class_logits: None,
            joint: None,
            log_latent_ratio: 0.0,
        };
        weighting.log_nearness(evidence).unwrap().exp()
    };
    let logits = [0.0, 0.5_f32.ln(), 0.25_f32.ln()];
    let close = |text: &str, wanted: f64| {
        let found = near(text, &logits);
        assert!(
            (found - wanted).abs() < 1e-6,
            "{text}: {found} for {wanted}"
        );
    };
    close("A + B", 2.0 / 9.0);
    close("A - B", 4.0 / 9.0);
    close("A | B", 1.0 - 2.0 / 9.0);
    close("C - A - B", 0.2 * 2.0 / 9.0);
    close("(A | B) + C", 0.2 * 7.0 / 9.0);
    // Far outside the support it is still finite, and grows toward it.
    let (far, nearer) = (
        near("B - A", &[30.0, 0.0, 0.0]),
        near("B - A", &[10.0, 0.0, 0.0]),
    );
    assert!(far > 0.0 && nearer > 100.0 * far, "{far}, {nearer}");
}
