//! Networks in a row over batches of proposals, with one copy per worker.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use ort::session::SessionInputValue;
use ort::value::DynValue;

use super::error::{check_batch, failed, wrong_size};
use super::inputs::{Inputs, Source};
use super::stage::{Part, Stage, reason};
use super::{Device, RunSettings};
use crate::error::Error;
use crate::manifest::{GeneratorEntry, LatentEntry};
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

/// Items of more numbers than this share one copy as well: a picture of 1024×1024 in colour takes some 300 megabytes on
/// its way through a network, and a copy works on eight of them.
const MOST_COPIED_NUMBERS: usize = 1 << 16;

/// Numbers that a processor works on at a time; batches are multiples of it.
const LANES: usize = 8;

/// Bounds on the default batch.
const BATCHES: [usize; 2] = [8, 1024];

/// Networks up to this size get one copy per core; larger ones share one copy and all cores.
const MAX_COPIED_BYTES: usize = 256 << 20;

/// Copies of a network on a graphics card.
const CUDA_COPIES: usize = 4;

/// Networks in a row, with one copy per worker.
#[derive(Debug)]
pub(super) struct Pipeline {
    workers: Vec<Mutex<Worker>>,
    pub(super) batch: usize,
}

/// One copy of the networks.
#[derive(Debug)]
struct Worker {
    stages: Vec<Stage>,
    inputs: Inputs,
}

/// Outputs wanted from the last stage: name and values per item.
pub(super) type Wanted = Vec<(String, usize)>;

/// Those outputs for one batch.
type Outputs<'a> = &'a [&'a [f32]];

/// Whether they could be taken in.
type Stored = Result<(), Error>;

/// How many copies of networks run, and how.
pub(super) struct Copies {
    /// Items per call.
    pub(super) batch: usize,
    /// Copies.
    pub(super) count: usize,
    /// Cores of each.
    pub(super) threads: usize,
}

impl Copies {
    /// For networks of so many bytes.
    pub(super) fn of(
        settings: &RunSettings,
        bytes: usize,
        entry: &GeneratorEntry,
        fixed_batch: Option<usize>,
    ) -> Result<Self, Error> {
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
        // More copies than cores would only take memory.
        let threads = settings.threads.min(RunSettings::default().threads).get();
        let wanted = match settings.device {
            Device::Cpu => threads,
            // One copy computes while others draw latents.
            Device::Cuda => threads.min(CUDA_COPIES),
        };
        let copies = if bytes * wanted <= MAX_COPIED_BYTES && largest <= MOST_COPIED_NUMBERS {
            wanted
        } else {
            1
        };
        Ok(Self {
            batch,
            count: copies,
            threads: threads / copies,
        })
    }
}

impl Pipeline {
    pub(super) fn new(
        runtime: &Runtime,
        settings: &RunSettings,
        parts: &[Part<'_>],
        entry: &GeneratorEntry,
        fixed_batch: Option<usize>,
    ) -> Result<Self, Error> {
        let bytes: usize = parts.iter().map(|part| part.bytes().len()).sum();
        let Copies {
            batch,
            count,
            threads,
        } = Copies::of(settings, bytes, entry, fixed_batch)?;
        let worker = || {
            let stages = parts
                .iter()
                .map(|part| part.open(runtime, settings, threads))
                .collect::<Result<_, Error>>()?;
            Ok(Mutex::new(Worker {
                stages,
                inputs: Inputs::new(entry, batch),
            }))
        };
        let workers = (0..count).map(|_| worker()).collect::<Result<_, Error>>()?;
        Ok(Self { workers, batch })
    }

    pub(super) fn round(&self) -> usize {
        self.batch * self.workers.len()
    }

    /// Runs all requested proposals over all workers; `store` receives the number of each batch and
    /// its outputs.
    pub(super) fn run(
        &self,
        source: Source<'_>,
        wanted: &Wanted,
        device: Device,
        store: &(dyn Fn(usize, Outputs<'_>) -> Stored + Sync),
    ) -> Result<(), Error> {
        let batches = source.len().div_ceil(self.batch);
        let next = AtomicUsize::new(0);
        let work = |worker: &Mutex<Worker>| -> Result<(), Error> {
            let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= batches {
                    return Ok(());
                }
                let first = index * self.batch;
                let last = (first + self.batch).min(source.len());
                let part = source.part(first..last);
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
        source: Source<'_>,
        batch: usize,
        wanted: &Wanted,
        device: Device,
        store: &dyn Fn(Outputs<'_>) -> Stored,
    ) -> Result<(), Error> {
        self.inputs.fill(source);
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
        let failed = |e: &ort::Error| failed(&file, &reason(e));
        let outputs = last.session.run(given).map_err(|e| failed(&e))?;
        let rows = source.len();
        let mut slices = Vec::with_capacity(wanted.len());
        for (name, per_item) in wanted {
            let values = outputs.get(name).map(DynValue::try_extract_tensor::<f32>);
            let values = values
                .and_then(Result::ok)
                .map(|(_, values)| values)
                .unwrap_or_default();
            if values.len() != batch * per_item {
                return Err(wrong_size(&file, name, values.len(), [batch, *per_item]));
            }
            slices.push(&values[..rows * per_item]);
        }
        store(&slices)
    }
}

/// Room for the results, one part per batch, so that workers fill it side by side.
pub(crate) fn batches(values: &mut [f32], size: usize) -> Vec<Mutex<&mut [f32]>> {
    values.chunks_mut(size).map(Mutex::new).collect()
}
