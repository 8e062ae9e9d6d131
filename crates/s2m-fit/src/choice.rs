//! Which of the discriminator variants is kept.
//!
//! Every way is asked about the same held-out real items and the same generated ones, and all of them are
//! witnesses: kept is the way whose weights make generated items most like real ones, and its bundle is
//! calibrated again with all ways as witnesses. The rule is [`s2m_core::calibration::cap`]'s.

use std::collections::BTreeMap;
use std::path::PathBuf;

use s2m_calibrate::found::WayFound;
use s2m_calibrate::likeness::{Compared, Scored, Told, compare};
use s2m_calibrate::{Calibrated, CalibrationSettings, Engine, Subject, calibrate_among};
use s2m_data::recipe::Loaded;
use s2m_model::bundle::Bundle;
use s2m_show::progress::Progress;

use super::Way;
use crate::Error;

/// Trained ways, the simplest first, and the data that they were trained on.
pub(super) struct Trained<'a> {
    pub(super) ways: &'a [Way],
    /// Folder of each way's bundle.
    pub(super) bundles: &'a [PathBuf],
    pub(super) data: &'a Loaded,
}

/// The way that is kept.
pub(super) struct Kept {
    /// Its place.
    pub(super) at: usize,
    /// Its calibration, which also tells of the others.
    pub(super) calibrated: Calibrated,
    /// Why, in a line.
    pub(super) why: String,
}

/// Asks every way, keeps one and calibrates it again.
pub(super) fn keep(
    trained: &Trained<'_>,
    settings: &CalibrationSettings,
    engine: &Engine<'_>,
    progress: &dyn Progress,
) -> Result<Kept, Error> {
    let opened = trained.bundles.iter().map(|path| Bundle::open(path));
    let bundles = opened.collect::<Result<Vec<_>, _>>()?;
    let mut scored = Vec::with_capacity(bundles.len());
    for bundle in &bundles {
        let subject = Subject {
            bundle,
            data: trained.data,
            audit: None,
        };
        scored.push(Scored::of(subject, settings, engine, progress)?);
    }
    progress.begin("choosing the calibration", None);
    let compared = compare(&scored, settings)?;
    let at = compared.kept;
    let own = scored.remove(at);
    let others: Vec<Told> = scored.iter().map(Scored::told).collect();
    let mut calibrated = calibrate_among(&bundles[at], own, others, settings)?;
    progress.end();
    let why = in_words(trained.ways, &compared);
    if trained.ways.len() > 1 {
        calibrated.found.way = compared.ways[at];
        let names = trained.ways.iter().map(|way| way.name().to_owned());
        calibrated.found.ways = names.zip(compared.ways).collect::<BTreeMap<_, _>>();
    }
    Ok(Kept {
        at,
        calibrated,
        why,
    })
}

/// What is kept, and what each way is chosen by.
fn in_words(ways: &[Way], compared: &Compared) -> String {
    let words = |(way, found): (&Way, &WayFound)| {
        let [before, after] = found.witnesses.unwrap_or_default();
        format!(
            "{} AUC {:.3}, {:.2} % effective, witnesses {before:.3} to {after:.3}, {:.2} % outside the data",
            way.name(),
            found.auc.unwrap_or_default(),
            100.0 * found.effective_share,
            100.0 * found.outside.unwrap_or_default(),
        )
    };
    let all: Vec<String> = ways.iter().zip(&compared.ways).map(words).collect();
    format!(
        "discriminator: `{}` makes generated items most like real ones, or as much as any and more simply, at {:.1} times the calls ({})",
        ways[compared.kept].name(),
        compared.share.recip(),
        all.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_every_way_and_what_it_is_chosen_by() {
        let way = |auc, effective_share, after| WayFound {
            effective_share,
            reliability_error: 0.0,
            auc: Some(auc),
            witnesses: Some([0.9, after]),
            outside: Some(0.125),
        };
        let compared = Compared {
            kept: 0,
            share: 0.3,
            ways: vec![way(0.95, 0.1, 0.23), way(0.6, 0.74, 0.72)],
        };
        assert_eq!(
            in_words(&[Way::Shared, Way::Frozen], &compared),
            "discriminator: `shared` makes generated items most like real ones, or as much as any and more simply, at 3.3 times the calls (shared AUC 0.950, 10.00 % effective, witnesses 0.900 to 0.230, 12.50 % outside the data; frozen AUC 0.600, 74.00 % effective, witnesses 0.900 to 0.720, 12.50 % outside the data)"
        );
    }
}
