//! Proposal numbers to classifier outputs, and to pictures or points.
//!
//! Scoring runs generator, adapter and classifier and brings only logits back. Where the two ONNX
//! files allow it they are joined into one graph; otherwise they run one after the other, and items
//! stay on the device between them. The batch is fixed and padded, so that results do not depend on
//! how many proposals are asked for at a time.

mod error;
mod gradients;
mod inputs;
mod pipeline;
mod stage;

use std::num::NonZeroUsize;
use std::sync::PoisonError;
use std::thread;

use s2m_core::mixture::Mixture;
use s2m_core::proposals::Proposals;

pub(crate) use self::error::{check_batch, failed, wrong_size};
#[cfg(test)]
pub(crate) use self::gradients::facts_of;
pub use self::gradients::{Ask, Asked, Gradients};
pub use self::inputs::Given;
use self::inputs::Source;
use self::pipeline::{Pipeline, Wanted};
pub(crate) use self::pipeline::{batches, default_batch, finished};
pub(crate) use self::stage::{Part, Stage, reason};
use crate::bundle::{Bundle, GeneratorPart, Network};
use crate::error::Error;
use crate::logits::{Logits, RowShape};
use crate::onnx::{Join, NotJoinable, adapter_model, describe, join, levels_model};
use crate::runtime::Runtime;

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

fn common_batch(bundle: &Bundle) -> Result<Option<usize>, Error> {
    match (
        fixed_batch(bundle.generator()),
        fixed_batch(bundle.classifier()),
    ) {
        (Some(generator), Some(classifier)) if generator != classifier => {
            Err(Error::unsupported(format!(
                "the generator was exported for batches of {generator} and the classifier for {classifier}\nhint: export both with a dynamic first axis"
            )))
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
    pub fn open(bundle: &Bundle, runtime: &Runtime, settings: &RunSettings) -> Result<Self, Error> {
        Self::open_with(bundle, &[], runtime, settings)
    }

    /// The same with the outputs of networks that have no part in selecting, where the bundle has them.
    pub fn open_with_members(
        bundle: &Bundle,
        runtime: &Runtime,
        settings: &RunSettings,
    ) -> Result<Self, Error> {
        let joint = bundle.manifest().classifier.joint.as_ref();
        let members = joint.map(|joint| joint.members.as_slice());
        Self::open_with(bundle, members.unwrap_or_default(), runtime, settings)
    }

    fn open_with(
        bundle: &Bundle,
        members: &[String],
        runtime: &Runtime,
        settings: &RunSettings,
    ) -> Result<Self, Error> {
        let names = output_names(bundle, members);
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
        let shape = row_shape(bundle, members.len());
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
    pub fn score(&self, requested: Requested<'_>) -> Result<Logits, Error> {
        let mut logits = Logits::zeros(self.shape, requested.numbers.len());
        let width = self.shape.width();
        let parts = batches(logits.values_mut(), self.batch() * width);
        self.pipeline.run(
            Source::Drawn(requested),
            &self.wanted,
            self.device,
            &|batch, outputs| {
                let mut rows = parts[batch].lock().unwrap_or_else(PoisonError::into_inner);
                for (row, out) in rows.chunks_exact_mut(width).enumerate() {
                    let outputs = outputs.iter().zip(&self.wanted);
                    let own =
                        outputs.map(|(values, (_, size))| &values[row * size..(row + 1) * size]);
                    self.shape.fill(out, own);
                }
                Ok(())
            },
        )?;
        Ok(logits)
    }
}

/// Outputs of the classifier, each with its name in the joined graph and its values per item.
fn output_names<'b>(bundle: &'b Bundle, members: &'b [String]) -> Vec<(&'b str, String, usize)> {
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
    names
}

/// What a row of a bundle's logits holds.
fn row_shape(bundle: &Bundle, members: usize) -> RowShape {
    RowShape {
        labels: bundle.labels().len(),
        conditional: bundle.classes().is_some(),
        joint: bundle.label_sets().map_or(0, |sets| sets.outputs()),
        members,
    }
}

fn joined<'a>(bundle: &'a Bundle, names: &[(&str, String, usize)]) -> Option<Part<'a>> {
    let file = format!("{} + {}", bundle.generator().file, bundle.classifier().file);
    let bytes = join_networks(bundle, names);
    bytes.ok().map(|bytes| Part::made(&file, bytes, "", ""))
}

/// Generator and classifier as one file.
fn join_networks(bundle: &Bundle, names: &[(&str, String, usize)]) -> Result<Vec<u8>, NotJoinable> {
    let outputs: Vec<(&str, &str)> = names
        .iter()
        .map(|(own, fixed, _)| (*own, fixed.as_str()))
        .collect();
    let manifest = bundle.manifest();
    join(Join {
        generator: &bundle.generator().model,
        classifier: &bundle.classifier().model,
        adapter: bundle.adapter(),
        generator_output: &manifest.generator.output.name,
        classifier_input: &manifest.classifier.input.name,
        outputs: &outputs,
    })
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
    pub fn open(bundle: &Bundle, runtime: &Runtime, settings: &RunSettings) -> Result<Self, Error> {
        Self::of(bundle.generator_part(), runtime, settings)
    }

    /// Opens a generator that may stand alone.
    pub fn of(
        generator: GeneratorPart<'_>,
        runtime: &Runtime,
        settings: &RunSettings,
    ) -> Result<Self, Error> {
        let GeneratorPart {
            entry,
            network,
            axes,
        } = generator;
        let generator = Part::network(network, "", &entry.output.name);
        let levels = levels_model(&entry.output.format(), axes, "item", "levels");
        let levels = levels.map_err(|e| error::not_loaded("adapter", &e.to_string()))?;
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
    pub fn render(&self, requested: Requested<'_>) -> Result<Vec<f32>, Error> {
        self.items(Source::Drawn(requested))
    }

    /// The items of given latents.
    pub fn render_given(&self, given: Given<'_>) -> Result<Vec<f32>, Error> {
        self.items(Source::Given(given))
    }

    fn items(&self, source: Source<'_>) -> Result<Vec<f32>, Error> {
        let size = self.item_size();
        let mut items = vec![0.0; source.len() * size];
        let parts = batches(&mut items, self.pipeline.batch * size);
        self.pipeline
            .run(source, &self.wanted, self.device, &|batch, outputs| {
                if let Some(at) = outputs[0].iter().position(|value| !value.is_finite()) {
                    let row = batch * self.pipeline.batch + at / size;
                    return Err(Error::network(format!(
                        "the generator's output for proposal {} is not a number",
                        source.numbers()[row]
                    )));
                }
                let mut part = parts[batch].lock().unwrap_or_else(PoisonError::into_inner);
                part.copy_from_slice(outputs[0]);
                Ok(())
            })?;
        Ok(items)
    }
}
