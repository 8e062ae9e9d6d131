//! `gan`: trains generators by one objective, for all data sets and seeds of a run file at once.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use s2m_core::streams::training::UNNAMED;
use s2m_data::recipe::Loaded;
use s2m_model::bundle::sha256;
use s2m_model::manifest::{
    ClassEntry, ClassForm, GeneratorEntry, ItemEntry, LatentEntry, LayoutName, Prior,
};
use s2m_runs::gan::GanSettings;
use s2m_runs::parts::Precision;
use s2m_runs::parts::Stored;
use tch::{Device, Kind, Tensor};

use s2m_model::runtime::Runtime;
use s2m_runs::Done;
use s2m_runs::folder::{CLASSES, ClassNames, WEIGHTS};

use crate::checkpoint::Checkpoint;
use crate::device::Machine;
use crate::export::{self, Input};
use crate::feed::Feed;
use crate::folder::{RunFolder, write_whole};
use crate::joint_classes;
use crate::noise::{self, Draws, Needs, Purpose};
use crate::objectives::{self, Code, Objective, Output, Setup};
use crate::replica::{self, Replica, is_picture, titles};
use crate::shown;
use crate::trained::Trained;
use crate::training::{self, Plan, Work};

/// Folder of generators that are kept on the way.
const KEPT: &str = "steps";

/// Items on a sample grid, and latents in an export's check.
const SHOWN: i64 = 64;
const SHOWN_POINTS: i64 = 4096;

/// The data sets and seeds of a run.
pub fn replicas(settings: &GanSettings) -> Vec<Replica> {
    replica::replicas(&settings.data, &settings.seeds)
}

/// The data of the run, as its objective is shown it.
pub fn load(settings: &GanSettings) -> Result<Vec<Loaded>> {
    let loaded = replica::load(&settings.data)?;
    if !settings.oracle {
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
    let replicas = replicas(settings);
    let keys: Vec<u64> = replicas.iter().map(Replica::key).collect();
    let items = &loaded[0].train.items;
    // An oracle's classes are the joint ones already.
    let joint = if settings.oracle {
        Vec::new()
    } else {
        joint_classes::codes(&loaded[0])
    };
    objectives::build(
        &settings.objective,
        &Setup {
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
        },
    )
}

/// Trains, resuming where the folder's checkpoint stands, and exports every replica's generators.
pub fn train(settings: &GanSettings, out: &Path, machine: &Machine) -> Result<()> {
    settings.check()?;
    let folder = RunFolder::open(out, settings)?;
    if folder.finished() {
        return Ok(());
    }
    let loaded = load(settings)?;
    let replicas = replicas(settings);
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
    if settings.network.convolves() {
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
        .map(|replica| noise::key(replica.key(), Purpose::Shown, UNNAMED))
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
fn class_names(outputs: &[Output], data: &Loaded) -> ClassNames {
    let names = |output: &Output| match &output.code {
        Code::None | Code::Fixed(_) => None,
        Code::Class => Some(data.train.labels.names().map(str::to_owned).collect()),
        Code::Rows(_) => Some(joint_classes::names(data)),
    };
    let pair = |output: &Output| Some((output.file.to_owned(), names(output)?));
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
