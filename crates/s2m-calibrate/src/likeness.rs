//! What witnesses say about the weights: how like real items they make generated ones.
//!
//! A discriminator variant is a witness too, for its own weights and for those of every other way that
//! was trained on the same data and generator. Corrections and caps are found on the first halves of
//! the items; witnesses judge on the second ones. [`s2m_core::calibration::cap`] has the rule.

use s2m_core::calibration::cap::{self, Price, Way};
use s2m_core::calibration::capped::{Capped, Decides};
use s2m_core::calibration::correction::{self, Corrected};
use s2m_core::calibration::odds;
use s2m_core::calibration::witness::{Witness, Witnesses};
use s2m_core::setting::Setting;
use s2m_show::progress::Progress;

use crate::error::{Error, held_out};
use crate::found::{Found, LikenessFound, WayFound};
use crate::held_out::{Engine, Half, Rows, Subject, generated_rows, real_rows};
use crate::real::way_found;
use crate::settings::CalibrationSettings;

/// What one way's networks say about held-out real items and about generated ones.
#[derive(Debug, Clone)]
pub struct Scored {
    pub(crate) real: Rows,
    pub(crate) generated: Rows,
}

impl Scored {
    /// Runs a bundle's networks; bundles of the same generator and seed see the same generated items.
    pub fn of(
        subject: Subject<'_>,
        settings: &CalibrationSettings,
        engine: &Engine<'_>,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let Subject { bundle, data, .. } = subject;
        progress.begin("held-out items", None);
        let items = &data.train.items;
        let real = real_rows(bundle, items, &data.validation_positives, engine)?;
        progress.end();
        let count = settings.generated_for(bundle.manifest());
        let generated = generated_rows(bundle, count, engine, progress)?;
        Ok(Self { real, generated })
    }

    /// Its logits as a witness.
    pub fn told(&self) -> Told {
        Told {
            real: self.real.real.clone(),
            generated: self.generated.real.clone(),
        }
    }
}

/// Logits of a witness for the rows of somebody else.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    real: Vec<f32>,
    generated: Vec<f32>,
}

/// The second half of somebody's logits, cut as these rows are.
fn second(rows: &Rows, logits: &[f32]) -> Vec<f32> {
    let replaced = Rows {
        real: logits.to_vec(),
        ..rows.clone()
    };
    replaced.half(Half::Second).real
}

/// Witnesses of the second halves: the rows' own discriminator, and others.
pub(super) fn witnesses(real: &Rows, generated: &Rows, others: &[Told]) -> Witnesses {
    let own = Told {
        real: real.real.clone(),
        generated: generated.real.clone(),
    };
    let all: Vec<[Vec<f32>; 2]> = std::iter::once(&own)
        .chain(others)
        .map(|told| [second(real, &told.real), second(generated, &told.generated)])
        .collect();
    let each: Vec<Witness<'_>> = all
        .iter()
        .map(|[real, generated]| Witness { real, generated })
        .collect();
    let judged = real.half(Half::Second);
    let made = generated.half(Half::Second);
    Witnesses::new(judged.numbers(), made.count(), &each)
}

/// Corrected log odds of both halves of the generated items.
pub(super) fn way(corrected: &Corrected, [first, second]: [&Rows; 2]) -> Way {
    let log_odds = |rows: &Rows| {
        let of = |v: &f32| corrected.correction.log_odds(f64::from(*v)) / corrected.temperature;
        rows.real.iter().map(of).collect()
    };
    Way {
        fitted: log_odds(first),
        judged: log_odds(second),
    }
}

/// How much likeness may cost.
fn price(settings: &CalibrationSettings) -> Price {
    settings.likeness.map_or(Price::Knee, Price::Share)
}

/// Looks for the cap of one way.
pub(super) fn capped(
    way: Way,
    witnesses: Witnesses,
    settings: &CalibrationSettings,
    clip: f64,
) -> Capped {
    let decides = match settings.least_effective_share {
        None => Decides::Likeness,
        Some(_) => Decides::JointClasses,
    };
    Capped::new(way, witnesses, price(settings), clip, decides)
}

/// What is reported once the cap is fixed.
pub(super) fn found(capped: &Capped, used: f64) -> LikenessFound {
    let (chosen, used) = (capped.chosen(), capped.used(used));
    LikenessFound {
        witnesses: capped.witnesses(),
        before: [chosen.before.sum, chosen.before.standard_error()],
        after: [used.after.sum, used.after.standard_error()],
        still_tell: used.after.tells(),
        accepted_share: used.accepted_share,
        stopped: used.stopped.to_owned(),
        path: chosen.path.clone(),
    }
}

/// What a person should know about the weights.
pub(super) fn warnings(found: &Found) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(likeness) = &found.likeness else {
        return warnings;
    };
    let real = &found.real;
    if let Some(cap) = real.cap {
        warnings.push(format!(
            "odds of the discriminator are capped at {cap:.2}, where they cost {:.1} times the calls: {}",
            likeness.accepted_share.recip(),
            likeness.stopped
        ));
    }
    if likeness.still_tell {
        warnings.push(format!(
            "predicted purity is an upper value: witnesses still tell weighted items from real ones, by {:.2} (without weights {:.2}); {} pays for more with calls",
            likeness.after[0],
            likeness.before[0],
            Setting("likeness")
        ));
    }
    warnings
}

/// Every way beside the others.
pub struct Compared {
    /// Place of the way that is kept.
    pub kept: usize,
    /// Accepted share at which they were compared.
    pub share: f64,
    /// What each is chosen by.
    pub ways: Vec<WayFound>,
}

/// Compares ways on the same items, the simplest first; there is at least one.
pub fn compare(scored: &[Scored], settings: &CalibrationSettings) -> Result<Compared, Error> {
    let first_of = &scored[0];
    let mut ways = Vec::new();
    let mut found = Vec::new();
    let clip = odds::odds_clip(first_of.real.half(Half::First).distinct());
    for way_of in scored {
        let halves = [Half::First, Half::Second];
        let [first, second] = halves.map(|half| way_of.real.half(half));
        let [made_first, made_second] = halves.map(|half| way_of.generated.half(half));
        let choice = correction::choose(&first.real, first.numbers(), &made_first.real, clip)
            .map_err(held_out)?;
        ways.push(way(&choice.chosen, [&made_first, &made_second]));
        let auc = odds::auc(&second.real, &made_second.real);
        found.push(WayFound {
            auc: Some(auc),
            ..way_found(&choice, &made_first, clip)
        });
    }
    let others: Vec<Told> = scored[1..].iter().map(Scored::told).collect();
    let witnesses = witnesses(&first_of.real, &first_of.generated, &others);
    let chosen = cap::choose(&ways, &witnesses, price(settings), clip);
    for (found, judged) in found.iter_mut().zip(&chosen.ways) {
        found.witnesses = Some([chosen.before.sum, judged.after.sum]);
        found.outside = Some(judged.outside);
    }
    Ok(Compared {
        kept: chosen.way,
        share: chosen.share,
        ways: found,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Real items on a line from 0 to 1 and generated ones from 0 to 4/3, judged by a logit of their place.
    fn scored(logit: fn(f32) -> f32) -> Scored {
        let rows = |count: u32, end: f32| {
            let place = |at: u32| (at as f32 + 0.5) / count as f32 * end;
            Rows {
                classes: 1,
                class: vec![0.0; count as usize],
                real: (0..count).map(|at| logit(place(at))).collect(),
                labels: vec![0; count as usize],
                items: (0..count).collect(),
                ..Rows::default()
            }
        };
        Scored {
            real: rows(2000, 1.0),
            generated: rows(4000, 4.0 / 3.0),
        }
    }

    /// Knows which generated items lie outside.
    fn telling(x: f32) -> f32 {
        if x < 1.0 {
            2.0 - x / 1e3
        } else {
            -5.0 - x / 1e3
        }
    }

    /// Knows nothing, and says so.
    fn silent(x: f32) -> f32 {
        (x * 1e4).sin() / 50.0
    }

    #[test]
    fn a_way_that_says_nothing_does_not_win() {
        let settings = CalibrationSettings::default();
        let all = [scored(silent), scored(telling)];
        let found = compare(&all, &settings).unwrap();
        assert_eq!(found.kept, 1, "{:?}", found.ways);
        let [quiet, told] = [found.ways[0], found.ways[1]];
        assert!(quiet.effective_share > 0.99 && told.effective_share < 0.8);
        let [before, after] = told.witnesses.unwrap();
        assert!(before > 0.12 && after < 0.03, "{before} {after}");
        let [_, still] = quiet.witnesses.unwrap();
        assert!((still - before).abs() < 0.01, "{still}");
        // A quarter of the generated items lies outside the data, and one of four pairs tells.
        assert!((told.outside.unwrap() - 0.25).abs() < 0.02, "{told:?}");
        assert!((told.auc.unwrap() - 0.625).abs() < 0.02, "{told:?}");
        // Of two that do as well the first is kept.
        let all = [scored(telling), scored(telling)];
        assert_eq!(compare(&all, &settings).unwrap().kept, 0);
    }

    /// Corrections and caps see the first halves alone, witnesses the second ones.
    #[test]
    fn halves_are_kept_apart() {
        let plain = scored(telling);
        let changed = |part: usize| {
            let mut changed = plain.clone();
            for rows in [&mut changed.real, &mut changed.generated] {
                let half = rows.real.iter_mut().skip(part).step_by(2);
                half.for_each(|v| *v *= 0.5);
            }
            changed
        };
        let found = |of: &Scored| {
            let [first, second] = [Half::First, Half::Second].map(|half| of.generated.half(half));
            let corrected = Corrected {
                correction: correction::Correction::None,
                temperature: 2.0,
            };
            way(&corrected, [&first, &second])
        };
        let before = found(&plain);
        for part in [0, 1] {
            let after = found(&changed(part));
            assert_eq!(after.fitted == before.fitted, part == 1);
            assert_eq!(after.judged == before.judged, part == 0);
        }
        assert_eq!(before.fitted[0], f64::from(plain.generated.real[0]) / 2.0);
    }
}
