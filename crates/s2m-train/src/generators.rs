//! Where generated items come from: the generators of a GAN run, or one from elsewhere.
//!
//! Generators of a GAN run are run by libtorch at every step. One from elsewhere is an ONNX file: its items are made
//! once, before training, and drawn from at every step. So are the items of a GAN run of which only that file is left,
//! and of one where the trunk is a network from elsewhere, which sees every item once.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use s2m_calibrate::class_at;
use s2m_core::proposals::{Proposals, Purpose};
use s2m_core::streams;
use s2m_data::recipe::{DataRecipe, Loaded};
use s2m_model::bundle::{Generator, sha256};
use s2m_model::disk::{read_plain, read_plain_text};
use s2m_model::manifest::{GeneratorEntry, Provenance};
use s2m_model::networks::{Renderer, Requested};
use s2m_runs::classifier::{DEFAULT_ITEMS, JointChoice, OwnGenerator, TrunkSettings};
use s2m_runs::folder::{DONE, GENERATOR, RUN_FILE, WEIGHTS};
use s2m_runs::objective::ObjectiveSettings;
use s2m_runs::{ClassifierSettings, GanSettings};
use s2m_show::talk::Forecast;
use tch::{Device, Kind, Tensor, no_grad};

use crate::checkpoint::Checkpoint;
use crate::device::Machine;
use crate::feed::{Feed, Pool};
use crate::frozen::Frozen;
use crate::gan;
use crate::networks::given;
use crate::noise::{self, Draws, Needs, Noise};
use crate::objectives::{Code, Output};
use crate::parameters::Parameters;
use crate::progress::Progress;
use crate::replica::{self, Replica, as_written, is_picture, titles};

/// Items that are made at a time.
const PIECE: usize = 1024;

/// Numbers in all of them, unless that is less than keeps every worker busy once: large items are made fewer at a time.
const PIECE_NUMBERS: usize = 1 << 24;

/// Items made in the place of fresh ones at every step.
const AS_GOOD_AS_FRESH: u32 = 200_000;

/// Most items that are made beforehand.
const MOST_ITEMS: u32 = 10_000_000;

/// Generators, the data that they imitate, and what makes their items.
pub struct Generators {
    pub recipes: Vec<DataRecipe>,
    pub loaded: Vec<Loaded>,
    pub replicas: Vec<Replica>,
    /// Of everything that makes items.
    pub sha256: String,
    /// The trunk, where it comes from elsewhere; made items are then rows of its features.
    pub frozen: Option<Frozen>,
    source: Source,
    made: Option<Made>,
}

enum Source {
    Run(Box<GanSettings>, Output),
    Own(Box<Own>),
}

/// A generator from elsewhere.
struct Own {
    entry: GeneratorEntry,
    bytes: Vec<u8>,
}

/// Items made beforehand, as many for every replica.
struct Made {
    /// `[replicas·count, size]`, replica by replica; levels of pictures as bytes.
    items: Tensor,
    /// `[replicas·count]`; zeros without classes.
    classes: Tensor,
    count: i64,
}

/// The data sets and seeds of the run, from where its generators come.
fn origin_of(settings: &ClassifierSettings) -> Result<Origin> {
    match (&settings.gan, &settings.generator, &settings.data) {
        (Some(folder), None, None) => Ok(Origin::Run(Box::new(gan_settings(settings, folder)?))),
        (None, Some(own), Some(data)) => {
            ensure!(
                (1..=MOST_ITEMS).contains(&own.items),
                "`generator.items` is {}; it must be from 1 to {MOST_ITEMS}",
                own.items
            );
            ensure!(
                settings.only.is_empty(),
                "`only` is for GAN runs; a generator from elsewhere has one data set"
            );
            Ok(Origin::Own(own.clone(), Box::new(data.clone())))
        }
        _ => bail!(
            "a classifier needs either `gan`, the folder of a GAN run, or `generator` with `data`"
        ),
    }
}

/// The run file of a finished GAN run.
fn gan_settings(settings: &ClassifierSettings, folder: &Path) -> Result<GanSettings> {
    let file = folder.join(RUN_FILE);
    let text = read_plain_text(&file)
        .with_context(|| format!("GAN run `{}` cannot be read\nhint: `gan` is the --out folder of a finished `train gan`", file.display()))?;
    let gan: GanSettings =
        toml::from_str(&text).with_context(|| format!("`{}`", file.display()))?;
    ensure!(
        folder.join(DONE).is_file(),
        "GAN run `{}` is not finished\nhint: start it again; it goes on where it stopped",
        folder.display()
    );
    for name in &settings.only {
        ensure!(
            gan.data.iter().any(|recipe| recipe.name == *name),
            "`only` names `{name}`, which is not a data set of the GAN run"
        );
    }
    gan.check()?;
    Ok(gan)
}

fn uses(settings: &ClassifierSettings, replica: &Replica) -> bool {
    settings.only.is_empty() || settings.only.contains(&replica.name)
}

enum Origin {
    Run(Box<GanSettings>),
    Own(OwnGenerator, Box<DataRecipe>),
}

/// The data of a classifier run, without its generators.
pub struct Subjects {
    pub recipes: Vec<DataRecipe>,
    pub loaded: Vec<Loaded>,
    pub replicas: Vec<Replica>,
    origin: Origin,
}

impl Subjects {
    pub fn open(settings: &ClassifierSettings) -> Result<Self> {
        let origin = origin_of(settings)?;
        let (mut recipes, replicas) = match &origin {
            Origin::Run(gan) => (gan.data.clone(), gan::replicas(gan)),
            Origin::Own(own, data) => {
                let recipes = vec![(**data).clone()];
                let replicas = replica::replicas(&recipes, &[own.seed]);
                (recipes, replicas)
            }
        };
        if let Some(share) = settings.wrong_labels {
            for recipe in &mut recipes {
                recipe.wrong_labels = share;
            }
        }
        Ok(Self {
            loaded: replica::load(&recipes)?,
            recipes,
            replicas: replicas
                .into_iter()
                .filter(|replica| uses(settings, replica))
                .collect(),
            origin,
        })
    }

    /// Where a replica's networks come from: all run files, cut down to what it used.
    pub fn provenance(
        &self,
        replica: &Replica,
        settings: &ClassifierSettings,
    ) -> Result<Provenance> {
        provenance(&self.origin, &self.recipes, replica, settings)
    }
}

fn provenance(
    origin: &Origin,
    recipes: &[DataRecipe],
    replica: &Replica,
    settings: &ClassifierSettings,
) -> Result<Provenance> {
    let recipe = without_folders(&recipes[replica.data]);
    let mut own = settings.clone();
    own.joint = own.joint.as_ref().map(JointChoice::without_folder);
    if let TrunkSettings::Onnx { file, .. } = &mut own.network {
        *file = file.file_name().unwrap_or_default().into();
    }
    let recipe_text = match origin {
        Origin::Run(gan) => {
            let mut gan = (**gan).clone();
            gan.data = vec![recipe.clone()];
            own.gan = Some("gan".into());
            let (gan, own) = (toml::to_string(&gan)?, toml::to_string(&own)?);
            format!("# s2m train gan\n{gan}\n# s2m train classifier\n{own}")
        }
        Origin::Own(..) => {
            own.data = Some(recipe.clone());
            if let Some(generator) = &mut own.generator {
                generator.file = generator.file.file_name().unwrap_or_default().into();
            }
            format!("# s2m train classifier\n{}", toml::to_string(&own)?)
        }
    };
    Ok(Provenance {
        data: recipe.name.clone(),
        licence: recipe.licence.clone().unwrap_or_default(),
        recipe: recipe_text,
        seed: Some(replica.seed),
        versions: format!("s2m-train {}, libtorch 2.11", env!("CARGO_PKG_VERSION")),
    })
}

/// A finished run of one generator whose weights are gone, but not the file that was exported.
fn exported(folder: &Path, replicas: &[Replica]) -> Option<OwnGenerator> {
    let [replica] = replicas else { return None };
    let file = folder.join(replica.title()).join(GENERATOR);
    let gone = !folder.join(WEIGHTS).exists();
    (gone && file.is_file()).then_some(OwnGenerator {
        file,
        items: AS_GOOD_AS_FRESH,
        seed: replica.seed,
    })
}

/// A folder is where the files lay, not what they are.
fn without_folders(recipe: &DataRecipe) -> DataRecipe {
    let mut recipe = recipe.clone();
    for path in recipe.source.paths_mut() {
        *path = path.file_name().unwrap_or_default().into();
    }
    recipe
}

impl Generators {
    pub fn open(settings: &ClassifierSettings, machine: &Machine) -> Result<Self> {
        let subjects = Subjects::open(settings)?;
        let frozen = Frozen::open(&settings.network, &subjects.loaded, machine)?;
        let generators = match &subjects.origin {
            Origin::Run(gan) => {
                let folder = settings.gan.as_ref().expect("a GAN run has a folder");
                let mut output = gan::objective(gan, &subjects.loaded, machine.device)?
                    .outputs()
                    .swap_remove(0);
                ensure!(
                    matches!(
                        gan.objective,
                        ObjectiveSettings::WganGp(_)
                            | ObjectiveSettings::Conditional(_)
                            | ObjectiveSettings::Hinge(_)
                            | ObjectiveSettings::HingeProjection(_)
                            | ObjectiveSettings::HingeAcGan(_)
                            | ObjectiveSettings::Flow(_)
                    ),
                    "the GAN run's objective already decides which class is made; classifiers need `wgan-gp`, `conditional`, `hinge`, `hinge-projection`, `hinge-ac-gan` or `flow`"
                );
                ensure!(
                    !gan.oracle,
                    "the GAN run is an oracle, which was shown joint classes; classifiers need a generator of single labels"
                );
                let file = folder.join(WEIGHTS);
                if let Some(own) = exported(folder, &subjects.replicas) {
                    let generators = Self::made_by(&own, subjects, machine)?;
                    return Self::with_features(frozen, generators);
                }
                let weights = Checkpoint::read(&file)?;
                ensure!(
                    weights.fact("replicas")? == titles(&gan::replicas(gan)),
                    "`{}` holds other data sets or seeds than the run file beside it",
                    file.display()
                );
                let rows: Vec<i64> = (0_i64..)
                    .zip(gan::replicas(gan))
                    .filter(|(_, replica)| uses(settings, replica))
                    .map(|(row, _)| row)
                    .collect();
                output.weights = weights
                    .finished(output.file, output.network.specs(), machine.device)?
                    .select(&rows);
                Self {
                    recipes: subjects.recipes,
                    loaded: subjects.loaded,
                    replicas: subjects.replicas,
                    sha256: sha256(&read_plain(&file)?),
                    frozen: None,
                    source: Source::Run(gan.clone(), output),
                    made: None,
                }
            }
            Origin::Own(own, _) => {
                let own = own.clone();
                Self::made_by(&own, subjects, machine)?
            }
        };
        Self::with_features(frozen, generators)
    }

    /// Out of one file, which makes all items beforehand.
    fn made_by(own: &OwnGenerator, subjects: Subjects, machine: &Machine) -> Result<Self> {
        let data = &subjects.loaded[subjects.replicas[0].data];
        let (file, made) = Own::make(own, data, machine)?;
        Ok(Self {
            sha256: sha256(format!("{} {own:?}", sha256(&file.bytes)).as_bytes()),
            recipes: subjects.recipes,
            loaded: subjects.loaded,
            replicas: subjects.replicas,
            frozen: None,
            source: Source::Own(Box::new(file)),
            made: Some(made),
        })
    }

    /// The same, seen by a frozen trunk where there is one.
    fn with_features(frozen: Option<Frozen>, mut generators: Self) -> Result<Self> {
        if let Some(frozen) = frozen {
            generators.sha256 =
                sha256(format!("{} {}", generators.sha256, frozen.sha256()).as_bytes());
            generators.made = Some(generators.features(&frozen)?);
            generators.frozen = Some(frozen);
        }
        Ok(generators)
    }

    /// Made items as a frozen trunk sees them.
    fn features(&self, frozen: &Frozen) -> Result<Made> {
        let Some(made) = &self.made else {
            return self.features_of_run(frozen);
        };
        Ok(Made {
            items: frozen.features_of_all(&made.items)?,
            classes: made.classes.shallow_clone(),
            count: made.count,
        })
    }

    /// Items of a GAN run, drawn as at every step, but once.
    fn features_of_run(&self, frozen: &Frozen) -> Result<Made> {
        let feed = Feed::new(&self.loaded, &self.replicas, frozen.real.shallow_clone());
        let key = |replica: &Replica| {
            noise::key(
                replica.key(),
                noise::Purpose::Weights,
                streams::training::MADE,
            )
        };
        let keys: Vec<u64> = self.replicas.iter().map(key).collect();
        let (count, piece) = (i64::from(DEFAULT_ITEMS), PIECE as i64);
        let mut numbers = Noise::new(&keys, self.needs(piece), feed.device());
        let progress = Progress::new("features of generated items", count as u64, 0);
        let (mut pieces, mut all_classes) = (Vec::new(), Vec::new());
        for first in (0..count).step_by(PIECE) {
            let mut draws = Draws::new(numbers.at(pieces.len() as u64));
            let (items, classes) = no_grad(|| self.draw(&feed, &mut draws, piece));
            let features = frozen.features(&items.flatten(0, 1), first as usize);
            let features = features.context("features of generated items")?;
            pieces.push(features.view([-1, piece, frozen.size()]));
            all_classes.push(classes);
            progress.at(first as u64, &[], &[]);
        }
        progress.finish();
        let rows = |pieces: &[Tensor]| -> Result<Tensor> {
            Ok(Tensor::f_cat(pieces, 1)?.narrow(1, 0, count).flatten(0, 1))
        };
        Ok(Made {
            items: rows(&pieces)?,
            classes: rows(&all_classes)?,
            count,
        })
    }

    /// Real items as the networks see them, with draws for every replica.
    pub fn feed(&self, device: Device) -> Result<Feed> {
        match &self.frozen {
            None => Feed::training(&self.loaded, &self.replicas, device),
            Some(frozen) => {
                let rows = frozen.real.shallow_clone();
                Ok(Feed::new(&self.loaded, &self.replicas, rows))
            }
        }
    }

    /// Sets the statistics of given features by the real and the generated items of each replica.
    pub fn standardise(&self, feed: &Feed, class: &Parameters) {
        let (Some(_), Some(made)) = (&self.frozen, &self.made) else {
            return;
        };
        for replica in 0..self.replicas.len() as i64 {
            let generated = made.items.narrow(0, replica * made.count, made.count);
            given::standardise(class, replica, [&feed.all(replica), &generated]);
        }
    }

    /// The same for networks that are several to a replica; `owners` names the replica of each.
    pub fn standardise_each(&self, feed: &Feed, class: &Parameters, owners: &[usize]) {
        let (Some(_), Some(made)) = (&self.frozen, &self.made) else {
            return;
        };
        for (at, &owner) in owners.iter().enumerate() {
            let generated = made.items.narrow(0, owner as i64 * made.count, made.count);
            given::standardise(class, at as i64, [&feed.all(at as i64), &generated]);
        }
    }

    /// Steps that pass over the training items once; one run passes over all its data sets alike.
    pub fn steps_per_epoch(&self, batch: i64) -> Result<u64> {
        let steps = |replica: &Replica| {
            let items = self.loaded[replica.data].positives.len() as u64;
            items.div_ceil(batch.unsigned_abs())
        };
        let all: Vec<u64> = self.replicas.iter().map(steps).collect();
        ensure!(
            all.iter().all(|&steps| steps == all[0]),
            "the data sets have different numbers of training items, so an epoch is not one number of steps\nhint: name one of them in `only`, and train the others by run files of their own"
        );
        Ok(all[0])
    }

    /// The data of one replica.
    pub fn data(&self, replica: usize) -> (&DataRecipe, &Loaded) {
        let at = self.replicas[replica].data;
        (&self.recipes[at], &self.loaded[at])
    }

    pub fn conditional(&self) -> bool {
        match &self.source {
            Source::Run(_, output) => output.code == Code::Class,
            Source::Own(own) => own.entry.class.is_some(),
        }
    }

    /// Random numbers for a batch of items and their classes.
    pub fn needs(&self, batch: i64) -> Needs {
        let latent = match (&self.source, &self.made) {
            (Source::Run(_, output), None) => output.network.latent(),
            _ => 0,
        };
        Needs {
            normal: batch * latent,
            uniform: batch,
        }
    }

    /// Generated items as networks see them, `[replicas, batch, size]`, and their classes.
    pub fn draw(&self, feed: &Feed, draws: &mut Draws, batch: i64) -> (Tensor, Tensor) {
        match (&self.source, &self.made) {
            (_, Some(made)) => made.draw(draws, batch),
            (Source::Run(_, output), None) => {
                let classes = feed.draw(draws, Pool::All, batch).labels;
                let items = output.items(&draws.normal(batch, output.network.latent()), &classes);
                let picture = is_picture(&self.loaded[self.replicas[0].data].train.items);
                (if picture { as_written(&items) } else { items }, classes)
            }
            (Source::Own(_), None) => unreachable!("items of a generator from elsewhere are made"),
        }
    }

    /// The file of a replica's generator, and what a bundle says about it.
    pub fn file_of(&self, replica: usize) -> Result<(Vec<u8>, GeneratorEntry)> {
        let (bytes, mut entry) = match &self.source {
            Source::Run(gan, output) => {
                gan::file_of(output, replica, self.data(replica).1, gan.stored)?
            }
            Source::Own(own) => (own.bytes.clone(), own.entry.clone()),
        };
        "generator.onnx".clone_into(&mut entry.file);
        Ok((bytes, entry))
    }

    /// Where a replica's networks come from.
    pub fn provenance(
        &self,
        replica: &Replica,
        settings: &ClassifierSettings,
    ) -> Result<Provenance> {
        let origin = match &self.source {
            Source::Run(gan, _) => Origin::Run(gan.clone()),
            Source::Own(_) => origin_of(settings)?,
        };
        provenance(&origin, &self.recipes, replica, settings)
    }
}

impl Own {
    /// Opens the generator and makes its items.
    fn make(own: &OwnGenerator, data: &Loaded, machine: &Machine) -> Result<(Self, Made)> {
        let generator = Generator::open(&own.file)?;
        let part = generator.part();
        let mut entry = part.entry.clone();
        if let Some(class) = &mut entry.class {
            ensure!(
                class.prior.len() == data.train.labels.len(),
                "the generator takes {} classes, the data has {} labels",
                class.prior.len(),
                data.train.labels.len()
            );
            class.prior.clone_from(&data.observed);
        }
        let shape = &data.train.items.shape;
        let made: Vec<usize> = match entry.output.picture_size() {
            Some([height, width, channels]) => vec![channels, height, width],
            None => entry.output.shape.clone(),
        };
        ensure!(
            made == *shape && entry.output.is_picture() == is_picture(&data.train.items),
            "the generator makes items of shape {made:?}, the data has {shape:?}\nhint: give the data the generator's size"
        );
        let folder = own.file.parent().unwrap_or(std::path::Path::new(""));
        let bytes = read_plain(&folder.join(&entry.file))
            .with_context(|| format!("network `{}` of the generator", entry.file))?;
        let renderer = Renderer::of(part, &machine.runtime, &machine.run)?;
        let proposals = Proposals::new(own.seed).at_stage(streams::TRAINING);
        let count = own.items as usize;
        let class = |number: u64| {
            let prior = entry.class.as_ref().map(|class| class.prior.as_slice());
            prior.map(|prior| class_at(prior, proposals.uniform(Purpose::Class, number)))
        };
        let (what, hint) = (
            "generated items",
            machine.shorter("fewer items (--items N)"),
        );
        let forecast = Forecast::new(what, count as u64, "items", &hint);
        let progress = Progress::new(what, count as u64, 0).with_forecast(forecast);
        let (mut pieces, mut classes) = (Vec::new(), Vec::new());
        // Two rounds of all workers, the second of them warm, tell how long the rest takes.
        let round = renderer.round().min(PIECE);
        let most = (PIECE_NUMBERS / renderer.item_size()).clamp(round, PIECE);
        let mut first = 0;
        while first < count {
            let piece = if first < 2 * round { round } else { most };
            let last = (first + piece).min(count);
            let numbers: Vec<u64> = (first..last).map(|k| k as u64).collect();
            let own_classes: Vec<u32> = numbers.iter().filter_map(|&k| class(k)).collect();
            let items = renderer.render(Requested {
                mixture: None,
                proposals,
                numbers: &numbers,
                classes: &own_classes,
            })?;
            classes.extend(numbers.iter().map(|&k| i64::from(class(k).unwrap_or(0))));
            pieces.push(as_planes(
                &items,
                numbers.len() as i64,
                entry.output.picture_size(),
            ));
            progress.at(last as u64, &[], &[]);
            first = last;
        }
        progress.finish();
        let made = Made {
            items: Tensor::f_cat(&pieces, 0)?.to_device(machine.device),
            classes: Tensor::from_slice(&classes).to_device(machine.device),
            count: count as i64,
        };
        Ok((Self { entry, bytes }, made))
    }
}

impl Made {
    fn draw(&self, draws: &mut Draws, batch: i64) -> (Tensor, Tensor) {
        let chosen = (draws.uniform(batch) * self.count as f64).to_kind(Kind::Int64);
        let replicas = chosen.size()[0];
        let first = Tensor::arange(replicas, (Kind::Int64, chosen.device())) * self.count;
        let rows = (chosen + first.unsqueeze(1)).view(-1);
        let items = self.items.index_select(0, &rows);
        let items = if items.kind() == Kind::Uint8 {
            items.to_kind(Kind::Float) * (2.0 / 255.0) - 1.0
        } else {
            items
        };
        let classes = self.classes.index_select(0, &rows);
        (
            items.view([replicas, batch, -1]),
            classes.view([replicas, batch]),
        )
    }
}

/// Levels with channels last to planes of bytes, `[items, size]`; points stay floats.
fn as_planes(items: &[f32], count: i64, picture: Option<[usize; 3]>) -> Tensor {
    let all = Tensor::from_slice(items).to_device(Device::Cpu);
    match picture {
        None => all.view([count, -1]),
        Some(sides) => {
            let [height, width, channels] = sides.map(|side| side as i64);
            all.to_kind(Kind::Uint8)
                .view([count, height, width, channels])
                .permute([0, 3, 1, 2])
                .reshape([count, -1])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_become_planes_of_bytes() {
        // One picture of 1×2 pixels with three channels.
        let found = as_planes(&[1.0, 2.0, 3.0, 4.0, 5.0, 255.0], 1, Some([1, 2, 3]));
        assert_eq!(found.kind(), Kind::Uint8);
        let found = Vec::<u8>::try_from(found.view(-1)).unwrap_or_default();
        assert_eq!(found, [1, 4, 2, 5, 3, 255]);
        assert_eq!(as_planes(&[0.5, 1.5], 2, None).size(), [2, 1]);
    }
}
