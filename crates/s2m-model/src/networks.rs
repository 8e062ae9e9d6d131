//! Proposal numbers to classifier outputs, and to pictures or points.
//!
//! Scoring runs generator, adapter and classifier and brings only logits back. Where the two ONNX
//! files allow it they are joined into one graph; otherwise they run one after the other, and items
//! stay on the device between them. The batch is fixed and padded, so that results do not depend on
//! how many proposals are asked for at a time.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use ort::ep::{self, ExecutionProviderDispatch};
use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};
use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, TensorRef};
use prost::Message as _;
use s2m_core::mixture::Mixture;
use s2m_core::proposals::Proposals;
use thiserror::Error;

use crate::bundle::{Bundle, GeneratorPart, Network};
use crate::latents::LatentSource;
use crate::logits::{Logits, RowShape};
use crate::manifest::{ClassForm, GeneratorEntry, LatentEntry, Prior};
use crate::onnx::narrow::in_half_precision;
use crate::onnx::{Join, ModelProto, adapter_model, describe, join, levels_model};
use crate::runtime::Runtime;

/// Numbers in all items of one network call on the processor. Measured on two cores: best is 64
/// pictures of 28×28, any batch from 8 on for 32×32 in colour, 512 or more for points.
const CPU_NUMBERS: usize = 1 << 16;

/// The same on a graphics card, which wants more to do at a time. In 32 bits a convolution may take ten megabytes
/// of room for a picture of 32×32, and every copy of a network keeps its own.
const CUDA_NUMBERS: usize = 1 << 20;

/// The same where it computes in half precision, which takes far less room. (Channels last gained nothing with a
/// BigGAN and four ResNet-9 on an H200.)
const FAST_NUMBERS: usize = 1 << 22;

/// Numbers that a processor works on at a time; batches are multiples of it.
const LANES: usize = 8;

/// Bounds on the default batch.
const BATCHES: [usize; 2] = [8, 1024];

/// Networks up to this size get one copy per core; larger ones share one copy and all cores.
const MAX_COPIED_BYTES: usize = 256 << 20;

/// Copies of a network on a graphics card.
const CUDA_COPIES: usize = 4;

/// What went wrong between a proposal number and its logits.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// ONNX Runtime refuses a network.
    #[error("ONNX Runtime cannot load `{file}`: {reason}")]
    Load {
        /// Which file.
        file: String,
        /// What it said.
        reason: String,
    },
    /// A network failed while running.
    #[error("`{file}` failed while running: {reason}")]
    Run {
        /// Which file.
        file: String,
        /// What it said.
        reason: String,
    },
    /// A network gave another number of values than the bundle promises.
    #[error(
        "`{file}`: output `{output}` has {found} values for {rows} items; the bundle promises {wanted} for each"
    )]
    OutputSize {
        /// Which file.
        file: String,
        /// Which output.
        output: String,
        /// Values found.
        found: usize,
        /// Items in the batch.
        rows: usize,
        /// Values per item.
        wanted: usize,
    },
    /// The device is not there.
    #[error(
        "the CUDA device cannot be used: {reason}\nhint: install onnxruntime-gpu and point ORT_DYLIB_PATH at its library, or pass --device cpu"
    )]
    NoCuda {
        /// What was said.
        reason: String,
    },
    /// The two networks were exported with different fixed batches.
    #[error(
        "the generator was exported for batches of {generator} and the classifier for {classifier}\nhint: export both with a dynamic first axis"
    )]
    FixedBatches {
        /// The generator's.
        generator: i64,
        /// The classifier's.
        classifier: i64,
    },
    /// A network was exported for batches that no memory holds.
    #[error(
        "the networks were exported for batches of {batch}, which take more than {MAX_BATCH_NUMBERS} numbers at once\nhint: export them with a dynamic first axis"
    )]
    LargeBatch {
        /// The batch.
        batch: usize,
    },
    /// A value of a generated item is not a number.
    #[error("the generator's output for proposal {proposal} is not a number")]
    BadItem {
        /// Which proposal.
        proposal: u64,
    },
}

/// Most numbers that one input or output of a batch may have: 1 GiB.
pub(crate) const MAX_BATCH_NUMBERS: usize = 1 << 28;

/// A batch whose largest tensor has so many numbers per item, if it can be held.
pub(crate) fn check_batch(batch: usize, per_item: usize) -> Result<usize, NetworkError> {
    let numbers = batch.checked_mul(per_item.max(1));
    if numbers.is_some_and(|numbers| numbers <= MAX_BATCH_NUMBERS) {
        return Ok(batch);
    }
    Err(NetworkError::LargeBatch { batch })
}

/// Where networks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// The first CUDA device.
    Cuda,
}

impl Device {
    /// Its name as typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}

/// How the two networks are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wiring {
    /// One joined graph where possible.
    #[default]
    Joined,
    /// One after the other, always.
    Chained,
}

/// How networks are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunSettings {
    /// Where.
    pub device: Device,
    /// Cores to use.
    pub threads: NonZeroUsize,
    /// Proposals per call, rounded up to a multiple of eight; none for the default.
    pub batch: Option<NonZeroUsize>,
    /// Joined or chained.
    pub wiring: Wiring,
    /// Allow half precision, TF32 and exhaustive algorithm search on CUDA; not reproducible.
    pub fast: bool,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            device: Device::Cpu,
            threads: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            batch: None,
            wiring: Wiring::Joined,
            fast: false,
        }
    }
}

/// The proposals of one call: numbers, and classes for a conditional generator.
#[derive(Debug, Clone, Copy)]
pub struct Requested<'a> {
    /// Seed and stage.
    pub proposals: Proposals,
    /// What the first latent input is drawn from, in normal coordinates; none for its prior.
    pub mixture: Option<&'a Mixture>,
    /// Proposal numbers.
    pub numbers: &'a [u64],
    /// Class of each; empty for an unconditional generator.
    pub classes: &'a [u32],
}

/// Networks in a row, with one copy per worker.
#[derive(Debug)]
struct Pipeline {
    workers: Vec<Mutex<Worker>>,
    batch: usize,
}

/// One copy of the networks.
#[derive(Debug)]
struct Worker {
    stages: Vec<Stage>,
    inputs: Inputs,
}

/// One session; its first input is the item that the stage before it made.
#[derive(Debug)]
pub(crate) struct Stage {
    file: String,
    pub(crate) session: Session,
    input: String,
    output: String,
}

/// Outputs wanted from the last stage: name and values per item.
type Wanted = Vec<(String, usize)>;

/// Those outputs for one batch.
type Outputs<'a> = &'a [&'a [f32]];

/// Whether they could be taken in.
type Stored = Result<(), NetworkError>;

impl Pipeline {
    fn new(
        runtime: &Runtime,
        settings: &RunSettings,
        parts: &[Part<'_>],
        entry: &GeneratorEntry,
        fixed_batch: Option<usize>,
    ) -> Result<Self, NetworkError> {
        let item: usize = entry.output.shape.iter().product();
        let latents = entry.latents.iter().map(LatentEntry::size);
        let largest = latents.fold(item, usize::max);
        let default = default_batch(settings.device, settings.fast, largest);
        // What is left over after whole vectors is rounded differently by some operators, so that an odd
        // batch would change last digits.
        let asked = settings
            .batch
            .map(|batch| batch.get().saturating_add(LANES - 1) / LANES * LANES);
        let batch = check_batch(fixed_batch.unwrap_or(asked.unwrap_or(default)), largest)?;
        let bytes: usize = parts.iter().map(|part| part.bytes.len()).sum();
        // More copies than cores would only take memory.
        let threads = settings.threads.min(RunSettings::default().threads).get();
        let wanted = match settings.device {
            Device::Cpu => threads,
            // One copy computes while others draw latents.
            Device::Cuda => threads.min(CUDA_COPIES),
        };
        let copies = if bytes * wanted <= MAX_COPIED_BYTES {
            wanted
        } else {
            1
        };
        let threads = threads / copies;
        let worker = || {
            let stages = parts
                .iter()
                .map(|part| part.open(runtime, settings, threads))
                .collect::<Result<_, _>>()?;
            Ok(Mutex::new(Worker {
                stages,
                inputs: Inputs::new(entry, batch),
            }))
        };
        let workers = (0..copies).map(|_| worker()).collect::<Result<_, _>>()?;
        Ok(Self { workers, batch })
    }

    fn round(&self) -> usize {
        self.batch * self.workers.len()
    }

    /// Runs all requested proposals over all workers; `store` receives the number of each batch and
    /// its outputs.
    fn run(
        &self,
        requested: Requested<'_>,
        wanted: &Wanted,
        device: Device,
        store: &(dyn Fn(usize, Outputs<'_>) -> Stored + Sync),
    ) -> Result<(), NetworkError> {
        let batches = requested.numbers.len().div_ceil(self.batch);
        let next = AtomicUsize::new(0);
        let work = |worker: &Mutex<Worker>| -> Result<(), NetworkError> {
            let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= batches {
                    return Ok(());
                }
                let first = index * self.batch;
                let last = (first + self.batch).min(requested.numbers.len());
                let part = Requested {
                    numbers: &requested.numbers[first..last],
                    classes: requested.classes.get(first..last).unwrap_or_default(),
                    ..requested
                };
                worker.run(part, self.batch, wanted, device, &|outputs| {
                    store(index, outputs)
                })?;
            }
        };
        if self.workers.len() == 1 || batches <= 1 {
            return work(&self.workers[0]);
        }
        thread::scope(|scope| {
            let running: Vec<_> = self
                .workers
                .iter()
                .map(|worker| scope.spawn(|| work(worker)))
                .collect();
            running.into_iter().try_for_each(finished)
        })
    }
}

/// Proposals per network call, by the size of an item: a power of two.
pub(crate) fn default_batch(device: Device, half: bool, item: usize) -> usize {
    let numbers = match device {
        Device::Cpu => CPU_NUMBERS,
        Device::Cuda if half => FAST_NUMBERS,
        Device::Cuda => CUDA_NUMBERS,
    };
    let [least, most] = BATCHES;
    let fitting = (numbers / item.max(1)).clamp(least, most);
    1 << fitting.ilog2()
}

/// What a thread came to; its panic goes on here.
pub(crate) fn finished<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Worker {
    /// Runs one padded batch and shows the wanted outputs, cut back to the requested rows.
    fn run(
        &mut self,
        requested: Requested<'_>,
        batch: usize,
        wanted: &Wanted,
        device: Device,
        store: &dyn Fn(Outputs<'_>) -> Stored,
    ) -> Result<(), NetworkError> {
        self.inputs.fill(requested);
        let inputs = self.inputs.tensors(batch);
        let inputs = inputs.map_err(|e| self.stages[0].failed(&e))?;
        let (last, before) = self
            .stages
            .split_last_mut()
            .expect("a pipeline has a stage");
        let mut item: Option<DynValue> = None;
        for stage in before {
            let given = item
                .take()
                .map(|value| vec![(stage.input.clone(), value.into())]);
            let given = given.unwrap_or_else(|| self.inputs.views(&inputs));
            item = Some(stage.run_on_device(given, device)?);
        }
        let given = item.map(|value| vec![(last.input.clone(), SessionInputValue::from(value))]);
        let given = given.unwrap_or_else(|| self.inputs.views(&inputs));
        let file = last.file.clone();
        let failed = |e: &ort::Error| NetworkError::Run {
            file: file.clone(),
            reason: reason(e),
        };
        let outputs = last.session.run(given).map_err(|e| failed(&e))?;
        let rows = requested.numbers.len();
        let mut slices = Vec::with_capacity(wanted.len());
        for (name, per_item) in wanted {
            let values = outputs.get(name).map(DynValue::try_extract_tensor::<f32>);
            let values = values
                .and_then(Result::ok)
                .map(|(_, values)| values)
                .unwrap_or_default();
            if values.len() != batch * per_item {
                return Err(NetworkError::OutputSize {
                    file,
                    output: name.clone(),
                    found: values.len(),
                    rows: batch,
                    wanted: *per_item,
                });
            }
            slices.push(&values[..rows * per_item]);
        }
        store(&slices)
    }
}

impl Stage {
    fn failed(&self, error: &ort::Error) -> NetworkError {
        NetworkError::Run {
            file: self.file.clone(),
            reason: reason(error),
        }
    }

    /// Runs the stage and leaves its output where the next one wants it.
    fn run_on_device(
        &mut self,
        given: Vec<(String, SessionInputValue<'_>)>,
        device: Device,
    ) -> Result<DynValue, NetworkError> {
        let file = self.file.clone();
        let failed = move |e: ort::Error| NetworkError::Run {
            file: file.clone(),
            reason: reason(&e),
        };
        let missing = || NetworkError::Run {
            file: self.file.clone(),
            reason: format!("no output `{}`", self.output),
        };
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
    fn network(network: &'a Network, input: &str, output: &str) -> Self {
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
    fn in_half(&mut self) {
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
    ) -> Result<Stage, NetworkError> {
        let failed = |e: ort::Error| NetworkError::Load {
            file: self.file.clone(),
            reason: reason(&e),
        };
        let mut builder = Session::builder(runtime.environment())
            .and_then(|b| Ok(b.with_intra_threads(threads)?))
            .and_then(|b| Ok(b.with_inter_threads(1)?))
            .map_err(failed)?;
        if settings.device == Device::Cuda {
            builder = builder
                .with_execution_providers([cuda(settings.fast)])
                .map_err(|e| NetworkError::NoCuda {
                    reason: e.to_string().lines().next().unwrap_or_default().to_owned(),
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

/// The generator's inputs for one batch.
#[derive(Debug)]
struct Inputs {
    latents: Vec<Latent>,
    class: Option<ClassInput>,
}

#[derive(Debug)]
struct Latent {
    name: String,
    shape: Vec<usize>,
    size: usize,
    prior: Prior,
    values: Vec<f32>,
}

#[derive(Debug)]
struct ClassInput {
    name: String,
    form: ClassForm,
    classes: usize,
    index: Vec<i64>,
    one_hot: Vec<f32>,
}

/// One input tensor over borrowed numbers.
enum InputTensor<'a> {
    Float(TensorRef<'a, f32>),
    Index(TensorRef<'a, i64>),
}

impl Inputs {
    fn new(entry: &GeneratorEntry, batch: usize) -> Self {
        let latent = |latent: &LatentEntry| Latent {
            name: latent.input.clone(),
            shape: latent.shape.clone(),
            size: latent.size(),
            prior: latent.prior,
            values: vec![0.0; batch * latent.size()],
        };
        let class = entry.class.as_ref().map(|class| ClassInput {
            name: class.input.clone(),
            form: class.form,
            classes: class.prior.len(),
            index: vec![0; batch],
            one_hot: vec![0.0; batch * class.prior.len()],
        });
        Self {
            latents: entry.latents.iter().map(latent).collect(),
            class,
        }
    }

    /// Puts the latents and classes of the requested proposals in front, and zeros behind them: a
    /// network that mixes rows must at least give the same again.
    fn fill(&mut self, requested: Requested<'_>) {
        for (input, latent) in self.latents.iter_mut().enumerate() {
            let source = LatentSource {
                proposals: requested.proposals,
                mixture: requested.mixture.filter(|_| input == 0),
                input: input as u16,
                prior: latent.prior,
                size: latent.size,
            };
            source.fill(requested.numbers, &mut latent.values);
            latent.values[requested.numbers.len() * latent.size..].fill(0.0);
        }
        if let Some(class) = &mut self.class {
            class.one_hot.fill(0.0);
            class.index.fill(0);
            for (row, &value) in requested.classes.iter().enumerate() {
                class.index[row] = i64::from(value);
                class.one_hot[row * class.classes + value as usize] = 1.0;
            }
        }
    }

    fn tensors(&self, batch: usize) -> Result<Vec<InputTensor<'_>>, ort::Error> {
        let mut tensors = Vec::with_capacity(self.latents.len() + 1);
        for latent in &self.latents {
            let shape: Vec<usize> = std::iter::once(batch)
                .chain(latent.shape.iter().copied())
                .collect();
            tensors.push(InputTensor::Float(TensorRef::from_array_view((
                shape,
                latent.values.as_slice(),
            ))?));
        }
        if let Some(class) = &self.class {
            tensors.push(match class.form {
                ClassForm::Index => InputTensor::Index(TensorRef::from_array_view((
                    [batch],
                    class.index.as_slice(),
                ))?),
                ClassForm::OneHot => InputTensor::Float(TensorRef::from_array_view((
                    [batch, class.classes],
                    class.one_hot.as_slice(),
                ))?),
            });
        }
        Ok(tensors)
    }

    fn views<'a>(&self, tensors: &'a [InputTensor<'_>]) -> Vec<(String, SessionInputValue<'a>)> {
        let names = self
            .latents
            .iter()
            .map(|l| &l.name)
            .chain(self.class.iter().map(|c| &c.name));
        names
            .zip(tensors)
            .map(|(name, tensor)| {
                let value = match tensor {
                    InputTensor::Float(tensor) => SessionInputValue::from(tensor.view()),
                    InputTensor::Index(tensor) => SessionInputValue::from(tensor.view()),
                };
                (name.clone(), value)
            })
            .collect()
    }
}

/// The batch for which a network was exported, if it has a fixed one.
fn fixed_batch(network: &Network) -> Option<i64> {
    let ports = describe(&network.model);
    let first = |port: &crate::onnx::Port| {
        port.dims
            .as_ref()
            .and_then(|dims| dims.first().copied().flatten())
    };
    ports.inputs.iter().find_map(first)
}

fn usable_batch(batch: Option<i64>) -> Option<usize> {
    batch
        .and_then(|batch| usize::try_from(batch).ok())
        .filter(|batch| *batch > 0)
}

fn common_batch(bundle: &Bundle) -> Result<Option<usize>, NetworkError> {
    match (
        fixed_batch(bundle.generator()),
        fixed_batch(bundle.classifier()),
    ) {
        (Some(generator), Some(classifier)) if generator != classifier => {
            Err(NetworkError::FixedBatches {
                generator,
                classifier,
            })
        }
        (one, other) => Ok(usable_batch(one.or(other))),
    }
}

/// Names of the joined graph's outputs.
const CLASS: &str = "s2m/class";
const REAL: &str = "s2m/real";
const FAKE_CLASS: &str = "s2m/fake_class";
const JOINT: &str = "s2m/joint";

/// Turns proposals into logits.
#[derive(Debug)]
pub struct Scorer {
    pipeline: Pipeline,
    wanted: Wanted,
    shape: RowShape,
    device: Device,
    wiring: Wiring,
}

impl Scorer {
    /// Opens the networks of a bundle for scoring.
    pub fn open(
        bundle: &Bundle,
        runtime: &Runtime,
        settings: &RunSettings,
    ) -> Result<Self, NetworkError> {
        Self::open_with(bundle, &[], runtime, settings)
    }

    /// The same with the outputs of networks that have no part in selecting, where the bundle has them.
    pub fn open_with_members(
        bundle: &Bundle,
        runtime: &Runtime,
        settings: &RunSettings,
    ) -> Result<Self, NetworkError> {
        let joint = bundle.manifest().classifier.joint.as_ref();
        let members = joint.map(|joint| joint.members.as_slice());
        Self::open_with(bundle, members.unwrap_or_default(), runtime, settings)
    }

    fn open_with(
        bundle: &Bundle,
        members: &[String],
        runtime: &Runtime,
        settings: &RunSettings,
    ) -> Result<Self, NetworkError> {
        let outputs = &bundle.manifest().classifier.outputs;
        let labels = bundle.labels().len();
        let conditional = bundle.classes().is_some();
        let mut names = vec![
            (outputs.class.as_str(), CLASS.to_owned(), labels),
            (outputs.real.as_str(), REAL.to_owned(), 1),
        ];
        if let (Some(fake), true) = (&outputs.fake_class, conditional) {
            names.push((fake.as_str(), FAKE_CLASS.to_owned(), labels));
        }
        let sets = bundle.label_sets().map_or(0, |sets| sets.outputs());
        if let Some(joint) = &bundle.manifest().classifier.joint {
            names.push((joint.output.as_str(), JOINT.to_owned(), sets));
            let fixed = |member| format!("{JOINT}/{member}");
            names.extend(
                (0..)
                    .zip(members)
                    .map(|(at, own)| (own.as_str(), fixed(at), sets)),
            );
        }
        let joined = match settings.wiring {
            Wiring::Joined => joined(bundle, &names),
            Wiring::Chained => None,
        };
        let wiring = if joined.is_some() {
            Wiring::Joined
        } else {
            Wiring::Chained
        };
        let wanted = names.iter().map(|(own, fixed, size)| {
            let name = if wiring == Wiring::Joined {
                fixed.as_str()
            } else {
                own
            };
            (name.to_owned(), *size)
        });
        let wanted: Wanted = wanted.collect();
        let mut parts = joined.map_or_else(|| chained(bundle), |part| vec![part]);
        if settings.fast && settings.device == Device::Cuda {
            parts.iter_mut().for_each(Part::in_half);
        }
        let entry = &bundle.manifest().generator;
        let pipeline = Pipeline::new(runtime, settings, &parts, entry, common_batch(bundle)?)?;
        let shape = RowShape {
            labels,
            conditional,
            joint: sets,
            members: members.len(),
        };
        Ok(Self {
            pipeline,
            wanted,
            shape,
            device: settings.device,
            wiring,
        })
    }

    /// What a row of logits holds.
    pub fn shape(&self) -> RowShape {
        self.shape
    }

    /// Whether the two networks run as one graph.
    pub fn wiring(&self) -> Wiring {
        self.wiring
    }

    /// Proposals per network call.
    pub fn batch(&self) -> usize {
        self.pipeline.batch
    }

    /// Proposals that keep every worker busy once.
    pub fn round(&self) -> usize {
        self.pipeline.round()
    }

    /// The logits of the requested proposals, in their order.
    pub fn score(&self, requested: Requested<'_>) -> Result<Logits, NetworkError> {
        let mut logits = Logits::zeros(self.shape, requested.numbers.len());
        let width = self.shape.width();
        let parts = batches(logits.values_mut(), self.batch() * width);
        self.pipeline
            .run(requested, &self.wanted, self.device, &|batch, outputs| {
                let mut rows = parts[batch].lock().unwrap_or_else(PoisonError::into_inner);
                for (row, out) in rows.chunks_exact_mut(width).enumerate() {
                    let outputs = outputs.iter().zip(&self.wanted);
                    let own =
                        outputs.map(|(values, (_, size))| &values[row * size..(row + 1) * size]);
                    self.shape.fill(out, own);
                }
                Ok(())
            })?;
        Ok(logits)
    }
}

/// Room for the results, one part per batch, so that workers fill it side by side.
pub(crate) fn batches(values: &mut [f32], size: usize) -> Vec<Mutex<&mut [f32]>> {
    values.chunks_mut(size).map(Mutex::new).collect()
}

fn joined<'a>(bundle: &'a Bundle, names: &[(&str, String, usize)]) -> Option<Part<'a>> {
    let outputs: Vec<(&str, &str)> = names
        .iter()
        .map(|(own, fixed, _)| (*own, fixed.as_str()))
        .collect();
    let manifest = bundle.manifest();
    let bytes = join(Join {
        generator: &bundle.generator().model,
        classifier: &bundle.classifier().model,
        adapter: bundle.adapter(),
        generator_output: &manifest.generator.output.name,
        classifier_input: &manifest.classifier.input.name,
        outputs: &outputs,
    });
    let file = format!("{} + {}", bundle.generator().file, bundle.classifier().file);
    bytes.ok().map(|bytes| Part::made(&file, bytes, "", ""))
}

fn chained(bundle: &Bundle) -> Vec<Part<'_>> {
    let manifest = bundle.manifest();
    let mut parts = vec![Part::network(
        bundle.generator(),
        "",
        &manifest.generator.output.name,
    )];
    if !bundle.adapter().is_identity() {
        let bytes = adapter_model(bundle.adapter(), "item", "adapted");
        parts.push(Part::made("adapter", bytes, "item", "adapted"));
    }
    parts.push(Part::network(
        bundle.classifier(),
        &manifest.classifier.input.name,
        "",
    ));
    parts
}

/// Turns proposals into items as they are written: picture levels, or points.
#[derive(Debug)]
pub struct Renderer {
    pipeline: Pipeline,
    wanted: Wanted,
    device: Device,
}

impl Renderer {
    /// Opens the generator of a bundle.
    pub fn open(
        bundle: &Bundle,
        runtime: &Runtime,
        settings: &RunSettings,
    ) -> Result<Self, NetworkError> {
        Self::of(bundle.generator_part(), runtime, settings)
    }

    /// Opens a generator that may stand alone.
    pub fn of(
        generator: GeneratorPart<'_>,
        runtime: &Runtime,
        settings: &RunSettings,
    ) -> Result<Self, NetworkError> {
        let GeneratorPart {
            entry,
            network,
            axes,
        } = generator;
        let generator = Part::network(network, "", &entry.output.name);
        let levels = levels_model(&entry.output.format(), axes, "item", "levels");
        let levels = levels.map_err(|e| NetworkError::Load {
            file: "adapter".into(),
            reason: e.to_string(),
        })?;
        let parts = [generator, Part::made("adapter", levels, "item", "levels")];
        let batch = usable_batch(fixed_batch(network));
        let pipeline = Pipeline::new(runtime, settings, &parts, entry, batch)?;
        let size = entry.output.shape.iter().product();
        Ok(Self {
            pipeline,
            wanted: vec![("levels".to_owned(), size)],
            device: settings.device,
        })
    }

    /// Proposals that keep every worker busy once.
    pub fn round(&self) -> usize {
        self.pipeline.round()
    }

    /// Numbers in one item.
    pub fn item_size(&self) -> usize {
        self.wanted[0].1
    }

    /// The items of the requested proposals: points, or picture levels with channels last.
    pub fn render(&self, requested: Requested<'_>) -> Result<Vec<f32>, NetworkError> {
        let size = self.item_size();
        let mut items = vec![0.0; requested.numbers.len() * size];
        let parts = batches(&mut items, self.pipeline.batch * size);
        self.pipeline
            .run(requested, &self.wanted, self.device, &|batch, outputs| {
                if let Some(at) = outputs[0].iter().position(|value| !value.is_finite()) {
                    let row = batch * self.pipeline.batch + at / size;
                    return Err(NetworkError::BadItem {
                        proposal: requested.numbers[row],
                    });
                }
                let mut part = parts[batch].lock().unwrap_or_else(PoisonError::into_inner);
                part.copy_from_slice(outputs[0]);
                Ok(())
            })?;
        Ok(items)
    }
}
