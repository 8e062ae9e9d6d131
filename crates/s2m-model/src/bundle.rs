//! A model bundle: the folder `NAME.s2m/` with `model.toml` and two ONNX files.
//!
//! A bundle comes from anywhere, so nothing in it is believed: sizes are limited, hashes compared,
//! paths kept inside the folder, and the graphs' inputs and outputs held against the manifest
//! before a network is run.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use prost::Message as _;
use s2m_core::density::{Labelling, LabellingError};
use s2m_core::joint::{LabelSets, LabelSetsError};
use s2m_core::labels::{Labels, LabelsError};
use s2m_core::query::Query;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::disk::{Existing, Kind, Plan, Staging, StagingError, open_plain};
use crate::manifest::{
    CalibrationEntry, ClassForm, FORMAT, GeneratorEntry, ItemEntry, JointError, Manifest,
    TemperatureValue,
};
use crate::onnx::{
    self, Adapter, AdapterError, Axes, ModelProto, Port, PortElement, describe, external_paths,
    fold_doubling, half,
};

/// Name of the manifest inside a bundle.
pub const MANIFEST: &str = "model.toml";

/// Largest manifest that is read.
const MAX_MANIFEST: u64 = 1 << 20;

/// Largest ONNX file that is read: protocol buffers end at 2 GiB.
pub(crate) const MAX_NETWORK: u64 = 1 << 31;

/// Most numbers in one item or latent; beyond it a shape is a mistake or an attack.
const MAX_NUMBERS: usize = 1 << 24;

/// Why a folder is not a usable bundle.
#[derive(Debug, Error)]
pub enum BundleError {
    /// A file cannot be read.
    #[error("could not read `{}`: {source}", .path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder cannot be made.
    #[error(transparent)]
    Staging(#[from] StagingError),
    /// A file is beyond the limit.
    #[error("`{}` is larger than {limit} bytes", .path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// The manifest is not what it should be.
    #[error("{MANIFEST}: {0}")]
    Manifest(String),
    /// A generator's entry outside a bundle is not what it should be.
    #[error("`{0}`: {1}")]
    Generator(String, String),
    /// The format is from another time.
    #[error("{MANIFEST}: format {found} is not known; this program reads format {FORMAT}")]
    Format {
        /// The number found.
        found: u32,
    },
    /// The label names do not work.
    #[error("{MANIFEST}: {0}")]
    Labels(#[from] LabelsError),
    /// The labelling does not work.
    #[error("{MANIFEST}: {0}")]
    Labelling(#[from] LabellingError),
    /// The formats of generator output and classifier input do not meet.
    #[error("{MANIFEST}: {0}")]
    Adapter(#[from] AdapterError),
    /// A file name leads out of the bundle.
    #[error("{what} `{path}` leads outside the bundle")]
    Outside {
        /// What the path is for.
        what: &'static str,
        /// The path as written.
        path: String,
    },
    /// A file has changed since the manifest was written.
    #[error(
        "the SHA-256 of `{file}` is {found}, but {MANIFEST} says {wanted}\nhint: copy the bundle again; if you changed the file yourself, write its new hash into {MANIFEST}"
    )]
    Hash {
        /// Which file.
        file: String,
        /// What the manifest says.
        wanted: String,
        /// What the file has.
        found: String,
    },
    /// Not an ONNX file.
    #[error("`{file}` is not an ONNX file, or is cut short: {reason}")]
    NotOnnx {
        /// Which file.
        file: String,
        /// What the decoder said.
        reason: String,
    },
    /// A graph lacks something the manifest names.
    #[error("`{file}` has no {kind} `{name}`; it has {}", list(.found))]
    NoPort {
        /// Which file.
        file: String,
        /// Input or output.
        kind: &'static str,
        /// The name wanted.
        name: String,
        /// The names there are.
        found: Vec<String>,
    },
    /// A graph wants an input that the manifest does not name.
    #[error("`{file}` has an input `{name}` that {MANIFEST} does not mention")]
    ExtraInput {
        /// Which file.
        file: String,
        /// The input.
        name: String,
    },
    /// A class index that is no integer.
    #[error(
        "`{file}`: the class index `{name}` is {found}, and a class index must be i64\nhint: export it as a 64-bit integer, or take one number per class and say form = \"one-hot\""
    )]
    ClassIndex {
        /// The file.
        file: String,
        /// The input.
        name: String,
        /// Its type.
        found: String,
    },
    /// An input or output has another shape or type than the manifest says.
    #[error("`{file}`: {kind} `{name}` is {found}, but {MANIFEST} says {wanted}")]
    Port {
        /// Which file.
        file: String,
        /// Input or output.
        kind: &'static str,
        /// Which one.
        name: String,
        /// What the manifest says.
        wanted: String,
        /// What the graph says.
        found: String,
    },
}

pub(crate) fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        _ => names
            .iter()
            .map(|n| format!("`{n}`"))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

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
    pub fn open(folder: &Path) -> Result<Self, BundleError> {
        let manifest = read(&folder.join(MANIFEST), MAX_MANIFEST)?;
        Self::build(&manifest, &Source::Folder(folder))
    }

    /// Reads a bundle that is held in memory, as pairs of file name and bytes.
    pub fn from_files(files: &[(&str, &[u8])]) -> Result<Self, BundleError> {
        let source = Source::Memory(files);
        let manifest = source.read(MANIFEST, "manifest")?.0;
        Self::build(&manifest, &source)
    }

    fn build(manifest_bytes: &[u8], source: &Source<'_>) -> Result<Self, BundleError> {
        let mut manifest = parse(manifest_bytes)?;
        let labels = Labels::new(manifest.labels.iter().cloned())?;
        let labelling = manifest.labelling.labelling(labels.len())?;
        check_manifest(&manifest, &labels)?;
        let label_sets = label_sets(&manifest, &labels)?;
        let (generator, classifier) = (&manifest.generator, &manifest.classifier);
        let generator = network(source, &generator.file, &generator.sha256)?;
        let classifier = network(source, &classifier.file, &classifier.sha256)?;
        let unchecked = check_external(&mut manifest, [&generator, &classifier])?;
        let generator_axes = check_generator(&manifest.generator, &generator)?;
        let classifier_axes = check_classifier(&manifest, &labels, &classifier)?;
        let adapter = Adapter::new(
            manifest.generator.output.format(),
            manifest.classifier.input.format(),
        )?
        .with_axes(generator_axes, classifier_axes);
        let scoring = ScoringIdentity {
            labels: &manifest.labels,
            generator: &manifest.generator,
            classifier: &manifest.classifier,
            digests: [&generator.digest, &classifier.digest],
        };
        let scoring =
            toml::to_string(&scoring).map_err(|e| BundleError::Manifest(e.to_string()))?;
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
    pub fn open(file: &Path) -> Result<Self, BundleError> {
        let bytes = read(file, MAX_MANIFEST)?;
        let about = |fault: BundleError| match fault {
            BundleError::Manifest(text) => BundleError::Generator(file.display().to_string(), text),
            other => other,
        };
        let text = text(&bytes).map_err(about)?;
        let entry: GeneratorEntry =
            toml::from_str(text).map_err(|e| about(BundleError::Manifest(one_line(&e, text))))?;
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
) -> Result<[(String, Vec<u8>); 3], BundleError> {
    let mut manifest = manifest.clone();
    manifest.generator.sha256 = sha256(&generator);
    manifest.classifier.sha256 = sha256(&classifier);
    let text = toml::to_string(&manifest).map_err(|e| BundleError::Manifest(e.to_string()))?;
    Ok([
        (MANIFEST.to_owned(), text.into_bytes()),
        (manifest.generator.file, generator),
        (manifest.classifier.file, classifier),
    ])
}

/// Writes the files of a bundle in place of an earlier one; the folder appears whole or not at all.
pub fn write(folder: &Path, files: &[(String, Vec<u8>)]) -> Result<(), BundleError> {
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
pub fn finish(staging: Staging, files: &[(String, Vec<u8>)]) -> Result<(), BundleError> {
    staging.empty()?;
    for (file, bytes) in files {
        staging.write(file, bytes)?;
    }
    Ok(staging.finish()?)
}

/// Where a bundle's files come from.
enum Source<'a> {
    Folder(&'a Path),
    Memory(&'a [(&'a str, &'a [u8])]),
}

impl Source<'_> {
    /// The bytes of one file, and its path where it has one.
    fn read(
        &self,
        file: &str,
        what: &'static str,
    ) -> Result<(Vec<u8>, Option<PathBuf>), BundleError> {
        match self {
            Self::Folder(folder) => {
                let path = inside(folder, file, what)?;
                Ok((read(&path, MAX_NETWORK)?, Some(path)))
            }
            Self::Memory(files) => {
                let found = files.iter().find(|(name, _)| *name == file);
                let missing = || BundleError::Read {
                    path: file.into(),
                    source: io::ErrorKind::NotFound.into(),
                };
                Ok((found.ok_or_else(missing)?.1.to_vec(), None))
            }
        }
    }
}

/// The path of a file in a folder, refused where it leads elsewhere, by `..` or by a link.
fn inside(folder: &Path, file: &str, what: &'static str) -> Result<PathBuf, BundleError> {
    let outside = || BundleError::Outside {
        what,
        path: file.to_owned(),
    };
    let plain = !file.is_empty()
        && Path::new(file)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
    if !plain {
        return Err(outside());
    }
    let path = folder.join(file);
    let resolve = |path: &Path| {
        path.canonicalize().map_err(|source| BundleError::Read {
            path: path.to_owned(),
            source,
        })
    };
    let (folder, resolved) = (resolve(folder)?, resolve(&path)?);
    if resolved.starts_with(&folder) {
        Ok(resolved)
    } else {
        Err(outside())
    }
}

/// Reads a whole file, up to a limit.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, BundleError> {
    let fail = |source| BundleError::Read {
        path: path.to_owned(),
        source,
    };
    let file = open_plain(path).map_err(fail)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > limit {
        return Err(BundleError::TooLarge {
            path: path.to_owned(),
            limit,
        });
    }
    Ok(bytes)
}

/// The one key that every format has.
#[derive(serde::Deserialize)]
struct Version {
    format: u32,
}

fn text(bytes: &[u8]) -> Result<&str, BundleError> {
    std::str::from_utf8(bytes).map_err(|e| BundleError::Manifest(format!("not UTF-8 text: {e}")))
}

fn parse(bytes: &[u8]) -> Result<Manifest, BundleError> {
    let text = text(bytes)?;
    // The format number first: a bundle from another time should say so, not "unknown key".
    if let Ok(Version { format: found }) = toml::from_str(text)
        && found != FORMAT
    {
        return Err(BundleError::Format { found });
    }
    toml::from_str(text).map_err(|e| BundleError::Manifest(one_line(&e, text)))
}

/// A TOML error in one line: what and where.
pub(crate) fn one_line(error: &toml::de::Error, text: &str) -> String {
    let line = error.span().map(|span| {
        let before = text.char_indices().take_while(|(at, _)| *at < span.start);
        1 + before.filter(|(_, c)| *c == '\n').count()
    });
    let message = error.message().replace('\n', ", ");
    line.map_or(message.clone(), |line| format!("line {line}: {message}"))
}

fn check_manifest(manifest: &Manifest, labels: &Labels) -> Result<(), BundleError> {
    let fault = |text: String| Err(BundleError::Manifest(text));
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
fn check_columns(labels: &Labels) -> Result<(), BundleError> {
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
            return Err(BundleError::Manifest(format!(
                "label `{label}` cannot be told from `{other}` in a table of samples\nhint: give it another name in labels, and in describe and calibration where they name it"
            )));
        }
    }
    Ok(())
}

/// The checked list of the joint head.
fn label_sets(manifest: &Manifest, labels: &Labels) -> Result<Option<Arc<LabelSets>>, BundleError> {
    let Some(joint) = &manifest.classifier.joint else {
        return Ok(None);
    };
    let fault = |text: String| BundleError::Manifest(format!("classifier.joint: {text}"));
    if joint.members.len() > MAX_MEMBERS {
        let found = joint.members.len();
        return Err(fault(format!(
            "{found} members are listed; at most {MAX_MEMBERS} are possible"
        )));
    }
    let sets = joint
        .label_sets(labels.len())
        .map_err(|error| match error {
            JointError::Sets(LabelSetsError::Missing(label)) => fault(format!(
                "label `{}` is in no label set, and there is no `rest`",
                labels.name(label)
            )),
            other => fault(other.to_string()),
        })?;
    Ok(Some(Arc::new(sets)))
}

/// Most networks beside the one that selects.
const MAX_MEMBERS: usize = 64;

/// Refuses a generator that cannot be run.
fn check_generator_entry(generator: &GeneratorEntry) -> Result<(), BundleError> {
    let fault = |text: String| Err(BundleError::Manifest(text));
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
        return fault("generator.output needs `bits` for pictures, as in bits = 8".to_owned());
    }
    let priors = generator.class.iter().flat_map(|class| &class.prior);
    if priors.into_iter().any(|p| !(p.is_finite() && *p > 0.0)) {
        return fault("generator.class.prior must hold positive numbers".to_owned());
    }
    Ok(())
}

fn check_shape(what: &str, shape: &[usize]) -> Result<(), BundleError> {
    let numbers = shape
        .iter()
        .try_fold(1usize, |all, &side| all.checked_mul(side));
    if numbers.is_some_and(|n| (1..=MAX_NUMBERS).contains(&n)) {
        return Ok(());
    }
    Err(BundleError::Manifest(format!(
        "{what}: shape {shape:?} is not usable"
    )))
}

/// Refuses a calibration that no query could use.
fn check_calibration(
    name: &str,
    entry: &CalibrationEntry,
    labels: &Labels,
) -> Result<(), BundleError> {
    let fault = |text: String| Err(BundleError::Manifest(format!("{name}: {text}")));
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

fn check_item(what: &str, item: &ItemEntry) -> Result<(), BundleError> {
    let fault = |text: String| Err(BundleError::Manifest(format!("{what}: {text}")));
    if item.is_picture() && item.shape.len() != 3 {
        return fault(format!(
            "a picture has three sides, shape has {}",
            item.shape.len()
        ));
    }
    if let Some([_, _, channels]) = item.picture_size()
        && !(1..=4).contains(&channels)
    {
        return fault(format!(
            "pictures have 1 to 4 channels, shape says {channels}"
        ));
    }
    match item.bits {
        Some(_) if !item.is_picture() => fault("points have no `bits`".to_owned()),
        Some(bits) if ![1, 2, 4, 8, 16].contains(&bits) => fault(format!(
            "bits = {bits}; a picture file holds 1, 2, 4, 8 or 16"
        )),
        _ => Ok(()),
    }
}

fn network(source: &Source<'_>, file: &str, wanted: &str) -> Result<Network, BundleError> {
    let (bytes, path) = source.read(file, "file")?;
    let found = sha256(&bytes);
    if !found.eq_ignore_ascii_case(wanted) {
        return Err(BundleError::Hash {
            file: file.into(),
            wanted: wanted.into(),
            found,
        });
    }
    let broken = |reason: String| BundleError::NotOnnx {
        file: file.into(),
        reason,
    };
    let model = ModelProto::decode(bytes.as_slice()).map_err(|e| broken(e.to_string()))?;
    if model.graph.is_none() {
        return Err(broken("it holds no graph".to_owned()));
    }
    let mut external = external_paths(&model);
    external.sort();
    external.dedup();
    let (mut digest, mut hashes) = (Sha256::new(), Vec::new());
    digest.update(&bytes);
    for location in &external {
        let what = "external data";
        let Source::Folder(folder) = source else {
            let path = location.clone();
            return Err(BundleError::Outside { what, path });
        };
        // ONNX Runtime looks beside the network's own file, which may lie in a folder of the bundle.
        let beside = Path::new(file).parent().unwrap_or(Path::new(""));
        let from_root = beside.join(location).to_string_lossy().into_owned();
        digest.update(from_root.as_bytes());
        let mut own = Sha256::new();
        hash_file(&inside(folder, &from_root, what)?, [&mut digest, &mut own])?;
        hashes.push((from_root, hexadecimal(&own.finalize())));
    }
    let path = path.filter(|_| !external.is_empty());
    Ok(Network {
        file: file.into(),
        bytes,
        model,
        path,
        digest: hexadecimal(&digest.finalize()),
        external: hashes,
    })
}

/// Compares files of external data with what the manifest says of them, and has it list them all; gives
/// those that it did not.
fn check_external(
    manifest: &mut Manifest,
    networks: [&Network; 2],
) -> Result<Vec<String>, BundleError> {
    let found: BTreeMap<String, String> = networks
        .into_iter()
        .flat_map(|network| network.external.iter().cloned())
        .collect();
    let listed = std::mem::take(&mut manifest.external);
    for (file, wanted) in &listed {
        match found.get(file) {
            Some(found) if found.eq_ignore_ascii_case(wanted) => {}
            Some(found) => {
                return Err(BundleError::Hash {
                    file: file.clone(),
                    wanted: wanted.clone(),
                    found: found.clone(),
                });
            }
            None => {
                let text = format!("external lists `{file}`, which no network reads");
                return Err(BundleError::Manifest(text));
            }
        }
    }
    let unlisted = found.keys().filter(|file| !listed.contains_key(*file));
    let unlisted = unlisted.cloned().collect();
    manifest.external = found;
    Ok(unlisted)
}

/// Adds a file to hashes, piece by piece: external data may be larger than memory.
fn hash_file(path: &Path, mut digests: [&mut Sha256; 2]) -> Result<(), BundleError> {
    let fail = |source| BundleError::Read {
        path: path.to_owned(),
        source,
    };
    let mut file = open_plain(path).map_err(fail)?;
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece).map_err(fail)? {
            0 => return Ok(()),
            count => digests
                .iter_mut()
                .for_each(|digest| digest.update(&piece[..count])),
        }
    }
}

fn find<'a>(
    network: &Network,
    ports: &'a [Port],
    kind: &'static str,
    name: &str,
) -> Result<&'a Port, BundleError> {
    ports
        .iter()
        .find(|port| port.name == name)
        .ok_or_else(|| BundleError::NoPort {
            file: network.file.clone(),
            kind,
            name: name.to_owned(),
            found: ports.iter().map(|port| port.name.clone()).collect(),
        })
}

/// Holds a port against the element type and per-item shape that the manifest gives.
fn check_port(
    network: &Network,
    kind: &'static str,
    port: &Port,
    element: PortElement,
    shapes: &[&[usize]],
) -> Result<(), BundleError> {
    let fits = |shape: &[usize]| match &port.dims {
        None => true,
        Some(dims) => {
            dims.len() == shape.len() + 1
                && dims[1..]
                    .iter()
                    .zip(shape)
                    .all(|(dim, &side)| dim.is_none_or(|d| usize::try_from(d) == Ok(side)))
        }
    };
    if port.element == element && shapes.iter().any(|shape| fits(shape)) {
        return Ok(());
    }
    let side = |dim: &Option<i64>| dim.map_or("n".to_owned(), |d| d.to_string());
    let found = port
        .dims
        .as_ref()
        .map_or("of unknown shape".to_owned(), |dims| {
            format!("[{}]", dims.iter().map(side).collect::<Vec<_>>().join(", "))
        });
    let wanted = shapes.first().map_or(String::new(), |shape| {
        shape
            .iter()
            .fold("[n".to_owned(), |text, s| format!("{text}, {s}"))
            + "]"
    });
    Err(BundleError::Port {
        file: network.file.clone(),
        kind,
        name: port.name.clone(),
        wanted: format!("{element} {wanted}"),
        found: format!("{} {found}", port.element),
    })
}

fn check_generator(entry: &GeneratorEntry, network: &Network) -> Result<Axes, BundleError> {
    let ports = describe(&network.model);
    for latent in &entry.latents {
        let port = find(network, &ports.inputs, "input", &latent.input)?;
        check_port(network, "input", port, PortElement::F32, &[&latent.shape])?;
    }
    if let Some(class) = &entry.class {
        let port = find(network, &ports.inputs, "input", &class.input)?;
        match class.form {
            ClassForm::Index if port.element != PortElement::I64 => {
                return Err(BundleError::ClassIndex {
                    file: network.file.clone(),
                    name: port.name.clone(),
                    found: port.element.to_string(),
                });
            }
            ClassForm::Index => check_port(network, "input", port, PortElement::I64, &[&[]])?,
            ClassForm::OneHot => {
                check_port(
                    network,
                    "input",
                    port,
                    PortElement::F32,
                    &[&[class.prior.len()]],
                )?;
            }
        }
    }
    let named = |name: &str| {
        entry.latents.iter().any(|latent| latent.input == name)
            || entry
                .class
                .as_ref()
                .is_some_and(|class| class.input == name)
    };
    if let Some(extra) = ports.inputs.iter().find(|port| !named(&port.name)) {
        return Err(BundleError::ExtraInput {
            file: network.file.clone(),
            name: extra.name.clone(),
        });
    }
    let port = find(network, &ports.outputs, "output", &entry.output.name)?;
    item_axes(network, "output", port, &entry.output)
}

fn check_classifier(
    manifest: &Manifest,
    labels: &Labels,
    network: &Network,
) -> Result<Axes, BundleError> {
    let ports = describe(&network.model);
    let entry = &manifest.classifier;
    let port = find(network, &ports.inputs, "input", &entry.input.name)?;
    let axes = item_axes(network, "input", port, &entry.input)?;
    if let Some(extra) = ports
        .inputs
        .iter()
        .find(|port| port.name != entry.input.name)
    {
        return Err(BundleError::ExtraInput {
            file: network.file.clone(),
            name: extra.name.clone(),
        });
    }
    let classes = [labels.len()];
    let class = find(network, &ports.outputs, "output", &entry.outputs.class)?;
    check_port(network, "output", class, PortElement::F32, &[&classes])?;
    let real = find(network, &ports.outputs, "output", &entry.outputs.real)?;
    check_port(network, "output", real, PortElement::F32, &[&[1], &[]])?;
    if let Some(name) = &entry.outputs.fake_class {
        let fake = find(network, &ports.outputs, "output", name)?;
        check_port(network, "output", fake, PortElement::F32, &[&classes])?;
    }
    if let Some(joint) = &entry.joint {
        let sets = [joint.sets.len() + usize::from(joint.rest)];
        for name in std::iter::once(&joint.output).chain(&joint.members) {
            let output = find(network, &ports.outputs, "output", name)?;
            check_port(network, "output", output, PortElement::F32, &[&sets])?;
        }
    }
    Ok(axes)
}

/// Whether a network's item tensor has the item's own axes or is flat.
fn item_axes(
    network: &Network,
    kind: &'static str,
    port: &Port,
    item: &ItemEntry,
) -> Result<Axes, BundleError> {
    let numbers = item.shape.iter().product();
    check_port(
        network,
        kind,
        port,
        PortElement::F32,
        &[&item.shape, &[numbers]],
    )?;
    let rank = port.rank().unwrap_or(item.shape.len() + 1);
    Ok(Axes::of_rank(rank, &item.format()).unwrap_or(onnx::Axes::Item))
}
