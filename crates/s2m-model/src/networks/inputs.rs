//! Latents and classes of a batch, as the generator's input tensors.

use ort::session::SessionInputValue;
use ort::value::TensorRef;

use super::Requested;
use crate::latents::LatentSource;
use crate::manifest::{ClassForm, GeneratorEntry, LatentEntry, Prior};

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
    pub(super) fn fill(&mut self, requested: Requested<'_>) {
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
