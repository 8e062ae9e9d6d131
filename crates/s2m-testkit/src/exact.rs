//! Bundles whose every density is known: the 2×16 Gaussians, written as ONNX from formulae.
//!
//! The generator picks one of its components by one normal number, a place on it by a second, and
//! adds noise by two more. Components are modes, and bridges between neighbouring modes such as an
//! imperfect GAN leaves: a bridge is uniform along the middle half of the line between two modes.
//! The classifier computes the exact Bayes answers from the densities
//!
//! ```text
//! mode:    N(x; m, σ²I)
//! bridge:  N(across; 0, σ²) · (Φ((along + L/2)/σ) − Φ((along − L/2)/σ)) / L,   L = 1/2
//! ```

use s2m_core::normal::normal_quantile;
use s2m_data::gaussians::{MODE_SD, Mode, modes};
use s2m_model::Error;
use s2m_model::bundle::{self, Bundle};
use s2m_model::manifest::{
    CalibrationEntry, ClassEntry, ClassForm, ClassifierEntry, FORMAT, GeneratorEntry, ItemEntry,
    LabellingEntry, LabellingModel, LatentEntry, Manifest, OutputsEntry, Prior, Provenance,
};
use s2m_model::onnx::{Element, GraphBuilder, Reduced, Tensor};

/// Share of the generator's mass on bridges.
pub const BRIDGE_SHARE: f64 = 0.16;

/// Length of a bridge: the middle half of the unit between two modes.
const BRIDGE_LENGTH: f64 = 0.5;

/// How the toy's labels came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToyLabels {
    /// Items drawn for each label: `p_data = ½p_A + ½p_B`.
    PerClass,
    /// Items uniform on all modes; an item of both grids shows either label with probability ½.
    OneOf,
}

/// Whether the toy's generator takes a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToyGenerator {
    /// All 23 modes.
    Plain,
    /// The 16 modes of the class that is asked for.
    Conditional,
}

/// The files of a bundle: name and bytes of each.
pub type Files = [(String, Vec<u8>); 3];

/// The files of one exact bundle.
pub fn toy(labels: ToyLabels, generator: ToyGenerator) -> Files {
    let graphs =
        generator_graph(generator).and_then(|g| Ok((g, classifier_graph(labels, generator)?)));
    let (generator_bytes, classifier) = graphs.expect("the formulae fit together");
    bundle::files(&manifest(labels, generator), generator_bytes, classifier)
        .expect("the manifest is text")
}

/// Reads files as the program would.
pub fn open(files: &Files) -> Bundle {
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(n, b)| (n.as_str(), b.as_slice()))
        .collect();
    Bundle::from_files(&files).expect("the toy is a valid bundle")
}

/// The bundle that ships with the program.
pub fn gaussians_exact() -> Files {
    toy(ToyLabels::PerClass, ToyGenerator::Plain)
}

fn manifest(labels: ToyLabels, toy: ToyGenerator) -> Manifest {
    let conditional = toy == ToyGenerator::Conditional;
    let mut name = "gaussians-exact".to_owned();
    if labels == ToyLabels::OneOf {
        name += "-one-of";
    }
    if conditional {
        name += "-conditional";
    }
    let point = |name: &str| ItemEntry {
        name: name.to_owned(),
        layout: None,
        shape: vec![2],
        range: None,
        bits: None,
    };
    let shared = 16.0 / 23.0;
    Manifest {
        format: FORMAT,
        name,
        labels: vec!["A".to_owned(), "B".to_owned()],
        describe: [("A", "lower left 4×4 grid"), ("B", "upper right 4×4 grid")]
            .map(|(label, text)| (label.to_owned(), text.to_owned()))
            .into(),
        labelling: match labels {
            ToyLabels::PerClass => LabellingEntry {
                model: LabellingModel::PerClass,
                weights: vec![shared, shared],
                observed: vec![0.5, 0.5],
            },
            ToyLabels::OneOf => LabellingEntry {
                model: LabellingModel::OneOf,
                weights: vec![1.0, 1.0],
                observed: vec![0.5, 0.5],
            },
        },
        generator: GeneratorEntry {
            file: "generator.onnx".to_owned(),
            sha256: String::new(),
            latents: vec![LatentEntry {
                input: "z".to_owned(),
                shape: vec![4],
                prior: Prior::Normal,
            }],
            class: conditional.then(|| ClassEntry {
                input: "c".to_owned(),
                form: ClassForm::Index,
                prior: vec![0.5, 0.5],
            }),
            output: point("x"),
        },
        classifier: ClassifierEntry {
            file: "classifier.onnx".to_owned(),
            sha256: String::new(),
            input: point("x"),
            outputs: OutputsEntry {
                class: "class_logits".to_owned(),
                real: "real_logit".to_owned(),
                fake_class: conditional.then(|| "fake_class_logits".to_owned()),
            },
            joint: None,
        },
        calibration: CalibrationEntry::default(),
        levels: None,
        paper: None,
        external: [].into(),
        provenance: Provenance {
            data: "2×16 Gaussians, exact densities".to_owned(),
            licence: "MIT OR Apache-2.0".to_owned(),
            recipe: "written from formulae by s2m-testkit; nothing was trained".to_owned(),
            seed: None,
            versions: "s2m bundle format 1".to_owned(),
        },
    }
}

/// A mode or a bridge: points `start + t·direction` for t in (0, 1), with its share of the mass.
#[derive(Debug, Clone, Copy)]
struct Component {
    start: [f64; 2],
    direction: [f64; 2],
    share: f64,
}

/// Modes and bridges of a generator over the given modes.
fn components(modes: &[Mode]) -> Vec<Component> {
    let mode = |m: &Mode| Component {
        start: m.centre,
        direction: [0.0, 0.0],
        share: (1.0 - BRIDGE_SHARE) / modes.len() as f64,
    };
    let steps = [[1.0, 0.0], [0.0, 1.0]];
    let neighbours: Vec<([f64; 2], [f64; 2])> = modes
        .iter()
        .flat_map(|m| steps.map(|step| (m.centre, step)))
        .filter(|(at, step)| {
            modes
                .iter()
                .any(|m| m.centre == [at[0] + step[0], at[1] + step[1]])
        })
        .collect();
    let bridge = |(at, step): &([f64; 2], [f64; 2])| Component {
        start: [0, 1].map(|axis| at[axis] + 0.5 * (1.0 - BRIDGE_LENGTH) * step[axis]),
        direction: step.map(|side| side * BRIDGE_LENGTH),
        share: BRIDGE_SHARE / neighbours.len() as f64,
    };
    modes
        .iter()
        .map(mode)
        .chain(neighbours.iter().map(bridge))
        .collect()
}

/// The modes that the generator makes: all of them, or those of grid A (B is A moved by (1, 1)).
fn generated_modes(toy: ToyGenerator) -> Vec<Mode> {
    let all = modes();
    match toy {
        ToyGenerator::Plain => all,
        ToyGenerator::Conditional => all[..16].to_vec(),
    }
}

fn floats(values: impl IntoIterator<Item = f64>) -> Vec<f32> {
    values.into_iter().map(|v| v as f32).collect()
}

fn generator_graph(toy: ToyGenerator) -> Result<Vec<u8>, Error> {
    let components = components(&generated_modes(toy));
    let count = components.len();
    let mut g = GraphBuilder::new("two_grids");
    let z = g.input("z", &[4], Element::F32)?;
    let noise = g.slice(&z, 1, 0..2)?;
    let choice = g.slice(&z, 1, 2..3)?; // [n, 1]
    let place = g.slice(&z, 1, 3..4)?;
    // Component i is chosen between the normal quantiles of the cumulated shares; passing each
    // lower end moves the start and the direction on by one component.
    let mut passed = 0.0;
    let ends = components.iter().map(|c| {
        let end = if passed == 0.0 {
            -1e9
        } else {
            normal_quantile(passed)
        };
        passed += c.share;
        end
    });
    let ends = floats(ends);
    let ends = g.constant("component.lower_end", &[count], &ends)?;
    let at_or_past = g.greater_or_equal(&choice, &ends)?;
    let at_or_past = g.cast(&at_or_past, Element::F32)?; // [n, components]
    let differences = |value: fn(&Component) -> [f64; 2]| {
        let before = std::iter::once([0.0; 2]).chain(components.iter().map(value));
        let both = before.zip(components.iter().map(value));
        floats(both.flat_map(|(a, b)| [b[0] - a[0], b[1] - a[1]]))
    };
    let starts = g.constant("component.start", &[count, 2], &differences(|c| c.start))?;
    let directions = g.constant(
        "component.direction",
        &[count, 2],
        &differences(|c| c.direction),
    )?;
    let start = g.matmul(&at_or_past, &starts)?; // [n, 2]
    let direction = g.matmul(&at_or_past, &directions)?;
    let along = normal_cdf_node(&mut g, &place)?;
    let along = g.mul(&direction, &along)?;
    let sd = g.scalar(MODE_SD as f32);
    let noise = g.mul(&noise, &sd)?;
    let centre = g.add(&start, &along)?;
    let mut x = g.add(&centre, &noise)?;
    if toy == ToyGenerator::Conditional {
        let class = g.input("c", &[], Element::I64)?;
        let shift = g.constant("class.shift", &[2, 2], &[0.0, 0.0, 1.0, 1.0])?;
        let shift = g.gather(&shift, &class)?; // [n, 2]
        x = g.add(&x, &shift)?;
    }
    g.output(&x, "x")?;
    Ok(g.to_bytes())
}

/// `Φ(v) = ½(1 + erf(v/√2))`.
fn normal_cdf_node(g: &mut GraphBuilder, v: &Tensor) -> Result<Tensor, Error> {
    let (scale, half) = (g.scalar(std::f32::consts::FRAC_1_SQRT_2), g.scalar(0.5));
    let v = g.mul(v, &scale)?;
    let v = g.erf(&v)?;
    let v = g.mul(&v, &half)?;
    g.add(&v, &half)
}

/// Names constants apart.
struct Densities<'a> {
    g: &'a mut GraphBuilder,
    horizontal: Tensor,
    vertical: Tensor,
}

impl Densities<'_> {
    /// `(x − centre)` along both axes, for a list of centres. Each is [n, centres].
    fn offsets(&mut self, name: &str, centres: &[[f64; 2]]) -> Result<[Tensor; 2], Error> {
        let mut side = |axis: usize, x: &Tensor| {
            let values = floats(centres.iter().map(|c| c[axis]));
            let values =
                self.g
                    .constant(&format!("{name}.centre{axis}"), &[centres.len()], &values)?;
            self.g.sub(x, &values)
        };
        let (horizontal, vertical) = (self.horizontal.clone(), self.vertical.clone());
        Ok([side(0, &horizontal)?, side(1, &vertical)?])
    }

    fn scaled_square(&mut self, offset: &Tensor) -> Result<Tensor, Error> {
        let square = self.g.mul(offset, offset)?;
        let scale = self.g.scalar((-0.5 / (MODE_SD * MODE_SD)) as f32);
        self.g.mul(&square, &scale)
    }

    /// Log densities of modes, less the constant of a two-dimensional normal. [n, modes]
    fn modes(&mut self, name: &str, centres: &[[f64; 2]]) -> Result<Tensor, Error> {
        let [dx, dy] = self.offsets(name, centres)?;
        let (dx, dy) = (self.scaled_square(&dx)?, self.scaled_square(&dy)?);
        self.g.add(&dx, &dy)
    }

    /// Log densities of parallel bridges, less the same constant. [n, bridges]
    fn bridges(&mut self, name: &str, bridges: &[&Component]) -> Result<Tensor, Error> {
        let centres: Vec<[f64; 2]> = bridges
            .iter()
            .map(|b| [0, 1].map(|axis| b.start[axis] + 0.5 * b.direction[axis]))
            .collect();
        let [dx, dy] = self.offsets(name, &centres)?;
        let horizontal = bridges[0].direction[0] != 0.0;
        let (along, across) = if horizontal { (dx, dy) } else { (dy, dx) };
        let mut end = |shift: f64| {
            let (shift, scale) = (
                self.g.scalar(shift as f32),
                self.g.scalar((1.0 / MODE_SD) as f32),
            );
            let v = self.g.add(&along, &shift)?;
            let v = self.g.mul(&v, &scale)?;
            normal_cdf_node(self.g, &v)
        };
        let (upper, lower) = (end(0.5 * BRIDGE_LENGTH)?, end(-0.5 * BRIDGE_LENGTH)?);
        let inside = self.g.sub(&upper, &lower)?;
        // Far along, both ends round to the same number: any tiny floor keeps the log finite, and
        // the modes' own density is larger there by many orders.
        let floor = self.g.scalar(1e-30);
        let inside = self.g.maximum(&inside, &floor)?;
        let inside = self.g.log(&inside)?;
        let across = self.scaled_square(&across)?;
        let constant = (std::f64::consts::TAU.sqrt() * MODE_SD / BRIDGE_LENGTH).ln();
        let constant = self.g.scalar(constant as f32);
        let sum = self.g.add(&inside, &across)?;
        self.g.add(&sum, &constant)
    }

    /// `log Σ share_i·density_i` over the second axis. [n, 1]
    fn mixture(&mut self, name: &str, logs: &Tensor, shares: &[f64]) -> Result<Tensor, Error> {
        let shares = floats(shares.iter().map(|s| s.ln()));
        let shares = self
            .g
            .constant(&format!("{name}.log_share"), &[shares.len()], &shares)?;
        let terms = self.g.add(logs, &shares)?;
        self.g.log_sum_exp(&terms, 1, Reduced::Kept)
    }

    /// Log density of a generator over some modes, moved by `shift`. [n, 1]
    fn generator(&mut self, name: &str, modes: &[Mode], shift: f64) -> Result<Tensor, Error> {
        let moved = |c: &Component| Component {
            start: c.start.map(|side| side + shift),
            ..*c
        };
        let all: Vec<Component> = components(modes).iter().map(moved).collect();
        let (points, bridges) = all.split_at(modes.len());
        let (level, upright): (Vec<_>, Vec<_>) =
            bridges.iter().partition(|b| b.direction[0] != 0.0);
        let centres: Vec<[f64; 2]> = points.iter().map(|p| p.start).collect();
        let logs = [
            self.modes(&format!("{name}.modes"), &centres)?,
            self.bridges(&format!("{name}.level"), &level)?,
            self.bridges(&format!("{name}.upright"), &upright)?,
        ];
        let logs = self.g.concat(&[&logs[0], &logs[1], &logs[2]], 1)?;
        let shares: Vec<f64> = points
            .iter()
            .chain(level)
            .chain(upright)
            .map(|component| component.share)
            .collect();
        self.mixture(name, &logs, &shares)
    }
}

fn classifier_graph(labels: ToyLabels, toy: ToyGenerator) -> Result<Vec<u8>, Error> {
    let all = modes();
    let centres: Vec<[f64; 2]> = all.iter().map(|m| m.centre).collect();
    let mut g = GraphBuilder::new("exact_bayes");
    let x = g.input("x", &[2], Element::F32)?;
    let (horizontal, vertical) = (g.slice(&x, 1, 0..1)?, g.slice(&x, 1, 1..2)?);
    let mut d = Densities {
        g: &mut g,
        horizontal,
        vertical,
    };
    let logs = d.modes("data", &centres)?;

    // p_data(x, c) by mode: A alone, shared, B alone stand in this order.
    let share = |mode: &Mode| match labels {
        ToyLabels::PerClass => 0.5 / 16.0,
        ToyLabels::OneOf => 1.0 / 23.0 / mode.labels.len() as f64,
    };
    let joint = |range: std::ops::Range<usize>| all[range].iter().map(share).collect::<Vec<f64>>();
    let a = d.g.slice(&logs, 1, 0..16)?;
    let a = d.mixture("class_a", &a, &joint(0..16))?;
    let b = d.g.slice(&logs, 1, 7..23)?;
    let b = d.mixture("class_b", &b, &joint(7..23))?;
    let whole: Vec<f64> = all
        .iter()
        .map(|m| share(m) * m.labels.len() as f64)
        .collect();
    let data = d.mixture("all", &logs, &whole)?;

    let generated = generated_modes(toy);
    let made = match toy {
        ToyGenerator::Plain => d.generator("generator", &generated, 0.0)?,
        ToyGenerator::Conditional => {
            let of_a = d.generator("generator_a", &generated, 0.0)?;
            let of_b = d.generator("generator_b", &generated, 1.0)?;
            let both = d.g.concat(&[&of_a, &of_b], 1)?;
            d.g.output(&both, "fake_class_logits")?;
            d.mixture("generator", &both, &[0.5, 0.5])?
        }
    };
    let real = d.g.sub(&data, &made)?;
    let class = d.g.concat(&[&a, &b], 1)?;
    g.output(&class, "class_logits")?;
    g.output(&real, "real_logit")?;
    Ok(g.to_bytes())
}
