//! A model, and what can be asked of it.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::prelude::*;
use s2m::mine::{self, Piece};
use s2m::settings::SampleSettings;
use s2m::typed::Typed;
use s2m::{Ask, classes, explain};
use s2m_model::networks::{Device, RunSettings};

use crate::draw::{Content, Draw};
use crate::watch::Watch;
use crate::{Error, json, raised};

/// A bundle, ready to be asked.
#[pyclass(frozen, module = "s2m._s2m")]
pub(crate) struct Model {
    /// What it was opened by.
    path: PathBuf,
    model: s2m::Model,
}

/// Where proposals come from besides the prior.
type Sources = (Option<PathBuf>, Option<PathBuf>);

impl Model {
    fn ask(&self, query: &str, settings: &str, (bank, proposal): Sources) -> PyResult<Ask> {
        let ask = self.model.query(query).map_err(|error| raised(&error))?;
        let mut ask = ask.with_settings(parsed(settings)?);
        if let Some(bank) = bank {
            ask = ask.bank(bank);
        }
        if let Some(proposal) = proposal {
            ask = ask.proposal(proposal);
        }
        Ok(ask)
    }
}

fn parsed(settings: &str) -> PyResult<SampleSettings> {
    let checked = || {
        let settings = Typed::from_json(settings)?.settings()?;
        settings.sampler.check()?;
        Ok(settings)
    };
    checked().map_err(|error| raised(&error))
}

fn count(number: usize, what: &str) -> PyResult<NonZeroUsize> {
    NonZeroUsize::new(number)
        .ok_or_else(|| Error::new_err(format!("`{what}` is 0; it must be at least 1")))
}

#[pymethods]
impl Model {
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        device: &str,
        threads: Option<usize>,
        batch: Option<usize>,
        fast: bool,
        onnxruntime: Option<PathBuf>,
    ) -> PyResult<Self> {
        let device = match device {
            "cpu" => Device::Cpu,
            "cuda" => Device::Cuda,
            other => {
                let text = format!("there is no device `{other}`; it must be `cpu` or `cuda`");
                return Err(Error::new_err(text));
            }
        };
        let own = RunSettings::default();
        let run = RunSettings {
            device,
            fast,
            threads: threads.map_or(Ok(own.threads), |n| count(n, "threads"))?,
            batch: batch.map(|n| count(n, "batch")).transpose()?,
            ..own
        };
        let opened = py.detach(|| s2m::Model::open(&path));
        let mut model = opened.map_err(|error| raised(&error))?.on(run);
        if let Some(library) = onnxruntime {
            model = model.with_onnxruntime(library);
        }
        Ok(Self { path, model })
    }

    #[getter]
    fn name(&self) -> String {
        self.model.bundle().manifest().name.clone()
    }

    #[getter]
    fn labels(&self) -> Vec<String> {
        self.model.labels().map(str::to_owned).collect()
    }

    /// What the labels mean, as far as the bundle says.
    #[getter]
    fn describe(&self) -> BTreeMap<String, String> {
        let described = &self.model.bundle().manifest().describe;
        let pairs = described
            .iter()
            .map(|(label, text)| (label.clone(), text.clone()));
        pairs.collect()
    }

    /// Sides of one item: height, width and channels of an image.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        let output = &self.model.bundle().manifest().generator.output;
        match output.picture_size() {
            Some(size) => size.to_vec(),
            None => output.shape.clone(),
        }
    }

    #[getter]
    fn is_image(&self) -> bool {
        self.model.bundle().manifest().generator.output.is_picture()
    }

    #[getter]
    fn is_conditional(&self) -> bool {
        self.model.bundle().classes().is_some()
    }

    #[getter]
    fn hash(&self) -> String {
        self.model.bundle().hash().to_owned()
    }

    /// Raises what is wrong with a query, if anything is.
    fn check(&self, query: &str) -> PyResult<()> {
        let checked = self.model.query(query);
        checked.map(drop).map_err(|error| raised(&error))
    }

    /// Raises where a bank is of another model, or of another seed than one that is given.
    fn check_bank(&self, folder: PathBuf, seed: Option<u64>) -> PyResult<()> {
        let checked = self.model.check_bank(&folder, seed);
        checked.map_err(|error| raised(&error))
    }

    #[expect(clippy::too_many_arguments, reason = "Python's own layer names them")]
    fn sample(
        &self,
        py: Python<'_>,
        query: &str,
        samples: usize,
        settings: &str,
        bank: Option<PathBuf>,
        proposal: Option<PathBuf>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Draw> {
        let ask = self.ask(query, settings, (bank, proposal))?;
        let watch = Watch::new(progress);
        let drawn = py.detach(|| ask.draw_with(samples, &watch));
        let drawn = watch.result(drawn)?;
        Ok(Draw {
            model: self.model.clone(),
            content: Content::Draw(Box::new(drawn)),
        })
    }

    fn stream(
        &self,
        py: Python<'_>,
        query: &str,
        batch: usize,
        settings: &str,
        bank: Option<PathBuf>,
        proposal: Option<PathBuf>,
    ) -> PyResult<Stream> {
        let ask = self.ask(query, settings, (bank, proposal))?;
        let watch = Watch::new(None);
        let opened = py.detach(|| ask.stream_with(batch, &watch));
        Ok(Stream {
            model: self.model.clone(),
            stream: Mutex::new(watch.result(opened)?),
        })
    }

    /// Scores proposals into a bank, or a piece of one; what was mined, as JSON.
    #[expect(clippy::too_many_arguments, reason = "Python's own layer names them")]
    fn mine(
        &self,
        py: Python<'_>,
        first: u64,
        end: usize,
        part: u64,
        out: PathBuf,
        seed: u64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let request = mine::Request {
            model: &self.path,
            proposals: count(end, "n")?,
            piece: Piece { first, part },
            seed,
            machine: self.model.machine(),
            out: &out,
        };
        let watch = Watch::new(progress);
        let mined = py.detach(|| mine::mine(&request, &watch));
        json(&watch.result(mined)?)
    }

    /// What the generator reaches, as JSON.
    fn classes(
        &self,
        py: Python<'_>,
        bank: Option<PathBuf>,
        proposals: Option<usize>,
        top: Option<usize>,
        settings: &str,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let request = classes::Request {
            model: &self.path,
            bank: bank.as_deref(),
            proposals,
            top,
            settings: parsed(settings)?,
            machine: self.model.machine(),
        };
        let watch = Watch::new(progress);
        let found = py.detach(|| classes::classes(&request, &watch));
        json(&watch.result(found)?)
    }

    /// Why a proposal is kept or not, as JSON.
    fn explain(
        &self,
        py: Python<'_>,
        query: &str,
        proposal: u64,
        settings: &str,
    ) -> PyResult<String> {
        let request = explain::Request {
            model: &self.path,
            query,
            proposal,
            run: None,
            settings: parsed(settings)?,
            machine: self.model.machine(),
        };
        let watch = Watch::new(None);
        let explained = py.detach(|| explain::explain(&request, &watch));
        json(&watch.result(explained)?)
    }
}

/// Batches of samples without end.
#[pyclass(frozen, module = "s2m._s2m")]
pub(crate) struct Stream {
    model: s2m::Model,
    stream: Mutex<s2m::Stream>,
}

#[pymethods]
impl Stream {
    /// The next batch; none after an error.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Draw>> {
        let watch = Watch::new(None);
        let batch = py.detach(|| match self.stream.lock() {
            Ok(mut stream) => stream.next_with(&watch).transpose(),
            Err(_) => Ok(None),
        });
        let batch = watch.result(batch)?;
        Ok(batch.map(|samples| Draw {
            model: self.model.clone(),
            content: Content::Batch(samples),
        }))
    }

    /// What the short draw at the beginning says, as JSON.
    fn report(&self, py: Python<'_>) -> PyResult<Option<String>> {
        py.detach(|| self.stream.lock().ok().map(|stream| json(stream.report())))
            .transpose()
    }
}
