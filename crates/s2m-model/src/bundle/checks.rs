//! What a manifest must hold before any network is looked at.

use std::collections::BTreeMap;
use std::sync::Arc;

use s2m_core::Kind;
use s2m_core::joint::LabelSets;
use s2m_core::labels::Labels;
use s2m_core::query::Query;

use crate::error::Error;
use crate::manifest::{CalibrationEntry, GeneratorEntry, ItemEntry, Manifest, TemperatureValue};

/// Most numbers in one item or latent; beyond it a shape is a mistake or an attack.
const MAX_NUMBERS: usize = 1 << 24;

pub(super) fn check_manifest(manifest: &Manifest, labels: &Labels) -> Result<(), Error> {
    let fault = |text: String| Err(Error::malformed(text));
    check_columns(labels)?;
    if let Some(name) = manifest
        .describe
        .keys()
        .find(|name| labels.find(name).is_none())
    {
        return fault(format!("describe names `{name}`, which is not a label"));
    }
    check_calibration("calibration", &manifest.calibration, labels)?;
    if let Some(levels) = &manifest.levels {
        check_calibration("levels", levels, labels)?;
    }
    if let Some(paper) = &manifest.paper {
        check_calibration("paper", paper, labels)?;
    }
    let generator = &manifest.generator;
    check_generator_entry(generator)?;
    check_shape("classifier.input.shape", &manifest.classifier.input.shape)?;
    check_item("classifier.input", &manifest.classifier.input)?;
    if let Some(class) = &generator.class {
        if class.prior.len() != labels.len() {
            let (found, wanted) = (class.prior.len(), labels.len());
            return fault(format!(
                "generator.class.prior has {found} entries for {wanted} labels"
            ));
        }
        if manifest.classifier.outputs.fake_class.is_none() {
            return fault("a conditional generator needs classifier.outputs.fake_class".to_owned());
        }
    }
    Ok(())
}

/// Columns that a table of samples may have besides those of the labels.
const OWN_COLUMNS: [&str; 6] = [
    "file_name",
    "query",
    "proposal",
    "log_weight",
    "class",
    "stage",
];

/// Refuses labels whose columns in a table of samples could not be told apart; many readers of tables do
/// not tell capitals from small letters.
fn check_columns(labels: &Labels) -> Result<(), Error> {
    let posteriors = labels.names().map(|label| format!("p_{label}"));
    let own = OWN_COLUMNS.map(str::to_owned).into_iter();
    let mut taken: BTreeMap<String, String> = own
        .chain(posteriors)
        .map(|column| (column.to_lowercase(), column))
        .collect();
    if taken.len() < OWN_COLUMNS.len() + labels.len() {
        taken.retain(|_, column| !column.starts_with("p_"));
    }
    for label in labels.names() {
        if let Some(other) = taken.insert(label.to_lowercase(), label.to_owned()) {
            return Err(Error::malformed(format!(
                "label `{label}` cannot be told from `{other}` in a table of samples\nhint: give it another name in labels, and in describe and calibration where they name it"
            )));
        }
    }
    Ok(())
}

/// The checked list of the joint head.
pub(super) fn label_sets(
    manifest: &Manifest,
    labels: &Labels,
) -> Result<Option<Arc<LabelSets>>, Error> {
    let Some(joint) = &manifest.classifier.joint else {
        return Ok(None);
    };
    let fault = |text: String| Error::malformed(format!("classifier.joint: {text}"));
    if joint.members.len() > MAX_MEMBERS {
        let found = joint.members.len();
        return Err(fault(format!(
            "{found} members are listed; at most {MAX_MEMBERS} are possible"
        )));
    }
    let sets = joint.label_sets(labels.len()).map_err(|error| {
        // Where the sets cover too little, each has been read: a digit per label.
        let covers = |at: usize| joint.sets.iter().any(|set| set.as_bytes()[at] == b'1');
        let mut uncovered = (0..labels.len()).filter(|&at| !covers(at));
        match error.kind() {
            Kind::Uncovered => fault(format!(
                "label `{}` is in no label set, and there is no `rest`",
                uncovered.next().map_or("", |at| labels.name(at))
            )),
            _ => fault(error.to_string()),
        }
    })?;
    Ok(Some(Arc::new(sets)))
}

/// Most networks beside the one that selects.
const MAX_MEMBERS: usize = 64;

/// Refuses a generator that cannot be run.
pub(super) fn check_generator_entry(generator: &GeneratorEntry) -> Result<(), Error> {
    let fault = |text: String| Err(Error::malformed(text));
    if generator.latents.is_empty() {
        return fault("generator.latents is empty: a generator needs noise".to_owned());
    }
    if generator.latents.len() > usize::from(u16::MAX) {
        return fault("generator.latents has too many entries".to_owned());
    }
    let class = generator.class.iter().map(|class| class.input.as_str());
    let mut inputs: Vec<&str> = generator
        .latents
        .iter()
        .map(|l| l.input.as_str())
        .chain(class)
        .collect();
    inputs.sort_unstable();
    if let Some(at) = (1..inputs.len()).find(|&at| inputs[at - 1] == inputs[at]) {
        return fault(format!("generator input `{}` is named twice", inputs[at]));
    }
    for latent in &generator.latents {
        check_shape("generator.latents", &latent.shape)?;
    }
    check_shape("generator.output.shape", &generator.output.shape)?;
    check_item("generator.output", &generator.output)?;
    if let (true, None) = (generator.output.is_picture(), generator.output.bits) {
        return fault("generator.output needs `bits` for images, as in bits = 8".to_owned());
    }
    let priors = generator.class.iter().flat_map(|class| &class.prior);
    if priors.into_iter().any(|p| !(p.is_finite() && *p > 0.0)) {
        return fault("generator.class.prior must hold positive numbers".to_owned());
    }
    Ok(())
}

fn check_shape(what: &str, shape: &[usize]) -> Result<(), Error> {
    let numbers = shape
        .iter()
        .try_fold(1usize, |all, &side| all.checked_mul(side));
    if numbers.is_some_and(|n| (1..=MAX_NUMBERS).contains(&n)) {
        return Ok(());
    }
    Err(Error::malformed(format!(
        "{what}: shape {shape:?} is not usable"
    )))
}

/// Refuses a calibration that no query could use.
fn check_calibration(name: &str, entry: &CalibrationEntry, labels: &Labels) -> Result<(), Error> {
    let fault = |text: String| Err(Error::malformed(format!("{name}: {text}")));
    let floors = entry.floor.entries();
    let margins = entry
        .margin
        .iter()
        .map(|(query, value)| ("margin", query, *value));
    let floors = floors.iter().map(|(query, value)| ("floor", query, *value));
    for (what, query, value) in margins.chain(floors) {
        let (fits, wanted) = match what {
            "margin" => (value > 0.0 && value <= 1.0, "above 0 and at most 1"),
            _ => ((0.0..1.0).contains(&value), "at least 0 and below 1"),
        };
        if !fits {
            return fault(format!(
                "{what} of \"{query}\" is {value}; it must be {wanted}"
            ));
        }
        if query != "default"
            && let Err(error) = Query::parse(query, labels)
        {
            return fault(format!("{what} of \"{query}\": {error}"));
        }
    }
    let temperatures = [&entry.temperature.class, &entry.temperature.fake_class];
    let listed = temperatures.into_iter().flat_map(|value| match value {
        TemperatureValue::Same(value) => vec![*value],
        TemperatureValue::ByExcluded(values) => values.clone(),
    });
    if let Some(bad) = listed
        .chain([entry.temperature.real, entry.temperature.joint])
        .find(|t| !(t.is_finite() && *t > 0.0))
    {
        return fault(format!("temperature {bad} is not a positive number"));
    }
    let correction = entry.correction.as_ref();
    if correction.is_some_and(|entry| entry.correction().is_none()) {
        return fault("correction is no rising function of the logit".to_owned());
    }
    if entry
        .audit
        .as_ref()
        .is_some_and(|audit| audit.curve().is_none())
    {
        return fault("audit is no rising function from posteriors to shares".to_owned());
    }
    if entry
        .ensemble
        .as_ref()
        .is_some_and(|ensemble| ensemble.curve().is_none())
    {
        return fault("ensemble is no rising function between posteriors".to_owned());
    }
    if let Some(told) = entry
        .witnesses
        .filter(|told| !(told.is_finite() && *told >= 0.0))
    {
        return fault(format!("witnesses is {told}; it must be at least 0"));
    }
    if let Some(wrong) = entry.presence.as_ref().and_then(|p| p.fault(labels)) {
        return fault(wrong);
    }
    if let Some(cap) = entry.odds_cap.filter(|cap| cap.is_nan() || *cap <= 0.0) {
        return fault(format!("odds_cap is {cap}; it must be above 0"));
    }
    match entry.odds_clip {
        Some(clip) if clip.is_nan() || clip < 1.0 => {
            fault(format!("odds_clip is {clip}; it must be at least 1"))
        }
        _ => Ok(()),
    }
}

fn check_item(what: &str, item: &ItemEntry) -> Result<(), Error> {
    let fault = |text: String| Err(Error::malformed(format!("{what}: {text}")));
    if item.is_picture() && item.shape.len() != 3 {
        return fault(format!(
            "an image has three sides, shape has {}",
            item.shape.len()
        ));
    }
    if let Some([_, _, channels]) = item.picture_size()
        && !(1..=4).contains(&channels)
    {
        return fault(format!(
            "images have 1 to 4 channels, shape says {channels}"
        ));
    }
    match item.bits {
        Some(_) if !item.is_picture() => fault("points have no `bits`".to_owned()),
        Some(bits) if ![1, 2, 4, 8, 16].contains(&bits) => fault(format!(
            "bits = {bits}; an image file holds 1, 2, 4, 8 or 16"
        )),
        _ => Ok(()),
    }
}
