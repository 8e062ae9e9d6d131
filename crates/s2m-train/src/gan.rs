//! `gan`: trains generators by one objective, for all data sets and seeds of a run file at once.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use s2m_data::recipe::{DataRecipe, Loaded};
use s2m_model::bundle::sha256;
use s2m_model::manifest::{
    ClassEntry, ClassForm, GeneratorEntry, ItemEntry, LatentEntry, LayoutName, Prior,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tch::{Device, Kind, Tensor};

use s2m_model::runtime::Runtime;

use crate::checkpoint::Checkpoint;
use crate::device::{Machine, Precision};
use crate::export::{self, Input};
use crate::feed::Feed;
use crate::folder::{RunFolder, write_whole};
use crate::noise::{self, Draws, Needs, Purpose};
use crate::objectives::{Code, NetworkSettings, Objective, ObjectiveSettings, Output, Setup};
use crate::optimizer::OptimizerSettings;
use crate::replica::{self, Replica, is_picture, titles};
use crate::shown;
use crate::trained::Trained;
use crate::training::{self, Plan, Work};

/// A run file of `gan`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GanSettings {
    pub seeds: Vec<u64>,
    /// Generator steps.
    pub steps: u64,
    pub batch: i64,
    #[serde(default)]
    pub precision: Precision,
    /// Decay of the average of the generator's weights; 0 exports the last weights.
    #[serde(default)]
    pub ema: f64,
    #[serde(default = "every_10000")]
    pub checkpoint_every: u64,
    #[serde(default = "every_1000")]
    pub log_every: u64,
    #[serde(default = "every_10000")]
    pub grid_every: u64,
    pub objective: ObjectiveSettings,
    pub optimizer: OptimizerSettings,
    pub network: NetworkSettings,
    pub data: Vec<DataRecipe>,
}

fn every_10000() -> u64 {
    10_000
}

fn every_1000() -> u64 {
    1000
}

/// The finished generators of all replicas.
pub const WEIGHTS: &str = "generator.safetensors";

/// Items on a sample grid, and latents in an export's check.
const SHOWN: i64 = 64;
const SHOWN_POINTS: i64 = 4096;

impl GanSettings {
    pub fn replicas(&self) -> Vec<Replica> {
        replica::replicas(&self.data, &self.seeds)
    }

    pub fn check(&self) -> Result<()> {
        let distinct: std::collections::BTreeSet<_> = self.seeds.iter().collect();
        ensure!(
            !self.seeds.is_empty() && distinct.len() == self.seeds.len(),
            "`seeds` must be a list of different seeds"
        );
        for (name, value) in [
            ("batch", self.batch),
            ("network.latent", self.network.latent),
        ] {
            ensure!(
                (1..=1 << 20).contains(&value),
                "`{name}` is {value}; it must be from 1 to 1048576"
            );
        }
        ensure!(self.grid_every > 0, "`grid-every` must be above 0");
        self.objective.check()?;
        let critic_steps = self.objective.critic_steps().unsigned_abs();
        self.optimizer
            .check(self.steps.saturating_mul(critic_steps))?;
        ensure!(
            !self.network.hidden.is_empty()
                && self
                    .network
                    .hidden
                    .iter()
                    .all(|side| (1..=1 << 16).contains(side)),
            "`network.hidden` must list layers of 1 to 65536 units"
        );
        ensure!(
            (0.0..1.0).contains(&self.ema),
            "`ema` is {}; it must be from 0 to below 1",
            self.ema
        );
        Ok(())
    }
}

/// The shape of items, as bundles state it.
pub fn item_entry(loaded: &Loaded, name: &str, bits: bool) -> ItemEntry {
    let items = &loaded.train.items;
    let picture = is_picture(items);
    ItemEntry {
        name: name.to_owned(),
        layout: picture.then_some(LayoutName::Nchw),
        shape: items.shape.clone(),
        range: picture.then_some([-1.0, 1.0]),
        bits: (picture && bits).then_some(8),
    }
}

/// The objective of a run with its first weights.
pub fn objective(
    settings: &GanSettings,
    loaded: &[Loaded],
    device: Device,
) -> Result<Box<dyn Objective>> {
    let replicas = settings.replicas();
    let keys: Vec<u64> = replicas.iter().map(Replica::key).collect();
    let items = &loaded[0].train.items;
    settings.objective.build(&Setup {
        keys: &keys,
        network: &settings.network,
        optimizer: settings.optimizer,
        steps: settings.steps,
        critic_steps: settings.objective.critic_steps().unsigned_abs(),
        batch: settings.batch,
        ema: settings.ema,
        size: items.item_size() as i64,
        picture: is_picture(items),
        labels: loaded[0].train.labels.len() as i64,
        device,
    })
}

/// Trains, resuming where the folder's checkpoint stands, and exports every replica's generators.
pub fn train(settings: &GanSettings, out: &Path, machine: &Machine) -> Result<()> {
    settings.check()?;
    let folder = RunFolder::open(out, settings)?;
    if folder.finished() {
        return Ok(());
    }
    let loaded = replica::load(&settings.data)?;
    let replicas = settings.replicas();
    let keys: Vec<u64> = replicas.iter().map(Replica::key).collect();
    let plan = Plan {
        what: "generator",
        steps: settings.steps,
        log_every: settings.log_every,
        checkpoint_every: settings.checkpoint_every,
        replicas: &replicas,
        keys: &keys,
        origin: "",
    };
    plan.check()?;
    ensure!(
        settings.precision != Precision::Bf16,
        "`precision` is `bf16`, which generators do not have\nhint: precision = \"tf32\""
    );
    machine.set(settings.precision)?;
    let mut game = Game {
        settings,
        objective: objective(settings, &loaded, machine.device)?,
        feed: Feed::training(&loaded, &replicas, machine.device)?,
        folder: &folder,
        loaded: &loaded,
        replicas: &replicas,
    };
    folder.claim(settings)?;
    let taken = training::run(&mut game, &plan, &folder, machine)?;
    machine.set(Precision::Float32)?;
    let outputs = game.objective.outputs();
    let difference = export_all(&machine.runtime, &folder, &loaded, &replicas, &outputs)?;
    let summary = json!({
        "steps": taken.steps,
        "seconds": taken.seconds,
        "steps_per_second": taken.steps as f64 / taken.seconds,
        "replicas": replicas.len(),
        "device": machine.name(),
    });
    folder.finish(difference, summary)
}

/// A GAN in training.
struct Game<'a> {
    settings: &'a GanSettings,
    objective: Box<dyn Objective>,
    feed: Feed,
    folder: &'a RunFolder,
    loaded: &'a [Loaded],
    replicas: &'a [Replica],
}

impl Work for Game<'_> {
    fn needs(&self) -> Needs {
        self.objective.needs()
    }

    fn losses(&self) -> &'static [&'static str] {
        self.objective.losses()
    }

    fn step(&mut self, _at: u64, draws: &mut Draws) -> Tensor {
        self.objective.step(&self.feed, draws)
    }

    fn members(&mut self) -> Vec<&mut Trained> {
        self.objective.members()
    }

    fn show(&mut self, done: u64, last: bool) -> Result<()> {
        if done.is_multiple_of(self.settings.grid_every) || last {
            let output = &self.objective.outputs()[0];
            show(self.folder, self.replicas, output, self.loaded, done)?;
        }
        Ok(())
    }
}

/// The latents that are shown, the same at every step: `[replicas, count, latent]`.
fn shown_latents(replicas: &[Replica], count: i64, output: &Output) -> Tensor {
    let device = output.weights.flat().device();
    let latent = output.network.latent;
    let keys: Vec<u64> = replicas
        .iter()
        .map(|replica| noise::key(replica.key(), Purpose::Shown, ""))
        .collect();
    let pairs = (count * latent + 1) / 2;
    noise::normal(&keys, 0, pairs, device)
        .narrow(1, 0, count * latent)
        .reshape([-1, count, latent])
}

/// Classes in turn, for generators that take one.
fn turns(replicas: usize, count: i64, output: &Output) -> Tensor {
    let options = (Kind::Int64, output.weights.flat().device());
    Tensor::arange(count, options)
        .remainder(output.network.codes.max(1))
        .expand([replicas as i64, count], false)
}

fn show(
    folder: &RunFolder,
    replicas: &[Replica],
    output: &Output,
    loaded: &[Loaded],
    step: u64,
) -> Result<()> {
    let picture = is_picture(&loaded[0].train.items);
    let count = if picture { SHOWN } else { SHOWN_POINTS };
    let latents = shown_latents(replicas, count, output);
    let items = output.items(&latents, &turns(replicas.len(), count, output));
    let shape = &loaded[0].train.items.shape;
    for (at, replica) in replicas.iter().enumerate() {
        let items =
            Vec::<f32>::try_from(items.get(at as i64).to_device(Device::Cpu).reshape([-1]))?;
        let name = format!("grids/{}-seed-{}/{step:08}.png", replica.name, replica.seed);
        shown::write(&folder.join(&name), &items, shape)?;
    }
    Ok(())
}

/// Writes every generator of every replica; returns the largest difference from libtorch.
fn export_all(
    runtime: &Runtime,
    folder: &RunFolder,
    loaded: &[Loaded],
    replicas: &[Replica],
    outputs: &[Output],
) -> Result<f64> {
    let mut largest = 0.0_f64;
    let networks = outputs.iter().map(|output| (output.file, &output.weights));
    Checkpoint::of_finished(networks, &titles(replicas)).write(&folder.join(WEIGHTS))?;
    for output in outputs {
        let latents = shown_latents(replicas, SHOWN, output);
        let classes = turns(replicas.len(), SHOWN, output);
        let items = output.items(&latents, &classes);
        for (at, replica) in replicas.iter().enumerate() {
            let data = &loaded[replica.data];
            let (file, entry) = file_of(output, at, data)?;
            let row = at as i64;
            let z = latents.get(row);
            let c = classes.get(row);
            let mut inputs = vec![Input {
                name: "z",
                rows: &z,
            }];
            if output.code == Code::Class {
                inputs.push(Input {
                    name: "c",
                    rows: &c,
                });
            }
            let difference = export::check(runtime, &file, &inputs, &[("x", &items.get(row))])
                .with_context(|| format!("{} of {}", output.file, replica.title()))?;
            largest = largest.max(difference);
            let base = format!("{}/{}", replica.title(), output.file);
            write_whole(&folder.join(&format!("{base}.onnx")), &file)?;
            write_whole(
                &folder.join(&format!("{base}.toml")),
                toml::to_string(&entry)?.as_bytes(),
            )?;
        }
    }
    Ok(largest)
}

/// One generator as a file, and what a bundle says about it.
pub fn file_of(
    output: &Output,
    replica: usize,
    data: &Loaded,
) -> Result<(Vec<u8>, GeneratorEntry)> {
    let weights = output.weights.replica(replica)?;
    let shape = &data.train.items.shape;
    let file = match &output.code {
        Code::None | Code::Class => output.network.onnx_by_class(&weights, shape)?,
        Code::Fixed(code) => output.network.onnx_with_code(&weights, code, shape)?,
    };
    let class = (output.code == Code::Class).then(|| ClassEntry {
        input: "c".to_owned(),
        form: ClassForm::Index,
        prior: data.observed.clone(),
    });
    let entry = GeneratorEntry {
        file: format!("{}.onnx", output.file),
        sha256: sha256(&file),
        latents: vec![LatentEntry {
            input: "z".to_owned(),
            shape: vec![output.network.latent as usize],
            prior: Prior::Normal,
        }],
        class,
        output: item_entry(data, "x", true),
    };
    Ok((file, entry))
}
