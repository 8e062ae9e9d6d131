//! Latents and classes of a batch, as the generator's input tensors.

use std::ops::Range;

use ort::session::SessionInputValue;
use ort::value::TensorRef;

use super::Requested;
use crate::latents::LatentSource;
use crate::manifest::{ClassForm, GeneratorEntry, LatentEntry, Prior};
use crate::onnx::proto::data_type;

/// Latents that are not drawn but given: rows of all inputs' numbers, one input after the other, as the generator
/// takes them.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// A row of numbers for each item.
    pub latents: &'a [f32],
    /// The proposal that each comes from, for messages.
    pub numbers: &'a [u64],
    /// Class of each; empty for an unconditional generator.
    pub classes: &'a [u32],
}

/// What a network is run on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    /// Latents by proposal numbers.
    Drawn(Requested<'a>),
    /// Latents themselves.
    Given(Given<'a>),
}

impl<'a> Source<'a> {
    /// Items wanted.
    pub(super) fn len(self) -> usize {
        self.numbers().len()
    }

    /// The proposal behind each item.
    pub(super) fn numbers(self) -> &'a [u64] {
        match self {
            Self::Drawn(requested) => requested.numbers,
            Self::Given(given) => given.numbers,
        }
    }

    fn classes(self) -> &'a [u32] {
        match self {
            Self::Drawn(requested) => requested.classes,
            Self::Given(given) => given.classes,
        }
    }

    /// Some of the items.
    pub(super) fn part(self, rows: Range<usize>) -> Self {
        let numbers = &self.numbers()[rows.clone()];
        let classes = self.classes().get(rows.clone()).unwrap_or_default();
        match self {
            Self::Drawn(requested) => Self::Drawn(Requested {
                numbers,
                classes,
                ..requested
            }),
            Self::Given(given) => {
                let width = given.latents.len() / given.numbers.len().max(1);
                Self::Given(Given {
                    latents: &given.latents[rows.start * width..rows.end * width],
                    numbers,
                    classes,
                })
            }
        }
    }
}

/// The generator's inputs for one batch.
#[derive(Debug)]
pub(super) struct Inputs {
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
pub(super) enum InputTensor<'a> {
    Float(TensorRef<'a, f32>),
    Index(TensorRef<'a, i64>),
}

impl Inputs {
    pub(super) fn new(entry: &GeneratorEntry, batch: usize) -> Self {
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
    pub(super) fn fill(&mut self, source: Source<'_>) {
        match source {
            Source::Drawn(requested) => self.draw(requested),
            Source::Given(given) => self.take(given),
        }
        for latent in &mut self.latents {
            latent.values[source.len() * latent.size..].fill(0.0);
        }
        if let Some(class) = &mut self.class {
            class.one_hot.fill(0.0);
            class.index.fill(0);
            for (row, &value) in source.classes().iter().enumerate() {
                class.index[row] = i64::from(value);
                class.one_hot[row * class.classes + value as usize] = 1.0;
            }
        }
    }

    fn draw(&mut self, requested: Requested<'_>) {
        for (input, latent) in self.latents.iter_mut().enumerate() {
            let source = LatentSource {
                proposals: requested.proposals,
                mixture: requested.mixture.filter(|_| input == 0),
                input: input as u16,
                prior: latent.prior,
                size: latent.size,
            };
            source.fill(requested.numbers, &mut latent.values);
        }
    }

    fn take(&mut self, given: Given<'_>) {
        let width: usize = self.latents.iter().map(|latent| latent.size).sum();
        let mut first = 0;
        for latent in &mut self.latents {
            let rows = given.latents.chunks_exact(width);
            for (row, own) in rows.zip(latent.values.chunks_exact_mut(latent.size)) {
                own.copy_from_slice(&row[first..first + latent.size]);
            }
            first += latent.size;
        }
    }

    /// Name, sizes and type of every input, the type as the file format numbers it.
    pub(super) fn shapes(&self, batch: usize) -> Vec<(String, Vec<usize>, i32)> {
        let latents = self.latents.iter().map(|latent| {
            let sizes = [&[batch], latent.shape.as_slice()].concat();
            (latent.name.clone(), sizes, data_type::FLOAT)
        });
        let class = self.class.iter().map(|class| match class.form {
            ClassForm::Index => (class.name.clone(), vec![batch], data_type::INT64),
            ClassForm::OneHot => {
                let sizes = vec![batch, class.classes];
                (class.name.clone(), sizes, data_type::FLOAT)
            }
        });
        latents.chain(class).collect()
    }

    pub(super) fn tensors(&self, batch: usize) -> Result<Vec<InputTensor<'_>>, ort::Error> {
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

    pub(super) fn views<'a>(
        &self,
        tensors: &'a [InputTensor<'_>],
    ) -> Vec<(String, SessionInputValue<'a>)> {
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
