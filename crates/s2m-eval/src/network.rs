//! A network that looks at items: features, classes or labels out of an ONNX file.
//!
//! What the file does not say stands in `NAME.toml` beside `NAME.onnx`: the range of its input, how
//! pictures are resized, which output is which, and the names of its classes. Without that file
//! the input is [-1, 1], pictures are resized by an anti-aliased cubic, and outputs are told by name or size.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use s2m_data::resize::Filter;
use s2m_model::bundle::sha256;
use s2m_model::disk::{read_plain, read_plain_text};
use s2m_model::judge::{Judge, no_output, outputs_of};
use s2m_model::networks::RunSettings;
use s2m_model::runtime::Runtime;
use serde::{Deserialize, Serialize};

use crate::Error;

/// Largest file of a network that is read.
const LARGEST: u64 = 1 << 31;

/// Names of outputs that say what they are.
const FEATURES: &[&str] = &["features", "pool3", "pool_3"];
const CLASSES: &[&str] = &["class_logits", "logits", "probabilities", "labels"];

/// How a network is used; `NAME.toml` beside `NAME.onnx`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct NetworkSettings {
    /// Name in tables; the file's name where left out.
    pub name: Option<String>,
    /// What black and white are at its input.
    pub range: [f32; 2],
    /// How pictures of another size are brought to its own.
    pub resize: ResizeChoice,
    /// Output with features.
    pub features: Option<String>,
    /// Output with a number per class.
    pub classes: Option<String>,
    /// What the numbers of the classes mean.
    pub kind: ClassKind,
    /// Names of the classes; `0`, `1`, … where left out.
    pub names: Vec<String>,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            name: None,
            range: [-1.0, 1.0],
            resize: ResizeChoice::Bicubic,
            features: None,
            classes: None,
            kind: ClassKind::OneOf,
            names: Vec::new(),
        }
    }
}

/// Filters of resizing, all anti-aliased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResizeChoice {
    /// Triangles.
    Bilinear,
    /// Cubic with a = −1/2.
    Bicubic,
    /// Three lobes of a sinc.
    Lanczos,
}

impl ResizeChoice {
    pub(super) fn filter(self) -> Filter {
        match self {
            Self::Bilinear => Filter::Bilinear,
            Self::Bicubic => Filter::Bicubic,
            Self::Lanczos => Filter::Lanczos3,
        }
    }
}

/// What a row of numbers for classes means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassKind {
    /// An item has one class: the largest number, logit or probability.
    OneOf,
    /// An item has every class with a logit above zero.
    Each,
}

/// Which outputs are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Features, and classes where there are any.
    Features,
    /// Classes, and features where there are any.
    Classes,
}

/// A network, ready to look at items.
#[derive(Debug)]
pub struct EvalNetwork {
    /// Name in tables.
    pub name: String,
    /// How it is used.
    pub settings: NetworkSettings,
    pub(super) judge: Judge,
    /// Which answers of the judge are features and classes.
    pub(super) features: Option<usize>,
    pub(super) classes: Option<usize>,
}

impl EvalNetwork {
    /// Opens an ONNX file, gzip or not, by the settings beside it.
    pub fn open(
        path: &Path,
        wanted: Wanted,
        runtime: &Runtime,
        run: &RunSettings,
    ) -> Result<Self, Error> {
        let bytes = read(path)?;
        let settings = settings_of(path)?;
        let file = path.display().to_string();
        let outputs = outputs_of(&file, &bytes)?;
        let features = output(
            &outputs,
            settings.features.as_deref(),
            FEATURES,
            Widest::Yes,
        );
        let features = match wanted {
            Wanted::Features => features,
            // A referee's features are taken only where they are named.
            Wanted::Classes => output(&outputs, settings.features.as_deref(), FEATURES, Widest::No),
        };
        let others: Vec<(String, usize)> = outputs
            .iter()
            .filter(|(name, _)| Some(name) != features.as_ref())
            .cloned()
            .collect();
        let classes = output(&others, settings.classes.as_deref(), CLASSES, Widest::Yes);
        for (name, found) in [
            (&settings.features, &features),
            (&settings.classes, &classes),
        ] {
            if let (Some(name), None) = (name, found) {
                return Err(no_output(&file, name, outputs.iter().map(|(name, _)| name)).into());
            }
        }
        let missing = match wanted {
            Wanted::Features => features.is_none().then_some("features"),
            Wanted::Classes => classes.is_none().then_some("class_logits"),
        };
        if let Some(name) = missing {
            return Err(no_output(&file, name, outputs.iter().map(|(name, _)| name)).into());
        }
        let asked: Vec<&str> = [&features, &classes]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        let judge = Judge::of(file, bytes, &asked, runtime, run)?;
        let network = Self {
            name: settings.name.clone().unwrap_or_else(|| stem(path)),
            features: features.as_ref().map(|_| 0),
            classes: classes.as_ref().map(|_| usize::from(features.is_some())),
            settings,
            judge,
        };
        network.check(path)?;
        Ok(network)
    }

    fn check(&self, path: &Path) -> Result<(), Error> {
        let [black, white] = self.settings.range;
        let fault = |reason: String| {
            Err(Error::Network {
                file: path.to_owned(),
                reason,
            })
        };
        if !(black.is_finite() && white.is_finite() && black < white) {
            return fault(format!(
                "range is [{black}, {white}]; it must be two rising numbers"
            ));
        }
        if let Some(found) = self.class_count()
            && !self.settings.names.is_empty()
            && self.settings.names.len() != found
        {
            return fault(format!(
                "names lists {} classes, the network has {found}",
                self.settings.names.len()
            ));
        }
        Ok(())
    }

    /// Numbers in a row of features.
    pub fn feature_width(&self) -> Option<usize> {
        self.judge.output_sizes().nth(self.features?)
    }

    /// How many classes it knows.
    pub fn class_count(&self) -> Option<usize> {
        self.judge.output_sizes().nth(self.classes?)
    }

    /// Names of its classes.
    pub fn class_names(&self) -> Vec<String> {
        if self.settings.names.is_empty() {
            let count = self.class_count().unwrap_or(0);
            (0..count).map(|class| class.to_string()).collect()
        } else {
            self.settings.names.clone()
        }
    }

    /// Everything about it that changes what it says.
    pub fn identity(&self) -> String {
        let settings = serde_json::to_string(&self.settings).expect("settings have plain fields");
        sha256(format!("{} {settings}", self.judge.sha256()).as_bytes())
    }
}

/// Whether the widest output is taken where no name helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Widest {
    Yes,
    No,
}

/// The output that is asked for, one with a telling name, or the widest.
fn output(
    outputs: &[(String, usize)],
    asked: Option<&str>,
    telling: &[&str],
    widest: Widest,
) -> Option<String> {
    let called = |wanted: &str| outputs.iter().find(|(name, _)| name == wanted);
    let found = match asked {
        Some(name) => called(name),
        None => telling
            .iter()
            .find_map(|name| called(name))
            .or_else(|| match widest {
                Widest::Yes => outputs.iter().max_by_key(|(_, size)| *size),
                Widest::No => None,
            }),
    };
    found.map(|(name, _)| name.clone())
}

/// The file's name without folders and endings.
fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.strip_suffix(".onnx").unwrap_or(name).to_owned()
}

/// `NAME.toml` beside `NAME.onnx` or `NAME.onnx.gz`, or the defaults.
fn settings_of(path: &Path) -> Result<NetworkSettings, Error> {
    let beside: PathBuf = path.with_file_name(format!("{}.toml", stem(path)));
    if !beside.is_file() {
        return Ok(NetworkSettings::default());
    }
    let fail = |reason: String| Error::Read {
        path: beside.clone(),
        reason,
    };
    let text = read_plain_text(&beside).map_err(|e| fail(e.to_string()))?;
    toml::from_str(&text).map_err(|e| fail(e.message().to_owned()))
}

/// The bytes of a network, unpacked where they are gzip.
fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let fail = |reason: String| Error::Read {
        path: path.to_owned(),
        reason,
    };
    let packed = read_plain(path).map_err(|e| fail(e.to_string()))?;
    if !packed.starts_with(&[0x1f, 0x8b]) {
        return Ok(packed);
    }
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice())
        .take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| fail(e.to_string()))?;
    if bytes.len() as u64 > LARGEST {
        return Err(fail(format!("it unpacks to more than {LARGEST} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_told_by_settings_then_name_then_size() {
        let outputs = [("t594".to_owned(), 2048), ("logits".to_owned(), 1001)];
        let found = |asked, telling: &[&str], widest| output(&outputs, asked, telling, widest);
        assert_eq!(found(None, FEATURES, Widest::Yes).as_deref(), Some("t594"));
        assert_eq!(found(None, FEATURES, Widest::No), None);
        assert_eq!(found(None, CLASSES, Widest::Yes).as_deref(), Some("logits"));
        assert_eq!(
            found(Some("logits"), FEATURES, Widest::Yes).as_deref(),
            Some("logits")
        );
        assert_eq!(found(Some("nothing"), FEATURES, Widest::Yes), None);
    }

    #[test]
    fn names_lose_their_endings() {
        assert_eq!(stem(Path::new("a/b/inception.onnx.gz")), "inception");
        assert_eq!(stem(Path::new("lenet.onnx")), "lenet");
    }
}
