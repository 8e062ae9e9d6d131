//! `s2m info`: what a bundle holds.

use std::collections::BTreeMap;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use s2m_calibrate::PAGE;
use s2m_model::manifest::{CalibrationEntry, CorrectionEntry, LabellingModel, TemperatureValue};
use serde_json::json;

use super::{Answer, print_json};
use crate::options::TalkOptions;
use crate::streams::Streams;

const EXAMPLES: &str = "Examples:
  s2m info gaussians-exact
  s2m info faces.s2m --json";

/// Show what a bundle holds; without MODEL, list the embedded ones
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InfoArgs {
    /// Bundle folder, or the name of an embedded model
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,

    #[command(flatten)]
    talk: TalkOptions,
}

pub(crate) fn run(args: &InfoArgs, streams: &mut Streams<'_>) -> Result<Answer> {
    let Some(model) = &args.model else {
        if args.talk.json {
            let names: Vec<&str> = s2m::models::embedded_names().collect();
            print_json(&names, streams)?;
            return Ok(Answer::Yes);
        }
        for name in s2m::models::embedded_names() {
            writeln!(streams.out, "{name}")?;
        }
        return Ok(Answer::Yes);
    };
    let bundle = s2m::models::open(model)?;
    let manifest = bundle.manifest();
    if args.talk.json {
        let json = json!({
            "bundle_hash": bundle.hash(),
            "scoring_hash": bundle.scoring_hash(),
            "manifest": manifest,
        });
        print_json(&json, streams)?;
        return Ok(Answer::Yes);
    }
    let shape = |shape: &[usize]| {
        shape
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" x ")
    };
    let labels = manifest
        .labels
        .iter()
        .map(|label| match manifest.describe.get(label) {
            Some(text) => format!("{label} ({text})"),
            None => label.clone(),
        });
    let output = &manifest.generator.output;
    let item = if output.is_picture() {
        "image"
    } else {
        "point"
    };
    let latents = manifest
        .generator
        .latents
        .iter()
        .map(|l| format!("{} [{}]", l.input, shape(&l.shape)));
    let report = s2m::models::folder(model)
        .map(|folder| folder.join(PAGE))
        .filter(|page| page.is_file());
    let rule = match manifest.labelling.model {
        LabellingModel::OneOf => "one-of: each item shows one label of its set",
        LabellingModel::PerClass => "per-class: items drawn for each label",
    };
    let lines = [
        ("name", manifest.name.clone()),
        ("hash", bundle.hash().to_owned()),
        ("labels", labels.collect::<Vec<_>>().join(", ")),
        ("labelling", rule.to_owned()),
        (
            "generator",
            format!(
                "{}, latents {}, makes a {item} [{}]",
                manifest.generator.file,
                latents.collect::<Vec<_>>().join(", "),
                shape(&output.shape)
            ),
        ),
        (
            "conditional",
            if bundle.classes().is_some() {
                "yes"
            } else {
                "no"
            }
            .to_owned(),
        ),
        ("classifier", manifest.classifier.file.clone()),
        ("unchecked", unchecked(bundle.unchecked_weights())),
        ("calibration", calibration(&manifest.calibration)),
        (
            "report",
            report.map_or(String::new(), |page| page.display().to_string()),
        ),
        ("data", manifest.provenance.data.clone()),
        ("licence", manifest.provenance.licence.clone()),
        ("recipe", manifest.provenance.recipe.clone()),
    ];
    for (name, value) in lines.into_iter().filter(|(_, value)| !value.is_empty()) {
        writeln!(streams.out, "{name:<12} {value}")?;
    }
    Ok(Answer::Yes)
}

/// Weights that may change without anybody noticing, and the cure.
fn unchecked(files: &[String]) -> String {
    match files {
        [] => String::new(),
        files => format!(
            "{}: model.toml does not list it under [external] with its SHA-256",
            files.join(", ")
        ),
    }
}

/// Most margins or floors that are listed one by one.
const MOST_LISTED: usize = 8;

fn temperature(value: &TemperatureValue) -> String {
    match value {
        TemperatureValue::Same(value) => format!("{value:.4}"),
        TemperatureValue::ByExcluded(values) => {
            format!("{values:.4?} by number of excluded labels")
        }
    }
}

/// A calibration in a line.
fn calibration(calibration: &CalibrationEntry) -> String {
    let by_query = |entries: &BTreeMap<String, f64>| {
        let entry = |(query, value): (&String, &f64)| format!("{value:.4} ({query})");
        if entries.len() > MOST_LISTED {
            return format!("for {} queries", entries.len());
        }
        entries.iter().map(entry).collect::<Vec<_>>().join(", ")
    };
    let correction = match &calibration.correction {
        None => String::new(),
        Some(CorrectionEntry::Platt { slope, shift }) => {
            format!("discriminator by Platt ({slope:.4}, {shift:.4}), ")
        }
        Some(CorrectionEntry::Isotonic { logits, .. }) => {
            format!(
                "discriminator by an isotonic curve of {} corners, ",
                logits.len()
            )
        }
    };
    let audit = calibration.audit.as_ref().map_or(String::new(), |audit| {
        format!(
            ", predictions corrected by an audit of {} items",
            audit.items
        )
    });
    format!(
        "class temperature {}, {correction}real temperature {:.4}, margin {}, floor {}{audit}",
        temperature(&calibration.temperature.class),
        calibration.temperature.real,
        by_query(&calibration.margin),
        by_query(&calibration.floor.entries())
    )
}
