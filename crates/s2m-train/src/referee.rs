//! `referee`: a classifier of the original classes, or of each label apart, with which samples are judged.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use s2m_data::Dataset;
use s2m_data::recipe::Loaded;
use s2m_model::onnx::graph::{self, GraphBuilder};
use s2m_runs::folder::{REFEREE, REFEREE_FOUND, REFEREE_SETTINGS, RefereeFound};
use s2m_runs::gan::Form;
use s2m_runs::parts::{Augment, Precision};
use s2m_runs::referee::Answers;
use s2m_runs::{Done, Judges, RefereeSettings};
use tch::{Device, Kind, Tensor, no_grad};

use crate::augment;
use crate::device::Machine;
use crate::export::{self, Input};
use crate::folder::{RunFolder, write_whole};
use crate::networks::classifier::Trunk;
use crate::networks::{Mode, linear, linear_onnx};
use crate::noise::{Draws, Needs};
use crate::objectives::cross_entropy;
use crate::objectives::mean;
use crate::parameters::{Parameters, Spec};
use crate::replica::{Replica, scaled};
use crate::trained::{Start, Trained};
use crate::training::{self, Plan, Work};

/// Items on the device, and what a referee should say of them: a class, or 1 for every label they have.
struct Labelled {
    items: Tensor,
    wanted: Tensor,
}

impl Labelled {
    fn new(judges: Judges, data: &Dataset, chosen: &[u32], device: Device) -> Self {
        let size = data.items.item_size() as i64;
        let wanted = match judges {
            Judges::Classes => {
                let class = |&item: &u32| i64::from(data.original[item as usize]);
                Tensor::from_slice(&chosen.iter().map(class).collect::<Vec<i64>>())
            }
            Judges::Labels => {
                let labels = data.labels.len();
                let set = |&item: &u32| {
                    let set = data.truth[item as usize];
                    (0..labels).map(move |label| f32::from(u8::from(set.contains(label))))
                };
                let values: Vec<f32> = chosen.iter().flat_map(set).collect();
                Tensor::from_slice(&values).view([-1, labels as i64])
            }
        };
        Self {
            items: Tensor::from_slice(&scaled(&data.items.select(chosen)))
                .view([-1, size])
                .to_device(device),
            wanted: wanted.to_device(device),
        }
    }
}

/// Features and logits of classes or labels.
fn forward(trunk: &Trunk, weights: &[Tensor], x: &Tensor, mode: Mode) -> (Tensor, Tensor) {
    let (body, head) = weights.split_at(weights.len() - 2);
    let features = trunk.forward(body, x, mode);
    let class = linear(&features, &head[0], &head[1]);
    (features, class)
}

/// What a trained referee says of rows of pictures, `[replica, item, value]`.
fn judged(judge: &Judge<'_>, x: &Tensor) -> (Tensor, Tensor) {
    let say =
        |x: &Tensor| no_grad(|| forward(judge.trunk, judge.weights.views(), x, Mode::Evaluation));
    let (features, class) = say(x);
    let Some([channels, height, width]) = judge.mirrored else {
        return (features, class);
    };
    let pictures = x.view([-1, channels, height, width]);
    let (other, otherwise) = say(&pictures.flip([3]).view_as(x));
    ((features + other) / 2.0, (class + otherwise) / 2.0)
}

/// A referee as it judges.
struct Judge<'a> {
    judges: Judges,
    trunk: &'a Trunk,
    weights: &'a Parameters,
    /// Sides of the pictures where mirror images are judged too.
    mirrored: Option<[i64; 3]>,
}

/// Trains the referee and writes `referee.onnx` and what it reaches.
pub fn train(settings: &RefereeSettings, out: &Path, machine: &Machine) -> Result<()> {
    settings.check()?;
    let folder = RunFolder::open(out, settings)?;
    if folder.finished() {
        return Ok(());
    }
    let data = settings.data.load()?;
    let trunk = Trunk::of(&settings.network, &data)?.trained_in(settings.precision)?;
    if let Some(augment) = settings.augment {
        let picture = trunk.picture();
        augment.check(picture.context("`augment` changes pictures; the data has points")?)?;
    }
    let mirrored = match (settings.mirrored, trunk.picture()) {
        (false, _) => None,
        (true, Some(picture)) => Some(picture),
        (true, None) => bail!("`mirrored` is for pictures; the data has points"),
    };
    let judges = settings.judges;
    let answers = match judges {
        Judges::Classes => i64::from(data.train.original.iter().copied().max().unwrap_or(0)) + 1,
        Judges::Labels => data.train.labels.len() as i64,
    };
    let replica = Replica {
        data: 0,
        name: settings.data.name.clone(),
        seed: settings.seed,
    };
    let mut specs = trunk.specs("");
    specs.extend(Spec::layer("class", &[answers, trunk.features()]));
    let keys = [replica.key()];
    let items = Labelled::new(judges, &data.train, &data.split.train, machine.device);
    let count = items.wanted.size()[0];
    let plan = Plan {
        what: "referee",
        steps: settings
            .epochs
            .saturating_mul((count as u64).div_ceil(settings.batch.unsigned_abs())),
        log_every: settings.log_every,
        checkpoint_every: settings.log_every,
        replicas: std::slice::from_ref(&replica),
        keys: &keys,
        origin: "",
        form: Form::default(),
        follows: 0.0,
    };
    plan.check()?;
    settings.optimizer.check(plan.steps)?;
    machine.set(settings.precision)?;
    let start = Start {
        keys: &keys,
        optimizer: settings.optimizer,
        steps: plan.steps,
        device: machine.device,
    };
    let trained = Trained::new("referee", specs, &start);
    let mut lesson = Lesson {
        judges,
        trunk: &trunk,
        trained,
        items,
        count,
        batch: settings.batch,
        augment: settings.augment.zip(trunk.picture()),
    };
    folder.claim(settings)?;
    let taken = training::run(&mut lesson, &plan, &folder, machine)?;
    machine.set(Precision::Float32)?;
    let trained = lesson.trained;
    let everything: Vec<u32> = (0..data.test.len() as u32).collect();
    let judge = Judge {
        judges,
        trunk: &trunk,
        weights: &trained.parameters,
        mirrored,
    };
    let accuracy = |set: &Dataset, chosen: &[u32]| {
        share_right(&judge, &Labelled::new(judges, set, chosen, machine.device))
    };
    let test = accuracy(&data.test, &everything);
    let validation = accuracy(&data.train, &data.split.validation);
    let file = network(&judge, &data)?;
    let difference = check(&file, &judge, &data, machine)?;
    let file = export::stored(settings.stored, file)?;
    write_whole(&folder.join(REFEREE), &file)?;
    folder.write_json(
        REFEREE_FOUND,
        &RefereeFound {
            classes: answers,
            test_accuracy: test,
            validation_accuracy: validation,
        },
    )?;
    if judges == Judges::Labels {
        let answers = Answers::of(judges, data.train.labels.names());
        write_whole(
            &folder.join(REFEREE_SETTINGS),
            toml::to_string(&answers)?.as_bytes(),
        )?;
    }
    let done = Done::new(1, (taken.steps, taken.seconds), machine.name());
    folder.finish(difference, done)
}

/// A referee in training.
struct Lesson<'a> {
    judges: Judges,
    trunk: &'a Trunk,
    trained: Trained,
    items: Labelled,
    count: i64,
    batch: i64,
    /// Changes, and the pictures' sides.
    augment: Option<(Augment, [i64; 3])>,
}

impl Work for Lesson<'_> {
    fn needs(&self) -> Needs {
        let changes = |(augment, _): (Augment, _)| augment::needs(augment, self.batch);
        let changes = self.augment.map_or(0, changes);
        Needs {
            normal: 0,
            uniform: self.batch + changes,
        }
    }

    fn losses(&self) -> &'static [&'static str] {
        match self.judges {
            Judges::Classes => &["class"],
            Judges::Labels => &["labels"],
        }
    }

    fn step(&mut self, _at: u64, draws: &mut Draws) -> Tensor {
        let place = draws.uniform(self.batch).to_kind(Kind::Double);
        let chosen = (place * self.count as f64).to_kind(Kind::Int64).view(-1);
        let mut x = self.items.items.index_select(0, &chosen).unsqueeze(0);
        if let Some((augment, picture)) = self.augment {
            x = augment::apply(augment, &x, picture, draws);
        }
        let wanted = self.items.wanted.index_select(0, &chosen).unsqueeze(0);
        let (_, logits) = forward(self.trunk, self.trained.weights(), &x, Mode::Training);
        let loss = match self.judges {
            Judges::Classes => cross_entropy(&logits, &wanted),
            Judges::Labels => of_labels(&logits, &wanted),
        };
        self.trained.descend(&loss.sum(Kind::Float));
        loss.detach().unsqueeze(0)
    }

    fn members(&mut self) -> Vec<&mut Trained> {
        vec![&mut self.trained]
    }
}

/// Binary cross entropy of each label, summed over labels, one mean per replica.
fn of_labels(logits: &Tensor, wanted: &Tensor) -> Tensor {
    let logits = logits.to_kind(Kind::Float);
    let each = logits.softplus() - &logits * wanted;
    mean(&each.sum_dim_intlist([-1].as_slice(), false, Kind::Float))
}

/// Share of items of which everything that is said is right.
fn share_right(judge: &Judge<'_>, items: &Labelled) -> f64 {
    let mut right = 0.0;
    for (x, wanted) in items
        .items
        .split(1000, 0)
        .iter()
        .zip(items.wanted.split(1000, 0))
    {
        let (_, logits) = judged(judge, &x.unsqueeze(0));
        let logits = logits.squeeze_dim(0);
        let found = match judge.judges {
            Judges::Classes => logits.argmax(-1, false).eq_tensor(&wanted),
            Judges::Labels => logits.gt(0.0).eq_tensor(&wanted.gt(0.5)).all_dim(-1, false),
        };
        right += found.sum(Kind::Double).double_value(&[]);
    }
    right / items.wanted.size()[0] as f64
}

/// The referee as an ONNX file.
fn network(judge: &Judge<'_>, data: &Loaded) -> Result<Vec<u8>> {
    let plain = judge.weights.replica(0)?;
    let mut graph = GraphBuilder::new("referee");
    let x = graph.input("x", &data.train.items.shape, graph::Element::F32)?;
    let seen = match judge.mirrored {
        Some(_) => {
            let other = graph.mirrored(&x, 3)?;
            graph.stacked(&[&x, &other])?
        }
        None => x,
    };
    let mut features = judge.trunk.onnx(&mut graph, &seen, &plain, "")?;
    let mut class = linear_onnx(&mut graph, &features, &plain, "class")?;
    if judge.mirrored.is_some() {
        features = graph.mean_of_stacked(&features, 2)?;
        class = graph.mean_of_stacked(&class, 2)?;
    }
    graph.output(&class, judge.judges.output())?;
    graph.output(&features, "features")?;
    Ok(graph.to_bytes())
}

/// How far the file is from the network on held-out items, before its weights are rounded.
fn check(file: &[u8], judge: &Judge<'_>, data: &Loaded, machine: &Machine) -> Result<f64> {
    let chosen: Vec<u32> = data.split.validation.iter().copied().take(64).collect();
    let items = Labelled::new(judge.judges, &data.train, &chosen, machine.device).items;
    let x = items.unsqueeze(0);
    let (features, class) = judged(judge, &x);
    let shape = data.train.items.shape.iter().map(|&side| side as i64);
    let rows = items.view(
        std::iter::once(-1)
            .chain(shape)
            .collect::<Vec<_>>()
            .as_slice(),
    );
    let wanted = [(judge.judges.output(), &class), ("features", &features)];
    export::check(
        &machine.runtime,
        file,
        &[Input {
            name: "x",
            rows: &rows,
        }],
        &wanted,
    )
}
