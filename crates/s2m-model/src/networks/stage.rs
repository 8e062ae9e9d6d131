//! One network in a session of ONNX Runtime, on the processor or a CUDA device.

use ort::ep::{self, ExecutionProviderDispatch};
use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};
use ort::session::{Session, SessionInputValue};
use ort::value::DynValue;
use prost::Message as _;
use s2m_core::setting::Setting;

use super::error::{failed, not_loaded};
use super::{Device, RunSettings};
use crate::bundle::Network;
use crate::error::Error;
use crate::onnx::ModelProto;
use crate::onnx::narrow::in_half_precision;
use crate::runtime::Runtime;

/// One session; its first input is the item that the stage before it made.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(super) file: String,
    pub(crate) session: Session,
    pub(super) input: String,
    output: String,
}

impl Stage {
    pub(super) fn failed(&self, error: &ort::Error) -> Error {
        failed(&self.file, &reason(error))
    }

    /// Runs the stage and leaves its output where the next one wants it.
    pub(super) fn run_on_device(
        &mut self,
        given: Vec<(String, SessionInputValue<'_>)>,
        device: Device,
    ) -> Result<DynValue, Error> {
        let file = self.file.clone();
        let failed = move |e: ort::Error| failed(&file, &reason(&e));
        let missing = || super::error::failed(&self.file, &format!("no output `{}`", self.output));
        if device == Device::Cpu {
            let mut outputs = self.session.run(given).map_err(failed)?;
            return outputs.remove(&self.output).ok_or_else(missing);
        }
        let memory = MemoryInfo::new(
            AllocationDevice::CUDA,
            0,
            AllocatorType::Device,
            MemoryType::Default,
        );
        let mut binding = self.session.create_binding().map_err(failed.clone())?;
        for (name, value) in &given {
            binding
                .bind_input(name.as_str(), value)
                .map_err(failed.clone())?;
        }
        binding
            .bind_output_to_device(self.output.as_str(), &memory.map_err(failed.clone())?)
            .map_err(failed.clone())?;
        let mut outputs = self.session.run_binding(&binding).map_err(failed)?;
        outputs.remove(&self.output).ok_or_else(missing)
    }
}

/// First line of what ONNX Runtime says.
pub(crate) fn reason(error: &ort::Error) -> String {
    error
        .to_string()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// A network that becomes a stage.
pub(crate) struct Part<'a> {
    file: String,
    bytes: std::borrow::Cow<'a, [u8]>,
    path: Option<&'a std::path::Path>,
    input: String,
    output: String,
}

impl<'a> Part<'a> {
    pub(super) fn network(network: &'a Network, input: &str, output: &str) -> Self {
        Self {
            file: network.file.clone(),
            bytes: network.bytes.as_slice().into(),
            path: network.path.as_deref(),
            input: input.to_owned(),
            output: output.to_owned(),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Computes in half precision from here on, where the network allows it.
    pub(super) fn in_half(&mut self) {
        let model = ModelProto::decode(&*self.bytes).ok();
        let narrow = model.and_then(|model| in_half_precision(&model));
        if let (Some(narrow), None) = (narrow, self.path) {
            self.bytes = narrow.encode_to_vec().into();
        }
    }

    pub(crate) fn made(file: &str, bytes: Vec<u8>, input: &str, output: &str) -> Self {
        let (input, output) = (input.to_owned(), output.to_owned());
        Self {
            file: file.to_owned(),
            bytes: bytes.into(),
            path: None,
            input,
            output,
        }
    }

    pub(crate) fn open(
        &self,
        runtime: &Runtime,
        settings: &RunSettings,
        threads: usize,
    ) -> Result<Stage, Error> {
        let failed = |e: ort::Error| not_loaded(&self.file, &reason(&e));
        let mut builder = Session::builder(runtime.environment())
            .and_then(|b| Ok(b.with_intra_threads(threads)?))
            .and_then(|b| Ok(b.with_inter_threads(1)?))
            .map_err(failed)?;
        if settings.device == Device::Cuda {
            builder = builder
                .with_execution_providers([cuda(settings.fast)])
                .map_err(|e| {
                    Error::network(format!(
                        "the CUDA device cannot be used: {}\nhint: install onnxruntime-gpu and point ORT_DYLIB_PATH at its library, or pass {}",
                        e.to_string().lines().next().unwrap_or_default(),
                        Setting("device").to("cpu")
                    ))
                })?;
        }
        let session = match self.path {
            Some(path) => builder.commit_from_file(path),
            None => builder.commit_from_memory(&self.bytes),
        };
        let session = session.map_err(failed)?;
        Ok(Stage {
            file: self.file.clone(),
            session,
            input: self.input.clone(),
            output: self.output.clone(),
        })
    }
}

/// The CUDA provider: reproducible unless `fast`.
fn cuda(fast: bool) -> ExecutionProviderDispatch {
    let search = if fast {
        ep::cuda::ConvAlgorithmSearch::Exhaustive
    } else {
        ep::cuda::ConvAlgorithmSearch::Heuristic
    };
    ep::CUDA::default()
        .with_conv_algorithm_search(search)
        .with_tf32(fast)
        // By powers of two one session holds most of a card, and nothing else can work beside it.
        .with_arena_extend_strategy(ep::ArenaExtendStrategy::SameAsRequested)
        .build()
        .error_on_failure()
}
