//! The calibration of a bundle from held-out items, each with the one label that it shows.
//!
//! Temperatures come from the first half of the validation items, the exclusion margin from the
//! second. Of the generated items the first half decides how far D_v is tempered and the second the
//! floors and what is reported.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use s2m_core::calibration::margin::{self, MarginError};
use s2m_core::calibration::odds::{self, Generated};
use s2m_core::calibration::{purity, temperature};
use s2m_core::labels::Labels;
use s2m_core::query::Query;
use s2m_core::tail::tail_index;
use s2m_core::weight::{Calibration, Temperature, Weighting};
use s2m_data::recipe::Loaded;
use s2m_model::bundle::{Bundle, MANIFEST};
use s2m_model::manifest::{
    CalibrationEntry, FloorValue, Provenance, TemperatureEntry, TemperatureValue,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::bundle;
use crate::classifier::ClassifierSettings;
use crate::device::Machine;
use crate::folder::{RunFolder, write_whole};
use crate::held_out::{Half, Rows, generated_rows, real_rows};
use crate::replica::Replica;

/// How to choose calibration; read from `calibration` in a run file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct CalibrationSettings {
    /// D_v is tempered until the weights of every reachable joint class keep this share of the
    /// effective sample size that they have without D_v, and have no heavier tail than samplers can
    /// state an error for.
    pub least_effective_share: f64,
    /// δ: largest share of held-out items with an excluded label that may get weight.
    pub exclusion_error: f64,
    /// Predicted purity that its posterior floor brings every reachable joint class to.
    pub purity: f64,
    /// Largest floor that the purity may ask for.
    pub highest_floor: f64,
    /// Share of a joint class's effective items that its floor leaves, unless it is one half already.
    pub least_kept: f64,
}

impl Default for CalibrationSettings {
    fn default() -> Self {
        Self {
            least_effective_share: 0.2,
            exclusion_error: 0.01,
            purity: 0.995,
            highest_floor: 0.95,
            least_kept: 0.5,
        }
    }
}

impl CalibrationSettings {
    /// Refuses numbers that no calibration can be chosen by.
    pub fn check(&self) -> Result<()> {
        let shares = [
            ("least-effective-share", self.least_effective_share),
            ("exclusion-error", self.exclusion_error),
            ("purity", self.purity),
            ("highest-floor", self.highest_floor),
            ("least-kept", self.least_kept),
        ];
        for (name, share) in shares {
            ensure!(
                (0.0..1.0).contains(&share),
                "`calibration.{name}` is {share}; it must be from 0 to below 1"
            );
        }
        Ok(())
    }
}

/// Heaviest tail of weights, as a Pareto index; samplers state no error beyond it.
const HEAVIEST_TAIL: f64 = 0.4;

/// Share of the effective sample size without D_v from which on its tail is not looked at: then the
/// heaviest items cannot hold much, and a larger temperature would only take D_v's say away.
const HARMLESS: f64 = 0.5;

/// Each try of a larger temperature is this many times the one before, up to a limit.
const STEP: f64 = 1.05;
const HIGHEST_TEMPERATURE: f64 = 1e6;

/// A joint class with fewer supported items than this says nothing about temperatures and floors.
const REACHABLE: usize = 100;

/// Bins of the reliability curve.
const BINS: usize = 10;

/// Logits of held-out real items and of generated ones.
struct HeldOut<'a> {
    bundle: &'a Bundle,
    real: Rows,
    generated: Rows,
}

/// The calibration and what led to it.
struct Calibrated {
    entry: CalibrationEntry,
    report: Value,
}

impl<'a> HeldOut<'a> {
    /// Runs validation items and fresh generated items through a bundle's networks.
    fn measure(bundle: &'a Bundle, data: &Loaded, machine: &Machine) -> Result<Self> {
        Ok(Self {
            bundle,
            real: real_rows(bundle, data, &machine.runtime)?,
            generated: generated_rows(bundle, &machine.runtime)?,
        })
    }

    fn labels(&self) -> &Labels {
        self.bundle.labels()
    }

    /// Chooses temperatures, clip, margins and floors.
    fn calibrate(&self, settings: &CalibrationSettings) -> Result<Calibrated> {
        let classes = self.labels().len();
        let halves = [Half::First, Half::Second];
        let [first, second] = halves.map(|half| self.real.half(half));
        let [made_first, made_second] = halves.map(|half| self.generated.half(half));
        let class = temperature::fit_class(&first.class, classes, &first.labels)?;
        let real = temperature::fit_real(&first.real, &made_first.real)?;
        let fake_class = if made_first.fake_class.is_empty() {
            None
        } else {
            let rows = &made_first.fake_class;
            Some(temperature::fit_class(rows, classes, &made_first.labels)?)
        };
        let mut entry = CalibrationEntry {
            temperature: TemperatureEntry {
                class: TemperatureValue::Same(class.temperature),
                fake_class: TemperatureValue::Same(fake_class.map_or(1.0, |fit| fit.temperature)),
                real: real.temperature,
            },
            odds_clip: Some(odds::odds_clip(first.count())),
            ..CalibrationEntry::default()
        };
        let margins = self.set_margins(settings, &second, &mut entry)?;
        self.temper(settings, &made_first, &mut entry)?;
        let joint_classes = self.set_floors(settings, &made_second, &mut entry)?;
        let used = entry.temperature.real;
        let report = json!({
            "held_out_real": self.real.count(),
            "generated": self.generated.count(),
            "class": fit_json(&class),
            "real": fit_json(&real),
            "fake_class": fake_class.as_ref().map(fit_json),
            "auc_real_against_generated": odds::auc(&second.real, &made_second.real),
            "reliability": reliability(&second.real, &made_second.real, real.temperature),
            "odds_clip": entry.odds_clip,
            "real_temperature": {
                "by_likelihood": real.temperature,
                "used": used,
                "tempered": used > real.temperature,
            },
            "effective_share": self.shares(&made_second, &entry, [real.temperature, used])?,
            "class_on_real": sureness(&second.class, classes, class.temperature),
            "class_on_generated": sureness(&made_second.class, classes, class.temperature),
            "margins": margins,
            "joint_classes": joint_classes,
        });
        Ok(Calibrated { entry, report })
    }

    /// The exclusion margin of every joint class that excludes a label.
    fn set_margins(
        &self,
        settings: &CalibrationSettings,
        held_out: &Rows,
        entry: &mut CalibrationEntry,
    ) -> Result<Value> {
        let TemperatureValue::Same(temperature) = entry.temperature.class else {
            unreachable!("one temperature was fitted");
        };
        let mut report = Map::new();
        for query in Query::all_joint(self.labels()) {
            let excluded =
                |at: &usize| query.forced(usize::from(held_out.labels[*at])) == Some(false);
            let ratio = |at| {
                let logits = held_out.evidence(at).class_logits;
                margin::log_critical_margin_of(logits, temperature, self.bundle.labelling(), &query)
            };
            let ratios = (0..held_out.count())
                .filter(excluded)
                .map(ratio)
                .collect::<Result<Vec<_>, _>>()?;
            if ratios.is_empty() {
                continue;
            }
            let said = match margin::exclusion_margin(&ratios, settings.exclusion_error) {
                Ok(found) => {
                    entry.margin.insert(query.text().to_owned(), found.value);
                    json!({ "margin": found.value, "rank": found.rank, "items": found.items })
                }
                Err(why @ (MarginError::TooFew { .. } | MarginError::Never { .. })) => {
                    json!({ "none": why.to_string() })
                }
                Err(why) => return Err(why.into()),
            };
            report.insert(query.text().to_owned(), said);
        }
        Ok(Value::Object(report))
    }

    /// The weighting of one query under the calibration so far, and the items that it is drawn from:
    /// for a conditional generator those of a smallest set of classes that the query needs.
    fn weighting(
        &self,
        query: &Query,
        made: &Rows,
        entry: &CalibrationEntry,
    ) -> Result<(Weighting, Rows)> {
        let temperature = |value: &TemperatureValue| Temperature::from(value.clone());
        let calibration = Calibration {
            class: temperature(&entry.temperature.class),
            fake_class: temperature(&entry.temperature.fake_class),
            real: entry.temperature.real,
            odds_clip: entry.odds_clip.unwrap_or(f64::INFINITY),
            margin: entry.margin.get(query.text()).copied().unwrap_or(1.0),
            floor: 0.0,
        };
        let labelling = self.bundle.labelling().clone();
        let weighting = Weighting::calibrated(query.clone(), labelling, &calibration)?;
        let Some(class) = &self.bundle.manifest().generator.class else {
            return Ok((weighting, made.clone()));
        };
        let cover = query.covers()[0];
        let share = |c| {
            if cover.contains(c) {
                1.0 / cover.len() as f64
            } else {
                0.0
            }
        };
        let shares: Vec<f64> = (0..class.prior.len()).map(share).collect();
        Ok((
            weighting.with_classes(&shares, &class.prior)?,
            made.of_classes(cover),
        ))
    }

    /// Every joint class with enough supported items: log densities without D_v, and D_v's logits.
    fn reachable(
        &self,
        made: &Rows,
        entry: &CalibrationEntry,
    ) -> Result<Vec<(Query, Vec<f64>, Rows)>> {
        let mut reachable = Vec::new();
        for query in Query::all_joint(self.labels()) {
            let (weighting, rows) = self.weighting(&query, made, entry)?;
            let density = |at| {
                let explained = weighting.explain(rows.evidence(at))?;
                Ok(explained.log_density - explained.log_conditional)
            };
            let densities = (0..rows.count())
                .map(density)
                .collect::<Result<Vec<f64>>>()?;
            if densities.iter().filter(|d| d.is_finite()).count() >= REACHABLE {
                reachable.push((query, densities, rows));
            }
        }
        Ok(reachable)
    }

    /// Raises D_v's temperature until every reachable joint class keeps enough of its items.
    fn temper(
        &self,
        settings: &CalibrationSettings,
        made: &Rows,
        entry: &mut CalibrationEntry,
    ) -> Result<()> {
        let clip = entry.odds_clip.unwrap_or(f64::INFINITY);
        let reachable = self.reachable(made, entry)?;
        let heavy = |items: Generated<'_>, temperature: f64| {
            let index = tail_index(&odds::log_weights(items, temperature, clip));
            index.is_some_and(|index| index > HEAVIEST_TAIL)
        };
        let keeps_enough = |temperature: f64| {
            reachable.iter().all(|(_, log_density, rows)| {
                let items = Generated {
                    log_density,
                    real_logits: &rows.real,
                };
                let alone = odds::effective_share(items, f64::INFINITY, clip);
                let share = odds::effective_share(items, temperature, clip);
                share >= settings.least_effective_share * alone
                    && (share >= HARMLESS * alone || !heavy(items, temperature))
            })
        };
        while !keeps_enough(entry.temperature.real) && entry.temperature.real < HIGHEST_TEMPERATURE
        {
            entry.temperature.real *= STEP;
        }
        Ok(())
    }

    /// Effective shares of every reachable joint class: without D_v, and at two temperatures.
    fn shares(
        &self,
        made: &Rows,
        entry: &CalibrationEntry,
        [by_likelihood, used]: [f64; 2],
    ) -> Result<Value> {
        let clip = entry.odds_clip.unwrap_or(f64::INFINITY);
        let reachable = self.reachable(made, entry)?;
        let report = reachable.iter().map(|(query, log_density, rows)| {
            let items = Generated {
                log_density,
                real_logits: &rows.real,
            };
            let at = |temperature| odds::effective_share(items, temperature, clip);
            let shares = json!({
                "without_real": at(f64::INFINITY),
                "by_likelihood": at(by_likelihood),
                "used": at(used),
            });
            (query.text().to_owned(), shares)
        });
        Ok(Value::Object(report.collect()))
    }

    /// For every reachable joint class the least floor at which it has the wanted predicted purity,
    /// lowered to what it can bear.
    fn set_floors(
        &self,
        settings: &CalibrationSettings,
        made: &Rows,
        entry: &mut CalibrationEntry,
    ) -> Result<Value> {
        let mut floors = BTreeMap::from([("default".to_owned(), 0.0)]);
        let mut report = Map::new();
        for query in Query::all_joint(self.labels()) {
            let (weighting, rows) = self.weighting(&query, made, entry)?;
            let item = |at| {
                let explained = weighting.explain(rows.evidence(at))?;
                Ok(purity::Item {
                    log_weight: explained.log_weight,
                    log_posterior: explained.posterior.ln(),
                })
            };
            let items = (0..rows.count()).map(item).collect::<Result<Vec<_>>>()?;
            let supported = items
                .iter()
                .filter(|item| item.log_weight.is_finite())
                .count();
            let floor = if supported < REACHABLE {
                0.0
            } else {
                floor_for(&items, settings)
            };
            let at = |floor: f64| {
                let kept = purity::kept(&items, floor.ln())?;
                Some(
                    json!({ "predicted_purity": kept.predicted_purity, "effective_share": kept.effective_share }),
                )
            };
            let said = json!({
                "supported": supported,
                "floor": floor,
                "without_floor": at(0.0),
                "with_floor": at(floor),
            });
            report.insert(query.text().to_owned(), said);
            floors.insert(query.text().to_owned(), floor);
        }
        entry.floor = FloorValue::ByQuery(floors);
        Ok(Value::Object(report))
    }
}

/// Floors are not lowered under this: an item that is more likely something else is no sample.
const LEAST_LOWERED: u32 = 50;

/// The floor that the purity asks for, lowered in hundredths to what leaves enough effective items,
/// but not under one half.
fn floor_for(items: &[purity::Item], settings: &CalibrationSettings) -> f64 {
    let share =
        |floor: f64| purity::kept(items, floor.ln()).map_or(0.0, |kept| kept.effective_share);
    let least = settings.least_kept * share(0.0);
    let wanted = purity::log_floor_for(items, settings.purity).map_or(1.0, f64::exp);
    let wanted = wanted.min(settings.highest_floor);
    let lowest = f64::from(LEAST_LOWERED) / 100.0;
    if wanted <= lowest || share(wanted) >= least {
        return wanted;
    }
    let hundredths = LEAST_LOWERED..=(wanted * 100.0) as u32;
    let mut lowered = hundredths.rev().map(|n| f64::from(n) / 100.0);
    lowered
        .find(|&floor| share(floor) >= least)
        .unwrap_or(lowest)
}

/// Calibrates the bundle of every replica in place, and keeps what was found in `held-out.json`.
pub fn bundles(
    folder: &RunFolder,
    (loaded, replicas): (&[Loaded], &[Replica]),
    provenance: &dyn Fn(&Replica) -> Result<Provenance>,
    settings: &ClassifierSettings,
    machine: &Machine,
) -> Result<()> {
    settings.calibration.check()?;
    let mut found = Vec::new();
    for replica in replicas {
        let path = folder.join(&bundle::name(replica));
        let opened = Bundle::open(&path)?;
        let calibrated = HeldOut::measure(&opened, &loaded[replica.data], machine)?
            .calibrate(&settings.calibration)
            .with_context(|| format!("calibration of {}", replica.title()))?;
        let mut manifest = opened.manifest().clone();
        manifest.calibration = calibrated.entry;
        manifest.paper.clone_from(&settings.paper);
        manifest.provenance = provenance(replica)?;
        write_whole(&path.join(MANIFEST), toml::to_string(&manifest)?.as_bytes())?;
        say(replica, &calibrated.report);
        found.push(json!({ "replica": replica.title(), "found": calibrated.report }));
    }
    folder.write_json("held-out.json", &found)
}

/// The figures that tell at a glance whether a classifier is of use.
#[expect(clippy::print_stderr, reason = "talk goes to stderr")]
fn say(replica: &Replica, report: &Value) {
    let number = |path: &str| {
        report
            .pointer(path)
            .and_then(Value::as_f64)
            .unwrap_or(f64::NAN)
    };
    eprintln!(
        "{}: real against generated AUC {:.3} on held-out items; class temperature {:.2}; mean largest class probability {:.3} on real, {:.3} on generated items",
        replica.title(),
        number("/auc_real_against_generated"),
        number("/class/temperature"),
        number("/class_on_real/mean_largest_probability"),
        number("/class_on_generated/mean_largest_probability"),
    );
    if report["real_temperature"]["tempered"] == true {
        eprintln!(
            "  warning: the real output is tempered from {:.2} (its likelihood) to {:.2}, so that enough items keep weight",
            number("/real_temperature/by_likelihood"),
            number("/real_temperature/used"),
        );
    }
    for (query, shares) in report["effective_share"].as_object().into_iter().flatten() {
        let share = |name: &str| 100.0 * shares[name].as_f64().unwrap_or(f64::NAN);
        eprintln!(
            "  {query}: effective share {:.2} % (without the real output {:.2} %, by its likelihood {:.2} %)",
            share("used"),
            share("without_real"),
            share("by_likelihood"),
        );
    }
    for (query, margin) in report["margins"].as_object().into_iter().flatten() {
        if let Some(why) = margin["none"].as_str() {
            eprintln!("  warning: {query} has no exclusion margin: {why}");
        }
    }
}

fn fit_json(fit: &temperature::TemperatureFit) -> Value {
    json!({
        "temperature": fit.temperature,
        "nll_before": fit.nll_before,
        "nll_after": fit.nll_after,
        "items": fit.items,
        "at_limit": fit.at_limit,
    })
}

/// Of the items whose probability of being real lies in a bin: the mean probability and the share of
/// real ones, both sides counting alike.
fn reliability(real: &[f32], generated: &[f32], temperature: f64) -> Value {
    let mut bins = [[0.0_f64; 3]; BINS];
    for (side, is_real) in [(real, 1.0), (generated, 0.0)] {
        for &logit in side {
            let probability = 1.0 / (1.0 + (-f64::from(logit) / temperature).exp());
            let bin = ((probability * BINS as f64) as usize).min(BINS - 1);
            let weight = 1.0 / side.len() as f64;
            for (sum, value) in bins[bin].iter_mut().zip([1.0, probability, is_real]) {
                *sum += weight * value;
            }
        }
    }
    let curve = bins.iter().filter(|bin| bin[0] > 0.0).map(|[weight, probability, real]| {
        json!({ "weight": weight / 2.0, "predicted": probability / weight, "real": real / weight })
    });
    Value::Array(curve.collect())
}

/// How sure D_r is: its mean largest probability, and the mean probability of each class.
fn sureness(rows: &[f32], classes: usize, temperature: f64) -> Value {
    let mut largest = 0.0;
    let mut means = vec![0.0; classes];
    for row in rows.chunks_exact(classes) {
        let scaled: Vec<f64> = row.iter().map(|&v| f64::from(v) / temperature).collect();
        let top = scaled.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = scaled.iter().map(|v| (v - top).exp()).sum();
        largest += 1.0 / total;
        for (mean, value) in means.iter_mut().zip(&scaled) {
            *mean += (value - top).exp() / total;
        }
    }
    let n = (rows.len() / classes).max(1) as f64;
    for mean in &mut means {
        *mean /= n;
    }
    json!({ "mean_largest_probability": largest / n, "mean_probability": means })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(weight: f64, posterior: f64) -> purity::Item {
        purity::Item {
            log_weight: weight.ln(),
            log_posterior: posterior.ln(),
        }
    }

    #[test]
    fn a_floor_is_what_purity_asks_for_unless_it_costs_too_much() {
        let settings = CalibrationSettings {
            purity: 0.9,
            ..CalibrationSettings::default()
        };
        // Without the third item the mean posterior is 0.95.
        let items = [item(1.0, 0.9), item(1.0, 1.0), item(1.0, 0.2)];
        assert!((floor_for(&items, &settings) - 0.9).abs() < 1e-9);
        // Only one in four items reaches the purity; keeping half of them asks for a lower floor.
        let items = [
            item(1.0, 0.95),
            item(1.0, 0.6),
            item(1.0, 0.5),
            item(1.0, 0.5),
        ];
        let floor = floor_for(&items, &settings);
        assert!(floor > 0.5 && floor <= 0.6, "{floor}");
        // Nothing here is more likely right than wrong: half of the items would ask for 0.3.
        let items = [
            item(1.0, 0.4),
            item(1.0, 0.3),
            item(1.0, 0.2),
            item(1.0, 0.1),
        ];
        assert_eq!(floor_for(&items, &settings), 0.5);
        assert_eq!(floor_for(&[item(1.0, 0.95)], &settings), 0.0);
    }

    #[test]
    fn a_reliability_curve_counts_both_sides_alike() {
        // Two real items at probability 1/2 and one generated one there: half of the bin is real.
        let curve = reliability(&[0.0, 0.0], &[0.0], 1.0);
        assert_eq!(
            curve,
            json!([{ "weight": 1.0, "predicted": 0.5, "real": 0.5 }])
        );
    }

    #[test]
    fn sureness_is_the_mean_of_probabilities() {
        let found = sureness(&[0.0, 0.0, 3.0_f32.ln(), 0.0], 2, 1.0);
        assert!((found["mean_largest_probability"].as_f64().unwrap_or(0.0) - 0.625).abs() < 1e-7);
    }

    #[test]
    fn settings_that_no_calibration_can_follow_are_refused() {
        let settings = CalibrationSettings {
            highest_floor: 1.0,
            ..CalibrationSettings::default()
        };
        assert_eq!(
            settings.check().expect_err("refused").to_string(),
            "`calibration.highest-floor` is 1; it must be from 0 to below 1"
        );
    }
}
