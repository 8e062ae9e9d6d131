//! A model at hand: a bundle, and what its networks run on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use s2m_model::bundle::Bundle;
use s2m_model::networks::RunSettings;

use crate::error::Error;
use crate::models;
use crate::session::{Machine, Session, open_bank};
use crate::settings::SampleSettings;

/// A bundle, ready to be asked.
///
/// It is cheap to clone. Nothing runs, and ONNX Runtime is not loaded, before something is drawn.
#[derive(Debug, Clone)]
pub struct Model {
    bundle: Arc<Bundle>,
    folder: Option<PathBuf>,
    run: RunSettings,
    onnxruntime: Option<PathBuf>,
}

impl Model {
    /// Opens the bundle in a folder (its ending may be left out), or the embedded one of that name.
    pub fn open(model: impl AsRef<Path>) -> Result<Self, Error> {
        let model = model.as_ref();
        Ok(Self {
            folder: models::folder(model),
            ..Self::from(models::open(model)?)
        })
    }

    /// Opens a bundle of files in memory: name and bytes of each, `model.toml` among them.
    pub fn from_files(files: &[(&str, &[u8])]) -> Result<Self, Error> {
        Ok(Self::from(Arc::new(Bundle::from_files(files)?)))
    }

    /// Runs networks this way: device, threads, batch.
    #[must_use]
    pub fn on(mut self, run: RunSettings) -> Self {
        self.run = run;
        self
    }

    /// Takes this library of ONNX Runtime, in the place of the one that is found.
    #[must_use]
    pub fn with_onnxruntime(mut self, library: impl Into<PathBuf>) -> Self {
        self.onnxruntime = Some(library.into());
        self
    }

    /// Runs on what somebody has chosen already.
    #[must_use]
    pub fn with_machine(mut self, machine: &Machine<'_>) -> Self {
        self.run = machine.run;
        self.onnxruntime = machine.onnxruntime.map(Path::to_owned);
        self
    }

    /// What is in the bundle.
    pub fn bundle(&self) -> &Arc<Bundle> {
        &self.bundle
    }

    /// The folder that it came from; none for an embedded one, or files in memory.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Its labels, in the order of all lists of labels.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.bundle.labels().names()
    }

    /// Makes sure that a bank holds proposals of this model, and of a seed where one is given.
    pub fn check_bank(&self, folder: &Path, seed: Option<u64>) -> Result<(), Error> {
        open_bank(folder, &self.bundle, seed).map(drop)
    }

    /// What its networks run on.
    pub fn machine(&self) -> Machine<'_> {
        Machine {
            run: self.run,
            onnxruntime: self.onnxruntime.as_deref(),
        }
    }

    /// Loads ONNX Runtime, and opens and checks a bank.
    pub(crate) fn session(
        &self,
        settings: &SampleSettings,
        bank: Option<&Path>,
    ) -> Result<Session, Error> {
        Session::open(&self.bundle, &self.machine(), settings, bank)
    }
}

impl From<Arc<Bundle>> for Model {
    fn from(bundle: Arc<Bundle>) -> Self {
        Self {
            bundle,
            folder: None,
            run: RunSettings::default(),
            onnxruntime: None,
        }
    }
}
