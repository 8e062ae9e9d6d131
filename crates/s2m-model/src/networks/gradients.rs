//! Latents to classifier outputs, and to how any function of those outputs changes with the latents.
//!
//! Two networks run one after the other, both made of the bundle's own files by [`onnx::gradient`]: the
//! first gives the outputs, whoever asks says how the function changes with each of them, and the second carries that
//! back to the latents. One such call costs about as much as three plain ones. The batch is fixed and
//! padded, so that results do not depend on how many latents are asked for at a time.
//!
//! [`onnx::gradient`]: crate::onnx::gradient

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use ort::session::{Session, SessionInputValue, SessionOutputs};
use ort::value::{DynValue, TensorElementType, TensorRef, ValueType};
use prost::Message as _;

use s2m_core::weight::Evidence;

use super::error::{failed, no_gradient, not_loaded, not_one, wrong_size};
use super::inputs::{Given, Inputs, Source};
use super::pipeline::{Copies, batches, finished};
use super::stage::{Part, Stage, reason};
use super::{RunSettings, common_batch, join_networks, output_names, row_shape};
use crate::bundle::Bundle;
use crate::error::Error;
use crate::logits::{Logits, RowShape};
use crate::manifest::LatentEntry;
use crate::onnx::ModelProto;
use crate::onnx::gradient::{Fact, Facts, differentiate, exposed, seed, slope};
use crate::runtime::Runtime;

/// What the classifiers say about one item, and room for how a function of it changes with each output.
pub struct Asked<'a> {
    /// Which of the given latents.
    pub row: usize,
    /// What the classifiers say.
    pub evidence: Evidence<'a>,
    /// The logits of label sets, all of them; a row of evidence may keep the likeliest only.
    pub set_logits: &'a [f32],
    /// The derivative by each output: class logits, the real logit, fake-class logits, logits of label sets. It
    /// begins with zeros.
    pub slopes: &'a mut [f32],
}

/// Says how a function changes with the outputs for one item.
pub type Ask<'a> = dyn Fn(Asked<'_>) + Sync + 'a;

/// A bundle's networks with their derivative.
#[derive(Debug)]
pub struct Gradients {
    workers: Vec<Mutex<Worker>>,
    batch: usize,
    shape: RowShape,
    /// Numbers in a row of given latents.
    width: usize,
}

/// One copy of the two networks.
#[derive(Debug)]
struct Worker {
    forward: Stage,
    backward: Stage,
    inputs: Inputs,
    /// Names and sizes of the outputs.
    outputs: Vec<(String, usize)>,
    /// Names and sizes of the latents.
    latents: Vec<(String, usize)>,
    saved: Vec<(String, String)>,
    cotangents: Vec<Vec<f32>>,
}

impl Gradients {
    /// Makes and opens the networks; refuses a bundle that has no gradient.
    pub fn open(bundle: &Bundle, runtime: &Runtime, settings: &RunSettings) -> Result<Self, Error> {
        let names = output_names(bundle, &[]);
        let bytes = join_networks(bundle, &names).map_err(|why| not_one(&why))?;
        let file = format!("{} + {}", bundle.generator().file, bundle.classifier().file);
        let model = ModelProto::decode(&*bytes).map_err(|e| not_loaded(&file, &e.to_string()))?;
        Self::of(&model, &file, bundle, (runtime, settings))
    }

    /// The same from generator and classifier as one graph.
    fn of(
        model: &ModelProto,
        file: &str,
        bundle: &Bundle,
        (runtime, settings): (&Runtime, &RunSettings),
    ) -> Result<Self, Error> {
        let names = output_names(bundle, &[]);
        let entry = &bundle.manifest().generator;
        let bytes = model.encoded_len() * 2;
        let copies = Copies::of(settings, bytes, entry, common_batch(bundle)?)?;
        let batch = copies.batch;
        let open = |model: &ModelProto, threads| {
            Part::made(file, model.encode_to_vec(), "", "").open(runtime, settings, threads)
        };
        let facts = {
            let mut inputs = Inputs::new(entry, batch);
            look(
                &mut open(&exposed(model), copies.threads)?,
                &mut inputs,
                batch,
            )?
        };
        let latents: Vec<&str> = entry.latents.iter().map(|l| l.input.as_str()).collect();
        let outputs: Vec<&str> = names.iter().map(|(_, fixed, _)| fixed.as_str()).collect();
        let two = differentiate(model, &latents, &outputs, &facts)
            .map_err(|why| no_gradient(file, &why))?;
        let worker = || -> Result<Mutex<Worker>, Error> {
            Ok(Mutex::new(Worker {
                forward: open(&two.forward, copies.threads)?,
                backward: open(&two.backward, copies.threads)?,
                inputs: Inputs::new(entry, batch),
                outputs: names
                    .iter()
                    .map(|(_, fixed, size)| (fixed.clone(), *size))
                    .collect(),
                latents: entry
                    .latents
                    .iter()
                    .map(|l| (l.input.clone(), l.size()))
                    .collect(),
                saved: two.saved.clone(),
                cotangents: names
                    .iter()
                    .map(|(_, _, size)| vec![0.0; batch * size])
                    .collect(),
            }))
        };
        Ok(Self {
            workers: (0..copies.count)
                .map(|_| worker())
                .collect::<Result<_, _>>()?,
            batch,
            shape: row_shape(bundle, 0),
            width: entry.latents.iter().map(LatentEntry::size).sum(),
        })
    }

    /// Numbers in a row of given latents.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Items that keep every worker busy once.
    pub fn round(&self) -> usize {
        self.batch * self.workers.len()
    }

    /// The logits of given latents, and the gradients of what `ask` says, a row of [`Self::width`] numbers each.
    pub fn run(&self, given: Given<'_>, ask: &Ask<'_>) -> Result<(Logits, Vec<f32>), Error> {
        let count = given.numbers.len();
        let mut logits = Logits::zeros(self.shape, count);
        let mut gradients = vec![0.0; count * self.width];
        {
            let rows = batches(logits.values_mut(), self.batch * self.shape.width());
            let slopes = batches(&mut gradients, self.batch * self.width);
            let next = AtomicUsize::new(0);
            let work = |worker: &Mutex<Worker>| -> Result<(), Error> {
                let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= rows.len() {
                        return Ok(());
                    }
                    let first = index * self.batch;
                    let range = first..(first + self.batch).min(count);
                    let mut rows = rows[index].lock().unwrap_or_else(PoisonError::into_inner);
                    let mut slopes = slopes[index].lock().unwrap_or_else(PoisonError::into_inner);
                    let Source::Given(part) = Source::Given(given).part(range) else {
                        unreachable!("a part of given latents is given too")
                    };
                    let mut out = Out {
                        first,
                        shape: self.shape,
                        rows: &mut rows,
                        gradients: &mut slopes,
                    };
                    worker.run(part, self.batch, ask, &mut out)?;
                }
            };
            if self.workers.len() == 1 || rows.len() <= 1 {
                work(&self.workers[0])?;
            } else {
                thread::scope(|scope| {
                    let running: Vec<_> = self
                        .workers
                        .iter()
                        .map(|worker| scope.spawn(|| work(worker)))
                        .collect();
                    running.into_iter().try_for_each(finished)
                })?;
            }
        }
        Ok((logits, gradients))
    }
}

/// Where the results of a batch go.
struct Out<'o> {
    first: usize,
    shape: RowShape,
    rows: &'o mut [f32],
    gradients: &'o mut [f32],
}

impl Worker {
    fn run(
        &mut self,
        given: Given<'_>,
        batch: usize,
        ask: &Ask<'_>,
        out: &mut Out<'_>,
    ) -> Result<(), Error> {
        self.inputs.fill(Source::Given(given));
        let failed = |e: &ort::Error| failed(&self.forward.file, &reason(e));
        let inputs = self.inputs.tensors(batch).map_err(|e| failed(&e))?;
        let views = self.inputs.views(&inputs);
        let outputs = self.forward.session.run(views).map_err(|e| failed(&e))?;
        let mut said = Vec::with_capacity(self.outputs.len());
        for (name, size) in &self.outputs {
            said.push(numbers(&outputs, name, (batch, *size), &self.forward.file)?);
        }
        self.cotangents.iter_mut().for_each(|all| all.fill(0.0));
        let sizes: Vec<usize> = self.outputs.iter().map(|(_, size)| *size).collect();
        let mut slopes = vec![0.0; sizes.iter().sum()];
        for (row, own) in out.rows.chunks_exact_mut(out.shape.width()).enumerate() {
            let of = |at: usize| &said[at][row * sizes[at]..(row + 1) * sizes[at]];
            out.shape.fill(own, (0..sizes.len()).map(of));
            slopes.fill(0.0);
            let sets = if out.shape.joint > 0 {
                of(sizes.len() - 1)
            } else {
                &[]
            };
            ask(Asked {
                row: out.first + row,
                evidence: out.shape.evidence(own),
                set_logits: sets,
                slopes: &mut slopes,
            });
            let mut first = 0;
            for (all, size) in self.cotangents.iter_mut().zip(&sizes) {
                all[row * size..(row + 1) * size].copy_from_slice(&slopes[first..first + size]);
                first += size;
            }
        }
        let mut back: Vec<(String, SessionInputValue<'_>)> = Vec::new();
        for ((name, _), cotangent) in self.outputs.iter().zip(&self.cotangents) {
            let shape = outputs
                .get(name)
                .map(|value| value.shape().to_vec())
                .unwrap_or_default();
            let tensor = TensorRef::from_array_view((shape, cotangent.as_slice()));
            back.push((seed(name), tensor.map_err(|e| failed(&e))?.into()));
        }
        for (name, called) in &self.saved {
            if let Some(value) = outputs.get(name) {
                back.push((called.clone(), value.view().into()));
            }
        }
        let found = self.backward.session.run(back).map_err(|e| failed(&e))?;
        let width: usize = self.latents.iter().map(|(_, size)| size).sum();
        let mut first = 0;
        for (name, size) in &self.latents {
            let values = numbers(&found, &slope(name), (batch, *size), &self.backward.file)?;
            let rows = out.gradients.chunks_exact_mut(width);
            for (row, own) in rows.zip(values.chunks_exact(*size)) {
                row[first..first + size].copy_from_slice(own);
            }
            first += size;
        }
        Ok(())
    }
}

/// The numbers of an output, as many as were promised.
fn numbers<'o>(
    outputs: &'o SessionOutputs<'_>,
    name: &str,
    (rows, wanted): (usize, usize),
    file: &str,
) -> Result<&'o [f32], Error> {
    let values = outputs.get(name).map(DynValue::try_extract_tensor::<f32>);
    let values = values
        .and_then(Result::ok)
        .map(|(_, values)| values)
        .unwrap_or_default();
    if values.len() == rows * wanted {
        return Ok(values);
    }
    Err(wrong_size(file, name, values.len(), [rows, wanted]))
}

/// Runs a network once and notes what every value looks like.
fn look(stage: &mut Stage, inputs: &mut Inputs, batch: usize) -> Result<Facts, Error> {
    let file = stage.file.clone();
    let failed = |e: &ort::Error| failed(&file, &reason(e));
    let nothing = Given {
        latents: &[],
        numbers: &[],
        classes: &[],
    };
    inputs.fill(Source::Given(nothing));
    let tensors = inputs.tensors(batch).map_err(|e| failed(&e))?;
    let views = inputs.views(&tensors);
    let mut facts = Facts::new();
    for (name, dims, element) in inputs.shapes(batch) {
        let whole = None;
        facts.insert(
            name,
            Fact {
                dims,
                element,
                whole,
            },
        );
    }
    facts.extend(facts_of(&mut stage.session, views).map_err(|e| failed(&e))?);
    Ok(facts)
}

/// Runs a network and notes what its outputs look like.
pub(crate) fn facts_of(
    session: &mut Session,
    inputs: Vec<(String, SessionInputValue<'_>)>,
) -> Result<Facts, ort::Error> {
    let outputs = session.run(inputs)?;
    let seen = outputs
        .iter()
        .map(|(name, value)| (name.to_owned(), fact(&value)));
    Ok(seen.collect())
}

/// What one value looks like.
fn fact(value: &DynValue) -> Fact {
    let ValueType::Tensor { ty, shape, .. } = value.dtype() else {
        return Fact::default();
    };
    let dims = shape.iter().map(|&size| usize::try_from(size).unwrap_or(0));
    let whole = value.try_extract_tensor::<i64>().ok();
    Fact {
        dims: dims.collect(),
        element: element(*ty),
        whole: whole.map(|(_, values)| values.to_vec()),
    }
}

/// The number of a type in the file format; 0 for one that no network here has.
fn element(kind: TensorElementType) -> i32 {
    match kind {
        TensorElementType::Float32 => 1,
        TensorElementType::Uint8 => 2,
        TensorElementType::Int8 => 3,
        TensorElementType::Uint16 => 4,
        TensorElementType::Int16 => 5,
        TensorElementType::Int32 => 6,
        TensorElementType::Int64 => 7,
        TensorElementType::String => 8,
        TensorElementType::Bool => 9,
        TensorElementType::Float16 => 10,
        TensorElementType::Float64 => 11,
        TensorElementType::Uint32 => 12,
        TensorElementType::Uint64 => 13,
        TensorElementType::Bfloat16 => 16,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
