//! A classifier in an ONNX file of its own, run over items that are already there.
//!
//! A referee or a feature network judges real and generated items alike. The file may come from
//! anywhere: what it takes and gives is checked before it runs, and what it says afterwards. The
//! batch is fixed and padded, so that an answer does not depend on the items around it.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use ort::session::SessionInputValue;
use ort::value::{DynValue, TensorRef};
use prost::Message as _;

use crate::bundle::{MAX_NETWORK, not_onnx, read, sha256};
use crate::error::{Error, list};
use crate::networks::{
    Device, Part, RunSettings, Stage, batches, check_batch, default_batch, failed, finished,
    reason, wrong_size,
};
use crate::onnx::{ModelProto, Port, PortElement, describe, external_paths};
use crate::runtime::Runtime;

/// Most numbers in one item or one row of an output; beyond it a shape is a mistake or an attack.
const MAX_NUMBERS: usize = 1 << 24;

/// Every output of a network that gives one row of 32-bit floats per item, with the row's size.
///
/// `file` is its name in messages.
pub fn outputs_of(file: &str, bytes: &[u8]) -> Result<Vec<(String, usize)>, Error> {
    let ports = describe(&decode(file, bytes)?);
    let rows = ports.outputs.iter().map(|port| {
        let size = row_size(file, &ports.outputs, &port.name).ok()?;
        Some((port.name.clone(), size))
    });
    Ok(rows.flatten().collect())
}

/// The error for an output that is not a number at an item.
type Bad<'a> = dyn Fn(&str, usize) -> Error + Sync + 'a;

/// A classifier, ready to run.
pub struct Judge {
    file: String,
    sha256: String,
    input: String,
    shape: Vec<usize>,
    outputs: Vec<(String, usize)>,
    batch: usize,
    copies: Vec<Mutex<Stage>>,
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge")
            .field("file", &self.file)
            .field("shape", &self.shape)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

impl Judge {
    /// Opens a file for the outputs of these names.
    pub fn open(
        path: &Path,
        outputs: &[&str],
        runtime: &Runtime,
        settings: &RunSettings,
    ) -> Result<Self, Error> {
        let bytes = read(path, MAX_NETWORK)?;
        Self::of(
            path.display().to_string(),
            bytes,
            outputs,
            runtime,
            settings,
        )
    }

    /// Opens a network that is held in memory; `file` is its name in messages.
    pub fn of(
        file: String,
        bytes: Vec<u8>,
        outputs: &[&str],
        runtime: &Runtime,
        settings: &RunSettings,
    ) -> Result<Self, Error> {
        let model = decode(&file, &bytes)?;
        let ports = describe(&model);
        let (input, fixed) = item_input(&file, &ports.inputs)?;
        let row = |name: &&str| Ok(((*name).to_owned(), row_size(&file, &ports.outputs, name)?));
        let outputs: Vec<(String, usize)> =
            outputs.iter().map(row).collect::<Result<_, Error>>()?;
        let shape = sides(input).unwrap_or_default();
        let item: usize = shape.iter().product();
        let batch = fixed.or(settings.batch.map(NonZeroUsize::get));
        let batch = batch.unwrap_or(default_batch(settings.device, false, item));
        let largest = outputs
            .iter()
            .map(|(_, width)| *width)
            .fold(item, usize::max);
        // More copies than cores would only take memory; a graphics card needs one.
        let copies = match settings.device {
            Device::Cpu => settings.threads.min(RunSettings::default().threads).get(),
            Device::Cuda => 1,
        };
        let part = Part::made(&file, bytes, "", "");
        let open = |_| Ok(Mutex::new(part.open(runtime, settings, 1)?));
        Ok(Self {
            sha256: sha256(part.bytes()),
            input: input.name.clone(),
            shape,
            outputs,
            batch: check_batch(batch, largest)?,
            copies: (0..copies).map(open).collect::<Result<_, Error>>()?,
            file,
        })
    }

    /// SHA-256 of the file.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Sides of one item.
    pub fn item_shape(&self) -> &[usize] {
        &self.shape
    }

    /// Numbers per item of each output, in the order in which they were asked for.
    pub fn output_sizes(&self) -> impl Iterator<Item = usize> {
        self.outputs.iter().map(|(_, size)| *size)
    }

    /// What each output says about all items, row by row.
    pub fn judge(&self, items: &[f32]) -> Result<Vec<Vec<f32>>, Error> {
        self.judge_or(items, &|name, item| {
            let file = &self.file;
            Error::network(format!(
                "`{file}`: output `{name}` for item {item} is not a number"
            ))
        })
    }

    /// The same with another error for an output that is not a number at an item.
    pub(crate) fn judge_or(&self, items: &[f32], bad: &Bad<'_>) -> Result<Vec<Vec<f32>>, Error> {
        let size: usize = self.shape.iter().product();
        if !items.len().is_multiple_of(size) {
            return Err(Error::mismatch(format!(
                "`{}` judges items of {size} numbers; {} numbers are not whole items",
                self.file,
                items.len()
            )));
        }
        let count = items.len() / size;
        let mut answers: Vec<Vec<f32>> =
            self.output_sizes().map(|k| vec![0.0; count * k]).collect();
        let sizes = self.output_sizes().map(|k| self.batch * k);
        let rooms: Vec<_> = answers
            .iter_mut()
            .zip(sizes)
            .map(|(answer, size)| batches(answer, size))
            .collect();
        let given: Vec<&[f32]> = items.chunks(self.batch * size).collect();
        let next = AtomicUsize::new(0);
        let work = |stage: &Mutex<Stage>| -> Result<(), Error> {
            let mut stage = stage.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(items) = given.get(index) else {
                    return Ok(());
                };
                let rows = self.run(&mut stage, items, index * self.batch, bad)?;
                for (room, rows) in rooms.iter().zip(rows) {
                    let mut room = room[index].lock().unwrap_or_else(PoisonError::into_inner);
                    room.copy_from_slice(&rows);
                }
            }
        };
        thread::scope(|scope| {
            let running: Vec<_> = self
                .copies
                .iter()
                .map(|stage| scope.spawn(|| work(stage)))
                .collect();
            running.into_iter().try_for_each(finished)
        })?;
        drop(rooms);
        Ok(answers)
    }

    /// The answers on one batch, which is padded with zeros; `first` is the number of its first item.
    fn run(
        &self,
        stage: &mut Stage,
        items: &[f32],
        first: usize,
        bad: &Bad<'_>,
    ) -> Result<Vec<Vec<f32>>, Error> {
        let size: usize = self.shape.iter().product();
        let rows = items.len() / size;
        let mut padded = items.to_vec();
        padded.resize(self.batch * size, 0.0);
        let sides = std::iter::once(self.batch).chain(self.shape.iter().copied());
        let sides: Vec<usize> = sides.collect(); // [batch, …]
        let failed = |e: &ort::Error| failed(&self.file, &reason(e));
        let tensor =
            TensorRef::from_array_view((sides, padded.as_slice())).map_err(|e| failed(&e))?;
        let given = vec![(self.input.as_str(), SessionInputValue::from(tensor))];
        let found = stage.session.run(given).map_err(|e| failed(&e))?;
        let mut answers = Vec::with_capacity(self.outputs.len());
        for (name, width) in &self.outputs {
            let values = found.get(name).map(DynValue::try_extract_tensor::<f32>);
            let values = values.and_then(Result::ok).map_or(&[][..], |(_, v)| v);
            if values.len() != self.batch * width {
                return Err(wrong_size(
                    &self.file,
                    name,
                    values.len(),
                    [self.batch, *width],
                ));
            }
            let values = &values[..rows * width];
            if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                return Err(bad(name, first + at / width));
            }
            answers.push(values.to_vec());
        }
        Ok(answers)
    }
}

pub(crate) fn decode(file: &str, bytes: &[u8]) -> Result<ModelProto, Error> {
    let model = ModelProto::decode(bytes).map_err(|e| not_onnx(file, &e.to_string()))?;
    if model.graph.is_none() {
        return Err(not_onnx(file, "it holds no graph"));
    }
    match external_paths(&model).into_iter().next() {
        None => Ok(model),
        Some(path) => Err(Error::unsupported(format!(
            "`{file}` keeps weights in another file, `{path}`; a judge must be one file"
        ))),
    }
}

/// The one input, and the batch for which the file was exported, if that is fixed.
fn item_input<'a>(file: &str, inputs: &'a [Port]) -> Result<(&'a Port, Option<usize>), Error> {
    let fault = |found: String| {
        Error::unsupported(format!(
            "`{file}` must take one input of 32-bit floats with fixed sides, [n, …]; it takes {found}"
        ))
    };
    let [input] = inputs else {
        return Err(fault(format!("{} inputs", inputs.len())));
    };
    let usable = input.element == PortElement::F32 && sides(input).is_some();
    if !usable {
        return Err(fault(format!("`{}`, {}", input.name, in_words(input))));
    }
    let batch = input.dims.as_ref().and_then(|dims| dims[0]);
    Ok((
        input,
        batch
            .and_then(|b| usize::try_from(b).ok())
            .filter(|b| *b > 0),
    ))
}

/// Of an output that a network does not have, by those that it has.
pub fn no_output<S: AsRef<str>>(
    file: &str,
    name: &str,
    outputs: impl IntoIterator<Item = S>,
) -> Error {
    let outputs = list(outputs);
    Error::not_found(format!("`{file}` has no output `{name}`; it has {outputs}"))
}

/// Numbers that an output gives for each item.
fn row_size(file: &str, outputs: &[Port], name: &str) -> Result<usize, Error> {
    let port = outputs.iter().find(|port| port.name == name);
    let port = port.ok_or_else(|| no_output(file, name, outputs.iter().map(|port| &port.name)))?;
    // One number per item may come without an axis of its own.
    let one = port.dims.as_ref().is_some_and(|dims| dims.len() == 1);
    match sides(port).as_deref() {
        // Pooled features often keep sides of one.
        Some([width, rest @ ..])
            if port.element == PortElement::F32 && rest.iter().all(|side| *side == 1) =>
        {
            Ok(*width)
        }
        None if one && port.element == PortElement::F32 => Ok(1),
        _ => Err(Error::unsupported(format!(
            "`{file}`: output `{name}` must be 32-bit floats [n, k] with a fixed k; it is {}",
            in_words(port)
        ))),
    }
}

/// All sides behind the batch, where every one is stated and sane.
pub(crate) fn sides(port: &Port) -> Option<Vec<usize>> {
    let sides = port
        .dims
        .as_ref()?
        .get(1..)
        .filter(|sides| !sides.is_empty())?;
    let sides = sides.iter().map(|side| usize::try_from((*side)?).ok());
    let sides: Vec<usize> = sides.collect::<Option<_>>()?;
    let numbers = sides
        .iter()
        .try_fold(1usize, |all, &side| all.checked_mul(side));
    numbers
        .filter(|n| (1..=MAX_NUMBERS).contains(n))
        .map(|_| sides)
}

pub(crate) fn in_words(port: &Port) -> String {
    let side = |dim: &Option<i64>| dim.map_or("?".to_owned(), |d| d.to_string());
    let dims = port
        .dims
        .as_ref()
        .map_or("of unknown shape".to_owned(), |dims| {
            format!("[{}]", dims.iter().map(side).collect::<Vec<_>>().join(", "))
        });
    format!("{} {dims}", port.element)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::onnx::{Element, GraphBuilder};

    /// Two outputs of items [2, 3]: a linear layer with two rows, and the six numbers themselves.
    fn network() -> Vec<u8> {
        let mut g = GraphBuilder::new("judge");
        let x = g.input("x", &[2, 3], Element::F32).unwrap();
        let flat = g.flatten(&x).unwrap();
        let weights: Vec<f32> = (0..12).map(|i| i as f32 - 5.0).collect();
        let weight = g.constant("weight", &[2, 6], &weights).unwrap();
        let bias = g.constant("bias", &[2], &[0.5, -0.25]).unwrap();
        let y = g.linear(&flat, &weight, &bias).unwrap();
        g.output(&y, "class_logits").unwrap();
        g.output(&flat, "features").unwrap();
        g.to_bytes()
    }

    fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("judge.onnx");
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    fn open(path: &Path, outputs: &[&str], batch: usize) -> Result<Judge, Error> {
        let runtime = Runtime::load(None).unwrap();
        let settings = RunSettings {
            batch: NonZeroUsize::new(batch),
            ..RunSettings::default()
        };
        Judge::open(path, outputs, &runtime, &settings)
    }

    fn message(bytes: &[u8], outputs: &[&str]) -> String {
        let (_folder, path) = file(bytes);
        let error = open(&path, outputs, 4).unwrap_err().to_string();
        error.replace(&path.display().to_string(), "FILE")
    }

    /// The linear layer by hand, whatever the batch and the last, padded part of it.
    #[test]
    fn answers_are_those_of_the_network_for_every_item() {
        let (_folder, path) = file(&network());
        let items: Vec<f32> = (0..7 * 6).map(|i| (i % 11) as f32 / 4.0 - 1.0).collect();
        for batch in [1, 2, 3, 64] {
            let judge = open(&path, &["features", "class_logits"], batch).unwrap();
            assert_eq!(judge.item_shape(), [2, 3]);
            assert_eq!(judge.output_sizes().collect::<Vec<_>>(), [6, 2]);
            let answers = judge.judge(&items).unwrap();
            assert_eq!(answers[0], items);
            for (item, logits) in items.chunks(6).zip(answers[1].chunks(2)) {
                for (row, bias) in [0.5, -0.25].into_iter().enumerate() {
                    let product = |(k, x): (usize, &f32)| ((6 * row + k) as f32 - 5.0) * x;
                    let wanted: f32 = item.iter().enumerate().map(product).sum::<f32>() + bias;
                    assert!((logits[row] - wanted).abs() < 1e-5, "{logits:?} {wanted}");
                }
            }
        }
    }

    #[test]
    fn no_items_have_no_answers_and_half_items_are_an_error() {
        let (_folder, path) = file(&network());
        let judge = open(&path, &["class_logits"], 4).unwrap();
        assert_eq!(judge.judge(&[]).unwrap(), [Vec::<f32>::new()]);
        let error = judge.judge(&[0.0; 7]).unwrap_err().to_string();
        assert!(
            error.ends_with("judges items of 6 numbers; 7 numbers are not whole items"),
            "{error}"
        );
    }

    #[test]
    fn an_answer_that_is_not_a_number_names_the_item() {
        let (_folder, path) = file(&network());
        let judge = open(&path, &["class_logits"], 2).unwrap();
        let mut items = vec![0.0; 5 * 6];
        items[3 * 6 + 1] = f32::NAN;
        let error = judge.judge(&items).unwrap_err().to_string();
        assert!(
            error.ends_with("output `class_logits` for item 3 is not a number"),
            "{error}"
        );
    }

    #[test]
    fn files_that_are_no_judges_are_refused_in_words() {
        assert_eq!(
            message(&network(), &["logits"]),
            "`FILE` has no output `logits`; it has `class_logits`, `features`"
        );
        assert!(
            message(b"not a network", &["y"]).starts_with("`FILE` is not an ONNX file, or is cut"),
        );
        let cut = network();
        assert!(
            message(&cut[..cut.len() / 2], &["y"])
                .starts_with("`FILE` is not an ONNX file, or is cut"),
        );
        assert!(message(b"", &["y"]).contains("it holds no graph"));
        let nowhere = open(Path::new("/nowhere/judge.onnx"), &["y"], 1).unwrap_err();
        assert!(
            nowhere
                .to_string()
                .starts_with("could not read `/nowhere/judge.onnx`")
        );
    }

    #[test]
    fn inputs_and_outputs_of_the_wrong_shape_are_named() {
        let mut g = GraphBuilder::new("two");
        let x = g.input("x", &[3], Element::F32).unwrap();
        let y = g.input("y", &[3], Element::F32).unwrap();
        let z = g.add(&x, &y).unwrap();
        g.output(&z, "z").unwrap();
        assert_eq!(
            message(&g.to_bytes(), &["z"]),
            "`FILE` must take one input of 32-bit floats with fixed sides, [n, …]; it takes 2 inputs"
        );
        let mut g = GraphBuilder::new("picture");
        let x = g.input("x", &[2, 3], Element::F32).unwrap();
        let y = g.relu(&x).unwrap();
        g.output(&y, "y").unwrap();
        assert_eq!(
            message(&g.to_bytes(), &["y"]),
            "`FILE`: output `y` must be 32-bit floats [n, k] with a fixed k; it is f32 [?, 2, 3]"
        );
    }
}
