//! What held-out items say about a bundle's classifier, and the calibration that follows from it.
//!
//! Only validation items are used, and only the one label that each shows. They are cut into two
//! halves: temperatures come from the first, the exclusion margin and what is reported from the
//! second. Generated items are fresh proposals, cut the same way. Logits come from the bundle's own
//! files, as they do when samples are drawn.

use anyhow::{Context as _, Result};
use s2m_core::calibration::odds::Generated;
use s2m_core::calibration::{margin, odds, purity, temperature};
use s2m_core::labels::Labels;
use s2m_core::proposals::{Proposals, Purpose};
use s2m_core::query::Query;
use s2m_core::weight::{Calibration, Evidence, Temperature, Weighting};
use s2m_data::recipe::Loaded;
use s2m_model::bundle::{Bundle, MANIFEST};
use s2m_model::judge::Judge;
use s2m_model::manifest::{CalibrationEntry, TemperatureEntry, TemperatureValue};
use s2m_model::networks::{Requested, RunSettings, Scorer};
use s2m_model::runtime::Runtime;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::bundle;
use crate::classifier::ClassifierSettings;
use crate::device::Machine;
use crate::folder::{RunFolder, write_whole};
use crate::replica::{Replica, scaled};

/// How to choose calibration; read from `calibration` in a run file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct CalibrationSettings {
    /// D_v is tempered until the weights of every reachable joint class keep this share of the
    /// effective sample size that they have without D_v.
    pub least_effective_share: f64,
    /// δ: largest share of held-out items with an excluded label that may get weight.
    pub exclusion_error: f64,
    /// Predicted purity that the posterior floor brings every reachable joint class to.
    pub purity: f64,
    /// Largest floor that the purity may ask for.
    pub highest_floor: f64,
}

impl Default for CalibrationSettings {
    fn default() -> Self {
        Self {
            least_effective_share: 0.2,
            exclusion_error: 0.01,
            purity: 0.99,
            highest_floor: 0.8,
        }
    }
}

/// Generated items that are measured.
const GENERATED: u64 = 20_000;

/// Proposals of calibration are those of this stage, so that no sample is ever one of them.
const STAGE: u16 = 60_000;

/// A joint class with fewer supported items than this says nothing about temperatures and floors.
const REACHABLE: usize = 100;

/// Logits of some items.
#[derive(Debug, Clone, Default)]
struct Rows {
    classes: usize,
    class: Vec<f32>,
    real: Vec<f32>,
    /// Conditional generators only.
    fake_class: Vec<f32>,
    /// Shown label of a real item, class of a generated one.
    labels: Vec<u8>,
}

impl Rows {
    fn len(&self) -> usize {
        self.real.len()
    }

    fn evidence(&self, at: usize) -> Evidence<'_> {
        let row = at * self.classes..(at + 1) * self.classes;
        Evidence {
            class_logits: &self.class[row.clone()],
            real_logit: self.real[at],
            fake_class_logits: self.fake_class.get(row),
            log_latent_ratio: 0.0,
        }
    }

    /// Every second item, from the first or from the second.
    fn half(&self, second: bool) -> Self {
        let start = usize::from(second);
        let rows = |values: &[f32]| {
            let chosen = values.chunks_exact(self.classes).skip(start).step_by(2);
            chosen.flatten().copied().collect()
        };
        Self {
            classes: self.classes,
            class: rows(&self.class),
            real: self.real.iter().skip(start).step_by(2).copied().collect(),
            fake_class: rows(&self.fake_class),
            labels: self.labels.iter().skip(start).step_by(2).copied().collect(),
        }
    }
}

/// Logits of held-out real items and of generated ones.
pub struct HeldOut<'a> {
    bundle: &'a Bundle,
    real: Rows,
    generated: Rows,
}

/// The calibration and what led to it.
pub struct Calibrated {
    pub entry: CalibrationEntry,
    pub report: Value,
}

impl<'a> HeldOut<'a> {
    /// Runs validation items and fresh generated items through a bundle's networks.
    pub fn measure(bundle: &'a Bundle, data: &Loaded, runtime: &Runtime) -> Result<Self> {
        let seed = bundle.manifest().provenance.seed.unwrap_or(0);
        Ok(Self {
            bundle,
            real: real_rows(bundle, data, runtime)?,
            generated: generated_rows(bundle, seed, runtime)?,
        })
    }

    fn labels(&self) -> &Labels {
        self.bundle.labels()
    }

    /// Chooses temperatures, clip, margins and floor.
    pub fn calibrate(&self, settings: &CalibrationSettings) -> Result<Calibrated> {
        let classes = self.labels().len();
        let [first, second] = [false, true].map(|s| self.real.half(s));
        let [made_first, made_second] = [false, true].map(|s| self.generated.half(s));
        let class = temperature::fit_class(&first.class, classes, &first.labels)?;
        let real = temperature::fit_real(&first.real, &made_first.real)?;
        let fake_class = if made_first.fake_class.is_empty() {
            None
        } else {
            Some(temperature::fit_class(
                &made_first.fake_class,
                classes,
                &made_first.labels,
            )?)
        };
        let mut entry = CalibrationEntry {
            temperature: TemperatureEntry {
                class: TemperatureValue::Same(class.temperature),
                fake_class: TemperatureValue::Same(fake_class.map_or(1.0, |fit| fit.temperature)),
                real: real.temperature,
            },
            odds_clip: Some(odds::odds_clip(first.len())),
            ..CalibrationEntry::default()
        };
        let margin_report = self.set_margins(settings, &second, &mut entry)?;
        let share_report = self.temper(settings, &made_first, &mut entry)?;
        let joint_classes = self.set_floor(settings, &made_second, &mut entry)?;
        let report = json!({
            "held_out_real": self.real.len(),
            "generated": self.generated.len(),
            "class": fit_json(&class),
            "real": fit_json(&real),
            "fake_class": fake_class.as_ref().map(fit_json),
            "auc_real_against_generated": odds::auc(&second.real, &made_second.real),
            "odds_clip": entry.odds_clip,
            "real_temperature": {
                "by_likelihood": real.temperature,
                "used": entry.temperature.real,
                "effective_share_decided": entry.temperature.real > real.temperature,
            },
            "effective_share": share_report,
            "class_on_real": sureness(&second.class, classes, class.temperature),
            "class_on_generated": sureness(&made_second.class, classes, class.temperature),
            "margins": margin_report,
            "floor": entry.floor,
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
            let ratios = (0..held_out.len())
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
                Err(why) => json!({ "none": why.to_string() }),
            };
            report.insert(query.text().to_owned(), said);
        }
        Ok(Value::Object(report))
    }

    /// The weighting of one query under the calibration so far.
    fn weighting(&self, query: &Query, entry: &CalibrationEntry) -> Result<Weighting> {
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
        Ok(match &self.bundle.manifest().generator.class {
            Some(class) => weighting.with_classes(&class.prior, &class.prior)?,
            None => weighting,
        })
    }

    /// Raises D_v's temperature until every reachable joint class keeps enough of its items.
    fn temper(
        &self,
        settings: &CalibrationSettings,
        made: &Rows,
        entry: &mut CalibrationEntry,
    ) -> Result<Value> {
        let clip = entry.odds_clip.unwrap_or(f64::INFINITY);
        let by_likelihood = entry.temperature.real;
        let mut densities = Vec::new();
        for query in Query::all_joint(self.labels()) {
            let weighting = self.weighting(&query, entry)?;
            let density = |at| {
                let explained = weighting.explain(made.evidence(at))?;
                Ok(explained.log_density - explained.log_conditional)
            };
            let log_density = (0..made.len()).map(density).collect::<Result<Vec<f64>>>()?;
            let supported = log_density.iter().filter(|d| d.is_finite()).count();
            if supported >= REACHABLE {
                densities.push((query, log_density));
            }
        }
        let items = |log_density| Generated {
            log_density,
            real_logits: &made.real,
        };
        for (_, log_density) in &densities {
            let alone = odds::effective_share(items(log_density), f64::INFINITY, clip);
            let least = settings.least_effective_share * alone;
            let tempered = odds::temper_to(items(log_density), entry.temperature.real, clip, least);
            entry.temperature.real = entry.temperature.real.max(tempered.temperature);
        }
        let report = densities.iter().map(|(query, log_density)| {
            let at = |temperature| odds::effective_share(items(log_density), temperature, clip);
            let shares = json!({
                "without_real": at(f64::INFINITY),
                "by_likelihood": at(by_likelihood),
                "used": at(entry.temperature.real),
            });
            (query.text().to_owned(), shares)
        });
        Ok(Value::Object(report.collect()))
    }

    /// The least floor at which every reachable joint class has the wanted predicted purity.
    fn set_floor(
        &self,
        settings: &CalibrationSettings,
        made: &Rows,
        entry: &mut CalibrationEntry,
    ) -> Result<Value> {
        let mut found = Vec::new();
        for query in Query::all_joint(self.labels()) {
            let weighting = self.weighting(&query, entry)?;
            let item = |at| {
                let explained = weighting.explain(made.evidence(at))?;
                Ok(purity::Item {
                    log_weight: explained.log_weight,
                    log_posterior: explained.posterior.ln(),
                })
            };
            let items = (0..made.len()).map(item).collect::<Result<Vec<_>>>()?;
            let supported = items
                .iter()
                .filter(|item| item.log_weight.is_finite())
                .count();
            if supported >= REACHABLE {
                let wanted = purity::log_floor_for(&items, settings.purity).map_or(1.0, f64::exp);
                entry.floor = entry.floor.max(wanted.min(settings.highest_floor));
            }
            found.push((query, items, supported));
        }
        let report = found.iter().map(|(query, items, supported)| {
            let at = |floor: f64| {
                let kept = purity::kept(items, floor.ln());
                kept.map(|kept| json!({ "predicted_purity": kept.predicted_purity, "effective_share": kept.effective_share }))
            };
            let said = json!({ "supported": supported, "without_floor": at(0.0), "with_floor": at(entry.floor) });
            (query.text().to_owned(), said)
        });
        Ok(Value::Object(report.collect()))
    }
}

/// Calibrates the bundle of every replica in place, and keeps what was found in `held-out.json`.
pub fn bundles(
    folder: &RunFolder,
    loaded: &[Loaded],
    replicas: &[Replica],
    settings: &ClassifierSettings,
    machine: &Machine,
) -> Result<()> {
    let mut found = Vec::new();
    for replica in replicas {
        let path = folder.join(&bundle::name(replica));
        let bundle = Bundle::open(&path)?;
        let calibrated = HeldOut::measure(&bundle, &loaded[replica.data], &machine.runtime)?
            .calibrate(&settings.calibration)
            .with_context(|| format!("calibration of {}", replica.title()))?;
        let mut manifest = bundle.manifest().clone();
        manifest.calibration = calibrated.entry;
        manifest.paper.clone_from(&settings.paper);
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
        "{}: D_v separates real from generated with AUC {:.3} on held-out items; its temperature is {:.2} (by likelihood {:.2}); D_r's is {:.2}, its mean largest probability {:.3} on real and {:.3} on generated items",
        replica.title(),
        number("/auc_real_against_generated"),
        number("/real_temperature/used"),
        number("/real_temperature/by_likelihood"),
        number("/class/temperature"),
        number("/class_on_real/mean_largest_probability"),
        number("/class_on_generated/mean_largest_probability"),
    );
    for (query, shares) in report["effective_share"].as_object().into_iter().flatten() {
        let share = |name: &str| 100.0 * shares[name].as_f64().unwrap_or(f64::NAN);
        eprintln!(
            "  {query}: effective share {:.2} % (without D_v {:.2} %, D_v by likelihood {:.2} %)",
            share("used"),
            share("without_real"),
            share("by_likelihood"),
        );
    }
}

/// What the classifier says about the validation items.
fn real_rows(bundle: &Bundle, data: &Loaded, runtime: &Runtime) -> Result<Rows> {
    let entry = &bundle.manifest().classifier;
    let outputs = [entry.outputs.class.as_str(), entry.outputs.real.as_str()];
    let bytes = bundle.classifier().bytes.to_vec();
    let judge = Judge::of(
        entry.file.clone(),
        bytes,
        &outputs,
        runtime,
        &RunSettings::default(),
    )?;
    let shown: Vec<u32> = data.validation_positives.iter().map(|p| p.item).collect();
    let [class, real] =
        <[Vec<f32>; 2]>::try_from(judge.judge(&scaled(&data.train.items.select(&shown)))?)
            .ok()
            .context("a judge gives the outputs that it is asked for")?;
    Ok(Rows {
        classes: bundle.labels().len(),
        class,
        real,
        fake_class: Vec::new(),
        labels: data.validation_positives.iter().map(|p| p.label).collect(),
    })
}

/// What the classifier says about fresh generated items, of classes as when it was trained.
fn generated_rows(bundle: &Bundle, seed: u64, runtime: &Runtime) -> Result<Rows> {
    let proposals = Proposals::new(seed).at_stage(STAGE);
    let numbers: Vec<u64> = (0..GENERATED).collect();
    let classes: Vec<u32> = match &bundle.manifest().generator.class {
        None => Vec::new(),
        Some(class) => {
            let of =
                |&number: &u64| class_at(&class.prior, proposals.uniform(Purpose::Class, number));
            numbers.iter().map(of).collect()
        }
    };
    let scorer = Scorer::open(bundle, runtime, &RunSettings::default())?;
    let logits = scorer.score(Requested {
        proposals,
        numbers: &numbers,
        classes: &classes,
    })?;
    let mut rows = Rows {
        classes: bundle.labels().len(),
        labels: classes.iter().map(|&class| class as u8).collect(),
        ..Rows::default()
    };
    for at in 0..logits.len() {
        let evidence = logits.evidence(at);
        rows.class.extend(evidence.class_logits);
        rows.real.push(evidence.real_logit);
        rows.fake_class
            .extend(evidence.fake_class_logits.unwrap_or_default());
    }
    Ok(rows)
}

/// The class at a place in (0, 1) when classes lie side by side by their shares.
fn class_at(shares: &[f64], place: f64) -> u32 {
    let mut end = 0.0;
    let holds = |share: &f64| {
        end += share;
        place < end
    };
    shares.iter().position(holds).unwrap_or(shares.len() - 1) as u32
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
    means.iter_mut().for_each(|mean| *mean /= n);
    json!({ "mean_largest_probability": largest / n, "mean_probability": means })
}
