//! A small picture bundle whose logits follow from its pixels by a formula a test can repeat.
//!
//! The generator is one linear layer on two latents (one normal, one uniform) and, if conditional,
//! a one-hot class, squashed to its range. The classifier is linear in the pixels.

use s2m_model::Error;
use s2m_model::bundle;
use s2m_model::manifest::{
    CalibrationEntry, ClassEntry, ClassForm, ClassifierEntry, FORMAT, GeneratorEntry, ItemEntry,
    LabellingEntry, LabellingModel, LatentEntry, LayoutName, Manifest, OutputsEntry, Prior,
    Provenance,
};
use s2m_model::onnx::{Element, GraphBuilder};

use crate::exact::Files;

/// Height, width and channels.
pub const SIZE: [usize; 3] = [5, 4, 3];

const PIXELS: usize = SIZE[0] * SIZE[1] * SIZE[2];

/// What kind of pictures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kind {
    /// Order of the generator's axes.
    pub layout: LayoutName,
    /// The generator's range.
    pub range: [f64; 2],
    /// Bits per channel.
    pub bits: u8,
    /// Whether the generator takes a class.
    pub conditional: bool,
}

/// A number that looks random but is the same everywhere.
fn pseudo(seed: usize) -> f32 {
    let x = (seed as f64 * 12.9898).sin() * 43_758.545_3;
    (x - x.floor()) as f32 - 0.5
}

/// Weights of the class head (2 rows), the discriminator and the fake-class head (2 rows), for
/// pixels in channels-first order and range [−1, 1].
pub fn classifier_weights() -> Vec<Vec<f32>> {
    (0..5)
        .map(|row| {
            (0..PIXELS)
                .map(|p| 0.4 * pseudo(7000 + row * PIXELS + p))
                .collect()
        })
        .collect()
}

/// The files of the bundle.
pub fn pictures(kind: Kind) -> Files {
    let graphs = generator(kind).and_then(|g| Ok((g, classifier(kind)?)));
    let (generator, classifier) = graphs.expect("the layers fit together");
    bundle::files(&manifest(kind), generator, classifier).expect("the manifest is text")
}

fn generator(kind: Kind) -> Result<Vec<u8>, Error> {
    let mut g = GraphBuilder::new("pictures");
    let z = g.input("z", &[6], Element::F32)?;
    let u = g.input("u", &[2, 2], Element::F32)?;
    let u = g.reshape(&u, &[4])?;
    let mut all = g.concat(&[&z, &u], 1)?;
    if kind.conditional {
        let c = g.input("c", &[2], Element::F32)?;
        all = g.concat(&[&all, &c], 1)?;
    }
    let inputs = if kind.conditional { 12 } else { 10 };
    let weights: Vec<f32> = (0..PIXELS * inputs).map(|i| 2.0 * pseudo(i)).collect();
    let weight = g.constant("layer.weight", &[PIXELS, inputs], &weights)?;
    let bias = g.constant("layer.bias", &[PIXELS], &vec![0.1; PIXELS])?;
    let x = g.linear(&all, &weight, &bias)?;
    let x = g.sigmoid(&x)?;
    let [low, high] = kind.range;
    let (scale, shift) = (g.scalar((high - low) as f32), g.scalar(low as f32));
    let x = g.mul(&x, &scale)?;
    let x = g.add(&x, &shift)?;
    let [height, width, channels] = SIZE;
    let sides = match kind.layout {
        LayoutName::Nchw => [channels, height, width],
        LayoutName::Nhwc => [height, width, channels],
    };
    let x = g.reshape(&x, &sides)?;
    g.output(&x, "image")?;
    Ok(g.to_bytes())
}

fn classifier(kind: Kind) -> Result<Vec<u8>, Error> {
    let [height, width, channels] = SIZE;
    let mut g = GraphBuilder::new("judge");
    let x = g.input("x", &[channels, height, width], Element::F32)?;
    let x = g.flatten(&x)?;
    let weights = classifier_weights();
    let mut head = |name: &str, rows: std::ops::Range<usize>| {
        let count = rows.len();
        let values: Vec<f32> = weights[rows].concat();
        let weight = g.constant(&format!("{name}.weight"), &[count, PIXELS], &values)?;
        let bias = g.constant(&format!("{name}.bias"), &[count], &vec![0.0; count])?;
        let y = g.linear(&x, &weight, &bias)?;
        g.output(&y, name)
    };
    head("class_logits", 0..2)?;
    head("real_logit", 2..3)?;
    if kind.conditional {
        head("fake_class_logits", 3..5)?;
    }
    Ok(g.to_bytes())
}

fn manifest(kind: Kind) -> Manifest {
    let [height, width, channels] = SIZE;
    let shape = match kind.layout {
        LayoutName::Nchw => vec![channels, height, width],
        LayoutName::Nhwc => vec![height, width, channels],
    };
    let latent = |input: &str, shape: &[usize], prior| LatentEntry {
        input: input.to_owned(),
        shape: shape.to_vec(),
        prior,
    };
    Manifest {
        format: FORMAT,
        name: "pictures".to_owned(),
        labels: vec!["A".to_owned(), "B-c".to_owned()],
        describe: std::collections::BTreeMap::new(),
        labelling: LabellingEntry {
            model: LabellingModel::OneOf,
            weights: vec![1.0, 1.0],
            observed: vec![0.5, 0.5],
        },
        generator: GeneratorEntry {
            file: "generator.onnx".to_owned(),
            sha256: String::new(),
            latents: vec![
                latent("z", &[6], Prior::Normal),
                latent("u", &[2, 2], Prior::Uniform),
            ],
            class: kind.conditional.then(|| ClassEntry {
                input: "c".to_owned(),
                form: ClassForm::OneHot,
                prior: vec![0.5, 0.5],
            }),
            output: ItemEntry {
                name: "image".to_owned(),
                layout: Some(kind.layout),
                shape,
                range: Some(kind.range),
                bits: Some(kind.bits),
            },
        },
        classifier: ClassifierEntry {
            file: "classifier.onnx".to_owned(),
            sha256: String::new(),
            input: ItemEntry {
                name: "x".to_owned(),
                layout: Some(LayoutName::Nchw),
                shape: vec![channels, height, width],
                range: Some([-1.0, 1.0]),
                bits: None,
            },
            outputs: OutputsEntry {
                class: "class_logits".to_owned(),
                real: "real_logit".to_owned(),
                fake_class: kind.conditional.then(|| "fake_class_logits".to_owned()),
            },
            joint: None,
        },
        calibration: CalibrationEntry::default(),
        levels: None,
        paper: None,
        external: [].into(),
        provenance: Provenance::default(),
    }
}
