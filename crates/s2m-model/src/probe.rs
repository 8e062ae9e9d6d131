//! What somebody's generator takes and gives, from its file and a trial run.
//!
//! A file says how many numbers go in, seldom what they mean. Floats are noise, whole numbers are
//! classes; a row of as many floats as there are labels under a telling name is a class too. Pictures are told by
//! their axes, or by the data where they are flat, their range by what comes out. Everything can be said instead of
//! guessed.

use std::path::Path;

use ort::session::SessionInputValue;
use ort::value::{DynValue, Tensor};
use prost::Message as _;
use s2m_core::proposals::Proposals;
use s2m_core::setting::Setting;
use s2m_core::streams;

use crate::bundle::{MAX_NETWORK, inside, read, sha256};
use crate::error::{Error, list};
use crate::judge::{in_words, sides};
use crate::latents::LatentSource;
use crate::manifest::{
    ClassEntry, ClassForm, GeneratorEntry, ItemEntry, LatentEntry, LayoutName, Prior,
};
use crate::networks::{Part, RunSettings, failed, reason};
use crate::onnx::casts::with_plain_types;
use crate::onnx::{ModelProto, Port, PortElement, describe, external_paths, with_weights_inside};
use crate::runtime::Runtime;

/// Fewest items of the trial run.
const TRIAL: usize = 16;

/// Items that the trial run makes at once, where the file does not fix its batch: as few as any later call.
const TRIAL_AT_ONCE: usize = 8;

/// Inputs called so are classes, where their size allows it.
const CLASS_NAMES: &[&str] = &[
    "c", "class", "classes", "label", "labels", "y", "onehot", "one_hot",
];

/// How far beyond a range values may lie and still belong to it.
const SLACK: f32 = 0.05;

/// What a person says instead of having it guessed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    /// Noise inputs that are uniform on (−1, 1).
    pub uniform: Vec<String>,
    /// The class input.
    pub class_input: Option<String>,
    /// The output with the items.
    pub output: Option<String>,
    /// Order of a picture's axes.
    pub layout: Option<LayoutName>,
    /// What black and white are.
    pub range: Option<[f64; 2]>,
    /// Height, width and channels of the data's pictures: flat items of as many numbers are pictures too.
    pub picture: Option<[usize; 3]>,
}

impl Said {
    /// Sides of pictures that come out as so many numbers, in this order of axes.
    fn sides(&self, numbers: usize, layout: LayoutName) -> Option<Vec<usize>> {
        let [height, width, channels] = self.picture?;
        let sides = match layout {
            LayoutName::Nchw => vec![channels, height, width],
            LayoutName::Nhwc => vec![height, width, channels],
        };
        (sides.iter().product::<usize>() == numbers).then_some(sides)
    }
}

/// A generator that can go into a bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Probed {
    /// The file, with casts around it where it needed them.
    pub bytes: Vec<u8>,
    /// What goes in and out.
    pub entry: GeneratorEntry,
    /// What was decided, for people, a line each.
    pub decided: Vec<String>,
}

/// The bytes of a generator's file with the weights inside that it keeps in files beside it, as exporters of large
/// networks leave them.
pub fn with_weights(file: &Path, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    // What is no ONNX file is told by the look at it.
    let model = ModelProto::decode(bytes.as_slice()).ok();
    let Some(mut model) = model.filter(|model| !external_paths(model).is_empty()) else {
        return Ok(bytes);
    };
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut beside = |path: &str| {
        let found = inside(folder, path, "weights").and_then(|path| read(&path, MAX_NETWORK));
        found.map_err(|e| e.to_string())
    };
    let brought = with_weights_inside(&mut model, MAX_NETWORK, &mut beside);
    brought.map_err(|(path, why)| {
        Error::read(format!(
            "`{}` keeps weights in another file, `{path}`, which cannot be used: {why}\nhint: put that file beside it, or export the generator as one file",
            file.display()
        ))
    })?;
    Ok(model.encode_to_vec())
}

/// Looks at a generator for data with so many labels.
pub fn probe(
    file: &str,
    bytes: Vec<u8>,
    labels: usize,
    said: &Said,
    runtime: &Runtime,
) -> Result<Probed, Error> {
    let (bytes, model, mut decided) = plain(file, bytes)?;
    let ports = describe(&model);
    check_names(said, &ports.inputs, &ports.outputs)?;
    let class = class_input(&ports.inputs, labels, said)?;
    let latents = latents(&ports.inputs, class.as_ref(), said, &mut decided)?;
    if let Some(class) = &class {
        let form = match class.form {
            ClassForm::Index => "as a number",
            ClassForm::OneHot => "as a row with a single one",
        };
        decided.push(format!("class: input `{}`, {form}", class.input));
    }
    if let Some(batch) = fixed_batch(&ports.inputs) {
        decided.push(match batch {
            1 => "batch: the file makes one item at a time; a dynamic first axis would be faster"
                .to_owned(),
            batch => format!("batch: the file makes {batch} items at a time, always"),
        });
    }
    let output = output_name(&ports.outputs, said)?;
    let trial = Trial::run(
        file,
        &bytes,
        &latents,
        class.as_ref(),
        &output,
        &ports.inputs,
        runtime,
    )?;
    trial.check()?;
    let output = trial.item(&output, said, &mut decided)?;
    let entry = GeneratorEntry {
        file: "generator.onnx".to_owned(),
        sha256: sha256(&bytes),
        latents,
        class,
        output,
    };
    Ok(Probed {
        bytes,
        entry,
        decided,
    })
}

/// The file with plain element types.
fn plain(file: &str, bytes: Vec<u8>) -> Result<(Vec<u8>, ModelProto, Vec<String>), Error> {
    let broken = |why: String| Error::malformed(format!("`{file}` is no ONNX file: {why}"));
    if bytes.len() as u64 > MAX_NETWORK {
        return Err(broken(format!("it is larger than {MAX_NETWORK} bytes")));
    }
    let model = ModelProto::decode(bytes.as_slice()).map_err(|e| broken(e.to_string()))?;
    if model.graph.is_none() {
        return Err(broken("it holds no graph".to_owned()));
    }
    if let Some(path) = external_paths(&model).into_iter().next() {
        return Err(Error::unsupported(format!(
            "`{file}` keeps weights in another file, `{path}`\nhint: export it as one file"
        )));
    }
    Ok(match with_plain_types(&model) {
        None => (bytes, model, Vec::new()),
        Some(cast) => {
            let said =
                "element types: casts to 32-bit floats and 64-bit classes were put around the file";
            (cast.encode_to_vec(), cast, vec![said.to_owned()])
        }
    })
}

/// Names that a person gave must exist.
fn check_names(said: &Said, inputs: &[Port], outputs: &[Port]) -> Result<(), Error> {
    let check = |what, ports: &[Port], name: &String| {
        if ports.iter().any(|port| port.name == *name) {
            return Ok(());
        }
        Err(Error::not_found(format!(
            "the generator has no {what} `{name}`; it has {}",
            list(ports.iter().map(|port| &port.name))
        )))
    };
    let given = said.uniform.iter().chain(&said.class_input);
    given
        .into_iter()
        .try_for_each(|name| check("input", inputs, name))?;
    said.output
        .iter()
        .try_for_each(|name| check("output", outputs, name))
}

/// The class input, said or told by type and name.
fn class_input(inputs: &[Port], labels: usize, said: &Said) -> Result<Option<ClassEntry>, Error> {
    let entry = |port: &Port, form| ClassEntry {
        input: port.name.clone(),
        form,
        prior: vec![1.0 / labels.max(1) as f64; labels],
    };
    let form = |port: &Port| match port.element {
        PortElement::I64 => Some(ClassForm::Index),
        PortElement::F32 if sides(port).as_deref() == Some(&[labels]) => Some(ClassForm::OneHot),
        _ => None,
    };
    if let Some(name) = &said.class_input {
        let port = inputs.iter().find(|port| port.name == *name);
        let port = port.expect("names were checked");
        let form = form(port).ok_or_else(|| unusable_input(port))?;
        return Ok(Some(entry(port, form)));
    }
    let telling = |port: &&Port| match form(port) {
        Some(ClassForm::Index) => true,
        Some(ClassForm::OneHot) => CLASS_NAMES.contains(&port.name.to_lowercase().as_str()),
        None => false,
    };
    let found: Vec<&Port> = inputs.iter().filter(telling).collect();
    match found.as_slice() {
        [] => Ok(None),
        [port] => Ok(form(port).map(|form| entry(port, form))),
        many => Err(Error::setting(format!(
            "inputs {} could all be the class\nhint: say which with {}",
            list(many.iter().map(|port| &port.name)),
            Setting("class_input").to("NAME")
        ))),
    }
}

/// All other inputs are noise.
fn latents(
    inputs: &[Port],
    class: Option<&ClassEntry>,
    said: &Said,
    decided: &mut Vec<String>,
) -> Result<Vec<LatentEntry>, Error> {
    let mut latents = Vec::new();
    for port in inputs {
        if class.is_some_and(|class| class.input == port.name) {
            continue;
        }
        let shape = sides(port).filter(|_| port.element == PortElement::F32);
        let shape = shape.ok_or_else(|| unusable_input(port))?;
        let (prior, word) = if said.uniform.contains(&port.name) {
            (Prior::Uniform, "uniform on (-1, 1)")
        } else {
            (Prior::Normal, "standard normal")
        };
        decided.push(format!(
            "noise: input `{}` of shape {shape:?}, {word}",
            port.name
        ));
        latents.push(LatentEntry {
            input: port.name.clone(),
            shape,
            prior,
        });
    }
    if latents.is_empty() {
        return Err(Error::unsupported(
            "the generator takes no noise, so it makes one item only",
        ));
    }
    Ok(latents)
}

fn unusable_input(port: &Port) -> Error {
    Error::unsupported(format!(
        "input `{}` of the generator is {}; noise is 32-bit floats [n, …] with fixed sides, a class is whole numbers [n]\nhint: export the generator with fixed sides, and everything else as constants",
        port.name,
        in_words(port)
    ))
}

/// Of items that are neither images nor points.
fn unusable_shape(output: &str, shape: &[usize]) -> Error {
    Error::unsupported(format!(
        "output `{output}` gives items of shape {shape:?}; an image has a height, a width and 1 or 3 channels first or last, a point has one side\nhint: say {} if it is an image",
        Setting("layout").to("NCHW or NHWC")
    ))
}

fn output_name(outputs: &[Port], said: &Said) -> Result<String, Error> {
    match (&said.output, outputs) {
        (Some(name), _) => Ok(name.clone()),
        (None, [only]) => Ok(only.name.clone()),
        (None, many) => Err(Error::setting(format!(
            "the generator has outputs {}\nhint: say which holds the items with {}",
            list(many.iter().map(|port| &port.name)),
            Setting("output").to("NAME")
        ))),
    }
}

/// Items of a trial run.
struct Trial {
    /// Sides of one item.
    shape: Vec<usize>,
    values: Vec<f32>,
    items: usize,
}

impl Trial {
    fn run(
        file: &str,
        bytes: &[u8],
        latents: &[LatentEntry],
        class: Option<&ClassEntry>,
        output: &str,
        inputs: &[Port],
        runtime: &Runtime,
    ) -> Result<Self, Error> {
        let failed = |e: &ort::Error| failed(file, &reason(e));
        let part = Part::made(file, bytes.to_vec(), "", "");
        let mut stage = part.open(runtime, &RunSettings::default(), 1)?;
        let at_once = fixed_batch(inputs).unwrap_or(TRIAL_AT_ONCE);
        let mut trial = Self {
            shape: Vec::new(),
            values: Vec::new(),
            items: 0,
        };
        while trial.items < TRIAL {
            let numbers: Vec<u64> = (trial.items as u64..).take(at_once).collect();
            let mut given: Vec<(String, SessionInputValue<'_>)> = Vec::new();
            for (at, latent) in (0_u16..).zip(latents) {
                let noise = noise(at, latent, &numbers);
                let tensor = Tensor::from_array(noise).map_err(|e| failed(&e))?;
                given.push((latent.input.clone(), tensor.into()));
            }
            if let Some(class) = class {
                let tensor = classes(class, &numbers).map_err(|e| failed(&e))?;
                given.push((class.input.clone(), tensor));
            }
            let found = stage.session.run(given).map_err(|e| failed(&e))?;
            let found = found.get(output).map(DynValue::try_extract_tensor::<f32>);
            let (sides, values) = found
                .and_then(Result::ok)
                .ok_or_else(|| unusable_shape(output, &[]))?;
            let sides: Vec<usize> = sides
                .iter()
                .map(|&side| usize::try_from(side).unwrap_or(0))
                .collect();
            let wrong = sides.first() != Some(&at_once) || sides.contains(&0) || sides.len() < 2;
            if wrong {
                return Err(unusable_shape(output, &sides));
            }
            trial.shape = sides[1..].to_vec();
            trial.values.extend_from_slice(values);
            trial.items += at_once;
        }
        Ok(trial)
    }

    /// Refuses what is not numbers, and what is always the same.
    fn check(&self) -> Result<(), Error> {
        let size: usize = self.shape.iter().product();
        let rows = || self.values.chunks_exact(size);
        let bad = rows()
            .filter(|row| row.iter().any(|value| !value.is_finite()))
            .count();
        if bad > 0 {
            return Err(Error::network(format!(
                "the generator gave values that are not numbers, in {bad} of {} items of the trial run",
                self.items
            )));
        }
        let first = &self.values[..size];
        if self.items > 1 && rows().all(|row| row == first) {
            return Err(Error::unsupported(format!(
                "the generator gave the same item {} times, whatever noise it got",
                self.items
            )));
        }
        Ok(())
    }

    /// What an item is.
    fn item(&self, name: &str, said: &Said, decided: &mut Vec<String>) -> Result<ItemEntry, Error> {
        let point = |shape: Vec<usize>| ItemEntry {
            name: name.to_owned(),
            layout: None,
            shape,
            range: None,
            bits: None,
        };
        let (layout, shape) = match (said.layout, self.shape.as_slice()) {
            (Some(layout), [_, _, _]) => (layout, self.shape.clone()),
            (None, [1 | 3, _, _]) => (LayoutName::Nchw, self.shape.clone()),
            (None, [_, _, 1 | 3]) => (LayoutName::Nhwc, self.shape.clone()),
            (layout, &[numbers]) => {
                let layout = layout.unwrap_or(LayoutName::Nchw);
                let Some(shape) = said.sides(numbers, layout) else {
                    decided.push(format!("items: points of {numbers} numbers"));
                    return Ok(point(vec![numbers]));
                };
                (layout, shape)
            }
            (_, shape) => {
                return Err(unusable_shape(name, shape));
            }
        };
        let range = said.range.map_or_else(|| self.range(), Ok)?;
        let entry = ItemEntry {
            layout: Some(layout),
            range: Some(range),
            bits: Some(8),
            ..point(shape)
        };
        let size = entry
            .picture_size()
            .filter(|[_, _, channels]| [1, 3].contains(channels));
        let [height, width, channels] = size.ok_or_else(|| unusable_shape(name, &self.shape))?;
        let (taken, whence) = match self.shape.as_slice() {
            [numbers] => (
                format!("{numbers} numbers each, taken as "),
                ", as in the data",
            ),
            _ => (String::new(), ""),
        };
        decided.push(format!(
            "items: {taken}images of {height} by {width} pixels in {} ({layout}){whence}, values from {} to {}",
            in_words_of_colour(channels),
            range[0],
            range[1]
        ));
        Ok(entry)
    }

    /// The usual range that the values of the trial lie in.
    fn range(&self) -> Result<[f64; 2], Error> {
        let low = self.values.iter().copied().fold(f32::INFINITY, f32::min);
        let high = self
            .values
            .iter()
            .copied()
            .fold(f32::NEG_INFINITY, f32::max);
        let within = |range: [f32; 2]| {
            let slack = SLACK * (range[1] - range[0]);
            low >= range[0] - slack && high <= range[1] + slack
        };
        // Below zero by more than rounding: not a range that starts at zero.
        if low >= -SLACK && within([0.0, 1.0]) {
            Ok([0.0, 1.0])
        } else if within([-1.0, 1.0]) {
            Ok([-1.0, 1.0])
        } else if low >= -SLACK && high > 2.0 && within([0.0, 255.0]) {
            Ok([0.0, 255.0])
        } else {
            Err(Error::unsupported(format!(
                "images of the trial run have values from {low} to {high}, which is no usual range\nhint: say what black and white are with {}",
                Setting("range").to("LOW,HIGH")
            )))
        }
    }
}

/// The batch for which a file was exported, if that is fixed and can be held.
fn fixed_batch(inputs: &[Port]) -> Option<usize> {
    let fixed = inputs
        .iter()
        .find_map(|port| *port.dims.as_ref()?.first()?)?;
    let fixed = usize::try_from(fixed).ok();
    fixed.filter(|batch| (1..=1 << 16).contains(batch))
}

/// Latents of the trial run for one input, with their sides.
fn noise(at: u16, latent: &LatentEntry, numbers: &[u64]) -> (Vec<usize>, Vec<f32>) {
    let mut noise = vec![0.0; numbers.len() * latent.size()];
    let source = LatentSource {
        proposals: Proposals::new(0).at_stage(streams::TRIAL),
        mixture: None,
        input: at,
        prior: latent.prior,
        size: latent.size(),
    };
    source.fill(numbers, &mut noise);
    let sides = std::iter::once(numbers.len()).chain(latent.shape.iter().copied());
    (sides.collect(), noise)
}

/// Classes of the trial run, in turns.
fn classes(class: &ClassEntry, numbers: &[u64]) -> Result<SessionInputValue<'static>, ort::Error> {
    let (items, count) = (numbers.len(), class.prior.len().max(1));
    let of = numbers.iter().map(|&number| number as usize % count);
    Ok(match class.form {
        ClassForm::Index => {
            let classes: Vec<i64> = of.map(|class| class as i64).collect();
            Tensor::from_array(([items], classes))?.into()
        }
        ClassForm::OneHot => {
            let mut rows = vec![0.0_f32; items * count];
            for (row, class) in rows.chunks_exact_mut(count).zip(of) {
                row[class] = 1.0;
            }
            Tensor::from_array(([items, count], rows))?.into()
        }
    })
}

/// How many channels a picture has, in words.
pub fn in_words_of_colour(channels: usize) -> &'static str {
    if channels == 1 { "grey" } else { "colour" }
}

#[cfg(test)]
mod tests;
