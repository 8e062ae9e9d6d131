//! Writes a trained generator and classifier as a bundle that `s2m` opens.

use anyhow::{Context as _, Result};
use s2m_data::recipe::Loaded;
use s2m_model::bundle;
use s2m_model::manifest::{CalibrationEntry, ClassifierEntry, FORMAT, Manifest, OutputsEntry};
use s2m_runs::ClassifierSettings;
use tch::{Tensor, no_grad};

use crate::device::Machine;
use crate::export::{self, Input};
use crate::folder::RunFolder;
use crate::gan;
use crate::generators::Generators;
use crate::joint::OwnSets;
use crate::labelling::labelling_entry;
use crate::networks::balance::Balance;
use crate::networks::classifier::Classifier;
use crate::parameters::Parameters;
use crate::replica::{Replica, scaled};

/// Folder of a replica's bundle.
pub fn name(replica: &Replica) -> String {
    s2m_runs::folder::bundle(&replica.name, replica.seed)
}

/// Items that an export is checked on.
const CHECKED: usize = 64;

/// What a trained classifier is made of.
pub struct Parts<'a> {
    pub network: &'a Classifier,
    /// The two groups of weights, one replica each.
    pub weights: &'a [Parameters; 2],
    /// How outputs are corrected, where draws were balanced.
    pub balance: Option<Balance>,
    /// Outputs per label set.
    pub sets: Option<OwnSets>,
}

/// Checks the classifier's file against libtorch and writes the bundle, not yet calibrated; returns
/// the difference.
pub fn write(
    folder: &RunFolder,
    generators: &Generators,
    replica: usize,
    parts: &Parts<'_>,
    settings: &ClassifierSettings,
    machine: &Machine,
) -> Result<f64> {
    let (recipe, data) = generators.data(replica);
    let own = &generators.replicas[replica];
    let (generator, generator_entry) = generators.file_of(replica)?;
    let mut weights = parts.weights[0].replica(0)?;
    weights.extend(parts.weights[1].replica(0)?);
    let mut classifier = parts.network.onnx(
        &weights,
        &data.train.items.shape,
        parts.balance.as_ref(),
        parts.sets.as_ref().map(OwnSets::outputs),
    )?;
    if let Some(frozen) = &generators.frozen {
        classifier = frozen.with_heads(&classifier)?;
    }
    let difference = check(parts, &classifier, generators, data, machine)
        .with_context(|| format!("classifier of {}", own.title()))?;
    let manifest = Manifest {
        format: FORMAT,
        name: own.name.clone(),
        labels: data.train.labels.names().map(str::to_owned).collect(),
        describe: recipe.describe.clone(),
        labelling: labelling_entry(&recipe.labelling, data),
        generator: generator_entry,
        classifier: ClassifierEntry {
            file: "classifier.onnx".to_owned(),
            sha256: String::new(),
            input: gan::item_entry(data, "x", false),
            outputs: OutputsEntry {
                class: "class_logits".to_owned(),
                real: "real_logit".to_owned(),
                fake_class: generators
                    .conditional()
                    .then(|| "fake_class_logits".to_owned()),
            },
            joint: parts.sets.as_ref().map(OwnSets::entry),
        },
        calibration: CalibrationEntry::default(),
        levels: None,
        paper: settings.paper.clone(),
        external: [].into(),
        provenance: generators.provenance(own, settings)?,
    };
    let [generator, classifier] =
        [generator, classifier].map(|file| export::stored(settings.stored, file));
    let files = bundle::files(&manifest, generator?, classifier?)?;
    bundle::write(&folder.join(&name(own)), &files)?;
    Ok(difference)
}

/// The file's outputs against libtorch's on real items.
fn check(
    parts: &Parts<'_>,
    file: &[u8],
    generators: &Generators,
    data: &Loaded,
    machine: &Machine,
) -> Result<f64> {
    let shape = &data.train.items.shape;
    let size = data.train.items.item_size() as i64;
    let chosen: Vec<u32> = data
        .split
        .validation
        .iter()
        .copied()
        .take(CHECKED)
        .collect();
    let items = Tensor::from_slice(&scaled(&data.train.items.select(&chosen)))
        .view([1, -1, size])
        .to_device(machine.device);
    let seen = match &generators.frozen {
        None => items.shallow_clone(),
        Some(frozen) => frozen.features(&items.squeeze_dim(0), 0)?.unsqueeze(0),
    };
    let outputs = no_grad(|| {
        let [class, others] = parts.weights;
        let outputs = parts.network.forward(class.views(), others.views(), &seen);
        match &parts.balance {
            Some(balance) => balance.natural(outputs),
            None => outputs,
        }
    });
    let full: Vec<i64> = std::iter::once(-1)
        .chain(shape.iter().map(|&s| s as i64))
        .collect();
    let rows = items.view(full.as_slice());
    let mut wanted = vec![
        ("class_logits", &outputs.class),
        ("real_logit", &outputs.real),
    ];
    wanted.extend(
        outputs
            .fake_class
            .as_ref()
            .map(|logits| ("fake_class_logits", logits)),
    );
    let said = match &parts.sets {
        Some(sets) => no_grad(|| sets.said(&seen)),
        None => Vec::new(),
    };
    wanted.extend(said.iter().map(|(name, logits)| (name.as_str(), logits)));
    export::check(
        &machine.runtime,
        file,
        &[Input {
            name: "x",
            rows: &rows,
        }],
        &wanted,
    )
}
