//! What a bundle knows about whether the data holds a query at all, and what is said about it.
//!
//! A query is absent if every joint class on which it holds is; see
//! [`s2m_core::calibration::presence`]. Bundles without counts say nothing.

use s2m_core::calibration::presence::Verdict;
use s2m_core::query::Query;
use s2m_core::setting::Setting;
use s2m_core::weight::Weighting;
use s2m_model::bundle::Bundle;

use crate::refusal::Refusal;
pub use crate::refusal::{Cause, LEAST_PURITY, Seen};
use crate::settings::{CalibrationChoice, SampleSettings};

/// What a bundle knows about a query; none where its joint classes were not counted.
pub fn of(bundle: &Bundle, query: &Query) -> Option<Seen> {
    let entry = bundle.manifest().calibration.presence.as_ref()?;
    let known = entry.of(query, bundle.labels())?;
    let verdict = known.iter().map(|(_, counted)| counted.verdict()).max()?;
    let counted = known.iter().map(|(_, counted)| *counted);
    Some(Seen {
        verdict,
        counted: counted.reduce(|a, b| a.and(&b))?,
        floor: known.iter().map(|(floor, _)| *floor).reduce(f64::min)?,
    })
}

/// Whether samples are drawn by the bundle's own calibration, of which the counts speak.
fn applies(settings: &SampleSettings) -> bool {
    settings.calibration == CalibrationChoice::Bundle
}

/// The answer to a query that the data may not hold; none where it is drawn.
pub(crate) fn refuse(bundle: &Bundle, query: &Query, settings: &SampleSettings) -> Option<Refusal> {
    if !asks(settings) {
        return None;
    }
    let seen = of(bundle, query).filter(|seen| seen.verdict == Verdict::Absent)?;
    Some(Refusal {
        query: query.text().to_owned(),
        failure: Cause::Absent(seen),
        advice: format!("{} draws it anyway", Setting("floor").to(0)),
    })
}

/// The answer to a query whose samples would mostly be wrong; none where they are written.
pub(crate) fn refuse_impure(
    weighting: &Weighting,
    predicted: f64,
    settings: &SampleSettings,
) -> Option<Refusal> {
    if !asks(settings) || predicted >= least_purity(settings) {
        return None;
    }
    Some(Refusal {
        query: weighting.query().text().to_owned(),
        failure: Cause::Impure { predicted },
        advice: format!(
            "check `s2m classes` for what the generator makes, or raise {}; {} draws it anyway",
            Setting("purity"),
            Setting("floor").to(0)
        ),
    })
}

/// Whether anybody is asked before a query is drawn: `--floor 0` and other calibrations than the bundle's ask
/// nobody.
pub(crate) fn asks(settings: &SampleSettings) -> bool {
    applies(settings) && settings.overrides.floor != Some(0.0)
}

/// The purity that samples need; a lower one may be asked for.
pub(crate) fn least_purity(settings: &SampleSettings) -> f64 {
    settings
        .overrides
        .purity
        .map_or(LEAST_PURITY, |purity| purity.min(LEAST_PURITY))
}

/// What a report on a query says beforehand: whether the data holds it, and whether its predicted purity
/// can be believed.
pub(crate) fn warnings(bundle: &Bundle, query: &Query, settings: &SampleSettings) -> Vec<String> {
    if !applies(settings) {
        return Vec::new();
    }
    let seen = of(bundle, query).and_then(|seen| match seen.verdict {
        Verdict::Present => None,
        Verdict::Undecided => Some(format!(
            "it cannot be told whether the data holds such items: {seen}"
        )),
        Verdict::Absent => Some(Cause::Absent(seen).to_string()),
    });
    // At another temperature witnesses would say something else.
    let told = bundle.manifest().calibration.witnesses;
    let changed = settings.overrides;
    let told = told.filter(|_| changed.real_temperature.is_none() && changed.odds_cap.is_none());
    let told = told.map(|told| {
        format!(
            "predicted purity is an upper value: witnesses still tell weighted items from real ones, by {told:.2}"
        )
    });
    seen.into_iter().chain(told).collect()
}

#[cfg(test)]
mod tests {
    use s2m_model::presence::PresenceEntry;
    use s2m_testkit::exact;

    use super::*;

    /// The exact Gaussians, calibrated with these counts.
    fn bundle(told: Option<f64>, classes: [(f64, usize, f64); 3]) -> Bundle {
        let mut files = exact::gaussians_exact();
        let plain = exact::open(&files);
        let mut manifest = plain.manifest().clone();
        let texts = ["A - B", "B - A", "A + B"].map(str::to_owned);
        manifest.calibration.witnesses = told;
        manifest.calibration.presence = Some(PresenceEntry {
            items: 300,
            classes: texts.into_iter().zip(classes).collect(),
        });
        files[0].1 = toml::to_string(&manifest).unwrap().into_bytes();
        exact::open(&files)
    }

    fn query(text: &str, bundle: &Bundle) -> Query {
        Query::parse(text, bundle.labels()).unwrap()
    }

    #[test]
    fn a_query_is_absent_if_all_its_joint_classes_are() {
        let bundle = bundle(None, [(0.5, 0, 0.0), (0.5, 3, 1.0), (0.8, 2, 2.5)]);
        let verdict = |text| of(&bundle, &query(text, &bundle)).unwrap().verdict;
        assert_eq!(verdict("A - B"), Verdict::Absent);
        assert_eq!(verdict("A"), Verdict::Absent);
        assert_eq!(verdict("B"), Verdict::Undecided);
        assert_eq!(verdict("A | B"), Verdict::Undecided);
        let settings = SampleSettings::default();
        let refused = |text| refuse(&bundle, &query(text, &bundle), &settings);
        assert_eq!(
            refused("A - B").unwrap().to_string(),
            "`A - B`: the data may hold no such item: none of 300 held-out items reaches the posterior 0.50; at most 1.00 % of all items do\nhint: `floor = 0` draws it anyway"
        );
        assert_eq!(
            refused("A").unwrap().failure.to_string(),
            "the data may hold no such item: 2 of 300 held-out items reach the posterior 0.50, and errors explain 2.5; at most 2.10 % of all items do"
        );
        assert_eq!(refused("B"), None);
        assert_eq!(
            warnings(&bundle, &query("B - A", &bundle), &settings),
            [
                "it cannot be told whether the data holds such items: 3 of 300 held-out items reach the posterior 0.50, and errors explain 1.0; at most 2.58 % of all items do"
            ]
        );
    }

    #[test]
    fn a_floor_of_zero_and_other_calibrations_draw_it_anyway() {
        let bundle = bundle(None, [(0.5, 0, 0.0); 3]);
        let a = query("A", &bundle);
        let mut settings = SampleSettings::default();
        settings.overrides.floor = Some(0.2);
        assert!(refuse(&bundle, &a, &settings).is_some());
        settings.overrides.floor = Some(0.0);
        assert!(refuse(&bundle, &a, &settings).is_none());
        assert_eq!(warnings(&bundle, &a, &settings).len(), 1);
        settings = SampleSettings {
            calibration: CalibrationChoice::None,
            ..SampleSettings::default()
        };
        assert!(refuse(&bundle, &a, &settings).is_none());
        assert!(warnings(&bundle, &a, &settings).is_empty());
    }

    #[test]
    fn as_long_as_witnesses_tell_purity_is_an_upper_value() {
        let bundle = bundle(Some(0.123), [(0.5, 100, 0.0); 3]);
        let a = query("A", &bundle);
        let mut settings = SampleSettings::default();
        assert_eq!(
            warnings(&bundle, &a, &settings),
            [
                "predicted purity is an upper value: witnesses still tell weighted items from real ones, by 0.12"
            ]
        );
        settings.overrides.real_temperature = Some(2.0);
        assert!(warnings(&bundle, &a, &settings).is_empty());
        // Bundles that know nothing say nothing.
        let plain = exact::open(&exact::gaussians_exact());
        assert_eq!(of(&plain, &a), None);
        assert!(warnings(&plain, &a, &SampleSettings::default()).is_empty());
    }
}
