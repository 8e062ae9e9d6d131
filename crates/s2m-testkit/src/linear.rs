//! A bundle with any number of labels and hardly any arithmetic, for measuring what is around it.

use s2m_core::joint::LabelSets;
use s2m_model::Error;
use s2m_model::bundle;
use s2m_model::manifest::{JointEntry, Manifest};
use s2m_model::onnx::{Element, GraphBuilder};

use crate::exact::Files;

/// Points are twice their latents and class logits are their coordinates, so every joint class occurs.
pub fn linear(labels: usize) -> Files {
    let graphs = generator(labels + 1).and_then(|g| Ok((g, classifier(labels)?)));
    let (generator, classifier) = graphs.expect("the layers fit together");
    let names = (0..labels).map(|l| format!("L{l}")).collect();
    let manifest = Manifest::of_points("linear", names, labels + 1);
    bundle::files(&manifest, generator, classifier).expect("the manifest is text")
}

/// The same with an output per label set: its logits are further coordinates.
pub fn joint(sets: &LabelSets) -> Files {
    let labels = sets.labels();
    let size = labels + 1 + sets.outputs();
    let graphs = generator(size).and_then(|g| Ok((g, joint_classifier(sets)?)));
    let (generator, classifier) = graphs.expect("the layers fit together");
    let names = (0..labels).map(|l| format!("L{l}")).collect();
    let mut manifest = Manifest::of_points("joint", names, size);
    manifest.classifier.joint = Some(JointEntry::of("joint_logits", sets, Vec::new()));
    bundle::files(&manifest, generator, classifier).expect("the manifest is text")
}

fn joint_classifier(sets: &LabelSets) -> Result<Vec<u8>, Error> {
    let mut g = GraphBuilder::new("coordinates");
    let (labels, outputs) = (sets.labels(), sets.outputs());
    let x = g.input("x", &[labels + 1 + outputs], Element::F32)?;
    let class = g.slice(&x, 1, 0..labels)?;
    let real = g.slice(&x, 1, labels..labels + 1)?;
    let quarter = g.scalar(0.25);
    let real = g.mul(&real, &quarter)?;
    let joint = g.slice(&x, 1, labels + 1..labels + 1 + outputs)?;
    g.output(&class, "class_logits")?;
    g.output(&real, "real_logit")?;
    g.output(&joint, "joint_logits")?;
    Ok(g.to_bytes())
}

fn generator(size: usize) -> Result<Vec<u8>, Error> {
    let mut g = GraphBuilder::new("identity");
    let z = g.input("z", &[size], Element::F32)?;
    let two = g.scalar(2.0);
    let x = g.mul(&z, &two)?;
    g.output(&x, "x")?;
    Ok(g.to_bytes())
}

fn classifier(labels: usize) -> Result<Vec<u8>, Error> {
    let mut g = GraphBuilder::new("coordinates");
    let x = g.input("x", &[labels + 1], Element::F32)?;
    let class = g.slice(&x, 1, 0..labels)?;
    let quarter = g.scalar(0.25);
    let real = g.slice(&x, 1, labels..labels + 1)?;
    let real = g.mul(&real, &quarter)?;
    g.output(&class, "class_logits")?;
    g.output(&real, "real_logit")?;
    Ok(g.to_bytes())
}
