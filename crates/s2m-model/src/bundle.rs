//! A model bundle: the folder `NAME.s2m/` with `model.toml` and two ONNX files.
//!
//! A bundle comes from anywhere, so nothing in it is believed: sizes are limited, hashes compared,
//! paths kept inside the folder, and the graphs' inputs and outputs held against the manifest
//! before a network is run.

mod checks;
mod files;
mod ports;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message as _;
use s2m_core::density::Labelling;
use s2m_core::joint::LabelSets;
use s2m_core::labels::Labels;
use sha2::{Digest as _, Sha256};

use self::checks::{check_generator_entry, check_manifest, label_sets};
use self::files::{MAX_MANIFEST, Source, check_external, network, parse, text};
pub(crate) use self::files::{MAX_NETWORK, inside, larger, not_onnx, one_line, read};
use self::ports::{check_classifier, check_generator};
use crate::disk::{Existing, Kind, Plan, Staging};
use crate::error::Error;
use crate::manifest::{GeneratorEntry, Manifest};
use crate::onnx::{Adapter, Axes, ModelProto, fold_doubling, half};

/// Name of the manifest inside a bundle.
pub const MANIFEST: &str = "model.toml";

/// SHA-256 as lower-case hexadecimal text.
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

/// One network of a bundle.
#[derive(Debug, Clone)]
pub struct Network {
    /// File name inside the bundle.
    pub file: String,
    /// What is run: the bytes of the file, or of a faster network that computes the same.
    pub bytes: Vec<u8>,
    /// The same, decoded.
    pub model: ModelProto,
    /// Where the file lies, if external data has to be read beside it.
    pub path: Option<PathBuf>,
    /// SHA-256 over the file and its external data.
    digest: String,
    /// SHA-256 of each file of external data, by its path in the bundle.
    external: Vec<(String, String)>,
}

impl Network {
    /// The same network with its weights in 32 bits, and with fewer multiplications where that is possible.
    ///
    /// Scoring and rendering both run this one, so that what is scored is what is written.
    fn folded(mut self) -> Self {
        if self.path.is_some() {
            return self;
        }
        for rewrite in [half::restored, fold_doubling] {
            if let Some(model) = rewrite(&self.model) {
                self.bytes = model.encode_to_vec();
                self.model = model;
            }
        }
        self
    }
}

/// A bundle that was read and checked.
#[derive(Debug, Clone)]
pub struct Bundle {
    manifest: Manifest,
    labels: Labels,
    labelling: Labelling,
    label_sets: Option<Arc<LabelSets>>,
    adapter: Adapter,
    generator_axes: Axes,
    generator: Network,
    classifier: Network,
    hash: String,
    scoring_hash: String,
    unchecked: Vec<String>,
}

impl Bundle {
    /// Reads the bundle in a folder.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let manifest = read(&folder.join(MANIFEST), MAX_MANIFEST)?;
        Self::build(&manifest, &Source::Folder(folder))
    }

    /// Reads a bundle that is held in memory, as pairs of file name and bytes.
    pub fn from_files(files: &[(&str, &[u8])]) -> Result<Self, Error> {
        let source = Source::Memory(files);
        let manifest = source.read(MANIFEST, "manifest")?.0;
        Self::build(&manifest, &source)
    }

    fn build(manifest_bytes: &[u8], source: &Source<'_>) -> Result<Self, Error> {
        let mut manifest = parse(manifest_bytes)?;
        let labels = Labels::new(manifest.labels.iter().cloned()).map_err(in_manifest)?;
        let labelling = manifest.labelling.labelling(labels.len());
        let labelling = labelling.map_err(in_manifest)?;
        check_manifest(&manifest, &labels).map_err(in_manifest)?;
        let label_sets = label_sets(&manifest, &labels).map_err(in_manifest)?;
        let (generator, classifier) = (&manifest.generator, &manifest.classifier);
        let generator = network(source, &generator.file, &generator.sha256)?;
        let classifier = network(source, &classifier.file, &classifier.sha256)?;
        let unchecked = check_external(&mut manifest, [&generator, &classifier])?;
        let generator_axes = check_generator(&manifest.generator, &generator)?;
        let classifier_axes = check_classifier(&manifest, &labels, &classifier)?;
        let adapter = Adapter::new(
            manifest.generator.output.format(),
            manifest.classifier.input.format(),
        )
        .map_err(in_manifest)?
        .with_axes(generator_axes, classifier_axes);
        let scoring = ScoringIdentity {
            labels: &manifest.labels,
            generator: &manifest.generator,
            classifier: &manifest.classifier,
            digests: [&generator.digest, &classifier.digest],
        };
        let scoring = toml::to_string(&scoring).map_err(|e| unwritten(&e))?;
        let mut whole = Sha256::new();
        whole.update(manifest_bytes);
        for part in [&generator, &classifier] {
            whole.update(&part.digest);
        }
        Ok(Self {
            labels,
            labelling,
            label_sets,
            adapter,
            generator_axes,
            hash: hexadecimal(&whole.finalize()),
            scoring_hash: sha256(scoring.as_bytes()),
            generator: generator.folded(),
            classifier,
            manifest,
            unchecked,
        })
    }

    /// Files of weights that the manifest does not list, so that nothing tells whether they have changed.
    pub fn unchecked_weights(&self) -> &[String] {
        &self.unchecked
    }

    /// The manifest as read.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// How the labels came about.
    pub fn labelling(&self) -> &Labelling {
        &self.labelling
    }

    /// What the numbers of the joint head stand for, where the bundle has one.
    pub fn label_sets(&self) -> Option<&Arc<LabelSets>> {
        self.label_sets.as_ref()
    }

    /// What happens between the two networks.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// How the generator's output tensor is shaped.
    pub fn generator_axes(&self) -> Axes {
        self.generator_axes
    }

    /// The generator.
    pub fn generator(&self) -> &Network {
        &self.generator
    }

    /// Everything that running the generator takes.
    pub fn generator_part(&self) -> GeneratorPart<'_> {
        GeneratorPart {
            entry: &self.manifest.generator,
            network: &self.generator,
            axes: self.generator_axes,
        }
    }

    /// The classifier.
    pub fn classifier(&self) -> &Network {
        &self.classifier
    }

    /// SHA-256 over the manifest and both networks.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// SHA-256 over everything that decides a proposal's logits: labels, files, inputs and outputs.
    ///
    /// A new calibration does not change it, so a bank outlives one.
    pub fn scoring_hash(&self) -> &str {
        &self.scoring_hash
    }

    /// Number of classes of a conditional generator.
    pub fn classes(&self) -> Option<usize> {
        self.manifest
            .generator
            .class
            .as_ref()
            .map(|class| class.prior.len())
    }
}

/// A generator as it is run, out of a bundle or alone.
#[derive(Debug, Clone, Copy)]
pub struct GeneratorPart<'a> {
    /// What goes in and out.
    pub entry: &'a GeneratorEntry,
    /// The network.
    pub network: &'a Network,
    /// How its output tensor is shaped.
    pub axes: Axes,
}

/// A generator without a classifier: a file in the form of a bundle's `[generator]`, and its network.
#[derive(Debug, Clone)]
pub struct Generator {
    entry: GeneratorEntry,
    network: Network,
    axes: Axes,
}

impl Generator {
    /// Reads and checks the entry in a file, and the network beside it.
    pub fn open(file: &Path) -> Result<Self, Error> {
        let bytes = read(file, MAX_MANIFEST)?;
        let about = |fault: Error| fault.within(format_args!("`{}`", file.display()));
        let text = text(&bytes).map_err(about)?;
        let entry: GeneratorEntry =
            toml::from_str(text).map_err(|e| about(Error::malformed(one_line(&e, text))))?;
        check_generator_entry(&entry).map_err(about)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let network = network(&Source::Folder(folder), &entry.file, &entry.sha256)?;
        let axes = check_generator(&entry, &network)?;
        Ok(Self {
            entry,
            network: network.folded(),
            axes,
        })
    }

    /// Everything that running it takes.
    pub fn part(&self) -> GeneratorPart<'_> {
        GeneratorPart {
            entry: &self.entry,
            network: &self.network,
            axes: self.axes,
        }
    }
}

impl GeneratorPart<'_> {
    /// SHA-256 of the network, with its external data.
    pub fn digest(&self) -> &str {
        &self.network.digest
    }
}

/// Names the manifest in what is wrong with it.
fn in_manifest(error: impl Into<Error>) -> Error {
    error.into().within(MANIFEST)
}

fn unwritten(error: &toml::ser::Error) -> Error {
    in_manifest(Error::malformed(error.to_string()))
}

/// What decides a proposal's logits.
#[derive(serde::Serialize)]
struct ScoringIdentity<'a> {
    labels: &'a [String],
    generator: &'a crate::manifest::GeneratorEntry,
    classifier: &'a crate::manifest::ClassifierEntry,
    digests: [&'a str; 2],
}

/// The files of a bundle, with the networks' hashes filled in: name and bytes of each.
pub fn files(
    manifest: &Manifest,
    generator: Vec<u8>,
    classifier: Vec<u8>,
) -> Result<[(String, Vec<u8>); 3], Error> {
    let mut manifest = manifest.clone();
    manifest.generator.sha256 = sha256(&generator);
    manifest.classifier.sha256 = sha256(&classifier);
    let text = toml::to_string(&manifest).map_err(|e| unwritten(&e))?;
    Ok([
        (MANIFEST.to_owned(), text.into_bytes()),
        (manifest.generator.file, generator),
        (manifest.classifier.file, classifier),
    ])
}

/// Writes the files of a bundle in place of an earlier one; the folder appears whole or not at all.
pub fn write(folder: &Path, files: &[(String, Vec<u8>)]) -> Result<(), Error> {
    let staging = Staging::open(&Plan {
        target: folder,
        kind: Kind::Bundle,
        identity: "bundle",
        existing: Existing::Replace,
        inputs: &[],
    })?;
    finish(staging, files)
}

/// Fills a bundle's folder in the making and gives it its name.
pub fn finish(staging: Staging, files: &[(String, Vec<u8>)]) -> Result<(), Error> {
    staging.empty()?;
    for (file, bytes) in files {
        staging.write(file, bytes)?;
    }
    staging.finish()
}
