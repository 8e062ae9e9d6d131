//! `gan`: trains generators by one objective, for all data sets and seeds of a run file at once.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use s2m_data::recipe::{DataRecipe, Loaded};
use s2m_model::bundle::sha256;
use s2m_model::manifest::{
    ClassEntry, ClassForm, GeneratorEntry, ItemEntry, LatentEntry, LayoutName, Prior,
};
use s2m_runs::parts::OptimizerSettings;
use s2m_runs::parts::Precision;
use s2m_runs::parts::Stored;
use serde::{Deserialize, Serialize};
use tch::{Device, Kind, Tensor};

use s2m_model::runtime::Runtime;
use s2m_runs::Done;
use s2m_runs::folder::{CLASSES, WEIGHTS};

use crate::checkpoint::{Checkpoint, Form};
use crate::device::Machine;
use crate::export::{self, Input};
use crate::feed::Feed;
use crate::folder::{RunFolder, write_whole};
use crate::joint_classes;
use crate::noise::{self, Draws, Needs, Purpose};
use crate::objectives::hinge::regularise::Regularise;
use crate::objectives::{Code, NetworkSettings, Objective, ObjectiveSettings, Output, Setup};
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
    /// Steps before the average begins; until then it is the weights themselves.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ema_from: u64,
    /// Shows the joint class of every item in the place of one label.
    #[serde(default, skip_serializing_if = "is_false")]
    pub oracle: bool,
    /// How weights lie in `generator.onnx`.
    #[serde(default, skip_serializing_if = "Stored::is_default")]
    pub stored: Stored,
    #[serde(default = "every_10000")]
    pub checkpoint_every: u64,
    #[serde(default = "every_1000")]
    pub log_every: u64,
    #[serde(default = "every_10000")]
    pub grid_every: u64,
    /// Steps between generators that are kept beside the finished one; none where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_every: Option<u64>,
    pub objective: ObjectiveSettings,
    pub optimizer: OptimizerSettings,
    /// Of the critics, where they have another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critic_optimizer: Option<OptimizerSettings>,
    pub network: NetworkSettings,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regularise: Option<Regularise>,
    #[serde(default, skip_serializing_if = "Form::is_default")]
    pub checkpoint: Form,
    pub data: Vec<DataRecipe>,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(key: &bool) -> bool {
    !key
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(steps: &u64) -> bool {
    *steps == 0
}

fn every_10000() -> u64 {
    10_000
}

fn every_1000() -> u64 {
    1000
}

/// Folder of generators that are kept on the way.
const KEPT: &str = "steps";

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
        ensure!(
            (1..=1 << 20).contains(&self.batch),
            "`batch` is {}; it must be from 1 to 1048576",
            self.batch
        );
        ensure!(self.grid_every > 0, "`grid-every` must be above 0");
        ensure!(
            self.keep_every != Some(0),
            "`keep-every` must be above 0\nhint: leave it out to keep the finished generator alone"
        );
        self.objective.check()?;
        let critic_steps = self.objective.critic_steps().unsigned_abs();
        let steps = self.steps.saturating_mul(critic_steps);
        for optimizer in self.optimizers() {
            optimizer.check(steps)?;
        }
        self.network.check()?;
        self.check_pairs()?;
        ensure!(
            (0.0..1.0).contains(&self.ema),
            "`ema` is {}; it must be from 0 to below 1",
            self.ema
        );
        Ok(())
    }

    /// The generator's optimiser, and the critic's where it has another.
    fn optimizers(&self) -> impl Iterator<Item = OptimizerSettings> {
        std::iter::once(self.optimizer).chain(self.critic_optimizer)
    }

    /// Refuses settings that do not go together.
    fn check_pairs(&self) -> Result<()> {
        let biggan = matches!(self.network, NetworkSettings::BigGan(_));
        ensure!(
            biggan || self.precision != Precision::Bf16,
            "`precision` is `bf16`, which generators of fully connected layers do not have\nhint: precision = \"tf32\""
        );
        if let Some(regularise) = &self.regularise {
            ensure!(
                biggan,
                "`regularise` is for hinge objectives, and `network` states no BigGAN\nhint: remove `regularise`"
            );
            regularise.check()?;
        }
        for optimizer in self.optimizers() {
            ensure!(
                self.checkpoint.optimizer || optimizer.is_constant(),
                "`checkpoint.optimizer` is false: an optimiser that starts again cannot follow a schedule or a warm-up\nhint: schedule = \"constant\" without `warm-up`, or leave `checkpoint` out"
            );
        }
        ensure!(
            !self.oracle || self.objective.conditional(),
            "`oracle` shows joint classes, and this objective is shown none\nhint: `hinge-projection`, `hinge-ac-gan` or `hinge-cp-gan`"
        );
        Ok(())
    }

    /// The data of the run, as its objective is shown it.
    pub fn load(&self) -> Result<Vec<Loaded>> {
        let loaded = replica::load(&self.data)?;
        if !self.oracle {
            return Ok(loaded);
        }
        let shown: Vec<Loaded> = loaded
            .into_iter()
            .map(joint_classes::shown)
            .collect::<Result<_>>()?;
        let classes = &shown[0].train.labels;
        ensure!(
            shown.iter().all(|other| other.train.labels == *classes),
            "the data sets have different joint classes, so no oracle is shown both\nhint: put them into two run files"
        );
        Ok(shown)
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
    // An oracle's classes are the joint ones already.
    let joint = if settings.oracle {
        Vec::new()
    } else {
        joint_classes::codes(&loaded[0])
    };
    settings.objective.build(&Setup {
        keys: &keys,
        network: &settings.network,
        optimizer: settings.optimizer,
        critic_optimizer: settings.critic_optimizer,
        precision: settings.precision,
        regularise: &settings.regularise.clone().unwrap_or_default(),
        steps: settings.steps,
        critic_steps: settings.objective.critic_steps().unsigned_abs(),
        batch: settings.batch,
        ema: settings.ema,
        ema_from: settings.ema_from,
        shape: &items.shape,
        joint: &joint,
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
    let loaded = settings.load()?;
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
        form: settings.checkpoint,
        follows: 0.0,
    };
    plan.check()?;
    machine.set(settings.precision)?;
    if let NetworkSettings::BigGan(_) = settings.network {
        // Shapes never change within a run, so the fastest convolutions are worth looking for.
        tch::Cuda::cudnn_set_benchmark(true);
    }
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
    tch::Cuda::cudnn_set_benchmark(false);
    machine.set(Precision::Float32)?;
    let outputs = game.outputs();
    let difference = export_all(
        &machine.runtime,
        &folder,
        (settings, &loaded),
        &replicas,
        &outputs,
    )?;
    let done = Done::new(replicas.len(), (taken.steps, taken.seconds), machine.name());
    folder.finish_within(export::limit(settings.stored), difference, done)
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

impl Game<'_> {
    /// Finished generators, as they are exported.
    fn outputs(&self) -> Vec<Output> {
        let mut outputs = self.objective.outputs();
        self.objective.settle(&mut outputs, &self.feed);
        outputs
    }

    /// Writes the generators as they are now, under the number of the step.
    fn keep(&self, step: u64) -> Result<()> {
        let output = &self.outputs()[0];
        for (at, replica) in self.replicas.iter().enumerate() {
            let data = &self.loaded[replica.data];
            let (file, entry) = file_of(output, at, data, self.settings.stored)?;
            let base = format!("{}/{KEPT}/{step:08}/{}", replica.title(), output.file);
            write_whole(&self.folder.join(&format!("{base}.onnx")), &file)?;
            let entry = toml::to_string(&entry)?;
            write_whole(&self.folder.join(&format!("{base}.toml")), entry.as_bytes())?;
        }
        Ok(())
    }
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
            let output = &self.outputs()[0];
            show(self.folder, self.replicas, output, self.loaded, done)?;
        }
        if self
            .settings
            .keep_every
            .is_some_and(|every| done.is_multiple_of(every))
        {
            self.keep(done)?;
        }
        Ok(())
    }
}

/// The latents that are shown, the same at every step: `[replicas, count, latent]`.
fn shown_latents(replicas: &[Replica], count: i64, output: &Output) -> Tensor {
    let device = output.weights.flat().device();
    let latent = output.network.latent();
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
        .remainder(output.classes().unwrap_or(1))
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
    (settings, loaded): (&GanSettings, &[Loaded]),
    replicas: &[Replica],
    outputs: &[Output],
) -> Result<f64> {
    let mut largest = 0.0_f64;
    let networks = outputs.iter().map(|output| (output.file, &output.weights));
    Checkpoint::of_finished(networks, &titles(replicas)).write(&folder.join(WEIGHTS))?;
    for replica in replicas {
        let names = class_names(outputs, &loaded[replica.data]);
        if !names.is_empty() {
            folder.write_json(&format!("{}/{CLASSES}", replica.title()), &names)?;
        }
    }
    for output in outputs {
        let latents = shown_latents(replicas, SHOWN, output);
        let classes = turns(replicas.len(), SHOWN, output);
        let items = output.items(&latents, &classes);
        for (at, replica) in replicas.iter().enumerate() {
            let data = &loaded[replica.data];
            let (file, entry) = file_of(output, at, data, settings.stored)?;
            let row = at as i64;
            let z = latents.get(row);
            let c = classes.get(row);
            let mut inputs = vec![Input {
                name: "z",
                rows: &z,
            }];
            if output.classes().is_some() {
                inputs.push(Input {
                    name: "c",
                    rows: &c,
                });
            }
            let difference = export::check_within(
                export::limit(settings.stored),
                runtime,
                &file,
                &inputs,
                &[("x", &items.get(row))],
            )
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

/// What the numbers of classes mean, for every file that takes one.
fn class_names(outputs: &[Output], data: &Loaded) -> BTreeMap<&'static str, Vec<String>> {
    let names = |output: &Output| match &output.code {
        Code::None | Code::Fixed(_) => None,
        Code::Class => Some(data.train.labels.names().map(str::to_owned).collect()),
        Code::Rows(_) => Some(joint_classes::names(data)),
    };
    let pair = |output: &Output| Some((output.file, names(output)?));
    outputs.iter().filter_map(pair).collect()
}

/// One generator as a file, and what a bundle says about it.
pub fn file_of(
    output: &Output,
    replica: usize,
    data: &Loaded,
    stored: Stored,
) -> Result<(Vec<u8>, GeneratorEntry)> {
    let weights = output.weights.replica(replica)?;
    let shape = &data.train.items.shape;
    let file = export::stored(stored, output.network.onnx(&weights, &output.code, shape)?)?;
    let prior = match &output.code {
        Code::None | Code::Fixed(_) => None,
        Code::Class => Some(data.observed.clone()),
        Code::Rows(_) => Some(joint_classes::shares(data)),
    };
    let class = prior.map(|prior| ClassEntry {
        input: "c".to_owned(),
        form: ClassForm::Index,
        prior,
    });
    let entry = GeneratorEntry {
        file: format!("{}.onnx", output.file),
        sha256: sha256(&file),
        latents: vec![LatentEntry {
            input: "z".to_owned(),
            shape: vec![output.network.latent() as usize],
            prior: Prior::Normal,
        }],
        class,
        output: item_entry(data, "x", true),
    };
    Ok((file, entry))
}
