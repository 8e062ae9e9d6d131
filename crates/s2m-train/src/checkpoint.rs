//! Checkpoints: all networks of a run with their optimisers, in one safetensors file.
//!
//! ```text
//! generator.layers.0.weight      [replicas, …]     weights and running statistics, named as in the network
//! generator/first, …/second      [replicas, size]  the optimiser's memory
//! generator/average              [replicas, size]  the running average
//! ```
//!
//! Where a run file asks for it, weights and averages lie in 16 bits and the optimiser's memory is left out; a run
//! that goes on from such a file starts its optimisers again, and is another run from there.
//!
//! Metadata: how far the training is, which replicas it holds, the steps of each optimiser, and a checksum over all of it.
//! A file appears whole or not at all.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use s2m_model::disk::{crc32, read_plain};
use s2m_runs::gan::Form;
use s2m_runs::parts::Stored;
use safetensors::tensor::{Dtype, SafeTensors, TensorInfo, TensorView};
use serde_json::json;
use tch::{Device, Kind, Tensor};

use crate::folder::write_whole;
use crate::parameters::{Parameters, Spec};
use crate::trained::Trained;

/// Largest number of 16 bits.
const HALF_MOST: f64 = 65_504.0;

/// File name inside a run's folder.
pub use s2m_runs::folder::CHECKPOINT as FILE;

/// Tensors and facts of one file.
pub struct Checkpoint {
    tensors: HashMap<String, Tensor>,
    facts: HashMap<String, String>,
    stored: Stored,
}

/// The fact about an optimiser that starts again.
const FRESH: &str = "fresh";

/// The fact that is the checksum of all else; files from before there was one are read without.
const CHECKSUM: &str = "crc32";

/// Last words of all facts in files without a checksum.
const OLD_FACTS: [&str; 5] = ["step", "seconds", "replicas", "origin", "best"];

const CHANGED: &str = "it has changed since it was written";

/// Where a safetensors file keeps what is no tensor.
const FACTS: &str = "__metadata__";

/// Shape of every tensor in a file, and where its bytes begin.
type Places = BTreeMap<String, (Vec<usize>, usize)>;

/// Checksum of a file's facts, of its tensors' places and of all numbers.
fn checksum(facts: &BTreeMap<String, String>, places: &Places, data: &[u8]) -> String {
    let said = format!("{facts:?} {places:?}");
    format!("{:08x}", crc32(&[said.as_bytes(), data]))
}

impl Checkpoint {
    /// Networks in training, and facts about the training.
    pub fn of(members: &mut [&mut Trained], facts: &[(&str, String)], form: Form) -> Self {
        let mut tensors = HashMap::new();
        let mut facts: HashMap<String, String> = facts
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        for member in members {
            let name = member.name;
            for (spec, view) in member
                .parameters
                .specs()
                .iter()
                .zip(member.parameters.views())
            {
                tensors.insert(format!("{name}.{}", spec.name), view.detach());
            }
            if let Some(average) = &member.average {
                tensors.insert(format!("{name}/average"), average.flat().shallow_clone());
            }
            if !form.optimizer {
                facts.insert(format!("{name}/step"), FRESH.to_owned());
                continue;
            }
            facts.insert(format!("{name}/step"), member.optimizer.step().to_string());
            for (kind, memory) in member.optimizer.memory() {
                tensors.insert(format!("{name}/{kind}"), memory.shallow_clone());
            }
        }
        Self {
            tensors,
            facts,
            stored: form.stored,
        }
    }

    /// Finished networks, without what training needs.
    pub fn of_finished<'a>(
        networks: impl Iterator<Item = (&'a str, &'a Parameters)>,
        replicas: &str,
    ) -> Self {
        let mut tensors = HashMap::new();
        for (name, parameters) in networks {
            for (spec, view) in parameters.specs().iter().zip(parameters.views()) {
                tensors.insert(format!("{name}.{}", spec.name), view.detach());
            }
        }
        Self {
            tensors,
            facts: HashMap::from([("replicas".to_owned(), replicas.to_owned())]),
            stored: Stored::Float32,
        }
    }

    /// Says something more about itself.
    #[must_use]
    pub fn with_fact(mut self, name: &str, value: String) -> Self {
        self.facts.insert(name.to_owned(), value);
        self
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        let bytes = |tensor: &Tensor| -> Result<Vec<u8>> {
            let flat = tensor.to_device(Device::Cpu).contiguous().view(-1);
            Ok(match self.stored {
                Stored::Float32 => {
                    let values = Vec::<f32>::try_from(flat)?;
                    values.iter().flat_map(|v| v.to_le_bytes()).collect()
                }
                Stored::Half => {
                    // Numbers beyond 16 bits end at the largest; weights never come near it.
                    let halves = flat.clamp(-HALF_MOST, HALF_MOST).to_kind(Kind::Half);
                    let mut bytes = vec![0; 2 * halves.numel()];
                    halves.copy_data_u8(&mut bytes, halves.numel());
                    bytes
                }
            })
        };
        let kind = match self.stored {
            Stored::Float32 => "F32",
            Stored::Half => "F16",
        };
        let mut tensors: Vec<(&String, &Tensor)> = self.tensors.iter().collect();
        tensors.sort_by_key(|(name, _)| *name);
        let (mut header, mut places) = (BTreeMap::new(), Places::new());
        let mut data = Vec::new();
        for (name, tensor) in tensors {
            let first = data.len();
            data.extend(bytes(tensor)?);
            let shape: Vec<usize> = tensor.size().iter().map(|&side| side as usize).collect();
            let range = [first, data.len()];
            let entry = json!({ "dtype": kind, "shape": shape, "data_offsets": range });
            header.insert(name.as_str(), entry);
            places.insert(name.clone(), (shape, first));
        }
        let mut facts: BTreeMap<String, String> = self.facts.clone().into_iter().collect();
        facts.insert(CHECKSUM.to_owned(), checksum(&facts, &places, &data));
        header.insert(FACTS, json!(facts));
        // Facts in order, which the library does not promise: the same training gives the same bytes.
        let mut header = serde_json::to_vec(&header)?;
        header.resize(header.len().next_multiple_of(size_of::<u64>()), b' ');
        let length = (header.len() as u64).to_le_bytes();
        write_whole(path, &[&length[..], &header, &data].concat())
    }

    pub fn read(path: &Path) -> Result<Self> {
        let read = || -> Result<Self> {
            let bytes = read_plain(path)?;
            let (length, header) = SafeTensors::read_metadata(&bytes)?;
            let file = SafeTensors::deserialize(&bytes)?;
            let mut facts = header.metadata().clone().unwrap_or_default();
            if let Some(noted) = facts.remove(CHECKSUM) {
                let place = |(name, info): (String, &TensorInfo)| {
                    (name, (info.shape.clone(), info.data_offsets.0))
                };
                let places = header.tensors().into_iter().map(place).collect();
                let data = &bytes[size_of::<u64>() + length..];
                let found = checksum(&facts.clone().into_iter().collect(), &places, data);
                ensure!(noted == found, CHANGED);
            } else {
                // An unknown fact may be a checksum whose name was damaged.
                let known = |name: &String| OLD_FACTS.iter().any(|fact| name.ends_with(fact));
                ensure!(facts.keys().all(known), CHANGED);
            }
            let tensor = |(name, view): (String, TensorView<'_>)| {
                let shape: Vec<i64> = view.shape().iter().map(|&side| side as i64).collect();
                let kind = match view.dtype() {
                    Dtype::F32 => Kind::Float,
                    Dtype::F16 => Kind::Half,
                    other => bail!("`{name}` is of {other:?}, which is no kind of a checkpoint"),
                };
                let tensor = Tensor::f_from_data_size(view.data(), &shape, kind)?;
                Ok((name, tensor.to_kind(Kind::Float)))
            };
            Ok(Self {
                tensors: file
                    .tensors()
                    .into_iter()
                    .map(tensor)
                    .collect::<Result<_>>()?,
                facts,
                stored: Stored::Float32,
            })
        };
        read().with_context(|| {
            format!(
                "checkpoint `{}` cannot be read\nhint: remove it to start again",
                path.display()
            )
        })
    }

    /// Whether it has the numbers of another, and says what that says.
    pub fn holds(&self, other: &Self) -> bool {
        let said = |(name, fact)| self.facts.get(name) == Some(fact);
        self.tensors == other.tensors && other.facts.iter().all(said)
    }

    /// What the file says about itself under a name.
    pub fn fact(&self, name: &str) -> Result<&str> {
        let fact = self.facts.get(name).map(String::as_str);
        fact.with_context(|| format!("the checkpoint does not say `{name}`"))
    }

    fn tensor(&self, name: &str, shape: &[i64]) -> Result<&Tensor> {
        let tensor = self
            .tensors
            .get(name)
            .with_context(|| format!("the checkpoint has no tensor `{name}`"))?;
        ensure!(
            tensor.size() == shape,
            "tensor `{name}` of the checkpoint has shape {:?} where the run file asks for {shape:?}",
            tensor.size()
        );
        Ok(tensor)
    }

    /// Weights and statistics of one network, in the order of its specs.
    fn network(&self, network: &str, specs: &[Spec], replicas: i64) -> Result<Vec<&Tensor>> {
        let part = |spec: &Spec| {
            let name = format!("{network}.{}", spec.name);
            self.tensor(&name, &spec.for_replicas(replicas))
        };
        specs.iter().map(part).collect()
    }

    /// Puts everything back where [`Checkpoint::of`] took it.
    pub fn restore(&self, members: &mut [&mut Trained]) -> Result<()> {
        for member in members {
            let name = member.name;
            let shape = member.parameters.flat().size();
            let tensors = self.network(name, member.parameters.specs(), shape[0])?;
            member.parameters.set_all(&tensors);
            if let Some(average) = &mut member.average {
                average.set(self.tensor(&format!("{name}/average"), &shape)?);
            }
            let taken = self.fact(&format!("{name}/step"))?;
            if taken == FRESH {
                continue;
            }
            let taken: u64 = taken.parse()?;
            member.optimizer.set_step(taken.min(1 << 40));
            for (kind, memory) in member.optimizer.memory() {
                memory.copy_(self.tensor(&format!("{name}/{kind}"), &shape)?);
            }
        }
        Ok(())
    }

    /// A finished network: its average where there is one.
    pub fn finished(&self, network: &str, specs: Vec<Spec>, device: Device) -> Result<Parameters> {
        let replicas = self.fact("replicas")?.lines().count() as i64;
        let tensors: Vec<Tensor> = self
            .network(network, &specs, replicas)?
            .into_iter()
            .map(|tensor| tensor.to_kind(Kind::Float).to_device(device))
            .collect();
        let mut parameters = Parameters::from_tensors(specs, &tensors);
        let average = format!("{network}/average");
        if self.tensors.contains_key(&average) {
            let shape = parameters.flat().size();
            parameters.set(self.tensor(&average, &shape)?);
        }
        Ok(parameters)
    }
}
