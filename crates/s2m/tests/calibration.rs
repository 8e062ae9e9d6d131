//! Which calibration holds for a query: the bundle's, the paper's, and what a person changes.

use s2m::settings::{CalibrationChoice, SampleSettings};
use s2m::weigh::calibration;
use s2m_core::query::Query;
use s2m_core::weight::Temperature;
use s2m_testkit::exact;

#[test]
fn the_bundle_the_paper_and_overrides_each_have_their_say() {
    let mut files = exact::gaussians_exact();
    let text = String::from_utf8(files[0].1.clone()).unwrap();
    let text = text.replace("floor = 0.0", "floor = 0.25\nodds_clip = 50.0");
    let text = text.replace("default = 1.0", "default = 0.5\n\"B & !A\" = 0.125");
    let paper =
        "\n[paper]\ntemperature = { class = [0.2, 1.5], real = 4.0 }\nmargin = { default = 0.1 }\n";
    files[0].1 = (text + paper).into_bytes();
    let bundle = exact::open(&files);
    let query = |text| Query::parse(text, bundle.labels()).unwrap();
    let mut settings = SampleSettings::default();

    let found = calibration(&bundle, &query("A"), &settings).unwrap();
    assert_eq!(
        (found.margin, found.floor, found.odds_clip),
        (0.5, 0.25, 50.0)
    );
    // A margin belongs to a query's meaning, however it is written.
    assert_eq!(
        calibration(&bundle, &query("B - A"), &settings)
            .unwrap()
            .margin,
        0.125
    );

    settings.calibration = CalibrationChoice::Paper;
    let found = calibration(&bundle, &query("B - A"), &settings).unwrap();
    assert_eq!((found.margin, found.floor, found.real), (0.1, 0.0, 4.0));
    assert_eq!(
        found.odds_clip, 50.0,
        "the clip is part of the target, whoever calibrated"
    );
    assert_eq!(found.class.at(&query("A + B")), Ok(0.2));
    assert_eq!(found.class.at(&query("A - B")), Ok(1.5));

    settings.overrides.margin = Some(0.75);
    settings.overrides.floor = Some(0.5);
    settings.overrides.class_temperature = Some(3.0);
    let found = calibration(&bundle, &query("B - A"), &settings).unwrap();
    assert_eq!((found.margin, found.floor), (0.75, 0.5));
    assert_eq!(
        (found.class, found.fake_class),
        (Temperature::Same(3.0), Temperature::Same(3.0))
    );
}
